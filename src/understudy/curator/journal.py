"""The answers that were paid for, kept until the work they belong to is done, so that an interruption loses none of them.

An answer is journalled after it was drawn and before anybody sees it. Work that is begun again asks its questions in the same
order; each question that the journal holds is answered from it, without a charge and without a look at the records, and the
first one that it does not hold is charged and drawn as usual. So no question is asked twice, and what an interruption can
lose is one charge: that of an answer which was being drawn.

**What is in it.** Answers, which were released when they were charged: a journal holds nothing that the ledger has not paid for. It is kept
for its owner alone all the same, because unfinished work is nobody else's business. Attempts inside a private selection are not
journalled: their answers are not released.

**The file.** Lines of JSON, each followed by the bytes of the arrays it names and checked by a hash; the first line says whose journal it is. A line
that was not written to its end is cut off when the journal is opened: its answer was never used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data import write_private
from understudy.errors import LedgerCorrupted, LedgerError, LedgerMismatch, OutputError
from understudy.privacy import Entry, Event, Ledger

__all__ = ["Answer", "Journal", "Question"]

FORMAT, VERSION = "understudy-journal", 1
_LOG = logging.getLogger("understudy")


@dataclass(frozen=True, slots=True)
class Question:
    """What a look asks, by public facts alone: two questions are the same if all of these are.

    Attributes
    ----------
    scope, purpose
        The public texts that the ledger shows for it.
    event
        What it costs.
    about
        What else tells it from other questions: columns, shapes, scales.
    """

    scope: str
    purpose: str
    event: Event
    about: Any = None

    def plain(self) -> dict[str, Any]:
        """Return the question as plain values."""
        about = json.loads(json.dumps(self.about, default=_plain_number))
        return {
            "scope": self.scope,
            "purpose": self.purpose,
            "event": self.event.to_dict(),
            "about": about,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of a journal: a question, the ledger entry that paid for it, and the answer.

    Attributes
    ----------
    value
        Arrays, numbers, texts and lists of them.
    failed
        Whether the look ended in an error after it was charged, which is its answer.
    whole
        False for a conversation that was paid for at its beginning and whose answers were not kept.
    """

    question: Mapping[str, Any]
    entry: int
    entry_hash: str
    value: Any
    failed: bool = False
    whole: bool = True


class Journal:
    """Paid answers of one piece of work, in the order of its questions.

    Parameters
    ----------
    path
        The file; made when it does not exist, and cut back to its last whole line when it does.
    ledger
        The ledger that pays. Every entry that an answer names must still be in it.
    work
        Public facts that identify the work: method, options, budget. A journal of other work is refused.

    Privacy
    -------
    In: answers that were charged. Out: the same answers. Repeating an answer is post-processing of it, so it costs nothing. The entry that
    paid for each answer is looked up in the ledger by its hash: a journal cannot stand in for charges that a ledger has lost.
    """

    def __init__(self, path: Path, *, ledger: Ledger, work: Mapping[str, Any]) -> None:
        self.path = path
        self._next = 0
        self._broken = False
        self._answers: list[Answer] = []
        self._ends: list[int] = []
        wanted = {
            "format": FORMAT,
            "version": VERSION,
            "ledger": ledger.ledger_id,
            "work": json.loads(json.dumps(work, default=_plain_number)),
        }
        found, lines = _read(path)
        if found is None:
            write_private(path, _line(wanted | {"software": _software()}, []))
            self._ends = [path.stat().st_size]
            self.software = _software()
            return
        if found.get("format") != FORMAT or found.get("version") != VERSION:
            raise LedgerError(f"The file {str(path)!r} is not a journal that this version reads.")
        if {name: found.get(name) for name in wanted} != wanted:
            raise LedgerMismatch(f"The journal {str(path)!r} belongs to other work, or to another ledger.")
        self.software = str(found.get("software", ""))
        paid = {entry.sequence: entry.hash for entry in ledger.entries() if entry.event is not None}
        for answer, end in lines:
            if answer is None:
                self._ends.append(end)
                continue
            if paid.get(answer.entry) != answer.entry_hash:
                raise LedgerCorrupted(
                    f"The journal {str(path)!r} holds an answer whose charge is not in the ledger: the ledger was cut back "
                    "or replaced. Restore the file that was there."
                )
            self._answers.append(answer)
            self._ends.append(end)
        if path.stat().st_size > self._ends[-1]:
            os.truncate(path, self._ends[-1])

    @staticmethod
    def has_answers(path: Path) -> bool:
        """Say whether a file is a journal that holds answers."""
        return len(_read(path)[1]) > 1

    def __len__(self) -> int:
        return len(self._answers)

    def __repr__(self) -> str:
        return f"Journal({len(self._answers)} answers, {self.left} to repeat)"

    @property
    def left(self) -> int:
        """How many of its answers have not been repeated yet."""
        return len(self._answers) - self._next

    def repeat(self, question: Question) -> Answer | None:
        """Return the answer that was paid for, or None if the question is a new one.

        Raises
        ------
        LedgerMismatch
            If another question stands at this place: the work that is done now is not the one that was interrupted.
        """
        if self._next == len(self._answers):
            return None
        answer = self._answers[self._next]
        if answer.question != question.plain():
            began = f" It was begun by version {self.software}." if self.software != _software() else ""
            raise LedgerMismatch(
                f"The unfinished work in {str(self.path.parent)!r} asked for {answer.question['purpose']!r} next, and now "
                f"{question.purpose!r} is asked.{began} Nothing was spent. Go on with the version and options that began it, keep it "
                "for later (--unfinished keep), or forget it (--unfinished drop): its answers stay paid for."
            )
        if not answer.whole:  # a conversation that was interrupted: what it cost is lost
            self._cut(self._next)
            return None
        self._next += 1
        return answer

    def skip(self, scope: str) -> None:
        """Pass over the answers of a part of the work whose result is kept elsewhere, such as a model that was stored."""
        while self.left and (str(self._answers[self._next].question["scope"]) + "/").startswith(scope + "/"):
            self._next += 1

    def keep(self, question: Question, entry: Entry, value: Any, *, failed: bool = False) -> None:
        """Write an answer to the disk before anybody sees it.

        A disk that is full or gone does not stop the work, whose answers are in memory: they are then no longer kept, which is logged.
        """
        self._append(Answer(question.plain(), entry.sequence, entry.hash, value, failed))

    def open_conversation(self, question: Question, entry: Entry) -> None:
        """Write down that a conversation was paid for, whose answers are not kept one by one."""
        self._append(Answer(question.plain(), entry.sequence, entry.hash, None, whole=False))

    def _append(self, answer: Answer) -> None:
        if self._broken:
            return
        arrays: list[np.ndarray[Any, Any]] = []
        head = {
            "question": answer.question,
            "entry": answer.entry,
            "entry_hash": answer.entry_hash,
            "value": _encoded(answer.value, arrays),
            "failed": answer.failed,
            "whole": answer.whole,
        }
        try:
            with open(self.path, "r+b") as stream:
                stream.seek(self._ends[-1])
                stream.write(_line(head, arrays))
                stream.truncate()
                stream.flush()
                os.fsync(stream.fileno())
                self._ends.append(stream.tell())
        except OSError as error:
            self._broken = True
            _LOG.warning(
                "Paid answers can no longer be kept in %s (%s); the work goes on, but do not interrupt it.",
                self.path,
                error.strerror or type(error).__name__,
            )
            return
        self._answers.append(answer)
        self._next = len(self._answers)

    def _cut(self, number: int) -> None:
        """Forget the answers from a number on."""
        del self._answers[number:], self._ends[number + 1 :]
        try:
            os.truncate(self.path, self._ends[-1])
        except OSError as error:
            raise OutputError(
                f"The journal {str(self.path)!r} cannot be changed: {error.strerror}."
            ) from None


