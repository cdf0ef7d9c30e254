"""The posterior of Gaussian means and a common covariance when only noisy sums are known.

Numbers ``t`` of ``d`` columns, each between -1 and 1, are Gaussian within each of ``K`` cells with mean ``mu_k`` and
common covariance ``Sigma`` (one cell: the normal model; several: the general location model). Released are the sums
``s_k`` of each cell and the second moments ``Q`` over all cells, both with noise of known law. Given the parameters

    s_k ~ N(n_k mu_k, n_k Sigma)     and     R = sum (t - mu)(t - mu)' ~ N(N Sigma, N V(Sigma)),

uncorrelated with each other, the second by the central limit theorem with the fourth moments of the normal law; and
``Q = R + sum_k (s_k mu_k' + mu_k s_k' - n_k mu_k mu_k')``. The sampler moves between parameters and exact statistics
(Bernstein and Sheldon 2018); Laplace noise is a normal with an exponential variance. Everything is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from understudy.marginals import Statistic

# ----------------------------------------------------------------------------------------
# Draws and matrices of the normal law that the samplers of parametric models share.

Floats = npt.NDArray[np.float64]


def pairs_of(d: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the pairs of columns of a symmetric matrix, in the order in which they are released."""
    return np.triu_indices(d)


def symmetric(values: Floats, d: int) -> Floats:
    """Return the symmetric matrix with the given upper triangle."""
    i, j = pairs_of(d)
    matrix = np.zeros((d, d))
    matrix[i, j] = values
    matrix[j, i] = values
    return matrix


def positive_definite(matrix: Floats, floor: float | Floats) -> Floats:
    """Return the closest symmetric matrix with no eigenvalue below the floor."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T, dtype=np.float64)


def product_covariance(sigma: Floats) -> Floats:
    """Covariance of the products of centred normal numbers (Isserlis)."""
    i, j = pairs_of(len(sigma))
    return np.asarray(
        sigma[i[:, None], i] * sigma[j[:, None], j] + sigma[i[:, None], j] * sigma[j[:, None], i],
        dtype=np.float64,
    )


def laplace_variances(gap: Floats, scale: float, generator: np.random.Generator) -> Floats:
    """Draw the variance behind each Laplace number given its size.

    Laplace noise of scale ``b`` is normal with an exponential variance of mean ``2 b²``; given the noise ``e``, one
    over the variance is inverse Gaussian with mean ``1 / (b |e|)`` and shape ``1 / b²``.
    """
    mean = 1.0 / (scale * np.maximum(np.abs(gap), 1e-9 * scale))
    drawn = generator.wald(mean, 1.0 / scale**2)
    return np.asarray(1.0 / np.maximum(drawn, 1e-12 / scale**2), dtype=np.float64)


def draw_normal(covariances: Floats, generator: np.random.Generator) -> Floats:
    """Draw one centred normal vector per covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariances)
    white = generator.standard_normal(values.shape) * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.einsum("kij,kj->ki", vectors, white), dtype=np.float64)


def inverse_wishart(freedom: float, scale: Floats, generator: np.random.Generator) -> Floats:
    """Draw from the inverse Wishart law by Bartlett's decomposition."""
    d = len(scale)
    lower = np.tril(generator.standard_normal((d, d)), -1)
    lower[np.diag_indices(d)] = np.sqrt(generator.chisquare(np.maximum(freedom - np.arange(d), 1e-3)))
    root = np.linalg.cholesky(scale)
    inside = np.linalg.solve(lower, root.T)
    drawn = inside.T @ inside
    return np.asarray((drawn + drawn.T) / 2, dtype=np.float64)


def bounded(sigma: Floats) -> Floats:
    """Shrink variances above the largest possible one, keeping the correlations."""
    size = np.sqrt(np.minimum(1.0, 1.0 / np.maximum(np.diag(sigma), 1e-300)))
    return np.asarray(sigma * np.outer(size, size), dtype=np.float64)


Bools = npt.NDArray[np.bool_]

_FLOOR = 1e-6
_RATIOS = (0.05, 0.3, 1.0)
_APART = (0.5, 0.01)


@dataclass(frozen=True, eq=False)
class GaussianEvidence:
    """What was released about the numbers, in units of the standardised columns.

    Parameters
    ----------
    sums
        Noisy sums, of shape (cells, columns).
    second
        Noisy second moments over all cells, one per pair of columns in the order of ``pairs_of``.
    present
        Which columns have a number in each cell.
    prior_weight, prior_variance
        Degrees of freedom beyond the number of columns, and scale, of the inverse Wishart prior of the covariance.

    Notes
    -----
    A single cell has a flat prior on its mean. The means of several cells are normal around a common mean, column by
    column, with a variance that is learnt (inverse Gamma with shape 1/2 and scale .01): where sums are mostly noise the
    cells are drawn together, where they are clear they are left alone.
    """

    sums: Statistic
    second: Statistic
    present: Bools
    prior_weight: float = 0.0
    prior_variance: float = 0.05
    columns: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self.present.shape[1])


