"""The outcome of a release, put together from its state and its ledger; and the ledger itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import LedgerError
from understudy.inference.people import PEOPLE, RowsPerPerson, lost_by
from understudy.ledgers import LedgerPlace, other_ledgers
from understudy.marginals import Statistic
from understudy.mechanisms import Model, Provenance, software
from understudy.privacy import Ledger
from understudy.release.criteria.registry import packages_of
from understudy.release.regressions.fits import LinearFit
from understudy.release.result import (
    AcceptanceResult,
    Configuration,
    CriterionResult,
    ReleaseFailure,
    ReleaseGuarantee,
    ReleaseResult,
)
from understudy.release.run.candidate import Candidate, draw_candidate, joined_tables, register_model
from understudy.release.run.judgement import Judgement
from understudy.release.run.planning import planned_models
from understudy.release.run.state import State
from understudy.release.spec.spec import Spec
from understudy.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

    from understudy.mechanisms.events import RegisterModel
    from understudy.release.record_types import RecordTypes

# ----------------------------------------------------------------------------------------
# Decisions and origins as plain values, for the state of a release.


def judgement_to_plain(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as plain values."""
    return {
        "passed": judgement.passed,
        "acceptance": judgement.acceptance.to_dict(),
        "criteria": [criterion.to_dict() for criterion in judgement.criteria],
        **(
            {"parts": {table: judgement_to_plain(part) for table, part in judgement.parts.items()}}
            if judgement.parts
            else {}
        ),
    }


def judgement_from_plain(plain: Mapping[str, Any]) -> Judgement:
    """Return the judgement that was recorded."""
    criteria = [dict(item) for item in plain["criteria"]]
    for item in criteria:
        item["bounds"] = None if item["bounds"] is None else tuple(item["bounds"])
    return Judgement(
        passed=bool(plain["passed"]),
        acceptance=AcceptanceResult(**plain["acceptance"]),
        criteria=tuple(CriterionResult(**item) for item in criteria),
        parts={table: judgement_from_plain(part) for table, part in plain.get("parts", {}).items()},
    )


def fit_from_plain(plain: Mapping[str, Any]) -> LinearFit:
    """Return a regression that was recorded."""
    return LinearFit(float(plain["intercept"]), tuple(float(slope) for slope in plain["slopes"]))


def release_ledger(spec: Spec, place: LedgerPlace) -> AbstractContextManager[Ledger]:
    """Open or make the ledger of the table that a specification is about; see :meth:`~understudy.ledgers.LedgerPlace.opened`."""
    path = spec.source.path
    return place.opened(
        named=path is None or spec.source.table != path.name,
        budget=spec.total,
        unit=spec.unit,
        table=spec.source.table or spec.name,
        accounting=spec.shares.accounting,
        approximate_delta=spec.shares.reserve,
        advice="Use the ledger of this table, name the table as the ledger does (source.table), or give it a ledger of its own (--ledger FILE, with --another-ledger "
        "if this table has one already: then what the two promise adds up).",
    )


