"""Where a ledger's lines live: one SQLite file, or memory.

Durability. The journal mode is ``DELETE`` and ``synchronous`` is ``EXTRA``: a commit returns after the
rollback journal, then the database, then the *removal* of the journal (its directory entry) have been
flushed. With ``FULL`` a power cut right after the commit could bring the journal back and undo the charge
after its noise was drawn. A write-ahead log would commit with one flush instead of four, but leaves two extra
files that must travel with the ledger; a few milliseconds per charge is a fair price for a single file. On
macOS ``fullfsync`` asks the drive itself to flush.

Concurrency. Every transaction opens its own connection, so that a ledger object survives ``fork``, threads
and a file that is replaced behind its back. Writers begin with ``BEGIN IMMEDIATE``: reading what was spent,
deciding and appending happen under one lock that only one process can hold. Closing any descriptor of a file
drops the POSIX locks this process holds on it, hence the lock table below: within one process at most one
thread touches a given ledger file at a time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from understudy._system import require_posix
from understudy.errors import LedgerCorrupted, LedgerError
from understudy.privacy.exact_floats import non_negative
from understudy.privacy.ledger.format import APPLICATION_ID, FORMAT, GENESIS, PAGE_SIZE, SCHEMA, link
from understudy.privacy.ledger.image import Line

__all__ = ["Store", "append", "lines_from"]

_MAGIC = b"SQLite format 3\x00"
_PRAGMAS = (
    "PRAGMA journal_mode=DELETE",
    "PRAGMA synchronous=EXTRA",
    "PRAGMA fullfsync=ON",
    "PRAGMA secure_delete=ON",
    "PRAGMA cell_size_check=ON",
    "PRAGMA trusted_schema=OFF",
)
_DRAFT_PRAGMAS = ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF")  # flushed as a whole afterwards
_SCHEMA_ROWS = [tuple(v.encode() if isinstance(v, str) else v for v in row) for row in SCHEMA]
_LOCKS: dict[str, threading.RLock] = {}


class Store:
    """Opens transactions on a ledger's lines and turns SQLite's errors into ours."""

    def __init__(self, path: Path | None, *, timeout: float) -> None:
        if path is not None:
            require_posix("A ledger on disk")
        self.path = path
        self.timeout = non_negative("timeout", timeout)
        self._memory: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._lock = threading.RLock() if path is None else _LOCKS.setdefault(str(path), threading.RLock())

    @classmethod
    def in_memory(cls, header: str) -> Store:
        """Return a store that dies with the process."""
        store = cls(None, timeout=0.0)
        store._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        store._memory.text_factory = bytes
        _fill(store._memory, header)
        return store

    @classmethod
    def create(cls, path: Path, header: str, *, timeout: float) -> Store:
        """Write a new ledger file, durably, in one step that can neither overwrite nor half-succeed.

        The file is written under a temporary name and flushed; a hard link then gives it its name, which
        fails with ``FileExistsError`` if that name is taken; at last the directory is flushed.
        """
        store = cls(path, timeout=timeout)
        for rest in (path.with_name(f"{path.name}{ending}") for ending in ("-journal", "-wal")):
            if rest.exists() and not path.exists():  # in this order: a rival may be making it right now
                raise LedgerError(
                    f"{rest} was left by another ledger of this name and would be replayed into a new one. "
                    "Restore the ledger it belongs to, choose another name, or remove it."
                )
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
        try:
            _write(draft, b"")
            try:
                with contextlib.closing(_connect(draft)) as connection:
                    for pragma in _DRAFT_PRAGMAS:
                        connection.execute(pragma).close()
                    _fill(connection, header)
                _flush(draft)
                try:
                    os.link(draft, path)
                except FileExistsError:
                    raise
                except OSError:  # a file system without hard links
                    _write(path, draft.read_bytes())
            finally:
                draft.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # some file systems cannot; nothing has been charged yet
                _flush(path.parent)
        except FileExistsError:
            raise
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or str(error) or "input/output error"
            raise LedgerError(
                f"The ledger {path} cannot be created: {reason}. "
                "Choose a folder that exists, is writable and has space."
            ) from None
        return store

    def check_file(self) -> None:
        """Refuse, before SQLite touches it, a file that is not a ledger."""
        path = self.path
        if path is None:
            return
        with self._lock, _readable(path):
            facts = os.stat(path)
            if not stat.S_ISREG(facts.st_mode):
                raise LedgerError(f"{path} is not a file, so it cannot be a ledger.")
            if facts.st_nlink > 1:
                _forget_drafts(path, facts)
                if os.stat(path).st_nlink > 1:
                    raise LedgerError(
                        f"{path} has a second name (a hard link). Crash recovery needs a ledger to have "
                        "one name only: remove the other."
                    )
            with path.open("rb") as file:
                head = file.read(100)
        if head[:16] != _MAGIC:
            raise LedgerError(f"{path} is not an Understudy ledger. The file was left as it is.")
        if int.from_bytes(head[68:72], "big") != APPLICATION_ID:
            raise LedgerError(f"{path} is a database, but not an Understudy ledger. It was left as it is.")
        whole = facts.st_size >= 2 * PAGE_SIZE and facts.st_size % PAGE_SIZE == 0
        # beside a journal the file may be half written; SQLite puts it right when it opens it
        if len(head) < 100 or not (whole or path.with_name(f"{path.name}-journal").exists()):
            raise LedgerCorrupted(f"The ledger {path} is cut short. Restore it from a copy.")
        if head[16:24] != PAGE_SIZE.to_bytes(2, "big") + bytes((1, 1, 0, 64, 32, 32)):
            raise LedgerCorrupted(f"The ledger {path} is damaged in its first bytes. Restore it from a copy.")

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Run one transaction; commit it durably when the block ends without an error, else undo it."""
        if self._memory is not None and os.getpid() != self._process:
            raise LedgerError(
                "A ledger in memory cannot be used in a forked process: both copies would spend the same "
                "budget. Use a ledger file."
            )
        if self.path is None and self._memory is None:
            raise LedgerError("The ledger in memory was closed.")
        with self._lock, self._translated():
            connection = self._memory or self._connect()
            try:
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    _check_schema(connection)
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                    raise
            finally:
                if connection is not self._memory:
                    connection.close()

    def snapshot(self) -> tuple[list[Line], bytes | None]:
        """Return all lines and, for a file, its very bytes at the same moment.

        The descriptor is closed after the connection, under this process's lock: closing it earlier would
        drop the lock that keeps writers out while the bytes are read.
        """
        if self.path is None:
            with self.transaction() as connection:
                return lines_from(connection, 0), None
        with (
            self._lock,
            _readable(self.path),
            self.path.open("rb", buffering=0) as file,
            self.transaction() as connection,
        ):
            return lines_from(connection, 0), file.readall()

    def close(self) -> None:
        """Forget a ledger in memory; a ledger on disk holds nothing open."""
        connection, self._memory = self._memory, None
        if connection is not None:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        assert self.path is not None
        connection = _connect(self.path, timeout=self.timeout)
        try:
            for pragma in _PRAGMAS:
                connection.execute(pragma).close()
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        where = "The ledger in memory" if self.path is None else f"The ledger {self.path}"
        try:
            yield
        except sqlite3.Error as error:
            name = str(getattr(error, "sqlite_errorname", None) or "")
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise LedgerError(
                    f"{where} was in use by another process for {self.timeout:g} seconds. Nothing was "
                    "charged; try again when the other run has finished."
                ) from None
            if name.startswith("SQLITE_FULL"):
                raise LedgerError(f"{where} cannot grow: the disk is full. Nothing was charged.") from None
            if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
                raise LedgerError(
                    f"{where} cannot be opened for writing (file and folder must both be writable). "
                    "Nothing was charged."
                ) from None
            if name.startswith("SQLITE_IOERR"):
                raise LedgerError(
                    f"{where} could not be read or written (input/output error). No noise was drawn."
                ) from None
            raise LedgerCorrupted(f"{where} is damaged ({name or type(error).__name__}).") from None
        except (UnicodeDecodeError, OverflowError):  # SQLite quotes what it could not understand
            raise LedgerCorrupted(f"{where} is damaged.") from None


