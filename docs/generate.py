"""Write the generated reference pages; ``--check`` only says whether they are up to date."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import looks
import typer.main

import papers
from understudy import errors
from understudy.cli import main as commands
from understudy.cli.main import app, exit_code
from understudy.data.private_files import FolderInUse
from understudy.errors import UnderstudyError
from understudy.mechanisms import Method, Synthesizer, methods
from understudy.mechanisms.source import Source
from understudy.release.spec.spec import Spec
from understudy.schema import Schema

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- written by docs/generate.py; run `make docs` -->\n"


def command_line() -> str:
    """Describe every command and option from the application itself."""
    commands.register(app)
    root = typer.main.get_command(app)
    parts = [NOTE, "# Command line\n"]
    parts.append(
        "How commands end, and what goes to which stream: [Exit codes](exit-codes.md). "
        "What each is called in Python: [Commands and functions](commands-and-functions.md).\n"
    )
    parts += [
        "## Before any command\n",
        "Of every command; write them between `understudy` and its name.\n",
        *_options(root),
        "",
    ]
    parts += list(_describe(root, ("understudy",)))
    return "\n".join(parts)


def _describe(command: Any, path: tuple[str, ...]) -> list[str]:
    if hasattr(command, "commands"):
        children = command.commands
        return [part for name, child in children.items() for part in _describe(child, (*path, name))]
    return [f"## {' '.join(path)}\n", (command.help or "").strip() + "\n", *_options(command), ""]


def _options(command: Any) -> list[str]:
    """Return the table of what a command takes."""
    lines = ["| argument or option | meaning |", "|---|---|"]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        is_option = bool(getattr(parameter, "opts", [])) and parameter.opts[0].startswith("-")
        words = (
            ", ".join(f"`{word}`" for word in parameter.opts)
            if is_option
            else f"`{str(parameter.name).upper()}`"
        )
        required = " (required)" if parameter.required else ""
        text = " ".join((getattr(parameter, "help", None) or "").split())
        lines.append(f"| {words}{required} | {text} |")
    return lines


def own_methods() -> list[tuple[Method, type[Synthesizer], Source]]:
    """Return the methods of the registry with their classes and sources, without what other packages add to it."""
    found = []
    for item in methods():
        if item.package is None:
            cls = item.load()
            if cls.source is None:
                raise SystemExit(f"{item.name} says neither where it was published nor what its noise is")
            found.append((item, cls, cls.source))
    return found


def method_list() -> str:
    """List the registry, without what other installed packages add to it."""
    lines = [
        NOTE,
        "# Methods\n",
        "*Laplace* is the discrete Laplace distribution, *Gaussian* the rounded Gaussian one; where both are named, an epsilon alone gets the first,",
        "`rho` and `mu` the second, and an epsilon with a delta the one that is smaller. The papers are on [a page of their own](../explanation/papers.md).\n",
        "| method | budgets | data | what it does | paper, section | law of its noise |",
        "|---|---|---|---|---|---|",
    ]
    for item, cls, source in own_methods():
        budgets = ", ".join(kind.__name__ for kind in cls.budgets)
        lines.append(
            f"| [{item.name}](../methods/{item.name}.md) | {budgets} | {item.data} | {cls.summary} | {source.places} | {source.law} |"
        )
    return "\n".join([*lines, ""])


SOURCE = "**Source:** "


def method_pages() -> dict[Path, str]:
    """Return the page of every method with the line under its last heading, Reference, that says source and law."""
    found = {}
    for item, _, source in own_methods():
        path = REFERENCE.parent / "methods" / f"{item.name}.md"
        head, mark, rest = path.read_text(encoding="utf-8").partition("## Reference\n")
        if not mark:
            raise SystemExit(f"docs/methods/{item.name}.md has no heading Reference")
        if rest.startswith(SOURCE):
            rest = rest.partition("\n")[2]
        rest = rest.lstrip("\n")
        line = f"{SOURCE}{source.citation}. **Law of its noise:** {source.law}.\n"
        found[path] = head + mark + line + ("\n" + rest if rest else "")
    return found


ROOMS = (
    "schema", "privacy", "marginals", "data", "curator", "engine", "mechanisms", "inference", "evaluation", "release",
    "report", "plots", "bulk", "audit", "workflow", "adapters", "datasets",
)  # fmt: skip


def api() -> str:
    """List every public name of every room with its signature and the first sentence of its documentation."""
    parts = [
        NOTE,
        "# Python\n",
        "Every public name, room by room. The docstrings say more: `help(understudy.Schema)`.\n",
    ]
    for room in ROOMS:
        module = importlib.import_module(f"understudy.{room}")
        first = (module.__doc__ or "").strip().splitlines()[0]
        parts += [f"## understudy.{room}\n", first + "\n", "| name | what it is |", "|---|---|"]
        for name in module.__all__:
            thing = getattr(module, name)
            parts.append(f"| `{name}{_signature(thing)}` | {_summary(thing)} |")
        parts.append("")
    return "\n".join(parts)


def error_list() -> str:
    """List every error with its code, the exit code of the command line, its meaning and what to do first."""
    classes = [
        thing
        for thing in vars(errors).values()
        if inspect.isclass(thing) and issubclass(thing, UnderstudyError)
    ]
    lines = [
        NOTE,
        "# Errors\n",
        "Every deliberate error is an `understudy.errors.UnderstudyError` and has a `code`, which the command line prints behind the message in",
        "square brackets. A code never changes and is never given to another error; messages may change from version to version.",
        "Compare codes or classes in programs, and read the message: it says what was wanted, where, and what to do next.\n",
        "| code | exception | exit code | meaning | what to do first |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{cls.code}` | `{cls.__name__}` | {exit_code(cls.__new__(cls))} | {_summary(cls)} | {cls.advice} |"
        for cls in sorted([*classes, FolderInUse], key=lambda cls: cls.code)
    ]
    return "\n".join([*lines, ""])


def _signature(thing: Any) -> str:
    """Return the parameters of a function by name; classes and values have none here."""
    if not inspect.isfunction(thing):
        return ""
    names = list(inspect.signature(thing).parameters)
    return f"({', '.join(names)})"


def _summary(thing: Any) -> str:
    """Return the first sentence of what a name says about itself; plain values have none."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return f"a value ({type(thing).__name__})"
    lines = (inspect.getdoc(thing) or "").split("\n\n")[0].split()
    if not lines:
        raise SystemExit(f"{thing!r} is public and says nothing about itself")
    return " ".join(lines).replace("|", "\\|")


def pages() -> dict[Path, str]:
    """Return every generated page with its content."""
    return {
        REFERENCE / "cli.md": command_line(),
        REFERENCE / "methods.md": method_list(),
        REFERENCE / "python.md": api(),
        REFERENCE / "errors.md": error_list(),
        **method_pages(),
        REFERENCE.parent / "explanation" / "every-look.md": looks.page(NOTE),
        REFERENCE.parent / "explanation" / "papers.md": papers.write_page(NOTE),
        REFERENCE / "schema.schema.json": json.dumps(Schema.json_schema(), indent=2) + "\n",
        REFERENCE / "spec.schema.json": json.dumps(Spec.json_schema(), indent=2) + "\n",
    }


def main() -> int:
    """Write the pages, or check them."""
    stale = []
    for path, content in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(content, encoding="utf-8")
    sys.stdout.write(f"{'Stale' if '--check' in sys.argv else 'Wrote'}: {', '.join(stale) or 'nothing'}\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
