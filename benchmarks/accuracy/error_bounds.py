"""How tight and how often true: error bounds of AIM on one table, beside the bounds as published.

Run ``python benchmarks/accuracy/error_bounds.py`` for a quick look (one run per epsilon), with ``--runs 20`` for the
numbers in the documentation. Each run fits AIM with fresh noise, asks for 95 % bounds on every workload
marginal, and compares them with the exact errors, which only a benchmark may see. Three columns, all from one
fit that spends a hundredth of its budget on measuring its own errors: the bounds as printed in paper AIM
(section 5) and ours, both without looking at those, and ours with them.

Results are appended to a file of JSON lines, one line per run, so that an interrupted benchmark goes on where
it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.inference import Uncertainty, answer_each, supported_bound, unsupported_bound
from understudy.marginals import all_kway
from understudy.mechanisms import Model, create
from understudy.privacy import ApproxDP, Ledger, Unit
from understudy.schema import Clique, import_schema

SHARED = Path(__file__).parents[3] / "shared" / "data"
PUBLISHED = {"supported": 4.4, "unsupported": 8.3}
BETA = 0.05
CERTIFY = 0.01


def table(folder: str, data: str, domain: str, *, rows: int | None) -> LocalTable:
    """Read an integer-coded table with a domain file."""
    schema = import_schema(SHARED / folder / domain)
    frame = pd.read_csv(SHARED / folder / data, usecols=list(schema.names), nrows=rows)
    return LocalTable(schema, schema.encode_frame(frame))


def published(model: Model, answers: dict[tuple[str, ...], np.ndarray]) -> list[float]:
    """Bounds as printed, for the model itself, in rows."""
    evidence = model.uncertainty.evidence
    assert model.history is not None
    standings = {item.clique: item for item in model.history.standings}
    bounds = []
    for clique, answer in answers.items():
        if evidence.supports(clique):
            bounds.append(supported_bound(evidence, clique, answer, beta=BETA))
        elif clique in standings:
            standing = standings[clique]
            step = model.rounds[standing.round]
            bounds.append(unsupported_bound(step, standing, cells=answer.size, beta=BETA))
        else:
            bounds.append(np.inf)
    return [min(bound, 2 * model.total) for bound in bounds]


def one_run(
    data: LocalTable, exact: dict[tuple[str, ...], np.ndarray], epsilon: float, model_mb: float
) -> dict[str, Any]:
    """Fit once; bound the errors with and without looking at the certificate. Shares of the rows."""
    budget, unit = ApproxDP(epsilon, 1e-9), Unit.add_remove()
    n = data.exact_row_count()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="benchmark")
    start = time.process_time()
    model = create("aim", certify=CERTIFY, max_model_mb=model_mb).fit(
        Curator(data, unit=unit, ledger=ledger), budget
    )
    fitted = time.process_time()
    assert model.history is not None
    answers = answer_each(model.marginals, list(exact))  # a few may be too large for the model
    answered = time.process_time()

    def remembered(cliques: Sequence[Clique]) -> list[np.ndarray]:
        """The model's answers, computed once: asking again would give the same tables."""
        return [answers[item] if item in answers else model.marginal(item) for item in cliques]

    evidence = model.uncertainty.evidence
    plain = replace(evidence, history=replace(model.history, certificate=None))
    free = Uncertainty(plain, remembered).error_bounds(list(answers), confidence=1 - BETA)
    bounded = time.process_time()
    certified = Uncertainty(evidence, remembered).error_bounds(list(answers), confidence=1 - BETA)
    return {
        "epsilon": epsilon,
        "model_mb": model_mb,
        "rounds": len(model.rounds),
        "fit_seconds": fitted - start,
        "answer_seconds": answered - fitted,
        "bound_seconds": bounded - answered,
        "cells": [table.size for table in answers.values()],
        "kind": free["kind"].tolist(),
        "basis": free["basis"].tolist(),
        "error": [float(np.abs(exact[item] - table).sum()) / n for item, table in answers.items()],
        "published": [bound / n for bound in published(model, answers)],
        "free": free["bound"].tolist(),
        "certified": certified["bound"].tolist(),
    }


def summary(runs: list[dict[str, Any]]) -> None:
    """Print median ratios and coverage."""
    columns = ("published", "free", "certified")
    heads = ("as published", "ours", "ours, certified")
    print(
        f"\n{'epsilon':>8} {'marginals':12} {'number':>6} {'error':>7}",
        *(f"{head:>16}" for head in heads),
        "  paper",
    )
    for epsilon in sorted({run["epsilon"] for run in runs}):
        mine = [run for run in runs if run["epsilon"] == epsilon]
        rows = pd.concat(
            [pd.DataFrame({k: v for k, v in run.items() if isinstance(v, list)}) for run in mine]
        )
        for kind in ("supported", "unsupported", "all"):
            part = rows if kind == "all" else rows[rows["kind"] == kind]
            cells = [
                f"{(part[name] / part['error'].clip(lower=1e-12)).median():8.2f}"
                f" ({(part[name] >= part['error']).mean():.3f})"
                for name in columns
            ]
            print(
                f"{epsilon:8g} {kind:12} {len(part) / len(mine):6.0f} {part['error'].median():7.4f}",
                *(f"{cell:>16}" for cell in cells),
                f"{PUBLISHED.get(kind, ''):>7}",
            )
        fit, bound = (np.mean([run[key] for run in mine]) for key in ("fit_seconds", "bound_seconds"))
        print(
            f"{'':8} {len(mine)} runs, {np.mean([run['rounds'] for run in mine]):.0f} rounds;"
            f" {fit:.0f} s of CPU to fit, {bound:.1f} s for all bounds"
        )
    print(
        "\nMedian ratio of bound to true error, and in parentheses the share of marginals covered (nominal .95)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1, help="fits per epsilon")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--model-mb", type=float, default=80.0, help="largest model; small ones are faster")
    parser.add_argument("--rows", type=int, default=None, help="use only the first rows of the table")
    parser.add_argument("--out", type=Path, default=None, help="JSON lines to append to and resume from")
    options = parser.parse_args()
    data = table("fire", "fire.csv.gz", "fire-aim15-domain.json", rows=options.rows)
    workload = all_kway(data.schema.domain, 3)
    exact = {
        clique: counts.astype(float)
        for clique, counts in zip(workload.cliques, data.count_many(list(workload.cliques)), strict=True)
    }
    runs: list[dict[str, Any]] = []
    if options.out and options.out.exists():
        lines = options.out.read_text(encoding="utf-8").splitlines()
        runs = [run for run in map(json.loads, lines) if run["model_mb"] == options.model_mb]
    for epsilon in options.epsilon:
        done = sum(run["epsilon"] == epsilon for run in runs)
        for number in range(done, options.runs):
            runs.append(one_run(data, exact, epsilon, options.model_mb))
            if options.out:
                with options.out.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(runs[-1]) + "\n")
            print(f"epsilon {epsilon:g}: run {number + 1} of {options.runs}", flush=True)
    summary([run for run in runs if run["epsilon"] in options.epsilon])


if __name__ == "__main__":
    main()
