"""The general location model (GLOM): a table of categories, and normal numbers within each cell (paper DIPS, 4.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.curator import ONE, MomentBlock, indicator
from understudy.engine import Distribution
from understudy.engine.parametric_gaussian import GaussianEvidence
from understudy.engine.parametric_location import LocationEvidence, LocationModel
from understudy.engine.parametric_mixed import Mixed
from understudy.engine.parametric_normal import pairs_of
from understudy.errors import DomainTooLarge
from understudy.marginals import Statistic
from understudy.synthesizers.parametric.models.base import Ask, AskCounts, AskMoments, Setting

LARGEST = 5_000_000


@dataclass(frozen=True)
class GeneralLocation:
    """The general location model (GLOM): a multinomial table, and normal numbers within each cell.

    The numbers have a mean of their own in each cell and one covariance. Whether a number is missing is one more
    axis of the table.

    Sufficient statistics: the counts of the cells, the sums of the numbers in each cell, and their second moments
    over all cells, a third of the budget each. (The paper gives each of its 1, d and d(d+1)/2 components an equal
    share, which leaves little for the counts when there are many numbers.)
    """

    name: str = "glom"
    max_cells: int = 20_000

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return counts, sums and second moments."""
        mixed = setting.mixed()
        if mixed.cells > min(self.max_cells, LARGEST):
            raise DomainTooLarge(
                f"The categories of {self.name} make {mixed.cells:,} cells; at most {self.max_cells:,} are allowed. "
                "Use fewer or coarser columns, or the models slomag, loglinear or multinomial.",
                cells=mixed.cells,
                allowed=self.max_cells,
            )
        asked: list[Ask] = []
        counts = _ask_counts(setting, mixed)
        if counts is not None:
            asked.append(counts)
        if mixed.numbers:
            features = tuple(standard.feature for standard in setting.standards)
            d = len(features)
            names = [feature.name for feature in features]
            sums = MomentBlock(
                f"sums of {', '.join(names)}" + (" in each cell" if mixed.factors else ""),
                (ONE, *features),
                tuple((0, place + 1) for place in range(d)),
                within=tuple(factor.column for factor in mixed.factors),
                labels=_merged(mixed),
            )
            rows, cols = pairs_of(d)
            second = MomentBlock(
                f"second moments of {', '.join(names)}",
                features,
                tuple(zip(rows.tolist(), cols.tolist(), strict=True)),
            )
            asked += [AskMoments(sums, 1.0), AskMoments(second, 1.0)]
        return tuple(asked)

    def cells(self, setting: Setting) -> int:
        """Return the number of probabilities and means."""
        mixed = setting.mixed()
        return mixed.cells * (1 + len(mixed.numbers))

    def learn(
        self, setting: Setting, told: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the location model."""
        mixed = setting.mixed()
        heard = list(told)
        counts = _counts_told(mixed, heard.pop(0)) if _ask_counts(setting, mixed) is not None else None
        gaussian = None
        if mixed.numbers:
            sums, second = heard
            prior = setting.priors
            gaussian = GaussianEvidence(
                Statistic("sums", sums.values.reshape(mixed.cells, -1), sums.noise, sums.scale),
                Statistic("second moments", second.values.ravel(), second.noise, second.scale),
                mixed.present,
                prior.weight,
                prior.variance,
            )
        evidence = LocationEvidence(
            counts, setting.rows, setting.priors.cell(mixed.cells), gaussian, setting.aware
        )
        return LocationModel.learn(
            mixed, evidence, generator, parameters=setting.parameters, bounds=setting.bounds
        )


def _ask_counts(setting: Setting, mixed: Mixed) -> Ask | None:
    """Ask for the counts of the cells, or for the number of rows where there is a single cell.

    Of two cells with a known sum one count is enough, and a replaced record moves it by one instead of moving
    both.
    """
    if mixed.cells == 1:
        return None if setting.rows is not None else AskCounts((), 0.25)
    clique = tuple(factor.column for factor in mixed.factors)
    merged = _merged(mixed)
    if mixed.cells == 2 and setting.rows_fixed and setting.rows is not None:
        (factor,) = (factor for factor in mixed.factors if factor.levels == 2)
        upper = np.flatnonzero(factor.labels == 1).tolist()
        feature = indicator(factor.column, upper, len(factor.labels))
        return AskMoments(MomentBlock(f"rows with {feature.name}", (ONE, feature), ((0, 1),)), 1.0)
    return AskCounts(clique, 1.0, merged)


def _counts_told(mixed: Mixed, told: Statistic) -> Statistic:
    if mixed.cells == 2 and told.values.size == 1:
        values = np.array([np.nan, float(told.values.ravel()[0])])
        return Statistic(told.name, values, told.noise, told.scale)
    return Statistic(told.name, told.values.ravel(), told.noise, told.scale)


def _merged(mixed: Mixed) -> dict[str, np.ndarray]:
    """Return the levels of those factors that merge codes."""
    return {factor.column: factor.labels for factor in mixed.factors if factor.levels < len(factor.labels)}
