"""Units, budgets, events, accountings, the ledger, and exact noise."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from understudy.privacy.accounting.accounting import Accounting, accounting_for, accounting_named
from understudy.privacy.accounting.conversions import group_privacy
from understudy.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP, budget_from_dict
from understudy.privacy.events import Event, event_from_dict
from understudy.privacy.guarantee import Guarantee, guarantee_of
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Relation, Unit

if TYPE_CHECKING:
    from understudy.privacy.noise.noise import (
        DiscreteGaussian,
        Gaussian,
        Geometric,
        Laplace,
        Noise,
        noise_for,
    )
    from understudy.privacy.noise.randomness import SeededRandomness, SystemRandomness

__all__ = [
    "GDP",
    "ZCDP",
    "Accounting",
    "ApproxDP",
    "Budget",
    "DiscreteGaussian",
    "Event",
    "Gaussian",
    "Geometric",
    "Guarantee",
    "Laplace",
    "Ledger",
    "Noise",
    "PureDP",
    "Relation",
    "SeededRandomness",
    "SystemRandomness",
    "Unit",
    "accounting_for",
    "accounting_named",
    "budget_from_dict",
    "event_from_dict",
    "group_privacy",
    "guarantee_of",
    "noise_for",
]

# Compiled samplers are imported when first asked for, so that reading a ledger stays quick.
_LAZY = {
    "DiscreteGaussian": "understudy.privacy.noise.noise",
    "Gaussian": "understudy.privacy.noise.noise",
    "Geometric": "understudy.privacy.noise.noise",
    "Laplace": "understudy.privacy.noise.noise",
    "Noise": "understudy.privacy.noise.noise",
    "SeededRandomness": "understudy.privacy.noise.randomness",
    "SystemRandomness": "understudy.privacy.noise.randomness",
    "noise_for": "understudy.privacy.noise.noise",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
