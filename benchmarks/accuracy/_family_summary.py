"""Tables and a picture of the comparison of families."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from statistics import fmean
from typing import Any

Record = dict[str, Any]

_COLOURS = {0: "#c4622d", 1: "#0b6e99", 2: "#5b8c3e", 3: "#7d4fa3", 4: "#8a8f98"}
_PANEL, _NAMES, _ROW, _TOP = 210, 150, 18, 96


def table_rows(records: Sequence[Record]) -> list[Record]:
    """Return one row per table, epsilon and method: means over seeds, or the reason why there are none."""
    groups: dict[tuple[str, float, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["table"], record["epsilon"], record["method"]), []).append(record)
    rows = []
    for (table, epsilon, method), items in groups.items():
        good = [item for item in items if item["status"] == "ok"]
        row: Record = {
            "table": table, "epsilon": epsilon, "method": method, "seeds": len(good),
            "status": "ok" if good else items[-1]["status"],
        }  # fmt: skip
        if good:
            for name in ("error", "accuracy", "cpu_seconds"):
                row[name] = fmean(item[name] for item in good)
            row["peak_mb"] = max(item["peak_mb"] for item in good)
        else:
            row["reason"] = reason(items[-1])
        rows.append(row)
    return rows


def reason(record: Record) -> str:
    """Say why a cell has no numbers."""
    if record["status"] == "timeout":
        return f"not finished after {record['timeout']:g} s of computing"
    return str(record.get("message", ""))


def markdown(records: Sequence[Record], *, not_run: Sequence[Record] = ()) -> str:
    """One block per table: a line per method with error and accuracy at each epsilon, time and memory at the largest."""
    rows = table_rows(records)
    parts = []
    for table in dict.fromkeys(row["table"] for row in rows):
        here = [row for row in rows if row["table"] == table]
        epsilons = sorted({row["epsilon"] for row in here})
        shown = [f"{epsilon:g}" for epsilon in epsilons]
        head = [
            "method",
            *(f"error {e}" for e in shown),
            *(f"accuracy {e}" for e in shown),
            "CPU s",
            "peak MB",
        ]
        parts.append(f"### {table}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
        for method in by_error(here):
            found = {row["epsilon"]: row for row in here if row["method"] == method}
            good = [row for row in found.values() if row["status"] == "ok"]
            cells = [_number(found.get(e), "error") for e in epsilons]
            cells += [_number(found.get(e), "accuracy") for e in epsilons]
            cells += (
                [
                    f"{max(row['cpu_seconds'] for row in good):.1f}",
                    f"{max(row['peak_mb'] for row in good):.0f}",
                ]
                if good
                else ["", ""]
            )
            parts.append(f"| {method} | {' | '.join(cells)} |")
        parts.append("")
    missing = dict.fromkeys(
        f"- {row['table']}, epsilon {row['epsilon']:g}, {row['method']}: {row['status']}"
        + (f": {row['reason']}" if row.get("reason") else "")
        for row in rows
        if row["status"] != "ok"
    )
    if missing:
        parts.append("Cells without numbers:\n\n" + "\n".join(missing) + "\n")
    if not_run:
        names = ", ".join(f"{spec['table']}/{spec['method']}/{spec['epsilon']:g}" for spec in not_run)
        parts.append(f"Not run: {names}.\n")
    return "\n".join(parts)


def by_error(rows: Sequence[Record]) -> list[str]:
    """Return the methods of one table, least error at the middle epsilon first, those without numbers last."""

    def key(method: str) -> tuple[float, float, str]:
        errors = {
            row["epsilon"]: row["error"] for row in rows if row["method"] == method and row["status"] == "ok"
        }
        return (errors.get(1.0, math.inf), min(errors.values(), default=math.inf), method)

    return sorted(dict.fromkeys(row["method"] for row in rows), key=key)


def _number(row: Record | None, name: str) -> str:
    if row is None:
        return "not run"
    outcomes = {"timeout": "too slow", "refused": "refused", "failed": "failed"}
    return f"{row[name]:.4g}" if row["status"] == "ok" else outcomes.get(row["status"], row["status"])


def picture(records: Sequence[Record], title: str) -> str:
    """A panel per table, a line per method, a dot per epsilon at the workload error (logarithmic)."""
    rows = [row for row in table_rows(records) if row["status"] == "ok" and row["error"] > 0]
    tables = list(dict.fromkeys(row["table"] for row in rows))
    methods = by_error([{**row, "table": ""} for row in _averaged(rows)])
    epsilons = sorted({row["epsilon"] for row in rows})
    width = _NAMES + len(tables) * _PANEL + 40
    height = _TOP + len(methods) * _ROW + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="17" font-weight="600" fill="#1d2430">{escape(title)}</text>',
    ]
    for index, epsilon in enumerate(epsilons):
        parts.append(f'<circle cx="{24 + 110 * index}" cy="48" r="4.5" fill="{_colour(index)}"/>')
        parts.append(f'<text x="{34 + 110 * index}" y="52" fill="#1d2430">epsilon {epsilon:g}</text>')
    for line, method in enumerate(methods):
        y = _TOP + line * _ROW
        parts.append(
            f'<text x="{_NAMES - 8}" y="{y + 4}" text-anchor="end" fill="#1d2430">{escape(method)}</text>'
        )
        parts.append(f'<line x1="{_NAMES}" x2="{width - 30}" y1="{y}" y2="{y}" stroke="#eef0f3"/>')
    for number, table in enumerate(tables):
        parts += _panel(table, [row for row in rows if row["table"] == table], methods, epsilons, number)
    parts.append("</svg>")
    return "\n".join(parts)


def _averaged(rows: Sequence[Record]) -> list[Record]:
    """Average over tables how many times the error is that of the best method there: one order serves all panels."""
    best: dict[tuple[str, float], float] = {}
    for row in rows:
        place = (row["table"], row["epsilon"])
        best[place] = min(best.get(place, math.inf), row["error"])
    groups: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        times = row["error"] / best[row["table"], row["epsilon"]]
        groups.setdefault((row["method"], row["epsilon"]), []).append(math.log(times))
    return [
        {"method": method, "epsilon": epsilon, "status": "ok", "error": math.exp(fmean(values))}
        for (method, epsilon), values in groups.items()
    ]


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _panel(
    table: str, rows: Sequence[Record], methods: Sequence[str], epsilons: Sequence[float], number: int
) -> list[str]:
    left, right = _NAMES + number * _PANEL + 18, _NAMES + (number + 1) * _PANEL - 18
    logs = [math.log10(row["error"]) for row in rows]
    low, high = min(logs) - 0.05, max(logs) + 0.05
    bottom = _TOP + len(methods) * _ROW

    def across(error: float) -> float:
        return left + (right - left) * (math.log10(error) - low) / (high - low)

    parts = [
        f'<text x="{left}" y="{_TOP - 22}" font-size="13" font-weight="600" fill="#1d2430">{escape(table)}</text>'
    ]
    ticks = [
        step * 10.0**decade for decade in range(math.floor(low), math.ceil(high) + 1) for step in (1, 2, 5)
    ]
    inside = [tick for tick in ticks if low <= math.log10(tick) <= high]
    for tick in inside[:: 1 + len(inside) // 6]:
        x = across(tick)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 12}" y2="{bottom - 6}" stroke="#e3e6ea"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 10}" text-anchor="middle" font-size="9" fill="#5a6472">{tick:g}</text>'
        )
    for row in rows:
        y = _TOP + methods.index(row["method"]) * _ROW
        parts.append(
            f'<circle cx="{across(row["error"]):.1f}" cy="{y}" r="4.5" fill="{_colour(epsilons.index(row["epsilon"]))}" '
            f'fill-opacity="0.85"><title>{escape(row["method"])}, {escape(table)}, epsilon {row["epsilon"]:g}: '
            f"{row['error']:.4g}</title></circle>"
        )
    return parts
