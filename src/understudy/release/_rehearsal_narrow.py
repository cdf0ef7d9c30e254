"""A specification with fewer configurations.

A specification describes its configurations as a product: transformations by column, methods with options,
projections. The configurations worth keeping need not form a product, so the largest one that holds nothing else
is looked for, greedily from each of them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from understudy.privacy import PureDP
from understudy.release.result import Configuration
from understudy.release.spec import Spec

__all__ = ["narrowed_plain", "product_within"]

Point = tuple[str, ...]
_SEEDS = 200


def product_within(points: Mapping[Point, float]) -> tuple[set[str], ...]:
    """Return a product of sets whose members are all among some points: as large as found, then as good.

    Parameters
    ----------
    points
        Each point (one word per dimension) with how good it is.

    Examples
    --------
    >>> points = {("a", "x"): 0.9, ("b", "x"): 0.8, ("b", "y"): 0.2, ("c", "y"): 0.1}
    >>> [sorted(words) for words in product_within(points)]
    [['a', 'b'], ['x']]
    """
    seeds = sorted(points, key=lambda point: -points[point])[:_SEEDS]
    best: tuple[set[str], ...] = ()
    best_worth = (0, 0.0)
    for seed in seeds:
        box = _grown(seed, points)
        members = list(product(*box))
        worth = (len(members), sum(points[member] for member in members) / len(members))
        if worth > best_worth:
            best, best_worth = box, worth
    return best


def _grown(seed: Point, points: Mapping[Point, float]) -> tuple[set[str], ...]:
    """Widen a point, one word of one dimension at a time, while every member is among the points."""
    box = tuple({word} for word in seed)
    choices = sorted(
        {(index, word) for point in points for index, word in enumerate(point)},
        key=lambda choice: -max(value for point, value in points.items() if point[choice[0]] == choice[1]),
    )
    for index, word in choices:
        if word in box[index]:
            continue
        added = product(*(({word} if place == index else words) for place, words in enumerate(box)))
        if all(member in points for member in added):
            box[index].add(word)
    return box


def narrowed_plain(
    spec: Spec, kept: Sequence[tuple[Configuration, float]], *, folder: Path
) -> tuple[dict[str, Any], tuple[Configuration, ...]]:
    """Return a specification of some configurations, for a file in a folder, and those that found no place in it.

    Every configuration of the result is among ``kept``.
    """
    points = {_point(configuration): value for configuration, value in kept}
    box = product_within(points)
    inside = [configuration for configuration, _ in kept if _inside(_point(configuration), box)]
    outside = tuple(configuration for configuration, _ in kept if not _inside(_point(configuration), box))
    plain: dict[str, Any] = json.loads(json.dumps(spec.plain, default=str))
    labels = list(zip(inside[0].transformations, box, strict=False))
    if spec.transformations:
        plain["transformations"] = {
            column: {
                label: facts for label, facts in plain["transformations"][column].items() if label in words
            }
            for column, words in labels
        }
    plain["synthesizers"] = _distinct(
        {"method": item.method, "options": _options(item, spec.where, folder)} for item in inside
    )
    if plain.get("projections"):
        plain["projections"] = _distinct(dict(item.projection) for item in inside)
    _lower_total(plain, spec)
    _move_paths(plain, spec.where, folder)
    return plain, outside


def _lower_total(plain: dict[str, Any], spec: Spec) -> None:
    """Take private regressions that are no longer needed out of a pure total, which must be used up."""
    if spec.shares.single or spec.form != "published" or not isinstance(spec.total, PureDP):
        return
    left = {name: len(alternatives) for name, alternatives in (plain.get("transformations") or {}).items()}
    needed = sum(
        float(item["epsilon"]) * math.prod(left.get(name, 1) for name in (item["target"], *item["features"]))
        for item in spec.criteria
        if item["kind"] == "regression-coefficients"
    )
    saved = math.fsum(spec.shares.baselines) - needed
    if saved > 0:
        plain["budget"]["total"]["epsilon"] = round(spec.total.epsilon - saved, 12)


def _point(configuration: Configuration) -> Point:
    method = json.dumps([configuration.method, configuration.options], sort_keys=True, default=str)
    projection = json.dumps(configuration.projection, sort_keys=True, default=str)
    return (*configuration.transformations.values(), method, projection)


def _inside(point: Point, box: tuple[set[str], ...]) -> bool:
    return all(word in words for word, words in zip(point, box, strict=True))


def _distinct(items: Any) -> list[dict[str, Any]]:
    found = {json.dumps(item, sort_keys=True, default=str): item for item in items}
    return [json.loads(text) for text in found]


def _options(configuration: Configuration, where: Path, folder: Path) -> dict[str, Any]:
    """Return options as alternatives of one; a value that is a list is wrapped, since lists mean alternatives."""
    options = {
        key: [value] if isinstance(value, list) else value for key, value in configuration.options.items()
    }
    workload = options.get("workload")
    if isinstance(workload, str) and (where / workload).is_file():
        options["workload"] = _moved(workload, where, folder)
    return options


def _move_paths(plain: dict[str, Any], where: Path, folder: Path) -> None:
    """Make paths relative to another folder."""
    for holder, key in ((plain, "schema"), (plain, "ledger"), (plain["source"], "path")):
        if isinstance(holder.get(key), str):
            holder[key] = _moved(holder[key], where, folder)
    output = plain.get("output")
    if isinstance(output, dict) and isinstance(output.get("folder"), str):
        output["folder"] = _moved(output["folder"], where, folder)


def _moved(path: str, where: Path, folder: Path) -> str:
    return path if Path(path).is_absolute() else os.path.relpath((where / path).absolute(), folder.absolute())
