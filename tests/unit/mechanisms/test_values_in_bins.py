"""Values inside bins: every road from a model to a table draws them by the model's own counts, repeatably."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy import Curator, Ledger, PureDP, Unit, create, read_table
from understudy.adapters import TableSynthesizer
from understudy.bulk import write_sample
from understudy.mechanisms import Model
from understudy.mechanisms.multiple import MultipleSynthesis
from understudy.privacy import SeededRandomness
from understudy.schema import Boolean, Categorical, Column, Integer, Real, Schema

SCHEMA = Schema(
    [
        Real(
            "price",
            bins=["[0, 0]", "(0, 50)", "[50, 100)", "[100, 200)", "[200, 1000]"],
            decimals=2,
            decode_by="smooth",
            missing=True,
            missing_text="?",
        ),
        Integer("nights", bins=["0-4", "5-9", "10-30"], decode_by="smooth"),
        Boolean("again", spelling=["No", "Yes"]),
    ]
)


def records(rows: int = 4_000) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    price = np.round(np.minimum(generator.lognormal(3.9, 0.7, rows), 1000.0), 2)
    price[generator.random(rows) < 0.1] = 0.0
    price[generator.random(rows) < 0.05] = np.nan
    nights = np.minimum(generator.geometric(0.2, rows), 30)
    return pd.DataFrame({"price": price, "nights": nights, "again": generator.choice(["No", "Yes"], rows)})


@pytest.fixture(scope="module")
def model() -> Model:
    unit, budget = Unit.replace_one(), PureDP(50.0)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
    return create("laplace").fit(Curator(read_table(records(), SCHEMA), unit=unit, ledger=ledger), budget)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The counts that each decoding of a column was given."""
    found: list[dict[str, Any]] = []
    real = Column.decode

    def spy(self: Column, codes: Any, generator: Any, *, counts: Any = None) -> Any:
        found.append({"column": self.name, "counts": counts})
        return real(self, codes, generator, counts=counts)

    monkeypatch.setattr(Column, "decode", spy)
    return found


def sampled(model: Model, folder: Path) -> Any:
    return model.sample(300, seed=1)


def in_chunks(model: Model, folder: Path) -> Any:
    return pd.concat(model.sample_chunks(300, rows_per_chunk=100, seed=1), ignore_index=True)


def in_a_folder(model: Model, folder: Path) -> Any:
    write_sample(model, f"{folder}/t.csv/", rows=300, rows_per_chunk=100, seed=1)
    parts = sorted((folder / "t.csv").glob("part-*"))
    return pd.concat([pd.read_csv(path, dtype=str) for path in parts], ignore_index=True)


def resampled(model: Model, folder: Path) -> Any:
    sets = MultipleSynthesis("resampled", (model,), model.provenance.budget)
    return next(iter(sets.frames(300, seed=1)))


def reloaded(model: Model, folder: Path) -> Any:
    model.save(folder / "m.understudy")
    return Model.load(folder / "m.understudy").sample(300, seed=1)


ROADS = [sampled, in_chunks, in_a_folder, reloaded]


@pytest.mark.parametrize("road", ROADS)
def test_every_road_draws_by_the_counts_of_the_model(
    model: Model, seen: list[dict[str, Any]], tmp_path: Path, road: Any
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = road(model, tmp_path / "first"), road(model, tmp_path / "second")
    assert first.equals(second)
    given = [item for item in seen if item["column"] in ("price", "nights")]
    assert given
    for item in given:
        assert np.array_equal(item["counts"], model.marginal((item["column"],)))
    assert all(item["counts"] is None for item in seen if item["column"] == "again")
    codes = SCHEMA.encode_frame(first)
    prices = pd.to_numeric(first["price"], errors="coerce")
    assert (prices[codes["price"] == 0] == 0).all()
    assert prices.nunique() > 100
    assert np.array_equal(prices.dropna(), prices.dropna().round(2))
    assert set(first["again"]) == {"No", "Yes"}


def test_a_set_of_several_draws_by_the_counts_it_was_drawn_from(
    model: Model, seen: list[dict[str, Any]], tmp_path: Path
) -> None:
    """A table is resampled by drawing its counts, so those shape the bins: 300 in all."""
    resampled(model, tmp_path)
    given = [item for item in seen if item["column"] == "price"]
    assert given
    assert all(item["counts"] is not None and round(item["counts"].sum()) == 300 for item in given)


def test_a_model_loaded_from_its_file_gives_the_same_rows(model: Model, tmp_path: Path) -> None:
    assert reloaded(model, tmp_path).equals(sampled(model, tmp_path))


def test_the_estimator_gives_the_words_of_the_table() -> None:
    made = TableSynthesizer("laplace", schema=SCHEMA, epsilon=50.0, unit=Unit.replace_one())
    frame = made.fit(records(1_000)).sample(500, seed=1)
    assert set(frame["again"]) <= {"No", "Yes"}
    assert frame["price"].dtype == np.float64
    assert frame["price"].isna().any()
    assert (frame["price"].dropna() == frame["price"].dropna().round(2)).all()


def test_values_follow_the_table_inside_its_bins(model: Model) -> None:
    """Real means of 70.1, 132.8 and 268 in bins whose middles, and even draws, are at 75, 150 and 600.

    Of 30,000 rows the bins have 8,200, 3,500 and 600; six deviations of their means are 1, 3 and 45, and the draw has a seed.
    """
    frame = model.sample(30_000, seed=2)
    real = records(200_000)
    for low, high, closeness in ((50.0, 100.0, 2.5), (100.0, 200.0, 6.0), (200.0, 1000.0, 90.0)):
        inside = frame["price"][(frame["price"] > low) & (frame["price"] < high)]
        wanted = real["price"][(real["price"] > low) & (real["price"] < high)]
        assert abs(inside.mean() - wanted.mean()) < closeness


def test_values_that_cannot_be_told_from_absent_ones_are_listed() -> None:
    """Ten seeds; noise of deviation 14 on counts of 0, 5, 1,995 and 2,000, intervals of 95 %.

    With probability 1 - 0.05 each the interval of 0 and of 5 holds zero: at least 12 of 20 are listed, else something else than
    noise decides (chance below 1e-9). The large ones never are: they lie 140 deviations from zero.
    """
    schema = Schema([Categorical("x", values=["none", "few", "many", "most"])])
    frame = pd.DataFrame({"x": ["few"] * 5 + ["many"] * 1_995 + ["most"] * 2_000})
    unit, budget, listed = Unit.add_remove(), PureDP(0.1), 0
    for seed in range(10):
        ledger = Ledger.in_memory(budget=budget, unit=unit, table="t")
        curator = Curator(
            read_table(frame, schema), unit=unit, ledger=ledger, randomness=SeededRandomness(seed)
        )
        model = create("laplace").fit(curator, budget)
        found = model.unresolved()
        assert set(found["value"]) <= {"none", "few"}
        assert (found["at_most"] >= 0).all()
        counts = dict(zip(schema.column("x").labels, model.marginal(("x",)), strict=True))
        assert found["expected"].tolist() == [counts[value] for value in found["value"]]
        listed += len(found)
    assert listed >= 12
