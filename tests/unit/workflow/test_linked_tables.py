"""Linked tables from Python: keys that join, entities without events, one budget with the tables by themselves, refusals before anything is spent.

Noise and the choice of events are seeded, so that no bound here is a matter of chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from understudy.data.linked import LinkedTables
from understudy.datasets import patient_register, patient_register_schema, patient_stays_schema
from understudy.errors import DataError, LedgerMismatch, OutputError, UsageError, WorkloadError
from understudy.mechanisms import Model, load_model
from understudy.privacy import Budget, Ledger, SeededRandomness, Unit
from understudy.schema import Schema
from understudy.workflow import synthesize

UNIT = Unit.add_remove_person("patient", max_rows=4)
COLUMNS = ("sex", "age_group", "admitted", "diagnosis", "ward", "readmitted")
SCHEMA = patient_register_schema().select(COLUMNS)


@pytest.fixture(scope="module", autouse=True)
def seeded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.curator.curator.SystemRandomness", lambda: SeededRandomness(11))
        yield


@pytest.fixture(scope="module")
def register() -> dict[str, pd.DataFrame]:
    tables = patient_register(3_000, seed=3)
    return {
        name: table[["patient", *(column for column in table if column in COLUMNS)]]
        for name, table in tables.items()
    }


def fitted(register, **changes):
    asked = {
        "schema": SCHEMA, "unit": UNIT, "epsilon": 200.0, "delta": 1e-6, "ledger": "memory", "seed": 1,
    } | changes  # fmt: skip
    return synthesize(register, **asked)


@pytest.fixture(scope="module")
def made(register):
    """A fit with so little noise that what is wrong with it is wrong with the model or the drawing."""
    return fitted(register)


def numbers(tables: dict[str, pd.DataFrame]) -> pd.Series:
    return tables["patients"]["patient"].map(tables["stays"]["patient"].value_counts()).fillna(0).astype(int)


def shares(values: pd.Series) -> pd.Series:
    return values.value_counts(normalize=True)


def test_keys_are_fresh_and_join(made, register):
    patients, stays = made.tables["patients"], made.tables["stays"]
    assert list(patients.columns) == list(register["patients"].columns)
    assert list(stays.columns) == list(register["stays"].columns)
    assert patients["patient"].tolist() == list(range(1, len(patients) + 1))
    assert stays["patient"].isin(patients["patient"]).all()
    assert made.frame is None
    assert (made.persons, made.rows) == (len(patients), len(stays))
    assert stays.groupby("patient")["admitted"].is_monotonic_increasing.all()
    for name, frame in made.tables.items():
        own = SCHEMA.select([column for column in SCHEMA.names if column in frame])
        assert own.names == tuple(register[name].columns[1:])
        own.encode_frame(frame)  # every value is one of the schema's, none of them missing


def test_entities_without_events_are_as_many_and_the_same_ones(made, register):
    real, drawn = numbers(register), numbers(made.tables)
    assert len(drawn) == pytest.approx(len(real), rel=0.01)
    assert shares(drawn.clip(upper=5)).sub(shares(real.clip(upper=5)), fill_value=0).abs().sum() < 0.02
    for column in ("age_group", "sex"):
        none = [
            (numbers(item) == 0).groupby(item["patients"][column].astype(str)).mean()
            for item in (register, made.tables)
        ]
        assert (none[0] - none[1]).abs().max() < 0.03


def test_events_are_those_of_the_register(made, register):
    """What goes with many events, what goes with the entity, and steps from one event to the next."""
    joined = [item["stays"].merge(item["patients"], on="patient") for item in (register, made.tables)]
    assert abs(joined[0]["readmitted"].mean() - joined[1]["readmitted"].mean()) < 0.01
    by_age = [frame.groupby("age_group", observed=True)["readmitted"].mean() for frame in joined]
    assert (by_age[0] - by_age[1]).abs().max() < 0.04
    steps = []
    for frame in joined:
        before = frame.groupby("patient")["diagnosis"].shift()
        steps.append((frame["diagnosis"] == before)[before.notna()].mean())
    assert (
        abs(steps[0] - steps[1]) < 0.15
    )  # steps[1] is 0.5, and the difference 0.25, for events that do not follow each other


def test_a_model_file_draws_the_same_tables(made, tmp_path):
    made.model.save(tmp_path / "m.understudy")
    again: Model = load_model(tmp_path / "m.understudy")
    for name, frame in again.sample_tables(seed=1).items():
        pd.testing.assert_frame_equal(frame, made.tables[name])
    few = again.sample_tables(100, seed=2)
    assert 60 < len(few["stays"]) <= 100
    assert few["stays"]["patient"].isin(few["patients"]["patient"]).all()
    assert again.sample_tables(0)["stays"].empty
    with pytest.raises(WorkloadError, match="zero or more"):
        again.sample_tables(-1)
    joined = again.sample(seed=1)  # events with what is fixed beside them
    assert set(SCHEMA.names) < set(joined.columns)


def test_columns_that_are_kept_apart_have_events_that_are_there(register):
    """The model of independent columns knows no rules: the code for no event must not come out, nor inflate real missing entries."""
    holed = register["stays"].assign(
        ward=register["stays"]["ward"].where(np.arange(len(register["stays"])) % 5 > 0)
    )
    ward = replace(SCHEMA.column("ward"), missing=True)
    schema = SCHEMA.with_columns([ward])
    drawn = fitted(register | {"stays": holed}, schema=schema, method="independent").tables["stays"]
    assert drawn.drop(columns="ward").notna().all().all()
    assert drawn["ward"].isna().mean() == pytest.approx(0.2, abs=0.03)


def test_columns_that_follow_from_others_follow_at_both_levels(register):
    plain = SCHEMA.to_dict()
    plain["columns"] += [{"name": "severe", "kind": "categorical", "values": ["no", "yes"]}]
    plain["determines"] = {
        "ward": {"severe": {"day": "no", "general": "no", "surgery": "yes", "intensive": "yes"}}
    }
    plain["derived"] = {
        "code": {"value": "sex", "values": {"female": "F", "male": "M"}},
        "late": {"value": "readmitted", "values": {"true": "y", "false": "n"}},
    }
    plain["constraints"] = ["not (age_group == '0-17' and diagnosis == 'cancer')"]
    schema = Schema.from_dict(plain)
    stays = register["stays"].assign(
        severe=np.where(register["stays"]["ward"].isin(["surgery", "intensive"]), "yes", "no")
    )
    tables = fitted(register | {"stays": stays}, schema=schema).tables
    assert list(tables["patients"].columns) == ["patient", "sex", "age_group", "code"]
    assert "late" in tables["stays"]
    assert (
        (tables["stays"]["severe"] == "yes") == tables["stays"]["ward"].isin(["surgery", "intensive"])
    ).all()
    joined = tables["stays"].merge(tables["patients"], on="patient")
    assert not ((joined["age_group"] == "0-17") & (joined["diagnosis"] == "cancer")).any()
    mixed = replace(schema, derived=(), entity=schema.entity).to_dict() | {"derived": {"x": "nights + age"}}
    numbers_of = [{"name": name, "kind": "integer", "minimum": 0, "maximum": 9} for name in ("age", "nights")]
    mixed["columns"] = [*mixed["columns"], *numbers_of]
    mixed["entity"]["fixed"] = [*mixed["entity"]["fixed"], "age"]
    with pytest.raises(UsageError, match="columns of both tables"):
        fitted(register, schema=Schema.from_dict(mixed))


def small(register: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    patients = register["patients"].head(200)
    stays = register["stays"]
    return {"patients": patients, "stays": stays[stays["patient"].isin(patients["patient"])]}


def test_files_of_a_schema_file_and_a_count_of_events(register, tmp_path):
    few = small(register)
    few["patients"].to_csv(tmp_path / "patients.csv", index=False)
    few["stays"].to_parquet(tmp_path / "stays.parquet")
    plain = SCHEMA.to_dict()
    fixed = [item for item in plain["columns"] if item["name"] in SCHEMA.entity.fixed]
    document = {
        "tables": [
            {"name": "patients", "source": "patients.csv", "key": "patient", "count": "n", "columns": fixed},
            {
                "name": "stays",
                "source": "stays.parquet",
                "belongs_to": "patients",
                "columns": [item for item in plain["columns"] if item not in fixed],
            },
        ]
    }
    from understudy.schema.files.yaml import write_plain

    write_plain(document, tmp_path / "register.yaml")
    done = synthesize(
        str(tmp_path / "register.yaml"), unit=UNIT, epsilon=1.0, delta=1e-6, method="independent", seed=1,
        out=f"{tmp_path}/out/",
    )  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "datapackage.json",
        "patients.csv",
        "stays.parquet",
    ]
    assert done.ledger == tmp_path / "register.ledger"
    written = {
        "patients": pd.read_csv(tmp_path / "out" / "patients.csv"),
        "stays": pd.read_parquet(tmp_path / "out" / "stays.parquet"),
    }
    assert (numbers(written) == written["patients"]["n"]).all()
    with pytest.raises(OutputError, match="exists already"):
        synthesize(
            str(tmp_path / "register.yaml"), unit=UNIT, epsilon=1.0, delta=1e-6, out=f"{tmp_path}/out/"
        )
    # one of the tables by itself spends from the same budget
    flat = Schema.from_dict({"columns": [item for item in plain["columns"] if item["name"] == "ward"]})
    with pytest.raises(LedgerMismatch, match="protects"):
        synthesize(tmp_path / "stays.parquet", schema=flat, unit="add-remove", epsilon=1.0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"unit": "add-remove"}, UsageError, "Linked tables protect entities"),
        ({"flat": True}, UsageError, "Linked tables protect entities"),
        ({"unit": Unit.add_remove_person("who", max_rows=2)}, UsageError, "Name the same column"),
        ({"schema": None}, UsageError, "tables and their keys"),
        ({"schema": patient_stays_schema()}, UsageError, "tables and keys"),
        ({"out": "x.csv"}, OutputError, "slash"),
        ({"table": "stays"}, UsageError, "describes linked tables"),
        ({"table": {"patients": 1}}, DataError, "'stays' has no source"),
    ],
)
def test_refusals_spend_nothing(register, change, error, message):
    asked = {"table": small(register), "schema": SCHEMA, "unit": UNIT} | change
    if asked["table"] == "stays":
        asked["table"] = small(register)["stays"]
    unit = Unit.of(asked["unit"])
    book = Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=unit, table="register")
    with pytest.raises(error, match=message):
        synthesize(asked.pop("table"), epsilon=1.0, ledger=book, **asked)
    assert not list(book.entries())


def test_orphans_are_refused_before_anything_is_spent_or_dropped_by_a_declared_rule(register):
    few = small(register)
    few["patients"] = few["patients"].iloc[1:]
    few["stays"] = pd.concat([few["stays"], few["stays"].head(1).assign(patient=1)])
    book = Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=UNIT, table="register")
    with pytest.raises(DataError, match="orphans: drop"):
        synthesize(few, schema=SCHEMA, unit=UNIT, epsilon=1.0, ledger=book)
    assert not any(entry.event for entry in book.entries())
    dropping = replace(SCHEMA, entity=replace(SCHEMA.entity, orphans="drop"))
    done = synthesize(
        LinkedTables(tables=few, name="register"), schema=dropping, unit=UNIT, epsilon=1.0,
        method="independent", ledger=book,
    )  # fmt: skip
    assert done.tables["stays"]["patient"].isin(done.tables["patients"]["patient"]).all()


def test_replaced_entities_are_protected_by_the_same_command(register):
    unit = Unit.replace_person("patient", max_rows=3)
    done = fitted(small(register), unit=unit, method="independent")
    assert done.persons == pytest.approx(200, abs=5)
    assert done.tables["stays"]["patient"].isin(done.tables["patients"]["patient"]).all()


@pytest.mark.parametrize(
    "change", [{"orphans": "drop"}, {"reference": "ward_doctor"}, {"fixed": ("sex",)}], ids=lambda change: next(iter(change))
)  # fmt: skip
def test_a_ledger_remembers_how_the_tables_are_joined(register, tmp_path, change):
    """Whether every event has its entity, by whichever column, is an answer: another way to join is the owner's to decide, before a record is read."""
    ledger = tmp_path / "register.ledger"
    fitted(register, ledger=ledger, method="independent", epsilon=1.0)
    other = replace(SCHEMA, entity=replace(SCHEMA.entity, **change))
    before = ledger.read_bytes()
    for kind in (ledger, Ledger.open(ledger)):
        with pytest.raises(LedgerMismatch, match="What differs: linked tables"):
            fitted(
                {"patients": UNREADABLE, "stays": UNREADABLE},
                schema=other,
                ledger=kind,
                method="independent",
                epsilon=1.0,
            )
    assert ledger.read_bytes() == before


UNREADABLE = pd.DataFrame({"nothing": []})
