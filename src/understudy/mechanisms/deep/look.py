"""Noisy votes of teachers, each of which has seen a part of the records of its own (PATE, Papernot et al. 2017).

Every record, or every person with all records, is dealt to one teacher by a random number of its own, which depends on nothing else. Teachers are small networks that learn to
tell their records from made-up ones, which are public. Asked about made-up records, each teacher votes "real" or not, and what leaves the
curator is the number of votes plus whole-number noise.

Privacy
-------
In: private. Out: releasable. Fix the random numbers of all rows, by which they are dealt and drawn. Between neighbours under add-remove, the rows of one unit are
there or not, so at most ``k = max_rows`` teachers have different records. Under replace-one, let the j-th new row use the random numbers of the
j-th old one, which have the same law: again at most ``k`` teachers differ. Every other teacher is the same to the last bit, because

- it computes with its own records, its own random numbers and public inputs, in arrays whose shapes are public;
- it draws its batches with words reserved for it, however many records others have;
- the number of teachers, of rows they look at and of questions is fixed beforehand.

*People dealt as a whole.* Where the unit is a person and the table knows which rows are of one (one from a file or a frame, in memory or not; not one in a database), all rows of a person go to one teacher, by one random number of that person. Fix
the numbers of all people. Adding or removing a person changes the records of the one teacher that the person's number names; a replaced person uses the number of the old one, which has the same law. So *one*
teacher differs, however many rows the person has, and ``k`` is 1 in what follows. Whether people are dealt as a whole follows from the unit and from the kind of source, which are public (whether a file fits into memory is not), and it is
part of the plan that is charged.

So, given all earlier answers, the number of votes on one question changes by at most ``k``, and ``m`` questions change by at most ``k m`` in L1
and ``k sqrt(m)`` in L2. What a question is may depend on earlier answers: Gaussian and Laplace costs add up adaptively. Votes are not weighed by how
much the teachers agree: bounds that use the agreement depend on the records and would have to be hidden themselves.
All questions, and the marginals measured beside them, are charged before the first is asked. The same random numbers being fixed for the whole of a run,
the bound holds for each of their values, and so on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, Sealed, hide_errors
from understudy.data import Table
from understudy.data.persons import Persons
from understudy.errors import BudgetError
from understudy.marginals import Measurement
from understudy.mechanisms.deep.critic import Critic, Weights
from understudy.mechanisms.deep.encoding import Layout
from understudy.privacy import Event, Gaussian, Geometric, Noise, Unit
from understudy.privacy.accounting.subsampled import approximated, approximated_delta
from understudy.privacy.events import Approximated, Composed, GaussianEvent, SubsampledGaussianEvent
from understudy.privacy.exact_floats import float_up, sqrt_up
from understudy.privacy.noise.randomness import Randomness
from understudy.privacy.own import own, own_noise

# ----------------------------------------------------------------------------------------
# What conversations that are paid for at once have in common: one-way marginals measured beside them, and records as codes.


class Paid(Sealed):
    """Something that was charged in full before it began. Holds records, so it can be neither copied nor shown.

    Privacy
    -------
    In: private. Out: noisy marginals, each column once, as charged by whoever opened it.
    """

    __slots__ = ("_domain", "_measured", "_noises", "_randomness", "_table")

    def __init__(self, curator: Curator, noises: Sequence[Noise]) -> None:
        self._randomness = curator._randomness
        self._table = curator._table
        self._domain = curator.domain
        self._noises = tuple(own_noise(noise) for noise in noises)
        self._measured = False

    @hide_errors
    def marginals(self) -> list[Measurement]:
        """Measure the one-way marginals, once.

        Privacy
        -------
        In: private. Out: releasable. One histogram per column with the noise that was charged when this was opened; a second
        request is refused.
        """
        if self._measured:
            raise BudgetError("The marginals that were paid for have been measured already.")
        self._measured = True
        names = self._domain.names if self._noises else ()
        exact = self._table.count_many([(name,) for name in names])
        return [
            Measurement(
                (name,),
                (counts + noise.draw(counts.shape, self._randomness)).astype(np.float64),
                noise.kind,
                noise.scale,
            )
            for name, counts, noise in zip(names, exact, self._noises, strict=True)
        ]


def check_noises(layout: Layout, noises: Sequence[Noise]) -> None:
    """Refuse noises that are neither one per column nor none."""
    if noises and len(noises) != len(layout.sizes):
        raise BudgetError("Beside it one marginal per column is measured, or none.")


def check_fit(curator: Curator, layout: Layout) -> None:
    """Refuse networks for other columns than the table has."""
    if layout.sizes != curator.domain.sizes:
        raise BudgetError("The network does not fit the columns of the table.")


def read_codes(table: Table) -> npt.NDArray[Any]:
    """Return all records as one array of codes. Private."""
    names = table.schema.names
    parts = [np.stack([chunk[name] for name in names], axis=1) for chunk in table.chunks()]
    kind = np.min_scalar_type(max(1, max(table.schema.domain.sizes) - 1))
    return np.concatenate([np.zeros((0, len(names)), dtype=kind), *(part.astype(kind) for part in parts)])


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LARGEST_MULTIPLIER = 2_000.0


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """What will be drawn: noisy gradients, and marginals beside them. Public.

    Attributes
    ----------
    critic
        The network, without its weights.
    rate
        Probability with which a record enters a batch.
    noise_multiplier
        Standard deviation of the noise, in largest contributions of one record.
    steps
        Number of batches.
    marginals
        Noise of the one-way marginals, one per column, or nothing.

    Examples
    --------
    >>> from understudy.mechanisms.deep.encoding import Layout
    >>> critic = Critic(Layout((2, 3), (np.arange(2), np.arange(3))), (4,), "cross_entropy", 1.0)
    >>> plan = TrainingPlan(critic, 0.05, 4.0, 100, ())
    >>> round(plan.event(Unit.add_remove(), delta=1e-6).epsilon, 2)
    0.54
    """

    critic: Critic
    rate: float
    noise_multiplier: float
    steps: int
    marginals: tuple[Gaussian, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise BudgetError(f"The rate of a batch ({self.rate}) must lie between 0 and 1.")
        if not 0 < self.noise_multiplier <= _LARGEST_MULTIPLIER:
            raise BudgetError(
                f"noise_multiplier ({self.noise_multiplier:.4g}) must be positive and at most {_LARGEST_MULTIPLIER:g}: more "
                "noise than that leaves nothing to learn from. Use a larger budget or fewer epochs."
            )
        if self.steps < 1:
            raise BudgetError(f"Training needs at least one step, not {self.steps}.")
        check_noises(self.critic.layout, self.marginals)
        if not all(type(noise) is Gaussian for noise in self.marginals):
            raise BudgetError(
                "Marginals beside a training have Gaussian noise: the accountant composes nothing else with it."
            )

    def measured(self, unit: Unit) -> tuple[GaussianEvent, ...]:
        """Return what the marginals are, as events."""
        return tuple(noise.event(l1=unit.histogram_l1, l2=unit.histogram_l2) for noise in self.marginals)

    def sampled(self, unit: Unit) -> SubsampledGaussianEvent:
        """Return what the steps are, as an event."""
        sides = 1 if unit.relation == "add-remove" else 2
        return SubsampledGaussianEvent(self.rate, self.noise_multiplier, self.steps, unit.max_rows, sides)

    def drawn(self, unit: Unit) -> tuple[GaussianEvent | SubsampledGaussianEvent, ...]:
        """Return all that will be drawn, as events."""
        return (*self.measured(unit), self.sampled(unit))

    def event(self, unit: Unit, *, delta: float) -> Approximated:
        """Return everything as one event, with the epsilon that the accountant finds at ``delta``."""
        return approximated(self.drawn(unit), delta=delta)


def open_training(curator: Curator, plan: TrainingPlan, *, event: Approximated, purpose: str) -> Training:
    """Charge for a whole training and return the door to its steps.

    The curator holds the records. In each step it flips a coin of its own for every record (Poisson sampling, really done), adds up the
    clipped gradients of those that came up, and adds whole-number Gaussian noise. The network is given with each step; it is public, because it is
    a function of earlier noisy gradients. What is charged is all steps together, and the one-way marginals that
    are measured beside them, once, before the first coin.

    Parameters
    ----------
    event
        What ``plan.event`` returned for the curator's unit, or the same acts with a larger epsilon or delta.

    Privacy
    -------
    In: private. Out: releasable. With public ``rate`` and noise multiplier ``z``:

    - *Coins.* Gaps between the records of a batch are independent geometric numbers, drawn exactly, which is the same as independent coins. Their
      probability is at most ``rate``. Coins do not depend on what the records hold, nor on a condition.
    - *Contributions.* A record contributes a vector of whole numbers of norm at most ``reach`` that depends on nothing but the
      record, its coins and the public network (:mod:`understudy.mechanisms.deep.critic`). The condition shown beside a record repeats one of its own columns,
      chosen by a coin: records are not chosen to fit a condition.
    - *Noise.* The rounded Gaussian with ``sigma = z reach`` on a vector of whole numbers is a post-processing of the continuous Gaussian mechanism.

    So one step is the mechanism that :mod:`understudy.privacy.accounting.subsampled` analyses, with ``rows = max_rows`` of the unit and one or two sides. Steps are
    adaptive in the network only; rate, noise and number are fixed when they are charged. Marginals are histograms with Gaussian noise and
    compose with them in the same analysis.

    The two numbers that are charged are not taken on trust: the accountant must find that the acts keep them.
    """
    critic = own(plan.critic, Critic)
    critic = replace(critic, layout=own(critic.layout, Layout))
    noises = tuple(own(noise, Gaussian) for noise in plan.marginals)
    plan = replace(own(plan, TrainingPlan), critic=critic, marginals=noises)
    drawn = plan.drawn(curator.unit)
    if event.events != drawn:
        raise BudgetError("The event to be charged is not the one of this plan and unit.")
    check_fit(curator, plan.critic.layout)
    if approximated_delta(drawn, event.epsilon) > event.delta:
        raise BudgetError(
            f"This training does not keep epsilon={event.epsilon:.6g} at delta={event.delta:.3g}, which was to be charged for it."
        )
    curator._pay(event, purpose=purpose)
    return Training(curator, plan)


class Training(Paid):
    """A training that has been paid for: so many steps and no more. Holds records, so it can be neither copied nor shown.

    Privacy
    -------
    In: private. Out: noisy marginals and noisy sums of gradients, as charged by :func:`open_training`.
    """

    __slots__ = ("_codes", "_left", "_plan")

    def __init__(self, curator: Curator, plan: TrainingPlan) -> None:
        super().__init__(curator, plan.marginals)
        self._plan = plan
        self._codes: npt.NDArray[Any] | None = None
        self._left = plan.steps

    @property
    def steps_left(self) -> int:
        """How many steps have been paid for and not taken."""
        return self._left

    @hide_errors
    def step(self, weights: Weights) -> list[Floats]:
        """Return the noisy sum of the gradients of one random batch, by layer, the constants last.

        Privacy
        -------
        In: private. Out: releasable, one of the steps that :func:`open_training` charged for (proof there): fresh coins choose
        the batch, each record of it adds a vector of whole numbers of norm at most ``reach``, and every component gets fresh rounded
        Gaussian noise of ``noise_multiplier`` times ``reach``. The network is public.
        """
        weights = [
            (np.array(matrix, dtype=np.float64), np.array(constants, dtype=np.float64))
            for matrix, constants in weights
        ]
        if self._left < 1:
            raise BudgetError(f"All {self._plan.steps} steps that were paid for have been taken.")
        self._left -= 1
        if self._codes is None:
            self._codes = read_codes(self._table)
        critic = self._plan.critic
        batch = poisson_batch(len(self._codes), self._plan.rate, self._randomness)
        codes = self._codes[batch]
        columns = np.uint64(len(critic.layout.sizes))
        shown = (self._randomness.words(len(batch)) % columns).astype(np.int64)
        exact = critic.gradients(weights, codes, shown, real=True)
        noise = Gaussian(self._plan.noise_multiplier * critic.reach)
        drawn = noise.draw((critic.parameters,), self._randomness)
        found, start = [], 0
        for layer in exact:
            part = drawn[start : start + layer.size].reshape(layer.shape)
            found.append((layer + part).astype(np.float64) * critic.unit)
            start += layer.size
        return found


def poisson_batch(rows: int, rate: float, randomness: Randomness) -> Ints:
    """Return the places of the rows whose coin came up, each with probability at most ``rate`` and independently.

    Where gaps are geometric with ``P(gap >= k) = exp(-k/s)``, coins are independent with probability ``1 - exp(-1/s)``. The
    scale ``s`` is chosen so that this is ``rate`` less one part in 2^40, which covers how ``s`` itself is rounded.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> poisson_batch(5, 1.0, SeededRandomness(1))
    array([0, 1, 2, 3, 4])
    """
    if rate >= 1:
        return np.arange(rows, dtype=np.int64)
    gaps = Geometric(-1.0 / math.log1p(-rate * (1 - 2.0**-40)))
    pieces: list[Sequence[int] | Ints] = []
    last = -1
    while last < rows:
        expected = rate * (rows - last)
        drawn = last + np.cumsum(gaps.draw(int(expected + 4 * math.sqrt(expected)) + 8, randomness) + 1)
        pieces.append(drawn)
        last = int(drawn[-1])
    places = np.concatenate(pieces).astype(np.int64)
    return places[places < rows]


Singles = npt.NDArray[np.float32]

_SLOPE = np.float32(0.2)
_DECAYS = (np.float32(0.5), np.float32(0.9))
MAX_TEACHERS = 5_000


@dataclass(frozen=True, eq=False)
class PanelPlan:
    """Teachers, the questions they will answer and the noise on the answers. Public.

    Attributes
    ----------
    layout
        Places of a record in a network.
    teachers, hidden, batch, rate
        Number of teachers, units in the hidden layer of each, records each looks at in one lesson, and learning rate.
    questions
        How many questions will be answered in all.
    noise
        Of each answer.
    marginals
        Noise of the one-way marginals, one per column, or nothing.
    whole
        Whether all rows of a person are dealt to one teacher.

    Examples
    --------
    >>> from understudy.privacy import Laplace
    >>> layout = Layout((2, 3), (np.arange(2), np.arange(3)))
    >>> PanelPlan(layout, 10, 8, 4, 1e-3, 100, Laplace(50.0)).event(Unit.add_remove())
    LaplaceEvent(l1_sensitivity=100.0, scale=50.0)
    """

    layout: Layout
    teachers: int
    hidden: int
    batch: int
    rate: float
    questions: int
    noise: Noise
    marginals: tuple[Noise, ...] = ()
    whole: bool = False

    def __post_init__(self) -> None:
        for name in ("teachers", "hidden", "batch", "questions"):
            if getattr(self, name) < 1:
                raise BudgetError(f"{name} ({getattr(self, name)}) must be at least 1.")
        if self.teachers > MAX_TEACHERS:
            raise BudgetError(
                f"At most {MAX_TEACHERS:,} teachers are trained; {self.teachers:,} were asked for."
            )
        check_noises(self.layout, self.marginals)

    def event(self, unit: Unit) -> Event:
        """Return everything that will be drawn as one event."""
        events: list[Event] = [
            noise.event(l1=unit.histogram_l1, l2=unit.histogram_l2) for noise in self.marginals
        ]
        touched = 1 if self.whole else unit.max_rows
        most = touched * self.questions
        events.append(self.noise.event(l1=most, l2=votes_l2(touched, self.questions)))
        return events[0] if len(events) == 1 else Composed(tuple(events))


def votes_l2(touched: int, questions: int) -> float:
    """Return the largest Euclidean change of the answers to so many questions if one unit changes so many teachers, rounded up.

    Examples
    --------
    >>> votes_l2(1, 4)
    2.0
    """
    return float_up(sqrt_up(Fraction(touched**2 * questions), bits=53))


def deals_people(curator: Curator) -> bool:
    """Say whether all rows of a person can be dealt to one teacher: the unit is a person, and the table comes from a file or a frame. Public."""
    return curator.unit.id_column is not None and getattr(curator._table, "whose", None) is not None


def open_panel(curator: Curator, plan: PanelPlan, *, generator: np.random.Generator, purpose: str) -> Panel:
    """Charge for all questions and return the door to the teachers.

    Parameters
    ----------
    generator
        Public randomness: where the networks start from.

    Privacy
    -------
    In: private. Out: under seal; see the head of this module.
    """
    layout, noise = own(plan.layout, Layout), own_noise(plan.noise)
    noises = tuple(own_noise(item) for item in plan.marginals)
    plan = replace(own(plan, PanelPlan), layout=layout, noise=noise, marginals=noises)
    check_fit(curator, plan.layout)
    if plan.whole and not deals_people(curator):
        raise BudgetError(
            "People are dealt as a whole where the unit is a person and the table is no database."
        )
    curator._pay(plan.event(curator.unit), purpose=purpose)
    return Panel(curator, plan, generator)


class Panel(Paid):
    """Teachers that have been paid for so many answers and no more. Holds records, so it can be neither copied nor shown.

    Privacy
    -------
    In: private. Out: noisy marginals and noisy numbers of votes, as charged by :func:`open_panel`.
    """

    __slots__ = (
        "_codes",
        "_first",
        "_left",
        "_order",
        "_parameters",
        "_plan",
        "_second",
        "_sizes",
        "_starts",
        "_taught",
    )

    @hide_errors
    def __init__(self, curator: Curator, plan: PanelPlan, generator: np.random.Generator) -> None:
        super().__init__(curator, plan.marginals)
        self._plan = plan
        self._left = plan.questions
        self._codes = read_codes(curator._table)
        if plan.whole:
            whose: Persons = getattr(curator._table, "whose", np.zeros(0, np.int64))
            dealt = deal_people(whose, plan.teachers, self._randomness)
        else:
            dealt = deal(len(self._codes), plan.teachers, self._randomness.words(len(self._codes)))
        self._order = np.argsort(dealt, kind="stable")
        self._sizes = np.bincount(dealt, minlength=plan.teachers).astype(np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]]).astype(np.int64)
        width = plan.layout.width + plan.layout.conditions
        k, h = plan.teachers, plan.hidden
        bound = 1 / math.sqrt(max(1, len(plan.layout.sizes)))
        self._parameters: list[Singles] = [
            np.array(generator.uniform(-bound, bound, (k, width, h)), dtype=np.float32),
            np.zeros((k, 1, h), dtype=np.float32),
            (np.array(generator.uniform(-1, 1, (k, h, 1)), dtype=np.float64) / math.sqrt(h)).astype(
                np.float32
            ),
            np.zeros((k, 1, 1), dtype=np.float32),
        ]
        self._first = [np.zeros_like(item) for item in self._parameters]
        self._second = [np.zeros_like(item) for item in self._parameters]
        self._taught = 0

    @property
    def questions_left(self) -> int:
        """How many questions have been paid for and not asked."""
        return self._left

    @hide_errors
    def teach(self, made_up: npt.NDArray[Any], conditions: Ints) -> None:
        """Give every teacher one lesson: some of its own records, and as many made-up ones.

        Parameters
        ----------
        made_up
            Codes of ``teachers * batch`` public records.
        conditions
            The column of each that is shown as its condition.
        """
        made_up, conditions = np.array(made_up, dtype=np.int64), np.array(conditions, dtype=np.int64)
        k, m, width = self._plan.teachers, self._plan.batch, len(self._domain)
        real, shown, weights = self._draw()
        fake = self._inputs(made_up, conditions).reshape(k, m, -1)
        inputs = np.concatenate(
            [self._inputs(real.reshape(-1, width), shown).reshape(k, m, -1), fake], axis=1
        )
        labels = np.concatenate([np.ones((k, m)), np.zeros((k, m))], axis=1).astype(np.float32)
        counted = np.concatenate([weights, np.full((k, m), 1 / m, dtype=np.float32)], axis=1)
        with np.errstate(all="ignore"):  # libraries set flags for padding they have read and not used
            self._descend(inputs, labels[:, :, None], counted[:, :, None])

    def _draw(self) -> tuple[npt.NDArray[Any], Ints, Singles]:
        """Draw rows for each teacher from its own, with words of its own; a teacher without records counts none."""
        k, m = self._plan.teachers, self._plan.batch
        words = self._randomness.words(2 * k * m).reshape(2, k, m)
        sizes = np.maximum(self._sizes, 1).astype(np.uint64)[:, None]
        chosen = self._starts[:, None] + (words[0] % sizes).astype(np.int64)
        shown = (words[1] % np.uint64(len(self._domain))).astype(np.int64).ravel()
        some = self._sizes > 0
        if not len(self._codes):
            rows = np.zeros((k, m, len(self._domain)), dtype=np.int64)
        else:
            rows = self._codes[self._order[np.minimum(chosen, len(self._order) - 1)]]
        rows = np.where(some[:, None, None], rows, 0)
        weights = np.where(some[:, None], 1 / m, 0.0) * np.ones((1, m))
        return rows, shown, weights.astype(np.float32)

    def _inputs(self, codes: npt.NDArray[Any], conditions: Ints) -> Singles:
        return dense_inputs(self._plan.layout, codes, conditions)

    def _descend(self, inputs: Singles, labels: Singles, counted: Singles) -> None:
        """One step of Adam for every teacher at once; nothing of one teacher enters another."""
        into, shift, out, level = self._parameters
        sums = np.matmul(inputs, into) + shift
        active = np.where(sums > 0, sums, _SLOPE * sums)
        logits = np.clip(np.matmul(active, out) + level, -30, 30)
        wrong = (1 / (1 + np.exp(-logits)) - labels) * counted
        back = np.matmul(wrong, out.transpose(0, 2, 1))
        back = np.where(sums > 0, back, _SLOPE * back)
        gradients = [
            np.matmul(inputs.transpose(0, 2, 1), back),
            back.sum(axis=1, keepdims=True),
            np.matmul(active.transpose(0, 2, 1), wrong),
            wrong.sum(axis=1, keepdims=True),
        ]
        self._taught += 1
        one, two = _DECAYS
        size = np.float32(
            self._plan.rate * math.sqrt(1 - float(two) ** self._taught) / (1 - float(one) ** self._taught)
        )
        for place, gradient in enumerate(gradients):
            first, second = self._first[place], self._second[place]
            first += (1 - one) * (gradient - first)
            second += (1 - two) * (gradient * gradient - second)
            self._parameters[place] -= size * first / (np.sqrt(second) + np.float32(1e-8))

    @hide_errors
    def ask(self, made_up: npt.NDArray[Any], conditions: Ints) -> npt.NDArray[np.float64]:
        """Return, for each made-up record, the noisy number of teachers that take it for real.

        Privacy
        -------
        In: private. Out: releasable, some of the questions that :func:`open_panel` charged for (head of this module). One unit changes the
        votes of at most ``max_rows`` teachers, or of one where people are dealt as a whole, so each number by at most as much, and every number gets fresh noise.
        """
        made_up, conditions = np.array(made_up, dtype=np.int64), np.array(conditions, dtype=np.int64)
        if len(made_up) > self._left:
            raise BudgetError(f"{self._left} of the {self._plan.questions} questions paid for are left.")
        self._left -= len(made_up)
        with np.errstate(all="ignore"):
            votes = self._votes(made_up, conditions).sum(axis=0)
        noisy = votes + self._plan.noise.draw((len(made_up),), self._randomness)
        return np.asarray(noisy, dtype=np.float64)

    def _votes(self, made_up: npt.NDArray[Any], conditions: Ints) -> Ints:
        """Return the votes, one row per teacher. Private."""
        inputs = self._inputs(made_up, conditions)
        into, shift, out, level = self._parameters
        sums = np.matmul(inputs[None], into) + shift
        active = np.where(sums > 0, sums, _SLOPE * sums)
        return np.asarray((np.matmul(active, out) + level)[:, :, 0] > 0, dtype=np.int64)


def deal(rows: int, teachers: int, words: npt.NDArray[np.uint64]) -> Ints:
    """Return the teacher of each row: a function of the row's own random word and of nothing else.

    Examples
    --------
    >>> deal(3, 2, np.array([4, 7, 6], dtype=np.uint64))
    array([0, 1, 0])
    """
    if len(words) != rows:
        raise BudgetError("Each row is dealt by a random number of its own.")
    return (words % np.uint64(teachers)).astype(np.int64)


def deal_people(whose: Persons, teachers: int, randomness: Randomness) -> Ints:
    """Return the teacher of each row: that of its person, a function of one random number of that person and of nothing else.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> dealt = deal_people(np.array([4, 9, 4, 4]), 1_000, SeededRandomness(1))
    >>> len(set(dealt[[0, 2, 3]].tolist()))
    1
    """
    people, place = np.unique(whose, return_inverse=True)
    return deal(len(people), teachers, randomness.words(len(people)))[place.reshape(-1)]


def dense_inputs(layout: Layout, codes: npt.NDArray[Any], conditions: Ints) -> Singles:
    """Return records as inputs of a network: modes, positions, then the condition.

    Examples
    --------
    >>> layout = Layout((2, 3), (np.arange(2), np.arange(3)))
    >>> dense_inputs(layout, np.array([[1, 0]]), np.array([0])).astype(int)
    array([[0, 1, 1, 0, 0, 0, 1, 0, 0, 0]])
    """
    inputs = np.zeros((len(codes), layout.width + layout.conditions), dtype=np.float32)
    places = layout.places(codes)
    rows = np.arange(len(codes))
    inputs[rows[:, None], places] = 1
    inputs[:, layout.conditions : layout.width] = layout.positions(codes)
    inputs[rows, layout.width + places[rows, conditions]] = 1
    return inputs
