"""``understudy sample``, and folders of parts from ``understudy synth``."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command import understudy

from understudy.data import read_table
from understudy.schema import Boolean, Categorical, Integer, Schema

SCHEMA = Schema(
    columns=(
        Categorical("ward", values=("north", "south")),
        Integer("age", minimum=0, maximum=4),
        Boolean("smokes"),
    )
)
BUDGET = ["--method", "gaussian", "--unit", "replace-one", "--rho", "1", "--workload", "all-2way", "-q"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    SCHEMA.write(tmp_path / "schema.yaml")
    pd.DataFrame(
        {
            "ward": ["north", "south"] * 200,
            "age": [0, 1, 2, 3, 4] * 80,
            "smokes": [True, False, False, False] * 100,
        }
    ).to_parquet(tmp_path / "t.parquet")
    return tmp_path


def test_synth_writes_a_folder_and_sample_writes_it_again(place: Path) -> None:
    out = f"{place}/big.parquet/"
    table = [place / "t.parquet", "--schema", place / "schema.yaml", *BUDGET]
    result = understudy(
        "synth", *table, "--out", out, "--rows", 900, "--chunk-rows", 200, "--seed", 3, "--model",
        place / "m.understudy", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    said = json.loads(result.out)
    assert (said["rows"], said["files"], said["seed"]) == (900, 5, 3)
    assert said["distance_from_model"] < 0.02
    first = read_table(place / "big.parquet", SCHEMA)
    assert first.exact_row_count() == 900

    again = understudy(
        "sample", place / "m.understudy", "--out", f"{place}/again.parquet/", "--rows", 900, "--chunk-rows", 200,
        "--seed", 3, "-q",
    )  # fmt: skip
    assert again.code == 0, again.err
    assert "900 synthetic rows" in again.out
    for name in ("part-000000.parquet", "part-000004.parquet"):
        assert (place / "again.parquet" / name).read_bytes() == (place / "big.parquet" / name).read_bytes()

    file = understudy(
        "sample", place / "m.understudy", "--out", place / "s.csv", "--rows", 50, "--seed", 1, "--json"
    )
    assert file.code == 0, file.err
    assert len(pd.read_csv(place / "s.csv")) == 50

    ledger = (place / "t.ledger").read_bytes()
    once_more = understudy("synth", *table, "--out", out, "--rows", 900)
    assert once_more.code == 6
    assert "exists already" in once_more.err
    assert (place / "t.ledger").read_bytes() == ledger  # refused before anything was spent


@pytest.mark.parametrize(
    ("words", "code", "match"),
    [
        (["--out", "{}/x.parquet", "--chunk-rows", "10"], 2, "go with a folder"),
        (["--out", "{}/x/"], 6, "does not say how"),
        (["--out", "{}/x.parquet/", "--partition-by", "age"], 4, "categorical"),
        (["--out", "{}/x.parquet/", "--partition-by", "nobody"], 4, "nobody"),
        (["--out", "{}/x.parquet/", "--sets", "2", "--how", "independent"], 2, "not folders"),
        (["--out", "{}/x.csv", "--rows", "1000000000000"], 6, "End the name with a slash"),
    ],
)
def test_outputs_that_cannot_be_are_refused_before_anything_is_spent(
    place: Path, words: list[str], code: int, match: str
) -> None:
    words = [word.format(place) for word in words]
    result = understudy("synth", place / "t.parquet", "--schema", place / "schema.yaml", *BUDGET, *words)
    assert (result.code, match in result.err) == (code, True), result.err
    assert not (place / "t.ledger").exists()


def test_an_unfinished_folder_is_not_overwritten_by_another_fit(place: Path) -> None:
    folder = place / ".big.parquet.unfinished"
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    table = [place / "t.parquet", "--schema", place / "schema.yaml", *BUDGET]
    result = understudy("synth", *table, "--out", f"{place}/big.parquet/")
    assert result.code == 6
    assert "understudy sample" in result.err
    assert not (place / "t.ledger").exists()


def test_a_folder_that_cannot_be_finished_keeps_the_model_that_was_paid_for(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.bulk import writing

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    table = [place / "t.parquet", "--schema", place / "schema.yaml", *BUDGET]
    with monkeypatch.context() as patch:
        patch.setattr(writing, "make_chunk", full)
        result = understudy("synth", *table, "--out", f"{place}/big.parquet/", "--rows", 500, "--seed", 1)
    assert result.code == 6
    kept = place / ".big.parquet.unfinished" / "model.understudy"
    assert f"understudy sample {kept}" in result.err
    assert not (place / "big.parquet").exists()
    result = understudy("sample", kept, "--out", f"{place}/big.parquet/", "--rows", 500, "-q")
    assert result.code == 0, result.err
    assert read_table(place / "big.parquet", SCHEMA).exact_row_count() == 500
    assert not kept.exists()


def test_sample_takes_a_condition_or_fixed_columns(place: Path) -> None:
    model = place / "m.understudy"
    table = [place / "t.parquet", "--schema", place / "schema.yaml", *BUDGET]
    assert understudy("synth", *table, "--out", place / "s.csv", "--model", model).code == 0

    result = understudy(
        "sample", model, "--out", place / "w.csv", "--where", "ward == 'north' and age >= 3", "--rows", 60,
        "--seed", 1, "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    said = json.loads(result.out)
    drawn = pd.read_csv(place / "w.csv")
    assert said["rows"] == len(drawn) == 60
    assert 0.05 < said["share"] < 0.5
    assert set(drawn["ward"]) == {"north"}
    assert drawn["age"].min() == 3

    (place / "given.csv").write_text("ward,age\nsouth,0\nsouth,4\n")
    result = understudy(
        "sample", model, "--out", place / "g.csv", "--given", place / "given.csv", "--seed", 1, "-q"
    )
    assert result.code == 0, result.err
    drawn = pd.read_csv(place / "g.csv")
    assert drawn[["ward", "age"]].values.tolist() == [["south", 0], ["south", 4]]
    assert drawn["smokes"].notna().all()

    for wrong, words in (
        (["--where", "age == 9"], "inside the declared domain"),
        (["--where", "agee == 1"], "Did you mean 'age'"),
        (["--given", place / "given.csv", "--rows", 3], "leave --rows out"),
    ):
        result = understudy("sample", model, "--out", place / "x.csv", *wrong)
        assert result.code != 0
        assert words in " ".join(result.err.split())
    result = understudy("sample", model, "--out", f"{place}/parts.parquet/", "--where", "age == 1")
    assert result.code != 0
    assert "one file" in result.err
