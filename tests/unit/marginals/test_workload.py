from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import WorkloadError
from understudy.marginals import (
    Workload,
    all_kway,
    downward_closure,
    marginal_errors,
    parse_workload,
    read_workload,
    skewed,
    target,
    workload_error,
)
from understudy.schema import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))


def test_all_kway_counts() -> None:
    assert len(all_kway(DOMAIN, 3)) == 4
    assert all_kway(DOMAIN, 9).cliques == (DOMAIN.names,)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9])
def test_all_kway_is_the_list_and_its_closure_all_subsets(k: int) -> None:
    made, listed = all_kway(DOMAIN, k), Workload.uniform(DOMAIN, combinations(DOMAIN.names, min(k, 4)))
    assert made == listed
    assert made.closure() == downward_closure(DOMAIN, listed.cliques)
    assert made.closure_weights() == listed.closure_weights()
    mixed = Workload.uniform(DOMAIN, [("a",), ("b",), ("c",), ("a", "b")])  # as many as there are columns
    assert mixed.closure() == downward_closure(DOMAIN, mixed.cliques)


def test_target_contains_its_column() -> None:
    workload = target(DOMAIN, "c")
    assert len(workload) == 3
    assert all("c" in clique for clique in workload.cliques)


def test_skewed_is_repeatable_and_keeps_multiplicity() -> None:
    workload = skewed(DOMAIN, draws=50, seed=3)
    assert workload == skewed(DOMAIN, draws=50, seed=3)
    assert sum(workload.weights) == pytest.approx(len(workload))
    assert len(workload) <= 4


def test_the_error_of_a_list_is_the_average_over_all_its_queries() -> None:
    """Definition 2 over 256 draws, query by query: repeated ones are not counted as one."""
    workload = skewed(DOMAIN, draws=256, seed=1)
    drawn = [clique for clique, weight in workload for _ in range(round(weight * 256 / len(workload)))]
    assert len(drawn) == 256
    generator = np.random.default_rng(2)
    real, made = ({c: generator.integers(0, 9, DOMAIN.shape(c)) for c in workload.cliques} for _ in range(2))
    one_by_one = sum(np.abs(real[clique] - made[clique]).sum() for clique in drawn) / (256 * 40)
    merged = workload_error(workload, list(real.values()), list(made.values()), n_rows=40)
    assert merged == pytest.approx(one_by_one)
    again = Workload.from_plain(DOMAIN, [list(clique) for clique in drawn])
    assert dict(again) == pytest.approx(dict(workload))
    assert dict(Workload.from_plain(DOMAIN, workload.to_plain())) == pytest.approx(dict(workload))


@given(st.sets(st.frozensets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=6))
def test_closure_is_every_subset(cliques: set[frozenset[str]]) -> None:
    canonical = [DOMAIN.canonical(clique) for clique in cliques]
    closure = downward_closure(DOMAIN, canonical)
    brute = {
        sub for clique in canonical for k in range(1, len(clique) + 1) for sub in combinations(clique, k)
    }
    assert set(closure) == brute
    assert len(closure) == len(brute)
    assert [len(clique) for clique in closure] == sorted(len(clique) for clique in closure)


def test_closure_weights_follow_the_paper() -> None:
    workload = Workload(DOMAIN, (("a", "b"), ("b", "c", "d")), (2.0, 0.5))
    weights = workload.closure_weights()
    assert weights[("b",)] == 2.0 + 0.5
    assert weights[("a", "b")] == 2.0 * 2 + 0.5 * 1
    assert weights[("c", "d")] == 0.5 * 2


def test_workload_error_is_definition_2() -> None:
    generator = np.random.default_rng(0)
    workload = Workload(DOMAIN, (("a", "b"), ("c",)), (1.0, 3.0))
    real = [generator.integers(0, 9, (2, 3)), generator.integers(0, 9, 4)]
    made = [generator.integers(0, 9, (2, 3)), generator.integers(0, 9, 4)]
    n = int(real[0].sum())
    expected = (np.abs(real[0] - made[0]).sum() + 3 * np.abs(real[1] - made[1]).sum()) / (2 * n)
    assert workload_error(workload, real, made, n_rows=n) == pytest.approx(expected)
    squared = marginal_errors(real, made, n_rows=n, norm="l2")
    assert squared[1] == pytest.approx(np.linalg.norm(real[1] - made[1]) / n)
    assert marginal_errors(real, made, n_rows=n, norm="max")[1] == np.abs(real[1] - made[1]).max() / n


