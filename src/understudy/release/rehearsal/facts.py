"""A public table from a few declared facts, for rehearsals where no public table is at hand.

The facts are shares of single columns, correlations of two columns, and tables of one column given another. The
table is drawn from the distribution of largest entropy that agrees with them: as independent as the facts allow,
and no more detailed than they are. A rehearsal on it errs in both directions: patterns that nobody declared are
missing, which flatters methods that look at few columns at a time; and records are spread out more than real ones,
which is hard on faithfulness and on projections that remove rare records.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from understudy.engine import Zeros, estimate
from understudy.errors import SchemaError, WorkloadError
from understudy.marginals import Measurement
from understudy.mechanisms import support_of
from understudy.mechanisms.drawing import Drawer
from understudy.release.criteria.groups import code_values
from understudy.release.spec.spec import Spec
from understudy.schema import Column, Schema
from understudy.schema.files.yaml import read_plain
from understudy.schema.problems import did_you_mean, raise_problems

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Facts", "table_from_facts"]

Floats = npt.NDArray[np.float64]

_KEYS = ("rows", "shares", "correlations", "conditionals")
_ROUNDED = 0.02
"""Shares that are rounded for people need not add up to 1 exactly; they are rescaled."""
_TIGHT = 1e-3
"""Standard deviation of a cell that the engine is told, as a share of the rows: small against any criterion."""
_WORTH_TELLING = 0.005
_STEEP = 64.0
"""Largest exponent tried per product of two standard deviations: nearly deterministic."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Declared facts over one schema, as tables of shares.

    Attributes
    ----------
    schema
        Columns, each in the transformation whose labels the facts use.
    tables
        Shares by columns: each sums to 1.
    rows
        Number of rows, if the file says.
    """

    schema: Schema
    tables: Mapping[tuple[str, ...], Floats]
    rows: int | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str], spec: Spec) -> Facts:
        """Read facts about the columns of a specification from a YAML or JSON file."""
        return cls.from_dict(read_plain(Path(path)), spec)

    @classmethod
    def from_dict(cls, plain: object, spec: Spec) -> Facts:
        """Read facts from plain values; everything wrong is reported at once (`SchemaError`)."""
        return _Reader(plain, spec).read()


def table_from_facts(facts: Facts, *, rows: int, seed: int = 0) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Draw a table from the distribution of largest entropy that agrees with the facts.

    Returns
    -------
    tuple[pandas.DataFrame, tuple[str, ...]]
        The table, and words about facts that contradict each other or the rules of the schema.
    """
    domain = facts.schema.domain
    zeros: list[Zeros] = list(support_of(facts.schema))
    zeros += [(clique, table > 0) for clique, table in facts.tables.items() if not table.all()]
    scale = _TIGHT * rows / math.sqrt(max(table.size for table in facts.tables.values()))
    noisy = [Measurement(clique, table * rows, "gaussian", scale) for clique, table in facts.tables.items()]
    model = estimate(domain, noisy, total=float(rows), zeros=zeros, tolerance=1e-4, max_epochs=2000)
    notes = []
    for clique, table in facts.tables.items():
        off = float(np.abs(model.marginal(clique) / rows - table).max())
        if off > _WORTH_TELLING:
            notes.append(
                f"The facts about {' and '.join(clique)} cannot all hold together with the others or with the "
                f"constraints; a share is off by {off:.3f}."
            )
    generator = np.random.default_rng(seed)
    ruled = bool(facts.schema.rules or facts.schema.determines)
    drawn = (
        Drawer(facts.schema, model, None).valid(rows, generator)
        if ruled
        else model.sample_codes(rows, generator)
    )
    codes = {name: drawn[:, index] for index, name in enumerate(domain.names)}
    shaped = [column.name for column in facts.schema.columns if column.decodes_by_counts]
    counts = {name: model.marginal((name,)) for name in shaped}
    return facts.schema.decode(codes, seed=int(generator.integers(1 << 62)), counts=counts), tuple(notes)


