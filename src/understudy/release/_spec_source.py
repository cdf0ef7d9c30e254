"""Where the private table of a release is, and how its number of rows is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.data import Database, Derived
from understudy.privacy import Unit

__all__ = ["RowCount", "Simulated", "Source"]


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A simulated table instead of a private one."""

    table: str
    rows: int
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the private table is and how it is read.

    Attributes
    ----------
    path, simulated, database
        A file or folder, a simulated table, or a table of a database; none if the table is given when the release
        is run.
    table
        Public name of the table, for the ledger.
    separator, encoding
        For CSV files.
    derived
        Columns computed while reading.
    """

    path: Path | None = None
    simulated: Simulated | None = None
    database: Database | None = None
    table: str = ""
    separator: str | None = None
    encoding: str | None = None
    derived: tuple[Derived, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RowCount:
    """How the number of rows to release is known.

    ``given``: declared public, with its value. ``declared``: declared public whatever it is, read from the
    table. ``measured``: private, measured with Laplace noise for ``epsilon``. ``invariant``: equal in all
    neighbouring tables. ``chosen``: private; the number of synthetic rows was chosen freely.
    """

    kind: Literal["given", "declared", "measured", "invariant", "chosen"]
    value: int | None = None
    epsilon: float = 0.0

    def condition(self, unit: Unit) -> str:
        """Say what the promise presumes because the number of rows was declared public, if it was."""
        if self.kind not in ("given", "declared"):
            return ""
        if unit.relation == "replace-one" and unit.max_rows == 1:
            return (
                "The number of rows is declared public: the promise compares tables with equally many rows."
            )
        return (
            "The number of rows is declared public, and neighbouring tables differ in it: the promise is about "
            "everything else that is released. Two tables with equally many rows that differ in the records of "
            "one unit are two steps apart, which doubles every epsilon (and more than doubles a delta)."
        )

    def words(self) -> str:
        """Say it in one sentence."""
        return {
            "given": f"The number of rows, {self.value or 0:,}, is public; the promise compares tables with equally many.",
            "declared": "The number of rows (after cleaning) is declared to be public, whatever it is; the promise "
            "compares tables with equally many.",
            "measured": f"The number of rows is private and measured with epsilon={self.epsilon:g}.",
            "invariant": "The number of rows is the same in all neighbouring tables.",
            "chosen": f"The number of rows is private; {self.value or 0:,} synthetic rows were asked for.",
        }[self.kind]
