"""A container with a read-only installation and no home: everything works, or is refused before it is charged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import understudy
from understudy.privacy import Ledger

KERNELS = [
    "data.counting.kernels",
    "data.counting.person_kernels",
    "engine.graphical.elimination",
    "engine.graphical.kernels",
    "engine.record_fitting.kernels",
    "mechanisms.deniability.kernels",
    "mechanisms.histograms.kernels",
    "privacy.count_models.kernels",
    "privacy.noise.kernels",
]


@pytest.fixture(scope="module")
def hardened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of such a container. Whoever runs the tests, root included, cannot write the folders in question.

    Permissions do not bind root, so the folders that Python and Numba would write are files here.
    """
    place = tmp_path_factory.mktemp("container")
    source = Path(understudy.__file__).parent
    copy = place / "site" / "understudy"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("in the way")
    (place / "file").write_text("no home")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
    nowhere = str(place / "file" / "home")
    return kept | {
        "PYTHONPATH": str(copy.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": nowhere,
        "XDG_CACHE_HOME": nowhere,
        "NUMBA_CACHE_DIR": nowhere,
    }


def run(environment: dict[str, str], *words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500
    )


def table(folder: Path) -> None:
    pd.DataFrame({"a": ["x", "y", "y", "z"] * 50, "b": [True, False] * 100}).to_csv(
        folder / "table.csv", index=False
    )
    (folder / "schema.yaml").write_text(
        "columns: [{name: a, kind: categorical, values: [x, y, z]}, {name: b, kind: boolean}]\n"
    )


SYNTH = (
    "-m",
    "understudy",
    "synth",
    "table.csv",
    "--schema",
    "schema.yaml",
    "--unit",
    "add-remove",
    "--epsilon",
    "1",
)


def test_synth_works_with_a_read_only_installation_and_no_home(
    hardened: dict[str, str], tmp_path: Path
) -> None:
    """0.1.0 charged the whole budget, then died in Numba's cache."""
    table(tmp_path)
    done = run(hardened, *SYNTH, "--method", "laplace", "--out", "out.csv", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").exists()
    with Ledger.open(tmp_path / "table.ledger") as ledger:
        assert ledger.spent > 0


def test_every_kernel_can_be_imported_there(hardened: dict[str, str], tmp_path: Path) -> None:
    source = Path(understudy.__file__).parent
    using = sorted(
        str(path.relative_to(source))[:-3].replace(os.sep, ".")
        for path in source.rglob("*.py")
        if "@compiled(" in path.read_text(encoding="utf-8") and path.stem != "_compile"
    )
    assert using == KERNELS, "this list is complete"
    code = f"import importlib\nfor name in {KERNELS}: importlib.import_module('understudy.' + name)"
    done = run(hardened, "-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_nothing_else_decides_where_kernels_are_kept() -> None:
    source = Path(understudy.__file__).parent
    for path in source.rglob("*.py"):
        if path.name != "_compile.py":
            assert "cache=True" not in path.read_text(encoding="utf-8"), path


def test_an_output_folder_that_takes_no_files_is_found_before_spending(tmp_path: Path) -> None:
    """/proc takes no new files, from anybody."""
    if not Path("/proc/self").exists():
        pytest.skip("needs a folder that takes no files")
    table(tmp_path)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    for out, more in (
        ("/proc/out.csv", ()),
        ("/proc/out.parquet/", ()),
        ("out.csv", ("--model", "/proc/m.understudy")),
    ):
        words = (*SYNTH, "--method", "laplace", "--out", out, "--ledger", "t.ledger", *more)
        done = run(environment, *words, folder=tmp_path)
        assert done.returncode != 0
        assert "cannot be written" in done.stderr, done.stderr
        assert not (tmp_path / "t.ledger").exists()
        assert not (tmp_path / "out.csv").exists()
