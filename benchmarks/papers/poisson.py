"""Figures 1 to 3 of paper Poisson on the simulated school census, as data and charts.

``python -m benchmarks.papers.poisson`` uses a million pupils; ``--full`` the paper's eight million. Writes ``poisson.json`` and three charts to
``--out``. The census is simulated, so it is read without noise to compute percentage differences.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.data import read_table
from understudy.datasets import school_census, school_census_schema
from understudy.privacy import Laplace, SeededRandomness, Unit
from understudy.privacy.count_models.divergence import probabilistic_delta, true_delta
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.count_models.solving import draw_counts
from understudy.report.lines import LinePanel, line_chart

ROW = Unit.add_remove()
ALPHAS = (0.1, 0.2, 0.5, 1.0)
FIGURE_1 = tuple(float(x) for x in np.round(np.geomspace(0.02, 2.0, 81), 4))
FIGURE_2 = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0)
COUNTS = tuple(range(1, 11))

Counts = npt.NDArray[np.int64]


def figure_1(epsilons: Sequence[float] = (1.5, 3.0)) -> list[dict[str, float]]:
    """Delta against alpha, in the paper's notion and true."""
    return [
        {
            "epsilon": epsilon,
            "alpha": alpha,
            "probabilistic": probabilistic_delta(CountLaw("poisson", alpha), epsilon),
            "true": true_delta(CountLaw("poisson", alpha), epsilon, ROW),
        }
        for epsilon in epsilons
        for alpha in FIGURE_1
    ]


def figure_2() -> list[dict[str, float]]:
    """Pairs of epsilon and delta that each pseudocount reaches."""
    return [
        {
            "alpha": alpha,
            "epsilon": epsilon,
            "probabilistic": probabilistic_delta(CountLaw("poisson", alpha), epsilon),
            "true": true_delta(CountLaw("poisson", alpha), epsilon, ROW),
            "true_replace_one": true_delta(CountLaw("poisson", alpha), epsilon, Unit.replace_one()),
        }
        for alpha in ALPHAS
        for epsilon in FIGURE_2
    ]


def figure_3(counts: Counts, *, seed: int) -> list[dict[str, float | str]]:
    """Quartiles of percentage differences between synthetic and original counts, by original count."""
    source = SeededRandomness(seed)
    made: dict[str, Counts] = {
        f"alpha={alpha:g}": draw_counts(CountLaw("poisson", alpha), counts, source) for alpha in ALPHAS
    }
    for epsilon in (1.0, 3.0):
        noisy = counts + Laplace(1 / epsilon).draw(counts.shape, source)
        made[f"laplace epsilon={epsilon:g}"] = np.maximum(noisy, 0)
    rows: list[dict[str, float | str]] = []
    for name, synthetic in made.items():
        for count in COUNTS:
            change = 100 * (synthetic[counts == count] / count - 1)
            low, first, median, third, high = np.quantile(change, [0.05, 0.25, 0.5, 0.75, 0.95])
            rows.append(
                {
                    "mechanism": name,
                    "count": count,
                    "cells": int(change.size),
                    "q05": float(low),
                    "q25": float(first),
                    "median": float(median),
                    "q75": float(third),
                    "q95": float(high),
                    "mean_absolute": float(np.abs(change).mean()),
                }
            )
    return rows


def statements() -> list[dict[str, Any]]:
    """What the paper says in words, and what comes out here."""

    def probabilistic(alpha: float, epsilon: float) -> float:
        return probabilistic_delta(CountLaw("poisson", alpha), epsilon)

    def true(alpha: float, epsilon: float) -> float:
        return true_delta(CountLaw("poisson", alpha), epsilon, ROW)

    rows = [
        ("alpha=.1 gives (3, .3)", 0.3, probabilistic(0.1, 3.0), true(0.1, 3.0)),
        ("alpha=.1 gives (1.5, .6)", 0.6, probabilistic(0.1, 1.5), true(0.1, 1.5)),
        ("epsilon=2 needs alpha=1 for delta=.05", 0.05, probabilistic(1.0, 2.0), true(1.0, 2.0)),
    ]
    reached = [epsilon for epsilon in np.arange(1, 12, 0.05) if probabilistic(0.1, float(epsilon)) <= 0.05]
    found: list[dict[str, Any]] = [
        {
            "statement": text,
            "paper": paper,
            "probabilistic": ours,
            "true": exact,
            "agrees": abs(paper - ours) < 0.01,
        }
        for text, paper, ours, exact in rows
    ]
    found.append(
        {
            "statement": "alpha=.1 reaches delta=.05 only for epsilon above 6",
            "paper": 6.0,
            "probabilistic": round(float(reached[0]), 2),
            "true": None,
            "agrees": bool(reached[0] > 6),
        }
    )
    values = [row["probabilistic"] for row in figure_1((1.5,))]
    found.append(
        {
            "statement": "delta is not a decreasing function of alpha",
            "paper": True,
            "probabilistic": bool((np.diff(values) > 0).any()),
            "true": bool((np.diff([row["true"] for row in figure_1((1.5,))]) > 1e-12).any()),
            "agrees": bool((np.diff(values) > 0).any()),
        }
    )
    return found


# -------------------------------------------------------------------------------------------- charts


