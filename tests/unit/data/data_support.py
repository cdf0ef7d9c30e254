"""Small tables and referees shared by the tests of the data room."""

from __future__ import annotations

import itertools

import numpy as np

from understudy.schema import Domain


class _Column:
    """Stand-in column: the values are the codes."""

    kind = "integer"

    def __init__(self, name, size):
        self.name, self.size = name, size

    def encode(self, values):
        from understudy.errors import DataError

        numbers = (
            np.asarray([int(v) for v in values])
            if getattr(values, "dtype", None) == object
            else np.asarray(values)
        )
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.size):
            raise DataError(f"Column {self.name!r} has values outside its domain.")
        return numbers.astype(np.uint32)


class StandIn:
    def __init__(self, sizes):
        self.domain = Domain.of(sizes)

    def column(self, name):
        return _Column(name, self.domain.size(name))

    def encode_frame(self, frame):
        return {name: self.column(name).encode(frame[name]) for name in self.domain.names}


def code_schema(sizes):
    """A schema whose values are the codes themselves."""
    return StandIn(sizes)


def random_codes(sizes, rows, seed=0):
    """Uniform random codes for every column."""
    generator = np.random.default_rng(seed)
    return {name: generator.integers(0, size, rows) for name, size in sizes.items()}


def brute_force_counts(codes, sizes, clique, rows):
    """Count by a plain loop over the rows: the referee of every fast path."""
    counts = np.zeros([sizes[name] for name in clique], np.int64)
    for row in range(rows):
        counts[tuple(int(codes[name][row]) for name in clique)] += 1
    return counts


def all_cliques(names, largest=3):
    return [clique for size in range(largest + 1) for clique in itertools.combinations(names, size)]
