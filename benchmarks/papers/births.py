"""The births release, made once, with its acceptance criteria beside those of the paper (Births, Table 2).

``python -m benchmarks.papers.births`` releases with the shipped specification, ``--paper`` with the paper's own
(``examples/births/paper.yaml``): 1,440 configurations of PrivBayes, published errors, selection until one is accepted, 9.98 in all. The
table is SAMPLE160K beside the repository, another public file of births (``--source``), or simulated births if there is none
(``--simulate``). It must be public: the noise is seeded, and exact errors are printed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._tables import DEVELOPMENT, PLACES
from understudy.data import LocalTable
from understudy.datasets import births
from understudy.privacy import SeededRandomness
from understudy.release import RecordTypes
from understudy.release.rehearsal.work import public_table
from understudy.release.result import ReleaseResult
from understudy.release.run.run import Release
from understudy.release.spec.spec import Spec

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "births"
SAMPLE = next(
    (place / DEVELOPMENT["natality"].table for place in PLACES if (place / "natality").is_dir()), None
)
PAPER = {
    "absolute k-way": (0.01, 0.0044, 0.01, None),
    "relative 1-way": (1.4, 1.284, 0.30, 0.135),
    "mean parity": (0.3, -0.014, 0.01, 0.044),
    "mean birth weight": (100.0, 28.634, 0.17, 3.821),
    "mean gestation week": (1.0, 0.062, 0.02, 0.033),
    "regression coefficients": (30.0, 27.185, 0.43, None),
    "prediction error": (5.0, 0.351, 0.04, 1.364),
    "faithfulness": (0.05, 0.03876, 0.01, None),
}
"""Table 2 of the paper: threshold, result, epsilon, and deviation of the noise (None where it is not printed, or only as '> .001')."""


class Counted(Release):
    """A release that counts its attempts, which is nobody's business unless the table is public."""

    attempts = 0

    def _attempt(self, *given: Any) -> Any:
        Counted.attempts += 1
        return super()._attempt(*given)


def exact_errors(spec: Spec, result: ReleaseResult, source: Any) -> dict[str, float]:
    """Return the error of each criterion without noise, which only a public table allows."""
    real = RecordTypes.from_table(public_table(spec, result.configuration, source))
    codes = result.schema.encode_frame(result.synthetic)
    made = RecordTypes.from_table(LocalTable(result.schema, codes))
    return {item.name: float(item.value(real, made)) for item in spec.criteria_for(result.schema)}


def show(value: float | None, *, digits: int = 4) -> str:
    """Return a number of a table, or a dash."""
    return "-" if value is None else f"{value:.{digits}g}"


def main() -> int:
    """Make the release and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paper", action="store_true", help="the paper's specification to the letter")
    parser.add_argument("--source", type=Path, help="a public file of births")
    parser.add_argument("--simulate", type=int, metavar="ROWS", help="simulated births instead of a file")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    spec = Spec.read(EXAMPLE / ("paper.yaml" if options.paper else "spec.yaml"))
    source: Any = options.source or (SAMPLE if SAMPLE is not None and SAMPLE.exists() else None)
    name = "simulated births" if source is None or options.simulate else source.name
    if source is None or options.simulate:
        source = births(options.simulate or 160_000, seed=1)
    print(f"{name}; {spec.name}: {len(spec.configurations):,} configurations, {spec.attempts.describe()}")
    print(f"budget: {spec.shares.describe()}", flush=True)
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "births.ledger"
        noise = SeededRandomness(options.seed)
        with Counted.open(spec, ledger=place, source=source, randomness=noise) as release:
            result = release.run()
            charges = [entry for entry in release.ledger.entries() if entry.event is not None]
            attempts = Counted.attempts or 1
        spent = time.process_time() - start
        if not isinstance(result, ReleaseResult):
            print(f"no candidate was accepted: {result.reason}")
            return 1
        report(spec, result, exact_errors(spec, result, source))
    print(f"guarantee: {result.guarantee.budget.describe()} for {spec.unit.describe()}")
    for entry in charges:
        print(f"charged: epsilon={entry.costs['pure']:.6g} for {entry.purpose}")
    print(f"attempts: {attempts}, {spent:.0f} s of CPU")
    return 0


def report(spec: Spec, result: ReleaseResult, exact: dict[str, float]) -> None:
    """Print what was released beside the paper's table."""
    print(f"accepted: {result.configuration.name}; {len(result.synthetic):,} rows")
    print()
    head = ("criterion", "threshold", "paper", "ours", "exact", "epsilon", "paper sd", "our sd", "met")
    print("{:<24} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9} {:>4}".format(*head))
    for item in result.criteria:
        threshold, reached, epsilon, deviation = PAPER.get(item.name, (None, None, None, None))
        if threshold is not None and threshold != item.threshold:
            raise ValueError(f"The threshold of {item.name!r} is not the paper's.")
        if spec.form == "published" and epsilon != item.epsilon:
            raise ValueError(f"The epsilon of {item.name!r} is not the paper's.")
        noise = item.noise_deviation if item.form == "published" else None  # else in records
        print(
            f"{item.name:<24} {show(item.threshold):>9} {show(reached):>9} {show(item.value):>9} {show(exact[item.name]):>9} "
            f"{show(item.epsilon):>8} {show(deviation):>9} {show(noise):>9} {'yes' if item.passed else 'no':>4}"
        )
    print()


if __name__ == "__main__":
    raise SystemExit(main())
