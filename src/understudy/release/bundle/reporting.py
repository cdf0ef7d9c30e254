"""The content of a release report, from a published bundle alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data import read_frame
from understudy.errors import BundleError, NoSuchGuarantee, UnderstudyError
from understudy.inference.people import RowsPerPerson
from understudy.mechanisms import Model
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, Unit, budget_from_dict, group_privacy
from understudy.privacy.accounting.accounting import ACCOUNTINGS
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.privacy.guarantee import ALSO_MEASURED
from understudy.release.bundle.readings import criterion_figures, figures, limits
from understudy.release.selection.profiles import BestProfile, Bound, Profile, best_profile
from understudy.report import ENGLISH, ReportContent, Share, Whiskers
from understudy.schema import Clique, Codes, Schema
from understudy.schema.entities import Entity

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "about_records",
    "at_least",
    "between",
    "bundle_report",
    "counts_by_level",
    "criterion_groups",
    "epsilon_delta",
    "fixed",
    "known_profile",
    "odds_limit",
    "posterior_range",
    "shown_labels",
    "trade_off_curve",
    "usual_limit",
]

_PRIORS = (0.01, 0.1, 0.5, 0.9)
_MOST_BOUNDS = 300
_MOST_PAIRS = 6
RARE_CONFIDENCE = 0.95
"""With which the bound of any one rare value holds."""
_PARTS = {
    "rows": "number of rows",
    "people": "people by their number of rows",
    "model": "the model",
    "judgement": "acceptance test",
    "selection": "private selection: model and acceptance",
    "baseline": "private regression",
}
"""Words for the parts of a release, by the place their charges name."""

_ACCUSED = 0.01
"""The first screen says who can be recognised if so many others are accused wrongly."""

_SELDOM = 0.05
"""What "usually" leaves out."""

_MANY = 1000.0
"""A chance of so many times delta is still worth naming for the epsilon of the promise."""

_NOTHING = 1e6
"""An epsilon that promises nothing."""

_SMALL_DELTA = 1e-9
"""Budgets without a delta of their own are told at this one."""


def bundle_report(folder: Path, *, schema: Schema | None = None, model: Model | None = None) -> ReportContent:
    """Read a bundle and return what its report shows; schema and model of it are read unless they are at hand.

    Privacy
    -------
    In: a published bundle. Out: published. No other file is read.

    Raises
    ------
    BundleError
        If a document of the bundle does not hold what it should.
    """
    try:
        return _read(Path(folder), schema, model)
    except UnderstudyError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise BundleError(
            f"The bundle {str(folder)!r} cannot be interpreted: {type(error).__name__}."
        ) from None


def _read(folder: Path, schema: Schema | None, model: Model | None) -> ReportContent:
    try:
        certificate: dict[str, Any] = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
        spec: dict[str, Any] = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
        configuration: dict[str, Any] = json.loads(
            (folder / "configuration.json").read_text(encoding="utf-8")
        )
    except (OSError, ValueError) as error:
        raise BundleError(f"{str(folder)!r} is not a bundle: {type(error).__name__}.") from None
    schema = Schema.read(folder / "schema.yaml") if schema is None else schema
    frame = read_frame(folder / "data.csv")
    codes = schema.encode_frame(frame)
    if model is None and (folder / "model.understudy").exists():
        model = Model.load(folder / "model.understudy")
    if model is not None and model.schema.events_of is not None:
        model = None  # it speaks of event records, and the rows are events
    modelled = _as_modelled(schema, codes, model)
    promised = certificate["guarantee"]
    budget = budget_from_dict(promised["budget"])
    total = budget_from_dict(promised.get("total") or promised["budget"])
    known, steps = known_profile(promised)
    epsilon, exceeded = odds_limit(between(budget, steps), known)
    usual = usual_limit(known, epsilon, exceeded)
    accounting = ACCOUNTINGS[promised["accounting"]]
    acceptance = certificate["acceptance"] or {}
    slack = None
    if acceptance.get("form") == "pass-only" and acceptance.get("noise_scale") is not None:
        slack = (
            f"{acceptance['noise_scale']:.3g}",
            f"{acceptance['slack_threshold']:.3g}",
            f"{acceptance['false_accept']:.0%}",
        )
    lost = certificate.get("rows_lost")
    unit = Unit.from_dict(promised["unit"])
    entity = schema.entity if of_entities(schema, unit) else None
    linked = {} if entity is None else _entities(folder, entity)
    cut = about_rows(schema, unit)
    shown = figures(*modelled, model, spec)
    rare, bounds_found = rare_values(model), _bounds(*modelled, model)
    return ReportContent(
        title=str(spec.get("title") or certificate["name"]),
        description=str(spec.get("description") or "").strip(),
        rows=int(certificate["rows"]),
        columns=len(schema.names),
        guarantee=_signs(budget),
        kind=budget.describe().partition(" (")[2].rstrip(")"),
        unit=str(promised["neighbours"]),
        protected=_protected(schema, unit),
        tables={str(name): int(rows) for name, rows in (certificate.get("tables") or {}).items()},
        looks=sum(entry["event"] is not None for entry in certificate["ledger"]["entries"]),
        table_total=""
        if not promised.get("table_total")
        else _signs(budget_from_dict(promised["table_total"])),
        other_ledgers=bool(promised.get("other_ledgers")),
        series=""
        if not certificate.get("series")
        else _signs(budget_from_dict(certificate["series"]["composed"])),
        figures=shown
        or criterion_figures(
            certificate["criteria"],
            3,
            spec=spec,
            groups={
                str(item["name"]): criterion_groups(spec, str(item["name"]))
                for item in certificate["criteria"]
            },
            schema=schema,
            rows=frame,
            tables=linked,
            entity=entity,
        ),
        limits=limits(
            bounds=[(clique, bound / 2) for clique, _, bound in bounds_found],
            rare=rare,
            model=model,
            cut=cut if entity is None else _beyond_steps(schema),
            cleaned=len(spec.get("cleaning") or ()),
        ),
        cut=[
            text for text in (cut, "" if lost is None else RowsPerPerson.from_dict(lost).describe()) if text
        ],
        by_record=unit.id_column is None,
        attempts=(spec.get("selection") or {}).get("rule", "single") != "single",
        recognised=float(known.largest(np.array([_ACCUSED]))[0]),
        certainty="" if not exceeded else at_least(1 - exceeded).replace(" %", "%"),
        allowed="" if total == budget else _signs(total),
        right_guess=known.right_guess(),
        odds=[
            (prior, *posterior_range(prior, epsilon), posterior_range(prior, usual)[1]) for prior in _PRIORS
        ],
        curve=trade_off_curve(known),
        condition=str(promised.get("condition", "")),
        public_facts=_facts(certificate["public_facts"]),
        shares=_shares(certificate["ledger"]["entries"], accounting.name),
        total=accounting.total(total),
        accounting=accounting.name,
        symbol=accounting.symbol,
        criteria=[
            _criterion(item, criterion_groups(spec, str(item["name"]))) for item in certificate["criteria"]
        ],
        slack=slack,
        panels=_panels(*modelled, model)
        if entity is None
        else [Whiskers.of_counts(*item) for item in counts_by_level(schema, frame, linked)],
        pairs=_pairs(*modelled, model),
        bounds=[
            [", ".join(clique), kind, f"{bound / 2:.1%}", f"{bound:.4f}"]
            for clique, kind, bound in bounds_found
        ],
        entity="" if entity is None else entity.id,
        process=_process(certificate, configuration),
        dictionary=[
            [c.name, c.kind, shown_labels(c.finest.labels), c.unit or "", c.description or ""]
            for c in schema.columns
        ],
        rare=[
            [column, value, rare_words(most)]
            for column, values in rare.items()
            for value, most in values.items()
        ],
        files=[[name, words] for name, words in listed_files(folder, schema, unit)],
    )


def about_rows(schema: Schema, unit: Unit) -> str:
    """Say what becomes of people with several rows, in a release of rows or of entities with their events; empty where every row is its own unit."""
    if schema.entity is not None and of_entities(schema, unit):
        return schema.entity.describe_counting(unit.max_rows)
    return unit.describe_cut()


def _beyond_steps(schema: Schema) -> str:
    """Say what a table of entities with their events cannot tell about histories."""
    assert schema.entity is not None
    return f"What spans three rows of one {schema.entity.id} or more: each row was measured alone and with the one before, and a whole history follows from these steps."


def about_records(unit: Unit) -> str:
    """Say what a promise about single records means for whoever has several of them; empty where it is about persons.

    Examples
    --------
    >>> about_records(Unit.add_remove_person("patient", max_rows=3))
    ''
    """
    return ENGLISH["meaning_record"] if unit.id_column is None else ""


def rare_values(model: Model | None) -> dict[str, dict[str, int]]:
    """Return, by column, the values that cannot be told from values without any row, and how many rows they have at most.

    Computed from the noisy measurements of a published model; none where no model is published or it gives no intervals.

    Privacy
    -------
    In: a model that is published in the same bundle. Out: published; nothing but arithmetic on it.
    """
    found: dict[str, dict[str, int]] = {}
    if model is None or not model.measurements or model.schema.events_of is not None:
        return found
    table = model.unresolved(confidence=RARE_CONFIDENCE, numbers=False)
    for column, value, most in zip(table["column"], table["value"], table["at_most"], strict=True):
        if math.isfinite(most):
            found.setdefault(str(column), {})[str(value)] = math.ceil(most)
    return found


def rare_words(most: int) -> str:
    """Say what a bound on a rare value means.

    Examples
    --------
    >>> rare_words(31)
    'between 0 and 31 of the real rows that were counted: do not read this as a fact'
    """
    return f"between 0 and {most:,} of the real rows that were counted: do not read this as a fact"


def between(budget: Budget, steps: int) -> Budget:
    """Return the promise about two tables that lie so many neighbouring steps apart.

    Where a number of rows is public that neighbours differ in, two tables that agree on it and differ in one unit are two
    steps apart.
    """
    try:
        return budget if steps == 1 else group_privacy(budget, steps)
    except NoSuchGuarantee:
        return PureDP(_NOTHING)


def known_profile(promised: Mapping[str, Any]) -> tuple[BestProfile, int]:
    """Return everything that a certificate's guarantee says about how well two tables can be told apart, and how many steps apart they are."""
    steps = _steps(promised)
    bounds = [
        Bound(0.0, budget_from_dict(promised["budget"])),
        *map(Bound.from_dict, promised.get("trade_off", ())),
    ]
    return best_profile(bounds, steps=steps), steps


