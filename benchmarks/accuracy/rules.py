"""What rules between columns change: rows that obey them, and the distributions that the rules tie together.

    python -m benchmarks.accuracy.rules

Simulated bookings: arrival and departure by day over two years, the ISO week and the name of the month of arrival. Every method is fitted without
and with the four rules that hold in the real rows. Distances are L1, between 0 and 2. CPU seconds are those of fitting and drawing.

The second table is about five rules that a draft of a schema proposes, dates by month, and columns for year, month, day and nights: shares of rows that
rules moved when broken rows were thrown away.

The third is the second with the ISO week and the day of booking, which is only compared with the other dates: the rules that say what columns are keep their
list, and the day of booking is drawn given these.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time

import numpy as np
import pandas as pd

import understudy
from understudy.schema import Date, Integer, Ordinal, Schema

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")  # fmt: skip
RULES = (
    "departure >= arrival + 1",
    "departure - arrival <= 40",
    "week == week_of(arrival)",
    "month == month_name_of(arrival)",
)
MOST = 40
DRAFTED = (
    "departure >= arrival",
    "year == year_of(arrival)",
    "month == month_name_of(arrival)",
    "day == day_of(arrival)",
    "nights == departure - arrival",
)


def bookings(rows: int, seed: int = 1) -> pd.DataFrame:
    """Draw bookings: more in summer, most stays short."""
    generator = np.random.default_rng(seed)
    days = np.arange("2023-01-01", "2025-01-01", dtype="datetime64[D]")
    season = 1.2 + np.cos(2 * np.pi * (np.arange(len(days)) - 200) / 365.25)
    arrival = pd.Series(generator.choice(days, rows, p=season / season.sum()))
    nights = np.minimum(generator.geometric(0.25, rows), MOST)
    return pd.DataFrame(
        {
            "arrival": arrival,
            "departure": arrival + pd.to_timedelta(nights, unit="D"),
            "week": arrival.dt.isocalendar().week.astype(int),
            "month": np.array(MONTHS)[arrival.dt.month - 1],
        }
    )


def schema_of(rules: tuple[str, ...]) -> Schema:
    """Return the schema of bookings, with some rules."""
    return Schema(
        [
            Date("arrival", minimum="2023-01-01", maximum="2024-12-31", resolution="day"),
            Date("departure", minimum="2023-01-02", maximum="2025-02-09", resolution="day"),
            Integer("week", minimum=1, maximum=53),
            Ordinal("month", values=MONTHS),
        ],
        rules=rules,
    )


def drafted_schema() -> Schema:
    """Return a schema of bookings as it is drafted: dates by month, and what follows from them as columns."""
    return Schema(
        [
            Date("arrival", minimum="2023-01-01", maximum="2024-12-31", resolution="month"),
            Date("departure", minimum="2023-01-01", maximum="2025-02-28", resolution="month"),
            Ordinal("month", values=MONTHS),
            Integer("day", minimum=1, maximum=31),
            Integer("year", minimum=2023, maximum=2024),
            Integer("nights", minimum=1, maximum=MOST),
        ],
        rules=DRAFTED,
    )


def drafted_bookings(rows: int) -> pd.DataFrame:
    """Return bookings with the columns of the drafted schema."""
    real = bookings(rows)
    arrival = real["arrival"].dt
    nights = (real["departure"] - real["arrival"]).dt.days
    return real.drop(columns="week").assign(day=arrival.day, year=arrival.year, nights=nights)


def booked_schema() -> Schema:
    """Return the drafted schema with the week of arrival, and a day of booking that other dates are only compared with."""
    drafted = drafted_schema()
    return Schema(
        [
            *drafted.columns,
            Integer("week", minimum=1, maximum=53),
            Date("booked", minimum="2022-01-01", maximum="2024-12-31", resolution="month"),
        ],
        rules=(*DRAFTED, "week == week_of(arrival)", "booked <= arrival", "booked <= departure"),
    )


def booked_bookings(rows: int) -> pd.DataFrame:
    """Return bookings with the columns of that schema, booked up to a year ahead."""
    real = drafted_bookings(rows)
    ahead = np.random.default_rng(2).integers(0, 365, rows)
    week = real["arrival"].dt.isocalendar().week.astype(int)
    return real.assign(week=week, booked=real["arrival"] - pd.to_timedelta(ahead, unit="D"))


def shares(frame: pd.DataFrame) -> tuple[float, float, float, float]:
    """Return the shares of stays that cross a month end, arrive on day 29 or later and leave by day 3, and the mean day of arrival."""
    arrival, departure = (pd.to_datetime(frame[name]).dt for name in ("arrival", "departure"))
    return (
        float((arrival.month != departure.month).mean()),
        float((arrival.day >= 29).mean()),
        float((departure.day <= 3).mean()),
        float(arrival.day.mean()),
    )


def drafted(title: str, real: pd.DataFrame, held: Schema, methods: list[str]) -> None:
    """Print what functional rules do to distributions, and what drawing costs."""
    rows = len(real)
    print(f"\n| {title} | rows that obey | cross a month end | arrive on day >= 29 | leave by day 3 | mean day | CPU s of drawing |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")

    def line(name: str, frame: pd.DataFrame, cpu: str) -> None:
        crossing, late, early, mean = shares(frame)
        print(f"| {name} | {held.holds_raw(frame).mean():.3f} | {crossing:.3f} | {late:.3f} | {early:.3f} | {mean:.2f} | {cpu} |")  # fmt: skip

    line("real rows", real, "")
    for method in methods:
        made = understudy.synthesize(
            real, schema=held, epsilon=1.0, delta=1e-6, unit="add-remove", method=method, ledger="memory", rows=10, seed=1
        )  # fmt: skip
        start = time.process_time()
        frame = made.model.sample(rows, seed=1)
        line(method, frame, f"{time.process_time() - start:.1f}")


def distance(left: pd.Series[int], right: pd.Series[int]) -> float:
    """Return the L1 distance of two distributions."""
    shares = [side.value_counts(normalize=True) for side in (left, right)]
    return float(shares[0].sub(shares[1], fill_value=0.0).abs().sum())


def main() -> None:
    """Fit, compare, print."""
    parser = argparse.ArgumentParser(description="Rules between columns, with and without.")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--methods", default="independent,mst,aim")
    options = parser.parse_args()
    real, held = bookings(options.rows), schema_of(RULES)
    nights = (real["departure"] - real["arrival"]).dt.days
    print(f"{options.rows:,} rows, epsilon 1, delta 1e-6\n")
    print("| method | rules | rows that obey | months of arrival | nights | CPU s |")
    print("|---|---|---|---|---|---|")
    for method in options.methods.split(","):
        for rules in ((), RULES):
            start = time.process_time()
            made = understudy.synthesize(
                real, schema=schema_of(rules), epsilon=1.0, delta=1e-6, unit="add-remove", method=method, ledger="memory", seed=1
            )  # fmt: skip
            frame = made.frame
            assert frame is not None
            cpu = time.process_time() - start
            obey = float(held.holds_raw(frame).mean())
            stay = (pd.to_datetime(frame["departure"]) - pd.to_datetime(frame["arrival"])).dt.days
            months = distance(real["arrival"].dt.month, pd.to_datetime(frame["arrival"]).dt.month)
            print(
                f"| {method} | {'yes' if rules else 'no'} | {obey:.3f} | {months:.2f} | {distance(nights, stay):.2f} | {cpu:.1f} |"
            )
    methods = options.methods.split(",")
    drafted("five functional rules", drafted_bookings(options.rows), drafted_schema(), methods)
    drafted("eight rules", booked_bookings(options.rows), booked_schema(), methods)


if __name__ == "__main__":
    main()
