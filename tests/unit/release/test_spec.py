"""Specifications: what is read, what is refused, and that everything wrong is said at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from spec_examples import CRITERIA, SMALL, published, small, small_spec

from understudy.errors import SchemaError
from understudy.privacy import PureDP, Unit
from understudy.release.selection.accounting import (
    GeometricAttempts,
    NegativeBinomialAttempts,
    SingleAttempt,
    UnlimitedAttempts,
)
from understudy.release.spec.space import workload_of
from understudy.release.spec.spec import Spec

ROOT = Path(__file__).parents[3]


def refused(**changes: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        Spec.from_dict(small(**changes))
    return str(caught.value)


# ---------------------------------------------------------------------- reading


def test_a_small_specification_is_read() -> None:
    spec = small_spec()
    assert (spec.name, spec.unit, spec.total) == ("small", Unit.replace_one(), PureDP(5.0))
    assert spec.row_count.kind == "invariant"
    assert [item.name for item in spec.configurations] == [
        "gaussian workload=all-2way; every record occurs at least 2 times"
    ]
    schema = spec.schema_for(spec.configurations[0])
    assert schema.domain.shape() == (2, 4, 5)
    assert [criterion.name for criterion in spec.criteria_for(schema)] == ["cells", "rare"]
    assert "1 configuration, 2 criteria" in repr(spec)


def test_every_kind_of_criterion_is_built() -> None:
    spec = small_spec(acceptance__criteria=CRITERIA)
    criteria = spec.criteria_for(spec.schema_for(spec.configurations[0]))
    assert [type(criterion).__name__ for criterion in criteria] == [
        "MaxMarginalError",
        "AverageMarginalError",
        "TailMarginalError",
        "RelativeMarginalError",
        "ConditionalMeans",
        "ConditionalMedians",
        "RegressionCoefficients",
        "PredictionError",
        "Faithfulness",
        "AverageScore",
        "RareRecords",
        "AnonymousCombinations",
    ]
    means = criteria[4]
    assert [grouping.groups for grouping in means.groups] == [(), (0, 1), (0, 0, 1, 1)]  # type: ignore[attr-defined]


def test_the_configuration_space_is_the_product_of_its_parts() -> None:
    spec = small_spec(
        transformations={
            "age": {"as it is": None, "coarse": {"bins": ["<40", "39<"]}},
            "size": {"all": {}, "two": {"values": [1, 2, 3, 4, 5]}},
        },
        synthesizers=[
            {"method": "hdmm-pgm", "options": {"norm": ["l1", "l2"], "workload": "all-2way"}},
            {"method": "independent"},
        ],
        projections=[{"kind": "none"}, {"kind": "k-anonymity", "k": 3, "every": 2}],
    )
    assert len(spec.configurations) == 4 * 3 * 2
    assert len({item.name for item in spec.configurations}) == 24
    assert len(spec.schemas()) == 4
    coarse = next(item for item in spec.configurations if item.transformations["age"] == "coarse")
    assert spec.schema_for(coarse).column("age").labels == ("<40", "39<")


def test_combinations_a_method_refuses_are_left_out() -> None:
    spec = small_spec(
        synthesizers=[{"method": "hdmm-pgm", "options": {"norm": ["l1", "l7"], "max_model_mb": [80, -1]}}]
    )
    assert [item.options for item in spec.configurations] == [{"norm": "l1", "max_model_mb": 80}]
    assert len(spec.left_out) == 3
    assert any("l7" in reason for _, reason in spec.left_out)


@pytest.mark.parametrize(
    ("selection", "rule", "total"),
    [
        ({"rule": "single"}, SingleAttempt(), 5.0),
        ({"rule": "until-accepted", "gamma": 0}, UnlimitedAttempts(), 10.0),
        ({"rule": "until-accepted", "gamma": 0.1, "max_attempts": 40}, GeometricAttempts(0.1, 40), 7.27),
        ({"rule": "until-accepted", "gamma": 0.1, "epsilon0": 0.5}, GeometricAttempts(0.1, 14), 7.27),
        ({"rule": "negative-binomial", "eta": 0, "gamma": 0.1}, NegativeBinomialAttempts(0.0, 0.1), 6.33),
    ],
)
def test_every_selection_rule_is_read_and_priced(
    selection: dict[str, Any], rule: object, total: float
) -> None:
    with pytest.raises(SchemaError, match="the parts need epsilon=") as caught:
        small_spec(selection=selection, budget__total={"epsilon": 4.5})
    needed = float(str(caught.value).split("A total of epsilon=")[1].split(" ")[0])
    spec = small_spec(selection=selection, budget__total={"epsilon": needed * 1.000001})
    assert spec.attempts == rule
    assert needed == pytest.approx(total, rel=0.06)
    assert spec.shares.single == isinstance(rule, SingleAttempt)


def test_the_published_form_pays_for_each_error_and_once_for_a_regression() -> None:
    spec = small_spec(**published(0.5))
    assert spec.shares.acceptance == pytest.approx(4.5)  # ten errors, one of them the regression
    assert spec.shares.baselines == (0.5,)
    loop = published(0.5)
    loop["transformations"] = {"age": {"a": None, "b": {"bins": ["<40", "39<"]}}}
    loop["selection"] = {"rule": "until-accepted", "gamma": 0}
    loop["budget"] = {"total": {"epsilon": 2 * 8.5 + 2 * 0.5}, "model": {"epsilon": 4}}
    assert small_spec(**loop).shares.baselines == (0.5, 0.5)


def test_decimal_numbers_that_add_up_are_not_refused_for_their_binary_tails() -> None:
    for model, acceptance, rows in ((0.1, 0.2, 0.3), (0.7, 0.1, 0.01), (1.0, 0.19, 0.01), (0.3, 0.6, 0.2)):
        total = float(f"{model + acceptance + rows:.10g}")
        spec = small_spec(
            budget={"total": {"epsilon": total}, "model": {"epsilon": model}},
            acceptance__epsilon=acceptance,
            public={"row_count": {"epsilon": rows}},
        )
        assert spec.shares.fits
        assert spec.shares.model.epsilon == pytest.approx(model, rel=1e-6)  # type: ignore[union-attr]


def test_weights_of_a_workload_add_up() -> None:
    schema = small_spec().schema
    workload = workload_of({"all-1way": 1, "age": 0.5, "sex, age": 2}, schema)
    assert dict(workload) == {("sex",): 1.0, ("age",): 1.5, ("size",): 1.0, ("sex", "age"): 2.0}
    among = workload_of({"all-2way": 1, "all-1way among size, age": 3}, schema)
    assert dict(among)[("age",)] == dict(among)[("size",)] == 3.0
    assert len(among) == 5


def test_what_is_published_holds_the_schema_and_no_paths(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(SMALL["schema"]), encoding="utf-8")
    plain = small(schema="schema.json", ledger="secret/place.ledger", output={"folder": "secret/out"})
    spec = Spec.from_dict(plain, where=tmp_path)
    text = json.dumps(spec.to_dict())
    assert "secret" not in text
    assert "people.csv" in text  # the public name of the table, not its path
    assert str(tmp_path) not in text
    again = Spec.from_dict(spec.to_dict())
    assert again.fingerprint() == Spec.from_dict(again.to_dict()).fingerprint()


def test_the_fingerprint_follows_what_the_release_does() -> None:
    spec = small_spec()
    assert spec.fingerprint() == small_spec(title="Other words").fingerprint()
    assert spec.fingerprint() != small_spec(seed=4).fingerprint()
    assert spec.fingerprint() != small_spec(acceptance__criteria__0__threshold=0.21).fingerprint()


def test_yaml_and_json_files_are_read_beside_their_schema(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SMALL["schema"]), encoding="utf-8")
    plain = small(schema="schema.yaml")
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    (tmp_path / "spec.json").write_text(json.dumps(plain), encoding="utf-8")
    read = [Spec.read(tmp_path / name) for name in ("spec.yaml", "spec.json")]
    assert read[0].fingerprint() == read[1].fingerprint()
    assert read[0].source.path == tmp_path / "people.csv"


# ---------------------------------------------------------------------- the number of rows


def test_cleaning_makes_the_number_of_rows_private() -> None:
    told = refused(cleaning=["age > 10"])
    assert "public.row_count: the number of rows is private, so it is measured, for epsilon=0.02" in told
    roomy = small_spec(cleaning=["age > 10"], budget__total={"epsilon": 5.02})
    assert (roomy.row_count.kind, roomy.row_count.epsilon) == ("measured", 0.02)
    assert small_spec(cleaning=["age > 10"], public={"row_count": "declared"}).row_count.kind == "declared"
    assert small_spec(cleaning=["age > 10"], public={"row_count": 500}).row_count.value == 500
    assert small_spec(cleaning=["age > 10"], output={"rows": 500}).row_count.kind == "chosen"


def test_the_number_of_rows_is_private_under_add_remove() -> None:
    assert "public.row_count: the number of rows is private" in refused(unit="add-remove")
    spec = small_spec(
        unit="add-remove", public={"row_count": {"epsilon": 0.5}}, budget__total={"epsilon": 5.5}
    )
    assert (spec.row_count.kind, spec.shares.rows) == ("measured", 0.5)


def test_rows_of_persons_cannot_be_declared() -> None:
    unit = {"relation": "replace-one", "id_column": "person", "max_rows": 3}
    assert "random choice of rows" in refused(unit=unit, public={"row_count": 100})


# ---------------------------------------------------------------------- refusals


def test_everything_wrong_is_listed_at_once() -> None:
    told = refused(
        unit="swap",
        schema__columns__1__bins=["<20", "25-39"],
        synthesizers=[{"method": "gausian"}],
        selection={"rule": "sometimes"},
        budget__model={"epsilon": 1, "rho": 2},
        colour="red",
        acceptance__criteria=[{"name": "a", "kind": "max-marginal-error", "threshold": -1}],
    )
    for part in (
        "unit: write 'add-remove' or 'replace-one'",
        "schema: columns[1] 'age'",
        "unknown key 'colour'",
        "selection: no rule named 'sometimes'",
        "acceptance.criteria[0].threshold: must be above 0",
        "budget.model: give epsilon, epsilon with delta, rho, or mu",
    ):
        assert part in told, part


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget__total": {"epsilon": 4}}, "the parts need epsilon=5, more than epsilon=4"),
        ({"budget__total": {"epsilon": 4}}, "A total of epsilon=5 would do, or a model of epsilon=3"),
        ({"budget__model": {"epsilon": 1, "delta": 1e-6}}, "has no pure guarantee"),
        ({"acceptance__epsilon": None}, "acceptance.epsilon: the pass-only form needs"),
        ({"acceptance__criteria__0__epsilon": 0.1}, "takes no epsilon: the pass-only form pays once"),
        ({"synthesizers": [{"method": "gausian"}]}, "Did you mean 'gaussian'?"),
        ({"synthesizers__0__options": {"worklod": "all-2way"}}, "Did you mean 'workload'?"),
        ({"synthesizers__0__options": {"workload": "all-way"}}, "the configuration space is empty"),
        ({"synthesizers__0__options": {"workload": []}}, "an empty list of alternatives"),
        (
            {"transformations": {"agee": {"a": None}}},
            "transformations.agee: no column of that name. Did you mean",
        ),
        ({"transformations": {"age": {}}}, "no alternative is listed"),
        ({"transformations": {"age": {"a": {"kind": "real"}}}}, "keeps the kind of its column"),
        ({"transformations": {"age": {"a": {"bins": ["x"]}}}}, "transformations.age.a"),
        ({"constraints": ["age > 10 and"]}, "constraints[0]"),
        ({"cleaning": ["weight > 10"], "output": {"rows": 5}}, "cleaning[0]"),
        ({"constraints": ["age > 70 and age < 60"]}, "no record can obey"),
        ({"constraints": ["size > 3", "size < 2"]}, "no record can obey all of them together"),
        ({"projections": [{"kind": "k-anonymity", "k": 3}]}, "give either column_sets or every"),
        ({"projections": [{"kind": "minimal-occurrence", "min_count": 0}]}, "min_count: must be at least 1"),
        ({"source": {"path": "a.csv", "simulate": {"table": "toy", "rows": 1}}}, "not both"),
        (
            {"source__derive": {"month": {"from": "day", "part": "month"}}},
            "the schema has no column of that name",
        ),
        ({"source__derive": {"age": {"from": "day"}}}, "either a part of a date or a list of values"),
        ({"output": {"rows": 5}, "public": {"row_count": 5}}, "output.rows"),
        ({"selection": {"rule": "until-accepted", "gamma": 0, "max_attempts": 3}}, "needs a gamma above 0"),
        (
            {"selection": {"rule": "until-accepted", "gamma": 0.1, "max_attempts": 3, "epsilon0": 0.5}},
            "Theorem 3 needs at least 14",
        ),
        ({"schema": 3}, "schema: write a path"),
        ({"schema": "absent.yaml"}, "There is no file"),
        ({"schema__columns__0__origin": "from-data"}, "read from the data"),
        ({"name": "a/b"}, "name: may hold letters"),
        ({"cleaning": ["size > 5"], "output": {"rows": 9}}, "cleaning: no record can obey 'size > 5'"),
        ({"cleaning": ["size > 3", "size < 2"], "output": {"rows": 9}}, "cleaning: no record can obey all"),
        (
            {"cleaning": ["size > 3"], "constraints": ["size <= 3"], "output": {"rows": 9}},
            "constraints: no record that the cleaning leaves obeys them",
        ),
        (
            {"projections__0__min_count": 700, "public": {"row_count": 600}},
            "projections[0]: A table of 600 rows cannot hold every record at least 700 times",
        ),
        (
            {"projections": [{"kind": "k-anonymity", "k": 9, "every": 1}], "output": {"rows": 8}},
            "projections[0]: A table",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_their_place(changes: dict[str, Any], words: str) -> None:
    assert words in refused(**changes)


def test_cleaning_that_cuts_through_bins_or_moved_values_is_not_called_impossible() -> None:
    """Behind the bin 20-39 there are ages above 30; a clamped size may stand for any raw one."""
    assert small_spec(cleaning=["age > 30", "age < 35"], public={"row_count": 600})
    changes = {"schema__columns__2__out_of_domain": "clamp", "cleaning": ["size > 5"]}
    assert small_spec(**changes, public={"row_count": 600})


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        ({"kind": "conditional-means", "column": "weight", "threshold": 1}, "no column named 'weight'"),
        ({"kind": "relative-marginal-error", "threshold": 3, "clip": 2}, "clipped at 2, below its threshold"),
        ({"kind": "relative-marginal-error", "threshold": 0.9, "clip": 2}, "a factor above 1"),
        (
            {"kind": "conditional-means", "column": "size", "threshold": 40},
            "lies outside the range of the error",
        ),
        ({"kind": "max-marginal-error", "threshold": 1.5}, "lies outside the range of the error"),
        ({"kind": "faithfulness", "threshold": 1.5, "exact": ["sex", "age", "size"]}, "a share of the rows"),
        (
            {"kind": "faithfulness", "threshold": 0.1, "exact": ["sex"], "near": {"age": 1}},
            "'size' is not mentioned",
        ),
        (
            {"kind": "faithfulness", "threshold": 0.1, "exact": ["age", "size"], "near": {"sex": 1}},
            "is categorical",
        ),
        ({"kind": "max-marginal-error", "threshold": 0.1, "orders": [4]}, "no marginals of order 4"),
        (
            {
                "kind": "conditional-means",
                "column": "size",
                "threshold": 1,
                "by": [{"column": "age", "bins": ["<30", "30<="]}],
            },
            "lies in more than one of the coarse bins",
        ),
        (
            {
                "kind": "conditional-means",
                "column": "size",
                "threshold": 1,
                "by": [{"column": "sex", "groups": [["x"]]}],
            },
            "has no value labelled 'x'",
        ),
        ({"kind": "share", "rule": "age > 30", "threshold": 0.1}, "cuts through a bin"),
        ({"kind": "k-anonymity", "k": 2, "column_sets": [["weight"]]}, "no column named 'weight'"),
        (
            {"kind": "regression-coefficients", "target": "size", "features": ["weight"], "threshold": 1},
            "no column named 'weight'",
        ),
    ],
)
def test_criteria_that_do_not_fit_are_refused_by_name(criterion: dict[str, Any], words: str) -> None:
    told = refused(acceptance__criteria=[{"name": "mine", **criterion}])
    assert "acceptance.criteria[0] 'mine'" in told
    assert words in told


def test_two_criteria_of_one_name_and_a_prediction_without_baseline_are_refused() -> None:
    item = {"name": "a", "kind": "max-marginal-error", "threshold": 0.1}
    assert "two criteria are named 'a'" in refused(acceptance__criteria=[item, item])
    prediction = {**CRITERIA[7], "epsilon": 1.0}
    told = refused(acceptance={"form": "published", "criteria": [prediction]})
    assert "compares with a private regression" in told


def test_something_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(SchemaError, match="must hold a mapping"):
        Spec.from_dict([1, 2])


def test_a_space_that_is_too_large_is_refused() -> None:
    many = {f"alternative {index}": None for index in range(200)}
    assert "more than the 20,000 allowed" in refused(transformations={"age": many, "size": many})


# ---------------------------------------------------------------------- the published JSON Schema


def test_the_published_json_schema_is_the_one_of_the_program() -> None:
    path = ROOT / "docs" / "reference" / "spec.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == Spec.json_schema()


def test_the_json_schema_accepts_the_examples_and_refuses_unknown_keys() -> None:
    validator = jsonschema.Draft202012Validator(Spec.json_schema())
    validator.validate(SMALL)
    validator.validate(small(acceptance__criteria=CRITERIA))
    example = yaml.safe_load((ROOT / "examples" / "births" / "spec.yaml").read_text(encoding="utf-8"))
    validator.validate(example)
    assert not validator.is_valid(small(colour="red"))


def test_the_shipped_example_is_a_specification() -> None:
    spec = Spec.read(ROOT / "examples" / "births" / "spec.yaml")
    assert spec.schema.domain.cells() == 230_400
    assert spec.total.epsilon <= 1.2  # type: ignore[union-attr]
    assert len(spec.cleaning) == 11
    kinds = [item.kind for item in spec.criteria]
    assert len([kind for kind in kinds if kind != "rare-records"]) == 8


@pytest.mark.parametrize(
    ("synthesizer", "advice"),
    [
        ({"method": "gaussian-table", "options": {"noise": "discrete"}}, "budget.model a rho"),
        ({"method": "multinomial-dirichlet"}, "an epsilon alone"),
    ],
    ids=["rho", "pure"],
)
def test_methods_that_no_attempt_of_a_loop_could_pay_for_are_refused(
    synthesizer: dict[str, Any], advice: str
) -> None:
    """An attempt with an approximate model has a ledger in GDP.

    Catches: a loop that spends its whole budget on attempts whose every charge is refused.
    """
    budget = {"total": {"epsilon": 20.0, "delta": 1e-5}, "model": {"epsilon": 1.0, "delta": 1e-6}}
    words = refused(
        synthesizers=[synthesizer], selection={"rule": "until-accepted", "gamma": 0.1}, budget=budget
    )
    assert advice in words


@pytest.mark.parametrize("kind", ["max-marginal-error", "average-marginal-error", "tail-marginal-error"])
def test_more_marginals_than_can_be_compared_are_refused_before_a_model_is_paid_for(kind: str) -> None:
    plain = small(
        schema={"columns": [{"name": f"c{number}", "kind": "boolean"} for number in range(18)]},
        acceptance={
            "form": "pass-only",
            "epsilon": 1.0,
            "criteria": [{"name": "cells", "kind": kind, "threshold": 0.1}],
        },
    )
    if kind == "tail-marginal-error":
        plain["acceptance"]["criteria"][0]["share"] = 0.1
    with pytest.raises(SchemaError, match="more than 100,000 marginals of these orders over 18 columns"):
        Spec.from_dict(plain)
    plain["acceptance"]["criteria"][0]["orders"] = [1, 2]
    Spec.from_dict(plain)
