"""One suite for every registered mechanism: what each of them owes its users.

Mechanisms of other installed packages are checked too. One mechanism alone: ``pytest tests/contract -k NAME``.
"""

from __future__ import annotations

import importlib.util
import io
import math
import re
import sys
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from contract_cases import CANARY, MIXED, VARIANTS, case_of, made

from ledger_referee import recompute
from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import BudgetError, BudgetExceeded, DomainNotPublic, NoSuchGuarantee, UnderstudyError
from understudy.marginals import Measurement, all_kway, workload_error
from understudy.mechanisms import Model, Synthesizer, load_model, method, methods
from understudy.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Budget,
    Event,
    Gaussian,
    Laplace,
    Ledger,
    PureDP,
    SeededRandomness,
    Unit,
    accounting_for,
)
from understudy.privacy.accounting.accounting import PURE
from understudy.schema import Schema
from walls import files_of, trespasses

NO_TORCH = importlib.util.find_spec("torch") is None
METHODS = [
    pytest.param(
        item.name,
        marks=[pytest.mark.skip(reason=f"{item.name} needs torch: pip install 'understudy[deep]'")]
        if NO_TORCH and item.extra == "deep"
        else [],
    )
    for item in methods()
]
EVERY = [*METHODS, *VARIANTS]
LEAST_SPENT = {"rap: published": 0.3}
"""Cells of one marginal that are measured together cost less than what the published mechanism reserves for each."""
BUDGETS: dict[str, Budget] = {
    "pure": PureDP(1.0),
    "approximate": ApproxDP(1.0, 1e-6),
    "zcdp": ZCDP(0.1),
    "gdp": GDP(0.5),
}
UNITS = {
    "add-remove": Unit.add_remove(),
    "replace-one": Unit.replace_one(),
    "person": Unit.add_remove_person("person", max_rows=2),
    "replaced person": Unit.replace_person("person", max_rows=2),
}


def synthesizer(name: str) -> Synthesizer:
    return made(name)


def accepts(name: str, budget: Budget) -> bool:
    return isinstance(budget, synthesizer(name).budgets)


def ledger_for(name: str, budget: Budget, unit: Unit) -> Ledger:
    """Make the ledger that the command line would make for a method: with the reserve the method asks for."""
    reserve = synthesizer(name).reserve(case_of(name).schema, budget)
    return Ledger.in_memory(budget=budget, unit=unit, table="contract", approximate_delta=reserve)


def curator_for(
    name: str, data: pd.DataFrame, budget: Budget, unit: Unit, *, seed: int | None = 1
) -> Curator:
    table = read_table(data, case_of(name).schema, id_column=unit.id_column)
    book = ledger_for(name, budget, unit)
    return Curator(table, unit=unit, ledger=book, randomness=None if seed is None else SeededRandomness(seed))


def fit(
    name: str, budget: Budget, unit: Unit, *, n: int = 400, seed: int | None = 1
) -> tuple[Model, Curator]:
    case = case_of(name)
    curator = curator_for(name, case.frame(n), budget, unit, seed=seed)
    before = _standing(curator)
    model = synthesizer(name).fit(curator, budget)
    assert _standing(curator) == before, f"{name} changed the total or the facts of the ledger"
    return model, curator


def _standing(curator: Curator) -> tuple[object, ...]:
    """What a fit has to leave as it was: charges are all that it adds."""
    ledger = curator.ledger
    return ledger.budget, ledger.totals(), ledger.facts, ledger.invariants()


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", EVERY)
def test_spends_what_it_was_given_and_never_more(name: str, unit: str, budget: str) -> None:
    given = BUDGETS[budget]
    if not accepts(name, given):
        with pytest.raises(NoSuchGuarantee):
            fit(name, given, UNITS[unit])
        return
    model, curator = fit(name, given, UNITS[unit])
    ways = {way.name: way.total(given) for way in synthesizer(name).accountings(given)}
    spent, total = model.provenance.spent, ways[model.provenance.accounting]
    assert spent <= total
    assert spent >= LEAST_SPENT.get(name, 0.9) * total, (
        f"{spent / total:.0%} of the budget was spent; the rest is accuracy thrown away"
    )
    curator.ledger.verify()
    with pytest.raises(BudgetExceeded):
        synthesizer(name).fit(curator, given)


