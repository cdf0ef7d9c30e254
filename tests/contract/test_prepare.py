"""Everything a mechanism needs is there before its first charge: compiled, imported, tried, and small enough."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from contract_cases import MIXED, OPTIONS_OF, VARIANTS, case_of, made

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import DomainTooLarge, UnusableMethod
from understudy.mechanisms import Fitted, Progress, Synthesizer, base, create, methods
from understudy.mechanisms import base as _trial
from understudy.mechanisms.chunks import ChunkedSample
from understudy.mechanisms.marginal.laplace import LaplaceTable
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Laplace, Ledger, PureDP, Unit
from understudy.schema import Schema

BUDGETS: tuple[Budget, ...] = (ApproxDP(1.0, 1e-6), PureDP(1.0), ZCDP(0.3), GDP(0.7))
TRIED = [method.name for method in methods() if method.name not in ("dpctgan", "patectgan")]


_SEEN: set[tuple[str, str, str]] = set()


@pytest.fixture(autouse=True)
def _watch_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note every specialisation of a kernel of ours that Numba compiles, or loads from its cache, while a test runs."""
    watch_kernels(monkeypatch.setattr)


def watch_kernels(replace: Callable[[Any, str, Any], None]) -> None:
    from numba.core.dispatcher import Dispatcher

    add = Dispatcher.add_overload

    def noted(dispatcher: Any, result: Any) -> None:
        function = dispatcher.py_func
        if function.__module__.startswith("understudy."):
            _SEEN.add((function.__module__, function.__qualname__, str(result.signature)))
        add(dispatcher, result)

    replace(Dispatcher, "add_overload", noted)


def signatures() -> set[tuple[str, str, str]]:
    """Every specialisation that was noted so far."""
    return set(_SEEN)


def test_a_kernel_that_is_first_called_is_noted() -> None:
    """Everything below rests on it: a kernel that is compiled or loaded in a call is seen, one that was there is not."""
    import numpy as np

    from understudy._compile import compiled

    def total(values: Any) -> Any:
        return values.sum() + 1

    total.__module__ = "understudy.made_up"
    kernel = compiled()(total)
    kernel._cache.flush()  # what an earlier run of this test kept cannot be loaded: its module is made up
    before = signatures()
    kernel(np.zeros(3))
    assert len(signatures() - before) == 1
    before = signatures()
    kernel(np.zeros(3))
    assert not signatures() - before


def fitted(synthesizer: Synthesizer, schema: Schema, frame: Any, budget: Budget, unit: Unit) -> None:
    reserve = synthesizer.reserve(schema, budget)
    with Ledger.in_memory(budget=budget, unit=unit, approximate_delta=reserve) as ledger:
        curator = Curator(read_table(frame, schema), unit=unit, ledger=ledger)
        model = synthesizer.fit(curator, budget)
        model.sample(50, seed=1)
        parts = ChunkedSample(model, 50, seed=1, rows_per_chunk=20)
        counts, made = parts.nothing(), 0
        for wave in parts.waves:
            drawn = [parts.draw(wave, lane, made, counts) for lane in range(len(wave.sizes))]
            counts, made = parts.add(counts, drawn), made + wave.rows
        assert made == 50


@pytest.mark.parametrize("name", TRIED)
def test_nothing_is_compiled_after_the_first_charge(name: str) -> None:
    case, synthesizer = case_of(name), create(name)
    for budget in BUDGETS:
        if not isinstance(budget, synthesizer.budgets):
            continue
        for unit in (Unit.add_remove(), Unit.replace_one()):
            synthesizer.prepare(case.schema, unit=unit, budget=budget)
            assert any(key[0] is type(synthesizer) for key in _trial._tried)
            before = signatures()
            fitted(synthesizer, case.schema, case.frame(300), budget, unit)
            assert not signatures() - before, f"{budget}, {unit}: {sorted(signatures() - before)}"


