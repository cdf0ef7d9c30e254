"""How a share of a budget is divided among the questions of discovery: public, and known before a record is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from understudy.errors import BudgetError
from understudy.privacy import GDP, ZCDP, Accounting, ApproxDP, Budget, PureDP, Unit, accounting_for
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING
from understudy.privacy.accounting.conversions import gdp_to_approx
from understudy.privacy.exact_floats import float_down, sqrt_down
from understudy.privacy.noise.noise import Gaussian, Noise, noise_within
from understudy.privacy.noise.thresholds import threshold_for
from understudy.schema import Column
from understudy.schema.coding.profile import PROFILE

__all__ = [
    "DiscoveryPlan",
    "Shares",
    "plan_discovery",
    "rows_of_share",
    "share_for",
    "shares_of",
    "sure_count",
]

PROFILE_PART = {True: 0.2, False: 0.3}
"""Of the budget of discovery, with and without a delta: what the entries of each column look like. The rest is divided among the columns by their kinds (`WEIGHTS`)."""
FALSE = 0.02
"""How probable it is, at most, that any cell of one question which is empty is taken to hold entries."""
WEIGHTS = {
    "text": Fraction(2),
    "code": Fraction(2),
    "nothing": Fraction(0),
    "unusable": Fraction(0),
    "truth": Fraction(0),
}
"""Parts of the further questions that columns have by what their entries look like, 1 for the kinds that are not named: a text that is too rare is lost as a whole, while ranges
that are a little coarser lose little; nothing more is asked about columns without a kind."""
KEYS_PART = 1 / 4
"""Of a column of numbers of three digits or more: its frequent values. The rest is for its ranges."""
WORDS_PART = 1 / 2
"""Of a column of numbers and words, at most: its words, which are asked for first. The rest is for its ranges, or for its rarer texts where it turns out to be one of text."""
FIRST, CHEAP = 400.0, 0.2
"""Frequent texts of a column are first asked for with noise whose standard deviation is the rows divided by the first number, if that costs at most the second part
of what the column has: what is spared goes to the columns of which rows are left without a text. Where it costs more, asking twice finds less than asking once."""
ENOUGH = 60.0
"""Standard deviations of the noise of a column's counts that a table should have rows. With fewer the errors of rows that were made without a schema grew from at most a
fourth above those of an expert's schema to two and four times them (tables of 6 and 13 columns cut down to 500 to 4,000 rows)."""
AUTO_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3)
"""Shares that are chosen by the number of rows. On tables cut down to 500 to 2,000 rows larger ones did no better: what the fit lost was worth more."""
ROUNDS = 2
"""Rounds in which ranges are refined, each for the same cost; whole numbers of one or two digits take one, for all of it."""


@dataclass(frozen=True)
class Shares:
    """A budget in two parts that add up to at most the whole on one ledger.

    Attributes
    ----------
    measuring
        What may be spent on learning a schema.
    reserve
        The part of its delta that pays for keys nobody listed: a new ledger has to set it aside. 0 where there is no delta.
    rest
        What is left for the fit.
    """

    measuring: Budget
    reserve: float
    rest: Budget


