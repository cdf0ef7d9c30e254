"""What is wrong with the shape of a specification, in plain words and with places in the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ValidationError, create_model

from understudy.errors import UnderstudyError
from understudy.release.criteria.registry import OWN_KINDS, criterion_kind, criterion_kinds
from understudy.release.spec.model import SpecPart, json_schema, spec_part
from understudy.release.spec.parts import Part
from understudy.schema.problems import did_you_mean

__all__ = ["Shape", "place", "read_shape", "shape_problems"]

_PHRASES = {
    "string_type": "must be text (quote it in YAML)",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long",
    "too_short": "must hold at least one entry",
    "finite_number": "must be a finite number",
    "string_pattern_mismatch": "may hold letters (a to z), digits, spaces, dots, dashes and underscores",
}
_BOUNDS = {
    "greater_than": ("gt", "must be above"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be below"),
    "less_than_equal": ("le", "must be at most"),
}


@dataclass(frozen=True)
class Shape:
    """A specification file whose shape was checked.

    Attributes
    ----------
    file
        The file. Of a file with problems it has only the parts whose shape is right; others must not be asked for.
    problems
        What is wrong with keys and types, one sentence each.
    sound
        The parts that the file has and whose shape is right, by their keys.
    """

    file: SpecPart
    problems: tuple[str, ...]
    sound: frozenset[str]


def read_shape(plain: Mapping[str, Any]) -> Shape:
    """Check the shape of a file, and read what is right of it."""
    refused: dict[str, str] = {}
    kinds = set()
    for where, kind in _outside_kinds(plain):
        try:
            criterion_kind(kind)
            kinds.add(kind)
        except UnderstudyError as error:
            refused[where] = f"{where}: {error}"
    model = spec_part(kinds)
    try:
        return Shape(model.model_validate(dict(plain)), (), frozenset(map(str, plain)))
    except ValidationError as error:
        found = [dict(item) for item in error.errors(include_url=False, include_input=False)]
        others = [text for text in _message_for(found, plain) if text.split(":", 1)[0] not in refused]
        problems = [*refused.values(), *others]
    broken = {problem.split(":", 1)[0].split(".", 1)[0].split("[", 1)[0] for problem in problems}
    right: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key in plain and key not in broken:
            try:
                right[name] = getattr(_alone(model, name).model_validate({key: plain[key]}), name)
            except ValidationError:
                problems.append(
                    f"{key}: is none of the things that can stand here"
                )  # no alternative was meant
    aliases = {model.model_fields[name].alias or name for name in right}
    return Shape(model.model_construct(**right), tuple(problems), frozenset(aliases))


@cache
def _alone(model: type[SpecPart], name: str) -> type[Part]:
    """Return the model of one part of a file."""
    field = model.model_fields[name]
    return create_model(name, __base__=Part, **{name: (field.annotation, field)})  # type: ignore[call-overload, no-any-return]


def _outside_kinds(plain: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the kinds of criterion in a file that other packages register, with their places, whatever else the file holds."""
    acceptance = plain.get("acceptance")
    criteria = acceptance.get("criteria") if isinstance(acceptance, Mapping) else None
    kinds = [
        (index, item.get("kind")) for index, item in enumerate(criteria if isinstance(criteria, list) else ())
        if isinstance(item, Mapping)
    ]  # fmt: skip
    return [
        (place(("acceptance", "criteria", index)), kind)
        for index, kind in kinds
        if isinstance(kind, str) and kind not in OWN_KINDS and kind in criterion_kinds()
    ]


