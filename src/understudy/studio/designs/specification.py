"""A design as a specification that is still being discussed: its file, its budget, its method.

A design *is* a specification file (``designs/NAME.yaml``), so that what is decided here runs unchanged. Of its budget people decide the total and what
judging a candidate may cost; the model gets the most that then fits (:func:`settled`).
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from understudy.errors import BudgetError, SchemaError, UnderstudyError
from understudy.privacy import GDP, ApproxDP, Budget, PureDP, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING
from understudy.privacy.accounting.conversions import gdp_to_approx
from understudy.privacy.events import PureEvent
from understudy.release.run.judgement import private_regressions
from understudy.release.selection.accounting import Attempts, selection_delta
from understudy.release.spec.budget import MethodKind, divide
from understudy.release.spec.spec import Spec
from understudy.schema import Schema
from understudy.schema.entities import Entity
from understudy.studio.folder import require_inside
from understudy.workflow.choice import AUTO, Choice, choose

__all__ = [
    "MANY_COLUMNS",
    "built",
    "fit_key",
    "new_design",
    "settled",
    "spec_text",
    "total_of",
    "with_method",
    "with_total",
]

MANY_COLUMNS = 60
"""With more columns than this models are planned in the background."""
CHOICE_COLUMNS = 100
"""With more columns than this no method is chosen while somebody waits for a page."""
_DIGITS = 6
_STEPS = 60
_CLOSE = 4e-6
"""Part of the total up to which the largest size of a model is searched for."""
_BEYOND_EPSILON = (
    "The total is written as {symbol} in the file; the controls are for an epsilon. Change it in the file."
)


# ---------------------------------------------------------------------- files


def spec_text(plain: Mapping[str, Any], head: str = "") -> str:
    """Return a specification as the text of its file."""
    body: str = yaml.safe_dump(dict(plain), sort_keys=False, allow_unicode=True, width=110)
    return head + body


def built(plain: Mapping[str, Any], *, where: Path) -> Spec:
    """Return the specification of a design; built once for the checks and the page of one request."""
    try:
        beside = (where.parent / "schema.yaml").stat()
        stamp = (beside.st_mtime_ns, beside.st_size, beside.st_ino)
    except OSError:
        stamp = (0, 0, 0)
    require_inside(where.parent, plain, where)
    own = "facts" in plain or plain.get("schema") != "../schema.yaml"
    spec = Spec.from_dict(plain, where=where) if own else _built(json.dumps(plain), where, stamp)
    if spec.parts:
        raise SchemaError(
            "The studio designs releases of one table, or of entities with one table of events; plan, rehearse and run one of several tables of events from the command line."
        )
    return spec


@lru_cache(maxsize=32)
def _built(text: str, where: Path, stamp: tuple[int, int, int]) -> Spec:
    return Spec.from_dict(json.loads(text), where=where)


def new_design(
    name: str, *, columns: int = 2, simulated: str = "", rows: int | None = None, entity: Entity | None = None
) -> dict[str, Any]:
    """Return a first design: two-way tables within 2 % of the rows, judged by one test, published or not.

    With an entity it protects the entity with all its rows, and judges the number of events too.
    """
    if entity is not None:
        return _of_entities(new_design(name, columns=columns), entity)
    most = 1 if columns > CHOICE_COLUMNS else min(2, columns)
    method: dict[str, Any] = {"method": "gaussian", "options": {"workload": f"all-{most}way"}}
    if columns > CHOICE_COLUMNS:
        method = {"method": "mst"}
    source: dict[str, Any] = {"table": name}
    if simulated:
        source = {"simulate": {"table": simulated, "rows": rows or 20_000, "seed": 1}}
    return {
        "version": 1,
        "name": name,
        "title": "",
        "description": "",
        "source": source,
        "schema": "../schema.yaml",
        "unit": "add-remove",
        "public": {"row_count": "measured"} | ({"expected_rows": rows} if rows else {}),
        "cleaning": [],
        "constraints": [],
        "synthesizers": [method],
        "acceptance": {
            "form": "pass-only",
            "epsilon": 0.15,
            "false_accept": 0.05,
            "criteria": [
                {
                    "name": f"absolute {most}-way",
                    "kind": "max-marginal-error",
                    "threshold": 0.02,
                    "orders": [1, 2][:most],
                },
            ],
        },
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 1.0}, "model": {"epsilon": 0.83}},
        "output": {"formats": ["csv"]},
    }


_RECORDS = 10
"""Of each entity, in a first design; more cost the same noise, as each counts for less."""


def _of_entities(design: dict[str, Any], entity: Entity) -> dict[str, Any]:
    """Return a first design of one table as one of entities with their events."""
    design["unit"] = {"relation": "add-remove", "id_column": entity.id, "max_rows": _RECORDS}
    design["acceptance"]["epsilon"] = 0.5
    design["acceptance"]["criteria"][0]["threshold"] = 0.05
    design["acceptance"]["criteria"].append(
        {"name": "number of events", "kind": "mean-events", "threshold": 0.5}
    )
    design["synthesizers"] = [{"method": "aim"}]
    design["budget"] = {"total": {"epsilon": 4.0, "delta": 1e-6}, "model": {"epsilon": 3.0, "delta": 1e-6}}
    return design


def fit_key(spec: Spec) -> str:
    """Return a digest of everything that decides the errors of a candidate: all of a specification but its thresholds."""
    content = copy.deepcopy(spec.to_dict())
    for item in content["acceptance"]["criteria"]:
        item.pop("threshold", None)
    content["acceptance"].pop("false_accept", None)
    for key in (
        "title",
        "description",
        "license",
        "citation",
        "publisher",
        "show",
        "output",
        "approvals",
        "agreement",
    ):
        content.pop(key, None)
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:24]


# ---------------------------------------------------------------------- budget


def total_of(plain: Mapping[str, Any]) -> tuple[float, float | None] | None:
    """Return epsilon and delta of the total; None where it is written otherwise."""
    given = plain.get("budget", {}).get("total", {})
    epsilon = given.get("epsilon") if isinstance(given, Mapping) else None
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool):
        return None
    return float(epsilon), given.get("delta")


def with_total(plain: Mapping[str, Any], epsilon: float, *, where: Path) -> dict[str, Any]:
    """Return a specification with another total, every other part in the same proportion and the model with what then is left."""
    made: dict[str, Any] = copy.deepcopy(dict(plain))
    known = total_of(made)
    if known is None:
        raise BudgetError(_BEYOND_EPSILON.format(symbol="rho or mu"))
    factor = epsilon / known[0]
    made["budget"]["total"]["epsilon"] = epsilon
    acceptance = made["acceptance"]
    for holder in (acceptance, *acceptance["criteria"], (made.get("public") or {}).get("row_count")):
        if isinstance(holder, dict) and isinstance(holder.get("epsilon"), int | float):
            holder["epsilon"] = _rounded(factor * holder["epsilon"])
    return settled(made, where=where)


def settled(plain: Mapping[str, Any], *, where: Path) -> dict[str, Any]:
    """Return a specification whose model gets the most that fits the total beside the other parts.

    Raises
    ------
    SchemaError
        If something else is wrong with it, or nothing is left for a model.
    """
    made: dict[str, Any] = copy.deepcopy(dict(plain))
    known = total_of(made)
    if known is None:
        return made
    epsilon, delta = known
    model = made["budget"].get("model")
    if not isinstance(model, Mapping) or "epsilon" not in model:
        model = {"epsilon": epsilon}
    if delta is None:
        model = {"epsilon": 0.0}
    elif "delta" in model:
        model = {"epsilon": 0.0, "delta": delta}
    probe = copy.deepcopy(made)
    probe["budget"]["model"] = dict(model) | {"epsilon": epsilon / 1000}
    spec = built(probe, where=where)
    acceptance = spec.file.acceptance
    regressions = (
        private_regressions(acceptance.criteria, spec.transformations) if acceptance.published else ()
    )
    parts = _Parts(
        total=spec.total,
        unit=spec.unit,
        acceptance=acceptance.cost,
        attempts=spec.attempts,
        rows=spec.row_count.epsilon,
        people=spec.shares.people,
        regressions=tuple((item.epsilon, item.versions) for item in regressions),
        kinds=spec.shares.kinds,
    )
    made["budget"]["model"] = dict(model) | {
        "epsilon": _most_for_a_model(parts, epsilon, model.get("delta"), _others(spec))
    }
    return made


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """Everything but its model that a release pays for."""

    total: Budget
    unit: Unit
    acceptance: float
    attempts: Attempts
    rows: float
    people: float
    regressions: tuple[tuple[float, int], ...]
    kinds: tuple[MethodKind, ...]

    def used(self, size: float, delta: float | None) -> float:
        """Return the share of the total that is used with a model of some size, above 1 exactly if that does not fit."""
        shares, problems = divide(
            total=self.total,
            unit=self.unit,
            model=PureDP(size) if delta is None else ApproxDP(size, delta),
            acceptance=self.acceptance,
            attempts=self.attempts,
            rows=self.rows,
            people=self.people,
            regressions=self.regressions,
            kinds=self.kinds,
        )
        if shares is None:
            return math.inf
        return max(shares.used, _ABOVE) if problems else min(shares.used, 1.0)


_ABOVE = math.nextafter(1.0, 2.0)


@lru_cache(maxsize=256)
def _most_for_a_model(
    parts: _Parts, epsilon: float, delta: float | None, others: tuple[float, ...] | None
) -> float:
    """Return the largest epsilon of a model that fits the total beside the other parts.

    Pricing several attempts takes long, so few sizes are tried: the share of the total that is used grows with the size, and where it reaches 1 is found by
    false position (the Illinois rule). It is searched for once for all designs whose other parts cost the same, whatever their thresholds are.
    """

    def fits(size: float) -> bool:
        return parts.used(size, delta) <= 1

    if others is not None:
        direct = [size for size in _by_addition(parts, epsilon, delta, others) if size > 0 and fits(size)]
        if direct:
            return direct[0]
    low, high = epsilon / 1000, epsilon
    below, above = -1.0, math.inf
    guess = None if others is not None or delta is None else _guessed(parts, epsilon, delta)
    if guess is not None:
        near = _rounded_down(guess * (1 - _CLOSE / 2))
        if fits(near):  # and hardly more does: the guess is that close
            return near
        high = near
    side = 0
    for _ in range(_STEPS):
        if high - low < _CLOSE * epsilon:
            break
        middle = (low + high) / 2
        if below < 0 < above < math.inf:
            middle = low + (high - low) * below / (below - above)
        margin = _CLOSE * epsilon / 4
        middle = min(max(middle, low + margin), high - margin)
        off = parts.used(middle, delta) - 1
        if off <= 0:
            low, below = middle, off
            above = above / 2 if side == -1 else above
            side = -1
        else:
            high, above = middle, off
            below = below / 2 if side == 1 else below
            side = 1
    return _nice(low, epsilon, fits)


def _guessed(parts: _Parts, epsilon: float, delta: float) -> float | None:
    """Return about the size of a model with which several attempts fit, or None where that cannot be said.

    The delta of the selection is computed at the epsilon that the parts outside of it leave, which takes a moment; to price a selection is to search
    for its epsilon, which takes twenty of them, and to convert a budget, as many more. The guess is confirmed by that price, and does not replace it.
    """
    if parts.regressions:
        return None  # which are inside the selection or outside, whichever costs less
    cost = GDP_ACCOUNTING.cost(PureEvent(parts.acceptance)) if parts.acceptance > 0 else 0.0
    left = epsilon - parts.rows - parts.people

    def holds(mu: float) -> bool:
        return selection_delta(GDP(mu), parts.attempts, epsilon=left) <= delta * (1 - 2.0**-10)

    try:
        low, high = math.sqrt(cost), math.sqrt(GDP_ACCOUNTING.total(ApproxDP(epsilon, delta)) + cost)
        if left <= 0 or not holds(low * (1 + _CLOSE)) or holds(high):
            return None
        while high - low > _CLOSE * low / 20:
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return gdp_to_approx(math.sqrt(low * low - cost), delta)
    except UnderstudyError:
        return None


def _others(spec: Spec) -> tuple[float, ...] | None:
    """Return the epsilons beside the model's in a single attempt; None for several attempts."""
    shares = spec.shares
    if not shares.single:
        return None
    return tuple(part for part in (shares.judging, shares.rows, shares.people, *shares.baselines) if part > 0)


