"""The rules of a schema on the side of a model: structural zeros where they fit, and records moved until they obey.

A rule may leave few of the records that a model draws: one week in 53 goes with a date. Dropping the others would
take long, and would bend the distribution of the date towards those that a rule spares.

Where rules say what columns are (``nights == departure - arrival``, ``day == day_of(arrival)``) the few columns from whose codes all
others follow keep what the model drew, and the others are computed from them: a stay that begins on the 31st ends in the next
month, whatever month the model drew for its end.
A model may believe things of these columns that no record can satisfy together, because it knows each rule but not what follows from all of
them. Then their combinations are drawn from all that the rules leave (`TiedLaw`), weighted until the marginals that were measured come out
(iterative proportional fitting), and the columns outside follow from the model given them.

Where rules only exclude (``departure >= arrival``) the columns of a broken rule are
drawn again one by one, *given* those that come before them, from the model's own marginal limited to what the rules allow. The
first column of each group keeps its distribution, and its ties with all columns outside the group.

Everything here is a function of the public schema and of a released model: post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine import Distribution, model_cells
from understudy.engine.distributions.distribution import Conditional
from understudy.engine.distributions.patched import PatchedModel
from understudy.engine.distributions.released import ReleasedRecords
from understudy.engine.record_fitting.records import Allowed
from understudy.errors import ConstraintError, DomainTooLarge
from understudy.schema import Clique, Constraint, Schema
from understudy.schema.constraints.conditions import Mapped
from understudy.schema.constraints.joint import JointValues
from understudy.schema.constraints.solving import effort_counted
from understudy.schema.problems import MAX_CELLS

__all__ = [
    "Repair",
    "RulesEffect",
    "TiedLaw",
    "effect_of_rules",
    "learnt_rules",
    "require_possible",
    "structural_rules",
]

Codes = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Marginals = Callable[[Sequence[Clique]], list[Floats]]

_ZERO_CELLS = 1 << 20
"""Cells that a model may hold for the sake of rules: eight megabytes."""

_JOINT_CELLS = 1 << 22
"""Largest marginal of a model that redrawn columns are drawn from; beyond it they follow their own marginal."""

_WEIGHTS = 1 << 22
_CANDIDATES = 64
_TRIED = 4_000

_MOST_SEARCHED = 1 << 33
"""What the solver may do for the made-up records of a trial, in cells: a quarter of a minute."""
_MOST_PER_ROW = 1 << 22
"""What the solver may do for one record that obeys: ten thousand rows in a minute and a half."""

_MANY_BROKEN = 0.01
"""Share of the records of a model that must break rules together before their columns are drawn from a law of their own."""
_MOST_CYCLES = 200
_MOST_STEPS = 3e8
"""Cells that are visited to weight the combinations that rules leave."""
_NEVER = 1e-9
"""What a model gives to cells that it thinks empty, as a share: rules may leave nothing else."""


def structural_rules(schema: Schema) -> tuple[Constraint, ...]:
    """Return the constraints that models hold as structural zeros.

    Constraints are held in any case, as each of them says which records a model can know. Rules on values and declared dependencies
    are held, from the smallest up, while a model over the columns of all of them keeps at most about a million cells; the others
    are kept by the drawing alone.
    """
    held = [rule for rule in schema.constraints if rule.straddle != "values" and not rule.dependency]
    if len(held) == len(schema.constraints):
        return schema.constraints
    domain = schema.domain
    rest = [rule for rule in schema.constraints if rule not in held]
    for rule in sorted(rest, key=lambda rule: domain.cells(rule.columns)):
        if (
            domain.cells(rule.columns) <= _ZERO_CELLS
            and model_cells(domain, [item.columns for item in (*held, rule)]) <= _ZERO_CELLS
        ):
            held.append(rule)
    return tuple(rule for rule in schema.constraints if rule in held)


def learnt_rules(schema: Schema, marginals: Marginals) -> tuple[Constraint, ...]:
    """Return the rules behind dependencies without a table: for each value, what the model finds most likely."""
    made = []
    for item in schema.determines:
        if not item.learnt:
            continue
        source, target = schema.column(item.source), schema.column(item.target)
        clique = schema.domain.canonical((item.source, item.target))
        table = marginals([clique])[0].reshape(schema.domain.shape(clique))
        for rule in schema.constraints:
            if rule.columns == clique:
                table = np.where(rule.allowed(schema.domain), np.maximum(table, 0.0), -1.0)
        if clique[0] != item.source:
            table = table.T
        likely = table[: source.value_count, : target.value_count].argmax(axis=1)
        if target.groups is not None:  # one value each: no fit puts values together that follow from others
            likely = np.argsort(target.groups, kind="stable")[likely]
        if source.groups is not None:
            likely = likely[source.groups]
        condition = Mapped(item.source, item.target, tuple(int(code) for code in likely))
        over = tuple(schema.column(name) for name in clique)
        text = f"{item.source} determines {item.target}"
        made.append(Constraint(text, condition=condition, over=over, dependency=True))
    return tuple(made)


@dataclass(frozen=True, eq=False)
class Repair:
    """Moves records until they obey rules, column by column.

    Parameters
    ----------
    schema
        The public schema.
    rules
        The rules to obey, of the schema and others.
    marginals
        What the model expects; without it every allowed code is equally likely.
    """

    schema: Schema
    rules: tuple[Constraint, ...]
    marginals: Marginals | None = None

    @cached_property
    def steps(self) -> tuple[tuple[str, tuple[Constraint, ...]], ...]:
        """The columns in the order in which they are drawn again, each with the rules that it completes.

        Columns that others follow from come first, then those with a list and those in more rules, then by their place in the schema.
        """
        unlisted = {
            column.name
            for group in self.schema.tied_values
            if group.listed
            for column in group.columns
            if not any(column in listed.columns for listed in group.listed)
        }
        followers = {rule.condition.target for rule in self.rules if isinstance(rule.condition, Mapped)}
        count: dict[str, int] = {}
        for rule in self.rules:
            for name in rule.columns:
                count[name] = count.get(name, 0) + 1
        order = sorted(
            count,
            key=lambda name: (
                name in followers,
                name in unlisted,
                -count[name],
                self.schema.domain.index(name),
            ),
        )
        place = {name: number for number, name in enumerate(order)}
        found = []
        for name in order:
            mine = tuple(rule for rule in self.rules if max(rule.columns, key=place.__getitem__) == name)
            if mine:
                found.append((name, mine))
        return tuple(found)

    def complete(self, codes: Codes, generator: np.random.Generator) -> Codes:
        """Return records in which columns that follow from others by a rule are computed from them.

        All records are changed that are given, so give broken ones only. Other rules may still be broken.
        """
        made = codes
        for group in self.schema.tied_values:
            index = {column.name: made[:, self._at(column.name)].astype(np.intp) for column in group.columns}
            for rows, groups in group.by_absence(index):
                for part in (listed for left in groups for listed in left.listed):
                    here = {column.name: index[column.name][rows] for column in part.columns}
                    if part.listing is None or not len(part.listing) or not part.present(here).all():
                        continue
                    bad = np.flatnonzero(~part.listing.find(here)[1])
                    if not len(bad):
                        continue
                    followed = part.listing.complete(
                        {name: values[bad] for name, values in here.items()},
                        self._order,
                        self._weigh,
                        generator,
                    )
                    if made is codes:
                        made = codes.copy()
                    for name, values in followed.items():
                        made[rows[bad], self._at(name)] = values.astype(codes.dtype)
        return made

    @cached_property
    def _order(self) -> tuple[str, ...]:
        """The columns of rules, those in the most rules first."""
        count: dict[str, int] = {}
        for rule in self.rules:
            for name in rule.columns:
                count[name] = count.get(name, 0) + 1
        return tuple(sorted(count, key=lambda name: (-count[name], self.schema.domain.index(name))))

    def _weigh(self, name: str, given: str | None, codes: npt.NDArray[np.intp]) -> Floats:
        """Return how likely each code of a column is in each of some records, given the code of another column."""
        domain, shape = self.schema.domain, (len(codes), self.schema.domain.size(name))
        if given is None or self.marginals is None or domain.cells((name, given)) > _JOINT_CELLS:
            return np.broadcast_to(self._alone(name), shape)
        clique = domain.canonical((name, given))
        return np.asarray(np.moveaxis(self._table(clique), clique.index(name), -1)[codes])

    def apply(self, codes: Codes, generator: np.random.Generator) -> Codes:
        """Return the records with the columns of broken rules drawn again; a few may still break a rule."""
        moved = self.complete(codes, generator)
        for name, rules in self.steps:
            broken = np.flatnonzero(~self._hold(rules, moved))
            if not len(broken):
                continue
            if moved is codes:
                moved = codes.copy()
            if any(self.schema.domain.cells(rule.columns) > MAX_CELLS for rule in rules):
                broken = self._try(moved, broken, name, rules, generator)
            rows = max(1, _WEIGHTS // self.schema.domain.size(name))
            for start in range(0, len(broken), rows):
                here = broken[start : start + rows]
                self._redraw(moved, here, name, rules, generator)
        return self.complete(moved, generator)

    def _try(
        self,
        codes: Codes,
        rows: npt.NDArray[np.intp],
        name: str,
        rules: Sequence[Constraint],
        generator: np.random.Generator,
    ) -> npt.NDArray[np.intp]:
        """Draw a column from its own marginal until the rules hold, some times; return the records where they never did.

        For tables too large to look at every code. The first code that passes has the law of the marginal given the rules.
        """
        weights = self._alone(name)
        if not weights.sum() > 0:
            return rows
        share, left = weights / weights.sum(), []
        for start in range(0, len(rows), _WEIGHTS // _CANDIDATES):
            here = rows[start : start + _WEIGHTS // _CANDIDATES]
            drawn = generator.choice(len(share), (len(here), _CANDIDATES), p=share)
            holds = np.ones(drawn.shape, dtype=bool)
            for rule in rules:
                tried = {
                    other: np.repeat(codes[here, self._at(other)], _CANDIDATES) for other in rule.columns
                }
                tried[name] = drawn.ravel()
                holds &= rule.holds_codes(tried).reshape(drawn.shape)
            found = holds.any(axis=1)
            first = drawn[np.arange(len(here)), holds.argmax(axis=1)]
            codes[here[found], self._at(name)] = first[found].astype(codes.dtype)
            left.append(here[~found])
        return np.concatenate(left) if left else rows

    def _hold(self, rules: Sequence[Constraint], codes: Codes) -> Bools:
        holds = np.ones(len(codes), dtype=bool)
        for rule in rules:
            holds &= rule.holds_codes({name: codes[:, self._at(name)] for name in rule.columns})
        return holds

    def _redraw(
        self,
        codes: Codes,
        rows: npt.NDArray[np.intp],
        name: str,
        rules: Sequence[Constraint],
        generator: np.random.Generator,
    ) -> None:
        allowed = np.ones((len(rows), self.schema.domain.size(name)), dtype=bool)
        for rule in rules:
            others = {other: codes[rows, self._at(other)] for other in rule.columns if other != name}
            allowed &= rule.allowed_given(name, others, rows=len(rows))
        weights = self._likely(codes, rows, name, rules) * allowed
        for fallback in (self._alone(name), np.ones(1)):
            empty = ~(weights.sum(axis=1) > 0)
            if empty.any():
                weights[empty] = fallback * allowed[empty]
        reached = np.cumsum(weights, axis=1)
        total = reached[:, -1]
        share = generator.random(len(rows)) * total
        chosen = np.minimum((reached <= share[:, None]).sum(axis=1), allowed.shape[1] - 1)
        good = total > 0
        codes[rows[good], self._at(name)] = chosen[good].astype(codes.dtype)

    def _likely(
        self, codes: Codes, rows: npt.NDArray[np.intp], name: str, rules: Sequence[Constraint]
    ) -> Floats:
        """Return how likely each code of a column is given the others of the smallest rule."""
        domain = self.schema.domain
        clique = min((rule.columns for rule in rules), key=domain.cells)
        if self.marginals is None or len(clique) == 1 or domain.cells(clique) > _JOINT_CELLS:
            return np.broadcast_to(self._alone(name), (len(rows), domain.size(name)))
        table = np.moveaxis(self._table(domain.canonical(clique)), domain.canonical(clique).index(name), -1)
        others = [other for other in domain.canonical(clique) if other != name]
        return np.asarray(table[tuple(codes[rows, self._at(other)] for other in others)])

    def _alone(self, name: str) -> Floats:
        if self.marginals is None:
            return np.ones(self.schema.domain.size(name))
        return self._table((name,))

    def _table(self, clique: Clique) -> Floats:
        assert self.marginals is not None
        kept: dict[Clique, Floats] = vars(self).setdefault("_kept", {})
        if clique not in kept:
            kept[clique] = np.maximum(
                self.marginals([clique])[0].reshape(self.schema.domain.shape(clique)), 0.0
            )
        return kept[clique]

    def _at(self, name: str) -> int:
        return self.schema.domain.index(name)


@dataclass(frozen=True, eq=False)
class TiedLaw:
    """Draws the columns that rules tie together from everything the rules leave, as close to a model as that can be.

    Parameters
    ----------
    schema
        The public schema.
    distribution
        The model.
    measured
        The marginals that were measured. What a model says about others it infers, and it infers without the rules taken together.
    conditions
        Further combinations of codes that records must hold.

    Privacy
    -------
    In: a released model and which marginals it was fitted to. Out: public.
    """

    schema: Schema
    distribution: Distribution
    measured: tuple[Clique, ...]
    conditions: tuple[Allowed, ...] = ()

    @cached_property
    def group(self) -> JointValues | None:
        """The largest group of columns of which some follow from others; None where the records of the model obey already."""
        if isinstance(self.distribution, ReleasedRecords):
            return None  # they were released as they are
        found = [
            group
            for tied in self.schema.tied_values
            for group in tied.listed
            if group.listing is not None and len(group.listing.deciding) < len(group.columns)
        ]
        if not found:
            return None
        group = max(found, key=lambda group: len(group.columns))
        tried = self.distribution.sample_codes(_TRIED, np.random.default_rng(0))
        broken = ~group.possible(self._by_name(tried, group))
        return group if broken.mean() > _MANY_BROKEN else None

    @cached_property
    def weights(self) -> Floats:
        """How likely each listed combination is; nothing where the model and the conditions leave none."""
        assert self.group is not None
        listing = self.group.listing
        assert listing is not None
        names = tuple(listing.columns)
        weights = np.diff(listing.first).astype(np.float64)
        for columns, allowed in self.conditions:
            if set(columns) <= set(names):
                weights *= allowed[tuple(listing.of(columns))]
        cliques = dict.fromkeys(
            self.schema.domain.canonical(name for name in clique if name in names) for clique in self.measured
        )
        wide = [clique for clique in cliques if 1 < len(clique) < len(names)]
        goals = []
        for clique in [
            *(item for item in wide if self.schema.domain.cells(item) <= _JOINT_CELLS),
            *((n,) for n in names),
        ]:
            table = self.distribution.marginals([clique])[0].reshape(self.schema.domain.shape(clique))
            table = np.maximum(table[tuple(slice(listing.values_of[name]) for name in clique)], 0.0)
            if table.sum() > 0:
                places = np.ravel_multi_index(tuple(listing.of(clique)), table.shape)
                goals.append((places, (table / table.sum()).reshape(-1) + _NEVER / table.size))
        for _ in range(int(np.clip(_MOST_STEPS / max(1, len(listing) * len(goals)), 10, _MOST_CYCLES))):
            before = weights
            for places, goal in goals:
                now = np.bincount(places, weights, minlength=len(goal))
                weights = weights * np.divide(goal, now, out=np.zeros_like(goal), where=now > 0)[places]
            total = weights.sum()
            if not total > 0:
                return np.zeros(len(listing))
            weights = weights / total
            if np.abs(weights - before).sum() < 1e-7:
                break
        return weights

    @cached_property
    def touching(self) -> Clique:
        """The columns of the group that were measured together with columns outside: all that those depend on.

        Columns that one rule alone derives from others among them are left out: the model knows.
        """
        assert self.group is not None
        names = {column.name for column in self.group.columns}
        found = {name for clique in self.measured if set(clique) - names for name in clique if name in names}
        for name in sorted(found, key=self.schema.domain.index):
            if any(self._derives(rule, name) and set(rule.columns) <= found for rule in self.group.rules):
                found.remove(name)
        return self.schema.domain.canonical(found)

    def _derives(self, rule: Constraint, name: str) -> bool:
        """Whether a rule leaves one code of a column for any codes of its others."""
        if (
            name not in rule.columns
            or len(rule.columns) < 2
            or self.schema.domain.cells(rule.columns) > _JOINT_CELLS
        ):
            return False
        table = rule.allowed(self.schema.domain)
        values = table[tuple(slice(column.value_count) for column in rule.over)]
        return bool((values.sum(axis=rule.columns.index(name)) <= 1).all())

    def redraw(self, codes: Codes, generator: np.random.Generator) -> Codes:
        """Return records with the group drawn from its law and the columns outside given it; those with missing entries as they are."""
        if self.group is None or not len(codes):
            return codes
        listing = self.group.listing
        assert listing is not None
        rows = np.flatnonzero(self.group.present(self._by_name(codes, self.group)))
        reached = np.cumsum(self.weights)
        if not len(rows) or not reached[-1] > 0:
            return codes
        # evenly spaced shares: every combination as often as expected, rounded at random
        shares = (np.arange(len(rows)) + generator.random()) / len(rows) * reached[-1]
        chosen = np.minimum(np.searchsorted(reached, shares, side="right"), len(listing) - 1)
        chosen = generator.permutation(chosen)
        made = codes.copy()
        if self.touching:
            given = np.stack(listing.of(self.touching), axis=1)[chosen]
            # records of a patched model are drawn from its tree; fitting moves them to what the patches say
            source = (
                self.distribution.tree if isinstance(self.distribution, PatchedModel) else self.distribution
            )
            drawn = (
                source.sample_given(self.touching, given, generator)
                if isinstance(source, Conditional)
                else None
            )
            if drawn is None:
                return codes
            records, possible = drawn
            rows, chosen = rows[possible], chosen[possible]
            made[rows] = records[possible]
        for axis, name in enumerate(listing.columns):
            made[rows, self.schema.domain.index(name)] = listing.codes[chosen, axis].astype(made.dtype)
        return made

    def _by_name(self, codes: Codes, group: JointValues) -> dict[str, npt.NDArray[np.intp]]:
        return {
            column.name: codes[:, self.schema.domain.index(column.name)].astype(np.intp)
            for column in group.columns
        }


@dataclass(frozen=True, kw_only=True)
class RulesEffect:
    """What keeping to rules did to rows that were drawn: public, as the model and the rows are.

    Attributes
    ----------
    rows
        The number of rows.
    broken
        The share of the rows a model draws by itself that break a rule, and so are moved (estimated from 4,000 draws).
    column
        The column of a rule whose distribution is the furthest from the model's, beyond what chance explains; None if there is none.
    distance
        The share of the rows that lie in another bin of that column than the model expects.
    chance
        The same share, as it would be on average if the rows were drawn from the model at random.
    """

    rows: int
    broken: float
    column: str | None
    distance: float
    chance: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "broken": round(self.broken, 4),
            "column": self.column,
            "distance": round(self.distance, 4),
            "chance": round(self.chance, 4),
        }

    def describe(self) -> str:
        """Say it in a sentence or two.

        Examples
        --------
        >>> found = RulesEffect(rows=2000, broken=0.25, column="day", distance=0.08, chance=0.02)
        >>> for sentence in found.describe().split(". "):
        ...     print(sentence)
        Rules moved about 500 of 2,000 rows (25 %): so many break one as the model draws them
        The distribution that changed most is that of 'day': 8.0 % of the rows lie in other bins than the model expects (2.0 % by chance).
        """
        if not self.broken:
            return "Rules: hardly any row that the model draws breaks one."
        moved = (
            f"Rules moved about {self.broken * self.rows:,.0f} of {self.rows:,} rows ({100 * self.broken:.2g} %): "
            "so many break one as the model draws them."
        )
        if self.column is None:
            return f"{moved} No column of a rule is further from the model than chance explains."
        return (
            f"{moved} The distribution that changed most is that of {self.column!r}: {100 * self.distance:.1f} % of the rows lie "
            f"in other bins than the model expects ({100 * self.chance:.1f} % by chance)."
        )


def effect_of_rules(
    schema: Schema, codes: Mapping[str, npt.NDArray[Any]], tried: Bools, marginals: Marginals
) -> RulesEffect:
    """Compare rows with the model they were drawn from.

    Parameters
    ----------
    schema
        The public schema.
    codes
        Codes of the columns of rules, of the rows drawn.
    tried
        Which of some records obeyed as the model drew them.
    marginals
        What the model expects.
    """
    rows = len(next(iter(codes.values())))
    worst: tuple[float, float, str] | None = None
    for name, part in codes.items():
        expected = np.maximum(marginals([(name,)])[0], 0.0)
        if not rows or not expected.sum() > 0:
            continue
        share = expected / expected.sum()
        distance = float(np.abs(np.bincount(part, minlength=len(share)) / rows - share).sum()) / 2
        # a count of n p (1 - p) varies by that much: half of the mean absolute deviation of each
        deviations = np.sqrt(share * (1 - share) / rows)
        chance = float(deviations.sum() / np.sqrt(2 * np.pi))
        spread = float(np.sqrt((deviations**2).sum()) / 2)
        if distance > chance + 4 * spread and (worst is None or distance - chance > worst[0] - worst[1]):
            worst = (distance, chance, name)
    broken = 0.0 if not len(tried) else float(1 - tried.mean())
    distance, chance, column = worst or (0.0, 0.0, None)
    return RulesEffect(rows=rows, broken=broken, column=column, distance=distance, chance=chance)


def require_possible(schema: Schema) -> None:
    """Refuse rules that no record can obey, before anything is charged.

    A few thousand records are made up and moved until they obey, just as those of a model will be, and get values. So rules that
    would take too long to draw rows under are refused here too; what is too long is a count and not a time, the same on every machine.

    Raises
    ------
    ConstraintError
        If none of them obeys all rules in the end, or if the search for values that obey takes too long.
    DomainTooLarge
        If a dependency without a table is about too many combinations to be learnt.
    """
    if not schema.rules and not schema.determines:
        return
    for item in schema.determines:
        cells = schema.domain.cells((item.source, item.target))
        if item.learnt and cells > MAX_CELLS:
            raise DomainTooLarge(
                f"What {item.target!r} follows from {item.source!r} would be learnt from {cells:,} combinations; "
                f"{MAX_CELLS:,} are allowed. Declare the table of values, or use coarser columns. Nothing was charged.",
                cells=cells,
                allowed=MAX_CELLS,
            )
    if not schema.constraints:
        return
    generator = np.random.default_rng(0)
    made_up = np.stack([generator.integers(0, size, _TRIED) for size in schema.domain.sizes], axis=1)
    # missing entries obey nearly everything; records without any show whether the rules agree with each other
    for place, column in enumerate(schema.columns):
        made_up[: _TRIED // 2, place] %= column.value_count
    try:
        with effort_counted(_MOST_SEARCHED) as effort:
            tried = Repair(schema, schema.constraints).apply(made_up.astype(np.uint32), generator)
            obeyed = schema.holds_codes({name: tried[:, place] for place, name in enumerate(schema.names)})
            for group in schema.joint_values:
                codes = {c.name: tried[obeyed, schema.domain.index(c.name)] for c in group.columns}
                group.settle(codes, {c.name: c.decode(codes[c.name], generator) for c in group.columns}, generator)  # fmt: skip
            if effort.spent > _MOST_PER_ROW * obeyed.sum() > 0:
                raise effort.too_long()
    except ConstraintError as error:
        raise ConstraintError(f"{error} Nothing was charged.") from None
    if not obeyed.any():
        lonely = [
            rule.text
            for rule in schema.constraints
            if not rule.holds_codes(
                {name: tried[:, schema.domain.index(name)] for name in rule.columns}
            ).any()
        ]
        which = f"No record obeys {lonely[0]!r}" if lonely else "The rules contradict each other"
        raise ConstraintError(
            f"{which}: among {_TRIED:,} made-up records, moved to where the rules allow, none obeys "
            f"{'it' if lonely else 'all of them'}. Check the rules, and whether the ranges of their columns leave room for them. "
            "Nothing was charged."
        )
