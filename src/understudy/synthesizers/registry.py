"""Every mechanism by name. Adding one is a line here, a file beside it, and a page in the documentation."""

from __future__ import annotations

import difflib
from dataclasses import fields
from typing import Any

from understudy.errors import UnknownMethod, WorkloadError
from understudy.synthesizers.base import Synthesizer
from understudy.synthesizers.counts import METHODS as COUNTS
from understudy.synthesizers.deep import METHODS as DEEP
from understudy.synthesizers.graphs import METHODS as GRAPHS
from understudy.synthesizers.histograms import METHODS as HISTOGRAMS
from understudy.synthesizers.method import Method
from understudy.synthesizers.parametric import METHODS as PARAMETRIC
from understudy.synthesizers.queries import METHODS as QUERIES

_METHODS: tuple[Method, ...] = (
    Method("independent", "understudy.synthesizers.independent", "Independent", "any encoded table"),
    Method("aim", "understudy.synthesizers.aim", "AIM", "any encoded table", takes_workload=True),
    Method("mst", "understudy.synthesizers.mst", "MST", "any encoded table", takes_workload=True),
    Method(
        "mwem-pgm", "understudy.synthesizers.mwem_pgm", "MWEMPGM", "any encoded table", takes_workload=True
    ),
    Method(
        "gaussian",
        "understudy.synthesizers.gaussian",
        "GaussianWorkload",
        "workloads with few cells in all",
        takes_workload=True,
    ),
    Method(
        "hdmm-pgm",
        "understudy.synthesizers.hdmm_pgm",
        "HDMMPGM",
        "workloads with few cells in all",
        takes_workload=True,
    ),
    Method(
        "privbayes",
        "understudy.synthesizers.privbayes",
        "PrivBayes",
        "any encoded table",
        takes_workload=True,
    ),
    Method("deniability", "understudy.synthesizers.deniability", "Deniability", "any encoded table"),
    Method(
        "privbayes-pgm",
        "understudy.synthesizers.privbayes_pgm",
        "PrivBayesPGM",
        "any encoded table",
        takes_workload=True,
    ),
    Method("laplace", "understudy.synthesizers.laplace", "LaplaceTable", "tables with few cells in all"),
    *GRAPHS,
    *COUNTS,
    *HISTOGRAMS,
    *PARAMETRIC,
    *QUERIES,
    *DEEP,
)

_BY_NAME = {method.name: method for method in _METHODS}


def methods() -> tuple[Method, ...]:
    """Return every registered mechanism."""
    return _METHODS


def method(name: str) -> Method:
    """Return one mechanism by name, with a suggestion when there is none."""
    try:
        return _BY_NAME[name]
    except KeyError:
        close = difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownMethod(f"No synthesizer named {name!r}.{hint} Known: {', '.join(_BY_NAME)}.") from None


def create(name: str, **options: Any) -> Synthesizer:
    """Build a mechanism from its name and options.

    Examples
    --------
    >>> create("laplace", post_processing="simplex").name
    'laplace'
    """
    cls = method(name).load()
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise WorkloadError(
                f"{name} has no option {option!r}.{hint} Known: {', '.join(sorted(known)) or 'none'}."
            )
    return cls(**options)