LAWS = {
    "LaplaceEvent": r"Laplace",
    "GaussianEvent": r"(?<!-)Gaussian",
    "SubsampledGaussianEvent": r"(?<!-)Gaussian",
    "SelectionEvent": r"exponential mechanism|draw",
    "PureEvent": r"draw",
    "ApproxEvent": r"draw",
}
"""What a law must say of each kind of act that is charged."""


def _acts(event: Event) -> set[str]:
    """The kinds of acts in an event, parts of groups included."""
    inside = getattr(event, "events", ())
    return set().union(*map(_acts, inside)) if inside else {type(event).__name__}


@pytest.mark.parametrize("name", METHODS)
def test_the_law_of_its_noise_is_what_the_ledger_was_charged_for(name: str) -> None:
    """Whatever a fit was charged for is named by the law, and no noise is named that no budget gets."""
    source = type(synthesizer(name)).source
    if source is None:
        assert method(name).package is not None, f"{name} needs a Source: where it was published, and its law"
        return
    charged: set[str] = set()
    for given in filter(lambda given: accepts(name, given), BUDGETS.values()):
        _, curator = fit(name, given, UNITS["add-remove"])
        for entry in curator.ledger.entries():
            charged |= set() if entry.event is None else _acts(entry.event)
    assert charged <= set(LAWS)
    for kind in charged:
        assert re.search(LAWS[kind], source.law), (
            f"{name} was charged for a {kind}; its law is {source.law!r}"
        )
    for kind in ("LaplaceEvent", "GaussianEvent"):
        if re.search(LAWS[kind], source.law):
            assert {kind, f"Subsampled{kind}"} & charged, f"{source.law!r}: no fit was charged for a {kind}"


EPSILONS = (0.1, 1.0, 8.0, 50.0)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", METHODS)
def test_a_delta_never_makes_a_method_worse(name: str, unit: str) -> None:
    """Whoever may spend epsilon and a delta may also spend epsilon alone, and does so where that has less noise."""
    method, schema = synthesizer(name), case_of(name).schema
    if not {PureDP, ApproxDP} <= set(method.budgets):
        pytest.skip(f"{name} does not take both kinds of budget")
    for epsilon in EPSILONS:
        pure, approximate = PureDP(epsilon), ApproxDP(epsilon, 1e-6)
        chosen = method.accounting(approximate, schema, UNITS[unit])
        assert chosen.name == method.plan(schema, unit=UNITS[unit], budget=approximate).accounting
        if chosen is PURE:
            continue
        assert PURE in method.accountings(approximate), "give the method expected_noise()"
        noise = method.expected_noise(schema, UNITS[unit], chosen, chosen.total(approximate))
        assert noise <= method.expected_noise(schema, UNITS[unit], PURE, PURE.total(pure))


@pytest.mark.parametrize("name", METHODS)
def test_what_is_released_is_not_noisier_with_a_delta(name: str) -> None:
    """The noise that a real fit was charged for, where both budgets pay for as many noisy answers.

    Answers have different units, so deviations are compared by their geometric mean. A method of several kinds of
    answers trades some for others (sequential-regression: histograms for moments), by half as much again at most; taking
    Gaussian noise for one histogram, which this catches, triples the noise at epsilon 1. The number of rows, where it is
    measured, is one answer of several, or left out where it is the only one.
    """
    if not (accepts(name, PureDP(1.0)) and accepts(name, ApproxDP(1.0, 1e-6))):
        pytest.skip(f"{name} does not take both kinds of budget")
    for epsilon in (0.5, 8.0):
        fits = (
            fit(name, budget, UNITS["add-remove"]) for budget in (PureDP(epsilon), ApproxDP(epsilon, 1e-6))
        )
        pure, approximate = (_log_deviations(curator) for _, curator in fits)
        if len(pure) == len(approximate) > 1:
            ratio = np.exp(np.mean(approximate) - np.mean(pure))
            assert ratio <= 1.5, f"epsilon {epsilon}: a delta made the noise {ratio:.3g} times as large"


def _log_deviations(curator: Curator) -> list[float]:
    """Logarithms of the deviations of all noise that the ledger was charged for."""
    kinds = {"laplace": Laplace, "gaussian": Gaussian}
    events = [entry.event.to_dict() for entry in curator.ledger.entries() if entry.event is not None]
    noises = [kinds[kind](scale) for event in events for kind, scale in _noise_scales(event)]
    return [0.5 * float(np.log(noise.variance)) for noise in noises]  # type: ignore[attr-defined]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", EVERY)
