"""Queries written down: a list of plain descriptions, in Python, on the command line, or in a YAML or JSON file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import DomainTooLarge, SchemaError, UnderstudyError, WorkloadError
from understudy.schema import Clique, Domain, Schema
from understudy.schema.files.yaml import read_plain

# ----------------------------------------------------------------------------------------
# Linear queries: every record answers with a number between 0 and 1, and a table with the sum.
#
# One interface, :class:`Query`, holds the value of each combination of codes of a few columns. Counting queries (boxes,
# ranges, prefixes, halfspaces) are queries whose values are 0 and 1: :class:`Predicate`. A marginal is a family of
# predicates of which each record satisfies exactly one: :func:`cells_of_marginal`.

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

GRID = 2**20
"""Values are multiples of one part in this, so that the answer of a table is a whole number of such parts."""

MAX_QUERY_CELLS = 10_000_000
"""Most combinations of codes that one query may speak of."""

_SHOWN = 4_096
"""Queries with more cells are described by their columns alone."""


@dataclass(frozen=True, eq=False)
class Query:
    """A question that every record answers with a number between 0 and 1.

    The answer of a table is the sum over its records. Values are rounded to multiples of ``1 / GRID`` when the query
    is made, so that answers are whole numbers of that part, without rounding error.

    Parameters
    ----------
    clique
        The columns, in the order of the domain.
    values
        The answer of a record with each combination of their codes.

    Examples
    --------
    >>> half = Query(("age",), np.array([0.0, 0.5, 1.0]))
    >>> half.answer(np.array([7, 4, 1]))
    3.0
    >>> half.counting
    False
    """

    clique: Clique
    values: Floats

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != len(self.clique) or not self.clique:
            raise WorkloadError("A query needs columns, and one axis of values per column.")
        if not (values.size and np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise WorkloadError(
                f"The values of a query over {', '.join(self.clique)} must lie between 0 and 1: one record may move an "
                "answer by at most one. Subtract the least value and divide by the range."
            )
        values = np.round(values * GRID) / GRID
        values.flags.writeable = False
        object.__setattr__(self, "clique", tuple(self.clique))
        object.__setattr__(self, "values", values)

    @property
    def counting(self) -> bool:
        """Whether every record answers 0 or 1."""
        return bool(((self.values == 0) | (self.values == 1)).all())

    @property
    def reach(self) -> float:
        """The most that one record can add to an answer."""
        return float(self.values.max())

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """The values in whole parts of ``1 / GRID``."""
        return np.round(self.values * GRID).astype(np.int64)

    def check(self, domain: Domain) -> None:
        """Refuse a query that does not speak of this domain."""
        if domain.canonical(self.clique) != self.clique or domain.shape(self.clique) != self.values.shape:
            raise WorkloadError(
                f"A query over {', '.join(self.clique)} does not fit the columns of the table."
            )

    def answer(self, counts: npt.ArrayLike) -> float:
        """Return the sum of counts over its columns, each times its value."""
        return float((np.asarray(counts) * self.values).sum())

    def to_plain(self) -> dict[str, Any]:
        """Return a description that JSON can hold; of very large queries only the columns."""
        document: dict[str, Any] = {"columns": list(self.clique)}
        if self.values.size <= _SHOWN:
            document["values"] = self.values.tolist()
        return {"linear": document}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.clique)}; {self.values.size} cells)"


class Predicate(Query):
    """A yes-or-no question about a record: the cells of some columns that count.

    Parameters
    ----------
    clique
        The columns, in the order of the domain.
    cells
        One truth value per combination of their codes.

    Examples
    --------
    >>> young = Predicate(("age",), np.array([True, False, False]))
    >>> young.count(np.array([5, 2, 1]))
    5.0
    """

    cells: Bools

    def __init__(self, clique: Clique, cells: npt.ArrayLike) -> None:
        mask = np.array(cells, dtype=np.bool_)
        mask.flags.writeable = False
        object.__setattr__(self, "cells", mask)
        super().__init__(clique, mask.astype(np.float64))

    def count(self, counts: npt.ArrayLike) -> float:
        """Return the sum of counts over its cells."""
        return float(np.asarray(counts)[self.cells].sum())


def linear(domain: Domain, columns: Sequence[str], values: npt.ArrayLike) -> Query:
    """Return a query of your own: a value for every combination of codes, axes in the order of ``columns``.

    Examples
    --------
    >>> linear(Domain(("a", "b"), (2, 3)), ["b", "a"], np.ones((3, 2)) / 2).values.shape
    (2, 3)
    """
    given = np.asarray(values, dtype=np.float64)
    clique = domain.canonical(columns)
    if given.shape != domain.shape(columns):
        raise WorkloadError(
            f"A query over {', '.join(columns)} needs values of shape {domain.shape(columns)}, not {given.shape}."
        )
    return Query(clique, given.transpose([list(columns).index(name) for name in clique]))


def box(domain: Domain, sides: Mapping[str, Sequence[int] | Bools]) -> Predicate:
    """Return the predicate that every named column takes one of the given codes (or is true in a mask).

    Examples
    --------
    >>> box(Domain(("a", "b"), (3, 2)), {"a": [0, 1], "b": [1]}).cells.sum()
    np.int64(2)
    """
    clique = _clique(domain, sides)
    cells = np.ones((), dtype=np.bool_)
    for name in clique:
        given = np.asarray(sides[name])
        if given.dtype == np.bool_ and given.shape == (domain.size(name),):
            mask = given
        elif given.size and np.issubdtype(given.dtype, np.integer):
            if given.min() < 0 or given.max() >= domain.size(name):
                raise WorkloadError(f"The codes of {name!r} run from 0 to {domain.size(name) - 1}.")
            mask = np.isin(np.arange(domain.size(name)), given)
        else:
            raise WorkloadError(f"Name at least one code of {name!r}, or give one truth value per code.")
        cells = np.logical_and.outer(cells, mask)
    return Predicate(clique, cells)


def interval(domain: Domain, ends: Mapping[str, tuple[int, int] | Sequence[int]]) -> Predicate:
    """Return the predicate that each named ordered column lies between two codes, both included.

    Examples
    --------
    >>> interval(Domain(("a", "b"), (5, 2)), {"a": (1, 3)}).cells
    array([False,  True,  True,  True, False])
    """
    sides: dict[str, Sequence[int]] = {}
    for name, pair in ends.items():
        if len(pair) != 2 or not 0 <= pair[0] <= pair[1] < domain.size(name):
            raise WorkloadError(
                f"A range of {name!r} needs a first and a last code between 0 and {domain.size(name) - 1}."
            )
        sides[name] = range(int(pair[0]), int(pair[1]) + 1)
    return box(domain, sides)


def prefix(domain: Domain, column: str, last: int) -> Predicate:
    """Return the predicate that an ordered column is at most a code.

    Examples
    --------
    >>> prefix(Domain(("a",), (4,)), "a", 1).cells
    array([ True,  True, False, False])
    """
    return interval(domain, {column: (0, last)})


def halfspace(domain: Domain, weights: Mapping[str, float], threshold: float) -> Predicate:
    """Return the predicate that a weighted sum of codes is at least a threshold.

    Examples
    --------
    >>> halfspace(Domain(("a", "b"), (2, 2)), {"a": 1.0, "b": 1.0}, 2.0).cells
    array([[False, False],
           [False,  True]])
    """
    clique = _clique(domain, weights)
    total = np.zeros(())
    for name in clique:
        total = np.add.outer(total, weights[name] * np.arange(domain.size(name)))
    return Predicate(clique, total >= threshold)


def cells_of_marginal(domain: Domain, columns: Sequence[str]) -> list[Predicate]:
    """Return one predicate per cell of a marginal: a partition, of which each record satisfies exactly one.

    Examples
    --------
    >>> len(cells_of_marginal(Domain(("a", "b"), (2, 3)), ["a", "b"]))
    6
    """
    clique = domain.canonical(columns)
    number = domain.cells(clique)
    if number * number > MAX_QUERY_CELLS:
        raise DomainTooLarge(
            f"The marginal of {', '.join(clique)} has {number:,} cells, too many to ask one by one. Put it into a "
            "workload, where it is measured as a whole.",
            cells=number,
            allowed=int(MAX_QUERY_CELLS**0.5),
        )
    return [Predicate(clique, row.reshape(domain.shape(clique))) for row in np.eye(number, dtype=np.bool_)]


def random_boxes(
    domain: Domain, number: int, *, order: int, generator: np.random.Generator
) -> list[Predicate]:
    """Draw boxes over random sets of columns: for each column a random run of its codes, never all of them.

    Parameters
    ----------
    order
        How many columns a box speaks of, as far as there are so many.
    generator
        Public randomness: which questions are asked does not depend on the records.

    Examples
    --------
    >>> pool = random_boxes(Domain(("a", "b"), (4, 4)), 3, order=2, generator=np.random.default_rng(0))
    >>> [query.clique for query in pool]
    [('a', 'b'), ('a', 'b'), ('a', 'b')]
    """
    found = []
    for _ in range(number):
        names = generator.choice(len(domain), size=min(order, len(domain)), replace=False)
        sides: dict[str, Bools] = {}
        for index in sorted(int(i) for i in names):
            size = domain.sizes[index]
            mask = np.zeros(size, dtype=np.bool_)
            length = int(generator.integers(1, max(2, size)))
            start = int(generator.integers(0, size - length + 1))
            mask[start : start + length] = True
            sides[domain.names[index]] = mask
        found.append(box(domain, sides))
    return found


def _clique(domain: Domain, columns: Mapping[str, object]) -> Clique:
    """Return the columns in order, refusing none and more than one query can hold."""
    clique = domain.canonical(columns)
    if not clique:
        raise WorkloadError("A query needs at least one column.")
    if domain.cells(clique) > MAX_QUERY_CELLS:
        raise DomainTooLarge(
            f"A query over {', '.join(clique)} speaks of {domain.cells(clique):,} combinations of codes; at most "
            f"{MAX_QUERY_CELLS:,} are allowed. Use fewer columns or coarser bins.",
            cells=domain.cells(clique),
            allowed=MAX_QUERY_CELLS,
        )
    return clique


QuerySource = Sequence["Query | Mapping[str, Any]"] | str | Path
"""Queries, descriptions of queries, or the name of a file that lists descriptions."""

_FORMS = "box, range, prefix, halfspace, linear, marginal, ranges, prefixes"


def read_queries(schema: Schema, source: QuerySource) -> list[Query]:
    """Turn descriptions into queries; queries stay as they are.

    A code is written as a whole number or as the label that the schema gives it. Each description has one key:

    - ``box: {sex: [female], region: [0, 2]}``: every column takes one of its codes;
    - ``range: {age: [18-25, 40-45]}``: every column lies between two codes, both included;
    - ``prefix: {age: 25-30}``: every column is at most a code;
    - ``halfspace: {weights: {age: 1, visits: 2}, at_least: 12}``: a weighted sum of codes reaches a threshold;
    - ``linear: {columns: [age], values: [0, 0.5, 1]}``: a value between 0 and 1 for each combination of codes;
    - ``marginal: [age, sex]``: one query for each cell;
    - ``prefixes: age`` and ``ranges: age``: all prefixes, all ranges of a column.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: size, kind: ordinal, values: [small, middle, large]}]")
    >>> queries = read_queries(schema, [{"range": {"size": ["middle", "large"]}}, {"prefixes": "size"}])
    >>> [query.values.tolist() for query in queries]
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    found: list[Query] = []
    for number, item in enumerate(_listed(source), start=1):
        if isinstance(item, Query):
            item.check(schema.domain)
            found.append(item)
            continue
        if not isinstance(item, Mapping) or len(item) != 1:
            raise WorkloadError(f"Query {number} must have exactly one key, one of: {_FORMS}.")
        ((form, document),) = item.items()
        try:
            found += _queries(schema, str(form), document)
        except DomainTooLarge:
            raise
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise WorkloadError(f"Query {number} ({form}): {_reason(error)}") from None
    if not found:
        raise WorkloadError("There is no query. Leave `queries` out, or name at least one.")
    return found


