"""Two bundles, or two tables, side by side: schemas, guarantees, and the largest changes of columns and pairs with what noise alone would explain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data import read_frame
from understudy.errors import DataError, UsageError
from understudy.mechanisms import Model
from understudy.privacy import Unit
from understudy.release.bundle.reporting import of_entities
from understudy.report import Block, Bullets, Page, Table, Text
from understudy.schema import Clique, Schema

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Change",
    "Side",
    "TablesCompared",
    "changes_table",
    "compare_sides",
    "comparison_page",
    "schema_differences",
    "side_of",
]

Codes = Mapping[str, npt.NDArray[Any]]

CONFIDENCE = 0.95
"""That what is said about the real tables holds for all columns and pairs at once."""
_MOST_PAIRS = 2_000
_DRAWS = 400
_SKIPPED = ("description",)
"""What a column may say differently without being another one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """One of two things that are compared.

    Attributes
    ----------
    label
        What to call it.
    schema, codes, rows
        Its columns, its rows encoded, and how many there are.
    model
        The model of a bundle, whose measurements say how large its errors can be.
    certificate
        Of a bundle.
    several
        Who has several of the rows, in a release of entities with their events; empty where rows are taken one by one.
    """

    label: str
    schema: Schema
    codes: Codes = field(repr=False)
    rows: int
    model: Model | None = None
    certificate: Mapping[str, Any] | None = field(default=None, repr=False)
    several: str = ""

    @property
    def bounded(self) -> bool:
        """Whether a model says how large the errors of these very columns can be."""
        return self.model is not None and self.model.schema.domain == self.schema.domain


@dataclass(frozen=True, kw_only=True)
class Change:
    """How far two tables differ on some columns.

    Attributes
    ----------
    columns
        One or two columns.
    difference
        Share of records that would have to change: half the sum of the differences of all shares.
    noise
        What noise alone would explain; None if it is not known.
    basis
        What kind of noise: ``"privacy"`` (bounds from the models' measurements, rows drawn included), ``"sampling"`` (of two tables that are no bundles), ``"drawing"`` (the
        same where a bundle is among them, whose noise for privacy is not counted), or empty where none is known.
    """

    columns: Clique
    difference: float
    noise: float | None = None
    basis: str = ""

    @property
    def at_least(self) -> float | None:
        """By how much the two differ in any case, noise taken off; None where noise is left out that they may have."""
        if self.basis not in ("privacy", "sampling") or self.noise is None:
            return None
        return max(0.0, self.difference - self.noise)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "columns": list(self.columns),
            "difference": self.difference,
            "noise": self.noise,
            "basis": self.basis,
            "at_least": self.at_least,
        }


@dataclass(frozen=True, kw_only=True)
class TablesCompared:
    """What differs between two sides.

    Attributes
    ----------
    labels, rows
        What the sides are called, and how many rows they have.
    schema
        Differences of the schemas, one sentence each.
    guarantees
        What each side promises, in words; empty for a table.
    columns, pairs
        The largest changes, the largest first.
    left_out
        Columns that cannot be compared, because their values or bins differ.
    several
        Who has several of the rows, where a side is a release of entities with their events; empty otherwise.
    exact
        The sides that are no bundles: tables, which were read without noise.
    """

    labels: tuple[str, str]
    rows: tuple[int, int]
    schema: tuple[str, ...]
    guarantees: tuple[str, str]
    columns: tuple[Change, ...]
    pairs: tuple[Change, ...]
    left_out: tuple[str, ...]
    several: str = ""
    exact: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """What is said on everything that shows a comparison with a table that is no bundle; empty where both sides are bundles."""
        if not self.exact:
            return ""
        what = (
            f"{self.exact[0]} is no bundle and was"
            if len(self.exact) == 1
            else f"{' and '.join(self.exact)} are no bundles and were"
        )
        return f"{what} read without noise: this is as private as what was read. Unless that is public, do not publish it, and do not keep it beside a release."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **({"warning": self.warning} if self.warning else {}),
            "labels": list(self.labels),
            "rows": list(self.rows),
            "schema": list(self.schema),
            "guarantees": list(self.guarantees),
            "columns": [item.to_dict() for item in self.columns],
            "pairs": [item.to_dict() for item in self.pairs],
            "left_out": list(self.left_out),
            "confidence": CONFIDENCE,
        }


