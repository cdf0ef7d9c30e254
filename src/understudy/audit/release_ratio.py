"""The evidence in a published release, for an attacker who knows both tables: likelihood ratios of all its parts.

What a release publishes about the records is what was measured for its model, that its candidate passed, and, where errors are
published, noisy errors. The attacker knows the noise of each and computes how much likelier it is on the one table. How
likely a pass was on the whole, and that nothing was published, it learns from other runs.
"""

from __future__ import annotations

import math

import pandas as pd

from understudy.audit.observers import log_ratio
from understudy.audit.pairs import Pair
from understudy.data import LocalTable, read_table
from understudy.release import ConditionalMedians, RecordTypes, SlackTest
from understudy.release.result import Configuration, ReleaseResult
from understudy.release.spec import Spec

__all__ = ["Neighbours"]

Types = tuple[RecordTypes, RecordTypes]


class Neighbours:
    """Two made-up neighbouring tables, as every configuration of a specification transforms them.

    Examples
    --------
    >>> from understudy.audit.releases import LOOP
    >>> spec = Spec.parse(LOOP)
    >>> Neighbours(spec, pd.DataFrame({"a": [True]}), pd.DataFrame({"a": [False]}))
    Neighbours('audit loop')
    """

    def __init__(self, spec: Spec, first: pd.DataFrame, second: pd.DataFrame) -> None:
        self._spec = spec
        self._frames = (first, second)
        self._seen: dict[tuple[str, ...], tuple[Pair, Types]] = {}

    def __repr__(self) -> str:
        return f"Neighbours({self._spec.name!r})"

    def log_ratio(self, outcome: ReleaseResult) -> float:
        """Return the log-likelihood of a published release on the first table minus that on the second."""
        pair, types = self._tables(outcome.configuration)
        model = outcome.model
        total = 0.0 if model is None else log_ratio(model.measurements, pair)
        candidate = RecordTypes.from_table(read_table(outcome.synthetic, outcome.schema))
        return total + self._passing(outcome, types, candidate) + self._errors(outcome, types, candidate)

    def _tables(self, configuration: Configuration) -> tuple[Pair, Types]:
        key = tuple(configuration.transformations.values())
        if key not in self._seen:
            spec = self._spec
            one, two = (
                read_table(
                    frame,
                    spec.schema_for(configuration),
                    id_column=spec.unit.id_column,
                    prepare=spec.preparation,
                )
                for frame in self._frames
            )
            assert isinstance(one, LocalTable)
            assert isinstance(two, LocalTable)
            types = (RecordTypes.from_table(one), RecordTypes.from_table(two))
            self._seen[key] = (Pair("made up", spec.unit, one, two), types)
        return self._seen[key]

    def _passing(self, outcome: ReleaseResult, types: Types, candidate: RecordTypes) -> float:
        """Weigh that the candidate passed the slack test."""
        told = outcome.acceptance
        criteria = tuple(c for c in self._spec.criteria_for(outcome.schema) if c.reads_real)
        if told is None or told.slack_threshold is None or not criteria:
            return 0.0
        test = SlackTest(criteria)
        one, two = (
            test.acceptance(
                test.slack(real, candidate),
                threshold=told.slack_threshold,
                epsilon=told.epsilon,
                unit=self._spec.unit,
            )
            for real in types
        )
        return math.log(one) - math.log(two) if min(one, two) > 0 else 0.0

    def _errors(self, outcome: ReleaseResult, types: Types, candidate: RecordTypes) -> float:
        """Weigh published errors with Laplace noise around the exact ones."""
        total = 0.0
        for criterion, told in zip(self._spec.criteria_for(outcome.schema), outcome.criteria, strict=True):
            if told.mechanism != "laplace" or told.value is None or told.noise_deviation is None:
                continue
            if isinstance(criterion, ConditionalMedians) or not criterion.reads_real:
                continue
            one, two = (abs(told.value - criterion.released_value(real, candidate)) for real in types)
            total += (two - one) / (told.noise_deviation / math.sqrt(2.0))
        return total
