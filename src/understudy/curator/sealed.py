"""Exact values under seal: what may be computed from them, and how far one person can move the result.

A sealed value carries the exact numbers, the most that one protected unit can change them, and a
repr that shows neither. Nothing can be read from it here; only the curator opens it, and it charges
the ledger before it draws the noise. Each operation below states its sensitivity and why.

Python cannot hide an attribute from somebody who wants it: the seal guards against accidents (a
print, a log line, a forgotten noise call), and every place of the package that breaks it is in this room or in a look: a test
reads the source of all others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from understudy.curator.exact import PublicNumbers, exact_distance
from understudy.curator.rounding import LEAST_SENSITIVITY, LIMIT
from understudy.errors import BudgetError, LookFailed, SealedError
from understudy.privacy import Unit
from understudy.privacy.exact_floats import float_up
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# How far one person can move the entropy and the mutual information of a table.
#
# All quantities are in nats. ``h(p) = -p ln p - (1-p) ln(1-p)`` is the binary entropy.
#
# **One row at a time.** Let ``D`` have ``n`` rows and ``D' = D + x`` have ``n + 1``. As distributions,
# ``D' = (1 - q) D + q δ_x`` with ``q = 1/(n+1)``: drawing a row of ``D'`` first flips a coin ``B`` that
# is 1 with probability ``q``. Since ``δ_x`` has neither entropy nor mutual information,
#
# - entropy: ``(1-q) H(D) = H(D'|B) <= H(D') <= H(D'|B) + H(B) = (1-q) H(D) + h(q)``. So
#   ``H(D') - H(D) <= h(q)`` and ``H(D) - H(D') <= q H(D) <= q ln min(n, cells)``;
# - mutual information: ``I(X;Y) <= I(X,B;Y) <= h(q) + I(X;Y|B)`` and
#   ``I(X;Y|B) <= I(X;Y,B) = I(X;Y) + I(X;B|Y) <= I(X;Y) + h(q)``, with ``I(X;Y|B) = (1-q) I(D)``. So
#   ``I(D') - I(D) <= h(q)`` and ``I(D) - I(D') <= h(q) + q I(D) <= h(q) + q ln min(n, |X|, |Y|)``.
#
# **Replacing one row** of ``n``: both tables are ``(1 - q) R + q δ`` with ``q = 1/n`` and the same rest
# ``R``, so both entropies lie in ``[(1-q) H(R), (1-q) H(R) + h(q)]`` and differ by at most ``h(1/n)``.
# For mutual information, Lemma 4.1 of PrivBayes (Zhang et al. 2014) gives, with ``n`` known,
# ``ln(n)/n + (n-1)/n ln(n/(n-1))`` when a side is binary and
# ``2/n ln((n+1)/2) + (n-1)/n ln((n+1)/(n-1))`` otherwise.
#
# **A person with k rows** is a chain of ``k`` single steps, so the bounds are multiplied by ``k`` and
# evaluated at the smallest table the chain can pass through.
#
# The number of rows enters these bounds only when it is an invariant of the neighbour relation
# (replace-one, one row per person) or has been declared public; otherwise the supremum over every
# possible number of rows is used.


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


# ----------------------------------------------------------------------------------------
# What all sealed values have in common: nothing can be read from them by accident.


LOOK_FAILED = (
    "A look at the records ended in an error after it was charged. What it cost is spent. What went wrong is not shown, "
    "because it may depend on the records."
)

NO_MEMORY = "There is not enough memory for a look at the records."
P = ParamSpec("P")
T = TypeVar("T")


def hide_errors(look: Callable[P, T]) -> Callable[P, T]:
    """Let a look that was paid for before end in an error that says that it happened and nothing else.

    Privacy
    -------
    An error is an outcome of the mechanism; its text, traceback and cause could tell neighbours apart by more than what was charged, so none of
    them is handed on. Refusals (`BudgetError`) are: looks raise them for public reasons alone.

    Examples
    --------
    >>> hide_errors(lambda: 1 // 0)()
    Traceback (most recent call last):
    ...
    understudy.errors.LookFailed: A look at the records ended in an error after it was charged. What it cost is spent. What went wrong is not shown, because it may depend on the records.
    """

    @functools.wraps(look)
    def hidden(*args: P.args, **kwargs: P.kwargs) -> T:
        full = False
        try:
            return look(*args, **kwargs)
        except (BudgetError, LookFailed):
            raise
        except MemoryError:  # NumPy's says how large the array was
            full = True
        except Exception:
            pass
        # outside the handlers: these errors do not carry the other one as their context
        if full:
            raise MemoryError(NO_MEMORY)
        raise LookFailed(LOOK_FAILED)

    return hidden


def require_seals(sealed: Iterable[Sealed], kind: type[Sealed]) -> None:
    """Refuse anything but sealed values of exactly this class: a subclass could state other sensitivities."""
    for item in sealed:
        if type(item) is not kind:
            raise BudgetError(f"Only {kind.__name__} can be opened here, not {type(item).__name__}.")


class Sealed:
    """Base of everything that holds exact values: no reading, testing, comparing, hashing or copying.

    A seal prevents accidents, not intent: subclasses keep exact values in attributes with a leading underscore,
    show only public facts in their ``repr``, and offer operations whose sensitivity is proved. Public facts, sensitivities among them, are
    set once: a claim that was lowered afterwards would be charged for.

    Privacy
    -------
    In: private. Out: nothing. Only the curator opens a seal, and charges first.

    Examples
    --------
    >>> bool(Sealed())
    Traceback (most recent call last):
    ...
    understudy.errors.SealedError: Sealed values cannot be tested; ask the curator to test or choose.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and hasattr(self, name):
            raise SealedError(
                f"{type(self).__name__}.{name} cannot be changed: it says what the exact values are."
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> NoReturn:
        raise SealedError("Nothing can be taken from a sealed value.")

    def __array__(self, *args: object, **kwargs: object) -> Any:
        raise SealedError("Sealed values cannot be read; ask the curator to measure them.")

    def __float__(self) -> float:
        raise SealedError("Sealed values cannot be read; ask the curator to measure them.")

    # NumPy would call methods of the same name (np.sum) or make an array of objects
    __array_function__ = __array_ufunc__ = __array__
    __int__ = __index__ = __complex__ = __iter__ = __float__  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise SealedError("Sealed values cannot be tested; ask the curator to test or choose.")

    def __eq__(self, other: object) -> bool:
        raise SealedError("Sealed values cannot be compared; ask the curator to choose or test.")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise SealedError("Sealed values cannot be pickled or copied out of their process.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


IntArray = npt.NDArray[np.signedinteger[Any]]

ENTROPY_WIDTH: float = 2.0**-41
"""An entropy is computed within this of the exact one, in nats; proof with :func:`entropy_of`."""

_RANGE = Fraction(LIMIT)
_RANGE_BITS = 1022
"""A fraction whose parts differ by fewer bits is smaller than the range."""


class SealedScalar(Sealed):
    """One exact number and the most that one unit can change it.

    Parameters
    ----------
    exact
        The number as it was computed: whole, a fraction, or a double (which is a fraction too). Private. What is not finite, and what is
        beyond the range of sealed numbers (:mod:`understudy.curator.rounding`), becomes one end of that range; what is no number
        becomes the lower end.
    sensitivity
        Largest absolute change between neighbouring tables *of the number as it is given here*. If that is within ``w`` of the one
        that was proved to move by ``s`` at most, it is ``s + 2 w``. Public.

    Attributes
    ----------
    sensitivity
        Public.
    """

    __slots__ = ("_exact", "sensitivity")

    def __init__(self, exact: float | Fraction, *, sensitivity: float) -> None:
        if not (math.isfinite(sensitivity) and sensitivity >= 0):
            raise BudgetError(f"A sensitivity must be finite and not negative, not {sensitivity}.")
        self._exact = _in_range(exact)
        self.sensitivity = float(sensitivity)

    def scaled(self, factor: float) -> SealedScalar:
        """Multiply by a public constant; the sensitivity is multiplied by its absolute value."""
        factor = float(factor)
        times = _public(factor, "factor")
        product = self.sensitivity * abs(factor)
        exact = math.frexp(factor)[0] in (
            0.5,
            -0.5,
            0.0,
        )  # a power of two, or nothing; any other product is rounded
        sensitivity = max(LEAST_SENSITIVITY, product if exact else math.nextafter(product, math.inf))
        fixed = not (self.sensitivity and factor)
        return SealedScalar(self._exact * times, sensitivity=0.0 if fixed else sensitivity)

    def shifted(self, constant: float) -> SealedScalar:
        """Add a public constant; the sensitivity stays, since the sum is exact."""
        return SealedScalar(self._exact + _public(constant, "constant"), sensitivity=self.sensitivity)

    def clipped(self, low: float, high: float) -> SealedScalar:
        """Clip to a public interval: the sensitivity can only shrink, at most to its length."""
        if not low <= high:
            raise BudgetError(f"The interval to clip to must not be empty; got [{low}, {high}].")
        bottom, top = _in_range(float(low)), _in_range(float(high))
        length = _up(top - bottom)
        return SealedScalar(min(max(self._exact, bottom), top), sensitivity=min(self.sensitivity, length))

    @staticmethod
    def minimum(scalars: Iterable[SealedScalar]) -> SealedScalar:
        """Return the smallest of several numbers; its sensitivity is the largest of theirs.

        If each number moves by at most its own sensitivity, every one of them stays above (below)
        the old minimum minus (plus) the largest sensitivity, and so does the new minimum.
        """
        items = list(scalars)
        require_seals(items, SealedScalar)
        if not items:
            raise BudgetError("The minimum of no numbers is undefined.")
        return SealedScalar(
            min(item._exact for item in items), sensitivity=max(item.sensitivity for item in items)
        )

    def __repr__(self) -> str:
        return f"SealedScalar(sensitivity={self.sensitivity:.6g})"


class SealedCounts(Sealed):
    """The exact marginal of one clique.

    Attributes
    ----------
    clique, shape
        Columns and number of codes of each. Public.
    l1, l2, linf
        Largest change of the vector of counts between neighbours, in three norms. Public.
    cells
        What the cells are, where columns and shape do not say it: a journal repeats an answer for the same cells alone. Public.

    Privacy
    -------
    Adding or removing one row changes one cell by one. A unit of ``k`` rows changes cells by a total
    of ``k``, all of it possibly in one cell: L1, L2 and L-infinity change by at most ``k``. Replacing
    a unit takes ``k`` away and adds ``k``, at worst in two single cells: L1 ``2k``, L2 ``k√2``,
    L-infinity ``k``. :class:`~understudy.privacy.Unit` states these as ``histogram_l1`` and so on.
    A marginal with a single cell is the number of rows, which a replaced unit of at most ``k`` rows
    changes by at most ``k`` in every norm.
    """

    __slots__ = ("_exact", "_known_rows", "_rows", "_unit", "cells", "clique", "l1", "l2", "linf", "shape")

    def __init__(
        self,
        exact: IntArray,
        *,
        clique: Clique,
        domain: Domain,
        unit: Unit,
        known_rows: int | None,
        cells: str = "",
    ) -> None:
        self.cells = cells
        self._exact = _compact(exact)
        self._unit = unit
        self._known_rows = known_rows
        self.clique = clique
        self.shape = domain.shape(clique)
        one_cell = self._exact.size == 1
        self.l1 = float(unit.max_rows if one_cell else unit.histogram_l1)
        self.l2 = float(unit.max_rows if one_cell else unit.histogram_l2)
        self.linf = float(unit.histogram_linf)

    @property
    def _total(self) -> int:
        """The sum of all counts, added once."""
        known: int | None = getattr(self, "_rows", None)
        if known is None:
            known = self._rows = int(self._exact.sum(dtype=np.int64))
        return known

    def l1_distance(self, public: npt.ArrayLike) -> SealedScalar:
        """Return the L1 distance to a public vector of the same shape.

        By the triangle inequality it changes by at most the L1 change of the counts. The public vector is put on a public grid
        first and the distance to that one is exact: :func:`~understudy.curator.exact.exact_distance`.
        """
        other = np.asarray(public, dtype=np.float64)
        if other.shape != self.shape:
            raise BudgetError(
                f"The public vector for {self.clique} must have shape {self.shape}, not {other.shape}."
            )
        if not np.isfinite(other).all():
            raise BudgetError(f"The public vector for {self.clique} holds values that are not finite.")
        return SealedScalar(exact_distance(self._exact, other, rows=self._total), sensitivity=self.l1)

    def sum(self, weights: npt.ArrayLike | None = None) -> SealedScalar:
        """Return the sum over cells of count times a public weight (weight one by default).

        One row in cell ``i`` contributes ``w_i``. A unit of ``k`` rows contributes at most
        ``k max|w|``; replacing it changes the sum by at most ``k (max w - min w)``, which is zero
        for constant weights when the unit has one row (the row count is then invariant). A
        replaced unit may have any number of rows from 0 to ``k`` when ``k > 1``, or when records are
        left out by their values (then no number of rows is known), so there its old and new contributions
        range over ``k [min(0, w), max(0, w)]``. The weights are put on a public grid
        (:class:`~understudy.curator.exact.PublicNumbers`); the sensitivity is that of the weights there, and the sum is exact.
        """
        if weights is None:
            weights = np.ones(self.shape)
        w = np.asarray(weights, dtype=np.float64)
        if w.shape != self.shape:
            raise BudgetError(f"The weights for {self.clique} must have shape {self.shape}, not {w.shape}.")
        if not np.isfinite(w).all():
            raise BudgetError(f"The weights for {self.clique} hold values that are not finite.")
        numbers = PublicNumbers.of(w)
        low, high = numbers.low, numbers.high
        rows = self._unit.max_rows
        if self._unit.relation == "add-remove":
            reach = rows * max(abs(low), abs(high))
        elif rows == 1 and self._known_rows is not None:
            reach = high - low
        else:
            reach = rows * (max(Fraction(0), high) - min(Fraction(0), low))
        return SealedScalar(numbers.dot(self._exact), sensitivity=_up(reach))

    def mean(self, values: npt.ArrayLike, *, low: float, high: float) -> SealedScalar:
        """Return the mean over rows of a public value per cell, clipped to ``[low, high]``.

        The mean of an empty table is defined as the middle of the interval. With ``n`` known the
        mean of clipped values moves by at most ``k (high - low) / n`` when a unit is replaced. When a
        unit of ``k`` rows joins ``n`` rows, ``|m' - m| = (k / (n + k)) |mean of the new - m|``, at most
        ``(high - low) k / (n + k)``, and at most half the interval when the table was empty; with the
        number of rows private that is at most ``(high - low) k / (k + 1)``. Replacing a unit of several
        rows is one removal and one addition. Values are put on a public grid (:class:`~understudy.curator.exact.PublicNumbers`),
        and the mean is the exact quotient.
        """
        v = np.asarray(values, dtype=np.float64)
        if v.shape != self.shape:
            raise BudgetError(f"The values for {self.clique} must have shape {self.shape}, not {v.shape}.")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise BudgetError(f"The bounds of a mean must be finite with low < high; got [{low}, {high}].")
        if not np.isfinite(v).all():
            raise BudgetError(f"The values for {self.clique} hold values that are not finite.")
        numbers, total = PublicNumbers.of(np.clip(v, low, high)), self._total
        bottom, top = min(Fraction(low), numbers.low), max(Fraction(high), numbers.high)
        exact = numbers.dot(self._exact) / total if total else (bottom + top) / 2
        width, rows, n = top - bottom, self._unit.max_rows, self._known_rows
        if n is None or n == 0:
            reach = width * Fraction(rows, rows + 1) if self._unit.relation == "add-remove" else width
        elif self._unit.relation == "replace-one" and rows == 1:
            reach = width / n
        elif self._unit.relation == "replace-one":
            # one removal and one addition of up to k rows, through a table of at least n - k rows
            reach = min(width, 2 * width * rows / max(rows, n))
        else:
            reach = min(width, width * rows / max(rows, n))
        return SealedScalar(exact, sensitivity=_up(reach))

    def entropy(self) -> SealedScalar:
        """Return the entropy of the marginal in nats (zero for an empty table).

        Sensitivity: :func:`~understudy.curator.sealed.entropy_sensitivity`, and twice the :data:`ENTROPY_WIDTH` that the number
        may be off.
        """
        sensitivity = entropy_sensitivity(self._unit, cells=self._exact.size, known_rows=self._known_rows)
        return SealedScalar(entropy_of(self._exact), sensitivity=_widened(sensitivity, 2 * ENTROPY_WIDTH))

    def mutual_information(self, left: Iterable[str]) -> SealedScalar:
        """Return the mutual information in nats between some columns of the clique (a list, or the name of one) and the others.

        Sensitivity: :func:`~understudy.curator.sealed.mutual_information_sensitivity`, and twice what three entropies
        (:data:`ENTROPY_WIDTH`) and their sum may be off.
        """
        left_counts, right_counts, joint = self._two_sides(left)
        exact = entropy_of(left_counts) + entropy_of(right_counts) - entropy_of(joint)
        sensitivity = mutual_information_sensitivity(
            self._unit,
            left_cells=left_counts.size,
            right_cells=right_counts.size,
            known_rows=self._known_rows,
        )
        return SealedScalar(max(0.0, exact), sensitivity=_widened(sensitivity, 8 * ENTROPY_WIDTH))

    def dependence(self, left: Iterable[str]) -> SealedScalar:
        """Return ``1/2 sum |c - c_left c_right / n|``, of some columns (a list, or the name of one) and the others: how many rows independence gets wrong (score R, PrivBayes).

        Sensitivity. Write ``e = c_left c_right / n`` for the independent table. *Add one row to n*: ``c`` moves by
        1 in L1. Before dividing, ``c_left c_right`` gains at most ``2n + 1`` in L1, so
        ``|e' - e|_1 <= n²/(n (n+1)) + (2n + 1)/(n + 1) = (3n + 1)/(n + 1) < 3``, and the score moves by less than
        ``(1 + 3)/2 = 2``. Nothing here depends on the number of rows. *Replace one of n rows*: ``c`` moves by 2,
        each side by 2, so ``|e' - e|_1 <= (2n + 2n + 4)/n`` and the score moves by at most ``3 + 2/n``; at most 4
        in any case (one removal, one addition). A unit of ``k`` rows is a chain of ``k`` such steps.
        """
        exact = _independence_gap(*self._two_sides(left)) / 2
        rows = self._unit.max_rows
        if self._unit.relation == "add-remove":
            sensitivity = 2.0 * rows
        elif rows == 1 and self._known_rows:
            sensitivity = min(4.0, _up(3 + Fraction(2, self._known_rows)))
        else:
            sensitivity = 4.0 * rows
        return SealedScalar(exact, sensitivity=sensitivity)

    def determination(self, target: str) -> SealedScalar:
        """Return minus the rows by which a binary column is not determined and balanced (score F, PrivBayes).

        For a two-valued target ``x`` and parents ``p``: the best way to give each parent cell to one value, with
        ``a`` rows of value 0 and ``b`` rows of value 1 in cells given to them, leaves
        ``(n/2 - a)_+ + (n/2 - b)_+`` rows over; the score is minus the smallest such number.

        Sensitivity. For a fixed assignment, adding a row raises ``n/2`` by 1/2 and one of ``a``, ``b`` by 1 or
        neither, so the number moves by between -1/2 and +1. Replacing a row keeps ``n`` and moves ``a`` and
        ``b`` by at most 1 in all directions that do not cancel: at most 1 in sum. A minimum over assignments
        moves no further than its terms, so one row moves the score by at most 1, and ``k`` rows by ``k``.
        """
        if target not in self.clique:
            raise BudgetError(f"{target!r} is not one of the columns {self.clique}.")
        axis = self.clique.index(target)
        if self.shape[axis] != 2:
            raise BudgetError(
                f"The score F needs a column with two values; {target!r} has {self.shape[axis]}."
            )
        zero, one = np.moveaxis(self._exact, axis, 0).reshape(2, -1)
        return SealedScalar(-_unassigned(zero, one), sensitivity=float(self._unit.max_rows))

    def grouped(self, groups: Mapping[str, npt.ArrayLike]) -> SealedCounts:
        """Merge codes of some columns into public groups: a coarser partition of the same rows.

        ``groups[column]`` gives the group of each code. Rows stay in exactly one cell, so the
        sensitivities of counts are those of any histogram.
        """
        exact = self._exact
        for name, labels in groups.items():
            axis = self.clique.index(name)
            which = np.asarray(labels, dtype=np.int64)
            if which.shape != (self.shape[axis],) or which.min(initial=0) < 0:
                raise BudgetError(f"The groups of {name!r} must be {self.shape[axis]} numbers, not negative.")
            merged = np.zeros((int(which.max()) + 1, *np.delete(exact.shape, axis)), dtype=np.int64)
            np.add.at(merged, which, np.moveaxis(exact, axis, 0))
            exact = np.moveaxis(merged, 0, axis)
        coarse = object.__new__(SealedCounts)
        coarse._exact, coarse._unit, coarse._known_rows = exact, self._unit, self._known_rows
        coarse.clique, coarse.shape = self.clique, exact.shape
        coarse.l1, coarse.l2, coarse.linf, coarse.cells = self.l1, self.l2, self.linf, self.cells
        return coarse

    def _two_sides(self, left: Iterable[str]) -> tuple[IntArray, IntArray, IntArray]:
        """Flatten into a table of the chosen columns by the others, with both margins."""
        chosen = {left} if isinstance(left, str) else set(left)  # a text is one column
        if not chosen or not chosen < set(self.clique):
            raise BudgetError(f"The left side must be some but not all of the columns {self.clique}.")
        front = [i for i, name in enumerate(self.clique) if name in chosen]
        joint = np.moveaxis(self._exact, front, range(len(front)))
        joint = joint.reshape(math.prod(joint.shape[: len(front)]), -1)
        return joint.sum(axis=1), joint.sum(axis=0), joint

    def __repr__(self) -> str:
        return f"SealedCounts({self.clique}, shape={self.shape}, l1={self.l1:g})"


def _compact(counts: IntArray) -> IntArray:
    """Keep counts in half the memory where they fit; sums of them are taken in 64 bits all the same."""
    small = counts.size > 0 and int(counts.max()) < 2**31
    return counts.astype(np.int32 if small else np.int64)


def _in_range(value: float | Fraction) -> Fraction:
    """Return a number within the range of sealed numbers, of Python's own whole numbers; what is no number is its lower end."""
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return _RANGE if value > 0 else -_RANGE
    given = Fraction(value)  # its parts may be of other classes, which would see what they are compared with
    value = Fraction(int(given.numerator), int(given.denominator))
    if value.numerator.bit_length() - value.denominator.bit_length() < _RANGE_BITS:
        return value
    return min(max(value, -_RANGE), _RANGE)


def _public(value: float, what: str) -> Fraction:
    if not math.isfinite(value):
        raise BudgetError(f"A public {what} must be finite, not {value}.")
    return Fraction(float(value))


def _up(value: Fraction) -> float:
    """Return a sensitivity as a double that is not below it."""
    return float_up(value)


def _widened(sensitivity: float, width: float) -> float:
    """Add a width to a sensitivity; a number that nobody can change has none."""
    return sensitivity + width if sensitivity else 0.0


def entropy_of(counts: IntArray) -> float:
    """Return the entropy in nats of the distribution proportional to the counts, within :data:`ENTROPY_WIDTH`.

    ``ln n - sum c ln c / n``. A logarithm is off by at most 4 units in the last place and a product by half of one, so every term is off by
    at most ``2**-50`` of itself; NumPy adds what lies side by side in blocks of 128 in eight lanes and then in pairs, fewer than 64
    roundings for each term, ``2**-47`` of the sum; and the sum over ``n`` is at most ``ln n``, below 44 for every number of rows of 63
    bits. With the last three roundings that is below ``44 (2**-47 + 2**-49) < 2**-41``, whatever the counts are.
    """
    total = int(counts.sum(dtype=np.int64))
    if total == 0:
        return 0.0
    positive = counts[counts > 0].astype(np.float64)
    return float(max(0.0, math.log(total) - float((positive * np.log(positive)).sum()) / total))


def _independence_gap(left: IntArray, right: IntArray, joint: IntArray) -> Fraction:
    """L1 distance between a table and the product of its margins, in rows.

    ``n`` times the distance is a sum of whole numbers below ``n²``, which fit 64 bits up to three billion rows; beyond, Python's are used.
    """
    n = int(joint.sum(dtype=np.int64))
    if n == 0:
        return Fraction(0)
    if n > 3_000_000_000:
        apart = np.abs(n * joint.astype(object) - np.outer(left.astype(object), right.astype(object)))
        return Fraction(int(apart.sum()), n)
    whole, rest = np.divmod(np.abs(n * joint.astype(np.int64) - np.outer(left, right)), n)
    return int(whole.sum()) + Fraction(int(rest.sum()), n)


def _unassigned(zero: IntArray, one: IntArray) -> Fraction:
    """Smallest ``(n/2 - a)_+ + (n/2 - b)_+`` over ways to give each parent cell to one of two values.

    Dynamic programming over cells: for each reachable ``a`` the largest ``b``. The counts of value 0 add up
    to at most ``n``, so there are at most ``n + 1`` states.
    """
    n = int(zero.sum() + one.sum())
    best = np.full(int(zero.sum()) + 1, -1, dtype=np.int64)
    best[0] = 0
    for a, b in zip(zero.tolist(), one.tolist(), strict=True):
        if a == 0:
            best[best >= 0] += b
            continue
        if b == 0:
            best = np.concatenate([np.full(a, -1, dtype=np.int64), best[: len(best) - a]])
            continue
        given_to_one = np.where(best >= 0, best + b, -1)
        given_to_zero = np.concatenate([np.full(a, -1, dtype=np.int64), best[: len(best) - a]])
        best = np.maximum(given_to_one, given_to_zero)
    reachable = np.flatnonzero(best >= 0)
    twice = np.maximum(n - 2 * reachable, 0) + np.maximum(n - 2 * best[reachable], 0)
    return Fraction(int(twice.min()), 2)