def side_of(path: Path, schema: Schema | None = None, *, verified: bool = False) -> Side:
    """Read a bundle, which is verified unless that was done before, or a table with a schema.

    Privacy
    -------
    A bundle is public. A table is read without noise: it must be public, or be compared by somebody who may see it.
    """
    if path.is_dir() and (path / "certificate.json").exists():
        from understudy.release.bundle.verify import verify_bundle

        certificate = (
            json.loads((path / "certificate.json").read_text(encoding="utf-8"))
            if verified
            else verify_bundle(path)
        )
        own = Schema.read(path / "schema.yaml")
        file = path / "model.understudy"
        model = Model.load(file) if file.exists() else None
        if model is not None and model.schema.events_of is not None:
            model = None  # it speaks of event records, and the rows are events
        frame = read_frame(path / "data.csv")
        return Side(
            label=str(certificate["name"]),
            schema=own,
            codes=own.encode_frame(frame),
            rows=len(frame),
            model=model,
            certificate=certificate,
            several=_several(own, certificate["guarantee"]),
        )
    if schema is None:
        raise UsageError(f"{str(path)!r} is no bundle; to compare a table give its schema (--schema).")
    frame = read_frame(path)
    return Side(label=path.name, schema=schema, codes=schema.encode_frame(frame), rows=len(frame))


def side_of_result(
    name: str, schema: Schema, frame: pd.DataFrame, model: Model | None, guarantee: Mapping[str, Any]
) -> Side:
    """Return a release that is about to be published as a side."""
    return Side(
        label=name,
        schema=schema,
        codes=schema.encode_frame(frame),
        rows=len(frame),
        model=model,
        certificate={"guarantee": guarantee},
        several=_several(schema, guarantee),
    )


def _several(schema: Schema, guarantee: Mapping[str, Any]) -> str:
    """Return who has several rows in a release of entities with their events; empty for a release of rows."""
    unit = Unit.from_dict(guarantee["unit"])
    return schema.entity.id if schema.entity is not None and of_entities(schema, unit) else ""


def compare_sides(left: Side, right: Side, *, most: int = 10) -> TablesCompared:
    """Compare two sides; ``most`` says how many columns and how many pairs are returned.

    Noise of two bundles with models: the sum of the bounds on the error of each table's rows on these columns (`Model.error_bounds`), so that
    the two *real* tables differ by at least the difference less the noise. All bounds hold at once with a confidence of `CONFIDENCE`. For other tables, noise is
    what tables of so many rows differ by at most, with that confidence each, if they are draws from one population. Where somebody has several of the rows no noise is told:
    rows of one entity are no draws of their own, and nothing bounds what the noise of two such releases does.
    """
    if not left.rows or not right.rows:
        raise DataError("A table without rows cannot be compared.")
    alike = [
        name
        for name in left.schema.names
        if name in right.schema.names and left.schema.column(name).labels == right.schema.column(name).labels
    ]
    both = set(left.schema.names) & set(right.schema.names)
    pairs = list(combinations(alike, 2))[:_MOST_PAIRS]
    asked = len(alike) + len(pairs)
    columns = _largest(left, right, [(name,) for name in alike], most, asked)
    return TablesCompared(
        labels=(left.label, right.label),
        rows=(left.rows, right.rows),
        schema=tuple(schema_differences(left.schema, right.schema)),
        guarantees=(_promise(left), _promise(right)),
        columns=tuple(columns),
        pairs=tuple(_largest(left, right, pairs, most, asked)),
        left_out=tuple(name for name in left.schema.names if name in both and name not in alike),
        several=left.several or right.several,
        exact=tuple(dict.fromkeys(side.label for side in (left, right) if side.certificate is None)),
    )


