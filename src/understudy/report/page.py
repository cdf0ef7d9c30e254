"""One page, as self-contained HTML (no network, light and dark, for paper, keyboard and screen readers) or Markdown."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

# ----------------------------------------------------------------------------------------
# Every sentence of the report in one place, so that it can be translated. Braces are filled in; names stay.

Texts = Mapping[str, str]

ENGLISH: Texts = {
    "language": "en",
    "direction": "ltr",
    "title": "{title}: release report",
    "subtitle": "{rows} synthetic rows, {columns} columns. Read this before you use the table.",
    "subtitle_tables": "Synthetic tables: {sizes}; {columns} columns. Read this before you use them.",
    "contents": "Contents",
    "theme": "Light or dark",
    "skip": "Skip to the content",
    "rows_of": "{shown} of {all} rows",
    # headings
    "h_what": "What this is",
    "h_about": "About the table",
    "h_you": "How much surer an attacker can become",
    "h_budget": "Who spent what of the privacy budget",
    "h_criteria": "What was promised, and checked, before publication",
    "h_measured": "The table beside what was measured",
    "h_bounds": "How large errors can be",
    "h_use": "What to use it for, and what not",
    "h_process": "How it was made",
    "h_dictionary": "The columns",
    "h_files": "The files, and how to check them",
    # what
    "what": "This table is synthetic: none of its rows is the record of a person. It stands in for a sensitive table; every look at the real "
    "records was differentially private, was paid for, and is listed below.",
    "what_tables": "These tables are synthetic: none of their rows is the record of a person. They stand in for sensitive tables; every look at the real "
    "records was differentially private, was paid for, and is listed below.",
    "table_size": "{name} with {rows} rows",
    "h_figures": "What you can read off it",
    "figure_range": "real records: {low} to {high}",
    "figures_note": "The figure is this table's. The ranges hold together with a confidence of {confidence}.",
    "figures_checked": "No ranges of single figures are known; these errors were checked on the real records before publication.",
    "figures_checked_events": "No ranges of single figures are known; these errors were checked before publication, on event records, of which each real {entity} has equally many.",
    "figures_none": "None with a known error: no ranges are known, and no criterion compared the table with the real one.",
    "h_limits": "What it cannot tell",
    "h_meaning": "What it means if you are in the data",
    "meaning": "Whatever somebody knows and computes: a guess whether you are in it, right in 50% of cases before, is right in at most {guess} "
    "with this table. Somebody who accuses 1 in 100 others wrongly recognises at most {recognised} of the people who are in it.",
    "meaning_record": "That is about one record. Whoever has several in the real table is promised less about all of them together: with two records every epsilon counts twice, and a delta more than twice.",
    "h_promise": "The promise, kept",
    "promise": "{met} of {all} criteria of quality, fixed before any record was read for this release, are met.",
    "promise_chance": "A table that misses one would pass with a chance of at most {false_accept}.",
    "promise_attempts": "That is the chance of one attempt. Attempts that fail are followed by others, so that a table that misses one is published with a larger chance.",
    "h_label": "Privacy label",
    "label_data": "What it is",
    "label_synthetic": "synthetic, {rows} rows",
    "label_tables": "synthetic: {sizes}",
    "label_protected": "Who is protected",
    "label_guarantee": "Guarantee",
    "label_guess": "Best guess whether somebody is in it (a coin: 50%)",
    "label_certainty": "Chance that the limits of single outcomes hold",
    "label_looks": "Looks at the records, each paid for",
    "label_total": "All releases of the table together",
    "label_this_ledger": "{total} from this ledger; the table has other ledgers, whose promises add up",
    "label_series": "This and earlier releases of the series",
    "label_condition": "Conditions of the guarantee",
    "label_conditional": "yes, see “What it means”",
    "label_unconditional": "none",
    "label_criteria": "Criteria of quality met",
    "condition": "Condition of the guarantee, and of all that is said about it here: {condition}",
    # you
    "you": "Suppose somebody wants to find out whether you are in the real data, or something about you that only your "
    "record tells. Whatever they know already, and whatever they compute from this table, the guarantee limits how much "
    "surer they can become.",
    "you_certainty": "Noise is random, so a single outcome can be more telling than others. The second and third columns hold with "
    "a chance of at least {chance}, the last one in 95 of 100 cases.",
    "you_always": "The second and third columns hold for every outcome, whatever the noise; the last one in 95 of 100 cases.",
    "you_allowed": "These numbers are those of {guarantee}, which is what the parts of this release add up to; it was allowed {allowed}.",
    "odds_caption": "How sure an attacker can become",
    "odds_before": "sure before seeing the table",
    "odds_after": "sure afterwards, at most",
    "odds_least": "sure afterwards, at least",
    "odds_usual": "sure afterwards, usually at most",
    "trade": "No attacker can do better than the curve: the share of people in the data that he recognises, against the "
    "share of others that he accuses wrongly. On the dashed line he could as well toss a coin.",
    "trade_label": "Best possible attack: true positives against false positives, from a coin toss to the guarantee's limit",
    "public": "Treated as public knowledge (and therefore not protected), or measured instead:",
    # budget
    "budget": "The ledger charged each act before it drew its noise. By {accounting} accounting, in {symbol}:",
    # criteria
    "criteria": "The criteria were fixed before any record was read for this release. The table was published because it met all of them.",
    "criteria_pass_only": "They were folded into one test that released a single bit: the smallest distance to a threshold, in "
    "records, plus noise of scale {scale}, had to exceed {threshold}. A table that violates a criterion passes with a "
    "chance of at most {false_accept}.",
    "criteria_caption": "Acceptance criteria",
    "criteria_head": "criterion|what is compared|error must be below|result|noise of the check (deviation)",
    # measured
    "measured": "Bars: the synthetic table. Points: what was measured on the real table, with noise added for privacy; the "
    "lines reach two standard deviations of that noise either way. The real numbers themselves appear nowhere.",
    "measured_none": "Nothing that was measured can be drawn beside these bars: the model keeps no noisy marginals of this table, or was not published.",
    "measured_events": "Nothing is drawn beside these bars: what was measured on the real tables are event records, of which each {entity} has equally many, whatever the number of its rows. The heading of each picture says which table is counted: what is fixed about a {entity} is counted once for each, the rest once for each row.",
    "pairs": "Pairs of columns: where the synthetic table has more (blue) or fewer (orange) rows than measured, in standard "
    "deviations of the noise. Pale is good; noise alone colours one cell in twenty noticeably.",
    # bounds
    "bounds": "To turn the table into the real one, as far as these columns go, no more than this share of its rows would have to move "
    "(with a confidence of {confidence} for each line; the largest first). The bound is twice that: errors added up over all cells. It comes from the noisy measurements alone.",
    "bounds_kinds": "“Supported”: a noisy measurement holds these columns, so their error is known directly. “Unsupported”: none does, "
    "and the bound follows from what the method would otherwise have measured, or is the largest there is.",
    "bounds_caption": "Error bounds",
    "bounds_head": "columns|kind|rows that may have to move|bound",
    "bounds_none": "No bounds on the errors of this table are known, beyond the criteria.",
    "bounds_events": "No bounds on the errors of these tables are known, beyond the criteria: what was measured are event records, of which each {entity} has equally many, and rows follow from them by "
    "a model. Where model.understudy is published, its bounds and intervals (Model.error_bounds, Model.interval) are about event records, not about rows.",
    # use
    "intended_checked": "Intended: statistics like those the criteria cover.",
    "intended": "Intended: statistics like those the criteria cover, and the tables of counts whose bounds above are small "
    "enough for your purpose.",
    "unintended": "Not intended: looking for individuals or unusual records; tests that take the rows for independent "
    "draws; models that nobody checks elsewhere; any statistic far from the criteria. No promise is made about those.",
    # process
    "process_caption": "Production",
    "process_head": "step|what was done",
    "dictionary_caption": "Data dictionary",
    "dictionary_head": "column|kind|values|unit|description",
    "rare": "Of these values the noisy measurements cannot tell whether anybody has them: their interval begins at zero rows. What the synthetic table has of them is mostly noise. "
    "Each interval holds with a confidence of 95 %.",
    "rare_caption": "Values that may not occur at all",
    "rare_head": "column|value|what is known",
    "files_caption": "Files",
    "files_head": "file|what it is",
    "verify": "Anybody can check hashes, charges and data again, without the real table: understudy verify FOLDER",
}


def inline_markdown(prose: str) -> str:
    """Return words on one line, without anything that Markdown would take for markup, a link or a picture."""
    text = " ".join(prose.split())
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~])", r"\\\\", text)
    text = re.sub(r"&(?=#?[A-Za-z0-9]+;)", "&amp;", text)
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)  # no element begins otherwise: <30 stays as it is
    return re.sub(r"\](?=[(\[:])", r"\\]", text)


def _block(prose: str) -> str:
    """Return words that begin a line: no heading, list, quotation, rule or fence either."""
    text = re.sub(r"^(\d{1,9})(?=[.)](?:\s|$))", r"\1\\", inline_markdown(prose))
    return re.sub(r"^(?=#|>|[-+*](?:\s|$|[-+*])|={2}|~{3}|`{3})", r"\\", text)


@dataclass(frozen=True)
class Text:
    """A paragraph of plain words; ``strong`` ones stand out."""

    prose: str
    strong: bool = False

    def html(self) -> str:
        """Return the paragraph."""
        body = escape(self.prose)
        return f"<p><strong>{body}</strong></p>" if self.strong else f"<p>{body}</p>"

    def markdown(self) -> str:
        """Return the paragraph."""
        return f"**{inline_markdown(self.prose)}**" if self.strong else _block(self.prose)


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    prose: str

    def html(self) -> str:
        """Return the heading."""
        return f"<h3>{escape(self.prose)}</h3>"

    def markdown(self) -> str:
        """Return the heading."""
        return f"### {inline_markdown(self.prose)}"


@dataclass(frozen=True)
class Bullets:
    """A list of plain words."""

    items: Sequence[str]

    def html(self) -> str:
        """Return the list."""
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in self.items) + "</ul>"

    def markdown(self) -> str:
        """Return the list."""
        return "\n".join(f"- {_block(item)}" for item in self.items)


@dataclass(frozen=True)
class Html:
    """Markup made elsewhere, such as a picture; trusted."""

    markup: str
    caption: str = ""

    def html(self) -> str:
        """Return the markup, as a figure if it has a caption."""
        if not self.caption:
            return self.markup
        return f"<figure>{self.markup}<figcaption>{escape(self.caption)}</figcaption></figure>"

    def markdown(self) -> str:
        """Return the caption: a picture has no place in plain text."""
        return _block(self.caption)


_STACKED = 3
"""Tables with so many columns show each row as a small list on narrow screens."""


def _label(heading: str) -> str:
    return f' data-label="{escape(heading)}"'


@dataclass(frozen=True)
class Table:
    """Rows of plain words under headings.

    Attributes
    ----------
    caption
        What the table shows; read out before it.
    head
        Headings.
    rows
        Cells as text.
    numeric
        Positions of columns that hold numbers; they are set flush right.
    searchable
        Whether the reader gets a box that narrows the rows.
    open_at
        Tables with more rows than this start folded.
    folded
        Whether the table starts folded, searchable or not.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()
    searchable: bool = False
    open_at: int = 30
    folded: bool = False

    def html(self) -> str:
        """Return the table, with its search box and fold where it has them."""
        right = set(self.numeric)
        stacked = len(self.head) >= _STACKED

        def cells(tag: str, texts: Sequence[str]) -> str:
            scope = ' scope="col"' if tag == "th" else ""
            return "".join(
                f"<{tag}{scope}{_label(self.head[index]) if stacked and tag == 'td' else ''}"
                f"{' class=n' if index in right else ''}>{escape(text)}</{tag}>"
                for index, text in enumerate(texts)
            )

        body = "".join(f"<tr>{cells('td', row)}</tr>" for row in self.rows)
        box = ""
        if self.searchable:
            box = (
                f'<label class="search">Search {escape(self.caption.lower())}: '
                '<input type="search" autocomplete="off"></label><p class="found" role="status"></p>'
            )
        table = (
            f'<div class="wide" tabindex="0" role="region" aria-label="{escape(self.caption)}">'
            f"<table{' class=stacked' if stacked else ' class=paired' if len(self.head) > 1 else ''}><caption>{escape(self.caption)}</caption><thead><tr>{cells('th', self.head)}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>"
        )
        inside = f'<div class="{"searchable" if self.searchable else "plain"}">{box}{table}</div>'
        if not self.folded and (len(self.rows) <= self.open_at or self.searchable):
            return inside
        return (
            f"<details><summary>{escape(self.caption)} ({len(self.rows):,} rows)</summary>{inside}</details>"
        )

    def markdown(self) -> str:
        """Return the table."""
        marks = ["---:" if index in set(self.numeric) else "---" for index in range(len(self.head))]

        def line(cells: Sequence[str]) -> str:
            bar = chr(92) + "|"
            return f"| {' | '.join(inline_markdown(cell).replace('|', bar) for cell in cells)} |"

        return "\n".join([line(self.head), f"|{'|'.join(marks)}|", *map(line, self.rows)])


