"""The facts that a ledger remembers."""

from __future__ import annotations

import pytest

from understudy.errors import LedgerMismatch
from understudy.privacy import Ledger, PureDP, Unit
from understudy.privacy.facts import Facts, check_facts, remember_facts
from understudy.privacy.invariants import Consent

ONE = Facts(parts={"columns": [{"name": "age"}], "cleaning rules": [], "unit": {"max_rows": 1}})
TWO = Facts(parts={"columns": [{"name": "age"}], "cleaning rules": ["age > 1"], "unit": {"max_rows": 1}})


def ledger() -> Ledger:
    return Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="people")


def test_a_ledger_without_facts_takes_the_first() -> None:
    book = ledger()
    check_facts(book, ONE)
    assert book.facts == ()  # looking is not remembering: that comes when the table was read
    remember_facts(book, ONE)
    remember_facts(book, TWO)
    assert [record.fingerprint for record in book.facts] == [ONE.binding_fingerprint()]
    check_facts(book, ONE)


def test_other_facts_are_refused_by_the_names_of_their_parts() -> None:
    book = ledger()
    remember_facts(book, ONE)
    with pytest.raises(LedgerMismatch, match=r"What differs: cleaning rules\. .*--accept-facts"):
        check_facts(book, TWO)
    check_facts(book, TWO, Consent(facts=True, by="A. Owner"))
    for facts in (ONE, TWO):  # both are agreed to now
        check_facts(book, facts)
    third = Facts(parts={**TWO.parts, "columns": []})
    with pytest.raises(LedgerMismatch, match=r"What differs: columns\."):  # from the closest that is known
        check_facts(book, third)


def test_consent_to_an_exact_number_is_no_consent_to_facts() -> None:
    book = ledger()
    remember_facts(book, ONE)
    with pytest.raises(LedgerMismatch, match="accept-facts"):
        check_facts(book, TWO, Consent(invariant=True))
    declared = Facts(parts=TWO.parts, declares_rows=True, rows=5)
    with pytest.raises(LedgerMismatch, match="accept-invariant"):
        check_facts(book, declared, Consent(facts=True))
    assert len(book.facts) == 1


def test_what_asks_nothing_of_the_records_binds_nobody() -> None:
    book = ledger()
    remember_facts(book, ONE)
    more = Facts(parts=ONE.parts, others={"rules of the schema": ["age < 5"]})
    assert more.fingerprint() != ONE.fingerprint()
    check_facts(book, more)
