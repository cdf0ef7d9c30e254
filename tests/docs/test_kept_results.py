"""Small tables in ``docs/measured/data`` are what the runs of the same names printed."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

import pytest
from benchmarks._measured import RUNS

MEASURED = Path(__file__).resolve().parents[2] / "docs" / "measured"
WRITING = [
    run.name
    for run in RUNS
    if run.module in ("papers.dips", "papers.deniability") and "--write" in run.arguments
]
DIPS = [name for name in WRITING if name.startswith("dips")]


def kept(name: str) -> list[dict[str, str]]:
    with (MEASURED / "data" / f"{name}.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def page(name: str) -> str:
    return (MEASURED / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DIPS)
def test_every_method_of_a_study_covers_what_its_page_says(name: str) -> None:
    """Coverage over the scenarios, to the three digits that are printed."""
    groups: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    repetitions = set()
    for row in kept(name):
        part = 0 if row["epsilon"] == "none" else 1 if float(row["epsilon"]) < 0.999 else 2
        groups[row["method"], row["quantity"], part].append(float(row["coverage"]))
        repetitions.add(row["repetitions"])
    assert len(repetitions) == 1
    assert f"jobs of {repetitions.pop()} repetitions" in page(name)
    for method, quantity in {key[:2] for key in groups}:
        line = re.search(rf"^{re.escape(method)}(?: \*)? +{quantity} .* to .*$", page(name), re.MULTILINE)
        assert line is not None, (method, quantity)
        told = [float(end) for pair in re.findall(r"(\d\.\d{3}) to (\d\.\d{3})", line[0])[:2] for end in pair]
        found = [
            end
            for part in range(3)
            if (values := groups.get((method, quantity, part)))
            for end in (min(values), max(values))
        ]
        assert told[: len(found)] == pytest.approx(found, abs=6e-4), (method, quantity)


@pytest.mark.parametrize(
    ("name", "column", "scale"),
    [
        ("deniability-figure1", "improvement", 100),
        ("deniability-figure2", "accuracy", 1),
        ("deniability-figure6", "share", 100),
        ("deniability-table4", "accuracy", 1),
    ],
)
def test_every_number_of_a_figure_is_on_its_page(name: str, column: str, scale: int) -> None:
    printed = {float(item) for item in re.findall(r"(?<![\w.])-?\d+\.\d+", page(name))}
    rows = kept(name)
    assert rows
    digits = 3 if name == "deniability-figure2" else 1
    for row in rows:
        value = scale * float(row[column])
        # four digits were kept, so the last one printed may differ
        near = {round(value + step * 10.0**-digits, digits) for step in (-1, 0, 1)}
        assert near & printed, row


def test_charts_and_tables_belong_to_runs_that_write_them() -> None:
    assets = MEASURED.parent / "assets"
    assert {path.stem for path in (MEASURED / "data").glob("d[ei][np]*.csv")} == set(WRITING)
    for path in [*assets.glob("dips-*.svg"), *assets.glob("deniability-*.svg")]:
        assert any(path.stem.startswith(name) for name in WRITING), path.name
        pages = "".join(item.read_text(encoding="utf-8") for item in MEASURED.parent.rglob("*.md"))
        assert f"assets/{path.name}" in pages, f"no page shows {path.name}"
