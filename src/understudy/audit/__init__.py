"""Attacks on our own mechanisms: neighbouring tables, attackers, and lower bounds on what they demonstrate."""

from understudy.audit.attackers import ATTACKERS, Attacker
from understudy.audit.bounds import demonstrated_epsilon, demonstrated_mu, guessed_epsilon, guessed_mu
from understudy.audit.claims import Claim, claim_of
from understudy.audit.hunt import CONFIDENCE, Audit, Effort, Subject, hunt
from understudy.audit.methods import audit_method, audit_synthesizer
from understudy.audit.pairs import Pair, pairs_for
from understudy.audit.trials import Tally, Test, choose_test, judge

__all__ = [
    "ATTACKERS",
    "CONFIDENCE",
    "Attacker",
    "Audit",
    "Claim",
    "Effort",
    "Pair",
    "Subject",
    "Tally",
    "Test",
    "audit_method",
    "audit_synthesizer",
    "choose_test",
    "claim_of",
    "demonstrated_epsilon",
    "demonstrated_mu",
    "guessed_epsilon",
    "guessed_mu",
    "hunt",
    "judge",
    "pairs_for",
]