def test_the_ledger_paid_for_the_noise_that_was_drawn(name: str, budget: str) -> None:
    given = BUDGETS[budget]
    if not accepts(name, given):
        pytest.skip(f"{name} does not take {budget} budgets")
    model, curator = fit(name, given, UNITS["add-remove"])
    paid = []
    for entry in curator.ledger.entries():
        paid += [] if entry.event is None else _noise_scales(entry.event.to_dict())
    drawn = [(item.noise, item.scale) for item in (*model.measurements, *model.statistics)]  # type: ignore[attr-defined]
    assert recompute(curator.ledger) > 0  # by dp-accounting
    assert drawn, "Fitted has neither measurements nor statistics: say what was released"
    assert len(curator.ledger.entries()) > 1, "nothing was charged"
    for item in drawn:
        if item[0] == "mechanism":
            continue
        assert item in paid, f"{item} is a noise of the model that the ledger was not charged for"
        paid.remove(item)


def _noise_scales(event: object) -> list[tuple[str, float]]:
    """Scales of all noise events inside a recorded event."""
    if not isinstance(event, dict):
        return []
    if event["kind"] == "laplace":
        return [("laplace", event["scale"])]
    if event["kind"] == "gaussian":
        return [("gaussian", event["sigma"])]
    return [scale for part in event.get("events", []) for scale in _noise_scales(part)]


@pytest.mark.parametrize("name", EVERY)
def test_the_charge_comes_before_the_noise(name: str) -> None:
    class Broken(SeededRandomness):
        def words(self, count: int) -> np.ndarray:
            raise RuntimeError("no randomness")

        def bytes(self, count: int) -> bytes:
            raise RuntimeError("no randomness")

    budget = PureDP(1.0) if accepts(name, PureDP(1.0)) else ApproxDP(1.0, 1e-6)
    unit = Unit.add_remove()
    ledger = ledger_for(name, budget, unit)
    case = case_of(name)
    curator = Curator(read_table(case.frame(50), case.schema), unit=unit, ledger=ledger, randomness=Broken(0))
    with pytest.raises(RuntimeError, match=r"no randomness|ended in an error after it was charged"):
        synthesizer(name).fit(curator, budget)
    assert ledger.spent > 0


class Watch:
    """Compares, at each draw of noise from one curator's randomness, what was drawn so far with what its ledger was charged for so far.

    The curator charges for each noise by itself, so there are never more draws of a scale than charges of it (scales that differ by a power of
    two are one: numbers on a grid). A draw by a look may be one of several under one charge, or have a law of its own; that looks charge first is read
    off their source (`tests/unit/curator/test_charge_first.py`).
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ledger: Ledger, randomness: SeededRandomness) -> None:
        self.charged: Counter[tuple[str, float]] = Counter()
        self.drawn: Counter[tuple[str, float]] = Counter()
        self.early: list[str] = []
        charge = Ledger.charge

        def charging(book: Ledger, event: Event, **words: str) -> Any:
            entry = charge(book, event, **words)
            if book is ledger:
                self.charged.update(_key(*scale) for scale in _noise_scales(event.to_dict()))
            return entry

        monkeypatch.setattr(Ledger, "charge", charging)
        for kind in (Laplace, Gaussian):
            monkeypatch.setattr(kind, "draw", self._drawing(kind, randomness))

    def _drawing(self, kind: Any, randomness: SeededRandomness) -> Any:
        draw = kind.draw

        def drawing(noise: Any, shape: Any, source: Any) -> Any:
            by_a_look = Path(sys._getframe(1).f_code.co_filename).name == "look.py"
            if source is randomness and not by_a_look:
                self.drawn[_key(noise.kind, noise.scale)] += 1
                if self.drawn - self.charged:
                    self.early.append(f"{noise} was drawn before it was charged")
            return draw(noise, shape, source)

        return drawing


@pytest.mark.parametrize("name", EVERY)
def test_no_step_of_the_history_has_a_choice_in_its_middle(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is measured after a choice may depend on what was measured before it: error bounds that took both for planned at once would be wrong.

    A history that is left out assumes the worst, which is always right.
    """
    budget = PureDP(1.0) if accepts(name, PureDP(1.0)) else ApproxDP(1.0, 1e-6)
    synthesizer(name).prepare(case_of(name).schema, unit=UNITS["add-remove"], budget=budget)
    choices, after = 0, {}
    choose, measure_many = Curator.choose, Curator.measure_many

    def choosing(curator: Curator, *given: Any, **words: Any) -> int:
        nonlocal choices
        choices += 1
        return choose(curator, *given, **words)

    def measuring(curator: Curator, *given: Any, **words: Any) -> list[Measurement]:
        made = measure_many(curator, *given, **words)
        after.update({_answer_of(item): choices for item in made})
        return made

    monkeypatch.setattr(Curator, "choose", choosing)
    monkeypatch.setattr(Curator, "measure_many", measuring)
    model, _ = fit(name, budget, UNITS["add-remove"])
    if model.history is None:
        return
    assert sum(model.history.batches) == len(model.measurements)
    start = 0
    for number, count in enumerate(model.history.batches, start=1):
        step = model.measurements[start : start + count]
        seen = {after[_answer_of(item)] for item in step if _answer_of(item) in after}
        assert len(seen) <= 1, (
            f"step {number} of the history has {count} measurements, some made before and some after a choice: say how many each step made, "
            "History((before, after)), or leave the history out"
        )
        start += count


