"""Study 3 of paper DIPS: three categorical variables and two numbers from a general location model (4.3.1).

The supplement's table of true values is not part of the paper; the ones used here are written down below. Ranges are four
standard deviations to both sides of the true cell means, as in the paper.
"""

from __future__ import annotations

import numpy as np

from benchmarks.papers._dips_common import (
    LARGE_SETS,
    SETS,
    Array,
    Job,
    Record,
    combined,
    single,
    summary,
    variance_of_variance,
)
from benchmarks.papers._dips_laws import laplace_cells, sets_of, shares
from benchmarks.papers._dips_mixed import (
    Statistics,
    draw_cells,
    location_parameters,
    location_sets,
    statistics_of,
)

LEVELS = (2, 3, 4)
CELLS = 24
ROWS = 1000
HALF = 4.0
BINS = 5
"""Bins per number; the paper's medians by Scott's rule are 16 to 49 squares."""
PROBABILITIES = np.array([1.0 + (7 * k % 5) for k in range(CELLS)]) / sum(
    1.0 + (7 * k % 5) for k in range(CELLS)
)
MEANS = np.stack(
    [np.linspace(-2, 2, CELLS)[(5 * np.arange(CELLS)) % CELLS], np.linspace(1, 4, CELLS)], axis=-1
)
COVARIANCE = np.array([[1.0, 0.5], [0.5, 1.0]])
SCENARIOS = {f"n={ROWS}": ROWS}
CHARTED = ("modips", "np-dips", "posterior, percentile")
_AT_ONCE = 100

Result = tuple[Array, Array, Array]


def margins(probabilities: Array) -> Array:
    """The six marginal probabilities of the paper: all but the last level of each variable."""
    table = probabilities.reshape(*probabilities.shape[:-1], *LEVELS)
    return np.concatenate(
        [
            table.sum(axis=(-2, -1))[..., :-1],
            table.sum(axis=(-3, -1))[..., :-1],
            table.sum(axis=(-3, -2))[..., :-1],
        ],
        axis=-1,
    )


TRUTH = {
    "pi": margins(PROBABILITIES),
    "mu1": MEANS[:, 0],
    "mu2": MEANS[:, 1],
    "sigma2": np.ones(2),
    "rho": np.array(0.5),
}


def estimates(found: Statistics, kurtosis: float | Array = 0.0) -> dict[str, tuple[Array, Array]]:
    """Point estimates and variances of one analysis, as in the paper."""
    share = margins(found.counts / ROWS)
    covariance = found.scatter / (ROWS - CELLS)
    variances = np.stack([covariance[..., 0, 0], covariance[..., 1, 1]], axis=-1)
    size = np.maximum(found.counts, 1.0)
    seen = found.counts > 0
    means = MEANS + found.sums / size[..., None]
    correlation = np.clip(covariance[..., 0, 1] / np.sqrt(variances.prod(axis=-1)), -1, 1)
    made = {
        "pi": (share, share * (1 - share) / ROWS),
        "sigma2": (variances, variance_of_variance(variances, np.asarray(kurtosis), ROWS)),
        "rho": (correlation, (1 - correlation**2) / (ROWS - 2)),
    }
    for j in range(2):
        spread = np.where(seen, variances[..., j, None] / size, HALF**2)
        made[f"mu{j + 1}"] = (means[..., j], spread)
    return made


def run(job: Job) -> list[Record]:
    """All methods under one budget."""
    generator = job.generator()
    pieces: dict[tuple[str, str], list[Result]] = {}
    left = job.repetitions
    while left:
        size = min(left, _AT_ONCE)
        for key, result in _piece(job, size, generator).items():
            pieces.setdefault(key, []).append(result)
        left -= size
    return [
        summary(
            job,
            method,
            parameter,
            tuple(np.concatenate(items) for items in zip(*parts, strict=True)),  # type: ignore[arg-type]
            TRUTH[parameter],
        )
        for (method, parameter), parts in pieces.items()
    ]


