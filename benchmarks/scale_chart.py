"""The chart of time per row in `docs/explanation/scale.md`, from results of `large_fit` and `large_output`.

Run with ``python -m benchmarks.scale_chart FIT.jsonl OUTPUT.jsonl``; writes ``docs/assets/scale.svg`` and ``scale.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from understudy.report.lines import LinePanel, line_chart

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"


def read(path: Path) -> list[dict[str, Any]]:
    """Return results by number of rows; a later line of the same size wins."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        found[record["rows"]] = {
            key: round(value, 6) if isinstance(value, float) else value for key, value in record.items()
        }
    return [found[rows] for rows in sorted(found)]


def line(records: list[dict[str, Any]], of: Callable[[dict[str, Any]], float]) -> list[tuple[float, ...]]:
    """Return points in microseconds per row."""
    return [(float(item["rows"]), *(1e6 * of(item) / item["rows"],) * 3) for item in records]


def draw(fits: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> str:
    """Return the chart."""
    panels = [
        LinePanel(
            "AIM from Parquet to a model",
            {
                "everything": line(fits, lambda item: item["cpu"]),
                "check and count": line(fits, lambda item: item["check_cpu"] + item["count_cpu"]),
            },
        ),
        LinePanel("rows from the model to Parquet", {"everything": line(outputs, lambda item: item["cpu"])}),
        LinePanel(
            "distance from the model, records",
            {
                "distance": [
                    (float(item["rows"]), *(item["error"] * item["rows"],) * 3)
                    for item in outputs
                    if item["error"]
                ]
            },
        ),
    ]
    return line_chart(
        "Time per row falls as tables grow", panels, x_label="rows", y_label="microseconds of CPU per row"
    )


def main() -> None:
    if len(sys.argv) != 3:
        print(__doc__)
        return
    fits, outputs = (read(Path(word)) for word in sys.argv[1:])
    (ASSETS / "scale.svg").write_text(draw(fits, outputs) + "\n", encoding="utf-8")
    (ASSETS / "scale.json").write_text(
        json.dumps({"fit": fits, "output": outputs}, indent=1) + "\n", encoding="utf-8"
    )
    print(f"wrote {ASSETS / 'scale.svg'}")


if __name__ == "__main__":
    main()
