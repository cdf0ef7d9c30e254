"""Train on synthetic, test on real: on tables whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.errors import WorkloadError
from understudy.evaluation import Comparison
from understudy.evaluation.prediction import LEARNERS, area_under_curve, learning
from understudy.schema import Schema

SCHEMA = Schema.parse(
    """
columns:
  - {name: x, kind: integer, minimum: 0, maximum: 99, missing: true}
  - {name: group, kind: categorical, values: [a, b, c]}
  - {name: leak, kind: categorical, values: [one, two, three, four]}
  - {name: y, kind: boolean}
  - {name: three, kind: categorical, values: [low, middle, high]}
"""
)


def table(rows: int, seed: int, *, related: bool = True) -> np.ndarray:
    """y follows x with an area under the curve of about 5/6; the leak tells y."""
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 101, rows)
    number = np.where(x == 100, generator.integers(0, 100, rows), x)
    y = generator.random(rows) < number / 100
    y = y if related else generator.permutation(y)
    leak = np.where(y, generator.integers(0, 2, rows), generator.integers(2, 4, rows))
    three = np.clip(number // 34 + generator.integers(-1, 2, rows) * (generator.random(rows) < 0.3), 0, 2)
    return np.stack([x, generator.integers(0, 3, rows), leak, y, three], axis=1).astype(np.int64)


def both(related: bool = True) -> Comparison:
    return Comparison(SCHEMA, table(3000, 1), table(3000, 2, related=related))


def test_the_area_is_the_chance_of_the_right_order() -> None:
    generator = np.random.default_rng(3)
    truth, scores = generator.random(400) < 0.3, np.round(generator.random(400), 1)
    pairs = np.subtract.outer(scores[truth], scores[~truth])
    by_hand = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
    assert area_under_curve(truth, scores) == pytest.approx(by_hand, abs=1e-12)
    metrics = pytest.importorskip("sklearn.metrics")
    assert area_under_curve(truth, scores) == pytest.approx(metrics.roc_auc_score(truth, scores), abs=1e-12)
    with pytest.raises(WorkloadError, match="rows of others"):
        area_under_curve(np.ones(3, bool), np.zeros(3))


def test_good_rows_teach_and_shuffled_ones_do_not() -> None:
    held = table(3000, 3)
    good = learning(both(), "y", holdout=held, exclude=["leak"])
    bad = learning(both(related=False), "y", holdout=held, exclude=["leak"])
    assert [item.learner for item in good.learned] == list(LEARNERS)
    for item in good.learned:
        assert 0.78 < item.real < 0.88
        assert abs(item.loss) < 0.04
        assert 0.005 < item.error < 0.02
    for item in bad.learned:
        assert item.loss > 0.2
    assert good.fair
    assert good.leaks == ()
    assert good.majority == pytest.approx(max(held[:, 3].mean(), 1 - held[:, 3].mean()))
    assert good.rows == (3000, 3000, 3000)


def test_a_column_that_gives_the_target_away_is_pointed_out() -> None:
    found = learning(both(), "y", holdout=table(2000, 3))
    assert [leak.column for leak in found.leaks] == ["leak"]
    assert found.leaks[0].alone > 0.999
    assert found.learned[0].real > 0.999
    assert 0.75 < found.leaks[0].without < 0.9
    assert found.without_leaks[0].real == pytest.approx(found.leaks[0].without)
    without = learning(both(), "y", holdout=table(2000, 3), exclude=["leak"])
    assert without.excluded == ("leak",)
    assert not without.without_leaks
    assert without.learned[0].synthetic == pytest.approx(found.without_leaks[0].synthetic)


def test_several_classes_and_numbers_have_curves_too() -> None:
    classes = learning(both(), "three", holdout=table(2000, 3), exclude=["leak"])
    assert classes.classes == 3
    assert 0.75 < classes.learned[0].synthetic < 0.97
    number = learning(both(), "x", holdout=table(2000, 3))
    assert number.question == "whether x is above its median"
    assert number.classes == 2
    assert number.learned[0].synthetic > 0.8


def test_without_a_hold_out_it_says_so() -> None:
    found = learning(both(), "y")
    assert not found.fair
    assert found.rows == (3000, 2000, 1000)


def test_a_synthetic_table_without_a_class_scores_as_guessing() -> None:
    made = table(3000, 2)
    made[:, 3] = 0
    found = learning(Comparison(SCHEMA, table(3000, 1), made), "y", holdout=table(1000, 3), exclude=["leak"])
    for item in found.learned:
        assert item.synthetic == 0.5
        assert item.real > 0.7


def test_what_cannot_be_learnt_is_refused() -> None:
    wide = Schema.parse(
        f"columns: [{{name: a, kind: categorical, values: {[str(n) for n in range(30)]}}}, {{name: b, kind: boolean}}]"
    )
    codes = np.stack([np.arange(300) % 30, np.arange(300) % 2], axis=1)
    with pytest.raises(WorkloadError, match="too many"):
        learning(Comparison(wide, codes, codes), "a")
    with pytest.raises(WorkloadError, match="not excluded"):
        learning(Comparison(wide, codes, codes), "b", exclude=["a"])
    with pytest.raises(WorkloadError, match="rows of each kind"):
        learning(Comparison(wide, codes[:30], codes), "b")
    codes[:, 1] = 0
    with pytest.raises(WorkloadError, match="two classes"):
        learning(Comparison(wide, codes, codes), "b")
    with pytest.raises(WorkloadError, match="No learner"):
        learning(both(), "y", learners=["oracle"])
