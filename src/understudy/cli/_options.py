"""Command-line words turned into budgets, units, methods and paths."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from understudy.errors import BudgetError, OutputError, WorkloadError
from understudy.marginals import parse_workload
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, Unit
from understudy.schema import Schema
from understudy.synthesizers import Synthesizer, create, method

SchemaPath = Annotated[Path, typer.Option("--schema", "-s", help="Schema of the table (YAML or JSON).")]
MethodName = Annotated[str, typer.Option("--method", "-m", help="Synthesizer; see `understudy methods`.")]
Epsilon = Annotated[
    float | None, typer.Option(help="Privacy budget epsilon (pure, or with --delta approximate).")
]
Delta = Annotated[float | None, typer.Option(help="Failure probability of an approximate guarantee.")]
Rho = Annotated[float | None, typer.Option(help="Budget in zero-concentrated DP instead of epsilon.")]
Mu = Annotated[float | None, typer.Option(help="Budget in Gaussian DP instead of epsilon.")]
UnitName = Annotated[
    str, typer.Option("--unit", help="Neighbouring tables: add-remove (one row more or less) or replace-one.")
]
IdColumn = Annotated[
    str | None, typer.Option("--id-column", help="Column that names the person; protects people, not rows.")
]
MaxRows = Annotated[
    int | None,
    typer.Option("--max-rows-per-person", help="Rows kept per person, chosen at random (with --id-column)."),
]
WorkloadText = Annotated[
    str | None,
    typer.Option("--workload", help="Marginals that matter: all-3way, target:COLUMN, skewed, or a file."),
]
OptionWords = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="Option of the method as name=value; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def parse_budget(epsilon: float | None, delta: float | None, rho: float | None, mu: float | None) -> Budget:
    """Turn the budget options into one budget."""
    given = [
        name for name, value in (("--epsilon", epsilon), ("--rho", rho), ("--mu", mu)) if value is not None
    ]
    if len(given) != 1:
        came = " and ".join(given) if given else "none"
        raise BudgetError(f"Give exactly one of --epsilon, --rho or --mu; got {came}.")
    if delta is not None and epsilon is None:
        raise BudgetError("--delta goes with --epsilon only.")
    if rho is not None:
        return ZCDP(rho)
    if mu is not None:
        return GDP(mu)
    assert epsilon is not None
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def parse_unit(name: str, id_column: str | None, max_rows: int | None) -> Unit:
    """Turn the unit options into one privacy unit."""
    if name not in ("add-remove", "replace-one"):
        raise BudgetError(f"--unit ({name!r}) must be add-remove or replace-one.")
    if (id_column is None) != (max_rows is None):
        raise BudgetError(
            "--id-column and --max-rows-per-person go together: who is a person, and how many rows count."
        )
    if id_column is None or max_rows is None:
        return Unit.add_remove() if name == "add-remove" else Unit.replace_one()
    person = Unit.add_remove_person if name == "add-remove" else Unit.replace_person
    return person(id_column, max_rows=max_rows)


def parse_method(name: str, schema: Schema, workload: str | None, words: list[str] | None) -> Synthesizer:
    """Build the method with its options and, where it takes one, its workload."""
    options: dict[str, Any] = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise WorkloadError(f"--option takes name=value; got {word!r}.")
        try:
            options[key.strip().replace("-", "_")] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise WorkloadError(f"The value of --option {key} cannot be read.") from None
    described = method(name)
    if workload is not None:
        if not described.takes_workload:
            raise WorkloadError(f"{name} does not take a workload; leave --workload out.")
        options["workload"] = parse_workload(schema.domain, workload)
    return create(name, **options)


def require_writable(path: Path, *, what: str) -> None:
    """Refuse an output that cannot be written before anything is spent on making it."""
    folder = path.parent if str(path.parent) else Path()
    if path.is_dir():
        raise OutputError(f"The {what} {str(path)!r} is a folder; give the name of a file.")
    if not folder.is_dir():
        raise OutputError(f"The folder {str(folder)!r} for the {what} does not exist; create it first.")
    if path.exists() and not os.access(path, os.W_OK):
        raise OutputError(f"The {what} {str(path)!r} exists and cannot be replaced; choose another name.")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".understudy-"):
            pass
    except OSError as error:
        raise OutputError(
            f"The {what} cannot be written to {str(folder)!r}: {error.strerror or error}. Choose another folder."
        ) from None
