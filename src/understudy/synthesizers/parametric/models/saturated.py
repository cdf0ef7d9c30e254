"""The saturated log-linear model: one multinomial over the full cross-tabulation (paper DIPS, 4.1 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy.engine import Distribution
from understudy.marginals import Statistic
from understudy.synthesizers.parametric.models.base import Ask, Setting
from understudy.synthesizers.parametric.models.glom import GeneralLocation


@dataclass(frozen=True)
class Saturated(GeneralLocation):
    """The saturated log-linear model: one multinomial over the full cross-tabulation, numbers by their bins."""

    name: str = "saturated"

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the counts of the full table."""
        return super().ask(without_numbers(setting))

    def cells(self, setting: Setting) -> int:
        """Return the number of cells."""
        return super().cells(without_numbers(setting))

    def learn(
        self, setting: Setting, told: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the table."""
        return super().learn(without_numbers(setting), told, generator)


def without_numbers(setting: Setting) -> Setting:
    """Return the setting with every column taken by its codes."""
    return replace(setting, continuous=())
