"""The public shape of an encoded table: column names and how many codes each may take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from understudy.errors import WorkloadError
from understudy.schema.problems import did_you_mean

Clique = tuple[str, ...]
"""A set of columns, written as a tuple of names in the order of the domain."""


@dataclass(frozen=True)
class Domain:
    """Ordered column names with the number of codes of each.

    Everything after encoding works on a domain: code ``c`` of a column is an integer in
    ``range(size)``. A domain is public by construction; it comes from a schema, never from records.

    Examples
    --------
    >>> domain = Domain(("age", "sex", "smokes"), (10, 2, 2))
    >>> domain.shape(("age", "sex"))
    (10, 2)
    >>> domain.canonical(["smokes", "age"])
    ('age', 'smokes')
    >>> domain.cells()
    40
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes):
            raise WorkloadError(
                f"A domain needs one size per column; got {len(self.names)} and {len(self.sizes)}."
            )
        if len(set(self.names)) != len(self.names):
            repeated = sorted({name for name in self.names if self.names.count(name) > 1})
            raise WorkloadError(f"Column names must differ; repeated: {', '.join(map(repr, repeated))}.")
        for name, size in zip(self.names, self.sizes, strict=True):
            if size < 1:
                raise WorkloadError(f"Column {name!r} must have at least one possible value, not {size}.")

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Domain:
        """Build a domain from a mapping of column name to size."""
        return cls(tuple(sizes), tuple(int(size) for size in sizes.values()))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.position

    @cached_property
    def position(self) -> dict[str, int]:
        """Index of each column name."""
        return {name: index for index, name in enumerate(self.names)}

    def size(self, name: str) -> int:
        """Number of codes of one column."""
        return self.sizes[self.index(name)]

    def index(self, name: str) -> int:
        """Position of a column, with a helpful error for an unknown one."""
        try:
            return self.position[name]
        except KeyError:
            raise WorkloadError(
                f"No column named {name!r}.{did_you_mean(str(name), self.names)} Known columns: {', '.join(self.names)}."
            ) from None

    def canonical(self, columns: Iterable[str]) -> Clique:
        """Return the columns in the order of the domain, refusing unknown and repeated ones; a text is one column."""
        indices = [self.index(name) for name in ([columns] if isinstance(columns, str) else columns)]
        if len(set(indices)) != len(indices):
            raise WorkloadError(
                f"A clique names each column once; got {tuple(self.names[i] for i in indices)}."
            )
        return tuple(self.names[i] for i in sorted(indices))

    def shape(self, clique: Iterable[str] | None = None) -> tuple[int, ...]:
        """Sizes of the columns of a clique, in the order given; of all columns by default."""
        if clique is None:
            return self.sizes
        return tuple(self.sizes[self.index(name)] for name in clique)

    def cells(self, clique: Iterable[str] | None = None) -> int:
        """Number of cells of the table over a clique (exact: Python integers do not overflow)."""
        return math.prod(self.shape(clique))

    def project(self, columns: Iterable[str]) -> Domain:
        """Return the domain restricted to some columns, in the order of this domain."""
        clique = self.canonical(columns)
        return Domain(clique, self.shape(clique))
