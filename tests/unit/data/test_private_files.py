"""Folders of unfinished work: one process at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from understudy.data import private_files
from understudy.data.private_files import private_folder
from understudy.errors import LedgerError, OutputError


@pytest.mark.parametrize("anew", [False, True], ids=["removed", "made anew"])
def test_a_lock_whose_folder_was_removed_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    """Whoever has the lock may remove the folder between another's opening of the lock and its taking it."""
    folder = tmp_path / "state"
    taken = private_files.take_lock

    def late(handle: int) -> bool:
        shutil.rmtree(folder)
        if anew:
            folder.mkdir()
            (folder / "lock").touch()
        return taken(handle)

    monkeypatch.setattr(private_files, "take_lock", late)
    with pytest.raises(LedgerError, match="Another process"), private_folder(folder, what="fit"):
        pass


def test_the_name_of_a_new_folder_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(private_files, "sync", synced.append)
    with private_folder(tmp_path / "state", what="fit"):
        assert tmp_path in synced


def test_a_folder_that_is_removed_while_it_is_being_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mkdir finds a folder, and before it can see that it is one somebody removes it."""
    make, calls = Path.mkdir, []

    def mkdir(self: Path, *given: Any, **options: Any) -> None:
        calls.append(self)
        if len(calls) == 1:
            raise FileExistsError(17, "File exists")
        make(self, *given, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with private_folder(tmp_path / "state", what="fit") as folder:
        assert folder.is_dir()
    (tmp_path / "file").write_text("")
    monkeypatch.undo()
    with pytest.raises(OutputError), private_folder(tmp_path / "file", what="fit"):
        pass
