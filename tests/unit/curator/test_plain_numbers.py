"""Numbers that a mechanism hands over are taken once and as plain numbers: what is charged, what is drawn and what is compared are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deep_examples import LAYOUT, curator_of, random_codes
from understudy.curator import Curator, SealedScalar, measure_numbers, release_keys
from understudy.curator.numbers import SealedKeys
from understudy.curator.sealed import hide_errors
from understudy.data import LocalTable
from understudy.errors import BudgetError, LookFailed
from understudy.mechanisms.counts.look import redraw
from understudy.mechanisms.deep.critic import Critic
from understudy.mechanisms.deep.look import PanelPlan, TrainingPlan, open_panel, open_training
from understudy.mechanisms.deniability.bounds import SeedTest
from understudy.mechanisms.deniability.look import open_parts
from understudy.mechanisms.deniability.network import Conditional, NetworkSeedModel
from understudy.mechanisms.histograms.look import PathDesign, Smoothing, choose_path, smoothed_records
from understudy.mechanisms.histograms.partitions.look import SealedBuckets
from understudy.mechanisms.histograms.transforms.look import (
    fourier_coefficients,
    kernel_sums,
    linear_coefficients,
)
from understudy.mechanisms.marginal.look import count_rare
from understudy.mechanisms.parametric.steps.look import Division, Subsets, seal_subset_counts
from understudy.privacy import ApproxDP, Gaussian, Laplace, Ledger, PureDP, SeededRandomness, Unit
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.events import ApproxEvent
from understudy.privacy.own import own, plain_value
from understudy.schema import Domain, Schema

ADD = Unit.add_remove()
SCHEMA = Schema.parse(
    "name: t\ncolumns: [{name: a, kind: categorical, values: [x, y, z]}, {name: b, kind: boolean}]"
)
EXACT = np.array([40, 7, 3])


def make(unit: Unit = ADD, exact: np.ndarray = EXACT) -> Curator:
    a = np.repeat(np.arange(3), exact).astype(np.uint8)
    persons = None if unit.id_column is None else {unit.id_column: np.arange(len(a))}
    table = LocalTable(SCHEMA, {"a": a, "b": (a > 0).astype(np.uint8)}, persons=persons)
    ledger = Ledger.in_memory(
        budget=ApproxDP(5.0, 1e-2), unit=unit, approximate_delta=5e-3, accounting="gdp", table="t"
    )
    return Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(1))


class Two(float):
    """Is next to nothing where a cost is computed from it, and very large where noise is."""

    def __add__(self, other: Any) -> Any:
        return 1e-9

    def __truediv__(self, other: Any) -> Any:
        return 1e5

    def __rtruediv__(self, other: Any) -> Any:
        return 1e-9


class Spy(Fraction):
    """Is shown what it is compared with."""

    seen: list[Any] = []  # noqa: RUF012

    def __lt__(self, other: Any) -> bool:
        self.seen.append(other)
        return False

    __gt__ = __le__ = __ge__ = __lt__


class Parts(Fraction):
    """A fraction whose parts are shown what they are multiplied with."""

    @property
    def numerator(self) -> Any:
        return Whole(1)

    denominator = numerator


class Whole(int):
    def __mul__(self, other: Any) -> Any:
        Spy.seen.append(other)
        return 1

    __rmul__ = __mul__


def charged(box: Curator) -> list[Any]:
    return [entry.event for entry in box.ledger.entries() if entry.event is not None]


# ---------------------------------------------------------------------- sealed numbers


@pytest.mark.parametrize("spy", [Spy(0), Parts(0)], ids=["the number", "its parts"])
def test_a_number_of_another_class_is_not_shown_the_others(spy: Fraction) -> None:
    """Before, the minimum of a sealed number and of one made of such a fraction compared the two: the exact one, for nothing."""
    Spy.seen.clear()
    box = make()
    exact = box.counts(["a"]).sum([1.0, 2.0, 3.0])
    spying = SealedScalar(spy, sensitivity=0.0)
    found = SealedScalar.minimum([exact, spying, SealedScalar(Fraction(spy), sensitivity=0.0)])
    box.choose([exact, spying], epsilon=0.1, purpose="p")
    assert found.sensitivity == exact.sensitivity
    assert not Spy.seen


def test_a_minimum_takes_seals_only() -> None:
    Spy.seen.clear()

    class Fake:
        sensitivity = 0.0
        _exact = Spy(0)

    with pytest.raises(BudgetError, match="not Fake"):
        SealedScalar.minimum([make().counts(()).sum(), Fake()])  # type: ignore[list-item]
    assert not Spy.seen


def test_a_sealed_number_of_numpy_is_one_of_python() -> None:
    """Fractions keep NumPy's whole numbers, which overflow without a word."""
    given: Any = np.int64(2**62)
    sealed = SealedScalar(given, sensitivity=1.0).scaled(4.0)
    assert sealed._exact == 2**64


