"""What the mechanisms that measure a fixed list of marginals share: the estimate, and words about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy.special import kve
from threadpoolctl import threadpool_limits

from understudy.curator import Curator, scalar_noise
from understudy.engine import GraphicalModel, estimate, model_cells
from understudy.engine.graphical.targets import estimate_total
from understudy.marginals import Measurement
from understudy.mechanisms.allocation import direct_weights
from understudy.mechanisms.base import support_of
from understudy.mechanisms.marginal.fields import field_posterior, shrunk_cells
from understudy.mechanisms.marginal.look import RareCounts, count_rare
from understudy.privacy import Noise
from understudy.schema import Clique, Domain, Schema

# ----------------------------------------------------------------------------------------
# Noise taken out of measured pairs: what two columns say about each other is rarely rough.
#
# A noisy table of two columns is compared with the product of its margins, times one association: what grows, or falls, with
# both codes (`_associated`), fitted to it. The difference, their *interaction*, is
# modelled as a random field: in each cell independent of all others or similar to that of neighbouring codes, larger
# where more records are expected (in proportion to them, or to their root). How much of each kind there is (seven
# variances) is what makes the noisy table most likely; noise has a known variance, so pairs that are independent are
# recognised as such and get almost no interaction, while strong ones are left as they were measured. The posterior mean of
# the field takes the place of the noise, and the nearest table without negative cells is taken: setting negative cells to
# zero instead would leave what noise put into the other empty cells of a rare row, and pull its mean to the middle.
#
# All of it is post-processing of released numbers.

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MAX_CELLS = 1_000
"""Largest table that is smoothed; the work grows with the third power."""

_LEAST = 0.5
"""Smallest number of records that a value is thought to have."""
_STEPS = 15
_START = np.log([0.01, 0.01, 0.003, 0.003, 0.001, 0.01, 0.01])
_USUAL = -6.0
"""Logarithms of the variances to start from, and of a usual one."""
_REST = 0.2
"""Standard error of a smoothed cell, as a part of its noise's; larger, the estimate would fill empty cells again."""
_LEAST_SPREAD = 0.1
"""Standard error of a table that was moved towards public data, as a part of its noise's: it is never taken for exact."""
_SLOPE_STEPS, _LARGEST_STEP, _LARGEST_SLOPE = 25, 1.0, 20.0
"""Of the search for an association: most steps, the largest step, and the largest slope that is believed."""
_SEED = 1e-3
"""Part of the records expected by chance that is left in every cell: what is zero could not be scaled."""
_FURTHEST = 3.0
"""Deviations from the mean at which the place of a code ends in a sum of products: noise is in proportion to the largest product."""


def margins_of(
    domain: Domain, measurements: Sequence[Measurement], total: float
) -> dict[str, tuple[Array, float]]:
    """Return the best linear unbiased estimate of every single column, with the variance of a value.

    Each measured table that holds a column estimates it with the variance of a cell times the cells that are
    summed, after its sum was set to the total; independent estimates are averaged by precision. Columns
    that no table holds are left out.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> table = Measurement(("a", "b"), np.array([[3.0, 4.0], [1.0, 2.0]]), "gaussian", 1.0)
    >>> values, variance = margins_of(domain, [table], 10.0)["a"]
    >>> values.tolist(), variance
    ([7.0, 3.0], 2.0)
    """
    sums: dict[str, tuple[Array, float]] = {}
    for item in measurements:
        for axis, name in enumerate(item.clique):
            others = tuple(other for other in range(len(item.clique)) if other != axis)
            values = item.values.sum(axis=others) if others else np.asarray(item.values)
            values = values + (total - values.sum()) / len(values)
            weight = len(values) / (item.variance * item.values.size)
            before, known = sums.get(name, (np.zeros(len(values)), 0.0))
            sums[name] = (before + weight * values, known + weight)
    return {
        name: (sums[name][0] / sums[name][1], 1.0 / sums[name][1]) for name in domain.names if name in sums
    }


