"""Entries that cost nothing and change what the promise means: invariants, facts, totals. And files of version 0.1.0."""

from __future__ import annotations

import base64
import json
import random
import sqlite3
import zlib
from pathlib import Path

import pytest

from understudy.errors import BudgetError, BudgetExceeded, LedgerCorrupted, LedgerError, LedgerMismatch
from understudy.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP, Unit
from understudy.privacy.accounting.filter import Filter
from understudy.privacy.events import GaussianEvent, LaplaceEvent, PureEvent
from understudy.privacy.ledger import store as store_module
from understudy.privacy.ledger.format import link
from understudy.privacy.ledger.kinds import raised
from understudy.privacy.ledger.ledger import Invariant

ROW = Unit.add_remove()
OLD_HEAD = "f6c6b3dc857b5a48e574bd55062a988427ea66ed35263c2062fe70249c99bf10"
OLD = (
    "eNrt289rI2UYB/BJ22zXg7KgRWQvL+OPNm5SZpIm6Wa36SbttBtMk3UyYX+AhMnMm+TFycw4M0kbSw9pV896UkEXBUG8CYI3ETwI"
    "/g+C7GFXEVwQwYsovpMm3SrtQRRB+H7IS5L35/O8z1yn9mKZBZS0HK+rByQlXBEiEeEKIYIgRHmbEh6aGbeJyLgJ9cp6TThZVFg0"
    "Io+GC1c+FFbfXI3mB/wHAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADA/9RQnZk9//Tc2f3twGPtNvUc2xo0dNeltmkxm66p"
    "SkFTiKaWNjcVlRwbJUVlo6oqpFSpKapGqhUSzifXryoVUlGuL/r0lR61DUpKNVKpamShppSVNY2sVQtlpbamLGwVbixMJsXIBSLH"
    "iRQjG2p1a7RTjB+wWaqQ8TK1UKopC4ViVdXiZF4nFjV5tIT55DCcRBjafOwSUSrrw0emZ88/O3d2aIyTsmmfeg2TWjSgJ2R1fHiS"
    "1jo/lk+ZpPUPYpk6KRajo9vt02M5HJ7EUr+2Xvg3YulGZp+cm4sMVwK9aY0OD9vUJIJCsawcnrDwsHgVTQnDuqaWtgrqTfKCcjNO"
    "mo45IJpyQxsVtlIvl+Oko/sdUixXi0d9sfDd/OnLD4T8+/kZ/gUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAPAf2X98Kioc"
    "sPKuaDh+4Iu5XbFtumJOWpSkZDouuj2Pijm7Z1lx8VVjMiIn03tx0aRWoI864iLtUzsIV7/MbFPMiW295/tMt8W4aCUbPrV9FrA+"
    "CwZiTg7n+6zd5WuTfDHfabzI6Ohem4qjU13Hp2GX07MD0hwQn+7wAd9w3LDbk/mfgHXD30kpmUnIckLOaFImJ/OPtJi6KKfl1AVJ"
    "ykkSn7ntsYB6Yi4lLUk8+r1fvvr0m9d2b129F3xeP/P827fnf2j9mH7uMmn+7j7z7jtfnBs+FYkKw175KB3bCf4cl0ctqvuUyKRJ"
    "28z2/05smWw2vXRqbP2VzdL33328tv66Xf859cmlu/LBB+YbW9PvTT12P/LtmQf7LwlR4fYej003RrfD7HZ44bw2cVF3Xc/ZYV09"
    "oI3j5Wn2zDYd1WfcK9OElOFlc31mOfa4KONkDzcReV0Mj/KdzNMSSSeX0tmjRFqOx8/lWx1t1KG6yVPjj8Do9X7ek20tp5flZssw"
    "l1oZOWOYF7MtKi8ZUqqZXW4mU+HNhW/586lN5gWd8F57NhtFzsyG4Vi9rj15Hrv6TsNztv3RkbwgesDCVETdNBMe7Tp9Gubw1/td"
    "3aj5bv7gs49ufZn/9dzXv0m7qbf0JwqRO3dWOns/3S3+AQPTvyc="
)
"""A ledger of format 1 with a note and a charge, as version 0.1.0 wrote it."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Skip flushing to the disk: these tests never cut the power."""
    pragmas = tuple(p.replace("EXTRA", "OFF") for p in store_module._PRAGMAS)
    monkeypatch.setattr(store_module, "_PRAGMAS", pragmas)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.ledger"
    path.write_bytes(zlib.decompress(base64.b64decode(OLD)))
    return path


