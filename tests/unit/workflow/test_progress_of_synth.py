"""Progress of a fit and of drawing covers every phase, never goes back, and ends when the rows are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from understudy import datasets, synthesize
from understudy.bulk import write_sample
from understudy.engine.record_fitting import state
from understudy.mechanisms import load_model
from understudy.privacy import PureDP, Unit
from understudy.workflow import Delivery, Fit, Payment, mechanism_for, plan_synthesis

FRAME, SCHEMA = datasets.load("toy", 3_000, seed=1)
STAGES = {
    "aim": ("counting", "round 1", "final estimate", "asking the model"),
    "mst": ("counting", "columns", "choosing pairs", "pairs", "estimating"),
    "privbayes": ("structure", "measuring", "consistency"),
    "rap": ("counting", "round 1", "final fit"),
    "independent": ("counting", "measuring", "estimating"),
}
FITTED_ROWS = {"aim", "mst", "rap"}
"""Methods with a workload that rows are fitted to."""


class Watched:
    """Keeps what was told, and whether the output was there."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.said: list[tuple[str, float, bool]] = []

    def __call__(self, stage: str, fraction: float) -> None:
        self.said.append((stage, fraction, self.out.exists()))

    @property
    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage for stage, _, _ in self.said))

    def check(self) -> None:
        fractions = [fraction for _, fraction, _ in self.said]
        assert fractions == sorted(fractions)
        assert fractions[0] == 0.0
        assert fractions.count(1.0) == 1
        assert fractions[-1] == 1.0
        assert self.said[-1][2], "the end was told before the rows were written"


@pytest.mark.parametrize("method", STAGES)
def test_every_phase_of_a_fit_is_told(method: str, tmp_path: Path) -> None:
    out = tmp_path / "standin.csv"
    watched = Watched(out)
    synthesize(
        FRAME,
        schema=SCHEMA,
        unit="add-remove",
        method=method,
        epsilon=1.0,
        out=out,
        seed=1,
        ledger="memory",
        progress=watched,
    )
    watched.check()
    wanted = ["preparing", "reading", *STAGES[method], "drawing rows"]
    wanted += ["fitting rows"] if method in FITTED_ROWS else []
    wanted += ["turning codes into values", "writing"]
    assert [stage for stage in watched.stages if stage in wanted] == sorted(wanted, key=watched.stages.index)
    assert set(wanted) <= set(watched.stages)
    first = {stage: fraction for stage, fraction, _ in reversed(watched.said)}
    assert first["drawing rows"] < 0.7, "drawing has a share of the scale"
    if method in FITTED_ROWS:
        moving = {fraction for stage, fraction, _ in watched.said if stage == "fitting rows"}
        assert len(moving) > 3, "record fitting tells how far it is"


def test_a_model_alone_has_no_rows_to_draw() -> None:
    watched = Watched(Path.cwd())
    fit = Fit(
        table=FRAME,
        schema=SCHEMA,
        synthesizer=mechanism_for("independent", SCHEMA),
        unit=Unit.add_remove(),
        budget=PureDP(1.0),
    )
    plan_synthesis(fit, payment=Payment(ledger="memory")).run(progress=watched)
    watched.check()
    assert "drawing rows" not in watched.stages


def test_sets_and_folders_of_parts_are_told_on_the_same_scale(tmp_path: Path) -> None:
    fit = Fit(
        table=FRAME,
        schema=SCHEMA,
        synthesizer=mechanism_for("mst", SCHEMA),
        unit=Unit.add_remove(),
        budget=PureDP(1.0),
    )
    folder = tmp_path / "parts.parquet"
    watched = Watched(folder)
    delivery = Delivery(out=f"{folder}/", chunk_rows=1_000, seed=1)
    plan_synthesis(fit, payment=Payment(ledger="memory"), delivery=delivery).run(progress=watched)
    watched.check()
    assert len({fraction for stage, fraction, _ in watched.said if stage.startswith("drawing and")}) >= 3
    last = tmp_path / "set-2.csv"
    watched = Watched(last)
    delivery = Delivery(out=str(tmp_path / "set.csv"), sets=2, how="resampled", seed=1)
    plan_synthesis(fit, payment=Payment(ledger="memory"), delivery=delivery).run(progress=watched)
    watched.check()
    assert {"drawing set 1 of 2", "drawing set 2 of 2"} <= set(watched.stages)


def test_drawing_from_a_model(tmp_path: Path) -> None:
    made = synthesize(
        FRAME,
        schema=SCHEMA,
        unit="add-remove",
        method="mst",
        epsilon=1.0,
        ledger="memory",
        model=tmp_path / "m",
    )
    folder = tmp_path / "rows.parquet"
    watched = Watched(folder)
    write_sample(load_model(tmp_path / "m"), folder, rows=3_000, rows_per_chunk=500, seed=1, progress=watched)
    watched.check()
    model = made.model
    draws: list[Callable[[Watched], object]] = [
        lambda tell: model.sample(100, seed=1, progress=tell),
        lambda tell: model.sample(100, where="stay_days >= 3", seed=1, progress=tell),
        lambda tell: model.sample(given=FRAME[["ward"]].head(20), seed=1, progress=tell),
    ]
    for draw in draws:
        watched = Watched(folder)
        draw(watched)
        fractions = [fraction for _, fraction, _ in watched.said]
        assert fractions
        assert fractions == sorted(fractions)
        assert fractions[-1] < 1  # nothing is written yet


def test_watching_record_fitting_changes_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    made = synthesize(FRAME, schema=SCHEMA, unit="add-remove", method="mst", epsilon=1.0, ledger="memory")
    said: list[float] = []
    for sweeps in ((4, 200), (40, 200)):  # plain descent; annealed
        monkeypatch.setattr(state, "_SWEEPS", sweeps)
        watched = made.model.sample_codes(5_000, seed=3, progress=lambda _, f: said.append(f))
        quiet = made.model.sample_codes(5_000, seed=3)
        assert all((watched[name] == quiet[name]).all() for name in quiet)
