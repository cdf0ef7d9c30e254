"""What every mechanism is: a configuration that can plan, and fit a model through a curator."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache, wraps
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from understudy._html import html_table
from understudy.curator import Curator, practice_curator
from understudy.engine import Distribution, GraphicalModel, try_answering
from understudy.errors import (
    BudgetError,
    BudgetExceeded,
    DomainTooLarge,
    NoSuchGuarantee,
    SealedError,
    UnderstudyError,
    UnusableMethod,
    UsageError,
    WorkloadError,
    described_fault,
)
from understudy.inference import History
from understudy.marginals import Measurement, Statistic, Workload
from understudy.mechanisms.chunks import ChunkedSample
from understudy.mechanisms.levels import (
    measured_levels,
    on_domain,
    open_columns,
    planned_looks,
    rest_of,
    shares_of,
    working_schema,
)
from understudy.mechanisms.model import Model, Provenance
from understudy.mechanisms.rounds import expected_absolute_noise
from understudy.mechanisms.rules import require_possible, structural_rules
from understudy.mechanisms.source import Source
from understudy.parallel import available_mb
from understudy.privacy import GDP, ZCDP, Accounting, ApproxDP, Budget, Noise, PureDP, Unit, accounting_for
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE, ZCDP_ACCOUNTING
from understudy.privacy.guarantee import ALSO_MEASURED
from understudy.progress import Progress as Progress
from understudy.progress import no_progress as no_progress
from understudy.schema import Clique, Domain, Schema

# ----------------------------------------------------------------------------------------
# Trying a mechanism on made-up records before it is paid for.
#
# A fit needs more than a plan: kernels that compile on this machine, packages that can be imported, memory. What is missing
# would otherwise show after the first charge, and the budget would be lost. So a mechanism is tried once per process and choice
# of options: fitted to a few dozen made-up records, and rows are drawn from the result. That takes hundredths of a
# second once its kernels are kept on disk, and what it compiles the fit need not compile again.
#
# The made-up tables are small and have columns of their own, so not all options fit them. Those that name columns of the real table
# are left as they usually are, and where what is left does not fit either, the mechanism is tried with its usual options alone.

_SMALL_DELTA = 1e-6
_WORTH_SAYING = 1.5
"""A delta that would take away less noise than this factor is not mentioned."""

_ROWS = 64
_BUDGETS: dict[type, Budget] = {
    PureDP: PureDP(4.0),
    ApproxDP: ApproxDP(4.0, 1e-6),
    ZCDP: ZCDP(1.0),
    GDP: GDP(1.0),
}
_MIXED = """
columns:
  - {name: colour, kind: categorical, values: [red, green, blue], missing: true}
  - {name: size, kind: ordinal, values: [small, middle, large]}
  - {name: age, kind: integer, bins: {edges: [0, 18, 40, 65, 100]}}
  - {name: smokes, kind: boolean}
constraints: ["not (age < 18 and smokes == true)"]
"""
_BINARY = """
columns: [{name: home, kind: boolean}, {name: car, kind: boolean}, {name: garden, kind: boolean}]
"""
_SINGLE = """
columns: [{name: wait, kind: real, minimum: 0, maximum: 64, bins: 64}]
"""
_WIDE = """
columns:
  - {name: code, kind: integer, minimum: 0, maximum: MAXIMUM}
  - {name: smokes, kind: boolean}