def smooth_pairs(
    schema: Schema,
    measurements: Sequence[Measurement],
    margins: Mapping[str, Array],
    allowed: Sequence[tuple[Clique, Mask]],
    total: float,
    associations: Mapping[Clique, Association] = MappingProxyType({}),
) -> list[Measurement]:
    """Return targets for an estimate: margins, smoothed pairs that agree with them, other tables as measured.

    Parameters
    ----------
    schema
        The columns; codes of columns with an order are neighbours.
    measurements
        Noisy tables. Those over two columns and up to `MAX_CELLS` cells are smoothed.
    margins
        Number of records with each value, for each column of the pairs.
    allowed
        Combinations of values that may occur.
    total
        Number of records.
    associations
        Measured sums of products, which the smoothed pairs are to have.
    """
    pairs = {clique: pair for clique, pair in _pairs_of(measurements).items() if pair[0].size <= MAX_CELLS}
    others = [
        item
        for item in measurements
        if item.clique not in pairs and (len(item.clique) != 1 or item.clique[0] not in margins)
    ]
    fixed = {name: _positive(values, total) for name, values in margins.items()}
    with threadpool_limits(
        1
    ):  # the matrices are small: threads of a loaded machine would wait for each other
        smoothed = [
            _smoothed(schema, clique, values, variance, fixed, allowed, total, associations.get(clique))
            for clique, (values, variance) in pairs.items()
        ]
    ones = [Measurement((name,), values, "gaussian", 1.0) for name, values in fixed.items()]
    return [*ones, *smoothed, *others]


def _pairs_of(measurements: Sequence[Measurement]) -> dict[Clique, tuple[Array, float]]:
    """Return each table of two columns with the variance of a cell; those measured more than once are averaged."""
    sums: dict[Clique, tuple[Array, float]] = {}
    for item in measurements:
        if len(item.clique) == 2:
            values, known = sums.get(item.clique, (np.zeros(item.values.shape), 0.0))
            sums[item.clique] = (values + item.values / item.variance, known + 1.0 / item.variance)
    return {clique: (values / known, 1.0 / known) for clique, (values, known) in sums.items()}


def _smoothed(
    schema: Schema,
    clique: Clique,
    noisy: Array,
    variance: float,
    margins: Mapping[str, Array],
    allowed: Sequence[tuple[Clique, Mask]],
    total: float,
    association: Association | None,
) -> Measurement:
    """Return one pair without most of its noise, with the given margins and without forbidden cells."""
    left, right = (margins[name] for name in clique)
    mask = np.ones(noisy.shape, dtype=bool)
    for columns, cells in allowed:
        if columns == clique:
            mask &= cells
    chance = _rake(np.where(mask, np.outer(left, right) / total, 0.0), left, right)
    expected = _associated(noisy, chance, mask, variance, [_line(schema, name) for name in clique])
    kernels = [_kernels(schema, name) for name in clique]
    table = expected + _interaction(noisy, expected, mask, variance, kernels)
    table = _nearest(table, mask, left, right) + _SEED * expected + 1e-9
    table = _rake(np.where(mask, table, 0.0), left, right)
    if association is not None:
        table = _tilted(table, association.products, association.wanted(noisy, variance, chance))
    return Measurement(clique, table, "gaussian", _REST * math.sqrt(variance))


def _tilted(table: Array, products: Array, wanted: float) -> Array:
    """Return the table scaled by ``exp(s products)``, its margins kept, so that the sum of the products is the one wanted (Newton)."""
    left, right = table.sum(axis=1), table.sum(axis=0)
    for _ in range(_SLOPE_STEPS):
        size = float((_centred(table, products) * products).sum())
        gap = wanted - float((table * products).sum())
        if not size > 0 or abs(gap) < 1e-6 * size:
            break
        step = min(_LARGEST_STEP, max(-_LARGEST_STEP, gap / size))
        table = _rake(table * np.exp(step * products), left, right, rounds=15)
    return table


def _positive(values: Array, total: float) -> Array:
    kept = np.maximum(values, _LEAST)
    return np.asarray(kept * (total / kept.sum()))


def _rake(table: Array, left: Array, right: Array, rounds: int = 50) -> Array:
    """Scale rows and columns in turn until their sums are those wanted."""
    for _ in range(rounds):
        for axis, wanted in ((1, left), (0, right)):
            sums = table.sum(axis=axis)
            factor = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
            table = table * (factor[:, None] if axis == 1 else factor[None, :])
    return table


