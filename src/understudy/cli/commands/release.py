"""``understudy release``: from a private table to a published one, by a specification."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard

import typer

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

EXIT_NOT_ACCEPTED = 3


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
    from understudy.cli.output import print_json, progress_bar, say, tell
    from understudy.ledgers import find_ledger, ledger_name
    from understudy.release.bundle.bundle import write_bundle
    from understudy.release.run.run import Release, require_free
    from understudy.release.run.state import State
    from understudy.schema.spreadsheets import formula_warnings

    described = read_spec(
        spec, source=source, row_count=row_count, in_database=in_database, immutable=immutable
    )
    folder = out or described.folder or Path(f"{described.name.replace(' ', '-')}-release")
    private = load_source(described)
    place = find_ledger(
        described.source.path or described.source.database,
        name=described.source.table,
        ledger=ledger or described.ledger,
        earlier=Path(f"{ledger_name(described.source.table)}.ledger"),
        evidence=[folder, folder.absolute().parent],
        another=another_ledger,
    )
    ledger_path = place.path
    for note in place.notes:
        say(note)
    earlier = State.recorded(State.folder_for(ledger_path.absolute(), described.name)) or {}
    decided = earlier.get("outcome") is not None and not restart
    if (
        not decided
    ):  # refused or declined, it leaves everything as it was: no ledger is made before the answer
        if restart or not earlier:  # what is refused must not forget the earlier run
            require_free(folder)
        if not json:
            say(_announcement(described, ledger_path))
        for warning in formula_warnings(described.schema):
            say(f"Warning: {warning}")
        if not yes and described.source.simulated is None and sys.stdin.isatty():
            typer.confirm("Go on?", abort=True, err=True)
    consent = parse_consent(accept_facts, accept_invariant, by)
    with Release.open(described, ledger=place, source=private, restart=restart, consent=consent) as running:
        if running.published is None and _is_bundle_of(running.state.release_id, folder):
            running.mark_published(folder)  # an earlier run was stopped after its last step
        if running.published is not None:
            tell(f"This release is complete and was published to {running.published}. Nothing was done.")
            tell("Use --restart to make another one; it is charged anew.")
            return
        require_free(folder)
        with progress_bar("release", quiet=quiet or json) as progress:
            outcome = running.run(progress=progress)
        if _accepted(outcome):
            write_bundle(outcome, folder)
            running.mark_published(folder)
        standing = running.ledger.guarantee().describe()
    result = summary(outcome, folder) | {"ledger": str(ledger_path)}
    if json:
        print_json(result)
    else:
        _report(outcome, folder)
        if decided:
            tell(
                "An earlier run had decided this; nothing was read or charged now. --restart makes another release, "
                "charged anew."
            )
        tell(f"Ledger {ledger_path}:\n{standing}")
    if not result["accepted"]:
        raise typer.Exit(EXIT_NOT_ACCEPTED)


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
    if source is not None:
        described = described.with_source(parse_source(source, in_database, immutable)[0])
    elif in_database is not None or immutable:
        raise UsageError("--table and --immutable go with --source and the address of a database.")
    if row_count is not None:
        described = described.with_row_count(row_count)
    return described


def load_source(spec: Spec) -> Any:
    """Return a simulated table if the specification asks for one; None if it names a file."""
    if spec.source.simulated is None:
        return None
    from understudy import datasets

    wanted = spec.source.simulated
    return datasets.load(wanted.table, wanted.rows, wanted.seed)[0]


def summary(outcome: ReleaseResult | ReleaseFailure, folder: Path) -> dict[str, Any]:
    """Return the outcome as plain values."""
    common: dict[str, Any] = {
        "accepted": _accepted(outcome),
        "guarantee": outcome.guarantee.to_dict(),
        "criteria": [criterion.to_dict() for criterion in outcome.criteria],
        "ledger_head": outcome.ledger_head,
        "ledger_length": outcome.ledger_length,
    }
    if _accepted(outcome):
        return common | {
            "out": str(folder),
            "rows": len(outcome.synthetic),
            "configuration": outcome.configuration.to_dict(),
        }
    return common | {"reason": outcome.reason}  # type: ignore[union-attr]


def _is_bundle_of(release_id: str, folder: Path) -> bool:
    """Say whether a folder is the bundle of this very release. A bundle appears complete or not at all."""
    from json import JSONDecodeError, loads

    try:
        document = loads((folder / "certificate.json").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, JSONDecodeError):
        return False
    return isinstance(document, dict) and document.get("release") == release_id


def _accepted(outcome: ReleaseResult | ReleaseFailure) -> TypeGuard[ReleaseResult]:
    from understudy.release.result import ReleaseResult

    return isinstance(outcome, ReleaseResult)


def _announcement(spec: Spec, ledger: Path) -> str:
    return (
        f"Release {spec.name!r} of the table {spec.source.table!r}: {spec.shares.promise.describe()} for "
        f"{spec.unit.describe()}.\n"
        f"Budget: {spec.shares.words()}.\n"
        f"{spec.row_count.words()}\n"
        + (f"About the promise: {spec.condition().text}\n" if spec.condition().text else "")
        + f"Everything is charged to {ledger} before it is drawn, and stays spent whether or not a candidate is accepted."
    )


def _report(outcome: ReleaseResult | ReleaseFailure, folder: Path) -> None:
    from understudy.cli.output import print_table, tell

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
    if _accepted(outcome):
        tell(f"Accepted. Wrote {len(outcome.synthetic):,} synthetic rows and their documents to {folder}.")
        tell(f"Configuration: {outcome.configuration.name}")
    else:
        tell(f"Not accepted: {outcome.reason} Nothing was published; the budget is spent.")  # type: ignore[union-attr]
        tell(
            "A rehearsal on public data (understudy rehearse) shows beforehand how often that happens, and why."
        )
    tell(f"Guarantee: {outcome.guarantee.describe()}")
