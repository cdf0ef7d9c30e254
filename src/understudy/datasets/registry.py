"""Simulated tables by name, for the command line and for parametrised tests."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from understudy.datasets.births import births, births_schema
from understudy.datasets.school_census import school_census, school_census_schema
from understudy.datasets.survey import survey, survey_schema
from understudy.datasets.toy import toy, toy_schema
from understudy.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

_TABLES: dict[str, tuple[Callable[[int, int], pd.DataFrame], Callable[[], Schema]]] = {
    "births": (births, births_schema),
    "school_census": (school_census, school_census_schema),
    "survey": (survey, survey_schema),
    "toy": (toy, toy_schema),
}


def names() -> tuple[str, ...]:
    """Return the names `load` knows.

    Examples
    --------
    >>> names()
    ('births', 'school_census', 'survey', 'toy')
    """
    return tuple(_TABLES)


def load(name: str, n: int, seed: int = 0) -> tuple[pd.DataFrame, Schema]:
    """Simulate a table by name and return it with its public schema.

    Parameters
    ----------
    name
        One of `names`.
    n
        Number of rows, 0 or more.
    seed
        Seed of the simulation; the same arguments give the same table.

    Returns
    -------
    tuple[pandas.DataFrame, Schema]
        The rows, with each simulator's default options, and the schema that describes them.

    Raises
    ------
    DataError
        If the name is unknown or an argument is out of range.

    Examples
    --------
    >>> frame, schema = load("toy", 100, seed=3)
    >>> tuple(frame.columns) == schema.names
    True
    """
    if name not in _TABLES:
        close = get_close_matches(str(name), _TABLES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise DataError(f"No simulated table named {name!r}.{hint} Known: {', '.join(_TABLES)}.")
    simulate, schema = _TABLES[name]
    return simulate(n, seed), schema()
