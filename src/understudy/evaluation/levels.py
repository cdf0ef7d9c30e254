"""Two levels compared: entities and how many events they have, events with their entity, and each event with the one before.

What is compared are tables like any other: entities with their number of events, and events with what is known beside them. So distances are those of columns and pairs,
with the same meaning and the same thing to hold them against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from understudy.evaluation.comparison import MOST_CELLS, Comparison
from understudy.evaluation.distances import total_variation
from understudy.evaluation.result import Result
from understudy.evaluation.scores import Distance, Score, distance_score, distances
from understudy.schema.entities import EventColumns

__all__ = ["Levels", "level_measures", "level_scores"]

NUMBER, WITH_ENTITY, STEPS = (
    "distance of the number of events",
    "distance of a column of entities and one of events",
    "distance of a column in two successive events",
)


@dataclass(frozen=True, eq=False)
class Levels:
    """Two tables of two levels, side by side. Private.

    Attributes
    ----------
    parts
        What the columns of event records are.
    entities
        Every entity once: what is fixed about it, and its number of events.
    events
        Every event once, with what is fixed, the number of events of its entity and the event before.
    means
        The mean number of events of an entity, real and synthetic.
    astray
        The share of events whose entity is not there, real and synthetic.
    """

    parts: EventColumns
    entities: Comparison
    events: Comparison
    means: tuple[float, float] = field(repr=False)
    astray: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def steps(self) -> Comparison | None:
        """Return the events that follow another one; None where events have no order, or there are none."""
        if self.parts.order is None:
            return None
        place = self.events.domain.index(self.parts.place)
        real, made = (
            codes[codes[:, place] == 1] for codes in (self.events.real_codes, self.events.synthetic_codes)
        )
        return Comparison(self.events.schema, real, made) if len(real) and len(made) else None


def level_measures(levels: Levels, found: dict[str, tuple[Distance, ...]]) -> Iterator[Callable[[], Result]]:
    """Yield the measures of two levels, each still to be computed; the distances are kept in ``found`` by measure."""
    parts = levels.parts

    def measured(measure: str, both: Comparison, cliques: Sequence[tuple[str, ...]]) -> Callable[[], Result]:
        def compute() -> Result:
            found[measure] = distances(both, cliques)
            return Result(measure, {item.name: item.value for item in found[measure]}, better="lower")

        return compute

    yield measured(NUMBER, levels.entities, [(parts.number,)])
    yield lambda: Result(
        "difference of the mean number of events",
        {"absolute difference": abs(levels.means[0] - levels.means[1])},
        better="lower",
    )
    if parts.fixed:
        yield measured("distance of a column of entities", levels.entities, [(name,) for name in parts.fixed])
        yield measured(
            "distance of a column of entities and the number of events",
            levels.entities,
            [(name, parts.number) for name in parts.fixed],
        )
    if len(parts.fixed) > 1:
        yield measured(
            "distance of two columns of entities", levels.entities, list(combinations(parts.fixed, 2))
        )
    yield measured(
        "distance of a column of events and the number of events",
        levels.events,
        [(name, parts.number) for name in parts.events],
    )
    if parts.fixed:
        yield measured(
            WITH_ENTITY, levels.events, [(name, other) for name in parts.fixed for other in parts.events]
        )
        yield lambda: _association(levels)
    steps = levels.steps()
    if steps is not None:
        yield measured(STEPS, steps, [(before, name) for name, before in parts.before.items()])
    yield lambda: Result(
        "share of events without their entity",
        {"real": levels.astray[0], "synthetic": levels.astray[1]},
        better="lower",
    )


def _association(levels: Levels) -> Result:
    """Return by how much the bond of a column of entities with one of events is too strong or too weak.

    The bond is the total variation of the pair from two columns that have nothing to do with each other.
    """
    parts, domain = levels.parts, levels.events.domain
    found = {}
    for name in parts.fixed:
        for other in parts.events:
            if domain.cells((name, other)) > MOST_CELLS:
                continue
            bonds = []
            for table in levels.events.counts((name, other)):
                shares = table.reshape(domain.size(name), -1) / max(1, int(table.sum()))
                apart = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
                bonds.append(total_variation(shares, apart))
            found[f"{name} × {other}"] = abs(bonds[0] - bonds[1])
    return Result("difference of the bond of a column of entities and one of events", found, better="lower")


def level_scores(found: dict[str, tuple[Distance, ...]]) -> list[Score]:
    """Return what is said first about two levels."""
    return [
        distance_score(section, f"average {measure}", found[measure])
        for section, measure in (
            ("number of events", NUMBER),
            ("entities and events", WITH_ENTITY),
            ("successive events", STEPS),
        )
        if found.get(measure)
    ]
