"""Means and medians of a numeric column within the groups of another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.evaluation.codes import Floats
from understudy.evaluation.comparison import Comparison
from understudy.evaluation.result import Result


def conditional_mean_differences(both: Comparison, target: str, *, least_rows: int = 10) -> Result:
    """Return the largest error of the target's mean within any group, by grouping column."""
    return _by_groups(both, target, np.mean, "mean", least_rows)


def conditional_median_differences(both: Comparison, target: str, *, least_rows: int = 10) -> Result:
    """Return the largest error of the target's median within any group, by grouping column."""
    return _by_groups(both, target, np.median, "median", least_rows)


def _by_groups(
    both: Comparison, target: str, summary: Callable[[Floats], np.floating], word: str, least_rows: int
) -> Result:
    """Compare a summary of the target within every value of every other column.

    Groups with fewer than ``least_rows`` real records are left out; a group without synthetic ones is compared
    with the summary of the whole synthetic table, which is what a user would fall back to.
    """
    numbers = both.numbers(target)
    values: dict[str, float] = {}
    if numbers is None:
        return Result(f"largest error of the {word} of {target} in a group", values, better="lower")
    real, made = numbers
    overall = float(summary(made[~np.isnan(made)])) if (~np.isnan(made)).any() else float("nan")
    for name in both.domain.names:
        if name == target:
            continue
        at = both.domain.index(name)
        worst = 0.0
        for code in range(both.domain.size(name)):
            inside = real[both.real_codes[:, at] == code]
            inside = inside[~np.isnan(inside)]
            if len(inside) < least_rows:
                continue
            other = made[both.synthetic_codes[:, at] == code]
            other = other[~np.isnan(other)]
            found = float(summary(other)) if len(other) else overall
            if not np.isnan(found):
                worst = max(worst, abs(float(summary(inside)) - found))
        values[name] = worst
    return Result(f"largest error of the {word} of {target} in a group", values, better="lower")
