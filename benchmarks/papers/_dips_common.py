"""What the studies of paper DIPS share: budgets, summaries of estimates and intervals, finished cells, pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.inference import Combined, combine
from understudy.report.lines import LinePanel, line_chart

Array = npt.NDArray[np.float64]
Record = dict[str, Any]

EPSILONS = tuple(math.exp(power) for power in range(-4, 5))
SETS, POSTERIOR_SETS, LARGE_SETS, LARGE_RATIO = 5, 50, 199, 20
"""Sets of the paper; posterior sets for the rule "full"; and large posterior sets for the percentile rule."""
RECOMMENDED = "posterior, percentile"


@dataclass(frozen=True)
class Job:
    """One scenario under one budget (none for what does not depend on it)."""

    study: str
    scenario: str
    epsilon: float | None
    repetitions: int
    seed: int

    @property
    def key(self) -> str:
        """What makes two jobs the same."""
        budget = "none" if self.epsilon is None else f"{self.epsilon:.6g}"
        return f"{self.study}|{self.scenario}|{budget}|{self.repetitions}|{self.seed}"

    def generator(self) -> np.random.Generator:
        """A generator of its own for every job, the same in every run."""
        letters = [ord(letter) for letter in self.key]
        return np.random.default_rng([self.seed, *letters])


def interval_of(combined: Combined) -> tuple[Array, Array, Array]:
    """Estimate and ends of the 95 % interval."""
    interval = combined.interval(confidence=0.95)
    return combined.estimate, interval.low, interval.high


def combined(q: Array, v: Array, rule: str, *, ratio: float = 1.0) -> tuple[Array, Array, Array]:
    """Combine sets along the second axis (repetitions first) by any rule, valid or not."""
    return interval_of(
        combine(np.moveaxis(q, 1, 0), np.moveaxis(v, 1, 0), rule=rule, size_ratio=ratio, unchecked=True)
    )


def single(q: Array, v: Array) -> tuple[Array, Array, Array]:
    """The ordinary interval of one analysis."""
    half = 1.959963984540054 * np.sqrt(v)
    return q, q - half, q + half


def summary(
    job: Job,
    method: str,
    parameter: str,
    result: tuple[Array, Array, Array],
    truth: npt.ArrayLike,
    scale: float = 1.0,
) -> Record:
    """Bias, RMSE, coverage and width of intervals; arrays may have several components after the repetitions.

    Several components (cell means, coefficients) share one record: coverage, width and squared error are averaged over them, and
    the bias is their mean absolute bias, because biases of different sign would cancel.
    """
    q, low, high = result
    true = np.asarray(truth, dtype=np.float64)
    error = (q - true) / scale
    covered = (low <= true) & (true <= high)
    bias = error.mean(axis=0)
    return {
        "study": job.study,
        "scenario": job.scenario,
        "epsilon": job.epsilon,
        "method": method,
        "parameter": parameter,
        "repetitions": job.repetitions,
        "bias": float(bias if bias.ndim == 0 else np.abs(bias).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": float(covered.mean()),
        "width": float(((high - low) / scale).mean()),
        "median_width": float(np.median((high - low) / scale)),
    }


def moments(values: Array) -> tuple[Array, Array, Array]:
    """Mean, variance and excess kurtosis along the last axis."""
    mean = values.mean(axis=-1)
    centred = values - mean[..., None]
    second = (centred**2).mean(axis=-1)
    fourth = (centred**4).mean(axis=-1)
    n = values.shape[-1]
    kurtosis = np.where(second > 0, fourth / np.where(second > 0, second**2, 1.0) - 3, 0.0)
    return mean, second * n / (n - 1), kurtosis


def variance_of_variance(variance: Array, kurtosis: Array, rows: int) -> Array:
    """What the paper takes as variance of a sample variance; never negative."""
    return variance**2 * np.maximum(2 / (rows - 1) + kurtosis / rows, 0.0)


def read_done(path: Path) -> dict[str, list[Record]]:
    """Finished jobs; a line that an interruption cut off is ignored."""
    done: dict[str, list[Record]] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                item = json.loads(line)
            except json.JSONDecodeError:
                continue
            done[item["key"]] = item["records"]
    return done


def run_jobs(
    jobs: Sequence[Job],
    work: Callable[[Job], list[Record]],
    path: Path,
    *,
    processes: int,
    say: Callable[[str], None],
) -> list[Record]:
    """Run what is not finished, at most two at a time, and keep each result as soon as it is there."""
    from joblib import Parallel, delayed

    path.parent.mkdir(parents=True, exist_ok=True)
    done = read_done(path)
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n")
    todo = [job for job in jobs if job.key not in done]
    runner = Parallel(n_jobs=min(2, processes), return_as="generator_unordered")
    for number, (key, records) in enumerate(runner(delayed(_timed)(work, job) for job in todo), start=1):
        done[key] = records
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"key": key, "records": records}) + "\n")
        if number % 10 == 0 or number == len(todo):
            say(f"study {jobs[0].study}: {number} of {len(todo)} jobs")
    return [record for job in jobs for record in done[job.key]]


def _timed(work: Callable[[Job], list[Record]], job: Job) -> tuple[str, list[Record]]:
    return job.key, work(job)


MEASURES: dict[str, tuple[str, Callable[[Record], float]]] = {
    "misses": ("share of 95 % intervals that miss (nominal .05)", lambda record: 1 - record["coverage"]),
    "bias": ("absolute bias", lambda record: abs(record["bias"])),
    "rmse": ("root mean squared error", lambda record: float(record["rmse"])),
    "width": ("median width of 95 % intervals", lambda record: float(record["median_width"])),
}
_SMALLEST = 1e-3
"""Smallest value in a picture, whose axes are logarithmic."""


def _panel(title: str, records: Sequence[Record], value_of: Callable[[Record], float]) -> LinePanel:
    """One measure of one parameter in one scenario over epsilon."""
    series: dict[str, list[tuple[float, float, float, float]]] = {}
    for item in records:
        value = max(value_of(item), _SMALLEST)
        point = (float(f"{item['epsilon']:.2g}"), value, value, value)
        series.setdefault(item["method"], []).append(point)
    return LinePanel(title, series)


def pictures(records: Sequence[Record], folder: Path, study: str, methods: Sequence[str]) -> list[Path]:
    """Draw each measure of each parameter over epsilon, one panel per scenario."""
    written = []
    shown = [item for item in records if item["epsilon"] is not None and item["method"] in methods]
    for parameter in dict.fromkeys(item["parameter"] for item in shown):
        mine = [item for item in shown if item["parameter"] == parameter]
        for measure, (label, value_of) in MEASURES.items():
            panels = [
                _panel(scenario, [item for item in mine if item["scenario"] == scenario], value_of)
                for scenario in dict.fromkeys(item["scenario"] for item in mine)
            ]
            path = folder / f"study{study}-{parameter}-{measure}.svg"
            title = f"Study {study}: {label}, {parameter}"
            path.write_text(line_chart(title, panels, x_label="epsilon", y_label=label), encoding="utf-8")
            written.append(path)
    return written


def overview(
    records: Sequence[Record], study: str, methods: Sequence[str], scenario: str, parameters: Sequence[str]
) -> str:
    """Draw every measure of some parameters in one scenario as one picture."""
    shown = [
        item
        for item in records
        if item["epsilon"] is not None and item["method"] in methods and item["scenario"] == scenario
    ]
    panels = [
        _panel(
            f"{parameter}: {'misses (nominal .05)' if measure == 'misses' else label}",
            [item for item in shown if item["parameter"] == parameter],
            value_of,
        )
        for parameter in parameters
        for measure, (label, value_of) in MEASURES.items()
    ]
    repetitions = shown[0]["repetitions"]
    title = f"Study {study} of paper DIPS, {scenario}, {repetitions:,} repetitions"
    return line_chart(title, panels, x_label="epsilon", y_label=f"see each panel; cut at {_SMALLEST:g}")


COLUMNS = (
    "study", "scenario", "method", "epsilon", "quantity", "repetitions", "bias", "rmse", "coverage", "width",
)  # fmt: skip


def result_rows(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """What a study found, as rows of :data:`COLUMNS`; ``width`` is the median width."""
    return [
        (
            item["study"],
            item["scenario"],
            item["method"],
            "none" if item["epsilon"] is None else float(item["epsilon"]),
            item["parameter"],
            item["repetitions"],
            *(float(item[name]) for name in ("bias", "rmse", "coverage", "median_width")),
        )
        for item in records
    ]
