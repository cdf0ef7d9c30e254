"""The front door of the privacy room: complete, and cheap to walk through."""

from __future__ import annotations

import subprocess
import sys

import pytest

import understudy.privacy as privacy


def test_every_public_name_can_be_reached():
    for name in privacy.__all__:
        assert getattr(privacy, name) is not None
        assert name in dir(privacy)
    assert len(set(privacy.__all__)) == len(privacy.__all__)


def test_other_names_are_absent():
    with pytest.raises(AttributeError, match="no attribute 'Skellam'"):
        privacy.Skellam  # noqa: B018


def test_reading_a_ledger_does_not_load_compilers_or_arrays():
    script = (
        "import sys; from understudy.privacy import ApproxDP, Ledger, Unit; from understudy.privacy.events import PureEvent;"
        "ledger = Ledger.in_memory(budget=ApproxDP(1.0, 1e-9), unit=Unit.add_remove());"
        "ledger.charge(PureEvent(0.1), purpose='x'); ledger.verify();"
        "print(sorted({'numba', 'scipy', 'pandas', 'numpy', 'opendp'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
