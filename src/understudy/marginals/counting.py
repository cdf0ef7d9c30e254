"""Work on many tables of counts, no more at a time than fit into memory together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from understudy.schema import Domain

# ----------------------------------------------------------------------------------------
# Counts of encoded records over a clique.

Records = Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any]
"""Encoded records: an array per column, or a matrix with a row per record and its columns in the order of the domain."""


def cell_numbers(domain: Domain, records: Records, clique: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return in which cell of a marginal, counted from 0 in C order, each record lies.

    Examples
    --------
    >>> cell_numbers(Domain(("a", "b"), (2, 3)), {"a": np.array([0, 1]), "b": np.array([2, 1])}, ("a", "b"))
    array([2, 4])
    """
    if isinstance(records, np.ndarray):
        records = dict(zip(domain.names, records.T, strict=True))
    cell = np.zeros(len(next(iter(records.values()), ())), dtype=np.int64)
    for name in clique:
        cell = cell * domain.size(name) + records[name]
    return cell


def count_codes(domain: Domain, records: Records, clique: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Count encoded records over a clique.

    Examples
    --------
    >>> count_codes(Domain(("a", "b"), (2, 2)), np.array([[0, 1], [1, 1]]), ("b",))
    array([0., 2.])
    """
    counts = np.bincount(cell_numbers(domain, records, clique), minlength=domain.cells(clique))
    return counts.astype(np.float64).reshape(domain.shape(clique))


Item = TypeVar("Item")


def in_batches(items: Iterable[Item], cells: Callable[[Item], int], *, most: int) -> Iterator[list[Item]]:
    """Group items, in their order, so that no batch of several holds more than ``most`` cells.

    Examples
    --------
    >>> list(in_batches([3, 4, 9, 1], lambda size: size, most=8))
    [[3, 4], [9], [1]]
    """
    batch: list[Item] = []
    held = 0
    for item in items:
        more = cells(item)
        if batch and held + more > most:
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += more
    if batch:
        yield batch
