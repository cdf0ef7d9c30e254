"""What the adaptive mechanisms share: prices, who may be chosen, and errors measured after the last round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts, scalar_noise
from understudy.curator.rounding import grid_of
from understudy.engine import model_size
from understudy.errors import BudgetError, DomainTooLarge
from understudy.inference import Certificate, Round
from understudy.marginals import Measurement
from understudy.mechanisms.allocation import Pay, cells_of, noises_by_size, require_cells
from understudy.mechanisms.rules import structural_rules
from understudy.privacy import Accounting, Noise, Unit, noise_for
from understudy.privacy.noise.noise import MAX_SCALE
from understudy.schema import Clique, Domain, Schema

_NEGLIGIBLE = math.log(1e9)
"""Candidates whose best possible score is this many exponential-mechanism scales below another's are left out."""

MAX_CANDIDATE_CELLS = 60_000_000
"""Cells of all candidate marginals together; their exact counts stay in memory during the fit."""

MOST_FOR_COLUMNS = 0.7
"""Largest share of a budget that columns may take when they would otherwise drown in noise."""


@dataclass(frozen=True)
class RoundCost:
    """What one round may spend on measuring and on choosing, in the additive unit of an accounting."""

    measure: float
    select: float

    @property
    def total(self) -> float:
        """Cost of the whole round."""
        return self.measure + self.select

    def annealed(self, accounting: Accounting) -> RoundCost:
        """Halve the noise and double epsilon (Algorithm 4 of paper AIM).

        That doubles a pure cost and quadruples a cost that grows with the square of epsilon.
        """
        factor = 2.0 if accounting.name == "pure" else 4.0
        return RoundCost(self.measure * factor, self.select * factor)


def expected_absolute_noise(noise: Noise) -> float:
    """Return the expected absolute value of the noise in one cell, in rows."""
    return noise.scale if noise.kind == "laplace" else noise.scale * math.sqrt(2 / math.pi)


def normal_deviation(noise: Noise) -> float:
    """Return the standard deviation of normal noise with the same expected absolute value."""
    return expected_absolute_noise(noise) * math.sqrt(math.pi / 2)


def column_share(
    accounting: Accounting,
    unit: Unit,
    cells: Sequence[int],
    cost: float,
    *,
    rows: float,
    tolerated: float,
    pay: Pay = noise_for,
) -> float:
    """Return the share of a cost that keeps the noise of one-way marginals at a tolerable level.

    If all of ``cost`` measured the columns, divided so that their expected error is least, the noise of an average
    column would add up to some share of the records. With a part ``f`` of the cost it is larger by ``1/sqrt(f)``,
    or by ``1/f`` under pure differential privacy. The answer is the ``f`` at which it is ``tolerated``, but never
    more than ``MOST_FOR_COLUMNS``. It depends on public facts and on a released number of rows.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> cells = [100, 100]
    >>> round(column_share(PURE, Unit.add_remove(), cells, 1.0, rows=4_000, tolerated=0.1), 3)
    0.5
    >>> column_share(PURE, Unit.add_remove(), cells, 1.0, rows=100, tolerated=0.1)
    0.7
    """
    noise = column_noise(accounting, unit, cells, cost, rows=rows, pay=pay)
    power = 1.0 if accounting.name == "pure" else 2.0
    return float(min(MOST_FOR_COLUMNS, (noise / tolerated) ** power))


def column_noise(
    accounting: Accounting,
    unit: Unit,
    cells: Sequence[int],
    cost: float,
    *,
    rows: float,
    pay: Pay = noise_for,
) -> float:
    """Return the noise of an average one-way marginal, as a share of the rows, if all of a cost measured these, divided so that their expected error is least.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> round(column_noise(PURE, Unit.add_remove(), [100, 100], 1.0, rows=4_000), 3)
    0.05
    """
    split = noises_by_size(accounting, unit, cost, cells, pay=pay)
    shares = [
        min(1.0, size * expected_absolute_noise(noise) / rows)
        for size, noise in zip(cells, split, strict=True)
    ]
    return sum(shares) / len(shares)


def columns_again(
    curator: Curator,
    sealed: Sequence[SealedCounts],
    *,
    cost: float,
    spent: float,
    rows: float,
    tolerated: float,
    pay: Pay = noise_for,
) -> list[Measurement]:
    """Measure columns a second time if a first look, which cost ``spent``, left them noisier than tolerated.

    Privacy
    -------
    In: private. Out: releasable. Whether there is a second look, and at which price, follows from public facts and a released number
    of rows; ``cost`` is what there was before the first look.
    """
    if tolerated == 0 or not sealed:
        return []
    accounting, unit = curator.accounting, curator.unit
    cells = [math.prod(item.shape) for item in sealed]
    share = column_share(accounting, unit, cells, cost, rows=rows, tolerated=tolerated, pay=pay)
    return columns_for_share(curator, sealed, cost=cost, spent=spent, share=share, pay=pay)


