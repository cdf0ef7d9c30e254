"""The curator's primitives on their worst cases: one number comes out, so attackers can be nearly perfect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.privacy import GDP, Budget, Gaussian, Laplace, Ledger, PureDP, Unit
from understudy.schema import Schema

__all__ = ["PRIMITIVES", "Primitive"]

Draws = npt.NDArray[np.float64]

_SCHEMA = Schema.parse("{name: audit, columns: [{name: a, kind: boolean}]}")
_MANY = 1 << 30
"""Charges of an audit's ledger: enough for any number of runs."""


@dataclass(frozen=True)
class Primitive:
    """One way of opening a seal, with what one use claims.

    Attributes
    ----------
    draw
        ``draw(which, runs)`` returns released numbers on the first (0) or second (1) of two neighbours.
    """

    name: str
    pair: str
    unit: Unit
    budget: Budget
    draw: Callable[[int, int], Draws]


def _curator(rows: list[int], unit: Unit, budget: Budget) -> Curator:
    table = LocalTable(_SCHEMA, {"a": np.array(rows, dtype=np.int64)})
    # so large a ledger that every run can be charged: each run is audited for its own claim
    whole: Budget = PureDP(float(_MANY)) if isinstance(budget, PureDP) else GDP(float(_MANY))
    return Curator(table, unit=unit, ledger=Ledger.in_memory(budget=whole, unit=unit, table="audit"))


def _laplace_count(which: int, runs: int) -> Draws:
    """One record or none: the count moves by the whole sensitivity."""
    box = _curator([[1], []][which], Unit.add_remove(), PureDP(1.0))
    return _measured(box, Laplace(1.0), runs)


def _laplace_replaced(which: int, runs: int) -> Draws:
    """A replaced record moves two cells: the likelihood ratio adds up over both."""
    box = _curator([[1], [0]][which], Unit.replace_one(), PureDP(1.0))
    sealed = box.counts(("a",))
    out = np.empty(runs)
    for start in range(0, runs, 1000):
        many = min(1000, runs - start)
        values = [m.values for m in box.measure_many([sealed] * many, noise=[Laplace(2.0)] * many)]
        table = np.array(values)
        ratio = np.abs(table - [1.0, 0.0]).sum(axis=1) - np.abs(table - [0.0, 1.0]).sum(axis=1)
        out[start : start + many] = ratio
    return out


def _measured(box: Curator, noise: Laplace | Gaussian, runs: int) -> Draws:
    sealed = box.counts(("a",))
    out = np.empty(runs)
    for start in range(0, runs, 1000):
        many = min(1000, runs - start)
        batch = box.measure_many([sealed] * many, noise=[noise] * many)
        out[start : start + many] = [item.values[1] for item in batch]
    return out


def _gaussian_count(which: int, runs: int) -> Draws:
    box = _curator([[1], []][which], Unit.add_remove(), GDP(1.0))
    return _measured(box, Gaussian(1.0), runs)


def _exponential_choice(which: int, runs: int) -> Draws:
    """Two candidates whose scores move in opposite directions by the whole sensitivity."""
    box = _curator([[1], [0]][which], Unit.replace_one(), PureDP(1.0))
    counts = box.counts(("a",))
    scores = [counts.sum([0.0, 1.0]), counts.sum([1.0, 0.0])]
    return np.array([box.choose(scores, epsilon=1.0, purpose="audit") for _ in range(runs)], dtype=np.float64)


def _permute_and_flip(which: int, runs: int) -> Draws:
    box = _curator([[1], [0]][which], Unit.replace_one(), PureDP(1.0))
    counts = box.counts(("a",))
    scores = [counts.sum([0.0, 1.0]), counts.sum([1.0, 0.0])]
    found = [
        box.choose(scores, epsilon=1.0, purpose="audit", mechanism="permute-and-flip") for _ in range(runs)
    ]
    return np.array(found, dtype=np.float64)


def _threshold_test(which: int, runs: int) -> Draws:
    box = _curator([[1], []][which], Unit.add_remove(), PureDP(1.0))
    sealed = box.counts(()).sum()
    found = [box.test(sealed, above=0.5, epsilon=1.0, purpose="audit") for _ in range(runs)]
    return np.array(found, dtype=np.float64)


def _scalar(which: int, runs: int) -> Draws:
    box = _curator([[1], []][which], Unit.add_remove(), PureDP(1.0))
    sealed = box.counts(()).sum()
    out = np.empty(runs)
    for start in range(0, runs, 1000):
        many = min(1000, runs - start)
        out[start : start + many] = box.measure_scalars(
            [sealed] * many, noise=[Laplace(1.0)] * many, purpose="audit"
        )
    return out


_ADD, _REPLACE = Unit.add_remove(), Unit.replace_one()
PRIMITIVES = (
    Primitive("Laplace noise on a count", "one record or none", _ADD, PureDP(1.0), _laplace_count),
    Primitive("Laplace noise on a marginal", "a replaced record", _REPLACE, PureDP(1.0), _laplace_replaced),
    Primitive("Gaussian noise on a count", "one record or none", _ADD, GDP(1.0), _gaussian_count),
    Primitive("Laplace noise on a number", "one record or none", _ADD, PureDP(1.0), _scalar),
    Primitive("exponential mechanism", "a replaced record", _REPLACE, PureDP(1.0), _exponential_choice),
    Primitive("permute-and-flip", "a replaced record", _REPLACE, PureDP(1.0), _permute_and_flip),
    Primitive("threshold test", "one record or none", _ADD, PureDP(1.0), _threshold_test),
)
"""Every way of opening a seal that releases one number."""
