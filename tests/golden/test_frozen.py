"""What must not change by accident: the noise of every plan, and the shape of what commands print for programs.

A change that is meant is made by ``python tests/golden/test_frozen.py``, which writes the files anew, and has a line in the changelog:
under *Privacy* where a plan changed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import typer.main

HERE = Path(__file__).parent
FROZEN = HERE / "frozen"
sys.path[:0] = [str(HERE.parents[0] / "contract"), str(HERE.parents[0] / "end_to_end")]

from command import understudy  # noqa: E402
from contract_cases import case_of  # noqa: E402

from understudy import GDP, ZCDP, ApproxDP, PureDP, Unit, create, methods  # noqa: E402
from understudy.errors import UnderstudyError  # noqa: E402

MEANT = "If this is meant: python tests/golden/test_frozen.py, and a line in the changelog."
DEEP = ("dpctgan", "patectgan")  # they need an optional package
OWN = [item.name for item in methods() if item.package is None and item.name not in DEEP]


def plans(name: str) -> dict[str, list[str]]:
    """Return what a method would measure under every budget and relation: columns, cells and noise, to six digits."""
    found = {}
    case, synthesizer = case_of(name), create(name)
    for budget in (ApproxDP(2.0, 1e-6), PureDP(2.0), ZCDP(0.5), GDP(1.0)):
        if not isinstance(budget, synthesizer.budgets):
            continue
        for unit in (Unit.add_remove(), Unit.replace_one()):
            place = f"{type(budget).__name__} {unit.relation}"
            try:
                plan = synthesizer.plan(case.schema, unit=unit, budget=budget)
            except UnderstudyError as error:
                found[place] = [type(error).__name__]
                continue
            noises = [f"{','.join(item.clique)} {item.cells} {item.noise}" for item in plan.measurements]
            found[place] = [plan.accounting, *map(_six_digits, noises)]
    return found


def _six_digits(text: str) -> str:
    return re.sub(r"\d+\.\d+(?:e[-+]?\d+)?", lambda number: f"{float(number[0]):.6g}", text)


def shape(value: Any) -> Any:
    """Return the keys of nested mappings and the kinds of their values; a list has the shape of its first item."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


NOT_RUN = {"bench aim", "bench families", "bench dips", "studio open"}
"""Commands that read the benchmark tables for minutes, or serve until interrupted."""

BY_CHANCE = {"audit", "demo", "discover"}
"""What an audit shows, whether a demo is accepted and what a discovery remarks on is a matter of chance: of their values the kinds may differ."""

SPEC = """\
name: tiny
source: {simulate: {table: toy, rows: 2000}}
schema: toy.yaml
unit: replace-one
synthesizers: [{method: gaussian, options: {workload: all-2way}}]
acceptance:
  form: pass-only
  epsilon: 0.5
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.5}]
selection: {rule: single}
budget: {total: {epsilon: 2.5}, model: {epsilon: 2}}
"""


