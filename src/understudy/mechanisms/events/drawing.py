"""Drawing a table of entities from a model of event records: the entity, how many events it has, its first event, and each next one given the one before.

All of it is post-processing of a released model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.engine import Conditional, Distribution, GraphicalModel
from understudy.engine.graphical.evidence import sample_each
from understudy.engine.record_fitting.records import Allowed, fit_records
from understudy.errors import ConstraintError, UnusableMethod, WorkloadError
from understudy.mechanisms.drawing import Codes, Drawer
from understudy.mechanisms.events.numbers import entities_by_number
from understudy.mechanisms.events.settled import ExactRules, SettledValues
from understudy.schema import Clique, Constraint, Domain, Schema
from understudy.schema.entities import GAP_STARTS, NUMBERS, EventColumns, finest
from understudy.schema.problems import MAX_CELLS

if TYPE_CHECKING:
    import pandas as pd

    from understudy.mechanisms.model import Model

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_MOST_ATTEMPTS = 200
"""How often entities that break a rule are drawn again."""
_ATTEMPTS = 20
"""How often an event that breaks a rule is drawn again before less is asked of it."""
_NUMBERS = 50_000
"""Numbers of events that are drawn to know their mean."""
_VALUE_ROUNDS = 50
"""How often an entity gets other values for what is fixed about it, where no event goes with those that it has."""
_SUMMARY_ROUNDS = 10
"""How often the events of an entity are drawn again whose summaries do not come out."""
_GOLDEN = (5.0**0.5 - 1.0) / 2.0
"""Multiples of it, without their whole parts, are spread evenly, however many in a row are taken."""
_FITTED_CELLS = 1 << 16
"""Largest marginal, with the number of events, that drawn events are fitted to."""


@dataclass(frozen=True, eq=False)
class EventDrawer:
    """Draws entities with their events.

    Parameters
    ----------
    model
        A model of event records: its schema remembers the schema of the table.
    """

    model: Model

    @cached_property
    def schema(self) -> Schema:
        """The schema of the table, with the groups of values that a fit chose."""
        table = self.model.schema.events_of
        assert table is not None
        return table.with_columns(
            replace(self.model.schema.column(column.name), missing=column.missing) for column in table.columns
        )

    @cached_property
    def parts(self) -> EventColumns:
        """What the columns of event records are."""
        assert self.model.schema.events_of is not None
        return EventColumns.of(self.model.schema.events_of)

    @property
    def entities(self) -> int:
        """How many entities the model stands for: each has given as many records as the unit allows."""
        return max(0, round(self.model.total / self.model.provenance.unit.max_rows))

    @cached_property
    def mean_events(self) -> float:
        """The number of events that the model expects of an entity."""
        shares = self.model.marginal((self.parts.number,))
        if not shares.sum() > 0:
            return 1.0
        counts = np.rint(shares / shares.sum() * _NUMBERS).astype(np.int64)
        codes = np.repeat(np.arange(len(counts)), counts)
        drawn = self._decoded_numbers(codes, np.random.default_rng(0))
        return float(drawn.mean())

    @property
    def rows(self) -> int:
        """How many rows a table has when nobody says."""
        return round(self.entities * self.mean_events)

    def frame(
        self, rows: int | None = None, *, entities: int | None = None, seed: int | None = None
    ) -> pd.DataFrame:
        """Draw a table: fresh ids, the rows of an entity together and in order.

        Parameters
        ----------
        rows
            So many rows at most, less than one entity away from it; by default those of as many entities as the model stands for.
        entities
            Instead of ``rows``: the rows of so many entities.
        seed
            Makes the draw repeatable.
        """
        generator = np.random.default_rng(seed)
        _, _, codes, owner, known = self._drawn(rows, generator, entities)
        frame = self._decoded(codes, owner, generator, known)
        assert self.schema.entity is not None
        frame.insert(0, self.schema.entity.id, owner + 1)
        return frame

    @property
    def linked(self) -> tuple[str, str] | None:
        """The names of the table of entities and of that of events, of a model of linked tables; otherwise None."""
        assert self.schema.entity is not None
        return self.schema.entity.tables

    def tables(
        self, rows: int | None = None, *, entities: int | None = None, seed: int | None = None
    ) -> dict[str, pd.DataFrame]:
        """Draw linked tables: every entity has one row and a fresh key, and every event has the key of an entity.

        Entities that are only known by the ids of their events have no table of their own.

        Parameters
        ----------
        rows, entities, seed
            As for `frame`; ``rows`` are those of the table of events.
        """
        generator = np.random.default_rng(seed)
        if self.linked is None:
            raise WorkloadError("This is a model of one table; draw it with sample.")
        who, numbers, codes, owner, known = self._drawn(rows, generator, entities)
        return self._frames(who, numbers, codes, owner, generator, known)

    def _frames(
        self,
        who: Codes,
        numbers: Ints,
        codes: Codes,
        owner: Ints,
        generator: np.random.Generator,
        known: SettledValues | None = None,
    ) -> dict[str, pd.DataFrame]:
        """Turn entities and events into linked tables."""
        import pandas as pd

        schema, linked = self.schema, self.linked
        entity = schema.entity
        assert entity is not None
        assert linked is not None
        events = self._decoded(codes, owner, generator, known)
        if not entity.min_events:
            events = events.drop(columns=[name for name in self.entity_columns if name in events])
        events.insert(0, entity.reference or entity.id, owner + 1)
        if entity.min_events:
            return {linked[1]: events}
        keys = pd.DataFrame({entity.id: np.arange(1, len(numbers) + 1)})
        if known is not None:
            keys = pd.concat([keys, known.frame], axis=1)
        elif entity.fixed:
            own = replace(schema.select(entity.fixed), entity=None)
            columns = {name: who[:, self._place(name)] for name in entity.fixed}
            keys = pd.concat([keys, own.decode(columns, seed=int(generator.integers(1 << 62)))], axis=1)
        if entity.count is not None:
            keys[entity.count] = numbers
        for item in entity.summaries:  # as the drawn rows have it
            keys[item.name] = item.values(schema.column(item.of), events[item.of], owner, len(numbers))
        return {linked[0]: keys, linked[1]: events}

    @cached_property
    def entity_columns(self) -> tuple[str, ...]:
        """The columns of the table of entities, those that are computed from others included."""
        assert self.schema.entity is not None
        return self.schema.select(self.schema.entity.fixed).output_names if self.schema.entity.fixed else ()

    def _drawn(
        self, rows: int | None, generator: np.random.Generator, entities: int | None
    ) -> tuple[Codes, Ints, Codes, Ints, SettledValues | None]:
        """Draw entities, their numbers of events, the codes of all events, whose they are, and values of entities that had to be known first."""
        who, numbers = self._entities(rows, generator, entities)
        known = None if self.exact is None else self._settled(who, generator)
        (codes,), known = drawn_events((self,), (who,), (numbers,), known, generator)
        return who, numbers, codes, np.repeat(np.arange(len(numbers)), numbers), known

    @cached_property
    def exact(self) -> ExactRules | None:
        """The rules that tie values of entities to those of their events, if there are any."""
        return ExactRules.of(self.schema)

    def _settled(self, who: Codes, generator: np.random.Generator) -> SettledValues:
        """Draw values of what is fixed about entities."""
        assert self.schema.entity is not None
        own = replace(self.schema.select(self.schema.entity.fixed), entity=None)
        return SettledValues.of(own, {name: who[:, self._place(name)] for name in own.names}, generator)

    # -- entities ------------------------------------------------------------------------------

    def _given(self, fixed: Mapping[str, npt.NDArray[Any]], n: int, generator: np.random.Generator) -> Codes:
        """Return entities of which all that is fixed is known, as event records, with a number of events from the model given that.

        Where the model holds no entity with all of it, the number is drawn given less.
        """
        domain = self.model.schema.domain
        codes = np.zeros((n, len(domain)), dtype=np.uint32)
        for name, values in fixed.items():
            codes[:, self._place(name)] = values
        number = self._place(self.parts.number)
        left = np.arange(n)
        names = list(fixed)
        while len(left) and names:
            drawn, possible = self._sample(domain.canonical(names), codes[left], generator)
            codes[left[possible], number] = drawn[possible, number]
            left = left[~possible]
            names.pop(0)
        if len(left):
            codes[left, number] = self.model.distribution.sample_codes(len(left), generator)[:, number]
        return self._fitted_people(codes, generator, known=tuple(fixed))

    def _entities(
        self, rows: int | None, generator: np.random.Generator, entities: int | None = None
    ) -> tuple[Codes, Ints]:
        """Draw entities, as event records of which only what is the same in all of them will be used, and their numbers of events."""
        if rows is not None and rows < 0:
            raise WorkloadError(f"Cannot draw {rows} rows; ask for zero or more.")
        if rows and not self.mean_events > 0:
            raise WorkloadError("The model expects no events at all, so that no number of them can be drawn.")
        wanted = self.entities if entities is None else entities
        if rows is not None:
            wanted = int(rows / self.mean_events * 1.1) + 64
        codes = self._people(wanted, generator)
        numbers = self._numbers(codes, generator)
        if rows is None:
            return codes, numbers
        while numbers.sum() < rows:
            more = self._people(wanted, generator)
            codes = np.concatenate([codes, more])
            numbers = np.concatenate([numbers, self._numbers(more, generator)])
        kept = int(np.searchsorted(np.cumsum(numbers), rows, side="right"))
        return codes[:kept], numbers[:kept]

    def _people(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records for what is the same in all records of an entity, fitted to the model's marginals over it: rules about other columns do not matter here."""
        codes = self.model.distribution.sample_codes(n, generator)
        left = np.arange(n)
        for _ in range(_MOST_ATTEMPTS):
            left = left[~self._possible(codes[left])]
            if not len(left):
                return self._fitted_people(codes, generator)
            codes[left] = self.model.distribution.sample_codes(len(left), generator)
        raise ConstraintError(
            f"The constraints reject nearly every entity that the model draws: {len(left):,} of {n:,} could not be filled. Loosen the constraints on "
            f"{', '.join(self.parts.fixed)}, or use a method that models them."
        )

    @cached_property
    def _of_people(self) -> tuple[str, ...]:
        """The columns that are the same in all records of an entity."""
        return self.model.schema.domain.canonical({*self.parts.fixed, self.parts.number})

    @cached_property
    def _rules_of_people(self) -> tuple[Constraint, ...]:
        return tuple(rule for rule in self._drawer.rules if set(rule.columns) <= set(self._of_people))

    def _possible(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """Say which records obey the rules about what is the same in all records of an entity."""
        columns = {name: codes[:, self._place(name)] for name in self._of_people}
        holds = np.ones(len(codes), dtype=bool)
        for rule in self._rules_of_people:
            holds &= rule.holds_codes(columns)
        for group in self.model.schema.joint_values:
            if columns.keys() >= {column.name for column in group.columns}:
                holds &= group.possible({column.name: columns[column.name] for column in group.columns})
        return holds

    def _fitted_people(
        self, codes: Codes, generator: np.random.Generator, known: Sequence[str] = ()
    ) -> Codes:
        """Move entities until the marginals of what is fixed and of the number of events are the model's.

        Few entities have many events, so that chance in how many of them a group gets would be multiplied by these events. Columns that are known
        stay as they are; then it is the model's share of the rest given these that entities are moved to.
        """
        own, domain = self._of_people, self.model.schema.domain
        cliques: list[Clique] = [
            pair
            for pair in combinations(own, 2)
            if domain.cells(pair) <= _FITTED_CELLS and not set(pair) <= set(known)
        ]
        if not cliques and not known:
            cliques = [(name,) for name in own if domain.size(name) <= _FITTED_CELLS]
        if not len(codes) or not cliques:
            return codes
        targets = [
            self._given_drawn(table, clique, tuple(name for name in clique if name in known), codes)
            for clique, table in zip(cliques, self.model.marginals(cliques), strict=True)
        ]
        places = [self._place(name) for name in own]
        rules = [rule for rule in self._rules_of_people if domain.cells(rule.columns) <= MAX_CELLS]
        fitted = fit_records(
            codes[:, places],
            Domain(own, domain.shape(own)),
            cliques,
            targets,
            allowed=[(rule.columns, rule.allowed(domain)) for rule in rules],
            frozen=known,
            temperature=0.0,
            seed=int(generator.integers(1 << 62)),
        )
        moved = codes.copy()
        moved[:, places] = fitted.codes
        broken = ~self._possible(moved)
        moved[broken] = codes[broken]
        return moved

    def _given_drawn(
        self, table: Floats, whole: Clique, given: Clique, codes: Codes, fallbacks: Sequence[str] = ()
    ) -> Floats:
        """Return a marginal of the model with the counts of some of its columns as they were drawn, and the model's shares of the others given these.

        Parameters
        ----------
        table, whole
            The marginal and its columns.
        given
            The columns that stay as they were drawn.
        codes
            What was drawn.
        fallbacks
            Where the model holds nothing with the drawn codes, those of ``given`` that are forgotten first; then all of them are.
        """
        if not given:
            return table
        domain = self.model.schema.domain
        free = tuple(axis for axis, name in enumerate(whole) if name not in given)
        places = [codes[:, self._place(name)].astype(np.int64) for name in given]
        drawn = np.bincount(np.ravel_multi_index(places, domain.shape(given)), minlength=domain.cells(given))
        share, left = np.zeros(table.shape), np.ones(table.shape, dtype=bool)
        counts = np.maximum(table, 0.0)
        for forgotten in ((), fallbacks, given):
            some = counts.sum(
                axis=tuple(whole.index(name) for name in given if name in forgotten), keepdims=True
            )
            total = some.sum(axis=free, keepdims=True)
            told = np.broadcast_to(total > 0, table.shape) & left
            share[told] = np.broadcast_to(some / np.where(total > 0, total, 1.0), table.shape)[told]
            left &= ~told
        return share * drawn.reshape([1 if axis in free else size for axis, size in enumerate(table.shape)])

    def _numbers(self, codes: Codes, generator: np.random.Generator) -> Ints:
        """Draw how many events each entity has, inside its bin, so that each group of what is fixed gets its part of the large numbers."""
        own = [name for name in self.parts.fixed if name not in self.parts.summaries]
        keys = [codes[:, self._place(name)] for name in own]
        order = np.lexsort((generator.random(len(codes)), *keys))
        return self._decoded_numbers(codes[:, self._place(self.parts.number)], generator, order)

    def _decoded_numbers(
        self, codes: npt.NDArray[Any], generator: np.random.Generator, order: Ints | None = None
    ) -> Ints:
        """Draw numbers inside their bins; neighbours in an order get numbers that are spread evenly."""
        column = self.model.schema.column(self.parts.number)
        counts = self.model.marginal((self.parts.number,))
        found = np.asarray(column.decode(codes, generator, counts=counts), dtype=np.int64)
        for code, (low, chances) in self._within_bins.items():
            mine = np.flatnonzero(codes == code) if order is None else order[codes[order] == code]
            # as many of each number as their chances say: chance in few entities with many events is multiplied by these
            spread = (np.arange(len(mine)) * _GOLDEN + generator.random()) % 1.0
            steps = (np.argsort(np.argsort(spread)) + generator.random()) / max(1, len(mine))
            found[mine] = low + np.minimum(np.searchsorted(np.cumsum(chances), steps), len(chances) - 1)
        return found

    @cached_property
    def _within_bins(self) -> dict[int, tuple[int, Floats]]:
        """For each bin of several numbers of events, where it begins and how likely its numbers are, if entities were counted by them.

        The counts are noisy, and few entities have many events: one curve tells them together with what the model says of the bins (`entities_by_number`).
        """
        noisy = next((item for item in self.model.statistics if item.name == NUMBERS), None)
        entity = self.schema.entity
        assert entity is not None
        if noisy is None or len(noisy.values) != entity.max_events:
            return {}
        ranges = [(code, low, high) for code, (low, high) in enumerate(pairwise(entity.bins)) if low > 0]
        people = np.maximum(self.model.marginal((self.parts.number,)), 0.0) / self._records
        told = noisy.values.astype(np.float64)
        bins = [*(low for _, low, _ in ranges), ranges[-1][2]]
        some = people[[code for code, _, _ in ranges]]
        kept = entities_by_number(told, noisy.variance, bins, some, self._bins_variance)
        return {
            code: (low, kept[low - 1 : high - 1] / kept[low - 1 : high - 1].sum())
            for code, low, high in ranges
            if high - low > 1 and kept[low - 1 : high - 1].sum() > 0
        }

    @property
    def _records(self) -> int:
        """How many records each entity has given."""
        return self.model.provenance.unit.max_rows

    @cached_property
    def _bins_variance(self) -> float:
        """About how uncertain the number of entities in a bin of the number of events is, from the noise of all that was measured with it."""
        precision = 0.0
        for item in self.model.measurements:
            if self.parts.number in item.clique and item.variance > 0:
                cells = item.values.size / item.values.shape[item.clique.index(self.parts.number)]
                precision += self._records**2 / (cells * item.variance)
        return max(1.0, 1.0 / precision) if precision > 0 else 1.0

    def _place(self, name: str) -> int:
        return self.model.schema.domain.index(name)

    # -- events --------------------------------------------------------------------------------

    def _walked(
        self,
        who: Codes,
        numbers: Ints,
        generator: np.random.Generator,
        known: SettledValues | None = None,
    ) -> tuple[Codes, Ints, npt.NDArray[np.bool_]]:
        """Draw the events of all entities; again for those whose summaries do not come out as they were drawn, as often as is worth it.

        Returned are the events, whose they are, and the entities of which some events did not go with the known values: these have none yet.
        """
        made, owner, unfit = self._walked_once(who, numbers, generator, known)
        if not self.parts.summaries or not len(owner):
            return made, owner, unfit
        missed = self._missed(who, made, owner)
        starts = np.cumsum(numbers) - numbers
        for _ in range(_SUMMARY_ROUNDS):
            left = np.flatnonzero((missed > 0) & (numbers > 0) & ~unfit)
            if not len(left):
                break
            again, mine, wrong = self._walked_once(
                who[left], numbers[left], generator, None if known is None else known.of_rows(left)
            )
            now = self._missed(who[left], again, mine)
            better = (now < missed[left]) & ~wrong
            rows = better[mine]
            place = np.arange(len(mine)) - (np.cumsum(numbers[left]) - numbers[left])[mine]
            made[(starts[left][mine] + place)[rows]] = again[rows]
            missed[left[better]] = now[better]
        return made, owner, unfit

    def _missed(self, who: Codes, events: Codes, owner: Ints) -> Ints:
        """Say of how many summaries of each entity its events tell another story."""
        assert self.schema.entity is not None
        found = np.zeros(len(who), np.int64)
        empty = not self.schema.entity.min_events
        for item in self.schema.entity.summaries:
            of = self.schema.column(item.of)
            codes = item.codes(of, events[:, self._place(item.of)], owner, len(who), empty=empty)
            found += codes != who[:, self._place(item.name)].astype(np.int64)
        return found

    def _walked_once(
        self,
        who: Codes,
        numbers: Ints,
        generator: np.random.Generator,
        known: SettledValues | None,
    ) -> tuple[Codes, Ints, npt.NDArray[np.bool_]]:
        """Draw the events of all entities, step by step: everybody's first, then the second of those that have one, and so on. Returned as by `_walked`."""
        parts = self.parts
        owner = np.repeat(np.arange(len(numbers)), numbers)
        starts = np.cumsum(numbers) - numbers
        made = np.zeros((len(owner), who.shape[1]), dtype=who.dtype)
        events = [self._place(name) for name in parts.drawn]
        unfit = np.zeros(len(numbers), dtype=bool)
        values = {} if known is None or self.exact is None else self.exact.codes(known)
        for step in range(int(numbers.max(initial=0))):
            some = np.flatnonzero((numbers > step) & ~unfit)
            given = who[some].copy()
            given[:, self._place(parts.place)] = int(step > 0)
            for name, before in parts.before.items():
                none = self.model.schema.domain.size(before) - 1
                given[:, self._place(before)] = (
                    made[starts[some] + step - 1, self._place(name)] if step else none
                )
            drawn, left = self._next(given, generator, {name: codes[some] for name, codes in values.items()})
            given[:, events] = drawn[:, events]
            made[starts[some] + step] = given
            unfit[some[left]] = True
        return made, owner, unfit

    def _next(
        self, given: Codes, generator: np.random.Generator, values: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[Codes, Ints]:
        """Draw an event for each row of codes; where the model holds none with all that is given, with less of it.

        A model that was fitted to noise may rule out what has come about. Then the event before is forgotten first, and then what is fixed.

        Parameters
        ----------
        given
            What is known of each event.
        values
            Codes of the known values of its entity, where rules tie them to those of events. Returned beside the events are the rows that did not go with them.
        """
        parts = self.parts
        close = (parts.number, parts.place)
        ways: tuple[Sequence[str], ...] = (
            (*parts.fixed, *close, *parts.before.values()),
            (*parts.fixed, *close),
            close,
            (parts.place,),
        )
        result = given.copy()
        left = np.arange(len(given))
        events, fixed = (
            np.array([self._place(name) for name in names], dtype=np.int64)
            for names in (parts.drawn, parts.fixed)
        )
        for way in ways:
            names = self.model.schema.domain.canonical(way)
            for _ in range(_ATTEMPTS if self._drawer.rules else 1):
                if not len(left):
                    return result, left
                drawn, possible = self._sample(names, given[left], generator)
                drawn[:, fixed] = given[np.ix_(left, fixed)]
                fits = possible & (self._drawer.obey(drawn) if way is ways[0] else self._own_rules(drawn))
                if values:
                    fits &= self._allowed(drawn, {name: codes[left] for name, codes in values.items()})
                result[np.ix_(left[fits], events)] = drawn[np.ix_(fits, events)]
                left = left[~fits]
                if not possible.any():
                    break
        if len(left) and not values:
            raise ConstraintError(
                f"The constraints reject nearly every event that the model draws: {len(left):,} of {len(given):,} could not be filled. Loosen "
                "the constraints, or fit without the number and order of rows (--flat, flat=True)."
            )
        return result, left

    def _allowed(self, codes: Codes, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
        """Say which events go with known values of their entities."""
        assert self.exact is not None
        return self.exact.allow(
            {name: codes[:, self._place(name)] for name in self.schema.names} | dict(values)
        )

    @cached_property
    def _drawer(self) -> Drawer:
        return Drawer(self.model.schema, self.model.distribution, None)

    def _own_rules(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """Say which records obey the rules of the table, whatever they say of the event before."""
        columns = {name: codes[:, self._place(name)] for name in self.schema.names}
        holds = self.schema.holds_codes(columns)
        for rule in self._drawer.rules[
            len(self.model.schema.constraints) :
        ]:  # what the model says about columns that follow from others
            holds = holds & rule.holds_codes(columns)
        return holds

    def _sample(
        self, names: Clique, given: Codes, generator: np.random.Generator
    ) -> tuple[Codes, npt.NDArray[np.bool_]]:
        """Draw a record for each row from the model's distribution under the codes of some columns, and say which rows can occur."""
        distribution: Distribution = self.model.distribution
        values = given[:, [self._place(name) for name in names]].astype(np.int64)
        drawn = None
        if isinstance(distribution, GraphicalModel):
            drawn = sample_each(distribution, names, values, generator)
        elif isinstance(distribution, Conditional):
            drawn = distribution.sample_given(names, values, generator)
        if drawn is None:
            raise UnusableMethod(
                f"The model of {self.model.provenance.method} cannot draw an event given the one before. Fit with another method, or without the "
                "number and order of rows (--flat, flat=True)."
            )
        codes, possible = drawn
        return self._there(codes, generator), possible

    def _there(self, codes: Codes, generator: np.random.Generator) -> Codes:
        """Return events that are there, where entities may have none.

        Models that know the rules never draw the code for no event beside an event. One that keeps every column apart does, as often as there are entities without events:
        such codes are drawn again, from the model's counts without those entities.
        """
        for name, (kept, shares) in self._apart.items():
            place = self._place(name)
            again = np.flatnonzero(codes[:, place] == len(shares))
            again = again[generator.random(len(again)) >= kept]
            codes[again, place] = generator.choice(len(shares), len(again), p=shares)
        return codes

    @cached_property
    def _apart(self) -> dict[str, tuple[float, Floats]]:
        """The columns of events of which the model does not know that entities without events have none.

        For each, how likely its last code (missing, or no event) is meant where there is an event, and the shares of its other codes.
        """
        assert self.schema.entity is not None
        if self.schema.entity.min_events:
            return {}
        domain, number = self.model.schema.domain, self.parts.number
        found: dict[str, tuple[float, Floats]] = {}
        for name in self.parts.events:
            clique = domain.canonical((number, name))
            table = self.model.marginal(clique)
            table = np.maximum(table if clique[0] == number else table.T, 0.0)
            none, expected = table[0].sum(), table.sum(axis=0)
            if table[0, :-1].sum() <= 1e-6 * none:
                continue
            kept = 0.0
            if self.schema.column(name).missing and expected[-1] > none and expected.sum() > none:
                kept = (expected[-1] - none) / (expected.sum() - none) / (expected[-1] / expected.sum())
            others = expected[:-1].sum()
            size = len(expected) - 1
            found[name] = (kept, expected[:-1] / others if others > 0 else np.full(size, 1.0 / size))
        return found

    # -- fitting -------------------------------------------------------------------------------

    def _fitted(
        self,
        codes: Codes,
        numbers: Ints,
        generator: np.random.Generator,
        known: SettledValues | None = None,
    ) -> Codes:
        """Move events until their marginals are those that the model expects of all events.

        The model speaks of records, of which each entity has the same number. An entity with n events has n of them, so its records count n times: the expected
        marginal of events is the sum, over bins of the number of events, of that of the records times the mean number in the bin. What is fixed, numbers and
        the events before stay as they were drawn.
        """
        workload = self.model.workload
        if workload is None or not len(codes):
            return codes
        parts, domain = self.parts, self.model.schema.domain
        moving = set(parts.events)
        cliques: list[Clique] = []
        weights: list[float] = []
        for clique, weight in workload:
            counted = domain.canonical({*clique, parts.number})
            if weight > 0 and moving.intersection(clique) and domain.cells(counted) <= _FITTED_CELLS:
                cliques.append(clique)
                weights.append(weight)
        if not cliques:
            return codes
        targets = self._event_marginals(cliques, codes)
        wide, beside = self._with_next(codes, numbers)
        links = [(before, name) for name, before in parts.before.items() if name in moving]
        for (_, name), table in zip(links, self._event_marginals(links, codes), strict=True):
            clique = domain.canonical((parts.before[name], name))
            held = table if clique[0] == parts.before[name] else table.T
            followed = np.zeros((domain.size(name), domain.size(name)))
            followed[: len(held) - 1] = held[:-1]  # the code for no event is not one that something follows
            if parts.order is None:  # of two events without an order either may be the first
                followed = (followed + followed.T) / 2.0
            nothing = held.sum(axis=0) - followed.sum(axis=1)  # as an event, less as an event before
            cliques.append((name, beside[name]))
            targets.append(np.column_stack([followed, np.maximum(nothing, 0.0)]))
            weights.append(max(weights))
        forward: list[Allowed] = []
        if (
            parts.order is not None
        ):  # where two neighbours move at once they may cross; rows are put in order at the end
            size = domain.size(parts.order)
            forward.append(
                ((parts.order, beside[parts.order]), np.arange(size)[:, None] <= np.arange(size + 1)[None, :])
            )
        extended = Domain(
            (*domain.names, *beside.values()), (*domain.sizes, *(domain.size(name) + 1 for name in beside))
        )
        result = fit_records(
            wide,
            extended,
            cliques,
            targets,
            weights=weights,
            allowed=[*self._drawer._allowed, *forward],
            frozen=[name for name in extended.names if name not in moving],
            temperature=0.0,  # heat moves events that need not move, and those before and after do not follow
            seed=int(generator.integers(1 << 62)),
        )
        fitted = result.codes[:, : codes.shape[1]].astype(codes.dtype)
        fitted = self._drawer.put_back(codes, fitted, (), ())[0]
        if known is not None and self.exact is not None:
            owner = np.repeat(np.arange(len(numbers)), numbers)
            values = {name: part[owner] for name, part in self.exact.codes(known).items()}
            fitted = np.where(self._allowed(fitted, values)[:, None], fitted, codes)
        return self._with_summaries(codes, fitted, numbers)

    def _with_summaries(self, drawn: Codes, fitted: Codes, numbers: Ints) -> Codes:
        """Return fitted events, with those of entities as they were drawn whose summaries no longer come out."""
        if not self.parts.summaries:
            return fitted
        some = numbers[numbers > 0]
        owner = np.repeat(np.arange(len(some)), some)
        who = drawn[np.cumsum(some) - some]
        worse = self._missed(who, fitted, owner) > self._missed(who, drawn, owner)
        return np.where(worse[owner][:, None], drawn, fitted)

    def _with_next(self, codes: Codes, numbers: Ints) -> tuple[Codes, dict[str, str]]:
        """Return the events with the codes of the next event of the same entity beside them, and what those columns are called.

        With both neighbours in sight an event moves only where it goes with what came before and with what comes after.
        """
        ends = np.cumsum(numbers[numbers > 0]) - 1
        beside: dict[str, str] = {}
        columns = []
        for name in self.parts.before:
            following = np.append(codes[1:, self._place(name)].astype(np.int64), 0)
            following[ends] = self.model.schema.domain.size(name)
            columns.append(following)
            beside[name] = f"after {name}"
            while beside[name] in self.model.schema.domain:
                beside[name] += "_"
        largest = max([int(codes.max(initial=0)), *(int(column.max(initial=0)) for column in columns)])
        dtype = np.min_scalar_type(max(1, largest))
        return np.column_stack([codes, *columns]).astype(dtype), beside

    def _event_marginals(self, cliques: Sequence[Clique], codes: Codes) -> list[Floats]:
        """Return what the model expects of all events over some columns, given what the drawn entities are and how many events they have.

        Numbers of events and what is fixed stay as they were drawn, so it is the share of the rest *given these* that events can be moved to: with the
        model's own counts, a group that happened to get more events than the model expects would end with a lower rate of everything else.
        """
        domain, number = self.model.schema.domain, self.parts.number
        known = {number, *self.parts.fixed}
        wide = [domain.canonical({*clique, number}) for clique in cliques]
        found = []
        for clique, whole, table in zip(cliques, wide, self.model.marginals(wide), strict=True):
            given = tuple(name for name in whole if name in known)
            expected = self._given_drawn(table, whole, given, codes, self.parts.fixed)
            found.append(expected if number in clique else expected.sum(axis=whole.index(number)))
        return found

    # -- values --------------------------------------------------------------------------------

    def _decoded(
        self,
        codes: Codes,
        owner: Ints,
        generator: np.random.Generator,
        known: SettledValues | None = None,
    ) -> pd.DataFrame:
        """Turn codes into values, and put the rows of each entity in order."""
        schema, entity = self.schema, self.schema.entity
        assert entity is not None
        columns = {name: codes[:, self._place(name)] for name in schema.names}
        if known is not None and self.exact is not None:
            schema = self.exact.fine
            columns |= {name: part[owner] for name, part in self.exact.codes(known).items()}
        frame = schema.decode(columns, seed=int(generator.integers(1 << 62)))
        first = np.searchsorted(owner, owner, side="left")
        for name in entity.fixed:  # values inside a bin are drawn once
            if known is not None and name in known.frame:
                frame[name] = known.frame[name].take(owner).set_axis(frame.index)
            else:
                frame[name] = frame[name].take(first).set_axis(frame.index)
        order = entity.order
        if order is not None and self.parts.gap is not None:
            gaps = codes[:, self._place(self.parts.gap)].astype(np.int64)
            days = self._days(columns[order].astype(np.int64), gaps, owner, generator)
            fine = finest(schema.column(order))
            frame[order] = Schema([fine]).decode({order: days}, seed=0)[order].set_axis(frame.index)
        elif order is not None:
            column = schema.column(order)
            keys = columns[order] if column.kind == "ordinal" else frame[order].to_numpy()
            place = np.lexsort((keys, owner))
            if any(order in {item.name for item in group.columns} for group in self.schema.joint_values):
                frame = frame.take(place).reset_index(drop=True)  # a rule ties the value to its row
            else:
                frame[order] = frame[order].take(place).set_axis(frame.index)
        settled = {*entity.fixed, order}
        for item in schema.derived:
            if item.columns & settled:  # from the values that came to stand there
                frame[item.name] = item.compute(frame, {name: schema.column(name) for name in item.columns})
        return frame

    def _days(self, codes: Ints, gaps: Ints, owner: Ints, generator: np.random.Generator) -> Ints:
        """Draw the day of each event, as a code of single days: within the bin of its date, never before the event before, and as many days after it as its gap says, where the two agree.

        Bins of dates are put in order within an entity first. Where no day of the bin is as far from the event before as the gap says, the nearest such day is taken.
        """
        assert self.schema.entity is not None
        column = self.schema.column(str(self.schema.entity.order))
        fine = Schema([finest(column)])
        everyday = fine.decode({column.name: np.arange(fine.domain.sizes[0])}, seed=0)
        coarse = np.asarray(Schema([column]).encode_frame(everyday)[column.name], np.int64)
        starts, ends = (
            np.searchsorted(coarse, np.arange(column.size), side=side) for side in ("left", "right")
        )
        codes = codes[np.lexsort((codes, owner))]
        first = np.searchsorted(owner, owner, side="left")
        place = np.arange(len(owner)) - first
        begin = np.array(GAP_STARTS)
        until = np.append(begin[1:] - 1, len(coarse))
        gaps = np.minimum(gaps, len(begin) - 1)
        earliest, latest = starts[codes], ends[codes] - 1
        steps = [np.flatnonzero(place == step) for step in range(int(place.max(initial=-1)) + 1)]
        for now in reversed(steps[1:]):  # days from which the next event can be reached as its gap says
            low = np.maximum(earliest[now - 1], earliest[now] - until[gaps[now]])
            high = np.minimum(latest[now - 1], latest[now] - begin[gaps[now]])
            fits = low <= high
            earliest[now[fits] - 1], latest[now[fits] - 1] = low[fits], high[fits]
        days = np.zeros(len(owner), np.int64)
        for step, now in enumerate(steps):
            low, high = earliest[now], latest[now]
            if step:
                before, gap = days[now - 1], gaps[now]
                low, high = np.maximum(low, before), np.maximum(high, before)
                near, far = before + begin[gap], before + until[gap]
                fits = (near <= high) & (far >= low)
                nearest = np.where(near > high, high, low)
                low = np.where(fits, np.maximum(low, near), nearest)
                high = np.where(fits, np.minimum(high, far), nearest)
            days[now] = low + np.floor(generator.random(len(now)) * (high - low + 1)).astype(np.int64)
        return days


def drawn_events(
    drawers: Sequence[EventDrawer],
    people: Sequence[Codes],
    numbers: Sequence[Ints],
    known: SettledValues | None,
    generator: np.random.Generator,
) -> tuple[list[Codes], SettledValues | None]:
    """Draw the events of the same entities in one or several tables, and move them until their marginals are what the models expect.

    Where rules tie values of entities to those of events, entities whose values go with no event get others, and all their events are drawn again.

    Parameters
    ----------
    drawers, people, numbers
        For each table, what draws it, the entities as its event records, and how many events each has.
    known
        Values of what is fixed about the entities, if they have to be known; returned as they are in the end.
    """
    walked = [
        drawer._walked(who, many, generator, known)
        for drawer, who, many in zip(drawers, people, numbers, strict=True)
    ]
    unfit = np.logical_or.reduce([wrong for _, _, wrong in walked])
    for _ in range(_VALUE_ROUNDS):
        left = np.flatnonzero(unfit)
        if not len(left) or known is None:
            break
        known = known.again(left, generator)
        some = known.of_rows(left)
        for drawer, who, many, (made, _, _) in zip(drawers, people, numbers, walked, strict=True):
            again, mine, wrong = drawer._walked(who[left], many[left], generator, some)
            place = np.arange(len(mine)) - (np.cumsum(many[left]) - many[left])[mine]
            made[(np.cumsum(many) - many)[left][mine] + place] = again
            unfit[left] = wrong if drawer is drawers[0] else unfit[left] | wrong
    if unfit.any():
        raise ConstraintError(
            f"The rules that tie values of entities to those of their events leave no event for some entities that the model draws: {int(unfit.sum()):,} of {len(unfit):,} could not be filled. Loosen these rules."
        )
    return [
        drawer._fitted(made, many, generator, known)
        for drawer, many, (made, _, _) in zip(drawers, numbers, walked, strict=True)
    ], known
