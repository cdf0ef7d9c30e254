"""``understudy warm``: compile everything in advance, for images and machines that many people use."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import Json, Quiet

NAMES = Annotated[
    list[str] | None, typer.Argument(help="Methods to compile; default: all that this installation can run.")
]


def warm(methods: NAMES = None, quiet: Quiet = False, json: Json = False) -> None:
    """Compile methods in advance and say where that is kept.

    With them the choice of rows by person is compiled, which any method may need.

    Later processes read them instead of compiling, as long as Understudy, Python, Numba and the kind of processor stay the same. In an
    image set NUMBA_CACHE_DIR to a folder of the image while this runs and when the image is used: it is read there even if it cannot
    be written. Nothing private is read and nothing is charged.
    """
    from understudy._compile import kept_at
    from understudy.cli.output import print_json, progress_bar, tell
    from understudy.errors import MissingExtra, OutputError
    from understudy.mechanisms import create, method
    from understudy.mechanisms import methods as known
    from understudy.mechanisms.base import warm as try_every_way

    begun, spent = time.perf_counter(), time.process_time()
    names = methods or [item.name for item in known()]
    for name in names:
        method(name)  # a name that is not known is found before anything is compiled
    done, absent = [], []
    with progress_bar("compiling", quiet=quiet or json) as progress:
        for place, name in enumerate(names):
            progress(name, place / len(names))
            try:
                synthesizer = create(name)
            except MissingExtra as missing:
                if methods:
                    raise
                absent.append((name, str(missing)))
                continue
            try_every_way(synthesizer)
            done.append(name)
        _cut_by_person()
    folders = kept_at()
    if not folders:
        raise OutputError(
            "No folder takes the compiled kernels, so every process would compile them anew. Set NUMBA_CACHE_DIR to a folder that can be written now "
            "and that nobody else can write to."
        )
    root = Path(os.path.commonpath(folders))
    files = [path for folder in folders for path in folder.glob("*.nb[ic]")]
    facts: dict[str, Any] = {
        "methods": done,
        "absent": dict(absent),
        "folder": str(root),
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(time.process_time() - spent, 1),
    }
    if json:
        print_json(facts)
        return
    tell(
        f"Compiled the kernels of {len(done)} {'method' if len(done) == 1 else 'methods'} in {facts['seconds']:,.0f} s ({facts['cpu_seconds']:,.0f} s of CPU)."
    )
    for name, why in absent:
        tell(f"Left out {name}: {why}")
    tell(f"They are kept below {root}: {len(files):,} files, {facts['bytes'] / 2**20:,.1f} MB.")


def _cut_by_person() -> None:
    """Choose among made-up rows of persons, in memory and on the disk, which a unit of persons needs whatever the method."""
    import pyarrow as pa
    from pyarrow import parquet

    from understudy.data import read_table
    from understudy.data.persons import first_words, person_keys
    from understudy.schema import Boolean, Schema

    key, schema = bytes(32), Schema(columns=(Boolean("smokes"),))
    rows = pa.table({"who": ["ann", "ann", "bob"], "smokes": [True, False, True]})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        parquet.write_table(rows, file)
        for most in (1024, 0):
            read_table(file, schema, id_column="who", max_memory_mb=most).truncated("who", 1, key)
    persons = person_keys(rows["who"].combine_chunks(), key)
    first_words(persons, persons, key)
