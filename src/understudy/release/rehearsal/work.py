"""The work of a rehearsal: read the public table in each transformation, run the trials that are missing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data import LocalTable
from understudy.data.persons import KEY_BYTES
from understudy.errors import DataError, OutputError
from understudy.mechanisms import Progress
from understudy.parallel import run, workers
from understudy.release.rehearsal.trial import PublicTable, Trial, run_trial, trial_key
from understudy.release.result import Configuration
from understudy.release.run.transform import pairs_of, read_source, register_tables
from understudy.release.spec.spec import Spec

# ----------------------------------------------------------------------------------------
# Finished trials on the disk, one JSON document per line, so that a rehearsal can be interrupted and resumed.


class TrialStore:
    """An append-only file of trials, or memory alone.

    A line that is not a trial (the last one of a run that was interrupted while it wrote, say) is passed over, and
    its trial is done again. Trials of other specifications or tables may stand in the same file.

    Parameters
    ----------
    path
        The file; None keeps trials in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, Trial] = {}
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes() if path.exists() else b""
            if text and not text.endswith(b"\n"):
                self._append(b"\n")
        except OSError as error:
            raise _refused(path, error) from None
        for line in text.split(b"\n"):
            try:
                trial = Trial.from_dict(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
            self._known[trial.key] = trial

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)

    def get(self, keys: Iterable[str]) -> list[Trial]:
        """Return the trials that are known among some keys."""
        return [self._known[key] for key in keys if key in self._known]

    def add(self, trial: Trial) -> None:
        """Keep a trial; it is on the disk when this returns."""
        if trial.key in self._known:
            return
        if self._path is not None:
            try:
                self._append(json.dumps(trial.to_dict(), allow_nan=False).encode("utf-8") + b"\n")
            except OSError as error:
                raise _refused(self._path, error) from None
        self._known[trial.key] = trial

    def _append(self, line: bytes) -> None:
        assert self._path is not None
        with self._path.open("ab") as stream:
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())


def _refused(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"Trials cannot be kept in {str(path)!r}: {error.strerror or error}. Finished trials written before are safe; "
        "rehearse again when there is room, or choose another folder (--out)."
    )


_TABLES_AT_ONCE = 16
_CELLS_AT_ONCE = 200_000_000
"""Encoded tables kept in memory at a time: so many, and so many codes."""

Keys = dict[tuple[int, int], str]
Tables = dict[tuple[str, ...], tuple[PublicTable, str]]
"""Public tables by transformation, each with its fingerprint."""


def public_tables(spec: Spec, configuration: Configuration, source: Any) -> PublicTable:
    """Read a public table as a configuration transforms it; of several tables of events the entities with each of them."""
    if not spec.parts:
        return public_table(spec, configuration, source)
    try:
        pairs = pairs_of(spec, register_tables(spec, source))
    except DataError as error:
        raise _other_layout(error) from None
    return {table: public_table(part, configuration, pairs[table]) for table, part in spec.parts.items()}


def _other_layout(error: DataError) -> DataError:
    return DataError(
        f"The public table does not have the schema of the specification. {error}\nA rehearsal needs a public "
        "table with the same columns and domains; rename and recode it first."
    )


def public_table(spec: Spec, configuration: Configuration, source: Any) -> LocalTable:
    """Read a public table as a configuration transforms it, cleaned as the private one will be.

    Raises
    ------
    DataError
        Listing every column that is missing or does not fit.
    """
    words: dict[str, Any] = {}
    if spec.source.path is not None and isinstance(source, type(spec.source.path)):
        name = str(source).lower().removesuffix(".gz")
        if name.endswith((".csv", ".tsv", ".data")):
            words = spec.source.reading
    try:
        table = read_source(spec, configuration, source, **words)
    except DataError as error:
        raise _other_layout(error) from None
    if not isinstance(table, LocalTable):
        raise DataError("The public table is too large to rehearse on; take a sample of it.")
    if table.exact_row_count() < 1:
        raise DataError("The public table has no rows (after cleaning); there is nothing to rehearse on.")
    return table


def keys_of(
    spec: Spec,
    configurations: Sequence[Configuration],
    tables: Tables,
    *,
    trials: int,
    seed: int,
    fingerprint: str,
) -> Keys:
    """Return the key of every piece of work, by configuration and trial."""
    return {
        (index, trial): trial_key(
            fingerprint,
            configuration,
            trial,
            table=tables[tuple(configuration.transformations.values())][1],
            seed=seed,
        )
        for index, configuration in enumerate(configurations)
        for trial in range(trials)
    }


