"""Bounds on the L1 error of a model, or of rows drawn from it, marginal by marginal.

For each marginal several arguments are available, and the smallest of their bounds is reported. Picking the
smallest is valid because they are made to hold *together*: each gets a fixed part of the failure probability,
the same for every marginal and every outcome.

=============  ====  =========  ===============================================================
argument       part  certified  says
=============  ====  =========  ===============================================================
total          5 %   5 %        number of rows (nothing to prove where it is public)
measured       65 %  15 %       a step measured the marginal, or one that contains it
chosen         30 %  5 %        it could have been chosen, and was not
certified      -     75 %       its error was itself measured after the fit
=============  ====  =========  ===============================================================

Within "measured", step ``j`` that covers the marginal gets a fixed share of three quarters
(:func:`~understudy.inference.dual.distance_bound`), and the weighted average of all steps the last
quarter (:func:`~understudy.inference.dual.ball_bound`). Within "chosen" every round has its share
(:mod:`~understudy.inference.bounds`). Bounds about the model's marginal are carried to rows drawn from it
by the triangle inequality. Last, no two tables of ``N`` and ``N'`` rows are further apart than ``N + N'``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.inference.covers import Evidence
from understudy.inference.dual import ball_bound, distance_bound
from understudy.inference.history import Round, Standing
from understudy.inference.intervals import cell_intervals, step_shares, total_interval
from understudy.inference.laws import CellNoise, WeightedNoise, require_beta
from understudy.marginals import Measurement
from understudy.schema import Clique

# ----------------------------------------------------------------------------------------
# What a choice says about everything that was not chosen (paper AIM, Theorem 4, sharpened).
#
# In a round the exponential mechanism chose ``s`` from the candidates ``C`` by the scores
# ``q_r = w_r (|M_r(D) - M_r(p)|_1 - c n_r)``, where ``p`` is the model before the round, ``n_r`` the number
# of cells and ``c`` the penalty per cell. With sensitivity ``Δ = l1 max w`` candidate ``r`` is chosen with
# probability proportional to ``exp(ε q_r / 2Δ)``. Those that score more than ``x`` below the best have, all together,
# probability at most ``|C| exp(-ε x / 2Δ)``, so with probability ``1 - β``
#
#     q_r <= q_s + (2Δ/ε) (ln |C| + ln(1/β))   for all r in C at once.
#
# ``C`` may have been thinned in any way that depends on released values only: the argument is made given those.
# The score of ``s`` is private, but ``s`` was then measured: ``y = M_s(D) + e``. Two bounds on
# ``E = |M_s(D) - M_s(p)|_1``, both given what was released before ``e`` was drawn:
#
# 1. With ``b = M_s(D) - M_s(p)`` fixed, ``|b_i + e_i| >= |b_i| + sign(b_i) e_i``, hence
#    ``E <= |y - M_s(p)|_1 - sum sign(b_i) e_i``: a sum of noise with signs fixed in advance. (The paper reaches
#    ``λ σ sqrt(n)`` by concentration; this argument covers every noise with exponential moments.)
# 2. ``E = 2 sum (-b_i)_+ + N - sum p_i`` with ``N`` the number of rows, and ``(-b_i)_+ <= p_i`` as counts are not
#    negative. Use that in the cells ``G`` where ``p`` is small against the noise. In the others, as above,
#    ``(p_i - y_i)_+ >= (-b_i)_+ - e_i`` where ``b_i < 0``, and those cells are fixed in advance. So
#    ``E <= 2 (sum_G p_i + sum_others (p_i - y_i)_+ + noise) + N - sum p_i``: the noise in cells that are
#    expected to be empty no longer counts.
#
# So ``|M_r(D) - M_r(p)|_1 <= c n_r + (q_s + ...) / w_r``, and the triangle inequality carries it to any other
# table: ``|M_r(D) - M_r(D')|_1`` is larger by at most ``|M_r(D') - M_r(p)|_1``, which is public.
#
# **Which round.** The last round in which ``r`` could be chosen is known only afterwards, and later rounds depend on
# earlier noise; a bound that holds with probability ``1 - β`` in each single round need not hold in a round picked
# that way. The failure probability is therefore spread over all rounds: half of it on the round that was known
# beforehand to be the last, half on the others, in proportion to ``1 / (t (t + 1))``. The cost is logarithmic.

EMPTY = 0.4
"""Cells expected to hold less than this many standard deviations count as empty; noise alone would cost as much."""

GRID = 1 + 2.0**-10
"""Scores are put on a fine grid before a choice, at the price of a slightly larger sensitivity."""


def round_share(step: Round, index: int) -> float:
    """Return the part of the failure probability that round ``index`` (from 0) gets; all parts add up to at most one.

    Examples
    --------
    >>> sum(0.5 / ((t + 1) * (t + 2)) for t in range(1000)) + 0.5 <= 1
    True
    """
    return 0.5 if step.last else 0.5 / ((index + 1) * (index + 2))


def chosen_distance(step: Round, *, total: float, beta: float) -> float:
    """Bound the distance between the real counts of the chosen marginal and the model's before the round.

    Parameters
    ----------
    step
        The round.
    total
        The number of rows, or an upper limit of it.
    beta
        Failure probability; each of the two arguments gets half.
    """
    require_beta(beta)
    noise = CellNoise.of(step.measurement)
    answer = step.answer.astype(np.float64)
    values = step.measurement.values
    plain = float(np.abs(values - answer).sum()) + noise.signed_sum(values.size, beta / 2)
    filled = answer >= EMPTY * noise.stddev
    below = float(np.maximum(answer - values, 0.0)[filled].sum()) + noise.signed_sum(
        int(np.count_nonzero(filled)), beta / 2
    )
    sparse = 2 * (below + float(answer[~filled].sum())) + total - float(answer.sum())
    return max(0.0, min(plain, sparse))


def score_bound(step: Round, *, total: float, beta: float) -> float:
    """Bound the scores of all candidates of a round at once, chosen or not.

    Parameters
    ----------
    total
        The number of rows, or an upper limit of it.
    beta
        Failure probability: two thirds for the chosen marginal's own distance, one third for the choice.
    """
    distance = chosen_distance(step, total=total, beta=beta * 2 / 3)
    score = step.weight * (distance - step.penalty * step.measurement.values.size)
    scale = 2 * step.l1 * step.largest_weight * GRID / step.epsilon
    return score + scale * (math.log(len(step.candidates)) + math.log(3 / beta))


def candidate_distance(step: Round, score: float, *, weight: float, cells: int) -> float:
    """Turn a bound on a candidate's score into one on its distance from the model before the round."""
    return max(0.0, step.penalty * cells + score / weight)


