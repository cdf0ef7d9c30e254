"""The number of records between a sum and its limit: exact, never too large, and moved by one record by at most one."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.privacy import Unit
from understudy.release import RecordTypes, RegressionCoefficients, largest_moves
from understudy.release.regressions import certificates
from understudy.release.regressions.certificates import STEPS, Conditions, Tails, as_slack, whole_sums
from understudy.release.regressions.fits import Feature, Regression
from understudy.schema import Domain

RANGES = {
    "both sides": (-2.0, 3.0),
    "mostly below": (-5.0, 1e-4),
    "mostly above": (-1e-4, 5.0),
    "below zero": (-3.0, -1.0),
    "above zero": (1.0, 4.0),
}


def _slack(conditions: Conditions, steps: np.ndarray, limit: float) -> int:
    """Return the slack of a table whose records contribute so many steps to one condition."""
    rows = steps.reshape(-1, 1).astype(np.int64)
    many = np.ones(len(rows), dtype=np.int64)
    tails = Tails.none(conditions).with_records(rows, many)
    return int(tails.slacks(conditions, np.array([limit]), whole_sums(many, rows))[0])


def _table(conditions: Conditions, generator: np.random.Generator) -> np.ndarray:
    """Return the contributions of some records: extremes, zeros, and numbers between, within the range."""
    bottom = int(conditions.bottom[0])
    kinds = [bottom, 0, bottom + STEPS, bottom // 2, bottom + STEPS - 1, -1, 1]
    drawn = generator.integers(bottom, bottom + STEPS + 1, generator.integers(0, 9))
    return np.clip(np.concatenate([drawn, generator.choice(kinds, 4)]), bottom, bottom + STEPS)


@pytest.mark.parametrize("finest", [20, 27, 29, 30], ids=lambda bits: f"{1 << (30 - bits)} levels")
@pytest.mark.parametrize("name", RANGES)
def test_no_record_moves_a_distance_by_more_than_one(
    name: str, finest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that are added, removed and replaced, extremes first, near the limit and far from it; some pairs attain the claim."""
    monkeypatch.setattr(certificates, "_FINEST", finest)
    conditions = Conditions.between([RANGES[name][0]], [RANGES[name][1]])
    generator, largest = np.random.default_rng(3), 0
    bottom = int(conditions.bottom[0])
    for _ in range(40):
        table = _table(conditions, generator)
        new = np.unique(
            np.clip([bottom, bottom + STEPS, 0, -1, int(generator.integers(bottom, bottom + STEPS + 1))],
                    bottom, bottom + STEPS)
        )  # fmt: skip
        away = np.concatenate([generator.uniform(-6, 6, 4), [0.0, 1.0, -1.0]])
        for limit in (table.sum() / STEPS + away) * float(conditions.width[0]):
            before = _slack(conditions, table, limit)
            spot = int(generator.integers(len(table)))
            left = np.delete(table, spot)
            others = [left, *(np.append(rest, record) for record in new for rest in (left, table))]
            moves = [abs(before - _slack(conditions, other, limit)) for other in others]
            largest = max(largest, *moves)
            assert max(moves) <= STEPS
    assert largest == STEPS


@pytest.mark.parametrize("name", RANGES)
def test_a_distance_is_never_larger_than_the_true_one_nor_smaller_than_by_the_range(name: str) -> None:
    """The true one by trying: the lowest records replaced by the highest possible one until the limit is reached."""
    low, high = RANGES[name]
    conditions = Conditions.between([low], [high])
    top = int(conditions.bottom[0]) + STEPS
    generator, gained = np.random.default_rng(4), 0
    for _ in range(200):
        table = _table(conditions, generator)
        limit = (table.sum() / STEPS + generator.uniform(-3, 8)) * float(conditions.width[0])
        bound, total = int(conditions.limits(np.array([limit]))[0]), int(table.sum())
        found = _slack(conditions, table, limit)
        plain = int(conditions.slacks(np.array([limit]), np.array([total]))[0])
        if abs(plain) >= certificates._ENDLESS:
            assert found == plain
            continue
        assert (found > 0) == (total < bound)
        if total >= bound:
            continue
        lowest = [*np.sort(table[table < 0]).tolist(), *[0] * 100][:100]
        reached, steps = total, 0
        while reached < bound and steps < 100:
            reached += max(top, 0) - lowest[steps]
            steps += 1
        assert plain <= found <= steps * STEPS or steps == 100
        gained += found - plain > STEPS
    assert gained or name != "both sides"


