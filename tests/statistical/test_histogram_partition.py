"""Histograms that choose their own buckets or coefficients: sensitivities, laws of the choices, and what they gain.

The sensitivity tests involve no sampling error: each pair of neighbours respects the claim or refutes it, and a
claim half as large would have been refuted. Statistical assertions have the false-alarm rate ``ALPHA``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from alpha import ALPHA
from gof import cell_probabilities, counts_in, draws_needed, edges_of, exact_cdf, fit_pvalue

from understudy.curator import Curator, SealedCounts, measure_numbers
from understudy.data import LocalTable
from understudy.mechanisms import Model, Synthesizer
from understudy.mechanisms.histograms.partitions.look import SealedBuckets, bisect_ranges, merged_cells
from understudy.mechanisms.histograms.partitions.noise_first import NoiseFirst
from understudy.mechanisms.histograms.partitions.php import PHPartition
from understudy.mechanisms.histograms.partitions.structure_first import StructureFirst
from understudy.mechanisms.histograms.transforms.efpa import EFPA, cosine_basis, fourier_basis
from understudy.mechanisms.histograms.transforms.look import (
    fourier_coefficients,
    linear_coefficients,
    tail_norms,
)
from understudy.privacy import Budget, Gaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Domain, Schema

UNITS = (
    Unit.add_remove(),
    Unit.replace_one(),
    Unit.add_remove_person("id", max_rows=3),
    Unit.replace_person("id", max_rows=2),
)
PAIRS = 100
STEP = 2.0**-20


def seal(counts: np.ndarray, unit: Unit) -> SealedCounts:
    names = tuple("abcdef"[: counts.ndim])
    return SealedCounts(counts, clique=names, domain=Domain(names, counts.shape), unit=unit, known_rows=None)


def neighbours(
    unit: Unit, shape: tuple[int, ...], seed: int, pairs: int = PAIRS
) -> Iterator[tuple[np.ndarray, ...]]:
    """Counts of tables that differ in one unit: empty, flat, steep and single-spiked ones."""
    generator = np.random.default_rng(seed)
    cells = math.prod(shape)
    low = 0 if unit.relation == "replace-one" and unit.max_rows > 1 else 1
    for _ in range(pairs):
        style = generator.integers(7)
        rest = np.zeros(cells, dtype=np.int64)
        height = int(generator.choice([5, 40]))
        # often all rows of the unit in one cell, at an end or at the spike
        choices = [0, cells - 1, int(generator.integers(cells)), int(generator.integers(cells))]
        first, second = generator.choice(choices, 2)
        if style == 1:
            rest += int(generator.integers(1, 50))
        elif style == 2:
            rest += generator.integers(0, 4, cells)
        elif style == 3:
            rest[first] = 1_000
        elif style == 4:
            rest[: cells // 2] = height
        else:  # rows that leave a hole in one plateau and stand out in another
            first, second = cells // 2, 0
            rest[first + 1 :] = height
            rest[first] = height - unit.max_rows if style == 5 else 0
            rest[second] = height - unit.max_rows if style == 6 else 0
        tables = []
        for place, number in (
            (first, unit.max_rows if generator.random() < 0.7 else low),
            (second, unit.max_rows),
        ):
            table = rest.copy()
            table[place] += number
            tables.append(table.reshape(shape))
        yield (rest.reshape(shape), tables[1]) if unit.relation == "add-remove" else tuple(tables)


def errors_of(sealed: SealedCounts, max_count: int | None) -> tuple[list[float], float]:
    """Every error that a choice of buckets can see, and the claimed sensitivity."""
    cells = sealed.shape[0]
    buckets = SealedBuckets(sealed, cells=cells, buckets=4, max_count=max_count)
    scalars = buckets.totals([1, 2, 3, 4])
    for end, number in ((cells, 4), (cells, 2), (cells - 3, 3), (4, 2)):
        scalars += buckets.last_bucket(end=end, buckets=number)
    assert all(item.sensitivity == buckets.sensitivity for item in scalars)
    return [float(item._exact) for item in scalars], buckets.sensitivity


@pytest.mark.parametrize("max_count", [None, 5, 40], ids=["root", "capped at 5", "capped at 40"])
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_no_unit_moves_a_bucket_error_further_than_claimed(
    unit: Unit, max_count: int | None, seed: int
) -> None:
    worst = 0.0
    for left, right in neighbours(unit, (9,), seed):
        (one, claimed), (two, _) = (errors_of(seal(item, unit), max_count) for item in (left, right))
        change = np.abs(np.subtract(one, two)).max()
        assert change <= claimed * (1 + 1e-9)
        worst = max(worst, float(change / claimed))
    assert worst > 0.5, "a halved sensitivity would not have been caught"


def test_the_squared_error_itself_has_no_bounded_sensitivity() -> None:
    """What the root repairs: one row moves the squared error by twice the largest count."""
    for height in (10, 1_000, 100_000):
        table = np.zeros(8, dtype=np.int64)
        table[3] = height
        more = table.copy()
        more[3] += 1
        unit = Unit.add_remove()
        one, two = (
            SealedBuckets(seal(item, unit), cells=8, buckets=1).totals([1])[0]._exact
            for item in (table, more)
        )
        assert two**2 - one**2 > 1.5 * height
        assert two - one <= 1.0


def deviation(counts: np.ndarray, starts: list[int]) -> float:
    """Sum of absolute deviations from bucket means, written down independently of the kernel."""
    pieces = np.split(counts.astype(float), starts)
    return float(sum(np.abs(piece - piece.mean()).sum() for piece in pieces))


def outcomes(counts: np.ndarray, first: int, end: int, price: float, singles: bool) -> np.ndarray:
    """Scores of leaving a range whole, of each cut, and of single cells."""
    part = counts[first:end]
    scores = [-deviation(part, []) - price]
    scores += [-deviation(part, [cut]) - 2 * price for cut in range(1, end - first)]
    if singles and end - first > 2:
        scores.append(-(end - first) * price)
    return np.array(scores)


def law(scores: np.ndarray, rate: float) -> np.ndarray:
    weights = rate * (scores - scores.max())
    return np.asarray(weights - np.log(np.exp(weights).sum()))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_all_cuts_of_a_level_together_are_one_choice(unit: Unit, seed: int) -> None:
    """Scores of joint outcomes move as claimed, and so the exact law of the joint outcome, by enumeration."""
    parts, epsilon, price = [(0, 4), (4, 9)], 1.3, 2.0
    sensitivity = 2 * (1 - 1 / 5) * unit.histogram_l1
    worst = 0.0
    for left, right in neighbours(unit, (9,), seed, pairs=300):
        for one, two in ((left, right), (right, left)):
            scores = [[outcomes(item, *part, price, True) for part in parts] for item in (one, two)]
            # the worst joint outcome takes the worst of each range
            change = sum(float((a - b).max()) for a, b in zip(*scores, strict=True))
            assert change <= sensitivity * (1 + 1e-9)
            worst = max(worst, change / sensitivity)
            rate = epsilon / (2 * sensitivity)
            ratio = sum(float((law(a, rate) - law(b, rate)).max()) for a, b in zip(*scores, strict=True))
            assert ratio <= epsilon
    assert worst > 0.8, "a sensitivity without the factor for replacement would not have been caught"


def one_column(counts: np.ndarray) -> LocalTable:
    size = len(counts)
    schema = Schema.parse(f"name: t\ncolumns: [{{name: a, kind: integer, minimum: 0, maximum: {size - 1}}}]")
    return LocalTable(schema, {"a": np.repeat(np.arange(size), counts).astype(np.uint16)})


def curator_of(counts: np.ndarray, budget: Budget, unit: Unit, seed: int) -> Curator:
    book = Ledger.in_memory(budget=budget, unit=unit, table="t")
    return Curator(one_column(counts), unit=unit, ledger=book, randomness=SeededRandomness(seed))


@pytest.mark.parametrize("unit", [UNITS[0], UNITS[1]], ids=lambda unit: unit.relation)
def test_cuts_are_drawn_with_the_law_that_was_proved(unit: Unit, seed: int) -> None:
    """Wrong answers to catch: a sensitivity half or twice what it should be, and a forgotten price."""
    counts = np.array([4, 9, 2, 0, 0, 5])
    epsilon, price = 2.0, 1.5
    rate = epsilon / (2 * 2 * (1 - 1 / 4) * unit.histogram_l1)
    right = np.exp(law(outcomes(counts, 0, 4, price, True), rate))
    wrongs = [
        np.exp(law(outcomes(counts, 0, 4, cost, True), rate * factor))
        for cost, factor in ((price, 0.5), (price, 2.0), (0.0, 1.0))
    ]
    needed = draws_needed(right, wrongs, ALPHA)
    assert needed < 6_000
    curator = curator_of(counts, PureDP(epsilon * (needed + 1)), unit, seed)
    sealed = curator.counts(("a",))
    seen = np.zeros(5, dtype=np.int64)
    for _ in range(needed):
        (cuts, _) = bisect_ranges(
            curator, sealed, [(0, 4), (4, 6)], price=price, epsilon=epsilon, purpose="try", singles=True
        )
        seen[0 if not cuts else 4 if len(cuts) == 3 else cuts[0]] += 1
    assert fit_pvalue(seen, right) > ALPHA
    for wrong in wrongs:
        assert fit_pvalue(seen, wrong) < ALPHA
    assert curator.spent == pytest.approx(epsilon * needed)


@pytest.mark.parametrize("basis", [cosine_basis, fourier_basis], ids=["cosine", "fourier"])
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_no_unit_moves_coefficients_or_tails_further_than_claimed(
    unit: Unit, basis: object, seed: int
) -> None:
    assert callable(basis)
    matrix = basis(9)
    worst = np.zeros(3)
    for left, right in neighbours(unit, (9,), seed):
        sealed = [seal(item, unit) for item in (left, right)]
        for kept in (1, 3, 4, 9):
            one, two = (linear_coefficients(item, matrix[:kept], name="c", step=STEP) for item in sealed)
            apart = np.abs(one._exact - two._exact).astype(float) * STEP
            moved = np.array([apart.sum() / one.reach.l1, np.linalg.norm(apart) / one.reach.l2])
            assert (moved <= 1).all()
            worst[:2] = np.maximum(worst[:2], moved)
        tails = [tail_norms(item, matrix, [1, 2, 5, 9]) for item in sealed]
        for first, second in zip(*tails, strict=True):
            change = abs(first._exact - second._exact) / first.sensitivity
            assert change <= 1 + 1e-9
            worst[2] = max(worst[2], change)
    assert (worst > 0.5).all(), "a halved sensitivity would not have been caught"


def test_a_few_coefficients_move_less_than_the_whole_transform() -> None:
    """The bound √z of the paper is the whole transform's; z of N coefficients move by at most z / √N."""
    for size, kept in ((64, 5), (64, 33), (256, 9)):
        sealed = seal(np.zeros(size, dtype=np.int64), Unit.add_remove())
        reach = linear_coefficients(sealed, fourier_basis(size)[:kept], name="c", step=STEP).reach
        assert reach.l1 <= kept / math.sqrt(size) * (1 + 1e-5)
        assert reach.l2 == pytest.approx(math.sqrt(kept / size), rel=1e-5)


