"""What attackers see of one run: released numbers, choices, parameters, the ledger, rows, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.data import LocalTable, Table
from understudy.data.events import EventsTable
from understudy.data.persons import KEY_BYTES
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms import Model
from understudy.privacy import Ledger, Unit
from understudy.schema import Schema
from understudy.schema.entities import Entity

# ----------------------------------------------------------------------------------------
# Neighbouring tables on which a broken mechanism shows most.

NARROW = (
    "{name: audit bit, columns: [{name: a, kind: boolean}]}",
    "{name: audit line, columns: [{name: w, kind: real, minimum: 0, maximum: 4, bins: 4}]}",
)
"""The smallest schemas: a mechanism is audited on the first one it takes, where a fit takes milliseconds."""

WIDE = (
    "{name: audit bits, columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]}",
    "{name: audit bins, columns: [{name: w, kind: real, minimum: 0, maximum: 16, bins: 16}]}",
)
"""Schemas with something to choose: columns to relate, or bins to merge."""

RELATED = "{name: audit related bits, columns: [{name: a, kind: boolean}, {name: b, kind: boolean}, {name: c, kind: boolean}]}"
"""Columns that agree with each other: a mechanism that looks at pairs first has triples to look at after them."""

_CROWD = 20
_OTHERS = 3
CROWDED = 5
"""A person that is attacked has so many times the rows that count, or nobody would notice that all of them do."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring tables under a unit; made up, so nothing private.

    Where the unit is a person, the rows of each are alike, so that it does not matter which of them count.

    Examples
    --------
    >>> pair = next(pairs_for(NARROW[0], "add-remove"))
    >>> pair.name, [int(x.sum()) for x in pair.counts(("a",))]
    ('one record or none', [1, 0])
    """

    name: str
    unit: Unit
    first: LocalTable
    second: LocalTable
    _seen: dict[tuple[str, ...], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = field(
        default_factory=dict, repr=False
    )

    def counts(self, clique: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the exact marginals of what counts of both tables: of persons and entities, as many rows or event records as the unit allows."""
        if clique not in self._seen:
            first, second = (counted(table, self.unit).count(clique) for table in (self.first, self.second))
            self._seen[clique] = (first, second)
        return self._seen[clique]


def counted(table: Table, unit: Unit) -> Table:
    """Return what a curator counts of a made-up table whose units have rows that are alike."""
    if unit.id_column is None:
        return table
    return table.truncated(unit.id_column, unit.max_rows, bytes(KEY_BYTES))


