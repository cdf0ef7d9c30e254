"""The one decorator of compiled loops: kept on disk where a folder can be written, compiled in memory otherwise.

Numba refuses to cache a function when neither the installation nor the user's cache folder can be written, and does so
when the module is imported; and it fails when a folder turns read-only, or a disk full, after that. A hardened container has
both. A cache saves time and must never decide whether a method works, so here it cannot.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.core.caching import FunctionCache

__all__ = ["compiled", "of_one_type"]

_UNUSABLE = (OSError, EOFError, pickle.PickleError)
"""What a cache folder that cannot be read or written, or a file cut short, raises."""


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, except that one which cannot be used is left alone from then on."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what is kept for a signature, or None."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except _UNUSABLE:
            self.disable()  # type: ignore[no-untyped-call]
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if that is possible."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except _UNUSABLE:
            self.disable()  # type: ignore[no-untyped-call]


def compiled(**options: Any) -> Any:
    """Compile a function on its first call with each set of types, as ``numba.njit`` does with the same options.

    What was compiled is kept on disk for later processes: in ``NUMBA_CACHE_DIR`` if that is set, else beside the
    source, else in the user's cache folder. Where none of them can be used it is compiled in memory, in every process.

    Examples
    --------
    >>> @compiled()
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher: Any = njit(**options)(function)
        # No folder to keep it in, or no source to name it by? Then it is compiled in memory.
        with contextlib.suppress(RuntimeError, OSError):
            # njit(cache=True) does the same, with Numba's own class
            dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call]
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