def commands(here: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Every command with what makes it print its facts, in an order in which each finds what it needs."""
    table, schema = HERE / "0.1.0" / "toy.csv", here / "toy.yaml"
    schema.write_text((HERE / "0.1.0" / "toy.yaml").read_text("utf-8"), encoding="utf-8")
    (here / "spec.yaml").write_text(SPEC, encoding="utf-8")
    (here / "domain.json").write_text('{"sex": 2}', encoding="utf-8")
    budget = ("--epsilon", "1", "--delta", "1e-9", "--unit", "add-remove")
    ledger, other, bundle = here / "toy.ledger", here / "other.ledger", here / "bundle"
    again = ("--ledger", other, "--another-ledger")
    yield "bench list", ()
    yield "methods", ()
    yield "methods NAME", ("aim",)
    yield "demo", ("--out", here / "demo", "--rows", 5_000)
    yield "schema draft", (table, "--out", here / "draft.yaml")
    yield "schema declare", (here / "draft.yaml", "--out", here / "declared.yaml")
    yield "schema import", (here / "domain.json", "--out", here / "imported.yaml")
    yield "schema check", (schema, table)
    yield "plan", ("--schema", schema, "--method", "aim", *budget)
    yield "plan SPEC", (here / "spec.yaml",)
    yield (
        "synth",
        (
            *(table, "--schema", schema, "--method", "independent", *budget, "--ledger", ledger),
            *("--out", here / "out.csv", "--model", here / "toy.understudy"),
        ),
    )
    yield "sample", (here / "toy.understudy", "--rows", 10, "--out", here / "more.csv")
    yield (
        "sample --where",
        (here / "toy.understudy", "--where", "ward == 'day'", "--rows", 3, "--out", here / "some.csv"),
    )
    much = (
        "--epsilon",
        "200",
        "--delta",
        "1e-6",
        "--unit",
        "add-remove",
    )  # enough that noise decides nothing
    yield "discover --plan", (table, *much, *again, "--out", here / "found.yaml", "--plan")
    yield "discover", (table, *much, *again, "--out", here / "found.yaml", "--share", 0.5)
    yield "evaluate", (table, table, "--schema", schema, "--sections", "marginals")
    spending = (
        "--epsilon",
        "1",
        "--unit",
        "add-remove",
        "--ledger",
        here / "third.ledger",
        "--another-ledger",
    )
    yield "evaluate --epsilon", (table, here / "out.csv", "--schema", schema, *spending)
    yield "ledger show", (ledger,)
    yield "ledger anchor", (ledger, "--out", here / "toy.anchor")
    yield "ledger verify", (ledger, "--against", here / "toy.anchor")
    yield (
        "ledger total",
        (ledger, "--epsilon", "2", "--delta", "1e-9", "--by", "A. Owner", "--why", "another wave"),
    )
    yield "ledger create", (here / "new.ledger", "--table-name", "new", *budget)
    yield "ledger facts", (here / "new.ledger", schema)
    yield "register", (here / "toy.ledger",)
    yield (
        "rehearse",
        (
            *(
                here / "spec.yaml",
                "--simulate",
                "toy",
                "--rows",
                500,
                "--trials",
                1,
                "--jobs",
                1,
                "--out",
                here / "rehearsal",
            ),
        ),
    )
    yield "release", (here / "spec.yaml", "--ledger", here / "tiny.ledger", "--out", bundle)
    yield "release again", (here / "spec.yaml", "--ledger", here / "tiny.ledger", "--out", bundle)
    yield "report", (bundle, "--out", here / "report.html")
    yield "open", (bundle, "--no-browser")
    yield "compare", (bundle, bundle, "--most", 1)
    yield "refresh", (bundle, "--source", table, "--out", here / "next.yaml")
    yield "keys new", ("mine", "--name", "A. Owner")
    yield "keys list", ()
    yield "keys export", ("mine", "--out", here / "mine.key.json")
    with patch.dict(os.environ, {"UNDERSTUDY_HOME": str(here / "elsewhere")}):  # the keys of somebody else
        made = json.loads(understudy("keys", "new", "theirs", "--name", "B. Other", "--json").out)
        assert understudy("keys", "export", "theirs", "--out", here / "theirs.key.json").code == 0
    yield "keys trust", (here / "theirs.key.json",)
    yield "keys distrust", (made["fingerprint"],)
    private = ("keys", "export", "mine", "--private", "--out", here / "mine.private.json", "--json")
    assert understudy(*private).code == 0
    yield "keys import", (here / "mine.private.json", "twin", "--name", "A. Owner")
    yield "sign", (bundle, "--key", "mine")
    yield "verify", (bundle, "--trusted")
    yield "approve", (here / "spec.yaml", "--as", "owner", "--name", "A. Owner")
    yield "audit", ("laplace", "--quick", "--runs", 400)
    yield "warm", ("independent",)
    from understudy.studio.designs.specification import new_design, spec_text

    (here / "studio" / "designs").mkdir(parents=True)
    (here / "studio" / "schema.yaml").write_text(schema.read_text("utf-8"), encoding="utf-8")
    (here / "studio" / "designs" / "first.yaml").write_text(spec_text(new_design("first")), encoding="utf-8")
    yield "studio export", (here / "studio", "first", "--out", here / "first.html")


def printed(folder: Path) -> dict[str, Any]:
    """Return the shape of what every command prints with ``--json``."""
    found = {}
    for name, words in commands(folder):
        named = [
            word
            for word in name.split()
            if word.islower() and word not in ("again", "--where", "--plan", "--epsilon")
        ]
        result = understudy(*named, *words, "--json")
        assert result.code == 0, (name, result.out, result.err)
        document = json.loads(result.out)
        found[name] = dict.fromkeys(document, "any") if name in BY_CHANCE else shape(document)
    return found


@pytest.mark.parametrize("name", OWN)
def test_every_plan_has_the_noise_it_had(name: str) -> None:
    assert plans(name) == json.loads((FROZEN / "plans.json").read_text(encoding="utf-8")).get(name), MEANT


def test_no_method_is_left_out() -> None:
    assert set(OWN) == set(json.loads((FROZEN / "plans.json").read_text(encoding="utf-8"))), MEANT


def test_commands_print_the_same_keys_for_programs(tmp_path: Path) -> None:
    """One JSON document on standard output and nothing else: notices are on standard error."""
    pytest.importorskip("starlette", reason="the studio is an extra")
    now, frozen = printed(tmp_path), json.loads((FROZEN / "printed.json").read_text(encoding="utf-8"))
    assert list(now) == list(frozen), MEANT
    for name, item in now.items():
        assert item == frozen[name], f"{name}: {MEANT}"


def test_every_command_is_in_the_list() -> None:
    from understudy.cli.main import app, prepare

    prepare()

    def walk(path: tuple[str, ...], command: Any) -> Iterator[str]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield " ".join(path)
        else:
            for name, child in inner.items():
                yield from walk((*path, name), child)

    frozen = json.loads((FROZEN / "printed.json").read_text(encoding="utf-8"))
    assert set(walk((), typer.main.get_command(app))) - NOT_RUN <= set(frozen)


def _lines(items: dict[str, Any]) -> Iterator[str]:
    for name, item in items.items():
        yield f"{json.dumps(name)}: {json.dumps(item)}"


if __name__ == "__main__":
    FROZEN.mkdir(exist_ok=True)
    every = {name: plans(name) for name in OWN}
    (FROZEN / "plans.json").write_text("{\n" + ",\n".join(_lines(every)) + "\n}\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        shapes = printed(Path(place))
    (FROZEN / "printed.json").write_text(json.dumps(shapes, indent=1) + "\n", encoding="utf-8")
