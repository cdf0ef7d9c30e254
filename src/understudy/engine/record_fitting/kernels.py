"""Compiled loops of record fitting. Nothing here is public; see :mod:`understudy.engine.record_fitting.records`.

Every quantity that steers the search is an integer, so plain descent is reproducible to the last bit and
the books cannot drift. A *residual* is ``count - target`` of one cell in units of ``1 / unit`` record. Each
marginal is stored once as exact residuals and once per member column as *near* residuals, laid out so that
the codes of that column are neighbours in memory: all values a record could take in a column are scored by
reading one short row per marginal. With the L1 norm near residuals are clipped to one record, which is all
the norm can see of a move of one record, and fit in a byte.

Half the change of cost when a record moves from one cell to another is, summed over marginals,
``unit + kept(new) - kept(old)``, where ``kept`` is the residual itself (L2, in units of ``2 / unit``) or its
negative part at the new cell and its positive part at the old one (L1).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled, inner

Array = npt.NDArray[Any]
Int = Any  # a Python or NumPy integer: compiled code makes no difference

BLOCKED_L1 = 2**30
BLOCKED_L2 = 2**61
"""Scores of a value a record may not take; above any real score, because weights are scaled to that end."""

RESTS = 10
"""Sweeps a record sits out in a column when its best offer there was as bad as an L1 offer can be, halved."""


class Plan(NamedTuple):
    """Where the marginals of each column lie: E entries (column, marginal), C marginals of up to A columns."""

    first: Array  # [d + 1] entries of column j are first[j] .. first[j + 1]
    marginal: Array  # [E] which marginal
    place: Array  # [E] position of the column inside it
    base: Array  # [E] start of the layout in which the column is the last axis
    other: Array  # [E, A - 1] the other columns, padded with column 0
    stride: Array  # [E, A - 1] their strides in that layout, padded with 0
    weight: Array  # [E] integer weight of the marginal
    arity: Array  # [C]
    columns: Array  # [C, A] padded with column 0
    strides: Array  # [C, A] strides of the exact residuals, padded with 0
    start: Array  # [C] start of the exact residuals
    layout_start: Array  # [C, A] start of the layout of each member column
    layout_stride: Array  # [C, A, A] strides of that layout, padded with 0


class Rules(NamedTuple):
    """Constraints, indexed like the layouts of a plan: ``allowed`` holds rows over the values of a column."""

    first: Array
    base: Array
    other: Array
    stride: Array
    allowed: Array


class Books(NamedTuple):
    """Everything the loops read and keep up to date, apart from the records."""

    plan: Plan
    rules: Rules
    residual: Array  # int32, exact
    near: Array  # int8 (L1) or int32 (L2), one layout per entry
    bases: Array  # scratch: start of the row of each entry
    random: Array  # state of the generator
    unit: int
    squared: bool


@inner()
def draw(state: Array) -> Int:
    """Return the next 64 bits of a SplitMix64 stream."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled()
def draw_below(state: Array, bound: Int) -> Int:
    """Return an integer below ``bound``; the bias, under ``bound / 2**64``, does not matter here."""
    return np.int64(draw(state) % np.uint64(bound))


@compiled()
def shuffle(order: Array, state: Array) -> None:
    """Permute an index array in place (Fisher and Yates)."""
    for i in range(order.size - 1, 0, -1):
        k = draw_below(state, i + 1)
        order[i], order[k] = order[k], order[i]


@compiled()
def settle(target: Array, unit: int, residual: Array) -> None:
    """Start the residuals of one marginal at minus its target, rounded to the unit."""
    for k in range(target.size):
        residual[k] = -np.int64(math.floor(target[k] * unit + 0.5))


@compiled()
def tally(codes: Array, columns: Array, strides: Array, unit: int, residual: Array) -> None:
    """Add every record to the cells of one marginal."""
    for i in range(codes.shape[0]):
        k = 0
        for m in range(columns.size):
            k += np.int64(codes[i, columns[m]]) * strides[m]
        residual[k] += unit


@compiled()
def recover(target: Array, unit: int, residual: Array, counts: Array) -> None:
    """Undo `settle` and `tally`: return the counts of one marginal from its residuals."""
    for k in range(target.size):
        counts[k] = (residual[k] + np.int64(math.floor(target[k] * unit + 0.5))) // unit


@compiled()
def distance(target: Array, unit: int, residual: Array, squared: bool) -> float:
    """Return the L1 or squared L2 distance of one marginal from its unrounded target."""
    total = 0.0
    for k in range(target.size):
        count = (residual[k] + np.int64(math.floor(target[k] * unit + 0.5))) / unit
        gap = abs(count - target[k])
        total += gap * gap if squared else gap
    return total


