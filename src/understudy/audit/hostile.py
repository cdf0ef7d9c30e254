"""Neighbours under hostile parameters: does any specification make a criterion move further than is charged?

A sensitivity is proved for every parameter, so every parameter is fair: values far from zero for their steps, steps that doubles can hardly
tell apart, bins to the end of the doubles, groups that are empty or have a single value, thousands of groups, thresholds of any
size. For each criterion in both forms, specifications are drawn from such parameters; for each, tables and all their neighbours that replace,
add or take away a unit. What is compared is the number as it reaches the noise, in whole steps of its grid, and the steps that are charged for.

The tables are small and made up of few kinds of record, so all kinds can be tried for the one that comes: that attains the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from understudy.curator.rounding import charged_steps, grid_of, on_grid
from understudy.privacy import Unit
from understudy.release import (
    AverageMarginalError,
    AverageScore,
    ConditionalMeans,
    ConditionalMedians,
    Criterion,
    Faithfulness,
    Grouping,
    MaxMarginalError,
    PredictionError,
    RecordTypes,
    RegressionCoefficients,
    RelativeMarginalError,
    Similarity,
    SlackTest,
    TailMarginalError,
)
from understudy.release.criteria.levels import ChosenMarginals, EventRates
from understudy.release.regressions.fits import Feature, LinearFit, Regression
from understudy.schema import Domain

__all__ = ["KINDS", "Worst", "hostile_levels", "search_criteria", "share_moved"]

Ints = npt.NDArray[np.int64]

UNITS = (
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=3),
    Unit.replace_person("id", max_rows=2),
)
OFFSETS = (0.0, 1.0, -7.0, 1.7e9, 1e12, -1e12, 1e16, 1e18, -1e18)
STEPS = (1e-12, 1e-3, 0.5, 1.0, 2.0, 128.0, 1e6, 1e290)
_LEAST = 2.0**-40
_GROUPS = 3_000


@dataclass
class Worst:
    """The largest move over its claim that was seen, and how many neighbours were tried."""

    share: float = 0.0
    triples: int = 0

    def see(self, share: float) -> None:
        """Take one more neighbour into account."""
        self.share, self.triples = max(self.share, share), self.triples + 1


@dataclass(frozen=True, eq=False)
class _Case:
    criterion: Criterion
    domain: Domain
    rows: int


def share_moved(one: Fraction, two: Fraction, sensitivity: float) -> float:
    """Return by which share of what is charged for two numbers differ when they reach the noise.

    Examples
    --------
    >>> round(share_moved(Fraction(3), Fraction(4), 1.0), 4), share_moved(Fraction(3), Fraction(5), 1.0) > 1.9
    (1.0, True)
    """
    step = grid_of(sensitivity)
    return abs(on_grid(one, step) - on_grid(two, step)) / charged_steps(sensitivity, step)


def hostile_levels(generator: np.random.Generator, size: int) -> tuple[float, ...]:
    """Return values of a column that floating point handles badly, all of them finite and not all equal where doubles allow."""
    style = generator.integers(8)
    if style == 0:
        return (0.5, *(1e307 * ((i + 1) / size) for i in range(size - 1)))
    if style == 1:
        return (-8e307, *(8e307 for _ in range(size - 1)))
    offset, step = float(generator.choice(OFFSETS)), float(generator.choice(STEPS))
    if style == 2:
        return (offset,) * size  # a single value
    if style == 3:
        return tuple(float(np.nextafter(offset, math.inf)) if i == size - 1 else offset for i in range(size))
    return tuple(offset + i * step for i in range(size))


def _threshold(generator: np.random.Generator, width: float) -> float:
    shares = (1e-300, 1e-9, 0.01, 0.3, 0.9, 5.0, 1e9)
    return min(1e300, max(1e-300, (width or 1.0) * float(generator.choice(shares))))


def _rows(generator: np.random.Generator) -> int:
    return int(generator.choice([4, 17, 40, 1_000, 100_000, 10**9]))


def _share(generator: np.random.Generator) -> float:
    return float(generator.choice([1e-300, 1e-9, 0.01, 0.2, 0.99]))


def _marginal(kind: type[Criterion]) -> Callable[[np.random.Generator], _Case]:
    def build(generator: np.random.Generator) -> _Case:
        domain = Domain(("a", "b"), (int(generator.integers(2, 4)), int(generator.integers(1, 4))))
        more = {"share": float(generator.choice([0.0, 0.2, 0.6]))} if kind is TailMarginalError else {}
        orders = (None, (1,), (2,))[generator.integers(3)]
        build_criterion: Callable[..., Criterion] = kind
        criterion = build_criterion(name="c", threshold=_share(generator), orders=orders, **more)
        return _Case(criterion, domain, _rows(generator))

    return build


def _relative(generator: np.random.Generator) -> _Case:
    clip = float(generator.choice([1.0000001, 1.5, 2.0, 100.0, 1e15, 1e300]))
    threshold = 1 + (clip - 1) * float(generator.choice([0.5, 0.9, 1.0]))
    domain = Domain(("a", "b"), (int(generator.integers(2, 5)), 2))
    columns = (None, ("a",))[generator.integers(2)]
    return _Case(
        RelativeMarginalError(name="c", threshold=threshold, clip=clip, columns=columns),
        domain,
        _rows(generator),
    )


def _conditional(kind: type[Criterion]) -> Callable[[np.random.Generator], _Case]:
    def build(generator: np.random.Generator) -> _Case:
        size, codes = int(generator.integers(2, 5)), int(generator.integers(1, 4))
        many = generator.random() < 0.02
        codes = _GROUPS if many else codes
        values = hostile_levels(generator, size)
        if generator.random() < 0.3:
            values = (*values[:-1], math.nan)
        finite = [value for value in values if math.isfinite(value)]
        width = max(finite) - min(finite)
        grouping: tuple[Grouping, ...] = (Grouping.everyone(),)
        if many or generator.random() < 0.5:
            grouping = (Grouping.each("g", codes), Grouping.everyone())[: 1 + int(generator.integers(2))]
        elif generator.random() < 0.3 and codes > 1:
            grouping = (Grouping("g", (0, *(-1 for _ in range(codes - 1)))),)
        more = {}
        if kind is ConditionalMeans:
            more = {"marginal_threshold": float(generator.choice([0.0, 0.01, 0.3]))}
        criterion = kind(
            name="c",
            threshold=_threshold(generator, width),
            column="x",
            values=values,
            groups=grouping,
            **more,  # type: ignore[call-arg]
        )
        return _Case(criterion, Domain(("x", "g"), (size, codes)), 2 * _GROUPS if many else _rows(generator))

    return build


def _rates(generator: np.random.Generator) -> _Case:
    """Rates of events, weighed by numbers of events of any size, with groups that are empty or left out."""
    numbers, codes = int(generator.integers(1, 5)), int(generator.integers(1, 4))
    weights = [
        0.0,
        *(float(generator.choice([1e-300, 1e-9, 1.0, 7.5, 40.0, 99_999.5, 9e8])) for _ in range(numbers)),
    ]
    values = [(0.0, 1.0), (1.0, 1.0), (0.0, 1.0, math.nan), (math.nan, 1.0)][generator.integers(4)]
    grouping = [
        (Grouping.everyone(),),
        (Grouping.each("g", codes), Grouping.everyone()),
        (Grouping("g", (0, *(-1 for _ in range(codes - 1)))),),
    ][generator.integers(3)]
    criterion = EventRates(
        name="c",
        threshold=float(generator.choice([1e-300, 1e-9, 0.01, 0.2, 0.99, 1.0])),
        column="x",
        values=values,
        number="n",
        weights=tuple(weights),
        groups=grouping,
    )
    return _Case(criterion, Domain(("x", "n", "g"), (len(values), len(weights), codes)), _rows(generator))


def _chosen(generator: np.random.Generator) -> _Case:
    """Some marginals of the records of events, one of them perhaps named twice."""
    cliques = [(("b", "a"),), (("a",), ("b", "c")), (("c", "a", "b"), ("a", "b", "c"))][generator.integers(3)]
    domain = Domain(("a", "b", "c"), (int(generator.integers(2, 4)), int(generator.integers(1, 3)), 2))
    return _Case(
        ChosenMarginals(name="c", threshold=_share(generator), cliques=cliques), domain, _rows(generator)
    )


def _score(generator: np.random.Generator) -> _Case:
    size = int(generator.integers(2, 6))
    scores = hostile_levels(generator, size)
    threshold = _threshold(generator, max(scores) - min(scores))
    return _Case(
        AverageScore(name="c", threshold=threshold, columns=("x",), scores=scores),
        Domain(("x", "g"), (size, 2)),
        _rows(generator),
    )


def _faithful(generator: np.random.Generator) -> _Case:
    similarity = (
        Similarity(exact=("a",), near={"b": 1}),
        Similarity(near={"a": 1, "b": 2}, at_most=2),
        Similarity(exact=("b",), ignored=("a",)),
    )[generator.integers(3)]
    rows = int(generator.choice([4, 17, 40, 1_000]))
    return _Case(
        Faithfulness(name="c", threshold=_share(generator), similarity=similarity),
        Domain(("a", "b"), (3, 3)),
        rows,
    )


def _regression(generator: np.random.Generator) -> tuple[Regression, Domain]:
    """Features and a target of hostile sizes; a feature that varies, or no candidate would have a regression."""
    while True:
        x, y = hostile_levels(generator, 3), hostile_levels(generator, 3)
        if generator.random() < 0.5:
            x = tuple(float(i) for i in range(3))
        if generator.random() < 0.5:
            y = tuple(float(generator.choice([1.0, 1e6, 1e-9])) * i for i in range(3))
        support = None
        if generator.random() < 0.3:
            support = np.ones((3, 3), dtype=bool)
            support[0, 2] = False
        return Regression(Feature("y", y), (Feature("x", x),), support=support), Domain(("x", "y"), (3, 3))


def _regression_case(generator: np.random.Generator) -> tuple[Regression, Domain, int, float]:
    """A regression, its domain, a number of rows and a threshold."""
    regression, domain = _regression(generator)
    low, high = regression.target.bounds
    rows = int(generator.choice([40, 1_000, 100_000]))
    return regression, domain, rows, _threshold(generator, high - low)


def _line(generator: np.random.Generator) -> _Case:
    regression, domain, rows, threshold = _regression_case(generator)
    return _Case(RegressionCoefficients(name="c", threshold=threshold, regression=regression), domain, rows)


def _prediction(baseline: bool) -> Callable[[np.random.Generator], _Case]:
    def build(generator: np.random.Generator) -> _Case:
        regression, domain, rows, threshold = _regression_case(generator)
        low, high = regression.target.bounds
        fit = None
        if baseline:
            slope = float(generator.normal()) * (high / 2 - low / 2)
            fit = LinearFit(low / 2 + high / 2, (slope if math.isfinite(slope) else 0.0,))
        return _Case(
            PredictionError(name="c", threshold=threshold, regression=regression, baseline=fit), domain, rows
        )

    return build


KINDS: dict[str, Callable[[np.random.Generator], _Case]] = {
    "max-marginal-error": _marginal(MaxMarginalError),
    "average-marginal-error": _marginal(AverageMarginalError),
    "tail-marginal-error": _marginal(TailMarginalError),
    "relative-marginal-error": _relative,
    "conditional-means": _conditional(ConditionalMeans),
    "conditional-medians": _conditional(ConditionalMedians),
    "event-rates": _rates,
    "transition-shares": _chosen,
    "average-score": _score,
    "faithfulness": _faithful,
    "regression-coefficients": _line,
    "prediction-error": _prediction(False),
    "prediction-error with a baseline": _prediction(True),
}
"""Every criterion that reads the real table, and how a specification of it is drawn."""


def search_criteria(
    kind: str, *, specifications: int, neighbours: int, seed: int, claim: float = 1.0
) -> dict[str, Worst]:
    """Try neighbours under drawn specifications of one kind of criterion.

    Parameters
    ----------
    kind
        One of `KINDS`.
    specifications, neighbours
        How many specifications are drawn, and the most neighbours tried for each of them and each table.
    seed
        Of the search.
    claim
        Sensitivities are multiplied by it; below 1 the search should find a violation.

    Returns
    -------
    dict
        The largest move over its claim in each form, ``"published"`` and ``"pass-only"``; above 1 a claim is refuted.

    Examples
    --------
    >>> found = search_criteria("max-marginal-error", specifications=8, neighbours=6, seed=1)
    >>> all(0.9 < worst.share <= 1 for worst in found.values())
    True
    """
    generator = np.random.default_rng(seed)
    found = {"published": Worst(), "pass-only": Worst()}
    for number in range(specifications):
        case, unit = KINDS[kind](generator), UNITS[number % len(UNITS)]
        for candidate, real in _tables(case, generator):
            if not case.criterion.can_be_released(candidate):
                continue
            for other in _neighbours(case, unit, real, neighbours, generator):
                _try(case.criterion, unit, candidate, real, other, found, claim)
    return found


def _try(
    criterion: Criterion,
    unit: Unit,
    candidate: RecordTypes,
    real: RecordTypes,
    other: RecordTypes,
    found: dict[str, Worst],
    claim: float,
) -> None:
    test = SlackTest((criterion,))
    here, there = (Fraction(test.slack(table, candidate)) for table in (real, other))
    found["pass-only"].see(share_moved(here, there, test.sensitivity(unit) * claim))
    shares = []
    for one, two, bound in zip(
        criterion.published_numbers(real, candidate),
        criterion.published_numbers(other, candidate),
        criterion.published_sensitivities(unit, candidate),
        strict=True,
    ):
        sensitivity = max(bound * claim, _LEAST)
        size = Fraction(2) ** math.frexp(sensitivity)[1]
        moved = share_moved(Fraction(one) / size, Fraction(two) / size, float(Fraction(sensitivity) / size))
        shares.append(moved)
    if shares:
        found["published"].see(max(shares))


# ---------------------------------------------------------------------- tables


def _tables(case: _Case, generator: np.random.Generator) -> Iterator[tuple[RecordTypes, RecordTypes]]:
    """Yield candidates with real tables: alike, unlike, and made up of one kind of record only."""
    domain, rows = case.domain, case.rows
    cells = domain.cells()
    mixed = _table(domain, generator.multinomial(rows, generator.dirichlet(np.full(cells, 0.5))))
    even = _table(
        domain,
        np.bincount(np.arange(rows) % cells, minlength=cells)
        if rows < 10**6
        else np.full(cells, rows // cells),
    )
    kinds = [0, cells - 1, int(generator.integers(cells))]
    single = [_table(domain, rows * (np.arange(cells) == kind)) for kind in kinds]
    # a candidate with one more record of some kinds has a regression, and means away from the ends
    spread = _table(domain, (rows * (np.arange(cells) == kinds[0])) + 1)
    yield even, even
    yield mixed, mixed
    yield even, mixed
    yield single[0], single[1]
    yield single[0], single[0]
    yield spread, single[1]
    yield even, single[2]


def _neighbours(
    case: _Case, unit: Unit, real: RecordTypes, most: int, generator: np.random.Generator
) -> Iterator[RecordTypes]:
    """Yield tables that differ from a real one in a unit whose rows are alike: all kinds of record for those that come."""
    domain, cells = case.domain, case.domain.cells()
    full = np.bincount(real.keys(), weights=real.counts, minlength=cells).astype(np.int64)
    leaving = [int(at) for at in np.flatnonzero(full >= unit.max_rows)]
    kinds = np.arange(cells) if cells <= 16 else np.append(generator.integers(0, cells, 6), [0, cells - 1])
    pairs: list[tuple[int | None, int | None]] = []
    if unit.relation == "add-remove":
        pairs += [(None, int(come)) for come in kinds] + [(leave, None) for leave in leaving[: len(kinds)]]
    else:
        chosen = (
            leaving
            if len(leaving) <= 4
            else [leaving[0], leaving[-1], *generator.choice(leaving, 2).tolist()]
        )
        pairs += [(leave, int(come)) for leave in chosen for come in kinds if leave != come]
        if unit.max_rows > 1:
            pairs += [(leave, None) for leave in chosen]
    order = generator.permutation(len(pairs))
    for place in order[:most].tolist():
        leave, come = pairs[place]
        changed = full.copy()
        if leave is not None:
            changed[leave] -= unit.max_rows
        if come is not None:
            changed[come] += unit.max_rows
        yield _table(domain, changed)


def _table(domain: Domain, counts: Ints) -> RecordTypes:
    """Return a table with a count for every kind of record, in the order of the cells."""
    there = np.flatnonzero(counts)
    codes = np.stack(np.unravel_index(there, domain.sizes), axis=1).astype(np.int64)
    return RecordTypes(domain, codes, counts[there])
