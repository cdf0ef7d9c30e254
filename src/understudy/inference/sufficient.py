"""Draws of parameters that know the privacy noise, from released statistics alone.

A model such as MODIPS draws parameters from ``f(θ | s)`` with the noisy statistic ``s* = s + e`` put in the place
of the exact ``s``. That forgets ``e``: intervals from such draws are too narrow. Here the statistic is drawn first,

    s' = s* - e',    e' fresh noise with the law of e,        then    θ ~ f(θ | s').

*As a posterior.* With a flat prior on ``s`` itself, ``p(s | s*)`` is the density of ``e`` at ``s* - s``, which is the
law of ``s'``. Hence ``θ`` is drawn from ``∫ f(θ | s) p(s | s*) ds``, the posterior given the *release*.

*As a confidence distribution.* Let ``f(θ | s)`` be one for exact data: ``P(θ_drawn <= t | s) = P_t(S >= s)`` for every
``t``, as for the mean or the variance of a normal sample. Then, ``e`` being symmetric,

    P(θ_drawn <= t | s*) = E P_t(S >= s* - e') = P_t(S + e >= s*),

the same statement about the release. Seen as a function of ``s*`` under the true ``t`` its right side is uniform,
so the order statistics of the draws bound the true value with exactly the stated probability, *at every budget*
and without a normal approximation. Cutting ``s'`` or ``θ`` to what is possible moves draws only towards the possible
values, and an interval of order statistics still covers whatever it covered.

For proportions ``f`` is the Dirichlet posterior with prior one half (Jeffreys), which for two cells satisfies
the condition up to the steps between whole counts; for several parameters at once the condition holds
approximately. What the draws cover in the studies of paper DIPS is in the benchmarks.

Privacy
-------
In: released statistics and the scale of their noise. Out: public. Post-processing; the fresh noise protects
nothing and is drawn from an ordinary generator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.engine import project_to_simplex
from understudy.errors import WorkloadError
from understudy.marginals import Measurement, Statistic

Array = npt.NDArray[np.float64]

_SMALLEST = 1e-9
"""Smallest variance, as a share of the largest possible one."""


def redraw(released: Measurement | Statistic, *, draws: int, generator: np.random.Generator) -> Array:
    """Draw exact values as they may have been, given what was released; not yet cut to what is possible.

    Parameters
    ----------
    released
        A noisy marginal or statistic with its noise.
    draws
        How many.
    generator
        Source of the draws.

    Returns
    -------
    array of shape (draws, *values)

    Examples
    --------
    >>> measured = Measurement(("sex",), np.array([52, 47]), "laplace", 2.0)
    >>> redraw(measured, draws=3, generator=np.random.default_rng(0)).shape
    (3, 2)
    """
    if draws < 1:
        raise WorkloadError(f"draws ({draws}) must be at least 1.")
    shape = (draws, *released.values.shape)
    if isinstance(released, Statistic):
        if released.noise == "mechanism":
            raise WorkloadError(
                f"{released.name!r} is the output of a mechanism without additive noise; its noise cannot be redrawn."
            )
        draw = generator.normal if released.noise == "gaussian" else generator.laplace
        return np.asarray(released.values - draw(0.0, released.scale, shape))
    return np.asarray(released.values - whole_noise(released.noise, released.scale, shape, generator))


def whole_noise(noise: str, scale: float, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Draw whole numbers with the law of the noise on counts: discrete Laplace, or rounded Gaussian."""
    if noise == "gaussian":
        return np.rint(generator.normal(0.0, scale, shape))
    success = -np.expm1(-1.0 / scale)
    # a difference of two geometric variables has probability proportional to exp(-|k| / scale)
    return np.asarray(
        generator.geometric(success, shape) - generator.geometric(success, shape), dtype=np.float64
    )


