"""The law of a whole release, computed: a loop of attempts on a table of yes and no, every outcome with its probability.

One attempt measures the two counts with Laplace noise (method ``laplace``), draws a candidate from them by the public seed, and
tests the smallest slack of the criteria. What was measured determines the candidate, so an outcome of the release is a pair
of whole numbers, or failure. With ``p`` the probability that an attempt passes, the loop publishes outcome ``x`` with probability
``Q(x) g(p)`` and fails with ``(1 - p) h(p)``, where ``g`` and ``h`` belong to the rule for the number of attempts. All of it
is worked out from the parts that a release is made of: the scale of the planned noise, the drawing of candidates, the
criteria, the threshold and the scale of the test. The accounting, which is what is audited, has no part in it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from understudy.audit.exact import exact_epsilon
from understudy.audit.hunt import Audit
from understudy.audit.trials import Tally, claim_of
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import DenseTable, project_to_simplex
from understudy.errors import WorkloadError
from understudy.mechanisms import Model, no_progress
from understudy.privacy import Ledger
from understudy.privacy.rows import PublicRows
from understudy.release import RecordTypes, SlackTest
from understudy.release.result import Configuration
from understudy.release.run.candidate import draw_candidate, fit_model
from understudy.release.run.planning import usable_configurations
from understudy.release.spec.spec import Spec

__all__ = ["ReleaseLaw", "audit_release_law", "release_law"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_REACH = 32.0
"""Scales of the noise beyond which outcomes are left out; together they have a probability below ``e^-30``."""


@dataclass(frozen=True, eq=False)
class ReleaseLaw:
    """Probabilities of everything that a release can end in.

    Attributes
    ----------
    published
        By the two measured counts, no before yes, on a grid that is the same for tables of equal size.
    start
        The smaller end of both axes of the grid.
    candidates
        Yes in the candidate, by the same.
    failure
        Probability that nothing is published.
    passes
        Probability that one attempt passes.
    """

    published: Floats
    start: int
    candidates: Ints
    failure: float
    passes: float

    @property
    def outcomes(self) -> Floats:
        """Probabilities of all outcomes in one row, failure last."""
        return np.append(self.published.ravel(), self.failure)


def release_law(spec: Spec, yes: int, rows: int) -> ReleaseLaw:
    """Return the law of a release of a made-up table.

    Parameters
    ----------
    spec
        A specification with one yes-or-no column, the method ``laplace`` with its default options, a pass-only test and
        a fixed seed, for replaced rows.
    yes, rows
        The table: how many of its rows say yes.

    Examples
    --------
    >>> from understudy.audit.releases import LOOP
    >>> law = release_law(Spec.parse(LOOP), 1, 1)
    >>> round(float(law.outcomes.sum()), 9)
    1.0
    """
    configurations = usable_configurations(spec)
    domain = spec.schema.domain
    if (
        domain.sizes != (2,)
        or [item.method for item in configurations] != ["laplace"]
        or spec.form != "pass-only"
        or spec.seed is None
        or spec.unit.relation != "replace-one"
        or spec.unit.max_rows != 1
    ):
        raise WorkloadError("The law is computed for one yes-or-no column, laplace, and one pass-only test.")
    model = _any_model(spec, configurations[0], rows)
    scale = float(model.measurements[0].scale)
    reach = math.ceil(_REACH * scale)
    values = np.arange(-reach, rows + reach + 1)
    # the candidate depends on the measured counts through their difference only: see project_to_simplex
    drawn = {
        difference: _candidate(spec, configurations[0], model, rows, difference)
        for difference in range(-rows, rows + 1)
    }
    difference = np.clip(values[None, :] - values[:, None], -rows, rows)
    candidates = np.array([drawn[d] for d in range(-rows, rows + 1)])[difference + rows]
    real = _types(spec, yes, rows)
    test = SlackTest(tuple(spec.criteria_for(spec.schema)))
    epsilon = spec.shares.acceptance
    threshold = test.threshold(epsilon=epsilon, false_accept=spec.false_accept, unit=spec.unit)
    chance = np.array(
        [
            test.acceptance(
                test.slack(real, _types(spec, k, rows)), threshold=threshold, epsilon=epsilon, unit=spec.unit
            )
            for k in range(rows + 1)
        ]
    )
    attempt = (
        _noise(values - (rows - yes), scale)[:, None]
        * _noise(values - yes, scale)[None, :]
        * chance[candidates]
    )
    passes = float(attempt.sum())
    p, rule = np.array([passes]), spec.attempts
    return ReleaseLaw(
        published=attempt * float(rule.weight_of_pass(p)[0]),
        start=-reach,
        candidates=candidates,
        failure=(1 - passes) * float(rule.weight_of_failure(p)[0]),
        passes=passes,
    )


def audit_release_law(spec: Spec, *, most_rows: int = 4) -> Audit:
    """Compare the laws of a release on all neighbouring tables of up to so many rows.

    Examples
    --------
    >>> from understudy.audit.releases import LOOP
    >>> audit = audit_release_law(Spec.parse(LOOP), most_rows=2)
    >>> audit.violates(), audit.demonstrated > 0.6 * audit.claim.value
    (False, True)
    """
    start, worst = time.perf_counter(), 0.0
    for rows in range(1, most_rows + 1):
        laws = [release_law(spec, yes, rows).outcomes for yes in range(rows + 1)]
        for one, two in pairwise(laws):  # a replaced row moves at most one from yes to no
            worst = max(worst, exact_epsilon(one, two))
    return Audit(
        f"release {spec.name!r}",
        f"all tables of up to {most_rows} rows",
        spec.unit.describe(),
        claim_of(spec.total),
        "every probability computed",
        Tally(0, 0, 0, 0, 0, 0),
        True,
        time.perf_counter() - start,
        exact=worst,
    )


def _noise(steps: Ints, scale: float) -> Floats:
    """Probabilities of discrete Laplace noise."""
    ratio = math.exp(-1 / scale)
    return np.asarray((1 - ratio) / (1 + ratio) * ratio ** np.abs(steps).astype(np.float64))


def _types(spec: Spec, yes: int, rows: int) -> RecordTypes:
    return RecordTypes.from_rows(spec.schema.domain, [[0]] * (rows - yes) + [[1]] * yes)


def _any_model(spec: Spec, configuration: Configuration, rows: int) -> Model:
    """Fit a model of a made-up table; only its kind and the scale of its noise are used."""
    table = LocalTable(spec.schema, {spec.schema.names[0]: np.zeros(rows, dtype=np.int64)})
    with Ledger.in_memory(budget=spec.total, unit=spec.unit, table="audit") as ledger:
        curator = Curator(table, unit=spec.unit, ledger=ledger, rows=PublicRows.exactly(rows))
        return fit_model(spec, configuration, curator, progress=no_progress)


def _candidate(spec: Spec, configuration: Configuration, model: Model, rows: int, difference: int) -> int:
    """Return how many rows of the candidate say yes if yes was measured so much more often than no."""
    cells = project_to_simplex(np.array([0.0, float(difference)]), float(rows))
    measured = replace(model, distribution=DenseTable(spec.schema.domain, cells))
    assert spec.seed is not None
    drawn = draw_candidate(spec, configuration, measured, rows=rows, seed=spec.seed)
    return int(drawn.types.marginal(spec.schema.names)[1])
