"""Statements: one form, strictly read; a signature covers everything that it says, for one thing and one key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from understudy.errors import SignatureError
from understudy.release.spec.model import Role
from understudy.signatures import (
    KINDS,
    ROLES,
    Keyring,
    Signature,
    Statement,
    parse_statement,
    read_statement,
    statement_files,
    write_statement,
)

APPROVED = Statement(
    meaning="approved",
    kind="specification",
    hash="ab" * 32,
    subject="births",
    role="lawyer",
    name="Ada Berg",
    date="2026-11-16",
)
PRIME = 2**255 - 19


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    made = Keyring(tmp_path_factory.mktemp("keys"))
    made.new("ada", name="Ada Berg")
    made.new("bo", name="Bo Ek")
    return made


@pytest.fixture(scope="module")
def signed(ring: Keyring) -> Statement:
    return ring.sign(APPROVED, "ada")


def test_a_statement_is_read_as_it_was_written(signed: Statement) -> None:
    assert parse_statement(signed.to_text()) == signed
    assert parse_statement(APPROVED.to_text()) == APPROVED
    assert signed.holds()
    assert signed.unsigned() == APPROVED


@pytest.mark.parametrize(
    "changes",
    [
        {"meaning": "signed"},
        {"meaning": "signed", "kind": "bundle"},
        {"meaning": "signed", "kind": "file"},
        {"meaning": "signed", "kind": "ledger head", "entries": 3},
        {"hash": "ac" + "ab" * 31},
        {"subject": "births 2"},
        {"role": "owner"},
        {"name": "Ada Bergh"},
        {"date": "2026-11-17"},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_a_signature_for_one_statement_is_none_for_another(
    signed: Statement, changes: dict[str, Any]
) -> None:
    assert not replace(signed, **changes).holds()


def test_a_signature_cannot_be_given_to_another_key(ring: Keyring, signed: Statement) -> None:
    assert signed.signature is not None
    other = ring.find("bo").public.key
    assert not replace(signed, signature=replace(signed.signature, key=other)).holds()


def test_what_is_signed_keeps_kinds_and_fields_apart() -> None:
    """No two statements have the same bytes: the text is JSON of all fields behind a fixed line."""
    key = "11" * 32
    variants = {
        replace(APPROVED, meaning="signed", role=role, kind=kind, entries=entries).covered(key)
        for role in ("", *ROLES)
        for kind in KINDS
        for entries in ([1, 12] if kind == "ledger head" else [None])
    }
    assert len(variants) == (1 + len(ROLES)) * (len(KINDS) + 1)
    assert all(item.startswith(b"understudy signed statement 1\n{") for item in variants)


def test_the_signed_bytes_never_change() -> None:
    """What 0.2.0 signs, later versions must check."""
    assert replace(APPROVED, name="Ada Bérg").covered("11" * 32) == (
        b'understudy signed statement 1\n{"key":"'
        + b"11" * 32
        + b'","statement":{"date":"2026-11-16","hash":"'
        b""
        + b"ab"
        * 32
        + b'","kind":"specification","meaning":"approved","name":"Ada B\\u00e9rg","role":"lawyer",'
        b'"subject":"births"}}'
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"meaning": "liked"}, "meaning"),
        ({"kind": "picture"}, "is about one of"),
        ({"hash": "AB" * 32}, "64 hexadecimal"),
        ({"hash": "ab" * 31}, "64 hexadecimal"),
        ({"role": "layer"}, "role is one of"),
        ({"role": ""}, "in which role"),
        ({"kind": "bundle"}, "approval is of a specification"),
        ({"name": ""}, "1 to 200"),
        ({"name": "x" * 201}, "1 to 200"),
        ({"name": "Ada\nBerg"}, "invisible"),
        ({"name": "Ada\u202egreB"}, "invisible"),
        ({"name": " Ada"}, "invisible"),
        ({"name": "Ada Berg\u3164"}, "invisible"),
        ({"name": "Ada\u2800Berg"}, "invisible"),
        ({"name": "Ada\ufe0f Berg"}, "invisible"),
        ({"subject": "a\x1b[31m"}, "invisible"),
        ({"date": "16.11.2026"}, "is a day"),
        ({"date": "20261116"}, "is a day"),
        ({"date": "2026-02-30"}, "is a day"),
        ({"entries": 3}, "belongs to the head of a ledger"),
    ],
)
def test_a_statement_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        replace(APPROVED, **changes)


def test_the_roles_of_statements_and_of_specifications_are_the_same() -> None:
    assert get_args(Role) == ROLES


# ---------------------------------------------------------------- keys that admit anything


def _points_of_small_order() -> set[int]:
    """Second coordinates of the points P with 8 P = 0, by the group law and from nothing else."""
    d = -121665 * pow(121666, -1, PRIME) % PRIME
    root = pow(2, (PRIME - 1) // 4, PRIME)

    def add(p: tuple[int, int], q: tuple[int, int]) -> tuple[int, int]:
        product = d * p[0] * q[0] * p[1] * q[1] % PRIME
        x = (p[0] * q[1] + p[1] * q[0]) * pow(1 + product, -1, PRIME)
        y = (p[1] * q[1] + p[0] * q[0]) * pow(1 - product, -1, PRIME)
        return x % PRIME, y % PRIME

    def points(y: int) -> list[tuple[int, int]]:
        square = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
        x = pow(square, (PRIME + 3) // 8, PRIME)
        x = x if (x * x - square) % PRIME == 0 else x * root % PRIME
        return [(x, y), (-x % PRIME, y)] if (x * x - square) % PRIME == 0 else []

    # multiply some point by the order of the large subgroup: what is left has small order
    order = 2**252 + 27742317777372353535851937790883648493
    found: set[int] = set()
    for y in range(2, 40):
        for point in points(y):
            total, power, left = (0, 1), point, order
            while left:
                total = add(total, power) if left & 1 else total
                power, left = add(power, power), left >> 1
            found.add(total[1])
    return found


def test_every_key_of_small_order_is_refused_and_only_those() -> None:
    small = _points_of_small_order()
    assert len(small) == 5
    spellings = {
        ((y + more) | sign << 255).to_bytes(32, "little").hex()
        for y in small
        for more in (0, PRIME)
        for sign in (0, 1)
        if y + more < 2**255
    }
    for key in spellings:
        with pytest.raises(SignatureError, match="admits signatures that nobody made"):
            Signature(key=key, signature="00" * 64)
    Signature(key="d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", signature="00" * 64)


# ---------------------------------------------------------------- files


def test_files_lie_beside_what_they_are_about_and_are_found_again(signed: Statement, tmp_path: Path) -> None:
    spec = tmp_path / "births [1].yaml"
    first = write_statement(signed, spec)
    assert first.name == "births [1].yaml.approval-lawyer.json"
    other = write_statement(replace(APPROVED, name="Cy Dal"), spec)
    assert other.name == "births [1].yaml.approval-lawyer-2.json"
    (tmp_path / "births 1.yaml.approval-lawyer.json").write_text("another file's")
    assert statement_files(spec) == (other, first)
    assert read_statement(first) == signed


def test_an_approval_of_another_version_gives_way_to_the_new_one(tmp_path: Path) -> None:
    spec = tmp_path / "births.yaml"
    write_statement(APPROVED, spec)
    newer = replace(APPROVED, hash="cd" * 32, name="Cy Dal")
    assert read_statement(write_statement(newer, spec)) == newer
    assert len(statement_files(spec)) == 1


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_file_that_is_cut_off_is_refused(signed: Statement, tmp_path: Path, share: float) -> None:
    text = signed.to_text().rstrip()
    file = tmp_path / "cut.json"
    file.write_text(text[: int(len(text) * share)])
    with pytest.raises(SignatureError, match="cut off, damaged or something else"):
        read_statement(file)


def test_a_key_given_twice_is_refused(signed: Statement) -> None:
    text = signed.to_text().replace('"name": "Ada Berg"', '"name": "Bo Ek", "name": "Ada Berg"')
    assert json.loads(text)["statement"]["name"] == "Ada Berg"  # what a careless reader would see
    with pytest.raises(SignatureError, match="given twice"):
        parse_statement(text)
