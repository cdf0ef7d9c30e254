"""A release whose configuration space mixes families: Bayesian network, queries, graphical model, deep generator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import understudy

from understudy.datasets import load

SPEC = """
name: mixed
title: A mixed space
source: {simulate: {table: births, rows: 3000, seed: 1}}
schema: SCHEMA
unit: replace-one
public: {row_count: declared}
synthesizers:
  - {method: privbayes}
  - {method: mwem, options: {num_query: 50, num_iterations: 5}}
  - {method: aim, options: {workload: all-2way, max_model_mb: 8}}
  - {method: dpctgan, options: {epochs: 1, batch_size: 100, embedding_dim: 4, generator_dim: [8], discriminator_dim: [8]}}
acceptance:
  form: pass-only
  epsilon: 1
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.9}]
selection: {rule: single}
budget: {total: {epsilon: 12, delta: 1.1e-6}, model: {epsilon: 3, delta: 1.0e-6}}
"""
METHODS = {"privbayes", "mwem", "aim", "dpctgan"}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    pytest.importorskip("torch", reason="dpctgan needs PyTorch (pip install 'understudy[deep]')")
    load("births", 10, seed=1)[1].write(tmp_path / "schema.yaml")
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC.replace("SCHEMA", "schema.yaml"))
    return path


def test_every_family_can_be_drawn(spec: Path) -> None:
    planned = understudy("plan", spec)
    assert planned.code == 0, planned.err
    assert "4 configurations, 0 left out" in planned.out
    assert all(name in planned.out for name in METHODS)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_whichever_is_drawn_becomes_a_bundle(name: str, spec: Path, tmp_path: Path) -> None:
    """One family at a time: a draw cannot be forced, by design. The threshold is met by any rows at all."""
    kept = [
        line
        for line in spec.read_text().splitlines()
        if "{method:" not in line or f"{{method: {name}" in line
    ]
    spec.write_text("\n".join(kept))
    made = understudy(
        "release", spec, "--ledger", tmp_path / "t.ledger", "--out", tmp_path / "bundle", "--quiet"
    )
    assert made.code == 0, made.err
    told = json.loads((tmp_path / "bundle" / "configuration.json").read_text())
    assert told["name"].startswith(name)
    assert understudy("verify", tmp_path / "bundle").code == 0