def columns_for_share(
    curator: Curator,
    sealed: Sequence[SealedCounts],
    *,
    cost: float,
    spent: float,
    share: float,
    pay: Pay = noise_for,
) -> list[Measurement]:
    """Measure columns a second time, so that both looks cost a share of what there was before the first; not where that is less than twice what the first one cost.

    Privacy
    -------
    In: private. Out: releasable. ``share`` follows from public facts and a released number of rows; the second look is charged before noise is drawn.
    """
    if share * cost <= 2 * spent:
        return []
    accounting, unit = curator.accounting, curator.unit
    cells = [math.prod(item.shape) for item in sealed]
    return curator.measure_many(
        sealed,
        noise=noises_by_size(accounting, unit, share * cost - spent, cells, pay=pay),
        purpose=f"measure {len(sealed)} one-way marginals again, more exactly",
    )


def measure_worst(
    curator: Curator,
    sealed: Mapping[Clique, SealedCounts],
    candidates: Sequence[Clique],
    answers: Sequence[npt.NDArray[np.float64]],
    *,
    noise: Noise,
    epsilon: float,
    penalty: float = 0.0,
    weights: Mapping[Clique, float] | None = None,
    last: bool = False,
) -> Round:
    """Choose the marginal that a model answers worst, and measure it.

    Parameters
    ----------
    answers
        The model's counts over each candidate.
    noise, epsilon
        Of the measurement, and of the choice.
    penalty
        What the score of a marginal loses for each of its cells, in rows.
    weights
        Of the scores; all one by default.
    last
        Whether it is known that no other round will follow.

    Privacy
    -------
    In: private. Out: releasable. The score ``w (|M(D) - M(model)|_1 - penalty cells)`` moves by at most ``w l1`` between neighbours, as all but
    the first count is public. The choice is charged before it is made, and so is the measurement.
    """
    by_weight = [1.0 if weights is None else weights[clique] for clique in candidates]
    scores = [
        sealed[clique].l1_distance(answer).shifted(-penalty * answer.size).scaled(weight)
        for clique, answer, weight in zip(candidates, answers, by_weight, strict=True)
    ]
    index = curator.choose(scores, epsilon=epsilon, purpose="choose a marginal to measure")
    return Round(
        clique=candidates[index],
        answer=answers[index],
        measurement=curator.measure(sealed[candidates[index]], noise=noise),
        epsilon=epsilon,
        candidates=tuple(candidates),
        weight=by_weight[index],
        largest_weight=max(by_weight),
        penalty=penalty,
        l1=float(curator.unit.histogram_l1),
        last=last,
    )


def small_first(domain: Domain, closure: Sequence[Clique], *, limit: float, most: int) -> list[Clique]:
    """Return the marginals that may be chosen, in the order of the closure; see :func:`small_of_groups`.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (2, 3, 40))
    >>> small_first(domain, [("a",), ("b",), ("c",), ("a", "b"), ("b", "c")], limit=100, most=9)
    [('a',), ('b',), ('c',), ('a', 'b')]
    """
    groups = groupby(sorted(closure, key=len), key=len)
    kept = small_of_groups(domain, (group for _, group in groups), limit=limit, most=most)
    order = {clique: index for index, clique in enumerate(closure)}
    return sorted(kept, key=order.__getitem__)


def small_of_groups(
    domain: Domain, groups: Iterable[Iterable[Clique]], *, limit: float, most: int
) -> list[Clique]:
    """Return the marginals that may be chosen from a closure that comes by numbers of columns; a rule on public sizes only.

    Each has at most ``limit`` cells, all together fit into memory, and there are at most ``most`` besides
    single columns. Marginals of fewer columns come before others, small ones before large ones; once there are ``most``, larger groups are
    not looked at.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (2, 3, 40))
    >>> small_of_groups(domain, [[("a",), ("b",), ("c",)], [("a", "b"), ("b", "c")]], limit=100, most=9)
    [('a',), ('b',), ('c',), ('a', 'b')]
    """
    kept: list[Clique] = []
    room = MAX_CANDIDATE_CELLS
    size = {name: domain.size(name) for name in domain.names}
    for group in groups:
        listed = list(group)
        cells = [math.prod(size[name] for name in clique) for clique in listed]
        chosen: list[int] = []
        for place in sorted(range(len(listed)), key=cells.__getitem__):
            if cells[place] > limit or cells[place] > room:
                break  # the rest of the group is no smaller
            if len(kept) + len(chosen) >= most and len(listed[place]) > 1:
                break
            chosen.append(place)
            room -= cells[place]
        kept += [listed[place] for place in sorted(chosen)]
        if len(kept) >= most:
            break
    return kept


