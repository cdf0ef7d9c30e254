"""Every ledger that a test of this folder leaves behind is recomputed by dp-accounting."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ledger_referee import recompute
from understudy.errors import LedgerError
from understudy.privacy import Ledger


@pytest.fixture(autouse=True, scope="module")
def refereed_ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After the tests of a module, recompute the ledgers that were written meanwhile.

    Those that a test broke on purpose do not open, and are left out.
    """
    started = time.time() - 1
    yield
    for place in sorted(tmp_path_factory.getbasetemp().rglob("*.ledger")):
        if place.is_file() and not place.is_symlink() and place.stat().st_mtime >= started:
            try:
                ledger = Ledger.open(place)
            except LedgerError:
                continue
            with ledger:
                recompute(ledger)
