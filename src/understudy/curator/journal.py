"""The answers that were paid for, kept until the work they belong to is done, so that an interruption loses none of them.

An answer is journalled after it was drawn and before anybody sees it. Work that is begun again asks its questions in the same
order; each question that the journal holds is answered from it, without a charge and without a look at the records, and the
first one that it does not hold is charged and drawn as usual. So no question is asked twice, and what an interruption can
lose is one charge: that of an answer which was being drawn.

**What is in it.** Answers, which were released when they were charged: a journal holds nothing that the ledger has not paid for. It is kept
for its owner alone all the same, because unfinished work is nobody else's business. Attempts inside a private selection are not
journalled: their answers are not released.

**The file.** Lines of JSON, each followed by the bytes of the arrays it names and checked by a hash; the first line says whose journal it is. A line
that was not written to its end is cut off when the journal is opened: its answer was never used. Arrays are read when their answer is
repeated and not held in memory, so that a journal may be larger than that.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from understudy.data.private_files import write_private
from understudy.errors import BudgetExceeded, LedgerCorrupted, LedgerError, LedgerMismatch, OutputError
from understudy.privacy import Event, Ledger
from understudy.privacy.accounting.filter import budget_for
from understudy.privacy.events import AllowanceEvent, InsideEvent, act_of
from understudy.privacy.ledger.ledger import Entry

__all__ = ["Answer", "Journal", "Question"]

FORMAT, VERSION = "understudy-journal", 1
_BEFORE = 40
"""Bytes of length and hash before each line."""
_FORGET = (
    "Nothing was spent now. Restore the file, or forget the work it belongs to, whose answers stay paid for (a fit: --unfinished drop; "
    "a release: --restart)."
)
_LOG = logging.getLogger("understudy")


@dataclass(frozen=True, slots=True)
class Question:
    """What a look asks, by public facts alone: two questions are the same if all of these but the accounting are.

    Attributes
    ----------
    scope, purpose
        The public texts that the ledger shows for it.
    event
        What it costs.
    about
        What else tells it from other questions: columns, shapes, scales.
    accounting
        In which the work adds its costs up.
    """

    scope: str
    purpose: str
    event: Event
    about: Any = None
    accounting: str = ""

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
    """An answer that was paid for.

    Attributes
    ----------
    value
        Arrays, numbers, texts and lists of them.
    failed
        Whether the look ended in an error after it was charged, which is its answer.
    """

    value: Any
    failed: bool = False


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
        self._lines: list[_Line] = []
        wanted = {
            "format": FORMAT,
            "version": VERSION,
            "ledger": ledger.ledger_id,
            "work": json.loads(json.dumps(work, default=_plain_number)),
        }
        if not path.exists():
            write_private(path, b"".join(_parts(wanted | {"software": _software()}, [])))
        first, *self._lines = _whole_lines(path)
        self._start = first.end
        found = first.head
        if found.get("format") != FORMAT or found.get("version") != VERSION:
            raise LedgerError(f"The file {str(path)!r} is not a journal that this version reads. {_FORGET}")
        if {name: found.get(name) for name in wanted} != wanted:
            raise LedgerMismatch(f"The journal {str(path)!r} belongs to other work, or to another ledger.")
        self.software = str(found.get("software", ""))
        self._require_paid(ledger)
        if path.stat().st_size > self._end(len(self)):
            os.truncate(path, self._end(len(self)))

    def with_advice(
        self, error: BudgetExceeded, ledger: Ledger, scope: str, *, shared: bool = False
    ) -> BudgetExceeded:
        """Return a refusal that says what is kept and which total is enough, for work that lost an answer to an interruption.

        ``shared`` says that other work may have charged in the same scope before this one began.
        """
        kept = [line.head["entry"] for line in self._lines]
        again = self._lost_in(ledger, scope, since=min(kept, default=0) if shared else 0)
        costs = [ledger.accounting.exact_cost(event, parts=ledger.unit.parts_touched) for event in again]
        known = [cost for cost in costs if cost is not None]
        enough = ""
        if again and len(known) == len(again):
            total = budget_for(ledger.rule, ledger.rule.total + sum(known, Fraction(0)))
            enough = f"; {total.describe()} is enough"
        return BudgetExceeded(
            f"{error} What was answered is kept ({len(self)}); an answer that was being drawn when the work was interrupted is lost and "
            f"has to be paid for again. Let the owner raise the total of the ledger (understudy ledger total{enough}), then run the same "
            "command again.",
            requested=error.requested,
            remaining=error.remaining,
            accounting=error.accounting,
        )

    def lost_one(self, ledger: Ledger, scope: str) -> bool:
        """Say whether something was charged in a scope whose answer is not here."""
        return bool(self._lost_in(ledger, scope, since=0))

    def _lost_in(self, ledger: Ledger, scope: str, *, since: int) -> list[Event]:
        """Return what was charged in a scope, after an entry, and has no answer here."""
        kept = {line.head["entry"] for line in self._lines}
        return [
            entry.event
            for entry in ledger.entries()
            if entry.event is not None and entry.sequence not in kept
            if f"{entry.scope}/".startswith(f"{scope}/") and entry.sequence > since
        ]

    def lost(self, ledger: Ledger) -> list[int]:
        """Return the numbers of the entries whose answers are lost: the same question was charged again later, and that answer is kept.

        Privacy
        -------
        An answer is lost if the process ended before it was journalled, and so before anybody saw it. The work does not depend on it.
        """
        kept = {line.head["entry"] for line in self._lines}
        paid = [entry for entry in ledger.entries() if entry.event is not None]
        used = {
            entry.event.allowance
            for entry in paid
            if isinstance(entry.event, InsideEvent) and entry.sequence in kept
        }
        kept |= {
            entry.sequence
            for entry in paid
            if isinstance(entry.event, AllowanceEvent) and entry.event.name in used
        }
        last: dict[str, int] = {}
        charges = []
        for entry in paid:
            assert entry.event is not None
            question = json.dumps([entry.scope, entry.purpose, act_of(entry.event.to_dict())])
            charges.append((entry.sequence, question))
            if entry.sequence in kept:
                last[question] = entry.sequence
        return [
            number for number, question in charges if number not in kept and number < last.get(question, 0)
        ]

    def _require_paid(self, ledger: Ledger) -> None:
        """Refuse answers that the ledger was not charged for, each by an entry of its own."""
        paid = {entry.sequence: entry for entry in ledger.entries() if entry.event is not None}
        before = -1
        for line in self._lines:
            number = line.head["entry"]
            entry = paid.get(number)
            if entry is None or entry.event is None or entry.hash != line.head["entry_hash"]:
                raise LedgerCorrupted(
                    f"The journal {str(self.path)!r} holds an answer whose charge is not in the ledger: the ledger was cut back "
                    "or replaced. Restore the file that was there."
                )
            if number <= before or act_of(entry.event.to_dict()) != line.head["question"]["event"]:
                raise LedgerCorrupted(
                    f"The journal {str(self.path)!r} holds an answer that another charge was made for: it was changed by hand. "
                    "Restore the file that was there."
                )
            before = number

    @staticmethod
    def has_answers(path: Path) -> bool:
        """Say whether a file is a journal that holds answers; at most the first of them is read."""
        return len(list(itertools.islice(_whole_lines(path), 2))) > 1

    @staticmethod
    def work_of(path: Path) -> dict[str, Any]:
        """Return the public facts of the work that a journal belongs to; empty where there is no journal."""
        first = next(_whole_lines(path), None)
        return {} if first is None else dict(first.head.get("work") or {})

    def __len__(self) -> int:
        return len(self._lines)

    def __repr__(self) -> str:
        return f"Journal({len(self)} answers, {self.left} to repeat)"

    @property
    def left(self) -> int:
        """How many of its answers have not been repeated yet."""
        return len(self) - self._next

    def repeat(self, question: Question) -> Answer | None:
        """Return the answer that was paid for, or None if the question is a new one.

        Raises
        ------
        LedgerMismatch
            If another question stands at this place: the work that is done now is not the one that was interrupted.
        """
        if not self.left:
            return None
        line = self._lines[self._next]
        asked = line.head["question"]
        if asked != question.plain():
            began = f" It was begun by version {self.software}." if self.software != _software() else ""
            raise LedgerMismatch(
                f"The unfinished work in {str(self.path.parent)!r} asked for {asked['purpose']!r} next, and now "
                f"{question.purpose!r} is asked.{began} Nothing was spent. Go on with the version and options that began it, or "
                "forget it (a fit: --unfinished drop; a release: --restart): its answers stay paid for."
            )
        if not line.head["whole"]:  # a conversation that was interrupted: what it cost is lost
            self._cut(self._next)
            return None
        answer = Answer(_decoded(line.head.get("value"), self.path, line), line.head["failed"])
        self._next += 1
        return answer

    def allowances(self, ledger: Ledger) -> list[str | None]:
        """Return for each answer the name of the allowance that it was charged to; None for those that were charged by themselves."""
        paid = {entry.sequence: entry.event for entry in ledger.entries()} if self._lines else {}
        events = [paid[line.head["entry"]] for line in self._lines]
        return [event.allowance if isinstance(event, InsideEvent) else None for event in events]

    def _comes_next(self, scope: str) -> bool:
        """Say whether the next answer belongs to a scope."""
        if not self.left:
            return False
        return f"{self._lines[self._next].head['question']['scope']}/".startswith(f"{scope}/")

    def next_accounting(self, scope: str) -> str | None:
        """Return the accounting of the next answer, if it belongs to a scope."""
        return str(self._lines[self._next].head["accounting"]) if self._comes_next(scope) else None

    def skip(self, scope: str) -> None:
        """Pass over the answers of a part of the work whose result is kept elsewhere, such as a model that was stored."""
        while self._comes_next(scope):
            self._next += 1

    @property
    def place(self) -> int:
        """How many answers lie before the next question."""
        return self._next

    def skip_to(self, place: int) -> None:
        """Pass over the answers before a place, of a part of the work whose result is kept elsewhere."""
        self._next = min(max(self._next, place), len(self))

    def keep(self, question: Question, entry: Entry, value: Any, *, failed: bool = False) -> None:
        """Write an answer to the disk before anybody sees it.

        A disk that is full or gone does not stop the work, whose answers are in memory: they are then no longer kept, which is logged.
        """
        self._append(question, entry, value, failed=failed, whole=True)

    def open_conversation(self, question: Question, entry: Entry) -> None:
        """Write down that a conversation was paid for, whose answers are not kept one by one."""
        self._append(question, entry, None, failed=False, whole=False)

    def _append(self, question: Question, entry: Entry, value: Any, *, failed: bool, whole: bool) -> None:
        if self._broken:
            return
        arrays: list[np.ndarray[Any, Any]] = []
        head = {
            "question": question.plain(),
            "accounting": question.accounting,
            "entry": entry.sequence,
            "entry_hash": entry.hash,
            "value": _encoded(value, arrays),
            "failed": failed,
            "whole": whole,
        }
        try:
            with open(self.path, "r+b") as stream:
                stream.seek(self._end(len(self)))
                stream.writelines(_parts(head, arrays))
                stream.truncate()
                stream.flush()
                os.fsync(stream.fileno())
                end = stream.tell()
        except OSError as error:
            self._broken = True
            _LOG.warning(
                "Paid answers can no longer be kept in %s (%s); the work goes on, but do not interrupt it.",
                self.path,
                error.strerror or type(error).__name__,
            )
            return
        self._lines.append(_Line(head | {"value": None}, end, end))  # it is not repeated in this run
        self._next = len(self)

    def _end(self, number: int) -> int:
        """Return where the given number of answers end in the file."""
        return self._lines[number - 1].end if number else self._start

    def _cut(self, number: int) -> None:
        """Forget the answers from a number on."""
        del self._lines[number:]
        try:
            os.truncate(self.path, self._end(number))
        except OSError as error:
            raise OutputError(
                f"The journal {str(self.path)!r} cannot be changed: {error.strerror}."
            ) from None


# ---------------------------------------------------------------------- the file


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a journal: its text, and where in the file its arrays begin and the line ends."""

    head: Mapping[str, Any]
    arrays: int
    end: int


