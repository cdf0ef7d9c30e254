"""Working a little ahead in other threads, in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
"""Threads that encode. Reading and counting happen in a thread of their own beside them."""


def ahead(work: Callable[[T], R], items: Iterator[T], *, threads: int) -> Iterator[R]:
    """Apply ``work`` to items in threads and yield the results in the order of the items.

    At most ``threads + 1`` items are in memory at a time. With one thread, or a single item, nothing is started. An error
    comes up where its result would have come.

    Examples
    --------
    >>> list(ahead(lambda number: number * number, iter(range(5)), threads=2))
    [0, 1, 4, 9, 16]
    """
    start = list(islice(items, 2)) if threads > 1 else []
    if len(start) < 2:
        yield from map(work, chain(start, items))
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="understudy-encode")
    waiting: deque[Future[R]] = deque()
    try:
        for item in chain(start, items):
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
