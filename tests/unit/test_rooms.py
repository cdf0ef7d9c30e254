"""Imports point the way the design says: what cannot reach records cannot leak them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from understudy.curator import Curator, Sealed
from walls import BEHIND_THE_DOOR, NOISE_DOOR, ROOMS_OF_MECHANISMS, SOURCE, entered, opened, trespasses

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "_html": set(),
    "_compile": set(),
    "_deprecation": set(),
    "_system": {"errors"},
    "synthesizers": {"_deprecation"},  # the name of `mechanisms` in 0.1
    "parallel": {"errors"},
    "progress": set(),
    "schema": {"errors", "_html"},
    "privacy": {"errors", "_compile", "_html", "_system"},
    "marginals": {"errors", "schema"},
    "data": {"errors", "_compile", "_system", "schema", "marginals"},
    "ledgers": {"errors", "_system", "data", "privacy"},
    "signatures": {"errors", "data", "ledgers"},
    "curator": {"errors", "_compile", "_deprecation", "schema", "marginals", "data", "privacy"},
    "engine": {"errors", "_compile", "schema", "marginals"},
    "mechanisms": ROOMS_OF_MECHANISMS | {"_deprecation"},  # of packages outside the wall asks for less
    "discovery": {"errors", "schema", "privacy", "marginals", "curator"},
    "inference": {"errors", "_html", "schema", "marginals", "engine"},
    "evaluation": {"errors", "_html", "schema", "marginals"},
    "datasets": {"errors", "schema"},
    "report": {"errors", "_html", "schema", "marginals"},
    "plots": {"errors", "schema", "privacy", "data", "mechanisms", "evaluation", "report", "workflow"},
    "audit": {
        "errors",
        "schema",
        "privacy",
        "marginals",
        "data",
        "curator",
        "discovery",
        "engine",
        "mechanisms",
        "release",
        "report",
    },
    "workflow": {
        "errors",
        "_html",
        "ledgers",
        "parallel",
        "progress",
        "schema",
        "privacy",
        "marginals",
        "data",
        "curator",
        "discovery",
        "inference",
        "mechanisms",
        "bulk",
        "release",
        "evaluation",
        "datasets",
        "signatures",
    },
    "adapters": {
        "errors",
        "_deprecation",
        "_html",
        "ledgers",
        "schema",
        "privacy",
        "marginals",
        "data",
        "mechanisms",
        "workflow",
    },
    "studio": {
        "errors",
        "_system",
        "progress",
        "schema",
        "privacy",
        "mechanisms",
        "release",
        "report",
        "datasets",
        "signatures",
        "workflow",
    },
    "bulk": {"errors", "_system", "schema", "data", "engine", "mechanisms", "parallel", "progress"},
    "release": {
        "errors",
        "_html",
        "ledgers",
        "parallel",
        "schema",
        "privacy",
        "marginals",
        "data",
        "curator",
        "engine",
        "mechanisms",
        "inference",
        "evaluation",
        "report",
        "signatures",
    },
}
# A look asks something of the records that the core has no question for. It lies beside its mechanism, is the only file of
# the slice that may open a seal, and may import what the curator may.
LOOKS = {
    "discovery/look.py",
    "mechanisms/counts/look.py",
    "mechanisms/deep/look.py",
    "mechanisms/deniability/look.py",
    "mechanisms/graphs/look.py",
    "mechanisms/histograms/look.py",
    "mechanisms/histograms/partitions/look.py",
    "mechanisms/histograms/transforms/look.py",
    "mechanisms/marginal/look.py",
    "mechanisms/parametric/copula/look.py",
    "mechanisms/parametric/look.py",
    "mechanisms/parametric/regression/look.py",
    "mechanisms/parametric/steps/look.py",
    "mechanisms/queries/look.py",
    "release/look.py",
}


@cache
def _import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Every import in one file, wherever it stands; a file is read once for all tests."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def _imports(path: Path) -> list[tuple[str, str]]:
    """Every import of the package in one file, as (room, name)."""
    found = []
    for node in _import_statements(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif node.level == 0 and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif node.level:
            raise AssertionError(f"{path}: relative imports hide which room is entered")
    inside = []
    for module, name in found:
        parts = module.split(".")
        if parts[0] != "understudy":
            continue
        room = parts[1] if len(parts) > 1 else name
        inside.append((room, name))
    return inside


def _files(room: str) -> list[Path]:
    single = SOURCE / f"{room}.py"
    return [single] if single.exists() else sorted((SOURCE / room).rglob("*.py"))


def _is_look(path: Path) -> bool:
    return path.is_relative_to(SOURCE) and path.relative_to(SOURCE).as_posix() in LOOKS


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_what_the_table_allows(room: str) -> None:
    files = _files(room)
    assert files, f"the room {room} is empty"
    for path in files:
        for other, name in _imports(path):
            if other != room:
                allowed = ALLOWED[room] | (ALLOWED["curator"] if _is_look(path) else set())
                assert other in allowed, f"{path.relative_to(SOURCE)} imports {name} from {other}"


def test_every_room_is_in_the_table() -> None:
    rooms = {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert rooms - {"__init__", "__main__", "cli"} == set(ALLOWED)


def test_nobody_imports_the_command_line() -> None:
    for room in ALLOWED:
        for path in _files(room):
            assert all(other != "cli" for other, _ in _imports(path)), path


def test_mechanisms_cannot_draw_noise_themselves() -> None:
    for room in ("mechanisms", "discovery", "engine", "inference", "evaluation", "report"):
        for path in _files(room):
            if not _is_look(path):
                assert not {name for _, name in _imports(path)} & NOISE_DOOR, path


def test_only_the_curator_and_the_looks_open_a_seal() -> None:
    before = {"curator", "data", "privacy", "schema"}  # what stands before a curator has none in its hands
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in before and not _is_look(path):
            assert not opened(path), f"{path.relative_to(SOURCE)} opens {opened(path)}"


def test_nobody_goes_round_a_look() -> None:
    for room in (
        "mechanisms",
        "discovery",
        "engine",
        "inference",
        "evaluation",
        "report",
        "release",
        "workflow",
        "bulk",
        "adapters",
    ):
        for path in _files(room):
            if not _is_look(path):
                assert not entered(path), f"{path.relative_to(SOURCE)} enters {entered(path)}"


@pytest.mark.parametrize(
    "text",
    [
        "from understudy.mechanisms.deep.look import Training\nTraining(curator, plan).step(w)",
        "from understudy.mechanisms.queries.look import _noisy",
        "from understudy.mechanisms.queries.look import *",
        "from understudy.privacy.noise import selection",
        "import understudy.privacy.noise.randomness as r",
    ],
)
def test_the_check_sees_a_way_round(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.py").write_text(text, encoding="utf-8")
    assert entered(tmp_path / "bad.py")


@pytest.mark.parametrize(
    "text", ["getattr(c, '_table')", "vars(c)['_exact']", "match x:\n    case S(_exact=y):\n        pass"]
)
def test_the_check_sees_a_seal_opened_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.py").write_text(text, encoding="utf-8")
    assert opened(tmp_path / "bad.py")


def _sealed_classes(kind: type) -> list[type]:
    below: list[type] = kind.__subclasses__()
    return [kind, *(found for item in below for found in _sealed_classes(item))]


def test_everything_that_curators_and_seals_keep_is_behind_the_door() -> None:
    """Before, the table before truncation (``_whole``) was missing from two lists that were written by hand."""
    kept = {name for kind in (Curator, *_sealed_classes(Sealed)) for name in (*vars(kind), *_slots(kind))}
    assert {name for name in kept if name[0] == "_" and name[1] != "_"} <= BEHIND_THE_DOOR
    assert {"_whole", "_table", "_exact", "_randomness", "_answer", "_prepaid", "_codes"} <= BEHIND_THE_DOOR


def _slots(kind: type) -> tuple[str, ...]:
    return tuple(getattr(kind, "__slots__", ()))


def test_only_the_release_seals_what_functions_compute() -> None:
    """`seal_numbers` hands the records to a function: no mechanism may have it."""
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(name == "seal_numbers" for _, name in _imports(path))
    }
    assert users == {
        "release/accounted.py",
        "release/criteria/base.py",
        "release/run/judgement.py",
        "release/run/planning.py",
    }


@pytest.mark.parametrize(
    "text",
    [
        "curator._whole.count_many(c)",
        "class E:\n    def peek(self):\n        return self._table\nE.peek(curator)",
        "from understudy.release.look import seal_numbers",
        "from understudy import data",
        "import understudy\nunderstudy.data",
        "import understudy.data as d",
        "from understudy.data import read_table",
        "from understudy.curator.curator import _one",
        "getattr(curator, '_ta' + 'ble')",
        "from operator import attrgetter\nattrgetter('_table')(curator)",
        "vars(curator)",
        "curator.__dict__",
        "curator.__class__ = Mine",
        "object.__setattr__(sealed, 'l1', 0.1)",
        "import importlib\nimportlib.import_module(name)",
        "import gc",
        "eval(text)",
        "from understudy.privacy import Laplace\nLaplace.draw = mine",
        "from understudy.privacy import SystemRandomness",
        "match x:\n    case S(_exact=y):\n        pass",
        "curator.ledger.change_total(PureDP(50.0), who='the owner', why='as agreed')",
        "book = curator.ledger\nbook.charge(event, purpose='nothing')",
        "book = curator.ledger\nbook.record_invariant(subject='number of rows', value=3)",
        "curator.ledger.note('said')",
        "curator.ledger.close()",
        "curator.ledger._written",
        "raised = curator.ledger.change_total",
        "from understudy.privacy import Ledger\nLedger.open(curator.ledger.path)",
        "from understudy.privacy.ledger.ledger import Ledger as L",
        "from understudy.privacy.invariants import declare_rows",
    ],
)
def test_the_check_sees_a_mechanism_that_leaves_its_room(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.py").write_text(text, encoding="utf-8")
    assert trespasses(tmp_path / "bad.py")


def test_the_check_lets_ordinary_mechanisms_be(tmp_path: Path) -> None:
    good = """
