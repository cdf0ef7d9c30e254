"""A table without a schema: its raw entries as text, each read by itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import code_dtype
from understudy.data.files.csv import CsvStream
from understudy.data.files.dataset import DatasetStream
from understudy.data.files.stream import attempt, is_csv, name_problems
from understudy.data.holdout import HoldOut
from understudy.data.local import LocalTable
from understudy.data.persons import People, hashed_texts, ids_from_pandas
from understudy.data.sources import in_memory, read_frame
from understudy.data.sql.source import is_database
from understudy.errors import DataError
from understudy.schema import Categorical, Codes, Schema
from understudy.schema.coding.profile import PROFILE, profile_of, text_of_entry
from understudy.schema.coding.reading import distinct_entries, series_of_arrow

__all__ = ["EntryTable", "header_of", "read_entries"]

Places = npt.NDArray[np.int64]


class EntryTable(LocalTable):
    """Raw entries in memory, seen through a public schema that every table fits: what each entry looks like.

    The codes of a column are the cells of `PROFILE`, a fixed partition of everything that an entry can be. Behind them the table keeps
    the texts themselves, for looks that ask for more.

    Parameters
    ----------
    columns
        For each column the place of each row's text in a list of distinct texts, and that list; -1 where there is nothing.
    persons, filtered
        As for `LocalTable`.

    Privacy
    -------
    The table is private. The schema and the code of an entry depend on that entry and on public rules alone.
    """

    _texts: dict[str, tuple[Places, list[str]]]

    @classmethod
    def of(
        cls,
        columns: Mapping[str, tuple[Places, list[str]]],
        *,
        persons: Mapping[str, People] | None = None,
        filtered: bool = False,
    ) -> EntryTable:
        """Put a table together from its texts."""
        nothing = profile_of(None)
        codes: dict[str, Codes] = {}
        for name, (places, distinct) in columns.items():
            cells = np.array([*map(profile_of, distinct), nothing], dtype=code_dtype(len(PROFILE)))
            codes[name] = cells[places]
        return cls._with_texts(
            profile_schema(tuple(columns)), codes, dict(persons or {}), dict(columns), filtered=filtered
        )

    @classmethod
    def _with_texts(
        cls,
        schema: Schema,
        codes: Mapping[str, Codes],
        persons: Mapping[str, People],
        texts: dict[str, tuple[Places, list[str]]],
        *,
        filtered: bool,
    ) -> EntryTable:
        table = cls._adopting(schema, codes, persons, filtered=filtered)
        assert isinstance(table, EntryTable)
        table._texts = texts
        return table

    def counts_of_texts(
        self, column: str, cell_of: Callable[[str], int], cells: int
    ) -> npt.NDArray[np.int64]:
        """Return how many entries are in each of some cells. Private.

        Parameters
        ----------
        cell_of
            The cell of a text by itself, or a negative number for none. It must answer for every text.
        """
        places, distinct = self._texts[column]
        many = np.bincount(places[places >= 0], minlength=len(distinct))
        which = np.fromiter(map(cell_of, distinct), dtype=np.int64, count=len(distinct))
        found = np.zeros(cells, dtype=np.int64)
        np.add.at(found, which[which >= 0], many[which >= 0])
        return found

    def texts(self, column: str) -> Counter[str]:
        """Return how often each text occurs in a column. Private."""
        places, distinct = self._texts[column]
        many = np.bincount(places[places >= 0], minlength=len(distinct))
        return Counter({text: int(n) for text, n in zip(distinct, many, strict=True) if n})

    def beyond_codes(self) -> Iterator[bytes]:
        """Return what a digest of the records needs beside the codes: how often each text occurs in each column, in whatever order it is stored. Private."""
        for name in self._texts:
            counted = sorted(self.texts(name).items())
            yield json.dumps([name, counted]).encode("ascii")

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> EntryTable:
        """Return the table with at most ``max_rows`` rows per person, chosen as `LocalTable.truncated` chooses them.

        The record of a row is its texts, not their codes: rows with equal codes and other texts have words of their own.
        """
        kept, _ = self._kept(id_column, max_rows, key)
        return EntryTable._with_texts(
            self._schema,
            {name: codes[kept] for name, codes in self._columns.items()},
            {},
            {name: (places[kept], distinct) for name, (places, distinct) in self._texts.items()},
            filtered=self._filtered,
        )

    def _records_as_words(self, key: bytes) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.uint64]]:
        """Return what gives the texts at some places as words: two for each, a keyed hash."""
        import pyarrow as pa

        hashed: list[tuple[Places, npt.NDArray[np.uint64]]] = []
        for places, distinct in self._texts.values():
            texts = pa.array([text.encode("utf-8", "surrogatepass") for text in distinct], pa.large_binary())
            nothing = np.zeros((1, 2), np.uint64)
            hashed.append((places, np.concatenate([hashed_texts(texts, key), nothing])))
        return lambda chosen: np.concatenate(
            [np.zeros((len(chosen), 0), np.uint64), *(words[places[chosen]] for places, words in hashed)],
            axis=1,
        )


def profile_schema(columns: Sequence[str]) -> Schema:
    """Return the public schema of raw entries: one column of cells of `PROFILE` each."""
    return Schema(name="entries", columns=tuple(Categorical(name, values=PROFILE) for name in columns))


def header_of(
    source: Any,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    header: bool = False,
) -> tuple[str, ...]:
    """Return the names of the columns of a table, which are public; no record is kept.

    Parameters
    ----------
    source
        A CSV or Parquet file, a folder of Parquet files, or a frame.
    separator, encoding, names
        Of a CSV file; see `read_table`. An empty list of names is refused: how many columns a file has would be counted in its first record.
    header
        Whether somebody said that the first line of a CSV file names its columns. Otherwise a line that reads like a record is refused.

    Raises
    ------
    DataError
        If the source has no header that can be read, or is of a kind that cannot be read without a schema.

    Privacy
    -------
    Out: public, if the header is one. A first line with a field that is a number, a date, a truth word or a missing entry is taken for a record, by the line alone and
    without a word of it in the message. A record of names and other words cannot be told from a header: read the names that a plan prints.
    """
    if isinstance(source, str | PathLike) and not is_database(source):
        path = Path(source)
        if is_csv(path):
            if names is not None and not names:
                raise DataError(
                    f"Discovery needs the names of the columns of {path.name!r}, and they cannot be numbered: a record would decide how many there are. "
                    "Give them in the order of the file (names=, --names)."
                )
            stream = CsvStream(path, None, separator=separator, encoding=encoding or "utf-8", names=names)
            if names is None and not header and any(map(_reads_like_an_entry, stream.header)):
                raise DataError(_A_RECORD.format(file=path.name))
            return _checked(name for name in stream.header if name)
        if separator is not None or encoding is not None or names is not None:
            raise DataError(
                "separator=, encoding= and names= apply to CSV files only; this source is not one."
            )
        return _checked(name for name in DatasetStream.from_paths([path], ()).header if name)
    return _checked(_names_of(_table_of(source)))


_A_RECORD = (
    "The first line of {file!r} may be a record: a field of it is empty or reads as a number, a date, a truth word or a missing entry. Column names become public, "
    "so names were wanted there. If the line is a record, give the names of the columns (names=, --names). If it names the columns, say so (--header), or rename those that read so."
)


def _reads_like_an_entry(field: str) -> bool:
    return PROFILE[profile_of(field)].partition(" ")[0] in ("missing", "truth", "date", "number")


def _checked(names: Iterable[str]) -> tuple[str, ...]:
    """Refuse repeated names, by their places: a first line that is a record after all must not be quoted."""
    found = tuple(names)
    for place, name in enumerate(found):
        if name in found[:place]:
            raise DataError(
                f"The columns cannot be told apart: named columns {found.index(name) + 1} and {place + 1} have the same name. Rename one of them; if the first line "
                "is a record, give the names of the columns (names=, --names)."
            )
    return found


def _table_of(source: Any) -> Any:
    """Return a source that is in memory as a pandas frame or an Arrow table."""
    table = attempt(lambda: in_memory(source), _unreadable)
    if table is not None:
        return table
    raise DataError(
        "A table without a schema can be a CSV or Parquet file, a folder of Parquet files, or a frame in memory. For a database, declare "
        "the schema, or write the table to a file first."
    )


def _names_of(table: Any) -> list[str]:
    return [str(name) for name in getattr(table, "column_names", table.columns)]


def _column_of(table: Any, place: int) -> Any:
    """Return a column as a pandas Series; dates of an Arrow table keep their type, which holds more years than Python's."""
    return table.iloc[:, place] if hasattr(table, "iloc") else series_of_arrow(table.column(place))


