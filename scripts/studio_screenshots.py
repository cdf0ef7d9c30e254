"""Make the pictures of the studio in the documentation: ``python scripts/studio_screenshots.py`` (needs Chromium and Playwright).

A studio is opened on a folder that is thrown away; a browser makes the births design of ``examples/births``, rehearses it on the simulated registry,
has it approved and signed, and takes a picture of each page into ``docs/assets``.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TRIALS = "3"
EMPTY = 20_000
"""Bytes of a picture with nothing on it, and more."""


def take(page: Any, out: Path, name: str) -> None:
    """Take one picture of what fits the window."""
    page.evaluate("window.scrollTo(0, 0)")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    picture = page.screenshot(path=out / f"studio-{name}.png", animations="disabled")
    if len(picture) < EMPTY:
        raise SystemExit(f"The picture of {page.url} is empty.")


def tour(page: Any, address: str, folder: Path, out: Path) -> None:
    """Go through the studio as its users do."""
    origin = address.partition("/enter")[0]
    page.goto(address)
    page.wait_for_url(f"{origin}/")
    page.goto(f"{origin}/schema")
    page.set_input_files("#file", ROOT / "examples" / "births" / "schema.yaml")
    page.get_by_role("button", name="Take this schema").click()
    page.get_by_role("link", name="birth_weight").wait_for()
    take(page, out, "schema")
    (folder / "designs").mkdir()
    text = (ROOT / "examples" / "births" / "spec.yaml").read_text(encoding="utf-8")
    (folder / "designs" / "births.yaml").write_text(
        text.replace("schema: schema.yaml", "schema: ../schema.yaml")
    )
    page.goto(f"{origin}/designs/births")
    page.get_by_label("Trials for each total").fill(TRIALS)
    page.get_by_role("button", name="Save and rehearse").click()
    page.locator("figure a[href*='epsilon=']").nth(4).wait_for(timeout=900_000)
    page.goto(f"{origin}/designs/births")
    take(page, out, "design")
    page.goto(f"{origin}/designs/births/agree")
    page.locator("#comment_name").fill("Ada Berg")
    page.locator("#comment_role").select_option("lawyer")
    page.locator("#comment").fill("What may somebody who knows the hospital learn about one birth?")
    page.get_by_role("button", name="Add the comment").click()
    for role, name in (("owner", "Bo Chen"), ("statistician", "Cleo Diaz")):
        page.locator("#approve_name").fill(name)
        page.locator("#approve_role").select_option(role)
        page.get_by_label("I approve version").check()
        page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_role("button", name="Sign: write the specification").click()
    page.locator("pre code").wait_for()
    page.goto(f"{origin}/designs/births/agree")
    take(page, out, "agree")
    done = subprocess.run(
        [sys.executable, "-m", "understudy", "demo", "--out", "demo"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        page.goto(f"{origin}/shelf")
        take(page, out, "shelf")


def main() -> None:
    """Start a studio, take the pictures, stop it."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description="Pictures of the studio")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "assets")
    out = parser.parse_args().out
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory(prefix="births-") as place, sync_playwright() as driver:
        folder = Path(place) / "births"
        folder.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-m", "understudy", "studio", str(folder), "--port", "0", "--no-browser"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme="light")
            tour(page, address, folder, out)
            browser.close()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)


if __name__ == "__main__":
    main()
