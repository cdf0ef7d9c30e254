"""The process of one job, a rehearsal or a plan: ``python -m understudy.studio.background.worker PLACE``.

It reads ``job.json`` of its place, tells how far it is in ``progress.json`` and what it has found in ``result.json``, which grows by one budget at a time.
The table is simulated, made up from the schema, or a file that its owner declared public; no other is opened.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.datasets import load, patient_register
from understudy.datasets.schema_tables import simulated_codes
from understudy.errors import UnderstudyError
from understudy.progress import Phases, Progress
from understudy.release.rehearsal.rehearsal import rehearse
from understudy.release.rehearsal.trial import mean_interval
from understudy.release.run.planning import plan_release
from understudy.release.spec.spec import Spec
from understudy.schema import Schema
from understudy.studio.background.jobs import watch
from understudy.studio.background.rehearsals import REGISTER, Table
from understudy.studio.designs.specification import with_total
from understudy.workflow.rehearsing import expected_errors

if TYPE_CHECKING:
    import pandas as pd

    from understudy.workflow.rehearsing import ExpectedErrors

_SEED = 20
_EVERY = 0.3
"""Seconds between two words about how far it is."""
_ERROR_ROWS = 20_000
_UNIFORM = {"integer": "integer-uniform", "real": "uniform", "date": "uniform"}


def made_up(schema: Schema, rows: int, seed: int = _SEED) -> pd.DataFrame:
    """Return a table drawn from a schema alone, with single values where the schema would show bins."""
    plain = schema.to_dict()
    for column in plain["columns"]:
        if column["kind"] in _UNIFORM and "bins" in column:
            column["decode_by"] = _UNIFORM[column["kind"]]
    plain.pop("row_count", None)
    drawn = Schema.from_dict(plain)
    return drawn.decode(simulated_codes(drawn, rows, seed=seed), seed=seed)


_MEAN_EVENTS = 2.0
"""Of a made-up entity: that many more than the fewest, on average."""


def made_up_tables(schema: Schema, entities: int, seed: int = _SEED) -> dict[str, pd.DataFrame]:
    """Return linked tables drawn from a schema alone: entities with 0, 1, 2 and so on events, fewer with more."""
    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    rng = np.random.default_rng(seed)
    least = min(entity.min_events, 1)
    number = np.minimum(least + rng.geometric(1 / (1 + _MEAN_EVENTS), size=entities) - 1, entity.max_events)
    drawn = made_up(replace(schema, entity=None), int(number.sum()) or 1, seed)[: int(number.sum())]
    ids = np.arange(1, entities + 1)
    owner = np.repeat(ids, number)
    above, below = entity.tables
    if least:  # known by their events alone: what is fixed is taken from the first of them
        for name in entity.fixed:
            drawn[name] = drawn[name].to_numpy()[np.repeat(np.cumsum(number) - number, number)]
        return {below: drawn.assign(**{entity.reference or entity.id: owner})}
    own = made_up(replace(schema, entity=None), entities, seed + 1)[list(entity.fixed)]
    rows = drawn.drop(columns=list(entity.fixed)).assign(**{entity.reference or entity.id: owner})
    return {above: own.assign(**{entity.id: ids}), below: rows}


def table_of(table: Table, spec: Spec, public: Path) -> Any:
    """Return the table to rehearse on: a frame, frames by name, or the path of a public file or folder."""
    if table.name == REGISTER:
        return patient_register(table.rows or 1, _SEED)
    if table.kind == "simulated":
        return load(table.name, table.rows or 1, _SEED)[0]
    if table.kind == "public":
        return public / table.name
    if table.linked:
        return made_up_tables(spec.schema, table.rows or 1)
    return made_up(spec.schema, table.rows or 1)


def point(spec: Spec, table: Any, *, trials: int, folder: Path, progress: Progress) -> dict[str, Any]:
    """Rehearse one budget and return what came of it, over all configurations."""
    found = rehearse(spec, table, trials=trials, jobs=1, folder=folder, seed=_SEED, progress=progress)
    done = [trial for item in found.results for trial in item.trials]
    chances = [trial.probability for trial in done]
    closest: dict[str, int] = {}
    failures: dict[str, int] = {}
    for trial in done:
        if trial.closest:
            closest[trial.closest] = closest.get(trial.closest, 0) + 1
        if trial.failure:
            failures[trial.failure] = failures.get(trial.failure, 0) + 1
    low, high = mean_interval(chances)
    return {
        "epsilon": _epsilon(spec),
        "acceptance": float(np.mean(chances)),
        "interval": [low, high],
        "rows": found.rows,
        "trials": [{"errors": dict(trial.errors), "failed": bool(trial.failure)} for trial in done],
        "closest": closest,
        "failures": failures,
        "seconds": float(np.median([trial.seconds for trial in done])),
    }


def _epsilon(spec: Spec) -> float | None:
    found = spec.total.to_dict().get("epsilon")
    return None if found is None else float(found)


def errors_of(spec: Spec, rows: int) -> dict[str, Any]:
    """Return the expected errors of columns, pairs and triples, or why there are none."""
    configuration = spec.configurations[0]
    schema = spec.schema_for(configuration)
    try:
        found: ExpectedErrors = expected_errors(
            schema,
            rows * spec.unit.max_rows if spec.two_levels else rows,
            spec.shares.model,
            spec.synthesizer_for(configuration, schema),
            unit=spec.unit,
            most_rows=_ERROR_ROWS,
        )
    except UnderstudyError as error:
        return {"note": str(error)}
    kinds = {}
    for kind in ("columns", "pairs", "triples"):
        expected, likely = found.of(kind), found.likely(kind)
        if expected is not None and likely is not None:
            kinds[kind] = {"low": likely[0], "middle": expected.middle, "high": likely[1]}
            kinds[kind]["cell"] = found.smallest_cell(kind) or math.nan
    return {
        kind: {name: None if math.isnan(value) else value for name, value in parts.items()}
        for kind, parts in kinds.items()
    }


class _Teller:
    """Writes down how far the work is, not too often."""

    def __init__(self, place: Path) -> None:
        self._place, self._last = place, 0.0

    def __call__(self, stage: str, fraction: float) -> None:
        if time.monotonic() - self._last >= _EVERY:
            self.write("running", stage, fraction)
            self._last = time.monotonic()

    def write(self, kind: str, text: str, fraction: float) -> None:
        _write(self._place / "progress.json", {"kind": kind, "text": text, "fraction": fraction})


def _write(path: Path, plain: Any) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(plain, allow_nan=False), encoding="utf-8")
    os.replace(part, path)


def work(place: Path) -> None:
    """Do the work of a place."""
    tell = _Teller(place)
    try:
        job = json.loads((place / "job.json").read_text(encoding="utf-8"))
        _TASKS[job["task"]](place, job, tell)
    except UnderstudyError as error:
        tell.write("failed", str(error), 0.0)
    except MemoryError:
        tell.write("failed", "The memory ran out.", 0.0)
    except TimeoutError as error:
        tell.write("failed", str(error), 0.0)
    except Exception as error:
        tell.write("failed", f"An unexpected {type(error).__name__}: this is a fault of Understudy.", 0.0)
    else:
        tell.write("done", "done", 1.0)


def _rehearse(place: Path, job: Mapping[str, Any], tell: _Teller) -> None:
    where = Path(job["where"])
    spec = Spec.from_dict(job["spec"], where=where)
    table = Table(**job["table"])
    source = table_of(table, spec, Path(job["public"]))
    own = _epsilon(spec)
    others = [] if own is None else [float(f"{own * factor:.3g}") for factor in job["factors"]]
    phases = Phases(
        tell, {"acceptance": 2.0, "errors": 1.0, **{f"epsilon {epsilon:g}": 1.0 for epsilon in others}}
    )
    result: dict[str, Any] = {
        "table": table.describe(),
        "epsilon": own,
        "thresholds": {item.name: item.threshold for item in spec.criteria},
        "points": [],
        "errors": {},
    }

    def rehearsed(item: Spec, phase: str) -> None:
        result["points"].append(
            point(item, source, trials=job["trials"], folder=place, progress=phases.part(phase))
        )
        result["points"].sort(key=lambda found: found["epsilon"] or 0.0)
        _write(place / "result.json", result)

    rehearsed(spec, "acceptance")
    phases.part("errors")("expected errors", 0.0)
    result["errors"] = errors_of(spec, result["points"][0]["rows"])
    _write(place / "result.json", result)
    for epsilon in others:
        plain = with_total(job["spec"], epsilon, where=where)
        rehearsed(Spec.from_dict(plain, where=where), f"epsilon {epsilon:g}")


_PLAN_SECONDS = 600
_PLAN_BYTES = 4 << 30
_TOO_LARGE = "It needs more than {what} to be planned. Name fewer marginals (a workload such as all-2way), or a method that measures fewer, such as mst."


def plan(spec: Spec) -> dict[str, Any]:
    """Return what a plan says about models, as plain values; the rest of it is known at once."""
    found = plan_release(spec)
    return {
        "configurations": found.configurations,
        "left_out": [list(item) for item in found.left_out],
        "models": [asdict(item) for item in found.models],
        "memory_megabytes": found.memory_megabytes,
        "seconds_per_attempt": found.seconds_per_attempt,
        "warnings": list(found.warnings),
    }


def _plan(place: Path, job: Mapping[str, Any], tell: _Teller) -> None:
    with limited(seconds=_PLAN_SECONDS, memory=_PLAN_BYTES):
        found = plan(Spec.from_dict(job["spec"], where=Path(job["where"])))
    _write(place / "result.json", found)


@contextlib.contextmanager
def limited(*, seconds: int, memory: int) -> Iterator[None]:
    """End what takes too long or too much memory in an error; where the system knows no such limits there are none."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(_TOO_LARGE.format(what=f"{seconds / 60:g} minutes"))

    try:
        import resource
    except ImportError:
        yield
        return
    before, handler = resource.getrlimit(resource.RLIMIT_DATA), signal.signal(signal.SIGALRM, late)
    try:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (memory, before[1]))
        signal.alarm(seconds)
        yield
    except MemoryError:
        raise TimeoutError(_TOO_LARGE.format(what=f"{memory >> 30} GB of memory")) from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, before)


_TASKS = {"rehearsals": _rehearse, "plans": _plan}

if __name__ == "__main__":
    watch(os.getppid())
    work(Path(sys.argv[1]))
