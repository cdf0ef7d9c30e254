"""Attacks on our own mechanisms: neighbouring tables, attackers, and lower bounds on what they demonstrate."""

from understudy.audit.exact import audit_exactly, exact_epsilon
from understudy.audit.hunt import ATTACKERS, CONFIDENCE, Attacker, Audit, Effort, Subject, hunt
from understudy.audit.methods import audit_method, audit_synthesizer
from understudy.audit.observers import Pair, pairs_for
from understudy.audit.primitives import PRIMITIVES, Primitive, audit_primitive, audit_primitives
from understudy.audit.release_law import ReleaseLaw, audit_release_law, release_law
from understudy.audit.releases import audit_release, neighbour_frames
from understudy.audit.summary import AuditReport, audit_all, audit_many
from understudy.audit.tables import audit_cells, audit_lines, audit_markdown, audit_parts, audit_summary
from understudy.audit.trials import (
    Claim,
    Tally,
    Test,
    choose_test,
    claim_of,
    demonstrated_epsilon,
    demonstrated_mu,
    guessed_epsilon,
    guessed_mu,
    judge,
)

__all__ = [
    "ATTACKERS",
    "CONFIDENCE",
    "PRIMITIVES",
    "Attacker",
    "Audit",
    "AuditReport",
    "Claim",
    "Effort",
    "Pair",
    "Primitive",
    "ReleaseLaw",
    "Subject",
    "Tally",
    "Test",
    "audit_all",
    "audit_cells",
    "audit_exactly",
    "audit_lines",
    "audit_many",
    "audit_markdown",
    "audit_method",
    "audit_parts",
    "audit_primitive",
    "audit_primitives",
    "audit_release",
    "audit_release_law",
    "audit_summary",
    "audit_synthesizer",
    "choose_test",
    "claim_of",
    "demonstrated_epsilon",
    "demonstrated_mu",
    "exact_epsilon",
    "guessed_epsilon",
    "guessed_mu",
    "hunt",
    "judge",
    "neighbour_frames",
    "pairs_for",
    "release_law",
]
