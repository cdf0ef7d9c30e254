"""Compiled draws from Pólya's urn; see :mod:`understudy.privacy.count_models.urn`."""

from __future__ import annotations

import numpy as np

from understudy._compile import compiled
from understudy.privacy._noise_kernels import below


@compiled(nogil=True)
def urn(numerator, shift, cells, n, owners, occupied, ends, stream, drawn):  # type: ignore[no-untyped-def]
    """Fill ``drawn`` with the cells of successive draws."""
    prior = numerator * cells
    for j in range(len(drawn)):
        r = below(stream, prior + (np.uint64(n + j) << shift))
        if r < prior:
            drawn[j] = np.int64(r // numerator)
            continue
        ball = np.int64((r - prior) >> shift)
        if ball >= n:
            drawn[j] = drawn[ball - n]
        elif len(owners):
            drawn[j] = owners[ball]
        else:
            drawn[j] = occupied[np.searchsorted(ends, ball, side="right")]
