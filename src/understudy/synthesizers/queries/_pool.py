"""What the query-driven mechanisms share: the questions they may ask, and the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.curator import Curator, Noise, noise_for, noise_within
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Query, QuerySource, Statistic, read_queries
from understudy.privacy import Accounting, Unit
from understudy.schema import Domain, Schema
from understudy.synthesizers._allocation import rows_noise
from understudy.synthesizers._options import refuse
from understudy.synthesizers.base import fixed_total

TOTAL_SHARE = 0.02
"""Share of the budget that measures the number of rows when it is private."""


def own_queries(
    schema: Schema, source: QuerySource, too_few: Callable[[int], list[str]] = lambda _: []
) -> list[Query]:
    """Return the questions a user gave, checked against the schema; refuse those that no record can change.

    ``too_few`` says what is wrong with so many of them.
    """
    queries = read_queries(schema, source)
    if not any(query.reach > 0 for query in queries):
        raise BudgetError("Every query is zero for every record: there is nothing to learn from them.")
    refuse(too_few(len(queries)))
    return queries


def fewer_than(iterations: int | None, pool: int | None) -> list[str]:
    """Find fewer queries than iterations, which paper Births (4.7.2) excludes too; what is not known is not wrong."""
    if iterations is None or pool is None or iterations <= pool:
        return []
    return [
        f"num_query ({pool}) must not be smaller than num_iterations ({iterations}): some iterations would "
        "pay to ask again what is known already. Use more queries or fewer iterations."
    ]


def require_narrow(domain: Domain, allowed: int, *, does: str, option: str) -> None:
    """Refuse a column that has by itself more cells than a mechanism can hold."""
    for name, size in zip(domain.names, domain.sizes, strict=True):
        if size > allowed:
            raise DomainTooLarge(
                f"The column {name!r} alone has {size:,} codes; {does} at most {allowed:,} cells. Use coarser bins, or "
                f"raise {option}.",
                cells=size,
                allowed=allowed,
            )


def plain_queries(source: QuerySource | None) -> Any:
    """Return queries as plain values for a model file."""
    if source is None or isinstance(source, str | Path):
        return None if source is None else str(source)
    return [dict(item) if isinstance(item, Mapping) else item.to_plain() for item in source]


def query_count(source: QuerySource | None, otherwise: int) -> int | None:
    """Return how many queries there are, as far as it can be told without the schema."""
    if source is None:
        return otherwise
    if isinstance(source, str | Path) or any(isinstance(item, Mapping) for item in source):
        return None
    return len(source)


def answer_noise(accounting: Accounting, cost: float, sensitivity: float) -> Noise:
    """Return the noise on one answer that costs at most ``cost``: Laplace if pure, Gaussian otherwise."""
    return noise_within(accounting, cost, l1=sensitivity, l2=sensitivity)


def rows_of(curator: Curator) -> tuple[float, list[Statistic]]:
    """Return the number of rows to scale answers with: known, or measured with a small share of the budget.

    Privacy
    -------
    In: private. Out: releasable. One unit moves the number of rows by at most its ``max_rows``.
    """
    known = fixed_total(curator)
    if known is not None:
        return known, []
    noise = rows_noise(curator.accounting, curator.unit, curator.remaining * TOTAL_SHARE)
    told = curator.measure(curator.counts(()), noise=noise, purpose="measure the number of rows")
    return max(1.0, float(told.values)), [Statistic("number of rows", told.values, noise.kind, noise.scale)]


def reach_of(queries: Sequence[Query], unit: Unit) -> float:
    """Return the most that one unit can move any of the answers, in rows."""
    return float(unit.max_rows * max(query.reach for query in queries))


def default_rounds(accounting: Accounting, unit: Unit, total: float, columns: int, rows: float | None) -> int:
    """Return how many marginals to measure: more the smaller the noise is beside the number of rows.

    One marginal measured with the whole cost would have noise of some scale. Rounds per column grow with the square root
    of rows over scale, or with the cube root for Laplace noise, whose scale grows faster with the number of rounds. The
    rule was found on tables that are not among the benchmarks of paper AIM. An unknown number of rows counts as 10,000.

    Examples
    --------
    >>> from understudy.privacy import PURE
    >>> [default_rounds(PURE, Unit.add_remove(), epsilon, 10, 50_000.0) for epsilon in (0.01, 1.0, 100.0)]
    [5, 15, 60]
    """
    clear = (10_000.0 if rows is None else rows) / noise_for(accounting, unit, total).scale / 1_700
    per_column = 0.5 * clear ** (1 / 3) if accounting.name == "pure" else clear**0.5
    return max(1, round(columns * min(6.0, max(0.5, float(per_column)))))
