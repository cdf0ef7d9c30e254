"""The folder of a checkpoint of Spark, without a Spark: what is gone on with, what is not, what is removed."""

from __future__ import annotations

import gc
import hashlib

import numpy as np
import pytest

from understudy.data.counting.counting import MarginalCounter
from understudy.data.sql import saved as saved_module
from understudy.data.sql.saved import SavedWork
from understudy.errors import DataError
from understudy.schema import Domain

DOMAIN = Domain(("a", "b"), (3, 300))
KEY = bytes(range(32))


def counter(rows=0):
    made = MarginalCounter(DOMAIN, [("a",), ("a", "b")])
    if rows:
        made.add({"a": np.zeros(rows, np.uint8), "b": np.arange(rows).astype(np.uint16)})
    return made


def test_counts_go_on_with_equal_facts_alone(tmp_path):
    """Caught: counts of other files, questions or versions that are added to."""
    work = SavedWork(tmp_path / "private", ("schema", "files"))
    saved, done = work.counts("counting-0", counter(), "columns")
    assert done == 0
    work.keep_counts(saved, counter(7), 4)
    again = counter()
    assert work.counts("counting-0", again, "columns")[1] == 4
    assert again.rows == 7
    for one, two in zip(again.counts(), counter(7).counts(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert work.counts("counting-0", counter(), "other columns")[1] == 0
    assert work.counts("counting-1", counter(), "columns")[1] == 0
    assert work.counts("counting-0", MarginalCounter(DOMAIN, [("b",)]), "columns")[1] == 0
    work.close()
    other = SavedWork(tmp_path / "private", ("schema", "other files"))
    assert other.counts("counting-0", counter(), "columns")[1] == 0


def test_the_first_key_stays_and_is_written_over_in_the_end(tmp_path):
    work = SavedWork(tmp_path / "private", ())
    assert work.key("who", 3, KEY) == KEY
    assert work.key("who", 3, bytes(32)) == KEY
    assert work.key("who", 2, bytes(32)) == bytes(32)
    file = tmp_path / "private" / "persons-3"
    assert file.stat().st_mode & 0o777 == 0o600
    other_name = tmp_path / "kept"
    other_name.hardlink_to(file)  # the bytes on the disk, beside their name
    assert other_name.read_bytes()[-32:] == KEY
    work.forget()
    assert not file.exists()
    assert set(other_name.read_bytes()) == {0}


def test_rows_of_persons_stay_until_they_are_counted(tmp_path):
    """Caught: rows that a process which was killed left behind, and rows that are removed while they are still of use."""
    folder = tmp_path / "private"
    facts = ("who", hashlib.sha256(KEY).hexdigest())
    work = SavedWork(folder, ())
    place, number = work.place(3)
    place.mkdir()
    work.sweep()  # nothing speaks of them: they are not all there
    assert not place.exists()
    place.mkdir()
    work.keep_chosen(3, 17, number, *facts)
    work.sweep()
    assert work.chosen(3, *facts) == (place, 17)
    assert work.chosen(3, "who", "another key") is None
    assert work.chosen(2, *facts) is None
    work.close()  # an end in good order, before they were counted
    assert place.exists()
    work = SavedWork(folder, ())
    assert work.chosen(3, *facts) == (place, 17)
    work.forget()
    assert place.exists(), "the table may be asked again"
    del work
    gc.collect()
    assert list(folder.iterdir()) == []


def test_one_at_a_time_in_a_folder_of_ones_own(tmp_path):
    folder = tmp_path / "private"
    work = SavedWork(folder, ())
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(DataError, match="at work"):
        SavedWork(folder, ())
    work.close()
    SavedWork(folder, ()).close()
    folder.chmod(0o755)
    with pytest.raises(DataError, match="open to other users"):
        SavedWork(folder, ())


def test_files_are_counted_in_portions_that_grow_with_the_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_module, "PORTION_BYTES", 10)
    files = [tmp_path / f"{number}.parquet" for number in range(5)]
    for file in files:
        file.write_bytes(bytes(6))
    assert SavedWork.portion(files, 1) == files[:2]
    assert SavedWork.portion(files, 2) == files[:4]
    assert SavedWork.portion(files, 100) == files
    files[0].write_bytes(bytes(1000))
    assert SavedWork.portion(files, 1) == files[:1]
