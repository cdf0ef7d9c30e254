"""The record of an agreement: who approved a specification, and what was said about it, bound to the file that is run.

Whoever signs a specification (the studio does) writes the record beside it and its SHA-256 into it::

    agreement: {file: agreement.json, sha256: 5d41402a...}

The record names the specification by the hash that approvals name (:func:`~understudy.release.approvals.specification_hash`, which leaves this one entry
out, because the record holds the approvals), every approval, typed or signed, and a hash of the comments with a random salt. A release reads the record
before anything is spent and refuses one of which a byte is different. The record travels in the certificate of the bundle, and `verify_bundle` compares
it with the specification there. Comments travel only where the record says that they are published; the salt keeps others from guessing
the rest.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from understudy.errors import SignatureError
from understudy.release.approvals import Approvals, require_approvals, specification_hash
from understudy.release.spec.spec import Spec
from understudy.signatures import Statement, statement_from_dict

__all__ = ["Agreement", "Comment", "agreed", "agreement_of", "agreement_problems"]

FORMAT = "understudy-agreement-1"
_LARGEST = 20_000_000
_RECORD = b"understudy agreement 1\n"
_COMMENTS = b"understudy comments 1\n"


@dataclass(frozen=True)
class Comment:
    """What somebody said, about which version of the specification (the beginning of its hash)."""

    role: str
    name: str
    text: str
    time: str
    version: str

    def describe(self) -> str:
        """Say who said what, when, about which version."""
        role = f" ({self.role})" if self.role else ""
        return f"{self.name}{role}, {self.time}, about {self.version}: {self.text}"


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What was agreed on when a specification was signed.

    Attributes
    ----------
    specification
        The hash that the approvals name.
    approvals
        Of this very version, typed or signed.
    comments
        What was said, or None where it stayed with those who said it.
    number, digest, published
        How many comments there are, their salted hash, and whether they may be published.
    salt
        Random; known to whoever may read the comments.

    Examples
    --------
    >>> made = Agreement.make("0" * 64, (), [Comment("lawyer", "Ada", "Why 4?", "2026-11-16", "000000000000")], published=False)
    >>> made.number, made.public().comments is None, made.public().hash == made.hash
    (1, True, True)
    >>> Agreement.from_dict(made.to_dict()) == made
    True
    """

    specification: str
    approvals: tuple[Statement, ...]
    number: int
    digest: str
    published: bool
    comments: tuple[Comment, ...] | None = None
    salt: str | None = None

    @classmethod
    def make(
        cls,
        specification: str,
        approvals: Iterable[Statement],
        comments: Iterable[Comment],
        *,
        published: bool,
    ) -> Agreement:
        """Record what was said and approved."""
        said, salt = tuple(comments), secrets.token_hex(16)
        return cls(
            specification=specification,
            approvals=tuple(approvals),
            number=len(said),
            digest=_digest(salt, said),
            published=published,
            comments=said,
            salt=salt,
        )

    @property
    def record(self) -> dict[str, Any]:
        """What is hashed into the specification."""
        return {
            "format": FORMAT,
            "specification": self.specification,
            "approvals": [item.to_dict() for item in self.approvals],
            "comments": {"number": self.number, "sha256": self.digest, "published": self.published},
        }

    @property
    def hash(self) -> str:
        """SHA-256 of the record, as the specification names it."""
        return _hash(_RECORD, self.record)

    def public(self) -> Agreement:
        """Return it as it travels in a certificate: without comments that are not to be published."""
        if self.published:
            return self
        return Agreement(
            **{item.name: getattr(self, item.name) for item in fields(self)}
            | {"comments": None, "salt": None}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain: dict[str, Any] = {"record": self.record}
        if self.comments is not None:
            plain |= {"salt": self.salt, "comments": [asdict(item) for item in self.comments]}
        return plain

    @classmethod
    def from_dict(cls, plain: object) -> Agreement:
        """Read it from plain values; comments that are not those of the record are refused.

        Raises
        ------
        SignatureError
            If it is anything else, or comments do not have the hash of the record.
        """
        record = _keys(plain, {"record"}, {"salt", "comments"})["record"]
        about = _keys(record, {"format", "specification", "approvals", "comments"})["comments"]
        _keys(about, {"number", "sha256", "published"})
        if record["format"] != FORMAT:
            raise SignatureError(f"It is no agreement in the form {FORMAT}.")
        if (
            type(about["number"]) is not int
            or type(about["published"]) is not bool
            or not isinstance(record["approvals"], list)
        ):
            raise SignatureError(_NO_AGREEMENT)
        said, salt = None, None
        if isinstance(plain, Mapping) and "comments" in plain:
            if not isinstance(plain["comments"], list):
                raise SignatureError(_NO_AGREEMENT)
            said, salt = tuple(map(_comment, plain["comments"])), str(plain.get("salt"))
            if _digest(salt, said) != about["sha256"] or len(said) != about["number"]:
                raise SignatureError(
                    "The comments are not those that were agreed on: their hash is another one."
                )
        elif about["published"]:
            raise SignatureError("The comments are missing, although they are to be published.")
        return cls(
            specification=str(record["specification"]),
            approvals=tuple(map(statement_from_dict, record["approvals"])),
            number=about["number"],
            digest=str(about["sha256"]),
            published=about["published"],
            comments=said,
            salt=salt,
        )


_NO_AGREEMENT = "It is no record of an agreement: it is cut off, damaged or something else."


def _hash(domain: bytes, plain: Any) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(domain + text.encode("ascii")).hexdigest()


def _digest(salt: str, comments: Sequence[Comment]) -> str:
    return _hash(_COMMENTS, [salt, [asdict(item) for item in comments]])


def _keys(plain: object, needed: set[str], more: set[str] = frozenset()) -> Mapping[str, Any]:  # type: ignore[assignment]
    if not isinstance(plain, Mapping) or not needed <= set(plain) <= needed | more:
        raise SignatureError(_NO_AGREEMENT)
    return plain


def _comment(plain: object) -> Comment:
    found = _keys(plain, {item.name for item in fields(Comment)})
    if not all(isinstance(value, str) for value in found.values()):
        raise SignatureError(_NO_AGREEMENT)
    return Comment(**found)


def agreement_of(spec: Spec) -> Agreement | None:
    """Return the record that a specification names, or None if it names none.

    Raises
    ------
    SignatureError
        If it is absent, or not byte for byte the one that was agreed on, or about another specification.
    """
    named = spec.file.agreement
    if named is None:
        return None
    where = f"The record of the agreement, {named.file!r},"
    again = "Sign the specification again. Nothing was spent."
    if named.file is None:
        raise SignatureError(f"The specification names the hash of an agreement, but no file of it. {again}")
    if Path(named.file).name != named.file:
        raise SignatureError(f"{where} has to lie beside the specification. {again}")
    path = spec.where / named.file
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:  # reading a pipe would wait for ever
            raise SignatureError(f"{where} is not beside the specification. {again}")
        found = Agreement.from_dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, SignatureError) and str(error).startswith(where):
            raise
        why = str(error) if isinstance(error, SignatureError) else _NO_AGREEMENT
        raise SignatureError(f"{where} cannot be used. {why} {again}") from None
    if found.hash != named.sha256:
        raise SignatureError(f"{where} was changed after the specification was signed. {again}")
    if found.specification != specification_hash(spec):
        raise SignatureError(f"{where} is about another version of the specification. {again}")
    return found


