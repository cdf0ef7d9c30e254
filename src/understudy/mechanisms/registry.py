"""Every mechanism by name. Adding one is a line here, a file beside it, and a page in the documentation.

Another installed package adds its mechanisms by entry points of the group ``understudy.methods``; see CONTRIBUTING.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from importlib.metadata import entry_points, version
from typing import Any

from understudy.errors import UnknownMethod, WorkloadError
from understudy.mechanisms.base import Synthesizer
from understudy.mechanisms.counts import METHODS as COUNTS
from understudy.mechanisms.deep import METHODS as DEEP
from understudy.mechanisms.graphs import METHODS as GRAPHS
from understudy.mechanisms.histograms import METHODS as HISTOGRAMS
from understudy.mechanisms.method import Method
from understudy.mechanisms.model import Model
from understudy.mechanisms.options import of_other_kinds, refuse
from understudy.mechanisms.parametric import METHODS as PARAMETRIC
from understudy.mechanisms.queries import METHODS as QUERIES

_METHODS: tuple[Method, ...] = (
    Method("independent", "understudy.mechanisms.marginal.independent", "Independent", "any encoded table"),
    Method("aim", "understudy.mechanisms.marginal.aim", "AIM", "any encoded table"),
    Method("sift", "understudy.mechanisms.marginal.sift", "Sift", "any encoded table"),
    Method("mst", "understudy.mechanisms.marginal.mst", "MST", "any encoded table"),
    Method("mwem-pgm", "understudy.mechanisms.marginal.mwem_pgm", "MWEMPGM", "any encoded table"),
    Method(
        "gaussian",
        "understudy.mechanisms.marginal.gaussian",
        "GaussianWorkload",
        "workloads with few cells in all",
    ),
    Method(
        "hdmm-pgm", "understudy.mechanisms.marginal.hdmm_pgm", "HDMMPGM", "workloads with few cells in all"
    ),
    Method("privbayes", "understudy.mechanisms.networks.privbayes", "PrivBayes", "any encoded table"),
    Method(
        "deniability", "understudy.mechanisms.deniability.deniability", "Deniability", "any encoded table"
    ),
    Method(
        "privbayes-pgm", "understudy.mechanisms.networks.privbayes_pgm", "PrivBayesPGM", "any encoded table"
    ),
    Method(
        "laplace", "understudy.mechanisms.marginal.laplace", "LaplaceTable", "tables with few cells in all"
    ),
    *GRAPHS,
    *COUNTS,
    *HISTOGRAMS,
    *PARAMETRIC,
    *QUERIES,
    *DEEP,
)

_BY_NAME = {method.name: method for method in _METHODS}


def methods() -> tuple[Method, ...]:
    """Return every mechanism: Understudy's own, then those of other installed packages."""
    return (*_METHODS, *_outside().values())


@cache
def _outside() -> dict[str, Method]:
    """Return what other installed packages offer, from their metadata: nothing of theirs is imported until it is used.

    A name that Understudy uses itself stays Understudy's.
    """
    found: dict[str, Method] = {}
    for point in sorted(entry_points(group="understudy.methods"), key=lambda point: point.value):
        package = "unknown" if point.dist is None else point.dist.name
        if point.name not in _BY_NAME:
            data = f"see the package {package}"
            found.setdefault(point.name, Method(point.name, point.module, point.attr, data, package=package))
    return found


def method(name: str) -> Method:
    """Return one mechanism by name, with a suggestion when there is none."""
    found = _BY_NAME.get(name) or _outside().get(name)
    if found is None:
        known = [*_BY_NAME, *_outside()]
        close = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        if name == "auto":
            hint = " A fit chooses one by that name (synth, synthesize); here name the one that `understudy plan --method auto` shows."
        raise UnknownMethod(f"No synthesizer named {name!r}.{hint} Known: {', '.join(known)}.")
    return found


def software(names: Iterable[str], beside: Iterable[str] = ()) -> str:
    """Name the programs behind some mechanisms, with their versions: Understudy, and packages that add to it.

    ``beside`` are packages that add something else that was used, such as a criterion.

    Examples
    --------
    >>> software(["aim", "mst"]).startswith("understudy ")
    True
    """
    packages = dict.fromkeys([*(method(name).package for name in names), *beside])
    return " with ".join(f"{name} {version(name)}" for name in ("understudy", *filter(None, packages)))


def create(name: str, **options: Any) -> Synthesizer:
    """Build a mechanism from its name and options.

    Raises
    ------
    WorkloadError
        If there is no such option.
    BudgetError
        If an option is none that the mechanism takes: what the mechanism says itself and, of one of another package, another kind than its field declares.

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
    if cls.__module__.partition(".")[0] != "understudy":  # Understudy's own say more exactly what they take
        refuse(of_other_kinds(cls, options))
    return cls(**options)


def mechanism_of(model: Model) -> Synthesizer:
    """Build the mechanism of a model again, with the options of its fit.

    Raises
    ------
    WorkloadError
        If an option is not in the model as it was given: of a prior a model keeps only what tells it from others.

    Examples
    --------
    >>> from understudy.curator import practice_curator
    >>> from understudy.privacy import PureDP, Unit
    >>> from understudy.schema import Schema
    >>> schema = Schema.parse("columns: [{name: smokes, kind: boolean}, {name: drinks, kind: boolean}]")
    >>> curator = practice_curator(schema, rows=50, unit=Unit.add_remove(), budget=PureDP(1.0))
    >>> mechanism_of(create("mst", max_model_mb=3.0).fit(curator, PureDP(1.0))).max_model_mb
    3.0
    """
    name, options = model.provenance.method, model.provenance.options
    plain = create(name)
    given = {
        option: _restored(value)
        for option, value in options.items()
        if value != plain.options().get(option) and option != "workload"
    }
    if options.get("workload") is not None:
        given["workload"] = model.workload
    try:
        found = create(name, **given)
        same = found.options() == dict(options)
    except (
        TypeError,
        ValueError,
        AttributeError,
    ):  # an option that is a text in the model and something else in the mechanism
        same = False
    if not same:
        raise WorkloadError(
            f"The options of this fit of {name} cannot be read from its model. Pass the mechanism with the same options (method=...)."
        )
    return found


def _restored(value: Any) -> Any:
    return tuple(_restored(item) for item in value) if isinstance(value, list | tuple) else value
