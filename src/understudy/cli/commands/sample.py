"""``understudy sample``: rows from a model that was fitted and paid for before."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import (
    Backend,
    ChunkRows,
    Jobs,
    Json,
    OutName,
    PartitionBy,
    Population,
    Quiet,
    Rows,
    Seed,
    columns_of,
)
from understudy.errors import UsageError

if TYPE_CHECKING:
    from understudy.mechanisms import Model
    from understudy.mechanisms.events import RegisterModel


def sample(
    model: Annotated[
        Path,
        typer.Argument(
            help="Model file, written by `understudy synth --model`; of several tables of events the folder with their models."
        ),
    ],
    out: OutName,
    rows: Rows = None,
    population: Population = False,
    seed: Seed = None,
    chunk_rows: ChunkRows = None,
    partition_by: PartitionBy = None,
    lanes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Parts made at the same time: at most so many processes are busy. Changes the rows, as the seed does.",
        ),
    ] = 8,
    jobs: Jobs = 1,
    backend: Backend = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Throw an unfinished folder of parts away first.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            help="Only rows for which this is true, such as \"age >= 70 and sex == 'F'\"; a comparison with a missing entry is not."
        ),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(
            help="Table of columns that are fixed (CSV or Parquet): one row is drawn for each of its rows, with these values."
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw synthetic rows from a fitted model. Costs no budget and reads no private data.

    A folder of parts takes its name when it is complete. An interrupted one goes on where it stopped when the
    same command is given again. The rows depend on the model, the seed, the number of rows, --chunk-rows and
    --lanes, not on the number of processes.
    """
    from understudy.cli.output import how_close, print_json, progress_bar, tell
    from understudy.data import check_output_format, read_frame, write_frame
    from understudy.data.output import (
        check_tables_output,
        is_folder,
        require_apart,
        require_writable,
    )
    from understudy.mechanisms import load_model
    from understudy.mechanisms.conditional import FEW_ROWS, RareRows
    from understudy.mechanisms.events import RegisterModel, is_register_model
    from understudy.progress import Phases
    from understudy.workflow.delivery import write_linked
    from understudy.workflow.events import write_register

    result: dict[str, Any]
    linked: Model | RegisterModel | None = None
    if is_register_model(model):
        linked = RegisterModel.load(model)
    elif is_folder(out) or out.lower().endswith(".duckdb"):
        linked = _linked_model(model)
    if linked is not None:
        if population or where or given or chunk_rows is not None or partition_by is not None or restart:
            raise UsageError(
                "Linked tables are drawn as a whole: leave --population, --where, --given, --chunk-rows, --partition-by and --restart out."
            )
        check_tables_output(out)
        with progress_bar("sample", quiet=quiet or json) as progress:
            phases = Phases(progress, {"drawing": 9.0, "writing": 1.0})
            phases.part("drawing")("drawing entities", 0.0)
            tables = linked.sample_tables(rows, seed=seed)
            phases.part("writing")("writing", 0.0)
            if isinstance(linked, RegisterModel):
                write_register(linked, tables, out)
            else:
                write_linked(tables, out, linked.table_schema)
            phases.done()
        numbers = {name: len(item) for name, item in tables.items()}
        events = list(numbers.values())[1 if isinstance(linked, RegisterModel) else -1 :]
        result = {"rows": sum(events), "tables": numbers, "seed": seed, "out": out}
        note = "Tables: " + ", ".join(f"{name} ({number:,} rows)" for name, number in numbers.items()) + "."
    elif is_folder(out):
        if population:
            raise UsageError("--population goes with one file: end --out in .csv or .parquet.")
        if where is not None or given is not None:
            raise UsageError("--where and --given go with one file: end --out in .csv or .parquet.")
        from understudy.bulk import write_sample

        with progress_bar("sample", quiet=quiet or json) as progress:
            done = write_sample(
                model,
                out,
                rows=rows,
                seed=seed,
                rows_per_chunk=chunk_rows,
                partition_by=columns_of(partition_by),
                lanes=lanes,
                jobs=jobs,
                backend=backend,
                restart=restart,
                progress=progress,
            )
        result = {
            "rows": done.rows,
            "files": done.files,
            "seed": done.seed,
            "distance_from_model": done.error,
            "out": out,
        }
        note = how_close(done)
    else:
        if chunk_rows is not None or partition_by is not None or restart:
            raise UsageError("--chunk-rows, --partition-by and --restart go with a folder: end --out in /.")
        target = Path(out)
        check_output_format(target)
        require_writable(target, what="output")
        require_apart({"output": target}, {"model": model, "given": given})
        if population and (where is not None or given is not None):
            raise UsageError("--population draws from all rows; leave --where and --given out.")
        if given is not None and rows is not None:
            raise UsageError("--given says how many rows there are; leave --rows out.")
        from understudy.workflow import check_memory
        from understudy.workflow.delivery import require_weight

        fitted = load_model(model)
        if population:
            require_weight(fitted.schema, two_levels=fitted.events is not None)
        if fitted.events is not None and fitted.events.linked is not None:
            check_tables_output(out)
        fixed = None if given is None else read_frame(given)
        number = rows if rows is not None or where or given or fitted.events else fitted.default_rows()
        check_memory(number if number is not None else fitted.default_rows(), fitted.schema, out)
        with progress_bar("sample", quiet=quiet or json) as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", RareRows)  # said below, with the number
            phases = Phases(progress, {"drawing": 9.0, "writing": 1.0})
            drawing = phases.part("drawing")
            if population:
                frame = fitted.population(number, seed=seed, progress=drawing)
            else:
                frame = fitted.sample(number, where=where, given=fixed, seed=seed, progress=drawing)
            phases.part("writing")("writing", 0.0)
            drawn_by = fitted.population_schema if population else fitted.table_schema
            write_frame(frame, target, schema=drawn_by, synthetic=True)
            phases.done()
        result, note = {"rows": len(frame), "files": 1, "seed": seed, "out": out}, ""
        plain = not population and where is None and given is None
        if plain and (moved := fitted.effect_of_rules(frame)) is not None:
            result["rules"] = moved.to_dict()
            note = moved.describe()
        if where is not None:
            share = fitted.share(where)
            result["share"] = share
            note = f"The condition holds for {share:.3g} of the model's rows, about {share * fitted.total:,.3g} of {fitted.total:,.0f}."
            if share * fitted.total < FEW_ROWS:
                note += " So few are mostly noise: no evidence that there are any."
    if json:
        print_json(result)
        return
    tell(f"Wrote {result['rows']:,} synthetic rows to {out}. {note}".rstrip())


def _linked_model(path: Path) -> Model | None:
    """Return a model of linked tables; None for a model of one table, and for what is none, which others say."""
    from understudy.mechanisms import load_model

    fitted = load_model(path)
    return fitted if fitted.events is not None and fitted.events.linked is not None else None
