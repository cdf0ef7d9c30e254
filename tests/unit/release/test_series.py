"""A series of releases: what it costs together, and next year's specification from this year's bundle."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from understudy.errors import BudgetError, BundleError, DataError, OutputError, SchemaError
from understudy.mechanisms import Model
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, Unit
from understudy.privacy.accounting.conversions import gdp_to_approx, zcdp_to_approx
from understudy.release.bundle.bundle import bundle_files, manifest_text
from understudy.release.bundle.verify import verify_bundle
from understudy.release.rehearsal.rehearsal import rehearse
from understudy.release.selection.profiles import Bound
from understudy.release.series.compare import compare_sides, comparison_page, schema_differences, side_of
from understudy.release.series.cost import composed
from understudy.release.series.refresh import plan_refresh
from understudy.release.spec.spec import Spec
from understudy.report import markdown, render
from understudy.schema import Boolean, Integer, Schema
from understudy.workflow import publish

# ---------------------------------------------------------------- what it costs


def _exact_delta(epsilon: float, years: int, pure: float, mu: float) -> float:
    """Delta of so many years of randomised response and a Gaussian mechanism, by the loss of each number of lies."""
    p = 1 / (1 + math.exp(-pure))
    total = 0.0
    spread = mu * math.sqrt(years)
    for lies in range(years + 1):
        chance = math.comb(years, lies) * p ** (years - lies) * (1 - p) ** lies
        left = epsilon - pure * (years - 2 * lies)
        first = norm.cdf(-left / spread + spread / 2)
        total += chance * (first - math.exp(left) * norm.cdf(-left / spread - spread / 2))
    return total


@pytest.mark.parametrize("years", [1, 2, 5, 10])
@pytest.mark.parametrize(("pure", "mu"), [(0.1, 0.2), (0.5, 0.05), (0.02, 0.6)])
def test_the_guarantee_of_a_series_holds_for_mechanisms_that_use_it_up(
    years: int, pure: float, mu: float
) -> None:
    """Randomised response beside Gaussian noise, each year; delta by enumeration. One year's epsilon for several would fail."""
    delta = 1e-6
    one = pure + gdp_to_approx(mu, delta)
    year = [Bound(0.0, ApproxDP(one, delta)), Bound(pure, GDP(mu))]
    found = composed([year] * years)
    assert isinstance(found, ApproxDP)
    assert found.delta == delta or years > 1
    assert _exact_delta(found.epsilon, years, pure, mu) <= found.delta
    if years > 1:
        assert _exact_delta(one, years, pure, mu) > delta
        assert found.epsilon < years * one  # and the accounting is worth its while


@pytest.mark.parametrize(
    ("releases", "wanted"),
    [
        ([[Bound(0.0, PureDP(0.1))], [Bound(0.0, PureDP(0.2))]], PureDP(0.1 + 0.2)),
        ([[Bound(0.0, ZCDP(0.1))]] * 3, ZCDP(0.1 * 3)),
        ([[Bound(0.0, GDP(0.3))], [Bound(0.0, GDP(0.4))]], GDP(0.5)),
        ([[Bound(0.0, ApproxDP(1.0, 1e-6))]], ApproxDP(1.0, 1e-6)),
        ([[Bound(0.0, ApproxDP(1.0, 1e-6))], [Bound(0.0, PureDP(0.5))]], ApproxDP(1.5, 1e-6)),
        ([[Bound(0.0, ApproxDP(1.0, 1e-6))], [Bound(0.0, ApproxDP(2.0, 1e-7))]], ApproxDP(3.0, 1.1e-6)),
        (
            [[Bound(0.0, ApproxDP(9.0, 1e-6)), Bound(0.1, GDP(0.3))], [Bound(0.0, ApproxDP(9.0, 1e-6)), Bound(0.2, ZCDP(0.02))]],
            ApproxDP(0.3 + zcdp_to_approx(0.045 + 0.02, 1e-6), 1e-6),
        ),
    ],
)  # fmt: skip
def test_promises_of_every_kind_add_up(releases: list[list[Bound]], wanted: Budget) -> None:
    found = composed(releases)
    assert type(found) is type(wanted)
    for name, value in wanted.to_dict().items():
        if isinstance(value, float):
            assert found.to_dict()[name] == pytest.approx(value, rel=1e-6)


