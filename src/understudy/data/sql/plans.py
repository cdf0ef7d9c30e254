"""Counting tables whose distinct records do not fit in memory: few scans, and an estimate of which is cheaper.

Two ways answer many marginals at once. *Grouping sets*: cliques are merged into larger ones of at most
``MERGED_CELLS`` cells, and one query counts up to ``SETS_PER_QUERY`` of these; the engine touches every row once per
set. *Distinct records*: the engine groups the rows into distinct records over the columns in question, and these
arrive in batches to be counted here, for any number of cliques; what costs is sending them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.counting.counting import Counts, MarginalCounter, code_dtype
from understudy.data.sql.relation import code_name
from understudy.data.sql.session import changed

if TYPE_CHECKING:
    from understudy.data.sql.session import Session
    from understudy.schema import Clique, Codes, Domain

# ----------------------------------------------------------------------------------------
# Encoded records as a few whole numbers: short keys to group by, short rows to send.

_LARGEST = 1 << 62


@dataclass(frozen=True)
class Packing:
    """Columns in mixed radix, as many to a 64-bit word as fit.

    Parameters
    ----------
    names
        The columns, most significant first.
    sizes
        Their numbers of codes.

    Examples
    --------
    >>> packing = Packing(("a", "b"), (3, 4))
    >>> packing.unpack([np.array([7, 11])])["b"]
    array([3, 3], dtype=uint8)
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, domain: Domain, names: Sequence[str]) -> Packing:
        """Pack some columns of a domain, in the order given."""
        return cls(tuple(names), domain.shape(names))

    @property
    def words(self) -> tuple[tuple[int, ...], ...]:
        """Which columns each word holds."""
        found: list[list[int]] = []
        cells = 1
        for place, size in enumerate(self.sizes):
            if not found or cells * size > _LARGEST:
                found.append([])
                cells = 1
            found[-1].append(place)
            cells *= size
        return tuple(map(tuple, found))

    def expressions(self, codes: Mapping[str, Any]) -> list[Any]:
        """Return each word as an expression over columns of codes; -1 if one of its codes is negative."""
        import ibis

        made = []
        for word in self.words:
            first, *rest = (codes[self.names[place]] for place in word)
            value, least = first, first
            for place, code in zip(word[1:], rest, strict=True):
                value = value * self.sizes[place] + code
            if rest:
                least = ibis.least(first, *rest)
            made.append(ibis.ifelse(least < 0, -1, value).cast("int64"))
        return made

    def unpack(self, words: Sequence[npt.NDArray[np.int64]]) -> dict[str, Codes]:
        """Return the codes of each column from the words of some records."""
        columns: dict[str, Codes] = {}
        for word, places in zip(words, self.words, strict=True):
            left = word
            for place in reversed(places):
                size = self.sizes[place]
                left, code = np.divmod(left, size) if place != places[0] else (left, left)
                columns[self.names[place]] = code.astype(code_dtype(size))
        return {name: columns[name] for name in self.names}


MERGED_CELLS = 1 << 20
SETS_PER_QUERY = 32
SEND_COST = 10.0
"""What sending and unpacking one record costs, in rows that the engine groups."""

Batch = tuple[dict[str, "Codes"], Counts]


def distinct_batches(
    session: Session,
    relation: Any,
    domain: Domain,
    names: Sequence[str],
    *,
    part: tuple[int, int] = (0, 1),
    ordered: bool = False,
) -> Iterator[Batch]:
    """Iterate over the distinct records of some columns with their counts.

    ``part`` takes the records whose first word leaves ``part[0]`` when divided by ``part[1]``. Unless ``ordered``,
    they come in the order that suits the engine.

    Privacy
    -------
    Out: private.
    """
    packing = Packing.of(domain, names)
    codes = {name: relation[code_name(domain.names.index(name))] for name in names}
    words = {f"w{place}": word for place, word in enumerate(packing.expressions(codes))}
    keyed = relation.select(**words)
    if part[1] > 1:
        keyed = keyed.filter(keyed["w0"] % part[1] == part[0])
    query = keyed.group_by(list(words)).aggregate(n=keyed.count())
    if ordered:
        query = query.order_by(list(words))
    for batch in session.batches(query):
        arrays = [_whole_numbers(batch.column(word)) for word in words]
        if any(len(array) and int(array.min()) < 0 for array in arrays):
            raise changed(session.source.label)  # an entry without a code was not there before
        yield packing.unpack(arrays), _whole_numbers(batch.column("n"))


