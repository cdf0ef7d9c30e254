"""One scale for several phases: it never goes back, and its end is said once."""

from __future__ import annotations

import pytest

from understudy.progress import Phases, no_progress, time_left


def told(shares: dict[str, float]) -> tuple[Phases, list[float]]:
    said: list[float] = []
    return Phases(lambda stage, fraction: said.append(fraction), shares), said


def test_phases_share_one_scale() -> None:
    phases, said = told({"a": 1.0, "b": 3.0})
    phases.part("a")("x", 0.5)
    phases.part("b")("y", 0.0)
    phases.part("b")("y", 1.0)
    assert said == pytest.approx([0.125, 0.25, 1.0])
    assert said[-1] < 1  # a phase cannot say that everything is done
    phases.done()
    assert said[-1] == 1.0


def test_the_scale_never_goes_back_nor_beyond() -> None:
    phases, said = told({"a": 1.0, "b": 1.0})
    for fraction in (0.4, 0.2, 7.0, -3.0):
        phases.part("a")("x", fraction)
    phases.part("b")("y", 0.5)
    phases.part("a")("late", 0.1)
    assert said == sorted(said)
    assert said[-1] == pytest.approx(0.75)


def test_phases_nest() -> None:
    phases, said = told({"outer": 1.0, "rest": 1.0})
    inner = Phases(phases.part("outer"), {"first": 1.0, "second": 1.0})
    inner.part("second")("x", 1.0)
    assert said[-1] == pytest.approx(0.5)
    inner.done()
    assert said[-1] < 1


def test_a_phase_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        Phases(no_progress, {"a": 1.0}).part("b")


@pytest.mark.parametrize(
    ("seconds", "fraction", "text"),
    [
        (1.0, 0.5, ""),
        (10.0, 0.01, ""),
        (10.0, 1.0, ""),
        (3.0, 0.5, "about 3 s left"),
        (30.0, 0.25, "about 90 s left"),
        (100.0, 0.5, "about 1 min 40 s left"),
        (120.0, 0.5, "about 2 min left"),
        (600.0, 0.25, "about 30 min left"),
        (600.0, 0.1, "about 1 h 30 min left"),
        (7200.0, 0.1, "about 18 h left"),
    ],
)
def test_time_left(seconds: float, fraction: float, text: str) -> None:
    assert time_left(seconds, fraction) == text
