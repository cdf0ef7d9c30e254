"""Study 2 of paper DIPS: mean and variance of a normal variable (section 4.2).

Data are drawn from N(0, σ²) and cut to [-3σ, 4σ], or in the second form of the study to the symmetric [-4σ, 4σ]. Bins are public
here: as many as the medians the paper reports for Scott's rule, which it computes from the private data, and as wide with
symmetric bounds.
"""

from __future__ import annotations

import numpy as np

from benchmarks.papers._dips_common import (
    LARGE_RATIO,
    LARGE_SETS,
    POSTERIOR_SETS,
    SETS,
    Array,
    Job,
    Record,
    combined,
    moments,
    single,
    summary,
    variance_of_variance,
)
from benchmarks.papers._dips_laws import binned_values, laplace_cells, sets_of, shares, smoothed
from understudy.inference import normal_draws, normal_draws_from_sums
from understudy.marginals import Statistic

SCENARIOS = {f"n={n} sigma2={s:g}": (n, float(s)) for n in (20, 100, 1000) for s in (1, 4, 9)}
BOUNDS = {"2": (-3.0, 4.0), "2-symmetric": (-4.0, 4.0)}
"""Ends of the public range by form of the study, in standard deviations."""
BINS = {"2": {20: 7, 100: 10, 1000: 21}, "2-symmetric": {20: 8, 100: 11, 1000: 24}}
CHARTED = (
    "modips",
    "perturbed-histogram",
    "smoothed-histogram",
    "paper's release, percentile",
    "posterior, percentile",
)
_AT_ONCE = 250


