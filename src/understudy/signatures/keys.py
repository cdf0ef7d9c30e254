"""Keys: the user's own, and those of others that are trusted here.

They lie in the folder ``keys`` of the user's folder (`understudy.ledgers.user_folder`): ``NAME.pem`` is a private key, for
its owner alone to read and encrypted where a passphrase was given; ``NAME.json`` is its public part, which others may have; the folder ``trusted``
holds the public parts that the user decided to trust. A key says nothing about who holds it: trust is the user's own decision, made after
comparing fingerprints by another way than the one the key came.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.errors import OutputError, SignatureError
from understudy.ledgers import user_folder
from understudy.signatures.statement import (
    LARGEST,
    Signature,
    Statement,
    checked_text,
    parse_document,
    require_usable_key,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["Keyring", "OwnKey", "PublicKey", "TrustedKey", "open_keyring", "today"]

FORMAT = "understudy-public-key-1"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_HEX = re.compile(r"[0-9a-f]{64}")
_FINGERPRINT_DIGITS = 32

Passphrase = Callable[[], str]
"""Asked for the passphrase when, and only when, a key needs one."""


@dataclass(frozen=True)
class PublicKey:
    """The public part of a key, and whose it is said to be.

    Attributes
    ----------
    name
        Who holds it, as they write themselves; nothing proves it.
    key
        The Ed25519 public key as hexadecimal digits.

    Examples
    --------
    >>> PublicKey("Ada Berg", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a").fingerprint
    '17d668c2574549c08d7b7ed7725f5c39'
    """

    name: str
    key: str

    def __post_init__(self) -> None:
        checked_text(self.name, "The name of whoever holds a key")
        if not isinstance(self.key, str) or not _HEX.fullmatch(self.key):
            raise SignatureError("A public key is 64 hexadecimal digits, in lower case.")
        require_usable_key(self.key)

    @property
    def fingerprint(self) -> str:
        """What people compare: 32 hexadecimal digits of a hash of the key."""
        return fingerprint_of(self.key)

    def to_text(self) -> str:
        """Return the content of a public key file."""
        return json.dumps({"format": FORMAT, "name": self.name, "key": self.key}, indent=2) + "\n"

    @classmethod
    def parse(cls, text: str | bytes) -> PublicKey:
        """Read the content of a public key file."""
        plain = parse_document(text, "a public key file")
        if (
            not isinstance(plain, dict)
            or set(plain) != {"format", "name", "key"}
            or plain["format"] != FORMAT
        ):
            raise SignatureError(
                f"It is no public key in the form {FORMAT}; `understudy keys export` writes one."
            )
        return cls(plain["name"], plain["key"])


@dataclass(frozen=True)
class OwnKey:
    """A key of the user: its label here, its public part, and whether a passphrase protects it."""

    label: str
    public: PublicKey
    encrypted: bool


@dataclass(frozen=True)
class TrustedKey:
    """A key that is trusted here: under which name, and whether it is the user's own."""

    name: str
    public: PublicKey
    own: bool = False


def fingerprint_of(key: str) -> str:
    """Return the fingerprint of a public key given as hexadecimal digits."""
    digest = hashlib.sha256(b"understudy public key\n" + bytes.fromhex(key)).hexdigest()
    return digest[:_FINGERPRINT_DIGITS]


def today() -> str:
    """Return the day of a statement that is made now."""
    return datetime.now(UTC).date().isoformat()


def open_keyring(folder: Path | None = None) -> Keyring:
    """Return the user's keys; ``folder`` stands for another place than the user's folder.

    Raises
    ------
    SignatureError
        If the user has no folder that can be written.
    """
    if folder is None:
        home = user_folder()
        if home is None:
            raise SignatureError(
                "There is no folder of the user that can be written, so there are no keys. Set UNDERSTUDY_HOME to one."
            )
        folder = home / "keys"
    return Keyring(folder)


class Keyring:
    """The user's own keys and the keys that are trusted here. Use :func:`open_keyring`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ring = Keyring(Path(folder))
    ...     own = ring.new("office", name="Ada Berg")
    ...     said = Statement(meaning="signed", kind="file", hash="0" * 64, subject="a.txt", name="Ada Berg", date="2026-11-16")
    ...     signed = ring.sign(said, "office")
    ...     signed.holds(), ring.trusted(signed).name
    (True, 'Ada Berg')
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # ------------------------------------------------------------------ the user's own

    def own(self) -> tuple[OwnKey, ...]:
        """Return the user's own keys, by label."""
        return tuple(
            self._own(path.stem)
            for path in sorted(self.folder.glob("*.json"))
            if path.with_suffix(".pem").exists()
        )

    def new(self, label: str, *, name: str, passphrase: str | None = None) -> OwnKey:
        """Make a key. ``name`` is who holds it; with a passphrase the private part is encrypted."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return self._add(label, name, Ed25519PrivateKey.generate(), passphrase)

    def import_private(
        self, pem: bytes, label: str, *, name: str, passphrase: Passphrase | None = None
    ) -> OwnKey:
        """Add a private key that was exported elsewhere; it stays encrypted with the passphrase that it has."""
        used: list[str] = []

        def remembered() -> str:
            used.append("" if passphrase is None else passphrase())
            return used[0]

        private = _load(pem, remembered if passphrase is not None else None, "The private key")
        return self._add(label, name, private, used[0] if used else None)

    def export_private(self, label: str) -> bytes:
        """Return the private part of a key as it is kept: a PEM file, encrypted if a passphrase protects it."""
        return self._private_file(label)

    def find(self, label: str | None = None) -> OwnKey:
        """Return the user's key of that label or fingerprint; without one, the only key there is.

        Raises
        ------
        SignatureError
            If there is none, or several and no label says which.
        """
        own = self.own()
        if not own:
            raise SignatureError(
                "You have no key yet. Make one: understudy keys new LABEL --name 'Your Name'."
            )
        if label is None:
            if len(own) > 1:
                raise SignatureError(
                    f"You have several keys ({', '.join(key.label for key in own)}); say which with --key."
                )
            return own[0]
        for key in own:
            if label in (key.label, key.public.fingerprint):
                return key
        raise SignatureError(f"You have no key {label!r}. Your keys: {', '.join(key.label for key in own)}.")

    def sign(
        self, statement: Statement, label: str | None = None, *, passphrase: Passphrase | None = None
    ) -> Statement:
        """Return a statement signed with one of the user's keys; see `find` for which."""
        own = self.find(label)
        private = _load(self._private_file(own.label), passphrase, f"The key {own.label!r}")
        key = private.public_key().public_bytes_raw().hex()
        if key != own.public.key:
            raise SignatureError(
                f"The two parts of the key {own.label!r} do not belong together. Import the key again."
            )
        made = private.sign(statement.covered(key)).hex()
        return replace(statement, signature=Signature(key=key, signature=made))

    # ------------------------------------------------------------------ others

    def trust(self, public: PublicKey, *, name: str | None = None) -> TrustedKey:
        """Trust a key from now on; compare its fingerprint with its holder first, by another way than the key came."""
        kept = public if name is None else PublicKey(name, public.key)
        folder = self._folder("trusted")
        path = folder / f"{kept.fingerprint}.json"
        if path.exists():
            path.unlink()  # under another name, say
        _write(path, kept.to_text().encode("utf-8"))
        return TrustedKey(kept.name, kept)

    def distrust(self, fingerprint: str) -> None:
        """Trust a key no longer."""
        found = [key for key in self.trusted_keys() if key.public.fingerprint == fingerprint]
        if any(key.own for key in found):
            raise SignatureError("That is your own key. Remove its two files if it is not to be trusted.")
        if not found:
            raise SignatureError(f"No trusted key has the fingerprint {fingerprint!r}.")
        (self.folder / "trusted" / f"{fingerprint}.json").unlink()

    def trusted_keys(self) -> tuple[TrustedKey, ...]:
        """Return the keys that are trusted here, the user's own first."""
        own = [TrustedKey(key.public.name, key.public, own=True) for key in self.own()]
        others = []
        for path in sorted((self.folder / "trusted").glob("*.json")):
            public = _read_public(path)
            if path.stem != public.fingerprint:
                raise SignatureError(
                    f"The trusted key {str(path)!r} is not the one that it was trusted as: its fingerprint differs. Remove the file."
                )
            others.append(TrustedKey(public.name, public))
        return (*own, *others)

    def trusted(self, statement: Statement) -> TrustedKey | None:
        """Return the trusted key that a statement is signed with; None if it is typed or by a key that is not trusted here."""
        if statement.signature is None:
            return None
        for known in self.trusted_keys():
            if known.public.key == statement.signature.key:
                return known
        return None

    # ------------------------------------------------------------------ files

    def _folder(self, *parts: str) -> Path:
        folder = self.folder.joinpath(*parts)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"Keys cannot be kept in {str(folder)!r}: {error.strerror or error}.") from None
        return folder

    def _own(self, label: str) -> OwnKey:
        public = _read_public(self.folder / f"{label}.json")
        with contextlib.suppress(OSError):  # signing says what is wrong with it
            return OwnKey(label, public, b"ENCRYPTED" in (self.folder / f"{label}.pem").read_bytes()[:64])
        return OwnKey(label, public, False)

    def _private_file(self, label: str) -> bytes:
        path = self.folder / f"{label}.pem"
        try:
            if path.stat().st_mode & 0o077:
                raise SignatureError(
                    f"Others can read the private key {str(path)!r}. Run: chmod 600 {path}; and make a new key if somebody may have read it."
                )
            return path.read_bytes()
        except OSError as error:
            raise SignatureError(
                f"The private key {str(path)!r} cannot be read: {error.strerror or error}."
            ) from None

    def _add(self, label: str, name: str, private: Ed25519PrivateKey, passphrase: str | None) -> OwnKey:
        from cryptography.hazmat.primitives import serialization

        if not _LABEL.fullmatch(label):
            raise SignatureError(
                "The label of a key consists of letters, digits, dots, dashes and underscores."
            )
        if passphrase is not None and not passphrase:
            raise SignatureError("An empty passphrase protects nothing; leave it out.")
        public = PublicKey(name, private.public_key().public_bytes_raw().hex())
        folder = self._folder()
        if (folder / f"{label}.pem").exists() or (folder / f"{label}.json").exists():
            raise SignatureError(f"There is a key {label!r} already. Choose another label.")
        protection: Any = serialization.NoEncryption()
        if passphrase is not None:
            protection = serialization.BestAvailableEncryption(passphrase.encode("utf-8"))
        pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        _write(folder / f"{label}.pem", pem)
        _write(folder / f"{label}.json", public.to_text().encode("utf-8"))
        return self._own(label)


