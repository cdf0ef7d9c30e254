"""Make the release of `same_release`, or go on with it, and die where it is told to; print the exact counts it saw and what the ledger was charged for.

Run as ``python killed_release_program.py SPEC FOLDER POINT NUMBER TABLE [URL]``. Points: ``count`` (while records are being counted for the NUMBERth time; on Spark
while the NUMBERth job runs), ``answer`` (when the NUMBERth noisy answer is in the journal), ``never``.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
from pathlib import Path

from same_release import charges, run_release

from understudy.curator import Curator
from understudy.curator.journal import Journal
from understudy.data import Database, SparkTable
from understudy.data.counting.counting import MarginalCounter
from understudy.release.bundle.bundle import write_bundle
from understudy.release.run import transform


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def strike(kind: type, name: str, number: int, *, after: bool) -> None:
    """Die in the given call of a method, before or after it does its work."""
    original, seen = getattr(kind, name), itertools.count(1)

    def struck(self, *words, **options):
        mine = next(seen) == number
        if mine and not after:
            die()
        found = original(self, *words, **options)
        if mine:
            die()
        return found

    setattr(kind, name, struck)


def strike_job(number: int) -> None:
    """Die while a job of Spark runs."""
    collected, seen = SparkTable._collected, itertools.count(1)

    def struck(self, job):
        if next(seen) == number:
            threading.Timer(0.2, die).start()
        return collected(self, job)

    SparkTable._collected = struck


class Watching(Curator):
    """The test-only door: keeps the exact counts of the table it is given."""

    watched: list = []  # noqa: RUF012

    def __init__(self, table, **options):
        names = table.schema.names
        asked = [clique for size in range(3) for clique in itertools.combinations(names, size)]
        found = [counts.tolist() for counts in table.count_many(asked)]
        if found not in Watching.watched:
            Watching.watched.append(found)
        super().__init__(table, **options)


def main(spec: str, folder: str, point: str, number: str, table: str, url: str = "") -> None:
    place = Path(folder)
    place.mkdir(exist_ok=True)
    source = Database(url=url, table=table) if url else Path(table)
    transform.Curator = Watching
    if point == "answer":
        strike(Journal, "keep", int(number), after=True)
    elif point == "count" and url.startswith("local"):
        strike_job(int(number))
    elif point == "count":
        strike(MarginalCounter, "add", int(number), after=False)
    outcome = run_release(source, place / "staff.ledger", spec=spec, noise=None)
    write_bundle(outcome, place / "bundle")
    told = {"counts": Watching.watched, "charges": charges(place / "staff.ledger")}
    sys.stdout.write(f"\n{json.dumps(told)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
