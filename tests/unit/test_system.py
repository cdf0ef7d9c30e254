"""A system without POSIX file locks gets a first message that says what is missing and what to use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from understudy._system import require_posix, take_lock
from understudy.bulk.staging import Staging
from understudy.data.private_files import is_in_use, private_folder
from understudy.errors import UnsupportedSystem
from understudy.privacy import Ledger, PureDP, Unit

MESSAGE = r"needs a POSIX system .*fcntl is missing.* WSL 2 .*container.*Nothing was spent\."


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without the module, as on Windows: importing it fails."""
    monkeypatch.setitem(sys.modules, "fcntl", None)


def test_the_command_line_says_it_before_anything_else(
    no_locks: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from understudy.cli.main import run

    monkeypatch.setattr(sys, "argv", ["understudy", "no-such-command"])
    with pytest.raises(SystemExit) as stop:
        run()
    assert stop.value.code == 4
    said = capsys.readouterr().err
    assert said.startswith("error: Understudy's command line needs a POSIX system")
    assert "WSL 2" in said
    assert said.endswith("[US-INSTALL-02]\n")


def test_a_ledger_on_disk_is_refused_and_nothing_is_written(no_locks: None, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedSystem, match=f"A ledger on disk {MESSAGE}"):
        Ledger.create(tmp_path / "a.ledger", budget=PureDP(epsilon=1.0), unit=Unit.add_remove(), table="a")
    with pytest.raises(UnsupportedSystem, match=MESSAGE):
        Ledger.open(tmp_path / "a.ledger")
    assert not list(tmp_path.iterdir())


def test_folders_of_unfinished_work_are_refused_and_not_made(no_locks: None, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedSystem, match=MESSAGE), private_folder(tmp_path / "state", what="fit"):
        pass
    with pytest.raises(UnsupportedSystem, match=MESSAGE), Staging(tmp_path / "rows.csv").locked():
        pass
    assert not list(tmp_path.iterdir())


def test_a_ledger_in_memory_and_imports_need_no_locks(no_locks: None) -> None:
    ledger = Ledger.in_memory(budget=PureDP(epsilon=1.0), unit=Unit.add_remove())
    assert ledger.remaining == 1.0


def test_nothing_but_one_file_imports_what_windows_lacks() -> None:
    source = Path(__file__).parents[2] / "src" / "understudy"
    users = {path.name for path in source.rglob("*.py") if "import fcntl" in path.read_text("utf-8")}
    assert users == {"_system.py"}


def test_a_lock_is_held_by_one_open_file_at_a_time(tmp_path: Path) -> None:
    require_posix("This test")
    place = tmp_path / "lock"
    with place.open("w") as first, place.open("w") as second:
        assert take_lock(first.fileno())
        assert not take_lock(second.fileno())
        first.close()
        assert take_lock(second.fileno())
    assert not is_in_use(tmp_path)
