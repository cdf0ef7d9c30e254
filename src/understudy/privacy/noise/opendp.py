"""OpenDP's samplers as an alternative to Understudy's own.

Both draw from the same distributions. OpenDP's are slower and independently written and vetted; pass
:class:`OpenDPRandomness` wherever a :class:`~understudy.privacy.noise.randomness.Randomness` is taken to use them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.noise.randomness import SystemRandomness

__all__ = ["OpenDPRandomness"]

_FEATURES = threading.Lock()


class OpenDPRandomness(SystemRandomness):
    """System randomness whose discrete Laplace and discrete Gaussian draws OpenDP makes.

    OpenDP brings its own cryptographic generator and takes no seed. Draws it has no sampler for on
    integers (rounded Gaussian, one-sided geometric) are refused rather than made by another sampler;
    selection uses the operating system's bytes.

    Examples
    --------
    >>> from understudy.privacy.noise.noise import Laplace
    >>> Laplace(2.0).draw(5, OpenDPRandomness()).shape
    (5,)
    """

    __slots__ = ()

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """Draw ``size`` integers with ``P(y)`` proportional to ``exp(-|y| / scale)``."""
        from opendp import measurements, metrics

        return _zeros_with_noise(measurements.make_laplace, metrics.l1_distance, scale, size)

    def discrete_gaussian(self, sigma: float, size: int) -> NDArray[np.int64]:
        """Draw ``size`` integers with ``P(y)`` proportional to ``exp(-y**2 / (2 sigma**2))``."""
        from opendp import measurements, metrics

        return _zeros_with_noise(measurements.make_gaussian, metrics.l2_distance, sigma, size)

    def __repr__(self) -> str:
        return "OpenDPRandomness()"


def _zeros_with_noise(
    make: Callable[..., Any], metric: Callable[..., Any], scale: float, size: int
) -> NDArray[np.int64]:
    """Release a vector of zeros through an OpenDP measurement: what comes out is its noise."""
    from opendp import domains, mod

    if size == 0:
        return np.empty(0, np.int64)
    # OpenDP asks callers to opt in, process-wide, to constructors it has not fully vetted. Opt in for
    # the constructor call alone, and leave the process as it was.
    with _FEATURES:
        was_enabled = "contrib" in mod.GLOBAL_FEATURES
        mod.enable_features("contrib")
        try:
            space = domains.vector_domain(domains.atom_domain(T="i64")), metric(T="i64")
            measurement = make(*space, scale)
        finally:
            if not was_enabled:
                mod.disable_features("contrib")
    return np.asarray(measurement([0] * size), dtype=np.int64)
