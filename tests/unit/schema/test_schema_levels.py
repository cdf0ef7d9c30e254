"""Columns with levels: what a file may say, which values share a code, and which value a group becomes."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import numpy as np
import pytest

from understudy.errors import SchemaError
from understudy.schema import Categorical, Schema
from understudy.schema.columns.levels import Levels, Tree
from understudy.schema.files.yaml import parse_plain
from understudy.schema.hierarchies.shipped import SHIPPED, SHIPPED_LISTS, shipped_list, shipped_paths

WARDS = ("A1", "A2", "A3", "B1", "B2", "C1")
NESTED = {"surgery": {"general": ["A1", "A2"], "heart": ["A3"]}, "medicine": ["B1", "B2", "C1"]}


def column(**levels: object) -> Categorical:
    return Categorical("ward", values=WARDS, missing=True, out_of_domain="to-other", levels=levels)


def cut(groups: list[int], weights: list[float] | None = None) -> Categorical:
    return column(prefix=[1], cut=groups, weights=weights or [1.0] * len(groups))


def test_open_levels_leave_every_value_its_code() -> None:
    plain = Categorical("ward", values=WARDS, missing=True, out_of_domain="to-other")
    assert column(prefix=[1]).labels == plain.labels
    entries = ["C1", "A2", None, "nowhere"]
    assert column(prefix=[1]).encode(entries).tolist() == plain.encode(entries).tolist() == [5, 1, 7, 6]


@pytest.mark.parametrize(
    ("levels", "codes", "labels"),
    [
        ({"prefix": [1], "at": 1}, [0, 0, 0, 1, 1, 2], ("A", "B", "C1")),
        ({"groups": NESTED, "at": 1}, [0, 0, 0, 1, 1, 1], ("surgery", "medicine")),
        ({"groups": NESTED, "at": 2}, [0, 0, 1, 2, 2, 2], ("general", "A3", "medicine")),
        (
            {"groups": NESTED, "cut": [0, 1, 1, 2, 3, 3], "weights": [1] * 6},
            [0, 1, 1, 2, 3, 3],
            ("A1", "surgery (others)", "B1", "medicine (others)"),
        ),
        (
            {"prefix": [1], "cut": [0, 1, 2, 3, 2, 2], "weights": [1] * 6},
            [0, 1, 2, 3, 2, 2],
            ("A1", "A2", "all others", "B1"),
        ),
    ],
)
def test_values_share_the_code_of_their_group(
    levels: dict[str, object], codes: list[int], labels: tuple[str, ...]
) -> None:
    grouped = column(**levels)
    assert grouped.encode(list(WARDS)).tolist() == codes
    assert grouped.value_labels == labels
    assert grouped.labels == (*labels, "other", "missing")
    assert grouped.encode([None, "nowhere"]).tolist() == [len(labels) + 1, len(labels)]


def test_labels_of_groups_are_all_different() -> None:
    grouped = Categorical(
        "x",
        values=["a", "b", "c", "d", "e", "f"],
        levels={
            "groups": {"one": {"same": ["a", "b"]}, "two": {"same": ["c", "d"]}, "a": ["e", "f"]},
            "at": 1,
        },
    )
    assert grouped.value_labels == ("one / same", "two / same", "a")
    rest = Categorical(
        "x", values=["a", "b", "c", "d"], levels={"prefix": [9], "cut": [0, 0, 1, 1], "weights": [1] * 4}
    )
    assert rest.value_labels == ("all others", "all others (2)")


def test_a_drawn_value_has_the_code_it_was_drawn_for() -> None:
    generator = np.random.default_rng(8)
    for _ in range(200):
        numbers = generator.integers(0, 4, 6).tolist()
        weights = generator.choice([0.0, 0.0, 1.0, 2.5, 1e-7, 1e6], 6).tolist()
        known: dict[int, int] = {}
        grouped = cut([known.setdefault(number, len(known)) for number in numbers], weights)
        codes = generator.integers(0, grouped.size, int(generator.choice([0, 1, 2, 60]))).tolist()
        drawn = grouped.decode(codes, generator)
        assert grouped.encode(list(drawn)).tolist() == codes
        fine = grouped.values_within(codes, generator)
        assert grouped.finest.size == 8
        assert grouped.encode(list(grouped.finest.decode(fine, generator))).tolist() == codes


def test_values_occur_as_often_as_their_weights_say_give_or_take_one() -> None:
    grouped = cut([0, 0, 0, 1, 1, 2], [6.0, 3.0, 0.0, 1.0, 1.0, 0.0])
    drawn = grouped.decode([0] * 900 + [1] * 101 + [2] * 7, np.random.default_rng(3)).tolist()
    found = [drawn.count(ward) for ward in WARDS]
    assert abs(found[0] - 600) <= 1
    assert abs(found[1] - 300) <= 1
    assert found[2] == 0
    assert abs(found[3] - 50.5) <= 1
    assert found[5] == 7
    assert drawn[:900] != sorted(drawn[:900])  # in random order


def test_a_group_without_weights_is_even() -> None:
    drawn = cut([0, 0, 0, 1, 1, 2], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]).decode(
        [0] * 300, np.random.default_rng(0)
    )
    assert [drawn.tolist().count(ward) for ward in WARDS[:3]] == [100, 100, 100]


def test_the_column_before_and_below_its_groups() -> None:
    grouped = cut([0, 0, 0, 1, 1, 1])
    assert grouped.uncut.labels == grouped.finest.labels == (*WARDS, "other", "missing")
    assert grouped.uncut.levels == Levels(prefix=(1,))
    fixed = column(prefix=[1], at=1)
    assert fixed.uncut is fixed
    assert fixed.finest.labels == (*WARDS, "other", "missing")


@pytest.mark.parametrize(
    "levels",
    [
        {"prefix": [1, 2]},
        {"prefix": [1], "at": 1},
        {"groups": NESTED, "within": "even", "share": 0.2, "most": 5},
        {"prefix": [1], "cut": [0, 0, 0, 1, 1, 1], "weights": [0.5, 0.25, 0, 1, 1, 1]},
    ],
)
def test_levels_are_written_and_read_back(levels: dict[str, object]) -> None:
    schema = Schema([column(**levels)])
    assert Schema.parse(schema.to_yaml()) == schema
    assert Schema.from_dict(schema.to_dict()).fingerprint() == schema.fingerprint()
    jsonschema.validate(schema.to_dict(), Schema.json_schema())
    jsonschema.validate(parse_plain(schema.to_yaml()), Schema.json_schema())


def test_a_schema_without_levels_is_written_as_before() -> None:
    plain = Schema([Categorical("ward", values=WARDS)])
    assert plain.to_dict()["columns"] == [{"name": "ward", "kind": "categorical", "values": list(WARDS)}]
    assert (
        plain.fingerprint()
        != Schema([Categorical("ward", values=WARDS, levels={"prefix": [1]})]).fingerprint()
    )


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({}, "write one of prefix"),
        ({"prefix": [1], "groups": NESTED}, "write one of prefix"),
        ({"prefix": [3, 1]}, "ascending"),
        ({"prefix": [0]}, "ascending"),
        ({"prefix": "1"}, "ascending"),
        ({"prefix": [1], "at": 2}, "there are 1 levels"),
        ({"prefix": [1], "at": 0}, "at: write the number"),
        ({"prefix": [1], "share": 0}, "share"),
        ({"prefix": [1], "share": 0.6}, "share"),
        ({"prefix": [1], "most": 1}, "most"),
        ({"prefix": [1], "within": "evenly"}, "within"),
        ({"prefx": [1]}, "Did you mean 'prefix'?"),
        ({"shipped": "icd10"}, "Did you mean 'icd-10'?"),
        ({"shipped": "icd-10"}, "'A1', 'A2', 'A3'"),
        ({"groups": {"x": ["A1"]}}, "are in no group"),
        ({"groups": {**NESTED, "more": ["D1"]}}, "not among the values"),
        ({"groups": {**NESTED, "more": ["A1"]}}, "in two groups"),
        ({"groups": {"x": {}}}, "groups"),
        ({"groups": {"x": "A1"}}, "groups"),
        ({"prefix": [1], "cut": [0, 0, 0, 1, 1, 1]}, "belong together"),
        ({"prefix": [1], "cut": [0, 0, 0, 2, 2, 2], "weights": [1] * 6}, "number groups from 0"),
        ({"prefix": [1], "cut": [0, 0], "weights": [1, 1]}, "one number for each value"),
        ({"prefix": [1], "cut": [0] * 6, "weights": [1, 1, 1, 1, 1, -1]}, "not negative"),
        ({"prefix": [1], "cut": [0] * 6, "weights": [1, 1, 1, 1, 1, float("nan")]}, "not negative"),
    ],
)
def test_wrong_levels_are_refused_with_the_place(levels: dict[str, object], said: str) -> None:
    with pytest.raises(SchemaError) as error:
        column(**levels)
    assert "levels: " in str(error.value)
    assert said in str(error.value)


def test_groups_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "wards.csv").write_text(
        "A1,general,surgery\nA2,general,surgery\nA3,heart,surgery\nB1,ward B,medicine\n", encoding="utf-8"
    )
    text = "columns: [{name: ward, kind: categorical, values: [A1, A2, A3, B1], levels: {file: wards.csv, at: 2}}]"
    (tmp_path / "schema.yaml").write_text(text, encoding="utf-8")
    schema = Schema.read(tmp_path / "schema.yaml")
    assert schema.column("ward").labels == ("general", "A3", "B1")
    assert Schema.parse(schema.to_yaml()) == schema
    with pytest.raises(SchemaError, match="can be named in a schema file only"):
        Schema.parse(text)
    (tmp_path / "wards.csv").write_text("A1,general\nA2\n", encoding="utf-8")
    with pytest.raises(SchemaError, match="same number of columns"):
        Schema.read(tmp_path / "schema.yaml")


# -- rules ---------------------------------------------------------------------------------------------


def test_a_rule_about_values_is_judged_by_groups() -> None:
    text = """
