"""Build the wheel twice, from two copies of the source, and compare the bytes.

``python scripts/wheel.py [--out dist]`` builds with ``SOURCE_DATE_EPOCH`` set to the time of the last commit, prints the SHA-256
of the wheel and exits with 1 if the two builds differ. Only files that git tracks are built.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def source(target: Path) -> None:
    """Copy the tracked files of the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def build(place: Path, epoch: str) -> Path:
    """Build one wheel in a folder of its own and return it."""
    copy, out = place / "source", place / "wheel"
    source(copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run(
        [*command, "--wheel-dir", str(out), str(copy)],
        env=os.environ | {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": str(len(str(place)))},
        check=True,
    )
    return next(out.glob("*.whl"))


def main(arguments: list[str]) -> int:
    """Build twice and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to keep the wheel in")
    chosen = parser.parse_args(arguments)
    epoch = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        wheels = [build(Path(place), epoch) for place in (first, second)]
        digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
        for wheel, digest in zip(wheels, digests, strict=True):
            sys.stdout.write(f"{digest}  {wheel.name}\n")
        if chosen.out is not None:
            chosen.out.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(wheels[0], chosen.out / wheels[0].name)
    same = digests[0] == digests[1]
    sys.stdout.write("The two builds are the same." if same else "The two builds differ.\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
