"""The page of the house's numbers says what the script prints, and the script counts what it says it counts."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
AGAIN = "Run `python scripts/house.py --markdown --static` and commit the page."


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("the_house", ROOT / "scripts" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["the_house"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


HOUSE = _script()


def _close(kept: str, found: str) -> bool:
    """Compare two cells: a number may be 2 % off, and one from thirty on by two, so that not every change needs a new page."""
    numbers = [
        [int(word.replace(",", "")) for word in re.findall(r"\d[\d,]*", cell)] for cell in (kept, found)
    ]
    rest = [re.sub(r"\d[\d,]*", "#", cell) for cell in (kept, found)]
    return rest[0] == rest[1] and all(
        abs(one - other) <= (max(2, 0.02 * other) if min(one, other) >= 30 else 0)
        for one, other in zip(*numbers, strict=True)
    )


def test_the_static_part_of_the_page_is_what_the_script_prints() -> None:
    text = (ROOT / HOUSE.PAGE).read_text(encoding="utf-8")
    section = text.split("## From the files\n")[1].split("\n## ")[0]
    kept = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in section.splitlines()
        if line.startswith("|")
    ]
    found = [row.cells() for row in HOUSE.static_rows(ROOT)]
    assert len(kept) == len(found) + 2
    for before, now in zip(kept[2:], found, strict=True):
        assert all(map(_close, before, now)), f"{before} is {now} now. {AGAIN}"


def test_the_part_that_was_run_has_every_row() -> None:
    text = (ROOT / HOUSE.PAGE).read_text(encoding="utf-8")
    section = text.split(f"{HOUSE.FROM_A_RUN}\n")[1].split("\n## ")[0]
    assert re.search(r"^Measured at commit [0-9a-f]{7,}\.$", section, re.MULTILINE)
    for words in (
        "files entered by `synth --method aim`",
        "room-to-room edges",
        "plans / schemas built",
        "cases",
    ):
        assert words in section


def test_a_number_that_moved_is_noticed() -> None:
    assert _close("391 / 55,891", "391 / 56,000")
    assert not _close("391 / 55,891", "391 / 60,000")
    assert _close("391 / 55,891", "395 / 55,891")
    assert not _close("391 / 55,891", "402 / 55,891")
    assert not _close("22 exports", "23 exports")
    assert not _close("none", "cli 16")


def test_code_lines_are_those_that_hold_code() -> None:
    text = '"""Doc."""\n\n# why\nx = (1,\n     2)\n\n\ndef f():\n    """Doc,\n\n    long."""\n    return "text"  # end\n'
    assert HOUSE.code_lines(text) == 4


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package in which ``one`` has an importer, ``two`` has two of them (one through the package), and ``none`` is named by a string."""
    source = tmp_path / "src" / "understudy"
    (source / "room").mkdir(parents=True)
    files = {
        "__init__.py": "from understudy.room.one import a\n",
        "room/__init__.py": "from understudy.room.two import b\n",
        "room/one.py": "a = 1\n",
        "room/two.py": "b = 2\n",
        "room/none.py": "NAME = 'understudy.room.one'\n",
        "first.py": "from understudy.room import b, one\n",
        "second.py": "def f():\n    import understudy.room.two\n",
    }
    for name, text in files.items():
        (source / name).write_text(text, encoding="utf-8")
    return source


def test_importers_are_counted_through_packages(package: Path) -> None:
    found = {
        name.removeprefix("understudy."): len(who) for name, who in HOUSE.Imports(package).importers.items()
    }
    assert found == {"room.one": 1, "room.two": 2, "room.none": 0, "first": 0, "second": 0}


def test_crowded_folders_are_found(package: Path) -> None:
    assert HOUSE._crowded(package) == []
    for number in range(HOUSE.MOST_FILES):
        (package / "room" / f"more{number}.py").write_text("", encoding="utf-8")
    assert HOUSE._crowded(package) == [("room", HOUSE.MOST_FILES + 3)]


def test_a_watch_sees_files_rooms_and_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that run because of an import do not count; a call from one room to another is an edge."""
    source = tmp_path / "understudy_like"
    (source / "mechanisms").mkdir(parents=True)
    (source / "cli.py").write_text(
        "from understudy_like.mechanisms.a import A\ndef go():\n    return A().plan()\n"
    )
    (source / "mechanisms" / "a.py").write_text(
        "def at_import():\n    pass\nat_import()\nclass A:\n    def plan(self):\n        return 1\n"
    )
    (source / "other.py").write_text("def unused():\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = HOUSE.Watch(source)
    before = sys.gettrace()
    sys.settrace(seen)
    try:
        from understudy_like.cli import go  # type: ignore[import-not-found]

        go()
    finally:
        sys.settrace(before)
    assert seen.files == {"cli.py", "mechanisms/a.py"}
    assert seen.edges == {("cli", "mechanisms")}
    assert seen.calls == {"plans": 1}


def test_every_decision_is_listed_with_the_same_headings() -> None:
    folder = ROOT / "docs" / "decisions"
    index, site = (folder / "index.md").read_text("utf-8"), (ROOT / "mkdocs.yml").read_text("utf-8")
    records = sorted(folder.glob("0*.md"))
    assert [int(page.name[:4]) for page in records] == list(range(1, len(records) + 1))
    assert len(records) >= 10
    for page in records:
        text = page.read_text("utf-8")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
            "What would change our mind",
        ], page
        assert text.startswith(f"# {page.name[:4]}: ")
        assert f"({page.name})" in index
        assert f"decisions/{page.name}" in site


def test_what_is_run_on_every_save_is_where_the_makefile_says() -> None:
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    lists = dict(re.findall(r"^(FAST|NOT_FAST) := (.+)$", text, re.MULTILINE))
    for name in ("FAST", "NOT_FAST"):
        for place in re.findall(
            r"tests/[\w/.]+", lists[name].replace("$(wildcard tests/unit/test_*.py)", "")
        ):
            assert (ROOT / place).exists(), f"{name} of the Makefile names {place}"
    for command in ("test-fast", "coverage", "test-statistical", "house", "check", "docs"):
        assert re.search(rf"^{command}: .*## \S", text, re.MULTILINE)
        assert f"`make {command}`" in (ROOT / "CONTRIBUTING.md").read_text("utf-8"), command
