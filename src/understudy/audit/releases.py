"""End to end: a whole release, attempts and failures included, on made-up neighbouring tables.

The law of a whole release, computed: a loop of attempts on a table of yes and no, every outcome with its probability.

One attempt measures the two counts with Laplace noise (method ``laplace``), draws a candidate from them by the public seed, and
tests the smallest slack of the criteria. What was measured determines the candidate, so an outcome of the release is a pair
of whole numbers, or failure. With ``p`` the probability that an attempt passes, the loop publishes outcome ``x`` with probability
``Q(x) g(p)`` and fails with ``(1 - p) h(p)``, where ``g`` and ``h`` belong to the rule for the number of attempts. All of it
is worked out from the parts that a release is made of: the scale of the planned noise, the drawing of candidates, the
criteria, the threshold and the scale of the test. The accounting, which is what is audited, has no part in it.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.audit.exact import exact_epsilon
from understudy.audit.hunt import Audit, Effort, Subject, hunt
from understudy.audit.observers import CROWDED, Observation, Pair, counted, failure, log_ratio, lowest_bit
from understudy.audit.trials import Tally, claim_of
from understudy.curator import Curator
from understudy.data import LocalTable, Table, read_table
from understudy.data.linked import LinkedTables
from understudy.engine import DenseTable, project_to_simplex
from understudy.errors import UnderstudyError, WorkloadError
from understudy.mechanisms import Model, no_progress
from understudy.privacy import Ledger
from understudy.privacy.rows import PublicRows
from understudy.release import Criterion, RecordTypes, SlackTest
from understudy.release.result import Configuration, ReleaseFailure, ReleaseResult
from understudy.release.run.candidate import draw_candidate, fit_model
from understudy.release.run.planning import usable_configurations
from understudy.release.run.run import run_release
from understudy.release.run.transform import pairs_of, read_source, register_tables
from understudy.release.spec.spec import Spec
from understudy.schema import Schema

__all__ = ["ReleaseLaw", "audit_release_law", "release_law"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_REACH = 32.0
"""Scales of the noise beyond which outcomes are left out; together they have a probability below ``e^-30``."""


@dataclass(frozen=True, eq=False)
class ReleaseLaw:
    """Probabilities of everything that a release can end in.

    Attributes
    ----------
    published
        By the two measured counts, no before yes, on a grid that is the same for tables of equal size.
    start
        The smaller end of both axes of the grid.
    candidates
        Yes in the candidate, by the same.
    failure
        Probability that nothing is published.
    passes
        Probability that one attempt passes.
    """

    published: Floats
    start: int
    candidates: Ints
    failure: float
    passes: float

    @property
    def outcomes(self) -> Floats:
        """Probabilities of all outcomes in one row, failure last."""
        return np.append(self.published.ravel(), self.failure)


def release_law(spec: Spec, yes: int, rows: int) -> ReleaseLaw:
    """Return the law of a release of a made-up table.

    Parameters
    ----------
    spec
        A specification with one yes-or-no column, the method ``laplace`` with its default options, a pass-only test and
        a fixed seed, for replaced rows.
    yes, rows
        The table: how many of its rows say yes.

    Examples
    --------
    >>> from understudy.audit.releases import LOOP
    >>> law = release_law(Spec.parse(LOOP), 1, 1)
    >>> round(float(law.outcomes.sum()), 9)
    1.0
    """
    configurations = usable_configurations(spec)
    domain = spec.schema.domain
    if (
        domain.sizes != (2,)
        or [item.method for item in configurations] != ["laplace"]
        or spec.form != "pass-only"
        or spec.seed is None
        or spec.unit.relation != "replace-one"
        or spec.unit.max_rows != 1
    ):
        raise WorkloadError("The law is computed for one yes-or-no column, laplace, and one pass-only test.")
    model = _any_model(spec, configurations[0], rows)
    scale = float(model.measurements[0].scale)
    reach = math.ceil(_REACH * scale)
    values = np.arange(-reach, rows + reach + 1)
    # the candidate depends on the measured counts through their difference only: see project_to_simplex
    drawn = {
        difference: _candidate(spec, configurations[0], model, rows, difference)
        for difference in range(-rows, rows + 1)
    }
    difference = np.clip(values[None, :] - values[:, None], -rows, rows)
    candidates = np.array([drawn[d] for d in range(-rows, rows + 1)])[difference + rows]
    real = _types(spec, yes, rows)
    test = SlackTest(tuple(spec.criteria_for(spec.schema)))
    epsilon = spec.shares.acceptance
    threshold = test.threshold(epsilon=epsilon, false_accept=spec.false_accept, unit=spec.unit)
    chance = np.array(
        [
            test.acceptance(
                test.slack(real, _types(spec, k, rows)), threshold=threshold, epsilon=epsilon, unit=spec.unit
            )
            for k in range(rows + 1)
        ]
    )
    attempt = (
        _noise(values - (rows - yes), scale)[:, None]
        * _noise(values - yes, scale)[None, :]
        * chance[candidates]
    )
    passes = float(attempt.sum())
    p, rule = np.array([passes]), spec.attempts
    return ReleaseLaw(
        published=attempt * float(rule.weight_of_pass(p)[0]),
        start=-reach,
        candidates=candidates,
        failure=(1 - passes) * float(rule.weight_of_failure(p)[0]),
        passes=passes,
    )


def audit_release_law(spec: Spec, *, most_rows: int = 4) -> Audit:
    """Compare the laws of a release on all neighbouring tables of up to so many rows.

    Examples
    --------
    >>> from understudy.audit.releases import LOOP
    >>> audit = audit_release_law(Spec.parse(LOOP), most_rows=2)
    >>> audit.violates(), audit.demonstrated > 0.6 * audit.claim.value
    (False, True)
    """
    start, worst = time.perf_counter(), 0.0
    for rows in range(1, most_rows + 1):
        laws = [release_law(spec, yes, rows).outcomes for yes in range(rows + 1)]
        for one, two in pairwise(laws):  # a replaced row moves at most one from yes to no
            worst = max(worst, exact_epsilon(one, two))
    return Audit(
        f"release {spec.name!r}",
        f"all tables of up to {most_rows} rows",
        spec.unit.describe(),
        claim_of(spec.total),
        "every probability computed",
        Tally(0, 0, 0, 0, 0, 0),
        True,
        time.perf_counter() - start,
        exact=worst,
    )


def _noise(steps: Ints, scale: float) -> Floats:
    """Probabilities of discrete Laplace noise."""
    ratio = math.exp(-1 / scale)
    return np.asarray((1 - ratio) / (1 + ratio) * ratio ** np.abs(steps).astype(np.float64))


def _types(spec: Spec, yes: int, rows: int) -> RecordTypes:
    return RecordTypes.from_rows(spec.schema.domain, [[0]] * (rows - yes) + [[1]] * yes)


def _any_model(spec: Spec, configuration: Configuration, rows: int) -> Model:
    """Fit a model of a made-up table; only its kind and the scale of its noise are used."""
    table = LocalTable(spec.schema, {spec.schema.names[0]: np.zeros(rows, dtype=np.int64)})
    with Ledger.in_memory(budget=spec.total, unit=spec.unit, table="audit") as ledger:
        curator = Curator(table, unit=spec.unit, ledger=ledger, rows=PublicRows.exactly(rows))
        return fit_model(spec, configuration, curator, progress=no_progress)


def _candidate(spec: Spec, configuration: Configuration, model: Model, rows: int, difference: int) -> int:
    """Return how many rows of the candidate say yes if yes was measured so much more often than no."""
    cells = project_to_simplex(np.array([0.0, float(difference)]), float(rows))
    measured = replace(model, distribution=DenseTable(spec.schema.domain, cells))
    assert spec.seed is not None
    drawn = draw_candidate(spec, configuration, measured, rows=rows, seed=spec.seed)
    return int(drawn.types.marginal(spec.schema.names)[1])


# ----------------------------------------------------------------------------------------
# The evidence in a published release, for an attacker who knows both tables: likelihood ratios of all its parts.
#
# What a release publishes about the records is what was measured for its model, that its candidate passed, and, where errors are
# published, noisy errors. The attacker knows the noise of each and computes how much likelier it is on the one table. How
# likely a pass was on the whole, and that nothing was published, it learns from other runs.

Types = tuple[RecordTypes, RecordTypes]
Made = pd.DataFrame | Mapping[str, pd.DataFrame]
"""A made-up table, or linked tables by name."""
Known = Made | LinkedTables


class Neighbours:
    """Two made-up neighbouring tables, as every configuration of a specification transforms them.

    Examples
    --------
    >>> from understudy.audit.releases import LOOP
    >>> spec = Spec.parse(LOOP)
    >>> Neighbours(spec, pd.DataFrame({"a": [True]}), pd.DataFrame({"a": [False]}))
    Neighbours('audit loop')
    """

    def __init__(self, spec: Spec, first: Known, second: Known) -> None:
        self._spec = spec
        self._frames = (first, second)
        self._seen: dict[tuple[str, ...], tuple[Pair, Types]] = {}
        self._parts: dict[str, Neighbours] = {}
        if spec.parts:
            one, two = (pairs_of(spec, register_tables(spec, frame)) for frame in self._frames)
            self._parts = {
                table: Neighbours(part, one[table], two[table]) for table, part in spec.parts.items()
            }

    def __repr__(self) -> str:
        return f"Neighbours({self._spec.name!r})"

    def log_ratio(self, outcome: ReleaseResult) -> float:
        """Return the log-likelihood of a published release on the first table minus that on the second.

        Of several tables of events it is the sum over the tables: their models and tests draw their noise apart from one another.
        """
        if self._parts:
            return sum(self._parts[table].log_ratio(part) for table, part in outcome.parts.items())
        pair, types = self._tables(outcome.configuration)
        model = outcome.model
        total = 0.0 if model is None else log_ratio(model.measurements, pair)
        candidate = self._candidate(outcome)
        return total + self._passing(outcome, types, candidate) + self._errors(outcome, types, candidate)

    def _tables(self, configuration: Configuration) -> tuple[Pair, Types]:
        key = tuple(configuration.transformations.values())
        if key not in self._seen:
            spec = self._spec
            one, two = (read_source(spec, configuration, frame) for frame in self._frames)
            assert isinstance(one, LocalTable)
            assert isinstance(two, LocalTable)
            types = (self._types(one), self._types(two))
            self._seen[key] = (Pair("made up", spec.unit, one, two), types)
        return self._seen[key]

    def _types(self, table: Table) -> RecordTypes:
        """Return what criteria compare: the rows that count, or the event records of entities."""
        return RecordTypes.from_table(counted(table, self._spec.unit))

    def _candidate(self, outcome: ReleaseResult) -> RecordTypes:
        """Return what was published as criteria see it; of an entity with more events than count, perhaps others of them than those that were judged."""
        if not self._spec.two_levels:
            return RecordTypes.from_table(read_table(outcome.synthetic, outcome.schema))
        return self._types(
            read_source(self._spec, outcome.configuration, outcome.tables or outcome.synthetic)
        )

    def _criteria(self, outcome: ReleaseResult) -> tuple[Criterion, ...]:
        counted = self._spec.schema_for(outcome.configuration) if self._spec.two_levels else outcome.schema
        return self._spec.criteria_for(counted)

    def _passing(self, outcome: ReleaseResult, types: Types, candidate: RecordTypes) -> float:
        """Weigh that the candidate passed the slack test."""
        acceptance = outcome.acceptance
        criteria = tuple(c for c in self._criteria(outcome) if c.reads_real)
        if acceptance is None or acceptance.slack_threshold is None or not criteria:
            return 0.0
        test = SlackTest(criteria)
        one, two = (
            test.acceptance(
                test.slack(real, candidate),
                threshold=acceptance.slack_threshold,
                epsilon=acceptance.epsilon,
                unit=self._spec.unit,
            )
            for real in types
        )
        return math.log(one) - math.log(two) if min(one, two) > 0 else 0.0

    def _errors(self, outcome: ReleaseResult, types: Types, candidate: RecordTypes) -> float:
        """Weigh published errors with Laplace noise around the exact ones."""
        total = 0.0
        for criterion, result in zip(self._criteria(outcome), outcome.criteria, strict=True):
            if result.mechanism != "laplace" or result.value is None or result.noise_deviation is None:
                continue
            one, two = (abs(result.value - criterion.released_value(real, candidate)) for real in types)
            total += (two - one) / (result.noise_deviation / math.sqrt(2.0))
        return total


_SHARED = """
source: {simulate: {table: toy, rows: 40}}
schema: {columns: [{name: a, kind: boolean}]}
unit: replace-one
synthesizers: [{method: laplace}]
"""
LOOP = f"""
name: audit loop
{_SHARED}
acceptance:
  form: pass-only
  epsilon: 0.4
  false_accept: 0.45
  criteria: [{{name: cells, kind: max-marginal-error, threshold: 0.3}}]
