"""Anchors: how long a ledger was at some moment, and its last hash, kept somewhere else than the ledger.

A hash chain shows that a ledger was changed, not that an *older copy* of it was put back: the older copy is a perfect
chain. What shows it is a later head that was kept elsewhere. Every bundle, certificate and model file carries one;
``understudy ledger anchor`` writes one to keep with somebody else.

An anchor says nothing about the records: its three values are a random name, a hash over public lines, and their number.
A ledger in memory has none to publish: its hash covers the times of an attempt of a selection, and the number of attempts
was not paid for.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import LedgerCorrupted, LedgerError, LedgerMismatch

FORMAT = "understudy-anchor-1"
_LARGEST_DOCUMENT = 256 << 20
_MOST_FILES = 1000
_HASH = re.compile(r"[0-9a-f]{64}")
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    RuntimeError,  # recursion, encryption, unknown packing
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)
"""What reading a document that is not what it should be can end in."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A ledger at one moment.

    Attributes
    ----------
    ledger_id
        Its random name.
    head
        Hash of its last line, hexadecimal.
    length
        Number of its entries; None where only the head was kept (bundles of version 0.1.0).

    Examples
    --------
    >>> Anchor("ab" * 16, "00" * 32, 7).describe()
    'entry 7, head 000000000000'
    """

    ledger_id: str
    head: str
    length: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ledger_id, str) or not self.ledger_id:
            raise LedgerError("An anchor names its ledger.")
        if not isinstance(self.head, str) or not _HASH.fullmatch(self.head):
            raise LedgerError("The head of an anchor is 64 hexadecimal digits, in lower case.")
        if self.length is not None and (type(self.length) is not int or self.length < 0):
            raise LedgerError("The length of an anchor is a number of entries.")

    def describe(self) -> str:
        """Return where in the ledger the anchor lies."""
        where = "an entry" if self.length is None else f"entry {self.length}"
        return f"{where}, head {self.head[:12]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the anchor as plain values, for a file of its own."""
        return {"format": FORMAT, "ledger": self.ledger_id, "head": self.head, "length": self.length}


def require_own_anchor(anchor: Anchor, ledger_id: str, table: str, source: str) -> None:
    """Refuse the anchor of another ledger."""
    if anchor.ledger_id != ledger_id:
        raise LedgerMismatch(
            f"{source} belongs to another ledger ({anchor.ledger_id[:12]}, not {ledger_id[:12]}), so it says "
            f"nothing about that of {table!r}."
        )


def require_no_rollback(
    anchor: Anchor, heads: Collection[str], *, entries: int, where: str, source: str
) -> None:
    """Refuse a ledger of so many entries that is shorter than an anchor says, or has none of these hashes where the anchor lies."""
    back = "Put the newer file back. Nothing may be charged to an older copy: what was spent since would be forgotten."
    if anchor.length is not None and anchor.length > entries:
        raise LedgerCorrupted(
            f"The ledger {where} was rolled back: it holds {entries} entries, and {source} was written when it "
            f"held {anchor.length}. {back}"
        )
    if anchor.head not in heads:
        raise LedgerCorrupted(
            f"The ledger {where} was rolled back or replaced: {source} holds {anchor.describe()}, which is not in it. {back}"
        )


def anchor_in(path: Path) -> Anchor:
    """Return the anchor that a file or folder carries.

    Parameters
    ----------
    path
        An anchor file, a certificate, a bundle (folder or zip), or a model file.

    Raises
    ------
    LedgerError
        If it carries none.
    """
    try:
        document = _document(Path(path))
    except FileNotFoundError:
        raise LedgerError(f"There is no file or folder {str(path)!r}.") from None
    except _UNREADABLE:  # decompression and documents of strangers end in errors of many kinds
        document = None
    if document is None:
        raise LedgerError(
            f"{str(path)!r} carries no anchor: it is neither an anchor file, a certificate, a bundle, nor a model file."
        )
    try:
        found = _anchor_of(document)
    except _UNREADABLE as error:
        raise LedgerError(f"{str(path)!r} carries no anchor that can be read: {error}.") from None
    if found is None:
        raise LedgerError(
            f"{str(path)!r} carries no head of a ledger: it is a model of version 0.1.0, or one that a ledger in memory paid "
            "for. Use the certificate of its bundle, or an anchor."
        )
    return found


def anchors_near(places: Iterable[Path]) -> Iterator[tuple[Path, Anchor]]:
    """Return the anchors that lie at some places: each place itself and, if it is a folder, what is directly in it.

    Looks at names first and opens only what is called like an anchor (``*.anchor``), a model (``*.understudy``), a
    bundle (a folder with a certificate, ``*.zip``) or a certificate. What cannot be read is no evidence, and passed over.
    """
    seen: set[Path] = set()
    for place in places:
        for path in (place, *_children(place)):
            if path in seen or not _may_carry(path):
                continue
            seen.add(path)
            try:
                document = _document(path)
                found = None if document is None else _anchor_of(document)
            except (*_UNREADABLE, LedgerError):
                continue
            if found is not None:
                yield path, found


def _children(folder: Path) -> list[Path]:
    try:
        if not folder.is_dir():
            return []
        found = []
        for path in folder.iterdir():
            found.append(path)
            if len(found) == _MOST_FILES:
                break
        return sorted(found)
    except OSError:
        return []


def _may_carry(path: Path) -> bool:
    try:
        if path.is_dir():
            return (path / "certificate.json").is_file()
        named = path.suffix in (".anchor", ".understudy", ".zip") or path.name == "certificate.json"
        return named and path.is_file()
    except OSError:
        return False


def _document(path: Path) -> Mapping[str, Any] | None:
    """Return the document of a file or folder in which an anchor would be; None if there is none."""
    if path.is_dir():
        path = path / "certificate.json"
    if path.exists() and not path.is_file():  # reading a pipe would wait for ever
        return None
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            infos = {info.filename: info for info in archive.infolist()}
            wanted = [
                name
                for name in infos
                if name in ("model.json", "certificate.json")
                or (name.endswith("/certificate.json") and name.count("/") == 1)
            ]
            if len(wanted) != 1 or infos[wanted[0]].file_size > _LARGEST_DOCUMENT:
                return None
            plain = json.loads(archive.read(wanted[0]))
    else:
        if path.stat().st_size > _LARGEST_DOCUMENT:
            return None
        plain = json.loads(path.read_bytes())
    return plain if isinstance(plain, dict) else None


def _anchor_of(document: Mapping[str, Any]) -> Anchor | None:
    """Return the anchor in an anchor file, a certificate or the description of a model."""
    if document.get("format") == FORMAT:
        return Anchor(document["ledger"], document["head"], document.get("length"))
    provenance, ledger = document.get("provenance"), document.get("ledger")
    if isinstance(provenance, Mapping):
        if not provenance.get("ledger_head"):
            return None
        return Anchor(provenance["ledger_id"], provenance["ledger_head"], provenance.get("ledger_length"))
    if isinstance(ledger, Mapping):
        return Anchor(ledger["id"], ledger["head"], ledger.get("length"))
    raise ValueError("no anchor")
