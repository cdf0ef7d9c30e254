"""Trying a mechanism on made-up records before it is paid for.

A fit needs more than a plan: kernels that compile on this machine, packages that can be imported, memory. What is missing
would otherwise show after the first charge, and the budget would be lost. So a mechanism is tried once per process: fitted,
with its usual options, to a few dozen made-up records, and rows are drawn from the result. That takes hundredths of a
second, and what it compiles the fit need not compile again.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from understudy.curator import practice_curator
from understudy.engine import GraphicalModel, try_answering
from understudy.errors import UnderstudyError, UnusableMethod
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, Unit
from understudy.schema import Schema

if TYPE_CHECKING:
    from understudy.synthesizers.base import Synthesizer

__all__ = ["try_out", "widths_of"]

_ROWS = 64
_BUDGETS: dict[type, Budget] = {
    PureDP: PureDP(4.0),
    ApproxDP: ApproxDP(4.0, 1e-6),
    ZCDP: ZCDP(1.0),
    GDP: GDP(1.0),
}
_MIXED = """
columns:
  - {name: colour, kind: categorical, values: [red, green, blue], missing: true}
  - {name: size, kind: ordinal, values: [small, middle, large]}
  - {name: age, kind: integer, bins: {edges: [0, 18, 40, 65, 100]}}
  - {name: smokes, kind: boolean}
constraints: ["not (age < 18 and smokes == true)"]
"""
_BINARY = """
columns: [{name: home, kind: boolean}, {name: car, kind: boolean}, {name: garden, kind: boolean}]
"""
_SINGLE = """
columns: [{name: wait, kind: real, minimum: 0, maximum: 64, bins: 64}]
"""
_WIDE = """
columns:
  - {name: code, kind: integer, minimum: 0, maximum: MAXIMUM}
  - {name: smokes, kind: boolean}
"""


@cache
def _schema(text: str) -> Schema:
    return Schema.parse(text)


def widths_of(schema: Schema) -> frozenset[int]:
    """Return the bytes per code of the columns of a schema: kernels are compiled for each width by itself."""
    return frozenset(1 if size <= 1 << 8 else 2 if size <= 1 << 16 else 4 for size in schema.domain.sizes)


_tried: set[tuple[type, type, int]] = set()


def try_out(method: Synthesizer, schema: Schema, budget: Budget) -> None:
    """Fit a mechanism to made-up records and draw from the result, unless this process did that already.

    Raises
    ------
    UnusableMethod
        If that fails: this installation or machine cannot run the mechanism. Nothing was charged.
    """
    trial = method.trial()
    if trial is None:
        return
    kind = next(kind for kind in _BUDGETS if isinstance(budget, kind))
    for width in sorted(widths_of(schema)):
        if (type(method), kind, width) in _tried:
            continue
        try:
            _try(trial, _BUDGETS[kind], width)
        except Exception as error:
            raise UnusableMethod(
                f"{method.name} does not work here: a trial on made-up records ended in {type(error).__name__} "
                f"({error}). Nothing was charged. Repair the installation, or choose another method."
            ) from error
        _tried.add((type(method), kind, width))


def _try(trial: Synthesizer, budget: Budget, width: int) -> None:
    if width > 1:
        made_up = _schema(_WIDE.replace("MAXIMUM", str(300 if width == 2 else 1 << 16)))
        if not _fitted(trial, made_up, budget):  # its tables are counted, whatever else is done with them
            curator = practice_curator(made_up, rows=_ROWS, unit=Unit.add_remove(), budget=budget)
            curator.counts_many([("code",), ("code", "smokes")])
        return
    for text in (_MIXED, _BINARY, _SINGLE):
        if _fitted(trial, _schema(text), budget):
            return


def _fitted(trial: Synthesizer, made_up: Schema, budget: Budget) -> bool:
    """Fit and draw, or say that this is no table of the kind that the mechanism serves."""
    unit = Unit.add_remove()
    try:
        trial.plan(made_up, unit=unit, budget=budget)
    except UnderstudyError:
        return False
    reserve = trial.reserve(made_up, budget)
    curator = practice_curator(made_up, rows=_ROWS, unit=unit, budget=budget, approximate_delta=reserve)
    model = trial._fit_model(curator, budget)
    model.sample(_ROWS, seed=0)
    if isinstance(model.distribution, GraphicalModel):
        try_answering()
    return True