def proportion_draws(
    measured: Measurement,
    *,
    draws: int,
    generator: np.random.Generator,
    rows: float | None = None,
    prior: float = 0.5,
) -> Array:
    """Draw the proportions of the cells of a table from a posterior that knows the noise.

    Parameters
    ----------
    measured
        Noisy counts; for a proportion by itself, the counts of both of its cells.
    draws, generator
        How many, and the source.
    rows
        Number of rows of the real table where it is public. The redrawn counts are then moved to the closest
        table with that total and without negative counts.
    prior
        Prior count of each cell.

    Returns
    -------
    array of shape (draws, *cells)
        Each of them adds up to one.

    Examples
    --------
    >>> measured = Measurement(("sex",), np.array([52, 47]), "laplace", 2.0)
    >>> drawn = proportion_draws(measured, draws=4000, generator=np.random.default_rng(0), rows=100)
    >>> bool(abs(drawn[:, 0].mean() - 0.525) < 0.01)
    True
    """
    if not prior > 0:
        raise WorkloadError(f"prior ({prior}) must be positive.")
    redrawn = redraw(measured, draws=draws, generator=generator)
    if rows is None:
        counts = np.maximum(redrawn, 0.0)
    else:
        counts = np.stack([project_to_simplex(table, float(rows)) for table in redrawn])
    weights = generator.gamma(counts + prior)
    axes = tuple(range(1, weights.ndim))
    return np.asarray(weights / weights.sum(axis=axes, keepdims=True))


def normal_draws(
    mean: Statistic,
    variance: Statistic,
    *,
    rows: int,
    bounds: tuple[float, float],
    draws: int,
    generator: np.random.Generator,
) -> tuple[Array, Array]:
    """Draw mean and variance of a normal variable given a noisy sample mean and variance.

    With exact statistics this is the posterior under the prior ``1 / σ²``, ``σ² ~ (n - 1) S² / χ²(n - 1)`` and
    ``μ ~ N(mean, σ²/n)``; the statistics are redrawn first.

    Parameters
    ----------
    mean, variance
        Released sample mean and variance (divided by ``n - 1``), each a single number or arrays of one shape;
        *not* cut to what is possible.
    rows
        Number of rows, public.
    bounds
        Smallest and largest possible value of the variable.

    Returns
    -------
    tuple
        Draws of the mean and of the variance, ``[draws, *shape]``.

    Examples
    --------
    >>> centre = Statistic("mean of x", np.array(2.0), "laplace", 0.05)
    >>> spread = Statistic("variance of x", np.array(1.1), "laplace", 0.1)
    >>> mu, var = normal_draws(
    ...     centre, spread, rows=500, bounds=(-5, 9), draws=999, generator=np.random.default_rng(1)
    ... )
    >>> bool(1.8 < np.quantile(mu, 0.025) < 2 < np.quantile(mu, 0.975) < 2.2)
    True
    """
    low, high = bounds
    if rows < 2 or not high > low:
        raise WorkloadError(f"A variance needs at least two rows and bounds apart; got {rows} and {bounds}.")
    largest = (high - low) ** 2 / 4
    redrawn = redraw(variance, draws=draws, generator=generator)
    spread = redrawn * (rows - 1) / generator.chisquare(rows - 1, redrawn.shape)
    spread = np.clip(spread, _SMALLEST * largest, largest)
    centre = redraw(mean, draws=draws, generator=generator)
    centre = centre + np.sqrt(spread / rows) * generator.standard_normal(centre.shape)
    return np.clip(centre, low, high), spread


def normal_draws_from_sums(
    sums: Statistic,
    squares: Statistic,
    *,
    rows: int,
    bounds: tuple[float, float],
    draws: int,
    generator: np.random.Generator,
) -> tuple[Array, Array]:
    """Draw mean and variance of a normal variable given its noisy sum and sum of squares.

    The statistics are those of the normal model of ``modips``: sums over the records of ``t`` and ``t²``, with ``t``
    running from -1 to 1 between the bounds. One record changes each of them by at most one, far less than it can
    change a mean and a variance times the number of rows, so that the same budget buys narrower intervals.

    Parameters
    ----------
    sums, squares
        The released sums, single numbers or arrays of one shape, in units of ``t``. A model of ``modips`` keeps them in
        steps of ``4**-15``: divide values and scale by ``4**15``.
    rows, bounds, draws, generator
        As in :func:`normal_draws`.

    Examples
    --------
    >>> t = np.random.default_rng(0).uniform(-0.5, 0.5, 400)
    >>> mu, var = normal_draws_from_sums(
    ...     Statistic("sum", t.sum(), "laplace", 2.0),
    ...     Statistic("sum of squares", (t**2).sum(), "laplace", 2.0),
    ...     rows=400,
    ...     bounds=(0, 10),
    ...     draws=999,
    ...     generator=np.random.default_rng(1),
    ... )
    >>> bool(abs(np.median(mu) - 5) < 0.2), bool(abs(np.median(var) - 25 / 12) < 0.3)
    (True, True)
    """
    low, high = bounds
    if rows < 2 or not high > low:
        raise WorkloadError(f"A variance needs at least two rows and bounds apart; got {rows} and {bounds}.")
    half = (high - low) / 2
    first = np.clip(redraw(sums, draws=draws, generator=generator), -rows, rows)
    scatter = redraw(squares, draws=draws, generator=generator) - first**2 / rows
    spread = np.clip(scatter / generator.chisquare(rows - 1, scatter.shape), _SMALLEST, 1.0)
    centre = first / rows + np.sqrt(spread / rows) * generator.standard_normal(first.shape)
    return low + half * (1 + np.clip(centre, -1.0, 1.0)), half**2 * spread