def test_a_sum_is_never_rounded_down() -> None:
    found = composed([[Bound(0.0, PureDP(0.1))]] * 10)
    assert isinstance(found, PureDP)
    assert found.epsilon >= 1.0
    with pytest.raises(BudgetError):
        composed([])


# ---------------------------------------------------------------- next year


SCHEMA = {
    "columns": [
        {"name": "a", "kind": "categorical", "values": ["x", "y", "z"]},
        {"name": "b", "kind": "integer", "minimum": 0, "maximum": 4},
        {"name": "c", "kind": "boolean"},
    ]
}
SPEC: dict[str, Any] = {
    "name": "first",
    "source": {"path": "first.csv"},
    "schema": SCHEMA,
    "unit": "replace-one",
    "synthesizers": [{"method": "mst"}],
    "acceptance": {
        "form": "pass-only",
        "epsilon": 0.2,
        "criteria": [{"name": "cells", "kind": "max-marginal-error", "threshold": 0.9}],
    },
    "selection": {"rule": "single"},
    "budget": {"total": {"epsilon": 2, "delta": 1e-6}, "model": {"epsilon": 1.5, "delta": 1e-6}},
    "seed": 1,
}


def _table(path: Path, seed: int, rows: int = 2_000, shift: float = 0.0) -> Path:
    generator = np.random.default_rng(seed)
    a = generator.choice(3, rows, p=[0.5 - shift, 0.3, 0.2 + shift])
    b = np.clip(a + generator.integers(0, 3, rows), 0, 4)
    c = generator.random(rows) < 0.2 + 0.1 * b
    pd.DataFrame({"a": np.array(["x", "y", "z"])[a], "b": b, "c": c}).to_csv(path, index=False)
    return path


