"""What follows from a design, before anything is spent: from public facts at once, and from rehearsals that were made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from understudy.privacy import ApproxDP, PureDP
from understudy.release.approvals import specification_hash
from understudy.release.bundle.documents import odds
from understudy.release.bundle.reporting import about_records, between, trade_off_curve
from understudy.release.rehearsal.trial import mean_interval
from understudy.release.run.planning import ModelPlan, ReleasePlan, plan_release
from understudy.release.selection.profiles import Bound, best_profile
from understudy.release.spec.spec import Spec
from understudy.report.pictures import Share, budget_bar, trade_off
from understudy.studio.background.jobs import State
from understudy.studio.background.plans import Plans
from understudy.studio.background.rehearsals import Found, Rehearsals, Table
from understudy.studio.designs.specification import MANY_COLUMNS
from understudy.workflow.choice import Facts

__all__ = ["Acceptance", "Consequences", "consequences_of", "frontier", "table_for", "warm_up"]

REGISTRY_MEDIAN = 2.64
REGISTRY_STATED = 27
"""How many of the entries below state an epsilon, and its median."""
_REGISTRY_ENTRIES = 41
_REGISTRY = (
    "Differential Privacy Deployments Registry, registry.opendp.org; data of 15 July 2026, "
    "github.com/opendp/deployments-registry-data, commit 3e9c812"
)
_USUAL_ROWS = 20_000
_MOST_ROWS = 200_000


@dataclass(frozen=True)
class Acceptance:
    """How probably a candidate is accepted, and what that number is: ``exact`` of this design, or an ``estimate`` from another one's errors."""

    kind: str
    probability: float = 0.0
    low: float = 0.0
    high: float = 1.0
    trials: int = 0


@dataclass(frozen=True, kw_only=True)
class Consequences:
    """Everything that a page shows about a design."""

    spec: Spec
    plan: ReleasePlan
    hash: str
    guarantee: str
    odds: str
    curve: str
    budget: str
    split: str
    criteria: Sequence[Mapping[str, str]]
    model: str
    planning: State
    plan_key: str
    noise: Sequence[tuple[str, str]]
    rejection: Sequence[str]
    registry: str
    acceptance: Acceptance
    table: Table
    table_words: str
    state: State
    key: str
    frontier: str
    points: Sequence[Mapping[str, Any]]
    errors: Sequence[tuple[str, str, str]]
    errors_note: str
    closest: str
    failures: str


_FIRST = """
name: first
source: {table: first}
schema: {columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]}
unit: add-remove
public: {expected_rows: 100}
synthesizers: [{method: gaussian, options: {workload: all-2way}}]
acceptance: {form: pass-only, epsilon: 1, criteria: [{name: cells, kind: max-marginal-error, threshold: 0.1}]}
selection: {rule: single}
budget: {total: {epsilon: 3}, model: {epsilon: 1}}
"""


def warm_up() -> None:
    """Load what the first design page would wait for: libraries, and loops that are compiled."""
    plan_release(Spec.parse(_FIRST))


def table_for(spec: Spec, chosen: str, rows: int | None, rehearsals: Rehearsals) -> Table:
    """Return the table that a design is rehearsed on: the one chosen, or else one like its source."""
    simulated = spec.source.simulated
    number = (
        rows
        or spec.row_count.value
        or spec.expected_rows
        or (None if simulated is None else simulated.rows)
        or _USUAL_ROWS
    )
    if not chosen:
        chosen = "made-up" if simulated is None else f"simulated:{simulated.table}"
    linked = spec.schema.entity is not None and spec.schema.entity.tables is not None
    return Table.parse(chosen, min(_MOST_ROWS, number), rehearsals.folder, linked=linked)


