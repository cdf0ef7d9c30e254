"""Build the source archive and the wheel twice, from separate copies of the source, and compare the bytes.

``python scripts/wheel.py [--out dist]`` builds with ``SOURCE_DATE_EPOCH`` set to the time of the last commit, prints the SHA-256
of both files and exits with 1 if two builds differ. The second wheel is built from the unpacked source archive, so the archive
is known to be complete. Only files that git tracks are built.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def source(target: Path) -> Path:
    """Copy the tracked files of the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    return target


def backend(target: Path) -> tuple[str, Path]:
    """Install what the build needs into a folder of its own; return the name of the backend and the folder."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(target), *build["requires"]], check=True)
    return build["build-backend"], target


def build(what: str, copy: Path, out: Path, made_with: tuple[str, Path], environment: dict[str, str]) -> Path:
    """Build one ``sdist`` or ``wheel`` from a copy of the source and return it."""
    out.mkdir(parents=True)
    name, tools = made_with
    command = (
        f"import sys, importlib as i; sys.stdout.write(i.import_module({name!r}).build_{what}({str(out)!r}))"
    )
    made = subprocess.run(
        [sys.executable, "-P", "-c", command],
        cwd=copy,
        env=os.environ | environment | {"PYTHONPATH": str(tools)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return out / made.splitlines()[-1]


def unpack(archive: Path, target: Path) -> Path:
    """Unpack a source archive and return its only folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    return next(target.iterdir())


def main(arguments: list[str]) -> int:
    """Build twice and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to keep the source archive and the wheel in")
    chosen = parser.parse_args(arguments)
    if not (ROOT / ".git").exists():
        sys.exit("Only files that git tracks are built: run this in a checkout, not in an unpacked archive.")
    epoch = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tools = backend(place / "tools")
        once = {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "1"}
        again = {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "2"}
        first, second = source(place / "one"), source(place / "second-copy")
        archives = [
            build("sdist", first, place / "a", tools, once),
            build("sdist", second, place / "b", tools, again),
        ]
        unpacked = unpack(archives[1], place / "unpacked")
        wheels = [
            build("wheel", first, place / "c", tools, once),
            build("wheel", unpacked, place / "d", tools, again),
        ]
        same = True
        for pair in (archives, wheels):
            digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in pair]
            for file, digest in zip(pair, digests, strict=True):
                sys.stdout.write(f"{digest}  {file.name}\n")
            same = same and digests[0] == digests[1]
            if chosen.out is not None:
                chosen.out.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(pair[0], chosen.out / pair[0].name)
    sys.stdout.write("The builds are the same.\n" if same else "The builds differ.\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
