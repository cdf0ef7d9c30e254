"""Compiled kernels: probabilities of count laws in double precision, exact draws in double-double arithmetic.

A *double-double* is an unevaluated sum of two doubles, about 106 bits. Sums and products are those of Dekker and Knuth:
they hold for IEEE arithmetic without reassociation, which is how Numba compiles by default. For positive operands each
operation below has a relative error below ``2**-100``.

Kinds: 0 Poisson, 1 negative binomial, 2 Poisson-inverse-Gaussian, 3 Delaporte, 4 Sichel; see
:mod:`understudy.privacy.count_models.laws` for the recurrences.
"""

from __future__ import annotations

import math

import numpy as np

from understudy._compile import compiled
from understudy.privacy.noise.kernels import below

_UP = 2.0**600
_DOWN = 2.0**-1000
_NEGLIGIBLE = 2.0**-110
_FIRST_CUT = 2.0**-44
_SPLIT = 134217729.0  # 2**27 + 1


# ------------------------------------------------------------------------------- double precision


@compiled(nogil=True)
def steps(  # type: ignore[no-untyped-def]
    kind, mean, sigma, nu, psi, chi, ratios, first, last
):
    """Return ``t(b) / (b + 1) = p(b + 1) / p(b)`` for ``b = first .. last - 1``.

    Poisson and negative binomial start anywhere; the others must have ``first = 0``.
    """
    out = np.empty(last - first)
    if kind == 0:
        for b in range(first, last):
            out[b - first] = mean / (b + 1.0)
    elif kind == 1:
        theta, k = sigma * mean / (1.0 + sigma * mean), 1.0 / sigma
        for b in range(first, last):
            out[b - first] = (b + k) * theta / (b + 1.0)
    elif kind == 3:
        c, rest = mean * nu, mean * (1.0 - nu)
        theta = sigma * rest / (1.0 + sigma * rest)
        base = theta / sigma
        w = base
        for b in range(last):
            if b > 0:
                w = base + theta * b * (w / (w + c))
            out[b] = (c + w) / (b + 1.0)
    else:
        z = math.sqrt(chi * (psi + 2.0 * mean))
        s = mean * math.sqrt(chi / (psi + 2.0 * mean))
        r = ratios[0]
        for b in range(last):
            r = ratios[b] if b < len(ratios) else 2.0 * (b + nu) / z + 1.0 / r
            out[b] = s * r / (b + 1.0)
    return out


@compiled(nogil=True)
def step_bound(kind, mean, sigma, nu, psi, chi, b):  # type: ignore[no-untyped-def]
    """Return a bound on ``p(j + 1) / p(j)`` that holds for all ``j >= b``.

    Poisson: ``m / (j + 1)`` falls. Negative binomial: ``theta (j + k)/(j + 1)`` is monotone with limit ``theta``.
    The posterior mean rises with ``b``, so that ``w(b-1) <= w(b)`` in the Delaporte recurrence, a quadratic inequality whose
    solution is ``t(b) <= (y + c + sqrt((y - c)^2 + 4 k theta c))/2`` with ``y = theta (b + k)``. Bessel ratios rise with the order
    (``K`` is log-convex in it), so ``R(b) >= (v + sqrt(v^2 + z^2))/z`` with ``v = b + nu`` and, put into the recurrence,
    ``R(b) <= (v + 1 + sqrt((v - 1)^2 + z^2))/z``. Divided by ``b + 1``, both bounds first fall and then may rise to their
    limit, ``theta`` or ``2m/(psi + 2m)`` (the sign of the derivative changes at most once), so the supremum is the larger of the
    value at ``b`` and the limit. A last factor covers the rounding of these few operations.
    """
    if kind == 0:
        return mean / (b + 1.0) * (1.0 + 1e-14)
    if kind == 1:
        limit = sigma * mean / (1.0 + sigma * mean)
        return max(limit, limit * (b + 1.0 / sigma) / (b + 1.0)) * (1.0 + 1e-14)
    if kind == 3:
        c, rest = mean * nu, mean * (1.0 - nu)
        limit = sigma * rest / (1.0 + sigma * rest)
        y = limit * (b + 1.0 / sigma)
        here = 0.5 * (y + c + math.sqrt((y - c) ** 2 + 4.0 * limit * c / sigma)) / (b + 1.0)
    else:
        limit = 2.0 * mean / (psi + 2.0 * mean)
        v = b + nu
        here = 0.5 * limit * (v + 1.0 + math.sqrt((v - 1.0) ** 2 + chi * (psi + 2.0 * mean))) / (b + 1.0)
    return max(limit, here) * (1.0 + 1e-14)


# ----------------------------------------------------------------------------------- double-double


