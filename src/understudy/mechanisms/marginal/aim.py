"""AIM: an adaptive and iterative mechanism for workloads of marginals (paper AIM, Algorithms 2 to 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.curator import Curator, SealedCounts
from understudy.engine import GraphicalModel, ProductMixture, candidate_sizes, estimate, project_to_simplex
from understudy.errors import BudgetError, DomainTooLarge, UsageError
from understudy.inference import Round, RoundLog, answer_each
from understudy.marginals import Measurement, Statistic, Workload
from understudy.mechanisms.allocation import (
    TOTAL_SHARE,
    cells_of,
    laplace_for,
    rows_noise,
    total_is_public,
    workload_for,
)
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    Progress,
    Synthesizer,
    planned,
    support_of,
    total_deviation,
)
from understudy.mechanisms.marginal.fields import field_posterior, shrunk_cells
from understudy.mechanisms.marginal.tails import NumberSmoother
from understudy.mechanisms.options import at_least, one_of, positive, refuse, shares, unused
from understudy.mechanisms.queries.rap import RelaxedEstimate
from understudy.mechanisms.rounds import (
    RoundCost,
    certify,
    columns_again,
    expected_absolute_noise,
    hopeful,
    measure_worst,
    require_certificate,
    require_fixed,
    small_of_groups,
)
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema
from understudy.schema.entities import MOST_NUMBERS, NUMBERS

# ----------------------------------------------------------------------------------------
# Noise taken out of measured columns: neighbouring values of an ordered column have similar counts.
#
# A noisy column is modelled as a random field around even counts: each value differs from its neighbours by itself, or
# together with those near it, at three ranges. How much of each there is, is what makes the noisy column most likely; noise
# has a known variance, so columns that are rough are left as they were measured. The posterior mean takes the place of the
# noise. All of it is post-processing of released numbers.

Array = npt.NDArray[np.float64]

FEWEST_VALUES, MOST_VALUES = 16, 1_000
"""Sizes of columns that are smoothed: fewer values teach nothing about smoothness, the work grows with the third power."""

_ROUNDS = 0.8
"""Roughly the part of a fit that is over when nothing is left to spend."""
_LEAST_NOISE = 0.02
"""Columns whose noise adds up to less than this share of the records are left alone."""
_SHORT, _PARTS = 1.5, (12.0, 4.0)
"""Ranges within which values are alike: in values, and as parts of the column."""
_STEPS = 40
_MOST_FIRST = 0.5
"""Largest share of the budget for marginals that are measured before all others."""


def smoothable(schema: Schema, name: str) -> bool:
    """Say whether a column has an order and enough values for its neighbours to tell something."""
    column = schema.column(name)
    return column.kind != "categorical" and FEWEST_VALUES <= column.size <= MOST_VALUES


class ColumnSmoother:
    """Replaces measurements of single ordered columns by what they say together with their order.

    Results are kept: a column is smoothed again only after it was measured again.

    Examples
    --------
    >>> from understudy.schema import Integer, Schema
    >>> age = Schema([Integer("age", minimum=0, maximum=39)])
    >>> true = 1000 * np.exp(-np.arange(40) / 10)
    >>> noisy = true + np.random.default_rng(0).normal(0, 100, 40)
    >>> (item,) = ColumnSmoother(age).targets([Measurement(("age",), noisy, "gaussian", 100.0)], rows=true.sum())
    >>> bool(np.abs(item.values - true).sum() < 0.6 * np.abs(noisy - true).sum())
    True
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[tuple[Clique, int], Measurement] = {}

    def targets(self, measurements: Sequence[Measurement], *, rows: float) -> list[Measurement]:
        """Return what an estimate should be fitted to; other measurements are passed on as they are."""
        columns: dict[Clique, list[Measurement]] = {}
        rest = []
        for item in measurements:
            if len(item.clique) == 1 and smoothable(self._schema, item.clique[0]):
                columns.setdefault(item.clique, []).append(item)
            else:
                rest.append(item)
        for clique, items in columns.items():
            key = (clique, len(items))
            if key not in self._known:
                precision = sum(1.0 / item.variance for item in items)
                noisy = sum(item.values / item.variance for item in items) / precision
                self._known[key] = self._smoothed(
                    clique, np.asarray(noisy, np.float64), 1.0 / precision, rows
                )
            rest.append(self._known[key])
        return rest

    def _smoothed(self, clique: Clique, noisy: Array, variance: float, rows: float) -> Measurement:
        size = len(noisy)
        if size * np.sqrt(variance) < _LEAST_NOISE * rows:
            return Measurement(clique, noisy, "gaussian", float(np.sqrt(variance)))
        even = rows / size
        gap = noisy + (rows - noisy.sum()) / size - even
        with threadpool_limits(1):  # the matrices are small
            mean, spread = _posterior(
                gap, np.full(size, even), variance, self._schema.column(clique[0]).value_count
            )
        # An estimate gives every target its weight; errors that are alike in neighbours count as if they were not.
        return Measurement(clique, project_to_simplex(even + mean, rows), "gaussian", float(np.sqrt(spread)))


