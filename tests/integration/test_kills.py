"""Killed while it counts, or between two answers, and given again: a release charges every measurement once and counts the same, wherever the table is.

A kill between a charge and its answer leaves one charge whose answer nobody has; that one is paid for anew (`tests/contract/test_resume.py`).
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from same_release import SPECS, charges, run_release, typed
from services import missing_postgres, missing_spark, postgres_server

from understudy.data import Database
from understudy.data.sql import engines
from understudy.errors import DataError
from understudy.release.bundle.verify import verify_bundle

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

PROGRAM = Path(__file__).with_name("killed_release_program.py")
ROWS, PERSONS = SPECS
MEASURED = {
    ROWS: ["measure 6 workload marginals", "test all acceptance criteria at once"],
    PERSONS: [
        "measure the number of rows",
        "measure 4 one-way marginals",
        *["choose a pair of columns"] * 3,
        "measure 3 two-way marginals",
        "test all acceptance criteria at once",
    ],
}

STRUCK = 4
"""The question of the database that finds its server killed: after the table was opened and the first marginals were counted and paid for."""


def run(spec, folder, point, number, *source):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), spec, str(folder), point, str(number), *map(str, source)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == (0 if point == "never" else -signal.SIGKILL), done.stderr[-3000:]
    return None if done.returncode else json.loads(done.stdout.strip().splitlines()[-1])


def place(request, tmp_path, engine):
    """Where the records are: the words that the program takes."""
    if engine == "postgres":
        server = request.getfixturevalue("postgres")
        server.fill("killed", typed())
        return "killed", server.url
    if engine == "duckdb":
        with duckdb.connect(str(tmp_path / "hr.duckdb")) as connection:
            connection.register("records", typed())
            connection.execute("CREATE TABLE staff AS SELECT * FROM records")
        return "staff", str(tmp_path / "hr.duckdb")
    if engine == "spark" and missing_spark():
        pytest.skip(missing_spark())
    pq.write_table(typed(), tmp_path / "staff.parquet")
    master = {"spark": ("local[2]",), "parquet": ()}[engine]
    return str(tmp_path / "staff.parquet"), *master


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "spec", "points"),
    [
        ("parquet", ROWS, [("count", 1), ("answer", 1), ("count", 2)]),
        ("parquet", PERSONS, [("count", 3), ("answer", 1), ("answer", 2), ("answer", 3)]),
        ("duckdb", ROWS, [("count", 1), ("answer", 1)]),
        ("postgres", PERSONS, [("count", 2), ("answer", 4)]),
        ("spark", ROWS, [("count", 2), ("answer", 1)]),
    ],
)
def test_a_killed_driver_goes_on_and_pays_once(request, tmp_path, engine, spec, points):
    """The process is killed at each of these points, one after the other, and then left alone.

    Caught: an answer that is asked for and paid for again, a count that is made of part of the records, a release that cannot go on.
    """
    source = place(request, tmp_path, engine)
    (tmp_path / "undisturbed").mkdir()
    pq.write_table(typed(), tmp_path / "undisturbed" / "staff.parquet")
    expected = run(
        spec, tmp_path / "undisturbed" / "out", "never", 0, tmp_path / "undisturbed" / "staff.parquet"
    )
    assert expected["charges"] == MEASURED[spec]
    folder = tmp_path / "out"
    paid = 0
    for point, number in points:
        run(spec, folder, point, number, *source)
        if (folder / "staff.ledger").exists():
            now = charges(folder / "staff.ledger")
            assert now == MEASURED[spec][: len(now)]
            assert len(now) == paid + (number if point == "answer" else 0)
            paid = len(now)
        assert not (folder / "bundle").exists()
    found = run(spec, folder, "never", 0, *source)
    assert found["charges"] == MEASURED[spec]
    assert found["counts"] == expected["counts"]
    verify_bundle(folder / "bundle")


COUNTING = """
import os, signal, sys
from functools import partial
from understudy.workflow.synthesis import running
from understudy.cli.main import run
from understudy.data.counting.counting import MarginalCounter
from understudy.data.files import checkpoint, spool

checkpoint.SAVE_SECONDS = 0.0
spool.LEAF_ROWS, spool.LEAF_MOST, spool.SEGMENT_ROWS, spool.ROWS_AT_ONCE = 64, 128, 4, 50
running.read_table = partial(running.read_table, max_memory_mb=0)
left = int(sys.argv.pop(1))

def then_killed(function):
    def counted(*given, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given, **named)
    return counted

for kind in (spool._Buckets, spool.KeptRows, MarginalCounter):
    kind.add = then_killed(kind.add)
