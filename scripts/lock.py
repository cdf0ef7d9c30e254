"""Write ``requirements-ci.txt``: every package of the development environment, pinned, with the digests of its files.

``python scripts/lock.py`` takes what the extras ``dev`` and ``spark`` need, in the versions that are installed now, asks pip which
files it would install and writes their SHA-256 digests, and no addresses. Other packages that happen to be installed are left
out, and so is PyTorch (extra ``deep``), whose build for CPUs has an index of its own: tests that need it are skipped without
it. The digests are those of the files for this platform and Python; run it on each platform that installs from the lock and
merge the digests with ``--merge``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from sbom import ROOT as PACKAGE
from sbom import collect

EXTRAS = frozenset({"dev", "spark"})
LOCK = Path(__file__).resolve().parents[1] / "requirements-ci.txt"
HEAD = """\
# Everything the test suite runs with, pinned, with the digests of the files. Made by scripts/lock.py; do not edit.
# Install with: pip install --require-hashes --no-deps -r requirements-ci.txt && pip install --no-deps --editable .
"""


def pip(*words: str) -> str:
    """Run pip and return what it says."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def digests() -> dict[str, tuple[str, set[str]]]:
    """Version and digests of each package that is needed, from the files that pip would install."""
    needed = collect(EXTRAS)
    frozen = [
        f"{name}=={package.version}" for name, (package, _) in sorted(needed.items()) if name != PACKAGE
    ]
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder) / "wanted.txt", Path(folder) / "report.json"
        wanted.write_text("\n".join(frozen), encoding="utf-8")
        pip(
            "install", "--dry-run", "--ignore-installed", "--no-deps", "--prefer-binary",
            "--quiet", "--report", str(report), "-r", str(wanted),
        )  # fmt: skip
        return read_report(json.loads(report.read_text(encoding="utf-8")))


def read_report(report: dict[str, object]) -> dict[str, tuple[str, set[str]]]:
    """Take versions and digests from pip's installation report."""
    found = {}
    for item in report["install"]:  # type: ignore[attr-defined]
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        found[name] = (item["metadata"]["version"], {digest})
    return found


def read_lock(path: Path) -> dict[str, tuple[str, set[str]]]:
    """Read a lock back."""
    found: dict[str, tuple[str, set[str]]] = {}
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        pin = re.match(r"([\w.-]+)==([^\s;\\]+)", line)
        if pin:
            name = pin[1]
            found[name] = (pin[2], set())
        for digest in re.findall(r"--hash=sha256:([0-9a-f]{64})", line):
            found[name][1].add(digest)
    return found


def main(arguments: list[str]) -> int:
    """Write the lock."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--merge", action="store_true", help="keep the digests of other platforms")
    parser.add_argument(
        "--report", type=Path, help="use this installation report of pip instead of asking it"
    )
    chosen = parser.parse_args(arguments)
    found = digests() if chosen.report is None else read_report(json.loads(chosen.report.read_text("utf-8")))
    before = read_lock(LOCK) if chosen.merge else {}
    lines = [HEAD.rstrip()]
    for name, (version, files) in sorted(found.items()):
        if name in before and before[name][0] == version:
            files = files | before[name][1]
        lines.append(f"{name}=={version} \\")
        lines.append(" \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(files)))
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"Wrote {len(found)} pins to {LOCK.name}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
