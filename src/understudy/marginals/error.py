"""Distances between two tables seen through a workload (paper AIM, Definition 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.marginals.workload import Workload

Norm = Literal["l1", "l2", "max"]
Array = npt.NDArray[np.float64]

_NORMS: dict[str, Callable[[Array], float]] = {
    "l1": lambda difference: float(np.abs(difference).sum()),
    "l2": lambda difference: float(np.sqrt(np.square(difference).sum())),
    "max": lambda difference: float(np.abs(difference).max(initial=0.0)),
}


def marginal_errors(
    real: Sequence[npt.ArrayLike], synthetic: Sequence[npt.ArrayLike], *, n_rows: float, norm: Norm = "l1"
) -> Array:
    """Return the distance of each pair of marginals, divided by the number of real rows.

    The arguments are exact marginals, so the result is private: it may be shown only when both
    tables are public, as in a benchmark.
    """
    if len(real) != len(synthetic):
        raise WorkloadError(
            f"Need as many real as synthetic marginals; got {len(real)} and {len(synthetic)}."
        )
    if not n_rows > 0:
        raise WorkloadError(f"The number of rows ({n_rows}) must be positive.")
    try:
        distance = _NORMS[norm]
    except KeyError:
        raise WorkloadError(f"No norm named {norm!r}. Known: {', '.join(_NORMS)}.") from None
    errors = np.empty(len(real))
    for index, (left, right) in enumerate(zip(real, synthetic, strict=True)):
        a, b = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
        if a.shape != b.shape:
            raise WorkloadError(
                f"Marginal {index} has shape {a.shape} on one side and {b.shape} on the other."
            )
        errors[index] = distance(a - b) / n_rows
    return errors


def workload_error(
    workload: Workload,
    real: Sequence[npt.ArrayLike],
    synthetic: Sequence[npt.ArrayLike],
    *,
    n_rows: float,
    norm: Norm = "l1",
) -> float:
    """Return the weighted average distance over a workload (paper AIM, Definition 2).

    Marginals are given in the order of the workload and as counts, not rescaled: with the L1 norm
    the result lies between 0 and 2 when both tables have ``n_rows`` rows and the weights are one.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> from understudy.marginals import all_kway
    >>> workload = all_kway(Domain(("a", "b"), (2, 2)), 1)
    >>> workload_error(workload, [[3, 1], [2, 2]], [[2, 2], [2, 2]], n_rows=4)
    0.25
    """
    errors = marginal_errors(real, synthetic, n_rows=n_rows, norm=norm)
    if len(errors) != len(workload):
        raise WorkloadError(f"The workload has {len(workload)} marginals; got {len(errors)}.")
    return float(np.dot(workload.weights, errors) / len(workload))
