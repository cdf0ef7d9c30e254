"""One trial of a rehearsal: an attempt on public data, and how probably it would have been accepted.

An attempt is repeated as `understudy release` makes it, up to the acceptance test. The noise of the test itself is
not drawn: its distribution is known, so the probability of acceptance given the candidate is computed
exactly, and averages over trials vary less than counts of acceptances would.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from understudy.curator import Curator, remember_measured
from understudy.data import LocalTable
from understudy.data.persons import KEY_BYTES
from understudy.errors import DataError, UnderstudyError
from understudy.mechanisms import no_progress
from understudy.privacy import Ledger, PureDP, SeededRandomness
from understudy.privacy.rows import PublicRows
from understudy.release.criteria.base import Criterion, CriterionConfig
from understudy.release.record_types import RecordTypes
from understudy.release.regressions.fits import LinearFit
from understudy.release.result import Configuration
from understudy.release.run.candidate import Candidate, draw_candidate, fit_models
from understudy.release.run.judgement import baseline_key, fit_baseline, regressions_for
from understudy.release.run.transform import neighbours, public_rows
from understudy.release.selection.slack import SlackTest
from understudy.release.spec.spec import Spec

# ----------------------------------------------------------------------------------------
# An interval for the mean of numbers between 0 and 1, whatever their distribution.


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for the mean of numbers between 0 and 1.

    Each trial yields a probability, not a coin: averaging probabilities varies less than counting acceptances.
    The mean of bounded numbers calls for bounds that hold for every distribution and every number of trials: a
    t interval has no width when all trials agree, and Clopper-Pearson is about counts. Two tail bounds for means
    of independent numbers in [0, 1] are combined, Hoeffding's ``exp(-n KL(x, m))`` and Bentkus's
    ``e P(Binomial(n, m) <= ceil(n x))``; the interval holds the means that neither rejects at half the error on
    each side. It is slightly wider than Clopper-Pearson would be for coins.

    Examples
    --------
    >>> [round(end, 3) for end in mean_interval([1.0] * 20)]
    [0.832, 1.0]
    >>> [round(end, 3) for end in mean_interval([0.4, 0.5, 0.6] * 10)]
    [0.281, 0.719]
    """
    n, x, error = len(values), fmean(values), (1 - confidence) / 2
    return 1.0 - _upper(1.0 - x, n, error), _upper(x, n, error)


def _upper(x: float, n: int, error: float) -> float:
    """Return the largest mean under which an average of at most ``x`` is not too improbable."""
    x = min(1.0, max(0.0, x))

    def excess(mean: float) -> float:
        bentkus = 1.0 + float(binom.logcdf(math.ceil(n * x - 1e-9), n, mean))
        return min(-n * _divergence(x, mean), bentkus) - math.log(error)

    high = 1.0 - 1e-12
    if x >= high or excess(high) >= 0:
        return 1.0
    return float(brentq(excess, x, high, xtol=1e-10))


def _divergence(x: float, mean: float) -> float:
    """Return the Kullback-Leibler divergence of two coins."""
    first = x * math.log(x / mean) if x > 0 else 0.0
    second = (1 - x) * math.log((1 - x) / (1 - mean)) if x < 1 else 0.0
    return first + second