def _largest(left: Side, right: Side, cliques: Sequence[Clique], most: int, asked: int) -> list[Change]:
    """Return the cliques on which two sides differ most, with the noise of each."""
    found = []
    for clique in cliques:
        first, second = (_shares(side, clique) for side in (left, right))
        found.append((0.5 * float(np.abs(first - second).sum()), clique))
    chosen = sorted(found, key=lambda item: (-item[0], item[1]))[:most]
    if left.bounded and right.bounded and chosen:
        confidence = 1 - (1 - CONFIDENCE) / (2 * asked)
        wanted = [clique for _, clique in chosen]
        noise = _bounds(left, wanted, confidence) + _bounds(right, wanted, confidence)
        return [
            Change(columns=clique, difference=value, noise=min(1.0, float(bound)), basis="privacy")
            for (value, clique), bound in zip(chosen, noise, strict=True)
        ]
    if left.several or right.several:
        return [Change(columns=clique, difference=value) for value, clique in chosen]
    basis = "sampling" if left.certificate is None and right.certificate is None else "drawing"
    return [
        Change(columns=clique, difference=value, noise=_sampling(left, right, clique), basis=basis)
        for value, clique in chosen
    ]


def _bounds(side: Side, cliques: Sequence[Clique], confidence: float) -> npt.NDArray[np.float64]:
    """Return the largest errors of a bundle's rows on some columns, as shares of records."""
    assert side.model is not None
    answers = side.model.uncertainty.error_bounds(
        [side.model.schema.domain.canonical(clique) for clique in cliques],
        confidence=confidence,
        codes=side.codes,
    )
    return np.asarray(0.5 * answers["bound"].to_numpy(dtype=np.float64))


def _sampling(left: Side, right: Side, clique: Clique) -> float:
    """Return what two tables of these sizes differ by at most, with the usual confidence, if both are drawn from what they have in common."""
    shares = (left.rows * _shares(left, clique) + right.rows * _shares(right, clique)) / (
        left.rows + right.rows
    )
    held = shares[shares > 0]
    generator = np.random.default_rng(0)
    first = generator.multinomial(left.rows, held, size=_DRAWS) / left.rows
    second = generator.multinomial(right.rows, held, size=_DRAWS) / right.rows
    return float(np.quantile(0.5 * np.abs(first - second).sum(axis=1), CONFIDENCE))


def _shares(side: Side, clique: Clique) -> npt.NDArray[np.float64]:
    sizes = [side.schema.column(name).size for name in clique]
    cells = np.zeros(side.rows, dtype=np.int64)
    for name, size in zip(clique, sizes, strict=True):
        cells = cells * size + np.asarray(side.codes[name], dtype=np.int64)
    return np.bincount(cells, minlength=int(np.prod(sizes))) / side.rows


def _promise(side: Side) -> str:
    return "" if side.certificate is None else str(side.certificate["guarantee"]["words"])


# ---------------------------------------------------------------- schemas


def schema_differences(old: Schema, new: Schema) -> list[str]:
    """Say how two schemas differ: columns, what they can hold, rules. The number of rows and descriptions are passed over.

    Examples
    --------
    >>> from understudy.schema import Boolean, Integer
    >>> old = Schema([Boolean("a"), Integer("age", minimum=0, maximum=9)])
    >>> schema_differences(old, Schema([Integer("age", minimum=0, maximum=8)]))
    ["column 'a' is gone", "column 'age': maximum was 9 and is 8"]
    """
    found = []
    first, second = ({item["name"]: item for item in _plain(schema)["columns"]} for schema in (old, new))
    for name, before in first.items():
        if name not in second:
            found.append(f"column {name!r} is gone")
            continue
        after = second[name]
        for key in dict.fromkeys([*before, *after]):
            if key not in _SKIPPED and before.get(key) != after.get(key):
                found.append(
                    f"column {name!r}: {key} was {_short(before.get(key))} and is {_short(after.get(key))}"
                )
    found += [f"column {name!r} is new" for name in second if name not in first]
    before, after = _plain(old), _plain(new)
    for key in dict.fromkeys([*before, *after]):
        if key not in ("columns", "row_count", *_SKIPPED) and before.get(key) != after.get(key):
            found.append(f"{key}: {_short(before.get(key))} became {_short(after.get(key))}")
    return found


