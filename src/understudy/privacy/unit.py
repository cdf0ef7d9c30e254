"""Whose contribution is protected: the privacy unit and the sensitivities that follow from it.

A differentially private promise compares *neighbouring* tables. The unit says which tables are neighbours,
so the same noise means different promises under different units. It has no default and is written into the
header of every ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from understudy.errors import BudgetError, UnderstudyError
from understudy.privacy.exact_floats import float_up, sqrt_up, whole

__all__ = ["Relation", "Unit"]

Relation = Literal["add-remove", "replace-one"]

_RELATIONS = ("add-remove", "replace-one")
_NAMES = {name: name for name in ("unit", "id_column", "max_rows")}


def _whose(person: str, rows: str) -> str:
    """Say which unit is for which table."""
    return (
        "One row per person: add-remove (one row more or less), or replace-one, which makes the number of rows public. "
        f"Several rows of a person: also {person} and {rows}."
    )


@dataclass(frozen=True, slots=True)
class Unit:
    """Which two tables count as neighbours.

    Parameters
    ----------
    relation
        ``"add-remove"``: one table is the other without one protected unit. The number of rows is private.
        ``"replace-one"``: one unit's rows are exchanged for other rows. Where a unit has one row (``max_rows`` of 1, persons
        included) the number of rows is the same in both tables and therefore public; it is the number of units.
    max_rows
        Largest number of rows one unit may contribute. Above 1 an ``id_column`` is required, because only
        an identifier lets the limit be enforced.
    id_column
        Column that says which person a row belongs to, or None if every row is its own unit. Before
        anything is counted each person is cut to ``max_rows`` rows, chosen at random.

    Privacy
    -------
    Write ``k`` for ``max_rows`` and ``h`` for the vector of counts over any fixed partition of the possible
    rows (a marginal, a histogram). Each row adds 1 to exactly one cell.

    - add-remove: ``h' = h + a`` (or minus), with ``a >= 0`` whole and summing to at most ``k``. So the L1
      change is at most ``k``, no cell changes by more than ``k``, and ``|a|_2 <= |a|_1 <= k``, with equality
      when the ``k`` rows share a cell.
    - replace-one: ``h' = h - a + b`` with ``a`` and ``b`` as above. So L1 is at most ``2k``; a cell changes
      by at most ``max(a_i, b_i) <= k``; and ``|b - a|_2^2 <= |a|_2^2 + |b|_2^2 <= 2 k^2``, as ``a, b >= 0``.

    Examples
    --------
    >>> Unit.add_remove().histogram_l1
    1
    >>> Unit.replace_one().histogram_l2
    1.4142135623730951
    >>> print(Unit.replace_person("patient", max_rows=3).describe().partition(":")[0])
    replace one person (column 'patient'
    """

    relation: Relation
    max_rows: int = 1
    id_column: str | None = None

    def __post_init__(self) -> None:
        if self.relation not in _RELATIONS:
            raise BudgetError(
                f"Privacy unit: relation must be one of {', '.join(_RELATIONS)}; got {self.relation!r}."
            )
        object.__setattr__(self, "max_rows", whole("max_rows", self.max_rows))
        if self.id_column is not None and (not isinstance(self.id_column, str) or not self.id_column):
            raise BudgetError("Privacy unit: id_column must be the name of a column, or None.")
        if self.max_rows > 1 and self.id_column is None:
            raise BudgetError(
                f"Privacy unit: max_rows={self.max_rows} needs an id_column, since the limit can only be "
                "enforced when rows say whom they belong to. Name the column, or set max_rows=1."
            )

    @staticmethod
    def of(
        given: Unit | str | Mapping[str, Any] | None,
        *,
        id_column: str | None = None,
        max_rows: int | None = None,
        names: Mapping[str, str] = _NAMES,
        error: type[UnderstudyError] = BudgetError,
    ) -> Unit:
        """Return the unit that a relation, and the column that names persons, stand for.

        Parameters
        ----------
        given
            A unit; a relation, ``"add-remove"`` or ``"replace-one"``; or the fields of a unit by name, as a specification writes them.
        id_column, max_rows
            With a relation, to protect persons: the column that names them, and how many rows of each count.
        names
            What ``unit``, ``id_column`` and ``max_rows`` are called where the user wrote them, for messages.
        error
            What to raise if they do not go together.

        Examples
        --------
        >>> Unit.of("add-remove")
        Unit(relation='add-remove', max_rows=1, id_column=None)
        >>> Unit.of("replace-one", id_column="patient", max_rows=3) == Unit.replace_person("patient", max_rows=3)
        True
        >>> Unit.of("replace-one", max_rows=3)
        Traceback (most recent call last):
        understudy.errors.BudgetError: id_column and max_rows go together: who is a person, and how many rows count.
        """
        unit, person, rows = names["unit"], names["id_column"], names["max_rows"]
        if given is None:
            raise error(f"Say who is protected ({unit}). {_whose(person, rows)}")
        if not isinstance(given, str):
            if id_column is not None or max_rows is not None:
                raise error(
                    f"{person} and {rows} go with a relation; the unit that was given holds them already."
                )
            return given if isinstance(given, Unit) else Unit.from_dict(given)
        if given not in _RELATIONS:
            raise error(f"{unit} ({given!r}) must be {' or '.join(_RELATIONS)}. {_whose(person, rows)}")
        if (id_column is None) != (max_rows is None):
            raise error(f"{person} and {rows} go together: who is a person, and how many rows count.")
        return Unit(given, 1 if max_rows is None else max_rows, id_column)  # type: ignore[arg-type]

    @classmethod
    def add_remove(cls) -> Unit:
        """Protect the presence of one row."""
        return cls("add-remove")

    @classmethod
    def replace_one(cls) -> Unit:
        """Protect the content of one row; the number of rows is public."""
        return cls("replace-one")

    @classmethod
    def add_remove_person(cls, id_column: str, *, max_rows: int) -> Unit:
        """Protect the presence of one person with up to ``max_rows`` rows."""
        return cls("add-remove", max_rows, id_column)

    @classmethod
    def replace_person(cls, id_column: str, *, max_rows: int) -> Unit:
        """Protect the content of one person's rows, up to ``max_rows`` of them.

        With ``max_rows`` of 1 every person keeps one row, so that the number of rows is the number of persons: equal in
        neighbouring tables, and public.
        """
        return cls("replace-one", max_rows, id_column)

    @property
    def histogram_l1(self) -> int:
        """Largest change of one histogram of counts between neighbours, summed over cells."""
        return self.max_rows if self.relation == "add-remove" else 2 * self.max_rows

    @property
    def histogram_l2(self) -> float:
        """Largest Euclidean change of one histogram of counts between neighbours, rounded up."""
        if self.relation == "add-remove":
            return float_up(Fraction(self.max_rows))
        return float_up(sqrt_up(Fraction(2 * self.max_rows**2), bits=53))

    @property
    def histogram_linf(self) -> int:
        """Largest change of a single cell between neighbours."""
        return self.max_rows

    @property
    def keeps_rows(self) -> bool:
        """Whether neighbouring tables have equally many rows, one per unit.

        A replaced person who may keep several rows may have more of them than before.
        """
        return self.relation == "replace-one" and self.max_rows == 1

    @property
    def parts_touched(self) -> int:
        """Largest number of parts of a partition of the rows whose content can differ between neighbours.

        One row belongs to one part, so adding or removing it touches one. A replaced row may leave one part
        and enter another, and a person's rows may be spread over several parts. Parallel composition pays for
        this many parts (see :class:`~understudy.privacy.events.Parallel`).
        """
        return self.histogram_l1

    def describe(self) -> str:
        """Return the unit in words: who is protected and, of a person with many rows, how many are counted and what becomes of the rest.

        Examples
        --------
        >>> print(Unit.add_remove_person("patient", max_rows=3).describe().partition(": ")[2])
        all rows of that person in the private table; at most 3 rows of each person are counted, chosen at random, and the rest is not)
        """
        if self.id_column is None:
            return f"{self._verb} one row"
        rows = (
            "1 row of each person is"
            if self.max_rows == 1
            else f"at most {self.max_rows} rows of each person are"
        )
        return (
            f"{self._verb} one person (column {self.id_column!r}: all rows of that person in the private table; {rows} counted, "
            "chosen at random, and the rest is not)"
        )

    @property
    def earlier_words(self) -> tuple[str, ...]:
        """What earlier versions wrote in place of :meth:`describe`: certificates that say it go on verifying.

        Examples
        --------
        >>> Unit.replace_person("patient", max_rows=3).earlier_words
        ("replace one person (column 'patient', at most 3 rows each)",)
        """
        if self.id_column is None:
            return ()
        rows = "row" if self.max_rows == 1 else "rows"
        return (f"{self._verb} one person (column {self.id_column!r}, at most {self.max_rows} {rows} each)",)

    @property
    def _verb(self) -> str:
        return "add or remove" if self.relation == "add-remove" else "replace"

    def describe_entity(self) -> str:
        """Return the unit in words where it is an entity with all its rows, of which so many event records are counted.

        Examples
        --------
        >>> print(Unit.add_remove_person("patient", max_rows=3).describe_entity())
        add or remove one patient with all rows, of which 3 event records are counted
        """
        records = "record is" if self.max_rows == 1 else "records are"
        return f"{self._verb} one {self.id_column} with all rows, of which {self.max_rows} event {records} counted"

    def describe_cut(self) -> str:
        """Say what a fit of rows does to people with more rows than the unit allows; empty where every row is its own unit.

        How many rows that concerns is not known: nothing was paid for it.

        Examples
        --------
        >>> Unit.add_remove_person("patient", max_rows=2).describe_cut().partition(",")[0]
        "Rows are cut: a person (column 'patient') with more than 2 rows counts as one with 2"
        """
        if self.id_column is None:
            return ""
        rows = "row" if self.max_rows == 1 else "rows"
        return (
            f"Rows are cut: a person (column {self.id_column!r}) with more than {self.max_rows} {rows} counts as one with {self.max_rows}, chosen at random. Counts, shares and intervals are those of "
            "the table that is left, not of the whole table: what goes with having many rows is understated."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as plain values for JSON or YAML."""
        return {"relation": self.relation, "max_rows": self.max_rows, "id_column": self.id_column}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Unit:
        """Return the unit that :meth:`to_dict` described; unknown fields are refused."""
        known = {"relation", "max_rows", "id_column"}
        if not isinstance(values, Mapping) or "relation" not in values or not set(values) <= known:
            raise BudgetError(f"A privacy unit has the fields {', '.join(sorted(known))}.")
        return cls(values["relation"], values.get("max_rows", 1), values.get("id_column"))
