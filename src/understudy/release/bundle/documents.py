"""The words that travel with a release: a README for data subjects and data users, and a data dictionary."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context

from understudy.privacy import Budget
from understudy.release.bundle.metadata import about_derived
from understudy.release.bundle.reporting import (
    RARE_CONFIDENCE,
    about_records,
    about_rows,
    at_least,
    between,
    odds_limit,
    of_entities,
    rare_values,
    rare_words,
    shown_labels,
)
from understudy.release.result import CriterionResult, ReleaseGuarantee, ReleaseResult
from understudy.release.selection.profiles import BestProfile
from understudy.report import ENGLISH, Block, Bullets, Heading, Page, Table, Text, chance
from understudy.schema import Column, Date, Integer, Schema
from understudy.schema.columns.numeric import Ordered
from understudy.schema.spreadsheets import formula_values, is_formula

COLUMNS = (
    "type",
    "metric",
    "threshold",
    "result",
    "epsilon",
    "mechanism",
    "bounds",
    "sensitivity",
    "deviation",
)


_LARGEST = 100.0
"""An epsilon beyond this limits nothing that anybody would notice."""


def acceptance_table(criteria: Sequence[CriterionResult]) -> str:
    """Return the acceptance criteria as CSV, one row each, in the layout of paper Births, Table 2.

    Words that a spreadsheet would take for a formula get an apostrophe in front, which spreadsheets do not show.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", *COLUMNS, "passed"])
    for item in criteria:
        cells = [item.name, *_cells(item), "yes" if item.passed else "no"]
        writer.writerow([f"'{cell}" if is_formula(cell) else cell for cell in cells])
    return text.getvalue()


def _cells(item: CriterionResult) -> list[str]:
    unit = f" {item.unit}" if item.unit else ""
    result = (
        "passed"
        if item.value is None and item.passed
        else ""
        if item.value is None
        else f"{item.value:.4g}{unit}"
    )
    return [
        item.type,
        item.metric,
        f"{item.threshold:g}{unit}",
        result,
        "" if item.epsilon is None else f"{item.epsilon:g}",
        item.mechanism,
        "" if item.bounds is None else f"[{item.bounds[0]:g}, {item.bounds[1]:g}]",
        "" if item.sensitivity is None else f"{item.sensitivity:.3g}",
        "" if item.noise_deviation is None else f"{item.noise_deviation:.3g}",
    ]


def odds(budget: Budget, known: BestProfile) -> str:
    """Say what an attacker can gain, in words for people who have never heard of epsilon.

    The first number is the chance of guessing right whether somebody is in the data, which the total variation distance of neighbours limits
    without exception. The second is how far a single outcome can move the odds: for a promise that is not pure that is no certainty, and its
    chance is not ``delta`` but larger.

    Parameters
    ----------
    budget
        The promise.
    known
        The tightest that is known about it.

    Examples
    --------
    >>> from understudy.privacy import PureDP
    >>> from understudy.release.selection.profiles import Bound, best_profile
    >>> odds(PureDP(1.0), best_profile([Bound(0.0, PureDP(1.0))]))
    'somebody who tosses a coin (50 %) on whether you are in the data can raise the chance of being right to at most 73.2 %. Whatever was released, it moves their odds by a factor of at most 2.72'
    """
    epsilon, exceeded = odds_limit(budget, known)
    share = chance(known.right_guess(), rounding=ROUND_CEILING).replace("%", " %")
    factor = (
        f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(math.exp(min(epsilon, _LARGEST)))):g}"
    )
    certainty = (
        "How far a single outcome can move their odds is not limited"
        if epsilon > _LARGEST
        else f"Whatever was released, it moves their odds by a factor of at most {factor}"
        if exceeded == 0
        else f"With a chance of at least {at_least(1 - exceeded)} what was released moves their odds by a factor of at most {factor}"
    )
    return (
        "somebody who tosses a coin (50 %) on whether you are in the data can raise the chance of being right to at most "
        f"{share}. {certainty}"
    )


def readme(result: ReleaseResult, *, files: dict[str, str]) -> Page:
    """Return the README of a bundle; ``files`` maps the names of its files to what they hold."""
    spec = result.spec
    lead = [Text(spec.description.strip())] if spec.description.strip() else []
    what = (
        f"This is a synthetic table of {len(result.synthetic):,} rows and {len(result.schema.names)} columns. None of its rows is the record of a person. It stands in for a "
        "sensitive table and was"
    )
    if result.tables:
        sizes = ", ".join(f"{name} with {len(table):,} rows" for name, table in result.tables.items())
        what = f"These are synthetic linked tables: {sizes}. None of their rows is the record of a person. They stand in for sensitive tables and were"
    lead.append(Text(f"{what} produced so that every look at the real records was differentially private."))
    return Page(
        spec.title or spec.name,
        [
            ("For data subjects: what this means for you", _for_subjects(result)),
            ("For data users", _for_users(result, files)),
        ],
        lead=lead,
    )