def _posterior(gap: Array, even: Array, variance: float, ordered: int) -> tuple[Array, float]:
    """Return the posterior mean of the differences from even counts, and their mean posterior variance."""
    likely = np.maximum(0.1 * even, even + shrunk_cells(gap, even, variance))
    scale = np.sqrt(np.outer(likely, likely)) * likely.mean()  # the root lets rare values move
    parts = [scale * alike for alike in _alike(len(gap), ordered)]

    mean, spread = field_posterior(
        gap, parts, variance, start=np.full(len(parts), -1.0), usual=-2.0, bounds=(-12.0, 6.0), steps=_STEPS
    )
    return mean, min(variance, max(spread, 1e-3 * variance))


def _alike(size: int, ordered: int) -> list[Array]:
    """Return how alike values are: not at all, and within each range. Codes after the ordered ones stand alone."""
    kinds = [np.eye(size)]
    place = np.arange(ordered, dtype=np.float64)
    for reach in (_SHORT, *(ordered / part for part in _PARTS)):
        near = np.zeros((size, size))
        near[:ordered, :ordered] = np.exp(-0.5 * np.square(np.subtract.outer(place, place) / max(1.0, reach)))
        kinds.append(near)
    return kinds


_SECONDS_PER_CANDIDATE, _SECONDS_PER_COLUMN, _SECONDS_PER_MB = 1e-4, 5e-4, 2e-3
"""What a round takes, rounded up: asking the model, building its tree, estimating it (``python -m benchmarks wide``)."""

_LEAST_ROUNDS = 10
"""Fewer rounds than this are no fit."""

AimModel = GraphicalModel | ProductMixture


class Refit(Protocol):
    """Estimates a distribution from all measurements so far; ``rows`` is the number of rows once it is known."""

    def __call__(
        self,
        measurements: list[Measurement],
        start: AimModel | None,
        *,
        rows: float | None = None,
        thorough: bool = False,
    ) -> AimModel:
        """Return the distribution, found from the one before."""


