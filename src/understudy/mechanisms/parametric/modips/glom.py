"""The saturated log-linear model: one multinomial over the full cross-tabulation (paper DIPS, 4.1 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy.engine import Distribution
from understudy.engine.distributions.product import Mixed
from understudy.errors import DomainTooLarge, WorkloadError
from understudy.marginals import Statistic
from understudy.mechanisms.parametric.features import ONE, indicator
from understudy.mechanisms.parametric.look import MomentBlock
from understudy.mechanisms.parametric.modips.gaussian import GaussianEvidence, pairs_of
from understudy.mechanisms.parametric.modips.location import LocationEvidence, LocationModel
from understudy.mechanisms.parametric.modips.models import Ask, AskCounts, AskMoments, Setting

# ----------------------------------------------------------------------------------------
# The general location model (GLOM): a table of categories, and normal numbers within each cell (paper DIPS, 4.3.1).

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
        self, setting: Setting, statistics: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the location model."""
        mixed = setting.mixed()
        heard = list(statistics)
        counts = _counts_in(mixed, heard.pop(0)) if _ask_counts(setting, mixed) is not None else None
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


def _counts_in(mixed: Mixed, statistics: Statistic) -> Statistic:
    if mixed.cells == 2 and statistics.values.size == 1:
        values = np.array([np.nan, float(statistics.values.ravel()[0])])
        return Statistic(statistics.name, values, statistics.noise, statistics.scale)
    return Statistic(statistics.name, statistics.values.ravel(), statistics.noise, statistics.scale)


def _merged(mixed: Mixed) -> dict[str, np.ndarray]:
    """Return the levels of those factors that merge codes."""
    return {factor.column: factor.labels for factor in mixed.factors if factor.levels < len(factor.labels)}


# ----------------------------------------------------------------------------------------
# The normal model: all columns are numbers with one mean and one covariance (paper DIPS, 4.2).


@dataclass(frozen=True)
class Normal(GeneralLocation):
    """A normal law for all columns, which must all be numbers or dates."""

    name: str = "normal"

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the number of rows where it is private, sums, and second moments."""
        others = [name for name in setting.domain.names if name not in setting.continuous]
        if others:
            raise WorkloadError(
                f"The model normal takes columns of numbers only; {', '.join(others)} {_are(others)} not. "
                "Use the models glom or slomag for mixed tables."
            )
        return super().ask(setting)


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


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
        self, setting: Setting, statistics: Sequence[Statistic], generator: np.random.Generator
    ) -> Distribution:
        """Return the table."""
        return super().learn(without_numbers(setting), statistics, generator)


def without_numbers(setting: Setting) -> Setting:
    """Return the setting with every column taken by its codes."""
    return replace(setting, continuous=())
