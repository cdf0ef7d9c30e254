"""Report, documents and site in a real browser: no request leaves, nothing fails, people can search, switch and print."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import understudy

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; on Debian: apt-get install chromium")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo bundle, and an evaluation of its rows against themselves."""
    place = tmp_path_factory.mktemp("pages")
    made = understudy("demo", "--out", place / "out")
    assert made.code == 0, made.err
    bundle = place / "out" / "bundle"
    told = understudy(
        "evaluate", bundle / "data.csv", bundle / "data.csv", "--schema", bundle / "schema.yaml",
        "--sections", "marginals,dependence", "--report", place / "evaluation.html",
    )  # fmt: skip
    assert told.code == 0, told.err
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def pages(folder: Path) -> dict[str, Path]:
    return {
        "report": folder / "out" / "bundle" / "report.html",
        "evaluation": folder / "evaluation.html",
        "readme": folder / "out" / "bundle" / "README.html",
        "dictionary": folder / "out" / "bundle" / "dictionary.html",
        "annex": folder / "out" / "bundle" / "documents" / "dpia-annex.html",
    }


@pytest.fixture(params=["report", "evaluation", "readme", "dictionary", "annex"])
def opened(
    request: pytest.FixtureRequest, folder: Path, browser: Any
) -> Iterator[tuple[str, Any, list[str]]]:
    """A page as opened from the file system, with everything it asked for and complained about."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda asked: heard.append(f"request: {asked.url}"))
    path = pages(folder)[request.param]
    page.goto(path.as_uri())
    yield request.param, page, heard
    page.close()


def test_nothing_is_fetched_and_nothing_fails(opened: tuple[str, Any, list[str]], folder: Path) -> None:
    name, _, heard = opened
    assert heard == [f"request: {pages(folder)[name].as_uri()}"]
    assert pages(folder)[name].stat().st_size < 3_000_000


def test_an_accessibility_audit_finds_nothing_serious(opened: tuple[str, Any, list[str]]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe audits the pages")
    _, page, _ = opened
    for theme in ("light", "dark"):
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        found = axe.Axe().run(page).response["violations"]
        serious = [item["id"] for item in found if item["impact"] in ("serious", "critical")]
        assert not serious, (theme, [(item["id"], item["nodes"][0]["html"][:200]) for item in found])


def test_the_theme_can_be_switched(opened: tuple[str, Any, list[str]]) -> None:
    _, page, _ = opened
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.locator("#theme").click()
    after = page.evaluate(ground)
    assert before != after
    page.locator("#theme").click()
    assert page.evaluate(ground) == before


def test_the_bounds_can_be_searched(opened: tuple[str, Any, list[str]]) -> None:
    name, page, _ = opened
    if name not in ("report", "evaluation"):
        pytest.skip("short documents have no bounds to search")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    part = page.locator(".searchable").first
    rows = part.locator("tbody tr:visible")
    all_rows = rows.count()
    assert all_rows > 8
    part.locator("input").fill("birth_weight")
    narrowed = rows.count()
    assert 0 < narrowed < all_rows, name
    assert all("birth_weight" in text for text in rows.all_inner_texts())
    assert part.locator(".found").inner_text().startswith(f"{narrowed} of ")
    part.locator("input").fill("no such column")
    assert rows.count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_runs_off_the_side(opened: tuple[str, Any, list[str]], width: int) -> None:
    _, page, _ = opened
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_everything(opened: tuple[str, Any, list[str]]) -> None:
    name, page, _ = opened
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName"))
    boxes = {"INPUT"} if name in ("report", "evaluation") else set()
    assert {"A", "BUTTON"} | boxes <= reached


def test_print_shows_what_is_folded(opened: tuple[str, Any, list[str]]) -> None:
    _, page, _ = opened
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert not page.locator("#theme").is_visible()


def test_paper_is_light_whatever_the_screen_was(opened: tuple[str, Any, list[str]]) -> None:
    _, page, _ = opened
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF-")
    assert len(printed) > 10_000


# ---------------------------------------------------------------------- the first screen of a report


@pytest.fixture
def report(folder: Path, browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.goto(pages(folder)["report"].as_uri())
    yield page
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_screen_holds_what_a_director_reads(report: Any, scheme: str) -> None:
    """What it is, three things to read off, three it cannot tell, what it means, the promise and the label: within 900 pixels."""
    report.emulate_media(color_scheme=scheme)
    first = report.locator(".first")
    headings = first.locator("h2").all_inner_texts()
    assert len(headings) == 6
    assert "Privacy label" in headings
    box = first.bounding_box()
    assert box["y"] + box["height"] <= 900
    assert first.locator(".figures li").count() == 3
    assert first.locator(".figures i").count() == 3, "each with its range"
    assert first.locator("ul:not(.figures) li").count() == 3
    ink, ground = (
        report.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor")
    )
    assert ink != ground


@pytest.mark.parametrize("width", [1300, 390])
def test_nothing_in_a_report_is_cut_or_hidden_beside_the_screen(report: Any, width: int) -> None:
    """Tables need no scrolling to the side, words stay in their boxes, and the text of pictures inside them."""
    report.set_viewport_size({"width": width, "height": 900})
    scrolled = report.evaluate(
        "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel)"
    )
    assert scrolled == []
    beside = report.evaluate(
        """[...document.querySelectorAll('main p, main li, main dd, main td, main h2')]
        .filter(e => e.offsetParent && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.textContent)"""
    )
    assert beside == []
    cut = report.evaluate(
        """[...document.querySelectorAll('svg text')].filter(e => {
            const t = e.getBoundingClientRect(), s = e.ownerSVGElement.getBoundingClientRect();
            return t.left < s.left - 1 || t.right > s.right + 1 || t.top < s.top - 1 || t.bottom > s.bottom + 1;
        }).map(e => e.textContent)"""
    )
    assert cut == []


def test_the_report_on_paper_begins_with_its_first_screen_on_one_page(report: Any, tmp_path: Path) -> None:
    """Printed on A4 the first screen is not broken, and tables keep their columns."""
    report.emulate_media(media="print")
    report.set_viewport_size({"width": 794 - 121, "height": 1123 - 136})  # A4 without the margins of the page
    box = report.locator(".first").bounding_box()
    assert box["y"] + box["height"] <= 1123 - 136
    assert (
        report.locator("table.stacked td").first.evaluate("e => getComputedStyle(e).display") == "table-cell"
    )
    assert not report.locator("nav").is_visible()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The documentation, built and served on loopback."""
    pytest.importorskip("mkdocs", reason="mkdocs builds the site")
    place = tmp_path_factory.mktemp("site") / "site"
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", place],
        cwd=ROOT, check=True, capture_output=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    handler = functools.partial(_Quiet, directory=str(place))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Say nothing: the tests look at the browser's side."""


