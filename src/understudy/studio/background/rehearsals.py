"""Rehearsals of designs in processes of their own: started, watched, cancelled, and kept by what they rehearse.

A finished rehearsal is found again by the digest of its specification and table, so that going back to an earlier design shows its numbers at once. Trials are
kept one by one: a rehearsal that was cancelled goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from understudy.datasets import names
from understudy.errors import UsageError
from understudy.release.rehearsal.rehearsal import require_not_private
from understudy.release.spec.spec import Spec
from understudy.studio.background.jobs import Jobs
from understudy.studio.designs.specification import fit_key
from understudy.studio.folder import Folder

__all__ = ["Found", "Rehearsals", "Table"]

_AT_ONCE = 2
REGISTER = "patient_register"
"""The simulated linked tables, beside the single tables of `understudy.datasets.names`."""
FACTORS = (0.25, 0.5, 2.0, 4.0)
"""Of the total epsilon, rehearsed beside it for the frontier."""


@dataclass(frozen=True)
class Table:
    """The public table that a design is rehearsed on.

    Attributes
    ----------
    kind
        ``made-up`` (drawn from the schema alone), ``simulated`` (one of Understudy's) or ``public`` (a file under ``public``, which its owner declares
        public by putting it there).
    name
        Of the simulated table or of the file.
    rows
        How many rows, or entities of linked tables; None for a file.
    linked
        Whether the schema describes linked tables.
    """

    kind: str
    name: str = ""
    rows: int | None = None
    linked: bool = False

    @classmethod
    def parse(cls, text: str, rows: int | None, folder: Folder, *, linked: bool = False) -> Table:
        """Read the choice of a form: ``made-up``, ``simulated:births`` or ``public:file.csv``."""
        kind, _, name = text.partition(":")
        if kind == "made-up" and not name:
            return cls("made-up", "", rows, linked)
        if kind == "simulated" and name in (*names(), REGISTER):
            return cls("simulated", name, rows)
        if kind == "public" and name in (*folder.public_tables(), *folder.public_folders()):
            return cls("public", name, None)
        raise UsageError("There is no such table to rehearse on.")

    @property
    def text(self) -> str:
        """As a form says it."""
        return f"{self.kind}:{self.name}" if self.name else self.kind

    def describe(self) -> str:
        """Say what it is."""
        if self.kind == "public":
            return f"the public table {self.name}"
        if self.name == REGISTER:
            return f"{self.rows or 0:,} entities of the simulated tables {self.name}"
        what = "made up from the schema" if self.kind == "made-up" else f"of the simulated table {self.name}"
        return f"{self.rows or 0:,} {'entities' if self.linked else 'rows'} {what}"


@dataclass(frozen=True)
class Found:
    """What a rehearsal found; ``exact`` if it is of just this design, otherwise of one that differs in thresholds alone."""

    key: str
    result: Mapping[str, Any]
    exact: bool


class Rehearsals(Jobs):
    """The rehearsals of a folder."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder, kind="rehearsals", at_once=_AT_ONCE)

    @staticmethod
    def key(spec: Spec, table: Table) -> str:
        """Return the name of a rehearsal: its fit, then all of it."""
        thresholds = [(item.name, item.threshold) for item in spec.criteria]
        rest = [thresholds, spec.false_accept, spec.to_dict().get("output"), table.text, table.rows]
        whole = json.dumps([fit_key(spec), *rest])
        return f"{fit_key(spec)}-{_digest(table.text, table.rows)}-{hashlib.sha256(whole.encode()).hexdigest()[:24]}"

    def start(self, spec: Spec, table: Table, *, trials: int, frontier: bool = True) -> str:
        """Begin a rehearsal, unless it is running, and return its name.

        Raises
        ------
        DataError
            If the table is the one that the design calls private.
        """
        if table.kind == "public":  # the job is not told where the private table is
            require_not_private(spec, self.folder.public / table.name)
        key = self.key(spec, table)
        begun = self.begin(
            key,
            {
                "spec": spec.to_dict(),
                "source": {} if spec.source.simulated is None else spec.source.simulated.model_dump(),
                "table": {
                    "kind": table.kind,
                    "name": table.name,
                    "rows": table.rows,
                    "linked": table.linked,
                },
                "trials": trials,
                "factors": list(FACTORS) if frontier else [],
                "where": str(self.folder.designs),
                "public": str(self.folder.public),
            },
        )
        if not begun:
            raise UsageError(
                f"{_AT_ONCE} rehearsals are running already. Wait for one, or cancel it; what it has done so far is kept."
            )
        return key

    def find(self, spec: Spec, table: Table) -> Found | None:
        """Return what is known about a design: of itself, or else of one with other thresholds."""
        key = self.key(spec, table)
        exact = self._result(key)
        if exact is not None:
            return Found(key, exact, True)
        for other in sorted(self._root.glob(f"{key[:-25]}-*/result.json")) if self._root.is_dir() else ():
            found = self._result(other.parent.name)
            if found is not None:
                return Found(other.parent.name, found, False)
        return None

    def _result(self, key: str) -> Mapping[str, Any] | None:
        found = super()._result(key)
        return found if found is not None and found.get("points") else None


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
