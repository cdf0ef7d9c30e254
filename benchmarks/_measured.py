"""The documented form of every benchmark, and a page per run: what was typed, where, how long, what was printed."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "measured"
LIBRARIES = ("understudy", "numpy", "scipy", "numba", "pandas", "scikit-learn", "dp-accounting")


@dataclass(frozen=True)
class Run:
    """One documented command: ``python -m benchmarks.MODULE ARGUMENTS``, or ``understudy`` with arguments."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The command as a reader would type it."""
        start = (
            ["understudy"] if self.module == "understudy" else ["python", "-m", f"benchmarks.{self.module}"]
        )
        return " ".join([*start, *(f"'{item}'" if " " in item else item for item in self.arguments)])

    @property
    def command(self) -> list[str]:
        """The command for this interpreter."""
        module = self.module if self.module == "understudy" else f"benchmarks.{self.module}"
        return [sys.executable, "-m", module, *self.arguments]


def _run(name: str, module: str, arguments: str = "") -> Run:
    return Run(name, module, tuple(arguments.split()))


MARGINAL = (
    "independent,aim,mst,mwem-pgm,gaussian,hdmm-pgm,privbayes,deniability,privbayes-pgm,privsyn,privmrf,modips,"
    "sequential-regression,dpcopula,steps,mwem,pep,dualquery,rap,gem"
)
"""Every general-purpose method but the deep ones, which get smaller tables and more time."""

RUNS = (
    _run("curves", "accuracy.curves"),
    _run("studio", "speed.studio"),
    _run(
        "aim-peers",
        "accuracy.aim",
        "--tables nltcs,titanic --workloads all-3way --methods aim,mst,mbi-mst --epsilons 1,10 --out .benchmarks/aim-peers",
    ),
    _run(
        "aim-adult",
        "accuracy.aim",
        "--tables adult --workloads all-3way --methods aim,mst --epsilons 1,10 --out .benchmarks/aim-adult",
    ),
    _run("every-table", "accuracy.every_table"),
    _run("real-tables", "accuracy.real_tables", "--seeds 1 --write"),
    _run(
        "error-bounds", "accuracy.error_bounds", "--runs 20 --epsilon 1 --out .benchmarks/error_bounds.jsonl"
    ),
    _run("refits", "accuracy.refits"),
    _run(
        "families",
        "accuracy.families",
        f"--methods {MARGINAL} --epsilons 1 --cpu-limit 120 --out .benchmarks/families",
    ),
    _run(
        "families-deep",
        "accuracy.families",
        "--tables natality@10000 --methods aim,privsyn,privbayes,dpctgan,patectgan --epsilons 1,10 --cpu-limit 900"
        " --out .benchmarks/families-deep",
    ),
    _run(
        "families-budgets",
        "accuracy.families",
        "--methods aim,privsyn,privmrf,rap,privbayes,mst,independent --epsilons .1,10 --cpu-limit 120"
        " --out .benchmarks/families",
    ),
    _run("auto", "accuracy.auto", "--until 200 --write"),
    _run("ten-tables", "accuracy.ten_tables", "--seeds 3 --until 0 --write"),
    _run(
        "peers", "accuracy.peers", "--cpu-limit 300 --memory-limit 4000 --no-run"
    ),  # needs environments and hours: a run without --no-run adds cells
    _run("for-column", "accuracy.for_column", "--write"),
    _run(
        "for-column-methods",
        "accuracy.for_column",
        "--methods sift,mst,privbayes,aim,gem,rap --workloads weight:8 --tables adult15,acs13,bank,hmeq --seeds 3 --cpu-limit 60 "
        "--out .benchmarks/for_column_methods",
    ),
    _run("single-columns", "accuracy.single_columns"),
    _run("within-bins", "accuracy.within_bins"),
    _run("noise", "speed.noise"),
    _run("counting", "speed.counting"),
    _run("compilation", "speed.compilation", "auto aim mst privbayes"),
    _run("sql-counting", "speed.sql_counting", "--rows 1000000 duckdb parquet-by-duckdb postgres"),
    _run("sql-counting-large", "speed.sql_counting", "--rows 10000000 duckdb spark"),
    _run("engine", "speed.engine"),
    _run("records", "speed.records", "titanic_32bin nltcs adult salary_32bin --chunks 5 --crowded"),
    _run("few-rows", "speed.few_rows"),
    _run("rules", "accuracy.rules"),
    _run("options", "accuracy.options"),
    _run("levels", "accuracy.levels"),
    _run("plan-errors", "accuracy.plan_errors", "--write"),
    _run(
        "plan-errors-sift",
        "accuracy.plan_errors",
        "--methods sift --out .benchmarks/plan_errors_sift",
    ),
    _run("people", "accuracy.people", "--seeds 3"),
    _run("linked-peer", "accuracy.linked_peer", "--entities 20000 --methods mst:size_sliced --seeds 3"),
    _run("weights", "accuracy.weights", ""),
    _run("wrong-numbers", "papers.wrong_numbers"),
    _run("criteria", "releases.criteria"),
    _run("series", "releases.series"),
    _run("count-mechanisms", "papers.count_mechanisms", "--census"),
    _run("queries", "accuracy.queries"),
    _run("privbayes", "papers.privbayes"),
    _run("deniability", "papers.deniability", "--rows 30000"),
    _run("deniability-figure1", "papers.deniability", "--part figure1 --models 10 --write"),
    _run("deniability-figure2", "papers.deniability", "--part figure2 --trees 20 --write"),
    _run("deniability-figure6", "papers.deniability", "--part figure6 --models 5 --write"),
    _run("deniability-table4", "papers.deniability", "--part table4 --splits 2 --write"),
    _run("release-frontier", "releases.release_frontier", "--candidates 40 --write"),
    _run("release-low", "releases.release_frontier", "--example low --totals 0.8 --candidates 100 --jobs 1"),
    _run(
        "release-variants",
        "releases.release_frontier",
        "--variants same simulated --candidates 60 --totals --jobs 1",
    ),
    _run(
        "release-shifts",
        "releases.release_frontier",
        "--variants bootstrap older larger preterm term --candidates 20 --totals --jobs 1",
    ),
    _run("births-paper", "papers.births", "--paper"),
    _run("poisson", "papers.poisson", "--full"),
    _run("cost-model", "speed.cost_model"),
    _run("large-parquet", "speed.large_parquet"),
    _run("ablation", "accuracy.ablation", "--tables natality@1300 br2000@1300 acs13@1300 natality@8000"),
    _run("sift-parts", "accuracy.sift_parts"),
    _run(
        "audit",
        "understudy",
        "audit --all --quick --out .benchmarks/audit.json --chart .benchmarks/audit.svg",
    ),
    _run(
        "aim-grid",
        "accuracy.aim",
        "--tables titanic,nltcs,adult,salary,msnbc,fire --methods aim --epsilons 1,10,.1 --seeds 1 --out .benchmarks/aim-grid",
    ),
    _run("aim-figure1", "accuracy.aim_figures", "--figure 1 --write"),
    _run("aim-figure2", "accuracy.aim_figures", "--figure 2 --write"),
    _run("dips-study1", "papers.dips", "--studies 1 --by-budget --write"),
    _run("dips-study2", "papers.dips", "--studies 2 --repetitions 1000 --by-budget --write"),
    _run("dips-study2-symmetric", "papers.dips", "--studies 2-symmetric --by-budget --write"),
    _run("dips-study3", "papers.dips", "--studies 3 --by-budget --write"),
    _run("dips-study4", "papers.dips", "--studies 4 --by-budget --write"),
    _run("dips-fertility", "papers.dips", "--studies fertility"),
    _run("large-count", "speed.large_count", "10000000"),
    _run("large-count-full", "speed.large_count", "100000000 --cores 1,2"),
    _run("large-count-tenfold-persons", "speed.large_count", "100000000 --cores 2 --units persons --tenfold"),
    _run("spark-cluster", "speed.spark_cluster", "1000000 100000000"),
    _run("spark-tenfold", "speed.spark_cluster", "100000000 --tenfold"),
    _run("wide", "speed.wide"),
    _run("large-fit", "speed.large_fit", "1000000 10000000 100000000"),
    _run("large-output", "speed.large_output", "1000000 10000000 100000000"),
    _run("faults", "trust.faults"),
    _run("kills", "trust.faults", "--kills"),
    _run("fuzz", "trust.fuzz"),
    _run("fuzz-newer", "trust.fuzz", "hold-out statement dictionary agreement linked"),
    _run("neighbours", "releases.neighbours"),
)
"""In this order: the ones that most pages quote first, the ones that take hours last."""