Array = npt.NDArray[np.float64]

_AVERAGE = 0.25
_FAR = 3.0
"""Covers this many times less precise than the best one are not tried: they cannot give the smallest bound."""


@dataclass(frozen=True)
class Parts:
    """How the failure probability is divided between the arguments."""

    total: float
    measured: float
    chosen: float
    certified: float


FREE = Parts(0.05, 0.65, 0.30, 0.0)
CERTIFIED = Parts(0.05, 0.15, 0.05, 0.75)


@dataclass(frozen=True)
class Bound:
    """A bound on the L1 error of one marginal, in rows.

    Attributes
    ----------
    kind
        ``"supported"`` if some measurement contains the marginal, else ``"unsupported"``.
    rows
        The bound.
    basis
        The argument that gave it: ``"measured"``, ``"chosen"``, ``"certified"`` or ``"trivial"``.
    """

    clique: Clique
    kind: str
    rows: float
    basis: str


@dataclass(frozen=True, eq=False)
class Bounder:
    """Bounds the errors of one model.

    Parameters
    ----------
    evidence
        What was released.
    beta
        Failure probability of each marginal's bound.

    Examples
    --------
    >>> from understudy.inference import History
    >>> from understudy.schema import Domain
    >>> y = Measurement(("a",), np.array([480.0, 310.0, 210.0]), "gaussian", 5.0)
    >>> evidence = Evidence(Domain(("a",), (3,)), (y,), History.planned(1), total=1000.0)
    >>> bound = Bounder(evidence, 0.05).bound(("a",), np.array([500.0, 300.0, 200.0]))
    >>> bound.kind, bound.basis, 40 < bound.rows < 90
    ('supported', 'measured', True)
    """

    evidence: Evidence
    beta: float
    _scores: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_beta(self.beta)

    @cached_property
    def parts(self) -> Parts:
        """How the failure probability is divided; fixed by whether errors were certified."""
        return FREE if self.evidence.history.certificate is None else CERTIFIED

    @cached_property
    def total(self) -> tuple[float, float, float]:
        """Interval for the number of rows, and an estimate."""
        return total_interval(self.evidence, beta=self.beta * self.parts.total)

    @cached_property
    def _standings(self) -> dict[Clique, Standing]:
        return {item.clique: item for item in self.evidence.history.standings}

    def bound(self, clique: Clique, model: Array, *, rows: Array | None = None) -> Bound:
        """Bound the error of one marginal.

        Parameters
        ----------
        clique
            The marginal.
        model
            The model's counts over it.
        rows
            Counts of rows drawn from the model, where their error is wanted and not the model's.
        """
        if model.shape != self.evidence.domain.shape(clique):
            raise WorkloadError(f"The counts of {clique} do not have the shape of its columns.")
        answer = model if rows is None else rows
        moved = 0.0 if rows is None else float(np.abs(rows - model).sum())
        choices = [
            (self.measured(clique, answer), "measured"),
            (self.chosen(clique) + moved, "chosen"),
            (self.certified(clique) + moved, "certified"),
            (self.total[1] + float(answer.sum()), "trivial"),
        ]
        rows_bound, basis = min(choices, key=lambda item: item[0])
        kind = "supported" if self.evidence.supports(clique) else "unsupported"
        return Bound(clique, kind, rows_bound, basis)

    def measured(self, clique: Clique, answer: Array) -> float:
        """Bound the error by the measurements that contain the marginal."""
        covers = self.evidence.covers(clique)
        if not math.isfinite(self.total[1]):
            return math.inf
        beta = self.beta * self.parts.measured
        if not covers:
            return self._by_cells(clique, answer, beta)
        if len(self.evidence.batches) == 1:
            return distance_bound(covers[0], answer, total=self.total[1], beta=beta)
        best = min(cover.noise.stddev for cover in covers)
        found = [
            distance_bound(cover, answer, total=self.total[1], beta=beta * (1 - _AVERAGE) * share)
            for cover, share in zip(covers, step_shares(len(covers)), strict=True)
            if cover.noise.stddev <= _FAR * best
        ]
        if len(covers) > 1 and all(cover.noise.kind == "gaussian" for cover in covers):
            found.append(ball_bound(covers, answer, total=self.total[1], beta=beta * _AVERAGE))
        return min(found)

    def _by_cells(self, clique: Clique, answer: Array, beta: float) -> float:
        """Bound the error by intervals for all cells, which hold together: where sums of signs tell of the marginal and no table does."""
        if not self.evidence.sums or not self.evidence.supports(clique):
            return math.inf
        found = cell_intervals(self.evidence, clique, confidence=1 - beta / answer.size)
        if found is None:
            return math.inf
        return float(np.maximum(answer - found.low, found.high - answer).sum())

    def chosen(self, clique: Clique) -> float:
        """Bound the model's error by the last round in which the marginal could have been chosen."""
        standing = self._standings.get(clique)
        if standing is None or not standing.weight > 0 or not math.isfinite(self.total[1]):
            return math.inf
        index = standing.round
        step = self.evidence.history.rounds[index]
        if index not in self._scores:
            share = self.beta * self.parts.chosen * round_share(step, index)
            self._scores[index] = score_bound(step, total=self.total[1], beta=share)
        cells = self.evidence.domain.cells(clique)
        return standing.drift + candidate_distance(
            step, self._scores[index], weight=standing.weight, cells=cells
        )

    def certified(self, clique: Clique) -> float:
        """Bound the model's error by its noisy measurement, or that of the smallest marginal that contains it."""
        certificate = self.evidence.history.certificate
        if certificate is None:
            return math.inf
        holders = [
            (self.evidence.domain.cells(outer), index)
            for index, outer in enumerate(certificate.cliques)
            if set(clique) <= set(outer)
        ]
        if not holders:
            return math.inf
        _, index = min(holders)
        seen = Measurement((), np.asarray(certificate.values[index]), certificate.noise, certificate.scale)
        # one-sided: half the probability of a two-sided interval
        outside = min(0.999, 2 * self.beta * self.parts.certified)
        margin = WeightedNoise.of([(seen, np.ones(()))]).half_width(outside)
        return max(0.0, float(certificate.values[index]) + margin)


def error_bounds(
    evidence: Evidence,
    cliques: Sequence[Clique],
    model: Sequence[Array],
    *,
    confidence: float,
    rows: Sequence[Array] | None = None,
) -> tuple[list[Bound], tuple[float, float, float]]:
    """Bound the errors of many marginals.

    Returns
    -------
    list of Bound, and the low end, high end and estimate of the number of rows
        Each bound holds with probability at least ``confidence`` over the noise.
    """
    if len(cliques) != len(model) or (rows is not None and len(rows) != len(cliques)):
        raise WorkloadError("Need one table of counts per marginal.")
    bounder = Bounder(evidence, require_beta(1 - confidence))
    found = [
        bounder.bound(clique, table, rows=None if rows is None else rows[index])
        for index, (clique, table) in enumerate(zip(cliques, model, strict=True))
    ]
    return found, bounder.total
