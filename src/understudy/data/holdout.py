"""Rows that are set aside before a fit, so that what was learnt can be tested on records that had no part in it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.files.stream import Piece, Stream, attempt, pieces_from
from understudy.data.identity import digest_content
from understudy.data.persons import id_text
from understudy.data.private_files import write_private
from understudy.errors import DataError
from understudy.schema.coding.reading import distinct_entries

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HoldOut", "PartStream"]

FORMAT = "understudy hold-out 1"

_KEY_BYTES = 32
_IN_MEMORY = {
    ("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"),
}  # fmt: skip
_BLOCK = 4096
"""Rows whose words come from one call of the hash."""

Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class HoldOut:
    """Which rows of a table are set aside: a share, and a secret key that decides for each row or person by itself.

    Row number ``i`` is set aside if its word, a keyed hash of ``i``, is below ``share * 2**64``; with an id column the word is a keyed hash
    of the id, so that all rows of a person are on one side. No value of a record has a part in it.

    Attributes
    ----------
    share
        Between 0 and 1, both excluded.
    key
        32 random bytes. As private as the table.
    id_column
        The column that says who a row is about; None to choose row by row.
    table
        Keyed digest of the table that was divided, in hexadecimal digits, where it is known.
    aside
        Which part is read: the rows that are set aside, or (as a fit reads it) all others.

    Privacy
    -------
    A fit that reads only the rows that are not set aside has the guarantee of a fit that reads all of them, *about the whole table*, at no charge.
    *Proof.* For an ideal hash the words are independent and uniform. Let ``T`` and ``T'`` be neighbours: one row (or person) is added,
    removed or replaced. Give every record that both have the same word in both, and the replaced record the word of the one it replaces; this is a coupling
    of two equal laws, because the words are identically distributed whatever their row numbers or ids are. Under it the rows that are read, ``S(T)`` and
    ``S(T')``, are equal or neighbours by the same relation. So for every value ``w`` of the coupled words the fit ``M`` satisfies its promise between
    ``S_w(T)`` and ``S_w(T')``, and the output on ``T`` and on ``T'`` are mixtures of these with the same weights. Pure and approximate differential
    privacy, zero-concentrated (joint quasi-convexity of Rényi divergence) and Gaussian differential privacy (a trade-off function is convex) all
    survive such mixtures, and the argument holds for all fits that share the key together, because they share ``w``. What secret sampling would
    add to the guarantee is not claimed.

    The proof averages over the key, so the key is private: for somebody who knows it, a row inserted in the middle of a table shifts the words of all rows
    after it. The number of rows that are read is treated as private under every unit, also where all neighbours have equally many: nothing exact is
    written into a ledger.

    Examples
    --------
    >>> half = HoldOut(0.5, key=bytes(32))
    >>> half
    HoldOut(share=0.5, id_column=None, aside=False)
    >>> read, aside = half.chosen(1000).sum(), half.set_aside.chosen(1000).sum()
    >>> int(read + aside)
    1000
    """

    share: float
    key: bytes = field(repr=False)
    id_column: str | None = None
    table: str = field(default="", repr=False)
    aside: bool = False

    def __post_init__(self) -> None:
        number = self.share
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 1:
            raise DataError(
                f"The share of rows to hold out ({number!r}) must lie between 0 and 1, such as 0.2."
            )
        if len(self.key) != _KEY_BYTES:
            raise DataError(f"The key of a hold-out must have {_KEY_BYTES} bytes.")

    @classmethod
    def of(cls, source: Any, share: float, *, id_column: str | None = None) -> HoldOut:
        """Draw a key for a table.

        Privacy
        -------
        In: private; the content is digested with the new key, so that another table is not divided by mistake. Out: private.

        Raises
        ------
        DataError
            If rows are to be held out of a table whose rows have no order of their own: several files, a folder, a lazy frame.
        """
        drawn = cls(share, secrets.token_bytes(_KEY_BYTES), id_column=id_column)
        drawn._require_order(source)
        digest = drawn._digest(source)
        if not digest and id_column is None:
            raise DataError(
                "Rows cannot be held out of this table: its content cannot be recognised when it is read again. Write it to a file first."
            )
        return replace(drawn, table=digest)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> HoldOut:
        """Read what :meth:`write` wrote.

        Raises
        ------
        DataError
            If the file is absent or something else, belongs to another user, is open to others, or is a link: a key that others know protects nobody.
        """
        name = Path(path).name
        wrong = DataError(
            f"{name!r} is not a file that `understudy synth --hold-out` wrote. Give that file, or a table of held-out records."
        )

        body, private = _own_file(Path(path), wrong)

        def parsed() -> HoldOut:
            content = json.loads(body)
            if content.get("format") != FORMAT:
                raise wrong
            return cls(
                content["share"],
                bytes.fromhex(content["key"]),
                id_column=content["id_column"],
                table=str(content["table"]),
            )

        found = attempt(parsed, lambda _: wrong)
        if not private:
            raise DataError(
                f"{name!r} belongs to another user or is open to others, and the key of a hold-out has to be secret. "
                "If nobody else has read it, make it yours alone (chmod 600); otherwise make a new hold-out with a new fit."
            )
        return found

    def write(self, path: str | PathLike[str]) -> None:
        """Write share and key to a file for its owner alone (permissions 600). It holds no record.

        Privacy
        -------
        Out: private. Whoever has the file knows which row numbers or ids had no part in the fit and can check a guess of the *whole* table.
        """
        content = {
            "format": FORMAT,
            "private": "Keep this file as you keep the table: the guarantee of the fit presumes that the key is secret.",
            "share": self.share,
            "id_column": self.id_column,
            "key": self.key.hex(),
            "table": self.table,
        }
        write_private(Path(path), json.dumps(content, indent=1).encode("utf-8"))

    @property
    def set_aside(self) -> HoldOut:
        """The other part: the rows that the fit does not read."""
        return replace(self, aside=True)

    def fingerprint(self) -> str:
        """Return a digest that tells this division from others. It says nothing about the table."""
        facts = json.dumps([self.share, self.id_column]).encode("utf-8")
        return hashlib.blake2b(facts, key=self.key, digest_size=16, person=b"hold-out mark").hexdigest()

    def require(self, source: Any) -> None:
        """Refuse a table whose content is not that of the table that was divided.

        Where rows are held out, their order counts: the proof takes every row to have the same word whenever it is read.

        Privacy
        -------
        In: private. Out: for the owner of the table, who has both.
        """
        self._require_order(source)
        if self.id_column is None and not self.table:
            raise DataError(
                "The hold-out does not say for which table it was made. Make a new one with a new fit."
            )
        if self.table and self._digest(source) != self.table:
            raise DataError(
                "The hold-out was made for another table, or the table was changed since: its rows would be divided otherwise. Use the table "
                "as it was, or make a new hold-out with a new fit (another --hold-out-file)."
            )

    def _digest(self, source: Any) -> str:
        keyed = hashlib.blake2b(key=self.key, digest_size=32, person=b"hold-out table")
        found = digest_content(source, keyed, in_order=self.id_column is None)
        return "" if found is None else found.hex()

    def _require_order(self, source: Any) -> None:
        """Refuse to hold out rows by their number where not every reading finds them in the same order."""
        if self.id_column is not None:
            return
        one_file = isinstance(source, str | PathLike) and not Path(fspath(source)).is_dir()
        kind = type(source)
        in_memory = (kind.__module__.partition(".")[0], kind.__name__) in _IN_MEMORY
        if not one_file and not in_memory:
            raise DataError(
                "Rows are held out by their number, so they need an order that every reading finds: one file, or a frame in memory. Join several files "
                "into one, collect a lazy frame, or protect people and hold out people (--id-column)."
            )

    # ------------------------------------------------------------------ choosing

    def chosen(self, rows: int, start: int = 0) -> Chosen:
        """Say for each of some consecutive rows whether it belongs to this part. Private."""
        return self._side(self._words_of_rows(start, rows))

    def chosen_persons(self, ids: Sequence[object]) -> Chosen:
        """Say for each of some ids whether its rows belong to this part. Private."""
        words = [
            hashlib.blake2b(
                _text(item).encode("utf-8", "surrogatepass"), key=self.key, digest_size=8
            ).digest()
            for item in ids
        ]
        return self._side(np.frombuffer(b"".join(words), dtype="<u8"))

    def _side(self, words: npt.NDArray[np.uint64]) -> Chosen:
        aside = words < np.uint64(min(2**64 - 1, int(self.share * 2**64)))
        return aside if self.aside else ~aside

    def _words_of_rows(self, start: int, rows: int) -> npt.NDArray[np.uint64]:
        if not rows:
            return np.zeros(0, np.uint64)
        first, last = start // _BLOCK, (start + rows - 1) // _BLOCK
        drawn = b"".join(
            hashlib.shake_256(self.key + b"rows" + block.to_bytes(8, "big")).digest(8 * _BLOCK)
            for block in range(first, last + 1)
        )
        skipped = start - first * _BLOCK
        return np.frombuffer(drawn, dtype="<u8")[skipped : skipped + rows]

    # ------------------------------------------------------------------ reading

    def frame(self, frame: Any) -> Any:
        """Return the rows of a pandas frame that belong to this part. Private."""
        if self.id_column is None:
            return frame[self.chosen(len(frame))]
        names = [str(name) for name in frame.columns]
        if self.id_column not in names:
            raise self._no_ids()
        import pandas as pd

        ids = frame.iloc[:, names.index(self.id_column)]
        ids = ids.mask(ids.isna())  # missing in any spelling is nobody
        # pandas takes some ids for equal that are not those of one person (True and 1, texts up to a NUL character), and the first would decide for all
        apart = ids.dtype == object or isinstance(ids.dtype, pd.StringDtype)
        places, distinct = distinct_entries(ids) if apart else pd.factorize(ids)
        kept = np.append(self.chosen_persons(list(distinct)), True)  # rows of nobody are refused later
        return frame[kept[places]]

    def arrow(self, data: Any, *, start: int = 0) -> Any:
        """Return the rows of an Arrow table or batch that belong to this part. Private."""
        import pyarrow as pa

        if self.id_column is None:
            return data.filter(pa.array(self.chosen(data.num_rows, start)))
        if self.id_column not in data.schema.names:
            raise self._no_ids()
        ids = data.column(self.id_column)
        ids = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
        coded = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
        known = coded.dictionary.to_pylist()
        kept = np.append(self.chosen_persons(known), True)  # rows of nobody are refused later
        kept[: len(known)] |= [item is None or item != item for item in known]
        places = coded.indices.cast(pa.int64()).fill_null(len(kept) - 1).to_numpy(zero_copy_only=False)
        return data.filter(pa.array(kept[places]))

    def _no_ids(self) -> DataError:
        return DataError(
            f"The hold-out keeps the rows of a person together by the column {self.id_column!r}, which the table does not have."
        )


def _own_file(path: Path, wrong: DataError) -> tuple[bytes, bool]:
    """Return the content of a file, no link, and whether it belongs to this user alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        raise wrong from None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        own = facts.st_uid == getattr(os, "getuid", lambda: facts.st_uid)()
        if not stat.S_ISREG(facts.st_mode):
            raise wrong
        return file.read(), own and not facts.st_mode & 0o077


def _text(item: object) -> str:
    """Return an id as text; what names no person, or nobody, is refused where rows are put to persons."""
    try:
        return id_text(item)
    except TypeError:
        return str(item)


class PartStream:
    """A stream of which one part is read: the rows of a fit, or those that were set aside."""

    def __init__(self, stream: Stream, part: HoldOut) -> None:
        self.label = stream.label
        self._stream = stream
        self._part = part

    def stamp(self) -> object:
        """Return something that changes when the stored records change."""
        return self._stream.stamp()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of this part, with the given columns."""
        by = self._part.id_column
        needed = [*columns, *([by] if by is not None and by not in columns else [])]
        seen = 0
        for batch in self._stream.batches(needed):
            part = attempt(lambda batch=batch, seen=seen: self._part.arrow(batch, start=seen), self._explain)  # type: ignore[misc]
            seen += batch.num_rows
            yield part.select(list(columns)) if len(needed) > len(columns) else part

    def pieces(self, columns: Sequence[str], rows: int = 0) -> Iterator[Piece]:
        """Iterate over pieces that are divided where they are read; rows that are chosen by their number are read one after another."""
        by = self._part.id_column
        if by is None:
            yield from (partial(iter, (batch,)) for batch in self.batches(columns))
            return
        needed = [*columns, *([by] if by not in columns else [])]

        def divided(piece: Piece) -> Iterator[pa.RecordBatch]:
            for batch in piece():
                found = attempt(partial(self._part.arrow, batch), self._explain)
                yield found.select(list(columns))

        yield from (partial(divided, piece) for piece in pieces_from(self._stream, needed, 0))

    def _explain(self, error: Exception) -> DataError:
        return DataError(f"The rows of {self.label!r} cannot be divided. Check the type of the id column.")
