"""``understudy ledger``: what was spent, when, on what, and whether the record can be trusted."""

from __future__ import annotations

import itertools
import re
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import (
    Against,
    By,
    ColumnNames,
    Delta,
    Encoding,
    Epsilon,
    Header,
    IdColumn,
    Json,
    MaxRows,
    Mu,
    Rho,
    Separator,
    UnitName,
    Verbose,
    formerly,
    parse_budget,
    parse_header,
    parse_unit,
    summary,
)

if TYPE_CHECKING:
    from understudy.privacy import Ledger
    from understudy.privacy.ledger.ledger import Invariant
    from understudy.schema.linked import Register

app = typer.Typer(
    help="Look at, check or create the ledger of a table.", no_args_is_help=True, rich_markup_mode=None
)

_DIGEST = re.compile(r" [0-9a-f]{12,}(?![0-9a-f])")
"""A digest within the words of an entry."""
_SHORT = 12
"""Letters of a digest that are shown where the whole of it would hide the words."""

LedgerPath = Annotated[Path, typer.Argument(help="Ledger file.")]
ApproximateDelta = Annotated[
    float | None,
    typer.Option(
        "--approximate-delta",
        help="Part of --delta to set aside for methods that need a delta of their own, such as poisson or dpctgan. "
        "Default: none for a new ledger, as it was for one that changes.",
    ),
]


@app.command("show")
def show(file: LedgerPath, verbose: Verbose = False, json: Json = False) -> None:
    """Show every entry, what has been spent and what remains.

    Entries are charges, notes, invariants (exact public facts that the promise is conditioned on), the facts the owner
    declared, and changes of the total. Digests, and notes that are about one column each, are shown with --verbose.
    """
    from understudy.cli.output import print_json, print_table, tell
    from understudy.privacy import Ledger

    with Ledger.open(file) as ledger:
        entries, standing = [entry.to_dict() for entry in ledger.entries()], ledger.guarantee()
        if json:
            print_json(summary(standing) | {"entries": entries})
            return
        tell(f"Table: {ledger.table}")
        tell(f"Protects: {ledger.unit.describe()}")
        tell(f"Total budget: {ledger.budget.describe()} ({standing.accounting} accounting)")
        named = any("operator" in item or "host" in item for item in entries)
        print_table(
            "Entries",
            (
                *("#", "time (UTC)", "kind", "scope", "purpose", f"cost ({standing.symbol})"),
                *(("by",) if named else ()),
            ),
            [
                (
                    item["sequence"] if last == item["sequence"] else f"{item['sequence']}-{last}",
                    item["time"][:19].replace("T", " "),
                    item["kind"],
                    item["scope"],
                    purpose,
                    _cost(item, standing.accounting),
                    *(
                        (" on ".join(filter(None, (item.get("operator"), item.get("host")))),)
                        if named
                        else ()
                    ),
                )
                for item, last, purpose in (_unfolded if verbose else _folded)(entries)
            ],
        )
        for title, lines in (
            ("Totals", _totals(ledger)),
            ("Invariants", [_accepted(item.describe(), item.accepted_by) for item in _standing(ledger)]),
            (
                "Facts",
                [
                    _accepted(
                        f"{item.fingerprint} {item.summary}".rstrip()
                        if verbose
                        else f"{item.fingerprint[:_SHORT]} {_DIGEST.sub('', item.summary)}".rstrip(),
                        item.accepted_by,
                    )
                    for item in ledger.facts
                ],
            ),
        ):
            if lines:
                tell(f"{title}:")
                for line in lines:
                    tell(f"  {line}")
        tell(standing.describe())


def _unfolded(entries: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int, str]]:
    """Return every entry with its own number and its purpose."""
    return [(item, item["sequence"], item["purpose"]) for item in entries]


def _folded(entries: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int, str]]:
    """Return entries with the number of the last one of a row: notes about measured columns that follow each other are one, and digests are left out."""
    found: list[tuple[dict[str, Any], int, str]] = []
    for about, group in itertools.groupby(entries, key=lambda item: (item["scope"], _is_measured(item))):
        members = list(group)
        if about[1] and len(members) > 1:
            found.append((members[0], members[-1]["sequence"], f"{len(members)} measured columns"))
            continue
        found += [(item, item["sequence"], _DIGEST.sub("", item["purpose"])) for item in members]
    return found


