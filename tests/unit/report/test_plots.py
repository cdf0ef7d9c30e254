"""The door of all pictures: each is a well-formed SVG document with an accessible name, and the same as axes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from understudy import ApproxDP, Ledger, PureDP, Schema, TableSynthesizer, Unit, datasets, evaluate, plots
from understudy.errors import MissingExtra, OutputError, WorkloadError
from understudy.plots import Plot
from understudy.workflow import advise

FRAME, SCHEMA = datasets.load("toy", 400, seed=1)
SVG = "{http://www.w3.org/2000/svg}"


def errors() -> Plot:
    return plots.errors(evaluate(FRAME, FRAME.head(200), schema=SCHEMA, sections=["marginals"]))


def pairs() -> Plot:
    return plots.pairs(evaluate(FRAME, FRAME.head(200), schema=SCHEMA, sections=["marginals"]))


def frontier() -> Plot:
    return plots.frontier(advise(SCHEMA, unit="add-remove", method="independent", epsilon=1.0, rows=400))


def spending() -> Plot:
    ledger = Ledger.in_memory(budget=PureDP(2.0), unit=Unit.add_remove(), table="stays")
    from understudy import synthesize

    synthesize(FRAME, schema=SCHEMA, unit="add-remove", epsilon=1.0, method="independent", ledger=ledger)
    return plots.spending(ledger)


def marginals() -> Plot:
    model = TableSynthesizer("independent", schema=SCHEMA, unit="add-remove", epsilon=1.0).fit(FRAME).model_
    return plots.marginals({"simulated": FRAME, "model": model}, SCHEMA)


ALL: list[tuple[Callable[[], Plot], str, int]] = [
    (errors, "Error by column (private)", 1),
    (pairs, "Error by pair of columns (private)", 1),
    (frontier, "Expected errors of independent on made-up tables of 400 rows", 3),
    (spending, "Budget of stays: 1 of 2 (epsilon) spent", 1),
    (marginals, "Shares of values: simulated, model (as private as these tables)", 4),
]


@pytest.mark.parametrize(("make", "title", "panels"), ALL, ids=lambda item: getattr(item, "__name__", ""))
def test_a_picture_is_svg_and_axes(
    make: Callable[[], Plot], title: str, panels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plot = make()
    assert plot.title == title
    root = ElementTree.fromstring(plot.svg)
    assert root.tag == f"{SVG}svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == title
    assert plot._repr_html_() == plot.svg
    assert plot.save(tmp_path / "p.svg").read_text(encoding="utf-8") == plot.svg
    pytest.importorskip("matplotlib", reason="axes are Matplotlib's")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    drawn = plot.axes()
    try:
        assert len(drawn) == panels
        assert all(place.has_data() for place in drawn)
        assert drawn[0].figure.get_suptitle() == title
        pyplot.gcf().savefig(tmp_path / "p.png")
    finally:
        pyplot.close("all")


def test_numbers_of_a_picture_are_those_of_the_evaluation() -> None:
    found = evaluate(FRAME, FRAME.head(200), schema=SCHEMA, sections=["marginals"])
    worst = found.overview.pairs[0]
    told = [item.text or "" for item in ElementTree.fromstring(plots.pairs(found).svg).iter(f"{SVG}title")]
    assert len(told) == len(SCHEMA.names) ** 2
    assert f"{worst.columns[0]}, {worst.columns[1]}: {worst.value:.2%}" in told
    column = found.overview.columns[0].distance
    assert any(f"{column.name}: {column.value:.1%}" in item for item in _titles(plots.errors(found)))


def _titles(plot: Plot) -> list[str]:
    return [item.text or "" for item in ElementTree.fromstring(plot.svg).iter(f"{SVG}title")]


def test_the_parts_of_a_budget_are_those_of_the_ledger() -> None:
    told = _titles(spending())
    assert len(told) == 2
    assert all("50.0%" in item for item in told)


def test_a_budget_that_is_kept_by_pure_accounting_is_drawn_by_it() -> None:
    """With a small delta a ledger adds up mu^2, but Laplace noise may be within its epsilon alone."""
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=ApproxDP(1.0, 1e-9), unit=unit, table="stays")
    from understudy import synthesize

    synthesize(FRAME, schema=SCHEMA, unit=unit, epsilon=1.0, delta=1e-9, method="laplace", ledger=ledger)
    standing = ledger.guarantee()
    assert standing.accounting == "pure"
    assert standing.symbol == "epsilon"
    assert plots.spending(ledger).title == "Budget of stays: 1 of 1 (epsilon) spent"
    assert "cost (epsilon)" in ledger._repr_html_()


def test_without_matplotlib_there_is_still_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plot = errors()
    assert plot.svg
    with pytest.raises(MissingExtra, match=r"understudy\[plots\]"):
        plot.axes()


@pytest.mark.parametrize("drawn", [errors, pairs, marginals])
def test_exact_numbers_are_drawn_into_no_published_bundle(drawn: Callable[[], Plot], tmp_path: Path) -> None:
    bundle = tmp_path / "release"
    (bundle / "deep").mkdir(parents=True)
    (bundle / "certificate.json").write_text("{}")
    plot = drawn()
    assert "private" in plot.title
    assert "private" in plot.svg
    for place in (bundle / "a.svg", bundle / "deep" / "a.svg"):
        with pytest.raises(OutputError, match="is a published bundle"):
            plot.save(place)
        assert not place.exists()
    assert plot.save(tmp_path / "a.svg").exists()


def test_a_model_alone_is_drawn_wherever_one_wants(tmp_path: Path) -> None:
    (tmp_path / "certificate.json").write_text("{}")
    model = TableSynthesizer("independent", schema=SCHEMA, unit="add-remove", epsilon=1.0).fit(FRAME).model_
    plot = plots.marginals({"model": model}, SCHEMA)
    assert "private" not in plot.title
    assert plot.save(tmp_path / "a.svg").exists()


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"\.svg"):
        errors().save(tmp_path / "p.png")
    found = evaluate(FRAME, FRAME, schema=SCHEMA, sections=["face"])
    one = Schema.parse(
        "columns: [{name: ward, kind: categorical, values: [day, general, intensive], missing: true}]"
    )
    alone = evaluate(FRAME[["ward"]], FRAME[["ward"]], schema=one, sections=["marginals"])
    with pytest.raises(WorkloadError, match="two columns"):
        plots.pairs(alone)
    if not found.overview.columns:
        with pytest.raises(WorkloadError, match="no columns"):
            plots.errors(found)
    with pytest.raises(WorkloadError, match="at least one table"):
        plots.marginals({}, SCHEMA)


def test_names_are_no_formulas_for_matplotlib() -> None:
    pytest.importorskip("matplotlib", reason="axes are Matplotlib's")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    odd = r"a$\nonsense{$"
    described = Schema.parse(
        f"{{columns: [{{name: '{odd}', kind: categorical, values: ['{odd}', b]}}, {{name: c, kind: boolean}}]}}"
    )
    frame = pd.DataFrame({odd: [odd, "b"] * 50, "c": [True, False] * 50})
    found = evaluate(frame, frame.head(60), schema=described, sections=["marginals"])
    ledger = Ledger.in_memory(budget=PureDP(2.0), unit=Unit.add_remove(), table=odd)
    try:
        for plot in (
            plots.errors(found),
            plots.pairs(found),
            plots.spending(ledger),
            plots.marginals({odd: frame}, described),
        ):
            plot.axes()
            pyplot.gcf().canvas.draw()
    finally:
        pyplot.close("all")


def test_a_map_of_many_columns_shows_the_worst() -> None:
    rng = np.random.default_rng(1)
    names = [f"c{index}" for index in range(50)]
    described = Schema.from_dict({"columns": [{"name": name, "kind": "boolean"} for name in names]})
    one, other = (pd.DataFrame(rng.random((60, 50)) < 0.5, columns=names) for _ in range(2))
    found = evaluate(one, other, schema=described, sections=["marginals"])
    plot = plots.pairs(found)
    assert plot.title == "Error by pair of columns (private, 40 of 50)"
    worst = found.overview.pairs[0]
    assert any(f"{worst.columns[0]}, {worst.columns[1]}" in item for item in _titles(plot))


def test_files_are_taken_where_their_objects_are(tmp_path: Path) -> None:
    SCHEMA.write(tmp_path / "toy.yaml")
    halves = {"first": FRAME.head(200), "second": FRAME.tail(200)}
    assert plots.marginals(halves, tmp_path / "toy.yaml").svg == plots.marginals(halves, SCHEMA).svg
    with Ledger.create(tmp_path / "toy.ledger", budget=PureDP(2.0), unit=Unit.add_remove(), table="toy"):
        pass
    assert plots.spending(tmp_path / "toy.ledger").title == "Budget of toy: 0 of 2 (epsilon) spent"
    with pytest.raises(WorkloadError, match="by the names that the legend shows"):
        plots.marginals(FRAME, SCHEMA)  # type: ignore[arg-type]


def test_a_picture_of_a_model_is_short_where_nothing_draws_it() -> None:
    model = TableSynthesizer("independent", schema=SCHEMA, unit="add-remove", epsilon=1.0).fit(FRAME).model_
    shown = model.plot()
    assert len(repr(shown)) < 60
    assert "<svg" in str(shown)
