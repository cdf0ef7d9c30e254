"""A ledger of version 0.1.0 knows neither facts nor exact numbers; its next use writes them down."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from understudy.errors import LedgerMismatch
from understudy.privacy import Ledger
from understudy.privacy.facts import Facts, check_facts, remember_facts
from understudy.privacy.invariants import declare_rows

GOLDEN = Path(__file__).parents[2] / "golden" / "0.1.0"


@pytest.mark.parametrize("name", ["pure.ledger", "gdp.ledger", "approximate.ledger"])
def test_the_next_use_of_an_old_ledger_records_the_facts(tmp_path: Path, name: str) -> None:
    shutil.copy(GOLDEN / name, tmp_path / name)
    one, two = Facts(parts={"columns": ["a"]}), Facts(parts={"columns": ["b"]})
    with Ledger.open(tmp_path / name) as book:
        assert (book.facts, book.invariants(), book.guarantee().condition.text) == ((), (), "")
        charged = book.spent
        check_facts(book, two)  # whoever is first
        check_facts(book, one)
        declare_rows(book, rule="", exact=100, declared=100)
        remember_facts(book, one)
        assert book.spent == charged
    with Ledger.open(tmp_path / name) as book:
        book.verify()
        assert "among tables with 100 rows" in book.guarantee().condition.among
        with pytest.raises(LedgerMismatch, match="What differs: columns"):
            check_facts(book, two)
