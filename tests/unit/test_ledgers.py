"""The user's record of tables and their ledgers, and what is done where it cannot be kept."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import time
from pathlib import Path

import pandas as pd
import pytest

from understudy.adapters import TableSynthesizer
from understudy.data.linked import LinkedTables
from understudy.data.sql.source import Database
from understudy.errors import BudgetError, LedgerCorrupted, LedgerError, LedgerMismatch
from understudy.ledgers import (
    KnownLedger,
    LedgerPlace,
    find_ledger,
    known_ledgers,
    other_ledgers,
    user_folder,
)
from understudy.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP, Unit
from understudy.privacy.events import PureEvent
from understudy.privacy.ledger.anchors import Anchor
from understudy.schema import Categorical, Schema

TERMS = {
    "budget": PureDP(2.0),
    "unit": Unit.add_remove(),
    "table": "t",
    "approximate_delta": 0.0,
    "advice": "",
}
FRAME = pd.DataFrame({"sex": ["f", "m", "f"] * 20})
SCHEMA = Schema(columns=(Categorical(name="sex", values=("f", "m")),))


def test_the_record_is_private_keyed_and_made_once() -> None:
    first, second = known_ledgers(), known_ledgers()
    assert first is not None
    assert second is not None
    assert first.digester("a").digest() == second.digester("a").digest() != first.digester("b").digest()
    assert stat.S_IMODE((first.folder / "tables.sqlite").stat().st_mode) == 0o600


def test_a_ledger_never_gets_shorter_in_the_record() -> None:
    record = known_ledgers()
    assert record is not None
    late, early = Anchor("x", "aa" * 32, 5), Anchor("x", "bb" * 32, 3)
    record.remember(KnownLedger(late, Path("/a"), True), [b"mark"])
    record.remember(KnownLedger(early, Path("/b"), False))
    assert record.seen("x") == KnownLedger(late, Path("/b"), True)
    assert record.of([b"mark", b"other"]) == (record.seen("x"),)
    assert record.of([b"other"]) == ()
    assert record.seen("y") is None


def test_places_of_the_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "own"))
    assert user_folder() == tmp_path / "own"
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700
    monkeypatch.delenv("UNDERSTUDY_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert user_folder() == tmp_path / "state" / "understudy"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_folder() == tmp_path / "home" / ".local" / "state" / "understudy"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert user_folder() is None
    assert known_ledgers() is None


def test_a_schema_file_that_comes_to_name_other_tables_pays_from_their_ledger(tmp_path: Path) -> None:
    def linked(schema: str, folder: str) -> LinkedTables:
        return LinkedTables(
            tables={name: tmp_path / folder / f"{name}.csv" for name in ("people", "visits")},
            name="register",
            file=tmp_path / schema / "register.yaml",
        )

    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "register.yaml").write_text("tables: []\n")
        (tmp_path / folder / "people.csv").write_text(f"id\n1{folder}\n")
        (tmp_path / folder / "visits.csv").write_text(f"id\n2{folder}\n")
        with find_ledger(linked(folder, folder), name="register.yaml").opened(**TERMS) as ledger:
            ledger.charge(PureEvent(1.0), purpose="count")
    own, other = (find_ledger(linked("b", folder), name="register.yaml") for folder in ("b", "a"))
    assert own.path.parent == tmp_path / "b"
    assert other.path.parent == tmp_path / "a"
    (tmp_path / "b" / "visits.csv").write_text("id\n3\n")  # what changes in its place keeps its ledger
    (tmp_path / "b" / "people.csv").write_text("id\n3\n")
    assert find_ledger(linked("b", "b"), name="register.yaml").path == own.path
    (tmp_path / "c").mkdir()  # as do new tables, of which nothing is known, under the same schema file
    assert find_ledger(linked("b", "c"), name="register.yaml").path == own.path


def test_a_damaged_record_is_an_error_and_never_a_fresh_one() -> None:
    place = Path(os.environ["UNDERSTUDY_HOME"]) / "tables.sqlite"
    place.write_bytes(b"not a database at all" * 100)
    with pytest.raises(LedgerError, match="record of tables"):
        known_ledgers()
    assert place.read_bytes().startswith(b"not a database")


def test_a_record_that_cannot_be_written_stops_the_work_before_anything_is_charged(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    place = find_ledger(tmp_path / "t.csv", name="t.csv")
    (Path(os.environ["UNDERSTUDY_HOME"]) / "tables.sqlite").unlink()
    with pytest.raises(LedgerError, match="Nothing was charged"), place.opened(**TERMS):
        raise AssertionError("never reached")


def test_how_far_a_ledger_got_is_remembered_however_the_work_ends(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    place = find_ledger(tmp_path / "t.csv", name="t.csv")
    with contextlib.suppress(KeyboardInterrupt), place.opened(**TERMS) as book:
        book.charge(PureEvent(1.0), purpose="count")
        raise KeyboardInterrupt
    record = known_ledgers()
    assert record is not None
    assert record.seen(book.ledger_id) == KnownLedger(book.anchor(), tmp_path / "t.ledger", True)


def test_a_plain_path_is_checked_against_what_lies_beside_it(tmp_path: Path) -> None:
    place = LedgerPlace(tmp_path / "t.ledger")
    with place.opened(**TERMS) as book:
        early = (tmp_path / "t.ledger").read_bytes()
        book.charge(PureEvent(1.0), purpose="count")
        (tmp_path / "t.anchor").write_text(json.dumps(book.anchor().to_dict()))
    (tmp_path / "t.ledger").write_bytes(early)
    with pytest.raises(LedgerCorrupted, match="rolled back"), place.opened(**TERMS):
        raise AssertionError("never reached")


def test_a_public_table_has_its_ledger_in_the_working_directory(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_ledger(None, name="births (simulated)").path == tmp_path / "births--simulated.ledger"
    assert not (Path(os.environ["UNDERSTUDY_HOME"]) / "tables.sqlite").exists()


def test_a_frame_has_one_ledger_under_every_name() -> None:
    words = {"schema": SCHEMA, "unit": "add-remove", "epsilon": 1.0, "ledger": "default"}
    made = TableSynthesizer("independent", **words).fit(FRAME)
    assert made.model_.provenance.ledger_length
    with pytest.raises(BudgetError, match="Epsilon 1 of 1 is used"):
        TableSynthesizer("laplace", **words).fit(FRAME.sample(frac=1, random_state=0))
    folder = Path(os.environ["UNDERSTUDY_HOME"]) / "ledgers"
    (file,) = folder.glob("*.ledger")
    with Ledger.open(file) as book:
        assert book.spent == pytest.approx(1.0)


def test_a_process_that_was_killed_leaves_a_ledger_that_counts(tmp_path: Path) -> None:
    """Nobody writes down what a killed process has charged; it may have been anything."""
    (tmp_path / "t.csv").write_text("a\n1\n")
    if (child := os.fork()) == 0:
        with find_ledger(tmp_path / "t.csv", name="t.csv").opened(**TERMS) as book:
            book.charge(PureEvent(1.0), purpose="count")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with pytest.raises(LedgerError, match="another ledger"):
        find_ledger(tmp_path / "t.csv", name="t.csv", ledger=tmp_path / "other.ledger")
    (tmp_path / "t.ledger").unlink()
    with pytest.raises(LedgerError, match="not there any more"):
        find_ledger(tmp_path / "t.csv", name="t.csv")


@pytest.mark.parametrize(
    ("budget", "option"),
    [
        (PureDP(3.0), "--epsilon 3"),
        (ZCDP(9.0), "--rho 9"),
        (GDP(9.0), "--mu 9"),
        (ApproxDP(3.0, 1e-6), "--delta 1e-06"),
    ],
)
def test_a_total_that_is_too_small_and_uncharged_is_refused_with_the_command(
    tmp_path: Path, budget: object, option: str
) -> None:
    decided = ApproxDP(1.0, 1e-6)
    Ledger.create(tmp_path / "t.ledger", budget=decided, unit=Unit.add_remove(), table="t").close()
    place = LedgerPlace(tmp_path / "t.ledger")
    with (
        pytest.raises(LedgerError, match=f"understudy ledger total .*{option}"),
        place.opened(**TERMS | {"budget": budget}),
    ):
        raise AssertionError("never reached")
    with place.opened(**TERMS | {"budget": PureDP(0.5)}) as book:  # enough for that
        assert book.budget == decided


def test_a_further_ledger_says_once_that_there_is_another(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    with find_ledger(tmp_path / "t.csv", name="t.csv").opened(**TERMS) as first:
        first.charge(PureEvent(1.0), purpose="count")
    other = tmp_path / "other.ledger"
    Ledger.create(other, budget=PureDP(2.0), unit=Unit.add_remove(), table="t").close()
    place = find_ledger(tmp_path / "t.csv", name="t.csv", ledger=other, another=True)
    for _ in range(2):
        with place.opened(**TERMS) as book:
            assert [first.ledger_id in entry.purpose for entry in book.entries()] == [True]
    again = find_ledger(tmp_path / "t.csv", name="t.csv", ledger=other)  # consented to, and remembered
    with again.opened(**TERMS) as book:
        assert len(book.entries()) == 1


def _tables(folder: Path) -> dict[str, object]:
    """One table, one of a database and linked ones; of the database only the address counts, and no server is asked."""
    for name in ("t", "people", "visits"):
        (folder / f"{name}.csv").write_text(f"{name}\n1\n")
    linked = {name: str(folder / f"{name}.csv") for name in ("people", "visits")}
    return {
        "file": folder / "t.csv",
        "database": Database(url="postgresql://clerk@127.0.0.1:1/registry", table="health.t"),
        "linked": LinkedTables(tables=linked, name="register"),
    }


@pytest.mark.parametrize("kind", ["file", "database", "linked"])
def test_work_that_charged_nothing_makes_no_ledger_of_the_table(tmp_path: Path, kind: str) -> None:
    """It failed while reading; another ledger paid; gone on with, it would have spent a second budget without a word."""
    source = _tables(tmp_path)[kind]
    one, two = tmp_path / "one.ledger", tmp_path / "two.ledger"
    with (
        pytest.raises(LedgerError, match="no reading"),
        find_ledger(source, name="t", ledger=one).opened(**TERMS),
    ):
        raise LedgerError("no reading")
    assert find_ledger(source, name="t", ledger=one).path == one  # nothing is in the way yet
    with find_ledger(source, name="t", ledger=two).opened(**TERMS) as book:
        book.charge(PureEvent(1.0), purpose="count")
        second = book.ledger_id
    with pytest.raises(LedgerMismatch, match=r"another ledger: .*two\.ledger") as refusal:
        find_ledger(source, name="t", ledger=one)
    assert "--another-ledger" in str(refusal.value)
    assert find_ledger(source, name="t").path == two  # the one that paid
    with find_ledger(source, name="t", ledger=one, another=True).opened(**TERMS) as book:
        assert other_ledgers(book) == {second}
        first = book.ledger_id
    with find_ledger(source, name="t", ledger=one).opened(**TERMS) as book:  # consented to, and remembered
        assert len(book.entries()) == 1
        book.charge(PureEvent(1.0), purpose="count")
    for _ in range(2):
        with find_ledger(source, name="t", ledger=two).opened(**TERMS) as book:
            assert other_ledgers(book) == {first}  # told once, from its next use on
            assert len(book.entries()) == 2


@pytest.mark.parametrize("kind", ["file", "database", "linked"])
def test_work_under_way_keeps_other_ledgers_of_its_table_away(tmp_path: Path, kind: str) -> None:
    """Both were found before either was charged: without a refusal each would pay its whole budget for the same table."""
    source = _tables(tmp_path)[kind]
    one, two, third = (find_ledger(source, name="t", ledger=tmp_path / f"{name}.ledger") for name in "123")
    accepted = find_ledger(source, name="t", ledger=tmp_path / "4.ledger", another=True)
    with one.opened(**TERMS) as book:
        with (
            pytest.raises(LedgerMismatch, match=r"work under way is about to charge: .*1\.ledger"),
            two.opened(**TERMS),
        ):
            raise AssertionError("never reached")
        assert not two.path.exists()
        with accepted.opened(**TERMS) as further:
            assert other_ledgers(further) == {book.ledger_id}
        with one.opened(**TERMS) as same:  # several may share one
            assert same.ledger_id == book.ledger_id
    with two.opened(**TERMS) as book:  # nothing was charged, so nothing is in the way any more
        book.charge(PureEvent(1.0), purpose="count")
    with pytest.raises(LedgerMismatch, match=r"another ledger: .*2\.ledger"), third.opened(**TERMS):
        raise AssertionError("never reached")
    held = sorted(path.name for path in (user_folder() / "under-way").iterdir())
    assert held == ["decision.lock"]


def test_work_that_was_killed_before_its_first_charge_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    one, two = (find_ledger(tmp_path / "t.csv", name="t", ledger=tmp_path / name) for name in ("1", "2"))
    if (child := os.fork()) == 0:
        with one.opened(**TERMS):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list((user_folder() / "under-way").glob("*.*.lock"))) == 1
    with two.opened(**TERMS) as book:
        book.charge(PureEvent(1.0), purpose="count")
    assert not list((user_folder() / "under-way").glob("*.*.lock"))


def test_a_lock_that_cannot_be_removed_takes_no_result_with_it(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")

    removed = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".lock":
            raise PermissionError(f"{path} stays")
        removed(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with find_ledger(tmp_path / "t.csv", name="t").opened(**TERMS) as book:
            book.charge(PureEvent(1.0), purpose="count")
            name = book.ledger_id
    assert len(list((user_folder() / "under-way").glob("*.*.lock"))) == 1
    with known_ledgers().alone():
        assert not known_ledgers().under_way(name)  # nobody holds it, and it is cleared away
    assert not list((user_folder() / "under-way").glob("*.*.lock"))


def test_of_processes_that_begin_at_once_with_new_ledgers_one_is_charged(tmp_path: Path) -> None:
    """Eight processes, each with a ledger of its own for one table, found before any of them begins; five times over."""
    for turn in range(5):
        folder = tmp_path / str(turn)
        folder.mkdir()
        (folder / "t.csv").write_text(f"a\n{turn}\n")
        places = [find_ledger(folder / "t.csv", name="t", ledger=folder / f"{i}.ledger") for i in range(8)]
        ready, start = os.pipe()
        children = []
        for place in places:
            if (child := os.fork()) == 0:
                os.close(start)
                os.read(ready, 1)  # ends when the last writer does
                code = 1
                with contextlib.suppress(LedgerMismatch), place.opened(**TERMS) as book:
                    time.sleep(0.1)  # as a table is read first: all others ask in this time
                    book.charge(PureEvent(1.0), purpose="count")
                    code = 0
                os._exit(code)
            children.append(child)
        os.close(ready)
        os.close(start)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert sorted(codes) == [0, *[1] * 7]


def test_a_ledger_is_not_chosen_while_another_process_chooses(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("understudy.ledgers._PATIENCE", 0.05)
    (tmp_path / "t.csv").write_text("a\n1\n")
    place = find_ledger(tmp_path / "t.csv", name="t")
    with (
        known_ledgers().alone(),
        pytest.raises(LedgerError, match="another process has been choosing"),
        place.opened(**TERMS),
    ):
        raise AssertionError("never reached")
    assert not place.path.exists()
    (user_folder() / "under-way" / "decision.lock").unlink()
    (user_folder() / "under-way" / "decision.lock").mkdir()
    with pytest.raises(LedgerError, match="Nothing was charged"), place.opened(**TERMS):
        raise AssertionError("never reached")


def test_an_unused_ledger_in_the_default_place_is_refused_where_the_one_that_paid_is_gone(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    with find_ledger(tmp_path / "t.csv", name="t.csv").opened(**TERMS):
        pass
    other = tmp_path / "other.ledger"
    with find_ledger(tmp_path / "t.csv", name="t.csv", ledger=other).opened(**TERMS) as book:
        book.charge(PureEvent(1.0), purpose="count")
    assert find_ledger(tmp_path / "t.csv", name="t.csv").path == other
    other.unlink()
    with pytest.raises(LedgerMismatch, match=r"another ledger: .*other\.ledger"):
        find_ledger(tmp_path / "t.csv", name="t.csv")
    assert find_ledger(tmp_path / "t.csv", name="t.csv", another=True).path == tmp_path / "t.ledger"


def test_of_linked_tables_each_has_its_ledger(tmp_path: Path) -> None:
    """The ledger of people and visits paid for neither of the claims, which have one of their own."""
    _tables(tmp_path)
    (tmp_path / "claims.csv").write_text("claims\n1\n")
    people, visits, claims = (str(tmp_path / f"{name}.csv") for name in ("people", "visits", "claims"))
    one, two = tmp_path / "one.ledger", tmp_path / "two.ledger"
    first = LinkedTables(tables={"people": people, "visits": visits}, name="register")
    with find_ledger(first, name="t", ledger=one).opened(**TERMS) as book:
        book.charge(PureEvent(1.0), purpose="count")
    with find_ledger(claims, name="t", ledger=two).opened(**TERMS) as book:
        book.charge(PureEvent(1.0), purpose="count")
    assert find_ledger(people, name="t", ledger=one).path == one
    both = LinkedTables(tables={"people": people, "claims": claims}, name="register")
    with pytest.raises(LedgerMismatch, match=r"another ledger: .*two\.ledger"):
        find_ledger(both, name="t", ledger=one)
    with find_ledger(both, name="t", ledger=one, another=True).opened(**TERMS):
        pass
    assert find_ledger(both, name="t", ledger=one).path == one


def test_nothing_is_written_to_a_ledger_that_was_rolled_back(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    place = find_ledger(tmp_path / "t.csv", name="t.csv")
    with place.opened(**TERMS) as book:
        early = (tmp_path / "t.ledger").read_bytes()
        book.charge(PureEvent(1.0), purpose="count")
    (tmp_path / "t.ledger").write_bytes(early)
    with (
        pytest.raises(LedgerCorrupted, match="rolled back"),
        place.opened(**TERMS | {"budget": PureDP(5.0)}),  # would follow the budget of a first use
    ):
        raise AssertionError("never reached")
    assert (tmp_path / "t.ledger").read_bytes() == early


def test_a_ledger_beside_the_table_counts_for_a_user_who_knows_nothing_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    with find_ledger(tmp_path / "t.csv", name="t.csv").opened(**TERMS | {"table": "t.csv"}) as book:
        book.charge(PureEvent(1.0), purpose="count")
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "another user"))
    other = tmp_path / "other.ledger"
    with pytest.raises(LedgerMismatch, match=r"has another ledger: .*t\.ledger"):
        find_ledger(tmp_path / "t.csv", name="t.csv", ledger=other)
    assert find_ledger(tmp_path / "t.csv", name="t.csv", ledger=other, another=True).path == other
    assert find_ledger(tmp_path / "t.csv", name="t.csv", ledger=tmp_path / "t.ledger").path.exists()


def test_a_refused_run_does_not_bind_a_table_to_a_ledger_that_was_named_by_mistake(tmp_path: Path) -> None:
    for year in ("2022", "2023"):
        (tmp_path / year).mkdir()
        (tmp_path / year / "t.csv").write_text(f"a\n{year}\n")
    with find_ledger(tmp_path / "2022" / "t.csv", name="t.csv").opened(**TERMS) as book:
        book.charge(PureEvent(1.0), purpose="count")
    wrong = find_ledger(tmp_path / "2023" / "t.csv", name="t.csv", ledger=tmp_path / "2022" / "t.ledger")
    with pytest.raises(LedgerError, match="other facts"), wrong.opened(**TERMS):
        raise LedgerError("other facts")
    right = find_ledger(tmp_path / "2023" / "t.csv", name="t.csv")
    assert right.path == tmp_path / "2023" / "t.ledger"
    again = find_ledger(tmp_path / "2022" / "t.csv", name="t.csv")
    assert again.path == tmp_path / "2022" / "t.ledger"


def test_a_ledger_of_the_command_line_pays_in_python_whatever_it_calls_its_table(tmp_path: Path) -> None:
    path = tmp_path / "staff.ledger"
    Ledger.create(path, budget=PureDP(2.0), unit=Unit.add_remove(), table="staff.csv").close()
    TableSynthesizer("independent", schema=SCHEMA, unit="add-remove", epsilon=1.0, ledger=path).fit(FRAME)
    with Ledger.open(path) as book:
        assert book.charged
        assert book.table == "staff.csv"


def test_a_file_has_the_same_default_ledger_in_python_as_on_the_command_line(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "staff.csv", index=False)
    method = TableSynthesizer("independent", schema=SCHEMA, unit="add-remove", epsilon=1.0, ledger="default")
    method.fit(tmp_path / "staff.csv")
    with Ledger.open(tmp_path / "staff.ledger") as book:
        assert book.table == "staff.csv"
        assert book.charged


def test_a_ledger_is_one_place_under_every_name(tmp_path: Path) -> None:
    """What is kept of interrupted work lies beside it and must not be missed because a link was named."""
    path = tmp_path / "t.ledger"
    Ledger.create(path, budget=PureDP(2.0), unit=Unit.add_remove(), table="t").close()
    (tmp_path / "link.ledger").symlink_to(path)
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert LedgerPlace(tmp_path / "link.ledger").path == path
    assert find_ledger(tmp_path / "t.csv", name="t.csv", ledger=tmp_path / "link.ledger").path == path
