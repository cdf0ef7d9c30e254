"""The registry of criteria: own kinds and those of other packages, which can be wrong in their own ways."""

from __future__ import annotations

import ast
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar, Literal, cast

import numpy as np
import pytest
from pydantic import Field
from spec_examples import CRITERIA, people, small_spec

from understudy.curator import Curator
from understudy.data import LocalTable, Table
from understudy.errors import (
    BudgetError,
    DataError,
    LookFailed,
    MissingExtra,
    SchemaError,
    UnknownMethod,
    UnusableMethod,
    WorkloadError,
)
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.exact_floats import float_up
from understudy.release import ConditionalMedians, Criterion, RecordTypes, largest_moves
from understudy.release.criteria import (
    CriterionConfig,
    CriterionContext,
    criterion_kind,
    criterion_kinds,
    registry,
)
from understudy.release.look import seal_numbers
from understudy.release.rehearsal.rehearsal import rehearse
from understudy.release.result import ReleaseResult
from understudy.release.run.planning import plan_release
from understudy.release.run.run import run_release
from understudy.release.spec.spec import Spec
from understudy.schema import Domain, Schema

# ---------------------------------------------------------------------- a criterion in one place


class PeakConfig(CriterionConfig):
    """Error of the count of the most frequent value of a column."""

    family: ClassVar[str] = "Error of a peak"

    kind: Literal["peak"]
    column: str = Field(description="The column that is looked at.")

    def build(self, context: CriterionContext) -> Peak:
        if self.column not in context.schema.names:
            raise WorkloadError(f"no peak without a column: {self.column!r}")
        return Peak(name=self.name, threshold=self.threshold, column=self.column)


