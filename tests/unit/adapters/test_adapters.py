"""The estimator and the SDGym functions behave as their models do, and never loosen the guarantee."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from understudy import Schema, Spec, create, datasets, evaluate, plots, synthesize
from understudy.adapters import TableSynthesizer, get_trained_synthesizer, sample_from_synthesizer
from understudy.errors import BudgetError, BudgetExceeded, UsageError, WorkloadError
from understudy.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP, Unit
from understudy.release.run.planning import plan_release
from understudy.workflow import advise

FRAME, SCHEMA = datasets.load("toy", 400, seed=1)


def made(**changes: Any) -> TableSynthesizer:
    given: dict[str, Any] = {"method": "independent", "schema": SCHEMA, "unit": "add-remove", "epsilon": 1.0}
    return TableSynthesizer(**(given | changes))


def test_fit_and_sample() -> None:
    fitted = made().fit(FRAME)
    rows = fitted.sample(30, seed=1)
    assert list(rows.columns) == list(SCHEMA.names)
    assert rows.equals(fitted.sample(30, seed=1))
    assert isinstance(fitted.model_.provenance.budget, PureDP)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"delta": 1e-6}, ApproxDP),
        ({"epsilon": None, "rho": 0.1}, ZCDP),
        ({"epsilon": None, "mu": 0.5}, GDP),
    ],
)
def test_every_kind_of_budget(changes: dict[str, Any], kind: type) -> None:
    assert isinstance(made(**changes).fit(FRAME).model_.provenance.budget, kind)


def test_scikit_learn_can_clone_it() -> None:
    base = pytest.importorskip("sklearn.base", reason="scikit-learn clones the estimator")
    one = made(options={}, workload=None)
    two = base.clone(one)
    assert two.get_params() == one.get_params()
    assert two.set_params(epsilon=2.0).epsilon == 2.0
    assert one.epsilon == 1.0
    with pytest.raises(WorkloadError, match="beauty"):
        one.set_params(beauty=1)


def test_drawing_before_a_fit_is_an_error_that_both_sides_know() -> None:
    with pytest.raises(WorkloadError, match="call fit first") as caught:
        made().sample(3)
    exceptions = pytest.importorskip("sklearn.exceptions", reason="scikit-learn names the error")
    assert isinstance(caught.value, exceptions.NotFittedError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, exceptions.NotFittedError)
    assert str(again) == str(caught.value)


def test_a_ledger_file_is_the_table_s_memory(tmp_path: Path) -> None:
    one = made(ledger=tmp_path / "t.ledger").fit(FRAME)
    assert one.model_.provenance.spent > 0
    with pytest.raises(BudgetExceeded):
        made(ledger=tmp_path / "t.ledger").fit(FRAME)
    with Ledger.open(tmp_path / "t.ledger") as book:
        assert book.spent <= 1.0


def test_people_with_several_rows_and_workloads() -> None:
    frame = FRAME.assign(person=range(len(FRAME)))
    unit = Unit.add_remove_person("person", max_rows=2)
    fitted = made(method="mst", workload="all-2way", unit=unit, delta=1e-6).fit(frame)
    assert fitted.model_.provenance.unit == unit
    assert len(fitted.model_.measurements) > 1


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"schema": None}, WorkloadError, "schema"),
        ({"unit": None}, BudgetError, "protected"),
        ({"epsilon": None}, BudgetError, "exactly one"),
        ({"rho": 0.1}, BudgetError, "exactly one"),
        ({"epsilon": None, "rho": 0.1, "delta": 1e-6}, BudgetError, "exactly one"),
        ({"workload": "all-2way"}, WorkloadError, "workload"),
    ],
)
def test_refusals_come_before_anything_is_read(
    changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        made(**changes).fit("no such file.csv")


def test_sampling_before_fitting() -> None:
    with pytest.raises(WorkloadError, match="fit first"):
        made().sample(3)


def test_sdgym_s_two_functions() -> None:
    fitted = get_trained_synthesizer(FRAME, {"columns": {}}, method="independent")
    drawn = sample_from_synthesizer(fitted, 25)
    assert len(drawn) == 25
    assert list(drawn.columns) == list(FRAME.columns)
    assert set(drawn["ward"].dropna()) <= set(FRAME["ward"].dropna())
    assert isinstance(fitted.model_.provenance.budget, ApproxDP)
    other = get_trained_synthesizer(FRAME, None, method="independent", rho=0.1, schema=SCHEMA)
    assert isinstance(other.model_.provenance.budget, ZCDP)


def test_everything_shows_itself_in_a_notebook() -> None:
    fitted = made(method="mst", delta=1e-6).fit(FRAME)
    model = fitted.model_
    shown = model._repr_html_()
    assert model.measurements[0].clique[0] in shown
    assert "approximate differential privacy" in shown
    assert "stay_days" in SCHEMA._repr_html_()
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="<b>t</b>")
    assert "<b>" not in ledger._repr_html_()
    picture = model.plot(of=model.sample(100, seed=1))
    assert picture._repr_html_().count("<svg") == len(SCHEMA.names)
    assert "measured" in str(model.plot(["ward"]))


# ------------------------------------------------------------------ scikit-learn


CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_valid_tag_types",
    "check_mixin_order",
)
"""Those of scikit-learn's checks that fit no table of numbers: without a schema nothing can be fitted."""


