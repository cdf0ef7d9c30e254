"""Folders of unfinished work: one process at a time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from understudy.data import private_files
from understudy.data.private_files import private_folder
from understudy.errors import LedgerError


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
