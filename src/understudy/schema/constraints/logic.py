"""What a constraint says about a set of possible records.

One record answers a condition with *true*, *false*, or *unknown* (when it compares a missing entry),
combined by Kleene's rules. A code stands for many possible records, so a condition answers with the *set* of
answers its records can give, kept as three bits.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["ANY", "FALSE", "TRUE", "UNKNOWN", "Answers", "both", "can", "either", "opposite"]

TRUE, UNKNOWN, FALSE = 1, 2, 4
ANY = TRUE | UNKNOWN | FALSE
Answers: TypeAlias = npt.NDArray[np.uint8]


def _table(combine: dict[tuple[int, int], int]) -> Answers:
    table = np.zeros((8, 8), dtype=np.uint8)
    for left in range(8):
        for right in range(8):
            for (a, b), answer in combine.items():
                if left & a and right & b:
                    table[left, right] |= answer
    return table


def _smaller(a: int, b: int) -> int:
    return max(a, b)  # FALSE has the highest bit, so it wins over UNKNOWN and TRUE


def _larger(a: int, b: int) -> int:
    return min(a, b)


_ANSWERS = (TRUE, UNKNOWN, FALSE)
_AND = _table({(a, b): _smaller(a, b) for a in _ANSWERS for b in _ANSWERS})
_OR = _table({(a, b): _larger(a, b) for a in _ANSWERS for b in _ANSWERS})
_NOT = np.array(
    [(s & UNKNOWN) | (TRUE if s & FALSE else 0) | (FALSE if s & TRUE else 0) for s in range(8)],
    dtype=np.uint8,
)


def both(left: Answers, right: Answers) -> Answers:
    """Return the answers of ``and`` when the two sides vary independently."""
    return np.asarray(_AND[left, right])


def either(left: Answers, right: Answers) -> Answers:
    """Return the answers of ``or`` when the two sides vary independently."""
    return np.asarray(_OR[left, right])


def opposite(part: Answers) -> Answers:
    """Return the answers of ``not``.

    Examples
    --------
    >>> opposite(np.array([TRUE, UNKNOWN, TRUE | FALSE], dtype=np.uint8))
    array([4, 2, 5], dtype=uint8)
    """
    return np.asarray(_NOT[part])


def can(true: npt.NDArray[np.bool_], false: npt.NDArray[np.bool_]) -> Answers:
    """Return answers from where true is possible and where false is possible."""
    return np.asarray(true, dtype=np.uint8) * np.uint8(TRUE) + np.asarray(false, dtype=np.uint8) * np.uint8(
        FALSE
    )
