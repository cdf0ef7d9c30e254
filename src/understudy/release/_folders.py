"""Folders that are complete or absent."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from understudy.data import sync
from understudy.errors import OutputError

__all__ = ["complete_folder"]


@contextlib.contextmanager
def complete_folder(target: Path) -> Iterator[Path]:
    """Fill a new folder that appears under its name only when it is complete and on the disk.

    Yields a temporary folder beside the target. If anything fails it is removed and the target is as it was: absent.

    Raises
    ------
    OutputError
        If the target exists, or something cannot be written (a full disk, say).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     with complete_folder(Path(here) / "bundle") as folder:
    ...         _ = (folder / "a.txt").write_text("a")
    ...     sorted(path.name for path in (Path(here) / "bundle").iterdir())
    ['a.txt']
    """
    if os.path.lexists(target):
        raise OutputError(f"The folder {str(target)!r} exists already; nothing was written. Choose another.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for path in sorted(temporary.rglob("*")):
            sync(path)
        sync(temporary)
        if os.path.lexists(target):  # somebody else was quicker
            raise OutputError(
                f"The folder {str(target)!r} exists already; nothing was written. Choose another."
            )
        os.rename(temporary, target)
        sync(target.parent)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"The folder {str(target)!r} cannot be written: {error.strerror or error}."
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