FOURIER = (
    ((2, 2, 2), 2, 1.0),
    ((2, 3, 4), 2, 1.0),
    ((2, 3, 4), 3, 0.3),
    ((5, 2), 1, 1.0),
    ((1, 3), 2, 1.0),
)


@pytest.mark.parametrize(("sizes", "k", "light"), FOURIER, ids=lambda item: str(item))
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_no_unit_moves_fourier_coefficients_further_than_claimed(
    unit: Unit, sizes: tuple[int, ...], k: int, light: float, seed: int
) -> None:
    """Every pair of cells, ``max_rows`` rows moved from one to the other: the worst that can happen."""
    names = tuple("abc"[: len(sizes)])
    domain = Domain(names, sizes)
    parts = [part for size in range(k + 1) for part in itertools.combinations(names, size)]
    weights = [1.0 if len(part) % 2 else light for part in parts]
    rows = unit.max_rows

    def coefficients(cell: tuple[int, ...] | None) -> tuple[np.ndarray, float, float]:
        table = np.zeros(sizes, dtype=np.int64)
        if cell is not None:
            table[cell] += rows
        marginals = [
            SealedCounts(
                table.sum(axis=tuple(i for i, name in enumerate(names) if name not in part)),
                clique=part,
                domain=domain,
                unit=unit,
                known_rows=None,
            )
            for part in parts
        ]
        made = fourier_coefficients(marginals, domain, weights, unit=unit, step=STEP)
        return made._exact * STEP, made.reach.l1, made.reach.l2

    every = list(itertools.product(*(range(size) for size in sizes)))
    known = {cell: coefficients(cell) for cell in every}
    nothing, l1, l2 = coefficients(None)
    worst = np.zeros(2)
    others = [nothing] if unit.relation == "add-remove" else [nothing, *(known[cell][0] for cell in every)]
    for cell in every:
        for other in others:
            apart = known[cell][0] - other
            moved = np.array([np.abs(apart).sum() / l1, np.linalg.norm(apart) / l2])
            assert (moved <= 1).all()
            worst = np.maximum(worst, moved)
    assert worst[1] > 0.999, "the L2 claim is attained"
    assert worst[0] > (0.999 if unit.relation == "add-remove" or max(sizes) == 2 else 0.7)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.relation}-{unit.max_rows}")
