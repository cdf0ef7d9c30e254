"""The page that compares with other projects: every cell names the file it is taken from, or says that nothing was found or checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "compared.md").read_text(encoding="utf-8")
MARK = re.compile(r"`([a-z]\d)`")
WITHOUT = ("none found", "not checked", "does not apply")
PROJECTS = ("dpsynth", "mbi", "SmartNoise", "dpmm", "SDV", "synthcity", "OpenDP", "DP Wizard")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_all_eight_are_there() -> None:
    named = {row[0] for row in rows("What they are for")[2:]}
    for project in PROJECTS:
        assert any(project in name for name in named), project


@pytest.mark.parametrize(
    ("heading", "first"), [("Features of the marginal-based ones", 2), ("Features of the others", 1)]
)
def test_every_cell_is_sourced_or_says_that_it_is_not(heading: str, first: int) -> None:
    head, _, *body = rows(heading)
    assert len(body) >= 9
    for row in body:
        assert len(row) == len(head)
        for project, cell in zip(head[first:], row[first:], strict=True):
            assert MARK.search(cell) or any(word in cell for word in WITHOUT), (row[0], project, cell)


def test_every_mark_is_in_the_list_of_sources_with_commit_and_day() -> None:
    listed = {row[0]: row[1] for row in rows("Sources")[2:]}
    for text in listed.values():
        assert re.search(r"commit [0-9a-f]{7} of \d+ \w+ 20\d\d", text), text
    used = set(MARK.findall(PAGE.split("## Sources")[0]))
    assert len(used) >= 25
    for mark in used:
        assert f"{mark} " in listed[mark[0]], mark
    for letter, text in listed.items():
        for mark in re.findall(rf"\b({letter}\d) ", text):
            assert mark in used, f"{mark} is listed and not used"
