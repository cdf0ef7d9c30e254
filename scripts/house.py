"""Measure the house: how large the code is, how it hangs together, and which of its files a fit and a release enter.

``python scripts/house.py`` prints the table, ``--static`` leaves out what has to be run (minutes), ``--markdown`` writes the kept page
``docs/explanation/house-numbers.md``; with ``--static`` the part of the page that comes from a run stays as it is. ``--root`` measures another checkout.

How things are counted:

code lines
    Lines that hold code. Docstrings of modules, classes and functions, comments and blank lines do not.
modules with exactly one importer
    Modules other than ``__init__``, by how many other such modules import them, wherever the import stands; lines are all lines. A package's ``__init__`` is
    looked through: what it re-exports counts for nobody, and an import of a name from a package is an import of the module that the name comes
    from. A mechanism that only the registry names, in a string, has no importer.
curator
    The trusted core; the goal is one for code lines. Its modules include ``__init__``.
folders
    Modules side by side in one folder, without ``__init__``.
a new criterion
    The files that the example of CONTRIBUTING.md, section *Add a criterion*, consists of: its Python blocks, which the test suite runs.
files entered
    Files of the package in which a function runs; the code that runs when a module or class is defined does not count, nor does what runs
    in a function because of an import.
room-to-room edges
    Pairs of rooms (folders or modules directly under ``understudy``) where a function of the first calls a function of the second.
plans, schemas, model files
    Calls of a mechanism's ``plan``, of ``Schema``'s constructor and of ``load_model`` during one release. What a mechanism does on made-up records before
    its first charge (``trial``) is counted as well: it is run, too.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("docs") / "explanation" / "house-numbers.md"
MOST_FILES = 15
"""How many modules a folder may hold side by side."""

SPEC = """\
name: house
title: A small table
source: {simulate: {table: toy, rows: 1500, seed: 1}}
schema: toy.yaml
unit: replace-one
public: {row_count: {epsilon: 0.2}, expected_rows: 1500}
synthesizers: [{method: aim, options: {workload: all-2way}}]
acceptance:
  form: pass-only
  epsilon: 2
  criteria:
    - {name: cells, kind: max-marginal-error, threshold: 0.9}
    - {name: unique records, kind: rare-records, min_count: 1}
selection: {rule: single}
budget: {total: {epsilon: 6.2}, model: {epsilon: 4}}
seed: 1
"""


@dataclass(frozen=True)
class Row:
    """One line of the table: what 0.1.0 had, what is wanted, what is there."""

    name: str
    before: str
    goal: str
    now: str
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the line as text."""
        verdict = {True: "yes", False: "no", None: "—"}[self.met]
        return self.name, self.before, self.goal, self.now, verdict


FROM_A_RUN = "## From a run"
HEAD = ("what", "0.1.0", "goal", "now", "met")


# ------------------------------------------------------------------------------------------ sizes


def code_lines(text: str) -> int:
    """Count the lines of a module that hold code."""
    held: set[int] = set()
    blank = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                held -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(held)


