"""Shared fixtures: seeds for simulated tables, and the benchmark tables where they exist."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

# Ledgers, states and bundles are written through to the disk before anything goes on, thousands of times in this suite, and most of
# its time would be spent waiting for the disk. Files of tests lie in memory where there is room for them; `--basetemp` and TMPDIR
# name another folder. What reaches a disk when, and what a power cut leaves, is simulated by tests of its own.
_MEMORY = Path("/dev/shm")
_ROOM = 8 * 2**30


def _room_in_memory() -> bool:
    """Whether there is a file system in memory with room, in which programs may be run."""
    try:
        found = os.statvfs(_MEMORY)
        return not found.f_flag & os.ST_NOEXEC and shutil.disk_usage(_MEMORY).free >= _ROOM
    except (OSError, AttributeError):  # there is none, or this system does not know
        return False


if "TMPDIR" not in os.environ and _room_in_memory():
    _TEMPORARY = tempfile.TemporaryDirectory(prefix="understudy-tests-", dir=_MEMORY)  # gone at the end
    os.chmod(_TEMPORARY.name, 0o711)  # servers and containers of the tests run as other users
    os.environ["TMPDIR"] = _TEMPORARY.name  # for the workers of the suite and the commands that tests start
    tempfile.tempdir = _TEMPORARY.name

# What is remembered of tables and their ledgers goes to a folder of the tests, never to that of whoever runs them;
# subprocesses inherit it. Each test gets its own (below): the same small table has a fresh ledger in each of them.
_HOME = tempfile.TemporaryDirectory(prefix="understudy-tests-")
os.environ["UNDERSTUDY_HOME"] = _HOME.name

SHARED = Path(__file__).parents[2] / "shared" / "data"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that asks for ``seed`` one fixed seed, or a range set by UNDERSTUDY_SEEDS=20."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(int(os.environ.get("UNDERSTUDY_SEEDS", "1"))))


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test a folder of the user of its own."""
    monkeypatch.setenv("UNDERSTUDY_HOME", tempfile.mkdtemp(dir=_HOME.name))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real benchmark tables; tests that use it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the benchmark tables are not beside this checkout (../shared/data)")
    return SHARED
