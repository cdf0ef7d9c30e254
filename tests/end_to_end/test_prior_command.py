"""``--prior``: a table, a model or a bundle as public data of a fit; what is refused before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import Result, understudy

SCHEMA = """
columns:
  - {name: age, kind: integer, minimum: 0, maximum: 4}
  - {name: smokes, kind: boolean}
  - {name: stage, kind: categorical, values: [a, b, c]}
"""


def rows(count: int, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 5, count)
    stage = np.clip((age + generator.integers(-1, 2, count)) // 2, 0, 2)
    return pd.DataFrame({"age": age, "smokes": age > 2, "stage": np.array(list("abc"))[stage]})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    rows(500, 1).to_csv(tmp_path / "private.csv", index=False)
    rows(800, 2).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def synth(place: Path, *more: object, table: str = "private.csv") -> Result:
    return understudy(
        "synth", place / table, "--schema", place / "schema.yaml", "--epsilon", 1, "--delta", 1e-6, "--unit", "add-remove",
        "--out", place / "out.csv", "--model", place / "out.understudy", "--json", "--quiet", *more,
    )  # fmt: skip


def test_a_public_table_and_a_model_are_priors(place: Path) -> None:
    made = synth(place, "--prior", place / "public.csv")
    assert made.code == 0, made.err
    told = json.loads(made.out)
    assert told["method"] == "sift"
    assert "believes public data pair by pair" in json.dumps(told)
    (place / "out.csv").unlink()
    (place / "out.understudy").rename(place / "before.understudy")
    rows(500, 3).to_csv(place / "next.csv", index=False)
    again = synth(place, "--prior", place / "before.understudy", table="next.csv")
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--prior", "{place}/private.csv"), "must be public"),
        (("--prior", "{place}/nothing.csv"), "There is no prior"),
        (("--prior", "{place}/public.csv", "--method", "mst"), "mst does not take a prior"),
        (("--prior", "{place}/other.csv"), "could not be read by the schema"),
    ],
)
def test_what_cannot_be_a_prior_is_refused_before_anything_is_spent(
    place: Path, words: tuple[str, ...], said: str
) -> None:
    pd.DataFrame({"unlike": [1, 2]}).to_csv(place / "other.csv", index=False)
    made = synth(place, *(word.format(place=place) for word in words))
    assert made.code in (2, 4), made.out
    assert said in made.err
    assert not list(place.glob("*.ledger*"))


def test_a_plan_tells_of_the_prior(place: Path) -> None:
    made = understudy(
        "plan", "--schema", place / "schema.yaml", "--epsilon", 1, "--delta", 1e-6, "--unit", "add-remove", "--no-rehearsal",
        "--prior", place / "public.csv",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert "from independence and from the prior" in " ".join(made.out.split())
