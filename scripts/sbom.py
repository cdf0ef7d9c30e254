"""Write a software bill of materials of the installed package as CycloneDX 1.5 JSON.

``python scripts/sbom.py [--extra evaluation] [--out sbom.json]`` lists Understudy and every package it needs to run, with
versions, licences, digests of what was recorded at installation, and who needs whom. It reads the metadata that
``pip`` left behind and nothing else; two runs in the same environment give the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "understudy"


def needed(found: Distribution, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    """Names and extras of the packages that a package needs here."""
    result = []
    for text in found.requires or ():
        wanted = Requirement(text)
        marks = [{"extra": extra} for extra in extras] or [{"extra": ""}]
        if wanted.marker is None or any(wanted.marker.evaluate(mark) for mark in marks):
            result.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    return result


def collect(extras: frozenset[str]) -> dict[str, tuple[Distribution, list[str]]]:
    """Every package that is needed, with what it needs."""
    found: dict[str, tuple[Distribution, list[str]]] = {}
    waiting = [(ROOT, extras)]
    while waiting:
        name, wanted = waiting.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            sys.exit(f"{name} is needed and not installed.")
        parts = needed(package, wanted)
        known = found.get(name, (package, []))[1]
        new = [part for part in parts if part[0] not in known]
        found[name] = (package, sorted({*known, *(part[0] for part in parts)}))
        waiting += [part for part in new if part[0] != ROOT or part[1]]
    return found


def component(name: str, package: Distribution) -> dict[str, Any]:
    """One package as CycloneDX describes it."""
    plain: dict[str, Any] = {
        "type": "application" if name == ROOT else "library",
        "bom-ref": reference(name, package),
        "name": name,
        "version": package.version,
        "purl": reference(name, package),
    }
    licence = package.metadata.get("License-Expression") or package.metadata.get("License") or ""
    if licence and len(licence) < 100 and "\n" not in licence:
        plain["licenses"] = [{"license": {"name": licence}}]
    digest = recorded(package)
    if digest:
        plain["properties"] = [{"name": "understudy:record-sha256", "value": digest}]
    return plain


def reference(name: str, package: Distribution) -> str:
    """The package as a package URL."""
    return f"pkg:pypi/{name}@{package.version}"


def recorded(package: Distribution) -> str | None:
    """A digest over the digests of all files that were installed, as the installer recorded them."""
    lines = []
    for file in package.files or ():
        if file.hash is not None and file.hash.mode == "sha256":
            padded = file.hash.value + "=" * (-len(file.hash.value) % 4)
            lines.append(f"{file} {base64.urlsafe_b64decode(padded).hex()}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() if lines else None


def bill(extras: frozenset[str]) -> dict[str, Any]:
    """The whole bill."""
    found = collect(extras)
    parts = [component(name, package) for name, (package, _) in sorted(found.items()) if name != ROOT]
    main = component(ROOT, found[ROOT][0])
    main.pop("properties", None)  # an editable installation records only a link
    depends = [
        {
            "ref": reference(name, package),
            "dependsOn": [reference(other, found[other][0]) for other in needs],
        }
        for name, (package, needs) in sorted(found.items())
    ]
    body = {"metadata": {"component": main}, "components": parts, "dependencies": depends}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    serial = uuid.UUID(bytes=digest[:16], version=4)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **body,
    }


def main(arguments: list[str]) -> int:
    """Write the bill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extra", action="append", default=[], help="also what this extra needs")
    parser.add_argument("--out", type=Path, help="file to write; standard output by default")
    chosen = parser.parse_args(arguments)
    text = json.dumps(bill(frozenset(chosen.extra)), indent=2) + "\n"
    if chosen.out is None:
        sys.stdout.write(text)
    else:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