selection: {{rule: until-accepted, gamma: 0.5}}
budget: {{total: {{epsilon: 2.5191}}, model: {{epsilon: 1.6}}}}
seed: 1
"""
"""Attempts until one is accepted or the coin says stop; every outcome happens often."""
PATIENT = f"""
name: audit patience
{_SHARED}
acceptance:
  form: pass-only
  epsilon: 1.8
  false_accept: 0.02
  criteria: [{{name: cells, kind: max-marginal-error, threshold: 0.6}}]
selection: {{rule: until-accepted, gamma: 0.02}}
budget: {{total: {{epsilon: 3.8649}}, model: {{epsilon: 0.2}}}}
seed: 1
"""
"""A loop that hardly ever gives up, so that selection itself loses most; too slow to sample, its law is computed."""
SINGLE = f"""
name: audit single
{_SHARED}
acceptance:
  form: published
  criteria: [{{name: cells, kind: max-marginal-error, threshold: 0.9, epsilon: 0.7}}]
selection: {{rule: single}}
budget: {{total: {{epsilon: 2}}, model: {{epsilon: 1.3}}}}
seed: 1
"""
"""One attempt whose noisy error is published."""

_ROWS = (1, 3, 12)
_DRAWN = 2_000


def audit_release(
    spec: Spec, *, effort: Effort | None = None, rows: Sequence[int] = _ROWS, seed: int = 0
) -> list[Audit]:
    """Run a specification on made-up neighbours again and again and attack everything it hands out.

    Parameters
    ----------
    spec
        The specification. Its source is not read.
    effort
        How many releases; by default the quick form.
    rows
        Of the made-up tables, one pair of neighbours each; the pair that seems worst is attacked most. Tables too small
        for a person with all rows are left out.
    seed
        Of the made-up tables and of the coins; privacy noise takes none.

    Privacy
    -------
    In: a public specification. The table that it names is never opened.
    """
    generator = np.random.default_rng(seed)
    subjects = []
    for number in sorted({max(size, spec.unit.max_rows) for size in rows}):
        first, second = neighbour_frames(spec, rows=number, generator=generator)
        subjects.append(
            Subject(
                f"release {spec.name!r}",
                _describe_pair(spec, number),
                spec.unit.describe(),
                claim_of(spec.total),
                _player(spec, first, second),
            )
        )
    return hunt(subjects, effort or Effort.quick(), generator=generator)


def _describe_pair(spec: Spec, rows: int) -> str:
    crowd = rows > spec.unit.max_rows
    if spec.unit.relation == "replace-one":
        return f"an outlier in a crowd, {rows} rows" if crowd else "opposite corners"
    return f"an outlier or none, {rows} rows" if crowd else "one record or none"


def neighbour_frames(spec: Spec, *, rows: int, generator: np.random.Generator) -> tuple[Made, Made]:
    """Return two raw tables that differ in one unit: a crowd of equal records, and one unlike it in every column it can be.

    ``rows`` is how many rows count. Where the unit is a person or an entity, it has five times as many rows as count of it; of linked tables it is an entity with all its rows in all tables.

    Examples
    --------
    >>> first, second = neighbour_frames(Spec.parse(LOOP), rows=5, generator=np.random.default_rng(0))
    >>> len(first), len(second), int((first != second).any(axis=1).sum())
    (5, 5, 1)
    """
    if spec.parts:
        return _register_frames(spec, rows=rows, generator=generator)
    usual, odd = _unlike(spec, spec.schema, generator)
    most, unit = spec.unit.max_rows, spec.unit
    own = most if unit.id_column is None else CROWDED * most
    crowd = [usual] * (rows - most)
    first = pd.concat([*crowd, *([odd] * own)], ignore_index=True)
    same = [*crowd, *([usual] * own)] if unit.relation == "replace-one" else crowd
    second = pd.concat(same, ignore_index=True) if same else first.iloc[:0].copy()
    if unit.id_column is not None:
        ids = [*range(1, rows - most + 1), *([0] * own)]
        first[unit.id_column] = ids
        second[unit.id_column] = ids[: len(second)]
    return _linked(spec, first), _linked(spec, second)


def _unlike(
    spec: Spec,
    schema: Schema,
    generator: np.random.Generator,
    given: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two made-up records, as frames of one row, that obey all rules and differ in as many columns as they can; ``given`` are entries that each of them has to have."""
    codes = {
        name: generator.integers(0, size, _DRAWN)
        for name, size in zip(schema.names, schema.domain.sizes, strict=True)
    }
    frame = schema.decode(codes, seed=int(generator.integers(1 << 30)))
    other = np.arange(len(frame)) % 2 == 1
    if given is not None:
        for name in given[0].columns:
            one, two = (item[name].iloc[0] for item in given)
            frame[name] = pd.Series([two if is_other else one for is_other in other], dtype=frame[name].dtype)
    kept = np.asarray(schema.holds_raw(frame))
    for rule in spec.cleaning:
        kept &= np.asarray(rule.holds_raw(frame))
    first = np.flatnonzero(kept & ~other if given is not None else kept)
    second = np.flatnonzero(kept & other if given is not None else kept)
    if not len(first) or not len(second) or len(frame[kept]) < 2:
        raise WorkloadError(
            "No made-up record obeys the rules of this specification; it cannot be audited so."
        )
    usual = frame.iloc[[first[0]]].reset_index(drop=True)
    differing = (frame.iloc[second] != usual.iloc[0]).sum(axis=1).to_numpy()
    return usual, frame.iloc[[second[int(np.argmax(differing))]]].reset_index(drop=True)


