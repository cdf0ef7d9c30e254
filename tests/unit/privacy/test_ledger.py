"""The ledger: charges, refusals, reopening, verification of every byte, and files that are not ledgers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import sqlite3
import tempfile
import threading
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from understudy.errors import (
    BudgetError,
    BudgetExceeded,
    LedgerCorrupted,
    LedgerError,
    LedgerMismatch,
    NoSuchGuarantee,
)
from understudy.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP, Unit
from understudy.privacy.events import (
    ApproxEvent,
    Composed,
    GaussianEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
    ZcdpEvent,
)
from understudy.privacy.ledger import store as store_module
from understudy.privacy.ledger.format import PAGE_SIZE, link
from understudy.privacy.ledger.image import ImageError, read_image

ROW = Unit.add_remove()
BUDGET = ApproxDP(1.0, 1e-6)


def make(path: Path, *, budget=BUDGET, unit=ROW, table="births", **options) -> Ledger:
    return Ledger.create(path, budget=budget, unit=unit, table=table, **options)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Skip flushing to the disk: these tests never cut the power."""
    pragmas = tuple(p.replace("EXTRA", "OFF") for p in store_module._PRAGMAS)
    monkeypatch.setattr(store_module, "_PRAGMAS", pragmas)


@pytest.fixture(params=["file", "memory"])
def any_ledger(request, tmp_path):
    if request.param == "file":
        return lambda budget, **options: make(tmp_path / "a.ledger", budget=budget, **options)
    return lambda budget, **options: Ledger.in_memory(budget=budget, unit=ROW, **options)


# -------------------------------------------------------------------------------------------- spending


def test_charges_add_up_and_stop_at_the_total(any_ledger):
    ledger = any_ledger(ZCDP(0.5))
    for i in range(1, 5):
        entry = ledger.charge(GaussianEvent(1, 2), purpose="count", scope=f"round {i}")
        assert (entry.sequence, entry.kind, entry.scope) == (i, "charge", f"round {i}")
    assert (ledger.spent, ledger.remaining, ledger.total) == (0.5, 0.0, 0.5)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(GaussianEvent(1, 1e6), purpose="one more")
    assert (caught.value.remaining, caught.value.accounting) == (0.0, "zcdp")
    assert caught.value.requested == pytest.approx(5e-13)
    assert len(ledger.entries()) == 4
    ledger.verify()


def test_entries_tell_what_happened(any_ledger):
    ledger = any_ledger(BUDGET)
    event = Composed([GaussianEvent(1, 40), SelectionEvent(0.01)])
    ledger.note("release 7 begins", scope="release 7")
    ledger.charge(event, purpose="Größe & Gewicht 'x'", scope="release 7")
    note, charge = ledger.entries()
    assert (note.kind, note.event, dict(note.costs), note.purpose) == ("note", None, {}, "release 7 begins")
    assert (charge.event, charge.purpose) == (event, "Größe & Gewicht 'x'")
    assert charge.costs["pure"] == math.inf
    assert charge.costs["gdp"] == ledger.spent
    assert charge.time.endswith("+00:00")
    assert charge.hash == ledger.head_hash
    assert ledger.verify() == ledger.head_hash


def test_notes_cost_nothing_even_when_nothing_is_left(any_ledger):
    ledger = any_ledger(PureDP(1.0))
    ledger.charge(PureEvent(1.0), purpose="all of it")
    ledger.note("the end")
    assert ledger.remaining == 0.0


def test_the_pure_filter_of_an_approximate_budget_can_be_used_to_the_brim(any_ledger):
    ledger = any_ledger(BUDGET)
    for _ in range(2):
        ledger.charge(LaplaceEvent(1, 2), purpose="half of epsilon")
    assert ledger.spending.sums["pure"] == 1
    assert not ledger.can_afford(GaussianEvent(1, 1e9))
    assert not ledger.can_afford(LaplaceEvent(1, 1e9))
    ledger.verify()


def test_events_with_a_delta_need_a_reserve(any_ledger):
    with pytest.raises(BudgetExceeded, match="approximate_delta") as caught:
        any_ledger(BUDGET).charge(ApproxEvent(0.01, 1e-9), purpose="bounds")
    assert caught.value.accounting == "gdp"


