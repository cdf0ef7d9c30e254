"""The result of an audit in words and Markdown tables, from the document that ``--out`` writes.

The screen and the Markdown file take every number from here, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from understudy.audit.primitives import PRIMITIVES
from understudy.report import Page, Table, Text, markdown

__all__ = ["audit_cells", "audit_lines", "audit_markdown", "audit_parts", "audit_summary"]

Document = Mapping[str, Any]

_ATTACKED = (("demonstrated", "shown"), ("share", "share"), ("runs", "runs"))
_TABLES: Mapping[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "primitives": (
        "Primitives",
        (("primitive", "subject"), ("pair", "worst pair"), ("claim", "whole claim"), *_ATTACKED),
    ),
    "laws": (
        "Laws computed exactly",
        (
            ("law", "subject"),
            ("unit", "unit"),
            ("claim", "whole claim"),
            ("exact loss", "shown"),
            ("share", "share"),
        ),
    ),
    "releases": (
        "Whole releases",
        (
            ("release", "subject"),
            ("worst pair", "worst pair"),
            ("claim", "whole claim"),
            *_ATTACKED,
            ("best attacker", "best attacker"),
        ),
    ),
    "methods": (
        "Methods",
        (
            ("method", "subject"),
            ("worst pair", "worst pair"),
            ("unit", "unit"),
            ("claim", "whole claim"),
            *_ATTACKED,
            ("best attacker", "best attacker"),
        ),
    ),
}
"""Heading of each table, and its columns: what stands above them, and which cell they hold."""
_NUMBERS = {"shown", "share", "runs"}
_PRIMITIVES = frozenset(item.name for item in PRIMITIVES)


def audit_lines(document: Document) -> list[Mapping[str, Any]]:
    """Return the audits worth a line: the pair that seemed worst for each claim, and every violation."""
    return [audit for audit in document["audits"] if audit["focus"] or audit["violated"]]


def audit_cells(audit: Mapping[str, Any]) -> dict[str, str]:
    """Return one audit as text, by the headings of the table on the screen.

    Examples
    --------
    >>> from understudy.audit import Effort, audit_many
    >>> report = audit_many(["laplace"], effort=Effort(30, 30, 60, 30.0, 30.0), jobs=1)
    >>> cells = audit_cells(audit_lines(report.to_dict())[0])
    >>> cells["subject"], cells["whole claim"], cells["runs"], cells["verdict"]
    ('laplace', 'epsilon 2', '60', 'kept')
    """
    at = f" at delta {audit['delta']:g}" if audit["delta"] else ""
    claimed = f"{audit['claimed']:g}"
    return {
        "subject": audit["name"],
        "worst pair": audit["pair"],
        "unit": audit["unit"].split(" (")[0],
        "claim": f"{audit['kind']}{at}",
        "claimed": claimed,
        "whole claim": f"{audit['kind']} {claimed}{at}",
        "shown": f"{audit['demonstrated']:.2f}",
        "share": f"{audit['demonstrated'] / audit['claimed']:.0%}",
        "runs": "exact" if audit["exact"] else f"{audit['counts']['runs']:,}",
        "best attacker": audit["attacker"],
        "verdict": "VIOLATED" if audit["violated"] else "kept",
    }


def audit_summary(document: Document) -> list[str]:
    """Return what holds for all audits together, one paragraph each; the last says whether there is a violation.

    Examples
    --------
    >>> audit_summary({"audits": [], "seconds": 0.0, "tests": 0, "seed": 1, "violations": 0})[-1]
    'No violation.'
    """
    audits = document["audits"]
    sentences = [
        f"{len(audits):,} audits in {document['seconds']:.0f} s, {document['tests']:,} attackers judged, seed "
        f"{document['seed']}. Shown: lower bounds, each with 95 % confidence where it is not exact, so that about one tight mechanism in "
        "twenty shows a little more than its claim by chance. A violation is more than chance explains in all audits together "
        "(one false alarm in a thousand such reports)."
    ]
    sampled = [audit for audit in audits if not audit["exact"]]
    above = [audit for audit in sampled if audit["demonstrated"] > audit["claimed"]]
    if above:
        worst = max(above, key=lambda audit: float(audit["demonstrated"] / audit["claimed"]))
        sentences.append(
            f"{len(above):,} of {len(sampled):,} bounds lie above their claim, the furthest at {worst['demonstrated']:.2f} for a "
            f"claim of {worst['claimed']:g} ({worst['name']}, {worst['counts']['runs']:,} runs)."
        )
    times = [audit["timing"] for audit in audits if audit["timing"] is not None]
    if times:
        sentences.append(
            f"Wall time of a fit, which no guarantee covers, demonstrates at most {max(times):.2f} by the same measure, "
            f"and nothing in {sum(time == 0 for time in times):,} of {len(times):,} audits."
        )
    found = document["violations"]
    sentences.append(
        f"{found:,} VIOLATIONS: more was demonstrated than claimed." if found else "No violation."
    )
    return sentences


def audit_parts(document: Document) -> dict[str, str]:
    """Return the summary and a table for each part that was audited (primitives, laws, releases, methods), as Markdown.

    Parameters
    ----------
    document
        What ``understudy audit --out`` writes, or ``AuditReport.to_dict()``.

    Examples
    --------
    >>> from understudy.audit import Effort, audit_many
    >>> report = audit_many(["laplace"], effort=Effort(30, 30, 60, 1.0, 1.0), jobs=1)
    >>> list(audit_parts(report.to_dict()))
    ['summary', 'methods']
    """
    summary = "\n\n".join(Text(sentences).markdown() for sentences in audit_summary(document))
    return {"summary": summary} | {part: table.markdown() for part, table in _tables(document).items()}


def audit_markdown(document: Document) -> str:
    """Return a page with the summary and all tables, parts that were not audited left out.

    Examples
    --------
    >>> page = audit_markdown({"audits": [], "seconds": 0.0, "tests": 0, "seed": 1, "violations": 0})
    >>> page.splitlines()[0], page.splitlines()[-1]
    ('# Claimed and demonstrated', 'No violation.')
    """
    lead = [Text(sentences) for sentences in audit_summary(document)]
    sections = [(_TABLES[part][0], [table]) for part, table in _tables(document).items()]
    return markdown(Page("Claimed and demonstrated", sections, lead=lead))


def _tables(document: Document) -> dict[str, Table]:
    lines = audit_lines(document)
    found = {}
    for part, (title, columns) in _TABLES.items():
        rows = [_row(audit, [cell for _, cell in columns]) for audit in lines if _part(audit) == part]
        numeric = [index for index, (_, cell) in enumerate(columns) if cell in _NUMBERS]
        if rows:
            found[part] = Table(title, [head for head, _ in columns], rows, numeric=numeric)
    return found


def _part(audit: Mapping[str, Any]) -> str:
    if audit["exact"]:
        return "laws"
    if audit["name"] in _PRIMITIVES:
        return "primitives"
    return "releases" if audit["name"].startswith("release ") else "methods"


def _row(audit: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    cells = audit_cells(audit)
    if audit["violated"]:
        cells["shown"] += f" {cells['verdict']}"
    return [cells[column] for column in columns]
