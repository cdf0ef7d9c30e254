"""Deliberately broken mechanisms, kept out of the package: what the auditor and the checks must catch.

Each one breaks a single thing in an otherwise right mechanism. They are applied by monkeypatching or by subclassing, for the
duration of a test.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from checks import (
    REGISTER,
    Check,
    audited,
    criteria_hold,
    discovery_paid,
    drawn_as_paid,
    entities_hold,
    idle_entities_hold,
    left_out_entities_hold,
    noise_is_fresh,
    numbers_are_whole,
    people_hold,
    primitive_audited,
    register_entities_hold,
    release_audited,
    release_law_holds,
    sensitivities_hold,
    unpaid,
)

from understudy.audit import Pair, primitives
from understudy.audit.observers import NARROW, WIDE, entity_pair, pairs_for
from understudy.audit.releases import LOOP
from understudy.curator import Curator, numbers
from understudy.data import LocalTable
from understudy.data.events import EventsTable, WithoutEvents
from understudy.engine import DenseTable
from understudy.errors import DataError
from understudy.marginals import Measurement
from understudy.mechanisms import Fitted, Progress, Synthesizer, create, levels, no_progress
from understudy.mechanisms.deep import look as gradients
from understudy.mechanisms.deep.critic import Critic
from understudy.mechanisms.deep.look import Panel
from understudy.mechanisms.marginal.laplace import LaplaceTable
from understudy.privacy import Laplace, Ledger, PureDP, SeededRandomness, SystemRandomness, Unit
from understudy.privacy.noise import noise as noise_module
from understudy.privacy.noise.randomness import Randomness
from understudy.release import Criterion
from understudy.release.result import Configuration
from understudy.release.run.run import Release
from understudy.release.run.transform import Transformed
from understudy.release.spec import budget as _spec_budget

Patch = pytest.MonkeyPatch
discovery = importlib.import_module("understudy.discovery.discover")
"""The module; the room has a function of that name."""


def _pair(text: str, relation: str, place: int, **options: int) -> Pair:
    return list(pairs_for(text, relation, **options))[place]


ONE = _pair(NARROW[0], "add-remove", 0)
REPLACED = _pair(NARROW[0], "replace-one", 0)
OUTLIER = _pair(WIDE[0], "add-remove", 1)
ONE_COLUMN = _pair(WIDE[0], "add-remove", 2)


@dataclass(frozen=True)
class Mutant:
    """One broken mechanism.

    Attributes
    ----------
    name
        As in the table of the documentation.
    apply
        Breaks the package for one test.
    checks
        By name: each must pass without the break and fail with it.
    """

    name: str
    apply: Callable[[Patch], None]
    checks: dict[str, Check]


def nothing(patch: Patch) -> None:
    """Leave the package as it is; the mechanism of the check is broken itself."""


# ---------------------------------------------------------------------- noise


def half_laplace(patch: Patch) -> None:
    draw = Laplace.draw
    patch.setattr(Laplace, "draw", lambda self, shape, source: draw(Laplace(self.scale / 2), shape, source))


def half_of_half(patch: Patch) -> None:
    """Half of the draws have half of the noise, so the whole costs one and a half times what was charged."""
    draw, turns = Laplace.draw, itertools.count()

    def drawn(self: Laplace, shape: int | tuple[int, ...], source: Randomness) -> npt.NDArray[np.int64]:
        return draw(Laplace(self.scale / 2) if next(turns) % 2 else self, shape, source)

    patch.setattr(Laplace, "draw", drawn)


def half_gaussian(patch: Patch) -> None:
    draw = noise_module.Gaussian.draw
    patch.setattr(
        noise_module.Gaussian,
        "draw",
        lambda self, shape, source: draw(noise_module.Gaussian(self.sigma / 2), shape, source),
    )


def small_sensitivity(patch: Patch) -> None:
    patch.setattr(Unit, "histogram_l1", property(lambda self: float(self.max_rows)))


def reused_noise(patch: Patch) -> None:
    """Every call starts the same stream again; the stream differs from run to run."""
    seeds: dict[int, int] = {}

    def init(self: SystemRandomness) -> None:
        seeds[id(self)] = int(np.random.default_rng().integers(1 << 60))

    patch.setattr(SystemRandomness, "__init__", init)
    patch.setattr(SystemRandomness, "bytes", lambda self, n: SeededRandomness(seeds[id(self)]).bytes(n))
    patch.setattr(SystemRandomness, "words", lambda self, n: SeededRandomness(seeds[id(self)]).words(n))


def seeded_noise(patch: Patch) -> None:
    patch.setattr(SystemRandomness, "bytes", lambda self, n: SeededRandomness(7).bytes(n))
    patch.setattr(SystemRandomness, "words", lambda self, n: SeededRandomness(7).words(n))


def float_noise(patch: Patch) -> None:
    """The textbook sampler in floating point, added to the count as it is."""

    def draw(self: Laplace, shape: tuple[int, ...], source: object) -> np.ndarray:
        return np.random.default_rng().laplace(scale=self.scale, size=shape)

    patch.setattr(Laplace, "draw", draw)


def doubled_choice(patch: Patch) -> None:
    import understudy.audit.primitives as primitives
    import understudy.curator.curator as curator

    right = curator.exponential_mechanism

    def wrong(scores: object, *, epsilon: float, **options: object) -> int:
        return right(scores, epsilon=2 * epsilon, **options)

    patch.setattr(curator, "exponential_mechanism", wrong)
    patch.setattr(primitives, "exponential_mechanism", wrong)


def unclipped_gradients(patch: Patch) -> None:
    """Gradients are added up as they are."""
    right = Critic._clipped_sums

    def sums(self: Critic, inputs: list, derivatives: list) -> list:
        wide = Critic(self.layout, self.hidden, self.loss, self.clip)
        object.__setattr__(wide, "places", self.places)
        object.__setattr__(wide, "reach", 2.0**60)
        return right(wide, inputs, derivatives)

    patch.setattr(Critic, "_clipped_sums", sums)


def full_batches(patch: Patch) -> None:
    """Every row is in every batch, and the charge is that of random ones."""
    patch.setattr(gradients, "poisson_batch", lambda rows, rate, source: np.arange(rows))


def people_dealt_apart(patch: Patch) -> None:
    """Rows of a person go to teachers of their own, and the charge is that of one teacher."""
    patch.setattr(
        gradients,
        "deal_people",
        lambda whose, teachers, source: gradients.deal(len(whose), teachers, source.words(len(whose))),
    )


def shared_rows(patch: Patch) -> None:
    """Every teacher learns from the whole table."""
    right = Panel._draw

    def draw(self: Panel) -> tuple:
        rows = len(self._codes)
        self._order = np.arange(rows)
        self._starts, self._sizes = np.zeros_like(self._starts), np.full_like(self._sizes, rows)
        return right(self)

    patch.setattr(Panel, "_draw", draw)


def unlimited_persons(patch: Patch) -> None:
    patch.setattr(LocalTable, "truncated", lambda self, column, most, key: self)


def people_by_weight(patch: Patch) -> None:
    """Counts of people by their number of rows count their rows."""
    right = LocalTable.people_by_rows

    def wrong(self: LocalTable, column: str, most: int) -> np.ndarray:
        return right(self, column, most) * np.arange(1, most + 1)

    patch.setattr(LocalTable, "people_by_rows", wrong)


def cut_too_late(patch: Patch) -> None:
    """A cut below what the unit allows keeps the rows of the unit, with noise for fewer."""
    right = Curator.cut_to

    def wrong(self: Curator, max_rows: int) -> Curator:
        child = right(self, max_rows)
        child._table = self._table
        return child

    patch.setattr(Curator, "cut_to", wrong)


def _more_records(patch: Patch, more: Callable[[int], int]) -> None:
    """Break the records that a curator counts; what an auditor knows, which has a public key, stays as it is."""
    right = EventsTable.truncated

    def wrong(self: EventsTable, column: str, most: int, key: bytes) -> LocalTable:
        return right(self, column, more(most) if any(key) else most, key)

    patch.setattr(EventsTable, "truncated", wrong)


def one_record_more(patch: Patch) -> None:
    """Every entity gives one event record more than the unit allows."""
    _more_records(patch, lambda most: most + 1)


def unlimited_entities(patch: Patch) -> None:
    """Every entity gives five times as many event records as the unit allows."""
    _more_records(patch, lambda most: 5 * most)


def _more_claims(patch: Patch, more: Callable[[int], int]) -> None:
    """Break the records of the second table of events alone."""
    right = EventsTable.truncated

    def wrong(self: EventsTable, column: str, most: int, key: bytes) -> LocalTable:
        entity = self.schema.entity
        second = entity is not None and entity.tables is not None and entity.tables[1] == "claims"
        return right(self, column, more(most) if any(key) and second else most, key)

    patch.setattr(EventsTable, "truncated", wrong)


def one_claim_more(patch: Patch) -> None:
    """Every entity gives one event record more of the second table of events than the unit allows."""
    _more_claims(patch, lambda most: most + 1)


def unlimited_claims(patch: Patch) -> None:
    """Every entity gives a hundred times as many event records of the second table of events as the unit allows."""
    _more_claims(patch, lambda most: 100 * most)


def idle_entities_twice(patch: Patch) -> None:
    """Entities without events are counted twice."""
    right = EventsTable.__init__

    def wrong(
        self: EventsTable,
        table: LocalTable,
        *,
        order: npt.ArrayLike | None = None,
        without: WithoutEvents | None = None,
    ) -> None:
        if without is not None:
            twice = {name: np.concatenate([codes, codes]) for name, codes in without.columns.items()}
            without = WithoutEvents(2 * without.number, twice)
        right(self, table, order=order, without=without)

    patch.setattr(EventsTable, "__init__", wrong)


def event_of_another(patch: Patch) -> None:
    """The event before an entity's first one is the last of another entity."""
    right = EventsTable._records

    def wrong(
        self: EventsTable,
        rows: np.ndarray,
        starts: np.ndarray,
        sizes: np.ndarray,
        place: np.ndarray,
        *rest: np.ndarray,
    ) -> LocalTable:
        return right(self, rows, starts, sizes, place + (np.arange(len(rows)) > 0), *rest)

    patch.setattr(EventsTable, "_records", wrong)