def _register_frames(spec: Spec, *, rows: int, generator: np.random.Generator) -> tuple[Made, Made]:
    """Return two sets of made-up tables that differ in one entity with all its rows in all tables of events: five times as many in each as count of it."""
    unit, most = spec.unit, spec.unit.max_rows
    crowd, own = list(range(1, rows - most + 1)), [0] * (CROWDED * most)
    stays = unit.relation == "replace-one"
    whose = (pd.Index([*crowd, 0]), pd.Index([*crowd, 0] if stays else crowd))
    made: tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]] = ({}, {})
    fixed: tuple[pd.DataFrame, pd.DataFrame] | None = None
    for part in spec.parts.values():
        entity = part.schema.entity
        assert entity is not None
        assert entity.tables is not None
        both = _unlike(spec, part.schema, generator, fixed)
        if fixed is None:
            fixed = (both[0][list(entity.fixed)], both[1][list(entity.fixed)])
            for tables, people, last in zip(made, whose, (1, 0), strict=True):
                kinds = [fixed[last if who == 0 else 0] for who in people]
                known = pd.concat([fixed[0].iloc[:0], *kinds], ignore_index=True)
                tables[entity.tables[0]] = known.assign(**{entity.id: people.to_numpy()})
        events = [
            item.drop(columns=list(entity.fixed)) for item in both
        ]  # numbers in other tables are counted from those
        for tables, last in zip(made, (1, 0), strict=True):
            owners = [*crowd, *(own if last or stays else [])]
            kinds = [events[last if who == 0 else 0] for who in owners]
            found = pd.concat([events[0].iloc[:0], *kinds], ignore_index=True)
            tables[entity.tables[1]] = found.assign(**{entity.reference or entity.id: owners})
    return made


