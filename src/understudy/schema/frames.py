"""Whole tables: every column encoded, every problem reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import DataError
from understudy.schema.column import Codes
from understudy.schema.problems import did_you_mean, raise_problems

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema.schema import Schema

__all__ = ["decode_frame", "encode_frame"]


def encode_frame(schema: Schema, frame: pd.DataFrame) -> dict[str, Codes]:
    """Encode every declared column of a table; other columns are ignored.

    Parameters
    ----------
    schema
        The public schema.
    frame
        A pandas frame (or the next chunk of one).

    Returns
    -------
    dict
        Codes of each column in the smallest unsigned type.

    Raises
    ------
    DataError
        If columns are absent or repeated, or entries have no code: all such problems in one message, without
        any entry or count.

    Privacy
    -------
    In and out: private.
    """
    places = _places(frame)
    problems: list[str] = []
    codes: dict[str, Codes] = {}
    for column in schema.columns:
        found = places.get(column.name, [])
        if not found:
            hint = did_you_mean(column.name, places)
            problems.append(f"Column {column.name!r} is absent from the table.{hint}")
        elif len(found) > 1:
            problems.append(f"The table has more than one column named {column.name!r}.")
        else:
            codes[column.name], wrong = column.try_encode(frame.iloc[:, found[0]])
            problems += wrong
    raise_problems("The table does not fit the schema", problems, DataError)
    return codes


def _places(frame: pd.DataFrame) -> dict[str, list[int]]:
    if not hasattr(frame, "columns") or not hasattr(frame, "iloc"):
        raise DataError("Expected a pandas table with named columns.")
    places: dict[str, list[int]] = {}
    for place, name in enumerate(frame.columns):
        places.setdefault(str(name), []).append(place)
    return places


def decode_frame(schema: Schema, codes: Mapping[str, npt.ArrayLike], *, seed: int | None) -> pd.DataFrame:
    """Decode every column; see `Schema.decode`. Each column draws from its own stream of randomness.

    Raises
    ------
    DataError
        If a column is absent, the lengths differ, or a code is not one of its column's.
    """
    import pandas as pd

    problems = [f"Column {name!r} is absent from the codes." for name in schema.names if name not in codes]
    lengths = {len(np.atleast_1d(np.asarray(codes[name]))) for name in schema.names if name in codes}
    if len(lengths) > 1:
        problems.append("The columns of codes have different lengths.")
    raise_problems("The codes do not fit the schema", problems, DataError)
    streams = np.random.default_rng(seed).spawn(len(schema.columns))
    decoded: dict[str, Any] = {
        column.name: column.decode(codes[column.name], stream)
        for column, stream in zip(schema.columns, streams, strict=True)
    }
    return pd.DataFrame(decoded, columns=list(schema.names))
