"""Every example in a docstring runs and says what the docstring says it says."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def _modules() -> list[str]:
    """Return the modules with an example in them."""
    return [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(SOURCE.rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", _modules())
def test_examples_are_true(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0, "the examples are where nobody finds them"
    assert result.failed == 0
