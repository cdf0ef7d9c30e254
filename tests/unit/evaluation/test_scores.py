"""Scores that people read: their yardstick, their order, and what is said first."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from understudy import evaluate as evaluate_tables
from understudy.data.holdout import HoldOut
from understudy.errors import DataError, WorkloadError
from understudy.evaluation import Comparison, Options, evaluate
from understudy.evaluation.distances import total_variation
from understudy.evaluation.levels import Levels
from understudy.evaluation.prediction import _Task
from understudy.evaluation.scores import MOST_VALUES, column_views, distances, expected_distance, triples_of
from understudy.schema import Schema
from understudy.schema.entities import Entity, EventColumns

SCHEMA = Schema.parse(
    """
columns:
  - {name: age, kind: integer, minimum: 0, maximum: 60, missing: true}
  - {name: sex, kind: categorical, values: [f, m]}
  - {name: ward, kind: categorical, values: [a, b, c, d]}
  - {name: ill, kind: boolean}
rules: ["age >= 5 or ill == false"]
"""
)


def people(rows: int, seed: int, *, law: bool = True) -> np.ndarray:
    """Illness goes with age in real tables, and with nothing where ``law`` is false."""
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 62, rows)
    ill = (age >= 5) & (age < 61) & (generator.random(rows) < (age / 60 if law else 0.5))
    return np.stack(
        [age, generator.integers(0, 2, rows), generator.integers(0, 4, rows), ill], axis=1
    ).astype(np.int64)


def zipf(cells: int, power: float) -> np.ndarray:
    weights = 1 / np.arange(1, cells + 1) ** power
    shares: np.ndarray = weights / weights.sum()
    return shares


@pytest.mark.parametrize(
    "shares",
    [[0.5, 0.5], [0.97, 0.02, 0.01], [1 / 300] * 300, zipf(20_000, 1.0), zipf(5_000, 0.5), [1e-5] * 100_000],
    ids=["half", "skewed", "many", "sparse", "sparser", "nearly all once"],
)
@pytest.mark.parametrize(("other", "within"), [(1000, 0.06), (300, 0.1), (5000, 0.13)])
def test_the_yardstick_is_what_two_samples_differ_by(
    shares: list[float] | np.ndarray, other: int, within: float
) -> None:
    """The mean of the simulated pairs of samples is known to 2 % or better. A yardstick that takes shares of rare cells as they are is 30 % off where most occur once."""
    generator = np.random.default_rng(1)
    pairs = 4000 if len(shares) < 1000 else 60
    real = [generator.multinomial(1000, shares) for _ in range(pairs)]
    simulated = np.mean([total_variation(a, generator.multinomial(other, shares)) for a in real])
    told = np.mean([expected_distance(a, other) for a in real])
    assert told == pytest.approx(simulated, rel=within)


def test_the_worst_comes_first_by_what_sampling_does_not_explain() -> None:
    both = Comparison(SCHEMA, people(3000, 1), people(3000, 2, law=False))
    found = distances(both, [("age", "ill"), ("sex", "ward"), ("ward", "ill")])
    assert found[0].columns == ("age", "ill")
    assert [item.beyond for item in found] == sorted((item.beyond for item in found), reverse=True)
    many = both.occurring(("age", "sex", "ward", "ill"))
    assert total_variation(*many) == total_variation(*both.counts(("age", "sex", "ward", "ill")))


def test_columns_show_the_values_that_differ_and_sum_up_the_rest() -> None:
    both = Comparison(SCHEMA, people(3000, 1), people(2000, 2))
    views = {item.name: item for item in column_views(both)}
    age = views["age"]
    assert len(age.values) == MOST_VALUES
    assert age.further[0] == 62 - MOST_VALUES
    assert sum(real for _, real, _ in age.values) + age.further[1] == pytest.approx(1)
    assert sum(made for _, _, made in age.values) + age.further[2] == pytest.approx(1)
    codes = both.real_codes[:, 0]
    assert age.mean is not None
    assert age.mean[0] == pytest.approx(codes[codes < 61].mean())
    assert age.missing is not None
    assert age.missing[0] == pytest.approx((codes == 61).mean())
    assert [label for label, _, _ in views["sex"].values] == ["f", "m"]
    assert views["sex"].mean is None


def test_every_score_says_what_it_is_and_unlike_things_stay_apart() -> None:
    made = people(2000, 2, law=False)
    made[:100, 0], made[:100, 3] = 1, 1  # five per cent break the rule
    found = evaluate(Comparison(SCHEMA, people(2000, 1), made), Options(target="ill", holdout=people(600, 3)))
    sections = [score.section for score in found.scores]
    assert sections == [
        "columns", "pairs", "triples", "learning", "rules", "rows", "telling apart", "dependence",
    ]  # fmt: skip
    for score in found.scores:
        assert score.name
        assert score.unit
        assert score.good
        assert score.better in ("lower", "higher", "closer")
    assert found.score("rules").value == pytest.approx(0.05, abs=0.02)
    assert found.score("learning").value < 0.7 < found.score("learning").reference  # type: ignore[operator]
    assert [item.kind for item in found.overview.worst] == ["columns", "pairs", "rules"]
    with pytest.raises(WorkloadError, match="no score for 'beauty'"):
        found.score("beauty")
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [item["section"] for item in document["scores"]] == sections
    assert document["columns"][0]["column"] == found.overview.columns[0].name
    assert document["other_tools"]["sdnist"]["k"] == 2


def test_a_choice_of_triples_is_said() -> None:
    names = [f"c{number}" for number in range(25)]
    schema = Schema.parse(json.dumps({"columns": [{"name": name, "kind": "boolean"} for name in names]}))
    codes = np.random.default_rng(1).integers(0, 2, (60, 25))
    found = evaluate(Comparison(schema, codes, codes), Options(sections=["marginals"])).overview
    assert (len(found.triples), found.triples_of) == (1000, 2300)
    assert len(set(triples_of(names))) == 1000
    assert len(found.pairs) == 300


def test_what_is_excluded_needs_a_target() -> None:
    both = Comparison(SCHEMA, people(50, 1), people(50, 2))
    with pytest.raises(WorkloadError, match="say which one"):
        evaluate(both, Options(exclude=["age"], sections=["learning"]))
    with pytest.raises(Exception, match="nothing"):
        evaluate(both, Options(target="ill", exclude=["nothing"], sections=["learning"]))


def test_frames_with_a_hold_out_from_python() -> None:
    codes = people(900, 4)
    frame = pd.DataFrame(
        {
            "age": pd.array([None if age == 61 else int(age) for age in codes[:, 0]], dtype="Int64"),
            "sex": np.array(["f", "m"])[codes[:, 1]],
            "ward": np.array(list("abcd"))[codes[:, 2]],
            "ill": codes[:, 3] == 1,
        }
    )
    division = HoldOut.of(frame, 0.3)
    found = evaluate_tables(
        frame, frame, schema=SCHEMA, target="ill", hold_out=division, sections=["learning", "other tools"]
    )
    assert found.learning is not None
    assert found.learning.fair
    kept = int(division.chosen(900).sum())
    assert (found.rows[0], found.learning.rows[2]) == (kept, 900 - kept)
    assert found.others is not None
    assert found.others.from_bins == ()
    same = evaluate_tables(frame, frame, schema=SCHEMA, hold_out=frame.iloc[:100], sections=["disclosure"])
    assert same.overview.compared["held_out_rows"] == 100
    with pytest.raises(DataError, match="another table"):
        evaluate_tables(frame.iloc[1:], frame, schema=SCHEMA, hold_out=division)
    with pytest.raises(DataError, match="cannot be read"):
        evaluate_tables([1, 2], frame, schema=SCHEMA)


def test_records_are_shown_by_no_repr() -> None:
    """A repr ends up in tracebacks, notebooks and logs."""
    schema = Schema.parse("columns: [{name: a, kind: integer, minimum: 0, maximum: 99999}]")
    records = np.full((3, 1), 71_717)
    both = Comparison(schema, records, records)
    parts = EventColumns.of(replace(schema, entity=Entity("who")))
    levels = Levels(parts, both, both, (71717.0, 71717.0), (71717.0, 71717.0))
    task = _Task(both, "a", records, records, records, records, records, 0)
    for shown in (both, Options(holdout=records, levels=levels), levels, task):
        assert "71717" not in repr(shown)