def _for_subjects(result: ReleaseResult) -> list[Block]:
    from understudy.release.series.previous import series_of

    guarantee = result.guarantee
    series = series_of(result.spec, guarantee.bounds)
    return [
        Text(
            f"The guarantee is {guarantee.budget.describe()}, for neighbouring tables that {guarantee.neighbours}. "
            f"{guarantee.allowed}".rstrip()
        ),
        *([Text(guarantee.condition)] if guarantee.condition else []),
        Text(
            f"In plain words{_compared(guarantee)}: {odds(between(guarantee.budget, guarantee.steps), guarantee.profile)}. The same "
            "holds for anything else about you that would not be "
            "known without your record. It holds whatever else the attacker knows and whatever is computed from this "
            "table later."
        ),
        *([Text(alone)] if (alone := about_records(guarantee.unit)) else []),
        *([] if series is None else [Text(f"This is a release of a series. {series['words']}")]),
        Text("What was treated as public knowledge (and is therefore not protected), and what was not:"),
        Bullets([f"{name}: {_words(fact)}" for name, fact in result.public_facts.items() if fact]),
    ]


def _compared(guarantee: ReleaseGuarantee) -> str:
    """Say which tables that promise compares, after "In plain words"."""
    if not guarantee.among:
        return ""
    instead = (
        ", of which one has your record and the other another one in its place" if guarantee.steps > 1 else ""
    )
    return f", {guarantee.among}{instead}"


def _for_users(result: ReleaseResult, files: dict[str, str]) -> list[Block]:
    guarantee, spec = result.guarantee, result.spec
    charges = sum(entry.event is not None for entry in result.ledger_entries)
    columns = [
        [
            column.name,
            column.kind,
            shown_labels(column.finest.labels),
            column.unit or "",
            column.description or "",
        ]
        for column in result.schema.columns
    ]
    terms = [f"Licence: {spec.license}"] if spec.license else []
    terms += [f"Cite as: {spec.citation}"] if spec.citation else []
    told_terms: list[Block] = [Heading("Terms"), Bullets(terms)] if terms else []
    return [
        Heading("Intended use"),
        Text(
            "Statistics that the acceptance criteria below cover: tables of counts, means and the other listed queries "
            "over the columns of this table. Their errors were checked, under the same guarantee, before the table was "
            "accepted."
        ),
        *(
            [
                Text(text)
                for text in dict.fromkeys(about_rows(item.schema, guarantee.unit) for item in _views(result))
            ]
            if guarantee.unit.id_column is not None
            else []
        ),
        *([] if result.rows_lost is None else [Text(result.rows_lost.describe())]),
        Heading("Unintended use"),
        Text(
            "Looking for individuals or unusual records, hypothesis tests that assume independent rows, training models "
            "without checking them elsewhere, and any statistic far from the criteria. No promise is made about those."
        ),
        Heading("Quality guarantees"),
        Table("Acceptance criteria", COLUMNS, [_cells(item) for item in result.criteria]),
        *_acceptance_words(result),
        Heading("Columns"),
        Table("Columns", ("column", "kind", "values", "unit", "description"), columns),
        *_writing(result),
        *_relations(result),
        Heading("Production process"),
        Bullets(
            [
                f"Method: {result.configuration.name}.",
                f"Selection: {guarantee.selection} ({guarantee.argument}).",
                f"Model: {guarantee.model.describe()}; acceptance: epsilon={guarantee.acceptance_epsilon:g}.",
                f"Charges: {charges} in the ledger {result.ledger_id} of the table {result.ledger_table!r}, "
                f"head {result.ledger_head} after {result.ledger_length} entries.",
                f"Software: {result.software}. Started {result.started}, finished {result.finished}.",
            ]
        ),
        *told_terms,
        *_spreadsheets(result),
        Heading("Files"),
        Bullets([f"{name}: {words}" for name, words in files.items()]),
        Text("Check the bundle with: understudy verify FOLDER"),
    ]


def _writing(result: ReleaseResult) -> list[Block]:
    """Say which columns hold other values than those listed, and what these mean."""
    told = {
        column.name: written(column, item.schema) for item in _views(result) for column in item.schema.columns
    }
    lines = [f"{name}: {words}." for name, words in told.items() if words]
    return [Text("How values of columns with bins are written:"), Bullets(lines)] if lines else []


