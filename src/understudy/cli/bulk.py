"""Outputs of the command line that may be larger than memory: folders of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import parse_names

if TYPE_CHECKING:
    from understudy.bulk import WrittenSample

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


def columns_of(words: str | None) -> tuple[str, ...]:
    """Return the names in a comma-separated list."""
    return tuple(parse_names(words, "--partition-by") or ())


def how_close(done: WrittenSample) -> str:
    """Say how well the rows of a folder fit the model."""
    if done.error is None:
        return f"{done.files:,} files, seed {done.seed}."
    return (
        f"{done.files:,} files, seed {done.seed}; marginals of the workload differ from the model's by "
        f"{done.error:.2g} of the rows on average."
    )
