"""Where the private table of a release is, and how its number of rows is known."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from understudy.data import Database, Derived
from understudy.data.linked import LinkedTables
from understudy.ledgers import ledger_name
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.release.spec.parts import Part

__all__ = ["RowCount", "SimulatePart", "Source", "rows_share"]


class SimulatePart(Part):
    """A simulated table instead of a file."""

    table: str = Field(description="Name of the simulated table, such as births.")
    rows: Annotated[int, Field(ge=0)] = Field(description="Number of rows.")
    seed: Annotated[int, Field(ge=0)] = Field(0, description="Seed of the simulation.")


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
    separator, encoding, names
        For CSV files.
    derived
        Columns computed while reading.
    linked
        Linked tables, where the schema describes such.
    """

    path: Path | None = None
    simulated: SimulatePart | None = None
    database: Database | None = None
    table: str = ""
    separator: str | None = None
    encoding: str | None = None
    names: tuple[str, ...] | None = None
    derived: tuple[Derived, ...] = ()
    linked: LinkedTables | None = None

    @property
    def private(self) -> Any:
        """What holds the private table, or None if it is given when the release is run (or simulated)."""
        return self.path or self.database or self.linked

    def places(self, folder: Path) -> dict[str, str]:
        """Return where the private tables are, in words, by their names; files in ``folder`` from there. Empty if that is said when the release is run."""
        places = dict(self.linked.tables) if self.linked is not None else {self.table: self.private}
        found = {}
        for name, place in places.items():
            if isinstance(place, Database):  # an address that holds a password is no `Database`
                found[name] = f"{place.table} in {place.url}"
            elif place is not None:
                path, root = Path(os.path.abspath(place)), Path(os.path.abspath(folder))
                found[name] = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        return found

    def ledger_file(self, name: str) -> str:
        """Return what to call the file of a ledger: after the table, which has one; after ``name`` where it has no name, or is simulated."""
        table = "" if self.simulated is not None else self.table
        return f"{ledger_name(table or name)}.ledger"

    @property
    def reading(self) -> dict[str, Any]:
        """How a CSV file is written, as `read_table` takes it."""
        return {"separator": self.separator, "encoding": self.encoding, "names": self.names}


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

    def words(self) -> str:
        """Say it in one sentence."""
        return {
            "given": f"The number of rows, {self.value or 0:,}, is declared to be public.",
            "declared": "The number of rows (after cleaning) is declared to be public, whatever it is.",
            "measured": f"The number of rows is private and measured with epsilon={self.epsilon:g}.",
            "invariant": "The number of rows is the same in all neighbouring tables.",
            "chosen": f"The number of rows is private; {self.value or 0:,} synthetic rows were asked for.",
        }[self.kind]


def rows_share(total: Budget) -> float:
    """Return the epsilon that measuring the number of rows costs where a specification does not say.

    A fiftieth of the epsilon of the total (of its mu, or of the mu that its rho is), and no more than 0.02: Laplace noise with a deviation of some
    seventy rows where one unit is one row. It depends on the total alone, so it is public.

    Examples
    --------
    >>> from understudy.privacy import PureDP
    >>> rows_share(PureDP(4.0)), rows_share(PureDP(0.5))
    (0.02, 0.01)
    """
    if isinstance(total, ZCDP):
        size = math.sqrt(2 * total.rho)
    elif isinstance(total, GDP):
        size = total.mu
    else:
        assert isinstance(total, PureDP | ApproxDP)
        size = total.epsilon
    return min(0.02, float(f"{size / 50:.4g}"))