def _parts(head: Mapping[str, Any], arrays: Sequence[np.ndarray[Any, Any]]) -> list[bytes | memoryview]:
    """Return one line in parts: its length and hash, the length of its text, its text, and its arrays."""
    text = json.dumps(head, separators=(",", ":"), allow_nan=True, default=_plain_number).encode("utf-8")
    body: list[bytes | memoryview] = [len(text).to_bytes(8, "big"), text]
    body += [array.reshape(-1).view(np.uint8).data for array in arrays if array.size]
    found = hashlib.sha256()
    for part in body:
        found.update(part)
    return [sum(map(len, body)).to_bytes(8, "big"), found.digest(), *body]


def _whole_lines(path: Path) -> Iterator[_Line]:
    """Go through the lines of a journal, up to the first that was not written to its end; there are none where there is no file.

    Only the last line can be such a one. Where a whole line follows, the file was damaged, and answers that were paid for lie behind.
    """
    try:
        with open(path, "rb") as stream:
            size, place = os.fstat(stream.fileno()).st_size, 0
            while place + _BEFORE + 8 <= size:
                stream.seek(place)
                length, digest = int.from_bytes(stream.read(8), "big"), stream.read(32)
                end = place + _BEFORE + length
                if end > size or _digest(stream, length) != digest:
                    if place and _whole_at(stream, end, size):
                        raise LedgerCorrupted(
                            f"The journal {str(path)!r} is damaged in the middle. {_FORGET}"
                        )
                    break
                stream.seek(place + _BEFORE)
                text = int.from_bytes(stream.read(8), "big")
                head = _head(stream.read(text) if text <= length - 8 else b"", first=not place)
                if head is None:
                    raise LedgerCorrupted(f"The journal {str(path)!r} holds something else. {_FORGET}")
                yield _Line(head, place + _BEFORE + 8 + text, end)
                place = end
    except FileNotFoundError:  # the process whose work it was has finished, and forgot it
        return
    except OSError as error:
        raise LedgerError(f"The journal {str(path)!r} cannot be read: {error.strerror or error}.") from None
    if not place:
        raise LedgerError(f"The file {str(path)!r} is not a journal. {_FORGET}")