def _steps(promised: Mapping[str, Any]) -> int:
    """Return how many steps that is; bundles of version 0.1 say only whether there is a condition."""
    adds = Unit.from_dict(promised["unit"]).relation == "add-remove"
    return int(promised.get("steps", 2 if promised.get("condition") and adds else 1))


def fixed(condition: str) -> str:
    """Say when the specification of a release was fixed, by the condition of its promise: facts of the schema may have been measured before.

    Examples
    --------
    >>> fixed("")
    'was fixed before any record was read for this release'
    """
    words = "was fixed before any record was read for this release"
    return (
        f"{words}, but for facts of the schema that were measured before, at the cost of the same ledger"
        if ALSO_MEASURED in condition
        else words
    )


def epsilon_delta(budget: Budget) -> tuple[float, float]:
    """Return an (epsilon, delta) statement of any budget."""
    if isinstance(budget, PureDP):
        return budget.epsilon, 0.0
    if isinstance(budget, ApproxDP):
        return budget.epsilon, budget.delta
    if isinstance(budget, ZCDP):
        return zcdp_to_approx(budget.rho, _SMALL_DELTA), _SMALL_DELTA
    assert isinstance(budget, GDP)
    return gdp_to_approx(budget.mu, _SMALL_DELTA), _SMALL_DELTA