class _Reader:
    """Reads one fact after the other and collects what is wrong."""

    def __init__(self, plain: object, spec: Spec) -> None:
        if not isinstance(plain, Mapping):
            raise SchemaError(
                "A file of facts must hold a mapping with keys such as shares and correlations."
            )
        self.plain, self.spec = plain, spec
        self.problems: list[str] = []

    def read(self) -> Facts:
        for key in self.plain:
            if key not in _KEYS:
                self.problems.append(
                    f"{key}: unknown.{did_you_mean(str(key), _KEYS)} Known: {', '.join(_KEYS)}"
                )
        rows = self.plain.get("rows")
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
            self.problems.append("rows: must be a whole number of at least 1")
        schema = self._schema()
        shares = {column.name: self._one_way(column) for column in schema.columns}
        self._stop()
        tables: dict[tuple[str, ...], Floats] = {(name,): table for name, table in shares.items()}
        for index, item in enumerate(self.plain.get("conditionals") or ()):
            self._conditional(f"conditionals[{index}]", item, schema, shares, tables)
        for index, item in enumerate(self.plain.get("correlations") or ()):
            self._correlation(f"correlations[{index}]", item, schema, tables)
        self._stop()
        return Facts(schema, tables, rows)

    def _stop(self) -> None:
        raise_problems("The facts cannot be used", self.problems)

    # ------------------------------------------------------------------ columns and their labels

    def _schema(self) -> Schema:
        """Return the schema in which every label that the facts use exists."""
        used: dict[str, set[str]] = {}
        for name, shares in self._mapping("shares").items():
            used.setdefault(str(name), set()).update(
                map(_label, shares if isinstance(shares, Mapping) else ())
            )
        for item in self.plain.get("conditionals") or ():
            table = item.get("shares") if isinstance(item, Mapping) else None
            if not isinstance(table, Mapping):
                continue
            used.setdefault(str(item.get("given")), set()).update(map(_label, table))
            for inner in table.values():
                labels_inside = map(_label, inner if isinstance(inner, Mapping) else ())
                used.setdefault(str(item.get("of")), set()).update(labels_inside)
        spec = self.spec
        columns = []
        for column in spec.schema.columns:
            forms = [*spec.transformations.get(column.name, {}).values()] or [column]
            fitting = [form for form in forms if used.get(column.name, set()) <= set(form.labels)]
            if not fitting:
                wrong = sorted(used[column.name] - set(forms[0].labels))
                self.problems.append(
                    f"{column.name}: no transformation of this column has the labels {', '.join(wrong)}. "
                    f"Labels: {', '.join(forms[0].labels[:12])}{', ...' if forms[0].size > 12 else ''}"
                )
            columns.append((fitting or forms)[0])
        for name in used:
            if name not in spec.schema.names:
                self.problems.append(
                    f"{name}: no column of that name.{did_you_mean(name, spec.schema.names)}"
                )
        return replace(spec.schema, columns=tuple(columns), constraints=spec.synthetic_rules, row_count=None)

    def _mapping(self, key: str) -> Mapping[Any, Any]:
        found = self.plain.get(key) or {}
        if not isinstance(found, Mapping):
            self.problems.append(f"{key}: must be a mapping from columns to shares by label")
            return {}
        return found

    # ------------------------------------------------------------------ facts

    def _one_way(self, column: Column) -> Floats:
        return self._shares(column, self._mapping("shares").get(column.name), f"shares.{column.name}")

    def _shares(self, column: Column, given: Any, place: str) -> Floats:
        """Return shares per code: labels that are not listed share the rest evenly (missing and other get none)."""
        found = np.full(column.size, np.nan)
        for label, share in (given or {}).items() if isinstance(given, Mapping | None) else ():
            number = isinstance(share, int | float) and not isinstance(share, bool)
            if not number or not 0 <= share <= 1:
                self.problems.append(f"{place}.{label}: a share is a number between 0 and 1")
            elif _label(label) in column.labels:
                found[column.labels.index(_label(label))] = share
        if not isinstance(given, Mapping | None):
            self.problems.append(f"{place}: must be a mapping from labels to shares")
        listed = float(np.nansum(found))
        open_codes = np.isnan(found) & (np.arange(column.size) < column.value_count)
        rest = 1.0 - listed
        if listed > 1 + _ROUNDED or (not open_codes.any() and rest > _ROUNDED):
            self.problems.append(f"{place}: the shares add up to {listed:g}, not 1")
            return np.full(column.size, 1.0 / column.size)
        if open_codes.any() and rest > 0:
            found[open_codes] = rest / open_codes.sum()
        filled: Floats = np.nan_to_num(found)
        filled /= filled.sum()
        return filled

    def _conditional(
        self,
        place: str,
        item: Any,
        schema: Schema,
        shares: Mapping[str, Floats],
        tables: dict[tuple[str, ...], Floats],
    ) -> None:
        """Add the table of one column given another; the given column keeps its own shares."""
        if not isinstance(item, Mapping) or set(item) != {"of", "given", "shares"}:
            self.problems.append(f"{place}: give of, given and shares (by label of given, then of of)")
            return
        of, given = str(item["of"]), str(item["given"])
        if of not in schema.names or given not in schema.names or of == given:
            self.problems.append(f"{place}: of and given must be two different columns")
            return
        rows = {_label(label): inner for label, inner in item["shares"].items()}
        inner_column, outer = schema.column(of), schema.column(given)
        needed = [label for label, share in zip(outer.labels, shares[given], strict=True) if share > 0]
        absent = [label for label in needed if label not in rows]
        if absent:
            self.problems.append(f"{place}: nothing is said for {given} {', '.join(absent)}")
            return
        table = np.zeros((outer.size, inner_column.size))
        for code, label in enumerate(outer.labels):
            if label in rows:
                table[code] = shares[given][code] * self._shares(
                    inner_column, rows[label], f"{place}.shares.{label}"
                )
        if of not in self._mapping("shares"):  # then the table says it
            tables[(of,)] = table.sum(axis=0)
        clique = schema.domain.canonical((of, given))
        tables[clique] = table if clique == (given, of) else table.T

    def _correlation(
        self, place: str, item: Any, schema: Schema, tables: dict[tuple[str, ...], Floats]
    ) -> None:
        """Add the table of largest entropy with two columns' shares and their correlation."""
        if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 3:
            self.problems.append(f"{place}: give two columns and a number, such as [age, weight, 0.3]")
            return
        first, second, wanted = str(item[0]), str(item[1]), item[2]
        if first not in schema.names or second not in schema.names or first == second:
            self.problems.append(f"{place}: names must be those of two different columns")
            return
        number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
        if not number or not -1 < wanted < 1:
            self.problems.append(f"{place}: a correlation is a number between -1 and 1")
            return
        one, two = schema.domain.canonical((first, second))
        if (one, two) in tables:
            self.problems.append(f"{place}: there is a table of {one} and {two} already")
            return
        try:
            tables[(one, two)] = correlated(
                tables[(one,)],
                tables[(two,)],
                np.array(code_values(schema.column(one))),
                np.array(code_values(schema.column(two))),
                float(wanted),
            )
        except WorkloadError as error:
            self.problems.append(f"{place}: {error}")


