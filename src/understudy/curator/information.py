"""How far one person can move the entropy and the mutual information of a table.

All quantities are in nats. ``h(p) = -p ln p - (1-p) ln(1-p)`` is the binary entropy.

**One row at a time.** Let ``D`` have ``n`` rows and ``D' = D + x`` have ``n + 1``. As distributions,
``D' = (1 - q) D + q δ_x`` with ``q = 1/(n+1)``: drawing a row of ``D'`` first flips a coin ``B`` that
is 1 with probability ``q``. Since ``δ_x`` has neither entropy nor mutual information,

- entropy: ``(1-q) H(D) = H(D'|B) <= H(D') <= H(D'|B) + H(B) = (1-q) H(D) + h(q)``. So
  ``H(D') - H(D) <= h(q)`` and ``H(D) - H(D') <= q H(D) <= q ln min(n, cells)``;
- mutual information: ``I(X;Y) <= I(X,B;Y) <= h(q) + I(X;Y|B)`` and
  ``I(X;Y|B) <= I(X;Y,B) = I(X;Y) + I(X;B|Y) <= I(X;Y) + h(q)``, with ``I(X;Y|B) = (1-q) I(D)``. So
  ``I(D') - I(D) <= h(q)`` and ``I(D) - I(D') <= h(q) + q I(D) <= h(q) + q ln min(n, |X|, |Y|)``.

**Replacing one row** of ``n``: both tables are ``(1 - q) R + q δ`` with ``q = 1/n`` and the same rest
``R``, so both entropies lie in ``[(1-q) H(R), (1-q) H(R) + h(q)]`` and differ by at most ``h(1/n)``.
For mutual information, Lemma 4.1 of PrivBayes (Zhang et al. 2014) gives, with ``n`` known,
``ln(n)/n + (n-1)/n ln(n/(n-1))`` when a side is binary and
``2/n ln((n+1)/2) + (n-1)/n ln((n+1)/(n-1))`` otherwise.

**A person with k rows** is a chain of ``k`` single steps, so the bounds are multiplied by ``k`` and
evaluated at the smallest table the chain can pass through.

The number of rows enters these bounds only when it is an invariant of the neighbour relation
(replace-one, one row per person) or has been declared public; otherwise the supremum over every
possible number of rows is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from understudy.privacy import Unit


def binary_entropy(p: float) -> float:
    """Return the entropy of a coin in nats."""
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log(p) - (1.0 - p) * math.log1p(-p)


def _entropy_step(n: int, cells: int) -> float:
    """Bound on the change of entropy when one row joins a table of ``n`` rows."""
    if n == 0:
        return 0.0
    q = 1.0 / (n + 1)
    return max(binary_entropy(q), q * math.log(max(1, min(n, cells))))


def _information_step(n: int, smaller_side: int) -> float:
    """Bound on the change of mutual information when one row joins a table of ``n`` rows."""
    if n == 0 or smaller_side < 2:
        return 0.0
    q = 1.0 / (n + 1)
    return binary_entropy(q) + q * math.log(max(1, min(n, smaller_side)))


def _supremum(step: Callable[[int, int], float], size: int, *, from_rows: int) -> float:
    """Return the largest step over every table of at least ``from_rows`` rows.

    Both steps fall in ``n`` once ``n`` is at least 3 and at least ``size``: ``h(1/(n+1))`` falls for
    ``n >= 1`` and ``ln(c)/(n+1)`` falls in ``n`` for a constant ``c``; while ``n < size`` the term is
    ``ln(n)/(n+1)``, which falls for ``n >= 4``. Looking at ``n`` up to 4 past the start is enough.
    """
    start = max(1, from_rows)
    return max(step(n, size) for n in range(start, start + 5))


def entropy_sensitivity(unit: Unit, *, cells: int, known_rows: int | None) -> float:
    """Return the most that one unit can change the entropy (nats) of a histogram.

    Parameters
    ----------
    unit
        Who is protected.
    cells
        Number of cells of the histogram.
    known_rows
        The number of rows where it is public or invariant; ``None`` where it is private.

    Examples
    --------
    >>> round(entropy_sensitivity(Unit.add_remove(), cells=100, known_rows=None), 4)
    0.6931
    >>> round(entropy_sensitivity(Unit.replace_one(), cells=100, known_rows=1000), 5)
    0.00791
    """
    if cells < 2:
        return 0.0
    if unit.keeps_rows and known_rows is not None:
        return min(math.log(cells), binary_entropy(1.0 / known_rows) if known_rows > 1 else 0.0)
    steps, smallest = _chain(unit, known_rows)
    return min(math.log(cells), steps * _supremum(_entropy_step, cells, from_rows=smallest))


def mutual_information_sensitivity(
    unit: Unit, *, left_cells: int, right_cells: int, known_rows: int | None
) -> float:
    """Return the most that one unit can change the mutual information (nats) of two sets of columns.

    Examples
    --------
    >>> unit = Unit.replace_one()
    >>> round(mutual_information_sensitivity(unit, left_cells=2, right_cells=9, known_rows=1000), 5)
    0.00791
    """
    side = min(left_cells, right_cells)
    if side < 2:
        return 0.0
    largest = math.log(side)
    if unit.keeps_rows and known_rows is not None:
        n = known_rows
        if n < 2:
            return 0.0
        if side == 2:
            bound = math.log(n) / n + (n - 1) / n * math.log(n / (n - 1))
        else:
            bound = 2 / n * math.log((n + 1) / 2) + (n - 1) / n * math.log((n + 1) / (n - 1))
        return min(largest, bound)
    steps, smallest = _chain(unit, known_rows)
    return min(largest, steps * _supremum(_information_step, side, from_rows=smallest))


def _chain(unit: Unit, known_rows: int | None) -> tuple[int, int]:
    """Number of single add/remove steps between neighbours, and the smallest table on the way."""
    steps = unit.max_rows * (2 if unit.relation == "replace-one" else 1)
    smallest = 0 if known_rows is None else max(0, known_rows - unit.max_rows)
    return steps, smallest