def _linked(spec: Spec, frame: pd.DataFrame) -> Made:
    """Return a made-up table as the linked tables that a specification wants, if it does."""
    entity = spec.schema.entity
    if not spec.two_levels or entity is None or entity.tables is None:
        return frame
    key = entity.reference or entity.id
    if entity.min_events:
        return {entity.tables[1]: frame.rename(columns={entity.id: key})}
    entities = frame.drop_duplicates(entity.id)[[entity.id, *entity.fixed]]
    events = frame.drop(columns=list(entity.fixed)).rename(columns={entity.id: key})
    return {entity.tables[0]: entities.reset_index(drop=True), entity.tables[1]: events}


def _player(spec: Spec, first: Made, second: Made) -> Callable[[bool, int, Collection[str]], Observation]:
    known = Neighbours(spec, first, second)
    # made-up tables need nobody's approval, and a refusal would hide what is to be seen
    if {"approvals", "agreement"} & set(spec.plain):
        plain = {key: value for key, value in spec.plain.items() if key not in ("approvals", "agreement")}
        spec = Spec.from_dict(plain, where=spec.where)

    def play(is_first: bool, seed: int, parts: Collection[str]) -> Observation:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            try:
                outcome = run_release(
                    spec, ledger=Path(folder) / "audit.ledger", source=first if is_first else second
                )
            except UnderstudyError as error:
                return failure(error, seconds=time.perf_counter() - start)
            return _observed(outcome, known, time.perf_counter() - start)

    return play