@pytest.mark.parametrize("name", ["independent", "mst", "privbayes"])
def test_nothing_is_compiled_after_the_first_charge_in_a_process_of_its_own(name: str) -> None:
    """In one process with others a mechanism may find what another compiled. Caught: an approximate budget that was tried in one accounting only."""
    script = (
        "import sys; from test_prepare import test_nothing_is_compiled_after_the_first_charge as t, watch_kernels; "
        "watch_kernels(setattr); t(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, name],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("size", [300, 70_000])
@pytest.mark.parametrize("name", ["independent", "mst", "privbayes"])
def test_wide_columns_need_no_other_kernels_either(name: str, size: int) -> None:
    import numpy as np
    import pandas as pd

    schema = Schema.parse(
        f"columns: [{{name: code, kind: integer, minimum: 0, maximum: {size}}}, {{name: smokes, kind: boolean}}]"
    )
    frame = pd.DataFrame({"code": np.arange(400) % size, "smokes": np.arange(400) % 3 == 0})
    synthesizer, budget, unit = create(name), ApproxDP(1.0, 1e-6), Unit.add_remove()
    synthesizer.prepare(schema, unit=unit, budget=budget)
    before = signatures()
    fitted(synthesizer, schema, frame, budget, unit)
    assert not signatures() - before


def charged(fit: Callable[[Curator], Any], budget: Budget) -> tuple[int, Exception | None]:
    """How many charges a fit left in its ledger, and how it ended."""
    case, unit = MIXED, Unit.add_remove()
    with Ledger.in_memory(budget=budget, unit=unit) as ledger:
        curator = Curator(read_table(case.frame(200), case.schema), unit=unit, ledger=ledger)
        try:
            fit(curator)
        except Exception as error:
            return sum(entry.event is not None for entry in ledger.entries()), error
        return sum(entry.event is not None for entry in ledger.entries()), None


def test_a_kernel_that_cannot_be_compiled_is_found_before_the_first_charge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a container whose compiler cache fails: 0.1.0 charged, then died where the noisy counts are fitted."""
    from understudy.engine.graphical import estimation

    def broken(*given: Any, **options: Any) -> None:
        raise RuntimeError("cannot cache function 'fit': no locator available")

    assert hasattr(estimation, "Descent")
    monkeypatch.setattr(estimation, "Descent", broken)
    monkeypatch.setattr(_trial, "_tried", set())
    budget = PureDP(1.0)
    charges, error = charged(lambda curator: create("mst").fit(curator, budget), budget)
    assert charges == 0
    assert isinstance(error, UnusableMethod)
    assert "mst does not work here" in str(error)
    assert "Nothing was charged" in str(error)
    assert not _trial._tried, "a failed trial is made again"


@dataclass(frozen=True, kw_only=True)
class Greedy(LaplaceTable):
    """Asks for twice the budget of its fit."""

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        sealed = curator.counts(curator.domain.names)
        curator.measure(sealed, noise=Laplace(0.5 * sealed.l1 / curator.remaining))
        raise AssertionError("more was spent than there is")


def test_the_author_of_a_method_is_not_told_to_repair_the_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, the message said that the installation was broken, whoever wrote the method."""
    monkeypatch.setattr(_trial, "_tried", set())
    budget = PureDP(1.0)
    charges, error = charged(lambda curator: Greedy().fit(curator, budget), budget)
    assert charges == 0
    assert isinstance(error, UnusableMethod)
    assert "Repair the installation" not in str(error)
    assert f"divide what curator.remaining says, in {Greedy.__module__}" in str(error)
    assert re.search(rf" at {Greedy.__module__}:\d+\. Nothing was charged", str(error)), error


@dataclass(frozen=True, kw_only=True)
class Misspelt(LaplaceTable):
    """Asks its curator for something that has another name."""

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        return curator.mesure_many([])  # type: ignore[attr-defined, no-any-return]


def test_the_trial_says_where_a_fault_is_and_what_may_have_been_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_trial, "_tried", set())
    _, error = charged(lambda curator: Misspelt().fit(curator, PureDP(1.0)), PureDP(1.0))
    line = inspect.getsourcelines(Misspelt._fit)[1] + 1
    assert f"did you mean 'measure_many'?) at {Misspelt.__module__}:{line}. Nothing was charged" in str(error)


