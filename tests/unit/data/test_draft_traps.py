"""Drafting a messy table: one test for each trap that real tables set."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.data import read_frame
from understudy.data.drafting.draft import Draft, draft
from understudy.data.drafting.edges import following_edges
from understudy.data.drafting.hints import are_codes
from understudy.datasets import messy_table, write_messy
from understudy.datasets.messy import MONTHS, OUTLIER, RARE_MEAL, TRAPS, WEEKDAYS
from understudy.errors import DomainNotPublic
from understudy.schema import Boolean, Categorical, Date, Integer, Ordinal, Real, Schema

ROWS = 20_000


@functools.cache
def table() -> pd.DataFrame:
    return messy_table(ROWS, seed=4)


@pytest.fixture(scope="module")
def as_text(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path = tmp_path_factory.mktemp("messy") / "messy.csv"
    write_messy(path, table())
    return read_frame(path)


@pytest.fixture(scope="module", params=["text", "typed"])
def drafted(request: pytest.FixtureRequest, as_text: pd.DataFrame) -> Draft:
    """The table as a CSV file gives it, all text, and as a Parquet file does, numbers as numbers."""
    return draft(as_text if request.param == "text" else table(), name="messy")


def column(drafted: Draft, name: str) -> Any:
    return drafted.schema.column(name)


def largest_share(found: Any, entries: pd.Series) -> float:
    codes = found.encode(entries)
    return float(np.bincount(codes).max() / len(codes))


def test_one_outlier_does_not_decide_the_bins_of_a_price(drafted: Draft) -> None:
    price = column(drafted, "price")
    assert isinstance(price, Real)
    assert price.out_of_domain == "clamp"
    assert price.cells.high[-1] < OUTLIER / 10
    assert 15 <= price.value_count <= 30
    assert largest_share(price, table()["price"]) < 0.12
    assert "far from all others" in dict(drafted.remarks)["price"]
    assert str(int(OUTLIER)) not in dict(drafted.remarks)["price"]


def test_a_price_has_two_decimals_and_round_edges(drafted: Draft) -> None:
    price = column(drafted, "price")
    assert price.decimals == 2
    assert price.decode_by == "smooth"
    edges = [edge for edge in price.bins.edges if edge != 0.01]
    assert all(float(f"{edge:.2g}") == edge for edge in edges)
    widths = np.diff(edges)
    assert widths[-1] > 10 * np.median(widths)  # steps grow in the tail


def test_zero_has_a_bin_of_its_own(drafted: Draft) -> None:
    for name in ("price", "lead_days"):
        found = column(drafted, name)
        assert found.encode([0, 1 if name == "lead_days" else 0.01]).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["agent", "company", "zip"])
def test_codes_written_as_numbers_are_categories(drafted: Draft, name: str) -> None:
    found = column(drafted, name)
    assert isinstance(found, Categorical)
    assert found.value_count <= 1_000
    many = table()[name].nunique() > 101
    assert (found.out_of_domain == "to-other") == many
    if many:
        assert "most frequent" in dict(drafted.remarks)[name]
        kept = table()[name].isin([str(value) for value in found.values]).sum()
        times = table()[name].value_counts().drop("NULL").iloc[:100]
        assert kept >= times[times >= 10].sum() - 1  # rarer ones become other


def test_hundreds_of_diagnosis_codes_are_kept_in_levels(drafted: Draft) -> None:
    found = column(drafted, "diagnosis")
    assert isinstance(found, Categorical)
    assert set(found.values) == set(table()["diagnosis"]) - {"?"}
    assert found.value_count > 700
    assert getattr(found.levels, "prefix", ())
    assert "begin alike" in dict(drafted.remarks)["diagnosis"]


def test_codes_are_told_from_numbers_without_a_telling_name(as_text: pd.DataFrame) -> None:
    renamed = as_text[["agent", "lead_days", "income", "nights"]].rename(
        columns={"agent": "x", "lead_days": "y"}
    )
    found = draft(renamed).schema
    assert isinstance(found.column("x"), Categorical)
    assert isinstance(found.column("y"), Integer)


def test_months_and_weekdays_are_in_the_order_of_the_calendar(drafted: Draft) -> None:
    month, weekday = column(drafted, "arrival_month"), column(drafted, "arrival_weekday")
    assert isinstance(month, Ordinal)
    assert isinstance(weekday, Ordinal)
    assert month.values == MONTHS
    assert weekday.values == WEEKDAYS


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("arrival_day", 1, 31), ("arrival_week", 1, 53), ("arrival_hour", 0, 23), ("arrival_year", 2015, 2017)],
)
def test_parts_of_the_calendar_have_their_ranges(drafted: Draft, name: str, low: int, high: int) -> None:
    found = column(drafted, name)
    assert (found.kind, found.minimum, found.maximum) == ("integer", low, high)


def test_a_repeating_person_is_asked_about_and_never_published(drafted: Draft) -> None:
    assert "patient_nbr" not in drafted.schema.names
    assert "several rows" in dict(drafted.schema.left_out)["patient_nbr"]
    (question,) = [text for text in drafted.questions if "patient_nbr" in text]
    most = int(table()["patient_nbr"].value_counts().max())
    assert "does somebody have several rows?" in question
    assert "--unit add-remove --id-column patient_nbr --max-rows-per-person K" in question
    assert str(most) in question


def test_row_numbers_and_notes_are_left_out_with_a_reason(drafted: Draft) -> None:
    reasons = dict(drafted.schema.left_out)
    assert set(reasons) == {"encounter_id", "patient_nbr", "note"}
    assert "identifier" in reasons["encounter_id"]
    assert "free text" in reasons["note"]


@pytest.mark.parametrize(
    ("name", "spelling"),
    [("race", "?"), ("age", "?"), ("weight", "?"), ("diagnosis", "?"), ("agent", "NULL"), ("company", "NULL"), ("lab_value", "NA"),
     ("sex", "Unknown")],
)  # fmt: skip
def test_spellings_of_missing_entries_are_proposed_and_kept(drafted: Draft, name: str, spelling: str) -> None:
    found = column(drafted, name)
    assert found.missing
    assert found.missing_text == spelling
    assert found.encode(pd.Series([spelling], dtype=object)).tolist() == [found.missing_code]
    assert spelling in dict(drafted.remarks)[name]


def test_a_sentinel_that_lies_apart_is_missing(drafted: Draft) -> None:
    income = column(drafted, "income")
    assert income.missing
    assert -99 in income.missing_values
    assert income.missing_text == "-99"
    assert income.cells.low[0] >= 0
    assert "-99" in dict(drafted.remarks)["income"]


def test_a_number_that_is_missing_is_written_once(drafted: Draft) -> None:
    written = drafted.schema.to_yaml()
    (line,) = [line for line in written.splitlines() if "missing_values" in line and "-99" in line]
    assert line.count("-99") == 1
    assert Schema.parse(written) == drafted.schema


def test_truth_values_keep_the_spelling_of_the_table(drafted: Draft) -> None:
    smoker, insured = column(drafted, "smoker"), column(drafted, "insured")
    assert isinstance(smoker, Boolean)
    assert smoker.spelling == ("No", "Yes")
    assert insured.spelling == ("N", "Y")
    assert insured.missing
    assert smoker.decode([0, 1], np.random.default_rng(0)).tolist() == ["No", "Yes"]


def test_intervals_are_in_their_order(drafted: Draft) -> None:
    weight = column(drafted, "weight")
    assert isinstance(weight, Ordinal)
    assert weight.values == tuple(f"[{low}-{low + 25})" for low in range(0, 200, 25))


def test_suspicious_columns_are_remarked_on(drafted: Draft) -> None:
    remarks = dict(drafted.remarks)
    assert "97 % of the entries have one value" in remarks["emergencies"]
    assert "Every entry is the same" in remarks["site"]
    assert "95 % of the entries are missing" in remarks["weight"]
    assert "fewer than 10 rows" in remarks["meal"]
    assert RARE_MEAL in column(drafted, "meal").values
    assert not {"clinic", "arrival_day", "score"} & set(remarks)


def test_rows_that_were_loaded_twice_are_asked_about(drafted: Draft) -> None:
    assert any("copies of others" in text for text in drafted.questions)


def test_what_holds_between_columns_is_proposed_and_not_drafted(drafted: Draft) -> None:
    expected = {
        "rules: departure_date >= arrival_date",
        "rules: arrival_year == year_of(arrival_date)",
        "rules: arrival_month == month_of(arrival_date)",
        "rules: arrival_week == week_of(arrival_date)",
        "rules: arrival_day == day_of(arrival_date)",
        "rules: arrival_weekday == weekday_of(arrival_date)",
        "rules: nights == departure_date - arrival_date",
        "determines: {zip: [district]}",
    }
    assert set(drafted.proposals) == expected
    assert not drafted.schema.constraints


def test_a_relation_with_one_exception_is_not_proposed(as_text: pd.DataFrame) -> None:
    broken = as_text.copy()
    last = len(broken) - 1
    broken.loc[last, ["arrival_date", "departure_date", "district"]] = [
        "2016-03-02",
        "2016-03-01",
        "District 0",
    ]
    found = draft(broken).proposals
    for text in found:
        assert ">=" not in text
        assert "determines" not in text


def test_dates_are_dates(drafted: Draft) -> None:
    for name in ("arrival_date", "departure_date"):
        found = column(drafted, name)
        assert isinstance(found, Date)
        assert (found.resolution, found.decode_by) == ("month", "smooth")  # days are drawn within the month


def test_other_decimals(drafted: Draft) -> None:
    assert column(drafted, "score").decimals == 3
    assert column(drafted, "lab_value").decimals == 1


def test_the_table_fits_and_the_draft_stays_private(drafted: Draft, as_text: pd.DataFrame) -> None:
    drafted.schema.encode_frame(as_text)
    drafted.schema.encode_frame(table())
    with pytest.raises(DomainNotPublic):
        drafted.schema.require_public()
    for found in drafted.schema.columns:
        assert set(found.facts_from_data) == set(found.facts), found.name
    assert set(drafted.schema.names) | set(dict(drafted.schema.left_out)) == set(TRAPS)


def test_remarks_are_not_part_of_the_schema(drafted: Draft) -> None:
    text = drafted.schema.to_yaml()
    assert all(remark not in text for _, remark in drafted.remarks)
    assert "remark" in repr(drafted)
    assert "patient" not in repr(drafted)


def test_the_draft_of_a_headerless_file_with_blanks(tmp_path: Path, as_text: pd.DataFrame) -> None:
    path = tmp_path / "messy.data"
    write_messy(path, table(), header=False, blanks=True)
    again = draft(read_frame(path, names=tuple(TRAPS)), name="messy")
    assert again.schema == draft(as_text, name="messy").schema


# ---------------------------------------------------------------------------- hostile input


def entries_of(kind: str) -> Any:
    rng = np.random.default_rng(3)
    return {
        "empty text": [""] * 50,
        "all missing": ["?"] * 50,
        "nothing": [None] * 50,
        "one infinite": [*rng.normal(size=200), np.inf, -np.inf],
        "mixed": [1, "x", 2.5, None, True] * 20,
        "huge": [10**400, 1, 2] * 20,
        "text numbers too long": ["9" * 500, "1"] * 30,
        "tiny": [5e-324, 1.0, 2.0] * 40,
        "two sentinels": [-9] * 30 + [-99] * 30 + list(range(200)) * 2,
        "constant but one": [0.0] * 500 + [1e9],
        "negative tail": list(-np.exp(rng.normal(0, 3, 500))),
        "lists": [[1], [2]] * 20,
        "bytes": [b"a", b"b"] * 20,
        "missing spellings only": ["NA", "?", "NULL"] * 20,
        "other": ["other", *(f"v{i}" for i in range(150))] * 10,
    }[kind]


HOSTILE = ["empty text", "all missing", "nothing", "one infinite", "mixed", "huge", "text numbers too long", "tiny",
           "two sentinels", "constant but one", "negative tail", "lists", "bytes", "missing spellings only", "other"]  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("rows", [None, 1])
def test_hostile_columns_are_drafted_or_left_out(kind: str, rows: int | None) -> None:
    entries = pd.Series(entries_of(kind), dtype=object)[:rows]
    frame = pd.DataFrame({"x": entries, "constant": 1})
    found = draft(frame).schema
    assert ("x" in found.names) != ("x" in dict(found.left_out))
    found.encode_frame(frame)


def test_two_sentinels_are_both_missing() -> None:
    found = draft(pd.DataFrame({"x": entries_of("two sentinels")})).schema.column("x")
    assert {-9, -99} <= set(found.missing_values)
    assert found.encode([-9, -99]).tolist() == [found.missing_code] * 2


@pytest.mark.parametrize("case", range(20))
def test_edges_enclose_the_entries_and_no_bin_holds_too_many(case: int) -> None:
    """Quantile-following edges on random heavy-tailed, skewed and tied columns: a property, not a statistic."""
    rng = np.random.default_rng(case)
    drawn = [
        rng.lognormal(3, rng.uniform(0.2, 2.5), 3_000),
        rng.normal(0, 50, 3_000),
        rng.pareto(1.2, 3_000),
    ][case % 3]
    entries = np.round(drawn, int(rng.integers(0, 3)))
    entries[: int(rng.integers(0, 1_500))] = 0.0
    whole = bool((entries == np.floor(entries)).all())
    unit = 1.0 if whole else 0.01
    values, counts = np.unique(entries, return_counts=True)
    edges = np.array(following_edges(values, counts, unit=unit, whole=whole))
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= values[0]
    assert edges[-1] >= values[-1]
    inside = np.histogram(entries, edges)[0]
    assert inside.sum() == len(entries)
    spikes = counts.max() / len(entries)
    assert inside.max() / len(entries) <= max(0.12, spikes + 0.01)


COLUMN = st.sampled_from(
    [
        "normal",
        "lognormal",
        "counts",
        "codes",
        "sparse",
        "spike",
        "decimals",
        "words",
        "letters",
        "missing",
        "sentinel",
        "pareto",
    ]
)


def simulated(kind: str, rng: np.random.Generator, rows: int) -> Any:
    """A column of some shape, as text or as numbers."""
    shapes: dict[str, Any] = {
        "normal": lambda: rng.normal(rng.uniform(-5, 5), 10.0 ** rng.integers(-3, 6), rows),
        "lognormal": lambda: rng.lognormal(0, rng.uniform(0.1, 4), rows).round(int(rng.integers(0, 5))),
        "counts": lambda: rng.negative_binomial(1, rng.uniform(0.001, 0.9), rows),
        "codes": lambda: rng.choice(rng.integers(0, 10_000, 150), rows),
        "sparse": lambda: rng.choice(rng.normal(0, 1e4, 6), rows),
        "spike": lambda: np.where(rng.random(rows) < 0.9, 0, rng.exponential(1e5, rows).round(2)),
        "decimals": lambda: np.array([f"{x:.2f}" for x in rng.normal(0, 3, rows)], dtype=object),
        "words": lambda: np.array([f"w{x}" for x in rng.integers(0, 500, rows)], dtype=object),
        "letters": lambda: rng.choice(np.array(["a", "b", "NA", "?", ""], dtype=object), rows),
        "missing": lambda: np.where(
            rng.random(rows) < 0.5, "?", rng.integers(0, 1000, rows).astype(str)
        ).astype(object),
        "sentinel": lambda: np.where(rng.random(rows) < 0.1, -99, rng.integers(0, 500, rows)),
        "pareto": lambda: rng.pareto(0.3, rows),
    }
    return shapes[kind]()


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=COLUMN,
    size=st.sampled_from([1, 2, 30, 150, 2_000]),
    draw=st.integers(0, 10**6),
    as_text=st.booleans(),
)
def test_columns_of_all_shapes_and_sizes_fit_their_draft(
    kind: str, size: int, draw: int, as_text: bool
) -> None:
    rng = np.random.default_rng(draw)
    frame = pd.DataFrame({"x": simulated(kind, rng, size), "constant": np.ones(size, dtype=int)})
    frame = frame.astype(str) if as_text else frame
    found = draft(frame).schema
    codes = found.encode_frame(frame)
    assert all(part.max() < found.domain.size(name) for name, part in codes.items())
    decoded = found.decode(codes, seed=1)
    again = found.encode_frame(decoded)
    for name in found.names:
        assert np.array_equal(codes[name], again[name]), found.column(name)


def test_smooth_histograms_are_no_codes() -> None:
    rng = np.random.default_rng(8)
    for numbers in (
        rng.poisson(80, 5_000),
        rng.integers(0, 365, 20_000),
        np.floor(rng.exponential(60, 20_000)),
    ):
        values, counts = np.unique(numbers.astype(float), return_counts=True)
        assert not are_codes(values, counts)


@pytest.mark.parametrize("unit", [1, 0.1])
def test_a_dominant_value_at_the_upper_end_has_a_bin_of_its_own(unit: float) -> None:
    rng = np.random.default_rng(5)
    entries = np.append(rng.integers(0, 1_000, 500) * unit, [1_000 * unit] * 9_500).round(1)
    made = draft(pd.DataFrame({"x": entries}))
    found: Any = made.schema.column("x")
    top = found.encode([1_000 * unit, 999 * unit])
    assert top.tolist() == [found.size - 1, found.size - 2]
    assert found.maximum == 1_000 * unit
    assert dict(made.remarks)["x"] == "95 % of the entries have one value."


def test_a_column_called_patient_is_somebody_however_its_numbers_lie() -> None:
    """The key of a table of events: numbers close together, each a few times, which look like amounts."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"patient": rng.integers(100_000, 104_000, 9_000), "nights": rng.integers(0, 30, 9_000)}
    )
    found = draft(frame)
    assert "several rows" in dict(found.schema.left_out)["patient"]
    assert any("--id-column patient" in question for question in found.questions)
    price = draft(frame.rename(columns={"patient": "cost_per_patient"}))
    assert "cost_per_patient" in price.schema.names


def test_a_few_numbers_with_a_unit_are_ordered_by_the_number() -> None:
    frame = pd.DataFrame({"discount": ["5 %", "0 %", "12 %", "100 %"] * 10, "mixed": ["5 %", "0 kg", "12 %", "7 %"] * 10})  # fmt: skip
    made = draft(frame)
    column = made.schema.column("discount")
    assert isinstance(column, Ordinal)
    assert column.values == ("0 %", "5 %", "12 %", "100 %")
    assert isinstance(made.schema.column("mixed"), Categorical)
    assert [name for name, text in made.remarks if "order of the numbers" in text] == ["discount"]


def test_values_that_differ_only_in_capitals_get_a_remark() -> None:
    frame = pd.DataFrame({"gender": ["Male", "male", "female", "other"] * 10, "meal": ["BB", "HB", "FB", "SC"] * 10})  # fmt: skip
    assert [name for name, text in draft(frame).remarks if "capital letters" in text] == ["gender"]
