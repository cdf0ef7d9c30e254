"""Numba kernels on single tables: sums over an axis and batched products. Import on first use only."""

from __future__ import annotations

from understudy._compile import compiled

TILE = 64


@compiled(fastmath={"reassoc", "contract"})
def sum_middle(values, out):  # type: ignore[no-untyped-def]
    """Sum a three-way table over its middle axis."""
    outer, size, inner = values.shape
    if inner == 1:
        for i in range(outer):
            total = 0.0
            for k in range(size):
                total += values[i, k, 0]
            out[i, 0] = total
        return
    for i in range(outer):
        for j in range(inner):
            out[i, j] = values[i, 0, j]
        for k in range(1, size):
            for j in range(inner):
                out[i, j] += values[i, k, j]


@compiled(fastmath={"contract", "reassoc"})
def contract(left, right, out):  # type: ignore[no-untyped-def]
    """Batched matrix product, out[t] = left[t] @ right[t], on one core.

    Four terms at a time keep each row of the result in registers longer; unlike a threaded BLAS it
    takes no second core and gives the same result on every run.
    """
    batch, rows, inner = left.shape
    columns = right.shape[2]
    out[:] = 0.0
    for t in range(batch):
        for first in range(0, inner, TILE):
            last = min(first + TILE, inner)
            for i in range(rows):
                k = first
                while k + 4 <= last:
                    a, b = left[t, i, k], left[t, i, k + 1]
                    c, d = left[t, i, k + 2], left[t, i, k + 3]
                    if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
                        for j in range(columns):
                            out[t, i, j] += (
                                a * right[t, k, j]
                                + b * right[t, k + 1, j]
                                + c * right[t, k + 2, j]
                                + d * right[t, k + 3, j]
                            )
                    k += 4
                while k < last:
                    a = left[t, i, k]
                    for j in range(columns):
                        out[t, i, j] += a * right[t, k, j]
                    k += 1