def hopeful(
    domain: Domain,
    cliques: list[Clique],
    weights: Mapping[Clique, float],
    total: float,
    penalty: float,
    epsilon: float,
    unit: Unit,
) -> list[Clique]:
    """Leave out candidates that cannot win, judging by released values only.

    A distance lies between 0 and about ``2 total``, so a score lies between ``-w penalty n`` and
    ``w (2 total - penalty n)``. A candidate whose upper bound is far below the best lower bound would
    be chosen with negligible probability; leaving it out changes the mechanism's outputs hardly at
    all and its privacy not at all, since the candidate set is a function of released values.
    """
    cells = np.array([domain.cells(clique) for clique in cliques], dtype=float)
    weight = np.array([weights[clique] for clique in cliques])
    lower = -weight * penalty * cells
    upper = weight * (2 * max(total, 1.0) - penalty * cells)
    scale = 2 * unit.histogram_l1 * float(weight.max()) / epsilon
    floor = float(lower.max()) - scale * (_NEGLIGIBLE + math.log(len(cliques)))
    return [clique for clique, best in zip(cliques, upper, strict=True) if best >= floor]


def require_fixed(schema: Schema, fixed: Sequence[Clique], limit_mb: float) -> None:
    """Refuse at plan time what no model of a size can hold before anything is measured.

    ``fixed`` are the cliques a model holds in any case: columns of constraints, cliques of a prior and of
    measurements made earlier. Each joins its columns into a table, and several may grow into a larger one.
    """
    held = [*(constraint.columns for constraint in structural_rules(schema)), *fixed]
    size = model_size(schema.domain, held)
    if held and size > limit_mb:
        widest = max(held, key=schema.domain.cells)
        raise DomainTooLarge(
            f"The constraints, and what else the model has to hold from the start, need {size:,.1f} MB; "
            f"{limit_mb:g} MB are allowed. The largest table joins {', '.join(widest)}. Use coarser bins for these "
            "columns, constraints over fewer columns, or a larger max_model_mb.",
            cells=cells_of(size),
            allowed=cells_of(limit_mb),
        )


def require_columns(schema: Schema, *, max_cells: int, max_model_mb: float, method: str) -> list[Clique]:
    """Return the one-way marginals of a table, or refuse columns that are too wide to be measured and held together."""
    columns: list[Clique] = [(name,) for name in schema.names]
    require_cells(schema.domain, columns, max_cells, method=method)
    require_fixed(schema, columns, max_model_mb)
    return columns


_LEFT = 0.25
"""At least so much of what a certificate is planned with is there when it is measured."""


def can_be_drawn(noise: Noise, sensitivity: float) -> bool:
    """Say whether noise on a sealed number of a sensitivity can be drawn: in steps of its grid the scale must be one that the samplers take.

    A plan asks this before anything is charged; the curator refuses such noise when it is asked for the number.

    Examples
    --------
    >>> from understudy.privacy.accounting.accounting import PURE
    >>> can_be_drawn(scalar_noise(PURE, 1e-5, 1.0), 1.0), can_be_drawn(scalar_noise(PURE, 1e-7, 1.0), 1.0)
    (True, False)
    """
    return noise.scale / grid_of(sensitivity) <= MAX_SCALE


def require_certificate(accounting: Accounting, unit: Unit, cost: float, marginals: int) -> None:
    """Refuse a certificate of so many marginals whose noise could not be drawn, before anything is charged: it would end the fit when all the rest is paid for."""
    if cost <= 0 or not marginals:
        return
    share, reach = accounting.split(_LEFT * cost, [1.0] * marginals)[0], float(unit.histogram_l1)
    if share <= 0 or not can_be_drawn(scalar_noise(accounting, share, reach), reach):
        raise BudgetError(
            f"certify leaves too little of the budget for the error of each of {marginals:,} marginals: its noise would be too large to be drawn. Nothing was "
            "charged. Raise certify or the budget, name fewer marginals (workload), or leave certify out."
        )


def certify(
    curator: Curator,
    sealed: Mapping[Clique, SealedCounts],
    cliques: Sequence[Clique],
    answers: Sequence[npt.NDArray[np.float64]],
    cost: float,
) -> Certificate:
    """Measure how far a finished model is from the records, marginal by marginal.

    Privacy
    -------
    One number per clique: its L1 distance to the model's public answer, which one unit changes by at most
    ``l1``. The numbers share ``cost`` equally and are charged one by one, before each is drawn.
    """
    if not cliques:
        return Certificate((), np.zeros(0), "gaussian", 1.0)
    share = curator.accounting.split(cost, [1.0] * len(cliques))[0]
    noise = scalar_noise(curator.accounting, share, float(curator.unit.histogram_l1))
    values = [
        curator.measure_scalar(
            sealed[clique].l1_distance(answer), noise=noise, purpose="certify the error of a marginal"
        )
        for clique, answer in zip(cliques, answers, strict=True)
    ]
    return Certificate(tuple(cliques), np.array(values), noise.kind, noise.scale)