def _piece(job: Job, size: int, generator: np.random.Generator) -> dict[tuple[str, str], Result]:
    cell = draw_cells(np.broadcast_to(PROBABILITIES, (size, CELLS)), ROWS, generator)
    z = generator.standard_normal((size, ROWS, 2)) @ np.linalg.cholesky(COVARIANCE).T
    z = MEANS[cell] + np.clip(z, -HALF, HALF)
    real = statistics_of(cell, z, CELLS, MEANS)
    found: dict[tuple[str, str], Result] = {}

    def note(method: str, made: dict[str, tuple[Array, Array]], rule: str | None) -> None:
        for parameter, (q, v) in made.items():
            found[method, parameter] = single(q, v) if rule is None else combined(q, v, rule)

    if job.epsilon is None:
        note("original", estimates(real), None)
        drawn = location_parameters(real.sets(SETS), ROWS, MEANS, HALF, 0.5, generator)
        note("no privacy, proper", estimates(location_sets(drawn, ROWS, MEANS, generator)), "partial")
        return found
    noisy = real.sets(SETS).noised(job.epsilon / SETS, HALF, generator)
    drawn = location_parameters(noisy, ROWS, MEANS, HALF, 0.5, generator)
    note("modips", estimates(location_sets(drawn, ROWS, MEANS, generator)), "partial")
    note("np-dips", _histograms(cell, z, real.counts, job.epsilon / SETS, generator), "partial")
    # one release with the whole budget; statistics redrawn with fresh noise, then parameters given them
    release = real.noised(job.epsilon, HALF, generator).sets(LARGE_SETS)
    redrawn = release.noised(job.epsilon, HALF, generator)
    total = redrawn.counts.sum(axis=-1, keepdims=True)
    redrawn = Statistics(redrawn.counts + (ROWS - total) / CELLS, redrawn.sums, redrawn.scatter)
    probabilities, means, covariance = location_parameters(redrawn, ROWS, MEANS, HALF, 0.5, generator)
    variances = np.stack([covariance[..., 0, 0], covariance[..., 1, 1]], axis=-1)
    draws = {
        "pi": margins(probabilities),
        "mu1": means[..., 0],
        "mu2": means[..., 1],
        "sigma2": variances,
        "rho": covariance[..., 0, 1] / np.sqrt(variances.prod(axis=-1)),
    }
    note("posterior, percentile", {name: (q, np.zeros_like(q)) for name, q in draws.items()}, "percentile")
    return found


def _histograms(
    cell: Array, z: Array, counts: Array, epsilon: float, generator: np.random.Generator
) -> dict[str, tuple[Array, Array]]:
    """Noise on the cells, and on a two-way histogram of the numbers in each cell, half of the budget each."""
    size = len(cell)
    width = 2 * HALF / BINS
    place = np.clip(((z - MEANS[cell] + HALF) / width).astype(np.int64), 0, BINS - 1)
    square = (cell * BINS + place[..., 0]) * BINS + place[..., 1]
    squares = BINS * BINS
    index = (square + CELLS * squares * np.arange(size)[:, None]).ravel()
    table = np.bincount(index, minlength=size * CELLS * squares).reshape(size, CELLS, squares)
    part = epsilon / 2
    outer = np.maximum(laplace_cells(sets_of(counts, SETS), part, generator), 0.0)
    inner = np.maximum(laplace_cells(sets_of(table.astype(np.float64), SETS), part, generator), 0.0)
    joint = (shares(outer)[..., None] * shares(inner)).reshape(size, SETS, CELLS * squares)
    which = draw_cells(joint, ROWS, generator)
    drawn_cell, inside = which // squares, which % squares
    corner = np.stack([inside // BINS, inside % BINS], axis=-1)
    values = MEANS[drawn_cell] - HALF + width * (corner + generator.random(corner.shape))
    return estimates(statistics_of(drawn_cell, values, CELLS, MEANS), kurtosis=-0.2)