def _load(pem: bytes, passphrase: Passphrase | None, what: str) -> Ed25519PrivateKey:
    """Open a private key; the passphrase is asked for only if there is one."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if len(pem) > LARGEST:
        raise SignatureError(f"{what} is no key: the file is too large.")
    given = None
    if b"ENCRYPTED" in pem:
        if passphrase is None:
            raise SignatureError(
                f"{what} is protected by a passphrase, and none was given. In a script, set UNDERSTUDY_PASSPHRASE."
            )
        given = passphrase().encode("utf-8")
    try:
        private = load_pem_private_key(pem, given)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        wrong = "the passphrase is wrong, or " if given is not None else ""
        raise SignatureError(f"{what} cannot be opened: {wrong}the file is damaged or no key.") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise SignatureError(f"{what} is of another kind; Ed25519 keys are used here.")
    return private


def _read_public(path: Path) -> PublicKey:
    try:
        return PublicKey.parse(path.read_bytes())
    except OSError as error:
        raise SignatureError(f"The key {str(path)!r} cannot be read: {error.strerror or error}.") from None
    except SignatureError as error:
        raise SignatureError(f"The key {str(path)!r} cannot be used. {error}") from None


def _write(path: Path, content: bytes) -> None:
    """Write a file for its owner alone, whole or not at all; one that exists is kept."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(temporary, path)  # unlike a rename it replaces nothing
        finally:
            temporary.unlink()
    except OSError as error:
        raise OutputError(f"The key {str(path)!r} cannot be written: {error.strerror or error}.") from None
