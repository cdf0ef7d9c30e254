"""Two levels compared: each measure sees its own kind of difference and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy import evaluate
from understudy.data.output import write_tables
from understudy.datasets import (
    patient_register,
    patient_register_schema,
    patient_stays,
    patient_stays_schema,
)
from understudy.errors import DataError, UsageError, WorkloadError
from understudy.evaluation.levels import NUMBER, STEPS, WITH_ENTITY

SCHEMA = patient_register_schema()


@pytest.fixture(scope="module")
def register() -> dict[str, pd.DataFrame]:
    return patient_register(1_500, seed=1)


def compared(
    real: Any, synthetic: Any, schema: Any = SCHEMA, sections: Any = ("entities",), **options: Any
) -> Any:
    return evaluate(real, synthetic, schema=schema, sections=list(sections), **options)


def test_the_same_tables_in_another_order_with_other_keys_are_no_distance_apart(register: Any) -> None:
    other = {
        name: frame.assign(patient=frame["patient"].map(lambda key: f"p{key}")).sample(frac=1, random_state=0)
        for name, frame in register.items()
    }
    # stays of one day have no order of their own
    once = ~register["stays"].duplicated(["patient", "admitted"], keep=False)
    real = register | {"stays": register["stays"][once]}
    other["stays"] = other["stays"][once.reindex(other["stays"].index)]
    found = compared(real, other, sections=("entities", "marginals"))
    for result in found.sections[-1].results:
        assert result.worst[1] == 0.0, result.measure
    assert {"number of events", "entities and events", "successive events"} <= {
        score.section for score in found.scores
    }
    assert found.score("columns").value == 0.0


def test_each_difference_shows_where_it_is(register: Any) -> None:
    stays = register["stays"]
    rng = np.random.default_rng(0)
    # events dealt out to other entities: how many each has stays, what they are does not
    dealt = register | {
        "stays": stays.assign(
            **stays.drop(columns="patient").sample(frac=1, random_state=1).reset_index(drop=True)
        )
    }
    found = compared(register, dealt)
    assert found.result(NUMBER).mean == 0.0
    assert found.result(WITH_ENTITY).mean > 0.05
    assert found.result(STEPS).values["diagnosis_before × diagnosis"] > 0.2
    assert (
        found.result("difference of the bond of a column of entities and one of events").values[
            "age_group × diagnosis"
        ]
        > 0.1
    )
    # one event each: the number changes
    one = register | {"stays": stays.drop_duplicates("patient")}
    found = compared(register, one)
    assert found.result(NUMBER).mean > 0.05
    assert found.result("difference of the mean number of events").mean > 0.1
    assert found.result("distance of a column of entities").mean == 0.0
    assert not any(
        result.measure == STEPS for result in found.sections[0].results
    )  # nothing follows anything
    # entities without events left out
    seen = register["patients"]["patient"].isin(stays["patient"])
    found = compared(register, register | {"patients": register["patients"][seen]})
    assert found.result(NUMBER).mean == pytest.approx(1 - seen.mean(), abs=1e-9)
    assert found.result("distance of a column of events and the number of events").mean == 0.0
    # keys that lead nowhere
    lost = stays.assign(patient=np.where(rng.random(len(stays)) < 0.25, -1, stays["patient"]))
    found = compared(register, register | {"stays": lost})
    share = found.result("share of events without their entity").values
    assert share["real"] == 0.0
    assert share["synthetic"] == pytest.approx((lost["patient"] == -1).mean())


def test_one_table_with_ids_is_compared_at_both_levels() -> None:
    stays, schema = patient_stays(800, seed=2), patient_stays_schema()
    cut = stays.groupby("patient").head(1)
    found = compared(stays, cut, schema)
    assert found.result(NUMBER).mean > 0.1
    assert found.result("share of events without their entity").worst[1] == 0.0
    rows = stays.drop(columns="patient")
    with pytest.raises(WorkloadError, match="both tables have the ids"):
        compared(stays, rows, schema)
    assert "entities" not in {
        item.title for item in compared(stays, rows, schema, sections=("marginals",)).sections
    }


def test_folders_databases_and_refusals(register: Any, tmp_path: Any) -> None:
    for name, frame in register.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    write_tables(register, f"{tmp_path}/made.parquet/")
    write_tables(register, f"{tmp_path}/made.duckdb")
    for place in (tmp_path, tmp_path / "made.parquet", tmp_path / "made.duckdb"):
        assert compared(register, place).result(NUMBER).mean == 0.0
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no file for the table 'patients'"):
        compared(register, tmp_path / "empty")
    with pytest.raises(DataError, match="no DuckDB file"):
        compared(register, tmp_path / "other.duckdb")
    with pytest.raises(DataError, match="by name"):
        compared(register, register["stays"])
    with pytest.raises(UsageError, match="Linked tables have headers"):
        compared(register, register, hold_out=register["stays"])
