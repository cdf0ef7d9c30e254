"""What the trials of one configuration say."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import Any

from understudy.release._rehearsal_interval import mean_interval
from understudy.release._rehearsal_trial import Trial
from understudy.release.result import Configuration

__all__ = ["ConfigurationRehearsal"]


@dataclass(frozen=True, kw_only=True)
class ConfigurationRehearsal:
    """What the trials of one configuration say.

    Attributes
    ----------
    configuration, trials
        The configuration and its trials.
    confidence
        Confidence of the interval.
    """

    configuration: Configuration
    trials: tuple[Trial, ...]
    confidence: float = 0.95

    @cached_property
    def acceptance(self) -> float:
        """Estimated probability that an attempt with this configuration is accepted."""
        return fmean(trial.probability for trial in self.trials)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the probability; see `mean_interval`."""
        return mean_interval([trial.probability for trial in self.trials], confidence=self.confidence)

    @property
    def closest(self) -> dict[str, int]:
        """How often each criterion was the closest to failing, most often first."""
        return dict(Counter(trial.closest for trial in self.trials if trial.closest).most_common())

    @property
    def failures(self) -> dict[str, int]:
        """Why attempts ended without a candidate, and how often."""
        return dict(Counter(trial.failure for trial in self.trials if trial.failure).most_common())

    @property
    def median_slack(self) -> float | None:
        """Median over trials of the smallest slack, in records."""
        found = [trial.slack for trial in self.trials if trial.slack is not None]
        return median(found) if found else None

    @property
    def median_errors(self) -> dict[str, float | None]:
        """Median exact error by criterion; None where it is infinite."""
        names = dict.fromkeys(name for trial in self.trials for name in trial.errors)
        found: dict[str, float | None] = {}
        for name in names:
            values = [t.errors[name] for t in self.trials if name in t.errors]
            middle = median(math.inf if value is None else value for value in values)
            found[name] = middle if math.isfinite(middle) else None
        return found

    @property
    def median_slacks(self) -> dict[str, float]:
        """Median slack by criterion, in records."""
        names = dict.fromkeys(name for trial in self.trials for name in trial.slacks)
        return {
            name: median(trial.slacks[name] for trial in self.trials if name in trial.slacks)
            for name in names
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "configuration": self.configuration.to_dict(),
            "trials": len(self.trials),
            "acceptance": self.acceptance,
            "interval": list(self.interval),
            "closest": self.closest,
            "failures": self.failures,
            "median_slack": self.median_slack,
            "median_errors": self.median_errors,
            "median_slacks": self.median_slacks,
            "median_seconds": median(trial.seconds for trial in self.trials),
        }