def _publish(spec: Path) -> Path:
    done = publish(spec, out=spec.with_name(f"{spec.stem}-release"))
    assert done.accepted
    return done.folder


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three tables, the first release of the series, and the second, which `plan_refresh` made."""
    folder = tmp_path_factory.mktemp("series")
    for index, name in enumerate(("first", "second", "third")):
        _table(folder / f"{name}.csv", index, rows=2_000 + index)
    (folder / "first.json").write_text(json.dumps(SPEC))
    _publish(folder / "first.json")
    plan_refresh(folder / "first-release", source=folder / "second.csv").write(folder / "second.yaml")
    _publish(folder / "second.yaml")
    return folder


def test_a_refreshed_specification_puts_the_old_bundle_to_use(series: Path) -> None:
    planned = plan_refresh(series / "first-release", source=series / "second.csv")
    spec = planned.spec
    (configuration,) = spec.configurations
    assert spec.name == "second"
    assert configuration.method == "gaussian"  # the tree of the first release is not chosen again
    old = Model.load(series / "first-release" / "model.understudy")
    wanted = {item.clique for item in old.measurements if len(item.clique) == 2}
    assert wanted == {tuple(name.split(", ")) for name in configuration.options["measured"]}
    assert spec.prior is not None
    assert spec.shares.promise == Spec.from_dict(SPEC).shares.promise
    assert [count for count, _ in planned.series] == [2, 3, 4, 5]


def test_a_release_of_a_series_fits_with_the_prior_and_says_what_the_series_costs(series: Path) -> None:
    bundle = series / "second-release"
    certificate = verify_bundle(bundle)
    assert Model.load(bundle / "model.understudy").provenance.options["prior"]
    first = verify_bundle(series / "first-release")
    assert "series" not in first
    said = certificate["series"]
    assert said["number"] == 2
    assert [item["name"] for item in said["releases"]] == ["first"]
    one, two = first["guarantee"]["budget"]["epsilon"], said["composed"]["epsilon"]
    assert one < two < 2 * one
    assert said["composed"]["delta"] == 1e-6
    assert (bundle / "changes.md").read_text().startswith("# second beside first")
    readme = (bundle / "README.md").read_text()
    assert "changes.md" in readme
    assert (
        f"epsilon={two:g}, delta=1e-06" in readme
    )  # what the series adds up to, for those who are in both tables
    assert "release of a series" not in (series / "first-release" / "README.md").read_text()
    assert "bundle" not in json.loads((bundle / "spec.json").read_text())["previous"]  # a local path
    # what a third one will cost, from the bundle alone
    planned = plan_refresh(bundle, source=series / "third.csv", years=3)
    assert planned.number == 3
    ((count, total),) = planned.series
    assert count == 3
    year = [Bound.from_dict(item) for item in first["guarantee"]["trade_off"]]
    assert total == composed([year] * 3)


def _rewritten(bundle: Path, folder: Path, name: str, change: Any) -> Path:
    copied = folder / "changed"
    shutil.copytree(bundle, copied)
    plain = json.loads((copied / name).read_text())
    change(plain)
    (copied / name).write_text(json.dumps(plain, indent=2) + "\n")
    hashes = {name: hashlib.sha256((copied / name).read_bytes()).hexdigest() for name in bundle_files(copied)}
    (copied / "MANIFEST.json").write_text(manifest_text(hashes))
    return copied


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain.pop("series"), "disagree on whether"),
        (lambda plain: plain["series"]["composed"].update(epsilon=1.0), "more than the certificate says"),
        (lambda plain: plain["series"].update(number=1), "not that of the specification"),
        (lambda plain: plain["series"].update(words="epsilon=0.1"), "the words about the series"),
        (lambda plain: plain["guarantee"].update(words="epsilon=0.1"), "the words of the guarantee"),
        (lambda plain: plain["guarantee"].update(neighbours="everybody"), "the words of the guarantee"),
        (
            lambda plain: plain["series"]["releases"][0].update(manifest="0" * 64),
            "not that of the specification",
        ),
    ],
)
def test_a_certificate_cannot_make_a_series_cheaper(
    series: Path, tmp_path: Path, change: Any, message: str
) -> None:
    with pytest.raises(BundleError, match=message):
        verify_bundle(_rewritten(series / "second-release", tmp_path, "certificate.json", change))


def test_a_certificate_cannot_protect_others_than_the_specification(series: Path, tmp_path: Path) -> None:
    def change(plain: Any) -> None:
        promised, old = plain["guarantee"], plain["guarantee"]["neighbours"]
        whole = Unit.replace_person("person", max_rows=9)
        promised |= {"unit": whole.to_dict(), "neighbours": whole.describe()}
        promised["words"] = promised["words"].replace(old, whole.describe())

    with pytest.raises(BundleError, match="protects somebody else"):
        verify_bundle(_rewritten(series / "second-release", tmp_path, "certificate.json", change))


def test_no_bound_is_less_than_nothing(series: Path) -> None:
    """A bound of minus two would make the series cheaper than the release alone."""
    for epsilon in (-2.0, float("nan"), float("inf")):
        with pytest.raises(BudgetError, match="not negative"):
            Bound.from_dict({"epsilon": epsilon, "beside": PureDP(1.0).to_dict()})

    plain = json.loads((series / "second-release" / "spec.json").read_text())
    for wrong in ({"epsilon": -0.5, "beside": {"kind": "pure", "epsilon": 1.0}}, {"epsilon": "1"}, {}):
        plain["previous"]["releases"][0]["bounds"] = [wrong]
        with pytest.raises(SchemaError, match=r"previous.releases\[0\].bounds"):
            Spec.from_dict(plain)


def test_a_bundle_that_does_not_verify_is_refused(series: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(series / "first-release", broken)
    (broken / "data.csv").write_bytes((broken / "data.csv").read_bytes().replace(b"x", b"y", 1))
    with pytest.raises(BundleError, match=r"data\.csv was changed"):
        plan_refresh(broken, source=series / "second.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda plain: plain.update(unit="add-remove", output={"rows": 100}),
            "it protects 'replace one row'",
        ),
        (lambda plain: plain["schema"]["columns"][0]["values"].append("w"), "column 'a': values was"),
        (lambda plain: plain["schema"]["columns"].pop(), "column 'c' is gone"),
    ],
)
def test_a_bundle_of_another_schema_or_unit_is_refused(series: Path, change: Any, message: str) -> None:
    plain = copy.deepcopy(SPEC)
    change(plain)
    with pytest.raises(BundleError, match=message):
        plan_refresh(series / "first-release", source=series / "second.csv", spec=Spec.from_dict(plain))


def test_a_table_without_the_columns_is_refused(series: Path, tmp_path: Path) -> None:
    pd.DataFrame({"a": ["x"], "c": [True]}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(DataError, match="lacks the columns b"):
        plan_refresh(series / "first-release", source=tmp_path / "other.csv")
    with pytest.raises(DataError, match="no table"):
        plan_refresh(series / "first-release", source=tmp_path / "nothing.csv")


def test_a_release_checks_the_bundle_before_it_spends(series: Path, tmp_path: Path) -> None:
    """Another bundle in the place of the one that was named: refused, no ledger made."""
    shutil.copytree(series / "first-release", tmp_path / "old")
    _table(tmp_path / "next.csv", 5)
    planned = plan_refresh(tmp_path / "old", source=tmp_path / "next.csv")
    spec = planned.write(tmp_path / "next.yaml")
    with pytest.raises(OutputError):
        planned.write(spec)  # never over a file that is there
    shutil.rmtree(tmp_path / "old")
    with pytest.raises(BundleError, match="no bundle folder"):
        publish(spec, out=tmp_path / "out")
    shutil.copytree(series / "second-release", tmp_path / "old")
    with pytest.raises(BundleError, match="not the bundle that the specification names"):
        publish(spec, out=tmp_path / "out")
    with pytest.raises(BundleError, match="not the bundle that the specification names"):
        _ = Spec.read(spec).prior
    shutil.rmtree(tmp_path / "old")
    shutil.copytree(series / "first-release", tmp_path / "old")
    plain = json.loads(json.dumps(planned.spec.plain))
    plain["previous"]["releases"][0]["bounds"] = [{"epsilon": 0.0, "beside": PureDP(0.01).to_dict()}]
    (tmp_path / "cheaper.json").write_text(json.dumps(plain))
    with pytest.raises(BundleError, match="not those that the bundle"):
        publish(tmp_path / "cheaper.json", out=tmp_path / "out")
    del plain["previous"]["bundle"]  # nothing to compare it with
    (tmp_path / "cheaper.json").write_text(json.dumps(plain))
    with pytest.raises(BundleError, match=r"which proves it \(previous.bundle\)"):
        publish(tmp_path / "cheaper.json", out=tmp_path / "out")
    assert not list(tmp_path.glob("*.ledger"))


def test_a_declared_number_of_rows_is_not_taken_over(series: Path, tmp_path: Path) -> None:
    plain = copy.deepcopy(SPEC) | {"name": "declared", "public": {"row_count": 2_000}}
    plain["source"] = {"path": str(series / "first.csv"), "table": "declared"}
    (tmp_path / "declared.json").write_text(json.dumps(plain))
    done = publish(tmp_path / "declared.json", out=tmp_path / "old", ledger=tmp_path / "own.ledger")
    assert done.accepted
    with pytest.raises(SchemaError, match="declared its number of rows public"):
        plan_refresh(tmp_path / "old", source=series / "second.csv")
    planned = plan_refresh(tmp_path / "old", source=series / "second.csv", row_count=2_001)
    assert planned.spec.row_count.value == 2_001


@pytest.mark.parametrize("use", ["prior", "nothing"])
def test_less_may_be_taken_over(series: Path, use: Any) -> None:
    planned = plan_refresh(series / "first-release", source=series / "second.csv", use=use)
    (configuration,) = planned.spec.configurations
    assert configuration.method == "mst"
    assert planned.spec.prior is None  # mst takes none


def test_the_old_rows_serve_as_a_rehearsal(series: Path) -> None:
    planned = plan_refresh(series / "first-release", source=series / "second.csv")
    assert planned.rehearsal_spec().prior is None
    found = rehearse(planned.rehearsal_spec(), series / "first-release" / "data.csv", trials=1, jobs=1)
    assert found.results[0].acceptance > 0


# ---------------------------------------------------------------- side by side


def test_two_bundles_side_by_side(series: Path) -> None:
    found = compare_sides(side_of(series / "first-release"), side_of(series / "second-release"))
    assert found.labels == ("first", "second")
    assert found.rows == (2_000, 2_001)
    assert found.schema == ()
    assert all("epsilon=" in words for words in found.guarantees)
    assert {item.columns for item in found.columns} == {("a",), ("b",), ("c",)}
    assert len(found.pairs) == 3
    for items in (found.columns, found.pairs):
        sizes = [item.difference for item in items]
        assert sizes == sorted(sizes, reverse=True)
    for item in found.columns:
        assert item.basis == "privacy"
        assert item.noise is not None
        assert item.at_least <= item.difference


def test_a_change_that_noise_cannot_explain_is_said_to_be_one(series: Path, tmp_path: Path) -> None:
    """The share of z is .2 in one real table and .6 in the other. At epsilon 1.5 and 2,000 rows no noise explains that.

    ``at_least`` must not exceed what the two real tables differ by: a bound that left out one side would.
    """
    first, last = series / "first.csv", _table(tmp_path / "last.csv", 9, shift=0.4)
    plan_refresh(series / "first-release", source=last).write(tmp_path / "last.yaml")
    found = compare_sides(side_of(series / "first-release"), side_of(_publish(tmp_path / "last.yaml")))
    change = next(item for item in found.columns if item.columns == ("a",))
    shares = [pd.read_csv(path)["a"].value_counts(normalize=True) for path in (first, last)]
    real = 0.5 * float((shares[0] - shares[1]).abs().sum())
    assert 0.1 < change.at_least <= real
    text = (tmp_path / "last-release" / "changes.md").read_text()
    assert "| a |" in text


def test_two_tables_are_compared_by_what_sampling_explains(tmp_path: Path) -> None:
    """Fixed seeds. Two draws from one population differ by no more than said, 19 times in 20; another population differs by more."""
    schema = Schema.from_dict(SCHEMA)
    one, two, other = (_table(tmp_path / f"{i}.csv", i, shift=0.2 * (i == 2)) for i in range(3))
    same = compare_sides(side_of(one, schema), side_of(two, schema))
    assert all(item.basis == "sampling" and item.at_least < 0.01 for item in (*same.columns, *same.pairs))
    moved = compare_sides(side_of(one, schema), side_of(other, schema))
    assert moved.columns[0].columns in (("a",), ("b",))
    assert moved.columns[0].at_least > 0.1


def test_a_comparison_with_a_table_says_that_it_is_as_private(tmp_path: Path) -> None:
    """Both sides may be the custodian's own records: what is written must not look like a page of a release."""
    schema = Schema.from_dict(SCHEMA)
    one, two = (_table(tmp_path / f"{i}.csv", i) for i in range(2))
    found = compare_sides(side_of(one, schema), side_of(two, schema))
    assert found.exact == ("0.csv", "1.csv")
    page = comparison_page(found)
    for text in (markdown(page), render(page), json.dumps(found.to_dict())):
        assert "read without noise" in text
        assert "do not publish" in text


