"""What every measure of quality returns: named numbers, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Result:
    """Named numbers of one measure.

    Attributes
    ----------
    measure
        What was measured, in a few words.
    values
        The numbers by name (a column, a pair of columns, a classifier).
    better
        ``"lower"`` or ``"higher"``.

    Examples
    --------
    >>> result = Result("total variation", {"age": 0.1, "sex": 0.3}, better="lower")
    >>> result.mean
    0.2
    >>> result.worst
    ('sex', 0.3)
    """

    measure: str
    values: Mapping[str, float]
    better: str

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "values",
            MappingProxyType({str(name): float(value) for name, value in self.values.items()}),
        )

    @property
    def mean(self) -> float:
        """Average of the numbers; zero if there are none."""
        return sum(self.values.values()) / len(self.values) if self.values else 0.0

    @property
    def worst(self) -> tuple[str, float]:
        """The least favourable number and its name."""
        pick = max if self.better == "lower" else min
        return pick(self.values.items(), key=lambda item: item[1])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"measure": self.measure, "better": self.better, "values": dict(self.values)}