@compiled()
def spread(plan: Plan, sizes: Array, source: Array, limit: int, near: Array) -> None:
    """Copy every marginal into the layouts of its member columns, clipped to ``limit``."""
    width = plan.columns.shape[1]
    cell, at = np.empty(width, np.int64), np.empty(width, np.int64)
    for c in range(plan.arity.size):
        arity = plan.arity[c]
        cells = plan.strides[c, 0] * sizes[plan.columns[c, 0]]
        for m in range(width):
            cell[m] = 0
            at[m] = plan.layout_start[c, m]
        for k in range(plan.start[c], plan.start[c] + cells):
            value = min(max(np.int64(source[k]), -limit), limit)
            for m in range(arity):
                near[at[m]] = value
            y = arity - 1  # advance the cell like an odometer
            while y >= 0:
                cell[y] += 1
                carry = cell[y] == sizes[plan.columns[c, y]]
                step = 1 - cell[y] if carry else np.int64(1)
                for m in range(arity):
                    at[m] += step * plan.layout_stride[c, m, y]
                if not carry:
                    break
                cell[y] = 0
                y -= 1


@inner(error_model="numpy")
def move(record: Array, column: Int, value: Int, books: Books) -> None:
    """Give a record another value in one column and bring all residuals up to date."""
    plan, residual, near, unit = books.plan, books.residual, books.near, books.unit
    columns, strides, turned = plan.columns, plan.strides, plan.layout_stride
    limit = np.int64(2**62) if books.squared else np.int64(unit)
    step = value - np.int64(record[column])
    width = columns.shape[1]
    cell = np.empty(width, np.int64)
    for e in range(plan.first[column], plan.first[column + 1]):
        c, place = plan.marginal[e], plan.place[e]
        old = plan.start[c]
        for m in range(width):  # padded columns have stride zero
            cell[m] = np.int64(record[np.uint64(columns[c, m])])
            old += cell[m] * strides[c, m]
        new = old + step * strides[c, place]
        left, joined = np.int64(residual[np.uint64(old)]), np.int64(residual[np.uint64(new)])
        residual[np.uint64(old)] = left - unit
        residual[np.uint64(new)] = joined + unit
        leaves = left > -limit and left - unit < limit  # does its clipped value change?
        joins = joined < limit and joined + unit > -limit
        if leaves or joins:
            for m in range(plan.arity[c]):
                k = plan.layout_start[c, m]
                for y in range(width):
                    k += cell[y] * turned[c, m, y]
                if leaves:
                    near[np.uint64(k)] = max(left - unit, -limit)
                if joins:
                    near[np.uint64(k + step * turned[c, m, place])] = min(joined + unit, limit)
    record[column] = value


@inner(error_model="numpy")
def score_values(record: Array, column: Int, books: Books, score: Array) -> Int:
    """Fill ``score`` with what each value of a column would add; return what the present value holds.

    Half the change of cost of taking value ``b`` is ``unit * weights + score[b] - held``.
    The present value and values that break a constraint are blocked.
    """
    plan, rules, near, squared = books.plan, books.rules, books.near, books.squared
    size, here = score.size, np.int64(record[column])
    low, high = plan.first[column], plan.first[column + 1]
    other, stride, weight = plan.other[low:high], plan.stride[low:high], plan.weight[low:high]
    count = high - low
    at = books.bases[:count]
    for e in range(count):
        at[e] = plan.base[low + e]
    for m in range(other.shape[1]):
        for e in range(count):
            at[e] += np.int64(record[other[e, m]]) * stride[e, m]
    held = np.int64(0)
    for e in range(count):  # these independent reads also bring the rows into the cache
        value = np.int64(near[np.uint64(at[e] + here)])
        held += weight[e] * (value if squared else max(value, 0))
    for b in range(size):
        score[b] = 0
    if squared:
        for e in range(count):
            row, w = near[at[e] : at[e] + size], weight[e]
            for b in range(size):
                score[b] += np.int64(row[b]) * w
    else:
        zero = np.int8(0)
        e = 0
        while e + 3 < count:  # four rows at a time: the scores are read and written a quarter as often
            r0, w0 = near[at[e] : at[e] + size], weight[e]
            r1, w1 = near[at[e + 1] : at[e + 1] + size], weight[e + 1]
            r2, w2 = near[at[e + 2] : at[e + 2] + size], weight[e + 2]
            r3, w3 = near[at[e + 3] : at[e + 3] + size], weight[e + 3]
            for b in range(size):
                score[b] += (
                    np.int32(min(r0[b], zero)) * w0
                    + np.int32(min(r1[b], zero)) * w1
                    + np.int32(min(r2[b], zero)) * w2
                    + np.int32(min(r3[b], zero)) * w3
                )
            e += 4
        while e < count:
            row, w = near[at[e] : at[e] + size], weight[e]
            for b in range(size):
                score[b] += np.int32(min(row[b], zero)) * w
            e += 1
    blocked = np.int64(BLOCKED_L2) if squared else np.int64(BLOCKED_L1)
    score[here] = blocked
    for e in range(rules.first[column], rules.first[column + 1]):
        base = rules.base[e]
        for m in range(rules.other.shape[1]):
            base += np.int64(record[rules.other[e, m]]) * rules.stride[e, m]
        for b in range(size):
            if not rules.allowed[base + b]:
                score[b] = blocked
    return held