def _by_addition(
    parts: _Parts, epsilon: float, delta: float | None, others: tuple[float, ...]
) -> list[float]:
    """Return what a single attempt leaves for its model, the largest first: by the Gaussian curve, and by adding up epsilons."""
    found = [_rounded(epsilon - math.fsum(others))]
    if delta is not None:
        touched = parts.unit.parts_touched
        costs = [GDP_ACCOUNTING.exact_cost(PureEvent(part), parts=touched) for part in others]
        left = GDP_ACCOUNTING.total(parts.total) - math.fsum(
            float(cost) for cost in costs if cost is not None
        )
        if left > 0:
            mu = math.sqrt(left) * (1 - 1e-9)
            size = Context(prec=_DIGITS - 1, rounding=ROUND_FLOOR).create_decimal(gdp_to_approx(mu, delta))
            found.append(float(size))
    return sorted(found, reverse=True)


def _rounded(number: float) -> float:
    return float(f"{number:.12g}")


def _rounded_down(number: float) -> float:
    return float(Context(prec=_DIGITS, rounding=ROUND_FLOOR).create_decimal(number))


def _nice(low: float, total: float, fits: Callable[[float], bool]) -> float:
    """Return a number with few digits that fits and is next to the largest that does."""
    for digits in range(2, _DIGITS):
        found = float(f"{low:.{digits}g}")
        if abs(found - low) < _CLOSE * total and fits(found):
            return found
    return _rounded_down(low)


