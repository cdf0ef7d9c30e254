"""DualQuery: weights over queries, answered by records (Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator
from understudy.engine import ProductMixture
from understudy.marginals import Query, QuerySource, Statistic, random_boxes
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import Fitted, Plan, Progress, Synthesizer
from understudy.mechanisms.options import at_least, refuse, unused
from understudy.mechanisms.queries.asking import TOTAL_SHARE, own_queries, plain_queries, reach_of, rows_of
from understudy.mechanisms.queries.look import draw_queries, seal_answers
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Unit
from understudy.privacy.events import SelectionEvent
from understudy.schema import Domain, Schema

# ----------------------------------------------------------------------------------------
# The best answer to a few questions: a record that scores high on a sum of tables. Post-processing of sampled queries.
#
# Finding the best record is hard in general (it contains maximum satisfiability), and privacy does not depend on how well it
# is done. Where the columns that the questions speak of have few cells together all of them are tried; elsewhere records
# climb from random starts: each column in turn takes its best code given the others, until nothing improves.

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

EXHAUSTIVE = 20_000
"""Most cells for which every record is tried."""


def best_record(
    domain: Domain,
    asked: Sequence[Query],
    signs: Sequence[float],
    *,
    starts: int,
    generator: np.random.Generator,
) -> Ints:
    """Return codes of a record with a high ``sum_i sign_i query_i(record)``.

    Columns that no question speaks of get random codes.

    Examples
    --------
    >>> from understudy.marginals import box
    >>> domain = Domain(("a", "b"), (3, 2))
    >>> asked = [box(domain, {"a": [1]}), box(domain, {"a": [1, 2], "b": [0]})]
    >>> best_record(domain, asked, [-1.0, 1.0], starts=2, generator=np.random.default_rng(0))
    array([2, 0])
    """
    involved = domain.canonical({name for query in asked for name in query.clique})
    if domain.cells(involved) <= EXHAUSTIVE:
        return _tried(domain, involved, asked, signs, generator)
    return _climbed(domain, involved, asked, signs, starts, generator)


def _tried(
    domain: Domain,
    involved: tuple[str, ...],
    asked: Sequence[Query],
    signs: Sequence[float],
    generator: np.random.Generator,
) -> Ints:
    total = np.zeros(domain.shape(involved))
    for query, sign in zip(asked, signs, strict=True):
        shape = [domain.size(name) if name in query.clique else 1 for name in involved]
        total += sign * query.values.reshape(shape)
    best = np.flatnonzero(total.ravel() >= total.max() - 1e-12)
    record: Ints = _anything(domain, 1, generator)[0]
    chosen = np.unravel_index(int(generator.choice(best)), total.shape)
    for name, code in zip(involved, chosen, strict=True):
        record[domain.index(name)] = int(code)
    return record


def _climbed(
    domain: Domain,
    involved: tuple[str, ...],
    asked: Sequence[Query],
    signs: Sequence[float],
    starts: int,
    generator: np.random.Generator,
) -> Ints:
    """Climb from several starts at once; return the best end."""
    records = _anything(domain, starts, generator)
    speaking: dict[str, list[int]] = {name: [] for name in involved}
    for place, query in enumerate(asked):
        for name in query.clique:
            speaking[name].append(place)
    columns = [[domain.index(name) for name in query.clique] for query in asked]
    for _ in range(20):
        before = records.copy()
        for name in generator.permutation(np.array(involved)).tolist():
            gain = np.zeros((starts, domain.size(name)))
            for place in speaking[name]:
                clique = asked[place].clique
                table = np.moveaxis(asked[place].values, clique.index(name), -1)
                others = tuple(records[:, domain.index(other)] for other in clique if other != name)
                gain += signs[place] * (table[others] if others else table)
            records[:, domain.index(name)] = np.argmax(gain + 1e-9 * generator.random(gain.shape), axis=1)
        if (records == before).all():
            break
    scores = np.zeros(starts)
    for query, sign, where in zip(asked, signs, columns, strict=True):
        scores += sign * query.values[tuple(records[:, column] for column in where)]
    chosen: Ints = records[int(np.argmax(scores))]
    return chosen


def _anything(domain: Domain, number: int, generator: np.random.Generator) -> Ints:
    return np.stack([generator.integers(0, size, number) for size in domain.sizes], axis=1)


_USEFUL_RATE = 1.0
_LARGEST_RATE = 2.0
"""Rates for answers as shares: fewer rounds are made below the first; above the second more queries are drawn instead,
since the draws of a round would be too much alike."""
_FEWEST, _MOST = 20, 500
"""Draws per round, where nobody says."""

_SHARE_SPENT = 1 - 1e-6
"""Rates are set to spend this share, so that rounding never exceeds the budget."""


@dataclass(frozen=True, kw_only=True)
class DualQuery(Synthesizer):
    """Play queries against records: sample queries that the records so far answer badly, add a record that answers well.

    The method keeps weights over queries instead of over records. In each round some queries are drawn from the weights,
    a record is found that answers them well, and the weights of queries that the records still answer too low
    (or too high) grow. The records are the output; nothing is ever measured. Since only the queries that were drawn
    depend on the table, the universe of records is searched, not enumerated, and the search costs no privacy.

    Parameters
    ----------
    num_query
        Size of the pool of random counting queries. Each comes with its opposite.
    rounds
        How many records are made (``T`` in the paper); by default by the budget and the number of rows.
    samples
        How many queries are drawn in each round (``s`` in the paper); by default 20, or more if the budget allows.
    marginal
        How many columns a random query speaks of.
    queries
        Linear queries of your own instead of a random pool.
    starts
        Random starts of the search for a record, where not all can be tried.
    public_seed
        Seed of the pool and of the searches, which are public; privacy noise takes no seed.

    Privacy
    -------
    In round ``t`` the weight of a query is ``exp(eta score)`` with ``score = (t-1) q(D) - n sum_i q(x_i)`` (and minus the score
    for its opposite), where the records ``x_i`` are released and ``n`` is public: known, or measured first. One unit
    moves ``q(D)`` by at most its sensitivity ``s``, hence every score by at most ``(t-1) s``. So drawing a query is the
    exponential mechanism with ``epsilon_t = 2 eta (t-1) s``, and each of the draws is charged as such: pure, or as a
    bounded-range mechanism under zCDP and GDP. The first round does not depend on the table and is free. ``eta`` is
    chosen in advance such that all draws together cost what is left of the budget, or less where that rate would be so
    large that all draws of a round were alike. The paper states
    the pure sum, ``eta T (T-1) samples / n`` for answers as shares; it is what this adds up to.

    Examples
    --------
    >>> DualQuery(rounds=100, samples=20).name
    'dualquery'
    """

    name: ClassVar[str] = "dualquery"
    summary: ClassVar[str] = "records that answer queries drawn where earlier records answer badly"
    source: ClassVar[Source] = Source(
        law="exponential mechanism for queries; Laplace or Gaussian on a private number of rows",
        papers={Paper.BIRTHS: "section 5"},
        origin="Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014",
    )

    num_query: int = 1024
    rounds: int | None = None
    samples: int | None = None
    marginal: int = 2
    queries: QuerySource | None = None
    starts: int = 16
    public_seed: int = 0

    def trial(self) -> DualQuery:
        """Return one that answers few queries."""
        return DualQuery(num_query=64, rounds=2, starts=1)

    def __post_init__(self) -> None:
        refuse(
            at_least(self, 1, "num_query", "samples", "marginal", "starts", optional=True),
            at_least(self, 2, "rounds", optional=True),  # the first one learns nothing
            []
            if self.queries is None
            else unused(self, "num_query", "marginal", because="queries are given"),
        )

    def options(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return super().options() | {"queries": plain_queries(self.queries)}

    # ------------------------------------------------------------------ public facts

    def _pool(self, schema: Schema) -> list[Query]:
        if self.queries is not None:
            return own_queries(schema, self.queries)
        generator = np.random.default_rng(self.public_seed)
        return list(random_boxes(schema.domain, self.num_query, order=self.marginal, generator=generator))

    def _design(self, accounting: Accounting, total: float, rows: float | None) -> tuple[int, int]:
        """Return how many records are made and how many queries are drawn before each.

        With answers as shares a useful rate is between 1 and 2. The largest number of rounds that the budget pays at
        such a rate is taken, at least 20 and at most 400; what it pays beyond that goes into more draws per round.
        """
        n = 10_000.0 if rows is None else rows
        samples = self.samples or _FEWEST
        rounds = self.rounds or 20
        if self.rounds is None:
            for number in (20, 30, 50, 75, 100, 150, 200, 300, 400):
                if self._rate(accounting, total, number, samples) * n >= _USEFUL_RATE:
                    rounds = number
        if self.samples is None:
            while samples < _MOST and self._rate(accounting, total, rounds, samples) * n > _LARGEST_RATE:
                samples += max(1, samples // 10)
        return rounds, samples

    def _rate(
        self, accounting: Accounting, total: float, rounds: int, samples: int, *, exact: bool = False
    ) -> float:
        """Return ``eta`` times the sensitivity of an answer such that all draws together cost at most ``total``.

        Costs of draws grow with a power of epsilon, nearly: a first guess from that is corrected until it fits.
        """
        power = 1.0 if accounting.name == "pure" else 2.0
        at_one = accounting.cost(SelectionEvent(0.01)) / 0.01**power
        sums = math.fsum((2.0 * earlier) ** power for earlier in range(1, rounds))
        rate = float((total / (samples * at_one * sums)) ** (1 / power))
        while exact:
            cost = samples * math.fsum(
                accounting.cost(SelectionEvent(2 * rate * earlier)) for earlier in range(1, rounds)
            )
            if cost <= total and cost >= total * (1 - 1e-4):
                break
            rate *= (total * (1 - 1e-5) / cost) ** (1 / power)
        return rate

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return one over the rate at which records follow the queries, for the same number of draws."""
        rounds, samples = self.rounds or 100, self.samples or _FEWEST
        return 1.0 / self._rate(accounting, cost, rounds, samples, exact=True)

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many records are made and what each draw costs at most."""
        pool = self._pool(schema)
        reach_of(pool, unit)
        accounting = self.accounting(budget, schema, unit)
        known = total_is_public(schema, unit)
        total = accounting.total(budget) * (1.0 if known else 1 - TOTAL_SHARE)
        rows = None if schema.row_count is None else float(schema.row_count)
        number, samples = self._design(accounting, total, rows)
        last = 2 * self._rate(accounting, total * _SHARE_SPENT, number, samples, exact=True) * (number - 1)
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=(),
            model_cells=number * sum(schema.domain.sizes),
            notes=(
                f"{number} records are made; before each, {samples} of {2 * len(pool)} queries (with their "
                f"opposites) are drawn, at epsilon {last:.3g} each in the last round"
                + ("." if rows or self.rounds else "; more records if the table is long."),
            ),
        )

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        domain, accounting = curator.domain, curator.accounting
        pool = self._pool(curator.schema)
        progress("counting", 0.0)
        sealed = seal_answers(curator, pool)
        rows, released = rows_of(curator)
        number, samples = self._design(accounting, curator.remaining, rows)
        rate = self._rate(accounting, curator.remaining * _SHARE_SPENT, number, samples, exact=True)
        rate = min(rate, _LARGEST_RATE * sealed.sensitivity / rows)
        generator = np.random.default_rng(self.public_seed)
        answers = np.zeros(len(pool))
        records = np.zeros((number, len(domain)), dtype=np.int64)
        for turn in range(number):
            progress("playing", (turn + 1) / (number + 1))
            if turn == 0:
                drawn = generator.integers(0, 2 * len(pool), samples).tolist()
            else:
                drawn = draw_queries(
                    curator,
                    sealed,
                    rows * answers,
                    factor=float(turn),
                    epsilon=2 * rate * turn,
                    number=samples,
                    purpose=f"draw {samples} queries",
                )
            # a query whose answer is too low so far asks for records that satisfy it, its opposite for others
            asked = [pool[place % len(pool)] for place in drawn]
            signs = [1.0 if place < len(pool) else -1.0 for place in drawn]
            record = best_record(domain, asked, signs, starts=self.starts, generator=generator)
            records[turn] = record
            answers += _answers(domain, pool, record)
        progress("done", 1.0)
        released.append(Statistic("records", records.astype(np.float64), "mechanism"))
        margins = {
            name: np.eye(domain.size(name))[records[:, index]] for index, name in enumerate(domain.names)
        }
        model = ProductMixture(domain, np.full(number, rows / number), margins)
        return Fitted(model, (), statistics=released)


def _answers(domain: Domain, pool: Sequence[Query], record: Ints) -> Floats:
    """Return what one record answers to every query."""
    return np.array(
        [query.values[tuple(int(record[domain.index(name)]) for name in query.clique)] for query in pool]
    )
