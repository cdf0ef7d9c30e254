"""The questions a user asks: how wrong is this marginal, and between what limits does this number lie?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from understudy.errors import WorkloadError
from understudy.inference.bounds import Bound, Bounder, error_bounds
from understudy.inference.covers import Evidence, weighted_average
from understudy.inference.history import Answers, Round, Standing, answer_each
from understudy.inference.intervals import (
    Ends,
    Interval,
    cell_intervals,
    clipped,
    count_interval,
    counted_values,
    invert,
    mean_interval,
)
from understudy.inference.laws import CellNoise, require_beta
from understudy.marginals import count_codes
from understudy.schema import Clique

if TYPE_CHECKING:
    import pandas as pd

# ----------------------------------------------------------------------------------------
# The error bounds of paper AIM, section 5, as printed; ours in :mod:`understudy.inference.bounds` are tighter.
#
# They are kept as the yardstick of the benchmark, extended where the printed proofs extend without change:
#
# - *Laplace noise.* Theorem 3 follows from ``E exp(s|e|) <= E exp(se) + E exp(-se) = 2 M(s)`` and Markov's inequality:
#   ``|e|_1 <= (n ln 2 + n ln M(s) + ln(1/β)) / s`` for every ``s > 0``. For Gaussian noise the best ``s`` gives
#   ``σ sqrt(2n (n ln 2 + ln(1/β)))``, at most the printed expression; for averages of Laplace noise
#   ``ln M(s) = -sum_j k_j ln(1 - s² a_j² b_j²)`` is minimised numerically.
# - *Other units.* Scores change by at most ``l1 max w`` between neighbours, so ``Δ = l1 max w`` replaces ``max w``.
# - *Other penalties.* ``sqrt(2/π) σ`` is replaced by whatever the round subtracted per cell.
#
# Two things the printed statements leave out, which ours repair: the cliques measured in later rounds depend on
# the noise of earlier ones, so the average of Theorem 2 over "all measurements that contain r" is not exactly normal;
# and the last round in which a marginal could be chosen is not known when that round begins.

Array = npt.NDArray[np.float64]


def noise_bound(evidence: Evidence, clique: Clique, *, beta: float) -> float:
    """Return Theorem 3's bound on the L1 error of the weighted average estimator.

    For Gaussian noise ``sqrt(2 ln 2) σ n + λ σ sqrt(2n)`` with ``exp(-λ²) = beta``.
    """
    require_beta(beta)
    n = evidence.domain.cells(clique)
    inside = [item for item in evidence.measurements if set(clique) <= set(item.clique)]
    found = weighted_average(evidence.domain, inside, clique)
    if found is None:
        return math.inf
    sd = found[1]
    if all(item.noise == "gaussian" for item in inside):
        return math.sqrt(2 * math.log(2)) * sd * n + math.sqrt(math.log(1 / beta)) * sd * math.sqrt(2 * n)
    terms = [item.values.size // n for item in inside]
    weights = [sd**2 / (k * item.variance) for k, item in zip(terms, inside, strict=True)]
    sizes = [weight * item.scale for weight, item in zip(weights, inside, strict=True)]
    kinds = [item.noise for item in inside]
    limit = min(1 / size for size, kind in zip(sizes, kinds, strict=True) if kind == "laplace")

    def bound(fraction: float) -> float:
        s = fraction * limit
        log_moment = sum(
            k * (s * s * size**2 / 2 if kind == "gaussian" else -math.log1p(-((s * size) ** 2)))
            for k, size, kind in zip(terms, sizes, kinds, strict=True)
        )
        return (n * (math.log(2) + log_moment) + math.log(1 / beta)) / s

    return float(minimize_scalar(bound, bounds=(1e-6, 1 - 1e-9), method="bounded").fun)


def supported_bound(evidence: Evidence, clique: Clique, answer: Array, *, beta: float) -> float:
    """Return Corollary 1: a bound on ``|M_r(D) - answer|_1`` for a marginal some measurement contains."""
    found = weighted_average(evidence.domain, evidence.measurements, clique)
    if found is None:
        return math.inf
    return float(np.abs(answer - found[0]).sum()) + noise_bound(evidence, clique, beta=beta)


def unsupported_bound(step: Round, standing: Standing, *, cells: int, beta: float) -> float:
    """Return Corollary 2 for the final model: a bound for a marginal that could last be chosen in ``step``.

    ``λ1`` and ``λ2`` are set so that ``exp(-λ1²/2)`` and ``exp(-λ2)`` are half of ``beta`` each.
    """
    require_beta(beta)
    noise, size = step.measurement, step.measurement.values.size
    scale = 2 * step.l1 * step.largest_weight / step.epsilon
    seen = step.weight * float(np.abs(step.answer - noise.values).sum())
    seen += step.penalty * (standing.weight * cells - step.weight * size)
    seen += scale * math.log(len(step.candidates))
    if noise.noise == "gaussian":
        spread = math.sqrt(2 * math.log(2 / beta)) * noise.scale * math.sqrt(size)
    else:
        spread = CellNoise.of(noise).signed_sum(size, beta / 2)
    return standing.drift + (seen + step.weight * spread + math.log(2 / beta) * scale) / standing.weight


Cells = npt.NDArray[np.bool_] | Iterable[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Error bounds and intervals of one model.

    Parameters
    ----------
    evidence
        What was released about the real table.
    answers
        The model's counts over cliques.

    Examples
    --------
    >>> from understudy.inference import History
    >>> from understudy.marginals import Measurement
    >>> from understudy.schema import Domain
    >>> y = Measurement(("a",), np.array([480.0, 310.0, 210.0]), "gaussian", 5.0)
    >>> evidence = Evidence(Domain(("a",), (3,)), (y,), History.planned(1), total=1000.0)
    >>> uncertainty = Uncertainty(evidence, lambda cliques: [np.array([480.0, 310.0, 210.0]) for _ in cliques])
    >>> uncertainty.count_interval(("a",), [(0,), (1,)]).low.round(1)
    np.float64(781.7)
    >>> uncertainty.mean_interval("a", np.array([0.0, 1.0, 2.0])).estimate.round(2)
    np.float64(0.73)
    """

    evidence: Evidence
    answers: Answers

    def error_bounds(
        self,
        cliques: Sequence[Clique],
        *,
        confidence: float = 0.95,
        codes: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> pd.DataFrame:
        """Return a table of bounds on ``|M(real) - M(model)|_1``, as shares of the real rows.

        Parameters
        ----------
        cliques
            The marginals.
        confidence
            Probability over the noise that a marginal's bound holds; for each marginal, not for all at once.
        codes
            Encoded rows drawn from the model, where the error of these rows is wanted. However many there
            are, they are taken as shares of the estimated number of real rows.

        Returns
        -------
        pandas.DataFrame
            ``clique``; ``kind`` (``"supported"`` if a measurement contains the marginal, else
            ``"unsupported"``); ``bound`` (0 is perfect, 2 is the worst there is); ``basis``, the argument
            behind it; ``total``, the estimated number of real rows. Marginals that the model cannot compute
            (too many columns lie between theirs) get the trivial bound.
        """
        import pandas as pd

        model = answer_each(self.answers, cliques)
        known = [clique for clique in cliques if clique in model]
        tables = [model[clique] for clique in known]
        rows = None if codes is None or not known else self._scaled(codes, known, float(tables[0].sum()))
        bounds, (low, high, estimate) = error_bounds(
            self.evidence, known, tables, confidence=confidence, rows=rows
        )
        by_clique = dict(zip(known, bounds, strict=True))
        found = [
            by_clique.get(clique, Bound(clique, "unsupported", high + estimate, "trivial"))
            for clique in cliques
        ]
        return pd.DataFrame(
            {
                "clique": [item.clique for item in found],
                "kind": [item.kind for item in found],
                "bound": [_share(item.rows, low) for item in found],
                "basis": [item.basis for item in found],
                "total": [estimate] * len(found),
            }
        )

    def _scaled(
        self, codes: Mapping[str, npt.NDArray[Any]], cliques: Sequence[Clique], total: float
    ) -> list[Array]:
        counts = [count_codes(self.evidence.domain, codes, clique) for clique in cliques]
        return [table * (total / max(1.0, float(table.sum()))) for table in counts]

    def interval(self, clique: Clique, *, confidence: float = 0.95) -> Interval:
        """Return an interval for every cell of a marginal; each holds with the given probability."""
        found = cell_intervals(self.evidence, clique, confidence=confidence)
        if found is not None:
            return found
        model = self.answers([clique])[0]
        less, more, basis = self._slack(clique, model, confidence)
        return clipped(model - less, model + more, model, self.evidence.total, confidence, basis)

    def count_interval(self, clique: Clique, cells: Cells, *, confidence: float = 0.95) -> Interval:
        """Return an interval for the number of rows in some cells, given as a mask or as tuples of codes."""
        mask = self._mask(clique, cells)
        found = count_interval(self.evidence, clique, mask, confidence=confidence)
        if found is not None:
            return found
        model = self.answers([clique])[0]
        less, more, basis = self._slack(clique, model, confidence)
        inside = np.asarray(model[mask].sum())
        return clipped(inside - less, inside + more, inside, self.evidence.total, confidence, basis)

    def mean_interval(self, column: str, values: npt.ArrayLike, *, confidence: float = 0.95) -> Interval:
        """Return an interval for the mean of a column; ``values`` are what its codes stand for, NaN to leave out."""
        return self.mean_over((column,), np.asarray(values, dtype=np.float64), confidence=confidence)

    def mean_over(self, clique: Clique, values: Array, *, confidence: float = 0.95) -> Interval:
        """Return an interval for the mean over the rows in some cells of a marginal, such as those of a group.

        ``values`` has one entry per cell: what its rows count for, NaN to leave them out. The mean of ones and zeros is a share.
        """
        found = mean_interval(self.evidence, clique, values, confidence=confidence)
        if found is not None:
            return found
        counted, plain = counted_values(self.evidence, clique, values)
        model = self.answers([clique])[0]
        bound = Bounder(self.evidence, require_beta(1 - confidence)).bound(clique, model)

        def ends(mean: float) -> Ends:
            weights = counted * (plain - mean)
            middle, spread = float((weights * model).sum()), float(np.abs(weights).max()) * bound.rows
            return middle - spread, middle + spread, middle

        return invert(ends, plain[counted], confidence=confidence, basis=_basis(bound.basis))

    def _slack(self, clique: Clique, model: Array, confidence: float) -> tuple[float, float, str]:
        """Return how many rows fewer and more than the model says any set of cells can hold.

        With ``E`` a bound on the L1 error and ``P`` the model's total, the real table lacks
        ``sum (p - m)_+ = (E - (N - P)) / 2`` and has ``(E + N - P) / 2`` too many at most.
        """
        bounder = Bounder(self.evidence, require_beta(1 - confidence))
        bound = bounder.bound(clique, model)
        low, high, _ = bounder.total
        total = float(model.sum())
        return (
            max(0.0, bound.rows + total - low) / 2,
            max(0.0, bound.rows + high - total) / 2,
            _basis(bound.basis),
        )

    def ordered_mask(self, clique: Sequence[str], cells: Cells) -> tuple[Clique, npt.NDArray[np.bool_]]:
        """Return columns in the order of the domain, and the mask of some cells, given in the order of ``clique``, with its axes in that order."""
        ordered = self.evidence.domain.canonical(clique)
        given = [clique] if isinstance(clique, str) else list(clique)
        order = [given.index(name) for name in ordered]
        if isinstance(cells, np.ndarray):
            turned: Cells = cells.transpose(order) if cells.ndim == len(order) else cells
        else:
            turned = [
                tuple(cell[place] for place in order) if len(cell) == len(order) else cell for cell in cells
            ]
        return ordered, self._mask(ordered, turned)

    def _mask(self, clique: Clique, cells: Cells) -> npt.NDArray[np.bool_]:
        shape = self.evidence.domain.shape(clique)
        if isinstance(cells, np.ndarray):
            if cells.dtype != np.bool_ or cells.shape != shape:
                raise WorkloadError(f"A mask of {clique} must hold booleans in the shape {shape}.")
            return cells
        mask = np.zeros(shape, dtype=bool)
        for cell in cells:
            place = tuple(int(code) for code in cell)
            if len(place) != len(shape) or any(
                not 0 <= code < size for code, size in zip(place, shape, strict=True)
            ):
                raise WorkloadError(f"{place} is not a cell of {clique}, whose columns have {shape} codes.")
            mask[place] = True
        return mask


def _basis(basis: str) -> str:
    return "trivial" if basis == "trivial" else "bound"


def _share(rows: float, total: float) -> float:
    return rows / total if total > 0 else math.inf
