"""Speed of the exact samplers beside OpenDP's, in one process, as ratios.

Run ``python benchmarks/speed/noise.py``. Understudy draws a million integers per distribution; OpenDP draws fewer
and its time is scaled up, since both are linear. Kernels are compiled (or read from the cache) before the
clock starts; the cold cost is printed separately.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from understudy.privacy import DiscreteGaussian, Gaussian, Laplace, SystemRandomness
from understudy.privacy.noise.opendp import OpenDPRandomness
from understudy.privacy.noise.selection import exponential_mechanism, permute_and_flip

DRAWS = 1_000_000
OPENDP_DRAWS = 50_000
REPEATS = 3
TARGET = 15.0


def seconds(call: Callable[[], object]) -> float:
    """CPU seconds of the fastest of a few runs."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def milliseconds_of_import(statement: str) -> float:
    """Time of a statement in a fresh interpreter that has already imported NumPy."""
    code = (
        f"import numpy, time; t = time.perf_counter(); {statement}; print(1000 * (time.perf_counter() - t))"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(REPEATS)
    ]
    return min(runs)


def main() -> int:
    system, opendp = SystemRandomness(), OpenDPRandomness()
    # The rounded Gaussian has no counterpart in OpenDP; its discrete Gaussian is the nearest thing.
    pairs: list[tuple[str, DiscreteGaussian | Gaussian | Laplace, DiscreteGaussian | Laplace]] = [
        ("discrete Gaussian, sigma=100", DiscreteGaussian(100.0), DiscreteGaussian(100.0)),
        ("rounded Gaussian, sigma=100", Gaussian(100.0), DiscreteGaussian(100.0)),
        ("discrete Laplace, scale=10", Laplace(10.0), Laplace(10.0)),
        ("discrete Gaussian, sigma=17.3", DiscreteGaussian(17.3), DiscreteGaussian(17.3)),
        ("discrete Laplace, scale=0.7", Laplace(0.7), Laplace(0.7)),
    ]
    slow = 0
    print(f"{'one million draws':32} {'understudy':>11} {'opendp':>9} {'ratio':>7}")
    for name, ours, theirs in pairs:
        ours.draw(10, system)
        mine = seconds(lambda noise=ours: noise.draw(DRAWS, system))
        reference = seconds(lambda noise=theirs: noise.draw(OPENDP_DRAWS, opendp)) * DRAWS / OPENDP_DRAWS
        ratio = reference / mine
        slow += ratio < TARGET
        print(f"{name:32} {mine:9.3f} s {reference:7.2f} s {ratio:6.1f}x")

    scores = -np.geomspace(1e-3, 1e6, 100_000)
    print("\none selection among 100,000 uneven candidates")
    for mechanism in (exponential_mechanism, permute_and_flip):
        one = seconds(
            lambda choose=mechanism: [
                choose(scores, epsilon=1.0, sensitivity=1.0, randomness=system) for _ in range(20)
            ]
        )
        print(f"{mechanism.__name__:32} {1000 * one / 20:8.2f} ms")

    print("\nimport, beyond NumPy")
    for statement in (
        "import understudy.privacy",
        "import understudy.privacy.noise.noise, understudy.privacy.noise.selection",
    ):
        print(f"{statement:70} {milliseconds_of_import(statement):6.0f} ms")
    if slow:
        print(f"\n{slow} samplers are less than {TARGET:g} times as fast as OpenDP")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
