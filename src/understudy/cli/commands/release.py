"""``understudy release``: from a private table to a published one, by a specification."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.exits import Exit
from understudy.cli.options import (
    AcceptFacts,
    AcceptInvariant,
    AnotherLedger,
    By,
    Immutable,
    Json,
    Quiet,
    TableInDatabase,
    parse_consent,
    parse_source,
)
from understudy.cli.options import summary as standing_of

if TYPE_CHECKING:
    from understudy.release.result import ReleaseFailure, ReleaseResult
    from understudy.release.spec.spec import Spec

SpecPath = Annotated[Path, typer.Argument(help="Specification of the release (YAML or JSON).")]
SourcePath = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Private table to use instead of the one the specification names: a file, or the address of a database "
        "with --table.",
    ),
]
RowCount = Annotated[
    int | None,
    typer.Option("--row-count", help="Declare this number of rows (after cleaning) public."),
]


def release(
    spec: SpecPath,
    source: SourcePath = None,
    in_database: TableInDatabase = None,
    immutable: Immutable = False,
    row_count: RowCount = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger of the table; made with the specification's total if absent. Default: as specified, or "
            "TABLE.ledger beside the table, or in your own folder for databases and read-only places."
        ),
    ] = None,
    another_ledger: AnotherLedger = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder to publish to; must not exist yet. Default: NAME-release, or as specified."
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Do not ask before spending the budget. A script, without a terminal, is never asked.",
        ),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Forget an interrupted or finished run. What it spent stays spent."),
    ] = False,
    accept_facts: AcceptFacts = False,
    accept_invariant: AcceptInvariant = False,
    by: By = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make, test and publish a stand-in as a specification says.

    Everything that can be checked without the records is checked first. An interrupted release goes on
    where it stopped when the same command is given again, and never looks twice for one payment. How many
    attempts a selection made is not shown: it was not paid for. A ledger remembers the facts it was opened for; other
    ones need the owner's consent.
    """
    from understudy.cli.output import go_on, print_json, progress_bar, say, tell
    from understudy.release.approvals import approvals_beside
    from understudy.workflow import Payment, plan_publication

    consent = parse_consent(accept_facts, accept_invariant, by)
    described = read_spec(
        spec, source=source, row_count=row_count, in_database=in_database, immutable=immutable
    )
    planned = plan_publication(
        described,
        approvals=approvals_beside(spec),
        out=out,
        payment=Payment(ledger=ledger, another=another_ledger, consent=consent),
        restart=restart,
    )
    for note in planned.notes:
        say(note)
    if (
        not planned.decided_before
    ):  # declined, it leaves everything as it was: no ledger is made before the answer
        say(_announcement(described, planned.place.path))
        go_on(yes=yes or described.source.simulated is not None)
    with progress_bar("release", quiet=quiet or json) as progress:
        done = planned.run(progress=progress)
    facts = {
        "decided_before": done.decided_before,
        "ledger": str(done.ledger),
        "spent": standing_of(done.standing),
    }
    if done.outcome is None:
        if json:
            print_json({"accepted": True, "out": str(done.folder)} | facts)
            return
        tell(f"This release is complete and was published to {done.folder}. Nothing was done.")
        tell("Use --restart to make another one; it is charged anew.")
        return
    if done.decided_before:
        say(
            "An earlier run had decided this; nothing was read or charged now. --restart makes another release, "
            "charged anew."
        )
    if json:
        print_json(summary(done.outcome, done.folder) | facts)
    else:
        _report(done.outcome, done.folder)
        tell(f"Ledger {done.ledger}:\n{done.standing.describe()}")
    if not done.accepted:
        raise typer.Exit(Exit.BUDGET)


def read_spec(
    spec: Path,
    *,
    source: str | None = None,
    row_count: int | None = None,
    in_database: str | None = None,
    immutable: bool = False,
) -> Spec:
    """Read a specification and apply what the command line changes in it."""
    from understudy.errors import UsageError
    from understudy.release.spec.spec import Spec

    described = Spec.read(spec)
    if source is not None and in_database is None and described.table_names:
        described = described.with_source(source)  # a folder, or a database with all of the tables
    elif source is not None:
        described = described.with_source(parse_source(source, in_database, immutable)[0])
    elif in_database is not None or immutable:
        raise UsageError("--table and --immutable go with --source and the address of a database.")
    if row_count is not None:
        described = described.with_row_count(row_count)
    return described


def summary(outcome: ReleaseResult | ReleaseFailure, folder: Path) -> dict[str, Any]:
    """Return the outcome as plain values."""
    from understudy.workflow import is_accepted

    common: dict[str, Any] = {
        "accepted": is_accepted(outcome),
        "guarantee": outcome.guarantee.to_dict(),
        "criteria": [criterion.to_dict() for criterion in outcome.criteria],
        "ledger_head": outcome.ledger_head,
        "ledger_length": outcome.ledger_length,
    }
    if is_accepted(outcome):
        return common | {
            "out": str(folder),
            "rows": len(outcome.synthetic),
            **(
                {"tables": {name: len(table) for name, table in outcome.tables.items()}}
                if outcome.tables
                else {}
            ),
            "configuration": outcome.configuration.to_dict(),
        }
    return common | {"reason": outcome.reason}  # type: ignore[union-attr]


def _announcement(spec: Spec, ledger: Path) -> str:
    return (
        f"Release {spec.name!r} of the table {spec.source.table!r}: {spec.shares.promise.describe()} for "
        f"{spec.protects}.\n"
        f"Budget: {spec.shares.describe()}.\n"
        f"{spec.row_count.words()}\n"
        + (f"About the promise: {spec.condition().text}\n" if spec.condition().text else "")
        + f"Everything is charged to {ledger} before it is drawn, and stays spent whether or not a candidate is accepted."
    )


def _report(outcome: ReleaseResult | ReleaseFailure, folder: Path) -> None:
    from understudy.cli.output import print_table, tell
    from understudy.workflow import is_accepted

    if outcome.criteria:
        print_table(
            "Acceptance criteria",
            ("criterion", "metric", "threshold", "result", "epsilon", "mechanism", "noise sd", "passed"),
            [
                (
                    item.type,
                    item.metric,
                    f"{item.threshold:g}",
                    "withheld" if item.value is None else f"{item.value:.4g}",
                    "" if item.epsilon is None else f"{item.epsilon:g}",
                    item.mechanism,
                    "" if item.noise_deviation is None else f"{item.noise_deviation:.3g}",
                    "yes" if item.passed else "no" if item.value is not None else "not all",
                )
                for item in outcome.criteria
            ],
        )
    if is_accepted(outcome):
        rows = f"{len(outcome.synthetic):,} synthetic rows"
        if outcome.tables:
            rows = ", ".join(f"{len(table):,} rows of {name}" for name, table in outcome.tables.items())
        tell(f"Accepted. Wrote {rows} and their documents to {folder}.")
        tell(f"Configuration: {outcome.configuration.name}")
    else:
        tell(f"Not accepted: {outcome.reason} Nothing was published; the budget is spent.")  # type: ignore[union-attr]
        tell(
            "A rehearsal on public data (understudy rehearse) shows beforehand how often that happens, and why. To try again is another release, charged anew: "
            "--restart, with what the owner of the table leaves or adds to its ledger (understudy ledger total)."
        )
    tell(f"Guarantee: {outcome.guarantee.describe()}")
