"""Numbers in tables of the documentation are numbers that a kept run printed.

A table of results stands in a section (or on a page whose introduction stands for all sections) that links to the runs
in ``docs/measured`` that it is taken from. Exempt are labels (the first column), code in backticks, tables of options, and
what is visibly a paper's: rows that begin with *paper*, columns whose head says paper, and numbers in brackets under a
head that ends in "(paper)".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from benchmarks._measured import RUNS, index

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MEASURED = DOCS / "measured"
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if MEASURED not in page.parents
    and DOCS / "reference" not in page.parents
    and page != DOCS / "explanation" / "papers.md"  # written from the runs themselves: test_papers.py
]
NO_RESULTS = {"option", "file"}
"""First heads of tables that explain settings and files, whose numbers are defaults."""


def numbers(text: str) -> set[str]:
    """All decimal numbers of a text, without zeros in front and signs that only separate; no sections such as 4.7.2."""
    text = re.sub(r"\d+(?:\.\d+){2,}", "", text)
    found = re.findall(r"(?<![\w.@-])\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+", text)
    return {item.replace(",", "").lstrip("0") or "0" for item in found}


@dataclass(frozen=True)
class Table:
    """A Markdown table and the runs that its section or its page's introduction links to."""

    line: int
    head: list[str]
    rows: list[list[str]]
    sources: tuple[str, ...]

    def results(self) -> set[str]:
        """Numbers with a decimal point that the table gives as results."""
        if self.head[0].lower() in NO_RESULTS:
            return set()
        found = set()
        for row in self.rows:
            if row[0].startswith("*paper"):
                continue
            for head, cell in zip(self.head[1:], row[1:], strict=True):
                if head.endswith("(paper)"):
                    cell = re.sub(r"\([^)]*\)", "", cell)
                elif "paper" in head:
                    continue
                found |= {item for item in numbers(re.sub(r"`[^`]*`", "", cell)) if "." in item}
        return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def tables(text: str) -> Iterator[Table]:
    """The tables of a page."""
    parts = re.split(
        r"^(?=## )", re.sub(r"```.*?```", lambda m: "\n" * m[0].count("\n"), text, flags=re.S), flags=re.M
    )
    general = links(parts[0])
    line = 1
    for part in parts:
        rows: list[list[str]] = []
        for offset, words in enumerate([*part.splitlines(), ""]):
            if words.startswith("|"):
                rows.append(cells(words))
            elif rows:
                yield Table(line + offset - len(rows), rows[0], rows[2:], (*general, *links(part)))
                rows = []
        line += part.count("\n")


def links(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"measured/([\w-]+)\.md", text))


@cache
def printed(name: str) -> frozenset[str]:
    return frozenset(numbers((MEASURED / f"{name}.md").read_text(encoding="utf-8")))


@cache
def roundings(name: str, decimals: int) -> frozenset[str]:
    """The printed numbers, and what they are as a percentage, rounded to so many decimals."""
    found = set()
    for item in printed(name):
        for value, digits in ((float(item), 0), (float(item) * 100, 2)):
            if len(item.partition(".")[2]) >= decimals + digits:
                # A tie may have been rounded either way before it was printed.
                nudge = 1e-9 * max(1.0, value)
                found |= {f"{value - nudge:.{decimals}f}", f"{value + nudge:.{decimals}f}"}
    return frozenset(item.lstrip("0") for item in found)


def unknown(table: Table) -> set[str]:
    """Results of a table that no run it links to has printed."""
    return {
        item
        for item in table.results()
        if not any(item in roundings(name, len(item.partition(".")[2])) for name in table.sources)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_tables_hold_printed_numbers_only(page: Path) -> None:
    """A table of results names nothing that `python -m benchmarks --full` did not print."""
    strange = {
        f"line {table.line}, from {', '.join(table.sources) or 'no run'}": sorted(unknown(table))
        for table in tables(page.read_text(encoding="utf-8"))
        if unknown(table)
    }
    assert not strange


def test_a_number_nobody_measured_is_noticed() -> None:
    page = "See [noise](../measured/noise.md).\n\n## A\n| draw | seconds |\n|---|---|\n| a | 0.424242 |\n| *paper* | .31415 |\n"
    (table,) = tables(page)
    assert table.sources == ("noise",)
    assert unknown(table) == {".424242"}
    (without,) = tables(page.replace("measured/", ""))
    assert unknown(without) == {".424242"}
    assert numbers("| adult | .4242 | 0.17 | 1,304 |") == {".4242", ".17", "1304"}


def test_a_printed_number_may_be_rounded_or_a_percentage() -> None:
    (item,) = {word for word in printed("deniability") if word == ".0107"}
    assert ".011" in roundings("deniability", 3)
    assert "1.07" in roundings("deniability", 2)
    assert f"{float(item):.5f}".lstrip("0") not in roundings("deniability", 5)


def test_every_documented_run_has_a_page_of_the_same_command() -> None:
    assert {page.stem for page in MEASURED.glob("*.md")} == {run.name for run in RUNS} | {"index"}
    for run in RUNS:
        text = (MEASURED / f"{run.name}.md").read_text(encoding="utf-8")
        assert f"`{run.shown}`" in text, f"{run.name} was measured with other arguments; run it again"
    assert (MEASURED / "index.md").read_text(encoding="utf-8") == index()


def test_every_page_says_commit_and_machine() -> None:
    for page in MEASURED.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        if page.name != "index.md":
            assert re.search(r"commit [0-9a-f]{7,}: \d+ s", text), page.name
            assert all(word in text for word in ("cores", "Python", "numpy")), page.name
