"""Public discriminators: the critic's weights as torch sees them, their optimiser, and the student of PATE."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.mechanisms.deep.critic import Critic

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Tensor = Any

_BETAS = (0.5, 0.9)
_CLAMP = 0.1
"""Largest weight of a Wasserstein critic, which must not be steep."""
_SLOPE = 0.25


class CriticOptimiser:
    """Adam on the public weights of a critic, from noisy gradients."""

    def __init__(self, critic: Critic, *, learning_rate: float, decay: float, seed: int) -> None:
        self.critic, self.rate, self.decay = critic, learning_rate, decay
        self.weights = critic.start(np.random.default_rng(seed))
        self._first = [np.zeros((rows + 1, columns)) for rows, columns in critic.shapes]
        self._second = [np.zeros((rows + 1, columns)) for rows, columns in critic.shapes]
        self._steps = 0

    def apply(self, gradients: list[Floats]) -> None:
        """Take one step down."""
        self._steps += 1
        one, two = _BETAS
        size = self.rate * math.sqrt(1 - two**self._steps) / (1 - one**self._steps)
        for place, gradient in enumerate(gradients):
            matrix, constants = self.weights[place]
            full = np.concatenate([matrix, constants[None]])
            gradient = gradient + self.decay * full
            first, second = self._first[place], self._second[place]
            first += (1 - one) * (gradient - first)
            second += (1 - two) * (gradient**2 - second)
            full -= size * first / (np.sqrt(second) + 1e-8)
            limit = _CLAMP if self.critic.loss == "wasserstein" else 8.0
            np.clip(full, -limit, limit, out=full)
            self.weights[place] = (full[:-1], full[-1])

    def score(self, inputs: Tensor) -> Tensor:
        """Return the loss of made-up records: how easily the critic tells them from real ones."""
        reached = inputs
        for place, (matrix, constants) in enumerate(self.weights):
            weight = torch.from_numpy(matrix).to(inputs.device, inputs.dtype)
            reached = reached @ weight + torch.from_numpy(constants).to(inputs.device, inputs.dtype)
            if place + 1 < len(self.weights):
                reached = torch.nn.functional.leaky_relu(reached, _SLOPE)
        if self.critic.loss == "wasserstein":
            return -reached.mean()
        return torch.nn.functional.softplus(-reached).mean()


class Student:
    """A discriminator that learns from made-up records and noisy shares of votes, and from nothing else."""

    def __init__(
        self,
        width: int,
        hidden: tuple[int, ...],
        *,
        learning_rate: float,
        decay: float,
        dragan: bool,
        device: Any,
        seed: int,
        kept: int,
    ) -> None:
        self.device, self.dragan, self.kept = device, dragan, kept
        self._random = torch.Generator(device="cpu").manual_seed(seed)
        widths = (width, *hidden, 1)
        self.layers: list[tuple[Tensor, Tensor]] = []
        for rows, columns in pairwise(widths):
            matrix = (torch.rand((rows, columns), generator=self._random) * 2 - 1) / math.sqrt(rows)
            self.layers.append((matrix, torch.zeros(columns)))
        self._options: dict[str, Any] = {"lr": learning_rate, "weight_decay": decay, "betas": _BETAS}
        self._inputs = torch.zeros((0, width))
        self._labels = torch.zeros(0)
        self._begin()

    def _begin(self) -> None:
        self.layers = [
            (a.detach().to(self.device).requires_grad_(True), b.detach().to(self.device).requires_grad_(True))
            for a, b in self.layers
        ]
        self._inputs, self._labels = self._inputs.to(self.device), self._labels.to(self.device)
        self._optimiser = torch.optim.Adam([part for layer in self.layers for part in layer], **self._options)

    def move_to_cpu(self) -> None:
        """Go on without the GPU."""
        self.device = torch.device("cpu")
        self._begin()

    def logits(self, inputs: Tensor) -> Tensor:
        """Return how real each record looks."""
        reached = inputs
        for place, (matrix, constants) in enumerate(self.layers):
            reached = reached @ matrix + constants
            if place + 1 < len(self.layers):
                reached = torch.nn.functional.leaky_relu(reached, 0.2)
        return reached[:, 0]

    def hear(self, inputs: npt.NDArray[np.float32], labels: Floats) -> None:
        """Remember answers; they are public, so they may be used again and again."""
        new = torch.from_numpy(inputs).to(self.device)
        wanted = torch.from_numpy(labels).to(self.device, torch.float32)
        self._inputs = torch.cat([self._inputs, new])[-self.kept :]
        self._labels = torch.cat([self._labels, wanted])[-self.kept :]

    def learn(self, rows: int) -> None:
        """Take one step on remembered answers.

        The loss ``softplus(s) - y s`` is cross-entropy and linear in the label, so noise on the label averages out.
        """
        chosen = torch.randint(len(self._labels), (rows,), generator=self._random).to(self.device)
        inputs, labels = self._inputs[chosen], self._labels[chosen]
        logits = self.logits(inputs)
        loss = (torch.nn.functional.softplus(logits) - labels * logits).mean()
        if self.dragan:
            near = inputs + 0.5 * inputs.std() * torch.rand(inputs.shape, generator=self._random).to(
                self.device
            )
            near = near.requires_grad_(True)
            (slope,) = torch.autograd.grad(self.logits(near).sum(), near, create_graph=True)
            loss = loss + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()

    def score(self, inputs: Tensor) -> Tensor:
        """Return the loss of made-up records: how easily the student tells them from real ones."""
        return torch.nn.functional.softplus(-self.logits(inputs)).mean()
