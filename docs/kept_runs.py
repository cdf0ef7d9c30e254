"""Numbers of the kept runs: pages of ``docs/measured`` and the data beside them. Nothing is typed in by hand."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

MEASURED = Path(__file__).parent / "measured"


class NotKept(Exception):
    """There is no such run yet."""


def page(name: str) -> str:
    """Return what a run printed."""
    path = MEASURED / f"{name}.md"
    if not path.exists():
        raise NotKept(name)
    return path.read_text(encoding="utf-8")


def records(name: str) -> list[dict[str, str]]:
    """Return the data of a run, one dictionary per line."""
    path = MEASURED / "data" / f"{name}.csv"
    if not path.exists():
        raise NotKept(name)
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def first(*readers: Callable[[], str]) -> str:
    """Return what the first reader says whose run was kept: newer runs come first."""
    for reader in readers[:-1]:
        try:
            return reader()
        except NotKept:
            continue
    return readers[-1]()


def found(name: str, pattern: str, shown: str, *, rounded: bool = False) -> str:
    """Return ``shown`` with the groups of a pattern that one line of a page must match: ``{0}``, ``{1}``, ...

    With ``rounded`` the groups are numbers, for ``shown`` to round: ``{0:.3f}``.
    """
    text = page(name)
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"docs/measured/{name}.md has no line like {pattern!r}; docs/papers.py quotes it")
    return shown.format(*(map(float, match.groups()) if rounded else match.groups()))


def cells(name: str, label: str, section: str = "") -> list[str]:
    """Return the cells of the first table line that begins with a label, below a section of the page."""
    text = page(name)
    below = text.partition(section)[2] if section else text
    match = re.search(rf"^\| {re.escape(label)} \|(.*)\|$", below, re.MULTILINE)
    if match is None:
        raise SystemExit(f"docs/measured/{name}.md has no line {label!r} below {section!r}")
    return [cell.strip() for cell in match[1].split("|")]


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


Cell = tuple[str, str, float]


def errors(figure: str) -> dict[str, dict[Cell, float]]:
    """Return the mean error over seeds of every form of a figure, by table, workload and epsilon."""
    seen: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in records(figure):
        if row["outcome"] == "ok":
            where = row["table"], row["workload"], float(row["epsilon"])
            seen[row["method"]][where].append(float(row["error"]))
    return {
        form: {where: math.fsum(values) / len(values) for where, values in by_cell.items()}
        for form, by_cell in seen.items()
    }


def ratios(figure: str, workload: str | None = None) -> dict[str, tuple[float, float, int]]:
    """Return, for every other form, the geometric mean and the largest of its error over that of aim, and in how many cells."""
    by_form = errors(figure)
    base = by_form["aim"]
    shown = {}
    for form, by_cell in by_form.items():
        both = [
            by_cell[where] / base[where]
            for where in by_cell
            if where in base and workload in (None, where[1])
        ]
        if form != "aim" and both:
            shown[form] = geometric_mean(both), max(both), len(both)
    return shown


def spoken(ratio: dict[str, tuple[float, float, int]], order: tuple[str, ...] = ()) -> str:
    """Return ratios in words: those that are named in ``order`` first, with the forms that they were published in."""
    ranks = {name: index for index, name in enumerate(order)}
    forms = sorted(ratio, key=lambda form: (ranks.get(form.partition(",")[0], len(order)), form))
    return ", ".join(f"{form} {ratio[form][0]:.2f} ({ratio[form][1]:.1f})" for form in forms)


def aim_is_best(workload: str, rivals: tuple[str, ...]) -> str:
    """Return in how many settings of a workload aim has a smaller error than some rivals, and in how many of at least epsilon 1."""
    by_form = errors("aim-figure1")
    wins: dict[bool, list[bool]] = {False: [], True: []}
    for where, error in by_form["aim"].items():
        others = [by_form[form][where] for form in rivals if where in by_form.get(form, {})]
        if where[1] == workload and others:
            wins[where[2] >= 1].append(error <= min(others))
    every = wins[False] + wins[True]
    return f"{sum(every)} of {len(every)} settings, {sum(wins[True])} of {len(wins[True])} with epsilon of at least 1"


def dips(study: str, method: str, quantity: str, pages: tuple[str, ...] = ()) -> str:
    """Return the coverage of a method's intervals: smallest and largest, below epsilon 1 and from 1 on.

    From the data of the study where they were kept, with bias and error at epsilon 1; else from a page that printed it.
    """
    try:
        lines = records(f"dips-study{study}")
    except NotKept:
        for name in pages:
            if (MEASURED / f"{name}.md").exists():
                break
        pattern = rf"^{re.escape(method)}(?: \*)? +{re.escape(quantity)} +([\d.]+) to ([\d.]+) +([\d.]+) to ([\d.]+)"
        block = page(name).partition(f"study {study[0]}: ")[2]
        match = re.search(pattern, block, re.MULTILINE)
        if match is None:
            raise SystemExit(f"docs/measured/{name}.md says nothing of {method}, {quantity}") from None
        low, high, lower, upper = match.groups()
        return f"covers {low} to {high} below epsilon 1, {lower} to {upper} from 1 on"
    mine = [
        row
        for row in lines
        if row["method"].removesuffix(" *") == method
        and re.match(rf"{re.escape(quantity)}(\[|$|_|\d)", row["quantity"])
    ]
    if not mine:
        raise SystemExit(f"docs/measured/data/dips-study{study}.csv says nothing of {method}, {quantity}")
    small = [float(row["coverage"]) for row in mine if row["epsilon"] != "none" and float(row["epsilon"]) < 1]
    large = [
        float(row["coverage"]) for row in mine if row["epsilon"] != "none" and float(row["epsilon"]) >= 1
    ]
    one = [row for row in mine if row["epsilon"] != "none" and abs(float(row["epsilon"]) - 1) < 1e-6]
    bias, rmse = max(abs(float(row["bias"])) for row in one), max(float(row["rmse"]) for row in one)
    return (
        f"covers {min(small):.3f} to {max(small):.3f} below epsilon 1, {min(large):.3f} to {max(large):.3f} from 1 on "
        f"(largest bias at 1: {bias:.2g}, RMSE {rmse:.2g})"
    )
