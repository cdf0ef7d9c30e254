"""Models of event records: what is drawn from them are entities with all their rows.

Noise and the choice of rows are seeded, so that no bound here is a matter of chance.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.data.events import EventsTable
from understudy.datasets import households, households_schema, patient_stays, patient_stays_schema
from understudy.errors import BudgetError, ModelFileError, UnusableMethod, WorkloadError
from understudy.mechanisms import ChunkedSample, Model, create
from understudy.mechanisms.events import EventDrawer, event_mechanism, event_workload, require_conditional
from understudy.mechanisms.events.workload import first_marginals
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Boolean, Schema
from understudy.schema.entities import NUMBERS, EventColumns, event_schema
from understudy.workflow import synthesize

PATIENTS = 6_000


@pytest.fixture(scope="module", autouse=True)
def seeded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.curator.curator.SystemRandomness", lambda: SeededRandomness(11))
        yield


@pytest.fixture(scope="module")
def stays():
    return patient_stays(PATIENTS, seed=3)


@pytest.fixture(scope="module")
def schema():
    return patient_stays_schema()


@pytest.fixture(scope="module")
def model(stays, schema) -> Model:
    """A fit with so little noise that what is wrong with it is wrong with the model or the drawing."""
    return synthesize(
        stays,
        schema=schema,
        unit=Unit.add_remove_person("patient", max_rows=4),
        epsilon=200.0,
        delta=1e-6,
        ledger="memory",
        seed=1,
    ).model


@pytest.fixture(scope="module")
def drawn(model) -> pd.DataFrame:
    return model.sample(seed=1)


def numbers(frame: pd.DataFrame) -> pd.Series:
    return frame.groupby("patient")["ward"].transform("size")


def test_a_file_of_event_records_without_entities_is_refused(tmp_path):
    frame = pd.DataFrame({"who": [1, 1, 2, 3] * 20, "died": [True, False] * 40})
    made = synthesize(
        frame,
        schema=Schema.parse("columns: [{name: died, kind: boolean}]"),
        unit=Unit.add_remove_person("who", max_rows=2),
        method="independent",
        epsilon=5.0,
        ledger="memory",
        seed=1,
    )
    made.model.save(tmp_path / "good.understudy")
    with (
        zipfile.ZipFile(tmp_path / "good.understudy") as good,
        zipfile.ZipFile(tmp_path / "bad.understudy", "w") as bad,
    ):
        for name in good.namelist():
            content = good.read(name)
            if name == "model.json":
                document = json.loads(content)
                del document["schema"]["events_of"]["entity"]
                content = json.dumps(document).encode()
            bad.writestr(name, content)
    assert Model.load(tmp_path / "good.understudy").sample(seed=1)["who"].nunique() > 0
    with pytest.raises(ModelFileError, match="no entities"):
        Model.load(tmp_path / "bad.understudy")


def test_entities_have_fresh_ids_and_rows_together_in_order(drawn, schema):
    assert list(drawn.columns) == ["patient", *schema.names]
    ids = drawn["patient"].to_numpy()
    assert (np.diff(ids) >= 0).all()
    assert set(ids) == set(range(1, ids.max() + 1))
    days = drawn["admitted"].astype("datetime64[ns]").to_numpy().astype(np.int64)
    assert (np.diff(days)[np.diff(ids) == 0] >= 0).all()
    assert (drawn.groupby("patient")[list(schema.entity.fixed)].nunique() == 1).all().all()
    schema.encode_frame(drawn)  # every value is one of the schema's


def test_the_number_of_entities_and_of_their_rows_is_that_of_the_table(drawn, stays):
    assert drawn["patient"].nunique() == pytest.approx(PATIENTS, rel=0.01)
    assert len(drawn) == pytest.approx(len(stays), rel=0.03)
    real, made = (np.bincount(np.minimum(frame.groupby("patient").size(), 6)) for frame in (stays, drawn))
    assert np.abs(real / real.sum() - made / made.sum()).sum() < 0.02


def test_what_goes_with_many_rows_is_not_understated(drawn, stays):
    """The rate of all stays, and of patients with many: a table cut to four rows is two points below the first."""
    rate = stays["readmitted"].mean()
    assert drawn["readmitted"].astype(bool).mean() == pytest.approx(rate, abs=0.012)
    words = np.random.default_rng(0).random(len(stays))
    cut = stays.assign(w=words).sort_values("w").groupby("patient").head(4)
    assert cut["readmitted"].mean() < rate - 0.02
    for low, high in ((1, 1), (2, 3), (4, 40)):
        real, made = (
            frame[numbers(frame).between(low, high)]["readmitted"].astype(bool).mean()
            for frame in (stays, drawn)
        )
        assert made == pytest.approx(real, abs=0.02 if high < 40 else 0.06)  # few patients have many stays


def test_successive_rows_go_together(drawn, stays):
    def stay_the_same(frame: pd.DataFrame) -> float:
        same = frame["patient"].to_numpy()[1:] == frame["patient"].to_numpy()[:-1]
        return float((frame["diagnosis"].to_numpy()[1:] == frame["diagnosis"].to_numpy()[:-1])[same].mean())

    assert stay_the_same(stays) > 0.7
    assert 0.6 < stay_the_same(drawn) < 0.85  # independent rows: below a third


def test_events_are_those_that_the_model_expects(drawn, stays, schema):
    real, made = schema.encode_frame(stays), schema.encode_frame(drawn)
    for name in ("diagnosis", "ward", "nights"):
        counts = [np.bincount(codes[name], minlength=schema.domain.size(name)) for codes in (real, made)]
        assert np.abs(counts[0] / counts[0].sum() - counts[1] / counts[1].sum()).sum() / 2 < 0.02, name


def test_a_saved_model_draws_the_same(model, drawn, tmp_path):
    model.save(tmp_path / "m.understudy")
    again = Model.load(tmp_path / "m.understudy")
    assert again.schema == model.schema
    pd.testing.assert_frame_equal(again.sample(seed=1), drawn)
    assert again.table_schema == model.table_schema


@pytest.mark.parametrize("rows", [0, 1, 500, 20_000])
def test_a_number_of_rows_is_met_to_within_one_entity(model, rows):
    made = model.sample(rows, seed=2)
    assert rows - 40 < len(made) <= rows
    assert list(made.columns) == ["patient", *model.table_schema.names]


def test_what_has_no_meaning_is_refused(model):
    with pytest.raises(WorkloadError, match="whole entities"):
        model.sample(where="nights > 3")
    with pytest.raises(WorkloadError, match="as a whole"):
        next(model.sample_chunks())
    with pytest.raises(WorkloadError, match="one file"):
        ChunkedSample(model, 10, seed=1)
    with pytest.raises(WorkloadError, match="zero or more"):
        model.sample(-1)


def test_rules_of_the_table_hold_in_every_row(stays, schema):
    rule = "not (ward == 'day' and nights > 2)"
    kept = stays[~((stays["ward"] == "day") & (stays["nights"] > 2))]
    ruled = Schema(schema.columns, [rule], entity=schema.entity)
    made = synthesize(
        kept,
        schema=ruled,
        unit=Unit.replace_person("patient", max_rows=3),
        epsilon=1.0,
        delta=1e-6,
        ledger="memory",
        seed=1,
    ).frame
    assert ruled.holds_raw(made).all()
    assert (made["ward"] == "day").any()


def test_columns_whose_groups_a_fit_chooses_are_not_linked():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "who": rng.integers(0, 500, 1_500),
            "icd": rng.choice(["A01", "A02", "B10", "B11"], 1_500),
            "died": rng.random(1_500) < 0.2,
        }
    )
    schema = Schema.parse(
        "columns: [{name: icd, kind: categorical, values: [A01, A02, B10, B11], levels: {prefix: [1]}}, {name: died, kind: boolean}]\nentity: {id: who}"
    )
    assert list(EventColumns.of(schema).before) == ["died"]
    made = synthesize(
        frame,
        schema=schema,
        unit=Unit.add_remove_person("who", max_rows=2),
        epsilon=2.0,
        ledger="memory",
        seed=1,
    ).frame
    assert set(made["icd"]) <= {"A01", "A02", "B10", "B11"}


def test_members_of_a_household_stand_in_order_and_their_ages_go_together():
    real, schema = households(5_000, seed=1), households_schema()
    made = synthesize(
        real,
        schema=schema,
        unit=Unit.add_remove_person("household", max_rows=5),
        epsilon=50.0,
        delta=1e-6,
        ledger="memory",
        seed=1,
    ).frame

    def facts(frame: pd.DataFrame) -> tuple[float, float]:
        firsts = frame.drop_duplicates("household")
        two = frame[frame["household"].duplicated(keep=False)]
        head = two.drop_duplicates("household").set_index("household")["age"]
        partner = two[two["relation"] == "partner"].drop_duplicates("household").set_index("household")["age"]
        both = head.index.intersection(partner.index)
        return float((firsts["relation"] == "head").mean()), float(
            np.corrcoef(head[both], partner[both])[0, 1]
        )

    (heads, together), (made_heads, made_together) = facts(real), facts(made)
    assert heads == 1.0
    assert made_heads > 0.97
    assert together > 0.9
    assert made_together > 0.5  # if ages did not go together: about 0


def test_members_without_an_order_are_exchangeable():
    """Which of two members comes first says nothing: their pairs come out the same both ways round, and each place in a household has the same members.

    The noise is seeded. Measured before pairs were made alike both ways: an asymmetry of .056 over four tables, and .030 since; heads stand first in the control.
    """
    plain = households_schema().to_dict()
    ordered = Schema.from_dict(plain)
    del plain["entity"]["order"]
    schema = Schema.from_dict(plain)
    size = schema.domain.size("relation")

    def facts(frame: pd.DataFrame) -> tuple[float, float]:
        codes = schema.encode_frame(frame)["relation"].astype(np.int64)
        ids = frame["household"].to_numpy()
        same = ids[1:] == ids[:-1]
        pairs = np.bincount((codes[:-1] * size + codes[1:])[same], minlength=size**2).reshape(size, size)
        first, last = np.append(True, ~same), np.append(~same, True)
        ends = [np.bincount(codes[place & ~(first & last)], minlength=size) for place in (first, last)]
        shares = pairs / pairs.sum(), *(end / end.sum() for end in ends)
        return float(np.abs(shares[0] - shares[0].T).sum() / 2), float(
            np.abs(shares[1] - shares[2]).sum() / 2
        )

    found = {}
    for name, described in (("without", schema), ("with", ordered)):
        made = synthesize(
            households(6_000, seed=2),
            schema=described,
            unit=Unit.add_remove_person("household", max_rows=10),
            epsilon=2.0,
            delta=1e-6,
            ledger="memory",
            seed=1,
        ).frame
        found[name] = facts(made)
    assert found["without"][0] < 0.045
    assert found["without"][1] < 0.08
    assert found["with"][0] > 0.3
    assert found["with"][1] > 0.3


@pytest.mark.parametrize("name", ["privbayes", "laplace", "privsyn", "dpctgan"])
def test_mechanisms_whose_models_cannot_be_asked_are_refused(name):
    try:
        method = create(name)
    except UnusableMethod:
        pytest.skip("not installed")
    with pytest.raises(UnusableMethod, match="--flat"):
        require_conditional(method)
    with pytest.raises(UnusableMethod, match="--flat"):
        require_conditional(create("aim", estimation="relaxed"))


def test_the_workload_has_the_number_of_events_with_every_column(schema):
    records = event_schema(schema)
    parts = EventColumns.of(schema)
    cliques = set(event_workload(records).cliques)
    for name in schema.names:
        assert records.domain.canonical((parts.number, name)) in cliques
    for name, before in parts.before.items():
        assert records.domain.canonical((before, name)) in cliques


def test_entities_are_fitted_to_what_the_model_says_of_them(model):
    """Drawn at random, the number of events with a column is some 1.5 % off; the bound is a third of a record per cell, of 6,000."""
    drawer = model.events
    who, _ = drawer._entities(None, np.random.default_rng(4))
    domain = model.schema.domain
    for name in drawer.parts.fixed:
        pair = domain.canonical((name, drawer.parts.number))
        expected = model.marginal(pair)
        made = np.zeros(expected.shape)
        np.add.at(made, tuple(who[:, domain.index(column)].astype(int) for column in pair), 1)
        distance = np.abs(made / made.sum() - expected / expected.sum()).sum() / 2
        assert distance < expected.size / 3 / len(who), name


def test_rates_by_group_are_those_of_the_model(model):
    """Whatever number of events a group was drawn with: a draw fitted to the model's counts missed the rate of a small group by a point."""
    drawer, domain = model.events, model.schema.domain
    names = ("region", "readmitted", drawer.parts.number)
    clique = domain.canonical(names)
    table = np.transpose(model.marginal(clique), [clique.index(name) for name in names])
    for seed in range(3):
        codes = drawer._drawn(None, np.random.default_rng(seed), None)[2]
        made = np.zeros(table.shape)
        np.add.at(made, tuple(codes[:, domain.index(name)].astype(int) for name in names), 1)
        expected = (table[:, 1] / table.sum(axis=1) * made.sum(axis=1)).sum(axis=1) / made.sum(axis=(1, 2))
        assert np.abs(made[:, 1].sum(axis=1) / made.sum(axis=(1, 2)) - expected).max() < 0.004


