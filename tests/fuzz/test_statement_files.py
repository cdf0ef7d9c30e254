"""Statement files and keys of strangers: every damaged one is refused by `SignatureError`, and none holds for something else."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import SignatureError
from understudy.signatures import Keyring, PublicKey, Statement, parse_statement, statement_from_dict

CASES = 400
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**80, 1.5, "", "x", "\x00", "a" * 300, [], {}, [[]], {"a": {}}, "ledger head", "00" * 32, "ab" * 64,
)  # fmt: skip


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Statement:
    ring = Keyring(tmp_path_factory.mktemp("keys"))
    ring.new("ada", name="Ada Berg")
    return ring.sign(
        Statement(
            meaning="approved",
            kind="specification",
            hash="ab" * 32,
            subject="births",
            role="lawyer",
            name="Ada Berg",
            date="2026-11-16",
        )
    )


def _bytes(text: str, draw: random.Random) -> bytes:
    """Change, remove, repeat or insert bytes."""
    content = bytearray(text.encode())
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(content))
        what = draw.randrange(5)
        if what == 0:
            content[place] ^= 1 << draw.randrange(8)
        elif what == 1:
            del content[place : place + draw.randint(1, 40)]
        elif what == 2:
            content[place:place] = content[place : place + draw.randint(1, 40)]
        elif what == 3:
            content[place:place] = draw.choice(list(string.punctuation)).encode()
        else:
            del content[place:]
        if not content:
            break
    return bytes(content)


def _tree(text: str, draw: random.Random) -> bytes:
    """Replace, remove or add an entry somewhere in the document."""
    plain = json.loads(text)
    place: Any = plain
    while True:
        key = draw.choice(list(place))
        if isinstance(place[key], dict) and draw.random() < 0.7:
            place = place[key]
            continue
        what = draw.randrange(3)
        if what == 0:
            place[key] = draw.choice(VALUES)
        elif what == 1:
            del place[key]
        else:
            place[draw.choice(["more", "entries", "key", "Name", "role "])] = draw.choice(VALUES)
        return json.dumps(plain).encode()


@pytest.mark.parametrize("change", [_bytes, _tree], ids=["bytes", "tree"])
def test_a_changed_statement_is_refused_or_does_not_hold(
    signed: Statement, change: Callable[[str, random.Random], bytes]
) -> None:
    """A statement that is read and holds must be the one that was signed, or a typed one, which is not taken for signed."""
    text, refused, failed = signed.to_text(), 0, 0
    for seed in range(CASES):
        content = change(text, random.Random(seed))
        try:
            read = parse_statement(content)
        except SignatureError:
            refused += 1
            continue
        if not read.holds():
            failed += 1
        else:
            assert read == signed or read.signature is None, content
    assert refused > CASES / 2
    assert failed > 0


def test_noise_is_refused(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        content = draw.randbytes(draw.randint(0, 400))
        with pytest.raises(SignatureError):
            parse_statement(content)
        with pytest.raises(SignatureError):
            PublicKey.parse(content)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        '{"format":' * 10_000,
        '{"format": "understudy-statement-1", "statement": {}, "signature": NaN}',
        '{"format": "understudy-statement-1", "statement": {}, "signature": 1e999}',
        '{"format": ' + "9" * 10_000 + "}",
        "x" * (65 << 10),
        '"understudy-statement-1"',
        "\ufeff{}",
    ],
    ids=["deep", "deep objects", "NaN", "infinite", "long number", "large", "text", "mark"],
)
def test_documents_made_to_harm_are_refused(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_statement(text)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_values_in_the_place_of_a_statement_are_refused(value: Any) -> None:
    with pytest.raises(SignatureError):
        statement_from_dict(value)
    with pytest.raises(SignatureError):
        statement_from_dict({"format": "understudy-statement-1", "statement": value, "signature": None})


def test_a_changed_private_key_opens_nothing(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    own = ring.new("ada", name="Ada Berg")
    text = (tmp_path / "ada.pem").read_text()
    said = Statement(
        meaning="signed", kind="file", hash="00" * 32, subject="a", name="Ada Berg", date="2026-11-16"
    )
    for seed in range(100):
        content = _bytes(text, random.Random(seed))
        (tmp_path / "ada.pem").write_bytes(content)
        try:
            made = ring.sign(said, "ada", passphrase=lambda: "x")
        except SignatureError:
            continue
        assert made.signature is not None
        assert made.signature.key == own.public.key, content  # a change outside the key proper
