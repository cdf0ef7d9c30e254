"""Numba kernels of the engine. Import on first use only: Numba is slow to load.

One file on purpose: Numba's cache notices changes of the file a kernel is defined in, not of the files it calls into.

All tables of a model live in two flat arrays: ``cells`` (bags and measured marginals) and
``vectors`` (separators, ratios, log potentials, noisy values). What to do with them is written as a
*program*, a matrix of integers with one operation per row, which `execute` interprets. A new
structure is therefore a new program, never a new compilation.

A *map* says where the cells of a table go when it is summed down to some of its columns. The table
is read in blocks of consecutive cells; ``offset[o]`` is where block ``o`` starts in the smaller
table, and inside a block one of three patterns applies:

- ``CELLS``: cell ``j`` goes to ``offset[o] + table[j]``;
- ``KEPT``: runs of ``run`` cells go to ``run`` consecutive places from ``offset[o] + table[r]``;
- ``SUMMED``: runs of ``run`` cells all go to ``offset[o] + table[r]``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy._compile import compiled, inner, of_one_type

CELLS, KEPT, SUMMED = 0, 1, 2
PASS, SEPARATE, COPY, STEP, RATIO, ADD, PEAK = 0, 1, 2, 3, 4, 5, 6
EXP, MESSAGE, EVALUATE, LOAD, STORE, COMBINE = 7, 8, 9, 10, 11, 12
GAUSSIAN, LAPLACE = 0, 1
FLOOR = 1e-14

SUMS: dict[str, Any] = {"fastmath": {"reassoc", "contract"}}
"""Options of sums, whose order the compiler may change to use vector instructions."""


@inner()
def _multiply(cells, start, vectors, base, mode, run, index, table, block):  # type: ignore[no-untyped-def]
    if mode == CELLS:
        for j in range(block):
            cells[start + j] *= vectors[base + index[table + j]]
    elif mode == KEPT:
        k = start
        for r in range(block // run):
            source = base + index[table + r]
            for j in range(run):
                cells[k + j] *= vectors[source + j]
            k += run
    else:
        k = start
        for r in range(block // run):
            factor = vectors[base + index[table + r]]
            if factor != 1.0:
                for j in range(run):
                    cells[k + j] *= factor
            k += run


@inner(**SUMS)
def _accumulate(cells, start, vectors, base, mode, run, index, table, block):  # type: ignore[no-untyped-def]
    if mode == CELLS:
        for j in range(block):
            vectors[base + index[table + j]] += cells[start + j]
    elif mode == KEPT:
        k = start
        for r in range(block // run):
            target = base + index[table + r]
            for j in range(run):
                vectors[target + j] += cells[k + j]
            k += run
    else:
        k = start
        for r in range(block // run):
            total = 0.0
            for j in range(run):
                total += cells[k + j]
            vectors[base + index[table + r]] += total
            k += run


@inner()
def _add(cells, start, vectors, base, mode, run, index, table, block):  # type: ignore[no-untyped-def]
    if mode == CELLS:
        for j in range(block):
            cells[start + j] += vectors[base + index[table + j]]
    elif mode == KEPT:
        k = start
        for r in range(block // run):
            source = base + index[table + r]
            for j in range(run):
                cells[k + j] += vectors[source + j]
            k += run
    else:
        k = start
        for r in range(block // run):
            term = vectors[base + index[table + r]]
            for j in range(run):
                cells[k + j] += term
            k += run


@inner()
def _maximise(cells, start, vectors, base, mode, run, index, table, block):  # type: ignore[no-untyped-def]
    if mode == CELLS:
        for j in range(block):
            target = base + index[table + j]
            vectors[target] = max(vectors[target], cells[start + j])
        return
    k = start
    for r in range(block // run):
        target = base + index[table + r]
        if mode == KEPT:
            for j in range(run):
                vectors[target + j] = max(vectors[target + j], cells[k + j])
        else:
            peak = vectors[target]
            for j in range(run):
                peak = max(peak, cells[k + j])
            vectors[target] = peak
        k += run


@inner()
def _exponentiate(cells, start, vectors, base, mode, run, index, table, block):  # type: ignore[no-untyped-def]
    if mode == CELLS:
        for j in range(block):
            cells[start + j] = math.exp(cells[start + j] - vectors[base + index[table + j]])
        return
    k = start
    for r in range(block // run):
        source = base + index[table + r]
        if mode == KEPT:
            for j in range(run):
                cells[k + j] = math.exp(cells[k + j] - vectors[source + j])
        else:
            peak = vectors[source]
            for j in range(run):
                cells[k + j] = math.exp(cells[k + j] - peak)
        k += run


@inner()
def omega(z, guess):  # type: ignore[no-untyped-def]
    """Return the Wright omega function: the positive x with x + log x = z."""
    if z < -36.0:
        return math.exp(z)
    x = guess
    good = x > 0.0
    residual = 0.0
    if good:
        residual = z - x - math.log(x)
        good = abs(residual) < 0.5
    if not good:
        x = z - math.log(z) if z > 2.0 else math.exp(z) / (1.0 + math.exp(0.6 * z))
        residual = z - x - math.log(x)
    for _ in range(8):
        if abs(residual) <= 4e-15 * (1.0 + abs(z)):
            break
        up = x + 1.0
        t = up * (up + 2.0 / 3.0 * residual)
        x *= 1.0 + (residual / up) * (t - 0.5 * residual) / (t - residual)
        residual = z - x - math.log(x)
    return x


@inner()
def gaussian_step(cells, start, size, vectors, theta, y, z, rate, total):  # type: ignore[no-untyped-def]
    """Replace a marginal by the minimiser of its block problem; update its log potential.

    Solves m = c q exp(rate (y - m)) with sum(m) = total, where q is the marginal with its own
    potential taken out. Returns log c.
    """
    log_rate = math.log(rate)
    floor = FLOOR * total
    count = 0.0
    slope = 0.0
    for j in range(size):
        m = cells[start + j]
        if m > 0.0:
            z[j] = log_rate + math.log(m) - vectors[theta + j] + rate * vectors[y + j]
    shift = 0.0
    for _ in range(60):
        count = 0.0
        slope = 0.0
        for j in range(size):
            m = cells[start + j]
            if m > 0.0:
                x = omega(z[j] + shift, rate * m)
                count += x
                slope += x / (1.0 + x)
        gap = math.log(rate * total / count)
        if abs(gap) < 1e-10:
            break
        move = gap * count / slope
        shift += min(max(move, -50.0), 50.0)
    for j in range(size):
        m = cells[start + j]
        if m > 0.0:
            new = omega(z[j] + shift, rate * m) / rate
            if new < floor and new < m:
                new = min(floor, m)
            # In exact arithmetic this is rate * (y - new); written so that the potential says what was done.
            vectors[theta + j] += math.log(new / m) - shift
            cells[start + j] = new
    return shift


@inner()
def laplace_step(cells, start, size, vectors, theta, y, z, rate, total):  # type: ignore[no-untyped-def]
    """The block step for Laplace noise: m = y clipped to [c q exp(-rate), c q exp(rate)].

    The sum grows with c, and is at most the total when all the upper ends add up to it, at least the
    total when all the lower ends do: Newton's method inside that bracket. Returns log c.
    """
    floor = FLOOR * total
    up, down = math.exp(rate), math.exp(-rate)
    free = 0.0
    for j in range(size):
        m = cells[start + j]
        if m > 0.0:
            z[j] = m * math.exp(-vectors[theta + j])
            free += z[j]
    low = math.log(total / free) - rate
    high = low + 2.0 * rate
    shift = min(max(0.0, low), high)
    for _ in range(200):
        scale = math.exp(shift)
        count = 0.0
        slope = 0.0
        for j in range(size):
            if cells[start + j] > 0.0:
                base = scale * z[j]
                value = min(max(vectors[y + j], base * down), base * up)
                count += value
                if value != vectors[y + j]:
                    slope += value
        gap = math.log(total / count)
        if abs(gap) < 1e-13 or high - low < 1e-15 * (1.0 + abs(shift)):
            break
        if gap > 0.0:
            low = shift
        else:
            high = shift
        shift = shift + gap * count / slope if slope > 0.0 else high
        if not low < shift < high:
            shift = 0.5 * (low + high)
    scale = math.exp(shift)
    for j in range(size):
        m = cells[start + j]
        if m > 0.0:
            base = scale * z[j]
            new = min(max(vectors[y + j], base * down), base * up)
            if new < floor and new < m:
                new = min(floor, m)
            vectors[theta + j] += math.log(new / m) - shift
            cells[start + j] = new
    return shift


@inner()
def gaussian_loss(cells, start, size, vectors, theta, y, rate):  # type: ignore[no-untyped-def]
    """Return the sum of squares of a marginal and its share of the duality gap.

    The share is that of the problem  minimise KL(p || reference) + rate/2 |m - y|^2  at the current
    potential: rate/2 |m - y + theta/rate|^2. Where the potential is larger than the optimal one (a
    cell held at the floor), a smaller dual variable is feasible and gives the bound m times the
    excess.
    """
    loss = 0.0
    gap = 0.0
    for j in range(size):
        m = cells[start + j]
        difference = m - vectors[y + j]
        loss += difference * difference
        excess = difference + vectors[theta + j] / rate
        share = 0.5 * rate * excess * excess
        if excess > 0.0:
            bound = m * (vectors[theta + j] + rate * (0.5 * m - vectors[y + j]))
            if vectors[theta + j] >= rate * vectors[y + j] and bound < share:
                share = bound
        gap += share
    return loss, gap


@inner()
def laplace_loss(cells, start, size, vectors, theta, y, rate):  # type: ignore[no-untyped-def]
    """Return the sum of absolute differences of a marginal and its share of the duality gap."""
    loss = 0.0
    gap = 0.0
    for j in range(size):
        difference = cells[start + j] - vectors[y + j]
        dual = min(max(vectors[theta + j], -rate), rate)
        loss += abs(difference)
        gap += rate * abs(difference) + dual * difference
        if dual != vectors[theta + j]:
            gap += abs(vectors[theta + j] - dual) * cells[start + j]
    return loss, gap


@inner()
def _move(code, start, vectors, cells, vec_a, vec_b, size):  # type: ignore[no-untyped-def]
    """The operations on small tables only."""
    if code == SEPARATE:
        for j in range(size):
            new, old = vectors[vec_a + j], vectors[vec_b + j]
            vectors[vec_b + j] = new
            vectors[vec_a + j] = new / old if old > 0.0 else 0.0
    elif code == COMBINE:
        for j in range(size):
            new, scale = vectors[vec_a + j], vectors[vec_b + j]
            vectors[vec_b + j] = new
            vectors[vec_a + j] = new * scale
    elif code == COPY:
        for j in range(size):
            cells[start + j] = vectors[vec_a + j]
    elif code == RATIO:
        for j in range(size):
            old = vectors[vec_a + j]
            vectors[vec_a + j] = cells[start + j] / old if old > 0.0 else 0.0
    elif code == LOAD:
        for j in range(size):
            cells[start + j] = vectors[vec_a + j] if vec_a >= 0 else 0.0
    elif code == STORE:
        for j in range(size):
            vectors[vec_a + j] = cells[start + j]
    elif code == MESSAGE:
        for j in range(size):
            amount = vectors[vec_b + j]
            vectors[vec_a + j] = vectors[vec_a + j] + math.log(amount) if amount > 0.0 else -np.inf
            vectors[vec_b + j] = 1.0 / amount if amount > 0.0 else 0.0


@inner()
def _logs(code, start, maps, index, cells, vectors, number, vec_a, vec_b, size):  # type: ignore[no-untyped-def]
    """The operations on tables of logarithms."""
    if code == PEAK:
        for j in range(size):
            vectors[vec_a + j] = -np.inf
    if code == EXP:
        for j in range(size):
            vectors[vec_b + j] = 0.0
            if vectors[vec_a + j] == -np.inf:
                vectors[vec_a + j] = 0.0
    block, mode, run, table = maps[number, 0], maps[number, 2], maps[number, 3], maps[number, 5]
    for o in range(maps[number, 1]):
        at = start + o * block
        base = vec_a + index[maps[number, 4] + o]
        if code == ADD:
            _add(cells, at, vectors, base, mode, run, index, table, block)
        elif code == PEAK:
            _maximise(cells, at, vectors, base, mode, run, index, table, block)
        else:
            _exponentiate(cells, at, vectors, base, mode, run, index, table, block)
            base = vec_b + index[maps[number, 4] + o]
            _accumulate(cells, at, vectors, base, mode, run, index, table, block)


@inner()
def _pass(start, maps, index, cells, vectors, map_a, vec_a, map_b, vec_b, size):  # type: ignore[no-untyped-def]
    """Multiply a table by a smaller one and sum it to another, block by block."""
    if map_b >= 0:
        for j in range(size):
            vectors[vec_b + j] = 0.0
    lead = map_a if map_a >= 0 else map_b
    block = maps[lead, 0]
    for o in range(maps[lead, 1]):
        at = start + o * block
        if map_a >= 0:
            base = vec_a + index[maps[map_a, 4] + o]
            _multiply(cells, at, vectors, base, maps[map_a, 2], maps[map_a, 3], index, maps[map_a, 5], block)
        if map_b >= 0:
            base = vec_b + index[maps[map_b, 4] + o]
            _accumulate(
                cells, at, vectors, base, maps[map_b, 2], maps[map_b, 3], index, maps[map_b, 5], block
            )


@compiled()
def execute(  # type: ignore[no-untyped-def]
    program, maps, index, cells, vectors, scratch, kinds, rates, total, losses, shift
):
    """Run a program over the flat tables of a model.

    Columns of ``program``: operation, start in cells, map and start in vectors of the first operand,
    map and start in vectors of the second operand, size, node. ``losses`` receives, per measured
    node, its raw loss and its share of the duality gap, before its step if there is one. ``shift``
    gathers the logarithm of the factors that keep the total.
    """
    for step in range(program.shape[0]):
        code = program[step, 0]
        start = program[step, 1]
        map_a, vec_a = program[step, 2], program[step, 3]
        map_b, vec_b = program[step, 4], program[step, 5]
        size = program[step, 6]
        node = program[step, 7]
        if code == PASS:
            _pass(start, maps, index, cells, vectors, map_a, vec_a, map_b, vec_b, size)
        elif code in (STEP, EVALUATE):
            if kinds[node] == GAUSSIAN:
                loss, gap = gaussian_loss(cells, start, size, vectors, vec_a, vec_b, rates[node])
                if code == STEP:
                    shift[0] += gaussian_step(
                        cells, start, size, vectors, vec_a, vec_b, scratch, rates[node], total
                    )
            else:
                loss, gap = laplace_loss(cells, start, size, vectors, vec_a, vec_b, rates[node])
                if code == STEP:
                    shift[0] += laplace_step(
                        cells, start, size, vectors, vec_a, vec_b, scratch, rates[node], total
                    )
            losses[node, 0] = loss
            losses[node, 1] = gap
        elif code in (ADD, PEAK, EXP):
            _logs(code, start, maps, index, cells, vectors, map_a, vec_a, vec_b, size)
        else:
            _move(code, start, vectors, cells, vec_a, vec_b, size)


@inner()
def _centre(parts, start, outer, size, inner):  # type: ignore[no-untyped-def]
    """Subtract the mean along one axis of a table."""
    for i in range(outer):
        for j in range(inner):
            mean = 0.0
            at = start + i * size * inner + j
            for k in range(size):
                mean += parts[at + k * inner]
            mean /= size
            for k in range(size):
                parts[at + k * inner] -= mean


@compiled()
def project(tables, parts, sums, uses, scales, part_scale, centres, maps, index):  # type: ignore[no-untyped-def]
    """Replace the full tables by their agreeing parts, the total left out."""
    for s in range(sums.shape[0]):
        number, source, target, size = sums[s, 0], sums[s, 1], sums[s, 2], sums[s, 3]
        for j in range(size):
            tables[target + j] = 0.0
        for o in range(maps[number, 1]):
            _accumulate(
                tables, source + o * maps[number, 0], tables, target + index[maps[number, 4] + o],
                maps[number, 2], maps[number, 3], index, maps[number, 5], maps[number, 0],
            )  # fmt: skip
    for j in range(parts.shape[0]):
        parts[j] = 0.0
    for u in range(uses.shape[0]):
        table, part, weight = uses[u, 0], uses[u, 1], scales[u, 0]
        for j in range(uses[u, 2]):
            parts[part + j] += weight * tables[table + j]
    for j in range(parts.shape[0]):
        parts[j] *= part_scale[j]
    for c in range(centres.shape[0]):
        _centre(parts, centres[c, 0], centres[c, 1], centres[c, 2], centres[c, 3])
    for u in range(uses.shape[0]):
        table, part, share = uses[u, 0], uses[u, 1], scales[u, 1]
        for j in range(uses[u, 2]):
            tables[table + j] = share * parts[part + j]
    for s in range(sums.shape[0] - 1, -1, -1):
        number, target, source = sums[s, 0], sums[s, 1], sums[s, 2]
        for o in range(maps[number, 1]):
            _add(
                tables, target + o * maps[number, 0], tables, source + index[maps[number, 4] + o],
                maps[number, 2], maps[number, 3], index, maps[number, 5], maps[number, 0],
            )  # fmt: skip


# ----------------------------------------------------------------------------------------
# Numba kernels on single tables: sums over an axis and batched products. Import on first use only.

TILE = 64


@compiled(**SUMS)
def sum_middle(values, out):  # type: ignore[no-untyped-def]
    """Sum a three-way table over its middle axis."""
    outer, size, inner = values.shape
    if inner == 1:
        for i in range(outer):
            total = 0.0
            for k in range(size):
                total += values[i, k, 0]
            out[i, 0] = total
        return
    for i in range(outer):
        for j in range(inner):
            out[i, j] = values[i, 0, j]
        for k in range(1, size):
            for j in range(inner):
                out[i, j] += values[i, k, j]


@compiled(**SUMS)
def contract(left, right, out):  # type: ignore[no-untyped-def]
    """Batched matrix product, out[t] = left[t] @ right[t], on one core.

    Four terms at a time keep each row of the result in registers longer; unlike a threaded BLAS it
    takes no second core and gives the same result on every run.
    """
    batch, rows, inner = left.shape
    columns = right.shape[2]
    for t in range(batch):
        for i in range(rows):
            for j in range(columns):
                out[t, i, j] = 0.0
        for first in range(0, inner, TILE):
            last = min(first + TILE, inner)
            for i in range(rows):
                k = first
                while k + 4 <= last:
                    a, b = left[t, i, k], left[t, i, k + 1]
                    c, d = left[t, i, k + 2], left[t, i, k + 3]
                    if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
                        for j in range(columns):
                            out[t, i, j] += (
                                a * right[t, k, j]
                                + b * right[t, k + 1, j]
                                + c * right[t, k + 2, j]
                                + d * right[t, k + 3, j]
                            )
                    k += 4
                while k < last:
                    a = left[t, i, k]
                    for j in range(columns):
                        out[t, i, j] += a * right[t, k, j]
                    k += 1


# ----------------------------------------------------------------------------------------
# Numba kernel that hands out values to records. Import on first use only.


@compiled()
def order_by_group(group, permutation, n_groups):  # type: ignore[no-untyped-def]
    """List the records group by group, in the order of a permutation within each group."""
    starts = np.empty(n_groups + 1, np.int64)
    for i in range(n_groups + 1):
        starts[i] = 0
    for r in range(group.shape[0]):
        starts[group[r] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    order = np.empty(group.shape[0], np.int64)
    for r in permutation:
        order[starts[group[r]]] = r
        starts[group[r]] += 1
    return order


def distribute(
    conditional: npt.NDArray[np.float64],
    group: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    uniforms: npt.NDArray[np.float64],
    systematic: bool,
) -> npt.NDArray[np.int64]:
    """Give each record a value drawn from the row of ``conditional`` of its group.

    ``order`` lists the records group by group, shuffled within groups. With ``systematic`` the ``k``
    records of a group take the values at ``(u + j) / k``, j = 0..k-1, of the cumulative distribution:
    every value, and every run of consecutive values, comes out within one of its expected number.
    """
    return _distribute(of_one_type(conditional), group, order, uniforms, systematic)  # type: ignore[no-any-return]


@compiled()
def _distribute(conditional, group, order, uniforms, systematic):  # type: ignore[no-untyped-def]
    """See `distribute`."""
    n = group.shape[0]
    width = conditional.shape[1]
    values = np.empty(n, np.int64)
    cumulative = np.empty(width)
    position = 0
    while position < n:
        row = group[order[position]]
        end = position
        while end < n and group[order[end]] == row:
            end += 1
        k = end - position
        mass = 0.0
        last = 0
        for j in range(width):
            if conditional[row, j] > 0.0:
                mass += conditional[row, j]
                last = j  # rounding must never step onto an impossible value
        if systematic or k == 1:
            step = mass / k
            point = uniforms[position] * step
            running = 0.0
            j = -1
            for r in range(position, end):
                while running <= point and j < last:
                    j += 1
                    running += conditional[row, j]
                values[order[r]] = j
                point += step
        else:
            running = 0.0
            for j in range(last + 1):
                running += conditional[row, j]
                cumulative[j] = running
            for r in range(position, end):
                point = uniforms[r] * running
                low, high = 0, last
                while low < high:
                    middle = (low + high) // 2
                    if cumulative[middle] > point:
                        high = middle
                    else:
                        low = middle + 1
                values[order[r]] = low
        position = end
    return values