def make(path: Path, budget=None) -> Ledger:
    return Ledger.create(path, budget=budget or PureDP(1.0), unit=ROW, table="births")


def forge(path: Path, edit) -> None:
    """Change the lines of a ledger the way a forger would: triggers dropped, chain recomputed."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA secure_delete=ON")
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    lines = [json.loads(body) for (body,) in connection.execute("SELECT body FROM line ORDER BY sequence")]
    connection.execute("DELETE FROM line")
    head = bytes(32)
    for number, values in enumerate(edit(lines)):
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        head = link(head, number, text.encode())
        connection.execute("INSERT INTO line VALUES (?, ?, ?)", (number, text, head))
    for _, sql in triggers:
        connection.execute(sql)
    connection.execute("PRAGMA schema_version=4")
    connection.close()


# ------------------------------------------------------------------------------ invariants and facts


def test_an_invariant_is_written_once_and_is_part_of_every_guarantee(tmp_path):
    book = make(tmp_path / "a.ledger")
    entry = book.record_invariant(subject="number of rows", rule="age >= 18", value=158495)
    again = book.record_invariant(subject="number of rows", rule="age >= 18", value=158495)
    assert again == entry
    assert len(book.entries()) == 1
    assert book.invariants() == (Invariant("number of rows", "age >= 18", 158495, "", 1),)
    assert entry.kind == "invariant"
    assert entry.event is None
    assert not entry.costs
    assert entry.to_dict()["fields"]["value"] == 158495
    standing = book.guarantee()
    assert standing.invariants == book.invariants()
    assert "among tables with 158,495 rows after rule 'age >= 18'" in standing.describe()
    assert book.spent == 0
    book.verify()


def test_a_second_invariant_about_one_subject_needs_somebody_who_accepts_it(tmp_path):
    book, other = make(tmp_path / "a.ledger"), Ledger.open(tmp_path / "a.ledger")
    book.record_invariant(subject="number of rows", value=1000)
    for rule, value in (("", 999), ("age >= 18", 700), ("age >= 18", None)):
        with pytest.raises(LedgerMismatch, match="number of rows = 1000"):
            other.record_invariant(subject="number of rows", rule=rule, value=value)
    assert len(other.entries()) == 1
    other.record_invariant(subject="number of rows", rule="age >= 18", value=700, accepted_by="the owner")
    other.record_invariant(subject="number of persons", value=400)  # another subject
    assert [fact.value for fact in book.invariants()] == [1000, 700, 400]
    assert "accepted by the owner" in book.entries()[1].purpose


def test_an_invariant_may_get_its_value_later(tmp_path):
    book = make(tmp_path / "a.ledger")
    book.record_invariant(subject="number of rows")
    assert "number of rows is public" in book.entries()[0].purpose
    book.record_invariant(subject="number of rows", value=12)
    with pytest.raises(LedgerMismatch):
        book.record_invariant(subject="number of rows", value=13)


def test_facts_are_remembered_and_others_need_somebody_who_accepts_them(tmp_path):
    book = make(tmp_path / "a.ledger")
    assert book.facts == ()
    first, second = "ab" * 32, "cd" * 32
    book.record_facts(first, summary="schema of 2023")
    book.record_facts(first)
    with pytest.raises(LedgerMismatch, match="other facts"):
        book.record_facts(second)
    book.record_facts(second, accepted_by="the owner")
    book.record_facts(first)  # accepted before
    assert [record.fingerprint for record in book.facts] == [first, second]
    assert book.facts[1].accepted_by == "the owner"
    book.verify()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("invariant", {"subject": ""}),
        ("invariant", {"subject": 3}),
        ("invariant", {"subject": "rows", "value": 1.5}),
        ("invariant", {"subject": "rows", "value": True}),
        ("invariant", {"subject": "rows", "value": 1 << 63}),
        ("invariant", {"subject": "rows", "value": ""}),
        ("invariant", {"subject": "rows", "rule": "x" * 3000}),
        ("invariant", {"subject": "rows", "accepted_by": None}),
        ("facts", {"fingerprint": "not hexadecimal"}),
        ("facts", {"fingerprint": "AB" * 32}),
        ("facts", {"fingerprint": "ab" * 32, "summary": None}),
    ],
)
def test_entries_that_make_no_sense_are_refused_and_not_written(tmp_path, name, arguments):
    book = make(tmp_path / "a.ledger")
    with pytest.raises(LedgerError):
        getattr(book, f"record_{name}")(**arguments)
    assert book.entries() == ()


# --------------------------------------------------------------------------------------------- totals


def test_a_total_can_be_anything_while_nothing_is_charged(tmp_path):
    book, other = make(tmp_path / "a.ledger"), Ledger.open(tmp_path / "a.ledger")
    book.note("a note is not a charge")
    book.change_total(ApproxDP(0.5, 1e-6), approximate_delta=1e-7)
    assert book.budget == ApproxDP(0.5, 1e-6)
    assert book.rule.approximate_delta == 1e-7
    assert other.guarantee().budget == book.budget
    assert other.remaining == book.remaining == book.total
    assert other.budget == book.budget  # noticed at the last look
    other.change_total(ZCDP(0.25))
    assert book.charge(GaussianEvent(1, 2), purpose="count").costs["zcdp"] == 0.125
    assert book.budget == ZCDP(0.25)
    assert book.remaining == 0.125
    book.verify()
    assert [change.budget for change in book.totals()] == [ApproxDP(0.5, 1e-6), ZCDP(0.25)]


def test_after_a_charge_a_total_is_only_raised_by_somebody_for_a_reason(tmp_path):
    book, other = make(tmp_path / "a.ledger"), Ledger.open(tmp_path / "a.ledger")
    book.charge(PureEvent(1.0), purpose="all of it")
    with pytest.raises(BudgetExceeded, match="understudy ledger total"):
        book.charge(PureEvent(0.5), purpose="more")
    for words in ({}, {"who": "the owner"}, {"why": "a second wave"}, {"who": " ", "why": "x"}):
        with pytest.raises(LedgerError, match="needs a"):
            book.change_total(PureDP(2.0), **words)
    words = {"who": "the owner", "why": "a second wave"}
    with pytest.raises(LedgerMismatch, match="only be raised: epsilon would fall"):
        book.change_total(PureDP(0.9), **words)
    for kind in (ApproxDP(2.0, 1e-6), ZCDP(9.0), GDP(9.0)):
        with pytest.raises(LedgerMismatch, match="kind and accounting stay"):
            book.change_total(kind, **words)
    with pytest.raises(BudgetError):
        book.change_total("2", **words)
    assert len(book.entries()) == 1
    assert other.budget == PureDP(1.0)
    book.change_total(PureDP(2.0), **words)
    other.charge(PureEvent(0.5), purpose="more")  # the other object catches up before it decides
    assert other.budget == PureDP(2.0)
    assert other.remaining == 0.5
    entry = other.entries()[1]
    assert (entry.kind, entry.fields["who"], entry.fields["why"]) == ("total", "the owner", "a second wave")
    assert "decided by the owner: a second wave" in entry.purpose
    assert Ledger.open(book.path).budget == PureDP(2.0)
    assert book.verify() == other.head_hash


def test_a_larger_reserve_must_not_lower_what_the_rest_of_delta_admits(tmp_path):
    book = make(tmp_path / "a.ledger", ApproxDP(1.0, 1e-6))
    book.charge(GaussianEvent(1, 20), purpose="count")
    words = {"who": "the owner", "why": "poisson needs a delta of its own"}
    with pytest.raises(LedgerMismatch, match="would admit less"):
        book.change_total(ApproxDP(1.0, 1e-6), approximate_delta=5e-7, **words)
    book.change_total(ApproxDP(1.0, 2e-6), approximate_delta=5e-7, **words)
    book.change_total(ApproxDP(1.5, 2e-6), **words)
    assert book.rule.approximate_delta == 5e-7
    book.verify()


def random_budget(draw: random.Random) -> tuple[object, str | None, float]:
    kind = draw.choice(("pure", "gdp", "zcdp", "approx"))
    size = draw.choice((0.1, 0.5, 1.0, 2.0))
    if kind != "approx":
        return {"pure": PureDP, "gdp": GDP, "zcdp": ZCDP}[kind](size), None, 0.0
    delta = draw.choice((1e-9, 1e-6, 1e-5))
    reserve = draw.choice((0.0, delta / 10, delta / 2))
    return ApproxDP(size, delta), draw.choice(("gdp", "zcdp")), reserve


def test_a_raised_total_admits_whatever_the_earlier_one_admitted(seed):
    """The lemma behind `raised`, on random pairs of totals and random spendings: a counterexample would be a hole."""
    draw = random.Random(seed)
    accepted = 0
    for _ in range(3000):
        first = random_budget(draw)
        second = random_budget(draw) if draw.random() < 0.2 else first
        if second is first and isinstance(first[0], ApproxDP):
            grown = ApproxDP(
                first[0].epsilon * draw.choice((0.9, 1, 2)), first[0].delta * draw.choice((0.5, 1, 2))
            )
            second = (grown, first[1], min(first[2] * draw.choice((0.5, 1, 2)), grown.delta / 2))
        before, after = Filter(first[0], ROW, *first[1:]), Filter(second[0], ROW, *second[1:])
        try:
            raised(before, after)
        except LedgerMismatch:
            continue
        accepted += 1
        spending = before.nothing()
        for _ in range(3):
            event = draw.choice((GaussianEvent(1, draw.uniform(1, 50)), LaplaceEvent(1, draw.uniform(1, 50))))
            spending = before.plus(spending, event)
            if before.holds(spending):
                assert after.holds(spending)
    assert accepted > 500


def test_a_history_that_could_not_have_happened_is_found(tmp_path):
    path = tmp_path / "a.ledger"
    book = make(path)
    book.charge(PureEvent(1.0), purpose="all of it")
    book.change_total(PureDP(2.0), who="the owner", why="a second wave")
    book.charge(PureEvent(1.0), purpose="all of it again")
    book.verify()
    clean = path.read_bytes()

    def lower(lines):
        lines[2]["fields"]["budget"]["epsilon"] = 0.5
        return lines

    def other_kind(lines):
        lines[2]["fields"] |= {"budget": {"kind": "zcdp", "rho": 9.0}, "accounting": "zcdp"}
        return lines

    for edit, words in (
        (lambda lines: [lines[0], lines[1], lines[3], lines[2]], "more than its budget"),  # raised too late
        (lower, "changes the total wrongly"),
        (other_kind, "changes the total wrongly"),
        (lambda lines: [*lines[:2], lines[2] | {"fields": {}}], "cannot be understood"),
        (lambda lines: [*lines[:2], lines[2] | {"kind": "wish"}], "does not know"),
    ):
        path.write_bytes(clean)
        forge(path, edit)
        with pytest.raises(LedgerCorrupted, match=words):
            Ledger.open(path).verify()
    path.write_bytes(clean)
    forge(path, lambda lines: lines)
    Ledger.open(path).verify()


# ------------------------------------------------------------------------------------- files of 0.1.0


def test_a_ledger_of_version_0_1_0_opens_verifies_and_goes_on(old):
    book = Ledger.open(old)
    assert book.verify(head=OLD_HEAD) == OLD_HEAD
    assert [entry.kind for entry in book.entries()] == ["note", "charge"]
    book.record_invariant(subject="number of rows", value=1000)
    book.record_facts("ab" * 32)
    book.change_total(ApproxDP(2.0, 1e-6), who="the owner", why="a second wave")
    book.charge(GaussianEvent(1, 20), purpose="more")
    again = Ledger.open(old)
    again.verify(head=OLD_HEAD)
    assert again.budget == ApproxDP(2.0, 1e-6)
    assert len(again.entries()) == 6


def test_new_ledgers_have_a_format_that_version_0_1_0_refuses(tmp_path):
    path = tmp_path / "a.ledger"
    make(path).close()
    connection = sqlite3.connect(path)
    (header,) = connection.execute("SELECT body FROM line WHERE sequence = 0").fetchone()
    assert json.loads(header)["format"] == 2
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()


def test_the_format_in_the_file_is_the_one_in_the_header(old, tmp_path):
    image = bytearray(old.read_bytes())
    image[63] = 2
    old.write_bytes(bytes(image))
    with pytest.raises(LedgerCorrupted, match="disagree"):
        Ledger.open(old).verify()
