"""``understudy synth``: one table, one fit, one ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.bulk import ChunkRows, OutName, PartitionBy
from understudy.cli.options import (
    ADVICE,
    AcceptFacts,
    AcceptInvariant,
    AnotherLedger,
    By,
    Delta,
    Encoding,
    Epsilon,
    IdColumn,
    Immutable,
    Jobs,
    Json,
    MaxRows,
    MethodName,
    Mu,
    OptionWords,
    Quiet,
    Rho,
    Rows,
    SchemaPath,
    Seed,
    Separator,
    TableInDatabase,
    TableName,
    Unfinished,
    UnitName,
    WorkloadText,
    check_before_reading,
    parse_budget,
    parse_consent,
    parse_method,
    parse_source,
    parse_unit,
    require_apart,
    require_writable,
    summary,
)
from understudy.errors import OutputError
from understudy.mechanisms import Model, MultipleSynthesis, Synthesizer
from understudy.mechanisms.multiple import check_sets, share_of
from understudy.privacy import Budget, Unit
from understudy.schema import Schema

if TYPE_CHECKING:
    from understudy.bulk import WrittenSample
    from understudy.mechanisms import Model
    from understudy.workflow import PaidWork

# ----------------------------------------------------------------------------------------
# ``understudy synth --sets``: several tables under one budget.

ENDINGS = (".csv.gz", ".csv", ".parquet")


def numbered(path: Path, number: int) -> Path:
    """Return the path of one of several files.

    Examples
    --------
    >>> numbered(Path("out/births.csv.gz"), 3).name
    'births-3.csv.gz'
    """
    ending = next((text for text in ENDINGS if path.name.endswith(text)), path.suffix)
    stem = path.name[: len(path.name) - len(ending)]
    return path.with_name(f"{stem}-{number}{ending}")


def check_many(
    synthesizer: Synthesizer, schema: Schema, *, unit: Unit, budget: Budget, m: int, how: str
) -> float:
    """Check everything that can be checked in advance; return the delta that the ledger must set aside."""
    check_sets(synthesizer, how=how, m=m)
    if how != "independent":
        return synthesizer.reserve(schema, budget)
    share = share_of(budget, m, synthesizer, schema=schema, unit=unit)
    synthesizer.require(share)
    synthesizer.plan(schema, unit=unit, budget=share)
    return m * synthesizer.reserve(schema, share)


def deliver_many(
    many: MultipleSynthesis,
    *,
    out: Path,
    model: Path | None,
    rows: int | None,
    seed: int | None,
    write: Any,
    rescue: Callable[[Model], Path | None],
) -> tuple[int, list[str]]:
    """Write every set, and the models; return the rows of the last set and the files."""
    distinct = many.models if many.kind == "independent" else many.models[:1]
    try:
        if model is not None:
            paths = [model] if len(distinct) == 1 else [numbered(model, i + 1) for i in range(len(distinct))]
            for item, path in zip(distinct, paths, strict=True):
                item.save(path)
        written, length = [], 0
        for number, frame in enumerate(many.frames(rows, seed=seed), start=1):
            path = numbered(out, number)
            write(frame, path)
            written.append(str(path))
            length = len(frame)
    except Exception as error:
        kept = [str(saved) for saved in map(rescue, distinct) if saved is not None]
        note = f" The fitted models, already paid for, are kept in {', '.join(kept)}." if kept else ""
        raise OutputError(f"The synthetic tables were not all written: {error}{note}") from None
    return length, written


def how_to_combine(many: MultipleSynthesis) -> str:
    """Say which rule is valid for the sets."""
    advice = {
        "independent": "Combine analyses of the sets with the rule 'partial' (W + B/m).",
        "posterior": "Combine analyses of the sets with the rule 'full' ((1 + 1/m) B - W).",
        "resampled": "No rule gives valid intervals from these sets: all of them repeat the same noise.",
    }
    return advice[many.kind]


def synth(
    table: Annotated[
        str,
        typer.Argument(
            help="Private table: CSV (also .gz), Parquet file or folder, or the address of a database "
            "(postgresql://..., a .duckdb file, a Spark master) with --table."
        ),
    ],
    schema: SchemaPath,
    method: MethodName,
    unit: UnitName,
    out: OutName,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    id_column: IdColumn = None,
    max_rows_per_person: MaxRows = None,
    workload: WorkloadText = None,
    option: OptionWords = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger of the table; made with this budget as its total if absent. "
            "Default: TABLE.ledger beside the table, or in your own folder for databases and read-only places."
        ),
    ] = None,
    another_ledger: AnotherLedger = False,
    table_name: TableName = None,
    rows: Rows = None,
    model: Annotated[Path | None, typer.Option(help="Also write the fitted model to this file.")] = None,
    seed: Seed = None,
    sets: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Write this many sets under the one budget, OUT-1 and so on, for analyses that are combined.",
        ),
    ] = None,
    how: Annotated[
        str,
        typer.Option(
            help="How sets are made: posterior (one release, parameters redrawn), independent (a share of the "
            "budget each) or resampled (no valid intervals)."
        ),
    ] = "posterior",
    chunk_rows: ChunkRows = None,
    partition_by: PartitionBy = None,
    jobs: Jobs = 1,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Private folder (permissions 700) for EXACT counts so far of a table larger than memory, so that "
            "counting goes on after an interruption. As sensitive as the table; emptied when done."
        ),
    ] = None,
    unfinished: Unfinished = "refuse",
    in_database: TableInDatabase = None,
    immutable: Immutable = False,
    separator: Separator = None,
    encoding: Encoding = None,
    accept_facts: AcceptFacts = False,
    accept_invariant: AcceptInvariant = False,
    by: By = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit one private model to a table and write synthetic rows.

    Everything that can be checked without the records is checked first. The ledger is charged before
    each draw of noise, and every answer is kept until the output is written: after an interruption the same command goes on
    and pays for nothing twice. A second run after the output was written spends again, or is refused. A ledger remembers
    the facts (schema, unit, reading) it was opened for; other ones need the owner's consent.
    """
    from understudy.bulk import is_folder
    from understudy.cli.bulk import check_parts, how_close
    from understudy.cli.output import print_json, progress_bar, say, tell
    from understudy.curator import table_facts
    from understudy.data import check_output_format, read_table, write_frame
    from understudy.ledgers import find_ledger, ledger_name
    from understudy.schema import Schema
    from understudy.schema.spreadsheets import formula_warnings
    from understudy.workflow import paid_work, work_facts

    budget = parse_budget(epsilon, delta, rho, mu)
    privacy_unit = parse_unit(unit, id_column, max_rows_per_person)
    described = Schema.read(schema)
    described.require_public()
    consent = parse_consent(accept_facts, accept_invariant, by)
    owner = table_facts(described, unit=privacy_unit, separator=separator, encoding=encoding)
    synthesizer = parse_method(method, described, workload, option)
    synthesizer.require(budget)
    synthesizer.plan(described, unit=privacy_unit, budget=budget)
    target = Path(out)
    check_output_format(target)
    reserve = synthesizer.reserve(described, budget)
    if sets is not None:
        reserve = check_many(synthesizer, described, unit=privacy_unit, budget=budget, m=sets, how=how)
    in_parts = is_folder(out)
    check_parts(out, sets=sets, chunk_rows=chunk_rows, partition_by=partition_by, rows=rows, schema=described)
    if not in_parts:
        require_writable(target if sets is None else numbered(target, 1), what="output")
    if model is not None:
        require_writable(model, what="model file")
    source, name = parse_source(table, in_database, immutable)
    label = table_name or name
    place = find_ledger(
        source,
        name=name,
        label=label,
        ledger=ledger,
        earlier=target.parent / f"{ledger_name(name)}.ledger",
        evidence=[path for path in (target, target.parent, model) if path is not None],
        another=another_ledger,
    )
    ledger_path = place.path
    require_writable(ledger_path, what="ledger")
    for number in range(1, (sets or 1) + 1):
        many_models = model is not None and sets is not None and how == "independent"
        require_apart(
            {
                "output": target if sets is None else numbered(target, number),
                "model file": numbered(model, number) if many_models and model else model,
                "ledger": ledger_path,
            },
            {"table": Path(table), "schema": schema, "table (--table)": Path(in_database or table)},
        )
    is_new = not ledger_path.exists()
    terms: dict[str, Any] = {
        "budget": budget,
        "unit": privacy_unit,
        "table": label,
        "named": table_name is not None,
        "approximate_delta": reserve,
        "advice": ADVICE,
    }
    for note in place.notes:
        say(note)
    check_before_reading(place, owner, consent, **terms)
    facts = work_facts(
        synthesizer,
        schema_fingerprint=described.fingerprint(),
        unit=privacy_unit,
        budget=budget,
        **({} if sets is None else {"sets": sets, "how": how}),
    )
    if not target.name.lower().endswith((".parquet", ".pq")):
        for warning in formula_warnings(described):
            say(f"Warning: {warning}")

    with progress_bar(method, quiet=quiet or json) as progress:
        progress("preparing", 0.0)
        synthesizer.prepare(described, unit=privacy_unit, budget=budget)
        progress("reading", 0.0)
        records = read_table(
            source,
            described,
            id_column=privacy_unit.id_column,
            separator=separator,
            encoding=encoding,
            watch=progress,
            checkpoint=checkpoint,
        )
        with (
            place.opened(**terms) as book,
            paid_work(book, facts, unfinished=unfinished, owner=owner, consent=consent) as work,
        ):
            repeated = work.repeated
            if sets is None:
                fitted = work.fit(synthesizer, records, unit=privacy_unit, budget=budget, progress=progress)
            else:
                many = work.fit_many(
                    synthesizer,
                    records,
                    unit=privacy_unit,
                    budget=budget,
                    sets=sets,
                    how=how,
                    seed=seed,
                    progress=progress,
                )
                fitted = many.models[0]
            standing = book.guarantee()
            progress("sampling", 1.0)
            if in_parts:
                options = {
                    "chunk_rows": chunk_rows,
                    "partition_by": partition_by,
                    "jobs": jobs,
                    "progress": progress,
                }
                done = _deliver_parts(fitted, out, work, model=model, rows=rows, seed=seed, **options)
                length, written = done.rows, [str(target)]
            elif sets is None:
                frame = _deliver(
                    fitted, work, out=target, model=model, rows=rows, seed=seed, write=write_frame
                )
                length, written = len(frame), [str(target)]
            else:
                length, written = deliver_many(
                    many, out=target, model=model, rows=rows, seed=seed, write=write_frame, rescue=_rescue
                )
            work.done()
    guarantee = replace(fitted.provenance, budget=budget).guarantee()
    result: dict[str, Any] = {
        "method": method,
        "guarantee": guarantee,
        "condition": fitted.provenance.condition,
        "rows": length,
        "out": str(target),
        **({"files": done.files, "seed": done.seed, "distance_from_model": done.error} if in_parts else {}),
        **({} if sets is None else {"sets": written, "how": how}),
        "model": None if model is None else str(model),
        "ledger": str(ledger_path),
        "repeated_answers": repeated,
        "spent": summary(standing),
    }
    if json:
        print_json(result)
        return
    if repeated:
        tell(
            f"Went on with an interrupted fit: {repeated} answers that were paid for were repeated at no cost."
        )
    tell(f"Wrote {length:,} synthetic rows to {' and '.join(dict.fromkeys((written[0], written[-1])))}.")
    if in_parts:
        tell(how_close(done))
    if sets is not None:
        tell(f"{sets} sets, made by {how}. {how_to_combine(many)}")
    if model is not None:
        tell(f"Wrote the model to {model}.")
    tell(f"Guarantee: {guarantee}")
    if is_new:
        tell(f"Made the ledger {ledger_path}, with this budget as the total for the table.")
    tell(f"Ledger {ledger_path}:\n{standing.describe()}")


