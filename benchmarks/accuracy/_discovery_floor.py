"""What a share of a budget cannot find: the error of an oracle that misses nothing but texts too rare for the noise.

The oracle is told for nothing what kinds the columns have, every range, every number, every list that everybody knows, how many rows
hold each text, and how to divide the share best. What it may not do is name a text without paying for it: a text of a column comes out
if its exact count reaches the threshold of the noise that was paid for that column, and becomes ``other`` if not. Its rows are those of
the expert's fit, which had the whole budget, with the texts that were not found replaced. So no discovery of texts by a threshold
does much better at this share, and what is above is noise in ranges, kinds that were taken for others, or cells that do not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from scipy.special import ndtri

from understudy.discovery import shares_of
from understudy.discovery.public_lists import known_list
from understudy.privacy import Budget, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING
from understudy.schema import Categorical, Column, Ordinal, Schema
from understudy.schema.coding.profile import MISSING_SPELLINGS, number_in

__all__ = ["NOT_FOUND", "found_texts", "text_counts", "without_hidden"]

NOT_FOUND = "not found"
"""Stands for a text that the oracle could not name; no schema has it."""


@dataclass(frozen=True)
class _Step:
    """To find all texts of a column that have at least so many rows."""

    column: str
    least: int
    cost: float
    held: int


def _spelled_missing(column: Column) -> set[str]:
    return {*MISSING_SPELLINGS, *(str(value).strip().lower() for value in column.missing_values)}


def text_counts(schema: Schema, real: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Return how many rows hold each text, for the columns whose texts have to be found: neither numbers nor on a list that everybody knows."""
    found = {}
    for column in schema.columns:
        if not isinstance(column, Categorical | Ordinal):
            continue
        spelled = _spelled_missing(column)
        entries = real[column.name].str.strip()
        counts = entries[~entries.str.lower().isin(spelled)].value_counts()
        texts = {str(text): int(many) for text, many in counts.items()}
        if any(number_in(text) is None for text in texts) and not known_list(list(texts)):
            found[column.name] = texts
    return found


def found_texts(
    counts: Mapping[str, Mapping[str, int]], *, epsilon: float, delta: float, share: float
) -> dict[str, set[str]]:
    """Return the texts that an oracle finds with a share of a budget, one row of a person being protected.

    Half a row more than the one that could give a text away is the rounding of the noise: ``P(Z >= T - 1.5)`` is at most the delta of a column.
    The share is divided by what a further text holds for its cost; the noise of a column costs ``1 / sigma**2``.

    Examples
    --------
    >>> counts = {"a": {"x": 9_000, "y": 900, "z": 90}, "b": {"u": 5_000, "v": 4_990}}
    >>> {name: sorted(texts) for name, texts in found_texts(counts, epsilon=1.0, delta=1e-6, share=0.1).items()}
    {'a': ['x', 'y', 'z'], 'b': ['u', 'v']}
    >>> {name: sorted(texts) for name, texts in found_texts(counts, epsilon=0.1, delta=1e-6, share=0.1).items()}
    {'a': ['x', 'y'], 'b': ['u', 'v']}
    """
    found: dict[str, set[str]] = {name: set() for name in counts}
    if not counts:
        return found
    parts = shares_of(Budget.of(epsilon=epsilon, delta=delta), share)
    left = float(GDP_ACCOUNTING.exact_total(parts.measuring, approximate_delta=parts.reserve))
    quantile = -float(ndtri(parts.reserve / len(counts)))
    assert Unit.add_remove().histogram_l2 == 1
    paid = dict.fromkeys(counts, 0.0)
    held = dict.fromkeys(counts, 0)
    while True:
        steps = [
            step
            for name, texts in counts.items()
            for step in _steps(name, texts, quantile)
            if step.held > held[name] and step.cost - paid[name] <= left
        ]
        if not steps:
            return found
        best = max(steps, key=lambda step: (step.held - held[step.column]) / (step.cost - paid[step.column]))
        left -= best.cost - paid[best.column]
        paid[best.column], held[best.column] = best.cost, best.held
        found[best.column] = {text for text, many in counts[best.column].items() if many >= best.least}


def _steps(name: str, texts: Mapping[str, int], quantile: float) -> Sequence[_Step]:
    steps = []
    for least in sorted({many for many in texts.values() if many >= 2}, reverse=True):
        cost = (quantile / (least - 1.5)) ** 2
        steps.append(_Step(name, least, cost, sum(many for many in texts.values() if many >= least)))
    return steps


def without_hidden(
    rows: pd.DataFrame, counts: Mapping[str, Mapping[str, int]], found: Mapping[str, set[str]], schema: Schema
) -> pd.DataFrame:
    """Return rows in which every text that was not found, of the columns whose texts have to be found, is `NOT_FOUND`; missing entries stay."""
    made = rows.copy()
    for name in counts:
        if name not in made:
            continue
        spelled = _spelled_missing(schema.column(name))
        entries = made[name].str.strip()
        hidden = ~entries.isin(found[name]) & ~entries.str.lower().isin(spelled)
        made.loc[hidden, name] = NOT_FOUND
    return made
