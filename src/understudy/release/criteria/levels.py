"""Criteria for entities with their events: how many events they have, rates of events, steps from one event to the next, and who goes with whom.

In a release of two levels both tables are event records (:mod:`understudy.data.events`): every entity gives exactly ``k`` of them, ``k`` being the rows that the unit allows. A share of
the records is therefore a mean over *entities* of the share of their events; records that count for as many as their entity has events make shares of *events*. All other criteria can be
used as well: they see the columns of the records (`number_of_events`, `place_of_event`, and one ending in `_before` for each column that is linked to the event before).

One unit is ``k`` records, which is what every sensitivity here is multiplied by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from understudy.errors import WorkloadError
from understudy.privacy.exact_floats import float_up
from understudy.release.criteria.base import Criterion, CriterionConfig, CriterionContext
from understudy.release.criteria.groups import (
    Grouping,
    GroupPart,
    code_values,
    column_of,
    groups_of,
    label_of,
)
from understudy.release.criteria.marginals import MaxMarginalError, beside_marginals
from understudy.release.criteria.means import ConditionalMeans
from understudy.release.record_types import RecordTypes
from understudy.release.regressions.certificates import Conditions, as_slack, group_sums, smallest
from understudy.schema import Clique, Domain, Schema
from understudy.schema.entities import EventColumns

if TYPE_CHECKING:
    import pandas as pd

    from understudy.privacy import Unit
    from understudy.schema.entities import Entity

Ints = npt.NDArray[np.int64]


def _parts(schema: Schema) -> EventColumns:
    """Return what the columns of event records are, or refuse a schema of plain rows."""
    if schema.events_of is None:
        raise WorkloadError(
            "is about entities with their events; the schema has to say whose the rows are (entity, or tables), and the unit has to be that entity"
        )
    return EventColumns.of(schema.events_of)


# ----------------------------------------------------------------------------------------
# Configurations.


def _words(entity: Entity | None) -> tuple[str, str]:
    """Return what the events are called, and whose they are."""
    if entity is None:
        return "rows", ""
    return "rows" if entity.tables is None else entity.tables[1], entity.id


class MeanEventsConfig(CriterionConfig):
    """Largest error of the mean number of events of an entity, in any group of entities."""

    family: ClassVar[str] = "Error of the number of events"

    kind: Literal["mean-events"]
    by: list[str | GroupPart] = Field(
        ["everyone"],
        description="Groups of entities: 'everyone', a column that is fixed about an entity, or such a column with groups.",
    )

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return "mean number of events of an entity"

    @classmethod
    def subject(cls, given: Mapping[str, Any], entity: Entity | None) -> str:
        """Say what a criterion as it was written looks at, for people who know the tables."""
        events, whose = _words(entity)
        return f"Mean number of {events} of a {whose}"

    @classmethod
    def published_value(
        cls, given: Mapping[str, Any], *, schema: Schema, events: pd.DataFrame, key: str, entities: int
    ) -> str:
        """Return the mean number as the published events have it."""
        return f"{len(events) / max(1, entities):.2f}"

    def build(self, context: CriterionContext) -> ConditionalMeans:
        """Return the criterion: all records of an entity hold its number of events (a bin counts for its middle), so their mean is that over entities."""
        parts = _parts(context.schema)
        return ConditionalMeans(
            name=self.name,
            threshold=self.threshold,
            column=parts.number,
            values=code_values(context.schema.column(parts.number)),
            groups=_of_entities(self.by, context.schema, parts),
        )

    def warnings_beside(self, others: Sequence[CriterionConfig], *, published: bool) -> list[str]:
        """Warn where nothing bounds the sizes of groups."""
        return beside_marginals(others, published=published)


class EventRatesConfig(CriterionConfig):
    """Largest error of the share of events with some values of a column, in any group."""

    family: ClassVar[str] = "Error of rates of events"
    measured_in: ClassVar[str] = "share"

    kind: Literal["event-rates"]
    column: str = Field(description="The column of the events that is looked at.")
    values: list[str] = Field(description="The values whose share it is.", min_length=1)
    per: Literal["event", "entity"] = Field(
        "event",
        description="event: the share of all events. entity: the mean over entities of the share of their events.",
    )
    by: list[str | GroupPart] = Field(
        ["everyone"],
        description="Groups: 'everyone', a column (one group per value), or a column with groups.",
    )

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"{self.column}: {', '.join(self.values)}, per {self.per}"

    @classmethod
    def subject(cls, given: Mapping[str, Any], entity: Entity | None) -> str:
        """Say what a criterion as it was written looks at, for people who know the tables."""
        events, whose = _words(entity)
        named = f"{given.get('column')} = {' or '.join(map(str, given.get('values') or ()))}"
        if given.get("per", "event") == "entity":
            return f"Share of the {events} of a {whose} with {named}, on average"
        return f"Share of {events} with {named}"

    @classmethod
    def published_value(
        cls, given: Mapping[str, Any], *, schema: Schema, events: pd.DataFrame, key: str, entities: int
    ) -> str:
        """Return the share as the published events have it; those whose entry is missing or other do not count."""
        column = schema.column(str(given["column"]))
        wanted = [column.labels.index(str(label)) for label in given["values"]]
        codes = np.asarray(schema.encode_frame(events)[column.name])
        counted = (codes < column.value_count) | np.isin(codes, wanted)
        hits = events[[key]].assign(hit=np.isin(codes, wanted))[counted]
        if hits.empty:
            return ""
        of_each = given.get("per") == "entity"
        share = hits.groupby(key)["hit"].mean().mean() if of_each else hits["hit"].mean()
        return f"{100 * float(share):.1f} %"

    def build(self, context: CriterionContext) -> ConditionalMeans | EventRates:
        """Return the criterion."""
        schema, parts = context.schema, _parts(context.schema)
        column = column_of(schema, self.column)
        if column.name not in parts.events:
            raise WorkloadError(f"column {column.name!r} is no column of the events")
        wanted = {label_of(column, label) for label in self.values}
        values = tuple(
            float(code in wanted) if code < column.value_count or code in wanted else math.nan
            for code in range(column.size)
        )
        groups = groups_of(self.by, schema)
        if self.per == "entity":
            return ConditionalMeans(
                name=self.name, threshold=self.threshold, column=column.name, values=values, groups=groups
            )
        return EventRates(
            name=self.name,
            threshold=self.threshold,
            column=column.name,
            values=values,
            number=parts.number,
            weights=code_values(schema.column(parts.number)),
            groups=groups,
        )

    def warnings_beside(self, others: Sequence[CriterionConfig], *, published: bool) -> list[str]:
        """Warn where nothing bounds the sizes of groups."""
        return beside_marginals(others, published=published) if self.per == "entity" else []


class TransitionsConfig(CriterionConfig):
    """Largest error of the share of a step from one value to the next one, from one event of an entity to the following."""

    family: ClassVar[str] = "Error of successive events"
    measured_in: ClassVar[str] = "share of event records"

    kind: Literal["transition-shares"]
    columns: list[str] = Field(
        description="Columns of the events, each looked at with its value in the event before.", min_length=1
    )

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"{', '.join(self.columns)}: before and now"

    @classmethod
    def subject(cls, given: Mapping[str, Any], entity: Entity | None) -> str:
        """Say what a criterion as it was written looks at, for people who know the tables."""
        events, whose = _words(entity)
        listed = " and ".join(map(str, given.get("columns") or ()))
        return f"Every share of a step of {listed} from one of the {events} of a {whose} to the next"

    def build(self, context: CriterionContext) -> ChosenMarginals:
        """Return the criterion."""
        parts = _parts(context.schema)
        pairs = tuple((_before(parts, name, context.schema), name) for name in self.columns)
        return ChosenMarginals(name=self.name, threshold=self.threshold, cliques=pairs)


class CompositionConfig(CriterionConfig):
    """Largest error of the share of a composition: how many events (members) there are, and the values of two that follow each other."""

    family: ClassVar[str] = "Error of the composition of entities"
    measured_in: ClassVar[str] = "share of event records"

    kind: Literal["entity-composition"]
    columns: list[str] = Field(
        description="Columns of the events (members), each looked at in two that follow each other, with how many there are.",
        min_length=1,
    )

    @property
    def metric(self) -> str:
        """What is measured, for people."""
        return f"{', '.join(self.columns)} of two, by their number"

    @classmethod
    def subject(cls, given: Mapping[str, Any], entity: Entity | None) -> str:
        """Say what a criterion as it was written looks at, for people who know the tables."""
        listed = " and ".join(map(str, given.get("columns") or ()))
        return f"Every share of a number of {_words(entity)[0]} with {listed} of two that follow each other"

    def build(self, context: CriterionContext) -> ChosenMarginals:
        """Return the criterion."""
        parts = _parts(context.schema)
        sets = tuple((parts.number, _before(parts, name, context.schema), name) for name in self.columns)
        return ChosenMarginals(name=self.name, threshold=self.threshold, cliques=sets)


def _before(parts: EventColumns, name: str, schema: Schema) -> str:
    """Return the column of the records that holds the value of another one in the event before."""
    column_of(schema, name)
    if name not in parts.before:
        raise WorkloadError(
            f"column {name!r} is not linked to the event before; name it under link of the schema. Linked are {', '.join(parts.before) or 'none'}"
        )
    return parts.before[name]


def _of_entities(
    listed: Sequence[str | GroupPart], schema: Schema, parts: EventColumns
) -> tuple[Grouping, ...]:
    """Return groupings, refusing those by what differs between the events of an entity."""
    groups = groups_of(listed, schema)
    for grouping in groups:
        if grouping.column is not None and grouping.column not in parts.fixed:
            raise WorkloadError(
                f"column {grouping.column!r} is not fixed about an entity, so it makes no groups of entities"
            )
    return groups


# ----------------------------------------------------------------------------------------
# Criteria.


@dataclass(frozen=True, kw_only=True)
class ChosenMarginals(MaxMarginalError):
    """The largest difference of a cell of some marginals, as a share of the rows.

    Parameters
    ----------
    cliques
        The columns of each marginal.

    Privacy
    -------
    As for `MaxMarginalError`, of which it is a part: a maximum over fewer cells, each of which a step changes by at most one.

    Examples
    --------
    >>> domain = Domain(("ward_before", "ward"), (3, 2))
    >>> real = RecordTypes.from_rows(domain, [[0, 0], [0, 1], [1, 1], [2, 0]])
    >>> synthetic = RecordTypes.from_rows(domain, [[0, 0], [0, 0], [1, 1], [2, 0]])
    >>> ChosenMarginals(name="wards", threshold=0.5, cliques=(("ward_before", "ward"),)).value(real, synthetic)
    0.25
    """

    cliques: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cliques:
            raise WorkloadError(f"{self.name!r} needs at least one marginal.")

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        names = dict.fromkeys(name for clique in self.cliques for name in clique)
        return [f"no column named {name!r}" for name in names if name not in domain]

    def _cliques(self, domain: Domain) -> list[Clique]:
        return [domain.canonical(clique) for clique in self.cliques]


@dataclass(frozen=True, kw_only=True)
class EventRates(Criterion):
    """The largest difference of the share of events with some values, in any group of events.

    Parameters
    ----------
    column, values
        The column that is looked at, and for each of its codes 1 (it counts), 0 (it does not) or NaN (the event is left out).
    number, weights
        The column with the number of events of the entity, and what a record counts for by its code: as many events.
    groups
        Groups of events; all of them by default.

    Notes
    -----
    An entity with ``n`` events gives ``k`` records, each of its events ``k/n`` of them in expectation, so that a record that counts ``n`` times makes every event of every entity count
    ``k`` times. With ``w`` for the weight of a record and ``y`` for whether its event counts, the rate is ``sum w y / sum w``. A bin of numbers counts for its middle, in both tables.
    The rate of a group without events in the candidate is taken to be one half. A group that is empty in the real table has no error, but no slack either.

    Privacy
    -------
    *Slack.* With ``a`` the candidate's rate in a group, the real one is within ``T`` of it exactly when ``sum w (y - a - T) < 0`` and ``sum w (a - y - T) < 0`` over the records of the group
    (if it has events). Weights are not negative and public; a record adds a number between the extremes of the expression over all weights and values, or zero outside the group. So a
    step changes a sum by at most the width of that range with zero included, and divided by it the slack has step sensitivity 1 (:class:`~understudy.release.regressions.certificates.Conditions`).

    *Published form.* ``|sum w (y - a)| / W`` over the real records, where ``W`` is the candidate's sum of weights in the group (at least the largest weight ``m``): it is the error where the
    real table has as many events there. ``W`` and ``a`` are public. A record adds between ``-a m`` and ``(1 - a) m``, zero included: a step changes the sum by at most ``m`` if it replaces
    a record (in each of the at most two groups that it touches), and by at most ``max(a, 1 - a) m`` if it adds or removes one. The maximum over groups moves by at most the largest of these over ``W``; ``k`` rows, ``k``
    times. Sums are exact fractions.

    Examples
    --------
    >>> domain = Domain(("number_of_events", "died"), (2, 2))
    >>> criterion = EventRates(
    ...     name="deaths", threshold=0.2, column="died", values=(0.0, 1.0), number="number_of_events", weights=(1.0, 3.0)
    ... )
    >>> real = RecordTypes(domain, [[0, 0], [0, 1], [1, 1]], [10, 10, 10])
    >>> synthetic = RecordTypes(domain, [[0, 0], [1, 0], [1, 1]], [20, 5, 5])
    >>> criterion.value(real, synthetic)  # 40 of 50, and 15 of 50
    0.5
    """

    column: str
    values: tuple[float, ...]
    number: str
    weights: tuple[float, ...]
    groups: tuple[Grouping, ...] = (Grouping.everyone(),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.groups:
            raise WorkloadError(f"{self.name!r} needs at least one grouping.")
        if not all(value in (0.0, 1.0) or math.isnan(value) for value in self.values):
            raise WorkloadError(
                f"The values of {self.name!r} must be 0 or 1, or NaN for codes that are left out."
            )
        if not any(weight > 0 for weight in self.weights) or not all(
            0 <= weight < 1e9 for weight in self.weights
        ):
            raise WorkloadError(f"The weights of {self.name!r} are numbers of events.")

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        found = [problem for grouping in self.groups for problem in grouping.problems(domain)]
        for name, given in ((self.column, self.values), (self.number, self.weights)):
            if name not in domain:
                found.append(f"no column named {name!r}")
            elif len(given) != domain.size(name):
                found.append(f"column {name!r} needs one number per code")
        return found

    @property
    def bounds(self) -> tuple[float, float]:
        """Shares."""
        return 0.0, 1.0

    @property
    def largest_error(self) -> float:
        """All events."""
        return 1.0

    @cached_property
    def _exact(self) -> tuple[Fraction, ...]:
        return tuple(map(Fraction, self.weights))

    def _tables(self, types: RecordTypes) -> Ints:
        """Return counts by group (all groupings stacked), number of events, and whether the event counts."""
        values = np.asarray(self.values)[types.column(self.column)]
        number = types.column(self.number)
        found = []
        for grouping in self.groups:
            table = np.zeros((grouping.count, len(self.weights), 2), dtype=np.int64)
            group = np.zeros(len(values), dtype=np.int64)
            if grouping.column is not None:
                group = np.asarray(grouping.groups)[types.column(grouping.column)]
            kept = np.isfinite(values) & (group >= 0)
            np.add.at(table, (group[kept], number[kept], values[kept].astype(np.int64)), types.counts[kept])
            found.append(table)
        return np.concatenate(found)

    def _weighed(self, table: Ints) -> list[tuple[Fraction, Fraction]]:
        """Return for each group the events that count and all events, weighed."""
        return [
            (
                sum((w * int(n) for w, n in zip(self._exact, group[:, 1], strict=True)), Fraction(0)),
                sum((w * int(n) for w, n in zip(self._exact, group.sum(axis=1), strict=True)), Fraction(0)),
            )
            for group in table
        ]

    def _candidate(self, synthetic: RecordTypes) -> list[tuple[Fraction, Fraction]]:
        """Return rate and sum of weights of each group of the candidate. Public."""
        largest = max(self._exact)
        return [
            (Fraction(1, 2) if not whole else part / whole, max(whole, largest))
            for part, whole in self._weighed(self._tables(synthetic))
        ]

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        """Return the largest error of a rate. Private."""
        self.require(real, synthetic)
        goals = self._candidate(synthetic)
        errors = [
            abs(part / whole - rate)
            for (part, whole), (rate, _) in zip(self._weighed(self._tables(real)), goals, strict=True)
            if whole
        ]
        return float(max(errors, default=Fraction(0)))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        """Return the largest error by the candidate's numbers of events, exactly. Private."""
        self.require(real, synthetic)
        goals = self._candidate(synthetic)
        return max(
            abs(part - rate * whole) / size
            for (part, whole), (rate, size) in zip(self._weighed(self._tables(real)), goals, strict=True)
        )

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        """Return the largest weight over the candidate's sum of weights, times the rows per unit."""
        if synthetic is None:
            return float(unit.max_rows)
        self.require(synthetic)
        largest = max(self._exact)
        steps = (
            (Fraction(1) if unit.relation == "replace-one" else max(rate, 1 - rate)) / size
            for rate, size in self._candidate(synthetic)
        )
        return float_up(unit.max_rows * largest * max(steps))

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction | float:
        """Return how many records may change before a rate is too wrong. Private."""
        self.require(real, synthetic)
        counts = self._tables(real).reshape(-1, 2 * len(self.weights))
        rates = np.array([float(rate) for rate, _ in self._candidate(synthetic)])
        weights = np.repeat(np.asarray(self.weights), 2)[:, None]
        counted = np.tile([0.0, 1.0], len(self.weights))[:, None]
        found = []
        for sign in (1.0, -1.0):
            excess = weights * (sign * (counted - rates[None, :]) - self.threshold)
            conditions = Conditions.between(excess.min(axis=0), excess.max(axis=0))
            found.append(conditions.slacks(0.0, group_sums(counts, conditions.steps(excess).T)))
        return as_slack(smallest(*found))

    def needs(self, slack: float, n: int | None) -> str:
        """Say what the smallest group must have."""
        return "events in every group; depends on the table, rehearse"