def test_a_reserve_is_spent_like_everything_else():
    ledger = Ledger.in_memory(budget=BUDGET, unit=ROW, approximate_delta=5e-7)
    for _ in range(2):
        entry = ledger.charge(ApproxEvent(0.01, 2e-7), purpose="bounds")
        assert entry.delta == 2e-7
    with pytest.raises(BudgetExceeded, match="1e-07 left"):
        ledger.charge(ApproxEvent(0.01, 2e-7), purpose="bounds")
    assert ledger.total < Ledger.in_memory(budget=BUDGET, unit=ROW).total
    ledger.verify()


def test_parallel_events_are_priced_for_the_ledgers_unit():
    event = Parallel([PureEvent(0.25), PureEvent(0.25)])
    for unit, cost in ((ROW, 0.25), (Unit.replace_one(), 0.5)):
        ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit)
        assert ledger.charge(event, purpose="two hospitals").costs["pure"] == cost
        assert ledger.spent == cost
        ledger.verify()


def test_events_only_known_to_be_zcdp_need_that_accounting():
    with pytest.raises(BudgetExceeded, match="accounting='zcdp'") as caught:
        Ledger.in_memory(budget=BUDGET, unit=ROW).charge(ZcdpEvent(1e-6), purpose="discrete Gaussian")
    assert caught.value.requested == math.inf
    ledger = Ledger.in_memory(budget=BUDGET, unit=ROW, accounting="zcdp")
    ledger.charge(ZcdpEvent(1e-6), purpose="discrete Gaussian")
    assert ledger.accounting.name == "zcdp"


@pytest.mark.parametrize(
    ("budget", "event", "words"),
    [
        (ZCDP(0.5), GaussianEvent(1, 0.5), "costs rho=2; rho=0.5 of 0.5 remains. Raise sigma to at least 1,"),
        (
            PureDP(1.0),
            LaplaceEvent(2, 1),
            "costs epsilon=2; epsilon=1 of 1 remains. Raise the scale to at least 2,",
        ),
        (PureDP(1.0), SelectionEvent(2), "Lower epsilon to at most 1,"),
        (GDP(1.0), PureEvent(2), "Lower epsilon to at most 0.8069,"),
        (PureDP(1.0), GaussianEvent(1, 1), "no cost in the pure accounting"),
        (PureDP(1.0), Composed([PureEvent(2.0)]), "Ask for less"),
    ],
)
def test_refusals_say_what_to_do(budget, event, words):
    ledger = Ledger.in_memory(budget=budget, unit=ROW)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(event, purpose="Measuring ('age', 'sex')")
    assert words in str(caught.value)
    assert str(caught.value).startswith("Measuring ('age', 'sex'): ")
    assert str(caught.value).endswith("Nothing was spent.")


def test_a_refusal_by_rounding_alone_says_so():
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=ROW)
    for _ in range(9):
        ledger.charge(PureEvent(0.1), purpose="tenth")
    with pytest.raises(BudgetExceeded, match="rounding alone"):
        ledger.charge(PureEvent(0.1), purpose="tenth")


def test_what_a_refusal_recommends_is_admitted():
    ledger = Ledger.in_memory(budget=BUDGET, unit=ROW)
    ledger.charge(GaussianEvent(1, 6), purpose="first")
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(GaussianEvent(1, 1), purpose="second")
    sigma = float(str(caught.value).split("at least ")[1].split(",")[0])
    ledger.charge(GaussianEvent(1, sigma), purpose="second")


def test_the_guarantee_names_promise_and_spending():
    ledger = Ledger.in_memory(budget=BUDGET, unit=ROW, table="births")
    ledger.charge(GaussianEvent(1, 40), purpose="count")
    guarantee = ledger.guarantee()
    assert guarantee.budget == BUDGET
    assert (guarantee.accounting, guarantee.entries, guarantee.table) == ("gdp", 1, "births")
    assert set(guarantee.spent) == {"zcdp", "gdp"}
    assert guarantee.spent["gdp"] + guarantee.remaining == pytest.approx(guarantee.total)
    assert guarantee.used().accounting == "gdp"
    assert guarantee.used(1e-3).epsilon < guarantee.used().epsilon < 1.0
    assert "Promise: epsilon=1, delta=1e-06" in guarantee.describe()
    assert Ledger.in_memory(budget=PureDP(1.0), unit=ROW).guarantee().used() is None