def _nearest(table: Array, mask: Mask, left: Array, right: Array, rounds: int = 100) -> Array:
    """Return nearly the closest table (least squares) with given margins, no negative and no forbidden cell.

    Dykstra's algorithm: margins are corrected by equal amounts in all cells of a row or column that may hold
    records, and what cutting off negative numbers took is given back before the next correction.
    """
    found, cut = np.where(mask, table, 0.0), np.zeros_like(table)
    cells = [np.maximum(mask.sum(axis=axis, keepdims=True), 1) for axis in (1, 0)]
    for _ in range(rounds):
        found = found + mask * (left[:, None] - found.sum(axis=1, keepdims=True)) / cells[0]
        found = found + mask * (right[None, :] - found.sum(axis=0, keepdims=True)) / cells[1]
        before = found + cut
        found = np.maximum(before, 0.0)
        cut = before - found
    return np.asarray(found)


def _associated(noisy: Array, chance: Array, mask: Mask, variance: float, lines: Sequence[Array]) -> Array:
    """Return the table with the margins of ``chance`` and one association more: what grows, or falls, with both codes.

    ``m = a_i b_j exp(t x_i y_j)`` with the slope ``t`` of least squares (Gauss-Newton; the margins stay), shrunk by what noise alone
    would make it: ``t (1 - var(t) / t^2)``, or nothing.
    """
    slopes = np.outer(*lines)
    left, right = chance.sum(axis=1), chance.sum(axis=0)
    table, slope, spread = chance, 0.0, 0.0
    if not slopes.any():
        return chance
    for _ in range(_SLOPE_STEPS):
        moves = _centred(table, slopes)
        size = float((moves * moves).sum())
        if not size > 0:
            return chance
        step = float((moves * np.where(mask, noisy - table, 0.0)).sum()) / size
        step = min(_LARGEST_STEP, max(-_LARGEST_STEP, step))
        slope, spread = slope + step, variance / size
        if abs(slope) > _LARGEST_SLOPE:
            return chance
        table = _rake(table * np.exp(step * slopes), left, right, rounds=15)
        if abs(step) < 1e-4:
            break
    kept = 0.0 if slope * slope <= spread else slope - spread / slope
    return _rake(chance * np.exp(kept * slopes), left, right)


def _centred(table: Array, slopes: Array, rounds: int = 15) -> Array:
    """Return how the cells of a table move with an association, rows and columns keeping their sums."""
    moves = table * slopes
    rows, columns = (np.maximum(table.sum(axis=axis), 1e-300) for axis in (1, 0))
    for _ in range(rounds):
        moves = moves - table * (moves.sum(axis=1) / rows)[:, None]
        moves = moves - table * (moves.sum(axis=0) / columns)[None, :]
    return moves


def _line(schema: Schema, name: str) -> Array:
    """Return the places of a column's codes on a line: of a column with an order, or of two values; zero for all others."""
    column = schema.column(name)
    line, count = np.zeros(column.size), column.value_count
    if count == 2 or (column.kind != "categorical" and count > 1):
        place = np.arange(count, dtype=np.float64)
        line[:count] = (place - place.mean()) / place.std()
    return line


@dataclass(frozen=True, eq=False)
class Association:
    """A measured sum over the records: of the product of the places that two values have in their columns.

    Attributes
    ----------
    products
        The product for each combination of codes.
    value
        The noisy sum.
    noise
        What was added to it.
    """

    products: Array
    value: float
    noise: Noise

    def wanted(self, noisy: Array, variance: float, chance: Array) -> float:
        """Return the sum that a smoothed table is to have: what the measured sum and the noisy table say together, shrunk towards chance by its variance."""
        own, spread = variance * float(np.square(self.products).sum()), self.noise.variance
        seen, start = float((noisy * self.products).sum()), float((chance * self.products).sum())
        gap = (self.value * own + seen * spread) / (own + spread) - start
        left = own * spread / (own + spread)
        return start + (gap - left / gap if gap * gap > left else 0.0)


