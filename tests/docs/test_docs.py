"""Documentation that cannot go stale: code blocks run, every method and public name has its place."""

from __future__ import annotations

import dataclasses
import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import understudy
from understudy.mechanisms import method, methods

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
HEADINGS = ("What it does", "Promise", "Cost", "When to use", "When not", "Options", "Example", "Reference")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUNNABLE = [
    page
    for page in PAGES
    if BLOCK.search(page.read_text(encoding="utf-8")) and page.parent.name != "tutorials"
]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after the other, each seeing what the ones before it defined."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if ">>>" in block:
            examples = doctest.DocTestParser().get_doctest(block, names, str(page), str(page), 0)
            assert doctest.DocTestRunner().run(examples, clear_globs=False).failed == 0
        else:
            exec(compile(block, str(page), "exec"), names)


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
STEP = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorials_run_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python blocks and ``$ understudy`` lines in the order of the page, in one empty folder, as a reader would."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    ran = 0
    for language, block in STEP.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, str(page), "exec"), names)
            continue
        for line in block.splitlines():
            assert line.startswith("$ understudy "), f"{page.name}: a reader cannot run {line!r}"
            run = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "understudy.cli.main",
                    *shlex.split(line.removeprefix("$ understudy ")),
                ],
                capture_output=True,
                text=True,
            )
            assert run.returncode == 0, f"{line}\n{run.stdout}\n{run.stderr}"
            ran += 1
    assert ran or "```python" in page.read_text(encoding="utf-8")


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs builds the site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    front = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', front)
    assert not fetched, fetched
    found = {entry["location"].split("#")[0] for entry in json.loads((tmp_path / "site" / "search" / "search_index.json").read_text("utf-8"))["docs"]}  # fmt: skip
    assert "explanation/noise.html" in found
    assert not [page for page in found if page.startswith("measured/")], "raw output drowns what explains it"
    assert front.count("Raw benchmark output") >= 1
    for page in (ROOT / "docs" / "measured").glob("*.md"):
        assert f'href="measured/{page.stem}.html"' in front, f"{page.name} is not in the navigation"


OWN_METHODS = [item.name for item in methods() if item.package is None]


def _page_of(name: str) -> str:
    page = ROOT / "docs" / "methods" / f"{name}.md"
    assert page.exists(), f"docs/methods/{name}.md is missing: start from docs/methods/independent.md"
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", OWN_METHODS)
def test_every_method_has_a_page_with_the_same_headings(name: str) -> None:
    found = re.findall(r"^## (.+)$", _page_of(name), re.MULTILINE)
    assert tuple(found[: len(HEADINGS)]) == HEADINGS, "the headings of a method's page, in this order"


@pytest.mark.parametrize("name", OWN_METHODS)
def test_every_option_of_a_method_is_on_its_page(name: str) -> None:
    folder = ROOT / "docs" / "methods"
    page = _page_of(name)
    for other in re.findall(r"Those of \[`([a-z-]+)`\]", page):
        page += (folder / f"{other}.md").read_text(encoding="utf-8")
    cls: Any = method(name).load()
    options = {field.name for field in dataclasses.fields(cls)}
    told = set(re.findall(r"`([a-z0-9_]+)", page))
    assert options <= told, f"docs/methods/{name}.md, Options: no word about {sorted(options - told)}"


NOTEBOOK_PAGES = {
    ROOT / "docs" / "notebooks" / f"{path.stem}.md"
    for path in (ROOT / "examples" / "notebooks").glob("*.ipynb")
}
"""Pages that docs/hooks.py makes when the site is built."""


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8")):
            place = page.parent / target
            made = place.resolve() in NOTEBOOK_PAGES
            assert made or place.exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_front_door_is_exactly_what_it_says() -> None:
    for name in understudy.__all__:
        assert getattr(understudy, name) is not None
    assert set(understudy.__all__) == set(understudy._HOMES) | {"datasets", "plots", "__version__"}
    assert len(understudy.__all__) <= 40


def test_what_the_front_door_calls_release_does_not_depend_on_what_was_imported() -> None:
    """A function of that name would be hidden by the package as soon as a part of it is imported."""
    code = (
        "import understudy; from understudy import publish, Spec; import understudy.release.spec.spec; import types; "
        "assert understudy.publish is publish and callable(publish); assert isinstance(understudy.release, types.ModuleType); "
        "print(understudy.__version__)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == metadata.version("understudy")


def test_the_readme_shows_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_importing_is_light_and_silent() -> None:
    """No heavy library may be imported by ``import understudy``; numbers are in the benchmarks."""
    code = (
        "import sys, json; import numpy; before = set(sys.modules); import understudy; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(run.stdout)
    heavy = {
        "numba",
        "scipy",
        "pandas",
        "pyarrow",
        "pydantic",
        "typer",
        "rich",
        "opendp",
        "matplotlib",
        "polars",
    }
    assert not heavy & {name.split(".")[0] for name in loaded}
    assert run.stderr == ""


def test_the_suite_is_still_there(request: pytest.FixtureRequest) -> None:
    """A collection that silently loses its tests is a finding."""
    names = {item.nodeid.split("::")[0] for item in request.session.items}
    files = list((ROOT / "tests").rglob("test_*.py"))
    if len(names) < 0.8 * len(files):  # files of absent services are left out
        pytest.skip("only part of the suite was asked for")
    assert len(request.session.items) > 5_000


def test_generated_pages_are_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, f"{run.stdout}{run.stderr}Run `make docs` and commit the pages it writes."


def test_every_look_is_short_and_argued() -> None:
    """Each place where a seal is opened fits on a screen and says why its charge covers what leaves."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import looks
    finally:
        sys.path.pop(0)
    found = looks.looks()
    assert len(found) > 15
    for look in found:
        assert look.lines <= 45, look.place
        assert look.summary, f"{look.place} does not say what it does"
        assert len(look.argument + look.head) > 80, f"{look.place} says too little about privacy"
