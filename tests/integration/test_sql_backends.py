"""Random messy tables give the same counts, and the same refusals, from every back end: memory, Parquet, DuckDB, PostgreSQL, Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sql_support import REALS, TEXTS, WHOLES, assert_same_counts, lenient

from understudy.data import Database, Derived, Preparation, connect, read_table
from understudy.errors import DataError
from understudy.schema import Boolean, Categorical, Constraint, Date, Integer, Ordinal, Real, Schema

duckdb = pytest.importorskip("duckdb", reason="no DuckDB (pip install 'understudy[sql]')")
pytest.importorskip("ibis", reason="no Ibis (pip install 'understudy[sql]')")

ENGINES = ("parquet", "duckdb", "duckdb-parquet", "postgres", "spark")
ROWS = 300
DAY = dt.datetime(2000, 2, 28, 20)


def messy(seed: int) -> pa.Table:
    """Every way of storage, with missing entries and entries that belong nowhere."""
    generator = np.random.default_rng(seed)

    def column(draw, kind):
        entries = [None if generator.random() < 0.1 else draw() for _ in range(ROWS)]
        return pa.array(entries, kind)

    def among(entries):
        return lambda: entries[generator.integers(len(entries))]

    # hours around midnight and the end of a month, so that another zone is another day, month and weekday
    moments = [DAY + dt.timedelta(hours=int(hour), seconds=1) for hour in range(60)]
    zoned = pa.timestamp("us", "America/New_York")
    fractions = [
        Decimal(int(n)).scaleb(-3) for n in (*generator.integers(-(10**7), 10**7, 40), 100, 2500, 300)
    ]
    return pa.table(
        {
            "text": column(among([text for text in TEXTS if "\n" not in text]), pa.string()),
            "whole": column(among(WHOLES), pa.int64()),
            "small": column(among((0, 1, 2, 7, -9)), pa.int16()),
            "real": column(among([number for number in REALS if number == number]), pa.float64()),
            "single": column(among([0.1, 0.3, 2.5, 7.0, 1e30]), pa.float32()),
            "decimal": column(among(fractions), pa.decimal128(12, 3)),
            "long": column(
                among([Decimal(2**62), Decimal(7), Decimal(-9), Decimal(10**30)]), pa.decimal128(38, 0)
            ),
            "day": column(among([moment.date() for moment in moments]), pa.date32()),
            "moment": column(among(moments), pa.timestamp("us")),
            "zoned": column(among([moment.replace(tzinfo=dt.UTC) for moment in moments]), zoned),
            "truth": column(among((True, False)), pa.bool_()),
            "sort": column(among(["A1", "A2", "B1", "é,'x"]), pa.string()).dictionary_encode(),
        }
    )


def schema_of(seed: int) -> Schema:
    """Kinds of columns over these entries, in a mix that the seed decides."""
    generator = np.random.default_rng(seed)

    def one(*columns):
        return columns[generator.integers(len(columns))]

    dates = {"minimum": "2000-02-27", "maximum": "2000-03-02"}
    ages = {"minimum": 0, "maximum": 99}
    return Schema(
        columns=(
            one(
                lenient(
                    "text", Categorical, values=("7", "é", "o'clock", "2000-02-29"), missing_values=("?",)
                ),
                lenient("text", Integer, minimum=-9, maximum=9),
                lenient("text", Boolean),
                lenient("text", Real, bins=["<0", "[0, 0.3)", "[0.3, 10]"]),
                lenient("text", Date, minimum="2000-01-01", maximum="2000-12-31", resolution="month"),
            ),
            one(
                lenient("whole", Integer, **ages, missing_values=(-9,)),
                Integer("whole", **ages, bins=10, missing=True, out_of_domain="clamp"),
                lenient("whole", Real, minimum=0, maximum=10, bins=5),
            ),
            one(
                lenient("small", Ordinal, values=(0, 1, 2, 7)),
                Ordinal("small", values=(0, 1, 2, 7), missing=True, out_of_domain="clamp"),
            ),
            one(
                lenient("real", Real, minimum=0, maximum=10, bins=5),
                lenient("real", Integer, bins=["<18", "18-64", "64<"]),
                Real("real", minimum=0, maximum=10, bins=4, missing=True, out_of_domain="clamp"),
            ),
            one(
                lenient("single", Real, values=(0.1, 0.3, 7)),
                lenient("single", Real, bins=["[0, 0.1]", "(0.1, 9]"]),
            ),
            one(
                lenient("decimal", Real, bins=["<0", "[0, 0.3)", "[0.3, 2.5]", "(2.5, 9999]"]),
                lenient("decimal", Categorical, values=("0.1", "2.5", "0.3")),
                lenient("decimal", Integer, minimum=-10_000, maximum=10_000, bins=7),
            ),
            one(
                lenient("long", Integer, **ages, missing_values=(-9,)),
                lenient("long", Categorical, values=("7", str(2**62))),
            ),
            one(
                lenient("day", Date, **dates),
                lenient("day", Categorical, values=("2000-02-29", "2000-03-01")),
            ),
            lenient("moment", Date, **dates),
            lenient("zoned", Date, **dates),
            lenient("truth", Boolean),
            one(
                lenient("sort", Categorical, values=["A1", "A2", "B1"], levels={"prefix": [1], "at": 1}),
                lenient("sort", Categorical, values=["A1", "A2", "é,'x"]),
            ),
            lenient("month", Integer, minimum=1, maximum=12),
            lenient("weekday", Integer, minimum=1, maximum=7),
        )
    )


def preparation_of(seed: int, schema: Schema) -> Preparation:
    generator = np.random.default_rng(seed)
    rules = (
        "month >= 2 and (weekday != 3 or truth == true)",
        "zoned <= '2000-03-01' or zoned is missing",
        "not (small == 7 and month == 3)",
        "day_of(moment) != 29",
    )
    chosen = [rule for rule in rules if generator.random() < 0.5]
    return Preparation(
        derived=(
            Derived(name="month", source="zoned", part="month"),
            Derived(name="weekday", source="moment", part="weekday"),
        ),
        rules=tuple(Constraint.parse(rule, schema) for rule in chosen),
    )


def stored(request, engine: str, table: pa.Table, folder, name: str):
    """Put a table where an engine reads it."""
    path = folder / f"{name}.parquet"
    pq.write_table(table, path, row_group_size=70)
    if engine == "parquet":
        return path
    if engine == "duckdb-parquet":
        return Database(url="duckdb://", table=str(path))
    if engine == "spark":
        return Database(url=request.getfixturevalue("spark"), table=str(path))
    if engine == "duckdb":
        file = folder / f"{name}.duckdb"
        with duckdb.connect(str(file)) as connection:
            connection.execute("SET TimeZone = 'Asia/Tokyo'")
            connection.register("records", table)
            connection.execute("CREATE TABLE t AS SELECT * FROM records")
        return Database(url=str(file), table="t")
    server = request.getfixturevalue("postgres")
    server.fill(name, table)
    return Database(url=server.url, table=name)


def source_of(place):
    return connect(place) if isinstance(place, Database) else place


@pytest.mark.parametrize("engine", ENGINES)
def test_messy_tables_are_counted_alike(request, tmp_path, engine, seed):
    trials = {"spark": 2, "postgres": 4}.get(engine, 8)
    for trial in range(trials):
        number = 100 * seed + trial
        table, schema = messy(number), schema_of(number)
        prepare = preparation_of(number, schema)
        local = read_table(table, schema, prepare=prepare)
        place = source_of(stored(request, engine, table, tmp_path, f"messy{number}"))
        cliques = [
            (),
            *((name,) for name in schema.names),
            *list(combinations(schema.names, 2))[:: 1 + trial],
        ]
        limits = (1024,) if engine == "spark" else (0, 1024)
        for limit in limits:
            there = read_table(place, schema, prepare=prepare, max_memory_mb=limit)
            assert there.filtered == local.filtered
            assert_same_counts(local, there, cliques)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_strict_schema_is_refused_alike(request, tmp_path, engine):
    """Which columns hold what kind of entry, in the same words; nothing of the entries."""
    table = messy(7)
    strict = Schema(
        columns=(
            Integer("whole", minimum=0, maximum=9),
            Real("decimal", minimum=0, maximum=1),
            Date("zoned", minimum="2000-02-29", maximum="2000-03-01"),
            Categorical("sort", values=("A1",)),
            Boolean("truth", missing=True),
        )
    )
    with pytest.raises(DataError) as local:
        read_table(table, strict)
    place = source_of(stored(request, engine, table, tmp_path, "strict"))
    with pytest.raises(DataError) as there:
        read_table(place, strict)
    assert str(there.value) == str(local.value)
    assert there.value.__context__ is None
    assert "A2" not in str(there.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_lists_are_refused_alike_and_before_a_record_is_read(request, tmp_path, engine):
    table = pa.table({"a": pa.array([[1], [2, 3]], pa.list_(pa.int64())), "b": [1, 2]})
    schema = Schema(columns=(lenient("a", Categorical, values=("1",)), Integer("b", minimum=1, maximum=2)))
    with pytest.raises(DataError, match="stored in a way") as local:
        read_table(table, schema)
    if engine == "postgres":
        server = request.getfixturevalue("postgres")
        with server.connect() as connection:
            connection.execute(
                "CREATE TABLE lists AS SELECT ARRAY[b] AS a, b FROM generate_series(1, 2) AS b"
            )
        place = Database(url=server.url, table="lists")
    else:
        place = stored(request, engine, table, tmp_path, "lists")
    with pytest.raises(DataError) as there:
        read_table(place, schema)
    assert str(there.value) == str(local.value)


OTHERWISE = (
    "ARRAY[1]::whole_list", "ROW(1, 2)::pair", "ROW(1, 2)::named_pair", "point '(1, 2)'", "'x'::bytea", "'x'::raw", "time '10:00'", "interval '1 day'",
)  # fmt: skip


def test_types_of_postgresql_with_other_names_are_read_or_refused_as_what_they_are(postgres):
    """Domains are what they stand for. Caught: arrays, records and bytes that were read as text, and an infinite date that made a table unreadable."""
    with postgres.connect() as connection:
        connection.execute(
            "CREATE TYPE pair AS (x int, y int); CREATE DOMAIN named_pair AS pair; CREATE DOMAIN whole_list AS int[]; CREATE DOMAIN raw AS bytea; "
            "CREATE DOMAIN visit_day AS date; CREATE DOMAIN price AS numeric; CREATE DOMAIN age AS int CHECK (value >= 0)"
        )
        connection.execute(
            "CREATE TABLE domains AS SELECT 'infinity'::visit_day AS d, 2.5::price AS p, 7::age AS a, 'x'::name AS n, '[1,3)'::int4range AS r"
        )
        for place, entry in enumerate(OTHERWISE):
            connection.execute(f"CREATE TABLE otherwise{place} AS SELECT {entry} AS a")
    schema = Schema(
        columns=(
            Date("d", minimum="9998-01-01", maximum="9999-12-31", resolution="year"),
            Real("p", minimum=0, maximum=4, bins=4),
            Integer("a", minimum=6, maximum=7),
            Categorical("n", values=("x",)),
            Categorical("r", values=("[1,3)",)),
        )
    )
    for limit in (0, 1024):
        table = read_table(Database(url=postgres.url, table="domains"), schema, max_memory_mb=limit)
        found = [table.count((name,)).tolist() for name in schema.names]
        assert found == [[0, 1], [0, 0, 1, 0], [0, 1], [1], [1]]
    for place, entry in enumerate(OTHERWISE):
        with pytest.raises(DataError, match="stored in a way") as refused:
            read_table(
                Database(url=postgres.url, table=f"otherwise{place}"),
                Schema(columns=(lenient("a", Categorical, values=("(1,2)", "{1}")),)),
            )
        assert "'a'" in str(refused.value), entry


@pytest.mark.parametrize("engine", ["duckdb", "duckdb-parquet"])
def test_moments_to_the_nanosecond_are_read_as_in_memory(request, tmp_path, engine):
    """So pandas keeps moments by default, and DuckDB what it is given by pandas."""
    import pandas as pd

    texts = [
        "1677-09-22",
        "1969-12-31 23:59:59.999999999",
        "1970-01-01",
        "2000-02-29 23:59:59.999999999",
        "2262-04-11",
    ]
    frame = pd.DataFrame({"d": pd.array([*texts, None], dtype="datetime64[ns]")})
    schema = Schema(columns=(lenient("d", Date, minimum="1677-01-01", maximum="2262-12-31"),))
    place = source_of(
        stored(request, engine, pa.Table.from_pandas(frame, preserve_index=False), tmp_path, "moments")
    )
    assert str(place.relation.schema()["d"]).startswith("timestamp(9")
    local = read_table(frame, schema)
    days = np.flatnonzero(local.count(("d",))[: len(local.count(("d",))) - 2])
    assert [str(np.datetime64("1677-01-01") + int(day)) for day in days] == [text[:10] for text in texts]
    for limit in (0, 1024):
        assert_same_counts(local, read_table(place, schema, max_memory_mb=limit), [(), ("d",)])


def test_a_zone_of_the_column_decides_nothing():
    """One moment in Arrow columns of three zones, as text of a frame and as objects: the day is that in UTC."""
    import pandas as pd

    schema = Schema(columns=(Date("d", minimum="2000-02-27", maximum="2000-03-02"),))
    moment = dt.datetime(2000, 2, 29, 1, tzinfo=dt.UTC)
    for zone in ("UTC", "America/New_York", "Asia/Tokyo"):
        column = pa.array([moment], pa.timestamp("us", zone))
        frame = pd.DataFrame({"d": pd.Series([moment]).dt.tz_convert(zone)})
        for source in (pa.table({"d": column}), frame, frame.astype(object)):
            assert read_table(source, schema).count(("d",)).tolist() == [0, 0, 1, 0, 0], zone


def test_names_with_dots_and_quotes_are_found(tmp_path, postgres):
    schema = Schema(columns=(Integer("a", minimum=1, maximum=2),))
    name = 'births.2024 "final"'
    quoted = '"' + name.replace('"', '""') + '"'
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE {quoted} AS SELECT 1 AS a")
        connection.execute(f'CREATE SCHEMA "he.alth"; CREATE TABLE "he.alth".{quoted} AS SELECT 2 AS a')
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {quoted} AS SELECT 1 AS a")
        connection.execute('CREATE SCHEMA "he.alth"')
        connection.execute(f'CREATE TABLE "he.alth".{quoted} AS SELECT 2 AS a')
    for url in (str(tmp_path / "t.duckdb"), postgres.url):
        plain = read_table(Database(url=url, table=quoted), schema)
        inside = read_table(Database(url=url, table=f'"he.alth".{quoted}'), schema)
        assert [table.count(("a",)).tolist() for table in (plain, inside)] == [[1, 0], [0, 1]]
        with pytest.raises(DataError, match="double quotes"):
            read_table(Database(url=url, table="nowhere"), schema)
