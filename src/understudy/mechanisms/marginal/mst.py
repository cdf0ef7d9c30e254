"""MST: columns joined by a privately chosen maximum spanning tree (McKenna, Miklau and Sheldon 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from understudy.curator import Curator, SealedScalar
from understudy.engine import candidate_sizes, estimate
from understudy.inference import History
from understudy.marginals import Workload
from understudy.mechanisms.allocation import cells_of, noises, noises_by_size, workload_for
from understudy.mechanisms.base import (
    Fitted,
    Plan,
    Progress,
    Synthesizer,
    planned,
    support_of,
    total_deviation,
)
from understudy.mechanisms.options import positive, refuse
from understudy.mechanisms.rounds import MAX_CANDIDATE_CELLS, require_columns
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Noise, Unit, noise_for
from understudy.schema import Clique, Domain, Schema


@dataclass(frozen=True, kw_only=True)
class MST(Synthesizer):
    """Measure every column, choose a tree of pairs that depend on each other, measure those pairs.

    A third of the budget measures all one-way marginals (wide columns get more of it, which lowers the
    expected error), a third chooses pairs, a third measures them, equally. The pairs are chosen as Kruskal's algorithm does, one edge at a time between columns that are not
    yet connected, each by the exponential mechanism on the distance between the exact two-way
    marginal and the one that independent columns would have. The model is a tree, so it is always
    small.

    Parameters
    ----------
    workload
        Marginals that drawn rows are fitted to; all 3-way marginals by default, all pairs for more than 85 columns. It changes neither
        what is measured nor the model.
    max_model_mb
        Pairs that would need a larger model are not considered.

    Privacy
    -------
    Three kinds of looks. (1) Every one-way marginal is measured once. (2) There are as many choices as
    columns, less one. The score of a pair is ``|M_r(D) - M_r(model)|_1`` where the model was
    estimated from (1): it changes by at most ``l1`` between neighbours. Which pairs may be chosen
    depends only on earlier choices and on public sizes. (3) Every chosen pair is measured once. The costs
    are fixed in advance, add up to the budget, and compose adaptively. The rest is post-processing.

    Examples
    --------
    >>> MST().name
    'mst'
    """

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "one-way marginals and a privately chosen tree of pairs"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on marginals; exponential mechanism for choices",
        papers={Paper.AIM: "Table 2"},
        origin="McKenna, Miklau and Sheldon 2021",
    )

    workload: Workload | None = None
    max_model_mb: float = 80.0

    def __post_init__(self) -> None:
        refuse(positive(self, "max_model_mb"))

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviation of a cell of a measured pair: pairs hold every column. Without pairs, those of all columns."""
        domain = schema.domain
        pairs = self._pairs(domain)
        one_way, _, two_way = _thirds(accounting, cost, choices=bool(pairs))
        if pairs:
            edges = len(domain) - 1
            return total_deviation(
                [(1, noise_for(accounting, unit, accounting.split(two_way, [1.0] * edges)[0]))]
            )
        noises = noises_by_size(accounting, unit, one_way, domain.sizes)
        return total_deviation(zip(domain.sizes, noises, strict=True))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how the columns and the pairs will be measured."""
        domain = schema.domain
        if self.workload is not None:
            workload_for(self.workload, domain)
        columns = require_columns(
            schema, max_cells=self._cells(), max_model_mb=self.max_model_mb, method=self.name
        )
        pairs = self._pairs(domain)
        accounting = self.accounting(budget, schema, unit)
        one_way, _, two_way = _thirds(accounting, accounting.total(budget), choices=bool(pairs))
        design: list[tuple[Clique, Noise]] = list(
            zip(columns, noises_by_size(accounting, unit, one_way, domain.sizes), strict=True)
        )
        notes = []
        if pairs:
            noise = noise_for(accounting, unit, accounting.split(two_way, [1.0] * (len(domain) - 1))[0])
            notes.append(
                f"Then {len(domain) - 1} pairs, chosen from {len(pairs)}, each measured with {noise.kind} noise of "
                f"scale {noise.scale:.4g} rows per cell."
            )
        largest = sorted((domain.cells(pair) for pair in pairs), reverse=True)[: max(1, len(domain) - 1)]
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=planned(domain, design),
            model_cells=min(self._cells(), sum(largest) or sum(domain.sizes)),
            notes=tuple(notes),
        )

    def _cells(self) -> int:
        return cells_of(self.max_model_mb)

    def _pairs(self, domain: Domain) -> list[Clique]:
        """Return the pairs that fit into the model."""
        return [pair for pair in combinations(domain.names, 2) if domain.cells(pair) <= self._cells()]

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain, accounting, unit = curator.domain, curator.accounting, curator.unit
        support = support_of(curator.schema)
        columns: list[Clique] = [(name,) for name in domain.names]
        pairs = self._pairs(domain)
        one_way, choosing, two_way = _thirds(accounting, curator.remaining, choices=bool(pairs))
        progress("counting", 0.0)
        batches = list(_batches(domain, pairs))
        at_once = (
            pairs if len(batches) <= 1 else []
        )  # many pairs of wide columns are counted when they are asked for
        sealed = curator.counts_many([*columns, *at_once])
        by_pair = dict(zip(at_once, sealed[len(columns) :], strict=True))
        progress("columns", 0.2)
        measurements = curator.measure_many(
            sealed[: len(columns)],
            noise=noises_by_size(accounting, unit, one_way, domain.sizes),
            purpose=f"measure {len(columns)} one-way marginals",
        )
        total = curator.rows.total
        model = estimate(domain, measurements, total=total, zeros=support)
        if pairs:
            progress("choosing pairs", 0.4)
            scores: dict[Clique, SealedScalar] = {}
            for batch in batches:
                found = [by_pair[pair] for pair in batch] if by_pair else curator.counts_many(batch)
                for pair, counts, answer in zip(batch, found, model.marginals(batch), strict=True):
                    scores[pair] = counts.l1_distance(answer)
                found = []
            epsilon = accounting.selection_epsilon(accounting.split(choosing, [1.0] * (len(domain) - 1))[0])
            tree = self._tree(curator, scores, epsilon, [clique for clique, _ in support])
            progress("pairs", 0.6)
            measurements += curator.measure_many(
                [by_pair[pair] for pair in tree] if by_pair else curator.counts_many(tree),
                noise=noises(accounting, unit, two_way, [1.0] * len(tree)),
                purpose=f"measure {len(tree)} two-way marginals",
            )
            progress("estimating", 0.8)
            model = estimate(
                domain, measurements, total=total, zeros=support, warm_start=model, thorough=True
            )
        progress("done", 1.0)
        workload = workload_for(self.workload, domain)
        # which pairs were measured depends on the noise of the columns
        looks = (len(columns), len(measurements) - len(columns))
        history = History(tuple(count for count in looks if count))
        return Fitted(model, measurements, workload=workload, history=history)

    def _tree(
        self,
        curator: Curator,
        scores: dict[Clique, SealedScalar],
        epsilon: float,
        fixed: Sequence[Clique],
    ) -> list[Clique]:
        """Choose pairs that connect everything, as far as pairs and model size allow."""
        part = {name: index for index, name in enumerate(curator.domain.names)}
        chosen: list[Clique] = []
        while True:
            open_pairs = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
            if (
                fixed and open_pairs
            ):  # constraints join columns too, so a tree of pairs may still make large bags
                sizes = candidate_sizes(
                    curator.domain, [*fixed, *chosen], open_pairs, limit_mb=self.max_model_mb
                )
                open_pairs = [
                    pair for pair, size in zip(open_pairs, sizes, strict=True) if size <= self.max_model_mb
                ]
            if not open_pairs:
                return chosen
            index = curator.choose(
                [scores[pair] for pair in open_pairs], epsilon=epsilon, purpose="choose a pair of columns"
            )
            left, right = open_pairs[index]
            merged, kept = part[right], part[left]
            part = {name: kept if label == merged else label for name, label in part.items()}
            chosen.append(open_pairs[index])


def _batches(domain: Domain, pairs: Sequence[Clique]) -> Iterator[list[Clique]]:
    """Divide pairs so that the exact counts of each part fit into memory beside the model."""
    batch: list[Clique] = []
    room = MAX_CANDIDATE_CELLS
    for pair in pairs:
        cells = domain.cells(pair)
        if batch and cells > room:
            yield batch
            batch, room = [], MAX_CANDIDATE_CELLS
        batch.append(pair)
        room -= cells
    if batch:
        yield batch


def _thirds(accounting: Accounting, total: float, *, choices: bool) -> tuple[float, float, float]:
    """Divide a cost between columns, choices and pairs; without pairs the columns get all of it."""
    if not choices:
        return total, 0.0, 0.0
    one_way, choosing, two_way = accounting.split(total, [1.0, 1.0, 1.0])
    return one_way, choosing, two_way
