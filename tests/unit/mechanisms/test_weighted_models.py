"""What models say about a population: weighted totals, synthetic weights, and rows that need none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import UsageError, WorkloadError
from understudy.mechanisms import Model
from understudy.mechanisms.model import systematic
from understudy.privacy import Unit
from understudy.schema import Schema
from understudy.workflow import synthesize

SCHEMA = Schema.parse(
    """
columns:
  - {name: area, kind: categorical, values: [home, abroad]}
  - {name: works, kind: boolean}
weight: {column: w, cap: 20, lowest: 1}
"""
)


def sample(rows: int = 4_000) -> pd.DataFrame:
    """People abroad are half of the rows and a tenth of the population."""
    rng = np.random.default_rng(3)
    abroad = rng.random(rows) < 0.5
    weight = np.where(abroad, rng.uniform(1, 2, rows), rng.uniform(9, 18, rows))
    return pd.DataFrame(
        {
            "area": np.where(abroad, "abroad", "home"),
            "works": rng.random(rows) < np.where(abroad, 0.3, 0.8),
            "w": weight,
        }
    )


def fitted(method: str = "gaussian", **more) -> Model:
    return synthesize(
        sample(), schema=SCHEMA, unit="add-remove", method=method, epsilon=50.0, ledger="memory", **more
    ).model


@pytest.fixture(scope="module")
def model() -> Model:
    return fitted()


def shares(frame: pd.DataFrame, weights: np.ndarray) -> pd.Series:
    sums = pd.Series(weights).groupby(frame["area"].astype(str).to_numpy()).sum()
    return sums / sums.sum()


def test_weighted_totals_are_those_of_the_population(model):
    """At epsilon 50 the bins of the weight are all that is lost; a sum of rows or of bin ends would be far off."""
    real = sample()
    assert model.weighted() == pytest.approx(real["w"].sum(), rel=0.06)
    both = model.weighted(("works", "area"))  # axes in the order of the schema
    for code, area in enumerate(("home", "abroad")):
        for works in (False, True):
            truth = real.loc[(real["area"] == area) & (real["works"] == works), "w"].sum()
            assert both[code, int(works)] == pytest.approx(truth, rel=0.08)


def test_synthetic_weights_reproduce_weighted_totals(model):
    drawn = model.sample(seed=1)
    assert drawn["w"].between(0, 20).all()
    assert drawn["w"].sum() == pytest.approx(sample()["w"].sum(), rel=0.06)
    assert shares(drawn, drawn["w"].to_numpy())["abroad"] == pytest.approx(
        shares(sample(), sample()["w"].to_numpy())["abroad"], abs=0.01
    )


def test_a_population_needs_no_weights(model):
    people = model.population(5_000, seed=1)
    assert list(people.columns) == ["area", "works"]
    assert len(people) == 5_000
    truth = shares(sample(), sample()["w"].to_numpy())["abroad"]
    assert truth < 0.12  # half of the rows
    assert (people["area"] == "abroad").mean() == pytest.approx(truth, abs=0.01)
    pd.testing.assert_frame_equal(people, model.population(5_000, seed=1))
    assert len(model.population(0)) == 0
    assert len(model.population()) == model.default_rows()


@pytest.mark.parametrize("method", ["independent", "mst", "aim", "mwem-pgm", "privbayes", "rap"])
def test_methods_of_every_kind_take_weights(method):
    made = synthesize(
        sample(500),
        schema=SCHEMA,
        unit="replace-one",
        method=method,
        epsilon=2.0,
        delta=1e-6 if method in ("rap", "privsyn") else None,
        ledger="memory",
        seed=1,
    )
    assert list(made.frame.columns) == ["area", "works", "w"]
    assert made.model.weighted() > 500  # mean weights are far above one


@given(
    weights=st.lists(st.floats(0, 20), min_size=0, max_size=60),
    wanted=st.integers(1, 40),
    seed=st.integers(0, 1000),
)
def test_no_row_is_chosen_twice_and_rows_without_weight_never(weights, wanted, seed):
    given_weights = np.array(weights, np.float64)
    chosen = systematic(given_weights, wanted, 20.0, np.random.default_rng(seed))
    assert len(chosen) <= wanted
    assert len(set(chosen.tolist())) == len(chosen)
    assert (given_weights[chosen] > 0).all()
    if given_weights.sum() >= 20.0 * wanted * (1 + 1e-9):
        assert len(chosen) == wanted


def test_rows_are_chosen_in_proportion_to_their_weights():
    """Each of 4,000 seeded draws takes one of three rows; a count is off by more than 4.5 deviations with probability 1e-5. Equal shares would be 30 off."""
    weights = np.array([1.0, 3.0, 6.0])
    counts = np.zeros(3)
    for seed in range(4_000):
        counts[systematic(weights, 1, 6.0, np.random.default_rng(seed))] += 1
    expected = 400 * weights
    assert (np.abs(counts - expected) < 4.5 * np.sqrt(expected * (1 - weights / 10))).all()


def test_models_keep_their_weight_in_files(model, tmp_path):
    model.save(tmp_path / "m.understudy")
    again = Model.load(tmp_path / "m.understudy")
    assert again.schema.weight == SCHEMA.weight
    np.testing.assert_allclose(again.weighted(("area",)), model.weighted(("area",)))


def test_what_has_no_weight_or_whole_people_has_no_population():
    plain = SCHEMA.select(["area", "works"])
    without = synthesize(
        sample(200), schema=plain, unit="add-remove", method="independent", epsilon=1.0, ledger="memory"
    )
    with pytest.raises(WorkloadError, match="declares no survey weight"):
        without.model.population(5)
    with pytest.raises(WorkloadError, match="declares no survey weight"):
        without.model.weighted(("area",))
    with pytest.raises(UsageError, match="the schema declares none"):
        synthesize(
            sample(200), schema=plain, unit="add-remove", population=True, epsilon=1.0, ledger="memory"
        )
    person = Unit.add_remove_person("who", max_rows=2)
    rows = sample(200).assign(who=np.arange(200) // 2)
    with pytest.raises(UsageError, match="people with several rows"):
        synthesize(rows, schema=SCHEMA, unit=person, population=True, epsilon=1.0, ledger="memory")


def test_the_weight_is_no_column_of_its_own_totals(model):
    with pytest.raises(WorkloadError, match="is the weight"):
        model.weighted(("w",))


def test_a_cap_far_above_all_weights_is_refused_when_a_population_is_drawn():
    far = Schema.parse(
        "columns: [{name: area, kind: categorical, values: [home, abroad]}]\nweight: {column: w, cap: 1000000, lowest: 1}"
    )
    made = synthesize(
        sample(500), schema=far, unit="add-remove", method="independent", epsilon=50.0, ledger="memory"
    )
    with pytest.raises(WorkloadError, match="smaller cap"):
        made.model.population(10)


CLUSTERS = Schema.parse(
    """
