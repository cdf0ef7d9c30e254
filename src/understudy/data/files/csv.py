"""CSV files, plain or gzipped, read as text and in blocks."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from understudy.data.files.stream import attempt, explain_os_error, file_stamp, guarded, name_problems
from understudy.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = (",", ";", "\t", "|")
_BLOCK_BYTES = 1 << 23
_MAX_HEADER_CHARACTERS = 1 << 22
_MAX_FIELD_CHARACTERS = 131_072
"""Longest name of a column that is read: the limit of Python's own reader where nobody changed it."""
_NOT_CSV = {
    b"PAR1": "is a Parquet file; give it the extension .parquet",
    b"PK\x03\x04": "is a zip archive or a spreadsheet; export it as CSV",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet; export it as CSV",
    b"ARRO": "is an Arrow file; convert it to Parquet",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; use gzip or no compression",
    b"BZh": "is compressed with bzip2; use gzip or no compression",
    b"\xfd7zX": "is compressed with xz; use gzip or no compression",
}
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


class CsvStream:
    """A CSV file as batches of text columns.

    All columns arrive as text, so that ``007`` and ``NA`` keep the meaning the schema gives them; only
    an empty field counts as absent. The header decides the separator: the one under which most columns
    of the schema are found.

    Parameters
    ----------
    path
        The file, ``.csv`` or ``.csv.gz``.
    wanted
        Columns that must be there; others are skipped while reading. None to take what is there.
    separator
        One character, or None to find out.
    encoding
        Name of the text encoding.
    names
        The columns of a file whose first line is a record already, in their order; an empty list numbers them,
        ``column_1`` and so on. None where the first line names the columns. Without a header, fields are separated by commas
        (tabs in ``.tsv`` files) unless ``separator`` says otherwise: a record must not decide how others are read.

    Blanks around fields count, except where blanks follow the separators by the look of the header (``a, b, c``), and
    in a file without a header, where no header can tell: there they are taken away.

    Privacy
    -------
    The header of a file may turn out to be its first record, so messages name the columns of the
    schema that are missing and never what was found instead.
    """

    def __init__(
        self,
        path: Path,
        wanted: Sequence[str] | None,
        *,
        separator: str | None = None,
        encoding: str = "utf-8",
        names: Sequence[str] | None = None,
    ) -> None:
        if separator is not None and len(separator) != 1:
            raise DataError(f"The separator ({separator!r}) must be one character.")
        self.label = path.name
        self._path = path
        self._encoding = _checked_encoding(encoding)
        self._headless = names is not None
        self._may_be_empty = bool(names)  # nobody needs a first line to know the columns
        self._compressed = attempt(self._is_compressed, self._explain)
        self._blank_lines = False
        line, nothing_follows = attempt(self._header_text, self._explain)
        if names is None:
            self._separator, self.header = attempt(
                lambda: _split_header(line, wanted, separator), self._explain
            )
            self._trimmed = _blanks_follow(self.header, wanted)
            if self._trimmed:
                self.header = [name.strip() for name in self.header]
        else:
            self._separator, self.header = attempt(
                lambda: self._number_fields(line, names, separator), self._explain
            )
            self._trimmed = True
        # in a file of one column blank lines are records whose value is missing
        self._header_only = (
            not line
            if self._headless
            else nothing_follows and not (self._blank_lines and len(self.header) == 1)
        )
        self._check_header(wanted or ())

    def stamp(self) -> object:
        """Return size and time of change of the file."""
        return attempt(lambda: file_stamp([self._path]), self._explain)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over blocks of rows with the given columns as text."""
        if self._header_only:
            return iter(())
        return guarded(self._read(list(columns) or [self.header[0]]), self._explain)

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        with pa.OSFile(str(self._path), "rb") as raw:
            source = pa.CompressedInputStream(raw, "gzip") if self._compressed else raw
            # Arrow takes its own copy of the header, so that trimmed and given names reach it as they stand here.
            renamed = self._headless or self._trimmed
            # UTF-8, with or without a mark, Arrow reads by itself; other encodings it hands to Python, from a thread that may outlive what is read here.
            encoding = "utf8" if self._encoding == "utf-8-sig" else self._encoding
            batches = arrow_csv.open_csv(
                source,
                read_options=arrow_csv.ReadOptions(
                    encoding=encoding,
                    block_size=_BLOCK_BYTES,
                    column_names=self.header if renamed else None,
                    skip_rows_after_names=1 if renamed and not self._headless else 0,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._separator,
                    newlines_in_values=True,
                    # in a file of one column an empty line is a record whose value is missing
                    ignore_empty_lines=len(self.header) > 1,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=columns,
                    column_types=dict.fromkeys(columns, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            for batch in batches:
                yield _trim(batch) if self._trimmed else batch

    def _is_compressed(self) -> bool:
        with self._path.open("rb") as file:
            start = file.read(4)
        if not start:
            if self._may_be_empty:
                return False
            raise self._empty()
        for magic, advice in _NOT_CSV.items():
            if start.startswith(magic):
                raise DataError(f"{self.label!r} is named as CSV but {advice}.")
        compressed = start.startswith(b"\x1f\x8b")
        if self._path.suffix == ".gz" and not compressed:
            raise DataError(
                f"{self.label!r} is named as gzip but is not compressed. Remove '.gz' from its name."
            )
        return compressed

    def _header_text(self) -> tuple[str, bool]:
        """Return the text of the first record, and whether nothing follows it."""
        with self._path.open("rb") as raw:
            file: BinaryIO = gzip.GzipFile(fileobj=raw) if self._compressed else raw  # type: ignore[assignment]
            if self._encoding == "utf-8-sig" and file.read(2) in _WIDE_MARKS:
                raise DataError(f"{self.label!r} looks like UTF-16. Read it with encoding='utf-16'.")
            file.seek(0)
            text = io.TextIOWrapper(file, encoding=self._encoding, newline="")
            header = ""
            while line := text.readline(_MAX_HEADER_CHARACTERS):
                header += line
                if len(header) >= _MAX_HEADER_CHARACTERS:
                    raise DataError(f"The first line of {self.label!r} is too long to be a header.")
                if header.strip() and header.count('"') % 2 == 0:
                    break
            if not header.strip():
                if self._may_be_empty:
                    return "", True
                raise self._empty()
            while block := text.read(_MAX_HEADER_CHARACTERS):
                if block.strip():
                    return header, False
                self._blank_lines = True
            return header, True

    def _number_fields(self, line: str, names: Sequence[str], separator: str | None) -> tuple[str, list[str]]:
        """Return the separator of a file without a header, and the names of its columns."""
        given = [str(name) for name in names]
        # One record must not decide how the others are read, so nothing is guessed from the first one.
        fixed = separator or ("\t" if ".tsv" in self._path.suffixes else ",")
        found, fields = _split_header(line, None, fixed)
        if not given:
            if len(fields) == 1 and separator is None and len(_split_header(line, None, None)[1]) > 1:
                raise DataError(
                    f"The first line of {self.label!r} has one field if commas separate them. Name the separator of a file "
                    "without a header (separator=, --separator)."
                )
            return found, [f"column_{place}" for place in range(1, len(fields) + 1)]
        if line and len(fields) != len(given):
            raise DataError(
                f"{len(given)} names were given for {self.label!r}, and its first line has {len(fields)} fields. Name every "
                "column, in the order of the file (names=, --names), and the separator if it is not the comma (separator=, "
                "--separator)."
            )
        if [field.strip() for field in fields] == given:
            raise DataError(
                f"The first line of {self.label!r} holds the names themselves. Read it with its header: leave out names= "
                "(--names, --no-header)."
            )
        return found, given

    def _check_header(self, wanted: Sequence[str]) -> None:
        if wanted and not set(wanted) & set(self.header):
            first = (
                "Give the names that the schema uses (names=, --names)"
                if self._headless
                else "Its first line must name the columns; for a file without such a line give their names (names=, --names)"
            )
            raise DataError(
                f"None of the columns of the schema was found in {self.label!r}. {first}. If the columns are "
                "separated by an unusual character, pass separator= (--separator)."
            )
        problems = name_problems(
            f"The {'names given for' if self._headless else 'header of'} {self.label!r} cannot be used",
            self.header,
            wanted,
        )
        others = [name for name in self.header if name and name not in wanted]
        if len(set(others)) < len(others):
            problems.add(
                f"columns{' that are not in the schema' if wanted else ''} share a name; every column needs its own"
                + ("" if self._headless else " (a file without a header? Give the names: names=, --names)")
            )
        problems.raise_if_any(DataError)

    def _empty(self) -> DataError:
        return DataError(
            f"{self.label!r} is empty. A table needs at least a first line with the names of the columns."
        )

    def _explain(self, error: Exception) -> DataError:
        known = explain_os_error(error, self.label)
        if known is not None:
            return known
        text = str(error).lower()
        if isinstance(error, UnicodeError) or "invalid utf8" in text:
            shown = "UTF-8" if self._encoding == "utf-8-sig" else self._encoding
            return DataError(
                f"{self.label!r} is not valid {shown} text. Pass its encoding, for example "
                "encoding='latin-1' or encoding='cp1252' (--encoding latin-1)."
            )
        if (
            isinstance(error, EOFError | gzip.BadGzipFile | zlib.error)
            or "compressed" in text
            or "zlib" in text
        ):
            return DataError(
                f"{self.label!r} is damaged: its gzip data ends early or does not match its checksum. "
                "Copy or download it again."
            )
        if "columns, got" in text:
            return DataError(
                f"{self.label!r} has a line with more or fewer fields than the header. Quote fields that "
                "contain the separator or a quotation mark, or pass separator= (--separator) if another one is used. "
                "The line is private and not shown."
            )
        if "straddl" in text:
            return DataError(
                f"{self.label!r} has a record of several megabytes, most likely because a quotation mark is "
                "never closed. The record is private and not shown."
            )
        return DataError(f"{self.label!r} cannot be read as CSV. Check that it is complete and well formed.")


def _checked_encoding(encoding: str) -> str:
    import codecs

    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        name = ""
    if not name:
        raise DataError(
            f"No text encoding is named {encoding!r}. Try 'utf-8', 'latin-1', 'cp1252' or 'utf-16'."
        )
    return "utf-8-sig" if name == "utf-8" else name


def _blanks_follow(header: Sequence[str], wanted: Sequence[str] | None) -> bool:
    """Whether a header is written with blanks after its separators, and the schema does not count them as part of names."""
    spaced = len(header) > 1 and all(name[:1] in (" ", "\t") for name in header[1:])
    return spaced and not set(header[1:]) & set(wanted or ())


def _trim(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take the blanks around each field away; a field of nothing else is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for column in batch.columns:
        text = pc.utf8_trim(column, " \t")
        columns.append(pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _split_header(line: str, wanted: Sequence[str] | None, separator: str | None) -> tuple[str, list[str]]:
    """Split the header, under the separator that finds most of the wanted columns, or most columns."""
    candidates = _SEPARATORS if separator is None else (separator,)
    best: tuple[int, str, list[str]] = (-1, candidates[0], [])
    for candidate in candidates:
        fields = next(csv.reader(io.StringIO(line.strip("\r\n"), newline=""), delimiter=candidate), [])
        if any(len(field) > _MAX_FIELD_CHARACTERS for field in fields):
            raise csv.Error(
                "a field of the header is too long"
            )  # whatever other code made of Python's own limit
        # names count with and without the blanks that may follow a separator
        known = {*fields, *(field.strip() for field in fields)}
        found = len(fields) if wanted is None else sum(name in known for name in wanted)
        if found > best[0]:
            best = (found, candidate, fields)
    return best[1], best[2]
