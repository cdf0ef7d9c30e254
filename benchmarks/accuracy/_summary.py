"""Tables and a picture of benchmark results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from understudy.report.lines import LinePanel, line_chart

Record = dict[str, Any]


def grouped(records: Sequence[Record]) -> dict[tuple[str, str, float], dict[str, list[Record]]]:
    """Group results by table, workload and epsilon, then by method."""
    groups: dict[tuple[str, str, float], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        groups[record["table"], record["workload"], record["epsilon"]][record["method"]].append(record)
    return groups


def markdown(records: Sequence[Record]) -> str:
    """One row per table, workload, epsilon and method: mean error and its range, time and memory."""
    lines = [
        "| table | workload | epsilon | method | seeds | error (lowest to highest) | model error | CPU s | wall s | peak MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (table, workload, epsilon), methods in grouped(records).items():
        for method, items in methods.items():
            lines.append(
                f"| {table} | {workload} | {epsilon:g} | {method} | {len(items)} | {_numbers(items)} |"
            )
    return "\n".join(lines) + "\n"


def _numbers(items: Sequence[Record]) -> str:
    good = [item for item in items if item["status"] == "ok"]
    if not good:
        last = items[-1]
        outcome = (
            f"did not finish in {last['timeout']:g} s" if last["status"] == "timeout" else last["status"]
        )
        return f"{outcome} | | | |"
    errors = [item["error"] for item in good]
    spread = f" ({min(errors):.4f} to {max(errors):.4f})" if len(errors) > 1 else ""
    short = f", {len(items) - len(good)} unfinished" if len(good) < len(items) else ""
    model = [item["model_error"] for item in good if item.get("model_error") is not None]
    return " | ".join(
        [
            f"{fmean(errors):.4f}{spread}{short}",
            f"{fmean(model):.4f}" if model else "",
            f"{fmean(item['cpu_seconds'] for item in good):.1f}",
            f"{fmean(item['seconds'] for item in good):.1f}",
            f"{max(item['peak_mb'] for item in good):.0f}",
        ]
    )


def picture(records: Sequence[Record], title: str) -> str:
    """Error against epsilon, a panel per table and workload, a line per method."""
    panels: dict[tuple[str, str], dict[str, list[tuple[float, float, float, float]]]] = {}
    for (table, workload, epsilon), methods in grouped(records).items():
        series = panels.setdefault((table, workload), {})
        for method, items in methods.items():
            errors = [item["error"] for item in items if item["status"] == "ok" and item["error"] > 0]
            if errors:
                series.setdefault(method, []).append((epsilon, min(errors), fmean(errors), max(errors)))
    drawn = [LinePanel(f"{table}, {workload}", series) for (table, workload), series in panels.items()]
    return line_chart(title, drawn, x_label="epsilon", y_label="workload error (lowest, mean, highest seed)")