@dataclass(frozen=True, eq=False)
class GaussianParameters:
    """Means of each cell, of shape (cells, columns), and the common covariance."""

    means: Floats
    covariance: Floats


def naive_gaussian(
    evidence: GaussianEvidence, counts: Floats, generator: np.random.Generator
) -> GaussianParameters:
    """Draw parameters as if the release were exact: the posterior of paper DIPS.

    Means outside the bounds and variances that cannot be are moved to the nearest possible ones first.
    """
    d, n = evidence.columns, np.maximum(np.asarray(counts, dtype=np.float64).ravel(), 0.0)
    means = np.clip(evidence.sums.values / np.maximum(n, 1.0)[:, None], -1.0, 1.0) * evidence.present
    shares = _both_present(evidence, n)
    between = np.einsum("k,kj,kl->jl", n, means, means)
    within = symmetric(evidence.second.values, d) - between
    covariance = within * (n.sum() / np.maximum(symmetric(shares, d), 1.0)) / max(1.0, n.sum())
    covariance = positive_definite(np.clip(covariance, -1.0, 1.0), _FLOOR)
    freedom = max(float(n.sum() - len(n)), d + 1.0)
    sigma = bounded(inverse_wishart(freedom, covariance * freedom, generator))
    spread = generator.standard_normal(means.shape) @ np.linalg.cholesky(sigma).T
    drawn = means + spread / np.sqrt(np.maximum(n, 1.0))[:, None]
    return GaussianParameters(np.clip(drawn, -1.0, 1.0), sigma)


def draw_gaussian(
    evidence: GaussianEvidence,
    counts: npt.ArrayLike,
    generator: np.random.Generator,
    *,
    iterations: int = 150,
) -> GaussianParameters:
    """Draw parameters from the posterior that takes the noise into account."""
    return list(gaussian_chain(evidence, counts, generator, iterations=iterations, keep=1))[-1]