columns:
  - {name: stratum, kind: categorical, values: [north, middle, south]}
  - {name: works, kind: boolean}
weight: {column: w, cap: 20, lowest: 1}
entity: {id: household, fixed: [stratum, w], max_events: 4}
"""
)


def clustered(households: int = 2_000) -> pd.DataFrame:
    """Households drawn from strata with chances of their own: all members have the weight of their household."""
    rng = np.random.default_rng(6)
    stratum = rng.choice(3, households, p=[0.5, 0.3, 0.2])
    weight = np.array([1.5, 5.0, 16.0])[stratum] * rng.uniform(0.9, 1.1, households)
    who = np.repeat(np.arange(households), rng.integers(1, 5, households))
    return pd.DataFrame(
        {
            "household": who,
            "stratum": np.array(["north", "middle", "south"])[stratum[who]],
            "works": rng.random(len(who)) < np.array([0.3, 0.5, 0.9])[stratum[who]],
            "w": weight[who],
        }
    )


def of_strata(frame: pd.DataFrame) -> tuple[pd.Series, pd.Series, float]:
    """Return the weighted shares of strata, the weighted share at work in each, and that of all."""
    sums = frame.groupby("stratum", observed=True)["w"].sum()
    at_work = (frame["works"].astype(bool) * frame["w"]).groupby(frame["stratum"], observed=True).sum()
    return sums / sums.sum(), at_work / sums, float(at_work.sum() / sums.sum())


def test_a_cluster_with_all_its_members_is_the_unit_and_strata_come_out():
    """Unweighted, the share at work is .47 and not .69; a household that was drawn apart from its weight would mix strata."""
    real = clustered()
    unit = Unit.add_remove_person("household", max_rows=4)
    made = synthesize(
        real, schema=CLUSTERS, unit=unit, epsilon=50.0, delta=1e-6, method="aim", ledger="memory", seed=1
    )
    frame = made.frame
    assert frame.groupby("household")[["stratum", "w"]].nunique().max().max() == 1
    sizes = frame.groupby("household").size().value_counts(normalize=True)
    assert sizes.reindex(range(1, 5), fill_value=0.0).to_numpy() == pytest.approx(0.25, abs=0.03)
    for made_of, real_of in zip(of_strata(frame), of_strata(real), strict=True):
        assert np.abs(np.asarray(made_of - real_of)).max() < 0.04
    assert abs(real["works"].mean() - of_strata(real)[2]) > 0.15
    flat = synthesize(
        real, schema=CLUSTERS, unit=unit, epsilon=50.0, delta=1e-6, method="mst", flat=True, ledger="memory"
    ).model.population(20_000, seed=1)
    assert flat["works"].mean() == pytest.approx(of_strata(real)[2], abs=0.04)