columns:
  - {name: ward, kind: categorical, values: [A1, A2, B1], levels: {prefix: [1], at: 1}}
  - {name: child, kind: boolean}
constraints:
  - {rule: "not (ward == 'A1' and child)", straddle: STRADDLE}
"""
    allow, forbid = (Schema.parse(text.replace("STRADDLE", word)) for word in ("allow", "forbid"))
    assert allow.constraints[0].allowed(allow.domain).tolist() == [[True, True], [True, True]]
    assert forbid.constraints[0].allowed(forbid.domain).tolist() == [[True, False], [True, True]]
    raw = {"ward": ["A1", "A2", "B1"], "child": [True, True, True]}
    assert allow.holds_raw(raw).tolist() == [False, True, True]


# -- what comes with the program ------------------------------------------------------------------------


def test_shipped_classifications_are_whole() -> None:
    codes = [f"{letter}{number:02d}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" for number in range(100)]
    known = []
    for code in codes:
        try:
            known.append(shipped_paths("icd-10", [code])[0])
        except SchemaError:
            continue
    assert len({path[0] for path in known}) == 22
    assert all(path[2] in codes for path in known)
    assert len(known) > 2_000
    assert len(shipped_list("nace-2-divisions")) == 88
    assert len({path[0] for path in shipped_paths("nace-2", shipped_list("nace-2-divisions"))}) == 21
    for name in ("iso-3166-alpha-2", "iso-3166-alpha-3"):
        countries = shipped_list(name)
        assert len(countries) == len(set(countries)) == 249
        assert len({path[0] for path in shipped_paths("iso-3166", countries)}) == 6
    assert set(SHIPPED_LISTS) == {"iso-3166-alpha-2", "iso-3166-alpha-3", "nace-2-divisions"}
    assert set(SHIPPED) == {"icd-10", "nace-2", "iso-3166"}


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("icd-10", "E11.9", ("IV", "E10-E14", "E11")),
        ("icd-10", "E119", ("IV", "E10-E14", "E11")),
        ("icd-10", "B20", ("I", "B20-B24", "B20")),
        ("icd-10", "Y05", ("XX", "X85-Y09", "Y05")),
        ("icd-10", "M1A.0", ("XIII", "M05-M14", "M1A")),
        ("nace-2", "01.11", ("A", "01")),
        ("nace-2", "9900", ("U", "99")),
        ("iso-3166", "NO", ("Europe", "Northern Europe")),
        ("iso-3166", "NOR", ("Europe", "Northern Europe")),
    ],
)
def test_a_code_is_found_in_its_classification(name: str, value: str, path: tuple[str, ...]) -> None:
    assert shipped_paths(name, [value]) == (path,)


@pytest.mark.parametrize(
    ("name", "value"),
    [("icd-10", "250.00"), ("icd-10", "E1"), ("nace-2", "04"), ("nace-2", "A01"), ("iso-3166", "NOX")],
)
def test_a_code_that_is_in_no_classification_is_named(name: str, value: str) -> None:
    with pytest.raises(SchemaError, match=value):
        shipped_paths(name, [value])


def test_a_tree_shows_no_group_as_long_as_nothing_was_chosen() -> None:
    assert Tree.of(Levels(prefix=(1,)), WARDS).group is None
