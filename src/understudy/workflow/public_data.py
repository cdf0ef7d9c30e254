"""Public data that a fit may lean on: a bundle, a model or a table, read as the prior of a mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.data import LocalTable, read_table
from understudy.errors import DataError, UnderstudyError
from understudy.mechanisms import Model
from understudy.mechanisms.levels import open_columns
from understudy.mechanisms.marginal.public import Answers, require_same_columns
from understudy.schema import Clique, Domain, Schema

__all__ = ["FOR_PRIORS", "WHY_FOR_PRIORS", "Prior", "PublicTable", "read_prior", "require_apart"]

Prior = str | PathLike[str] | Model | Answers
"""What may be given as a prior: the path of a bundle, a model file or a public table, or a model."""
FOR_PRIORS = "sift"
"""What ``auto`` takes where there is a prior: the mechanism that refuses it pair by pair."""
WHY_FOR_PRIORS = (
    f"Chosen by auto: {FOR_PRIORS}, which believes public data pair by pair of columns, where the records are near to it. "
    "Name another with --method (method=); releases of a series let aim and gaussian start from the model before."
)
_MODEL = "model.understudy"

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PublicTable:
    """A public table as a prior.

    Combinations that it does not hold can still occur: the share of its rows that are alone in their combination (the Good-Turing estimate of what was not seen) is
    spread as if the columns were independent.

    Examples
    --------
    >>> from understudy.schema import Schema
    >>> schema = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    >>> table = LocalTable(schema, {"a": np.array([0, 0, 1, 1, 1], np.uint8), "b": np.array([0, 0, 1, 1, 0], np.uint8)})
    >>> PublicTable(table).marginals([("a", "b")])[0].round(2).tolist()
    [[1.84, 0.16], [1.16, 1.84]]
    """

    table: LocalTable

    @property
    def domain(self) -> Domain:
        """The columns it speaks of."""
        return self.table.schema.domain

    @property
    def total(self) -> float:
        """Its number of rows."""
        return float(self.table.exact_row_count())

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return counts over each clique, a part of them spread over what was not seen."""
        return [_spread(counts.astype(np.float64)) for counts in self.table.count_many(list(cliques))]


def _spread(counts: Array) -> Array:
    """Move the rows that are alone in their cell, as many as they are, to where independence would have them."""
    rows = float(counts.sum())
    if counts.ndim < 2 or rows <= 0:
        return counts
    unseen = float((counts == 1).sum()) / rows
    independent = np.array(rows)
    for axis in range(counts.ndim):
        others = tuple(other for other in range(counts.ndim) if other != axis)
        independent = np.multiply.outer(independent, counts.sum(axis=others) / rows)
    return np.asarray((1 - unseen) * counts + unseen * independent)


def require_apart(prior: Prior | None, table: Any) -> None:
    """Refuse the private table as its own prior, as far as paths tell."""
    if not isinstance(prior, str | PathLike) or not isinstance(table, str | PathLike):
        return
    if Path(prior).exists() and Path(table).exists() and Path(prior).samefile(table):
        raise DataError("The prior is the private table itself. A prior must be public.")


def read_prior(prior: Prior, schema: Schema) -> Answers:
    """Return what public data says of the columns of a schema.

    Parameters
    ----------
    prior
        The folder of a bundle, a model file, a table in a file that :func:`understudy.data.read_table` reads, or a model.
    schema
        The schema of the private table, by which a public one is read as well.

    Raises
    ------
    DataError
        If there is nothing to read.
    UnderstudyError
        If it speaks of other columns.
    """
    if open_columns(schema):
        raise DataError(
            "A prior needs columns whose groups are known; this schema has levels that a fit chooses. Declare the groups, or leave the prior out."
        )
    if isinstance(prior, Model):
        found: Answers = prior.distribution
    elif isinstance(prior, str | PathLike):
        found = _read(Path(prior), schema)
    else:
        found = prior
    require_same_columns(found, schema.domain)
    return found


def _read(path: Path, schema: Schema) -> Answers:
    if not path.exists():
        raise DataError(
            f"There is no prior {str(path)!r}: name the folder of a bundle, a model file or a public table."
        )
    if path.is_dir() and (path / _MODEL).is_file():
        path = path / _MODEL
    if path.suffix == ".understudy":
        return Model.load(path).distribution
    try:
        table = read_table(path, schema)
    except UnderstudyError as error:
        raise DataError(
            f"The prior {str(path)!r} could not be read by the schema of the table. {error}"
        ) from error
    if not isinstance(table, LocalTable):
        raise DataError(f"The prior {str(path)!r} is too large for memory: a part of its rows will do.")
    return PublicTable(table)