def _listed(source: QuerySource) -> Sequence[Any]:
    """Return the items of a source, reading it if it is a file."""
    if not isinstance(source, str | Path):
        if not isinstance(source, Sequence):
            raise WorkloadError("Queries are a list, or the name of a YAML or JSON file that holds one.")
        return source
    path = Path(source)
    try:
        read = read_plain(path)
    except SchemaError as error:
        raise WorkloadError(f"The queries {str(path)!r} cannot be read: {error}") from None
    if isinstance(read, Mapping) and set(read) == {"queries"}:
        read = read["queries"]
    if not isinstance(read, list):
        raise WorkloadError(f"The file {str(path)!r} must hold a list of queries.")
    return read


def _reason(error: Exception) -> str:
    if isinstance(error, UnderstudyError):
        return str(error)
    return f"its description cannot be understood ({type(error).__name__}). Known forms: {_FORMS}."


def _queries(schema: Schema, form: str, document: Any) -> list[Query]:
    domain = schema.domain
    if form == "box":
        return [
            box(domain, {name: [_code(schema, name, v) for v in _many(vs)] for name, vs in document.items()})
        ]
    if form == "range":
        return [
            interval(
                domain, {name: [_code(schema, name, v) for v in ends] for name, ends in document.items()}
            )
        ]
    if form == "prefix":
        return [interval(domain, {name: (0, _code(schema, name, last)) for name, last in document.items()})]
    if form == "halfspace":
        _only(document, {"weights", "at_least"})
        weights = {name: float(weight) for name, weight in document["weights"].items()}
        return [halfspace(domain, weights, float(document["at_least"]))]
    if form == "linear":
        _only(document, {"columns", "values"})
        return [linear(domain, list(document["columns"]), np.asarray(document["values"], dtype=np.float64))]
    if form == "marginal":
        return list(cells_of_marginal(domain, _many(document)))
    if form in ("prefixes", "ranges"):
        size = domain.size(document)
        starts = range(size) if form == "ranges" else range(1)
        return [
            interval(domain, {document: (first, last)})
            for first in starts
            for last in range(first, size)
            if last - first < size - 1
        ]
    raise WorkloadError(f"there is no such form. Known: {_FORMS}.")


def _only(document: Mapping[str, Any], keys: set[str]) -> None:
    if set(document) != keys:
        raise WorkloadError(f"it needs exactly the keys {', '.join(sorted(keys))}.")


def _many(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _code(schema: Schema, name: str, value: Any) -> int:
    """Return a code, given as itself or as its label."""
    labels = schema.column(name).labels
    if isinstance(value, bool):
        value = str(value).lower()
    if isinstance(value, int):
        if not 0 <= value < len(labels):
            raise WorkloadError(f"the codes of {name!r} run from 0 to {len(labels) - 1}.")
        return value
    lowered = [label.lower() for label in labels]
    if isinstance(value, str) and value.lower() in lowered:
        return lowered.index(value.lower())
    raise WorkloadError(
        f"{name!r} has no code {value!r}. Codes: {', '.join(labels[:12])}{', ...' * (len(labels) > 12)}."
    )
