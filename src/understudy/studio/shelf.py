"""Shelf: the ledgers of a folder as bars of budget, its releases with their reports, verification by a click, two bundles side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from understudy.errors import BundleError, UnderstudyError, UsageError
from understudy.privacy import Ledger
from understudy.release.agreement import Agreement
from understudy.release.bundle.verify import verify_bundle
from understudy.release.series.compare import TablesCompared, compare_sides, explanation, side_of
from understudy.release.signing import approvals_of, bundle_subject, check_statements
from understudy.report.pictures import Share, budget_bar
from understudy.studio.desk import Desk, Form

__all__ = ["changes", "compare", "file", "home", "ledger", "release", "shelf", "verify"]

_SHOWN = {"report.html", "README.html", "dictionary.html"}
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Of pages that a bundle brings along: they run, as from a file, apart from the studio. Their own policy, which is narrower, holds as well."""
_LARGEST_DOCUMENT = 64 << 20
_MOST_CHANGES = 10


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """A ledger as its page shows it; ``problem`` if it cannot be opened."""

    path: str
    table: str = ""
    promise: str = ""
    unit: str = ""
    spent: str = ""
    used: float = 0.0
    picture: str = ""
    lines: Sequence[str] = ()
    entries: Sequence[Mapping[str, Any]] = ()
    invariants: Sequence[str] = ()
    totals: Sequence[str] = ()
    problem: str = ""


def _ledger(desk: Desk, path: Path) -> LedgerView:
    name = desk.folder.relative(path)
    try:
        with Ledger.open(path, timeout=1.0) as ledger:
            promise, accounting = ledger.guarantee(), ledger.guarantee().accounting
            entries = [entry.to_dict() for entry in ledger.entries()]
            sums: dict[str, float] = {}
            for entry in entries:
                cost = (entry.get("costs") or {}).get(accounting)
                if cost is not None:
                    part = (str(entry["scope"]) or str(entry["purpose"])).split("/")[0]
                    sums[part] = sums.get(part, 0.0) + float(cost)
            symbol = ledger.accounting.symbol
            largest = sorted(sums, key=lambda part: -sums[part])
            shares = [Share(part, sums[part]) for part in largest[:7]]
            if len(largest) > 7:
                shares.append(
                    Share(f"{len(largest) - 7} more", math.fsum(sums[part] for part in largest[7:]))
                )
            return LedgerView(
                path=name,
                table=ledger.table,
                promise=ledger.budget.describe(),
                unit=ledger.unit.describe(),
                spent=f"{symbol} {promise.total - promise.remaining:.4g} of {promise.total:.4g}",
                used=min(1.0, max(0.0, 1 - promise.remaining / promise.total)) if promise.total else 0.0,
                picture=budget_bar(shares, total=promise.total, symbol=symbol),
                lines=promise.describe().split("\n"),
                entries=[
                    {
                        "number": entry["sequence"],
                        "time": str(entry["time"])[:19].replace("T", " "),
                        "kind": entry["kind"],
                        "scope": entry["scope"],
                        "purpose": entry["purpose"],
                        "cost": _number((entry.get("costs") or {}).get(accounting)),
                    }
                    for entry in entries
                ],
                invariants=[
                    item.describe() + (f" (accepted by {item.accepted_by})" if item.accepted_by else "")
                    for item in ledger.invariants()
                ],
                totals=[
                    f"{change.budget.describe()}, from entry {change.sequence}"
                    + (f", decided by {change.who}: {change.why}" if change.who else "")
                    for change in ledger.totals()
                ],
            )
    except UnderstudyError as error:
        return LedgerView(path=name, problem=str(error))


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"


@dataclass(frozen=True, kw_only=True)
class BundleView:
    """A release as its page shows it, from its certificate; ``problem`` if that cannot be read."""

    path: str
    title: str = ""
    description: str = ""
    guarantee: str = ""
    condition: str = ""
    rows: int = 0
    method: str = ""
    finished: str = ""
    software: str = ""
    ledger: str = ""
    criteria: Sequence[Sequence[str]] = ()
    columns: Sequence[str] = ()
    facts: str = ""
    choices: str = ""
    files: Sequence[str] = ()
    approvals: Sequence[str] = ()
    agreement: Agreement | None = None
    problem: str = ""


def _bundle(desk: Desk, path: Path) -> BundleView:
    name = desk.folder.relative(path)
    try:
        certificate, spec = _document(path / "certificate.json"), _document(path / "spec.json")
        configuration = _document(path / "configuration.json")
        promised = certificate["guarantee"]
        return BundleView(
            path=name,
            title=str(spec.get("title") or certificate["name"]),
            description=str(spec.get("description") or "").strip(),
            guarantee=str(promised["words"]),
            condition=str(promised.get("condition", "")),
            rows=int(certificate["rows"]),
            method=str(configuration["name"]),
            finished=str(certificate["finished"]),
            software=str(certificate["software"]),
            ledger=f"{certificate['ledger']['table']}, {int(certificate['ledger']['length'])} entries",
            criteria=[_criterion(item) for item in certificate["criteria"]],
            columns=[str(column["name"]) for column in spec["schema"]["columns"]],
            facts=str(certificate.get("facts_fingerprint", "")),
            choices=str(certificate.get("choices_fingerprint", "")),
            files=sorted(item.name for item in path.iterdir() if item.is_file()),
            approvals=[item.describe() for item in approvals_of(certificate)],
            agreement=Agreement.from_dict(certificate["agreement"]) if "agreement" in certificate else None,
        )
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        UnderstudyError,
    ) as error:
        return BundleView(path=name, problem=f"It cannot be read as a bundle: {type(error).__name__}.")


