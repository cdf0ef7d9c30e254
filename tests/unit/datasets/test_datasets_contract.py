"""What every simulated table promises: its schema describes it, and the same seed gives it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy import datasets
from understudy.errors import DataError

NAMES = datasets.names()
SIMULATORS = {
    "births": datasets.births,
    "school_census": datasets.school_census,
    "survey": datasets.survey,
    "toy": datasets.toy,
}
SIZES = {
    "births": (12, 10, 5, 6, 2, 32),  # paper Births, Table 1
    "school_census": (326, 14, 2, 20, 19),
    "survey": (80, 8, 24, 5, 25, 18, 5, 2, 100, 8, 2),  # paper Deniability, Table 1
}


def test_every_simulator_is_registered() -> None:
    assert set(NAMES) == set(SIMULATORS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [0, 1, 2, 5000])
def test_rows_fit_the_schema(name: str, n: int) -> None:
    frame, schema = datasets.load(name, n, seed=11)
    assert frame.shape == (n, len(schema.names))
    assert tuple(frame.columns) == schema.names
    assert isinstance(frame.index, pd.RangeIndex)
    codes = schema.encode_frame(frame)
    for column, size in zip(schema.names, schema.domain.shape(), strict=True):
        assert codes[column].shape == (n,)
        assert np.issubdtype(codes[column].dtype, np.unsignedinteger)
        assert n == 0 or codes[column].max() < size


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_public_and_survives_a_file(name: str, tmp_path: Path) -> None:
    schema = datasets.load(name, 0)[1]
    schema.require_public()
    schema.write(tmp_path / "schema.yaml")
    assert type(schema).read(tmp_path / "schema.yaml").fingerprint() == schema.fingerprint()


@pytest.mark.parametrize("name", NAMES)
def test_decoded_rows_have_the_same_codes(name: str) -> None:
    frame, schema = datasets.load(name, 2_000, seed=12)
    codes = schema.encode_frame(frame)
    again = schema.encode_frame(schema.decode(codes, seed=1))
    for column in schema.names:
        assert np.array_equal(codes[column], again[column]), column


@pytest.mark.parametrize("name", sorted(SIZES))
def test_domain_has_the_sizes_of_its_paper(name: str) -> None:
    assert datasets.load(name, 0)[1].domain.shape() == SIZES[name]


def test_school_census_has_at_most_three_and_a_half_million_cells() -> None:
    assert datasets.school_census_schema().domain.cells() == 3_468_640
    assert datasets.school_census_schema(areas=1).domain.cells() == 10_640


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_do_not_depend_on_the_number_of_rows(name: str) -> None:
    many = SIMULATORS[name](500, 1)
    for n in (0, 1):
        assert SIMULATORS[name](n, 1).dtypes.equals(many.dtypes)
    for column in many.columns:
        kind = many[column].dtype
        categorical = isinstance(kind, pd.CategoricalDtype)
        assert categorical or kind in (np.dtype("int64"), np.dtype("float64")) or kind.kind == "M"


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_table(name: str) -> None:
    simulate = SIMULATORS[name]
    pd.testing.assert_frame_equal(simulate(300, 5), simulate(300, seed=5))
    assert not simulate(300, 5).equals(simulate(300, 6))


@pytest.mark.parametrize("name", NAMES)
def test_global_random_state_is_left_alone(name: str) -> None:
    state: Any = np.random.get_state
    before = state()[1].copy()
    SIMULATORS[name](50, 1)
    assert np.array_equal(before, state()[1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [-1, 1.5, 2.0, "10", None, True, float("nan")])
def test_bad_row_counts_are_refused(name: str, n: object) -> None:
    with pytest.raises(DataError, match="whole number of rows"):
        datasets.load(name, n, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [-1, 0.5, None, "1", False])
def test_bad_seeds_are_refused(name: str, bad: object) -> None:
    with pytest.raises(DataError, match="seed"):
        datasets.load(name, 10, bad)  # type: ignore[arg-type]


def test_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(DataError, match="Did you mean 'births'"):
        datasets.load("birth", 10, 0)
    with pytest.raises(DataError, match="Known: births, school_census, survey, toy"):
        datasets.load("zzz", 10, 0)


@pytest.mark.parametrize("areas", [0, 327, 2.0, True, "3"])
def test_bad_number_of_areas_is_refused(areas: object) -> None:
    with pytest.raises(DataError, match="areas"):
        datasets.school_census(10, areas=areas)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="areas"):
        datasets.school_census_schema(areas=areas)  # type: ignore[arg-type]


def test_fewer_areas_fit_the_smaller_schema() -> None:
    frame = datasets.school_census(400, 2, areas=3)
    assert set(frame["local_authority"].unique()) == {"LA001", "LA002", "LA003"}
    datasets.school_census_schema(areas=3).encode_frame(frame)


def test_numpy_integers_count_as_whole_numbers() -> None:
    counted: Any = (np.int32(7), np.uint8(3))
    pd.testing.assert_frame_equal(datasets.toy(*counted), datasets.toy(7, 3))


def test_public_names_are_listed() -> None:
    assert datasets.__all__ == sorted(datasets.__all__)
    for name in datasets.__all__:
        assert callable(getattr(datasets, name))


def test_import_does_not_load_pandas() -> None:
    code = "import sys, understudy.datasets; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
