"""Proved primitives of paper Deniability: parts of a table, entropies, lazily drawn counts, seed-based records.

Synthesizers never hold seeds. They say what they want, the ledger is charged for all of it in one entry, and
only then are the records split, counted or used as seeds.

**Parts.** With shares ``(p_1, p_2, ...)`` every row goes to one part, by an independent draw of the curator's
generator. *Adding or removing a row*: give all other rows the same part in both tables. Then exactly one part
differs, by one row, whatever part that is, and the law of the output is the same mixture over assignments on
both sides. Acts on equal parts cost nothing, so the whole costs as much as the dearest part: a
:class:`~understudy.privacy.events.Parallel` event. *Replacing a row*: the new row may take over the part of the old one
(the draws are independent of what the rows hold), so again a single part differs. The recorded meaning of a
``Parallel`` event is more cautious, it pays for two parts, and the ledger charges that.

**Subsampling.** A row in a part that is used by an ``e``-DP act with probability ``p`` only is protected by
``ln(1 + p (e^e - 1))``, which is at least ``p e``. Leaving rows out to gain that factor costs as much signal as it
saves noise, so nothing here relies on it: rows are used, or not asked for.

**Whole table.** A single part with share 1 is the table itself. Two acts on halves with the whole budget and two
acts on the whole table with half the (pure) budget have the same ratio of noise to rows; under Gaussian
accounting the second is better by the square root of two, and it has no sampling error.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Sealed, hide_errors, to_float
from understudy.curator.curator import count_grouped
from understudy.curator.sealed import ENTROPY_WIDTH, entropy_of, entropy_sensitivity
from understudy.data import LocalTable, Table
from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.mechanisms.deniability.bounds import SeedTest, require_single_rows
from understudy.mechanisms.deniability.network import Conditional, Ints, NetworkSeedModel
from understudy.privacy import Event, Laplace, Noise, Unit
from understudy.privacy.events import ApproxEvent, Composed, Parallel
from understudy.privacy.noise.randomness import Randomness, below_many
from understudy.privacy.own import own, own_noise

# ----------------------------------------------------------------------------------------
# Conditional tables too large to hold: noisy rows on demand, from a keyed pseudo-random function.

Groups = Mapping[str, npt.ArrayLike]
Floats = npt.NDArray[np.float64]


class LazyCounts:
    """Noisy rows of one conditional table, each drawn when first asked for and the same ever after.

    The noise of a row comes from a keyed hash of the row's number, so that rows need neither be stored
    nor drawn in any order, and two copies agree. The key is drawn from the curator's generator, never
    leaves the process and is not shown.

    Privacy
    -------
    All rows together are one marginal with independent noise, which was paid for as a whole; rows shown on
    demand are a post-processing of it. That holds for noise from a keyed pseudo-random function against
    everybody who cannot tell it from chance. With a hash of the row's number alone, as published, anybody
    could compute the noise and subtract it.
    """

    def __init__(self, table: Table, columns: Groups, target: str, noise: Noise, key: bytes) -> None:
        domain = table.schema.domain
        self._target, self._noise, self._key = target, noise, key
        self._parents = [name for name in domain.canonical(columns) if name != target]
        groups = {name: np.asarray(which, dtype=np.int64) for name, which in columns.items()}
        self._size = int(groups[target].max()) + 1
        self.shape = tuple(int(groups[name].max()) + 1 for name in self._parents)
        rows: list[Ints] = []
        values: list[Ints] = []
        for chunk in table.chunks(tuple(domain.canonical(columns))):
            row = np.zeros(len(chunk[target]), dtype=np.int64)
            for name, size in zip(self._parents, self.shape, strict=True):
                row = row * size + groups[name][chunk[name]]
            rows.append(row)
            values.append(groups[target][chunk[target]])
        joined = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        order = np.argsort(joined, kind="stable")
        self._rows = joined[order]
        self._values = (np.concatenate(values) if values else np.zeros(0, np.int64))[order]

    def __repr__(self) -> str:
        return f"LazyCounts({self._target!r} given {len(self._parents)} columns)"

    def __reduce__(self) -> str:
        raise TypeError("Lazily drawn counts hold a secret key and records; they stay in their process.")

    @hide_errors
    def row(self, groups: Sequence[int]) -> Floats:
        """Return the noisy counts of the target for one combination of the parents' groups."""
        if len(groups) != len(self.shape) or any(
            not 0 <= g < size for g, size in zip(groups, self.shape, strict=False)
        ):
            raise BudgetError("There is no such combination of groups.")
        number = int(np.ravel_multi_index(tuple(groups), self.shape)) if self.shape else 0
        low, high = np.searchsorted(self._rows, [number, number + 1])
        exact = np.bincount(self._values[low:high], minlength=self._size)
        noise = self._noise.draw((self._size,), _Keyed(self._key, number))
        return (exact + noise).astype(np.float64)


