"""Tables on disk: many files, changes between scans, disks that hiccup, counts that survive their process."""

from __future__ import annotations

import errno
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from understudy.data import ArrowTable, LocalTable, Preparation, read_table
from understudy.data.files import checkpoint as checkpoints
from understudy.data.files import dataset as datasets
from understudy.data.files import stream as pace
from understudy.errors import DataError
from understudy.schema import Categorical, Constraint, Integer, Schema

SCHEMA = Schema(
    columns=(
        Categorical("year", values=("2023", "2024")),
        Integer("age", minimum=0, maximum=19),
        Categorical("ward", values=("n", "s", "w")),
    )
)
CLIQUES = [*combinations(SCHEMA.names, 2), ("age",), ()]


def write_folder(folder: Path, rows: int = 3_000, seed: int = 0) -> pd.DataFrame:
    """Hive partitions, several files each, several row groups each, zstd."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "year": generator.choice(["2023", "2024"], rows),
            "age": generator.integers(0, 20, rows),
            "ward": generator.choice(["n", "s", "w"], rows),
        }
    )
    for year, part in frame.groupby("year"):
        for number in range(3):
            piece = part.drop(columns="year").iloc[number::3]
            target = folder / f"year={year}" / f"part-{number}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            table = pa.Table.from_pandas(piece, preserve_index=False)
            pq.write_table(table, target, compression="zstd", row_group_size=128)
    return frame


def same(found: list[Any], frame: pd.DataFrame) -> None:
    expected = LocalTable(SCHEMA, SCHEMA.encode_frame(frame)).count_many(CLIQUES)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_partitions_of_zstd_files_are_counted_like_a_frame(tmp_path: Path) -> None:
    frame = write_folder(tmp_path / "t")
    same(ArrowTable(tmp_path / "t", SCHEMA).count_many(CLIQUES), frame)


@pytest.mark.parametrize("change", ["added", "removed", "grown", "replaced", "touched"])
def test_a_folder_that_changes_between_scans_is_noticed(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "t"
    write_folder(folder)
    table = ArrowTable(folder, SCHEMA)
    table.count(("age",))
    file = folder / "year=2023" / "part-0.parquet"
    facts = file.stat()
    if change == "added":
        (folder / "year=2023" / "part-9.parquet").write_bytes(file.read_bytes())
    elif change == "removed":
        file.unlink()
    elif change == "grown":
        pq.write_table(pa.table({"age": [1] * 900, "ward": ["n"] * 900}), file)
    elif change == "replaced":  # same size and time, another file
        body = file.read_bytes()
        other = tmp_path / "other"
        other.write_bytes(body)
        os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        other.replace(file)
    else:
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    with pytest.raises(DataError, match=r"changed while it was in use|no file") as caught:
        table.count_many(CLIQUES)
    assert not any(letter.isdigit() for letter in str(caught.value))


def test_a_change_during_the_scan_is_noticed_before_counts_leave_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_folder(folder)
    table = ArrowTable(folder, SCHEMA)
    said: list[str] = []

    def meddle(words: str, fraction: float) -> None:
        if not said:
            file = folder / "year=2024" / "late.parquet"
            pq.write_table(pa.table({"age": [1], "ward": ["n"]}), file)
        said.append(words)

    table._watch = meddle
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "TELL_SECONDS", 0.0)
        with pytest.raises(DataError, match="changed while it was in use"):
            table.count_many(CLIQUES)
    assert said


def test_a_remote_file_system_is_watched_too(tmp_path: Path) -> None:
    write_folder(tmp_path / "t")
    base = fs.SubTreeFileSystem(
        str(tmp_path), fs.LocalFileSystem()
    )  # its paths are not paths of this machine
    stream = datasets.DatasetStream(
        pads.dataset("t", filesystem=base, format="parquet"), ["age", "ward"], label="remote"
    )
    assert stream._paths == []
    before = stream.stamp()
    assert before
    file = tmp_path / "t" / "year=2023" / "part-0.parquet"
    facts = file.stat()
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns + 5_000))
    assert stream.stamp() != before


def failing_scan(times: int, error: OSError, after: int = 1) -> Any:
    """Return a scan that fails ``times`` times, each time after so many batches."""
    original = datasets.DatasetStream._scan
    left = {"times": times}

    def scan(self: Any, part: Any, columns: list[str]) -> Any:
        for number, batch in enumerate(original(self, part, columns)):
            for start in range(0, batch.num_rows, 50):  # small batches, so that a part arrives in pieces
                yield batch.slice(start, 50)
                if left["times"] and number + start // 50 >= after:
                    left["times"] -= 1
                    raise error
        return

    return scan


def test_a_disk_that_hiccups_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = write_folder(tmp_path / "t")
    table = ArrowTable(tmp_path / "t", SCHEMA)
    monkeypatch.setattr(datasets, "WAITS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(
        datasets.DatasetStream, "_scan", failing_scan(3, OSError(errno.EIO, "Input/output error"))
    )
    same(table.count_many(CLIQUES), frame)


@pytest.mark.parametrize(
    ("times", "error"),
    [(9, OSError(errno.EIO, "secret value 42")), (1, OSError("Couldn't deserialize thrift: secret 42"))],
    ids=["too often", "damaged"],
)
def test_errors_that_do_not_pass_end_the_count_without_a_word_of_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, error: OSError
) -> None:
    write_folder(tmp_path / "t")
    table = ArrowTable(tmp_path / "t", SCHEMA)
    monkeypatch.setattr(datasets, "WAITS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(datasets.DatasetStream, "_scan", failing_scan(times, error))
    with pytest.raises(DataError) as caught:
        table.count_many(CLIQUES)
    assert "42" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_rate_is_told_in_two_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, float]] = []
    clock = iter(range(10_000))
    monkeypatch.setattr(pace.time, "monotonic", lambda: float(next(clock)))
    meter = pace.Pace("counting", 3_000, lambda words, share: said.append((words, share)))
    for _ in range(3):
        meter.add(1_000)
    assert [share for _, share in said] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert said[0][0] == "counting, 500 rows/s"
    assert pace.rate(123_456_789) == "120 million rows/s"
    assert pace.rate(0.0) == "0 rows/s"


class Killed(BaseException):
    """The process ends here."""


def interrupt(table: ArrowTable, monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """Count until so many batches were added, saving after each, then end."""
    from understudy.data.counting.counting import MarginalCounter

    original = MarginalCounter.add
    left = {"batches": batches}

    def add(self: Any, *arguments: Any, **words: Any) -> None:
        if left["batches"] == 0:
            raise Killed
        left["batches"] -= 1
        original(self, *arguments, **words)

    with monkeypatch.context() as patch:
        patch.setattr(MarginalCounter, "add", add)
        with pytest.raises(Killed):
            table.count_many(CLIQUES)


def test_a_count_goes_on_after_its_process_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = write_folder(tmp_path / "t")
    kept = tmp_path / "private"
    monkeypatch.setattr(checkpoints, "SAVE_SECONDS", 0.0)
    interrupt(ArrowTable(tmp_path / "t", SCHEMA, checkpoint=kept), monkeypatch, 7)
    assert sorted(path.name for path in kept.iterdir()) == ["checking", "counting"]
    assert kept.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}

    seen: list[int] = []
    original = datasets.DatasetStream.pieces

    def spy(self: Any, columns: Any, rows: int = 0) -> Any:
        seen.append(rows)
        return original(self, columns, rows)

    monkeypatch.setattr(datasets.DatasetStream, "pieces", spy)
    same(ArrowTable(tmp_path / "t", SCHEMA, checkpoint=kept).count_many(CLIQUES), frame)
    assert len(seen) == 1  # the check was complete, and the count went on ...
    assert seen[0] >= 7 * 100  # ... after the batches that had been counted
    assert list(kept.iterdir()) == []


def test_counts_of_other_records_or_questions_are_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "t")
    kept = tmp_path / "private"
    monkeypatch.setattr(checkpoints, "SAVE_SECONDS", 0.0)
    interrupt(ArrowTable(tmp_path / "t", SCHEMA, checkpoint=kept), monkeypatch, 7)
    for year in ("2023", "2024"):
        for file in (tmp_path / "t" / f"year={year}").iterdir():
            file.unlink()
    frame = write_folder(tmp_path / "t", seed=1)
    table = ArrowTable(tmp_path / "t", SCHEMA, checkpoint=kept)
    interrupt(table, monkeypatch, 5)
    fewer = table.count_many([("age", "ward")])  # another question: from the start
    assert int(fewer[0].sum()) == len(frame)
    interrupt(table, monkeypatch, 5)
    body = (kept / "counting").read_bytes()
    (kept / "counting").write_bytes(body[:-8])  # cut off: from the start
    same(table.count_many(CLIQUES), frame)


def test_a_checkpoint_open_to_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "t")
    kept = tmp_path / "open"
    kept.mkdir(mode=0o755)
    with pytest.raises(DataError, match="open to other users"):
        ArrowTable(tmp_path / "t", SCHEMA, checkpoint=kept)
    kept.chmod(0o700)
    (kept / "checking").write_text("my diary")
    (kept / "checking").chmod(0o600)
    with pytest.raises(DataError, match="is left alone"):
        ArrowTable(tmp_path / "t", SCHEMA, checkpoint=kept)
    (kept / "checking").chmod(0o644)
    with pytest.raises(DataError, match="open to other users"):
        ArrowTable(tmp_path / "t", SCHEMA, checkpoint=kept)


def test_counts_that_another_run_could_not_go_on_with_are_not_kept(tmp_path: Path) -> None:
    """A prepared table may be prepared otherwise, and a CSV file has no row groups to go on with."""
    write_folder(tmp_path / "t")
    kept = tmp_path / "private"
    schema = SCHEMA.select(["age", "ward"])
    words: dict[str, Any] = {"max_memory_mb": 0, "checkpoint": kept}
    rule = Preparation(rules=(Constraint.parse("age > 3", schema),))
    with pytest.raises(DataError, match="no preparation"):
        read_table(tmp_path / "t", schema, prepare=rule, **words)
    pd.DataFrame({"age": [1], "ward": ["n"]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="no CSV"):
        read_table(tmp_path / "t.csv", schema, **words)
    assert not kept.exists()
