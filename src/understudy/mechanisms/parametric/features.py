"""Public numbers for the codes of a column: what moments are taken of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.errors import BudgetError
from understudy.schema import Clique, Column

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Feature:
    """A public number in [-1, 1] for each code of a column, or each combination of codes of a few columns.

    Parameters
    ----------
    name
        What the number is.
    columns
        The columns it is read from, in domain order; none for the constant.
    values
        One number per code, with one axis per column.

    Examples
    --------
    >>> Feature("old", ("age",), [0, 0, 1]).values
    array([0., 0., 1.])
    """

    name: str
    columns: Clique
    values: Floats

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != len(self.columns) or values.size == 0:
            raise BudgetError(f"Feature {self.name!r} needs one axis of numbers per column it is read from.")
        if not bool((np.abs(values) <= 1).all()):
            raise BudgetError(f"Feature {self.name!r} must lie between -1 and 1 everywhere.")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def on_grid(self, bits: int) -> Ints:
        """Return the numbers as whole multiples of ``2**-bits``, flattened."""
        return np.asarray(np.rint(self.values.ravel() * 2**bits), dtype=np.int64)


ONE = Feature("1", (), np.array(1.0))
"""The constant feature; its products are counts and sums."""


def indicator(column: str, codes: Iterable[int], size: int, *, name: str | None = None) -> Feature:
    """Return the feature that is one at some codes of a column and zero elsewhere."""
    values = np.zeros(size)
    values[list(codes)] = 1.0
    return Feature(name or f"{column} in {sorted(codes)}", (column,), values)


@dataclass(frozen=True)
class Standard:
    """A numeric column brought to [-1, 1]: ``value = centre + half * t`` for the value in the middle of each bin.

    Attributes
    ----------
    feature
        ``t`` at each code; zero where the entry is missing or ``other``.
    present
        One where the column has a number; the constant where it always has.
    centre, half
        Middle and half the length of the range of bin middles.
    """

    feature: Feature
    present: Feature
    centre: float
    half: float

    def values(self, t: npt.ArrayLike) -> Floats:
        """Return the values that numbers in [-1, 1] stand for."""
        return np.asarray(self.centre + self.half * np.asarray(t, dtype=np.float64))


def standardised(column: Column) -> Standard:
    """Return a column of numbers or dates (in days) on the scale from -1 to 1.

    The ends are the middles of the first and the last bin, public facts of the schema.

    Examples
    --------
    >>> from understudy.schema import Integer
    >>> age = standardised(Integer("age", minimum=0, maximum=4, missing=True))
    >>> age.feature.values
    array([-1. , -0.5,  0. ,  0.5,  1. ,  0. ])
    >>> age.present.values
    array([1., 1., 1., 1., 1., 0.])
    """
    middles = getattr(column, "midpoints", None)
    if middles is None or len(middles) < 2:
        raise BudgetError(f"Column {column.name!r} has no range of numbers to scale.")
    low, high = float(middles[0]), float(middles[-1])
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    t, there = np.zeros(column.size), np.zeros(column.size)
    t[: len(middles)] = np.clip((np.asarray(middles) - centre) / half, -1.0, 1.0)
    there[: len(middles)] = 1.0
    whole = column.size == len(middles)
    present = ONE if whole else Feature(f"{column.name} present", (column.name,), there)
    return Standard(Feature(column.name, (column.name,), t), present, centre, half)


def product_key(left: Feature, right: Feature) -> tuple[Clique, bytes] | None:
    """Return what tells two products apart, or ``None`` for one that is always zero.

    Products over different columns are told apart by their factors; within the same columns, or with the
    constant, by their values.
    """
    if not left.values.any() or not right.values.any():
        return None
    if left.columns == right.columns or not left.columns or not right.columns:
        product = left.values * right.values + 0.0  # no negative zeros, which would differ in their bytes
        if not product.any():
            return None
        return left.columns or right.columns, product.tobytes()
    first, second = sorted([left, right], key=lambda item: item.columns)
    return (*first.columns, "*", *second.columns), first.values.tobytes() + b"*" + second.values.tobytes()
