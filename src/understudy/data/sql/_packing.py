"""Encoded records as a few whole numbers: short keys to group by, short rows to send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data._counting import code_dtype

if TYPE_CHECKING:
    from understudy.schema import Codes, Domain

_LARGEST = 1 << 62


@dataclass(frozen=True)
class Packing:
    """Columns in mixed radix, as many to a 64-bit word as fit.

    Parameters
    ----------
    names
        The columns, most significant first.
    sizes
        Their numbers of codes.

    Examples
    --------
    >>> packing = Packing(("a", "b"), (3, 4))
    >>> packing.unpack([np.array([7, 11])])["b"]
    array([3, 3], dtype=uint8)
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, domain: Domain, names: Sequence[str]) -> Packing:
        """Pack some columns of a domain, in the order given."""
        return cls(tuple(names), domain.shape(names))

    @property
    def words(self) -> tuple[tuple[int, ...], ...]:
        """Which columns each word holds."""
        found: list[list[int]] = []
        cells = 1
        for place, size in enumerate(self.sizes):
            if not found or cells * size > _LARGEST:
                found.append([])
                cells = 1
            found[-1].append(place)
            cells *= size
        return tuple(map(tuple, found))

    def expressions(self, codes: Mapping[str, Any]) -> list[Any]:
        """Return each word as an expression over columns of codes; -1 if one of its codes is negative."""
        import ibis

        made = []
        for word in self.words:
            first, *rest = (codes[self.names[place]] for place in word)
            value, least = first, first
            for place, code in zip(word[1:], rest, strict=True):
                value = value * self.sizes[place] + code
            if rest:
                least = ibis.least(first, *rest)
            made.append(ibis.ifelse(least < 0, -1, value).cast("int64"))
        return made

    def unpack(self, words: Sequence[npt.NDArray[np.int64]]) -> dict[str, Codes]:
        """Return the codes of each column from the words of some records."""
        columns: dict[str, Codes] = {}
        for word, places in zip(words, self.words, strict=True):
            left = word
            for place in reversed(places):
                size = self.sizes[place]
                left, code = np.divmod(left, size) if place != places[0] else (left, left)
                columns[self.names[place]] = code.astype(code_dtype(size))
        return {name: columns[name] for name in self.names}
