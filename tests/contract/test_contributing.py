"""The mechanism that CONTRIBUTING.md shows, as a package of its own: known by name, and true to the contract."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from understudy.datasets import load

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python in which the example is installed, as pip would have left it."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads(_block("toml"))["project"]
    ((group, points),) = project["entry-points"].items()
    ((_, value),) = points.items()
    (folder / f"{value.partition(':')[0]}.py").write_text(_block("python"), encoding="utf-8")
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines = [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _run(*words: str, env: dict[str, str], cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, env=env, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_keeps_the_contract(installed: dict[str, str]) -> None:
    out = _run(
        "pytest", "-n0", "-q", "-p", "no:cacheprovider", "tests/contract/test_synthesizers.py",
        "-k", "neighbour-chain", env=installed,
    )  # fmt: skip
    found = re.search(r"(\d+) passed", out)
    assert found is not None
    assert int(found[1]) > 30, out
    assert "failed" not in out


def test_the_command_line_takes_it_like_any_other(installed: dict[str, str], tmp_path: Path) -> None:
    listed = _run("understudy.cli.main", "methods", "--json", env=installed)
    assert '"neighbour-chain"' in listed
    assert "see the package acme-chain" in listed
    frame, schema = load("toy", 300, seed=1)
    frame.to_csv(tmp_path / "toy.csv", index=False)
    schema.write(tmp_path / "schema.yaml")
    words = "synth toy.csv --schema schema.yaml --method neighbour-chain --epsilon 1 --unit add-remove --out out.csv"
    _run("understudy.cli.main", *words.split(), env=installed, cwd=tmp_path)
    assert (tmp_path / "out.csv").stat().st_size > 0
    code = "from understudy.mechanisms import software; print(software(['aim', 'neighbour-chain']))"
    named = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=installed)
    assert named.stdout.strip().endswith(" with acme-chain 0.1")