def _deliver(
    fitted: Model,
    work: PaidWork,
    *,
    out: Path,
    model: Path | None,
    rows: int | None,
    seed: int | None,
    write: Any,
) -> Any:
    """Write model and rows; if that fails, keep the paid-for model somewhere and say where."""
    try:
        if model is not None:
            fitted.save(model)
        frame = fitted.sample(rows, seed=seed)
        write(frame, out)
    except Exception as error:
        rescue = work.model_path or _rescue(fitted)
        kept = (
            f" The fitted model, already paid for, is kept in {rescue} and taken up by the same command."
            if rescue
            else ""
        )
        raise OutputError(f"The synthetic table was not written: {error}{kept}") from None
    return frame


def _deliver_parts(
    fitted: Model,
    out: str,
    work: PaidWork,
    *,
    model: Path | None,
    rows: int | None,
    seed: int | None,
    **options: Any,
) -> WrittenSample:
    """Write model and folder; what an interruption leaves is named, and holds the paid-for model."""
    from understudy.bulk import unfinished
    from understudy.cli.bulk import write_folder

    try:
        if model is not None:
            fitted.save(model)
        return write_folder(fitted, out, rows=rows, seed=seed, **options)
    except Exception as error:
        waiting = unfinished(out)
        kept = None if waiting is None else waiting / "model.understudy"
        kept = kept if kept is not None and kept.exists() else work.model_path or _rescue(fitted)
        note = (
            f" The fitted model, already paid for, is kept in {kept}; go on with: understudy sample {kept} --out {out}"
            if kept
            else ""
        )
        raise OutputError(f"The synthetic table is not complete: {error}{note}") from None


def _rescue(fitted: Model) -> Path | None:
    """Try to save the model into a fresh file of the temporary folder."""
    import tempfile

    try:
        rescue = Path(tempfile.mkdtemp(prefix="understudy-")) / "model.understudy"
        fitted.save(rescue)
    except OSError:
        return None
    return rescue
