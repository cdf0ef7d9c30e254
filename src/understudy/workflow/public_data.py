"""Public data that a fit may lean on: a bundle, a model or a table, read as the prior of a mechanism."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from understudy.data import LocalTable, read_table
from understudy.errors import DataError, UnderstudyError
from understudy.mechanisms import Model
from understudy.mechanisms.levels import open_columns
from understudy.mechanisms.marginal.public import Answers, PublicTable, require_same_columns
from understudy.schema import Schema

__all__ = ["FOR_PRIORS", "WHY_FOR_PRIORS", "Prior", "read_prior", "require_apart"]

Prior = str | PathLike[str] | Model | Answers
"""What may be given as a prior: the path of a bundle, a model file or a public table, or a model."""
FOR_PRIORS = "sift"
"""What ``auto`` takes where there is a prior: the mechanism that refuses it pair by pair."""
WHY_FOR_PRIORS = (
    f"Chosen by auto: {FOR_PRIORS}, which believes public data pair by pair of columns, where the records are near to it. "
    "Name another with --method (method=); releases of a series let aim and gaussian start from the model before."
)
_MODEL = "model.understudy"


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
