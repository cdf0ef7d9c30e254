"""What is charged and what is drawn come from the package alone, whatever objects a mechanism hands over."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from understudy.curator import (
    Curator,
    Reach,
    Sealed,
    SealedCounts,
    SealedKeys,
    SealedNumbers,
    SealedScalar,
    measure_numbers,
    release_keys,
)
from understudy.data import LocalTable
from understudy.data.regrouped import _map
from understudy.errors import BudgetError, DataError
from understudy.marginals import Query
from understudy.mechanisms.counts.look import draw_from_urns, redraw
from understudy.mechanisms.deniability.look import counts_event, open_parts, rows_event
from understudy.mechanisms.histograms.look import PathDesign, Smoothing, choose_path, smoothed_records
from understudy.mechanisms.parametric.copula.look import Ranks, seal_concordance
from understudy.mechanisms.parametric.features import ONE, Feature
from understudy.mechanisms.parametric.look import MomentBlock, seal_moments
from understudy.mechanisms.parametric.regression.look import Softmax, fit_softmax
from understudy.mechanisms.parametric.steps.look import Subsets, elect, seal_subset_counts
from understudy.mechanisms.queries.look import measure_answer, measure_answers, seal_answers
from understudy.privacy import (
    ApproxDP,
    Gaussian,
    Laplace,
    Ledger,
    PureDP,
    SeededRandomness,
    Unit,
)
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.count_models.urn import UrnPrior
from understudy.privacy.events import Composed, PureEvent
from understudy.schema import Schema

ADD = Unit.add_remove()
SCHEMA = Schema.parse(
    "name: t\ncolumns: [{name: a, kind: categorical, values: [x, y, z]}, {name: b, kind: boolean}]"
)
EXACT = np.array([40, 7, 3])


def make() -> Curator:
    a = np.repeat(np.arange(3), EXACT).astype(np.uint8)
    table = LocalTable(SCHEMA, {"a": a, "b": (a > 0).astype(np.uint8)})
    ledger = Ledger.in_memory(
        budget=ApproxDP(5.0, 1e-3), unit=ADD, approximate_delta=5e-4, accounting="gdp", table="t"
    )
    return Curator(table, unit=ADD, ledger=ledger, randomness=SeededRandomness(1))


class Silent(Laplace):
    """Says what it costs and draws nothing."""

    def draw(self, shape: Any, randomness: Any) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)


class Cheap(Gaussian):
    def event(self, *, l1: float, l2: float) -> Any:
        return PureEvent(1e-9)


def _looks(noise: Any) -> Iterator[Callable[[Curator], object]]:
    """Every look that takes a noise."""
    query = Query(("a",), np.array([1.0, 0.0, 0.5]))
    numbers = SealedNumbers(np.arange(3), name="n", reach=Reach(1.0, 1.0))
    keys = SealedKeys({"x": 5}, name="k", unit=ADD)
    plans = [[rows_event(ADD, Laplace(100.0)), counts_event(ADD, Laplace(100.0))]]
    yield lambda c: c.measure(c.counts(["a"]), noise=noise)
    yield lambda c: c.measure_many([c.counts(["a"])], noise=[noise])
    yield lambda c: c.measure_scalar(c.counts(()).sum(), noise=noise, purpose="p")
    yield lambda c: measure_numbers(c, [numbers], noise=[noise], purpose="p")
    yield lambda c: release_keys(c, [keys], noise=[noise], deltas=[1e-4], purpose="p")
    yield lambda c: measure_answer(c, seal_answers(c, [query]), 0, noise=noise, purpose="p")
    yield lambda c: measure_answers(c, seal_answers(c, [query]), [0], noise=noise, purpose="p")
    for ask in ("row_count", "measure", "lazy_counts"):

        def part(c: Curator, ask: str = ask) -> object:
            (one,) = open_parts(c, plans, shares=None, purpose="p")
            groups = {"a": np.arange(3)}
            if ask == "row_count":
                return one.row_count(noise)
            return (
                one.measure([groups], noise=noise)
                if ask == "measure"
                else one.lazy_counts(groups, "a", noise=noise)
            )

        yield part


@pytest.mark.parametrize("noise", [Silent(100.0), Cheap(100.0)], ids=["draws nothing", "costs nothing"])
@pytest.mark.parametrize("place", range(len(list(_looks(None)))))
def test_noise_of_another_class_is_refused(noise: Any, place: int) -> None:
    """Before, ``class L(Laplace)`` with a ``draw`` of its own gave exact counts for .01."""
    with pytest.raises(BudgetError, match=f"not {type(noise).__name__}"):
        list(_looks(noise))[place](make())


def test_what_is_put_on_a_noise_is_neither_drawn_nor_charged() -> None:
    for kind in (Laplace, Gaussian):
        noise = kind(1e6)
        object.__setattr__(noise, "draw", lambda shape, randomness: np.zeros(shape, dtype=np.int64))
        object.__setattr__(noise, "event", lambda *, l1, l2: PureEvent(1e-9))
        box = make()
        drawn = box.measure(box.counts(["a"]), noise=noise)  # type: ignore[arg-type]
        # each cell is hit by chance with a probability below 1e-6
        assert not (drawn.values == EXACT).any()
        (charge,) = [entry.event for entry in box.ledger.entries() if entry.event is not None]
        assert charge == kind(1e6).event(l1=1.0, l2=1.0)


class Shifty(list):  # type: ignore[type-arg]
    """Shows large noise the first time and small noise ever after."""

    def __init__(self) -> None:
        super().__init__([Laplace(1e6)])
        self.asked = 0

    def __iter__(self) -> Iterator[Any]:
        self.asked += 1
        return iter([Laplace(1e6 if self.asked == 1 else 1e-3)])


def test_a_list_is_read_once() -> None:
    """Before, the noise that was charged was read off one pass over the list and the noise that was drawn off another."""
    box = make()
    drawn = box.measure_many([box.counts(["a"])], noise=Shifty())
    assert (
        np.abs(drawn[0].values - EXACT).max() > 100
    )  # at scale 1e6 all three are nearer with probability 1e-12
    assert box.spent < 1e-4


def test_a_public_number_of_another_class_does_not_see_the_exact_one() -> None:
    seen = []

    class Spy(float):
        def __radd__(self, other: Any) -> Any:
            seen.append(other)
            return 0

        __rmul__ = __rsub__ = __rle__ = __radd__  # type: ignore[assignment]

        def as_integer_ratio(self) -> Any:
            return Whole(1), Whole(1)

    class Whole(int):
        def __rmul__(self, other: Any) -> Any:
            seen.append(other)
            return 0

        __radd__ = __rmul__  # type: ignore[assignment]

    score = make().counts(()).sum()
    for made in (score.scaled(Spy(2)), score.shifted(Spy(2)), score.clipped(Spy(-1), Spy(1))):
        assert type(made) is SealedScalar
    assert not seen
    assert score.scaled(Spy(2)).sensitivity == 2.0
    with pytest.raises(BudgetError):
        make().choose([score], epsilon=Spy("nan"), purpose="p")


class Wide(SealedCounts):
    l1 = l2 = 1e-9  # type: ignore[assignment]


def test_seals_of_another_class_are_not_opened() -> None:
    box = make()
    fake = object.__new__(Wide)
    with pytest.raises(BudgetError, match="not Wide"):
        box.measure(fake, noise=Laplace(1.0))

    class Small(SealedScalar):
        pass

    small = Small(1.0, sensitivity=1e-9)
    with pytest.raises(BudgetError, match="not Small"):
        box.measure_scalar(small, noise=Laplace(1.0), purpose="p")
    with pytest.raises(BudgetError, match="not Small"):
        box.choose([small], epsilon=1.0, purpose="p")
    assert box.spent == 0


def test_every_cell_gets_noise_of_its_own_whatever_shape_a_seal_claims() -> None:
    """A claimed shape of one cell would have given all cells the same draw."""
    box = make()
    sealed = box.counts(["a"])
    object.__setattr__(sealed, "shape", ())
    drawn = box.measure(sealed, noise=Laplace(1e6)).values - EXACT
    assert len(set(drawn.tolist())) == 3  # two of them are equal by chance with a probability below 3e-6


def test_a_regrouped_table_keeps_its_facts() -> None:
    """Before, a schema with another number of rows made means and entropies look insensitive."""
    box = make()
    claimed = box.regrouped(replace(SCHEMA, row_count=10**9))
    assert claimed.schema.row_count is None
    assert claimed.rows.number is None
    here, there = (c.counts(["a"]).mean([0.0, 0.5, 1.0], low=0, high=1) for c in (box, claimed))
    assert there.sensitivity == here.sensitivity
    first = SCHEMA.columns[0]
    other = type("Other", (type(first),), {})(first.name, values=("x", "y", "z"))
    with pytest.raises(DataError, match="same columns"):
        box.regrouped(SCHEMA.with_columns([other]))


def test_the_columns_of_a_schema_are_read_once() -> None:
    """A schema could show one list of columns to the check and give another."""

    class Turning:
        def __init__(self) -> None:
            self.asked = 0

        @property
        def columns(self) -> Any:
            self.asked += 1
            return SCHEMA.columns if self.asked == 1 else [object()]

    assert make().regrouped(Turning()).schema == SCHEMA  # type: ignore[arg-type]


def test_groups_of_values_are_plain_numbers_within_their_column() -> None:
    """Groups are asked for the codes of the records: an array of another class would see them."""
    seen: list[Any] = []

    class Curious(np.ndarray):
        def __getitem__(self, key: Any) -> Any:
            seen.append(key)
            return super().__getitem__(key)

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return self

    fine = SCHEMA.columns[0]
    for groups, fits in (([0, 1, 1], True), ([0, 1, 7], False), ([0, -1, 1], False), ([0, 1], False)):
        coarse: Any = SimpleNamespace(groups=np.array(groups).view(Curious), value_count=2, size=2)
        seen.clear()
        if fits:
            made = _map(fine, coarse)
            assert type(made) is np.ndarray
        else:
            with pytest.raises(DataError, match="not a grouping"):
                _map(fine, coarse)
        assert not seen


def test_units_budgets_and_events_of_another_class_are_refused() -> None:
    class MyUnit(Unit):
        @property
        def histogram_l1(self) -> int:
            return 0

    class MyBudget(PureDP):
        pass

    class MyEvent(PureEvent):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = PureEvent.__hash__

    box = make()
    ledger = Ledger.in_memory(budget=PureDP(1.0), unit=ADD)
    with pytest.raises(BudgetError, match="not MyUnit"):
        Curator(
            LocalTable(SCHEMA, {"a": EXACT % 3, "b": EXACT % 2}), unit=MyUnit("add-remove"), ledger=ledger
        )
    with pytest.raises(BudgetError, match="not MyBudget"):
        box.within(MyBudget(1.0), scope="s")
    for event in (MyEvent(1e-9), Composed((PureEvent(1e-9), MyEvent(1e-9)))):
        with pytest.raises(BudgetError, match="not MyEvent"):
            ledger.charge(event, purpose="p")
        with pytest.raises(BudgetError, match="not MyEvent"):
            open_parts(box, [[event]], shares=None, purpose="p")
    assert (ledger.spent, box.spent) == (0, 0)


def test_an_accounting_of_another_class_is_not_asked() -> None:
    class Free:
        name = "pure"

        def total(self, budget: Any, **_: Any) -> float:
            return 1e9

        def exact_cost(self, event: Any, **_: Any) -> Fraction:
            return Fraction(0)

    inside = make().within(PureDP(0.5), scope="s", accounting=Free())  # type: ignore[arg-type]
    assert inside.remaining == 0.5


def _plain(kind: type) -> type:
    return type(f"My{kind.__name__}", (kind,), {})


DESCRIPTIONS: dict[str, tuple[type, Callable[[Curator, Any], object]]] = {
    "law": (CountLaw, lambda c, k: redraw(c, c.counts(["a"]), law=k("poisson", 50.0), epsilon=3.0, purpose="p")),
    "urn": (UrnPrior, lambda c, k: draw_from_urns(c, [c.counts(["a"])], priors=[k(100, 0, 5)], purpose="p")),
    "path": (
        PathDesign,
        lambda c, k: choose_path(c, c.counts(["a"]), k.of(ADD, epsilon=1.0, bins=3, rows=50), purpose="p"),
    ),
    "smoothing": (
        Smoothing,
        lambda c, k: smoothed_records(c, c.counts(["a"]), k(ADD, 64.0, False), records=1, purpose="p"),
    ),
    "regression": (
        Softmax,
        lambda c, k: fit_softmax(c, k("b", np.array([0, 1]), (("a", np.eye(3)),)), epsilon=1.0, purpose="p"),
    ),
    "moments": (MomentBlock, lambda c, k: seal_moments(c, [k("m", (ONE,), ((0, 0),))])),
    "feature": (Feature, lambda c, k: seal_moments(c, [MomentBlock("m", (k("f", ("a",), [0, 1, 0]),), ((0, 0),))])),
    "ranks": (
        Ranks,
        lambda c, k: seal_concordance(c, [k("a", [0, 1, 2]), Ranks("b", np.array([0, 1]))], [(0, 1)]),
    ),
    "subsets": (Subsets, lambda c, k: seal_subset_counts(c, k(), [{"a": np.arange(3)}])),
    "election": (
        Subsets,
        lambda c, k: elect(
            c, k(), {0: ["a"]}, {"a": np.arange(3), "b": np.arange(2)}, epsilon=1.0, purpose="p"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_looks_take_their_own_descriptions_only(name: str) -> None:
    kind, look = DESCRIPTIONS[name]
    look(make(), kind)  # the package's own is taken
    box = make()
    with pytest.raises(BudgetError, match=f"not My{kind.__name__}"):
        look(box, _plain(kind))
    assert box.spent == 0


def test_a_query_is_what_its_values_say() -> None:
    class Half(Query):
        @property
        def reach(self) -> float:
            return 1e-6

        @property
        def steps(self) -> np.ndarray:
            return np.zeros(3, dtype=np.int64)

    sealed = seal_answers(make(), [Half(("a",), np.array([1.0, 0.0, 1.0]))])
    assert sealed.sensitivity == 1.0


# ---------------------------------------------------------------------- no door for functions


def test_no_public_method_of_a_curator_takes_a_function() -> None:
    """Before, ``statistics(lambda table: ...)`` handed the records to whoever had a curator."""
    for name, method in inspect.getmembers(Curator, inspect.isfunction):
        if name.startswith("_"):
            continue
        for parameter in inspect.signature(method).parameters.values():
            assert "Callable" not in str(parameter.annotation), f"{name}({parameter.name})"
    assert not hasattr(Curator, "statistic")
    assert not hasattr(Curator, "statistics")


@pytest.mark.parametrize("function", [np.sum, np.mean, np.max, np.sort, np.sqrt, np.asarray, np.add.reduce])
def test_numpy_gets_the_usual_refusal(function: Callable[[Any], object]) -> None:
    """Before, ``np.sum`` complained about an argument ``axis`` that nobody gave."""
    box = make()
    for sealed in (box.counts(["a"]), box.counts(["a"]).sum(), Sealed()):
        with pytest.raises(TypeError, match="Sealed values cannot be"):
            function(sealed)
