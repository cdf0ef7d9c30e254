"""One fit: from a table to its model and its stand-in, paid for by the ledger of the table.

:mod:`~understudy.workflow.synthesis.fits` says what is fitted, :mod:`~understudy.workflow.synthesis.planning` checks it and finds the ledger,
:mod:`~understudy.workflow.synthesis.running` reads, fits and delivers.
"""

from understudy.workflow.synthesis.fits import Fit, described_by, mechanism_for, reason_for
from understudy.workflow.synthesis.planning import plan_synthesis, synthesize
from understudy.workflow.synthesis.running import PlannedSynthesis, Synthesis

__all__ = [
    "Fit",
    "PlannedSynthesis",
    "Synthesis",
    "described_by",
    "mechanism_for",
    "plan_synthesis",
    "reason_for",
    "synthesize",
]
