"""The decorator of compiled loops: a cache that cannot be used is no reason to fail."""

from __future__ import annotations

import gc
import importlib.util
import math
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core import caching, config, event
from numba.core.compiler import Flags
from numba.core.errors import NumbaError, TypingError

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


def test_kernels_that_were_kept_are_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image: kept while it was built, read-only when it is used. Numba alone would compile in memory."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    assert loaded(tmp_path).double(4) == 8
    kept = {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*.nb?")}

    def unwritable(*given: Any, **options: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(caching.tempfile, "TemporaryFile", unwritable)
    monkeypatch.setattr(caching.IndexDataCacheFile, "_open_for_write", unwritable)
    again = loaded(tmp_path).double
    assert again(4) == 8
    assert sum(again.stats.cache_hits.values()) == 1
    assert again(0.5) == 1.0, "another type is compiled in memory"
    assert again(4) == 8
    assert kept == {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*.nb?")}


def test_an_inner_function_is_compiled_into_what_calls_it_and_kept_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    source = """
from understudy._compile import compiled, inner

@inner()
def third(x):
    if x == 0.0:
        raise ValueError("zero")
    return x / 3.0

@inner()
def ninth(x):
    return third(third(x))

@compiled()
def reciprocal(x):
    return 1.0 / ninth(x)
"""
    monkeypatch.setitem(globals(), "SOURCE", source)
    for hits in (0, 1):
        module = loaded(tmp_path)
        assert module.reciprocal(9.0) == 1.0
        assert sum(module.reciprocal.stats.cache_hits.values()) == hits
        with pytest.raises(ValueError, match="zero"):
            module.reciprocal(0.0)
    assert len(list((tmp_path / "cache").rglob("*.nbi"))) == 1, "the inner ones are in there"


def test_garbage_is_collected_again_after_compiling() -> None:
    def broken(x):  # type: ignore[no-untyped-def]
        return x.nothing

    assert gc.isenabled()
    with pytest.raises(TypingError):
        _compile.compiled()(broken)(1)
    assert gc.isenabled()


def test_settings_are_compared_as_numba_compares_them() -> None:
    plain, quick = Flags(), _compile._Settings()
    assert plain == quick
    assert hash(plain) == hash(quick)
    quick.error_model = "python"
    assert quick == Flags(), "a default that was set is a default"
    for name, value in {"error_model": "numpy", "fastmath": True, "nrt": True, "release_gil": True}.items():
        first, second, other = Flags(), _compile._Settings(), _compile._Settings()
        setattr(first, name, value)
        setattr(second, name, value)
        assert first == second
        assert second == first
        assert other != first
        assert first != other
        assert second != other


def test_kernels_of_like_settings_share_what_they_call_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught: types or code found for one kernel and used for another that asked for different arithmetic."""

    def first(n):  # type: ignore[no-untyped-def]
        return np.empty(n, np.float32).size / n

    def second(n):  # type: ignore[no-untyped-def]
        return np.empty(n, np.float32).size / (n - n)

    def third(n):  # type: ignore[no-untyped-def]
        return np.empty(n, np.float32).size / (n - n)

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    compiled = []

    class Watch(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            compiled.append(event.data["dispatcher"].py_func.__qualname__)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Watch()):
        assert _compile.compiled()(first)(4) == 1.0
        before = len(compiled)
        with pytest.raises(ZeroDivisionError):
            _compile.compiled(nogil=True)(second)(4)
        assert compiled[before:] == [second.__qualname__], "np.empty was compiled already"
        assert math.isinf(_compile.compiled(error_model="numpy")(third)(4))


def test_a_function_inside_a_kernel_is_refused() -> None:
    def outer(x):  # type: ignore[no-untyped-def]
        def inside(y):  # type: ignore[no-untyped-def]
            return y + x

        return inside(2)

    with pytest.raises(NumbaError):
        _compile.compiled()(outer)(1)