def odds_limit(budget: Budget, known: BestProfile) -> tuple[float, float]:
    """Return how far a single outcome moves the odds at most, as an epsilon, and the chance that it moves them further.

    That of the promise, or a hair more: ``(epsilon, delta)`` alone says nothing about the chance that ``epsilon`` itself is exceeded, but does
    about everything beyond it.
    """
    epsilon, delta = epsilon_delta(budget)
    for more in (0.0, 0.01, 0.02, 0.05, 0.1):
        exceeded = known.exceeded(epsilon * (1 + more))
        if exceeded <= _MANY * delta:
            break
    return epsilon * (1 + more), exceeded


def usual_limit(known: BestProfile, epsilon: float, exceeded: float) -> float:
    """Return how far an outcome moves the odds in 95 of 100 cases, as an epsilon, knowing how often another one is exceeded.

    Examples
    --------
    >>> known = best_profile([Bound(0.0, ApproxDP(1.0, 0.02))])
    >>> known.exceeded(usual_limit(known, 1.1, known.exceeded(1.1))) <= 0.05 < known.exceeded(1.1)
    True
    """
    usual = known.moved(_SELDOM)
    return min(epsilon, usual) if exceeded <= _SELDOM else usual


def posterior_range(prior: float, epsilon: float) -> tuple[float, float]:
    """Return the least and most an attacker's confidence can be afterwards: odds move by at most ``e^epsilon``.

    Examples
    --------
    >>> posterior_range(0.5, math.log(3))
    (0.25, 0.75)
    """
    odds = prior / (1 - prior)
    factor = math.exp(min(epsilon, 700.0))
    low, high = odds / factor, odds * factor
    return round(low / (1 + low), 12), round(high / (1 + high), 12)


