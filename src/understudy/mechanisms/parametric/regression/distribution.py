"""Records drawn column by column, each from a regression on the columns before it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.engine.distributions.distribution import Simulated
from understudy.errors import ModelFileError, WorkloadError
from understudy.schema import Clique, Domain

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

FORMAT = 1


@dataclass(frozen=True, eq=False)
class TableStep:
    """A column drawn from a table of proportions for each combination of groups of earlier columns.

    Attributes
    ----------
    column
        The column.
    given
        Earlier columns, each with the group of each of its codes.
    proportions
        One row per combination of groups, one entry per code.
    """

    column: str
    given: tuple[tuple[str, Labels], ...]
    proportions: Array


@dataclass(frozen=True, eq=False)
class ClassStep:
    """A column drawn from a multinomial regression: code ``k`` has logit ``x . weights[:, k - 1]``, code 0 zero."""

    column: str
    weights: Array


@dataclass(frozen=True, eq=False)
class LineStep:
    """A column drawn from a linear regression with normal errors, cut into its codes.

    Attributes
    ----------
    column
        The column.
    coefficients
        Of the predictors, the constant first.
    deviation
        Standard deviation of the errors.
    edges
        Where each ordinary code begins and the last one ends, ascending; draws are limited to the range between the
        ends, which may be infinite.
    state
        Weights of a regression that says first whether the entry has an ordinary code (class 0) or one of the
        extra codes after them; ``None`` where there are no extra codes.
    """

    column: str
    coefficients: Array
    deviation: float
    edges: Array
    state: Array | None

    @property
    def values(self) -> int:
        """Number of ordinary codes."""
        return len(self.edges) - 1


Step = TableStep | ClassStep | LineStep


@dataclass(frozen=True, eq=False)
class SequentialModel(Simulated):
    """Regressions in a fixed order of the columns.

    Parameters
    ----------
    domain
        The columns.
    total
        Expected number of rows.
    steps
        One per column, in the order of drawing.
    features
        For each column the numbers that later regressions read from each of its codes, of shape (codes, numbers);
        predictors are a constant one and the numbers of all earlier columns, in the order of drawing.

    Examples
    --------
    >>> model = SequentialModel(
    ...     Domain(("a", "b"), (2, 2)), 8.0,
    ...     (TableStep("a", (), np.array([[0.25, 0.75]])), ClassStep("b", np.array([[-30.0], [60.0]]))),
    ...     {"a": np.array([[0.0], [1.0]]), "b": np.zeros((2, 0))},
    ... )
    >>> model.sample_codes(4, np.random.default_rng(0)).sum(axis=0)
    array([3, 3], dtype=uint64)
    """

    domain: Domain
    total: float
    steps: tuple[Step, ...]
    features: Mapping[str, Array]
    kind: str = "sequential-regression"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.total) and self.total > 0):
            raise WorkloadError(f"The total ({self.total}) must be positive and finite.")
        if sorted(step.column for step in self.steps) != sorted(self.domain.names):
            raise WorkloadError("A sequence of regressions needs one step for every column.")
        features = {}
        for name in self.domain.names:
            table = np.array(self.features[name], dtype=np.float64)
            if table.ndim != 2 or len(table) != self.domain.size(name) or not np.isfinite(table).all():
                raise WorkloadError(f"The predictors read from {name!r} must be numbers, one row per code.")
            features[name] = table
        object.__setattr__(self, "features", features)
        width, seen = 1, set[str]()
        for step in self.steps:
            self._check(step, width, seen)
            width += features[step.column].shape[1]
            seen.add(step.column)

    def _check(self, step: Step, width: int, seen: set[str]) -> None:
        """Refuse a step whose numbers do not fit its predictors."""
        size = self.domain.size(step.column)
        if isinstance(step, TableStep):
            cells = math.prod(int(labels.max()) + 1 for _, labels in step.given)
            known = all(
                name in seen and labels.shape == (self.domain.size(name),) for name, labels in step.given
            )
            fits = known and step.proportions.shape == (cells, size) and bool((step.proportions >= 0).all())
        elif isinstance(step, ClassStep):
            fits = step.weights.shape == (width, size - 1) and bool(np.isfinite(step.weights).all())
        else:
            extra = size - step.values
            state = extra == 0 if step.state is None else extra > 0 and step.state.shape == (width, extra)
            rising = bool((step.edges[1:] >= step.edges[:-1]).all()) and bool(step.edges[0] < step.edges[-1])
            fits = (
                state and rising and step.coefficients.shape == (width,) and step.deviation > 0
                and step.values > 0 and bool(np.isfinite(step.coefficients).all())
            )  # fmt: skip
        if not fits:
            raise WorkloadError(f"The regression of {step.column!r} does not fit the columns before it.")

    # ------------------------------------------------------------------ drawing

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw records column by column; the random numbers of each column are spread evenly over [0, 1)."""
        if n < 0:
            raise WorkloadError(f"The number of records ({n}) must not be negative.")
        codes = np.zeros((n, len(self.domain)), dtype=np.min_scalar_type(max(1, max(self.domain.sizes) - 1)))
        x = np.ones((n, 1))
        for step in self.steps:
            drawn = draw_step(step, x, codes, self.domain, generator)
            codes[:, self.domain.index(step.column)] = drawn
            x = np.concatenate([x, self.features[step.column][drawn]], axis=1)
        return codes

    # ------------------------------------------------------------------ answering

    def marginals(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return expected counts over each clique, counted on records drawn with a fixed seed."""
        return [self._counted(self.domain.canonical(clique)) for clique in cliques]

    # ------------------------------------------------------------------ files

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        listed: list[dict[str, Any]] = []
        for index, step in enumerate(self.steps):
            arrays[f"features-{index}"] = self.features[step.column]
            if isinstance(step, TableStep):
                arrays[f"proportions-{index}"] = step.proportions
                for place, (_, labels) in enumerate(step.given):
                    arrays[f"labels-{index}-{place}"] = labels
                listed.append(
                    {"kind": "table", "column": step.column, "given": [name for name, _ in step.given]}
                )
            elif isinstance(step, ClassStep):
                arrays[f"weights-{index}"] = step.weights
                listed.append({"kind": "classes", "column": step.column})
            else:
                arrays[f"coefficients-{index}"] = step.coefficients
                arrays[f"edges-{index}"] = step.edges
                if step.state is not None:
                    arrays[f"state-{index}"] = step.state
                listed.append({"kind": "line", "column": step.column, "deviation": step.deviation})
        return {"format": FORMAT, "total": self.total, "steps": listed}, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> SequentialModel:
        """Rebuild from the description and arrays of a model file."""
        if meta.get("format") != FORMAT:
            raise ModelFileError(
                f"Unknown regression format {meta.get('format')!r}; this version reads {FORMAT}."
            )
        try:
            steps: list[Step] = []
            for index, item in enumerate(meta["steps"]):
                column = str(item["column"])
                if item["kind"] == "table":
                    given = tuple(
                        (str(name), arrays[f"labels-{index}-{place}"])
                        for place, name in enumerate(item["given"])
                    )
                    steps.append(TableStep(column, given, arrays[f"proportions-{index}"]))
                elif item["kind"] == "classes":
                    steps.append(ClassStep(column, arrays[f"weights-{index}"]))
                else:
                    steps.append(
                        LineStep(
                            column,
                            arrays[f"coefficients-{index}"],
                            float(item["deviation"]),
                            arrays[f"edges-{index}"],
                            arrays.get(f"state-{index}"),
                        )
                    )
            features = {step.column: arrays[f"features-{index}"] for index, step in enumerate(steps)}
            return cls(domain, float(meta["total"]), tuple(steps), features)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"The model file is incomplete or damaged: {error}.") from None


def class_probabilities(x: Array, weights: Array) -> Array:
    """Return the probability of each class, the reference class first."""
    logits = np.concatenate([np.zeros((len(x), 1)), x @ weights], axis=1)
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    return np.asarray(logits / logits.sum(axis=1, keepdims=True))


def draw_step(
    step: Step, x: Array, codes: Codes, domain: Domain, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw one column for all records, from their predictors and the codes of the columns before."""
    n = len(x)
    uniform = _spread(n, generator)
    if isinstance(step, TableStep):
        cell = np.zeros(n, dtype=np.int64)
        for name, labels in step.given:
            cell = cell * (int(labels.max()) + 1) + labels[codes[:, domain.index(name)]]
        return _pick_rows(step.proportions, cell, uniform)
    if isinstance(step, ClassStep):
        return _pick(class_probabilities(x, step.weights), uniform)
    drawn = _pick_line(x @ step.coefficients, step.deviation, step.edges, uniform)
    if step.state is None:
        return drawn
    state = _pick(class_probabilities(x, step.state), _spread(n, generator))
    return np.where(state == 0, drawn, step.values + state - 1)


def _spread(n: int, generator: np.random.Generator) -> Array:
    """Return numbers spread evenly over [0, 1), in random order."""
    return np.asarray((generator.permutation(n) + generator.random(n)) / max(n, 1))


def _pick(probabilities: Array, uniform: Array) -> npt.NDArray[np.int64]:
    """Pick one entry of each row."""
    below = np.cumsum(probabilities, axis=1)[:, :-1] <= uniform[:, None]
    return np.asarray(below.sum(axis=1), dtype=np.int64)


def _pick_rows(proportions: Array, cell: npt.NDArray[np.int64], uniform: Array) -> npt.NDArray[np.int64]:
    """Pick an entry of the row that each record's cell names."""
    picked = np.zeros(len(cell), dtype=np.int64)
    for row in np.unique(cell):
        here = cell == row
        weights = proportions[row]
        total = float(weights.sum())
        running = np.cumsum(weights) / total if total > 0 else np.arange(1, len(weights) + 1) / len(weights)
        last = int(np.flatnonzero(weights)[-1]) if total > 0 else len(weights) - 1
        picked[here] = np.minimum(np.searchsorted(running, uniform[here], side="right"), last)
    return picked


def _pick_line(means: Array, deviation: float, edges: Array, uniform: Array) -> npt.NDArray[np.int64]:
    """Draw from normal distributions limited to the range of the edges, and return the code of each number."""
    values = line_values(means, deviation, float(edges[0]), float(edges[-1]), uniform)
    return np.asarray(np.searchsorted(edges[1:-1], values, side="right"), dtype=np.int64)


def line_values(means: Array, deviation: float, lowest: float, highest: float, uniform: Array) -> Array:
    """Turn uniform numbers into normal ones with given means, limited to a range that may be infinite."""
    from scipy.special import ndtr, ndtri

    low, high = (lowest - means) / deviation, (highest - means) / deviation
    mirrored = low > 0  # work in the lower tail, where the normal distribution function keeps its digits
    a, b = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    u = np.where(mirrored, 1 - uniform, uniform)
    below = ndtr(a)
    share = np.clip(below + u * (ndtr(b) - below), 1e-300, 1 - 1e-16)
    z = np.clip(ndtri(share), a, b)
    return np.asarray(means + deviation * np.where(mirrored, -z, z))