def measure_associations(
    curator: Curator,
    measurements: Sequence[Measurement],
    *,
    importance: Mapping[Clique, float],
    total: float,
    cost: float,
) -> dict[Clique, Association]:
    """Measure how each measured pair of columns goes together: the sum of the products of both places over the records.

    A place is how many standard deviations a value lies from its column's mean, both by the noisy tables, at most `_FURTHEST`. The noise of such a
    sum that is computed from a noisy table grows with the table's cells; one number that a record moves by no more than the largest
    product has several times less for the same cost. The share of a pair is that of a table with as many cells as a unit can
    move the sum (:func:`~understudy.mechanisms.allocation.direct_weights`). Returns nothing, and spends nothing, where no pair has places.

    Privacy
    -------
    Places follow from released tables and public facts, so each sum is a count of cells with public weights
    (`SealedCounts.sum`), measured for its part of ``cost`` (`Curator.measure_scalars`).
    """
    places = {
        name: _places(curator.schema, name, values)
        for name, (values, _) in margins_of(curator.domain, measurements, total).items()
    }
    products = {
        clique: np.outer(*(places[name] for name in clique))
        for clique in _pairs_of(measurements)
        if importance.get(clique, 0.0) > 0
    }
    products = {clique: table for clique, table in products.items() if table.any()}
    if not products:
        return {}
    counts = curator.counts_many(list(products))
    sealed = [item.sum(table) for item, table in zip(counts, products.values(), strict=True)]
    weights = direct_weights(
        curator.accounting,
        [importance[clique] for clique in products],
        [item.sensitivity for item in sealed],
    )
    noise = [
        scalar_noise(curator.accounting, part, item.sensitivity)
        for part, item in zip(curator.accounting.split(cost, weights), sealed, strict=True)
    ]
    values = curator.measure_scalars(
        sealed, noise=noise, purpose=f"measure {len(sealed)} associations of pairs"
    )
    return {
        clique: Association(table, value, kind)
        for (clique, table), value, kind in zip(products.items(), values, noise, strict=True)
    }


def _places(schema: Schema, name: str, values: Array) -> Array:
    """Return how many deviations each code of a column lies from the mean; zero where codes have no place on a line."""
    column, line = schema.column(name), _line(schema, name)
    count = column.value_count
    if not line.any():
        return line
    numbers = getattr(column, "midpoints", None)
    if numbers is None or column.kind == "date":
        numbers = np.arange(count, dtype=np.float64)
    halves = np.asarray(numbers, dtype=np.float64) / 2  # their difference is finite whatever the numbers are
    span = float(halves.max() - halves.min())
    if not span > 0:
        return np.zeros_like(line)
    numbers = (
        halves - halves.min()
    ) / span  # neither the largest nor the smallest steps leave what doubles can hold
    shares = np.maximum(values[:count], _LEAST)
    shares = shares / shares.sum()
    away = numbers - float(shares @ numbers)
    line[:count] = np.clip(away / math.sqrt(float(shares @ np.square(away))), -_FURTHEST, _FURTHEST)
    return line


def _interaction(
    noisy: Array, expected: Array, mask: Mask, variance: float, kernels: Sequence[tuple[Array, ...]]
) -> Array:
    """Return the posterior mean of a table's difference from the expected one."""
    gap = noisy - expected
    gap = gap - gap.mean(axis=0) - gap.mean(axis=1, keepdims=True) + gap.mean()
    variance *= math.prod(1.0 - 1.0 / size for size in noisy.shape) or 1.0
    spots = shrunk_cells(gap, np.maximum(expected, 1e-9), variance)
    # records that are likely in a cell set the size of its interaction; the root keeps rare rows movable
    likely = np.maximum(expected, expected + spots)
    root = np.where(mask, np.sqrt(likely * likely.mean()), 1e-6)
    return _field(gap, root, np.where(mask, likely, 1e-6), variance, kernels)


