"""Slack of linear conditions: how many records away a sum over records is from its limit."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_VAST = 1e280
"""A wider range of contributions is none: sums of them might not be finite numbers."""


_BLOCK = 256
"""Rows that are added one after the other; sums of blocks are added in pairs."""


def sums_of_products(left: Floats, right: Floats) -> Floats:
    """Return ``left.T @ right``, sums over rows whose rounding errors do not grow with the number of rows.

    Within a block of 256 rows any order of summation is off by at most ``2**-44`` of the sizes of its terms, and NumPy adds
    what lies side by side in pairs, which for ``2**32`` blocks is off by ``2**-47`` more. One running sum over a million rows could be
    off by ``2**-33``, and neighbouring tables differently. For two tables together this stays within the ``2**-13`` that the curator
    allows for in tables of up to ``2**29`` rows.

    Examples
    --------
    >>> sums_of_products(np.ones((600, 1)), np.full((600, 2), 0.5)).tolist()
    [[300.0, 300.0]]
    """
    whole = len(left) - len(left) % _BLOCK
    parts = np.matmul(
        left[:whole].reshape(-1, _BLOCK, left.shape[1]).transpose(0, 2, 1),
        right[:whole].reshape(-1, _BLOCK, right.shape[1]),
    )
    rest = left[whole:].T @ right[whole:]
    blocks = np.concatenate([parts, rest[None]])
    return np.asarray(np.ascontiguousarray(np.moveaxis(blocks, 0, -1)).sum(axis=-1))


def linear_slack(
    limit: npt.ArrayLike, total: npt.ArrayLike, lowest: npt.ArrayLike, highest: npt.ArrayLike
) -> float:
    """Return the smallest slack of conditions ``sum over records of c(record) < limit``; see `linear_slacks`.

    Examples
    --------
    >>> linear_slack(10.0, [4.0, 7.0], -1.0, 2.0)
    1.0
    """
    return float(linear_slacks(limit, total, lowest, highest).min(initial=math.inf))


def linear_slacks(
    limit: npt.ArrayLike, total: npt.ArrayLike, lowest: npt.ArrayLike, highest: npt.ArrayLike
) -> Floats:
    """Return the slack of each condition ``sum over records of c(record) < limit``.

    Parameters
    ----------
    limit
        Public limit of each condition.
    total
        The sum over the real table.
    lowest, highest
        Extremes of ``c`` over all possible records.

    Notes
    -----
    A record that is added or removed moves the sum by at most ``max(|lowest|, |highest|)``, a record that is
    replaced by at most ``highest - lowest``. Both are at most ``width = max(0, highest) - min(0, lowest)``, so
    ``(limit - total) / width`` has step sensitivity 1; it is positive exactly when the condition holds.
    A condition whose contributions are all negative cannot be violated by any record if the limit is not
    negative; its slack is infinite. Where all contributions are zero the sum is zero, a public fact. Where
    contributions are so large that a sum might overflow, the condition counts as violated by every table.

    Examples
    --------
    >>> linear_slacks(10.0, [4.0, 7.0], -1.0, 2.0).tolist()
    [2.0, 1.0]
    """
    bound, top, bottom = (np.asarray(a, dtype=np.float64) for a in (limit, highest, lowest))
    with np.errstate(over="ignore", invalid="ignore"):
        gap = bound - np.asarray(total, dtype=np.float64)
        width = np.maximum(0.0, top) - np.minimum(0.0, bottom)
    vast = ~(width <= _VAST)
    safe = ((top < 0) & (bound >= 0)) | ((top <= 0) & (bound > 0))
    fixed = width == 0
    slack = gap / np.where(fixed | vast, 1.0, width)
    slack = np.where(fixed, np.where(bound > 0, math.inf, -math.inf), slack)
    return np.where(vast, -math.inf, np.where(safe, math.inf, slack))