def names_in_all(path: Path) -> list[str]:
    """Return what a module lists in ``__all__``."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == [
            "__all__"
        ]:
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


# ---------------------------------------------------------------------------------------- imports


class Imports:
    """Who imports whom, with packages looked through."""

    def __init__(self, source: Path) -> None:
        self.files = {_dotted(path, source): path for path in sorted(source.rglob("*.py"))}
        self.trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.files.items()}
        self.packages = {name for name, path in self.files.items() if path.name == "__init__.py"}
        self.importers: dict[str, set[str]] = {
            name: set() for name in self.files if name not in self.packages
        }
        for name in self.importers:
            for found in self._imported(name):
                if found != name and found in self.importers:
                    self.importers[found].add(name)

    def _imported(self, name: str) -> Iterator[str]:
        for node in ast.walk(self.trees[name]):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module in self.files:
                yield from (self.home(node.module, alias.name) for alias in node.names)

    def home(self, module: str, name: str) -> str:
        """Return the module that a name imported from ``module`` comes from."""
        if module not in self.packages:
            return module
        if f"{module}.{name}" in self.files:
            return f"{module}.{name}"
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.ImportFrom) and node.module in self.files:
                for alias in node.names:
                    if (alias.asname or alias.name) == name and node.module != module:
                        return self.home(node.module, alias.name)
        return module


def _dotted(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")


# ----------------------------------------------------------------------------------- what is static


def static_rows(root: Path = ROOT) -> list[Row]:
    """Measure what can be seen without running anything."""
    source = root / "src" / "understudy"
    modules = sorted(source.rglob("*.py"))
    lines = {path: code_lines(path.read_text(encoding="utf-8")) for path in modules}
    imports = Imports(source)
    single = [name for name, importers in imports.importers.items() if len(importers) == 1]
    single_lines = sum(_length(imports.files[name]) for name in single)
    share = 100 * len(single) / len(imports.importers)
    core = [path for path in modules if path.relative_to(source).parts[0] == "curator"]
    core_lines, core_names = (
        sum(lines[path] for path in core),
        names_in_all(source / "curator" / "__init__.py"),
    )
    crowded = _crowded(source)
    rooms = {path.parent.name: names_in_all(path) for path in source.glob("*/__init__.py")}
    largest = max(rooms, key=lambda room: len(rooms[room]))
    door = names_in_all(source / "__init__.py")
    tests = list((root / "tests").rglob("test_*.py"))
    functions = sum(
        len(re.findall(r"^ *def test_", path.read_text(encoding="utf-8"), re.M)) for path in tests
    )
    return [
        Row(
            "modules of `src` / code lines",
            "497 / 52,146",
            "<= 340 / <= 46,000",
            f"{len(modules)} / {sum(lines.values()):,}",
            len(modules) <= 340 and sum(lines.values()) <= 46_000,
        ),
        Row(
            "modules with exactly one importer",
            "158 of 468 (34 %, 23,942 lines)",
            "<= 15 %",
            f"{len(single)} of {len(imports.importers)} ({share:.0f} %, {single_lines:,} lines)",
            share <= 15,
        ),
        Row(
            "`curator`: lines (of code) / modules / exports",
            "7,210 (3,989) / 39 / 98",
            "(<= 2,000) / <= 10 / <= 25",
            f"{sum(map(_length, core)):,} ({core_lines:,}) / {len(core)} / {len(core_names)}",
            core_lines <= 2_000 and len(core) <= 10 and len(core_names) <= 25,
        ),
        Row(
            f"folders with more than {MOST_FILES} modules side by side",
            "release 50, engine 48, curator 38, synthesizers 34, privacy 29, schema 24, cli 23, data 21, and four more",
            "none",
            ", ".join(f"{name} {number}" for name, number in crowded) or "none",
            not crowded,
        ),
        Row("public names at the door", "24", "<= 40", str(len(door)), len(door) <= 40),
        Row(
            "public names in the rooms / largest room",
            "508 / curator 98",
            "largest <= 25",
            f"{sum(map(len, rooms.values()))} / {largest} {len(rooms[largest])}",
            len(rooms[largest]) <= 25,
        ),
        _criterion_row(root),
        Row("files / functions of tests", "199 / 2,044", "—", f"{len(tests)} / {functions:,}"),
    ]


def _criterion_row(root: Path) -> Row:
    """Count the files of the example criterion in CONTRIBUTING.md."""
    guide = root / "CONTRIBUTING.md"
    text = guide.read_text(encoding="utf-8") if guide.exists() else ""
    section = re.search(r"^## Add a criterion[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    blocks = len(re.findall(r"^```python$", section[1], re.MULTILINE)) if section else 0
    now = str(blocks) if blocks else "no example yet"
    return Row("files to write or touch for a new criterion", "5 to 8", "1 (and its page)", now, blocks == 1)


def _length(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _crowded(source: Path) -> list[tuple[str, int]]:
    """Folders with too many modules side by side, largest first."""
    sizes = Counter(path.parent for path in source.rglob("*.py") if path.name != "__init__.py")
    return [
        (folder.relative_to(source).as_posix(), number)
        for folder, number in sizes.most_common()
        if number > MOST_FILES
    ]


# -------------------------------------------------------------------------------- what must be run


class Watch:
    """Follows every call in this process and its threads."""

    def __init__(self, source: Path) -> None:
        self.prefix = f"{source}{os.sep}"
        self.files: set[str] = set()
        self.edges: set[tuple[str, str]] = set()
        self.calls: Counter[str] = Counter()
        self._known: dict[Any, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note one call; nothing inside the function is followed."""
        name = self._place(frame)
        if event != "call" or name is None or self._importing(frame):
            return
        self.files.add(name)
        caller, back = None, frame.f_back
        while back is not None and caller is None:
            caller, back = self._place(back), back.f_back
        if caller is not None and _room(caller) != _room(name):
            self.edges.add((_room(caller), _room(name)))
        what = frame.f_code.co_name
        if what == "plan" and name.startswith(("mechanisms", "synthesizers")) and "self" in frame.f_locals:
            if frame.f_back is None or frame.f_back.f_code.co_name != "plan":
                self.calls["plans"] += 1
        elif what == "__init__" and type(frame.f_locals.get("self")).__name__ == "Schema":
            self.calls["schemas"] += 1
        elif what == "load_model":
            self.calls["models"] += 1

    def _place(self, frame: FrameType) -> str | None:
        """Return the file of a function of the package, or None for anything else."""
        code = frame.f_code
        if code not in self._known:
            inside = code.co_filename.startswith(self.prefix) and code.co_flags & inspect.CO_OPTIMIZED
            self._known[code] = code.co_filename.removeprefix(self.prefix) if inside else None
        return self._known[code]

    def _importing(self, frame: FrameType) -> bool:
        """Say whether a function runs because a module of the package is being imported."""
        back = frame.f_back
        while back is not None:
            if back.f_code.co_name == "<module>" and back.f_code.co_filename.startswith(self.prefix):
                return back.f_globals.get("__name__") != "__main__"
            back = back.f_back
        return False


