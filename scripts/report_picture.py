"""Make docs/assets/report.png, the first screen of a report: ``python scripts/report_picture.py``.

Runs the demo and photographs its report at 1300 by 900 pixels, in Chromium by playwright (``make services``).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "assets" / "report.png"
SIZE = {"width": 1300, "height": 900}


def main() -> None:
    """Run the demo, open its report, and keep what the first screen shows."""
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        out = Path(folder) / "demo"
        subprocess.run([sys.executable, "-m", "understudy", "demo", "--out", str(out), "--quiet"], check=True)
        started = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = started.new_page(viewport=SIZE, color_scheme="light")
        page.goto((out / "bundle" / "report.html").as_uri())
        page.screenshot(path=TARGET)
        started.close()


if __name__ == "__main__":
    main()
