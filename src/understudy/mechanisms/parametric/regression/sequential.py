"""Sequential regression: each column from a private regression on the columns before it (paper DIPS, section 3.2.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

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
from understudy.mechanisms.parametric.margins import ladder_of
from understudy.mechanisms.parametric.regression.distribution import SequentialModel
from understudy.mechanisms.parametric.regression.layout import RegressionLayout
from understudy.mechanisms.parametric.regression.look import fit_softmax, objective_for
from understudy.mechanisms.parametric.regression.steps import fitted_steps, histogram_shares, total_rows
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Schema

Array = npt.NDArray[np.float64]
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
