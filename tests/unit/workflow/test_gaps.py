"""Days from one event to the next: measured in bins, drawn so that dates stay in order and in their own bins."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data import read_table
from understudy.data.events import read_events
from understudy.errors import SchemaError
from understudy.privacy import Unit
from understudy.schema import Schema
from understudy.schema.entities import GAP_BINS, GAP_STARTS, event_schema
from understudy.workflow import synthesize

TEXT = """
columns:
  - {name: day, kind: date, minimum: 2020-01-01, maximum: 2021-12-31, resolution: quarter, decode_by: uniform}
  - {name: ward, kind: categorical, values: [a, b]}
entity: {id: who, order: day, max_events: 6, gaps: true}
"""
SCHEMA = Schema.parse(TEXT)
FIRST = pd.Timestamp("2020-01-01")


def table(people: list[int], seed: int) -> pd.DataFrame:
    """Visits that follow each other after two weeks most of the time; all about a person follows from its number and the seed."""
    rows = []
    for who in people:
        rng = np.random.default_rng([seed, who])
        day = int(rng.integers(0, 500))
        for _ in range(int(rng.integers(1, 6))):
            rows.append((who, FIRST + pd.Timedelta(days=min(day, 730)), rng.choice(["a", "b"])))
            day += 14 if rng.random() < 0.7 else int(rng.integers(60, 130))
    return pd.DataFrame(rows, columns=["who", "day", "ward"])


def records(frame: pd.DataFrame, most: int):
    read = read_events(partial(read_table, frame), SCHEMA, SCHEMA.entity)
    return read.truncated("who", most, bytes(32))


def test_records_hold_the_days_since_the_event_before():
    dates = pd.to_datetime(["2020-01-01", "2020-01-01", "2020-01-15", "2021-12-31"])
    made = next(records(pd.DataFrame({"who": [1] * 4, "day": dates, "ward": ["a"] * 4}), 4).chunks())
    assert made["days_since_before"].tolist() == [len(GAP_BINS), 0, 3, len(GAP_BINS) - 1]
    assert [text.split("-")[0].rstrip("<=") for text in GAP_BINS] == [str(start) for start in GAP_STARTS]
    names = event_schema(SCHEMA).names
    assert names[-1] == "days_since_before"
    assert "days_since_before" not in event_schema(Schema.parse(TEXT.replace(", gaps: true", ""))).names


@settings(max_examples=60, deadline=None)
@given(
    others=st.lists(st.integers(0, 20), max_size=5, unique=True),
    after=st.one_of(st.none(), st.integers(40, 60)),
    most=st.integers(1, 8),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_entity_changes_no_more_records_than_the_unit_says(others, after, most, seed):
    unit = Unit("add-remove" if after is None else "replace-one", most, "who")
    left = records(table([*others, 30], seed), most)
    right = records(table(others if after is None else [*others, after], seed), most)
    for clique in (("days_since_before", "number_of_events"), ("days_since_before", "day_before", "day")):
        change = np.asarray(left.count(clique) - right.count(clique), float)
        assert np.abs(change).sum() <= unit.histogram_l1
        assert np.sqrt((change**2).sum()) <= unit.histogram_l2 * (1 + 1e-12)
    chunk = next(left.chunks())
    assert left.schema.holds_codes(chunk).all()


def _gaps(frame: pd.DataFrame) -> np.ndarray:
    days = frame.groupby("who")["day"].diff().dt.days.dropna()
    assert (days >= 0).all(), "the order holds"
    return np.histogram(days, [*GAP_STARTS, 10**6])[0] / len(days)


def test_days_between_events_come_out_and_dates_stay_in_their_bins():
    """With so large a budget the distance of the gaps is far below that of dates drawn by themselves (about .6 here)."""
    real = table(list(range(700)), 1)
    made = {}
    for gaps in (True, False):
        schema = Schema.parse(TEXT.replace("gaps: true", f"gaps: {str(gaps).lower()}"))
        unit = Unit.add_remove_person("who", max_rows=4)
        made[gaps] = synthesize(
            real, schema=schema, unit=unit, epsilon=60.0, method="mst", ledger="memory", seed=1
        ).frame
    distance = {gaps: np.abs(_gaps(frame) - _gaps(real)).sum() / 2 for gaps, frame in made.items()}
    assert distance[True] < 0.25
    assert distance[False] > 2 * distance[True]
    quarters = [frame["day"].dt.to_period("Q").value_counts(normalize=True) for frame in (made[True], real)]
    assert quarters[0].sub(quarters[1], fill_value=0).abs().sum() / 2 < 0.1
    assert made[True]["day"].between("2020-01-01", "2021-12-31").all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("order: day, ", ""), "need a date in entity.order"),
        (("kind: date, minimum: 2020-01-01, maximum: 2021-12-31, resolution: quarter, decode_by: uniform", "kind: integer, minimum: 0, maximum: 5"), "need a date in entity.order"),
        (("gaps: true", "gaps: 3"), "entity.gaps: must be true or false"),
    ],
)  # fmt: skip
def test_gaps_that_cannot_be_are_refused(change, said):
    with pytest.raises(SchemaError, match=said):
        Schema.parse(TEXT.replace(*change))
