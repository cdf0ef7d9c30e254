"""Record types, projections and faithfulness against row-level references."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from release_brute import cells, largest_matching, marginal, rows_of

from understudy.errors import DataError, WorkloadError
from understudy.release import KAnonymity, MinimalOccurrence, NoProjection, RecordTypes, Similarity
from understudy.release.faithfulness import matched_records
from understudy.release.record_types import record_keys
from understudy.schema import Domain

DOMAIN = Domain(("sex", "age", "week"), (2, 5, 4))
TABLES = st.lists(st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.sizes)), min_size=0, max_size=25)


def types(rows: list[tuple[int, ...]]) -> RecordTypes:
    return RecordTypes.from_rows(DOMAIN, rows)


@given(TABLES)
def test_types_are_the_distinct_rows_with_their_counts(rows: list[tuple[int, ...]]) -> None:
    result = types(rows)
    assert rows_of(result) == sorted(rows)
    assert result.rows == len(rows)
    assert len(result) == len(set(rows))
    for k in (1, 2, 3):
        for clique in itertools.combinations(DOMAIN.names, k):
            counted = marginal(rows, DOMAIN, clique)
            assert [result.marginal(clique)[cell] for cell in cells(DOMAIN, clique)] == [
                counted[cell] for cell in cells(DOMAIN, clique)
            ]
    projected = result.project(("week", "sex"))
    assert projected.domain.names == ("sex", "week")
    assert rows_of(projected) == sorted((row[0], row[2]) for row in rows)


def test_a_marginal_keeps_the_order_asked_for() -> None:
    assert types([(1, 4, 2)]).marginal(("week", "sex")).shape == (4, 2)


def test_types_show_neither_records_nor_counts() -> None:
    assert repr(types([(1, 4, 2)] * 17)) == "RecordTypes(3 columns; records not shown)"


def test_types_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        types([(0, 0, 0)]).counts[0] = 5


def test_the_callers_arrays_stay_writable() -> None:
    codes, counts = np.array([[0, 0, 0]]), np.array([2])
    RecordTypes(DOMAIN, codes, counts)
    codes[0, 0] = counts[0] = 1


@pytest.mark.parametrize(
    ("codes", "counts"),
    [
        ([[0, 0, 0]], [0]),
        ([[0, 0, 0]], [-1]),
        ([[0, 5, 0]], [1]),
        ([[0, -1, 0]], [1]),
        ([[0, 0]], [1]),
        ([[0, 0, 0]], [1, 2]),
        ([[0.5, 0, 0]], [1]),
    ],
)
def test_codes_and_counts_that_make_no_sense_are_refused(codes: list[list[float]], counts: list[int]) -> None:
    with pytest.raises(DataError):
        RecordTypes(DOMAIN, codes, counts)


def test_an_empty_table_is_a_table() -> None:
    empty = types([])
    assert empty.rows == 0
    assert empty.marginal(("age",)).tolist() == [0] * 5
    assert matched_records(empty, empty, Similarity(exact=DOMAIN.names)) == 0


def test_keys_stay_comparable_beyond_64_bits() -> None:
    generator = np.random.default_rng(0)
    sizes = [1000] * 12
    left, right = generator.integers(0, 1000, (50, 12)), generator.integers(0, 1000, (50, 12))
    right[:20] = left[:20]
    keys = record_keys([left, right], sizes)
    rows = [*map(tuple, left.tolist()), *map(tuple, right.tolist())]
    flat = np.concatenate(keys)
    for i, j in itertools.combinations(range(100), 2):
        assert (rows[i] < rows[j]) == (flat[i] < flat[j])
        assert (rows[i] == rows[j]) == (flat[i] == flat[j])


# ---------------------------------------------------------------------- projection


@given(TABLES, st.integers(1, 5), st.sampled_from(["direct", "stepwise"]), st.integers(0, 3))
def test_minimal_occurrence(rows: list[tuple[int, ...]], m: int, algorithm: str, seed: int) -> None:
    before = types(rows)
    projection = MinimalOccurrence(min_count=m, algorithm=algorithm)
    generator = np.random.default_rng(seed)
    if 0 < len(rows) < m:
        with pytest.raises(DataError, match="rows"):
            projection.apply(before, generator)
        return
    after = projection.apply(before, generator)
    assert after.rows == len(rows)
    assert set(rows_of(after)) <= set(rows)
    if len(rows):
        assert after.counts.min() >= m
    old, new = Counter(rows), Counter(rows_of(after))
    common = [row for row, count in old.items() if count >= m]
    if common:
        # types that are frequent enough never lose a row; what they gain are the few missing ones
        assert all(new[row] >= old[row] for row in common)


@pytest.mark.parametrize("algorithm", ["direct", "stepwise"])
def test_algorithms_4_and_5_preserve_the_rows_of_rare_types_when_the_counts_divide(algorithm: str) -> None:
    # Proposition 11 (Algorithm 4: exactly) and 12 (Algorithm 5: in total); m = 3, so 3!/1! and 3!/2! divide
    domain = Domain(("a",), (60,))
    counts = [1] * 30 + [2] * 18 + [3] * 5 + [9] * 4
    before = RecordTypes(domain, np.arange(len(counts))[:, None], counts)
    after = MinimalOccurrence(min_count=3, algorithm=algorithm).apply(before, np.random.default_rng(1))
    new = np.zeros(60, dtype=int)
    new[after.codes[:, 0]] = after.counts
    assert after.rows == before.rows
    assert new[48:57].tolist() == [3] * 5 + [9] * 4
    assert set(new[:48]) == {0, 3}
    assert new[:48].sum() == 30 + 36
    if algorithm == "direct":
        assert (new[:30].sum(), new[30:48].sum()) == (30, 36)


@pytest.mark.parametrize("algorithm", ["direct", "stepwise"])
def test_a_rare_type_survives_in_proportion_to_its_count(algorithm: str) -> None:
    # chance k/m for a type that occurs k times. False alarms: 6 standard errors on 4000 x 30 trials, 2e-9
    domain = Domain(("a",), (40,))
    before = RecordTypes(domain, np.arange(36)[:, None], [1] * 18 + [2] * 18)
    generator = np.random.default_rng(3)
    kept = np.zeros(40)
    for _ in range(4000):
        kept[MinimalOccurrence(min_count=3, algorithm=algorithm).apply(before, generator).codes[:, 0]] += 1
    for share, wanted in ((kept[:18].mean() / 4000, 1 / 3), (kept[18:36].mean() / 4000, 2 / 3)):
        assert abs(share - wanted) < 6 * np.sqrt(2 / 9 / (4000 * 18))


def test_one_unique_row_does_not_crash_the_projection() -> None:
    # the published code drew from an empty list here
    before = types([(0, 0, 0)] * 5 + [(1, 1, 1)])
    after = MinimalOccurrence(min_count=2).apply(before, np.random.default_rng(0))
    assert rows_of(after) == [(0, 0, 0)] * 6


@pytest.mark.parametrize("m", [2, 3, 7])
def test_everything_unique(m: int) -> None:
    rows = [(a, b, c) for a in range(2) for b in range(5) for c in range(4)]
    after = MinimalOccurrence(min_count=m).apply(types(rows), np.random.default_rng(0))
    assert after.rows == 40
    assert after.counts.min() >= m
    assert len(after) == 40 // m


@given(TABLES, st.integers(1, 6), st.integers(1, 3), st.integers(0, 2))
@settings(deadline=None)
def test_k_anonymity(rows: list[tuple[int, ...]], k: int, size: int, seed: int) -> None:
    rule = KAnonymity.every(DOMAIN.names, of=size, k=k)
    before = types(rows)
    if 0 < len(rows) < k:
        with pytest.raises(DataError):
            rule.apply(before, np.random.default_rng(seed))
        return
    after = rule.apply(before, np.random.default_rng(seed))
    assert after.rows == len(rows)
    assert set(rows_of(after)) <= set(rows)
    for clique in itertools.combinations(DOMAIN.names, size):
        assert all(count >= k for count in marginal(rows_of(after), DOMAIN, clique).values())
    expected = sum(
        count < k
        for clique in itertools.combinations(DOMAIN.names, size)
        for count in marginal(rows, DOMAIN, clique).values()
    )
    assert rule.violations(before) == expected
    assert rule.violations(after) == 0


def test_k_anonymity_of_all_columns_is_minimal_occurrence() -> None:
    before = types([(0, b, c) for b in range(5) for c in range(4)] * 2)
    after = KAnonymity(k=3, column_sets=(DOMAIN.names,)).apply(before, np.random.default_rng(0))
    assert after.counts.min() >= 3


def test_a_table_that_complies_is_left_alone() -> None:
    before = types([(0, 0, 0)] * 3 + [(1, 1, 1)] * 4)
    for projection in (
        NoProjection(),
        MinimalOccurrence(min_count=3),
        MinimalOccurrence(min_count=3, algorithm="stepwise"),
        KAnonymity(k=3, column_sets=(("sex",), ("age", "week"))),
    ):
        assert projection.describe()
        assert rows_of(projection.apply(before, np.random.default_rng(0))) == rows_of(before)


def test_projections_refuse_nonsense() -> None:
    for build in (
        lambda: MinimalOccurrence(min_count=0),
        lambda: MinimalOccurrence(min_count=2, algorithm="other"),
        lambda: KAnonymity(k=0, column_sets=(("sex",),)),
        lambda: KAnonymity(k=2, column_sets=()),
        lambda: KAnonymity.every(DOMAIN.names, of=4, k=2),
    ):
        with pytest.raises(DataError):
            build()


# ---------------------------------------------------------------------- faithfulness


def similar(
    one: tuple[int, ...], other: tuple[int, ...], *, at_most: int, fixed: set[int], steps: int
) -> bool:
    """Sex exact; age within one bin, the codes in ``fixed`` exact; week within some bins; a number at once."""
    if one[0] != other[0]:
        return False
    moved = [abs(one[1] - other[1]), abs(one[2] - other[2])]
    if moved[0] > 1 or moved[1] > steps or sum(move > 0 for move in moved) > at_most:
        return False
    return not (moved[0] and ({one[1], other[1]} & fixed))


@given(TABLES, TABLES, st.integers(0, 2), st.sets(st.integers(0, 4), max_size=2), st.integers(1, 2))
@settings(deadline=None)
def test_matching_types_equals_matching_rows(
    real: list[tuple[int, ...]],
    synthetic: list[tuple[int, ...]],
    at_most: int,
    fixed: set[int],
    steps: int,
) -> None:
    rule = Similarity(
        exact=("sex",), near={"age": 1, "week": steps}, at_most=at_most, exceptions={"age": fixed}
    )
    expected = largest_matching(
        real, synthetic, lambda one, other: similar(one, other, at_most=at_most, fixed=fixed, steps=steps)
    )
    assert matched_records(types(real), types(synthetic), rule) == expected


@given(TABLES, TABLES)
@settings(deadline=None)
def test_ignored_columns_do_not_matter(real: list[tuple[int, ...]], synthetic: list[tuple[int, ...]]) -> None:
    rule = Similarity(exact=("sex",), near={"age": 1}, ignored=("week",))
    expected = largest_matching(real, synthetic, lambda a, b: a[0] == b[0] and abs(a[1] - b[1]) <= 1)
    assert matched_records(types(real), types(synthetic), rule) == expected
    assert matched_records(types(real), types(synthetic), Similarity(ignored=DOMAIN.names)) == min(
        len(real), len(synthetic)
    )


def test_identical_records_are_not_always_best_matched_to_each_other() -> None:
    # pairing the equal records (age 1) leaves both others alone: a greedy matching finds 1, the flow 2
    rule = Similarity(exact=("sex", "week"), near={"age": 1})
    assert matched_records(types([(0, 1, 0), (0, 2, 0)]), types([(0, 0, 0), (0, 1, 0)]), rule) == 2


def test_a_similarity_must_mention_every_column_once() -> None:
    table = types([(0, 0, 0)])
    for rule, words in [
        (Similarity(exact=("sex",), near={"age": 1}), "'week' is not mentioned"),
        (Similarity(exact=DOMAIN.names, near={"age": 1}), "'age' is named twice"),
        (Similarity(exact=(*DOMAIN.names, "height")), "'height'"),
        (Similarity(exact=DOMAIN.names, exceptions={"age": [0]}), "among the near columns"),
        (Similarity(exact=("sex", "week"), near={"age": 1}, exceptions={"age": [9]}), "outside the column"),
    ]:
        with pytest.raises(WorkloadError, match=words):
            matched_records(table, table, rule)
    with pytest.raises(WorkloadError):
        Similarity(near={"age": 0})
    with pytest.raises(WorkloadError):
        Similarity(at_most=-1)