def recorded_outcome(
    spec: Spec,
    ledger: Ledger,
    state: State,
    configurations: Sequence[Configuration],
    *,
    scope: str,
    model: Model | None = None,
    schema: Schema | None = None,
) -> ReleaseResult | ReleaseFailure:
    """Build the outcome of a release from what was recorded; model and schema of the accepted candidate are read unless they are at hand."""
    outcome = state.get("outcome")
    judged = None if outcome.get("judgement") is None else judgement_from_plain(outcome["judgement"])
    guarantee = guarantee_of(spec, ledger)
    anchor = ledger.anchor()
    common: dict[str, Any] = {
        "spec": spec,
        "guarantee": guarantee,
        "release_id": state.release_id,
        "ledger_entries": tuple(e for e in ledger.entries() if e.scope.startswith(scope)),
        "lost_entries": tuple(outcome.get("lost", ())),
        "ledger_id": ledger.ledger_id,
        "ledger_head": anchor.head,
        "ledger_length": anchor.length,
        "ledger_table": ledger.table,
        "public_facts": spec.public_facts(),
        "software": software(
            (item.method for item in configurations), packages_of(item.kind for item in spec.criteria)
        ),
        "started": state.get("started"),
        "finished": outcome["day"],
        "criteria": () if judged is None else judged.criteria,
        "acceptance": None if judged is None else judged.acceptance,
        "rows_lost": _rows_lost(state.get("people"), spec),
    }
    if not outcome["passed"]:
        reason = outcome.get("reason") or (
            "The candidate did not pass the acceptance test."
            if spec.shares.single
            else "No candidate was accepted before the selection ended."
        )
        return ReleaseFailure(reason=reason, **common)
    configuration = next(item for item in configurations if item.name == outcome["configuration"])
    # attempts of a loop have ledgers in memory; the one that paid is that of the release
    paid_by = {"ledger_id": ledger.ledger_id, "ledger_head": anchor.head, "ledger_length": anchor.length}
    provenance = Provenance.from_dict(outcome["provenance"] | paid_by | {"condition": guarantee.condition})
    if spec.parts:
        assert judged is not None
        return _register_outcome(
            spec, state, configuration, judged, paid_by | {"condition": guarantee.condition}, common
        )
    if model is None and state.model_path.exists():
        model = Model.load(state.model_path)
    seed = int(state.get("seed"))
    tables: Mapping[str, pd.DataFrame] = {}
    if spec.two_levels:
        tables = _drawn_again(spec, configuration, state, model, rows=int(outcome["rows"]), seed=seed)
        schema = spec.table_schema_for(configuration)
        synthetic = joined_tables(schema, tables)
    else:
        if schema is None:
            schema = replace(spec.schema_for(configuration), row_count=int(outcome["rows"]))
        synthetic = Candidate(
            configuration=configuration,
            schema=schema,
            types=state.load_candidate(schema.domain),
            provenance=provenance,
        ).frame(seed, model=model)
    return ReleaseResult(
        schema=schema,
        synthetic=synthetic,
        tables={name: table for name, table in tables.items() if name},
        configuration=configuration,
        provenance=provenance,
        timings=outcome["seconds"],
        model=None if model is None else replace(model, provenance=provenance),
        **common,
    )


def _register_outcome(
    spec: Spec,
    state: State,
    configuration: Configuration,
    judged: Judgement,
    paid_by: dict[str, Any],
    common: Mapping[str, Any],
) -> ReleaseResult:
    """Build the outcome of a release of several tables of events: all tables, and the entities with each table of events by themselves."""
    outcome = state.get("outcome")
    if not all(state.model_file(table).exists() for table in spec.parts):
        raise _lost_model()
    models = {table: Model.load(state.model_file(table)) for table in spec.parts}
    model = register_model(spec, models)
    kept = kept_register(spec, configuration, model, state)
    drawn = draw_candidate(spec, configuration, model, rows=int(outcome["rows"]), seed=int(state.get("seed")))
    for table, part in drawn.parts.items():
        _require_same(part, kept.parts[table].types)
    found: dict[str, ReleaseResult] = {}
    provenance = Provenance.from_dict(outcome["provenance"] | paid_by)
    for table, part in drawn.parts.items():
        schema = spec.parts[table].table_schema_for(configuration)
        assert schema.entity is not None
        assert schema.entity.tables is not None
        made = dict(part.tables)
        entities = schema.entity.tables[0]
        own = [schema.entity.id, *schema.select(schema.entity.fixed).output_names] if schema.entity.fixed else [schema.entity.id]  # fmt: skip
        made[entities] = made[entities][[*own, *schema.entity.written]]
        origin = Provenance.from_dict(models[table].provenance.to_dict() | paid_by)
        found[table] = ReleaseResult(
            schema=schema,
            synthetic=joined_tables(schema, made),
            tables=made,
            configuration=configuration,
            provenance=origin,
            timings=outcome["seconds"],
            model=replace(models[table], provenance=origin),
            **{
                **common,
                "criteria": judged.parts[table].criteria,
                "acceptance": judged.parts[table].acceptance,
            },
        )
    entity = next(iter(found.values())).schema.entity
    assert entity is not None
    assert entity.tables is not None
    return ReleaseResult(
        schema=spec.schema,
        synthetic=drawn.tables[entity.tables[0]],
        tables=drawn.tables,
        configuration=configuration,
        provenance=provenance,
        timings=outcome["seconds"],
        parts=found,
        **common,
    )


