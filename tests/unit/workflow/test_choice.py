"""``auto`` chooses by public facts alone, says why, and what it chose is what is recorded."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy import datasets, synthesize
from understudy.curator import Journal
from understudy.errors import LedgerError, UnknownMethod, UsageError, WorkloadError
from understudy.marginals import all_kway
from understudy.mechanisms import create
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, Unit
from understudy.schema import Integer, Schema
from understudy.workflow import choice, choose, mechanism_for
from understudy.workflow.choice import Facts, predicting, preferred

FRAME, SCHEMA = datasets.load("toy", 400, seed=1)
UNIT = Unit.add_remove()
BUDGETS: tuple[Budget, ...] = (
    PureDP(1.0),
    ApproxDP(1.0, 1e-9),
    ZCDP(0.1),
    GDP(0.5),
    PureDP(0.01),
    ApproxDP(20.0, 1e-6),
)


def table(sizes: list[int], rows: int | None = None) -> Schema:
    columns = tuple(Integer(f"c{place}", minimum=0, maximum=size - 1) for place, size in enumerate(sizes))
    return Schema(columns=columns, row_count=rows)


# ------------------------------------------------------------------------------------ public facts alone


def test_the_table_is_no_argument() -> None:
    """No parameter could hold records: a schema, a unit, a budget and a workload."""
    assert list(inspect.signature(choose).parameters) == ["schema", "unit", "budget", "workload"]
    assert list(inspect.signature(preferred).parameters) == ["facts"]


def test_neighbouring_tables_get_the_same_choice() -> None:
    names = []
    for frame in (FRAME, FRAME.iloc[1:], FRAME.iloc[:0], pd.concat([FRAME, FRAME.iloc[:1]])):
        made = synthesize(frame, schema=SCHEMA, unit=UNIT, epsilon=1.0, rows=5, ledger="memory")
        names.append((made.model.provenance.method, made.why))
    assert len(set(names)) == 1


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 60), min_size=1, max_size=12),
    rows=st.none() | st.integers(1, 10**7),
    budget=st.sampled_from(BUDGETS),
    replace=st.booleans(),
)
def test_every_choice_can_be_planned_and_names_its_facts(
    sizes: list[int], rows: int | None, budget: Budget, replace: bool
) -> None:
    schema, unit = table(sizes, rows), Unit.replace_one() if replace else UNIT
    found = choose(schema, unit=unit, budget=budget)
    assert found == choose(schema, unit=unit, budget=budget)
    made = found.mechanism()
    assert made.name == found.method != "auto"
    made.require(budget)
    made.plan(schema, unit=unit, budget=budget)
    assert found.why.startswith(f"Chosen by auto: {found.method}")
    assert f" {len(sizes)} column" in found.why
    assert ("declared" in found.why) == (rows is not None)
    assert "\n" not in found.why


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize(
    ("sizes", "rows"),
    [([2], None), ([2, 3], 50), ([2] * 8, 500), ([20, 30, 5, 7], 1_000), ([40, 60, 2, 9, 12, 3], 5_000_000)],
    ids=["one-column", "two-columns", "yes-or-no", "few-columns", "large"],
)
def test_every_choice_can_fit(sizes: list[int], rows: int | None, budget: Budget) -> None:
    """The contract: what is chosen fits a table of that kind and draws rows from it; the number of rows is declared, whatever it is."""
    schema = table(sizes, rows)
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{place}": generator.integers(0, size, 60) for place, size in enumerate(sizes)})
    found = choose(schema, unit=UNIT, budget=budget)
    private = Schema(columns=schema.columns)  # the choice is made by the declared number, the fit needs none
    made = synthesize(
        frame,
        schema=private,
        unit=UNIT,
        method=found.method,
        rows=7,
        seed=1,
        ledger="memory",
        **_numbers(budget),
    )
    assert made.frame is not None
    assert len(made.frame) == 7


LEVELS = """
columns:
  - {name: code, kind: categorical, values: [A1, A2, A3, B1, B2, B3], levels: {prefix: [1], most: 4}, missing: true}
  - {name: sex, kind: categorical, values: [f, m]}
  - {name: age, kind: integer, bins: {edges: [0, 20, 40, 60, 100]}}