def trade_off_curve(known: Profile, points: int = 101) -> list[tuple[float, float]]:
    """Return the largest true-positive rate of any test at each false-positive rate.

    ``(epsilon, delta)`` allows ``min(1, e^epsilon f + delta, 1 - e^-epsilon (1 - delta - f))``; a Gaussian
    guarantee ``Phi(Phi^-1(f) + mu)``; a concentrated one the least over its ``(epsilon, delta)`` statements.
    """
    false = np.linspace(0.0, 1.0, points)
    return list(zip(false.tolist(), np.clip(known.largest(false), 0.0, 1.0).tolist(), strict=True))


def at_least(share: float) -> str:
    """Write a probability below 1 in per cent, rounded down, with two digits of what is missing.

    Examples
    --------
    >>> at_least(1 - 3.3e-8), at_least(0.95), at_least(0.1234), at_least(1 - 1e-18)
    ('99.9999967 %', '95 %', '12.3 %', '99.9999999999 %')
    """
    missing = max(1 - share, 1e-12)
    share = 1 - missing
    decimals = max(1, min(10, 1 - math.floor(math.log10(missing)) - 2))
    scale = 10**decimals
    return (
        f"{math.floor(100 * share * scale * (1 + 1e-15)) / scale:.{decimals}f}".rstrip("0").rstrip(".") + " %"
    )


def _facts(facts: Mapping[str, Any]) -> list[str]:
    told = []
    for name, fact in facts.items():
        if fact:
            words = "; ".join(map(str, fact)) if isinstance(fact, list) else str(fact)
            told.append(f"{name}: {words}")
    return told


def _shares(entries: Sequence[Mapping[str, Any]], accounting: str) -> list[Share]:
    """Add up the charges by the part of the release they belong to."""
    sums: dict[str, float] = {}
    for entry in entries:
        if entry["event"] is not None:
            place = str(entry["scope"]).split("/")[1:]
            part = _PARTS.get(place[0].split()[0], place[0]) if place else str(entry["purpose"])
            sums[part] = sums.get(part, 0.0) + float(entry["costs"].get(accounting, 0.0))
    return [Share(name, value) for name, value in sums.items()]


def _signs(budget: Budget) -> str:
    """Return a budget in a few signs, such as ``epsilon=1``."""
    return budget.describe().partition(" (")[0]


def of_entities(schema: Schema, unit: Unit) -> bool:
    """Say whether a release is of entities with their events, whose unit is an entity with all its rows."""
    return schema.entity is not None and schema.entity.id == unit.id_column


def _protected(schema: Schema, unit: Unit) -> str:
    """Say in a few words who is protected."""
    if unit.id_column is None:
        return "each record"
    if of_entities(schema, unit):
        return f"each {unit.id_column}, with all rows"
    rows = "one row" if unit.max_rows == 1 else f"up to {unit.max_rows} rows"
    return f"each person, with {rows}"


def criterion_groups(spec: Mapping[str, Any], name: str) -> str:
    """Return the groups of a criterion as its author wrote them; empty where it has none."""
    for item in spec.get("acceptance", {}).get("criteria", ()):
        if item.get("name") == name:
            return "; ".join(map(_group_words, item.get("by") or ()))
    return ""