@dataclass(frozen=True, kw_only=True)
class Peak(Criterion):
    """A maximum of counts, which a step moves by at most one; over the public number of rows."""

    column: str

    def value(self, real: RecordTypes, synthetic: RecordTypes) -> float:
        return float(self.released_value(real, synthetic))

    def released_value(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        return Fraction(self._apart(real, synthetic), synthetic.rows)

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        return float_up(Fraction(unit.max_rows, n))

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        return Fraction(synthetic.rows * self.threshold) - self._apart(real, synthetic)

    def _apart(self, real: RecordTypes, synthetic: RecordTypes) -> int:
        one, two = (int(table.marginal((self.column,)).max(initial=0)) for table in (real, synthetic))
        return abs(one - two)


class Unnamed(CriterionConfig):
    """Says no kind."""


Install = Callable[..., None]
HERE = f"{__name__}:"


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Pretend that packages with these entry points are installed."""

    def install(**points: str) -> None:
        found = [
            EntryPoint(name.replace("_", "-"), value, "understudy.criteria") for name, value in points.items()
        ]
        monkeypatch.setattr(registry, "entry_points", lambda group: found)
        registry._outside.cache_clear()

    yield install
    registry._outside.cache_clear()


def with_peak(form: str, **entries: object) -> Spec:
    peak = {"name": "top", "kind": "peak", "column": "age", "threshold": 0.3, **entries}
    if form == "published":
        acceptance = {"form": form, "criteria": [peak | {"epsilon": 1.0}]}
    else:
        acceptance = {"form": form, "epsilon": 1.0, "criteria": [peak]}
    return small_spec(acceptance=acceptance)


@pytest.mark.parametrize("form", ["published", "pass-only"])
def test_a_criterion_from_elsewhere_is_planned_and_judged(
    outside: Install, tmp_path: Path, form: str
) -> None:
    outside(peak=f"{HERE}PeakConfig")
    spec = with_peak(form)
    (planned,) = plan_release(spec, rows=600).criteria
    assert (planned.kind, planned.type, planned.metric) == ("peak", "Error of a peak", "top")
    assert planned.form == form
    if form == "published":
        assert planned.sensitivity == pytest.approx(1 / 600)
        assert planned.recommended_threshold is not None
    else:
        assert planned.needs == "depends on the table; rehearse"
    result = run_release(
        spec, ledger=tmp_path / "people.ledger", source=people(), randomness=SeededRandomness(3)
    )
    assert isinstance(result, ReleaseResult)
    (told,) = result.criteria
    assert told.passed
    assert (told.kind, told.epsilon) == ("peak", 1.0 if form == "published" else None)
    assert told.mechanism == ("laplace" if form == "published" else "slack test")


def test_its_claims_hold_on_neighbours() -> None:
    criterion = Peak(name="top", threshold=0.3, column="a")
    for unit in (Unit.add_remove(), Unit.replace_one(), Unit.replace_person("id", max_rows=2)):
        moves = largest_moves(criterion, Domain(("a", "b"), (3, 2)), unit=unit, pairs=200)
        assert 0.9 < moves.value <= 1
        assert moves.slack <= 1


class HalfConfig(PeakConfig):
    def build(self, context: CriterionContext) -> Peak:
        return Half(name=self.name, threshold=self.threshold, column=self.column)


@dataclass(frozen=True, kw_only=True)
class Half(Peak):
    """Claims half of what a step can move."""

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        return super().sensitivity(unit, n, synthetic) / 2


@pytest.mark.parametrize("form", ["published", "pass-only"])
def test_a_criterion_from_elsewhere_that_claims_too_little_is_refused_before_anything_is_charged(
    outside: Install, tmp_path: Path, form: str
) -> None:
    """Before, the claim was charged for as it stood."""
    outside(peak=f"{HERE}HalfConfig")
    path = tmp_path / "people.ledger"
    with pytest.raises(BudgetError, match=r"'top' .*Half\) claims too little: .* by 2 times its sensitivity"):
        run_release(with_peak(form), ledger=path, source=people(), randomness=SeededRandomness(3))
    if path.exists():
        with Ledger.open(path) as book:
            assert not book.charged


class RoundedConfig(PeakConfig):
    def build(self, context: CriterionContext) -> Peak:
        return Rounded(name=self.name, threshold=self.threshold, column=self.column)


@dataclass(frozen=True, kw_only=True)
class Rounded(Peak):
    """Gives doubles for exact numbers."""

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> float:  # type: ignore[override]
        return float(super().slack(real, synthetic)) + 0.1


def test_a_criterion_from_elsewhere_whose_slack_is_a_double_is_refused_before_anything_is_charged(
    outside: Install, tmp_path: Path
) -> None:
    outside(peak=f"{HERE}RoundedConfig")
    path = tmp_path / "people.ledger"
    with pytest.raises(BudgetError, match=r"slack of the criterion 'top' .*Rounded\) is a double"):
        run_release(with_peak("pass-only"), ledger=path, source=people(), randomness=SeededRandomness(3))
    if path.exists():
        with Ledger.open(path) as book:
            assert not book.charged


class MisspeltConfig(PeakConfig):
    def build(self, context: CriterionContext) -> Peak:
        return Misspelt(name=self.name, threshold=self.threshold, column=self.column)


@dataclass(frozen=True, kw_only=True)
class Misspelt(Peak):
    """Asks tables for something that has another name."""

    def slack(self, real: RecordTypes, synthetic: RecordTypes) -> Fraction:
        return Fraction(int(real.marginals((self.column,)).max()))  # type: ignore[attr-defined]


class UnplannedConfig(PeakConfig):
    def build(self, context: CriterionContext) -> Peak:
        return Unplanned(name=self.name, threshold=self.threshold, column=self.column)


@dataclass(frozen=True, kw_only=True)
class Unplanned(Peak):
    """Its claim has a fault."""

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        return unit.rows / n  # type: ignore[attr-defined, no-any-return]


def test_a_criterion_from_elsewhere_with_a_fault_is_refused_with_its_place_before_anything_is_charged(
    outside: Install, tmp_path: Path
) -> None:
    """Before, it ended in a fault of Understudy: in a release after the charge, in a rehearsal somewhere in joblib."""
    outside(peak=f"{HERE}MisspeltConfig")
    path, spec = tmp_path / "people.ledger", with_peak("pass-only")
    said = rf"'top' does not work: a trial on made-up tables ended in AttributeError \(.*did you mean 'marginal'\?\) at {__name__}:\d+\. Nothing was"
    with pytest.raises(UnusableMethod, match=said):
        run_release(spec, ledger=path, source=people(), randomness=SeededRandomness(3))
    if path.exists():
        with Ledger.open(path) as book:
            assert not book.charged
    with pytest.raises(UnusableMethod, match=said):
        rehearse(spec, people(), trials=1, jobs=1)


def test_a_fault_in_the_plan_of_a_criterion_from_elsewhere_is_shown(outside: Install) -> None:
    outside(peak=f"{HERE}UnplannedConfig")
    said = rf"'top' does not work: its plan, from public facts alone, ended in AttributeError \(.*'rows'.* at {__name__}:\d+\."
    with pytest.raises(UnusableMethod, match=said):
        plan_release(with_peak("published"), rows=600)


def test_a_refusal_by_a_criterion_does_not_say_what_is_in_the_table() -> None:
    """Before, an error of the package's own raised inside the function was handed on with its text, and nothing was charged."""
    schema = Schema.parse("columns: [{name: a, kind: boolean}]")
    unit = Unit.add_remove()
    book = Ledger.in_memory(budget=PureDP(1.0), unit=unit)
    curator = Curator(LocalTable(schema, {"a": np.array([0, 1, 1])}), unit=unit, ledger=book)
    for kind in (DataError, WorkloadError, BudgetError, SchemaError, OverflowError, KeyError):

        def fails(table: Table, kind: type[Exception] = kind) -> list[float]:
            raise kind(f"counts {table.count_many([('a',)])[0].tolist()}")

        with pytest.raises(LookFailed) as caught:
            seal_numbers(curator, fails, sensitivities=[1.0])
        assert "2" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    assert not book.charged


def test_what_is_no_number_is_not_shown_either() -> None:
    """Before, it was turned into a number after the function had ended: the error had it word for word."""
    schema = Schema.parse("columns: [{name: a, kind: boolean}]")
    unit = Unit.add_remove()
    book = Ledger.in_memory(budget=PureDP(1.0), unit=unit)
    curator = Curator(LocalTable(schema, {"a": np.array([0, 1, 1])}), unit=unit, ledger=book)
    for wrong in ("2 records of Ada", None, 2j, [2], Decimal("NaN")):
        with pytest.raises(LookFailed) as caught:
            seal_numbers(curator, lambda table, wrong=wrong: [wrong], sensitivities=[1.0])  # type: ignore[misc]
        assert "2" not in str(caught.value)
        assert caught.value.__context__ is None

    def short_of_memory(table: Table) -> list[float]:
        raise MemoryError(f"Unable to allocate an array with shape {table.exact_row_count()}")

    with pytest.raises(MemoryError) as lack:
        seal_numbers(curator, short_of_memory, sensitivities=[1.0])
    assert "3" not in str(lack.value)
    assert lack.value.__context__ is None


@dataclass(frozen=True, kw_only=True)
class TwoClaims(Peak):
    """Shows made-up neighbours another sensitivity than it is charged for."""

    def sensitivity(self, unit: Unit, n: int, synthetic: RecordTypes | None = None) -> float:
        return 1e-9

    def published_sensitivities(self, unit: Unit, synthetic: RecordTypes) -> list[float]:
        return [1.0]


def test_what_is_charged_is_what_was_tried() -> None:
    """Before, a criterion was tried with its `published_sensitivities` and charged for its `sensitivity`."""
    schema = Schema.parse("columns: [{name: a, kind: boolean}]")
    unit = Unit.add_remove()
    book = Ledger.in_memory(budget=PureDP(1.0), unit=unit)
    curator = Curator(LocalTable(schema, {"a": np.array([0, 1, 1])}), unit=unit, ledger=book)
    synthetic = RecordTypes.from_rows(Domain(("a",), (2,)), np.array([[0], [1]]))
    criterion = TwoClaims(name="top", threshold=0.3, column="a")
    reach = criterion.sensitivity(unit, 2, synthetic)
    with pytest.raises(BudgetError, match="less than the published_sensitivities"):
        criterion.release(curator, synthetic, epsilon=0.5, sensitivity=reach)
    assert not book.charged


def test_what_does_not_fit_is_refused_before_the_table_is_read() -> None:
    criterion = ColumnPeak(name="top", threshold=0.3, column="b")
    synthetic = RecordTypes.from_rows(Domain(("a",), (2,)), np.array([[0], [1]]))
    with pytest.raises(WorkloadError, match="no column"):
        criterion.sealed(cast(Curator, None), synthetic, sensitivities=[1.0])


@dataclass(frozen=True, kw_only=True)
class ColumnPeak(Peak):
    def problems(self, domain: Domain) -> list[str]:
        return [] if self.column in domain else ["no column"]


def test_what_is_chosen_by_is_tried_too() -> None:
    """Before, `largest_moves` compared the error of a median with the sensitivity of its scores."""
    median = ConditionalMedians(name="m", threshold=1.0, column="a", values=(0.0, 1.0, 5.0))
    for unit in (Unit.add_remove(), Unit.replace_one()):
        moves = largest_moves(median, Domain(("a", "b"), (3, 2)), unit=unit, pairs=200)
        assert 0.25 < moves.value <= 1
        assert moves.slack <= 1


def test_what_does_not_fit_is_told_with_its_place(outside: Install) -> None:
    outside(peak=f"{HERE}PeakConfig")
    with pytest.raises(
        SchemaError, match=r"acceptance.criteria\[0\] 'top': no peak without a column: 'agee'"
    ):
        with_peak("published", column="agee")
    with pytest.raises(SchemaError, match=r"acceptance.criteria\[0\]: unknown key 'colum'"):
        with_peak("published", colum="age")
    with pytest.raises(SchemaError, match=r"acceptance.criteria\[0\].threshold: must be above 0"):
        with_peak("published", threshold=0)


def test_a_package_that_cannot_be_used_is_named_when_it_is_asked_for(outside: Install) -> None:
    outside(peak="no_such_module:Peak", dull=f"{HERE}Unnamed", gone=f"{HERE}nothing")
    assert small_spec().criteria  # others are not disturbed
    with pytest.raises(SchemaError, match=r"criteria\[0\]: peak of the package 'unknown' cannot be imported"):
        with_peak("published")
    with pytest.raises(MissingExtra):
        criterion_kind("peak")
    for kind in ("dull", "gone"):
        with pytest.raises(UnknownMethod, match="which is not a CriterionConfig with kind"):
            criterion_kind(kind)


def test_a_kind_of_our_own_stays_ours_and_a_wrong_one_gets_a_hint(outside: Install) -> None:
    outside(faithfulness=f"{HERE}PeakConfig", peak=f"{HERE}PeakConfig")
    assert criterion_kind("faithfulness").__module__ == "understudy.release.criteria.matching"
    with pytest.raises(UnknownMethod, match=r"No criterion of kind 'peek'. Did you mean 'peak'\?"):
        criterion_kind("peek")


def test_the_json_schema_has_what_is_installed(outside: Install) -> None:
    outside(peak=f"{HERE}PeakConfig")
    assert "column" in Spec.json_schema()["$defs"]["peak"]["properties"]
    outside()
    assert "peak" not in Spec.json_schema()["$defs"]


# ---------------------------------------------------------------------- Understudy's own

EVERY = small_spec(acceptance__criteria=CRITERIA)
CONTEXT = CriterionContext(schema=EVERY.schema)


def _kinds(source: str) -> set[str]:
    """The kinds that the configurations of a file narrow themselves to."""
    return {
        ast.literal_eval(item.annotation.slice)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and item.target.id == "kind"
        and isinstance(item.annotation, ast.Subscript)
        and isinstance(item.annotation.slice, ast.Constant)
    }


def test_every_criterion_in_the_folder_has_its_line() -> None:
    folder = Path(registry.__file__).parent
    written = {kind for path in folder.glob("*.py") for kind in _kinds(path.read_text(encoding="utf-8"))}
    assert written == set(registry.OWN_KINDS)
    assert len(written) == len(registry._CRITERIA)


def test_nothing_outside_the_folder_knows_a_kind_by_name() -> None:
    """No ladder over kinds, and none over classes, in what plans, judges, rehearses, reads and documents."""
    release = Path(registry.__file__).parents[1]
    known = set(registry.OWN_KINDS) - {"k-anonymity"}  # a projection has that name too
    classes = {type(item.build(CONTEXT)).__name__ for item in EVERY.criteria}
    assert len(classes) == len(CRITERIA)
    for path in release.rglob("*.py"):
        if path.parent.name == "criteria":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not known & {word for word in strings if isinstance(word, str)}, path.name
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "isinstance"
            ):
                named = {item.id for item in ast.walk(node.args[1]) if isinstance(item, ast.Name)}
                assert not named & classes, path.name


def test_configurations_are_read_as_they_were_given() -> None:
    for given, item in zip(CRITERIA, EVERY.criteria, strict=True):
        assert json.loads(item.model_dump_json(exclude_unset=True)) == given
        assert item.kind in criterion_kinds()


def test_a_specification_can_be_sent_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(EVERY))
    assert copy.fingerprint() == EVERY.fingerprint()
    assert copy.criteria == EVERY.criteria
    assert copy.file.public == EVERY.file.public
    assert "row_count" not in copy.file.public.model_fields_set
