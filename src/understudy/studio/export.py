"""A design as one page to send around: it opens without a network and needs no studio."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from understudy.release.approvals import approvals_beside
from understudy.report.page import Block, Bullets, Heading, Html, Page, Table, Text, render
from understudy.studio.designs.pages import Saved, follow
from understudy.studio.desk import Desk
from understudy.studio.folder import Folder
from understudy.studio.security import Gate

__all__ = ["download", "export_design", "page_of"]


def download(desk: Desk, request: Request) -> Response:
    """Offer the page as a file."""
    name = desk.folder.checked(request.path_params["name"])
    return Response(
        page_of(desk, name),
        media_type="text/html; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.html"'},
    )


def export_design(root: Path, name: str) -> str:
    """Return the page of a design of a folder; nothing is served and nothing is written."""
    return page_of(Desk(Folder(root), Gate(0)), name)


def page_of(desk: Desk, name: str) -> str:
    """Return a design with everything that follows from it as one HTML document."""
    saved = Saved(desk, name)
    spec = saved.require_spec()
    found = follow(desk, name, spec, saved.notes, links=False)
    chance = found.acceptance
    accepted: list[Block] = []
    if chance.kind == "none":
        accepted.append(
            Text("Not rehearsed yet: nothing is known about how probably a candidate is accepted.")
        )
    else:
        accepted.append(
            Text(
                f"A candidate is accepted with a probability of about {chance.probability:.0%} (between {chance.low:.0%} and {chance.high:.0%}, "
                f"{chance.trials} trials on {found.table_words}).",
                strong=True,
            )
        )
        if chance.kind == "estimate":
            accepted.append(
                Text(
                    "Estimated from candidates that were rehearsed under other thresholds; the noise of the test is left out."
                )
            )
        accepted.append(
            Text(
                "The interval covers the noise of attempts, not how the public table differs from the private one."
            )
        )
    if found.frontier:
        accepted += [
            Html(found.frontier, "Probability of acceptance by total epsilon; this design in another colour"),
            Table(
                "Acceptance by total epsilon",
                ("total epsilon", "accepted", "from", "to"),
                [
                    [f"{item['epsilon']:g}", *(f"{item[part]:.0%}" for part in ("acceptance", "low", "high"))]
                    for item in found.points
                ],
                numeric=(0, 1, 2, 3),
            ),
        ]
    accepted += [Heading("What a rejection costs"), *map(Text, found.rejection)]
    quality: list[Block] = [
        Text(found.model),
        Table(
            "From public facts: rows that noise would move if all marginals of a size were measured with the model's budget",
            ("marginals of", "noise would move"),
            found.noise,
        ),
    ]
    if found.errors:
        quality.append(
            Table(
                "Share of the rows in a wrong cell, on made-up tables of this shape (between what it lies on nine of ten tables)",
                ("marginals of", "expected error", "within 20 % in nine of ten cases"),
                found.errors,
            )
        )
    said_about: list[Block] = [Heading("Comments")] if saved.notes.comments else []
    approvals = [said.describe() for said in approvals_beside(saved.path) if said.hash == found.hash]
    said = [item.describe() for item in saved.notes.comments]
    if said:
        said_about.append(Bullets(said))
    page = Page(
        f"{spec.title or spec.name}: a design",
        [
            (
                "What it promises",
                [
                    Text(f"{found.guarantee}.", strong=True),
                    *([Text(found.plan.condition)] if found.plan.condition else []),
                    Text(f"For a person in the data: {found.odds}."),
                    Html(found.curve, "The best possible attack, against a coin toss"),
                    Text(found.registry),
                ],
            ),
            (
                "Where the budget goes",
                [*([Html(found.budget)] if found.budget else []), Text(f"{found.split}.")],
            ),
            ("How probably a table is published", accepted),
            (
                "What must be right",
                [
                    Text(found.plan.acceptance),
                    Table(
                        "Criteria",
                        ("criterion", "of what", "threshold", "noise", "rehearsed error", "what that means"),
                        [
                            [row[part] for part in ("name", "type", "threshold", "noise", "error", "judged")]
                            for row in found.criteria
                        ],
                    ),
                ],
            ),
            ("How good the table will be", quality),
            (
                "What is treated as public",
                [
                    Bullets(
                        [
                            f"{key}: {'; '.join(map(str, fact)) if isinstance(fact, list) else fact}"
                            for key, fact in spec.public_facts().items()
                            if fact
                        ]
                    ),
                    Table(
                        "Columns",
                        ("column", "kind", "values", "unit", "meaning"),
                        [
                            [item.name, item.kind, f"{item.size:,}", item.unit or "", item.description or ""]
                            for item in spec.schema.columns
                        ],
                        numeric=(2,),
                        searchable=len(spec.schema.columns) > 30,
                    ),
                ],
            ),
            (
                "Who agreed",
                [
                    Bullets(approvals) if approvals else Text("Nobody has approved this version yet."),
                    *said_about,
                    Text(f"Hash of the specification: {found.hash}"),
                ],
            ),
        ],
        lead=[Text(spec.description.strip())] if spec.description.strip() else [],
        subtitle="A release that is being discussed. No record was read for this page.",
    )
    return render(page)
