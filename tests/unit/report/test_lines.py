"""Charts of lines: what has no number is shown, and a long legend stays on the sheet."""

from __future__ import annotations

import re

from understudy.report.lines import LinePanel, line_chart


def test_what_has_no_number_is_a_cross_of_its_colour_inside_the_panel() -> None:
    points = [(1.0, 0.1, 0.2, 0.3)]
    panel = LinePanel("t", {"a": points, "b": points}, {"a": [10.0], "c": [10.0, 100.0]})
    svg = line_chart("Error", [panel], x_label="epsilon", y_label="error")
    assert svg.count("no number") == 3
    assert "c, 100: no number" in svg
    colours = dict(re.findall(r'stroke="(#\w+)" stroke-width="1.6"><title>(\w), 10:', svg))
    assert set(colours.values()) == {"a", "c"}
    assert len(colours) == 2
    assert ">100</text>" in svg, "the axis reaches as far as the crosses"


def test_a_long_legend_has_several_lines_and_panels_below_it() -> None:
    few = line_chart("t", [LinePanel("p", {"a": [(1.0, 1, 1, 1)]})], x_label="x", y_label="y")
    names = {f"a mechanism with a name, {number}": [(1.0, 1.0, 1.0, 1.0)] for number in range(14)}
    many = line_chart("t", [LinePanel("p", names)], x_label="x", y_label="y")
    width, height = (float(re.search(rf'{side}="([\d.]+)"', many)[1]) for side in ("width", "height"))  # type: ignore[index]
    ends = [
        float(x) + 6.8 * len(name)
        for x, name in re.findall(r'<text x="([\d.]+)" y="\d+" font-size="12"[^>]*>([^<]+)<', many)
    ]
    assert len(ends) == 14
    assert max(ends) <= width
    assert height > float(re.search(r'height="([\d.]+)"', few)[1])  # type: ignore[index]
    assert len(set(re.findall(r'height="4" fill="(#\w+)"', many))) == 14