def mean_gaussian(
    evidence: GaussianEvidence,
    counts: npt.ArrayLike,
    generator: np.random.Generator,
    *,
    iterations: int = 300,
) -> GaussianParameters:
    """Return the average of the second half of a chain: the posterior mean of the parameters."""
    kept = gaussian_chain(evidence, counts, generator, iterations=iterations, keep=iterations // 2)
    return GaussianParameters(
        np.mean([item.means for item in kept], axis=0), np.mean([item.covariance for item in kept], axis=0)
    )


def gaussian_chain(
    evidence: GaussianEvidence,
    counts: npt.ArrayLike,
    generator: np.random.Generator,
    *,
    iterations: int,
    keep: int,
) -> list[GaussianParameters]:
    """Run the sampler from a noisy start and return its last states.

    Parameters
    ----------
    counts
        Number of records of each cell, itself drawn from its posterior or known.

    Notes
    -----
    Each round renews (1) the variances behind Laplace noise, (2) means and sums of some cells together, proposed
    from their law given the released sums and accepted by what the second moments say, (3) the residual moments,
    (4) the covariance, inverse Wishart given them, and (5) the scale of covariance and residual moments together, which
    is the direction that (3) and (4) explore slowly when there is much noise. Means stay within [-1, 1] and variances
    below 1, the largest that numbers between -1 and 1 can have.
    """
    state = _State(evidence, np.asarray(counts, dtype=np.float64).ravel(), generator)
    kept = []
    for round_ in range(iterations):
        state.renew()
        if round_ >= iterations - keep:
            kept.append(GaussianParameters(state.means.copy(), state.sigma.copy()))
    return kept


class _State:
    """One state of the sampler."""

    def __init__(self, evidence: GaussianEvidence, n: Floats, generator: np.random.Generator) -> None:
        self.evidence, self.n, self.generator = evidence, n, generator
        self.d, self.cells = evidence.columns, len(n)
        self.total = float(n.sum())
        self.rows, self.cols = pairs_of(self.d)
        self.paired = _both_present(evidence, n)
        self.unpaired = self.total - self.paired
        self.apart = np.full(self.d, 0.1)
        self.freedom = evidence.prior_weight + self.d
        self.psi = evidence.prior_variance * np.eye(self.d)
        self.mask = evidence.present.astype(np.float64)
        self.noise_sums = np.full((self.cells, self.d), evidence.sums.variance)
        self.noise_second = np.full(len(self.rows), evidence.second.variance)
        self._start()

    def _start(self) -> None:
        """Begin at the released statistics with their noise drawn once more: spread like the posterior."""
        evidence, generator = self.evidence, self.generator
        jitter = generator.standard_normal(evidence.sums.values.shape) * math.sqrt(evidence.sums.variance)
        counted = np.maximum(self.n, 1.0)[:, None]
        # cells whose sum is mostly noise start near the mean of all cells
        pooled = np.clip(
            evidence.sums.values.sum(axis=0) / np.maximum((self.mask * self.n[:, None]).sum(axis=0), 1.0),
            -1,
            1,
        )
        trust = counted / (counted + np.sqrt(evidence.sums.variance))
        self.means = np.clip(
            trust * (evidence.sums.values + jitter) / counted + (1 - trust) * pooled, -1.0, 1.0
        )
        self.centre = pooled
        self.sums = self.n[:, None] * self.means
        noise = generator.standard_normal(len(self.rows)) * math.sqrt(evidence.second.variance)
        rough = symmetric(
            (evidence.second.values + noise - self._between(self.means, self.sums))
            / np.maximum(self.paired, 1.0),
            self.d,
        )
        self.sigma = bounded(positive_definite(rough, evidence.prior_variance / (self.total + 1.0)))
        self.residual = self.paired * self.sigma[self.rows, self.cols]

    def renew(self) -> None:
        """Make one round of moves."""
        self._noise()
        self._means_and_sums()
        self._residual()
        self._covariance()
        for ratio in _RATIOS:
            self._scale(ratio)
        self._common_mean()

    # -- moves ---------------------------------------------------------------------------------

    def _noise(self) -> None:
        """Renew the variances of a normal scale mixture: inverse Gaussian given the size of the noise."""
        if self.evidence.sums.noise == "laplace":
            gap = self.evidence.sums.values - self.sums
            self.noise_sums = laplace_variances(gap, self.evidence.sums.scale, self.generator)
        if self.evidence.second.noise == "laplace":
            gap = self.evidence.second.values - self.residual - self._between(self.means, self.sums)
            self.noise_second = laplace_variances(gap, self.evidence.second.scale, self.generator)

    def _means_and_sums(self) -> None:
        share = float(self.generator.choice([1.0, 0.3, 1.0 / self.cells])) if self.cells > 1 else 1.0
        chosen = self.generator.random(self.cells) < share
        if not chosen.any():
            chosen[self.generator.integers(self.cells)] = True
        means, sums = self._propose(chosen)
        if (np.abs(means[chosen]) > 1).any():
            inside = (np.abs(means) <= 1).all(axis=1)
            means[~inside], sums[~inside] = self.means[~inside], self.sums[~inside]
        gain = self._fit_second(means, sums) - self._fit_second(self.means, self.sums)
        if math.log(self.generator.random()) < gain:
            self.means, self.sums = means, sums

    def _propose(self, chosen: Bools) -> tuple[Floats, Floats]:
        """Draw means and sums of some cells from their law given the released sums and the covariance."""
        n, d, generator = self.n[chosen], self.d, self.generator
        observed = self.evidence.present[chosen]
        # a number that is never there was not observed: as good as an enormous noise variance
        noise = np.where(observed, self.noise_sums[chosen], 1e12)
        released = np.where(observed, self.evidence.sums.values[chosen], 0.0)
        several = self.cells > 1
        prior = np.diag(self.apart) if several else 4.0 * np.eye(d)
        centre = self.centre if several else np.zeros(d)
        eye = np.eye(d)
        # mean: prior N(centre, prior), released = n mean + N(0, n Sigma + noise)
        spread = n[:, None, None] * self.sigma + noise[:, :, None] * eye
        gain = n[:, None, None] * np.linalg.solve(spread, np.broadcast_to(prior, spread.shape))
        left = prior @ np.linalg.inv(eye + n[:, None, None] * gain)
        left = (left + np.swapaxes(left, 1, 2)) / 2
        surprise = np.linalg.solve(spread, (released - n[:, None] * centre)[:, :, None])[:, :, 0]
        shift = np.einsum("kij,kj->ki", left, n[:, None] * surprise)
        means = self.means.copy()
        means[chosen] = centre + shift + draw_normal(left, generator)
        # sums given means: prior N(n mean, n Sigma), released = sums + noise
        within = n[:, None, None] * self.sigma
        total = within + noise[:, :, None] * eye
        rest = np.linalg.solve(total, (released - n[:, None] * means[chosen])[:, :, None])
        posterior = within - within @ np.linalg.solve(total, within)
        posterior = (posterior + np.swapaxes(posterior, 1, 2)) / 2
        sums = self.sums.copy()
        sums[chosen] = (
            n[:, None] * means[chosen] + (within @ rest)[:, :, 0] + draw_normal(posterior, generator)
        )
        return means, sums

    def _fit_second(self, means: Floats, sums: Floats) -> float:
        """Log density of the released second moments, the residual moments integrated out."""
        gap = self._gap(means, sums) - self.paired * self.sigma[self.rows, self.cols]
        spread = self._residual_covariance() + np.diag(self.noise_second)
        factor = np.linalg.cholesky(spread)
        white = np.linalg.solve(factor, gap)
        return -0.5 * float(white @ white) - float(np.log(np.diag(factor)).sum())

    def _residual(self) -> None:
        expected = self.paired * self.sigma[self.rows, self.cols]
        prior = self._residual_covariance()
        gap = self._gap(self.means, self.sums) - expected
        gain = np.linalg.solve(prior + np.diag(self.noise_second), prior).T
        spread = prior - gain @ prior
        self.residual = expected + gain @ gap + draw_normal(spread[None], self.generator)[0]

    def _covariance(self) -> None:
        entries = self.sigma[self.rows, self.cols]
        spread = (
            np.sqrt(np.maximum(self.unpaired, 0.0))
            * draw_normal(product_covariance(self.sigma)[None], self.generator)[0]
        )
        whole = symmetric(self.residual + self.unpaired * entries + spread, self.d)
        scale = self.psi + whole
        freedom = self.freedom + self.total
        scale = positive_definite(scale, self.evidence.prior_variance / 2)
        for _ in range(20):
            drawn = inverse_wishart(freedom, scale, self.generator)
            if (np.diag(drawn) <= 1.0).all():
                self.sigma = positive_definite(drawn, _FLOOR)
                return
        self.sigma = bounded(positive_definite(drawn, _FLOOR))

    def _scale(self, ratio: float) -> None:
        """Stretch covariance and residual moments together, column by column, by Metropolis steps."""
        stretch = np.exp(ratio * self.generator.standard_normal(self.d))
        both = np.outer(stretch, stretch)
        sigma = self.sigma * both
        if (np.diag(sigma) > 1.0).any() or (np.diag(sigma) < _FLOOR).any():
            return
        residual = self.residual * both[self.rows, self.cols]
        between = self._between(self.means, self.sums)
        gain = 0.0
        for sign, covariance, moments in ((1.0, sigma, residual), (-1.0, self.sigma, self.residual)):
            inverse = np.linalg.inv(covariance)
            log_determinant = float(np.linalg.slogdet(covariance)[1])
            prior = -0.5 * (self.freedom + self.d + 1) * log_determinant - 0.5 * float(
                np.trace(self.psi @ inverse)
            )
            busy = self.n > 0
            off = (self.sums - self.n[:, None] * self.means)[busy] / np.sqrt(self.n[busy])[:, None]
            spread = (
                -0.5 * float(np.einsum("kj,jl,kl->", off, inverse, off)) - 0.5 * busy.sum() * log_determinant
            )
            error = self.evidence.second.values - between - moments
            released = -0.5 * float((error**2 / self.noise_second).sum())
            gain += sign * (prior + spread + released)
        # the density of the residual moments stretches with them; what is left is the volume of the covariance
        gain += (self.d + 1) * float(np.log(stretch).sum())
        if math.log(self.generator.random()) < gain:
            self.sigma, self.residual = sigma, residual

    def _common_mean(self) -> None:
        """Renew the common mean of the cells and how far they lie apart."""
        if self.cells == 1:
            return
        drawn = self.means.mean(axis=0) + np.sqrt(self.apart / self.cells) * self.generator.standard_normal(
            self.d
        )
        self.centre = np.clip(drawn, -1.0, 1.0)
        squares = ((self.means - self.centre) ** 2).sum(axis=0)
        self.apart = (_APART[1] + squares / 2) / self.generator.gamma(_APART[0] + self.cells / 2, size=self.d)

    # -- pieces --------------------------------------------------------------------------------

    def _between(self, means: Floats, sums: Floats) -> Floats:
        """Second moments less residual moments, over the cells where both columns have a number."""
        there_means, there_sums = means * self.mask, sums * self.mask
        cross = there_sums.T @ there_means
        moved = (there_means * self.n[:, None]).T @ there_means
        return np.asarray((cross + cross.T - moved)[self.rows, self.cols], dtype=np.float64)

    def _gap(self, means: Floats, sums: Floats) -> Floats:
        return np.asarray(self.evidence.second.values - self._between(means, sums), dtype=np.float64)

    def _residual_covariance(self) -> Floats:
        root = np.sqrt(np.maximum(self.paired, 1e-9))
        return np.outer(root, root) * product_covariance(self.sigma) + 1e-12 * np.eye(len(root))


def _both_present(evidence: GaussianEvidence, n: Floats) -> Floats:
    """Number of records in which both columns of each pair have a number."""
    there = evidence.present.astype(np.float64)
    rows, cols = pairs_of(evidence.columns)
    return np.asarray(((there * n[:, None]).T @ there)[rows, cols], dtype=np.float64)