def machine() -> str:
    """Cores, memory, system and versions, in one line; nothing that names the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB, {platform.system()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def current_commit() -> str:
    """Return the short name of the commit that is checked out; empty where that cannot be told."""
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()


def write_page(run: Run, printed: Sequence[str], *, commit: str, wall: float, cpu: float) -> None:
    """Write the page of a run, and the list of pages."""
    PAGES.mkdir(exist_ok=True)
    page = [
        f"# {run.name}",
        "",
        f"`{run.shown}`",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}: {wall:.0f} s ({cpu:.0f} s of CPU).",
        f"{machine()}.",
        "",
        "```text",
        *printed,
        "```",
    ]
    (PAGES / f"{run.name}.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    (PAGES / "index.md").write_text(index(), encoding="utf-8")


def measure(run: Run) -> int:
    """Run one benchmark, show what it prints, and write its page when it passed."""
    commit = current_commit()
    (ROOT / ".benchmarks").mkdir(exist_ok=True)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = []
    with subprocess.Popen(
        run.command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "150", "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            printed.append(line.rstrip())
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if process.returncode == 0:
        write_page(run, printed, commit=commit, wall=wall, cpu=cpu)
        if run.name == "audit":
            from benchmarks.trust._trust import fill

            fill(ROOT / ".benchmarks" / "audit.json")
    print(f"-- {run.name}: {wall:.0f} s, {cpu:.0f} s of CPU, exit code {process.returncode}", flush=True)
    return process.returncode


def index() -> str:
    """List the pages that exist, with their commands."""
    lines = [
        "# What was measured",
        "",
        "`python -m benchmarks --full` runs every command below and keeps what it prints, with the commit, the machine and",
        "the versions. Every table of results in the documentation links to the pages here that it is taken from, and a test holds it to",
        "them. Times are of a machine that others used as well: compare CPU seconds.",
        "",
        "| run | command |",
        "|---|---|",
    ]
    for run in RUNS:
        if (PAGES / f"{run.name}.md").exists():
            lines.append(f"| [{run.name}]({run.name}.md) | `{run.shown}` |")
    return "\n".join(lines) + "\n"
