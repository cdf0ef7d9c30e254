"""Tables, charts and data of the figures of paper AIM."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

from understudy.report.charts import sheet
from understudy.report.lines import LinePanel, line_chart

Record = dict[str, Any]
Place = tuple[str, str, float]
COLUMNS = ("table", "workload", "method", "epsilon", "seed", "error", "cpu_seconds", "outcome")
AWARE = ("aim", "mwem-pgm", "rap, published", "gem, published")
"""The mechanisms of the paper that look at the workload."""
PAPER_RATIOS: dict[tuple[str, str], tuple[float, float]] = {
    ("all-3way", "privmrf"): (1.3, 3.6),
    ("all-3way", "mst"): (2.6, 118.0),
    ("all-3way", "mwem-pgm"): (1.5, 16.0),
    ("all-3way", "privbayes-pgm"): (2.2, 14.7),
    ("all-3way", "rap, published"): (5.6, 47.1),
    ("all-3way", "gem, published"): (2.0, 11.7),
    ("target", "privmrf"): (1.4, 4.6),
    ("skewed", "privmrf"): (2.0, 5.7),
}
"""By how much AIM's error is smaller: on average and at most, as section 6.2 of the paper says."""
PAPER_ELEMENTS = {"A1": 1.03, "A2": 1.37, "A3": 1.48, "B1": 1.18, "B2": 1.13, "B3": 1.08, "O1": 2.36}
"""By how much each element lowers the error on average, as section 6.3 of the paper says."""
ELEMENT_NAMES = {
    "A1": "columns first; without: from a uniform start",
    "A2": "score by expected gain; without: that of MWEM+PGM",
    "A3": "adaptive rounds and prices; without: two measurements per column at one price",
    "B1": "Gaussian noise; without: Laplace noise",
    "B1, zCDP": "the same in the accounting of the paper",
    "B2": "a record added or removed; without: replaced",
    "B3": "a tenth for choosing; without: half",
    "O1": "a graphical model; without: relaxed projection",
}


def outcome(record: Record) -> str:
    """Say in a few words how a run went."""
    if record["status"] == "timeout":
        return f"did not finish in {record['timeout']:g} s"
    if record["status"] == "ok":
        return "ok"
    return f"{record['status']}: {record.get('message', '')}".split(". ")[0]


def write_data(records: Sequence[Record], folder: Path, name: str) -> None:
    """Write one line per run."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for record in sorted(records, key=_order):
            good = record["status"] == "ok"
            writer.writerow(
                [
                    record["table"],
                    record["workload"],
                    record["form"],
                    f"{record['epsilon']:g}",
                    record["seed"],
                    f"{record['error']:.5g}" if good else "",
                    f"{record['cpu_seconds']:.1f}" if good else "",
                    outcome(record),
                ]
            )


def _order(record: Record) -> tuple[Any, ...]:
    return record["table"], record["workload"], record["form"], record["epsilon"], record["seed"]


def mean_errors(records: Iterable[Record]) -> dict[str, dict[Place, float]]:
    """Return the mean error over seeds by form, and by table, workload and epsilon, where there is one."""
    found: dict[str, dict[Place, list[float]]] = {}
    for record in records:
        if record["status"] == "ok":
            place = (record["table"], record["workload"], record["epsilon"])
            found.setdefault(record["form"], {}).setdefault(place, []).append(record["error"])
    return {form: {place: fmean(errors) for place, errors in some.items()} for form, some in found.items()}


def ratios(errors: Mapping[str, Mapping[Place, float]], form: str, base: str) -> dict[Place, float]:
    """Return how many times the error of ``base`` that of a form is, where both are known."""
    known = errors.get(base, {})
    return {
        place: error / known[place]
        for place, error in errors.get(form, {}).items()
        if known.get(place, 0) > 0
    }


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean; of nothing it is no number."""
    logs = [math.log(value) for value in values]
    return math.exp(fmean(logs)) if logs else math.nan


