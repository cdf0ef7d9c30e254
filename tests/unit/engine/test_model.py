"""Models: immutable, and the same after a trip through plain arrays."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
from engine_cases import every_clique, joint_table, models, problems
from hypothesis import given

from understudy.engine import GraphicalModel, distribution_from_arrays, estimate, model_size
from understudy.errors import ModelFileError
from understudy.marginals import Measurement
from understudy.schema import Domain

AB = Domain(("a", "b"), (2, 3))


@given(models(max_columns=4))
def test_arrays_and_json_hold_the_whole_model(case):
    domain, potentials = case
    if joint_table(domain, potentials, 9.0) is None:
        return
    model = GraphicalModel(domain, 9.0, potentials)
    meta, arrays = model.to_arrays()
    again = distribution_from_arrays(model.kind, domain, json.loads(json.dumps(meta)), arrays)
    for clique in every_clique(domain):
        np.testing.assert_array_equal(again.marginals([clique])[0], model.marginal(clique))


@given(problems())
def test_an_estimated_model_survives_the_trip(case):
    domain, measurements = case
    model = estimate(domain, measurements, total=200.0)
    meta, arrays = model.to_arrays()
    again = GraphicalModel.from_arrays(domain, meta, arrays)
    assert again.info == model.info
    for clique in every_clique(domain):
        np.testing.assert_allclose(again.marginal(clique), model.marginal(clique), rtol=1e-6, atol=1e-6)


def test_models_cannot_be_changed():
    model = estimate(AB, [Measurement(("a", "b"), np.ones((2, 3)), "gaussian", 1.0)])
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.total = 3.0
    with pytest.raises(ValueError, match="read-only"):
        model.potentials[0][1][0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.tables[0][0, 0] = 1.0
    model.marginal(("a", "b"))[0, 0] = 99.0  # an answer is the caller's own
    assert model.marginal(("a", "b"))[0, 0] == pytest.approx(1.0, abs=0.01)


def test_the_size_is_that_of_the_tree():
    model = estimate(AB, [Measurement(("a", "b"), np.ones((2, 3)), "gaussian", 1.0)])
    assert model.size_mb == model_size(AB, [("a", "b")]) == 6 * 8 / 2**20
    assert model.cliques == (("a", "b"),)
    assert model.kind == "junction-tree"


@pytest.mark.parametrize(
    "damage",
    [
        lambda meta, arrays: meta.update(format=99),
        lambda meta, arrays: meta.pop("total"),
        lambda meta, arrays: meta.pop("fit"),
        lambda meta, arrays: arrays.pop("potential-0"),
        lambda meta, arrays: arrays.update({"potential-0": np.ones(5)}),
        lambda meta, arrays: arrays.update({"potential-0": np.full((2, 3), np.nan)}),
        lambda meta, arrays: meta.update(potentials=[["nowhere"]]),
        lambda meta, arrays: meta.update(total=-1.0),
    ],
)
def test_damaged_files_are_refused(damage):
    model = GraphicalModel(AB, 3.0, ((("a", "b"), np.zeros((2, 3))),))
    meta, arrays = model.to_arrays()
    damage(meta, arrays)
    with pytest.raises(ModelFileError):
        GraphicalModel.from_arrays(AB, meta, arrays)


def test_importing_the_engine_does_not_load_numba():
    code = "import sys, understudy.engine; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
