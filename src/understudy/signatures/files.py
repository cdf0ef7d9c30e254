"""Statement files: where they lie beside what they are about."""

from __future__ import annotations

import glob
from pathlib import Path

from understudy.data import sync
from understudy.errors import OutputError, SignatureError
from understudy.signatures.keys import fingerprint_of
from understudy.signatures.statement import LARGEST, Statement, parse_statement

__all__ = ["read_statement", "statement_files", "statements_beside", "write_statement"]

_NAMES = {"approved": "approval", "signed": "signature"}
_MOST = 1000


def read_statement(path: Path) -> Statement:
    """Read a statement file; whether its signature holds is `Statement.holds`.

    Raises
    ------
    SignatureError
        If there is none, or it is cut off, damaged or something else.
    """
    try:
        if not path.is_file():  # reading a pipe would wait for ever
            raise SignatureError(f"There is no statement file {str(path)!r}.")
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
        return parse_statement(content)
    except OSError as error:
        raise SignatureError(
            f"The statement file {str(path)!r} cannot be read: {error.strerror or error}."
        ) from None
    except SignatureError as error:
        if "There is no" in str(error):
            raise
        raise SignatureError(f"The statement file {str(path)!r} cannot be used. {error}") from None


def statement_files(path: Path) -> tuple[Path, ...]:
    """Return the statement files beside a file or folder: ``PATH.approval-*.json`` and ``PATH.signature-*.json``."""
    place = _named(path)
    found: list[Path] = []
    for kind in _NAMES.values():
        found += place.parent.glob(f"{glob.escape(place.name)}.{kind}-*.json")
    return tuple(sorted(found))


def statements_beside(path: Path) -> tuple[tuple[Path, Statement], ...]:
    """Return the statements that lie beside a file or folder, with their files.

    Raises
    ------
    SignatureError
        If one of them cannot be used: a damaged approval is not passed over.
    """
    return tuple((item, read_statement(item)) for item in statement_files(path))


def write_statement(statement: Statement, path: Path) -> Path:
    """Write a statement beside what it is about and return the file; an earlier one about another version is replaced."""
    place = _named(path)
    mark = statement.role.replace(" ", "-")
    if not mark:
        mark = "typed" if statement.signature is None else fingerprint_of(statement.signature.key)[:12]
    for number in range(1, _MOST):
        more = "" if number == 1 else f"-{number}"
        target = place.with_name(f"{place.name}.{_NAMES[statement.meaning]}-{mark}{more}.json")
        if target.exists() and not _replaceable(target, statement):
            continue
        temporary = target.with_name(f".{target.name}.part")
        try:
            temporary.write_text(statement.to_text(), encoding="ascii")
            sync(temporary)
            temporary.replace(target)
            sync(target.parent)
        except OSError as error:
            raise OutputError(
                f"The statement cannot be written to {str(target)!r}: {error.strerror or error}."
            ) from None
        return target
    raise OutputError(f"Too many statements lie beside {str(place)!r}.")


def _replaceable(target: Path, statement: Statement) -> bool:
    """Say whether the statement in a file is out of date or the same person's."""
    try:
        earlier = read_statement(target)
    except SignatureError:
        return False
    return earlier.hash != statement.hash or (earlier.name, earlier.role) == (statement.name, statement.role)


def _named(path: Path) -> Path:
    """Return a path that ends in a name, whatever way it was given: ``.`` and ``bundle/`` are folders."""
    return path if path.name not in ("", "..") else path.resolve()
