"""The generator network and its training in torch. Public through and through: it sees noisy marginals and public networks only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.engine.distributions.distribution import Simulated
from understudy.errors import ModelFileError, WorkloadError
from understudy.mechanisms.deep.encoding import Layout
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# A generator network as a distribution: latent numbers and a condition in, independent columns out.
#
# The condition names a mode of one column. That column takes it; the others follow from the network.
#
# Given its latent numbers a record's columns are independent, so the network is a mixture of products over infinitely many
# parts. It is held as plain matrices and evaluated with NumPy: reading and sampling a model needs no deep-learning library.

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

FORMAT = 1
_LATENTS = 4_096
_BLOCK = 16_384
_MOST_TERMS = 20_000_000


@dataclass(frozen=True, eq=False)
class NeuralGenerator(Simulated):
    """Layers that turn latent numbers and a condition into probabilities of each column.

    Parameters
    ----------
    domain
        The columns.
    total
        Number of rows it stands for.
    latent
        Number of latent numbers, each standard normal.
    layers
        Matrix and constants of each layer. Hidden layers are rectified and put before their own input; the last one is linear.
    starts
        First code of each mode, by column: one output per mode, then one output for each column whose modes
        have several codes, whose hyperbolic tangent says where in the mode the code lies.
    conditions
        Probability with which each mode of each column is the condition.

    Examples
    --------
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> out = np.concatenate([np.zeros((1, 4)), 3 * np.eye(4)])
    >>> model = NeuralGenerator(domain, 10.0, 1, ((out, np.zeros(4)),), (np.arange(2), np.arange(2)), np.array([0.5, 0, 0, 0.5]))
    >>> model.marginals([("a",)])[0].round()
    array([7., 3.])
    >>> model.sample_codes(3, np.random.default_rng(0)).shape
    (3, 2)
    """

    domain: Domain
    total: float
    latent: int
    layers: tuple[tuple[Floats, Floats], ...]
    starts: tuple[npt.NDArray[np.int64], ...]
    conditions: Floats
    kind: str = "neural-generator"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.total) and self.total > 0):
            raise WorkloadError(f"The total ({self.total}) must be positive and finite.")
        if self.latent < 1 or not self.layers or len(self.starts) != len(self.domain):
            raise WorkloadError("A generator needs latent numbers, layers and the modes of every column.")
        starts = tuple(np.array(first, dtype=np.int64) for first in self.starts)
        for first, size in zip(starts, self.domain.sizes, strict=True):
            good = first.ndim == 1 and len(first) and first[0] == 0 and (np.diff(first) > 0).all()
            if not good or first[-1] >= size:
                raise WorkloadError("The modes of a column must be rising runs of its codes.")
        conditions = np.array(self.conditions, dtype=np.float64)
        modes = sum(len(first) for first in starts)
        if conditions.shape != (modes,) or not np.isfinite(conditions).all() or (conditions < 0).any():
            raise WorkloadError("A generator needs a probability for each condition.")
        if not conditions.sum() > 0:
            raise WorkloadError("Some condition must be possible.")
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "conditions", conditions / conditions.sum())
        layers, width = [], self.latent + modes
        for place, (matrix, constants) in enumerate(self.layers):
            pair = (np.array(matrix, dtype=np.float64), np.array(constants, dtype=np.float64))
            if pair[0].ndim != 2 or pair[0].shape[0] != width or pair[1].shape != pair[0].shape[1:]:
                raise WorkloadError("The layers of a generator do not fit each other.")
            if not all(np.isfinite(part).all() for part in pair):
                raise WorkloadError("The weights of a generator must be finite.")
            last = place + 1 == len(self.layers)
            width = pair[0].shape[1] + (0 if last else width)
            layers.append(pair)
        if width != modes + len(self._spread):
            raise WorkloadError("The last layer of a generator does not fit the columns.")
        object.__setattr__(self, "layers", tuple(layers))

    @cached_property
    def _spread(self) -> tuple[int, ...]:
        """Columns whose modes have several codes."""
        return tuple(
            i
            for i, (first, size) in enumerate(zip(self.starts, self.domain.sizes, strict=True))
            if len(first) < size
        )

    def outputs(self, latent: Floats, conditions: npt.NDArray[np.int64]) -> Floats:
        """Return the outputs of the last layer for latent numbers and the place of the condition of each record."""
        told = np.zeros((len(latent), len(self.conditions)))
        told[np.arange(len(latent)), conditions] = 1
        reached = np.concatenate([latent, told], axis=1)
        for matrix, constants in self.layers[:-1]:
            reached = np.concatenate([np.maximum(reached @ matrix + constants, 0), reached], axis=1)
        matrix, constants = self.layers[-1]
        return np.asarray(reached @ matrix + constants)

    def draw_inputs(self, n: int, generator: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw latent numbers and conditions."""
        latent = generator.standard_normal((n, self.latent))
        return latent, np.searchsorted(np.cumsum(self.conditions)[:-1], generator.random(n), side="right")

    def _columns(
        self, outputs: Floats, conditions: npt.NDArray[np.int64]
    ) -> list[tuple[Floats, npt.NDArray[np.int64]]]:
        """Return, by column, the probability of each mode and the code that each mode would give."""
        found = []
        modes = len(self.conditions)
        begin = 0
        for column, first in enumerate(self.starts):
            logits = outputs[:, begin : begin + len(first)]
            logits = np.exp(logits - logits.max(axis=1, keepdims=True))
            shares = logits / logits.sum(axis=1, keepdims=True)
            told = (conditions >= begin) & (conditions < begin + len(first))
            shares[told] = np.eye(len(first))[conditions[told] - begin]
            codes = np.broadcast_to(first, shares.shape)
            if column in self._spread:
                lengths = np.diff(np.append(first, self.domain.sizes[column]))
                place = (np.tanh(outputs[:, modes + self._spread.index(column)]) + 1) / 2
                codes = first + np.minimum((place[:, None] * lengths).astype(np.int64), lengths - 1)
            found.append((shares, codes))
            begin += len(first)
        return found

    def sample_codes(self, n: int, generator: np.random.Generator) -> Codes:
        """Draw ``n`` encoded records as an ``[n, columns]`` array."""
        kind = np.min_scalar_type(max(1, max(self.domain.sizes) - 1))
        drawn = np.zeros((n, len(self.domain)), dtype=kind)
        for start in range(0, n, _BLOCK):
            part = slice(start, min(n, start + _BLOCK))
            count = part.stop - start
            latent, conditions = self.draw_inputs(count, generator)
            columns = self._columns(self.outputs(latent, conditions), conditions)
            for column, (shares, codes) in enumerate(columns):
                chance = generator.random(count)[:, None]
                mode = (np.cumsum(shares, axis=1)[:, :-1] <= chance).sum(axis=1)
                drawn[part, column] = codes[np.arange(count), mode]
        return drawn

    @cached_property
    def _mixture(self) -> list[Floats]:
        """Probabilities of the codes of each column at fixed latent numbers, shared by all marginals."""
        generator = np.random.default_rng(0)
        found = []
        latent, conditions = self.draw_inputs(_LATENTS, generator)
        columns = self._columns(self.outputs(latent, conditions), conditions)
        for column, (shares, codes) in enumerate(columns):
            table = np.zeros((_LATENTS, self.domain.sizes[column]))
            table[np.arange(_LATENTS)[:, None], codes] = shares
            found.append(table)
        return found

    def marginals(self, cliques: Sequence[Clique]) -> list[Floats]:
        """Return expected counts over each clique: averages over fixed latent numbers, or over fixed records if it is large."""
        return [self._marginal(clique) for clique in cliques]

    def _marginal(self, clique: Clique) -> Floats:
        if not clique:
            return np.array(self.total)
        shape = self.domain.shape(clique)
        if math.prod(shape) > _MOST_TERMS // 64:
            return self._counted(clique)
        tables = [self._mixture[self.domain.index(name)] for name in clique]
        result = np.zeros(math.prod(shape)).reshape(-1, shape[-1])
        rows = max(1, _MOST_TERMS // max(1, len(result)))
        for start in range(0, _LATENTS, rows):
            product = np.ones((min(rows, _LATENTS - start), 1))
            for table in tables[:-1]:
                piece = table[start : start + rows]
                product = (product[:, :, None] * piece[:, None, :]).reshape(len(piece), -1)
            result += product.T @ tables[-1][start : start + rows]
        return np.asarray(result.reshape(shape) * (self.total / _LATENTS))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the description and arrays of the model file."""
        arrays: dict[str, npt.NDArray[Any]] = {"conditions": self.conditions}
        for place, (matrix, constants) in enumerate(self.layers):
            arrays[f"matrix-{place}"], arrays[f"constants-{place}"] = matrix, constants
        for place, first in enumerate(self.starts):
            arrays[f"starts-{place}"] = first
        meta = {"format": FORMAT, "total": self.total, "latent": self.latent, "layers": len(self.layers)}
        return meta, arrays

    @classmethod
    def from_arrays(
        cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> NeuralGenerator:
        """Rebuild from the description and arrays of a model file."""
        if meta.get("format") != FORMAT:
            raise ModelFileError("This version of Understudy does not know how the generator is stored.")
        layers = tuple(
            (arrays[f"matrix-{place}"], arrays[f"constants-{place}"]) for place in range(int(meta["layers"]))
        )
        starts = tuple(arrays[f"starts-{place}"] for place in range(len(domain)))
        return cls(domain, float(meta["total"]), int(meta["latent"]), layers, starts, arrays["conditions"])


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
        told = torch.zeros(rows, self.layout.conditions)
        told[torch.arange(rows), torch.from_numpy(chosen)] = 1
        latent = torch.randn(rows, self.latent, generator=self._random)
        return torch.cat([latent, told], dim=1).to(self.device), chosen

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
        told = given[:, self.latent :]
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
            soft = torch.where(forced, told[:, begin:end], soft)
            mode = soft.argmax(dim=1)
            hard = torch.zeros_like(soft).scatter_(1, mode.unsqueeze(1), 1.0)
            parts.append(hard - soft.detach() + soft)
            shares.append(torch.where(forced, told[:, begin:end], torch.softmax(logits, dim=1)).mean(dim=0))
            codes.append(mode.cpu().numpy())
        positions = torch.tanh(outputs[:, self.layout.conditions :])
        parts += [positions, told]
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
