"""Rehearsing a release on public data: which configurations would be accepted, and how often.

Paper Births, section 4.10. The configuration space is searched on a public table that resembles the private one, in
parallel and as long as it takes, because public data costs no privacy. What is learnt narrows the space.
If the tables are less alike than hoped, neither the privacy nor the quality of the release suffers; it only fails
more often.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import yaml

from understudy.data import Database
from understudy.data.linked import LinkedTables
from understudy.errors import BudgetError, DataError, OutputError, SchemaError
from understudy.mechanisms import Progress, no_progress
from understudy.privacy import PureDP
from understudy.release.rehearsal.trial import Trial, mean_interval
from understudy.release.rehearsal.work import TrialStore, run_missing
from understudy.release.result import Configuration
from understudy.release.run.planning import try_criteria
from understudy.release.spec.spec import Spec
from understudy.report.bars import Bar, bar_chart

# ----------------------------------------------------------------------------------------
# What the trials of one configuration say.


@dataclass(frozen=True, kw_only=True)
class ConfigurationRehearsal:
    """What the trials of one configuration say.

    Attributes
    ----------
    configuration, trials
        The configuration and its trials.
    confidence
        Confidence of the interval.
    """

    configuration: Configuration
    trials: tuple[Trial, ...]
    confidence: float = 0.95

    @cached_property
    def acceptance(self) -> float:
        """Estimated probability that an attempt with this configuration is accepted."""
        return fmean(trial.probability for trial in self.trials)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the probability; see `mean_interval`."""
        return mean_interval([trial.probability for trial in self.trials], confidence=self.confidence)

    @property
    def closest(self) -> dict[str, int]:
        """How often each criterion was the closest to failing, most often first."""
        return dict(Counter(trial.closest for trial in self.trials if trial.closest).most_common())

    @property
    def failures(self) -> dict[str, int]:
        """Why attempts ended without a candidate, and how often."""
        return dict(Counter(trial.failure for trial in self.trials if trial.failure).most_common())

    @property
    def median_slack(self) -> float | None:
        """Median over trials of the smallest slack, in records."""
        found = [trial.slack for trial in self.trials if trial.slack is not None]
        return median(found) if found else None

    @property
    def median_errors(self) -> dict[str, float | None]:
        """Median exact error by criterion; None where it is infinite."""
        names = dict.fromkeys(name for trial in self.trials for name in trial.errors)
        found: dict[str, float | None] = {}
        for name in names:
            values = [t.errors[name] for t in self.trials if name in t.errors]
            middle = median(math.inf if value is None else value for value in values)
            found[name] = middle if math.isfinite(middle) else None
        return found

    @property
    def median_slacks(self) -> dict[str, float]:
        """Median slack by criterion, in records."""
        names = dict.fromkeys(name for trial in self.trials for name in trial.slacks)
        return {
            name: median(trial.slacks[name] for trial in self.trials if name in trial.slacks)
            for name in names
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "configuration": self.configuration.to_dict(),
            "trials": len(self.trials),
            "acceptance": self.acceptance,
            "interval": list(self.interval),
            "closest": self.closest,
            "failures": self.failures,
            "median_slack": self.median_slack,
            "median_errors": self.median_errors,
            "median_slacks": self.median_slacks,
            "median_seconds": median(trial.seconds for trial in self.trials),
        }


# ----------------------------------------------------------------------------------------
# A specification with fewer configurations.
#
# A specification describes its configurations as a product: transformations by column, methods with options,
# projections. The configurations worth keeping need not form a product, so the largest one that holds nothing else
# is looked for, greedily from each of them.

Point = tuple[str, ...]
_SEEDS = 200