_FAILED = (UnderstudyError, ArithmeticError, MemoryError, np.linalg.LinAlgError)
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one attempt on public data came to.

    Attributes
    ----------
    key
        Name of the work: the same specification, configuration, trial, table and seed have the same key.
    configuration, trial
        Name of the configuration, and number of the trial from 0.
    probability
        Probability, over the noise of the acceptance test, that this candidate is accepted.
    slack
        Smallest slack of the criteria that read the table, in records.
    closest
        The criterion that was closest to failing (or that failed worst).
    errors, slacks
        By criterion: exact error (None where infinite), and slack clipped to the number of rows.
    seconds
        Time of the attempt.
    failure
        Why there was no candidate, if there was none; such an attempt counts as rejected.
    """

    key: str
    configuration: str
    trial: int
    probability: float
    slack: float | None = None
    closest: str = ""
    errors: Mapping[str, float | None] = field(default_factory=dict)
    slacks: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    failure: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Trial:
        """Return a trial that was recorded; raises TypeError, KeyError or ValueError for anything else."""
        trial = cls(**{str(name): value for name, value in plain.items()})
        if not (isinstance(trial.key, str) and 0 <= float(trial.probability) <= 1):
            raise ValueError("not a trial")
        return trial


def trial_key(fingerprint: str, configuration: Configuration, trial: int, *, table: str, seed: int) -> str:
    """Return the name of a piece of work, from everything its result depends on.

    Examples
    --------
    >>> one = Configuration(method="independent")
    >>> trial_key("a", one, 0, table="b", seed=0) == trial_key("a", one, 1, table="b", seed=0)
    False
    """
    content = [_VERSION, fingerprint, configuration.to_dict(), trial, table, seed]
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(b"understudy rehearsal\n" + text.encode("utf-8")).hexdigest()


PublicTable = LocalTable | Mapping[str, LocalTable]
"""A public table as a configuration transforms it; of several tables of events the entities with each of them, by table."""


def run_trial(spec: Spec, configuration: Configuration, table: PublicTable, trial: int, key: str) -> Trial:
    """Make one attempt on a public table; everything random follows from the key.

    Privacy
    -------
    For public tables only: the noise is seeded and exact errors are returned.
    """
    start = time.perf_counter()
    common: dict[str, Any] = {"key": key, "configuration": configuration.name, "trial": trial}
    seed = int(key[:15], 16)
    randomness = SeededRandomness(seed)
    try:
        found = _together(
            [item.judged() for item in _attempted(spec, configuration, table, randomness, seed)]
        )
    except _FAILED as error:
        message = str(error) if isinstance(error, UnderstudyError) else type(error).__name__
        found = {"probability": 0.0, "failure": " ".join(message.split())}
    return Trial(**common, **found, seconds=round(time.perf_counter() - start, 3))


def _together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what several tables of events come to: each has a test of its own, and their noises are independent."""
    worst = min(
        parts, key=lambda part: (part["probability"], math.inf if part["slack"] is None else part["slack"])
    )
    return {
        "probability": math.prod(part["probability"] for part in parts),
        "slack": min((part["slack"] for part in parts if part["slack"] is not None), default=None),
        "closest": worst["closest"],
        "errors": {name: value for part in parts for name, value in part["errors"].items()},
        "slacks": {name: value for part in parts for name, value in part["slacks"].items()},
    }


def _attempted(
    spec: Spec, configuration: Configuration, table: PublicTable, randomness: SeededRandomness, seed: int
) -> list[_Attempt]:
    """Fit and draw a candidate; return it with the table that it is compared with, table by table where there are several of events."""
    parts = (
        [(spec, table)]
        if isinstance(table, LocalTable)
        else [(part, table[name]) for name, part in spec.parts.items()]
    )
    made = [_Attempt(part, configuration, each, randomness, seed) for part, each in parts]
    shares = spec.shares
    budget = shares.total if shares.single else shares.attempt
    reserve = shares.reserve if shares.single else 0.0
    accounting = shares.accounting if shares.single else None
    with Ledger.in_memory(
        budget=budget, unit=spec.unit, accounting=accounting, approximate_delta=reserve
    ) as ledger:
        curators = [item.curator(ledger, made[0].known_rows) for item in made]
        known = curators[0].rows.number
        if known is None or known < 1:
            raise DataError("The table has no rows to release.")
        model = fit_models(spec, configuration, curators, progress=no_progress)
    candidate = draw_candidate(spec, configuration, model, rows=known, seed=seed)
    for item, drawn in zip(made, candidate.parts.values() or [candidate], strict=True):
        item.take(drawn, known)
    return made


