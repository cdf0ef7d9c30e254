"""Releases of several tables of events from a database: the same counts and the same bundle as from files, one snapshot of all tables, and no entity that moves more than the unit says."""

from __future__ import annotations

import itertools
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from same_release import charges, fixed

from understudy.curator import Curator
from understudy.data import Database, sources
from understudy.privacy import Ledger, PureDP, SeededRandomness
from understudy.release.bundle.bundle import write_bundle
from understudy.release.bundle.verify import verify_bundle
from understudy.release.result import ReleaseResult
from understudy.release.run import run as running
from understudy.release.run import transform
from understudy.release.run.transform import TransformedTables
from understudy.release.spec.spec import Spec

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

TEXT = """
name: several
source: {table: register}
schema:
  tables:
    - {name: people, key: who, columns: [{name: sex, kind: categorical, values: [f, m]}]}
    - name: visits
      belongs_to: people
      order: day
      max_events: 6
      count: visits
      columns:
        - {name: day, kind: integer, minimum: 0, maximum: 29, bins: 3}
        - {name: ward, kind: categorical, values: [a, b, c], missing: true}
    - {name: claims, belongs_to: people, reference: person, max_events: 9, columns: [{name: paid, kind: boolean}]}
unit: {relation: add-remove, id_column: who, max_rows: 3}
synthesizers: [{method: mst}]
acceptance:
  form: pass-only
  epsilon: 2
  criteria:
    - {name: number of visits, table: visits, kind: mean-events, threshold: 3}
    - {name: claims of each, table: claims, kind: max-marginal-error, orders: [1], threshold: 0.6}
selection: {rule: single}
budget: {total: {epsilon: 44}, model: {epsilon: 40}}
seed: 1
"""
NAMES = ("people", "visits", "claims")


def tables(people: list[int]) -> dict[str, pd.DataFrame]:
    """People with up to seven visits, never two on a day, and up to eight claims; all about each follows from its number."""
    visits, claims = [], []
    for who in people:
        rng = np.random.default_rng(who)
        for day in rng.choice(30, who % 8, replace=False):
            visits.append((who, int(day), rng.choice(["a", "b", "c", ""]) or None))
        claims += [(who, bool(rng.random() < 0.8)) for _ in range(who % 9)]
    return {
        "people": pd.DataFrame({"who": people, "sex": ["fm"[who % 2] for who in people]}),
        "visits": pd.DataFrame(visits, columns=["who", "day", "ward"]),
        "claims": pd.DataFrame(claims, columns=["person", "paid"]),
    }


@pytest.fixture
def store(request, tmp_path):
    """Put tables into files or an engine and say where they are."""

    def put(given: dict[str, pd.DataFrame], engine: str, label: str) -> dict[str, object]:
        whole = {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in given.items()}
        folder = tmp_path / f"{engine}-{label}"
        folder.mkdir()
        if engine == "postgres":
            server = request.getfixturevalue("postgres")
            for name, table in whole.items():
                server.fill(f"{label}_{name}", table)
            return {name: Database(url=server.url, table=f"{label}_{name}") for name in whole}
        if engine == "spark":
            url = request.getfixturevalue("spark")
            for name, table in whole.items():
                pq.write_table(table, folder / f"{name}.parquet")
            return {name: Database(url=url, table=str(folder / f"{name}.parquet")) for name in whole}
        if engine == "sqlite":
            with sqlite3.connect(folder / "register.db") as connection:
                for name, frame in given.items():
                    frame.to_sql(name, connection, index=False)
            url = f"sqlite://{folder / 'register.db'}"
            return {name: Database(url=url, table=name, immutable=True) for name in whole}
        if engine == "frame":
            return dict(given)
        if engine == "duckdb":
            with duckdb.connect(str(folder / "register.duckdb")) as connection:
                for name, table in whole.items():
                    connection.register("given", table)
                    # the rows of a database have no order
                    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given ORDER BY random()")
            return {name: Database(url=str(folder / "register.duckdb"), table=name) for name in whole}
        for name, table in whole.items():
            if engine == "csv":
                given[name].to_csv(folder / f"{name}.csv", index=False)
            else:
                pq.write_table(table, folder / f"{name}.parquet")
        return {name: folder / f"{name}.{engine}" for name in whole}

    return put


@pytest.fixture
def seen(monkeypatch):
    """A test-only curator that keeps the exact counts of the event records it is given, with one key for all."""
    counts = []

    class Watching(Curator):
        def __init__(self, table, **options):
            records = table.truncated("who", 60, bytes(32))
            names = records.schema.names
            cliques = [clique for size in range(3) for clique in itertools.combinations(names, size)]
            counts.append(list(zip(cliques, records.count_many(cliques), strict=True)))
            super().__init__(table, **options)

    monkeypatch.setattr(transform, "Curator", Watching)
    return counts


@pytest.fixture
def sessions(monkeypatch):
    """The connections that are opened to read tables, and how many of them were closed."""
    opened, closed = [], []
    right = sources.connect

    def connect(source):
        session = right(source)
        opened.append(session)
        ends = session.close

        def close():
            closed.append(session)
            ends()

        monkeypatch.setattr(session, "close", close, raising=False)
        return session

    monkeypatch.setattr(sources, "connect", connect)
    return opened, closed


