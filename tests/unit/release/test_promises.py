"""What a release promises and never tells: dates of loops, declared row counts, methods that cannot pay, changed files."""

from __future__ import annotations

import os
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spec_examples import fitting_spec, people, small, small_spec

from understudy.data import ArrowTable
from understudy.errors import BudgetExceeded, DataError, SchemaError
from understudy.privacy import Ledger, PureDP, Unit
from understudy.release import MinimalOccurrence, RecordTypes
from understudy.release.bundle.bundle import write_bundle
from understudy.release.bundle.reporting import about_records
from understudy.release.result import ReleaseResult
from understudy.release.run import run as running
from understudy.release.run.run import Release, run_release
from understudy.release.run.transform import Transformed
from understudy.release.spec.spec import Spec
from understudy.schema import Domain

LOOP = {"rule": "until-accepted", "gamma": 1e-9, "max_attempts": 3}


# ---------------------------------------------------------------------- dates


def test_the_end_of_a_loop_is_not_dated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that runs past midnight shows the day it was started, whatever number of attempts it took."""
    days = iter(["2026-01-01", *(f"2026-02-{day:02}" for day in range(1, 28))])
    monkeypatch.setattr(running, "_today", lambda: next(days))
    monkeypatch.setattr(Release, "_attempt", lambda *_: None)
    outcome = run_release(fitting_spec(selection=LOOP), ledger=tmp_path / "l.ledger", source=people())
    assert outcome.started == outcome.finished == "2026-01-01"


def test_a_single_attempt_is_dated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = iter(["2026-01-01", *(f"2026-02-{day:02}" for day in range(1, 28))])
    monkeypatch.setattr(running, "_today", lambda: next(days))
    outcome = run_release(
        small_spec(acceptance__epsilon=96.0, budget__total={"epsilon": 100}),
        ledger=tmp_path / "l.ledger",
        source=people(),
    )
    assert outcome.started == "2026-01-01"
    assert outcome.finished.startswith("2026-02")


# ---------------------------------------------------------------------- declared numbers of rows


@pytest.mark.parametrize("declared", [600, "declared"])
def test_a_declared_number_of_rows_is_part_of_the_promise(declared: Any) -> None:
    condition = small_spec(public={"row_count": declared}, cleaning=["age >= 16"]).condition()
    assert condition.steps == 1
    assert "after rule 'age >= 16'" in condition.among
    condition = small_spec(unit="add-remove", public={"row_count": declared}).condition()
    assert condition.steps == 2
    assert "Neighbouring tables differ in their number of rows" in condition.text
    assert "doubles every epsilon" in condition.text


@pytest.mark.parametrize(
    "changes",
    [
        {"public": {"row_count": {"epsilon": 0.1}}, "budget__total": {"epsilon": 5.1}},
        {"output": {"rows": 600}},
    ],
)
def test_other_numbers_of_rows_presume_nothing(changes: dict[str, Any]) -> None:
    condition = small_spec(unit="add-remove", **changes).condition()
    assert (condition.among, condition.text, condition.steps) == ("", "", 1)


def test_the_guarantee_of_a_release_says_so(tmp_path: Path) -> None:
    spec = small_spec(
        unit="add-remove",
        public={"row_count": "declared"},
        acceptance__epsilon=96.0,
        budget__total={"epsilon": 100},
    )
    outcome = run_release(spec, ledger=tmp_path / "l.ledger", source=people())
    assert "among tables with 600 rows: the number is public" in outcome.guarantee.describe()
    assert outcome.guarantee.to_dict()["condition"] in outcome.guarantee.to_dict()["words"]


# ---------------------------------------------------------------------- whom the words are about, and what they are about


def documents(outcome: ReleaseResult, folder: Path) -> dict[str, str]:
    """Return every page of a bundle that people read, as plain words."""
    write_bundle(outcome, folder)
    pages = {path.name: path.read_text() for path in folder.rglob("*") if path.suffix in (".html", ".md")}
    return {name: " ".join(unescape(text).split()) for name, text in pages.items()}


TOLERANT = {"acceptance__epsilon": 96.0, "budget__total": {"epsilon": 100}}
FOR_PEOPLE = ("README.md", "README.html", "report.html", "anonymisation.html", "dpia-annex.html")


def test_a_promise_about_records_says_that_somebody_with_several_is_promised_less(tmp_path: Path) -> None:
    outcome = run_release(small_spec(**TOLERANT), ledger=tmp_path / "l.ledger", source=people())
    assert isinstance(outcome, ReleaseResult)
    said = documents(outcome, tmp_path / "bundle")
    assert "about this release alone" in said["anonymisation.html"]
    for name in FOR_PEOPLE:
        assert "about one record" in said[name], name
        assert "every epsilon counts twice" in said[name], name
    unit = Unit.add_remove_person("who", max_rows=2)
    assert about_records(unit) == ""


def test_documents_do_not_say_that_nothing_was_read_before(tmp_path: Path) -> None:
    """A release after a rejected one: its specification may have been written in the light of that one."""
    ledger = tmp_path / "l.ledger"
    strict = small_spec(acceptance__criteria__0__threshold=1e-6, **TOLERANT)
    terms: dict[str, Any] = {"unit": strict.unit, "table": strict.source.table or strict.name}
    with Ledger.create(ledger, budget=PureDP(300.0), **terms):
        pass
    rejected = run_release(strict, ledger=ledger, source=people())
    assert not isinstance(rejected, ReleaseResult)
    outcome = run_release(small_spec(name="second", **TOLERANT), ledger=ledger, source=people())
    assert isinstance(outcome, ReleaseResult)
    for name, text in documents(outcome, tmp_path / "bundle").items():
        assert "before any record was read" not in text.replace(
            "before any record was read for this release", ""
        ), name


def test_the_chance_of_a_false_acceptance_is_that_of_one_attempt(tmp_path: Path) -> None:
    single = run_release(small_spec(**TOLERANT), ledger=tmp_path / "s.ledger", source=people())
    loop = run_release(fitting_spec(selection=LOOP), ledger=tmp_path / "l.ledger", source=people())
    assert isinstance(single, ReleaseResult)
    assert isinstance(loop, ReleaseResult)
    one, several = documents(single, tmp_path / "one"), documents(loop, tmp_path / "several")
    for name in ("README.md", "README.html", "report.html"):
        assert "with a larger chance" in several[name], name
        assert "with a larger chance" not in one[name], name


# ---------------------------------------------------------------------- methods that could never pay


def test_a_pure_method_in_a_loop_with_an_approximate_model_is_refused_with_a_reason() -> None:
    plain = small(
        selection={"rule": "until-accepted", "gamma": 0.2},
        synthesizers=[{"method": "laplace"}],
        budget={"total": {"epsilon": 20.0, "delta": 1e-6}, "model": {"epsilon": 1.0, "delta": 1e-7}},
    )
    with pytest.raises(SchemaError, match=r"give budget\.model an epsilon alone"):
        Spec.from_dict(plain)
    plain["synthesizers"] = [{"method": "laplace"}, {"method": "gaussian"}]
    spec = Spec.from_dict(plain)
    assert {item.method for item in spec.configurations} == {"gaussian"}


OWN_DELTA: dict[str, Any] = {
    "schema__columns": [{"name": "sex", "kind": "categorical", "values": ["f", "m"]}],
    "synthesizers": [{"method": "poisson"}],
    "acceptance": {
        "form": "pass-only",
        "epsilon": 5.0,
        "criteria": [{"name": "cells", "kind": "max-marginal-error", "threshold": 0.5}],
    },
    "budget": {"total": {"epsilon": 15.0, "delta": 1e-2}, "model": {"epsilon": 10.0, "delta": 9e-3}},
    "projections": None,
}
"""A model whose guarantee has a delta that no additive noise accounts for."""


def test_a_single_attempt_sets_aside_the_delta_that_a_model_needs_for_itself(tmp_path: Path) -> None:
    spec = small_spec(**OWN_DELTA)
    assert 0 < spec.shares.reserve < 1e-2
    outcome = run_release(spec, ledger=tmp_path / "people.ledger", source=people())
    assert isinstance(outcome, ReleaseResult)
    with Ledger.open(tmp_path / "people.ledger") as book:
        book.verify()
        assert 0 < float(book.spending.delta) <= book.rule.approximate_delta == spec.shares.reserve
    assert outcome.guarantee.budget == spec.total


def test_a_ledger_that_set_no_delta_aside_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    spec = small_spec(**OWN_DELTA)
    with Ledger.create(
        tmp_path / "people.ledger", budget=spec.total, unit=spec.unit, table="people.csv"
    ) as book:
        pass
    with pytest.raises(BudgetExceeded):
        run_release(spec, ledger=tmp_path / "people.ledger", source=people())
    with Ledger.open(tmp_path / "people.ledger") as book:
        assert book.spent == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget__total": {"epsilon": 15.0, "delta": 8e-3}}, "for itself, and the total has 0.008"),
        (
            {"selection": {"rule": "until-accepted", "gamma": 0.1}, "budget__total__epsilon": 40.0},
            "cannot account for",
        ),
    ],
)
def test_a_delta_that_cannot_be_set_aside_is_refused_at_plan_time(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SchemaError, match=words):
        small_spec(**OWN_DELTA, **changes)


def test_the_same_method_is_welcome_in_a_single_attempt() -> None:
    spec = small_spec(
        synthesizers=[{"method": "laplace"}],
        budget={"total": {"epsilon": 20.0, "delta": 1e-6}, "model": {"epsilon": 1.0, "delta": 1e-7}},
    )
    assert {item.method for item in spec.configurations} == {"laplace"}


# ---------------------------------------------------------------------- a source that changes


def test_a_changed_file_ends_a_loop_instead_of_making_every_attempt_fail(tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    people().to_parquet(file)
    spec = small_spec()
    data = Transformed(spec, file)
    data._tables[()] = ArrowTable(file, spec.schema)  # as if it were larger than memory
    data.require_unchanged()
    os.utime(file, ns=(1, 1))
    with pytest.raises(DataError, match="changed while it was in use"):
        data.require_unchanged()


def test_a_changed_file_does_not_matter_once_it_is_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    people().to_csv(file, index=False)
    spec = small_spec()
    data = Transformed(spec, file)
    data._table(spec.configurations[0])
    file.write_text("nothing", encoding="utf-8")
    data.require_unchanged()


def test_the_loop_asks_after_every_rejected_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def changed(self: Transformed) -> None:
        asked.append(1)
        if len(asked) == 2:
            raise DataError("The source changed.")

    monkeypatch.setattr(Transformed, "require_unchanged", changed)
    monkeypatch.setattr(Release, "_attempt", lambda *_: None)
    with pytest.raises(DataError, match="The source changed"):
        run_release(fitting_spec(selection=LOOP), ledger=tmp_path / "l.ledger", source=people())


# ---------------------------------------------------------------------- balanced projection


def _births(seed: int) -> RecordTypes:
    """Most records unique, and one value of one column rare."""
    domain = Domain(("wide", "rare", "side", "more"), (10, 2, 12, 14))
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, domain.sizes, (1_500, 4))
    rows[:, 1] = generator.random(1_500) < 0.05
    return RecordTypes.from_rows(domain, rows)


@pytest.mark.parametrize("draw", range(5))
def test_the_balanced_projection_keeps_rare_values(draw: int) -> None:
    """Where a random choice moves 75 rows by about 8, the balanced one moves them by three at most.

    Unique records are halved in an order whose first column is the rare one; only the one run across its
    border can change the number of rows there, by one record that occurs twice, or by the top-up.
    """
    types = _births(draw)
    before = int(types.marginal(("rare",))[1])
    moved = []
    for start in range(20):
        after = MinimalOccurrence(min_count=2, algorithm="balanced").apply(
            types, np.random.default_rng(start)
        )
        assert after.rows == types.rows
        assert after.counts.min() >= 2
        moved.append(abs(int(after.marginal(("rare",))[1]) - before))
    assert max(moved) <= 3


def test_the_balanced_projection_never_invents_a_record() -> None:
    types = _births(1)
    known = set(map(tuple, types.codes.tolist()))
    for count in (2, 3, 5):
        rule = MinimalOccurrence(min_count=count, algorithm="balanced")
        after = rule.apply(types, np.random.default_rng(0))
        assert set(map(tuple, after.codes.tolist())) <= known
        assert after.counts.min() >= count
