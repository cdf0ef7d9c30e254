"""The generator network and its training in torch. Public through and through: it sees noisy marginals and public networks only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.mechanisms.deep.distribution import NeuralGenerator
from understudy.mechanisms.deep.encoding import Layout
from understudy.schema import Domain

Floats = npt.NDArray[np.float64]

Ints = npt.NDArray[np.int64]
Tensor = Any

_BETAS = (0.5, 0.9)
_TEMPERATURE = 0.5
_FOLDED = 4_096
_CALIBRATED = 8_192
_ROUNDS = 40


def device_named(name: str) -> Any:
    """Return the device to train on: CUDA where there is any, unless told otherwise."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


class Generator:
    """Residual layers with batch normalisation, as in CTGAN; the column of the condition is taken from the condition.

    Parameters
    ----------
    targets
        Noisy shares of the modes of each column: conditions are drawn from them and columns held to them.
    """

    def __init__(
        self,
        layout: Layout,
        targets: Sequence[Floats],
        *,
        latent: int,
        hidden: Sequence[int],
        learning_rate: float,
        decay: float,
        marginal_weight: float,
        device: Any,
        seed: int,
    ) -> None:
        self.layout, self.targets, self.latent = layout, list(targets), latent
        self.marginal_weight = marginal_weight
        self.device = device
        self._random = torch.Generator(device="cpu").manual_seed(seed)
        self._numbers = np.random.default_rng(seed)
        self.conditions = np.concatenate(self.targets) / len(self.targets)
        widths, width = [], latent + layout.conditions
        for units in hidden:
            widths.append((width, units))
            width += units
        widths.append((width, layout.width))
        self.layers: list[list[Tensor]] = []
        for place, shape in enumerate(widths):
            bound = 1 / math.sqrt(shape[0])
            matrix = (torch.rand(shape, generator=self._random) * 2 - 1) * bound
            layer = [matrix, torch.zeros(shape[1])]
            if place + 1 < len(widths):
                layer += [torch.ones(shape[1]), torch.zeros(shape[1])]
            self.layers.append(layer)
        start = np.concatenate([np.log(np.maximum(share, 1e-4)) for share in self.targets])
        self.layers[-1][1][: layout.conditions] = torch.from_numpy(start).float()
        self._options: dict[str, Any] = {"lr": learning_rate, "weight_decay": decay, "betas": _BETAS}
        self._begin()

    def _begin(self) -> None:
        """Put all parameters on the device and start their optimiser."""
        self.layers = [
            [part.detach().to(self.device).requires_grad_(True) for part in layer] for layer in self.layers
        ]
        parameters = [part for layer in self.layers for part in layer]
        self._optimiser = torch.optim.Adam(parameters, **self._options)

    def move_to_cpu(self) -> None:
        """Go on without the GPU, after it ran out of memory; the optimiser starts afresh."""
        self.device = torch.device("cpu")
        self._begin()

    def inputs(self, rows: int) -> tuple[Tensor, Ints]:
        """Draw latent numbers with the conditions behind them, and the places of these."""
        chosen = np.searchsorted(np.cumsum(self.conditions)[:-1], self._numbers.random(rows), side="right")
        condition = torch.zeros(rows, self.layout.conditions)
        condition[torch.arange(rows), torch.from_numpy(chosen)] = 1
        latent = torch.randn(rows, self.latent, generator=self._random)
        return torch.cat([latent, condition], dim=1).to(self.device), chosen

    def outputs(self, reached: Tensor) -> Tensor:
        """Return the last layer for given inputs."""
        for matrix, constants, scale, shift in self.layers[:-1]:
            sums = reached @ matrix + constants
            mean, variance = sums.mean(dim=0), sums.var(dim=0, unbiased=False)
            sums = (sums - mean) / torch.sqrt(variance + 1e-5) * scale + shift
            reached = torch.cat([torch.relu(sums), reached], dim=1)
        matrix, constants = self.layers[-1]
        return reached @ matrix + constants

    def records(self, rows: int) -> tuple[Tensor, Tensor, Ints, Ints]:
        """Make up records.

        Returns
        -------
        tuple
            Inputs for a discriminator that gradients pass through; average shares of the modes; the records as codes; the
            column of the condition of each.
        """
        given, chosen = self.inputs(rows)
        outputs = self.outputs(given)
        condition = given[:, self.latent :]
        column = np.searchsorted(self.layout.offsets, chosen, side="right") - 1
        uniform = torch.rand(rows, self.layout.conditions, generator=self._random).clamp_(1e-9, 1 - 1e-7)
        gumbel = -torch.log(-torch.log(uniform)).to(self.device)
        which = torch.from_numpy(column).to(self.device)
        parts, shares, codes = [], [], []
        for place in range(len(self.layout.sizes)):
            begin, end = int(self.layout.offsets[place]), int(self.layout.offsets[place + 1])
            logits = outputs[:, begin:end]
            forced = (which == place).unsqueeze(1)
            soft = torch.softmax((logits + gumbel[:, begin:end]) / _TEMPERATURE, dim=1)
            soft = torch.where(forced, condition[:, begin:end], soft)
            mode = soft.argmax(dim=1)
            hard = torch.zeros_like(soft).scatter_(1, mode.unsqueeze(1), 1.0)
            parts.append(hard - soft.detach() + soft)
            shares.append(
                torch.where(forced, condition[:, begin:end], torch.softmax(logits, dim=1)).mean(dim=0)
            )
            codes.append(mode.cpu().numpy())
        positions = torch.tanh(outputs[:, self.layout.conditions :])
        parts += [positions, condition]
        found = _codes_of(self.layout, np.stack(codes, axis=1), positions.detach().cpu().numpy())
        return torch.cat(parts, dim=1), torch.cat(shares), found, column

    def learn(self, rows: int, score: Callable[[Tensor], Tensor]) -> tuple[Ints, Ints]:
        """Take one step towards records with a low score, and return the made-up records and their conditions."""
        inputs, shares, codes, column = self.records(rows)
        loss = score(inputs)
        if self.marginal_weight:
            wanted = torch.from_numpy(np.concatenate(self.targets)).float().to(self.device)
            loss = loss - self.marginal_weight * (wanted * torch.log(shares + 1e-6)).sum()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()
        return codes, column

    def made_up(self, rows: int) -> tuple[Ints, Ints]:
        """Make up records without learning anything."""
        with torch.no_grad():
            _, _, codes, column = self.records(rows)
        return codes, column

    def distribution(self, domain: Domain, total: float, *, calibrate: bool) -> NeuralGenerator:
        """Return the generator as plain matrices, its columns held to the noisy marginals if asked for."""
        with torch.no_grad():
            layers = self._folded()
        model = NeuralGenerator(domain, total, self.latent, layers, self.layout.starts, self.conditions)
        return self._calibrated(model) if calibrate else model

    def _folded(self) -> tuple[tuple[Floats, Floats], ...]:
        """Return the layers with their batch normalisation, at the averages of many made-up records, folded in."""
        reached, _ = self.inputs(_FOLDED)
        found = []
        for matrix, constants, scale, shift in self.layers[:-1]:
            sums = reached @ matrix + constants
            mean, variance = sums.mean(dim=0), sums.var(dim=0, unbiased=False)
            factor = scale / torch.sqrt(variance + 1e-5)
            found.append((matrix * factor, (constants - mean) * factor + shift))
            reached = torch.cat([torch.relu((sums - mean) * factor + shift), reached], dim=1)
        found.append((self.layers[-1][0], self.layers[-1][1]))
        return tuple(
            (matrix.cpu().double().numpy(), constants.cpu().double().numpy()) for matrix, constants in found
        )

    def _calibrated(self, model: NeuralGenerator) -> NeuralGenerator:
        """Shift the outputs of each column until its average shares are the noisy ones."""
        latent, chosen = model.draw_inputs(_CALIBRATED, self._numbers)
        outputs = model.outputs(latent, chosen)
        shift = np.zeros(self.layout.conditions)
        offsets = self.layout.offsets
        for place, wanted in enumerate(self.targets):
            begin, end = int(offsets[place]), int(offsets[place + 1])
            free = outputs[(chosen < begin) | (chosen >= end), begin:end]
            if not len(free):
                continue
            goal = np.maximum(wanted, 1e-6)
            for _ in range(_ROUNDS):
                logits = free + shift[begin:end]
                logits = np.exp(logits - logits.max(axis=1, keepdims=True))
                average = (logits / logits.sum(axis=1, keepdims=True)).mean(axis=0)
                change = np.log(goal) - np.log(np.maximum(average, 1e-9))
                shift[begin:end] += np.clip(change, -3, 3)
        matrix, constants = model.layers[-1]
        moved = constants.copy()
        moved[: self.layout.conditions] += shift
        layers = (*model.layers[:-1], (matrix, moved))
        return NeuralGenerator(
            model.domain, model.total, model.latent, layers, model.starts, model.conditions
        )


def _codes_of(layout: Layout, modes: Ints, positions: npt.NDArray[Any]) -> Ints:
    """Return the codes of modes and positions in them."""
    codes = np.empty(modes.shape, dtype=np.int64)
    for column, first in enumerate(layout.starts):
        codes[:, column] = first[modes[:, column]]
        if column in layout.spread:
            lengths = np.diff(np.append(first, layout.sizes[column]))[modes[:, column]]
            share = (positions[:, layout.spread.index(column)].astype(np.float64) + 1) / 2
            codes[:, column] += np.minimum((share * lengths).astype(np.int64), lengths - 1)
    return codes
