"""One fit of one peer on one table of codes. Runs inside the peer's environment, without Understudy (which is one of the peers here, in its own).

Reads a task (the path of a JSON file), calls what the peer's own documentation names, and writes rows of codes and what the fit took. Every function
below is one peer; settings that are not named are the peer's defaults. Noise is the peer's own, seeded where the peer allows it: this is a yardstick, not
something to release data with.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
LOADED = 0.0
"""CPU seconds when the peer's libraries were loaded."""


def ready():
    """Remember that everything is loaded: what comes now is calibrating, fitting and drawing."""
    global LOADED
    LOADED = time.process_time()


def frame_of(task):
    """Return the table as a frame of codes."""
    import pandas as pd

    with np.load(task["source"]) as arrays:
        return pd.DataFrame({name: arrays[f"c{i}"].astype(np.int64) for i, name in enumerate(task["names"])})


def domain_frame(task):
    """Return a public frame in which every code of every column occurs, and nothing of the records."""
    import pandas as pd

    rows = np.arange(max(task["sizes"]))
    return pd.DataFrame({name: rows % size for name, size in zip(task["names"], task["sizes"], strict=True)})


def understudy(task):
    from understudy.curator import Curator
    from understudy.data import LocalTable
    from understudy.marginals import parse_workload
    from understudy.mechanisms import create
    from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
    from understudy.schema import Integer, Schema
    from understudy.workflow import choose

    ready()
    sizes = dict(zip(task["names"], task["sizes"], strict=True))
    schema = Schema(
        columns=tuple(Integer(name, minimum=0, maximum=size - 1) for name, size in sizes.items()),
        name="table",
    )
    frame = frame_of(task)
    codes = {
        name: np.ascontiguousarray(frame[name], dtype=np.min_scalar_type(size - 1))
        for name, size in sizes.items()
    }
    unit, budget = Unit.add_remove(), ApproxDP(task["epsilon"], task["delta"])
    made = choose(schema, unit=unit, budget=budget)
    options = dict(made.options)
    if "workload" in options:
        options["workload"] = parse_workload(schema.domain, options["workload"])
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="table")
    # A seed makes the numbers repeatable; production code never seeds privacy noise.
    table = LocalTable(schema, codes)
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(task["seed"]))
    model = create(made.method, **options).fit(curator, budget)
    return model.sample_codes(task["rows"], seed=task["seed"]), made.method


def dpsynth(task):
    import dpsynth as package
    from dpsynth import discrete_mechanisms, domain

    ready()
    inner = {
        "swift": discrete_mechanisms.SWIFTConfig,
        "aim-gdp": discrete_mechanisms.AIMGDPConfig,
        "mst": discrete_mechanisms.MSTConfig,
    }[task["method"]](**task["options"])
    config = package.TabularConfig(
        domains={
            name: domain.CategoricalAttribute(list(range(size)))
            for name, size in zip(task["names"], task["sizes"], strict=True)
        },
        discrete_mechanism=inner,
    )
    note = ""
    try:
        mechanism = config.calibrate(epsilon=task["epsilon"], delta=task["delta"])
    except Exception as error:  # the accounting of a development version; a rho that implies the same promise is given instead
        print(f"calibrate failed: {type(error).__name__}: {error}", file=sys.stderr)
        mechanism, note = (
            config.configure(zcdp_rho=task["rho"]),
            "was given a zCDP budget, as its calibration failed",
        )
    return mechanism(np.random.default_rng(task["seed"]), frame_of(task)).synthetic_data, note


def mbi(task):
    found = importlib.util.spec_from_file_location("_peer_mbi", HERE / "_peer_mbi.py")
    driver = importlib.util.module_from_spec(found)
    found.loader.exec_module(driver)
    ready()
    return {"mst": driver.mst, "aim": driver.aim}[task["method"]](driver.Task(task)), ""


def dpmm(task):
    from dpmm.pipelines import AIMPipeline, MSTPipeline

    ready()
    pipeline = {"aim": AIMPipeline, "mst": MSTPipeline}[task["method"]](
        epsilon=task["epsilon"],
        delta=task["delta"],
        disable_processing=True,
        n_jobs=1,
        gen_kwargs=task["options"],
    )
    pipeline.fit(
        frame_of(task),
        domain=dict(zip(task["names"], task["sizes"], strict=True)),
        random_state=task["seed"],
    )
    return pipeline.generate(n_records=task["rows"], random_state=task["seed"]), ""


def labels(task):
    """Return SmartNoise's transformer of the declared codes, fitted to the public frame: it spends nothing."""
    from snsynth.transform import LabelTransformer, TableTransformer

    transformer = TableTransformer([LabelTransformer(nullable=False) for _ in task["names"]])
    transformer.fit(domain_frame(task))
    return transformer


def smartnoise(task):
    from snsynth.aim import AIMSynthesizer

    ready()
    np.random.seed(task["seed"])  # noqa: NPY002 - the peer draws from the global generator
    synthesizer = AIMSynthesizer(epsilon=task["epsilon"], delta=task["delta"], **task["options"])
    synthesizer.fit(frame_of(task), transformer=labels(task))
    return synthesizer.sample(task["rows"]), ""


def gsd(task):
    from genetic_sd.genetic_sd import GSDSynthesizer

    ready()
    synthesizer = GSDSynthesizer(epsilon=task["epsilon"], delta=task["delta"])
    synthesizer.fit(
        frame_of(task),
        transformer=labels(task),
        categorical_columns=list(task["names"]),
        seed=task["seed"],
        **task["options"],
    )
    return synthesizer.sample(), ""


PEERS = {
    "understudy": understudy,
    "dpsynth": dpsynth,
    "mbi": mbi,
    "dpmm": dpmm,
    "smartnoise": smartnoise,
    "gsd": gsd,
}


def version_of(name):
    """Return the version of a package, and the commit where it was installed from one."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return "not installed"
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id", "")[:7]
    return f"commit {commit}" if commit else found.version


def columns_of(rows, names):
    """Return the drawn columns as whole numbers, from a frame, a mapping or a list of rows."""
    if isinstance(rows, list):
        rows = dict(zip(names, zip(*rows, strict=True), strict=True))
    elif isinstance(rows, np.ndarray):
        rows = {name: rows[:, i] for i, name in enumerate(names)}
    return [np.asarray(rows[name]).astype(np.int64) for name in names]


def main():
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != HERE]  # names of ours
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    place = Path(task["told"])
    told = {name: version_of(name) for name in task["packages"]} | {"Python": sys.version.split()[0]}
    place.write_text(
        json.dumps({"versions": told}), encoding="utf-8"
    )  # known also of a fit that does not finish
    rows, note = PEERS[task["peer"]](task)
    columns = columns_of(rows, task["names"])
    used = time.process_time() - LOADED
    np.savez(task["result"], **{f"c{i}": column for i, column in enumerate(columns)})
    place.write_text(json.dumps({"versions": told, "fit_cpu_seconds": used, "note": note}), encoding="utf-8")


if __name__ == "__main__":
    main()