def consequences_of(
    spec: Spec, rehearsals: Rehearsals, plans: Plans, *, design: str, table: Table, link: str | None
) -> Consequences:
    """Compute what follows from a specification.

    Parameters
    ----------
    design
        Name of the design, whose plan is made in the background where it has very many columns.
    link
        Where a point of the frontier leads to, with ``{epsilon}`` in it; None for a page that stands alone: without links, and nothing is begun for it.
    """
    fixed = _fixed_of(spec)
    plan, planning = fixed.plan, State("done")
    if len(spec.schema.names) > MANY_COLUMNS:
        models, planning = plans.planned(design, spec, begin=link is not None)
        plan = plan if models is None else _with_models(plan, models)
    found = rehearsals.find(spec, table)
    thresholds = {item.name: item.threshold for item in spec.criteria}
    points = [] if found is None else [_judged(item, found, thresholds) for item in found.result["points"]]
    own = _own(spec)
    here = next(
        (
            item
            for item in points
            if own is not None and math.isclose(item["epsilon"] or 0, own, rel_tol=1e-9)
        ),
        None,
    )
    acceptance = Acceptance("none")
    if here is not None and found is not None:
        acceptance = Acceptance(
            "exact" if found.exact else "estimate",
            here["acceptance"],
            here["low"],
            here["high"],
            here["trials"],
        )
    key = rehearsals.key(spec, table)
    return Consequences(
        spec=spec,
        plan=plan,
        hash=fixed.hash,
        guarantee=plan.guarantee,
        odds=fixed.odds,
        curve=fixed.curve,
        budget=_bar(spec),
        split=plan.budget,
        criteria=_criteria(plan, here),
        model=_model(plan, planning),
        planning=planning,
        plan_key=plans.key(spec),
        noise=fixed.noise,
        rejection=_rejection(spec, acceptance),
        registry=_registry(own),
        acceptance=acceptance,
        table=table,
        table_words=table.describe(),
        state=rehearsals.state(key),
        key=key,
        frontier=frontier(points, own=own, link=link) if len(points) > 1 else "",
        points=points,
        errors=_errors(found),
        errors_note="" if found is None else str(found.result.get("errors", {}).get("note", "")),
        closest=", ".join(f"{name} ({times})" for name, times in (here or {}).get("closest", {}).items()),
        failures="; ".join((here or {}).get("failures", {})),
    )


@dataclass(frozen=True)
class _Fixed:
    """What follows from a specification alone, whatever was rehearsed."""

    hash: str
    plan: ReleasePlan
    odds: str
    curve: str
    noise: Sequence[tuple[str, str]]


_KNOWN: dict[str, _Fixed] = {}
_MOST_KNOWN = 64


def _fixed_of(spec: Spec) -> _Fixed:
    """Return what follows from a specification alone; it is computed once, unless files beside it have a say."""
    digest = specification_hash(spec)
    if digest in _KNOWN:
        return _KNOWN[digest]
    promise, steps = spec.shares.promise, spec.condition().steps
    known = best_profile([Bound(0.0, promise), *spec.shares.trade_off], steps=steps)
    made = _Fixed(
        digest,
        plan_release(spec, with_models=len(spec.schema.names) <= MANY_COLUMNS),
        ". ".join(filter(None, [odds(between(promise, steps), known), about_records(spec.unit).rstrip(".")])),
        trade_off(
            trade_off_curve(known),
            label="Best possible attack: true positives against false positives, and a coin toss",
        ),
        _noise(spec),
    )
    workloads = [str(item.options.get("workload", "")) for item in spec.configurations]
    if not any(text and len(text) < 200 and (spec.where / text).is_file() for text in set(workloads)):
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[digest] = made
    return made


def _noise(spec: Spec) -> list[tuple[str, str]]:
    """Return how many rows noise would move, by public facts alone, if every marginal of a size were measured with the model's budget."""
    schema = spec.schema_for(spec.configurations[0])
    rows = spec.row_count.value or spec.expected_rows
    if rows is None and spec.source.simulated is not None:
        rows = spec.source.simulated.rows
    rows = _USUAL_ROWS if rows is None else rows
    of = f"{rows:,} rows"
    if spec.two_levels:  # so many event records of each entity are counted
        of = f"the event records of {rows:,} entities"
        rows *= spec.unit.max_rows
    facts = Facts.of(replace(schema, row_count=rows), unit=spec.unit, budget=spec.shares.model)
    shares = (("columns", facts.column_noise), ("pairs", facts.pair_noise), ("triples", facts.triple_noise))
    return [
        (
            kind,
            f"{100 * share:.2g} % of {of}" if share < 1 else f"all of {of}: nothing would be left",
        )
        for kind, share in shares
    ]


