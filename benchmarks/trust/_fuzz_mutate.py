"""Ways to spoil a file: bytes, plain trees (JSON and YAML), archives."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from typing import Any

TOKENS = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b'"', b"'", b",", b";", b"\n", b"\r", b"\t", b"{", b"}", b"[", b"]",
    b"&a ", b"*a", b"!!python/object/apply:os.system ['true']", b"!!python/name:os.system", b"<<: *a", b"? ", b": ",
    b"- ", b"%", b"#", b"...", b"---", b"1e999", b"-1", b"NaN", b"Infinity", b"null", b"../../etc/passwd", b"/dev/zero",
    b"\xed\xa0\x80", b"\xf4\x8f\xbf\xbf", b"0" * 400, b"a" * 3000, b"((((", b"PAR1", b"PK\x03\x04", b"SQLite format 3",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 255, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.5, -0.0, 1e308, 1e-308, 5e-324, "",
    " ", "a", "0", "1e400", "nan", "inf", "../x", "/dev/null", "!!python/object:x", "a" * 20000, "\u0000", "\U0010ffff",
    "\ud800", "<b>", "{{7*7}}", "${x}", "%s%n", "age >= 18 and", "not not not sex", [], {}, [[]], [None], [0.1] * 50,
    {"": ""}, {"kind": "integer"}, ["a", "a"], "<30", "30-44", "...", "2014-01-01", "9999-99-99",
)  # fmt: skip


def spoil_bytes(data: bytes, generator: random.Random, *, other: bytes = b"") -> bytes:
    """Return the bytes with a few things changed, cut, repeated, moved or put in."""
    spoilt = bytearray(data)
    for _ in range(generator.choice((1, 1, 1, 2, 3, 6))):
        size = len(spoilt)
        place = generator.randrange(size + 1)
        length = min(size - place, generator.choice((1, 1, 2, 4, 8, 32, 200)))
        way = generator.randrange(9)
        if way == 0 and size:
            spoilt[min(place, size - 1)] ^= 1 << generator.randrange(8)
        elif way == 1 and size:
            spoilt[min(place, size - 1)] = generator.randrange(256)
        elif way == 2:
            del spoilt[place : place + length]
        elif way == 3:
            spoilt[place:place] = spoilt[place : place + length] * generator.choice((1, 2, 50))
        elif way == 4:
            spoilt[place:place] = generator.choice(TOKENS)
        elif way == 5:
            del spoilt[place:]
        elif way == 6 and other:
            start = generator.randrange(len(other))
            spoilt[place : place + length] = other[start : start + generator.choice((1, 8, 64, 500))]
        elif way == 7:
            spoilt[place : place + length] = bytes(generator.randrange(256) for _ in range(length))
        else:
            spoilt[place : place + length] = generator.choice((b"\0", b"\xff", b"\x7f")) * length
    return bytes(spoilt[: 1 << 20])


def spoil_tree(tree: Any, generator: random.Random) -> Any:
    """Return a copy of plain data with a few nodes replaced, removed, repeated, renamed or moved."""
    spoilt = copy.deepcopy(tree)
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        places = [(None, None), *_places(spoilt)]
        holder, key = generator.choice(places)
        if holder is None:
            if generator.random() < 0.03:
                spoilt = generator.choice(VALUES)
            continue
        way = generator.randrange(8)
        if way <= 2:
            holder[key] = copy.deepcopy(generator.choice(VALUES))
        elif way == 3:
            del holder[key]
        elif way == 4:
            from_holder, from_key = generator.choice(places)
            if from_holder is not None and len(places) < 4000:
                try:
                    holder[key] = copy.deepcopy(from_holder[from_key])
                except (IndexError, KeyError):
                    continue
        elif way == 5 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif way == 5:
            holder[generator.choice(("", "kind", "name", "x" * 300, str(key) + "x"))] = holder.pop(key)
        elif way == 6 and isinstance(holder[key], str):
            text = holder[key].encode("utf-8", "surrogatepass")
            holder[key] = spoil_bytes(text, generator)[:30000].decode("utf-8", "replace")
        elif way == 6 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            number = holder[key]
            if abs(number) < 1e300:
                holder[key] = generator.choice(
                    (number + 1, -number, number * 1000, number / 3, str(number), [number])
                )
        else:
            value = holder[key]
            for _ in range(generator.choice((1, 1, 20, 150))):
                value = [value]
            holder[key] = value
    return spoilt


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree: the list or mapping, and the key in it."""
    found: list[tuple[Any, Any]] = []
    level = [tree]
    while level and len(found) < 5000:
        node = level.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in items:
            found.append((node, key))
            if isinstance(value, dict | list):
                level.append(value)
    return found


def dump(tree: Any) -> bytes:
    """Write plain data as JSON (which YAML readers read too), however odd or deep it is."""
    try:
        return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError, TypeError):
        return b"[" * 3000 + b"]" * 3000


def unzip(data: bytes) -> dict[str, bytes]:
    """Return the members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def make_zip(members: dict[str, bytes]) -> bytes:
    """Return an archive with the members as they are."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()
