"""One unit of work: draw a chunk, fit it, turn it into values, write it. Doing it twice does no harm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from understudy.bulk.staging import Staging, load_array
from understudy.data import replacing, write_frame
from understudy.engine.lanes import Counts
from understudy.errors import OutputError
from understudy.synthesizers import ChunkedSample, load_model

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ChunkReport", "make_chunk", "part_name", "read_report", "sample_of", "strip_report"]

_MISSING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class ChunkReport:
    """What there is to say about a finished chunk."""

    number: int
    rows: int
    start: float
    end: float
    files: int


def part_name(number: int, suffix: str) -> str:
    """Return the file name of a chunk.

    Examples
    --------
    >>> part_name(7, ".parquet")
    'part-000007.parquet'
    """
    return f"part-{number:06d}{suffix}"


def sample_of(staging: Staging, plan: dict[str, Any], *, with_targets: bool = True) -> ChunkedSample:
    """Rebuild the sample that a plan describes, from the files in its folder."""
    sample = ChunkedSample(
        load_model(staging.model),
        plan["rows"],
        seed=plan["seed"],
        rows_per_chunk=plan["rows_per_chunk"],
        lanes=plan["lanes"],
    )
    if not with_targets or not sample.goal_shapes:
        return sample
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in sample.goal_shapes]
    flat = load_array(staging.targets, sizes)
    targets = [values.reshape(shape) for values, shape in zip(flat, sample.goal_shapes, strict=True)]
    return ChunkedSample(
        sample.model, sample.rows, sample.seed, sample.rows_per_chunk, sample.lanes, targets=targets
    )


@lru_cache(maxsize=1)
def _opened(out: str, digest: str) -> tuple[Staging, dict[str, Any], ChunkedSample]:
    """Open a sample once per process; ``digest`` tells one plan from another in the same place."""
    staging = Staging(out)
    plan = staging.read_plan()
    if plan is None or plan["digest"] != digest:
        raise OutputError(f"The unfinished sample of {out!r} was removed while it was being written.")
    return staging, plan, sample_of(staging, plan)


def make_chunk(out: str, digest: str, wave_number: int, lane: int, made: int) -> ChunkReport:
    """Make one chunk of a sample and write it; the file that says it is done comes last.

    Parameters
    ----------
    out, digest
        Which sample.
    wave_number, lane
        Which chunk.
    made
        Rows of earlier waves.
    """
    staging, plan, sample = _opened(out, digest)
    wave = sample.waves[wave_number]
    counts: tuple[Counts, ...] = ()
    if sample.fitter is not None:
        sizes = [goal.values.size for goal in sample.fitter.goals]
        counts = tuple(load_array(staging.counts(wave_number), sizes))
    number = wave.first + lane
    drawn = sample.draw(wave, lane, made, counts)
    schema = sample.model.schema
    codes = {name: drawn.codes[:, index] for index, name in enumerate(schema.names)}
    frame = schema.decode(codes, seed=sample.decode_seed(number))
    files = 0
    for folder, part in _partitions(frame, plan["partition_by"]):
        target = staging.parts / folder
        target.mkdir(parents=True, exist_ok=True)
        write_frame(part, target / part_name(number, staging.suffix))
        files += 1
    report = ChunkReport(number, len(frame), drawn.start, drawn.end, files)
    joined = np.concatenate([np.zeros(0, np.int32), *drawn.counts])
    facts = np.array([report.number, report.rows, report.start, report.end, report.files], np.float64)
    with replacing(staging.done(number)) as file:
        np.savez(file, counts=joined, facts=facts)
    return report


def strip_report(path: Path) -> None:
    """Forget the counts of a chunk once they are part of a sum, and keep the rest."""
    found = read_report(path)
    if found is not None and found[1].size:
        facts = np.array([found[0].number, found[0].rows, found[0].start, found[0].end, found[0].files])
        with replacing(path) as file:
            np.savez(file, counts=np.zeros(0, np.int32), facts=facts)


def read_report(path: Path) -> tuple[ChunkReport, Any] | None:
    """Return what a finished chunk left, and its counts; None if there is no such file or it is cut off."""
    try:
        with np.load(path, allow_pickle=False) as found:
            facts, counts = found["facts"], found["counts"]
    except (OSError, ValueError, KeyError, EOFError):
        return None
    return ChunkReport(int(facts[0]), int(facts[1]), float(facts[2]), float(facts[3]), int(facts[4])), counts


def _partitions(frame: pd.DataFrame, columns: Sequence[str]) -> Iterator[tuple[Path, pd.DataFrame]]:
    """Yield the folder and records of each combination of values of some columns, Hive style."""
    import pandas as pd

    if not columns:
        yield Path(), frame
        return
    for key, part in frame.groupby(list(columns), sort=True, dropna=False, observed=True):
        words = [
            f"{quote(name, safe='')}={_MISSING if absent else quote(str(value), safe='')}"
            for name, value, absent in zip(
                columns, key, pd.Series(list(key), dtype=object).isna(), strict=True
            )
        ]
        yield Path(*words), part.drop(columns=list(columns)).reset_index(drop=True)