def product_within(points: Mapping[Point, float]) -> tuple[set[str], ...]:
    """Return a product of sets whose members are all among some points: as large as found, then as good.

    Parameters
    ----------
    points
        Each point (one word per dimension) with how good it is.

    Examples
    --------
    >>> points = {("a", "x"): 0.9, ("b", "x"): 0.8, ("b", "y"): 0.2, ("c", "y"): 0.1}
    >>> [sorted(labels_there) for labels_there in product_within(points)]
    [['a', 'b'], ['x']]
    """
    seeds = sorted(points, key=lambda point: -points[point])[:_SEEDS]
    best: tuple[set[str], ...] = ()
    best_worth = (0, 0.0)
    for seed in seeds:
        box = _grown(seed, points)
        members = list(product(*box))
        worth = (len(members), sum(points[member] for member in members) / len(members))
        if worth > best_worth:
            best, best_worth = box, worth
    return best


def _grown(seed: Point, points: Mapping[Point, float]) -> tuple[set[str], ...]:
    """Widen a point, one word of one dimension at a time, while every member is among the points."""
    box = tuple({label_there} for label_there in seed)
    choices = sorted(
        {(index, label_there) for point in points for index, label_there in enumerate(point)},
        key=lambda choice: -max(value for point, value in points.items() if point[choice[0]] == choice[1]),
    )
    for index, label_there in choices:
        if label_there in box[index]:
            continue
        added = product(
            *(({label_there} if place == index else labels_there) for place, labels_there in enumerate(box))
        )
        if all(member in points for member in added):
            box[index].add(label_there)
    return box


def narrowed_plain(
    spec: Spec, kept: Sequence[tuple[Configuration, float]], *, folder: Path
) -> tuple[dict[str, Any], tuple[Configuration, ...]]:
    """Return a specification of some configurations, for a file in a folder, and those that found no place in it.

    Every configuration of the result is among ``kept``.
    """
    points = {_point(configuration): value for configuration, value in kept}
    box = product_within(points)
    inside = [configuration for configuration, _ in kept if _inside(_point(configuration), box)]
    outside = tuple(configuration for configuration, _ in kept if not _inside(_point(configuration), box))
    plain: dict[str, Any] = json.loads(json.dumps(spec.plain, default=str))
    labels = list(zip(inside[0].transformations, box, strict=False))
    if spec.transformations:
        plain["transformations"] = {
            column: {
                label: facts
                for label, facts in plain["transformations"][column].items()
                if label in labels_there
            }
            for column, labels_there in labels
        }
    plain["synthesizers"] = _distinct(
        {"method": item.method, "options": _options(item, spec.where, folder)} for item in inside
    )
    if plain.get("projections"):
        plain["projections"] = _distinct(dict(item.projection) for item in inside)
    _lower_total(plain, spec)
    _move_paths(plain, spec.where, folder)
    return plain, outside


def _lower_total(plain: dict[str, Any], spec: Spec) -> None:
    """Take what private regressions no longer cost, because fewer versions of their columns are left, out of a pure total."""
    if spec.shares.single or spec.form != "published" or not isinstance(spec.total, PureDP):
        return
    left = Spec.from_dict(plain, where=spec.where)
    saved = min(spec.shares.needed.values()) - min(left.shares.needed.values())
    if saved > 1e-6 * spec.total.epsilon:
        plain["budget"]["total"]["epsilon"] = round(spec.total.epsilon - saved, 12)


def _point(configuration: Configuration) -> Point:
    method = json.dumps([configuration.method, configuration.options], sort_keys=True, default=str)
    projection = json.dumps(configuration.projection, sort_keys=True, default=str)
    return (*configuration.transformations.values(), method, projection)


def _inside(point: Point, box: tuple[set[str], ...]) -> bool:
    return all(label_there in labels_there for label_there, labels_there in zip(point, box, strict=True))


def _distinct(items: Any) -> list[dict[str, Any]]:
    found = {json.dumps(item, sort_keys=True, default=str): item for item in items}
    return [json.loads(text) for text in found]


def _options(configuration: Configuration, where: Path, folder: Path) -> dict[str, Any]:
    """Return options as alternatives of one; a value that is a list is wrapped, since lists mean alternatives."""
    options = {
        key: [value] if isinstance(value, list) else value for key, value in configuration.options.items()
    }
    workload = options.get("workload")
    if isinstance(workload, str) and (where / workload).is_file():
        options["workload"] = _moved(workload, where, folder)
    return options


