"""Attacks on our own mechanisms: neighbouring tables, attackers, and lower bounds on what they demonstrate."""

from understudy.audit.exact import audit_exactly
from understudy.audit.hunt import Audit, Effort, Subject, hunt
from understudy.audit.methods import audit_method
from understudy.audit.observers import Pair
from understudy.audit.primitives import PRIMITIVES, audit_primitive
from understudy.audit.releases import audit_release, audit_release_law
from understudy.audit.summary import AuditReport, audit_all, audit_many
from understudy.audit.tables import audit_cells, audit_lines, audit_markdown, audit_parts, audit_summary
from understudy.audit.trials import Claim, Tally, Test, judge

__all__ = [
    "PRIMITIVES",
    "Audit",
    "AuditReport",
    "Claim",
    "Effort",
    "Pair",
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
    "audit_release",
    "audit_release_law",
    "audit_summary",
    "hunt",
    "judge",
]
