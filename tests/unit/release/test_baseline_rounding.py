"""Numbers that a release measures are not blurred, nor their sensitivities made up, by rounding."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from understudy.privacy import Unit
from understudy.release import RecordTypes
from understudy.release.accounted import _errors
from understudy.release.regressions.fits import Feature, Regression
from understudy.release.regressions.moments import RegressionMoments
from understudy.schema import Domain


@pytest.mark.parametrize("values", [(0.1, 0.4), (0.0, 1.0), (1.0, 1.1), (-3.7, 12.9)])
def test_the_square_of_a_feature_of_two_values_needs_no_noise(values: tuple[float, float]) -> None:
    """Brought to -1 and 1, such as 0.1 and 0.4, they may miss one of them by rounding; that is no sensitivity."""
    moments = RegressionMoments(Regression(Feature("y", (0.0, 1.0, 2.0)), (Feature("x", values),)))
    found = dict(zip(moments.names, moments.sensitivities(Unit.replace_one()).tolist(), strict=True))
    assert found["x * x"] == 0.0
    assert min(found[name] for name in ("x", "y", "x * y")) > 1.9
    # every record has that square, so a table of one record tells the moment of all
    domain = Domain(("x", "y"), (2, 3))
    one, many = (
        moments.exact(RecordTypes(domain, [[0, 0], [1, 1]], counts)) for counts in ([1, 1], [700, 300])
    )
    assert 500 * one[1] == pytest.approx(many[1], rel=1e-12)


def test_an_average_over_many_cliques_is_rounded_once() -> None:
    cliques = [(str(number),) for number in range(10_007)]
    made = SimpleNamespace(count=lambda clique: np.zeros(2))
    real = SimpleNamespace(count=lambda clique: np.array([1 << 32, 1]))
    average, largest = _errors(real, made, cliques, 1.0)  # type: ignore[arg-type]
    exact = Fraction((1 << 32) + 1, 2)
    assert largest == float(1 << 32)
    assert abs(Fraction(average) - exact) <= Fraction(1, 1 << 22)
    running = 0.0
    for clique in cliques:
        running += float(real.count(clique).sum()) / (2 * len(cliques))
    assert abs(Fraction(running) - exact) > Fraction(1, 1 << 19)  # further than the step of its grid
