"""Figures 1, 2 and 6 and Table 4 of paper Deniability: what the benchmark computes, prints and keeps, on a small table."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import _kept
from benchmarks.papers import deniability as bench

from understudy.privacy import ApproxDP, PureDP
from understudy.schema import Schema

SCHEMA = Schema.parse(
    "name: t\ncolumns:\n"
    "  - {name: a, kind: integer, minimum: 0, maximum: 3}\n"
    "  - {name: b, kind: integer, minimum: 0, maximum: 3}\n"
    "  - {name: incc, kind: integer, minimum: 0, maximum: 1}\n"
)


@pytest.fixture
def records() -> np.ndarray:
    """The second column is the first one nine times of ten; the third says whether the first is above one."""
    generator = np.random.default_rng(1)
    a = generator.integers(0, 4, 3000)
    b = np.where(generator.random(3000) < 0.9, a, generator.integers(0, 4, 3000))
    return np.stack([a, b, (a > 1).astype(np.int64)], axis=1)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_kept, "DOCS", tmp_path)
    monkeypatch.setattr(bench, "TEST", 500)
    monkeypatch.setattr(bench, "TABLE4_TEST", 500)
    monkeypatch.setattr(bench, "CANDIDATES", 500)
    monkeypatch.setattr(bench, "OMEGAS", {"omega=3": (3,), "omega=2": (2,)})
    monkeypatch.setattr(bench, "FIGURE6", {"omega=2": (2,), "omega in 1..3": (1, 2, 3)})
    return tmp_path


def rows_of(kept: Path, name: str) -> list[dict[str, str]]:
    with (kept / "measured" / "data" / f"{name}.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_improvement_is_the_share_of_errors_avoided() -> None:
    assert bench.improvement(np.array([0.7, 0.4, 0.1]), np.array([0.4, 0.4, 0.4])) == pytest.approx(
        [0.5, 0.0, -0.5]
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_secret_sample_may_spend_what_sampling_takes_back(epsilon: float) -> None:
    """Theorem 4: a mechanism of ``inner`` on a random share of the table protects the table by the budget."""
    spent = bench.inner(ApproxDP(epsilon, 1e-9), 0.2)
    assert isinstance(spent, ApproxDP)
    assert math.log1p(0.2 * math.expm1(spent.epsilon)) == pytest.approx(epsilon)
    assert 0.2 * spent.delta == pytest.approx(1e-9)
    assert bench.inner(PureDP(epsilon), 0.2) == PureDP(epsilon)


def test_candidates_pass_while_there_are_k_plausible_seeds() -> None:
    """A hundred equal seeds are plausible for each other: noise of scale one cannot move k = 50 or 150 past them."""
    seeds = np.ones((100, 3), dtype=np.int64)
    model = bench.fitted(SCHEMA, seeds, "deniability", bench.BUDGETS["none"])
    shares = bench.passing(bench.seed_model(model, (2,)), SCHEMA, seeds, 4.0, 300)
    assert [shares[k] for k in (10, 25, 50, 150, 250)] == [1.0, 1.0, 1.0, 0.0, 0.0]


def test_figure_1_holds_every_column_budget_and_way_to_learn(
    records: np.ndarray, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.figure1(SCHEMA, records, {}, 1, True)
    rows = rows_of(kept, "deniability-figure1")
    assert len(rows) == len(bench.LEARNING) * len(bench.BUDGETS) * 3
    exact = next(row for row in rows if (row["epsilon"], row["column"]) == ("none", "b"))
    # the network says b = a, right 92.5 % of the time; the marginal is right for a quarter
    assert float(exact["improvement"]) == pytest.approx(0.9, abs=0.05)
    assert "epsilon .1" in capsys.readouterr().out
    assert len(list((kept / "assets").glob("deniability-figure1-*.svg"))) == len(bench.LEARNING)


def test_figure_2_holds_network_marginals_guess_and_forest(records: np.ndarray, kept: Path) -> None:
    pytest.importorskip("sklearn")
    bench.figure2(SCHEMA, records, {}, 1, 3, True)
    found = {
        (row["column"], row["what"]): float(row["accuracy"]) for row in rows_of(kept, "deniability-figure2")
    }
    assert found["a", "random"] == 0.25
    assert found["incc", "forest"] > 0.95
    assert found["b", "network, none"] > found["b", "marginals, none"] + 0.5
    assert (kept / "assets" / "deniability-figure2.svg").read_text().startswith("<svg")


def test_figure_6_holds_a_share_for_every_epsilon_gamma_omega_and_k(records: np.ndarray, kept: Path) -> None:
    bench.figure6(SCHEMA, records, {}, 1, True)
    rows = rows_of(kept, "deniability-figure6")
    assert len(rows) == len(bench.BUDGETS) * len(bench.GAMMAS) * 2 * len(bench.KS)
    assert all(
        0 <= float(row["smallest"]) <= float(row["share"]) <= float(row["largest"]) <= 1 for row in rows
    )
    assert (kept / "assets" / "deniability-figure6.svg").read_text().startswith("<svg")


def test_table_4_compares_private_classifiers_with_synthetic_tables(
    records: np.ndarray, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.table4(SCHEMA, records, {}, 2, True)
    rows = rows_of(kept, "deniability-table4")
    found: dict[tuple[str, str], Any] = {(row["trained"], row["classifier"]): row for row in rows}
    assert len(found) == 2 * (1 + 4 + 1 + 2)
    assert float(found["not private", "LR"]["accuracy"]) == pytest.approx(100, abs=2)
    assert float(found["marginals", "LR"]["accuracy"]) < 85
    assert found["not private", "LR"]["paper"] == "79.9"
    assert "2 random splits" in capsys.readouterr().out
