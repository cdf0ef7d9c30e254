"""Rows of a model under a condition: those for which something is true, or with some columns fixed.

Where the distribution can be conditioned (:class:`~understudy.engine.Conditional`), what a condition says about codes enters it exactly: a
graphical model gets one more potential, a mixture other weights. What is left (a condition that cuts through a bin, or joins columns
that the model cannot hold together) is met by drawing rows and keeping those that fit. Both give the model's own distribution of such rows.
All of it is post-processing of a released model.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.engine import Conditional, Distribution
from understudy.engine.record_fitting.records import Allowed
from understudy.errors import ConstraintError, DataError, WorkloadError
from understudy.mechanisms.drawing import Codes, Drawer
from understudy.progress import Phases, Progress, no_progress
from understudy.schema import Selection
from understudy.schema.problems import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from understudy.mechanisms.model import Model

__all__ = ["FEW_ROWS", "ConditionalRows", "RareRows"]

FEW_ROWS = 10.0
"""Fewer expected rows than this in the whole table are mostly noise."""
_MOST_DRAWN = 1 << 24
"""Records that are drawn at most to find those that fit."""
_BATCH = (1 << 10, 1 << 20)
_RULED = 1 << 15
_ENOUGH = 100
"""Rows that are drawn under rules to see how many satisfy a condition, and how many of them must for the answer to count."""
_REDRAWS = 50
"""How often rows of fixed columns whose rest breaks a constraint are drawn again."""


class RareRows(UserWarning):
    """The model expects hardly any rows of the kind that was asked for."""


@dataclass(frozen=True)
class Restricted:
    """A distribution with as much of a condition in it as it takes.

    Attributes
    ----------
    distribution
        Of records that satisfy what could be put in.
    share
        The share of the model's rows that is left.
    rest
        What remains to be met by keeping the records that fit, as tables of codes.
    decided
        Whether codes decide: no bin is cut by the condition.
    """

    distribution: Distribution
    share: float
    rest: tuple[Allowed, ...]
    decided: bool


@dataclass(frozen=True, eq=False)
class ConditionalRows:
    """Draws rows of a model under a condition.

    Parameters
    ----------
    model
        The fitted model.
    where
        What must be true of the rows, or None.
    """

    model: Model
    where: str | Selection | None = None

    @cached_property
    def selection(self) -> Selection | None:
        """The condition, checked against the schema."""
        if self.where is None or isinstance(self.where, Selection):
            return self.where
        return Selection.parse(self.where, self.model.schema)

    @cached_property
    def restricted(self) -> Restricted:
        """The distribution under the condition, as far as it can be conditioned."""
        distribution: Distribution = self.model.distribution
        share, decided = 1.0, True
        rest: list[Allowed] = []
        for part in self.selection.parts if self.selection is not None else ():
            if not part.tabulated:
                decided = False
                continue
            decided = decided and part.certain
            if not part.possible.any():
                raise ConstraintError(
                    f"No record of the schema can satisfy {self._text!r}: nothing in {', '.join(map(repr, part.columns))} does. "
                    "Compare with values inside the declared domain."
                )
            held = self._held(distribution, part.columns, part.possible)
            if held is None:
                rest.append((part.columns, part.possible))
            else:
                share *= held.total / distribution.total
                distribution = held
        return Restricted(distribution, share, tuple(rest), decided)

    def _held(
        self, distribution: Distribution, columns: tuple[str, ...], allowed: npt.NDArray[np.bool_]
    ) -> Distribution | None:
        """Return the distribution under one part of the condition, or None where it cannot be conditioned and drawing will tell."""
        if not isinstance(distribution, Conditional) or self.model.schema.domain.cells(columns) > _BATCH[1]:
            return None
        if not float((distribution.marginals([columns])[0] * allowed).sum()) > 0:
            raise self._no_mass(f"columns {', '.join(map(repr, columns))}")
        return distribution.restricted(columns, allowed)

    @property
    def _text(self) -> str:
        return "" if self.selection is None else self.selection.text

    def _no_mass(self, where: str) -> ConstraintError:
        return ConstraintError(
            f"The model holds no rows with {self._text!r} ({where}): their probability is zero. Loosen the condition, or see "
            "with model.marginals what the model holds there."
        )

    @cached_property
    def share(self) -> float:
        """The share of the model's rows that satisfy the condition.

        What the distribution was conditioned on is exact. What is left to drawing (bins that are cut, and constraints of the schema that
        the distribution does not hold) is estimated from a quarter of a million rows. Under rules it is counted among rows as they are drawn.
        """
        held = self.restricted
        if held.decided and not held.rest and not self.model.schema.constraints:
            return held.share
        if self.model.schema.rules:  # rules move rows, so that rows as they are drawn tell
            drawn = self.model._drawer.valid(_RULED, np.random.default_rng(0))
            found = int(self._fitting(drawn, seed=0)[1].sum())
            if found >= _ENOUGH:
                return found / _RULED
        codes = self._trial(held.distribution)
        obey = self.model.schema.holds_codes(self._by_name(codes))
        fits = float((self._fitting(codes, seed=0)[1] & obey).mean())
        if not self.model.schema.constraints:
            return held.share * fits
        before = self.model.schema.holds_codes(self._by_name(self._trial(self.model.distribution)))
        return held.share * fits / float(before.mean())

    def _trial(self, distribution: Distribution) -> Codes:
        return distribution.sample_codes(_BATCH[1] >> 2, np.random.default_rng(0))

    # -- rows for which a condition is true ----------------------------------------------------

    def sample(
        self,
        n: int | None = None,
        *,
        given: pd.DataFrame | Mapping[str, Any] | None = None,
        seed: int | None = None,
        progress: Progress = no_progress,
    ) -> pd.DataFrame:
        """Draw rows under the condition, or one for each row of fixed columns; see `Model.sample`."""
        phases = Phases(progress, {"condition": 1.0, "rows": 9.0})
        phases.part("condition")("asking the model", 0.0)
        generator = np.random.default_rng(seed)
        if given is not None:
            return self._sample_given(n, given, generator, phases.part("rows"))
        held = self.restricted
        rows = self._rows(n)
        if self.model.total * held.share < FEW_ROWS:
            warnings.warn(self.rarity(), RareRows, stacklevel=4)
        whole = held.decided
        drawer = Drawer(
            self.model.schema,
            held.distribution,
            self.model.workload if whole else None,
            conditions=self._conditions,
            measured=self.model.measured_cliques,
            all_rows=self.model.total,
        )
        if whole:
            pieces = list(
                drawer.chunks(
                    rows,
                    rows_per_chunk=max(1, rows),
                    generator=generator,
                    progress=phases.part("rows"),
                )
            )
            drawn = pieces[0] if pieces else np.zeros((0, len(self.model.schema.names)), dtype=np.uint8)
            return self._decoded(drawn, generator)
        return self._accepted(drawer, rows, generator, phases.part("rows"))

    @property
    def _conditions(self) -> tuple[Allowed, ...]:
        """Every part of the condition as a table of codes: record fitting must not undo what the distribution holds."""
        parts = () if self.selection is None else self.selection.parts
        return tuple((part.columns, part.possible) for part in parts if part.tabulated)

    def _rows(self, n: int | None) -> int:
        if n is None:
            return max(1, round(self.model.default_rows() * self.share))
        if n < 0:
            raise WorkloadError(f"Cannot draw {n} rows; ask for zero or more.")
        return n

    def rarity(self) -> str:
        """Say how many such rows the model expects."""
        expected = self.model.total * self.restricted.share
        return (
            f"The model expects {expected:.3g} rows with {self._text!r} in a table of {self.model.total:,.0f}. That few are mostly noise: "
            "the rows drawn are plausible, and no evidence that there are any."
        )

    def _accepted(
        self, drawer: Drawer, rows: int, generator: np.random.Generator, progress: Progress
    ) -> pd.DataFrame:
        """Draw rows and keep those whose values satisfy the condition, until there are enough."""
        import pandas as pd

        kept: list[pd.DataFrame] = []
        found = tried = 0
        request = int(np.clip(2 * rows, *_BATCH))
        while found < rows:
            progress("drawing rows", found / rows)
            if tried >= _MOST_DRAWN:
                raise ConstraintError(
                    f"Only {found:,} of {tried:,} rows that the model draws satisfy {self._text!r}; {rows:,} were asked for. Ask for "
                    "fewer rows, or for whole bins: the values drawn inside the bins that the condition cuts seldom or never satisfy it."
                )
            frame, fits = self._fitting(drawer.valid(request, generator), generator)
            kept.append(frame[fits])
            found, tried = found + int(fits.sum()), tried + request
            request = min(2 * request, _BATCH[1])
        return pd.concat(kept, ignore_index=True).iloc[:rows].reset_index(drop=True)

    def _fitting(
        self, codes: Codes, seed: int | np.random.Generator
    ) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
        """Return records as values, and which of them satisfy the condition."""
        frame = self._decoded(codes, np.random.default_rng(seed))
        if self.selection is None:
            return frame, np.ones(len(frame), dtype=bool)
        return frame, self.selection.true(frame, self._by_name(codes))

    def _by_name(self, codes: Codes) -> dict[str, Codes]:
        return {name: codes[:, index] for index, name in enumerate(self.model.schema.names)}

    def _decoded(self, codes: Codes, generator: np.random.Generator) -> pd.DataFrame:
        return self.model.decode(self._by_name(codes), seed=int(generator.integers(1 << 62)))

    # -- rows with some columns fixed ----------------------------------------------------------

    def _sample_given(
        self,
        n: int | None,
        given: pd.DataFrame | Mapping[str, Any],
        generator: np.random.Generator,
        progress: Progress,
    ) -> pd.DataFrame:
        import pandas as pd

        fixed = pd.DataFrame(given).reset_index(drop=True)
        schema = self.model.schema
        if n is not None and n != len(fixed):
            raise WorkloadError(
                f"given has {len(fixed)} rows and {n} were asked for: one row is drawn for each of them; leave n out."
            )
        if not len(fixed.columns) or len(set(fixed.columns)) < len(fixed.columns):
            raise DataError("given needs at least one column, and each column once.")
        for name in fixed.columns:
            if name not in schema.domain:
                raise DataError(
                    f"given: the model has no column {name!r}.{did_you_mean(str(name), list(schema.names))}"
                )
        columns = schema.domain.canonical(fixed.columns)
        codes = np.stack([schema.column(name).encode(fixed[name]) for name in columns], axis=1).astype(
            np.int64
        )
        pieces: list[pd.DataFrame] = []
        waiting = np.arange(len(fixed))
        for _ in range(_REDRAWS):
            progress("drawing rows", 1 - len(waiting) / max(1, len(fixed)))
            drawn = self._records_given(columns, codes[waiting], generator)
            frame, fits = self._fitting(drawn, generator)
            for name in columns:
                frame[name] = fixed[name].to_numpy()[waiting]
            fits = fits & schema.holds_codes(self._by_name(drawn)) & schema.holds_raw(frame)
            pieces.append(frame.set_index(waiting)[fits])
            waiting = waiting[~fits]
            if not len(waiting):
                return pd.concat(pieces).sort_index()
        raise ConstraintError(
            f"{len(waiting):,} of {len(fixed):,} rows of given found no record that satisfies the rest "
            f"({self._text or 'the constraints of the schema'}). Leave those rows out, or loosen the condition."
        )

    def _records_given(
        self, columns: tuple[str, ...], codes: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> Codes:
        """Draw a record for each row of codes, exactly where the distribution can, otherwise by keeping those that match."""
        held = self.restricted
        distribution = held.distribution
        drawn = (
            distribution.sample_given(columns, codes, generator)
            if isinstance(distribution, Conditional)
            else None
        )
        if drawn is None:
            return self._matching(columns, codes, generator)
        made, possible = drawn
        if not possible.all():
            raise self._impossible(columns, int((~possible).sum()), len(codes))
        return made

    def _impossible(self, columns: tuple[str, ...], rows: int, of: int) -> ConstraintError:
        condition = f" together with {self._text!r}" if self._text else ""
        return ConstraintError(
            f"The model holds no record for {rows:,} of the {of:,} rows of given ({', '.join(map(repr, columns))}){condition}: their "
            "probability is zero. Leave them out, or fix fewer columns."
        )

    def _matching(
        self, columns: tuple[str, ...], codes: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> Codes:
        """Draw records until every row of codes has met one that matches it."""
        schema = self.model.schema
        places = [schema.domain.index(name) for name in columns]
        wanted, label = np.unique(codes, axis=0, return_inverse=True)
        waiting = [np.flatnonzero(label.reshape(-1) == group).tolist() for group in range(len(wanted))]
        drawer = Drawer(
            schema,
            self.restricted.distribution,
            None,
            conditions=self._conditions,
            measured=self.model.measured_cliques,
        )
        made: Codes | None = None
        left, tried, request = len(codes), 0, int(np.clip(4 * len(codes), *_BATCH))
        while left:
            if tried >= _MOST_DRAWN:
                raise self._impossible(columns, left, len(codes))
            drawn = drawer.valid(request, generator)
            made = np.zeros((len(codes), drawn.shape[1]), dtype=drawn.dtype) if made is None else made
            joined = np.concatenate([wanted, drawn[:, places].astype(np.int64)])
            _, group = np.unique(joined, axis=0, return_inverse=True)
            group = group.reshape(-1)
            owner = {int(key): place for place, key in enumerate(group[: len(wanted)].tolist())}
            for row in np.flatnonzero(np.isin(group[len(wanted) :], group[: len(wanted)])).tolist():
                rows = waiting[owner[int(group[len(wanted) + row])]]
                if rows:
                    made[rows.pop()] = drawn[row]
                    left -= 1
            tried, request = tried + request, min(2 * request, _BATCH[1])
        if made is None:
            return np.zeros((0, len(schema.names)), dtype=np.uint8)
        return made
