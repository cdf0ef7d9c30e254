"""Which marginals of event records matter, and which mechanisms can be used for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

from understudy.engine import model_size
from understudy.errors import UnusableMethod
from understudy.marginals import Workload
from understudy.mechanisms.base import Synthesizer
from understudy.mechanisms.rules import structural_rules
from understudy.schema import Clique, Schema
from understudy.schema.entities import EventColumns

CONDITIONAL = ("aim", "mst", "mwem-pgm", "independent", "gaussian", "hdmm-pgm", "privmrf")
"""Mechanisms whose models can be asked under a condition, exactly: those of graphical models."""

_MODEL_MB, _WIDE_MODEL_MB, _WIDE = 10.0, 2.0, 10
"""Model size of AIM, and that for more columns: the work of drawing an event given the one before grows with it."""
_NUMBER_SHARE, _FIRST_SHARE, _MOST_SHARE = 0.01, 0.336, 0.05
"""Of the budget, for the number of events of an entity; for the number with each small column, together; and the most for one of these. An error in them is multiplied by the number."""
_RATES_SHARE, _MOST_RATE, _MOST_RATES = 0.144, 0.025, 24
"""Of the budget, for columns of events of two values with each small column, in first and in later events, together; the most for one of these; and how many of them are worth it: rates by group."""
_RATES_MB = 0.1
"""Part of the size of a model that these may take."""
_EACH_SHARE = 0.01
"""Of the budget, for entities by their exact number of events: an entity counts once there, so that a hundredth tells every number within a few entities."""
_SMALL = 16
"""Most values of a column that is measured with the number of events before anything else."""
_CROSS_LINKS = 12
"""Most linked columns for which the row before is compared in other columns than the one itself."""


def require_conditional(synthesizer: Synthesizer) -> None:
    """Refuse a mechanism whose models cannot draw an event given the one before."""
    if synthesizer.name not in CONDITIONAL or getattr(synthesizer, "estimation", "graphical") != "graphical":
        raise UnusableMethod(
            f"{synthesizer.name} cannot fit people with several rows: the next row is drawn given the one before, and its models cannot be asked "
            f"that. Use one of {', '.join(CONDITIONAL)}, or fit the rows without their order and number (--flat, flat=True)."
        )


def event_mechanism(
    method: str,
    schema: Schema,
    workload: Workload | None,
    options: dict[str, Any],
    *,
    numbers: Sequence[str] = (),
) -> Synthesizer:
    """Return a mechanism for the event records of a table, with the marginals that matter of them.

    Parameters
    ----------
    schema
        Of the event records.
    workload
        Marginals of the table that its owner asks for, or None.
    numbers
        Fixed columns that hold numbers of events in other tables: the number in this one goes with each of them.
    """
    from understudy.mechanisms.registry import create
    from understudy.mechanisms.registry import method as method_named

    given = dict(options)
    if method_named(method).takes_workload:
        given["workload"] = event_workload(schema, workload)
    if method == "aim":
        assert schema.events_of is not None
        wide = len(EventColumns.of(schema.events_of).events) > _WIDE
        given.setdefault("max_model_mb", _WIDE_MODEL_MB if wide else _MODEL_MB)
        given.setdefault("first", first_marginals(schema, numbers, max_model_mb=given["max_model_mb"]))
        assert schema.events_of.entity is not None
        bins = schema.events_of.entity.bins
        if any(high - low > 1 for low, high in pairwise(bins)):
            given.setdefault("numbers", _EACH_SHARE)
    made = create(method, **given)
    require_conditional(made)
    return made


def first_marginals(
    schema: Schema, numbers: Sequence[str] = (), *, max_model_mb: float = _MODEL_MB
) -> tuple[tuple[Clique, float], ...]:
    """Return the marginals of event records that come before all others, each with its share of the budget: the number of events, the number with each column of few values, and rates by group.

    Few entities have many events, and noise on how many of a group do is multiplied by these events: at the price of an ordinary round it is the largest part of the error of rates
    by group. The next is that of the rates themselves, columns of events of two values with each of the others: rounds look for what is wrong in many cells, and these have few. They are measured
    apart for first and for later events, because entities with many events have mostly later ones: how a group differs need not be the same among them. They are left
    to the rounds where there are more than a few of them, or where the model would become large. Wider columns, and whatever else matters, are left to the rounds.

    Parameters
    ----------
    schema
        Of the event records.
    numbers
        Fixed columns that hold numbers of events in other tables: these come first whatever their size.
    max_model_mb
        How large the model may become.

    Examples
    --------
    >>> from understudy.schema.entities import event_schema
    >>> stays = Schema.parse("columns: [{name: sex, kind: boolean}, {name: died, kind: boolean}]\\nentity: {id: patient, fixed: [sex]}")
    >>> first_marginals(event_schema(stays))
    ((('number_of_events',), 0.01), (('sex', 'number_of_events'), 0.05), (('died', 'number_of_events'), 0.05), (('sex', 'died', 'place_of_event'), 0.025))
    """
    assert schema.events_of is not None
    parts, domain = EventColumns.of(schema.events_of), schema.domain
    own = [name for name in (*parts.fixed, *parts.events) if name not in numbers]
    small = [*numbers, *(name for name in own if domain.size(name) <= _SMALL)]
    if not small:
        return (((parts.number,), _NUMBER_SHARE),)
    share = min(_MOST_SHARE, _FIRST_SHARE / len(small))
    pairs = [domain.canonical((parts.number, name)) for name in small]
    outcomes = [
        name for name in small if name in parts.events and schema.events_of.column(name).value_count == 2
    ]
    rates = list(
        dict.fromkeys(domain.canonical((a, b, parts.place)) for a in outcomes for b in small if a != b)
    )
    held = [*pairs, *rates, *(rule.columns for rule in structural_rules(schema))]
    if len(rates) > _MOST_RATES or model_size(domain, held) > _RATES_MB * max_model_mb:
        rates = []
    each = min(_MOST_RATE, _RATES_SHARE / max(1, len(rates)))
    return (
        ((parts.number,), _NUMBER_SHARE),
        *((pair, share) for pair in pairs),
        *((table, each) for table in rates),
    )


def event_workload(schema: Schema, asked: Workload | None = None) -> Workload:
    """Return the marginals of event records that a fit of two levels should keep.

    Parameters
    ----------
    schema
        Of the event records.
    asked
        Marginals of columns of the table that its owner asks for; by default all pairs.

    The number of events goes with everything, since rows are drawn given it; an event with the one before, column by column; and what is known of the
    event before with the number and the fixed columns, because drawing repeats the step from one event to the next and would drift where the two do not agree.
    """
    assert schema.events_of is not None
    parts, domain = EventColumns.of(schema.events_of), schema.domain
    weights: dict[Clique, float] = {}

    def want(weight: float, *names: str) -> None:
        clique = domain.canonical(names)
        weights[clique] = weights.get(clique, 0.0) + weight

    if asked is None:
        for pair in combinations((*parts.fixed, *parts.events), 2):
            want(1.0, *pair)
    else:
        for clique, weight in asked:
            want(weight, *clique)
    for name in (*parts.fixed, *parts.events):
        want(2.0, parts.number, name)
    for item in schema.events_of.entity.summaries if schema.events_of.entity is not None else ():
        want(2.0, parts.number, item.name, item.of)  # how it comes about
    for name in parts.events:
        want(0.5, parts.place, name)
    for name, before in parts.before.items():
        want(2.0, before, name)
        want(1.0, parts.number, before)
        if parts.order is not None and schema.column(parts.order).kind == "ordinal" and name != parts.order:
            want(2.0, before, name, parts.order)  # what a member is decides how it goes with the one before
        for other in parts.fixed:
            want(0.5, other, before)
        if len(parts.before) <= _CROSS_LINKS:
            for other in parts.events:
                if other != name:
                    want(0.5, before, other)
            for other in parts.before.values():
                if other > before:
                    want(0.5, before, other)
    if parts.gap is not None:
        want(2.0, parts.number, parts.gap)
        for name in (*parts.fixed, *parts.events):
            want(0.5, parts.gap, name)
        if parts.order is not None:
            want(1.0, parts.gap, parts.before[parts.order])
    return Workload(domain, tuple(weights), tuple(weights.values()))
