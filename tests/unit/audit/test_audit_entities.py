"""Audits of whole entities with their events: of methods that fit two levels, and of releases."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest

from understudy.audit import Effort
from understudy.audit.hunt import hunt
from understudy.audit.methods import subjects_of
from understudy.audit.observers import entity_pair
from understudy.audit.releases import Neighbours, audit_release, neighbour_frames
from understudy.mechanisms import create
from understudy.privacy import PureDP, Unit
from understudy.release.result import ReleaseResult
from understudy.release.run.run import run_release
from understudy.release.spec.spec import Spec

TEXT = """
name: audit entities
source: {table: made up}
schema:
  tables:
    - {name: people, key: who, columns: [{name: sex, kind: boolean}]}
    - {name: visits, belongs_to: people, reference: person, max_events: 3, columns: [{name: died, kind: boolean}]}
unit: {relation: add-remove, id_column: who, max_rows: 2}
synthesizers: [{method: independent}]
acceptance: {form: pass-only, criteria: [{name: rows, kind: rare-records, min_count: 1, threshold: 1}]}
selection: {rule: single}
public: {row_count: {epsilon: 1}}
budget: {total: {epsilon: 4}, model: {epsilon: 2}}
seed: 1
"""


def test_methods_that_fit_two_levels_are_attacked_by_whole_entities() -> None:
    pairs = {subject.pair for subject in subjects_of(create("independent"), PureDP(2.0))}
    assert "an entity with 10 events" in pairs
    assert "an entity with 10 events" not in {s.pair for s in subjects_of(create("laplace"), PureDP(2.0))}
    entities = [
        s for s in subjects_of(create("independent"), PureDP(2.0)) if s.pair == "an entity with 10 events"
    ]
    assert len(entities) == 2, "added and replaced"
    audits = hunt(entities, Effort(40, 40, 60, 60.0, 60.0), generator=np.random.default_rng(1))
    assert not any(audit.violates(alpha=1e-4) for audit in audits)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_attackers_know_the_records_of_an_entity(relation: Literal["add-remove", "replace-one"]) -> None:
    pair = entity_pair(relation, max_rows=3)
    one, two = pair.counts(("a",))
    assert (one - two).tolist() == ([0, 3] if relation == "add-remove" else [-3, 3])
    assert np.abs(one - two).sum() == Unit(relation, 3, "person").histogram_l1


def test_made_up_linked_tables_differ_in_one_entity() -> None:
    first, second = neighbour_frames(Spec.parse(TEXT), rows=5, generator=np.random.default_rng(0))
    assert set(first) == {"people", "visits"}
    gone = set(first["people"]["who"]) - set(second["people"]["who"])
    assert len(gone) == 1
    assert set(first["visits"]["person"]) - set(second["visits"]["person"]) == gone
    assert (first["visits"]["person"] == gone.pop()).sum() == 10, "more events than count"


def test_with_next_to_no_noise_a_release_gives_its_table_away(tmp_path: Path) -> None:
    """The attacker weighs what was measured of the event records: with so large a budget the sign tells the tables apart (false alarm below 1e-9)."""
    spec = Spec.parse(
        TEXT.replace("{epsilon: 4}", "{epsilon: 401}").replace("model: {epsilon: 2}", "model: {epsilon: 400}")
    )
    tables = neighbour_frames(spec, rows=4, generator=np.random.default_rng(0))
    known = Neighbours(spec, *tables)
    ratios = []
    for number, table in enumerate(tables):
        outcome = run_release(spec, ledger=tmp_path / f"{number}.ledger", source=table)
        assert isinstance(outcome, ReleaseResult)
        ratios.append(known.log_ratio(outcome))
    assert ratios[0] > 20
    assert ratios[1] < -20


SEVERAL = TEXT.replace(
    "unit:",
    "    - {name: claims, belongs_to: people, max_events: 4, columns: [{name: paid, kind: boolean}]}\nunit:",
).replace(
    "{name: rows, kind: rare-records, min_count: 1, threshold: 1}",
    "{name: visits, table: visits, kind: rare-records, min_count: 1, threshold: 1}, {name: claims, table: claims, kind: rare-records, min_count: 1, threshold: 1}",
)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_made_up_registers_differ_in_one_entity_with_all_its_rows_in_all_tables(relation: str) -> None:
    spec = Spec.parse(SEVERAL.replace("add-remove", relation))
    first, second = neighbour_frames(spec, rows=5, generator=np.random.default_rng(0))
    keys = {"people": "who", "visits": "person", "claims": "who"}
    assert set(first) == set(keys)
    for table, key in keys.items():
        found = [pd.DataFrame(frame[table]) for frame in (first, second)]
        others = [frame[frame[key] != 0].reset_index(drop=True) for frame in found]
        assert others[0].equals(others[1])
        assert len(others[0]) == 3
        own = [frame[table][frame[table][key] == 0] for frame in (first, second)]
        assert len(own[0]) == (1 if table == "people" else 10), "more events than count"
        assert len(own[1]) == (len(own[0]) if relation == "replace-one" else 0)
        moved = [name for name in own[0].columns if name != key]
        if relation == "replace-one":
            assert (own[0][moved].to_numpy() != own[1][moved].to_numpy()).all()
    assert (
        first["people"].set_index("who")["sex"].drop(0) != first["people"].set_index("who")["sex"][0]
    ).all()


def test_with_next_to_no_noise_a_release_of_several_tables_gives_them_away(tmp_path: Path) -> None:
    """As above; the second table alone tells it too (false alarm below 1e-9)."""
    text = SEVERAL.replace("{epsilon: 4}", "{epsilon: 801}").replace(
        "model: {epsilon: 2}", "model: {epsilon: 800}"
    )
    spec = Spec.parse(text)
    tables = neighbour_frames(spec, rows=4, generator=np.random.default_rng(0))
    known = Neighbours(spec, *tables)
    for number, (table, sign) in enumerate(zip(tables, (1, -1), strict=True)):
        outcome = run_release(spec, ledger=tmp_path / f"{number}.ledger", source=table)
        assert isinstance(outcome, ReleaseResult)
        assert sign * known.log_ratio(outcome) > 40
        assert sign * known._parts["claims"].log_ratio(outcome.parts["claims"]) > 20


def test_releases_of_several_tables_are_attacked_as_a_whole() -> None:
    audits = audit_release(Spec.parse(SEVERAL), effort=Effort(24, 24, 24, 60.0, 60.0), rows=(2, 4))
    assert {audit.pair for audit in audits} == {"one record or none", "an outlier or none, 4 rows"}
    assert not any(audit.violates(alpha=1e-9) for audit in audits)
