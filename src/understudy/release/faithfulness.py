"""Faithfulness: how many synthetic records can be paired one to one with similar real ones (paper Births, 3.5.1).

The pairing itself would say which real record stands behind which synthetic one, so it is never returned, nor
kept: only the number of pairs of an optimal pairing leaves this module, and it is as private as the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from understudy.errors import WorkloadError
from understudy.release._matching import largest_matching, offsets, similar_pairs
from understudy.release.types import RecordTypes
from understudy.schema import Domain

__all__ = ["Similarity", "matched_records"]


@dataclass(frozen=True, kw_only=True)
class Similarity:
    """When two records count as similar: the declared cost function.

    Parameters
    ----------
    exact
        Columns whose values must be equal.
    near
        Columns that may differ, with the number of bins they may differ by. "One bin" is one bin of the
        encoded columns, that is, of the released transformation. Only columns whose codes are in their
        natural order belong here.
    at_most
        How many of the near columns may differ at once.
    exceptions
        Codes of near columns that must match exactly, such as a bin with a clinically meaningful value
        inside, or the codes for missing and other values, which have no neighbours.
    ignored
        Columns that do not matter. Every column of the domain must be named exactly once in ``exact``,
        ``near`` or ``ignored``, so that none is forgotten.

    Examples
    --------
    The cost function of paper Births, section 4.5.5:

    >>> births = Similarity(
    ...     exact=("birth_month", "parity", "birth_sex"),
    ...     near={"mother_age": 1, "gestation_week": 1, "birth_weight": 1},
    ... )
    >>> births.at_most
    1
    """

    exact: tuple[str, ...] = ()
    near: Mapping[str, int] = field(default_factory=dict)
    at_most: int = 1
    exceptions: Mapping[str, Iterable[int]] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", tuple(self.exact))
        object.__setattr__(self, "ignored", tuple(self.ignored))
        object.__setattr__(self, "near", dict(self.near))
        object.__setattr__(
            self, "exceptions", {name: tuple(sorted(set(codes))) for name, codes in self.exceptions.items()}
        )
        if self.at_most < 0:
            raise WorkloadError(f"at_most ({self.at_most}) must not be negative.")
        for name, steps in self.near.items():
            if steps < 1:
                raise WorkloadError(f"Column {name!r} may differ by {steps} bins; name it in exact instead.")

    def problems(self, domain: Domain) -> list[str]:
        """Return what does not fit a domain, one sentence each."""
        found = []
        named = [*self.exact, *self.near, *self.ignored]
        found += [f"no column named {name!r}" for name in dict.fromkeys(named) if name not in domain]
        found += [f"column {name!r} is named twice" for name in dict.fromkeys(named) if named.count(name) > 1]
        found += [f"column {name!r} is not mentioned" for name in domain if name not in named]
        for name, codes in self.exceptions.items():
            if name not in self.near:
                found.append(f"the exceptions of {name!r} need it among the near columns")
            elif name in domain and any(not 0 <= code < domain.size(name) for code in codes):
                found.append(f"the exceptions of {name!r} hold codes outside the column")
        return found


def matched_records(real: RecordTypes, synthetic: RecordTypes, similarity: Similarity) -> int:
    """Return the largest number of synthetic records that can be paired one to one with similar real ones.

    Identical records are grouped, so this is a maximum flow from synthetic types through similar pairs of
    types to real types, with the counts as capacities. Integer capacities have an integer maximum flow, and
    that is a maximum matching of the rows; exact, and quicker than matching rows by three orders of magnitude.

    Privacy
    -------
    Private. One real row changes the result by at most one. Take a maximum flow for the table with the row and
    cancel one unit through the row's type if that type is used to capacity: what is left is a flow for the
    table without it, so removing a row lowers the maximum by at most one. It cannot raise it, because
    every flow without the row is one with it. Adding a row is the reverse. Replacing a row removes one and
    adds one: the maximum moves by -1 or 0, then by 0 or +1, so again by at most one in total. Only the value of
    the optimum has this property; an optimal *pairing* may change everywhere and is never used.

    Examples
    --------
    >>> domain = Domain(("sex", "age"), (2, 5))
    >>> real = RecordTypes.from_rows(domain, [[0, 1], [0, 2], [1, 4]])
    >>> synthetic = RecordTypes.from_rows(domain, [[0, 2], [0, 3], [1, 1]])
    >>> matched_records(real, synthetic, Similarity(exact=("sex",), near={"age": 1}))
    2
    """
    if real.domain != synthetic.domain:
        raise WorkloadError("Both tables must have the same domain.")
    problems = similarity.problems(real.domain)
    if problems:
        raise WorkloadError(f"The similarity does not fit the table: {'; '.join(problems)}.")
    kept = [name for name in real.domain if name not in similarity.ignored]
    if not kept:
        return min(real.rows, synthetic.rows)
    if similarity.ignored:
        real, synthetic = real.project(kept), synthetic.project(kept)
    domain = real.domain
    near = {domain.index(name): steps for name, steps in similarity.near.items()}
    fixed = {domain.index(name): frozenset(codes) for name, codes in similarity.exceptions.items()}
    moves = offsets(near, min(similarity.at_most, len(near)))
    left, right = similar_pairs(synthetic.codes, real.codes, domain.sizes, moves, fixed)
    return largest_matching(left, right, synthetic.counts, real.counts)
