"""Numbers that version 0.1.0 got wrong, computed again, with what 0.1.0 did beside them where that can still be asked for.

Run ``python -m benchmarks.papers.wrong_numbers``, or one part of it: ``--part delta``. The tables are simulated or public and are read
without noise to compute errors.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks._tables import find_data
from benchmarks.accuracy._cell import run as run_cell
from benchmarks.accuracy.aim import DELTA, NOTICE
from understudy import datasets
from understudy.curator import Curator
from understudy.data import LocalTable, read_table
from understudy.errors import UnderstudyError
from understudy.marginals import all_kway, workload_error
from understudy.mechanisms import Model, Synthesizer, create
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.rows import PublicRows
from understudy.release import PredictionError, RegressionCoefficients
from understudy.release.regressions.moments import RegressionMoments
from understudy.release.run.candidate import draw_candidate, fit_model
from understudy.release.run.judgement import fit_baseline
from understudy.release.run.planning import plan_release
from understudy.release.spec.spec import Spec
from understudy.schema import Boolean, Integer, Schema

EPSILON, SEEDS = 8.0, 5
UNIT = Unit.add_remove()
BIRTHS = Path(__file__).resolve().parents[2] / "examples" / "births"

TABLES = ("perturbed-histogram", "sorted-histogram", "universal-histogram", "dpcube", "modips")
COLUMNS = ("noise-first", "structure-first", "efpa", "p-hp")
"""Methods that took Gaussian noise whenever a delta was given: for tables (and ``independent``), and for one ordered column."""

IGNORED: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("deniability", {name: value}) for name, value in (
        ("records", 10), ("k", 20), ("gamma", 2.0), ("epsilon0", 0.5), ("min_seeds", 50),
    )),
    ("privbayes", {"flavour": "theta", "degree": 3}),
    ("modips", {"model": "saturated", "prior_variance": 2.0}),
)  # fmt: skip
"""Options that 0.1.0 accepted and ignored."""


def binary(rows: int, repeated: float) -> LocalTable:
    """Return records of six binary columns, each of which repeats the one before it with a given probability."""
    generator = np.random.default_rng(1)
    codes = [generator.random(rows) < 0.4]
    for _ in range(5):
        codes.append(np.where(generator.random(rows) < repeated, codes[-1], generator.random(rows) < 0.4))
    names = "abcdef"
    schema = Schema(columns=tuple(Boolean(name=name) for name in names), name="binary")
    return LocalTable(
        schema, {name: column.astype(np.int64) for name, column in zip(names, codes, strict=True)}
    )


def ordered(rows: int) -> LocalTable:
    """Return values of one ordered column of 64 values."""
    drawn = np.random.default_rng(2).normal(30, 9, rows).round().clip(0, 63).astype(np.int64)
    schema = Schema(columns=(Integer(name="x", minimum=0, maximum=63),), name="ordered")
    return LocalTable(schema, {"x": drawn})


def fitted(method: Synthesizer, table: LocalTable, budget: Budget, seed: int, unit: Unit = UNIT) -> Model:
    """Fit a method with seeded noise, which only a benchmark may do."""
    book = Ledger.in_memory(budget=budget, unit=unit, table=table.schema.name)
    return method.fit(Curator(table, unit=unit, ledger=book, randomness=SeededRandomness(seed)), budget)


def distance(method: Synthesizer, table: LocalTable, budget: Budget, ways: int) -> float:
    """Return the mean total variation distance of all marginals of so many columns, averaged over seeds."""
    workload = all_kway(table.schema.domain, ways)
    cliques = list(workload.cliques)
    exact, rows = table.count_many(cliques), table.exact_row_count()
    errors = [
        workload_error(workload, exact, fitted(method, table, budget, seed).marginals(cliques), n_rows=rows)
        for seed in range(SEEDS)
    ]
    return float(np.mean(errors)) / 2


def delta() -> None:
    """Print the error with and without a delta, and by the Gaussian curve alone, as 0.1.0 spent it."""
    pure, approximate, rows = PureDP(EPSILON), ApproxDP(EPSILON, 1e-6), 160
    print(f"\nMean distance at epsilon {EPSILON:g}, with delta 1e-6 and without, {rows} records")
    print(f"  {'method':22s} {'marginals':>9s} {'pure':>8s} {'with delta':>11s} {'as in 0.1.0':>12s}")
    for names, table, ways in (
        (TABLES, binary(rows, 0.75), 2),
        (("independent",), binary(rows, 0.75), 1),
        (COLUMNS, ordered(rows), 1),
    ):
        for name in names:
            method = create(name)
            found = (
                distance(method, table, pure, ways),
                distance(method, table, approximate, ways),
                distance(method.with_fixed_accounting(), table, approximate, ways),
            )
            print(f"  {name:22s} {f'{ways}-way':>9s} {found[0]:8.4f} {found[1]:11.4f} {found[2]:12.4f}")


def binomial() -> None:
    """Print the mean share that the two binomial synthesizers draw."""
    n, ones, epsilon, repeats = 1000, 100, 1.0, 400
    schema = Schema(columns=(Boolean(name="x"),), name="share")
    table = LocalTable(schema, {"x": (np.arange(n) < ones).astype(np.int64)})
    prior = {"binomial-beta": n / math.expm1(epsilon), "mcclure-reiter": 1 / math.expm1(epsilon / n)}
    print(f"\nThe law of a share: {n} records with {ones} ones, epsilon 1, replace-one, {repeats} fits")
    for name, alpha in prior.items():
        shares = []
        for seed in range(repeats):
            cells = fitted(create(name), table, PureDP(epsilon), seed, Unit.replace_one()).marginal(("x",))
            shares.append(cells[1] / cells.sum())
        print(
            f"  {name:22s} mean share {np.mean(shares):.3f}, by the formula {(ones + alpha) / (n + 2 * alpha):.3f}"
        )


def skewed() -> None:
    """Print AIM's error on the skewed workload of titanic, an average over its 256 queries."""
    spec = {"table": "titanic", "workload": "skewed", "method": "aim", "epsilon": 1.0, "delta": DELTA}
    found = [run_cell(spec | {"seed": seed, "data": str(find_data(None))})["error"] for seed in range(SEEDS)]
    print(f"\nSkewed workload of titanic, aim, epsilon 1, {SEEDS} seeds: error {np.mean(found):.3f}")


