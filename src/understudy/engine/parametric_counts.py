"""The posterior of a table of counts that was released with noise, and of the probabilities behind it.

The model: cell ``k`` holds ``n_k ~ Poisson(lambda_k)`` records, ``lambda_k`` has a Gamma prior with shape ``alpha``, and
the release is ``n_k`` plus noise of known law. Given the release the cells are independent,

    p(n_k | release) proportional to  Gamma(n_k + alpha) / n_k!  *  p(noise = release_k - n_k),

and given the counts the probabilities are Dirichlet with parameters ``alpha + n``. Where the number of records is known
the same law is conditioned on it: that is the multinomial with a Dirichlet prior. Post-processing throughout.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from understudy.marginals import Statistic

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_GRID = 512
_AT_ONCE = 1 << 21
_SWEEPS = 40
_FEW = 64
_REACH = {"laplace": 16.0, "gaussian": 8.0}


def plausible_counts(
    noisy: Statistic, *, alpha: float, total: int | None, generator: np.random.Generator
) -> Ints:
    """Draw the exact counts from their posterior.

    Parameters
    ----------
    noisy
        Released counts with their noise; NaN where a cell was not released.
    alpha
        Prior weight of each cell, in records.
    total
        The number of records where it is known.

    Notes
    -----
    With an unknown total the draw is exact (on a grid where the noise is wide). With a known total the cells are
    drawn with a common tilt that makes their expected sum right, then brought to the total, then renewed in pairs
    whose sum stays: a Gibbs sampler with the conditioned law as its equilibrium. Two cells need one step.

    Examples
    --------
    >>> noisy = Statistic("counts", np.array([30.0, -2.0, 12.0]), "laplace", 0.1)
    >>> plausible_counts(noisy, alpha=0.5, total=None, generator=np.random.default_rng(0))
    array([30,  0, 12])
    """
    y = np.asarray(noisy.values, dtype=np.float64).ravel()
    if total is None:
        n = _draw_cells(y, noisy, alpha, 0.0, None, generator)
    elif total == 0:
        n = np.zeros(len(y), dtype=np.int64)
    else:
        n = _draw_with_total(y, noisy, alpha, total, generator)
    return n.reshape(noisy.values.shape)


def naive_counts(noisy: Statistic, *, total: int | None) -> Floats:
    """Take the release at its word: cells below zero are set to zero and those above the total to the total.

    This is the boundary-inflated truncation of paper DIPS. A cell that was not released gets the rest.
    """
    upper = np.inf if total is None else float(total)
    values = np.clip(noisy.values, 0.0, upper)
    unknown = np.isnan(values)
    if unknown.any():
        rest = max(0.0, (0.0 if total is None else float(total)) - float(np.nansum(values)))
        values = np.where(unknown, rest / unknown.sum(), values)
    return np.asarray(values, dtype=np.float64)


def draw_probabilities(counts: npt.ArrayLike, alpha: float, generator: np.random.Generator) -> Floats:
    """Draw probabilities from the Dirichlet posterior given the counts."""
    shape = np.asarray(counts, dtype=np.float64) + alpha
    drawn = generator.standard_gamma(shape)
    mass = float(drawn.sum())
    return np.asarray(drawn / mass if mass > 0 else shape / shape.sum(), dtype=np.float64)


def _log_prior(n: Floats, alpha: float) -> Floats:
    return np.asarray(gammaln(n + alpha) - gammaln(n + 1.0), dtype=np.float64)


def _log_noise(gap: Floats, noisy: Statistic) -> Floats:
    """Logarithm of the density of the noise, up to a constant; a cell that was not released allows anything."""
    scaled = np.where(np.isnan(gap), 0.0, gap) / noisy.scale
    return -np.abs(scaled) if noisy.noise == "laplace" else -0.5 * scaled**2


def _pick(log_weights: Floats, generator: np.random.Generator) -> Ints:
    """Draw one place per row with probability proportional to the exponential of the entries."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    line = np.cumsum(weights, axis=1)
    point = generator.random(len(line)) * line[:, -1]
    return np.asarray(np.minimum((line < point[:, None]).sum(axis=1), line.shape[1] - 1), dtype=np.int64)


