"""``understudy rehearse``: try the configurations of a release on public data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import Backend, Jobs, Json, Quiet
from understudy.errors import UsageError

if TYPE_CHECKING:
    from understudy.release.rehearsal.rehearsal import Rehearsal
    from understudy.release.result import Configuration
    from understudy.release.spec.spec import Spec

_SHOWN = 30
_DEFAULT_ROWS = 20_000


def rehearse(
    spec: Annotated[Path, typer.Argument(help="Specification of the release (YAML or JSON).")],
    public: Annotated[
        Path | None,
        typer.Option(
            "--public",
            help="A PUBLIC table with the same schema: it is read without noise, and exact "
            "errors are shown. Never name the private table here.",
        ),
    ] = None,
    simulate: Annotated[
        str | None, typer.Option("--simulate", help="Instead: a simulated table, such as births.")
    ] = None,
    facts: Annotated[
        Path | None, typer.Option("--facts", help="Instead: a file of public facts to simulate a table from.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option("--rows", help="Rows to simulate; by default what the specification expects."),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Attempts per configuration.")] = 10,
    configurations: Annotated[
        str, typer.Option("--configurations", help="How many configurations to try, drawn at random, or all.")
    ] = "all",
    keep: Annotated[
        float, typer.Option("--keep", help="Keep configurations whose acceptance probability is above this.")
    ] = 0.1,
    jobs: Jobs = -1,
    backend: Backend = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of the search and its noise, which is not secret here.")
    ] = 0,
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the results; an interrupted rehearsal goes on from it.")
    ] = Path("rehearsal"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Try a release on public data and narrow its specification.

    The table given must be public: it is read without noise and exact errors are shown. The private table is
    not opened and no budget is spent. Finished trials are kept in the folder; giving the same command again
    goes on with the rest.
    """
    from understudy.cli.output import print_json, progress_bar, say
    from understudy.release.rehearsal.rehearsal import rehearse as run
    from understudy.release.spec.spec import Spec

    described = Spec.read(spec)
    count = _count(configurations)
    table, description, notes = _table(described, public, simulate, facts, rows, seed)
    say(
        f"Rehearsing on {description}. It must be public: it is read without noise and exact errors are shown."
    )
    for note in notes:
        say(f"Note: {note}")
    with progress_bar("rehearse", quiet=quiet or json) as progress:
        found = run(
            described,
            table,
            trials=trials,
            configurations=count,
            jobs=jobs,
            backend=backend,
            folder=out,
            keep=keep,
            seed=seed,
            progress=progress,
        )
    files = found.write(out)
    narrowed = found.narrowed(out)
    if json:
        print_json(
            found.to_dict()
            | {
                "table": description,
                "table_notes": list(notes),
                "narrowed": None if narrowed is None else len(narrowed[0].configurations),
                "files": {name: str(path) for name, path in files.items()},
            }
        )
        return
    _show(found, narrowed, out)


def _count(description: str) -> int | None:
    if description == "all":
        return None
    try:
        count = int(description)
    except ValueError:
        count = 0
    if count < 1:
        raise UsageError(f"--configurations ({description}) must be all, or a number of at least 1.")
    return count


def _table(
    spec: Spec, public: Path | None, simulate: str | None, facts: Path | None, rows: int | None, seed: int
) -> tuple[Any, str, tuple[str, ...]]:
    """Return the public table, words for it, and what to know about it."""
    from understudy.datasets import load, patient_register
    from understudy.release.rehearsal.facts import Facts, table_from_facts

    given = [
        name
        for name, value in (("--public", public), ("--simulate", simulate), ("--facts", facts))
        if value is not None
    ]
    if len(given) != 1:
        raise UsageError(
            f"Give exactly one of --public, --simulate and --facts; got {' and '.join(given) or 'none'}."
        )
    if rows is not None and (public is not None or rows < 1):
        raise UsageError(
            "--rows goes with --simulate and --facts and must be at least 1. To rehearse on fewer rows of a public "
            "table, sample the file."
        )
    if spec.parts and public is None:
        raise UsageError(
            f"A release of several tables of events is rehearsed on public tables: give --public FOLDER, a folder with a file for each of {', '.join(spec.table_names)}."
        )
    if public is not None:
        return public, f"the table {str(public)!r}", ()
    wanted = rows or spec.row_count.value or spec.expected_rows
    if simulate is not None:
        wanted = wanted or _DEFAULT_ROWS
        if simulate == "patient_register":
            return patient_register(wanted, seed), f"{wanted:,} simulated patients ({simulate})", ()
        if spec.table_names:
            raise UsageError(
                f"The specification describes the linked tables {', '.join(spec.table_names)}, and {simulate!r} is one table: give --simulate patient_register, "
                "if its tables are those, or --public FOLDER, a folder with a public file for each table."
            )
        return load(simulate, wanted, seed)[0], f"{wanted:,} simulated rows ({simulate})", ()
    assert facts is not None
    declared = Facts.read(facts, spec)
    number = rows or declared.rows or wanted or _DEFAULT_ROWS
    frame, notes = table_from_facts(declared, rows=number, seed=seed)
    more = (
        "A table from facts holds no pattern that nobody declared, which flatters simple methods, and spreads "
        "records more than real tables do, which is hard on faithfulness and rare records."
    )
    return frame, f"{number:,} rows simulated from the facts in {str(facts)!r}", (*notes, more)


def _show(found: Rehearsal, narrowed: tuple[Spec, tuple[Configuration, ...]] | None, out: Path) -> None:
    from understudy.cli.output import print_table, tell

    trials = max(len(item.trials) for item in found.results)
    print_table(
        f"{found.spec.name}: acceptance on public data ({trials} {'trial' if trials == 1 else 'trials'} each, {found.rows:,} {found.spec.counted})",
        ("accepted", "95 % interval", "median slack", "closest to failing", "seconds", "configuration"),
        [
            (
                f"{item.acceptance:.0%}",
                f"{item.interval[0]:.0%} to {item.interval[1]:.0%}",
                "" if item.median_slack is None else f"{item.median_slack:,.1f}",
                ", ".join(f"{name} ({times})" for name, times in list(item.closest.items())[:2])
                or next(iter(item.failures), "")[:80],
                f"{sum(trial.seconds for trial in item.trials) / len(item.trials):.2g}",
                item.configuration.name,
            )
            for item in found.results[:_SHOWN]
        ],
    )
    if len(found.results) > _SHOWN:
        tell(f"... and {len(found.results) - _SHOWN} more in {out / 'rehearsal.json'}")
    best = found.results[0]
    thresholds = {item.name: item.threshold for item in found.spec.criteria}
    print_table(
        f"Best configuration: {best.configuration.name}",
        ("criterion", "threshold", "median error", "median slack (records)", "closest to failing"),
        [
            (
                name,
                f"{thresholds[name]:g}",
                "infinite" if error is None else f"{error:.4g}",
                f"{best.median_slacks[name]:,.1f}",
                f"{best.closest.get(name, 0)} of {len(best.trials)}",
            )
            for name, error in best.median_errors.items()
        ],
    )
    for note in found.notes:
        tell(f"Note: {note}")
    if narrowed is None:
        tell(
            f"No configuration was accepted with a probability above {found.keep:g}; no specification written."
        )
        return
    spec, outside = narrowed
    number = len(spec.configurations)
    description = "1 configuration" if number == 1 else f"{number} configurations"
    tell(f"Narrowed specification ({description}): {out / 'spec.yaml'}")
    if outside:
        tell(
            f"{len(outside)} more would be worth keeping but do not fit into one product of alternatives; they are in "
            f"{out / 'rehearsal.json'}."
        )
