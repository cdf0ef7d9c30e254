"""The only code that sees both exact values and the noise."""

from typing import TYPE_CHECKING

from understudy._deprecation import forwarded
from understudy.curator.curator import Curator
from understudy.curator.exact import PublicNumbers, to_float
from understudy.curator.facts import (
    remember_measured,
    require_measured,
    require_unmeasured,
    table_facts,
)
from understudy.curator.journal import Journal
from understudy.curator.numbers import (
    Reach,
    ReleasedKeys,
    SealedKeys,
    SealedNumbers,
    measure_numbers,
    release_keys,
    usable_key,
)
from understudy.curator.practice import practice_curator
from understudy.curator.rounding import GRID_WIDENING, scalar_noise
from understudy.curator.sealed import Sealed, SealedCounts, SealedScalar, hide_errors

__all__ = [
    "GRID_WIDENING",
    "Curator",
    "Journal",
    "PublicNumbers",
    "Reach",
    "ReleasedKeys",
    "Sealed",
    "SealedCounts",
    "SealedKeys",
    "SealedNumbers",
    "SealedScalar",
    "hide_errors",
    "measure_numbers",
    "practice_curator",
    "release_keys",
    "remember_measured",
    "require_measured",
    "require_unmeasured",
    "scalar_noise",
    "table_facts",
    "to_float",
    "usable_key",
]

if not TYPE_CHECKING:  # a type checker would take every name for one of these
    __getattr__ = forwarded(
        "understudy.curator", "understudy.privacy", names=("Noise", "noise_for"), since="0.2", until="0.4"
    )