def _answer_of(measurement: Measurement) -> tuple[tuple[str, ...], bytes]:
    return measurement.clique, np.asarray(measurement.values, dtype=np.float64).tobytes()


def _key(kind: str, scale: float) -> tuple[str, float]:
    return kind, math.frexp(scale)[0]


@pytest.mark.parametrize("name", EVERY)
def test_each_noise_was_charged_before_it_was_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the first alone: a mechanism may draw its second part before it is charged."""
    budget = PureDP(1.0) if accepts(name, PureDP(1.0)) else ApproxDP(1.0, 1e-6)
    unit, case, randomness = Unit.add_remove(), case_of(name), SeededRandomness(1)
    ledger = ledger_for(name, budget, unit)
    watch = Watch(monkeypatch, ledger, randomness)
    curator = Curator(
        read_table(case.frame(50), case.schema), unit=unit, ledger=ledger, randomness=randomness
    )
    synthesizer(name).fit(curator, budget)
    assert not watch.early, watch.early[0]


def test_the_watch_sees_a_second_part_that_is_drawn_before_it_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`test_the_charge_comes_before_the_noise` sees the first draw alone, and passes this."""
    unit, randomness = Unit.add_remove(), SeededRandomness(1)
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit)
    watch = Watch(monkeypatch, ledger, randomness)
    table = read_table(MIXED.frame(50), MIXED.schema)
    curator = Curator(table, unit=unit, ledger=ledger, randomness=randomness)
    one, two = curator.counts_many([curator.domain.names[:1], curator.domain.names[1:2]])
    curator.measure(one, noise=Laplace(4.0))
    assert not watch.early
    Laplace(4.0).draw(two.shape, curator._randomness)
    assert watch.early
    curator._charge(Laplace(4.0).event(l1=1.0, l2=1.0), purpose="late")
    assert watch.drawn == watch.charged


@pytest.mark.parametrize("name", EVERY)
def test_rows_have_the_schema_and_keep_the_constraints(name: str, tmp_path: Path) -> None:
    budget = ApproxDP(1.0, 1e-6)
    model, _ = fit(name, budget, UNITS["add-remove"])
    schema = case_of(name).schema
    rows = model.sample(500, seed=3)
    assert list(rows.columns) == list(schema.names)
    assert len(rows) == 500
    codes = schema.encode_frame(rows)
    for constraint in schema.constraints:
        assert constraint.holds_codes(codes).all()
    again = model.sample(500, seed=3)
    pd.testing.assert_frame_equal(rows, again)
    assert len(model.sample(0, seed=1)) == 0
    assert sum(len(chunk) for chunk in model.sample_chunks(250, rows_per_chunk=100, seed=1)) == 250


@pytest.mark.parametrize("name", EVERY)
def test_values_inside_bins_and_rare_values_can_be_asked_of_every_model(name: str) -> None:
    model, _ = fit(name, ApproxDP(1.0, 1e-6), UNITS["add-remove"])
    columns = [
        replace(cast(Any, column), decode_by="smooth") if hasattr(column, "decode_by") else column
        for column in model.schema.columns
    ]
    smooth = replace(model, schema=replace(model.schema, columns=tuple(columns)))
    codes = smooth.sample_codes(200, seed=3)
    rows = smooth.sample(200, seed=3)
    back = smooth.schema.encode_frame(rows)
    assert all(back[column].tolist() == codes[column].tolist() for column in back)
    pd.testing.assert_frame_equal(rows, smooth.sample(200, seed=3))
    rare = model.unresolved()
    assert list(rare.columns) == ["column", "value", "expected", "at_most"]
    assert set(rare["column"]) <= set(model.schema.names)
    assert (rare["at_most"] >= 0).all()


