"""Several synthetic tables under one budget, made so that analyses of them can be combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from understudy.curator import Curator
from understudy.curator.allowance import plain_addition
from understudy.engine import DenseTable, Distribution
from understudy.engine.distributions.dense import GroupedTable
from understudy.errors import BudgetError, WorkloadError
from understudy.inference import Combined, combine, combine_fits, proportion_draws
from understudy.marginals import Measurement
from understudy.mechanisms.base import Progress, Synthesizer, no_progress
from understudy.mechanisms.model import Model
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

HOW = ("independent", "posterior", "resampled")
"""Ways of making several sets: see :func:`synthesize_many`."""

REDRAWN = ("laplace", "perturbed-histogram", "modips")
"""Methods whose noise can be redrawn, so that sets can be posterior draws of one release."""

ROW_BY_ROW = ("parametric-location", "parametric-slomag", "parametric-draws")
"""Kinds of distributions that draw every row without regard to the others."""

_POOL = 20
"""How many rows are drawn for each one kept, where a distribution cannot be drawn from row by row."""


@runtime_checkable
class HasPosterior(Protocol):
    """A distribution that can draw its parameters again, the privacy noise taken into account."""

    def posterior(self, generator: np.random.Generator) -> Distribution:
        """Return the distribution with parameters of a new draw."""


@dataclass(frozen=True, eq=False)
class MultipleSynthesis:
    """Several sets that remember how they were made, so that only valid rules combine them.

    Attributes
    ----------
    kind
        ``"independent"``, ``"posterior"`` or ``"resampled"``.
    models
        One model per set; for ``"resampled"`` the same one each time.
    budget
        What all of them together were allowed to spend.
    """

    kind: str
    models: tuple[Model, ...]
    budget: Budget

    @property
    def sets(self) -> int:
        """Number of sets."""
        return len(self.models)

    @property
    def rows(self) -> int:
        """Number of rows that the real table has, as far as the first model knows."""
        return self.models[0].default_rows()

    def frames(self, rows: int | None = None, *, seed: int | None = None) -> Iterator[pd.DataFrame]:
        """Draw the sets one after the other as pandas frames.

        Sets of one release are drawn row by row, each row independent of the others, because the rule that
        combines them counts on the sampling error of each set. Sets with noise of their own are drawn as
        usual, with as little sampling error as possible.

        Parameters
        ----------
        rows
            Rows of each set; by default as many as the real table has or is estimated to have.
        seed
            Makes the draw repeatable.
        """
        count = self.rows if rows is None else rows
        for model, child in zip(self.models, np.random.SeedSequence(seed).spawn(self.sets), strict=True):
            if self.kind == "independent":
                yield model.sample(rows, seed=int(child.generate_state(1)[0]))
            else:
                yield _independent_rows(model, count, np.random.default_rng(child))

    def analyse(
        self,
        analysis: Callable[[pd.DataFrame], Any],
        *,
        rows: int | None = None,
        seed: int | None = None,
        rule: str | None = None,
        **options: Any,
    ) -> Combined:
        """Run an analysis on every set and combine the results.

        Parameters
        ----------
        analysis
            Takes a frame; returns a pair of an estimate and its variance (arrays allowed), or a fitted model
            as :func:`understudy.inference.combining.combine_fits` takes it.
        rows, seed
            Of the sets. More rows than the real table has make the percentile rule applicable to posterior sets.
        rule, options
            As in :func:`understudy.inference.combining.combine`.
        """
        count = self.rows if rows is None else rows
        found = [analysis(frame) for frame in self.frames(count, seed=seed)]
        options.setdefault("size_ratio", count / max(1, self.rows))
        if hasattr(found[0], "params"):
            return combine_fits(found, synthesis=self, rule=rule, **options)
        estimates, variances = zip(*found, strict=True)
        return combine(estimates, variances, synthesis=self, rule=rule, **options)

    def combine(self, estimates: Any, variances: Any, *, rule: str | None = None, **options: Any) -> Combined:
        """Combine estimates and variances that were computed from the sets, in their order."""
        return combine(estimates, variances, synthesis=self, rule=rule, **options)

    def __repr__(self) -> str:
        return f"MultipleSynthesis({self.kind}, {self.sets} sets, {self.budget.describe()})"


def synthesize_many(
    method: Synthesizer,
    curator: Curator,
    budget: Budget,
    m: int,
    *,
    how: str = "posterior",
    seed: int | None = None,
    progress: Progress = no_progress,
    fit: Callable[..., Model] | None = None,
) -> MultipleSynthesis:
    """Make ``m`` models of one table under one budget.

    Parameters
    ----------
    method
        Any registered mechanism for ``"independent"`` and ``"resampled"``. ``"posterior"`` needs one whose
        noise can be redrawn: the parametric models, and tables or histograms with noise in every cell.
    curator, budget
        The private table, and what all sets together may spend.
    m
        Number of sets.
    how
        ``"posterior"``: one fit with the whole budget; the parameters of each set are drawn from a posterior that
        knows the noise. Narrow intervals; combined by rule ``"full"``, or ``"percentile"`` for large sets.
        ``"independent"``: ``m`` fits with an equal share of the budget each; combined by rule ``"partial"``.
        Works with every mechanism, but each set is noisier.
        ``"resampled"``: one fit, the same distribution for all sets. *No rule gives valid intervals for it.*
    seed
        Of the parameter draws, which are post-processing. It never touches the privacy noise.
    progress
        Is told what is being done and which share is finished.
    fit
        Fits each model in place of ``method.fit``, for whoever keeps models of interrupted work.

    Privacy
    -------
    In: private, through the curator. Out: public models. ``"independent"`` spends ``m`` equal parts that add up
    to the budget in the accounting of the method; the others spend the budget once. Parameter draws see only
    what was released.

    Examples
    --------
    >>> from understudy.data import LocalTable
    >>> from understudy.privacy import Ledger, Unit
    >>> from understudy.mechanisms import create
    >>> schema = Schema.parse("name: t\\nrow_count: 100\\ncolumns: [{name: smokes, kind: boolean}]")
    >>> table = LocalTable(schema, {"smokes": np.repeat([0, 1], [70, 30])})
    >>> ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.replace_one(), table="t")
    >>> curator = Curator(table, unit=Unit.replace_one(), ledger=ledger)
    >>> sets = synthesize_many(create("laplace"), curator, PureDP(1.0), 50)
    >>> sets
    MultipleSynthesis(posterior, 50 sets, epsilon=1 (pure differential privacy))
    >>> share = sets.analyse(lambda t: (t.smokes.mean(), t.smokes.mean() * (1 - t.smokes.mean()) / len(t)))
    >>> share.rule, share.sets
    ('full', 50)
    """
    check_sets(method, how=how, m=m)
    method.require(budget)
    fit = method.fit if fit is None else fit
    if how == "independent":
        share = share_of(
            budget,
            m,
            method,
            schema=curator.schema,
            unit=curator.unit,
            alone=curator.ledger.budget == budget,
            plainly=plain_addition(curator.ledger),
        )
        method.require(share)
        method.plan(curator.schema, unit=curator.unit, budget=share)
        models = []
        for index in range(m):
            models.append(fit(curator, share, progress=_part(progress, index, m)))
        return MultipleSynthesis(how, tuple(models), budget)
    model = fit(curator, budget, progress=progress)
    if how == "resampled":
        return MultipleSynthesis(how, (model,) * m, budget)
    return posterior_sets(model, m, seed=seed)


def check_sets(method: Synthesizer, *, how: str, m: int) -> None:
    """Refuse, before anything is spent, sets that cannot be made that way."""
    if m < 1:
        raise WorkloadError(f"The number of sets ({m}) must be at least 1.")
    if how not in HOW:
        raise WorkloadError(f"how ({how!r}) must be one of {', '.join(HOW)}.")
    if how == "posterior" and method.name not in REDRAWN:
        raise WorkloadError(
            f"Sets of {method.name} cannot be posterior draws of one release: its parameters cannot be drawn again with "
            f'the noise taken into account. Use how="independent" (--how independent), or one of {", ".join(REDRAWN)}.'
        )
    if how == "posterior":
        _refuse_naive(getattr(method, "posterior", None))


def _refuse_naive(posterior: object) -> None:
    """Refuse a posterior that takes noisy statistics for exact ones: its draws do not show the noise."""
    if posterior == "naive":
        raise WorkloadError(
            "A naive posterior does not know the privacy noise, so that intervals from its draws are too narrow. Use "
            'posterior="noise-aware", or how="independent".'
        )


def posterior_sets(model: Model, m: int, *, seed: int | None = None) -> MultipleSynthesis:
    """Return ``m`` draws of a fitted model's parameters from a posterior that knows the noise.

    Raises
    ------
    WorkloadError
        If the noise of this kind of model cannot be redrawn.
    """
    _refuse_naive(model.provenance.options.get("posterior"))
    generator = np.random.default_rng(seed)
    drawn = [
        replace(model, distribution=item, workload=None) for item in _posterior_draws(model, m, generator)
    ]
    return MultipleSynthesis("posterior", tuple(drawn), model.provenance.budget)


def share_of(
    budget: Budget,
    parts: int,
    method: Synthesizer,
    *,
    schema: Schema,
    unit: Unit,
    alone: bool = True,
    plainly: bool = False,
) -> Budget:
    """Return one of equal parts of a budget that add up to it in the accounting that serves the method best.

    Parameters
    ----------
    alone
        Whether the ledger holds this budget and nothing else; otherwise the accounting is the method's first.
    plainly
        Whether the ledger adds up epsilons and deltas plainly. It is charged for each part as a whole, with a delta of its own.

    Raises
    ------
    BudgetError
        If a budget without a delta is to be divided for such a ledger: the first part would take all of its delta.

    Examples
    --------
    >>> from understudy.mechanisms import create
    >>> schema = Schema.parse("name: t\\ncolumns: [{name: smokes, kind: boolean}]")
    >>> share_of(ZCDP(1.0), 4, create("independent"), schema=schema, unit=Unit.add_remove())
    ZCDP(rho=0.25)
    """
    if isinstance(budget, PureDP):
        return PureDP(_equal_part(budget.epsilon, parts))
    if plainly and parts > 1 and not isinstance(budget, ApproxDP):
        raise BudgetError(
            f"A budget of {budget.describe()} cannot be divided here: epsilons and deltas are added up plainly, so that each of {parts} parts needs a delta of its own. "
            "Give the budget an epsilon with a delta (--epsilon E --delta D)."
        )
    if isinstance(budget, ApproxDP) and (plainly or method.reserve(schema, budget) > 0):
        return ApproxDP(_equal_part(budget.epsilon, parts), _equal_part(budget.delta, parts))
    accounting = (
        method.accounting(budget, schema, unit, parts=parts) if alone else method.accountings(budget)[0]
    )
    cost = accounting.split(accounting.total(budget), [1.0] * parts)[0]
    makers: dict[str, Callable[[float], Budget]] = {"pure": PureDP, "zcdp": ZCDP, "gdp": _gdp}
    share = makers[accounting.name](cost)
    if isinstance(budget, ApproxDP) and not isinstance(share, method.budgets):
        return ApproxDP(_equal_part(budget.epsilon, parts), _equal_part(budget.delta, parts))
    return share


def _equal_part(number: float, parts: int) -> float:
    """Return one of equal parts, rounded down: ten times the double nearest to 0.1 is more than 1."""
    return PURE.split(number, [1.0] * parts)[0]


def _gdp(cost: float) -> Budget:
    mu = math.sqrt(cost)
    while Fraction(mu) ** 2 > Fraction(cost):
        mu = math.nextafter(mu, 0.0)
    return GDP(mu)


def _part(progress: Progress, index: int, m: int) -> Progress:
    def say(stage: str, fraction: float) -> None:
        progress(f"set {index + 1} of {m}: {stage}", (index + fraction) / m)

    return say


def _posterior_draws(model: Model, m: int, generator: np.random.Generator) -> Sequence[Distribution]:
    distribution = model.distribution
    if isinstance(distribution, HasPosterior):
        return [distribution.posterior(generator) for _ in range(m)]
    measured = _whole_table(model)
    if measured is None:
        raise WorkloadError(
            f"A model of {model.provenance.method} cannot draw its parameters again: its noise is not additive noise on "
            'all cells of a table, and it offers no posterior of its own. Use how="independent".'
        )
    public = model._public_total()
    tables = proportion_draws(measured, draws=m, generator=generator, rows=public)
    total = max(1.0, distribution.total if public is None else public)
    if isinstance(distribution, GroupedTable):
        return [GroupedTable(distribution.domain, distribution.labels, table * total) for table in tables]
    return [DenseTable(distribution.domain, table * total) for table in tables]


def _whole_table(model: Model) -> Measurement | None:
    """Return the noisy counts of all cells that a table or histogram was made from, if that is all there is."""
    distribution = model.distribution
    if isinstance(distribution, DenseTable):
        whole = [item for item in model.measurements if item.clique == distribution.domain.names]
        others = [item for item in model.measurements if item.clique not in ((), distribution.domain.names)]
        return whole[0] if len(whole) == 1 and not others and not model.statistics else None
    if isinstance(distribution, GroupedTable) and len(model.statistics) == 1 and not model.measurements:
        item = model.statistics[0]
        if item.values.shape == distribution.cells.shape and item.noise != "mechanism":
            return Measurement(distribution.domain.names, item.values, item.noise, item.scale)
    return None


def _independent_rows(model: Model, rows: int, generator: np.random.Generator) -> pd.DataFrame:
    """Draw rows that do not depend on each other.

    Tables and graphical models are drawn from by rounding, with as little sampling error as possible. A table gets the
    error of an independent sample back by drawing its counts first; for others rows are taken at random from
    twenty times as many. Parametric models draw row by row anyway.
    """
    seed = int(generator.integers(1 << 62))
    distribution = model.distribution
    if rows == 0 or _row_by_row(distribution):
        return model.sample(rows, seed=seed)
    if isinstance(distribution, DenseTable) and distribution.total > 0:
        counts = generator.multinomial(rows, distribution.cells.ravel() / distribution.total)
        drawn = DenseTable(distribution.domain, counts.reshape(distribution.domain.sizes).astype(np.float64))
        return replace(model, distribution=drawn, workload=None).sample(rows, seed=seed)
    pool = replace(model, workload=None).sample_codes(_POOL * rows, seed=seed)
    kept = generator.integers(_POOL * rows, size=rows)
    return model.decode({name: codes[kept] for name, codes in pool.items()}, seed=seed)


def _row_by_row(distribution: Distribution) -> bool:
    """Say whether a distribution draws every row without regard to the others."""
    if distribution.kind == "parametric-product":
        return all(_row_by_row(part) for part in getattr(distribution, "parts", ()))
    return distribution.kind in ROW_BY_ROW
