"""How probably the births release is accepted at each total epsilon, and what its tables cost outside the criteria.

Run ``python -m benchmarks.releases.release_frontier --candidates 40 --write`` beside a folder with the benchmark tables, or name
a file of births with ``--source``. Each candidate is made as `understudy release` makes it from the shipped
specification, with all parts of the budget scaled alike; instead of drawing the noise of the acceptance test, its exact
probability is averaged. The table must be public: exact errors are printed. Without ``--source`` and without the
sample a simulated registry is used.

``--example low`` takes ``examples/births/low.yaml`` instead.
``--variants bootstrap older larger preterm term simulated`` measures the shipped specification on other tables instead:
each candidate gets a table of its own, resampled from the source with other shares of some groups.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from joblib import Parallel, delayed

from understudy.data import LocalTable
from understudy.datasets import births
from understudy.privacy import SeededRandomness
from understudy.release import RecordTypes
from understudy.release.rehearsal.trial import _attempted
from understudy.release.rehearsal.work import public_table
from understudy.release.spec.spec import Spec

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "births"
SAMPLE = ROOT.parent / "shared" / "data" / "natality" / "birth_2019_nber_us_SINGLETON_SAMPLE160K.csv.gz"
RESULTS = ROOT / "docs" / "assets"
TOTALS = (0.3, 0.5, 0.8, 1.0, 1.2, 2.0)
VARIANTS = ("same", "bootstrap", "half", "older", "larger", "preterm", "term", "simulated")


def specification(total: float, *, privbayes: Mapping[str, Any] | None = None, example: str = "spec") -> Spec:
    """Return a shipped specification with its budget scaled, or with PrivBayes for a model."""
    plain = yaml.safe_load((EXAMPLE / f"{example}.yaml").read_text(encoding="utf-8"))
    factor = total / plain["budget"]["total"]["epsilon"]
    plain["acceptance"]["epsilon"] = round(plain["acceptance"]["epsilon"] * factor, 6)
    plain["public"]["row_count"]["epsilon"] = round(plain["public"]["row_count"]["epsilon"] * factor, 6)
    plain["budget"]["model"]["epsilon"] = round(plain["budget"]["model"]["epsilon"] * factor, 6)
    plain["budget"]["total"]["epsilon"] = round(total + 1e-6, 6)
    if privbayes is not None:
        plain["synthesizers"] = [{"method": "privbayes", "options": dict(privbayes)}]
        plain["budget"]["total"]["epsilon"] = round(total - plain["budget"]["model"]["epsilon"] + 4.0, 6)
        plain["budget"]["model"]["epsilon"] = 4.0
    return Spec.from_dict(plain, where=EXAMPLE)


def distance(real: RecordTypes, candidate: RecordTypes, order: int) -> float:
    """Return the average total variation distance of all tables over ``order`` columns."""
    return float(
        np.mean(
            [
                np.abs(real.marginal(q) / real.rows - candidate.marginal(q) / candidate.rows).sum() / 2
                for q in combinations(real.domain.names, order)
            ]
        )
    )


def trial(spec: Spec, table: LocalTable, seed: int) -> dict[str, Any]:
    """Make one candidate and compare it with the public table."""
    start = time.process_time()
    (attempt,) = _attempted(spec, spec.configurations[0], table, SeededRandomness(seed), seed)
    judged = attempt.judged()
    return {
        "probability": judged["probability"],
        "slack": judged["slack"],
        "closest": judged["closest"],
        "pairs": distance(attempt.real, attempt.candidate.types, 2),
        "triples": distance(attempt.real, attempt.candidate.types, 3),
        "seconds": time.process_time() - start,
    }


def variant(table: LocalTable, name: str, seed: int) -> LocalTable:
    """Return another table of births: the source resampled with other shares of some groups, or simulated births.

    Codes are those of the shipped schema: later codes of age, parity and gestation are older mothers, more children and
    longer pregnancies.
    """
    if name == "same":
        return table
    if name == "simulated":
        spec = specification(1.2)
        return public_table(spec, spec.configurations[0], births(160_000, seed=1 + seed % 3))
    names = table.schema.names
    codes = {column: np.concatenate([chunk[column] for chunk in table.chunks(names)]) for column in names}
    rows = table.exact_row_count()
    early = codes["gestation_week"] < 4
    weight = {
        "bootstrap": np.ones(rows),
        "half": np.ones(rows),
        "older": np.exp(0.25 * codes["mother_age"]),
        "larger": np.exp(0.5 * codes["parity"]),
        "preterm": np.where(early, 1.7, 1.0) * np.exp(-0.02 * codes["birth_weight"]),
        "term": np.where(early, 0.6, 1.0) * np.exp(0.02 * codes["birth_weight"]),
    }[name]
    generator = np.random.default_rng([seed, 99])
    size, again = (rows // 2, False) if name == "half" else (rows, True)
    chosen = generator.choice(rows, size, replace=again, p=weight / weight.sum())
    return LocalTable(table.schema, {column: values[chosen] for column, values in codes.items()})


def summary(trials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Average the trials; the deviation is that of the average."""
    chances = np.array([item["probability"] for item in trials])
    slacks = np.array([item["slack"] for item in trials])
    return {
        "candidates": len(trials),
        "acceptance": round(float(chances.mean()), 4),
        "deviation": round(float(chances.std(ddof=1) / len(chances) ** 0.5), 4) if len(chances) > 1 else None,
        "all_criteria_met": round(float((slacks > 0).mean()), 4),
        "median_slack": round(float(np.median(slacks)), 1),
        "closest": {
            name: sum(item["closest"] == name for item in trials)
            for name in sorted({item["closest"] for item in trials})
        },
        "error_2way": round(float(np.mean([item["pairs"] for item in trials])), 5),
        "error_3way": round(float(np.mean([item["triples"] for item in trials])), 5),
        "seconds": round(float(np.median([item["seconds"] for item in trials])), 2),
    }


