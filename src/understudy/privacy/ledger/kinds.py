"""Entries of a ledger that cost nothing and yet change what its promise means.

- ``invariant``: an exact public fact about the table, such as its number of rows. The promise is about neighbours that
  agree on it, so every guarantee names it as a condition.
- ``facts``: the fingerprint of what the owner declared about the table (schema, cleaning, unit, public numbers).
- ``total``: another total budget, from this line on.

Privacy
-------
*When a total may change.* While nothing was charged nothing was promised to anybody, and any total will do. After the
first charge the kind of budget and its accounting stay, and no number of the promise may fall (`raised`). Let ``F`` be
the filter before and ``G`` the one after. ``F`` admits a spending if its delta is within ``F``'s reserve and its main sum is
within ``F``'s total or (``ApproxDP``) its pure sum within ``F``'s epsilon. ``G`` has the same sums, a reserve, a total and an
epsilon at least as large, and holds the acts in an allowance to the same filter as ``F``, that of the allowance; so ``G`` admits whatever ``F`` admits. Somebody who was held to ``F`` for a while and to ``G``
afterwards is therefore an analyst of ``G`` who asked for less than allowed at first, and the whole interaction keeps
``G``'s budget by the theorem for ``G`` alone (:mod:`understudy.privacy.accounting.filter`).

*What the argument does not cover.* ``G`` must not depend on the records other than through released answers, and if the
answers decide *whether* or *how far* the total is raised, the promise is that of the largest total that could have come
of it. That is why the entry names who decided and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from understudy.errors import BudgetError, LedgerError, LedgerMismatch
from understudy.privacy.accounting.filter import Filter
from understudy.privacy.budget import Budget, budget_from_dict

__all__ = [
    "FIELDS",
    "FactsRecord",
    "Invariant",
    "TotalChange",
    "check_fields",
    "public_text",
    "purpose_of",
    "raised",
    "stated_facts",
    "stated_invariant",
    "total_rule",
]

_LONGEST_TEXT = 2000
_LARGEST_VALUE = 1 << 63
_FINGERPRINT = re.compile(r"[0-9a-f]{16,128}")


@dataclass(frozen=True, slots=True)
class Invariant:
    """An exact public fact about a table that neighbours are taken to agree on.

    Attributes
    ----------
    subject
        What it is about, such as ``"number of rows"``.
    rule
        The cleaning rule, condition or transformation it belongs to; empty for the table as it is.
    value
        The fact itself, or None where only *that* it is public is known yet.
    accepted_by
        Who consented to it; empty for the first about its subject.
    sequence
        Number of the entry.

    Examples
    --------
    >>> Invariant("number of rows", "age >= 18", 158495, "", 1).describe()
    "number of rows = 158495 after 'age >= 18'"
    """

    subject: str
    rule: str
    value: int | str | None
    accepted_by: str
    sequence: int

    def describe(self) -> str:
        """Return the condition in a few words."""
        value = " is public" if self.value is None else f" = {self.value}"
        return f"{self.subject}{value}" + (f" after {self.rule!r}" if self.rule else "")


@dataclass(frozen=True, slots=True)
class FactsRecord:
    """The fingerprint of what an owner declared about a table, as it was written down.

    Attributes
    ----------
    fingerprint
        Hexadecimal.
    summary
        Public words about them.
    accepted_by
        Who consented; empty for the first.
    sequence
        Number of the entry.
    """

    fingerprint: str
    summary: str
    accepted_by: str
    sequence: int


@dataclass(frozen=True, slots=True)
class TotalChange:
    """A change of a ledger's total.

    Attributes
    ----------
    budget, accounting, approximate_delta
        The total from this entry on.
    who, why
        Who decided it and why; empty only where nothing had been charged.
    sequence
        Number of the entry.
    """

    budget: Budget
    accounting: str
    approximate_delta: float
    who: str
    why: str
    sequence: int


def public_text(name: str, value: object, *, required: bool = False) -> str:
    """Check a text that will be written into the ledger for everyone to read."""
    if not isinstance(value, str):
        raise LedgerError(f"The ledger's {name} must be text, not {type(value).__name__}.")
    if required and not value.strip():
        raise LedgerError(f"The ledger needs a {name}: a few public words.")
    if len(value) > _LONGEST_TEXT:
        raise LedgerError(f"The ledger's {name} must not be longer than {_LONGEST_TEXT} characters.")
    return value


class _Stated(Protocol):
    """An entry of one of these kinds."""

    @property
    def kind(self) -> str: ...
    @property
    def fields(self) -> Mapping[str, Any]: ...
    @property
    def sequence(self) -> int: ...


Stated = TypeVar("Stated", bound=_Stated)


def stated_invariant(entries: Iterable[Stated], wanted: Mapping[str, Any], *, table: str) -> Stated | None:
    """Return the entry that states a fact already; refuse a second, different one about its subject that nobody accepted."""
    others = []
    for entry in entries:
        there = entry.fields
        if entry.kind != "invariant" or there["subject"] != wanted["subject"]:
            continue
        if (there["rule"], there["value"]) == (wanted["rule"], wanted["value"]):
            return entry
        if there["rule"] != wanted["rule"] or there["value"] is not None:
            others.append(Invariant(sequence=entry.sequence, **there).describe())
    if others and not wanted["accepted_by"].strip():
        raise LedgerMismatch(
            f"The ledger of {table!r} already holds another public fact about the {wanted['subject']}: "
            f"{'; '.join(others)}. A second one can be subtracted from it, so the owner of the table has to accept "
            f"it by name ({Invariant(sequence=0, **wanted).describe()}). Nothing was written or charged."
        )
    return None


def stated_facts(entries: Iterable[Stated], wanted: Mapping[str, Any], *, table: str) -> Stated | None:
    """Return the entry that holds a fingerprint already; refuse another one that nobody accepted."""
    there = [entry for entry in entries if entry.kind == "facts"]
    for entry in there:
        if entry.fields["fingerprint"] == wanted["fingerprint"]:
            return entry
    if there and not wanted["accepted_by"].strip():
        raise LedgerMismatch(
            f"The ledger of {table!r} was opened for other facts about the table (fingerprint "
            f"{there[-1].fields['fingerprint'][:16]}, not {wanted['fingerprint'][:16]}). The owner of the table has to accept "
            "the new ones by name. Nothing was written or charged."
        )
    return None


FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "invariant": ("accepted_by", "rule", "subject", "value"),
        "facts": ("accepted_by", "fingerprint", "summary"),
        "total": ("accounting", "approximate_delta", "budget", "who", "why"),
    }
)
"""What each of these entries holds beside time, scope and writer."""


def check_fields(kind: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the checked fields of an entry of one of these kinds."""
    if not isinstance(values, Mapping) or set(values) != set(FIELDS[kind]):
        raise LedgerError(f"An entry of kind {kind!r} has exactly the fields {', '.join(FIELDS[kind])}.")
    checked = dict(values)
    required = {"invariant": ("subject",), "facts": (), "total": ("accounting",)}[kind]
    for name in ("accepted_by", "rule", "subject", "summary", "who", "why", "accounting"):
        if name in checked:
            public_text(name, checked[name], required=name in required)
    if kind == "invariant":
        value = checked["value"]
        if value is not None and type(value) is not int:
            public_text("value", value, required=True)
        if type(value) is int and not -_LARGEST_VALUE < value < _LARGEST_VALUE:
            raise LedgerError("The value of an invariant must be a whole number below 2^63, text, or None.")
    if kind == "facts" and not (
        isinstance(checked["fingerprint"], str) and _FINGERPRINT.fullmatch(checked["fingerprint"])
    ):
        raise LedgerError("The fingerprint of facts is 16 to 128 hexadecimal digits, in lower case.")
    if kind == "total":
        budget_from_dict(checked["budget"])
        if type(checked["approximate_delta"]) not in (int, float):
            raise LedgerError("The approximate_delta of a total must be a number.")
    return MappingProxyType(checked)