def _kernels(schema: Schema, name: str) -> tuple[Array, Array, Array]:
    """Return how alike the codes of a column are: by a trend, as neighbours, and not at all."""
    column = schema.column(name)
    alone = np.eye(column.size)
    trend, near = np.zeros_like(alone), alone.copy()
    count = column.value_count
    if column.kind != "categorical" and count > 1:
        place = np.arange(count, dtype=np.float64)
        near[:count, :count] = np.exp(-0.5 * np.square(np.subtract.outer(place, place) / max(1.0, count / 4)))
        line = (place - place.mean()) / place.std()
        trend[:count, :count] = np.outer(line, line)
    return trend, near, alone


def _field(
    gap: Array, root: Array, likely: Array, variance: float, kernels: Sequence[tuple[Array, ...]]
) -> Array:
    """Fit the variances of the seven kinds of interaction, and return the posterior mean of their sum."""
    (trend, near, alone), (trend_, near_, alone_) = kernels
    trends, areas = np.kron(trend, trend_), np.kron(near, near_)
    rough, even = (np.outer(size.ravel(), size.ravel()) for size in (root, likely))
    parts = [
        rough * trends,
        rough * areas,
        rough * np.kron(alone, near_),
        rough * np.kron(near, alone_),
        rough * np.kron(alone, alone_),
        even * trends,
        even * areas,
    ]
    mean, _ = field_posterior(
        gap.ravel(), parts, variance, start=_START, usual=_USUAL, bounds=(-16.0, 8.0), steps=_STEPS
    )
    return mean.reshape(gap.shape)


# ----------------------------------------------------------------------------------------
# Rare values: found in released numbers, counted once more in disjoint classes.

_MOST = 64
"""Most rare values that are counted."""
_MOST_CELLS = 16
"""Most cells with Laplace noise whose sum is not taken for normal."""
_DOUBT = 0.15
"""Relative error of an estimated number of records with two rare values, beside that of the measured tables."""


def measure_rare(
    curator: Curator, measurements: Sequence[Measurement], *, total: float, below: float, cost: float
) -> RareCounts | None:
    """Count the values that noisy tables show in fewer than a share ``below`` of the records.

    The rarest come first and get the least noise: precision is inverse to the count that the tables show (to the root of the sum of
    its square and its variance, so that noise alone makes nothing look rare), so that the *relative* errors of the rarest are alike. A unit pays for the classes
    that it can change, the one or two with the least noise (`rare_epsilon`), so all further classes have the noise of the last of these:
    it costs nothing. Returns None, and spends nothing, if no value is that rare.

    Privacy
    -------
    The values are chosen from released tables; `count_rare` proves the cost, which is at most ``cost`` in
    the accounting of the curator.
    """
    found = []
    for name, (values, variance) in margins_of(curator.domain, measurements, total).items():
        seen = np.sqrt(np.square(np.maximum(values, 0.0)) + variance)
        found += [(float(seen[code]), name, int(code)) for code in np.flatnonzero(seen < below * total)]
    found = sorted(found)[:_MOST]
    if not found:
        return None
    paid = min(len(found), 1 if curator.unit.relation == "add-remove" else 2)
    return count_rare(
        curator,
        [(name, code) for _, name, code in found],
        weights=[1.0 / min(count, found[paid - 1][0]) for count, _, _ in found],
        epsilon=curator.accounting.pure_epsilon(cost),
        purpose=f"count {len(found)} rare values",
    )


def with_rare(
    pairs: Mapping[Clique, tuple[Array, float]],
    unbiased: Mapping[str, tuple[Array, float]],
    rare: RareCounts,
    total: float,
) -> dict[str, Array]:
    """Return margins in which rare values have their own counts, averaged with what the tables say.

    A class leaves out the records of earlier classes. How many of those have the value is estimated from ``pairs``, noisy tables of
    two columns with the variance of a cell (`_shared`); the more there are, the less the class is trusted, since records with three of
    the values are left out more than once and the tables err. The other values of a column are scaled so that its sum stays.
    """
    result = {name: values.copy() for name, (values, _) in unbiased.items()}
    seen: dict[str, dict[int, float]] = {}
    for place, (name, code) in enumerate(rare.values):
        own = max(0.0, float(rare.counts[place]))
        values, variance = unbiased[name]
        shared = [
            _shared(pairs, (name, code, own), other, known, total)
            for other, known in seen.items()
            if other != name
        ]
        both = sum(number for number, _ in shared)
        noise = (
            2.0 * float(rare.scales[place]) ** 2 + (_DOUBT * both) ** 2 + sum(doubt for _, doubt in shared)
        )
        count = ((own + both) / noise + values[code] / variance) / (1.0 / noise + 1.0 / variance)
        result[name][code] = max(0.0, count)
        seen.setdefault(name, {})[code] = max(0.0, count)
    for name, known in seen.items():
        codes = list(known)
        rest = np.ones(len(result[name]), dtype=bool)
        rest[codes] = False
        common = float(result[name][rest].sum())
        if common > 0:
            result[name][rest] *= max(0.0, total - float(result[name][codes].sum())) / common
    return result


