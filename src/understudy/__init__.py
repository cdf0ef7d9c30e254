"""Differentially private stand-ins for sensitive tables.

``TableSynthesizer(...).fit(frame).sample(n)`` and ``synthesize(...)`` make one, ``publish(...)`` carries out a specified release; `Curator` is
for those who write mechanisms.

The names below are the front door; each is imported when first used, so that ``import understudy`` is quick.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true; typing itself would be the slowest import of all
if TYPE_CHECKING:
    from typing import Any

    from understudy import datasets, plots
    from understudy.adapters import TableSynthesizer
    from understudy.curator import Curator
    from understudy.data import read_table, write_frame
    from understudy.errors import UnderstudyError
    from understudy.marginals import Workload, all_kway, skewed, target, workload_error
    from understudy.mechanisms import Model, create, methods
    from understudy.mechanisms.marginal.aim import AIM
    from understudy.mechanisms.marginal.independent import Independent
    from understudy.mechanisms.marginal.laplace import LaplaceTable
    from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, Unit
    from understudy.release.spec.spec import Spec
    from understudy.schema import Domain, Schema
    from understudy.workflow import advise, discover_schema, evaluate, publish, synthesize

__version__: str
__all__ = [
    "AIM",
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Budget",
    "Curator",
    "Domain",
    "Independent",
    "LaplaceTable",
    "Ledger",
    "Model",
    "PureDP",
    "Schema",
    "Spec",
    "TableSynthesizer",
    "UnderstudyError",
    "Unit",
    "Workload",
    "__version__",
    "advise",
    "all_kway",
    "create",
    "datasets",
    "discover_schema",
    "evaluate",
    "methods",
    "plots",
    "publish",
    "read_table",
    "skewed",
    "synthesize",
    "target",
    "workload_error",
    "write_frame",
]

_HOMES = {
    "AIM": "mechanisms.marginal.aim",
    "ApproxDP": "privacy",
    "Budget": "privacy",
    "Curator": "curator",
    "Domain": "schema",
    "GDP": "privacy",
    "Independent": "mechanisms.marginal.independent",
    "LaplaceTable": "mechanisms.marginal.laplace",
    "Ledger": "privacy",
    "Model": "mechanisms",
    "PureDP": "privacy",
    "Schema": "schema",
    "Spec": "release.spec.spec",
    "TableSynthesizer": "adapters",
    "UnderstudyError": "errors",
    "Unit": "privacy",
    "Workload": "marginals",
    "ZCDP": "privacy",
    "advise": "workflow",
    "all_kway": "marginals",
    "create": "mechanisms",
    "discover_schema": "workflow",
    "evaluate": "workflow",
    "methods": "mechanisms",
    "publish": "workflow",
    "read_table": "data",
    "skewed": "marginals",
    "synthesize": "workflow",
    "target": "marginals",
    "workload_error": "marginals",
    "write_frame": "data",
}


def __getattr__(name: str) -> Any:
    if name in ("datasets", "plots"):
        return import_module(f"understudy.{name}")
    if name == "__version__":  # of the installed package, asked for when first used
        globals()[name] = import_module("importlib.metadata").version("understudy")
        return globals()[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    value = getattr(import_module(f"understudy.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
