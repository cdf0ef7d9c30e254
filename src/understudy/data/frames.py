"""A file as a pandas frame, for drafting a schema when there is none yet."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.data._csv import CsvStream
from understudy.data._dataset import DatasetStream
from understudy.data._paths import is_csv
from understudy.data._stream import attempt
from understudy.errors import DataError
from understudy.schema.reading import series_of_arrow

if TYPE_CHECKING:
    import pandas as pd


def read_frame(
    path: str | PathLike[str], *, separator: str | None = None, encoding: str | None = None
) -> pd.DataFrame:
    """Read a CSV or Parquet file, or a folder of Parquet files, without a schema.

    Columns of a CSV file come as text, exactly as they stand in the file; an empty field is a missing
    value, and a column without a name is left out. `read_table` is the way to read a table for a curator.

    Parameters
    ----------
    path
        The file or folder.
    separator, encoding
        CSV only, as for `read_table`. Without ``separator``, the header decides.

    Returns
    -------
    pandas.DataFrame
        Every row and column.

    Raises
    ------
    DataError
        If the file cannot be read. The message contains nothing of what the file holds.

    Privacy
    -------
    Out: private, the records themselves.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/t.csv").write_text("code;age\\n007;41\\n")
    ...     read_frame(f"{folder}/t.csv").to_dict("list")
    {'code': ['007'], 'age': ['41']}
    """
    import pyarrow as pa

    source = Path(path)
    if is_csv(source):
        stream = CsvStream(source, None, separator=separator, encoding=encoding or "utf-8")
        names = [name for name in stream.header if name]
        kinds = pa.schema([(name, pa.string()) for name in names])
        table = pa.Table.from_batches(stream.batches(names), kinds)
    else:
        if separator is not None or encoding is not None:
            raise DataError("separator= and encoding= apply to CSV files only; this source is not one.")
        table = DatasetStream.from_paths([source], ()).read_all()
    return _to_frame(table, source.name)


def _to_frame(table: Any, label: str) -> pd.DataFrame:
    import pandas as pd

    def unreadable(error: Exception) -> DataError:
        return DataError(f"{label!r} has a column of a type that pandas cannot hold. Convert it first.")

    columns = attempt(lambda: {name: series_of_arrow(table[name]) for name in table.column_names}, unreadable)
    return pd.DataFrame(columns)
