"""Write a sample of any number of rows as a folder of files."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from understudy.bulk.staging import Staging, content_digest, load_array, save_array
from understudy.data import rate, replacing, write_frame
from understudy.engine.record_fitting.lanes import LANES, Counts, Wave
from understudy.errors import OutputError, UnderstudyError, WorkloadError
from understudy.mechanisms import ChunkedSample, Model, Progress, load_model, save_model, usual_chunk_rows
from understudy.parallel import Workers, run, workers
from understudy.progress import Phases, no_progress
from understudy.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

# ----------------------------------------------------------------------------------------
# One unit of work: draw a chunk, fit it, turn it into values, write it. Doing it twice does no harm.

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
        raise OutputError(
            f"The unfinished sample of {out!r} is not where it was begun: it was removed, or a machine that was to write a part of it does not see "
            "this folder. All machines need the same disk under the same path."
        )
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
    frame = sample.model.decode(codes, seed=sample.decode_seed(number))
    files = 0
    for folder, part in _partitions(frame, plan["partition_by"]):
        target = staging.parts / folder
        target.mkdir(parents=True, exist_ok=True)
        write_frame(part, target / part_name(number, staging.suffix), schema=schema, synthetic=True)
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
        stage = [
            f"{quote(name, safe='')}={_MISSING if absent else quote(str(value), safe='')}"
            for name, value, absent in zip(
                columns, key, pd.Series(list(key), dtype=object).isna(), strict=True
            )
        ]
        yield Path(*stage), part.drop(columns=list(columns)).reset_index(drop=True)


_VERSION = 1
_MAX_FOLDERS = 2_000


@dataclass(frozen=True)
class WrittenSample:
    """A sample that is complete.

    Attributes
    ----------
    path
        The folder.
    rows, files
        How much there is in it.
    seed
        With which it can be written again.
    error
        How far the marginals of all rows are from the model's: average L1 distance over the workload, as a share of
        the rows. None where the model has no workload.
    leftover
        Largest share of its starting distance that a chunk was left with after fitting (``q`` in
        `understudy.engine.record_fitting.lanes`).
    """

    path: Path
    rows: int
    files: int
    seed: int
    error: float | None
    leftover: float | None


def write_sample(
    model: Model | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    rows: int | None = None,
    seed: int | None = None,
    rows_per_chunk: int | None = None,
    lanes: int = LANES,
    partition_by: Sequence[str] = (),
    jobs: int = 1,
    backend: str | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> WrittenSample:
    """Draw any number of rows from a model into a folder of Parquet or CSV files, in bounded memory.

    The folder takes its name only when it is complete. Until then everything is in a hidden folder beside it, and
    the same call goes on from there after an interruption. The rows depend on the model, the seed,
    ``rows``, ``rows_per_chunk`` and ``lanes``, and on nothing else: not on how many processes write them, nor on
    interruptions.

    Parameters
    ----------
    model
        A fitted model, or the path of a model file.
    out
        The folder to make. Its name ends in ``.parquet``, ``.csv`` or ``.csv.gz`` (a final slash is fine).
    rows
        By default the declared or estimated number of rows of the real table.
    seed
        Of the draw. By default a new one, or that of the unfinished sample.
    rows_per_chunk
        Rows per file, and per process in memory; by default half a million, fewer where there are many columns.
    lanes
        Chunks made between two exchanges of what is left over: at most so many processes are busy.
    partition_by
        Parquet only: columns (categorical, ordinal or boolean) whose values become folders, as in
        ``region=north/part-000000.parquet``.
    jobs, backend
        Processes (-1: one per core; on Spark as many as the cluster runs at a time) and what runs them; see
        `understudy.parallel`. Machines must share the disk.
    restart
        Throw an unfinished sample away first.
    progress
        Called with words and a fraction; 1 when the folder has its name.

    Returns
    -------
    WrittenSample
        Where it is and how well it fits.

    Raises
    ------
    OutputError
        If the folder exists, cannot be written, or an unfinished sample with another plan is in the way.
    WorkloadError
        If a number or column makes no sense.

    Privacy
    -------
    In: a released model. Out: releasable. Cost: none (post-processing). The hidden folder holds the model and
    synthetic rows only.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> from understudy import Curator, Ledger, PureDP, Unit, create, read_table
    >>> from understudy.schema import Boolean, Schema
    >>> table = read_table(pd.DataFrame({"smokes": [True, False] * 50}), Schema([Boolean("smokes")]))
    >>> ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.replace_one(), table="t")
    >>> model = create("independent").fit(Curator(table, unit=Unit.replace_one(), ledger=ledger), PureDP(1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = write_sample(model, f"{folder}/big.parquet", rows=1000, rows_per_chunk=300, seed=1)
    ...     sorted(path.name for path in done.path.iterdir()), done.rows
    (['_manifest.json', 'part-000000.parquet', 'part-000001.parquet', 'part-000002.parquet', 'part-000003.parquet'], 1000)
    """
    phases = Phases(progress or no_progress, {"preparing": 1.0, "rows": 18.0, "publishing": 1.0})
    staging = Staging(out)
    staging.require_free()
    fitted = model if isinstance(model, Model) else load_model(Path(model))
    number = fitted.default_rows() if rows is None else rows
    ChunkedSample(fitted, number, seed=0)  # refuses models that are not drawn in chunks
    if number < 0:
        raise WorkloadError(f"Cannot draw {number} rows; ask for zero or more.")
    if seed is not None and seed < 0:
        raise WorkloadError(f"The seed ({seed}) must not be negative.")
    check_partitions(fitted.schema, partition_by, out)
    with staging.locked():
        phases.part("preparing")("asking the model", 0.0)
        if restart:
            staging.clear(keep=None if isinstance(model, Model) else Path(model))
        plan, sample = _agree(
            staging,
            model if isinstance(model, Model) else Path(model),
            {
                "version": _VERSION,
                "rows": number,
                "rows_per_chunk": rows_per_chunk or usual_chunk_rows(fitted.schema),
                "lanes": lanes,
                "partition_by": list(partition_by),
            },
            seed,
        )
        how = workers(
            jobs, backend=backend, task_mb=sample.task_mb, tasks=max(map(_width, sample.waves), default=1)
        )
        phases.part("rows")("drawing and writing", 0.0)
        reports, error = _all_waves(staging, plan, sample, how, phases.part("rows"))
        if not sample.waves:  # no rows: one file that says which columns there would be
            empty = fitted.sample(0, seed=plan["seed"])
            write_frame(
                empty, staging.parts / part_name(0, staging.suffix), schema=fitted.schema, synthetic=True
            )
            reports = [ChunkReport(0, 0, 0.0, 0.0, 1)]
        shares = [item.end / item.start for item in reports if item.start > 0]
        done = WrittenSample(
            staging.out,
            sum(item.rows for item in reports),
            sum(item.files for item in reports),
            plan["seed"],
            error,
            max(shares) if shares else None,
        )
        phases.part("publishing")("closing the folder", 0.0)
        manifest = {key: plan[key] for key in ("model", "rows_per_chunk", "lanes", "partition_by")}
        staging.publish(
            {
                "rows": done.rows,
                "files": done.files,
                "seed": done.seed,
                "distance_from_model": error,
                **manifest,
            },
            files=done.files,
        )
    phases.done()
    return done


def _width(wave: Wave) -> int:
    return len(wave.sizes)


def _agree(
    staging: Staging, model: Model | Path, wanted: dict[str, Any], seed: int | None
) -> tuple[dict[str, Any], ChunkedSample]:
    """Go on with the plan in the folder if it is the same one, or make a new one in an empty folder."""
    known = staging.read_plan()
    digest = None if known is not None else staging.begin(model)
    if known is not None:
        digest = _digest_of(model)
        if seed is None:
            seed = int(known.get("seed", -1))
    plan = {**wanted, "model": digest, "seed": secrets.randbits(62) if seed is None else seed}
    plan["digest"] = hashlib.sha256(json.dumps(plan, sort_keys=True).encode("utf-8")).hexdigest()
    if known is not None and known != plan:
        raise OutputError(
            f"An unfinished sample of another model, size or seed is in {str(staging.root)!r}, with its model. Finish "
            "it with the arguments it was begun with, or throw it away (restart)."
        )
    sample = sample_of(staging, plan, with_targets=False)
    if known is None or not staging.targets.exists():
        save_array(staging.targets, sample.goals, np.float64)
    sample = sample_of(staging, plan)
    staging.write_plan(plan)
    return plan, sample


def _digest_of(model: Model | Path) -> str:
    """Return the digest of a model without touching the one in the folder."""
    if not isinstance(model, Model):
        return content_digest(model)
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, Path(folder) / "model")
        return content_digest(Path(folder) / "model")


def _all_waves(
    staging: Staging, plan: dict[str, Any], sample: ChunkedSample, how: Workers, tell: Progress
) -> tuple[list[ChunkReport], float | None]:
    """Make what is missing, wave after wave; return the reports of all chunks and the error of all rows."""
    reports: list[ChunkReport] = []
    sizes = [] if sample.fitter is None else [goal.values.size for goal in sample.fitter.goals]
    summed = max(
        (place for place in range(len(sample.waves) + 1) if staging.counts(place).exists()), default=0
    )
    if sizes and summed == 0:
        save_array(staging.counts(0), sample.nothing(), np.int64)
    made, there, fresh, started = 0, 0, 0, time.monotonic()
    for place, wave in enumerate(sample.waves):
        paths = [staging.done(wave.first + lane) for lane in range(len(wave.sizes))]
        found = [read_report(path) for path in paths]
        missing = [lane for lane, item in enumerate(found) if item is None]
        if missing and place < summed and sizes:
            raise staging.lost()
        tasks = [(make_chunk, (str(staging.out), plan["digest"], place, lane, made)) for lane in missing]
        there += sum(item[0].rows for item in found if item is not None)
        for report in _run_all(tasks, how, staging):
            fresh += report.rows
            speed = rate(fresh / max(1e-9, time.monotonic() - started))
            tell(f"drawing and writing, {speed}", (there + fresh) / sample.rows)
        complete = [item for item in map(read_report, paths) if item is not None]
        if len(complete) < len(paths):
            raise staging.lost()
        reports += [report for report, _ in complete]
        made += wave.rows
        if sizes and place >= summed:
            counts = [np.array(part) for part in load_array(staging.counts(place), sizes)]
            for _, chunk in complete:
                for total, more in zip(counts, np.split(chunk, np.cumsum(sizes)[:-1]), strict=True):
                    total += more
            save_array(staging.counts(place + 1), counts, np.int64)
            staging.counts(place).unlink(missing_ok=True)
            for path in paths:
                strip_report(path)
    if sample.fitter is None or not sample.waves:
        return reports, None
    return reports, sample.fitter.error(made, load_array(staging.counts(len(sample.waves)), sizes))


def _run_all(tasks: list[Any], how: Workers, staging: Staging) -> Iterator[ChunkReport]:
    """Run tasks; say in plain words that a process was lost."""
    try:
        yield from run(tasks, how)
    except UnderstudyError:
        raise
    except (OSError, RuntimeError, MemoryError) as error:
        raise OutputError(
            f"A process that was writing {str(staging.out)!r} ended early ({type(error).__name__}), perhaps for want of "
            "memory. What is finished is kept: give the same command again, with fewer processes or smaller chunks."
        ) from None


def check_partitions(schema: Schema, columns: Sequence[str], out: str | os.PathLike[str]) -> None:
    """Refuse folders by columns that have too many values or are no groups.

    Examples
    --------
    >>> from understudy.schema import Integer
    >>> check_partitions(Schema([Integer("age", minimum=0, maximum=9)]), ["age"], "t.parquet")
    Traceback (most recent call last):
    ...
    understudy.errors.WorkloadError: partition_by (age) must name categorical, ordinal or boolean columns, and leave one out.
    """
    if not columns:
        return
    if Staging(out).suffix not in (".parquet", ".pq"):
        raise WorkloadError("partition_by needs a folder of Parquet files: end its name in .parquet.")
    schema.domain.canonical(columns)
    groups = ("categorical", "ordinal", "boolean")
    if any(schema.column(name).kind not in groups for name in columns) or len(columns) >= len(schema.names):
        raise WorkloadError(
            f"partition_by ({', '.join(columns)}) must name categorical, ordinal or boolean columns, and leave one out."
        )
    folders = math.prod(schema.column(name).finest.size for name in columns)
    if folders > _MAX_FOLDERS:
        raise WorkloadError(
            f"partition_by ({', '.join(columns)}) would make up to {folders:,} folders; at most {_MAX_FOLDERS:,}."
        )
