"""Redrawn tables from the command line: one event with a delta of its own, paid by a fresh ledger."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import understudy

from understudy.privacy import Ledger
from understudy.privacy.events import ApproxEvent, PureEvent

SCHEMA = """
name: answers
columns:
  - {name: town, kind: categorical, values: [x, y, z]}
  - {name: member, kind: boolean}
"""
REDRAWN = ("poisson", "negative-binomial", "poisson-inverse-gaussian", "delaporte", "sichel")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"town": generator.choice(["x", "y", "z"], 400), "member": generator.random(400) < 0.3}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def synth(folder: Path, method: str, *more: object, unit: str = "add-remove") -> object:
    words = ("--schema", folder / "schema.yaml", "--method", method, "--epsilon", 3, "--delta", 0.21)
    return understudy("synth", folder / "t.csv", *words, "--unit", unit, "--out", folder / "out.csv", *more)


@pytest.mark.parametrize("unit", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", REDRAWN)
def test_the_whole_budget_is_one_event_and_then_the_ledger_is_empty(
    folder: Path, method: str, unit: str
) -> None:
    result = synth(folder, method, "--json", unit=unit)
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["rows"] > 300
    with Ledger.open(folder / "t.ledger") as book:
        book.verify()
        (event,) = [entry.event for entry in book.entries() if entry.event is not None]
        assert isinstance(event, ApproxEvent)
        assert event.epsilon == 3.0
        assert 0.2099 < event.delta <= 0.21
    again = synth(folder, method, unit=unit)
    assert again.code != 0
    assert "Traceback" not in again.err
    other = synth(folder, "laplace", unit=unit)  # nothing is left for any other method either
    assert other.code != 0


def test_the_paper_s_pseudocount_by_hand(folder: Path) -> None:
    assert synth(folder, "poisson", "--option", "alpha=0.1", "--option", "post_processing=none").code == 0
    (folder / "t.ledger").unlink()
    refused = synth(folder, "poisson", "--option", "alpha=0.05")
    assert refused.code != 0
    assert "true delta" in refused.err
    assert not (folder / "t.ledger").exists()


def test_pure_methods_leave_delta_alone(folder: Path) -> None:
    result = synth(folder, "multinomial-dirichlet", "--option", "records=100", unit="replace-one")
    assert result.code == 0, result.err
    with Ledger.open(folder / "t.ledger") as book:
        (event,) = [entry.event for entry in book.entries() if entry.event is not None]
        assert isinstance(event, PureEvent)
        assert book.spending.delta == 0


def test_budgets_without_a_delta_are_refused_with_a_reason(folder: Path) -> None:
    words = (
        "--schema",
        folder / "schema.yaml",
        "--method",
        "poisson",
        "--epsilon",
        1,
        "--unit",
        "add-remove",
    )
    for command in (("synth", folder / "t.csv", "--out", folder / "out.csv"), ("plan",)):
        result = understudy(*command, *words)
        assert result.code != 0
        assert "ApproxDP" in result.err
