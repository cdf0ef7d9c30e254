"""What is made of a fitted model: rows in files, folders or memory, and the model itself; checked in advance, and rescued where it fails."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.data import Database, check_output_format, write_frame
from understudy.data.linked import LinkedTables
from understudy.data.output import (
    Relation,
    check_tables_output,
    is_folder,
    require_apart,
    require_writable,
    sweep_leftovers,
    write_tables,
)
from understudy.errors import OutputError, UsageError
from understudy.mechanisms import Model, MultipleSynthesis, Progress
from understudy.mechanisms.multiple import check_sets, share_of
from understudy.parallel import available_mb
from understudy.progress import Phases
from understudy.schema import Schema
from understudy.schema.linked import package_of
from understudy.workflow.paid import PaidWork

if TYPE_CHECKING:
    import pandas as pd

    from understudy.ledgers import LedgerPlace
    from understudy.workflow.synthesis.fits import Fit

__all__ = [
    "Delivery",
    "beside",
    "check_apart",
    "check_delivery",
    "check_memory",
    "deliver",
    "require_weight",
    "write_linked",
]

_ENDINGS = (".csv.gz", ".csv", ".parquet")
_BYTES_PER_VALUE = 40
"""Codes, decoded values and what the writer makes of them, at once."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What is made of the fitted model.

    Attributes
    ----------
    out
        The synthetic table: a file (``.csv``, ``.csv.gz``, ``.parquet``), a folder of parts if the name ends in a slash, or None for
        a frame in memory. Of linked tables a folder with a file for each, or a DuckDB file.
    model
        File for the fitted model.
    rows, seed
        Number of rows, by default as many as the model estimates; and what makes their draw repeatable.
    population
        Draw a population instead of a survey: rows that all stand for equally many people (`Model.population`).
    sets, how
        So many tables under the one budget, made this way; see `understudy.mechanisms.synthesize_many`.
    chunk_rows, partition_by, jobs
        Of a folder of parts; see `understudy.bulk.write_sample`.
    endings
        Of linked tables, by name: how each is written unless the name of the folder says (``.csv``, ``.csv.gz``, ``.parquet``).
    schema
        File for the schema, where steps before the fit measure it: written as soon as it is known, because it was paid for.
    """

    out: str | None = None
    model: Path | None = None
    rows: int | None = None
    seed: int | None = None
    population: bool = False
    sets: int | None = None
    how: str = "posterior"
    chunk_rows: int | None = None
    partition_by: tuple[str, ...] = ()
    jobs: int = 1
    endings: Mapping[str, str] = field(default_factory=dict)
    schema: Path | None = None

    @property
    def in_parts(self) -> bool:
        """Whether a folder of parts is asked for."""
        return self.out is not None and is_folder(self.out)

    def tables(self) -> list[Path]:
        """Return the files or the folder that will hold the rows."""
        if self.out is None:
            return []
        target = Path(self.out)
        return [target] if self.sets is None else [_numbered(target, i + 1) for i in range(self.sets)]

    def models(self) -> list[Path]:
        """Return the files that will hold the models: one for each set that is fitted by itself."""
        if self.model is None:
            return []
        if self.sets is None or self.how != "independent" or self.sets == 1:
            return [self.model]
        return [_numbered(self.model, i + 1) for i in range(self.sets)]


def _numbered(path: Path, number: int) -> Path:
    """Return the path of one of several files.

    Examples
    --------
    >>> _numbered(Path("out/births.csv.gz"), 3).name
    'births-3.csv.gz'
    """
    ending = next((text for text in _ENDINGS if path.name.endswith(text)), path.suffix)
    stem = path.name[: len(path.name) - len(ending)]
    return path.with_name(f"{stem}-{number}{ending}")


def beside(out: str, ending: str) -> Path:
    """Return a free name beside an output for what belongs to it: ``rows.csv`` and ``.understudy`` give ``rows.understudy``, or ``rows-2.understudy`` where that is taken.

    Examples
    --------
    >>> beside("no such folder/rows.csv.gz", ".schema.yaml").name, beside("rows.parquet/", ".understudy").name
    ('rows.schema.yaml', 'rows.understudy')
    """
    path = Path(out)
    stem = next((path.name.removesuffix(text) for text in _ENDINGS if path.name.endswith(text)), path.stem)
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    names = (path.with_name(f"{stem}{number}{ending}") for number in numbers)
    return next(name for name in names if not name.exists())


def check_delivery(fit: Fit, delivery: Delivery | None) -> float:
    """Check everything about the output that can be checked in advance; return the delta that the ledger must set aside."""
    synthesizer, schema = fit.synthesizer, fit.records
    linked = fit.entity is not None and fit.entity.tables is not None
    if linked and delivery is not None:
        _check_linked(delivery)
    elif fit.entity is not None and delivery is not None and (delivery.sets is not None or delivery.in_parts):
        raise UsageError(
            "People with several rows are drawn into one file or frame, not into several sets or a folder of parts. Leave --sets and the final slash of the output away, or fit the rows without "
            "their number and order (--flat, flat=True)."
        )
    if delivery is None:
        return synthesizer.reserve(schema, fit.budget)
    if delivery.population:
        require_weight(fit.schema, two_levels=fit.entity is not None)
        if delivery.sets is not None or delivery.in_parts:
            raise UsageError(
                "A population is drawn into one file or frame, not into several sets or a folder of parts. Leave --population out, or --sets and the final slash of the output."
            )
    if delivery.out is not None and not linked:
        check_output_format(delivery.out)
    reserve = synthesizer.reserve(schema, fit.budget)
    if delivery.sets is not None:
        check_sets(synthesizer, how=delivery.how, m=delivery.sets)
        if delivery.how == "independent":
            share = share_of(fit.budget, delivery.sets, synthesizer, schema=schema, unit=fit.unit)
            synthesizer.require(share)
            synthesizer.plan(schema, unit=fit.unit, budget=share)
            reserve = delivery.sets * synthesizer.reserve(schema, share)
    if linked:
        if delivery.out is not None:
            check_memory(delivery.rows, schema, delivery.out)
    elif delivery.in_parts:
        _check_parts(delivery, schema)
    else:
        if delivery.chunk_rows is not None or delivery.partition_by:
            raise UsageError(
                "--chunk-rows and --partition-by (chunk_rows, partition_by) go with a folder of parts: end the name of the output (--out) in /."
            )
        if delivery.out is not None:
            check_memory(delivery.rows, schema, delivery.out)
            require_writable(delivery.tables()[0], what="output")
    if delivery.model is not None:
        require_writable(delivery.model, what="model file")
    if delivery.schema is not None:
        if not fit.steps:
            raise UsageError("--schema-out goes with --discover.")
        require_writable(delivery.schema, what="schema file")
    return reserve


def require_weight(schema: Schema, *, two_levels: bool) -> None:
    """Refuse to draw a population from a table without weights, before anything is spent."""
    if schema.weight is None:
        raise UsageError(
            "A population (--population, population=True) is drawn by survey weights, and the schema declares none. Give it a section weight: {column: ..., cap: ...}."
        )
    if two_levels:
        raise UsageError(
            "A population (--population, population=True) is drawn row by row, and this is a fit of people with several rows. Fit the rows (--flat, flat=True), or leave --population out."
        )


def _check_linked(delivery: Delivery) -> None:
    """Refuse what cannot be made of linked tables, and a place for them that is taken."""
    if delivery.sets is not None or delivery.chunk_rows is not None or delivery.partition_by:
        raise UsageError(
            "Linked tables are drawn once and as a whole: leave --sets, --chunk-rows and --partition-by (sets, chunk_rows, partition_by) out."
        )
    if delivery.out is not None:
        check_tables_output(delivery.out)


def _check_parts(delivery: Delivery, schema: Schema) -> None:
    """Refuse a folder that is in the way, an unfinished one, or one that cannot be made that way."""
    from understudy.bulk import check_partitions, unfinished
    from understudy.bulk.staging import Staging

    assert delivery.out is not None
    if delivery.sets is not None:
        raise UsageError(
            "Several sets (--sets) are files, not folders; leave the final slash of the output (--out) away."
        )
    Staging(delivery.out).require_free()
    waiting = unfinished(delivery.out)
    if waiting is not None:
        raise OutputError(
            f"An unfinished sample, with the model it is drawn from, is in {str(waiting)!r}. Finish it with: "
            f"understudy sample {waiting / 'model.understudy'} --out {delivery.out} (and the options it was begun with), or "
            "remove that folder."
        )
    check_partitions(schema, delivery.partition_by, delivery.out)


def check_memory(rows: int | None, schema: Schema, out: str) -> None:
    """Refuse a single file of more rows than the memory holds, before anything is spent."""
    free = available_mb()
    need = (rows or 0) * len(schema.names) * _BYTES_PER_VALUE / 2**20
    if free is not None and need > free:
        raise OutputError(
            f"{rows:,} rows in one file need about {need:,.0f} MB of memory and {free:,.0f} MB are free. End the name "
            f"with a slash ({out}/) to write a folder of files, chunk by chunk."
        )


def check_apart(fit: Fit, delivery: Delivery | None, place: LedgerPlace | None) -> None:
    """Refuse outputs that would replace what is read, the ledger, or one another."""
    ledger = None if place is None else place.path
    tables: Sequence[Path] = () if delivery is None else delivery.tables()
    models: Sequence[Path] = () if delivery is None else delivery.models()
    for number in range(max(1, len(tables), len(models))):
        require_apart(
            {
                "output": tables[number] if number < len(tables) else None,
                "model file": models[min(number, len(models) - 1)] if models else None,
                "schema file": None if delivery is None else delivery.schema,
                "ledger": ledger,
            },
            _files_of(fit.table) | dict(fit.files),
        )


def _files_of(table: Any) -> dict[str, Path]:
    """Return the files that a table is read from, as far as it is read from files."""
    if isinstance(table, Database):
        return {"database": Path(table.url.split("://", 1)[-1]), "table": Path(table.table)}
    if isinstance(table, str | PathLike):
        return {"table": Path(table)}
    if isinstance(table, LinkedTables):
        return table.files()
    if isinstance(table, Sequence) and all(isinstance(item, str | PathLike) for item in table):
        return {f"part {number} of the table": Path(item) for number, item in enumerate(table, start=1)}
    return {}


def deliver(
    delivery: Delivery, model: Model, many: MultipleSynthesis | None, work: PaidWork, *, progress: Progress
) -> dict[str, Any]:
    """Write models and rows; if that fails, keep what was paid for somewhere and say where."""
    if many is not None:
        return _deliver_sets(delivery, many, progress)
    linked = model.events is not None and model.events.linked is not None
    if delivery.in_parts and not linked:
        return _deliver_parts(delivery, model, work, progress)
    try:
        if delivery.model is not None:
            sweep_leftovers(Path(delivery.model))
            model.save(delivery.model)
        phases = Phases(progress, {"drawing": 9.0, "writing": 1.0})
        if linked:
            return _deliver_linked(delivery, model, phases)
        drawn = model.population if delivery.population else model.sample
        frame = drawn(delivery.rows, seed=delivery.seed, progress=phases.part("drawing"))
        if delivery.out is not None:
            phases.part("writing")("writing", 0.0)
            drawn_by = model.population_schema if delivery.population else model.table_schema
            write_frame(frame, delivery.out, schema=drawn_by, synthetic=True)
    except Exception as error:
        kept = work.model_path or _rescue(model)
        note = (
            f" The fitted model, already paid for, is kept in {kept} and taken up by the same command or call."
            if kept
            else ""
        )
        raise OutputError(f"The synthetic table was not written: {error}{note}") from None
    made = {"frame": frame, "rows": len(frame), "written": tuple(delivery.tables())}
    entity = model.table_schema.entity if model.events is not None else None
    return made if entity is None else made | {"persons": int(frame[entity.id].nunique())}


def write_linked(
    tables: Mapping[str, pd.DataFrame], out: str, schema: Schema, *, endings: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """Write synthetic linked tables with their keys: a folder with a file for each and a description, or a DuckDB file."""
    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    entities, events = entity.tables
    return write_tables(
        tables,
        out,
        schema=schema,
        endings=endings,
        relations=[Relation(events, entity.reference or entity.id, entities, entity.id)],
        describe=lambda files: json.dumps(package_of(schema, tables, files), indent=2) + "\n",
    )


def _deliver_linked(delivery: Delivery, model: Model, phases: Phases) -> dict[str, Any]:
    """Draw linked tables and write them, a file each."""
    assert model.events is not None
    assert model.events.linked is not None
    phases.part("drawing")("drawing entities", 0.0)
    tables = model.sample_tables(delivery.rows, seed=delivery.seed)
    written: tuple[Path, ...] = ()
    if delivery.out is not None:
        phases.part("writing")("writing", 0.0)
        written = write_linked(tables, delivery.out, model.table_schema, endings=delivery.endings)
    entities, events = model.events.linked
    entity = model.table_schema.entity
    assert entity is not None
    persons = (
        len(tables[entities])
        if entities in tables
        else int(tables[events][entity.reference or entity.id].nunique())
    )
    return {"tables": tables, "rows": len(tables[events]), "written": written, "persons": persons}


def _deliver_sets(delivery: Delivery, many: MultipleSynthesis, progress: Progress) -> dict[str, Any]:
    """Write every set, and the models."""
    distinct = many.models if many.kind == "independent" else many.models[:1]
    rows = delivery.rows if delivery.rows is not None else many.rows
    try:
        for model, path in zip(distinct, delivery.models(), strict=False):
            model.save(path)
        if delivery.out is not None:
            tables = delivery.tables()
            progress(f"drawing set 1 of {len(tables)}", 0.0)
            frames = many.frames(delivery.rows, seed=delivery.seed)
            for number, (frame, path) in enumerate(zip(frames, tables, strict=True), start=1):
                write_frame(frame, path, schema=many.models[0].schema, synthetic=True)
                rows = len(frame)
                if number < len(tables):
                    progress(f"drawing set {number + 1} of {len(tables)}", number / len(tables))
    except Exception as error:
        kept = [str(saved) for saved in map(_rescue, distinct) if saved is not None]
        note = f" The fitted models, already paid for, are kept in {', '.join(kept)}." if kept else ""
        raise OutputError(f"The synthetic tables were not all written: {error}{note}") from None
    return {"rows": rows, "written": tuple(delivery.tables())}


def _deliver_parts(delivery: Delivery, model: Model, work: PaidWork, progress: Progress) -> dict[str, Any]:
    """Write model and folder; what an interruption leaves is named, and holds the paid-for model."""
    from understudy.bulk import unfinished, write_sample

    assert delivery.out is not None
    try:
        if delivery.model is not None:
            model.save(delivery.model)
        done = write_sample(
            model,
            delivery.out,
            rows=delivery.rows,
            seed=delivery.seed,
            rows_per_chunk=delivery.chunk_rows,
            partition_by=delivery.partition_by,
            jobs=delivery.jobs,
            progress=progress,
        )
    except Exception as error:
        waiting = unfinished(delivery.out)
        kept = None if waiting is None else waiting / "model.understudy"
        kept = kept if kept is not None and kept.exists() else work.model_path or _rescue(model)
        note = (
            f" The fitted model, already paid for, is kept in {kept}; go on with: understudy sample {kept} --out {delivery.out}"
            if kept
            else ""
        )
        raise OutputError(f"The synthetic table is not complete: {error}{note}") from None
    return {"rows": done.rows, "written": tuple(delivery.tables()), "parts": done}


def _rescue(model: Model) -> Path | None:
    """Try to save the model into a fresh file of the temporary folder."""
    import tempfile

    try:
        path = Path(tempfile.mkdtemp(prefix="understudy-")) / "model.understudy"
        model.save(path)
    except OSError:
        return None
    return path
