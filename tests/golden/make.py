"""Writes the files of this folder with the version of Understudy that is installed: ``python tests/golden/make.py FOLDER``.

The files in ``0.1.0`` were written by that version and are never written again: later versions must read them. Privacy noise comes from a
seed here, for simulated tables alone.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import yaml

from understudy import datasets
from understudy.curator import Curator
from understudy.data import read_table
from understudy.mechanisms import create
from understudy.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.events import (
    ApproxEvent,
    Composed,
    GaussianEvent,
    LaplaceEvent,
    Parallel,
    PureEvent,
    SelectionEvent,
)
from understudy.release.bundle import bundle
from understudy.release.run import run as running
from understudy.release.run.run import Release, run_release
from understudy.release.spec.spec import Spec

METHODS = {
    "aim": {}, "mst": {}, "privbayes": {}, "privsyn": {}, "privmrf": {}, "rap": {}, "mwem": {}, "independent": {}, "gaussian": {},
    "deniability": {}, "modips": {}, "sequential-regression": {}, "dpcopula": {},
}  # fmt: skip
SPEC = """
name: golden
title: A small table
source: {simulate: {table: toy, rows: 1500, seed: 1}, table: toy}
schema: ../toy.yaml
unit: replace-one
public: {row_count: {epsilon: 2}, expected_rows: 1500}
synthesizers: [{method: gaussian, options: {workload: all-2way}}]
acceptance:
  form: FORM
  CHARGE
  criteria:
    - {name: cells, kind: max-marginal-error, threshold: 0.9EACH}
    - {name: unique records, kind: rare-records, min_count: 1}
