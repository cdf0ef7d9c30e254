"""What a file outside the curator and the looks may not do, read off its source. Shared by the walls between rooms and by the contract of mechanisms.

Reading the source finds what is written there plainly. It does not find what a program puts together while it runs.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from understudy.privacy.ledger.view import WRITING

ROOMS_OF_MECHANISMS = {
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
}
"""What mechanisms import, beside one another. None of these hands out a record but the curator, under seal."""

SOURCE = Path(__file__).parents[1] / "src" / "understudy"
LEDGER_VIEW = SOURCE / "privacy" / "ledger" / "view.py"


def _kept(path: Path) -> set[str]:
    """Names with a leading underscore that the classes of a file keep on ``self``, in slots or as methods."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
            found.add(node.attr)
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    found.add(part.name)
                if isinstance(part, ast.Assign) and getattr(part.targets[0], "id", "") == "__slots__":
                    found |= set(ast.literal_eval(part.value))
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


BEHIND_THE_DOOR = set().union(
    *map(_kept, [*(SOURCE / "curator").glob("*.py"), LEDGER_VIEW, *SOURCE.rglob("look.py")])
)
"""What curators, sealed values, conversations and the view of a ledger keep to themselves: all of it, read off their source."""
OF_A_CURATOR = _kept(SOURCE / "curator" / "curator.py") - {"_rows", "_unit"} | {"_exact"}
"""Not even of ``self``: a function may be called with a curator in that place. Its unit and public number of rows are no secrets."""
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
# Conversations that were paid for as a whole: a look opens them after the charge, nobody else.
CONVERSATIONS = {"Training", "Panel", "Part"}
# Modules that draw; their names are at NOISE_DOOR, and the modules themselves are not for mechanisms either.
DRAWING = {"randomness", "selection", "kernels", "bigint"}

# Whoever opens a ledger by its path can write to it; a curator hands out a view.
LEDGERS = {"Ledger", "remember_measured", "declare_rows", "copy_invariants", "find_ledger", "ledger_at"}
WRITES = WRITING - {"close", "note"}
"""What writes to a ledger and is no method of anything else; the others are refused where a ledger is named."""

OWN = {"self", "cls"}
BY_NAME = {"getattr", "setattr", "delattr", "hasattr", "attrgetter", "methodcaller"}
AROUND = {"vars", "eval", "exec", "__import__", "globals"}
TOOLS = {"ctypes", "gc", "importlib", "inspect", "pickle"}
"""Modules of Python that find objects, or change them, without naming what they open."""
PLAIN = {"__name__", "__doc__", "__init__", "__post_init__", "__func__", "__getitem__", "_fit"}
"""Names with an underscore that open nothing; one mechanism may fit another."""


def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def opened(path: Path) -> set[str]:
    """Attributes behind the door that a file takes from anything but its own ``self``."""
    nodes = nodes_of(path)
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


def entered(path: Path) -> set[str]:
    """Conversations that a file opens itself, private names and everything at once that it takes from a look, modules that draw."""
    found: set[str] = set()
    nodes = nodes_of(path)
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


def trespasses(path: Path) -> list[str]:
    """Whatever a file of a mechanism does that only the curator and the looks may do, one sentence each."""
    nodes = nodes_of(path)
    found = [f"opens .{name}" for name in sorted(opened(path))]
    found += [f"enters {name}" for name in sorted(entered(path))]
    imported: set[str] = set()
    frozen = {
        id(node.func)
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "object.__setattr__"
        if node.args and getattr(node.args[0], "id", "") == "self"
    }  # how a frozen dataclass sets its own fields
    for node in nodes:
        line = getattr(node, "lineno", 0)
        found += [] if id(node) in frozen else [f"line {line} {what}" for what in _of_node(node)]
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {alias.asname or alias.name for alias in node.names}
    for node in nodes:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AugAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") in imported:
                found.append(f"line {target.lineno} changes {ast.unparse(target)}, which it imported")
    return found


def _of_node(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr not in PLAIN:
        own = isinstance(node.value, ast.Name) and node.value.id in OWN
        above = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
        if not (own or above) or node.attr in OF_A_CURATOR or node.attr == "__dict__":
            yield f"opens .{node.attr} of {ast.unparse(node.value)}"
    if (
        isinstance(node, ast.Attribute)
        and node.attr in WRITING
        and (node.attr in WRITES or "ledger" in ast.unparse(node.value).lower())
    ):
        yield f"writes to a ledger (.{node.attr} of {ast.unparse(node.value)})"
    if isinstance(node, ast.MatchClass):
        yield from (f"opens .{name}" for name in node.kwd_attrs if name.startswith("_"))
    if isinstance(node, ast.Name) and node.id in AROUND:
        yield f"uses {node.id}"
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in BY_NAME:
            asked = node.args[1:2] if name in {"getattr", "setattr", "delattr", "hasattr"} else node.args
            mine = bool(node.args) and getattr(node.args[0], "id", "") in OWN
            for item in asked:
                text = item.value if isinstance(item, ast.Constant) else None
                if not mine and (not isinstance(text, str) or text.startswith("_")):
                    yield f"asks for an attribute by {ast.unparse(item)}"
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] in TOOLS | {"understudy"}:
                yield f"imports {alias.name} (write from ... import ..., of a room that mechanisms may enter)"
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        top, _, rest = node.module.partition(".")
        if top in TOOLS:
            yield f"imports {node.module}"
        if top != "understudy":
            return
        for alias in node.names:
            room = rest.split(".")[0] if rest else alias.name
            if room not in ROOMS_OF_MECHANISMS | {"mechanisms"}:
                yield f"imports {alias.name} of understudy.{room}, where mechanisms have no business"
            if alias.name in NOISE_DOOR:
                yield f"imports {alias.name}: only the curator draws noise"
            if alias.name in LEDGERS:
                yield f"imports {alias.name}: ledgers are written by the curator and by whoever holds them"
            if any(part.startswith("_") for part in (*rest.split(".")[1:], alias.name)):
                yield f"imports the private name {alias.name}"


def files_of(module: str) -> list[Path]:
    """The file of a module, and those of all modules of the same distribution that it imports, and they."""
    owners = importlib.metadata.packages_distributions()
    top = module.partition(".")[0]
    mine = {name for name, held in owners.items() if set(held) & set(owners.get(top, ()))} | {top}
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        try:
            spec = None if name in found else importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue  # `from module import function` names no module
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        found[name] = Path(spec.origin)
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        for node in nodes_of(found[name]):
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names if alias.name.split(".")[0] in mine]
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    base = importlib.util.resolve_name("." * node.level + base, package)
                if base.split(".")[0] in mine:
                    waiting += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return list(found.values())