def test_merged_cells_are_a_histogram(unit: Unit, seed: int) -> None:
    labels = np.array([[0, 1, 1], [2, 1, 0]])
    worst = np.zeros(2)
    for left, right in neighbours(unit, (2, 3), seed):
        one, two = (merged_cells(seal(item, unit), labels) for item in (left, right))
        apart = np.abs(one._exact - two._exact).astype(float)
        moved = np.array([apart.sum() / one.l1, np.linalg.norm(apart) / one.l2])
        assert (moved <= 1 + 1e-12).all()
        worst = np.maximum(worst, moved)
        whole = [merged_cells(seal(item, unit), np.zeros((2, 3))) for item in (left, right)]
        assert abs(int(whole[0]._exact[0]) - int(whole[1]._exact[0])) <= whole[0].l1
    assert (worst > 0.99).all()


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_coefficients_get_the_noise_that_was_charged(kind: type, seed: int) -> None:
    """Wrong answers to catch: noise off by 10 %, such as a scale in steps taken for one in rows."""
    noise = kind(3.0)
    on_grid = kind(3.0 / STEP)
    edges = edges_of(on_grid)
    right = cell_probabilities(exact_cdf(on_grid), edges)
    wrongs = [cell_probabilities(exact_cdf(on_grid, factor=factor), edges) for factor in (0.9, 1.1)]
    needed = draws_needed(right, wrongs, ALPHA)
    budget = PureDP(1e6)
    curator = curator_of(np.array([3, 1, 4, 1]), budget, Unit.add_remove(), seed)
    if kind is Gaussian:
        from understudy.privacy import GDP

        book = Ledger.in_memory(budget=GDP(1e4), unit=Unit.add_remove(), table="t")
        curator = Curator(
            one_column(np.array([3, 1, 4, 1])),
            unit=Unit.add_remove(),
            ledger=book,
            randomness=SeededRandomness(seed),
        )
    basis = np.tile(fourier_basis(4), (math.ceil(needed / 4), 1))
    sealed = linear_coefficients(curator.counts(("a",)), basis, name="c", step=STEP)
    released = measure_numbers(curator, [sealed], noise=[noise], purpose="measure")[0]
    draws = np.rint(released.values / STEP).astype(np.int64) - sealed._exact
    counts = counts_in(draws, edges)
    assert fit_pvalue(counts, right) > ALPHA
    for wrong in wrongs:
        assert fit_pvalue(counts, wrong) < ALPHA
    entry = curator.ledger.entries()[-1]
    assert entry.event is not None
    recorded = entry.event.to_dict()
    assert recorded.get("scale", recorded.get("sigma")) == noise.scale
    expected = sealed.reach.l1 if kind is Laplace else sealed.reach.l2
    assert recorded.get("l1_sensitivity", recorded.get("l2_sensitivity")) == expected


