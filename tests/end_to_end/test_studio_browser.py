"""The studio in a real browser: the births design from nothing to a release with its approvals, by hand, by keyboard, with and without scripts."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from command import understudy

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
pytest.importorskip("starlette", reason="the studio is an extra")
ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; on Debian: apt-get install chromium")

PAGES = (
    "/", "/schema", "/schema/tables", "/schema/columns/1", "/schema/rules", "/schema/file", "/designs", "/designs/births",
    "/designs/births/file", "/designs/births/rehearsal", "/designs/births/agree", "/agree",
    "/compare?left=births&right=other", "/shelf", "/shelf/ledger?path=births.ledger", "/shelf/release?path={bundle}",
    "/shelf/compare?left={bundle}&right={bundle}", "/nowhere",
)  # fmt: skip


SIGHTS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 390)]


class Studio:
    """A running studio, one browser that was let in, and everything that browser asked for."""

    def __init__(self, folder: Path, driver: Any) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "understudy", "studio", str(folder), "--port", "0", "--no-browser"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        self.origin = self.address.partition("/enter")[0]
        self._chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        self.context = self._chromium.new_context(viewport={"width": 1280, "height": 900})
        self.asked: list[str] = []
        self.heard: list[str] = []
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.context.on(
            "console", lambda message: message.type == "error" and self.heard.append(message.text)
        )
        self.context.on(
            "response", lambda answer: answer.status == 404 and self.heard.append(f"not found: {answer.url}")
        )
        self.page = self.context.new_page()
        self.page.goto(self.address)
        self.page.wait_for_url(f"{self.origin}/")

    exported: str = ""
    """The page to send around, once it was made."""

    def other(self, **options: Any) -> Any:
        """Return another browser window with the same cookie."""
        found = self._chromium.new_context(storage_state=self.context.storage_state(), **options)
        found.on("request", lambda request: self.asked.append(request.url))
        return found

    def go(self, path: str) -> Any:
        self.page.goto(f"{self.origin}{path}")
        return self.page

    def close(self) -> None:
        self._chromium.close()
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=30)  # waits, and closes its pipe


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with sync_api.sync_playwright() as driver:
        made = Studio(tmp_path_factory.mktemp("studio"), driver)
        yield made
        made.close()


@pytest.fixture(scope="module")
def births(studio: Studio) -> Studio:
    """The births design, made from nothing and rehearsed."""
    page = studio.go("/schema")
    page.set_input_files("#file", ROOT / "examples" / "births" / "schema.yaml")
    page.get_by_role("button", name="Take this schema").click()
    page.get_by_role("link", name="birth_weight").wait_for()
    studio.go("/designs")
    page.get_by_label("Name").fill("births")
    page.get_by_label("Begin with").select_option("simulate:births")
    page.get_by_role("button", name="Make it").click()
    page.wait_for_url("**/designs/births")
    # the simulated registry has the day of birth and a truth value where the schema has month and sex
    fill = {
        "Total epsilon": "6",
        "Epsilon of the one test": "1",
        "Rows to simulate": "8000",
        "Number of rows": "epsilon 0.1",
        "Expected number of rows": "7900",
        "Every record occurs at least": "2",
        "Title of the published table": "Singleton live births",
        "Columns computed while reading": (
            "birth_month: {from: date_of_birth, part: month}\n"
            "birth_sex: {from: is_female, values: {'False': M, 'True': F}}"
        ),
        "Rules that raw records must obey; others are left out": (
            "birth_weight >= 500 and birth_weight <= 5500\ngestation_week >= 22 and gestation_week <= 44"
        ),
        "Rules that synthetic records must obey": "not (mother_age < 20 and parity > 3)",
        "Rows": "4000",
        "Trials for each total": "2",
    }
    page.get_by_label("Neighbouring tables").select_option("replace-one")
    for label, text in fill.items():
        page.get_by_label(label, exact=True).fill(text)
    page.get_by_label("Threshold").first.fill("0.05")
    page.get_by_label("Another criterion").select_option("conditional-means")
    page.get_by_role("button", name="Add it").click()
    page.locator("#criterion-1-threshold").fill("300")
    page.locator("#criterion-1-more").fill("column: birth_weight")
    page.locator("#criterion-1-name").fill("mean birth weight")
    page.get_by_role("button", name="Save and rehearse").click()
    page.wait_for_url("**/designs/births#rehearsal")
    page.locator("figure a[href*='epsilon=']").nth(4).wait_for(timeout=90_000)
    return studio


def accepted(page: Any) -> int:
    text = page.locator("#acceptance").inner_text()
    return int(text.removesuffix(" %"))


def test_thresholds_move_the_acceptance_while_one_types(births: Studio) -> None:
    page = births.go("/designs/births")
    before = accepted(page)
    page.get_by_label("Threshold").first.fill("0.0001")
    page.get_by_text("Estimated at once").wait_for()
    assert accepted(page) == 0 < before
    page.get_by_label("Threshold").first.fill("0.05")
    sync_api.expect(page.locator("#acceptance")).to_have_text(f"{before} %")
    page.locator("#total_epsilon").fill("nothing")
    page.get_by_text("is not a number").first.wait_for()


def test_a_point_of_the_frontier_sets_the_total(births: Studio) -> None:
    page = births.go("/designs/births")
    page.locator("figure a[href*='epsilon=']").first.click()
    page.wait_for_url("**?epsilon=1.5")
    assert page.locator("#total_epsilon").input_value() == "1.5"
    page.get_by_text("not saved yet").wait_for()
    page.go_back()
    page.wait_for_url("**/designs/births")
    assert page.locator("#total_epsilon").input_value() == "6"


def test_a_rehearsal_can_be_cancelled(births: Studio) -> None:
    page = births.go("/designs")
    page.get_by_label("Name").fill("other")
    page.get_by_label("Begin with").select_option("copy:births")
    page.get_by_role("button", name="Make it").click()
    page.locator("#total_epsilon").fill("5")
    page.get_by_label("Rows", exact=True).fill("200000")
    page.get_by_label("Trials for each total").fill("100")
    page.get_by_role("button", name="Save and rehearse").click()
    page.get_by_role("button", name="Cancel the rehearsal").click()
    page.get_by_text("what it has done so far is kept").wait_for()


def test_two_tabs_reload_and_back(births: Studio) -> None:
    page = births.go("/designs/other")
    tab = births.context.new_page()
    tab.goto(f"{births.origin}/designs/other")
    tab.get_by_label("Licence").fill("CC0-1.0")
    tab.get_by_role("button", name="Save", exact=True).click()
    tab.wait_for_load_state()
    tab.reload()  # a page after a change is one that was asked for, not sent: nothing happens twice
    assert tab.get_by_label("Licence").input_value() == "CC0-1.0"
    tab.close()
    page.get_by_label("Licence").fill("mine")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("changed meanwhile").wait_for()
    page.go_back()
    page.get_by_label("Licence").wait_for()


def test_agreed_signed_and_released_unchanged(births: Studio) -> None:
    page = births.go("/designs/births/agree")
    page.get_by_label("Your name").first.fill("Ada <b>Berg</b>")
    page.get_by_label("Comment", exact=True).fill("<img src=x onerror=alert(1)> Why 6?")
    page.get_by_role("button", name="Add the comment").click()
    page.get_by_text("Why 6?").wait_for()
    page.get_by_role("button", name="Sign: write the specification").click()
    page.get_by_text("owner: nobody approved it").first.wait_for()
    for role, name in (("owner", "Ada Berg"), ("statistician", "Bo Chen")):
        page.locator("#approve_name").fill(name)
        page.locator("#approve_role").select_option(role)
        page.get_by_label("I approve version").check()
        page.get_by_role("button", name="Approve", exact=True).click()
        page.get_by_text(name).first.wait_for()
    page.get_by_label("Publish the comments").check()
    page.get_by_role("button", name="Sign: write the specification").click()
    command = page.locator("pre code").inner_text()
    words = shlex.split(command)
    assert words[:2] == ["understudy", "release"]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--quiet"],
        cwd=births.folder,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    bundle = births.folder / words[words.index("--out") + 1]
    certificate = json.loads((bundle / "certificate.json").read_text())
    assert [item["statement"]["name"] for item in certificate["approvals"]] == ["Ada Berg", "Bo Chen"]
    assert certificate["agreement"]["comments"][0]["text"].endswith("Why 6?")
    verified = understudy("verify", bundle)
    assert verified.code == 0, verified.err
    assert "The agreement that was signed, with 1 comment, has the hash" in verified.out
    record = births.folder / Path(words[2]).parent / "agreement.json"
    whole = record.read_text()
    record.write_text(whole.replace("Why 6?", "Why 7?"))
    refused = understudy(
        "release", births.folder / words[2], "--ledger", births.folder / "new.ledger", "--quiet"
    )
    record.write_text(whole)
    assert refused.code != 0
    assert "Nothing was spent" in refused.err
    assert not (births.folder / "new.ledger").exists()
    births.go("/shelf")
    page.get_by_role("link", name="Singleton live births").click()
    page.get_by_role("button", name="Verify this bundle").click()
    page.get_by_text("the bundle is what was published").wait_for()
    page.get_by_text("approved by Ada Berg as owner").wait_for()
    page.get_by_role("link", name="Read the report").click()
    page.get_by_role("heading", name=re.compile("Singleton live births")).first.wait_for()


def test_the_exported_page_is_complete_and_asks_for_nothing(births: Studio, tmp_path: Path) -> None:
    page = births.go("/designs/births")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Page to send around").click()
    file = tmp_path / "births.html"
    waiting.value.save_as(file)
    alone = births.context.new_page()
    asked: list[str] = []
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto(file.as_uri())
    alone.get_by_role("heading", name="How probably a table is published").wait_for()
    assert alone.locator("svg[aria-label='Probability of acceptance by total epsilon']").count() == 1
    assert asked == [file.as_uri()]
    births.asked.remove(file.as_uri())
    births.exported = file.read_text(encoding="utf-8")
    alone.close()


BREAKABLE = (
    "total_epsilon", "total_delta", "acceptance_epsilon", "false_accept", "max_rows", "source_rows", "row_count", "expected_rows", "min_count",
    "derive", "constraints", "criterion-0-threshold", "criterion-0-more", "criterion-1-threshold", "criterion-1-more",
    "rehearsal_rows", "rehearsal_trials",
)  # fmt: skip


def break_everything(page: Any) -> None:
    """Write what nobody can read into every field that can be wrong by itself, and save."""
    for name in BREAKABLE:
        page.locator(f"#{name}").fill("{nonsense")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("#alert").wait_for()


def test_every_broken_field_says_so_and_keeps_what_was_typed(births: Studio) -> None:
    page = births.go("/designs/other")
    before = (births.folder / "designs" / "other.yaml").read_text()
    break_everything(page)
    page.locator("#alert:focus").wait_for()  # a screen reader begins there
    for name in BREAKABLE:
        field = page.locator(f"#{name}")
        assert field.get_attribute("aria-invalid") == "true", name
        assert page.locator(f"#{name}-complaints").is_visible(), name
        assert field.input_value() == "{nonsense"
    assert (births.folder / "designs" / "other.yaml").read_text() == before


def test_a_design_by_keyboard_alone(births: Studio) -> None:
    page = births.go("/designs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    reach(page, "name")
    page.keyboard.type("keys")
    page.keyboard.press("Enter")
    page.wait_for_url("**/designs/keys")
    reach(page, "total_epsilon")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Control+A")
    page.keyboard.type("0.7")
    page.keyboard.press("Enter")
    page.wait_for_load_state()
    assert outline == "solid"
    assert page.locator("#total_epsilon").input_value() == "0.7"
    births.go("/designs/keys/agree")
    reach(page, "approve_name")
    page.keyboard.type("Ada Berg")
    reach(page, "approve_sure")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Ada Berg,").wait_for()
    reach(page, "publish_comments")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("This version is signed").wait_for()


def reach(page: Any, name: str) -> None:
    """Press Tab until a control has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == name:
            return
    raise AssertionError(f"{name} cannot be reached by keyboard")


