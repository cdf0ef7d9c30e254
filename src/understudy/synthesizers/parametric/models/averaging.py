"""Model averaging: several models of one table, each with a share of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy.engine import Distribution
from understudy.engine.parametric_parts import AveragedModel
from understudy.errors import WorkloadError
from understudy.marginals import Statistic
from understudy.synthesizers.parametric.models.base import Ask, ParametricModel, Setting


@dataclass(frozen=True)
class Averaging:
    """Several models with plausibility weights, known beforehand or from other data.

    Each model's statistics get a share of the budget in proportion to its weight.
    """

    models: tuple[ParametricModel, ...]
    weights: tuple[float, ...]
    name: str = "average"

    def __post_init__(self) -> None:
        if not self.models or len(self.models) != len(self.weights) or min(self.weights) <= 0:
            raise WorkloadError("Averaging needs models, and one positive weight for each.")

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the questions of all models."""
        asked: list[Ask] = []
        for model, weight in zip(self.models, self.weights, strict=True):
            own = model.ask(setting)
            whole = sum(question.share for question in own)
            asked += [replace(question, share=question.share * weight / whole) for question in own]
        return tuple(asked)

    def cells(self, setting: Setting) -> int:
        """Return the numbers that all models hold."""
        return sum(model.cells(setting) for model in self.models)

    def learn(
        self, setting: Setting, told: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the weighted models."""
        heard, made = list(told), []
        for model in self.models:
            own = len(model.ask(setting))
            made.append(model.learn(setting, heard[:own], generator))
            heard = heard[own:]
        total = sum(self.weights)
        return AveragedModel(setting.domain, tuple(made), tuple(w / total for w in self.weights))