def test_sums_are_exact_over_thousands_of_charges():
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=ROW)
    for _ in range(1000):
        ledger.charge(LaplaceEvent(1, 1000), purpose="thousandth")
    assert ledger.spending.sums["pure"] == Fraction(1)
    assert not ledger.can_afford(PureEvent(5e-324))


@pytest.mark.parametrize("purpose", ["", "  ", None, 7, "x" * 3000])
def test_a_purpose_is_a_few_words(any_ledger, purpose):
    ledger = any_ledger(PureDP(1.0))
    with pytest.raises(LedgerError):
        ledger.charge(PureEvent(0.1), purpose=purpose)
    assert ledger.spent == 0.0


@pytest.mark.parametrize("event", [None, 0.1, "pure", {"kind": "pure"}, PureDP(1.0)])
def test_only_events_are_charged(any_ledger, event):
    ledger = any_ledger(PureDP(1.0))
    with pytest.raises(BudgetError):
        ledger.charge(event, purpose="x")
    with pytest.raises(BudgetError):
        ledger.can_afford(event)


# ------------------------------------------------------------------------------------ files and reopening


def test_a_ledger_is_one_file_that_remembers(tmp_path):
    path = tmp_path / "a.ledger"
    make(path).charge(GaussianEvent(1, 40), purpose="count")
    again = Ledger.open(path)
    assert again.spent == 40.0**-2
    assert (again.table, again.unit, again.budget, again.path) == ("births", ROW, BUDGET, path)
    assert os.listdir(tmp_path) == ["a.ledger"]


def test_two_objects_on_one_file_see_each_other(tmp_path):
    first = make(tmp_path / "a.ledger", budget=PureDP(1.0))
    second = Ledger.open(tmp_path / "a.ledger")
    first.charge(PureEvent(0.5), purpose="one")
    second.charge(PureEvent(0.25), purpose="two")
    assert first.spent == second.spent == 0.75
    assert first.head_hash == second.head_hash
    with pytest.raises(BudgetExceeded):
        first.charge(PureEvent(0.5), purpose="three")


