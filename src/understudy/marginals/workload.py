"""Distances between two tables seen through a workload (paper AIM, Definition 2)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import SchemaError, WorkloadError
from understudy.schema import Clique, Domain
from understudy.schema.files.yaml import read_plain

# ----------------------------------------------------------------------------------------
# Workloads: the weighted marginals a stand-in is asked to preserve (paper AIM, Definition 2 and section 6.1).


@dataclass(frozen=True)
class Workload:
    """Cliques with non-negative weights, over a domain.

    Definition 2 of paper AIM divides a sum of weighted errors by the number ``k`` of queries. A query asked several times is
    kept once here, with its weights added up and multiplied by the number of distinct queries over ``k``: the error, which divides by the
    number of distinct ones, is then that of the whole list.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c"), (2, 3, 4))
    >>> workload = all_kway(domain, 2)
    >>> workload.cliques
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    >>> sorted(workload.closure_weights().items())[:2]
    [(('a',), 2.0), (('a', 'b'), 4.0)]
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.cliques:
            raise WorkloadError("A workload needs at least one marginal.")
        if len(self.cliques) != len(self.weights):
            raise WorkloadError(
                f"A workload needs one weight per marginal; got {len(self.cliques)} and {len(self.weights)}."
            )
        canonical = tuple(self.domain.canonical(clique) for clique in self.cliques)
        if len(set(canonical)) != len(canonical):
            raise WorkloadError("A workload names each marginal once; add the weights of repeated ones.")
        for clique, weight in zip(canonical, self.weights, strict=True):
            if not (math.isfinite(weight) and weight >= 0):
                raise WorkloadError(f"The weight of {clique} ({weight}) must be finite and not negative.")
        if not any(self.weights):
            raise WorkloadError("At least one marginal of a workload must have a positive weight.")
        object.__setattr__(self, "cliques", canonical)
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))

    def __len__(self) -> int:
        return len(self.cliques)

    def __iter__(self) -> Iterator[tuple[Clique, float]]:
        return iter(zip(self.cliques, self.weights, strict=True))

    @classmethod
    def uniform(cls, domain: Domain, cliques: Iterable[Iterable[str]]) -> Workload:
        """Build a workload in which every marginal of a list has weight one; a marginal may be listed several times.

        Examples
        --------
        >>> domain = Domain(("a", "b"), (2, 3))
        >>> Workload.uniform(domain, [["a"], ["a"], ["a"], ["b"]]).weights  # an average over four queries, two of them distinct
        (1.5, 0.5)
        """
        return cls._merged(domain, ((domain.canonical(clique), 1.0) for clique in cliques))

    @classmethod
    def _every(cls, domain: Domain, k: int) -> Workload:
        """Build the workload of all marginals over ``k`` columns, without looking at each: there may be millions."""
        cliques: tuple[Clique, ...] = tuple(combinations(domain.names, k))
        if not cliques:
            raise WorkloadError("A workload needs at least one marginal.")
        made = object.__new__(cls)
        for name, value in (("domain", domain), ("cliques", cliques), ("weights", (1.0,) * len(cliques))):
            object.__setattr__(made, name, value)
        return made

    @classmethod
    def _merged(cls, domain: Domain, queries: Iterable[tuple[Clique, float]]) -> Workload:
        """Keep each query of a list once, so that the error stays that of the list."""
        total: dict[Clique, float] = {}
        number = 0
        for clique, weight in queries:
            total[clique] = total.get(clique, 0.0) + weight
            number += 1
        if number > len(total):
            total = {clique: weight * len(total) / number for clique, weight in total.items()}
        return cls(domain, tuple(total), tuple(total.values()))

    def to_plain(self) -> list[dict[str, Any]]:
        """Return the workload as plain values, the form :func:`read_workload` reads."""
        return [{"columns": list(clique), "weight": weight} for clique, weight in self]

    @classmethod
    def from_plain(cls, domain: Domain, items: object, *, where: str = "the workload") -> Workload:
        """Build a workload from a list of column lists, or of ``{columns: [...], weight: w}``."""
        if not isinstance(items, Sequence) or isinstance(items, str) or not items:
            raise WorkloadError(f"{where} must hold a list of marginals.")
        queries: list[tuple[Clique, float]] = []
        for item in items:
            columns = item.get("columns") if isinstance(item, Mapping) else item
            weight = item.get("weight", 1.0) if isinstance(item, Mapping) else 1.0
            if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
                raise WorkloadError(f"Each marginal of {where} must be a list of column names; got {item!r}.")
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise WorkloadError(f"The weight of {columns} in {where} must be a number; got {weight!r}.")
            queries.append((domain.canonical(columns), float(weight)))
        return cls._merged(domain, queries)

    def closure(self) -> tuple[Clique, ...]:
        """Return every non-empty subset of a workload marginal, small ones first."""
        return tuple(clique for group in self.closure_by_size() for clique in group)

    def closure_by_size(self) -> Iterator[Iterable[Clique]]:
        """Yield the closure by the number of columns, smallest first; what is not asked for is not made.

        The pairs of three hundred columns are few, their triples are millions.

        Examples
        --------
        >>> domain = Domain(("a", "b", "c"), (2, 3, 4))
        >>> [len(list(group)) for group in all_kway(domain, 2).closure_by_size()]
        [3, 3]
        """
        if self._is_every:
            for size in range(1, len(self.cliques[0]) + 1):
                yield combinations(self.domain.names, size)
            return
        for _, group in groupby(self._closure, key=len):
            yield tuple(group)

    @property
    def closure_size(self) -> int:
        """Number of marginals in the closure."""
        if self._is_every:
            return sum(math.comb(len(self.domain), size) for size in range(1, len(self.cliques[0]) + 1))
        return len(self._closure)

    @cached_property
    def _is_every(self) -> bool:
        """Whether this asks for all marginals over some number of columns, so that its closure need not be searched for."""
        size = len(self.cliques[0])
        return len(self.cliques) == math.comb(len(self.domain), size) and all(
            len(clique) == size for clique in self.cliques
        )

    @cached_property
    def _closure(self) -> tuple[Clique, ...]:
        return downward_closure(self.domain, self.cliques)

    def closure_weights(self, cliques: Iterable[Clique] | None = None) -> dict[Clique, float]:
        """Return the AIM weight of every marginal in the closure, or of some of them: w_r = sum over s of c_s |r ∩ s|.

        Counting column by column, ``w_r`` is the sum over the columns of ``r`` of the weight of all
        workload marginals that contain the column.
        """
        attraction = dict.fromkeys(self.domain.names, 0.0)
        for clique, weight in self:
            for name in clique:
                attraction[name] += weight
        asked = self.closure() if cliques is None else cliques
        return {candidate: sum(attraction[name] for name in candidate) for candidate in asked}


