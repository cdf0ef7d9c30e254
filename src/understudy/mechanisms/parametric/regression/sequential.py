"""Sequential regression: each column from a private regression on the columns before it (paper DIPS, section 3.2.3).

What becomes of the coefficients that were released is post-processing throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from understudy.curator import Curator, measure_numbers
from understudy.errors import BudgetError, DomainTooLarge
from understudy.inference import History
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.options import at_least, one_of, refuse
from understudy.mechanisms.parametric.look import moment_noise, seal_moments
from understudy.mechanisms.parametric.margins import (
    Ladder,
    combined_total,
    ladder_of,
    noise_variance,
    proportions_of,
    refine,
)
from understudy.mechanisms.parametric.regression.distribution import (
    ClassStep,
    LineStep,
    SequentialModel,
    Step,
    TableStep,
    class_probabilities,
    draw_step,
    line_values,
)
from understudy.mechanisms.parametric.regression.layout import RegressionLayout
from understudy.mechanisms.parametric.regression.look import fit_softmax, objective_for
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Schema

# ----------------------------------------------------------------------------------------
# Coefficients from noisy moments. Post-processing throughout.

Array = npt.NDArray[np.float64]


def line_from(
    gram: Array, cross: Array, square: float, *, rows: float, noise: float, finest: float
) -> tuple[Array, float]:
    """Return coefficients and error deviation of a least-squares fit to noisy moments (functional mechanism).

    Parameters
    ----------
    gram, cross, square
        Sums over records of products of predictors, of predictors and target, and of the squared target.
    rows
        Number of records.
    noise
        Standard deviation of the noise of each sum.
    finest
        Smallest deviation worth telling apart.

    Notes
    -----
    Noise of this size moves the eigenvalues of the matrix of products by up to about ``2 noise sqrt(width)``. What
    the smallest one lacks to that is added to all (a ridge), so that directions that cannot be told from noise do not
    blow up. The ridge vanishes as the budget grows.

    Examples
    --------
    >>> x = np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> y = np.array([0.1, 0.5])
    >>> line, deviation = line_from(x.T @ x, x.T @ y, y @ y, rows=2.0, noise=0.0, finest=0.01)
    >>> line.round(6), deviation
    (array([0.3, 0.2]), 0.01)
    """
    matrix = (gram + gram.T) / 2
    width = len(matrix)
    needed = max(2.0 * noise * math.sqrt(width), 1e-9 * max(rows, 1.0))
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    matrix = matrix + max(0.0, needed - smallest) * np.eye(width)
    coefficients = np.asarray(np.linalg.solve(matrix, cross), dtype=np.float64)
    left = (square - 2 * float(coefficients @ cross) + float(coefficients @ gram @ coefficients)) / max(
        rows, 1.0
    )
    spread = float(np.clip(square / max(rows, 1.0), finest**2, 1.0))
    return coefficients, math.sqrt(float(np.clip(left, finest**2, max(spread, finest**2))))


def classes_from(predictors: Array, moments: Array, *, ridge: float) -> Array:
    """Return the weights whose class probabilities have given mean products with the predictors.

    Maximum likelihood chooses weights for which the mean of ``p_k x`` equals that of ``1{class k} x`` in the records;
    here the first mean is taken over predictors drawn from the model so far, the second is the noisy moment.

    Parameters
    ----------
    predictors
        Records drawn from the columns before, of shape (records, predictors).
    moments
        Noisy mean of the indicator of each class but the first times each predictor.
    ridge
        Strength of the quadratic penalty on everything but the constant, per record. The first predictor is the
        constant; the others are centred, so that class proportions are met whatever the penalty.

    Examples
    --------
    >>> classes_from(np.ones((10, 1)), np.array([[0.75]]), ridge=0.0).round(3)
    array([[1.099]])
    """
    centre = predictors.mean(axis=0)
    centre[0] = 0.0
    centred = predictors - centre
    wanted = moments - np.outer(centre, moments[0])
    eigenvalues, vectors = np.linalg.eigh(centred[:, 1:].T @ centred[:, 1:] / len(centred))
    # in these coordinates the second derivatives are close to a multiple of the identity
    largest = float(eigenvalues[-1]) if len(eigenvalues) else 1.0
    whiten = np.eye(len(centre))
    whiten[1:, 1:] = vectors / np.sqrt(np.maximum(eigenvalues, 1e-6 * max(largest, 1e-6)) + 4 * ridge)
    turned, goal = centred @ whiten, whiten.T @ wanted
    penalty = np.full((len(centre), 1), ridge)
    penalty[0] = min(ridge, 1e-6)

    def objective(flat: Array) -> tuple[float, Array]:
        v = flat.reshape(moments.shape)
        logits = turned @ v
        peak = np.maximum(logits.max(axis=1), 0.0)
        np.exp(logits - peak[:, None], out=logits)
        whole = np.exp(-peak) + logits.sum(axis=1)
        weights = whiten @ v
        value = float((peak + np.log(whole)).mean()) + float((penalty * weights**2).sum()) / 2
        slope = turned.T @ (logits / whole[:, None]) / len(turned) - goal + whiten.T @ (penalty * weights)
        return value - float((goal * v).sum()), slope.ravel()

    found = minimize(
        objective,
        np.zeros(moments.size),
        jac=True,
        method="L-BFGS-B",
        # a tenth of what the penalty allows for noise is as exact as it need be
        options={"maxiter": 200, "maxcor": 20, "ftol": 1e-11, "gtol": max(1e-6, 0.4 * ridge)},
    )
    weights = np.asarray(whiten @ found.x.reshape(moments.shape), dtype=np.float64)
    weights[0] -= centre @ weights
    return weights


LARGEST_EFFECT = 8.0
"""Size of coefficients of classes up to which the noise of moments is given a say; see the ridge."""
DRAWN = 8_192
"""Records drawn from the columns so far to fit the next one to its moments."""


def total_rows(
    known: int | None, released: list[Measurement], noise: list[Noise], matrix: Array, deviation: float
) -> float:
    """Estimate the number of rows from everything that counts them."""
    if known is not None:
        return float(max(1, known))
    found = [
        (float(item.values.sum()), noise_variance(kind) * item.values.size)
        for item, kind in zip(released, noise, strict=True)
    ]
    if matrix.size:
        found.append((float(matrix[0, 0]), deviation**2))
    return combined_total(found)


def histogram_shares(
    layout: RegressionLayout,
    released: list[Measurement],
    noise: list[Noise],
    owners: list[str],
    total: float,
) -> dict[str, Array]:
    """Return the proportions of each histogram, one row per combination of groups of earlier columns."""
    made = {}
    for name in layout.tables:
        column = layout.schema.column(name)
        mine = [place for place, owner in enumerate(owners) if owner == name]
        given = [other for other, _ in layout.given(name)]
        order = layout.schema.domain.canonical([*given, name])
        axes = [order.index(other) for other in [*given, name]]
        counts = [np.transpose(released[place].values, axes) for place in mine]
        flat = [step.reshape(-1, step.shape[-1]) for step in counts]
        variances = [noise_variance(noise[place]) for place in mine]
        rows = np.array([total])
        if len(flat[0]) > 1:
            sums = sum(
                step.sum(axis=1) / (v * step.shape[1]) for step, v in zip(flat, variances, strict=True)
            )
            weight = sum(1.0 / (v * step.shape[1]) for step, v in zip(flat, variances, strict=True))
            cells = Ladder("cells", (np.arange(len(flat[0])),))
            rows = refine(cells, [np.atleast_2d(sums / weight)], [1.0 / weight], [total])[0]
        made[name] = proportions_of(refine(ladder_of(column), flat, variances, rows))
    return made


def fitted_steps(
    layout: RegressionLayout,
    shares: dict[str, Array],
    weights: dict[str, Array],
    matrix: Array,
    deviation: float,
    total: float,
) -> list[Step]:
    """Fit the steps one after the other; what needs predictors draws them from the steps before."""
    predictors = _Predictors(layout)
    steps: list[Step] = []
    softmax = {model.target: model for model in layout.regressions}
    for name in layout.order:
        role = layout.role(name)
        before, own = layout.places(name)
        classes = weights.get(name)
        if name in softmax and classes is None:
            skip = 0 if role == "classes" else 1  # the position of a number comes before its extra codes
            ridge = max(1e-7, deviation / total / LARGEST_EFFECT)
            classes = classes_from(predictors.x, matrix[before, own][:, skip:] / total, ridge=ridge)
        step: Step
        if role == "histogram":
            step = TableStep(name, layout.given(name), shares[name])
        elif role == "classes":
            assert classes is not None
            step = ClassStep(name, classes)
        else:
            gram, rows = matrix[before, before], total
            if classes is not None:  # only records with a number count
                there = class_probabilities(predictors.x, classes)[:, 0]
                gram = (predictors.x * there[:, None]).T @ predictors.x * (total / DRAWN)
                rows = max(1.0, total * float(there.mean()))
            positions = layout.positions(name)
            coefficients, spread = line_from(
                gram,
                matrix[before, own.start],
                float(matrix[own.start, own.start]),
                rows=rows,
                noise=deviation,
                finest=max(1e-3, float(np.diff(positions).mean()) / 2),
            )
            edges = _edges(positions)
            if layout.ranked:
                histogram = shares[name][0, : len(positions)]
                edges = predictors.edges(coefficients, spread, histogram, classes)
            step = LineStep(name, coefficients, spread, edges, classes)
        steps.append(step)
        predictors.add(step)
    return steps


def _edges(positions: Array) -> Array:
    """Return edges half way between positions; the first and the last code are as wide on both sides."""
    inner = (positions[1:] + positions[:-1]) / 2
    return np.concatenate([[2 * positions[0] - inner[0]], inner, [2 * positions[-1] - inner[-1]]])


class _Predictors:
    """Draws predictors from the steps fitted so far, with a fixed seed; everything it uses is released."""

    def __init__(self, layout: RegressionLayout) -> None:
        self._layout = layout
        self._codes = np.zeros((DRAWN, len(layout.order)), dtype=np.uint32)
        self._generator = np.random.default_rng(0)
        self.x = np.ones((DRAWN, 1))

    def edges(self, coefficients: Array, deviation: float, histogram: Array, state: Array | None) -> Array:
        """Return edges of codes such that draws of a regression, where they are made, have a given histogram."""
        uniform = self._generator.permutation((np.arange(DRAWN) + 0.5) / DRAWN)
        drawn = line_values(self.x @ coefficients, deviation, -np.inf, np.inf, uniform)
        there = np.ones(DRAWN) if state is None else class_probabilities(self.x, state)[:, 0]
        order = np.argsort(drawn)
        below = (np.cumsum(there[order]) - there[order] / 2) / max(float(there.sum()), 1e-9)
        running = np.cumsum(proportions_of(histogram))[:-1]
        inner = np.interp(running, below, drawn[order])
        inner[running <= 0] = -np.inf
        inner[running >= 1] = np.inf
        return np.concatenate([[-np.inf], inner, [np.inf]])

    def add(self, step: Step) -> None:
        """Draw one more column."""
        domain = self._layout.schema.domain
        drawn = draw_step(step, self.x, self._codes, domain, self._generator)
        self._codes[:, domain.index(step.column)] = drawn
        self.x = np.concatenate([self.x, self._layout.features[step.column][drawn]], axis=1)


SCALES = ("ranks", "values")
CLASSIFIERS = ("moments", "objective")
MAX_FEATURES = 600


@dataclass(frozen=True, kw_only=True)
class SequentialRegression(Synthesizer):
    """Draw columns one after the other, each from a private regression on all columns before it.

    The first column is a histogram. An ordered column with more than ``max_classes`` values is a linear regression with
    normal errors (functional mechanism), a column with few codes a logistic or multinomial regression, and an unordered column with
    many codes a histogram within coarse groups of the columns before it. Missing and other entries are extra classes.

    Parameters
    ----------
    order
        All columns in the order of drawing; by default that of the schema. Public.
    classifier
        ``"moments"`` (default): logistic and multinomial regressions fitted to noisy sums of class indicators times
        predictors, measured together with the moments of the linear regressions. ``"objective"``: each by objective
        perturbation, with a share of the budget of its own.
    scale
        How regressions see a number. ``"ranks"`` (default): by the normal score of its rank in a histogram that is
        measured first, so that drawn numbers have that histogram whatever its shape. ``"values"``: by its value; errors are then
        normal on the scale of the values, and no histogram is measured but that of the first column.
    histograms
        Columns to be modelled by histograms whatever their kind.
    max_classes
        Most codes of a column that is modelled by classes, and most classes of an ordered column before it becomes a
        number.
    max_cells
        Most combinations of groups of earlier columns that a histogram is divided by.

    Privacy
    -------
    Three kinds of looks, whose costs add up to at most the budget. (1) Histograms: counts over coarse public
    groups, each changed by one unit as any histogram. (2) One block of sums of products of bounded numbers, for all
    linear regressions (and classes fitted to moments) together: exact sensitivities in :mod:`understudy.mechanisms.parametric.look`.
    (3) Classes by objective perturbation: an ``epsilon``-DP mechanism with its own proof, which needs neither exact minima nor real
    numbers: :mod:`understudy.mechanisms.parametric.regression.look`; charged under zCDP and GDP by what a pure mechanism costs there.
    The order is public. Coefficients and drawing are post-processing; fitting classes to moments draws
    predictors from the columns released so far.

    Examples
    --------
    >>> SequentialRegression(classifier="objective").name
    'sequential-regression'
    """

    name: ClassVar[str] = "sequential-regression"
    summary: ClassVar[str] = (
        "each column from a private linear, logistic or multinomial regression on those before it"
    )
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on histograms and moments; or Laplace on objectives",
        papers={Paper.DIPS: "sections 3.2.3 and 4.3.2"},
        origin="Zhang et al. 2012; Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012",
    )

    order: tuple[str, ...] | None = None
    classifier: str = "moments"
    scale: str = "ranks"
    histograms: tuple[str, ...] = ()
    max_classes: int = 12
    max_cells: int = 32

    def __post_init__(self) -> None:
        refuse(
            one_of(self, "classifier", CLASSIFIERS),
            one_of(self, "scale", SCALES),
            at_least(self, 2, "max_classes"),
            at_least(self, 1, "max_cells"),
        )
        for option in ("order", "histograms"):
            value = getattr(self, option)
            if isinstance(value, str):
                raise BudgetError(f"{option} must be a list of column names.")
            if value is not None:
                object.__setattr__(self, option, tuple(value))

    # ------------------------------------------------------------------ before

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of all histograms, coefficients and moments."""
        layout = self._layout(schema)
        tables, regressions, moments = _costs(layout, accounting, cost)
        looks: list[tuple[float, Noise]] = []
        for name, each in zip(layout.tables, tables, strict=True):
            ladder = ladder_of(schema.column(name))
            share = accounting.split(each, [1.0] * len(ladder.steps))[0]
            looks.append((ladder.size, noise_for(accounting, unit, share)))
        together = total_deviation(looks)
        for model, each in zip(layout.regressions, regressions, strict=False):
            objective = objective_for(model, unit, accounting.pure_epsilon(each))
            together += model.parameters * math.sqrt(objective.noise.variance) * objective.step
        if layout.block is not None:
            block, noise = moment_noise(
                layout.block,
                schema.domain,
                unit,
                accounting,
                moments,
                rows_fixed=total_is_public(schema, unit),
            )
            together += total_deviation([(len(block.pairs), noise)]) / block.unit
        return together

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how each column is modelled and how noisy that will be, or refuse with a reason."""
        accounting = self.accounting(budget, schema, unit)
        layout = self._layout(schema)
        tables, regressions, moments = _costs(layout, accounting, accounting.total(budget))
        notes = [f"Columns are drawn in the order {', '.join(layout.order)}."]
        ignored = [name for name in layout.order[:-1] if not layout.features[name].shape[1]]
        if ignored:
            notes.append(f"Too many codes without an order to predict other columns: {', '.join(ignored)}.")
        measurements = []
        for name, cost in zip(layout.tables, tables, strict=True):
            ladder = ladder_of(schema.column(name))
            if len(ladder.steps) == 1 and not layout.given(name):
                measurements.append(
                    PlannedMeasurement((name,), ladder.size, noise_for(accounting, unit, cost))
                )
        for model, cost in zip(layout.regressions, regressions, strict=False):
            objective = objective_for(model, unit, accounting.pure_epsilon(cost))
            notes.append(
                f"{model.target}: {model.parameters} coefficients, ridge {objective.ridge:.3g}, gradients with noise of "
                f"scale {objective.noise.scale * objective.step:.4g} rows."
            )
        if layout.block is not None:
            fixed = total_is_public(schema, unit)
            block, noise = moment_noise(
                layout.block, schema.domain, unit, accounting, moments, rows_fixed=fixed
            )
            notes.append(
                f"{len(block.pairs)} moments with {noise.kind} noise of scale {noise.scale / block.unit:.4g} rows."
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(measurements),
            model_cells=layout.cells,
            notes=tuple(notes),
        )

    def _layout(self, schema: Schema) -> RegressionLayout:
        """Choose the model of every column, from public facts alone."""
        layout = RegressionLayout(
            schema,
            schema.names if self.order is None else self.order,
            frozenset(self.histograms),
            self.max_classes,
            self.max_cells,
            self.classifier != "objective",
            self.scale == "ranks",
        )
        width = 1 + sum(table.shape[1] for table in layout.features.values())
        if width > MAX_FEATURES:
            raise DomainTooLarge(
                f"The columns give {width:,} predictors; sequential-regression takes at most {MAX_FEATURES:,}. Lower "
                "max_classes, use coarser bins, or leave columns out.",
                cells=width,
                allowed=MAX_FEATURES,
            )
        return layout

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        layout = self._layout(curator.schema)
        accounting, unit, domain = curator.accounting, curator.unit, curator.domain
        tables, regressions, moments = _costs(layout, accounting, curator.remaining)
        progress("histograms", 0.1)
        released, noise, owners = _measure_tables(curator, layout, tables)
        counted = total_rows(curator.rows.number, released, noise, np.zeros((0, 0)), 0.0)
        shares = histogram_shares(layout, released, noise, owners, counted)
        layout = layout.with_ranks(shares)
        statistics: list[Statistic] = []
        weights: dict[str, Array] = {}
        for place, (model, cost) in enumerate(zip(layout.regressions, regressions, strict=False)):
            progress("regressions", 0.2 + 0.5 * place / len(regressions))
            statistic = fit_softmax(
                curator, model, epsilon=accounting.pure_epsilon(cost), purpose=f"regression of {model.target}"
            )
            statistics.append(statistic)
            weights[model.target] = statistic.values
        matrix, deviation = np.zeros((0, 0)), 0.0
        if layout.block is not None:
            progress("moments", 0.7)
            block, kind = moment_noise(
                layout.block, domain, unit, accounting, moments, rows_fixed=curator.rows.fixed
            )
            statistic = measure_numbers(
                curator, seal_moments(curator, [block]), noise=[kind], purpose="moments of the regressions"
            )[0]
            statistics.append(statistic)
            matrix = block.matrix(statistic.values)[0]
            deviation = math.sqrt(statistic.variance) / block.unit
        progress("fitting", 0.8)
        total = total_rows(curator.rows.number, released, noise, matrix, deviation)
        steps = fitted_steps(layout, shares, weights, matrix, deviation, total)
        distribution = SequentialModel(domain, total, tuple(steps), layout.features)
        plain = [item for item in released if item.values.shape == domain.shape(item.clique)]
        statistics += [
            Statistic(
                f"{', '.join(item.clique)} in {item.values.size} groups", item.values, item.noise, item.scale
            )
            for item in released
            if item.values.shape != domain.shape(item.clique)
        ]
        progress("done", 1.0)
        return Fitted(
            distribution, plain, history=History.planned(len(plain)) if plain else None, statistics=statistics
        )


def _costs(
    layout: RegressionLayout, accounting: Accounting, total: float
) -> tuple[list[float], list[float], float]:
    """Divide the budget among histograms, regressions by objective perturbation, and moments."""
    tables, regressions, moments = layout.weights
    weights = [*tables, *regressions, *([moments] if moments else [])]
    costs = accounting.split(total, weights)
    first, second = len(tables), len(tables) + len(regressions)
    return list(costs[:first]), list(costs[first:second]), costs[second] if moments else 0.0


def _measure_tables(
    curator: Curator, layout: RegressionLayout, costs: list[float]
) -> tuple[list[Measurement], list[Noise], list[str]]:
    """Measure every histogram on the grids of its column."""
    looks, noise, owners = [], [], []
    for name, cost in zip(layout.tables, costs, strict=True):
        ladder = ladder_of(curator.schema.column(name))
        given = dict(layout.given(name))
        shares = curator.accounting.split(cost, [1.0] * len(ladder.steps))
        for step, share in zip(ladder.steps, shares, strict=True):
            looks.append({**given, name: step})
            noise.append(noise_for(curator.accounting, curator.unit, share))
            owners.append(name)
    sealed = curator.counts_grouped(looks)
    return (
        curator.measure_many(sealed, noise=noise, purpose=f"measure {len(looks)} histograms"),
        noise,
        owners,
    )
