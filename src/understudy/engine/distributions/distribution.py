"""Distributions that answer marginals by counting records of their own."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from understudy.errors import ModelFileError
from understudy.marginals import count_codes
from understudy.schema import Clique, Domain

# ----------------------------------------------------------------------------------------
# What a fitted distribution must be able to do, and how one is rebuilt from a model file.


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


@runtime_checkable
class Conditional(Protocol):
    """A distribution that can also answer under a condition, exactly.

    Others are asked by drawing from them and keeping the records that fit.
    """

    def restricted(self, columns: Clique, allowed: npt.NDArray[np.bool_]) -> Distribution | None:
        """Return the distribution of those records whose codes in some columns are allowed, or None where that takes too much memory.

        ``columns`` are in the order of the domain, ``allowed`` has one axis for each, and some records must be left. The total of the
        result is how many.
        """

    def sample_given(
        self, columns: Clique, codes: npt.NDArray[np.integer[Any]], generator: np.random.Generator
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]] | None:
        """Draw one record for each row of codes of some columns, and say which rows can occur; None where that takes too much memory.

        The records of rows that cannot occur are arbitrary.
        """


_KINDS = {
    "dense": ("understudy.engine.distributions.dense", "DenseTable"),
    "junction-tree": ("understudy.engine.graphical.model", "GraphicalModel"),
    "local-consistency": ("understudy.engine.graphical.model", "GraphicalModel"),
    "bayesian-network": ("understudy.engine.distributions.bayes", "BayesianNetwork"),
    "coarse-views": ("understudy.engine.distributions.coarse", "CoarseModel"),
    "grouped-table": ("understudy.engine.distributions.dense", "GroupedTable"),
    "gaussian-copula": ("understudy.mechanisms.parametric.copula.distribution", "GaussianCopula"),
    "sequential-regression": ("understudy.mechanisms.parametric.regression.distribution", "SequentialModel"),
    "patched-tree": ("understudy.engine.distributions.patched", "PatchedModel"),
    "product-mixture": ("understudy.engine.distributions.mixture", "ProductMixture"),
    "parametric-location": ("understudy.mechanisms.parametric.modips.location", "LocationModel"),
    "parametric-product": ("understudy.engine.distributions.product", "ProductModel"),
    "parametric-average": ("understudy.engine.distributions.product", "AveragedModel"),
    "parametric-draws": ("understudy.engine.distributions.product", "DrawnTables"),
    "parametric-loglinear": ("understudy.mechanisms.parametric.modips.loglinear", "LoglinearModel"),
    "parametric-slomag": ("understudy.mechanisms.parametric.modips.slomag", "SlomagModel"),
    "neural-generator": ("understudy.mechanisms.deep.distribution", "NeuralGenerator"),
    "released-records": ("understudy.engine.distributions.released", "ReleasedRecords"),
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
