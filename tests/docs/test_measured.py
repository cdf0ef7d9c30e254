"""Numbers in the benchmark pages are numbers that a benchmark printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = ("benchmarks.md", "benchmarks-families.md")


def numbers(text: str) -> set[str]:
    """All decimal numbers of a text, without zeros in front and signs that only separate."""
    found = re.findall(r"(?<![\w.@-])\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+", text)
    return {item.replace(",", "").lstrip("0") or "0" for item in found}


def printed() -> set[str]:
    pages = sorted((DOCS / "measured").glob("*.md"))
    return numbers("\n".join(page.read_text(encoding="utf-8") for page in pages))


@pytest.mark.parametrize("name", PAGES)
def test_tables_hold_printed_numbers_only(name: str) -> None:
    """A row of a results table names nothing that `python -m benchmarks --full` did not print."""
    known = printed()
    rows = [line for line in (DOCS / name).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert rows, "the page has tables"
    strange = {item for row in rows for item in numbers(row) if "." in item} - known
    assert not strange, f"not printed by any run kept in docs/measured: {sorted(strange)}"


def test_a_number_nobody_measured_is_noticed() -> None:
    assert numbers("| adult | .4242 | 0.17 | 1,304 |") == {".4242", ".17", "1304"}
    assert ".4242" not in printed()


def test_every_page_says_command_commit_and_machine() -> None:
    for page in (DOCS / "measured").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        if page.name != "index.md":
            assert re.search(r"^`(python -m benchmarks\.|understudy )", text, re.MULTILINE), page.name
            assert re.search(r"commit [0-9a-f]{7,}: \d+ s", text), page.name
            assert all(word in text for word in ("cores", "Python", "numpy")), page.name