@pytest.mark.parametrize("name", CHECKS)
def test_scikit_learn_s_own_checks(name: str) -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks", reason="scikit-learn checks the estimator")
    check = getattr(checks, name, None)
    if check is None:
        pytest.skip(f"this version of scikit-learn has no {name}")
    check("TableSynthesizer", made())


def test_it_ends_a_pipeline_whose_parameters_can_be_set() -> None:
    pipeline = pytest.importorskip("sklearn.pipeline", reason="scikit-learn has pipelines")
    base = pytest.importorskip("sklearn.base")
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils.validation import check_is_fitted

    steps = [("whole", FunctionTransformer(_complete)), ("synth", made())]
    line = pipeline.Pipeline(steps).set_params(synth__epsilon=3.0)
    again = base.clone(line).fit(FRAME)
    check_is_fitted(again)
    fitted = again.named_steps["synth"]
    assert fitted.model_.provenance.budget == PureDP(3.0)
    assert list(fitted.feature_names_in_) == list(SCHEMA.names)
    assert fitted.n_features_in_ == len(SCHEMA.names)
    assert len(fitted.sample(20, seed=1)) == 20
    assert not hasattr(line.named_steps["synth"], "model_")
    assert "Not fitted yet" in line.named_steps["synth"]._repr_html_()


def _complete(frame: Any) -> Any:
    return frame.dropna(how="all")


def test_a_target_is_one_more_column() -> None:
    columns = FRAME.drop(columns="ward")
    fitted = made(epsilon=50.0).fit(columns, FRAME["ward"])
    assert set(fitted.sample(50, seed=1)["ward"].dropna()) <= {"day", "general", "intensive"}
    for other in (FRAME["ward"].to_numpy(), FRAME["ward"].rename("nothing"), FRAME["ward"].head(3)):
        with pytest.raises(WorkloadError, match=r"y is taken as|same index"):
            made().fit(columns, other)
    with pytest.raises(WorkloadError, match="one more column"):
        made().fit(FRAME, FRAME["ward"])


def test_conditions_and_fixed_columns_from_the_estimator() -> None:
    fitted = made(method="mst", delta=1e-6).fit(FRAME)
    assert set(fitted.sample(20, where="ward == 'day'", seed=1)["ward"]) == {"day"}
    given = FRAME[["ward"]].dropna().head(5)
    assert list(fitted.sample(given=given, seed=1)["ward"]) == list(given["ward"])


def test_memory_is_a_word_for_the_ledger_here_as_in_synthesize() -> None:
    assert made(ledger="memory").fit(FRAME).model_.provenance.spent > 0


def test_it_is_pickled_with_its_model() -> None:
    fitted = made().fit(FRAME)
    assert pickle.loads(pickle.dumps(fitted)).sample(5, seed=1).equals(fitted.sample(5, seed=1))


# ------------------------------------------------------------------ displays

HOSTILE = "<script>alert('x')</script>"


def test_displays_escape_what_others_wrote() -> None:
    described = Schema.parse(
        f'{{name: "{HOSTILE}", description: "{HOSTILE}", columns: [{{name: "{HOSTILE}", kind: categorical, values: ["{HOSTILE}", b], '
        f'description: "{HOSTILE}"}}, {{name: second, kind: boolean}}]}}'
    )
    frame = pd.DataFrame({HOSTILE: [HOSTILE, "b"] * 200, "second": [True, False] * 200})
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=PureDP(2.0), unit=unit, table=HOSTILE)
    result = synthesize(frame, schema=described, unit=unit, epsilon=1.0, method="independent", ledger=ledger)
    assert result.frame is not None
    found = evaluate(frame, result.frame, schema=described, sections=["marginals", "dependence"])
    advice = advise(described, unit=unit, method="independent", epsilon=1.0, rows=400)
    plan = create("independent").plan(described, unit=unit, budget=PureDP(1.0))
    shown = {
        "schema": described._repr_html_(),
        "plan": plan._repr_html_(),
        "advice": advice._repr_html_(),
        "model": result.model._repr_html_(),
        "ledger": ledger._repr_html_(),
        "synthesis": result._repr_html_(),
        "evaluation": found._repr_html_(),
        "evaluation with numbers": str(found.show()),
        "estimator": made(schema=described, workload=HOSTILE)._repr_html_(),
        "picture of a model": str(result.model.plot()),
        "spending": plots.spending(ledger).svg,
        "errors": plots.errors(found).svg,
        "pairs": plots.pairs(found).svg,
        "marginals": plots.marginals({HOSTILE: frame, "model": result.model}, described).svg,
        "frontier": plots.frontier(advice).svg,
    }
    for name, text in shown.items():
        assert "<script" not in text, name
        parse_html(text, name)
    assert all(
        "&lt;script" in shown[name]
        for name in ("schema", "plan", "model", "ledger", "evaluation with numbers", "pairs", "marginals")
    )


