"""Account for every byte of a ledger file.

The hash chain protects what the lines *say*. A database file holds more than that: counters, page headers,
pointers, unused space. A ledger is only ever appended to, so its file has one possible layout once its lines
and their distribution over pages are known. This module reads the raw image without SQLite's help, rebuilds
each page from what it read, and compares. A byte that differs, wherever it is, is an error.

Where the layout comes from (https://www.sqlite.org/fileformat2.html): rows arrive in rising order, so each
page is filled from its end downwards in that order, a full page is never touched again, and, with
``secure_delete`` on, unused space is zero. Only one place escapes: once the tree has two levels of index
pages (some tens of thousands of lines), SQLite rearranges index pages when one overflows and may leave old
bytes in their unused space. Index pages of such deep trees are checked for meaning, not for unused bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.privacy.ledger.format import APPLICATION_ID, FORMATS, PAGE_SIZE, SCHEMA

__all__ = ["Image", "ImageError", "Line", "read_image"]

Line = tuple[int, bytes, bytes]
"""Sequence number, text and hash."""

_MAGIC = b"SQLite format 3\x00"
_SCHEMA_FORMAT = 4
_DEEPEST = 20
_LEAF, _INDEX = 13, 5


class ImageError(ValueError):
    """The image is not what a ledger with these lines looks like."""


@dataclass(frozen=True, slots=True)
class Image:
    """What was read: the lines, the version of the SQLite library that wrote last, and the format of the file."""

    lines: list[Line]
    writer: int
    format: int


def read_image(image: bytes) -> Image:
    """Return the lines of a ledger file, having checked every byte of it.

    Raises
    ------
    ImageError
        If any byte differs from what the lines imply.
    """
    try:
        return _Reader(image).read()
    except (IndexError, OverflowError) as error:
        raise ImageError("a page points outside the file") from error


class _Reader:
    def __init__(self, image: bytes) -> None:
        self.image = image
        self.pages = len(image) // PAGE_SIZE
        self.seen: set[int] = set()

    def read(self) -> Image:
        if self.pages < 2 or len(self.image) != self.pages * PAGE_SIZE:
            raise ImageError("the file is not a whole number of pages")
        writer = self._file_header()
        self._schema()
        lines: list[Line] = []
        depth = self._depth(2)
        self._tree(2, depth, lines, exact=depth <= 2)
        if [line[0] for line in lines] != list(range(len(lines))):
            raise ImageError("lines are missing or out of order")
        if len(self.seen) != self.pages:
            raise ImageError("the file has pages that hold no line")
        return Image(lines, writer, int.from_bytes(self.image[60:64], "big"))

    def _page(self, number: int) -> bytes:
        if not 1 <= number <= self.pages or number in self.seen:
            raise ImageError(f"page {number} does not exist or is used twice")
        self.seen.add(number)
        return self.image[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]

    def _file_header(self) -> int:
        """Check the first 100 bytes; return the version number of the library that wrote last."""
        counter, writer, format_number = self.image[24:28], self.image[96:100], self.image[60:64]
        expected = b"".join(
            (
                _MAGIC,
                PAGE_SIZE.to_bytes(2, "big"),
                bytes((1, 1, 0, 64, 32, 32)),  # rollback journal, no reserved space, fixed payload fractions
                counter,
                self.pages.to_bytes(4, "big"),
                bytes(8),  # no free pages
                len(SCHEMA).to_bytes(4, "big"),  # schema cookie: one step per statement
                _SCHEMA_FORMAT.to_bytes(4, "big"),
                bytes(8),
                (1).to_bytes(4, "big"),  # UTF-8
                format_number,
                bytes(4),
                APPLICATION_ID.to_bytes(4, "big"),
                bytes(20),
                counter,  # "version valid for": equals the change counter
                writer,
            )
        )
        if self.image[:100] != expected or int.from_bytes(format_number, "big") not in FORMATS:
            raise ImageError("the file header was changed")
        return int.from_bytes(writer, "big")

    def _schema(self) -> None:
        cells = [_leaf_cell(_record([*row]), rowid) for rowid, row in enumerate(SCHEMA, start=1)]
        if self._page(1) != _rebuilt(self.image[:100], _LEAF, cells):
            raise ImageError("the table definitions were changed")

    def _depth(self, number: int) -> int:
        """Return the number of levels of the tree under a page, by walking down its right edge."""
        for depth in range(1, _DEEPEST):
            if not 1 <= number <= self.pages:
                break
            start = (number - 1) * PAGE_SIZE
            if self.image[start] != _INDEX:
                return depth
            number = int.from_bytes(self.image[start + 8 : start + 12], "big")
        raise ImageError("the tree of pages is broken")

    def _tree(self, number: int, depth: int, lines: list[Line], *, exact: bool) -> None:
        page = self._page(number)
        kind, offsets = page[0], _pointers(page, 12 if depth > 1 else 8)
        if kind != (_INDEX if depth > 1 else _LEAF) or not offsets:
            raise ImageError(f"page {number} is of the wrong kind")
        if depth == 1:
            cells = [self._line(page, offset, lines) for offset in offsets]
            if page != _rebuilt(b"", _LEAF, cells):
                raise ImageError(f"page {number} was changed outside its lines")
            return
        cells = []
        for offset in offsets:
            child = int.from_bytes(page[offset : offset + 4], "big")
            key, end = _varint(page, offset + 4)
            self._tree(child, depth - 1, lines, exact=exact)
            if key != lines[-1][0]:
                raise ImageError(f"page {number} is indexed wrongly")
            cells.append(page[offset:end])
        self._tree(int.from_bytes(page[8:12], "big"), depth - 1, lines, exact=exact)
        if exact and page != _rebuilt(b"", _INDEX, cells, right=page[8:12]):
            raise ImageError(f"page {number} was changed outside its index")

    def _line(self, page: bytes, offset: int, lines: list[Line]) -> bytes:
        """Read one line at an offset, append it, and return the bytes its cell must have."""
        size, cursor = _varint(page, offset)
        rowid, cursor = _varint(page, cursor)
        local = _local(size)
        payload, overflow = page[cursor : cursor + local], b""
        if local < size:
            overflow = page[cursor + local : cursor + local + 4]
            payload += self._overflow(int.from_bytes(overflow, "big"), size - local)
        body, digest = _fields(payload)
        lines.append((rowid, body, digest))
        record = _record([None, body.decode("utf-8", "surrogateescape"), digest])
        if record != payload or len(record) != size:
            raise ImageError(f"line {rowid} is stored in an unusual way")
        return _encode(size) + _encode(rowid) + record[:local] + overflow

    def _overflow(self, number: int, size: int) -> bytes:
        """Read the rest of a long line from its chain of overflow pages."""
        parts = []
        while size > 0:
            page = self._page(number)
            number = int.from_bytes(page[:4], "big")
            part, rest = page[4 : 4 + size], page[4 + size :]
            if any(rest):
                raise ImageError("an overflow page was changed outside its line")
            parts.append(part)
            size -= len(part)
        if number:
            raise ImageError("an overflow chain is too long")
        return b"".join(parts)


def _local(size: int) -> int:
    """Return how many bytes of a payload stay on the page."""
    if size <= PAGE_SIZE - 35:
        return size
    least = (PAGE_SIZE - 12) * 32 // 255 - 23
    wanted = least + (size - least) % (PAGE_SIZE - 4)
    return wanted if wanted <= PAGE_SIZE - 35 else least


def _pointers(page: bytes, header: int) -> list[int]:
    count = int.from_bytes(page[3:5], "big")
    return [int.from_bytes(page[i : i + 2], "big") for i in range(header, header + 2 * count, 2)]


def _rebuilt(prefix: bytes, kind: int, cells: Sequence[bytes], *, right: bytes = b"") -> bytes:
    """Return the page that holds these cells and nothing else, filled from its end downwards."""
    offset, pointers = PAGE_SIZE, []
    for cell in cells:
        offset -= len(cell)
        pointers.append(offset)
    head = prefix + bytes((kind, 0, 0)) + len(cells).to_bytes(2, "big") + offset.to_bytes(2, "big")
    head += bytes(1) + right + b"".join(pointer.to_bytes(2, "big") for pointer in pointers)
    return head + bytes(offset - len(head)) + b"".join(reversed(cells))


def _leaf_cell(record: bytes, rowid: int) -> bytes:
    return _encode(len(record)) + _encode(rowid) + record


def _fields(payload: bytes) -> tuple[bytes, bytes]:
    """Return the text and the hash of a stored line (its first column is the row number, stored as NULL)."""
    length, cursor = _varint(payload, 0)
    types = []
    while cursor < length:
        kind, cursor = _varint(payload, cursor)
        types.append(kind)
    if len(types) != 3 or types[0] != 0 or types[1] < 13 or types[1] % 2 == 0 or types[2] != 76:
        raise ImageError("a line does not consist of a text and a hash")
    text = (types[1] - 13) // 2
    return payload[length : length + text], payload[length + text :]


def _record(values: Sequence[str | bytes | int | None]) -> bytes:
    """Encode a row the way SQLite does."""
    kinds, contents = [], []
    for value in values:
        if value is None:
            kind, content = 0, b""
        elif isinstance(value, int):
            kind, content = (8 + value, b"") if value in (0, 1) else (1, value.to_bytes(1, "big"))
        elif isinstance(value, bytes):
            kind, content = 12 + 2 * len(value), value
        else:
            content = value.encode("utf-8", "surrogateescape")
            kind = 13 + 2 * len(content)
        kinds.append(_encode(kind))
        contents.append(content)
    head = b"".join(kinds)
    # the length counts itself; with at most five short columns it fits in one byte
    return _encode(len(head) + 1) + head + b"".join(contents)


def _varint(data: bytes, cursor: int) -> tuple[int, int]:
    """Decode SQLite's variable-length integer; return it and the position after it."""
    value = 0
    for _ in range(8):
        byte = data[cursor]
        cursor += 1
        value = value << 7 | byte & 127
        if byte < 128:
            return value, cursor
    return value << 8 | data[cursor], cursor + 1


def _encode(value: int) -> bytes:
    if value >= 1 << 56:
        raise ImageError("a number is too large")
    groups = [value & 127]
    while value > 127:
        value >>= 7
        groups.append(value & 127 | 128)
    return bytes(reversed(groups))
