"""A table held in memory as columns of small unsigned integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import Counts, MarginalCounter, code_dtype, distinct_records
from understudy.data.persons import (
    People,
    Persons,
    RecordWords,
    by_rows,
    check_key,
    check_max_rows,
    kept_rows,
)
from understudy.data.table import DEFAULT_CHUNK_ROWS, Encoded, read_without
from understudy.errors import DataError, Problems

if TYPE_CHECKING:
    from understudy.schema import Codes, Schema


class LocalTable(Encoded):
    """An encoded table in memory; the usual back end.

    Parameters
    ----------
    schema
        The public schema.
    columns
        Codes of every column of the schema, of equal length: whole numbers from 0 to one below the
        size of the column. They are copied into the smallest unsigned type that fits.
    persons
        For person-level units: per id column, a whole number per row that is the same for rows of the
        same person. ``read_table(..., id_column=...)`` fills this in.

    Raises
    ------
    DataError
        If a column is missing, unknown, of another length, or holds codes outside its domain. All
        problems are reported at once, without values or counts.

    Privacy
    -------
    The table is private and can not be changed. Its repr shows neither values nor the number of rows.

    Examples
    --------
    >>> from understudy.schema import Boolean, Schema
    >>> schema = Schema(columns=(Boolean(name="smokes"), Boolean(name="exercises")))
    >>> table = LocalTable(schema, {"smokes": [0, 1, 1], "exercises": [1, 1, 0]})
    >>> table
    LocalTable(2 columns; records not shown)
    >>> table.count(("smokes",)).tolist()
    [1, 2]
    """

    def __init__(
        self,
        schema: Schema,
        columns: Mapping[str, npt.ArrayLike],
        *,
        persons: Mapping[str, npt.ArrayLike | People] | None = None,
    ) -> None:
        self._schema = schema
        self._columns, self._rows = _checked_columns(schema, columns)
        self._persons = {
            name: _checked_persons(name, ids, self._rows) for name, ids in (persons or {}).items()
        }
        self._filtered = False

    @classmethod
    def _adopting(
        cls,
        schema: Schema,
        columns: Mapping[str, Codes],
        persons: Mapping[str, People],
        *,
        filtered: bool = False,
    ) -> LocalTable:
        """Build a table around arrays that were checked, have the right type and belong to nobody else."""
        table = cls.__new__(cls)
        table._schema, table._columns, table._persons = schema, dict(columns), dict(persons)
        table._rows = len(next(iter(columns.values()), ()))
        table._filtered = filtered
        for array in columns.values():
            array.flags.writeable = False
        return table

    def _marked(self, *, filtered: bool) -> LocalTable:
        """Return this table, marked as one from which records were left out by their values."""
        self._filtered = filtered
        return self

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques, counted together. Private."""
        counter = MarginalCounter(self._schema.domain, cliques)
        counter.add(self._columns, rows=self._rows)
        return counter.counts()

    def distinct(self, columns: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, sorted, and how often each occurs. Private."""
        names = self._names(columns)
        sizes = self._schema.domain.shape(names)
        return distinct_records([self._columns[name] for name in names], sizes, rows=self._rows)

    def chunks(
        self, columns: Sequence[str] | None = None, *, rows: int = DEFAULT_CHUNK_ROWS
    ) -> Iterator[dict[str, Codes]]:
        """Iterate over the records, at most ``rows`` at a time, without copying. Private."""
        names = self._names(columns)
        rows = self._chunk_rows(rows)
        for start in range(0, self._rows, rows):
            yield {name: self._columns[name][start : start + rows] for name in names}

    def _regrouped(self, schema: Schema, groups: Mapping[str, npt.NDArray[np.intp]]) -> LocalTable:
        """Return this table with codes of a coarser schema, given what becomes of each code."""
        columns = dict(self._columns)
        for name, which in groups.items():
            columns[name] = which.astype(code_dtype(schema.domain.size(name)))[self._columns[name]]
        table = LocalTable._adopting(schema, columns, self._persons, filtered=self._filtered)
        table._finer = self if self._finer is None else self._finer
        return table

    _finer: LocalTable | None = None
    """Of a table that was regrouped: the one whose codes decide which rows of a person stay, so that it does not matter what comes first."""

    whose: Persons | None = None
    """Of a table that was cut by person: a number per row that is the same for rows of one person. Private."""

    def people_by_rows(self, id_column: str, most: int) -> Counts:
        """Return how many people have one row, two rows, and so on; those with ``most`` rows or more come last. Private."""
        if id_column not in self._persons:
            raise read_without(id_column)
        return by_rows(self._persons[id_column].numbers, most)

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> LocalTable:
        """Return the table with at most ``max_rows`` rows per person, chosen by a key.

        See `Table.truncated` for the argument. The result cannot be cut again; `whose` still tells which rows are of one person.
        """
        kept, whose = self._kept(id_column, max_rows, key)
        table = LocalTable._adopting(
            self._schema,
            {name: codes[kept] for name, codes in self._columns.items()},
            {},
            filtered=self._filtered,
        )
        table.whose = whose
        return table

    def _kept(self, id_column: str, max_rows: int, key: bytes) -> tuple[npt.NDArray[np.int64], Persons]:
        """Return the places of the rows that stay, in their order, and whose they are."""
        check_max_rows(max_rows)
        check_key(key)
        if id_column not in self._persons:
            raise read_without(id_column)
        return kept_rows(self._persons[id_column], self._records_as_words(key), int(max_rows), key)

    def _records_as_words(self, key: bytes) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.uint64]]:
        """Return what gives the records at some places as words: all that tells rows of a person apart."""
        if self._finer is not None:
            return self._finer._records_as_words(key)
        layout = RecordWords.of(self._schema.domain)
        return lambda places: layout.pack(
            {name: codes[places] for name, codes in self._columns.items()}, len(places)
        )


def _checked_columns(schema: Schema, columns: Mapping[str, npt.ArrayLike]) -> tuple[dict[str, Codes], int]:
    problems = Problems("The codes do not fit the schema")
    checked: dict[str, Codes] = {}
    for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True):
        if name not in columns:
            problems.add(f"column {name!r} is missing")
            continue
        codes = np.asarray(columns[name])
        if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iub"):
            problems.add(f"column {name!r} must be a one-dimensional array of whole numbers")
        elif codes.size and (codes.min() < 0 or codes.max() >= size):
            problems.add(f"column {name!r} has codes outside 0 to {size - 1}; they are private and not shown")
        else:
            checked[name] = codes.astype(code_dtype(size))
            checked[name].flags.writeable = False
    if any(name not in schema.domain for name in columns):
        problems.add("there are columns that the schema does not declare")
    if len({len(codes) for codes in checked.values()}) > 1:
        problems.add("the columns have different lengths")
    problems.raise_if_any(DataError)
    return checked, len(next(iter(checked.values()), ()))


def _checked_persons(name: str, ids: npt.ArrayLike | People, rows: int) -> People:
    if isinstance(ids, People):
        if len(ids) != rows:
            raise DataError(f"The id column {name!r} needs one id per row.")
        return ids
    persons = np.asarray(ids)
    if persons.shape != (rows,) or (rows and persons.dtype.kind not in "iu"):
        raise DataError(f"The id column {name!r} needs one whole number per row.")
    return People.numbered(persons if rows else np.zeros(0, np.int64))
