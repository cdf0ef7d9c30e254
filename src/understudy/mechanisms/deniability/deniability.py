"""Deniability: a network from noisy entropies, and records grown from seeds (Bindschaedler, Shokri, Gunter 2017)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.engine.distributions.released import ReleasedRecords
from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.marginals import Statistic
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import Fitted, Plan, PlannedMeasurement, Progress, Synthesizer
from understudy.mechanisms.deniability.bounds import SeedTest
from understudy.mechanisms.deniability.learning import Recipe
from understudy.mechanisms.deniability.look import open_parts, records_event
from understudy.mechanisms.deniability.network import Conditional, NetworkSeedModel, omega_range
from understudy.mechanisms.options import at_least, one_of, positive, refuse, shares, unused
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, ApproxDP, Budget, Event, Unit, accounting_for
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.events import ApproxEvent, Composed, Parallel
from understudy.schema import Domain, Schema

# ----------------------------------------------------------------------------------------
# The accounting of paper Deniability, section 3.5, beside ours.


def advanced_composition(epsilon: float, count: int, delta: float) -> float:
    """Return the epsilon of ``count`` pure acts at ``delta`` by advanced composition (Theorem 3 of the paper).

    Examples
    --------
    >>> round(advanced_composition(0.1, 100, 1e-6), 3)
    6.308
    """
    if not (epsilon > 0 and count >= 1 and 0 < delta < 1):
        raise BudgetError("Advanced composition needs epsilon > 0, count >= 1 and 0 < delta < 1.")
    return epsilon * math.sqrt(2 * count * math.log(1 / delta)) + count * epsilon * math.expm1(epsilon)


def paper_epsilon(
    structure: Sequence[Event], parameters: Sequence[Event], delta: float, *, disjoint: bool
) -> float:
    """Return what the paper would charge for the same noise; infinity for noise that is not pure.

    Advanced composition over the entropies and over the tables. Disjoint parts cost the larger of the two,
    else their sum with half of delta each.
    """
    share = delta if disjoint else delta / 2
    parts = []
    for events in (structure, parameters):
        costs = [PURE.cost(event) for event in events]
        if any(math.isinf(cost) for cost in costs):
            return math.inf
        if costs:
            parts.append(advanced_composition(max(costs), len(costs), share))
    return max(parts, default=0.0) if disjoint else sum(parts)


def describe_accountings(
    structure: Sequence[Event], parameters: Sequence[Event], unit: Unit, budget: Budget, *, disjoint: bool
) -> list[str]:
    """Return a sentence that compares the paper's accounting with the tighter valid one that is charged."""
    if not isinstance(budget, ApproxDP):
        return []
    paper = paper_epsilon(structure, parameters, budget.delta, disjoint=disjoint)
    if math.isinf(paper):
        return [
            "The noise is Gaussian, which the paper's accounting (advanced composition of Laplace) cannot price."
        ]
    parts = [Composed(tuple(events)) for events in (structure, parameters) if events]
    together = Parallel(tuple(parts)) if disjoint else Composed(tuple(parts))
    used = {
        accounting.name: accounting.cost(together, parts=unit.parts_touched) / accounting.total(budget)
        for accounting in (PURE, accounting_for(budget))
    }
    best = min(used, key=lambda name: used[name])
    return [
        f"Advanced composition, as in the paper, would charge epsilon={paper:.3g} at delta={budget.delta:.3g} for "
        f"this noise; {best} accounting charges {used[best]:.0%} of epsilon={budget.epsilon:.3g}."
    ]


_SEED_OPTIONS = (
    "k",
    "gamma",
    "epsilon0",
    "attempts",
    "min_seeds",
    "max_plausible",
    "max_check",
    "accept_weak",
    "weak_above",
)
_NO_SEEDS = "no record is grown from a seed without omega"


