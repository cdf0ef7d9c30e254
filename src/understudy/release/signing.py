"""Signing a bundle, a specification, the head of a ledger or a file, and saying who signed what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from understudy.errors import LedgerError, SchemaError, SignatureError
from understudy.ledgers import user_folder
from understudy.privacy import Ledger
from understudy.privacy.ledger.anchors import Anchor
from understudy.release.approvals import specification_hash
from understudy.release.bundle.bundle import MANIFEST
from understudy.release.bundle.verify import verify_bundle
from understudy.release.spec.spec import Spec
from understudy.schema.files.yaml import read_plain
from understudy.signatures import (
    Keyring,
    Statement,
    TrustedKey,
    open_keyring,
    read_statement,
    statement_files,
    statement_from_dict,
    write_statement,
)
from understudy.signatures.keys import Passphrase, fingerprint_of, today

__all__ = [
    "CheckedStatement",
    "Subject",
    "approvals_of",
    "bundle_subject",
    "check_statements",
    "sign",
    "subject_of",
]

_SQLITE = b"SQLite format 3\x00"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a statement can be about: a kind of thing, exactly which one, its public name, and for a ledger its length."""

    kind: str
    hash: str
    name: str
    entries: int | None = None


@dataclass(frozen=True, kw_only=True)
class CheckedStatement:
    """A statement that was checked against what it is about.

    Attributes
    ----------
    file
        Where it is; None for an approval in a certificate.
    statement
        What it says; None if the file cannot be read as one.
    problems
        Why it does not hold, in words; empty if it holds.
    trusted
        The trusted key that it is signed with; None for a typed statement and for a foreign key.
    """

    file: Path | None
    statement: Statement | None
    problems: tuple[str, ...] = ()
    trusted: TrustedKey | None = None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the key that it is signed with; empty if it is not."""
        signature = None if self.statement is None else self.statement.signature
        return "" if signature is None else fingerprint_of(signature.key)

    def describe(self) -> str:
        """Say who stated what, whether it holds, and whether the key is trusted here."""
        place = "" if self.file is None else f"{self.file.name}: "
        if self.statement is None or self.problems:
            what = "" if self.statement is None else f" [{self.statement.describe()}]"
            return f"{place}DOES NOT HOLD: {'; '.join(self.problems)}{what}"
        said = f"{place}{self.statement.describe()}"
        if not self.fingerprint:
            return f"{said}. Anybody can have typed it."
        if self.trusted is None:
            return (
                f"{said}. The signature holds, and its key {self.fingerprint} is NOT trusted here: whoever made the key could "
                "write any name."
            )
        whose = "your own" if self.trusted.own else f"trusted here as {self.trusted.name!r}"
        other = "" if self.trusted.name == self.statement.name else "; the statement gives another name"
        return f"{said}. The signature holds; key {self.fingerprint} is {whose}{other}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "file": None if self.file is None else str(self.file),
            "holds": not self.problems,
            "problems": list(self.problems),
            "signed": bool(self.fingerprint),
            "key": self.fingerprint,
            "trusted": self.trusted is not None,
            "trusted_as": None if self.trusted is None else self.trusted.name,
            "statement": None if self.statement is None else self.statement.said,
        }


def subject_of(path: str | PathLike[str]) -> Subject:
    """Say what a path holds, as a statement would name it: a bundle, a specification, a ledger, or any other file.

    A bundle is verified first: nothing is signed that does not hold.
    """
    place = Path(path)
    if place.is_dir():
        return bundle_subject(place, verify_bundle(place))
    try:
        if not place.is_file():  # reading a pipe would wait for ever
            raise SignatureError(f"There is no bundle, specification, ledger or file {str(place)!r}.")
        with place.open("rb") as stream:
            start = stream.read(len(_SQLITE))
            stream.seek(0)
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SignatureError(f"The file {str(place)!r} cannot be read: {error.strerror or error}.") from None
    if start == _SQLITE:
        with Ledger.open(place) as ledger:
            ledger.verify()
            anchor = ledger.anchor()
        return Subject(kind="ledger head", hash=anchor.head, name=anchor.ledger_id, entries=anchor.length)
    if _is_specification(place):
        spec = Spec.read(place)
        return Subject(kind="specification", hash=specification_hash(spec), name=spec.name)
    return Subject(kind="file", hash=digest, name=place.name)


def bundle_subject(folder: Path, certificate: Mapping[str, Any]) -> Subject:
    """Say what a bundle is to a statement, after `verify_bundle` returned its certificate."""
    digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    return Subject(kind="bundle", hash=digest, name=str(certificate["name"]))


def sign(
    path: str | PathLike[str],
    *,
    key: str | None = None,
    role: str = "",
    name: str | None = None,
    date: str | None = None,
    keyring: Keyring | None = None,
    passphrase: Passphrase | None = None,
) -> tuple[Path, Statement]:
    """Sign a bundle, a specification, the head of a ledger or a file; return the statement and the file beside it that holds it.

    Parameters
    ----------
    path
        What is signed.
    key
        Which of the user's keys; by default the only one.
    role
        In which role. A specification that is signed in a role is approved by it.
    name
        Who signs; by default whoever holds the key.
    date, keyring, passphrase
        The day, by default today; where the key is; what to ask for its passphrase.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ring = Keyring(Path(folder) / "keys")
    ...     own = ring.new("office", name="Ada Berg")
    ...     letter = Path(folder) / "letter.txt"
    ...     _ = letter.write_text("Dear reader")
    ...     _ = sign(letter, keyring=ring)
    ...     [item.problems for item in check_statements(letter, keyring=ring)]
    ...     _ = letter.write_text("Dear writer")
    ...     [item.problems for item in check_statements(letter, keyring=ring)]
    [()]
    [('it is about another file than this one',)]
    """
    ring = keyring or open_keyring()
    own = ring.find(key)
    about = subject_of(path)
    said = Statement(
        meaning="approved" if role and about.kind == "specification" else "signed",
        kind=about.kind,
        hash=about.hash,
        subject=about.name,
        entries=about.entries,
        role=role,
        name=name or own.public.name,
        date=date or today(),
    )
    made = ring.sign(said, own.label, passphrase=passphrase)
    return write_statement(made, Path(path)), made


def check_statements(
    path: str | PathLike[str],
    *,
    files: Sequence[str | PathLike[str]] = (),
    about: Subject | None = None,
    keyring: Keyring | None = None,
) -> tuple[CheckedStatement, ...]:
    """Check the statements beside a bundle, specification, ledger or file, and further ones that are named.

    A changed byte, a cut-off file, a signature over another thing or by another key than it names: each is a problem of the statement that it
    concerns. A foreign key is none; `CheckedStatement.trusted` tells. ``about`` is what `subject_of` returned, if it was asked already.
    """
    about = about or subject_of(path)
    beside: list[Path] = [Path(item) for item in files]
    beside += [item for item in statement_files(Path(path)) if item not in beside]
    found = []
    for file in beside:
        try:
            said = read_statement(file)
        except SignatureError as error:
            found.append(CheckedStatement(file=file, statement=None, problems=(str(error),)))
            continue
        found.append(_checked(file, said, about, Path(path), keyring))
    return tuple(found)


def approvals_of(
    certificate: Mapping[str, Any], *, keyring: Keyring | None = None
) -> tuple[CheckedStatement, ...]:
    """Return the approvals in a certificate that `verify_bundle` returned, with who is trusted here."""
    said = [statement_from_dict(item) for item in certificate.get("approvals", ())]
    return tuple(
        CheckedStatement(file=None, statement=item, trusted=_trusted(item, keyring)) for item in said
    )


def _trusted(said: Statement, keyring: Keyring | None) -> TrustedKey | None:
    """Return the trusted key that a statement is signed with. Where the user can have no folder, nothing is trusted."""
    if said.signature is None:
        return None
    if keyring is None and user_folder() is None:
        return None
    return (keyring or open_keyring()).trusted(said)


def _checked(
    file: Path, said: Statement, about: Subject, path: Path, keyring: Keyring | None
) -> CheckedStatement:
    problems = []
    if not said.holds():
        problems.append("the signature is not by the key it names over what it says; one of them was changed")
    if said.kind != about.kind:
        problems.append(f"it is about a {said.kind}, and this is a {about.kind}")
    elif about.kind == "ledger head":
        problems += _ledger_problems(said, path)
    elif said.hash != about.hash:
        problems.append(f"it is about another {about.kind} than this one")
    return CheckedStatement(
        file=file,
        statement=said,
        problems=tuple(problems),
        trusted=None if problems else _trusted(said, keyring),
    )


def _ledger_problems(said: Statement, path: Path) -> list[str]:
    """A ledger grows: the head that was signed has to be in it, where it was."""
    with Ledger.open(path) as ledger:
        try:
            ledger.check_anchor(Anchor(said.subject, said.hash, said.entries), source="the signed head")
        except LedgerError as error:
            return [str(error)]
    return []


def _is_specification(path: Path) -> bool:
    """Say whether a file is meant as a specification: one that is and cannot be read is an error, not a plain file."""
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        return False
    try:
        plain = read_plain(path)
    except SchemaError:
        if path.suffix.lower() != ".json":
            raise
        return False
    return isinstance(plain, Mapping) and {"synthesizers", "acceptance", "budget"} <= set(plain)
