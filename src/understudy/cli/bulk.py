"""Outputs of the command line that may be larger than memory: folders of parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import parse_names
from understudy.errors import OutputError, UsageError

if TYPE_CHECKING:
    from understudy.bulk import WrittenSample
    from understudy.mechanisms import Model
    from understudy.schema import Schema

OutName = Annotated[
    str,
    typer.Option(
        "--out",
        metavar="<path>",
        help="Synthetic table to write (.csv, .csv.gz or .parquet); with a final slash, as in rows.parquet/, a folder "
        "of such files, for any number of rows.",
    ),
]
ChunkRows = Annotated[
    int | None,
    typer.Option("--chunk-rows", min=1, help="Rows per part of a folder, and per process in memory."),
]
PartitionBy = Annotated[
    str | None,
    typer.Option(
        "--partition-by", help="Columns, comma-separated, whose values become folders of Parquet files."
    ),
]

_BYTES_PER_VALUE = 40
"""Codes, decoded values and what the writer makes of them, at once."""


def check_parts(
    out: str,
    *,
    sets: int | None,
    chunk_rows: int | None,
    partition_by: str | None,
    rows: int | None,
    schema: Schema,
) -> None:
    """Check everything about an output that can be checked before anything is spent."""
    from understudy.bulk import check_partitions, is_folder

    if not is_folder(out):
        if chunk_rows is not None or partition_by is not None:
            raise UsageError("--chunk-rows and --partition-by go with a folder of parts: end --out in /.")
        check_memory(rows, schema, out)
        return
    if sets is not None:
        raise UsageError("--sets writes files, not folders; leave the final slash of --out away.")
    check_folder(out)
    check_partitions(schema, columns_of(partition_by), out)


def check_folder(out: str) -> None:
    """Refuse a folder that is in the way, or an unfinished one, before anything is spent."""
    from understudy.bulk import unfinished
    from understudy.bulk.staging import Staging

    Staging(out).require_free()
    waiting = unfinished(out)
    if waiting is not None:
        raise OutputError(
            f"An unfinished sample, with the model it is drawn from, is in {str(waiting)!r}. Finish it with: "
            f"understudy sample {waiting / 'model.understudy'} --out {out} (and the options it was begun with), or "
            "remove that folder."
        )


def check_memory(rows: int | None, schema: Schema, out: str) -> None:
    """Refuse a single file of more rows than the memory holds, before anything is spent."""
    from understudy.parallel import available_mb

    free = available_mb()
    need = (rows or 0) * len(schema.names) * _BYTES_PER_VALUE / 2**20
    if free is not None and need > free:
        raise OutputError(
            f"{rows:,} rows in one file need about {need:,.0f} MB of memory and {free:,.0f} MB are free. End the name "
            f"with a slash ({out}/) to write a folder of files, chunk by chunk."
        )


def columns_of(words: str | None) -> list[str]:
    """Return the names in a comma-separated list."""
    return parse_names(words, "--partition-by") or []


def write_folder(
    model: Model | Path,
    out: str,
    *,
    rows: int | None,
    seed: int | None,
    chunk_rows: int | None,
    partition_by: str | None,
    jobs: int,
    lanes: int = 8,
    backend: str | None = None,
    restart: bool = False,
    progress: Any,
) -> WrittenSample:
    """Write a folder of parts."""
    from understudy.bulk import write_sample

    return write_sample(
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


def how_close(done: WrittenSample) -> str:
    """Say how well the rows of a folder fit the model."""
    if done.error is None:
        return f"{done.files:,} files, seed {done.seed}."
    return (
        f"{done.files:,} files, seed {done.seed}; marginals of the workload differ from the model's by "
        f"{done.error:.2g} of the rows on average."
    )
