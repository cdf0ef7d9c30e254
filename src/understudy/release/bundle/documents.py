"""The words that travel with a release: a README for data subjects and data users, and a data dictionary."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context
from typing import Any

from understudy.privacy import Budget
from understudy.release.bundle.reporting import (
    RARE_CONFIDENCE,
    at_least,
    between,
    odds_limit,
    rare_values,
    rare_words,
    shown_labels,
)
from understudy.release.result import CriterionResult, ReleaseGuarantee, ReleaseResult
from understudy.release.selection.profiles import BestProfile
from understudy.report import Block, Bullets, Heading, Page, Table, Text, chance
from understudy.schema import Column, Schema
from understudy.schema.constraints.derived import DerivedColumn
from understudy.schema.spreadsheets import formula_values, is_formula

# ----------------------------------------------------------------------------------------
# Machine-readable descriptions of a bundle: Frictionless Data Package and Croissant.

_TABLE_TYPES = {"integer": "integer", "real": "number", "boolean": "boolean", "date": "date"}
_CROISSANT_TYPES = {"integer": "sc:Integer", "real": "sc:Float", "boolean": "sc:Boolean", "date": "sc:Date"}
_MEDIA = {"csv": "text/csv", "csv.gz": "application/gzip", "parquet": "application/vnd.apache.parquet"}

_CROISSANT_TERMS = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet", "format",
    "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex",
    "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
)  # fmt: skip
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _CROISSANT_TERMS},
}
"""The vocabulary of Croissant 1.0."""


def _is_text(column: Column, result: ReleaseResult) -> bool:
    """Say whether a column was decoded to labels rather than to numbers or dates."""
    return (
        str(result.synthetic[column.name].dtype) in {"object", "str", "string", "category"}
        and column.kind != "date"
    )


def data_package(result: ReleaseResult, data: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """Return a Data Package descriptor; ``data`` maps file names to hash and size."""
    fields = []
    for column in result.schema.columns:
        kind = "string" if _is_text(column, result) else _TABLE_TYPES.get(column.kind, "string")
        own = getattr(column, "spelling", None)
        if own is not None and column.other_code is None:
            kind = "boolean"
        field: dict[str, Any] = {"name": column.name, "type": kind, "description": column.description or ""}
        if kind == "boolean" and own is not None:
            field |= {"falseValues": [own[0]], "trueValues": [own[1]]}
        if kind == "string":
            field["constraints"] = {"enum": [str(label) for label in column.finest.labels if label]}
        fields.append(field)
    fields += [
        {
            "name": item.name,
            "type": _type_of(item.name, result, _TABLE_TYPES, "string"),
            "description": _about(item),
        }
        for item in result.schema.derived
    ]
    order = {name: place for place, name in enumerate(result.schema.output_names)}
    fields.sort(key=lambda field: order[field["name"]])
    return {
        "profile": "data-package",
        "name": result.spec.name.lower().replace(" ", "-").replace("_", "-"),
        "title": result.spec.title or result.spec.name,
        "description": result.spec.description,
        "created": f"{result.finished[:10]}T00:00:00Z",
        **({"licenses": [_licence(result.spec.license)]} if result.spec.license else {}),
        "resources": [
            _resource(name, *told, fields, _missing_texts(result.schema)) for name, told in data.items()
        ],
    }


def _type_of(name: str, result: ReleaseResult, types: Mapping[str, str], text: str) -> str:
    """Return the type of a derived column, by how it is stored."""
    stored = result.synthetic[name].dtype
    kinds = {"M": "date", "i": "integer", "u": "integer", "f": "real"}
    return types.get(kinds.get(getattr(stored, "kind", "O"), ""), text)


def _about(item: DerivedColumn) -> str:
    """Say what a derived column is."""
    return f"{item.description} (computed: {item.value})" if item.description else f"Computed: {item.value}"


def _licence(words: str) -> dict[str, str]:
    """Return a licence as Data Package wants it: by address, or by name."""
    return {"path" if "://" in words else "name": words}


def _missing_texts(schema: Schema) -> list[str]:
    """Return how missing entries are written; a text that is a value of another column is told in the dictionary alone."""
    values = {label for column in schema.columns for label in column.value_labels}
    texts = dict.fromkeys(column.missing_text for column in schema.columns)
    return ["", *(text for text in texts if text and text not in values)]


def _resource(
    name: str, digest: str, size: int, fields: list[dict[str, Any]], missing: list[str]
) -> dict[str, Any]:
    """Describe one file; only CSV is a table to Frictionless, other formats are files."""
    kind = name.split(".", 1)[-1]
    told: dict[str, Any] = {
        "profile": "data-resource" if kind == "parquet" else "tabular-data-resource",
        "name": f"data-{kind.replace('.', '-')}",
        "path": name,
        "format": kind.split(".")[0],
        "mediatype": _MEDIA[kind],
        "hash": f"sha256:{digest}",
        "bytes": size,
    }
    return told | (
        {"type": "file"} if kind == "parquet" else {"schema": {"fields": fields, "missingValues": missing}}
    )


def _identifiers(names: Sequence[str]) -> dict[str, str]:
    """Return a name for each column that Croissant accepts as an identifier: without blanks, and unique.

    Examples
    --------
    >>> _identifiers(["age", "day of birth", "day_of_birth"])
    {'age': 'age', 'day of birth': 'day_of_birth-2', 'day_of_birth': 'day_of_birth'}
    """
    found = {name: name for name in names if not re.search(r"\s", name)}
    for place, name in enumerate(names, start=1):
        plain = re.sub(r"\s+", "_", name)
        while name not in found and plain in found.values():
            plain = f"{plain}-{place}"
        found.setdefault(name, plain)
    return {name: found[name] for name in names}


def croissant(result: ReleaseResult, data: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """Return a Croissant (MLCommons) description of the table."""
    first = next(iter(data))
    identifiers = _identifiers(result.schema.output_names)
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": result.spec.name,
        "description": result.spec.description or result.spec.title or result.spec.name,
        "datePublished": result.finished[:10],
        "version": "1.0.0",
        **({"license": result.spec.license} if result.spec.license else {}),
        **({"citeAs": result.spec.citation} if result.spec.citation else {}),
        "rai:personalSensitiveInformation": f"Synthetic rows; {result.guarantee.describe()}",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "encodingFormat": _MEDIA[name.split(".", 1)[-1]],
                "sha256": digest,
                "contentSize": f"{size} B",
            }
            for name, (digest, size) in data.items()
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "field": [
                    {
                        "@type": "cr:Field",
                        "@id": f"rows/{identifiers[column.name]}",
                        "name": column.name,
                        "description": column.description or column.name,
                        "dataType": "sc:Text"
                        if _is_text(column, result)
                        else _CROISSANT_TYPES.get(column.kind, "sc:Text"),
                        "source": {"fileObject": {"@id": first}, "extract": {"column": column.name}},
                    }
                    for column in result.schema.columns
                ]
                + [
                    {
                        "@type": "cr:Field",
                        "@id": f"rows/{identifiers[item.name]}",
                        "name": item.name,
                        "description": _about(item),
                        "dataType": _type_of(item.name, result, _CROISSANT_TYPES, "sc:Text"),
                        "source": {"fileObject": {"@id": first}, "extract": {"column": item.name}},
                    }
                    for item in result.schema.derived
                ],
            }
        ],
    }


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
    lead.append(
        Text(
            f"This is a synthetic table of {len(result.synthetic):,} rows and {len(result.schema.names)} columns. "
            "None of its rows is the record of a person. It stands in for a sensitive table and was produced so that "
            "every look at the real records was differentially private."
        )
    )
    return Page(
        spec.title or spec.name,
        [
            ("For data subjects: what this means for you", _for_subjects(result)),
            ("For data users", _for_users(result, files)),
        ],
        lead=lead,
    )


def _for_subjects(result: ReleaseResult) -> list[Block]:
    guarantee = result.guarantee
    return [
        Text(
            f"The guarantee is {guarantee.budget.describe()}, for neighbouring tables that {guarantee.unit.describe()}. "
            f"{guarantee.allowed}".rstrip()
        ),
        *([Text(guarantee.condition)] if guarantee.condition else []),
        Text(
            f"In plain words{_compared(guarantee)}: {odds(between(guarantee.budget, guarantee.steps), guarantee.profile)}. The same "
            "holds for anything else about you that would not be "
            "known without your record. It holds whatever else the attacker knows and whatever is computed from this "
            "table later."
        ),
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
        *([Text(guarantee.unit.describe_cut())] if guarantee.unit.id_column is not None else []),
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
        (column.name, _column(column, rare.get(column.name, {}))) for column in result.schema.columns
    ]
    sections += [(item.name, [Text(_about(item))]) for item in result.schema.derived]
    if rules:
        sections.append(("Rules that every row obeys", [Bullets(rules)]))
    lead = [Text("What each column can hold. Nothing here was learnt from the real records.")]
    if rare:
        lead = [
            Text(
                "What each column can hold. Values that the noisy measurements of the real table cannot tell from values without any row are marked, with the most rows that they "
                f"have with a confidence of {RARE_CONFIDENCE:.0%}; what the synthetic table has of them is mostly noise. Nothing else here was learnt from the real records."
            )
        ]
    return Page(f"{title}: data dictionary", sections, lead=lead)


def _column(column: Column, rare: Mapping[str, int]) -> list[Block]:
    facts = [f"Kind: {column.kind}", f"Possible values: {column.finest.size:,}"]
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
