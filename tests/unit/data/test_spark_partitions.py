"""What executors of Spark do with partitions, without a Spark: partial counts, rows of persons, and what is told of errors."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from data_support import all_cliques
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import Preparation, SparkTable, read_table
from understudy.data.counting.counting import MarginalCounter
from understudy.data.sql import spark
from understudy.data.sql.spark import Kept, Work, add_pieces, choose_in_partition, count_partition
from understudy.errors import DataError
from understudy.schema import Categorical, Constraint, Integer, Schema

VERSION = spark.version("understudy")
SCHEMA = Schema(
    columns=(
        Integer("a", minimum=0, maximum=9),
        Integer("b", minimum=0, maximum=299),
        Integer("c", minimum=0, maximum=1),
    )
)
CLIQUES = all_cliques(SCHEMA.names, 2)


def records(rows, seed):
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "who": [f"p{number}" for number in generator.integers(0, 8, rows)],
            "a": generator.integers(0, 10, rows),
            "b": generator.integers(0, 300, rows),
            "c": generator.integers(0, 2, rows),
        }
    )


def divided(table, cuts, batch=3):
    """Return the batches of each partition."""
    bounds = [0, *sorted(min(cut, table.num_rows) for cut in cuts), table.num_rows]
    return [
        table.slice(start, stop - start).to_batches(max_chunksize=batch) for start, stop in pairwise(bounds)
    ]


def collected(batches, cliques=CLIQUES, schema=SCHEMA):
    """Return what a driver makes of the pieces that it receives."""
    table = object.__new__(SparkTable)
    table._schema = schema
    table._session = SimpleNamespace(source=SimpleNamespace(label="t"))
    table._encoded = lambda *_: SimpleNamespace(
        repartition=lambda *_: SimpleNamespace(mapInArrow=lambda *_: pa.Table.from_batches(batches))
    )
    table._collected = lambda job: job()
    return table._counted(cliques, None)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(0, 60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    adders=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_pieces_of_partitions_add_up_to_the_counts_of_the_table(rows, cuts, adders, seed):
    """However the rows are divided, and whichever task adds up which pieces; with a cleaning rule."""
    table = records(rows, seed)
    prepare = Preparation(rules=(Constraint.parse("a > c", SCHEMA),))
    expected = read_table(table, SCHEMA, prepare=prepare)
    work = Work(SCHEMA, prepare, SCHEMA.names, VERSION)
    sent = [
        batch
        for partition in divided(table, cuts)
        for batch in count_partition(work, SCHEMA.domain, CLIQUES, partition)
    ]
    np.random.default_rng(seed).shuffle(sent)
    received = [
        batch
        for adder in range(adders)
        for batch in add_pieces(batch for batch in sent if batch["piece"][0].as_py() % adders == adder)
    ]
    counter = collected(received)
    assert counter.rows == expected.exact_row_count()
    for one, two in zip(counter.counts(), expected.count_many(CLIQUES), strict=True):
        np.testing.assert_array_equal(one, two)


def test_what_the_driver_receives_depends_on_the_marginals_alone():
    sizes = set()
    for rows, cuts in ((10, []), (10, [3, 5]), (2000, [400]), (2000, [])):
        work = Work(SCHEMA, Preparation(), SCHEMA.names, VERSION)
        partitions = divided(records(rows, 1), cuts, batch=500)
        sent = [b for part in partitions for b in count_partition(work, SCHEMA.domain, CLIQUES, part)]
        sizes.add(sum(batch.nbytes for batch in add_pieces(sent)))
    assert len(sizes) == 1


def test_large_marginals_are_cut_into_pieces(monkeypatch):
    monkeypatch.setattr(spark, "PIECE_CELLS", 7)
    table = records(50, 2)
    work = Work(SCHEMA, Preparation(), SCHEMA.names, VERSION)
    sent = list(count_partition(work, SCHEMA.domain, CLIQUES, table.to_batches()))
    assert max(len(batch["counts"][0].as_py() or b"") for batch in sent) <= 7 * 8
    for one, two in zip(
        collected(add_pieces(sent)).counts(), read_table(table, SCHEMA).count_many(CLIQUES), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(DataError, match="changed while it was in use"):
        collected(list(add_pieces(sent))[:-1])


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(0, 80), parts=st.integers(1, 4), batch=st.integers(1, 9), seed=st.integers(0, 2**32 - 1)
)
def test_rows_of_persons_stay_as_in_memory_whatever_the_partitions(rows, parts, batch, seed):
    """Persons are sent by their hash, sorted, and chosen among; batches end in the middle of persons."""
    generator = np.random.default_rng(seed)
    key = generator.bytes(32)
    table = records(rows, seed)
    work = Work(SCHEMA, Preparation(), SCHEMA.names, VERSION, "who")
    sent = pa.Table.from_batches(
        [
            item
            for partition in divided(table, generator.integers(0, 80, 2))
            for item in spark.records_of_persons(work, key, True, partition)
        ]
        or spark.records_of_persons(
            work, key, True, table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        )
    )
    expected = read_table(table, SCHEMA, id_column="who").truncated("who", 2, key)
    counter = MarginalCounter(SCHEMA.domain, CLIQUES)
    where = sent["p0"].to_numpy() % parts
    for part in range(parts):
        mine = sent.filter(pa.array(where == part)).sort_by([("p0", "ascending"), ("p1", "ascending")])
        original, spark.ENCODE_ROWS = spark.ENCODE_ROWS, 1
        try:
            kept = list(choose_in_partition(SCHEMA.domain, 2, key, mine.to_batches(max_chunksize=batch)))
        finally:
            spark.ENCODE_ROWS = original
        for number, codes in Kept(SCHEMA.domain, SCHEMA.names).codes(kept):
            counter.add(codes, rows=number)
    assert counter.rows == expected.exact_row_count()
    for one, two in zip(counter.counts(), expected.count_many(CLIQUES), strict=True):
        np.testing.assert_array_equal(one, two)


PARTS = [[(1, "A1")], [(None, "A1")], [(99, "A1")], [(None, "zzsecretzz"), (99, "A1")], []]
STRICT = Schema(columns=(Integer("whole", minimum=0, maximum=9), Categorical("sort", values=("A1",))))


def arrow(rows):
    return pa.table(
        {
            "whole": pa.array([row[0] for row in rows], pa.int64()),
            "sort": pa.array([row[1] for row in rows], pa.string()),
        }
    )


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (1, 2)])
def test_problems_of_several_partitions_are_told_once_and_in_the_words_of_one_table(order):
    parts = [PARTS[place] for place in order]
    with pytest.raises(DataError) as expected:
        read_table(arrow([row for part in parts for row in part]), STRICT)
    work = Work(STRICT, Preparation(), STRICT.names, VERSION)
    sent = [
        batch
        for part in parts
        for batch in count_partition(work, STRICT.domain, [("whole",)], arrow(part).to_batches())
    ]
    with pytest.raises(DataError) as there:
        collected(add_pieces(sent), [("whole",)], STRICT)
    assert str(there.value) == str(expected.value)
    assert "zzsecretzz" not in str(there.value)


def test_of_other_errors_only_the_type_leaves_an_executor(monkeypatch):
    def quoting(*_):
        raise KeyError("zzsecretzz")

    monkeypatch.setattr(spark, "encode_batch", quoting)
    work = Work(STRICT, Preparation(), STRICT.names, VERSION)
    sent = list(count_partition(work, STRICT.domain, [()], arrow(PARTS[0]).to_batches()))
    assert b"zzsecretzz" not in repr(sent).encode()
    with pytest.raises(DataError, match="KeyError on an executor"):
        collected(add_pieces(sent), [()], STRICT)


def test_executors_of_another_version_are_refused():
    work = Work(STRICT, Preparation(), STRICT.names, "0.0.1")
    sent = list(count_partition(work, STRICT.domain, [()], arrow(PARTS[0]).to_batches()))
    with pytest.raises(DataError, match="Install the same version"):
        collected(add_pieces(sent), [()], STRICT)
