"""A small network on whole numbers: what one record contributes does not depend on the other records, to the last bit.

The sensitivity of a sum of clipped gradients is that of one record only if every other record contributes exactly the same in
both tables. In floating point that is false: libraries add up products in an order that depends on how many rows there are, and a
rectifier turns the last bit of a sum into a different gradient. Here all inputs, weights, activations and derivatives are rounded to grids so
coarse that **every product and every partial sum is a whole number below 2^53**, which floating point represents exactly, in
whatever order it adds. What comes between two products (rectifier, rounding, look-up) is done element by element. So:

- the contribution of a record is a function of that record and of public weights alone;
- it is a vector of whole numbers whose Euclidean norm is at most ``reach``, by construction (below);
- the sum over any set of records is exact.

Bits: inputs and activations have 12 binary places and are at most 16 (17 bits); weights have 16 places and are at most 8 (20 bits); derivatives have
20 places and are at most 4 (23 bits). With at most 2^9 = 512 terms: 17 + 20 + 9 = 46 and 23 + 20 + 9 = 52 bits.

Clipping. The gradient of layer ``l`` is the product of its input ``a`` (the constant 1 included) and its derivative ``d``, so its norm is
``|a| |d|`` and that of all layers together ``N = sqrt(sum |a|²|d|²)``. Derivatives are scaled by ``c`` and rounded; rounding moves
the contribution by at most ``e = sqrt(sum |a|² m)/2`` for ``m`` derivatives. With ``c = min(1, (reach (1 - 2^-30) - e)/N)`` the norm is at most
``cN + e <= reach``; the margin is far above the rounding errors of ``N``, ``e`` and ``c``, a few parts in 2^50. As ``|a| >= 1``, a scaled derivative is
at most ``reach / 2^12 < 2^17``, and a sum over 2^17 records of products stays below 2^(17 + 17 + 17) = 2^51.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from understudy.errors import BudgetError
from understudy.mechanisms.deep.encoding import Layout

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Weights = list[tuple[Floats, Floats]]
"""Matrix and constants of each layer."""

SLOPE = 0.25
"""Of the rectifier, left of zero."""
_INPUT, _WEIGHT, _DERIVATIVE = 12, 16, 20
_ONE = float(1 << _INPUT)
_REACH = 28
_BLOCK = 1 << 16
_LOGITS = 64
MAX_HIDDEN = 512


@dataclass(frozen=True, eq=False)
class Critic:
    """A network that tells real records from made-up ones. Public: its weights are given with each question.

    Parameters
    ----------
    layout
        Places of its inputs: a record, then a condition.
    hidden
        Widths of the hidden layers, at most 512 each.
    loss
        ``"cross_entropy"`` or ``"wasserstein"``.
    clip
        Largest norm of the gradient of one record.

    Examples
    --------
    >>> critic = Critic(Layout((2, 3), (np.arange(2), np.arange(3))), (4,), "cross_entropy", 1.0)
    >>> weights = critic.start(np.random.default_rng(0))
    >>> [matrix.shape for matrix, _ in weights]
    [(10, 4), (4, 1)]
    >>> critic.gradients(weights, np.array([[0, 2], [1, 1]]), np.array([0, 1]), real=True)[1].shape
    (5, 1)
    """

    layout: Layout
    hidden: tuple[int, ...]
    loss: str
    clip: float

    def __post_init__(self) -> None:
        problems = []
        if not self.hidden or not all(1 <= width <= MAX_HIDDEN for width in self.hidden):
            problems.append(f"A critic has hidden layers of 1 to {MAX_HIDDEN} units.")
        if self.loss not in ("cross_entropy", "wasserstein"):
            problems.append(f"loss ({self.loss!r}) must be cross_entropy or wasserstein.")
        if not (math.isfinite(self.clip) and 2.0**-20 <= self.clip <= 2.0**12):
            problems.append(
                f"The largest norm of a gradient ({self.clip}) must lie between 2**-20 and 2**12."
            )
        if len(self.layout.sizes) > MAX_HIDDEN - 2:
            problems.append(f"A critic takes at most {MAX_HIDDEN - 2} columns.")
        if problems:
            raise BudgetError(" ".join(problems))

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each layer."""
        widths = (self.layout.width + self.layout.conditions, *self.hidden, 1)
        return tuple(pairwise(widths))

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum((rows + 1) * columns for rows, columns in self.shapes)

    @cached_property
    def places(self) -> int:
        """Binary places of the gradients beyond those of the inputs."""
        return _REACH - _INPUT - math.floor(math.log2(self.clip))

    @cached_property
    def unit(self) -> float:
        """What one whole number of a gradient stands for."""
        return 2.0 ** -(_INPUT + self.places)

    @cached_property
    def reach(self) -> float:
        """Largest norm of what one record contributes, in whole numbers; between 2^28 and 2^29."""
        return self.clip / self.unit

    @cached_property
    def _slopes(self) -> Floats:
        """Derivative of the loss of a real record by the rounded output of the network, then of a made-up one."""
        logits = np.arange(-16 * _LOGITS, 16 * _LOGITS + 1) / _LOGITS
        if self.loss == "wasserstein":
            return np.stack([np.full(len(logits), -1.0), np.full(len(logits), 1.0)])
        share = 1 / (1 + np.exp(-logits))
        return np.stack([share - 1, share])

    def start(self, generator: np.random.Generator) -> Weights:
        """Draw weights to start from; public randomness."""
        return [
            (generator.uniform(-1, 1, shape) / math.sqrt(max(1, shape[0])), np.zeros(shape[1]))
            for shape in self.shapes
        ]

    def encode(self, codes: npt.NDArray[Any], conditions: Ints) -> sparse.csr_array:
        """Return the inputs of some records as whole numbers; ``conditions`` names one column of each record."""
        rows, columns = codes.shape
        places = self.layout.places(codes)
        shown = self.layout.width + np.take_along_axis(places, conditions.reshape(-1, 1), axis=1)
        numbers = np.rint(self.layout.positions(codes) * _ONE)
        spread = np.broadcast_to(
            self.layout.conditions + np.arange(numbers.shape[1]), (rows, numbers.shape[1])
        )
        values = np.concatenate([np.full((rows, columns + 1), _ONE), numbers], axis=1)
        where = np.concatenate([places, shown, spread], axis=1)
        pointers = np.arange(rows + 1) * where.shape[1]
        return sparse.csr_array((values.ravel(), where.ravel(), pointers), shape=(rows, self.shapes[0][0]))

    def gradients(
        self, weights: Weights, codes: npt.NDArray[Any], conditions: Ints, *, real: bool
    ) -> list[Ints]:
        """Return the sum of the clipped gradients of some records in whole numbers, the constants last in each layer.

        Privacy
        -------
        In: records, private if they are real. Out: exact, so private too; the curator adds noise. The contribution of
        one record has norm at most :attr:`reach`: see the head of this module. Weights of another shape, or that are not numbers,
        are refused: the bound is proved for these shapes, and what is not a number has no norm.
        """
        self._check(weights)
        rounded = [
            (
                np.rint(np.clip(matrix, -8, 8) * 2.0**_WEIGHT),
                np.rint(np.clip(constants, -8, 8) * 2.0**_WEIGHT),
            )
            for matrix, constants in weights
        ]
        total = [np.zeros((rows + 1, columns), dtype=np.int64) for rows, columns in self.shapes]
        for start in range(0, len(codes), _BLOCK):
            part = slice(start, start + _BLOCK)
            with np.errstate(all="ignore"):  # libraries set flags for padding they have read and not used
                found = self._block(rounded, codes[part], conditions[part], real)
            for layer, sums in enumerate(found):
                total[layer] += sums
        return total

    def _check(self, weights: Weights) -> None:
        given = [(np.shape(matrix), np.shape(constants)) for matrix, constants in weights]
        if given != [(shape, shape[1:]) for shape in self.shapes]:
            raise BudgetError("The weights do not have the shapes of this network.")
        if not all(
            np.isfinite(matrix).all() and np.isfinite(constants).all() for matrix, constants in weights
        ):
            raise BudgetError("The weights of a network must be finite numbers.")

    def _block(
        self, weights: Sequence[tuple[Floats, Floats]], codes: npt.NDArray[Any], conditions: Ints, real: bool
    ) -> list[Ints]:
        given = self.encode(codes, conditions)
        inputs: list[Any] = [given]
        sums: list[Floats] = []
        for layer, (matrix, constants) in enumerate(weights):
            reached = np.asarray(inputs[layer] @ matrix + _ONE * constants) * 2.0 ** -(_INPUT + _WEIGHT)
            sums.append(reached)
            if layer + 1 < len(weights):
                active = np.where(reached > 0, reached, SLOPE * reached)
                inputs.append(np.rint(np.clip(active, -16, 16) * _ONE))
        logits = np.clip(np.rint(sums[-1][:, 0] * _LOGITS), -16 * _LOGITS, 16 * _LOGITS).astype(np.int64)
        slopes = self._slopes[0 if real else 1][logits + 16 * _LOGITS]
        derivatives = [np.rint(slopes * 2.0**_DERIVATIVE)[:, None]]
        for layer in range(len(weights) - 1, 0, -1):
            back = (derivatives[0] @ weights[layer][0].T) * 2.0 ** -(_DERIVATIVE + _WEIGHT)
            back = np.where(sums[layer - 1] > 0, back, SLOPE * back)
            derivatives.insert(0, np.rint(np.clip(back, -4, 4) * 2.0**_DERIVATIVE))
        return self._clipped_sums(inputs, derivatives)

    def _clipped_sums(self, inputs: list[Any], derivatives: list[Floats]) -> list[Ints]:
        scale = 2.0 ** (self.places - _DERIVATIVE)
        norms = np.zeros(derivatives[0].shape[0])
        errors = np.zeros_like(norms)
        for given, derivative in zip(inputs, derivatives, strict=True):
            squares = (
                given.power(2).sum(axis=1) if isinstance(given, sparse.csr_array) else (given**2).sum(axis=1)
            )
            squares = np.asarray(squares).ravel() + _ONE**2
            norms += squares * (derivative**2).sum(axis=1)
            errors += squares * derivative.shape[1]
        room = np.maximum(self.reach * (1 - 2.0**-30) - np.sqrt(errors) / 2, 0.0)
        factor = np.minimum(1.0, room / np.maximum(np.sqrt(norms) * scale, 1.0)) * scale
        found = []
        for given, derivative in zip(inputs, derivatives, strict=True):
            kept = np.rint(derivative * factor[:, None])
            products = np.asarray(given.T @ kept)
            found.append(np.concatenate([products, _ONE * kept.sum(axis=0, keepdims=True)]).astype(np.int64))
        return found