@compiled(nogil=True, inline="always")
def _two_sum(a, b):  # type: ignore[no-untyped-def]
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


@compiled(nogil=True, inline="always")
def _two_prod(a, b):  # type: ignore[no-untyped-def]
    p = a * b
    t = _SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = _SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@compiled(nogil=True, inline="always")
def _add(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    s, e = _two_sum(ah, bh)
    t, f = _two_sum(al, bl)
    e += t
    h = s + e
    e = e - (h - s) + f
    s = h + e
    return s, e - (s - h)


@compiled(nogil=True, inline="always")
def _mul(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    p, e = _two_prod(ah, bh)
    e += ah * bl + al * bh
    s = p + e
    return s, e - (s - p)


@compiled(nogil=True, inline="always")
def _mul_double(ah, al, b):  # type: ignore[no-untyped-def]
    p, e = _two_prod(ah, b)
    e += al * b
    s = p + e
    return s, e - (s - p)


@compiled(nogil=True, inline="always")
def _div(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    q = ah / bh
    ph, pl = _mul_double(bh, bl, q)
    s, e = _two_sum(ah, -ph)
    e = (e - pl) + al
    q2 = (s + e) / bh
    h = q + q2
    return h, q2 - (h - q)


@compiled(nogil=True, inline="always")
def _sqrt(ah, al):  # type: ignore[no-untyped-def]
    x = math.sqrt(ah)
    ph, pl = _two_prod(x, x)
    rh, _ = _add(ah, al, -ph, -pl)
    h, e = _two_sum(x, rh / (2.0 * x))
    ph, pl = _mul(h, e, h, e)
    rh, _ = _add(ah, al, -ph, -pl)
    return _add(h, e, rh / (2.0 * h), 0.0)


@compiled(nogil=True)
def _grown(values):  # type: ignore[no-untyped-def]
    out = np.empty(2 * len(values))
    out[: len(values)] = values
    return out


@compiled(nogil=True)
def _table(  # type: ignore[no-untyped-def]
    kind, count, alpha, sigma, nu, psi, chi, ratios, first, negligible, high, low
):
    """Fill ``high`` and ``low`` with cumulative weights of ``b = first, first + 1, ...``; return them and their number.

    The table ends where less than ``negligible`` of the total is left. Weights that grow beyond ``2**600`` are scaled by
    ``2**-1000``, an exact operation for all that matters: what it flushes to zero is below ``2**-600`` of the total.
    """
    one = 1.0
    mh, ml = _two_sum(float(count), alpha)
    # constants of the recurrences
    th = tl = kh = kl = ch = cl = bh = bl = zh = zl = sh = sl = 0.0
    if kind == 1 or kind == 3:
        rh, rl = mh, ml
        if kind == 3:
            ch, cl = _mul_double(mh, ml, nu)
            uh, ul = _two_sum(one, -nu)
            rh, rl = _mul(mh, ml, uh, ul)
        xh, xl = _mul_double(rh, rl, sigma)
        yh, yl = _add(one, 0.0, xh, xl)
        th, tl = _div(xh, xl, yh, yl)
        kh, kl = _div(one, 0.0, sigma, 0.0)
        bh, bl = _mul(th, tl, kh, kl)
    elif kind == 2 or kind == 4:
        vh, vl = _add(psi, 0.0, 2.0 * mh, 2.0 * ml)
        xh, xl = _mul_double(vh, vl, chi)
        xh, xl = _sqrt(xh, xl)
        zh, zl = _div(2.0, 0.0, xh, xl)  # 2 / z
        xh, xl = _div(chi, 0.0, vh, vl)
        xh, xl = _sqrt(xh, xl)
        sh, sl = _mul(mh, ml, xh, xl)
    wh, wl = one, 0.0
    sumh, suml = one, 0.0
    high[0], low[0] = one, 0.0
    ph = pl = 0.0  # the state of the recurrence
    era = 0
    size = 1
    b = first
    while True:
        # t(b), then p(b + 1) = p(b) t(b) / (b + 1)
        if kind == 0:
            xh, xl = mh, ml
        elif kind == 1:
            xh, xl = _add(kh, kl, float(b), 0.0)
            xh, xl = _mul(xh, xl, th, tl)
        elif kind == 3:
            if b == 0:
                ph, pl = bh, bl
            else:
                xh, xl = _add(ph, pl, ch, cl)
                xh, xl = _div(ph, pl, xh, xl)
                xh, xl = _mul(xh, xl, th, tl)
                xh, xl = _mul_double(xh, xl, float(b))
                ph, pl = _add(bh, bl, xh, xl)
            xh, xl = _add(ch, cl, ph, pl)
        else:
            if b < len(ratios):
                ph, pl = ratios[b], 0.0
            else:
                xh, xl = _two_sum(float(b), nu)
                xh, xl = _mul(xh, xl, zh, zl)
                yh, yl = _div(one, 0.0, ph, pl)
                ph, pl = _add(xh, xl, yh, yl)
            xh, xl = _mul(sh, sl, ph, pl)
        xh, xl = _div(xh, xl, b + 1.0, 0.0)
        wh, wl = _mul(wh, wl, xh, xl)
        b += 1
        if wh > _UP:
            wh, wl = wh * _DOWN, wl * _DOWN
            sumh, suml = sumh * _DOWN, suml * _DOWN
            for i in range(era):
                high[i], low[i] = 0.0, 0.0
            for i in range(era, size):
                high[i], low[i] = high[i] * _DOWN, low[i] * _DOWN
            era = size
        sumh, suml = _add(sumh, suml, wh, wl)
        if size == len(high):
            high, low = _grown(high), _grown(low)
        high[size], low[size] = sumh, suml
        size += 1
        if b > mh:
            bound = step_bound(kind, mh, sigma, nu, psi, chi, b)
            if bound < 1.0 and wh * bound <= (1.0 - bound) * sumh * negligible:
                return high, low, size


@compiled(nogil=True, inline="always")
def _above(h, low, xh, xl):  # type: ignore[no-untyped-def]
    return h > xh or (h == xh and low > xl)


@compiled(nogil=True)
def _first_above(high, low, size, xh, xl):  # type: ignore[no-untyped-def]
    left, right = 0, size - 1
    while left < right:
        middle = (left + right) >> 1
        if _above(high[middle], low[middle], xh, xl):
            right = middle
        else:
            left = middle + 1
    return left


@compiled(nogil=True)
def draw_groups(  # type: ignore[no-untyped-def]
    kind, alpha, sigma, nu, psi, chi, values, firsts, starts, ratios, words, out
):
    """Redraw cells that are grouped by their count.

    Group ``g`` holds the cells ``starts[g] .. starts[g+1] - 1``, all with count ``values[g]``. Cell ``i`` uses the words
    ``2 i`` and ``2 i + 1``: 106 bits make a uniform number ``u``, and the result is the first ``b`` whose cumulative
    weight exceeds ``u`` times the total.

    A table is first made up to ``2**-44`` of the total. Its own sum ``S`` then bounds the total between ``S`` and
    ``S (1 + 2**-43)``; a cell whose result is the same for both ends is settled. If any is not, the table is made again up
    to ``2**-110``. The result is that of the long table in either case.
    """
    high, low = np.empty(4096), np.empty(4096)
    for g in range(len(values)):
        row = ratios[g] if len(ratios) > 1 else ratios[0]
        negligible = _FIRST_CUT
        i = starts[g]
        high, low, size = _table(
            kind, values[g], alpha, sigma, nu, psi, chi, row, firsts[g], negligible, high, low
        )
        while i < starts[g + 1]:
            uh = float(words[2 * i] >> np.uint64(11)) * 2.0**-53
            ul = float(words[2 * i + 1] >> np.uint64(11)) * 2.0**-106
            uh, ul = _two_sum(uh, ul)
            xh, xl = _mul(high[size - 1], low[size - 1], uh, ul)
            b = _first_above(high, low, size, xh, xl)
            if negligible > _NEGLIGIBLE:
                yh, yl = _mul_double(xh, xl, 1.0 + 2.0 * _FIRST_CUT)
                if not _above(high[b], low[b], yh, yl):
                    negligible = _NEGLIGIBLE
                    high, low, size = _table(
                        kind, values[g], alpha, sigma, nu, psi, chi, row, firsts[g], negligible, high, low
                    )
                    continue
            out[i] = firsts[g] + b
            i += 1


# ----------------------------------------------------------------------------------------
# Compiled draws from Pólya's urn; see :mod:`understudy.privacy.count_models.urn`.


@compiled(nogil=True)
def urn(numerator, shift, cells, n, owners, occupied, ends, stream, drawn):  # type: ignore[no-untyped-def]
    """Fill ``drawn`` with the cells of successive draws."""
    prior = numerator * cells
    for j in range(len(drawn)):
        r = below(stream, prior + (np.uint64(n + j) << shift))
        if r < prior:
            drawn[j] = np.int64(r // numerator)
            continue
        ball = np.int64((r - prior) >> shift)
        if ball >= n:
            drawn[j] = drawn[ball - n]
        elif len(owners):
            drawn[j] = owners[ball]
        else:
            drawn[j] = occupied[np.searchsorted(ends, ball, side="right")]
