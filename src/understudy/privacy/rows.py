"""What is publicly known about the number of rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.errors import BudgetError


@dataclass(frozen=True)
class PublicRows:
    """What is publicly known about the number of rows: nothing, an estimate, a measurement, or the exact number.

    Attributes
    ----------
    number
        The number to work with; ``None`` where none is public.
    exact
        Whether it is the exact number, so that sensitivities and estimates may rely on it.
    scale
        Scale of the Laplace noise that the number was measured with, where it was.
    fixed
        Whether all neighbours of the table have equally many rows.

    Examples
    --------
    >>> PublicRows.estimated(40).total is None, PublicRows.exactly(40).total
    (True, 40.0)
    """

    number: int | None = None
    exact: bool = False
    scale: float | None = None
    fixed: bool = False

    def __post_init__(self) -> None:
        if self.number is not None and self.number < 0:
            raise BudgetError(f"rows ({self.number}) must not be negative.")

    @classmethod
    def exactly(cls, number: int | None = None) -> PublicRows:
        """Declare the exact number public: this one, or without it whatever it is."""
        return cls(number, exact=True)

    @classmethod
    def measured(cls, number: int | None, *, scale: float) -> PublicRows:
        """Give a number that was measured with Laplace noise and paid for before, or ``None`` if it is about to be."""
        return cls(number, scale=scale)

    @classmethod
    def estimated(cls, number: int) -> PublicRows:
        """Give a number to work with that no sensitivity may rely on."""
        return cls(number)

    @property
    def total(self) -> float | None:
        """The number of rows to fix in an estimate, or ``None`` to estimate it.

        Only the exact number is fixed. A measured or guessed one is off by some rows, and an estimate that must
        sum to it would share those rows out equally between the cells of each table, rare ones included.

        A distribution cannot be proportional to an empty table, so a table known to be empty counts as
        one row; what is drawn from it is noise in either case.
        """
        return float(max(1, self.number)) if self.exact and self.number is not None else None
