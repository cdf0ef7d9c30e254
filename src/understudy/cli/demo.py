"""``understudy demo``: the whole road in one command, on a simulated registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to; made if absent.")] = Path(
        "demo-out"
    ),
    rows: Annotated[int, typer.Option(help="Rows of the simulated registry.")] = 20_000,
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    method: Annotated[str, typer.Option("--method", "-m", help="Synthesizer.")] = "laplace",
) -> None:
    """Simulate a registry of births and make a private stand-in for it.

    The registry is simulated, so this demo may compare it with its stand-in. With real records such
    a comparison would itself have to be paid for.
    """
    from understudy import datasets
    from understudy.cli._output import progress_bar, tell
    from understudy.curator import Curator
    from understudy.data import read_table, write_frame
    from understudy.errors import OutputError
    from understudy.privacy import Ledger, PureDP, Unit
    from understudy.report import Panel, marginal_chart
    from understudy.synthesizers import create

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"The folder {str(out)!r} cannot be made: {error.strerror or error}.") from None
    budget, unit = PureDP(epsilon), Unit.add_remove()
    synthesizer = create(method)
    frame, schema = datasets.load("births", rows, seed=1)
    frame = frame[schema.holds_raw(frame)].reset_index(drop=True)  # implausible entries are cleaned out first
    synthesizer.plan(schema, unit=unit, budget=budget)
    tell(f"1. Simulated a registry of {rows:,} births with {len(schema.names)} columns.")
    schema.write(out / "schema.yaml")
    table = read_table(frame, schema)
    ledger_path = out / "births.ledger"
    ledger_path.unlink(missing_ok=True)  # the registry is simulated anew each time, so its ledger starts anew
    with progress_bar("demo", quiet=False) as progress:
        with Ledger.create(ledger_path, budget=budget, unit=unit, table="births (simulated)") as ledger:
            model = synthesizer.fit(Curator(table, unit=unit, ledger=ledger), budget, progress=progress)
            spending = ledger.guarantee().describe()
        synthetic = model.sample(seed=1)
    write_frame(synthetic, out / "synthetic.csv")
    model.save(out / "model.understudy")
    tell(f"2. Fitted {method!r}: {model.provenance.guarantee()}")
    tell(f"3. Ledger: {spending}")
    real, made = table, read_table(synthetic, schema)
    panels = []
    for name in schema.names:
        shares = [side.count((name,)) / max(1, side.exact_row_count()) for side in (real, made)]
        panels.append(Panel(name, schema.column(name).labels, [share.tolist() for share in shares]))
    picture = marginal_chart(
        "Simulated registry and its stand-in", ("simulated registry", "stand-in"), panels
    )
    (out / "marginals.svg").write_text(picture, encoding="utf-8")
    tell(f"4. Wrote {len(synthetic):,} synthetic rows, the model, the ledger and a picture:")
    for name in ("synthetic.csv", "model.understudy", "births.ledger", "schema.yaml", "marginals.svg"):
        tell(f"   {out / name}")
