"""How a table is read, as plain values in which equal meanings are equal: the part of its owner's facts that this room knows."""

from __future__ import annotations

import codecs
import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.data.files.stream import Piece, Stream, attempt, pieces_from
from understudy.errors import DataError
from understudy.schema import Column, Constraint, Schema
from understudy.schema.coding.calendar import day_of
from understudy.schema.coding.reading import distinct_entries, series_of_arrow
from understudy.schema.constraints.syntax import tokenize

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from understudy.schema import Constraint

# ----------------------------------------------------------------------------------------
# What happens to each record before it is encoded: columns derived from others, and records left out.
#
# Both are functions of one record alone and of public rules, so neighbouring tables stay neighbours: a record that
# is replaced by another is replaced, left out, or put in, and nothing else changes. The *number* of records
# left is therefore no longer fixed by the neighbour relation, even where that of the raw table is: a table read
# with cleaning rules says so (``filtered``), and the curator keeps its number of rows private unless it is
# declared or paid for.

Part = Literal["year", "quarter", "month", "weekday"]
PARTS: tuple[Part, ...] = ("year", "quarter", "month", "weekday")


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A column computed from another one, record by record; skipped if the source already has it.

    Parameters
    ----------
    name
        The new column.
    source
        The column it is computed from.
    part
        For dates: ``"year"``, ``"quarter"`` (1 to 4), ``"month"`` (1 to 12) or ``"weekday"`` (1 for Monday).
    values
        Instead of a part: pairs of a spelling in the source and the value that takes its place. Entries with
        another spelling become missing.

    Examples
    --------
    >>> month = Derived(name="month", source="born", part="month")
    >>> month.of("2019-03-15"), month.of("unknown")
    (3, None)
    >>> Derived(name="sex", source="is_female", values=(("True", "F"), ("False", "M"))).of(True)
    'F'
    """

    name: str
    source: str
    part: Part | None = None
    values: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if (self.part is None) == (not self.values):
            raise DataError(
                f"The derived column {self.name!r} needs either a part of a date or a list of values."
            )
        if self.part is not None and self.part not in PARTS:
            raise DataError(f"The derived column {self.name!r}: part must be one of {', '.join(PARTS)}.")

    def of(self, entry: Any) -> int | str | None:
        """Return the value for one entry, or None if there is none."""
        if self.part is not None:
            return _part_of(entry, self.part)
        return dict(self.values).get(_spelling(entry))


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Derived columns and cleaning rules, applied while a table is read.

    Parameters
    ----------
    derived
        Columns to compute where the source lacks them.
    rules
        A record is kept if it obeys all of them, as raw values (`Constraint.holds_raw`).

    Privacy
    -------
    Let ``f`` map a raw record to its prepared form or to nothing. The prepared table is ``f`` of every record, so
    adding or removing a raw record adds or removes at most one prepared record, and replacing one replaces,
    adds, removes or changes at most one. Which records were left out, and how many, is private.
    """

    derived: tuple[Derived, ...] = ()
    rules: tuple[Constraint, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.derived or self.rules)

    def wanted(self, columns: Sequence[str], header: Sequence[str]) -> list[str]:
        """Return the columns a source must have so that the given ones, and those of the rules, can be made."""
        return list(dict.fromkeys(self._origin(name, header) for name in self._with_rules(columns)))

    def frame(self, frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
        """Prepare a frame in memory. In and out: private."""
        import pandas as pd

        header = [str(name) for name in frame.columns]
        made: dict[str, Any] = {}
        for name in self._with_rules(columns):
            source = frame.iloc[:, header.index(self._origin(name, header))]
            recipe = self.recipe(name, header)
            made[name] = source if recipe is None else derive(source, recipe).set_axis(source.index)
        prepared = pd.DataFrame({name: made[name] for name in columns}, index=frame.index)
        kept = self._kept(made, len(frame))
        return prepared if kept is None else prepared[kept].reset_index(drop=True)

    def batch(self, batch: pa.RecordBatch | pa.Table, columns: Sequence[str]) -> pa.RecordBatch | pa.Table:
        """Prepare a batch that has the columns of `wanted`. In and out: private."""
        import pyarrow as pa

        header = batch.schema.names
        arrays: dict[str, Any] = {}
        for name in self._with_rules(columns):
            recipe = self.recipe(name, header)
            array = batch.column(self._origin(name, header))
            arrays[name] = (
                array if recipe is None else pa.array(derive(_series(array), recipe), from_pandas=True)
            )
        kept = self._kept({name: _series(arrays[name]) for name in self._rule_columns}, batch.num_rows)
        picked = [arrays[name] for name in columns]
        built = (
            pa.table(dict(zip(columns, picked, strict=True)))
            if isinstance(batch, pa.Table)
            else pa.record_batch(picked, names=list(columns))
        )
        return built if kept is None else built.filter(pa.array(kept))

    # ------------------------------------------------------------------ pieces

    @property
    def _rule_columns(self) -> list[str]:
        return list(dict.fromkeys(name for rule in self.rules for name in rule.columns))

    def _with_rules(self, columns: Sequence[str]) -> list[str]:
        return list(dict.fromkeys([*columns, *self._rule_columns]))

    def recipe(self, name: str, header: Sequence[str]) -> Derived | None:
        """Return how a column is derived, or None where the source has it."""
        if name in header:
            return None
        return next((item for item in self.derived if item.name == name), None)

    def _origin(self, name: str, header: Sequence[str]) -> str:
        recipe = self.recipe(name, header)
        return name if recipe is None else recipe.source

    def _kept(self, columns: Mapping[str, Any], rows: int) -> npt.NDArray[np.bool_] | None:
        if not self.rules:
            return None
        kept = np.ones(rows, dtype=bool)
        for rule in self.rules:
            kept &= rule.holds_raw(columns)
        return kept


class PreparedStream:
    """A stream whose records are prepared on the way."""

    def __init__(self, stream: Stream, preparation: Preparation, header: Sequence[str]) -> None:
        self.label = stream.label
        self._stream = stream
        self._preparation = preparation
        self._header = tuple(header)

    def stamp(self) -> object:
        """Return something that changes when the stored records change."""
        return self._stream.stamp()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over prepared batches with the given columns."""
        needed = self._preparation.wanted(columns, self._header)
        for batch in self._stream.batches(needed):
            yield attempt(lambda batch=batch: self._preparation.batch(batch, columns), self._explain)  # type: ignore[misc]

    def pieces(self, columns: Sequence[str], rows: int = 0) -> Iterator[Piece]:
        """Iterate over pieces whose records are prepared where they are read; it begins with the first row."""
        needed = self._preparation.wanted(columns, self._header)

        def prepared(piece: Piece) -> Iterator[pa.RecordBatch]:
            for batch in piece():
                yield attempt(lambda batch=batch: self._preparation.batch(batch, columns), self._explain)  # type: ignore[misc]

        for piece in pieces_from(self._stream, needed, 0):
            yield partial(prepared, piece)

    def _explain(self, error: Exception) -> DataError:
        return DataError(f"The records of {self.label!r} cannot be prepared. Check the types of its columns.")


def derive(source: pd.Series[Any], recipe: Derived) -> pd.Series[Any]:
    """Compute a derived column, each distinct entry once."""
    import pandas as pd

    places, distinct = distinct_entries(source)
    made = [recipe.of(entry) for entry in distinct]
    column = np.array([*made, None], dtype=object)[places]  # -1: nothing was entered
    return pd.Series(column, dtype="Int64" if recipe.part is not None else object)


def _series(array: Any) -> Any:
    """Return an Arrow column as a pandas Series."""
    return series_of_arrow(array.combine_chunks() if hasattr(array, "combine_chunks") else array)


def _part_of(entry: Any, part: Part) -> int | None:
    day = _day(entry)
    if day is None:
        return None
    found: dict[Part, Callable[[dt.date], int]] = {
        "year": lambda date: date.year,
        "quarter": lambda date: (date.month + 2) // 3,
        "month": lambda date: date.month,
        "weekday": lambda date: date.isoweekday(),
    }
    return found[part](day)


def _day(entry: Any) -> dt.date | None:
    if isinstance(entry, dt.date | np.datetime64):
        return day_of(entry)
    if isinstance(entry, str):
        try:
            return dt.datetime.fromisoformat(entry.strip()).date()
        except ValueError:
            return None
    return None


def _spelling(entry: Any) -> str:
    """Return how an entry would be written in a file."""
    if isinstance(entry, float | np.floating) and float(entry).is_integer():
        return str(int(entry))
    return str(entry).strip()


_FOR_PEOPLE = ("description", "unit", "origin", "missing_text", "decimals", "decode_by")
"""What a column says about its published values; it decides nothing about what is read."""


def reading_facts(
    schema: Schema,
    *,
    prepare: Preparation | None = None,
    alternatives: Mapping[str, Mapping[str, Column]] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return what decides which codes each record gets, by part.

    Order and prose do not count, nor do the rules that synthetic records obey: no record is held against those. Columns that were measured
    under the budget are not the owner's to declare: they are released data, and none of these facts. Of linked tables it counts how they are joined, since that is
    asked of the records before anything is charged: whether every event has its entity, whether keys repeat or are missing.

    Parameters
    ----------
    schema, prepare, separator, encoding, names
        As `read_table` takes them.
    alternatives
        Other forms of some columns, by column and name.

    Examples
    --------
    >>> one = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean, description: smokes}]")
    >>> two = Schema.parse("columns: [{name: b, kind: boolean}, {name: a, kind: boolean}]")
    >>> reading_facts(one) == reading_facts(two)
    True
    """
    ready = prepare or Preparation()
    linked = {} if schema.entity is None or schema.entity.tables is None else {LINKED: [link_facts(schema)]}
    return linked | {
        "columns": sorted(
            (_column(column) for column in schema.columns if column.measured_facts != column.facts),
            key=lambda item: str(item["name"]),
        ),
        "transformations": {
            name: sorted((_column(column) for column in forms.values()), key=repr)
            for name, forms in sorted((alternatives or {}).items())
        },
        "derived columns": sorted(
            [item.name, item.source, item.part, sorted(map(list, item.values))] for item in ready.derived
        ),
        "cleaning rules": sorted(map(rule_meaning, ready.rules)),
        "reading": [separator, _codec(encoding), *([] if names is None else [list(names)])],
    }


LINKED = "linked tables"
"""The part of the facts that says how linked tables are joined."""


def link_facts(schema: Schema, *, computed: Collection[str] = ()) -> dict[str, Any]:
    """Return how a table of entities and a table of events are joined; ``computed`` are columns that no table holds."""
    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    return {
        "tables": list(entity.tables),
        "key": entity.id,
        "reference": entity.reference or entity.id,
        "orphans": entity.orphans,
        "own table": entity.min_events == 0,
        "fixed": sorted(set(entity.fixed) - set(computed)),
    }


def rule_meaning(rule: Constraint) -> str:
    """Return the text of a rule with its spaces normalised.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: age, kind: integer, minimum: 0, maximum: 9}]")
    >>> rule_meaning(Constraint.parse("age>=3   and age<7", schema))
    'age >= 3 and age < 7'
    """
    return " ".join(
        repr(token.value) if token.kind == "text" else token.text for token in tokenize(rule.text)
    ).strip()


def _column(column: Column) -> dict[str, Any]:
    facts = {key: value for key, value in column.to_dict().items() if key not in _FOR_PEOPLE}
    facts.pop("levels", None)  # how groups are found matters only where they are codes
    return facts if column.groups is None else {**facts, "groups": column.groups.tolist()}


def _codec(encoding: str | None) -> str:
    try:
        return codecs.lookup(encoding or "utf-8").name
    except LookupError:  # refused when the table is read
        return str(encoding)
