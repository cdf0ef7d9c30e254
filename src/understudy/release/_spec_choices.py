"""Words of a specification that stand for workloads, projections and combinations of options."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from understudy.errors import WorkloadError
from understudy.marginals import Workload, parse_workload
from understudy.release._spec_criteria import column_sets
from understudy.release.projection import KAnonymity, MinimalOccurrence, NoProjection, Projection
from understudy.schema import Schema

__all__ = ["all_options", "projection_of", "workload_of"]


def workload_of(words: Any, schema: Schema, where: Path = Path()) -> Workload:
    """Return a workload from the words of a specification.

    A word or file name as on the command line (``all-2way``), or a mapping to weights, which add up, from such
    words, from columns or combinations of columns (``age, sex``), and from all combinations within some columns
    (``all-2way among age, sex, size``).

    Examples
    --------
    >>> from understudy.schema import Boolean
    >>> schema = Schema([Boolean("a"), Boolean("b")])
    >>> dict(workload_of({"all-1way": 1, "a, b": 2, "b": 0.5}, schema))
    {('a',): 1.0, ('b',): 1.5, ('a', 'b'): 2.0}
    """
    domain = schema.domain
    if isinstance(words, str):
        beside = where / words
        return parse_workload(domain, str(beside) if beside.is_file() else words)
    if not isinstance(words, Mapping) or not words:
        raise WorkloadError(
            "a workload is a word such as all-2way, a file, or a mapping from marginals to weights"
        )
    weights: dict[tuple[str, ...], float] = {}
    for name, weight in words.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not abs(weight) < 1e300:
            raise WorkloadError(f"the weight of {name!r} in a workload must be a number below 1e300")
        for clique, share in _marginals(str(name), schema):
            weights[clique] = weights.get(clique, 0.0) + share * float(weight)
    return Workload(domain, tuple(weights), tuple(weights.values()))


def _marginals(words: str, schema: Schema) -> list[tuple[tuple[str, ...], float]]:
    """Return the marginals that the words of one entry of a workload stand for, with their weights."""
    domain = schema.domain
    kind, among, rest = words.partition(" among ")
    columns = [part.strip() for part in (rest if among else words).split(",")]
    if among:
        part = domain.project(domain.canonical(columns))
        return list(parse_workload(part, kind.strip()))
    if all(column in domain for column in columns):
        return [(domain.canonical(columns), 1.0)]
    return list(parse_workload(domain, words))


def projection_of(plain: Mapping[str, Any], schema: Schema) -> Projection:
    """Return a projection from its words in a specification."""
    kind = plain.get("kind", "none")
    if kind == "minimal-occurrence":
        return MinimalOccurrence(min_count=plain["min_count"], algorithm=plain.get("algorithm", "direct"))
    if kind == "k-anonymity":
        return KAnonymity(k=plain["k"], column_sets=column_sets(plain, schema))
    return NoProjection()


def all_options(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of options, a list standing for alternatives.

    Examples
    --------
    >>> all_options({"norm": ["l1", "l2"], "max_model_mb": 20})
    [{'norm': 'l1', 'max_model_mb': 20}, {'norm': 'l2', 'max_model_mb': 20}]
    """
    choices = [value if isinstance(value, list) else [value] for value in options.values()]
    return [dict(zip(options, chosen, strict=True)) for chosen in product(*choices)]
