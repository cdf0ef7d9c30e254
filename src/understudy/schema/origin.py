"""Where a fact comes from: public knowledge, or the private records themselves.

A schema is public, so each of its facts must be. A fact that was read from the records (by drafting
a schema from a table) is marked ``from-data``; fitting refuses it until its owner declares it public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from understudy.schema.problems import did_you_mean

__all__ = ["Origin", "OriginOfFacts", "facts_from_data", "normal_origin", "origin_to_plain"]

Origin: TypeAlias = Literal["public", "from-data"]
OriginOfFacts: TypeAlias = Origin | tuple[tuple[str, Origin], ...] | Mapping[str, Origin]

_ORIGINS = ("public", "from-data")


def normal_origin(
    origin: object, facts: Iterable[str]
) -> tuple[Origin | tuple[tuple[str, Origin], ...], list[str]]:
    """Return the origin in one form, and what is wrong with it.

    The form is ``"public"`` when every fact is, ``"from-data"`` when every fact is, and otherwise
    pairs of the facts that were read from data.

    Examples
    --------
    >>> normal_origin({"values": "from-data", "missing": "public"}, ("kind", "values", "missing"))
    ((('values', 'from-data'),), [])
    """
    known = tuple(facts)
    if origin == "public":
        return "public", []
    if origin == "from-data":
        return "from-data", []
    if isinstance(origin, tuple):
        pairs: dict[object, object] = {
            pair[0]: pair[1] for pair in origin if isinstance(pair, tuple) and len(pair) == 2
        }
        if len(pairs) != len(origin):
            return "from-data", ["origin: write pairs of a fact and its origin, each fact once"]
    elif isinstance(origin, Mapping):
        pairs = dict(origin)
    else:
        return "from-data", ["origin: write 'public', 'from-data', or one of them for each fact"]
    problems = []
    for fact, source in pairs.items():
        if fact not in known:
            hint = did_you_mean(str(fact), known)
            problems.append(f"origin: no fact named {str(fact)!r}.{hint} Facts: {', '.join(known)}")
        elif source not in _ORIGINS:
            problems.append(f"origin.{fact}: write 'public' or 'from-data'")
    private = tuple(fact for fact in known if pairs.get(fact) == "from-data")
    if not private:
        return "public", problems
    if len(private) == len(known):
        return "from-data", problems
    return tuple((fact, "from-data") for fact in private), problems


def facts_from_data(origin: OriginOfFacts, facts: Iterable[str]) -> tuple[str, ...]:
    """Return the facts that were read from data, given a normal origin."""
    if origin == "public":
        return ()
    if origin == "from-data":
        return tuple(facts)
    private = dict(origin)
    return tuple(fact for fact in facts if private.get(fact) == "from-data")


def origin_to_plain(origin: OriginOfFacts) -> str | dict[str, str]:
    """Return a normal origin as a file holds it."""
    return origin if isinstance(origin, str) else dict(origin)
