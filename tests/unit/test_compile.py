"""The decorator of compiled loops: a cache that cannot be used is no reason to fail."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numba.core import config

from understudy import _compile

SOURCE = """
from understudy._compile import compiled

@compiled()
def double(x):
    return 2 * x
"""


def loaded(folder: Path) -> ModuleType:
    path = folder / "doubling.py"
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("doubling", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_was_compiled_is_kept_for_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    first = loaded(tmp_path).double
    assert first(4) == 8
    assert list((tmp_path / "cache").rglob("*.nbi"))
    again = loaded(tmp_path).double
    assert again(4) == 8
    assert sum(again.stats.cache_hits.values()) == 1


def test_no_folder_to_keep_it_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "__pycache__").write_text("")
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    double = loaded(tmp_path).double
    assert double(4) == 8
    assert double.stats.cache_path is None


@pytest.mark.parametrize(
    "error", [PermissionError(13, "no"), OSError(28, "full"), EOFError(), pickle.UnpicklingError()]
)
@pytest.mark.parametrize("step", ["load", "save"])
def test_a_folder_that_fails_later(
    step: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read-only after the import, a full disk, a file cut short, a file of another user."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))

    def fails(self: Any, *given: Any) -> None:
        raise error

    monkeypatch.setattr(_compile.FunctionCache, f"_{step}_overload", fails)
    double = loaded(tmp_path).double
    assert double(4) == 8
    assert double(0.5) == 1.0, "and goes on without"
