"""Combine the analyses of several synthetic tables into one estimate with an honest interval.

Rules that combine the analyses of several synthetic tables, and when each of them is valid.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import special

from understudy.errors import WorkloadError, WrongPairing
from understudy.inference.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd
from collections.abc import Callable

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


_LARGE = 0.1
"""Most that sampling may contribute to the spread of estimates taken as draws of the quantity itself."""


@dataclass(frozen=True, eq=False)
class Combined:
    """One estimate from several synthetic tables.

    Attributes
    ----------
    estimate
        Average of the estimates (for ``"percentile"``, their median), of any shape.
    variance
        Its variance, in the same shape.
    df
        Degrees of freedom of the ``t`` reference distribution; infinite for a normal one.
    within, between
        Average reported variance, and variance between the sets.
    rule, synthesis, sets
        How it was combined, how the sets were made (``None``: not said), and how many there were.
    covariance
        Covariance matrix of the estimates, where matrices were given and the rule has one.
    names
        Names of the estimates, where they were known.
    draws
        The estimates themselves, sorted, for the percentile rule.
    """

    estimate: Array
    variance: Array
    df: Array
    within: Array
    between: Array
    rule: str
    synthesis: str | None
    sets: int
    covariance: Array | None = None
    names: tuple[str, ...] | None = None
    draws: Array | None = None

    @property
    def stderr(self) -> Array:
        """Standard error of the estimate."""
        return np.sqrt(self.variance)

    def interval(self, *, confidence: float = 0.95) -> Interval:
        """Return an interval that covers the unknown quantity with about the given probability.

        For the percentile rule the ends are order statistics: if ``Q`` and the ``m`` draws are exchangeable
        given the release, ``Q`` lies below the ``k``-th smallest of them with probability ``k / (m + 1)``. The
        estimates are first drawn together by ``sqrt(1 - W/B)``, which leaves them the variance of the draws.
        """
        _check_confidence(confidence)
        tail = (1 - confidence) / 2
        if self.draws is not None:
            rank = math.floor((self.sets + 1) * tail + 1e-9)
            if rank < 1:
                raise WorkloadError(
                    f"A {confidence:.0%} interval by order statistics needs at least {math.ceil(1 / tail) - 1} sets; "
                    f"there are {self.sets}."
                )
            low, high = self.draws[rank - 1], self.draws[self.sets - rank]
        else:
            half = _t_quantile(1 - tail, self.df) * self.stderr
            low, high = self.estimate - half, self.estimate + half
        return Interval(np.asarray(low), np.asarray(high), self.estimate, confidence, self.rule)

    def p_value(self, null: npt.ArrayLike = 0.0) -> Array:
        """Return the two-sided p-value of the hypothesis that the quantity is ``null``."""
        value = np.asarray(null, dtype=np.float64)
        if self.draws is not None:
            below = (1 + (self.draws <= value).sum(axis=0)) / (self.sets + 1)
            above = (1 + (self.draws >= value).sum(axis=0)) / (self.sets + 1)
            return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))
        distance = np.abs(self.estimate - value)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(distance > 0, distance / self.stderr, 0.0)
        return np.asarray(2 * _t_below(-score, self.df))

    def table(self, *, confidence: float = 0.95) -> pd.DataFrame:
        """Return estimates, standard errors, degrees of freedom, intervals and p-values as a frame."""
        import pandas as pd

        interval = self.interval(confidence=confidence)
        flat = {
            "estimate": self.estimate,
            "stderr": self.stderr,
            "df": self.df,
            "low": interval.low,
            "high": interval.high,
            "p_value": self.p_value(),
        }
        index = None if self.names is None else pd.Index(self.names, name="name")
        return pd.DataFrame({name: np.ravel(values) for name, values in flat.items()}, index=index)

    def __repr__(self) -> str:
        return f"Combined({self.estimate.size} estimates, {self.sets} sets, {self.rule})"


def combine(
    estimates: npt.ArrayLike,
    variances: npt.ArrayLike,
    *,
    synthesis: Any = None,
    rule: str | None = None,
    size_ratio: float = 1.0,
    names: Sequence[str] | None = None,
    unchecked: bool = False,
) -> Combined:
    """Combine estimates and their variances, one of each per synthetic table.

    Parameters
    ----------
    estimates
        One entry per set; each may be an array (a vector of coefficients, say).
    variances
        The variances reported by an ordinary analysis of each set, in the same shape; or covariance
        matrices, ``[sets, k, k]``, for estimates ``[sets, k]``.
    synthesis
        How the sets were made: one of the words in :mod:`understudy.inference.combining`, or an object that
        knows, such as the result of ``synthesize_many``.
    rule
        Name of a rule; by default the one that fits the synthesis.
    size_ratio
        Rows of a synthetic set over rows of the real table.
    names
        Names of the estimates, for tables.
    unchecked
        Apply the rule even where it is known to be wrong, or where nobody says how the sets were made.

    Raises
    ------
    WrongPairing
        If the rule is not valid for sets that were made that way.

    Privacy
    -------
    In: analyses of released tables. Out: public. Post-processing.

    Examples
    --------
    >>> combined = combine([9.0, 10.0, 11.0], [1.0, 1.0, 1.0], synthesis="independent")
    >>> float(combined.estimate), round(float(combined.variance), 3), round(float(combined.df), 1)
    (10.0, 1.333, 32.0)
    >>> combine([9.0, 11.0], [1.0, 1.0], synthesis="resampled")
    Traceback (most recent call last):
    ...
    understudy.errors.WrongPairing: No rule is valid for sets drawn from one noisy fit: all of them repeat the same \