_PLACES = {
    "midpoint": "the middle of",
    "edge": "the beginning of",
    "uniform": "drawn evenly within",
    "integer-uniform": "drawn evenly within",
    "smooth": "drawn as the neighbours say within",
}


def written(column: Column, schema: Schema) -> str:
    """Say how the values of a column with bins are written, and what of them means anything; empty where each value stands for itself.

    Examples
    --------
    >>> from understudy.schema import Date, Schema
    >>> year = {"minimum": "2020-01-01", "maximum": "2020-12-31", "resolution": "quarter"}
    >>> day = Date("admitted", **year, decode_by="uniform")
    >>> written(day, Schema([day]))
    'written as a day, drawn evenly within the quarter: nothing finer than the quarter means anything'
    """
    fine = column.finest
    if not isinstance(fine, Ordered) or bool((fine.cells.low == fine.cells.high).all()):
        return ""
    what = (fine.resolution or "bin") if isinstance(fine, Date) and fine.bins is None else "bin"
    if fine.decode_by == "label":
        return f"written as the label of its {what}"
    number = "day" if isinstance(fine, Date) else "whole number" if isinstance(fine, Integer) else "number"
    entity = schema.entity
    if entity is not None and entity.gaps and entity.order == column.name:
        return f"written as a day within the {what}, put so many days after the row before of the same {entity.id} as bins of such days say: nothing finer than the {what} and these bins means anything"
    return f"written as a {number}, {_PLACES[fine.decode_by]} the {what}: nothing finer than the {what} means anything"


def _keys(schema: Schema) -> list[tuple[str, list[Block]]]:
    """Return an entry of the dictionary for each column of entities that is no column of the schema: their key, the number of their events, summaries."""
    entity = schema.entity
    assert entity is not None
    fresh = f"It says which rows belong to one synthetic {entity.id}. The numbers are fresh: they refer to nobody."
    if entity.tables is None:
        return [(entity.id, [Text(fresh), Bullets(["Kind: key"])])]
    entities, events = entity.tables
    places = ["Kind: key", *([] if entity.min_events else [f"In {entities}: {entity.id}, the key"])]
    places.append(f"In {events} and data.csv: {entity.reference or entity.id}")
    found: list[tuple[str, list[Block]]] = [(entity.id, [Text(fresh), Bullets(places)])]
    if entity.count is not None:
        facts = [
            "Kind: integer",
            f"Possible values: {entity.min_events} to {entity.max_events:,}",
            f"In {entities}",
        ]
        found.append(
            (entity.count, [Text(f"Number of rows in {events}. It follows from them."), Bullets(facts)])
        )
    for item in entity.summaries:
        said = f"{item.describe()}. It follows from the rows of {events}."
        found.append((item.name, [Text(said[0].upper() + said[1:]), Bullets([f"In {entities}"])]))
    return found


def _views(result: ReleaseResult) -> list[ReleaseResult]:
    """Return the release itself, or, of several tables of events, the entities with each of them."""
    return list(result.parts.values()) or [result]


def _relations(result: ReleaseResult) -> list[Block]:
    """Say which tables there are and how they are joined, where there are several."""
    lines = [line for item in _views(result) for line in relations(item.schema)] if result.tables else []
    if result.parts:  # there is no table with all columns, and the numbers of other tables are in no table but those of the parts
        lines = [line for line in dict.fromkeys(lines) if not line.startswith("data.csv")]
    return [Heading("Tables and keys"), Bullets(lines)] if lines else []


def relations(schema: Schema) -> list[str]:
    """Return what joins linked tables, one line each; none for one table.

    Examples
    --------
    >>> from understudy.schema import Schema
    >>> relations(Schema.parse("columns: [{name: a, kind: boolean}]"))
    []
    """
    entity = schema.entity
    if entity is None or entity.tables is None:
        return []
    entities, events = entity.tables
    key, reference = entity.id, entity.reference or entity.id
    order = f", in the order of {entity.order}" if entity.order is not None else ", in no particular order"
    if entity.min_events:
        return [
            f"{events} ({events}.{reference}): rows with the same {reference} belong to one of {entities}, which have no table of their own{order}. The numbers are fresh."
        ]
    count = "" if entity.count is None else f" {entity.count} is their number in {events}."
    count += "".join(
        f" {item.name} follows from its rows in {events}: {item.describe()}." for item in entity.summaries
    )
    return [
        f"{entities}: one row for each {key}, which is the key; the numbers are fresh.{count}",
        f"{events}: {reference} is the {key} of a row of {entities} (foreign key); 0 to {entity.max_events:,} rows for each{order}.",
        f"data.csv: the rows of {events} with the columns of their row of {entities} beside them.",
    ]