# ---------------------------------------------------------------------- releases


def half_slack(patch: Patch) -> None:
    """An entity is taken to move a criterion by one record, whatever the unit allows."""
    patch.setattr(Criterion, "slack_sensitivity", lambda self, unit: 1.0)


def half_claim(patch: Patch) -> None:
    """The published form of a criterion claims half of what one unit can move it by."""
    patch.setattr(
        Criterion,
        "published_sensitivities",
        lambda self, unit, synthetic: [self.sensitivity(unit, synthetic.rows, synthetic) / 2],
    )


def fixed_number(patch: Patch) -> None:
    """Replaced entities are taken to give as many records as before, although events of nobody are left out."""
    right = EventsTable._records
    patch.setattr(EventsTable, "_records", lambda self, *parts: right(self, *parts)._marked(filtered=False))


def free_selection(patch: Patch) -> None:
    """A loop of attempts is charged as if it were one attempt."""
    right = _spec_budget.selection_guarantee

    def wrong(attempt: PureDP, attempts: object, **options: object) -> object:
        return replace(right(attempt, attempts, **options), epsilon=attempt.epsilon)

    patch.setattr(_spec_budget, "selection_guarantee", wrong)


def told_failure(patch: Patch) -> None:
    """An attempt that goes wrong because of a record ends the release with an error of its own."""
    right = Release._attempt

    def attempt(self: Release, data: Transformed, configuration: Configuration, *rest: object) -> object:
        if data._table(configuration).count(("a",))[1] > 0:
            raise DataError("An attempt could not be made.")
        return right(self, data, configuration, *rest)

    patch.setattr(Release, "_attempt", attempt)


