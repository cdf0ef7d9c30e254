"""What newcomers do first from Python, and where they stumbled."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from understudy import TableSynthesizer, datasets, synthesize
from understudy.errors import BudgetError, WorkloadError
from understudy.privacy import Budget, Ledger, Unit
from understudy.workflow import discover_schema


def _made():
    frame, schema = datasets.load("toy", 500, seed=1)
    return synthesize(
        frame, schema=schema, unit="add-remove", epsilon=1.0, method="independent", rows=3, ledger="memory"
    )


def test_one_column_is_given_by_its_name_and_intervals_name_its_values() -> None:
    model = _made().model
    one, listed = model.interval("ward"), model.interval(["ward"])
    assert np.array_equal(one.low, listed.low)
    assert np.array_equal(model.marginal("ward"), model.marginal(["ward"]))
    assert float(model.count_interval("ward", [(0,)]).low) == float(
        model.count_interval(["ward"], [(0,)]).low
    )
    labels = model.schema.column("ward").labels
    assert one.columns == ("ward",)
    assert one.labels == (labels,)
    assert [row[0] for row in one.rows()] == list(labels)
    shown = one._repr_html_()
    assert all(label in shown for label in labels)
    assert "<th" in model.interval(["ward", "cost"])._repr_html_()


def test_a_unit_that_is_left_out_is_explained() -> None:
    frame, schema = datasets.load("toy", 50, seed=1)
    with pytest.raises(BudgetError, match="One row per person: add-remove"):
        synthesize(frame, schema=schema, epsilon=1.0)
    with pytest.raises(BudgetError, match="Several rows of a person: also id_column"):
        discover_schema(
            frame,
            epsilon=1.0,
            delta=1e-6,
            ledger=Ledger.in_memory(budget=Budget.of(epsilon=1.0), unit=Unit.add_remove()),
        )


def test_an_estimator_without_a_schema_names_discovery() -> None:
    frame, _ = datasets.load("toy", 50, seed=1)
    with pytest.raises(WorkloadError, match="discover_schema"):
        TableSynthesizer("independent", unit="add-remove", epsilon=1.0).fit(frame)


def test_a_ledger_that_is_made_is_named(
    tmp_path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    frame, schema = datasets.load("toy", 60, seed=7)
    with caplog.at_level(logging.WARNING):
        made = synthesize(
            frame,
            schema=schema,
            unit="add-remove",
            epsilon=1.0,
            method="independent",
            ledger=tmp_path / "toy.ledger",
        )
    assert f"Made the ledger {made.ledger}" in caplog.text