def _grid(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return start and whole-number step of a grid with at most ``_GRID`` points from low to high, per row."""
    step = np.maximum(1.0, np.ceil((high - low + 1.0) / _GRID))
    return np.floor(low), step


def _windows(y: Floats, noisy: Statistic, total: int | None) -> tuple[Floats, Floats]:
    """Where the counts can be, short of a probability that does not matter."""
    reach = np.ceil(_REACH[noisy.noise] * noisy.scale) + 2.0
    upper = np.inf if total is None else float(total)
    known = np.where(np.isnan(y), 0.0, y)
    low = np.clip(np.floor(known - reach), 0.0, upper)
    high = np.clip(np.maximum(np.ceil(known), 0.0) + reach, 0.0, upper)
    high = np.where(np.isnan(y), upper if total is not None else 0.0, high)
    return np.where(np.isnan(y), 0.0, low), high


def _cell_weights(
    y: Floats, low: Floats, high: Floats, noisy: Statistic, alpha: float, tilt: float
) -> tuple[Floats, Floats, Floats]:
    """Return log weights on a grid of counts for each cell, with start and step of the grid."""
    start, step = _grid(low, high)
    width = int(np.ceil((high - start + 1.0) / step).max())
    points = start[:, None] + step[:, None] * np.arange(width)
    middle = points + (step[:, None] - 1.0) / 2
    weights = _log_noise(y[:, None] - middle, noisy) - tilt * middle
    coarse = step > 1
    weights += _log_prior(points if not coarse.any() else np.where(coarse[:, None], middle, points), alpha)
    # the prior rises steeply towards zero: sum it over the first step instead of taking its middle
    first = coarse & (start == 0)
    if first.any():
        whole = gammaln(step[first] + alpha) - gammaln(step[first]) - np.log(alpha) - np.log(step[first])
        weights[first, 0] += whole - _log_prior(middle[first, 0], alpha)
    weights[points > high[:, None]] = -np.inf
    return weights, start, step


def _draw_cells(
    y: Floats, noisy: Statistic, alpha: float, tilt: float, total: int | None, generator: np.random.Generator
) -> Ints:
    low, high = _windows(y, noisy, total)
    drawn = np.zeros(len(y), dtype=np.int64)
    for part in _parts(len(y)):
        weights, start, step = _cell_weights(y[part], low[part], high[part], noisy, alpha, tilt)
        value = start + step * _pick(weights, generator) + np.floor(generator.random(len(start)) * step)
        drawn[part] = np.clip(value, low[part], high[part]).astype(np.int64)
    return drawn


def _expected_sum(y: Floats, noisy: Statistic, alpha: float, tilt: float, total: int | None) -> float:
    low, high = _windows(y, noisy, total)
    whole = 0.0
    for part in _parts(len(y)):
        weights, start, step = _cell_weights(y[part], low[part], high[part], noisy, alpha, tilt)
        shares = np.exp(weights - weights.max(axis=1, keepdims=True))
        places = start[:, None] + step[:, None] * np.arange(shares.shape[1]) + (step[:, None] - 1.0) / 2
        whole += float(((shares * places).sum(axis=1) / shares.sum(axis=1)).sum())
    return whole


def _parts(cells: int) -> list[slice]:
    size = max(1, _AT_ONCE // _GRID)
    return [slice(first, first + size) for first in range(0, cells, size)]


def _draw_with_total(
    y: Floats, noisy: Statistic, alpha: float, total: int, generator: np.random.Generator
) -> Ints:
    cells = len(y)
    tilt = 0.0
    if cells > _FEW:  # with fewer cells the sweeps forget where they began
        low, high = -4.0 / noisy.scale, 4.0 / noisy.scale
        for _ in range(12):
            tilt = (low + high) / 2
            above = _expected_sum(y, noisy, alpha, tilt, total) > total
            low, high = (tilt, high) if above else (low, tilt)
    n = _to_total(_draw_cells(y, noisy, alpha, tilt, total, generator), total, generator)
    if cells == 1:
        return n
    sweeps = 1 if cells == 2 else int(np.clip(_AT_ONCE * 4 // (cells * _GRID), 3, _SWEEPS))
    for _ in range(sweeps):
        order = generator.permutation(cells)
        half = cells // 2
        for part in _parts(half):
            left, right = order[:half][part], order[half : 2 * half][part]
            _renew_pairs(n, left, right, y, noisy, alpha, generator)
    return n


def _to_total(n: Ints, total: int, generator: np.random.Generator) -> Ints:
    """Add or take away records at random until the sum is right."""
    gap = total - int(n.sum())
    if gap > 0:
        weights = (n + 1.0) / float((n + 1.0).sum())
        return np.asarray(n + generator.multinomial(gap, weights), dtype=np.int64)
    if gap < 0:
        return np.asarray(
            n - generator.multivariate_hypergeometric(n, -gap, method="marginals"), dtype=np.int64
        )
    return n


def _renew_pairs(
    n: Ints,
    left: Ints,
    right: Ints,
    y: Floats,
    noisy: Statistic,
    alpha: float,
    generator: np.random.Generator,
) -> None:
    """Draw each pair of cells anew given its sum."""
    both = (n[left] + n[right]).astype(np.float64)
    reach = np.ceil(_REACH[noisy.noise] * noisy.scale) + 2.0
    one, two = y[left], both - y[right]
    near = np.clip(np.fmin(one, two), 0.0, both)
    far = np.clip(np.fmax(one, two), 0.0, both)
    unknown = np.isnan(near)
    low = np.where(unknown, 0.0, np.maximum(near - reach, 0.0))
    high = np.where(unknown, both, np.minimum(far + reach, both))
    start, step = _grid(low, high)
    width = int(np.ceil((high - start + 1.0) / step).max())
    points = np.minimum(start[:, None] + step[:, None] * np.arange(width), both[:, None])
    middle = np.minimum(points + np.floor((step[:, None] - 1.0) / 2), both[:, None])
    rest = both[:, None] - middle
    weights = _log_prior(middle, alpha) + _log_prior(rest, alpha)
    weights += _log_noise(y[left][:, None] - middle, noisy) + _log_noise(y[right][:, None] - rest, noisy)
    outside = start[:, None] + step[:, None] * np.arange(width) > high[:, None]
    weights[outside] = -np.inf
    chosen = start + step * _pick(weights, generator) + np.floor(generator.random(len(left)) * step)
    value = np.clip(chosen, low, high).astype(np.int64)
    n[left], n[right] = value, (both - value).astype(np.int64)
