"""What may be spent: four notions of a total privacy budget, as types.

A budget is a promise about everything that will ever be released from a table, so it has no default and
is checked when it is written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from understudy.errors import BudgetError, UnderstudyError
from understudy.privacy.exact_floats import positive, probability

__all__ = ["GDP", "ZCDP", "ApproxDP", "Budget", "PureDP", "budget_from_dict"]


_NAMES = {name: name for name in ("epsilon", "delta", "rho", "mu")}


@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy budget: one of `PureDP`, `ApproxDP`, `ZCDP` and `GDP`. Write one of them, or call :meth:`of`."""

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if type(self) is Budget:
            raise BudgetError("A budget is of a kind: PureDP, ApproxDP, ZCDP or GDP; or use Budget.of(...).")
        for field in fields(self):
            check = probability if field.name == "delta" else positive
            object.__setattr__(self, field.name, check(field.name, getattr(self, field.name)))

    @staticmethod
    def of(
        given: Budget | Mapping[str, Any] | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        names: Mapping[str, str] = _NAMES,
        error: type[UnderstudyError] = BudgetError,
    ) -> Budget:
        """Return the one budget that some numbers stand for.

        Parameters
        ----------
        given
            A budget, or its numbers by name, as a specification writes them; None if they are given one by one.
        epsilon, delta, rho, mu
            Exactly one kind: epsilon (pure), epsilon with delta (approximate), rho (zero-concentrated) or mu (Gaussian).
        names
            What the four are called where the user wrote them, for messages.
        error
            What to raise if none or several were given; a number that makes no sense is always a `BudgetError`.

        Examples
        --------
        >>> Budget.of(epsilon=1.0, delta=1e-9)
        ApproxDP(epsilon=1.0, delta=1e-09)
        >>> Budget.of({"rho": 0.125})
        ZCDP(rho=0.125)
        >>> Budget.of(epsilon=1.0, mu=1.0)
        Traceback (most recent call last):
        understudy.errors.BudgetError: Give epsilon, epsilon with delta, rho, or mu: exactly one budget; got epsilon and mu.
        """
        numbers = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
        if given is not None:
            if any(value is not None for value in numbers.values()):
                raise error("Give a budget, or its numbers, not both.")
            if isinstance(given, Budget):
                return given
            if not isinstance(given, Mapping) or not set(given) <= {*numbers, "kind"}:
                raise error(f"A budget has the fields {', '.join(numbers)}.")
            if "kind" in given:
                return budget_from_dict(given)
            numbers |= given
        said = {name: value for name, value in numbers.items() if value is not None}
        for kind in _KINDS.values():
            if set(said) == {field.name for field in fields(kind)}:
                return kind(**said)
        came = " and ".join(names[name] for name in said) or "none"
        raise error(
            f"Give {names['epsilon']}, {names['epsilon']} with {names['delta']}, {names['rho']}, or {names['mu']}: "
            f"exactly one budget; got {came}."
        )

    def describe(self) -> str:
        """Return the promise in words."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the budget as plain values; `budget_from_dict` reads them back."""
        return {"kind": self.kind} | {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the budget of this kind that :meth:`to_dict` described; unknown fields are refused."""
        if not isinstance(values, Mapping) or values.get("kind") != cls.kind:
            raise BudgetError(f"A {cls.__name__} budget has kind: {cls.kind}.")
        wanted = [field.name for field in fields(cls)]
        given = {name: value for name, value in values.items() if name != "kind"}
        if set(given) != set(wanted):
            raise BudgetError(f"A budget of kind {cls.kind!r} has exactly the fields {', '.join(wanted)}.")
        return cls(**given)


@dataclass(frozen=True, slots=True)
class PureDP(Budget):
    """Pure differential privacy: no outcome is more than ``exp(epsilon)`` times likelier on a neighbour.

    Examples
    --------
    >>> PureDP(1.0).describe()
    'epsilon=1 (pure differential privacy)'
    """

    epsilon: float
    kind: ClassVar[str] = "pure"

    def describe(self) -> str:
        """Return the promise in words."""
        return f"epsilon={self.epsilon:g} (pure differential privacy)"


@dataclass(frozen=True, slots=True)
class ApproxDP(Budget):
    """Approximate differential privacy: ``P(E) <= exp(epsilon) Q(E) + delta`` for every set ``E``.

    Examples
    --------
    >>> ApproxDP(epsilon=1.0, delta=1e-9).describe()
    'epsilon=1, delta=1e-09 (approximate differential privacy)'
    """

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approx"

    def describe(self) -> str:
        """Return the promise in words."""
        return f"epsilon={self.epsilon:g}, delta={self.delta:g} (approximate differential privacy)"


@dataclass(frozen=True, slots=True)
class ZCDP(Budget):
    """Zero-concentrated differential privacy: Rényi divergence at most ``rho * a`` at every order ``a > 1``.

    Examples
    --------
    >>> ZCDP(0.5).describe()
    'rho=0.5 (zero-concentrated differential privacy)'
    """

    rho: float
    kind: ClassVar[str] = "zcdp"

    def describe(self) -> str:
        """Return the promise in words."""
        return f"rho={self.rho:g} (zero-concentrated differential privacy)"


@dataclass(frozen=True, slots=True)
class GDP(Budget):
    """Gaussian differential privacy: neighbours are as hard to tell apart as ``N(0, 1)`` and ``N(mu, 1)``.

    Examples
    --------
    >>> GDP(0.5).describe()
    'mu=0.5 (Gaussian differential privacy)'
    """

    mu: float
    kind: ClassVar[str] = "gdp"

    def describe(self) -> str:
        """Return the promise in words."""
        return f"mu={self.mu:g} (Gaussian differential privacy)"


_KINDS: dict[str, type[PureDP] | type[ApproxDP] | type[ZCDP] | type[GDP]] = {
    budget.kind: budget for budget in (PureDP, ApproxDP, ZCDP, GDP)
}


def budget_from_dict(values: Mapping[str, Any]) -> Budget:
    """Return the budget that ``to_dict`` described; unknown kinds and fields are refused.

    Examples
    --------
    >>> budget_from_dict({"kind": "zcdp", "rho": 0.125})
    ZCDP(rho=0.125)
    """
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BudgetError(f"A budget needs a kind out of {', '.join(_KINDS)}.")
    return _KINDS[kind].from_dict(values)
