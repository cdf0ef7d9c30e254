"""Made-up records for any schema, with margins and dependences like those of real tables.

A *rehearsal* needs a table to rehearse on before the real one may be touched, and records that are independent or uniform would
promise too much. Here every column has a skewed distribution over its values, depends on one other column and on a hidden class that all
columns share, and a part of that dependence is of three columns at once.

How skewed and how dependent was chosen so that these tables resemble three public ones (br2000, acs and acs13 of the benchmarks) in
the entropy of columns and in the distance of pairs and triples from independence. ``dependence`` makes it weaker or stronger.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.datasets.draw import checked_rows, draw_given, generator
from understudy.errors import DataError
from understudy.schema import Schema

__all__ = ["simulated_codes"]

_SKEW = 1.8
"""Mean exponent of the power law that values of a column follow."""
_OTHER_COLUMN, _HIDDEN_CLASS, _THREE_COLUMNS = 1.4, 0.8, 0.5
"""Mean deviation of the logarithms of shares by the value of another column and by hidden class; the last as a part of the first."""
_CLASSES = 6
_MOST_CELLS = 2_000_000
"""Cells of the table that one column is drawn from; a column with many values depends on groups of the other's."""
_MOST_DRAWS = 20
"""How often as many rows are drawn as are wanted, where rules reject rows."""


def simulated_codes(
    schema: Schema, n: int, *, dependence: float = 1.0, seed: int = 0
) -> dict[str, npt.NDArray[np.int64]]:
    """Return made-up records as codes, one array per column, that obey the rules of the schema.

    Parameters
    ----------
    schema
        Names, values and rules.
    n
        Number of rows. Where rules reject nearly all rows, those that obey are repeated.
    dependence
        0 for independent columns, 1 for dependences as in the tables this was chosen by, more for stronger ones.
    seed
        The same arguments give the same table.

    Raises
    ------
    DataError
        If no made-up record obeys the rules.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: smokes, kind: boolean}, {name: sex, kind: categorical, values: [f, m]}]")
    >>> codes = simulated_codes(schema, 1000, seed=1)
    >>> sorted(codes), len(codes["sex"]), int(codes["sex"].max())
    (['sex', 'smokes'], 1000, 1)
    """
    rows = checked_rows(n)
    rng = generator(seed, "schema")
    columns = _Columns(schema, dependence, rng)
    drawn = columns.draw(rows, rng)
    kept = _only(drawn, schema.holds_codes(drawn))
    for _ in range(_MOST_DRAWS):
        found = len(next(iter(kept.values())))
        if found >= rows:
            break
        more = columns.draw(max(rows, 1_000), rng)
        valid = _only(more, schema.holds_codes(more))
        kept = {name: np.concatenate([kept[name], valid[name]]) for name in kept}
    found = len(next(iter(kept.values())))
    if found == 0 and rows:
        raise DataError(
            "No made-up record obeys the rules of the schema, so there is nothing to rehearse on. Loosen the rules, or "
            "plan without a rehearsal."
        )
    places = np.arange(rows) if found >= rows else rng.integers(found, size=rows)
    return {name: codes[places] for name, codes in kept.items()}


def _only(
    codes: dict[str, npt.NDArray[np.int64]], which: npt.NDArray[np.bool_]
) -> dict[str, npt.NDArray[np.int64]]:
    return {name: column[which] for name, column in codes.items()}


class _Columns:
    """How each column follows from a hidden class and one column before it, in an order of their own."""

    def __init__(self, schema: Schema, dependence: float, rng: np.random.Generator) -> None:
        self.names = [column.name for column in schema.columns]
        self.sizes = {column.name: column.size for column in schema.columns}
        self.classes = rng.dirichlet(np.ones(_CLASSES))
        self.steps: list[tuple[str, str | None, int, npt.NDArray[np.float64]]] = []
        before: list[str] = []
        for place in rng.permutation(len(self.names)):
            name = self.names[place]
            other = before[rng.integers(len(before))] if before else None
            self.steps.append(self._step(name, other, dependence, rng))
            before.append(name)

    def _step(
        self, name: str, other: str | None, dependence: float, rng: np.random.Generator
    ) -> tuple[str, str | None, int, npt.NDArray[np.float64]]:
        """Draw the shares of a column's values, by groups of another column's values and by class."""
        size = self.sizes[name]
        exponent = rng.gamma(2.0, _SKEW / 2)
        base = rng.permutation(-exponent * np.log1p(np.arange(size))) + 0.5 * rng.standard_normal(size)
        most = max(1, _MOST_CELLS // (size * _CLASSES))
        groups = 1 if other is None else min(self.sizes[other], most)
        by_class = dependence * _HIDDEN_CLASS * rng.exponential()
        by_other = 0.0 if other is None else dependence * _OTHER_COLUMN * rng.exponential()
        logs = base + by_class * rng.standard_normal((1, _CLASSES, size))
        logs = logs + by_other * rng.standard_normal((groups, 1, size))
        logs = logs + _THREE_COLUMNS * by_other * rng.standard_normal((groups, _CLASSES, size))
        shares = np.exp(logs - logs.max(axis=-1, keepdims=True)).reshape(-1, size)
        return name, other, groups, shares

    def draw(self, rows: int, rng: np.random.Generator) -> dict[str, npt.NDArray[np.int64]]:
        """Draw records."""
        hidden = rng.choice(_CLASSES, size=rows, p=self.classes)
        codes: dict[str, npt.NDArray[np.int64]] = {}
        for name, other, groups, shares in self.steps:
            group = hidden if other is None else (codes[other] % groups) * _CLASSES + hidden
            codes[name] = draw_given(rng, shares, group)
        return {name: codes[name] for name in self.names}
