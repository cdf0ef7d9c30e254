"""The only code that sees both exact values and the noise."""

from typing import TYPE_CHECKING

from understudy._deprecation import forwarded
from understudy.curator.curator import Curator
from understudy.curator.exact import PublicNumbers, to_float
from understudy.curator.facts import table_facts
from understudy.curator.journal import Journal
from understudy.curator.numbers import Reach, SealedNumbers, measure_numbers
from understudy.curator.practice import practice_curator
from understudy.curator.rounding import GRID_WIDENING, scalar_noise
from understudy.curator.sealed import Sealed, SealedCounts, SealedScalar, hide_errors

__all__ = [
    "GRID_WIDENING",
    "Curator",
    "Journal",
    "PublicNumbers",
    "Reach",
    "Sealed",
    "SealedCounts",
    "SealedNumbers",
    "SealedScalar",
    "hide_errors",
    "measure_numbers",
    "practice_curator",
    "scalar_noise",
    "table_facts",
    "to_float",
]

if not TYPE_CHECKING:  # a type checker would take every name for one of these
    __getattr__ = forwarded(
        "understudy.curator", "understudy.privacy", names=("Noise", "noise_for"), since="0.2", until="0.4"
    )
