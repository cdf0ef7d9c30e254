"""A table that stays in a database: the engine encodes and counts, and only counts travel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data.counting.counting import (
    Counts,
    MarginalCounter,
    code_dtype,
    distinct_records,
    merge_distinct,
)
from understudy.data.persons import check_max_rows, missing_ids
from understudy.data.sql.engines import connect
from understudy.data.sql.lookup import MARKS, UNRESOLVED, settled
from understudy.data.sql.plans import (
    Packing,
    count_by_records,
    count_by_sets,
    distinct_batches,
    estimate_distinct,
    merged,
    prefers_sets,
)
from understudy.data.sql.relation import PERSON, code_name, encoded_relation
from understudy.data.sql.session import Session, changed
from understudy.data.sql.source import Database
from understudy.data.table import DEFAULT_CHUNK_ROWS, Encoded, read_without
from understudy.errors import DataError, Problems

if TYPE_CHECKING:
    import numpy as np

    from understudy.data.prepare import Preparation
    from understudy.schema import Codes, Schema

# ----------------------------------------------------------------------------------------
# Distinct records with the number of times each occurs: what one aggregation of a database leaves to count.


class Counted:
    """Distinct encoded records in memory, each with its number of rows. Private."""

    def __init__(self, schema: Schema, columns: Mapping[str, Codes], weights: Counts) -> None:
        self._schema = schema
        self._columns = dict(columns)
        self._weights = weights
        self.rows = int(weights.sum())

    def __repr__(self) -> str:
        return "Counted(records not shown)"

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques."""
        counter = MarginalCounter(self._schema.domain, cliques)
        counter.add(self._columns, weights=self._weights)
        return counter.counts()

    def distinct(self, names: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, sorted, and their counts."""
        sizes = self._schema.domain.shape(names)
        columns = [self._columns[name] for name in names]
        return distinct_records(columns, sizes, rows=len(self._weights), weights=self._weights)

    def chunks(self, names: Sequence[str], *, rows: int = DEFAULT_CHUNK_ROWS) -> Iterator[dict[str, Codes]]:
        """Iterate over all rows, equal records one after another."""
        ends = np.cumsum(self._weights)
        for start in range(0, self.rows, rows):
            places = np.searchsorted(ends, np.arange(start, min(start + rows, self.rows)), side="right")
            yield {name: self._columns[name][places] for name in names}


# ----------------------------------------------------------------------------------------
# At most so many rows of each person, chosen inside the database by a keyed hash.
#
# Let ``E`` be the encoded table with the ids of persons, and ``K`` a key drawn once from the curator's generator.
# Rows of one person with the same encoded record are numbered 0, 1, ... (which gets which number makes no difference:
# they are equal). Every row so has a name ``(record, number)`` that no other row of the person has. A person keeps the
# ``k`` rows whose ``MD5(K, record, number, id)`` is smallest; equal hashes are settled by record and number.
#
# *Stability.* For every fixed key the rows kept of a person are a function of that person's rows and the key alone,
# so the truncated table is a union over persons of functions of their own rows. Two tables that differ in the rows of
# one person keep the same rows of everybody else, and differ in at most ``k`` rows of that person (twice ``k`` if the
# person is replaced by another): exactly what holds for the local truncation for every fixed choice of its words.
# The key is drawn without looking at the records, and a mechanism that is private for each key is private for a random
# one. Nothing here rests on the hash: a bad hash, or a key that somebody reads in the query log of the server, may
# favour some rows of a person over others and changes no guarantee.
#
# *Fairness.* With MD5 as a random function of names, every set of ``k`` rows of a person is equally likely, as with
# independent words for each row.


def truncated(
    encoded: Any, *, person: str, packed: list[str], kept: list[str], max_rows: int, key: str
) -> Any:
    """Return the table with at most ``max_rows`` rows of each person.

    Parameters
    ----------
    encoded
        Expression with the words of the packed records and the ids.
    person
        Name of the column of ids.
    packed
        Names of the words.
    kept
        Names of the columns to return.
    max_rows
        Rows kept per person.
    key
        Of 256 bits from the curator's generator, in hexadecimal digits.

    Privacy
    -------
    In and out: private. See the head of this module for the proof.
    """
    import ibis

    check_max_rows(max_rows)
    words = [encoded[name] for name in packed]
    same = ibis.window(group_by=[encoded[person], *words], order_by=[words[0]])
    numbered = encoded.mutate(_copy=ibis.row_number().over(same))
    name: Any = ibis.literal(key)
    for part in (*(numbered[word] for word in packed), numbered["_copy"]):
        name = name + ibis.literal(",") + part.cast("string")
    name = name + ibis.literal(",") + numbered[person].cast("string")
    hashed = numbered.mutate(_hash=_md5(name))
    order = [hashed["_hash"], *(hashed[word] for word in packed), hashed["_copy"]]
    ranked = hashed.mutate(
        _rank=ibis.row_number().over(ibis.window(group_by=[hashed[person]], order_by=order))
    )
    return ranked.filter(ranked["_rank"] < int(max_rows)).select(*kept)


def _md5(text: Any) -> Any:
    """Return the hexadecimal MD5 of text, a function of that name in every engine we know."""
    import ibis

    @ibis.udf.scalar.builtin(name="md5")
    def md5(text: str) -> str: ...  # type: ignore[empty-body]

    return md5(text)


_RECORDS_AT_LEAST = 1 << 16  # so many distinct records are always held, whatever the limit


class SqlTable(Encoded):
    """A table in DuckDB, PostgreSQL, Spark or another engine, encoded and counted where it is.

    Opening it checks every record against the schema in one scan. If the distinct encoded records fit the memory
    limit, one aggregation brings them here with their counts and every later question is answered from them;
    otherwise each call of ``count_many`` is one or a few queries, all against the same snapshot.

    Parameters
    ----------
    source
        The `Database`, or a session that is open already.
    schema
        The public schema.
    id_column
        The column that says who a row is about, for person-level units.
    prepare
        Derived columns and cleaning rules, applied in the engine.
    max_memory_mb
        Megabytes that the distinct encoded records may take here.

    Raises
    ------
    DataError
        If the database fails, or the table does not fit the schema. Later, if it changed in between. Messages hold
        no value of the table and nothing the driver said.

    Privacy
    -------
    The table is private. Its repr shows neither values nor the number of rows. Counts come from queries that
    ended; if one fails there is an error and no count, so nothing noisy is ever drawn from part of a table. A
    curator counts marginals before it charges for them: one that fails costs nothing.

    Examples
    --------
    >>> import duckdb, tempfile
    >>> from understudy.schema import Boolean, Schema
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/survey.duckdb"
    ...     with duckdb.connect(path) as connection:
    ...         _ = connection.execute("CREATE TABLE answers AS SELECT unnest([true, false, true]) AS smokes")
    ...     table = SqlTable(Database(url=path, table="answers"), Schema(columns=(Boolean(name="smokes"),)))
    ...     table.count(("smokes",)).tolist()
    [1, 2]
    """

    def __init__(
        self,
        source: Database | Session,
        schema: Schema,
        *,
        id_column: str | None = None,
        prepare: Preparation | None = None,
        max_memory_mb: int = 1024,
    ) -> None:
        self._schema = schema
        self._session = connect(source) if isinstance(source, Database) else source
        self._filtered = bool(prepare and prepare.rules)
        self._id_column = id_column
        self._limit = int(max_memory_mb * 2**20)
        encoded = encoded_relation(self._session, schema, id_column=id_column, prepare=prepare)
        self._relation: Any = self._session.defined(encoded)
        self._held: Counted | None = None
        self._distinct: int | None = None
        self._rows = self._checked_rows()
        if id_column is None:
            self._hold()

    # -- what the curator sees

    def __repr__(self) -> str:
        return f"SqlTable({self._session.source.kind}, {len(self._schema.domain)} columns; records not shown)"

    def count_many(self, cliques: Iterable[Sequence[str]]) -> list[Counts]:
        """Return the exact marginals of several cliques, from as few scans as possible. Private."""
        asked = [tuple(clique) for clique in cliques]
        if self._held is not None:
            return self._held.count_many(asked)
        domain = self._schema.domain
        counter = MarginalCounter(domain, asked)  # refuses what is too large before anything is asked
        del counter
        canonical = [domain.canonical(clique) for clique in asked]
        groups = merged(domain, [clique for clique in canonical if clique])
        names = domain.canonical({name for clique in groups for name in clique})
        if not names:
            return [np.array(self._rows, np.int64) for _ in asked]
        largest = min(self._rows, self._estimate(), domain.cells(names))
        if not prefers_sets(
            rows=self._rows, distinct=largest, sets=len(groups), streams=self._session.streams
        ):
            batches = distinct_batches(self._session, self._relation, domain, names)
            return count_by_records(self._session, batches, domain, asked, rows=self._rows)
        counted = count_by_sets(self._session, self._relation, domain, list(groups), rows=self._rows)
        owner = {clique: larger for larger, inside in groups.items() for clique in inside}
        return [
            self._summed(clique, counted[owner[domain.canonical(clique)]], owner[domain.canonical(clique)])
            if clique
            else np.array(self._rows, np.int64)
            for clique in asked
        ]

    def distinct(self, columns: Sequence[str]) -> tuple[Codes, Counts]:
        """Return the distinct records of some columns, sorted, and how often each occurs. Private."""
        names = self._names(columns)
        if self._held is not None:
            return self._held.distinct(names)
        sizes = self._schema.domain.shape(names)
        if not names:
            present = min(1, self._rows)
            return np.zeros((present, 0), np.uint8), np.full(present, self._rows, np.int64)
        parts = (
            distinct_records(list(codes.values()), sizes, rows=len(weights), weights=weights)
            for codes, weights in self._batches(names)
        )
        codes, counts = merge_distinct(parts, sizes)
        if int(counts.sum()) != self._rows:
            raise changed(self._session.source.label)
        return codes, counts

    def chunks(
        self, columns: Sequence[str] | None = None, *, rows: int = DEFAULT_CHUNK_ROWS
    ) -> Iterator[dict[str, Codes]]:
        """Iterate over the records, at most ``rows`` at a time, equal ones one after another. Private.

        Databases have no order of rows; here it is the same in every call, whatever the columns.
        """
        names = self._names(columns)
        rows = self._chunk_rows(rows)
        if self._held is not None:
            yield from self._held.chunks(names, rows=rows)
            return
        seen = 0
        for codes, weights in self._batches(self._schema.domain.names, ordered=True):
            seen += int(weights.sum())
            yield from Counted(self._schema, codes, weights).chunks(names, rows=rows)
        if seen != self._rows:
            raise changed(self._session.source.label)

    def people_by_rows(self, id_column: str, most: int) -> Counts:
        """Return how many people have one row, two rows, and so on; those with ``most`` rows or more come last. Private."""
        import ibis

        check_max_rows(most)
        if id_column != self._id_column:
            raise read_without(id_column)
        relation = self._relation
        people = relation.group_by(relation[PERSON]).aggregate(size=relation.count())
        capped = people.mutate(size=ibis.least(people["size"], int(most)))
        counted = capped.group_by(capped["size"]).aggregate(people=capped.count())
        found = np.zeros(most, np.int64)
        for row in self._session.rows(counted):
            found[int(row["size"]) - 1] = int(row["people"])
        self.require_unchanged()
        return found

    def truncated(self, id_column: str, max_rows: int, key: bytes) -> SqlTable:
        """Return the table with at most ``max_rows`` rows per person, chosen in the engine by a keyed hash.

        The key is drawn from the curator's generator; the engine's own is never used. The rows kept of a
        person depend on that person's rows and the key alone, so the stability is that of `Table.truncated`: the
        proof is at the head of the module ``understudy.data.sql.table``.
        """
        check_max_rows(max_rows)
        if id_column != self._id_column:
            raise read_without(id_column)
        domain = self._schema.domain
        names = [code_name(place) for place in range(len(domain))]
        codes = dict(zip(domain.names, (self._relation[name] for name in names), strict=True))
        words_ = {
            f"w{place}": word
            for place, word in enumerate(Packing.of(domain, domain.names).expressions(codes))
        }
        encoded = self._relation.mutate(**words_)
        table = object.__new__(SqlTable)
        table._schema, table._session, table._filtered = self._schema, self._session, self._filtered
        table._id_column, table._limit = None, self._limit
        chosen = truncated(
            encoded,
            person=PERSON,
            packed=list(words_),
            kept=names,
            max_rows=int(max_rows),
            key=key.hex(),
        )
        table._relation = self._session.defined(chosen)
        table._held, table._distinct = None, self._distinct
        table._rows = table._checked_rows()
        table._hold()
        return table

    # -- pieces

    def require_unchanged(self) -> None:
        """Refuse to go on if the table changed or the connection was lost; records held here need neither."""
        if self._held is None:
            self._session.require_alive()

    def _checked_rows(self) -> int:
        """Return the number of rows, after making sure that every entry has a code and every row an owner."""
        import ibis

        relation, columns = self._relation, self._schema.columns
        facts = {"n": relation.count()}
        for place in range(len(columns)):
            facts[f"m{place}"] = relation[code_name(place)].min()
        if self._id_column is not None:
            person = relation[PERSON]
            absent = person.isnull()
            if person.type().is_floating():
                absent = absent | person.isnan()
            facts["ids"] = ibis.ifelse(absent, 1, 0).max()
        (answer,) = self._session.rows(relation.aggregate(**facts))
        if answer.get("ids"):
            raise missing_ids(str(self._id_column))
        wrong = [
            place
            for place in range(len(columns))
            if answer[f"m{place}"] is not None and answer[f"m{place}"] < 0
        ]
        if wrong:
            self._complain(wrong)
        return int(answer["n"])

    def _complain(self, wrong: Sequence[int]) -> None:
        """Say which columns hold which kind of entry without a code, as a file with the same records would."""
        import ibis

        relation = self._relation
        facts = {
            f"m{place}_{-mark}": ibis.ifelse(relation[code_name(place)] == mark, 1, 0).max()
            for place in wrong
            for mark in (*MARKS, UNRESOLVED)
        }
        (answer,) = self._session.rows(relation.aggregate(**facts))
        if any(answer[f"m{place}_{-UNRESOLVED}"] for place in wrong):
            raise changed(self._session.source.label)
        problems = Problems("The table does not fit the schema")
        for place in wrong:
            told = [
                sentence
                for mark in (-2, -1, -3)
                if answer[f"m{place}_{-mark}"]
                for sentence in settled(self._schema.columns[place], mark)[1]
            ]
            problems.add(" ".join(told))
        problems.raise_if_any(DataError)

    def _hold(self) -> None:
        """Bring the distinct records here if they fit."""
        domain = self._schema.domain
        bytes_each = 8 + sum(code_dtype(size).itemsize for size in domain.sizes)
        most = max(self._limit // bytes_each, _RECORDS_AT_LEAST)
        if min(self._rows, domain.cells(domain.names)) > most and self._estimate() > most:
            return
        columns: dict[str, list[Codes]] = {name: [] for name in domain.names}
        weights: list[Counts] = [np.zeros(0, np.int64)]
        for codes, counts in distinct_batches(self._session, self._relation, domain, domain.names):
            for name in domain.names:
                columns[name].append(codes[name])
            weights.append(counts)
        joined = {
            name: np.concatenate([np.zeros(0, code_dtype(domain.size(name))), *columns.pop(name)])
            for name in domain.names
        }
        held = Counted(self._schema, joined, np.concatenate(weights))
        if held.rows != self._rows:
            raise changed(self._session.source.label)
        self._held = held

    def _estimate(self) -> int:
        """Return roughly how many distinct records there are; asked once."""
        if self._distinct is None:
            self._distinct = estimate_distinct(
                self._session, self._relation, self._schema.domain, rows=self._rows
            )
        return self._distinct

    def _batches(
        self, names: Sequence[str], *, ordered: bool = False
    ) -> Iterator[tuple[dict[str, Codes], Counts]]:
        """Iterate over distinct records, in parts where the engine sends results in one piece."""
        parts = 1
        if not self._session.streams:
            bytes_each = 8 + sum(self._schema.domain.size(name).bit_length() // 8 + 1 for name in names)
            parts = max(1, -(-self._estimate() * bytes_each // max(self._limit, 1 << 24)))
        for part in range(parts):
            yield from distinct_batches(
                self._session, self._relation, self._schema.domain, names, part=(part, parts), ordered=ordered
            )

    def _summed(self, asked: Sequence[str], counts: Counts, larger: Sequence[str]) -> Counts:
        clique = self._schema.domain.canonical(asked)
        axes = tuple(axis for axis, name in enumerate(larger) if name not in clique)
        summed = counts.sum(axis=axes) if axes else counts
        return np.ascontiguousarray(summed.transpose([clique.index(name) for name in asked])).copy()
