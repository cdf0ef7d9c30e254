"""What happened: descriptions of private acts, kept apart from what they cost.

An event records the parameters that any accounting needs and nothing about a particular accounting.
Events are written into ledgers that outlive this version, so **the meaning of a recorded event never
changes**; a changed meaning is a new event with a new ``kind``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from understudy.errors import BudgetError
from understudy.privacy.exact_floats import non_negative, positive, probability

__all__ = [
    "AllowanceEvent",
    "ApproxEvent",
    "Approximated",
    "Composed",
    "Event",
    "GaussianEvent",
    "InsideEvent",
    "LaplaceEvent",
    "Parallel",
    "PureEvent",
    "SelectionEvent",
    "SubsampledGaussianEvent",
    "Thresholded",
    "ZcdpEvent",
    "act_of",
    "event_from_dict",
]


class _Plain:
    """Events whose fields are numbers: checked on construction, one dictionary key each."""

    __slots__ = ()
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            checked = positive(f"{type(self).__name__}.{field.name}", getattr(self, field.name))
            object.__setattr__(self, field.name, checked)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values; `event_from_dict` reads them back."""
        return {"kind": self.kind} | {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class GaussianEvent(_Plain):
    """Gaussian noise on a vector whose Euclidean change between neighbours is at most ``l2_sensitivity``.

    ``sigma`` is the standard deviation of each component. The noise is the continuous Gaussian, or any
    post-processing of "value plus continuous Gaussian" (such as rounding to whole numbers on a whole-number
    value). The *discrete* Gaussian is not: record it as a `ZcdpEvent`.

    Examples
    --------
    >>> GaussianEvent(l2_sensitivity=1, sigma=2).to_dict()
    {'kind': 'gaussian', 'l2_sensitivity': 1.0, 'sigma': 2.0}
    """

    l2_sensitivity: float
    sigma: float
    kind: ClassVar[str] = "gaussian"


@dataclass(frozen=True, slots=True)
class LaplaceEvent(_Plain):
    """Laplace noise of scale ``scale`` on a vector whose L1 change is at most ``l1_sensitivity``.

    Continuous Laplace noise, or discrete Laplace noise (``P(k)`` proportional to ``exp(-|k|/scale)``) on
    whole-number values.
    """

    l1_sensitivity: float
    scale: float
    kind: ClassVar[str] = "laplace"


@dataclass(frozen=True, slots=True)
class SelectionEvent(_Plain):
    """One choice by the exponential mechanism with parameter ``epsilon``.

    Probabilities proportional to ``exp(epsilon * score / (2 * sensitivity))``: ``epsilon``-differentially
    private and of bounded range ``epsilon`` (the log-likelihood ratios of any two outcomes differ by at most
    ``epsilon``). Permute-and-flip does not have bounded range: record it as a `PureEvent`.
    """

    epsilon: float
    kind: ClassVar[str] = "selection"


@dataclass(frozen=True, slots=True)
class PureEvent(_Plain):
    """Any ``epsilon``-differentially private act (permute-and-flip, a threshold test)."""

    epsilon: float
    kind: ClassVar[str] = "pure"


@dataclass(frozen=True, slots=True)
class ZcdpEvent(_Plain):
    """Any act that is ``rho``-zCDP and about which nothing else is known (the discrete Gaussian)."""

    rho: float
    kind: ClassVar[str] = "zcdp"


@dataclass(frozen=True, slots=True)
class ApproxEvent(_Plain):
    """Any ``(epsilon, delta)``-differentially private act.

    Its ``delta`` must be paid from a reserve that the ledger was created with.
    """

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approx"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", non_negative("ApproxEvent.epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability("ApproxEvent.delta", self.delta))


@dataclass(frozen=True, slots=True)
class SubsampledGaussianEvent(_Plain):
    """``steps`` noisy sums over random batches, into which every row enters by a coin of probability ``rate``.

    The contribution of one row to a sum is a vector of norm at most 1 and the noise on each component is the continuous
    Gaussian of standard deviation ``noise_multiplier``, or a post-processing of it. Neighbours differ by at most ``rows`` rows
    that one of them has and the other has not (``sides`` is 1), or by at most so many on either side (``sides`` is 2).

    Alone it is priced as if every row were in every batch: random batches lower epsilon at a given delta, not the rho or
    mu that holds for all deltas. Inside `Approximated` they count.

    Examples
    --------
    >>> SubsampledGaussianEvent(rate=0.05, noise_multiplier=1.5, steps=200, rows=1, sides=1).to_dict()["steps"]
    200.0
    """

    rate: float
    noise_multiplier: float
    steps: float
    rows: float
    sides: float
    kind: ClassVar[str] = "subsampled-gaussian"

    def __post_init__(self) -> None:
        for field in fields(self):
            checked = positive(f"SubsampledGaussianEvent.{field.name}", getattr(self, field.name))
            object.__setattr__(self, field.name, checked)
        whole = all(number == int(number) for number in (self.steps, self.rows, self.sides))
        if self.rate > 1 or not whole or self.sides > 2:
            raise BudgetError(
                "SubsampledGaussianEvent needs a rate of at most 1, whole steps and rows, and one or two sides."
            )


class _Group:
    """Events made of events; not of allowances and acts inside them, whose meaning depends on the lines before them."""

    __slots__ = ()
    kind: ClassVar[str]
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        name = type(self).__name__
        if isinstance(self.events, (str, bytes)) or not isinstance(self.events, Iterable):
            raise BudgetError(f"{name} takes a list of events.")
        events = tuple(self.events)
        if not events:
            raise BudgetError(f"{name} needs at least one event.")
        for event in events:
            if not isinstance(event, (_Plain, _Group)):
                raise BudgetError(f"{name} takes events, not {type(event).__name__}.")
        object.__setattr__(self, "events", events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values; `event_from_dict` reads them back."""
        return {"kind": self.kind, "events": [event.to_dict() for event in self.events]}


@dataclass(frozen=True, slots=True)
class Composed(_Group):
    """Several acts on the same table, one after the other: their costs add up.

    Charging one `Composed` event is one durable write, so a batch of measurements is cheap to record.
    """

    events: tuple[Event, ...]
    kind: ClassVar[str] = "composed"


@dataclass(frozen=True, slots=True)
class Parallel(_Group):
    """Acts on disjoint parts of the table: only the parts that a unit can touch are paid for.

    The parts are a partition of all *possible* rows, fixed by the schema (never by the data), and each
    event describes what its act costs if any one unit changes its own part alone.

    Privacy
    -------
    Fix two neighbours. At most ``t`` parts differ between them (``Unit.parts_touched``: one for adding or
    removing a row; two for replacing a row, which may leave one part and enter another; more if a person
    has several rows). Acts on equal parts have equal output distributions and cost nothing; the others
    compose. So the cost is at most the sum of the ``t`` largest, which for ``t = 1`` is the maximum. A ledger
    passes its own unit's ``t``. One histogram over all parts is usually cheaper as a single event with the
    sensitivity of the unit.
    """

    events: tuple[Event, ...]
    kind: ClassVar[str] = "parallel"


@dataclass(frozen=True, slots=True)
class Approximated(_Group):
    """Acts that together are ``(epsilon, delta)``-differentially private, by a joint analysis of their privacy loss.

    Priced exactly as an `ApproxEvent` with the same two numbers, which must be paid from a reserve; the acts say what happened, so
    that anybody can compute the two numbers again (:func:`understudy.privacy.accounting.subsampled.approximated`).

    Examples
    --------
    >>> Approximated(1.0, 1e-6, (GaussianEvent(1, 5),)).to_dict()["kind"]
    'approximated'
    """

    epsilon: float
    delta: float
    events: tuple[Event, ...]
    kind: ClassVar[str] = "approximated"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", non_negative("Approximated.epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability("Approximated.delta", self.delta))
        _Group.__post_init__(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values; `event_from_dict` reads them back."""
        return {"epsilon": self.epsilon, "delta": self.delta} | _Group.to_dict(self)


@dataclass(frozen=True, slots=True)
class Thresholded(_Group):
    """Noise on counts of keys that are private themselves; a key is released if its noisy count reaches ``threshold``.

    Priced as the noise it holds, on the keys that both neighbours have, and as a ``delta`` that must be paid from a reserve: the most
    probable it is that any key which one unit alone holds is released (:mod:`understudy.privacy.noise.thresholds` computes it from the
    noise, the threshold and the unit, and proves that this is enough).

    Examples
    --------
    >>> Thresholded(1e-9, 40, (GaussianEvent(1, 6),)).to_dict()["threshold"]
    40.0
    """

    delta: float
    threshold: float
    events: tuple[Event, ...]
    kind: ClassVar[str] = "thresholded"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability("Thresholded.delta", self.delta))
        object.__setattr__(self, "threshold", positive("Thresholded.threshold", self.threshold))
        _Group.__post_init__(self)
        if not all(isinstance(event, (GaussianEvent, LaplaceEvent)) for event in self.events):
            raise BudgetError("Thresholded takes the noise on the counts: Gaussian or Laplace events.")

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values; `event_from_dict` reads them back."""
        return {"delta": self.delta, "threshold": self.threshold} | _Group.to_dict(self)


@dataclass(frozen=True, slots=True)
class AllowanceEvent:
    """An ``(epsilon, delta)``-differentially private interaction, paid for as a whole when it is opened.

    What is asked in it, an `InsideEvent` each, is held to a filter of its own that keeps ``epsilon`` and ``delta``
    (:mod:`understudy.privacy.accounting.filter`), and costs nothing more. Priced as an `ApproxEvent`, or as a `PureEvent` if ``delta`` is 0.

    Attributes
    ----------
    name
        Which one: its acts name it.
    epsilon, delta
        The promise of everything inside.
    accounting, reserve
        How its own filter adds up, and the part of ``delta`` that it sets aside for events with a delta of their own.

    Examples
    --------
    >>> AllowanceEvent("9f3c", 1.5, 1e-9, "gdp").to_dict()["accounting"]
    'gdp'
    """

    name: str
    epsilon: float
    delta: float
    accounting: str
    reserve: float = 0.0
    kind: ClassVar[str] = "allowance"

    def __post_init__(self) -> None:
        _require_name(self.name)
        object.__setattr__(self, "epsilon", positive("AllowanceEvent.epsilon", self.epsilon))
        delta = non_negative("AllowanceEvent.delta", self.delta)
        object.__setattr__(self, "delta", probability("AllowanceEvent.delta", delta) if delta else 0.0)
        object.__setattr__(self, "reserve", non_negative("AllowanceEvent.reserve", self.reserve))
        known = ("pure", "zcdp", "gdp") if self.delta else ("pure",)
        if self.accounting not in known:
            raise BudgetError(f"AllowanceEvent.accounting must be one of {', '.join(known)}.")
        if self.reserve > self.delta or (self.reserve == self.delta and self.accounting != "pure"):
            raise BudgetError("AllowanceEvent.reserve must leave some of its delta to its accounting.")

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values; `event_from_dict` reads them back."""
        return {"kind": self.kind} | {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class InsideEvent:
    """An act inside an allowance that was opened before, and paid for with it.

    Examples
    --------
    >>> InsideEvent("9f3c", GaussianEvent(1, 5)).to_dict()["allowance"]
    '9f3c'
    """

    allowance: str
    event: Event
    kind: ClassVar[str] = "inside"

    def __post_init__(self) -> None:
        _require_name(self.allowance)
        if not isinstance(self.event, (_Plain, _Group)):
            raise BudgetError(f"InsideEvent takes an event, not {type(self.event).__name__}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values; `event_from_dict` reads them back."""
        return {"kind": self.kind, "allowance": self.allowance, "event": self.event.to_dict()}


def act_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in plain values without the name of an allowance: what was done, whichever allowance paid for it.

    Examples
    --------
    >>> act_of(InsideEvent("9f3c", GaussianEvent(1, 5)).to_dict()) == GaussianEvent(1, 5).to_dict()
    True
    """
    if event["kind"] == InsideEvent.kind:
        return dict(event["event"])
    return {
        name: value for name, value in event.items() if event["kind"] != AllowanceEvent.kind or name != "name"
    }


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 100:
        raise BudgetError("An allowance is named by a text of at most 100 characters.")


Event = (
    GaussianEvent
    | LaplaceEvent
    | SelectionEvent
    | PureEvent
    | ZcdpEvent
    | ApproxEvent
    | SubsampledGaussianEvent
    | Composed
    | Parallel
    | Approximated
    | Thresholded
    | AllowanceEvent
    | InsideEvent
)
"""Any event."""

_LEAVES: dict[str, Any] = {
    event.kind: event
    for event in (
        GaussianEvent,
        LaplaceEvent,
        SelectionEvent,
        PureEvent,
        ZcdpEvent,
        ApproxEvent,
        SubsampledGaussianEvent,
        AllowanceEvent,
    )
}
_GROUPS: dict[str, type[Composed] | type[Parallel]] = {"composed": Composed, "parallel": Parallel}
_DEEPEST = 50


def event_from_dict(values: Mapping[str, Any]) -> Event:
    """Return the event that ``to_dict`` described; unknown kinds and fields are refused, never guessed.

    Examples
    --------
    >>> event_from_dict({"kind": "selection", "epsilon": 0.1})
    SelectionEvent(epsilon=0.1)
    """
    return _read(values, 0)


def _read(values: Mapping[str, Any], depth: int) -> Event:
    if depth > _DEEPEST:
        raise BudgetError(f"Events are nested more than {_DEEPEST} deep.")
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if isinstance(kind, str) and kind in _GROUPS:
        if set(values) != {"kind", "events"} or not isinstance(values["events"], list):
            raise BudgetError(f"An event of kind {kind!r} has exactly one field, the list 'events'.")
        return _GROUPS[kind](tuple(_read(inner, depth + 1) for inner in values["events"]))
    if kind == Approximated.kind:
        if set(values) != {"kind", "epsilon", "delta", "events"} or not isinstance(values["events"], list):
            raise BudgetError(f"An event of kind {kind!r} has an epsilon, a delta and the list 'events'.")
        inside = tuple(_read(inner, depth + 1) for inner in values["events"])
        return Approximated(values["epsilon"], values["delta"], inside)
    if kind == Thresholded.kind:
        if set(values) != {"kind", "delta", "threshold", "events"} or not isinstance(values["events"], list):
            raise BudgetError(f"An event of kind {kind!r} has a delta, a threshold and the list 'events'.")
        inside = tuple(_read(inner, depth + 1) for inner in values["events"])
        return Thresholded(values["delta"], values["threshold"], inside)
    if kind == InsideEvent.kind:
        if set(values) != {"kind", "allowance", "event"}:
            raise BudgetError(f"An event of kind {kind!r} has an allowance and an event.")
        return InsideEvent(values["allowance"], _read(values["event"], depth + 1))
    if not isinstance(kind, str) or kind not in _LEAVES:
        known = ", ".join([*_LEAVES, *_GROUPS, Approximated.kind, InsideEvent.kind])
        raise BudgetError(f"An event needs a kind out of {known}.")
    cls = _LEAVES[kind]
    wanted = {field.name for field in fields(cls)}
    given = {name: value for name, value in values.items() if name != "kind"}
    if set(given) != wanted:
        raise BudgetError(f"An event of kind {kind!r} has exactly the fields {', '.join(sorted(wanted))}.")
    event: Event = cls(**given)
    return event
