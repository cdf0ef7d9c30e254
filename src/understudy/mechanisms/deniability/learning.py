"""Learning the network of paper Deniability: what is asked of the curator, and what becomes of the answers.

The structure (section 3.3) takes parents by CFS merit on symmetrical uncertainty: post-processing of noisy entropies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine import BayesianNetwork, Node, Resolution, View, project_to_simplex
from understudy.errors import BudgetError
from understudy.marginals import Measurement, Statistic
from understudy.marginals.measurement import NoiseKind
from understudy.mechanisms.base import Fitted, Progress
from understudy.mechanisms.deniability.look import (
    Part,
    counts_event,
    entropy_event,
    moments_event,
    rows_event,
)
from understudy.privacy import Accounting, Event, Gaussian, Laplace, Noise, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.schema import Date, Domain, Integer, Ordinal, Real, Schema

Key = frozenset[View]
"""Which columns an entropy is about, each at a level."""


def buckets_of(
    schema: Schema, *, at_most: int, groups: Mapping[str, Sequence[int]] | None = None
) -> Resolution:
    """Return the schema's domain with a coarse level for parents.

    Ordered columns with more than ``at_most`` values are cut into that many runs of neighbouring values;
    *other* and *missing* keep groups of their own. ``groups`` overrides this column by column.

    Examples
    --------
    >>> schema = Schema(columns=(Ordinal("a", values=("1", "2", "3", "4")),))
    >>> buckets_of(schema, at_most=2).labels(("a", 1)).tolist()
    [0, 0, 1, 1]
    """
    coarser: dict[str, tuple[npt.NDArray[np.int64], ...]] = {}
    given = dict(groups or {})
    unknown = sorted(set(given) - set(schema.names))
    if unknown:
        raise BudgetError(f"groups names columns that the schema does not have: {', '.join(unknown)}.")
    for column in schema.columns:
        if column.name in given:
            labels = np.unique(np.asarray(given[column.name]), return_inverse=True)[1].astype(np.int64)
            if labels.shape != (column.size,):
                raise BudgetError(
                    f"groups of {column.name!r} must give a group for each of its {column.size} codes."
                )
            if int(labels.max()) + 1 < column.size:
                coarser[column.name] = (labels,)
        elif isinstance(column, Ordinal | Integer | Real | Date) and column.value_count > at_most:
            values = np.arange(column.value_count) * at_most // column.value_count
            extra = at_most + np.arange(column.size - column.value_count)
            coarser[column.name] = (np.concatenate([values, extra]).astype(np.int64),)
    return Resolution(schema.domain, coarser)


def coarse(resolution: Resolution, name: str) -> View:
    """Return the view of a column as a parent."""
    return (name, resolution.heights(name) - 1)


def needed_entropies(resolution: Resolution, *, fine_targets: bool) -> list[Key]:
    """List the entropies that all correlations are made of, each once.

    A target is seen at full resolution (``fine_targets``, as in the paper) or as coarsely as a parent;
    the second needs half as many entropies.
    """
    names = resolution.domain.names
    keys: dict[Key, None] = {}
    for name in names:
        keys[frozenset([coarse(resolution, name)])] = None
    for a, b in combinations(names, 2):
        keys[frozenset([coarse(resolution, a), coarse(resolution, b)])] = None
    if fine_targets:
        for name in names:
            keys[frozenset([(name, 0)])] = None
            for other in names:
                if other != name:
                    keys[frozenset([(name, 0), coarse(resolution, other)])] = None
    return list(keys)


def groups_of(resolution: Resolution, key: Key) -> dict[str, npt.NDArray[np.int64]]:
    """Return the columns of an entropy with the group of each code."""
    return {view[0]: resolution.labels(view) for view in key}


@dataclass(frozen=True, eq=False)
class Correlations:
    """Symmetrical uncertainty ``2 - 2 H(x, y) / (H(x) + H(y))`` from noisy entropies, cut to [0, 1]."""

    resolution: Resolution
    entropies: Mapping[Key, float]

    def between(self, a: View, b: View) -> float:
        """Return the correlation of two views.

        Noise can make the entropies impossible (negative, or a joint one below a single one); what comes
        out is cut to [0, 1], and nothing is learnt from columns whose entropies add up to nothing.
        """
        alone = max(0.0, self.entropies[frozenset([a])]) + max(0.0, self.entropies[frozenset([b])])
        if alone <= 0:
            return 0.0
        return min(1.0, max(0.0, 2 - 2 * self.entropies[frozenset([a, b])] / alone))


def merit(to_target: Sequence[float], among: Sequence[float]) -> float:
    """Return the CFS score of a parent set (equation 4): ``among`` lists each pair of parents once.

    Examples
    --------
    >>> merit([0.5], [])
    0.5
    >>> round(merit([0.5, 0.5], [1.0]), 6)  # a copy of a parent adds nothing
    0.5
    """
    if not to_target:
        return 0.0
    return sum(to_target) / math.sqrt(len(to_target) + 2 * sum(among))


def learn_parents(
    correlations: Correlations,
    *,
    fine_targets: bool,
    affordable: Callable[[str, Sequence[View]], bool],
    least_gain: float,
) -> dict[str, tuple[View, ...]]:
    """Return parents for each column: greedily, over all columns at once, without cycles.

    Each step adds the parent that raises some column's merit most. It stops when no parent that is
    affordable and keeps the graph acyclic raises one by ``least_gain``.
    """
    resolution = correlations.resolution
    names = resolution.domain.names
    chosen: dict[str, list[str]] = {name: [] for name in names}

    def score(target: str, parents: Sequence[str]) -> float:
        view = (target, 0) if fine_targets else coarse(resolution, target)
        views = [coarse(resolution, name) for name in parents]
        return merit(
            [correlations.between(view, other) for other in views],
            [correlations.between(a, b) for a, b in combinations(views, 2)],
        )

    while True:
        best: tuple[float, str, str] | None = None
        for target in names:
            now = score(target, chosen[target])
            for parent in names:
                if parent == target or parent in chosen[target] or _reaches(chosen, parent, target):
                    continue
                wanted = [*chosen[target], parent]
                if not affordable(target, [coarse(resolution, name) for name in wanted]):
                    continue
                gain = score(target, wanted) - now
                if gain > least_gain and (best is None or gain > best[0]):
                    best = (gain, target, parent)
        if best is None:
            break
        chosen[best[1]].append(best[2])
    return {name: tuple(coarse(resolution, parent) for parent in parents) for name, parents in chosen.items()}


def _reaches(parents: Mapping[str, Sequence[str]], start: str, ancestor: str) -> bool:
    """Say whether ``ancestor`` is among the ancestors of ``start``: an edge back would close a cycle."""
    seen, waiting = {start}, [start]
    while waiting:
        for parent in parents[waiting.pop()]:
            if parent == ancestor:
                return True
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return False


def dependency_order(domain: Domain, parents: Mapping[str, Sequence[View]]) -> tuple[str, ...]:
    """Return the columns with parents before children; otherwise in the order of the domain.

    Examples
    --------
    >>> dependency_order(Domain(("a", "b"), (2, 2)), {"a": [("b", 0)], "b": []})
    ('b', 'a')
    """
    done: list[str] = []
    while len(done) < len(domain):
        done.append(
            next(
                name
                for name in domain.names
                if name not in done and all(parent in done for parent, _ in parents[name])
            )
        )
    return tuple(done)


# ----------------------------------------------------------------------------------------
# Conditional tables from noisy counts or noisy moments (paper Deniability, section 3.4). Post-processing only.

Array = npt.NDArray[np.float64]


def dirichlet_table(
    noisy: Array,
    *,
    prior: float,
    truncation: str,
    draw: bool,
    generator: np.random.Generator,
) -> Array:
    """Turn noisy counts ``[configurations..., values]`` into conditional probabilities.

    Parameters
    ----------
    noisy
        Counts with noise.
    prior
        Strength of the Dirichlet prior, in rows. Its shape is the law of the values over all configurations
        together, so a configuration nobody has seen behaves like the average one.
    truncation
        ``"zero"`` cuts negative counts (equation 14 of the paper); ``"simplex"`` moves each row to the closest
        non-negative one with the same sum, which removes most of the noise in empty cells.
    draw
        Whether to draw the probabilities from their posterior instead of taking equation 13.
    """
    rows = noisy.reshape(-1, noisy.shape[-1])
    if truncation == "zero":
        counts = np.maximum(rows, 0.0)
    else:
        counts = np.stack([project_to_simplex(row, max(0.0, float(row.sum()))) for row in rows])
    pooled = project_to_simplex(rows.sum(axis=0), max(1.0, float(rows.sum()))) + 1.0 / rows.shape[1]
    alpha = counts + prior * pooled / pooled.sum()
    if draw:
        gamma = generator.standard_gamma(alpha)
        spent = gamma.sum(axis=1, keepdims=True)
        table = np.where(
            spent > 0, gamma / np.where(spent > 0, spent, 1.0), alpha / alpha.sum(axis=1, keepdims=True)
        )
    else:
        table = alpha / alpha.sum(axis=1, keepdims=True)
    return np.asarray(table.reshape(noisy.shape), dtype=np.float64)


def numeric_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns that can have a normal conditional: numbers without extra codes, three or more."""
    return tuple(
        column.name
        for column in schema.columns
        if isinstance(column, Integer | Real) and column.size == column.value_count and column.size > 2
    )


