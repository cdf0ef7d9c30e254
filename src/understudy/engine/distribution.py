"""What a fitted distribution must be able to do, and how one is rebuilt from a model file."""

from __future__ import annotations

import importlib
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


_KINDS = {
    "dense": ("understudy.engine.dense", "DenseTable"),
    "junction-tree": ("understudy.engine.model", "GraphicalModel"),
    "local-consistency": ("understudy.engine.model", "GraphicalModel"),
    "bayesian-network": ("understudy.engine.bayes", "BayesianNetwork"),
    "coarse-views": ("understudy.engine.coarse", "CoarseModel"),
    "grouped-table": ("understudy.engine.grouped", "GroupedTable"),
    "gaussian-copula": ("understudy.engine.copula", "GaussianCopula"),
    "sequential-regression": ("understudy.engine.sequential", "SequentialModel"),
    "product-mixture": ("understudy.engine.mixture", "ProductMixture"),
    "parametric-location": ("understudy.engine.parametric_location", "LocationModel"),
    "parametric-product": ("understudy.engine.parametric_parts", "ProductModel"),
    "parametric-average": ("understudy.engine.parametric_parts", "AveragedModel"),
    "parametric-draws": ("understudy.engine.parametric_parts", "DrawnTables"),
    "parametric-loglinear": ("understudy.engine.parametric_loglinear", "LoglinearModel"),
    "parametric-slomag": ("understudy.engine.parametric_slomag", "SlomagModel"),
    "neural-generator": ("understudy.engine.neural", "NeuralGenerator"),
    "released-records": ("understudy.engine.released", "ReleasedRecords"),
}
"""Where each kind of distribution lives: a class with ``from_arrays(domain, meta, arrays)``."""


def distribution_from_arrays(
    kind: str, domain: Domain, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> Distribution:
    """Rebuild a distribution of one of the known kinds from the content of a model file."""
    try:
        module, name = _KINDS[kind]
    except KeyError:
        raise ModelFileError(
            f"A model of kind {kind!r} is not known to this version of Understudy."
        ) from None
    rebuilt: Distribution = getattr(importlib.import_module(module), name).from_arrays(domain, meta, arrays)
    return rebuilt
