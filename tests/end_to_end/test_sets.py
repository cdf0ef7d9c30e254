"""``understudy synth --sets``: several tables, one ledger, one promise."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command import understudy

from understudy.privacy import Ledger

SCHEMA = (
    "name: t\ncolumns: [{name: smokes, kind: boolean}, {name: group, kind: categorical, values: [a, b]}]\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SCHEMA)
    frame = pd.DataFrame({"smokes": [True, False, False] * 60, "group": list("abb" * 60)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def synth(folder: Path, *words: object) -> dict[str, object]:
    base = ["synth", folder / "t.csv", "-s", folder / "s.yaml", "--unit", "add-remove", "--json"]
    done = understudy(*base, "--out", folder / "out.csv", *words)
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


@pytest.mark.parametrize(
    ("method", "how"), [("laplace", "posterior"), ("mst", "independent"), ("mst", "resampled")]
)
def test_sets_are_numbered_and_share_one_ledger(folder: Path, method: str, how: str) -> None:
    words = ["-m", method, "--epsilon", 1, "--sets", 3, "--how", how, "--rows", 50, "--seed", 1]
    result = synth(folder, *words, "--model", folder / "m.understudy")
    names = [Path(str(path)).name for path in result["sets"]]  # type: ignore[attr-defined]
    assert names == ["out-1.csv", "out-2.csv", "out-3.csv"]
    assert not (folder / "out.csv").exists()
    frames = [pd.read_csv(folder / name) for name in names]
    assert all(len(frame) == 50 and list(frame.columns) == ["smokes", "group"] for frame in frames)
    assert not frames[0].equals(frames[1])
    assert "epsilon=1 (pure" in str(result["guarantee"])
    with Ledger.open(folder / "t.ledger") as book:
        assert 0.99 < book.spent <= 1
    saved = sorted(path.name for path in folder.glob("m*.understudy"))
    assert saved == ([f"m-{i}.understudy" for i in (1, 2, 3)] if how == "independent" else ["m.understudy"])


def test_the_answer_says_how_to_combine(folder: Path) -> None:
    base = [
        "synth",
        folder / "t.csv",
        "-s",
        folder / "s.yaml",
        "--unit",
        "add-remove",
        "--out",
        folder / "o.csv.gz",
    ]
    done = understudy(*base, "-m", "laplace", "--epsilon", 1, "--sets", 2, "-q")
    assert done.code == 0
    assert "rule 'full'" in done.out + done.err
    assert (folder / "o-2.csv.gz").exists()


def test_sets_that_cannot_be_made_cost_nothing(folder: Path) -> None:
    base = [
        "synth",
        folder / "t.csv",
        "-s",
        folder / "s.yaml",
        "--unit",
        "add-remove",
        "--out",
        folder / "o.csv",
    ]
    done = understudy(*base, "-m", "aim", "--epsilon", 1, "--sets", 2)
    assert done.code != 0
    assert "cannot be posterior draws" in done.err
    naive = understudy(*base, "-m", "modips", "-o", "posterior=naive", "--epsilon", 1, "--sets", 2)
    assert naive.code != 0
    assert "naive" in naive.err
    assert not (folder / "t.ledger").exists()
