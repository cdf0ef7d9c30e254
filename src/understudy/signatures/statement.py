"""Statements about one thing, typed or signed, in one versioned form.

A statement file is JSON::

    {
      "format": "understudy-statement-1",
      "statement": {
        "meaning": "approved", "kind": "specification", "hash": "<64 hexadecimal digits>", "subject": "births",
        "role": "lawyer", "name": "Ada Berg", "date": "2026-11-16"
      },
      "signature": {"key": "<64 hexadecimal digits>", "signature": "<128 hexadecimal digits>"}
    }

``signature`` is null where the statement was only typed. What an Ed25519 signature covers is
``understudy signed statement 1``, a line feed, and the JSON of ``{"key": ..., "statement": {...}}`` with sorted keys, without spaces, in
ASCII. So the kind of thing, its hash, meaning, role, name, date and the key itself are signed together: a signature for one bundle is none for
another, one for a bundle is none for a specification with the same hash, and it cannot be given to another key or person.

The hash of each kind of thing:

``bundle``
    SHA-256 of the bytes of its ``MANIFEST.json``, which holds the hashes of all its other files.
``specification``
    SHA-256 of the specification as it is published (`understudy.release.approvals.specification_hash`).
``ledger head``
    The hash of the last line; ``subject`` is the name of the ledger and ``entries`` their number.
``file``
    SHA-256 of its bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from understudy.errors import SignatureError

__all__ = [
    "KINDS",
    "MEANINGS",
    "ROLES",
    "Signature",
    "Statement",
    "checked_text",
    "parse_document",
    "parse_statement",
    "require_usable_key",
    "statement_from_dict",
]

FORMAT = "understudy-statement-1"
KINDS = ("bundle", "specification", "ledger head", "file")
MEANINGS = ("approved", "signed")
ROLES = ("owner", "lawyer", "domain expert", "statistician", "data protection officer")
LARGEST = 64 << 10
"""Bytes of the largest statement or key file that is read."""

_DOMAIN = b"understudy signed statement 1\n"
_HASH, _KEY, _SIGNATURE = (re.compile(f"[0-9a-f]{{{digits}}}") for digits in (64, 64, 128))
_LONGEST_TEXT = 200
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that Python counts as printable and nobody sees."""
_FIELD_PRIME = 2**255 - 19


@dataclass(frozen=True, kw_only=True)
class Signature:
    """An Ed25519 signature and the public key that it is to be checked with, both as hexadecimal digits."""

    key: str
    signature: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not _KEY.fullmatch(self.key):
            raise SignatureError("The key of a signature is 64 hexadecimal digits, in lower case.")
        if not isinstance(self.signature, str) or not _SIGNATURE.fullmatch(self.signature):
            raise SignatureError("A signature is 128 hexadecimal digits, in lower case.")
        require_usable_key(self.key)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a person says about one thing; signed if ``signature`` is not None.

    Attributes
    ----------
    meaning
        ``"approved"`` (in a role, a specification) or ``"signed"``.
    kind, hash
        What it is about, and which one exactly.
    subject
        Public name of the thing, for people; of a ledger its random name.
    role
        In which role it is approved; empty for a signature without one.
    name, date
        Who says so, as they write themselves, and on which day (ISO 8601).
    entries
        Of a ledger head: how many entries the ledger had.
    signature
        None for a typed statement, which anybody can have written.

    Examples
    --------
    >>> said = Statement(
    ...     meaning="approved", kind="specification", hash="0" * 64, subject="births", role="lawyer", name="Ada Berg", date="2026-11-16"
    ... )
    >>> said.describe()
    "approved by Ada Berg as lawyer on 2026-11-16 (typed, not signed: specification 'births', hash 000000000000)"
    >>> parse_statement(said.to_text()) == said
    True
    """

    meaning: str
    kind: str
    hash: str
    subject: str
    name: str
    date: str
    role: str = ""
    entries: int | None = None
    signature: Signature | None = None

    def __post_init__(self) -> None:
        if self.meaning not in MEANINGS:
            raise SignatureError(f"The meaning of a statement is one of: {', '.join(MEANINGS)}.")
        if self.kind not in KINDS:
            raise SignatureError(f"A statement is about one of: {', '.join(KINDS)}.")
        if not isinstance(self.hash, str) or not _HASH.fullmatch(self.hash):
            raise SignatureError("The hash of a statement is 64 hexadecimal digits, in lower case.")
        checked_text(self.subject, "The subject of a statement")
        checked_text(self.name, "The name of whoever makes a statement")
        if self.role not in ("", *ROLES):
            raise SignatureError(f"A role is one of: {', '.join(ROLES)}.")
        if self.meaning == "approved" and not (self.role and self.kind == "specification"):
            raise SignatureError("An approval is of a specification, and says in which role.")
        if not _is_day(self.date):
            raise SignatureError("The date of a statement is a day such as 2026-11-16.")
        if (self.kind == "ledger head") != (self.entries is not None):
            raise SignatureError(
                "The number of entries belongs to the head of a ledger, and to nothing else."
            )
        if self.entries is not None and (type(self.entries) is not int or not 0 <= self.entries < 2**53):
            raise SignatureError("The number of entries of a ledger is a whole number.")

    @property
    def said(self) -> dict[str, Any]:
        """The statement as plain values, without its signature."""
        plain: dict[str, Any] = {
            "meaning": self.meaning,
            "kind": self.kind,
            "hash": self.hash,
            "subject": self.subject,
            "role": self.role,
            "name": self.name,
            "date": self.date,
        }
        return plain if self.entries is None else plain | {"entries": self.entries}

    def covered(self, key: str) -> bytes:
        """Return the bytes that a signature by a key covers."""
        plain = {"key": key, "statement": self.said}
        text = json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return _DOMAIN + text.encode("ascii")

    def holds(self) -> bool:
        """Say whether the signature is by its key and over this very statement; a typed statement has none to fail."""
        if self.signature is None:
            return True
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.signature.key))
        try:
            key.verify(bytes.fromhex(self.signature.signature), self.covered(self.signature.key))
        except InvalidSignature:
            return False
        return True

    def unsigned(self) -> Statement:
        """Return the same statement, typed."""
        return replace(self, signature=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        signed = self.signature
        return {
            "format": FORMAT,
            "statement": self.said,
            "signature": None if signed is None else {"key": signed.key, "signature": signed.signature},
        }

    def to_text(self) -> str:
        """Return the content of a statement file."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=True) + "\n"

    def describe(self) -> str:
        """Say who stated what, when, and about what exactly."""
        role = f" as {self.role}" if self.role else ""
        how = (
            "typed, not signed: "
            if self.signature is None
            else "signed: "
            if self.meaning == "approved"
            else ""
        )
        return (
            f"{self.meaning} by {self.name}{role} on {self.date} "
            f"({how}{self.kind} {self.subject!r}, hash {self.hash[:12]})"
        )


