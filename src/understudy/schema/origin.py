"""Where a fact comes from: public knowledge, a paid measurement, or the private records themselves.

A schema is public, so each of its facts must be. A fact that was read from the records (by drafting
a schema from a table) is marked ``from-data``; fitting refuses it until its owner declares it public. A fact that
was learnt under the budget (:mod:`understudy.discovery`) is marked ``measured``: it is released data, and fitting accepts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from understudy.schema.problems import did_you_mean

__all__ = ["Origin", "OriginOfFacts", "facts_from_data", "measured_facts", "normal_origin", "origin_to_plain"]

Origin: TypeAlias = Literal["public", "measured", "from-data"]
OriginOfFacts: TypeAlias = Origin | tuple[tuple[str, Origin], ...] | Mapping[str, Origin]

_ORIGINS = ("public", "measured", "from-data")
_NAMED = "'public', 'measured' or 'from-data'"


def normal_origin(
    origin: object, facts: Iterable[str]
) -> tuple[Origin | tuple[tuple[str, Origin], ...], list[str]]:
    """Return the origin in one form, and what is wrong with it.

    The form is one word when it holds for every fact (``"public"``, ``"measured"`` or ``"from-data"``), and otherwise
    pairs of the facts that are not public and their origin.

    Examples
    --------
    >>> normal_origin({"values": "from-data", "missing": "public"}, ("kind", "values", "missing"))
    ((('values', 'from-data'),), [])
    """
    known = tuple(facts)
    for word in _ORIGINS:
        if origin == word:
            return word, []  # type: ignore[return-value]
    if isinstance(origin, tuple):
        pairs: dict[object, object] = {
            pair[0]: pair[1] for pair in origin if isinstance(pair, tuple) and len(pair) == 2
        }
        if len(pairs) != len(origin):
            return "from-data", ["origin: write pairs of a fact and its origin, each fact once"]
    elif isinstance(origin, Mapping):
        pairs = dict(origin)
    else:
        return "from-data", [f"origin: write {_NAMED}, or one of them for each fact"]
    problems = []
    for fact, source in pairs.items():
        if fact not in known:
            hint = did_you_mean(str(fact), known)
            problems.append(f"origin: no fact named {str(fact)!r}.{hint} Facts: {', '.join(known)}")
        elif source not in _ORIGINS:
            problems.append(f"origin.{fact}: write {_NAMED}")
    stated: list[tuple[str, Origin]] = []
    for fact in known:
        source = pairs.get(fact)
        if source == "measured":
            stated.append((fact, "measured"))
        elif source == "from-data":
            stated.append((fact, "from-data"))
    sources = {source for _, source in stated}
    if not stated:
        return "public", problems
    if len(stated) == len(known) and len(sources) == 1:
        return sources.pop(), problems
    return tuple(stated), problems


def facts_from_data(origin: OriginOfFacts, facts: Iterable[str]) -> tuple[str, ...]:
    """Return the facts that were read from data, given a normal origin."""
    return _facts_of(origin, facts, "from-data")


def measured_facts(origin: OriginOfFacts, facts: Iterable[str]) -> tuple[str, ...]:
    """Return the facts that were learnt under the budget, given a normal origin.

    Examples
    --------
    >>> measured_facts((("values", "measured"),), ("kind", "values", "missing"))
    ('values',)
    """
    return _facts_of(origin, facts, "measured")


def _facts_of(origin: OriginOfFacts, facts: Iterable[str], source: Origin) -> tuple[str, ...]:
    if isinstance(origin, str):
        return tuple(facts) if origin == source else ()
    stated = dict(origin)
    return tuple(fact for fact in facts if stated.get(fact) == source)


def origin_to_plain(origin: OriginOfFacts) -> str | dict[str, str]:
    """Return a normal origin as a file holds it."""
    return origin if isinstance(origin, str) else dict(origin)