def noisy_statistics(values: Array, epsilon: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """Scales of Laplace noise on mean and variance, half of the budget each, replacing one row.

    The mean moves by at most range/n, the variance (over n - 1) by at most range²/n.
    """
    spread = bounds[1] - bounds[0]
    n = values.shape[-1]
    return 2 * spread / (n * epsilon), 2 * spread**2 / (n * epsilon)


def noisy_sums(
    values: Array, epsilon: float, bounds: tuple[float, float], generator: np.random.Generator
) -> tuple[Statistic, Statistic]:
    """The release of modips with the normal model: sums of t and t², half of the budget each, one row more or less."""
    t = (2 * values - bounds[0] - bounds[1]) / (bounds[1] - bounds[0])
    scale = 2 / epsilon
    made = []
    for name, exact in (("sums of x", t.sum(axis=-1)), ("second moments of x", (t**2).sum(axis=-1))):
        made.append(Statistic(name, exact + generator.laplace(0, scale, exact.shape), "laplace", scale))
    return made[0], made[1]


def run(job: Job) -> list[Record]:
    """All methods of one scenario under one budget, some repetitions at a time."""
    generator = job.generator()
    pieces: dict[tuple[str, str], list[tuple[Array, Array, Array]]] = {}
    left = job.repetitions
    while left:
        size = min(left, _AT_ONCE)
        for key, result in _piece(job, size, generator).items():
            pieces.setdefault(key, []).append(result)
        left -= size
    _, sigma2 = SCENARIOS[job.scenario]
    found = []
    for (method, parameter), parts in pieces.items():
        joined = tuple(np.concatenate(items) for items in zip(*parts, strict=True))
        truth, scale = (0.0, 1.0) if parameter == "mu" else (sigma2, sigma2)
        found.append(summary(job, method, parameter, joined, truth, scale))  # type: ignore[arg-type]
    return found


def _piece(
    job: Job, size: int, generator: np.random.Generator
) -> dict[tuple[str, str], tuple[Array, Array, Array]]:
    n, sigma2 = SCENARIOS[job.scenario]
    sigma = float(np.sqrt(sigma2))
    low, high = BOUNDS[job.study]
    bounds = (low * sigma, high * sigma)
    bins = BINS[job.study][n]
    values = np.clip(generator.normal(0.0, sigma, (size, n)), *bounds)
    mean, variance, _ = moments(values)
    found: dict[tuple[str, str], tuple[Array, Array, Array]] = {}

    def note(method: str, data: Array, rule: str | None) -> None:
        q, s2, kurtosis = moments(data)
        noise = variance_of_variance(s2, kurtosis, n)
        found[method, "mu"] = single(q, s2 / n) if rule is None else combined(q, s2 / n, rule)
        found[method, "sigma2"] = single(s2, noise) if rule is None else combined(s2, noise, rule)

    def normal_sets(centre: Array, spread: Array) -> Array:
        scatter = spread * (n - 1) / generator.chisquare(n - 1, spread.shape)
        middle = centre + np.sqrt(scatter / n) * generator.standard_normal(centre.shape)
        drawn = (
            generator.standard_normal((*middle.shape, n)) * np.sqrt(scatter)[..., None] + middle[..., None]
        )
        return np.clip(drawn, *bounds)

    if job.epsilon is None:
        note("original", values, None)
        note("no privacy, proper", normal_sets(sets_of(mean, SETS), sets_of(variance, SETS)), "partial")
        return found
    largest = (bounds[1] - bounds[0]) ** 2 / 4 * n / (n - 1)
    small, wide = noisy_statistics(values, job.epsilon / SETS, bounds)
    centre = np.clip(sets_of(mean, SETS) + generator.laplace(0, small, (size, SETS)), *bounds)
    spread = np.clip(sets_of(variance, SETS) + generator.laplace(0, wide, (size, SETS)), 0.0, largest)
    note("modips", normal_sets(centre, spread), "partial")
    # histograms
    edges = np.linspace(*bounds, bins + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    counts = np.stack([(place == k).sum(axis=1) for k in range(bins)], axis=-1).astype(np.float64)
    noisy = np.maximum(laplace_cells(sets_of(counts, SETS), job.epsilon / SETS, generator), 0.0)
    note("perturbed-histogram", binned_values(shares(noisy), edges, n, generator), "partial")
    note("smoothed-histogram", binned_values(smoothed(counts, job.epsilon, n), edges, n, generator), None)
    # one release with the whole budget
    small, wide = noisy_statistics(values, job.epsilon, bounds)
    centre = mean + generator.laplace(0, small, size)
    spread = variance + generator.laplace(0, wide, size)
    possible = np.clip(spread, 0.0, largest)
    plugged = np.sqrt(sets_of(possible, SETS))[..., None] * generator.standard_normal((size, SETS, n))
    plugged = np.clip(plugged + sets_of(np.clip(centre, *bounds), SETS)[..., None], *bounds)
    note("resampled, partial", plugged, "partial")
    paper = normal_draws(
        Statistic("mean", centre, "laplace", small),
        Statistic("variance", spread, "laplace", wide),
        rows=n,
        bounds=bounds,
        draws=LARGE_SETS,
        generator=generator,
    )
    sums, squares = noisy_sums(values, job.epsilon, bounds, generator)
    ours = normal_draws_from_sums(sums, squares, rows=n, bounds=bounds, draws=LARGE_SETS, generator=generator)
    for method, (centres, spreads), rows, count, rule in (
        ("paper's release, percentile", paper, LARGE_RATIO * n, LARGE_SETS, "percentile"),
        ("posterior, full", ours, n, POSTERIOR_SETS, "full"),
        ("posterior, percentile", ours, LARGE_RATIO * n, LARGE_SETS, "percentile"),
    ):
        # mean and variance of a normal sample, drawn from their own laws instead of row by row
        mu, s2 = centres.T[:, :count], spreads.T[:, :count]
        v = s2 * generator.chisquare(rows - 1, s2.shape) / (rows - 1)
        q = mu + np.sqrt(s2 / rows) * generator.standard_normal(mu.shape)
        found[method, "mu"] = combined(q, v / rows, rule, ratio=rows / n)
        found[method, "sigma2"] = combined(v, v**2 * 2 / (rows - 1), rule, ratio=rows / n)
    return found
