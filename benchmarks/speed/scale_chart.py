"""The chart of time per row in `docs/explanation/scale.md`, from the kept pages of `large-fit` and `large-output`.

Run with ``python -m benchmarks.speed.scale_chart`` after them; it reads what they printed and writes ``docs/assets/scale.svg``.
"""

from __future__ import annotations

import re
from pathlib import Path

from understudy.report.lines import LinePanel, line_chart

DOCS = Path(__file__).resolve().parents[2] / "docs"
Points = list[tuple[float, ...]]


def numbers(name: str, pattern: str) -> list[tuple[float, ...]]:
    """The numbers of every line of a kept page that fits the pattern."""
    text = (DOCS / "measured" / f"{name}.md").read_text(encoding="utf-8")
    return [tuple(float(word.replace(",", "")) for word in found) for found in re.findall(pattern, text)]


def points(pairs: list[tuple[float, float]]) -> Points:
    """A line through the pairs; there is one run of each size, so no spread."""
    return [(x, y, y, y) for x, y in pairs]


def draw(
    fits: list[tuple[float, ...]], outputs: list[tuple[float, ...]], distances: list[tuple[float, ...]]
) -> str:
    """Return the chart."""
    panels = [
        LinePanel(
            "AIM from Parquet to a model",
            {
                "everything": points([(rows, per_row) for rows, per_row, _, _ in fits]),
                "check and count": points(
                    [(rows, 1e6 * (check + count) / rows) for rows, _, check, count in fits]
                ),
            },
        ),
        LinePanel(
            "rows from the model to Parquet",
            {"everything": points([(rows, per_row) for rows, per_row in outputs])},
        ),
        LinePanel(
            "distance from the model, records",
            {"distance": points([(rows, rows * distance) for rows, distance in distances if distance])},
        ),
    ]
    return line_chart(
        "Time per row falls as tables grow", panels, x_label="rows", y_label="microseconds of CPU per row"
    )


def main() -> None:
    fits = numbers(
        "large-fit", r"([\d,]+) rows \(.*?; ([\d.]+) microseconds per row \(check ([\d.]+), count ([\d.]+),"
    )
    outputs = numbers("large-output", r"([\d,]+) rows: .*?; ([\d.]+) microseconds CPU per row")
    distances = numbers("large-output", r"([\d,]+) rows: .*?distance from the model ([\d.e+-]+);")
    path = DOCS / "assets" / "scale.svg"
    path.write_text(draw(fits, outputs, distances) + "\n", encoding="utf-8")
    print(f"wrote {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
