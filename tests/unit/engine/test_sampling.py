"""Sampling: rounding that is exact where it can be, zeros that stay zeros, the same rows from the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import joint_table, models
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine import GraphicalModel, sample_chunks, sample_codes
from understudy.errors import WorkloadError
from understudy.schema import Domain


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("method", ["rounding", "independent"])
@given(case=models(max_columns=5), n=st.integers(0, 60), seed=st.integers(0, 2**32 - 1))
def test_records_are_possible_and_reproducible(method, case, n, seed):
    domain, potentials = case
    joint = joint_table(domain, potentials, 1.0)
    if joint is None:
        return
    model = GraphicalModel(domain, 1.0, potentials)
    codes = sample_codes(model, n, rng(seed), method=method)
    assert codes.shape == (n, len(domain))
    assert codes.dtype == np.uint8
    assert (joint[tuple(codes.T)] > 0).all()
    np.testing.assert_array_equal(codes, sample_codes(model, n, rng(seed), method=method))


@given(models(max_columns=4), st.integers(1, 500))
def test_rounding_gives_the_root_bag_its_expected_counts_to_within_one(case, n):
    domain, potentials = case
    if joint_table(domain, potentials, 1.0) is None:
        return
    model = GraphicalModel(domain, float(n), potentials)
    codes = sample_codes(model, n, rng(n))
    columns = model.tree.bags[0]
    expected = model.tables[0]
    positions = [model.order.ranked[column] for column in columns]
    counts = np.zeros(expected.shape)
    np.add.at(counts, tuple(codes[:, position] for position in positions), 1)
    assert np.abs(counts - expected).max() < 1 + 1e-6


def test_whole_expectations_come_out_exactly_along_the_tree():
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    ab = np.array([[6.0, 2.0], [4.0, 4.0]])
    bc = np.array([[5.0, 5.0], [3.0, 3.0]])
    potentials = ((("a", "b"), np.log(ab)), (("b", "c"), np.log(bc / bc.sum(axis=1, keepdims=True))))
    model = GraphicalModel(domain, 16.0, potentials)
    codes = sample_codes(model, 16, rng(3))
    np.testing.assert_array_equal(np.histogram2d(codes[:, 0], codes[:, 1], bins=2)[0], ab)
    np.testing.assert_array_equal(np.histogram2d(codes[:, 1], codes[:, 2], bins=2)[0], bc)


def test_wide_columns_get_a_wider_type():
    model = GraphicalModel(Domain(("a", "b"), (70_000, 3)), 1.0)
    codes = sample_codes(model, 1000, rng())
    assert codes.dtype == np.uint32
    assert codes[:, 0].max() > 60_000
    assert sample_codes(GraphicalModel(Domain(("a",), (300,)), 1.0), 5, rng()).dtype == np.uint16


def test_the_model_draws_the_same_rows_itself():
    model = GraphicalModel(Domain(("a", "b"), (3, 4)), 1.0)
    np.testing.assert_array_equal(model.sample_codes(20, rng(1)), sample_codes(model, 20, rng(1)))


def test_chunks_add_up_to_the_rows_asked_for():
    model = GraphicalModel(Domain(("a",), (7,)), 1.0)
    pieces = list(sample_chunks(model, 23, rng(), rows=10))
    assert [len(piece) for piece in pieces] == [10, 10, 3]
    again = list(sample_chunks(model, 23, rng(), rows=10))
    np.testing.assert_array_equal(np.concatenate(pieces), np.concatenate(again))
    assert list(sample_chunks(model, 0, rng())) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: sample_codes(m, -1, rng()), "must not be negative"),
        (lambda m: sample_codes(m, 1, rng(), method="magic"), "No sampling method named 'magic'"),
        (lambda m: list(sample_chunks(m, 1, rng(), rows=0)), "at least one row"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(WorkloadError, match=message):
        call(GraphicalModel(Domain(("a",), (2,)), 1.0))
