"""``understudy warm``: everything is compiled in advance, and it says where it is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import understudy

from understudy.mechanisms import base


def test_warm_tries_a_method_in_every_way_and_says_where_its_kernels_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "_tried", set())
    done = understudy("warm", "independent", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["methods"] == ["independent"]
    assert said["files"] > 0
    assert said["bytes"] > 0
    assert Path(said["folder"]).is_dir()
    ways = {(kind.__name__, width, accounting) for _, kind, width, accounting, _ in base._tried}
    assert {kind for kind, _, _ in ways} == {"PureDP", "ApproxDP", "ZCDP", "GDP"}
    assert {width for _, width, _ in ways} == {1, 2, 4}
    assert {accounting for kind, _, accounting in ways if kind == "ApproxDP"} >= {"pure"}
    text = understudy("warm", "independent")
    assert "kept below" in text.out


def test_warm_refuses_what_it_does_not_know_and_where_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert understudy("warm", "amm").code == 4
    monkeypatch.setattr("understudy._compile.kept_at", lambda: ())
    refused = understudy("warm", "independent")
    assert refused.code == 6
    assert "NUMBA_CACHE_DIR" in refused.err
