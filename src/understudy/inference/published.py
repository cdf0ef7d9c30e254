"""The error bounds of paper AIM, section 5, as printed; ours in :mod:`understudy.inference.bounds` are tighter.

They are kept as the yardstick of the benchmark, extended where the printed proofs extend without change:

- *Laplace noise.* Theorem 3 follows from ``E exp(s|e|) <= E exp(se) + E exp(-se) = 2 M(s)`` and Markov's inequality:
  ``|e|_1 <= (n ln 2 + n ln M(s) + ln(1/β)) / s`` for every ``s > 0``. For Gaussian noise the best ``s`` gives
  ``σ sqrt(2n (n ln 2 + ln(1/β)))``, at most the printed expression; for averages of Laplace noise
  ``ln M(s) = -sum_j k_j ln(1 - s² a_j² b_j²)`` is minimised numerically.
- *Other units.* Scores change by at most ``l1 max w`` between neighbours, so ``Δ = l1 max w`` replaces ``max w``.
- *Other penalties.* ``sqrt(2/π) σ`` is replaced by whatever the round subtracted per cell.

Two things the printed statements leave out, which ours repair: the cliques measured in later rounds depend on
the noise of earlier ones, so the average of Theorem 2 over "all measurements that contain r" is not exactly normal;
and the last round in which a marginal could be chosen is not known when that round begins.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from understudy.inference.covers import Evidence, weighted_average
from understudy.inference.history import Round, Standing
from understudy.inference.laws import CellNoise, require_beta
from understudy.schema import Clique

Array = npt.NDArray[np.float64]


def noise_bound(evidence: Evidence, clique: Clique, *, beta: float) -> float:
    """Return Theorem 3's bound on the L1 error of the weighted average estimator.

    For Gaussian noise ``sqrt(2 ln 2) σ n + λ σ sqrt(2n)`` with ``exp(-λ²) = beta``.
    """
    require_beta(beta)
    n = evidence.domain.cells(clique)
    inside = [item for item in evidence.measurements if set(clique) <= set(item.clique)]
    found = weighted_average(evidence.domain, inside, clique)
    if found is None:
        return math.inf
    sd = found[1]
    if all(item.noise == "gaussian" for item in inside):
        return math.sqrt(2 * math.log(2)) * sd * n + math.sqrt(math.log(1 / beta)) * sd * math.sqrt(2 * n)
    terms = [item.values.size // n for item in inside]
    weights = [sd**2 / (k * item.variance) for k, item in zip(terms, inside, strict=True)]
    sizes = [weight * item.scale for weight, item in zip(weights, inside, strict=True)]
    kinds = [item.noise for item in inside]
    limit = min(1 / size for size, kind in zip(sizes, kinds, strict=True) if kind == "laplace")

    def bound(fraction: float) -> float:
        s = fraction * limit
        log_moment = sum(
            k * (s * s * size**2 / 2 if kind == "gaussian" else -math.log1p(-((s * size) ** 2)))
            for k, size, kind in zip(terms, sizes, kinds, strict=True)
        )
        return (n * (math.log(2) + log_moment) + math.log(1 / beta)) / s

    return float(minimize_scalar(bound, bounds=(1e-6, 1 - 1e-9), method="bounded").fun)


def supported_bound(evidence: Evidence, clique: Clique, answer: Array, *, beta: float) -> float:
    """Return Corollary 1: a bound on ``|M_r(D) - answer|_1`` for a marginal some measurement contains."""
    found = weighted_average(evidence.domain, evidence.measurements, clique)
    if found is None:
        return math.inf
    return float(np.abs(answer - found[0]).sum()) + noise_bound(evidence, clique, beta=beta)


def unsupported_bound(step: Round, standing: Standing, *, cells: int, beta: float) -> float:
    """Return Corollary 2 for the final model: a bound for a marginal that could last be chosen in ``step``.

    ``λ1`` and ``λ2`` are set so that ``exp(-λ1²/2)`` and ``exp(-λ2)`` are half of ``beta`` each.
    """
    require_beta(beta)
    noise, size = step.measurement, step.measurement.values.size
    scale = 2 * step.l1 * step.largest_weight / step.epsilon
    seen = step.weight * float(np.abs(step.answer - noise.values).sum())
    seen += step.penalty * (standing.weight * cells - step.weight * size)
    seen += scale * math.log(len(step.candidates))
    if noise.noise == "gaussian":
        spread = math.sqrt(2 * math.log(2 / beta)) * noise.scale * math.sqrt(size)
    else:
        spread = CellNoise.of(noise).signed_sum(size, beta / 2)
    return standing.drift + (seen + step.weight * spread + math.log(2 / beta) * scale) / standing.weight