from dataclasses import dataclass
from understudy.curator import Curator
from understudy.mechanisms import Synthesizer
@dataclass(frozen=True)
class Good(Synthesizer):
    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "share", float(self.share))
    def _fit(self, curator, *, progress):
        log.close(curator.ledger.remaining)
        return self._parts(curator), type(self).__name__, getattr(self, "share")
"""
    (tmp_path / "good.py").write_text(good, encoding="utf-8")
    assert trespasses(tmp_path / "good.py") == []


def test_the_list_of_looks_is_complete_and_every_look_opens_a_seal() -> None:
    assert {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("look.py")} == LOOKS
    for name in LOOKS:
        assert opened(SOURCE / name), f"{name} opens nothing: it is an ordinary file"


def test_the_trusted_core_stays_small() -> None:
    """What must be read to believe the guarantee of AIM, MST, PrivSyn, PrivMRF and PrivBayes."""
    files = _files("curator")
    assert len(files) <= 10
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= 3_000


def test_no_folder_has_more_than_fifteen_files_side_by_side() -> None:
    for folder in {path.parent for path in SOURCE.rglob("*.py")}:
        files = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(files) <= 15, f"{folder.relative_to(SOURCE)} has {len(files)}"


def test_the_check_sees_an_opened_seal(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f(self, curator):\n    return curator._table, self._exact\n", encoding="utf-8")
    assert opened(bad) == {"_table"}


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from understudy.data import read_table\n", encoding="utf-8")
    assert _imports(bad) == [("data", "read_table")]


def _private_imports(path: Path) -> set[str]:
    """Modules and names with a leading underscore that a file takes from another room."""
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py") if path.is_relative_to(SOURCE) else ""
    found = set()
    for node in _import_statements(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("understudy."):
            _, room, *inside = node.module.split(".")
            if room != own:
                found |= {part for part in (*inside, *(alias.name for alias in node.names)) if part[0] == "_"}
    return found


def test_private_files_and_names_belong_to_their_room() -> None:
    for path in SOURCE.rglob("*.py"):
        assert not _private_imports(path), f"{path.relative_to(SOURCE)} takes {_private_imports(path)}"


def test_the_check_sees_a_private_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from understudy.privacy._hidden import value\nfrom understudy.data import _csv\n")
    assert _private_imports(bad) == {"_hidden", "_csv"}


# The studio never opens records. Of the rooms that could, it may use these modules alone: specifications, plans, rehearsals on public
# tables, bundles, and what is computed from schemas.
STUDIO_MODULES = (
    "release.agreement",
    "release.approvals",
    "release.bundle.",
    "release.criteria.registry",
    "release.rehearsal.",
    "release.run.judgement",
    "release.run.planning",
    "release.selection.accounting",
    "release.selection.profiles",
    "release.series.compare",
    "release.signing",
    "release.spec.",
    "workflow.choice",
    "workflow.rehearsing",
)
READERS = {
    "Curator", "Database", "LocalTable", "Table", "Sealed", "discover_schema", "evaluate", "find_ledger", "measure_errors", "plan_publication",
    "plan_synthesis", "public_table", "publish", "read_described", "read_frame", "read_table", "synthesize",
}  # fmt: skip


def _studio_imports(path: Path) -> list[tuple[str, str]]:
    """Modules and names that a file takes from rooms which can reach records."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
    rooms = ("understudy.release", "understudy.workflow")
    return [(module, name) for module, name in found if module.startswith(rooms)]


def test_the_studio_opens_no_records() -> None:
    for path in _files("studio"):
        for module, name in _studio_imports(path):
            inside = module.removeprefix("understudy.") + "."
            assert inside.startswith(STUDIO_MODULES), f"{path.name} imports {module}"
            assert name not in READERS, f"{path.name} imports {name}"
        for other, name in _imports(path):
            assert name not in READERS - {"Table"}, f"{path.name} imports {name} from {other}"


def test_the_check_sees_a_studio_that_reads(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from understudy.workflow import publish\nfrom understudy.schema import Schema\n")
    assert _studio_imports(bad) == [("understudy.workflow", "publish")]