def test_the_number_of_events_is_measured_first_with_every_small_column(schema):
    records = event_schema(schema)
    first = dict(first_marginals(records))
    small = [name for name in schema.names if schema.domain.size(name) <= 16]
    assert "admitted" not in small
    assert set(first) == {
        ("number_of_events",),
        *(records.domain.canonical((name, "number_of_events")) for name in small),
        *(
            records.domain.canonical((name, "readmitted", "place_of_event"))
            for name in small
            if name != "readmitted"
        ),
    }, "and the one outcome of two values with each of the others, in first and in later events"
    assert sum(first.values()) <= 0.5
    wide = Schema.from_dict(
        {
            "columns": [{"name": f"x{place}", "kind": "boolean"} for place in range(90)],
            "entity": {"id": "who", "fixed": [f"x{place}" for place in range(40)]},
        }
    )
    shares = [share for _, share in first_marginals(event_schema(wide))]
    assert 0.3 < sum(shares) < 0.4


@pytest.mark.parametrize("name", ["mst", "independent", "gaussian"])
def test_other_mechanisms_draw_whole_entities_too(name):
    frame, schema = (
        patient_stays(400, seed=2),
        patient_stays_schema().select(["sex", "admitted", "diagnosis", "readmitted"]),
    )
    made = synthesize(
        frame,
        schema=schema,
        unit=Unit.add_remove_person("patient", max_rows=2),
        epsilon=2.0,
        delta=1e-5,
        method=name,
        ledger="memory",
        seed=1,
    ).frame
    assert made["patient"].nunique() == pytest.approx(400, abs=150)
    days = made["admitted"].astype("datetime64[ns]").to_numpy().astype(np.int64)
    assert (np.diff(days)[np.diff(made["patient"].to_numpy()) == 0] >= 0).all()


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 15), max_size=8),
    before=st.integers(0, 30),
    after=st.one_of(st.none(), st.integers(1, 30)),
    most=st.integers(1, 20),
)
def test_a_whole_entity_changes_the_counts_by_number_of_events_as_one_row_would(sizes, before, after, most):
    """Added or removed (``after`` is None) or replaced, with more events than the schema tells apart and whatever the number of its records."""
    schema = Schema([Boolean("died")], entity={"id": "who", "max_events": 9})
    unit = Unit("add-remove" if after is None else "replace-one", most, "who")
    sides = []
    for own in (before, after or 0):
        numbers = [*sizes, own]
        whose = np.repeat(np.arange(len(numbers)), numbers)
        rows = LocalTable(schema, {"died": np.zeros(len(whose), np.int64)}, persons={"who": whose})
        with Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t") as book:
            sides.append(Curator(EventsTable(rows), unit=unit, ledger=book).people_by_rows(range(1, 10)))
    change = np.asarray(sides[0]._exact - sides[1]._exact, float)
    assert np.abs(change).sum() <= sides[0].l1 <= (1 if after is None else 2)
    assert np.sqrt((change**2).sum()) <= sides[0].l2 * (1 + 1e-12)


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_exact_numbers_of_events_come_out_where_they_are_counted(share):
    """Entities have 1 or 40 events and nothing between, which bins cannot know. What is wrong without the counts is caught: the control is the share of zero."""
    numbers = np.where(np.arange(2_000) % 4 == 0, 40, 1)
    whose = np.repeat(np.arange(len(numbers)), numbers)
    schema = Schema([Boolean("died")], entity={"id": "who", "max_events": 40})
    table = LocalTable(schema, {"died": np.arange(len(whose)) % 2}, persons={"who": whose})
    unit = Unit.add_remove_person("who", max_rows=2)
    records = event_schema(schema)
    method = event_mechanism("aim", records, None, {"numbers": share})
    book = Ledger.in_memory(budget=PureDP(100.0), unit=unit, table="t")
    curator = Curator(EventsTable(table), unit=unit, ledger=book, randomness=SeededRandomness(3))
    model = method.fit(curator, PureDP(100.0))
    assert [item.name for item in model.statistics] == ([NUMBERS] if share else [])
    drawn = EventDrawer(model).frame(seed=1)["who"].value_counts()
    assert (drawn.isin((1, 40)).mean() > 0.99) == bool(share)
    counted = [entry for entry in book.entries() if "number of events" in entry.purpose]
    assert len(counted) == (1 if share else 0)


def test_numbers_that_leave_too_little_are_refused_before_anything_is_spent():
    """Before, entities were counted for nearly all of the budget, and the columns could then not be paid for."""
    schema = Schema([Boolean("died"), Boolean("urgent")], entity={"id": "who", "max_events": 40})
    whose = np.repeat(np.arange(50), 3)
    table = LocalTable(
        schema, {"died": np.arange(150) % 2, "urgent": np.arange(150) % 2}, persons={"who": whose}
    )
    unit = Unit.add_remove_person("who", max_rows=2)
    method = event_mechanism("aim", event_schema(schema), None, {"numbers": 0.95, "first": ()})
    with Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="t") as book:
        with pytest.raises(BudgetError, match="would take the whole budget"):
            method.fit(Curator(EventsTable(table), unit=unit, ledger=book), PureDP(1.0))
        assert not any(entry.event for entry in book.entries())
