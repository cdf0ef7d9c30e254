"""Attacks on our own mechanisms: neighbouring tables, observers, and lower bounds on what they demonstrate."""

from understudy.audit.auditor import Audit, audit_method, audit_primitives
from understudy.audit.bounds import demonstrated_epsilon, demonstrated_mu
from understudy.audit.pairs import Pair, pairs_for
from understudy.audit.trials import Finding, Trials, judge

__all__ = [
    "Audit",
    "Finding",
    "Pair",
    "Trials",
    "audit_method",
    "audit_primitives",
    "demonstrated_epsilon",
    "demonstrated_mu",
    "judge",
    "pairs_for",
]