def _room(file: str) -> str:
    return file.split(os.sep)[0].removesuffix(".py")


def watch(which: str) -> dict[str, Any]:
    """Run one command on a small simulated table in the present folder and say what it entered."""
    import understudy
    from understudy import datasets

    frame, schema = datasets.load("toy", 1_500, seed=1)
    schema.write("toy.yaml")
    if which == "synth":
        frame.to_csv("toy.csv", index=False)
        words = ["synth", "toy.csv", "--schema", "toy.yaml", "--method", "aim", "--epsilon", "2", "--delta", "1e-6", "--unit", "add-remove", "--out", "out.csv", "--model", "out.understudy"]  # fmt: skip
    else:
        Path("spec.yaml").write_text(SPEC, encoding="utf-8")
        words = ["release", "spec.yaml", "--out", "bundle"]
    from understudy.cli.main import run

    assert understudy.__file__ is not None
    seen = Watch(Path(understudy.__file__).parent)
    sys.argv = ["understudy", *words]
    code: object = 0
    threading.settrace(seen)  # type: ignore[arg-type]
    sys.settrace(seen)  # type: ignore[arg-type]
    try:
        run()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return {"code": code, "files": sorted(seen.files), "edges": sorted(seen.edges), "calls": dict(seen.calls)}


def watched(which: str, root: Path) -> dict[str, Any]:
    """Run :func:`watch` in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": str(root / "src"),
            "UNDERSTUDY_HOME": str(Path(folder) / "home"),
        }
        for _ in range(2):  # the first run compiles and keeps kernels, which is no part of the road
            place = Path(tempfile.mkdtemp(dir=folder))
            result = place / "seen.json"
            run = subprocess.run(
                [sys.executable, str(Path(__file__).resolve()), "--watch", which, str(result)],
                cwd=place,
                env={**environment, "UNDERSTUDY_HOME": str(place / "home")},
                capture_output=True,
                text=True,
            )
            if run.returncode or not result.exists():
                raise SystemExit(f"{which} could not be watched:\n{run.stdout}{run.stderr}")
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    if found["code"]:
        raise SystemExit(f"{which} ended with {found['code']}:\n{run.stderr}")
    return found


def run_rows(root: Path = ROOT) -> list[Row]:
    """Measure what a fit and a release enter and how often they do the same thing."""
    synth, release = watched("synth", root), watched("release", root)
    cases = collected(root)
    calls = [release["calls"].get(key, 0) for key in ("plans", "schemas", "models")]
    return [
        Row(
            "files entered by `synth --method aim` / by `release`",
            "106 / 158",
            "<= 75 / <= 110",
            f"{len(synth['files'])} / {len(release['files'])}",
            len(synth["files"]) <= 75 and len(release["files"]) <= 110,
        ),
        Row(
            "room-to-room edges of the two",
            "25 / 32",
            "—",
            f"{len(synth['edges'])} / {len(release['edges'])}",
        ),
        Row(
            "plans / schemas built / model files read in one release",
            "5 / 15 / 3",
            "1 and the fit's own check / <= 3 / 1",
            " / ".join(map(str, calls)),
            calls[0] <= 2 and calls[1] <= 3 and calls[2] <= 1,
        ),
        Row("cases that `make test` collects", "8,774", "—", f"{cases:,}"),
    ]


def collected(root: Path) -> int:
    """Count the cases of the test suite, those that parameters make included."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
    )
    found = re.search(r"^(\d+) tests collected", run.stdout, re.MULTILINE)
    if found is None or run.returncode:
        raise SystemExit(f"The tests could not be collected:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return int(found[1])


# ------------------------------------------------------------------------------------- the printed


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [HEAD, tuple("---" for _ in HEAD), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def commit(root: Path) -> str:
    """Return the commit of a checkout, for the reader of a measurement."""
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


MISSED = """\
## Goals that are missed, and what was tried

- **Modules and code lines.**
  Every fragment that has one reader and no subject was joined to its reader.
  The code grew all the same, by what the guarantee needed: answers that were paid for are kept and repeated, ledgers have anchors and invariants, facts and choices are apart, criteria are typed and come from other packages, and published forms of the papers stand beside ours.
  What would bring the number down is to give up mechanisms, which are faithful to their papers and stay.
- **Modules with exactly one importer.**
  The list was read module by module.
  Twelve of those left are commands and five are simulated tables, which a registry names and nothing else should; four are looks, which the wall test wants apart, and compiled kernels, which are imported on first use.
  Without these about fifteen in a hundred are left: a proof that is read alone (`inference.dual`, `curator.allowance`), a model or mechanism of a paper each (`modips`, `gum`, `rap`, `privbayes`), one end of a pair that would pass 700 lines together (`privacy.ledger`, `release.run.work`, `release.bundle.documents`, the regressions), or the part of a room that another room calls (`inference`, `evaluation`, `release.rehearsal`).
- **Files entered.**
  Joining fragments took a few files off each road.
  Levels, rules, values inside bins and the check of measured facts then put about a dozen back.
  What is left on them are files that hold one subject each, such as columns by kind, criteria by kind, accountings, and the ledger's format, check, store and report; fewer files would mean longer ones.
- **Plans and schemas in one release.**
  The trial on made-up records before the first charge plans and builds schemas of its own, and is counted here.
  It stays: what it finds is found before anything is paid for.
"""
"""For each goal that is not met. One sentence per line, as in every page."""


def page(static: list[Row], run: str) -> str:
    """Return the kept page from its static rows and the text of what was run."""
    assert __doc__ is not None
    counted = re.sub(
        r"^(\S.*)\n((?:    .*\n?)+)",
        lambda found: f"- **{found[1]}**: " + " ".join(found[2].split()).replace("``", "`") + "\n",
        __doc__.split("How things are counted:\n\n")[1],
        flags=re.MULTILINE,
    )
    return (
        "<!-- written by scripts/house.py --markdown -->\n\n# The house in numbers\n\n"
        "Version 0.1.0 was good line by line and hard to see as a whole.\n"
        "This page says what was measured then, what was wanted, and what is there now.\n"
        "`python scripts/house.py` prints it from the present source.\n\n"
        f"## From the files\n\n{table(static)}\n{FROM_A_RUN}\n\n{run}\n{MISSED}\n## How things are counted\n\n{counted}"
    )


def main(arguments: list[str]) -> int:
    """Print the table, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--static", action="store_true", help="only what can be seen without running anything"
    )
    parser.add_argument("--markdown", action="store_true", help=f"write {PAGE}")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout to measure")
    parser.add_argument("--watch", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.watch:
        Path(chosen.watch[1]).write_text(json.dumps(watch(chosen.watch[0])), encoding="utf-8")
        return 0
    static = static_rows(chosen.root)
    if not chosen.markdown:
        sys.stdout.write(table([*static, *([] if chosen.static else run_rows(chosen.root))]))
        return 0
    kept = ROOT / PAGE
    if chosen.static:
        run = kept.read_text(encoding="utf-8").split(f"{FROM_A_RUN}\n\n")[1].split("\n## ")[0]
    else:
        run = f"Measured at commit {commit(chosen.root)}.\n\n{table(run_rows(chosen.root))}"
    kept.write_text(page(static, run), encoding="utf-8")
    sys.stdout.write(f"Wrote {PAGE}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