def test_threads_cannot_overspend(tmp_path):
    path = tmp_path / "a.ledger"
    make(path, budget=PureDP(1.0))
    shared, admitted = Ledger.open(path), []

    def work(ledger: Ledger) -> None:
        for _ in range(10):
            with contextlib.suppress(BudgetExceeded):
                admitted.append(ledger.charge(LaplaceEvent(1, 25), purpose="x"))

    threads = [
        threading.Thread(target=work, args=(shared if i % 2 else Ledger.open(path),)) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 25
    assert len({entry.sequence for entry in admitted}) == 25
    Ledger.open(path).verify()


def test_open_or_create_makes_once_and_then_insists_on_the_same_terms(tmp_path):
    path = tmp_path / "a.ledger"
    terms = {"budget": BUDGET, "unit": ROW, "table": "births"}
    first = Ledger.open_or_create(path, **terms)
    assert Ledger.open_or_create(path, **terms).ledger_id == first.ledger_id
    for change, words in (
        ({"table": "deaths"}, r"'births', asked for 'deaths'"),
        ({"unit": Unit.replace_one()}, "add or remove one row.*replace one row"),
        ({"budget": ApproxDP(1.0, 1e-9)}, "1e-06.*1e-09"),
        ({"budget": ApproxDP(math.nextafter(1.0, 2), 1e-6)}, "1.0000000000000002"),
        ({"accounting": "zcdp"}, "'gdp', asked for 'zcdp'"),
        ({"approximate_delta": 1e-7}, "approximate_delta"),
    ):
        with pytest.raises(LedgerMismatch, match=words):
            Ledger.open_or_create(path, **(terms | change))


def test_an_existing_file_is_never_overwritten(tmp_path):
    path = tmp_path / "a.ledger"
    path.write_text("precious")
    with pytest.raises(LedgerError, match="already exists"):
        make(path)
    with pytest.raises(LedgerError, match="not an Understudy ledger"):
        Ledger.open_or_create(path, budget=BUDGET, unit=ROW, table="births")
    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["a.ledger"]


def test_a_journal_left_by_another_ledger_is_not_replayed_into_a_new_one(tmp_path):
    (tmp_path / "a.ledger-journal").write_bytes(b"old")
    for attempt in (make, lambda path: Ledger.open_or_create(path, budget=BUDGET, unit=ROW, table="births")):
        with pytest.raises(LedgerError, match="left by another ledger"):
            attempt(tmp_path / "a.ledger")
    assert os.listdir(tmp_path) == ["a.ledger-journal"]


def test_a_folder_that_cannot_be_flushed_is_served(tmp_path, monkeypatch):
    flush = store_module._flush

    def refuse(path: Path) -> None:
        if path.is_dir():
            raise OSError(22, "Invalid argument")
        flush(path)

    monkeypatch.setattr(store_module, "_flush", refuse)
    make(tmp_path / "a.ledger").verify()


def test_names_with_odd_characters_work(tmp_path):
    for name in ("ä b?c#d%20.ledger", "[x]*.ledger", "-rf"):
        make(tmp_path / name).charge(GaussianEvent(1, 40), purpose="x")
        Ledger.open(tmp_path / name).verify()


def test_links_are_followed_and_loops_refused(tmp_path):
    real, link_path = tmp_path / "real.ledger", tmp_path / "link.ledger"
    link_path.symlink_to(real)
    make(link_path).charge(GaussianEvent(1, 40), purpose="x")  # a link to nothing yet: the target is made
    assert Ledger.open(real).spent == Ledger.open(link_path).spent > 0
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(LedgerError):
        Ledger.open(tmp_path / "loop")


def test_a_second_name_is_refused_but_the_trace_of_a_crash_is_cleared(tmp_path):
    path = tmp_path / "a.ledger"
    make(path)
    os.link(path, tmp_path / ".a.ledger.0123456789abcdef.new")  # as if creation was killed half way
    Ledger.open(path)
    assert os.listdir(tmp_path) == ["a.ledger"]
    os.link(path, tmp_path / "twin.ledger")
    with pytest.raises(LedgerError, match="hard link"):
        Ledger.open(path)


def test_a_file_system_without_hard_links_is_served(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(store_module.os, "link", refuse)
    make(tmp_path / "a.ledger").verify()
    with pytest.raises(LedgerError, match="already exists"):
        make(tmp_path / "a.ledger")
    assert os.listdir(tmp_path) == ["a.ledger"]


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"", LedgerError), (b"SQLite format 3\0", LedgerError), (b"PK\3\4" * 9000, LedgerError)],
)
def test_files_that_are_not_ledgers_are_refused_and_left_alone(tmp_path, content, error):
    path = tmp_path / "a.ledger"
    path.write_bytes(content)
    with pytest.raises(error, match="not an Understudy ledger"):
        Ledger.open(path)
    assert path.read_bytes() == content


