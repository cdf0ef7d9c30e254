"""The one decorator of compiled loops: kept on disk where a folder can be written, compiled in memory otherwise.

Numba refuses to cache a function when neither the installation nor the user's cache folder can be written, and does so
when the module is imported; and it fails when a folder turns read-only, or a disk full, after that. A hardened container has
both. A cache saves time and must never decide whether a method works, so here it cannot.

A first run compiles everything, and that is kept short. Numba optimises each function by itself and makes machine code of it, and
then once more inside each function that calls it; what only other kernels call (`inner`) is spared that. Kernels are written
with loops: assigning an array to a slice, or asking NumPy for ones or a product, compiles far more than it says.
``python -m benchmarks compilation`` measures every kernel.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from numba._dynfunc import make_function
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

__all__ = ["compiled", "inner", "kept_at", "of_one_type"]

_UNUSABLE = (OSError, EOFError, pickle.PickleError)
"""What a cache folder that cannot be read or written, or a file cut short, raises."""


def _reading(locator: Any) -> Any:
    """Return a way to find a folder of kept kernels that can be read and not be written, as in an image; see ``understudy warm``."""

    def require_kept(self: Any) -> None:
        if next(Path(self.get_cache_path()).glob("*.nbi"), None) is None:
            raise FileNotFoundError("nothing was kept here")

    return type(f"Reading{locator.__name__}", (locator,), {"ensure_cache_path": require_kept})


class _Places(FunctionCache._impl_class):  # type: ignore[valid-type, misc]
    """Numba's places for kernels, each of which will also do if it holds kernels and takes no more."""

    _locator_classes = tuple(
        way for locator in FunctionCache._impl_class._locator_classes for way in (locator, _reading(locator))
    )


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, except that one which cannot be used is left alone from then on."""

    _impl_class = _Places
    _full = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what is kept for a signature, or None."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except _UNUSABLE:
            self.disable()  # type: ignore[no-untyped-call]
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if that is possible."""
        if self._full:
            return
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except _UNUSABLE:
            self._full = True  # what is there can still be read


_caches: list[_Cache] = []


def kept_at() -> tuple[Path, ...]:
    """Return the folders in which the kernels that were imported so far are kept; none where they are compiled in memory.

    Examples
    --------
    >>> all(folder.is_dir() for folder in kept_at())
    True
    """
    folders = {Path(cache.cache_path) for cache in _caches}
    return tuple(sorted(folder for folder in folders if next(folder.glob("*.nbi"), None) is not None))


class _Uncollected(event.Listener):  # type: ignore[misc]
    """Hold the garbage collector while something is compiled: it would go over everything that Numba makes, again and again."""

    def __init__(self) -> None:
        self.depth, self.collects = 0, False

    def on_start(self, event: Any) -> None:
        """Begin to compile a function."""
        if not self.depth:
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """End it, whether it went well or not."""
        self.depth -= 1
        if not self.depth and self.collects:
            gc.enable()


event.register("numba:compile", _Uncollected())  # type: ignore[no-untyped-call]


class _Unfinished(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that only other kernels call: linked into theirs and optimised there, once."""

    def _optimize_final_module(self) -> None:
        """Leave it to whoever calls the function."""

    def _finalize_final_module(self) -> None:
        """Make no machine code of it."""
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _InnerLowering(NativeLowering):  # type: ignore[misc]
    """Numba's last step, except that it ends with code to link: nothing is optimised or made executable."""

    _name = "understudy_inner_lowering"

    def run_pass(self, state: Any) -> bool:
        """Translate the typed function and register it for the kernels that call it."""
        state.library = _Unfinished(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.flags.no_compile = True
        super().run_pass(state)  # type: ignore[no-untyped-call]
        result, library = state["cr"], state.library
        library.finalize()
        name = result.fndesc.qualname.split(".")[-1]
        # a handle to know the function by; like any function without a wrapper it cannot be called from Python
        handle = make_function(result.fndesc.lookup_module(), name, "", 0, result.env, (library,))
        state.targetctx.insert_user_function(handle, result.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state["cr"] = result._replace(cfunc=handle)
        return True


class _InnerCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler with the last step exchanged."""

    def define_pipelines(self) -> Any:
        """Return the steps."""
        managers = super().define_pipelines()  # type: ignore[no-untyped-call]
        for manager in managers:
            manager.passes = [
                (_InnerLowering if step is NativeLowering else step, said) for step, said in manager.passes
            ]
            manager._finalized = False
            manager.finalize()
        return managers


def inner(**options: Any) -> Any:
    """Compile a function that only other kernels call: without what Python or C would call it by, in half the time.

    It has no cache of its own: what calls it is kept with it inside. Python must not call it; `compiled` makes what may.

    Examples
    --------
    >>> @inner()
    ... def half(x):
    ...     return x / 2
    >>> @compiled()
    ... def quarter(x):
    ...     return half(half(x))
    >>> quarter(4.0)
    1.0
    """
    bare: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(pipeline_class=_InnerCompiler, **bare, **options)


def compiled(**options: Any) -> Any:
    """Compile a function on its first call with each set of types, as ``numba.njit`` does with the same options.

    What was compiled is kept on disk for later processes: in ``NUMBA_CACHE_DIR`` if that is set, else beside the
    source, else in the user's cache folder. A folder that cannot be written serves if kernels are in it. Where none of them can be
    used it is compiled in memory, in every process.

    Examples
    --------
    >>> @compiled()
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """

    def decorate(function: Callable[..., Any]) -> Any:
        given: dict[str, Any] = {"no_cfunc_wrapper": True, **options}  # nothing calls it as C would
        dispatcher: Any = njit(**given)(function)
        # No folder to keep it in, or no source to name it by? Then it is compiled in memory.
        with contextlib.suppress(RuntimeError, OSError):
            # njit(cache=True) does the same, with Numba's own class
            dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call]
            _caches.append(dispatcher._cache)
        return dispatcher

    return decorate


def of_one_type(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array that a kernel only reads so that Numba sees one type, whoever owns it and however it is laid out.

    A kernel is compiled for each type by itself, and an array that may be written is another type than one that may not.
    With one type, what was compiled for a trial serves the work itself.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