def parse_statement(text: str | bytes) -> Statement:
    """Read the content of a statement file; whether its signature holds is `Statement.holds`.

    Raises
    ------
    SignatureError
        If it is anything but a complete statement in the form that is documented.
    """
    return statement_from_dict(parse_document(text, "a statement"))


def statement_from_dict(plain: object) -> Statement:
    """Read a statement from plain values; a key too many or too few is refused."""
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise SignatureError(f"It is no statement in the form {FORMAT}.")
    _exactly(plain, ("format", "statement", "signature"), "a statement file")
    said, signed = plain["statement"], plain["signature"]
    names: tuple[str, ...] = ("meaning", "kind", "hash", "subject", "role", "name", "date")
    if isinstance(said, dict) and said.get("kind") == "ledger head":
        names = (*names, "entries")
    _exactly(said, names, "the statement")
    texts = {name: said[name] for name in names if name != "entries"}
    if any(not isinstance(value, str) for value in texts.values()):
        raise SignatureError("The entries of a statement are texts.")
    entries = said.get("entries")
    if "entries" in said and entries is None:
        raise SignatureError("The number of entries of a ledger is a whole number.")
    signature = None
    if signed is not None:
        _exactly(signed, ("key", "signature"), "the signature")
        signature = Signature(key=signed["key"], signature=signed["signature"])
    return Statement(**texts, entries=entries, signature=signature)


def parse_document(text: str | bytes, what: str) -> Any:
    """Read a small JSON document that may be hostile: no repeated keys, no numbers beyond whole ones, no excess."""
    if len(text) > LARGEST:
        raise SignatureError(f"It is too large to be {what}.")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_no_number)
    except SignatureError:
        raise
    except (ValueError, RecursionError):
        raise SignatureError(f"It is not {what}: it is cut off, damaged or something else.") from None


def checked_text(text: object, what: str) -> str:
    """Return a text for people, or refuse one that could hide or imitate something."""
    if not isinstance(text, str) or not 1 <= len(text) <= _LONGEST_TEXT:
        raise SignatureError(f"{what} is a text of 1 to {_LONGEST_TEXT} characters.")
    if not text.isprintable() or text != text.strip() or _BLANK.search(text):
        raise SignatureError(
            f"{what} consists of letters, digits, signs and single spaces between them; invisible characters are refused."
        )
    return text


def require_usable_key(key: str) -> None:
    """Refuse a public key of small order: a signature could be made that it admits for any statement.

    A point of the curve has order 1, 2, 4 or 8 exactly if its second coordinate is one of five residues (0, 1, -1, and two
    square roots), with either sign; coordinates that are not reduced are compared by their residues.
    """
    coordinate = int.from_bytes(bytes.fromhex(key), "little") & (2**255 - 1)
    if coordinate % _FIELD_PRIME in _SMALL_ORDER:
        raise SignatureError("The key of a signature admits signatures that nobody made; it is refused.")


_ROOT = 55188659117513257062467267217118295137698188065244968500265048394206261417927
_SMALL_ORDER = frozenset({0, 1, _FIELD_PRIME - 1, _ROOT, _FIELD_PRIME - _ROOT})


def _exactly(plain: object, names: tuple[str, ...], what: str) -> None:
    if not isinstance(plain, dict) or set(plain) != set(names):
        raise SignatureError(f"In a statement file {what} has the keys {', '.join(names)}, and no others.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) != len(pairs):
        raise SignatureError("A key is given twice, so it says two things at once.")
    return plain


def _no_number(text: str) -> Any:
    raise SignatureError("It holds a number that is not whole.")


def _is_day(text: object) -> bool:
    try:
        return isinstance(text, str) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
