"""One release with its noise, names and clock fixed, so that bundles made from different sources can be compared byte for byte.

The noise of a real release takes no seed; `run_release` accepts a seeded stream for tests. What is fixed besides is what would differ between two
releases of one file as well: the random names of the ledger and of the release, and the time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa

from understudy.curator import allowance
from understudy.privacy import Ledger, SeededRandomness
from understudy.privacy.ledger import ledger as ledgers
from understudy.release.bundle.bundle import write_bundle
from understudy.release.result import ReleaseResult
from understudy.release.run import run as running
from understudy.release.run import state
from understudy.release.spec.spec import Spec

SPEC = """
name: staff
source: {path: staff.csv, table: staff, derive: {month: {from: joined, part: month}}}
schema:
  columns:
    - {name: grade, kind: ordinal, values: [a, b, c]}
    - {name: sex, kind: categorical, values: [f, m]}
    - {name: age, kind: integer, unit: years, bins: ["<30", 30-44, "44<"], decode_by: label}
    - {name: month, kind: integer, minimum: 1, maximum: 12}
unit: UNIT
cleaning: [age >= 18, "not (grade == 'c' and age < 25)"]
public: {row_count: declared, expected_rows: 900}
synthesizers: [{method: gaussian, options: {workload: all-2way}}]
acceptance:
  form: pass-only
  epsilon: 5
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.9}]
selection: {rule: single}
budget: {total: {epsilon: TOTAL}, model: {epsilon: 4}}
"""
BY_PERSON = (
    SPEC.replace("row_count: declared", "row_count: {epsilon: 1}")
    .replace("UNIT", "{relation: add-remove, id_column: person, max_rows: 2}")
    .replace("TOTAL", "10")
    .replace("method: gaussian", "method: mst")
    .replace(", options: {workload: all-2way}", "")
)
SPECS = {
    "rows": SPEC.replace("UNIT", "replace-one").replace("TOTAL", "9") + "seed: 11\n",
    "persons": BY_PERSON + "seed: 12\n",
}
"""A release by rows, and one by persons, whose rows are chosen at random."""
ROWS = 1000


def records() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    joined = pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, ROWS), unit="D")
    return pd.DataFrame(
        {
            "grade": generator.choice(["a", "b", "c"], ROWS),
            "sex": generator.choice(["f", "m"], ROWS),
            "age": generator.integers(15, 70, ROWS),
            "joined": joined,
            "person": [f"p{number}" for number in generator.integers(0, 2 * ROWS, ROWS)],
        }
    )


def typed() -> pa.Table:
    """The records with days as days."""
    frame = records()
    return pa.Table.from_pandas(frame.assign(joined=frame["joined"].dt.date), preserve_index=False)


class Names:
    """Stands for the module ``secrets``: the same names in the same order, every time."""

    def __init__(self) -> None:
        self._made = 0

    def token_bytes(self, size: int) -> bytes:
        self._made += 1
        return self._made.to_bytes(size, "big")

    def token_hex(self, size: int) -> str:
        return self.token_bytes(size).hex()


@contextlib.contextmanager
def fixed() -> Iterator[None]:
    """Fix names and time while a release is made."""
    with contextlib.ExitStack() as stack:
        for module in (ledgers, state, running, allowance):
            stack.enter_context(patch.object(module, "secrets", Names()))
        stack.enter_context(patch.object(ledgers, "_now", lambda: "2026-01-02T03:04:05.000006+00:00"))
        stack.enter_context(patch.object(running, "_today", lambda: "2026-01-02"))
        yield


def bundle_of(source: Any, folder: Path, *, spec: str, noise: int = 7) -> dict[str, bytes]:
    """Run a release with seeded noise; return every file of its bundle."""
    folder.mkdir(parents=True)
    with fixed():
        outcome = run_release(source, folder / "staff.ledger", spec=spec, noise=noise)
        write_bundle(outcome, folder / "bundle")
    found = folder / "bundle"
    return {str(path.relative_to(found)): path.read_bytes() for path in found.rglob("*") if path.is_file()}


def run_release(source: Any, ledger: Path, *, spec: str, noise: int | None = 7) -> ReleaseResult:
    """Run a release with seeded noise, or with that of a real one."""
    wanted = Spec.parse(SPECS[spec]).with_source(source)
    randomness = None if noise is None else SeededRandomness(noise)
    outcome = running.run_release(wanted, ledger=ledger, randomness=randomness)
    assert isinstance(outcome, ReleaseResult)
    return outcome


def charges(ledger: Path) -> list[str]:
    """What the ledger was charged for, in order."""
    with Ledger.open(ledger) as book:
        return [entry.purpose for entry in book.entries() if entry.event is not None]
