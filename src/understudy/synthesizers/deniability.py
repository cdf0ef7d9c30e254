"""Deniability: a network from noisy entropies, and records grown from seeds (Bindschaedler, Shokri, Gunter 2017)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import (
    Conditional,
    Curator,
    NetworkSeedModel,
    Noise,
    Part,
    SeedTest,
    counts_event,
    entropy_event,
    moments_event,
    omega_range,
    open_parts,
    records_event,
    rows_event,
)
from understudy.engine import BayesianNetwork, Node, Resolution, View
from understudy.engine.released import ReleasedRecords
from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.marginals import Measurement, NoiseKind
from understudy.privacy import (
    PURE,
    Accounting,
    ApproxDP,
    ApproxEvent,
    Budget,
    Event,
    Gaussian,
    Laplace,
    Unit,
    accounting_for,
)
from understudy.schema import Schema
from understudy.synthesizers._deniability_accounting import describe_accountings
from understudy.synthesizers._deniability_parameters import (
    dirichlet_table,
    normal_table,
    numeric_columns,
    positions,
)
from understudy.synthesizers._deniability_structure import (
    Correlations,
    buckets_of,
    dependency_order,
    groups_of,
    learn_parents,
    needed_entropies,
)
from understudy.synthesizers.base import Fitted, Plan, PlannedMeasurement, Progress, Synthesizer, no_progress
from understudy.synthesizers.model import Model, Provenance

_GRID = 1 + 2.0**-18
"""Entropies are rounded before the noise; the cost of that is below this factor."""


@dataclass(frozen=True)
class _Design:
    """Everything a fit will do, with its noise: computed from public facts, charged in one entry."""

    rows: Noise | None
    entropies: int
    entropy: Noise | None
    counts: Noise
    structure: tuple[Event, ...]
    parameters: tuple[Event, ...]


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
        Privacy Test 2 and the release; see :class:`~understudy.curator.SeedTest`. ``min_seeds`` may be left out
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
        the whole table; ``shares`` are their probabilities.
    noise
        ``"auto"``: Laplace under pure budgets and Gaussian otherwise; ``"laplace"``: as in the paper.
    truncation, prior, parameters
        How noisy counts become probabilities: ``"simplex"`` or ``"zero"``; strength of the Dirichlet prior in rows
        (by default the scale of the noise); ``"mode"`` or a ``"draw"`` from the posterior.
    continuous
        ``"normal"`` or ``"regression"`` gives numeric columns discretised normal conditionals, measured by three
        moments per combination of parents instead of by a count per value; ``None`` treats them as discrete.

    Privacy
    -------
    Looks at the records: the number of rows (where private), the entropies, one marginal or one table of moments
    per column, and the seed-based records. All of them are charged in one entry before the first is drawn;
    proofs are in :mod:`understudy.curator.deniability` and :mod:`understudy.curator._deniability_bounds`. The
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

    def __post_init__(self) -> None:
        problems = []
        if self.maxcost < 1:
            problems.append(f"maxcost ({self.maxcost}) must be at least 1.")
        if not self.usefulness > 0:
            problems.append(f"usefulness ({self.usefulness}) must be positive.")
        if self.buckets < 2:
            problems.append(f"buckets ({self.buckets}) must be at least 2.")
        if not 0 < self.structure_share < 1:
            problems.append(f"structure_share ({self.structure_share}) must lie between 0 and 1.")
        if len(self.shares) != 3 or min(self.shares) <= 0:
            problems.append("shares must be three positive numbers.")
        if self.prior is not None and not self.prior >= 0:
            problems.append(f"prior ({self.prior}) must not be negative.")
        if self.records is not None and self.records < 1:
            problems.append(f"records ({self.records}) must be at least 1.")
        if not self.weak_above > 0:
            problems.append(f"weak_above ({self.weak_above}) must be positive.")
        for option, value, known in (
            ("noise", self.noise, ("auto", "laplace")),
            ("truncation", self.truncation, ("simplex", "zero")),
            ("parameters", self.parameters, ("mode", "draw")),
            ("continuous", self.continuous, (None, "normal", "regression")),
        ):
            if value not in known:
                problems.append(f"{option} ({value!r}) must be one of {', '.join(map(str, known))}.")
        if problems:
            raise BudgetError(" ".join(problems))

    # ------------------------------------------------------------------ public facts

    def accounting(self, budget: Budget) -> Accounting:
        """Return pure accounting for Laplace noise under an approximate budget, else the usual one.

        For as few Laplace acts as there are here, epsilon adds up to no more than what concentrated or
        advanced composition at a small delta would charge. Seed-based records have an (epsilon, delta) of
        their own, so everything beside them is spent as pure too.
        """
        if isinstance(budget, ApproxDP) and (self.omega is not None or self.noise == "laplace"):
            return PURE
        return accounting_for(budget)

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

    def _design(
        self, schema: Schema, unit: Unit, accounting: Accounting, cost: float, *, rows_known: bool
    ) -> _Design:
        """Divide the cost between rows, entropies and tables."""
        resolution = self._resolution(schema)
        count = (
            len(needed_entropies(resolution, fine_targets=self.fine_targets)) if len(schema.names) > 1 else 0
        )
        parallel = self.disjoint and unit.parts_touched == 1
        for_structure = cost if parallel else cost * self.structure_share
        for_tables = cost if parallel else cost * (1 - self.structure_share)
        rows = None
        if not rows_known:
            rows = self._noise(accounting, 0.05 * for_structure, unit.max_rows, unit.max_rows)
            for_structure *= 0.95
        elif not count:
            for_tables = cost
        structure: list[Event] = [] if rows is None else [rows_event(unit, rows)]
        entropy = None
        if count:
            share = accounting.split(for_structure, [1.0] * count)[0]
            entropy = self._noise(accounting, share, _GRID, _GRID)
            structure += [entropy_event(entropy)] * count
        share = accounting.split(for_tables, [1.0] * len(schema.names))[0]
        counts = self._noise(accounting, share, unit.histogram_l1, unit.histogram_l2)
        smooth = self._smooth(schema)
        events = [
            moments_event(unit, self._moments_noise(counts)) if name in smooth else counts_event(unit, counts)
            for name in schema.names
        ]
        return _Design(rows, count, entropy, counts, tuple(structure), tuple(events))

    def _noise(self, accounting: Accounting, cost: float, l1: float, l2: float) -> Noise:
        if accounting.name == PURE.name or self.noise == "laplace":
            return Laplace(accounting.laplace_scale(cost, l1))
        return Gaussian(accounting.gaussian_sigma(cost, l2))

    @staticmethod
    def _moments_noise(counts: Noise) -> Noise:
        """Return the noise of moments that costs as much as counts do: they move by 3, or the root of 3."""
        factor = 3.0 if isinstance(counts, Laplace) else math.sqrt(3) * (1 + 2.0**-40)
        return type(counts)(counts.scale * factor)

    def _smooth(self, schema: Schema) -> tuple[str, ...]:
        return () if self.continuous is None else numeric_columns(schema)

    def _resolution(self, schema: Schema) -> Resolution:
        return buckets_of(schema, at_most=self.buckets, groups=self.groups)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how noisy entropies and tables will be, and what seed-based records would cost."""
        accounting = self.accounting(budget)
        known = schema.row_count is not None or (unit.relation == "replace-one" and unit.max_rows == 1)
        design = self._design(
            schema, unit, accounting, accounting.total(budget), rows_known=known and not self.disjoint
        )
        domain = schema.domain
        measured = [
            PlannedMeasurement((name,), domain.size(name), design.counts)
            for name in domain.names
            if name not in self._smooth(schema)
        ]
        notes = [
            f"{design.entropies} entropies choose the parents; then one table per column with noise of scale "
            f"{design.counts.scale:.3g}, of at most {self.maxcost} combinations of parents.",
            *describe_accountings(design.structure, design.parameters, unit, budget, disjoint=self.disjoint),
        ]
        if self._seeded(schema):
            if not isinstance(budget, ApproxDP):
                raise NoSuchGuarantee(
                    "Seed-based records need a delta: use an ApproxDP budget, or resample every column (omega=None)."
                )
            test = (
                self.seed_test(rows=schema.row_count if known else None) if known or self.min_seeds else None
            )
            if test is not None and self.records is not None:
                event = self._records_event(test, unit, budget.delta / 2)
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
            model_cells=sum(self.maxcost * size for size in domain.sizes),
            notes=tuple(notes),
        )

    # ------------------------------------------------------------------ fitting

    def fit(self, curator: Curator, budget: Budget, *, progress: Progress = no_progress) -> Model:
        """Fit a model, spending at most ``budget``; with seeds, also release the records.

        Privacy
        -------
        Without seeds this is :meth:`Synthesizer.fit`. With seeds an allowance cannot pay, because events with
        a delta are paid from the ledger's reserve: everything is charged to ``curator`` in one entry whose pure
        cost, checked here, is at most the budget's epsilon and whose delta is within the reserve.
        """
        if not self._seeded(curator.schema):
            return super().fit(curator, budget, progress=progress)
        self.require(budget)
        self.plan(curator.schema, unit=curator.unit, budget=budget)
        assert isinstance(budget, ApproxDP)
        delta = curator.ledger.rule.approximate_delta - float(curator.ledger.spending.delta)
        if not 0 < delta <= budget.delta:
            raise NoSuchGuarantee(
                "Seed-based records need a delta of their own. Open the ledger with approximate_delta between 0 and "
                "the budget's delta (half of it is a good choice), or resample every column (omega=None)."
            )
        test = self.seed_test(rows=curator.known_rows)
        event = self._records_event(test, curator.unit, delta)
        parallel = self.disjoint and curator.unit.parts_touched == 1
        left = budget.epsilon if parallel else budget.epsilon - event.epsilon
        if event.epsilon > budget.epsilon or left <= 0.05 * budget.epsilon:
            raise NoSuchGuarantee(
                f"The seed-based records alone need epsilon={event.epsilon:.3g} of the {budget.epsilon:g} given. Release "
                "fewer, use a smaller epsilon0 with a larger k, or a larger budget."
            )
        fitted, cost = self._fit_with_seeds(curator, left * (1 - 1e-12), test, event, progress)
        return Model(
            schema=curator.schema,
            distribution=fitted.distribution,
            measurements=tuple(fitted.measurements),
            provenance=Provenance(
                method=self.name,
                options=self.options(),
                unit=curator.unit,
                budget=budget,
                accounting=PURE.name,
                spent=cost,
                ledger_id=curator.ledger.ledger_id,
            ),
        )

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        rows_known = curator.known_rows is not None and not self.disjoint
        design = self._design(
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
        fitted, _ = self._learn(curator, design, parts[0], parts[-1], shares, progress)
        return fitted

    def _fit_with_seeds(
        self, curator: Curator, cost: float, test: SeedTest, event: ApproxEvent, progress: Progress
    ) -> tuple[Fitted, float]:
        """Learn the network and release the records, all charged at once."""
        rows_known = curator.known_rows is not None and not self.disjoint
        design = self._design(curator.schema, curator.unit, PURE, cost, rows_known=rows_known)
        plans = [plan for plan in (design.structure, design.parameters, (event,)) if plan]
        shares = None
        if self.disjoint:
            chosen = self.shares if len(plans) == 3 else self.shares[1:]
            shares = tuple(share / sum(chosen) for share in chosen)
        before = float(curator.ledger.spending.sums[PURE.name] or 0)
        parts = open_parts(
            curator, plans, shares=shares, purpose="network and seed-based records (Privacy Test 2)"
        )
        spent = float(curator.ledger.spending.sums[PURE.name] or 0) - before
        fitted, network = self._learn(curator, design, parts[0], parts[-2], shares, progress)
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
        return Fitted(ReleasedRecords(curator.domain, network.total, codes), fitted.measurements), spent

    def _learn(
        self,
        curator: Curator,
        design: _Design,
        structure: Part,
        tables: Part,
        shares: Sequence[float] | None,
        progress: Progress,
    ) -> tuple[Fitted, BayesianNetwork]:
        """Structure from entropies, then tables from counts."""
        schema, domain = curator.schema, curator.domain
        resolution = self._resolution(schema)
        rows = self._rows(curator, design, structure, shares)
        share = 1.0 if shares is None else shares[0]
        parents: dict[str, tuple[View, ...]] = dict.fromkeys(domain.names, ())
        scale = design.counts.scale
        table_rows = rows if shares is None else rows * shares[-1 if len(shares) == 2 else 1]
        if design.entropy is not None:
            keys = needed_entropies(resolution, fine_targets=self.fine_targets)
            at_least = max(16, math.floor(rows * share - 3 * (design.rows.scale if design.rows else 0)))
            values = structure.entropies(
                [groups_of(resolution, key) for key in keys], noise=design.entropy, at_least=at_least
            )
            correlations = Correlations(resolution, dict(zip(keys, values, strict=True)))

            def affordable(target: str, views: Sequence[View]) -> bool:
                combinations = resolution.cells(views)
                cells = combinations * (3 if target in self._smooth(schema) else domain.size(target))
                return combinations <= self.maxcost and cells * scale * self.usefulness <= table_rows

            parents = learn_parents(
                correlations,
                fine_targets=self.fine_targets,
                affordable=affordable,
                least_gain=_gain_of_noise(correlations, design.entropy, at_least),
            )
        progress("conditional tables", 0.5)
        nodes, measurements = self._tables(schema, design, tables, resolution, parents)
        progress("done", 1.0)
        network = BayesianNetwork(resolution, max(1.0, rows), nodes)
        return Fitted(network, measurements), network

    @staticmethod
    def _rows(curator: Curator, design: _Design, part: Part, shares: Sequence[float] | None) -> float:
        """Return the number of rows of the whole table: known, or measured on the part."""
        if curator.known_rows is not None and design.rows is None:
            return float(max(1, curator.known_rows))
        assert design.rows is not None
        return max(1.0, part.row_count(design.rows) / (1.0 if shares is None else shares[0]))

    def _tables(
        self,
        schema: Schema,
        design: _Design,
        part: Part,
        resolution: Resolution,
        parents: Mapping[str, tuple[View, ...]],
    ) -> tuple[tuple[Node, ...], list[Measurement]]:
        """Measure one table per column and turn it into conditional probabilities."""
        domain = schema.domain
        generator = np.random.default_rng()
        prior = design.counts.scale if self.prior is None else self.prior
        nodes, measurements = [], []
        for name in dependency_order(domain, parents):
            views = resolution.canonical(parents[name])
            groups: dict[str, npt.NDArray[np.int64]] = {view[0]: resolution.labels(view) for view in views}
            if name in self._smooth(schema):
                noise = self._moments_noise(design.counts)
                moments = part.moments(groups, name, positions(domain.size(name)), noise=noise)
                regression = resolution.shape(views) if self.continuous == "regression" else None
                table = normal_table(moments, domain.size(name), strength=noise.scale, regression=regression)
            else:
                fine = groups | {name: np.arange(domain.size(name))}
                (noisy,) = part.measure([fine], noise=design.counts)
                clique = domain.canonical(fine)
                if noisy.shape == domain.shape(clique):
                    kind: NoiseKind = "laplace" if isinstance(design.counts, Laplace) else "gaussian"
                    measurements.append(Measurement(clique, noisy, kind, design.counts.scale))
                table = dirichlet_table(
                    np.moveaxis(noisy, clique.index(name), -1),
                    prior=max(prior, 1e-6),
                    truncation=self.truncation,
                    draw=self.parameters == "draw",
                    generator=generator,
                )
            nodes.append(Node(name, views, table))
        return tuple(nodes), measurements


def _gain_of_noise(correlations: Correlations, noise: Noise, at_least: int) -> float:
    """Return a merit gain that noise alone rarely reaches: one standard deviation of a noisy correlation."""
    unit = math.log(max(3, at_least)) / at_least  # about the sensitivity of an entropy
    spread = noise.scale * unit * (math.sqrt(2) if isinstance(noise, Laplace) else 1.0)
    alone = [value for key, value in correlations.entropies.items() if len(key) == 1]
    typical = max(1e-3, 2 * float(np.median(alone)))
    return min(0.2, max(1e-3, 2 * spread / typical))
