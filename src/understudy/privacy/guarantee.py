"""What a list of events promises, by the tightest accounting that is valid for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from understudy.errors import NoSuchGuarantee
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.privacy.accounting.filter import Spending
from understudy.privacy.events import Event
from understudy.privacy.exact_floats import float_down, float_up, probability, sqrt_up
from understudy.privacy.ledger.kinds import Invariant
from understudy.privacy.unit import Unit

# ----------------------------------------------------------------------------------------
# What a promise presumes because exact numbers about the table are public.

ROWS = "number of rows"
"""Subject of the invariants that say how many rows a table has."""
WRONG = "number of rows, declared and wrong"
"""Subject of those that say how many it has not."""
_LONGEST_RULE = 1500


def rows_rule(unit: Unit, rules: Iterable[str] = ()) -> str:
    """Return in words what a number of rows is counted after; empty for the table as it is.

    Examples
    --------
    >>> rows_rule(Unit.add_remove(), ["age >= 16", "weight > 0"])
    'age >= 16; weight > 0'
    >>> rows_rule(Unit.replace_person("patient", max_rows=1))
    'at most 1 row of each person'
    """
    parts = sorted(rules)
    if unit.id_column is not None:
        parts.append(f"at most {unit.max_rows} {'row' if unit.max_rows == 1 else 'rows'} of each person")
    text = "; ".join(parts)
    if len(text) > _LONGEST_RULE:
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        text = f"{text[:_LONGEST_RULE]}... (SHA-256 of all rules: {digest})"
    return text


@dataclass(frozen=True, slots=True)
class Condition:
    """What a promise presumes because exact numbers about the table are public.

    Attributes
    ----------
    among
        The tables that the promise compares, such as ``"among tables with 158,495 rows after rule 'age >= 16'"``; empty for all tables.
    text
        The condition in sentences, for people; empty if there is none.
    steps
        How many neighbouring steps lie between two tables that agree on the numbers and differ in the records of one unit.
    """

    among: str = ""
    text: str = ""
    steps: int = 1


ALSO_MEASURED = "Facts of the schema were measured from the same table before: what the ledger promises in all covers both."
"""What the guarantee of a fit or release says whose schema was learnt under the budget."""


def condition_of(unit: Unit, invariants: Iterable[Invariant]) -> Condition:
    """Return the condition that the exact public numbers of a ledger put on its promise.

    Privacy
    -------
    Neighbours that differ in a number that is published can be told apart by it alone, so nothing is promised about such a pair beyond
    everything *else* that was released. Under add-remove two tables with equally many rows that differ in one unit are neighbours
    of a common table without that unit: two steps apart, and the promise about them is that for a group of two.

    Examples
    --------
    >>> facts = [Invariant("number of rows", "age >= 16", 158495, "", 1)]
    >>> condition_of(Unit.replace_one(), facts).text
    "It holds among tables with 158,495 rows after rule 'age >= 16': the number is public and not protected."
    >>> condition_of(Unit.add_remove(), facts).steps
    2
    """
    known = list(invariants)
    wrong = refuted(known)
    rows = [item for item in known if item.subject == ROWS and (item.rule, item.value) not in wrong]
    stated = {item.rule for item in rows if item.value is not None}
    rows = [item for item in rows if item.value is not None or item.rule not in stated]
    others = [item.describe() for item in known if item.subject not in (ROWS, WRONG)]
    if not rows and not wrong and not others:
        return Condition()
    sentences, among = [], ""
    if rows:
        among = "among tables with " + " and ".join(map(phrase, dict.fromkeys(map(key_of, rows))))
        number = "number is" if len(rows) == 1 else "numbers are"
        fixed = unit.keeps_rows and {item.rule for item in rows} == {rows_rule(unit)}
        why = "all neighbouring tables have equally many, and" if fixed else ""
        sentences.append(f"It holds {among}: {why}{' ' if why else ''}the {number} public and not protected.")
    steps = 2 if rows and unit.relation == "add-remove" else 1
    if steps == 2:
        sentences.append(
            "Neighbouring tables differ in their number of rows, so that the promise is about everything else that is released: two such tables "
            "that differ in the records of one unit are two steps apart, which doubles every epsilon (and more than "
            "doubles a delta)."
        )
    for rule, value in wrong:
        begin = "Nor is it" if sentences else "It is not"
        sentences.append(f"{begin} protected that {phrase((rule, value))} was declared and is wrong.")
    if others:
        sentences.append(f"It presumes exact public facts: {'; '.join(others)}.")
    return Condition(among, " ".join(sentences), steps)


def key_of(item: Invariant) -> tuple[str, int | str | None]:
    """Return rule and value."""
    return item.rule, item.value


def phrase(key: tuple[str, int | str | None]) -> str:
    """Return a number of rows and what it is counted after in words."""
    rule, value = key
    number = "a public number of" if value is None else f"{value:,}" if isinstance(value, int) else value
    return f"{number} {'row' if value == 1 else 'rows'}" + (f" after rule {rule!r}" if rule else "")


def refuted(known: Iterable[Invariant]) -> dict[tuple[str, int | str | None], None]:
    """Return rule and value of the numbers that were declared and are wrong, in order."""
    return dict.fromkeys(key_of(item) for item in known if item.subject == WRONG)


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
