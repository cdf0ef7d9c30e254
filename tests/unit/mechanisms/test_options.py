"""Options of mechanisms: every mistake is told at once, in the same words everywhere."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from understudy.errors import BudgetError
from understudy.marginals import all_kway
from understudy.mechanisms import create
from understudy.mechanisms.marginal.aim import AIM
from understudy.mechanisms.options import at_least, between, one_of, positive, refuse, shares, up_to_one
from understudy.privacy import ApproxDP, PureDP, Unit
from understudy.schema import Integer, Schema

NO_NUMBERS = (math.nan, math.inf, -math.inf, "3", None, True, [1.0])


def holder(value: object) -> SimpleNamespace:
    return SimpleNamespace(x=value)


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (lambda item: positive(item, "x"), (1, 1e-9, np.float32(2), np.int64(3)), (0, -1, *NO_NUMBERS)),
        (lambda item: at_least(item, 2, "x"), (2, 2.0, np.uint8(9)), (1.999, 0, *NO_NUMBERS)),
        (lambda item: at_least(item, 0, "x"), (0, 5), (-1e-9, *NO_NUMBERS)),
        (lambda item: between(item, 2, 100, "x"), (2, 100), (1, 101, *NO_NUMBERS)),
        (lambda item: shares(item, "x"), (0.5, 1e-9), (0, 1, -0.1, 1.1, *NO_NUMBERS)),
        (lambda item: shares(item, "x", zero=True), (0, 0.5), (1, -0.1, *NO_NUMBERS)),
        (lambda item: up_to_one(item, "x"), (1, 1e-9), (0, 1.1, *NO_NUMBERS)),
        (lambda item: one_of(item, "x", ("a", "b")), ("a", "b"), ("c", None, 1)),
    ],
)
def test_what_a_check_lets_through(check, right, wrong) -> None:
    for value in right:
        assert check(holder(value)) == []
    for value in wrong:
        (problem,) = check(holder(value))
        assert problem.startswith(f"x ({value!r})" if isinstance(value, str) else "x (")
        assert problem.endswith(".")


def test_none_is_let_through_where_it_means_something() -> None:
    assert at_least(holder(None), 1, "x", optional=True) == positive(holder(None), "x", optional=True) == []
    assert at_least(holder(0), 1, "x", optional=True)
    assert positive(holder(0), "x", optional=True)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BudgetError) as caught:
        AIM(max_model_mb=0, measure_share=1.0, max_candidates=0, certify=-1)
    for name in ("max_model_mb", "measure_share", "max_candidates", "certify"):
        assert f"{name} (" in str(caught.value)
    refuse([], [])


def test_options_that_count_are_whole_numbers() -> None:
    with pytest.raises(BudgetError, match=r"max_candidates \(2.5\) must be a whole number"):
        AIM(max_candidates=2.5)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match=r"max_candidates \(0.5\) must be a whole number"):
        AIM(max_candidates=0.5)  # type: ignore[arg-type]
    assert AIM(max_candidates=2.0).max_candidates == 2  # type: ignore[arg-type]
    assert AIM(column_noise=0.5).column_noise == 0.5


def test_what_a_delta_would_buy_is_said_from_public_facts() -> None:
    wide = Schema([Integer(f"c{index}", minimum=0, maximum=9) for index in range(29)])
    unit = Unit.add_remove()
    note = create("gaussian", workload=all_kway(wide.domain, 2)).delta_note(PureDP(1.0), wide, unit)
    assert "times the noise of a delta of 1e-06" in note
    assert float(note.split("there is ")[1].split(" times")[0]) > 4
    single = Schema([Integer("c", minimum=0, maximum=9)])
    assert create("independent").delta_note(PureDP(1.0), single, unit) == ""  # Laplace is as good
    assert create("independent").delta_note(ApproxDP(1.0, 1e-6), wide, unit) == ""