@dataclass(frozen=True, kw_only=True)
class AIM(Synthesizer):
    """Measure what the current model gets most wrong, again and again, until the budget is spent.

    All one-way marginals come first, twice where a small table would drown in their noise. Then each
    round chooses a marginal from the downward closure of the workload by the exponential
    mechanism, measures it, and refits a graphical model. When a round teaches less than its noise,
    the following rounds get more budget. The last round spends what is left.

    Parameters
    ----------
    workload
        The marginals that matter; all 3-way marginals by default, all pairs for more than 85 columns.
    max_model_mb
        Largest junction tree the model may need, in megabytes.
    rounds_per_column
        The first rounds are priced as if there were this many rounds per column (16 in the paper).
    measure_share
        Share of each round's cost that is spent on measuring; the rest pays for choosing.
    max_candidates
        Most marginals that are looked at in a round; one-way marginals first, then by number of cells.
    column_noise
        Tolerated noise of the one-way marginals, as a share of the records. Where the paper's first look at them
        leaves more, they are measured again, more exactly, for at most seven tenths of the budget in all. Only
        small tables are concerned. Zero never measures them again (the paper's rule).
    smooth
        Whether noise is taken out of ordered columns of many values before the model is fitted to them: what
        their neighbouring values say together (post-processing). False fits them as measured (the paper's rule).
    max_rounds
        Most rounds after the first looks; no limit by default. Rounds get dearer so that the budget is spent in as many.
    known
        Measurements of the same table that were released, and paid for, before. The model starts from them, and
        columns they contain are not measured a first time.
    first
        Marginals that are measured before all others, each with the share of the budget it gets, as ``((("age",), 0.05),)``: for what has to
        be exact because everything else is multiplied by it.
    numbers
        Of event records (:mod:`understudy.schema.entities`): share of the budget that counts entities by their exact number of events, which the columns know in bins only.
    prior
        A model of public data over the same columns. The fit starts from it, and what is not measured keeps its
        relations. Rounds choose where it is wrong about the private table.
    certify
        Share of the budget that measures the finished model's error on every workload marginal. A
        hundredth makes :meth:`Model.error_bounds` several times tighter on large tables. Of little use
        under pure differential privacy, where hundreds of numbers share it linearly.
    initialise
        Whether one-way marginals are measured first. False starts from a uniform distribution, and measures
        the number of rows with a hundredth of the budget where it is private (element A1 of the paper's ablation).
    score
        What a marginal is chosen by: ``gain``, the error it has less the noise it would get, weighted by its
        part in the workload; or ``error``, the score of MWEM+PGM, which takes one row off per cell and has no
        weights (element A2).
    anneal
        Whether rounds get dearer when they teach little. False keeps the price of the first rounds, so that there are
        about ``rounds_per_column`` measurements per column in all: choose a smaller one, such as 2 (element A3).
    noise
        Noise of the marginals: that of the accounting (Gaussian unless the budget is spent as a pure epsilon),
        or ``laplace`` in every accounting (element B1).
    estimation
        ``graphical``, a graphical model (Private-PGM); or ``relaxed``, relaxed rows moved by gradient steps as
        in :class:`~understudy.mechanisms.queries.rap.RAP` with the loss of its paper (element O1).

    Privacy
    -------
    Three kinds of looks, a fourth with ``certify`` and a fifth with ``numbers``: (1) the marginals of ``first``, if any, and all one-way marginals of the closure,
    measured once or twice, the second time at a price that follows from the released number of rows, or instead, without
    ``initialise``, the number of rows where it is private; (2) in each round a choice by the exponential mechanism among candidates fixed by
    what was released before, with score ``w_r (|M_r(D) - M_r(model)|_1 - penalty_r)``: the distance moves by at most ``l1`` between
    neighbours and the penalty is public, so the sensitivity is ``l1 max w_r`` over the candidates (with ``score="error"``
    all weights and the penalty of a cell are one, and the sensitivity is ``l1``);
    (3) in each round a measurement of the chosen marginal; (4) the L1 distance of each workload marginal
    from the finished model, which moves by at most ``l1``; (5) once, how many entities have one event, two, and so on, which an entity with all its events changes as one row
    would (`Curator.people_by_rows` proves it). Costs depend on earlier outputs, so the
    loop runs inside a filter: the curator refuses any charge beyond the allowance. Fully adaptive
    composition holds for each accounting (sums of epsilon, of rho, of squared mu). Laplace noise of scale ``b`` is charged
    as the pure ``l1 / b`` that it is, in whichever accounting. Candidates are
    left out only by model size and by bounds computed from released values. ``prior`` and ``known`` are
    public: constants to the mechanism, whose scores keep their sensitivity. The rest is post-processing.

    Examples
    --------
    >>> AIM(max_model_mb=20).name
    'aim'
    """

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = "adaptive choice of marginals for a workload, graphical model"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on marginals; exponential mechanism for choices",
        papers={Paper.AIM: "Algorithms 2 to 4"},
    )

    workload: Workload | None = None
    max_model_mb: float = 80.0
    rounds_per_column: float = 16.0
    measure_share: float = 0.9
    max_candidates: int = 5_000
    column_noise: float = 0.1
    smooth: bool = True
    max_rounds: int | None = None
    known: tuple[Measurement, ...] = ()
    first: tuple[tuple[Clique, float], ...] = ()
    numbers: float = 0.0
    prior: GraphicalModel | None = None
    certify: float = 0.0
    initialise: bool = True
    score: Literal["gain", "error"] = "gain"
    anneal: bool = True
    noise: Literal["auto", "laplace"] = "auto"
    estimation: Literal["graphical", "relaxed"] = "graphical"

    def __post_init__(self) -> None:
        refuse(
            positive(self, "max_model_mb"),
            at_least(self, 1, "rounds_per_column", "max_candidates"),
            at_least(self, 1, "max_rounds", optional=True),
            shares(self, "measure_share"),
            at_least(self, 0, "column_noise"),
            shares(self, "certify", "numbers", zero=True),
            self._wrong_first(),
            one_of(self, "initialise", (True, False)),
            one_of(self, "score", ("gain", "error")),
            one_of(self, "anneal", (True, False)),
            one_of(self, "noise", ("auto", "laplace")),
            one_of(self, "estimation", ("graphical", "relaxed")),
            [] if self.initialise else unused(self, "column_noise", because="initialise is false"),
            [] if self.estimation == "graphical" else unused(self, "prior", because="estimation is relaxed"),
        )

    def _wrong_first(self) -> list[str]:
        """Return what is wrong with the marginals that come first."""
        try:
            total = sum(share for clique, share in self.first if len(clique))
            right = all(share > 0 and clique for clique, share in self.first) and total <= _MOST_FIRST
        except (TypeError, ValueError):
            right = False
        if right:
            return []
        return [
            f"first must list columns with the share of the budget of each, above 0 and at most {_MOST_FIRST:g} together"
        ]

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell measured in one of the first rounds."""
        price = self._first_price(schema.domain, cost)
        return total_deviation([(1, self._noise(accounting, unit, price.measure))])

    def _noise(self, accounting: Accounting, unit: Unit, cost: float) -> Noise:
        """Return the noise that a marginal gets for a cost."""
        return (laplace_for if self.noise == "laplace" else noise_for)(accounting, unit, cost)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how the first rounds are priced, or which columns are too wide for any model."""
        domain = schema.domain
        workload = workload_for(self.workload, domain)
        candidates = self._candidates(domain, workload)
        self._check_known(domain)
        require_fixed(schema, self._fixed(), self.max_model_mb)
        accounting = self.accounting(budget, schema, unit)
        total = accounting.total(budget)
        require_certificate(accounting, unit, self.certify * total, len(workload.cliques))
        price = self._first_price(domain, total)
        noise = self._noise(accounting, unit, price.measure)
        design: list[tuple[Clique, Noise]] = [
            *(
                (domain.canonical(clique), self._noise(accounting, unit, share * total))
                for clique, share in self.first
            ),
            *((clique, noise) for clique in self._columns(candidates)),
        ]
        before = self.numbers + sum(share for _, share in self.first)
        spent = before * total + len(self._columns(candidates)) * price.measure
        if before and spent >= total:
            raise BudgetError(
                "What is measured first and the columns would take the whole budget. Give first or numbers smaller shares, or more rounds_per_column."
            )
        if not design and self._counts_rows(schema, unit):
            design = [((), rows_noise(accounting, unit, TOTAL_SHARE * total))]
        left_out = workload.closure_size - len(candidates)
        most = round(self.rounds_per_column * len(domain))
        if self.max_rounds is not None:
            most = min(most, self.max_rounds)
        rounds = (
            f"Then between {min(len(domain), most)} and {most} adaptive rounds over "
            f"{len(candidates)} candidate marginals; noise per round falls as the model stops learning."
            if self.anneal
            else f"Then rounds of equal price over {len(candidates)} candidate marginals, at most {most}; noise per round "
            f"is {noise.kind} of scale {noise.scale:.4g} rows."
        )
        notes = [rounds]
        if self._starts(schema, unit):
            notes.append(
                f"Entities are counted by their exact number of events for {self.numbers:.2g} of the budget."
            )
        if left_out:
            notes.append(
                f"{left_out} larger marginals of the workload's closure are only estimated, never measured: they have "
                f"too many cells for a model of {self.max_model_mb:g} MB, or there are more than "
                f"{self.max_candidates} candidates. Use coarser bins, fewer columns or a smaller workload "
                "(such as target:COLUMN or all-2way), or raise max_model_mb or max_candidates."
            )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=cells_of(self.max_model_mb),
            notes=tuple(notes),
        )

    def options(self) -> dict[str, Any]:
        """Return the options as plain values: of a prior and of known measurements only the cliques."""
        plain = super().options()
        plain["known"] = [list(item.clique) for item in self.known]
        plain["prior"] = None if self.prior is None else [list(item) for item in self.prior.cliques]
        if self.max_rounds is None:  # work that an earlier version began goes on under the same name
            del plain["max_rounds"]
        if not self.numbers:
            del plain["numbers"]
        return plain

    def _starts(self, schema: Schema, unit: Unit) -> range | None:
        """Return the numbers of events that entities are counted by; None where they are not."""
        table = schema.events_of
        if not self.numbers or unit.id_column is None or table is None or table.entity is None:
            return None
        return range(1, table.entity.max_events + 1) if table.entity.max_events <= MOST_NUMBERS else None

    def _count_numbers(self, curator: Curator, cost: float) -> tuple[Statistic, ...]:
        """Count entities by their number of events, where that is asked for.

        Privacy
        -------
        In: private. Out: releasable, charged first. An entity is one unit of these counts, whatever the number of its event records (`Curator.people_by_rows`), so the noise is that of a unit
        with one row.
        """
        starts = self._starts(curator.schema, curator.unit)
        if starts is None:
            return ()
        noise = self._noise(curator.accounting, replace(curator.unit, max_rows=1), self.numbers * cost)
        noisy = curator.measure(
            curator.people_by_rows(starts), noise=noise, purpose="count entities by their number of events"
        )
        return (Statistic(NUMBERS, noisy.values, noisy.noise, noisy.scale),)

    def limited_to(self, seconds: float, schema: Schema) -> AIM:
        """Return this mechanism with as many rounds as a cost model of public facts allows."""
        domain = schema.domain
        candidates = len(self._candidates(domain, workload_for(self.workload, domain)))
        each = (
            _SECONDS_PER_CANDIDATE * candidates
            + _SECONDS_PER_COLUMN * len(domain)
            + _SECONDS_PER_MB * self.max_model_mb
        )
        rounds = int(seconds / each)
        if rounds < _LEAST_ROUNDS:
            raise UsageError(
                f"A round of aim takes about {each:.2g} s here ({candidates:,} candidate marginals of {len(domain):,} columns), and {_LEAST_ROUNDS} are the least: allow "
                f"{_LEAST_ROUNDS * each:,.0f} s, or fewer max_candidates, a smaller max_model_mb or a smaller workload. Nothing was charged."
            )
        allowed = rounds if self.max_rounds is None else min(rounds, self.max_rounds)
        return replace(self, max_rounds=allowed)

    def _check_known(self, domain: Domain) -> None:
        """Refuse a prior or measurements that speak of other columns."""
        if self.prior is not None and self.prior.domain != domain:
            raise BudgetError("The prior was made for other columns than the table has.")
        for item in self.known:
            clique = domain.canonical(item.clique)
            if clique != tuple(item.clique) or item.values.shape != domain.shape(clique):
                raise BudgetError(f"The known measurement of {item.clique} does not fit the table's columns.")

    def _fixed(self) -> list[Clique]:
        """Return what the model has to hold from the start, constraints aside."""
        prior = () if self.prior is None else self.prior.cliques
        return [
            *(item.clique for item in self.known if item.clique),
            *(tuple(clique) for clique, _ in self.first),
            *prior,
        ]

    def _columns(self, candidates: list[Clique]) -> list[Clique]:
        """Return the one-way marginals to start with: those that nothing known contains, or none."""
        if not self.initialise:
            return []
        seen = {name for item in self.known for name in item.clique}
        seen |= {name for clique, _ in self.first for name in clique}
        return [clique for clique in candidates if len(clique) == 1 and clique[0] not in seen]

    def _counts_rows(self, schema: Schema, unit: Unit) -> bool:
        """Say whether, by public facts, the number of rows has to be measured by itself: nothing else tells it before the first round."""
        return not (self.initialise or self.known or self.first or total_is_public(schema, unit))

    def _candidates(self, domain: Domain, workload: Workload) -> list[Clique]:
        """Return the marginals of the closure that may be chosen.

        Each must fit into the model by itself; all together must fit into memory, small ones first. The
        rule looks at public sizes only.
        """
        limit = self.max_model_mb * 2**20 / 8
        too_wide = [name for name in domain.names if domain.size(name) > limit]
        if too_wide:
            raise DomainTooLarge(
                f"The columns {', '.join(too_wide)} alone do not fit into a model of {self.max_model_mb:g} MB. "
                "Use coarser bins or raise max_model_mb.",
                cells=max(domain.size(name) for name in too_wide),
                allowed=int(limit),
            )
        return small_of_groups(domain, workload.closure_by_size(), limit=limit, most=self.max_candidates)

    def _first_price(self, domain: Domain, total: float) -> RoundCost:
        """Price of the first rounds, in the additive unit of the accounting."""
        per_round = total / (self.rounds_per_column * len(domain))
        return RoundCost(self.measure_share * per_round, (1 - self.measure_share) * per_round)

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain = curator.domain
        workload = workload_for(self.workload, domain)
        candidates = self._candidates(domain, workload)
        weights = workload.closure_weights(candidates)
        if self.score == "error":
            weights = dict.fromkeys(weights, 1.0)
        progress("counting", 0.0)
        sealed = dict(zip(candidates, curator.counts_many(candidates), strict=True))
        reserve = self.certify * curator.remaining
        total_cost = curator.remaining - reserve
        price = self._first_price(domain, total_cost)
        support = support_of(curator.schema)
        fixed = [*(clique for clique, _ in support), *self._fixed()]
        smoother = ColumnSmoother(curator.schema) if self.smooth else None
        statistics = self._count_numbers(curator, total_cost)
        tails = None
        if self.smooth and curator.schema.events_of is not None:
            counted = statistics[0] if statistics else None
            tails = NumberSmoother(curator.schema, curator.unit.max_rows, counted)

        relaxed = RelaxedEstimate(domain) if self.estimation == "relaxed" else None

        def refit(
            measurements: list[Measurement],
            start: AimModel | None,
            *,
            rows: float | None = None,
            thorough: bool = False,
        ) -> AimModel:
            """Estimate again; columns are smoothed once the number of rows is known."""
            targets = measurements
            if smoother is not None and rows is not None:
                targets = smoother.targets(measurements, rows=rows)
            if tails is not None and rows is not None:
                targets = tails.targets(targets)
            if relaxed is not None:
                return relaxed.fit(targets, total=curator.rows.total, thorough=thorough)
            assert not isinstance(start, ProductMixture)
            return estimate(
                domain, targets, total=curator.rows.total, zeros=support, warm_start=start,
                keep_start=self.prior is not None, thorough=thorough,
            )  # fmt: skip

        measurements, batches, model = self._first_looks(curator, sealed, price, total_cost, refit)
        log = RoundLog(planned=batches)
        while True:
            remaining = curator.remaining - reserve
            if self.max_rounds is not None:  # at least an equal share of what is left
                least = remaining / max(1, self.max_rounds - len(log.rounds))
                if price.total < least:
                    price = RoundCost(self.measure_share * least, (1 - self.measure_share) * least)
            last = remaining <= 2 * price.total
            if last:
                price = RoundCost(self.measure_share * remaining, (1 - self.measure_share) * remaining)
            used = 1 - remaining / total_cost
            progress(f"round {len(log.rounds) + 1}", _ROUNDS * used)
            noise = self._noise(curator.accounting, curator.unit, price.measure)
            share = min(1.0, used + price.total / total_cost)
            held = list(dict.fromkeys(item.clique for item in measurements if item.clique))
            step, answers = self._round(
                curator, sealed, weights, held, fixed, model, noise, price, share, last=last
            )
            log.add(step, answers, [weights[clique] for clique in step.candidates])
            measurements.append(step.measurement)
            before = step.answer.astype(np.float64)
            model = refit(measurements, model, rows=model.total)
            if last:
                break
            after = model.marginals([step.clique])[0]
            if self.anneal and np.abs(after - before).sum() <= expected_absolute_noise(noise) * after.size:
                price = price.annealed(curator.accounting)
        progress("final estimate", _ROUNDS)
        model = refit(measurements, model, rows=model.total, thorough=True)
        progress("asking the model", 0.5 * (1 + _ROUNDS))
        known = answer_each(model.marginals, candidates)
        certificate = None
        if reserve > 0:
            progress("certifying", 0.95)
            asked = [clique for clique in workload.cliques if clique in known]
            certificate = certify(
                curator, sealed, asked, [known[clique] for clique in asked], curator.remaining
            )
        history = log.close(known, certificate=certificate)
        progress("done", 1.0)
        return Fitted(model, measurements, workload=workload, history=history, statistics=statistics)

    def _first_looks(
        self,
        curator: Curator,
        sealed: dict[Clique, SealedCounts],
        price: RoundCost,
        cost: float,
        refit: Refit,
    ) -> tuple[list[Measurement], list[int], AimModel]:
        """Measure the columns, and again where their noise is more than tolerated; or at least the number of rows.

        Returns the measurements, how many of them were made at once, and the first model.
        """
        measurements = list(self.known)
        batches = [1] * len(self.known)  # how those came about is not known: assume the least
        columns = self._columns(list(sealed))
        if self.first:
            cliques = [curator.domain.canonical(clique) for clique, _ in self.first]
            measurements += curator.measure_many(
                curator.counts_many(cliques),
                noise=[
                    self._noise(curator.accounting, curator.unit, share * cost) for _, share in self.first
                ],
            )
            batches.append(len(cliques))
        if not self.initialise:
            if not measurements and curator.rows.total is None:  # nothing tells the number of rows exactly
                before = curator.rows_measurement
                if before is None:
                    noise = rows_noise(curator.accounting, curator.unit, TOTAL_SHARE * cost)
                    before = curator.measure(curator.counts(()), noise=noise)
                measurements.append(before)
                batches.append(1)
            return measurements, batches, refit(measurements, self.prior)
        noise = self._noise(curator.accounting, curator.unit, price.measure)
        measurements += curator.measure_many(
            [sealed[clique] for clique in columns],
            noise=[noise] * len(columns),
            purpose=f"measure {len(columns)} one-way marginals",
        )
        batches.append(len(columns))
        model = refit(measurements, self.prior)
        again = columns_again(
            curator,
            [sealed[clique] for clique in columns],
            cost=cost,
            spent=len(columns) * price.measure
            + (self.numbers + sum(share for _, share in self.first)) * cost,
            rows=model.total,
            tolerated=self.column_noise,
            pay=self._noise,
        )
        measurements += again
        batches += [len(again)] if again else []
        return measurements, batches, refit(measurements, model, rows=model.total)

    def _round(
        self,
        curator: Curator,
        sealed: dict[Clique, SealedCounts],
        weights: dict[Clique, float],
        held: list[Clique],
        fixed: list[Clique],
        model: AimModel,
        noise: Noise,
        price: RoundCost,
        share: float,
        *,
        last: bool,
    ) -> tuple[Round, list[Array]]:
        """Choose one marginal and measure it; return the model's answers to all candidates as well."""
        domain = curator.domain
        epsilon = curator.accounting.selection_epsilon(price.select)
        penalty = expected_absolute_noise(noise) if self.score == "gain" else 1.0
        names = list(sealed)
        limit = share * self.max_model_mb
        sizes = candidate_sizes(domain, [*fixed, *held], names, limit_mb=limit)
        fitting = [clique for clique, size in zip(names, sizes, strict=True) if size <= limit]
        if not fitting:  # the model cannot grow; measure again what it already holds
            fitting = [clique for clique in names if len(clique) == 1 or clique in held]
        eligible = hopeful(domain, fitting, weights, model.total, penalty, epsilon, curator.unit)
        answers = model.marginals(eligible)
        step = measure_worst(
            curator,
            sealed,
            eligible,
            answers,
            noise=noise,
            epsilon=epsilon,
            penalty=penalty,
            weights=weights,
            last=last,
        )
        return step, answers