def _spreadsheets(result: ReleaseResult) -> list[Block]:
    columns = [column.name for column in result.schema.columns if formula_values(column)]
    if not columns:
        return []
    return [
        Heading("Spreadsheets"),
        Text(
            "Some values begin with a sign that spreadsheets take for a formula, and are published as the dictionary lists "
            f"them. Do not open data.csv in one by a double click: import these columns as text: {', '.join(columns)}."
        ),
    ]


def _acceptance_words(result: ReleaseResult) -> list[Block]:
    acceptance = result.acceptance
    if acceptance is None:
        return []
    if acceptance.form == "pass-only" and acceptance.false_accept is not None:
        return [
            Text(
                "All criteria that read the real table were checked together by one noisy test; only its outcome was "
                "released, not the single errors. A table that violates a criterion passes with probability at most "
                f"{acceptance.false_accept:g}."
                + ("" if result.spec.shares.single else f" {ENGLISH['promise_attempts']}")
            )
        ]
    if not acceptance.epsilon:
        return [
            Text(
                "All criteria concern the synthetic table alone: they were checked without another look at the real one, and "
                "their results are exact."
            )
        ]
    return [Text("Results are noisy: the deviation of the noise is in the last column.")]


def dictionary(result: ReleaseResult) -> Page:
    """Return the data dictionary: every column with every value it can take, and what is known of values that may not occur at all."""
    title = result.spec.title or result.spec.name
    rules = [rule.text for rule in result.schema.constraints]
    rare = rare_values(result.model)
    sections: list[tuple[str, list[Block]]] = [
        (column.name, _column(column, rare.get(column.name, {}), written(column, result.schema)))
        for column in result.schema.columns
    ]
    sections += [(item.name, [Text(about_derived(item))]) for item in result.schema.derived]
    if rules:
        sections.append(("Rules that every row obeys", [Bullets(rules)]))
    if of_entities(result.schema, result.guarantee.unit):
        sections = [*_keys(result.schema), *sections]
    if result.tables:
        sections.insert(0, ("Tables and keys", [Bullets(relations(result.schema))]))
    learnt = [column.name for column in result.spec.every_column if column.measured_facts]
    lead = [Text(f"What each column can hold. {_learnt(learnt, 'Nothing')}")]
    if rare:
        lead = [
            Text(
                "What each column can hold. Values that the noisy measurements of the real table cannot tell from values without any row are marked, with the most rows that they "
                f"have with a confidence of {RARE_CONFIDENCE:.0%}; what the synthetic table has of them is mostly noise. {_learnt(learnt, 'Nothing else')}"
            )
        ]
    return Page(f"{title}: data dictionary", sections, lead=lead)


def _learnt(columns: Sequence[str], nothing: str) -> str:
    """Say what of the schema was learnt from the records."""
    if not columns:
        return f"{nothing} here was learnt from the real records."
    named = ", ".join(dict.fromkeys(columns))
    return f"What is said of {named} was measured from the real records before, with noise, at the cost of the same ledger. {nothing} of the others was learnt from them."


def _column(column: Column, rare: Mapping[str, int], writing: str) -> list[Block]:
    facts = [f"Kind: {column.kind}", f"Possible values: {column.finest.size:,}"]
    facts += [writing[0].upper() + writing[1:]] if writing else []
    facts += [f"Unit: {column.unit}"] if column.unit else []
    decimals = getattr(column, "decimals", None)
    facts += [f"Digits after the point: at most {decimals}"] if decimals is not None else []
    if column.missing:
        shown_as = f"written as {column.missing_text}" if column.missing_text else "an empty field"
        facts += [f"May be missing: {shown_as}"]
    formulas = formula_values(column)
    facts += [f"Spreadsheets take for formulas: {', '.join(formulas)}"] if formulas else []
    labels = [label for label in column.finest.labels if label]
    whole = len(labels) <= 200
    noted = {label: rare_words(most) for label, most in rare.items() if whole and label in labels}
    facts += [
        f"{label or 'Missing'}: {rare_words(most)}" for label, most in rare.items() if label not in noted
    ]
    caption = f"Values of {column.name}"
    shown: Block = Text(shown_labels(labels))
    if whole and noted:
        rows = [[label, noted.get(label, "")] for label in labels]
        shown = Table(caption, ("value", "what is known of rare values"), rows, open_at=60)
    elif whole:
        shown = Table(caption, ("value",), [[label] for label in labels], open_at=60)
    return [*([Text(column.description)] if column.description else []), Bullets(facts), shown]


def _words(fact: object) -> str:
    return "; ".join(map(str, fact)) if isinstance(fact, list | tuple) else str(fact)
