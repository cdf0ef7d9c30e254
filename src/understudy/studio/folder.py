"""The folder of a studio: everything it reads and writes lies in it, and nothing that leads out of it is followed."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy._system import take_lock
from understudy.errors import OutputError, SchemaError, UsageError
from understudy.schema.files.yaml import parse_plain

__all__ = ["MAX_TEXT_BYTES", "Folder", "require_inside", "text_version"]

MAX_TEXT_BYTES = 5 << 20
"""Largest file that is read as text, in bytes."""
_DEPTH = 3
_MOST_FOUND = 500
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")


def text_version(text: str) -> str:
    """Return a short digest of a text: a form remembers which version of a file it was made from."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


_DESCRIPTIONS = ("schema", "facts")
"""What a specification takes from a file of its own, which may name further files."""
_NAMING = (b"lists", b"file", b"schema")
"""Without one of these words a description names no file."""


def require_inside(root: Path, plain: Any, start: Path, *, deep: int = 2) -> None:
    """Refuse a schema, facts or a specification that would have a file read from outside the folder of a studio.

    Lists of values and groups of levels become part of the schema, which is shown, signed and published: a description that came from somebody else must
    not take them from the files of whoever opens it.

    Parameters
    ----------
    root
        The folder.
    plain, start
        The description as plain values, and where names of files in it start.
    deep
        How many descriptions name one another at most: a specification its facts, and these the schema.

    Raises
    ------
    SchemaError
        Naming the file.
    """
    for name in _named(plain):
        if os.path.lexists(start / name) and not (start / name).resolve().is_relative_to(root):
            raise SchemaError(
                f"The file {name!r} lies outside the folder of the studio, which reads nothing from elsewhere: copy it into the folder, and name that."
            )
    for key in _DESCRIPTIONS if deep else ():
        given = plain.get(key) if isinstance(plain, Mapping) else None
        if isinstance(given, str) and (start / given).is_file():
            _require_description(root, start / given, deep - 1)


def _require_description(root: Path, path: Path, deep: int) -> None:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_TEXT_BYTES + 1)
    except OSError:
        return  # whoever reads it says why it cannot be read
    if len(content) <= MAX_TEXT_BYTES and any(word in content for word in _NAMING):
        text, is_json = Folder.text(content, path.name), path.suffix.lower() == ".json"
        plain = parse_plain(text, format="json" if is_json else "yaml")
        require_inside(root, plain, path.parent, deep=deep)


def _named(plain: Any) -> Iterator[str]:
    """Yield the names of the files that are read with a description; those of private tables, which the studio does not open, are none of them, nor is the published bundle of an earlier release."""
    if isinstance(plain, Mapping):
        for key, value in plain.items():
            if key in (*_DESCRIPTIONS, "workload", "measured") and isinstance(value, str):
                yield value
            elif key == "workload" and isinstance(value, list):
                yield from (item for item in value if isinstance(item, str))
            elif key == "lists" and isinstance(value, Mapping):
                yield from (item for item in value.values() if isinstance(item, str))
            elif key == "levels" and isinstance(value, Mapping) and isinstance(value.get("file"), str):
                yield value["file"]
            else:
                yield from _named(value)
    elif isinstance(plain, list):
        for item in plain:
            yield from _named(item)