@dataclass(frozen=True, kw_only=True)
class Deniability(Synthesizer):
    """Learn a Bayesian network from noisy entropies and counts; release its draws, or records grown from seeds.

    Parameters
    ----------
    omega
        How many columns are resampled: a number, or a pair (first, last) from which each record draws its own.
        ``None`` resamples all: nothing of a seed is left, no test is needed and any number of rows is free.
    records
        How many seed-based records to release, where ``omega`` leaves something of the seed.
    k, gamma, epsilon0, attempts, min_seeds, max_plausible, max_check
        Privacy Test 2 and the release; see :class:`~understudy.mechanisms.deniability.bounds.SeedTest`. ``min_seeds`` may be left out
        where the number of rows is public.
    accept_weak
        Release seed-based records even if their composed epsilon is above ``weak_above``.
    weak_above
        What counts as weak.
    maxcost
        Most combinations of parent groups per column.
    usefulness
        A column gets another parent only while its table has at least this many expected rows per unit of noise.
    buckets, groups
        Ordered columns are cut into at most ``buckets`` groups when they serve as parents; ``groups`` gives the
        group of each code by column instead.
    fine_targets
        Compute correlations with the target at full resolution, as in the paper, instead of in groups. It
        doubles the number of entropies.
    structure_share
        Share of the budget spent on the structure.
    disjoint
        Learn structure, parameters and seeds from disjoint random parts, as in the paper, instead of from
        the whole table.
    shares
        Probabilities of the three disjoint parts.
    noise
        ``"auto"``: Laplace under pure budgets and Gaussian otherwise; ``"laplace"``: as in the paper.
    truncation, prior, parameters
        How noisy counts become probabilities: ``"simplex"`` or ``"zero"``; strength of the Dirichlet prior in rows
        (by default the scale of the noise); ``"mode"`` or a ``"draw"`` from the posterior.
    continuous
        ``"normal"`` or ``"regression"`` gives numeric columns discretised normal conditionals, measured by three
        moments per combination of parents instead of by a count per value; ``None`` treats them as discrete.
    lazy
        Learn only those rows of the conditional tables that a record asks for, each once, with noise from a
        secret key, so that ``maxcost`` may be millions. The model then holds ``records`` finished rows instead
        of the network. Needs every column resampled.

    Privacy
    -------
    Looks at the records: the number of rows (where private), the entropies, one marginal or one table of moments
    per column, and the seed-based records. All of them are charged in one entry before the first is drawn;
    proofs are in :mod:`understudy.mechanisms.deniability.look` and :mod:`understudy.mechanisms.deniability.bounds`. The
    structure depends on the entropies only and the tables on the counts only. A seed-based record costs an
    ``(epsilon, delta)`` of its own, so ``records`` of them are charged as one composed event, whose delta must
    be in the ledger's reserve (``approximate_delta``).

    Examples
    --------
    >>> Deniability(omega=(9, 11), records=1000, k=100, epsilon0=0.3).name
    'deniability'
    """

    name: ClassVar[str] = "deniability"
    summary: ClassVar[str] = "Bayesian network from noisy entropies; optionally records grown from seeds"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on entropies and counts; with seeds, draws under Privacy Test 2",
        papers={Paper.DENIABILITY: "sections 2 and 3"},
    )

    omega: int | tuple[int, int] | None = None
    records: int | None = None
    k: int = 50
    gamma: float = 4.0
    epsilon0: float = 1.0
    attempts: int = 1
    min_seeds: int | None = None
    max_plausible: int | None = None
    max_check: int | None = None
    accept_weak: bool = False
    weak_above: float = 10.0
    maxcost: int = 300
    usefulness: float = 1.0
    buckets: int = 8
    groups: Mapping[str, Sequence[int]] | None = None
    fine_targets: bool = False
    structure_share: float = 0.25
    disjoint: bool = False
    shares: tuple[float, float, float] = (0.25, 0.35, 0.4)
    noise: str = "auto"
    truncation: str = "simplex"
    prior: float | None = None
    parameters: str = "mode"
    continuous: str | None = None
    lazy: bool = False

    def __post_init__(self) -> None:
        special = []
        if len(self.shares) != 3 or min(self.shares) <= 0:
            special.append("shares must be three positive numbers.")
        if self.lazy and (self.records is None or self.continuous is not None):
            special.append(
                "lazy draws records while it learns: say how many (records), and leave out continuous."
            )
        refuse(
            at_least(self, 1, "maxcost"),
            at_least(self, 2, "buckets"),
            at_least(self, 1, "records", optional=True),
            at_least(self, 0, "prior", optional=True),
            positive(self, "usefulness", "weak_above"),
            shares(self, "structure_share"),
            one_of(self, "noise", ("auto", "laplace")),
            one_of(self, "truncation", ("simplex", "zero")),
            one_of(self, "parameters", ("mode", "draw")),
            one_of(self, "continuous", (None, "normal", "regression")),
            [] if self.omega is not None else unused(self, *_SEED_OPTIONS, because=_NO_SEEDS),
            [] if self.omega is not None or self.lazy else unused(self, "records", because=_NO_SEEDS),
            unused(self, "weak_above", because="accept_weak takes any epsilon") if self.accept_weak else [],
            []
            if self.disjoint
            else unused(self, "shares", because="disjoint is off: every row is used for everything"),
            special,
        )

    @property
    def _recipe(self) -> Recipe:
        return Recipe(**{field.name: getattr(self, field.name) for field in fields(Recipe)})

    # ------------------------------------------------------------------ public facts

    def accountings(self, budget: Budget) -> tuple[Accounting, ...]:
        """Return pure accounting for Laplace noise under an approximate budget, else the usual one.

        For as few Laplace acts as there are here, epsilon adds up to no more than what concentrated or
        advanced composition at a small delta would charge. Seed-based records have an (epsilon, delta) of
        their own, so everything beside them is spent as pure too.
        """
        if isinstance(budget, ApproxDP) and (self.omega is not None or self.noise == "laplace"):
            return (PURE,)
        return super().accountings(budget)

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of all entropies and of a cell of every table, in units of what a row can change."""
        known = total_is_public(schema, unit) and not self.disjoint
        design = self._recipe.design(schema, unit, accounting, cost, rows_known=known)
        cells = len(design.parameters) * math.sqrt(design.counts.variance)
        if design.entropy is None:
            return cells
        each = design.entropy.scale * (math.sqrt(2) if design.entropy.kind == "laplace" else 1.0)
        return cells + design.entropies * each

    def reserve(self, schema: Schema, budget: Budget) -> float:
        """Half of the delta goes to seed-based records, where there are any."""
        return budget.delta / 2 if isinstance(budget, ApproxDP) and self._seeded(schema) else 0.0

    def _omega(self, schema: Schema) -> tuple[int, ...]:
        return omega_range(self.omega, len(schema.names))

    def _seeded(self, schema: Schema) -> bool:
        """Say whether anything of a seed is left; resampling every column is free."""
        return self._omega(schema) != (len(schema.names),)

    def seed_test(self, *, rows: int | None) -> SeedTest:
        """Return the privacy test of these options, given the number of rows where it is public."""
        slots = self.min_seeds
        if slots is None:
            if rows is None:
                raise NoSuchGuarantee(
                    "The number of rows is private here, so min_seeds must say how many seeds there are at least "
                    "(fewer are filled up with empty ones). Give min_seeds, or declare the number of rows public."
                )
            slots = max(1, math.floor(0.9 * rows * (self.shares[2] if self.disjoint else 1.0)))
        return SeedTest(
            k=self.k,
            gamma=self.gamma,
            epsilon0=self.epsilon0,
            min_seeds=slots,
            attempts=self.attempts,
            max_plausible=self.max_plausible,
            max_check=self.max_check,
        )

    def _records_event(self, test: SeedTest, unit: Unit, delta: float) -> ApproxEvent:
        """Return the composed cost of the seed-based records, or refuse a guarantee that says little."""
        if self.records is None:
            raise NoSuchGuarantee(
                "Seed-based records compose: say how many there will be (records=...), so that they can be "
                "charged together, or resample every column (omega=None), which is free."
            )
        event = records_event(test, unit=unit, records=self.records, delta=delta)
        if event.epsilon > self.weak_above and not self.accept_weak:
            raise NoSuchGuarantee(
                f"{self.records} seed-based records compose to epsilon={event.epsilon:.3g} at delta={delta:.3g}, which "
                f"is above {self.weak_above:g} and says little. Release fewer, use more seeds, a smaller epsilon0 "
                "with a larger k, or accept it with accept_weak=True."
            )
        return event

    def _left_for_the_network(self, event: ApproxEvent, given: float, unit: Unit) -> float:
        """Return what the seed-based records leave of an epsilon, or refuse if that is next to nothing."""
        parallel = self.disjoint and unit.parts_touched == 1
        left = given if parallel else given - event.epsilon
        if event.epsilon > given or left <= 0.05 * given:
            raise NoSuchGuarantee(
                f"The seed-based records alone need epsilon={event.epsilon:.3g} of the {given:g} given. Release "
                "fewer, use a smaller epsilon0 with a larger k, or a larger budget."
            )
        return left

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy entropies and tables will be, and what seed-based records would cost."""
        if self.disjoint and unit.parts_touched == 1:
            refuse(
                unused(self, "structure_share", because="disjoint rows pay for structure and tables apart")
            )
        accounting = self.accounting(budget, schema, unit)
        known = total_is_public(schema, unit)
        design = self._recipe.design(
            schema, unit, accounting, accounting.total(budget), rows_known=known and not self.disjoint
        )
        domain = schema.domain
        measured = [
            PlannedMeasurement((name,), domain.size(name), design.counts)
            for name in domain.names
            if name not in self._recipe.smooth(schema)
        ]
        notes = [
            f"{design.entropies} entropies choose the parents; then one table per column with noise of scale "
            f"{design.counts.scale:.3g}, of at most {self.maxcost} combinations of parents.",
            *describe_accountings(design.structure, design.parameters, unit, budget, disjoint=self.disjoint),
        ]
        if self._seeded(schema):
            if self.lazy:
                raise NoSuchGuarantee(
                    "Seed-based records need the whole network for their privacy test: use lazy only with every "
                    "column resampled (omega=None)."
                )
            if not isinstance(budget, ApproxDP):
                raise NoSuchGuarantee(
                    "Seed-based records need a delta: use an ApproxDP budget, or resample every column (omega=None)."
                )
            # under replacement the number of rows is no secret, but a plan has not seen the table
            countable = schema.row_count is not None or self.min_seeds is not None or not known
            test = self.seed_test(rows=schema.row_count) if countable else None
            if test is None:
                notes.append(
                    "What the seed-based records cost depends on the number of rows; declare it (row_count) or give "
                    "min_seeds to see it here. It is checked before anything is spent in any case."
                )
            else:
                event = self._records_event(test, unit, budget.delta / 2)
                self._left_for_the_network(event, budget.epsilon, unit)
                notes.append(
                    f"{self.records} seed-based records compose to epsilon={event.epsilon:.3g} at "
                    f"delta={event.delta:.3g}; one alone costs epsilon="
                    f"{test.composed(1, relation=unit.relation, delta=budget.delta / 2):.3g}. The ledger needs that "
                    "delta as a reserve (approximate_delta)."
                )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(measured),
            model_cells=self._model_cells(domain),
            notes=tuple(notes),
        )

    def _model_cells(self, domain: Domain) -> int:
        """Return the most numbers the model will hold: whole tables, or finished records."""
        if self.records is not None and (self.lazy or self.omega is not None):
            return self.records * len(domain)
        return sum(self.maxcost * size for size in domain.sizes)

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        if self._seeded(curator.schema):
            return self._fit_with_seeds(curator, progress)
        rows_known = curator.rows.number is not None and not self.disjoint
        design = self._recipe.design(
            curator.schema, curator.unit, curator.accounting, curator.remaining, rows_known=rows_known
        )
        plans = [plan for plan in (design.structure, design.parameters) if plan]
        shares = None
        if self.disjoint and len(plans) == 2:
            first, second = self.shares[:2]
            shares = (first / (first + second), second / (first + second))
        parts = open_parts(
            curator, plans, shares=shares, purpose="entropies and conditional tables of a network"
        )
        progress("structure", 0.1)
        if self.lazy:
            assert self.records is not None
            rows, parents = self._recipe.structure(curator, design, parts[0], shares)
            progress("records", 0.5)
            codes = self._recipe.lazy_records(curator.schema, design, parts[-1], parents, self.records)
            shown = Statistic("records of lazily learnt tables", codes.astype(np.float64), "mechanism")
            return Fitted(ReleasedRecords(curator.domain, rows, codes), (), statistics=[shown])
        fitted, _ = self._recipe.learn(curator, design, parts[0], parts[-1], shares, progress)
        return fitted

    def _fit_with_seeds(self, curator: Curator, progress: Progress) -> Fitted:
        """Learn the network and release the records, all charged at once."""
        test = self.seed_test(rows=curator.rows.number)
        event = self._records_event(test, curator.unit, curator.reserve)
        left = self._left_for_the_network(event, curator.remaining, curator.unit)
        cost = left * (1 - 1e-12)
        rows_known = curator.rows.number is not None and not self.disjoint
        design = self._recipe.design(curator.schema, curator.unit, PURE, cost, rows_known=rows_known)
        plans = [plan for plan in (design.structure, design.parameters, (event,)) if plan]
        shares = None
        if self.disjoint:
            chosen = self.shares if len(plans) == 3 else self.shares[1:]
            shares = tuple(share / sum(chosen) for share in chosen)
        parts = open_parts(
            curator, plans, shares=shares, purpose="network and seed-based records (Privacy Test 2)"
        )
        fitted, network = self._recipe.learn(curator, design, parts[0], parts[-2], shares, progress)
        progress("seed-based records", 0.8)
        model = NetworkSeedModel(
            curator.domain,
            tuple(
                Conditional(
                    node.column,
                    tuple(name for name, _ in node.parents),
                    tuple(network.resolution.labels(view) for view in node.parents),
                    node.conditional,
                )
                for node in network.nodes
            ),
            omega=self._omega(curator.schema),
        )
        assert self.records is not None
        codes = parts[-1].release(model, test, records=self.records, event=event)
        released = ReleasedRecords(curator.domain, network.total, codes)
        return Fitted(released, fitted.measurements, statistics=fitted.statistics)
