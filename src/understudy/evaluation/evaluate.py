"""Every measure that applies to two tables, in order: what ``understudy evaluate`` runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.errors import MissingExtra, WorkloadError
from understudy.evaluation.comparison import Codes, Comparison
from understudy.evaluation.distances import propensity_errors
from understudy.evaluation.face import (
    attribute_inference,
    constraint_violations,
    exact_matches,
    face_privacy,
    membership_inference,
    unique_records,
)
from understudy.evaluation.learning import CLASSIFIERS, accuracy, agreement, distinguishing_game, predictions
from understudy.evaluation.measures import (
    coefficient_differences,
    conditional_mean_differences,
    conditional_median_differences,
    correlation_differences,
    cramers_v_differences,
    interval_overlaps,
    k_marginal_score,
    kway_distances,
    mutual_information_differences,
    rare_cell_errors,
    subgroup_distances,
    workload_errors,
)
from understudy.evaluation.result import Result
from understudy.marginals import Workload, all_kway

WARNING = (
    "Computed from the real records without noise: this page is as private as they are. Do not publish it, and do "
    "not keep it beside a release."
)
"""Said on everything that an evaluation writes."""

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Section:
    """Results that belong together, and how long they took."""

    title: str
    about: str
    results: tuple[Result, ...]
    seconds: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """All results of one comparison. Private unless the real table is public.

    Attributes
    ----------
    sections
        Results in the order of :data:`SECTIONS`.
    left_out
        What was not computed, and why.
    """

    rows: tuple[int, int]
    sections: tuple[Section, ...]
    left_out: tuple[str, ...] = ()
    warning: str = field(default=WARNING)

    def result(self, measure: str) -> Result:
        """Return one result by the words of its measure."""
        for section in self.sections:
            for result in section.results:
                if result.measure == measure:
                    return result
        raise WorkloadError(f"This evaluation has no measure {measure!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, the warning first."""
        return {
            "warning": self.warning,
            "rows": {"real": self.rows[0], "synthetic": self.rows[1]},
            "sections": [
                {
                    "title": section.title,
                    "about": section.about,
                    "seconds": round(section.seconds, 3),
                    "results": [result.to_dict() for result in section.results],
                }
                for section in self.sections
            ],
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to look at.

    Attributes
    ----------
    sections
        Names out of :data:`SECTIONS`; by default all.
    target
        Column for classifiers, regressions and conditional means. Without it those use the last categorical or
        boolean column, and the last numeric one.
    holdout
        Real records that had no part in the synthesis, as codes; disclosure measures compare with them.
    identifiers, sensitive
        Columns an attacker knows, and the one he wants.
    workload
        Marginals of the workload error; by default all 3-way marginals (or as many columns as there are).
    classifiers
        Which ones to train.
    most_rows
        Classifiers and propensity models see at most this many records of each table, drawn at random.
    """

    sections: Sequence[str] | None = None
    target: str | None = None
    holdout: Codes | None = None
    identifiers: Sequence[str] | None = None
    sensitive: str | None = None
    workload: Workload | None = None
    classifiers: Sequence[str] = CLASSIFIERS
    most_rows: int = 20_000
    seed: int = 0


SECTIONS = (
    "marginals",
    "dependence",
    "groups",
    "regression",
    "classifiers",
    "telling apart",
    "face",
    "disclosure",
)
"""Names of the sections, in the order of the report."""


def _nothing(stage: str, fraction: float) -> None:
    """Ignore progress."""


def evaluate(
    both: Comparison, options: Options | None = None, *, progress: Progress = _nothing
) -> Evaluation:
    """Compute every measure that applies.

    Measures that cannot be computed on these tables, or whose extra is not installed, are listed with the reason.

    Examples
    --------
    >>> from understudy.schema import Schema
    >>> schema = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    >>> same = [[0, 1], [1, 0], [1, 1], [0, 0]]
    >>> found = evaluate(Comparison(schema, same, same), Options(sections=["marginals"]))
    >>> found.result("k-marginal score").values["score"]
    1000.0
    """
    chosen = options or Options()
    unknown = [name for name in chosen.sections or () if name not in SECTIONS]
    if unknown:
        raise WorkloadError(f"No section named {unknown[0]!r}. Known: {', '.join(SECTIONS)}.")
    for name in (chosen.target, chosen.sensitive, *(chosen.identifiers or ())):
        if name is not None:
            both.domain.index(name)
    both.require_rows()
    wanted = [name for name in SECTIONS if chosen.sections is None or name in chosen.sections]
    sections, left_out = [], []
    for index, title in enumerate(wanted):
        progress(title, index / len(wanted))
        begin = time.perf_counter()
        results = []
        for measure in _measures(title, both, chosen):
            try:
                results.append(measure())
            except (MissingExtra, WorkloadError) as error:
                left_out.append(f"{title}: {error}")
        kept = tuple(result for result in results if result.values)
        sections.append(Section(title, _ABOUT[title], kept, time.perf_counter() - begin))
    progress("done", 1.0)
    rows = (len(both.real_codes), len(both.synthetic_codes))
    return Evaluation(rows, tuple(sections), tuple(dict.fromkeys(left_out)))


_ABOUT = {
    "marginals": "Counts of one, two and three columns. Total variation: 0 is the same, 1 has nothing in common.",
    "dependence": "Relations between two columns.",
    "groups": "Means, medians and distributions within groups, and rare combinations.",
    "regression": "A linear regression on both tables, compared coefficient by coefficient.",
    "classifiers": "Classifiers trained on synthetic records and tested on real ones.",
    "telling apart": "How well a model tells synthetic from real records.",
    "face": "What the synthetic table looks like: unique records, small groups, broken rules.",
    "disclosure": "What declared attackers gain. A failed attack is no proof of privacy; the ledger is.",
}


def _measures(title: str, both: Comparison, options: Options) -> Iterator[Callable[[], Result]]:
    """Yield the measures of one section, each still to be computed."""
    domain, label = both.domain, _label_column(both, options.target)
    number = _number_column(both, options.target)
    if title == "marginals":
        width = min(3, len(domain))
        pairs = min(2, width)
        seen: dict[int, Result] = {}
        for k in range(1, width + 1):
            yield _kway(both, k, seen)
        yield lambda: k_marginal_score(seen[pairs])
        yield lambda: workload_errors(both, options.workload or all_kway(domain, width))
    elif title == "dependence":
        yield lambda: correlation_differences(both)
        yield lambda: correlation_differences(both, ranks=True)
        yield lambda: mutual_information_differences(both)
        yield lambda: cramers_v_differences(both)
    elif title == "groups":
        yield lambda: rare_cell_errors(both, k=1)
        yield lambda: rare_cell_errors(both, k=min(2, len(domain)))
        if number is not None:
            yield lambda: conditional_mean_differences(both, number)
            yield lambda: conditional_median_differences(both, number)
        if label is not None and len(domain) > 1:
            yield lambda: subgroup_distances(both, label)
    elif title == "regression" and number is not None and len(domain) > 1:
        yield lambda: coefficient_differences(both, number)
        yield lambda: interval_overlaps(both, number)
    elif title == "classifiers" and label is not None and len(domain) > 1:
        yield from _classifiers(both, label, options)
    elif title == "telling apart":
        yield lambda: propensity_errors(both, most_rows=options.most_rows, seed=options.seed)
        real, made = _some(both, options)
        yield lambda: distinguishing_game(domain, real, made, seed=options.seed)
    elif title == "face":
        yield lambda: constraint_violations(both)
        yield lambda: unique_records(both)
        yield lambda: face_privacy(both, columns=_identifiers(both, options), sensitive=options.sensitive)
    elif title == "disclosure":
        yield lambda: exact_matches(both, options.holdout)
        secret = options.sensitive or label
        if secret is not None and len(domain) > 1:
            known = [name for name in _identifiers(both, options) if name != secret]
            yield lambda: attribute_inference(both, known=known, secret=secret, holdout=options.holdout)
        if options.holdout is not None:
            held = options.holdout
            yield lambda: membership_inference(both, held, seed=options.seed)


def _kway(both: Comparison, k: int, seen: dict[int, Result]) -> Callable[[], Result]:
    """Compute the k-way distances and remember them for the score."""

    def compute() -> Result:
        seen[k] = kway_distances(both, k)
        return seen[k]

    return compute


def _some(both: Comparison, options: Options) -> tuple[Codes, Codes]:
    """Return some records of either table, at random."""
    generator = np.random.default_rng(options.seed)
    real, made = (
        codes[generator.permutation(len(codes))[: options.most_rows]]
        for codes in (both.real_codes, both.synthetic_codes)
    )
    return real, made


def _classifiers(both: Comparison, target: str, options: Options) -> Iterator[Callable[[], Result]]:
    """Train on both tables once; test on held-out records if there are any, else on a third of the real ones."""
    domain = both.domain
    real, made = _some(both, options)
    if options.holdout is not None:
        train, test = real, options.holdout[: options.most_rows]
    else:
        cut = max(1, len(real) // 3)
        test, train = real[:cut], real[cut:]
    said: dict[str, dict[str, Codes]] = {}

    def predict(name: str, table: Codes) -> dict[str, Codes]:
        if name not in said:
            said[name] = predictions(
                domain, table, test, target=target, classifiers=options.classifiers, seed=options.seed
            )
        return said[name]

    def of_synthetic() -> Result:
        found = accuracy(domain, predict("synthetic", made), test, target=target)
        return Result(f"{found.measure}, trained on synthetic records", found.values, better=found.better)

    def of_real() -> Result:
        found = accuracy(domain, predict("real", train), test, target=target)
        return Result(f"{found.measure}, trained on real records", found.values, better=found.better)

    yield of_synthetic
    yield of_real
    yield lambda: agreement(predict("synthetic", made), predict("real", train))


def _label_column(both: Comparison, target: str | None) -> str | None:
    """Return the column to classify by: the target, or the last one with few values."""
    if target is not None:
        return target if both.domain.size(target) <= 50 else None
    few = [name for name in both.domain.names if 2 <= both.domain.size(name) <= 20]
    return few[-1] if few else None


def _number_column(both: Comparison, target: str | None) -> str | None:
    """Return the column to regress on: the target if it has numbers, or the last numeric one."""
    if target is not None and both.numbers(target) is not None:
        return target
    return both.numeric_columns[-1] if both.numeric_columns else None


def _identifiers(both: Comparison, options: Options) -> list[str]:
    """Return the columns an attacker is taken to know: as given, or all but the secret."""
    if options.identifiers:
        return list(options.identifiers)
    secret = options.sensitive or _label_column(both, options.target)
    return [name for name in both.domain.names if name != secret] or list(both.domain.names)
