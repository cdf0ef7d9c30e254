"""Rules that combine the analyses of several synthetic tables, and when each of them is valid.

Write ``Q`` for the unknown quantity, ``q`` for what the complete real data would estimate, with sampling
variance ``V``, and ``q_1 .. q_m`` for the estimates from the synthetic sets. ``B`` is the variance between the
``q_l``, ``W`` the average of the variances that an ordinary analysis of each set reports, and ``r`` the number of
rows of a set over the number of real rows: a set reports ``V / r``, so ``W`` estimates ``V / r`` and ``r W``
estimates ``V``. ``N`` is the variance that privacy noise adds to the estimate.

How the sets were made (``synthesis``) decides what ``B`` contains, hence which rule is right:

``"independent"``
    Each set comes from its own noisy fit, with its share of the budget. Given the real data the ``q_l`` are
    independent with mean ``q`` and variance ``B``, which holds noise, parameter draw and sampling alike, so
    ``Var(mean) = V + B/m``: rule ``"partial"`` (Reiter 2003; paper DIPS, equation 3.6).
``"posterior"``
    One noisy release; each set has parameters of its own from a posterior that *knows the noise*, with variance
    ``V + N``. Given the release, ``Var(q_l) = (V + N) + V/r``, so ``B - W`` estimates ``V + N`` and the mean of ``m``
    draws adds ``B/m``: rule ``"full"``, ``(1 + 1/m) B - W`` (Raghunathan, Reiter and Rubin 2003). If the sets are
    large (``r >= 20``), the ``q_l`` are themselves draws of ``Q`` and their order statistics give
    ``"percentile"`` intervals without any assumption of normality.
``"resampled"``
    One noisy fit, drawn from ``m`` times. Every set repeats the same noise: nothing in the sets estimates ``N``,
    and *no* rule is valid. ``"partial"`` covered .73 to .86 here where .95 was promised.
``"proper"``
    No privacy noise, parameters drawn from the posterior for each set: ``B = V + V/r``. Rules ``"partial"``,
    ``"full"`` and ``"raab-proper"``, ``W (r + (1 + r)/m)``, which is ``W (1 + 2/m)`` for ``r = 1`` (Raab, Nowok and
    Dibben 2017).
``"fitted"``
    No privacy noise, parameters at their estimates: ``B = V/r``. Rules ``"partial"`` and ``"raab-fitted"``,
    ``W (r + 1/m)``.

``"imputation"``, ``W + (1 + 1/m) B`` (Rubin 1987), is for missing values that were filled in. For synthetic
tables it is too wide whatever they were made by; it is here to be compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError, WrongPairing

Array = npt.NDArray[np.float64]
Parts = tuple[Array, Array]
"""Variance of the combined estimate and its degrees of freedom."""


@dataclass(frozen=True)
class Rule:
    """One combining rule.

    Attributes
    ----------
    name
        What users write.
    formula
        The variance, for sets as large as the real table.
    valid_for
        Ways of making sets for which the rule is right.
    sets_needed
        Smallest number of sets.
    compute
        From within, between, number of sets and size ratio to variance and degrees of freedom.
    """

    name: str
    formula: str
    valid_for: tuple[str, ...]
    sets_needed: int
    compute: Callable[[Array, Array, int, float], Parts]


def _partial(within: Array, between: Array, m: int, ratio: float) -> Parts:
    fixed = ratio * within
    variance = fixed + between / m
    return variance, (m - 1) * _ratio(variance, between / m) ** 2


def _full(within: Array, between: Array, m: int, ratio: float) -> Parts:
    """``(1 + 1/m) B - W``, but never less than what complete real data would leave.

    The posterior variance cannot be smaller than ``V``, which ``r W`` estimates. Where the difference falls
    below it, as it often does for few sets, ``r W`` is used and taken as known. Reiter (2002) proposed the same
    value for negative differences only.
    """
    spread = (1 + 1 / m) * between
    difference = spread - within
    floor = ratio * within
    low = difference <= floor
    variance = np.where(low, floor, difference)
    return variance, np.where(low, np.inf, (m - 1) * _ratio(difference, spread) ** 2)


def _reiter(within: Array, between: Array, m: int, ratio: float) -> Parts:
    """``(1 + 1/m) B - W`` as published: replaced by ``r W`` only where it is not positive."""
    spread = (1 + 1 / m) * between
    difference = spread - within
    low = difference <= 0
    variance = np.where(low, ratio * within, difference)
    return variance, np.where(low, m - 1.0, np.maximum(1.0, (m - 1) * _ratio(difference, spread) ** 2))


def _raab_proper(within: Array, between: Array, m: int, ratio: float) -> Parts:
    variance = within * (ratio + (1 + ratio) / m)
    return variance, np.full_like(variance, np.inf)


def _raab_fitted(within: Array, between: Array, m: int, ratio: float) -> Parts:
    variance = within * (ratio + 1 / m)
    return variance, np.full_like(variance, np.inf)


def _imputation(within: Array, between: Array, m: int, ratio: float) -> Parts:
    variance = ratio * within + (1 + 1 / m) * between
    return variance, (m - 1) * _ratio(variance, (1 + 1 / m) * between) ** 2


def _percentile(within: Array, between: Array, m: int, ratio: float) -> Parts:
    variance = np.asarray(np.maximum(between - within, 0.0))
    return variance, np.full_like(variance, np.inf)


def _ratio(top: Array, bottom: Array) -> Array:
    """Divide; a zero between-set variance means that nothing is left to estimate: infinity."""
    safe = np.where(bottom > 0, bottom, 1.0)
    return np.where(bottom > 0, top / safe, np.inf)


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("partial", "W + B/m", ("independent", "proper", "fitted"), 2, _partial),
        Rule("full", "(1 + 1/m) B - W, at least W", ("posterior", "proper"), 2, _full),
        Rule("full-reiter", "(1 + 1/m) B - W, W where negative", ("posterior", "proper"), 2, _reiter),
        Rule("percentile", "order statistics of the estimates", ("posterior",), 2, _percentile),
        Rule("raab-proper", "W (1 + 2/m)", ("proper",), 1, _raab_proper),
        Rule("raab-fitted", "W (1 + 1/m)", ("fitted",), 1, _raab_fitted),
        Rule("imputation", "W + (1 + 1/m) B", (), 2, _imputation),
    )
}
"""Every rule by name."""

DEFAULT_RULE = {"independent": "partial", "posterior": "full", "proper": "partial", "fitted": "partial"}
"""The rule used for each way of making sets when none is named."""

SYNTHESES = (*DEFAULT_RULE, "resampled")
"""Every way of making sets."""


def choose_rule(rule: str | None, kind: str | None, *, unchecked: bool = False) -> Rule:
    """Return the rule for sets that were made in a certain way, or refuse the pairing.

    Parameters
    ----------
    rule
        Name of a rule; None takes the one that fits.
    kind
        How the sets were made: one of ``SYNTHESES``, or None if nobody says.
    unchecked
        Take the named rule whatever it is paired with.

    Examples
    --------
    >>> choose_rule(None, "posterior").name
    'full'
    """
    if rule is not None and rule not in RULES:
        raise WorkloadError(f"No combining rule named {rule!r}. Known: {', '.join(RULES)}.")
    if kind is not None and kind not in SYNTHESES:
        raise WorkloadError(f"No synthesis of kind {kind!r}. Known: {', '.join(SYNTHESES)}.")
    if unchecked and rule is not None:
        return RULES[rule]
    if kind is None:
        raise WrongPairing(
            "Which rule is valid depends on how the sets were made. Say synthesis= as one of "
            f"{', '.join(SYNTHESES)}, or pass the result of synthesize_many."
        )
    if kind == "resampled":
        raise WrongPairing(
            "No rule is valid for sets drawn from one noisy fit: all of them repeat the same privacy noise, so their "
            'differences do not show it. Make the sets with how="posterior" or how="independent".'
        )
    chosen = RULES[rule or DEFAULT_RULE[kind]]
    if kind not in chosen.valid_for:
        fitting = ", ".join(name for name, item in RULES.items() if kind in item.valid_for)
        raise WrongPairing(
            f"The rule {chosen.name!r} ({chosen.formula}) is not valid for {kind} sets; valid: {fitting}. "
            "To apply it all the same, say unchecked=True."
        )
    return chosen
