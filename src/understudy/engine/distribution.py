"""What a fitted distribution must be able to do, and how one is rebuilt from a model file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from understudy.errors import ModelFileError
from understudy.schema import Clique, Domain


class Distribution(Protocol):
    """Something that answers marginals and draws records: the heart of a model."""

    @property
    def kind(self) -> str:
        """Name under which the model file stores it."""

    @property
    def domain(self) -> Domain:
        """The columns it speaks of."""

    @property
    def total(self) -> float:
        """Expected number of rows."""

    def marginals(self, cliques: Sequence[Clique]) -> list[npt.NDArray[np.float64]]:
        """Return expected counts over each clique."""

    def sample_codes(self, n: int, generator: np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Draw ``n`` encoded records as an ``[n, columns]`` array."""

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return a JSON-able description and the arrays it refers to."""


def distribution_from_arrays(
    kind: str, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> Distribution:
    """Rebuild a distribution of one of the known kinds from the content of a model file."""
    if kind == "dense":
        from understudy.engine.dense import DenseTable

        return DenseTable.from_arrays(domain, meta, arrays)
    if kind in ("junction-tree", "local-consistency"):
        from understudy.engine.model import GraphicalModel

        return GraphicalModel.from_arrays(domain, meta, arrays)
    if kind == "bayesian-network":
        from understudy.engine.bayes import BayesianNetwork

        return BayesianNetwork.from_arrays(domain, meta, arrays)
    if kind == "coarse-views":
        from understudy.engine.coarse import CoarseModel

        return CoarseModel.from_arrays(domain, meta, arrays)
    if kind == "released-records":
        from understudy.engine.released import ReleasedRecords

        return ReleasedRecords.from_arrays(domain, meta, arrays)
    raise ModelFileError(f"A model of kind {kind!r} is not known to this version of Understudy.")