def agreed(spec: Spec, statements: Sequence[Statement]) -> tuple[Approvals, Agreement | None]:
    """Return approvals and agreement of a specification, or refuse it before anything is spent.

    Approvals in the record count like those that lie beside the file.

    Raises
    ------
    ApprovalMissing, SignatureError
        If a required approval is missing, or the record is not the one that was agreed on.
    """
    found = agreement_of(spec)
    known = () if found is None else found.approvals
    return require_approvals(spec, tuple(dict.fromkeys((*statements, *known)))), found


def agreement_problems(spec: Mapping[str, Any], certificate: Mapping[str, Any]) -> list[str]:
    """Compare the agreement in the certificate of a bundle with its specification; return what is wrong, in words."""
    named, plain = spec.get("agreement"), certificate.get("agreement")
    if named is None and plain is None:
        return []
    if named is None or plain is None:
        one, other = ("certificate", "specification") if named is None else ("specification", "certificate")
        return [f"the {one} names an agreement, and the {other} does not"]
    try:
        found = Agreement.from_dict(plain)
    except SignatureError as error:
        return [f"the agreement in the certificate cannot be used: {error}"]
    problems = []
    if found.hash != named.get("sha256"):
        problems.append("the agreement in the certificate is not the one that the specification names")
    if found.specification != specification_hash(spec):
        problems.append("the agreement in the certificate is about another specification")
    if any(item.to_dict() not in certificate.get("approvals", ()) for item in found.approvals):
        problems.append("an approval of the agreement is missing in the certificate")
    return problems