def _move_paths(plain: dict[str, Any], where: Path, folder: Path) -> None:
    """Make paths relative to another folder."""
    for holder, key in ((plain, "schema"), (plain, "ledger"), (plain["source"], "path")):
        if isinstance(holder.get(key), str):
            holder[key] = _moved(holder[key], where, folder)
    tables = plain["source"].get("tables")
    for name, place in tables.items() if isinstance(tables, dict) else ():
        if isinstance(place, str):
            tables[name] = _moved(place, where, folder)
        elif "://" not in place["url"]:
            place["url"] = _moved(place["url"], where, folder)
    database = plain["source"].get("database")
    if isinstance(database, dict) and "://" not in database["url"]:
        database["url"] = _moved(database["url"], where, folder)
    for part, key in (("output", "folder"), ("previous", "bundle")):
        holder = plain.get(part)
        if isinstance(holder, dict) and isinstance(holder.get(key), str):
            holder[key] = _moved(holder[key], where, folder)


def _moved(path: str, where: Path, folder: Path) -> str:
    return path if Path(path).is_absolute() else os.path.relpath((where / path).absolute(), folder.absolute())


_MOST_BARS = 40


@dataclass(frozen=True, kw_only=True, eq=False)
class Rehearsal:
    """The outcome of a rehearsal, best configuration first.

    Attributes
    ----------
    spec
        The specification that was rehearsed.
    results
        One per configuration tried.
    rows
        Number of rows of the public table (after cleaning), or of its entities where the release is of entities with their events.
    keep
        Configurations with a larger acceptance probability are worth keeping.
    notes
        What a reader should know.
    """

    spec: Spec
    results: tuple[ConfigurationRehearsal, ...]
    rows: int
    keep: float = 0.1
    notes: tuple[str, ...] = field(default=())

    @property
    def kept(self) -> tuple[ConfigurationRehearsal, ...]:
        """The configurations worth keeping."""
        return tuple(item for item in self.results if item.acceptance > self.keep)

    def narrowed(self, folder: str | os.PathLike[str] = ".") -> tuple[Spec, tuple[Configuration, ...]] | None:
        """Return a specification whose configurations are all worth keeping, or None if there is none.

        A specification describes a product of alternatives, so it may have no place for some of the
        configurations worth keeping; these are returned as well.
        """
        found = self._narrowed(Path(folder))
        return None if found is None else (Spec.from_dict(found[0], where=folder), found[1])

    def _narrowed(self, folder: Path) -> tuple[dict[str, Any], tuple[Configuration, ...]] | None:
        if not self.kept:
            return None
        kept = [(item.configuration, item.acceptance) for item in self.kept]
        return narrowed_plain(self.spec, kept, folder=folder)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "release": self.spec.name,
            "fingerprint": self.spec.fingerprint(),
            "form": self.spec.form,
            "rows": self.rows,
            "configurations_in_all": len(self.spec.configurations),
            "configurations_tried": len(self.results),
            "keep": self.keep,
            "kept": [item.configuration.name for item in self.kept],
            "notes": list(self.notes),
            "results": [item.to_dict() for item in self.results],
        }

    def chart(self) -> str:
        """Return a picture of the acceptance probabilities as an SVG document."""
        shown = self.results[:_MOST_BARS]
        trials = max((len(item.trials) for item in self.results), default=0)
        more = f"; the best {len(shown)} of {len(self.results)}" if len(self.results) > len(shown) else ""
        return bar_chart(
            f"Probability of acceptance on public data: {self.spec.name}",
            [
                Bar(item.configuration.name, item.acceptance, *item.interval, strong=item in self.kept)
                for item in shown
            ],
            note=f"{trials} trials per configuration, {self.rows:,} {self.spec.counted}; lines are 95 % intervals{more}",
            mark=self.keep,
        )

    def write(self, folder: str | os.PathLike[str]) -> dict[str, Path]:
        """Write ``rehearsal.json``, ``acceptance.svg`` and, if anything is kept, the narrowed ``spec.yaml``."""
        here = Path(folder)
        try:
            here.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(here, error) from None
        texts = {
            "rehearsal.json": json.dumps(self.to_dict(), indent=2, allow_nan=False, default=str) + "\n",
            "acceptance.svg": self.chart() + "\n",
        }
        found = self._narrowed(here)
        if found is not None:
            Spec.from_dict(found[0], where=here)  # it must be readable, or nothing is written
            head = (
                f"# {self.spec.name}, narrowed by a rehearsal on public data: configurations that were accepted\n"
                f"# with an estimated probability above {self.keep:g}.\n"
            )
            texts["spec.yaml"] = head + yaml.safe_dump(
                found[0], sort_keys=False, allow_unicode=True, width=110
            )
        try:
            for name, text in texts.items():
                part = here / f".{name}.part"
                part.write_text(text, encoding="utf-8")
                part.replace(here / name)
            if found is None:
                (here / "spec.yaml").unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(here, error) from None
        return {name: here / name for name in texts}