constraints: ["not (age < 20 and sex == 'm')"]
"""


@pytest.mark.parametrize("target", [None, "code"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_columns_with_levels_and_rules_are_chosen_for(epsilon: float, target: str | None) -> None:
    schema = Schema.parse(LEVELS)
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "code": generator.choice(["A1", "B2"], 200),
            "sex": ["f"] * 200,
            "age": generator.integers(0, 100, 200),
        }
    )
    made = synthesize(
        frame, schema=schema, unit=UNIT, epsilon=epsilon, target=target, rows=50, seed=1, ledger="memory"
    )
    assert made.frame is not None
    assert not ((made.frame["age"] < 20) & (made.frame["sex"] == "m")).any()
    assert f"Chosen by auto: {made.model.provenance.method}" in made.why


def _numbers(budget: Budget) -> dict[str, Any]:
    names = ("epsilon", "delta", "rho", "mu")
    return {name: getattr(budget, name) for name in names if hasattr(budget, name)}


# ------------------------------------------------------------------------------------ the rule


def facts(**changes: Any) -> Facts:
    """A middling table, for which sift is chosen."""
    usual: dict[str, Any] = {
        "columns": 12, "cells": 2.0**18, "triple_cells": 900.0, "column_noise": 0.01, "pair_noise": 0.5, "triple_noise": 4.0,
        "rows": 20_000, "declared": True,
    }  # fmt: skip
    return Facts(**(usual | changes))


@pytest.mark.parametrize(
    ("below", "above"),
    [
        (("sift", {"column_noise": 0.3}), ("independent", {"column_noise": 0.301})),
        (
            ("sift", {"column_noise": 0.6, "declared": False}),
            ("independent", {"column_noise": 0.601, "declared": False}),
        ),
        (
            ("gaussian", {"triple_cells": 64.0, "triple_noise": 2.0}),
            ("sift", {"triple_cells": 64.1, "triple_noise": 2.0}),
        ),
        (
            ("gaussian", {"triple_cells": 64.0, "triple_noise": 2.0}),
            ("sift", {"triple_cells": 64.0, "triple_noise": 2.01}),
        ),
        (
            ("gaussian", {"triple_cells": 64.0, "triple_noise": 2.0}),
            ("sift", {"triple_cells": 64.0, "triple_noise": 2.0, "cells": 2.0**18 + 1}),
        ),
        (("gaussian", {"triple_noise": 0.05}), ("sift", {"triple_noise": 0.051})),
        (
            ("gaussian", {"triple_noise": 0.02, "cells": 2.0**18 + 1}),
            ("sift", {"triple_noise": 0.021, "cells": 2.0**18 + 1}),
        ),
        (
            ("gaussian", {"triple_noise": 0.01, "columns": 32}),
            ("sift", {"triple_noise": 0.01, "columns": 33}),
        ),
        (("gaussian", {"triple_noise": 0.01}), ("sift", {"triple_noise": 0.01, "signs": True})),
    ],
    ids=[
        "drowned",
        "drowned-if-rows-are-assumed",
        "few-cells",
        "few-cells-noise",
        "whole-model",
        "precise",
        "precise-without-a-whole-model",
        "many-triples",
        "signs",
    ],
)
def test_the_boundaries_of_the_rule(
    below: tuple[str, dict[str, Any]], above: tuple[str, dict[str, Any]]
) -> None:
    assert preferred(facts())[0][0] == "sift"
    for name, changes in (below, above):
        assert preferred(facts(**changes))[0][0] == name


@pytest.mark.parametrize(
    ("sizes", "rows", "budget", "wanted"),
    [
        ([2] * 16, 20_000, ZCDP(0.1), True),
        ([2] * 15 + [3], 20_000, ZCDP(0.1), False),
        ([2] * 33, 20_000, ZCDP(0.1), False),
        ([2] * 16, 20_000, PureDP(1.0), False),
        ([2] * 16, 200, ZCDP(0.001), False),
    ],
    ids=["two-valued", "one-with-three", "too-many", "pure", "drowned"],
)
def test_tables_of_two_valued_columns_are_measured_by_signs(
    sizes: list[int], rows: int, budget: Budget, wanted: bool
) -> None:
    """What the choice says is what the method does."""
    schema = table(sizes, rows)
    assert Facts.of(schema, unit=UNIT, budget=budget).signs == wanted
    plan = create("sift").plan(schema, unit=UNIT, budget=budget)
    assert any("sums of signs" in note for note in plan.notes) == wanted
    if wanted:
        found = choose(schema, unit=UNIT, budget=budget)
        assert (found.method, dict(found.options)) == ("sift", {})
        assert "16 columns of two values" in found.why


def test_more_rows_are_as_good_as_more_budget() -> None:
    """The shares of noise fall with the rows: ten times as many rows move them to a tenth."""
    small, large = (
        Facts.of(table([3, 4, 5, 6], rows), unit=UNIT, budget=ZCDP(0.1)) for rows in (1_000, 10_000)
    )
    for name in ("column_noise", "pair_noise", "triple_noise"):
        assert getattr(small, name) == pytest.approx(10 * getattr(large, name))


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_the_noise_is_that_of_the_method_that_measures_every_marginal(budget: Budget) -> None:
    """Against the design of `gaussian`, whose plan lists every marginal with its noise."""
    schema = table([3, 4, 5, 6], 1_000)
    found = Facts.of(schema, unit=UNIT, budget=budget)
    for k, share in ((1, found.column_noise), (2, found.pair_noise), (3, found.triple_noise)):
        made = create("gaussian", workload=all_kway(schema.domain, k))
        planned = made.plan(schema, unit=UNIT, budget=budget).measurements
        assert share == pytest.approx(np.mean([item.expected_l1 for item in planned]) / 2 / 1_000, rel=0.02)


def test_a_method_that_cannot_fit_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = table([2_000, 3_000, 2_500])
    monkeypatch.setattr(choice, "preferred", lambda facts: (("gaussian", {}, "first"), ("aim", {}, "second")))
    found = choose(schema, unit=UNIT, budget=PureDP(1.0))
    assert found.method == "aim"
    assert "gaussian would come first" in found.why


def test_a_workload_keeps_to_methods_that_take_one() -> None:
    schema = table([9, 16, 7, 6, 2, 2], 4_884)
    budget = ApproxDP(1.0, 1e-9)
    assert choose(schema, unit=UNIT, budget=budget).method == "sift"
    found = choose(schema, unit=UNIT, budget=budget, workload=all_kway(schema.domain, 2))
    assert found.method == "sift"
    assert found.options["workload"] == all_kway(schema.domain, 2)


# ------------------------------------------------------------------------------------ what is recorded


def test_the_files_name_the_method_that_ran_and_never_auto(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "stays.csv", index=False)
    made = synthesize(
        tmp_path / "stays.csv", schema=SCHEMA, unit=UNIT, epsilon=1.0, rows=9, model=tmp_path / "m.understudy",
        out=tmp_path / "o.csv",
    )  # fmt: skip
    name = choose(SCHEMA, unit=UNIT, budget=PureDP(1.0)).method
    assert made.model.provenance.method == name
    assert (
        made.model.provenance.options == choose(SCHEMA, unit=UNIT, budget=PureDP(1.0)).mechanism().options()
    )
    assert made.ledger is not None
    with Ledger.open(made.ledger) as ledger:
        scopes = {entry.scope for entry in ledger.entries() if entry.event is not None}
        texts = [
            json.dumps(entry.to_dict() if hasattr(entry, "to_dict") else str(entry), default=str)
            for entry in ledger.entries()
        ]
    assert scopes == {name}
    assert not any('"auto"' in text for text in texts)
    assert b'"auto"' not in (tmp_path / "m.understudy").read_bytes()


def test_a_named_method_gives_no_reason() -> None:
    made = synthesize(
        FRAME, schema=SCHEMA, unit=UNIT, epsilon=1.0, method="independent", rows=5, ledger="memory"
    )
    assert made.why == ""
    assert made.model.provenance.method == "independent"


class Stopped(BaseException):
    """Stands for a process that is killed."""


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A fit by auto whose process ended after its second answer."""
    path = tmp_path / "stays.csv"
    FRAME.to_csv(path, index=False)
    asked: dict[str, Any] = {
        "table": path, "schema": SCHEMA, "unit": UNIT, "epsilon": 0.05, "delta": 1e-6, "rows": 9, "out": tmp_path / "o.csv",
    }  # fmt: skip
    keep, kept = Journal.keep, 0

    def around(journal: Journal, *given: Any, **rest: Any) -> None:
        nonlocal kept
        keep(journal, *given, **rest)
        kept += 1
        if kept == 2:
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", around)
        with pytest.raises(Stopped):
            synthesize(**asked)
    return asked


