"""Scores of SDMetrics and SDNist by our own code, beside those of the tools themselves on the same tables."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.evaluation import Comparison
from understudy.evaluation.other_tools import other_scores
from understudy.schema import Schema

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def golden() -> tuple[Any, dict[str, Any]]:
    place = importlib.util.spec_from_file_location("golden_other_tools", GOLDEN / "other_tools.py")
    assert place is not None
    assert place.loader is not None
    made = importlib.util.module_from_spec(place)
    place.loader.exec_module(made)
    return made, json.loads((GOLDEN / "other_tools.json").read_text(encoding="utf-8"))


def part(schema: Schema, names: list[str]) -> Schema:
    return Schema(columns=tuple(schema.column(name) for name in names))


def test_sdmetrics_says_the_same(golden: tuple[Any, dict[str, Any]]) -> None:
    made, kept = golden
    real, synthetic = made.tables()
    schema = Schema.parse(made.SCHEMA)
    found = other_scores(Comparison.of_frames(schema, real, synthetic))
    told = kept["sdmetrics"]
    assert found.column_shapes == pytest.approx(told["column_shapes"], abs=1e-9)
    assert found.pair_trends == pytest.approx(told["column_pair_trends"], abs=1e-9)
    assert found.quality == pytest.approx(told["quality"], abs=1e-9)
    assert found.from_bins == ()
    for name, score in told["columns"].items():
        alone = part(schema, [name])
        one = other_scores(Comparison.of_frames(alone, real[[name]], synthetic[[name]]))
        assert one.column_shapes == pytest.approx(score, abs=1e-9), name
        assert one.pair_trends is None
        assert one.quality == one.column_shapes


def test_every_pair_that_sdmetrics_scores_is_scored_alike(golden: tuple[Any, dict[str, Any]]) -> None:
    made, kept = golden
    real, synthetic = made.tables()
    schema = Schema.parse(made.SCHEMA)
    scored = 0
    for names, score in kept["sdmetrics"]["pairs"].items():
        columns = names.split()
        found = other_scores(
            Comparison.of_frames(part(schema, columns), real[columns], synthetic[columns])
        ).pair_trends
        if score is None:
            assert found is None, names
        else:
            scored += 1
            assert found == pytest.approx(score, abs=1e-9), names
    assert scored >= 3


def test_sdnist_says_the_same(golden: tuple[Any, dict[str, Any]]) -> None:
    made, kept = golden
    real, synthetic = made.tables()
    columns = kept["sdnist"]["columns"]
    schema = part(Schema.parse(made.SCHEMA), columns)
    found = other_scores(Comparison.of_frames(schema, real[columns], synthetic[columns]))
    assert found.k_marginal == pytest.approx(kept["sdnist"]["k_marginal"], abs=1e-6)


def test_the_installed_sdmetrics_still_says_what_the_kept_numbers_say(
    golden: tuple[Any, dict[str, Any]],
) -> None:
    sdmetrics = pytest.importorskip("sdmetrics", reason="sdmetrics is not installed; its numbers are kept")
    made, kept = golden
    if sdmetrics.__version__ != kept["sdmetrics"]["version"]:
        pytest.skip(f"the kept numbers are those of sdmetrics {kept['sdmetrics']['version']}")
    found = made._sdmetrics(*made.tables())
    for name in ("column_shapes", "column_pair_trends", "quality"):
        assert found[name] == pytest.approx(kept["sdmetrics"][name], abs=1e-9)


def test_numbers_known_by_their_bins_alone_are_named(golden: tuple[Any, dict[str, Any]]) -> None:
    made, _ = golden
    real, synthetic = made.tables()
    schema = Schema.parse(made.SCHEMA)
    coded = Comparison(schema, schema.encode_frame(real), schema.encode_frame(synthetic))
    assert other_scores(coded).from_bins == ("age", "income", "visits", "admitted")


def test_equal_tables_have_the_best_scores_and_constants_do_no_harm() -> None:
    schema = Schema.parse(
        "columns: [{name: a, kind: integer, minimum: 0, maximum: 9}, {name: b, kind: integer, minimum: 0, maximum: 9}, {name: c, kind: boolean}]"
    )
    frame = pd.DataFrame({"a": [3] * 40, "b": np.arange(40) % 10, "c": np.arange(40) % 10 > 4})
    found = other_scores(Comparison.of_frames(schema, frame, frame))
    assert (found.column_shapes, found.pair_trends, found.k_marginal) == (1.0, 1.0, 1000.0)
