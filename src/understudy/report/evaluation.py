"""The page of an evaluation without a budget: exact numbers, and a warning that never leaves the screen."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from understudy.report.page import Block, Html, Page, Table, Text, render

__all__ = ["evaluation_page"]


def evaluation_page(found: Mapping[str, Any], *, title: str) -> str:
    """Return the page of an evaluation, given as plain values (``Evaluation.to_dict()``).

    It is red where the report of a release is blue, and carries the warning on every printed page.

    Examples
    --------
    >>> text = evaluation_page({"warning": "Private.", "rows": {"real": 2, "synthetic": 2}, "sections": [],
    ...                         "left_out": []}, title="births")
    >>> "Private." in text
    True
    """
    sections: list[tuple[str, list[Block]]] = [("At a glance", [Html(_cards(found))])]
    for section in found["sections"]:
        blocks: list[Block] = [Text(section.get("about", ""))] if section.get("about") else []
        blocks.append(_summary(section))
        blocks += [_details(result) for result in section["results"] if len(result["values"]) > 1]
        sections.append((section["title"].capitalize(), blocks))
    if found["left_out"]:
        sections.append(("Not computed", [Text(reason) for reason in found["left_out"]]))
    sections.append(
        (
            "How to read this",
            [
                Text(
                    "A failed attack proves nothing about privacy, and neither does the distance of synthetic records to "
                    "their closest real record: both depend on the attacker one thought of. The guarantee of a release "
                    "is its ledger and its certificate."
                ),
                Text("Total variation is half the sum of absolute differences of two distributions."),
            ],
        )
    )
    rows = found["rows"]
    return render(
        Page(
            title=f"{title}: evaluation against the real records",
            subtitle=f"{rows['real']:,} real and {rows['synthetic']:,} synthetic rows",
            sections=sections,
            banner=found["warning"],
            accent="#8f2323",
            accent_dark="#f0a3a3",
        )
    )


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0


def _cards(found: Mapping[str, Any]) -> str:
    """Return the few numbers people ask for first."""
    wanted = {
        "k-marginal score": "k-marginal score (of 1000)",
        "total variation of 1-way marginals": "average total variation, one column",
        "total variation of 2-way marginals": "average total variation, two columns",
        "telling synthetic from real records": "share of records told apart (half is chance)",
    }
    results = {item["measure"]: item for section in found["sections"] for item in section["results"]}
    cards = [
        f"<li><b>{_mean(results[name]['values']):.4g}</b>{escape(label)}</li>"
        for name, label in wanted.items()
        if name in results
    ]
    return f'<ul class="cards">{"".join(cards)}</ul>'


def _summary(section: Mapping[str, Any]) -> Table:
    rows = []
    for result in section["results"]:
        values = result["values"]
        pick = max if result["better"] == "lower" else min
        name, worst = pick(values.items(), key=lambda item: item[1])
        rows.append([result["measure"], f"{_mean(values):.4g}", f"{worst:.4g}", name, result["better"]])
    return Table(
        f"Summary of {section['title']}",
        ("measure", "average", "worst", "where", "better is"),
        rows,
        numeric=(1, 2),
    )


def _details(result: Mapping[str, Any]) -> Table:
    ordered = sorted(result["values"].items(), key=lambda item: item[1], reverse=result["better"] == "lower")
    return Table(
        result["measure"].capitalize(),
        ("of", "value"),
        [[name, f"{value:.5g}"] for name, value in ordered],
        numeric=(1,),
        searchable=len(ordered) > 12,
        open_at=8,
    )
