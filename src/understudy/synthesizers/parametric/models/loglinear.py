"""Log-linear models given by their generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.engine import Distribution, model_cells
from understudy.engine.parametric_loglinear import LoglinearModel
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import Measurement, Statistic
from understudy.schema import Clique
from understudy.synthesizers.parametric.models.base import Ask, AskCounts, Setting


@dataclass(frozen=True)
class Loglinear:
    """The log-linear model with given generators: the cliques whose interactions it keeps.

    Columns that no generator mentions are independent of all others.
    """

    generators: tuple[tuple[str, ...], ...] = ()
    max_cells: int = 5_000_000
    name: str = "loglinear"

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the marginal of each generator."""
        cliques = self._cliques(setting)
        size = model_cells(setting.domain, cliques)
        if size > self.max_cells:
            raise DomainTooLarge(
                f"The generators make a model of {size:,} cells; at most {self.max_cells:,} are allowed. "
                "Use smaller generators or coarser columns.",
                cells=size,
                allowed=self.max_cells,
            )
        return tuple(AskCounts(clique, 1.0) for clique in cliques)

    def _cliques(self, setting: Setting) -> list[Clique]:
        if not self.generators:
            raise WorkloadError(
                "The model loglinear needs generators: the sets of columns whose interactions it keeps, "
                "such as [[colour, size], [age, smokes]]."
            )
        wanted = list(dict.fromkeys(setting.domain.canonical(clique) for clique in self.generators))
        covered = {name for clique in wanted for name in clique}
        largest = [clique for clique in wanted if not any(set(clique) < set(other) for other in wanted)]
        return [*largest, *((name,) for name in setting.domain.names if name not in covered)]

    def cells(self, setting: Setting) -> int:
        """Return the number of cells of the graphical model."""
        return model_cells(setting.domain, self._cliques(setting))

    def learn(
        self, setting: Setting, told: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the maximum-likelihood model, or a draw around it."""
        measured = []
        for clique, counts in zip(self._cliques(setting), told, strict=True):
            noise = "laplace" if counts.noise == "laplace" else "gaussian"
            values = counts.values.reshape(setting.domain.shape(clique))
            measured.append(Measurement(clique, values, noise, counts.scale))  # type: ignore[arg-type]
        total = None if setting.rows is None else float(max(1, setting.rows))
        model = LoglinearModel.learn(setting.domain, measured, total=total, aware=setting.aware)
        return model.posterior(generator) if setting.parameters == "draw" else model
