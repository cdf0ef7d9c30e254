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
    files: Rows
    extra: Sequence[str] = field(default_factory=tuple)


def release_page(content: ReportContent, *, texts: Texts = ENGLISH) -> str:
    """Return the report as one HTML document."""
    words = texts
    sections: list[tuple[str, list[Block]]] = [
        (words["h_what"], _what(content, words)),
        (words["h_you"], _you(content, words)),
        (words["h_budget"], _budget(content, words)),
        (words["h_criteria"], _criteria(content, words)),
        (words["h_measured"], _measured(content, words)),
        (words["h_bounds"], _bounds(content, words)),
        (words["h_use"], [Text(words["intended"]), Text(words["unintended"])]),
        (words["h_process"], [_table(words, "process", content.process)]),
        (words["h_dictionary"], [_table(words, "dictionary", content.dictionary, searchable=True)]),
        (words["h_files"], [_table(words, "files", content.files), Text(words["verify"])]),
    ]
    return render(
        Page(
            title=words["title"].format(title=content.title),
            subtitle=words["subtitle"].format(rows=f"{content.rows:,}", columns=content.columns),
            sections=sections,
            language=words["language"],
            direction=words["direction"],
            words={name: words[name] for name in ("contents", "theme", "skip", "rows_of")},
        )
    )


def _table(
    words: Texts, name: str, rows: Rows, *, searchable: bool = False, numeric: Sequence[int] = ()
) -> Table:
    return Table(
        words[f"{name}_caption"],
        words[f"{name}_head"].split("|"),
        rows,
        numeric=numeric,
        searchable=searchable and len(rows) > 8,
    )


def _what(content: ReportContent, words: Texts) -> list[Block]:
    met = sum(row[3] != "" for row in content.criteria)
    cards = (
        (content.guarantee, words["card_unit"].format(unit=content.unit)),
        (f"{content.rows:,}", words["card_rows"]),
        (f"{met} / {len(content.criteria)}", words["card_criteria"]),
    )
    markup = "".join(f"<li><b>{escape(big)}</b>{escape(small)}</li>" for big, small in cards)
    blocks: list[Block] = [Text(content.description)] if content.description else []
    presumed = [Text(words["condition"].format(condition=content.condition))] if content.condition else []
    return [*blocks, Text(words["what"]), Html(f'<ul class="cards">{markup}</ul>'), *presumed]


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


def _you(content: ReportContent, words: Texts) -> list[Block]:
    odds = [
        [
            f"{before:.0%}",
            chance(least, rounding=ROUND_FLOOR),
            *(chance(x, rounding=ROUND_CEILING) for x in (most, usual)),
        ]
        for before, least, most, usual in content.odds
    ]
    blocks: list[Block] = [
        Text(words["you"]),
        *([Text(words["condition"].format(condition=content.condition))] if content.condition else []),
        Text(words["you_guess"].format(chance=chance(content.right_guess, rounding=ROUND_CEILING))),
        Table(
            words["odds_caption"],
            (words["odds_before"], words["odds_least"], words["odds_after"], words["odds_usual"]),
            odds,
            numeric=(0, 1, 2, 3),
        ),
        Text(
            words["you_certainty"].format(chance=content.certainty)
            if content.certainty
            else words["you_always"]
        ),
    ]
    if content.allowed:
        blocks.append(Text(words["you_allowed"].format(guarantee=content.guarantee, allowed=content.allowed)))
    blocks += [
        Text(words["trade"]),
        Html(trade_off(content.curve, label=words["trade_label"])),
        Text(words["public"]),
        Bullets(content.public_facts),
    ]
    return blocks


def _budget(content: ReportContent, words: Texts) -> list[Block]:
    return [
        Text(words["budget"].format(accounting=content.accounting, symbol=content.symbol)),
        Html(budget_bar(content.shares, total=content.total, symbol=content.symbol)),
    ]


def _criteria(content: ReportContent, words: Texts) -> list[Block]:
    blocks: list[Block] = [Text(words["criteria"])]
    if content.slack is not None:
        scale, threshold, chance = content.slack
        blocks.append(
            Text(words["criteria_pass_only"].format(scale=scale, threshold=threshold, false_accept=chance))
        )
    return [*blocks, _table(words, "criteria", content.criteria)]


def _measured(content: ReportContent, words: Texts) -> list[Block]:
    blocks: list[Block] = [
        Text(
            words["measured"]
            if any(len(panel.points) for panel in content.panels)
            else words["measured_none"]
        ),
        Html(comparison_panels(content.panels)),
    ]
    if content.pairs:
        pictures = "".join(f"<figure>{heat_table(*pair)}</figure>" for pair in content.pairs)
        blocks += [Text(words["pairs"]), Html(f'<div class="pictures">{pictures}</div>')]
    return blocks


def _bounds(content: ReportContent, words: Texts) -> list[Block]:
    if not content.bounds:
        return [Text(words["bounds_none"])]
    return [
        Text(words["bounds"].format(confidence=content.confidence)),
        Table(
            words["bounds_caption"],
            words["bounds_head"].split("|"),
            content.bounds,
            numeric=(2,),
            searchable=True,
        ),
    ]