def bundle_of(source, folder, noise: int = 7) -> dict[str, bytes]:
    """Run the release with seeded noise; return every file of its bundle."""
    folder.mkdir()
    with fixed():
        outcome = running.run_release(
            Spec.parse(TEXT),
            ledger=folder / "register.ledger",
            source=source,
            randomness=SeededRandomness(noise),
        )
        assert isinstance(outcome, ReleaseResult)
        write_bundle(outcome, folder / "bundle")
    found = folder / "bundle"
    return {str(path.relative_to(found)): path.read_bytes() for path in found.rglob("*") if path.is_file()}


@pytest.mark.parametrize("engine", ["parquet", "duckdb", "postgres"])
def test_the_same_counts_and_the_same_bundle_as_from_files(store, seen, sessions, tmp_path, engine):
    """Caught: a row that is read otherwise or not at all, anything in a bundle that says where it came from, a second snapshot, and one that stays open."""
    given = tables(list(range(300)))
    expected = bundle_of(store(given, "csv", "same"), tmp_path / "from-files")
    local = list(seen)
    seen.clear()
    source = store(given, engine, "same")
    found = bundle_of(source, tmp_path / "from-engine")
    assert len(seen) == len(local) > 0
    for table, twin in zip(seen, local, strict=True):
        for (clique, one), (_, two) in zip(table, twin, strict=True):
            assert (one == two).all(), clique
    assert sorted(found) == sorted(expected)
    assert [name for name in found if found[name] != expected[name]] == []
    books = [tmp_path / folder / "register.ledger" for folder in ("from-files", "from-engine")]
    assert charges(books[0]) == charges(books[1])
    verify_bundle(tmp_path / "from-engine" / "bundle")
    opened, closed = sessions
    assert len(opened) == (0 if engine == "parquet" else 1), "one snapshot of all tables"
    assert closed == opened
    text = b"".join(found.values()).decode("latin-1")
    for secret in (str(tmp_path), "127.0.0.1", "clerk", "same_visits"):
        assert secret not in text


def test_other_noise_or_one_row_less_gives_another_bundle(store, tmp_path):
    """The comparison above can fail."""
    given = tables(list(range(300)))
    one, two = (
        bundle_of(store(given, "duckdb", str(noise)), tmp_path / str(noise), noise) for noise in (7, 8)
    )
    fewer = {**given, "claims": given["claims"].iloc[1:]}
    three = bundle_of(store(fewer, "duckdb", "fewer"), tmp_path / "fewer")
    for other in (two, three):
        changed = {name for name in one if one[name] != other.get(name)}
        assert {"tables/claims.csv", "MANIFEST.json"} <= changed


def test_all_tables_are_of_one_moment(store, postgres, monkeypatch, tmp_path):
    """Caught: a claim that arrives after the people were read, of somebody who is not among them, and is counted or refused."""
    given = tables(list(range(200)))
    expected = bundle_of(store(given, "csv", "before"), tmp_path / "from-files")
    source = store(given, "postgres", "moment")
    right, written = sources._fetched, []

    def fetched(session, relation, columns, label):
        found = right(session, relation, columns, label)
        if not written:
            with postgres.connect() as connection:
                connection.execute("INSERT INTO moment_people VALUES (9999, 'f')")
                connection.execute("INSERT INTO moment_claims VALUES (9999, true), (3, true)")
                connection.execute("DELETE FROM moment_visits WHERE who = 7")
                connection.commit()
            written.append(True)
        return found

    monkeypatch.setattr(sources, "_fetched", fetched)
    assert bundle_of(source, tmp_path / "from-postgres") == expected
    assert written
    with postgres.connect() as connection:
        assert connection.execute("SELECT count(*) FROM moment_claims WHERE person = 9999").fetchone() == (1,)
        open_now = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        assert connection.execute(open_now).fetchone() == (0,)


@pytest.mark.parametrize("engine", ["frame", "csv", "parquet", "duckdb", "sqlite", "postgres", "spark"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_an_entity_with_all_its_rows_in_all_tables_moves_no_more_than_the_unit_says(store, engine, relation):
    spec = Spec.parse(TEXT.replace("add-remove", relation))
    label = relation.replace("-", "_")
    seals = []
    for side, people in (
        ("one", [1, 2, 3, 71]),
        ("two", [1, 2, 3] if relation == "add-remove" else [1, 2, 3, 64]),
    ):
        given = tables(people)
        if side == "two" and relation == "replace-one":  # the same key, another person
            given = {name: frame.replace({64: 71}) if name != "visits" else frame.assign(who=frame["who"].replace({64: 71})) for name, frame in given.items()}  # fmt: skip
        data = TransformedTables(spec, store(given, engine, f"{label}_{side}"))
        book = Ledger.in_memory(budget=PureDP(1.0), unit=spec.unit, table="t")
        seals.append(
            [
                part.curator(spec.configurations[0], book).counts_many(cliques)
                for part, cliques in zip(
                    data.parts,
                    ([("sex", "number_of_events"), ()], [("number_of_visits", "number_of_events"), ()]),
                    strict=True,
                )
            ]
        )
    for one, two in zip(*seals, strict=True):
        for left, right in zip(one, two, strict=True):
            change = np.asarray(left._exact - right._exact, float)
            assert np.abs(change).sum() <= left.l1
            assert np.sqrt((change**2).sum()) <= left.l2 * (1 + 1e-12)
        assert int(np.abs(one[1]._exact - two[1]._exact)) == (3 if relation == "add-remove" else 0)
