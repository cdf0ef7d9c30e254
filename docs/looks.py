"""Find every place where a charge is committed or what was paid for is opened, with the argument written beside it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
CHARGES = ("_answer", "_charge", "_pay", "charge")
DRAWS = ("_randomness", "draw")
ROOMS = ("curator", "release", "mechanisms", "evaluation", "cli")


@dataclass(frozen=True)
class Look:
    """A function that commits a charge and then opens what was sealed, or opens what was paid for before.

    Attributes
    ----------
    place
        Module and function.
    lines
        How long the body is, without its documentation.
    summary, argument
        First sentence of the documentation, and its *Privacy* section: the function's own, its class's or its module's.
    head
        What stands at the head of the module, if the argument points there.
    prepaid
        Whether the charge was committed by another look, which returned the object this is a method of.
    """

    place: str
    lines: int
    summary: str
    argument: str
    head: str
    prepaid: bool


def looks() -> list[Look]:
    """Return every look in the order of files and lines."""
    return [
        look
        for room in ROOMS
        for path in sorted((SOURCE / "understudy" / room).rglob("*.py"))
        for look in _in_file(path)
    ]


def _in_file(path: Path) -> Iterator[Look]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    whole = ast.get_docstring(tree) or ""
    for node in tree.body:
        holders = node.body if isinstance(node, ast.ClassDef) else [node]
        outer = (ast.get_docstring(node) or "") if isinstance(node, ast.ClassDef) else ""
        for function in holders:
            if not isinstance(function, ast.FunctionDef):
                continue
            prepaid = isinstance(node, ast.ClassDef) and _opens(function)
            if not _charges(function) and not prepaid:
                continue
            words = ast.get_docstring(function) or ""
            argument = _privacy(words) or _privacy(outer) or _privacy(whole)
            head = (_privacy(whole) or whole) if "module" in argument else ""
            owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            yield Look(
                f"{module}.{owner}{function.name}",
                (function.end_lineno or 0) - function.body[bool(words)].lineno + 1,
                " ".join(words.split("\n\n")[0].split()),
                _plain(argument),
                _plain(head) if head != argument else "",
                prepaid and not _charges(function),
            )


def _charges(function: ast.FunctionDef) -> bool:
    """Say whether a function commits a charge; the ones that only hand it on to the ledger do not count."""
    return function.name not in CHARGES and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHARGES
        for node in ast.walk(function)
    )


def _opens(function: ast.FunctionDef) -> bool:
    """Say whether a public method draws noise, or hands out something that will."""
    return not function.name.startswith("_") and any(
        isinstance(node, ast.Attribute) and node.attr in DRAWS for node in ast.walk(function)
    )


def _privacy(words: str) -> str:
    """Return the *Privacy* section of a docstring, as one paragraph per paragraph."""
    lines = inspect.cleandoc(words).splitlines()
    for index, line in enumerate(lines[:-1]):
        if line.strip() == "Privacy" and set(lines[index + 1].strip()) == {"-"}:
            rest = lines[index + 2 :]
            end = next(
                (
                    place
                    for place in range(1, len(rest))
                    if rest[place].strip() and set(rest[place].strip()) == {"-"}
                ),
                len(rest) + 1,
            )
            return "\n".join(rest[: end - 1]).strip()
    return ""


def _plain(words: str) -> str:
    """Turn the marks of docstrings into those of Markdown; indented formulas stay as they are."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", words).replace("``", "`")


def page(note: str) -> str:
    """Return the list as a page."""
    found = looks()
    prepaid = sum(look.prepaid for look in found)
    parts = [
        note,
        "# Every look at the records\n",
        f"The {len(found) - prepaid} functions in which a charge is committed and what was under seal is then opened with noise, and "
        f"{prepaid} methods of what they return, which open what was paid for before. "
        "Mechanisms of the package call these and open nothing themselves; a test reads their source, and another compares this page "
        "with the code. The numbers that acceptance criteria, private regressions and accounted measures are about are computed from the records "
        "under seal and opened by these looks: [below](#computed-under-seal). "
        "What sets rows aside, cleans, derives and counts them comes before a curator is made and is part of the facts of the table. An exact number of rows that is public (declared, or fixed by the unit) is no look: it costs nothing and is "
        "written into the ledger as a [condition of the promise](ledger.md#exact-public-numbers) when a curator is made "
        "(`understudy.privacy.invariants.declare_rows`). The numbers in brackets are lines of code.\n",
    ]
    shown: set[str] = set()
    for look in found:
        before = ", paid for before" if look.prepaid else ""
        parts += [
            f"## {look.place.removeprefix('understudy.')} ({look.lines}{before})\n",
            look.summary + "\n",
            look.argument + "\n",
        ]
        if look.head and look.head not in shown:  # once for all looks of a module
            parts += ["*At the head of the module:*\n", look.head + "\n"]
            shown.add(look.head)
    return "\n".join([*parts, *_under_seal()])


def _under_seal() -> Iterator[str]:
    """Yield what is computed from the records by trusted functions, with the proof of each sensitivity."""
    yield "## Computed under seal\n"
    yield (
        "`understudy.release.look.seal_numbers` hands the table to a function of the release and seals what it returns; no charge is committed, and nothing is "
        "opened. The functions are trusted: each says how far one unit can move its numbers, and why. They are tested on neighbouring tables "
        "(`understudy.release.largest_moves`, `tests/statistical/test_hostile_parameters.py`); criteria of other packages are tried before a release, and their proofs are "
        "their authors' business.\n"
    )
    places = [
        SOURCE / "understudy" / "release" / name for name in ("look.py", "accounted.py", "selection/slack.py")
    ]
    places += sorted((SOURCE / "understudy" / "release" / "criteria").glob("*.py"))
    places.append(SOURCE / "understudy" / "release" / "regressions" / "moments.py")
    for path in places:
        module = ".".join(path.relative_to(SOURCE / "understudy").with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            argument = _privacy(ast.get_docstring(node) or "")
            if argument:
                yield f"### {module}.{node.name}\n"
                yield _plain(argument) + "\n"