def _document(path: Path) -> dict[str, Any]:
    if path.is_symlink() or path.stat().st_size > _LARGEST_DOCUMENT:
        raise ValueError("not a document of a bundle")
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError("not a document of a bundle")
    return found


def _criterion(item: Mapping[str, Any]) -> list[str]:
    unit = f" {item['unit']}" if item.get("unit") else ""
    value = item.get("value")
    met = "met" if item["passed"] else "not met"
    return [
        str(item["type"]),
        str(item["metric"]),
        f"{item['threshold']:g}{unit}",
        met if value is None else f"{value:.4g}{unit}",
    ]


# ---------------------------------------------------------------------- pages


def home(desk: Desk, request: Request) -> Response:
    """Show where one stands: the schema, the designs, what was signed, what was released."""
    folder = desk.folder
    return desk.render(
        "home.html",
        here="home",
        folder=folder.root.name,
        has_schema=folder.schema.is_file(),
        designs=folder.design_names(),
        signed=sorted(path.name for path in folder.signed.iterdir() if (path / "spec.yaml").is_file())
        if folder.signed.is_dir()
        else [],
        ledgers=len(folder.ledgers()),
        bundles=len(folder.bundles()),
    )


def shelf(desk: Desk, request: Request) -> Response:
    """List ledgers and releases."""
    return desk.render(
        "shelf.html",
        here="shelf",
        ledgers=[_ledger(desk, path) for path in desk.folder.ledgers()],
        bundles=[_bundle(desk, path) for path in desk.folder.bundles()],
    )


def ledger(desk: Desk, request: Request) -> Response:
    """Show one ledger with its entries."""
    path = desk.folder.inside(request.query_params.get("path", ""))
    if path.suffix != ".ledger" or not path.is_file():
        raise UsageError("There is no such ledger in the folder of the studio.")
    return desk.render("ledger.html", here="shelf", item=_ledger(desk, path))


def release(desk: Desk, request: Request) -> Response:
    """Show one release."""
    return desk.render(
        "release.html",
        here="shelf",
        item=_bundle(desk, _place(desk, request.query_params.get("path", ""))),
        checked=None,
    )


def verify(desk: Desk, request: Request, form: Form) -> Response:
    """Check a bundle again, from its files alone."""
    path = _place(desk, form.text("path"))
    try:
        certificate = verify_bundle(path)
        said = check_statements(path, about=bundle_subject(path, certificate))
        problems = [item.describe() for item in said if item.problems]
        lines = [
            "Hashes, charges, guarantee, data, approvals and agreement hold: the bundle is what was published."
        ]
        lines += problems or [item.describe() for item in said]
        checked = (not problems, tuple(lines))
    except BundleError as error:
        checked = (False, tuple(line.strip(" -") for line in str(error).split("\n")))
    return desk.render("release.html", here="shelf", item=_bundle(desk, path), checked=checked)


def file(desk: Desk, request: Request) -> Response:
    """Show a page that a bundle brings along, apart from the studio."""
    name = request.query_params.get("file", "report.html")
    path = _place(desk, request.query_params.get("path", "")) / name
    if name not in _SHOWN or path.is_symlink() or not path.is_file():
        raise UsageError("There is no such page in the bundle.")
    return FileResponse(
        path, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": _REPORT_POLICY}
    )


def compare(desk: Desk, request: Request) -> Response:
    """Show two releases side by side, such as this year's and last year's."""
    return _compared(desk, request.query_params.get("left", ""), request.query_params.get("right", ""))


def changes(desk: Desk, request: Request, form: Form) -> Response:
    """Verify two bundles, and show how far their tables differ and what noise alone would explain."""
    left, right = _place(desk, form.text("left")), _place(desk, form.text("right"))
    found = compare_sides(side_of(left), side_of(right), most=_MOST_CHANGES)
    return _compared(desk, form.text("left"), form.text("right"), found)


def _compared(desk: Desk, first: str, second: str, found: TablesCompared | None = None) -> Response:
    left, right = (_bundle(desk, _place(desk, name)) for name in (first, second))
    return desk.render(
        "compare_releases.html",
        here="shelf",
        left=left,
        right=right,
        rows=_differences(left, right),
        found=found,
        explained="" if found is None else explanation(found),
    )


def _differences(left: BundleView, right: BundleView) -> list[tuple[str, str, str, bool]]:
    """Return facts of two releases with whether they differ."""
    only_left = [name for name in left.columns if name not in right.columns]
    only_right = [name for name in right.columns if name not in left.columns]
    facts: list[tuple[str, str, str]] = [
        ("guarantee", left.guarantee, right.guarantee),
        ("synthetic rows", f"{left.rows:,}", f"{right.rows:,}"),
        ("method", left.method, right.method),
        ("finished", left.finished, right.finished),
        ("software", left.software, right.software),
        ("ledger", left.ledger, right.ledger),
        ("columns the other has not", ", ".join(only_left) or "none", ", ".join(only_right) or "none"),
        ("the owner's facts", left.facts[:16], right.facts[:16]),
        ("the analyst's choices", left.choices[:16], right.choices[:16]),
    ]
    ways = [{f"{row[0]}, {row[1]}": row for row in side.criteria} for side in (left, right)]
    for name in dict.fromkeys([*ways[0], *ways[1]]):
        first, second = (
            f"{way[name][3]}; threshold {way[name][2]}" if name in way else "not asked" for way in ways
        )
        facts.append((name, first, second))
    return [(name, one, two, one != two) for name, one, two in facts]


def _place(desk: Desk, name: str) -> Path:
    path = desk.folder.inside(name)
    if not (path / "certificate.json").is_file():
        raise UsageError("There is no such bundle in the folder of the studio.")
    return path