run()
"""


def test_a_synth_that_is_killed_while_it_counts_goes_on_with_its_checkpoint_and_pays_once(tmp_path):
    """A table on disk by person: killed while rows are dealt out, and while they are chosen. Nothing is charged before the count is complete, and nothing of it is left.

    Caught: a command that does not hand the folder on, a second key, a charge for a count that ended.
    """
    frame = typed().to_pandas().drop(columns="joined")
    frame["person"] = [f"p{number % 300}" for number in range(len(frame))]
    frame.to_parquet(tmp_path / "staff.parquet", row_group_size=90)
    (tmp_path / "schema.yaml").write_text(
        "columns: [{name: grade, kind: ordinal, values: [a, b, c]}, {name: sex, kind: categorical, values: [f, m]}]\n"
    )
    kept, ledger = tmp_path / "counts", tmp_path / "staff.ledger"
    words = (
        f"synth staff.parquet --schema schema.yaml --id-column person --max-rows-per-person 2 --flat --unit add-remove --epsilon 1 "
        f"--method independent --out out.csv --checkpoint {kept}"
    )
    keys = set()
    for left, code in ((5, -signal.SIGKILL), (12, -signal.SIGKILL), (0, 0)):
        done = subprocess.run(
            [sys.executable, "-c", COUNTING, str(left), *words.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stderr[-3000:]
        if code:
            assert not ledger.exists() or charges(ledger) == []
            assert kept.stat().st_mode & 0o077 == 0
            assert (kept / "rows-2").exists()
            keys.add((kept / "persons-2").read_bytes()[-32:])
    assert len(keys) == 1
    assert list(kept.iterdir()) == []
    assert charges(ledger) == ["measure 2 one-way marginals"]
    assert (tmp_path / "out.csv").exists()


def test_a_connection_killed_in_the_middle_of_a_table_costs_nothing_and_the_release_goes_on(
    postgres, tmp_path, monkeypatch
):
    """The server ends the connection after some of the records have arrived; others are still to come."""
    postgres.fill("staff", typed())
    with postgres.connect() as connection:
        connection.execute(
            "CREATE VIEW many AS SELECT staff.* FROM staff, generate_series(1, 600)"  # more than sockets hold
        )
    source, ledger = Database(url=postgres.url, table="many"), tmp_path / "staff.ledger"
    received, struck = [], []
    original = engines.PostgresSession._run

    def cut(self, sql):
        for batch in original(self, sql):
            yield batch
            received.append(batch.num_rows)
            if sum(received) > 20_000 and not struck:
                with postgres.connect() as connection:
                    struck.extend(
                        connection.execute(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                            "AND backend_type = 'client backend'"
                        ).fetchall()
                    )

    monkeypatch.setattr(engines, "BATCH_ROWS", 10_000)
    monkeypatch.setattr(engines.PostgresSession, "_run", cut)
    with pytest.raises(DataError, match="connection"):
        run_release(source, ledger, spec=PERSONS, noise=None)
    assert struck
    assert 20_000 < sum(received) < 600_000, "it was in the middle"
    assert not ledger.exists() or charges(ledger) == []
    run_release(source, ledger, spec=PERSONS, noise=None)
    assert charges(ledger) == MEASURED[PERSONS]


def test_a_server_that_is_killed_between_answers_and_started_again_is_gone_on_with(tmp_path, monkeypatch):
    """The whole server dies when some answers were paid for and others were not asked yet.

    Caught: an answer that is paid for again, a release that counts an attempt for it, and one that cannot go on with the table as the server has it now.
    """
    if missing_postgres():
        pytest.skip(missing_postgres())
    ledger, number = tmp_path / "staff.ledger", itertools.count(1)
    original = engines.PostgresSession._run
    with postgres_server() as server:
        monkeypatch.setenv("PGPASSFILE", str(server.passfile))
        server.fill("staff", typed())
        source = Database(url=server.url, table="staff")

        def killing(self, sql):
            if next(number) == STRUCK:
                server.kill()
            yield from original(self, sql)

        with monkeypatch.context() as patch:
            patch.setattr("understudy.data.sources.load", lambda *_, **__: None)  # every question is streamed
            patch.setattr(engines.PostgresSession, "_run", killing)
            with pytest.raises(DataError, match="connection"):
                run_release(source, ledger, spec=ROWS, noise=None)
        paid = charges(ledger)
        assert 0 < len(paid) < len(MEASURED[ROWS])
        assert paid == MEASURED[ROWS][: len(paid)]
        with pytest.raises(DataError, match="connection"):
            run_release(source, ledger, spec=ROWS, noise=None)
        assert charges(ledger) == paid
        server.start()
        run_release(source, ledger, spec=ROWS, noise=None)
    assert charges(ledger) == MEASURED[ROWS]