def shares_of(budget: Budget, share: float) -> Shares:
    """Divide a budget: a share of what adds up in its accounting, and the rest.

    Epsilon adds up where there is no delta, rho and mu squared for zCDP and GDP. With a delta, a share of the delta is set aside for keys, and
    mu squared adds up for what is left of it. So the noise of the fit grows by the root of ``1 / (1 - share)`` alone.

    Examples
    --------
    >>> shares_of(PureDP(1.0), 0.25)
    Shares(measuring=PureDP(epsilon=0.25), reserve=0.0, rest=PureDP(epsilon=0.75))
    >>> parts = shares_of(ApproxDP(1.0, 1e-6), 0.1)
    >>> parts.reserve, round(parts.rest.epsilon, 3)
    (1e-07, 0.945)
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise BudgetError(
            f"The share of the budget for discovery ({share}) must lie between 0 and 1, such as 0.1."
        )
    part = Fraction(share)
    if isinstance(budget, PureDP):
        whole = Fraction(budget.epsilon)
        mine = float_down(whole * part)
        return Shares(PureDP(mine), 0.0, PureDP(float_down(whole - Fraction(mine))))
    if isinstance(budget, ZCDP):
        whole = Fraction(budget.rho)
        mine = float_down(whole * part)
        return Shares(ZCDP(mine), 0.0, ZCDP(float_down(whole - Fraction(mine))))
    if isinstance(budget, GDP):
        whole = Fraction(budget.mu) ** 2
        return Shares(
            GDP(float_down(sqrt_down(whole * part))), 0.0, GDP(float_down(sqrt_down(whole * (1 - part))))
        )
    assert isinstance(budget, ApproxDP)
    reserve = float_down(Fraction(budget.delta) * part)
    left = float_down(Fraction(budget.delta) - Fraction(reserve))
    whole = GDP_ACCOUNTING.exact_total(budget, approximate_delta=reserve)
    return Shares(
        ApproxDP(_epsilon_of(whole * part, left), budget.delta),
        reserve,
        ApproxDP(_epsilon_of(whole * (1 - part), left), left),
    )


def _epsilon_of(squared: Fraction, delta: float) -> float:
    """Return the largest epsilon (nearly) that, with a delta, is worth at most so much mu squared."""
    epsilon = gdp_to_approx(float_down(sqrt_down(squared)), delta)
    while epsilon > 0 and GDP_ACCOUNTING.exact_total(ApproxDP(epsilon, delta)) > squared:
        epsilon = min(math.nextafter(epsilon, 0.0), epsilon * (1 - 1e-9))
    if not epsilon > 0:
        raise BudgetError(
            "This share of the budget is too small to be worth anything; ask for a larger share."
        )
    return epsilon


def rows_of_share(share: float | str) -> int | None:
    """Return the number of rows of a share that is to be chosen by it, such as ``auto:1000``; None for a share that is a number.

    Examples
    --------
    >>> rows_of_share("auto:1000"), rows_of_share(0.1)
    (1000, None)
    """
    if not isinstance(share, str):
        return None
    word, _, rows = share.partition(":")
    plain = rows.replace("_", "").replace(",", "")
    if word.strip() != "auto" or not (plain.isascii() and plain.isdigit()) or int(plain) < 1:
        raise BudgetError(
            f"The share of the budget for discovery ({share!r}) must be a number between 0 and 1, such as 0.1, or auto:ROWS, such as auto:1000, which chooses it for a table of about so many rows. "
            "That number is public knowledge or a guess of yours: the table is not read for it."
        )
    return int(plain)


def share_for(
    rows: int, header: Sequence[str], given: Sequence[Column], *, unit: Unit, budget: Budget
) -> float:
    """Return the smallest of `AUTO_SHARES` whose plan is for tables of so many rows, or the largest.

    Examples
    --------
    >>> budget, header = ApproxDP(1.0, 1e-6), list("abcdef")
    >>> [share_for(rows, header, (), unit=Unit.add_remove(), budget=budget) for rows in (500, 2_000, 10_000)]
    [0.3, 0.15, 0.1]
    """
    for share in AUTO_SHARES:
        parts = shares_of(budget, share)
        plan = plan_discovery(header, given, unit=unit, budget=parts.measuring, reserve=parts.reserve)
        if plan.rows_wanted() <= rows:
            break
    return share


def sure_count(noise: Noise, cells: int) -> float:
    """Return what an empty cell, any of so many, exceeds with probability `FALSE` at most."""
    return float(noise.quantile(1 - FALSE / cells))


def _rounded_up(rows: float) -> int:
    """Return a number of rows, rounded up to two digits."""
    step: int = 10 ** max(0, math.floor(math.log10(max(rows, 1.0))) - 1)
    return max(1, math.ceil(rows / step) * step)


@dataclass(frozen=True)
class DiscoveryPlan:
    """What discovery will ask, and what each question may cost.

    Attributes
    ----------
    columns
        Columns about which nothing is declared.
    given
        Columns that are declared public: nothing is spent on them.
    unit, budget, reserve
        Who is protected, and what may be spent; ``reserve`` is the part of the delta for keys.
    header
        All columns of the table in their order, in which the schema will have them.
    """

    columns: tuple[str, ...]
    given: tuple[Column, ...]
    unit: Unit
    budget: Budget
    reserve: float
    header: tuple[str, ...] = ()

    @property
    def accounting(self) -> Accounting:
        """How the costs of the questions add up."""
        return accounting_for(self.budget)

    @property
    def total(self) -> float:
        """What may be spent, in the unit of the accounting."""
        return self.accounting.total(self.budget, approximate_delta=self.reserve)

    @property
    def finds_texts(self) -> bool:
        """Whether texts can be found: that takes a delta."""
        return self.reserve > 0

    def profile_cost(self) -> float:
        """Return the cost of the first question about each column."""
        return float_down(Fraction(self.total) * Fraction(PROFILE_PART[self.finds_texts]) / len(self.columns))

    def parts(self, kinds: Mapping[str, str]) -> dict[str, Fraction]:
        """Divide the further questions among the columns by their kinds, which were released: parts that add up to 1, or are all nothing.

        Examples
        --------
        >>> parts = shares_of(ApproxDP(1.0, 1e-6), 0.1)
        >>> plan = plan_discovery(list("abcd"), (), unit=Unit.add_remove(), budget=parts.measuring, reserve=parts.reserve)
        >>> {name: str(part) for name, part in plan.parts({"a": "text", "b": "number", "c": "date", "d": "nothing"}).items()}
        {'a': '1/2', 'b': '1/4', 'c': '1/4', 'd': '0'}
        """
        asked = [name for name in self.columns if self.finds_texts or kinds[name] != "text"]
        weights = {
            name: WEIGHTS.get(kinds[name], Fraction(1)) if name in asked else Fraction(0)
            for name in self.columns
        }
        whole = sum(weights.values(), Fraction(0)) or Fraction(1)
        return {name: weight / whole for name, weight in weights.items()}

    def column_cost(self, part: Fraction | None = None) -> float:
        """Return the cost of all further questions about a column that has a part of them; of a column among equals where none is given."""
        part = Fraction(1, len(self.columns)) if part is None else part
        return float_down(Fraction(self.total) * (1 - Fraction(PROFILE_PART[self.finds_texts])) * part)

    def keys_cost(self, numbers: bool, part: Fraction | None = None) -> float:
        """Return the cost of asking for the frequent texts of a column."""
        return float_down(
            Fraction(self.column_cost(part)) * (Fraction(KEYS_PART) if numbers else Fraction(1))
        )

    def words_cost(self, part: Fraction | None = None) -> float:
        """Return the most that is spent on the frequent texts of a column that may hold numbers and words."""
        return float_down(Fraction(self.column_cost(part)) * Fraction(WORDS_PART))

    def round_cost(self, *, after_keys: bool, rounds: int = ROUNDS, part: Fraction | None = None) -> float:
        """Return the cost of each of some rounds in which the ranges of a column are refined."""
        left = 1 - Fraction(KEYS_PART) if after_keys else Fraction(1)
        return float_down(Fraction(self.column_cost(part)) * left / rounds)

    def frugal(self, cost: float, rows: float) -> float:
        """Return the part of a cost with which texts are asked for first in a table of about so many rows; all of it where they are asked for once (see `FIRST`)."""
        noise = self.noise(cost)
        times = math.sqrt(noise.variance) * FIRST / max(rows, 1.0)
        # variance falls with the cost for Gaussian noise, and with its square for Laplace noise
        part = Fraction(times ** (2 if isinstance(noise, Gaussian) else 1))
        return float_down(Fraction(cost) * part) if part <= CHEAP else cost

    def rows_least(self) -> int:
        """Return about how many rows a table needs for a column of one kind to stand out of the noise of the first question: two digits, from public facts alone."""
        return _rounded_up(sure_count(self.noise(self.profile_cost()), len(PROFILE)))

    def rows_wanted(self, times: float = 1.0) -> int:
        """Return about how many rows a table should have for discovery to find most of it, at so many times the share: two digits, from public facts alone."""
        noise = self.noise(float_down(Fraction(self.column_cost()) * Fraction(times)))
        return _rounded_up(ENOUGH * math.sqrt(noise.variance))

    def delta(self, columns: int, *, again: bool = False) -> float:
        """Return the delta of each of so many columns whose texts are asked for; half of that where some may be asked for again."""
        return float_down(Fraction(self.reserve) / (columns * (2 if again else 1)))

    def noise(self, cost: float) -> Noise:
        """Return the noise on counts at a cost."""
        return noise_within(self.accounting, cost, l1=self.unit.histogram_l1, l2=self.unit.histogram_l2)

    def describe(self) -> list[str]:
        """Say in plain sentences what becomes public and what can be found; `details` has the numbers."""
        n = len(self.columns)
        rows = [", ".join(map(repr, self.columns[start : start + 6])) for start in range(0, n, 6)]
        names = "\n  " + ",\n  ".join(rows) + "\n" if len(rows) > 1 else f" {rows[0]}. "
        found = [
            f"{'This column name becomes' if n == 1 else f'These {n} column names become'} public:{names}Stop if one of them is an entry of a record."
        ]
        if self.finds_texts:
            found += [
                f"A text needs about {self.threshold(numbers=False):,} rows to be found; rarer ones become 'other'."
            ]
        else:
            found += ["Only numbers, dates and truth words are found: columns of text are left out."]
        found += [
            f"This discovery of {n} {'column' if n == 1 else 'columns'} is for tables of about {self.rows_wanted():,} rows or more (with twice the share {self.rows_wanted(2):,}). With fewer, much stays "
            "hidden and synthetic rows may be several times as far from the table as with a declared schema; declaring what is public knowledge costs nothing.",
            f"In a table of fewer than about {self.rows_least():,} rows not even the kinds of columns can be told from the noise, and what was asked is paid for all the same: declare the columns of such a table instead.",
        ]
        return found

    def details(self) -> list[str]:
        """Say what will be asked, with which noise, and what it costs."""
        n = len(self.columns)
        found = [
            f"Discovery of {n} {'column' if n == 1 else 'columns'}, {self.accounting.describe(self.total)} in all"
            + (f" and a delta of {self.reserve:.3g}" if self.reserve else "")
            + f"; {len(self.given)} declared {'column costs' if len(self.given) == 1 else 'columns cost'} nothing.",
            f"1. What entries look like (missing, truth words, numbers by size, dates, text): counts with noise of "
            f"scale {self.noise(self.profile_cost()).scale:.4g} for every column.",
        ]
        if self.finds_texts:
            found += [
                f"2. Frequent texts of a column: those with a noisy count of at least {self.threshold(numbers=False):,} rows "
                f"(columns of numbers: {self.threshold(numbers=True):,}); all others become 'other'. "
                "Columns of numbers and words spend at most half of their part on their words, and what is left on ranges or rarer texts."
            ]
        else:
            found += [
                "2. Texts of a column need a delta, which this budget has not: columns of text are left out. "
                "Declare their values in a schema, or give a delta."
            ]
        costs = [
            self.round_cost(after_keys=self.finds_texts),
            self.round_cost(after_keys=False, rounds=1),
        ]
        scales = " to ".join(f"{self.noise(cost).scale:.4g}" for cost in costs)
        found += [
            f"3. Ranges of numbers and dates: {ROUNDS} rounds of counts, one for whole numbers of one or two digits, with noise of scale {scales}.",
            "These are the numbers of equal parts: once the kinds are known, a column of text has twice the part of one of numbers or dates, and one without a kind has none.",
        ]
        return found

    def threshold(self, *, numbers: bool, part: Fraction | None = None) -> int:
        """Return how many rows, noise included, a text needs to be released if the texts of all columns are asked for."""
        noise = self.noise(self.keys_cost(numbers, part))
        return threshold_for(noise, self.unit, self.delta(len(self.columns)))  # type: ignore[arg-type]


def plan_discovery(
    header: Sequence[str], given: Sequence[Column], *, unit: Unit, budget: Budget, reserve: float
) -> DiscoveryPlan:
    """Plan what is asked about the columns of a header of which nothing is declared; the id column of the unit is not one of them.

    Raises
    ------
    BudgetError
        If nothing is left to be discovered, or a declared column is not in the header.
    """
    declared = {column.name for column in given}
    unknown = [name for name in declared if name not in header]
    if unknown:
        raise BudgetError(
            f"The schema declares the column {sorted(unknown)[0]!r}, which the table does not have."
        )
    if unit.id_column in declared:
        raise BudgetError(f"The id column {unit.id_column!r} must not be in the schema.")
    if unit.id_column is not None and unit.id_column not in header:
        raise BudgetError(
            f"The table has no column {unit.id_column!r}, which the unit names as the id column."
        )
    columns = tuple(name for name in header if name not in declared and name != unit.id_column)
    if not columns:
        raise BudgetError("Every column is declared: there is nothing to discover. Leave discovery out.")
    return DiscoveryPlan(columns, tuple(given), unit, budget, reserve, tuple(header))
