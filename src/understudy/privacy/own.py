"""Descriptions of what is charged and drawn, taken over by what they say and not by what they can do."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any, TypeVar, cast

import numpy as np

from understudy.errors import BudgetError
from understudy.privacy.noise.noise import DiscreteGaussian, Gaussian, Laplace, Noise

__all__ = ["own", "own_noise", "plain_value"]

T = TypeVar("T")


def own(value: T, *kinds: type) -> T:
    """Return a description made anew from its fields, or refuse one whose class is not exactly one of the package's own.

    Privacy
    -------
    What a look charges and draws is read off descriptions (noises, units, plans, laws) that mechanisms hand over. A subclass, or an attribute put on one
    object, could say one thing to the ledger and draw another, and so could a number in one of its fields. What is returned here has the fields of the description, each
    made anew as a plain number, text, array or description (:func:`plain_value`), and the methods of its class.

    Examples
    --------
    >>> class Mild(Laplace): ...
    >>> own(Mild(2.0), Laplace)
    Traceback (most recent call last):
    ...
    understudy.errors.BudgetError: A look at the records takes Laplace and no other class, not Mild: what is charged and drawn comes from the package itself.
    """
    if type(value) not in kinds:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise BudgetError(
            f"A look at the records takes {wanted} and no other class, not {type(value).__name__}: what is charged and drawn comes from "
            "the package itself."
        )
    return cast(T, _anew(value))


def _anew(value: Any) -> Any:
    return replace(
        value, **{item.name: plain_value(getattr(value, item.name)) for item in fields(value) if item.init}
    )


def plain_value(value: Any) -> Any:
    """Return a public value of which nothing is left but what it says: numbers, texts and arrays of Python and NumPy themselves, and descriptions of this package made of such.

    Privacy
    -------
    A number of a class of its own may say one thing when a charge is computed from it and another when noise is drawn, and is shown the exact value that it is
    multiplied with or compared to. ``int``, ``float`` and ``numpy.array`` ask it once and return values of the plain classes.

    Raises
    ------
    BudgetError
        If it is none of these.

    Examples
    --------
    >>> class Two(float):
    ...     def __mul__(self, other): return 0.0
    >>> type(plain_value((Two(2.0), 1))[0])
    <class 'float'>
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return np.array(value, subok=False)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, tuple | list):
        return (
            tuple(plain_value(item) for item in value)
            if isinstance(value, tuple)
            else [plain_value(item) for item in value]
        )
    if isinstance(value, Mapping):
        return {plain_value(name): plain_value(value[name]) for name in list(value)}
    if (
        is_dataclass(value)
        and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind
        and kind.__module__.startswith("understudy.")
    ):
        return _anew(value)
    raise BudgetError(
        f"What describes a look at the records is made of numbers, texts, arrays and descriptions of this package, not {kind.__name__}."
    )


def own_noise(noise: Noise) -> Noise:
    """Return a noise made anew from its kind and scale; see :func:`own`."""
    return own(noise, Gaussian, DiscreteGaussian, Laplace)
