"""The two functions SDGym asks of a synthesizer, so that its benchmarks can run ours.

>>> from sdgym import create_single_table_synthesizer                              # doctest: +SKIP
>>> from understudy.adapters import get_trained_synthesizer, sample_from_synthesizer
>>> create_single_table_synthesizer("Understudy", get_trained_synthesizer, sample_from_synthesizer)  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.adapters.estimator import TableSynthesizer
from understudy.data import draft_schema

if TYPE_CHECKING:
    import pandas as pd

DEFAULTS: dict[str, Any] = {"method": "aim", "unit": "add-remove", "epsilon": 1.0, "delta": 1e-9}
"""What a benchmark gets when it says nothing."""


def get_trained_synthesizer(data: pd.DataFrame, metadata: Any = None, **params: Any) -> TableSynthesizer:
    """Fit a mechanism to a benchmark table.

    Parameters
    ----------
    data
        The table. SDGym's metadata has no domain, so it is drafted from the table and declared public here,
        which is right for public benchmark tables and wrong for any other: never use this on private records.
    metadata
        As SDGym passes it; not needed.
    params
        Parameters of `TableSynthesizer` that replace :data:`DEFAULTS`; a ``schema`` replaces the draft.
    """
    given = {**DEFAULTS, **params}
    if "rho" in params or "mu" in params:
        given = {**given, "epsilon": None, "delta": None}
    schema = given.pop("schema", None) or draft_schema(data, name="benchmark", declare_public=True)
    return TableSynthesizer(schema=schema, **given).fit(data)


def sample_from_synthesizer(synthesizer: TableSynthesizer, n_samples: int) -> pd.DataFrame:
    """Draw rows from a fitted mechanism."""
    return synthesizer.sample(n_samples)
