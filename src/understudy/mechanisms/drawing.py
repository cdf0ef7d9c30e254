"""Drawing rows from a distribution: constraints kept, marginals fitted, in one piece or in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine import Distribution
from understudy.engine.record_fitting.records import Allowed, Carry, fit_chunk, fitting_cliques
from understudy.errors import ConstraintError
from understudy.marginals import Workload
from understudy.mechanisms.rules import Repair, TiedLaw, learnt_rules
from understudy.progress import Phases, Progress, no_progress
from understudy.schema import Clique, Constraint, Schema
from understudy.schema.problems import MAX_CELLS

Codes = npt.NDArray[np.unsignedinteger[Any]]

_QUICK_SWEEPS = 2
"""How often a sample of a part of the rows is gone through by record fitting."""
_PHASES = {"drawing": 1.0, "asking": 2.0, "fitting": 7.0}
"""Roughly how the time of a piece is spent where there is a workload: rows, the model's answers to it, moving the rows."""
_TIED_CELLS = 1 << 22
"""Largest table of what rules leave together that record fitting keeps to."""
_MAX_ATTEMPTS = 60
"""How often a shortfall of valid rows is topped up; each attempt draws at least as many as are missing."""


@dataclass(frozen=True, eq=False)
class Drawer:
    """Draws encoded records of a schema from a public distribution.

    Rows are drawn by randomised rounding. In rows that break a rule on values or a dependency the columns of the rule are
    computed from those that decide them, or drawn again (`Repair`), rows that break a constraint are replaced by others, and, if there is a workload, records are moved until their marginals are close to the distribution's. All
    of it is post-processing.
    """

    schema: Schema
    distribution: Distribution
    workload: Workload | None
    conditions: tuple[Allowed, ...] = ()
    """Further combinations of codes that records must hold, beside the constraints of the schema."""
    measured: tuple[Clique, ...] = ()
    """The marginals that the distribution was fitted to."""
    all_rows: float = 0.0
    """How many rows a whole table has; a sample of less than half of them is fitted quickly rather than as well as it goes."""

    def chunks(
        self,
        rows: int,
        *,
        rows_per_chunk: int,
        generator: np.random.Generator,
        progress: Progress = no_progress,
    ) -> Iterator[Codes]:
        """Draw rows in pieces; what one piece leaves over in the marginals the next makes up for."""
        carry: Carry | None = None
        for start in range(0, rows, rows_per_chunk):
            count = min(rows_per_chunk, rows - start)

            def tell(stage: str, fraction: float, start: int = start, count: int = count) -> None:
                progress(stage, (start + fraction * count) / rows)

            codes, carry = self._piece(count, generator, carry, tell, whole=count == rows)
            yield codes

    def _piece(
        self,
        rows: int,
        generator: np.random.Generator,
        carry: Carry | None,
        progress: Progress = no_progress,
        *,
        whole: bool,
    ) -> tuple[Codes, Carry | None]:
        phases = Phases(progress, _PHASES)
        phases.part("drawing")("drawing rows", 0.0)
        drawn = self.valid(rows, generator)
        if self.workload is None or not self.fitted[0]:
            return drawn, None
        phases.part("asking")("asking the model", 0.0)
        cliques, weights, targets = self._goals
        fitting = phases.part("fitting")
        fitting("fitting rows", 0.0)
        small = rows < self.all_rows / 2
        result, carry = fit_chunk(
            drawn,
            self.schema.domain,
            cliques,
            targets,
            weights=weights,
            allowed=self._allowed,
            carry=carry,
            temperature=None if whole and not small else 0.0,  # small tables in one piece are annealed
            proposals=_QUICK_SWEEPS * rows * len(self.schema.names) if small else None,
            watch=lambda fraction: fitting("fitting rows", fraction),
            seed=int(generator.integers(1 << 62)),
        )
        fitted, counts = self.put_back(drawn, result.codes, carry.fitted, carry.counts)
        return fitted, replace(carry, counts=counts)

    def put_back(
        self,
        drawn: Codes,
        fitted: Codes,
        cliques: Sequence[Clique],
        counts: Sequence[npt.NDArray[Any]],
    ) -> tuple[Codes, tuple[npt.NDArray[Any], ...]]:
        """Return fitted records with those that break a rule as they were drawn, and the counts that follow.

        Fitting keeps each rule by its table of codes, and rules that say what columns are by one for all of them. It cannot see rules whose
        tables are too large, nor other combinations that every rule allows and that leave no values for all rules together.
        """
        if not self.schema.joint_values and len(self._tabulated) == len(self.rules):
            return fitted, tuple(counts)
        broken = np.flatnonzero(~self.obey(fitted))
        if not len(broken):
            return fitted, tuple(counts)
        mended = fitted.copy()
        mended[broken] = drawn[broken]
        corrected = []
        for clique, count in zip(cliques, counts, strict=True):
            flat = np.array(count)
            for codes, sign in ((fitted, -1), (mended, 1)):
                places = [codes[broken, self.schema.domain.index(name)].astype(np.intp) for name in clique]
                cells = np.ravel_multi_index(places, self.schema.domain.shape(clique))
                np.add.at(flat.reshape(-1), cells, sign)
            corrected.append(flat)
        return mended, tuple(corrected)

    def valid(self, rows: int, generator: np.random.Generator) -> Codes:
        """Draw rows that satisfy every constraint; they are not fitted."""
        drawn = self._draw(rows, generator)
        return self._only_valid(drawn, rows, generator) if self.rules or self.conditions else drawn

    def _draw(self, rows: int, generator: np.random.Generator) -> Codes:
        """Draw rows, and move those that break a rule on values or a dependency to where the rules allow."""
        drawn = self.distribution.sample_codes(rows, generator)
        return self.repaired(self._law.redraw(drawn, generator), generator)

    @cached_property
    def _law(self) -> TiedLaw:
        return TiedLaw(self.schema, self.distribution, self.measured, self.conditions)

    def repaired(self, codes: Codes, generator: np.random.Generator) -> Codes:
        """Return records with the columns of broken rules drawn again; constraints alone are left to rejection."""
        if not self.schema.rules and not self.schema.determines:
            return codes
        broken = np.flatnonzero(~self.obey(codes))
        if not len(broken):
            return codes
        moved = codes.copy()
        moved[broken] = self._repair.apply(codes[broken], generator)
        return moved

    @cached_property
    def rules(self) -> tuple[Constraint, ...]:
        """The constraints of the schema, and what the model says about columns that follow from others."""
        return (*self.schema.constraints, *self._learnt)

    @cached_property
    def _learnt(self) -> tuple[Constraint, ...]:
        return learnt_rules(self.schema, self.distribution.marginals)

    @cached_property
    def _repair(self) -> Repair:
        return Repair(self.schema, self.rules, self.distribution.marginals)

    @cached_property
    def fitted(self) -> tuple[tuple[Clique, ...], list[float]]:
        """Marginals to fit to, with their weights."""
        assert self.workload is not None
        wanted = {clique: weight for clique, weight in self.workload if weight > 0}
        cliques = fitting_cliques(self.schema.domain, tuple(wanted))
        # a marginal too large to fit is replaced by its parts; they share the average weight
        usual = sum(wanted.values()) / len(wanted)
        return cliques, [wanted.get(clique, usual) for clique in cliques]

    @cached_property
    def _goals(self) -> tuple[tuple[Clique, ...], list[float], list[npt.NDArray[np.float64]]]:
        """Marginals to fit to, with their weights and the distribution's answers."""
        return (*self.fitted, self.distribution.marginals(self.fitted[0]))

    @cached_property
    def _tabulated(self) -> tuple[Constraint, ...]:
        """The rules whose tables are small enough for record fitting to keep to."""
        domain = self.schema.domain
        return tuple(
            item
            for item in self.rules
            if (item.straddle != "values" and not item.dependency) or domain.cells(item.columns) <= MAX_CELLS
        )

    @cached_property
    def _allowed(self) -> list[Allowed]:
        """Tables of codes that record fitting keeps to: of each rule, of what rules leave together, of the conditions."""
        alone = [(item.columns, item.allowed(self.schema.domain)) for item in self._tabulated]
        known = {columns for columns, _ in alone}
        listings = [group.listing for tied in self.schema.tied_values for group in tied.listed]
        tied = [table for each in listings if each is not None for table in each.tables(_TIED_CELLS)]
        return [*alone, *(table for table in tied if table[0] not in known), *self.conditions]

    def _only_valid(self, drawn: Codes, rows: int, generator: np.random.Generator) -> Codes:
        """Drop records that break a constraint and draw others in their place."""
        kept = [drawn[self.obey(drawn)]]
        missing = rows - len(kept[0])
        request = max(missing, 64)
        for _ in range(_MAX_ATTEMPTS):
            if missing == 0:
                break
            more = self._draw(request, generator)
            valid = more[self.obey(more)][:missing]
            kept.append(valid)
            missing -= len(valid)
            if len(valid) * 4 < request:
                request = min(request * 2, max(4 * rows, 1 << 20))
        if missing:
            what = "conditions" if self.conditions else "constraints"
            raise ConstraintError(
                f"The {what} reject nearly every record the model draws: {missing} of {rows} rows could not "
                f"be filled. Loosen the {what}, or use a method that models them."
            )
        joined = np.concatenate(kept)
        generator.shuffle(joined, axis=0)
        return joined

    def obey(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """Say which records satisfy all constraints and conditions."""
        columns = {name: codes[:, index] for index, name in enumerate(self.schema.names)}
        holds = self.schema.holds_codes(columns)
        for rule in self._learnt:
            holds &= rule.holds_codes(columns)
        for names, allowed in self.conditions:
            holds &= allowed[tuple(columns[name] for name in names)]
        return holds