def _whole_numbers(column: Any) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def merged(domain: Domain, cliques: Sequence[Clique]) -> dict[Clique, list[Clique]]:
    """Merge cliques into few larger ones of at most ``MERGED_CELLS`` cells: ``{larger: those inside it}``.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> merged(Domain(("a", "b", "c"), (2, 2, 2)), [("a", "b"), ("b", "c")])
    {('a', 'b', 'c'): [('a', 'b'), ('b', 'c')]}
    """
    groups: list[tuple[Clique, list[Clique]]] = []
    for clique in sorted(dict.fromkeys(cliques), key=lambda clique: (-domain.cells(clique), clique)):
        best: tuple[int, int, Clique] | None = None
        for place, (larger, _) in enumerate(groups):
            union = domain.canonical({*larger, *clique})
            cells = domain.cells(union)
            if (cells <= MERGED_CELLS or union == larger) and (best is None or cells < best[0]):
                best = (cells, place, union)
        if best is None:
            groups.append((clique, [clique]))
        else:
            groups[best[1]] = (best[2], [*groups[best[1]][1], clique])
    found: dict[Clique, list[Clique]] = {}
    for larger, inside in groups:
        found.setdefault(larger, []).extend(inside)
    return found


def prefers_sets(*, rows: int, distinct: int, sets: int, streams: bool) -> bool:
    """Say whether grouping sets are cheaper than sending distinct records.

    Examples
    --------
    >>> prefers_sets(rows=10**9, distinct=10**6, sets=100, streams=True)
    False
    >>> prefers_sets(rows=10**9, distinct=10**9, sets=3, streams=True)
    True
    """
    return not streams or rows * sets <= rows * 2 + distinct * SEND_COST


def count_by_sets(
    session: Session, relation: Any, domain: Domain, larger: Sequence[Clique], *, rows: int
) -> dict[Clique, Counts]:
    """Count some cliques by grouping sets, a few dozen per query.

    Raises
    ------
    DataError
        If a query fails, or if its counts do not add up to the rows of the table: then the table changed.

    Privacy
    -------
    Out: private. Nothing is returned from a query that did not finish.
    """
    found: dict[Clique, Counts] = {}
    step = SETS_PER_QUERY if session.groups else 1
    for start in range(0, len(larger), step):
        batch = list(larger[start : start + step])
        totals = [np.zeros(domain.cells(clique), np.int64) for clique in batch]
        for answer in session.batches(_sets_query(session, relation, domain, batch)):
            which, keys, counts = (_whole_numbers(answer.column(name)) for name in ("g", "k", "n"))
            if len(keys) and int(keys.min()) < 0:
                raise changed(session.source.label)
            for place in np.unique(which):
                mine = which == place
                totals[int(place)][keys[mine]] += counts[mine]
        if any(int(total.sum()) != rows for total in totals):
            raise changed(session.source.label)
        for clique, total in zip(batch, totals, strict=True):
            found[clique] = total.reshape(domain.shape(clique))
    return found


def _sets_query(session: Session, relation: Any, domain: Domain, cliques: Sequence[Clique]) -> Any:
    keys = {}
    for place, clique in enumerate(cliques):
        codes = {name: relation[code_name(domain.names.index(name))] for name in clique}
        (keys[f"k{place}"],) = Packing.of(domain, clique).expressions(codes)
    keyed = relation.select(**keys)
    if len(cliques) == 1:
        counted = keyed.group_by("k0").aggregate(n=keyed.count())
        return counted.mutate(g=0, k=counted["k0"]).select("g", "k", "n")
    names = [session.quoted(key) for key in keys]
    which = " ".join(f"WHEN {name} IS NOT NULL THEN {place}" for place, name in enumerate(names))
    quoted = {key: session.quoted(key) for key in ("g", "k", "n", "e")}
    return (
        f"SELECT CASE {which} END AS {quoted['g']}, COALESCE({', '.join(names)}) AS {quoted['k']}, "
        f"COUNT(*) AS {quoted['n']} FROM ({session.sql(keyed)}) AS {quoted['e']} "
        f"GROUP BY GROUPING SETS ({', '.join(f'({name})' for name in names)})"
    )


def count_by_records(
    session: Session, batches: Iterator[Batch], domain: Domain, cliques: Sequence[Clique], *, rows: int
) -> list[Counts]:
    """Count some cliques from distinct records as they arrive."""
    counter = MarginalCounter(domain, cliques)
    seen = 0
    for codes, weights in batches:
        counter.add(codes, weights=weights)
        seen += int(weights.sum())
    if seen != rows:
        raise changed(session.source.label)
    return counter.counts()


def estimate_distinct(session: Session, relation: Any, domain: Domain, *, rows: int) -> int:
    """Estimate the number of distinct records, within the engine."""
    packing = Packing.of(domain, domain.names)
    codes = {name: relation[code_name(place)] for place, name in enumerate(domain.names)}
    words = {f"w{place}": word for place, word in enumerate(packing.expressions(codes))}
    keyed = relation.select(**words)
    mixed: Any = 0.0
    for place, name in enumerate(words):
        # close to one number per record, which is enough for an estimate
        mixed = mixed + keyed[name].cast("float64") * (1.0 + 0.7320508075688772 * place)
    found = session.rows(keyed.aggregate(n=mixed.approx_nunique()))
    return min(rows, int(found[0]["n"] or 0))
