"""Imports point the way the design says: what cannot reach records cannot leak them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "understudy"

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
    "ledgers": {"errors", "data", "privacy"},
    "signatures": {"errors", "data", "ledgers"},
    "curator": {"errors", "_compile", "_deprecation", "schema", "marginals", "data", "privacy"},
    "engine": {"errors", "_compile", "schema", "marginals"},
    "mechanisms": {
        "errors",
        "_compile",
        "_html",
        "schema",
        "marginals",
        "curator",
        "engine",
        "privacy",
        "inference",
        "parallel",
        "progress",
        "report",
    },
    "discovery": {"errors", "schema", "privacy", "marginals", "curator"},
    "inference": {"errors", "schema", "marginals", "engine"},
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
}
# Mechanisms describe noise; only the curator and the looks may draw it.
NOISE_DOOR = {
    "Randomness",
    "SystemRandomness",
    "SeededRandomness",
    "exponential_mechanism",
    "permute_and_flip",
    "draw_counts",
    "draw_urn",
    "below_many",
}

# What a curator and a sealed value keep to themselves. Criteria get it through `Curator.statistics`, where it leaves
# under seal again.
BEHIND_THE_DOOR = {
    "_allowance",
    "_answer",
    "_charge",
    "_differences",
    "_exact",
    "_exact_rows",
    "_pay",
    "_prepaid",
    "_randomness",
    "_table",
    "_total",
    "_two_sides",
    "_votes",
}
# Conversations that were paid for as a whole: a look opens them after the charge, nobody else.
CONVERSATIONS = {"Training", "Panel", "Part"}
# Modules that draw; their names are at NOISE_DOOR, and the modules themselves are not for mechanisms either.
DRAWING = {"randomness", "selection", "kernels", "bigint"}


def _imports(path: Path) -> list[tuple[str, str]]:
    """Every import of the package in one file, as (room, name), wherever it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
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


def _opened(path: Path) -> set[str]:
    """Attributes behind the door that a file takes from anything but its own ``self``."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    taken = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in BEHIND_THE_DOOR
        if not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }
    named = {
        item.value
        for node in nodes
        for item in (
            node.args
            if isinstance(node, ast.Call)
            else [node.slice]
            if isinstance(node, ast.Subscript)
            else []
        )
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    }
    matched = {name for node in nodes if isinstance(node, ast.MatchClass) for name in node.kwd_attrs}
    return taken | (named | matched) & BEHIND_THE_DOOR  # by getattr, vars or a pattern


def test_only_the_curator_and_the_looks_open_a_seal() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] != "curator" and not _is_look(path):
            assert not _opened(path), f"{path.relative_to(SOURCE)} opens {_opened(path)}"


def _entered(path: Path) -> set[str]:
    """Conversations that a file opens itself, private names and everything at once that it takes from a look, modules that draw."""
    found: set[str] = set()
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    called = {getattr(node.func, "id", "") for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("understudy.privacy.noise")}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("understudy."):
            names = {alias.name for alias in node.names}
            if node.module.endswith(".look"):
                found |= {
                    name for name in names if name[0] == "_" or name == "*"
                } | names & CONVERSATIONS & called
            if node.module == "understudy.privacy.noise":
                found |= names & DRAWING
    return found


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
                assert not _entered(path), f"{path.relative_to(SOURCE)} enters {_entered(path)}"


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
    assert _entered(tmp_path / "bad.py")


@pytest.mark.parametrize(
    "text", ["getattr(c, '_table')", "vars(c)['_exact']", "match x:\n    case S(_exact=y):\n        pass"]
)
def test_the_check_sees_a_seal_opened_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.py").write_text(text, encoding="utf-8")
    assert _opened(tmp_path / "bad.py")


def test_the_list_of_looks_is_complete_and_every_look_opens_a_seal() -> None:
    assert {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("look.py")} == LOOKS
    for name in LOOKS:
        assert _opened(SOURCE / name), f"{name} opens nothing: it is an ordinary file"


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
    assert _opened(bad) == {"_table"}


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from understudy.data import read_table\n", encoding="utf-8")
    assert _imports(bad) == [("data", "read_table")]


def _private_imports(path: Path) -> set[str]:
    """Modules and names with a leading underscore that a file takes from another room."""
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py") if path.is_relative_to(SOURCE) else ""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
