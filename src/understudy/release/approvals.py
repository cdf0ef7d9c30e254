"""Approvals of a specification: who approved it in which role, and exactly which version.

An approval names the SHA-256 of the specification as it will be published (:func:`specification_hash`): everything but local paths, so title,
description and licence as well. Whoever changes a word afterwards has a specification that nobody approved. Approvals lie in files beside the
specification (``SPEC.approval-ROLE.json``), typed or signed (:mod:`understudy.signatures`), and travel in the certificate of the bundle.

A specification may require them::

    approvals:
      required: [owner, lawyer]
      signed: true                # typed approvals do not count
      keys: {lawyer: 3b2ae5f0...} # only this key counts

Then a release is refused before a ledger is made or a record is read, unless every required role has approved this very version.

A specification that takes a workload from a file says less than it does: the file could be exchanged, and a reader of the bundle has not got it. It cannot be approved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from os.path import isfile
from pathlib import Path
from typing import Any

from understudy.errors import ApprovalMissing, SignatureError
from understudy.release.spec.space import WORKLOADS
from understudy.release.spec.spec import Spec
from understudy.signatures import Keyring, Statement, open_keyring, statements_beside, write_statement
from understudy.signatures.keys import Passphrase, fingerprint_of, today

__all__ = [
    "Approvals",
    "approvals_beside",
    "approve",
    "check_approvals",
    "missing_approvals",
    "require_approvals",
    "specification_hash",
]

_DOMAIN = b"understudy specification 1\n"


@dataclass(frozen=True, kw_only=True)
class Approvals:
    """The approvals of a specification as it stands.

    Attributes
    ----------
    given
        Those of this very version; each signature holds.
    outdated
        Those of another version: they count for nothing.
    missing
        What the specification requires and has not, in words.
    """

    given: tuple[Statement, ...]
    outdated: tuple[Statement, ...]
    missing: tuple[str, ...]


def specification_hash(spec: Spec | Mapping[str, Any]) -> str:
    """Return the SHA-256 that approvals name: of a specification, or of the content of the ``spec.json`` of a bundle.

    Examples
    --------
    >>> specification_hash({"name": "a"}) == specification_hash({"name": "b"})
    False
    """
    plain = spec.to_dict() if isinstance(spec, Spec) else dict(spec)
    plain.pop(
        "agreement", None
    )  # it holds approvals, so they cannot be about it: `understudy.release.agreement`
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(_DOMAIN + text.encode("ascii")).hexdigest()


def approve(
    path: str | PathLike[str],
    *,
    role: str,
    name: str,
    sign: bool = False,
    key: str | None = None,
    date: str | None = None,
    version: str | None = None,
    keyring: Keyring | None = None,
    passphrase: Passphrase | None = None,
) -> tuple[Path, Statement]:
    """Record that somebody approves the specification in a file as it stands; return the file of the approval and what it says.

    Parameters
    ----------
    path
        File of the specification.
    role, name
        In which role (`understudy.signatures.ROLES`), and who.
    sign, key
        Whether to sign it, and with which of the user's keys; by default the only one.
    date
        The day; by default today.
    version
        The hash of the version that was read (:func:`specification_hash`): the file is refused if it is another one by now.
    keyring, passphrase
        Where the key is, and what to ask for its passphrase.
    """
    spec = Spec.read(path)
    _require_complete(spec)
    if version is not None and specification_hash(spec) != version:
        raise SignatureError(
            f"The specification {spec.name!r} was changed meanwhile (hash {specification_hash(spec)[:12]}): what was read is another version (hash {version[:12]}). "
            "Read it again."
        )
    said = Statement(
        meaning="approved",
        kind="specification",
        hash=specification_hash(spec),
        subject=spec.name,
        role=role,
        name=name,
        date=date or today(),
    )
    if sign or key is not None:
        said = (keyring or open_keyring()).sign(said, key, passphrase=passphrase)
    return write_statement(said, Path(path)), said


def check_approvals(
    spec: Spec, statements: Sequence[Statement], *, keyring: Keyring | None = None
) -> Approvals:
    """Sort statements about a specification into those of this version and others, and say what is missing.

    Raises
    ------
    SignatureError
        If a signature does not hold, or a statement is about something else than a specification.
    """
    wanted = specification_hash(spec)
    given: list[Statement] = []
    outdated: list[Statement] = []
    for said in statements:
        if said.kind != "specification":
            raise SignatureError(f"It is no approval of a specification: {said.describe()}.")
        if not said.holds():
            raise SignatureError(f"The signature does not hold: {said.describe()}.")
        if said.meaning == "approved":
            (given if said.hash == wanted else outdated).append(said)
    required = spec.file.approvals
    missing = missing_approvals(
        required.required, required.signed, required.keys, given, outdated, wanted=wanted
    )
    if required.signed and not missing:
        ring = keyring or open_keyring()
        for role in required.required:
            if role in required.keys:
                continue
            if not any(said.role == role and ring.trusted(said) is not None for said in given):
                missing.append(
                    f"{role}: signed with a key that is not trusted here; compare its fingerprint with its holder and trust it "
                    "(understudy keys trust FILE)"
                )
    return Approvals(given=tuple(given), outdated=tuple(outdated), missing=tuple(missing))


def require_approvals(
    spec: Spec, statements: Sequence[Statement], *, keyring: Keyring | None = None
) -> Approvals:
    """Return the approvals of a specification, or refuse it where a required one is missing.

    Raises
    ------
    ApprovalMissing
        With one line per role, or because the specification is not complete without other files; nothing was spent.
    """
    found = check_approvals(spec, statements, keyring=keyring)
    if found.given or spec.file.approvals.required:
        _require_complete(spec)
    if found.missing:
        lines = "\n".join(f"  - {item}" for item in found.missing)
        raise ApprovalMissing(
            f"The specification {spec.name!r} (hash {specification_hash(spec)[:12]}) requires approvals that it has not:\n{lines}\n"
            "Have it approved as it stands: understudy sign SPEC --as ROLE --name NAME. Nothing was spent."
        )
    return found


def _require_complete(spec: Spec) -> None:
    """Refuse a specification that is not all there is: one that takes a workload from a file."""
    for item in spec.file.synthesizers:
        for option in WORKLOADS & set(item.options):
            given = item.options[option]
            for text in given if isinstance(given, list | Mapping) else [given]:
                if isinstance(text, str) and any(isfile(place) for place in (spec.where / text, text)):
                    raise ApprovalMissing(
                        f"The specification {spec.name!r} takes the option {option} of {item.method} from the file {text!r}, which is no part of what is published and approved: "
                        "it could be exchanged afterwards. Write its marginals and weights into the specification, and have that approved. Nothing was spent."
                    )


def approvals_beside(path: str | PathLike[str]) -> tuple[Statement, ...]:
    """Return the approvals that lie beside the file of a specification."""
    return tuple(said for _, said in statements_beside(Path(path)) if said.meaning == "approved")


def missing_approvals(
    required: Sequence[str],
    signed: bool,
    keys: Mapping[str, str],
    given: Sequence[Statement],
    outdated: Sequence[Statement] = (),
    *,
    wanted: str,
) -> list[str]:
    """Return what is missing of required approvals, one line per role; whether a key is trusted is not looked at."""
    found = []
    for role in dict.fromkeys(required):
        own = [said for said in given if said.role == role]
        if not own:
            others = [said for said in outdated if said.role == role]
            found.append(
                f"{role}: {others[0].name} approved another version (hash {others[0].hash[:12]}), not this one (hash {wanted[:12]})"
                if others
                else f"{role}: nobody approved it"
            )
            continue
        if not (signed or role in keys):
            continue
        own = [said for said in own if said.signature is not None]
        if not own:
            found.append(f"{role}: the approval is typed, and a signed one is required")
        elif role in keys and not any(
            said.signature is not None and fingerprint_of(said.signature.key) == keys[role] for said in own
        ):
            found.append(f"{role}: signed with another key than the specification names ({keys[role]})")
    return found