@inner()
def clashes(record: Array, column: Int, rules: Rules) -> bool:
    """Say whether the record breaks a constraint that involves the column."""
    for e in range(rules.first[column], rules.first[column + 1]):
        k = rules.base[e] + np.int64(record[column])
        for m in range(rules.other.shape[1]):
            k += np.int64(record[rules.other[e, m]]) * rules.stride[e, m]
        if not rules.allowed[k]:
            return True
    return False


@compiled()
def visit_column(
    codes: Array, column: Int, rest: Array, heat: float, books: Books, score: Array
) -> tuple[Int, Int, Int]:
    """Offer each record in turn its best other value in one column.

    Returns the number of records examined, the number moved, and half the change of cost. A record far from
    wanting to move rests: it is passed over in the next sweeps, the longer the worse its best offer was. With
    ``heat`` above zero an offer may cost up to an exponential variable of that mean; otherwise only
    strictly better offers are taken.
    """
    weight = books.plan.weight[books.plan.first[column] : books.plan.first[column + 1]]
    full = np.int64(0)
    for e in range(weight.size):
        full += np.int64(weight[e]) * books.unit
    blocked = np.int64(BLOCKED_L2) if books.squared else np.int64(BLOCKED_L1)
    tried, moved, change = 0, 0, np.int64(0)
    for i in range(codes.shape[0]):
        if rest[i] > 0:
            rest[i] -= 1
            continue
        tried += 1
        record = codes[i]
        held = score_values(record, column, books, score)
        best = np.int64(score[0])
        for b in range(score.size):
            best = min(best, np.int64(score[b]))
        if best >= blocked:
            continue
        half = full + best - held
        bar = -0.5
        if heat > 0.0:
            uniform = (np.float64(draw(books.random) >> np.uint64(11)) + 0.5) / 9007199254740992.0
            bar = -math.log(uniform) * heat
        if half > bar:
            rest[i] = min(np.int64(255), half * RESTS // full)
            continue
        b = draw_below(books.random, score.size)  # ties are broken at random
        while score[b] != best:
            b += 1
            if b == score.size:
                b = 0
        move(record, column, b, books)
        moved += 1
        change += half
    return tried, moved, change


@compiled()
def repair(
    codes: Array, rows: Array, columns: Array, donors: Array, sizes: Array, books: Books, scores: Array
) -> None:
    """Move records that break a constraint: cheapest single values first, then the block of a donor."""
    blocked = np.int64(BLOCKED_L2) if books.squared else np.int64(BLOCKED_L1)
    for t in range(rows.size):
        record = codes[rows[t]]
        broken = True
        while broken:
            broken = False
            cheapest, where, value = blocked, np.int64(-1), np.int64(-1)
            for j in columns:
                if clashes(record, j, books.rules):
                    broken = True
                    score = scores[: sizes[j]]
                    held = score_values(record, j, books, score)
                    for b in range(score.size):
                        if score[b] < blocked and score[b] - held < cheapest:
                            cheapest, where, value = score[b] - held, j, np.int64(b)
            if where < 0:
                break
            move(record, where, value, books)
        if broken and donors.shape[0] > 0:
            donor = donors[draw_below(books.random, donors.shape[0])]
            for j in columns:
                move(record, j, np.int64(donor[j]), books)


@compiled()
def restore(codes: Array, saved: Array, books: Books) -> None:
    """Move every record back to where it was."""
    for i in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            if codes[i, j] != saved[i, j]:
                move(codes[i], j, np.int64(saved[i, j]), books)