def chart(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Draw epsilon (logarithmic) against the probability of acceptance."""
    width, height, left, bottom = 640, 360, 64, 48
    low, high = np.log(0.25), np.log(11.0)

    def x(epsilon: float) -> float:
        return left + (width - left - 24) * (np.log(epsilon) - low) / (high - low)

    def y(share: float) -> float:
        return height - bottom - (height - bottom - 40) * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        "<title>Acceptance of a births release against its total epsilon</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="22" font-size="14">All eight criteria of Table 2 met and certified: probability by total epsilon</text>',
    ]
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts.append(
            f'<line x1="{left}" y1="{y(share):.1f}" x2="{width - 24}" y2="{y(share):.1f}" stroke="#ddd"/>'
            f'<text x="{left - 8}" y="{y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    for epsilon in (0.3, 0.5, 0.8, 1.2, 2.0, 5.0, 9.98):
        parts.append(
            f'<text x="{x(epsilon):.1f}" y="{height - bottom + 18}" text-anchor="middle">{epsilon:g}</text>'
        )
    points = [(float(total), item["acceptance"], item["deviation"] or 0.0) for total, item in found.items()]
    line = " ".join(f"{x(e):.1f},{y(a):.1f}" for e, a, _ in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f6fb2" stroke-width="2"/>')
    for epsilon, share, deviation in points:
        top, end = y(min(1.0, share + 2 * deviation)), y(max(0.0, share - 2 * deviation))
        parts.append(
            f'<line x1="{x(epsilon):.1f}" y1="{top:.1f}" x2="{x(epsilon):.1f}" y2="{end:.1f}" stroke="#1f6fb2"/>'
            f'<circle cx="{x(epsilon):.1f}" cy="{y(share):.1f}" r="4" fill="#1f6fb2"/>'
        )
    parts.append(
        f'<line x1="{x(9.98):.1f}" y1="{y(0):.1f}" x2="{x(9.98):.1f}" y2="{y(1):.1f}" stroke="#b23" stroke-dasharray="4 4"/>'
        f'<text x="{x(9.98) - 6:.1f}" y="{y(0.5):.1f}" text-anchor="end" fill="#b23">the paper spent 9.98</text>'
        f'<text x="{(left + width) / 2:.0f}" y="{height - 10}" text-anchor="middle">total epsilon (pure)</text></svg>'
    )
    return "\n".join(parts) + "\n"


def main() -> None:
    """Run the grid and print it; write the results and the chart if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, help="a public file of births")
    parser.add_argument("--candidates", type=int, default=4)
    parser.add_argument(
        "--example", choices=("spec", "low"), default="spec", help="a file of examples/births"
    )
    parser.add_argument("--totals", type=float, nargs="*", default=list(TOTALS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write docs/assets/release-frontier.{json,svg}")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, help="measure other tables instead")
    options = parser.parse_args()
    source = options.source or (SAMPLE if SAMPLE.exists() else None)
    first = specification(1.2)
    table = public_table(
        first, first.configurations[0], source if source is not None else births(160_000, seed=1)
    )
    print(f"{source.name if source else 'simulated births'}: {table.exact_row_count():,} rows after cleaning")

    for name in options.variants or ():
        tried = (
            delayed(trial)(first, variant(table, name, options.seed + index), options.seed + index)
            for index in range(options.candidates)
        )
        print(f"{name}:", json.dumps(summary(Parallel(n_jobs=options.jobs)(tried))), flush=True)
    if options.variants:
        return

    def grid(spec: Spec, candidates: int) -> dict[str, Any]:
        work = (delayed(trial)(spec, table, options.seed + index) for index in range(candidates))
        return summary(Parallel(n_jobs=options.jobs)(work))

    found = {}
    for total in options.totals:
        found[f"{total:g}"] = grid(specification(total, example=options.example), options.candidates)
        print(f"total epsilon {total:g}:", json.dumps(found[f"{total:g}"]), flush=True)
    if options.example != "spec":
        return
    few = min(8, options.candidates)
    others = {
        "privbayes, degree 2, as in the paper": {"flavour": "degree", "degree": 2},
        "privbayes, defaults": {},
    }
    price = {name: grid(specification(1.2, privbayes=chosen), few) for name, chosen in others.items()}
    for name, item in price.items():
        print(f"{name}, epsilon 4:", json.dumps(item), flush=True)
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        content = {
            "table": source.name if source else "simulated births",
            "rows": table.exact_row_count(),
            "by_total_epsilon": found,
            "privbayes_epsilon_4": price,
        }
        (RESULTS / "release-frontier.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "release-frontier.svg").write_text(chart(found), encoding="utf-8")


if __name__ == "__main__":
    main()
