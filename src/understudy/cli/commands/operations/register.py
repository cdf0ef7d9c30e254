"""``understudy register``: the ledgers of several tables side by side, for whoever answers for all of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import Against, Json
from understudy.errors import LedgerError, UsageError

PLACES = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Ledgers, and folders that hold some (*.ledger, at any depth); default: this folder."
    ),
]
OUT_CSV = Annotated[
    Path | None, typer.Option("--csv", help="Also write the register as CSV, a line for each release or fit.")
]

COLUMNS = (
    "file", "table", "unit", "budget", "accounting", "total", "spent", "remaining", "entries", "head", "made", "last_charge", "operators", "anchors", "problem",
    "release", "release_cost", "release_charges", "release_last",
    "other_ledgers",
)  # fmt: skip
"""Columns of the CSV file: those of the ledger, then those of one release or fit that it paid for."""


def register(
    places: PLACES = None, against: Against = None, csv_out: OUT_CSV = None, json: Json = False
) -> None:
    """Show the ledgers of several tables side by side.

    A table that is known to have several ledgers is marked: what they promise adds up.
    Budgets, what was spent on which release or fit, and heads. Every ledger is verified, and with --against compared with the anchors of its own (a folder
    stands for the *.anchor files in it). One that cannot be trusted is shown with what is wrong, and the command then ends with exit code 5.
    """
    from understudy.cli.output import print_json, print_table, tell
    from understudy.data.output import require_writable, write_text

    if csv_out is not None:
        require_writable(csv_out, what="register")
    anchors = list(_anchors(against or []))
    files = list(_ledgers(places or [Path()]))
    if not files:
        raise UsageError("No ledger was found (*.ledger). Name ledgers or the folders that hold them.")
    rows = [_row(file, anchors) for file in files]
    names = [row["ledger"] for row in rows if row["ledger"]]
    for row in rows:
        if names.count(row["ledger"]) > 1:
            row["problem"] = (
                row["problem"]
                or "Another file here is a copy of the same ledger: only one of them may be charged."
            )
    _mark_others(rows)
    if csv_out is not None:
        write_text(csv_out, _as_csv(rows))
    if json:
        print_json({"ledgers": rows})
    else:
        print_table(
            "Register",
            (
                "table",
                "file",
                "budget",
                "spent",
                "remaining",
                "releases and fits",
                "last charge (UTC)",
                "head",
            ),
            [
                (
                    f"{row['table']} (+{len(row['other_ledgers'])} other)"
                    if row["other_ledgers"]
                    else row["table"],
                    row["file"],
                    row["budget"],
                    _number(row["spent"]),
                    _number(row["remaining"]),
                    len(row["releases"]),
                    row["last_charge"][:16].replace("T", " "),
                    row["head"][:12],
                )
                for row in rows
            ],
        )
        for row in rows:
            if row["problem"]:
                tell(f"{row['file']}: {row['problem']}")
            if row["other_ledgers"]:
                tell(
                    f"{row['file']}: the table has other ledgers, whose promises add up: {_places(row, rows)}."
                )
        if csv_out is not None:
            tell(f"Wrote {csv_out}.")
    wrong = sum(bool(row["problem"]) for row in rows)
    if wrong:
        raise LedgerError(f"{wrong} of {len(rows)} ledgers cannot be trusted as they are; see above.")


def _ledgers(places: Iterable[Path]) -> Iterator[Path]:
    """Yield every ledger once, in the order of the places and of their names."""
    seen = set()
    for place in places:
        if not place.exists():
            raise UsageError(f"There is no {str(place)!r}.")
        for file in sorted(place.rglob("*.ledger")) if place.is_dir() else [place]:
            if file.is_file() and file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _anchors(places: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
    """Yield the anchors that were kept."""
    from understudy.privacy.ledger.anchors import anchor_in

    for place in places:
        files = sorted(place.rglob("*.anchor")) if place.is_dir() else []
        for path in files or [place]:
            yield path, anchor_in(path)


def _row(file: Path, anchors: list[tuple[Path, Any]]) -> dict[str, Any]:
    """Return what one ledger says, or why it cannot be trusted."""
    from understudy.ledgers import other_ledgers
    from understudy.privacy import Ledger

    row: dict[str, Any] = {
        "file": str(file), "ledger": "", "table": "", "unit": "", "budget": "", "accounting": "", "total": None, "spent": None, "remaining": None,
        "entries": 0, "head": "", "made": "", "last_charge": "", "operators": [], "anchors": 0, "releases": [], "problem": "", "other_ledgers": [],
    }  # fmt: skip
    try:
        with Ledger.open(file) as ledger:
            promise, entries = ledger.guarantee(), list(ledger.entries())
            charges = [entry for entry in entries if entry.event is not None]
            row |= {
                "ledger": ledger.ledger_id,
                "table": ledger.table,
                "unit": ledger.unit.describe(),
                "budget": ledger.budget.describe(),
                "accounting": promise.accounting,
                "total": promise.total,
                "spent": promise.spent[promise.accounting],
                "remaining": promise.remaining,
                "entries": len(entries),
                "head": ledger.head_hash,
                "made": ledger.created,
                "last_charge": charges[-1].time if charges else "",
                "operators": sorted({entry.operator for entry in entries if entry.operator}),
                "releases": _releases(charges, promise.accounting),
                "other_ledgers": sorted(other_ledgers(ledger)),
            }
            ledger.verify()
            for path, anchor in anchors:
                if anchor.ledger_id == ledger.ledger_id:
                    ledger.check_anchor(anchor, source=str(path))
                    row["anchors"] += 1
    except LedgerError as error:
        row["problem"] = str(error)
    return row


def _mark_others(rows: list[dict[str, Any]]) -> None:
    """Let every ledger of a table with several tell of the others; in the files, a ledger may tell of earlier ones only."""
    for row in rows:
        for other in rows:
            if row["ledger"] and row["ledger"] in other["other_ledgers"]:
                row["other_ledgers"] = sorted({*row["other_ledgers"], other["ledger"]})


def _places(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Name the other ledgers of a table by their files where they are here, and by their ids elsewhere."""
    files = {other["ledger"]: other["file"] for other in rows}
    return ", ".join(files.get(name, name) for name in row["other_ledgers"])


def _releases(charges: list[Any], accounting: str) -> list[dict[str, Any]]:
    """Return what was paid for, by the first part of its scope."""
    import math

    found: dict[str, list[Any]] = {}
    for entry in charges:
        found.setdefault((entry.scope or entry.purpose).split("/")[0], []).append(entry)
    return [
        {
            "release": name,
            "cost": cost
            if math.isfinite(cost := math.fsum(entry.costs[accounting] for entry in entries))
            else None,
            "charges": len(entries),
            "last": entries[-1].time,
        }
        for name, entries in found.items()
    ]


def _as_csv(rows: list[dict[str, Any]]) -> str:
    """Return the register as CSV; text that a spreadsheet would take for a formula is quoted with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        for item in row["releases"] or [{}]:
            whole = row | {
                "operators": "; ".join(row["operators"]),
                "other_ledgers": "; ".join(row["other_ledgers"]),
                "release": item.get("release", ""),
                "release_cost": item.get("cost"),
                "release_charges": item.get("charges", 0),
                "release_last": item.get("last", ""),
            }
            writer.writerow([_safe(whole[name]) for name in COLUMNS])
    return text.getvalue()


def _safe(value: Any) -> Any:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
