"""The application layer: everything that happens around one fit or one release, for the command line, the estimator and notebooks alike.

:func:`advise` says beforehand what to expect, :func:`synthesize` does what ``understudy synth`` does, :func:`publish` what ``understudy release`` does. (The second is not called
``release`` because that is the package with the parts of a release: one name for both would depend on what was imported before.)

Both go in two steps. *Planning* checks everything that can be checked without the records, makes the plan of the fit once and finds the ledger;
no ledger is made and nothing is spent. *Running* compares the owner's facts with the ledger, reads the table, fits, and delivers. What was paid for is
kept beside the ledger until it is delivered (:mod:`understudy.workflow.paid`, :mod:`understudy.release.run.state`): the same call after an interruption
goes on and pays for nothing twice, and where the output cannot be written the error says where the fitted model is kept.
"""

from understudy.workflow.advice import advise
from understudy.workflow.assessment import evaluate
from understudy.workflow.choice import AUTO, Choice, choose
from understudy.workflow.delivery import Delivery, check_memory
from understudy.workflow.learning import discover_schema, plan_discover
from understudy.workflow.paid import Unfinished
from understudy.workflow.payment import Payment
from understudy.workflow.publication import (
    Measured,
    Publication,
    is_accepted,
    measure_errors,
    plan_publication,
    publish,
)
from understudy.workflow.synthesis import (
    Fit,
    PlannedSynthesis,
    Synthesis,
    described_by,
    mechanism_for,
    plan_synthesis,
    reason_for,
    synthesize,
)

__all__ = [
    "AUTO",
    "Choice",
    "Delivery",
    "Fit",
    "Measured",
    "Payment",
    "PlannedSynthesis",
    "Publication",
    "Synthesis",
    "Unfinished",
    "advise",
    "check_memory",
    "choose",
    "described_by",
    "discover_schema",
    "evaluate",
    "is_accepted",
    "measure_errors",
    "mechanism_for",
    "plan_discover",
    "plan_publication",
    "plan_synthesis",
    "publish",
    "reason_for",
    "synthesize",
]