# ------------------------------------------------------------------ what the methods gain


def fit(method: Synthesizer, counts: np.ndarray, epsilon: float, seed: int) -> Model:
    budget = PureDP(epsilon)
    return method.fit(curator_of(counts, budget, Unit.add_remove(), seed), budget)


def squared_error(model: Model, counts: np.ndarray) -> float:
    return float(np.square(model.marginal(("a",)) - counts).sum())


def plateaus() -> np.ndarray:
    return np.repeat([500, 100, 900, 300], [12, 20, 8, 24])


def bell(size: int, rows: int) -> np.ndarray:
    place = (np.arange(size) + 0.5) / size
    density = np.exp(-((place - 0.5) ** 2) / (2 * 0.12**2))
    return np.asarray(np.rint(rows * density / density.sum()).astype(np.int64))


def buckets_of(model: Model) -> int:
    """Number of runs of equal counts in a model."""
    return int((np.abs(np.diff(model.marginal(("a",)))) > 1e-9).sum()) + 1


def starts_of(model: Model) -> list[int]:
    """First cells of the buckets that a method released."""
    return [int(start) for start in model.statistics[0].name.rpartition("at ")[2].split(", ")]


def test_noise_first_merges_more_under_more_noise(seed: int) -> None:
    """A bell of 64 bins and 20,000 rows, whose neighbours differ by up to 60.

    At epsilon 10 a step of 3 rows stands out from noise of scale .1 in every fit: all but the tails and the top stay
    apart. At .01 the scale is 100, above every step; two cells are told apart only where the bell itself is.
    """
    counts = bell(64, 20_000)
    for index in range(10):
        few, many = (buckets_of(fit(NoiseFirst(), counts, epsilon, seed + index)) for epsilon in (0.01, 10.0))
        assert few < 20 < 40 < many