_HEAD = {"question": dict, "accounting": str, "entry": int, "entry_hash": str, "failed": bool, "whole": bool}
_QUESTION = {"scope": str, "purpose": str, "event": dict}


def _head(text: bytes, *, first: bool) -> dict[str, Any] | None:
    """Return the text of a line as plain values, or None if it is no line of a journal, although its hash is right."""
    try:
        head = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(head, dict) or (first and not isinstance(head.get("work", {}), dict)):
        return None
    whole = first or (_holds(head, _HEAD) and _holds(head["question"], _QUESTION) and "value" in head)
    return head if whole else None


def _holds(plain: Mapping[str, Any], kinds: Mapping[str, type]) -> bool:
    return all(type(plain.get(key)) is kind for key, kind in kinds.items())


def _whole_at(stream: BinaryIO, place: int, size: int) -> bool:
    """Say whether a whole line begins at a place of a journal."""
    if place + _BEFORE + 8 > size:
        return False
    stream.seek(place)
    length, digest = int.from_bytes(stream.read(8), "big"), stream.read(32)
    return place + _BEFORE + length <= size and _digest(stream, length) == digest


def _digest(stream: BinaryIO, length: int) -> bytes:
    """Return the hash of the next bytes, of which few are held in memory at a time."""
    found = hashlib.sha256()
    while length > 0:
        block = stream.read(min(length, 1 << 20))
        if not block:
            break
        found.update(block)
        length -= len(block)
    return found.digest()