def _shared(
    pairs: Mapping[Clique, tuple[Array, float]],
    value: tuple[str, int, float],
    other: str,
    known: Mapping[int, float],
    total: float,
) -> tuple[float, float]:
    """Return about how many records have a value and one of some rare values of another column, and the variance of that.

    The noisy cells as they were measured err without bias; smoothed or cut at zero they would say that any two rare values go together.
    Beforehand ``o`` records are thought likely in proportion to ``(o + e)^-2``, ``e`` being what chance would have: near that as a rule, and any
    number if the cells are clear about it.
    """
    name, code, own = value
    codes, most = list(known), max(1.0, sum(known.values()))
    number = np.unique(
        np.concatenate([np.linspace(0.0, min(most, 400.0), 400), np.geomspace(1.0, most, 400)])
    )
    log = -2.0 * np.log(number + max(_LEAST, own * most / total))
    for clique in ((name, other), (other, name)):
        if clique in pairs:
            table, variance = pairs[clique]
            cells = (table if clique[0] == name else table.T)[code, codes]
            away = np.abs(number - cells.sum()) / math.sqrt(variance)
            log = log + _unlikely(away, len(codes))
    belief = np.exp(log - log.max()) * np.gradient(number)
    belief /= belief.sum()
    mean = float(belief @ number)
    return mean, float(belief @ np.square(number - mean))


def _unlikely(away: Array, cells: int) -> Array:
    """Return the logarithm, up to a constant, of the density of a sum of so many cells with Laplace noise of variance 1.

    Of ``k`` cells it is ``|x|^(k-1/2) K_(k-1/2)(|x|)`` in units of the scale: far numbers are more likely than under normal noise, which takes its
    place for many cells.

    Examples
    --------
    >>> one = _unlikely(np.array([1.0, 3.0]), 1)
    >>> round(float(one[0] - one[1]), 6) == round(2 * math.sqrt(2), 6)
    True
    """
    if cells > _MOST_CELLS:
        return np.asarray(-0.5 * np.square(away) / cells)
    scaled, order = np.maximum(away * math.sqrt(2.0), 1e-3), cells - 0.5
    return np.asarray(order * np.log(scaled) + np.log(kve(order, scaled)) - scaled)


def model_note(schema: Schema, cliques: Sequence[Clique], *, max_model_mb: float) -> tuple[int, str]:
    """Return how many cells the model will hold, and a sentence that says what kind of model it is."""
    needed = model_cells(schema.domain, [*cliques, *(clique for clique, _ in support_of(schema))])
    allowed = int(max_model_mb * 2**20 / 8)
    if needed <= allowed:
        return needed, "All measured marginals fit into one graphical model."
    local = sum(schema.domain.cells(clique) for clique in cliques)
    return (
        local + allowed,
        f"One graphical model of all measured marginals does not fit into {max_model_mb:g} MB. They are made to "
        "agree with each other, and rows are drawn from a smaller model.",
    )


