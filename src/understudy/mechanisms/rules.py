"""The rules of a schema on the side of a model: structural zeros where they fit, and records moved until they obey.

A rule may leave few of the records that a model draws: one week in 53 goes with a date. Dropping the others would
take long, and would bend the distribution of the date towards those that a rule spares. So the columns of a broken rule are
drawn again one by one, *given* those that come before them, from the model's own marginal limited to what the rules allow. The
first column of each group keeps its distribution, and its ties with all columns outside the group.

Everything here is a function of the public schema and of a released model: post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine import model_cells
from understudy.errors import ConstraintError, DomainTooLarge
from understudy.schema import Clique, Constraint, Schema
from understudy.schema.constraints.conditions import Mapped
from understudy.schema.problems import MAX_CELLS

__all__ = ["Repair", "learnt_rules", "require_possible", "structural_rules"]

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

        Columns that others follow from come first, then those in more rules, then by their place in the schema.
        """
        followers = {rule.condition.target for rule in self.rules if isinstance(rule.condition, Mapped)}
        count: dict[str, int] = {}
        for rule in self.rules:
            for name in rule.columns:
                count[name] = count.get(name, 0) + 1
        order = sorted(
            count, key=lambda name: (name in followers, -count[name], self.schema.domain.index(name))
        )
        place = {name: number for number, name in enumerate(order)}
        found = []
        for name in order:
            mine = tuple(rule for rule in self.rules if max(rule.columns, key=place.__getitem__) == name)
            if mine:
                found.append((name, mine))
        return tuple(found)

    def apply(self, codes: Codes, generator: np.random.Generator) -> Codes:
        """Return the records with the columns of broken rules drawn again; a few may still break a rule."""
        moved = codes
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
        return moved

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


def require_possible(schema: Schema) -> None:
    """Refuse rules that no record can obey, before anything is charged.

    A few thousand records are made up and moved until they obey, just as those of a model will be.

    Raises
    ------
    ConstraintError
        If none of them obeys all rules in the end.
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
    tried = Repair(schema, schema.constraints).apply(made_up.astype(np.uint32), generator)
    obeyed = schema.holds_codes({name: tried[:, place] for place, name in enumerate(schema.names)})
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