def regression_draws(
    gram: Statistic,
    *,
    rows: int,
    draws: int,
    generator: np.random.Generator,
    smallest: float = 1e-3,
) -> tuple[Array, Array]:
    """Draw coefficients and residual variance of a linear regression from a noisy matrix of moments.

    Parameters
    ----------
    gram
        The symmetric matrix ``Z'Z`` with noise, ``Z`` the predictors (a column of ones among them, if wanted)
        and the response last; the noise of entries above the diagonal is independent and that of entries
        below repeats it.
    rows
        Number of rows, public or estimated.
    smallest
        Smallest eigenvalue of the predictors' moments per row; redrawn matrices are moved up to it.

    Returns
    -------
    tuple
        Coefficients ``[draws, predictors]`` and residual variances ``[draws]``.

    Notes
    -----
    Write the redrawn matrix as blocks ``A = X'X``, ``b = X'y``, ``c = y'y``. Given exact moments and the prior
    ``1 / σ²``, ``σ² ~ (c - b'A⁻¹b) / χ²(n - p)`` and ``β ~ N(A⁻¹b, σ² A⁻¹)``. To first order ``A⁻¹b`` moves by
    ``A⁻¹(e_b - e_A β)`` under noise, and redrawing adds a draw of exactly that, so the draws have the covariance
    ``σ²A⁻¹ + A⁻¹ Cov(e_b - e_A β) A⁻¹`` of the estimate itself.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.column_stack([np.ones(900), rng.uniform(-1, 1, 900), np.zeros(900)])
    >>> z[:, 2] = 1 + 2 * z[:, 1] + rng.normal(0, 0.3, 900)
    >>> released = Statistic("moments", z.T @ z, "laplace", 0.5)
    >>> beta, sigma2 = regression_draws(released, rows=900, draws=400, generator=rng)
    >>> bool(np.allclose(beta.mean(0), [1, 2], atol=0.1))
    True
    """
    size = gram.values.shape[0] if gram.values.ndim == 2 else 0
    if gram.values.shape != (size, size) or size < 2 or not np.allclose(gram.values, gram.values.T):
        raise WorkloadError("A regression needs a symmetric matrix of moments with the response last.")
    p = size - 1
    if rows <= p:
        raise WorkloadError(f"A regression on {p} predictors needs more than {p} rows; there are {rows}.")
    redrawn = redraw(gram, draws=draws, generator=generator)
    upper = np.triu(redrawn)
    moments = upper + np.transpose(np.triu(redrawn, 1), (0, 2, 1))
    values, vectors = np.linalg.eigh(moments[:, :p, :p])
    values = np.maximum(values, smallest * rows)
    cross = moments[:, :p, p]
    turned = np.einsum("dji,dj->di", vectors, cross) / values
    residual = moments[:, p, p] - np.einsum("di,di->d", turned * values, turned)
    largest = np.maximum(moments[:, p, p], smallest * rows)
    residual = np.clip(residual, _SMALLEST * largest, largest)
    sigma2 = residual / generator.chisquare(rows - p, draws)
    noise = generator.standard_normal((draws, p)) * np.sqrt(sigma2[:, None] / values)
    return np.einsum("dij,dj->di", vectors, turned + noise), sigma2
