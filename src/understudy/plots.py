"""Pictures of results through one small door.

Every function returns a `Plot`: an SVG document that shows itself in a notebook, can be saved, and becomes axes of Matplotlib where that is installed.

Privacy
-------
A picture is as private as what it is drawn from. Evaluations are exact numbers about the records, for the custodian's own eyes: their pictures say so in
their title. So are marginals of a real table; whether a frame is one cannot be told, so a picture of frames says that it is as private as they are. None of
these is saved into the folder of a published bundle. Ledgers, advice and models are public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data.output import require_outside_bundles, write_text
from understudy.errors import MissingExtra, OutputError, WorkloadError
from understudy.privacy import Ledger
from understudy.report import Panel, marginal_chart
from understudy.report.bars import Bar, bar_chart
from understudy.report.charts import pair_chart
from understudy.report.lines import LinePanel, line_chart
from understudy.schema import Schema

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from understudy.evaluation import Evaluation
    from understudy.mechanisms import Model
    from understudy.workflow.advice import Advice

__all__ = ["Plot", "errors", "frontier", "marginals", "pairs", "spending"]

_PRIVATE = "private"
_AS_PRIVATE = "as private as these tables"
_MOST_COLUMNS, _MOST_IN_A_MAP = 12, 40


@dataclass(frozen=True)
class Plot:
    """One picture, as SVG and, on demand, as axes of Matplotlib.

    Attributes
    ----------
    title
        What it shows; also its accessible name.
    svg
        The document.
    private
        Whether it may show exact numbers about real records.

    Examples
    --------
    >>> from understudy import Ledger, PureDP, Unit
    >>> plot = spending(Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="stays"))
    >>> plot
    Plot('Budget of stays: 0 of 1 (epsilon) spent')
    >>> plot.svg[:4]
    '<svg'
    """

    title: str
    svg: str = field(repr=False)
    _panels: tuple[Callable[[Any], None], ...] = field(repr=False)
    private: bool = field(default=False, repr=False)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the SVG document to a file (.svg); one that is private into no folder of a published bundle."""
        if Path(path).suffix.lower() != ".svg":
            raise OutputError(
                f"{str(path)!r} does not end in .svg. For another format draw the axes: plot.axes()[0].figure.savefig(...)."
            )
        if self.private:
            require_outside_bundles(path)
        return write_text(path, self.svg)

    def axes(self) -> tuple[Axes, ...]:
        """Draw the same with Matplotlib and return its axes, one for each panel.

        Raises
        ------
        MissingExtra
            If Matplotlib is not installed.
        """
        try:
            from matplotlib import pyplot
        except ImportError:
            raise MissingExtra(
                "Axes need Matplotlib: pip install 'understudy[plots]'. (plot.svg and plot.save need nothing.)"
            ) from None
        wide = min(2, len(self._panels))
        tall = -(-len(self._panels) // wide)
        figure, grid = pyplot.subplots(
            tall, wide, figsize=(5.0 * wide, 3.2 * tall), squeeze=False, layout="constrained"
        )
        figure.suptitle(_as_text(self.title))
        found = tuple(grid.flat)
        for place, draw in zip(found, self._panels, strict=False):
            draw(place)
        for place in found[len(self._panels) :]:
            place.remove()
        return found[: len(self._panels)]

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Plot({self.title!r})"


def errors(found: Evaluation) -> Plot:
    """Draw the error of every column, the worst first: the share of rows that would have to change.

    Lines show what two samples of one population would differ by.

    Privacy
    -------
    In and out: private, exact numbers about the real records.

    Examples
    --------
    >>> from understudy import datasets, evaluate
    >>> frame, schema = datasets.load("toy", 400, seed=1)
    >>> errors(evaluate(frame, frame.head(200), schema=schema, sections=["marginals"])).title
    'Error by column (private)'
    """
    columns = found.overview.columns
    if not columns:
        raise WorkloadError("This evaluation compared no columns; evaluate with the section 'marginals'.")
    title = f"Error by column ({_PRIVATE})"
    shown = [(item.distance.name, item.distance.value, item.distance.sampling) for item in columns]
    most = max(max(value, sampling) for _, value, sampling in shown) or 1.0
    bars = [Bar(name, value, 0.0, sampling, strong=value > 2 * sampling) for name, value, sampling in shown]
    note = "share of rows that would have to change; lines: what two samples of one population differ by; dark: more than twice that"

    def draw(place: Axes) -> None:
        names = [_as_text(name) for name, _, _ in reversed(shown)]
        place.barh(names, [value for _, value, _ in reversed(shown)], color="#0b6e99")
        place.scatter(
            [sampling for _, _, sampling in reversed(shown)], names, color="#1d2430", marker="|", zorder=3
        )
        place.set_xlabel("share of rows")

    return Plot(title, bar_chart(title, bars, note=note, most=most), (draw,), private=True)


def pairs(found: Evaluation) -> Plot:
    """Draw the errors of pairs of columns as a map; of many columns those of the worst pairs.

    Privacy
    -------
    In and out: private, exact numbers about the real records.

    Examples
    --------
    >>> from understudy import datasets, evaluate
    >>> frame, schema = datasets.load("toy", 400, seed=1)
    >>> pairs(evaluate(frame, frame, schema=schema, sections=["marginals"])).svg.count("<title>")
    16
    """
    if not found.overview.pairs:
        raise WorkloadError(
            "This evaluation compared no pairs of columns; evaluate at least two columns with the section 'marginals'."
        )
    every = list(dict.fromkeys(name for pair in found.overview.pairs for name in pair.columns))
    names = every[:_MOST_IN_A_MAP]  # the worst pairs come first
    places = {name: index for index, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    for distance in (*(item.distance for item in found.overview.columns), *found.overview.pairs):
        if all(name in places for name in distance.columns):
            one, other = places[distance.columns[0]], places[distance.columns[-1]]
            values[one, other] = values[other, one] = distance.value
    some = "" if len(names) == len(every) else f", {len(names)} of {len(every)}"
    title = f"Error by pair of columns ({_PRIVATE}{some})"

    def draw(place: Axes) -> None:
        shown = place.imshow(values, cmap="Blues", vmin=0.0)
        labels = [_as_text(name) for name in names]
        place.set_xticks(range(len(names)), labels, rotation=40, ha="right")
        place.set_yticks(range(len(names)), labels)
        place.figure.colorbar(shown, ax=place, label="share of rows")

    return Plot(title, pair_chart(title, names, values.tolist()), (draw,), private=True)


def frontier(advice: Advice) -> Plot:
    """Draw the errors that are to be expected by budget, as ``understudy plan --chart`` does.

    Privacy
    -------
    In and out: public.

    Examples
    --------
    >>> from understudy import Schema
    >>> from understudy.workflow import advise
    >>> schema = Schema.parse("columns: [{name: smokes, kind: boolean}, {name: tall, kind: boolean}]")
    >>> frontier(advise(schema, unit="add-remove", method="independent", epsilon=1.0, rows=1000)).title
    'Expected errors of independent on made-up tables of 1,000 rows'
    """
    from understudy.workflow.rehearsing import KINDS

    points: dict[str, list[tuple[float, float, float, float]]] = {}
    here = [] if advice.errors is None else [advice.errors]
    symbol = "epsilon"
    for expected in (*here, *(other for name, other in advice.others.items() if name != "delta")):
        plain = expected.budget.to_dict()
        symbol = next(name for name in ("epsilon", "rho", "mu") if name in plain)
        for kind in KINDS:
            found = expected.of(kind)
            likely = expected.likely(kind)
            if found is not None and likely is not None:
                points.setdefault(kind, []).append((plain[symbol], likely[0], found.middle, likely[1]))
    if advice.answer is not None and not here:
        wish = advice.answer.wish
        name = wish.kind if wish.cell is None else f"cells of {wish.cell:,} rows in {wish.kind}"
        points[name] = [(epsilon, error, error, error) for epsilon, error in advice.answer.tried]
    title = f"Expected errors of {advice.method} on made-up tables of {advice.rows:,} rows"
    panels = [LinePanel(kind, {"expected": sorted(series)}) for kind, series in points.items()]
    label = "share of rows in a wrong cell, with the range of nine of ten tables"

    def drawn(panel: LinePanel) -> Callable[[Any], None]:
        def draw(place: Axes) -> None:
            series = np.array(panel.series["expected"])
            place.fill_between(series[:, 0], series[:, 1], series[:, 3], alpha=0.2, color="#0b6e99")
            place.plot(series[:, 0], series[:, 2], marker="o", color="#0b6e99")
            place.set(title=panel.title, xlabel=symbol, ylabel="share of rows", xscale="log", yscale="log")

        return draw

    svg = line_chart(title, panels, x_label=symbol, y_label=label)
    return Plot(title, svg, tuple(drawn(panel) for panel in panels))


def spending(ledger: Ledger | str | PathLike[str]) -> Plot:
    """Draw what was spent on which release or fit, as shares of the total of a ledger, or of the ledger that a path names.

    Privacy
    -------
    In and out: public.

    Examples
    --------
    >>> from understudy import Ledger, PureDP, Unit
    >>> spending(Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="stays")).svg.count("not spent")
    2
    """
    if isinstance(ledger, str | PathLike):
        ledger = Ledger.open(ledger)
    costs: dict[str, float] = {}
    standing = ledger.guarantee()
    symbol, total, spent = standing.symbol, standing.total, standing.spent[standing.accounting]
    for entry in ledger.entries():
        if entry.event is not None:
            name = (entry.scope or entry.purpose).split("/")[0]
            costs[name] = costs.get(name, 0.0) + entry.costs[standing.accounting]
    left = max(0.0, total - spent)
    parts = [*costs.items(), ("not spent", left)]
    title = f"Budget of {ledger.table}: {spent:.4g} of {total:.4g} ({symbol}) spent"
    bars = [
        Bar(f"{name}: {cost:.4g}", min(1.0, cost / total), min(1.0, cost / total), min(1.0, cost / total), strong=name in costs)
        for name, cost in parts
    ]  # fmt: skip

    def draw(place: Axes) -> None:
        place.barh(
            [_as_text(name) for name, _ in reversed(parts)],
            [cost for _, cost in reversed(parts)],
            color="#0b6e99",
        )
        place.set(xlabel=symbol, xlim=(0, total))

    return Plot(title, bar_chart(title, bars, note=ledger.budget.describe()), (draw,))


def marginals(
    tables: Mapping[str, pd.DataFrame | Model],
    schema: Schema | str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
) -> Plot:
    """Draw the shares of the values of columns, side by side for several tables or models.

    Parameters
    ----------
    tables
        Frames, or fitted models, by the name that the legend shows.
    schema
        Of all of them, or the path of its file.
    columns
        By default the first twelve.

    Privacy
    -------
    Frames: as private as they are, read without noise; the title says so. Models are public.

    Examples
    --------
    >>> from understudy import datasets
    >>> frame, schema = datasets.load("toy", 400, seed=1)
    >>> marginals({"first": frame.head(200), "second": frame.tail(200)}, schema, columns=["ward"]).title
    'Shares of values: first, second (as private as these tables)'
    """
    if not isinstance(tables, Mapping):
        raise WorkloadError(
            f"Give the tables by the names that the legend shows, such as {{'real': frame, 'synthetic': made.frame}}, not {type(tables).__name__}."
        )
    schema = Schema.of(schema)
    names = list(schema.names[:_MOST_COLUMNS] if columns is None else columns)
    if not tables or not names:
        raise WorkloadError("Give at least one table and one column to draw.")
    shares = [_shares(table, schema, names) for table in tables.values()]
    exact = not all(map(_is_model, tables.values()))
    title = f"Shares of values: {', '.join(tables)}" + (f" ({_AS_PRIVATE})" if exact else "")
    panels = [
        Panel(name, schema.column(name).labels, [side[index].tolist() for side in shares])
        for index, name in enumerate(names)
    ]

    def drawn(panel: Panel) -> Callable[[Any], None]:
        def draw(place: Axes) -> None:
            wide = 0.8 / len(panel.series)
            for number, (label, values) in enumerate(zip(tables, panel.series, strict=True)):
                place.bar(np.arange(len(values)) + number * wide, values, width=wide, label=_as_text(label))
            step = -(-len(panel.labels) // 12)
            ticks = range(0, len(panel.labels), step)
            place.set_xticks(
                list(ticks), [_as_text(panel.labels[tick]) for tick in ticks], rotation=30, ha="right"
            )
            place.set_title(_as_text(panel.title))
            place.legend()

        return draw

    svg = marginal_chart(title, list(tables), panels)
    return Plot(title, svg, tuple(drawn(panel) for panel in panels), private=exact)


def _as_text(name: str) -> str:
    """Return a name as Matplotlib shows it as it is, and not as a formula between dollars."""
    return name.replace("$", r"\$")


def _is_model(table: Any) -> bool:
    return hasattr(table, "marginals")


def _shares(table: Any, schema: Schema, names: Sequence[str]) -> list[npt.NDArray[np.float64]]:
    """Return the shares of the values of columns, of a frame or of a model's own expectations."""
    if _is_model(table):
        counts = [np.clip(values, 0.0, None) for values in table.marginals([(name,) for name in names])]
    else:
        codes = schema.select(names).encode_frame(table)
        counts = [np.bincount(codes[name], minlength=schema.domain.size(name)) for name in names]
    return [values / max(1e-12, float(np.sum(values))) for values in counts]
