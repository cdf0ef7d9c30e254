"""What a release has done so far, kept so that a crash loses nothing that was paid for and buys nothing twice.

The state is a folder beside the ledger that only its owner can read. Each file in it is written to a new name,
brought to the disk and renamed, so that a reader finds the old content or the new one and never a part.

**What may be lost.** A charge is on the disk before its noise is drawn, and the answer is in the journal before anybody sees it
(:mod:`understudy.curator.journal`). If the process dies in between, the answer is gone and the charge stands; the question is asked and charged
once more. Everything that was answered before is repeated from the journal and costs nothing.

**Loops of attempts** are paid for as a whole before the first one, so an interrupted attempt costs nothing more: it
is forgotten and another is made in its place. That changes no probability as long as interruptions do not
depend on the records: the attempts are independent and identically distributed, and leaving one out unseen
leaves the distribution of the others, and that of the largest number of attempts, as they were. (A person
who interrupts because a run takes long does use the number of attempts; that is what the stopping
probability is for.)
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.curator import Journal
from understudy.data.private_files import private_folder, write_private
from understudy.errors import LedgerError, LedgerMismatch, OutputError
from understudy.privacy import Ledger
from understudy.release.record_types import RecordTypes
from understudy.schema import Domain

if TYPE_CHECKING:
    from understudy.mechanisms import Model

__all__ = ["State"]

FORMAT, VERSION = "understudy-release-state", 1
_FILE, _MODEL, _CANDIDATE, _ROOM = "state.json", "model.understudy", "candidate.npz", "room"
_JOURNAL = "journal"
_BEGUN = {
    "format", "version", "fingerprint", "ledger_id", "release_id", "seed", "started", "configuration", "records",
}  # fmt: skip
"""What is recorded before the first result."""


class State:
    """The recorded progress of one release.

    Parameters
    ----------
    folder
        Where it is kept; made with access for its owner alone.
    content
        Everything recorded so far.

    Privacy
    -------
    Before acceptance the state of a single attempt holds its model and candidate: differentially private, but
    not meant for publication. The state of a loop never holds anything of a rejected attempt. It does say how
    many attempts were made where the rule limits them, which must not be published. Until there is an outcome both hold
    a digest of the records with its key, to tell whether a later run looks at the same table: whoever reads them can check
    a guess of the whole table. The folder is for its owner alone, and nothing of it goes into a bundle but the accepted outcome.
    """

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self.content = content

    # ------------------------------------------------------------------ opening

    @staticmethod
    def folder_for(ledger: Path, name: str) -> Path:
        """Return where the state of a release is kept.

        Examples
        --------
        >>> State.folder_for(Path("births.ledger"), "births 2014").name
        'births.ledger.births-2014.state'
        """
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-") or "release"
        return ledger.with_name(f"{ledger.name}.{slug}.state")

    @classmethod
    def recorded(cls, folder: Path) -> dict[str, Any] | None:
        """Return what the state of a release holds, or None if there is none; nothing is made, locked or changed."""
        return cls._read(folder)

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, folder: Path, *, fingerprint: str, ledger_id: str, restart: bool = False
    ) -> Iterator[State]:
        """Open the state of a release, or begin one; refuse one of another specification or ledger.

        A lock keeps a second process out until the first has ended, however it ends.

        Raises
        ------
        LedgerMismatch
            If the folder belongs to another ledger, or to a specification that was changed since.
        LedgerError
            If another process is at work on the release, or the state cannot be read.
        OutputError
            If the folder cannot be written.
        """
        with private_folder(folder, what="release"):
            if restart:
                with _reported(folder):
                    for name in (_FILE, _ROOM, _JOURNAL):
                        (folder / name).unlink(missing_ok=True)
                    for path in _results(folder):
                        path.unlink(missing_ok=True)
            content = cls._read(folder)
            fresh = (
                _BEGUN.issuperset(content or ())
                and not _results(folder)
                and not Journal.has_answers(folder / _JOURNAL)
            )
            if content is not None and content.get("fingerprint") != fingerprint and fresh:
                content = None  # nothing was made yet: a corrected specification begins anew
                with _reported(folder):
                    (folder / _JOURNAL).unlink(missing_ok=True)
            if content is None:
                content = {
                    "format": FORMAT,
                    "version": VERSION,
                    "fingerprint": fingerprint,
                    "ledger_id": ledger_id,
                    "release_id": secrets.token_hex(8),
                }
            if content.get("ledger_id") != ledger_id:
                raise LedgerMismatch(
                    f"The state in {str(folder)!r} belongs to another ledger. Use that ledger, or move the state away."
                )
            if content.get("fingerprint") != fingerprint:
                raise LedgerMismatch(
                    f"The specification was changed since the release in {str(folder)!r} began. Put it back, give the "
                    "changed one another name, or start anew (--restart), which is charged anew."
                )
            state = cls(folder, content)
            state.write()
            try:
                yield state
            finally:
                state.release_room()

    @staticmethod
    def _read(folder: Path) -> dict[str, Any] | None:
        try:
            text = (folder / _FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(
                f"The state in {str(folder)!r} cannot be read: {error.strerror or error}."
            ) from None
        try:
            content = json.loads(text)
        except json.JSONDecodeError:
            content = None
        if (
            not isinstance(content, dict)
            or content.get("format") != FORMAT
            or content.get("version") != VERSION
        ):
            raise LedgerError(f"The file {str(folder / _FILE)!r} is not the state of a release.")
        return content

    # ------------------------------------------------------------------ recording

    @property
    def release_id(self) -> str:
        """Random public name of the release."""
        return str(self.content["release_id"])

    def get(self, key: str, default: Any = None) -> Any:
        """Return something recorded."""
        return self.content.get(key, default)

    def record(self, **facts: Any) -> None:
        """Record facts; they are on the disk when this returns."""
        self.content.update(facts)
        self.write()

    def conclude(self, outcome: dict[str, Any]) -> None:
        """Record how the release ended, under a random name, and forget what identified its records and was answered about them: no run looks again."""
        self.record(outcome=outcome | {"name": secrets.token_hex(16)}, records=None)
        with _reported(self.folder):
            (self.folder / _JOURNAL).unlink(missing_ok=True)

    def journal(self, ledger: Ledger) -> Journal:
        """Return the journal of the answers that were paid for."""
        work = {"release": self.release_id, "fingerprint": self.content["fingerprint"]}
        return Journal(self.folder / _JOURNAL, ledger=ledger, work=work)

    def write(self) -> None:
        """Write the state to the disk."""
        text = json.dumps(self.content, indent=1, allow_nan=False)
        write_private(self.folder / _FILE, text.encode("utf-8"))

    # ------------------------------------------------------------------ large things

    @property
    def model_path(self) -> Path:
        """Where the model of a single attempt, or of the accepted one of a loop, is kept."""
        return self.model_file()

    def model_file(self, table: str = "") -> Path:
        """Return where the model is kept; of several tables of events, that of one table."""
        return self.folder / _of_table(_MODEL, table)

    def reserve_room(self, size: int) -> None:
        """Take room on the disk before anything is paid for, so that results can be kept afterwards.

        Raises
        ------
        OutputError
            If there is no such room.
        """
        try:
            handle = os.open(self.folder / _ROOM, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(handle, 0, size)
                else:
                    os.ftruncate(handle, size)
            finally:
                os.close(handle)
        except OSError as error:
            self.release_room()
            raise OutputError(
                f"There is no room of {size / 1e6:,.0f} MB for the results of the release beside its ledger: "
                f"{error.strerror or error}. Nothing was spent."
            ) from None

    def release_room(self) -> None:
        """Give the room on the disk back, for what is about to be written."""
        with contextlib.suppress(
            OSError
        ):  # a folder that became read-only keeps it; the next run takes it over
            (self.folder / _ROOM).unlink()

    def store_candidate(self, types: RecordTypes, table: str = "") -> None:
        """Keep the records of a candidate; of several tables of events, those of one table."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, codes=types.codes, counts=types.counts)
        write_private(self.folder / _of_table(_CANDIDATE, table), buffer.getbuffer())

    def load_candidate(self, domain: Domain, table: str = "") -> RecordTypes:
        """Return the records of the candidate that was kept."""
        try:
            with np.load(self.folder / _of_table(_CANDIDATE, table), allow_pickle=False) as arrays:
                return RecordTypes(domain, arrays["codes"], arrays["counts"])
        except (OSError, ValueError, KeyError):
            raise LedgerError(
                f"The candidate in {str(self.folder)!r} cannot be read. Restore the file, or start anew."
            ) from None

    def store_model(self, model: Model, table: str = "") -> None:
        """Keep a model, for its owner alone; the file is complete or absent."""
        place = self.model_file(table)
        model.save(place)
        with _reported(self.folder):
            place.chmod(0o600)

    def forget_model(self) -> None:
        """Remove the model of an attempt that was not accepted; of several tables of events all of them."""
        with _reported(self.folder):
            for path in _results(self.folder, (_MODEL,)):
                path.unlink(missing_ok=True)


# ---------------------------------------------------------------------- files


def _of_table(name: str, table: str) -> str:
    """Return the name of a file that each of several tables of events has."""
    stem, dot, ending = name.partition(".")
    return f"{stem}-{table}{dot}{ending}" if table else name


def _results(folder: Path, names: tuple[str, ...] = (_MODEL, _CANDIDATE)) -> list[Path]:
    """Return the models and candidates that are kept."""
    return [path for name in names for path in (*folder.glob(name), *folder.glob(_of_table(name, "*")))]


@contextlib.contextmanager
def _reported(folder: Path) -> Iterator[None]:
    """Turn a refusal of the system into a message."""
    try:
        yield
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"The state of the release in {str(folder)!r} cannot be changed: {error.strerror or error}."
        ) from None
