"""What rules between columns change: rows that obey them, and the distributions that the rules tie together.

    python -m benchmarks.accuracy.rules

Simulated bookings: arrival and departure by day over two years, the ISO week and the name of the month of arrival. Every method is fitted without
and with the four rules that hold in the real rows. Distances are L1, between 0 and 2. CPU seconds are those of fitting and drawing.
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


if __name__ == "__main__":
    main()
