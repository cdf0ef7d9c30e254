"""MODIPS: sanitise the sufficient statistics of a Bayesian model, draw its parameters, draw records (paper DIPS, 3.2.2)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from understudy.curator import Curator, measure_numbers
from understudy.errors import BudgetError, WorkloadError
from understudy.inference import History
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    total_deviation,
)
from understudy.mechanisms.options import at_least, positive, refuse, unused
from understudy.mechanisms.parametric.look import moment_noise, seal_moments
from understudy.mechanisms.parametric.modips.conjugate import Conjugate, ConjugateModel
from understudy.mechanisms.parametric.modips.glom import GeneralLocation, Normal, Saturated
from understudy.mechanisms.parametric.modips.loglinear import Loglinear
from understudy.mechanisms.parametric.modips.models import (
    Ask,
    AskCounts,
    AskMoments,
    Averaging,
    Multinomial,
    ParametricModel,
    Priors,
    Setting,
    can_be_number,
)
from understudy.mechanisms.parametric.modips.slomag import SequentialLogistic
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Gaussian, Laplace, Noise, Unit, noise_for
from understudy.schema import Domain, Schema

MODELS = ("auto", "normal", "multinomial", "saturated", "loglinear", "glom", "slomag", "average", "conjugate")
_SMALLEST_SCALE = 2.0**-20


_NUMBERS = {"auto", "normal", "glom", "slomag"}
_USERS: tuple[tuple[tuple[str, ...], set[str]], ...] = (
    (("generators",), {"loglinear"}),
    (("conjugate",), {"conjugate"}),
    (("models", "weights"), {"average"}),
    (("order",), {"auto", "slomag"}),
    (("deviation",), {"auto", "slomag"}),
    (("prior_weight", "prior_variance", "bounds"), _NUMBERS),
    (("max_cells",), {"auto", "normal", "saturated", "glom"}),
    (("alpha",), {"auto", "multinomial", "saturated", "glom", "conjugate"}),
)
"""Options that only some models look at."""


@dataclass(frozen=True, kw_only=True)
class Modips(Synthesizer):
    """Noisy sufficient statistics of a parametric model, parameters from their posterior, records from the model.

    Parameters
    ----------
    model
        ``"normal"``: all columns are numbers with one mean and covariance. ``"multinomial"``: one multinomial per
        column, columns independent. ``"saturated"``: one multinomial over the full cross-tabulation.
        ``"loglinear"``: a log-linear model with the given ``generators``. ``"glom"``: the general location model, a table
        of the categories and normal numbers within each cell. ``"slomag"``: normal numbers, then the categories one
        after another by logistic regression. ``"average"``: the ``models`` with their ``weights``. ``"conjugate"``:
        models of your own (``conjugate``). ``"auto"``: normal without categories, saturated without numbers, glom for
        mixed tables; with more than ``max_cells`` cells slomag, or multinomial without numbers.
    continuous
        Columns taken as numbers; by default those of numbers or dates with more than ``few`` bins.
    few
        See ``continuous``.
    generators
        Of the log-linear model: sets of columns whose interactions it keeps.
    order
        Of slomag: categories in the order of their regressions.
    models, weights
        Of the average: names of models and their plausibility, which must not come from this table.
    conjugate
        Models of your own; see :class:`~understudy.mechanisms.parametric.modips.conjugate.ConjugateModel`.
    posterior
        ``"noise-aware"`` (default): parameters are drawn given the noisy statistics and the law of their noise.
        ``"naive"``: as if the statistics were exact, after moving impossible ones to the nearest possible (the paper).
    parameters
        ``"draw"`` (default): the model is one draw from the posterior, as in the paper. ``"mean"``: the best single
        table, at the posterior mean (for log-linear models and slomag, the best fit).
    bounds
        What happens to a number drawn beyond the ends of its column: ``"clip"`` (the paper) or ``"redraw"``.
    alpha
        Prior weight of each cell, in records; by default 1/2, and 12 divided by the number of cells beyond 24 cells.
    prior_weight, prior_variance
        Inverse Wishart prior of the covariance on the scale where columns range from -1 to 1: degrees of freedom
        beyond the number of columns, and scale.
    deviation
        Prior standard deviation of logistic coefficients.
    max_cells
        Most cells of a table that is enumerated.

    Privacy
    -------
    Two kinds of looks, whose costs add up to at most the budget: counts of cells, which partition the records, with the
    sensitivity of any histogram; and sums over records of products of bounded public numbers, with the
    sensitivities of :mod:`understudy.mechanisms.parametric.look`. Laplace noise under pure accounting, Gaussian noise otherwise. Posterior draws
    and records see only noisy statistics: post-processing. Several sets
    (:func:`~understudy.mechanisms.multiple.synthesize_many`) either share one release or divide the budget.

    Examples
    --------
    >>> Modips(model="loglinear", generators=(("age", "smokes"), ("colour",))).name
    'modips'
    """

    name: ClassVar[str] = "modips"
    summary: ClassVar[str] = "noisy sufficient statistics of a Bayesian model, then draws from its posterior"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on sufficient statistics",
        papers={Paper.DIPS: "section 3.2.2"},
        origin="Liu 2016; Bernstein and Sheldon 2018 for noise-aware draws",
    )

    model: str = "auto"
    continuous: tuple[str, ...] | None = None
    few: int = 32
    generators: tuple[tuple[str, ...], ...] = ()
    order: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    conjugate: tuple[ConjugateModel, ...] = ()
    posterior: Literal["noise-aware", "naive"] = "noise-aware"
    parameters: Literal["draw", "mean"] = "draw"
    bounds: Literal["clip", "redraw"] = "clip"
    alpha: float | None = None
    prior_weight: float = 0.0
    prior_variance: float = 0.05
    deviation: float = 5.0
    max_cells: int = 20_000

    def __post_init__(self) -> None:
        for name, allowed in (
            ("model", MODELS),
            ("posterior", ("noise-aware", "naive")),
            ("parameters", ("draw", "mean")),
            ("bounds", ("clip", "redraw")),
        ):
            if getattr(self, name) not in allowed:
                raise BudgetError(f"{name} ({getattr(self, name)!r}) must be one of {', '.join(allowed)}.")
        for name in ("continuous", "order", "models", "weights", "conjugate", "generators"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise BudgetError(f"{name} must be a list.")
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "generators", tuple(tuple(clique) for clique in self.generators))
        refuse(
            positive(self, "prior_variance", "deviation"),
            positive(self, "alpha", optional=True),
            at_least(self, 0, "prior_weight"),
            at_least(self, 2, "few", "max_cells"),
            [] if self.continuous is None else unused(self, "few", because="continuous names the columns"),
            *(
                []
                if users & {self.model, *(self.models if self.model == "average" else ())}
                else unused(self, *names, because=f"only the models {', '.join(sorted(users))} use it")
                for names, users in _USERS
            ),
        )
        if self.model == "average":
            unknown = [name for name in self.models if name not in MODELS[:7]]
            if unknown or not self.models:
                raise BudgetError("models must name at least one of " + ", ".join(MODELS[:7]) + ".")
            if self.weights and len(self.weights) != len(self.models):
                raise BudgetError("weights must hold one number for each of the models.")
            if any(not (math.isfinite(weight) and weight > 0) for weight in self.weights):
                raise BudgetError("weights must be positive.")

    # ------------------------------------------------------------------ before

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of all statistics, in rows."""
        _, planned = self._asked(schema, unit, accounting, cost)
        return total_deviation((item.cells, item.noise) for item in planned)

    def _planned_setting(self, schema: Schema, unit: Unit) -> Setting:
        fixed = unit.keeps_rows
        rows = schema.row_count if schema.row_count is not None else (1 if fixed else None)
        return self._setting(schema, rows=rows, rows_fixed=fixed)

    def _asked(
        self, schema: Schema, unit: Unit, accounting: Accounting, cost: float
    ) -> tuple[ParametricModel, list[PlannedMeasurement]]:
        """Return the model and what will be measured for it, in rows."""
        setting = self._planned_setting(schema, unit)
        model = self._model(setting)
        asked = model.ask(setting)
        design = _design(asked, schema.domain, unit, accounting, cost, rows_fixed=unit.keeps_rows)
        planned = []
        for question, noise in design:
            if isinstance(question, AskCounts):
                planned.append(PlannedMeasurement(question.clique, _cells(question, schema.domain), noise))
                continue
            block = question.block
            used = {name for feature in block.features for name in feature.columns} | set(block.within)
            scale = max(noise.scale / block.unit, _SMALLEST_SCALE)
            per_row = Laplace(scale) if isinstance(noise, Laplace) else Gaussian(scale)
            cells = block.cells(schema.domain) * len(block.pairs)
            planned.append(PlannedMeasurement(schema.domain.canonical(used), cells, per_row))
        return model, planned

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say which statistics will be released with which noise, or refuse the table with a reason."""
        accounting = self.accounting(budget, schema, unit)
        setting = self._planned_setting(schema, unit)
        model, planned = self._asked(schema, unit, accounting, accounting.total(budget))
        numbers = ", ".join(setting.continuous) or "none"
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(planned),
            model_cells=max(1, model.cells(setting)),
            notes=(
                f"Model {model.name}; columns taken as numbers: {numbers}. What the model cannot express is lost, "
                "whatever the budget.",
            ),
        )

    def _setting(self, schema: Schema, *, rows: int | None, rows_fixed: bool) -> Setting:
        """Collect the public facts; columns of numbers are chosen here."""
        able = [name for name in schema.names if can_be_number(schema.column(name))]
        if self.continuous is not None:
            wrong = [name for name in self.continuous if name not in able]
            if wrong:
                raise WorkloadError(f"continuous: {', '.join(wrong)} cannot be taken as numbers.")
            chosen = [name for name in able if name in self.continuous]
        elif self.model == "normal":
            chosen = able
        else:
            chosen = [name for name in able if schema.column(name).value_count > self.few]
        return Setting(
            schema,
            tuple(chosen),
            rows,
            rows_fixed,
            aware=self.posterior == "noise-aware",
            parameters=self.parameters,
            bounds=self.bounds,
            priors=Priors(self.alpha, self.prior_weight, self.prior_variance, self.deviation),
        )

    def _model(self, setting: Setting) -> ParametricModel:
        if self.model == "average":
            weights = self.weights or (1.0,) * len(self.models)
            made = tuple(self._named(name, setting) for name in self.models)
            return Averaging(made, weights)
        return self._named(self.model, setting)

    def _named(self, name: str, setting: Setting) -> ParametricModel:
        if name == "auto":
            mixed = setting.mixed()
            if mixed.cells > self.max_cells:
                name = "slomag" if mixed.numbers else "multinomial"
            else:
                name = "saturated" if not mixed.numbers else "glom"
                pure = len(mixed.numbers) == len(setting.domain)
                name = "normal" if pure else name
        if name == "normal":
            return Normal(max_cells=self.max_cells)
        if name == "multinomial":
            return Multinomial()
        if name == "saturated":
            return Saturated(max_cells=self.max_cells)
        if name == "loglinear":
            return Loglinear(self.generators)
        if name == "glom":
            return GeneralLocation(max_cells=self.max_cells)
        if name == "conjugate":
            return Conjugate(self.conjugate)
        return SequentialLogistic(self.order)

    # ------------------------------------------------------------------ fit

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        fixed = curator.rows.fixed
        setting = self._setting(curator.schema, rows=curator.rows.number, rows_fixed=fixed)
        model = self._model(setting)
        design = _design(
            model.ask(setting),
            curator.domain,
            curator.unit,
            curator.accounting,
            curator.remaining,
            rows_fixed=fixed,
        )
        progress("measuring", 0.1)
        measurements, statistics, requested = _release(curator, design)
        progress("drawing parameters", 0.5)
        distribution = model.learn(setting, requested, _generator([*measurements, *statistics]))
        progress("done", 1.0)
        return Fitted(
            distribution,
            measurements,
            history=History.planned(len(measurements)) if measurements else None,
            statistics=statistics,
        )


def _design(
    asked: Sequence[Ask],
    domain: Domain,
    unit: Unit,
    accounting: Accounting,
    total: float,
    *,
    rows_fixed: bool,
) -> list[tuple[Ask, Noise]]:
    """Divide the cost by the shares of the questions and find the noise of each."""
    if not asked:
        raise WorkloadError("There is nothing to learn: the table has no columns that the model could use.")
    costs = accounting.split(total, [question.share for question in asked])
    design: list[tuple[Ask, Noise]] = []
    for question, cost in zip(asked, costs, strict=True):
        if isinstance(question, AskCounts):
            design.append((question, noise_for(accounting, unit, cost)))
        else:
            block, noise = moment_noise(question.block, domain, unit, accounting, cost, rows_fixed=rows_fixed)
            design.append((AskMoments(block, question.share), noise))
    return design


def _release(
    curator: Curator, design: Sequence[tuple[Ask, Noise]]
) -> tuple[list[Measurement], list[Statistic], list[Statistic]]:
    """Measure everything; return what the model file keeps, and the numbers in the order of the questions."""
    plain = [(q, noise) for q, noise in design if isinstance(q, AskCounts) and not q.labels]
    merged = [(q, noise) for q, noise in design if isinstance(q, AskCounts) and q.labels]
    blocks = [(q, noise) for q, noise in design if isinstance(q, AskMoments)]
    measured = curator.measure_many(
        curator.counts_many([q.clique for q, _ in plain]), noise=[noise for _, noise in plain]
    )
    coarse = curator.measure_many(
        curator.counts_grouped([_groups(q, curator.domain) for q, _ in merged]),
        noise=[noise for _, noise in merged],
    )
    moments = measure_numbers(
        curator,
        seal_moments(curator, [q.block for q, _ in blocks]),
        noise=[noise for _, noise in blocks],
        purpose=f"measure {len(blocks)} blocks of moments",
    )
    counted = [Statistic(_label(q), item.values, item.noise, item.scale) for (q, _), item in zip(plain, measured, strict=True)]  # fmt: skip
    grouped = [Statistic(_label(q), item.values, item.noise, item.scale) for (q, _), item in zip(merged, coarse, strict=True)]  # fmt: skip
    natural = [
        Statistic(item.name, item.values / q.block.unit, item.noise, item.scale / q.block.unit)
        for (q, _), item in zip(blocks, moments, strict=True)
    ]
    found = {id(q): item for items, requested in ((plain, counted), (merged, grouped), (blocks, natural)) for (q, _), item in zip(items, requested, strict=True)}  # fmt: skip
    return measured, [*grouped, *moments], [found[id(q)] for q, _ in design]


def _groups(question: AskCounts, domain: Domain) -> dict[str, np.ndarray]:
    return {name: question.labels.get(name, np.arange(domain.size(name))) for name in question.clique}


def _cells(question: AskCounts, domain: Domain) -> int:
    return math.prod(int(which.max()) + 1 for which in _groups(question, domain).values())


def _label(question: AskCounts) -> str:
    return f"counts of {', '.join(question.clique)}" if question.clique else "number of rows"


def _generator(released: Sequence[Measurement | Statistic]) -> np.random.Generator:
    """Return randomness that is a function of the release, so that a fit is one too."""
    digest = hashlib.sha256()
    for item in released:
        digest.update(np.ascontiguousarray(item.values).tobytes())
    return np.random.default_rng(int.from_bytes(digest.digest()[:16], "little"))
