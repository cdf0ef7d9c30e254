"""The tables of the page on trust are those of the run that is kept in docs/measured/audit.md."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benchmarks.trust import _trust

from understudy.audit import Audit, AuditReport, Claim, Effort, Tally
from understudy.cli.commands.audit import HEADINGS

DOCS = Path(__file__).parents[2] / "docs"
PARTS = ("summary", "primitives", "laws", "releases", "methods")


def squeezed(words: str) -> str:
    """Words without blanks: the screen breaks lines anywhere."""
    return re.sub(r"\s", "", words)


def printed(text: str) -> list[dict[str, str]]:
    """Rows of the table that the command printed, each over several lines; a new one starts where a claim stands."""
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        if not line.startswith("│"):
            continue
        cells = dict(zip(HEADINGS, (squeezed(cell) for cell in line.strip("│").split("│")), strict=True))
        if cells["claimed"]:
            rows.append(cells)
        else:
            rows[-1] = {head: rows[-1][head] + cells[head] for head in HEADINGS}
    return rows


def whole_claim(row: dict[str, str]) -> str:
    kind, at, delta = row["claim"].partition("atdelta")
    return f"{kind}{row['claimed']}{at}{delta}"


def expected(row: dict[str, str]) -> list[str]:
    """Return the cells that the page should have for a printed row, in the order of its table."""
    end = [whole_claim(row), row["shown"], row["share"]]
    if row["runs"] == "exact":
        return [row["subject"], row["unit"], *end]
    if row["bestattacker"] == "thereleasednumber":
        return [row["subject"], row["worstpair"], *end, row["runs"]]
    unit = [] if row["subject"].startswith("release'") else [row["unit"]]
    return [row["subject"], row["worstpair"], *unit, *end, row["runs"], row["bestattacker"]]


def test_the_page_has_the_table_that_was_printed() -> None:
    page = (DOCS / "explanation" / "trust.md").read_text(encoding="utf-8")
    text = (DOCS / "measured" / "audit.md").read_text(encoding="utf-8")
    run = [{squeezed(head): cell for head, cell in row.items()} for row in printed(text)]
    assert len(run) > 60
    filled = re.findall(r"<!-- audit: (\w+) -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert [name for name, _ in filled] == list(PARTS)
    rows = [
        [squeezed(cell) for cell in line.strip("|").split("|")]
        for _, table in filled
        for above, line in pairwise(table.splitlines())
        if line.startswith("| ") and above.startswith("|")
    ]
    assert sorted(rows) == sorted(expected(row) for row in run)
    for number in (r"[\d,]+ audits in \d+ s", r"demonstrates at most [\d.]+"):
        assert re.findall(number, filled[0][1]) == re.findall(number, text), number


def document(*names: str) -> dict[str, Any]:
    claim, tally = Claim("epsilon", 2.0, 0.0, ""), Tally(500, 500, 430, 250, 215, 35)
    audits = [Audit(name, "a pair", "a unit", claim, "an attacker", tally, True, 0.1) for name in names]
    return AuditReport(tuple(audits), 3, Effort.quick(), 1.0).to_dict()


def test_marked_parts_are_replaced_and_nothing_else(tmp_path: Path) -> None:
    page, numbers = tmp_path / "page.md", tmp_path / "audit.json"
    marked = "".join(
        f"{part} \\1:\n<!-- audit: {part} -->\nold\n<!-- end -->\n" for part in ("summary", "methods")
    )
    page.write_text(f"before\n{marked}after\n", encoding="utf-8")
    numbers.write_text(json.dumps(document("aim", "<!-- end -->")), encoding="utf-8")
    _trust.fill(numbers, page)
    once = page.read_text(encoding="utf-8")
    assert once.startswith("before\nsummary \\1:\n<!-- audit: summary -->\n\n2 audits in 1 s")
    assert once.endswith("an attacker |\n\n<!-- end -->\nafter\n")
    assert "old" not in once
    _trust.fill(numbers, page)
    assert page.read_text(encoding="utf-8") == once


@pytest.mark.parametrize("names", [("aim",), ("aim", "permute-and-flip", "release 'x'")])
def test_a_page_never_mixes_two_runs(names: tuple[str, ...]) -> None:
    """A part without a table, or a table without a place, is refused."""
    marked = "".join(
        f"<!-- audit: {part} -->\nold\n<!-- end -->\n" for part in ("summary", "methods", "releases")
    )
    with pytest.raises(SystemExit, match="places"):
        _trust.filled(marked, document(*names))
