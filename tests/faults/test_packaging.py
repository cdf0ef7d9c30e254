"""What a release consists of: one version, a citation, an archive and a wheel that anybody can build again."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def test_the_version_is_written_once() -> None:
    version = project()["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", version)
    for path in (ROOT / "src").rglob("*.py"):
        assert f'"{version}"' not in path.read_text("utf-8"), path
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == version


def test_the_citation_file_holds_what_its_format_wants() -> None:
    """The rules of the Citation File Format 1.2.0 for the keys we use."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    known = {"type", "version", "date-released", "license", "keywords", "abstract"}
    assert set(citation) <= known | {"cff-version", "message", "title", "authors"}
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] in ("software", "dataset")
    assert citation["license"] == project()["license"]
    assert re.fullmatch(
        r"\d{4}-\d{2}-\d{2}", citation["date-released"]
    )  # text: a YAML date would be another type
    assert citation["authors"] == [{"name": author["name"]} for author in project()["authors"]]
    assert len(set(citation["keywords"])) == len(citation["keywords"]) > 0
    assert all(isinstance(citation[key], str) for key in set(citation) - {"authors", "keywords"})


def test_no_address_is_invented() -> None:
    assert "urls" not in project()
    assert all("email" not in author for author in project()["authors"])


def test_the_metadata_say_what_an_index_shows() -> None:
    facts = project()
    assert facts["readme"] == "README.md"
    assert len(facts["description"]) <= 110
    listed = [
        item for item in facts["classifiers"] if item.startswith("Programming Language :: Python :: 3.")
    ]
    versions = [int(item.rpartition(".")[2]) for item in listed]
    assert facts["requires-python"] == f">=3.{min(versions)},<3.{max(versions) + 1}"
    assert not any(item.startswith("License ::") for item in facts["classifiers"]), "the expression says it"
    trove = pytest.importorskip("trove_classifiers", reason="the list of classifiers")
    assert set(facts["classifiers"]) <= trove.classifiers


def test_the_readme_is_short_and_shows_both_pictures() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) < 120
    assert text.count("![") == 2
    assert "studio-design.png" in text
    assert "report.png" in text
    assert "$ make demo" in text
    assert "$ make test" in text
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert sum(bool(line.strip()) for line in block.splitlines()) <= 10


def test_every_command_of_the_readme_is_understood() -> None:
    """Commands and options exist; what they do is tested elsewhere."""
    import typer.main

    from understudy.cli.main import app, prepare

    prepare()
    text = (ROOT / "README.md").read_text("utf-8").replace("\\\n", " ")
    lines = [line.split("#")[0] for line in re.findall(r"^\$ understudy (.+)$", text, re.M)]
    assert len(lines) >= 9
    for line in lines:
        found: Any = typer.main.get_command(app)
        words = line.split()
        while hasattr(found, "commands"):
            found = found.commands[words.pop(0)]
        known = {option for parameter in found.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.slow
def test_archive_and_wheel_are_the_same_each_time_and_complete(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("the builder copies what git tracks")
    run = subprocess.run(
        [sys.executable, "scripts/wheel.py", "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    if run.returncode and "No matching distribution" in run.stderr:
        pytest.skip("the build backend cannot be fetched here")
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith("The builds are the same.\n")
    version = project()["version"]
    with zipfile.ZipFile(tmp_path / f"understudy-{version}-py3-none-any.whl") as wheel:
        inside = set(wheel.namelist())
        metadata = wheel.read(f"understudy-{version}.dist-info/METADATA").decode()
    assert {"understudy/py.typed", f"understudy-{version}.dist-info/licenses/LICENSE"} <= inside
    assert {"understudy/release/demo.yaml", "understudy/datasets/births.yaml"} <= inside
    assert not any(name.startswith(("tests", "benchmarks", "docs")) for name in inside)
    assert "License-Expression: Apache-2.0" in metadata
    with tarfile.open(tmp_path / f"understudy-{version}.tar.gz") as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"Makefile", "LICENSE", "SECURITY.md", "CITATION.cff", "CHANGELOG.md", "docs/index.md"} <= names
    assert "examples/births/spec.yaml" in names