def test_everything_works_without_scripts(births: Studio) -> None:
    plain = births.other(java_script_enabled=False)
    page = plain.new_page()
    page.goto(f"{births.origin}/designs/other")
    page.locator("#total_epsilon").fill("3")
    page.get_by_role("button", name="Show what follows").click()
    page.get_by_text("not saved yet").wait_for()
    assert "epsilon=3 (pure" in page.locator("#consequences").inner_text()
    page.get_by_role("button", name="Save and rehearse").click()
    page.get_by_role("link", name="See how far it is").click()
    page.wait_for_load_state()
    assert (
        page.locator("noscript meta[http-equiv=refresh]").count()
        + page.locator("head meta[http-equiv=refresh]").count()
    )
    page.get_by_role("button", name="Cancel the rehearsal").click()
    page.get_by_text("what it has done so far is kept").wait_for()
    plain.close()


def test_an_audit_finds_no_serious_barrier_and_nothing_runs_off_the_side(births: Studio) -> None:
    """Every page in light and dark, on a desk and on a telephone; it is loaded once and looked at four times."""
    base = pytest.importorskip("axe_playwright_python.base", reason="axe audits the pages")
    window = births.other(bypass_csp=True)
    page = window.new_page()
    bundle = next((births.folder / "releases").iterdir()).relative_to(births.folder)

    def audited(where: str) -> None:
        page.evaluate(base.AXE_SCRIPT)
        page.add_style_tag(
            content="* {transition: none !important}"
        )  # colours that are still changing are nobody's
        for scheme, width in SIGHTS:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            found = page.evaluate("axe.run({resultTypes: ['violations'], iframes: false})")["violations"]
            serious = [item for item in found if item["impact"] in ("serious", "critical")]
            about = [(item["id"], item["nodes"][0]["html"][:200]) for item in serious]
            assert not serious, (where, scheme, width, about)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (where, scheme, width)
            heights = page.evaluate(
                "[...document.querySelectorAll('.tiles li')].map(item => item.clientHeight)"
            )
            assert max(heights, default=0) < 130, (
                where,
                scheme,
                width,
            )  # words are not squeezed into columns of letters

    for path in PAGES:
        page.goto(f"{births.origin}{path.format(bundle=quote(str(bundle)))}")
        audited(path)
    page.goto(f"{births.origin}/designs/other")  # and a page that is full of complaints
    break_everything(page)
    audited("complaints")
    page.set_content(births.exported)
    audited("export")
    window.close()


def test_no_request_left_the_machine_and_no_script_was_refused(births: Studio) -> None:
    assert len(births.asked) > 50
    assert [url for url in births.asked if not url.startswith((f"{births.origin}/", "data:"))] == []
    refused = [text for text in births.heard if "409" not in text and "422" not in text]
    assert refused == []
