"""The facts of a table, put together from what the other rooms know of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from understudy.data import Preparation
from understudy.data.prepare import reading_facts, rule_meaning
from understudy.errors import LedgerMismatch
from understudy.privacy import Ledger, Unit
from understudy.privacy.facts import Facts, fingerprint_of
from understudy.privacy.guarantee import rows_rule
from understudy.schema import Column, Schema

__all__ = ["remember_measured", "require_measured", "require_unmeasured", "table_facts"]


def table_facts(
    schema: Schema,
    *,
    unit: Unit,
    prepare: Preparation | None = None,
    alternatives: Mapping[str, Mapping[str, Column]] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    rows: int | str | None = None,
) -> Facts:
    """Return the facts that the owner of a table answers for.

    Parameters
    ----------
    schema, prepare, separator, encoding, names
        How the table is read, as `read_table` takes it.
    unit
        Who is protected.
    alternatives
        Other forms of some columns, by column and name.
    rows
        The exact number of rows where it is declared public, or ``"declared"`` for whatever it is. By default that of the schema.

    Examples
    --------
    >>> schema = Schema.parse("row_count: 500\\ncolumns: [{name: a, kind: boolean}]")
    >>> facts = table_facts(schema, unit=Unit.add_remove())
    >>> facts.declares_rows, facts.rows, list(facts.parts)[:2]
    (True, 500, ['columns', 'transformations'])
    """
    rows = schema.row_count if rows is None else rows
    rules = () if prepare is None else prepare.rules
    parts = reading_facts(
        schema,
        prepare=prepare,
        alternatives=alternatives,
        separator=separator,
        encoding=encoding,
        names=names,
    )
    return Facts(
        parts=parts | {"unit": unit.to_dict()},
        others={"rules of the schema": sorted([rule_meaning(r), r.straddle] for r in schema.constraints)},
        declares_rows=rows is not None,
        rows=rows if isinstance(rows, int) else None,
        rule=rows_rule(unit, map(rule_meaning, rules)),
    )


# ----------------------------------------------------------------------------------------
# A ledger knows which columns were measured at its cost: nothing else passes for measured.

_NOTE = "measured column "


def _digest(column: Column) -> str:
    return fingerprint_of(column.to_dict())


def remember_measured(ledger: Ledger, columns: Iterable[Column]) -> None:
    """Write into a ledger which columns were measured at its cost, each once.

    Privacy
    -------
    Only whoever asked about these columns and paid for it calls this: what is written here passes for measured from then on.
    """
    known = _measured_in(ledger)
    for column in columns:
        if column.measured_facts and _digest(column) not in known:
            ledger.note(f"{_NOTE}{_digest(column)}", scope="discover")


def _measured_in(ledger: Ledger) -> set[str]:
    return {
        entry.purpose.removeprefix(_NOTE)
        for entry in ledger.entries()
        if entry.event is None and entry.purpose.startswith(_NOTE)
    }


def require_measured(ledger: Ledger, columns: Sequence[Column]) -> None:
    """Refuse columns that call facts measured which this ledger did not pay for.

    Raises
    ------
    LedgerMismatch
        Naming the column.
    """
    if any(column.measured_facts for column in columns):
        _require_known(columns, _measured_in(ledger), f"the ledger of {ledger.table!r}")


def require_unmeasured(columns: Sequence[Column]) -> None:
    """Refuse columns that call facts measured where the ledger is yet to be made."""
    _require_known(columns, set(), "the ledger of this table, which is yet to be made,")


def _require_known(columns: Sequence[Column], known: set[str], where: str) -> None:
    for column in columns:
        if column.measured_facts and _digest(column) not in known:
            raise LedgerMismatch(
                f"The schema says that facts of the column {column.name!r} were measured, but {where} did not pay for them: they are of "
                "another table or ledger, or were changed. No record was read and nothing was charged. Use the schema as discovery wrote it, with the ledger that paid "
                "for it; or, if the facts are public knowledge by now, declare them (understudy schema declare)."
            )