def _is_measured(entry: dict[str, Any]) -> bool:
    """Whether an entry is the note that the ledger paid for what a column of a schema says."""
    return entry["kind"] == "note" and str(entry["purpose"]).startswith("measured column ")


def _totals(ledger: Ledger) -> list[str]:
    """Every total the ledger has had, if it had more than one."""
    changes = ledger.totals()
    if not changes:
        return []
    lines = [f"{ledger.first_budget.describe()}, when it was made"]
    for change in changes:
        decided = (
            f", decided by {change.who}: {change.why}" if change.who else ", before anything was charged"
        )
        lines.append(f"{change.budget.describe()}, from entry {change.sequence}{decided}")
    return lines


def _standing(ledger: Ledger) -> list[Invariant]:
    """Exact public facts, without the numbers that turned out to be wrong: an entry of its own says so."""
    from understudy.privacy.guarantee import ROWS, key_of, refuted

    known = ledger.invariants()
    wrong = refuted(known)
    return [item for item in known if item.subject != ROWS or key_of(item) not in wrong]


def _accepted(words: str, who: str) -> str:
    return f"{words} (accepted by {who})" if who else words


def _cost(entry: dict[str, object], accounting: str) -> str:
    """Cost of an entry in the ledger's accounting; notes cost nothing."""
    costs = entry.get("costs")
    value = costs.get(accounting) if isinstance(costs, dict) else None
    return "" if value is None else f"{value:.6g}"


@app.command("verify")
def verify(
    file: LedgerPath,
    against: Against = None,
    json: Json = False,
) -> None:
    """Recompute every hash and cost; fail if anything was changed.

    With --against also find a rollback: an older copy of a ledger is a perfect chain, and only a head that was kept
    elsewhere shows that entries are missing.
    """
    from understudy.cli.output import print_json, tell
    from understudy.privacy import Ledger
    from understudy.privacy.ledger.anchors import anchor_in

    anchors = [(path, anchor_in(path)) for path in against or []]
    with Ledger.open(file) as ledger:
        ledger.verify()
        for path, anchor in anchors:
            ledger.check_anchor(anchor, source=str(path))
        if json:
            compared = [{"file": str(path)} | anchor.to_dict() for path, anchor in anchors]
            print_json({"verified": True, "against": compared} | summary(ledger.guarantee()))
            return
        tell(f"The ledger of {ledger.table!r} is intact. Head {ledger.head_hash}.")
        for path, anchor in anchors:
            tell(f"Not rolled back since {path} ({anchor.describe()}).")
        tell(ledger.guarantee().describe())


@app.command("anchor")
def anchor(
    file: LedgerPath,
    out: Annotated[Path, typer.Option("--out", help="Anchor file to write (.anchor); must not exist yet.")],
    json: Json = False,
) -> None:
    """Write the ledger's name, head and length to a small file.

    Keep it where whoever can replace the ledger cannot reach it: `ledger verify --against` finds an older copy by it.
    """
    from understudy.cli.output import print_json, tell
    from understudy.data.output import require_writable
    from understudy.errors import OutputError
    from understudy.privacy import Ledger

    require_writable(out, what="anchor")
    with Ledger.open(file) as ledger:
        ledger.verify()
        taken = ledger.anchor()
    document = taken.to_dict()
    try:
        with out.open("x", encoding="utf-8") as stream:
            stream.write(dumps(document, indent=2) + "\n")
    except FileExistsError:
        raise OutputError(
            f"{str(out)!r} exists already; an anchor is never replaced. Choose another name."
        ) from None
    if json:
        print_json(document | {"out": str(out)})
        return
    tell(f"Wrote {out}: {taken.describe()}.")


@app.command("total")
def total(
    file: LedgerPath,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    approximate_delta: ApproximateDelta = None,
    by: By = None,
    why: Annotated[str, typer.Option("--why", help="Why. Public; needed once something was charged.")] = "",
    json: Json = False,
) -> None:
    """Change the total budget of a table.

    Any total while nothing is charged; afterwards only a larger one of the same kind. Raising it weakens the promise
    about everything released from the table so far, so the entry says who decided it and why.
    """
    from understudy.cli.output import print_json, tell
    from understudy.errors import UsageError
    from understudy.privacy import Ledger

    budget = parse_budget(epsilon, delta, rho, mu)
    with Ledger.open(file) as ledger:
        before = ledger.budget
        if ledger.charged and not ((by or "").strip() and why.strip()):
            raise UsageError(
                "Something was charged to this ledger, so raising its total weakens a promise that was made. Say who decided it "
                "(--by NAME) and why (--why WORDS); both are written into the ledger. Nothing was changed."
            )
        entry = ledger.change_total(budget, who=by or "", why=why, approximate_delta=approximate_delta)
        if json:
            print_json(summary(ledger.guarantee()) | {"entry": entry.to_dict()})
            return
        tell(f"The total of {ledger.table!r} was {before.describe()}.")
        tell(ledger.guarantee().describe())


