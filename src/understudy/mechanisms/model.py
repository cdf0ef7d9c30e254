"""A fitted model: a public distribution with the schema it speaks and the story of how it was made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy._deprecation import rows_or_n
from understudy._html import html_table
from understudy.engine import Distribution, GraphicalModel
from understudy.engine.distributions.released import ReleasedRecords
from understudy.errors import WorkloadError
from understudy.inference import Evidence, History, Interval, Round, Uncertainty
from understudy.inference.intervals import REAL_TABLE
from understudy.inference.refits import FEWEST, Refit, Refits
from understudy.marginals import Measurement, Statistic, SumsOfSigns, Workload
from understudy.mechanisms.drawing import Drawer
from understudy.mechanisms.rules import RulesEffect, effect_of_rules
from understudy.privacy import Budget, Unit, budget_from_dict
from understudy.progress import Phases, Progress, no_progress
from understudy.report import Picture, Whiskers, comparison_panels
from understudy.schema import Clique, Schema, Selection

if TYPE_CHECKING:
    import pandas as pd

    from understudy.mechanisms.base import Synthesizer
    from understudy.mechanisms.events.drawing import EventDrawer
    from understudy.schema.weights import Weight

Codes = npt.NDArray[np.unsignedinteger[Any]]
Cells = npt.NDArray[np.bool_] | Sequence[Sequence[int]]


_TRIED = 4_000
"""Records that are drawn to see how many break a rule."""
_WEIGHTS_PER_BIN = 4_096
_DRAWN_AT_ONCE = 1_000_000
"""Weights that a mean is taken over, and rows that a population is chosen from at a time."""
_FEWEST_KEPT = 1e-3
"""The least mean weight, as a share of the cap, with which a population is drawn: one row in a thousand is kept."""
_SPARE = 1.05
"""Rows that are drawn for a population over those that are needed on average."""


def systematic(
    weights: npt.NDArray[np.float64], wanted: int, cap: float, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Choose rows with probabilities that are proportional to their weights, each at most once and at most ``wanted`` of them.

    The weights are laid end to end and cut at equal distances from a random start; a row is chosen if a cut falls into its weight. The distance is the
    cap at least, so that no row is cut twice.

    Examples
    --------
    >>> systematic(np.array([1.0, 0.0, 1.0, 2.0]), 2, 2.0, np.random.default_rng(1)).tolist()
    [2, 3]
    """
    ends = np.cumsum(weights)
    total = float(ends[-1]) if len(ends) else 0.0
    distance = max(cap, total / wanted)
    cuts = distance * (generator.random() + np.arange(wanted))
    return np.unique(np.searchsorted(ends, cuts[cuts < total], side="right"))