def correlated(first: Floats, second: Floats, x: Floats, y: Floats, wanted: float) -> Floats:
    """Return the table of largest entropy with given margins and correlation.

    It is proportional to ``u_i v_j exp(t x_i y_j)``: the margins fix ``u`` and ``v``, the correlation ``t``. Codes
    that are not numbers take no part in the correlation.

    Raises
    ------
    WorkloadError
        If there is no such table; the message says about which correlations are possible.

    Examples
    --------
    >>> half = np.array([0.5, 0.5])
    >>> correlated(half, half, np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.6).round(3).tolist()
    [[0.4, 0.1], [0.1, 0.4]]
    """
    a, b = _standard(first, x), _standard(second, y)
    weight = float(first[np.isfinite(x)].sum() * second[np.isfinite(y)].sum())
    if not a.any() or not b.any():
        raise WorkloadError("a column with a single value has no correlation")

    def off(t: float) -> float:
        return float(a @ _fitted(first, second, t * np.outer(a, b)) @ b) / weight - wanted

    low, high = -1.0, 1.0
    while off(low) > 0 and low > -_STEEP:
        low *= 2
    while off(high) < 0 and high < _STEEP:
        high *= 2
    if off(low) > 0 or off(high) < 0:
        least, most = off(-_STEEP) + wanted, off(_STEEP) + wanted
        raise WorkloadError(
            f"no table with these shares has a correlation of {wanted:g}; about {least:.2f} to {most:.2f} is possible"
        )
    return _fitted(first, second, float(brentq(off, low, high, xtol=1e-6)) * np.outer(a, b))


def _standard(shares: Floats, values: Floats) -> Floats:
    """Return values with mean 0 and deviation 1; codes without a number count as average."""
    known = np.isfinite(values)
    weights = np.where(known, shares, 0.0)
    filled = np.where(known, values, 0.0)
    centred = np.where(known, filled - np.average(filled, weights=weights), 0.0)
    deviation = math.sqrt(float(np.average(centred**2, weights=weights)))
    return centred / deviation if deviation > 0 else np.zeros_like(centred)


def _fitted(first: Floats, second: Floats, exponent: Floats, rounds: int = 500) -> Floats:
    """Scale the rows and columns of a table until its margins are right."""
    kernel = np.exp(exponent - exponent.max())
    u, v = first.copy(), second.copy()
    for _ in range(rounds):
        before = u
        u = np.divide(first, kernel @ v, out=np.zeros_like(first), where=first > 0)
        v = np.divide(second, u @ kernel, out=np.zeros_like(second), where=second > 0)
        if np.allclose(u, before, rtol=1e-10, atol=0):
            break
    table: Floats = u[:, None] * kernel * v[None, :]
    return table


def _label(word: object) -> str:
    """Return a key of a file as a label: YAML reads true as a boolean and 1 as a number."""
    return str(word).lower() if isinstance(word, bool) else str(word)
