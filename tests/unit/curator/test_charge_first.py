"""In the curator and the looks nothing is drawn but by what `Curator._answer` calls, and that charges first: the source says so."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from pathlib import Path

import pytest

from understudy.curator import Curator

SOURCE = Path(__file__).parents[3] / "src" / "understudy"
TRUSTED = [*SOURCE.glob("curator/*.py"), *SOURCE.rglob("look.py")]
DRAWS = {"below_many", "draw", "draw_counts", "draw_urn", "exponential_mechanism", "permute_and_flip"}
# Called by what `_answer` calls, or a method of something that could only be opened by paying for all of it.
PAID_BEFORE = {
    "mechanisms/deep/look.Panel.ask",
    "mechanisms/deep/look.Paid.marginals",
    "mechanisms/deep/look.poisson_batch",
    "mechanisms/deep/look.Training.step",
    "mechanisms/deniability/look.LazyCounts.row",
    "mechanisms/deniability/look.Seeds.attempt",
    "mechanisms/histograms/look._choose_level",
    "mechanisms/queries/look._noisy",
}
USES_UP = {"_use"}
"""Takes one of the events that a conversation was opened for; what it allows comes after it."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _name(node: ast.AST) -> str:
    """What a node refers to by its last name: a name, an attribute, or a text that `getattr` would look up."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _calls(node: ast.AST, names: set[str]) -> list[ast.Call]:
    return [item for item in ast.walk(node) if isinstance(item, ast.Call) and _name(item.func) in names]


def _mentions(node: ast.AST, names: set[str]) -> list[ast.AST]:
    """Every place that refers to one of these names, called there or not: a draw may be bound to another name first."""
    return [
        item
        for item in ast.walk(node)
        if _name(item) in names and not isinstance(getattr(item, "ctx", None), ast.Store | ast.Del)
    ]


def _nested(function: Function) -> dict[str, Function]:
    return {
        node.name: node for node in ast.walk(function) if isinstance(node, Function) and node is not function
    }


def _handed_over(function: Function) -> set[ast.AST]:
    """Everything inside what is given to `_answer` as ``draw``, nested functions that it names included.

    A nested function that is also named elsewhere, where it may be called before the charge, is not handed over.
    """
    nested = _nested(function)
    found: set[ast.AST] = set()
    given = {
        keyword.value
        for call in _calls(function, {"_answer"})
        for keyword in call.keywords
        if keyword.arg == "draw"
    }
    waiting: list[ast.AST] = list(given)
    while waiting:
        for node in ast.walk(waiting.pop()):
            if node in found:
                continue
            found.add(node)
            if isinstance(node, ast.Name) and node.id in nested:
                waiting.append(nested[node.id])
    for name, node in nested.items():
        if node in found and any(mention not in found for mention in _mentions(function, {name})):
            found -= set(ast.walk(node))
    return found


def _first_use(function: Function) -> float:
    """The line at which a conversation has used up an event, whatever happens: not inside a condition."""
    places = [
        call.lineno
        for statement in function.body
        for inner in (statement.body if isinstance(statement, ast.For) else [statement])
        if isinstance(inner, ast.Expr)
        for call in _calls(inner, USES_UP)
    ]
    return min(places, default=math.inf)


def _functions(tree: ast.Module) -> list[tuple[str, Function]]:
    """Outermost functions and methods, by their names with their classes."""
    found = [(node.name, node) for node in tree.body if isinstance(node, Function)]
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        found += [(f"{owner.name}.{node.name}", node) for node in owner.body if isinstance(node, Function)]
    return found


def _unpaid(source: str, module: str, *, helpers: set[str] = frozenset()) -> set[str]:  # type: ignore[assignment]
    """Outermost functions that draw otherwise than by handing the draw over to `_answer`.

    ``helpers`` are functions that draw for whoever calls them: to mention one is to draw. What is drawn when a module or class is made, or
    imported under another name, has no function: it counts as the module's.
    """
    tree = ast.parse(source)
    draws, found, inside = DRAWS | helpers, set(), set()
    for name, function in _functions(tree):
        handed, used = _handed_over(function), _first_use(function)
        inside |= set(ast.walk(function))
        nested = set(_nested(function))
        for node in _mentions(function, draws):
            own = _name(node) in nested and isinstance(
                node, ast.Name
            )  # a nested function that happens to have the name
            if node not in handed and not own and not used < getattr(node, "lineno", 0):
                found.add(f"{module}.{name}")
    renamed = [
        alias
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.asname not in (None, alias.name) and alias.name.split(".")[-1] in draws
    ]
    loose = [
        node
        for node in _mentions(tree, draws)
        if node not in inside and not (isinstance(node, ast.Constant) and _is_export(tree, node))
    ]
    if renamed or loose:
        found.add(module)
    return found


def _is_export(tree: ast.Module, text: ast.Constant) -> bool:
    """Whether a text stands in ``__all__``, which draws nothing."""
    return any(
        isinstance(node, ast.Assign) and _name(node.targets[0]) == "__all__" and text in ast.walk(node)
        for node in tree.body
    )


def _read() -> dict[str, str]:
    return {
        path.relative_to(SOURCE).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in TRUSTED
    }


def test_every_draw_is_handed_over_to_the_one_that_charges_first() -> None:
    found = set().union(*(_unpaid(source, module) for module, source in _read().items()))
    assert found == PAID_BEFORE | {"curator/curator.Curator._answer"}


def test_what_draws_for_others_is_handed_over_too_or_was_paid_for() -> None:
    """Helpers that are functions of a module: whoever mentions one hands it over, or is on the list itself."""
    helpers = {name.rsplit(".", 1)[1] for name in PAID_BEFORE if name.rsplit("/look.")[1].count(".") == 0}
    assert helpers == {"poisson_batch", "_choose_level", "_noisy"}
    found = set().union(*(_unpaid(source, module, helpers=helpers) for module, source in _read().items()))
    assert found == PAID_BEFORE | {"curator/curator.Curator._answer"}


def test_what_is_handed_over_is_called_after_the_charge_and_once() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(Curator._answer)))
    (charge,) = _calls(tree, {"_charge"})
    (draw,) = _calls(tree, {"draw"})
    assert charge.lineno < draw.lineno


def test_the_check_sees_a_draw_that_is_not_handed_over() -> None:
    late = "def look(c, n):\n    x = n.draw((), c._randomness)\n    return c._answer(n.event(), purpose='p', draw=lambda: x)\n"
    assert _unpaid(late, "m") == {"m.look"}
    assert not _unpaid(
        "def look(c, n):\n    return c._answer(1, purpose='p', draw=lambda: n.draw(()))\n", "m"
    )
    nested = "def look(c, n):\n    def act():\n        return n.draw(())\n    return c._answer(1, draw=act)\n"
    assert not _unpaid(nested, "m")
    assert _unpaid(nested.replace("draw=act", "draw=other"), "m") == {"m.look"}


FOOLED = {
    "bound to a name": "def look(c, n):\n    f = n.draw\n    x = f(())\n    return c._answer(1, draw=lambda: x)\n",
    "looked up by a text": "def look(c, n):\n    x = getattr(n, 'draw')(())\n    return c._answer(1, draw=lambda: x)\n",
    "nested and called before": (
        "def look(c, n):\n    def act():\n        return n.draw(())\n    x = act()\n    return c._answer(1, draw=act) + x\n"
    ),
    "nested and bound before": (
        "def look(c, n):\n    def act():\n        return n.draw(())\n    f = act\n    return c._answer(1, draw=act) + f()\n"
    ),
    "used up in a condition": "def look(self, n, x):\n    if x:\n        self._use(1)\n    return n.draw(())\n",
    "used up afterwards": "def look(self, n):\n    x = n.draw(())\n    self._use(1)\n    return x\n",
    "in a coroutine": "async def look(c, n):\n    return n.draw(())\n",
}


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in FOOLED.items()])
def test_the_check_is_not_fooled(source: str) -> None:
    assert _unpaid(source, "m") == {"m.look"}


def test_a_method_is_excused_with_its_class_and_a_module_draws_nothing() -> None:
    method = "class {0}:\n    def step(self, n):\n        return n.draw(())\n"
    assert _unpaid(method.format("Training"), "m") == {"m.Training.step"}
    assert _unpaid(method.format("Other"), "m") == {"m.Other.step"}
    assert _unpaid("from noise import below_many as take\n", "m") == {"m"}
    assert _unpaid("take = noise.draw\n", "m") == {"m"}
    assert not _unpaid("from noise import below_many\n__all__ = ['below_many']\n", "m")