_CHOSEN: dict[tuple[str, int | None, Unit, Budget], Choice] = {}
_MOST_CHOSEN = 64


def _chosen(schema: Schema, unit: Unit, budget: Budget) -> Choice:
    """Return the choice of a method, made once for the same public facts."""
    key = (schema.fingerprint(), schema.row_count, unit, budget)
    if key not in _CHOSEN:
        if len(_CHOSEN) >= _MOST_CHOSEN:
            _CHOSEN.clear()
        _CHOSEN[key] = choose(schema, unit=unit, budget=budget)
    return _CHOSEN[key]


def with_method(
    plain: Mapping[str, Any], method: str, workload: str, *, where: Path
) -> tuple[dict[str, Any], str]:
    """Return a specification with one method, and why, where it was chosen by itself."""
    made: dict[str, Any] = copy.deepcopy(dict(plain))
    why = ""
    options: dict[str, Any] = {"workload": workload} if workload else {}
    if method == AUTO:
        if len(Spec.from_dict(made, where=where).schema.names) > CHOICE_COLUMNS:
            raise SchemaError(
                f"synthesizers: with more than {CHOICE_COLUMNS} columns the choice takes longer than a page may; name a method, such as mst."
            )
        made["synthesizers"] = [{"method": "gaussian", "options": {"workload": workload or "all-1way"}}]
        spec = Spec.from_dict(settled(made, where=where), where=where)
        schema, rows = spec.schema_for(spec.configurations[0]), spec.row_count.value or spec.expected_rows
        chosen = _chosen(replace(schema, row_count=rows), spec.unit, spec.shares.model)
        method, why = chosen.method, chosen.why.replace("rows (declared)", "rows (expected)")
        if not workload:
            options = {
                key: [value] if isinstance(value, list) else value
                for key, value in json.loads(json.dumps(dict(chosen.options), default=str)).items()
            }
    made["synthesizers"] = [{"method": method} | ({"options": options} if options else {})]
    return made, why