def positions(size: int) -> Array:
    """Return the codes of a numeric column spread over [0, 1], in the order of their values."""
    return np.linspace(0.0, 1.0, size)


def normal_table(moments: Array, size: int, *, strength: float, regression: Sequence[int] | None) -> Array:
    """Turn noisy moments ``[configurations..., 3]`` (rows, sum, sum of squares) into discretised normals.

    Parameters
    ----------
    moments
        Noisy number of rows, sum and sum of squares of the position of the target in [0, 1].
    size
        Number of values of the target.
    strength
        How many rows the average over all configurations counts for in each of them: the noise in rows.
    regression
        ``None`` lets each configuration have its own mean and spread. Otherwise the group sizes of the
        parents: the mean is linear in the parents' groups and the spread is common to all.
    """
    shape = moments.shape[:-1]
    rows = moments.reshape(-1, 3)
    pooled = rows.sum(axis=0)
    total = max(1.0, float(pooled[0]))
    centre = min(1.0, max(0.0, float(pooled[1]) / total))
    smallest = (1 / (2 * size)) ** 2
    spread = min(0.25, max(smallest, float(pooled[2]) / total - centre**2))
    weight = np.maximum(rows[:, 0], 0.0) + max(strength, 1e-9)
    mean = np.clip((rows[:, 1] + strength * centre) / weight, 0.0, 1.0)
    second = (rows[:, 2] + strength * (spread + centre**2)) / weight
    variance = np.clip(second - mean**2, smallest, 0.25)
    if regression is not None and shape:
        grid = np.stack(np.unravel_index(np.arange(len(rows)), tuple(regression)), axis=1)
        design = np.column_stack([np.ones(len(rows)), grid / np.maximum(np.array(regression) - 1, 1)])
        share = weight / weight.sum()
        scaled = design * np.sqrt(share)[:, None]
        ridge = 1e-9 * np.eye(design.shape[1])
        slope = np.linalg.solve(scaled.T @ scaled + ridge, scaled.T @ (mean * np.sqrt(share)))
        fitted = np.clip(design @ slope, 0.0, 1.0)
        common = float((share * (variance + (mean - fitted) ** 2)).sum())
        mean, variance = fitted, np.full(len(rows), min(0.25, max(smallest, common)))
    edges = (np.arange(1, size) - 0.5) / (size - 1)
    reach = (edges[None, :] - mean[:, None]) / np.sqrt(2 * variance)[:, None]
    below = 0.5 * (1 + np.vectorize(math.erf)(reach))
    table = np.diff(below, axis=1, prepend=0.0, append=1.0)
    table = np.maximum(table, 1e-12)
    return np.asarray((table / table.sum(axis=1, keepdims=True)).reshape(*shape, size))