@dataclass(frozen=True)
class Folded:
    """Blocks that the reader opens."""

    summary: str
    blocks: Sequence[Block]

    def html(self) -> str:
        """Return the blocks behind their summary."""
        inside = "".join(block.html() for block in self.blocks)
        return f"<details><summary>{escape(self.summary)}</summary>{inside}</details>"

    def markdown(self) -> str:
        """Return the blocks below their summary."""
        return "\n\n".join(
            [f"### {inline_markdown(self.summary)}", *(block.markdown() for block in self.blocks)]
        )


Block = Text | Heading | Bullets | Html | Table | Folded


@dataclass(frozen=True)
class Page:
    """What a page holds, in order.

    Attributes
    ----------
    title
        Heading and name of the window.
    sections
        Heading and content of each part; a list of contents is made from the headings.
    lead
        What stands before the first section.
    top
        The first screen: what stands before the list of contents. Pages without one begin with that list.
    banner
        A warning that stays on every screen and every printed page.
    accent, accent_dark
        Colours of headings and lines, on white and on black ground.
    language, direction
        Of the text, for browsers and screen readers.
    """

    title: str
    sections: Sequence[tuple[str, Sequence[Block]]]
    lead: Sequence[Block] = ()
    top: Sequence[Block] = ()
    banner: str = ""
    subtitle: str = ""
    accent: str = "#0b5f85"
    accent_dark: str = "#6ec1e8"
    language: str = "en"
    direction: str = "ltr"
    labels: dict[str, str] = field(default_factory=dict)


