"""Counts of encoded records over a clique, for distributions that answer by simulation or hold records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.schema import Clique, Domain

__all__ = ["count_codes"]


def count_codes(domain: Domain, codes: npt.NDArray[Any], clique: Clique) -> npt.NDArray[np.float64]:
    """Count encoded records, one per row in the order of the domain, over a clique.

    Examples
    --------
    >>> count_codes(Domain(("a", "b"), (2, 2)), np.array([[0, 1], [1, 1]]), ("b",))
    array([0., 2.])
    """
    shape = domain.shape(clique)
    cell = np.zeros(len(codes), dtype=np.int64)
    for name, size in zip(clique, shape, strict=True):
        cell = cell * size + codes[:, domain.index(name)]
    return np.bincount(cell, minlength=math.prod(shape)).astype(np.float64).reshape(shape)