_GRID = 1 + 2.0**-18
"""Entropies are rounded before the noise; the cost of that is below this factor."""


@dataclass(frozen=True)
class Design:
    """Everything a fit will do, with its noise: computed from public facts, charged in one entry."""

    rows: Noise | None
    entropies: int
    entropy: Noise | None
    counts: Noise
    structure: tuple[Event, ...]
    parameters: tuple[Event, ...]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The options of :class:`~understudy.mechanisms.deniability.deniability.Deniability` that concern the network."""

    maxcost: int
    usefulness: float
    buckets: int
    groups: Mapping[str, Sequence[int]] | None
    fine_targets: bool
    structure_share: float
    disjoint: bool
    noise: str
    truncation: str
    prior: float | None
    parameters: str
    continuous: str | None

    def design(
        self, schema: Schema, unit: Unit, accounting: Accounting, cost: float, *, rows_known: bool
    ) -> Design:
        """Divide the cost between rows, entropies and tables."""
        resolution = self.resolution(schema)
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
        if not count and not parallel:  # there is no structure to learn
            for_tables += for_structure
        structure: list[Event] = [] if rows is None else [rows_event(unit, rows)]
        entropy = None
        if count:
            share = accounting.split(for_structure, [1.0] * count)[0]
            entropy = self._noise(accounting, share, _GRID, _GRID)
            structure += [entropy_event(entropy)] * count
        share = accounting.split(for_tables, [1.0] * len(schema.names))[0]
        counts = self._noise(accounting, share, unit.histogram_l1, unit.histogram_l2)
        smooth = self.smooth(schema)
        events = [
            moments_event(unit, self._moments_noise(counts)) if name in smooth else counts_event(unit, counts)
            for name in schema.names
        ]
        return Design(rows, count, entropy, counts, tuple(structure), tuple(events))

    def _noise(self, accounting: Accounting, cost: float, l1: float, l2: float) -> Noise:
        if accounting.name == PURE.name or self.noise == "laplace":
            return Laplace(accounting.laplace_scale(cost, l1))
        return Gaussian(accounting.gaussian_sigma(cost, l2))

    @staticmethod
    def _moments_noise(counts: Noise) -> Noise:
        """Return the noise of moments that costs as much as counts do: they move by 3, or the root of 3."""
        factor = 3.0 if isinstance(counts, Laplace) else math.sqrt(3) * (1 + 2.0**-40)
        return type(counts)(counts.scale * factor)

    def smooth(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns with a normal conditional."""
        return () if self.continuous is None else numeric_columns(schema)

    def resolution(self, schema: Schema) -> Resolution:
        """Return the columns and their groups as parents."""
        return buckets_of(schema, at_most=self.buckets, groups=self.groups)

    def learn(
        self,
        curator: Curator,
        design: Design,
        structure: Part,
        tables: Part,
        shares: Sequence[float] | None,
        progress: Progress,
    ) -> tuple[Fitted, BayesianNetwork]:
        """Structure from entropies, then tables from counts."""
        rows, parents = self.structure(curator, design, structure, shares)
        progress("conditional tables", 0.5)
        resolution = self.resolution(curator.schema)
        nodes, measurements, statistics = self._tables(curator.schema, design, tables, resolution, parents)
        progress("done", 1.0)
        network = BayesianNetwork(resolution, rows, nodes)
        return Fitted(network, measurements, statistics=statistics), network

    def structure(
        self, curator: Curator, design: Design, part: Part, shares: Sequence[float] | None
    ) -> tuple[float, dict[str, tuple[View, ...]]]:
        """Return the number of rows, known or measured, and the parents of each column."""
        schema, domain = curator.schema, curator.domain
        resolution = self.resolution(schema)
        rows = self._rows(curator, design, part, shares)
        share = 1.0 if shares is None else shares[0]
        if design.entropy is None:
            return rows, dict.fromkeys(domain.names, ())
        scale = design.counts.scale
        table_rows = rows if shares is None else rows * shares[-1 if len(shares) == 2 else 1]
        keys = needed_entropies(resolution, fine_targets=self.fine_targets)
        at_least = max(16, math.floor(rows * share - 3 * (design.rows.scale if design.rows else 0)))
        values = part.entropies(
            [groups_of(resolution, key) for key in keys], noise=design.entropy, at_least=at_least
        )
        correlations = Correlations(resolution, dict(zip(keys, values, strict=True)))

        def affordable(target: str, views: Sequence[View]) -> bool:
            combinations = resolution.cells(views)
            cells = combinations * (3 if target in self.smooth(schema) else domain.size(target))
            return combinations <= self.maxcost and cells * scale * self.usefulness <= table_rows

        return rows, learn_parents(
            correlations,
            fine_targets=self.fine_targets,
            affordable=affordable,
            least_gain=_gain_of_noise(correlations, design.entropy, at_least),
        )

    @staticmethod
    def _rows(curator: Curator, design: Design, part: Part, shares: Sequence[float] | None) -> float:
        """Return the number of rows of the whole table: known, or measured on the part."""
        if curator.rows.number is not None and design.rows is None:
            return float(max(1, curator.rows.number))
        assert design.rows is not None
        return max(1.0, part.row_count(design.rows) / (1.0 if shares is None else shares[0]))

    def _tables(
        self,
        schema: Schema,
        design: Design,
        part: Part,
        resolution: Resolution,
        parents: Mapping[str, tuple[View, ...]],
    ) -> tuple[tuple[Node, ...], list[Measurement], list[Statistic]]:
        """Measure one table per column and turn it into conditional probabilities."""
        domain = schema.domain
        generator = np.random.default_rng()
        kind: NoiseKind = "laplace" if isinstance(design.counts, Laplace) else "gaussian"
        nodes, measurements, statistics = [], [], []
        for name in dependency_order(domain, parents):
            views = resolution.canonical(parents[name])
            groups: dict[str, npt.NDArray[np.int64]] = {view[0]: resolution.labels(view) for view in views}
            if name in self.smooth(schema):
                noise = self._moments_noise(design.counts)
                moments = part.moments(groups, name, positions(domain.size(name)), noise=noise)
                statistics.append(Statistic(_given("moments", name, groups), moments, kind, noise.scale))
                regression = resolution.shape(views) if self.continuous == "regression" else None
                table = normal_table(moments, domain.size(name), strength=noise.scale, regression=regression)
            else:
                fine = groups | {name: np.arange(domain.size(name))}
                (noisy,) = part.measure([fine], noise=design.counts)
                clique = domain.canonical(fine)
                if noisy.shape == domain.shape(clique):
                    measurements.append(Measurement(clique, noisy, kind, design.counts.scale))
                else:
                    shown = _given("counts", name, groups)
                    statistics.append(Statistic(shown, noisy, kind, design.counts.scale))
                table = self._conditional(np.moveaxis(noisy, clique.index(name), -1), design, generator)
            nodes.append(Node(name, views, table))
        return tuple(nodes), measurements, statistics

    def _conditional(
        self, noisy: npt.NDArray[np.float64], design: Design, generator: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """Turn noisy counts into conditional probabilities, as the options say."""
        prior = design.counts.scale if self.prior is None else self.prior
        return dirichlet_table(
            noisy,
            prior=max(prior, 1e-6),
            truncation=self.truncation,
            draw=self.parameters == "draw",
            generator=generator,
        )

    def lazy_records(
        self,
        schema: Schema,
        design: Design,
        part: Part,
        parents: Mapping[str, tuple[View, ...]],
        records: int,
    ) -> npt.NDArray[np.int64]:
        """Draw records column by column, learning only the rows of the tables that they ask for."""
        domain, resolution = schema.domain, self.resolution(schema)
        generator = np.random.default_rng()
        codes = np.zeros((records, len(domain)), dtype=np.int64)
        for name in dependency_order(domain, parents):
            views = resolution.canonical(parents[name])
            groups: dict[str, npt.NDArray[np.int64]] = {view[0]: resolution.labels(view) for view in views}
            lazy = part.lazy_counts(groups | {name: np.arange(domain.size(name))}, name, noise=design.counts)
            order = domain.canonical(groups)
            asked = (
                np.stack([groups[parent][codes[:, domain.index(parent)]] for parent in order], axis=1)
                if order
                else np.zeros((records, 0), dtype=np.int64)
            )
            seen, which = np.unique(asked, axis=0, return_inverse=True)
            noisy = np.stack([lazy.row(tuple(row)) for row in seen.tolist()])
            ends = np.cumsum(self._conditional(noisy, design, generator), axis=1)
            drawn = generator.random(records) * ends[which.ravel(), -1]
            codes[:, domain.index(name)] = (drawn[:, None] >= ends[which.ravel(), :-1]).sum(axis=1)
        return codes


def _given(what: str, name: str, groups: Mapping[str, npt.NDArray[np.int64]]) -> str:
    """Name a table over groups of the parents, from public facts."""
    return f"{what} of {name}" + (f" given groups of {', '.join(groups)}" if groups else "")


def _gain_of_noise(correlations: Correlations, noise: Noise, at_least: int) -> float:
    """Return a merit gain that noise alone rarely reaches: one standard deviation of a noisy correlation."""
    unit = math.log(max(3, at_least)) / at_least  # about the sensitivity of an entropy
    spread = noise.scale * unit * (math.sqrt(2) if isinstance(noise, Laplace) else 1.0)
    alone = [value for key, value in correlations.entropies.items() if len(key) == 1]
    typical = max(1e-3, 2 * float(np.median(alone)))
    return min(0.2, max(1e-3, 2 * spread / typical))
