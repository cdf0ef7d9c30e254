"""Ledgers as bars, releases with their reports, verification by a click, two bundles side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_an_empty_folder_says_what_to_do(browser: Any) -> None:
    assert "Begin here" in browser.get("/").text
    assert "No ledger lies in this folder yet" in browser.get("/shelf").text


def test_ledgers_and_releases_are_found_and_nothing_of_theirs_is_markup(browser: Any, shelf: Path) -> None:
    text = browser.get("/shelf").text
    assert text.count('<article class="card">') == 4
    assert "Spent: epsilon" in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(2024)" in text
    assert "2 ledgers, 2 releases" in browser.get("/").text


def test_a_ledger_shows_bar_entries_and_promise(browser: Any, shelf: Path) -> None:
    text = browser.get("/shelf/ledger?path=releases/toy-2024.ledger").text
    assert "<svg" in text
    assert "Promise: epsilon=4" in text
    assert text.count("<tr>") > 3
    assert "Exact public facts that the promise presumes" in text


def test_a_broken_ledger_is_shown_as_broken(browser: Any, shelf: Path) -> None:
    (shelf / "toy-2024.ledger").write_bytes(b"not a ledger")
    assert 'class="bad"' in browser.get("/shelf").text
    assert 'role="alert"' in browser.get("/shelf/ledger?path=releases/toy-2024.ledger").text


def test_verification_by_a_click(browser: Any, shelf: Path) -> None:
    sound = browser.post("/shelf/verify", {"path": "releases/2024"}).text
    assert "the bundle is what was published" in sound
    data = shelf / "2024" / "data.csv"
    data.write_text(data.read_text().replace("day", "general", 1))
    spoilt = browser.post("/shelf/verify", {"path": "releases/2024"}).text
    assert "data.csv was changed" in spoilt
    assert "the bundle is what was published" not in spoilt


def test_a_release_shows_its_certificate_and_its_report(browser: Any, shelf: Path) -> None:
    text = browser.get("/shelf/release?path=releases/2025").text
    assert "800 synthetic rows" in text
    assert "Verify this bundle" in text
    report = browser.get("/shelf/file?path=releases/2025&file=report.html")
    assert report.text.startswith("<!doctype html>")
    assert "<script>alert" not in report.text


def test_a_bundle_that_is_none_is_said_to_be_none(browser: Any, shelf: Path) -> None:
    (shelf / "2025" / "certificate.json").write_text("[1]")
    assert "cannot be read as a bundle" in browser.get("/shelf").text
    assert browser.get("/shelf/release?path=releases/2025").status_code == 200


def test_two_releases_are_compared(browser: Any, shelf: Path) -> None:
    text = browser.get("/shelf/compare?left=releases/2024&right=releases/2025").text
    assert "threshold 0.4" in text
    assert "threshold 0.5" in text
    assert text.count('class="differs"') >= 2
    same = browser.get("/shelf/compare?left=releases/2024&right=releases/2024").text
    assert 'class="differs"' not in same


def test_the_tables_of_two_releases_are_compared_after_both_are_verified(browser: Any, shelf: Path) -> None:
    both = {"left": "releases/2024", "right": "releases/2025"}
    text = browser.post("/shelf/changes", both).text
    assert "What has changed" in text
    assert "stay_days" in text
    assert "noise alone" in text
    (shelf / "2025" / "data.csv").write_text("ward,stay_days\nday,1\n")
    spoilt = browser.post("/shelf/changes", both)
    assert spoilt.status_code == 422
    assert "data.csv was changed" in spoilt.text
    assert browser.post("/shelf/changes", both | {"left": "../x"}).status_code == 404


def test_there_is_no_other_page(browser: Any) -> None:
    answer = browser.get("/nowhere")
    assert answer.status_code == 404
    assert "no such page" in answer.text
    assert browser.get("/static/../security.py").status_code == 404
    assert browser.get("/static/nothing.css").status_code == 404
    assert ".desk" in browser.get("/static/studio.css").text
    assert "preview" in browser.get("/static/studio.js").text