def test_a_comparison_of_bundles_has_no_warning(series: Path) -> None:
    found = compare_sides(side_of(series / "first-release"), side_of(series / "second-release"))
    assert (found.exact, found.warning) == ((), "")
    assert "warning" not in found.to_dict()
    assert "without noise" not in render(comparison_page(found))


def test_nothing_is_compared_into_a_bundle(tmp_path: Path) -> None:
    from understudy.cli import main as commands

    commands.register(commands.app)
    schema = Schema.from_dict(SCHEMA)
    schema.write(tmp_path / "schema.yaml")
    one, two = (_table(tmp_path / f"{i}.csv", i) for i in range(2))
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "certificate.json").write_text("{}")
    words = ["compare", str(one), str(two), "--schema", str(tmp_path / "schema.yaml"), "--out"]
    refused = CliRunner().invoke(commands.app, [*words, str(tmp_path / "release" / "changes.html")])
    assert isinstance(refused.exception, OutputError)
    assert not (tmp_path / "release" / "changes.html").exists()
    written = CliRunner().invoke(
        commands.app, [*words, str(tmp_path / "changes.html")], catch_exceptions=False
    )
    assert "read without noise" in written.output
    assert "do not publish" in (tmp_path / "changes.html").read_text()


def test_schemas_that_differ_are_told_apart_column_by_column() -> None:
    old = Schema([Boolean("a"), Integer("age", minimum=0, maximum=9, description="old words")])
    same = Schema([Boolean("a"), Integer("age", minimum=0, maximum=9, description="new words")], row_count=5)
    new = Schema([Integer("age", minimum=0, maximum=8), Boolean("b")], constraints=["age < 8"])
    assert schema_differences(old, same) == []
    found = schema_differences(old, new)
    assert found[:3] == ["column 'a' is gone", "column 'age': maximum was 9 and is 8", "column 'b' is new"]
    assert "constraints" in found[3]