# ---------------------------------------------------------------------- mechanisms


class _Broken(LaplaceTable):
    """The Laplace table with one more look at the exact counts."""

    def exact(self, curator: Curator) -> np.ndarray:
        return curator._table.count(curator.domain.names)

    def fitted(
        self, curator: Curator, cells: np.ndarray, measurements: list[Measurement] | tuple[Measurement, ...]
    ) -> Fitted:
        return Fitted(DenseTable(curator.domain, np.maximum(cells, 0.0)), measurements)


class DomainFromData(_Broken):
    """Believes that only values that occur can occur: columns end at the largest value in the data."""

    def _fit(self, curator: Curator, *, progress: Progress = no_progress) -> Fitted:
        right = super()._fit(curator, progress=progress)
        exact = self.exact(curator)
        seen = np.argwhere(exact > 0)
        cells = right.distribution.marginals([curator.domain.names])[0].copy()
        inside = np.zeros(cells.shape, dtype=bool)
        if len(seen):
            inside[tuple(slice(0, int(top) + 1) for top in seen.max(axis=0))] = True
        return self.fitted(curator, np.where(inside, np.maximum(cells, 0.01), 0.0), right.measurements)


class AbsentCellsDropped(_Broken):
    """Adds noise to the cells that hold records and leaves the others out."""

    def _fit(self, curator: Curator, *, progress: Progress = no_progress) -> Fitted:
        right = super()._fit(curator, progress=progress)
        told = right.measurements[-1]
        kept = np.where(self.exact(curator) > 0, told.values, 0.0)
        return self.fitted(curator, kept, [Measurement(told.clique, kept, told.noise, told.scale)])


