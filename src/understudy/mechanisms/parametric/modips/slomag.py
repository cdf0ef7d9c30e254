"""SLOMAG: normal numbers, then the categories one after another by logistic regression (paper DIPS, 4.3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.engine import Distribution
from understudy.engine.distributions.product import Mixed
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import Statistic
from understudy.mechanisms.parametric.features import ONE, Feature, indicator
from understudy.mechanisms.parametric.look import MomentBlock
from understudy.mechanisms.parametric.modips.models import Ask, AskMoments, Setting
from understudy.mechanisms.parametric.modips.slomag_model import SlomagEvidence, SlomagModel, terms_of

LARGEST = 400


@dataclass(frozen=True)
class SequentialLogistic:
    """Sequential logistic regressions with Gaussian margins.

    The statistic is the matrix of second moments of all predictors: the constant, the numbers and the indicators of
    every level. It holds the moments of the numbers and, for each regression, the sums of the predictors within
    each level, which are the sufficient statistics of its coefficients (the ``a`` and ``b`` of the paper's equation
    4.3). The paper instead adds noise to draws of the coefficients, with the sensitivity of an optimiser, which
    does not hold for draws.

    Parameters
    ----------
    order
        Categories in the order of the regressions; those not named follow in the order of the schema.
    """

    order: tuple[str, ...] = ()
    name: str = "slomag"

    def _mixed(self, setting: Setting) -> Mixed:
        unknown = [
            name for name in self.order if name not in setting.domain.names or name in setting.continuous
        ]
        if unknown:
            raise WorkloadError(f"order: {', '.join(unknown)} cannot be put in order; name categories only.")
        return setting.mixed(presence_first=True, order=self.order)

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the second moments of all predictors."""
        mixed = self._mixed(setting)
        terms = terms_of(mixed)
        if len(terms) > LARGEST:
            raise DomainTooLarge(
                f"slomag has {len(terms):,} predictors; at most {LARGEST:,} are allowed. Use coarser categories, "
                "fewer columns, or the model multinomial.",
                cells=len(terms) ** 2,
                allowed=LARGEST**2,
            )
        return (AskMoments(self._block(setting, mixed), 1.0),)

    def _block(self, setting: Setting, mixed: Mixed) -> MomentBlock:
        features: list[Feature] = []
        for kind, which, level in terms_of(mixed):
            if kind == "one":
                features.append(ONE)
            elif kind == "number":
                features.append(setting.standards[which].feature)
            else:
                factor = mixed.factors[which]
                codes = np.flatnonzero(factor.labels == level).tolist()
                features.append(indicator(factor.column, codes, len(factor.labels)))
        return MomentBlock.second("second moments of all predictors", features)

    def cells(self, setting: Setting) -> int:
        """Return the number of moments."""
        return len(terms_of(self._mixed(setting))) ** 2

    def learn(
        self, setting: Setting, told: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the sequence of regressions."""
        mixed = self._mixed(setting)
        block = self._block(setting, mixed)
        matrix = block.matrix(told[0].values * block.unit)[0]
        moments = Statistic(told[0].name, matrix, told[0].noise, told[0].scale)
        prior = setting.priors
        evidence = SlomagEvidence(
            moments, setting.rows, setting.aware, prior.deviation, prior.weight, prior.variance
        )
        return SlomagModel.learn(
            mixed, evidence, generator, parameters=setting.parameters, bounds=setting.bounds
        )
