"""Where a benchmark keeps results that pages are made from: small tables and charts under ``docs``."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def keep_table(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write ``docs/measured/data/NAME.csv``; numbers with a fraction keep four digits."""
    path = DOCS / "measured" / "data" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return path


def keep_chart(name: str, svg: str) -> Path:
    """Write ``docs/assets/NAME.svg``."""
    path = DOCS / "assets" / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg, encoding="utf-8")
    return path