_ARRAYS = frozenset(["|b1", "|i1", "|u1", *(o + k + size for o in "<>" for k in "iuf" for size in "248")])
"""Kinds of arrays that an answer may hold."""


def _encoded(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """Turn an answer into plain values; arrays are put aside, and named by where they begin."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _encoded(value.item(), arrays)
    if isinstance(value, np.ndarray):
        if value.dtype.str not in _ARRAYS:
            raise TypeError(f"An answer holds an array of {value.dtype}, which a journal cannot keep.")
        start = sum(array.nbytes for array in arrays)
        arrays.append(np.ascontiguousarray(value))
        return {"array": value.dtype.str, "shape": list(value.shape), "start": start}
    if isinstance(value, Sequence):
        return [_encoded(item, arrays) for item in value]
    raise TypeError(f"An answer holds a {type(value).__name__}, which a journal cannot keep.")


def _decoded(value: Any, path: Path, line: _Line) -> Any:
    """Turn plain values into an answer, with the arrays of its line."""
    if isinstance(value, list):
        return [_decoded(item, path, line) for item in value]
    if not isinstance(value, dict):
        return value
    kind, shape = value.get("array"), value.get("shape")
    sizes = [*shape, value.get("start")] if isinstance(shape, list) else [-1]
    many = math.prod(sizes[:-1]) if all(type(size) is int and size >= 0 for size in sizes) else -1
    if (
        not isinstance(kind, str)
        or kind not in _ARRAYS
        or not 0 <= many * int(kind[2:]) <= line.end - line.arrays - sizes[-1]
    ):
        raise LedgerCorrupted(f"The journal {str(path)!r} names an array that it does not hold. {_FORGET}")
    try:
        found = np.fromfile(path, dtype=np.dtype(kind), count=many, offset=line.arrays + sizes[-1])
    except OSError as error:
        raise LedgerError(f"The journal {str(path)!r} cannot be read: {error.strerror or error}.") from None
    if len(found) != many:
        raise LedgerError(f"The journal {str(path)!r} was changed while it was read.")
    return found.reshape(shape)


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