@pytest.mark.parametrize(
    ("text", "cliques"),
    [("all-1way", 4), ("all-2way", 6), ("target:a:2", 3), ("target:b", 3), ("skewed:5", None)],
)
def test_parse_words(text: str, cliques: int | None) -> None:
    workload = parse_workload(DOMAIN, text)
    assert cliques is None or len(workload) == cliques


@pytest.mark.parametrize("text", ["all-xway", "target:nope", "target:a:x", "skewed:x", "nothing", "all-0way"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(WorkloadError):
        parse_workload(DOMAIN, text)


def test_a_file_is_read_as_schemas_are(tmp_path: Path) -> None:
    """``on`` and ``no`` are columns, not truth values; a repeated key is refused."""
    domain = Domain.of({"on": 2, "no": 3})
    (tmp_path / "w.yaml").write_text("- [on, no]\n- {columns: [no], weight: 2}\n", encoding="utf-8")
    assert set(dict(read_workload(domain, tmp_path / "w.yaml"))) == {("on", "no"), ("no",)}
    (tmp_path / "w.yaml").write_text("- {columns: [no], weight: 2, weight: 3}\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match="twice"):
        read_workload(domain, tmp_path / "w.yaml")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("- [a, b]\n- {columns: [c, a], weight: 2}\n- [b, a]\n", encoding="utf-8")
    workload = read_workload(DOMAIN, path)
    assert dict(workload) == pytest.approx(
        {("a", "b"): 4 / 3, ("a", "c"): 4 / 3}
    )  # three queries, two distinct
    for bad in (
        "",
        "3",
        "- {columns: a}",
        "- [a, a]",
        "- [z]",
        "- {columns: [a], weight: x}",
        "[",
        "- [a]: 1\n  x",
    ):
        path.write_text(bad, encoding="utf-8")
        with pytest.raises(WorkloadError):
            read_workload(DOMAIN, path)
    with pytest.raises(WorkloadError, match="cannot be read"):
        read_workload(DOMAIN, tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("cliques", "weights"),
    [((), ()), ((("a",),), (1.0, 2.0)), ((("a",),), (-1.0,)), ((("a",),), (float("nan"),)), ((("a",),), (0.0,)),
     ((("a",), ("a",)), (1.0, 1.0))],
)  # fmt: skip
def test_workloads_that_make_no_sense(
    cliques: tuple[tuple[str, ...], ...], weights: tuple[float, ...]
) -> None:
    with pytest.raises(WorkloadError):
        Workload(DOMAIN, cliques, weights)


def test_domain_refuses() -> None:
    for names, sizes in ((("a", "a"), (1, 2)), (("a",), (0,)), (("a",), (1, 2))):
        with pytest.raises(WorkloadError):
            Domain(names, sizes)
    with pytest.raises(WorkloadError, match="Known columns"):
        DOMAIN.index("zz")


@given(st.integers(1, 5), st.data())
def test_a_closure_comes_by_size_whether_or_not_every_marginal_is_asked_for(
    k: int, data: st.DataObject
) -> None:
    every = all_kway(DOMAIN, k)
    chosen = data.draw(st.lists(st.sampled_from(every.cliques), min_size=1, unique=True))
    for workload in (every, Workload.uniform(DOMAIN, chosen)):
        groups = [list(group) for group in workload.closure_by_size()]
        flat = tuple(clique for group in groups for clique in group)
        assert flat == workload.closure() == downward_closure(DOMAIN, workload.cliques)
        assert workload.closure_size == len(flat)
        assert [len(group[0]) for group in groups] == list(range(1, len(groups) + 1))
        some = flat[::2]
        assert workload.closure_weights(some) == {
            clique: workload.closure_weights()[clique] for clique in some
        }


def test_all_marginals_are_the_workload_that_listing_them_makes() -> None:
    for k in (1, 2, 3, 4):
        listed = Workload.uniform(DOMAIN, combinations(DOMAIN.names, k))
        assert all_kway(DOMAIN, k) == listed
        assert hash(all_kway(DOMAIN, k)) == hash(listed)
