"""Folders and files that only their owner can read: state of unfinished work, kept whole whatever happens."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from understudy._system import require_posix, take_lock
from understudy.data.output import sync
from understudy.errors import LedgerError, OutputError

__all__ = ["FolderInUse", "is_in_use", "private_folder", "write_private"]

_LOCK = "lock"
_TRIES = 20
"""How often a folder is made again that others remove."""


@contextlib.contextmanager
def private_folder(folder: Path, *, what: str) -> Iterator[Path]:
    """Make a folder for its owner alone and keep other processes out of it until this one has ended, however it ends.

    Parameters
    ----------
    folder
        Where; made with its parents if it does not exist.
    what
        What is kept there, for messages: "release", "fit".

    Raises
    ------
    FolderInUse
        If another process is at work there.
    OutputError
        If the folder cannot be made or written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here, private_folder(Path(here) / "state", what="fit") as folder:
    ...     oct(folder.stat().st_mode & 0o777)
    '0o700'
    """
    require_posix("Work that can be gone on with")
    lock = None
    for _ in range(_TRIES):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(folder, 0o700)
            sync(folder.parent)
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # somebody has just removed the folder
            continue
        except OSError as error:
            removed = isinstance(error, FileExistsError) and (folder.is_dir() or not os.path.lexists(folder))
            if removed:  # just when mkdir looked whether what is there is a folder
                continue
            raise OutputError(
                f"The state of the {what} cannot be kept in {str(folder)!r}: {error.strerror or error}."
            ) from None
        if take_lock(lock):
            if _is_there(lock, folder / _LOCK):
                break
            os.close(lock)  # it was removed by whoever had it before
            lock = None
        else:
            os.close(lock)
            lock = None
            break
    if lock is None:
        raise FolderInUse(f"Another process is at work on the {what} in {str(folder)!r}. Wait for it to end.")
    try:
        yield folder
    finally:
        os.close(lock)  # releases the lock


class FolderInUse(LedgerError):
    """A living process is at work in a folder."""

    code: ClassVar[str] = "US-LEDGER-04"
    advice: ClassVar[str] = "Wait for the other process to end, then run the same command again."


def is_in_use(folder: Path) -> bool:
    """Say whether a living process is at work in a folder."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        return not take_lock(lock)
    finally:
        os.close(lock)


def write_private(path: Path, content: bytes | memoryview) -> None:
    """Write a file for its owner alone, whole or not at all; it is on the disk when this returns."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync(path.parent)
    except OSError as error:
        raise OutputError(
            f"The state of unfinished work cannot be written to {str(path.parent)!r}: {error.strerror or error}. "
            "What was recorded before is kept; run the command again when there is room."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _is_there(handle: int, path: Path) -> bool:
    """Say whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False
