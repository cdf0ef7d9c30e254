"""Writing frames: three formats, and an existing file that survives every failure."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time

import pandas as pd
import pytest

from understudy.data import check_output_format, write_frame
from understudy.errors import OutputError

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x,y", 'quote " é']})
NAMES = ["t.csv", "t.csv.gz", "t.parquet", "T.CSV"]


def read_back(path):
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_can_be_read_back_and_replaces_what_was_there(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"old")
    assert write_frame(FRAME, path) == path
    pd.testing.assert_frame_equal(read_back(path), FRAME)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", NAMES)
def test_equal_frames_give_equal_bytes(tmp_path, name, monkeypatch):
    first = write_frame(FRAME, tmp_path / name).read_bytes()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 1e6)
    (tmp_path / "sub").mkdir()
    assert write_frame(FRAME, tmp_path / "sub" / name).read_bytes() == first


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "t.csv", tmp_path / "link.csv"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_frame(FRAME, link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    pd.testing.assert_frame_equal(read_back(path), FRAME)


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.gz", "csv"])
def test_unknown_endings_are_refused_before_anything_is_written(tmp_path, name):
    for act in (lambda path: write_frame(FRAME, path), check_output_format):
        with pytest.raises(OutputError, match=r"Use \.csv, \.csv\.gz or \.parquet"):
            act(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_absent_folders_and_folders_in_the_way_are_refused(tmp_path):
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(OutputError, match="does not exist"):
        write_frame(FRAME, tmp_path / "absent" / "t.csv")
    with pytest.raises(OutputError, match="folder of that name"):
        write_frame(FRAME, tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "may not write"),
        (999, "refused"),
    ],
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, number, words, step):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def fail(*arguments, **options):
        raise OSError(number, "system text")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OutputError, match=words):
        write_frame(FRAME, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_real_limit_on_file_size_leaves_the_old_file(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")
    script = (
        "import resource, signal, sys, numpy as np, pandas as pd\n"
        "from understudy.data import write_frame\n"
        "from understudy.errors import OutputError\n"
        "import pyarrow.parquet\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "frame = pd.DataFrame({'a': np.random.default_rng(0).random(50_000)})\n"
        "try:\n    write_frame(frame, sys.argv[1])\n"
        "except OutputError as error:\n    print('refused:', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert "refused:" in done.stdout, done.stderr
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_csv", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_frame(FRAME, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_column_parquet_cannot_hold_is_refused(tmp_path):
    with pytest.raises(OutputError, match="Write CSV instead"):
        write_frame(pd.DataFrame({"a": [1, "x", None]}), tmp_path / "t.parquet")
