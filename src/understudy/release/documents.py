"""The words that travel with a release: a README in two parts, for data subjects and for data users."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, gdp_to_approx, zcdp_to_approx
from understudy.release.result import CriterionResult, ReleaseResult

__all__ = ["acceptance_table", "odds", "readme"]

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


def acceptance_table(criteria: Sequence[CriterionResult]) -> str:
    """Return the acceptance criteria as CSV, one row each, in the layout of paper Births, Table 2."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", *COLUMNS, "passed"])
    for item in criteria:
        writer.writerow([item.name, *_cells(item), "yes" if item.passed else "no"])
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


def _as_epsilon(budget: Budget) -> tuple[float, float]:
    """Return an (epsilon, delta) statement of any budget."""
    if isinstance(budget, PureDP):
        return budget.epsilon, 0.0
    if isinstance(budget, ApproxDP):
        return budget.epsilon, budget.delta
    if isinstance(budget, ZCDP):
        return zcdp_to_approx(budget.rho, 1e-9), 1e-9
    assert isinstance(budget, GDP)
    return gdp_to_approx(budget.mu, 1e-9), 1e-9


def odds(budget: Budget) -> str:
    """Say what an attacker can gain, in words for people who have never heard of epsilon.

    Examples
    --------
    >>> odds(PureDP(1.0))
    'somebody who would have guessed with even odds (50 %) that you are in the data can raise that to at most 73.1 %'
    """
    epsilon, delta = _as_epsilon(budget)
    share = 1 / (1 + math.exp(-epsilon)) if epsilon < 700 else 1.0
    exception = f", except with a chance of {delta:g}" if delta else ""
    return (
        "somebody who would have guessed with even odds (50 %) that you are in the data "
        f"can raise that to at most {100 * share:.3g} %{exception}"
    )


def readme(result: ReleaseResult, *, files: dict[str, str]) -> str:
    """Return the README of a bundle in Markdown."""
    spec, guarantee = result.spec, result.guarantee
    title = spec.title or spec.name
    lines = [
        f"# {title}",
        "",
        *([spec.description.strip(), ""] if spec.description.strip() else []),
        f"This is a **synthetic** table of {len(result.synthetic):,} rows and {len(result.schema.names)} columns. "
        "None of its rows is the record of a person. It stands in for a sensitive table and was produced so that every "
        "look at the real records was differentially private.",
        "",
        "## For data subjects: what this means for you",
        "",
        f"The guarantee is {guarantee.budget.describe()}, for neighbouring tables that {guarantee.unit.describe()}.",
        f"In plain words: {odds(guarantee.budget)}. The same holds for anything else about you that would not be known "
        "without your record. It holds whatever else the attacker knows and whatever is computed from this table later.",
        "",
        "What was treated as public knowledge, and is therefore not protected:",
        "",
        *[f"- {name}: {_words(fact)}" for name, fact in result.public_facts.items() if fact],
        "",
        "## For data users",
        "",
        "### Intended use",
        "",
        "Statistics that the acceptance criteria below cover: tables of counts, means and the other listed queries over the "
        "columns of this table. Their errors were checked, under the same guarantee, before the table was accepted.",
        "",
        "### Unintended use",
        "",
        "Looking for individuals or unusual records, hypothesis tests that assume independent rows, training models without "
        "checking them elsewhere, and any statistic far from the criteria. No promise is made about those.",
        "",
        "### Quality guarantees",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *["| " + " | ".join(_cells(item)) + " |" for item in result.criteria],
        "",
        *_acceptance_words(result),
        "### Columns",
        "",
        "| column | kind | values | unit | description |",
        "|---|---|---|---|---|",
        *[
            f"| {column.name} | {column.kind} | {_labels(column.labels)} | {column.unit or ''} | {column.description or ''} |"
            for column in result.schema.columns
        ],
        "",
        "### Production process",
        "",
        f"- Method: {result.configuration.name}.",
        f"- Selection: {guarantee.selection} ({guarantee.argument}).",
        f"- Model: {guarantee.model.describe()}; acceptance: epsilon={guarantee.acceptance_epsilon:g}.",
        f"- Charges: {sum(entry.event is not None for entry in result.ledger_entries)} entries of ledger "
        f"`{result.ledger_id}` of the table {result.ledger_table!r}, head `{result.ledger_head}`.",
        f"- Software: {result.software}. Started {result.started}, finished {result.finished}.",
        "",
        "### Files",
        "",
        *[f"- `{name}`: {words}" for name, words in files.items()],
        "",
        "Check the bundle with `understudy verify FOLDER`.",
        "",
    ]
    return "\n".join(lines)


def _acceptance_words(result: ReleaseResult) -> list[str]:
    acceptance = result.acceptance
    if acceptance is None:
        return []
    if acceptance.form == "pass-only" and acceptance.false_accept is not None:
        return [
            "All criteria that read the real table were checked together by one noisy test; only its outcome was released, not the "
            f"single errors. A table that violates a criterion passes with probability at most {acceptance.false_accept:g}.",
            "",
        ]
    return ["Results are noisy: the deviation of the noise is in the last column.", ""]


def _words(fact: object) -> str:
    return "; ".join(map(str, fact)) if isinstance(fact, list | tuple) else str(fact)


def _labels(labels: Sequence[str]) -> str:
    shown = list(labels) if len(labels) <= 12 else [*labels[:5], "…", *labels[-3:]]
    return ", ".join(str(label).replace("|", "\\|") for label in shown)
