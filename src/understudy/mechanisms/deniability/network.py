"""A Bayesian network as a seed-based generator: conditional tables with whole-number probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError
from understudy.schema import Domain

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_ONE = 1 << 53


class SeedModel(Protocol):
    """Anything that turns a seed record into a synthetic one with known probabilities.

    It is public: whatever it learnt was paid for. All randomness comes from the words it is handed.
    """

    @property
    def words_per_record(self) -> int:
        """How many random 64-bit words one record needs."""

    def propose(self, seeds: Ints, words: Words) -> Ints:
        """Return one candidate per seed."""

    def free(self, words: Words) -> Ints:
        """Return one record per row of words, drawn from a law that depends on no seed."""

    def plausible(self, candidates: Ints, seeds: Ints, types: Ints, counts: Ints, gamma: float) -> Ints:
        """Return the number of seeds in the class of each candidate's own seed.

        ``types`` are the distinct seed records and ``counts`` how often each occurs. Seeds ``s`` and ``t`` are in
        the same class for ``y`` if ``P(y|s)`` and ``P(y|t)`` lie in one interval ``(γ^(-i-1), γ^(-i)]``.
        """


def classes_of(probabilities: npt.NDArray[np.float64], gamma: float) -> Ints:
    """Return the class ``i`` with ``γ^(-i-1) < p <= γ^(-i)`` of each probability, -1 for zero.

    Examples
    --------
    >>> classes_of(np.array([1.0, 0.25, 0.2, 0.0]), 4.0)
    array([ 0,  1,  1, -1])
    """
    p = np.minimum(np.asarray(probabilities, dtype=np.float64), 1.0)
    with np.errstate(divide="ignore"):
        index = np.floor(-np.log(p) / math.log(gamma))
    return np.where(p > 0, index, -1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Conditional:
    """The law of one column given coarse versions of earlier ones.

    Attributes
    ----------
    column, parents
        Names. Every parent comes earlier in the resampling order.
    buckets
        For each parent, the group of each of its codes.
    table
        Probabilities, ``[groups of parents..., codes of the column]``.
    """

    column: str
    parents: tuple[str, ...]
    buckets: tuple[Ints, ...]
    table: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkSeedModel:
    """Keep the first columns of the seed, in resampling order, and draw the others from the network.

    Parameters
    ----------
    domain
        Columns of the table.
    conditionals
        One per column, in resampling order.
    omega
        Numbers of columns that may be resampled, each equally likely. With all of them resampled, nothing
        of the seed is left.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> a = Conditional("a", (), (), np.array([0.5, 0.5]))
    >>> b = Conditional("b", ("a",), (np.array([0, 1]),), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> model = NetworkSeedModel(domain, (a, b), omega=(1,))
    >>> model.probability(np.array([1, 1]), np.array([[1, 0], [0, 0]]))
    array([0.8, 0. ])
    """

    domain: Domain
    conditionals: tuple[Conditional, ...]
    omega: tuple[int, ...]

    def __post_init__(self) -> None:
        width = len(self.domain)
        order = [item.column for item in self.conditionals]
        if sorted(order) != sorted(self.domain.names):
            raise BudgetError("A network needs exactly one conditional table per column.")
        if not self.omega or any(not 1 <= value <= width for value in self.omega):
            raise BudgetError(f"omega must be whole numbers from 1 to {width}.")
        if len(set(self.omega)) != len(self.omega):
            raise BudgetError("omega must not repeat itself.")
        for index, item in enumerate(self.conditionals):
            if any(parent not in order[:index] for parent in item.parents):
                raise BudgetError(
                    f"A parent of {item.column!r} comes after it: the network would have a cycle."
                )

    @property
    def order(self) -> tuple[str, ...]:
        """The resampling order."""
        return tuple(item.column for item in self.conditionals)

    @property
    def seed_free(self) -> bool:
        """Whether every column is always resampled, so that no seed matters."""
        return self.omega == (len(self.domain),)

    @property
    def words_per_record(self) -> int:
        """One word per column and one for the number of columns to keep."""
        return len(self.domain) + 1

    @cached_property
    def _positions(self) -> Ints:
        return np.array([self.domain.index(name) for name in self.order], dtype=np.int64)

    @cached_property
    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything the kernels read, in flat arrays."""
        at = {name: index for index, name in enumerate(self.order)}
        cumulative, starts, parent_start, parents, bucket_start, buckets, strides = (
            [],
            [0],
            [0],
            [],
            [],
            [],
            [],
        )
        filled = 0
        for item in self.conditionals:
            whole = _whole_numbers(item.table)
            cumulative.append(np.cumsum(whole, axis=1).ravel())
            starts.append(starts[-1] + whole.size)
            stride = 1
            steps: list[int] = []
            for size in reversed(item.table.shape[:-1]):
                steps.append(stride)
                stride *= size
            strides += steps[::-1]
            for parent, groups in zip(item.parents, item.buckets, strict=True):
                parents.append(at[parent])
                bucket_start.append(filled)
                buckets.append(np.asarray(groups, dtype=np.int64))
                filled += len(groups)
            parent_start.append(len(parents))
        flat = np.concatenate(cumulative)
        sizes = np.array([item.table.shape[-1] for item in self.conditionals], dtype=np.int64)
        first = np.concatenate(
            [np.arange(a, b, size) for a, b, size in zip(starts, starts[1:], sizes, strict=False)]
        )
        shares = np.diff(flat, prepend=0)
        shares[first] = flat[first]
        with np.errstate(divide="ignore"):
            logs = np.log(shares.astype(np.float64)) - math.log(_ONE)
        return {
            "sizes": sizes,
            "table_start": np.array(starts[:-1], dtype=np.int64),
            "cumulative": flat,
            "logs": logs,
            "parent_start": np.array(parent_start, dtype=np.int64),
            "parents": np.array(parents, dtype=np.int64),
            "bucket_start": np.array(bucket_start, dtype=np.int64),
            "buckets": np.concatenate(buckets) if buckets else np.zeros(0, dtype=np.int64),
            "strides": np.array(strides, dtype=np.int64),
        }

    @cached_property
    def _allowed(self) -> npt.NDArray[np.float64]:
        """Log chance of keeping exactly 0, 1, ... columns."""
        width = len(self.domain)
        allowed = np.full(width + 1, -np.inf)
        allowed[[width - value for value in self.omega]] = -math.log(len(self.omega))
        return allowed

    def _network(self, *, logs: bool) -> tuple[npt.NDArray[Any], ...]:
        a = self._arrays
        table = a["logs"] if logs else a["cumulative"]
        rest = (a["parent_start"], a["parents"], a["bucket_start"], a["buckets"], a["strides"])
        return (a["sizes"], a["table_start"], table, *rest)

    def propose(self, seeds: Ints, words: Words) -> Ints:
        """Return one candidate per seed; the number of kept columns is drawn for each."""
        kept = np.array([len(self.domain) - value for value in self.omega], dtype=np.int64)
        # a word times a small number of choices: the bias is below 2**-50 and independent of the seed
        choice = (words[:, -1] >> np.uint64(11)).astype(np.float64) * (len(kept) / _ONE)
        return self._resampled(seeds, kept[choice.astype(np.int64)], words)

    def free(self, words: Words) -> Ints:
        """Draw all columns from the network."""
        nothing = np.zeros((len(words), len(self.domain)), dtype=np.int64)
        return self._resampled(nothing, np.zeros(len(words), dtype=np.int64), words)

    def _resampled(self, seeds: Ints, kept: Ints, words: Words) -> Ints:

        from understudy.mechanisms.deniability.kernels import propose

        out = np.ascontiguousarray(seeds[:, self._positions], dtype=np.int64)
        propose(out, kept, words, *self._network(logs=False))
        return self._in_domain_order(out)

    def _in_domain_order(self, codes: Ints) -> Ints:
        result = np.empty_like(codes)
        result[:, self._positions] = codes
        return result

    def index(self, types: Ints, counts: Ints) -> Ints:
        """Sort the seeds as words of a dictionary, in resampling order: ``[columns, seeds]``."""
        ordered = np.repeat(types[:, self._positions], counts, axis=0)
        rows = np.lexsort(ordered.T[::-1])
        return np.ascontiguousarray(ordered[rows].T, dtype=np.int64)

    def plausible(self, candidates: Ints, seeds: Ints, types: Ints, counts: Ints, gamma: float) -> Ints:
        """Count the plausible seeds of each candidate exactly, by agreeing prefixes."""
        return self.plausible_in(self.index(types, counts), candidates, seeds, gamma)

    def plausible_in(self, index: Ints, candidates: Ints, seeds: Ints, gamma: float) -> Ints:
        """Count the plausible seeds with an index made before by :meth:`index`."""

        from understudy.mechanisms.deniability.kernels import plausible

        found: Ints = plausible(
            np.ascontiguousarray(candidates[:, self._positions], dtype=np.int64),
            np.ascontiguousarray(seeds[:, self._positions], dtype=np.int64),
            index,
            self._allowed,
            math.log(gamma),
            *self._network(logs=True),
        )
        return found

    def probability(self, candidate: Ints, seeds: Ints) -> npt.NDArray[np.float64]:
        """Return the probability of one candidate under each seed, plainly: the referee of the fast path."""
        y = np.asarray(candidate)
        factors = np.empty(len(self.domain))
        for index, item in enumerate(self.conditionals):
            groups = tuple(
                int(bucket[y[self.domain.index(parent)]])
                for parent, bucket in zip(item.parents, item.buckets, strict=True)
            )
            factors[index] = item.table[groups][y[self.domain.index(item.column)]]
        tails = np.append(np.cumprod(factors[::-1])[::-1], 1.0)
        agree = (seeds[:, self._positions] == y[self._positions]).cumprod(axis=1).sum(axis=1)
        chance = np.zeros(len(seeds))
        for value in self.omega:
            kept = len(self.domain) - value
            chance += np.where(agree >= kept, tails[kept] / len(self.omega), 0.0)
        return chance


def scan_plausible(
    probability: Any, candidates: Ints, seeds: Ints, types: Ints, counts: Ints, gamma: float
) -> Ints:
    """Count plausible seeds by asking for the probability of every distinct seed: any model, no speed.

    ``probability(candidate, seeds)`` returns one probability per seed.
    """
    found = np.zeros(len(candidates), dtype=np.int64)
    for index, (y, seed) in enumerate(zip(candidates, seeds, strict=True)):
        own = classes_of(probability(y, seed[None, :]), gamma)[0]
        if own >= 0:
            found[index] = int(counts[classes_of(probability(y, types), gamma) == own].sum())
    return found


def _whole_numbers(table: npt.NDArray[np.float64]) -> Ints:
    """Return each row of probabilities as whole numbers that add up to ``2**53``."""
    rows = np.maximum(np.asarray(table, dtype=np.float64).reshape(-1, table.shape[-1]), 0.0)
    totals = rows.sum(axis=1, keepdims=True)
    rows = np.where(totals > 0, rows / np.where(totals > 0, totals, 1.0), 1.0 / rows.shape[1])
    whole: Ints = np.floor(rows * (_ONE - rows.shape[1])).astype(np.int64)
    whole[np.arange(len(whole)), rows.argmax(axis=1)] += _ONE - whole.sum(axis=1)
    return whole


def omega_range(omega: int | Sequence[int] | None, width: int) -> tuple[int, ...]:
    """Read the option ``omega``: a number, a pair (first, last), or ``None`` for all columns.

    Examples
    --------
    >>> omega_range((5, 7), 11), omega_range(None, 3)
    ((5, 6, 7), (3,))
    """
    if omega is None:
        return (width,)
    if isinstance(omega, int):
        values: tuple[int, ...] = (omega,)
    else:
        ends = [int(value) for value in omega]
        if len(ends) != 2 or ends[0] > ends[1]:
            raise BudgetError("omega must be a whole number or a pair (first, last).")
        values = tuple(range(ends[0], ends[1] + 1))
    if any(not 1 <= value <= width for value in values):
        raise BudgetError(f"omega must lie between 1 and the number of columns ({width}).")
    return values


# ----------------------------------------------------------------------------------------
# Privacy Test 1 of paper Deniability: deterministic, for analysis only.


def plausibly_deniable(
    model: SeedModel, candidates: Ints, seeds: Ints, *, table: Ints, k: int, gamma: float
) -> npt.NDArray[np.bool_]:
    """Say which candidates pass Privacy Test 1: at least ``k`` records could have been the seed.

    Parameters
    ----------
    model
        The generator. It is asked for the number of plausible seeds only.
    candidates, seeds
        One generated record per row, and the record it grew from.
    table
        All records that may serve as seeds, one per row, the true seeds among them.
    k, gamma
        How many plausible seeds are wanted, the true one included, and the width of a class.

    Returns
    -------
    array of bool
        Where it is true, ``k`` records of ``table`` generate the candidate with probabilities within a
        factor ``gamma`` of each other: ``(k, gamma)``-plausible deniability.

    Privacy
    -------
    In: private. Out: **private**. The test is deterministic, so the answer is not differentially private: with
    exactly ``k`` plausible seeds, taking one of them away turns a record that may come out into one that
    cannot. The curator therefore never releases by it and no ledger can be charged for it; it takes arrays,
    not a curator, and is meant for public tables and for studying the generator. Releases use the
    randomised test, :class:`~understudy.mechanisms.deniability.bounds.SeedTest`.

    Examples
    --------
    >>> from understudy.mechanisms.deniability.network import Conditional, NetworkSeedModel
    >>> from understudy.schema import Domain
    >>> a = Conditional("a", (), (), np.array([0.5, 0.5]))
    >>> b = Conditional("b", ("a",), (np.array([0, 1]),), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> model = NetworkSeedModel(Domain(("a", "b"), (2, 2)), (a, b), omega=(1,))
    >>> table = np.array([[0, 0], [0, 1], [1, 1]])
    >>> plausibly_deniable(model, np.array([[0, 1], [1, 0]]), table[[0, 2]], table=table, k=2, gamma=4.0)
    array([ True, False])
    """
    if k < 1 or not gamma > 1:
        raise BudgetError(f"Privacy Test 1 needs k of at least 1 and gamma above 1; got {k} and {gamma}.")
    types, counts = np.unique(np.asarray(table, dtype=np.int64), axis=0, return_counts=True)
    found = model.plausible(
        np.asarray(candidates, dtype=np.int64),
        np.asarray(seeds, dtype=np.int64),
        types,
        counts.astype(np.int64),
        gamma,
    )
    passed: npt.NDArray[np.bool_] = found >= k
    return passed
