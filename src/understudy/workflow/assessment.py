"""One evaluation: two tables read, the rows of a hold-out told apart, and every measure that applies computed."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data import read_frame, read_table
from understudy.data.holdout import HoldOut
from understudy.data.sources import in_memory
from understudy.errors import DataError
from understudy.evaluation import Comparison, Evaluation, Options
from understudy.evaluation import evaluate as compare
from understudy.evaluation.comparison import Codes, known_numbers
from understudy.mechanisms import Progress, no_progress
from understudy.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["evaluate"]


def evaluate(
    real: Any,
    synthetic: Any,
    *,
    schema: Schema | str | PathLike[str],
    target: str | None = None,
    exclude: Sequence[str] = (),
    hold_out: Any = None,
    identifiers: Sequence[str] | None = None,
    sensitive: str | None = None,
    sections: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> Evaluation:
    """Compare a synthetic table with the real one, without noise: ``understudy evaluate``, from Python.

    Parameters
    ----------
    real, synthetic
        Frames or files.
    schema
        Of both.
    target, exclude
        A column to predict after training on synthetic rows, and columns that must not help.
    hold_out
        Real rows that had no part in the synthesis: the `HoldOut` of a fit or the file that keeps it, which divide ``real``; or a table of such rows.
    identifiers, sensitive
        Columns an attacker knows, and the one he wants.
    sections
        Which sections to compute; by default all.
    separator, encoding, names
        Of CSV files with real rows; see `read_table`.
    progress
        Called with the name of a stage and a fraction.

    Returns
    -------
    Evaluation
        ``scores``, one per section and each of its own kind; ``overview``, the worst things first; ``learning``; ``others``; ``sections`` with every measure.

    Privacy
    -------
    In: private. Out: private, exact numbers about the real records. For the custodian's own eyes.

    Examples
    --------
    >>> from understudy import datasets
    >>> frame, schema = datasets.load("toy", 400, seed=1)
    >>> found = evaluate(frame, frame, schema=schema, sections=["marginals"])
    >>> found.score("columns").value
    0.0
    """
    described = schema if isinstance(schema, Schema) else Schema.read(schema)
    written: dict[str, Any] = {"separator": separator, "encoding": encoding, "names": names}
    progress("reading", 0.0)
    division = _division(hold_out)
    if division is not None:
        division.require(real)
    codes = _codes(real, described, hold_out=division, **written)
    held: Codes | None = None
    if division is not None:
        held = _codes(real, described, hold_out=division.set_aside, **written)
    elif hold_out is not None:
        held = _codes(hold_out, described, **written)
    sides = _values(real, division, **written), _values(synthetic, None)
    both = Comparison(
        described, codes, _codes(synthetic, described), known_values=known_numbers(described, *sides)
    )
    options = Options(
        sections=sections,
        target=target,
        exclude=tuple(exclude),
        holdout=held,
        identifiers=identifiers,
        sensitive=sensitive,
    )
    return compare(both, options, progress=progress)


def _division(hold_out: Any) -> HoldOut | None:
    """Return how the real rows are divided, if that is what was given."""
    if isinstance(hold_out, HoldOut):
        return hold_out
    if isinstance(hold_out, str | PathLike) and Path(fspath(hold_out)).suffix == ".hold-out":
        return HoldOut.read(hold_out)
    return None


def _codes(source: Any, schema: Schema, **reading: Any) -> Codes:
    chunks = [
        np.stack([chunk[name] for name in schema.names], axis=1).astype(np.int64)
        for chunk in read_table(source, schema, **reading).chunks()
    ]
    return np.concatenate(chunks) if chunks else np.zeros((0, len(schema.names)), np.int64)


def _values(source: Any, division: HoldOut | None, **written: Any) -> pd.DataFrame:
    """Return a table as a frame, for the measures that do not bin numbers. Private where the table is."""
    if isinstance(source, str | PathLike):
        frame = read_frame(source, **written)
    else:
        found = in_memory(source)
        if found is None:
            raise DataError("An evaluation compares frames or files.")
        frame = found if hasattr(found, "iloc") else found.to_pandas()
    return frame if division is None else division.frame(frame)
