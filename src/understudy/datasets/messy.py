"""A simulated table of hospital stays as institutions keep them: everything that misleads a reader of columns.

No record was copied or resampled. Every column carries a trap that real tables carry, and `TRAPS` says which one, so
that a test can hold a reader of tables to each of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.datasets.draw import Floats, Ints, checked_rows, draw, generator

if TYPE_CHECKING:
    import pandas as pd

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DIAGNOSES = 900
OUTLIER = 54_000.0  # the one price that is far from all others
RARE_ROWS = 5  # rows of the rare meal, in a table of at least 1,000
RARE_MEAL = "Undefined"
DUPLICATED = 0.01  # share of rows that are loaded twice
SENTINEL = -99  # what the income column holds where nobody asked

TRAPS: dict[str, str] = {
    "encounter_id": "a row's number, unique but for rows loaded twice",
    "patient_nbr": "a person's number: somebody has several rows",
    "clinic": "plain categories",
    "cancelled": "0 and 1",
    "arrival_date": "a date",
    "departure_date": "never before arrival_date",
    "nights": "departure_date minus arrival_date",
    "arrival_year": "three years written as numbers",
    "arrival_month": "names of months",
    "arrival_week": "the ISO week of arrival_date",
    "arrival_day": "the day of the month, 1 to 31",
    "arrival_weekday": "short names of weekdays",
    "arrival_hour": "hours 0 to 23; nobody arrives between 1 and 4",
    "agent": "codes written as numbers, with NULL",
    "company": "codes written as numbers; most entries are NULL",
    "diagnosis": "900 codes such as 250.83, V45 and E909, with ?",
    "zip": "codes of digits with leading zeros",
    "district": "determined by zip",
    "price": "heavy tail, two decimals, many zeros and one outlier",
    "lead_days": "heavy tail in whole numbers, many zeros",
    "age": "whole numbers with a few ?",
    "weight": "intervals as categories; most entries are ?",
    "income": "the sentinel -99, far from all other numbers",
    "race": "categories with ?",
    "sex": "categories with Unknown",
    "smoker": "Yes and No",
    "insured": "Y and N with blanks",
    "readmitted": "categories such as <30",
    "country": "many categories, most of them rare",
    "meal": "a category with five rows",
    "note": "almost every row has its own text",
    "score": "three decimals between 0 and 1",
    "lab_value": "one decimal, with NA",
    "emergencies": "97 % of the entries are zero",
    "site": "the same entry in every row",
}  # fmt: skip


def messy_table(n: int, seed: int = 0) -> pd.DataFrame:
    """Simulate a table of 35 columns with the traps of real tables, as a reader of its CSV file would see it.

    Text stays text: missing entries are spelt ``?``, ``NULL``, ``NA`` or as a blank, as in the files that people
    are given. `TRAPS` describes each column.

    Parameters
    ----------
    n
        Number of rows, 0 or more.
    seed
        Seed of the simulation; the same ``n`` and ``seed`` give the same table.

    Returns
    -------
    pandas.DataFrame
        ``n`` rows. It has no schema of its own: drafting or discovering one is what it is for.

    Raises
    ------
    DataError
        If an argument is out of range.

    Examples
    --------
    >>> table = messy_table(500, seed=1)
    >>> table.shape
    (500, 35)
    >>> bool((table["departure_date"] >= table["arrival_date"]).all())
    True
    """
    import pandas as pd

    n = checked_rows(n)
    rng = generator(seed, "messy")
    table: dict[str, Any] = {}
    table["encounter_id"] = np.sort(
        rng.choice(np.arange(2_000_000, 2_000_000 + 40 * n + 1), n, replace=False)
    )
    table["patient_nbr"] = _persons(rng, n)
    table["clinic"] = _texts(rng, ("City Clinic", "Lake Clinic", "Forest Clinic"), (0.6, 0.3, 0.1), n)
    table["cancelled"] = (rng.random(n) < 0.3).astype(np.int64)
    _calendar(rng, table, n)
    _codes(rng, table, n)
    _numbers(rng, table, n)
    _categories(rng, table, n)
    frame = pd.DataFrame({name: table[name] for name in TRAPS})
    if n >= 1_000:
        frame.loc[rng.choice(n, RARE_ROWS, replace=False), "meal"] = RARE_MEAL
        frame.loc[int(rng.integers(n)), "price"] = OUTLIER
    twice = int(DUPLICATED * n)
    if twice:
        # A row takes the place of another one, but neither the rare meal nor the outlier is lost or doubled.
        plain = np.flatnonzero(((frame["meal"] != RARE_MEAL) & (frame["price"] != OUTLIER)).to_numpy())
        chosen = rng.choice(plain, 2 * twice, replace=False)
        frame.iloc[chosen[twice:]] = frame.iloc[chosen[:twice]].to_numpy(dtype=object)
        frame = frame.astype({name: table[name].dtype for name in TRAPS if table[name].dtype != object})
    return frame


def write_messy(path: str | Path, frame: pd.DataFrame, *, header: bool = True, blanks: bool = False) -> None:
    """Write a table as CSV: without a header, or with a blank after each comma, as old files are.

    Parameters
    ----------
    path
        File to write.
    frame
        What `messy_table` returned.
    header
        Whether the first line holds the names of the columns.
    blanks
        Whether a blank follows each comma.
    """
    # No entry holds a comma, a quotation mark or a line break, so that joining is all there is to it.
    comma = ", " if blanks else ","
    texts = [column.map(str) for _, column in frame.items()]
    lines = [comma.join(row) for row in zip(*texts, strict=True)]
    if header:
        lines.insert(0, comma.join(frame.columns))
    Path(path).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def _texts(rng: np.random.Generator, values: tuple[str, ...], shares: npt.ArrayLike, n: int) -> Any:
    return np.array(values, dtype=object)[draw(rng, shares, n)]


def _with(rng: np.random.Generator, entries: Any, share: float, text: str) -> Any:
    """Turn entries into text and replace a share of them by a spelling of missing."""
    texts = np.array([str(entry) for entry in entries], dtype=object)
    texts[rng.random(texts.size) < share] = text
    return texts


def _persons(rng: np.random.Generator, n: int) -> Ints:
    """Numbers of persons with one to eight rows each, about 1.6 on average."""
    rows = draw(rng, [60, 22, 9, 4, 2, 1, 1, 1], n) + 1
    numbers = rng.choice(np.arange(100_000, 100_000 + 60 * n + 1), n, replace=False)
    return np.asarray(rng.permutation(np.repeat(numbers, rows)[:n]), dtype=np.int64)


def _calendar(rng: np.random.Generator, table: dict[str, Any], n: int) -> None:
    import pandas as pd

    start = np.datetime64("2015-07-01", "D")
    arrival = start + rng.integers(0, 793, n).astype("timedelta64[D]")
    nights = np.minimum(rng.poisson(np.exp(0.6 * rng.standard_normal(n)) * 2.5), 45)
    table["arrival_date"] = arrival.astype(str).astype(object)
    table["departure_date"] = (arrival + nights.astype("timedelta64[D]")).astype(str).astype(object)
    table["nights"] = nights.astype(np.int64)
    days = pd.DatetimeIndex(arrival)
    table["arrival_year"] = days.year.to_numpy(dtype=np.int64)
    table["arrival_month"] = np.array(MONTHS, dtype=object)[days.month.to_numpy() - 1]
    table["arrival_week"] = days.isocalendar()["week"].to_numpy(dtype=np.int64)
    table["arrival_day"] = days.day.to_numpy(dtype=np.int64)
    table["arrival_weekday"] = np.array(WEEKDAYS, dtype=object)[days.day_of_week.to_numpy()]
    by_hour = [1, 0, 0, 0, 0, 1, 3, 6, 9, 10, 11, 10, 9, 10, 11, 10, 9, 8, 6, 5, 4, 3, 2, 1]
    table["arrival_hour"] = draw(rng, by_hour, n)


def _codes(rng: np.random.Generator, table: dict[str, Any], n: int) -> None:
    public = np.random.Generator(np.random.PCG64(20))  # which codes exist is the same whatever the seed
    agents = np.sort(public.choice(np.arange(1, 536), 330, replace=False))
    agent = agents[draw(rng, _steep(public, agents.size, 1.6), n)]
    table["agent"] = _with(rng, agent, 0.14, "NULL")
    companies = np.sort(public.choice(np.arange(6, 544), 350, replace=False))
    company = companies[draw(rng, _steep(public, companies.size, 1.3), n)]
    table["company"] = _with(rng, company, 0.94, "NULL")
    table["diagnosis"] = _with(
        rng, np.array(diagnoses(), dtype=object)[draw(rng, _steep(public, DIAGNOSES, 1.0), n)], 0.02, "?"
    )
    zips = np.sort(public.choice(np.arange(1_000, 9_900), 60, replace=False))
    where = draw(rng, _steep(public, zips.size, 0.7), n)
    table["zip"] = np.array([f"{code:05d}" for code in zips], dtype=object)[where]
    table["district"] = np.array([f"District {code // 1_000}" for code in zips], dtype=object)[where]
    countries = tuple(
        f"{chr(65 + first)}{chr(65 + second)}{chr(65 + (first + second) % 26)}"
        for first in range(13)
        for second in range(12)
    )
    table["country"] = _texts(rng, countries, _steep(public, len(countries), 1.7), n)


def diagnoses() -> tuple[str, ...]:
    """Return the 900 codes of the diagnosis column: chapters 1 to 999, with supplements and V and E codes.

    Examples
    --------
    >>> len(diagnoses()), len(set(diagnoses()))
    (900, 900)
    """
    plain = [str(code) for code in range(1, 1_000, 2)]
    fine = [f"250.{code:02d}" for code in range(100)] + [f"{code}.{code % 10}" for code in range(300, 500)]
    return (
        *plain,
        *fine,
        *(f"V{code:02d}" for code in range(1, 90)),
        *(f"E{code}" for code in range(900, 911)),
    )


def _steep(rng: np.random.Generator, size: int, power: float) -> Floats:
    """Shares that fall with the rank, in an order that says nothing about the code."""
    return np.asarray(rng.permutation(1.0 / np.arange(1, size + 1) ** power), dtype=np.float64)


def _numbers(rng: np.random.Generator, table: dict[str, Any], n: int) -> None:
    price = np.exp(4.5 + 0.55 * rng.standard_normal(n))
    round_figure = rng.random(n) < 0.3  # people like whole tens
    price = np.where(round_figure, np.maximum(10.0, np.round(price / 10.0) * 10.0), price)
    table["price"] = np.where(rng.random(n) < 0.02, 0.0, np.minimum(price, 900.0)).round(2)
    lead = np.minimum(np.floor(np.exp(3.6 + 1.3 * rng.standard_normal(n))), 730)
    table["lead_days"] = np.where(rng.random(n) < 0.06, 0, lead).astype(np.int64)
    age = np.clip(np.round(62 + 17 * rng.standard_normal(n)), 0, 99).astype(np.int64)
    table["age"] = _with(rng, age, 0.01, "?")
    income = np.round(np.exp(10.2 + 0.6 * rng.standard_normal(n)) / 100) * 100
    table["income"] = np.where(rng.random(n) < 0.08, SENTINEL, np.clip(income, 2_000, 400_000)).astype(
        np.int64
    )
    table["score"] = rng.beta(2.0, 3.0, n).round(3)
    table["lab_value"] = _with(rng, np.round(5.6 + 0.9 * rng.standard_normal(n), 1), 0.05, "NA")
    table["emergencies"] = np.where(rng.random(n) < 0.97, 0, rng.integers(1, 9, n)).astype(np.int64)


def _categories(rng: np.random.Generator, table: dict[str, Any], n: int) -> None:
    intervals = tuple(f"[{low}-{low + 25})" for low in range(0, 200, 25))
    table["weight"] = _with(rng, _texts(rng, intervals, [1, 2, 8, 14, 10, 6, 2, 1], n), 0.95, "?")
    table["race"] = _texts(rng, ("A", "B", "C", "D", "?"), [70, 19, 5, 4, 2], n)
    table["sex"] = _texts(rng, ("Female", "Male", "Unknown"), [53, 46.6, 0.4], n)
    table["smoker"] = _texts(rng, ("No", "Yes"), [76, 24], n)
    table["insured"] = _with(rng, _texts(rng, ("Y", "N"), [88, 12], n), 0.03, "")
    table["readmitted"] = _texts(rng, ("NO", "<30", ">30"), [54, 11, 35], n)
    table["meal"] = _texts(rng, ("BB", "HB", "FB", "SC"), [77, 12, 1, 10], n)
    first = ("calm", "restless", "tired", "cheerful", "pale", "awake", "alert", "quiet")
    second = (
        "in the morning",
        "after lunch",
        "at night",
        "on arrival",
        "before discharge",
        "during the round",
    )
    notes = [
        f"{first[a]} {second[b]} (chart {c} page {d})"
        for a, b, c, d in zip(
            rng.integers(0, len(first), n),
            rng.integers(0, len(second), n),
            rng.integers(0, 100_000, n),
            rng.integers(1, 100, n),
            strict=True,
        )
    ]
    table["note"] = np.array(notes, dtype=object)
    table["site"] = np.array(["main"] * n, dtype=object)