class RowCountLeaked(_Broken):
    """Scales the noisy table to the exact number of rows."""

    def _fit(self, curator: Curator, *, progress: Progress = no_progress) -> Fitted:
        right = super()._fit(curator, progress=progress)
        cells = np.maximum(right.distribution.marginals([curator.domain.names])[0], 0.01)
        rows = max(0.5, float(curator._table.exact_row_count()))
        return self.fitted(curator, cells / cells.sum() * rows, right.measurements)


class ChargeForgotten(_Broken):
    """Measures the table a second time without paying."""

    def _fit(self, curator: Curator, *, progress: Progress = no_progress) -> Fitted:
        right = super()._fit(curator, progress=progress)
        first = right.measurements[-1]
        again = self.exact(curator) + Laplace(first.scale).draw(first.values.shape, SystemRandomness())
        second = Measurement(first.clique, again.astype(float), first.noise, first.scale)
        return self.fitted(curator, (first.values + second.values) / 2, [first, second])


class PreparationNotAdded(_Broken):
    """Finds the number of rows in a step of its own, on a ledger of its own that nobody adds up."""

    def _fit(self, curator: Curator, *, progress: Progress = no_progress) -> Fitted:
        with Ledger.in_memory(budget=PureDP(2.0), unit=curator.unit, table="preparation") as book:
            side = Curator(curator._table, unit=curator.unit, ledger=book)
            rows = side.measure(side.counts(()), noise=Laplace(0.5))
        right = super()._fit(curator, progress=progress)
        return Fitted(right.distribution, [rows, *right.measurements])


class FailureRevealed(_Broken):
    """Refuses tables in which it sees a record it does not like."""

    def _fit(self, curator: Curator, *, progress: Progress = no_progress) -> Fitted:
        right = super()._fit(curator, progress=progress)
        if self.exact(curator).ravel()[-1] > 0:
            raise DataError("The table cannot be used.")
        return right


CROWDED = _pair(NARROW[0], "add-remove", 0, max_rows=2)
ENTITY = entity_pair("add-remove", max_rows=2)


def _laplace(**options: object) -> Callable[[], Synthesizer]:
    return lambda: create("laplace", **options)


# ---------------------------------------------------------------------- discovery


