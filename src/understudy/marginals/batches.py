"""Work on many tables of counts, no more at a time than fit into memory together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

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