def _group_words(by: Any) -> str:
    """Return one grouping in the words of the specification.

    Examples
    --------
    >>> _group_words("everyone"), _group_words({"column": "age", "bins": ["<=24", "24<"]})
    ('everyone', 'age: <=24, 24<')
    >>> _group_words({"column": "ward", "groups": [["day"], ["general", "intensive"]]})
    'ward: day, general or intensive'
    """
    if not isinstance(by, Mapping):
        return str(by)
    bins, groups = by.get("bins"), by.get("groups")
    parts = [" or ".join(map(str, labels)) for labels in groups] if groups else bins
    listed = ", ".join(map(str, parts)) if isinstance(parts, list) else str(parts or "")
    return f"{by.get('column')}: {listed}" if listed else str(by.get("column"))


def _criterion(item: Mapping[str, Any], groups: str) -> list[str]:
    """Return a criterion by the name its author gave it, with units on all that has one."""
    unit = f" {item['unit']}" if item["unit"] else ""
    value = item["value"]
    result = f"{value:.4g}{unit}" if value is not None else ("met" if item["passed"] else "")
    deviation = item["noise_deviation"]
    noise = (
        "" if deviation is None else f"{deviation:.3g}{' records' if item['form'] == 'pass-only' else unit}"
    )
    compared = f"{item['type']}: {item['metric']}" + (f" (in groups: {groups})" if groups else "")
    return [
        str(item["name"]),
        compared,
        f"{item['threshold']:g}{unit}",
        result,
        f"{item['mechanism']}, {noise}" if noise else str(item["mechanism"]),
    ]


def _as_modelled(
    schema: Schema, codes: Mapping[str, Codes], model: Model | None
) -> tuple[Schema, Mapping[str, Codes]]:
    """Return the rows in the groups that the model has of columns with levels, so that both can be shown together."""
    if model is None or model.schema.as_read() is model.schema:
        return schema, codes
    regrouped = dict(codes)
    for column in model.schema.columns:
        if column.groups is not None and schema.column(column.name).size != column.size:
            extras = column.value_count + np.arange(column.size - column.value_count)
            regrouped[column.name] = np.append(column.groups, extras)[codes[column.name]].astype(column.dtype)
    return model.schema, regrouped


def _panels(schema: Schema, codes: Mapping[str, Codes], model: Model | None) -> list[Whiskers]:
    """Return every column, with the least noisy measurement that shows it."""
    panels = []
    for column in schema.columns:
        title, counts = column.name, np.bincount(codes[column.name], minlength=column.size)
        if model is None:
            panels.append(Whiskers.of_counts(title, column.labels, counts))
        else:
            measured = model.measured_column(title)
            panels.append(Whiskers.of_counts(title, column.labels, counts, measured, total=model.total))
    return panels


def _entities(folder: Path, entity: Entity) -> dict[str, pd.DataFrame]:
    """Return the published table of entities by its name; nothing where there is none."""
    name = "" if entity.tables is None else entity.tables[0]
    place = folder / "tables" / f"{name}.csv"
    return {name: read_frame(place)} if name and place.exists() else {}


def counts_by_level(
    schema: Schema, rows: pd.DataFrame, tables: Mapping[str, pd.DataFrame]
) -> list[tuple[str, Sequence[str], npt.NDArray[np.int64]]]:
    """Return the counts of every column, and of the number of events: of entities what is fixed about them, of events the rest, as each title says.

    Privacy
    -------
    In: the rows of a release of entities with their events, and its linked tables if it has any. Out: published; nothing but counts of them.
    """
    entity = schema.entity
    assert entity is not None
    linked = entity.tables is not None
    key = (entity.reference or entity.id) if linked else entity.id
    sizes = rows[key].value_counts()
    if entity.tables is not None and entity.tables[0] in tables:
        people, own = tables[entity.tables[0]], entity.id
    else:
        people, own = rows.drop_duplicates(key), key
    once, each = entity.tables or (f"each {entity.id} once", "all rows")
    number = entity.count or f"number of {each if linked else 'rows'}"
    events = people[own].map(sizes).fillna(0).to_numpy(dtype=np.int64)
    bins = np.searchsorted(np.asarray(entity.bins), events, side="right") - 1
    found: list[tuple[str, Sequence[str], npt.NDArray[np.int64]]] = [
        (f"{number} ({once})", entity.bin_labels, np.bincount(bins, minlength=len(entity.bin_labels)))
    ]
    fixed = replace(schema.select(entity.fixed), entity=None) if entity.fixed else None
    known = {} if fixed is None else fixed.encode_frame(people)
    codes = schema.encode_frame(rows)
    for column in schema.columns:
        held, what = (known, once) if column.name in known else (codes, each)
        counts = np.bincount(held[column.name], minlength=column.size)
        found.append((f"{column.name} ({what})", column.labels, counts))
    return found


