"""``understudy synth --sets``: several tables under one budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from understudy.errors import OutputError
from understudy.privacy import Budget, Unit
from understudy.schema import Schema
from understudy.synthesizers import Model, MultipleSynthesis, Synthesizer
from understudy.synthesizers.multiple import check_sets, share_of

ENDINGS = (".csv.gz", ".csv", ".parquet")


def numbered(path: Path, number: int) -> Path:
    """Return the path of one of several files.

    Examples
    --------
    >>> numbered(Path("out/births.csv.gz"), 3).name
    'births-3.csv.gz'
    """
    ending = next((text for text in ENDINGS if path.name.endswith(text)), path.suffix)
    stem = path.name[: len(path.name) - len(ending)]
    return path.with_name(f"{stem}-{number}{ending}")


def check_many(
    synthesizer: Synthesizer, schema: Schema, *, unit: Unit, budget: Budget, m: int, how: str
) -> float:
    """Check everything that can be checked in advance; return the delta that the ledger must set aside."""
    check_sets(synthesizer, how=how, m=m)
    if how != "independent":
        return synthesizer.reserve(schema, budget)
    share = share_of(budget, m, synthesizer, schema=schema, unit=unit)
    synthesizer.require(share)
    synthesizer.plan(schema, unit=unit, budget=share)
    return m * synthesizer.reserve(schema, share)


def deliver_many(
    many: MultipleSynthesis,
    *,
    out: Path,
    model: Path | None,
    rows: int | None,
    seed: int | None,
    write: Any,
    rescue: Callable[[Model], Path | None],
) -> tuple[int, list[str]]:
    """Write every set, and the models; return the rows of the last set and the files."""
    distinct = many.models if many.kind == "independent" else many.models[:1]
    try:
        if model is not None:
            paths = [model] if len(distinct) == 1 else [numbered(model, i + 1) for i in range(len(distinct))]
            for item, path in zip(distinct, paths, strict=True):
                item.save(path)
        written, length = [], 0
        for number, frame in enumerate(many.frames(rows, seed=seed), start=1):
            path = numbered(out, number)
            write(frame, path)
            written.append(str(path))
            length = len(frame)
    except Exception as error:
        kept = [str(saved) for saved in map(rescue, distinct) if saved is not None]
        note = f" The fitted models, already paid for, are kept in {', '.join(kept)}." if kept else ""
        raise OutputError(f"The synthetic tables were not all written: {error}{note}") from None
    return length, written


def how_to_combine(many: MultipleSynthesis) -> str:
    """Say which rule is valid for the sets."""
    advice = {
        "independent": "Combine analyses of the sets with the rule 'partial' (W + B/m).",
        "posterior": "Combine analyses of the sets with the rule 'full' ((1 + 1/m) B - W).",
        "resampled": "No rule gives valid intervals from these sets: all of them repeat the same noise.",
    }
    return advice[many.kind]
