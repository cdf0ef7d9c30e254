"""Every measure that applies to two tables, in order: what ``understudy evaluate`` runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from understudy._html import Picture, html_lines, html_table
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
from understudy.evaluation.levels import Levels, level_measures, level_scores
from understudy.evaluation.measures import (
    coefficient_differences,
    conditional_mean_differences,
    conditional_median_differences,
    correlation_differences,
    cramers_v_differences,
    interval_overlaps,
    k_marginal_score,
    mutual_information_differences,
    rare_cell_errors,
    subgroup_distances,
    workload_errors,
)
from understudy.evaluation.other_tools import OtherScores, other_scores
from understudy.evaluation.prediction import Learning, learning
from understudy.evaluation.result import Result
from understudy.evaluation.scores import (
    ROWS,
    ColumnView,
    Distance,
    Overview,
    Score,
    Worst,
    column_views,
    distance_score,
    distances,
    triples_of,
    worst_distance,
)
from understudy.marginals import Workload, all_kway
from understudy.schema import Domain

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
    rows
        Of the real and of the synthetic table.
    sections
        Results in the order of :data:`SECTIONS`.
    left_out
        What was not computed, and why.
    overview
        What is said first: a score per section, the worst cases, every column.
    learning
        Train on synthetic, test on real; None if it was not asked for.
    others
        Headline scores of other tools; None if they were not asked for.
    hidden
        What no number here shows because the schema puts different entries into one code: told from the schema and the synthetic table alone.
    """

    rows: tuple[int, int]
    sections: tuple[Section, ...]
    left_out: tuple[str, ...] = ()
    warning: str = field(default=WARNING)
    overview: Overview = field(default_factory=Overview)
    learning: Learning | None = None
    others: OtherScores | None = None
    hidden: tuple[str, ...] = ()

    def show(self) -> Picture:
        """Show the scores and the worst cases in a notebook. Exact numbers about the real records: what shows them is as private.

        A notebook that is saved keeps what it shows.
        """
        rows = [
            (
                score.section,
                score.name,
                f"{score.value:.4g}",
                "" if score.reference is None else f"{score.reference:.4g} ({score.against})",
                score.good,
            )
            for score in self.scores
        ]
        worst = [f"{item.what}: {item.sentence}" for item in self.overview.worst]
        table = html_table(self.warning, ("section", "what", "score", "to compare", "good"), rows)
        return Picture(table + (html_lines("Worst first", worst) if worst else ""))

    def _repr_html_(self) -> str:
        rows = [
            (section.title, ", ".join(item.measure for item in section.results)) for section in self.sections
        ]
        note = f"{self.warning} So this shows no number; show() does, and understudy.plots draws them."
        return html_table("Evaluation", ("section", "measures"), rows, note=note)

    def __repr__(self) -> str:
        return f"<Evaluation: {', '.join(section.title for section in self.sections)}; private>"

    @property
    def scores(self) -> tuple[Score, ...]:
        """One score per section, each of its own kind."""
        return self.overview.scores

    def score(self, section: str) -> Score:
        """Return the score of one section."""
        for score in self.scores:
            if score.section == section:
                return score
        raise WorkloadError(
            f"This evaluation has no score for {section!r}. Known: {', '.join(item.section for item in self.scores)}."
        )

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
            **self.overview.to_dict(),
            "learning": None if self.learning is None else self.learning.to_dict(),
            "other_tools": None if self.others is None else self.others.to_dict(),
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
            "hidden": list(self.hidden),
        }


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to look at.

    Attributes
    ----------
    sections
        Names out of :data:`SECTIONS`; by default all.
    target
        Column for learners, classifiers, regressions and conditional means. Without it those use the last categorical or
        boolean column, and the last numeric one.
    exclude
        Columns that are no predictors of the target.
    holdout
        Real records that had no part in the synthesis, as codes: learners are tested on them, and disclosure measures compare with them.
    identifiers, sensitive
        Columns an attacker knows, and the one he wants.
    workload
        Marginals of the workload error; by default all 3-way marginals (or as many columns as there are).
    levels
        Entities and events of both tables, where the schema says whose the rows are.
    classifiers
        Which ones to train.
    most_rows
        Classifiers and propensity models see at most this many records of each table, drawn at random.
    """

    sections: Sequence[str] | None = None
    target: str | None = None
    exclude: Sequence[str] = ()
    holdout: Codes | None = field(default=None, repr=False)
    identifiers: Sequence[str] | None = None
    sensitive: str | None = None
    workload: Workload | None = None
    levels: Levels | None = field(default=None, repr=False)
    classifiers: Sequence[str] = CLASSIFIERS
    most_rows: int = 20_000
    seed: int = 0


SECTIONS = (
    "marginals",
    "dependence",
    "groups",
    "regression",
    "learning",
    "classifiers",
    "telling apart",
    "face",
    "disclosure",
    "entities",
    "other tools",
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
    if chosen.exclude and chosen.target is None:
        raise WorkloadError(
            "Columns are excluded from predicting a target; say which one (target=, --target)."
        )
    for name in (chosen.target, chosen.sensitive, *(chosen.identifiers or ()), *chosen.exclude):
        if name is not None:
            both.domain.index(name)
    both.require_rows()
    if chosen.levels is None and "entities" in (chosen.sections or ()):
        raise WorkloadError(
            "The section entities is about entities with several events: the schema says whose the rows are (entity, tables), and both tables have the ids."
        )
    wanted = [
        name
        for name in SECTIONS
        if (chosen.sections is None or name in chosen.sections)
        and (name != "entities" or chosen.levels is not None)
    ]
    sections: list[Section] = []
    left_out: list[str] = []
    found = _Found()
    for index, title in enumerate(wanted):
        progress(title, index / len(wanted))
        begin = time.perf_counter()
        results = []
        for measure in _measures(title, both, chosen, found):
            try:
                results.append(measure())
            except (MissingExtra, WorkloadError) as error:
                left_out.append(f"{title}: {error}")
        kept = tuple(result for result in results if result.values)
        sections.append(Section(title, _ABOUT[title], kept, time.perf_counter() - begin))
    progress("done", 1.0)
    rows = (len(both.real_codes), len(both.synthetic_codes))
    return Evaluation(
        rows,
        tuple(sections),
        tuple(dict.fromkeys(left_out)),
        overview=_overview(both, chosen, found, sections),
        learning=found.learning,
        others=found.others,
        hidden=both.hidden(),
    )


@dataclass
class _Found:
    """What sections have found that the overview speaks of."""

    columns: tuple[ColumnView, ...] = ()
    pairs: tuple[Distance, ...] = ()
    triples: tuple[Distance, ...] = ()
    learning: Learning | None = None
    others: OtherScores | None = None
    levels: dict[str, tuple[Distance, ...]] = field(default_factory=dict)


def _overview(both: Comparison, options: Options, found: _Found, sections: Sequence[Section]) -> Overview:
    """Put together what is said first."""
    results = {result.measure: result for section in sections for result in section.results}
    singles = tuple(item.distance for item in found.columns)
    scores, worst = [], []
    for section, words, items in (
        ("columns", "average distance of a column", singles),
        ("pairs", "average distance of a pair of columns", found.pairs),
        ("triples", "average distance of three columns", found.triples),
    ):
        if items:
            scores.append(distance_score(section, words, items))
            worst.append(worst_distance(section, items))
    scores += level_scores(found.levels)
    learned = found.learning
    if learned is not None:
        first = (learned.without_leaks or learned.learned)[0]
        gone = ", ".join(leak.column for leak in learned.leaks) if learned.without_leaks else ""
        question = f"{learned.question}, without {gone}" if gone else learned.question
        scores.append(
            Score(
                "learning",
                f"area under the curve of {first.learner} trained on synthetic rows and asked {question}",
                first.synthetic,
                "chance that a row of the class scores above another one",
                "higher",
                f"less than {max(0.005, 2 * first.error):.3f} below real training rows; 0.5 is guessing",
                reference=first.real,
                against="trained on real rows",
            )
        )
        if options.target is not None:  # otherwise nobody asked for it
            worst[2:] = [
                Worst(
                    "learning",
                    question,
                    f"{first.learner.capitalize()} trained on synthetic rows reaches an area under the curve of {first.synthetic:.3f}, on real rows {first.real:.3f}.",
                )
            ]
    broken = results.get("share of records that break a constraint")
    if broken is not None:
        rule, share = broken.worst
        scores.append(
            Score(
                "rules",
                "synthetic rows that break the rule they break most often",
                share,
                ROWS,
                "lower",
                "0",
                worst=(rule, share),
            )
        )
        if share > 0:
            worst[2:] = [Worst("rules", rule, f"{share:.1%} of the synthetic rows break this rule.")]
    alone = results.get("share of unique records")
    if alone is not None:
        scores.append(
            Score(
                "rows",
                "rows that occur once in their table",
                alone.values["synthetic"],
                ROWS,
                "closer",
                "about that of the real table",
                reference=alone.values["real"],
                against="the real table",
            )
        )
    apart = results.get("telling synthetic from real records")
    if apart is not None:
        scores.append(
            Score(
                "telling apart",
                "rows that a random forest assigns to the right table",
                apart.values["forest"],
                ROWS,
                "lower",
                "below 60 %; half is chance",
                reference=0.5,
                against="chance",
            )
        )
    relations = results.get("absolute difference of Cramér's V")
    if relations is not None:
        scores.append(
            Score(
                "dependence",
                "average error of the strength of a relation of two columns",
                relations.mean,
                "Cramér's V, from 0 (unrelated) to 1",
                "lower",
                "below 0.05",
                worst=relations.worst,
            )
        )
    compared = {
        "real_rows": len(both.real_codes),
        "synthetic_rows": len(both.synthetic_codes),
        "columns": len(both.domain),
        "held_out_rows": None if options.holdout is None else len(options.holdout),
        "target": options.target,
        "excluded": list(options.exclude),
    }
    return Overview(
        tuple(scores),
        tuple(item for item in worst if item is not None)[:3],
        found.columns,
        found.pairs,
        found.triples,
        math.comb(len(both.domain), 3),
        compared,
    )


_ABOUT = {
    "marginals": "Counts of one, two and three columns. Total variation: the share of rows that would have to change for the tables to agree.",
    "dependence": "Relations between two columns.",
    "groups": "Means, medians and distributions within groups, and rare combinations.",
    "regression": "A linear regression on both tables, compared coefficient by coefficient.",
    "learning": "A column predicted by learners trained on synthetic rows, on real rows that they have not seen.",
    "classifiers": "Classifiers trained on synthetic records and tested on real ones.",
    "telling apart": "How well a model tells synthetic from real records.",
    "face": "What the synthetic table looks like: unique records, small groups, broken rules.",
    "disclosure": "What declared attackers gain. A failed attack is no proof of privacy; the ledger is.",
    "entities": "Two levels: entities and how many events they have, events with their entity, and each event with the one before.",
    "other tools": "What SDMetrics and SDNist say first, computed from their published definitions.",
}


def _measures(
    title: str, both: Comparison, options: Options, found: _Found
) -> Iterator[Callable[[], Result]]:
    """Yield the measures of one section, each still to be computed."""
    domain, label = both.domain, _label_column(both, options.target)
    number = _number_column(both, options.target)
    if title == "marginals":
        yield lambda: _of_columns(both, found)
        if len(domain) > 1:
            yield lambda: _of_sets(both, found, 2, options.seed)
        if len(domain) > 2:
            yield lambda: _of_sets(both, found, 3, options.seed)
        yield lambda: k_marginal_score(
            _as_result(2, found.pairs)
            if found.pairs
            else _as_result(1, [item.distance for item in found.columns])
        )
        yield lambda: workload_errors(both, options.workload or _default_workload(domain, options.seed))
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
    elif title == "learning" and (options.target or label) is not None and len(domain) > 1:
        yield lambda: _learning(both, options, found, options.target or label or "")
    elif title == "entities" and options.levels is not None:
        yield from level_measures(options.levels, found.levels)
    elif title == "other tools":
        yield lambda: _others(both, found)
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


def _of_columns(both: Comparison, found: _Found) -> Result:
    found.columns = column_views(both)
    return _as_result(1, [item.distance for item in found.columns])


def _of_sets(both: Comparison, found: _Found, k: int, seed: int) -> Result:
    names = both.domain.names
    if k == 2:
        found.pairs = distances(both, combinations(names, 2))
        return _as_result(2, found.pairs)
    found.triples = distances(both, triples_of(names, seed=seed))
    return _as_result(3, found.triples)


def _as_result(k: int, items: Sequence[Distance]) -> Result:
    values = {" ".join(item.columns): item.value for item in items}
    return Result(f"total variation of {k}-way marginals", values, better="lower")


def _default_workload(domain: Domain, seed: int) -> Workload:
    """Return the marginals of the workload error: all triples, or a random choice of them; all columns of a narrow table."""
    if len(domain) < 3:
        return all_kway(domain, len(domain))
    cliques = tuple(triples_of(domain.names, seed=seed))
    return Workload(domain, cliques, (1.0,) * len(cliques))


def _learning(both: Comparison, options: Options, found: _Found, target: str) -> Result:
    found.learning = learning(
        both,
        target,
        holdout=options.holdout,
        exclude=options.exclude,
        most_rows=options.most_rows,
        seed=options.seed,
    )
    values: dict[str, float] = {}
    for item in found.learning.learned:
        values |= {
            f"{item.learner}, synthetic training rows": item.synthetic,
            f"{item.learner}, real training rows": item.real,
        }
    return Result(f"area under the curve of predicting {target}", values, better="higher")


def _others(both: Comparison, found: _Found) -> Result:
    found.others = other_scores(both)
    values = {
        "SDMetrics quality": found.others.quality,
        "SDNist k-marginal, of 1": found.others.k_marginal / 1000,
    }
    return Result("scores of other tools", values, better="higher")


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
    """Return the column to classify by: the target, or the last one with 2 to 10 values, or with up to 20 where there is none."""
    if target is not None:
        return target if both.domain.size(target) <= 50 else None
    for most in (10, 20):
        few = [name for name in both.domain.names if 2 <= both.domain.size(name) <= most]
        if few:
            return few[-1]
    return None


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
