"""Distributions that answer marginals by counting records of their own."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from understudy.marginals import count_codes
from understudy.schema import Clique, Domain

__all__ = ["Simulated"]


class _Drawn(Protocol):
    """What a distribution must have for its records to be counted."""

    simulated_rows: ClassVar[int]
    simulated_seed: ClassVar[int]

    @property
    def domain(self) -> Domain: ...

    @property
    def total(self) -> float: ...

    def sample_codes(self, n: int, generator: np.random.Generator) -> npt.NDArray[Any]: ...

    @property
    def _simulated(self) -> npt.NDArray[Any]: ...


class Simulated:
    """Counts ``simulated_rows`` records that are drawn once, with a fixed seed: the same answers every time.

    Answers carry the sampling error of that many records.
    """

    simulated_rows: ClassVar[int] = 1 << 18
    simulated_seed: ClassVar[int] = 0

    @cached_property
    def _simulated(self: _Drawn) -> npt.NDArray[Any]:
        return self.sample_codes(self.simulated_rows, np.random.default_rng(self.simulated_seed))

    def _counted(self: _Drawn, clique: Clique) -> npt.NDArray[np.float64]:
        """Count the records over a clique and scale them to the total."""
        return count_codes(self.domain, self._simulated, clique) * (self.total / self.simulated_rows)