def exact_kinds(patch: Patch) -> None:
    """What entries look like is charged for and read without noise."""
    right = discovery._ask_profiles

    def wrong(work: Curator, plan: object) -> dict:
        profiles = right(work, plan)
        exact = discovery.seal_profiles(work, plan.columns)
        return {
            name: replace(profile, counts=np.asarray(sealed._exact, dtype=float))
            for (name, profile), sealed in zip(profiles.items(), exact, strict=True)
        }

    patch.setattr(discovery, "_ask_profiles", wrong)


def low_threshold(patch: Patch) -> None:
    """Texts are released from half the threshold on that is charged for."""
    right = numbers.threshold_for

    def wrong(noise: object, unit: Unit, delta: float) -> int:
        patch.setattr(numbers, "seen_alone", lambda *args: delta)
        return max(1, right(noise, unit, delta) // 2)

    patch.setattr(numbers, "threshold_for", wrong)


def free_ranges(patch: Patch) -> None:
    """Ranges are counted with noise, and another ledger than that of the table is charged."""
    right = discovery._ask_ranges

    def wrong(work: Curator, plan: object, descents: object, progress: object) -> None:
        book = Ledger.in_memory(budget=work.budget, unit=work.unit, table="elsewhere")
        elsewhere = Curator(work._table, unit=work.unit, ledger=book)
        right(elsewhere, plan, descents, progress)

    patch.setattr(discovery, "_ask_ranges", wrong)


def exact_groups(patch: Patch) -> None:
    """The values of a column with levels are charged for, and its groups follow from exact counts."""

    def wrong(curator: Curator) -> Curator:
        sealed: dict[str, object] = {}
        ask = Curator.counts_many

        def kept(self: Curator, cliques: object) -> list:
            found = ask(self, cliques)
            sealed.update({item.clique[0]: np.asarray(item._exact, dtype=float) for item in found})
            return found

        choose = levels.chosen_levels

        def chosen(schema: object, counts: dict) -> object:
            return choose(
                schema, {name: (sealed[name], deviation) for name, (_, deviation) in counts.items()}
            )

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Curator, "counts_many", kept)
            inner.setattr(levels, "chosen_levels", chosen)
            return right(curator)

    right = levels.measured_levels
    patch.setattr(primitives, "measured_levels", wrong)


