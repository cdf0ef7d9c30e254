"""What the two adversarial mechanisms share: options, the number of rows, batches, and what torch is asked for."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Layout, noise_for
from understudy.errors import BudgetError, MissingExtra
from understudy.marginals import Measurement
from understudy.schema import Schema
from understudy.synthesizers.base import Synthesizer

Floats = npt.NDArray[np.float64]

ROWS_SHARE = 0.02
"""Share of the budget that measures the number of rows when it is private."""
USUAL_BATCH = 500
_FLOOR = 1e-3
_SMALL = 600


@dataclass(frozen=True, kw_only=True)
class Adversarial(Synthesizer):
    """Options of both mechanisms; each documents them in its own words."""

    epochs: int = 300
    batch_size: int | None = None
    generator_lr: float = 2e-4
    discriminator_lr: float = 2e-4
    generator_decay: float = 1e-6
    discriminator_decay: float = 1e-6
    embedding_dim: int = 128
    generator_dim: Sequence[int] = (256, 256)
    discriminator_dim: Sequence[int] = (128, 128)
    noise_multiplier: float | None = None
    loss: str = "cross_entropy"
    marginal_share: float = 0.1
    marginal_weight: float = 1.0
    calibrate: bool = True
    max_modes: int = 64
    device: str = "auto"
    public_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("generator_dim", "discriminator_dim"):
            given = getattr(self, name)
            widths = (given,) if isinstance(given, int) else tuple(int(width) for width in given)
            object.__setattr__(self, name, widths)
        problems = self._problems()
        if problems:
            raise BudgetError(" ".join(problems))

    def _problems(self) -> list[str]:
        """Return what is wrong with the options."""
        found = [
            f"{name} ({getattr(self, name)}) must be at least {least}."
            for name, least in (("epochs", 1), ("embedding_dim", 1), ("max_modes", 2), ("public_seed", 0))
            if getattr(self, name) < least
        ]
        if self.batch_size is not None and self.batch_size < 1:
            found.append(f"batch_size ({self.batch_size}) must be at least 1.")
        found += [
            f"{name} ({getattr(self, name)}) must be positive and at most 1."
            for name in ("generator_lr", "discriminator_lr")
            if not 0 < getattr(self, name) <= 1
        ]
        found += [
            f"{name} ({getattr(self, name)}) must be finite and not negative."
            for name in ("generator_decay", "discriminator_decay", "marginal_weight")
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0)
        ]
        for name in ("generator_dim", "discriminator_dim"):
            if not getattr(self, name) or not all(1 <= width <= 512 for width in getattr(self, name)):
                found.append(f"{name} must be widths of 1 to 512 units, one per hidden layer.")
        if self.noise_multiplier is not None and not (
            math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0
        ):
            found.append(f"noise_multiplier ({self.noise_multiplier}) must be positive.")
        if not re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?", self.device):
            found.append(f"device ({self.device!r}) must be auto, cpu or cuda.")
        if not 0 < self.marginal_share < 1:
            found.append(f"marginal_share ({self.marginal_share}) must lie between 0 and 1.")
        return found

    # ------------------------------------------------------------------ public facts

    def _require_torch(self) -> None:
        """Refuse to plan or fit without torch; models load and sample without it."""
        if importlib.util.find_spec("torch") is None:
            raise MissingExtra(
                f"{self.name} needs the optional extra: pip install 'understudy[deep]' (torch is not installed)."
            )
        if self.device.startswith("cuda"):
            import torch

            if not torch.cuda.is_available():
                raise BudgetError(
                    f"device ({self.device!r}) is not there: torch sees no GPU. Use auto or cpu."
                )

    def _layout(self, schema: Schema) -> Layout:
        return Layout.of(schema, max_modes=self.max_modes)

    def _batch(self, rows: int) -> int:
        """Return the expected number of rows in a batch: as told, or 500 and at most a tenth of the table."""
        if self.batch_size is None:
            return max(1, min(USUAL_BATCH, rows // 10))
        if self.batch_size > max(1, rows):
            raise BudgetError(
                f"batch_size ({self.batch_size}) is larger than the table of {max(0, rows)} rows, as far as their number "
                "is public or has been paid for. Use a smaller batch, or leave batch_size out."
            )
        return self.batch_size

    def _rounds(self, rows: int) -> int:
        """Return how many batches all epochs take."""
        return self.epochs * max(1, round(max(1, rows) / self._batch(rows)))

    # ------------------------------------------------------------------ fitting

    def _rows(self, curator: Curator) -> tuple[int, list[Measurement]]:
        """Return the number of rows to plan with: public, or measured with a small share of the budget."""
        if curator.known_rows is not None:
            return curator.known_rows, []
        noise = noise_for(curator.accounting, curator.unit, curator.remaining * ROWS_SHARE)
        told = curator.measure(curator.counts(()), noise=noise, purpose="measure the number of rows")
        return _rounded(max(1.0, float(told.values))), [told]

    @staticmethod
    def _shares(layout: Layout, measured: Sequence[Measurement]) -> list[Floats]:
        """Return the noisy shares of the modes of each column; no mode is thought impossible."""
        found = []
        for column, item in enumerate(measured):
            counts = np.maximum(np.asarray(item.values, dtype=np.float64), 0.0)
            modes = np.bincount(layout.mode_of(column), weights=counts, minlength=layout.modes[column])
            total = float(modes.sum())
            even = np.full(len(modes), 1 / len(modes))
            found.append((1 - _FLOOR) * (modes / total if total > 0 else even) + _FLOOR * even)
        return found

    @staticmethod
    def _total(rows: int, known: bool, measured: Sequence[Measurement]) -> float:
        """Return the number of rows the model stands for, by all that was measured."""
        if known or not measured:
            return float(max(1, rows))
        weights = [1 / (item.variance * item.values.size) for item in measured]
        sums = [float(item.values.sum()) for item in measured]
        return max(1.0, float(np.average(sums, weights=weights)))

    def _generator(self, layout: Layout, targets: Sequence[Floats]) -> Any:
        from understudy.synthesizers.deep._generator import Generator, device_named

        return Generator(
            layout,
            targets,
            latent=self.embedding_dim,
            hidden=tuple(self.generator_dim),
            learning_rate=self.generator_lr,
            decay=self.generator_decay,
            marginal_weight=self.marginal_weight,
            device=device_named(self.device),
            seed=self.public_seed,
        )


def _rounded(rows: float) -> int:
    """Round a noisy number of rows to two digits: plans do not need more, and are reckoned once instead of again and again."""
    digits = 10 ** max(0, math.floor(math.log10(rows)) - 1)
    return int(round(rows / digits) * digits)


@contextmanager
def few_threads(layout: Layout) -> Iterator[None]:
    """Compute with one thread where the networks are small: threads that wait for each other cost more than they save."""
    if layout.width > _SMALL or importlib.util.find_spec("threadpoolctl") is None:
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def on_device(work: Any, spare: Sequence[Any], tell: Any) -> Any:
    """Do one piece of work; if the GPU runs out of memory, move everything to the CPU and do it again there."""
    import torch

    try:
        return work()
    except torch.cuda.OutOfMemoryError:
        tell("GPU out of memory: going on with the CPU")
        for item in spare:
            item.move_to_cpu()
        return work()


def generator_cells(options: Adversarial, layout: Layout) -> int:
    """Return how many numbers a saved generator holds."""
    width, cells = options.embedding_dim + layout.conditions, 0
    for units in options.generator_dim:
        cells += (width + 1) * units
        width += units
    return cells + (width + 1) * layout.width
