"""``understudy audit``: attacks on the mechanisms themselves, claimed against demonstrated."""

from __future__ import annotations

import json as encoder
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.exits import Exit
from understudy.cli.options import Chart, Jobs, Json, OptionWords, Quiet, parse_options
from understudy.data.output import require_writable
from understudy.errors import OutputError, UnknownMethod, UsageError

if TYPE_CHECKING:
    from understudy.audit import AuditReport

HEADINGS = (
    "subject", "worst pair", "unit", "claim", "claimed", "shown", "share", "runs", "best attacker", "verdict",
)  # fmt: skip


def audit(
    subject: Annotated[
        str | None, typer.Argument(metavar="method|spec", help="A method, or a specification file.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every primitive, every method and two small releases.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes instead of hours, with wider bounds.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(min=40, help="Runs that judge the worst pair, instead of the usual number.")
    ] = None,
    option: OptionWords = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the tables and coins; privacy noise takes no seed.")
    ] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Write all numbers to this JSON file.")] = None,
    tables: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables to this Markdown file.")
    ] = None,
    chart: Chart = None,
    jobs: Jobs = -1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Attack a method and compare what is shown with its claim.

    Nothing private is read: the tables are made up to be the worst, a specification is run on made-up neighbouring tables, its source is not opened. The exit
    code is 7 if any audit demonstrates more than is claimed, beyond what chance explains.
    """
    from understudy.cli.output import print_json, progress_bar, tell

    for path, what in ((out, "numbers"), (tables, "tables"), (chart, "picture")):
        if path is not None:
            require_writable(path, what=what)
    with progress_bar("audit", quiet=quiet or json) as progress:
        report = _audited(
            subject, everything=everything, quick=quick, runs=runs, seed=seed, jobs=jobs, given=option or [],
            progress=progress,
        )  # fmt: skip
    document = report.to_dict()
    if out is not None:
        _write(out, encoder.dumps(document, indent=2, allow_nan=False) + "\n")
    if tables is not None:
        _write(tables, report.markdown())
    if chart is not None:
        _write(chart, report.chart())
    if json:
        print_json(document)
    else:
        _show(document)
        for path in (out, tables, chart):
            if path is not None:
                tell(f"Wrote {path}.")
    if report.violations:
        raise typer.Exit(Exit.VIOLATION)


def _audited(
    subject: str | None,
    *,
    everything: bool,
    quick: bool,
    runs: int | None,
    seed: int,
    jobs: int,
    given: list[str],
    progress: Callable[[str, float], None],
) -> AuditReport:
    from understudy.audit import Effort, audit_all, audit_many
    from understudy.mechanisms import methods

    if everything == (subject is not None):
        raise UsageError("Name a method or a specification, or ask for --all.")
    effort = Effort.quick() if quick else Effort.thorough()
    if runs is not None:
        effort = effort.limited(runs)
    if subject is None:
        return audit_all(effort=effort, seed=seed, jobs=jobs, progress=progress)
    if subject in {item.name for item in methods()}:
        chosen = parse_options(given) or None
        return audit_many([subject], options=chosen, effort=effort, seed=seed, jobs=1, progress=progress)
    if not Path(subject).is_file():
        raise UnknownMethod(f"{subject!r} is neither a registered method nor a specification file.")
    from understudy.release.spec.spec import Spec

    return audit_many([], specs=[Spec.read(subject)], effort=effort, seed=seed, jobs=1, progress=progress)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"Cannot write {str(path)!r}: {error.strerror}.") from None


def _show(document: Mapping[str, Any]) -> None:
    from understudy.audit import audit_cells, audit_lines, audit_summary
    from understudy.cli.output import print_table, tell

    lines = [audit_cells(item) for item in audit_lines(document)]
    print_table("Claimed and demonstrated", HEADINGS, [[cells[head] for head in HEADINGS] for cells in lines])
    for given in audit_summary(document):
        tell(given)