_LABELS = {
    "subtitle_tables": "Synthetic tables: {sizes}; {columns} columns. Read this before you use them.",
    "contents": "Contents",
    "theme": "Light or dark",
    "rows_of": "{shown} of {all} rows",
    "skip": "Skip to the content",
}


def render(page: Page) -> str:
    """Return the page as one HTML document.

    Examples
    --------
    >>> text = render(Page("Report", [("First", [Text("Hello.")])]))
    >>> text.startswith("<!doctype html>") and "://" not in text.replace("http://www.w3.org", "")
    True
    >>> "Content-Security-Policy" in text
    True
    """
    labels = {**_LABELS, **page.labels}
    banner = f'<div class="banner" role="note">{escape(page.banner)}</div>' if page.banner else ""
    links = "".join(
        f'<li><a href="#part-{index}">{escape(title)}</a></li>'
        for index, (title, _) in enumerate(page.sections)
    )
    parts = "".join(
        f'<section id="part-{index}" aria-labelledby="head-{index}"><h2 id="head-{index}">{escape(title)}</h2>'
        f"{''.join(block.html() for block in blocks)}</section>"
        for index, (title, blocks) in enumerate(page.sections)
    )
    subtitle = f'<p class="subtitle">{escape(page.subtitle)}</p>' if page.subtitle else ""
    contents = f'<nav aria-label="{escape(labels["contents"])}"><ol>{links}</ol></nav>\n'
    main = '<main id="content">'
    first = "".join(block.html() for block in page.top)
    opening = f"{main}{first}{contents}" if first else f"{contents}{main}"
    style = stylesheet(page.accent, page.accent_dark)
    script = _SCRIPT.replace("ROWS-OF", labels["rows_of"])
    # Nothing is loaded, and nothing runs but the one script: whatever markup reached the page some other way stays dead.
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        f'<!doctype html>\n<html lang="{escape(page.language)}" dir="{escape(page.direction)}">\n<head>\n'
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="understudy">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(page.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#content">{escape(labels["skip"])}</a>{banner}\n'
        f'<header><h1>{escape(page.title)}</h1>{subtitle}<button type="button" id="theme">'
        f"{escape(labels['theme'])}</button></header>\n"
        f"{opening}{''.join(block.html() for block in page.lead)}{parts}</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )


def stylesheet(accent: str = "#0b5f85", accent_dark: str = "#6ec1e8") -> str:
    """Return the style of pages with their colours, for pages that are put together elsewhere.

    Examples
    --------
    >>> "#0b5f85" in stylesheet()
    True
    """
    return _STYLE.replace("ACCENT-DARK", accent_dark).replace("ACCENT", accent)


def _digest(content: str) -> str:
    """Return the source expression of a policy that allows just this inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode('utf-8')).digest()).decode('ascii')}'"


def markdown(page: Page) -> str:
    """Return the page as Markdown.

    Words of a specification or schema reach a page that others render, often with HTML allowed, so none of them is taken for
    markup. Signs are replaced only where they would mean something: the text stays easy to read as it is.

    Examples
    --------
    >>> print(markdown(Page("Report", [("First", [Text("Hello."), Bullets(["one"])])])), end="")
    # Report
    <BLANKLINE>
    ## First
    <BLANKLINE>
    Hello.
    <BLANKLINE>
    - one
    >>> print(markdown(Page("<b>a</b> & b", [], lead=[Text("![x](http://a.b/c)"), Text("# age_years < 18")])), end="")
    # &lt;b>a&lt;/b> & b
    <BLANKLINE>
    ![x\\](http://a.b/c)
    <BLANKLINE>
    \\# age_years < 18
    """
    parts = [f"# {inline_markdown(page.title)}"]
    parts += [f"**{inline_markdown(page.banner)}**"] if page.banner else []
    parts += [_block(page.subtitle)] if page.subtitle else []
    parts += [block.markdown() for block in (*page.top, *page.lead)]
    for title, blocks in page.sections:
        parts += [f"## {inline_markdown(title)}", *(block.markdown() for block in blocks)]
    return "\n\n".join(part for part in parts if part) + "\n"


_STYLE = """
:root{color-scheme:light dark;--ink:#1b2330;--soft:#525c6b;--ground:#fff;--panel:#f5f7f9;--line:#d5dae1;--accent:ACCENT}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){--ink:#e8ecf1;--soft:#a9b4c2;--ground:#14181e;--panel:#1d232b;--line:#39424e;--accent:ACCENT-DARK}}
:root[data-theme=dark]{color-scheme:dark;--ink:#e8ecf1;--soft:#a9b4c2;--ground:#14181e;--panel:#1d232b;--line:#39424e;--accent:ACCENT-DARK}
:root[data-theme=light]{color-scheme:light}
*{box-sizing:border-box}
body{margin:0;overflow-wrap:break-word;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
header,nav,main{max-width:62rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:1.1rem;position:relative}
h1{font-size:1.8rem;line-height:1.2;margin:0 0 .3rem;padding-inline-end:8rem}
h2{color:var(--accent);font-size:1.3rem;margin:2.2rem 0 .6rem;border-bottom:2px solid var(--line);padding-bottom:.25rem}
h3{font-size:1.05rem;margin:1.4rem 0 .4rem}
.subtitle{margin:.2rem 0}.subtitle,figcaption,.found{color:var(--soft)}
a{color:var(--accent)}
button{font:inherit;font-size:.85rem;color:var(--ink);background:var(--panel);border:1px solid var(--line);border-radius:.4rem;padding:.35rem .7rem;cursor:pointer}
#theme{position:absolute;inset-inline-end:1.25rem;top:1.1rem;max-width:9rem}
nav ol{columns:2 16rem;padding-inline-start:1.2rem;margin:.8rem 0}
.banner{position:sticky;top:0;z-index:2;background:#7a1f1f;color:#fff;padding:.6rem 1.25rem;font-weight:600}
.skip{position:absolute;inset-inline-start:-999rem}.skip:focus{inset-inline-start:1rem;top:1rem;background:var(--panel);padding:.4rem;z-index:3}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem;margin:.4rem 0 1rem}
caption{text-align:start;color:var(--soft);padding-bottom:.35rem}
th,td{text-align:start;padding:.32rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{background:var(--panel);font-weight:600}
.n{text-align:end;font-variant-numeric:tabular-nums}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.8rem;margin:1rem 0;padding:0;list-style:none}
.cards li{background:var(--panel);border:1px solid var(--line);border-inline-start:4px solid var(--accent);border-radius:.4rem;padding:.7rem .9rem}
.cards b{display:block;font-size:1.35rem}.cards i{font-style:normal;font-weight:600;color:var(--accent)}.cards span{display:block;font-size:.85rem;line-height:1.35}
.first{display:grid;grid-template-columns:minmax(0,1fr) 17.5rem;gap:0 1.8rem;align-items:start;margin-bottom:1.2rem;line-height:1.42}
.first h2{font-size:1.05rem;margin:.6rem 0 .15rem;border:0;padding:0}.first p{margin:.15rem 0}.first ul{margin:.2rem 0;padding-inline-start:1.1rem}.first li{margin:.12rem 0}
.figures{list-style:none;padding:0!important;display:grid;gap:.3rem}.figures li{display:grid;grid-template-columns:8.4rem minmax(0,1fr);gap:.1rem .8rem;margin:0!important;border-inline-start:4px solid var(--accent);padding-inline-start:.6rem}.figures b{font-size:1.1rem;line-height:1.35;font-variant-numeric:tabular-nums}.figures span{overflow-wrap:anywhere;line-height:1.35}.figures i{display:block;font-style:normal;color:var(--soft)}.note{color:var(--soft);font-size:.88rem}
.label{border:2px solid var(--ink);border-radius:.3rem;padding:.55rem .8rem .7rem;margin-top:.75rem;background:var(--panel);font-size:.9rem;line-height:1.35}.label h2{margin:0 0 .25rem;font-size:1.15rem;color:var(--ink);border-bottom:4px solid var(--ink);padding-bottom:.15rem}.label dl{margin:0}.label dt{color:var(--soft);border-top:1px solid var(--line);padding-top:.28rem;margin-top:.28rem}.label dt:first-child{border:0;margin:0}.label dd{margin:0;font-weight:600;overflow-wrap:anywhere}
.legend{list-style:none;padding:0;margin:.3rem 0;columns:2 18rem}.legend li{break-inside:avoid;padding-inline-start:1.4rem;text-indent:-1.4rem}.legend svg{width:.8rem;height:.8rem;margin-inline-end:.6rem;vertical-align:-.05rem}
.worst{padding-inline-start:1.4rem;margin:.4rem 0}.worst li{margin:.3rem 0}.worst i{font-style:normal;color:var(--soft)}.worst i::before{content:"("}.worst i::after{content:"):"}
h1,h2,h3,summary,caption,.lines,.cards,.worst,.search{overflow-wrap:anywhere}
.lines{list-style:none;margin:.6rem 0;padding:0}.lines .n{overflow-wrap:normal}.lines>li,.lines>details>summary{display:grid;grid-template-columns:minmax(0,1fr) minmax(5rem,22rem) 4rem;gap:.7rem;align-items:center;padding:.18rem 0}
.lines>details{margin:0;border-bottom:1px solid var(--line)}.lines>li{border-bottom:1px solid var(--line)}.lines .what{overflow-wrap:anywhere;color:var(--ink)}.lines>details>summary .what::before{content:"\\25b8\\00a0";color:var(--accent)}.lines>details[open]>summary .what::before{content:"\\25be\\00a0"}.lines>details>summary::-webkit-details-marker{display:none}.lines .n{color:var(--ink)}
.bar{width:100%;height:.8rem;color:var(--ink)}
.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(24rem,100%),1fr));gap:1rem}.pictures figure{margin:.3rem 0}
figure{margin:1rem 0}svg,img{max-width:100%;height:auto}
svg text{fill:var(--ink)}
details{margin:.6rem 0}summary{cursor:pointer;color:var(--accent)}
.search input{font:inherit;color:inherit;background:var(--ground);border:1px solid var(--soft);border-radius:.3rem;padding:.25rem .5rem;min-width:14rem}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
@media (max-width:40rem){.stacked thead{position:absolute;inset-inline-start:-999rem}.stacked,.stacked caption,.stacked tbody,.stacked tr,.stacked td{display:block}.stacked tr{border-bottom:2px solid var(--line);padding:.35rem 0}.stacked td{border:0;padding:.12rem 0;text-align:start;overflow-wrap:anywhere}.stacked td:empty,.paired td:empty{display:none}.paired thead{position:absolute;inset-inline-start:-999rem}.paired,.paired caption,.paired tbody,.paired tr,.paired td{display:block}.paired tr{border-bottom:1px solid var(--line);padding:.3rem 0}.paired td{border:0;padding:.08rem 0;text-align:start;overflow-wrap:anywhere}.paired td:first-child{font-weight:600}.stacked td::before{content:attr(data-label) ": ";color:var(--soft)}.first{grid-template-columns:minmax(0,1fr)}.legend{columns:1}.wide-only{display:none}.lines>li,.lines>details>summary{grid-template-columns:minmax(0,1fr) 6rem 3.4rem;gap:.5rem}h1{padding-inline-end:0}#theme{position:static;max-width:none;margin:.4rem 0}}
@page{margin:18mm 16mm}
@media print{:root,:root[data-theme=dark],:root:not([data-theme=light]){color-scheme:light;--ink:#111;--soft:#444;--ground:#fff;--panel:#f3f3f3;--line:#bbb;--accent:ACCENT}.skip,#theme,nav,.search,.found{display:none}.banner{position:static}body{font-size:10pt}h2{break-after:avoid}tr,figure,.figures li,.label{break-inside:avoid}header,main{max-width:none;padding:0}.first{grid-template-columns:minmax(0,1fr) 13.5rem;gap:0 1.2rem;font-size:9.5pt;line-height:1.35}.first h2,.figures b{font-size:11pt}.first h2{margin:.4rem 0 .1rem}.label{font-size:8.5pt}.figures li{grid-template-columns:6.6rem minmax(0,1fr)}.wide{overflow:visible}details{display:block}details>*{display:block}}
"""

_SCRIPT = """
(function(){
var root=document.documentElement,button=document.getElementById('theme');
button.addEventListener('click',function(){
var dark=root.dataset.theme?root.dataset.theme==='dark':matchMedia('(prefers-color-scheme: dark)').matches;
root.dataset.theme=dark?'light':'dark';button.setAttribute('aria-pressed',String(!dark));});
document.querySelectorAll('.searchable').forEach(function(part){
var box=part.querySelector('input'),note=part.querySelector('.found'),rows=[].slice.call(part.querySelectorAll('tbody tr'));
function narrow(){var words=box.value.toLowerCase().split(/\\s+/).filter(Boolean),shown=0;
rows.forEach(function(row){var text=row.textContent.toLowerCase();
var keep=words.every(function(word){return text.indexOf(word)>=0});row.hidden=!keep;if(keep){shown+=1}});
note.textContent='ROWS-OF'.replace('{shown}',shown).replace('{all}',rows.length);}
box.addEventListener('input',narrow);narrow();});
addEventListener('beforeprint',function(){document.querySelectorAll('details').forEach(function(d){d.open=true})});
})();
"""
