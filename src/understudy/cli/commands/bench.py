"""``understudy bench``: the benchmarks behind the tables of the documentation."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import Json, formerly
from understudy.errors import DataError, UsageError

app = typer.Typer(
    help="Benchmarks on public tables. They read those tables without noise.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("aim")
def aim(
    quick: Annotated[bool, typer.Option("--quick", help="A subset that takes less than 3 minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results; a second run goes on from there.")] = Path(
        ".benchmarks/aim"
    ),
    data: Annotated[Path | None, typer.Option(help="Folder of tables; default: ../shared/data.")] = None,
    tables: Annotated[str | None, typer.Option(help="Tables, comma-separated.")] = None,
    workloads: Annotated[str | None, typer.Option(help="Of all-3way, target, skewed.")] = None,
    methods: Annotated[str | None, typer.Option(help="Mechanisms, comma-separated.")] = None,
    epsilons: Annotated[str | None, typer.Option(help="Budgets, comma-separated.")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Repetitions of each cell; default: 3, or 1 with --quick.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that a cell may take.")] = 900.0,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also run mbi, installed into a virtual environment of its own.")
    ] = False,
    json: Json = False,
) -> None:
    """Error, time and memory of marginal-based methods (paper AIM).

    As in section 6 of the paper. Computes the error from the real tables without noise: use it on public tables only.
    """
    chosen: dict[str, Any] = {
        name: [word.strip() for word in text.split(",") if word.strip()]
        for name, text in (("tables", tables), ("workloads", workloads), ("methods", methods))
        if text is not None
    }
    if epsilons is not None:
        chosen["epsilons"] = _numbers(epsilons)
    chosen |= {"out": out, "data": data, "quick": quick, "seeds": seeds, "timeout": timeout, "peers": peers}
    _run("accuracy.aim", chosen, json=json)


@app.command("families")
def families(
    quick: Annotated[bool, typer.Option("--quick", help="A subset that takes less than 3 minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results; a second run goes on from there.")] = Path(
        ".benchmarks/families"
    ),
    data: Annotated[Path | None, typer.Option(help="Folder of tables; default: ../shared/data.")] = None,
    tables: Annotated[str | None, typer.Option(help="Of adult, nltcs, natality, acs13.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Mechanisms, comma-separated; default: all general-purpose ones.")
    ] = None,
    epsilons: Annotated[str | None, typer.Option(help="Budgets, comma-separated.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions of each cell.")] = 1,
    cpu_limit: Annotated[float, typer.Option(min=1, help="Seconds that a cell may compute.")] = 240.0,
    until: Annotated[
        float | None, typer.Option(min=0, help="Start no cell after so many seconds; go on later.")
    ] = None,
    json: Json = False,
) -> None:
    """Error, time and memory of every general-purpose method.

    Also the accuracy of classifiers, on four tables. Computes them from the real tables without noise: use it on public tables only.
    """
    chosen: dict[str, Any] = {
        name: [word.strip() for word in text.split(",") if word.strip()]
        for name, text in (("tables", tables), ("methods", methods))
        if text is not None
    }
    if epsilons is not None:
        chosen["epsilons"] = _numbers(epsilons)
    chosen |= {
        "out": out,
        "data": data,
        "quick": quick,
        "seeds": seeds,
        "cpu_limit": cpu_limit,
        "until": until,
    }
    _run("accuracy.families", chosen, json=json)


@app.command("dips", cls=formerly(processes="--jobs"))
def dips(
    studies: Annotated[
        str, typer.Option(help="Of 1, 2, 2-symmetric, 3, 4 and fertility, comma-separated.")
    ] = "1,2,2-symmetric,3,4,fertility",
    quick: Annotated[bool, typer.Option("--quick", help="Few repetitions: less than 3 minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results; a second run goes on from there.")] = Path(
        ".benchmarks/dips"
    ),
    data: Annotated[Path | None, typer.Option(help="Folder of tables; default: ../shared/data.")] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Repetitions; default: as in the paper.")
    ] = None,
    epsilons: Annotated[
        str | None, typer.Option(help="Budgets, comma-separated; default: e^-4 to e^4.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated tables.")] = 1,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=2, help="Processes.")] = 2,
    json: Json = False,
) -> None:
    """Bias, error, coverage and width of intervals (paper DIPS).

    As in sections 4 and 5 of the paper. Tables are simulated; the case study reads a public one without noise.
    """
    chosen: dict[str, Any] = {} if epsilons is None else {"epsilons": _numbers(epsilons)}
    chosen |= {
        "out": out, "data": data, "parts": [word.strip() for word in studies.split(",") if word.strip()],
        "repetitions": repetitions, "seed": seed, "processes": jobs, "quick": quick,
    }  # fmt: skip
    _run("papers.dips", chosen, json=json)


@app.command("list")
def list_benchmarks(json: Json = False) -> None:
    """List every benchmark.

    `python -m benchmarks` runs their quick forms.
    """
    from understudy.cli.output import print_json, print_table

    known = _module("__main__").benchmarks()
    if json:
        print_json([{"benchmark": name, "measures": what} for name, what in known.items()])
        return
    print_table("Benchmarks", ("benchmark", "what it measures"), known.items())


def _run(name: str, chosen: dict[str, Any], *, json: bool) -> None:
    """Run a benchmark: its lines on standard output, or on standard error with its results as one JSON document."""
    from understudy.cli.output import print_json, say, tell

    results = _module(name).run(say=say if json else tell, **chosen)
    if json:
        print_json({"out": str(chosen["out"]), "results": results})


def _numbers(text: str) -> list[float]:
    """Read comma-separated positive numbers."""
    try:
        values = [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        values = []
    if not values or not all(0 < value < float("inf") for value in values):
        raise UsageError(f"--epsilons ({text!r}) must be positive numbers separated by commas.")
    return values


def _module(name: str) -> Any:
    """Import a benchmark from the source repository, which wheels do not contain."""
    for root in (Path(__file__).resolve().parents[4], Path.cwd()):
        if (root / "benchmarks" / "_measured.py").exists():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return importlib.import_module(f"benchmarks.{name}")
    raise DataError(
        "The benchmarks come with the source repository, not with the installed package. "
        "Run this command in a checkout of Understudy."
    )
