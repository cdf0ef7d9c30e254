"""``understudy demo``: the whole road in one command, on a simulated registry."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import Json, Quiet

if TYPE_CHECKING:
    import pandas as pd

    from understudy.release.spec.spec import Spec


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to; made if absent.")] = Path(
        "demo-out"
    ),
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of the simulated registry.")] = 20_000,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make a private stand-in for a simulated registry of births.

    The whole road: table, release, ledger, bundle. The registry is simulated, so this demo may compare it with its stand-in. With real records such
    a comparison would itself have to be paid for.
    """
    from understudy import datasets
    from understudy.cli import output
    from understudy.cli.output import COMPILES, compiles_first, errors, print_json, progress_bar, say
    from understudy.ledgers import LedgerPlace
    from understudy.plots import marginals
    from understudy.release.bundle.bundle import bundle_files
    from understudy.release.bundle.verify import verify_bundle
    from understudy.release.result import ReleaseResult
    from understudy.workflow import Payment, plan_publication

    def tell(line: str) -> None:
        if not json:
            output.tell(line)

    spec = _demo_spec(rows)
    bundle, ledger = out / "bundle", out / "births.ledger"
    _make_room(out)
    simulated = spec.source.simulated
    assert simulated is not None
    registry: pd.DataFrame = datasets.load(simulated.table, simulated.rows, simulated.seed)[0]
    tell(f"1. Simulated a registry of {rows:,} births with {len(spec.schema.names)} columns.")
    tell(f"2. The specification promises {spec.total.describe()}: {spec.shares.describe()}.")
    if compiles_first() and not errors.is_terminal:  # on a terminal the progress bar says so
        say(COMPILES)
    payment = Payment(ledger=LedgerPlace(ledger))  # nothing is remembered of a table that is simulated
    planned = plan_publication(spec, source=registry, out=bundle, payment=payment)
    with progress_bar("demo", quiet=quiet or json) as progress:
        outcome = planned.run(progress=progress).outcome
    assert outcome is not None
    charges = sum(entry.event is not None for entry in outcome.ledger_entries)
    tell(f"3. The ledger {ledger} was charged {charges} times, each time before noise was drawn.")
    accepted = isinstance(outcome, ReleaseResult)
    if isinstance(outcome, ReleaseResult):
        verify_bundle(bundle)
        sides = {"simulated registry": registry, "stand-in": outcome.synthetic}
        marginals(sides, outcome.schema, columns=outcome.schema.names).save(out / "marginals.svg")
    if json:
        print_json(
            {
                "accepted": accepted,
                "guarantee": outcome.guarantee.to_dict(),
                "registry_rows": rows,
                "charges": charges,
                "ledger": str(ledger),
                "rows": len(outcome.synthetic) if isinstance(outcome, ReleaseResult) else None,
                "out": str(bundle) if accepted else None,
                "reason": "" if isinstance(outcome, ReleaseResult) else outcome.reason,
            }
        )
        return
    if not isinstance(outcome, ReleaseResult):
        tell(
            f"4. Not accepted: {outcome.reason} That is how a release ends when its promise of quality is not kept. "
            "Here everything is simulated: run it again, with more --rows if they were few."
        )
        return
    tell(
        f"4. Accepted: {len(outcome.criteria)} criteria met. Wrote {len(outcome.synthetic):,} synthetic rows."
    )
    tell(
        f"5. The bundle {bundle} holds {len(list(bundle_files(bundle))) + 1} files and verifies. Begin with:"
    )
    for path, what in (
        (bundle / "report.html", f"the report; open it in a browser, or: understudy open {bundle}"),
        (bundle / "data.csv", "the stand-in"),
        (bundle / "README.md", "what it may be used for, and what each file is"),
        (bundle / "documents", "statements and questions for data protection officers and registries"),
        (out / "marginals.svg", "the simulated registry beside its stand-in"),
    ):
        tell(f"   {path}: {what}")
    tell(f"Next: understudy ledger show {ledger}, understudy verify {bundle}")


def _make_room(out: Path) -> None:
    """Make the folder, or empty the one an earlier demo made; never touch anything else.

    The registry is simulated anew each time, so its ledger and bundle start anew too.
    """
    from understudy.errors import OutputError

    marker = out / ".understudy-demo"
    try:
        if out.exists() and any(out.iterdir()):
            if not marker.is_file():
                raise OutputError(
                    f"The folder {str(out)!r} holds other files; give --out an empty or new folder."
                )
            shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        marker.write_text("made by understudy demo; may be deleted\n", encoding="utf-8")
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"The folder {str(out)!r} cannot be used: {error.strerror or error}.") from None


def _demo_spec(rows: int) -> Spec:
    """Return the demo's specification for a registry of some size."""
    from importlib.resources import files

    from understudy import datasets
    from understudy.release.spec.spec import Spec
    from understudy.schema.files.yaml import parse_plain

    plain = parse_plain((files("understudy.release") / "demo.yaml").read_text(encoding="utf-8"))
    schema = datasets.births_schema().to_dict()
    schema.pop("constraints", None)
    plain["schema"] = schema
    plain["source"]["simulate"]["rows"] = rows
    plain["public"]["expected_rows"] = max(1, round(0.99 * rows))
    return Spec.from_dict(plain)
