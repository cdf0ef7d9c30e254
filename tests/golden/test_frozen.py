"""What must not change by accident: the noise of every plan, and the shape of what commands print for programs.

A change that is meant is made by ``python tests/golden/test_frozen.py``, which writes the files anew, and has a line in the changelog:
under *Privacy* where a plan changed.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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


def printed(folder: Path) -> dict[str, Any]:
    """Return the shape of what commands print with ``--json``."""
    table, schema = HERE / "0.1.0" / "toy.csv", HERE / "0.1.0" / "toy.yaml"
    budget = ("--epsilon", "1", "--delta", "1e-9", "--unit", "add-remove")
    fit = ("--schema", schema, "--method", "independent", *budget, "--ledger", folder / "toy.ledger")
    commands: dict[str, tuple[object, ...]] = {
        "plan": ("plan", "--schema", schema, "--method", "aim", *budget, "--json"),
        "synth": ("synth", table, *fit, "--out", folder / "out.csv", "--json"),
        "ledger show": ("ledger", "show", folder / "toy.ledger", "--json"),
    }
    found = {}
    for name, words in commands.items():
        result = understudy(*words)
        assert result.code == 0, (name, result.out, result.err)
        found[name] = shape(json.loads(result.out))
    return found


@pytest.mark.parametrize("name", OWN)
def test_every_plan_has_the_noise_it_had(name: str) -> None:
    assert plans(name) == json.loads((FROZEN / "plans.json").read_text(encoding="utf-8")).get(name), MEANT


def test_no_method_is_left_out() -> None:
    assert set(OWN) == set(json.loads((FROZEN / "plans.json").read_text(encoding="utf-8"))), MEANT


def test_commands_print_the_same_keys_for_programs(tmp_path: Path) -> None:
    assert printed(tmp_path) == json.loads((FROZEN / "printed.json").read_text(encoding="utf-8")), MEANT


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
