"""Counts of Spark that go on after the end of the driver: the counts of one run, whatever ended the runs before, and nothing private left behind."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services import missing_spark

from understudy.data import Database, Preparation, SparkTable, read_table
from understudy.data.sql import saved as saved_module
from understudy.data.sql.engines import SparkSession_
from understudy.data.sql.saved import SavedWork
from understudy.errors import DataError
from understudy.schema import Categorical, Constraint, Integer, Schema

pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

SCHEMA = Schema(
    columns=(
        Integer("a", minimum=0, maximum=9),
        Integer("b", minimum=0, maximum=299),
        Categorical("year", values=("2020", "2021")),
    )
)
CLIQUES = [(), ("a",), ("b", "year"), ("a", "b")]
FILES = 5
NAMES = ("0", "1", "[0]", "{1}", "4")
KEY, OTHER_KEY = bytes(range(32)), bytes(32)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A folder of several files with a column in the names of folders, all counted one at a time; blanks and signs in its name, and patterns in those of files."""
    monkeypatch.setattr(saved_module, "PORTION_BYTES", 1)
    place = tmp_path / "t %20 é"
    for number in range(FILES):
        generator = np.random.default_rng(number)
        rows = 40 + number
        folder = place / f"year={2020 + number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        records = {
            "who": [f"p{person}" for person in generator.integers(0, 30, rows)],
            "a": generator.integers(0, 10, rows),
            "b": generator.integers(0, 300, rows),
        }
        pq.write_table(pa.table(records), folder / f"part-{NAMES[number]}.parquet")
    return place


@pytest.fixture
def read(monkeypatch):
    """The names of the files that were read by themselves, in order."""
    names, original = [], SparkSession_.of_files

    def watched(self, files):
        names.extend(file.name for file in files)
        return original(self, files)

    monkeypatch.setattr(SparkSession_, "of_files", watched)
    return names


def on_spark(spark, table, kept, **words):
    return read_table(Database(url=spark, table=f"{table}/"), SCHEMA, checkpoint=kept, **words)


def same(found, expected):
    for one, two in zip(found, expected, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)


class Killed(BaseException):
    """The process ends here."""


def killed(patch, name, number, action):
    """End after the numberth call of a method of `SavedWork`."""
    original, calls = getattr(SavedWork, name), []

    def struck(self, *given):
        found = original(self, *given)
        calls.append(name)
        if len(calls) == number:
            raise Killed
        return found

    with patch.context() as inside:
        inside.setattr(SavedWork, name, struck)
        with pytest.raises(Killed):
            action()
    gc.collect()  # what a process that ended would hold no longer


@pytest.mark.parametrize("prepare", [None, Preparation(rules=(Constraint.parse("a > 2", SCHEMA),))])
def test_some_files_after_others_are_counted_as_all_at_once(spark, table, read, tmp_path, prepare):
    kept = tmp_path / "private"
    found = on_spark(spark, table, kept, prepare=prepare)
    expected = read_table(table, SCHEMA, prepare=prepare)
    same(found.count_many(CLIQUES), expected.count_many(CLIQUES))
    assert read == 2 * [
        f"part-{name}.parquet" for name in ("0", "4", "[0]", "1", "{1}")
    ]  # checked and counted, in the order of paths
    same(found.count_many(CLIQUES[:2]), expected.count_many(CLIQUES[:2]))
    del found
    gc.collect()
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize(
    ("points", "left"),
    [((2,), 3 + FILES), ((FILES + 2,), 3), ((1, 2, FILES - 1), 3)],
    ids=["checking", "counting", "again and again"],
)
def test_a_count_goes_on_after_the_files_that_it_holds(
    spark, table, read, tmp_path, monkeypatch, points, left
):
    """Caught: files that are counted twice, or not at all, by the runs together."""
    kept = tmp_path / "private"
    for point in points:
        killed(
            monkeypatch,
            "keep_counts",
            point,
            lambda: on_spark(spark, table, kept).count_many(CLIQUES),
        )
        assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}
    read.clear()
    same(on_spark(spark, table, kept).count_many(CLIQUES), read_table(table, SCHEMA).count_many(CLIQUES))
    assert len(read) == left
    gc.collect()
    assert list(kept.iterdir()) == []


def test_a_table_that_is_another_one_is_counted_from_the_start(spark, table, read, tmp_path, monkeypatch):
    kept = tmp_path / "private"
    killed(monkeypatch, "keep_counts", FILES + 3, lambda: on_spark(spark, table, kept).count_many(CLIQUES))
    first = sorted(table.rglob("*.parquet"))[0]
    pq.write_table(pq.read_table(first, partitioning=None).slice(1), first)
    read.clear()
    same(on_spark(spark, table, kept).count_many(CLIQUES), read_table(table, SCHEMA).count_many(CLIQUES))
    assert len(read) == 2 * FILES