def _observed(outcome: ReleaseResult | ReleaseFailure, known: Neighbours, seconds: float) -> Observation:
    """Everything a reader of the outcome sees: decision, words, published errors, charges, rows, the model."""
    values_seen = [float(item.value) for item in outcome.criteria if item.value is not None]
    charges = tuple(
        (entry.purpose, entry.event.to_dict()["kind"])
        for entry in outcome.ledger_entries
        if entry.event is not None
    )
    if isinstance(outcome, ReleaseFailure):
        return Observation(
            values_seen=np.array(values_seen),
            scales=np.zeros(len(values_seen)),
            key=(outcome.reason, charges),
            seconds=seconds,
        )
    counts = _counts(outcome)
    models = [part.model for part in (outcome.parts.values() if outcome.parts else (outcome,))]
    items = [item for model in models if model is not None for item in model.measurements]
    numbers = np.concatenate(
        [np.array(values_seen, dtype=np.float64), *(item.values.ravel() for item in items)]
    )
    scales = np.concatenate(
        [
            np.zeros(len(values_seen)),
            *(
                np.full(item.values.size, item.scale * (-1 if item.noise == "laplace" else 1))
                for item in items
            ),
        ]
    )
    return Observation(
        ratio=known.log_ratio(outcome),
        values_seen=numbers[:64],
        scales=scales[:64],
        exactly=tuple(numbers[:4].tolist()),
        low_bits=np.array([lowest_bit(x) for x in numbers[:4]]),
        key=("accepted", outcome.configuration.name, charges),
        totals=np.array([float(len(outcome.synthetic)), 1.0]),
        model=counts,
        rows=counts,
        corner=float(len(outcome.synthetic)),
        seconds=seconds,
    )


def _counts(outcome: ReleaseResult) -> npt.NDArray[np.float64]:
    if outcome.parts:
        return np.concatenate([_counts(part) for part in outcome.parts.values()])
    schema = outcome.schema
    codes = schema.encode_frame(outcome.synthetic)
    shares = [
        np.bincount(codes[name], minlength=size)[:32]
        for name, size in zip(schema.names, schema.domain.sizes, strict=True)
    ]
    return np.concatenate([[float(len(outcome.synthetic)), 1.0], *shares]).astype(np.float64)