def _unreadable(error: Exception) -> DataError:
    return DataError("The columns of the table cannot be read as text. Check their types.")


def read_entries(
    source: Any,
    columns: Sequence[str],
    *,
    id_column: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    hold_out: HoldOut | None = None,
) -> EntryTable:
    """Read the raw entries of some columns, every one as a text of its own.

    Parameters
    ----------
    source
        A CSV or Parquet file, a folder of Parquet files, or a frame.
    columns
        Names of the columns.
    id_column
        The column that says who a row is about, for a person-level privacy unit; its entries are replaced by numbers and never shown.
    separator, encoding, names
        Of a CSV file; see `read_table`.
    hold_out
        Read one part of the rows; see `read_table`.

    Privacy
    -------
    In and out: private. Hand the table to a curator and keep no other reference to it. The columns of a CSV file are read as text, and those of
    typed sources become text entry by entry (:func:`~understudy.schema.coding.profile.text_of_entry`): no entry reads otherwise because of another one.

    Examples
    --------
    >>> import pandas as pd
    >>> table = read_entries(pd.DataFrame({"age": [41, 7], "ward": ["north", "?"]}), ["age", "ward"])
    >>> table
    EntryTable(2 columns; records not shown)
    """
    if isinstance(source, str | PathLike) and not is_database(source):
        table = read_frame(source, separator=separator, encoding=encoding, names=names)
    else:
        table = _table_of(source)
    if hold_out is not None:
        divide = hold_out.frame if hasattr(table, "iloc") else hold_out.arrow
        table = attempt(lambda: divide(table), _unreadable)
    found = _names_of(table)
    wanted = [*columns, *(() if id_column is None else (id_column,))]
    name_problems("The columns do not fit the table", found, wanted).raise_if_any(DataError)

    def read(name: str) -> Any:
        return attempt(lambda: _column_of(table, found.index(name)), _unreadable)

    texts = {name: attempt(lambda name=name: _texts_of(read(name)), _unreadable) for name in columns}  # type: ignore[misc]
    persons: dict[str, People] = {}
    if id_column is not None:
        persons[id_column] = ids_from_pandas(read(id_column), id_column)
    return EntryTable.of(texts, persons=persons, filtered=hold_out is not None)


def _texts_of(series: Any) -> tuple[Places, list[str]]:
    """Return the distinct texts of a column, and the place of each row's; entries of different types with one text are one."""
    places, entries = distinct_entries(series)
    known: dict[str, int] = {}
    table = np.empty(len(entries) + 1, dtype=np.int64)
    table[-1] = -1
    for place, entry in enumerate(entries):
        text = text_of_entry(entry)
        table[place] = -1 if text is None else known.setdefault(text, len(known))
    return table[places], list(known)