@pytest.mark.parametrize("name", EVERY)
def test_the_model_file_holds_no_record_and_no_code(name: str, tmp_path: Path) -> None:
    model, _ = fit(name, ApproxDP(1.0, 1e-6), UNITS["add-remove"])
    path = tmp_path / "model.understudy"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            content = archive.read(entry)
            assert CANARY.encode() not in content
            if entry.endswith(".npy"):
                np.load(io.BytesIO(content), allow_pickle=False)
            else:
                assert entry == "model.json"
    loaded = load_model(path)
    assert loaded.provenance == model.provenance
    pd.testing.assert_frame_equal(model.sample(100, seed=5), loaded.sample(100, seed=5))
    clique = model.schema.names[:2]
    np.testing.assert_allclose(model.marginal(clique), loaded.marginal(clique), rtol=1e-9, atol=1e-9)
    assert CANARY not in repr(model)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("unit", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", EVERY)
def test_tiny_tables_are_tables(name: str, unit: str, rows: int) -> None:
    budget = ApproxDP(1.0, 1e-6)
    case = case_of(name)
    curator = curator_for(name, case.frame(rows), budget, UNITS[unit])
    model = synthesizer(name).fit(curator, budget)
    assert len(model.sample(10, seed=0)) == 10


@pytest.mark.parametrize("name", METHODS)
def test_noise_is_fresh_and_global_state_untouched(name: str) -> None:
    np.random.seed(0)  # noqa: NPY002 - the test is about the global generator
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    one, _ = fit(name, ApproxDP(1.0, 1e-6), UNITS["add-remove"], seed=None)
    two, _ = fit(name, ApproxDP(1.0, 1e-6), UNITS["add-remove"], seed=None)
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]  # noqa: NPY002
    first, second = (
        [item.values for item in (*model.measurements, *model.statistics)]  # type: ignore[attr-defined]
        for model in (one, two)
    )
    same = [a.shape == b.shape and np.array_equal(a, b) for a, b in zip(first, second, strict=False)]
    assert len(first) != len(second) or not all(same)


@pytest.mark.parametrize("name", METHODS)
def test_error_falls_as_the_budget_grows(name: str) -> None:
    """One-way error must shrink by far between epsilon .02 and 20 on 2,000 rows.

    At epsilon .02 each of at least 3 one-way cells carries noise of at least 50 rows in scale; at 20
    it is below one row. The factor 2 asked for here is far inside that gap for every method.
    """
    case = case_of(name)
    workload = all_kway(case.schema.domain, 1)
    data = case.frame(2_000, seed=4)
    exact = read_table(data, case.schema).count_many(workload.cliques)
    errors = []
    for epsilon in (0.02, 20.0):
        budget = ApproxDP(epsilon, 1e-6)
        model = synthesizer(name).fit(curator_for(name, data, budget, Unit.add_remove()), budget)
        made = read_table(model.sample(2_000, seed=1), case.schema).count_many(workload.cliques)
        errors.append(workload_error(workload, exact, made, n_rows=2_000))
    assert errors[1] < errors[0] / 2, (
        f"one-way error {errors[0]:.3f} at epsilon .02 and {errors[1]:.3f} at 20"
    )
    assert errors[1] < 0.12, f"one-way error {errors[1]:.3f} at epsilon 20"


@pytest.mark.parametrize("name", METHODS)
def test_refuses_a_schema_read_from_the_data(name: str) -> None:
    from understudy.data import draft_schema

    case = case_of(name)
    drafted = draft_schema(case.frame(100)[list(case.schema.names)], name="draft")
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=unit, table="contract")
    with pytest.raises(DomainNotPublic):
        Curator(read_table(case.frame(100), drafted), unit=unit, ledger=ledger)
    assert ledger.spent == 0