def _pairs(
    schema: Schema, codes: Mapping[str, Codes], model: Model | None
) -> list[tuple[str, tuple[str, ...], tuple[str, ...], list[list[float]]]]:
    """Return the measured pairs that are small enough to look at, least noisy first."""
    found = []
    for item in () if model is None else model.measurements:
        if len(item.clique) != 2 or max(item.values.shape) > 40:
            continue
        x, y = item.clique
        counts = np.zeros(item.values.shape)
        np.add.at(counts, (codes[x], codes[y]), 1)
        total = model.total if model is not None else 1.0
        difference = counts * (total / max(1, len(codes[x]))) - item.values
        found.append((item.stddev, x, y, difference / item.stddev))
    found.sort(key=lambda entry: entry[0])
    return [
        (f"{x} × {y}", schema.column(x).labels, schema.column(y).labels, values.tolist())
        for _, x, y, values in found[:_MOST_PAIRS]
    ]


def _bounds(
    schema: Schema, codes: Mapping[str, Codes], model: Model | None
) -> list[tuple[Clique, str, float]]:
    """Return error bounds of single columns and pairs, where the model gives any, the largest first."""
    if model is None or not model.measurements:
        return []
    cliques: list[Clique] = [(name,) for name in schema.names]
    cliques += list(combinations(schema.names, 2))[: _MOST_BOUNDS - len(cliques)]
    try:
        table = model.uncertainty.error_bounds(cliques, codes=codes)
    except UnderstudyError:
        return []
    rows = zip(table["clique"], table["kind"], table["bound"], strict=True)
    known = [(clique, str(kind), float(bound)) for clique, kind, bound in rows if math.isfinite(bound)]
    return sorted(known, key=lambda row: (-row[2], row[0]))


def _process(certificate: Mapping[str, Any], configuration: Mapping[str, Any]) -> list[list[str]]:
    promised, ledger = certificate["guarantee"], certificate["ledger"]
    charges = sum(entry["event"] is not None for entry in ledger["entries"])
    return [
        ["method", str(configuration["name"])],
        ["selection", f"{promised['selection']} ({promised['argument']})"],
        ["guarantee", str(promised["words"])],
        ["ledger", f"{charges} charges to ledger {ledger['id']} of the table {ledger['table']!r}"],
        ["software", str(certificate["software"])],
        ["dates", f"{certificate['started']} to {certificate['finished']}"],
        ["specification", f"fingerprint {certificate['spec_fingerprint']}"],
    ]


def shown_labels(labels: Sequence[str]) -> str:
    """Return the values a column can take as words; long lists are cut in the middle."""
    if len(labels) <= 12:
        return ", ".join(labels)
    return f"{', '.join(labels[:5])}, ... {', '.join(labels[-3:])} ({len(labels)} values)"


def listed_files(folder: Path, schema: Schema, unit: Unit) -> list[tuple[str, str]]:
    """Return the files of a bundle and what each holds; the report and the manifest, which are written last, among them."""
    from understudy.release.bundle.bundle import MANIFEST, TABLE_FILE, described_files

    linked = [(path.relative_to(folder).as_posix(), TABLE_FILE) for path in sorted(folder.glob("tables/*"))]
    return [
        *(
            (name, words)
            for name, words in described_files(schema, unit, linked=bool(linked)).items()
            if (folder / name).exists() or name in ("report.html", MANIFEST)
        ),
        *linked,
    ]