class Folder:
    """A folder with one schema, designs, signed specifications, ledgers and bundles.

    Parameters
    ----------
    root
        The folder; it has to exist.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise UsageError(
                f"There is no folder {str(root)!r}. Make it first; the studio keeps everything in it."
            )
        self._lock: int | None = None

    # ------------------------------------------------------------------ places

    @property
    def schema(self) -> Path:
        """The schema that all designs share."""
        return self.root / "schema.yaml"

    @property
    def designs(self) -> Path:
        """Where designs are: specifications that are not signed yet."""
        return self.root / "designs"

    @property
    def signed(self) -> Path:
        """Where signed specifications are."""
        return self.root / "signed"

    @property
    def public(self) -> Path:
        """Where tables are that their owner declared public, to rehearse on."""
        return self.root / "public"

    @property
    def hidden(self) -> Path:
        """What the studio keeps for itself: the lock and finished rehearsals."""
        return self.root / ".studio"

    def design(self, name: str) -> Path:
        """Return the file of a design."""
        return self.designs / f"{self.checked(name)}.yaml"

    @staticmethod
    def checked(name: str) -> str:
        """Return a name that a file may have, or refuse it."""
        if _NAME.fullmatch(name) is None:
            raise UsageError(
                f"The name {name[:80]!r} cannot be used: write up to 60 letters, digits, hyphens and underscores, beginning with a letter or digit."
            )
        return name

    def design_names(self) -> list[str]:
        """Return the names of all designs."""
        if not self.designs.is_dir():
            return []
        return sorted(path.stem for path in self.designs.glob("*.yaml") if _NAME.fullmatch(path.stem))

    def inside(self, relative: str) -> Path:
        """Return a path in the folder; refuse one that leads out of it or to something hidden.

        Raises
        ------
        UsageError
            For absolute paths, ``..``, hidden names, links that lead out, and names that no file can have.
        """
        refused = UsageError("There is no such file in the folder of the studio.")
        if not relative or "\0" in relative or "\\" in relative:
            raise refused
        path = Path(relative)
        if path.is_absolute() or any(part == ".." or part.startswith(".") for part in path.parts):
            raise refused
        whole = (self.root / path).resolve()
        if not whole.is_relative_to(self.root) or whole == self.root:
            raise refused
        return whole

    def relative(self, path: Path) -> str:
        """Return how a file of the folder is written in addresses."""
        return path.relative_to(self.root).as_posix()

    # ------------------------------------------------------------------ what lies in it

    def ledgers(self) -> list[Path]:
        """Return the ledgers in the folder and its folders."""
        return [path for path in self._files() if path.suffix == ".ledger"]

    def bundles(self) -> list[Path]:
        """Return the published bundles in the folder and its folders."""
        return [
            path.parent
            for path in self._files()
            if path.name == "MANIFEST.json" and (path.parent / "certificate.json").is_file()
        ]

    def public_tables(self) -> list[str]:
        """Return the names of the files under ``public``."""
        if not self.public.is_dir():
            return []
        kinds = (".csv", ".csv.gz", ".parquet")
        return sorted(
            path.name
            for path in self.public.iterdir()
            if path.is_file() and not path.is_symlink() and path.name.endswith(kinds) and path.name[0] != "."
        )

    def public_folders(self, tables: Sequence[str] = ()) -> list[str]:
        """Return the names of the folders under ``public``; with tables, of those that hold a file for each."""
        if not self.public.is_dir():
            return []
        found = []
        for path in sorted(self.public.iterdir()):
            if path.is_dir() and not path.is_symlink() and path.name[0] != ".":
                files = {
                    item.name.partition(".")[0]
                    for item in path.iterdir()
                    if item.is_file() and not item.is_symlink()
                }
                if files >= set(tables):
                    found.append(path.name)
        return found

    def _files(self) -> Iterator[Path]:
        found = 0
        for place, folders, files in os.walk(self.root, followlinks=False):
            here = Path(place)
            depth = len(here.relative_to(self.root).parts)
            folders[:] = sorted(name for name in folders if not name.startswith(".") and depth < _DEPTH)
            for name in sorted(files):
                path = here / name
                if name.startswith(".") or path.is_symlink() or not path.is_file():
                    continue
                found += 1
                if found > 100 * _MOST_FOUND:
                    return
                yield path

    # ------------------------------------------------------------------ text

    def read(self, path: Path) -> str:
        """Return the text of a file of the folder; empty if there is none.

        Raises
        ------
        SchemaError
            If it is too large or no text, or the name leads out of the folder.
        """
        if not path.resolve().is_relative_to(self.root):
            raise SchemaError(
                f"The file {path.name!r} is a link that leads out of the folder of the studio, which reads nothing from elsewhere: put the file itself there."
            )
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise SchemaError(f"The file {path.name!r} cannot be read: it is no file.")
        try:
            with path.open("rb") as stream:
                content = stream.read(MAX_TEXT_BYTES + 1)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise SchemaError(f"The file {path.name!r} cannot be read: {error.strerror}.") from None
        return self.text(content, path.name)

    @staticmethod
    def text(content: bytes, name: str) -> str:
        """Return bytes as text, or say why they are none."""
        if len(content) > MAX_TEXT_BYTES:
            raise SchemaError(
                f"The file {name!r} is larger than {MAX_TEXT_BYTES >> 20} MB, too large for the studio."
            )
        try:
            return content.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError:
            raise SchemaError(f"The file {name!r} is not UTF-8 text.") from None

    def make(self, place: Path) -> None:
        """Make a folder of the folder, unless it is there."""
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"The folder {place.name!r} cannot be made: {error.strerror}.") from None

    def write(self, path: Path, text: str) -> None:
        """Write a file of the folder, whole or not at all."""
        if not path.parent.resolve().is_relative_to(self.root):
            raise OutputError(f"The file {path.name!r} would lie outside the folder of the studio.")
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=f".{path.name}.", delete=False
            ) as stream:
                temporary = stream.name
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except OSError as error:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            raise OutputError(f"The file {path.name!r} cannot be written: {error.strerror}.") from None

    # ------------------------------------------------------------------ one studio at a time

    def lock(self, address: str) -> None:
        """Keep other studios out of the folder until this process ends.

        Raises
        ------
        UsageError
            If one is open on the folder already; the message says where.
        """
        try:
            self.hidden.mkdir(exist_ok=True)
            descriptor = os.open(self.hidden / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise OutputError(f"The studio cannot write to {str(self.root)!r}: {error.strerror}.") from None
        if not take_lock(descriptor):
            other = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
            os.close(descriptor)
            raise UsageError(
                f"Another studio is open on {str(self.root)!r}{f', at {other}' if other else ''}. Two would overwrite each other's files: use that one "
                "(several tabs are fine), or stop it first."
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, address.encode("utf-8"), 0)
        self._lock = descriptor

    def unlock(self) -> None:
        """Let other studios in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
