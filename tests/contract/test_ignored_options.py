"""No option is accepted and then ignored: changing one changes what a fit does, or is refused.

Every number and every switch of every registered method is changed, on the table of its contract, in the method's usual form and
in those of ``FORMS``. The fit (plan, charges, answers, rows; all from one seed) must come out different for at least one of the
values tried, or be refused. What this table cannot show is listed in ``NEEDS``, with the reason.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pytest
from contract_cases import OPTIONS_OF, case_of

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import UnderstudyError
from understudy.mechanisms import create, methods
from understudy.privacy import ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit

UNIT = Unit.add_remove()
MEMORY = "a limit on memory that a table of four columns does not reach"
FORMS: dict[str, list[dict[str, Any]]] = {
    "privbayes": [{"flavour": "degree"}],
    "privbayes-pgm": [{"flavour": "degree"}],
    "deniability": [
        {"omega": (2, 3), "records": 8, "k": 10, "min_seeds": 50, "accept_weak": True},
        {"disjoint": True},
        {"lazy": True, "records": 20},
    ],
    "privsyn": [{"records": "gum"}],
    "perturbed-histogram": [{"bins": "private"}],
    "kde": [{"bandwidth": 0.1}],
    "sorted-histogram": [{"order": tuple(range(96))}],
    "structure-first": [{"buckets": 4}],
    "modips": [
        {"model": "multinomial"},
        {"model": "saturated"},
        {"model": "loglinear", "generators": (("colour", "size"), ("age", "smokes"))},
        {"model": "glom", "continuous": ("age",)},
        {"model": "slomag", "continuous": ("age",)},
        {"model": "average", "models": ("multinomial", "saturated")},
    ],
    "steps": [{"order": ("colour", "size")}],
    "pep": [{"ask": "queries", "num_query": 60}],
    "dpcopula": [{"correlation": "kendall"}],
    "gaussian": [{"rare_share": 0.1}],
    "aim": [{"initialise": False}, {"estimation": "relaxed"}],
    "rap": [{"form": "published"}],
    "gem": [{"form": "published"}],
}
AUTO = "the model chosen for this table has no numbers"
NEEDS: dict[tuple[str, ...], str] = {
    ("modips", "prior_weight", "usual"): AUTO,
    ("modips", "prior_variance", "usual"): AUTO,
    ("modips", "deviation", "usual"): AUTO,
    ("aim", "numbers"): "acts on event records of entities alone",
    ("aim", "smooth"): "acts on columns whose noise is large beside their counts",
    ("sift", "max_model_mb"): MEMORY,
    (
        "sift",
        "measure_share",
    ): "acts on rounds, which follow where the distances of triples would be mostly noise",
    ("mst", "max_model_mb"): MEMORY,
    ("gaussian", "max_model_mb"): MEMORY,
    ("hdmm-pgm", "max_model_mb"): MEMORY,
    ("fourier", "max_model_mb"): MEMORY,
    ("privbayes", "generalise"): "acts on wide columns with an order",
    ("privbayes-pgm", "generalise"): "acts on wide columns with an order",
    ("deniability", "prior", "other"): "moves a few records of many",
    ("deniability", "usefulness"): "acts on columns with several parents",
    ("deniability", "fine_targets"): "acts on columns with more values than buckets",
    ("laplace", "rows_share"): "the number of rows is measured beside tables of many cells only",
    ("privsyn", "max_clique_cells"): "acts on pairs that can be merged",
    ("sequential-regression", "max_cells"): "acts on histograms given other columns",
    ("steps", "histogram_share"): "acts on columns with more values than branches",
    ("pep", "public_seed"): "chooses among more marginals than num_query",
    ("dualquery", "starts"): "acts where not all records can be tried",
}


def _names() -> Iterator[Any]:
    torch = importlib.util.find_spec("torch") is not None
    for item in methods():
        missing = item.extra == "deep" and not torch
        marks = [pytest.mark.skip(reason=f"{item.name} needs torch")] if missing else []
        yield pytest.param(item.name, marks=marks)


def _fit(name: str, **options: Any) -> str:
    """Return a digest of everything that a fit with these options plans, charges and releases."""
    case, method = case_of(name), create(name, **OPTIONS_OF.get(name, {}) | options)
    pure: Budget = PureDP(2.0)
    budget = ApproxDP(50.0, 1e-3) if "omega" in options or not isinstance(pure, method.budgets) else pure
    plan = method.plan(case.schema, unit=UNIT, budget=budget)
    reserve = method.reserve(case.schema, budget)
    ledger = Ledger.in_memory(budget=budget, unit=UNIT, table="t", approximate_delta=reserve)
    table = read_table(case.frame(400), case.schema)
    model = method.fit(Curator(table, unit=UNIT, ledger=ledger, randomness=SeededRandomness(1)), budget)
    digest = hashlib.sha256(repr((plan.measurements, plan.notes, plan.model_cells)).encode())
    digest.update(repr([entry.event for entry in ledger.entries()]).encode())
    for item in (*model.measurements, *model.statistics):
        digest.update(np.ascontiguousarray(item.values).tobytes())  # type: ignore[attr-defined]
    for cells in model.marginals([(column,) for column in case.schema.names]):
        digest.update(np.ascontiguousarray(cells).tobytes())
    digest.update(model.sample(200, seed=1).to_csv().encode())
    return digest.hexdigest()


@cache
def _usual(name: str, form: int) -> str | None:
    """Return the digest of one form of a method, or None where its table does not allow that form."""
    try:
        return _fit(name, **_forms(name)[form])
    except UnderstudyError:
        return None


def _forms(name: str) -> list[dict[str, Any]]:
    return [{}, *FORMS.get(name, [])]


def _others(value: object, kind: str) -> list[Any]:
    """Return other values of a number or a switch, small ones too: limits act when they are reached."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int) or (value is None and kind == "int | None"):
        start = 2 if value is None else int(value)  # type: ignore[call-overload]
        return [other for other in (start + 1, 1, 2, max(1, start // 2), 2 * start) if other != value]
    if isinstance(value, float) or (value is None and kind == "float | None"):
        start = 0.5 if not value else float(value)  # type: ignore[arg-type,assignment]
        return [start / 2, 2 * start if start >= 0.5 else 1.5 * start + 0.01, 1e-3]
    return []


@pytest.mark.parametrize("name", list(_names()))
def test_no_option_is_accepted_and_ignored(name: str) -> None:
    ignored = []
    for form, given in enumerate(_forms(name)):
        usual = _usual(name, form)
        if usual is None:
            continue
        for field in fields(type(create(name))):  # type: ignore[arg-type]
            excused = {(name, field.name), (name, field.name, "other" if form else "usual")} & set(NEEDS)
            if field.name in given or excused or field.name in OPTIONS_OF.get(name, {}):
                continue
            values = _others(field.default, str(field.type))
            if values and not any(_matters(name, usual, given | {field.name: value}) for value in values):
                ignored.append(f"{field.name} ({given or 'usual form'})")
    assert not ignored, "refuse them with synthesizers._options.unused: " + ", ".join(ignored)


def _matters(name: str, usual: str, options: dict[str, Any]) -> bool:
    try:
        return _fit(name, **options) != usual
    except UnderstudyError as error:
        return "must" not in str(error)  # a value out of range does not show that the option is used


def test_every_exception_is_about_an_option_that_exists() -> None:
    for name, option, *_ in NEEDS:
        assert option in {field.name for field in fields(type(create(name)))}  # type: ignore[arg-type]