def lines_from(connection: sqlite3.Connection, sequence: int) -> list[Line]:
    """Return the lines from a sequence number on."""
    rows = connection.execute(
        "SELECT sequence, body, hash FROM line WHERE sequence >= ? ORDER BY sequence", (sequence,)
    )
    lines = rows.fetchall()
    for line in lines:
        if tuple(map(type, line)) != (int, bytes, bytes):
            raise LedgerCorrupted("The ledger has a line that is not a number, a text and a hash.")
    return lines


def append(connection: sqlite3.Connection, sequence: int, text: str, previous: bytes) -> bytes:
    """Add one line and return its hash."""
    digest = link(previous, sequence, text.encode("ascii"))
    connection.execute("INSERT INTO line VALUES (?, ?, ?)", (sequence, text, digest))
    return digest


def _fill(connection: sqlite3.Connection, header: str) -> None:
    """Turn an empty database into a ledger that holds its header and nothing else."""
    for pragma in (
        f"PRAGMA page_size={PAGE_SIZE}",
        "PRAGMA encoding='UTF-8'",
        "PRAGMA auto_vacuum=NONE",
        f"PRAGMA application_id={APPLICATION_ID}",
        f"PRAGMA user_version={FORMAT}",
        "PRAGMA secure_delete=ON",
        "PRAGMA trusted_schema=OFF",
    ):
        connection.execute(pragma).close()
    connection.execute("BEGIN")
    for *_, sql in SCHEMA:
        connection.execute(sql)
    append(connection, 0, header, GENESIS)
    connection.execute("COMMIT")


def _check_schema(connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master").fetchall()
    if rows != _SCHEMA_ROWS:
        raise LedgerCorrupted("The tables or triggers of the ledger were changed.")


def _connect(path: Path, *, timeout: float = 0.0) -> sqlite3.Connection:
    # mode=rw: a ledger that has vanished is an error, never a fresh empty file
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None)
    connection.text_factory = bytes
    return connection


def _write(path: Path, image: bytes) -> None:
    """Create a file for its owner alone that must not exist yet, and flush its content to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)  # whatever the umask says; SQLite gives its journal the same
        view = memoryview(image)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)  # ours: it did not exist before
        raise
    finally:
        os.close(descriptor)


def _flush(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget_drafts(path: Path, facts: os.stat_result) -> None:
    """Remove the temporary name that a crash (or a creation still under way) left beside the real one."""
    for draft in path.parent.iterdir():
        if draft.name.startswith(f".{path.name}.") and draft.suffix == ".new":
            with contextlib.suppress(OSError):
                if os.path.samestat(os.lstat(draft), facts):
                    draft.unlink()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise LedgerError(f"There is no ledger at {path}.") from None
    except IsADirectoryError:
        raise LedgerError(f"{path} is a folder, not a ledger.") from None
    except OSError as error:
        raise LedgerError(f"The ledger {path} cannot be read: {error.strerror}.") from None