def counts(records: Sequence[Record], planned: int) -> str:
    """Say how many runs of those planned there are and how they went."""
    ways: dict[str, int] = {}
    for record in records:
        status_text = "did not finish" if record["status"] == "timeout" else record["status"]
        ways[status_text] = ways.get(status_text, 0) + 1
    printed = ", ".join(
        f"{number:,} {status_text}" for status_text, number in sorted(ways.items(), key=lambda x: -x[1])
    )
    return f"{len(records):,} of {planned:,} runs: {printed}."


# ------------------------------------------------------------------------------------------ Figure 1


def figure_one(records: Sequence[Record], *, planned: int, assets: Path) -> str:
    """Draw Figure 1, one chart per workload, and return its tables."""
    workloads = list(dict.fromkeys(record["workload"] for record in records))
    assets.mkdir(parents=True, exist_ok=True)
    for workload in workloads:
        chart = _error_chart([record for record in records if record["workload"] == workload], workload)
        (assets / f"aim-figure1-{workload}.svg").write_text(chart, encoding="utf-8")
    parts = [
        counts(records, planned),
        "",
        "How many times AIM's error another mechanism has: geometric mean and largest over the settings (table and epsilon)",
        "where both have a number; in brackets how many. Empty where the paper's text has no number.",
        "",
        *_ratio_table(records),
        "",
        *_best_table(records),
        "",
        "Workload error by epsilon: means over seeds. `slow` did not finish in its time, or a smaller epsilon did not;",
        "`refused` would need a table or model that is too large; `-` was not run.",
    ]
    for workload in workloads:
        for table in dict.fromkeys(record["table"] for record in records if record["workload"] == workload):
            some = [r for r in records if r["table"] == table and r["workload"] == workload]
            parts += ["", f"{table}, {workload}", "", *_error_table(some)]
    return "\n".join(parts)