def pairs_for(text: str, relation: str, *, max_rows: int = 1) -> Iterator[Pair]:
    """Yield worst cases: one record or none, an outlier beside a constant crowd, opposite corners, a whole person.

    Parameters
    ----------
    text
        A schema, as YAML. The outlier lies at the upper edge of every column, the crowd at the lower.
    relation
        ``"add-remove"`` or ``"replace-one"``.
    max_rows
        Above one: the unit is a person of whom that many rows count, and who has five times as many.
    """
    schema = Schema.parse(text)
    sizes = schema.domain.sizes
    low, high = [0] * len(sizes), [size - 1 for size in sizes]
    partly = [high[0], *low[1:]]
    crowd = [low] * _CROWD
    if max_rows > 1:
        yield _people(schema, relation, low, high, max_rows)
    elif relation == "add-remove":
        unit = Unit.add_remove()
        yield Pair("one record or none", unit, _table(schema, [high]), _table(schema, []))
        yield Pair("an outlier or none", unit, _table(schema, [*crowd, high]), _table(schema, crowd))
        name = "an outlier in one column" if len(sizes) > 1 else "one more of a crowd"
        other = partly if len(sizes) > 1 else low
        yield Pair(name, unit, _table(schema, [*crowd, other]), _table(schema, crowd))
    else:
        unit = Unit.replace_one()
        yield Pair("opposite corners", unit, _table(schema, [high]), _table(schema, [low]))
        yield Pair(
            "an outlier in a crowd", unit, _table(schema, [*crowd, high]), _table(schema, [*crowd, low])
        )
        other = partly if len(sizes) > 1 else [(size - 1) // 2 for size in sizes]
        yield Pair("two outliers", unit, _table(schema, [*crowd, high]), _table(schema, [*crowd, other]))


def related_pair(relation: str) -> Pair:
    """Return a crowd of two opposite kinds, and one record that contradicts both, or none, or one that does not.

    Examples
    --------
    >>> [int(x.sum()) for x in related_pair("add-remove").counts(("a", "b"))]
    [21, 20]
    """
    schema = Schema.parse(RELATED)
    crowd = [[0, 0, 0], [1, 1, 1]] * (_CROWD // 2)
    unit = Unit.add_remove() if relation == "add-remove" else Unit.replace_one()
    instead = [] if relation == "add-remove" else [[1, 1, 1]]
    return Pair(
        "one who contradicts two kinds",
        unit,
        _table(schema, [*crowd, [0, 1, 0]]),
        _table(schema, crowd + instead),
    )


def _people(schema: Schema, relation: str, low: list[int], high: list[int], max_rows: int) -> Pair:
    others = [low] * _OTHERS
    ids = [1 + index for index in range(len(others))]
    rows = CROWDED * max_rows
    mine, me = [high] * rows, [0] * rows
    if relation == "add-remove":
        unit = Unit.add_remove_person("person", max_rows=max_rows)
        second = _table(schema, others, ids)
    else:
        unit = Unit.replace_person("person", max_rows=max_rows)
        second = _table(schema, others + [low] * rows, ids + me)
    return Pair(f"a person with {rows} rows", unit, _table(schema, others + mine, ids + me), second)


_EVENTS = 10
"""Of the entity that is attacked."""


def entity_pair(relation: str, *, max_rows: int) -> Pair:
    """Return tables of events that differ in a whole entity: ten events, beside three others with one each, and none, or one event in their place.

    Examples
    --------
    >>> pair = entity_pair("add-remove", max_rows=2)
    >>> pair.name, [int(counts.sum()) for counts in pair.counts(())]
    ('an entity with 10 events', [8, 6])
    """
    entity = Entity("person", max_events=_EVENTS)
    schema = replace(Schema.parse(NARROW[0]), entity=entity)
    unit = Unit(relation, max_rows, "person")  # type: ignore[arg-type]
    others, ids = [[0]] * _OTHERS, [1 + index for index in range(_OTHERS)]
    instead: list[list[int]] = [] if relation == "add-remove" else [[0]]
    first, second = (
        EventsTable(_table(schema, others + rows, ids + [0] * len(rows)))
        for rows in ([[1]] * _EVENTS, instead)
    )
    return Pair(f"an entity with {_EVENTS} events", unit, first, second)


def _table(schema: Schema, rows: list[list[int]], persons: list[int] | None = None) -> LocalTable:
    codes = np.array(rows, dtype=np.int64).reshape(len(rows), len(schema.names))
    columns = {name: codes[:, index] for index, name in enumerate(schema.names)}
    return LocalTable(schema, columns, persons=None if persons is None else {"person": np.array(persons)})


Floats = npt.NDArray[np.float64]

EVERYTHING = frozenset({"values_seen", "key", "model", "rows"})
"""Parts of an observation; parts that no attacker needs are left empty."""

_ROWS = 40
_MOST_CELLS = 600
_MOST_NUMBERS = 64
_FEW = 8
_NOTHING: Floats = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Observation:
    """One run, as numbers.

    Attributes
    ----------
    ratio
        Log-likelihood of the measurements on the first table minus that on the second.
    values_seen, scales
        Released numbers and their noise: minus the scale for Laplace, the scale for Gaussian, zero for others.
    exactly
        The same numbers, to be counted as outcomes.
    gaps
        Differences of the first of them, which show noise that was used twice.
    low_bits
        For each of the first released numbers, the exponent of its lowest set bit.
    key
        Cliques measured, charges made, or the kind of failure.
    model, totals
        Model parameters; numbers of rows.
    rows, corner
        Counts in rows drawn from the model; how many equal the outlier.
    seconds
        Wall time of the fit.
    """

    ratio: float = 0.0
    values_seen: Floats = field(default_factory=lambda: _NOTHING)
    scales: Floats = field(default_factory=lambda: _NOTHING)
    exactly: tuple[float, ...] = ()
    gaps: Floats = field(default_factory=lambda: _NOTHING)
    low_bits: Floats = field(default_factory=lambda: _NOTHING)
    key: tuple[object, ...] = ()
    model: Floats = field(default_factory=lambda: _NOTHING)
    totals: Floats = field(default_factory=lambda: _NOTHING)
    rows: Floats = field(default_factory=lambda: _NOTHING)
    corner: float = 0.0
    seconds: float = 0.0


def observe(
    model: Model,
    pair: Pair,
    *,
    ledger: Ledger | None = None,
    parts: Collection[str] = EVERYTHING,
    seed: int = 0,
    seconds: float = 0.0,
) -> Observation:
    """Look at one fitted model as every attacker does.

    Parameters
    ----------
    ledger
        What the run was charged to; which charges were made is a public record.
    parts
        Parts that some attacker needs.
    seed
        Of the rows drawn.
    """
    items: list[Measurement | Statistic] = [*model.measurements, *model.statistics]
    values_seen = np.concatenate([_NOTHING, *(item.values.ravel() for item in items)])[:_MOST_NUMBERS]
    scales = np.concatenate([_NOTHING, *(np.full(item.values.size, _signed(item)) for item in items)])
    cliques: list[tuple[str, ...]] = []
    parameters, totals = _NOTHING, _NOTHING
    domain = model.schema.domain
    if "model" in parts:
        cliques = [c for k in (1, 2) for c in combinations(domain.names, k)]
        small = [clique for clique in cliques if domain.cells(clique) <= _MOST_CELLS]
        parameters = np.concatenate([_NOTHING, *(answer.ravel() for answer in model.marginals(small))])
        totals = np.array([model.total, float(len(items))])
    rows, corner = _rows(model, pair, seed) if "rows" in parts else (_NOTHING, 0.0)
    return Observation(
        ratio=log_ratio(model.measurements, pair),
        values_seen=values_seen,
        scales=scales[:_MOST_NUMBERS],
        exactly=tuple(values_seen[:6].tolist()),
        gaps=_gaps(values_seen),
        low_bits=np.array([lowest_bit(x) for x in values_seen[:4]]),
        key=(tuple(item.clique for item in model.measurements), *_charges(ledger)) if "key" in parts else (),
        model=parameters,
        totals=totals,
        rows=rows,
        corner=corner,
        seconds=seconds,
    )


def failure(error: Exception, *, ledger: Ledger | None = None, seconds: float = 0.0) -> Observation:
    """Look at a run that ended in an error: its kind and its words are outputs too."""
    message = (type(error).__name__, str(error))
    return Observation(key=(*message, *_charges(ledger)), exactly=(math.nan,), seconds=seconds)


def lowest_bit(value: float) -> float:
    """Return the exponent of the lowest set bit of a number; 64 for zero.

    Noise added in floating point leaves a trace here: ``1 + x`` has no bits below ``2**-52``, while a small ``x`` has.

    Examples
    --------
    >>> lowest_bit(6.0), lowest_bit(0.375)
    (1.0, -3.0)
    """
    if value == 0 or not math.isfinite(value):
        return 64.0
    mantissa, exponent = math.frexp(value)
    whole = int(math.ldexp(abs(mantissa), 53))
    return float((whole & -whole).bit_length() - 1 + exponent - 53)


def _gaps(values_seen: Floats) -> Floats:
    few = values_seen[:_FEW]
    left, right = np.triu_indices(len(few), 1)
    return np.asarray(few[left] - few[right])


def _signed(item: Measurement | Statistic) -> float:
    return {"laplace": -item.scale, "gaussian": item.scale}.get(item.noise, 0.0)


def _charges(ledger: Ledger | None) -> tuple[tuple[object, ...], ...]:
    if ledger is None:
        return ()
    return tuple(
        (entry.purpose, entry.event.to_dict()["kind"])
        for entry in ledger.entries()
        if entry.event is not None
    )


def log_ratio(measurements: Iterable[Measurement], pair: Pair) -> float:
    """Return the log-likelihood of the first table minus that of the second, given all measurements."""
    total = 0.0
    for item in measurements:
        one, two = pair.counts(item.clique)
        if item.values.shape != one.shape:
            continue
        first, second = np.abs(item.values - one), np.abs(item.values - two)
        if item.noise == "laplace":
            total += float((second - first).sum()) / item.scale
        else:
            total += float((second**2 - first**2).sum()) / (2 * item.scale**2)
    return total


def _rows(model: Model, pair: Pair, seed: int) -> tuple[Floats, float]:
    """Return counts of drawn rows, and how many of them are the outlier; the model says how many rows there are."""
    domain = model.schema.domain
    if model.events is None:
        codes = model.sample_codes(_ROWS, seed=seed)
        table = np.stack([codes[name].astype(np.int64) for name in domain.names], axis=1)
    else:  # event records as the model has them, before rules sort them
        table = model.distribution.sample_codes(_ROWS, np.random.default_rng(seed)).astype(np.int64)
    corner = float((table == np.array([size - 1 for size in domain.sizes])).all(axis=1).sum())
    counts = [
        np.bincount(table[:, index], minlength=size)[:32] / _ROWS for index, size in enumerate(domain.sizes)
    ]
    return np.concatenate([[float(model.default_rows()), corner], *counts]), corner
