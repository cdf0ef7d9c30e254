"""The same release on CSV, Parquet, DuckDB, PostgreSQL and Spark: the same exact counts, the same bundle to the byte.

On a cluster of several processes: `test_spark_cluster.py`.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from same_release import SPEC, SPECS, bundle_of, charges, records, typed

from understudy.curator import Curator
from understudy.data import Database
from understudy.errors import DataError
from understudy.privacy import Ledger, SeededRandomness
from understudy.release.bundle.verify import verify_bundle
from understudy.release.result import ReleaseResult
from understudy.release.run import candidate, transform
from understudy.release.run import run as running
from understudy.release.run.run import run_release
from understudy.release.spec.spec import Spec

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")


@pytest.fixture
def seen(monkeypatch):
    """A test-only curator that keeps the exact counts of the tables it is given."""
    counts = []

    class Watching(Curator):
        def __init__(self, table, **options):
            names = table.schema.names
            cliques = [clique for size in range(3) for clique in itertools.combinations(names, size)]
            counts.append(
                [(clique, count) for clique, count in zip(cliques, table.count_many(cliques), strict=True)]
            )
            super().__init__(table, **options)

    monkeypatch.setattr(transform, "Curator", Watching)
    return counts


def places(request, tmp_path, engine):
    """The records of `same_release` in a file or a database."""
    if engine == "csv":
        frame = records()
        frame.assign(joined=frame["joined"].dt.date).to_csv(tmp_path / "staff.csv", index=False)
        return tmp_path / "staff.csv"
    if engine == "postgres":
        server = request.getfixturevalue("postgres")
        server.fill("staff", typed())
        return Database(url=server.url, table="staff")
    if engine == "duckdb":
        with duckdb.connect(str(tmp_path / "hr.duckdb")) as connection:
            connection.register("records", typed())
            connection.execute("CREATE TABLE staff AS SELECT * FROM records")
        return Database(url=str(tmp_path / "hr.duckdb"), table="staff")
    pq.write_table(typed(), tmp_path / "staff.parquet")
    if engine == "parquet":
        return tmp_path / "staff.parquet"
    return Database(url=request.getfixturevalue("spark"), table=str(tmp_path / "staff.parquet"))


@pytest.mark.parametrize("spec", list(SPECS))
@pytest.mark.parametrize("engine", ["parquet", "duckdb", "postgres", "spark"])
def test_the_same_specification_gives_the_same_counts_and_the_same_bundle(
    request, tmp_path, seen, engine, spec
):
    """Caught: one record that is encoded, cleaned or chosen otherwise, and anything in a bundle that says where it came from."""
    for name in ("csv", engine):
        (tmp_path / name).mkdir()
    expected = bundle_of(places(request, tmp_path / "csv", "csv"), tmp_path / "from-csv", spec=spec)
    local = list(seen)
    seen.clear()
    source = places(request, tmp_path / engine, engine)
    found = bundle_of(source, tmp_path / f"from-{engine}", spec=spec)
    assert len(seen) == len(local) > 0
    for table, twin in zip(seen, local, strict=True):
        for (clique, one), (_, two) in zip(table, twin, strict=True):
            assert (one == two).all(), clique
    assert sorted(found) == sorted(expected)
    assert [name for name in found if found[name] != expected[name]] == []
    folders = [tmp_path / f"from-{name}" / "staff.ledger" for name in ("csv", engine)]
    assert charges(folders[0]) == charges(folders[1])
    verify_bundle(tmp_path / f"from-{engine}" / "bundle")
    text = b"".join(found.values()).decode("latin-1")
    for secret in (getattr(source, "url", "staff.parquet"), str(tmp_path), "127.0.0.1", "clerk"):
        assert secret not in text


def test_other_noise_gives_another_bundle(request, tmp_path):
    """The comparison above can fail: the noise of a release is in its table, its model and its certificate."""
    source = places(request, tmp_path, "csv")
    one, two = (bundle_of(source, tmp_path / str(noise), spec="rows", noise=noise) for noise in (7, 8))
    changed = {name for name in one if one[name] != two[name]}
    assert {"data.csv", "model.understudy", "certificate.json", "MANIFEST.json"} <= changed


def test_a_person_level_release_from_a_database(request, tmp_path, seen):
    unit = "{relation: add-remove, id_column: person, max_rows: 1}"
    (tmp_path / "d").mkdir()
    text = (
        SPEC.replace("row_count: declared", "row_count: {epsilon: 1}")
        .replace("UNIT", unit)
        .replace("TOTAL", "10")
    )
    source = places(request, tmp_path / "d", "duckdb")
    outcome = run_release(Spec.parse(text).with_source(source), ledger=tmp_path / "staff.ledger")
    assert outcome.synthetic is not None
    frame = records()
    kept = frame[(frame["age"] >= 18) & ~((frame["grade"] == "c") & (frame["age"] < 25))]
    assert {int(count) for table in seen for clique, count in table if clique == ()} == {len(kept)}
    assert kept["person"].nunique() < len(kept)


def test_a_release_that_ended_holds_no_snapshot(request, tmp_path):
    """Caught: a transaction that stays open on the server for as long as the process lives, and keeps the table locked."""
    source = places(request, tmp_path, "postgres")
    outcome = run_release(
        Spec.parse(SPECS["rows"]).with_source(source),
        ledger=tmp_path / "staff.ledger",
        randomness=SeededRandomness(7),
    )
    with request.getfixturevalue("postgres").connect() as connection:
        open_now = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        assert connection.execute(open_now).fetchone() == (0,)
    assert isinstance(outcome, ReleaseResult)


def test_the_command_line_reads_a_database_and_shows_no_address(postgres, tmp_path):
    server = postgres
    frame = records()
    server.fill("people", pa.Table.from_pandas(frame[["grade", "sex", "age"]], preserve_index=False))
    (tmp_path / "schema.yaml").write_text(
        "columns:\n  - {name: grade, kind: ordinal, values: [a, b, c]}\n"
        "  - {name: sex, kind: categorical, values: [f, m]}\n"
        '  - {name: age, kind: integer, bins: ["<30", 30-44, "44<"]}\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "understudy.cli.main", "synth"]
    options = ["--schema", "schema.yaml", "--method", "independent", "--epsilon", "2", "--unit", "add-remove"]

    def told(*words):
        return subprocess.run(
            [*command, *words, *options, "--out", "out.csv"],
            cwd=tmp_path,
            env={**os.environ, "PGPASSFILE": str(server.passfile)},
            capture_output=True,
            text=True,
            check=False,
        )

    done = told(server.url, "--table", "people")
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "out.csv")) > 0
    (file,) = (Path(os.environ["UNDERSTUDY_HOME"]) / "ledgers").glob("*.ledger")
    ledger = file.read_bytes().decode("latin-1")
    for text in (done.stdout, done.stderr, ledger):
        assert "postgresql" not in text
        assert server.password not in text
    secret = server.url.replace("clerk@", f"clerk:{server.password}@")
    refused = told(secret, "--table", "people")
    assert refused.returncode == 4
    assert "password" in refused.stderr
    assert server.password not in refused.stderr + refused.stdout
    assert told(server.url).returncode == 2
    assert "--table" in told("people.csv", "--table", "people").stderr


LOOP = (
    SPEC.replace("row_count: declared", "row_count: {epsilon: 1}")
    .replace("UNIT", "{relation: add-remove, id_column: person, max_rows: 1}")
    .replace("TOTAL", "12.302")
    .replace("{rule: single}", "{rule: until-accepted, gamma: 0.1}")
)


def looping(source, ledger, monkeypatch, attempts):
    """Run a selection whose attempts end as told: None passes on to the real one, an exception is raised."""
    original, told = candidate.fit_model, iter(attempts)

    def fit(*args, **words):
        ending = next(told, None)
        if ending is not None:
            raise ending
        return original(*args, **words)

    monkeypatch.setattr(candidate, "fit_model", fit)
    monkeypatch.setattr(running, "bernoulli", lambda *_: False)
    return run_release(Spec.parse(LOOP).with_source(source), ledger=ledger)


class Stopped(BaseException):
    """Stands for a process that is killed."""


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_a_selection_by_person_is_made_in_a_database(request, tmp_path, monkeypatch, seen, engine):
    """Every attempt truncates anew, on one snapshot; two that fail are rejections like any other."""
    (tmp_path / "d").mkdir()
    source = places(request, tmp_path / "d", engine)
    ledger = tmp_path / "staff.ledger"
    outcome = looping(source, ledger, monkeypatch, [ValueError(), DataError("lost"), None])
    assert isinstance(outcome, ReleaseResult)
    with Ledger.open(ledger) as book:
        purposes = [entry.purpose for entry in book.entries() if entry.event is not None]
    assert len(purposes) == 2  # the number of rows, and the selection as a whole
    assert len({tuple(int(count.sum()) for _, count in table) for table in seen}) == 1  # one snapshot


def test_a_selection_goes_on_with_the_same_records_of_a_database_only(request, tmp_path, monkeypatch):
    (tmp_path / "d").mkdir()
    file = tmp_path / "d" / "staff.parquet"
    table = typed()
    pq.write_table(table, file)
    source, ledger = Database(url="duckdb://", table=str(file)), tmp_path / "staff.ledger"
    with pytest.raises(Stopped):
        looping(source, ledger, monkeypatch, [ValueError(), Stopped()])
    pq.write_table(table.slice(1), file)
    with pytest.raises(DataError, match="not the one that this release began with"):
        looping(source, ledger, monkeypatch, [])
    pq.write_table(table.take(np.arange(len(table))[::-1]), file)  # written anew, with the same records
    assert isinstance(looping(source, ledger, monkeypatch, []), ReleaseResult)


def test_a_database_that_is_lost_interrupts_a_selection_and_does_not_end_it(request, tmp_path, monkeypatch):
    """Before, the attempt that failed for want of a connection was a rejection, and could be the last one."""
    (tmp_path / "d").mkdir()
    source, ledger = places(request, tmp_path / "d", "duckdb"), tmp_path / "staff.ledger"
    coins = []

    def lost(self):
        raise DataError("The connection was lost.")

    with monkeypatch.context() as patch:
        patch.setattr(transform.SqlTable, "require_unchanged", lost)
        with pytest.raises(DataError, match="connection was lost"):
            looping(source, ledger, patch, [ValueError()])
    monkeypatch.setattr(running, "bernoulli", lambda *_: coins.append(1) or True)
    assert isinstance(run_release(Spec.parse(LOOP).with_source(source), ledger=ledger), ReleaseResult)
    assert not coins
