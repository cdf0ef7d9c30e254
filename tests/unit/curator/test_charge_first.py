"""In the curator and the looks nothing is drawn but by what `Curator._answer` calls, and that charges first: the source says so."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path

from understudy.curator import Curator

SOURCE = Path(__file__).parents[3] / "src" / "understudy"
TRUSTED = [*SOURCE.glob("curator/*.py"), *SOURCE.rglob("look.py")]
DRAWS = {"below_many", "draw", "draw_counts", "draw_urn", "exponential_mechanism", "permute_and_flip"}
# Called by what `_answer` calls, or a method of something that could only be opened by paying for all of it.
PAID_BEFORE = {
    "mechanisms/deep/look.ask",
    "mechanisms/deep/look.marginals",
    "mechanisms/deep/look.poisson_batch",
    "mechanisms/deep/look.step",
    "mechanisms/deniability/look.attempt",
    "mechanisms/deniability/look.row",
    "mechanisms/histograms/look._choose_level",
    "mechanisms/queries/look._noisy",
}
USES_UP = {"_use"}
"""Takes one of the events that a conversation was opened for; what it allows comes after it."""


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _calls(node: ast.AST, names: set[str]) -> list[ast.Call]:
    return [item for item in ast.walk(node) if isinstance(item, ast.Call) and _name(item) in names]


def _handed_over(function: ast.FunctionDef) -> set[ast.AST]:
    """Everything inside what is given to `_answer` as ``draw``, nested functions that it names included."""
    nested = {
        node.name: node
        for node in ast.walk(function)
        if isinstance(node, ast.FunctionDef) and node is not function
    }
    found: set[ast.AST] = set()
    waiting: list[ast.AST] = [
        keyword.value
        for call in _calls(function, {"_answer"})
        for keyword in call.keywords
        if keyword.arg == "draw"
    ]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if node in found:
                continue
            found.add(node)
            if isinstance(node, ast.Name) and node.id in nested:
                waiting.append(nested[node.id])
    return found


def _unpaid(source: str, module: str) -> set[str]:
    """Outermost functions that draw otherwise than by handing the draw over to `_answer`."""
    tree = ast.parse(source)
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    found = set()
    for function in (node for body in bodies for node in body if isinstance(node, ast.FunctionDef)):
        handed = _handed_over(function)
        used = [call.lineno for call in _calls(function, USES_UP)]
        for call in _calls(function, DRAWS):
            if call not in handed and not (used and min(used) < call.lineno):
                found.add(f"{module}.{function.name}")
    return found


def test_every_draw_is_handed_over_to_the_one_that_charges_first() -> None:
    found = set().union(
        *(
            _unpaid(path.read_text(encoding="utf-8"), path.relative_to(SOURCE).with_suffix("").as_posix())
            for path in TRUSTED
        )
    )
    assert found == PAID_BEFORE | {"curator/curator._answer"}


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
