"""Intervals from refits beside the intervals from measurements: how often they hold, and how wide they are.

Each run fits a mechanism to a public table with fresh noise, runs it again on tables drawn from its model, and asks for 95 % intervals of counts and means over marginals of one, two and
three columns: random boxes (a range of codes of each column) and cells, with at least half a percent of the rows each, and means of the codes of a column, whole or within a range of another column. Queries are fixed
before a fit; those over marginals that no measurement contains get the interval from measurements and are only counted. The exact answers are seen by the benchmark alone. Errors of one fit depend on each other, so the deviation
of a share over few fits is several times that of independent queries. Development tables are marked; so is salary, on which a construction from certificates failed.

Run ``python -m benchmarks.accuracy.refits`` (``--quick`` for one fit of a small table).
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks._tables import find_data, load
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.inference import Interval
from understudy.mechanisms import create
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Clique

DEVELOPMENT = ("natality", "br9", "br2000", "bank", "acs13", "salary")
SIZES = {1: "columns", 2: "pairs", 3: "triples"}
LARGE = 0.005
"""Share of the rows that a cell, a box or a group must have to be asked for."""


@dataclass(frozen=True)
class Query:
    """A count or a mean over a marginal, and its exact value."""

    kind: str
    clique: Clique
    given: npt.NDArray[np.float64]
    """A mask as numbers, or the values of a mean."""
    real: float

    def ask(self, door: object) -> Interval:
        """Ask the model's uncertainty, or refits."""
        if self.kind == "mean":
            return door.mean_over(self.clique, self.given)  # type: ignore[attr-defined, no-any-return]
        return door.count_interval(self.clique, self.given > 0)  # type: ignore[attr-defined, no-any-return]


def queries(table: LocalTable, marginals: int, each: int) -> list[Query]:
    """Return fixed queries over at most so many marginals of each size."""
    generator, domain = np.random.default_rng(0), table.schema.domain
    found = []
    for size in SIZES:
        cliques = list(combinations(domain.names, size))
        chosen = sorted(generator.permutation(len(cliques))[:marginals].tolist())
        some = [cliques[place] for place in chosen]
        for clique, counts in zip(some, table.count_many(some), strict=True):
            shape, rows = domain.shape(clique), float(counts.sum())
            for _ in range(2 * each):
                box = _box(shape, generator)
                held = float(counts[box > 0].sum())
                if box.sum() < box.size and held >= LARGE * rows:
                    found.append(Query("box", clique, box, held))
            large = np.flatnonzero(counts.ravel() >= LARGE * rows)
            for place in generator.permutation(large)[:each]:
                cell = np.zeros(counts.size)
                cell[place] = 1.0
                found.append(Query("cell", clique, cell.reshape(shape), float(counts.ravel()[place])))
            group = _box(shape[1:], generator)
            values = np.arange(shape[0], dtype=np.float64).reshape([-1] + [1] * (size - 1))
            inside = np.where(group > 0, values, np.nan) if size > 1 else values
            within = np.isfinite(inside) * counts
            if float(within.sum()) >= LARGE * rows and shape[0] > 1:
                mean = float((within * np.nan_to_num(inside)).sum() / within.sum())
                found.append(Query("mean", clique, inside, mean))
    return found


def _box(shape: Sequence[int], generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return a random range of each column, as a table of ones and zeros."""
    box = np.ones(())
    for size in shape:
        low = int(generator.integers(size))
        side = np.zeros(size)
        side[low : int(generator.integers(low, size)) + 1] = 1.0
        box = np.multiply.outer(box, side)
    return box


Row = tuple[bool, float, bool, float]
"""Whether the interval of refits holds and its width, and the same of the interval from measurements; widths as shares of the rows, or in codes."""


def one_fit(
    table: LocalTable, asked: Sequence[Query], method: str, options: argparse.Namespace, number: int
) -> tuple[dict[tuple[int, str], list[Row]], int, float]:
    """Fit once, refit, and compare intervals; also return how many queries refits say nothing about, and the CPU seconds of a refit."""
    budget, unit, rows = ApproxDP(options.epsilon, 1e-9), Unit.add_remove(), table.exact_row_count()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="benchmark")
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(number))
    model = create(method).fit(curator, budget)
    start = time.process_time()
    refits = model.refits(options.refits, seed=number)
    seconds = (time.process_time() - start) / options.refits
    found: dict[tuple[int, str], list[Row]] = defaultdict(list)
    covered = [query for query in asked if refits.covers(query.clique)]
    for query in covered:
        new, old = query.ask(refits), query.ask(model.uncertainty)
        scale = 1.0 if query.kind == "mean" else rows
        ends = [(float(item.low), min(float(item.high), 1e300)) for item in (new, old)]
        held = [low <= query.real <= high for low, high in ends]
        widths = [(high - low) / scale for low, high in ends]
        found[len(query.clique), query.kind].append((held[0], widths[0], held[1], widths[1]))
    return found, len(asked) - len(covered), seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=["natality@10000", "br9@10000", "hmeq", "msnbc@10000"])
    parser.add_argument("--methods", nargs="+", default=["sift", "aim"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--fits", type=int, default=4, help="fits of each table by each method")
    parser.add_argument("--refits", type=int, default=8, help="refits of each fit")
    parser.add_argument("--marginals", type=int, default=30, help="most marginals of each size")
    parser.add_argument("--each", type=int, default=3, help="boxes, and cells, of each marginal")
    parser.add_argument("--data", type=Path, default=None, help="folder of the tables")
    parser.add_argument("--quick", action="store_true", help="one fit of a small table")
    options = parser.parse_args()
    if options.quick:
        options.tables, options.fits, options.refits, options.marginals = ["natality@2000"], 1, 5, 5
    folder = find_data(options.data)
    print(
        f"epsilon {options.epsilon:g}, delta 1e-9, {options.fits} fits with {options.refits} refits each; nominal .95.\n"
        "Coverage, and median width in parentheses: counts as shares of the rows, means in codes."
    )
    for name in options.tables:
        table = load(name, folder)
        asked = queries(table, options.marginals, options.each)
        of = "development" if name.partition("@")[0] in DEVELOPMENT else "reported"
        for method in options.methods:
            all_found: dict[tuple[int, str], list[Row]] = defaultdict(list)
            seconds, outside = [], 0
            for number in range(options.fits):
                found, left, took = one_fit(table, asked, method, options, number)
                seconds.append(took)
                outside += left
                for key, rows in found.items():
                    all_found[key] += rows
            print(
                f"\n{name} ({of}), {method}: {np.mean(seconds):.2f} s of CPU for a refit; {outside} of {len(asked) * options.fits} queries not covered\n"
                f"{'':8} {'':5} {'number':>6} {'refits':>18} {'measurements':>18}",
                flush=True,
            )
            for (size, kind), rows in sorted(all_found.items()):
                held, width, old_held, old_width = np.array(rows, dtype=np.float64).T
                cells = [
                    f"{held.mean():.3f} ({np.median(width):.4f})",
                    f"{old_held.mean():.3f} ({np.median(old_width):.4f})",
                ]
                print(
                    f"{SIZES[size]:8} {kind:5} {len(rows):6}",
                    *(f"{cell:>18}" for cell in cells),
                    flush=True,
                )


if __name__ == "__main__":
    main()