def shape_problems(plain: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with keys and types, one sentence each; empty if the shape is right.

    Examples
    --------
    >>> shape_problems({"nmae": "births"})[-1][:52]
    "the file: unknown key 'nmae'. Did you mean 'name'? K"
    """
    return list(read_shape(plain).problems)


def _message_for(items: Sequence[dict[str, Any]], plain: Mapping[str, Any]) -> list[str]:
    """Return one sentence per problem; what the alternatives of one place ask for is joined by "or"."""
    collected: dict[tuple[str, str], list[str]] = {}
    for item in items:
        path, tag, value = _walk(item["loc"], plain)
        if tag is not None and isinstance(value, Mapping) != _is_model(tag):
            continue  # the branch of a union that was not meant
        sentence = _sentence(item, path, plain)
        where = place(path[:-1] if item["type"] == "extra_forbidden" else path)
        same = collected.setdefault((where, "" if tag is not None else sentence), [])
        if sentence not in same:
            same.append(sentence)
    return [f"{where}: {' or '.join(sentences)}" for (where, _), sentences in collected.items()]


def _walk(loc: Sequence[Any], plain: Any) -> tuple[tuple[Any, ...], str | None, Any]:
    """Follow a pydantic location through the file; return its path, and the alternative tried of what value."""
    path: list[Any] = []
    tag: str | None = None
    tried: Any = None
    node = plain
    for index, part in enumerate(loc):
        inside = part in node if isinstance(node, Mapping) else False
        if isinstance(node, list) and isinstance(part, int):
            inside = part < len(node)
        if inside:
            node = node[part]
            path.append(part)
        elif index == len(loc) - 1 and isinstance(node, Mapping) and _is_key(part):
            break  # a key that is missing
        elif isinstance(part, str) and not _is_kind(node, part):
            tag, tried = part, node
    return tuple(path), tag, tried


def _is_key(part: Any) -> bool:
    return (
        isinstance(part, str)
        and re.fullmatch(r"[a-z_0-9]+", part) is not None
        and part not in {"str", "int", "float", "bool"}
    )


def _is_model(tag: str) -> bool:
    """Whether an alternative that was tried is a mapping: a model is named by its class, other types in small letters."""
    return re.match(r"_*[A-Z]", tag) is not None


def _is_kind(node: Any, part: str) -> bool:
    """Whether a part of a location is the discriminator of a mapping."""
    return isinstance(node, Mapping) and part in (node.get("kind"), node.get("rule"))


def _sentence(item: dict[str, Any], path: tuple[Any, ...], plain: Mapping[str, Any]) -> str:
    kind, context = item["type"], item.get("ctx", {})
    key = str(item["loc"][-1])
    if kind == "extra_forbidden":
        known = _known_keys(path[:-1], plain)
        return f"unknown key {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}"
    if kind == "missing":
        return f"the key {key!r} is missing"
    if kind == "union_tag_not_found":
        word = "rule" if "rule" in str(context.get("discriminator")) else "kind"
        return f"the key {word!r} is missing"
    if kind == "union_tag_invalid":
        given, expected = (
            str(context.get("tag", "")),
            re.findall(r"'([^']+)'", str(context.get("expected_tags", ""))),
        )
        word = str(context.get("discriminator", "kind")).strip("'")
        if set(OWN_KINDS) <= set(expected):  # of criteria other packages may add some
            expected = [*dict.fromkeys((*expected, *criterion_kinds()))]
        return f"no {word} named {given!r}.{did_you_mean(given, expected)} Known: {', '.join(expected)}"
    if kind == "literal_error":
        return f"write {context.get('expected', '')}"
    if kind in _BOUNDS:
        name, phrase = _BOUNDS[kind]
        return f"{phrase} {context.get(name)}"
    return _PHRASES.get(kind, str(item["msg"]))


@cache
def _whole() -> dict[str, Any]:
    """Return the JSON Schema of specifications, made once; nobody changes it."""
    return json_schema()


def _known_keys(path: tuple[Any, ...], plain: Any) -> list[str]:
    """Return the keys the JSON Schema knows at a place."""
    whole = _whole()
    node: Any = whole
    value: Any = plain
    for part in (*path, None):
        node = _resolved(node, value, whole)
        if part is None:
            break
        if isinstance(part, int):
            node, value = node.get("items", {}), value[part]
        else:
            node = node.get("properties", {}).get(part, node.get("additionalProperties", {}))
            value = value[part]
    return list(node.get("properties", {})) if isinstance(node, Mapping) else []


def _resolved(node: Any, value: Any, whole: Mapping[str, Any]) -> Any:
    """Follow references, and choose the alternative that a value is meant to be."""
    for _ in range(8):
        if not isinstance(node, Mapping):
            return {}
        if "$ref" in node:
            node = whole["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        elif "oneOf" in node and "discriminator" in node:
            word = node["discriminator"]["propertyName"]
            chosen = node["discriminator"]["mapping"].get(
                value.get(word) if isinstance(value, Mapping) else None
            )
            node = {"$ref": chosen} if chosen else {}
        elif "anyOf" in node and "properties" not in node:
            node = next((item for item in node["anyOf"] if "$ref" in item), {})
        else:
            return node
    return node


def place(path: Sequence[Any]) -> str:
    """Return a place in a file, such as ``acceptance.criteria[2].threshold``.

    Examples
    --------
    >>> place(("acceptance", "criteria", 2, "threshold"))
    'acceptance.criteria[2].threshold'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the file"