def test_an_interrupted_fit_goes_on(interrupted: dict[str, Any]) -> None:
    made = synthesize(**interrupted)
    assert made.repeated == 2
    assert made.standing.remaining >= 0


def _entries(folder: Path) -> int:
    with Ledger.open(folder / "stays.ledger") as ledger:
        return sum(entry.event is not None for entry in ledger.entries())


def test_another_rule_does_not_forget_what_was_paid_for(
    interrupted: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later rule that chooses otherwise is refused before anything is spent; naming the method goes on with the paid answers."""
    first = choose(SCHEMA, unit=UNIT, budget=ApproxDP(0.05, 1e-6))
    before = _entries(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(choice, "preferred", lambda facts: (("independent", {}, "for a test"),))
        with pytest.raises(LedgerError, match=f"interrupted.*{first.method}"):
            synthesize(**interrupted)
        assert _entries(tmp_path) == before
        made = synthesize(**interrupted, method=first.method, options=first.options)
    assert made.repeated == 2
    assert made.model.provenance.method == first.method


def test_a_choice_for_a_measured_schema_goes_on_by_the_same_rule_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stays.csv"
    FRAME.to_csv(path, index=False)
    asked: dict[str, Any] = {
        "table": path, "discover": 0.3, "unit": UNIT, "epsilon": 20.0, "delta": 1e-6, "rows": 9, "out": tmp_path / "o.csv",
    }  # fmt: skip

    def stop(stage: str, fraction: float) -> None:
        if stage == "counting":  # the fit has begun, after discovery
            raise Stopped

    with pytest.raises(Stopped):
        synthesize(**asked, progress=stop)
    before = _entries(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("understudy.workflow.synthesis.running.CHOICE_RULE", 99)
        with pytest.raises(
            LedgerError, match=rf"interrupted \(chosen by rule {choice.CHOICE_RULE} for the measured schema"
        ):
            synthesize(**asked)
    assert _entries(tmp_path) == before
    made = synthesize(**asked)
    assert made.repeated > 0
    assert made.discovery is not None
    assert made.why == choose(made.discovery.schema, unit=UNIT, budget=ApproxDP(20.0, 1e-6)).why
    assert made.model.provenance.method in made.why


# ------------------------------------------------------------------------------------ a column to predict


def test_a_column_to_predict_weighs_its_marginals() -> None:
    found = predicting(SCHEMA.domain, "ward")
    heavy = dict(found)
    assert set(heavy) == set(all_kway(SCHEMA.domain, 3).cliques)
    assert min(w for c, w in heavy.items() if "ward" in c) > max(
        w for c, w in heavy.items() if "ward" not in c
    )
    chosen = mechanism_for("auto", SCHEMA, target="ward", unit=UNIT, budget=PureDP(1.0))
    assert chosen.workload == found  # type: ignore[attr-defined]


def test_a_column_to_predict_is_checked_before_anything_is_read() -> None:
    with pytest.raises(WorkloadError, match="No column named 'nowhere'"):
        mechanism_for("auto", SCHEMA, target="nowhere", unit=UNIT, budget=PureDP(1.0))
    with pytest.raises(UsageError, match="not both"):
        mechanism_for("aim", SCHEMA, target="ward", workload="all-2way", error=UsageError)
    with pytest.raises(UsageError, match="independent does not take a workload"):
        mechanism_for("independent", SCHEMA, target="ward", error=UsageError)


def test_auto_is_no_mechanism_of_a_specification() -> None:
    with pytest.raises(UnknownMethod, match="name the one that `understudy plan --method auto` shows"):
        create("auto")


def test_auto_takes_no_options() -> None:
    with pytest.raises(UsageError, match="max_model_mb"):
        mechanism_for(
            "auto", SCHEMA, options={"max_model_mb": 3}, unit=UNIT, budget=PureDP(1.0), error=UsageError
        )
