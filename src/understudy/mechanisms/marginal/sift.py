"""Sift: the pairs of columns that are worth their noise, measured at once, then the triples that the model of these pairs gets wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.curator import Curator
from understudy.engine.graphical.targets import estimate_total
from understudy.inference import Certificate, RoundLog, answer_each
from understudy.marginals import Measurement, Statistic, Workload, in_batches
from understudy.mechanisms.allocation import cells_of, noises, noises_by_size, workload_for
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    Progress,
    Synthesizer,
    planned,
    total_deviation,
)
from understudy.mechanisms.marginal.aim import AIM
from understudy.mechanisms.marginal.public import (
    Answers,
    as_public,
    compare,
    distance_noise,
    fingerprint,
    require_same_columns,
)
from understudy.mechanisms.marginal.sifting.dividing import Division, divide, importance, without_noise
from understudy.mechanisms.marginal.sifting.learner import CELLS_AT_ONCE, Learner, averaged
from understudy.mechanisms.marginal.sifting.signs import SignLooks, of_two_values
from understudy.mechanisms.options import at_least, positive, refuse, shares
from understudy.mechanisms.queries.asking import above_noise, require_narrow
from understudy.mechanisms.rounds import (
    MOST_FOR_COLUMNS,
    can_be_drawn,
    certify,
    column_noise,
    column_share,
    columns_for_share,
    expected_absolute_noise,
    measure_worst,
    normal_deviation,
    require_certificate,
    require_fixed,
    small_first,
)
from understudy.mechanisms.source import Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema

Array = npt.NDArray[np.float64]

# How the budget follows from the noise of one released dependence, as a share of the rows. Found on tables that no benchmark reports.
_COLUMN_SHARE, _LARGER_COLUMN_SHARE = 0.02, 0.1
"""The share of the budget for the first look at columns: where a second look follows their noise and two are as good as one for both costs; and where sums of signs may follow or the budget is pure."""
_GAP_SHARES = ((0.002, 0.005), (0.02, 0.02), (0.06, 0.06))
"""The share of the budget for distances, by their noise, as a share of the rows, with the middle one of these shares."""
_FOR_COLUMNS = 0.45
"""The share of the budget for columns is this much times the root of what their noise would be, as shares of the rows and of all columns together, with the whole budget."""
_HOPELESS = 0.2
"""Above this the dependences are not measured, and rounds of AIM spend everything: what they showed would mostly be noise."""
_CLEARLY = 0.6
"""Public data is believed of a pair that is this much nearer to it than to independence: the model knows more of most pairs than that they are not independent."""
_FELT = 0.5
"""Part of a pair's noise that is left once all pairs are estimated together: pairs are chosen as if they had this much."""
_WORTH = 0.8
"""Pairs are measured that keep less than this part of their distance from independence as error."""
_FELT_TRIPLES, _WORTH_TRIPLES = 0.5, 0.98
"""The same two of triples."""
_FIRST = 0.3
"""Share of the rest that measures pairs before the distances of triples are released, where pairs may be measured again for no more than one measurement would cost."""
_PARTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""Shares of what is left then that triples may get; the one with the least expected error is taken, and pairs are measured again with the others."""
_MODEL_MB, _MODEL_MB_PER_PAIR, _MOST_MODEL_MB = 5.0, 0.02, 40.0
"""Size of the junction tree: at least, for each pair of columns, and at most. A small tree holds few of the pairs of many columns; the time of a fit grows with it."""
_EVEN_ROUNDS = 12
"""About so many times the model is fitted between choices, whatever the number of rounds."""


def _between(value: float, low: tuple[float, float], high: tuple[float, float]) -> float:
    """Interpolate on a logarithmic scale between two points, and stay at the nearer one outside.

    Examples
    --------
    >>> round(_between(1.0, (0.1, 0.0), (10.0, 1.0)), 6), _between(50.0, (0.1, 0.0), (10.0, 1.0))
    (0.5, 1.0)
    """
    part = (math.log(value) - math.log(low[0])) / (math.log(high[0]) - math.log(low[0]))
    return low[1] + min(1.0, max(0.0, part)) * (high[1] - low[1])


@dataclass(frozen=True, kw_only=True)
class Sift(Synthesizer):
    """Measure the pairs of columns that are worth their noise at once, then the triples that the model of these pairs gets wrong.

    (1) All columns are measured. (2) How far each pair of columns is from the product of its released columns is measured, which is cheap. (3) The pairs whose
    dependence is worth more than their noise are measured together, the noise divided so that their expected error is least. (4) How far each triple of columns is from the
    model of these pairs is measured, which is cheap too. (5) What is left is divided between the triples and the same pairs once more, again by the expected error, and spent at once.
    Where the distances of triples would drown in noise, and where ``pair_share`` or ``rounds`` say so, rounds follow (3) instead, which choose
    marginals of the workload and its parts by their error, and measure them. Noise is taken out of what was measured by what the model expected before. What fits
    goes into a small graphical model; the rest become patches that its answers, and the records drawn, are brought to agree with
    (:class:`~understudy.engine.distributions.patched.PatchedModel`), so that no junction tree limits what may be measured. Where the budget is so small
    that dependences would drown in noise, rounds of :class:`~understudy.mechanisms.marginal.aim.AIM` follow the columns instead.

    Where all columns have two values (3 to 32 of them; not under pure budgets, nor with ``prior``, ``gap_share``, ``column_noise``, ``pair_share`` or ``rounds``), *sums of signs* are measured instead of tables:
    over the rows, the product of the signs of two or three columns (:mod:`understudy.mechanisms.marginal.sifting.signs`). Three tenths of the budget are a first look at all pairs, a tenth one at all triples where
    that has noise of at most a twentieth of the rows, and what is left is a second look, divided so that the error to expect of all marginals is least. Where the sums of pairs would drown in noise, (2) decides as above.

    Parameters
    ----------
    workload
        The marginals that matter; all 3-way marginals by default. They and their parts may be measured.
    column_share, gap_share
        Shares of the budget for the first look at the columns, and for the distances of pairs; those of triples get as much as those of pairs. By default .02 for columns (.1 under pure budgets, with
        ``column_noise``, and where all columns have two values), and .005 to .06 for distances, more where they would be noisy, by the number of pairs and the measured number of rows.
    column_noise
        Tolerated noise of the one-way marginals, as a share of the records. Where ``column_share`` leaves more, they are measured again, more
        exactly, for at most seven tenths of the budget in all. Zero never measures them again. By default they are measured again where the noise of all columns together is large: every
        marginal that is not measured has the errors of its columns, and so have the distances of pairs.
    pair_share
        Share of what is left then that measures the chosen pairs, before rounds; by default by the expected errors or, with rounds, by the noise beside the measured number of rows.
    rounds
        Marginals chosen and measured one by one after the pairs; by default triples are measured at once where their distances are not mostly noise.
    measure_share
        Share of each round's cost that measures; the rest chooses.
    max_model_mb
        Largest junction tree of the graphical model, in megabytes; by default 5, and .02 for each pair of columns where that is more, up to 40.
    max_cells
        Largest marginal that may be measured.
    max_candidates
        Most marginals that a round chooses from, besides single columns; small ones first.
    prior
        Public data over the same columns: the distribution of a model, or a :class:`~understudy.workflow.public_data.PublicTable`. What it says of a pair of columns is taken where
        the pair is nearer to it than to independence; a pair is measured where neither will do. Marginals of more columns are not taken from it.
    certify
        Share of the budget that measures the finished model's error on every workload marginal, for tighter error bounds.

    Privacy
    -------
    Looks: (1) every one-way marginal, once or twice, the second time at a price that follows from the released number of rows; (2) for every pair that is small enough (a rule on public
    sizes) the L1 distance of its counts from the product of its columns as the model of the released ones of (1) has them and, with ``prior``, which is public, from the prior's answer scaled to these columns:
    numbers that one unit moves by at most ``l1`` each, by the triangle inequality, since the tables they are measured from are released or public (:func:`~understudy.mechanisms.marginal.public.compare`),
    all charged together; (3) the chosen pairs, charged together: which ones, and with which noise, follows from the
    released numbers of (1) and (2), public sizes and weights; (4) for every triple that is small enough the L1 distance of its counts from the answer of the model of (1) to (3), which is a function of
    released numbers: one unit moves each by at most ``l1``, by the triangle inequality, under add/remove and replace units alike; all charged together; (5) triples, and the pairs of (3) once more, each batch charged
    together: which ones, and with which noise, follows from the released numbers of (1) to (4), public sizes and weights. With rounds, instead of (4) and (5): choices by the exponential mechanism with the score
    ``w_r (|M_r(D) - M_r(model)|_1 - penalty_r)``, which moves by at most ``l1 max w_r`` between neighbours, since model, penalty and weights are
    released or public, and what they choose, measured; (6) with ``certify``, the L1 distance of each workload marginal from the finished model, which moves by at most ``l1``.
    With sums of signs, instead of (2) to (5): for every pair, and for every triple or none of them (a rule on public facts and the number of rows released in (1)), the sum over the rows of a product of signs, which is a
    sum of the counts of its table with weights of one and minus one: a row moves it by 1 and a replaced one by at most 2 (:meth:`~understudy.curator.SealedCounts.sum`); each batch is charged together; then such sums of columns, pairs and triples
    once more, charged together: which ones, and with which noise, follows from the released numbers so far, public sizes and weights.
    Shares and the number of rounds follow from public facts and the number of rows released in (1). Without (2) to (5), the looks are those of ``aim``. Costs add up within the curator's
    filter, adaptively. The rest is post-processing.

    Examples
    --------
    >>> Sift(rounds=10).name
    'sift'
    """

    name: ClassVar[str] = "sift"
    summary: ClassVar[str] = (
        "dependent pairs at once, then the triples that a small tree with patches gets wrong"
    )
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on dependences and marginals; exponential mechanism for choices",
        papers={},
        origin="this project; parts of Zhang et al. 2021 and McKenna et al. 2022",
    )

    workload: Workload | None = None
    column_share: float | None = None
    gap_share: float | None = None
    column_noise: float | None = None
    pair_share: float | None = None
    rounds: int | None = None
    measure_share: float = 0.9
    max_model_mb: float | None = None
    max_cells: int = 20_000
    max_candidates: int = 5_000
    prior: Answers | None = None
    certify: float = 0.0

    def __post_init__(self) -> None:
        share = self.pair_share
        largest = _LARGER_COLUMN_SHARE if self.column_share is None else self.column_share
        together = largest + 2 * self._largest_gap_share() + self.certify
        given = [name for name in ("column_share", "gap_share") if getattr(self, name) is not None]
        refuse(
            shares(self, "measure_share", *given),
            shares(self, "certify", zero=True),
            []
            if together < 1
            else ["column_share, twice gap_share and certify together must leave a share for marginals."],
            [] if share is None or 0 < share < 1 else [f"pair_share ({share!r}) must be between 0 and 1."],
            at_least(self, 1, "rounds", "max_cells", "max_candidates", optional=True),
            at_least(self, 0, "column_noise", optional=True),
            positive(self, "max_model_mb", optional=True),
        )

    # ------------------------------------------------------------------ public facts

    def model_mb(self, domain: Domain) -> float:
        """Return the size of the largest junction tree: a rule on the number of columns.

        Examples
        --------
        >>> wide = Domain(tuple(f"c{number}" for number in range(40)), (2,) * 40)
        >>> Sift().model_mb(wide), Sift().model_mb(wide.project(wide.names[:10])), Sift(max_model_mb=8.0).model_mb(wide)
        (15.6, 5.0, 8.0)
        """
        if self.max_model_mb is not None:
            return self.max_model_mb
        by_pairs = _MODEL_MB_PER_PAIR * math.comb(len(domain), 2)
        return min(_MOST_MODEL_MB, max(_MODEL_MB, by_pairs))

    def _first_share(self, domain: Domain, accounting: Accounting) -> float:
        """Return the share of the budget for the first look at the columns: a rule on public sizes and options."""
        if self.column_share is not None:
            return self.column_share
        larger = (
            accounting.name == "pure" or self.column_noise is not None or self._by_signs(domain, accounting)
        )
        return _LARGER_COLUMN_SHARE if larger else _COLUMN_SHARE

    def _largest_gap_share(self) -> float:
        return _GAP_SHARES[-1][1] if self.gap_share is None else self.gap_share

    def _gap_share(self, accounting: Accounting, unit: Unit, total: float, pairs: int, rows: float) -> float:
        """Return the share of the budget for distances: more where they would be noisy, by public facts and a released number of rows."""
        if self.gap_share is not None:
            return self.gap_share
        exact, usual, noisy = _GAP_SHARES
        noise = self._distance_noise(accounting, unit, usual[1] * total, max(1, pairs))
        relative = max(1e-9, normal_deviation(noise) / max(1.0, rows))
        return _between(relative, exact, usual) if relative < usual[0] else _between(relative, usual, noisy)

    def _candidates(self, domain: Domain) -> tuple[list[Clique], list[Clique]]:
        """Return the pairs whose dependence is measured and the marginals that a round may choose: rules on public sizes."""
        require_narrow(domain, self.max_cells, does=f"{self.name} measures marginals of", option="max_cells")
        closure = workload_for(self.workload, domain).closure()
        within = {frozenset(clique) for clique in closure if len(clique) == 2}
        pairs: list[Clique] = [
            pair
            for pair in combinations(domain.names, 2)
            if frozenset(pair) in within and _varied(domain, pair) and domain.cells(pair) <= self.max_cells
        ]
        small = [clique for clique in closure if len(clique) <= 3]
        return pairs, small_first(domain, small, limit=self.max_cells, most=self.max_candidates)

    def measures_signs(self, schema: Schema, *, unit: Unit, budget: Budget, rows: float) -> bool:
        """Tell whether sums of signs would be measured instead of tables, and seen well: all columns have two values, noise is not Laplace, and of pairs it is at most a fifth of so many rows.

        Examples
        --------
        >>> from understudy.privacy import PureDP, ZCDP
        >>> yes_no = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}, {name: c, kind: boolean}]")
        >>> [Sift().measures_signs(yes_no, unit=Unit.add_remove(), budget=budget, rows=1e4) for budget in (ZCDP(0.1), PureDP(1.0))]
        [True, False]
        """
        domain = schema.domain
        accounting = self.accounting(budget, schema, unit)
        if not self._by_signs(domain, accounting):
            return False
        looks = self._sign_looks(domain, accounting, unit, (1 - self.certify) * accounting.total(budget))
        return looks.see_pairs(len(self._candidates(domain)[0]), rows, most=_HOPELESS)

    def _by_signs(self, domain: Domain, accounting: Accounting) -> bool:
        """Tell whether sums of signs are measured instead of tables: a rule on public sizes and options.

        Under pure budgets they are not: there is no second look, since two measurements are worse than one for both costs.
        """
        usual = (self.gap_share, self.column_noise, self.pair_share, self.rounds, self.prior)
        return of_two_values(domain) and accounting.name != "pure" and all(option is None for option in usual)

    def _sign_looks(self, domain: Domain, accounting: Accounting, unit: Unit, total: float) -> SignLooks:
        """Return which sums of signs are measured for a cost."""
        workload = workload_for(self.workload, domain)
        return SignLooks(domain=domain, workload=workload, accounting=accounting, unit=unit, total=total)

    def options(self) -> dict[str, Any]:
        """Return the options as plain values: of a prior only its number of rows and what tells it from others."""
        plain = super().options()
        prior = self.prior
        plain["prior"] = None if prior is None else {"rows": prior.total, "fingerprint": fingerprint(prior)}
        return plain

    def _distance_noise(self, accounting: Accounting, unit: Unit, cost: float, pairs: int) -> Noise:
        """Return the noise of distances that cost so much together; a prior doubles their number."""
        return distance_noise(accounting, unit, cost, pairs if self.prior is None else 2 * pairs)

    def _column_share(
        self, accounting: Accounting, unit: Unit, domain: Domain, total: float, rows: float
    ) -> float:
        """Return the share of the budget that the columns are worth: by public facts and a released number of rows."""
        tolerated = self.column_noise
        if tolerated is None:
            noise = column_noise(accounting, unit, domain.sizes, total, rows=rows)
            return min(MOST_FOR_COLUMNS, _FOR_COLUMNS * math.sqrt(noise * len(domain)))
        return (
            0.0
            if tolerated == 0
            else column_share(accounting, unit, domain.sizes, total, rows=rows, tolerated=tolerated)
        )

    def _noise_share(
        self, accounting: Accounting, unit: Unit, total: float, pairs: int, rows: float
    ) -> float | None:
        """Return how noisy the table is: the deviation of a distance that gets its part of a twentieth of the budget, as a share of the rows. None where those released would drown."""
        if not pairs:
            return None
        share = self._gap_share(accounting, unit, total, pairs, rows)
        released = self._distance_noise(accounting, unit, share * total, pairs)
        if normal_deviation(released) > _HOPELESS * max(1.0, rows) or not can_be_drawn(
            released, float(unit.histogram_l1)
        ):
            return None
        return normal_deviation(distance_noise(accounting, unit, 0.05 * total, pairs)) / max(1.0, rows)

    def _later(self, relative: float, columns: int) -> tuple[float, int]:
        """Return the share of the rest that measures pairs, and the number of rounds.

        Pairs come first while noise is large; more rounds pay when it is small.
        """
        share = (
            _between(relative, (0.00075, 0.6), (0.005, 0.8)) if self.pair_share is None else self.pair_share
        )
        per_column = min(3.0, max(0.3, 0.3 * (0.015 / relative) ** 0.6))
        return share, max(1, round(per_column * columns)) if self.rounds is None else self.rounds

    def _triples(
        self,
        accounting: Accounting,
        unit: Unit,
        cliques: Sequence[Clique],
        domain: Domain,
        total: float,
        rows: float,
        gap_share: float,
    ) -> list[Clique]:
        """Return the triples whose distances from the model are released, none where these would drown in noise or rounds were asked for.

        Triples whose noise would exceed the largest possible error if nothing else were measured are left out. By public facts and a released number of rows.
        """
        if self.pair_share is not None or self.rounds is not None:
            return []
        rows = max(1.0, rows)
        all_triples: list[Clique] = [
            clique for clique in cliques if len(clique) == 3 and _varied(domain, clique)
        ]
        found = above_noise(domain, all_triples, noise_for(accounting, unit, total), rows)
        if not found:
            return []
        noise = distance_noise(accounting, unit, gap_share * total, len(found))
        return found if normal_deviation(noise) <= _HOPELESS * rows else []

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell of a pair, if all pairs and as many triples are measured."""
        rest = (1 - self._first_share(schema.domain, accounting) - 2 * self._largest_gap_share()) * cost
        pairs, triples = (math.comb(len(schema.domain), k) for k in (2, 3))
        number = max(1, pairs + min(pairs, triples))
        return total_deviation([(1, noise_for(accounting, unit, accounting.split(rest, [1.0] * number)[0]))])

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say what is measured at first, and how the rest is divided."""
        domain = schema.domain
        pairs, cliques = self._candidates(domain)
        require_same_columns(self.prior, domain)
        require_fixed(schema, [(name,) for name in domain.names], self.model_mb(domain))
        accounting = self.accounting(budget, schema, unit)
        whole = accounting.total(budget)
        require_certificate(
            accounting, unit, self.certify * whole, len(workload_for(self.workload, domain).cliques)
        )
        total = whole * (1 - self.certify)
        columns = noises_by_size(
            accounting, unit, self._first_share(domain, accounting) * total, domain.sizes
        )
        rows = 10_000.0 if schema.row_count is None else float(schema.row_count)
        about = "" if schema.row_count is not None else f" for {rows:,.0f} rows"
        relative = self._noise_share(accounting, unit, total, len(pairs), rows)
        looks = self._sign_looks(domain, accounting, unit, total)
        if self._by_signs(domain, accounting) and looks.see_pairs(len(pairs), rows):
            notes = looks.notes(rows, about)
        elif relative is None:
            notes = [
                f"Then rounds of AIM{about}: the noise on dependences would be more than they are worth."
            ]
        else:
            share, number = self._later(relative, len(domain))
            gap_share = self._gap_share(accounting, unit, total, len(pairs), rows)
            triples = self._triples(accounting, unit, cliques, domain, total, rows, gap_share)
            what = "independence" if self.prior is None else "independence and from the prior"
            scale = self._distance_noise(accounting, unit, gap_share * total, len(pairs)).scale
            left = (1 - self._first_share(domain, accounting) - gap_share) * total
            best = noise_for(accounting, unit, (_first(accounting) or share if triples else share) * left)
            notes = [
                f"Then the distance of {len(pairs)} pairs of columns from {what}, with noise of scale {scale:.4g} rows each.",
                f"Then the pairs worth their noise: {best.kind} noise of scale {best.scale:.4g} rows per cell if only one is chosen.",
            ]
            if triples:
                apart = distance_noise(accounting, unit, gap_share * total, len(triples)).scale
                notes += [
                    f"Then the distance of {len(triples)} triples of columns from the model of the pairs, with noise of scale {apart:.4g} rows each{about}.",
                    "Then the triples that are worth their noise, and the same pairs once more, with what is left.",
                ]
            else:
                each = noise_for(accounting, unit, self.measure_share * (1 - share) * left / number)
                notes.append(
                    f"Then {number} rounds that choose one of {len(cliques)} marginals and measure it with noise of scale {each.scale:.4g} rows{about}."
                )
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(
                domain, [((name,), own) for name, own in zip(domain.names, columns, strict=True)]
            ),
            # with too few rows, which only the first look tells, the model is that of AIM
            model_cells=cells_of(max(self.model_mb(domain), AIM.max_model_mb))
            + sum(domain.cells(pair) for pair in pairs),
            notes=tuple(notes),
        )

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        with threadpool_limits(1):  # the tables are small: threads would mostly wait for each other
            return self._learn(curator, progress)

    def _learn(self, curator: Curator, progress: Progress) -> Fitted:
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        workload = workload_for(self.workload, domain)
        weights = workload.closure_weights()
        pairs, cliques = self._candidates(domain)
        require_same_columns(self.prior, domain)
        reserve = self.certify * curator.remaining
        total = curator.remaining - reserve
        progress("columns", 0.0)
        measured = self._columns(curator, total)
        if self._by_signs(domain, accounting):
            rows = curator.rows.total if curator.rows.total is not None else estimate_total(measured)
            looks = self._sign_looks(domain, accounting, unit, total)
            if looks.see_pairs(len(pairs), rows):
                return self._learn_signs(curator, looks, measured, rows, reserve, progress)
        batches = [len(measured)]
        again = self._columns_again(curator, measured, total)
        if again:
            measured += again
            batches.append(len(again))
        rows = curator.rows.total if curator.rows.total is not None else estimate_total(measured)
        relative = self._noise_share(accounting, unit, total, len(pairs), rows)
        if relative is None:
            return AIM(workload=self.workload, known=tuple(measured), certify=self.certify)._fit(
                curator, progress=progress
            )
        share, number = self._later(relative, len(domain))
        progress("dependences", 0.05)
        learner = Learner(
            curator.schema,
            measured,
            rows,
            total=curator.rows.total,
            limit_mb=self.model_mb(domain),
            trust=_between(relative, (0.0175, 1.0), (0.0375, 0.5)),
        )
        gap_share = self._gap_share(accounting, unit, total, len(pairs), rows)
        gaps, statistics = self._dependences(
            curator, learner, pairs, self._for_distances(curator, gap_share * total, reserve), rows
        )
        triples = self._triples(accounting, unit, cliques, domain, total, rows, gap_share)
        left = curator.remaining - reserve
        parts = self._worth_noise(
            curator, pairs, gaps, weights, share * left, felt=_FELT, worth=_WORTH
        ).shares
        chosen = np.flatnonzero(parts).tolist()
        learner.believe([pair for place, pair in enumerate(pairs) if not parts[place]])
        batch = _Batch(tuple(pairs[place] for place in chosen), parts[chosen].tolist(), gaps[chosen])
        more: list[list[Measurement]] = []
        if chosen:
            first = (_first(accounting) or share if triples else share) * left
            found = batch.measure(curator, first, f"measure {len(chosen)} dependent pairs of columns")
            measured += found
            batches.append(len(found))
            progress("pairs", 0.1)
            learner.learn(found, batch.gaps)
            if triples:
                progress("triples", 0.3)
                more = self._beyond_pairs(
                    curator,
                    learner,
                    batch,
                    found,
                    triples,
                    weights,
                    self._for_distances(curator, gap_share * total, reserve),
                    reserve,
                    statistics,
                )
                measured += [item for items in more for item in items]
                batches += [len(items) for items in more]
        log = RoundLog(planned=batches)
        if not more:
            self._rounds(curator, learner, log, cliques, weights, number, reserve, progress)
        measured += [step.measurement for step in log.rounds]
        progress("final estimate", 0.85)
        model = learner.refit(thorough=True)
        progress("asking the model", 0.9)
        known = answer_each(model.marginals, cliques)
        certificate = _certificate(curator, workload, known) if reserve > 0 else None
        progress("done", 1.0)
        return Fitted(
            model if model.patches else model.tree,
            measured,
            workload=workload,
            history=log.close(known, certificate=certificate),
            statistics=statistics,
        )

    @staticmethod
    def _for_distances(curator: Curator, wanted: float, reserve: float) -> float:
        """Return what distances of pairs, or of triples, may cost: at most half of what is left, where columns took more than their share."""
        return min(wanted, 0.5 * (curator.remaining - reserve))

    def _dependences(
        self, curator: Curator, learner: Learner, pairs: Sequence[Clique], cost: float, rows: float
    ) -> tuple[Array, list[Statistic]]:
        """Release how far pairs of columns are from what would be known of them if they were not measured; return it without noise, in rows."""
        columns = learner.columns()
        found = compare(curator, self.prior, pairs, columns, cost)
        noise = normal_deviation(self._distance_noise(curator.accounting, curator.unit, cost, len(pairs)))
        independent = without_noise(found.independent, noise)
        learner.from_independence = dict(zip(pairs, (independent + noise).tolist(), strict=True))
        if self.prior is None or found.public is None:
            return independent, found.statistics
        public = without_noise(found.public, noise)
        nearer_to_public = found.public < _CLEARLY * found.independent
        taken = [place for place, nearest in enumerate(nearer_to_public) if nearest]
        tables = as_public(self.prior, [pairs[place] for place in taken], columns)
        for place, table in zip(taken, tables, strict=True):
            learner.public[pairs[place]] = (table, float(public[place]))
        return np.where(nearer_to_public, public, independent), found.statistics

    def _columns(self, curator: Curator, total: float) -> list[Measurement]:
        """Measure the columns."""
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        return curator.measure_many(
            curator.counts_many([(name,) for name in domain.names]),
            noise=noises_by_size(
                accounting, unit, self._first_share(domain, accounting) * total, domain.sizes
            ),
            purpose=f"measure {len(domain)} one-way marginals",
        )

    def _columns_again(
        self, curator: Curator, measured: Sequence[Measurement], total: float
    ) -> list[Measurement]:
        """Measure the columns again where their noise is more than tolerated."""
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        rows = curator.rows.total if curator.rows.total is not None else estimate_total(measured)
        return columns_for_share(
            curator,
            curator.counts_many([(name,) for name in domain.names]),
            cost=total,
            spent=self._first_share(domain, accounting) * total,
            share=self._column_share(accounting, unit, domain, total, rows),
        )

    def _learn_signs(
        self,
        curator: Curator,
        looks: SignLooks,
        measured: list[Measurement],
        rows: float,
        reserve: float,
        progress: Progress,
    ) -> Fitted:
        """Measure sums of signs, and make a model of the tables that they say."""
        progress("pairs", 0.05)
        sums, statistics = looks.measure(curator, measured, rows, reserve=reserve)
        progress("final estimate", 0.2)
        room = self.model_mb(curator.domain)  # what rules leave must fit, as planned
        model = sums.fit(curator.schema, limit_mb=self.max_model_mb, ruled_mb=room)
        progress("asking the model", 0.9)
        known = answer_each(model.marginals, self._candidates(curator.domain)[1])
        certificate = _certificate(curator, looks.workload, known) if reserve > 0 else None
        progress("done", 1.0)
        return Fitted(
            model,
            measured,
            workload=looks.workload,
            history=RoundLog(planned=[len(measured)]).close(known, certificate=certificate),
            statistics=statistics,
        )

    @staticmethod
    def _worth_noise(
        curator: Curator,
        cliques: Sequence[Clique],
        gaps: Array,
        weights: Mapping[Clique, float],
        cost: float,
        *,
        felt: float,
        worth: float = 1.0,
    ) -> Division:
        """Divide a cost between the marginals that are worth their noise, by released numbers alone."""
        accounting = curator.accounting
        return divide(
            gaps,
            np.array([curator.domain.cells(clique) for clique in cliques], dtype=np.float64),
            np.asarray(importance(cliques, weights)),
            one_cell=felt * expected_absolute_noise(noise_for(accounting, curator.unit, cost)),
            accounting=accounting,
            worth=worth,
        )

    def _beyond_pairs(
        self,
        curator: Curator,
        learner: Learner,
        batch: _Batch,
        found: Sequence[Measurement],
        triples: Sequence[Clique],
        weights: Mapping[Clique, float],
        cost: float,
        reserve: float,
        statistics: list[Statistic],
    ) -> list[list[Measurement]]:
        """Release how far triples are from the model, then measure those worth their noise, and pairs again, with all that is left; nothing where neither would help.

        Where costs add up as precisions do, two measurements of a pair are as good as one for both costs.
        """
        before = curator.remaining
        far = self._distances(curator, learner, triples, cost, statistics)
        left = curator.remaining - reserve
        of_pairs = _noise_of_parts(triples, found)
        beyond = np.sqrt(np.maximum(0.0, np.square(far) - np.square(of_pairs)))
        first = _first(curator.accounting)
        spent = 0.0 if first is None else first * (before - reserve) / (1 - first)
        best: tuple[float, float, Array] | None = None
        for part in _PARTS if first is not None else (1.0,):
            kept = math.sqrt(spent / (spent + (1 - part) * left)) if part < 1 else 1.0
            gaps = np.hypot(beyond, kept * of_pairs)
            if part > 0:
                made = self._worth_noise(
                    curator, triples, gaps, weights, part * left, felt=_FELT_TRIPLES, worth=_WORTH_TRIPLES
                )
            else:
                made = Division(np.zeros(len(gaps)), float(np.dot(importance(triples, weights), gaps)))
            if best is None or made.error < best[0]:
                best = made.error, part, made.shares
        assert best is not None
        _, part, shares = best
        chosen = np.flatnonzero(shares).tolist()
        if not chosen:
            if first is None:
                return []
            part = 0.0
        done: list[list[Measurement]] = []
        if part < 1:
            done.append(
                batch.measure(curator, (1 - part) * left, f"measure {len(found)} pairs of columns again")
            )
            learner.forget()
            learner.learn([averaged(*two) for two in zip(found, done[0], strict=True)], batch.gaps)
        if chosen:
            more = _Batch(tuple(triples[place] for place in chosen), shares[chosen].tolist(), far[chosen])
            done.append(
                more.measure(
                    curator,
                    curator.remaining - reserve,
                    f"measure {len(chosen)} triples of columns that the model of the pairs gets wrong",
                )
            )
            learner.learn(done[-1], more.gaps)
        return done

    @staticmethod
    def _distances(
        curator: Curator,
        learner: Learner,
        triples: Sequence[Clique],
        cost: float,
        statistics: list[Statistic],
    ) -> Array:
        """Release how far triples are from the model; return it without noise, in rows.

        Privacy
        -------
        In: private. Out: releasable. One number for each triple: the L1 distance of its counts to the model's answer, which follows from released numbers. One unit moves it by at most ``l1``
        (the triangle inequality), under add/remove and replace units alike. Each gets noise for an equal share of ``cost``; all are charged together before any is drawn.
        """
        noise = distance_noise(curator.accounting, curator.unit, cost, len(triples))
        sealed = []
        for group in in_batches(triples, curator.domain.cells, most=CELLS_AT_ONCE):
            answers = learner.model.marginals(group)
            sealed += [
                counts.l1_distance(answer)
                for counts, answer in zip(curator.counts_many(group), answers, strict=True)
            ]
        values = np.array(
            curator.measure_scalars(
                sealed,
                noise=[noise] * len(sealed),
                purpose=f"compare {len(triples)} triples of columns with the model",
            )
        )
        statistics.append(
            Statistic(f"distance from the model of {len(triples)} triples", values, "mechanism")
        )
        return without_noise(values, normal_deviation(noise))

    def _rounds(
        self,
        curator: Curator,
        learner: Learner,
        log: RoundLog,
        cliques: Sequence[Clique],
        weights: dict[Clique, float],
        number: int,
        reserve: float,
        progress: Progress,
    ) -> None:
        """Choose marginals by the error of the model, and measure them, all at the same price."""
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        each = accounting.split(curator.remaining - reserve, [1.0] * number)[0]
        measure, select = accounting.split(each, [self.measure_share, 1 - self.measure_share])
        noise = noise_for(accounting, unit, measure)
        epsilon = accounting.selection_epsilon(select)
        varied = [clique for clique in cliques if len(clique) == 1 or _varied(domain, clique)]
        kept = above_noise(domain, varied, noise, learner.rows) or [min(varied, key=domain.cells)]
        sealed = dict(zip(kept, curator.counts_many(kept), strict=True))
        at_once = math.ceil(number / _EVEN_ROUNDS)
        for begun in range(0, number, at_once):
            progress(f"round {begun + 1}", 0.2 + 0.65 * begun / number)
            answers = dict(zip(kept, learner.model.marginals(kept), strict=True))
            for round_ in range(begun, min(begun + at_once, number)):
                if not answers:
                    break
                step = measure_worst(
                    curator,
                    sealed,
                    list(answers),
                    list(answers.values()),
                    noise=noise,
                    epsilon=epsilon,
                    penalty=expected_absolute_noise(noise),
                    weights=weights,
                    last=round_ == number - 1,
                )
                log.add(step, list(answers.values()), [weights[clique] for clique in step.candidates])
                learner.add(
                    step.measurement, answers.pop(step.clique)
                )  # none twice before the model has learnt it
            learner.refit()


@dataclass(frozen=True, eq=False)
class _Batch:
    """Marginals that are measured together: their shares of a cost, and how far they are expected to be from the model, in rows."""

    cliques: tuple[Clique, ...]
    shares: Sequence[float]
    gaps: Array

    def measure(self, curator: Curator, cost: float, purpose: str) -> list[Measurement]:
        """Measure them for a cost; charged together before noise is drawn."""
        return curator.measure_many(
            curator.counts_many(list(self.cliques)),
            noise=noises(curator.accounting, curator.unit, cost, self.shares),
            purpose=purpose,
        )


def _certificate(curator: Curator, workload: Workload, known: Mapping[Clique, Array]) -> Certificate:
    """Measure the finished model's error on the marginals of the workload with all that is left."""
    asked = [clique for clique in workload.cliques if clique in known]
    sealed = dict(zip(asked, curator.counts_many(asked), strict=True))
    return certify(curator, sealed, asked, [known[clique] for clique in asked], curator.remaining)


def _first(accounting: Accounting) -> float | None:
    """Return the share of the rest for pairs at first; None where measuring them twice is worse than once."""
    return None if accounting.name == "pure" else _FIRST


def _varied(domain: Domain, clique: Clique) -> bool:
    """Tell whether every column of a marginal has several values: one with a constant says no more than the marginal of the others."""
    return all(domain.size(name) > 1 for name in clique)


def _noise_of_parts(triples: Sequence[Clique], found: Sequence[Measurement]) -> Array:
    """Return how far the noise of measured pairs is expected to move triples that hold them, in rows."""
    own = {item.clique: (_FELT * item.values.size) ** 2 * 2 / math.pi * item.variance for item in found}
    return np.array(
        [math.sqrt(sum(own.get(pair, 0.0) for pair in combinations(clique, 2))) for clique in triples]
    )
