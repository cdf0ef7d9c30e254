"""Rehearsals: probabilities equal what the flow does, work is resumed, narrowing keeps only what passed."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import yaml
from joblib import parallel_config
from scipy.stats import binom
from typer.testing import CliRunner

from understudy.cli import main as commands
from understudy.cli.main import app
from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import BudgetError, DataError, OutputError, SchemaError, UsageError, WorkloadError
from understudy.privacy import Ledger, PureDP, SeededRandomness
from understudy.release import SlackTest
from understudy.release.rehearsal import trial as _rehearsal_trial
from understudy.release.rehearsal import work as _rehearsal_work
from understudy.release.rehearsal.facts import Facts, correlated, table_from_facts
from understudy.release.rehearsal.rehearsal import Rehearsal, mean_interval, product_within, rehearse
from understudy.release.rehearsal.trial import _attempted
from understudy.release.run.judgement import judge
from understudy.release.spec.spec import Spec

ALPHA = 1e-9
ROWS = 600

SCHEMA: dict[str, Any] = {
    "columns": [
        {"name": "smokes", "kind": "boolean"},
        {"name": "age", "kind": "integer", "minimum": 0, "maximum": 9},
    ]
}
CELLS = {"name": "cells", "kind": "max-marginal-error", "threshold": 0.1}


def plain_spec(**changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": "tiny",
        "source": {"table": "tiny"},
        "schema": SCHEMA,
        "unit": "replace-one",
        "transformations": {
            "age": {
                "halves": {"bins": ["0-4", "5-9"]},
                "fifths": {"bins": ["0-1", "2-3", "4-5", "6-7", "8-9"]},
            }
        },
        "synthesizers": [{"method": "gaussian", "options": {"workload": ["all-2way", "all-1way"]}}],
        "acceptance": {"form": "pass-only", "epsilon": 0.5, "criteria": [CELLS]},
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 2.5}, "model": {"epsilon": 2}},
    }
    return plain | changes


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    smokes = rng.random(ROWS) < 0.5
    age = np.where(smokes, rng.integers(4, 10, ROWS), rng.integers(0, 6, ROWS))
    return pd.DataFrame({"smokes": smokes, "age": age})


@pytest.fixture(scope="module")
def spec() -> Spec:
    return Spec.from_dict(plain_spec())


@pytest.fixture(scope="module")
def outcome(spec: Spec) -> Rehearsal:
    return rehearse(spec, table(), trials=3, jobs=1)


# ---------------------------------------------------------------------- intervals


@pytest.mark.parametrize("n", [1, 5, 20])
def test_the_interval_covers_every_coin_often_enough(n: int) -> None:
    """Exact coverage for coins, the widest distribution with a given mean; catches a bound used the wrong way."""
    ends = [mean_interval([1.0] * k + [0.0] * (n - k)) for k in range(n + 1)]
    for mean in np.linspace(0.01, 0.99, 60):
        covered = sum(
            float(binom.pmf(k, n, mean)) for k, (low, high) in enumerate(ends) if low <= mean <= high
        )
        assert covered >= 0.95 - 1e-9


def test_the_interval_holds_the_mean_and_shrinks() -> None:
    widths = []
    for n in (1, 4, 16, 64):
        low, high = mean_interval([0.25] * n)
        assert 0 <= low <= 0.25 <= high <= 1
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert mean_interval([0.0])[0] == 0.0
    assert mean_interval([1.0])[1] == 1.0


# ---------------------------------------------------------------------- probabilities


def test_results_are_sorted_and_tell_what_failed(outcome: Rehearsal) -> None:
    assert len(outcome.results) == 4
    values = [item.acceptance for item in outcome.results]
    assert values == sorted(values, reverse=True)
    best, worst = outcome.results[0], outcome.results[-1]
    assert best.configuration.options["workload"] == "all-2way"
    assert best.acceptance > 0.9
    assert worst.acceptance < 0.05
    assert worst.closest == {"cells": 3}
    assert worst.median_errors["cells"] is not None
    assert worst.median_errors["cells"] > 0.1
    assert best.interval[0] <= best.acceptance <= best.interval[1]
    json.dumps(outcome.to_dict(), allow_nan=False)
    assert outcome.chart().count("<title>") == 4


def test_the_probability_is_that_of_the_slack_test(spec: Spec, outcome: Rehearsal) -> None:
    schema = spec.schema_for(outcome.results[0].configuration)
    test = SlackTest(spec.criteria_for(schema))
    c = test.threshold(epsilon=0.5, false_accept=0.05, unit=spec.unit)
    for item in outcome.results:
        for trial in item.trials:
            assert trial.slack is not None
            expected = test.acceptance(trial.slack, threshold=c, epsilon=0.5, unit=spec.unit)
            assert trial.probability == pytest.approx(expected)


PUBLISHED = {
    "form": "published",
    "criteria": [
        CELLS | {"threshold": 0.03, "epsilon": 0.1},
        {"name": "age", "kind": "conditional-medians", "column": "age", "threshold": 3.0, "epsilon": 0.02},
        {"name": "fit", "kind": "regression-coefficients", "target": "age", "features": ["smokes"]}
        | {"threshold": 40.0, "epsilon": 0.5},
        {"name": "mae", "kind": "prediction-error", "target": "age", "features": ["smokes"]}
        | {"threshold": 0.5, "epsilon": 0.05},
    ],
}


@pytest.mark.parametrize(
    ("acceptance", "total"),
    [
        ({"form": "pass-only", "epsilon": 0.05, "criteria": [CELLS | {"threshold": 0.08}]}, 2.05),
        (PUBLISHED, 2.67),
    ],
    ids=["pass-only", "published"],
)
def test_the_probability_is_how_often_the_flow_accepts(acceptance: dict[str, Any], total: float) -> None:
    """250 judgements of one candidate by the release itself; false alarm 1e-9. Catches a wrong scale or tail."""
    spec = Spec.from_dict(
        plain_spec(acceptance=acceptance, budget={"total": {"epsilon": total}, "model": {"epsilon": 2}})
    )
    configuration = spec.configurations[0]
    private = _rehearsal_work.public_table(spec, configuration, table())
    (attempt,) = _attempted(spec, configuration, private, SeededRandomness(5), 5)
    probability = attempt.judged()["probability"]
    assert 0.1 < probability < 0.9
    baselines = attempt.__dict__.get("_baselines", {})
    randomness, times = SeededRandomness(6), 250
    accepted = 0
    for _ in range(times):
        with Ledger.in_memory(budget=spec.total, unit=spec.unit) as book:
            curator = Curator(private, unit=spec.unit, ledger=book, randomness=randomness)
            accepted += judge(spec, attempt.candidate, curator, baselines).passed
    assert binom.cdf(accepted, times, probability) > ALPHA / 2
    assert binom.sf(accepted - 1, times, probability) > ALPHA / 2


def test_a_failed_attempt_counts_as_rejected(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*words: Any, **more: Any) -> None:
        raise WorkloadError("The model is too large.")

    monkeypatch.setattr(_rehearsal_trial, "fit_models", too_large)
    found = rehearse(spec, table(), trials=2, configurations=1, jobs=1)
    assert found.results[0].acceptance == 0.0
    assert found.results[0].failures == {"The model is too large.": 2}
    assert found.narrowed() is None
    assert any("without a candidate" in note for note in found.notes)


# ---------------------------------------------------------------------- work


def test_finished_trials_are_not_done_again(
    spec: Spec, outcome: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rehearse(spec, table(), trials=2, jobs=1, folder=tmp_path)
    file = tmp_path / "trials.jsonl"
    lines = file.read_text().splitlines()
    assert len(lines) == 8
    file.write_text("\n".join(lines[:5]) + "\n" + lines[5][:40])  # interrupted while writing
    done: list[str] = []
    run = _rehearsal_work.run_trial

    def counted(*words: Any) -> Any:
        done.append(words[-1])
        return run(*words)

    monkeypatch.setattr(_rehearsal_work, "run_trial", counted)
    again = rehearse(spec, table(), trials=2, jobs=1, folder=tmp_path)
    assert len(done) == 3
    rehearse(spec, table(), trials=2, jobs=1, folder=tmp_path)
    assert len(done) == 3
    probabilities = [[t.probability for t in item.trials] for item in first.results]
    assert [[t.probability for t in item.trials] for item in again.results] == probabilities
    rehearse(spec, table(seed=1), trials=1, configurations=1, jobs=1, folder=tmp_path)
    assert len(done) == 4  # another table is other work


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_every_back_end_finds_the_same(spec: Spec, outcome: Rehearsal, backend: str) -> None:
    if backend == "loky":
        with parallel_config(backend=backend, n_jobs=2):
            found = rehearse(spec, table(), trials=1)
    else:
        found = rehearse(spec, table(), trials=1, jobs=2, backend=backend)
    known = {trial.key: trial.probability for item in outcome.results for trial in item.trials}
    assert {t.key: t.probability for item in found.results for t in item.trials}.items() <= known.items()


def test_a_back_end_without_generators_works_in_batches(
    spec: Spec, outcome: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = joblib.Parallel

    def plain(*words: Any, return_as: str = "list", **more: Any) -> Any:
        if return_as != "list":
            raise ValueError("this back end returns lists")
        return whole(*words, **more)

    monkeypatch.setattr(joblib, "Parallel", plain)
    found = rehearse(spec, table(), trials=2, jobs=1)
    known = {trial.key: trial.probability for item in outcome.results for trial in item.trials}
    assert {t.key: t.probability for item in found.results for t in item.trials}.items() <= known.items()


def test_random_search_draws_configurations(spec: Spec) -> None:
    found = rehearse(spec, table(), trials=1, configurations=2, jobs=1, seed=3)
    assert len({item.configuration.name for item in found.results}) == 2
    assert any("2 of 4 configurations were not tried" in note for note in found.notes)


# ---------------------------------------------------------------------- narrowing


def test_a_product_within_points_holds_nothing_else() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        space = list(product("ab", "xyz", "pq"))
        points = {point: float(rng.random()) for point in space if rng.random() < 0.6}
        if not points:
            continue
        members = set(product(*product_within(points)))
        assert members
        assert members <= set(points)
    everything = dict.fromkeys(product("ab", "xyz"), 0.5)
    assert set(product(*product_within(everything))) == set(everything)


def test_the_narrowed_specification_reads_from_its_folder(outcome: Rehearsal, tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    spec_file = tmp_path / "spec.yaml"
    spec_file.write_text(yaml.safe_dump(plain_spec(schema="schema.yaml", ledger="x.ledger")))
    found = rehearse(Spec.read(spec_file), table(), trials=2, jobs=1, keep=0.5)
    files = found.write(tmp_path / "deep" / "out")
    narrowed = Spec.read(files["spec.yaml"])
    kept = {item.configuration.name for item in found.kept}
    assert {item.name for item in narrowed.configurations} == kept
    assert len(kept) == 2
    assert narrowed.ledger is not None
    assert narrowed.ledger.resolve() == (tmp_path / "x.ledger").resolve()
    assert files["acceptance.svg"].read_text().startswith("<svg")


def test_narrowing_gives_back_the_regressions_it_saves() -> None:
    """A pure total must be used up, so a file with fewer transformations promises less."""
    fit = next(item for item in PUBLISHED["criteria"] if item["name"] == "fit")
    spec = Spec.from_dict(
        plain_spec(
            acceptance={"form": "published", "criteria": [CELLS | {"epsilon": 0.1}, fit]},
            selection={"rule": "until-accepted", "gamma": 0},
            budget={"total": {"epsilon": 5.2}, "model": {"epsilon": 2}},
        )
    )
    best = rehearse(spec, table(), trials=1, jobs=1).results[0]
    only = Rehearsal(spec=spec, results=(best,), rows=ROWS, keep=0.0)
    found = only.narrowed()
    assert found is not None
    assert [item.name for item in found[0].configurations] == [best.configuration.name]
    assert found[0].total.describe() == PureDP(4.7).describe()


# ---------------------------------------------------------------------- bad input


def test_bad_numbers_and_tables_are_refused(spec: Spec, tmp_path: Path) -> None:
    for words in ({"trials": 0}, {"configurations": 0}, {"keep": 1.0}, {"jobs": 0}):
        with pytest.raises(BudgetError, match=next(iter(words))):
            rehearse(spec, table(), **words)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"does not have the schema(.|\n)*'age'"):
        rehearse(spec, table().rename(columns={"age": "years"}), jobs=1)
    with pytest.raises(DataError, match=r"does not have the schema(.|\n)*'age'"):
        rehearse(spec, table().assign(age=55), jobs=1)
    with pytest.raises(DataError, match="no rows"):
        rehearse(spec, table().head(0), jobs=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="Trials cannot be kept"):
        rehearse(spec, table(), folder=tmp_path / "file" / "inside", jobs=1)


def test_a_table_of_another_size_is_pointed_out() -> None:
    spec = Spec.from_dict(plain_spec(public={"row_count": 5000}))
    found = rehearse(spec, table(), trials=1, configurations=1, jobs=1)
    assert any("expects 5,000" in note for note in found.notes)
    assert not found.results[0].failures


# ---------------------------------------------------------------------- facts


def test_a_table_from_facts_agrees_with_them(spec: Spec) -> None:
    facts = Facts.from_dict(
        {
            "shares": {"smokes": {True: 0.3}, "age": {"0-4": 0.6, "5-9": 0.4}},
            "correlations": [["smokes", "age", 0.5]],
        },
        spec,
    )
    frame, notes = table_from_facts(facts, rows=20_000, seed=1)
    assert notes == ()
    old = frame["age"] >= 5
    assert frame["smokes"].mean() == pytest.approx(0.3, abs=0.005)
    assert old.mean() == pytest.approx(0.4, abs=0.005)
    assert np.corrcoef(frame["smokes"].astype(float), old)[0, 1] == pytest.approx(0.5, abs=0.01)
    assert len(read_table(frame, spec.schema_for(spec.configurations[0])).count(("age",))) == 2


def test_conditional_facts_imply_the_margin(spec: Spec) -> None:
    inner = {"true": {"0-4": 0.1, "5-9": 0.9}, "false": {"0-4": 0.8, "5-9": 0.2}}
    plain = {
        "shares": {"smokes": {"true": 0.5}},
        "conditionals": [{"of": "age", "given": "smokes", "shares": inner}],
    }
    frame, notes = table_from_facts(Facts.from_dict(plain, spec), rows=10_000)
    assert notes == ()
    assert (frame["age"] >= 5)[frame["smokes"]].mean() == pytest.approx(0.9, abs=0.01)
    plain["shares"]["age"] = {"0-4": 0.9, "5-9": 0.1}  # type: ignore[index]
    _, notes = table_from_facts(Facts.from_dict(plain, spec), rows=10_000)
    assert any("cannot all hold together" in note for note in notes)


def test_wrong_facts_are_listed_together(spec: Spec) -> None:
    with pytest.raises(SchemaError) as told:
        Facts.from_dict({"share": {}, "shares": {"smokes": {True: 0.9, False: 0.9}, "wight": {}}}, spec)
    for words in ("share: unknown", "add up to 1.8", "wight: no column"):
        assert words in str(told.value)
    with pytest.raises(SchemaError, match=r"no table with these shares .* is possible"):
        Facts.from_dict({"shares": {"smokes": {True: 0.01}}, "correlations": [["smokes", "age", 0.9]]}, spec)


def test_correlated_tables_have_their_margins() -> None:
    a, b = np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.6])
    found = correlated(a, b, np.array([1.0, 2.0, np.nan]), np.array([0.0, 3.0]), -0.4)
    np.testing.assert_allclose(found.sum(axis=1), a, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=0), b, atol=1e-6)


# ---------------------------------------------------------------------- command line


def test_the_command_line_writes_everything(tmp_path: Path) -> None:
    commands.register(app)
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(plain_spec()))
    table().to_csv(tmp_path / "public.csv", index=False)
    words = [
        "rehearse",
        str(tmp_path / "spec.yaml"),
        "--trials",
        "1",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    runner = CliRunner()
    told = runner.invoke(app, [*words, "--public", str(tmp_path / "public.csv")], catch_exceptions=False)
    assert told.exit_code == 0
    assert "must be public" in told.output
    assert "Narrowed specification" in told.output
    assert Spec.read(tmp_path / "out" / "spec.yaml").configurations
    shown = runner.invoke(app, [*words, "--public", str(tmp_path / "public.csv"), "--json"])
    assert json.loads(shown.stdout)["configurations_tried"] == 4
    (tmp_path / "facts.yaml").write_text("rows: 300\nshares: {smokes: {true: 0.3}}\n")
    facts = runner.invoke(app, [*words, "--facts", str(tmp_path / "facts.yaml")], catch_exceptions=False)
    assert "nobody declared" in facts.output
    for extra in ([], ["--public", "x.csv", "--rows", "3"]):
        assert isinstance(runner.invoke(app, [*words, *extra]).exception, UsageError)
    assert isinstance(runner.invoke(app, [*words, "--configurations", "few"]).exception, UsageError)


def test_the_private_table_is_not_public(tmp_path: Path) -> None:
    commands.register(app)
    table().to_csv(tmp_path / "private.csv", index=False)
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(plain_spec(source={"path": "private.csv"})))
    words = ["rehearse", str(tmp_path / "spec.yaml"), "--public", str(tmp_path / "private.csv")]
    assert "private table" in str(CliRunner().invoke(app, words).exception)


@pytest.mark.parametrize("way", ["path", "text", "link", "second name", "folder", "mapping"])
def test_no_way_to_name_the_private_table_makes_it_public(tmp_path: Path, way: str) -> None:
    private = tmp_path / "public" / "private.csv"
    private.parent.mkdir()
    table().to_csv(private, index=False)
    spec = Spec.parse(yaml.safe_dump(plain_spec(source={"path": "public/private.csv"})), where=tmp_path)
    (tmp_path / "link.csv").symlink_to(private)
    os.link(private, tmp_path / "other.csv")
    public: Any = {
        "path": private,
        "text": str(private),
        "link": tmp_path / "link.csv",
        "second name": tmp_path / "other.csv",
        "folder": private.parent,
        "mapping": {"t": private},
    }[way]
    with pytest.raises(DataError, match="private table"):
        rehearse(spec, public, trials=1, jobs=1)


def test_a_private_table_of_a_database_is_not_public(tmp_path: Path) -> None:
    place = {"url": "duckdb:///private.duckdb", "table": "t"}
    spec = Spec.parse(yaml.safe_dump(plain_spec(source={"database": place})), where=tmp_path)
    with pytest.raises(DataError, match="private table"):
        rehearse(spec, spec.source.database, trials=1, jobs=1)
