"""The bundle: everything that is published, written so that half a bundle never looks whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data import sync, write_frame
from understudy.data.output import in_use, sweep_leftovers
from understudy.errors import OutputError
from understudy.privacy import Unit
from understudy.privacy.ledger.ledger import Entry
from understudy.release.bundle.documents import acceptance_table, dictionary, readme
from understudy.release.bundle.metadata import croissant, csv_companion, data_package, datasette
from understudy.release.bundle.office import DOCUMENTS, OfficeFacts, office_documents
from understudy.release.bundle.registry import deployment_text
from understudy.release.bundle.reporting import bundle_report, counts_by_level, listed_files, of_entities
from understudy.release.result import ReleaseResult
from understudy.report import Page, Panel, marginal_chart, markdown, release_page, render
from understudy.schema import Schema
from understudy.schema.files.yaml import write_plain

# ----------------------------------------------------------------------------------------
# Folders that are complete or absent.


@contextlib.contextmanager
def complete_folder(target: Path) -> Iterator[Path]:
    """Fill a new folder that appears under its name only when it is complete and on the disk.

    Yields a temporary folder beside the target. If anything fails it is removed and the target is as it was: absent.

    Raises
    ------
    OutputError
        If the target exists, or something cannot be written (a full disk, say).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     with complete_folder(Path(here) / "bundle") as folder:
    ...         _ = (folder / "a.txt").write_text("a")
    ...     sorted(path.name for path in (Path(here) / "bundle").iterdir())
    ['a.txt']
    """
    if os.path.lexists(target):
        raise OutputError(f"The folder {str(target)!r} exists already; nothing was written. Choose another.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        temporary.mkdir(parents=True)
        sweep_leftovers(target)
        with in_use(temporary):
            yield temporary
        for path in sorted(temporary.rglob("*")):
            sync(path)
        sync(temporary)
        if os.path.lexists(target):  # somebody else was quicker
            raise OutputError(
                f"The folder {str(target)!r} exists already; nothing was written. Choose another."
            )
        os.rename(temporary, target)
        sync(target.parent)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"The folder {str(target)!r} cannot be written: {error.strerror or error}."
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


FORMAT = "understudy-bundle-1"
MANIFEST = "MANIFEST.json"
FILES = {
    "README.md": "this page, for data subjects and data users",
    "README.html": "the same, to print or open in a browser",
    "dictionary.md": "data dictionary: every column with every value it can take",
    "dictionary.html": "the same, to print or open in a browser",
    "report.html": "the release in pictures and plain words; opens in any browser",
    "changes.md": "what has changed since the release before this one, and what noise alone would explain",
    "changes.html": "the same, to print or open in a browser",
    "data.csv": "the synthetic table",
    "data.parquet": "the same as Parquet",
    "schema.yaml": "columns, possible values, bins and rules",
    "acceptance.csv": "acceptance criteria with thresholds and results",
    "configuration.json": "the configuration that was chosen",
    "spec.json": "the specification, decided before any record was read for this release",
    "certificate.json": "the guarantee: unit, every charge, how they add up",
    "model.understudy": "the fitted model with its noisy measurements, for error bounds and more rows",
    "marginals.svg": "one-way tables of the synthetic data",
    "datapackage.json": "Frictionless Data Package",
    "data.csv-metadata.json": "says beside data.csv that its rows are synthetic, and what its columns are (CSV on the Web)",
    "croissant.json": "Croissant metadata",
    "datasette.json": "metadata for Datasette, which shows the table in a browser",
    **DOCUMENTS,
    "documents/deployment.yaml": "draft entry for the public registry of differentially private deployments",
    MANIFEST: "hashes of all files",
}

TABLE_FILE = "one of the linked tables, with its key"
"""What the files of linked tables hold, in the folder ``tables``."""


_EVENT_MODEL = "the fitted model with its noisy measurements, for more rows; its error bounds and intervals are about event records"


def described_files(schema: Schema, unit: Unit, *, linked: bool) -> dict[str, str]:
    """Return what each file of a bundle holds, by its name; of linked tables and models of event records as it is there."""
    entity, found = schema.entity, dict(FILES)
    if of_entities(schema, unit):
        found["model.understudy"] = _EVENT_MODEL
    if entity is not None and linked and entity.tables is not None:
        found["data.csv"] = f"the rows of {entity.tables[1]}, each with the columns of its {entity.id}"
    return found


def write_bundle(result: ReleaseResult, folder: str | os.PathLike[str]) -> Path:
    """Write the bundle of a release to a new folder and return it.

    Everything goes to a temporary folder beside it, is synced to the disk, and takes its name in one step: a
    folder of that name is complete or absent.

    Privacy
    -------
    In: a `ReleaseResult`, all of which may be published. Out: published. The files bear the day that the bundle itself
    names: the time at which a selection ended says how many attempts it made.
    """
    target = Path(folder)
    day = datetime.fromisoformat(result.finished).replace(tzinfo=UTC).timestamp()
    with complete_folder(target) as temporary:
        if result.parts:
            _fill_register(result, temporary)
        else:
            _fill(result, temporary)
        for path in (*temporary.rglob("*"), temporary):
            os.utime(path, (day, day))
    return target


def _fill(result: ReleaseResult, folder: Path) -> None:
    """Write every file of the bundle, the manifest last."""
    names = [f"data.{kind}" for kind in dict.fromkeys(("csv", *result.spec.formats))]
    data = {}
    for name in names:
        write_frame(result.synthetic, folder / name, schema=result.schema, synthetic=True)
        content = (folder / name).read_bytes()
        data[name] = (hashlib.sha256(content).hexdigest(), len(content))
    data |= _write_tables(result, folder)
    result.schema.write(folder / "schema.yaml")
    if result.model is not None:
        result.model.save(folder / "model.understudy")
    possible = described_files(result.schema, result.guarantee.unit, linked=bool(result.tables))
    absent = {"data.csv", "data.parquet"} - set(data)
    absent |= {"model.understudy"} if result.model is None else set()
    changes = _changes(result)
    absent |= {"changes.md", "changes.html"} if changes is None else set()
    listed = {name: explained for name, explained in possible.items() if name not in absent}
    listed |= {name: TABLE_FILE for name in data if name.startswith("tables/")}
    proved = certificate(result, data)
    about, columns = readme(result, files=listed), dictionary(result)
    texts: dict[str, str] = {
        "README.md": markdown(about),
        "README.html": render(about),
        "dictionary.md": markdown(columns),
        "dictionary.html": render(columns),
        "acceptance.csv": acceptance_table(result.criteria),
        "configuration.json": _json(result.configuration.to_dict()),
        "spec.json": _json(result.spec.to_dict()),
        "certificate.json": _json(proved),
        "marginals.svg": _picture(result),
        "datapackage.json": _json(data_package(result, data)),
        "croissant.json": _json(croissant(result, data)),
        "data.csv-metadata.json": _json(csv_companion(result, data)),
        "datasette.json": _json(datasette(result)),
        "documents/deployment.yaml": deployment_text(result),
    }
    (folder / "documents").mkdir()
    if changes is not None:
        texts |= {"changes.md": markdown(changes), "changes.html": render(changes)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    report = bundle_report(folder, schema=result.schema, model=result.model)
    published = OfficeFacts(
        json.loads(_json(proved)),
        json.loads(texts["spec.json"]),
        result.schema,
        bounded=bool(report.bounds),
        rare=bool(report.rare),
    )
    for name, page in office_documents(published).items():
        (folder / name).write_text(render(page), encoding="utf-8")
    report = replace(report, files=listed_files(folder, result.schema, result.guarantee.unit))
    (folder / "report.html").write_text(release_page(report), encoding="utf-8")
    _write_manifest(folder)


def _write_tables(result: ReleaseResult, folder: Path) -> dict[str, tuple[str, int]]:
    """Write linked tables, a file for each and format; return hash and size of each."""
    found = {}
    for table, rows in result.tables.items():
        (folder / "tables").mkdir(exist_ok=True)
        for kind in dict.fromkeys(("csv", *result.spec.formats)):
            name = f"tables/{table}.{kind}"
            write_frame(rows, folder / name, schema=result.schema, synthetic=True)
            content = (folder / name).read_bytes()
            found[name] = (hashlib.sha256(content).hexdigest(), len(content))
    return found


def _write_manifest(folder: Path) -> None:
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in bundle_files(folder)}
    (folder / MANIFEST).write_text(manifest_text(hashes), encoding="utf-8")


PARTS = "parts"
"""The folder with a bundle for each of several tables of events."""
_OF_REGISTER = (
    "README.md", "README.html", "schema.yaml", "acceptance.csv", "configuration.json", "spec.json", "certificate.json", "datapackage.json", "croissant.json", MANIFEST,
)  # fmt: skip


def _fill_register(result: ReleaseResult, folder: Path) -> None:
    """Write the bundle of several tables of events: all tables with their keys, and a bundle for the entities with each table of events, under the promise of the whole."""
    assert result.spec.register is not None
    data = _write_tables(result, folder)
    write_plain(result.spec.register.described(result.spec.schema), folder / "schema.yaml")
    (folder / PARTS).mkdir()
    for table, part in result.parts.items():
        (folder / PARTS / table).mkdir()
        _fill(part, folder / PARTS / table)
    listed = {name: FILES[name] for name in _OF_REGISTER} | dict.fromkeys(data, TABLE_FILE)
    entities = result.spec.register.entities
    listed |= {
        f"{PARTS}/{table}/": f"{entities} with their {table}: dictionary, report, model and documents, a bundle of its own"
        for table in result.parts
    }
    about = readme(result, files=listed)
    texts = {
        "README.md": markdown(about),
        "README.html": render(about),
        "acceptance.csv": acceptance_table(result.criteria),
        "configuration.json": _json(result.configuration.to_dict()),
        "spec.json": _json(result.spec.to_dict()),
        "certificate.json": _json(certificate(result, data)),
        "datapackage.json": _json(data_package(result, data)),
        "croissant.json": _json(croissant(result, data)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    _write_manifest(folder)


def bundle_files(folder: Path) -> Iterable[str]:
    """Return the names of everything in a bundle but its manifest, with a slash after the folder; folders count only if they are empty.

    Links are named, and never followed.
    """
    found = []
    for place, folders, files in os.walk(folder, followlinks=False):
        here = Path(place)
        inside = [here / name for name in files]
        inside += [here / name for name in folders if (here / name).is_symlink()]
        if not files and not folders and here != folder:
            inside.append(here)
        found += [path.relative_to(folder).as_posix() for path in inside]
    return sorted(name for name in found if name != MANIFEST)


def manifest_text(hashes: Mapping[str, str]) -> str:
    """Return the one way to write a manifest: sorted, and closed by a digest of itself."""
    body = {"format": FORMAT, "files": dict(sorted(hashes.items()))}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode("utf-8")).hexdigest()
    return _json({**body, "digest": digest})


def certificate(result: ReleaseResult, data: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """Return the guarantee with everything needed to recompute it."""
    return {
        "release": result.release_id,
        "name": result.spec.name,
        "spec_fingerprint": result.spec.fingerprint(),
        "facts_fingerprint": result.spec.facts_fingerprint(),
        "choices_fingerprint": result.spec.choices_fingerprint(),
        "schema_fingerprint": result.schema.fingerprint(),
        "rows": len(result.synthetic),
        **({"tables": {name: len(rows) for name, rows in result.tables.items()}} if result.tables else {}),
        **({"parts": list(result.parts)} if result.parts else {}),
        "data": {name: digest for name, (digest, _) in data.items()},
        "guarantee": result.guarantee.to_dict(),
        "ledger": {
            "id": result.ledger_id,
            "table": result.ledger_table,
            "head": result.ledger_head,
            "length": result.ledger_length,
            "entries": [_entry(entry) for entry in result.ledger_entries],
            **({"lost_entries": list(result.lost_entries)} if result.lost_entries else {}),
        },
        **({} if result.rows_lost is None else {"rows_lost": result.rows_lost.to_dict()}),
        "acceptance": None if result.acceptance is None else result.acceptance.to_dict(),
        "criteria": [item.to_dict() for item in result.criteria],
        **({"approvals": [item.to_dict() for item in result.approvals]} if result.approvals else {}),
        **({} if result.agreement is None else {"agreement": result.agreement.public().to_dict()}),
        **_series(result),
        "method": {"name": result.provenance.method, "options": dict(result.provenance.options)},
        "public_facts": dict(result.public_facts),
        "software": result.software,
        "started": result.started,
        "finished": result.finished,
    }


def _changes(result: ReleaseResult) -> Page | None:
    """Return what has changed since the release before this one in its series; None if there is none, or it is not at hand."""
    previous = result.spec.file.previous
    if previous is None or previous.bundle is None:
        return None
    from understudy.release.series.compare import compare_sides, comparison_page, side_of, side_of_result
    from understudy.release.series.previous import manifest_hash

    folder = result.spec.where / previous.bundle
    if not folder.is_dir() or manifest_hash(folder) != previous.manifest:
        return None
    now = side_of_result(
        result.spec.name, result.schema, result.synthetic, result.model, result.guarantee.to_dict()
    )
    return comparison_page(compare_sides(side_of(folder, verified=True), now))


def _series(result: ReleaseResult) -> dict[str, Any]:
    """Return the place of the release in its series, if it is in one."""
    from understudy.release.series.previous import series_of

    found = series_of(result.spec, result.guarantee.bounds)
    return {} if found is None else {"series": found}


def _entry(entry: Entry) -> dict[str, Any]:
    """One line of the ledger as plain values, without its time and who wrote it where: that stays with the ledger."""
    return {
        name: value for name, value in entry.to_dict().items() if name not in ("time", "operator", "host")
    }


def _picture(result: ReleaseResult) -> str:
    """Draw the one-way tables of the synthetic data, which are public."""
    if of_entities(result.schema, result.guarantee.unit):
        drawn = counts_by_level(result.schema, result.synthetic, result.tables)
    else:
        codes = result.schema.encode_frame(result.synthetic)
        drawn = [
            (column.name, column.labels, np.bincount(codes[column.name], minlength=column.size))
            for column in result.schema.columns
        ]
    panels = [
        Panel(title, labels, [(counts / max(1, counts.sum())).tolist()]) for title, labels, counts in drawn
    ]
    return marginal_chart(
        f"{result.spec.title or result.spec.name}: one-way tables", ("synthetic table",), panels
    )


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, sort_keys=False, default=str, allow_nan=False) + "\n"
