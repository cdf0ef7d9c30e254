"""``understudy ledger``: what was spent, when, on what, and whether the record can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli._ledgers import summary
from understudy.cli._options import (
    Delta,
    Epsilon,
    IdColumn,
    Json,
    MaxRows,
    Mu,
    Rho,
    UnitName,
    parse_budget,
    parse_unit,
)

app = typer.Typer(
    help="Look at, check or create the ledger of a table.", no_args_is_help=True, rich_markup_mode=None
)

LedgerPath = Annotated[Path, typer.Argument(help="Ledger file.")]


@app.command("show")
def show(file: LedgerPath, json: Json = False) -> None:
    """Show every charge, what has been spent and what remains."""
    from understudy.cli._output import print_json, print_table, tell
    from understudy.privacy import Ledger

    with Ledger.open(file) as book:
        entries = [entry.to_dict() for entry in book.entries()]
        if json:
            print_json(summary(book.guarantee()) | {"entries": entries})
            return
        tell(f"Table: {book.table}")
        tell(f"Protects: {book.unit.describe()}")
        tell(f"Total budget: {book.budget.describe()} ({book.accounting.name} accounting)")
        print_table(
            "Entries",
            ("#", "time (UTC)", "scope", "purpose", f"cost ({book.accounting.symbol})"),
            [
                (
                    item["sequence"],
                    item["time"][:19].replace("T", " "),
                    item["scope"],
                    item["purpose"],
                    _cost(item, book.accounting.name),
                )
                for item in entries
            ],
        )
        tell(book.guarantee().describe())


def _cost(entry: dict[str, object], accounting: str) -> str:
    """Cost of an entry in the ledger's accounting; notes cost nothing."""
    costs = entry.get("costs")
    value = costs.get(accounting) if isinstance(costs, dict) else None
    return "" if value is None else f"{value:.6g}"


@app.command("verify")
def verify(file: LedgerPath, json: Json = False) -> None:
    """Recompute every hash and cost; fail if anything was changed."""
    from understudy.cli._output import print_json, tell
    from understudy.privacy import Ledger

    with Ledger.open(file) as book:
        book.verify()
        if json:
            print_json({"verified": True} | summary(book.guarantee()))
            return
        tell(f"The ledger of {book.table!r} is intact. Head {book.head_hash}.")
        tell(book.guarantee().describe())


@app.command("create")
def create(
    file: LedgerPath,
    table_name: Annotated[
        str,
        typer.Option(
            "--table-name",
            help="Name of the table it belongs to: its file name, or `source.table` of the specification.",
        ),
    ],
    unit: UnitName,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    approximate_delta: Annotated[
        float,
        typer.Option(
            "--approximate-delta",
            help="Part of --delta to set aside for methods that need a delta of their own, such as poisson or dpctgan.",
        ),
    ] = 0.0,
    id_column: IdColumn = None,
    max_rows_per_person: MaxRows = None,
    json: Json = False,
) -> None:
    """Create a ledger with the total budget of a table.

    The total is for everything that will ever be released from the table; it cannot be raised later.
    """
    from understudy.cli._output import print_json, tell
    from understudy.privacy import Ledger

    budget = parse_budget(epsilon, delta, rho, mu)
    protected = parse_unit(unit, id_column, max_rows_per_person)
    with Ledger.create(
        file, budget=budget, unit=protected, table=table_name, approximate_delta=approximate_delta
    ) as book:
        if json:
            print_json(summary(book.guarantee()) | {"out": str(file)})
            return
        tell(f"Wrote {file}.")
        tell(book.guarantee().describe())
