"""The books of record fitting: where each cell lies, what it still lacks, and the sweeps that fill it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.record_fitting import kernels
from understudy.engine.record_fitting.goals import Goal
from understudy.errors import DataError

Array = npt.NDArray[Any]

Ints = npt.NDArray[np.int64]

_UNIT_L1 = 127  # residuals are kept in 1/127 record, so that one record is the largest signed byte
_UNIT_L2 = 1024  # at most; halved until the largest residual fits in 32 bits
_LARGEST = 2**31 - 1
_LEVELS = 4096  # weights become integers of at most this size
_DEFAULT_PROPOSALS = 2_000_000
_SWEEPS = (4, 200)  # at least and at most, by default
_STALL = 0.005  # stop when a sweep gains less than this share of all that was gained
_ANNEALED_SWEEPS = 20  # tables small enough for this many sweeps are annealed by default
_HEAT = 0.03  # first temperature, as a share of half the largest possible change of cost


def lay_out(sizes: Ints, groups: Sequence[tuple[int, ...]], weights: Ints) -> tuple[kernels.Plan, int]:
    """Place every marginal once for exact residuals and once per member column; return also the length."""
    n, widest = len(groups), max((len(group) for group in groups), default=1)
    arity = np.array([len(group) for group in groups], dtype=np.int64)
    columns = np.zeros((n, widest), dtype=np.int64)
    for index, group in enumerate(groups):
        columns[index, : len(group)] = group
    member = np.arange(widest) < arity[:, None]
    shape = np.where(member, sizes[columns], 1)
    cells = shape.prod(axis=1)

    strides = np.zeros((n, widest), dtype=np.int64)
    layout_stride = np.zeros((n, widest, widest), dtype=np.int64)
    run = np.ones(n, dtype=np.int64)
    for y in reversed(range(widest)):
        strides[:, y] = run * member[:, y]
        run *= shape[:, y]
    for m in range(widest):
        layout_stride[:, m, m] = 1
        run = shape[:, m].copy()
        for y in reversed(range(widest)):
            if y != m:
                layout_stride[:, m, y] = run * member[:, y]
                run *= shape[:, y]

    marginal, place = np.nonzero(member)
    by_column = np.argsort(columns[marginal, place], kind="stable")
    marginal, place = marginal[by_column], place[by_column]
    ends = np.cumsum(cells[marginal])
    base = ends - cells[marginal]
    layout_start = np.zeros((n, widest), dtype=np.int64)
    layout_start[marginal, place] = base
    first = np.searchsorted(columns[marginal, place], np.arange(len(sizes) + 1))
    rest = np.array([[y for y in range(widest) if y != m] for m in range(widest)], dtype=np.int64)[place]
    plan = kernels.Plan(
        first=first.astype(np.int64),
        marginal=marginal,
        place=place,
        base=base,
        other=np.take_along_axis(columns[marginal], rest, axis=1).astype(np.uint64),
        stride=np.take_along_axis(layout_stride[marginal, place], rest, axis=1),
        weight=weights[marginal].astype(np.int32),
        arity=arity,
        columns=columns,
        strides=strides,
        start=np.cumsum(cells) - cells,
        layout_start=layout_start,
        layout_stride=layout_stride,
    )
    return plan, int(ends[-1]) if n else 0


class State:
    """Records, residuals and layouts of one fit; :meth:`sweep` improves them in place."""

    def __init__(
        self,
        codes: Array,
        sizes: Sequence[int],
        goals: Sequence[Goal],
        rules: Sequence[tuple[tuple[int, ...], npt.NDArray[np.bool_]]],
        *,
        squared: bool,
        seed: int,
        n_rows: int,
        earlier: Sequence[Array] | None,
        wanted: Callable[[int], npt.NDArray[np.float64]] | None = None,
    ) -> None:
        self.sizes = np.array(sizes, dtype=np.int64)
        self.goals, self.squared, self.n_rows, self.earlier = goals, squared, n_rows, earlier
        self.wanted = wanted
        self.given_rules = rules
        random = np.random.SeedSequence(seed % 2**64).generate_state(1, np.uint64)
        self.order = np.arange(len(codes))
        kernels.shuffle(self.order, random)
        narrow = int(self.sizes.max(initial=1)) <= 2**16
        self.codes = codes[self.order].astype(np.uint16 if narrow else np.uint32)  # visited in this order
        unit = self._choose_unit()
        plan, length = lay_out(self.sizes, [goal.columns for goal in goals], self._integer_weights())
        self.plan = plan
        residual = np.empty(sum(goal.values.size for goal in goals), dtype=np.int32)
        for c, part in enumerate(self._parts(residual)):
            kernels.settle(self._wanted(c), unit, part)
            self._tally(c, unit, part)
        near: Array = np.empty(length, dtype=np.int32 if squared else np.int8)
        kernels.spread(plan, self.sizes, residual, _LARGEST if squared else unit, near)
        self.books = kernels.Books(
            plan=plan,
            rules=self._bind(rules),
            residual=residual,
            near=near,
            bases=np.empty(int(np.diff(plan.first).max(initial=1)), dtype=np.int64),
            random=random,
            unit=unit,
            squared=squared,
        )
        self.scores = np.empty(int(self.sizes.max(initial=1)), dtype=np.int64 if squared else np.int32)
        self.rest = np.zeros((len(sizes), len(codes)), dtype=np.uint8)
        self.active = np.flatnonzero((np.diff(plan.first) > 0) & (self.sizes > 1))

    def freeze(self, columns: Sequence[int]) -> None:
        """Leave some columns as they are."""
        self.active = self.active[~np.isin(self.active, columns)]

    def _wanted(self, c: int) -> npt.NDArray[np.float64]:
        if self.wanted is not None:
            return self.wanted(c)
        return self.goals[c].counts(self.n_rows, None if self.earlier is None else self.earlier[c])

    def _parts(self, residual: Array) -> Iterator[Array]:
        start = 0
        for goal in self.goals:
            yield residual[start : start + goal.values.size]
            start += goal.values.size

    def _tally(self, c: int, unit: int, cells: Array) -> None:
        arity = self.plan.arity[c]
        kernels.tally(self.codes, self.plan.columns[c, :arity], self.plan.strides[c, :arity], unit, cells)

    def _integer_weights(self) -> Ints:
        weights = np.array([goal.weight for goal in self.goals], dtype=float)
        if len(weights) == 0 or weights.min() == weights.max():
            return np.ones(len(weights), dtype=np.int64)
        busiest = np.bincount(np.concatenate([goal.columns for goal in self.goals])).max()
        levels = max(1, min(_LEVELS, kernels.BLOCKED_L1 // (_UNIT_L1 * int(busiest)) - 1))
        scaled: Ints = np.maximum(1, np.rint(weights / weights.max() * levels)).astype(np.int64)
        return scaled

    def _choose_unit(self) -> int:
        largest = len(self.codes) + 1.0
        for c in range(len(self.goals)):
            wanted = self._wanted(c)
            largest = max(largest, len(self.codes) + 1 + max(float(wanted.max()), -float(wanted.min())))
        unit = _UNIT_L2 if self.squared else _UNIT_L1
        while self.squared and unit > 1 and largest * unit > _LARGEST:
            unit //= 2
        if largest * unit > _LARGEST:
            most = _LARGEST // (2 * unit)
            raise DataError(
                f"At most {most} records can be fitted at once. Fit them in chunks with fit_chunk."
            )
        return unit

    def _bind(self, rules: Sequence[tuple[tuple[int, ...], npt.NDArray[np.bool_]]]) -> kernels.Rules:
        plan, length = lay_out(
            self.sizes, [columns for columns, _ in rules], np.ones(len(rules), dtype=np.int64)
        )
        tables = np.concatenate([np.zeros(0), *(table.ravel() for _, table in rules)]).astype(np.int32)
        allowed = np.empty(length, dtype=np.int8)
        kernels.spread(plan, self.sizes, tables, 1, allowed)
        return kernels.Rules(plan.first, plan.base, plan.other, plan.stride, allowed)

    def error(self) -> float:
        """Return the distance from the unrounded targets, counted afresh from the residuals."""
        total, terms = 0.0, 0
        for c, part in enumerate(self._parts(self.books.residual)):
            if self.goals[c].asked:
                gap = kernels.distance(self._wanted(c), self.books.unit, part, self.squared)
                total, terms = total + self.goals[c].weight * gap, terms + 1
        if terms == 0 or self.n_rows == 0:
            return 0.0
        mean = total / terms
        return float(np.sqrt(mean) if self.squared else mean) / self.n_rows

    def records(self) -> Array:
        """Return the records in the order they came in."""
        out = np.empty_like(self.codes)
        out[self.order] = self.codes
        return out

    def counts(self) -> list[Array]:
        """Return the counts of all rows so far, earlier chunks included."""
        out = []
        for c, goal in enumerate(self.goals):
            dtype = np.int32 if self.n_rows <= _LARGEST else np.int64
            counts: Array = np.zeros(goal.values.size, dtype=dtype)
            if self.earlier is not None:
                counts[...] = self.earlier[c]
            self._tally(c, 1, counts)
            out.append(counts)
        return out

    def own_counts(self) -> list[Array]:
        """Return the counts of these records alone, read off the residuals."""
        out = []
        for c, part in enumerate(self._parts(self.books.residual)):
            counts: Array = np.empty(part.size, dtype=np.int32)
            kernels.recover(self._wanted(c), self.books.unit, part, counts)
            out.append(counts)
        return out

    def broken(self) -> Ints:
        """Return the rows that break a constraint."""
        bad = np.zeros(len(self.codes), dtype=bool)
        for columns, table in self.given_rules:
            bad |= ~table[tuple(self.codes[:, column] for column in columns)]
        return np.nonzero(bad)[0]

    def repair(self) -> int:
        """Move records that break a constraint; return how many still do."""
        rows = self.broken()
        if not len(rows):
            return 0
        columns = np.unique(np.concatenate([np.array(columns) for columns, _ in self.given_rules]))
        donors = np.delete(self.codes, rows, axis=0)
        if not len(donors):
            donors = self._invent(64)
        kernels.repair(self.codes, rows, columns, donors, self.sizes, self.books, self.scores)
        return len(self.broken())

    def _invent(self, wanted: int) -> Array:
        """Look for valid combinations of codes by filling one constraint after another."""
        found: list[Array] = []
        for _ in range(4 * wanted):
            record = np.full(len(self.sizes), -1, dtype=np.int64)
            for columns, table in self.given_rules:
                fixed = tuple(slice(None) if record[j] < 0 else record[j] for j in columns)
                free = [j for j in columns if record[j] < 0]
                options = np.argwhere(table[fixed])
                if not len(options):
                    break
                record[free] = options[kernels.draw_below(self.books.random, len(options))]
            else:
                found.append(np.maximum(record, 0))
            if len(found) == wanted:
                break
        return np.array(found, dtype=self.codes.dtype).reshape(len(found), len(self.sizes))

    def sweep(
        self, heat: float, limit: int, watch: Callable[[int], None] | None = None
    ) -> tuple[int, int, int]:
        """Visit every column of every record that does not rest; return proposals, moves, half the change.

        ``watch`` is called after each column with the proposals of this sweep.
        """
        columns = self.active.copy()
        kernels.shuffle(columns, self.books.random)
        tried = moved = change = 0
        for column in columns.tolist():
            weight = self.plan.weight[self.plan.first[column] : self.plan.first[column + 1]]
            full = float(weight.sum()) * self.books.unit
            codes, score = self.codes[: limit - tried], self.scores[: self.sizes[column]]
            one = kernels.visit_column(codes, column, self.rest[column], heat * full, self.books, score)
            tried, moved, change = tried + one[0], moved + one[1], change + one[2]
            if watch is not None:
                watch(tried)
            if tried >= limit:
                break
        return tried, moved, change

    def run(
        self,
        proposals: int | None,
        temperature: float | None,
        watch: Callable[[float], None] | None = None,
    ) -> tuple[int, int]:
        """Sweep until the proposals are used up, nothing moves, or (by default) progress stalls.

        Annealing that ends above its start, which can happen when the start is already close, is undone
        and replaced by plain descent. Returns proposals and moves. ``watch`` is called with a fraction that does not fall: of the
        proposals, or of the way from the first gain to one so small that the descent stops.
        """
        size = len(self.codes) * len(self.active)
        if size == 0 or proposals == 0:
            return 0, 0
        if proposals is None:
            sweeps = int(np.clip(_DEFAULT_PROPOSALS // size, *_SWEEPS))
        else:
            sweeps = -(-proposals // size)
        limit = sweeps * size if proposals is None else proposals
        if temperature is None:
            temperature = _HEAT if sweeps >= _ANNEALED_SWEEPS and not self.squared else 0.0
        if temperature == 0:
            return self._descend(limit, stall=_STALL if proposals is None else 0.0, watch=watch)[:2]
        saved = self.codes.copy()
        tried = moved = change = 0
        while tried < 0.9 * limit:
            self.rest[...] = 0
            done = self.sweep(temperature * (1 - tried / (0.9 * limit)), limit - tried)
            if watch is not None:
                watch(min(1.0, (tried + done[0]) / limit))
            tried, moved, change = tried + done[0], moved + done[1], change + done[2]
        self.rest[...] = 0
        end = self._descend(limit - tried, stall=0.0)
        tried, moved, change = tried + end[0], moved + end[1], change + end[2]
        if change > 0:
            kernels.restore(self.codes, saved, self.books)
            self.rest[...] = 0
            end = self._descend(limit, stall=_STALL)
            tried, moved = tried + end[0], end[1]
        return tried, moved

    def _descend(
        self, limit: int, *, stall: float, watch: Callable[[float], None] | None = None
    ) -> tuple[int, int, int]:
        """Sweep without heat until nothing moves or a sweep gains less than a share of what was gained."""
        everybody = len(self.codes) * len(self.active)
        tried = moved = change = 0
        told = 0.0

        def tell(fraction: float) -> None:
            nonlocal told
            if watch is not None:
                told = max(told, min(1.0, fraction))
                watch(told)

        while tried < limit:

            def so_far(part: int, before: int = tried) -> None:
                tell((before + part) / limit)

            done = self.sweep(0.0, limit - tried, None if watch is None else so_far)
            tried, moved, change = tried + done[0], moved + done[1], change + done[2]
            if 0 < stall < 1 and done[2] < 0:  # gains shrink by about the same factor from sweep to sweep
                tell(math.log(done[2] / change) / math.log(stall))
            if done[2] == 0:
                if done[0] == everybody:
                    break
                self.rest[...] = 0  # look at everybody before giving up
            elif done[2] > stall * change:  # both are negative
                break
        return tried, moved, change
