"""The compiled loop that adds up records with weights. Import this module only when something is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.data._kernels import _compiled


@_compiled
def add_weights(
    matrix: npt.NDArray[Any],
    weights: npt.NDArray[np.int64],
    prefix: npt.NDArray[np.int64],
    prefix_sizes: npt.NDArray[np.int64],
    members: npt.NDArray[np.int64],
    member_sizes: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    totals: npt.NDArray[np.int64],
) -> None:
    """Do what ``add_counts`` does for records that stand for ``weights`` rows each."""
    n = matrix.shape[1]
    index = np.zeros(n, np.uint32)
    prefix_cells = 1
    for i in range(len(prefix)):
        column = matrix[prefix[i]]
        size = np.uint32(prefix_sizes[i])
        prefix_cells *= prefix_sizes[i]
        for row in range(n):
            index[row] = index[row] * size + np.uint32(column[row])
    for j in range(len(members)):
        column = matrix[members[j]]
        size = np.uint32(member_sizes[j])
        cells = prefix_cells * member_sizes[j]
        counts = totals[offsets[j] : offsets[j] + cells]
        for row in range(n):
            counts[index[row] * size + np.uint32(column[row])] += weights[row]
