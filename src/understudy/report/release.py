"""The report of a release: what stakeholders, data users and reviewers read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from html import escape

from understudy.report.page import ENGLISH, Block, Bullets, Html, Page, Table, Text, Texts, render
from understudy.report.pictures import Share, Whiskers, budget_bar, comparison_panels, heat_table, trade_off

__all__ = ["Figure", "ReportContent", "chance", "release_page"]

Rows = Sequence[Sequence[str]]

_LONG = 220
"""Letters of a description that the first screen has room for."""


@dataclass(frozen=True)
class Figure:
    """One number that can be read off the table, as text: what it is, the range of the real one (empty where none is known), and what to bear in mind."""

    value: str
    what: str
    low: str = ""
    high: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class ReportContent:
    """Everything the report shows, computed from a published bundle. All of it is public.

    Attributes
    ----------
    guarantee, kind
        The promise in a few signs, such as ``epsilon = 1``, and its kind in words.
    protected
        Who is protected, in a few words.
    tables
        Of linked tables, the number of rows of each.
    looks
        How many charges the ledger holds.
    table_total, series
        What all releases of the table together were held to, and what this and earlier releases of its series come to, in a few signs; empty if there is no such thing.
    other_ledgers
        Whether the table has other ledgers, so that ``table_total`` is what the ledger of this release allowed alone.
    figures, confidence
        Three numbers to read off, and the chance with which their ranges hold together, as words.
    limits
        Three things the table cannot tell.
    cut
        What was done to people with many rows, in sentences; none if nothing.
    by_record
        Whether the promise is about single records, of which one person may have several.
    attempts
        Whether a table that failed the criteria was followed by another attempt.
    recognised
        Largest share of the people in the data that can be recognised while one in a hundred others is accused wrongly.
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
    entity
        Who has several rows, in a release of entities with their events; empty in one of rows.
    bounds
        Columns, kind, rows that may have to move, and the bound itself; ``confidence`` as words.
    rare
        Column, value and bound of values that cannot be told from values without any row.
    """

    title: str
    description: str
    rows: int
    columns: int
    guarantee: str
    unit: str
    kind: str = ""
    protected: str = ""
    tables: Mapping[str, int] = field(default_factory=dict)
    looks: int = 0
    table_total: str = ""
    other_ledgers: bool = False
    series: str = ""
    figures: Sequence[Figure] = ()
    limits: Sequence[str] = ()
    cut: Sequence[str] = ()
    by_record: bool = False
    attempts: bool = False
    recognised: float = 0.0
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
    entity: str = ""
    confidence: str = "95%"
    process: Rows
    dictionary: Rows
    rare: Rows = ()
    files: Rows
    extra: Sequence[str] = field(default_factory=tuple)


def release_page(content: ReportContent, *, texts: Texts = ENGLISH) -> str:
    """Return the report as one HTML document."""
    phrases = texts
    whole = content.description if _shortened(content.description).endswith(" …") else ""
    sections: list[tuple[str, list[Block]]] = [
        (phrases["h_you"], _you(content, phrases)),
        (phrases["h_budget"], _budget(content, phrases)),
        (phrases["h_criteria"], _criteria(content, phrases)),
        (phrases["h_measured"], _measured(content, phrases)),
        (phrases["h_bounds"], _bounds(content, phrases)),
        (
            phrases["h_use"],
            [
                Text(phrases["intended" if content.bounds else "intended_checked"]),
                *map(Text, content.cut),
                Text(phrases["unintended"]),
            ],
        ),
        (phrases["h_process"], [_table(phrases, "process", content.process)]),
        (phrases["h_dictionary"], _dictionary(content, phrases)),
        (phrases["h_files"], [_table(phrases, "files", content.files), Text(phrases["verify"])]),
    ]
    if whole:
        sections.insert(0, (phrases["h_about"], [Text(whole)]))
    return render(
        Page(
            title=phrases["title"].format(title=content.title),
            subtitle=phrases["subtitle_tables" if content.tables else "subtitle"].format(
                rows=f"{content.rows:,}", columns=content.columns, sizes=_sizes(content, phrases)
            ),
            top=[Html(_first_screen(content, phrases))],
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


def _first_screen(content: ReportContent, phrases: Texts) -> str:
    """Return what somebody reads who reads one screen: what it is, what to read off, what not, what it means, and the promise."""

    def part(heading: str, *paragraphs: str) -> str:
        return f"<h2>{escape(phrases[heading])}</h2>" + "".join(paragraphs)

    def text(prose: str, *, note: bool = False) -> str:
        return f"<p{' class=note' if note else ''}>{escape(prose)}</p>"

    figures = "".join(
        f"<li><b>{escape(item.value)}</b><span>{escape(item.what)}"
        + (
            f"<i>{escape(phrases['figure_range'].format(low=item.low, high=item.high))}</i>"
            if item.low
            else ""
        )
        + "</span></li>"
        for item in content.figures
    )
    notes = dict.fromkeys(item.note for item in content.figures if item.note)
    ranged = sum(bool(item.low) for item in content.figures)
    noted = (
        text(" ".join([phrases["figures_note"].format(confidence=content.confidence), *notes]), note=True)
        if ranged
        else text(
            phrases["figures_checked_events"].format(entity=content.entity)
            if content.entity
            else phrases["figures_checked"],
            note=True,
        )
        if content.figures
        else text(phrases["figures_none"])
    )
    met = sum(row[3] != "" for row in content.criteria)
    promise = phrases["promise"].format(met=met, all=len(content.criteria))
    if content.slack is not None:
        promise += " " + phrases["promise_chance"].format(false_accept=content.slack[2])
        promise += f" {phrases['promise_attempts']}" if content.attempts else ""
    condition = [text(phrases["condition"].format(condition=content.condition))] if content.condition else []
    limits = "".join(f"<li>{escape(item)}</li>" for item in content.limits)
    about = _shortened(content.description)
    left = [
        part(
            "h_what",
            *([text(about)] if about else []),
            text(phrases["what_tables" if content.tables else "what"]),
        ),
        part(
            "h_figures",
            f'<ul class="figures">{figures}</ul>' if figures else "",
            noted,
        ),
        part("h_limits", f"<ul>{limits}</ul>") if limits else "",
        part(
            "h_meaning",
            text(
                phrases["meaning"].format(
                    guess=chance(content.right_guess, rounding=ROUND_CEILING),
                    recognised=chance(content.recognised, rounding=ROUND_CEILING),
                )
            ),
            *([text(phrases["meaning_record"])] if content.by_record else []),
            *condition,
        ),
    ]
    right = _label(content, phrases, met) + part("h_promise", text(promise))
    return f'<div class="first"><div>{"".join(left)}</div><div>{right}</div></div>'


def _shortened(description: str) -> str:
    """Return a description, or of a long one the sentences that fit; the whole then stands under a heading of its own.

    Examples
    --------
    >>> _shortened("One row per birth.")
    'One row per birth.'
    >>> _shortened("One row per birth. " + "And so on " * 40)
    'One row per birth. …'
    """
    words = " ".join(description.split())
    if len(words) <= _LONG:
        return words
    ends = [mark.end() for mark in re.finditer(r"[.!?](?= )", words[:_LONG])]
    return f"{words[: ends[-1]] if ends else words[:_LONG].rpartition(' ')[0]} …"


def _sizes(content: ReportContent, phrases: Texts) -> str:
    """Return the linked tables with their numbers of rows; empty where there is one table."""
    return ", ".join(
        phrases["table_size"].format(name=name, rows=f"{rows:,}") for name, rows in content.tables.items()
    )


def _label(content: ReportContent, phrases: Texts, met: int) -> str:
    """Return the privacy label: what matters about the guarantee, in one box."""
    lines = [
        (
            phrases["label_data"],
            phrases["label_tables" if content.tables else "label_synthetic"].format(
                rows=f"{content.rows:,}", sizes=_sizes(content, phrases)
            ),
        ),
        (phrases["label_protected"], content.protected or content.unit),
        (phrases["label_guarantee"], f"{content.guarantee}{f', {content.kind}' if content.kind else ''}"),
        (phrases["label_guess"], chance(content.right_guess, rounding=ROUND_CEILING)),
        *([(phrases["label_certainty"], content.certainty)] if content.certainty else []),
        (phrases["label_looks"], f"{content.looks:,}"),
        *([(phrases["label_total"], _held_to(content, phrases))] if content.table_total else []),
        *([(phrases["label_series"], content.series)] if content.series else []),
        (
            phrases["label_condition"],
            phrases["label_conditional" if content.condition else "label_unconditional"],
        ),
        (phrases["label_criteria"], f"{met} / {len(content.criteria)}"),
    ]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in lines)
    return f'<aside class="label" aria-labelledby="label"><h2 id="label">{escape(phrases["h_label"])}</h2><dl>{listed}</dl></aside>'


def _held_to(content: ReportContent, phrases: Texts) -> str:
    """Return what all releases of the table were held to: by one ledger, of perhaps several."""
    return (
        phrases["label_this_ledger"].format(total=content.table_total)
        if content.other_ledgers
        else content.table_total
    )


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
        if content.attempts:
            blocks.append(Text(phrases["promise_attempts"]))
    return [*blocks, _table(phrases, "criteria", content.criteria)]


def _measured(content: ReportContent, phrases: Texts) -> list[Block]:
    blocks: list[Block] = [
        Text(
            phrases["measured"]
            if any(len(panel.points) for panel in content.panels)
            else phrases["measured_events"].format(entity=content.entity)
            if content.entity
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
        if content.entity:
            return [Text(phrases["bounds_events"].format(entity=content.entity))]
        return [Text(phrases["bounds_none"])]
    return [
        Text(phrases["bounds"].format(confidence=content.confidence)),
        Text(phrases["bounds_kinds"]),
        Table(
            phrases["bounds_caption"],
            phrases["bounds_head"].split("|"),
            content.bounds,
            numeric=(2, 3),
            searchable=True,
        ),
    ]
