"""What levels are worth: 900 codes and 20 other columns at epsilon 1, as 900 values, in groups, and in fixed groups.

The table is simulated: 900 codes in 180 blocks in 20 chapters with heavy tails, and columns of 2 to 8 values that follow the chapter and the
block. Errors are sums of absolute differences of counts between the published and the real table, over the number of rows; 0 is perfect and 2 the
worst.

Run ``python -m benchmarks.accuracy.levels``; ``--quick`` for a small table.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.mechanisms import create
from understudy.privacy import ApproxDP, Ledger, Unit
from understudy.schema import Schema

BUDGET = ApproxDP(1.0, 1e-6)
UNIT = Unit.add_remove()
CHAPTER = np.repeat(np.arange(20), 45)
BLOCK = np.repeat(np.arange(180), 5)
VALUES = [
    f"{chr(65 + chapter)}{block % 9}{place % 5}"
    for place, (chapter, block) in enumerate(zip(CHAPTER, BLOCK, strict=True))
]
FORMS = {
    "900 values": "",
    "levels": "{prefix: [1, 2]}",
    "levels, within even": "{prefix: [1, 2], within: even}",
    "levels, share 0.05": "{prefix: [1, 2], share: 0.05}",
    "levels, most 32": "{prefix: [1, 2], most: 32}",
    "chapters (at: 1)": "{prefix: [1, 2], at: 1}",
}

Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Simulated:
    """A table of codes and the text of its schema, in which LEVELS stands for what is tried."""

    columns: dict[str, Codes]
    text: str

    def schema(self, levels: str) -> Schema:
        """Return the schema with these levels."""
        return Schema.parse(self.text.replace("LEVELS", f", levels: {levels}" if levels else ""))


def simulate(rows: int, others: int, seed: int) -> Simulated:
    """Draw a table."""
    generator = np.random.default_rng(seed)
    share = generator.gamma(0.5, size=20)[CHAPTER] * generator.gamma(0.7, size=180)[BLOCK]
    share = share * generator.gamma(0.4, size=900)
    code = generator.choice(900, size=rows, p=share / share.sum())
    columns = {"code": code}
    text = f"columns:\n  - {{name: code, kind: categorical, values: [{', '.join(VALUES)}]LEVELS}}\n"
    for number in range(others):
        size = int(generator.integers(2, 9))
        by_chapter = generator.dirichlet(np.full(size, 0.7), size=20)[CHAPTER]
        by_block = generator.dirichlet(np.full(size, 0.7), size=180)[BLOCK]
        ends = np.cumsum(0.6 * by_chapter + 0.4 * by_block, axis=1)[code]
        drawn = (generator.random(rows)[:, None] > ends).sum(axis=1)
        columns[f"x{number}"] = np.minimum(drawn, size - 1)
        values = ", ".join(f"v{value}" for value in range(size))
        text += f"  - {{name: x{number}, kind: categorical, values: [{values}]}}\n"
    return Simulated(columns, text)


def errors(real: dict[str, Codes], made: dict[str, Codes], fine: Schema) -> list[float]:
    """Return the errors of codes, chapters, chapters by another column, blocks by another column, and pairs of other columns."""
    rows = len(real["code"])

    def error(of_real: Codes, of_made: Codes, cells: int) -> float:
        counts = [np.bincount(codes, minlength=cells) for codes in (of_real, of_made)]
        return float(np.abs(counts[0] - counts[1] * (rows / len(of_made))).sum() / rows)

    found: list[list[float]] = [
        [error(real["code"], made["code"], 900)],
        [error(CHAPTER[real["code"]], CHAPTER[made["code"]], 20)],
        [],
        [],
        [],
    ]
    others = [name for name in fine.names if name != "code"]
    for index, name in enumerate(others):
        size = fine.domain.size(name)
        for place, groups in ((2, CHAPTER), (3, BLOCK)):
            ours, theirs = (groups[table["code"]] * size + table[name] for table in (made, real))
            found[place].append(error(theirs, ours, size * (int(groups.max()) + 1)))
        for other in others[:index]:
            ours, theirs = (table[other] * size + table[name] for table in (made, real))
            found[4].append(error(theirs, ours, size * fine.domain.size(other)))
    return [fmean(part) for part in found]


def fit(method: str, table: Simulated, levels: str, seed: int) -> tuple[int, list[float], float]:
    """Return the number of codes that were modelled, the errors, and the seconds of the fit."""
    schema, fine = table.schema(levels), table.schema("")
    groups = schema.column("code").groups
    codes = dict(table.columns)
    if groups is not None:
        codes["code"] = groups[codes["code"]]
    mechanism = create(method)
    reserve = mechanism.reserve(schema, BUDGET)
    ledger = Ledger.in_memory(budget=BUDGET, unit=UNIT, table="simulated", approximate_delta=reserve)
    start = time.process_time()
    model = mechanism.fit(Curator(LocalTable(schema, codes), unit=UNIT, ledger=ledger), BUDGET)
    seconds = time.process_time() - start
    frame = model.sample(len(codes["code"]), seed=seed)
    made = {name: part.astype(np.intp) for name, part in fine.encode_frame(frame).items()}
    return model.schema.column("code").size, errors(table.columns, made, fine), seconds


def main() -> None:
    """Print a table for each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="mst")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--others", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rows, others, seeds = (3_000, 3, 1) if given.quick else (given.rows, given.others, given.seeds)
    print(f"{rows:,} rows, 900 codes, {others} other columns, {BUDGET.describe()}, mean of {seeds} tables")
    head = (
        f"{'':22}{'groups':>7}{'code':>8}{'chapter':>9}{'chapter x':>11}{'block x':>9}{'x x':>8}{'CPU s':>8}"
    )
    for method in given.methods.split(","):
        print(f"\n{method}\n{head}")
        for name, levels in FORMS.items():
            runs = [fit(method, simulate(rows, others, seed), levels, seed) for seed in range(seeds)]
            size = fmean(run[0] for run in runs)
            mean = [fmean(run[1][place] for run in runs) for place in range(5)]
            seconds = fmean(run[2] for run in runs)
            print(
                f"{name:22}{size:>7.0f}{mean[0]:>8.3f}{mean[1]:>9.3f}{mean[2]:>11.3f}{mean[3]:>9.3f}{mean[4]:>8.3f}{seconds:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
