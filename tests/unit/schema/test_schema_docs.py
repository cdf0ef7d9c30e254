"""The pages about schemas: every Python block runs, every YAML block is a schema."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from understudy.schema import Schema

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ["how-to/write-a-schema.md", "explanation/constraints.md", "how-to/rules.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    python = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert python
    for block in python:
        exec(compile(block, page, "exec"), {})
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        assert Schema.parse(block).names


def test_every_key_of_a_file_has_a_word_in_the_how_to() -> None:
    text = (DOCS / PAGES[0]).read_text(encoding="utf-8")
    keys = {key for part in Schema.json_schema()["$defs"].values() for key in part["properties"]}
    keys |= set(Schema.json_schema()["properties"])
    assert {key for key in keys if f"{key}" not in text} == set()