def towards_prior(
    prior: GraphicalModel, measurements: Sequence[Measurement], total: float
) -> list[Measurement]:
    """Return targets for an estimate: each noisy table, moved towards what a model of public data says of it.

    A cell ``c`` of a table is thought to differ from the model's count ``m_c`` by a change of variance ``s m_c``, and the noisy one from it by noise of
    the known variance ``v``. How much has changed, ``s``, is what the squared differences exceed the noise by: ``max(0, sum (d_c^2 - v)) / sum m_c``,
    for each table by itself. The posterior mean ``m_c + d_c s m_c / (s m_c + v)`` takes the place of the noisy cell: tables that
    have not changed keep the model's counts, tables that changed more than noise can explain are left as they were measured. Noise of the
    public model counts as a change. All of it is post-processing of released numbers.

    Examples
    --------
    >>> domain = Domain(("a",), (4,))
    >>> old = estimate(domain, [Measurement(("a",), np.array([40.0, 30.0, 20.0, 10.0]), "gaussian", 1.0)], total=100.0)
    >>> new = [Measurement(("a",), np.array([43.0, 27.0, 21.0, 9.0]), "gaussian", 5.0)]
    >>> bool(np.allclose(towards_prior(old, new, 100.0)[0].values, [40, 30, 20, 10], atol=0.1))
    True
    >>> new = [Measurement(("a",), np.array([20.0, 30.0, 20.0, 30.0]), "gaussian", 0.1)]
    >>> bool(np.allclose(towards_prior(old, new, 100.0)[0].values, [20, 30, 20, 30], atol=0.1))
    True
    """
    moved = []
    for item, table in zip(
        measurements, prior.marginals([item.clique for item in measurements]), strict=True
    ):
        expected = np.asarray(table) * (total / prior.total)
        weight = np.maximum(expected, 1.0)
        gap = item.values - expected
        changed = max(0.0, float((gap * gap - item.variance).sum())) / float(weight.sum())
        part = changed * weight / (changed * weight + item.variance)
        spread = max(math.sqrt(float(part.mean())), _LEAST_SPREAD) * math.sqrt(item.variance)
        moved.append(Measurement(item.clique, expected + part * gap, "gaussian", spread))
    return moved


def estimate_fixed(
    curator: Curator,
    measurements: Sequence[Measurement],
    *,
    max_model_mb: float,
    prior: GraphicalModel | None = None,
) -> GraphicalModel:
    """Estimate a graphical model where it fits, and locally consistent marginals where not.

    A number of rows that was measured before is one more measurement. With a model of public data the tables are moved towards it, and what was
    not measured keeps the relations that it has there.
    """
    rows = curator.rows_measurement
    if prior is not None:
        total = curator.rows.total
        if total is None:
            total = estimate_total([*measurements, *([] if rows is None else [rows])])
        return estimate(
            curator.domain,
            towards_prior(prior, measurements, total),
            total=total,
            zeros=support_of(curator.schema),
            warm_start=prior,
            keep_start=True,
            max_cells=int(max_model_mb * 2**20 / 8),
            thorough=True,
        )
    return _estimate(
        curator,
        [*measurements, *([] if rows is None else [rows])],
        total=curator.rows.total,
        max_model_mb=max_model_mb,
    )


def estimate_smoothed(
    curator: Curator,
    measurements: Sequence[Measurement],
    base: GraphicalModel,
    *,
    rare: RareCounts | None,
    max_model_mb: float,
    associations: Mapping[Clique, Association] = MappingProxyType({}),
) -> GraphicalModel:
    """Estimate again, with the noise taken out of pairs and rare values set to their own counts.

    The number of records with each value is what the measured tables say without bias. The first estimate knows that
    counts are not negative, which makes it overrate rare values: noise in their empty cells only adds.
    """
    total = base.total
    unbiased = margins_of(curator.domain, measurements, total)
    margins = {name: values for name, (values, _) in unbiased.items()}
    support = support_of(curator.schema)
    if rare is not None:
        margins = with_rare(_pairs_of(measurements), unbiased, rare, total)
    targets = smooth_pairs(curator.schema, measurements, margins, support, total, associations)
    return _estimate(curator, targets, total=total, max_model_mb=max_model_mb)


def _estimate(
    curator: Curator, measurements: Sequence[Measurement], *, total: float | None, max_model_mb: float
) -> GraphicalModel:
    return estimate(
        curator.domain,
        measurements,
        total=total,
        zeros=support_of(curator.schema),
        max_cells=int(max_model_mb * 2**20 / 8),
        thorough=True,
        if_too_large="local-consistency",
    )