@dataclass(frozen=True, kw_only=True)
class Faulty(LaplaceTable):
    """Has a fault under an option, and counts its fits."""

    fault: str = "none"
    about: str | None = None
    fits: ClassVar[list[str]] = []

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Any:
        if self.about is not None:
            schema.domain.size(self.about)
        return super().plan(schema, unit=unit, budget=budget)

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        Faulty.fits.append(self.fault)
        made = super()._fit(curator, progress=progress)
        if self.fault == "raises":
            raise KeyError("after the charge")
        return None if self.fault == "nothing" else made  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("fault", "said"), [("raises", "KeyError"), ("nothing", "_fit of laplace returned None")]
)
def test_a_fault_under_an_option_is_found_before_the_first_charge(
    monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    """Before, the trial had the usual options, whatever the user gave."""
    monkeypatch.setattr(_trial, "_tried", set())
    budget = PureDP(1.0)
    assert charged(lambda curator: Faulty().fit(curator, budget), budget)[1] is None
    charges, error = charged(lambda curator: Faulty(fault=fault).fit(curator, budget), budget)
    assert charges == 0
    assert isinstance(error, UnusableMethod)
    assert said in str(error)


def test_options_that_fit_no_made_up_table_leave_a_trial_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_trial, "_tried", set())
    budget, column = PureDP(1.0), MIXED.schema.domain.names[0]
    method = Faulty(about=column, fault="else")
    Faulty.fits.clear()
    assert charged(lambda curator: method.fit(curator, budget), budget)[1] is None
    assert Faulty.fits == ["else", "else"], "tried without the column, then fitted"
    broken = Faulty(about=column, fault="raises")
    charges, error = charged(lambda curator: broken.fit(curator, budget), budget)
    assert charges == 0
    assert isinstance(error, UnusableMethod)


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_are_tried_with_their_options(name: str) -> None:
    """No option with which the contract is kept is refused by the trial."""
    made(name).prepare(case_of(name).schema, unit=Unit.add_remove(), budget=PureDP(1.0))


def test_a_kernel_that_the_compiler_refuses_is_found_before_the_first_charge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from understudy._compile import compiled
    from understudy.engine.graphical import kernels

    monkeypatch.setattr(kernels, "execute", compiled()(lambda *given: given[0].nothing))
    monkeypatch.setattr(_trial, "_tried", set())
    budget = PureDP(1.0)
    charges, error = charged(lambda curator: create("mst").fit(curator, budget), budget)
    assert charges == 0
    assert isinstance(error, UnusableMethod)
    assert "TypingError" in str(error)


def test_a_ledger_that_pays_in_another_accounting_than_planned_is_tried_in_it_before_the_charge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fit that shares its ledger takes the main accounting, whatever its plan says."""
    asked: list[str] = []
    real = _trial.try_out

    def watched(method: Synthesizer, schema: Schema, budget: Budget, name: str) -> None:
        asked.append(name)
        real(method, schema, budget, name)

    monkeypatch.setattr(_trial, "try_out", watched)
    case, unit, method = MIXED, Unit.add_remove(), create("independent")
    budget = ApproxDP(0.5, 1e-9)
    planned = method.plan(case.schema, unit=unit, budget=budget).accounting
    with Ledger.in_memory(budget=ApproxDP(2.0, 1e-6), unit=unit) as ledger:
        model = method.fit(
            Curator(read_table(case.frame(200), case.schema), unit=unit, ledger=ledger), budget
        )
    assert planned != model.provenance.accounting, "or this test shows nothing"
    assert asked == [planned, model.provenance.accounting]


def test_a_model_larger_than_the_free_memory_is_refused_before_the_first_charge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "available_mb", lambda: 1e-4)
    budget = PureDP(1.0)
    charges, error = charged(lambda curator: create("mst").fit(curator, budget), budget)
    assert charges == 0
    assert isinstance(error, DomainTooLarge)
    assert error.cells > error.allowed


def test_a_system_that_does_not_tell_its_memory_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_mb", lambda: None)
    budget = PureDP(1.0)
    assert charged(lambda curator: create("mst").fit(curator, budget), budget)[1] is None


def test_a_mechanism_is_tried_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.mechanisms.marginal.mst import MST

    fits = []
    real = MST._fit
    monkeypatch.setattr(
        MST,
        "_fit",
        lambda self, curator, **rest: fits.append(1) or real(self, curator, **rest),  # type: ignore[func-returns-value]
    )
    monkeypatch.setattr(_trial, "_tried", set())
    budget = PureDP(1.0)
    for _ in range(3):
        assert charged(lambda curator: create("mst").fit(curator, budget), budget)[1] is None
    assert len(fits) == 4, "one trial and three fits"


def test_a_trial_costs_the_ledger_nothing() -> None:
    with Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove()) as ledger:
        create("aim").prepare(MIXED.schema, unit=Unit.add_remove(), budget=PureDP(1.0))
        assert ledger.spent == 0


def test_options_of_deep_methods_are_known_here() -> None:
    """The two that need torch have no kernels; everything else is tried above."""
    assert set(OPTIONS_OF) == {"dpctgan", "patectgan"}