def chart_1(rows: Sequence[dict[str, float]]) -> str:
    """Draw figure 1: one panel per epsilon."""
    panels = []
    for epsilon in sorted({row["epsilon"] for row in rows}):
        here = [row for row in rows if row["epsilon"] == epsilon][::8]
        series = {
            notion: [(row["alpha"], row[notion], row[notion], row[notion]) for row in here]
            for notion in ("probabilistic", "true")
        }
        panels.append(LinePanel(f"epsilon = {epsilon:g}", series))
    return line_chart(
        "Delta of the Poisson mechanism by pseudocount", panels, x_label="alpha", y_label="delta"
    )


def chart_2(rows: Sequence[dict[str, float]]) -> str:
    """Draw figure 2: one panel per notion, one line per pseudocount."""
    panels = []
    for notion in ("probabilistic", "true", "true_replace_one"):
        series = {
            f"alpha={alpha:g}": [
                (row["epsilon"], row[notion], row[notion], row[notion])
                for row in rows
                if row["alpha"] == alpha
            ]
            for alpha in ALPHAS
        }
        panels.append(LinePanel(notion.replace("_", ", "), series))
    return line_chart("Pairs of epsilon and delta by pseudocount", panels, x_label="epsilon", y_label="delta")


def chart_3(rows: Sequence[dict[str, Any]]) -> str:
    """Draw figure 3: boxes from quartile to quartile with whiskers to the 5 % and 95 % quantiles."""
    names = list(dict.fromkeys(str(row["mechanism"]) for row in rows))
    width, height, gap, across, low, high = 300, 220, 26, 3, -100.0, 300.0
    lines = -(-len(names) // across)
    full_width, full_height = across * (width + gap) + gap, 76 + lines * (height + gap)
    title = "Percentage differences between synthetic and original counts"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width} {full_height}" width="{full_width}" '
        f'height="{full_height}" role="img" aria-label="{title}" font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{full_width}" height="{full_height}" fill="#ffffff"/>',
        f'<text x="{gap}" y="28" font-size="17" font-weight="600" fill="#1d2430">{title}</text>',
        f'<text x="{gap}" y="46" fill="#5a6472">across: original count 1 to 10; up: percent</text>',
    ]
    for index, name in enumerate(names):
        left, top = gap + (index % across) * (width + gap), 60 + (index // across) * (height + gap)
        parts.append(
            f'<text x="{left}" y="{top + 14}" font-size="13" font-weight="600">{escape(name)}</text>'
        )

        def up(value: float, top: float = top) -> float:
            return top + 24 + (height - 50) * (high - min(max(value, low), high)) / (high - low)

        for tick in (-100, 0, 100, 200, 300):
            parts.append(
                f'<line x1="{left + 34}" x2="{left + width}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" stroke="#e3e6ea"/>'
                f'<text x="{left + 30}" y="{up(tick) + 4:.1f}" text-anchor="end" fill="#5a6472">{tick}</text>'
            )
        for row in rows:
            if row["mechanism"] != name:
                continue
            x = left + 44 + (int(row["count"]) - 1) * 26
            parts.append(
                f'<line x1="{x}" x2="{x}" y1="{up(row["q05"]):.1f}" y2="{up(row["q95"]):.1f}" stroke="#5a6472"/>'
                f'<rect x="{x - 8}" y="{up(row["q75"]):.1f}" width="16" '
                f'height="{max(1.0, up(row["q25"]) - up(row["q75"])):.1f}" fill="#0b6e99" fill-opacity="0.55"/>'
                f'<line x1="{x - 8}" x2="{x + 8}" y1="{up(row["median"]):.1f}" y2="{up(row["median"]):.1f}" '
                'stroke="#1d2430" stroke-width="2"/>'
            )
    parts.append("</svg>")
    return "\n".join(parts)


def run(*, out: Path, rows: int, seed: int = 0, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Compute all three figures and write them."""
    out.mkdir(parents=True, exist_ok=True)
    schema = school_census_schema()
    say(f"Simulating a school census of {rows:,} pupils.")
    counts = read_table(school_census(rows, seed=seed), schema).count(schema.names).ravel().astype(np.int64)
    start = time.process_time()
    result: dict[str, Any] = {
        "rows": rows,
        "cells": int(counts.size),
        "empty_cells": int((counts == 0).sum()),
        "figure_1": figure_1(),
        "figure_2": figure_2(),
        "figure_3": figure_3(counts, seed=seed),
        "statements": statements(),
    }
    result["seconds"] = round(time.process_time() - start, 2)
    (out / "poisson.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    for number, chart in enumerate((chart_1, chart_2, chart_3), start=1):
        (out / f"figure_{number}.svg").write_text(chart(result[f"figure_{number}"]), encoding="utf-8")
    for row in result["statements"]:
        say(f"{row['statement']}: paper {row['paper']}, here {row['probabilistic']} (true {row['true']})")
    for row in result["figure_3"]:
        if row["count"] in (1, 5, 10):
            say(
                f"{row['mechanism']}, count {row['count']}: quartiles {row['q25']:.0f} / {row['median']:.0f} / "
                f"{row['q75']:.0f} %, mean absolute {row['mean_absolute']:.0f} %"
            )
    say(f"Wrote {out}; {result['seconds']} CPU seconds after the simulation.")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="eight million pupils instead of one")
    parser.add_argument("--out", type=Path, default=Path(".benchmarks/poisson"))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    run(out=chosen.out, rows=8_000_000 if chosen.full else 1_000_000, seed=chosen.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
