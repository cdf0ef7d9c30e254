"""What the first screen of a report says about the numbers: three that can be read off the table, three things it cannot tell.

Everything is computed from what is published: the rows, the model with its noisy measurements, and the certificate. Which numbers are shown is
decided by the owner or by public facts alone (the specification, the schema, what was measured), never by what came out: the best of many
noisy numbers would be too good on average, and its interval would fail more often than it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from understudy.errors import MissingExtra, UnderstudyError, UnknownMethod
from understudy.mechanisms import Model
from understudy.release.criteria.base import CriterionConfig
from understudy.release.criteria.groups import OpenBins
from understudy.release.criteria.registry import criterion_kind
from understudy.release.spec.reading import Reading, ReadingPart
from understudy.report import Figure
from understudy.schema import Clique, Codes, Column, Schema
from understudy.schema.entities import Entity

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CONFIDENCE", "criterion_figures", "figures", "limits"]

CONFIDENCE = 0.95
"""With which the ranges of all figures hold together."""
SHOWN = 3
_MOST_VALUES = 12
_NAMED = ("boolean", "categorical", "ordinal")
_SHORT = 40


def figures(
    schema: Schema, codes: Mapping[str, Codes], model: Model | None, spec: Mapping[str, Any]
) -> list[Figure]:
    """Return up to three numbers as the table has them, each with the range in which the real one lies.

    The owner's (``show`` in the specification) come first, then a share, a mean and a comparison of two groups that the criteria and the schema
    suggest. Those about which nothing was measured are left out, unless the owner asked for them.

    Notes
    -----
    All ranges hold together with 95 %. Where all measurements were planned at once, it is public which candidates they know something about, so the
    three that are shown are known in advance and share the failure probability equally. Where measurements were chosen in the light of
    earlier ones, so is what is shown; then the ``i``-th candidate has ``0.05 · 6/(pi i)^2`` of it, shown or not, which adds up to less than 0.05 over any
    number of them. A comparison has half of its part for each group: the difference lies between the smallest and the largest
    difference of what the two ranges hold.
    """
    if model is None or not model.measurements:
        return []
    bins: OpenBins = spec.get("acceptance", {}).get("open_bins", "nearest")
    found: list[Figure] = []
    planned = len(model.uncertainty.evidence.batches) <= 1
    for place, (part, asked) in enumerate(_wanted(schema, spec), start=1):
        try:
            reading = part.build(schema, bins)
        except UnderstudyError:
            continue  # the model has coarser groups of this column than the specification
        share = 1 / SHOWN if planned else 6 / (math.pi * place) ** 2
        figure = _figure(reading, schema, codes, model, always=asked, beta=(1 - CONFIDENCE) * share)
        if figure is not None and figure.what not in {item.what for item in found}:
            found.append(figure)
        if len(found) == SHOWN:
            break
    return found


def _wanted(schema: Schema, spec: Mapping[str, Any]) -> Iterator[tuple[ReadingPart, bool]]:
    """Yield what to show, in order, and whether the owner asked for it."""
    asked = [ReadingPart.model_validate(item) for item in spec.get("show") or ()]
    yield from ((part, True) for part in asked)
    criteria = spec.get("acceptance", {}).get("criteria", ())
    numeric = [column.name for column in schema.columns if column.kind in ("integer", "real")]
    looked_at = [item for item in criteria if item.get("column") in numeric]
    numbers = [*(str(item["column"]) for item in looked_at), *numeric]
    groupings = [
        (str(item["column"]), by) for item in looked_at for by in item.get("by", ()) if by != "everyone"
    ]
    named = [
        column.name
        for column in schema.columns
        if column.kind in _NAMED and column.value_count <= _MOST_VALUES
    ]
    columns = [by if isinstance(by, str) else str(by.get("column")) for _, by in groupings]
    first = [name for name in dict.fromkeys([*columns, *named]) if name in named]
    groupings += [(number, by) for number in dict.fromkeys(numbers) for by in first]
    kinds: tuple[list[dict[str, Any]], ...] = (
        [{"column": name, "values": [_value(schema.column(name))]} for name in first],
        [{"column": name} for name in dict.fromkeys(numbers)],
        [{"column": number, "by": by} for number, by in groupings]
        + [
            {"column": x, "values": [_value(schema.column(x))], "by": by}
            for x in first
            for by in first
            if x != by
        ],
    )
    longest = max(map(len, kinds), default=0)
    for turn in range(longest):  # one of each kind, then the next of each
        for plain in (kind[turn] for kind in kinds if turn < len(kind)):
            try:
                yield ReadingPart.model_validate(plain), False
            except ValidationError:
                continue  # a criterion of another package, whose keys mean something else


def _value(column: Column) -> str:
    """Return the value whose share is shown: yes rather than no, otherwise the first."""
    return str(column.value_labels[1 if column.kind == "boolean" and column.value_count > 1 else 0])


def _figure(
    reading: Reading, schema: Schema, codes: Mapping[str, Codes], model: Model, *, always: bool, beta: float
) -> Figure | None:
    """Return a reading with its range, or None where nothing is known about it."""
    groups: Sequence[tuple[int, ...] | None] = [members for _, members in reading.groups] or [None]
    values, ends = [], []
    for members in groups:
        clique, weights = _cells(reading, members, schema)
        try:
            interval = model.uncertainty.mean_over(clique, weights, confidence=1 - beta / len(groups))
        except UnderstudyError:
            return None  # the columns lie too far apart in the model
        if interval.basis == "trivial" and not always:
            return None
        values.append(_mean(reading, members, codes))
        ends.append((float(interval.low), float(interval.high)))
    scale, unit = (100.0, "%") if reading.is_share else (1.0, reading.unit)
    if len(groups) == 1:
        here, (low, high), sign = values[0], ends[0], ""
    else:
        here, sign = values[0] - values[1], "+"
        low, high = ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]
        unit = "points" if reading.is_share else unit
    if not all(map(math.isfinite, (here, low, high))):
        return None
    decimals = _decimals(scale * (high - low))
    after = "%" if unit == "%" else f" {unit}" if unit else ""
    return Figure(
        value=f"{_number(scale * here, decimals, sign=sign)}{after}",
        what=reading.text or _words(reading, schema),
        low=f"{_number(scale * low, decimals, ROUND_FLOOR, sign=sign)}{'%' if after == '%' else ''}",
        high=f"{_number(scale * high, decimals, ROUND_CEILING, sign=sign)}{after}",
        note=_binned(reading, schema),
    )


def _cells(
    reading: Reading, members: tuple[int, ...] | None, schema: Schema
) -> tuple[Clique, npt.NDArray[np.float64]]:
    """Return a marginal and what each of its cells counts for: NaN outside of the group."""
    values = np.asarray(reading.values, dtype=np.float64)
    if members is None:
        return (reading.column,), values
    inside = np.full(schema.column(reading.by).size, np.nan)
    inside[list(members)] = 0.0
    clique = schema.domain.canonical((reading.column, reading.by))
    table = values[:, None] + inside[None, :]
    return clique, table if clique[0] == reading.column else table.T


def _mean(reading: Reading, members: tuple[int, ...] | None, codes: Mapping[str, Codes]) -> float:
    """Return the number as the synthetic table has it; NaN where no row counts."""
    numbers = np.asarray(reading.values)[np.asarray(codes[reading.column])]
    kept = np.isfinite(numbers)
    if members is not None:
        kept &= np.isin(np.asarray(codes[reading.by]), members)
    return float(numbers[kept].mean()) if kept.any() else math.nan


def _words(reading: Reading, schema: Schema) -> str:
    """Say what a number is, with the names and labels of the schema."""
    named = _named(schema.column(reading.column))
    what = f"Share of {named}: {', '.join(reading.labels)}" if reading.is_share else f"Mean of {named}"
    if not reading.groups:
        return what
    (first, _), (last, _) = reading.groups
    return f"{what}: {reading.by} {first} less {last}"


def _binned(reading: Reading, schema: Schema) -> str:
    """Say what a mean of a column with bins is a mean of."""
    wide = not reading.is_share and getattr(schema.column(reading.column), "bins", None) is not None
    return "In a mean every bin counts as its middle." if wide else ""


def _named(column: Column) -> str:
    """Return a column by its description, where that is short, with its name."""
    about = " ".join((column.description or "").split()).rstrip(".")
    return f"{about} ({column.name})" if 0 < len(about) <= _SHORT and about != column.name else column.name


def _decimals(width: float) -> int:
    """Return how many digits after the point leave two digits of a range.

    Examples
    --------
    >>> [_decimals(width) for width in (130.0, 1.4, 0.05, 0.0)]
    [0, 1, 3, 1]
    """
    return 1 if width <= 0 else min(6, max(0, 1 - math.floor(math.log10(width))))


def _number(value: float, decimals: int, rounding: str = "ROUND_HALF_EVEN", *, sign: str = "") -> str:
    """Write a number; the low end of a range is rounded down, the high end up.

    Examples
    --------
    >>> _number(3199.94, 0), _number(0.05, 1, ROUND_CEILING, sign="+"), _number(-0.01, 1)
    ('3,200', '+0.1', '0.0')
    """
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimals), rounding=rounding) + 0
    return f"{rounded:{sign},.{decimals}f}"


def criterion_figures(
    criteria: Sequence[Mapping[str, Any]],
    most: int,
    *,
    spec: Mapping[str, Any],
    groups: Mapping[str, str],
    schema: Schema,
    rows: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    entity: Entity | None,
) -> list[Figure]:
    """Return criteria about the real table as figures: what was held to be off by less than how much, and beside it the value of the synthetic table where it is one number.

    They stand in where a method gives no ranges.

    Parameters
    ----------
    criteria
        Those of the certificate, of which the first ``most`` are shown.
    spec, groups
        The specification, and by the name of a criterion its groups in words.
    schema, rows, tables
        The published rows, and of linked tables each by its name.
    entity
        Whose rows they are, in a release of entities with their events.
    """
    asked = {item.get("name"): item for item in spec.get("acceptance", {}).get("criteria", ())}
    found = []
    for item in criteria:
        if item["form"] == "public" or not item["passed"]:
            continue
        limit = f"{item['threshold']:g} {item['unit']}".rstrip()
        if f"{item['unit']} ".startswith("share "):
            limit = f"{100 * item['threshold']:g} points"
        plain = asked.get(item["name"], {})
        kind = _config_of(str(plain.get("kind") or item.get("kind")))
        what = kind.subject(plain, entity)
        if not what:
            metric = f" ({item['type']}: {item['metric']})"
            found.append(Figure(value=f"below {limit}", what=f"Error of: {item['name']}{metric}"))
            continue
        inside = groups.get(str(item["name"]), "")
        inside = "" if inside in ("", "everyone") else f", in every group ({inside})"
        value = ""
        if entity is not None:
            key, many = _whose(entity, rows, tables)
            value = kind.published_value(plain, schema=schema, events=rows, key=key, entities=many)
        found.append(
            Figure(value=value, what=f"{what}: off by less than {limit}{inside}")
            if value
            else Figure(value=f"within {limit}", what=f"{what}{inside}")
        )
    return found[:most]


def _config_of(kind: str) -> type[CriterionConfig]:
    """Return the configuration of a kind, or what all have in common for one whose package is not installed here."""
    try:
        return criterion_kind(kind)
    except (UnknownMethod, MissingExtra):
        return CriterionConfig


def _whose(entity: Entity, rows: pd.DataFrame, tables: Mapping[str, pd.DataFrame]) -> tuple[str, int]:
    """Return the column of published events that says whose they are, and the number of published entities."""
    if entity.tables is None:
        whole, key = tables.get(""), entity.id
    else:
        whole, key = tables.get(entity.tables[0]), entity.reference or entity.id
    return key, rows[key].nunique() if whole is None else len(whole)


def limits(
    *,
    bounds: Sequence[tuple[Clique, float]],
    rare: Mapping[str, Mapping[str, int]],
    model: Model | None,
    cut: str,
    cleaned: int,
) -> list[str]:
    """Return three things the table cannot tell, what is known of them with numbers first.

    Parameters
    ----------
    bounds
        Sets of columns and the bound of their error, as a share of the rows that would have to move.
    rare
        By column, the values that cannot be told from absent ones, and the most rows they have.
    model
        The published model, if there is one.
    cut, cleaned
        What was done to people with many rows, in words; and how many rules left records out.
    """
    found = []
    pairs = [(share, clique) for clique, share in bounds if len(clique) == 2]
    if pairs:
        share, clique = max(pairs, key=lambda pair: pair[0])
        found.append(
            f"How {' and '.join(clique)} go together in detail: up to {share:.1%} of the rows may be in the wrong place, the most of all pairs."
        )
    values = [(most, column, value) for column, known in rare.items() for value, most in known.items()]
    if values:
        most, column, value = max(values)
        others = f", nor for {len(values) - 1} other rare values" if len(values) > 1 else ""
        found.append(
            f"Whether anybody at all has {column} = {value}{others}: up to {most:,} real rows cannot be told from none."
        )
    order = max((len(item.clique) for item in model.measurements), default=0) if model is not None else 0
    if order and model is not None and order < len(model.schema.names):
        together = {1: "two or more", 2: "three or more"}.get(order, f"more than {order}")
        found.append(
            f"How {together} columns go together, beyond what smaller tables imply: that was not measured."
        )
    elif not order:
        found.append("How far any single count is from the real one: no ranges are known.")
    if cut:
        found.append(cut)
    if cleaned:
        rules = "a rule" if cleaned == 1 else f"one of {cleaned} rules"
        found.append(f"Anything about records that were left out because they break {rules} of cleaning.")
    alone = "Anything about one person: no row is anybody's record, and rows that look unusual are chance."
    return [*found[: SHOWN - 1], alone]