MUTANTS = (
    Mutant(
        "half the Laplace noise",
        half_laplace,
        {
            "audit of the primitive": primitive_audited("Laplace noise on a count"),
            "audit of a method": audited(_laplace(), ONE),
        },
    ),
    Mutant(
        "half the Gaussian noise",
        half_gaussian,
        {"audit of the primitive": primitive_audited("Gaussian noise on a count")},
    ),
    Mutant(
        "sensitivity 1 instead of 2 under replace-one",
        small_sensitivity,
        {
            "audit of a method": audited(_laplace(), REPLACED, runs=1_200),
            "sensitivity check": sensitivities_hold,
        },
    ),
    Mutant("domain from the data", nothing, {"audit of a method": audited(DomainFromData, OUTLIER)}),
    Mutant(
        "noise reused across calls",
        reused_noise,
        {
            "audit of a method": audited(lambda: create("independent"), ONE_COLUMN),
            "freshness check": noise_is_fresh,
        },
    ),
    Mutant(
        "seeded noise",
        seeded_noise,
        {"audit of a method": audited(_laplace(), ONE), "freshness check": noise_is_fresh},
    ),
    Mutant("row count leaked", nothing, {"audit of a method": audited(RowCountLeaked, ONE)}),
    Mutant(
        "absent cells dropped",
        nothing,
        {"audit of a method": audited(AbsentCellsDropped, OUTLIER, runs=1_500)},
    ),
    Mutant(
        "charge forgotten",
        nothing,
        {
            "audit of a method": audited(ChargeForgotten, ONE, runs=1_500),
            "ledger check": unpaid(ChargeForgotten),
        },
    ),
    Mutant(
        "budget of preprocessing not added",
        nothing,
        {
            "audit of a method": audited(PreparationNotAdded, ONE, runs=1_500),
            "ledger check": unpaid(PreparationNotAdded),
        },
    ),
    Mutant(
        "half of the noise on half of the budget",
        half_of_half,
        {"check of draws": drawn_as_paid(lambda: create("independent"))},
    ),
    Mutant(
        "exponential mechanism with doubled scale",
        doubled_choice,
        {"audit of the primitive": primitive_audited("exponential mechanism", "a likely candidate gains")},
    ),
    Mutant(
        "gradients not clipped",
        unclipped_gradients,
        {"audit of the primitive": primitive_audited("noisy gradients", runs=1_000)},
    ),
    Mutant(
        "batches charged as random that are not",
        full_batches,
        {"audit of the primitive": primitive_audited("noisy gradients of random batches", runs=6_000)},
    ),
    Mutant(
        "a person dealt to several teachers",
        people_dealt_apart,
        {
            "audit of the primitive": primitive_audited(
                "noisy votes of teachers", "a person with 2 rows", runs=20_000
            )
        },
    ),
    Mutant(
        "teachers that share rows",
        shared_rows,
        {"audit of the primitive": primitive_audited("noisy votes of teachers", runs=1_000)},
    ),
    Mutant(
        "floating-point noise with visible low bits",
        float_noise,
        {"whole-number check": numbers_are_whole},
    ),
    Mutant("failure outcome revealed", nothing, {"audit of a method": audited(FailureRevealed, ONE)}),
    Mutant(
        "failure of an attempt revealed",
        told_failure,
        {"audit of a release": release_audited(LOOP, runs=300)},
    ),
    Mutant("selection charged as one attempt", free_selection, {"law of a release": release_law_holds}),
    Mutant(
        "a kind read exactly",
        exact_kinds,
        {"audit of discovery": primitive_audited("discovered columns", "one entry at the edge", runs=3_000)},
    ),
    Mutant(
        "a category kept below the threshold",
        low_threshold,
        {"audit of the primitive": primitive_audited("frequent texts", runs=12_000)},
    ),
    Mutant("an uncharged range", free_ranges, {"ledger check of discovery": discovery_paid}),
    Mutant(
        "groups chosen from exact counts",
        exact_groups,
        {
            "audit of the primitive": primitive_audited(
                "groups of a column with levels", "one row at the edge", runs=3_000
            )
        },
    ),
    Mutant(
        "rows per person not limited",
        unlimited_persons,
        {"audit of a method": audited(_laplace(), CROWDED)},
    ),
    Mutant("people counted with all their rows", people_by_weight, {"people check": people_hold}),
    Mutant("a chosen cut that is not made", cut_too_late, {"people check": people_hold}),
    Mutant(
        "one event record more of each person",
        one_record_more,
        {
            "entity check": entities_hold,
            "check of entities without events": idle_entities_hold,
        },
    ),
    Mutant(
        "entities without events counted twice",
        idle_entities_twice,
        {"check of entities without events": idle_entities_hold},
    ),
    Mutant(
        "event records of a person not limited",
        unlimited_entities,
        {
            "audit of a method": audited(_laplace(), ENTITY),
            "entity check": entities_hold,
        },
    ),
    Mutant(
        "one event record more of the second table",
        one_claim_more,
        {"check of several tables": register_entities_hold},
    ),
    Mutant(
        "event records of the second table not limited",
        unlimited_claims,
        {
            "check of several tables": register_entities_hold,
            "audit of a release of several tables": release_audited(REGISTER, runs=150),
        },
    ),
    Mutant(
        "the event before taken from another person",
        event_of_another,
        {"audit of a method": audited(_laplace(), ENTITY), "entity check": entities_hold},
    ),
    Mutant(
        "a person taken to move a criterion by one record",
        half_slack,
        {"search of hostile criteria": criteria_hold},
    ),
    Mutant(
        "a criterion that claims half of what it moves by",
        half_claim,
        {"search of hostile criteria": criteria_hold},
    ),
    Mutant(
        "entities without records taken for a fixed number",
        fixed_number,
        {"check of entities left out": left_out_entities_hold},
    ),
)
"""Every broken mechanism, with the checks that must catch it."""