class _Keyed:
    """A stream of bytes that is a pseudo-random function of a secret key and a public number."""

    def __init__(self, key: bytes, number: int) -> None:
        self._seed = hashlib.blake2b(number.to_bytes(16, "little"), key=key, digest_size=32).digest()
        self._calls = 0

    def bytes(self, n: int) -> bytes:
        """Return the next bytes."""
        self._calls += 1
        return hashlib.shake_256(self._seed + self._calls.to_bytes(8, "little")).digest(n)

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        """Return the next 64-bit words."""
        return np.frombuffer(self.bytes(8 * n), dtype="<u8").astype(np.uint64)


# ----------------------------------------------------------------------------------------
# Candidates from seeds and Privacy Test 2, record by record. Private: only a release holds this.


class Seeds:
    """The seeds during one release. Private; lives inside :meth:`Part.release` only.

    Privacy
    -------
    In: private. Out: records, at the cost of the event of :meth:`Part.release`. Each has the same number of attempts. An attempt draws
    a slot, of which there are at least ``min_seeds``, a candidate from its seed, and passes if the exact number of plausible
    seeds reaches ``k`` plus Laplace noise of its own; with probability ``floor``, or if no attempt passes, the record comes from the
    network alone. What :mod:`understudy.mechanisms.deniability.bounds` proves is the law of this procedure.
    """

    def __init__(self, table: Table, model: NetworkSeedModel, test: SeedTest, randomness: Randomness) -> None:
        names = table.schema.domain.names
        codes = [np.stack([chunk[name] for name in names], axis=1) for chunk in table.chunks()]
        self._seeds: Ints = (
            np.concatenate(codes).astype(np.int64) if codes else np.zeros((0, len(names)), np.int64)
        )
        self._model, self._test, self._randomness = model, test, randomness
        self._slots = max(len(self._seeds), test.min_seeds)
        examined = self._seeds
        if test.max_check is not None and test.max_check < len(examined):
            # the rows with the smallest random priorities: a new row displaces at most one of them
            priority = np.argsort(randomness.words(len(examined)), kind="stable")
            examined = examined[priority[: test.max_check]]
        types, counts = np.unique(examined, axis=0, return_counts=True)
        self._index = model.index(types, counts)

    def batch(self, records: int, floor: float) -> Ints:
        """Return records, each with its fixed number of attempts."""
        result = self._model.free(self._words(records))
        open_ = self._randomness.words(records) >= np.uint64(min(2**64 - 1, math.ceil(floor * 2.0**64)))
        for _ in range(self._test.attempts):
            candidate, passed = self.attempt(records)
            taken = open_ & passed
            result[taken] = candidate[taken]
            open_ &= ~passed
        return result

    def attempt(self, records: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return one candidate per record and whether it passes Privacy Test 2."""
        slot = below_many(self._slots, records, self._randomness)
        filled = slot < len(self._seeds)
        seeds = (
            self._seeds[np.where(filled, slot, 0)]
            if len(self._seeds)
            else np.zeros((records, self._seeds.shape[1]), np.int64)
        )
        candidates = self._model.propose(seeds, self._words(records))
        counts = self.plausible(candidates, seeds)
        if self._test.max_plausible is not None:
            counts = np.minimum(counts, self._test.max_plausible)
        noise = Laplace(1 / self._test.epsilon0).draw((records,), self._randomness)
        return candidates, filled & (counts >= self._test.k + noise)

    def plausible(self, candidates: Ints, seeds: Ints) -> Ints:
        """Return the exact number of plausible seeds of each candidate."""
        return self._model.plausible_in(self._index, candidates, seeds, self._test.gamma)

    def _words(self, records: int) -> npt.NDArray[np.uint64]:
        width = self._model.words_per_record
        return self._randomness.words(records * width).reshape(records, width)


_STEPS = 1 << 20
"""A sealed number is rounded to this share of its sensitivity before whole-number noise is added."""

_BATCH = 1 << 15


def entropy_event(noise: Noise) -> Event:
    """Say what one entropy costs; ``noise`` has the scale in units of the entropy's sensitivity."""
    return _on_grid(noise).event(l1=_STEPS + 1, l2=_STEPS + 1)


def _on_grid(noise: Noise) -> Noise:
    return type(noise)(noise.scale * _STEPS)


def rows_event(unit: Unit, noise: Noise) -> Event:
    """Say what the number of rows costs with this noise."""
    return noise.event(l1=unit.max_rows, l2=unit.max_rows)


def counts_event(unit: Unit, noise: Noise) -> Event:
    """Say what the marginal of several columns costs with this noise."""
    return noise.event(l1=unit.histogram_l1, l2=unit.histogram_l2)


def moments_event(unit: Unit, noise: Noise) -> Event:
    """Say what the moments of a column cost; ``noise`` has the scale in rows."""
    root = math.sqrt(3) * (1 + 2.0**-50)
    return _on_grid(noise).event(l1=3 * unit.histogram_l1 * _STEPS, l2=root * unit.histogram_l2 * _STEPS)


def records_event(test: SeedTest, *, unit: Unit, records: int, delta: float) -> ApproxEvent:
    """Say what a number of seed-based records costs together, or refuse parameters without a guarantee."""
    require_single_rows(unit.max_rows)
    epsilon = test.composed(records, relation=unit.relation, delta=delta)
    if math.isinf(epsilon):
        raise NoSuchGuarantee(
            f"{records} seed-based records with k={test.k}, gamma={test.gamma:g} and epsilon0={test.epsilon0:g} "
            f"reveal their seeds with a probability above delta={delta:.3g}. Raise k or epsilon0, or release fewer."
        )
    return ApproxEvent(epsilon, delta)


class Part(Sealed):
    """Some rows of the table and what was paid for looking at them. Holds records, so it can be neither copied nor shown.

    Every method uses up one of the events that were charged when the part was made; an act that was not
    paid for is refused before anything is counted.

    Privacy
    -------
    In: private. Out: what each method releases, as charged by :func:`open_parts`. A method says which event covers it, takes that
    event from those that were paid for, and only then counts and draws.
    """

    __slots__ = ("_prepaid", "_randomness", "_rows_fixed", "_table", "_unit")

    def __init__(
        self,
        table: Table,
        unit: Unit,
        randomness: Randomness,
        prepaid: Sequence[Event],
        *,
        rows_fixed: bool,
    ) -> None:
        self._table = table
        self._rows_fixed = rows_fixed
        self._unit = unit
        self._randomness = randomness
        self._prepaid = Counter(prepaid)

    def __repr__(self) -> str:
        return f"Part({sum(self._prepaid.values())} acts paid for)"

    @property
    @hide_errors
    def known_rows(self) -> int | None:
        """The number of rows where it is no secret: single rows under replacement, none left out by value.

        A replaced row stays in its part (see the module), so the size of a part does not depend on what
        the rows hold, unless cleaning leaves some of them out.
        """
        return self._table.exact_row_count() if self._rows_fixed else None

    def _use(self, event: Event) -> None:
        if self._prepaid[event] < 1:
            raise BudgetError("This look at the records was not paid for when the table was opened.")
        self._prepaid[event] -= 1

    @hide_errors
    def row_count(self, noise: Noise) -> int:
        """Measure the number of rows.

        Privacy
        -------
        In: private. Out: releasable. One unit changes it by at most its number of rows, whether added, removed or
        replaced by up to as many; :func:`rows_event` charges that.
        """
        noise = own_noise(noise)
        self._use(rows_event(self._unit, noise))
        return self._table.exact_row_count() + int(noise.draw((), self._randomness))

    @hide_errors
    def entropies(self, wanted: Sequence[Groups], *, noise: Noise, at_least: int) -> list[float]:
        """Measure entropies, in nats, of marginals over public groups of codes.

        Parameters
        ----------
        wanted
            For each entropy the columns it is about, with the group of each code.
        noise
            Scale in units of the sensitivity, which depends on ``at_least``.
        at_least
            A public number of rows (declared, or measured with noise before). Only a part with fewer rows
            is touched by it: imaginary rows in a cell of their own fill it up to this number.

        Privacy
        -------
        In: private. Out: releasable. Filled up, every table has at least ``N = at_least`` rows. While it has
        fewer real ones, a new row takes the place of an imaginary one: a replacement among ``N``, which moves
        the entropy by at most ``h(1/N)``. Beyond, it is an addition to at least ``N`` rows.
        :func:`~understudy.curator.sealed.entropy_sensitivity` covers both (it looks from ``N - 1`` rows up).
        This repairs the paper's use of a noisy number of rows inside the sensitivity, which is wrong whenever
        the noise made that number too large. Twice what an entropy is off as computed is part of its sensitivity
        (:func:`~understudy.curator.sealed.entropy_of`). It is rounded, once, to ``2**-20`` of that, so two of them differ by at most ``2**20 + 1``
        steps, which :func:`entropy_event` charges.
        """
        at_least = int(at_least)
        if at_least < 1:
            raise BudgetError(f"at_least ({at_least}) must be at least 1.")
        wanted, noise = list(wanted), own_noise(noise)
        event = entropy_event(noise)
        for _ in wanted:
            self._use(event)
        results = []
        on_grid = _on_grid(noise)
        known = self.known_rows
        for (_, exact), drawn in zip(
            count_grouped(self._table, wanted), on_grid.draw((len(wanted),), self._randomness), strict=True
        ):
            cells = exact.size + (known is None)
            rows = at_least if known is None else known
            sensitivity = entropy_sensitivity(self._unit, cells=cells, known_rows=rows)
            if sensitivity == 0:
                results.append(0.0)
                continue
            missing = max(0, at_least - int(exact.sum())) if known is None else 0
            step = Fraction(sensitivity + 2 * ENTROPY_WIDTH) / _STEPS
            place = round(Fraction(entropy_of(np.append(exact, missing))) / step)
            results.append(to_float((place + int(drawn)) * step))
        return results

    @hide_errors
    def measure(self, wanted: Sequence[Groups], *, noise: Noise) -> list[Floats]:
        """Measure marginals over public groups of codes; axes in the order of the domain.

        Privacy
        -------
        In: private. Out: releasable. Each marginal is one histogram of the rows of the part over public groups: whole numbers that
        a unit moves by its ``histogram_l1`` and ``histogram_l2``, with whole-number noise, as :func:`counts_event` charges.
        """
        wanted, noise = list(wanted), own_noise(noise)
        event = counts_event(self._unit, noise)
        for _ in wanted:
            self._use(event)
        return [
            (exact + noise.draw(exact.shape, self._randomness)).astype(np.float64)
            for _, exact in count_grouped(self._table, wanted)
        ]

    @hide_errors
    def moments(self, groups: Groups, target: str, positions: npt.ArrayLike, *, noise: Noise) -> Floats:
        """Measure, per combination of groups, the number of rows and the sums of a position and its square.

        Parameters
        ----------
        groups
            Parents with the group of each code.
        target, positions
            A column and a public number in [0, 1] for each of its codes.
        noise
            Scale in rows.

        Returns
        -------
        array of shape (groups of the parents..., 3)

        Privacy
        -------
        In: private. Out: releasable. On a grid of ``2**-20`` a row adds ``(1, u, u²)``, each at most one, to one
        combination: at most 3 in L1 and the square root of 3 in L2. A unit of several rows, or a replacement,
        multiplies this as it does for a histogram. :func:`moments_event` charges that.
        """
        noise = own_noise(noise)
        self._use(moments_event(self._unit, noise))
        where = np.round(np.asarray(positions, dtype=np.float64) * _STEPS).astype(np.int64)
        if where.min() < 0 or where.max() > _STEPS:
            raise BudgetError("Positions must lie between 0 and 1.")
        squares = (where * where) >> 20
        domain = self._table.schema.domain
        parents = [name for name in domain.canonical(groups) if name != target]
        fine = {name: np.asarray(groups[name]) for name in parents} | {target: np.arange(domain.size(target))}
        ((coarse, exact),) = count_grouped(self._table, [fine])
        table = np.moveaxis(exact.reshape(coarse.shape()), coarse.index(target), -1)
        sums = np.stack([table.sum(axis=-1) * _STEPS, table @ where, table @ squares], axis=-1)
        drawn = _on_grid(noise).draw(sums.shape, self._randomness)
        return np.asarray((sums + drawn) / _STEPS, dtype=np.float64)

    @hide_errors
    def lazy_counts(self, columns: Groups, target: str, *, noise: Noise) -> LazyCounts:
        """Pay for one marginal and look only at the rows of it that are asked for; see :class:`LazyCounts`.

        Privacy
        -------
        In: private. Out: noisy rows on demand. All of them together are one histogram of the rows of the part with independent
        noise, which :func:`counts_event` covers; showing some of them is post-processing.
        """
        noise = own_noise(noise)
        self._use(counts_event(self._unit, noise))
        return LazyCounts(self._table, columns, target, noise, self._randomness.bytes(32))

    @hide_errors
    def release(self, model: NetworkSeedModel, test: SeedTest, *, records: int, event: ApproxEvent) -> Ints:
        """Release seed-based records: the generator and Privacy Test 2 of paper Deniability.

        Returns
        -------
        array of shape (records, columns)
            Codes in the order of the domain. Which of them are seed-free, how many attempts failed and how
            many seeds were plausible is not kept. Each record takes the same number of attempts.

        Privacy
        -------
        In: private. Out: releasable at the cost of ``event``; the proof is in
        :mod:`understudy.mechanisms.deniability.bounds`. It is the ``composed`` guarantee of all records together.
        The model must be public: learnt by acts that were paid for. It is handed the seeds, so it is the package's own and no other.
        """
        test, event, records = own(test, SeedTest), own(event, ApproxEvent), int(records)
        model = replace(
            own(model, NetworkSeedModel),
            domain=self._table.schema.domain,
            conditionals=tuple(own(item, Conditional) for item in model.conditionals),
        )
        if event != records_event(test, unit=self._unit, records=records, delta=event.delta):
            raise BudgetError("The event does not describe this release.")
        self._use(event)
        seeds = Seeds(self._table, model, test, self._randomness)
        floor = test.share(self._unit.relation)
        pieces = [seeds.batch(min(_BATCH, records - start), floor) for start in range(0, records, _BATCH)]
        return np.concatenate(pieces) if pieces else np.zeros((0, len(self._table.schema.domain)), np.int64)


def open_parts(
    curator: Curator, plans: Sequence[Sequence[Event]], *, shares: Sequence[float] | None, purpose: str
) -> list[Part]:
    """Charge for everything that will be done, then split the rows at random (or not at all).

    Parameters
    ----------
    plans
        For each part the events of all acts on it.
    shares
        Probability of each part; ``None`` lets every part be the whole table, and charges for all of them.
    purpose
        Public words for the ledger.

    Privacy
    -------
    See the module: disjoint random parts are charged as parallel, the whole table as a sequence.
    """
    plans = [tuple(plan) for plan in plans]
    if any(not plan for plan in plans) or not plans:
        raise BudgetError("Every part needs something to be done with it.")
    composed = [plan[0] if len(plan) == 1 else Composed(tuple(plan)) for plan in plans]
    rows_fixed = curator.rows.fixed
    if shares is None:
        curator._pay(*composed, purpose=purpose)
        tables: list[Table] = [curator._table] * len(plans)
    else:
        if len(shares) != len(plans) or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
            raise BudgetError("shares must be positive, one per part, and add up to 1.")
        curator._pay(Parallel(tuple(composed)), purpose=purpose)
        tables = _split(curator, shares)
    return [
        Part(table, curator.unit, curator._randomness, plan, rows_fixed=rows_fixed)
        for table, plan in zip(tables, plans, strict=True)
    ]


@hide_errors
def _split(curator: Curator, shares: Sequence[float]) -> list[Table]:
    """Send every row to one part, by a draw that does not look at it."""
    table, names = curator._table, curator.domain.names
    ends = np.round(np.cumsum(shares)[:-1] * 2.0**53).astype(np.uint64)
    pieces: list[list[dict[str, Any]]] = [[] for _ in shares]
    for chunk in table.chunks():
        rows = len(chunk[names[0]])
        which = np.searchsorted(ends, curator._randomness.words(rows) >> np.uint64(11), side="right")
        for index, piece in enumerate(pieces):
            chosen = np.flatnonzero(which == index)
            piece.append({name: chunk[name][chosen] for name in names})
    empty = {name: np.zeros(0, dtype=np.uint8) for name in names}
    return [
        LocalTable(
            table.schema,
            {name: np.concatenate([item[name] for item in piece] or [empty[name]]) for name in names},
        )
        for piece in pieces
    ]
