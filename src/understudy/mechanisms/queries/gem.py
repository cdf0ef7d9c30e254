"""GEM: a generator network whose outputs are product distributions (Liu, Vietri and Wu 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from understudy.mechanisms.options import positive, refuse
from understudy.mechanisms.queries.product import (
    Adam,
    CellTarget,
    Layout,
    Singles,
    Target,
    calm_gradient,
    softmax,
    softmax_back,
)
from understudy.mechanisms.queries.relaxed import Learner, RelaxedProjection
from understudy.mechanisms.source import Paper, Source

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GEM(RelaxedProjection):
    """Train a small network, which turns noise into product distributions, on what it gets most wrong; repeat.

    A network of two hidden layers maps each of ``batch`` fixed points of a normal distribution to a probability for
    every code of every column. Its outputs together are a mixture of products. All columns are measured first;
    each round chooses a marginal (or a query), measures it, and trains the network on everything measured so far by Adam.
    At the end the weights of the last half of the final steps are averaged, as in the paper. The network needs NumPy alone.

    Parameters
    ----------
    workload
        The marginals that matter; all 3-way marginals by default. They and their parts may be measured.
    queries
        Linear queries of your own instead of marginals (see :func:`~understudy.marginals.query.read_queries`).
    rounds
        Number of adaptive rounds (``T`` in the paper); by default by the budget and the number of rows.
    per_round
        How many are chosen and measured in each round; one in the paper.
    one_way_share
        Share of the budget that measures all columns first.
    measure_share
        Share of each round's cost that measures; the rest chooses.
    calm
        How strongly outputs are kept from saying what was not measured; zero is the paper's loss.
    max_cells
        Largest marginal that may be measured.
    steps
        Training steps per round; the final fit makes four times as many.
    batch
        How many product distributions the network makes (``B`` in the paper).
    inputs
        Dimension of the noise that goes in.
    hidden
        Width of the hidden layers.
    rate
        Step size of Adam.
    public_seed
        Seed of the noise that goes in and of the weights to start from; privacy noise takes no seed.
    form
        ``improved``, or ``published``, the mechanism of Liu, Vietri and Wu with whole marginals, as paper AIM runs it: marginals of
        the workload are chosen by their error alone, half of each round's cost for choosing and half for measuring;
        nothing is measured first; absolute misfits. Its program has 10 ``rounds``.

    Privacy
    -------
    The looks are those of :class:`~understudy.mechanisms.queries.rap.RAP`: columns once, choices by the exponential
    mechanism with public weights and penalties, measurements at prices fixed before the first round. The network is
    trained on released answers only; it never sees a record. The published form measures the number of rows, where it is private, in place
    of the columns; its scores have no weights and no penalties, and the same sensitivity ``l1``.

    Examples
    --------
    >>> GEM(rounds=10, hidden=64).name
    'gem'
    """

    name: ClassVar[str] = "gem"
    summary: ClassVar[str] = (
        "a generator network of product distributions, trained on the worst-answered marginals"
    )
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on marginals; exponential mechanism for choices",
        papers={Paper.AIM: "Table 2 and footnote 7"},
        origin="Liu, Vietri and Wu 2021",
    )

    batch: int = 500
    inputs: int = 32
    hidden: int = 128
    rate: float = 0.003

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(positive(self, "rate"))

    def trial(self) -> GEM:
        """Return a small network that is trained for a few steps."""
        return GEM(rounds=2, steps=4, batch=16, hidden=8)

    def _counted(self) -> tuple[str, ...]:
        return (*super()._counted(), "batch", "inputs", "hidden")

    def _parts(self) -> int:
        return self.batch

    def _learner(self, layout: Layout, start: dict[str, Floats]) -> Learner:
        return Generator(
            layout,
            start,
            batch=self.batch,
            inputs=self.inputs,
            hidden=self.hidden,
            rate=self.rate,
            seed=self.public_seed,
            absolute=self._published,
        )


class Generator:
    """A network of two hidden layers with a shortcut, on fixed inputs.

    Parameters
    ----------
    layout
        The columns.
    start
        Margins that every output starts near: they are the bias of the last layer.
    batch, inputs, hidden, rate, seed
        As options of :class:`GEM`.
    absolute
        Whether misfits count by their size instead of their square.
    """

    def __init__(
        self,
        layout: Layout,
        start: dict[str, Floats],
        *,
        batch: int,
        inputs: int,
        hidden: int,
        rate: float,
        seed: int,
        absolute: bool = False,
    ) -> None:
        self.layout = layout
        self._absolute = absolute
        generator = np.random.default_rng(seed)
        wide = np.concatenate([start[name] for name in layout.domain.names])
        self._usual: Singles = wide.astype(np.float32)
        self._noise: Singles = generator.normal(size=(batch, inputs)).astype(np.float32)

        def weights(rows: int, columns: int, size: float) -> Singles:
            drawn: Floats = size / np.sqrt(rows) * generator.normal(size=(rows, columns))
            return drawn.astype(np.float32)

        self.parameters: list[Singles] = [
            weights(inputs, hidden, np.sqrt(2.0)),
            np.zeros(hidden, dtype=np.float32),
            weights(hidden, hidden, np.sqrt(2.0)),
            np.zeros(hidden, dtype=np.float32),
            weights(hidden, layout.width, 0.3),
            weights(inputs, layout.width, 0.3),
            np.log(wide).astype(np.float32),
        ]
        self._adam = Adam(self.parameters, rate=rate)
        self._average: list[Singles] | None = None

    def _forward(self, parameters: Sequence[Singles]) -> tuple[Singles, Singles, Singles]:
        """Return both hidden layers and the margins."""
        one, one_bias, two, two_bias, out, short, out_bias = parameters
        first = np.maximum(self._noise @ one + one_bias, np.float32(0))
        second = np.maximum(first @ two + two_bias, np.float32(0))
        return first, second, softmax(self.layout, second @ out + self._noise @ short + out_bias)

    def margins(self) -> Singles:
        """Return the probabilities of all outputs, the columns side by side."""
        return self._forward(self.parameters if self._average is None else self._average)[2]

    def gradients(
        self, targets: Sequence[Target | CellTarget], rows: float, *, calm: float
    ) -> tuple[float, list[Singles]]:
        """Return the loss and its gradient in every parameter."""
        first, second, margins = self._forward(self.parameters)
        loss, slope = calm_gradient(
            self.layout, margins, targets, rows, calm=calm, usual=self._usual, absolute=self._absolute
        )
        last = softmax_back(self.layout, margins, slope)
        _, _, two, _, out, _, _ = self.parameters
        middle = (last @ out.T) * (second > 0)
        early = (middle @ two.T) * (first > 0)
        return loss, [
            self._noise.T @ early,
            early.sum(axis=0),
            first.T @ middle,
            middle.sum(axis=0),
            second.T @ last,
            self._noise.T @ last,
            last.sum(axis=0),
        ]

    def fit(self, targets: Sequence[Target | CellTarget], rows: float, *, calm: float, steps: int) -> None:
        """Train for some steps; margins then come from the average of the weights of the last half of them."""
        sums = [np.zeros_like(array) for array in self.parameters]
        for step in range(steps):
            _, slopes = self.gradients(targets, rows, calm=calm)
            self._adam.step(slopes, done=step / steps)
            if 2 * step >= steps:
                for total, array in zip(sums, self.parameters, strict=True):
                    total += array
        number = np.float32(steps - (steps + 1) // 2)
        self._average = [total / number for total in sums] if number else None