def test_noise_first_with_the_printed_penalty_merges_less(seed: int) -> None:
    """On a flat histogram the printed penalty keeps far more buckets, and more of the noise."""
    counts = np.full(128, 50)
    errors = np.zeros(2)
    for index in range(20):
        models = [fit(NoiseFirst(penalty=how), counts, 0.5, seed + index) for how in ("paper", "search")]
        assert buckets_of(models[0]) > buckets_of(models[1])
        errors += [squared_error(model, counts) for model in models]
    assert errors[1] < errors[0] / 3


def test_efpa_beats_flat_noise_on_a_smooth_histogram(seed: int) -> None:
    """256 bins at epsilon .1: the squared error of 5 fits must be below a quarter of that of plain noisy bins.

    Wrong answers to catch: all coefficients kept (then nothing is gained), and noise four times too large.
    """
    counts = bell(256, 50_000)
    own, flat, loose = 0.0, 0.0, 0.0
    for index in range(5):
        own += squared_error(fit(EFPA(), counts, 0.1, seed + index), counts)
        flat += squared_error(fit(StructureFirst(buckets=256), counts, 0.1, seed + index), counts)
        loose += squared_error(fit(EFPA(), counts, 0.1 / 4, seed + index), counts)
    assert own < flat / 4
    assert own < loose / 2, "a quarter of the budget is seen to cost accuracy"


def test_efpa_keeps_everything_where_nothing_is_smooth(seed: int) -> None:
    counts = np.where(np.arange(64) % 2 == 0, 5_000, 0)
    model = fit(EFPA(), counts, 5.0, seed)
    assert model.statistics[0].values.size == 64
    assert squared_error(model, counts) < 64 * 100


def test_structure_first_finds_plateaus(seed: int) -> None:
    """At epsilon 50 a cut one cell off costs thousands of times its chance: the probability of any is below ALPHA."""
    for score in (None, 1_000):
        model = fit(StructureFirst(buckets=4, max_count=score), plateaus(), 5_000.0 if score else 50.0, seed)
        changes = np.flatnonzero(np.abs(np.diff(model.marginal(("a",)))) > 20) + 1
        assert changes.tolist() == [12, 32, 40]
        assert model.statistics[0].values.size == 4


def test_structure_first_needs_no_bound_on_counts(seed: int) -> None:
    """The same plateaus at epsilon 2: the root finds them; a cap that is sure to be large enough hides them.

    Each cut gets .27 of the budget. For the root a wrong cut loses at least 180 rows, so it has probability below
    64 exp(-.13 * 180) < ALPHA. With a cap of a million the sensitivity is two million; squared errors differ by less
    than 4 million, so cuts are nearly uniform over 60 places and three right ones have probability below 1e-4 per fit.
    """
    wanted = [0, 12, 32, 40]
    found: dict[int | None, int] = {None: 0, 1_000_000: 0}
    for cap in found:
        for index in range(10):
            model = fit(StructureFirst(buckets=4, max_count=cap), plateaus(), 2.0, seed + index)
            found[cap] += starts_of(model) == wanted
    assert found == {None: 10, 1_000_000: 0}


def test_p_hp_finds_the_true_breaks(seed: int) -> None:
    """At epsilon 100 a first cut beside a break is less likely than ALPHA: its score is worse by over 100 rows."""
    model = fit(PHPartition(singles=False), plateaus(), 100.0, seed)
    assert {0, 12, 32, 40} <= set(starts_of(model))
    assert squared_error(model, plateaus()) < 50


def test_p_hp_error_vanishes_only_with_single_bins(seed: int) -> None:
    counts = bell(64, 100_000)
    assert squared_error(fit(PHPartition(), counts, 100.0, seed), counts) < 200
    assert squared_error(fit(PHPartition(singles=False), counts, 100.0, seed), counts) > 10_000