def kept_register(spec: Spec, configuration: Configuration, model: RegisterModel, state: State) -> Candidate:
    """Return the candidate of several tables of events that was kept, without its tables."""
    found = {}
    for table, part in spec.parts.items():
        schema = part.schema_for(configuration)
        found[table] = Candidate(
            configuration=configuration,
            schema=schema,
            types=state.load_candidate(schema.domain, table),
            provenance=model.models[table].provenance,
            seconds=state.get("sampled") or {},
        )
    first = next(iter(found.values()))
    provenance = replace(first.provenance, budget=spec.shares.model)
    return replace(first, provenance=provenance, parts=found)


def _lost_model() -> LedgerError:
    return LedgerError(
        "The model of the accepted candidate is not in the state of the release, so its tables cannot be drawn. Put the latest state back."
    )


def _require_same(drawn: Candidate, judged: RecordTypes) -> None:
    """Refuse a candidate that was drawn again and is not the one that was judged."""
    if not (
        np.array_equal(drawn.types.codes, judged.codes) and np.array_equal(drawn.types.counts, judged.counts)
    ):
        raise LedgerError(
            "This version of Understudy, or of a library, draws other tables from the accepted model than those that were judged. Publish with the versions "
            "that the release was run with."
        )


def _drawn_again(
    spec: Spec, configuration: Configuration, state: State, model: Model | None, *, rows: int, seed: int
) -> Mapping[str, pd.DataFrame]:
    """Return the tables of an accepted candidate of two levels: drawn again from its model by the public seed, and the same as those that were judged."""
    if model is None:
        raise _lost_model()
    drawn = draw_candidate(spec, configuration, model, rows=rows, seed=seed)
    _require_same(drawn, state.load_candidate(spec.schema_for(configuration).domain))
    return drawn.tables


def _rows_lost(people: Mapping[str, Any] | None, spec: Spec) -> RowsPerPerson | None:
    """Return what the counts of people say about the rows that the cut left out, where they were paid for."""
    if people is None:
        return None
    counted = Statistic(PEOPLE, np.asarray(people["values"], np.float64), "laplace", float(people["scale"]))
    return lost_by(counted, spec.unit.max_rows)


def guarantee_of(spec: Spec, ledger: Ledger | None = None) -> ReleaseGuarantee:
    """Return the promise of a release and how it is made up."""
    shares = spec.shares
    selection = shares.selection
    accounting = shares.rule.main.name if ledger is None else ledger.accounting.name
    argument = "the parts of one attempt add up" if selection is None else selection.argument
    invariants = () if ledger is None else ledger.invariants()
    condition = spec.condition(invariants)
    return ReleaseGuarantee(
        budget=shares.promise,
        total=shares.total,
        table_total=None if ledger is None else ledger.budget,
        other_ledgers=() if ledger is None else tuple(sorted(other_ledgers(ledger))),
        trade_off=shares.trade_off,
        unit=spec.unit,
        neighbours=spec.protects,
        accounting=accounting,
        attempt=shares.attempt,
        model=shares.model,
        acceptance_epsilon=shares.judging,
        selection=shares.attempts.describe(),
        argument=argument,
        considered={} if selection is None else dict(selection.considered),
        condition=condition.text,
        among=condition.among,
        steps=condition.steps,
        invariants=invariants,
    )


def room_needed(spec: Spec) -> int:
    """Return a public guess of the bytes that models, candidates and decisions of a release take on the disk."""
    rows = spec.row_count.value or spec.expected_rows or 1_000_000
    largest = max((plan.model_megabytes for plan in planned_models(spec)), default=0.0)
    return int(4e6 + 3e6 * min(largest, 500.0) + 16 * rows * len(spec.schema.names))
