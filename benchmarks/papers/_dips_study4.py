"""Study 4 of paper DIPS: two normal numbers and a chain of logistic regressions, SLOMAG (section 4.3.2).

The paper adds the noise of output perturbation to draws from a posterior, whose sensitivity that noise does not cover.
Here the regressions are private by objective perturbation, with the paper's shares of the budget. Coefficients
of the three-way variable are those of two binary regressions against its first level, as the paper estimates them.
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
    moments,
    single,
    summary,
    variance_of_variance,
)
from benchmarks.papers._dips_laws import laplace_cells, sets_of, shares
from benchmarks.papers._dips_logistic import corrected_draws, firth, private_logistic
from benchmarks.papers._dips_mixed import (
    draw_cells,
    location_parameters,
    statistics_of,
)

ROWS, HALF, BINS = 1000, 4.0, 7
BETAS = {
    "beta1": np.array([-1.0, 0.5, -1.0]),
    "beta2": np.array([-2.0, -1.0, 1.5, 0.5]),
    "beta3": np.array([0.0, -2.5, 1.0, 0.5, 0.4]),
    "beta4": np.array([0.1, -1.0, -0.5, 0.0, 1.5]),
}
TRUTH = {"mu": np.zeros(2), "sigma2": np.ones(2), "rho": np.array(0.5), **BETAS}
SCENARIOS = {f"n={ROWS}": ROWS}
CHARTED = ("modips", "modips, wrong model", "np-dips", "posterior, percentile")
SCALES = {
    name: np.sqrt(len(beta)) * np.array([1.0, HALF, HALF, 1.0, 1.0])[: len(beta)]
    for name, beta in BETAS.items()
}
"""Features divided by these lie between -1 and 1 over the root of their number: records have norm at most one."""
_ORIGIN = np.zeros((1, 2))
_AT_ONCE = 20

Result = tuple[Array, Array, Array]
Data = tuple[Array, Array]
"""Numbers ``[..., n, 2]`` and categories ``[..., n, 3]``."""


def features(data: Data, name: str) -> Array:
    """Columns of one of the regressions."""
    z, w = data
    one = np.ones((*z.shape[:-1], 1))
    return np.concatenate([one, z, w[..., : len(BETAS[name]) - 3]], axis=-1)


def problem(data: Data, name: str) -> tuple[Array, Array, Array]:
    """Features, labels and rows kept of one of the regressions."""
    w = data[1]
    if name in ("beta1", "beta2"):
        return features(data, name), w[..., int(name[-1]) - 1], np.ones(w.shape[:-1], dtype=bool)
    level = int(name[-1]) - 2
    return (
        features(data, name),
        (w[..., 2] == level).astype(np.float64),
        (w[..., 2] == 0) | (w[..., 2] == level),
    )


def draw_categories(z: Array, betas: dict[str, Array], generator: np.random.Generator) -> Array:
    """Draw the three categorical variables from the chain; coefficients may have leading axes."""
    w = np.zeros((*z.shape[:-1], 3))

    def score(name: str) -> Array:
        return np.asarray(np.einsum("...np,...p->...n", features((z, w), name), betas[name]))

    for place, name in enumerate(("beta1", "beta2")):
        w[..., place] = generator.random(w.shape[:-1]) < 1 / (1 + np.exp(-np.clip(score(name), -40, 40)))
    a, b = (np.exp(np.clip(score(name), -40, 40)) for name in ("beta3", "beta4"))
    u = generator.random(w.shape[:-1]) * (1 + a + b)
    w[..., 2] = (u > 1).astype(np.float64) + (u > 1 + a)
    return w


def estimates(data: Data) -> dict[str, tuple[Array, Array]]:
    """Point estimates and variances from tables ``[tables, n]``."""
    z = data[0]
    mean, variance, kurtosis = moments(np.swapaxes(z, -1, -2))
    centred = z - z.mean(axis=-2, keepdims=True)
    cross = (centred[..., 0] * centred[..., 1]).sum(axis=-1) / (ROWS - 1)
    rho = np.clip(cross / np.sqrt(np.maximum(variance.prod(axis=-1), 1e-12)), -1, 1)
    made = {
        "mu": (mean, variance / ROWS),
        "sigma2": (variance, variance_of_variance(variance, kurtosis, ROWS)),
        "rho": (rho, (1 - rho**2) / (ROWS - 2)),
    }
    lead = z.shape[:-2]
    for name in BETAS:
        x, y, kept = problem(data, name)
        beta, spread = firth(
            x.reshape(-1, *x.shape[-2:]), y.reshape(-1, ROWS), kept.reshape(-1, ROWS).astype(float)
        )
        made[name] = (beta.reshape(*lead, -1), np.maximum(spread, 0).reshape(*lead, -1))
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
    root = np.linalg.cholesky(np.array([[1.0, 0.5], [0.5, 1.0]]))
    z = np.clip(generator.standard_normal((size, ROWS, 2)) @ root.T, -HALF, HALF)
    real: Data = (z, draw_categories(z, BETAS, generator))
    found: dict[tuple[str, str], Result] = {}

    def note(method: str, made: dict[str, tuple[Array, Array]], rule: str | None) -> None:
        for parameter, (q, v) in made.items():
            found[method, parameter] = single(q, v) if rule is None else combined(q, v, rule)

    if job.epsilon is None:
        own = estimates(real)
        note("original", own, None)
        note("no privacy, proper", estimates(_proper_sets(real, own, generator)), "partial")
        return found
    part = job.epsilon / SETS
    note("np-dips", estimates(_histogram_sets(real, part, generator)), "partial")
    note("modips, wrong model", estimates(_location_sets(real, part, generator)), "partial")
    repeated: Data = (np.repeat(z, SETS, axis=0), np.repeat(real[1], SETS, axis=0))
    fits = _private_fits(repeated, part / 8, generator)
    betas = {name: fit[0].reshape(size, SETS, -1) for name, fit in fits.items()}
    note("modips", estimates(_chain_sets(z, betas, part, generator)), "partial")
    note("posterior, percentile", _posterior(real, job.epsilon, generator), "percentile")
    return found


def _moment_draws(z: Array, m: int, epsilon: float, generator: np.random.Generator, *, redraw: bool) -> Data:
    """Mean and covariance with five of the eight parts of the budget; redrawn with fresh noise if wanted."""
    whole = statistics_of(np.zeros(z.shape[:-1], dtype=np.int64), z, 1, _ORIGIN)
    budget = epsilon * 6 / 8  # the statistics take a sixth of it each, the count none that matters
    noisy = whole.noised(budget, HALF, generator).sets(m) if redraw else whole.sets(m)
    noisy = noisy.noised(budget, HALF, generator)
    noisy.counts[:] = ROWS
    _, means, covariance = location_parameters(noisy, ROWS, _ORIGIN, HALF, 0.5, generator)
    return means[..., 0, :], covariance


def _numbers(means: Array, covariance: Array, generator: np.random.Generator) -> Array:
    noise = generator.standard_normal((*means.shape[:-1], ROWS, 2))
    root = np.linalg.cholesky(covariance)
    return np.clip(means[..., None, :] + np.einsum("...ij,...nj->...ni", root, noise), -HALF, HALF)


def _chain_sets(z: Array, betas: dict[str, Array], epsilon: float, generator: np.random.Generator) -> Data:
    drawn = _numbers(*_moment_draws(z, SETS, epsilon, generator, redraw=False), generator)
    return drawn, draw_categories(drawn, betas, generator)


def _proper_sets(real: Data, own: dict[str, tuple[Array, Array]], generator: np.random.Generator) -> Data:
    """Without privacy: parameters from the normal approximation of their posterior."""
    drawn = _numbers(*_moment_draws(real[0], SETS, 1e9, generator, redraw=False), generator)
    betas = {}
    for name in BETAS:
        x, _, kept = problem(real, name)
        beta = own[name][0]
        chance = 1 / (1 + np.exp(-np.einsum("rnp,rp->rn", x, beta)))
        information = np.swapaxes(x * (kept * chance * (1 - chance))[..., None], 1, 2) @ x
        root = np.linalg.cholesky(np.linalg.inv(information))
        noise = generator.standard_normal((len(beta), SETS, beta.shape[1]))
        betas[name] = beta[:, None] + np.einsum("rij,rsj->rsi", root, noise)
    return drawn, draw_categories(drawn, betas, generator)


def _cells(w: Array) -> Array:
    return (w[..., 0] * 6 + w[..., 1] * 3 + w[..., 2]).astype(np.int64)


def _categories(cell: Array) -> Array:
    return np.stack([cell // 6, cell // 3 % 2, cell % 3], axis=-1).astype(np.float64)


def _histogram_sets(real: Data, epsilon: float, generator: np.random.Generator) -> Data:
    """Laplace noise on the table of categories and two-way bins of the numbers."""
    z, w = real
    width = 2 * HALF / BINS
    place = np.clip(((z + HALF) / width).astype(np.int64), 0, BINS - 1)
    which = (_cells(w) * BINS + place[..., 0]) * BINS + place[..., 1]
    cells = 12 * BINS * BINS
    index = (which + cells * np.arange(len(z))[:, None]).ravel()
    table = np.bincount(index, minlength=len(z) * cells).reshape(len(z), cells).astype(np.float64)
    noisy = np.maximum(laplace_cells(sets_of(table, SETS), epsilon, generator), 0.0)
    drawn = draw_cells(shares(noisy), ROWS, generator)
    corner = np.stack([drawn // BINS % BINS, drawn % BINS], axis=-1)
    return -HALF + width * (corner + generator.random(corner.shape)), _categories(drawn // (BINS * BINS))


def _location_sets(real: Data, epsilon: float, generator: np.random.Generator) -> Data:
    """The wrong model: normal numbers inside each of the twelve cells."""
    middle = np.zeros((12, 2))
    noisy = statistics_of(_cells(real[1]), real[0], 12, middle).sets(SETS).noised(epsilon, HALF, generator)
    probabilities, means, covariance = location_parameters(noisy, ROWS, middle, HALF, 0.5, generator)
    cell = draw_cells(probabilities, ROWS, generator)
    noise = generator.standard_normal((*cell.shape, 2))
    chosen = np.take_along_axis(means, cell[..., None], axis=-2)
    z = chosen + np.einsum("...ij,...nj->...ni", np.linalg.cholesky(covariance), noise)
    return np.clip(z, -HALF, HALF), _categories(cell)


def _private_fits(
    data: Data, part: float, generator: np.random.Generator
) -> dict[str, tuple[Array, float, float]]:
    """Private regressions of tables ``[tables, n]``: one part of the budget each, the last two share theirs."""
    made = {}
    for name in BETAS:
        budget = part if name in ("beta1", "beta2") else part / 2
        made[name] = private_logistic(*problem(data, name), SCALES[name], budget, generator)
    return made


def _posterior(real: Data, epsilon: float, generator: np.random.Generator) -> dict[str, tuple[Array, Array]]:
    """One release with the whole budget; parameters drawn with its noise taken into account."""
    means, covariance = _moment_draws(real[0], LARGE_SETS, epsilon, generator, redraw=True)
    variances = np.stack([covariance[..., 0, 0], covariance[..., 1, 1]], axis=-1)
    draws: dict[str, list[Array]] = {name: [] for name in BETAS}
    fits = _private_fits(real, epsilon / 8, generator)
    for i in range(len(means)):
        centre, spread = means[i].mean(axis=0), covariance[i].mean(axis=0)
        noise = generator.standard_normal((4 * ROWS, 2))
        z = np.clip(centre + noise @ np.linalg.cholesky(spread).T, -HALF, HALF)
        model: Data = (z, draw_categories(z, {name: fit[0][i] for name, fit in fits.items()}, generator))
        for name, (beta, scale, ridge) in fits.items():
            x, _, kept = problem(model, name)
            draws[name].append(
                corrected_draws(beta[i], x, kept, ROWS, SCALES[name], scale, ridge, LARGE_SETS, generator)
            )
    made = {
        "mu": means,
        "sigma2": variances,
        "rho": covariance[..., 0, 1] / np.sqrt(variances.prod(axis=-1)),
        **{name: np.stack(items) for name, items in draws.items()},
    }
    return {name: (q, np.zeros_like(q)) for name, q in made.items()}