def test_other_databases_folders_and_nothing_are_refused(tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(LedgerError, match="is a database, but not"):
        Ledger.open(other)
    with pytest.raises(LedgerError, match="not a file"):
        Ledger.open(tmp_path)
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger.open(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()
    with pytest.raises(LedgerError, match="cannot be created"):
        make(tmp_path / "no" / "such" / "folder")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="not a file"):
        Ledger.open(tmp_path / "pipe")
    with pytest.raises(LedgerError):
        Ledger.open("a\0b")


def test_a_vanished_ledger_is_an_error_and_never_a_fresh_one(tmp_path):
    ledger = make(tmp_path / "a.ledger")
    os.remove(tmp_path / "a.ledger")
    with pytest.raises(LedgerError):
        ledger.charge(GaussianEvent(1, 40), purpose="x")
    assert os.listdir(tmp_path) == []


def test_a_replaced_or_cut_back_ledger_is_noticed(tmp_path):
    path, old = tmp_path / "a.ledger", tmp_path / "old"
    ledger = make(path)
    shutil.copy(path, old)
    ledger.charge(GaussianEvent(1, 40), purpose="x")
    published = ledger.head_hash
    shutil.copy(old, path)  # the copy made before the charge comes back
    with pytest.raises(LedgerCorrupted, match="cut back or replaced"):
        ledger.charge(GaussianEvent(1, 40), purpose="x")
    reopened = Ledger.open(path)
    reopened.verify()  # nothing in the file itself can tell
    with pytest.raises(LedgerCorrupted, match="published head hash"):
        reopened.verify(head=published)
    reopened.verify(head=reopened.head_hash)


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked process, as nobody if the tests run as root; return its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child runs nothing but ``work``
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_read_only_folder_is_refused_for_writing_and_fine_for_reading():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = make(folder / "a.ledger")
        ledger.charge(GaussianEvent(1, 40), purpose="x")
        for path, mode in ((folder / "a.ledger", 0o666), (folder, 0o555)):
            path.chmod(mode)

        def work() -> None:
            if os.geteuid() == 0:
                os.seteuid(65534)  # nobody: root may write anywhere
            with pytest.raises(LedgerError, match="writable"):
                ledger.charge(GaussianEvent(1, 40), purpose="x")
            with pytest.raises(LedgerError, match="cannot be created"):
                make(folder / "b.ledger")
            Ledger.open(folder / "a.ledger").verify()

        assert in_child(work) == 0
        assert os.listdir(folder) == ["a.ledger"]
        folder.chmod(0o700)
        assert len(ledger.entries()) == 1


def test_a_read_only_connection_gives_the_same_error(tmp_path, monkeypatch):
    """The same refusal where tests run as root: SQLite itself says that it may not write."""
    ledger = make(tmp_path / "a.ledger")
    monkeypatch.setattr(store_module, "_PRAGMAS", ("PRAGMA query_only=ON",))
    with pytest.raises(LedgerError, match="cannot be opened for writing"):
        ledger.charge(GaussianEvent(1, 40), purpose="x")
    assert ledger.spent == 0.0


def test_a_full_disk_is_refused_and_nothing_is_spent(tmp_path, monkeypatch):
    ledger = make(tmp_path / "a.ledger")
    monkeypatch.setattr(store_module, "_PRAGMAS", (*store_module._PRAGMAS, "PRAGMA max_page_count=2"))
    before = (tmp_path / "a.ledger").read_bytes()
    with pytest.raises(LedgerError, match="disk is full"):
        ledger.charge(Composed([GaussianEvent(1, 1000 + i) for i in range(400)]), purpose="a long line")
    assert (tmp_path / "a.ledger").read_bytes() == before
    assert ledger.spent == 0.0
    ledger.verify()


def test_a_full_disk_at_creation_leaves_nothing_behind(tmp_path, monkeypatch):
    pragmas = (*store_module._DRAFT_PRAGMAS, "PRAGMA max_page_count=1")
    monkeypatch.setattr(store_module, "_DRAFT_PRAGMAS", pragmas)
    with pytest.raises(LedgerError, match="cannot be created: database or disk is full"):
        make(tmp_path / "a.ledger")
    assert os.listdir(tmp_path) == []


def test_a_ledger_in_use_says_so(tmp_path):
    path = tmp_path / "a.ledger"
    ledger = make(path, timeout=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match=r"in use by another process for 0\.05 seconds"):
            ledger.charge(GaussianEvent(1, 40), purpose="x")
        other.execute("ROLLBACK")
    finally:
        other.close()
    ledger.charge(GaussianEvent(1, 40), purpose="x")


def test_the_database_itself_refuses_to_forget(tmp_path):
    path = tmp_path / "a.ledger"
    make(path).charge(GaussianEvent(1, 40), purpose="x")
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for statement in (
            "DELETE FROM line",
            "UPDATE line SET body = 'x'",
            "INSERT INTO line VALUES (7, 'x', x'00')",
            "INSERT INTO line VALUES (1, 'x', x'00')",
            "REPLACE INTO line VALUES (1, 'x', x'00')",
            "INSERT INTO line VALUES (NULL, 'x', x'00')",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)
    finally:
        connection.close()
    Ledger.open(path).verify()


@pytest.mark.parametrize("name", ["table", "unit", "budget", "timeout"])
def test_ledgers_that_make_no_sense_are_refused_before_any_file_is_made(tmp_path, name):
    terms = {"budget": BUDGET, "unit": ROW, "table": "births", "timeout": 1.0}
    bad = {"table": " ", "unit": "add-remove", "budget": 1.0, "timeout": -1.0}[name]
    with pytest.raises((BudgetError, LedgerError)):
        Ledger.create(tmp_path / "a.ledger", **(terms | {name: bad}))
    assert name == "timeout" or os.listdir(tmp_path) == []
    with pytest.raises(NoSuchGuarantee):
        Ledger.in_memory(budget=PureDP(1.0), unit=ROW, accounting="gdp")


def test_ledgers_close_and_name_themselves(tmp_path):
    with make(tmp_path / "a.ledger") as ledger:
        assert "births" in repr(ledger)
        assert "a.ledger" in repr(ledger)
    with Ledger.in_memory(budget=BUDGET, unit=ROW) as ledger:
        assert "in memory" in repr(ledger)
    with pytest.raises(LedgerError, match="was closed"):
        ledger.charge(GaussianEvent(1, 40), purpose="x")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_processes_share_a_file_but_not_a_memory(tmp_path):
    memory = Ledger.in_memory(budget=PureDP(1.0), unit=ROW)
    file = make(tmp_path / "a.ledger", budget=PureDP(1.0))

    def work() -> None:
        file.charge(PureEvent(0.5), purpose="child")
        with pytest.raises(LedgerError, match="forked"):
            memory.charge(PureEvent(0.5), purpose="child")

    assert in_child(work) == 0
    assert (file.spent, memory.spent) == (0.5, 0.0)


# ------------------------------------------------------------------------------------------- verification


def small_ledger(path: Path, lines: int = 3) -> bytes:
    ledger = make(path)
    for i in range(lines):
        ledger.charge(GaussianEvent(1, 40 + i), purpose=f"count {i}", scope="test")
    ledger.verify()
    return path.read_bytes()


def fails(path: Path) -> bool:
    try:
        Ledger.open(path).verify()
    except LedgerError:
        return True
    return False


def test_any_single_changed_byte_is_found_by_the_byte_check_alone(tmp_path):
    """Every position of the file, one at a time, without SQLite: read, rebuild, compare, check the chain."""
    image = small_ledger(tmp_path / "a.ledger")
    writer = read_image(image).writer
    unnoticed = []
    for position in range(len(image)):
        for bit in {position % 8, 0, 7} if image[position] else {position % 8}:
            changed = bytearray(image)
            changed[position] ^= 1 << bit
            try:
                found = read_image(bytes(changed))
            except ImageError:
                continue
            head, broken = bytes(32), found.writer != writer
            for sequence, text, digest in found.lines:
                broken |= digest != link(head, sequence, text)
                head = digest
            if not broken:
                unnoticed.append(position)
    assert unnoticed == []


def test_verify_fails_after_any_byte_is_changed(tmp_path, seed):
    """The whole way, as a user would: all bytes that carry structure and a sample of the rest."""
    path, copy = tmp_path / "a.ledger", tmp_path / "copy.ledger"
    image = small_ledger(path)
    generator = random.Random(seed)
    telling = [i for i, byte in enumerate(image) if byte]
    positions = {*range(120), *generator.sample(telling, 500), *generator.sample(range(len(image)), 400)}
    unnoticed = []
    for position in sorted(positions):
        changed = bytearray(image)
        changed[position] ^= generator.randrange(1, 256)
        copy.write_bytes(changed)
        if not fails(copy):
            unnoticed.append(position)
        for rest in tmp_path.glob("copy.ledger-*"):
            rest.unlink()
    assert unnoticed == []


def test_longer_ledgers_with_long_lines_are_covered_too(tmp_path, seed):
    path = tmp_path / "a.ledger"
    ledger = make(path, budget=ZCDP(1000.0))
    generator = random.Random(seed)
    for i in range(50):
        size = generator.choice([1, 1, 30, 300])
        events = [GaussianEvent(1, 1000 + generator.random()) for _ in range(size)]
        ledger.charge(Composed(events), purpose=f"batch {i}", scope="s" * generator.randrange(300))
    ledger.verify()
    image = path.read_bytes()
    assert len(image) > 15 * PAGE_SIZE
    assert read_image(image).lines[0][1].startswith(b'{"accounting":"zcdp"')
    copy = tmp_path / "copy.ledger"
    for position in generator.sample(range(len(image)), 20):
        changed = bytearray(image)
        changed[position] ^= generator.randrange(1, 256)
        copy.write_bytes(changed)
        assert fails(copy), position


def test_files_that_are_cut_or_grown_are_refused(tmp_path):
    path = tmp_path / "a.ledger"
    image = small_ledger(path)
    for content in (image[:-1], image[:-PAGE_SIZE], image[:100], image + b"\0", image + bytes(PAGE_SIZE)):
        path.write_bytes(content)
        assert fails(path)
    path.write_bytes(image)
    assert not fails(path)


def rewrite(path: Path, edit) -> None:
    """Change the lines of a ledger the way a forger would: triggers dropped, chain recomputed."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA secure_delete=ON")
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    rows = [(n, json.loads(body)) for n, body in connection.execute("SELECT sequence, body FROM line")]
    connection.execute("DELETE FROM line")
    head = bytes(32)
    for number, values in edit(rows):
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        head = link(head, number, text.encode())
        connection.execute("INSERT INTO line VALUES (?, ?, ?)", (number, text, head))
    for _, sql in triggers:
        connection.execute(sql)
    connection.execute("PRAGMA schema_version=4")
    connection.close()


def test_forged_costs_and_overspent_sums_are_found_even_with_a_perfect_chain(tmp_path):
    path = tmp_path / "a.ledger"
    small_ledger(path)
    clean = path.read_bytes()

    def cheaper(rows):
        rows[1][1]["costs"]["gdp"] = 1e-12
        return rows

    def overspent(rows):
        rows[1][1]["event"]["sigma"] = 0.1
        rows[1][1]["costs"] = {"gdp": 100.0, "pure": None, "zcdp": 50.0}
        return rows

    for edit, words in (
        (cheaper, "line 1 of the ledger records less than its event costs"),
        (overspent, "add up to more than its budget"),
        (lambda rows: [rows[0], (2, rows[2][1])], "chain of the ledger is broken at line 1"),
    ):
        path.write_bytes(clean)
        rewrite(path, edit)
        with pytest.raises(LedgerCorrupted, match=f"(?i){words}"):
            Ledger.open(path).verify()
    path.write_bytes(clean)
    rewrite(path, lambda rows: rows)
    Ledger.open(path).verify()  # the same lines written again are the same ledger


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (0, {"format": 99}),
        (0, {"kind": "note"}),
        (0, {"budget": {"kind": "pure", "epsilon": -1.0}}),
        (0, {"unit": {}}),
        (0, {"table": 3}),
        (0, {"accounting": "renyi"}),
        (1, {"kind": "header"}),
        (1, {"event": {"kind": "magic"}}),
        (1, {"costs": [1]}),
        (1, {"writer": "me"}),
        (1, {"purpose": 7}),
    ],
)
def test_lines_that_cannot_be_understood_are_refused(tmp_path, line, values):
    path = tmp_path / "a.ledger"
    small_ledger(path)

    def edit(rows):
        rows[line][1].update(values)
        return rows

    rewrite(path, edit)
    with pytest.raises(LedgerError):
        Ledger.open(path)


def test_missing_fields_and_broken_chains_are_refused(tmp_path):
    path = tmp_path / "a.ledger"
    small_ledger(path)

    def edit(rows):
        del rows[1][1]["scope"]
        return rows

    rewrite(path, edit)
    with pytest.raises(LedgerCorrupted, match="lacks scope"):
        Ledger.open(path)


def test_a_rewritten_file_is_noticed_although_its_lines_are_the_same(tmp_path):
    path = tmp_path / "a.ledger"
    small_ledger(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("VACUUM")
    connection.close()
    ledger = Ledger.open(path)
    assert len(ledger.entries()) == 3
    with pytest.raises(LedgerCorrupted, match="file was changed"):
        ledger.verify()


def test_verifying_a_ledger_that_was_exchanged_fails(tmp_path):
    first, second = make(tmp_path / "a.ledger"), make(tmp_path / "b.ledger")
    shutil.copy(tmp_path / "b.ledger", tmp_path / "a.ledger")
    second.verify()
    with pytest.raises(LedgerCorrupted):
        first.verify()


def test_deep_trees_are_read_correctly(tmp_path):
    """Two levels of index pages, which SQLite rearranges: built with plain inserts to save time."""
    path = tmp_path / "a.ledger"
    ledger = make(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA journal_mode=OFF")
    (head,) = connection.execute("SELECT hash FROM line").fetchone()
    body = "x" * 8000
    connection.execute("BEGIN")
    for i in range(1, 4500):
        head = link(head, i, body.encode())
        connection.execute("INSERT INTO line VALUES (?, ?, ?)", (i, body, head))
    connection.execute("COMMIT")
    connection.close()
    assert ledger.path == path
    image = path.read_bytes()
    assert len(read_image(image).lines) == 4500
    generator = random.Random(1)
    for position in generator.sample(range(len(image)), 5):
        changed = bytearray(image)
        changed[position] ^= 255
        try:
            lines = read_image(bytes(changed)).lines
        except ImageError:
            continue
        assert lines != read_image(image).lines or changed[position // PAGE_SIZE * PAGE_SIZE] == 5
