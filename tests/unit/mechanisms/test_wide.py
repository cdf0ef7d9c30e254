"""Wide tables: what is not looked at is not made, and a time limit is a number of rounds that public facts decide."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import UsageError, WorkloadError
from understudy.marginals import Workload, all_kway
from understudy.mechanisms import create
from understudy.mechanisms.allocation import MOST_BY_DEFAULT, workload_for
from understudy.mechanisms.marginal import mst
from understudy.mechanisms.marginal.aim import AIM
from understudy.mechanisms.rounds import MAX_CANDIDATE_CELLS, small_first, small_of_groups
from understudy.privacy import ApproxDP, Ledger, SeededRandomness, Unit
from understudy.schema import Clique, Domain, Schema
from understudy.workflow.synthesis import mechanism_for

UNIT, BUDGET = Unit.add_remove(), ApproxDP(1.0, 1e-6)
SMALL = Schema.parse(
    f"columns: [{', '.join(f'{{name: c{i}, kind: integer, minimum: 0, maximum: {i % 3 + 1}}}' for i in range(6))}]"
)


def domain_of(columns: int) -> Domain:
    return Domain(tuple(f"c{i}" for i in range(columns)), (2,) * columns)


def test_the_default_workload_has_no_more_marginals_than_can_be_served() -> None:
    assert workload_for(None, domain_of(85)) == all_kway(domain_of(85), 3)
    wide = workload_for(None, domain_of(86))
    assert len(wide) == 86 * 85 // 2 <= MOST_BY_DEFAULT
    asked = all_kway(domain_of(86), 1)
    assert workload_for(asked, domain_of(86)) is asked, "what is asked for stays"


def by_sorting_everything(domain: Domain, closure: list[Clique], limit: float, most: int) -> list[Clique]:
    """The rule as it is told: all sorted, then taken one by one."""
    kept: list[Clique] = []
    room = MAX_CANDIDATE_CELLS
    for clique in sorted(closure, key=lambda item: (len(item), domain.cells(item))):
        cells = domain.cells(clique)
        if cells > limit or cells > room or (len(kept) >= most and len(clique) > 1):
            continue
        kept.append(clique)
        room -= cells
    return sorted(kept, key=closure.index)


@given(
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=6),
    k=st.integers(1, 3),
    limit=st.integers(1, 10**9),
    most=st.integers(1, 60),
)
def test_candidates_are_ranked_as_if_all_had_been_sorted(
    sizes: list[int], k: int, limit: int, most: int
) -> None:
    domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), tuple(sizes))
    workload = all_kway(domain, k)
    closure = list(workload.closure())
    expected = by_sorting_everything(domain, closure, limit, most)
    assert small_of_groups(domain, workload.closure_by_size(), limit=limit, most=most) == expected
    assert small_first(domain, closure, limit=limit, most=most) == expected


def test_larger_groups_are_not_looked_at_once_there_are_enough() -> None:
    def groups():  # type: ignore[no-untyped-def]
        yield combinations(domain.names, 1)
        yield combinations(domain.names, 2)
        raise AssertionError("nobody needs the triples")

    domain = domain_of(30)
    assert len(small_of_groups(domain, groups(), limit=100, most=50)) == 50


def frame(rows: int) -> pd.DataFrame:
    generator = np.random.default_rng(3)
    base = generator.integers(0, 4, rows)
    return pd.DataFrame(
        {
            name: (base + generator.integers(0, 2, rows)) % size
            for name, size in zip(SMALL.names, SMALL.domain.sizes, strict=True)
        }
    )


@pytest.mark.parametrize("most", [1, 2, 7])
def test_rounds_are_limited_and_the_whole_budget_is_used(most: int) -> None:
    method = AIM(max_rounds=most, workload=all_kway(SMALL.domain, 2))
    with Ledger.in_memory(budget=BUDGET, unit=UNIT) as ledger:
        model = method.fit(Curator(read_table(frame(300), SMALL), unit=UNIT, ledger=ledger), BUDGET)
        assert ledger.spent == pytest.approx(ledger.total, rel=1e-6)
        assert ledger.spent <= ledger.total
    assert model.history is not None
    assert 1 <= len(model.history.rounds) <= most
    assert model.provenance.options["max_rounds"] == most
    assert "max_rounds" not in AIM().options(), "fits that an earlier version began keep their name"


def test_a_time_limit_is_a_number_of_rounds_that_the_schema_decides() -> None:
    short, long = (AIM().limited_to(seconds, SMALL).max_rounds for seconds in (10, 1000))
    assert short is not None
    assert long is not None
    assert 10 <= short < long
    assert AIM().limited_to(10, SMALL) == AIM().limited_to(10, SMALL)
    assert AIM(max_rounds=12).limited_to(1000, SMALL).max_rounds == 12
    with pytest.raises(UsageError, match="Nothing was charged"):
        AIM().limited_to(0.01, SMALL)
    with pytest.raises(UsageError, match="no rounds"):
        create("mst").limited_to(60, SMALL)
    made = mechanism_for("aim", SMALL, workload="all-2way", time_limit=60)
    assert isinstance(made, AIM)
    assert isinstance(made.workload, Workload)
    assert made.max_rounds is not None
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(WorkloadError, match="time limit"):
            mechanism_for("aim", SMALL, time_limit=wrong)


def test_a_time_limit_that_cannot_be_kept_charges_nothing(tmp_path: Path) -> None:
    from understudy.workflow import synthesize

    frame(50).to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(UsageError, match="no rounds"):
        synthesize(
            tmp_path / "table.csv",
            schema=SMALL,
            unit="add-remove",
            method="mst",
            epsilon=1.0,
            time_limit=60,
            ledger=tmp_path / "t.ledger",
        )
    assert not (tmp_path / "t.ledger").exists()


def test_pairs_that_are_counted_when_they_are_asked_for_give_the_same_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Caught: a batch that is left out, or scored against the answers of another."""
    table = read_table(frame(400), SMALL)

    def fitted() -> list[object]:
        with Ledger.in_memory(budget=BUDGET, unit=UNIT) as ledger:
            curator = Curator(table, unit=UNIT, ledger=ledger, randomness=SeededRandomness(4))
            return [
                (item.clique, item.values.tolist())
                for item in create("mst").fit(curator, BUDGET).measurements
            ]

    whole = fitted()
    asked: list[int] = []
    real = Curator.counts_many
    monkeypatch.setattr(mst, "MAX_CANDIDATE_CELLS", 20)
    monkeypatch.setattr(
        Curator,
        "counts_many",
        lambda self, cliques: asked.append(sum(map(SMALL.domain.cells, cliques))) or real(self, cliques),
    )
    assert fitted() == whole
    assert len(asked) > 4
    assert max(asked[1:-1]) <= 20, "no more cells at a time than fit"
