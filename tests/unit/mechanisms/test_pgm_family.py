"""mst, mwem-pgm, gaussian and hdmm-pgm: what they measure, what they choose, what they refuse."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.engine import model_size
from understudy.errors import BudgetError, DomainTooLarge
from understudy.marginals import Workload, all_kway
from understudy.mechanisms import Model, Synthesizer, create
from understudy.mechanisms.allocation import ResidualParts, best_design, direct_weights
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
from understudy.schema import Clique, Domain, Integer, Schema

FAMILY = ("mst", "mwem-pgm", "gaussian", "hdmm-pgm")
DOMAINS = [(2, 3), (2, 2, 3), (4, 1, 2), (3, 2, 2, 2)]


def domain_of(sizes: tuple[int, ...]) -> Domain:
    return Domain(tuple("abcdefgh"[: len(sizes)]), sizes)


def schema_of(domain: Domain, row_count: int | None = None) -> Schema:
    columns = tuple(
        Integer(name, minimum=0, maximum=size - 1)
        for name, size in zip(domain.names, domain.sizes, strict=True)
    )
    return Schema(columns=columns, row_count=row_count)


def fit(
    method: Synthesizer, codes: np.ndarray, domain: Domain, budget: Budget, unit: Unit | None = None
) -> Model:
    unit = unit or Unit.add_remove()
    table = LocalTable(
        schema_of(domain),
        {name: codes[:, i].astype(np.uint8) for i, name in enumerate(domain.names)},
    )
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="test")
    return method.fit(Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(3)), budget)


def query(domain: Domain, clique: Clique) -> np.ndarray:
    """The matrix that sums the full table down to one marginal."""
    cells = list(product(*(range(size) for size in domain.sizes)))
    keep = [domain.index(name) for name in clique]
    targets = list(product(*(range(domain.sizes[i]) for i in keep)))
    matrix = np.zeros((len(targets), len(cells)))
    for column, cell in enumerate(cells):
        matrix[targets.index(tuple(cell[i] for i in keep)), column] = 1.0
    return matrix


def brute_variances(
    domain: Domain, measured: list[Clique], w: np.ndarray, wanted: tuple[Clique, ...], *, total_known: bool
) -> list[float]:
    """Variance per cell of generalised least squares, from the whole information matrix."""
    information = sum(
        precision * query(domain, clique).T @ query(domain, clique)
        for clique, precision in zip(measured, w, strict=True)
    )
    if total_known:  # tables may differ only in directions that leave the total alone
        ones = np.ones((domain.cells(), 1)) / np.sqrt(domain.cells())
        aside = np.eye(domain.cells()) - ones @ ones.T
        covariance = np.linalg.pinv(aside @ information @ aside, rcond=1e-10)
    else:
        covariance = np.linalg.pinv(information, rcond=1e-10)
    return [
        float(np.diag(query(domain, clique) @ covariance @ query(domain, clique).T).mean())
        for clique in wanted
    ]


@pytest.mark.parametrize("total_known", [False, True])
@pytest.mark.parametrize("sizes", DOMAINS)
def test_expected_variances_are_those_of_least_squares(sizes: tuple[int, ...], total_known: bool) -> None:
    domain = domain_of(sizes)
    generator = np.random.default_rng(len(sizes))
    workload = all_kway(domain, 2)
    measured = list(workload.closure())
    for _ in range(3):
        w = generator.exponential(size=len(measured)) + 1e-3
        expected = brute_variances(domain, measured, w, workload.cliques, total_known=total_known)
        parts = ResidualParts(domain, measured, workload, total_known=total_known)
        np.testing.assert_allclose(parts.variances(w), expected, rtol=1e-8)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_gains_are_minus_the_gradient(norm: str) -> None:
    domain = domain_of((2, 4, 3))
    workload = Workload(domain, (("a", "b"), ("b", "c")), (1.0, 2.5))
    parts = ResidualParts(domain, workload.closure(), workload)
    w = np.random.default_rng(1).exponential(size=len(parts.measured)) + 0.1
    step = 1e-6
    for i, gain in enumerate(parts.gains(w, norm=norm)):
        ahead, behind = w.copy(), w.copy()
        ahead[i] += step
        behind[i] -= step
        slope = (parts.error(ahead, norm=norm) - parts.error(behind, norm=norm)) / (2 * step)
        assert slope == pytest.approx(-gain, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("sizes", [(2, 3), (2, 9, 3), (5, 2, 2, 4)])
def test_no_random_design_beats_the_best_one(sizes: tuple[int, ...], norm: str) -> None:
    domain = domain_of(sizes)
    workload = all_kway(domain, 2)
    parts = ResidualParts(domain, workload.closure(), workload)
    design = best_design(parts, norm=norm)
    assert design.gap <= 1e-3
    generator = np.random.default_rng(7)
    chosen = dict(zip(design.cliques, design.weights, strict=True))
    near = np.array([chosen.get(clique, 1e-9) for clique in parts.measured])
    for spread in (0.01, 0.1, 1.0):
        for _ in range(50):
            w = near * np.exp(spread * generator.normal(size=len(near)))
            assert parts.error(w / w.sum(), norm=norm) >= design.error * (1 - 2e-3)
    if norm == "l2":
        assert design.error >= parts.best_linear() * (1 - 1e-9)


def test_the_best_linear_bound_is_reached_where_marginals_are_optimal() -> None:
    """One binary column: total and contrast have equal weight and equal cost, as its marginal measures them."""
    domain = domain_of((2,))
    parts = ResidualParts(domain, [("a",)], all_kway(domain, 1))
    assert parts.best_linear() == pytest.approx(parts.error(np.array([1.0]), norm="l2"))


def test_pure_designs_are_no_worse_than_measuring_the_workload() -> None:
    domain = domain_of((2, 9, 3))
    workload = all_kway(domain, 2)
    parts = ResidualParts(domain, workload.closure(), workload)
    design = best_design(parts, norm="l1", power=0.5)
    plain = np.zeros(len(parts.measured))
    shares = np.array(direct_weights(PURE, workload.weights, [domain.cells(c) for c in workload.cliques]))
    for clique, share in zip(workload.cliques, shares / shares.sum(), strict=True):
        plain[parts.measured.index(clique)] = share**2
    assert design.error <= parts.error(plain, norm="l1") * (1 + 1e-9)
    assert sum(design.weights) == pytest.approx(1.0)


@pytest.mark.parametrize(("accounting", "power"), [(PURE, 1.0), (GDP_ACCOUNTING, 2.0)])
def test_direct_shares_minimise_the_expected_error(accounting: object, power: float) -> None:
    importance, cells = [1.0, 3.0, 0.5], [8, 100, 4000]
    shares = np.array(direct_weights(accounting, importance, cells))  # type: ignore[arg-type]
    shares /= shares.sum()
    scale = np.array(importance) * np.array(cells)

    def error(share: np.ndarray) -> float:
        return float((scale * share ** (-1.0 / power)).sum())

    generator = np.random.default_rng(2)
    for _ in range(200):
        other = shares * np.exp(0.2 * generator.normal(size=3))
        assert error(other / other.sum()) >= error(shares) - 1e-9


@pytest.mark.parametrize("name", ["gaussian", "hdmm-pgm"])
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1), GDP(0.5)])
@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()])
def test_the_plan_is_what_happens(name: str, budget: Budget, unit: Unit) -> None:
    domain = domain_of((2, 3, 4))
    codes = np.random.default_rng(0).integers(0, (2, 3, 4), (200, 3))
    method = create(name, workload=all_kway(domain, 2))
    plan = method.plan(schema_of(domain), unit=unit, budget=budget)
    model = fit(method, codes, domain, budget, unit)
    planned = [(item.clique, item.noise.kind, item.noise.scale) for item in plan.measurements]
    assert planned == [(item.clique, item.noise, item.scale) for item in model.measurements]
    assert model.workload == all_kway(domain, 2)


def chain(n: int, columns: int) -> np.ndarray:
    """Binary columns, each a copy of the one before with 5 % of the values flipped."""
    generator = np.random.default_rng(11)
    codes = np.zeros((n, columns), dtype=int)
    codes[:, 0] = generator.integers(0, 2, n)
    for i in range(1, columns):
        codes[:, i] = codes[:, i - 1] ^ (generator.random(n) < 0.05)
    return codes


def test_mst_finds_the_tree_of_a_chain() -> None:
    """With 20,000 rows neighbours in the chain are 1,700 rows further from independence than others.

    At rho = 100 a choice has epsilon near 11, so a wrong edge has probability below exp(-9000).
    """
    domain = domain_of((2,) * 6)
    model = fit(create("mst"), chain(20_000, 6), domain, ZCDP(100.0))
    pairs = {item.clique for item in model.measurements if len(item.clique) == 2}
    assert pairs == set(zip(domain.names, domain.names[1:], strict=False))
    assert [item.clique for item in model.measurements[:6]] == [(name,) for name in domain.names]


@pytest.mark.parametrize("name", FAMILY)
def test_one_column_is_a_table(name: str) -> None:
    domain = domain_of((3,))
    codes = np.repeat([0, 1, 2], [50, 30, 20]).reshape(-1, 1)
    model = fit(create(name), codes, domain, ZCDP(50.0))
    np.testing.assert_allclose(model.marginal(("a",)), [50, 30, 20], atol=5)
    assert model.provenance.spent >= 0.9 * 50.0


def test_mst_leaves_out_pairs_that_are_too_large() -> None:
    domain = domain_of((200, 200, 2))
    codes = np.random.default_rng(0).integers(0, (200, 200, 2), (500, 3))
    model = fit(create("mst", max_model_mb=0.1), codes, domain, ZCDP(1.0))
    assert {item.clique for item in model.measurements if len(item.clique) == 2} == {("a", "c"), ("b", "c")}
    with pytest.raises(DomainTooLarge, match="coarser bins"):
        create("mst", max_model_mb=0.001).plan(schema_of(domain), unit=Unit.add_remove(), budget=PureDP(1.0))


def test_mwem_never_builds_a_model_beyond_its_limit() -> None:
    domain = domain_of((6,) * 6)
    codes = np.random.default_rng(0).integers(0, 6, (800, 6))
    limit = 0.02
    model = fit(create("mwem-pgm", rounds=12, max_model_mb=limit), codes, domain, ZCDP(1.0))
    assert len(model.rounds) == 12
    assert model_size(domain, [item.clique for item in model.measurements]) <= limit
    held: list[Clique] = [()]
    for step in model.rounds:
        assert all(model_size(domain, [*held, clique]) <= limit for clique in step.candidates)
        held.append(step.clique)


def test_mwem_replaces_marginals_that_cannot_fit_by_their_parts() -> None:
    domain = domain_of((60, 60, 60))
    method = create("mwem-pgm", max_model_mb=0.1)
    assert method._candidates(domain) == list(combinations(domain.names, 2))  # type: ignore[attr-defined]
    with pytest.raises(DomainTooLarge, match="max_model_mb"):
        create("mwem-pgm", max_model_mb=0.0001).plan(
            schema_of(domain), unit=Unit.add_remove(), budget=PureDP(1.0)
        )


def test_mwem_measures_the_number_of_rows_only_when_it_is_private() -> None:
    domain = domain_of((2, 3))
    codes = np.zeros((50, 2), dtype=int)
    private = fit(create("mwem-pgm"), codes, domain, ZCDP(1.0))
    assert private.measurements[0].clique == ()
    public = fit(create("mwem-pgm"), codes, domain, ZCDP(1.0), Unit.replace_one())
    assert all(item.clique for item in public.measurements)
    assert public.total == 50


@pytest.mark.parametrize("name", ["gaussian", "hdmm-pgm"])
def test_a_workload_without_a_tree_is_made_locally_consistent(name: str) -> None:
    domain = domain_of((4,) * 7)
    codes = np.random.default_rng(0).integers(0, 4, (2_000, 7))
    method = create(name, workload=all_kway(domain, 2), max_model_mb=0.01)
    plan = method.plan(schema_of(domain), unit=Unit.add_remove(), budget=ZCDP(10.0))
    assert "does not fit" in plan.notes[0]
    model = fit(method, codes, domain, ZCDP(10.0))
    assert model.distribution.kind == "local-consistency"
    tables = dict(zip(all_kway(domain, 2).cliques, model.marginals(all_kway(domain, 2).cliques), strict=True))
    for left, right in combinations(domain.names, 2):
        np.testing.assert_allclose(tables[left, right].sum(axis=1), model.marginal((left,)), atol=0.5)
    assert len(model.sample_codes(100, seed=1)["a"]) == 100


@pytest.mark.parametrize("name", ["gaussian", "hdmm-pgm"])
def test_workloads_beyond_memory_are_refused_at_plan_time(name: str) -> None:
    domain = domain_of((500,) * 6)
    with pytest.raises(DomainTooLarge, match="such as aim or mst"):
        create(name).plan(schema_of(domain), unit=Unit.add_remove(), budget=PureDP(1.0))


def test_marginals_without_weight_are_not_measured() -> None:
    domain = domain_of((2, 3, 4))
    workload = Workload(domain, (("a", "b"), ("b", "c")), (1.0, 0.0))
    codes = np.zeros((20, 3), dtype=int)
    for name in ("gaussian", "hdmm-pgm", "mwem-pgm"):
        model = fit(create(name, workload=workload), codes, domain, ZCDP(1.0))
        assert not any("c" in item.clique for item in model.measurements)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mst", {"max_model_mb": 0}, "max_model_mb"),
        ("mwem-pgm", {"rounds": 0}, "rounds"),
        ("mwem-pgm", {"measure_share": 1.0}, "measure_share"),
        ("mwem-pgm", {"max_model_mb": -1}, "max_model_mb"),
        ("gaussian", {"max_cells": 0}, "max_cells"),
        ("gaussian", {"max_model_mb": 0}, "max_model_mb"),
        ("hdmm-pgm", {"norm": "l3"}, "norm"),
        ("hdmm-pgm", {"max_cells": 0}, "max_cells"),
        ("hdmm-pgm", {"max_model_mb": 0}, "max_model_mb"),
    ],
)
def test_options_that_make_no_sense(name: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        create(name, **options)


@pytest.mark.parametrize("name", FAMILY)
def test_a_workload_of_other_columns_is_refused(name: str) -> None:
    workload = all_kway(domain_of((2, 2)), 1)
    with pytest.raises(BudgetError, match="other columns"):
        create(name, workload=workload).plan(
            schema_of(domain_of((2, 2, 2))), unit=Unit.add_remove(), budget=PureDP(1.0)
        )
