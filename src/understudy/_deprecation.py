"""Names that are on their way out: each says since which version, until which, and what to use instead.

A name stays for at least two minor versions after the one that deprecates it (``docs/explanation/stability.md``).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

__all__ = ["deprecated", "deprecation", "forwarded", "rows_or_n", "warn_deprecated"]

P = ParamSpec("P")
R = TypeVar("R")


def deprecation(old: str, *, use: str, since: str, until: str) -> str:
    """Return what is said about a name that is going away; the command line says it on standard error.

    Examples
    --------
    >>> deprecation("evaluate --holdout", use="--hold-out-table", since="0.2", until="0.4")
    'evaluate --holdout is deprecated since Understudy 0.2 and goes away in 0.4. Use --hold-out-table.'
    """
    return f"{old} is deprecated since Understudy {since} and goes away in {until}. Use {use}."


def warn_deprecated(old: str, *, use: str, since: str, until: str, stacklevel: int = 2) -> None:
    """Warn that a name is going away.

    Parameters
    ----------
    old, use
        The name that was used, and the one to use instead.
    since, until
        The version that deprecates the name, and the first one without it; at least two minor versions lie between them.
    stacklevel
        Whose line the warning shows, as for :func:`warnings.warn`; 2 is the caller of the function that calls this one.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("a.old", use="a.new", since="0.2", until="0.4")
    >>> print(seen[0].message)
    a.old is deprecated since Understudy 0.2 and goes away in 0.4. Use a.new.
    """
    warnings.warn(
        deprecation(old, use=use, since=since, until=until),
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


def rows_or_n(rows: int | None, n: int | None, *, where: str) -> int | None:
    """Return how many rows are asked for, by the word that every function and command has for it or by that of 0.1.0.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     rows_or_n(None, 5, where="Model.sample")
    5
    >>> print(seen[0].message)
    Model.sample(n=...) is deprecated since Understudy 0.2 and goes away in 0.4. Use rows=....
    """
    if n is None:
        return rows
    if rows is not None:
        raise TypeError(f"{where}: rows and n are two words for one thing; give rows.")
    warn_deprecated(f"{where}(n=...)", use="rows=...", since="0.2", until="0.4", stacklevel=3)
    return n


def deprecated(*, use: str, since: str, until: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Deprecate a function: it goes on working and warns at every call.

    Examples
    --------
    >>> @deprecated(use="new_sum", since="0.2", until="0.4")
    ... def old_sum(a, b):
    ...     return a + b
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     old_sum(1, 2)
    3
    >>> [warning.category.__name__ for warning in seen]
    ['DeprecationWarning']
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            old = f"{function.__module__}.{function.__qualname__}"
            warn_deprecated(old, use=use, since=since, until=until)
            return function(*args, **kwargs)

        return call

    return wrap


def forwarded(
    old: str, new: str, *, since: str, until: str, names: tuple[str, ...] | None = None
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module whose names are found in another one now: it warns, and answers with those.

    Without ``names`` the whole module was renamed, and all public names of the new one are found.

    Examples
    --------
    >>> find = forwarded("understudy.tables", "understudy.data", since="0.2", until="0.4")
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     find("read_table").__name__
    'read_table'
    >>> print(seen[0].message)
    understudy.tables.read_table is deprecated since Understudy 0.2 and goes away in 0.4. Use understudy.data.read_table.
    """

    def find(name: str) -> Any:
        if name == "__all__" and names is None:  # asked for by "from module import *"
            return list(import_module(new).__all__)
        if name not in (import_module(new).__all__ if names is None else names):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warn_deprecated(f"{old}.{name}", use=f"{new}.{name}", since=since, until=until)
        return getattr(import_module(new), name)

    return find
