"""One style for the whole command line: what an option is called, means and says is the same in every command."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from understudy.cli.main import app, prepare

OWN_MEANING = {"--out", "--rows", "--ledger", "--seed", "--restart", "--quick", "--tables", "--methods", "--epsilons",
               "--facts", "--seeds", "--all", "--version"}  # fmt: skip
"""Options whose words say what they are in a command: which output, rows of what."""


def commands() -> Iterator[tuple[str, Any]]:
    prepare()

    def walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield " ".join(path), command
            return
        for name, child in inner.items():
            yield from walk((*path, name), child)

    yield from walk((), typer.main.get_command(app))


ALL = dict(commands())


def options(command: Any) -> dict[str, Any]:
    return {item.opts[0] if item.opts[0].startswith("--") else item.opts[-1]: item
            for item in command.params if item.param_type_name == "option"}  # fmt: skip


def test_the_same_option_says_the_same_everywhere() -> None:
    told: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    short: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for name, command in ALL.items():
        for long, item in options(command).items():
            told[long][item.help or ""].add(name)
            if not name.startswith("bench"):
                short[long].add(tuple(sorted(item.opts)))
    differing = {long: dict(texts) for long, texts in told.items() if len(texts) > 1}
    unexpected = {
        long: texts
        for long, texts in differing.items()
        if long not in OWN_MEANING | {"--jobs", "--table-name"}
    }
    assert not unexpected
    assert {long: names for long, names in short.items() if len(names) > 1} == {}


@pytest.mark.parametrize("name", ALL)
def test_help_is_whole_sentences(name: str) -> None:
    command = ALL[name]
    first = (command.help or "").split("\n\n")[0].replace("\n", " ").split(". ")[0]
    assert len(first) <= 66, "the list of commands would cut it short"
    for item in command.params:
        text = getattr(item, "help", None)
        if text and text != "Show this message and exit.":
            assert text[0].isupper(), (name, item.name)
            assert re.search(r"[.\])]$", text), (name, item.name, text)


@pytest.mark.parametrize("name", ALL)
def test_json_and_quiet(name: str) -> None:
    known = options(ALL[name])
    assert "--json" in known
    if "--quiet" in known:
        names = list(known)
        assert names.index("--quiet") >= len(names) - 3, "the last ones, in the same order"
