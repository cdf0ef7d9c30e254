"""Values that hardly any record has: not listed where text is free, marked where it is not, and declared by their owner's word alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from understudy.data.drafting.draft import draft, draft_schema
from understudy.errors import DomainNotPublic, SchemaError
from understudy.release.spec.spec import Spec
from understudy.schema import Categorical, Schema


def _remarks(rows: int = 4_000) -> list[str]:
    rng = np.random.default_rng(5)
    common = np.array(["late arrival", "extra bed", "vegetarian", "needs parking"])
    return [
        f"{word} ref {rng.integers(10**6)}" if rng.random() < 0.3 else word
        for word in rng.choice(common, rows)
    ]


def test_free_text_is_not_listed_word_for_word() -> None:
    column = draft_schema(pd.DataFrame({"remark": _remarks()})).column("remark")
    assert set(column.values) == {"late arrival", "extra bed", "vegetarian", "needs parking"}
    assert column.out_of_domain == "to-other"


def test_text_without_frequent_values_is_left_out() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"note": [f"word {k}" for k in rng.integers(0, 900, 3_000)], "sex": ["m", "f"] * 1_500}
    )
    drafted = draft_schema(frame)
    assert "note" in dict(drafted.left_out)


def test_codes_are_kept_as_far_as_they_are_common() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"agent": rng.integers(1, 300, 20_000)})
    assert len(draft_schema(frame).column("agent").values) >= 290


def test_no_code_lies_apart_from_the_others() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"room_code": rng.choice([101, 102, 205, 310, 999], 2_000), "length": rng.integers(1, 40, 2_000)}
    )
    frame.loc[:30, "length"] = 999
    drafted = draft_schema(frame)
    assert 999 in drafted.column("room_code").values
    assert drafted.column("length").missing


def test_the_mark_of_a_draft_is_private_and_goes_away_with_it() -> None:
    made = draft(pd.DataFrame({"diagnosis": ["flu"] * 90 + ["plague", "Ebola (Mr Smith)"]}))
    column = made.schema.column("diagnosis")
    assert set(column.rare_values) == {"plague", "Ebola (Mr Smith)"}
    assert column.declare_public().description == ""
    by_hand = Schema((Categorical("diagnosis", values=column.values, description=column.description),))
    with pytest.raises(DomainNotPublic, match="rare values"):
        by_hand.require_public()
    assert "rare values" in by_hand.facts_from_data()[0]
    fewer = Categorical("diagnosis", values=("flu", "plague"), description=column.description)
    assert fewer.rare_values == ("plague",)
    assert Categorical("diagnosis", values=("flu", "cold"), description=column.description).rare_values == ()


def test_a_specification_does_not_take_a_schema_that_holds_the_mark() -> None:
    """Before, it was refused by the fit alone: a design, an agreement and the specification to be published could show the rare values."""
    column = draft(pd.DataFrame({"diagnosis": ["flu"] * 90 + ["plague", "Ebola (Mr Smith)"]})).schema.columns[
        0
    ]
    plain = {
        "name": "wards",
        "source": {"table": "wards"},
        "schema": {"columns": [{"name": "diagnosis", "kind": "categorical", "values": list(column.values)}]},
        "unit": {"relation": "replace-one"},
        "synthesizers": [{"method": "independent"}],
        "acceptance": {
            "form": "pass-only",
            "epsilon": 1.0,
            "criteria": [{"name": "all", "kind": "max-marginal-error", "orders": [1], "threshold": 0.4}],
        },
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 3.0}, "model": {"epsilon": 1.0}},
    }
    Spec.from_dict(plain)
    plain["schema"]["columns"][0]["description"] = column.description
    with pytest.raises(SchemaError, match="the mark of its rare values") as refused:
        Spec.from_dict(plain)
    assert "Smith" not in str(refused.value)


def test_many_rare_values_fit_into_the_mark(tmp_path: Path) -> None:
    values = [f"{k:03d} {'long text ' * 15}" for k in range(95)]
    made = draft(pd.DataFrame({"x": values + ["common"] * 500}))
    made.schema.write(tmp_path / "draft.yaml")
    assert Schema.read(tmp_path / "draft.yaml").column("x").rare_values


def test_rare_values_without_room_in_the_mark_still_need_consent() -> None:
    """Before, whoever took out the values that the mark names could declare the others, which are as rare."""
    values = [f"{k:03d} {'long text ' * 15}" for k in range(95)]
    column = draft(pd.DataFrame({"x": values + ["common"] * 500})).schema.column("x")
    named = set(column.rare_values)
    assert len(named & set(column.values)) < 95
    rest = tuple(value for value in column.values if value not in named)
    assert Categorical("x", values=rest, description=column.description).rare_values != ()


@pytest.mark.parametrize(
    "entries",
    [
        ["flu"] * 20 + ["Ebola (Mr Smith)"] * 2,
        ["20-29"] * 60 + ["30-39"] * 60 + ["110-119"],
        [1.5] * 300 + [2.5] * 300 + [187.25],
        ["Mr Smith"] * 9,
    ],
    ids=["a small table", "intervals", "numbers", "one value"],
)
def test_rare_values_are_marked_in_every_list(entries: list[object]) -> None:
    """Before, the mark was for texts without an order in tables of fifty and more rows."""
    column = draft(pd.DataFrame({"x": entries, "y": np.arange(len(entries)) % 2})).schema.column("x")
    assert str(entries[-1]) in column.rare_values


def test_values_that_are_common_are_not_marked() -> None:
    frame = pd.DataFrame({"x": ["a", "b"] * 10, "y": [1.5, 187.25] * 10, "z": ["20-29", "30-39"] * 10})
    assert not any(column.is_marked_rare for column in draft(frame).schema.columns)


def test_texts_of_digits_are_quoted_alike(tmp_path: Path) -> None:
    Schema((Categorical("postcode", values=("01001", "01084", "10048")),)).write(tmp_path / "s.yaml")
    assert "['01001', '01084', '10048']" in (tmp_path / "s.yaml").read_text(encoding="utf-8")


def test_remarks_agree_with_their_number() -> None:
    remarks = dict(draft(pd.DataFrame({"agent": ["NA", "NULL", *"abcdefgh"] * 40})).remarks)
    assert "'NA' and 'NULL' (20 % of the entries) are proposed as missing" in remarks["agent"]


def test_declaring_from_python_asks_for_consent_about_rare_values() -> None:
    drafted = draft_schema(pd.DataFrame({"diagnosis": ["flu"] * 90 + ["plague", "Ebola (Mr Smith)"]}))
    with pytest.raises(SchemaError, match=r"'diagnosis' \(2\).*rare_are_public=True") as raised:
        drafted.declare_public()
    assert "Smith" not in str(raised.value)
    assert drafted.declare_public(rare_are_public=True).facts_from_data() == ()
    common = draft_schema(pd.DataFrame({"diagnosis": ["flu"] * 90 + ["cold"] * 90}))
    assert common.declare_public().facts_from_data() == ()
