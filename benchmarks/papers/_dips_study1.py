"""Study 1 of paper DIPS: the proportion of a binary variable (section 4.1)."""

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
    single,
    summary,
)
from benchmarks.papers._dips_laws import (
    boundary_inflated,
    dirichlet,
    laplace_cells,
    mcclure_reiter,
    modips_probabilities,
    multinomial_dirichlet,
    rounded,
    sets_of,
    shares,
)
from understudy.inference.sufficient import whole_noise

SCENARIOS = {f"n={n} pi={pi:g}": (n, pi) for n in (40, 100, 1000) for pi in (0.1, 0.25, 0.5)}
PRIOR = 1 / 3
CHARTED = (
    "modips",
    "laplace",
    "multinomial-dirichlet",
    "binomial-beta",
    "mcclure-reiter",
    "posterior, full",
    "posterior, percentile",
)


def redrawn_shares(noisy: Array, n: int, m: int, scale: float, generator: np.random.Generator) -> Array:
    """Draw the proportion given both noisy cells and the number of rows, noise taken into account.

    The two-cell case of ``understudy.inference.sufficient.proportion_draws``, for all repetitions at once.
    """
    cells = sets_of(noisy, m)
    cells = cells - whole_noise("laplace", scale, cells.shape, generator)
    first = np.clip(cells[..., 0] + (n - cells.sum(axis=-1)) / 2, 0.0, n)
    return np.asarray(generator.beta(first + 0.5, n - first + 0.5))


def run(job: Job) -> list[Record]:
    """All methods and pairings of one scenario under one budget."""
    n, pi = SCENARIOS[job.scenario]
    generator = job.generator()
    ones = generator.binomial(n, pi, job.repetitions).astype(np.float64)
    counts = np.stack([ones, n - ones], axis=-1)
    found: list[Record] = []

    def analysed(successes: Array, rows: int = n) -> tuple[Array, Array]:
        share = successes / rows
        return share, share * (1 - share) / rows

    def note(method: str, result: tuple[Array, Array, Array]) -> None:
        found.append(summary(job, method, "pi", result, pi))

    if job.epsilon is None:
        note("original", single(*analysed(ones)))
        drawn = dirichlet(sets_of(counts, SETS) + PRIOR, generator)[..., 0]
        note("no privacy, proper", combined(*analysed(generator.binomial(n, drawn)), "partial"))
        return found
    # the paper's: a fifth of the budget for each of five sets
    part = job.epsilon / SETS
    drawn = modips_probabilities(sets_of(counts, SETS), part, n, PRIOR, generator)[..., 0]
    modips = analysed(generator.binomial(n, drawn))
    note("modips", combined(*modips, "partial"))
    for rule in ("full-reiter", "raab-proper", "imputation"):
        note(f"modips, {rule}", combined(*modips, rule))
    noisy = boundary_inflated(laplace_cells(sets_of(counts, SETS), part, generator), n)
    note("laplace", combined(*analysed(rounded(noisy, n, generator)[..., 0]), "partial"))
    drawn = multinomial_dirichlet(sets_of(counts, SETS), part, n, generator)[..., 0]
    note("multinomial-dirichlet", combined(*analysed(generator.binomial(n, drawn)), "partial"))
    # one set with the whole budget: drawn from a posterior (Abowd and Vilhuber) or with its mean (McClure and Reiter)
    drawn = multinomial_dirichlet(counts, job.epsilon, n, generator)[..., 0]
    note("binomial-beta", single(*analysed(generator.binomial(n, drawn))))
    note("mcclure-reiter", single(*analysed(generator.binomial(n, mcclure_reiter(ones, job.epsilon, n)))))
    # one release with the whole budget
    noisy = laplace_cells(counts, job.epsilon, generator)
    believed = sets_of(shares(boundary_inflated(noisy, n)), SETS)[..., 0]
    note("resampled, partial", combined(*analysed(generator.binomial(n, believed)), "partial"))
    naive = dirichlet(sets_of(boundary_inflated(noisy, n), SETS) + PRIOR, generator)[..., 0]
    note("naive posterior, partial", combined(*analysed(generator.binomial(n, naive)), "partial"))
    drawn = redrawn_shares(noisy, n, LARGE_SETS, 1 / job.epsilon, generator)
    few = analysed(generator.binomial(n, drawn[:, :POSTERIOR_SETS]))
    note("posterior, full", combined(*few, "full"))
    note("posterior, full-reiter", combined(*few, "full-reiter"))
    note("posterior, partial", combined(*few, "partial"))
    rows = LARGE_RATIO * n
    large = analysed(generator.binomial(rows, drawn), rows)
    note("posterior, percentile", combined(*large, "percentile", ratio=LARGE_RATIO))
    return found