def run_missing(
    spec: Spec,
    configurations: Sequence[Configuration],
    source: Any,
    store: TrialStore,
    *,
    trials: int,
    seed: int,
    jobs: int | None,
    backend: str | None = None,
    progress: Progress,
) -> tuple[list[list[Trial]], int]:
    """Run every trial that is not in the store; return the trials of each configuration, and the table's rows.

    A trial is a function of its key, so running one twice does no harm. There are as many processes as asked for
    or as fit in memory, whichever is fewer.
    """
    found: list[list[Trial]] = [[] for _ in configurations]
    fingerprint, total, rows = spec.fingerprint(), len(configurations) * trials, 0
    done = 0
    for group, tables in _groups(spec, configurations, source):
        rows = _number(spec, _each(next(iter(tables.values()))[0])[0])
        part = [configurations[index] for index in group]
        keys = keys_of(spec, part, tables, trials=trials, seed=seed, fingerprint=fingerprint)
        missing = [place for place, key in keys.items() if key not in store]
        done += len(keys) - len(missing)
        progress("resuming" if len(keys) > len(missing) else "trials", done / total)
        work = (
            (
                run_trial,
                (
                    spec,
                    part[index],
                    tables[tuple(part[index].transformations.values())][0],
                    trial,
                    keys[index, trial],
                ),
            )
            for index, trial in missing
        )
        how = workers(jobs, backend=backend, task_mb=_task_mb(part, tables), tasks=len(missing))
        for trial in run(work, how) if missing else ():
            store.add(trial)
            done += 1
            progress(f"{done:,} of {total:,} trials", done / total)
        for place, index in enumerate(group):
            found[index] = store.get(keys[place, trial] for trial in range(trials))
    return found, rows


def _groups(
    spec: Spec, configurations: Sequence[Configuration], source: Any
) -> Iterator[tuple[list[int], Tables]]:
    """Yield configurations (by position) with the tables they need, a bounded number of tables at a time."""
    by_table: dict[tuple[str, ...], list[int]] = {}
    for index, configuration in enumerate(configurations):
        by_table.setdefault(tuple(configuration.transformations.values()), []).append(index)
    group: list[int] = []
    tables: Tables = {}
    cells = 0
    for key, members in by_table.items():
        table = public_tables(spec, configurations[members[0]], source)
        tables[key] = (table, ":".join(map(_fingerprint, _each(table))))
        group += members
        cells += _cells(table)
        if len(tables) >= _TABLES_AT_ONCE or cells >= _CELLS_AT_ONCE:
            yield group, tables
            group, tables, cells = [], {}, 0
    if group:
        yield group, tables


def _number(spec: Spec, table: LocalTable) -> int:
    """Return the number of rows of a public table; of entities with their events, how many entities there are."""
    spec = next(iter(spec.parts.values()), spec)
    unit = spec.unit
    if not spec.two_levels or unit.id_column is None:
        return table.exact_row_count()
    counted = table.truncated(unit.id_column, unit.max_rows, bytes(KEY_BYTES))
    return counted.exact_row_count() // unit.max_rows  # each gives as many records


def _task_mb(configurations: Sequence[Configuration], tables: Tables) -> float:
    """Return about how many megabytes one trial takes: libraries, the table in several forms, the model."""
    largest = max(_cells(table) for table, _ in tables.values())
    models = [float(item.options.get("max_model_mb", 80.0)) for item in configurations]
    return 300 + 40 * largest / 2**20 + 3 * max(models, default=80.0)


def _each(table: PublicTable) -> list[LocalTable]:
    return [table] if isinstance(table, LocalTable) else list(table.values())


def _cells(table: PublicTable) -> int:
    return sum(item.exact_row_count() * len(item.schema.names) for item in _each(table))


def _fingerprint(table: LocalTable) -> str:
    """Return a SHA-256 of the codes of a table in their order."""
    digest = hashlib.sha256(table.schema.fingerprint().encode("ascii"))
    for chunk in table.chunks(table.schema.names):
        for name in table.schema.names:
            digest.update(np.ascontiguousarray(chunk[name]).tobytes())
    digest.update(str(table.exact_row_count()).encode("ascii"))
    for part in table.beyond_codes():
        digest.update(part)
    return digest.hexdigest()