def _plain(schema: Schema) -> dict[str, Any]:
    return dict(json.loads(json.dumps(schema.to_dict(), default=str)))


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return (
        text
        if len(text) <= 60
        else f"{text[:45]}... ({len(value)} entries)"
        if isinstance(value, list | dict)
        else f"{text[:57]}..."
    )


# ---------------------------------------------------------------- words


def comparison_page(found: TablesCompared) -> Page:
    """Return a comparison as a page for people."""
    left, right = found.labels
    sections: list[tuple[str, list[Block]]] = [
        ("Largest changes of columns", _changes(found.columns, "Columns, the largest change first")),
        (
            "Largest changes of pairs of columns",
            _changes(found.pairs, "Pairs of columns, the largest change first"),
        ),
        ("Schema", [Bullets(list(found.schema)) if found.schema else Text("The schemas agree.")]),
    ]
    if found.left_out:
        sections[2][1].append(
            Text(f"Not compared, because their values differ: {', '.join(found.left_out)}.")
        )
    promises = [
        f"{label}: {words}" for label, words in zip(found.labels, found.guarantees, strict=True) if words
    ]
    if promises:
        sections.append(("Guarantees", [Bullets(promises)]))
    lead: list[Block] = [
        Text(f"{left} has {found.rows[0]:,} rows, {right} {found.rows[1]:,}."),
        Text(explanation(found)),
    ]
    return Page(f"{right} beside {left}", sections, lead=lead, banner=found.warning)


def explanation(found: TablesCompared) -> str:
    """Say what the numbers of a comparison mean."""
    if any(item.basis == "privacy" for item in (*found.columns, *found.pairs)):
        return (
            "Difference: the share of records that would have to change for the two synthetic tables to agree on these columns. Noise: what the noise that "
            "was added for privacy, and drawing rows, can explain of it. The two real tables differ by at least what is left; all of these "
            f"statements hold together with a confidence of {CONFIDENCE:.0%}."
        )
    if found.several:
        return (
            f"Difference: the share of rows that would have to change for the two tables to agree on these columns; a {found.several} counts once for each of its rows. How much of it noise explains is "
            f"not known here: the noise that was added for privacy makes two releases of the same real tables differ too, often by some per cent, and the rows of one {found.several} are no independent draws. So a difference does not "
            "show that the real tables differ, and no difference does not show that they agree. What is known of the error of each release are its criteria (acceptance.csv): compare the differences with their thresholds."
        )
    return (
        "Difference: the share of records that would have to change for the two tables to agree on these columns. Noise: what two tables of these sizes "
        f"differ by at most in {CONFIDENCE:.0%} of cases, for each line by itself, if they are draws from one population. Noise that was added for privacy is not counted."
    )


def _changes(items: Sequence[Change], caption: str) -> list[Block]:
    if not items:
        return [Text("There is nothing to compare.")]
    head, rows = changes_table(items)
    return [Table(caption, head, rows)]


def changes_table(items: Sequence[Change]) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of changes: what noise explains, and what is certain beyond it, only where it is known.

    Examples
    --------
    >>> changes_table([Change(columns=("a",), difference=0.02)])
    (['columns', 'difference'], [['a', '2.00%']])
    """
    noise = any(item.noise is not None for item in items)
    certain = any(item.at_least is not None for item in items)
    head = [
        "columns",
        "difference",
        *(["noise alone"] if noise else []),
        *(["differs by at least"] if certain else []),
    ]
    rows = []
    for item in items:
        row = [" and ".join(item.columns), f"{item.difference:.2%}"]
        row += ["" if item.noise is None else f"{item.noise:.2%}"] if noise else []
        row += [f"{item.at_least:.2%}" if item.at_least else "nothing for certain"] if certain else []
        rows.append(row)
    return head, rows
