"""Units, budgets, events, accountings, the ledger, and exact noise."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from understudy.privacy._numbers import float_down, float_up, sqrt_up
from understudy.privacy.accounting import (
    ACCOUNTINGS,
    GDP_ACCOUNTING,
    PURE,
    ZCDP_ACCOUNTING,
    Accounting,
    accounting_for,
    accounting_named,
    delta_of,
)
from understudy.privacy.anchors import Anchor, anchor_in, anchors_near
from understudy.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP, budget_from_dict
from understudy.privacy.condition import Condition, condition_of, rows_rule
from understudy.privacy.conversions import (
    approx_to_gdp,
    approx_to_zcdp,
    bounded_range_to_gdp,
    bounded_range_to_zcdp,
    gdp_delta,
    gdp_to_approx,
    group_privacy,
    pure_to_gdp,
    pure_to_zcdp,
    zcdp_delta,
    zcdp_to_approx,
)
from understudy.privacy.events import (
    AllowanceEvent,
    ApproxEvent,
    Approximated,
    Composed,
    Event,
    GaussianEvent,
    InsideEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    ZcdpEvent,
    act_of,
    event_from_dict,
)
from understudy.privacy.facts import Facts, bind_facts, check_facts, fingerprint_of, remember_facts
from understudy.privacy.filter import Filter, Spending, budget_for, filter_of
from understudy.privacy.guarantee import Guarantee, guarantee_of, tightest
from understudy.privacy.invariants import NO_CONSENT, Consent, check_rows, copy_invariants, declare_rows
from understudy.privacy.known_ledgers import KnownLedger, KnownLedgers, known_ledgers
from understudy.privacy.ledger import (
    Entry,
    FactsRecord,
    Invariant,
    Ledger,
    LedgerGuarantee,
    TotalChange,
)
from understudy.privacy.paying import paying_ledger
from understudy.privacy.unit import Relation, Unit

if TYPE_CHECKING:
    from understudy.privacy.count_models import (
        CountLaw,
        UrnPrior,
        draw_counts,
        draw_urn,
        largest_count,
        probabilistic_delta,
        released_delta,
        solve_alpha,
        solve_law,
        true_delta,
    )
    from understudy.privacy.noise import (
        DiscreteGaussian,
        Gaussian,
        Geometric,
        Laplace,
        Noise,
        noise_for,
        noise_within,
    )
    from understudy.privacy.noise_opendp import OpenDPRandomness
    from understudy.privacy.randomness import Randomness, SeededRandomness, SystemRandomness, below_many
    from understudy.privacy.selection import exponential_law, exponential_mechanism, permute_and_flip
    from understudy.privacy.subsampled import (
        approximated,
        approximated_delta,
        subsampled_noise,
        subsampled_steps,
    )

__all__ = [
    "ACCOUNTINGS",
    "GDP",
    "GDP_ACCOUNTING",
    "NO_CONSENT",
    "PURE",
    "ZCDP",
    "ZCDP_ACCOUNTING",
    "Accounting",
    "AllowanceEvent",
    "Anchor",
    "ApproxDP",
    "ApproxEvent",
    "Approximated",
    "Budget",
    "Composed",
    "Condition",
    "Consent",
    "CountLaw",
    "DiscreteGaussian",
    "Entry",
    "Event",
    "Facts",
    "FactsRecord",
    "Filter",
    "Gaussian",
    "GaussianEvent",
    "Geometric",
    "Guarantee",
    "InsideEvent",
    "Invariant",
    "KnownLedger",
    "KnownLedgers",
    "Laplace",
    "LaplaceEvent",
    "Ledger",
    "LedgerGuarantee",
    "Noise",
    "OpenDPRandomness",
    "Parallel",
    "PureDP",
    "PureEvent",
    "Randomness",
    "Relation",
    "SeededRandomness",
    "SelectionEvent",
    "Spending",
    "SubsampledGaussianEvent",
    "SystemRandomness",
    "TotalChange",
    "Unit",
    "UrnPrior",
    "ZcdpEvent",
    "accounting_for",
    "accounting_named",
    "act_of",
    "anchor_in",
    "anchors_near",
    "approx_to_gdp",
    "approx_to_zcdp",
    "approximated",
    "approximated_delta",
    "below_many",
    "bind_facts",
    "bounded_range_to_gdp",
    "bounded_range_to_zcdp",
    "budget_for",
    "budget_from_dict",
    "check_facts",
    "check_rows",
    "condition_of",
    "copy_invariants",
    "declare_rows",
    "delta_of",
    "draw_counts",
    "draw_urn",
    "event_from_dict",
    "exponential_law",
    "exponential_mechanism",
    "filter_of",
    "fingerprint_of",
    "float_down",
    "float_up",
    "gdp_delta",
    "gdp_to_approx",
    "group_privacy",
    "guarantee_of",
    "known_ledgers",
    "largest_count",
    "noise_for",
    "noise_within",
    "paying_ledger",
    "permute_and_flip",
    "probabilistic_delta",
    "pure_to_gdp",
    "pure_to_zcdp",
    "released_delta",
    "remember_facts",
    "rows_rule",
    "solve_alpha",
    "solve_law",
    "sqrt_up",
    "subsampled_noise",
    "subsampled_steps",
    "tightest",
    "true_delta",
    "zcdp_delta",
    "zcdp_to_approx",
]

# Compiled samplers are imported when first asked for, so that reading a ledger stays quick.
_LAZY = {
    "CountLaw": "count_models",
    "DiscreteGaussian": "noise",
    "Gaussian": "noise",
    "Geometric": "noise",
    "Laplace": "noise",
    "Noise": "noise",
    "OpenDPRandomness": "noise_opendp",
    "Randomness": "randomness",
    "SeededRandomness": "randomness",
    "SystemRandomness": "randomness",
    "UrnPrior": "count_models",
    "approximated": "subsampled",
    "approximated_delta": "subsampled",
    "below_many": "randomness",
    "draw_counts": "count_models",
    "draw_urn": "count_models",
    "exponential_law": "selection",
    "exponential_mechanism": "selection",
    "largest_count": "count_models",
    "noise_for": "noise",
    "noise_within": "noise",
    "permute_and_flip": "selection",
    "probabilistic_delta": "count_models",
    "released_delta": "count_models",
    "solve_law": "count_models",
    "solve_alpha": "count_models",
    "subsampled_noise": "subsampled",
    "subsampled_steps": "subsampled",
    "true_delta": "count_models",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
