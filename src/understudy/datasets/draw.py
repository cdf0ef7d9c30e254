"""Checks and table-driven draws shared by the simulators.

Everything here is public: the simulators never see a real record. Seeds are therefore harmless and give
the same table again (with the same version of NumPy); privacy noise lives elsewhere and takes no seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def checked_rows(n: object) -> int:
    """Return ``n`` as an ``int``, or explain why it is not a number of rows."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise DataError(f"n ({n!r}) must be a whole number of rows, 0 or more.")
    return int(n)


def checked_share(name: str, value: object) -> float:
    """Return a share as a ``float`` between 0 and 1, or explain why it is not one."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not 0.0 <= float(value) <= 1.0:  # type: ignore[arg-type]
        raise DataError(f"{name} ({value!r}) must be a number between 0 and 1.")
    return float(value)  # type: ignore[arg-type]


def generator(seed: object, table: str) -> np.random.Generator:
    """Start the random stream of one simulated table.

    The table's name enters the seed, so that two tables simulated with the same seed are unrelated.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"seed ({seed!r}) must be a whole number, 0 or more.")
    return np.random.Generator(np.random.PCG64([int(seed), *table.encode()]))


def draw(rng: np.random.Generator, weights: npt.ArrayLike, n: int) -> Ints:
    """Draw ``n`` codes with probabilities proportional to ``weights``.

    Examples
    --------
    >>> draw(np.random.default_rng(1), [0, 1, 0], 3).tolist()
    [1, 1, 1]
    """
    return draw_given(rng, np.asarray(weights, dtype=np.float64)[None, :], np.zeros(n, dtype=np.int64))


def draw_given(rng: np.random.Generator, table: npt.ArrayLike, groups: npt.NDArray[np.integer]) -> Ints:
    """Draw one code per row from the row's own distribution.

    ``table[g]`` holds the weights of group ``g`` and ``groups`` the group of each row. The cumulative
    shares of all groups are laid end to end, group ``g`` covering ``(g, g + 1]``, so one binary search
    serves every row: memory does not grow with rows times codes.

    Examples
    --------
    >>> draw_given(np.random.default_rng(1), [[1, 0], [0, 1]], np.array([0, 1, 1, 0])).tolist()
    [0, 1, 1, 0]
    """
    weights = np.asarray(table, dtype=np.float64)
    n_groups, n_codes = weights.shape
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    laid_out = (cumulative + np.arange(n_groups)[:, None]).ravel()
    flat = np.searchsorted(laid_out, groups + rng.random(groups.shape[0]), side="right")
    # Rounding in g + u can reach the next group by a step in the last place; clip back into the row's own.
    last_possible = n_codes - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(flat - groups * n_codes, last_possible[groups]), dtype=np.int64)


def logistic(x: npt.NDArray[np.floating]) -> Floats:
    """Turn log-odds into probabilities."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)), dtype=np.float64)


def poisson_shares(mean: Floats, largest: int) -> Floats:
    """Poisson probabilities of ``0..largest`` for each mean, before renormalising."""
    k = np.arange(largest + 1)
    log_factorial = np.array([math.lgamma(i + 1.0) for i in k])
    log_mean = np.log(np.maximum(mean, 1e-12))[:, None]
    return np.asarray(np.exp(k * log_mean - mean[:, None] - log_factorial))


def labelled(codes: npt.NDArray[np.integer], labels: Sequence[str]) -> pd.Categorical[str]:
    """Turn codes into a pandas categorical; code -1 means missing."""
    import pandas as pd

    return pd.Categorical.from_codes(codes, categories=pd.Index(list(labels)))
