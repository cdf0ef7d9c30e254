"""In the curator nothing is drawn before it is paid for: the order of the lines says so."""

from __future__ import annotations

import ast
from pathlib import Path

CURATOR = Path(__file__).parents[3] / "src" / "understudy" / "curator"
DRAWS = {"below_many", "draw", "draw_counts", "draw_urn", "exponential_mechanism", "permute_and_flip"}
PAYS = {"_charge", "charge", "_use"}
# Called by a function that has charged, or a method of something that could only be opened by paying for all of it.
PAID_BEFORE = {
    "_deniability_lazy.row",
    "_deniability_seeds.attempt",
    "_paid.marginals",
    "cumulative._choose_level",
    "gradients.poisson_batch",
    "gradients.step",
    "numbers._opened",
    "predicates._noisy",
    "votes.ask",
}


def _calls(function: ast.FunctionDef, names: set[str]) -> list[int]:
    """Lines on which a function calls something of these names."""
    return [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        if (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in names
    ]


def _unpaid(source: str, module: str) -> set[str]:
    """Functions that draw without a charge on an earlier line."""
    return {
        f"{module}.{node.name}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and (drawn := _calls(node, DRAWS))
        if not (paid := _calls(node, PAYS)) or min(paid) >= min(drawn)
    }


def test_every_draw_follows_its_charge() -> None:
    found = set().union(
        *(_unpaid(path.read_text(encoding="utf-8"), path.stem) for path in CURATOR.glob("*.py"))
    )
    assert found == PAID_BEFORE


def test_the_check_sees_a_draw_before_its_charge() -> None:
    late = "def look(c, n):\n    x = n.draw((), c._randomness)\n    c._charge(n.event(), purpose='p')\n    return x\n"
    assert _unpaid(late, "m") == {"m.look"}
    assert not _unpaid(late.replace("x = n.draw", "c._charge(1); x = n.draw").replace("; x", "\n    x"), "m")
