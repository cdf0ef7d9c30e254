"""``understudy refresh``: next year's specification from this year's bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.commands.release import RowCount
from understudy.cli.options import Immutable, Json, Quiet, TableInDatabase, parse_source


def refresh(
    bundle: Annotated[Path, typer.Argument(help="Folder of the earlier release.")],
    source: Annotated[
        str,
        typer.Option(
            "--source",
            help="Private table to use instead of the one the specification names: a file, or the address of a database "
            "with --table.",
        ),
    ],
    in_database: TableInDatabase = None,
    immutable: Immutable = False,
    row_count: RowCount = None,
    name: Annotated[
        str | None,
        typer.Option("--release-name", help="Name of the new release; by default that of the table."),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option("--spec", help="Specification to begin with; by default that of the bundle."),
    ] = None,
    use: Annotated[
        str,
        typer.Option(
            "--use",
            help="What the new release takes from the old one: all (which marginals to measure, and the model as prior), "
            "prior (the model, the method as it was), or nothing (the specification only).",
        ),
    ] = "all",
    years: Annotated[
        int, typer.Option("--years", min=2, help="Length of the series to show the cost of.")
    ] = 5,
    trials: Annotated[
        int,
        typer.Option("--trials", min=0, help="Attempts per configuration."),
    ] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Specification to write; by default NAME.yaml.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write next year's specification from this year's bundle.

    Nothing is read of the new table but the names of its columns, and nothing is spent. The old bundle is verified; its configuration, its choice
    of marginals and its model are public, so using them costs nothing. The guarantee of the whole series is shown for somebody who is in
    every table. `understudy release` runs the specification.
    """
    from understudy.cli.output import print_json, print_table, progress_bar, tell
    from understudy.errors import UsageError
    from understudy.release.rehearsal.rehearsal import rehearse
    from understudy.release.series.cost import CONDITION
    from understudy.release.series.refresh import plan_refresh
    from understudy.release.spec.spec import Spec

    if use not in ("all", "prior", "nothing"):
        raise UsageError(f"--use ({use}) must be all, prior or nothing.")
    planned = plan_refresh(
        bundle,
        source=parse_source(source, in_database, immutable)[0],
        name=name,
        spec=None if spec is None else Spec.read(spec),
        use=use,  # type: ignore[arg-type]
        row_count=row_count,
        years=years,
    )
    file = planned.write(out or Path(f"{planned.spec.name.replace(' ', '-')}.yaml"))
    tried = None
    if trials:
        with progress_bar("rehearse", quiet=quiet or json) as progress:
            tried = rehearse(planned.rehearsal_spec(), bundle / "data.csv", trials=trials, progress=progress)
    if json:
        found = {} if tried is None else {"rehearsal": tried.to_dict()}
        print_json({"out": str(file), **planned.to_dict(), **found})
        return
    tell(
        f"Wrote {file}: release {planned.number} of the series that {planned.certificate['name']!r} belongs to."
    )
    for note in planned.notes:
        tell(note)
    print_table(
        "What the series costs",
        ("releases", "guarantee together"),
        [(1, planned.year.describe()), *((count, total.describe()) for count, total in planned.series)],
    )
    tell(CONDITION)
    if tried is not None:
        shares = ", ".join(f"{item.acceptance:.0%} ({item.configuration.name})" for item in tried.results)
        tell(
            f"Accepted in {trials} attempts each on the rows of the old bundle, without its prior: {shares}."
        )
    tell(f"Next: have it approved if that is required, then understudy release {file}")