def _ratio_table(records: Sequence[Record]) -> list[str]:
    errors = mean_errors(records)
    workloads = list(dict.fromkeys(record["workload"] for record in records))
    heads = [f"{workload} {what}" for workload in workloads for what in ("ours", "paper")]
    lines = [f"| mechanism | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for form in dict.fromkeys(record["form"] for record in records):
        if form == "aim":
            continue
        cells = []
        for workload in workloads:
            found = [ratio for place, ratio in ratios(errors, form, "aim").items() if place[1] == workload]
            ours = f"{geometric_mean(found):.2f}, {max(found):.1f} ({len(found)})" if found else ""
            printed = PAPER_RATIOS.get((workload, form))
            cells += [ours, f"{printed[0]:g}, {printed[1]:g}" if printed else ""]
        lines.append(f"| {form} | {' | '.join(cells)} |")
    return lines


def _best_table(records: Sequence[Record]) -> list[str]:
    """Say how often each mechanism that looks at the workload is the best of them, in the forms of the paper."""
    errors = mean_errors(records)
    lines = [
        "Share of settings in which a mechanism that looks at the workload is the best of them (RAP and GEM in their",
        "published forms; settings where all have a number). The paper, all-3way: AIM 76 %, MWEM+PGM 18 %, GEM 5 %, RAP 0 %;",
        "AIM 100 % from epsilon 1 on.",
        "",
        "| workload | settings | aim | mwem-pgm | gem, published | rap, published | settings from epsilon 1 | aim |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for workload in dict.fromkeys(record["workload"] for record in records):
        shared = [
            place
            for place in errors.get("aim", {})
            if place[1] == workload and all(place in errors.get(form, {}) for form in AWARE)
        ]
        best = [min(AWARE, key=lambda form: errors[form][place]) for place in shared]
        large = [form for form, place in zip(best, shared, strict=True) if place[2] >= 1]
        cells = [str(len(shared))]
        cells += [
            _percent(best.count(form), len(best))
            for form in ("aim", "mwem-pgm", "gem, published", "rap, published")
        ]
        cells += [str(len(large)), _percent(large.count("aim"), len(large))]
        lines.append(f"| {workload} | {' | '.join(cells)} |")
    return lines


def _percent(number: int, of: int) -> str:
    return f"{100 * number / of:.0f} %" if of else ""


def _error_table(records: Sequence[Record]) -> list[str]:
    """One row per form, one column per epsilon."""
    epsilons = sorted({record["epsilon"] for record in records})
    lines = [f"| mechanism | {' | '.join(f'{e:g}' for e in epsilons)} |", "|---" * (len(epsilons) + 1) + "|"]
    for form in dict.fromkeys(record["form"] for record in records):
        cells = []
        for epsilon in epsilons:
            items = [r for r in records if r["form"] == form and r["epsilon"] == epsilon]
            good = [item["error"] for item in items if item["status"] == "ok"]
            if good:
                cells.append(f"{fmean(good):.4f}")
            else:
                status = str(items[-1]["status"]) if items else "-"
                cells.append({"timeout": "slow", "not tried": "slow"}.get(status, status))
        lines.append(f"| {form} | {' | '.join(cells)} |")
    return lines


def _error_chart(records: Sequence[Record], workload: str) -> str:
    panels = []
    for table in dict.fromkeys(record["table"] for record in records):
        series: dict[str, list[tuple[float, float, float, float]]] = {}
        missing: dict[str, list[float]] = {}
        groups: dict[tuple[str, float], list[Record]] = {}
        for record in records:
            if record["table"] == table:
                groups.setdefault((record["form"], record["epsilon"]), []).append(record)
        for (form, epsilon), items in groups.items():
            errors = [item["error"] for item in items if item["status"] == "ok" and item["error"] > 0]
            if errors:
                series.setdefault(form, []).append((epsilon, min(errors), fmean(errors), max(errors)))
            else:
                missing.setdefault(form, []).append(epsilon)
        panels.append(LinePanel(table, series, missing))
    return line_chart(
        f"Workload {workload}: error by epsilon",
        panels,
        x_label="epsilon",
        y_label="workload error (lowest, mean, highest seed); crosses: refused or not finished in time",
    )


# ------------------------------------------------------------------------------------------ Figure 2


def element_ratios(records: Sequence[Record]) -> dict[str, dict[Place, float]]:
    """Return how many times the error AIM has without each element, by setting."""
    errors = mean_errors(records)
    forms = dict.fromkeys(record["form"] for record in records)
    found = {form: ratios(errors, form, base_of(form)) for form in forms if form in ELEMENT_NAMES}
    return {form: some for form, some in sorted(found.items()) if some}


def base_of(form: str) -> str:
    """Return the name of AIM with all elements in the same accounting."""
    return "aim, zCDP" if form.endswith("zCDP") else "aim"


def figure_two(records: Sequence[Record], *, planned: int, assets: Path) -> str:
    """Draw Figure 2a and return its numbers."""
    assets.mkdir(parents=True, exist_ok=True)
    found = element_ratios(records)
    (assets / "aim-figure2.svg").write_text(_box_chart(found), encoding="utf-8")
    epsilons = sorted({record["epsilon"] for record in records})
    parts = [
        counts(records, planned),
        "",
        "How many times the error of AIM it is without an element: geometric mean over settings (table, workload, epsilon), quartiles,",
        "smallest and largest; then the geometric mean at each epsilon. Above 1 the element lowers the error.",
        "",
        "| element | what | paper's mean | mean | settings | smallest | quarter | half | three quarters | largest |",
        "|---" * 10 + "|",
    ]
    for form, some in found.items():
        values = sorted(some.values())
        low, middle, high = quartiles(values)
        printed = PAPER_ELEMENTS.get(form.partition(",")[0])
        numbers = " | ".join(f"{value:.2f}" for value in (values[0], low, middle, high, values[-1]))
        parts.append(
            f"| {form} | {ELEMENT_NAMES[form]} | {printed:g} | {geometric_mean(values):.2f} | {len(values)} | {numbers} |"
        )
    parts += [
        "",
        f"| element | {' | '.join(f'{e:g}' for e in epsilons)} |",
        "|---" * (len(epsilons) + 1) + "|",
    ]
    for form, some in found.items():
        cells = []
        for epsilon in epsilons:
            values = [ratio for place, ratio in some.items() if place[2] == epsilon]
            cells.append(f"{geometric_mean(values):.2f} ({len(values)})" if values else "-")
        parts.append(f"| {form} | {' | '.join(cells)} |")
    for table, workload in dict.fromkeys((record["table"], record["workload"]) for record in records):
        here = [r for r in records if r["table"] == table and r["workload"] == workload]
        parts += ["", f"{table}, {workload}", "", *_error_table(here)]
    return "\n".join(parts)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the quartiles of some numbers, or the number itself if there is but one.

    Examples
    --------
    >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0])
    (2.0, 3.0, 4.0)
    """
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _box_chart(found: Mapping[str, Mapping[Place, float]]) -> str:
    """Draw a box and whiskers per element on a logarithmic axis, with the mean of the paper as a diamond."""
    left, wide, row, top = 110, 640, 34, 96
    title = "AIM without one element: error, in errors of AIM"
    height = top + row * len(found) + 44
    parts = [
        *sheet(left + wide + 40, height, title, left=20),
        '<text x="20" y="46" fill="#5a6472">box: quartiles over settings; whiskers: smallest and largest; '
        "dot: geometric mean; diamond: the paper's mean; above 1 the element helps</text>",
    ]
    numbers = [value for some in found.values() for value in some.values()] or [1.0]
    low, high = math.log(min(0.8, *numbers)) - 0.05, math.log(max(2.5, *numbers)) + 0.05

    def across(value: float) -> float:
        return left + wide * (math.log(value) - low) / (high - low)

    bottom = top + row * len(found)
    for tick in (0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100):
        if low <= math.log(tick) <= high:
            x, dark = across(tick), "#8a8f98" if tick == 1 else "#e3e6ea"
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 22}" y2="{bottom}" stroke="{dark}"/>')
            parts.append(
                f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#5a6472">{tick:g}</text>'
            )
    for index, (form, some) in enumerate(found.items()):
        y = top + row * index
        values = sorted(some.values())
        first, middle, third = quartiles(values)
        ends = [across(values[0]), across(first), across(middle), across(third), across(values[-1])]
        parts += [
            f'<text x="{left - 12}" y="{y + 4}" text-anchor="end" font-size="12" fill="#1d2430">{escape(form)}</text>',
            f'<line x1="{ends[0]:.1f}" x2="{ends[4]:.1f}" y1="{y}" y2="{y}" stroke="#0b6e99"/>',
            f'<rect x="{ends[1]:.1f}" y="{y - 8}" width="{max(1.0, ends[3] - ends[1]):.1f}" height="16" '
            'fill="#cfe3ee" stroke="#0b6e99"/>',
            f'<line x1="{ends[2]:.1f}" x2="{ends[2]:.1f}" y1="{y - 8}" y2="{y + 8}" stroke="#0b6e99" stroke-width="2"/>',
            f'<circle cx="{across(geometric_mean(values)):.1f}" cy="{y}" r="4" fill="#0b6e99"/>',
        ]
        printed = PAPER_ELEMENTS.get(form.partition(",")[0])
        if printed:
            x = across(printed)
            parts.append(
                f'<path d="M{x:.1f} {y - 6}l6 6l-6 6l-6 -6z" fill="#c4622d"><title>paper: {printed:g}</title></path>'
            )
    parts.append("</svg>")
    return "\n".join(parts)
