"""What stands at the end of a run of the contract: one line for each cause, so that one fault does not read like fifty.

Every failure is still reported as always; nothing is hidden. Failures are put together by where they arose: the deepest place in the files of a mechanism,
and otherwise the check that was not met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import understudy
from understudy import errors
from understudy.mechanisms import methods
from walls import files_of

HERE = Path(__file__).parent
OURS = Path(understudy.__file__).parent
MOST = 10
"""Causes that are described; of further ones the number is told."""


@dataclass
class Cause:
    """Failures that arose in one place, in one way."""

    place: str
    said: str
    advice: str
    tests: list[str] = field(default_factory=list)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the causes, those of most failures first."""
    failed = [
        report
        for kind in ("failed", "error")
        for report in terminalreporter.stats.get(kind, ())
        if report.nodeid.startswith("tests/contract/")
    ]
    if not failed:
        return
    causes = causes_of(failed)
    many = "1 cause" if len(causes) == 1 else f"{len(causes)} causes"
    terminalreporter.section(f"{many} of {len(failed)} failures of the contract")
    for number, cause in enumerate(causes[:MOST], start=1):
        checks = sorted({test.partition("[")[0].rpartition("::")[2] for test in cause.tests})
        terminalreporter.line(f"{number}. {len(cause.tests)} x {cause.said}")
        terminalreporter.line(f"   at {cause.place}; {cause.advice}")
        terminalreporter.line(
            f"   in {', '.join(checks[:3])}{f' and {len(checks) - 3} more' if len(checks) > 3 else ''}"
        )
        terminalreporter.line(f"   alone: pytest -n0 -x --tb=short '{cause.tests[0]}'")
    if len(causes) > MOST:
        terminalreporter.line(
            f"... and {len(causes) - MOST} more, each of which is among the failures above."
        )
    if len(causes) > 1:
        terminalreporter.line("Begin with the first: what is listed after it often follows from it.")


def causes_of(failed: list[Any]) -> list[Cause]:
    """Put reports of failures together, most failures first and, of as many, those first that came first."""
    mine = {path.resolve() for item in methods() if item.package for path in files_of(item.module)}
    found: dict[tuple[str, str], Cause] = {}
    for report in failed:
        places, said = _story(report.longrepr)
        own = [place for place in places if place[0] in mine] or [
            place for place in places if OURS / "mechanisms" in place[0].parent.parents
        ]
        path, line = own[-1] if own else _check(places)
        kind = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", said)
        if own:  # one line that fails in many ways is one cause
            kind = said.partition(":")[0]
        key = f"{path}:{line}", kind
        if key not in found:
            found[key] = Cause(f"{path.name}:{line}", said, _advice(said, bool(own)))
        found[key].tests.append(report.nodeid)
    return sorted(found.values(), key=lambda cause: -len(cause.tests))


def _check(places: list[tuple[Path, int]]) -> tuple[Path, int]:
    """Return the last line of the contract that was reached."""
    checks = [place for place in places if HERE in place[0].parents]
    return (checks or places or [(Path("?"), 0)])[-1]


def _story(longrepr: Any) -> tuple[list[tuple[Path, int]], str]:
    """Return the places that an error passed through, the first error of a chain first, and what it said in one line."""
    chain = getattr(longrepr, "chain", None)
    if not chain:
        lines = [line for line in str(longrepr).splitlines() if line.strip()]
        return [], lines[-1] if lines else "no word was said"
    trace, crash, _ = chain[0]
    places = list(_places(trace))
    said = "no word was said" if crash is None else crash.message.strip()
    if crash is not None and not places:
        places = [(Path(crash.path).resolve(), crash.lineno)]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return places, (" ".join(lines[:2]) or said)[:240]


def _places(trace: Any) -> Iterator[tuple[Path, int]]:
    for entry in trace.reprentries:
        at = getattr(entry, "reprfileloc", None)
        if at is not None:
            yield Path(at.path).resolve(), at.lineno


def _advice(said: str, own: bool) -> str:
    """Say what to do first about an error, from what it is and whether it arose in a mechanism."""
    if not own:
        return "the mechanism breaks this promise: read the sentence under the name of the check, and what it compared."
    kind = getattr(errors, said.partition(":")[0].rpartition(".")[2], None)
    if isinstance(kind, type) and issubclass(kind, errors.UnderstudyError):
        return kind.advice
    return "the mechanism raised this: mend that line, or refuse such tables in `plan` with an error of understudy.errors."
