"""A tiny table of mixed types for documentation and tests."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from understudy.datasets.draw import checked_rows, draw, draw_given, generator, labelled

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

WARDS = ("day", "general", "intensive")
WARD_SHARES = (0.45, 0.45, 0.10)
MISSING_SHARE = 0.05
LONGEST_STAY = 14
STAY_RATIO = (0.40, 0.75, 0.85)  # each further night is this much as likely, by ward
COST_PER_DAY = (600.0, 900.0, 2400.0)
HIGHEST_COST = 50_000.0


def toy(n: int, seed: int = 0) -> pd.DataFrame:
    """Simulate hospital stays: a category with missing values, an integer, a real number and a date.

    Stays are longer and dearer in intensive care, and winter has more of them, so a synthesizer has
    something to learn. One ward in twenty is missing, whatever the other columns say.

    Parameters
    ----------
    n
        Number of rows, 0 or more.
    seed
        Seed of the simulation; the same ``n`` and ``seed`` give the same table.

    Returns
    -------
    pandas.DataFrame
        Columns ``ward``, ``stay_days`` (0 to 14), ``cost`` (0 to 50,000) and ``admitted`` (in 2023).
        `toy_schema` describes them.

    Raises
    ------
    DataError
        If an argument is out of range.

    Examples
    --------
    >>> table = toy(200, seed=1)
    >>> list(table.columns)
    ['ward', 'stay_days', 'cost', 'admitted']
    """
    import pandas as pd

    n = checked_rows(n)
    rng = generator(seed, "toy")
    ward = draw(rng, WARD_SHARES, n)
    stay = draw_given(rng, np.asarray(STAY_RATIO)[:, None] ** np.arange(LONGEST_STAY + 1), ward)
    exact_cost = np.asarray(COST_PER_DAY)[ward] * (0.5 + stay) * np.exp(0.25 * rng.standard_normal(n))
    day = np.arange(365)
    admitted = draw(rng, 1.0 + 0.25 * np.cos(2.0 * np.pi * (day - 15) / 365.0), n)
    recorded_ward = np.where(rng.random(n) < MISSING_SHARE, -1, ward)
    return pd.DataFrame(
        {
            "ward": labelled(recorded_ward, WARDS),
            "stay_days": stay,
            "cost": np.minimum(exact_cost, HIGHEST_COST).round(2),
            "admitted": (np.datetime64("2023-01-01", "D") + admitted.astype("timedelta64[D]")).astype(
                "datetime64[us]"
            ),
        }
    )


def toy_schema() -> Schema:
    """Return the public schema of `toy`, read from the package file ``understudy/datasets/toy.yaml``.

    Examples
    --------
    >>> toy_schema().names
    ('ward', 'stay_days', 'cost', 'admitted')
    """
    from understudy.schema import Schema

    with resources.as_file(resources.files("understudy.datasets") / "toy.yaml") as path:
        return Schema.read(path)