def downward_closure(domain: Domain, cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """Return every non-empty subset of the cliques, ordered by size and then by column position."""
    closure: set[Clique] = set()
    for clique in cliques:
        for size in range(1, len(clique) + 1):
            closure.update(combinations(clique, size))
    position = domain.position
    return tuple(sorted(closure, key=lambda clique: (len(clique), [position[name] for name in clique])))


def all_kway(domain: Domain, k: int) -> Workload:
    """Return all marginals over ``k`` columns (over all columns when there are fewer than ``k``)."""
    if k < 1:
        raise WorkloadError(f"all_kway needs k of at least 1, not {k}.")
    return Workload._every(domain, min(k, len(domain)))


def target(domain: Domain, column: str, *, k: int = 3) -> Workload:
    """Return all ``k``-way marginals that contain one column, such as the label of a prediction task."""
    if k < 1:
        raise WorkloadError(f"A target workload needs k of at least 1, not {k}.")
    domain.index(column)
    rest = [name for name in domain.names if name != column]
    size = min(k, len(domain)) - 1
    return Workload.uniform(domain, ((column, *others) for others in combinations(rest, size)))


def skewed(domain: Domain, *, k: int = 3, draws: int = 256, seed: int = 0) -> Workload:
    """Return ``k``-way marginals biased towards some columns, as in paper AIM section 6.1.

    Each column gets a weight that is the square of an exponential variable; ``draws`` combinations
    are drawn with probability proportional to the product of their weights. A combination drawn
    several times counts as often: errors are averages over all ``draws`` queries. The seed is public: a workload says nothing about
    the records.
    """
    generator = np.random.default_rng(seed)
    attraction = generator.exponential(size=len(domain)) ** 2
    candidates = list(combinations(range(len(domain)), min(k, len(domain))))
    probability = np.array([np.prod(attraction[list(candidate)]) for candidate in candidates])
    probability /= probability.sum()
    chosen = generator.choice(len(candidates), size=draws, p=probability)
    return Workload.uniform(
        domain, ([domain.names[i] for i in candidates[index]] for index in sorted(chosen))
    )


def read_workload(domain: Domain, path: str | Path) -> Workload:
    """Read a workload from YAML or JSON: a list of column lists, or of ``{columns: [...], weight: w}``."""
    path = Path(path)
    try:
        items = read_plain(path)
    except SchemaError as error:
        raise WorkloadError(f"The workload file {path.name!r} cannot be read: {error}") from None
    if isinstance(items, Mapping):
        items = items.get("workload")
    return Workload.from_plain(domain, items, where=f"the workload file {path.name!r}")


def parse_workload(domain: Domain, text: str) -> Workload:
    """Turn a command-line word into a workload.

    Accepted: ``all-3way`` (any number), ``target:COLUMN`` (or ``target:COLUMN:2``), ``skewed``
    (or ``skewed:SEED``), or the path of a YAML or JSON file.
    """
    kind, _, rest = text.partition(":")
    if kind.startswith("all-") and kind.endswith("way") and _is_count(kind[4:-3]) and not rest:
        return all_kway(domain, int(kind[4:-3]))
    if kind == "target" and rest:
        column, _, size = rest.partition(":")
        if size and not _is_count(size):
            raise WorkloadError(f"The size in {text!r} must be a whole number.")
        return target(domain, column, k=int(size) if size else 3)
    if kind == "skewed":
        if rest and not _is_count(rest):
            raise WorkloadError(f"The seed in {text!r} must be a whole number.")
        return skewed(domain, seed=int(rest) if rest else 0)
    if os.path.exists(text):  # unlike that of a path, not upset by names that are too long
        return read_workload(domain, text)
    raise WorkloadError(
        f"{text!r} is not a workload. Use all-2way, all-3way, target:COLUMN, skewed, or a YAML or JSON file."
    )


def _is_count(text: str) -> bool:
    """Whether a text is a whole number of reasonable length."""
    return text.isdecimal() and len(text) <= 18


Norm = Literal["l1", "l2", "max"]
Array = npt.NDArray[np.float64]

_NORMS: dict[str, Callable[[Array], float]] = {
    "l1": lambda difference: float(np.abs(difference).sum()),
    "l2": lambda difference: float(np.sqrt(np.square(difference).sum())),
    "max": lambda difference: float(np.abs(difference).max(initial=0.0)),
}


def marginal_errors(
    real: Sequence[npt.ArrayLike], synthetic: Sequence[npt.ArrayLike], *, n_rows: float, norm: Norm = "l1"
) -> Array:
    """Return the distance of each pair of marginals, divided by the number of real rows.

    The arguments are exact marginals, so the result is private: it may be shown only when both
    tables are public, as in a benchmark.
    """
    if len(real) != len(synthetic):
        raise WorkloadError(
            f"Need as many real as synthetic marginals; got {len(real)} and {len(synthetic)}."
        )
    if not n_rows > 0:
        raise WorkloadError(f"The number of rows ({n_rows}) must be positive.")
    try:
        distance = _NORMS[norm]
    except KeyError:
        raise WorkloadError(f"No norm named {norm!r}. Known: {', '.join(_NORMS)}.") from None
    errors = np.empty(len(real))
    for index, (left, right) in enumerate(zip(real, synthetic, strict=True)):
        a, b = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
        if a.shape != b.shape:
            raise WorkloadError(
                f"Marginal {index} has shape {a.shape} on one side and {b.shape} on the other."
            )
        errors[index] = distance(a - b) / n_rows
    return errors


def workload_error(
    workload: Workload,
    real: Sequence[npt.ArrayLike],
    synthetic: Sequence[npt.ArrayLike],
    *,
    n_rows: float,
    norm: Norm = "l1",
) -> float:
    """Return the weighted average distance over a workload (paper AIM, Definition 2).

    Marginals are given in the order of the workload and as counts, not rescaled: with the L1 norm
    the result lies between 0 and 2 when both tables have ``n_rows`` rows and the weights are one.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> from understudy.marginals import all_kway
    >>> workload = all_kway(Domain(("a", "b"), (2, 2)), 1)
    >>> workload_error(workload, [[3, 1], [2, 2]], [[2, 2], [2, 2]], n_rows=4)
    0.25
    """
    errors = marginal_errors(real, synthetic, n_rows=n_rows, norm=norm)
    if len(errors) != len(workload):
        raise WorkloadError(f"The workload has {len(workload)} marginals; got {len(errors)}.")
    return float(np.dot(workload.weights, errors) / len(workload))
