"""Shared fixtures: seeds for simulated tables, and the benchmark tables where they exist."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that asks for ``seed`` one fixed seed, or a range set by UNDERSTUDY_SEEDS=20."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(int(os.environ.get("UNDERSTUDY_SEEDS", "1"))))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real benchmark tables; tests that use it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the benchmark tables are not beside this checkout (../shared/data)")
    return SHARED