# ---------------------------------------------------------------------- descriptions


def test_what_is_in_a_description_is_plain() -> None:
    class Word(str):
        __slots__ = ()

    made = own(replace(PathDesign.of(ADD, epsilon=1.0, bins=3, rows=50), epsilon=Two(1.0)), PathDesign)
    assert type(made.epsilon) is float
    given = (
        Two(2.0),
        [np.int64(3), True],
        Word("x"),
        {Word("k"): np.arange(2).view(np.recarray)},
        None,
        Spy(1, 2),
    )
    plain: Any = plain_value(given)
    kinds = [type(item) for item in (plain[0], *plain[1], plain[2], *plain[3], *plain[3].values(), plain[5])]
    assert kinds == [float, int, bool, str, str, np.ndarray, Fraction]
    for wrong in (object(), np.array([Two(1.0)], dtype=object), lambda: 1, {1.0, 2.0}):
        with pytest.raises(BudgetError, match="made of numbers"):
            plain_value(wrong)


def _design(epsilon: float) -> PathDesign:
    return PathDesign(epsilon, 1, 50, 1, 50, 1)


TWO_FACED: dict[str, Callable[[Curator, Any], object]] = {
    "a path": lambda c, number: choose_path(c, c.counts(["a"]), _design(number(1.0)), purpose="p"),
    "smoothing": lambda c, number: smoothed_records(
        c, c.counts(["a"]), Smoothing(ADD, number(2.0), False), records=2, purpose="p"
    ),
    "rare values": lambda c, number: count_rare(
        c, [("a", 2), ("a", 1)], weights=[1.0, 1.0], epsilon=number(0.5), purpose="p"
    ),
    "redrawn counts": lambda c, number: redraw(
        c, c.counts(["a"]), law=CountLaw("poisson", number(50.0)), epsilon=number(3.0), purpose="p"
    ),
}


@pytest.mark.parametrize("name", TWO_FACED)
def test_a_number_with_two_faces_is_charged_and_drawn_as_one(name: str) -> None:
    """Before, a path cost 1e-9 and was the exact table."""
    look, plain, faced = TWO_FACED[name], make(), make()
    one, two = look(plain, float), look(faced, Two)
    assert charged(plain) == charged(faced) != []
    assert str(one) == str(two)  # the same seed, the same draw


