"""Drawing rows from a distribution: constraints kept, marginals fitted, in one piece or in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine import Distribution
from understudy.engine.record_fitting.records import Allowed, Carry, fit_chunk, fitting_cliques
from understudy.errors import ConstraintError
from understudy.marginals import Workload
from understudy.schema import Clique, Schema

Codes = npt.NDArray[np.unsignedinteger[Any]]

_QUICK_SWEEPS = 2
"""How often a sample of a part of the rows is gone through by record fitting."""
_MAX_ATTEMPTS = 60
"""How often a shortfall of valid rows is topped up; each attempt draws at least as many as are missing."""


@dataclass(frozen=True, eq=False)
class Drawer:
    """Draws encoded records of a schema from a public distribution.

    Rows are drawn by randomised rounding, rows that break a constraint are replaced by others, and, if
    there is a workload, records are moved until their marginals are close to the distribution's. All
    of it is post-processing.
    """

    schema: Schema
    distribution: Distribution
    workload: Workload | None
    conditions: tuple[Allowed, ...] = ()
    """Further combinations of codes that records must hold, beside the constraints of the schema."""
    all_rows: float = 0.0
    """How many rows a whole table has; a sample of less than half of them is fitted quickly rather than as well as it goes."""

    def chunks(self, rows: int, *, rows_per_chunk: int, generator: np.random.Generator) -> Iterator[Codes]:
        """Draw rows in pieces; what one piece leaves over in the marginals the next makes up for."""
        carry: Carry | None = None
        for start in range(0, rows, rows_per_chunk):
            count = min(rows_per_chunk, rows - start)
            codes, carry = self._piece(count, generator, carry, whole=count == rows)
            yield codes

    def _piece(
        self, rows: int, generator: np.random.Generator, carry: Carry | None, *, whole: bool
    ) -> tuple[Codes, Carry | None]:
        drawn = self.valid(rows, generator)
        if self.workload is None or not self._goals[0]:
            return drawn, None
        cliques, weights, targets = self._goals
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
            seed=int(generator.integers(1 << 62)),
        )
        return result.codes, carry

    def valid(self, rows: int, generator: np.random.Generator) -> Codes:
        """Draw rows that satisfy every constraint; they are not fitted."""
        drawn = self.distribution.sample_codes(rows, generator)
        ruled = bool(self.schema.constraints or self.conditions)
        return self._only_valid(drawn, rows, generator) if ruled else drawn

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
    def _allowed(self) -> list[Allowed]:
        rules = [(item.columns, item.allowed(self.schema.domain)) for item in self.schema.constraints]
        return [*rules, *self.conditions]

    def _only_valid(self, drawn: Codes, rows: int, generator: np.random.Generator) -> Codes:
        """Drop records that break a constraint and draw others in their place."""
        kept = [drawn[self._valid(drawn)]]
        missing = rows - len(kept[0])
        request = max(missing, 64)
        for _ in range(_MAX_ATTEMPTS):
            if missing == 0:
                break
            more = self.distribution.sample_codes(request, generator)
            valid = more[self._valid(more)][:missing]
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

    def _valid(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """Say which records satisfy all constraints and conditions."""
        by_name = {name: codes[:, index] for index, name in enumerate(self.schema.names)}
        valid = self.schema.holds_codes(by_name)
        for columns, allowed in self.conditions:
            valid = valid & allowed[tuple(by_name[name] for name in columns)]
        return valid
