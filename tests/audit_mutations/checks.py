"""Checks that hold for right mechanisms: each returns what it found wrong, and nothing if all is well."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.audit import PRIMITIVES, Effort, Pair, audit_primitive, audit_release, audit_release_law, hunt
from understudy.audit.hostile import search_criteria
from understudy.audit.methods import _subject
from understudy.audit.releases import PATIENT, neighbour_frames
from understudy.curator import Curator
from understudy.data import LocalTable, read_table
from understudy.data.entries import read_entries
from understudy.data.events import EventsTable, WithoutEvents
from understudy.data.linked import LinkedTables, read_linked
from understudy.discovery import discover, plan_discovery
from understudy.errors import DataError
from understudy.mechanisms import Synthesizer
from understudy.privacy import ApproxDP, Budget, Gaussian, Laplace, Ledger, PureDP, Unit
from understudy.privacy.events import GaussianEvent, LaplaceEvent
from understudy.privacy.noise import noise as noise_module
from understudy.release.run.transform import TransformedTables
from understudy.release.selection.accounting import GeometricAttempts
from understudy.release.spec import budget as _spec_budget
from understudy.release.spec.spec import Spec
from understudy.schema import Schema

ALPHA = 1e-9
"""False-alarm rate of each audit of something right."""
REPORTED = 2e-6
"""About the error that a report on every method allows each of its audits; an audit divides it among its attackers."""

Check = Callable[[float], str]
"""From the error allowed to what is wrong, in words; empty if nothing is."""


def audited(build: Callable[[], Synthesizer], pair: Pair, *, runs: int = 450) -> Check:
    """Attack a mechanism on one pair; say which attacker demonstrated more than the claim."""

    def check(alpha: float) -> str:
        subject = _subject(build(), pair, PureDP(2.0))
        audits = hunt([subject], Effort(120, 24, runs, 120.0, 120.0), generator=np.random.default_rng(0))
        return next((audit.attacker for audit in audits if audit.violates(alpha=alpha)), "")

    return check


def primitive_audited(name: str, pair: str = "one record or none", *, runs: int = 3_000) -> Check:
    """Attack one way of opening a seal."""
    primitive = next(item for item in PRIMITIVES if (item.name, item.pair) == (name, pair))

    def check(alpha: float) -> str:
        audit = audit_primitive(primitive, runs=runs)
        return audit.attacker if audit.violates(alpha=alpha) else ""

    return check


ENTITIES = """
name: audit entities
source: {table: made up}
schema:
  tables:
    - {name: people, key: who, columns: [{name: sex, kind: boolean}]}
    - {name: visits, belongs_to: people, max_events: 12, columns: [{name: died, kind: boolean}]}
unit: {relation: add-remove, id_column: who, max_rows: 2}
synthesizers: [{method: independent}]
acceptance: {form: pass-only, criteria: [{name: rows, kind: rare-records, min_count: 1, threshold: 1}]}
selection: {rule: single}
public: {row_count: {epsilon: 0.5}}
budget: {total: {epsilon: 2}, model: {epsilon: 1.5}}
seed: 1
"""


REGISTER = """
name: audit register
source: {table: made up}
schema:
  tables:
    - {name: people, key: who, columns: [{name: sex, kind: boolean}]}
    - {name: visits, belongs_to: people, max_events: 6, columns: [{name: died, kind: boolean}]}
    - {name: claims, belongs_to: people, reference: person, max_events: 6, columns: [{name: paid, kind: boolean}]}
unit: {relation: add-remove, id_column: who, max_rows: 1}
synthesizers: [{method: independent}]
acceptance:
  form: pass-only
  criteria:
    - {name: visits, table: visits, kind: rare-records, min_count: 1, threshold: 1}
    - {name: claims, table: claims, kind: rare-records, min_count: 1, threshold: 1}
