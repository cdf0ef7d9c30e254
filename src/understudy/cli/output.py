"""Printing for people and for programs: tables, JSON, progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from understudy.progress import time_left

if TYPE_CHECKING:
    from understudy.bulk import WrittenSample

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

_SHORT = 12
"""Columns whose entries are no longer than this are never wrapped."""

_PIPE_WIDTH = 140
"""Width of tables where there is no terminal."""


def print_json(document: Any) -> None:
    """Write one JSON document to standard output and nothing else."""
    sys.stdout.write(json.dumps(document, indent=2, default=str, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a plain table."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        longest = max((len(row[index]) for row in cells), default=0)
        short = longest <= _SHORT
        table.add_column(column, overflow="fold", no_wrap=short, min_width=min(longest, _SHORT))
    for row in cells:
        table.add_row(*row)
    if console.is_terminal or console.width >= _PIPE_WIDTH:
        console.print(table)
    else:  # a pipe has no width of its own; words broken after three letters help nobody
        Console(file=console.file, highlight=False, width=_PIPE_WIDTH).print(table)


def tell(message: str) -> None:
    """Print a line of the result on standard output."""
    console.print(message, markup=False, soft_wrap=True)


def say(message: str) -> None:
    """Tell a person something on the error stream, so that standard output stays clean."""
    errors.print(message, markup=False, soft_wrap=True)


def go_on(*, yes: bool) -> None:
    """Ask a person at a terminal whether to go on; nothing was spent yet."""
    if not yes and sys.stdin.isatty():
        typer.confirm("Go on?", abort=True, err=True)


COMPILES = "The first run compiles its kernels, which takes about a quarter of a minute; later runs do not."


def compiles_first() -> bool:
    """Whether nothing was compiled yet for this installation and version of Python."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return False
    tag = f".py{sys.version_info[0]}{sys.version_info[1]}.nbi"
    caches = (
        Path(__file__).resolve().parents[1].glob(f"**/__pycache__/*{tag}")
    )  # a folder that cannot be read has none
    return next(iter(caches), None) is None


class _TimeLeft(ProgressColumn):
    """How long it will still take if it goes on as it went."""

    def render(self, task: Task) -> Text:
        """Say it, as soon as it can be said."""
        return Text(time_left(task.elapsed or 0.0, task.completed / (task.total or 1.0)))


@contextmanager
def progress_bar(title: str, *, quiet: bool) -> Iterator[Any]:
    """Show a progress bar; yields a callback ``(stage, fraction)``."""
    from understudy.cli.logs import watched

    if quiet or not errors.is_terminal:
        yield watched(lambda stage, fraction: None)
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        _TimeLeft(),
        console=errors,
        transient=True,
    )
    if compiles_first():
        say(COMPILES)
    with bar:
        task = bar.add_task(title, total=1.0)

        def update(stage: str, fraction: float) -> None:
            bar.update(task, description=f"{title}: {stage}", completed=min(1.0, fraction))

        yield watched(update)


def large(number: int) -> str:
    """Write a whole number so that people can read it, however large."""
    text = str(number)
    return f"{number:,}" if len(text) <= 12 else f"{text[0]}.{text[1:3]}e{len(text) - 1}"


def how_close(done: WrittenSample) -> str:
    """Say how well the rows of a folder fit the model."""
    if done.error is None:
        return f"{done.files:,} files, seed {done.seed}."
    return (
        f"{done.files:,} files, seed {done.seed}; marginals of the workload differ from the model's by "
        f"{done.error:.2g} of the rows on average."
    )
