"""The page of an evaluation of thirty columns in a real browser: short, readable on a telephone, the worst things on the first screen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command import understudy

from understudy import datasets
from understudy.schema import Schema

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; on Debian: apt-get install chromium")

LONG = "highest_qualification_of_the_person_who_answered_for_the_household"
ROWS = 3000


def table() -> tuple[pd.DataFrame, Schema]:
    """Thirty columns: a survey, further answers with long names and labels, and a column that gives the income class away."""
    frame, schema = datasets.load("survey", ROWS, seed=3)
    generator = np.random.default_rng(4)
    target = "income_class"
    facts = schema.to_dict()
    columns = list(facts["columns"])
    labels = [
        f"{word} than anybody would have thought before" for word in ("more", "less", "neither more nor less")
    ]
    frame[LONG] = generator.choice(labels, len(frame))
    columns.append({"name": LONG, "kind": "categorical", "values": labels})
    frame["tax_band"] = np.where(frame[target].astype(str) == str(frame[target].mode()[0]), "basic", "higher")
    columns.append({"name": "tax_band", "kind": "categorical", "values": ["basic", "higher"]})
    for number in range(30 - len(frame.columns)):
        name = f"answer_{number:02d}"
        frame[name] = generator.binomial(4, 0.2 + number / 40, len(frame)).astype(str)
        columns.append({"name": name, "kind": "categorical", "values": list("01234")})
    return frame, Schema.parse(json.dumps({**facts, "columns": columns}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit with a hold-out and its evaluation, as a custodian makes them."""
    place = tmp_path_factory.mktemp("thirty")
    frame, schema = table()
    assert len(frame.columns) == len(schema.names) == 30
    frame.to_csv(place / "real.csv", index=False)
    schema.write(place / "schema.yaml")
    made = understudy(
        "synth", place / "real.csv", "--schema", place / "schema.yaml", "--method", "independent", "--epsilon", 3,
        "--unit", "add-remove", "--out", place / "made.csv", "--hold-out", 0.2, "--seed", 1,
    )  # fmt: skip
    assert made.code == 0, made.err
    told = understudy(
        "evaluate", place / "real.csv", place / "made.csv", "--schema", place / "schema.yaml", "--target", "income_class",
        "--hold-out-file", place / "real.hold-out", "--report", place / "evaluation.html", "--out", place / "evaluation.json",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert "tax_band (nearly) gives income_class away" in told.out + told.err
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(params=[1300, 390])
def opened(request: pytest.FixtureRequest, folder: Path, browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": request.param, "height": 900})
    page.goto((folder / "evaluation.html").as_uri())
    yield page
    page.close()


def test_it_is_short_and_nothing_runs_off_the_side(opened: Any) -> None:
    assert opened.evaluate("document.documentElement.scrollHeight") <= 8_000
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.viewport_size["width"]
    opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.viewport_size["width"]


def test_the_first_screen_says_what_was_compared_what_is_worst_and_the_scores(opened: Any) -> None:
    wide = opened.viewport_size["width"] > 1000
    for text in ("Compared:", "The worst of each kind", "Scores"):
        box = opened.get_by_text(text).first.bounding_box()
        assert box is not None
        assert box["y"] < (900 if wide else 1_200), text
    assert opened.locator(".worst li").count() == 3


def test_no_label_is_cut(opened: Any) -> None:
    """Every name is there in full, inside the window."""
    names = opened.locator(".lines .what").all_inner_texts()
    assert any(LONG in name for name in names)
    outside = opened.evaluate(
        "[...document.querySelectorAll('.lines .what, .cards li, .worst li')].filter(e => e.scrollWidth > e.clientWidth + 1"
        " || e.getBoundingClientRect().right > innerWidth).map(e => e.textContent)"
    )
    assert outside == []
    assert "…" not in opened.locator("main").inner_text()


def test_every_column_opens_to_its_values(opened: Any) -> None:
    columns = opened.locator("section:has(h2:text('Columns')) .lines > details")
    assert columns.count() == 30
    values = columns.first.locator("tbody tr")
    assert not values.first.is_visible()
    columns.first.locator("summary").click()
    assert values.first.is_visible()


def test_an_audit_finds_nothing_serious(opened: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe audits the pages")
    for unfold in (False, True):
        if unfold:
            opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for theme in ("light", "dark"):
            opened.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            found = axe.Axe().run(opened).response["violations"]
            serious = [item for item in found if item["impact"] in ("serious", "critical")]
            assert not serious, [(item["id"], item["nodes"][0]["html"][:200]) for item in serious]


def test_the_numbers_of_page_and_file_agree(opened: Any, folder: Path) -> None:
    document = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    worst = document["columns"][0]
    first = opened.locator("section:has(h2:text('Columns')) .lines > details > summary").first.inner_text()
    assert worst["column"] in first
    assert f"{worst['value']:.1%}" in first
    assert document["learning"]["fair"]
    assert document["learning"]["leaks"][0]["column"] == "tax_band"
    assert document["compared"]["held_out_rows"] + document["compared"]["real_rows"] == ROWS