def fourier() -> None:
    """Print the errors of the two solutions of the linear programme, and of independent columns."""
    table, budget = binary(20_000, 0.15), PureDP(EPSILON)
    print(f"\nThe table that fourier returns: 20,000 records of six binary columns, epsilon {EPSILON:g}")
    for name, method in (
        ("maximum entropy", create("fourier")),
        ("vertex, as in 0.1.0", create("fourier", solution="vertex")),
        ("independent", create("independent")),
    ):
        pairs, triples = (distance(method, table, budget, ways) for ways in (2, 3))
        print(f"  {name:22s} 2-way {pairs:.4f}, 3-way {triples:.4f}")


def plan() -> None:
    """Print, for every published criterion of the births example, planned noise over that of a release."""
    rows, epsilon = 20_000, 0.43
    plain = copy.deepcopy(yaml.safe_load((BIRTHS / "spec.yaml").read_text(encoding="utf-8")))
    plain["schema"] = str(BIRTHS / "schema.yaml")
    plain["source"]["simulate"]["rows"] = plain["public"]["expected_rows"] = rows
    criteria = plain["acceptance"]["criteria"]
    for item in criteria:
        if item["kind"] != "rare-records":
            item["epsilon"] = epsilon
    plain["acceptance"] = {"form": "published", "criteria": criteria}
    plain["budget"] = {"total": {"epsilon": 7.46}, "model": {"epsilon": 4.0}}
    spec = Spec.from_dict(plain)
    table = datasets.load("births", rows, 7)[0]  # not the one that is planned with
    example = datasets.load("births", rows, 1)[0]
    planned = {item.name: item.noise_deviation for item in plan_release(spec, example=example).criteria}
    configuration = spec.configurations[0]
    private = read_table(table, spec.schema_for(configuration), prepare=spec.preparation)
    known = private.exact_row_count()

    def door(budget: Budget, seed: int) -> Curator:
        book = Ledger.in_memory(budget=budget, unit=spec.unit)
        noise = SeededRandomness(seed)
        return Curator(private, unit=spec.unit, ledger=book, rows=PublicRows.exactly(known), randomness=noise)

    model = fit_model(spec, configuration, door(PureDP(100.0), 5), progress=lambda stage, fraction: None)
    candidate = draw_candidate(spec, configuration, model, rows=known, seed=3)
    print(f"\nPlanned noise over that of a release: births, {rows:,} records, epsilon {epsilon} each")
    for criterion in spec.criteria_for(candidate.schema):
        stated = planned[criterion.name]
        if stated is None:
            continue
        if isinstance(criterion, RegressionCoefficients):
            moments = RegressionMoments(criterion.regression)
            real = moments.noise_quantiles(candidate.types, epsilon=epsilon, unit=spec.unit, seed=9)[1]
        elif isinstance(criterion, PredictionError):
            based = []
            for seed in range(15):
                fit = fit_baseline(
                    spec, criterion.regression, door(PureDP(epsilon), seed), rows=known, epsilon=epsilon
                )
                moved = replace(criterion, baseline=fit).sensitivity(spec.unit, known, candidate.types)
                based.append(math.sqrt(2) * moved / epsilon)
            real = float(np.median(based))
        else:
            real = math.sqrt(2) * criterion.sensitivity(spec.unit, known, candidate.types) / epsilon
        print(f"  {criterion.name:24s} {stated / real:.2f}")


def ignored() -> None:
    """Print how options are refused that nothing would look at; one that is accepted ends the run."""
    print("\nOptions that 0.1.0 accepted and ignored")
    for name, options in IGNORED:
        chosen = ", ".join(f"{key}={value}" for key, value in options.items())
        try:
            create(name, **options)
        except UnderstudyError as error:
            print(f"  {name} {chosen}: refused: {str(error).partition('. ')[0]}")
        else:
            raise SystemExit(f"{name} accepts {chosen}, which nothing looks at")


PARTS: dict[str, Callable[[], None]] = {
    "delta": delta, "binomial": binomial, "skewed": skewed, "fourier": fourier, "plan": plan, "ignored": ignored,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every part, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=sorted(PARTS), help="one part; by default all of them")
    stated = parser.parse_args(arguments)
    print(NOTICE)
    for name, part in PARTS.items():
        if stated.part in (None, name):
            part()
    return 0


if __name__ == "__main__":
    sys.exit(main())