@pytest.mark.parametrize("name", METHODS)
def test_a_fit_the_ledger_cannot_pay_spends_nothing(name: str) -> None:
    small, large = ApproxDP(0.5, 1e-6), ApproxDP(1.0, 1e-6)
    case = case_of(name)
    curator = curator_for(name, case.frame(100), small, Unit.add_remove())
    with pytest.raises(BudgetExceeded):
        synthesizer(name).fit(curator, large)
    assert curator.ledger.spent == 0


@pytest.mark.parametrize("name", METHODS)
def test_plan_needs_no_records(name: str) -> None:
    budget = ApproxDP(1.0, 1e-6)
    plan = synthesizer(name).plan(case_of(name).schema, unit=Unit.add_remove(), budget=budget)
    assert plan.model_cells > 0
    assert plan.method == name
    assert plan.accounting in {"pure", "zcdp", "gdp"}
    assert accounting_for(budget).name == "gdp"


MOST_CELLS = 1 << 28
"""Two gigabytes of numbers: no model is to hold more."""


@pytest.mark.parametrize("name", METHODS)
def test_a_table_beyond_memory_is_refused_or_planned_within_it(name: str) -> None:
    """Four columns of 100,000 codes: the pairs alone have 10^10 cells each."""
    columns = ", ".join(f"{{name: c{i}, kind: integer, minimum: 0, maximum: 99999}}" for i in range(4))
    wide = Schema.parse(f"{{name: wide, columns: [{columns}]}}")
    try:
        plan = synthesizer(name).plan(wide, unit=Unit.add_remove(), budget=ApproxDP(1.0, 1e-6))
    except UnderstudyError:
        return
    cells = max([plan.model_cells, *(item.cells for item in plan.measurements)])
    assert cells <= MOST_CELLS, (
        f"the plan has {cells:.2g} cells; raise DomainTooLarge, so that nothing is spent"
    )


@pytest.mark.parametrize(
    "columns",
    [
        "{name: a, kind: boolean}",
        "{name: a, kind: categorical, values: [x]}, {name: b, kind: integer, minimum: 0, maximum: 9}",
    ],
    ids=["one column", "one value"],
)
@pytest.mark.parametrize("name", METHODS)
def test_the_smallest_schemas_are_served_or_refused_before_anything_is_spent(name: str, columns: str) -> None:
    """What a plan accepts, a fit can do: errors after the first charge cost the user a budget."""
    schema, budget, unit = (
        Schema.parse(f"{{name: small, columns: [{columns}]}}"),
        ApproxDP(1.0, 1e-6),
        Unit.add_remove(),
    )
    generator = np.random.default_rng(2)
    frame = pd.DataFrame({"a": np.full(60, "x"), "b": generator.integers(0, 10, 60)})
    if schema.names == ("a",):
        frame = pd.DataFrame({"a": generator.random(60) < 0.3})
    try:
        synthesizer(name).plan(schema, unit=unit, budget=budget)
    except UnderstudyError:
        return
    reserve = synthesizer(name).reserve(schema, budget)
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="small", approximate_delta=reserve)
    model = synthesizer(name).fit(Curator(read_table(frame, schema), unit=unit, ledger=ledger), budget)
    assert len(model.sample(5, seed=0)) == 5


@pytest.mark.parametrize("name", METHODS)
def test_what_is_said_to_take_any_table_takes_the_mixed_one(name: str) -> None:
    if method(name).data == "any encoded table":
        assert case_of(name) is MIXED


@pytest.mark.parametrize("name", METHODS)
def test_the_mechanism_stays_outside_the_door(name: str) -> None:
    """Its files reach for no record, no noise and no charge: all of them belong to the curator.

    Of a mechanism from elsewhere every file of its distribution that it imports is read.
    """
    place = method(name).module
    if place.startswith("understudy."):
        found = importlib.util.find_spec(place)
        assert found is not None
        assert found.origin is not None
        files = [Path(found.origin)]
    else:
        files = files_of(place)
    assert files
    for path in files:
        assert not trespasses(path), (
            f"{path.name}: {'; '.join(trespasses(path))}: ask the curator, or add a look"
        )


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_budgets_that_make_no_sense(bad: float) -> None:
    for kind in (PureDP, ZCDP, GDP):
        with pytest.raises(BudgetError):
            kind(bad)
    with pytest.raises(BudgetError):
        ApproxDP(1.0, bad)
    with pytest.raises(BudgetError):
        ApproxDP(1.0, 1.0)
