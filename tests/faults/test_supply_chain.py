"""The bill of materials and the lock say what they should."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!;, ]", requirement)[0]).lower()


def test_the_lock_pins_every_development_dependency_with_digests_and_no_addresses() -> None:
    text = (ROOT / "requirements-ci.txt").read_text("utf-8")
    pins = dict(
        re.findall(r"^([a-z0-9.-]+)==(\S+) \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.M)
    )
    assert len(pins) == len(re.findall(r"^[a-z0-9]", text, re.M))
    assert not re.search(r"://|@|/", re.sub(r"(?m)^#.*$", "", text))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *extras["dev"],
        *extras["polars"],
        *extras["evaluation"],
        *extras["docs"],
        *extras["sql"],
        *extras["spark"],
        *extras["survey"],
    ]
    assert {_name(item) for item in wanted} - {"understudy"} <= set(pins)


def test_the_bill_of_materials_lists_what_is_needed_to_run_and_is_reproducible() -> None:
    made = [
        subprocess.run([sys.executable, "scripts/sbom.py"], cwd=ROOT, capture_output=True, check=True).stdout
        for _ in range(2)
    ]
    assert made[0] == made[1]
    bill = json.loads(made[0])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {item["name"] for item in bill["components"]}
    assert {_name(item) for item in project["dependencies"]} <= names
    assert "pytest" not in names
    listed = {item["ref"] for item in bill["dependencies"]}
    assert all(other in listed for item in bill["dependencies"] for other in item["dependsOn"])