def parse_html(text: str, name: str) -> None:
    """Every tag that is opened is closed."""
    ElementTree.fromstring(f"<div>{text}</div>")


def test_an_evaluation_shows_numbers_only_where_they_are_asked_for() -> None:
    """A notebook that is saved keeps what it shows, so the display that comes by itself holds none of the exact numbers."""
    found = evaluate(FRAME, FRAME.head(150), schema=SCHEMA)
    for text in (found._repr_html_(), repr(found)):
        assert not re.search(r"\d\.\d", text)
        assert str(len(FRAME)) not in text
    assert "as private as they are" in found._repr_html_()
    assert f"{found.score('columns').value:.4g}" in str(found.show())
    assert "as private as they are" in str(found.show())


def test_the_plan_of_a_release_shows_itself() -> None:
    spec = Spec.parse(
        """
        name: tiny
        source: {simulate: {table: toy, rows: 2000}}
        schema: {columns: [{name: smokes, kind: boolean}, {name: "<i>", kind: boolean}]}
        unit: replace-one
        synthesizers: [{method: gaussian, options: {workload: all-2way}}]
        acceptance:
          form: pass-only
          epsilon: 0.5
          criteria: [{name: "c <b>", kind: max-marginal-error, threshold: 0.1}]
        selection: {rule: single}
        budget: {total: {epsilon: 1.5}, model: {epsilon: 1}}
        """
    )
    shown = plan_release(spec, rows=2_000)._repr_html_()
    parse_html(shown, "plan of a release")
    assert "<b>" not in shown
    assert "max-marginal-error" in shown
    assert "1.5" in shown


def test_a_share_of_the_budget_takes_the_place_of_a_schema(tmp_path: Path) -> None:
    """As `synthesize(discover=...)`: one ledger pays for both parts, and no more than the budget."""
    frame = pd.concat([FRAME] * 20, ignore_index=True).astype(str)
    ledger = tmp_path / "table.ledger"
    fitted = made(schema=None, discover=0.3, epsilon=20.0, delta=1e-6, ledger=ledger).fit(frame)
    assert set(fitted.feature_names_in_) <= set(frame.columns)
    assert fitted.n_features_in_ == len(fitted.model_.schema.names) > 0
    assert {column.origin for column in fitted.model_.schema.columns} == {"measured"}
    assert len(fitted.sample(5, seed=1)) == 5
    with Ledger.open(ledger) as paid:
        purposes = [entry.purpose or "" for entry in paid.entries()]
        assert any("look like" in words for words in purposes)
    with pytest.raises(BudgetExceeded):
        made(schema=None, discover=0.3, epsilon=20.0, delta=1e-6, ledger=ledger).fit(frame)


def test_discovery_in_the_estimator_has_the_rules_of_the_command() -> None:
    with pytest.raises(WorkloadError, match=r"discover=0\.1"):
        made(schema=None).fit(FRAME)
    with pytest.raises(UsageError, match="numbers_only"):
        made(schema=None, discover=0.3).fit(FRAME)
    with pytest.raises(BudgetError, match="between 0 and 1"):
        made(schema=None, discover=1.0, delta=1e-6).fit(FRAME)


def test_a_schema_file_and_a_mapping_for_people_are_taken_as_by_synthesize(tmp_path: Path) -> None:
    SCHEMA.write(tmp_path / "toy.yaml")
    fitted = made(schema=str(tmp_path / "toy.yaml")).fit(FRAME.drop(columns="ward"), FRAME["ward"])
    assert fitted.model_.schema == SCHEMA
    with pytest.raises(WorkloadError, match="y is taken as one more column"):
        made(schema=tmp_path / "toy.yaml").fit(FRAME, FRAME["ward"].rename("nothing"))
    people = FRAME.assign(patient=[number % 100 for number in range(len(FRAME))])
    unit = {"relation": "add-remove", "id_column": "patient", "max_rows": 3}
    by_people = made(schema=tmp_path / "toy.yaml", unit=unit).fit(people)
    assert by_people.model_.provenance.unit == Unit.add_remove_person("patient", max_rows=3)


def test_rows_is_the_word_for_how_many_and_n_still_works() -> None:
    fitted = made().fit(FRAME)
    for draw, name in ((fitted.sample, "TableSynthesizer"), (fitted.model_.sample, "Model")):
        with pytest.warns(DeprecationWarning, match=rf"{name}\.sample\(n=\.\.\.\) is deprecated") as seen:
            old = draw(n=20, seed=1)
        assert [item.filename for item in seen] == [__file__]
        assert old.equals(draw(rows=20, seed=1))
        assert old.equals(draw(20, seed=1))
        with pytest.raises(TypeError, match="two words for one thing"):
            draw(rows=20, n=20)
