"""Many audits together: run them on several processors, correct for their number, and write down what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed

from understudy.audit.exact import audit_exactly
from understudy.audit.hunt import CONFIDENCE, Audit, Effort
from understudy.audit.methods import audit_method
from understudy.audit.primitives import PRIMITIVES, audit_primitive
from understudy.audit.releases import LOOP, PATIENT, SINGLE, audit_release, audit_release_law
from understudy.audit.tables import audit_markdown
from understudy.mechanisms import methods
from understudy.release.spec.spec import Spec
from understudy.report import Verdict, audit_chart

__all__ = ["ALPHA", "AuditReport", "audit_all", "audit_many"]

Progress = Callable[[str, float], None]

ALPHA = 0.001
"""Chance that a report on mechanisms that keep all their claims speaks of a violation."""


@dataclass(frozen=True)
class AuditReport:
    """Everything that one command audited.

    Attributes
    ----------
    audits
        All of them, in order.
    seed, effort
        What is needed to make the same choices again; the privacy noise itself takes no seed.
    seconds
        Wall time of the whole.
    """

    audits: tuple[Audit, ...]
    seed: int
    effort: Effort
    seconds: float

    @property
    def headlines(self) -> list[Audit]:
        """One audit for each mechanism and claim: the pair that seemed worst before it was judged."""
        return [audit for audit in self.audits if audit.focus]

    @property
    def violations(self) -> list[Audit]:
        """Audits that demonstrate more than the claim, corrected for how many attackers were judged."""
        return [audit for audit in self.audits if audit.violates(self.tests, alpha=ALPHA)]

    @property
    def tests(self) -> int:
        """How many attackers were judged in all audits."""
        return sum(audit.tests for audit in self.audits)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "confidence": CONFIDENCE,
            "family_alpha": ALPHA,
            "tests": self.tests,
            "violations": len(self.violations),
            "seed": self.seed,
            "effort": vars(self.effort),
            "seconds": round(self.seconds, 1),
            "audits": [
                audit.to_dict() | {"violated": audit.violates(self.tests, alpha=ALPHA)}
                for audit in self.audits
            ],
        }

    def chart(self) -> str:
        """Return claimed against demonstrated as an SVG picture."""
        bad = {id(audit) for audit in self.violations}
        verdicts = [
            Verdict(
                f"{audit.name}: {audit.claim.kind}, {audit.pair}",
                audit.demonstrated / audit.claim.value,
                id(audit) in bad,
            )
            for audit in self.headlines
        ]
        caption = "Share of the claim that an attack demonstrates with 95 % confidence; red: beyond chance."
        return audit_chart("Claimed and demonstrated", verdicts, note=caption)

    def markdown(self) -> str:
        """Return the summary and the tables as Markdown."""
        return audit_markdown(self.to_dict())


Job = tuple[str, Callable[..., Any], Mapping[str, Any]]


def audit_many(
    names: Sequence[str],
    *,
    specs: Sequence[Spec] = (),
    primitives: bool = False,
    options: Mapping[str, Any] | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    jobs: int = 2,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit registered mechanisms, specifications and the curator's primitives.

    Parameters
    ----------
    names, options
        Mechanisms, and options for them; by default those under which each shows most.
    specs
        Specifications to run end to end.
    primitives
        Whether to audit the ways of opening a seal and the laws that can be computed.
    seed
        Written into the report.
    jobs
        Processes.

    Examples
    --------
    >>> report = audit_many(["laplace"], effort=Effort(30, 30, 60, 1.0, 1.0), jobs=1)
    >>> len(report.headlines), len(report.violations)
    (2, 0)
    """
    start = time.perf_counter()
    chosen = effort or Effort.quick()
    work: list[Job] = []
    if primitives:
        work.append(("exact laws", audit_exactly, {}))
        work += [
            ("law of a release", audit_release_law, {"spec": Spec.parse(text)}) for text in (LOOP, PATIENT)
        ]
        work += [
            (item.name, audit_primitive, {"primitive": item, "runs": 10 * chosen.focus, "seed": seed + index})
            for index, item in enumerate(PRIMITIVES)
        ]
    work += [
        (spec.name, audit_release, {"spec": spec, "effort": chosen.of_releases(), "seed": seed})
        for spec in specs
    ]
    work += [
        (name, audit_method, {"name": name, "options": options, "effort": chosen, "seed": seed})
        for name in names
    ]
    found: list[Audit] = []
    running = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(function)(**arguments) for _, function, arguments in work
    )
    for index, (job, result) in enumerate(zip(work, running, strict=True)):
        found += [result] if isinstance(result, Audit) else list(result)
        if progress is not None:
            progress(job[0], (index + 1) / len(work))
    return AuditReport(tuple(found), seed, chosen, time.perf_counter() - start)


def audit_all(
    *, effort: Effort | None = None, seed: int = 0, jobs: int = 2, progress: Progress | None = None
) -> AuditReport:
    """Audit every primitive, every registered mechanism and two whole releases."""
    return audit_many(
        [item.name for item in methods()],
        specs=[Spec.parse(LOOP), Spec.parse(SINGLE)],
        primitives=True,
        effort=effort,
        seed=seed,
        jobs=jobs,
        progress=progress,
    )