def _with_models(plan: ReleasePlan, found: Mapping[str, Any]) -> ReleasePlan:
    """Return a plan with what was found about its models in the background."""
    return replace(
        plan,
        configurations=found["configurations"],
        left_out=tuple((name, why) for name, why in found["left_out"]),
        models=tuple(ModelPlan(**item | {"notes": tuple(item["notes"])}) for item in found["models"]),
        memory_megabytes=found["memory_megabytes"],
        seconds_per_attempt=found["seconds_per_attempt"],
        warnings=tuple(found["warnings"]),
    )


def _own(spec: Spec) -> float | None:
    found = spec.total.to_dict().get("epsilon")
    return None if found is None else float(found)


def _judged(point: Mapping[str, Any], found: Found, thresholds: Mapping[str, float]) -> dict[str, Any]:
    """Return a point of the frontier under the thresholds in question.

    For those that were rehearsed the probability of the test is known. For others the exact errors of the rehearsed candidates are compared with the
    new thresholds: the share of candidates that meet all of them, which leaves out the noise of the test.
    """
    trials = point["trials"]
    chance, (low, high) = float(point["acceptance"]), point["interval"]
    medians: dict[str, float] = {}
    for name in thresholds:
        errors = sorted(_error(trial["errors"], name) for trial in trials)
        if errors and math.isfinite(errors[len(errors) // 2]):
            medians[name] = errors[len(errors) // 2]
    if not found.exact:
        met = [float(not trial["failed"] and _meets(trial["errors"], thresholds)) for trial in trials]
        chance = sum(met) / len(met)
        low, high = mean_interval(met)
    return {
        "epsilon": point["epsilon"],
        "acceptance": chance,
        "low": low,
        "high": high,
        "trials": len(trials),
        "medians": medians,
        "closest": point["closest"],
        "failures": point["failures"],
    }


def _error(errors: Mapping[str, float | None], name: str) -> float:
    """Return the error of a candidate by one criterion; infinite where it was not judged by it."""
    found = errors.get(name)
    return math.inf if found is None else found


def _meets(errors: Mapping[str, float | None], thresholds: Mapping[str, float]) -> bool:
    """Say whether a candidate with some errors meets all thresholds."""
    return all(_error(errors, name) < limit for name, limit in thresholds.items())


def _criteria(plan: ReleasePlan, here: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Say of each criterion how its noise compares with its threshold, and what rehearsals found."""
    rows = []
    for item in plan.criteria:
        if item.form == "public":
            judged = "about the candidate alone: free and without noise"
        elif item.noise_dominated:
            judged = "the noise is too large for this threshold"
        elif item.accepted_below is not None:
            judged = f"a candidate with an error below {item.accepted_below:.3g} is nearly always accepted"
        else:
            judged = ""
        if item.needs and item.form != "public":
            needs = f"needs {item.needs}"
            if item.needs.startswith("depends"):
                needs = "how many records it needs depends on the table: rehearse it"
            judged += f"{'; ' if judged else ''}{needs}"
        noise = ""
        if item.noise_deviation is not None:
            noise = f"{item.noise_deviation:.3g}" + (
                " records" if item.form == "pass-only" else f" {item.unit}".rstrip()
            )
        error = (here or {}).get("medians", {}).get(item.name)
        rows.append(
            {
                "name": item.name,
                "type": f"{item.type}, {item.metric}",
                "threshold": f"{item.threshold:g} {item.unit}".rstrip(),
                "noise": noise,
                "judged": judged,
                "dominated": "yes" if item.noise_dominated else "",
                "error": "" if error is None else f"{error:.3g}",
            }
        )
    return rows


def method_in_words(model: ModelPlan) -> str:
    """Return a method with its options, or only its name where they are a page of their own."""
    name, _, options = model.name.partition(" ")
    return model.name if len(options) <= _SHORT else f"{name}, with the options that the file has"


_SHORT = 60


def _digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _model(plan: ReleasePlan, planning: State) -> str:
    if planning.kind in ("running", "waiting"):
        return f"The model is being planned in the background: with more than {MANY_COLUMNS} columns it takes a while. {planning.text if planning.kind == 'waiting' else ''}".strip()
    if planning.kind == "failed":
        return f"The model cannot be planned. {planning.text}"
    if planning.kind != "done":
        return "The model is not planned yet: open the design in the studio."
    if not plan.models:
        return "No configuration can be used: " + "; ".join(dict.fromkeys(why for _, why in plan.left_out))
    model = plan.models[0]
    parts = [f"{method_in_words(model)}: {model.marginals:,} marginals with {model.cells:,} cells"]
    if model.smallest_deviation is not None and model.largest_deviation is not None:
        parts.append(
            f"each count carries noise with a standard deviation of {_digits(model.smallest_deviation)}"
            + (
                ""
                if math.isclose(model.smallest_deviation, model.largest_deviation)
                else f" to {_digits(model.largest_deviation)}"
            )
            + " rows"
        )
    if model.expected_error is not None:
        parts.append(f"which moves about {100 * model.expected_error:.2g} % of the rows of a marginal")
    more = (
        f" ({plan.configurations} configurations in all; this is the first.)"
        if plan.configurations > 1
        else ""
    )
    return ", ".join(parts) + "." + more


_HARDLY = 0.005
"""An acceptance that is shown as 0 %."""


def _rejection(spec: Spec, acceptance: Acceptance) -> list[str]:
    """Say what a rejection costs, in sentences."""
    spent = spec.shares.promise.describe().partition(" (")[0]
    said = [
        f"A rejection publishes nothing and costs the same: {spent} of the table's budget is spent whether or not a candidate is accepted."
    ]
    attempts = spec.shares.attempts
    if acceptance.kind != "none" and acceptance.probability >= _HARDLY:
        chance = acceptance.probability
        if spec.shares.single:
            said.append(
                f"With an acceptance of {chance:.0%}, {1 - chance:.0%} of all releases end so: on average {1 / chance:.2g} times the budget is spent for one table "
                "that is published."
                if chance < 0.995
                else "In rehearsals hardly any release ended so."
            )
        else:
            said.append(
                f"Attempts go on inside one payment: about {attempts.expected(chance):.3g} of them at an acceptance of {chance:.0%}, and a table is published with "
                f"a chance of {attempts.success(chance):.0%}."
            )
    elif acceptance.kind != "none":
        said.append(
            "Hardly any rehearsed candidate would be accepted: as it stands the budget would be spent, and nothing published."
        )
    return said


def _registry(epsilon: float | None) -> str:
    begin = (
        f"How others chose: {REGISTRY_STATED} of {_REGISTRY_ENTRIES} entries in the public registry state an epsilon, from 0.01 to 34.9, with a median of "
        f"{REGISTRY_MEDIAN} ({_REGISTRY}). These are figures as stated by or about those who deployed, all of them drafts or pending review; they were not "
        "checked, and units, periods and deltas differ. So it is a landmark and no rule."
    )
    if epsilon is None:
        return begin
    where = "below" if epsilon < REGISTRY_MEDIAN else "above" if epsilon > REGISTRY_MEDIAN else "at"
    return f"{begin} This design, with {epsilon:g}, is {where} it."


def _bar(spec: Spec) -> str:
    """Draw how the total is divided; parts of another kind than the total are left to words."""
    shares = spec.shares
    total = shares.total
    if not isinstance(total, PureDP | ApproxDP):
        return ""
    rule = (
        1.0
        if shares.single
        else (shares.selection.epsilon / _attempt(shares.attempt) if shares.selection is not None else 1.0)
    )
    model = getattr(shares.model, "epsilon", None)
    if model is None:
        return ""
    parts = [
        Share("the model", rule * model),
        Share("acceptance test", rule * shares.judging),
        Share("number of rows", shares.rows),
        Share("private regressions", math.fsum(shares.baselines)),
    ]
    return budget_bar([item for item in parts if item.value > 0], total=total.epsilon, symbol="epsilon")


def _attempt(budget: Any) -> float:
    return float(getattr(budget, "epsilon", 0.0)) or math.inf


def _errors(found: Found | None) -> list[tuple[str, str, str]]:
    rows = []
    for kind in ("columns", "pairs", "triples"):
        item = None if found is None else found.result.get("errors", {}).get(kind)
        if item:
            cell = item.get("cell")
            rows.append(
                (
                    kind,
                    f"{100 * item['middle']:.2g} % ({100 * item['low']:.2g} to {100 * item['high']:.2g} %)",
                    "no cell" if cell is None else f"cells of {cell:,} rows and more",
                )
            )
    return rows


def frontier(points: Sequence[Mapping[str, Any]], *, own: float | None, link: str | None) -> str:
    """Draw the probability of acceptance against the total epsilon; every point can be chosen.

    Examples
    --------
    >>> points = [{"epsilon": e, "acceptance": a, "low": a / 2, "high": 1.0} for e, a in ((0.5, 0.1), (1.0, 0.8))]
    >>> picture = frontier(points, own=1.0, link="/designs/a?epsilon={epsilon}")
    >>> picture.startswith("<svg"), picture.count("<a ")
    (True, 2)
    """
    width, height, left, top, right, bottom = 520.0, 280.0, 56.0, 16.0, 24.0, 52.0
    shown = [item for item in points if item["epsilon"]]
    low, high = (math.log(edge(item["epsilon"] for item in shown)) for edge in (min, max))
    span = max(high - low, 1e-9)

    def across(epsilon: float) -> float:
        return left + (width - left - right) * (math.log(epsilon) - low) / span

    def up(share: float) -> float:
        return top + (height - top - bottom) * (1 - share)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="group" '
        'aria-label="Probability of acceptance by total epsilon" font-size="12" fill="currentColor">'
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            f'<path d="M{left} {up(tick):.1f}H{width - right}" stroke="currentColor" stroke-opacity=".15"/>'
            f'<text x="{left - 8}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:.0%}</text>'
        )
    line = " ".join(f"{across(item['epsilon']):.1f},{up(item['acceptance']):.1f}" for item in shown)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#0b6e99" stroke-width="2"/>')
    for item in shown:
        x, y = across(item["epsilon"]), up(item["acceptance"])
        mine = own is not None and math.isclose(item["epsilon"], own, rel_tol=1e-9)
        text = f"epsilon {item['epsilon']:g}: accepted with {item['acceptance']:.0%} ({item['low']:.0%} to {item['high']:.0%})"
        dot = (
            f'<path d="M{x:.1f} {up(item["low"]):.1f}V{up(item["high"]):.1f}" stroke="#0b6e99" stroke-opacity=".6" stroke-width="2"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{9 if mine else 7}" fill="{"#c4622d" if mine else "#0b6e99"}"><title>{escape(text)}</title></circle>'
        )
        if link is not None:
            address = escape(link.format(epsilon=f"{item['epsilon']:g}"))
            dot = f'<a href="{address}" aria-label="{escape(text)}; show this total">{dot}</a>'
        parts.append(dot)
        parts.append(
            f'<text x="{x:.1f}" y="{height - bottom + 18:.1f}" text-anchor="middle">{item["epsilon"]:g}</text>'
        )
    parts.append(
        f'<text x="{(left + width - right) / 2:.1f}" y="{height - 12}" text-anchor="middle">total epsilon</text>'
        f'<text x="14" y="{(height - bottom) / 2:.1f}" text-anchor="middle" transform="rotate(-90 14 {(height - bottom) / 2:.1f})">accepted</text></svg>'
    )
    return "".join(parts)
