"""Exact public numbers: written down before they are used, and what they do to a promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.errors import DataError, LedgerMismatch
from understudy.privacy import Ledger, PureDP, Unit
from understudy.privacy.events import PureEvent
from understudy.privacy.facts import Facts, bind_facts, check_facts, remember_facts
from understudy.privacy.guarantee import condition_of, rows_rule
from understudy.privacy.invariants import Consent, check_rows, copy_invariants, declare_rows
from understudy.privacy.ledger.ledger import Invariant

OWNER = Consent(invariant=True, by="A. Owner")


def ledger(unit: Unit | None = None) -> Ledger:
    return Ledger.in_memory(budget=PureDP(1.0), unit=unit or Unit.add_remove())


def values(book: Ledger) -> list[tuple[str, object]]:
    return [(fact.subject, fact.value) for fact in book.invariants()]


def test_the_first_number_is_written_down_once() -> None:
    book = ledger()
    for _ in range(3):
        declare_rows(book, rule="age >= 16", exact=100, declared=100)
        declare_rows(book, rule="age >= 16", exact=100)
    assert values(book) == [("number of rows", 100)]


def test_a_wrong_number_is_written_down_and_no_other_is_answered() -> None:
    book = ledger()
    with pytest.raises(DataError, match="does not have 99 rows"):
        declare_rows(book, rule="", exact=100, declared=99)
    with pytest.raises(
        DataError, match="does not have 99 rows"
    ):  # the same again tells nothing new, and needs no table
        check_rows(book, rule="", value=99)
    for guess in (100, 101, None):
        with pytest.raises(LedgerMismatch, match="accept-invariant"):
            declare_rows(book, rule="", exact=100, declared=guess)
    assert values(book) == [("number of rows", 99), ("number of rows, declared and wrong", 99)]
    declare_rows(book, rule="", exact=100, declared=100, consent=OWNER)
    condition = condition_of(book.unit, book.invariants())
    assert condition.among == "among tables with 100 rows"
    assert "99 rows was declared and is wrong" in condition.text


def test_the_claim_is_on_the_disk_before_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed while it compares must not get another guess for nothing."""
    file = tmp_path / "a.ledger"
    book = Ledger.create(file, budget=PureDP(1.0), unit=Unit.add_remove(), table="people")

    class Killed(BaseException):
        pass

    class Exact(int):
        def __eq__(self, other: object) -> bool:
            raise Killed

        def __ne__(self, other: object) -> bool:
            raise Killed

        __hash__ = int.__hash__

    with pytest.raises(Killed):
        declare_rows(book, rule="", exact=Exact(100), declared=99)
    with Ledger.open(file) as again:
        assert values(again) == [("number of rows", 99)]
        with pytest.raises(LedgerMismatch):
            declare_rows(again, rule="", exact=100, declared=100)


@pytest.mark.parametrize("guess", [100, 101, None])
def test_a_ledger_that_was_opened_without_a_number_answers_nothing(guess: int | None) -> None:
    book = ledger()
    remember_facts(book, Facts(parts={"columns": ["age"]}))
    with pytest.raises(LedgerMismatch, match="opened without a public number"):
        declare_rows(book, rule="", exact=100, declared=guess)
    assert values(book) == []


def test_a_refusal_shows_no_number_that_nobody_agreed_to() -> None:
    book = ledger()
    declare_rows(book, rule="age >= 16", exact=543)
    for rule, exact in (("age >= 17", 533), ("age >= 16", 544)):
        with pytest.raises(LedgerMismatch) as caught:
            declare_rows(book, rule=rule, exact=exact)
        assert str(exact) not in str(caught.value)


def test_the_number_that_a_relation_fixes_changes_with_the_table_until_something_is_charged() -> None:
    book = ledger(Unit.replace_one())
    declare_rows(book, rule="", exact=100, fixed=True)
    declare_rows(book, rule="", exact=101, fixed=True)
    book.charge(PureEvent(0.1), purpose="count")
    with pytest.raises(LedgerMismatch, match="accept-invariant"):
        declare_rows(book, rule="", exact=102, fixed=True)
    declare_rows(book, rule="", exact=102, fixed=True, consent=OWNER)
    assert "100 rows and 101 rows and 102 rows" in condition_of(book.unit, book.invariants()).among


def test_an_owner_may_agree_before_the_table_is_read() -> None:
    book = ledger()
    facts = Facts(parts={"columns": ["age"]}, declares_rows=True, rule="age >= 16")
    bind_facts(book, facts, "A. Owner")
    assert (
        "a public number of rows after rule 'age >= 16'" in condition_of(book.unit, book.invariants()).among
    )
    check_facts(book, facts)
    declare_rows(book, rule="age >= 16", exact=543)
    assert (
        condition_of(book.unit, book.invariants()).among
        == "among tables with 543 rows after rule 'age >= 16'"
    )


def test_attempts_know_the_numbers_of_the_ledger_that_pays() -> None:
    book, attempt = ledger(), ledger()
    declare_rows(book, rule="age >= 16", exact=543)
    declare_rows(book, rule="", exact=600, consent=OWNER)
    copy_invariants(book.invariants(), attempt)
    assert condition_of(book.unit, attempt.invariants()) == condition_of(book.unit, book.invariants())
    declare_rows(attempt, rule="age >= 16", exact=543)


@pytest.mark.parametrize(
    ("unit", "steps"),
    [
        (Unit.add_remove(), 2),
        (Unit.add_remove_person("id", max_rows=3), 2),
        (Unit.replace_one(), 1),
        (Unit.replace_person("id", max_rows=1), 1),
        (Unit.replace_person("id", max_rows=3), 1),
    ],
)
def test_how_far_apart_tables_with_one_number_of_rows_are(unit: Unit, steps: int) -> None:
    known = [Invariant("number of rows", rows_rule(unit), 1000, "", 1)]
    condition = condition_of(unit, known)
    assert condition.steps == steps
    assert "among tables with 1,000 rows" in condition.text
    assert ("doubles every epsilon" in condition.text) == (steps == 2)
    assert ("all neighbouring tables have equally many" in condition.text) == unit.keeps_rows


def test_nothing_public_is_no_condition() -> None:
    empty = condition_of(Unit.add_remove(), ())
    assert (empty.among, empty.text, empty.steps) == ("", "", 1)


def test_facts_of_other_kinds_are_named_too() -> None:
    known = [Invariant("number of hospitals", "", 12, "", 1)]
    assert "number of hospitals = 12" in condition_of(Unit.add_remove(), known).text


def test_long_rules_are_cut_and_stay_apart() -> None:
    long = [f"age != {number}" for number in range(400)]
    one, two = rows_rule(Unit.add_remove(), long), rows_rule(Unit.add_remove(), [*long, "age != 1000"])
    assert one != two
    assert max(len(one), len(two)) < 2000


def test_who_agrees_without_a_name_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert Consent(facts=True).name == "a user without a name"