def _unwritable(folder: Path, error: OSError) -> OutputError:
    return OutputError(f"The rehearsal cannot be written to {str(folder)!r}: {error.strerror or error}.")


def rehearse(
    spec: Spec,
    public: Any,
    *,
    trials: int = 10,
    configurations: int | None = None,
    jobs: int | None = None,
    backend: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    keep: float = 0.1,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Rehearsal:
    """Try configurations of a specification on a public table.

    Parameters
    ----------
    spec
        The specification.
    public
        A *public* table with the schema of the specification: a frame or a file.
    trials
        Attempts per configuration.
    configurations
        How many configurations to try, drawn at random without replacement; all of them by default.
    jobs
        Number of processes, at most as many as fit in memory; None follows ``joblib.parallel_config``.
    backend
        What runs them: ``loky`` (processes here), ``threading``, ``dask`` or ``ray``; see `understudy.parallel`. By
        default the environment variable ``UNDERSTUDY_BACKEND``, or what joblib is set to.
    folder
        Where finished trials are kept (``trials.jsonl``), so that another run goes on with the rest.
    keep
        Configurations with a larger acceptance probability are worth keeping.
    seed
        Of the configurations drawn and of the noise, which need not be secret here.
    progress
        Called with words and a fraction.

    Raises
    ------
    DataError
        If the table does not have the schema of the specification; everything wrong is listed. If it is the private table that the specification names, under whatever name.
    BudgetError
        If a number makes no sense.
    OutputError
        If trials cannot be written.
    UnusableMethod
        If a criterion of another package does not work on made-up tables.

    Privacy
    -------
    The table is read without protection and exact errors are shown. It must be public. The private table is
    not touched, so the release that follows costs what it would cost without a rehearsal.

    Examples
    --------
    >>> import pandas as pd
    >>> spec = Spec.parse('''
    ... name: tiny
    ... source: {simulate: {table: toy, rows: 2000}}
    ... schema: {columns: [{name: smokes, kind: boolean}, {name: exercises, kind: boolean}]}
    ... unit: replace-one
    ... synthesizers: [{method: gaussian, options: {workload: all-2way}}, {method: independent}]
    ... acceptance:
    ...   form: pass-only
    ...   epsilon: 0.5
    ...   criteria: [{name: cells, kind: max-marginal-error, threshold: 0.1}]
    ... selection: {rule: single}
    ... budget: {total: {epsilon: 1.5}, model: {epsilon: 1}}
    ... ''')
    >>> table = pd.DataFrame({"smokes": [True, False] * 1000, "exercises": [True, False] * 1000})
    >>> rehearsal = rehearse(spec, table, trials=3, jobs=1)
    >>> [(item.configuration.method, round(item.acceptance, 2)) for item in rehearsal.results]
    [('gaussian', 1.0), ('independent', 0.0)]
    >>> rehearsal.narrowed()[0]
    Spec('tiny': 1 configuration, 1 criterion, epsilon=1.5 (pure differential privacy))
    """
    if trials < 1:
        raise BudgetError(f"trials ({trials}) must be at least 1.")
    if configurations is not None and configurations < 1:
        raise BudgetError(f"configurations ({configurations}) must be at least 1, or all of them.")
    if not 0 <= keep < 1:
        raise BudgetError(f"keep ({keep}) must be a probability below 1.")
    if jobs == 0:
        raise BudgetError("jobs (0) must be a number of processes, or -1 for one per core.")
    require_not_private(spec, public)
    space = spec.configurations
    if not space:
        raise SchemaError("The configuration space is empty; there is nothing to rehearse.")
    chosen = list(space)
    if configurations is not None and configurations < len(space):
        drawn = np.random.default_rng(seed).choice(len(space), size=configurations, replace=False)
        chosen = [space[index] for index in sorted(drawn)]
    try_criteria(spec, chosen)
    store = TrialStore(None if folder is None else Path(folder) / "trials.jsonl")
    found, rows = run_missing(
        spec, chosen, public, store, trials=trials, seed=seed, jobs=jobs, backend=backend, progress=progress
    )
    results = [
        ConfigurationRehearsal(configuration=configuration, trials=tuple(done))
        for configuration, done in zip(chosen, found, strict=True)
    ]
    results.sort(key=lambda item: (-item.acceptance, -(item.median_slack or 0.0), item.configuration.name))
    return Rehearsal(
        spec=spec,
        results=tuple(results),
        rows=rows,
        keep=keep,
        notes=_notes(spec, rows, len(chosen), results),
    )


def require_not_private(spec: Spec, public: Any) -> None:
    """Refuse the private table of a specification, or a folder or mapping that holds one of them: as a file, a link to it, or a table of a database."""
    private = {*_places(spec.source.path), *_places(spec.source.database), *_places(spec.source.linked)}
    for one in _places(public):
        if one in private or any(_same_file(one, two) for two in private):
            raise DataError(
                "The table to rehearse on is the private table of the specification. A rehearsal shows exact errors and spends no budget, so it must never see that table."
            )


def _places(source: Any) -> list[Path | Database]:
    """Return the files and the tables of databases that a source of tables names; none of what is in memory."""
    if isinstance(source, LinkedTables | Mapping):
        tables = source.tables if isinstance(source, LinkedTables) else source
        return [place for table in tables.values() for place in _places(table)]
    if isinstance(source, Database):
        return [source]
    if not isinstance(source, str | os.PathLike):
        return []
    path = Path(source)
    return [path, *(path.iterdir() if path.is_dir() else ())]


def _same_file(one: Path | Database, two: Path | Database) -> bool:
    return (
        isinstance(one, Path)
        and isinstance(two, Path)
        and one.exists()
        and two.exists()
        and one.samefile(two)
    )


def _notes(spec: Spec, rows: int, tried: int, results: Sequence[ConfigurationRehearsal]) -> tuple[str, ...]:
    notes = ["The table is taken to be public: it was read without noise and exact errors are shown."]
    expected = spec.row_count.value or spec.expected_rows
    if expected and abs(rows - expected) > 0.1 * expected:
        notes.append(
            f"The public table has {rows:,} {spec.counted} and the specification expects {expected:,}. Slack grows with the "
            f"number of {spec.counted}, so the probabilities are those of a table of another size."
        )
    if tried < len(spec.configurations):
        notes.append(
            f"{len(spec.configurations) - tried:,} of {len(spec.configurations):,} configurations were not tried."
        )
    failing = sum(bool(item.failures) for item in results)
    if failing:
        notes.append(f"In {failing} configurations attempts ended without a candidate; see the failures.")
    notes.append(
        "Intervals cover the noise of the attempts, not the difference between the public and the private table."
    )
    return tuple(notes)