@app.command("facts")
def facts(
    file: LedgerPath,
    declared: Annotated[
        Path,
        typer.Argument(
            help="What holds the facts: a specification, a file of facts (`facts: FILE`), or a schema."
        ),
    ],
    by: By = None,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    names: ColumnNames = None,
    json: Json = False,
) -> None:
    """Bind a ledger to the owner's facts about its table.

    The owner's consent, before anybody runs anything. Schema, derived columns, cleaning, reading and unit decide which questions the records answer when they are read. Other
    facts than those of the ledger need --accept-facts. Reads no table.
    """
    from understudy.cli.commands.plan import is_schema
    from understudy.cli.output import print_json, tell
    from understudy.curator import table_facts
    from understudy.errors import UsageError
    from understudy.privacy import Ledger
    from understudy.privacy.facts import bind_facts
    from understudy.privacy.invariants import Consent
    from understudy.release.spec.facts import register_facts
    from understudy.release.spec.spec import read_facts
    from understudy.schema import Schema

    columns = parse_header(header, names)
    with Ledger.open(file) as ledger:
        register = _register_in(declared)
        if register is not None and columns is None:
            found = register_facts(
                Schema.from_dict(register.whole.plain, folder=declared.parent),
                register.schemas(declared.parent),
                register.numbers,
                unit=ledger.unit,
                separator=separator,
                encoding=encoding,
            )
        elif register is not None:
            raise UsageError("Linked tables have headers: leave --names and --no-header out.")
        elif is_schema(declared):
            described = Schema.read(declared)
            found = table_facts(
                described, unit=ledger.unit, separator=separator, encoding=encoding, names=columns
            )
        elif separator is not None or encoding is not None or columns is not None:
            raise UsageError(
                "--separator, --encoding, --names and --no-header go with a schema; a specification says how its table is read."
            )
        else:
            found = read_facts(declared)
        if found.parts["unit"] != ledger.unit.to_dict():
            raise UsageError(f"The ledger protects {ledger.unit.describe()}; the facts have another unit.")
        who = Consent(facts=True, by=by or "").name
        entry = bind_facts(ledger, found, who)
        if json:
            print_json(entry.to_dict())
            return
        tell(f"The ledger of {ledger.table!r} knows these facts: {entry.purpose}.")


def _register_in(file: Path) -> Register | None:
    """Return the several tables of events that a schema file describes; None for any other file."""
    from understudy.schema.linked import read_register

    return read_register(file) if file.suffix.lower() in (".yaml", ".yml", ".json") else None


@app.command("create", cls=formerly(table="--table-name"))
def create(
    file: LedgerPath,
    table_name: Annotated[
        str,
        typer.Option(
            "--table-name",
            help="Name of the table it belongs to: its file name, or `source.table` of the specification.",
        ),
    ],
    unit: UnitName,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu: Mu = None,
    approximate_delta: ApproximateDelta = None,
    id_column: IdColumn = None,
    max_rows_per_person: MaxRows = None,
    json: Json = False,
) -> None:
    """Create a ledger with the total budget of a table.

    The total is for everything that will ever be released from the table. It can be changed while nothing is charged, and
    raised later by an entry that says who decided it and why (`ledger total`).
    """
    from understudy.cli.output import print_json, tell
    from understudy.privacy import Ledger

    budget = parse_budget(epsilon, delta, rho, mu)
    protected = parse_unit(unit, id_column, max_rows_per_person)
    with Ledger.create(
        file, budget=budget, unit=protected, table=table_name, approximate_delta=approximate_delta or 0.0
    ) as ledger:
        if json:
            print_json(summary(ledger.guarantee()) | {"out": str(file)})
            return
        tell(f"Wrote {file}.")
        tell(ledger.guarantee().describe())
