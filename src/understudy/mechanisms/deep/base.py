"""What the two adversarial mechanisms share: options, the number of rows, batches, and what torch is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine.graphical.targets import estimate_total
from understudy.errors import BudgetError, MissingExtra
from understudy.marginals import Measurement, Statistic
from understudy.mechanisms.allocation import rows_noise
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer, planned
from understudy.mechanisms.deep.encoding import Layout
from understudy.mechanisms.options import at_least, one_of, positive, refuse, shares, up_to_one
from understudy.privacy import Budget, Noise, Unit
from understudy.schema import Schema

Floats = npt.NDArray[np.float64]

ROWS_SHARE = 0.02
"""Share of the budget that measures the number of rows when it is private."""
USUAL_BATCH = 500
WIDEST = 512
"""Most units of a hidden layer."""
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
            widths = given if isinstance(given, Iterable) else (given,)
            object.__setattr__(self, name, tuple(map(_whole, widths)))
        for field in fields(self):
            if field.type in ("int", "int | None"):
                object.__setattr__(self, field.name, _whole(getattr(self, field.name)))
        refuse(self._problems())

    def _problems(self) -> list[str]:
        """Return what is wrong with the options."""
        found = at_least(self, 1, "epochs", "embedding_dim") + at_least(self, 1, "batch_size", optional=True)
        found += at_least(self, 2, "max_modes") + at_least(self, 0, "public_seed")
        found += positive(self, "noise_multiplier", optional=True)
        found += up_to_one(self, "generator_lr", "discriminator_lr")
        found += at_least(self, 0, "generator_decay", "discriminator_decay", "marginal_weight")
        found += shares(self, "marginal_share") + one_of(self, "calibrate", (True, False))
        found += [
            f"{name} must be widths of 1 to {WIDEST} units, one per hidden layer."
            for name in ("generator_dim", "discriminator_dim")
            if not getattr(self, name)
            or not all(type(width) is int and 1 <= width <= WIDEST for width in getattr(self, name))
        ]
        if not re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?", str(self.device)):
            found.append(f"device ({self.device!r}) must be auto, cpu or cuda.")
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

    def trial(self) -> None:
        """Import torch, which is all there is to try: no kernel waits to be compiled."""
        try:
            import torch  # noqa: F401
        except (ImportError, OSError) as error:  # found, and broken
            raise MissingExtra(f"{self.name} needs torch, which cannot be imported here: {error}.") from None

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

    def _planned(self, schema: Schema, unit: Unit, budget: Budget, noise: Noise, notes: str) -> Plan:
        """Return a plan: one-way marginals with this noise, then what the notes say."""
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=self.accounting(budget, schema, unit).name,
            measurements=planned(schema.domain, [((name,), noise) for name in schema.names]),
            model_cells=generator_cells(self, self._layout(schema)),
            notes=(notes,),
        )

    # ------------------------------------------------------------------ fitting

    @abstractmethod
    def _trained(self, curator: Curator, pace: Pace) -> Trained:
        """Spend the allowance and return what was learnt."""

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        with few_threads(self._layout(curator.schema)):
            known = curator.rows.exact
            found = self._trained(curator, Pace(progress))
            total = self._total(found.rows, known, found.measurements)
            model = found.generator.distribution(curator.domain, total, calibrate=self.calibrate)
        progress("done", 1.0)
        return Fitted(model, found.measurements, statistics=found.statistics)

    def _rows(self, curator: Curator) -> tuple[int, list[Measurement]]:
        """Return the number of rows to plan with: public, or measured with a small share of the budget."""
        if curator.rows.number is not None:
            return curator.rows.number, []
        noise = rows_noise(curator.accounting, curator.unit, curator.remaining * ROWS_SHARE)
        rows_measured = curator.measure(curator.counts(()), noise=noise, purpose="measure the number of rows")
        return _rounded(max(1.0, float(rows_measured.values))), [rows_measured]

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
        return float(max(1, rows)) if known or not measured else estimate_total(measured)

    def _generator(self, layout: Layout, targets: Sequence[Floats]) -> Any:
        from understudy.mechanisms.deep.generator import Generator, device_named

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


def _whole(given: Any) -> Any:
    """Return a whole number as an ``int``, whatever it was written as, and anything else as it is."""
    whole = isinstance(given, Integral) or (isinstance(given, float) and given.is_integer())
    return int(given) if whole and not isinstance(given, bool) else given


def _rounded(rows: float) -> int:
    """Round a noisy number of rows to two digits: plans do not need more, and are reckoned once instead of again and again."""
    digits = 10 ** max(0, math.floor(math.log10(rows)) - 1)
    return int(round(rows / digits) * digits)


@contextmanager
def few_threads(layout: Layout) -> Iterator[None]:
    """Compute with one thread where the networks are small: threads that wait for each other cost more than they save.

    PyTorch has a pool of threads of its own, which is told apart; its number is put back at the end.
    """
    if layout.width > _SMALL:
        yield
        return
    from threadpoolctl import threadpool_limits

    torch = importlib.import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


class Pace:
    """Tells how far training has come, and goes on with the CPU where the GPU runs out of memory."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._fraction = progress, 0.05

    def at(self, done: int, of: int) -> None:
        """Say how many steps of how many are done, now and then."""
        if done % 20 == 0:
            self._fraction = 0.05 + 0.9 * done / of
            self._progress("training", self._fraction)

    def on_device(self, work: Callable[[], Any], spare: Sequence[Any]) -> Any:
        """Do one piece of public work; if the GPU runs out of memory, move everything to the CPU and do it again there."""
        import torch

        try:
            return work()
        except torch.cuda.OutOfMemoryError:
            self._progress("GPU out of memory: going on with the CPU", self._fraction)
            for item in spare:
                item.move_to_cpu()
            return work()


@dataclass(frozen=True, eq=False)
class Trained:
    """A generator, the number of rows that was planned with, and all that was released on the way."""

    generator: Any
    rows: int
    measurements: Sequence[Measurement]
    statistics: Sequence[Statistic]


def generator_cells(options: Adversarial, layout: Layout) -> int:
    """Return how many numbers a saved generator holds."""
    width, cells = options.embedding_dim + layout.conditions, 0
    for units in options.generator_dim:
        cells += (width + 1) * units
        width += units
    return cells + (width + 1) * layout.width
