"""Budgets are checked when they are written down and survive a dictionary."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from understudy.errors import BudgetError, UsageError
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, budget_from_dict

BUDGETS = [PureDP(1.0), ApproxDP(0.5, 1e-9), ZCDP(0.125), GDP(2.0)]
BAD = [0, -1.0, math.nan, math.inf, -math.inf, "1", None, True, 1j, [1.0], 10**400]


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.kind)
def test_budgets_survive_a_dictionary(budget):
    assert budget_from_dict(budget.to_dict()) == budget
    assert type(budget).from_dict(budget.to_dict()) == budget
    assert hash(budget) == hash(budget_from_dict(budget.to_dict()))
    for name in set(budget.to_dict()) - {"kind"}:
        assert f"{name}=" in budget.describe()


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize("make", [PureDP, ZCDP, GDP, lambda e: ApproxDP(e, 1e-6)])
def test_numbers_that_are_no_budget_are_refused(make, bad):
    with pytest.raises(BudgetError):
        make(bad)


@pytest.mark.parametrize("delta", [*BAD, 1.0, 1.5], ids=repr)
def test_delta_lies_strictly_between_zero_and_one(delta):
    with pytest.raises(BudgetError, match="delta"):
        ApproxDP(1.0, delta)


def test_messages_name_the_field_and_the_value():
    with pytest.raises(BudgetError, match=r"^epsilon \(-1\.0\) must be positive\.$"):
        PureDP(-1.0)


def test_other_kinds_of_number_become_floats():
    for number in (np.float64(0.5), np.float32(0.5), Fraction(1, 2), np.int64(1), 1):
        assert type(PureDP(number).epsilon) is float


@pytest.mark.parametrize(
    "values",
    [
        {},
        None,
        "pure",
        {"kind": "renyi"},
        {"kind": "pure"},
        {"kind": ["pure"]},
        {"kind": "pure", "rho": 1},
        {"kind": "pure", "epsilon": 1, "delta": 0.1},
        {"kind": "approx", "epsilon": 1},
    ],
)
def test_dictionaries_that_are_no_budget_are_refused(values):
    with pytest.raises(BudgetError):
        budget_from_dict(values)


def test_a_dictionary_of_another_kind_is_refused():
    with pytest.raises(BudgetError):
        PureDP.from_dict(ZCDP(1.0).to_dict())


def test_budgets_cannot_be_changed():
    with pytest.raises(AttributeError):
        PureDP(1.0).epsilon = 2.0


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.kind)
def test_one_function_takes_a_budget_in_every_form(budget):
    plain = {name: value for name, value in budget.to_dict().items() if name != "kind"}
    absent = dict.fromkeys(("epsilon", "delta", "rho", "mu"))
    for made in (
        Budget.of(budget),
        Budget.of(budget.to_dict()),
        Budget.of(plain),
        Budget.of(absent | plain),  # as a specification holds it
        Budget.of(**plain),
    ):
        assert made == budget
        assert isinstance(made, Budget)


@pytest.mark.parametrize(
    ("given", "came"),
    [
        ({}, "none"),
        ({"delta": 1e-6}, "delta"),
        ({"rho": 1.0, "mu": 1.0}, "rho and mu"),
        ({"epsilon": 1.0, "delta": 1e-6, "rho": 1.0}, "epsilon and delta and rho"),
    ],
)
def test_none_or_several_budgets_are_refused_in_the_words_of_the_caller(given, came):
    words = f"Give epsilon, epsilon with delta, rho, or mu: exactly one budget; got {came}."
    for make in (lambda: Budget.of(**given), lambda: Budget.of(given)):
        with pytest.raises(BudgetError) as error:
            make()
        assert str(error.value) == words
    names = {name: f"--{name}" for name in ("epsilon", "delta", "rho", "mu")}
    with pytest.raises(UsageError, match="Give --epsilon, --epsilon with --delta, --rho, or --mu"):
        Budget.of(**given, names=names, error=UsageError)


def test_what_is_no_budget_is_refused():
    with pytest.raises(BudgetError, match="not both"):
        Budget.of(PureDP(1.0), epsilon=1.0)
    for given in ({"epsilon": 1.0, "colour": "red"}, "epsilon=1", 1.0):
        with pytest.raises(BudgetError, match="A budget has the fields"):
            Budget.of(given)
    with pytest.raises(BudgetError, match="must be positive"):
        Budget.of(epsilon=-1.0, error=UsageError)
    with pytest.raises(BudgetError, match="of a kind"):
        Budget()