class _Attempt:
    """One attempt: the candidate, and the table it is compared with."""

    candidate: Candidate
    rows: int
    real: RecordTypes

    def __init__(
        self,
        spec: Spec,
        configuration: Configuration,
        table: LocalTable,
        randomness: SeededRandomness,
        seed: int,
    ) -> None:
        self.spec, self.configuration, self.randomness = spec, configuration, randomness
        self.table = table
        shares, kind = spec.shares, spec.row_count.kind
        unit, counted = spec.unit, table
        if spec.two_levels and unit.id_column is not None:
            counted = table.truncated(unit.id_column, unit.max_rows, randomness.bytes(KEY_BYTES))
        rows: int | None = counted.exact_row_count()
        if kind == "measured" and shares.rows:
            generator = np.random.default_rng([seed, 1])
            noise = generator.laplace(scale=spec.unit.max_rows / shares.rows)
            rows = max(1, round(counted.exact_row_count() + float(noise)))
        if kind == "invariant":
            rows = None
        self.known_rows, self._counted = public_rows(spec, rows), counted

    def take(self, candidate: Candidate, rows: int) -> None:
        """Compare with a candidate that was drawn for so many rows."""
        self.candidate, self.rows = candidate, rows
        unit, counted = self.spec.unit, self._counted
        if unit.id_column is not None and not self.spec.two_levels:
            counted = self.table.truncated(unit.id_column, unit.max_rows, self.randomness.bytes(KEY_BYTES))
        self.real = RecordTypes.from_table(counted)

    def curator(self, ledger: Ledger, rows: PublicRows) -> Curator:
        """Return a curator of the public table."""
        remember_measured(ledger, self.table.schema.columns)  # a rehearsal has a ledger of its own
        return Curator(self.table, unit=self.spec.unit, ledger=ledger, rows=rows, randomness=self.randomness)

    def judged(self) -> dict[str, Any]:
        """Return exact errors, slacks and the probability of acceptance."""
        types, bound = self.candidate.types, float(self.candidate.types.rows)
        criteria = self.spec.criteria_for(self.candidate.schema)
        errors = {c.name: float(c.value(self.real, types)) for c in criteria}
        slacks = {c.name: min(bound, max(-bound, float(c.slack(self.real, types)))) for c in criteria}
        failed = [c.name for c in criteria if not c.reads_real and not c.met(errors[c.name])]
        real = tuple(c for c in criteria if c.reads_real)
        smallest = min((slacks[c.name] for c in real), default=None)
        if self.spec.form == "published":
            chances = self._chances(criteria, errors)
            probability = math.prod(chances.values())
            closest = min(chances, key=lambda name: (chances[name], slacks[name]))
        else:
            probability = 0.0 if failed else self._pass_only(real, smallest)
            closest = failed[0] if failed else min(slacks, key=lambda name: slacks[name])
        return {
            "probability": probability,
            "slack": smallest,
            "closest": closest,
            "errors": {name: value if math.isfinite(value) else None for name, value in errors.items()},
            "slacks": slacks,
        }

    def _pass_only(self, real: Sequence[Criterion], smallest: float | None) -> float:
        """Return the probability that the one test of all criteria accepts."""
        if smallest is None:
            return 1.0
        spec, test = self.spec, SlackTest(tuple(real))
        epsilon, unit = spec.shares.acceptance, spec.unit
        threshold = test.threshold(epsilon=epsilon, false_accept=spec.false_accept, unit=unit)
        return test.acceptance(smallest, threshold=threshold, epsilon=epsilon, unit=unit)

    # ------------------------------------------------------------------ published form

    def _chances(self, criteria: Sequence[Criterion], errors: Mapping[str, float]) -> dict[str, float]:
        """Return the probability that each criterion is met after its noise; the noises are independent."""
        found: dict[str, float] = {}
        types = self.candidate.types
        for criterion, item in zip(criteria, self.spec.criteria, strict=True):
            if not criterion.reads_real or item.epsilon is None:
                found[criterion.name] = float(criterion.met(errors[criterion.name]))
                continue
            if criterion.private_regression is not None:
                criterion = criterion.with_baseline(self._baseline(item))
            known = criterion.known_error(types)
            if known is not None:
                found[criterion.name] = float(criterion.met(known))
                continue
            largest = max(criterion.sensitivity(unit, types.rows, types) for unit in neighbours(self.spec))
            found[criterion.name] = criterion.chance(
                self.real, types, epsilon=item.epsilon, sensitivity=largest
            )
        return found

    def _baseline(self, item: CriterionConfig) -> LinearFit:
        """Fit the private regression of a criterion; criteria about the same columns share one."""
        known: dict[tuple[str, ...], LinearFit] = self.__dict__.setdefault("_baselines", {})
        key = baseline_key(item.regression_columns, self.configuration.transformations)
        if key not in known:
            regression, epsilon = next(
                (regression, epsilon)
                for other, regression, epsilon in regressions_for(self.spec, self.configuration)
                if other == key
            )
            with Ledger.in_memory(budget=PureDP(epsilon), unit=self.spec.unit) as ledger:
                known[key] = fit_baseline(
                    self.spec,
                    regression,
                    self.curator(ledger, self.known_rows),
                    rows=self.rows,
                    epsilon=epsilon,
                )
        return known[key]
