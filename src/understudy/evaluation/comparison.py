"""Two tables of one schema, side by side: what every measure of quality looks at."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.schema import Boolean, Column, Date, Domain, Integer, Ordinal, Real, Schema

if TYPE_CHECKING:
    import pandas as pd

# ----------------------------------------------------------------------------------------
# Encoded tables as the measures take them, and as learning algorithms take them.

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def as_codes(domain: Domain, table: Mapping[str, npt.ArrayLike] | npt.ArrayLike) -> Codes:
    """Return a table of codes as an array ``[rows, columns]`` in the order of the domain, checked.

    Examples
    --------
    >>> as_codes(Domain(("a", "b"), (2, 3)), {"b": [2, 0], "a": [0, 1]})
    array([[0, 2],
           [1, 0]])
    """
    if isinstance(table, Mapping):
        missing = [name for name in domain.names if name not in table]
        if missing:
            raise WorkloadError(f"The table lacks the columns {', '.join(missing)}.")
        table = np.stack([np.asarray(table[name]) for name in domain.names], axis=1)
    codes = np.asarray(table)
    if codes.ndim != 2 or codes.shape[1] != len(domain) or codes.dtype.kind not in "iub":
        raise WorkloadError(f"A table of codes must be whole numbers in {len(domain)} columns.")
    codes = codes.astype(np.int64)
    if len(codes) and ((codes < 0).any() or (codes >= np.array(domain.sizes)).any()):
        raise WorkloadError("The table holds codes outside the domain.")
    return codes


def one_hot(domain: Domain, codes: Codes, *, without: str) -> Floats:
    """Return every column but one as indicator features, each record scaled to norm one.

    Chaudhuri et al. (2011) ask for features in [0, 1] and records of norm at most one. A record has one
    indicator per column, so its norm is the square root of their number.

    Examples
    --------
    >>> one_hot(Domain(("a", "b"), (2, 2)), np.array([[1, 0]]), without="b")
    array([[0., 1.]])
    """
    chosen = [name for name in domain.names if name != without]
    pieces = [np.eye(domain.size(name))[codes[:, domain.index(name)]] for name in chosen]
    features: Floats = np.concatenate(pieces, axis=1) / np.sqrt(len(chosen))
    return features


def one_hot_all(domain: Domain, codes: Codes, *, drop_first: bool) -> Floats:
    """Return every column as indicators, of all values or of all but the first.

    Examples
    --------
    >>> one_hot_all(Domain(("a", "b"), (2, 3)), np.array([[1, 0]]), drop_first=True)
    array([[1., 0., 0.]])
    """
    start = 1 if drop_first else 0
    pieces = [np.eye(domain.size(name))[codes[:, domain.index(name)]][:, start:] for name in domain.names]
    features: Floats = np.concatenate(pieces, axis=1)
    return features


def split_target(domain: Domain, codes: Codes, target: str) -> tuple[Codes, Codes]:
    """Return the other columns and the target."""
    index = domain.index(target)
    return np.delete(codes, index, axis=1), codes[:, index]


def require_sklearn() -> Any:
    """Import scikit-learn, or say what to install."""
    try:
        import sklearn
    except ImportError as error:
        from understudy.errors import MissingExtra

        raise MissingExtra(
            "This measure needs the optional extra: pip install 'understudy[evaluation]' (scikit-learn)."
        ) from error
    return sklearn


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """Keep linear algebra and learners to one thread: on so few records threads wait for one another, the more so on a busy machine."""
    require_sklearn()
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    limited: contextlib.AbstractContextManager[Any] = threadpool_limits(limits=1)
    return limited


Table = Mapping[str, npt.ArrayLike] | npt.ArrayLike

MOST_CELLS = 50_000_000
"""Marginals with more cells than this are counted over the combinations that occur."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """A real and a synthetic table as codes of one schema.

    Both are exact: whatever is computed from a comparison is private unless the real table is public.

    Parameters
    ----------
    schema
        What the codes mean.
    real, synthetic
        Codes, ``[rows, columns]`` or by column name.
    known_values
        Of columns of numbers whose codes are bins: the numbers of both tables themselves, NaN where there is none, for measures that
        do not bin. Dates are days.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: a, kind: boolean}]")
    >>> both = Comparison(schema, {"a": [0, 1, 1]}, {"a": [1, 1]})
    >>> both.counts(("a",))
    (array([1, 2]), array([0, 2]))
    """

    schema: Schema
    real: Table = field(repr=False)
    synthetic: Table = field(repr=False)
    known_values: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("real", "synthetic"):
            object.__setattr__(self, name, as_codes(self.schema.domain, getattr(self, name)))

    @classmethod
    def of_frames(cls, schema: Schema, real: pd.DataFrame, synthetic: pd.DataFrame) -> Comparison:
        """Encode two frames of values."""
        known = known_numbers(schema, real, synthetic)
        return cls(schema, schema.encode_frame(real), schema.encode_frame(synthetic), known_values=known)

    @property
    def domain(self) -> Domain:
        """The columns and their sizes."""
        return self.schema.domain

    @property
    def real_codes(self) -> Codes:
        """The real records."""
        return self.real  # type: ignore[return-value]

    @property
    def synthetic_codes(self) -> Codes:
        """The synthetic records."""
        return self.synthetic  # type: ignore[return-value]

    def require_rows(self, least: int = 1) -> None:
        """Refuse tables too short for a measure."""
        if min(len(self.real_codes), len(self.synthetic_codes)) < least:
            raise WorkloadError(f"This measure needs at least {least} records in each of the two tables.")

    def counts(self, clique: Sequence[str]) -> tuple[Codes, Codes]:
        """Return both histograms over some columns.

        Where the columns have more than :data:`MOST_CELLS` combinations, only those that occur in one of the
        tables are counted, in a common order.
        """
        columns = tuple(clique)
        cells = self.domain.cells(columns)
        a, b = (self._cell(codes, columns) for codes in (self.real_codes, self.synthetic_codes))
        if cells > MOST_CELLS:
            _, places = np.unique(np.concatenate([a, b]), return_inverse=True)
            a, b, cells = places[: len(a)], places[len(a) :], int(places.max(initial=-1)) + 1
        return np.bincount(a, minlength=cells), np.bincount(b, minlength=cells)

    def occurring(self, clique: Sequence[str]) -> tuple[Codes, Codes]:
        """Return both histograms over the combinations that occur in one of the tables, where most do not; all of them otherwise."""
        columns = tuple(clique)
        if self.domain.cells(columns) <= 4 * (len(self.real_codes) + len(self.synthetic_codes)):
            return self.counts(columns)
        a, b = (self._cell(codes, columns) for codes in (self.real_codes, self.synthetic_codes))
        _, places = np.unique(np.concatenate([a, b]), return_inverse=True)
        cells = int(places.max(initial=-1)) + 1
        return np.bincount(places[: len(a)], minlength=cells), np.bincount(places[len(a) :], minlength=cells)

    def hidden(self) -> tuple[str, ...]:
        """Say what no number about these codes shows, because the schema puts different entries into one code; from the schema and the synthetic table alone.

        Examples
        --------
        >>> schema = Schema.parse("columns: [{name: a, kind: categorical, values: [x], out_of_domain: to-other}, {name: b, kind: boolean}]")
        >>> Comparison(schema, [[0, 0]], [[1, 0], [0, 1]]).hidden()
        ("values that the schema does not list are all 'other': a (50 % of the synthetic rows)",)
        """
        found: dict[str, list[str]] = {}
        for place, column in enumerate(self.schema.columns):
            codes = self.synthetic_codes[:, place]
            ranged = isinstance(column, Integer | Real | Date)
            policy = column.out_of_domain
            if policy == "to-other":
                found.setdefault("values that the schema does not list are all 'other'", []).append(
                    f"{column.name} ({_share(codes == column.other_code)})"
                )
            elif policy == "to-missing":
                found.setdefault(
                    "entries that the schema does not list, or cannot read, count as missing", []
                ).append(f"{column.name} ({_share(codes == column.missing_code)})")
            elif ranged and policy in ("clamp", "to-nearest"):
                labels, last = column.value_labels, column.value_count - 1
                found.setdefault("what lies beyond the ends counts with them", []).append(
                    f"{column.name} ({labels[0]} and {labels[last]}: {_share((codes == 0) | (codes == last))})"
                )
            elif policy == "to-nearest":
                found.setdefault(
                    "entries that the schema does not list count as one that it does", []
                ).append(
                    f"{column.name} (as missing)"
                    if column.missing
                    else f"{column.name} (as {column.value_labels[column.stray_code]})"
                )
        left_out = dict(self.schema.left_out)
        if left_out:
            found["columns that the schema leaves out are not compared"] = list(left_out)
        return tuple(f"{what}: {', '.join(columns)}" for what, columns in found.items())

    def _cell(self, codes: Codes, columns: tuple[str, ...]) -> Codes:
        """Return the number of the cell of each record; exact while the cells fit 63 bits."""
        if self.domain.cells(columns) >= 2**62:
            _, places = np.unique(
                np.concatenate([self.real_codes, self.synthetic_codes])[:, self._places(columns)],
                axis=0,
                return_inverse=True,
            )
            places = places.ravel()
            real = len(self.real_codes)
            return places[:real] if codes is self.real_codes else places[real:]
        cell = np.zeros(len(codes), dtype=np.int64)
        for name in columns:
            cell = cell * self.domain.size(name) + codes[:, self.domain.index(name)]
        return cell

    def _places(self, columns: tuple[str, ...]) -> list[int]:
        return [self.domain.index(name) for name in columns]

    def numbers(self, name: str) -> tuple[Floats, Floats] | None:
        """Return one column of both tables as numbers, NaN where there is none; ``None`` for plain categories."""
        meaning = numbers_of(self.schema.column(name))
        if meaning is None:
            return None
        at = self.domain.index(name)
        return meaning[self.real_codes[:, at]], meaning[self.synthetic_codes[:, at]]

    def values(self, name: str) -> tuple[Floats, Floats]:
        """Return the numbers of both tables as they are, or the middles of their bins where only those are known."""
        if name in self.known_values:
            return self.known_values[name]
        found = self.numbers(name)
        if found is None:
            raise WorkloadError(f"Column {name!r} holds no numbers.")
        return found

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """Columns whose codes stand for numbers."""
        return tuple(
            column.name for column in self.schema.columns if isinstance(column, Integer | Real | Date)
        )


def known_numbers(
    schema: Schema, real: pd.DataFrame, synthetic: pd.DataFrame
) -> dict[str, tuple[Floats, Floats]]:
    """Return the numbers of both tables by column, as far as they can be read."""
    found = {}
    for column in schema.columns:
        if isinstance(column, Integer | Real | Date):
            sides = (plain_numbers(column, real[column.name]), plain_numbers(column, synthetic[column.name]))
            if not any(np.isnan(side).all() for side in sides):
                found[column.name] = sides
    return found


def plain_numbers(column: Column, entries: pd.Series[Any]) -> Floats:
    """Return the entries of a column as numbers, dates as days; NaN for whatever is none.

    Examples
    --------
    >>> import pandas as pd
    >>> plain_numbers(Integer("age", minimum=0, maximum=9), pd.Series(["3", None, "?"]))
    array([ 3., nan, nan])
    """
    import pandas as pd

    if isinstance(column, Date):
        days = pd.to_datetime(entries, errors="coerce", format="ISO8601" if entries.dtype == object else None)
        return np.asarray((days - pd.Timestamp(0)) / pd.Timedelta(days=1), dtype=np.float64)
    return np.asarray(pd.to_numeric(entries, errors="coerce"), dtype=np.float64)


def numbers_of(column: Column) -> Floats | None:
    """Return the number each code of a column stands for: the middle of its bin, its rank, or 0 and 1.

    Missing and other values are NaN; a categorical column has no numbers.

    Examples
    --------
    >>> numbers_of(Integer("age", minimum=3, maximum=5, missing=True))
    array([ 3.,  4.,  5., nan])
    """
    if isinstance(column, Integer | Real | Date):
        values = np.asarray(column.midpoints, dtype=np.float64)
    elif isinstance(column, Ordinal | Boolean):
        values = np.arange(column.value_count, dtype=np.float64)
    else:
        return None
    return np.concatenate([values, np.full(column.size - len(values), np.nan)])


def _share(rows: npt.NDArray[np.bool_]) -> str:
    """Say which share of the synthetic rows some of them are."""
    return f"{100 * float(rows.mean()) if len(rows) else 0.0:.2g} % of the synthetic rows".replace(
        "1e+02", "100"
    )
