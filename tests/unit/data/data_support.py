"""Small tables and referees shared by the tests of the data room."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from understudy.schema import Boolean, Categorical, Date, Integer, Real, Schema


def code_schema(sizes):
    """A schema whose values are the codes themselves."""
    return Schema(columns=tuple(Integer(name, minimum=0, maximum=size - 1) for name, size in sizes.items()))


def mixed_schema():
    """One column of each kind, with the values that naive readers spoil."""
    return Schema(
        columns=(
            Categorical("code", values=("007", "7", "NA", "null", "x,y", "é")),
            Integer("age", minimum=0, maximum=99, missing=True),
            Real("dose", minimum=0, maximum=10, bins=5),
            Boolean("smokes", missing=True),
            Date("born", minimum="2000-01-01", maximum="2000-12-31", resolution="month"),
        )
    )


def mixed_frame(rows=200, seed=0):
    """Random records of `mixed_schema`, with a column that the schema does not declare and person ids."""
    generator = np.random.default_rng(seed)
    days = np.datetime64("2000-01-01") + generator.integers(0, 366, rows)
    return pd.DataFrame(
        {
            "unused": generator.random(rows),
            "code": pd.Series(generator.choice(["007", "7", "NA", "null", "x,y", "é"], rows), dtype=object),
            "age": pd.Series(generator.integers(0, 100, rows), dtype="Int64").mask(
                generator.random(rows) < 0.2
            ),
            "dose": generator.random(rows) * 10,
            "smokes": pd.Series(generator.random(rows) < 0.5, dtype="boolean").mask(
                generator.random(rows) < 0.2
            ),
            "born": pd.Series(days.astype("datetime64[s]")),
            "person": pd.Series([f"p{i}" for i in generator.integers(0, rows // 4 + 1, rows)], dtype=object),
        }
    )


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