"""


@cache
def _schema(text: str) -> Schema:
    return Schema.parse(text)


def widths_of(schema: Schema) -> frozenset[int]:
    """Return the bytes per code of the columns of a schema: kernels are compiled for each width by itself."""
    return frozenset(1 if size <= 1 << 8 else 2 if size <= 1 << 16 else 4 for size in schema.domain.sizes)


_tried: set[tuple[type, type, int, str, str]] = set()


def try_out(method: Synthesizer, schema: Schema, budget: Budget, accounting: str) -> None:
    """Fit a mechanism, with its options, to made-up records and draw from the result, unless this process did that already.

    Options that name columns of the schema are left as they usually are: the made-up records have others. Where the mechanism refuses the
    made-up tables with the options that are left (in its plan, or in words of Understudy's own about anything but the budget), it is
    tried with its usual options, and what only happens under the others is not found. One that says itself what is tried
    (:meth:`Synthesizer.trial`) is tried as it says.

    The budget is spent in the accounting of that name: another one may have the noise of other kernels, which would be
    compiled for nothing.

    Raises
    ------
    UnusableMethod
        If that fails: this installation or machine cannot run the mechanism. Nothing was charged.
    """
    trials = _trials(method, schema)
    if not trials:
        return
    options = repr(trials[0].options())
    kind = next(kind for kind in _BUDGETS if isinstance(budget, kind))
    for width in sorted(widths_of(schema)):
        if (type(method), kind, width, accounting, options) in _tried:
            continue
        try:
            if len(trials) == 1 or not _serves(*_way(trials[0], kind, accounting), width):
                _try(*_way(trials[-1], kind, accounting), width)
        except Exception as error:
            foreign = not type(method).__module__.startswith("understudy.")
            advice = (
                f"The method is not part of Understudy: whoever wrote {type(method).__module__} can repair it. Or choose another method."
                if foreign
                else "Repair the installation, or choose another method."
            )
            if foreign and isinstance(error, BudgetExceeded):
                advice = f"It asked for more than the budget of a fit: divide what curator.remaining says, in {type(method).__module__}. {advice}"
            raise UnusableMethod(
                f"{method.name} does not work here: a trial on made-up records ended in "
                f"{described_fault(error, type(method).__module__.partition('.')[0])}. Nothing was charged. {advice}"
            ) from error
        _tried.add((type(method), kind, width, accounting, options))


def warm(method: Synthesizer) -> None:
    """Try a mechanism in every way in which a fit may use it, so that all its kernels are compiled, and kept where that is possible.

    Every kind of budget, every accounting of it and every width of codes.

    Raises
    ------
    UnusableMethod
        If it does not work here.
    """
    for kind, budget in _BUDGETS.items():
        if kind not in method.budgets:
            continue
        for accounting in method.accountings(budget):
            for size in (2, 300, (1 << 16) + 1):
                try_out(method, _schema(_WIDE.replace("MAXIMUM", str(size - 1))), budget, accounting.name)


def _trials(method: Synthesizer, schema: Schema) -> list[Synthesizer]:
    """Return what is tried of a mechanism: it with those of its options that fit other tables, then it with its usual options."""
    usual = method.trial()
    if type(method).trial is not Synthesizer.trial:  # it knows best
        return [] if usual is None else [usual]
    columns = set(schema.domain.names)
    given = {field.name: getattr(method, field.name) for field in fields(method)}  # type: ignore[arg-type]
    bound = {name for name, value in given.items() if _of_a_table(value, columns)}
    if usual is None:
        return [] if bound else [method]
    try:
        free: Synthesizer = (
            replace(method, **{name: getattr(usual, name) for name in bound}) if bound else method  # type: ignore[type-var]
        )
    except UnderstudyError:  # the others mean nothing without them
        return [usual]
    return [usual] if free.options() == usual.options() else [free, usual]


def _of_a_table(value: Any, columns: set[str]) -> bool:
    """Say whether an option may mean something for one table only: it names a column, or is no plain value (a workload, public data)."""
    if isinstance(value, str):
        return value in columns
    if isinstance(value, Mapping):
        return any(_of_a_table(item, columns) for pair in value.items() for item in pair)
    if isinstance(value, list | tuple):
        return any(_of_a_table(item, columns) for item in value)
    return not (value is None or isinstance(value, int | float))


def _serves(trial: Synthesizer, budget: Budget, width: int) -> bool:
    """Try a mechanism with options that may not fit made-up tables; say whether it took one."""
    try:
        return _try(trial, budget, width)
    except (BudgetError, SealedError, UnusableMethod):
        raise
    except UnderstudyError:  # refused in words: the options may be for other tables
        return False


def _way(trial: Synthesizer, kind: type, accounting: str) -> tuple[Synthesizer, Budget]:
    """Return what spends a small budget of this kind in this accounting: an approximate one may be spent as a pure epsilon."""
    others = trial.accountings(_BUDGETS[kind])[1:]
    if accounting in [way.name for way in others]:
        return trial, _BUDGETS[PureDP]
    return (trial.with_fixed_accounting() if others else trial), _BUDGETS[kind]


def _try(trial: Synthesizer, budget: Budget, width: int) -> bool:
    """Fit to a made-up table with codes of this width, and say whether there was one that the mechanism serves."""
    if width > 1:
        made_up = _schema(_WIDE.replace("MAXIMUM", str(300 if width == 2 else 1 << 16)))
        served = _fitted(trial, made_up, budget)
        if not served:  # its tables are counted, whatever else is done with them
            curator = practice_curator(made_up, rows=_ROWS, unit=Unit.add_remove(), budget=budget)
            curator.counts_many([("code",), ("code", "smokes")])
        return served
    return any(_fitted(trial, _schema(text), budget) for text in (_MIXED, _BINARY, _SINGLE))


def _fitted(trial: Synthesizer, made_up: Schema, budget: Budget) -> bool:
    """Fit and draw, or say that this is no table of the kind that the mechanism serves."""
    unit = Unit.add_remove()
    try:
        trial.plan(made_up, unit=unit, budget=budget)
    except UnderstudyError:
        return False
    reserve = trial.reserve(made_up, budget)
    curator = practice_curator(made_up, rows=_ROWS, unit=unit, budget=budget, approximate_delta=reserve)
    model = trial._fit_model(curator, budget, trial._limited(curator, budget))
    model.sample(_ROWS, seed=0)
    chunks = ChunkedSample(model, 2, seed=0, rows_per_chunk=1)  # as folders of parts are written
    chunks.draw(chunks.waves[0], 0, 0, chunks.nothing())
    if isinstance(model.distribution, GraphicalModel):
        try_answering()
    return True


def _condition(curator: Curator) -> str:
    """Say what the promise of a fit presumes, and that more was paid where its schema was measured."""
    text = curator.ledger.guarantee().condition.text
    if any(column.measured_facts for column in curator.schema.columns):
        text = f"{text} {ALSO_MEASURED}"
    return text.strip()


ALL_BUDGETS: tuple[type, ...] = (PureDP, ApproxDP, ZCDP, GDP)


@dataclass(frozen=True)
class PlannedMeasurement:
    """One marginal that will be measured, and the noise it will get."""

    clique: Clique
    cells: int
    noise: Noise

    @property
    def expected_l1(self) -> float:
        """Expected L1 norm of the noise alone, in rows."""
        return self.cells * expected_absolute_noise(self.noise)


@dataclass(frozen=True)
class Fitted:
    """What a mechanism hands back: a distribution and everything it learnt it from.

    Attributes
    ----------
    distribution
        The fitted distribution.
    measurements
        Every noisy marginal that was released, in order.
    workload
        The marginals the rows should be fitted to when they are drawn; ``None`` for no record fitting.
    history
        How the measurements came about: planned at once, or chosen one after another. Error bounds and
        intervals need it; without it they assume that each measurement may depend on all earlier ones.
    statistics
        What else was released: noisy moments, coefficients, redrawn counts.
    """

    distribution: Distribution
    measurements: Sequence[Measurement]
    workload: Workload | None = None
    history: History | None = None
    statistics: Sequence[Statistic] = ()


@dataclass(frozen=True)
class Plan:
    """What a fit would do, computed from public facts alone.

    Attributes
    ----------
    measurements
        The marginals that will be measured; for adaptive methods, those known in advance.
    model_cells
        Number of cells the fitted model will hold at most.
    notes
        Sentences a person should read before spending the budget.
    """

    method: str
    budget: Budget
    unit: Unit
    accounting: str
    measurements: tuple[PlannedMeasurement, ...]
    model_cells: int
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        shown = self.measurements[:50]
        rows = [
            (
                " x ".join(item.clique) or "number of rows",
                f"{item.cells:,}",
                item.noise.kind,
                f"{item.noise.variance**0.5:.3g}",
                f"{item.expected_l1:,.0f}",
            )
            for item in shown
        ]
        more = len(self.measurements) - len(shown)
        said = [f"Model: {self.model_cells:,} cells.", *self.notes]
        if more:
            said.insert(0, f"{more:,} more measurements.")
        caption = f"{self.method}: {self.budget.describe()} for {self.unit.describe()} ({self.accounting} accounting)"
        head = ("measured", "cells", "noise", "deviation per cell (rows)", "expected L1 noise (rows)")
        return html_table(caption, head, rows, note=" ".join(said))


class Synthesizer(ABC):
    """Base of every mechanism. Subclasses are frozen, keyword-only dataclasses of options.

    A subclass names itself, says which budgets it accepts, and implements :meth:`plan` and
    :meth:`_fit`. Constructors store and validate options; they never see data.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[Source | None] = None
    """Where it was published and the law of its noise; required of Understudy's own mechanisms."""
    budgets: ClassVar[tuple[type, ...]] = ALL_BUDGETS
    spends_remainder: ClassVar[bool] = True
    """Whether a fit adapts to what remains of its allowance, so that something may be measured before it."""
    _accounting_fixed: bool = False

    def __init_subclass__(cls, **words: Any) -> None:
        """See to it that a mechanism plans columns with levels as it will see them: in groups."""
        super().__init_subclass__(**words)
        for name in ("plan", "reserve", "expected_noise"):
            if name in vars(cls):
                own = _with_looks if name == "plan" else _in_groups
                setattr(cls, name, own(vars(cls)[name]))

    def accountings(self, budget: Budget) -> tuple[Accounting, ...]:
        """Return every accounting in which this mechanism can spend a budget; the first is used where nothing else is known.

        Only an approximate budget leaves a choice: by default the Gaussian curve, or its epsilon as a pure one, which
        leaves delta unused. The second needs a mechanism that takes pure budgets and can say how noisy it will be
        (:meth:`expected_noise`).
        """
        usual = accounting_for(budget)
        comparable = type(self).expected_noise is not Synthesizer.expected_noise
        return (
            (usual, PURE)
            if isinstance(budget, ApproxDP) and PureDP in self.budgets and comparable
            else (usual,)
        )

    def accounting(
        self, budget: Budget, schema: Schema | None = None, unit: Unit | None = None, *, parts: int = 1
    ) -> Accounting:
        """Return the accounting with the smallest expected noise among :meth:`accountings`.

        Parameters
        ----------
        schema, unit
            The public facts of the table. Without them the first accounting is returned.
        parts
            The mechanism gets one of so many equal parts of the budget.

        Privacy
        -------
        A choice between valid guarantees by public facts. Pure accounting of an approximate budget keeps ``epsilon`` with
        no delta at all.
        """
        if self._accounting_fixed or schema is None or unit is None:
            return self.accountings(budget)[0]
        return self.least_noisy_accounting(budget, schema, unit, parts=parts)

    def least_noisy_accounting(
        self, budget: Budget, schema: Schema, unit: Unit, *, parts: int = 1
    ) -> Accounting:
        """Return the accounting with the smallest expected noise, whether or not a release could use it."""
        ways = self.accountings(budget)
        if len(ways) == 1:
            return ways[0]
        return min(ways, key=lambda way: self._noise_of(way, budget, schema, unit, parts))

    def accounting_note(self, budget: Budget, schema: Schema, unit: Unit) -> str:
        """Say in a sentence which accounting is used and why; empty where there is no choice."""
        ways = self.accountings(budget)
        if len(ways) == 1 or self._accounting_fixed:
            return ""
        best = self.accounting(budget, schema, unit)
        how = {
            PURE.name: "Spent as a pure epsilon, which leaves delta unused",
            ZCDP_ACCOUNTING.name: "Spent as zCDP",
            GDP_ACCOUNTING.name: "Spent by the Gaussian curve",
        }
        (other,) = (way for way in ways if way.name != best.name)
        least, more = (self._noise_of(way, budget, schema, unit) for way in (best, other))
        ratio = more / least if 0 < least < math.inf else math.inf
        much = f"{ratio:,.3g} times as much" if ratio < 1e6 else "more than a million times as much"
        return (
            f"{how[best.name]}: by the other accounting ({other.name}) there would be {much} noise. A fit that shares its ledger with "
            f"others is spent as {ways[0].name}."
        )

    def delta_note(self, budget: Budget, schema: Schema, unit: Unit) -> str:
        """Say what a small delta beside a pure epsilon would buy; empty where it is little."""
        comparable = type(self).expected_noise is not Synthesizer.expected_noise
        if not isinstance(budget, PureDP) or ApproxDP not in self.budgets or not comparable:
            return ""
        wider = ApproxDP(budget.epsilon, _SMALL_DELTA)
        noise = self._noise_of(accounting_for(budget), budget, schema, unit)
        with_delta = min(self._noise_of(way, wider, schema, unit) for way in self.accountings(wider))
        if not (0 < with_delta < math.inf and noise >= _WORTH_SAYING * with_delta):
            return ""
        much = f"{noise / with_delta:,.2g} times" if noise < math.inf else "far more than"
        return (
            f"Without a delta there is {much} the noise of a delta of {_SMALL_DELTA:g} beside the same epsilon. If an approximate guarantee "
            "is acceptable, give one: far below one in the number of people."
        )

    def with_fixed_accounting(self) -> Self:
        """Return this mechanism limited to the first of its :meth:`accountings`.

        A release adds the parts of its budget up in that accounting, so its model must be paid for in it.
        """
        fixed = copy.copy(self)
        object.__setattr__(fixed, "_accounting_fixed", True)
        return fixed

    def _noise_of(self, way: Accounting, budget: Budget, schema: Schema, unit: Unit, parts: int = 1) -> float:
        """Return the expected noise of one way to spend a budget; a way that cannot be planned is the worst."""
        try:
            return self.expected_noise(schema, unit, way, way.split(way.total(budget), [1.0] * parts)[0])
        except UnderstudyError:
            return math.inf

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return how noisy a fit of this cost would be, from public facts; smaller is better.

        Compared between accountings only. Where marginals are measured it is the standard deviation of every cell, added up.
        """
        raise NotImplementedError(f"{self.name} does not say how noisy it is.")

    def reserve(self, schema: Schema, budget: Budget) -> float:
        """Return the part of an approximate budget's delta needed for events with a delta of their own.

        Mechanisms whose whole delta comes from the accounting of additive noise, which is most of them,
        need none. A ledger made for one that does must set as much aside (``approximate_delta``).
        """
        return 0.0

    @abstractmethod
    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what a fit would do, from public facts alone, or refuse with a reason."""

    @abstractmethod
    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        """Spend the curator's allowance and return what was learnt."""

    def fit(self, curator: Curator, budget: Budget, *, progress: Progress = no_progress) -> Model:
        """Fit a model, spending at most ``budget``.

        Everything that can be established without the records is established before anything is spent; see :meth:`prepare`.

        Privacy
        -------
        The mechanism sees the records only through a curator limited to ``budget``; the model it
        returns is a function of what that curator released.
        """
        plan = self.prepare(curator.schema, unit=curator.unit, budget=budget)
        limited = self._limited(curator, budget)
        if (
            limited.accounting.name != plan.accounting
        ):  # the ledger pays in another one than the plan could foresee
            try_out(self, curator.schema, budget, limited.accounting.name)
        return self._fit_model(curator, budget, limited, progress=progress)

    def refit(self, model: Model, codes: Mapping[str, npt.NDArray[Any]], *, seed: int) -> Model:
        """Fit this mechanism to a table drawn from a model as it was fitted to the real one, with seeded noise.

        Parameters
        ----------
        model
            A model of this mechanism: its schema, unit, budget and accounting.
        codes
            Records drawn from it.
        seed
            Of the noise.

        Raises
        ------
        WorkloadError
            If a part of the budget was spent before the mechanism began, so that a refit would have less noise than the fit had; or if the budget would be spent in another accounting.

        Privacy
        -------
        In: a public model and records drawn from it. No ledger but one in memory, of made-up records, is charged.
        """
        if model.schema.events_of is not None or model.schema.as_read() is not model.schema:
            raise WorkloadError(
                "A part of what this fit spent went into choosing groups of values, or it is a fit of two levels: it cannot be run again as it was on rows drawn from its model. "
                "Use the intervals of the model (interval, count_interval, mean_interval)."
            )
        made = model.provenance
        rows = len(next(iter(codes.values())))
        for method in (self, self.with_fixed_accounting()):
            curator = practice_curator(
                model.schema,
                rows=rows,
                unit=made.unit,
                budget=made.budget,
                approximate_delta=method.reserve(model.schema, made.budget),
                codes=codes,
                seed=seed,
            )
            if method._limited(curator, made.budget).accounting.name == made.accounting:
                return method.fit(curator, made.budget)
        raise WorkloadError(
            f"This fit was paid for by {made.accounting} accounting, in which it cannot be run again by itself. Use the intervals of the model (interval, count_interval, mean_interval)."
        )

    def prepare(self, schema: Schema, *, unit: Unit, budget: Budget, plan: Plan | None = None) -> Plan:
        """Establish, before anything is charged, that a fit can be carried out here; return its plan.

        The budget is of a kind that the mechanism accepts, the plan fits the table, the model fits into memory, and the
        mechanism works: it is tried on made-up records (:meth:`trial`), once per process, which compiles its
        kernels. Only public facts are used. A fit does all this itself; call it earlier to learn of a refusal before the
        table is read. Whoever has the plan for this schema, unit and budget already passes it.

        Raises
        ------
        NoSuchGuarantee
            If the mechanism cannot give this kind of guarantee.
        DomainTooLarge
            If the model would not fit into the memory that is free.
        ConstraintError
            If no record can obey the rules of the schema.
        UnusableMethod
            If the mechanism does not work on this machine.
        """
        self.require(budget)
        require_possible(schema)
        plan = self.plan(schema, unit=unit, budget=budget) if plan is None else plan
        _require_memory(plan)
        try_out(self, schema, budget, plan.accounting)
        return plan

    def limited_to(self, seconds: float, schema: Schema) -> Synthesizer:
        """Return this mechanism with less work, such that its rounds take about so many seconds; refuse where it has none to leave out.

        Privacy
        -------
        How much work is left out follows from the schema and a cost model in the source, before a record is read. A clock that stops a fit
        would make the number of rounds depend on how long they took, and that depends on the records.
        """
        raise UsageError(
            f"{self.name} has no rounds that could be left out, so it takes no time limit (--time-limit). Nothing was charged. Use aim, a smaller workload or "
            "coarser bins; interrupted work goes on with the same command and pays for nothing twice."
        )

    def trial(self) -> Synthesizer | None:
        """Return the mechanism to try on made-up records before a fit: this one with its usual options.

        Where this is not overridden it is tried with the options it was given first, as far as they fit made-up tables. A mechanism whose usual options take long returns others that use the same kernels and packages; one
        that has nothing to try returns None.
        """
        if any(
            field.default is MISSING and field.default_factory is MISSING
            for field in fields(self)  # type: ignore[arg-type]
        ):
            return None
        return type(self)()

    def _fit_model(
        self, curator: Curator, budget: Budget, limited: Curator, *, progress: Progress = no_progress
    ) -> Model:
        """Fit a model after everything was established; nobody but `fit` and the trial calls this."""
        inside = limited
        if open_columns(curator.schema):
            progress("choosing groups", 0.0)
            inside = measured_levels(limited)
        fitted = on_domain(self, inside.domain)._fit(inside, progress=progress)
        _require_fitted(self, fitted)
        # the hash of a ledger in memory covers the times of an attempt, which were not paid for
        anchor = None if curator.ledger.path is None else curator.ledger.anchor()
        provenance = Provenance(
            method=self.name,
            options=self.options(),
            unit=curator.unit,
            budget=budget,
            accounting=limited.accounting.name,
            spent=limited.spent,
            ledger_id=curator.ledger.ledger_id,
            rows_exact=curator.rows.exact,
            condition=_condition(curator),
            ledger_head="" if anchor is None else anchor.head,
            ledger_length=None if anchor is None else anchor.length,
        )
        return Model(
            schema=inside.schema,
            distribution=fitted.distribution,
            measurements=tuple(fitted.measurements),
            provenance=provenance,
            workload=fitted.workload,
            history=fitted.history,
            statistics=tuple(fitted.statistics),
        )

    def _limited(self, curator: Curator, budget: Budget) -> Curator:
        """Return a curator limited to the budget, in the best accounting that its ledger can pay.

        A ledger with an approximate budget pays by its main accounting or, for all its charges together, as a pure one
        (:mod:`understudy.privacy.accounting.filter`): after Gaussian noise the second is closed, and after a pure charge of its size usually the
        first. So a fit that has the ledger to itself chooses freely, and one that shares it takes the main
        accounting while that is open. Any other ledger has one accounting.
        """
        schema, unit = curator.schema, curator.unit
        ways = list(self.accountings(budget))
        begun = curator.begun_accounting(self.name)
        if begun is not None:  # interrupted work goes on as it began, whatever the ledger has become since
            ways = [way for way in ways if way.name == begun] or ways[:1]
        elif self._accounting_fixed or not isinstance(curator.ledger.budget, ApproxDP):
            ways = ways[:1]
        elif len(ways) > 1 and curator.ledger.budget == budget:
            ways.sort(key=lambda way: self._noise_of(way, budget, schema, unit))
        reserve = self.reserve(schema, budget)
        for way in ways[:-1]:
            with suppress(BudgetExceeded):  # the last one says why
                return curator.within(budget, scope=self.name, accounting=way, reserve=reserve)
        return curator.within(budget, scope=self.name, accounting=ways[-1], reserve=reserve)

    def require(self, budget: Budget) -> None:
        """Refuse a kind of budget this mechanism cannot work with."""
        if not isinstance(budget, self.budgets):
            accepted = ", ".join(kind.__name__ for kind in self.budgets)
            raise NoSuchGuarantee(
                f"{self.name} cannot give a {type(budget).__name__} guarantee. It accepts: {accepted}."
            )

    def options(self) -> dict[str, Any]:
        """Return the options of this mechanism as plain values, for the model file."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]


def _in_groups(own: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of a mechanism that takes a schema see columns with levels in as many groups as a fit may choose."""

    @wraps(own)
    def asked(self: Synthesizer, schema: Schema, *given: Any, **words: Any) -> Any:
        if not open_columns(schema):
            return own(self, schema, *given, **words)
        working = working_schema(schema)
        return own(on_domain(self, working.domain), working, *given, **words)

    return asked


def _with_looks(own: Callable[..., Plan]) -> Callable[..., Plan]:
    """Let a mechanism plan columns with levels: the look that chooses their groups comes first, the rest is planned as usual."""

    @wraps(own)
    def plan(self: Synthesizer, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        if not open_columns(schema):
            return own(self, schema, unit=unit, budget=budget)
        names = ", ".join(column.name for column in open_columns(schema))
        if not self.spends_remainder:
            raise UnusableMethod(
                f"{self.name} spends its whole budget in one act, so nothing is left to choose the groups of {names} with. Nothing was "
                "charged. Fix the groups in the schema (levels: {..., at: 1}), or choose another method."
            )
        self.require(budget)
        working = working_schema(schema)
        method = on_domain(self, working.domain)
        accounting = method.accounting(budget, working, unit)
        total = accounting.total(budget, approximate_delta=method.reserve(working, budget))
        looks, left = planned_looks(schema, unit=unit, accounting=accounting, total=total)
        inner = own(method, working, unit=unit, budget=rest_of(budget, accounting, left))
        shown = planned(schema.domain, [((column.name,), noise) for column, noise in looks])
        note = (
            f"First the values of {names} are measured, for {sum(shares_of(open_columns(schema))):.0%} of the budget, and put into groups whose counts "
            "stand out of the noise. The plan shows as many groups as there may be."
        )
        return replace(
            inner, budget=budget, measurements=(*shown, *inner.measurements), notes=(note, *inner.notes)
        )

    return plan


def _require_memory(plan: Plan) -> None:
    """Refuse a plan whose model is larger than the memory that is free: its fit would end after it was charged."""
    free = available_mb()
    need = plan.model_cells * 8 / 2**20
    if free is not None and need > free:
        raise DomainTooLarge(
            f"The model of {plan.method} may take {need:,.0f} MB and {free:,.0f} MB of memory are free. Nothing was "
            "charged. Allow a smaller model (max_model_mb), choose a smaller workload or wider bins, or use a machine with "
            "more memory.",
            cells=plan.model_cells,
            allowed=int(free * 2**20 / 8),
        )


def _require_fitted(method: Synthesizer, fitted: object) -> None:
    """Refuse what is no result of a fit; the trial finds it before anything is charged."""
    if not isinstance(fitted, Fitted):
        raise UnusableMethod(
            f"The _fit of {method.name} returned {'None' if fitted is None else f'a {type(fitted).__name__}'}; it has to return "
            "Fitted(distribution, measurements)."
        )


def plain(value: Any) -> Any:
    """Turn an option into something JSON can hold."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    describe = getattr(value, "to_plain", None)
    return describe() if callable(describe) else repr(value)


def planned(domain: Domain, design: Sequence[tuple[Clique, Noise]]) -> tuple[PlannedMeasurement, ...]:
    """Turn a list of cliques and noises into planned measurements."""
    return tuple(PlannedMeasurement(clique, domain.cells(clique), noise) for clique, noise in design)


def total_deviation(looks: Iterable[tuple[float, Noise]]) -> float:
    """Return the standard deviations of all noisy numbers together, given how many have which noise.

    Examples
    --------
    >>> from understudy.privacy import Gaussian
    >>> round(total_deviation([(10, Gaussian(100.0)), (1, Gaussian(50.0))]))
    1050
    """
    return math.fsum(number * math.sqrt(noise.variance) for number, noise in looks)


def support_of(schema: Schema) -> list[tuple[Clique, npt.NDArray[np.bool_]]]:
    """Return the record constraints that models hold as allowed cells over the columns each one names."""
    return [
        (constraint.columns, constraint.allowed(schema.domain)) for constraint in structural_rules(schema)
    ]
