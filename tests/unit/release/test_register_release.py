"""Releases of several tables of events: one promise, criteria that name their table, a bundle whose keys hold, rehearsals, kills, and what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linked_tables import TEXT, files, joins, tables
from understudy.curator import Curator
from understudy.data.linked import LinkedTables
from understudy.errors import BudgetError, BundleError, DataError, LedgerMismatch, SchemaError
from understudy.privacy import GDP, ApproxDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.filter import Filter, Spending
from understudy.privacy.events import AllowanceEvent
from understudy.release import RecordTypes
from understudy.release.bundle.bundle import manifest_text, write_bundle
from understudy.release.bundle.verify import verify_bundle
from understudy.release.rehearsal.rehearsal import rehearse
from understudy.release.result import ReleaseFailure, ReleaseResult
from understudy.release.run.planning import plan_release
from understudy.release.run.run import run_release
from understudy.release.run.transform import TransformedTables, neighbours
from understudy.release.spec.spec import Spec, read_facts
from understudy.schema.files.yaml import parse_plain, write_plain
from understudy.studio.designs.specification import built
from understudy.workflow import publish, synthesize

CRITERIA = (
    {"name": "number of visits", "table": "visits", "kind": "mean-events", "threshold": 2.5},
    {"name": "paid", "table": "claims", "kind": "event-rates", "column": "paid", "values": ["true"], "threshold": 0.4},
    {"name": "wards", "table": "visits", "kind": "transition-shares", "columns": ["ward"], "threshold": 0.3},
    {"name": "claims of each", "table": "claims", "kind": "max-marginal-error", "orders": [1], "threshold": 0.4},
)  # fmt: skip


def schema_plain() -> dict[str, object]:
    plain = parse_plain(TEXT)
    for table in plain["tables"]:
        table.pop("source")
    return plain


def plain(form: str = "pass-only", **changed: object) -> dict[str, object]:
    criteria = [dict(item) for item in CRITERIA]
    acceptance: dict[str, object] = {"form": form, "criteria": criteria}
    if form == "pass-only":
        acceptance["epsilon"] = 2.0
    else:
        for item in criteria:
            item["epsilon"] = 0.5
    return {
        "name": "several",
        "source": {"table": "register"},
        "schema": schema_plain(),
        "unit": {"relation": "add-remove", "id_column": "who", "max_rows": 3},
        "synthesizers": [{"method": "mst"}],
        "acceptance": acceptance,
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 44.0}, "model": {"epsilon": 40.0}},
        "seed": 1,
        **changed,
    }


REAL = tables(list(range(500)), 3)


@pytest.fixture(scope="module", autouse=True)
def _seeded() -> Iterator[None]:
    """The same noise in every run: the test of acceptance is noisy, and rejects about one good candidate in a hundred."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.curator.curator.SystemRandomness", lambda: SeededRandomness(11))
        yield


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that was published from files that the schema names."""
    folder = tmp_path_factory.mktemp("several")
    files(folder, REAL)
    write_plain(
        plain(schema="register.yaml", source={}, output={"formats": ["parquet"]}), folder / "spec.yaml"
    )
    done = publish(folder / "spec.yaml", out=folder / "bundle", ledger=folder / "register.ledger")
    assert done.accepted
    return folder / "bundle"


# ---------------------------------------------------------------------- what it costs


def test_the_parts_add_up_to_the_promise_and_the_ledger_is_charged_no_more(tmp_path) -> None:
    """One composition: all charges of all tables together keep the promise of the whole, by the filter of a fresh ledger."""
    for form in ("pass-only", "published"):
        spec = Spec.from_dict(plain(form))
        outcome = run_release(spec, ledger=tmp_path / f"{form}.ledger", source=REAL)
        assert isinstance(outcome, ReleaseResult)
        rule = Filter(outcome.guarantee.budget, spec.unit, "pure")
        spending = rule.nothing()
        charged = [entry for entry in outcome.ledger_entries if entry.event is not None]
        for entry in charged:
            spending = rule.plus(spending, entry.event)
        assert rule.holds(spending)
        tight = Filter(PureDP(0.999 * outcome.guarantee.budget.epsilon), spec.unit, "pure")
        assert not tight.holds(spending), "the promise is not larger than what was charged"
        places = {"/".join(entry.scope.split("/")[1:3]) for entry in charged}
        assert places == {
            "rows/count",
            *(f"{step}/{table}" for step in ("model", "judgement") for table in ("visits", "claims")),
        }
        assert [item.name for item in outcome.criteria] == [item["name"] for item in CRITERIA]


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        ({"total": {"epsilon": 44.0}, "model": {"epsilon": 40.0}}, PureDP(20.0)),
        ({"total": {"mu": 9.0}, "model": {"mu": 8.0}}, GDP(8.0 / 2**0.5)),
    ],
)
def test_every_model_has_an_equal_share(budget, share) -> None:
    parts = Spec.from_dict(plain(budget=budget)).parts
    for part in parts.values():
        (number,) = (value for value in part.shares.model.to_dict().values() if isinstance(value, float))
        (wanted,) = (value for value in share.to_dict().values() if isinstance(value, float))
        assert type(part.shares.model) is type(share)
        assert wanted * (1 - 1e-8) <= number <= wanted
    assert [part.shares.acceptance for part in parts.values()] == [1.0, 1.0]


def test_an_approximate_promise_is_divided_in_the_accounting_of_the_model(tmp_path) -> None:
    budget = {"total": {"epsilon": 30.0, "delta": 1e-6}, "model": {"epsilon": 20.0, "delta": 1e-6}}
    spec = Spec.from_dict(plain(budget=budget))
    outcome = run_release(spec, ledger=tmp_path / "a.ledger", source=REAL)
    assert isinstance(outcome, ReleaseResult)
    assert all(isinstance(part.shares.model, GDP) for part in spec.parts.values())
    write_bundle(outcome, tmp_path / "bundle")
    verify_bundle(tmp_path / "bundle")


PLAINLY = {"total": {"epsilon": 3.0, "delta": 1e-6}, "model": {"epsilon": 1.0, "delta": 1e-6}}
"""A budget whose parts add up to the total by plain addition of epsilons and deltas alone."""


def test_a_budget_that_adds_up_plainly_pays_for_all_models(tmp_path) -> None:
    """Before, the first model took all of the delta, and the release ended in an error after it was paid for."""
    asked = plain(budget=PLAINLY)
    asked["acceptance"]["epsilon"] = 1.0
    spec = Spec.from_dict(asked)
    assert spec.shares.accounting == "pure"
    run_release(spec, ledger=tmp_path / "a.ledger", source=REAL)
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        opened = [entry.event for entry in ledger.entries() if isinstance(entry.event, AllowanceEvent)]
        rule, spending = Filter(spec.shares.promise, spec.unit, "pure", approximate_delta=1e-6), Spending()
        for entry in ledger.entries():
            spending = spending if entry.event is None else rule.plus(spending, entry.event)
    assert [(event.epsilon, event.delta) for event in opened] == [(0.5, 5e-7)] * 2
    assert rule.holds(spending)


def test_models_without_a_delta_are_not_paid_from_a_ledger_that_adds_up_plainly(tmp_path) -> None:
    """Refused before anything is spent: the first model would take all of the delta."""
    budget = {"total": {"epsilon": 30.0, "delta": 1e-6}, "model": {"epsilon": 20.0, "delta": 1e-6}}
    spec = Spec.from_dict(plain(budget=budget))
    terms = {"budget": ApproxDP(60.0, 2e-6), "unit": spec.unit, "table": "register"}
    with Ledger.create(tmp_path / "a.ledger", **terms, accounting="pure", approximate_delta=2e-6) as ledger:
        before = ledger.spending
    with pytest.raises(BudgetError, match="adds up epsilons and deltas plainly"):
        run_release(spec, ledger=tmp_path / "a.ledger", source=REAL)
    with Ledger.open(tmp_path / "a.ledger") as ledger:
        assert ledger.spending == before
    with pytest.raises(SchemaError, match="each of 2 parts needs a delta of its own"):
        Spec.from_dict(plain(budget=PLAINLY | {"model": {"rho": 0.01}}))


def test_attempts_may_be_repeated_until_one_is_accepted(tmp_path) -> None:
    spec = Spec.from_dict(
        plain(
            selection={"rule": "until-accepted", "gamma": 0.1, "max_attempts": 5},
            budget={"total": {"epsilon": 130.0}, "model": {"epsilon": 40.0}},
        )
    )
    outcome = run_release(spec, ledger=tmp_path / "a.ledger", source=REAL)
    assert isinstance(outcome, ReleaseResult)
    joins(dict(outcome.tables))
    write_bundle(outcome, tmp_path / "bundle")
    verify_bundle(tmp_path / "bundle")


def test_a_ledger_that_synth_bound_takes_the_release_and_the_other_way_round(tmp_path) -> None:
    """The facts of `synth`, of a specification and of the schema are the same facts."""
    schema = files(tmp_path, REAL)
    write_plain(plain(schema="register.yaml", source={"table": "register"}), tmp_path / "spec.yaml")
    spec = Spec.read(tmp_path / "spec.yaml")
    assert read_facts(tmp_path / "spec.yaml").fingerprint() == spec.facts.fingerprint()
    with Ledger.create(
        tmp_path / "a.ledger", budget=PureDP(60.0), unit=spec.unit, table="register"
    ) as ledger:
        synthesize(schema, unit=spec.unit, epsilon=1.0, method="independent", ledger=ledger, seed=1)
    assert isinstance(run_release(spec, ledger=tmp_path / "a.ledger"), ReleaseResult)
    other = plain(schema=json.loads(json.dumps(schema_plain()).replace('"person"', '"payer"')), name="other")
    with pytest.raises(LedgerMismatch, match="linked tables"):
        run_release(Spec.from_dict(other), ledger=tmp_path / "a.ledger", source=REAL)


# ---------------------------------------------------------------------- who is protected


@settings(max_examples=25, deadline=None)
@given(
    others=st.lists(st.integers(0, 30), min_size=1, max_size=6, unique=True),
    after=st.one_of(st.none(), st.integers(61, 80)),
    most=st.integers(1, 6),
    orphans=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_criteria_move_by_no_more_than_they_say_when_an_entity_comes_goes_or_is_replaced(
    others, after, most, orphans, seed
) -> None:
    """Through what a release itself reads, in every table: the whole entity with all its rows in all tables, or a key with events of nobody in its place."""
    relation = "add-remove" if after is None else "replace-one"
    described = json.loads(json.dumps(schema_plain()))
    for table in described["tables"][1:] if orphans else ():
        table["orphans"] = "drop"
    asked = plain(
        "published", schema=described, unit={"relation": relation, "id_column": "who", "max_rows": most}
    )
    spec = Spec.from_dict(asked)
    configuration = spec.configurations[0]
    left = tables([*others, 50], seed)
    right = tables(others if after is None else [*others, after], seed)
    if orphans and after is not None:  # the one that comes has events and no row of its own
        right["people"] = right["people"][right["people"]["who"] != after]
    drawn = tables([0, 3, 4, 8], 5)
    sides = [TransformedTables(spec, LinkedTables(tables=item)) for item in (left, right, drawn)]
    for (_, part), *data in zip(spec.parts.items(), *(item.parts for item in sides), strict=True):
        records = [
            RecordTypes.from_table(item._table(configuration).truncated("who", most, bytes(32)))
            for item in data
        ]
        candidate = records[2]
        for criterion in part.criteria_for(part.schema_for(configuration)):
            allowed = max(criterion.sensitivity(unit, candidate.rows, candidate) for unit in neighbours(part))
            moved = abs(
                float(criterion.released_value(records[0], candidate))
                - float(criterion.released_value(records[1], candidate))
            )
            assert moved <= allowed * (1 + 1e-9), criterion.name


def test_no_exact_number_is_public_where_events_of_nobody_are_left_out() -> None:
    described = json.loads(json.dumps(schema_plain()))
    described["tables"][2]["orphans"] = "drop"
    with pytest.raises(SchemaError, match="orphans has to be the same for all tables of events"):
        Spec.from_dict(plain(schema=described))
    described["tables"][1]["orphans"] = "drop"
    replaced = {"relation": "replace-one", "id_column": "who", "max_rows": 1}
    assert Spec.from_dict(plain(schema=described, unit=replaced)).row_count.kind == "measured"
    exact = Spec.from_dict(plain(unit=replaced))
    assert exact.row_count.kind == "invariant"
    for spec, known in ((exact, True), (Spec.from_dict(plain(schema=described, unit=replaced)), False)):
        data = TransformedTables(spec, LinkedTables(tables=REAL))
        for part in data.parts:
            with Ledger.in_memory(budget=PureDP(1.0), unit=spec.unit, table="register") as ledger:
                curator = Curator(part._table(spec.configurations[0]), unit=spec.unit, ledger=ledger)
                assert (curator.rows.number is not None) == known


# ---------------------------------------------------------------------- the bundle


def test_the_bundle_has_all_tables_with_their_keys_and_a_bundle_for_each_table_of_events(published) -> None:
    document = verify_bundle(published)
    made = {name: pd.read_csv(published / "tables" / f"{name}.csv") for name in REAL}
    assert document["tables"] == {name: len(table) for name, table in made.items()}
    joins(made)
    package = json.loads((published / "datapackage.json").read_text(encoding="utf-8"))
    resources = {item["path"]: item for item in package["resources"]}
    assert resources["tables/people.csv"]["schema"]["primaryKey"] == ["who"]
    for table, key in (("visits", "who"), ("claims", "person")):
        assert resources[f"tables/{table}.csv"]["schema"]["foreignKeys"] == [
            {"fields": [key], "reference": {"resource": "people", "fields": ["who"]}}
        ]
        assert f"tables/{table}.parquet" in resources
    assert len({item["name"] for item in package["resources"]}) == len(resources)
    sets = {
        item["name"]: item
        for item in json.loads((published / "croissant.json").read_text(encoding="utf-8"))["recordSet"]
    }
    assert sets["people"]["key"] == {"@id": "people/who"}
    for table, key in (("visits", "who"), ("claims", "person")):
        field = next(item for item in sets[table]["field"] if item["name"] == key)
        assert field["references"] == {"field": {"@id": "people/who"}}
        part = verify_bundle(published / "parts" / table)
        assert part["guarantee"] == document["guarantee"], "a part promises no less than the whole"
        assert {item["name"] for item in part["criteria"]} == {
            item["name"] for item in CRITERIA if item["table"] == table
        }
        assert "model.understudy" in {path.name for path in (published / "parts" / table).iterdir()}
    readme = (published / "README.md").read_text(encoding="utf-8")
    assert "claims: person is the who of a row of people (foreign key)" in readme
    assert "parts/visits/" in readme
    assert "data.csv:" not in readme, "there is no table with the columns of all tables"
    assert Spec.read(published / "spec.json").fingerprint() == document["spec_fingerprint"]


def _tampered(published: Path, folder: Path, name: str, change) -> Path:
    """Return a copy of the bundle in which a table was changed and all hashes made to agree."""
    copy = folder / "copy"
    shutil.copytree(published, copy)
    table = pd.read_csv(copy / name)
    changed = change(table)
    (table if changed is None else changed).to_csv(copy / name, index=False)
    places = [copy, *(copy / "parts" / part for part in ("visits", "claims") if name.startswith(f"parts/{part}"))]  # fmt: skip
    for place in reversed(places):  # the manifest of a part is a file of the whole
        listed = json.loads((place / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
        listed = {one: hashlib.sha256((place / one).read_bytes()).hexdigest() for one in listed}
        (place / "MANIFEST.json").write_text(manifest_text(listed), encoding="utf-8")
    return copy


def _twice(table: pd.DataFrame) -> None:
    table.loc[1, "who"] = table.loc[0, "who"]


def _orphan(table: pd.DataFrame) -> None:
    table.loc[0, "person"] = 10**6


def _number(table: pd.DataFrame) -> None:
    table.loc[0, "number_of_visits"] = (table.loc[0, "number_of_visits"] + 1) % 6


def _shorter(table: pd.DataFrame) -> pd.DataFrame:
    return table.iloc[1:]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("tables/people.csv", _twice, "tables/people.csv is not the table of parts"),
        ("tables/claims.csv", _orphan, "tables/claims.csv is not the table of parts"),
        ("tables/claims.csv", _shorter, "as many rows as the certificate says"),
        ("parts/claims/tables/claims.csv", _orphan, "is no 'who' of tables/people.csv"),
        ("parts/claims/tables/people.csv", _number, "joining the linked tables"),
    ],
)
def test_keys_that_do_not_hold_are_found(published, tmp_path, name, change, said) -> None:
    with pytest.raises(BundleError, match=said):
        verify_bundle(_tampered(published, tmp_path, name, change))


def test_an_unchanged_copy_is_fine(published, tmp_path) -> None:
    """The control of the test above."""
    verify_bundle(_tampered(published, tmp_path, "tables/visits.csv", lambda table: None))


def test_summaries_of_every_table_are_published_and_checked(tmp_path) -> None:
    described = schema_plain()
    _, visits, claims = described["tables"]
    visits["summaries"] = [{"name": "ever_b", "of": "ward", "by": "any", "value": "b"}]
    claims["summaries"] = [{"name": "ever_paid", "of": "paid", "by": "any", "value": "true"}]
    done = publish(
        Spec.from_dict(plain(schema=described)),
        source=REAL,
        out=tmp_path / "bundle",
        ledger=tmp_path / "l.ledger",
    )
    assert done.accepted
    verify_bundle(tmp_path / "bundle")
    made = {name: pd.read_csv(tmp_path / "bundle" / "tables" / f"{name}.csv") for name in REAL}
    people = made["people"].set_index("who")
    found = {
        "ever_b": made["visits"].groupby("who")["ward"].agg(lambda ward: (ward == "b").any()),
        "ever_paid": made["claims"].groupby("person")["paid"].any(),
    }
    for name, rows in found.items():
        assert (people[name] == rows.reindex(people.index, fill_value=False)).all(), name

    def changed(table: pd.DataFrame) -> None:
        table.loc[0, "ever_paid"] = not table.loc[0, "ever_paid"]

    for name, said in (
        ("tables/", "is not the table of parts"),
        ("parts/claims/tables/", "'ever_paid' of .* does not follow"),
    ):
        (tmp_path / said[:3]).mkdir()
        with pytest.raises(BundleError, match=said):
            verify_bundle(_tampered(tmp_path / "bundle", tmp_path / said[:3], f"{name}people.csv", changed))


def test_a_part_of_another_release_is_found(published, tmp_path) -> None:
    copy = _tampered(published, tmp_path, "tables/visits.csv", lambda table: None)
    place = copy / "parts" / "claims"
    document = json.loads((place / "certificate.json").read_text(encoding="utf-8"))
    document["release"] = "0" * 16
    (place / "certificate.json").write_text(json.dumps(document), encoding="utf-8")
    for folder in (place, copy):
        listed = json.loads((folder / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
        listed = {one: hashlib.sha256((folder / one).read_bytes()).hexdigest() for one in listed}
        (folder / "MANIFEST.json").write_text(manifest_text(listed), encoding="utf-8")
    with pytest.raises(BundleError, match="parts/claims is the bundle of another release"):
        verify_bundle(copy)


# ---------------------------------------------------------------------- interruptions


class _Killed(BaseException):
    """What a process that is killed leaves behind: nothing runs after it."""


@pytest.mark.parametrize(
    ("where", "times"),
    [
        ("understudy.release.run.run.fit_model", 2),
        ("understudy.release.run.run.register_model", 1),
        ("understudy.release.run.run.draw_candidate", 1),
        ("understudy.release.run.run.judge_all", 1),
        ("understudy.release.run.judgement.judge", 2),
        ("understudy.release.run.run.judgement_to_plain", 1),
    ],
)
def test_a_release_that_was_killed_goes_on_and_charges_nothing_twice(tmp_path, monkeypatch, where, times):
    """Killed before the second model, after both, before the draw, before and between the judgements, and before the decision is kept."""
    import importlib

    spec = Spec.from_dict(plain("published"))
    module, name = where.rsplit(".", 1)
    real = getattr(importlib.import_module(module), name)
    calls = []

    def killed(*given, **more):
        calls.append(1)
        if len(calls) == times:
            raise _Killed
        return real(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(where, killed)
        with pytest.raises(_Killed):
            run_release(spec, ledger=tmp_path / "a.ledger", source=REAL)
    outcome = run_release(spec, ledger=tmp_path / "a.ledger", source=REAL)
    whole = run_release(spec, ledger=tmp_path / "b.ledger", source=REAL)
    assert isinstance(outcome, ReleaseResult)
    charges, wanted = (
        [entry.scope.split("/", 1)[1] for entry in item.ledger_entries if entry.event is not None]
        for item in (outcome, whole)
    )
    assert charges == wanted
    assert not outcome.lost_entries
    joins(dict(outcome.tables))
    again = run_release(spec, ledger=tmp_path / "a.ledger", source=REAL)
    assert again.ledger_length == outcome.ledger_length
    for name, table in outcome.tables.items():
        pd.testing.assert_frame_equal(table, again.tables[name])


def test_another_table_is_refused_when_a_release_goes_on(tmp_path, monkeypatch) -> None:
    spec = Spec.from_dict(plain())

    def killed(*given, **more):
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr("understudy.release.run.run.judge_all", killed)
        with pytest.raises(_Killed):
            run_release(spec, ledger=tmp_path / "a.ledger", source=REAL)
    changed = {**REAL, "claims": REAL["claims"].iloc[:-1]}
    with pytest.raises(DataError, match="not the one that this release began with"):
        run_release(spec, ledger=tmp_path / "a.ledger", source=changed)


def test_a_specification_that_cannot_be_met_is_not_accepted_and_leaves_no_model(tmp_path) -> None:
    asked = plain(synthesizers=[{"method": "independent"}])
    asked["acceptance"]["criteria"] = [
        CRITERIA[1],
        {"name": "steps", "table": "visits", "kind": "transition-shares", "columns": ["ward"], "threshold": 1e-4},
    ]  # fmt: skip
    outcome = run_release(Spec.from_dict(asked), ledger=tmp_path / "a.ledger", source=REAL)
    assert isinstance(outcome, ReleaseFailure)
    assert not list(tmp_path.glob("*.state/model*"))


# ---------------------------------------------------------------------- before anything is read


def test_a_plan_speaks_of_every_table() -> None:
    planned = plan_release(Spec.from_dict(plain(public={"expected_rows": 5000})))
    assert planned.rows == 15_000, "three records of each entity"
    assert [item.name for item in planned.criteria] == [item["name"] for item in CRITERIA]
    assert [model.name for model in planned.models] == ["visits: mst", "claims: mst"]
    assert "epsilon=42.02" in planned.guarantee


def test_a_rehearsal_tells_good_configurations_from_bad_ones() -> None:
    """Wards follow each other, and columns that are kept apart cannot know that; the one criterion that sees it is of one table."""
    rng = np.random.default_rng(5)
    public = tables(list(range(1500)), 4)
    ward = public["visits"].groupby("who")["ward"].transform("first")
    public["visits"]["ward"] = np.where(rng.random(len(ward)) < 0.9, ward, public["visits"]["ward"])
    asked = plain(synthesizers=[{"method": "mst"}, {"method": "independent"}])
    asked["acceptance"]["criteria"][2]["threshold"] = 0.08  # errors of about .015 and .12
    found = rehearse(Spec.from_dict(asked), public, trials=2, jobs=1)
    chances = {item.configuration.method: item.acceptance for item in found.results}
    assert chances["mst"] > 0.9
    assert chances["independent"] < 0.1
    assert set(found.results[0].median_errors) == {item["name"] for item in CRITERIA}
    assert not any(item.failures for item in found.results)


def _criterion(place: int, **changed: object) -> dict[str, object]:
    criteria = [dict(item) for item in CRITERIA]
    criteria[place] |= changed
    criteria[place] = {key: value for key, value in criteria[place].items() if value is not None}
    return {"acceptance": {"form": "pass-only", "epsilon": 2.0, "criteria": criteria}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (_criterion(0, table=None), "name the table of events that it is about: visits, claims"),
        (_criterion(0, table="visit"), "'visit' is no table of events. Did you mean 'visits'"),
        (_criterion(0, table="people"), "'people' is no table of events"),
        ({"acceptance": {"form": "pass-only", "epsilon": 1.0, "criteria": [CRITERIA[0]]}}, "none is about 'claims'"),
        (_criterion(1, column="ward", values=["a"]), "claims: acceptance.criteria"),
        ({"unit": "add-remove"}, "name their key .id_column: who"),
        ({"output": {"rows": 50}}, "output.rows: does not go with entities"),
        ({"cleaning": ["sex == 'f'"]}, "cleaning: does not go with entities"),
        ({"constraints": ["sex == 'f'"]}, "rules belong to the schema"),
        ({"transformations": {"ward": {"all": {}}}}, "transformations: does not go with several tables"),
        ({"source": {"path": "a.csv"}}, "name each of them under source.tables"),
        ({"source": {"tables": {"people": "a.csv"}}}, "the table 'visits' has no source"),
        ({"source": {"tables": {"peple": "a.csv"}}}, "no such table. Did you mean 'people'"),
        ({"synthesizers": [{"method": "privbayes"}]}, "the configuration space is empty"),
        ({"budget": {"total": {"epsilon": 40.0}, "model": {"epsilon": 40.0}}}, "the parts need epsilon=42.02"),
    ],
)  # fmt: skip
def test_what_such_a_release_cannot_do_is_said_before_anything_is_read(changed, said) -> None:
    with pytest.raises(SchemaError, match=said):
        Spec.from_dict(plain(**changed))


def test_a_criterion_of_one_table_of_events_may_name_it_and_no_other() -> None:
    from understudy.datasets import patient_register_schema

    schema = patient_register_schema().select(("sex", "admitted", "ward"))
    one = {"name": "n", "kind": "mean-events", "threshold": 2.0}
    asked = plain(
        schema=schema.to_dict(), unit={"relation": "add-remove", "id_column": "patient", "max_rows": 3}
    )
    for table, fine in (("stays", True), ("patients", False)):
        asked["acceptance"] = {"form": "pass-only", "epsilon": 1.0, "criteria": [one | {"table": table}]}
        if fine:
            Spec.from_dict(asked)
        else:
            with pytest.raises(SchemaError, match="the one table of events is 'stays'"):
                Spec.from_dict(asked)


def test_tables_that_are_not_there_are_named(tmp_path) -> None:
    spec = Spec.from_dict(plain())
    few = {name: REAL[name] for name in ("people", "visits")}
    with pytest.raises(DataError, match="The table 'claims' has no source"):
        run_release(spec, ledger=tmp_path / "a.ledger", source=few)
    with pytest.raises(DataError, match="give them by their names"):
        run_release(spec, ledger=tmp_path / "b.ledger", source=REAL["people"])


def test_what_is_not_possible_yet_is_refused(tmp_path) -> None:
    with pytest.raises(SchemaError, match="from the command line"):
        built(plain(), where=tmp_path)


def test_the_unit_of_the_whole_is_that_of_every_part() -> None:
    spec = Spec.from_dict(plain(unit={"relation": "add-remove", "id_column": "who", "max_rows": "auto"}))
    assert spec.unit == Unit.add_remove_person("who", max_rows=10)
    assert {part.unit for part in spec.parts.values()} == {spec.unit}
