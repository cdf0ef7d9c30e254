"""Batches encoded in other threads come in order, with errors where they belong."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from understudy.data.counting.encode import ahead


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 20])
def test_results_are_those_of_map(threads: int, number: int) -> None:
    assert list(ahead(str, iter(range(number)), threads=threads)) == list(map(str, range(number)))


def test_an_error_comes_where_its_result_would_have_come() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    running = ahead(work, iter(range(10)), threads=2)
    found = [next(running) for _ in range(3)]
    with pytest.raises(ValueError, match="three") as caught:
        next(running)
    assert found == [0, 1, 2]
    assert caught.value.__context__ is None


def test_few_items_are_in_memory_and_all_threads_end() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    running = ahead(abs, items(), threads=2)
    for _ in range(5):
        next(running)
    assert len(taken) <= 5 + 2 + 1
    running.close()
    assert not [thread for thread in threading.enumerate() if "understudy-encode" in thread.name]