class Shifting:
    """A whole number that grows each time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __index__(self) -> int:
        self.asked += 1
        return 1 if self.asked == 1 else 10_000

    def __ge__(self, other: Any) -> bool:
        return True

    __le__ = __ge__


def test_a_number_of_records_is_asked_once() -> None:
    box = make()
    many: Any = Shifting()
    drawn = smoothed_records(box, box.counts(["a"]), Smoothing(ADD, 64.0, False), records=many, purpose="p")
    assert len(drawn) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"width": 0}, {"levels": 10**7}, {"weight": -1}, {"records": 10**6}, {"epsilon": 0.0}, {"records": 2.5}],
    ids=str,
)
def test_designs_without_a_proof_are_refused(wrong: dict[str, Any]) -> None:
    """More paths than a double holds are left out by which tables have them."""
    box = make()
    with pytest.raises(BudgetError, match="no design"):
        choose_path(box, box.counts(["a"]), replace(_design(1.0), **wrong), purpose="p")
    assert box.spent == 0


# ---------------------------------------------------------------------- arrays and events


class Curious:
    """A number in an array of objects that is shown what it is multiplied with."""

    seen: list[Any] = []  # noqa: RUF012

    def __mul__(self, other: Any) -> Any:
        self.seen.append(other)
        return 0.0

    __rmul__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __lt__

    def __float__(self) -> float:
        return 0.5


def test_networks_are_plain_numbers() -> None:
    Curious.seen.clear()
    codes = random_codes(np.random.default_rng(1), 30)
    plan = TrainingPlan(Critic(LAYOUT, (4,), "cross_entropy", 1.0), 0.5, 20.0, 2)
    door = curator_of(codes, budget=ApproxDP(5.0, 2e-5), randomness=1, reserve=1e-5)
    training = open_training(door, plan, event=plan.event(door.unit, delta=9e-6), purpose="train")
    weights = [
        (np.full(matrix.shape, Curious(), dtype=object), np.full(constants.shape, Curious(), dtype=object))
        for matrix, constants in plan.critic.start(np.random.default_rng(0))
    ]
    training.step(weights)  # type: ignore[arg-type]
    assert not Curious.seen


def test_teachers_begin_with_plain_numbers() -> None:
    """Before, a generator of its own could put an object in place of the first weights, which is multiplied with records."""
    Curious.seen.clear()

    class Numbers:
        def __init__(self, shape: Any) -> None:
            self.shape = shape

        def astype(self, kind: Any) -> Any:
            return np.full(self.shape, Curious(), dtype=object)

        def __truediv__(self, other: Any) -> Any:
            return self

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.full(self.shape, 0.25)

    class Generator:
        def uniform(self, low: Any, high: Any, shape: Any) -> Any:
            return Numbers(shape)

    codes = random_codes(np.random.default_rng(1), 30)
    plan = PanelPlan(LAYOUT, 3, 4, 2, 0.05, 5, Laplace(40.0))
    own_generator: Any = Generator()
    panel = open_panel(
        curator_of(codes, budget=PureDP(2.0), randomness=1), plan, generator=own_generator, purpose="ask"
    )
    panel.ask(codes[:2], np.zeros(2, dtype=np.int64))
    assert not Curious.seen


def test_an_event_of_another_class_does_not_stand_for_a_cheap_one() -> None:
    cheap = ApproxEvent(1e-6, 1e-9)

    class Lie(ApproxEvent):
        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

        def __hash__(self) -> int:
            return hash(cheap)

    box = make()
    (part,) = open_parts(box, [[cheap]], shares=None, purpose="p")
    table = Conditional("a", (), (), np.full(3, 1 / 3)), Conditional("b", (), (), np.full(2, 0.5))
    model = NetworkSeedModel(SCHEMA.domain, table, (1,))
    with pytest.raises(BudgetError, match="not Lie"):
        part.release(
            model, SeedTest(k=2, gamma=2.0, epsilon0=50.0, min_seeds=2), records=1, event=Lie(1e-6, 1e-9)
        )


def test_a_threshold_does_not_see_the_counts() -> None:
    seen: list[Any] = []

    class Delta(float):
        def __rmul__(self, other: Any) -> Any:
            seen.append(other)
            return self

        __mul__ = __truediv__ = __rtruediv__ = __sub__ = __rsub__ = __rmul__

    box = make()
    keys = SealedKeys({"x": 50}, name="k", unit=ADD)
    (found,) = release_keys(box, [keys], noise=[Gaussian(2.0)], deltas=[Delta(1e-4)], purpose="p")
    assert not seen
    assert set(found.counts) == {"x"}


def test_a_cap_is_not_shown_the_counts() -> None:
    class Cap(int):
        def __array_ufunc__(self, *given: Any, **options: Any) -> Any:
            raise AssertionError(given)

    buckets = SealedBuckets(make().counts(["a"]), cells=3, buckets=2, max_count=Cap(10))
    assert (
        buckets.sensitivity
        == SealedBuckets(make().counts(["a"]), cells=3, buckets=2, max_count=10).sensitivity
    )


# ---------------------------------------------------------------------- transforms of counts


def test_coefficients_are_for_the_unit_of_the_counts() -> None:
    """Before, the caller named the unit: of persons with ten rows the sensitivity could be that of one row."""
    box = make(Unit.add_remove_person("id", max_rows=10))
    counts = box.counts_many([("a",)])
    mine = fourier_coefficients(counts, SCHEMA.domain, [1.0], unit=box.unit, step=2.0**-20)
    with pytest.raises(BudgetError, match="another unit"):
        fourier_coefficients(counts, SCHEMA.domain, [1.0], unit=ADD, step=2.0**-20)
    assert mine.reach.l2 > 10
    with pytest.raises(BudgetError, match="too large"):
        fourier_coefficients(counts, SCHEMA.domain, [1e12], unit=box.unit, step=2.0**-20)


def test_coefficients_take_a_unit_and_a_domain_of_the_package_only() -> None:
    """Before, a unit that says to equal every other, or a domain with several sizes, could lower the sensitivity that was charged."""

    class Alike(Unit):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = Unit.__hash__

    class Shrinking(Domain):
        def size(self, name: str) -> int:
            return 2

    box = make(Unit.add_remove_person("id", max_rows=10))
    counts = box.counts_many([("a",)])
    with pytest.raises(BudgetError, match="not Alike"):
        fourier_coefficients(counts, SCHEMA.domain, [1.0], unit=Alike("add-remove", 1, "id"), step=2.0**-20)
    shrunk = Shrinking(SCHEMA.domain.names, SCHEMA.domain.sizes)
    with pytest.raises(BudgetError, match="not Shrinking"):
        fourier_coefficients(counts, shrunk, [1.0], unit=box.unit, step=2.0**-20)


def test_sums_that_would_overflow_are_refused() -> None:
    """Before, whole numbers of 64 bits ran over, and a row more moved a sum by fifteen times what was charged."""
    for seven, eight in ((make(exact=np.array([7, 0, 0])), make(exact=np.array([8, 0, 0]))),):
        for box in (seven, eight):
            counts = box.counts(["a"])
            with pytest.raises(BudgetError, match="steps of kernels"):
                kernel_sums(counts, [np.eye(3)], [2.0**-60], name="n")
            with pytest.raises(BudgetError, match="entries of a basis"):
                linear_coefficients(counts, np.eye(3), name="n", step=2.0**-60)
        moved = [
            kernel_sums(box.counts(["a"]), [np.eye(3) / 3], [2.0**-20], name="n") for box in (seven, eight)
        ]
        assert np.linalg.norm(moved[0]._exact - moved[1]._exact) * 2.0**-20 <= moved[0].reach.l2
    noise = Gaussian(100.0)
    sealed = kernel_sums(make().counts(["a"]), [np.eye(3)], [1.0], name="n")
    assert measure_numbers(make(), [sealed], noise=[noise], purpose="p")[0].values.shape == (3,)


def test_a_factor_is_read_once() -> None:
    class Small(np.ndarray):
        """Looks a millionth as large to whoever computes a sensitivity from it."""

        def __truediv__(self, other: Any) -> Any:
            return np.asarray(self) / other * 1e-6

    sealed = kernel_sums(make().counts(["a"]), [np.eye(3).view(Small)], [2.0**-20], name="n")
    assert sealed.reach.l2 >= 1


# ---------------------------------------------------------------------- divisions


@pytest.mark.parametrize(
    "division",
    [
        Division(0, "a", np.array([0, 0, 1]), (0, 7)),
        Division(0, "a", np.array([0, 0, 5]), (0, 1)),
        Division(0, "a", np.array([0, 0]), (0, 1)),
        Division(0, "a", np.array([0, 0, -3]), (0, 1)),
        Division(0, "no such column", np.array([0, 0, 1]), (0, 1)),
        Division(3, "a", np.array([0, 0, 1]), (0, 1)),
    ],
    ids=["no such leaf", "no such group", "too short", "negative", "no such column", "leaf to come"],
)
def test_whether_a_division_fits_does_not_depend_on_the_records(division: Division) -> None:
    """Before, it ended in an error where a record was in the group, and in counts where none was: an exact bit for nothing."""
    for exact in ([40, 7, 3], [40, 7, 0]):
        with pytest.raises(BudgetError, match="division"):
            seal_subset_counts(make(exact=np.array(exact)), Subsets(((division,),)), [{"b": np.arange(2)}])


# ---------------------------------------------------------------------- memory


def test_a_lack_of_memory_does_not_say_how_much() -> None:
    private = "Unable to allocate an array with shape (4711,)"

    def fail() -> None:
        raise MemoryError(private)

    with pytest.raises(MemoryError) as hidden:
        hide_errors(fail)()
    assert "4711" not in str(hidden.value)
    assert hidden.value.__context__ is None

    box = make()
    noise = Laplace(1.0)
    with pytest.raises(MemoryError) as shown:
        box._answer(noise.event(l1=1.0, l2=1.0), purpose="p", draw=fail)
    assert "4711" not in str(shown.value)
    assert shown.value.__context__ is None
    with pytest.raises(LookFailed):
        box._answer(noise.event(l1=1.0, l2=1.0), purpose="p", draw=lambda: 1 // 0)
