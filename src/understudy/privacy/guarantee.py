"""What a list of events promises, by the tightest accounting that is valid for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from understudy.errors import NoSuchGuarantee
from understudy.privacy._numbers import float_down, float_up, probability, sqrt_up
from understudy.privacy.conversions import gdp_to_approx, zcdp_to_approx
from understudy.privacy.events import Event
from understudy.privacy.filter import Spending
from understudy.privacy.unit import Unit

__all__ = ["Guarantee", "guarantee_of", "tightest"]


class _HasEvent(Protocol):
    @property
    def event(self) -> Event | None: ...


@dataclass(frozen=True, slots=True)
class Guarantee:
    """An ``(epsilon, delta)`` statement and the accounting that proved it.

    Attributes
    ----------
    epsilon, delta
        The promise. ``delta`` is zero when the pure accounting was the tightest.
    accounting
        Name of the accounting: ``"pure"``, ``"zcdp"`` or ``"gdp"``.
    alternatives
        The ``epsilon`` by each accounting that is valid for these events.
    """

    epsilon: float
    delta: float
    accounting: str
    alternatives: Mapping[str, float]

    def describe(self) -> str:
        """Return the promise in words."""
        delta = f", delta={self.delta:g}" if self.delta else ""
        return f"epsilon={self.epsilon:.6g}{delta} (by {self.accounting} accounting)"


def tightest(events: Iterable[Event | _HasEvent], delta: float, *, unit: Unit | None = None) -> Guarantee:
    """Return the smallest ``epsilon`` at ``delta`` that some accounting proves for these events.

    Parameters
    ----------
    events
        Events, or ledger entries (those without an event cost nothing).
    delta
        The delta to report at.
    unit
        Needed only if there are `Parallel` events and the unit is not "add or remove one row".

    Privacy
    -------
    Each alternative is a valid bound *for a sequence of events fixed beforehand*, so the smallest of
    them is too. When the events were chosen in the light of earlier answers, the promise is the total of the
    filter they ran under, which a ledger reports; this number then only describes what was used.

    Examples
    --------
    >>> from understudy.privacy.events import GaussianEvent, SelectionEvent
    >>> tightest([GaussianEvent(1, 4), GaussianEvent(1, 4), SelectionEvent(0.1)], 1e-9).describe()
    'epsilon=2.04532, delta=1e-09 (by gdp accounting)'
    """
    delta = probability("delta", delta)
    parts = 1 if unit is None else unit.parts_touched
    spending = Spending()
    for item in events:
        event: Any = getattr(item, "event", item)
        if event is not None:
            spending = spending.plus(event, parts=parts)
    return guarantee_of(spending, delta)


def guarantee_of(spending: Spending, delta: float) -> Guarantee:
    """Return the tightest guarantee of sums that are already known."""
    left = Fraction(delta) - spending.delta
    if left < 0:
        raise NoSuchGuarantee(
            f"The events have deltas of their own that add up to {float_up(spending.delta):g}; "
            f"delta ({delta:g}) must be at least that."
        )
    rest = float_down(left)
    found: dict[str, float] = {}
    pure, rho, mu_squared = (spending.sums[name] for name in ("pure", "zcdp", "gdp"))
    if pure is not None:
        found["pure"] = float_up(pure)
    if rho is not None and rest > 0:
        found["zcdp"] = zcdp_to_approx(float_up(rho), rest) if rho else 0.0
    if mu_squared is not None and rest > 0:
        found["gdp"] = gdp_to_approx(float_up(sqrt_up(mu_squared, bits=60)), rest) if mu_squared else 0.0
    if not found:
        raise NoSuchGuarantee("These events have no common accounting: none can price all of them.")
    best = min(found, key=lambda name: (found[name], name != "pure"))
    return Guarantee(found[best], 0.0 if best == "pure" and not spending.delta else delta, best, found)
