"""Which rows a fit leaves out so that what was learnt can be tested on them: a new division, or that of an earlier fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.data import Database
from understudy.data.holdout import HoldOut
from understudy.data.output import require_writable
from understudy.errors import UsageError
from understudy.privacy import Unit

__all__ = ["describe_hold_out", "divided", "hold_out_file", "keep_hold_out"]


def hold_out_file(asked: float | HoldOut | None, file: Path | None, ledger: Path | None) -> Path | None:
    """Return where share and key of a division are kept: in a file that was named, or beside the ledger."""
    if file is not None and asked is None:
        raise UsageError("A hold-out file goes with a share of rows to hold out (--hold-out, hold_out=).")
    if asked is None or isinstance(asked, HoldOut):
        return None
    if file is not None:
        return file
    return None if ledger is None else ledger.with_suffix(".hold-out")


def divided(
    asked: float | HoldOut | None,
    table: Any,
    unit: Unit,
    kept_at: Path | None,
    *,
    row_count: int | None = None,
) -> HoldOut | None:
    """Return which rows are set aside: an earlier division, or a new one, whose key is drawn here.

    Parameters
    ----------
    asked
        The share of rows, or an earlier division.
    table, unit, row_count
        The table, who is protected, and the number of rows that the schema declares.
    kept_at
        As `hold_out_file` returns it.
    """
    if asked is None:
        return None
    if isinstance(table, Database):
        raise UsageError(
            "Rows of a database have no fixed order to hold some of them out by. Export the table to a file."
        )
    if row_count is not None:
        raise UsageError(
            "The schema declares row_count, the number of rows of the whole table, and a fit with a hold-out reads fewer. Leave row_count out of "
            "the schema for this fit."
        )
    if isinstance(asked, HoldOut):
        found = replace(asked, aside=False)
    elif kept_at is not None and kept_at.exists():
        found = HoldOut.read(kept_at)
        if found.share != asked:
            raise UsageError(
                f"{str(kept_at)!r} holds out {found.share:g} of the rows, and {asked:g} was asked for. Ask for the same share, or keep the new division in "
                "another file (--hold-out-file, hold_out_file=)."
            )
    else:
        if kept_at is not None:
            require_writable(kept_at, what="hold-out file")
        return HoldOut.of(table, asked, id_column=unit.id_column)
    if found.id_column != unit.id_column:
        raise UsageError(
            f"The hold-out divides {_by(found.id_column)}, and the unit protects {_by(unit.id_column)}. Make a hold-out for this unit."
        )
    found.require(table)
    return found


def keep_hold_out(hold_out: HoldOut, kept_at: Path) -> None:
    """Write a new division to its file, or see that the file holds this one: another process may have been first."""
    if not kept_at.exists():
        hold_out.write(kept_at)
    if HoldOut.read(kept_at).fingerprint() != hold_out.fingerprint():
        raise UsageError(
            f"Another fit has just divided the table in another way and keeps that in {str(kept_at)!r}. Nothing was spent. Repeat the command to use the same "
            "division, or keep this one in another file (--hold-out-file, hold_out_file=)."
        )


def _by(id_column: str | None) -> str:
    return "rows" if id_column is None else f"people (by {id_column!r})"


def describe_hold_out(hold_out: HoldOut, kept_at: Path | None) -> str:
    """Say what is held out, and where that is kept."""
    whose = "rows" if hold_out.id_column is None else "people, with all their rows,"
    where = "" if kept_at is None else f" Which ones is told by the private file {str(kept_at)!r} alone."
    return (
        f"About {hold_out.share:.0%} of the {whose} are held out: chosen at random without a look at their values, and not read by the fit. "
        f"The guarantee is about the whole table.{where}"
    )
