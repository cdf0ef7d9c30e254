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
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numba import njit
from numba._dynfunc import make_function
from numba.core import event, types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import (
    DumpParforDiagnostics,
    InlineOverloads,
    NativeLowering,
    NopythonTypeInference,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FindLiterallyCalls,
    InlineClosureLikes,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    WithLifting,
)

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


_ASIDE = ("no_cpython_wrapper", "no_cfunc_wrapper", "release_gil", "no_compile", "noalias", "inline")
"""Settings of a kernel that say nothing about the functions of NumPy that it calls."""

_HASH = hash(Flags())  # type: ignore[no-untyped-call]


class _Settings(Flags):  # type: ignore[misc]
    """Numba's settings of one function, with which everything is looked up while it is compiled; Numba compares them option by option."""

    _all: ClassVar[list[_Settings]] = []
    entered = False

    def __hash__(self) -> int:
        return _HASH  # Numba's own is the same for all settings, too

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if self.entered and isinstance(other, _Settings) and other.entered:
            return False  # there is one object for all that are alike
        return bool(super().__eq__(other))  # type: ignore[no-untyped-call]

    def copy(self) -> _Settings:
        """Return what holds while the function is compiled, one object for all functions of like settings.

        What differs in ``_ASIDE`` alone is alike: what a kernel calls of NumPy is compiled once for all of them.
        """
        made = _Settings(self)  # type: ignore[no-untyped-call]
        for name in _ASIDE:
            made.discard(name)  # type: ignore[no-untyped-call]
        for known in self._all:
            if known == made:
                return known
        made.entered = True
        self._all.append(made)
        return made


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Prepare the functions that are in it; Numba goes over every function that is only named, too, each time with new passes."""
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()  # type: ignore[no-untyped-call]
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)


class _Unfinished(_Library):
    """The code of a function that only other kernels call: linked into theirs and optimised there, once."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave that, too, to whoever calls the function."""
        ll_module.data_layout = self._codegen._data_layout

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


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _KernelLowering(NativeLowering):  # type: ignore[misc]
    """Numba's last step, with a library of our own."""

    _name = "understudy_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        """Translate the typed function and make it executable."""
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.library.enable_object_caching()
        return bool(super().run_pass(state))  # type: ignore[no-untyped-call]


class _Remembering:
    """Numba's types of what functions return, found once: Numba tries every way that it knows for each sum and each element of an array.

    Calls of kernels are left to Numba, which compiles them on the way.
    """

    _known: ClassVar[dict[tuple[Any, ...], tuple[Any, Any]]] = {}

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, keywords: Any) -> Any:
        """Return the signature of a function for some types of arguments."""
        if isinstance(function, types.Dispatcher):
            return self._context.resolve_function_type(function, args, keywords)
        settings = ConfigStack.top_or_none()  # type: ignore[no-untyped-call]
        key = id(function), tuple(args), tuple(keywords.items()), settings
        found = self._known.get(key)
        if found is None:
            found = function, self._context.resolve_function_type(function, args, keywords)
            if found[1] is not None:
                self._known[key] = found  # holds the function, so that no other one gets its number
        return found[1]


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Inference(NopythonTypeInference):  # type: ignore[misc]
    """Numba's inference of types with a memory."""

    _name = "understudy_inference"

    def run_pass(self, state: Any) -> bool:
        """Find the type of every variable."""
        context = state.typingctx
        state.typingctx = _Remembering(context)
        try:
            return bool(super().run_pass(state))  # type: ignore[no-untyped-call]
        finally:
            state.typingctx = context


_NEEDLESS = {
    WithLifting, InlineClosureLikes, MakeFunctionToJitFunction, FindLiterallyCalls, LiteralUnroll,
    LiteralPropagationSubPipelinePass, InlineOverloads, DumpParforDiagnostics,
}  # fmt: skip
"""Steps of Numba's for what no kernel has (functions inside functions, ``with``, ``literally``): Numba refuses a kernel that has one."""


class _KernelCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler without steps that change nothing, and with the last step exchanged."""

    last: type[NativeLowering] = _KernelLowering

    def define_pipelines(self) -> Any:
        """Return the steps."""
        managers = super().define_pipelines()  # type: ignore[no-untyped-call]
        for manager in managers:
            steps = [
                ({NativeLowering: self.last, NopythonTypeInference: _Inference}.get(step, step), said)
                for step, said in manager.passes
                if step not in _NEEDLESS
            ]
            pruning = [place for place, (step, _) in enumerate(steps) if step is DeadBranchPrune]
            manager.passes = [step for place, step in enumerate(steps) if place not in pruning[:-1]]
            manager._finalized = False
            manager.finalize()
        return managers


class _InnerCompiler(_KernelCompiler):
    """The same for functions that only other kernels call."""

    last = _InnerLowering


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

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher: Any = njit(pipeline_class=_InnerCompiler, **bare, **options)(function)
        dispatcher._compiler._customize_flags = _Settings
        return dispatcher

    return decorate


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
        dispatcher: Any = njit(pipeline_class=_KernelCompiler, **given)(function)
        dispatcher._compiler._customize_flags = _Settings
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
