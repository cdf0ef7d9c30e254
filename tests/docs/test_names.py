"""Names in the documentation lead somewhere: functions, files, rooms."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "CONTRIBUTING.md", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = (ROOT, ROOT / "src" / "understudy", ROOT / "docs")


def _words(page: Path) -> set[str]:
    """What stands between backticks, outside blocks of code; ``NAME`` stands for any."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {word for word in re.findall(r"`([^`\n]+)`", text) if "NAME" not in word}


def _find(name: str) -> object:
    """Import what a dotted name says, as far as modules go, and look up the rest."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_functions_and_files_exist(page: Path) -> None:
    for word in _words(page):
        if re.fullmatch(r"understudy(\.\w+)+", word):
            try:
                _find(word)
            except (ModuleNotFoundError, AttributeError):
                pytest.fail(f"{page.name}: there is no {word}")
        elif re.fullmatch(
            r"(src|tests|docs|benchmarks|examples|scripts|curator|privacy|engine|inference)/[\w./-]+", word
        ):
            assert any((folder / word).exists() for folder in FOLDERS), f"{page.name}: there is no {word}"


def test_a_name_that_is_gone_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```\n`understudy.nowhere`\n```\nSee `understudy.schema.Nothing`.\n", encoding="utf-8")
    assert _words(page) == {"understudy.schema.Nothing"}
    with pytest.raises(AttributeError):
        _find("understudy.schema.Nothing")


def _rooms() -> ModuleType:
    spec = importlib.util.spec_from_file_location("the_rooms", ROOT / "tests" / "unit" / "test_rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_rooms_is_the_one_that_is_enforced() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", ARCHITECTURE, re.MULTILINE))
    assert table.pop("cli") == "anything"
    told = {room: set() if words == "nothing" else set(words.split(", ")) for room, words in table.items()}
    assert told == _rooms().ALLOWED


def test_the_ways_are_told_by_name() -> None:
    for section in ("One record's way", "One number's way", "Three front doors"):
        text = ARCHITECTURE.split(f"## {section}\n")[1].split("\n## ")[0]
        assert len(re.findall(r"`understudy\.[\w.]+`", text)) > 10, section
