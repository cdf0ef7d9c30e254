"""google/dpsynth's relational synthesizer on a table of entities and one of their events. Runs inside the peer's environment, without Understudy.

dpsynth is not on the package index; `benchmarks.accuracy.linked_peer` says how to get it. Its noise is floating point from a seed: this is a yardstick.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib.metadata import version

import numpy as np
import pandas as pd


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        task = json.load(file)
    start = time.process_time()
    from dpsynth import discrete_mechanisms, domain
    from dpsynth.relational import ForeignKeyRelation, MultiTableConfig

    loaded = time.process_time() - start
    with np.load(task["source"]) as arrays:
        tables = {
            table: pd.DataFrame({name: arrays[f"{table}/{name}"] for name in [task["key"], *columns]})
            for table, columns in task["tables"].items()
        }
    domains = {
        table: {name: domain.CategoricalAttribute(list(range(size))) for name, size in columns.items()}
        for table, columns in task["tables"].items()
    }
    entities, events = task["tables"]
    if task["method"] == "aim":
        method = discrete_mechanisms.AIMConfig()
    else:
        method = discrete_mechanisms.MSTConfig(pgm_iters=task["iterations"])
    link = ForeignKeyRelation(entities, task["key"], events, task["key"], task["most"])
    config = MultiTableConfig(
        domains=domains,
        foreign_keys=[link],
        discrete_mechanism=method,
        num_permutation_slots=task["slots"],
        exploration_strategy=task["strategy"],
    )
    start = time.process_time()
    how = "calibrate"
    try:
        mechanism = config.calibrate(epsilon=task["epsilon"], delta=task["delta"])
    except Exception as error:  # the accounting of a development version; a rho that implies the same promise is given instead
        print(f"calibrate failed: {type(error).__name__}: {error}", file=sys.stderr)
        how, mechanism = "rho", config.calibrate(zcdp_rho=task["rho"])
    made = mechanism(np.random.default_rng(task["seed"]), tables).synthetic_tables
    seconds = time.process_time() - start
    out = {
        f"{table}/{name}": frame[name].to_numpy(np.int64)
        for table, frame in made.items()
        for name in [task["key"], *task["tables"][table]]
    }
    np.savez_compressed(task["out"], **out)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    versions = ", ".join(f"{name} {version(name)}" for name in ("dpsynth", "mbi", "jax", "dp-accounting"))
    told = {"seconds": seconds, "loading": loaded, "gigabytes": peak, "how": how, "versions": versions}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