# ---------------------------------------------------------------------- the file


def _line(head: Mapping[str, Any], arrays: Sequence[np.ndarray[Any, Any]]) -> bytes:
    """Return one line: its length and hash, its text, and the bytes of its arrays."""
    text = json.dumps(head, separators=(",", ":"), allow_nan=True, default=_plain_number).encode("utf-8")
    body = len(text).to_bytes(8, "big") + text + b"".join(array.tobytes() for array in arrays)
    return len(body).to_bytes(8, "big") + hashlib.sha256(body).digest() + body


def _read(path: Path) -> tuple[dict[str, Any] | None, list[tuple[Answer | None, int]]]:
    """Return the first line and, from it on, every whole line with the place where it ends."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None, []
    except OSError as error:
        raise LedgerError(f"The journal {str(path)!r} cannot be read: {error.strerror or error}.") from None
    first: dict[str, Any] | None = None
    lines: list[tuple[Answer | None, int]] = []
    place = 0
    while place + 40 <= len(content):
        end = place + 40 + int.from_bytes(content[place : place + 8], "big")
        body = content[place + 40 : end]
        if end > len(content) or hashlib.sha256(body).digest() != content[place + 8 : place + 40]:
            break
        length = int.from_bytes(body[:8], "big")
        head = json.loads(body[8 : 8 + length])
        if first is None:
            first = head
            lines.append((None, end))
        else:
            value = _decoded(head["value"], memoryview(body)[8 + length :])
            lines.append(
                (
                    Answer(
                        head["question"],
                        head["entry"],
                        head["entry_hash"],
                        value,
                        head["failed"],
                        head["whole"],
                    ),
                    end,
                )
            )
        place = end
    if first is None:
        raise LedgerError(f"The file {str(path)!r} is not a journal.")
    return first, lines


def _encoded(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """Turn an answer into plain values; arrays are put aside, and named by where they begin."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _encoded(value.item(), arrays)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            raise TypeError(f"An answer holds an array of {value.dtype}, which a journal cannot keep.")
        start = sum(array.nbytes for array in arrays)
        arrays.append(np.ascontiguousarray(value))
        return {"array": value.dtype.str, "shape": list(value.shape), "start": start}
    if isinstance(value, Sequence):
        return [_encoded(item, arrays) for item in value]
    raise TypeError(f"An answer holds a {type(value).__name__}, which a journal cannot keep.")


def _decoded(value: Any, data: memoryview) -> Any:
    if isinstance(value, list):
        return [_decoded(item, data) for item in value]
    if not isinstance(value, dict):
        return value
    kind, shape = np.dtype(value["array"]), tuple(value["shape"])
    end = value["start"] + kind.itemsize * int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(data[value["start"] : end], dtype=kind).reshape(shape).copy()


def _plain_number(value: Any) -> Any:
    """Turn numbers of NumPy, fractions and collections of them into what JSON holds."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"A question holds a {type(value).__name__}, which a journal cannot keep.")


def _software() -> str:
    from importlib.metadata import version

    return version("understudy")
