"""Log-linear models given by their generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine import Distribution, GraphicalModel, estimate, model_cells
from understudy.engine.distributions.product import Codes, Floats
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import Measurement, Statistic, count_codes
from understudy.mechanisms.parametric.modips.models import Ask, AskCounts, Setting
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# A log-linear model given by its generators, with parameters that can be drawn again.

_PREFIX = "fitted-"


@dataclass(frozen=True, eq=False)
class LoglinearModel:
    """The log-linear model whose sufficient statistics are the measured marginals.

    Parameters
    ----------
    estimate
        The maximum-likelihood model of the noisy marginals.
    fitted
        The model at its present parameters: the estimate, or a draw.
    measurements
        The noisy marginals of the generators.
    known
        Whether the number of records is known.
    aware
        Whether draws take the noise into account.

    Notes
    -----
    A draw simulates the whole history once more at the estimate: as many records, the same noise, the same
    estimator. To first order the spread of the result is the posterior's (Bernstein and von Mises), for any
    generators, with both the sampling error and the privacy noise in it; without ``aware`` the sampling error alone.
    The noise of such a draw protects nobody: all it depends on is already released.
    """

    estimate: GraphicalModel
    fitted: GraphicalModel
    measurements: tuple[Measurement, ...]
    known: bool
    aware: bool
    kind: str = "parametric-loglinear"

    @property
    def domain(self) -> Domain:
        """The columns it speaks of."""
        return self.fitted.domain

    @property
    def total(self) -> float:
        """Expected number of records."""
        return self.fitted.total

    @classmethod
    def learn(
        cls, domain: Domain, measurements: Sequence[Measurement], *, total: float | None, aware: bool
    ) -> LoglinearModel:
        """Return the model at its maximum-likelihood parameters."""
        found = estimate(domain, measurements, total=total)
        return cls(found, found, tuple(measurements), total is not None, aware)

    def posterior(self, generator: np.random.Generator) -> LoglinearModel:
        """Return the model with parameters of a new draw, given the same release."""
        rows = max(1, round(self.estimate.total))
        codes = self.estimate.sample_codes(20 * rows, generator)
        codes = codes[generator.integers(len(codes), size=rows)]  # rows that do not depend on each other
        again = []
        for item in self.measurements:
            exact = count_codes(self.domain, codes, item.clique)
            noise = self._noise(item, generator) if self.aware else 0.0
            again.append(Measurement(item.clique, exact + noise, item.noise, item.scale))
        drawn = estimate(self.domain, again, total=float(rows) if self.known or not self.aware else None)
        return replace(self, fitted=drawn)

    @staticmethod
    def _noise(item: Measurement, generator: np.random.Generator) -> Floats:
        shape = item.values.shape
        if item.noise == "laplace":
            return np.rint(generator.laplace(0.0, item.scale, shape))
        return np.rint(generator.normal(0.0, item.scale, shape))

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique."""
        return self.fitted.marginals(cliques)

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records."""
        return self.fitted.sample_codes(n, generator)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of a model file."""
        meta, arrays = self.estimate.to_arrays()
        now, own = self.fitted.to_arrays()
        arrays |= {f"{_PREFIX}{name}": array for name, array in own.items()}
        arrays |= {f"measured-{index}": item.values for index, item in enumerate(self.measurements)}
        statistics = [[list(item.clique), item.noise, item.scale] for item in self.measurements]
        return {
            "estimate": meta,
            "fitted": now,
            "measured": statistics,
            "known": self.known,
            "aware": self.aware,
        }, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> LoglinearModel:
        """Rebuild from the description and arrays of a model file."""
        own = {
            name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)
        }
        measured = tuple(
            Measurement(tuple(clique), arrays[f"measured-{index}"], noise, float(scale))
            for index, (clique, noise, scale) in enumerate(meta["measured"])
        )
        return cls(
            GraphicalModel.from_arrays(domain, meta["estimate"], arrays),
            GraphicalModel.from_arrays(domain, meta["fitted"], own),
            measured,
            bool(meta["known"]),
            bool(meta["aware"]),
        )


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
        self, setting: Setting, statistics: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the maximum-likelihood model, or a draw around it."""
        measured = []
        for clique, counts in zip(self._cliques(setting), statistics, strict=True):
            noise = "laplace" if counts.noise == "laplace" else "gaussian"
            values = counts.values.reshape(setting.domain.shape(clique))
            measured.append(Measurement(clique, values, noise, counts.scale))  # type: ignore[arg-type]
        total = None if setting.rows is None else float(max(1, setting.rows))
        model = LoglinearModel.learn(setting.domain, measured, total=total, aware=setting.aware)
        return model.posterior(generator) if setting.parameters == "draw" else model
