"""Every acceptance criterion by kind. Adding one is a file here, a line below, and a row in the documentation.

Another installed package adds its criteria by entry points of the group ``understudy.criteria``; see CONTRIBUTING.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import get_args

from understudy.errors import MissingExtra, UnknownMethod
from understudy.release.criteria.aggregate import AverageMarginalConfig, TailMarginalConfig
from understudy.release.criteria.base import CriterionConfig
from understudy.release.criteria.custom import ShareConfig
from understudy.release.criteria.face import CombinationsConfig, RareConfig
from understudy.release.criteria.levels import (
    CompositionConfig,
    EventRatesConfig,
    MeanEventsConfig,
    TransitionsConfig,
)
from understudy.release.criteria.marginals import MaxMarginalConfig, RelativeMarginalConfig
from understudy.release.criteria.matching import FaithfulnessConfig
from understudy.release.criteria.means import MeansConfig
from understudy.release.criteria.medians import MediansConfig
from understudy.release.criteria.prediction import PredictionConfig
from understudy.release.criteria.regression import CoefficientsConfig
from understudy.schema.problems import did_you_mean

__all__ = ["OWN_KINDS", "criterion_kind", "criterion_kinds", "packages_of"]

_CRITERIA: tuple[type[CriterionConfig], ...] = (
    MaxMarginalConfig,
    AverageMarginalConfig,
    TailMarginalConfig,
    RelativeMarginalConfig,
    MeansConfig,
    MediansConfig,
    CoefficientsConfig,
    PredictionConfig,
    FaithfulnessConfig,
    ShareConfig,
    RareConfig,
    CombinationsConfig,
    MeanEventsConfig,
    EventRatesConfig,
    TransitionsConfig,
    CompositionConfig,
)


def _kind_of(config: type[CriterionConfig]) -> str:
    """Return the word for a criterion in specification files; empty if it does not narrow its kind to one word."""
    literals = get_args(config.model_fields["kind"].annotation)
    return str(literals[0]) if len(literals) == 1 else ""


_BY_KIND = {_kind_of(config): config for config in _CRITERIA}
OWN_KINDS = tuple(_BY_KIND)
"""The kinds that come with Understudy."""


@cache
def _outside() -> dict[str, EntryPoint]:
    """Return what other installed packages offer, from their metadata: nothing of theirs is imported until it is used.

    A kind that Understudy uses itself stays Understudy's.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group="understudy.criteria"), key=lambda point: point.value):
        if point.name not in _BY_KIND:
            found.setdefault(point.name, point)
    return found


def _package(point: EntryPoint) -> str:
    return "unknown" if point.dist is None else point.dist.name


def criterion_kinds() -> tuple[str, ...]:
    """Return the kind of every criterion: Understudy's own, then those of other installed packages.

    Examples
    --------
    >>> criterion_kinds()[0]
    'max-marginal-error'
    """
    return (*_BY_KIND, *_outside())


def criterion_kind(kind: str) -> type[CriterionConfig]:
    """Return the configuration of one kind of criterion.

    Raises
    ------
    UnknownMethod
        If there is none, with a suggestion, or if what a package registered is none.
    MissingExtra
        If the package that registered it cannot be imported.
    """
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    if kind not in _outside():
        known = criterion_kinds()
        raise UnknownMethod(
            f"No criterion of kind {kind!r}.{did_you_mean(kind, known)} Known: {', '.join(known)}."
        )
    point = _outside()[kind]
    try:
        config: object = point.load()
    except ImportError as error:
        raise MissingExtra(
            f"{kind} of the package {_package(point)!r} cannot be imported: {error}."
        ) from error
    except AttributeError:
        config = None
    if not (isinstance(config, type) and issubclass(config, CriterionConfig) and _kind_of(config) == kind):
        raise UnknownMethod(
            f"{kind!r} is registered as {point.value}, which is not a CriterionConfig with kind: Literal[{kind!r}]."
        )
    return config


def packages_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the other packages that some kinds of criterion come from, as far as they are known."""
    points = (_outside().get(kind) for kind in kinds)
    return tuple(
        dict.fromkeys(_package(point) for point in points if point is not None and point.dist is not None)
    )
