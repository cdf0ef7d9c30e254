"""Folders of parts: complete or absent, the same whoever writes them, resumable."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as pads
import pytest

from understudy import ZCDP, Curator, Ledger, Unit, create, read_table
from understudy.bulk import WrittenSample, is_folder, unfinished, write_sample, writing
from understudy.bulk import writing as chunks
from understudy.bulk.staging import Staging
from understudy.engine.distributions.released import ReleasedRecords
from understudy.errors import OutputError, WorkloadError
from understudy.marginals import all_kway
from understudy.mechanisms import ChunkedSample, Model
from understudy.schema import Boolean, Categorical, Integer, Real, Schema

SCHEMA = Schema(
    columns=(
        Categorical("ward", values=("north", "south", "west/end")),
        Integer("age", minimum=0, maximum=9),
        Boolean("smokes"),
        Real("income", minimum=0, maximum=10, bins=4),
    ),
    constraints=("age >= 2 or not smokes",),
)
WORDS: dict[str, Any] = {"rows": 1_003, "rows_per_chunk": 100, "lanes": 3, "seed": 5}


@pytest.fixture(scope="module")
def model() -> Model:
    generator = np.random.default_rng(0)
    age = generator.integers(0, 10, 4_000)
    frame = pd.DataFrame(
        {
            "ward": generator.choice(["north", "south", "west/end"], 4_000, p=[0.6, 0.3, 0.1]),
            "age": age,
            "smokes": (generator.random(4_000) < 0.3) & (age >= 2),
            "income": generator.random(4_000) * age,
        }
    )
    unit, budget = Unit.add_remove(), ZCDP(0.5)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    synthesizer = create("gaussian", workload=all_kway(SCHEMA.domain, 2))
    return synthesizer.fit(Curator(read_table(frame, SCHEMA), unit=unit, ledger=ledger), budget)


@pytest.fixture(scope="module")
def whole(model: Model, tmp_path_factory: pytest.TempPathFactory) -> WrittenSample:
    return write_sample(model, f"{tmp_path_factory.mktemp('whole')}/t.parquet/", **WORDS)


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("part-*") if path.is_file())
    body = b"".join(str(path.relative_to(folder)).encode() + path.read_bytes() for path in files)
    return hashlib.sha256(body).hexdigest()


def test_a_folder_holds_all_rows_fits_the_model_and_keeps_constraints(
    model: Model, whole: WrittenSample
) -> None:
    done = whole
    assert done.path.name == "t.parquet"
    frame = pads.dataset(done.path).to_table().to_pandas()
    assert len(frame) == done.rows == 1_003
    assert done.files == 11
    assert not (frame["smokes"] & (frame["age"] < 2)).any()
    assert unfinished(done.path) is None
    assert json.loads((done.path / "_manifest.json").read_text())["rows"] == 1_003
    codes = SCHEMA.encode_frame(frame)
    gaps = []
    for clique in all_kway(SCHEMA.domain, 2).cliques:
        expected = model.marginal(clique)
        flat = np.ravel_multi_index(tuple(codes[name] for name in clique), expected.shape)
        found = np.bincount(flat, minlength=expected.size)
        gaps.append(np.abs(found - expected.ravel() * len(frame) / expected.sum()).sum() / len(frame))
    assert done.error == pytest.approx(np.mean(gaps), abs=1e-9)
    assert done.error is not None
    assert done.error < 0.03  # 1,003 independent rows would differ by about 0.13


def test_the_rows_do_not_depend_on_who_writes_them(
    model: Model, whole: WrittenSample, tmp_path: Path
) -> None:
    alone = whole
    together = write_sample(model, tmp_path / "two.parquet", jobs=2, backend="loky", **WORDS)
    threads = write_sample(model, tmp_path / "three.parquet", jobs=3, backend="threading", **WORDS)
    assert digest(alone.path) == digest(together.path) == digest(threads.path)
    assert alone.error == together.error
    other = write_sample(model, tmp_path / "four.parquet", **{**WORDS, "seed": 6})
    assert digest(other.path) != digest(alone.path)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("after", [1, 3, 10])
def test_an_interrupted_folder_goes_on_and_comes_out_the_same(
    model: Model, whole: WrittenSample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    made: list[int] = []
    original = chunks.make_chunk

    def make(out: str, plan: str, wave: int, lane: int, rows: int) -> Any:
        if len(made) == after:
            raise Killed
        report = original(out, plan, wave, lane, rows)
        made.append(report.number)
        return report

    model.save(tmp_path / "m.understudy")
    with monkeypatch.context() as patch:
        patch.setattr(writing, "make_chunk", make)
        with pytest.raises(Killed):
            write_sample(tmp_path / "m.understudy", tmp_path / "t.parquet", **WORDS)
        assert not (tmp_path / "t.parquet").exists()
        assert unfinished(tmp_path / "t.parquet") is not None
        first = len(made)
        after = -1
        words = {**WORDS, "seed": None}  # the seed of the unfinished one is taken up
        done = write_sample(tmp_path / "m.understudy", tmp_path / "t.parquet", **words)
    assert sorted(made) == list(range(11))  # nothing was made twice
    assert first < 11
    assert digest(done.path) == digest(whole.path)
    assert done.error == whole.error
    assert unfinished(tmp_path / "t.parquet") is None


def test_a_killed_process_leaves_nothing_that_looks_complete(
    model: Model, whole: WrittenSample, tmp_path: Path
) -> None:
    """A real process and a real SIGKILL, as soon as a few chunks are done."""
    model.save(tmp_path / "m.understudy")
    out = tmp_path / "t.parquet"
    program = (
        "import sys; from understudy.bulk import write_sample; "
        "write_sample(sys.argv[1], sys.argv[2], rows=1003, rows_per_chunk=100, lanes=3, seed=5)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "m.understudy"), str(out)])
    while process.poll() is None and len(list(Staging(out).root.glob("done-*"))) < 4:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert out.exists() == (unfinished(out) is None)  # killed in time, or complete before the kill
    if not out.exists():
        write_sample(tmp_path / "m.understudy", out, **WORDS)
    assert digest(out) == digest(whole.path)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_another_plan_does_not_go_on_with_what_is_there(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(writing, "make_chunk", stop)
        with pytest.raises(Killed):
            write_sample(model, tmp_path / "t.parquet", **WORDS)
    for change in ({"rows": 999}, {"seed": 6}, {"rows_per_chunk": 50}, {"lanes": 2}):
        with pytest.raises(OutputError, match="An unfinished sample of another"):
            write_sample(model, tmp_path / "t.parquet", **{**WORDS, **change})
    kept = Staging(tmp_path / "t.parquet").model  # the model in the folder may be the only one there is
    done = write_sample(kept, tmp_path / "t.parquet", restart=True, **{**WORDS, "rows": 200})
    assert done.rows == 200


def test_a_process_that_dies_is_told_in_plain_words_and_loses_nothing(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tasks: Any, how: Any) -> Any:
        raise RuntimeError("A worker process managed by the executor was unexpectedly terminated.")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "run", broken)
        with pytest.raises(OutputError, match="ended early"):
            write_sample(model, tmp_path / "t.parquet", **WORDS)
    assert write_sample(model, tmp_path / "t.parquet", **WORDS).rows == 1_003


def test_two_processes_cannot_write_the_same_folder(model: Model, tmp_path: Path) -> None:
    with (
        Staging(tmp_path / "t.parquet").locked(),
        pytest.raises(OutputError, match="Another process is writing"),
    ):
        write_sample(model, tmp_path / "t.parquet", **WORDS)


def test_what_exists_is_left_alone(model: Model, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").mkdir()
    (tmp_path / "t.parquet" / "diary.txt").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        write_sample(model, tmp_path / "t.parquet", **WORDS)
    with pytest.raises(OutputError, match="does not say how"):
        write_sample(model, tmp_path / "t", **WORDS)
    with pytest.raises(OutputError, match="does not exist"):
        write_sample(model, tmp_path / "nowhere" / "t.parquet", **WORDS)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["diary.txt", "t.parquet"]


def test_values_of_columns_become_folders(model: Model, tmp_path: Path) -> None:
    few = {**WORDS, "rows": 300}
    done = write_sample(model, tmp_path / "t.parquet", partition_by=["ward", "smokes"], **few)
    plain = write_sample(model, tmp_path / "p.parquet", **few)
    assert (done.path / "ward=west%2Fend").is_dir()
    split, whole = (read_table(path, SCHEMA) for path in (done.path, plain.path))
    for clique in (("ward", "age"), ("smokes", "income")):
        np.testing.assert_array_equal(split.count(clique), whole.count(clique))
    for columns, match in ((["age"], "categorical"), (["ward", "smokes", "age", "income"], "categorical")):
        with pytest.raises(WorkloadError, match=match):
            write_sample(model, tmp_path / "q.parquet", partition_by=columns, **WORDS)
    with pytest.raises(WorkloadError, match="Parquet"):
        write_sample(model, tmp_path / "q.csv", partition_by=["ward"], **WORDS)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_csv_parts_have_their_own_headers(model: Model, tmp_path: Path, ending: str) -> None:
    done = write_sample(model, f"{tmp_path}/t{ending}/", **WORDS)
    parts = [pd.read_csv(path) for path in sorted(done.path.glob(f"part-*{ending}"))]
    assert sum(map(len, parts)) == 1_003
    assert all(list(part.columns) == list(SCHEMA.names) for part in parts)


def test_no_rows_are_a_legal_sample(model: Model, tmp_path: Path) -> None:
    done = write_sample(model, tmp_path / "t.parquet", rows=0)
    assert (done.rows, done.files) == (0, 1)
    assert pads.dataset(done.path).schema.names == list(SCHEMA.names)
    with pytest.raises(WorkloadError):
        write_sample(model, tmp_path / "u.parquet", rows=-1)


def test_a_model_without_a_workload_and_released_records(model: Model, tmp_path: Path) -> None:
    plain = Model(SCHEMA, model.distribution, model.measurements, model.provenance)
    done = write_sample(plain, tmp_path / "a.parquet", **WORDS)
    assert (done.rows, done.error) == (1_003, None)
    codes = np.stack([np.arange(7) % size for size in SCHEMA.domain.sizes], axis=1)
    codes[:, 2] = 0
    released = Model(SCHEMA, ReleasedRecords(SCHEMA.domain, 7.0, codes), (), model.provenance)
    sample = ChunkedSample(released, 30, seed=1, rows_per_chunk=4, lanes=2)
    rows, counts = 0, sample.nothing()
    seen: list[int] = []
    for wave in sample.waves:
        for lane in range(len(wave.sizes)):
            seen += sample.draw(wave, lane, rows, counts).codes[:, 1].tolist()
        rows += wave.rows
    assert sorted(np.bincount(seen).tolist()) == [
        4,
        4,
        4,
        4,
        4,
        5,
        5,
    ]  # each as often as the others but for one


def test_the_memory_of_a_chunk_is_bounded_before_anything_is_written(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy import parallel
    from understudy.errors import DomainTooLarge

    monkeypatch.setattr(parallel, "available_mb", lambda: 250.0)
    with pytest.raises(DomainTooLarge, match="smaller chunks"):
        write_sample(model, tmp_path / "t.parquet", **WORDS)
    assert not (tmp_path / "t.parquet").exists()


def test_a_final_slash_asks_for_a_folder() -> None:
    assert is_folder("x.parquet/")
    assert not is_folder(Path("x.parquet/"))


@pytest.mark.parametrize("what", ["report", "part"])
def test_files_lost_from_an_unfinished_folder_are_noticed(
    model: Model, whole: WrittenSample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    made: list[int] = []
    original = chunks.make_chunk

    def make(*words: Any) -> Any:
        if len(made) == 7:
            raise Killed
        made.append(1)
        return original(*words)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "make_chunk", make)
        with pytest.raises(Killed):
            write_sample(model, tmp_path / "t.parquet", **WORDS)
    folder = unfinished(tmp_path / "t.parquet")
    assert folder is not None
    (folder / "parts" / ".part-000008.parquet.0a1b.tmp").write_bytes(b"half")  # what a killed process leaves
    if what == "report":
        (folder / "done-000001.npz").unlink()
    else:
        (folder / "parts" / "part-000001.parquet").unlink()
    with pytest.raises(OutputError, match="lost some of its files"):
        write_sample(model, tmp_path / "t.parquet", **WORDS)
    assert not (tmp_path / "t.parquet").exists()
    done = write_sample(model, tmp_path / "t.parquet", restart=True, **WORDS)
    assert digest(done.path) == digest(whole.path)
    assert len(list(done.path.iterdir())) == 12