def purpose_of(kind: str, values: Mapping[str, Any]) -> str:
    """Return an entry of one of these kinds in a few words."""
    if kind == "invariant":
        text = Invariant(values["subject"], values["rule"], values["value"], "", 0).describe()
        return f"invariant: {text}" + _by(values["accepted_by"])
    if kind == "facts":
        summary = f" ({values['summary']})" if values["summary"] else ""
        return f"facts {values['fingerprint'][:16]}{summary}" + _by(values["accepted_by"])
    budget = budget_from_dict(values["budget"]).describe()
    who, why = values["who"], values["why"]
    return f"total: {budget}" + (f", decided by {who}" if who else "") + (f": {why}" if why else "")


def raised(before: Filter, after: Filter) -> None:
    """Refuse a total that does not admit everything the earlier one admitted; the argument is above.

    Raises
    ------
    LedgerMismatch
        If the kind of budget or its accounting is another one, or any number of the promise falls.
    """
    if type(before.budget) is not type(after.budget) or before.main is not after.main:
        raise LedgerMismatch(
            f"The total is {before.budget.describe()} by {before.main.name} accounting, and something was charged to it: "
            f"its kind and accounting stay. Asked for {after.budget.describe()} by {after.main.name} accounting."
        )
    pairs = [
        (item.name, getattr(before.budget, item.name), getattr(after.budget, item.name))
        for item in fields(before.budget)
    ]
    pairs.append(("approximate_delta", before.approximate_delta, after.approximate_delta))
    fallen = [f"{name} would fall from {old:g} to {new:g}" for name, old, new in pairs if new < old]
    if not fallen and after.total < before.total:
        fallen = [
            f"what is left of delta beside approximate_delta would admit less ({after.main.symbol} "
            f"{float(after.total):.6g} after {float(before.total):.6g})"
        ]
    if fallen:
        raise LedgerMismatch(
            f"A total that something was charged to can only be raised: {'; '.join(fallen)}. Nothing was changed."
        )


def total_rule(unit_of: Filter, values: Mapping[str, Any]) -> Filter:
    """Return the filter that an entry of kind ``total`` puts in force."""
    try:
        return Filter(
            budget_from_dict(values["budget"]),
            unit_of.unit,
            values["accounting"],
            values["approximate_delta"],
        )
    except BudgetError as error:
        raise LedgerError(f"The total cannot be used: {error}") from None


def _by(who: str) -> str:
    return f", accepted by {who}" if who else ""