selection: SELECTION
budget: {total: {epsilon: TOTAL}, model: {epsilon: 4}}
seed: 1
"""


def main(folder: Path) -> None:
    """Write everything into a folder that does not exist yet."""
    folder.mkdir(parents=True)
    facts: dict[str, object] = {"version": version("understudy")}
    frame, schema = datasets.load("toy", 1500, seed=1)
    frame.to_csv(folder / "toy.csv", index=False)
    schema.write(folder / "toy.yaml")
    facts["schema"] = schema.fingerprint()
    facts["ledgers"] = _ledgers(folder)
    facts["models"] = _models(folder, frame, schema)
    facts["specs"] = _specs(folder)
    facts["releases"] = _releases(folder)
    (folder / "facts.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _ledgers(folder: Path) -> dict[str, object]:
    made = {
        "pure": Ledger.create(folder / "pure.ledger", budget=PureDP(4.0), unit=Unit.replace_one(), table="toy"),
        "zcdp": Ledger.create(folder / "zcdp.ledger", budget=ZCDP(2.0), unit=Unit.add_remove(), table="toy"),
        "gdp": Ledger.create(
            folder / "gdp.ledger", budget=GDP(3.0), unit=Unit.add_remove_person("p", max_rows=3), table="toy"
        ),
        "approximate": Ledger.create(
            folder / "approximate.ledger", budget=ApproxDP(4.0, 1e-6), unit=Unit.replace_one(), table="toy",
            approximate_delta=5e-7,
        ),
    }  # fmt: skip
    facts = {}
    for name, ledger in made.items():
        ledger.note("begun", scope="golden")
        ledger.charge(LaplaceEvent(1.0, 4.0), purpose="count", scope="golden")
        ledger.charge(PureEvent(0.25), purpose="choose once")
        if name != "pure":
            ledger.charge(GaussianEvent(1.0, 4.0), purpose="measure")
            ledger.charge(SelectionEvent(0.5), purpose="choose", scope="golden/choice")
            ledger.charge(
                Composed(
                    (GaussianEvent(1.0, 8.0), Parallel((LaplaceEvent(1.0, 9.0), LaplaceEvent(2.0, 9.0))))
                ),
                purpose="all sorts",
            )
        if name == "approximate":
            ledger.charge(ApproxEvent(0.1, 1e-7), purpose="records")
        facts[name] = {
            "head": ledger.head_hash,
            "spent": ledger.spent,
            "remaining": ledger.remaining,
            "total": ledger.total,
            "describe": ledger.guarantee().describe(),
            "entries": [entry.to_dict() for entry in ledger.entries()],
        }
    return facts


def _models(folder: Path, frame: object, schema: object) -> dict[str, object]:
    budget, unit, facts = ApproxDP(2.0, 1e-6), Unit.add_remove(), {}
    for name, options in METHODS.items():
        synthesizer = create(name, **options)
        reserve = synthesizer.reserve(schema, budget)  # type: ignore[arg-type]
        ledger = Ledger.in_memory(budget=budget, unit=unit, table="toy", approximate_delta=reserve)
        curator = Curator(
            read_table(frame, schema),  # type: ignore[arg-type]
            unit=unit, ledger=ledger, rows=1500, exact_rows=False, randomness=SeededRandomness(7),
        )  # fmt: skip
        model = synthesizer.fit(curator, budget)
        model.save(folder / f"{name}.understudy")
        rows = model.sample(1000, seed=3)
        facts[name] = {
            "guarantee": model.provenance.guarantee(),
            "rows": model.default_rows(),
            "counts": {c: {str(v): int(n) for v, n in rows[c].value_counts().items()} for c in rows.columns},
        }
    return facts


def _specs(folder: Path) -> dict[str, object]:
    root = Path(__file__).parents[2]
    facts = {}
    for path in sorted((root / "examples").rglob("*.yaml")):
        plain = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(plain, dict) and "synthesizers" in plain:
            name = f"spec-{path.parent.name}-{path.name}"
            shutil.copy(path, folder / name)
            if isinstance(plain.get("schema"), str):
                shutil.copy(path.parent / plain["schema"], folder / plain["schema"])
            facts[name] = {"fingerprint": Spec.read(folder / name).fingerprint()}
    return facts


def _spec(place: Path, form: str, selection: str) -> Spec:
    charge, each = ("epsilon: 2", "") if form == "pass-only" else ("", ", epsilon: 2")
    total = "8" if selection == "{rule: single}" else "9.5977"
    text = SPEC.replace("FORM", form).replace("CHARGE", charge).replace("EACH", each)
    text = text.replace("SELECTION", selection).replace("TOTAL", total)
    place.mkdir()
    (place / "spec.yaml").write_text(text, encoding="utf-8")
    return Spec.read(place / "spec.yaml")


class _Stop(BaseException):
    pass


def _releases(folder: Path) -> dict[str, object]:
    frame, _ = datasets.load("toy", 1500, seed=1)
    facts = {}
    for name, form, selection in (
        ("single", "pass-only", "{rule: single}"),
        ("published", "published", "{rule: single}"),
        ("loop", "pass-only", "{rule: until-accepted, gamma: 0.2}"),
    ):
        place = folder / f"release-{name}"
        spec = _spec(place, form, selection)
        result = run_release(spec, ledger=place / "toy.ledger", source=frame, randomness=SeededRandomness(5))
        bundle.write_bundle(result, place / "bundle")
        shutil.make_archive(str(place / "bundle"), "zip", place / "bundle")
        shutil.rmtree(place / "bundle")
        facts[name] = {"fingerprint": spec.fingerprint(), "rows": len(result.synthetic)}
    # interrupted after the number of rows was measured
    place = folder / "release-interrupted"
    spec = _spec(place, "pass-only", "{rule: single}")

    def stop(*_: object, **__: object) -> None:
        raise _Stop

    fit, running.fit_model = running.fit_model, stop
    try:
        with Release.open(spec, ledger=place / "toy.ledger", source=frame) as release:
            release.run()
    except _Stop:
        pass
    finally:
        running.fit_model = fit
    facts["interrupted"] = {"fingerprint": spec.fingerprint()}
    return facts


if __name__ == "__main__":
    main(Path(sys.argv[1]))
