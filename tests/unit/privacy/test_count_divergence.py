"""What redrawn counts reveal, against brute force: both directions, both relations, all counts, several rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from understudy.errors import BudgetError
from understudy.privacy import Unit
from understudy.privacy.count_models.divergence import (
    hockey_stick,
    one_cell,
    probabilistic_delta,
    probabilities,
    true_delta,
    two_cells,
)
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.count_models.solving import released_delta

ROW, REPLACED = Unit.add_remove(), Unit.replace_one()
LAWS = [
    CountLaw("poisson", 0.4),
    CountLaw("poisson", 6.0),
    CountLaw("negative-binomial", 0.4, 0.3),
    CountLaw("negative-binomial", 3.0, 2.0),
    CountLaw("poisson-inverse-gaussian", 2.0, 0.5),
    CountLaw("delaporte", 2.0, 1.0, 0.4),
    CountLaw("sichel", 2.0, 0.5, -3.0),
]
IDS = [f"{law.family} {law.alpha:g}" for law in LAWS]


def stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(0, p - math.exp(epsilon) * q).sum())


def cells(law: CountLaw, *counts: int) -> list[np.ndarray]:
    found = probabilities(law, np.array([count + law.alpha for count in counts]))
    return list(found.values)


def test_the_numbers_of_the_corrections_page() -> None:
    assert probabilistic_delta(CountLaw("poisson", 0.1), 3.0) == pytest.approx(0.301, abs=5e-4)
    assert true_delta(CountLaw("poisson", 0.1), 3.0, ROW) == pytest.approx(0.207, abs=5e-4)
    assert probabilistic_delta(CountLaw("poisson", 1.0), 2.0) == pytest.approx(0.0527, abs=5e-5)
    assert true_delta(CountLaw("poisson", 1.0), 2.0, ROW) == pytest.approx(0.0256, abs=5e-5)


def test_the_text_of_the_paper_contradicts_its_formula() -> None:
    """'(1.5, 0.6)' for alpha=.1: equation (9) gives .301 there too, because both bands end at the same count."""
    assert probabilistic_delta(CountLaw("poisson", 0.1), 1.5) == pytest.approx(0.301, abs=5e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_the_emptiest_cell_is_the_worst(law: CountLaw, epsilon: float) -> None:
    """The theorem: both divergences fall as the count grows. A mechanism with a worse count would be undercharged."""
    ups, downs = zip(*(one_cell(law, epsilon, count=count) for count in range(40)), strict=True)
    for values in (ups, downs):
        assert all(b <= a * (1 + 1e-9) + 1e-15 for a, b in itertools.pairwise(values))
    assert true_delta(law, epsilon, ROW) == max(ups[0], downs[0])


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5])
@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_one_cell_by_enumeration(law: CountLaw, epsilon: float) -> None:
    fewer, more = cells(law, 0, 1)
    expected = max(stick(more, fewer, epsilon), stick(fewer, more, epsilon))
    assert expected <= true_delta(law, epsilon, ROW) <= expected * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5])
@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_two_cells_by_enumeration(law: CountLaw, epsilon: float) -> None:
    """Replacing a row: all pairs of outputs of the two cells, and no fuller pair of cells is worse."""
    fewer, more = cells(law, 0, 1)
    p, q = np.outer(more, fewer), np.outer(fewer, more)
    expected = stick(p, q, epsilon)
    claimed = true_delta(law, epsilon, REPLACED)
    assert expected * (1 - 1e-9) <= claimed <= expected * (1 + 1e-6) + 1e-12
    assert stick(q, p, epsilon) == pytest.approx(expected, rel=1e-9)
    for one, other in ((0, 3), (3, 0), (2, 2), (7, 1)):
        a = np.outer(cells(law, one, one + 1)[1], cells(law, other, other + 1)[0])
        b = np.outer(cells(law, one, one + 1)[0], cells(law, other, other + 1)[1])
        assert max(stick(a, b, epsilon), stick(b, a, epsilon)) <= claimed * (1 + 1e-9)


def test_replacement_is_not_two_additions() -> None:
    """A wrong answer this must catch: charging a replaced row like an added one."""
    law = CountLaw("poisson", 3.0)
    assert true_delta(law, 1.0, REPLACED) > 2 * true_delta(law, 1.0, ROW)


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_units_of_two_rows_by_enumeration(law: CountLaw, epsilon: float) -> None:
    """Two rows in one cell, or spread over two: the claim covers both, under both relations."""
    claimed = true_delta(law, epsilon, Unit.add_remove_person("id", max_rows=2))
    zero, one, two = cells(law, 0, 1, 2)
    spread, empty = np.outer(one, one), np.outer(zero, zero)
    worst = max(
        stick(two, zero, epsilon),
        stick(zero, two, epsilon),
        stick(spread, empty, epsilon),
        stick(empty, spread, epsilon),
    )
    assert worst <= claimed * (1 + 1e-9)
    if law.family == "poisson":  # exact, not only safe
        assert claimed == pytest.approx(worst, rel=1e-6)
    replaced = true_delta(law, epsilon, Unit.replace_person("id", max_rows=2))
    assert stick(np.outer(two, zero), np.outer(zero, two), epsilon) <= replaced * (1 + 1e-9)
    quarter = zero[:60], one[:60], two[:60]
    a = np.einsum("i,j,k->ijk", quarter[2], quarter[0], quarter[0])
    b = np.einsum("i,j,k->ijk", quarter[0], quarter[1], quarter[1])
    assert max(stick(a, b, epsilon), stick(b, a, epsilon)) <= replaced * (1 + 1e-9)


def test_spreading_rows_can_be_worse_where_cells_have_factors_of_their_own() -> None:
    """Why the other families use the group argument: here two cells reveal more than one."""
    law = CountLaw("negative-binomial", 0.02, 20.0)
    zero, one, two = cells(law, 0, 1, 2)
    epsilon = 0.19
    together = stick(zero, two, epsilon)
    spread = stick(np.outer(zero, zero), np.outer(one, one), epsilon)
    assert spread > together
    assert spread <= true_delta(law, epsilon, Unit.add_remove_person("id", max_rows=2))


def closed_form(alpha: float, epsilon: float, most: int = 400) -> float:
    """The Poisson case by its distribution function, both directions, the case below one included."""
    worst = 0.0
    for a in range(1, most):
        step = math.log((a + alpha) / (a - 1 + alpha))
        high, low = math.floor((1 + epsilon) / step + 1e-9), math.ceil((1 - epsilon) / step - 1e-9)
        for mean in (a + alpha, a - 1 + alpha):
            worst = max(worst, 1 - (stats.poisson.cdf(high, mean) - stats.poisson.cdf(low - 1, mean)))
    return worst


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0, 5.0, 12.0])
@pytest.mark.parametrize("epsilon", [0.25, 0.5, 0.9, 1.0, 1.5, 3.0])
def test_the_probabilistic_notion_by_its_closed_form(alpha: float, epsilon: float) -> None:
    found = probabilistic_delta(CountLaw("poisson", alpha), epsilon)
    assert found == pytest.approx(closed_form(alpha, epsilon), rel=1e-6, abs=1e-12)


def test_below_one_the_second_count_can_be_the_worst() -> None:
    """epsilon=.5, alpha=5: a=2 leaves the band more often than a=1, so that equation (9) is no supremum there."""
    first = closed_form(5.0, 0.5, most=2)
    assert closed_form(5.0, 0.5, most=3) > first
    assert probabilistic_delta(CountLaw("poisson", 5.0), 0.5) > first


def test_the_probabilistic_delta_can_rise_with_the_pseudocount() -> None:
    values = [probabilistic_delta(CountLaw("poisson", alpha), 1.5) for alpha in np.linspace(0.05, 1, 40)]
    assert any(b > a for a, b in itertools.pairwise(values))
    assert all(
        true_delta(CountLaw("poisson", alpha), 1.5, ROW) <= value + 1e-12
        for alpha, value in zip(np.linspace(0.05, 1, 40), values, strict=True)
    )


@pytest.mark.parametrize("law", LAWS, ids=IDS)
def test_the_probabilistic_supremum_is_one(law: CountLaw) -> None:
    for epsilon in (0.6, 1.4):
        claimed = probabilistic_delta(law, epsilon)
        for count in range(1, 60):
            fewer, more = cells(law, count - 1, count)
            with np.errstate(divide="ignore", invalid="ignore"):
                outside = np.abs(np.log(more) - np.log(fewer)) > epsilon * (1 + 1e-9)
            assert max(more[outside].sum(), fewer[outside].sum()) <= claimed * (1 + 1e-6) + 1e-12


def test_probabilities_too_small_to_tell_are_bounded() -> None:
    assert 0 < probabilistic_delta(CountLaw("poisson", 3000.0), 3.0) < 1e-30


def test_delta_falls_with_epsilon_and_sampling_adds_next_to_nothing() -> None:
    for law in LAWS:
        values = [true_delta(law, epsilon, ROW) for epsilon in (0.0, 0.5, 1.0, 4.0)]
        assert values == sorted(values, reverse=True)
        exact, released = true_delta(law, 1.0, REPLACED), released_delta(law, 1.0, REPLACED)
        assert exact <= released <= exact * (1 + 1e-6) + 1e-15
    assert released_delta(CountLaw("sichel", 2.0, 0.5, -3.0), 0.0, ROW) == 1.0


def test_rounding_is_upwards() -> None:
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    assert hockey_stick(p, q, 0.0, outside=1e-3, relative=0.0) == pytest.approx(0.401)
    assert hockey_stick(p, q, 0.0, outside=0.0, relative=1e-3) > 0.4
    assert two_cells(CountLaw("poisson", 2.0), 25.0) > 0


def test_epsilons_out_of_reach() -> None:
    for epsilon in (-1.0, math.nan, 1e6):
        with pytest.raises(BudgetError):
            true_delta(LAWS[0], epsilon, ROW)
