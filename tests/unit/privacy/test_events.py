"""Events keep their meaning: exact round trips, nothing guessed."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import BudgetError
from understudy.privacy import event_from_dict
from understudy.privacy.events import (
    ApproxEvent,
    Composed,
    GaussianEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
    Thresholded,
    ZcdpEvent,
)

POSITIVE = st.floats(min_value=5e-324, max_value=1e308, allow_nan=False)
LEAVES = st.one_of(
    st.builds(GaussianEvent, POSITIVE, POSITIVE),
    st.builds(LaplaceEvent, POSITIVE, POSITIVE),
    st.builds(SelectionEvent, POSITIVE),
    st.builds(PureEvent, POSITIVE),
    st.builds(ZcdpEvent, POSITIVE),
    st.builds(ApproxEvent, POSITIVE, st.floats(min_value=1e-300, max_value=0.999)),
    st.builds(
        Thresholded,
        st.floats(min_value=1e-300, max_value=0.999),
        POSITIVE,
        st.lists(st.builds(GaussianEvent, POSITIVE, POSITIVE), min_size=1, max_size=2),
    ),
)
EVENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Composed, st.lists(inner, min_size=1, max_size=3)),
        st.builds(Parallel, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@given(EVENTS)
def test_events_survive_json_to_the_last_bit(event):
    again = event_from_dict(json.loads(json.dumps(event.to_dict(), allow_nan=False)))
    assert again == event
    assert hash(again) == hash(event)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "1", None, True, 10**400], ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda x: GaussianEvent(x, 1.0),
        lambda x: GaussianEvent(1.0, x),
        lambda x: LaplaceEvent(x, 1.0),
        lambda x: LaplaceEvent(1.0, x),
        SelectionEvent,
        PureEvent,
        ZcdpEvent,
        lambda x: ApproxEvent(1.0, x),
    ],
)
def test_numbers_that_describe_no_event_are_refused(make, bad):
    with pytest.raises(BudgetError):
        make(bad)


def test_an_approximate_event_may_have_no_epsilon_but_not_a_negative_one():
    assert ApproxEvent(0, 1e-6).epsilon == 0.0
    with pytest.raises(BudgetError):
        ApproxEvent(-0.1, 1e-6)
    with pytest.raises(BudgetError):
        ApproxEvent(1.0, 1.0)


@pytest.mark.parametrize("group", [Composed, Parallel])
@pytest.mark.parametrize("inner", [[], [1.0], ["gaussian"], "gaussian", 3, [None]])
def test_groups_hold_events_only(group, inner):
    with pytest.raises(BudgetError):
        group(inner)


def test_groups_are_sequences_of_events():
    batch = Composed([PureEvent(1.0), PureEvent(2.0)])
    assert len(batch) == 2
    assert [event.epsilon for event in batch] == [1.0, 2.0]
    assert batch.events == (PureEvent(1.0), PureEvent(2.0))


@pytest.mark.parametrize(
    "values",
    [
        None,
        {},
        {"kind": "gaussian"},
        {"kind": "gaussian", "sigma": 1.0},
        {"kind": "gaussian", "l2_sensitivity": 1.0, "sigma": 1.0, "mean": 0.0},
        {"kind": "skellam", "sigma": 1.0},
        {"kind": ["pure"], "epsilon": 1.0},
        {"kind": "composed"},
        {"kind": "composed", "events": "all"},
        {"kind": "composed", "events": [{"kind": "pure"}]},
        {"kind": "pure", "epsilon": "1"},
    ],
)
def test_unknown_events_are_refused_and_never_guessed(values):
    with pytest.raises(BudgetError):
        event_from_dict(values)


def test_nesting_has_an_end():
    values: dict[str, object] = PureEvent(1.0).to_dict()
    for _ in range(200):
        values = {"kind": "composed", "events": [values]}
    with pytest.raises(BudgetError, match="nested"):
        event_from_dict(values)


def test_numbers_from_numpy_become_plain_floats():
    event = GaussianEvent(np.float64(1.0), np.float32(2.0))
    assert [type(value) for value in (event.l2_sensitivity, event.sigma)] == [float, float]
    json.dumps(event.to_dict())


def test_events_cannot_be_changed():
    with pytest.raises(AttributeError):
        PureEvent(1.0).epsilon = 2.0