selection: {rule: single}
public: {row_count: {epsilon: 0.1}}
budget: {total: {epsilon: 1}, model: {epsilon: 0.9}}
seed: 1
"""
"""Entities with two tables of events; of each entity one record counts in each."""


def register_entities_hold(alpha: float) -> str:
    """No entity, with all its rows in all tables, moves a marginal of the event records of any table further than its seal says."""
    for relation in ("add-remove", "replace-one"):
        text = REGISTER.replace("relation: add-remove", f"relation: {relation}")
        text = text.replace("max_rows: 1", "max_rows: 3")
        spec = Spec.parse(text)
        seals = []
        for tables in neighbour_frames(spec, rows=5, generator=np.random.default_rng(0)):
            data = TransformedTables(spec, tables)
            book = Ledger.in_memory(budget=PureDP(1.0), unit=spec.unit, table="check")
            try:
                curators = [part.curator(spec.configurations[0], book) for part in data.parts]
            except DataError as error:
                return str(error)
            seals.append([curator.counts(curator.schema.names) for curator in curators])
        for table, one, two in zip(spec.parts, *seals, strict=True):
            change = np.asarray(one._exact - two._exact, float)
            if np.abs(change).sum() > one.l1 or np.sqrt((change**2).sum()) > one.l2 * (1 + 1e-12):
                return f"{relation}, {table}: a marginal moves by {np.abs(change).sum():g}, the seal says {one.l1:g}"
    return ""


def release_audited(text: str, *, runs: int = 260, rows: int = 1) -> Check:
    """Attack whole releases of a table with so many rows that count."""

    def check(alpha: float) -> str:
        effort = Effort(40, 24, runs, 60.0, 60.0)
        audits = audit_release(Spec.parse(text), effort=effort, rows=(rows,))
        return next((audit.attacker for audit in audits if audit.violates(alpha=alpha)), "")

    return check


def release_law_holds(alpha: float) -> str:
    """The computed law of a loop of attempts keeps what its accounting promises. It has no false alarm."""
    asked = _spec_budget.selection_guarantee(PureDP(2.0), GeometricAttempts(0.02)).epsilon
    text = re.sub("total: {epsilon: [0-9.]+}", f"total: {{epsilon: {asked * (1 + 1e-7):.9f}}}", PATIENT)
    audit = audit_release_law(Spec.parse(text), most_rows=3)
    found = f"a loss of {audit.demonstrated:.3f} where {audit.claim.value:.3f} is promised"
    return found if audit.violates() else ""


def sensitivities_hold(alpha: float) -> str:
    """No neighbour moves a sealed histogram further than the seal says."""
    schema = Schema.parse("{name: t, columns: [{name: a, kind: boolean}]}")
    for unit, tables in (
        (Unit.add_remove(), ([1], [])),
        (Unit.replace_one(), ([1], [0])),
    ):
        seals = []
        for rows in tables:
            book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="check")
            table = LocalTable(schema, {"a": np.array(rows, dtype=np.int64)})
            seals.append(Curator(table, unit=unit, ledger=book).counts(("a",)))
        moved = float(np.abs(seals[0]._exact - seals[1]._exact).sum())
        if moved > seals[0].l1:
            return f"{unit.relation}: a histogram moves by {moved:g}, the seal says {seals[0].l1:g}"
    return ""


def entities_hold(alpha: float) -> str:
    """No entity, however many rows it has, moves a marginal of event records further than the seal says."""
    schema = Schema.parse("{name: t, columns: [{name: a, kind: boolean}], entity: {id: who, max_events: 9}}")
    for unit, rows in (
        (Unit.add_remove_person("who", max_rows=3), (12, 0)),
        (Unit.add_remove_person("who", max_rows=3), (1, 0)),
        (Unit.replace_person("who", max_rows=3), (12, 1)),
    ):
        seals = []
        for number, value in zip(rows, (1, 0), strict=True):
            book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="check")
            table = LocalTable(
                schema, {"a": np.array([0, *[value] * number])}, persons={"who": np.array([1, *[0] * number])}
            )
            try:
                curator = Curator(EventsTable(table), unit=unit, ledger=book)
            except DataError as error:
                return str(error)
            seals.append(curator.counts(curator.schema.names))
        moved = float(np.abs(seals[0]._exact - seals[1]._exact).sum())
        if moved > seals[0].l1:
            return f"{unit.relation}: a marginal moves by {moved:g}, the seal says {seals[0].l1:g}"
    return ""


def people_hold(alpha: float) -> str:
    """No person, however many rows they have, moves the counts of people, or a table cut below the unit, further than the seal says."""
    schema = Schema.parse("{name: t, columns: [{name: a, kind: boolean}]}")
    for unit, rows in (
        (Unit.add_remove_person("who", max_rows=5), (12, 0)),
        (Unit.replace_person("who", max_rows=5), (12, 1)),
    ):
        counted, cut = [], []
        for number, value in zip(rows, (1, 0), strict=True):
            book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="check")
            table = LocalTable(
                schema, {"a": np.array([0, *[value] * number])}, persons={"who": np.array([1, *[0] * number])}
            )
            curator = Curator(table, unit=unit, ledger=book)
            counted.append(curator.people_by_rows((1, 2, 8)))
            cut.append(curator.cut_to(2).counts(("a",)))
        for what, seals in (("counts of people", counted), ("a cut table", cut)):
            moved = float(np.abs(seals[0]._exact - seals[1]._exact).sum())
            if moved > seals[0].l1:
                return f"{unit.relation}: {what} move by {moved:g}, the seal says {seals[0].l1:g}"
    return ""


def idle_entities_hold(alpha: float) -> str:
    """An entity without events moves a marginal of event records no further than the seal says, whatever takes its place."""
    schema = Schema.parse(
        "{name: t, columns: [{name: f, kind: boolean}, {name: a, kind: boolean}], "
        "entity: {id: who, fixed: [f], max_events: 9, min_events: 0, tables: [people, events]}}"
    )
    for unit, numbers in (
        (Unit.add_remove_person("who", max_rows=3), (0, None)),
        (Unit.replace_person("who", max_rows=3), (0, 12)),
    ):
        seals = []
        for number in numbers:  # of events of the entity; None if it is not there
            book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="check")
            events = number or 0
            table = LocalTable(
                schema,
                {"f": np.array([0, *[1] * events]), "a": np.zeros(1 + events, np.int64)},
                persons={"who": np.array([0, *[1] * events])},
            )
            without = WithoutEvents(int(number == 0), {"f": np.ones(int(number == 0), np.uint8)})
            try:
                curator = Curator(EventsTable(table, without=without), unit=unit, ledger=book)
            except DataError as error:
                return str(error)
            seals.append(curator.counts(("f", "number_of_events")))
        change = np.asarray(seals[0]._exact - seals[1]._exact, float)
        if np.abs(change).sum() > seals[0].l1 or np.sqrt((change**2).sum()) > seals[0].l2 * (1 + 1e-12):
            return f"{unit.relation}: a marginal moves by {np.abs(change).sum():g}, the seal says {seals[0].l1:g}"
    return ""


def left_out_entities_hold(alpha: float) -> str:
    """No exact number is public that changes when an entity is replaced by events of nobody, which are left out."""
    schema = Schema.parse(
        "{name: t, tables: [{name: people, key: who, columns: [{name: f, kind: boolean}]}, "
        "{name: visits, belongs_to: people, orphans: drop, columns: [{name: a, kind: boolean}]}]}"
    )
    unit, known = Unit.replace_person("who", max_rows=1), []
    visits = pd.DataFrame({"who": [1, 2], "a": [True, True]})
    for people in ([1, 2], [1]):
        tables = {"people": pd.DataFrame({"who": people, "f": True}), "visits": visits}
        book = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="check")
        table = read_linked(read_table, LinkedTables(tables=tables), schema)
        known.append(Curator(table, unit=unit, ledger=book).rows.number)
    return "" if known[0] == known[1] else "the exact number of entities with records is public"


def criteria_hold(alpha: float) -> str:
    """No unit moves a criterion further than is charged, among hostile parameters and neighbours. It has no false alarm."""
    for kind in ("event-rates", "transition-shares", "conditional-means"):
        found = search_criteria(kind, specifications=12, neighbours=8, seed=1)
        for form, worst in found.items():
            if worst.share > 1:
                return f"{kind}, {form}: moves {worst.share:g} times as far as is charged"
    return ""


def noise_is_fresh(alpha: float) -> str:
    """Two calls for noise on 64 cells of scale 100 never agree; false alarm below 2**-300."""
    schema = Schema.parse("{name: t, columns: [{name: a, kind: real, minimum: 0, maximum: 64, bins: 64}]}")
    with Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="check") as book:
        box = Curator(LocalTable(schema, {"a": np.array([3])}), unit=Unit.add_remove(), ledger=book)
        one, two = (box.measure(box.counts(("a",)), noise=Laplace(100.0)).values for _ in range(2))
    return "the same noise twice" if np.array_equal(one, two) else ""


def numbers_are_whole(alpha: float) -> str:
    """Noisy counts are whole numbers: no low bits are left to look at. It has no false alarm."""
    schema = Schema.parse("{name: t, columns: [{name: a, kind: real, minimum: 0, maximum: 64, bins: 64}]}")
    with Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="check") as book:
        box = Curator(LocalTable(schema, {"a": np.array([3])}), unit=Unit.add_remove(), ledger=book)
        values = box.measure(box.counts(("a",)), noise=Laplace(100.0)).values
    return "" if np.array_equal(values, np.round(values)) else "a released count is not a whole number"


def discovery_paid(alpha: float) -> str:
    """Every noise that a discovery draws stands in its ledger with its own scale, so often. It has no false alarm."""
    for budget, reserve in ((PureDP(8.0), 0.0), (ApproxDP(8.0, 1e-6), 5e-7)):
        if wrong := _discovery_unpaid(budget, reserve):
            return wrong
    return ""


def _discovery_unpaid(budget: Budget, reserve: float) -> str:
    """Discover numbers, texts, and numbers beside a word; say which noise was drawn more often than it was paid for."""
    unit = Unit.add_remove()
    drawn: Counter[tuple[str, float]] = Counter()

    def watched(kind: type[Laplace] | type[Gaussian]) -> Callable[..., np.ndarray]:
        right = kind.draw

        def draw(self: Laplace | Gaussian, shape: object, source: object) -> np.ndarray:
            drawn[kind.__name__, self.scale] += 1
            return right(self, shape, source)  # type: ignore[arg-type]

        return draw

    plan = plan_discovery(["a", "b", "c"], [], unit=unit, budget=budget, reserve=reserve)
    texts = [("north", "south", "east")[k % 3] for k in range(2_000)]
    mixed = ["N" if k % 3 == 0 else str(1_000 + 7 * k) for k in range(2_000)]
    frame = pd.DataFrame({"a": [str(k % 97) for k in range(2_000)], "b": texts, "c": mixed})
    with (
        pytest.MonkeyPatch.context() as patch,
        Ledger.in_memory(budget=budget, unit=unit, table="check", approximate_delta=reserve) as book,
    ):
        for kind in (Laplace, Gaussian):
            patch.setattr(kind, "draw", watched(kind))
        discover(Curator(read_entries(frame, ["a", "b", "c"]), unit=unit, ledger=book), plan)
        events = [entry.event for entry in book.entries() if entry.event is not None]
    paid = Counter(part for event in events for part in _noises(event))
    missing = drawn - paid
    return f"noise {next(iter(missing))} was drawn and not paid for" if missing else ""


def _noises(event: object) -> Iterator[tuple[str, float]]:
    """Yield kind and scale of each noise that an event is made of."""
    if isinstance(event, LaplaceEvent):
        yield "Laplace", event.scale
    elif isinstance(event, GaussianEvent):
        yield "Gaussian", event.sigma
    else:
        for part in getattr(event, "events", ()):
            yield from _noises(part)


def drawn_as_paid(build: Callable[[], Synthesizer]) -> Check:
    """Every noise that a fit asks the samplers for stands in its ledger with that scale, so often. It has no false alarm."""

    def check(alpha: float) -> str:
        from mutants import ONE_COLUMN

        budget, drawn = PureDP(2.0), Counter[float]()
        build().prepare(ONE_COLUMN.first.schema, unit=ONE_COLUMN.unit, budget=budget)  # the trial draws too
        right = noise_module.geometric

        def sampler(scale: float, *rest: Any, **options: Any) -> np.ndarray:
            drawn[scale] += 1
            return right(scale, *rest, **options)

        with (
            pytest.MonkeyPatch.context() as patch,
            Ledger.in_memory(budget=budget, unit=ONE_COLUMN.unit, table="check") as book,
        ):
            patch.setattr(noise_module, "geometric", sampler)
            build().fit(Curator(ONE_COLUMN.first, unit=ONE_COLUMN.unit, ledger=book), budget)
            events = [entry.event for entry in book.entries() if entry.event is not None]
        missing = drawn - Counter(scale for event in events for _, scale in _noises(event))
        return f"noise of scale {next(iter(missing)):g} was drawn and not paid for" if missing else ""

    return check


def unpaid(build: Callable[[], Synthesizer]) -> Check:
    """Every noisy table in a model was paid for in the ledger of the run, with its own scale."""

    def check(alpha: float) -> str:
        from mutants import ONE

        budget = PureDP(2.0)
        with Ledger.in_memory(budget=budget, unit=ONE.unit, table="check") as book:
            model = build().fit(Curator(ONE.first, unit=ONE.unit, ledger=book), budget)
            events = [entry.event for entry in book.entries() if entry.event is not None]
        parts = [part for event in events for part in getattr(event, "events", (event,))]
        scales = [getattr(part, "scale", None) for part in parts]
        for item in model.measurements:
            if item.scale not in scales:
                return f"a table with noise of scale {item.scale:g} was not paid for"
            scales.remove(item.scale)
        return ""

    return check
