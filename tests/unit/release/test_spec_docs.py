"""The page about specifications: its example is one, and every key has a word in it."""

from __future__ import annotations

import re
from pathlib import Path

from understudy.release.spec.spec import Spec

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-spec.md"


def test_the_example_of_the_page_is_a_specification() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        assert Spec.parse(block).configurations


def test_every_key_and_every_kind_has_a_word_in_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    schema = Spec.json_schema()
    words = set(schema["properties"])
    for part in schema["$defs"].values():
        words |= set(part["properties"])
        words |= {
            value["const"]
            for key, value in part["properties"].items()
            if key in ("kind", "rule") and "const" in value
        }
    assert {word for word in words if word not in text} == set()