@pytest.mark.parametrize("name", RANGES)
def test_a_distance_in_a_large_table_is_not_smaller_than_by_the_range(name: str) -> None:
    """Records at the ends of the range, of which levels take away a little more than they contribute."""
    conditions = Conditions.between([RANGES[name][0]], [RANGES[name][1]])
    steps, many = conditions.steps(np.array(RANGES[name])[:, None]), np.array([100_000, 100_000])
    tails, total = Tails.none(conditions).with_records(steps, many), whole_sums(many, steps)
    one_less, one_more = (
        (Tails.none(conditions).with_records(steps, other), whole_sums(other, steps))
        for other in (many - np.array([1, 0]), many + np.array([1, 0]))
    )
    for away in (-1.0, 0.1, 0.5, 0.9, 1.5):
        limit = np.array([(total[0] / STEPS + away * many[0]) * float(conditions.width[0])])
        found = int(tails.slacks(conditions, limit, total)[0])
        plain = int(conditions.slacks(limit, total)[0])
        assert found >= plain
        assert (found > 0) == (plain > 0)
        if abs(found) < certificates._ENDLESS:
            others = [int(other.slacks(conditions, limit, sums)[0]) for other, sums in (one_less, one_more)]
            assert max(abs(found - other) for other in others) <= STEPS


def test_far_distances_end_at_the_same_number() -> None:
    """A thousand million rows far from a limit: whole numbers of 64 bits hold, and the cut is the same on both sides."""
    conditions = Conditions.between([-1.0], [1.0])
    steps, many = conditions.steps(np.array([[-1.0], [1.0]])), np.array([1 << 40, 1 << 40])
    tails = Tails.none(conditions).with_records(steps, many)
    total = whole_sums(many, steps)
    far = [as_slack(tails.slacks(conditions, np.array([limit]), total)[0]) for limit in (1e300, -1e300)]
    assert far == [1 << 29, 1 - (1 << 29)]


def test_records_that_are_there_give_a_regression_more_slack() -> None:
    """The possible records reach far beyond those of the table: the range alone would count each as if it lay at its end."""
    size = 41
    domain = Domain(("x", "y"), (size, size))
    values = tuple(float(code) for code in range(size))
    regression = Regression(Feature("y", values), (Feature("x", values),))
    generator = np.random.default_rng(5)
    x = np.clip(np.rint(generator.normal(20, 3, 4_000)), 0, size - 1)
    y = np.clip(np.rint(x + generator.normal(0, 2, 4_000)), 0, size - 1)
    real = RecordTypes.from_rows(domain, np.stack([x, y], axis=1).astype(np.int64))
    criterion = RegressionCoefficients(name="line", threshold=2.0, regression=regression)
    scaling = regression.scaling(real)
    assert scaling is not None
    fit = regression.fit(real, scaling)
    assert fit is not None
    certificate = certificates.Certificate.build(regression, real, scaling, fit, real.rows)
    limits = np.full(len(certificate.signs), 4_000 * 2.0)
    by_range = certificate.residual.slacks(limits, certificate.residual_total).min()
    by_records = certificate.residual_tails.slacks(
        certificate.residual, limits, certificate.residual_total
    ).min()
    assert by_records > 1.1 * by_range
    assert criterion.slack(real, real) > 0
    moves = largest_moves(criterion, domain, unit=Unit.replace_one(), pairs=40)
    assert moves.slack <= 1


def test_sums_of_parts_of_a_table_do_not_end_where_64_bits_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the sums of several parts were added in 64 bits: in a table of more than eight billion records they came round at the other end."""
    domain = Domain(("x", "y"), (3, 3))
    values = (0.0, 1.0, 2.0)
    regression = Regression(Feature("y", values), (Feature("x", values),))
    public = RecordTypes(domain, [[0, 0], [1, 1], [2, 2]], [100, 100, 100])
    scaling = regression.scaling(public)
    assert scaling is not None
    fit = regression.fit(public, scaling)
    assert fit is not None
    codes = [[x, y] for x in range(3) for y in range(3)]
    real = RecordTypes(domain, codes, [1, 1, 1 << 35, 1, 1, 1 << 35, 1, 1, 1 << 35])

    def found() -> certificates.Certificate:
        return certificates.Certificate.build(regression, real, scaling, fit, public.rows)

    whole = found()
    monkeypatch.setattr(certificates, "_BLOCK", 1)
    parts = found()
    for one, other in (
        (whole.residual_total, parts.residual_total),
        (whole.gram_total, parts.gram_total),
    ):
        assert (np.sign(one) == np.sign(other)).all()
        assert (np.minimum(np.abs(one), np.abs(other)) >= np.minimum(np.abs(one), 1 << 60)).all()
