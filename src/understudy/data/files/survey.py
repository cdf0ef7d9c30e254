"""Files of statistics packages: Stata, SPSS and SAS, with the labels of their codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.data.files.stream import attempt, explain_os_error
from understudy.errors import DataError, MissingExtra

if TYPE_CHECKING:
    import pandas as pd

SURVEY_SUFFIXES = (".dta", ".sav", ".zsav", ".por", ".sas7bdat", ".xpt")
_READERS = {
    ".dta": "read_dta",
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


@dataclass(frozen=True, eq=False)
class Described:
    """A table with what its file says about its columns.

    Attributes
    ----------
    frame
        The records. Private.
    labels
        What codes mean, by column.
    descriptions
        What columns are.
    """

    frame: pd.DataFrame = field(repr=False)
    labels: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)


def is_survey(path: Path) -> bool:
    """Say whether a path is that of a Stata, SPSS or SAS file.

    Examples
    --------
    >>> is_survey(Path("wave1.SAV")), is_survey(Path("wave1.csv"))
    (True, False)
    """
    return path.name.lower().endswith(SURVEY_SUFFIXES)


def read_survey(path: Path) -> Described:
    """Read a Stata, SPSS or SAS file. Codes stay codes; entries that the file declares missing are missing.

    Labels of a SAS file are in a catalogue of its own: one beside the file with the same name and the ending
    ``.sas7bcat`` is read too.

    Raises
    ------
    MissingExtra
        If pyreadstat is not installed.
    DataError
        If the file cannot be read. The message contains nothing of what it holds.

    Privacy
    -------
    Out: private, the records themselves.
    """
    try:
        import pyreadstat
    except ImportError:
        raise MissingExtra(
            f"Reading {path.name!r} needs the optional extra: pip install 'understudy[survey]' (pyreadstat)."
        ) from None

    def unreadable(error: Exception) -> DataError:
        return explain_os_error(error, path.name) or DataError(
            f"{path.name!r} cannot be read as a {path.suffix.lower()} file. Check that it is complete, or export it as CSV."
        )

    attempt(path.stat, unreadable)
    reader: Callable[..., Any] = getattr(pyreadstat, _READERS[path.suffix.lower()])
    catalogue = path.with_suffix(".sas7bcat")
    options = (
        {"catalog_file": str(catalogue)} if reader.__name__ == "read_sas7bdat" and catalogue.exists() else {}
    )
    frame, meta = attempt(lambda: reader(str(path), **options), unreadable)
    labels = {
        str(name): {code: str(text) for code, text in codes.items()}
        for name, codes in (meta.variable_value_labels or {}).items()
    }
    descriptions = {
        str(name): str(text) for name, text in (meta.column_names_to_labels or {}).items() if text
    }
    return Described(frame, labels, descriptions)
