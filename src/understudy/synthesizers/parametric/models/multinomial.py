"""One multinomial per column, the columns independent of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.engine import Distribution
from understudy.engine.parametric_location import LocationEvidence, LocationModel
from understudy.engine.parametric_mixed import Factor, Mixed
from understudy.engine.parametric_parts import ProductModel
from understudy.marginals import Statistic
from understudy.synthesizers.parametric.models.base import Ask, AskCounts, Setting, subdomain


@dataclass(frozen=True)
class Multinomial:
    """One multinomial with a Dirichlet prior for each column; the columns are independent."""

    name: str = "multinomial"

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the counts of every column."""
        return tuple(AskCounts((name,), 1.0) for name in setting.domain.names)

    def cells(self, setting: Setting) -> int:
        """Return the number of codes of all columns."""
        return sum(setting.domain.sizes)

    def learn(
        self, setting: Setting, told: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the product of the columns' distributions."""
        parts = []
        for name, counts in zip(setting.domain.names, told, strict=True):
            inside = subdomain(setting.domain, [name])
            mixed = Mixed(inside, (Factor(name, np.arange(inside.sizes[0])),), ())
            alpha = setting.priors.cell(inside.sizes[0])
            evidence = LocationEvidence(counts, setting.rows, alpha, None, setting.aware)
            parts.append(LocationModel.learn(mixed, evidence, generator, parameters=setting.parameters))
        # the columns tell the number of rows with different certainty: noise grows with the number of codes
        certainty = np.array([1.0 / (counts.variance * counts.values.size) for counts in told])
        sums = np.array([float(counts.values.sum()) for counts in told])
        guess = float((certainty * sums).sum() / certainty.sum())
        total = float(setting.rows) if setting.rows is not None else guess
        return ProductModel(setting.domain, tuple(parts), max(1.0, total))
