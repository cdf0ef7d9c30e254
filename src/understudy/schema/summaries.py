"""Summaries of the events of an entity: columns of the entity that follow from its own rows, such as a total or whether something ever happened.

A summary is declared, with everything that is needed to compute it from codes: which column, how, and into which bins. It depends on the rows of one entity alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from understudy.schema.columns.categorical import Categorical, Ordinal
from understudy.schema.columns.column import Column
from understudy.schema.columns.numeric import Integer, Ordered, Real
from understudy.schema.problems import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]
By = Literal["sum", "mean", "max", "min", "any", "first", "last"]
WAYS: tuple[By, ...] = get_args(By)
NO, YES = "no", "yes"
_KEYS = ("name", "of", "by", "value", "bins")
_BINNED = ("sum", "mean")
_MOST_BINS = 1_000


@dataclass(frozen=True)
class Summary:
    """A column of an entity that is computed from its rows.

    Parameters
    ----------
    name
        What the column is called.
    of
        The column of the rows that it is computed from.
    by
        ``sum`` or ``mean`` (of numbers), ``max`` or ``min`` (of numbers, dates or an ordinal column), ``any`` (whether some row has a value), ``first`` or ``last`` (in the order of the rows).
        Rows without an entry do not count.
    value
        For ``any``: the value.
    bins
        For ``sum`` and ``mean``: edges of bins, ascending; a bin holds its lower edge. What is below the first edge or not below the last counts in the first or last bin.

    Examples
    --------
    >>> nights = Integer("nights", minimum=0, maximum=9)
    >>> total = Summary("all_nights", "nights", "sum", bins=(0, 5, 10, 50))
    >>> total.column(nights, empty=False).labels
    ('0 to 5', '5 to 10', '10 to 50')
    >>> total.codes(nights, np.array([3, 1, 9]), np.array([0, 0, 1]), 2)  # two rows of one entity, one of another
    array([0, 1])
    """

    name: str
    of: str
    by: By
    value: str | None = None
    bins: tuple[float, ...] = ()

    @classmethod
    def from_plain(cls, plain: object, place: str) -> tuple[Summary | None, list[str]]:
        """Read one summary; return what is wrong with it beside it."""
        if not isinstance(plain, Mapping):
            return None, [f"{place}: must be a mapping with name, of and by"]
        wrong = [
            f"{place}: unknown key {str(key)!r}.{did_you_mean(str(key), _KEYS)} Known: {', '.join(_KEYS)}"
            for key in plain
            if key not in _KEYS
        ]
        wrong += [
            f"{place}.{key}: must be text"
            for key in ("name", "of")
            if not isinstance(plain.get(key), str) or not plain[key].strip()
        ]
        by = plain.get("by")
        if by not in WAYS:
            wrong.append(f"{place}.by: write one of {', '.join(WAYS)}")
        value, bins = plain.get("value"), plain.get("bins")
        if isinstance(value, bool):
            value = str(value).lower()
        if (by == "any") != isinstance(value, str):
            wrong.append(
                f"{place}.value: {'name the value that counts, as text' if by == 'any' else 'goes with by: any'}"
            )
        if isinstance(bins, Mapping) and set(bins) == {"edges"}:
            bins = bins["edges"]
        edges: tuple[float, ...] = ()
        if by in _BINNED:
            if (
                not isinstance(bins, Sequence)
                or isinstance(bins, str)
                or not 2 <= len(bins) <= _MOST_BINS + 1
                or not all(
                    isinstance(edge, int | float) and not isinstance(edge, bool) and math.isfinite(edge)
                    for edge in bins
                )
                or any(low >= high for low, high in pairwise(bins))
            ):
                wrong.append(
                    f"{place}.bins: list two to {_MOST_BINS + 1:,} edges, ascending, such as [0, 5, 10, 50]"
                )
            else:
                edges = tuple(bins)
        elif bins is not None:
            wrong.append(
                f"{place}.bins: goes with by: {' and '.join(_BINNED)}; other summaries have the values of their column"
            )
        if wrong:
            return None, wrong
        return cls(plain["name"], plain["of"], cast(By, by), value, edges), []

    def to_plain(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        plain: dict[str, Any] = {"name": self.name, "of": self.of, "by": self.by}
        if self.value is not None:
            plain["value"] = self.value
        if self.bins:
            plain["bins"] = list(self.bins)
        return plain

    def problems(self, column: Column, *, ordered: bool) -> list[str]:
        """Return what is wrong with this for its column, which may have rows in order or not."""
        place = f"entity.summaries {self.name!r}"
        if getattr(column, "levels", None) is not None:
            return [
                f"{place}.of: the groups of {self.of!r} are chosen by a fit, so that nothing can be computed from them"
            ]
        if self.by in _BINNED and not isinstance(column, Integer | Real):
            return [f"{place}.of: {self.by} is for a column of numbers"]
        if self.by in ("max", "min"):
            if not isinstance(column, Ordered | Ordinal):
                return [f"{place}.of: {self.by} is for numbers, dates and ordinal columns"]
            if column.out_of_domain == "to-other":
                return [f"{place}.of: {self.of!r} has entries without a place in its order (other)"]
        if self.by == "any":
            if isinstance(column, Ordered):
                return [f"{place}.of: any is for columns of values, not of numbers or dates"]
            if self.value not in column.value_labels:
                return [
                    f"{place}.value: {self.of!r} has no value {self.value!r}.{did_you_mean(str(self.value), column.value_labels)}"
                ]
        if self.by in ("first", "last") and not ordered:
            return [f"{place}.by: {self.by} needs rows in order (entity.order)"]
        return []

    def describe(self) -> str:
        """Return how it is computed, in words."""
        return f"{self.by} of {self.of}" + (f" == {self.value}" if self.by == "any" else "")

    def column(self, of: Column, *, empty: bool) -> Column:
        """Return the column of entities that holds this; ``empty`` says whether there are entities without rows."""
        about = f"Computed: {self.describe()}."
        if self.by == "any":
            return Categorical(self.name, values=(NO, YES), description=about)
        absent = of.missing or empty
        if self.by in _BINNED:
            labels = tuple(f"{low:g} to {high:g}" for low, high in pairwise(self.bins))
            return Ordinal(self.name, values=labels, missing=absent and self.by == "mean", description=about)
        return replace(of, name=self.name, missing=absent, description=about, origin="public")

    def rule(self, of: Column) -> str | None:
        """Return what every row of an entity obeys together with the summary, as text of a constraint; None if nothing can be said."""
        if self.by == "any":
            value = _quoted(str(self.value))
            if of.kind == "boolean":
                value = ("false", "true")[of.value_labels.index(str(self.value))]
            return f"`{self.name}` == '{YES}' or `{self.of}` != {value}"
        if self.by in ("max", "min"):
            low, high = (self.of, self.name) if self.by == "max" else (self.name, self.of)
            return f"`{low}` <= `{high}`"
        return None

    def codes(
        self, of: Column, codes: npt.NDArray[Any], who: Ints, entities: int, *, empty: bool = False
    ) -> Ints:
        """Compute the summary of each entity.

        Parameters
        ----------
        of
            The column of the rows.
        codes
            Its codes, row by row: rows of an entity in their order.
        who
            The number of the entity of each row.
        entities
            How many entities there are.
        empty
            As for `column`.

        Privacy
        -------
        The code of an entity is a function of the codes of its own rows: adding, removing or replacing the rows of one entity changes the code of that entity and no other.
        """
        codes = np.asarray(codes).astype(np.int64)
        made = self.column(of, empty=empty)
        none = made.size - 1
        if self.by == "any":
            wanted = of.value_labels.index(str(self.value))
            return (np.bincount(who[codes == wanted], minlength=entities) > 0).astype(np.int64)
        there = np.flatnonzero(
            codes < (of.value_count if self.by not in ("first", "last") else of.size - of.missing)
        )
        counted = np.bincount(who[there], minlength=entities)
        if self.by in _BINNED:
            assert isinstance(of, Integer | Real)
            total = np.bincount(who[there], of.midpoints[codes[there]], minlength=entities)
            number = total / np.maximum(counted, 1) if self.by == "mean" else total
            found = np.clip(
                np.searchsorted(self.bins, number, side="right") - 1, 0, len(self.bins) - 2
            ).astype(np.int64)
        else:
            found = np.zeros(entities, np.int64)
            chosen = self._chosen(codes[there], who[there])
            found[who[there][chosen]] = codes[there][chosen]
        return np.where(counted == 0, none, found) if made.missing else found

    def _chosen(self, keys: npt.NDArray[Any], who: Ints) -> Ints:
        """Return the place of the row of each entity that has the largest or smallest key, or stands first or last."""
        places = np.arange(len(who))
        if self.by in ("max", "min"):
            places = np.lexsort((keys, who))
        else:
            places = np.lexsort((places, who))
        ends = np.append(who[places][1:] != who[places][:-1], True) if len(who) else np.zeros(0, bool)
        starts = np.roll(ends, 1)
        return np.asarray(places[ends if self.by in ("max", "last") else starts])

    def values(self, of: Column, rows: pd.Series[Any], who: Ints, entities: int) -> Any:
        """Compute the summary of each entity from values: what is written beside synthetic rows. Rows of an entity are in their order.

        Returns
        -------
        pandas.Series
            One entry for each entity; missing where it has no entry to compute from.
        """
        import pandas as pd

        codes = np.asarray(of.encode(rows)).astype(np.int64)
        if self.by == "any":
            return pd.Series(
                np.bincount(who[codes == of.value_labels.index(str(self.value))], minlength=entities) > 0
            )
        there = np.flatnonzero(codes < (of.size - of.missing))
        mine = who[there]
        if self.by in _BINNED:
            numbers = pd.to_numeric(rows.iloc[there]).to_numpy(np.float64)
            total = np.bincount(mine, numbers, minlength=entities)
            if self.by == "sum":
                return pd.Series(np.rint(total).astype(np.int64) if isinstance(of, Integer) else total)
            counted = np.bincount(mine, minlength=entities)
            return pd.Series(np.where(counted > 0, total / np.maximum(counted, 1), np.nan))
        some = rows.iloc[there]
        keys = codes[there] if isinstance(of, Ordinal) else some.to_numpy()
        chosen = self._chosen(keys, mine)
        return pd.Series(some.iloc[chosen].set_axis(mine[chosen])).reindex(range(entities))


def _quoted(text: str) -> str:
    mark = '"' if "'" in text else "'"
    return f"{mark}{text}{mark}"
