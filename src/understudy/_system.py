"""What Understudy asks of the operating system: locks on files that end with the process that holds them."""

from __future__ import annotations

import importlib
import sys

from understudy.errors import UnsupportedSystem

__all__ = ["require_posix", "take_lock"]


def require_posix(what: str) -> None:
    """Refuse a system without POSIX file locks, before anything is charged.

    Parameters
    ----------
    what
        What needs them: the beginning of the message.

    Raises
    ------
    UnsupportedSystem
        If Python has no module ``fcntl`` here, as on Windows.

    Examples
    --------
    >>> require_posix("A ledger on disk")
    """
    try:
        importlib.import_module("fcntl")
    except ImportError:
        raise UnsupportedSystem(
            f"{what} needs a POSIX system such as Linux or macOS; this one ({sys.platform}) has no file locks that end "
            "with their process (Python's module fcntl is missing). On Windows, run Understudy in WSL 2 "
            "(wsl --install) or in a Linux container. Nothing was spent."
        ) from None


def take_lock(descriptor: int) -> bool:
    """Take the lock of an open file without waiting; say whether it was free.

    Closing the file releases the lock, and so does the end of the process, however it ends.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     take_lock(file.fileno())
    True
    """
    require_posix("Keeping other processes out of a folder")
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
