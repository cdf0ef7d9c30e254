"""SLOMAG: normal numbers, then the categories one after another by logistic regression (paper DIPS, 4.3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.engine import Distribution
from understudy.engine.distributions.distribution import Simulated
from understudy.engine.distributions.product import Codes, Floats, Ints, Mixed
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import Statistic
from understudy.mechanisms.parametric.features import ONE, Feature, indicator
from understudy.mechanisms.parametric.look import MomentBlock
from understudy.mechanisms.parametric.modips.gaussian import (
    GaussianEvidence,
    GaussianParameters,
    draw_gaussian,
    mean_gaussian,
    naive_gaussian,
    pairs_of,
)
from understudy.mechanisms.parametric.modips.location import Bounds, draw_numbers
from understudy.mechanisms.parametric.modips.models import Ask, AskMoments, Setting
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# Multinomial logistic regression from its sufficient statistics alone, noisy or not.
#
# The likelihood of coefficients ``beta`` depends on the records through ``s = sum x 1[w = c]`` and through the values of the
# predictors. Only ``s`` is released. The predictors enter the score equation ``s = sum x p(c | x, beta)`` as an average
# over their distribution, for which a sample from the model fitted so far stands in.


_ROUNDS = 20
_PASSES = 2
_CLOSE = 1e-3
"""The distance is like a chi-square: an improvement this small is far below what the data can tell."""


def probabilities(design: Floats, coefficients: Floats) -> Floats:
    """Return the probability of each level for each row; level 0 is the reference.

    Parameters
    ----------
    coefficients
        Of shape (levels - 1, predictors).
    """
    scores = np.concatenate([np.zeros((len(design), 1)), design @ coefficients.T], axis=1)
    scores -= scores.max(axis=1, keepdims=True)
    odds = np.exp(scores)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float64)


def solve_logistic(
    statistic: Floats,
    design: Floats,
    *,
    rows: float,
    noise_variance: float,
    deviations: Floats,
    centre: Floats | None = None,
    start: Floats | None = None,
) -> Floats:
    """Return the coefficients that explain noisy sufficient statistics best.

    Parameters
    ----------
    statistic
        Released sums of predictors within each level but the first, of shape (levels - 1, predictors).
    design
        A sample of the predictors.
    rows
        Number of records behind the statistic.
    noise_variance
        Variance of the noise of each sum.
    deviations
        Prior standard deviation of each coefficient, of shape (levels - 1, predictors).
    centre
        Prior means; zero by default.
    start
        Where to begin; at the shares of the levels by default.

    Notes
    -----
    Minimises ``(s - m(b))' C^-1 (s - m(b)) + (b - centre)' D^-2 (b - centre)`` where ``m(b)`` is the expected statistic and ``C``
    the covariance of what was released: the information of the regression, first at the shares of the levels and then
    at the first solution, plus the noise. Without noise the solution is that of the penalised likelihood; with noise,
    directions that are mostly noise are left to the prior. Levenberg and Marquardt's method: every step descends.

    Examples
    --------
    >>> x = np.stack([np.ones(4), np.array([-1.0, -0.5, 0.5, 1.0])], axis=1)
    >>> exact = 100 * (x * probabilities(x, np.array([[0.2, 1.0]]))[:, [1]]).mean(axis=0)
    >>> wide = np.full((1, 2), 1e3)
    >>> solve_logistic(exact[None], x, rows=100, noise_variance=0.0, deviations=wide).round(3)
    array([[0.2, 1. ]])
    """
    found = _at_shares(statistic, rows, noise_variance) if start is None else start
    middle = np.zeros(found.size) if centre is None else centre.ravel()
    prior = np.diag(1.0 / deviations.ravel() ** 2)
    eye = np.eye(found.size)
    for _ in range(_PASSES):
        _, information = expectation(design, found, rows)
        covariance = information + (noise_variance + 1e-6 * rows) * eye
        weights = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        found = _descend(statistic, design, found, rows, weights, prior, middle)
    return found


def _descend(
    statistic: Floats,
    design: Floats,
    found: Floats,
    rows: float,
    weights: Floats,
    prior: Floats,
    middle: Floats,
) -> Floats:
    """Minimise the weighted distance to the statistic and to the prior means."""
    shape, damping = statistic.shape, 1e-3

    def distance(expected: Floats, b: Floats) -> float:
        gap, away = (statistic - expected).ravel(), b.ravel() - middle
        return float(gap @ weights @ gap) + float(away @ prior @ away)

    expected, information = expectation(design, found, rows)
    now = distance(expected, found)
    for _ in range(_ROUNDS):
        gradient = information @ (weights @ (statistic - expected).ravel()) - prior @ (found.ravel() - middle)
        curvature = information @ weights @ information + prior
        step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
        tried = found + step.reshape(shape)
        expected_there, information_there = expectation(design, tried, rows)
        there = distance(expected_there, tried)
        if there > now:
            damping *= 8
            if damping > 1e6:
                break
            continue
        improved = now - there
        found, expected, information, now = tried, expected_there, information_there, there
        damping = max(damping / 8, 1e-9)
        if improved < _CLOSE:
            break
    return found


def draw_logistic(
    statistic: Floats,
    design: Floats,
    generator: np.random.Generator,
    *,
    rows: float,
    noise_variance: float,
    deviations: Floats,
) -> Floats:
    """Draw coefficients from their posterior: perturb the statistic and the prior, then solve again.

    The perturbation of the statistic has the covariance of its sampling error and of its noise together. For normal
    errors around a linear map this is an exact draw; here it is one to first order.
    """
    options = {"rows": rows, "noise_variance": noise_variance, "deviations": deviations}
    best = solve_logistic(statistic, design, **options)  # type: ignore[arg-type]
    _, information = expectation(design, best, rows)
    values, vectors = np.linalg.eigh(information + noise_variance * np.eye(len(information)))
    error = vectors @ (np.sqrt(np.maximum(values, 0.0)) * generator.standard_normal(len(values)))
    shift = deviations * generator.standard_normal(deviations.shape)
    perturbed = statistic + error.reshape(statistic.shape)
    return solve_logistic(perturbed, design, centre=shift, start=best, **options)  # type: ignore[arg-type]


def _at_shares(statistic: Floats, rows: float, noise_variance: float) -> Floats:
    """Return coefficients that give every level its share, whatever the predictors; the constant comes first."""
    least = np.sqrt(noise_variance) + 1.0
    counts = np.clip(statistic[:, 0], least, None)
    rest = max(rows - float(counts.sum()), least)
    found = np.zeros(statistic.shape)
    found[:, 0] = np.log(counts / rest)
    return found


def expectation(design: Floats, coefficients: Floats, rows: float) -> tuple[Floats, Floats]:
    """Return the expected statistic and its covariance for so many records."""
    chances = probabilities(design, coefficients)[:, 1:]
    share = rows / len(design)
    levels, width = coefficients.shape
    spread = (chances[:, :, None] * design[:, None, :]).reshape(len(design), levels * width)
    information = -(spread.T @ spread)
    own = spread.T @ design
    for c in range(levels):
        block = slice(c * width, (c + 1) * width)
        information[block, block] += own[block]
    return share * spread.sum(axis=0).reshape(levels, width), share * information


Term = tuple[str, int, int]
"""A predictor: ``("one", 0, 0)``, ``("number", place, 0)``, or ``("level", factor, level)``."""

_LEAST_DESIGN, _MOST_DESIGN = 4_096, 32_768


@dataclass(frozen=True, eq=False)
class SlomagEvidence:
    """The released second moments of all predictors, and how to read them.

    Parameters
    ----------
    moments
        Noisy sums of products of two terms, of shape (terms, terms), symmetric, with the terms of :func:`terms_of`.
    total
        The number of records where it is known.
    aware
        Whether draws take the noise into account.
    deviation
        Prior standard deviation of coefficients of categories; those of numbers get twice as much.
    prior_weight, prior_variance
        Of the covariance of the numbers.
    """

    moments: Statistic
    total: int | None
    aware: bool
    deviation: float = 5.0
    prior_weight: float = 0.0
    prior_variance: float = 0.05


def terms_of(mixed: Mixed) -> tuple[Term, ...]:
    """Return every predictor of the model: the constant, the numbers, and each level but the first."""
    levels = [
        ("level", place, level)
        for place, factor in enumerate(mixed.factors)
        for level in range(1, factor.levels)
    ]
    return (("one", 0, 0), *(("number", place, 0) for place in range(len(mixed.numbers))), *levels)


def predictors_of(mixed: Mixed, factor: int) -> list[int]:
    """Return the places, among all terms, of what the regression of one factor uses.

    Whether a number is there is explained by the same question about the numbers before it; a category by all
    numbers, whether they are there, and the categories before it.
    """
    numeric = {number.column for number in mixed.numbers}
    about_presence = mixed.factors[factor].column in numeric
    used = []
    for place, (kind, which, _) in enumerate(terms_of(mixed)):
        earlier = kind == "level" and which < factor
        if kind == "one" or earlier or (kind == "number" and not about_presence):
            used.append(place)
    return used


@dataclass(frozen=True, eq=False)
class SlomagModel(Simulated):
    """Normal numbers, and categories by logistic regressions in the order of the factors.

    Factors that say whether a number is there come first.

    Attributes
    ----------
    coefficients
        For each factor, of shape (levels - 1, predictors).
    """

    mixed: Mixed
    parameters: GaussianParameters | None
    coefficients: tuple[Floats, ...]
    total: float
    evidence: SlomagEvidence
    bounds: Bounds = "clip"
    kind: str = "parametric-slomag"

    @property
    def domain(self) -> Domain:
        """The columns it speaks of."""
        return self.mixed.domain

    @classmethod
    def learn(
        cls,
        mixed: Mixed,
        evidence: SlomagEvidence,
        generator: np.random.Generator,
        *,
        parameters: Literal["draw", "mean"],
        bounds: Bounds = "clip",
    ) -> SlomagModel:
        """Return the model with parameters drawn from their posterior, or at their best values."""
        noisy = evidence.moments
        rows = _rows(evidence, generator, draw=parameters == "draw" and evidence.aware)
        learnt = _learn_numbers(mixed, evidence, rows, generator, parameters)
        size = int(np.clip(2 * rows, _LEAST_DESIGN, _MOST_DESIGN))
        growing = _Sample(mixed, learnt, size, bounds, generator)
        variance = noisy.variance if evidence.aware else 0.0
        found: list[Floats] = []
        places = {term: place for place, term in enumerate(terms_of(mixed))}
        for index, factor in enumerate(mixed.factors):
            used = predictors_of(mixed, index)
            statistic = np.stack(
                [noisy.values[places["level", index, level]][used] for level in range(1, factor.levels)]
            ) if factor.levels > 1 else np.zeros((0, len(used)))  # fmt: skip
            wide = np.array([2.0 if terms_of(mixed)[place][0] == "number" else 1.0 for place in used])
            deviations = np.broadcast_to(evidence.deviation * wide, statistic.shape)
            design = growing.design(used)
            if factor.levels == 1:
                made = statistic
            elif parameters == "draw":
                made = draw_logistic(
                    statistic, design, generator, rows=rows, noise_variance=variance, deviations=deviations
                )
            else:
                made = solve_logistic(
                    statistic, design, rows=rows, noise_variance=variance, deviations=deviations
                )
            found.append(made)
            growing.extend(design, made)
        return cls(mixed, learnt, tuple(found), rows, evidence, bounds)

    def posterior(self, generator: np.random.Generator) -> SlomagModel:
        """Return the model with parameters of a new draw from the posterior, given the same release."""
        drawn = SlomagModel.learn(self.mixed, self.evidence, generator, parameters="draw", bounds=self.bounds)
        return replace(drawn, total=self.total)

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique, from one fixed sample of records."""
        return [self._counted(clique) for clique in cliques]

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records, each independent of the others."""
        growing = _Sample(self.mixed, self.parameters, n, self.bounds, generator)
        for index, coefficients in enumerate(self.coefficients):
            growing.extend(growing.design(predictors_of(self.mixed, index)), coefficients)
        return self.mixed.assemble_levels(growing.levels, growing.t)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        meta, arrays = self.mixed.to_arrays()
        statistics = self.evidence
        meta |= {
            "total": self.total,
            "bounds": self.bounds,
            "known_total": statistics.total,
            "aware": statistics.aware,
            "prior": [statistics.deviation, statistics.prior_weight, statistics.prior_variance],
            "moments": [statistics.moments.name, statistics.moments.noise, statistics.moments.scale],
        }
        arrays["moments"] = statistics.moments.values
        arrays |= {f"coefficients-{index}": item for index, item in enumerate(self.coefficients)}
        if self.parameters is not None:
            arrays |= {"means": self.parameters.means, "covariance": self.parameters.covariance}
        return meta, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> SlomagModel:
        """Rebuild from the description and arrays of a model file."""
        mixed = Mixed.from_arrays(domain, meta, arrays)
        name, noise, scale = meta["moments"]
        moments = Statistic(str(name), arrays["moments"], noise, float(scale))
        statistics = SlomagEvidence(moments, meta["known_total"], meta["aware"], *meta["prior"])
        learnt = GaussianParameters(arrays["means"], arrays["covariance"]) if "means" in arrays else None
        found = tuple(arrays[f"coefficients-{index}"] for index in range(len(mixed.factors)))
        return cls(mixed, learnt, found, float(meta["total"]), statistics, meta["bounds"])


class _Sample:
    """Records that grow by one factor at a time."""

    def __init__(
        self,
        mixed: Mixed,
        parameters: GaussianParameters | None,
        rows: int,
        bounds: Bounds,
        generator: np.random.Generator,
    ) -> None:
        self.mixed, self.generator = mixed, generator
        width = len(mixed.numbers)
        self.t = np.zeros((rows, width))
        if parameters is not None:
            means = np.broadcast_to(parameters.means[0], (rows, width))
            self.t = draw_numbers(means, parameters.covariance, bounds, generator)
        self.levels: list[Ints] = []

    def design(self, used: Sequence[int]) -> Floats:
        """Return the predictors at the given places among all terms."""
        return np.stack(list(self._columns(used)), axis=1)

    def _columns(self, used: Sequence[int]) -> Iterator[Floats]:
        terms = terms_of(self.mixed)
        for place in used:
            kind, which, level = terms[place]
            if kind == "one":
                yield np.ones(len(self.t))
            elif kind == "number":
                yield np.clip(self.t[:, which], -1.0, 1.0) * self._there(which)
            else:
                yield (self.levels[which] == level).astype(np.float64)

    def _there(self, number: int) -> Floats:
        column = self.mixed.numbers[number].column
        for place, factor in enumerate(self.mixed.factors[: len(self.levels)]):
            if factor.column == column:
                return np.asarray(self.levels[place] == 0, dtype=np.float64)
        return np.ones(len(self.t))

    def extend(self, design: Floats, coefficients: Floats) -> None:
        """Draw the next factor."""
        line = np.cumsum(probabilities(design, coefficients), axis=1)
        point = self.generator.random(len(design))[:, None] * line[:, -1:]
        self.levels.append(np.asarray((line <= point).sum(axis=1).clip(0, line.shape[1] - 1), dtype=np.int64))


def _rows(evidence: SlomagEvidence, generator: np.random.Generator, *, draw: bool) -> float:
    if evidence.total is not None:
        return float(max(1, evidence.total))
    statistics = float(evidence.moments.values[0, 0])
    if draw:
        statistics += float(generator.normal(0.0, np.sqrt(evidence.moments.variance)))
    return max(1.0, float(round(statistics)))


def _learn_numbers(
    mixed: Mixed,
    evidence: SlomagEvidence,
    rows: float,
    generator: np.random.Generator,
    parameters: Literal["draw", "mean"],
) -> GaussianParameters | None:
    """Learn the normal law of the numbers from the corner of the moments that concerns them.

    Where numbers can be missing, sums over the records that have them are scaled up to all records, and the noise
    with them.
    """
    d = len(mixed.numbers)
    if d == 0:
        return None
    values = evidence.moments.values
    there = _pairs_there(mixed, values, rows)
    i, j = pairs_of(d)
    up = rows / np.maximum(there, 1.0)
    noise, scale = evidence.moments.noise, evidence.moments.scale
    sums = Statistic(
        "sums", (values[0, 1 : d + 1] * np.diag(up))[None], noise, scale * float(np.diag(up).max())
    )
    second = values[1 : d + 1, 1 : d + 1] * up
    gaussian = GaussianEvidence(
        sums,
        Statistic("second moments", second[i, j], noise, scale * float(up.max())),
        np.ones((1, d), dtype=bool),
        evidence.prior_weight,
        evidence.prior_variance,
    )
    counts = np.array([rows])
    if not evidence.aware:
        return naive_gaussian(gaussian, counts, generator)
    if parameters == "mean":
        return mean_gaussian(gaussian, counts, generator)
    return draw_gaussian(gaussian, counts, generator)


def _pairs_there(mixed: Mixed, values: Floats, rows: float) -> Floats:
    """Estimate in how many records each pair of numbers is there."""
    d = len(mixed.numbers)
    absent = [
        [
            place
            for place, (kind, which, _) in enumerate(terms_of(mixed))
            if kind == "level" and mixed.factors[which].column == number.column
        ]
        for number in mixed.numbers
    ]
    there = np.zeros((d, d))
    for a in range(d):
        for b in range(d):
            missing = values[0, absent[a]].sum()
            if a != b:
                missing += values[0, absent[b]].sum() - values[np.ix_(absent[a], absent[b])].sum()
            there[a, b] = np.clip(rows - missing, min(rows, 1.0 + 0.02 * rows), rows)
    return there


LARGEST = 400


@dataclass(frozen=True)
class SequentialLogistic:
    """Sequential logistic regressions with Gaussian margins.

    The statistic is the matrix of second moments of all predictors: the constant, the numbers and the indicators of
    every level. It holds the moments of the numbers and, for each regression, the sums of the predictors within
    each level, which are the sufficient statistics of its coefficients (the ``a`` and ``b`` of the paper's equation
    4.3). The paper instead adds noise to draws of the coefficients, with the sensitivity of an optimiser, which
    does not hold for draws.

    Parameters
    ----------
    order
        Categories in the order of the regressions; those not named follow in the order of the schema.
    """

    order: tuple[str, ...] = ()
    name: str = "slomag"

    def _mixed(self, setting: Setting) -> Mixed:
        unknown = [
            name for name in self.order if name not in setting.domain.names or name in setting.continuous
        ]
        if unknown:
            raise WorkloadError(f"order: {', '.join(unknown)} cannot be put in order; name categories only.")
        return setting.mixed(presence_first=True, order=self.order)

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the second moments of all predictors."""
        mixed = self._mixed(setting)
        terms = terms_of(mixed)
        if len(terms) > LARGEST:
            raise DomainTooLarge(
                f"slomag has {len(terms):,} predictors; at most {LARGEST:,} are allowed. Use coarser categories, "
                "fewer columns, or the model multinomial.",
                cells=len(terms) ** 2,
                allowed=LARGEST**2,
            )
        return (AskMoments(self._block(setting, mixed), 1.0),)

    def _block(self, setting: Setting, mixed: Mixed) -> MomentBlock:
        features: list[Feature] = []
        for kind, which, level in terms_of(mixed):
            if kind == "one":
                features.append(ONE)
            elif kind == "number":
                features.append(setting.standards[which].feature)
            else:
                factor = mixed.factors[which]
                codes = np.flatnonzero(factor.labels == level).tolist()
                features.append(indicator(factor.column, codes, len(factor.labels)))
        return MomentBlock.second("second moments of all predictors", features)

    def cells(self, setting: Setting) -> int:
        """Return the number of moments."""
        return len(terms_of(self._mixed(setting))) ** 2

    def learn(
        self, setting: Setting, statistics: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the sequence of regressions."""
        mixed = self._mixed(setting)
        block = self._block(setting, mixed)
        matrix = block.matrix(statistics[0].values * block.unit)[0]
        moments = Statistic(statistics[0].name, matrix, statistics[0].noise, statistics[0].scale)
        prior = setting.priors
        evidence = SlomagEvidence(
            moments, setting.rows, setting.aware, prior.deviation, prior.weight, prior.variance
        )
        return SlomagModel.learn(
            mixed, evidence, generator, parameters=setting.parameters, bounds=setting.bounds
        )