privacy noise, so their differences do not show it. Make the sets with how="posterior" or how="independent".
    """
    q = np.asarray(estimates, dtype=np.float64)
    v = np.asarray(variances, dtype=np.float64)
    kind = _kind(synthesis)
    chosen = choose_rule(rule, kind, unchecked=unchecked)
    _check_shapes(q, v, chosen, names)
    if not (math.isfinite(size_ratio) and size_ratio > 0):
        raise WorkloadError(f"size_ratio ({size_ratio}) must be positive and finite.")
    m = len(q)
    matrices = v.ndim == q.ndim + 1
    spread = q - q.mean(axis=0)
    between = (spread**2).sum(axis=0) / max(1, m - 1)
    mean_v = v.mean(axis=0)
    within = np.diagonal(mean_v).copy() if matrices else mean_v
    variance, df = chosen.compute(within, between, m, float(size_ratio))
    covariance = _covariance(chosen, spread, mean_v, variance, float(size_ratio)) if matrices else None
    draws = None
    estimate = q.mean(axis=0)
    if chosen.name == "percentile":
        if not unchecked and (within > _LARGE * between).any():
            raise WrongPairing(
                "The percentile rule takes the estimates as draws of the quantity itself, but their own sampling "
                f"variance is more than {_LARGE:.0%} of their spread. Draw sets with about 20 times as many rows as the "
                "real table (it costs no privacy), or use the rule 'full'."
            )
        # what little sampling variance the estimates have is taken out of their spread again
        estimate = np.median(q, axis=0)
        kept = 1 - np.minimum(within / np.where(between > 0, between, 1.0), 1.0)
        draws = np.sort(estimate + (q - estimate) * np.sqrt(kept), axis=0)
    return Combined(
        estimate=np.asarray(estimate),
        variance=np.asarray(variance),
        df=np.asarray(df),
        within=np.asarray(within),
        between=np.asarray(between),
        rule=chosen.name,
        synthesis=kind,
        sets=m,
        covariance=covariance,
        names=None if names is None else tuple(names),
        draws=draws,
    )


def combine_fits(
    fits: Sequence[Any], *, synthesis: Any = None, rule: str | None = None, **options: Any
) -> Combined:
    """Combine fitted models, one per synthetic table, such as the results of statsmodels.

    Each needs ``params`` and either ``cov_params()`` or ``bse`` (standard errors); names come from
    ``params.index`` where there is one, else from ``model.exog_names``. Options are those of :func:`combine`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> fits = [SimpleNamespace(params=[1.0, b], bse=[0.1, 0.2]) for b in (2.0, 2.2, 2.1)]
    >>> combine_fits(fits, synthesis="independent").estimate
    array([1. , 2.1])
    """
    if not fits:
        raise WorkloadError("Combining needs at least one fitted model.")
    parameters = [np.asarray(fit.params, dtype=np.float64).ravel() for fit in fits]
    if len({len(item) for item in parameters}) != 1:
        raise WorkloadError(
            "The fitted models have different numbers of parameters: a category may be absent from some sets. "
            "Fit all of them with the same categories."
        )
    known = [name for name in (_names_of(fit) for fit in fits) if name is not None]
    if len(set(known)) > 1:
        raise WorkloadError("The fitted models name their parameters differently; they cannot be combined.")
    if known and "names" not in options:
        options["names"] = known[0]
    return combine(
        np.stack(parameters),
        np.stack([_uncertainty(fit) for fit in fits]),
        synthesis=synthesis,
        rule=rule,
        **options,
    )


def _names_of(fit: Any) -> tuple[str, ...] | None:
    index = getattr(fit.params, "index", None)
    if index is not None and not callable(index):
        return tuple(str(name) for name in index)
    named = getattr(getattr(fit, "model", None), "exog_names", None)
    size = np.asarray(fit.params).size
    return tuple(str(name) for name in named) if named is not None and len(named) == size else None


def _uncertainty(fit: Any) -> Array:
    matrix = getattr(fit, "cov_params", None)
    if callable(matrix):
        return np.asarray(matrix(), dtype=np.float64)
    errors = getattr(fit, "bse", None)
    if errors is None:
        raise WorkloadError("A fitted model needs cov_params() or bse to be combined.")
    k = np.asarray(errors, dtype=np.float64).ravel()
    return np.diag(k**2)


def _kind(synthesis: Any) -> str | None:
    """Return the word for how the sets were made, from the word itself or from what made them."""
    return synthesis if synthesis is None or isinstance(synthesis, str) else str(synthesis.kind)


def _check_shapes(q: Array, v: Array, rule: Rule, names: Sequence[str] | None) -> None:
    if q.ndim < 1 or len(q) < rule.sets_needed:
        raise WorkloadError(
            f"The rule {rule.name!r} needs the estimates of at least {rule.sets_needed} sets, one per entry."
        )
    matrices = q.ndim == 2 and v.shape == (*q.shape, q.shape[1])
    if v.shape != q.shape and not matrices:
        raise WorkloadError(
            f"Estimates of shape {q.shape} need variances of the same shape or covariance matrices; got {v.shape}."
        )
    if not (np.isfinite(q).all() and np.isfinite(v).all()):
        raise WorkloadError(
            "Some estimates or variances are not finite numbers: an analysis did not converge."
        )
    if (v < 0).any() if not matrices else (np.diagonal(v, axis1=1, axis2=2) < 0).any():
        raise WorkloadError("Variances must not be negative.")
    if names is not None and q.ndim == 2 and len(names) != q.shape[1]:
        raise WorkloadError(f"There are {q.shape[1]} estimates and {len(names)} names.")


def _covariance(rule: Rule, spread: Array, within: Array, variance: Array, ratio: float) -> Array:
    """Return a covariance matrix whose diagonal is the variances.

    Rules that are sums of matrices are applied to matrices. A difference of matrices need not be a
    covariance, so for the others the correlations of one component carry the variances of the rule.
    """
    m = len(spread)
    between = spread.T @ spread / max(1, m - 1)
    weights = {"partial": 1 / m, "imputation": 1 + 1 / m}
    if rule.name in weights:
        return np.asarray(ratio * within + weights[rule.name] * between)
    base = within if rule.name.startswith("raab") else between
    scale = np.sqrt(np.maximum(np.diagonal(base), np.finfo(float).tiny))
    error = np.sqrt(variance)
    return np.asarray(base / np.outer(scale, scale) * np.outer(error, error))


def _t_quantile(level: float, df: Array) -> Array:
    """Return a quantile of Student's distribution; infinite degrees of freedom are normal."""
    finite = np.isfinite(df)
    return np.where(finite, special.stdtrit(np.where(finite, df, 1.0), level), special.ndtri(level))


def _t_below(value: Array, df: Array) -> Array:
    """Return the probability of a smaller value."""
    finite = np.isfinite(df)
    return np.where(finite, special.stdtr(np.where(finite, df, 1.0), value), special.ndtr(value))


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise WorkloadError(f"confidence ({confidence}) must lie between 0 and 1.")
