"""Shared fixtures: seeds for simulated tables, and the benchmark tables where they exist."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

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
