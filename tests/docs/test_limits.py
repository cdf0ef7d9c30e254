"""The numbers of rows that proofs cover: what the page on weaknesses says is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = re.compile(r"up to `{0,2}2(?:\*\*|\^)(\d\d)`{0,2} (?:rows|records)")
NAMED = re.compile(r"2\^(\d\d) rows")


def test_the_page_on_weaknesses_names_every_limit_of_rows() -> None:
    """A docstring that says up to how many rows a proof holds; where whole numbers without an end take over, it says beyond."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "src" / "understudy").rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "eyond" not in line:
                for bits in LIMIT.findall(line):
                    found.setdefault(bits, set()).add(str(path.relative_to(ROOT)))
    page = (ROOT / "docs" / "explanation" / "known-weaknesses.md").read_text(encoding="utf-8")
    assert found, "the search finds the docstrings"
    assert set(NAMED.findall(page)) == set(found), found