@dataclass(frozen=True)
class Provenance:
    """How a model was made. All of it is public.

    ``rows_exact`` says that the mechanism knew the exact number of rows. It does not where that is private, and not
    after cleaning: then the number depends on the records even if neighbouring tables have equally many. ``condition``
    says what the promise presumes because exact numbers about the table are public; files of version 0.1.0 have none.

    ``ledger_head`` and ``ledger_length`` say where the ledger stood after the fit (`Anchor`); empty where it was in memory.
    """

    method: str
    options: Mapping[str, Any]
    unit: Unit
    budget: Budget
    accounting: str
    spent: float
    ledger_id: str
    rows_exact: bool
    condition: str = ""
    ledger_head: str = ""
    ledger_length: int | None = None

    def guarantee(self) -> str:
        """Say the privacy promise in one sentence, and what it presumes in another."""
        promise = (
            f"{self.budget.describe()}; neighbouring tables: {self.unit.describe()}; "
            f"{self.accounting} accounting."
        )
        return f"{promise} {self.condition}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "method": self.method,
            "options": dict(self.options),
            "unit": self.unit.to_dict(),
            "budget": self.budget.to_dict(),
            "accounting": self.accounting,
            "spent": self.spent,
            "ledger_id": self.ledger_id,
            "rows_exact": self.rows_exact,
            "condition": self.condition,
            "ledger_head": self.ledger_head,
            "ledger_length": self.ledger_length,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Provenance:
        """Return what `to_dict` wrote; a document that is something else is a ``KeyError`` or the like."""
        return cls(
            method=str(plain["method"]),
            options=dict(plain["options"]),
            unit=Unit.from_dict(plain["unit"]),
            budget=budget_from_dict(plain["budget"]),
            accounting=str(plain["accounting"]),
            spent=float(plain["spent"]),
            ledger_id=str(plain["ledger_id"]),
            rows_exact=bool(plain.get("rows_exact", False)),
            condition=str(plain.get("condition", "")),
            ledger_head=str(plain.get("ledger_head") or ""),
            ledger_length=None if plain.get("ledger_length") is None else int(plain["ledger_length"]),
        )


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted distribution that can be asked, sampled, saved and published.

    Everything in a model is a function of released measurements and public facts, so any use of it
    is post-processing and costs nothing. Sampling may take a seed for the same reason.
    """

    schema: Schema
    distribution: Distribution
    measurements: tuple[Measurement, ...]
    provenance: Provenance
    workload: Workload | None = None
    history: History | None = None
    statistics: tuple[Statistic, ...] = ()

    @property
    def total(self) -> float:
        """Estimated number of rows of the table the model stands for."""
        return self.distribution.total

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The adaptive rounds behind the measurements, where there were any."""
        return () if self.history is None else self.history.rounds

    def marginal(self, clique: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the model's expected counts over one clique."""
        return self.marginals([clique])[0]

    def marginals(self, cliques: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        """Return the model's expected counts over many cliques."""
        return self.distribution.marginals([self.schema.domain.canonical(clique) for clique in cliques])

    def default_rows(self) -> int:
        """Return how many rows a sample has when nobody says: the declared or estimated number.

        Records that were released once and for all are not repeated unless somebody asks for more.
        """
        if isinstance(self.distribution, ReleasedRecords):
            return len(self.distribution.codes)
        if self.schema.row_count is not None:
            return self.schema.row_count
        if self.events is not None:
            return self.events.rows
        return max(0, round(self.total))

    @cached_property
    def events(self) -> EventDrawer | None:
        """Draws entities with their rows, where this is a model of event records (a fit of two levels); otherwise None."""
        if self.schema.events_of is None:
            return None
        from understudy.mechanisms.events.drawing import EventDrawer

        return EventDrawer(self)

    @property
    def table_schema(self) -> Schema:
        """The schema of the tables that are drawn: that of the model, unless it is a model of event records."""
        return self.schema if self.events is None else self.events.schema

    def sample_codes(
        self, n: int | None = None, *, seed: int | None = None, progress: Progress = no_progress
    ) -> dict[str, Codes]:
        """Draw encoded records that satisfy every constraint of the schema.

        Parameters
        ----------
        n
            Number of rows; by default the declared row count, or else the model's estimate.
        seed
            Makes the draw repeatable. Safe: the model is already public.
        progress
            Called with the name of a stage and a fraction.
        """
        rows = self._rows(n)
        generator = np.random.default_rng(seed)
        pieces = list(
            self._drawer.chunks(rows, rows_per_chunk=max(1, rows), generator=generator, progress=progress)
        )
        width = len(self.schema.names)
        drawn = pieces[0] if pieces else np.zeros((0, width), dtype=np.uint8)
        return {name: drawn[:, index] for index, name in enumerate(self.schema.names)}

    @cached_property
    def _drawer(self) -> Drawer:
        return Drawer(
            self.schema,
            self.distribution,
            self.workload,
            measured=self.measured_cliques,
            all_rows=self.total,
        )

    def effect_of_rules(self, frame: pd.DataFrame) -> RulesEffect | None:
        """Say what the rules of the schema did to rows that were drawn from the model; None where there are no rules.

        Privacy
        -------
        In: rows of this model. Out: public, nothing but the model and the rows is looked at.
        """
        if not self.schema.rules or self.events is not None or isinstance(self.distribution, ReleasedRecords):
            return None
        names = [
            name for name in self.schema.names if any(name in rule.columns for rule in self.schema.rules)
        ]
        codes = {name: self.schema.column(name).encode(frame[name]) for name in names}
        tried = self.distribution.sample_codes(_TRIED, np.random.default_rng(0))
        return effect_of_rules(self.schema, codes, self._drawer.obey(tried), self.distribution.marginals)

    @property
    def measured_cliques(self) -> tuple[Clique, ...]:
        """The marginals that were measured, each once."""
        return tuple(dict.fromkeys(item.clique for item in self.measurements if item.clique))

    def _rows(self, n: int | None) -> int:
        rows = self.default_rows() if n is None else n
        if rows < 0:
            raise WorkloadError(f"Cannot draw {rows} rows; ask for zero or more.")
        return rows

    def sample(
        self,
        rows: int | None = None,
        *,
        where: str | Selection | None = None,
        given: pd.DataFrame | Mapping[str, Any] | None = None,
        seed: int | None = None,
        progress: Progress = no_progress,
        n: int | None = None,
    ) -> pd.DataFrame:
        """Draw rows as a pandas frame with the columns and types of the schema.

        Parameters
        ----------
        rows
            Number of rows; by default the declared row count, or else the model's estimate (of those that ``where`` picks).
        where
            Draw only rows for which this is true, such as ``"age >= 70 and sex == 'F'"``: the model's distribution of such rows.
            A comparison with a missing entry is not true.
        given
            Columns that are fixed, one value per row: one row is drawn for each, with these values and the rest as the model has it.
        seed
            Makes the draw repeatable. Safe: the model is already public.
        progress
            Called with the name of a stage and a fraction, which stays below 1.
        n
            Deprecated: ``rows``.

        Raises
        ------
        ConstraintError
            If the model holds no such rows, or hardly any.

        Warns
        -----
        RareRows
            If the model expects fewer than ten such rows in the whole table: then they are guesses.
        """
        rows = rows_or_n(rows, n, where="Model.sample")
        if self.events is not None:
            if where is not None or given is not None:
                raise WorkloadError(
                    "A fit of two levels draws whole entities with all their rows, so a condition on rows (where, given) has no meaning. Draw them, and keep those that you want."
                )
            return self.events.frame(rows, seed=seed)
        if where is None and given is None:
            phases = Phases(progress, {"codes": 9.0, "values": 1.0})
            codes = self.sample_codes(rows, seed=seed, progress=phases.part("codes"))
            phases.part("values")("turning codes into values", 0.0)
            return self.decode(codes, seed=seed)
        from understudy.mechanisms.conditional import ConditionalRows

        return ConditionalRows(self, where).sample(rows, given=given, seed=seed, progress=progress)

    # ------------------------------------------------------------------ survey weights

    @property
    def _weight(self) -> Weight:
        """The survey weight of the rows, where the schema declares one and rows are what was fitted."""
        if self.schema.weight is None:
            raise WorkloadError(
                "The schema of this model declares no survey weight, so every row stands for one. Give it a section weight: {column: ..., cap: ...}."
            )
        if self.schema.events_of is not None:
            raise WorkloadError(
                "This is a model of people with several rows, and weights are those of rows. Fit the rows (--flat, flat=True) for weighted totals and a population."
            )
        return self.schema.weight

    @cached_property
    def mean_weights(self) -> npt.NDArray[np.float64]:
        """The mean weight of the rows behind each code of the weight column; rows without a weight stand for nobody.

        Within a bin weights lie as the counts of the neighbouring bins say, which is how synthetic weights are drawn.
        """
        column = self.schema.column(self._weight.column)
        codes = np.repeat(np.arange(column.size), _WEIGHTS_PER_BIN)
        drawn = column.decode(codes, np.random.default_rng(0), counts=self.bin_counts[column.name])
        return np.asarray(np.nan_to_num(drawn, nan=0.0).reshape(column.size, -1).mean(axis=1))

    def weighted(self, clique: Sequence[str] = ()) -> npt.NDArray[np.float64]:
        """Return how many people of the population lie in each cell of a marginal: the rows of a survey, each with its weight.

        Parameters
        ----------
        clique
            Columns other than the weight; none for the whole population.

        Privacy
        -------
        In and out: public, a sum over the bins of the weight column of what the model expects.
        """
        name = self._weight.column
        if name in clique:
            raise WorkloadError(f"{name!r} is the weight; name the columns whose weighted counts you want.")
        both = self.schema.domain.canonical((*clique, name))
        axis = both.index(name)
        return np.asarray(np.tensordot(self.marginal(both), self.mean_weights, axes=(axis, 0)))

    def population(
        self, n: int | None = None, *, seed: int | None = None, progress: Progress = no_progress
    ) -> pd.DataFrame:
        """Draw a population: rows that all stand for equally many people, so that nothing has to be weighted any more.

        Rows are drawn from the model, and of these each is kept with a probability that is proportional to its weight (systematic sampling), so that every row of the
        result is a draw of its own. The weight column is left out.

        Parameters
        ----------
        n
            Number of rows; by default as many as `sample` would draw.
        seed
            Makes the draw repeatable. Safe: the model is already public.
        progress
            Called with the name of a stage and a fraction, which stays below 1.
        """
        import pandas as pd

        weight, rows = self._weight, self._rows(n)
        expected = self.weighted() / max(1.0, self.total)
        if rows and expected < _FEWEST_KEPT * weight.cap:
            raise WorkloadError(
                f"Hardly any row of this model has a weight, or the cap ({weight.cap:g}) is far above all weights: there is no population to draw. Declare a smaller cap."
            )
        generator, pieces, done = np.random.default_rng(seed), [], 0
        at_a_time = max(1, int(_DRAWN_AT_ONCE * expected / weight.cap))
        while done < rows:
            progress("drawing a population", done / rows)
            wanted = min(rows - done, at_a_time)
            drawn = self.sample(
                math.ceil(_SPARE * wanted * weight.cap / expected) + 1, seed=int(generator.integers(1 << 62))
            )
            kept = systematic(
                drawn[weight.column].fillna(0.0).to_numpy(np.float64), wanted, weight.cap, generator
            )
            pieces.append(drawn.iloc[kept])
            done += len(kept)
        found = pd.concat(pieces, ignore_index=True) if pieces else self.sample(0, seed=seed)
        return found[list(self.population_schema.output_names)]

    @property
    def population_schema(self) -> Schema:
        """The schema of the tables that `population` draws: without the weight, and without what is computed from it."""
        name = self._weight.column
        return self.schema.select(column for column in self.schema.names if column != name)

    def sample_tables(
        self, rows: int | None = None, *, seed: int | None = None, n: int | None = None
    ) -> dict[str, pd.DataFrame]:
        """Draw linked tables, by name: the entities with fresh keys, and their events, each with the key of its entity.

        Parameters
        ----------
        rows
            So many events at most, less than one entity away from it; by default those of as many entities as the model stands for.
        seed
            Makes the draw repeatable. Safe: the model is already public.
        n
            Deprecated: ``rows``.

        Raises
        ------
        WorkloadError
            If this is a model of one table.
        """
        if self.events is None:
            raise WorkloadError("This is a model of one table; draw it with sample.")
        return self.events.tables(rows_or_n(rows, n, where="Model.sample_tables"), seed=seed)

    def share(self, where: str | Selection) -> float:
        """Return the share of the model's rows for which a condition is true.

        Exact for conditions on columns whose bins the condition does not cut; otherwise estimated from drawn rows.
        """
        from understudy.mechanisms.conditional import ConditionalRows

        return ConditionalRows(self, where).share

    def decode(self, codes: Mapping[str, npt.ArrayLike], *, seed: int | None) -> pd.DataFrame:
        """Turn codes into values; columns with ``decode_by: smooth`` follow the model's own counts.

        However the codes were drawn, at once, in chunks or by several processes, the values inside a bin follow the same curve:
        that of the model, whatever rows it is asked for.

        Parameters
        ----------
        codes
            One array per column.
        seed
            For the rules that draw values; ``None`` draws anew each time.
        """
        return self.schema.decode(codes, seed=seed, counts=self.bin_counts)

    @cached_property
    def bin_counts(self) -> dict[str, npt.NDArray[np.float64]]:
        """The model's counts of each column with ``decode_by: smooth``, whose values inside bins are drawn by them."""
        names = [column.name for column in self.schema.columns if column.decodes_by_counts]
        return dict(zip(names, self.marginals([(name,) for name in names]), strict=True)) if names else {}

    def sample_chunks(
        self, n: int | None = None, *, rows_per_chunk: int = 1_000_000, seed: int | None = None
    ) -> Iterator[pd.DataFrame]:
        """Draw rows in frames of at most ``rows_per_chunk``, so that any number fits in memory."""
        if rows_per_chunk < 1:
            raise WorkloadError(f"rows_per_chunk ({rows_per_chunk}) must be at least 1.")
        if self.events is not None:
            raise WorkloadError("A fit of two levels is drawn as a whole (sample), not in chunks.")
        generator = np.random.default_rng(seed)
        for drawn in self._drawer.chunks(self._rows(n), rows_per_chunk=rows_per_chunk, generator=generator):
            codes = {name: drawn[:, index] for index, name in enumerate(self.schema.names)}
            yield self.decode(codes, seed=int(generator.integers(1 << 62)))

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """What the measurements say about the model's errors and about the real table."""
        evidence = Evidence(
            self.schema.domain,
            self.measurements,
            self.history or History.unknown(len(self.measurements)),
            self._public_total(),
            tuple(item for item in self.statistics if isinstance(item, SumsOfSigns)),
        )
        return Uncertainty(evidence, self.distribution.marginals)

    def _public_total(self) -> float | None:
        """Return the number of real rows where it is public, as the measurements saw them.

        A person-level unit may have cut rows off, so that even a declared number is not what was measured.
        Under replace-one an undeclared number is known to the mechanism alone, and graphical models keep it,
        unless cleaning made it depend on the records: then models hold an estimate of it.
        """
        unit = self.provenance.unit
        if unit.id_column is not None or not self.provenance.rows_exact:
            return None
        if self.schema.row_count is not None:
            return float(self.schema.row_count)
        fixed = unit.relation == "replace-one" and isinstance(self.distribution, GraphicalModel)
        return self.total if fixed else None

    def error_bounds(
        self,
        *,
        confidence: float = 0.95,
        of: pd.DataFrame | None = None,
        cliques: Sequence[Sequence[str]] | None = None,
    ) -> pd.DataFrame:
        """Bound the L1 error of marginals, as shares of the real table's rows.

        Parameters
        ----------
        confidence
            Probability, over the noise, that the bound of any one marginal holds.
        of
            Rows drawn from the model whose errors are wanted; by default the model's own.
        cliques
            The marginals; by default the workload's, or the measured ones where there is no workload.

        Returns
        -------
        pandas.DataFrame
            ``clique``, ``kind`` (``"supported"`` or ``"unsupported"``), ``bound``, ``basis``, ``total``.
        """
        if cliques is None and self.workload is not None:
            cliques = self.workload.cliques
        elif cliques is None:
            cliques = list(dict.fromkeys(item.clique for item in self.measurements if item.clique))
        wanted = [self.schema.domain.canonical(clique) for clique in cliques]
        codes = None if of is None else self.schema.encode_frame(of)
        return self.uncertainty.error_bounds(wanted, confidence=confidence, codes=codes)

    @property
    def counted_table(self) -> str:
        """Which table was counted, in words: intervals and error bounds hold for that one.

        It is the real table, unless the unit is a person: then it is the table cut to the rows per person (`Unit.describe_cut`), or, in a fit of two
        levels, that of the event records, of which each person has as many as the unit allows.
        """
        unit = self.provenance.unit
        if unit.id_column is None:
            return REAL_TABLE
        rows = f"{unit.max_rows} {'row' if unit.max_rows == 1 else 'rows'}"
        if self.schema.events_of is not None:
            return f"the event records of the real table, {unit.max_rows} of each {unit.id_column}"
        return f"the real table cut to at most {rows} of each {unit.id_column}, chosen at random"

    def interval(self, clique: Sequence[str], *, confidence: float = 0.95) -> Interval:
        """Return a confidence interval for every cell of a marginal of the table that was counted; ``table`` of the result says which that is."""
        ordered = self.schema.domain.canonical(clique)
        found = self.uncertainty.interval(ordered, confidence=confidence)
        labels = tuple(self.schema.column(name).labels for name in ordered)
        return replace(found, table=self.counted_table, columns=ordered, labels=labels)

    def count_interval(self, clique: Sequence[str], cells: Cells, *, confidence: float = 0.95) -> Interval:
        """Return an interval for how many rows of the table that was counted lie in some cells of a marginal.

        Parameters
        ----------
        clique
            Columns, in any order.
        cells
            A mask, or tuples of codes, with one axis or code per column in the order of ``clique``.
        confidence
            Probability over the noise that the interval holds.
        """
        ordered, mask = self.uncertainty.ordered_mask(clique, cells)
        found = self.uncertainty.count_interval(ordered, mask, confidence=confidence)
        return replace(found, table=self.counted_table)

    def mean_interval(self, column: str, values: npt.ArrayLike, *, confidence: float = 0.95) -> Interval:
        """Return an interval for the mean of a column of the table that was counted.

        Parameters
        ----------
        column
            The column.
        values
            What each of its codes stands for, such as the middle of a bin; NaN leaves a code out.
        confidence
            Probability over the noise that the interval holds.
        """
        found = self.uncertainty.mean_interval(column, values, confidence=confidence)
        return replace(found, table=self.counted_table)

    def refits(
        self,
        n: int = 20,
        *,
        seed: int = 0,
        method: Synthesizer | None = None,
        progress: Progress = no_progress,
    ) -> Refits:
        """Run the mechanism again on tables drawn from this model, for intervals that account for the whole estimation.

        Parameters
        ----------
        n
            Number of refits, at least 5; each costs the CPU time of a fit and of drawing a table.
        seed
            Of the drawn tables and of the noise on them, which protects nobody.
        method
            The mechanism with the options of the fit; needed only where these cannot be read from the model, such as a prior.
        progress
            Called with the name of a stage and a fraction.

        Returns
        -------
        Refits
            With `interval`, `count_interval`, `mean_interval` and more. Each result says in ``basis`` what it rests on.

        Raises
        ------
        WorkloadError
            If the fit cannot be run again: a part of its budget was spent before the mechanism began (groups of values, event records), or its options are not in the model.

        Privacy
        -------
        In: this model, which is public. Out: public. No record is read and no ledger is charged.
        """
        from understudy.mechanisms.registry import mechanism_of

        again = mechanism_of(self) if method is None else method
        if n < FEWEST:
            raise WorkloadError(
                f"n ({n}) must be at least {FEWEST}: fewer refits tell too little about a deviation."
            )
        found = []
        for number in range(n):
            progress("fitting again", number / n)
            found.append(self._refit(again, seed * 1_000_003 + number))
        return Refits(self.uncertainty, tuple(found), self.counted_table, lambda: self.sample(seed=seed))

    def _refit(self, method: Synthesizer, seed: int) -> Refit:
        codes = self.sample_codes(seed=seed)
        fitted = method.refit(self, codes, seed=seed)

        def rows() -> tuple[pd.DataFrame, pd.DataFrame]:
            return self.decode(codes, seed=seed), fitted.sample(seed=seed)

        return Refit(codes, fitted.distribution.marginals, fitted.uncertainty.evidence, rows)

    def unresolved(self, *, confidence: float = 0.95, numbers: bool = True) -> pd.DataFrame:
        """List the values of columns that the measurements cannot tell from values that nobody has.

        Their interval begins at zero rows. What the model and synthetic rows have of such a value is mostly noise: counts
        cannot be negative, so the estimates of rare and absent values are too large on average, by about as much
        as the noise. A column about which nothing was measured is left out.

        Parameters
        ----------
        confidence
            Probability over the noise that the interval of any one value holds.
        numbers
            Whether bins of numbers and dates are listed, too. They are read together, and their sums are resolved where single bins are not.

        Returns
        -------
        pandas.DataFrame
            ``column``, ``value``, ``expected`` (rows of it in the model) and ``at_most`` (the end of its interval).
        """
        import pandas as pd

        found: list[tuple[str, str, float, float]] = []
        expected = self.marginals([(name,) for name in self.schema.names])
        for column, counts in zip(self.schema.columns, expected, strict=True):
            if not numbers and column.kind not in ("categorical", "ordinal", "boolean"):
                continue
            ends = self.interval((column.name,), confidence=confidence)
            if ends.basis == "trivial":
                continue
            found += [
                (column.name, column.labels[code], float(counts[code]), float(ends.high[code]))
                for code in np.flatnonzero(ends.low <= 0)
            ]
        return pd.DataFrame(found, columns=["column", "value", "expected", "at_most"])

    def save(self, path: str | Path) -> None:
        """Write the model to a file: a zip of JSON and plain arrays, without any record."""
        from understudy.mechanisms.model_file import save_model

        save_model(self, path)

    @staticmethod
    def load(path: str | Path) -> Model:
        """Read a model file. Nothing in it can run code."""
        from understudy.mechanisms.model_file import load_model

        return load_model(path)

    def plot(self, columns: Sequence[str] | None = None, *, of: pd.DataFrame | None = None) -> Picture:
        """Draw columns of the model, or of rows drawn from it, beside the noisy measurements.

        Parameters
        ----------
        columns
            By default the first twelve.
        of
            Rows to draw as bars instead of the model's own expectations.

        Returns
        -------
        Picture
            Shows itself in a notebook; ``str()`` of it is HTML with inline SVG.
        """
        names = list(self.schema.names[:12] if columns is None else columns)
        codes = None if of is None else self.schema.encode_frame(of)
        panels = []
        for name, expected in zip(names, self.marginals([(name,) for name in names]), strict=True):
            size = self.schema.domain.size(name)
            bars = expected if codes is None else np.bincount(codes[name], minlength=size)
            labels, measured = self.schema.column(name).labels, self.measured_column(name)
            panels.append(Whiskers.of_counts(name, labels, bars, measured, total=self.total))
        return Picture(comparison_panels(panels))

    def measured_column(self, name: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the least noisy measurement of one column and two deviations of its noise; empty if none."""
        best: tuple[float, npt.NDArray[np.float64]] | None = None
        for item in self.measurements:
            if name in item.clique:
                axis = item.clique.index(name)
                others = tuple(index for index in range(item.values.ndim) if index != axis)
                variance = item.variance * item.values.size / item.values.shape[axis]
                if best is None or variance < best[0]:
                    best = (variance, item.values.sum(axis=others))
        if best is None:
            return np.zeros(0), np.zeros(0)
        return best[1], np.full(len(best[1]), 2 * best[0] ** 0.5)

    def _repr_html_(self) -> str:
        rows = [
            (", ".join(item.clique) or "number of rows", item.values.size, item.noise, f"{item.scale:.4g}")
            for item in self.measurements[:50]
        ]
        more = len(self.measurements) - len(rows)
        note = self.provenance.guarantee() + (f" {more} more measurements." if more > 0 else "")
        return html_table(repr(self), ("measured", "cells", "noise", "scale"), rows, note=note)

    def __repr__(self) -> str:
        return (
            f"Model({self.provenance.method}, {len(self.schema.names)} columns, "
            f"{len(self.measurements)} measurements, {self.provenance.budget.describe()})"
        )