@pytest.fixture
def documentation(site: str, browser: Any) -> Iterator[tuple[Any, list[str]]]:
    """The first page of the site, with everything it asked of others and complained about."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    heard: list[str] = []
    page.on("console", lambda message: message.type == "error" and heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on(
        "request", lambda asked: asked.url.startswith((site, "data:", "blob:")) or heard.append(asked.url)
    )
    page.goto(f"{site}/index.html")
    yield page, heard
    page.close()


def test_the_documentation_can_be_searched_and_asks_nobody_else(documentation: tuple[Any, list[str]]) -> None:
    page, heard = documentation
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").press_sequentially("plausible deniability")  # it listens to keys
    found = page.locator(".md-search-result__link").first
    found.wait_for(timeout=20_000)
    assert "deniability" in found.inner_text().lower()
    found.click()
    page.wait_for_load_state()
    assert "deniability" in page.url
    assert heard == []


def test_the_documentation_switches_its_theme(documentation: tuple[Any, list[str]]) -> None:
    page, heard = documentation
    before = page.locator("body").get_attribute("data-md-color-scheme")
    page.locator("label.md-header__button[title=Dark], label.md-header__button[title=Light]").locator(
        "visible=true"
    ).first.click()
    assert page.locator("body").get_attribute("data-md-color-scheme") != before
    assert heard == []


@pytest.mark.parametrize("name", ["index.html", "methods/aim.html", "explanation/promise.html"])
def test_the_documentation_has_no_serious_barrier(
    name: str, site: str, documentation: tuple[Any, list[str]]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe audits the pages")
    page, _ = documentation
    page.goto(f"{site}/{name}")
    found = axe.Axe().run(page).response["violations"]
    serious = [item for item in found if item["impact"] in ("serious", "critical")]
    assert not serious, [(item["id"], item["nodes"][0]["html"][:200]) for item in serious]
