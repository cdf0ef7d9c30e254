"""What conversations that are paid for at once have in common: one-way marginals measured beside them, and records as codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator.curator import Curator
from understudy.curator.encoding import Layout
from understudy.curator.seal import Sealed
from understudy.data import Table
from understudy.errors import BudgetError
from understudy.marginals import Measurement
from understudy.privacy import Noise

__all__ = ["Paid", "check_fit", "check_noises", "read_codes"]


class Paid(Sealed):
    """Something that was charged in full before it began. Holds records, so it can be neither copied nor shown.

    Privacy
    -------
    In: private. Out: noisy marginals, each column once, as charged by whoever opened it.
    """

    __slots__ = ("_domain", "_measured", "_noises", "_randomness", "_table")

    def __init__(self, curator: Curator, noises: Sequence[Noise]) -> None:
        self._randomness = curator._randomness
        self._table = curator._table
        self._domain = curator.domain
        self._noises = tuple(noises)
        self._measured = False

    def marginals(self) -> list[Measurement]:
        """Measure the one-way marginals, once.

        Privacy
        -------
        In: private. Out: releasable. One histogram per column with the noise that was charged when this was opened; a second
        request is refused.
        """
        if self._measured:
            raise BudgetError("The marginals that were paid for have been measured already.")
        self._measured = True
        names = self._domain.names if self._noises else ()
        exact = self._table.count_many([(name,) for name in names])
        return [
            Measurement(
                (name,),
                (counts + noise.draw(counts.shape, self._randomness)).astype(np.float64),
                noise.kind,
                noise.scale,
            )
            for name, counts, noise in zip(names, exact, self._noises, strict=True)
        ]


def check_noises(layout: Layout, noises: Sequence[Noise]) -> None:
    """Refuse noises that are neither one per column nor none."""
    if noises and len(noises) != len(layout.sizes):
        raise BudgetError("Beside it one marginal per column is measured, or none.")


def check_fit(curator: Curator, layout: Layout) -> None:
    """Refuse networks for other columns than the table has."""
    if layout.sizes != curator.domain.sizes:
        raise BudgetError("The network does not fit the columns of the table.")


def read_codes(table: Table) -> npt.NDArray[Any]:
    """Return all records as one array of codes. Private."""
    names = table.schema.names
    parts = [np.stack([chunk[name] for name in names], axis=1) for chunk in table.chunks()]
    kind = np.min_scalar_type(max(1, max(table.schema.domain.sizes) - 1))
    return np.concatenate([np.zeros((0, len(names)), dtype=kind), *(part.astype(kind) for part in parts)])
