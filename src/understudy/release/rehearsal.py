"""Rehearsing a release on public data: which configurations would be accepted, and how often.

Paper Births, section 4.10. The configuration space is searched on a public table that resembles the private one, in
parallel and as long as it takes, because public data costs no privacy. What is learnt narrows the space.
If the tables are less alike than hoped, neither the privacy nor the quality of the release suffers; it only fails
more often.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from understudy.errors import BudgetError, OutputError, SchemaError
from understudy.release._rehearsal_configuration import ConfigurationRehearsal
from understudy.release._rehearsal_interval import mean_interval
from understudy.release._rehearsal_narrow import narrowed_plain
from understudy.release._rehearsal_store import TrialStore
from understudy.release._rehearsal_work import run_missing
from understudy.release.result import Configuration
from understudy.release.spec import Spec
from understudy.report.bars import Bar, bar_chart
from understudy.synthesizers import Progress, no_progress

__all__ = ["ConfigurationRehearsal", "Rehearsal", "mean_interval", "rehearse"]

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
        Number of rows of the public table (after cleaning).
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
            note=f"{trials} trials per configuration, {self.rows:,} rows; lines are 95 % intervals{more}",
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
        If the table does not have the schema of the specification; everything wrong is listed.
    BudgetError
        If a number makes no sense.
    OutputError
        If trials cannot be written.

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
    space = spec.configurations
    if not space:
        raise SchemaError("The configuration space is empty; there is nothing to rehearse.")
    chosen = list(space)
    if configurations is not None and configurations < len(space):
        drawn = np.random.default_rng(seed).choice(len(space), size=configurations, replace=False)
        chosen = [space[index] for index in sorted(drawn)]
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


def _notes(spec: Spec, rows: int, tried: int, results: Sequence[ConfigurationRehearsal]) -> tuple[str, ...]:
    notes = ["The table is taken to be public: it was read without noise and exact errors are shown."]
    expected = spec.row_count.value or spec.expected_rows
    if expected and abs(rows - expected) > 0.1 * expected:
        notes.append(
            f"The public table has {rows:,} rows and the specification expects {expected:,}. Slack grows with the "
            "number of rows, so the probabilities are those of a table of another size."
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
