"""Cutting by person on disk: the same rows as in memory, in bounded memory, and nothing left behind."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_support import code_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import ArrowTable, Preparation, read_table
from understudy.data.counting.counting import MarginalCounter
from understudy.data.counting.encode import in_threads
from understudy.data.files import checkpoint as checkpoints
from understudy.data.files import spool
from understudy.data.holdout import HoldOut
from understudy.data.persons import chosen_rows, person_keys
from understudy.errors import DataError
from understudy.schema import Constraint

SCHEMA = code_schema({"a": 3, "b": 300})
CLIQUES = [("a",), ("b",), ("a", "b"), ()]


def key_of(seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(32)


def tiny(patch: pytest.MonkeyPatch) -> None:
    """Memory for a handful of rows."""
    patch.setattr(spool, "LEAF_ROWS", 8)
    patch.setattr(spool, "LEAF_MOST", 12)
    patch.setattr(spool, "SEGMENT_ROWS", 2)
    patch.setattr(spool, "ROWS_AT_ONCE", 5)
    patch.setattr(spool, "_FANOUT", 4)


def cut(
    lines: np.ndarray, max_rows: int, key: bytes, *, batch: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    def parts(skip: int) -> Iterator[Any]:
        for start in range(skip, len(lines), batch):
            yield lambda start=start: iter([lines[start : start + batch]])

    seen: list[int] = []
    kept = spool.cut_by_person(
        parts,
        width=lines.shape[1] - 2,
        rows=len(lines),
        max_rows=max_rows,
        key=key,
        threads=threads,
        whole=seen.append,
    )
    assert seen == [len(lines)]
    records = [kept.read(block) for block in kept.blocks(7)]
    assert all(len(block) <= 7 for block in records)
    return np.concatenate([np.zeros((0, lines.shape[1] - 2), np.uint64), *records]), kept.whose()


def lines_of(people: list[int], seed: int, key: bytes, *, records: int) -> np.ndarray:
    persons = person_keys(pa.array(people, pa.int64()), key)
    codes = np.random.default_rng(seed).integers(0, records, (len(people), 2)).astype(np.uint64)
    return np.concatenate([persons, codes], axis=1)


@settings(max_examples=60, deadline=None)
@given(
    people=st.lists(st.integers(0, 9), max_size=60),
    giants=st.lists(st.tuples(st.integers(20, 25), st.integers(20, 60)), max_size=2),
    records=st.sampled_from([1, 2, 1000]),
    max_rows=st.integers(1, 30),
    batch=st.integers(1, 50),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_sorted_on_disk_are_those_chosen_in_memory(
    people, giants, records, max_rows, batch, threads, seed
):
    """Many buckets, persons with more rows than memory holds, all their rows equal or all different, and no rows at all."""
    key = key_of(seed)
    people = [*people, *(who for who, number in giants for _ in range(number))]
    lines = lines_of(people, seed, key, records=records)
    lines = lines[np.random.default_rng(seed).permutation(len(lines))]
    places, first, _ = chosen_rows(lines[:, :2], lines[:, 2:], max_rows, key)
    with pytest.MonkeyPatch.context() as patch:
        tiny(patch)
        found, whose = cut(lines, max_rows, key, batch=batch, threads=threads)
    np.testing.assert_array_equal(found, lines[places, 2:])
    np.testing.assert_array_equal(whose, np.cumsum(first) - 1)


def test_two_persons_that_share_half_their_hash_stay_two(monkeypatch):
    """One chance in 2**65 for each pair, and one in 37 for some pair among 10**9 persons."""
    tiny(monkeypatch)
    key = key_of(1)
    lines = lines_of([1, 2] * 30, 3, key, records=1000)
    lines[:, 0] = 7
    places, first, _ = chosen_rows(lines[:, :2], lines[:, 2:], 4, key)
    assert first.sum() == 2
    found, whose = cut(lines, 4, key, batch=9, threads=2)
    np.testing.assert_array_equal(found, lines[places, 2:])
    np.testing.assert_array_equal(whose, np.cumsum(first) - 1)


def test_records_whose_words_are_equal_are_settled_by_the_records(monkeypatch):
    """A hash without any variety: every row has the same word. The choice stays a function of the rows."""
    from understudy.data.counting import person_kernels as kernels

    persons = np.zeros((6, 2), np.uint64)
    records = np.array([[5], [1], [3], [1], [4], [0]], np.uint64)
    plain = kernels.choose.py_func
    monkeypatch.setitem(plain.__globals__, "_row_word", lambda *given: np.uint64(9))
    for name in ("_before", "_sort"):
        monkeypatch.setitem(plain.__globals__, name, getattr(kernels, name).py_func)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(6)
        kept, _, _ = plain(persons, records[order], 4, np.zeros(2, np.uint64))
        assert records[order][kept, 0].tolist() == [0, 1, 1, 3]


@settings(max_examples=40, deadline=None)
@given(people=st.lists(st.integers(0, 12), max_size=80), most=st.integers(1, 9), threads=st.integers(1, 3))
def test_people_are_counted_by_rows_on_disk_as_in_memory(tmp_path_factory, people, most, threads):
    frame = pd.DataFrame(
        {"who": pd.Series(people, dtype="int64"), "a": [0] * len(people), "b": [0] * len(people)}
    )
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=7)
    wanted = read_table(frame, SCHEMA, id_column="who").people_by_rows("who", most)
    with pytest.MonkeyPatch.context() as patch:
        tiny(patch)
        patch.setattr("understudy.data.arrow.threads", lambda: threads)
        found = ArrowTable(path, SCHEMA, id_column="who").people_by_rows("who", most)
    np.testing.assert_array_equal(found, wanted)


# -- several threads ----------------------------------------------------------------------------------


def visits(folder: Path, rows: int = 2_000, seed: int = 0) -> pd.DataFrame:
    """Several files of several row groups; one visitor has a quarter of all rows."""
    rng = np.random.default_rng(seed)
    who = np.where(rng.random(rows) < 0.25, 7, rng.integers(100, 400, rows))
    frame = pd.DataFrame({"who": who, "a": rng.integers(0, 3, rows), "b": rng.integers(0, 300, rows)})
    folder.mkdir(exist_ok=True)
    for number in range(4):
        part = pa.Table.from_pandas(frame.iloc[number::4], preserve_index=False)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=64)
    return frame


def same(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_count_what_one_counts(tmp_path, monkeypatch, threads):
    frame = visits(tmp_path / "t")
    monkeypatch.setattr("understudy.data.arrow.threads", lambda: threads)
    whole = read_table(frame, SCHEMA, id_column="who")
    table = ArrowTable(tmp_path / "t", SCHEMA, id_column="who")
    same(table.count_many(CLIQUES), whole.count_many(CLIQUES))
    same(
        table.truncated("who", 3, key_of(1)).count_many(CLIQUES),
        whole.truncated("who", 3, key_of(1)).count_many(CLIQUES),
    )
    monkeypatch.setattr("understudy.data.arrow.COUNTERS_BYTES", 1)  # room for one counter
    same(table.count_many(CLIQUES), whole.count_many(CLIQUES))
    monkeypatch.setattr("understudy.data.files.dataset.PIECE_ROWS", 10)  # row groups too large for one thread
    same(table.count_many(CLIQUES), whole.count_many(CLIQUES))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("way", ["prepared", "held out people", "held out rows"])
def test_threads_read_what_is_left_of_a_table_as_one_reads_it(tmp_path, monkeypatch, kind, way):
    frame = visits(tmp_path / "t")
    path = tmp_path / f"one.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, row_group_size=64)
    monkeypatch.setattr("understudy.data.arrow.threads", lambda: 3)
    monkeypatch.setattr("understudy.data.files.csv._BLOCK_BYTES", 500)
    options: dict[str, Any] = {
        "prepared": {"prepare": Preparation(rules=(Constraint.parse("b >= 100", SCHEMA),))},
        "held out people": {"hold_out": HoldOut(0.4, key_of(3), id_column="who")},
        "held out rows": {"hold_out": HoldOut(0.4, key_of(3))},
    }[way]
    whole = read_table(frame, SCHEMA, id_column="who", **options)
    table = read_table(path, SCHEMA, id_column="who", max_memory_mb=0, **options)
    assert isinstance(table, ArrowTable)
    assert 0 < whole.exact_row_count() < len(frame)
    same(table.count_many(CLIQUES), whole.count_many(CLIQUES))
    same(
        table.truncated("who", 2, key_of(1)).count_many(CLIQUES),
        whole.truncated("who", 2, key_of(1)).count_many(CLIQUES),
    )


def test_an_error_in_a_thread_ends_the_others_and_comes_up(tmp_path, monkeypatch):
    visits(tmp_path / "t")
    pq.write_table(pa.table({"who": [1], "a": [9], "b": [0]}), tmp_path / "t" / "part-2.parquet")
    monkeypatch.setattr("understudy.data.arrow.threads", lambda: 3)
    with pytest.raises(DataError, match="'a'"):
        ArrowTable(tmp_path / "t", SCHEMA)
    handed: list[int] = []

    def work(items: Iterator[int]) -> None:
        for item in items:
            handed.append(item)
            raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        in_threads(work, iter(range(1000)), threads=3)
    assert len(handed) <= 3


@pytest.mark.parametrize("setting", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_is_none_is_refused(tmp_path, monkeypatch, setting):
    visits(tmp_path / "t", 10)
    monkeypatch.setenv("UNDERSTUDY_THREADS", setting)
    with pytest.raises(DataError, match="UNDERSTUDY_THREADS"):
        ArrowTable(tmp_path / "t", SCHEMA)


# -- nothing is left behind ---------------------------------------------------------------------------


def test_no_file_has_a_name_while_a_table_is_cut(tmp_path, monkeypatch):
    visits(tmp_path / "t")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    seen: list[list[Path]] = []
    original = spool._Buckets.add

    def add(self: Any, *given: Any) -> None:
        original(self, *given)
        seen.append(list(scratch.iterdir()))

    monkeypatch.setattr(spool._Buckets, "add", add)
    table = ArrowTable(tmp_path / "t", SCHEMA, id_column="who").truncated("who", 2, key_of(0))
    assert seen
    assert seen == [[]] * len(seen)
    assert list(scratch.iterdir()) == []
    assert table.count(()) == table.exact_row_count()


def test_a_full_disk_ends_in_advice_without_records(tmp_path, monkeypatch):
    visits(tmp_path / "t")
    table = ArrowTable(tmp_path / "t", SCHEMA, id_column="who")

    def full(*given: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(DataError, match=r"No space left on device.*TMPDIR") as caught:
            table.truncated("who", 2, key_of(0))
    assert caught.value.__context__ is None
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 100})())
        with pytest.raises(DataError, match="has less room"):
            table.truncated("who", 2, key_of(0))
    assert table.truncated("who", 2, key_of(0)).exact_row_count() > 0


# -- going on after the end of a process ---------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


STEPS = {
    "dealing": (spool._Buckets, "add"),
    "choosing": (spool.KeptRows, "add"),
    "counting": (MarginalCounter, "add"),
}


def interrupted(patch: pytest.MonkeyPatch, step: str, after: int, action: Any) -> None:
    """End in a step after so many calls."""
    place, name = STEPS[step]
    original, left = getattr(place, name), {"calls": after}

    def call(self: Any, *given: Any, **named: Any) -> Any:
        if left["calls"] == 0:
            raise Killed
        left["calls"] -= 1
        return original(self, *given, **named)

    with patch.context() as inside:
        inside.setattr(place, name, call)
        with pytest.raises(Killed):
            action()
    gc.collect()  # what a process that ended would hold no longer


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_a_cut_table_goes_on_with_the_key_it_began_with(tmp_path, monkeypatch, step, threads):
    frame = visits(tmp_path / "t", 600)
    kept = tmp_path / "private"
    tiny(monkeypatch)
    monkeypatch.setattr(checkpoints, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr("understudy.data.arrow.threads", lambda: threads)
    monkeypatch.setattr("understudy.data.arrow.BATCH_ROWS", 50)

    def count(seed: int) -> list[Any]:
        table = ArrowTable(tmp_path / "t", SCHEMA, id_column="who", checkpoint=kept)
        return table.truncated("who", 3, key_of(seed)).count_many(CLIQUES)

    interrupted(monkeypatch, step, 5, lambda: count(1))
    interrupted(monkeypatch, step, 1, lambda: count(2))
    names = {path.name for path in kept.iterdir()}
    assert {"checking", "persons-3"} <= names
    assert kept.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}
    assert (f"{'rows' if step == 'dealing' else 'kept'}-3") in names
    same(
        count(3),
        read_table(frame, SCHEMA, id_column="who").truncated("who", 3, key_of(1)).count_many(CLIQUES),
    )
    assert list(kept.iterdir()) == []


def test_work_that_was_done_is_not_done_again(tmp_path, monkeypatch):
    visits(tmp_path / "t", 600)
    kept = tmp_path / "private"
    monkeypatch.setattr(checkpoints, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr("understudy.data.arrow.BATCH_ROWS", 50)

    def cut_table() -> ArrowTable:
        return ArrowTable(tmp_path / "t", SCHEMA, id_column="who", checkpoint=kept).truncated(
            "who", 3, key_of(0)
        )

    interrupted(monkeypatch, "counting", 4, lambda: cut_table().count_many(CLIQUES))
    read: list[Any] = []
    monkeypatch.setattr("understudy.data.arrow.pieces_from", lambda *given: read.append(given) or iter(()))
    added: list[int] = []
    original = MarginalCounter.add
    monkeypatch.setattr(MarginalCounter, "add", lambda self, codes, rows: (added.append(rows), original(self, codes, rows=rows)))  # fmt: skip
    table = cut_table()
    table.count_many(CLIQUES)
    assert read == []
    assert 0 < sum(added) < table.exact_row_count()


@pytest.mark.parametrize("change", ["files", "max_rows", "schema", "id", "damage"])
def test_another_table_or_unit_begins_with_its_own_key(tmp_path, monkeypatch, change):
    frame = visits(tmp_path / "t", 600)
    frame["other"] = frame["who"]
    for number in range(4):
        part = pa.Table.from_pandas(frame.iloc[number::4], preserve_index=False)
        pq.write_table(part, tmp_path / "t" / f"part-{number}.parquet", row_group_size=64)
    kept = tmp_path / "private"
    tiny(monkeypatch)
    monkeypatch.setattr(checkpoints, "SAVE_SECONDS", 0.0)

    def count(seed: int, max_rows: int = 3, schema: Any = SCHEMA, by: str = "who") -> list[Any]:
        table = ArrowTable(tmp_path / "t", schema, id_column=by, checkpoint=kept)
        return table.truncated(by, max_rows, key_of(seed)).count_many([("a",), ()])

    interrupted(monkeypatch, "choosing", 5, lambda: count(1))
    schema, max_rows, by, seed = SCHEMA, 3, "who", 2
    if change == "files":
        part = pa.Table.from_pandas(frame.iloc[0::4], preserve_index=False)
        pq.write_table(part, tmp_path / "t" / "part-0.parquet", row_group_size=64)
    elif change == "max_rows":
        max_rows = 2
    elif change == "schema":
        schema = code_schema({"a": 3})
    elif change == "id":
        by = "other"
    else:
        (kept / "rows-3").write_bytes(b"")  # the key is still good, and the rows are dealt out again
        seed = 1
    found = count(2, max_rows, schema, by)
    wanted = (
        read_table(frame, schema, id_column=by).truncated(by, max_rows, key_of(seed)).count_many([("a",), ()])
    )
    same(found, wanted)
    assert list(kept.iterdir()) == []


def test_one_process_at_a_time_cuts_in_a_folder(tmp_path):
    visits(tmp_path / "t", 600)
    kept = tmp_path / "private"
    first = ArrowTable(tmp_path / "t", SCHEMA, id_column="who", checkpoint=kept)
    cut_first = first.truncated("who", 3, key_of(0))
    with pytest.raises(DataError, match="Another process"):
        ArrowTable(tmp_path / "t", SCHEMA, id_column="who", checkpoint=kept).truncated("who", 3, key_of(0))
    again = first.truncated(
        "who", 3, key_of(5)
    )  # the same table is cut again: the first goes on without a name
    same(again.count_many(CLIQUES), cut_first.count_many(CLIQUES))
    assert list(kept.iterdir()) == []


def test_rows_open_to_others_are_refused(tmp_path):
    visits(tmp_path / "t", 600)
    kept = tmp_path / "private"
    kept.mkdir(mode=0o700)
    (kept / "rows-3").write_bytes(b"")
    (kept / "rows-3").chmod(0o644)
    with pytest.raises(DataError, match="open to other users"):
        ArrowTable(tmp_path / "t", SCHEMA, id_column="who", checkpoint=kept).truncated("who", 3, key_of(0))


CHILD = """
    import json, os, secrets, sys, time
    from pathlib import Path
    sys.path.insert(0, sys.argv[3])
    import numpy as np
    from data_support import code_schema
    from understudy.data import ArrowTable
    from understudy.data.counting import encode
    from understudy.data.files import checkpoint, spool
    from understudy.data.counting.counting import MarginalCounter

    checkpoint.SAVE_SECONDS = 0.0
    spool.LEAF_ROWS, spool.LEAF_MOST, spool.SEGMENT_ROWS, spool.ROWS_AT_ONCE = 64, 128, 4, 50
    slow = lambda function: lambda *given, **named: (time.sleep(0.004), function(*given, **named))[1]
    spool._Buckets.add, spool.KeptRows.add, MarginalCounter.add = map(slow, (spool._Buckets.add, spool.KeptRows.add, MarginalCounter.add))
    table = ArrowTable(Path(sys.argv[1]), code_schema({"a": 3, "b": 300}), id_column="who", checkpoint=Path(sys.argv[2]))
    print("ready", flush=True)
    found = table.truncated("who", 3, secrets.token_bytes(32)).count_many([("a",), ("b",), ("a", "b"), ()])
    print(json.dumps([counts.tolist() for counts in found]), flush=True)
"""


def test_processes_that_are_killed_are_gone_on_with(tmp_path):
    """SIGKILL at a random instant, again and again, until one comes through: the counts are those of the key that the first of them drew."""
    import json

    frame = visits(tmp_path / "t", 600)
    kept = tmp_path / "private"
    rng = np.random.default_rng(int.from_bytes(os.urandom(4)))
    first: bytes | None = None
    for attempt in range(40):
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(CHILD),
                str(tmp_path / "t"),
                str(kept),
                str(Path(__file__).parent),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        if attempt < 4:
            time.sleep(float(rng.uniform(0.0, 0.5)))
            child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
        child.stdout.close()
        code = child.wait()
        if (kept / "persons-3").exists():
            body = (kept / "persons-3").read_bytes()
            assert first is None or body[-32:] == first, "another key took the place of the first"
            first = body[-32:]
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert code == 0
    assert list(kept.iterdir()) == []
    if first is not None:  # else the first process came through, or was killed before it drew
        wanted = read_table(frame, SCHEMA, id_column="who").truncated("who", 3, first).count_many(CLIQUES)
        same([np.array(counts) for counts in json.loads(rest)], wanted)
