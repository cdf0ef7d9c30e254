"""The report of a release: what stakeholders, data users and reviewers read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from html import escape

from understudy.report.page import ENGLISH, Block, Bullets, Html, Page, Table, Text, Texts, render
from understudy.report.pictures import Share, Whiskers, budget_bar, comparison_panels, heat_table, trade_off

__all__ = ["ReportContent", "chance", "release_page"]

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class ReportContent:
    """Everything the report shows, computed from a published bundle. All of it is public.

    Attributes
    ----------
    guarantee
        The promise in a few signs, such as ``epsilon = 1``.
    certainty
        Chance with which the limits of single outcomes hold, as words; empty if they always do.
    allowed
        What the release might have spent, in a few signs; empty if that is the promise.
    right_guess
        Largest chance of guessing right whether somebody is in the data, where the guess was a coin's before.
    odds
        For an attacker's confidence before: the least and the most it can be afterwards, and the most it usually is.
    curve
        Best true-positive rate by false-positive rate.
    condition
        What the promise presumes because exact numbers about the real table are public; empty if nothing.
    shares, total, accounting, symbol
        Who spent what, of how much.
    slack
        Scale, threshold and chance of a false accept of the pass-only test, as words; None in the published form.
    panels, pairs
        Columns, and pairs of columns (title, labels down, labels across, differences).
    bounds
        Columns, kind and bound; ``confidence`` as words.
    rare
        Column, value and bound of values that cannot be told from values without any row.
    """

    title: str
    description: str
    rows: int
    columns: int
    guarantee: str
    unit: str
    certainty: str = ""
    allowed: str = ""
    right_guess: float
    odds: Sequence[tuple[float, float, float, float]]
    curve: Sequence[tuple[float, float]]
    condition: str = ""
    public_facts: Sequence[str]
    shares: Sequence[Share]
    total: float
    accounting: str
    symbol: str
    criteria: Rows
    slack: tuple[str, str, str] | None = None
    panels: Sequence[Whiskers] = ()
    pairs: Sequence[tuple[str, Sequence[str], Sequence[str], Sequence[Sequence[float]]]] = ()
    bounds: Rows = ()
    confidence: str = "95 %"
    process: Rows
    dictionary: Rows
    rare: Rows = ()
    files: Rows
    extra: Sequence[str] = field(default_factory=tuple)


def release_page(content: ReportContent, *, texts: Texts = ENGLISH) -> str:
    """Return the report as one HTML document."""
    phrases = texts
    sections: list[tuple[str, list[Block]]] = [
        (phrases["h_what"], _what(content, phrases)),
        (phrases["h_you"], _you(content, phrases)),
        (phrases["h_budget"], _budget(content, phrases)),
        (phrases["h_criteria"], _criteria(content, phrases)),
        (phrases["h_measured"], _measured(content, phrases)),
        (phrases["h_bounds"], _bounds(content, phrases)),
        (phrases["h_use"], [Text(phrases["intended"]), Text(phrases["unintended"])]),
        (phrases["h_process"], [_table(phrases, "process", content.process)]),
        (phrases["h_dictionary"], _dictionary(content, phrases)),
        (phrases["h_files"], [_table(phrases, "files", content.files), Text(phrases["verify"])]),
    ]
    return render(
        Page(
            title=phrases["title"].format(title=content.title),
            subtitle=phrases["subtitle"].format(rows=f"{content.rows:,}", columns=content.columns),
            sections=sections,
            language=phrases["language"],
            direction=phrases["direction"],
            labels={name: phrases[name] for name in ("contents", "theme", "skip", "rows_of")},
        )
    )


def _table(
    phrases: Texts, name: str, rows: Rows, *, searchable: bool = False, numeric: Sequence[int] = ()
) -> Table:
    return Table(
        phrases[f"{name}_caption"],
        phrases[f"{name}_head"].split("|"),
        rows,
        numeric=numeric,
        searchable=searchable and len(rows) > 8,
    )


def _dictionary(content: ReportContent, phrases: Texts) -> list[Block]:
    blocks: list[Block] = [_table(phrases, "dictionary", content.dictionary, searchable=True)]
    if content.rare:
        blocks += [Text(phrases["rare"]), _table(phrases, "rare", content.rare)]
    return blocks


def _what(content: ReportContent, phrases: Texts) -> list[Block]:
    met = sum(row[3] != "" for row in content.criteria)
    cards = (
        (content.guarantee, phrases["card_unit"].format(unit=content.unit)),
        (f"{content.rows:,}", phrases["card_rows"]),
        (f"{met} / {len(content.criteria)}", phrases["card_criteria"]),
    )
    markup = "".join(f"<li><b>{escape(big)}</b>{escape(small)}</li>" for big, small in cards)
    blocks: list[Block] = [Text(content.description)] if content.description else []
    presumed = [Text(phrases["condition"].format(condition=content.condition))] if content.condition else []
    return [*blocks, Text(phrases["what"]), Html(f'<ul class="cards">{markup}</ul>'), *presumed]


def chance(share: float, *, rounding: str = ROUND_HALF_EVEN) -> str:
    """Write a probability in per cent, with more decimals where one would read as certainty.

    What is said to be the most is rounded up, what is said to be the least down (``decimal.ROUND_CEILING``, ``ROUND_FLOOR``).

    Examples
    --------
    >>> chance(0.7311), chance(0.99981), chance(0.00012), chance(0.0)
    ('73.1%', '99.98%', '0.01%', '0.0%')
    >>> chance(0.7311, rounding=ROUND_CEILING), chance(0.00012, rounding=ROUND_FLOOR)
    ('73.2%', '0.01%')
    """
    exact = 100 * Decimal(repr(float(share)))
    for decimals in range(1, 6):
        number = exact.quantize(Decimal(1).scaleb(-decimals), rounding=rounding)
        if 0 < number < 100:
            return f"{number:f}%"
    return f"{exact.quantize(Decimal('0.1'), rounding=rounding):f}%"


def _you(content: ReportContent, phrases: Texts) -> list[Block]:
    odds = [
        [
            f"{before:.0%}",
            chance(least, rounding=ROUND_FLOOR),
            *(chance(x, rounding=ROUND_CEILING) for x in (most, usual)),
        ]
        for before, least, most, usual in content.odds
    ]
    blocks: list[Block] = [
        Text(phrases["you"]),
        *([Text(phrases["condition"].format(condition=content.condition))] if content.condition else []),
        Text(phrases["you_guess"].format(chance=chance(content.right_guess, rounding=ROUND_CEILING))),
        Table(
            phrases["odds_caption"],
            (phrases["odds_before"], phrases["odds_least"], phrases["odds_after"], phrases["odds_usual"]),
            odds,
            numeric=(0, 1, 2, 3),
        ),
        Text(
            phrases["you_certainty"].format(chance=content.certainty)
            if content.certainty
            else phrases["you_always"]
        ),
    ]
    if content.allowed:
        blocks.append(
            Text(phrases["you_allowed"].format(guarantee=content.guarantee, allowed=content.allowed))
        )
    blocks += [
        Text(phrases["trade"]),
        Html(trade_off(content.curve, label=phrases["trade_label"])),
        Text(phrases["public"]),
        Bullets(content.public_facts),
    ]
    return blocks


def _budget(content: ReportContent, phrases: Texts) -> list[Block]:
    return [
        Text(phrases["budget"].format(accounting=content.accounting, symbol=content.symbol)),
        Html(budget_bar(content.shares, total=content.total, symbol=content.symbol)),
    ]


def _criteria(content: ReportContent, phrases: Texts) -> list[Block]:
    blocks: list[Block] = [Text(phrases["criteria"])]
    if content.slack is not None:
        scale, threshold, chance = content.slack
        blocks.append(
            Text(phrases["criteria_pass_only"].format(scale=scale, threshold=threshold, false_accept=chance))
        )
    return [*blocks, _table(phrases, "criteria", content.criteria)]


def _measured(content: ReportContent, phrases: Texts) -> list[Block]:
    blocks: list[Block] = [
        Text(
            phrases["measured"]
            if any(len(panel.points) for panel in content.panels)
            else phrases["measured_none"]
        ),
        Html(comparison_panels(content.panels)),
    ]
    if content.pairs:
        pictures = "".join(f"<figure>{heat_table(*pair)}</figure>" for pair in content.pairs)
        blocks += [Text(phrases["pairs"]), Html(f'<div class="pictures">{pictures}</div>')]
    return blocks


def _bounds(content: ReportContent, phrases: Texts) -> list[Block]:
    if not content.bounds:
        return [Text(phrases["bounds_none"])]
    return [
        Text(phrases["bounds"].format(confidence=content.confidence)),
        Table(
            phrases["bounds_caption"],
            phrases["bounds_head"].split("|"),
            content.bounds,
            numeric=(2,),
            searchable=True,
        ),
    ]