@pytest.mark.parametrize("point", ["key", "place", "keep_chosen", "forget"])
def test_rows_of_persons_are_those_of_the_first_key(spark, table, tmp_path, monkeypatch, point):
    """Killed when the key is kept, before and after the rows that stay are all there, and when everything is counted."""
    kept = tmp_path / "private"

    def count(key):
        return on_spark(spark, table, kept, id_column="who").truncated("who", 2, key).count_many(CLIQUES)

    local = read_table(table, SCHEMA, id_column="who")
    expected = {key: local.truncated("who", 2, key).count_many(CLIQUES) for key in (KEY, OTHER_KEY)}
    assert any((one != two).any() for one, two in zip(expected[KEY], expected[OTHER_KEY], strict=True))
    killed(monkeypatch, point, 1, lambda: count(KEY))
    with monkeypatch.context() as patch:
        if point == "keep_chosen":  # nothing is sorted or chosen again
            patch.setattr(SparkTable, "_write", lambda *_: pytest.fail("chosen again"))
        same(count(OTHER_KEY), expected[OTHER_KEY if point == "forget" else KEY])
    gc.collect()
    assert list(kept.iterdir()) == []


def test_rows_that_were_written_answer_again_and_again(spark, table, tmp_path, monkeypatch):
    kept = tmp_path / "private"
    killed(
        monkeypatch,
        "keep_chosen",
        1,
        lambda: on_spark(spark, table, kept, id_column="who").truncated("who", 2, KEY),
    )
    expected = read_table(table, SCHEMA, id_column="who").truncated("who", 2, KEY)
    found = on_spark(spark, table, kept, id_column="who").truncated("who", 2, OTHER_KEY)
    for asked in (CLIQUES, CLIQUES[:2]):
        same(found.count_many(asked), expected.count_many(asked))
    same(found.distinct(SCHEMA.names), expected.distinct(SCHEMA.names))


def test_what_cannot_be_gone_on_with_is_refused(spark, table, tmp_path, monkeypatch):
    from pyspark.sql import SparkSession

    SparkSession.getActiveSession().read.parquet(str(table)).createOrReplaceTempView("a_view")
    with pytest.raises(DataError, match="needs Parquet files"):
        read_table(
            Database(url=spark, table="a_view", immutable=True), SCHEMA, checkpoint=tmp_path / "private"
        )
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(DataError, match="open to other users"):
        on_spark(spark, table, tmp_path / "open")
    held = on_spark(spark, table, tmp_path / "held")
    with pytest.raises(DataError, match="at work"):
        on_spark(spark, table, tmp_path / "held")
    del held
    gc.collect()
    # executors whose disks are their own: they write, and nothing arrives here
    with monkeypatch.context() as patch:
        patch.setattr(pq, "read_metadata", lambda _: pytest.fail("nothing to read"))
        patch.setattr(Path, "glob", lambda *_: iter(()))
        with pytest.raises(DataError, match="same path as this process"):
            on_spark(spark, table, tmp_path / "far", id_column="who").truncated("who", 2, KEY)
    first = sorted(table.rglob("*.parquet"))[0]
    first.rename(first.with_suffix(".parq"))  # Spark reads it, and nobody here would notice that it changes
    with pytest.raises(DataError, match="needs Parquet files"):
        on_spark(spark, table, tmp_path / "private")


PROGRAM = """
    import json, os, signal, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[5])
    from test_spark_checkpoint import CLIQUES, SCHEMA
    from understudy.data import Database, read_table
    from understudy.data.sql import saved

    saved.PORTION_BYTES = 1
    original, calls, point = saved.SavedWork.keep_counts, [], int(sys.argv[4])

    def struck(self, *given):
        original(self, *given)
        calls.append(1)
        if len(calls) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    saved.SavedWork.keep_counts = struck
    source = Database(url="local[2]", table=sys.argv[1] + "/")
    table = read_table(source, SCHEMA, checkpoint=Path(sys.argv[2]), id_column="who" if sys.argv[3] else None)
    if sys.argv[3]:
        table = table.truncated("who", 2, bytes.fromhex(sys.argv[3]))
        if point:
            os.kill(os.getpid(), signal.SIGKILL)
    found = [counts.tolist() for counts in table.count_many(CLIQUES)]
    print(json.dumps([len(calls), found]))
    del table
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "left"), [(("", ""), 3), ((KEY.hex(), OTHER_KEY.hex()), 0)], ids=["rows", "persons"]
)
def test_a_driver_that_is_killed_is_gone_on_with_by_another(table, tmp_path, keys, left):
    """SIGKILL of the driver while files are counted, or when the rows of persons were chosen; a new process with a new Spark goes on."""
    if missing_spark():
        pytest.skip(missing_spark())
    kept = tmp_path / "private"

    def run(key, point):
        words = [str(table), str(kept), key, str(point), str(Path(__file__).parent)]
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), *words],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    assert run(keys[0], FILES + 2).returncode == -signal.SIGKILL
    assert any(path.name.startswith(("counting", "chosen")) for path in kept.iterdir())
    done = run(keys[1], 0)
    assert done.returncode == 0, done.stderr[-3000:]
    calls, counts = json.loads(done.stdout.strip().splitlines()[-1])
    assert calls == left
    expected = read_table(table, SCHEMA, id_column="who" if keys[0] else None)
    if keys[0]:
        expected = expected.truncated("who", 2, KEY)
    same([np.array(found) for found in counts], expected.count_many(CLIQUES))
    assert list(kept.iterdir()) == []
