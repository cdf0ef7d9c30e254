"""Ready configuration spaces: each one is accepted as it stands, whole, and is what paper Births says."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from spec_examples import small

from understudy.mechanisms import method
from understudy.privacy import PureDP
from understudy.release.spec.space import all_options
from understudy.release.spec.spec import Spec

FOLDER = Path(__file__).parents[3] / "examples" / "spaces"
FILES = sorted(FOLDER.glob("*.yaml"))
PAPER = {"privbayes": 60, "mwem": 18, "pep": 54, "dpctgan": 96, "patectgan": 32}
"""Number of configurations in paper Births, 4.7.2, with num_query < num_iterations left out."""


def items(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def space(path: Path) -> list[tuple[str, dict[str, Any]]]:
    return [
        (item["method"], options) for item in items(path) for options in all_options(item.get("options", {}))
    ]


def specification(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """A small specification with a model budget that all entries take: pure where possible, as in the paper."""
    plain = small(synthesizers=entries)
    if not all(issubclass(PureDP, method(item["method"]).load().budgets) for item in entries):
        plain["budget"] = {"total": {"epsilon": 5, "delta": 1e-6}, "model": {"epsilon": 3.9, "delta": 9e-7}}
    return plain


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_configuration_of_a_space_is_valid(path: Path) -> None:
    spec = Spec.from_dict(specification(items(path)))
    assert spec.left_out == (), "combinations that a method refuses belong in no ready space"
    assert [(item.method, dict(item.options)) for item in spec.configurations] == space(path)
    assert len({str(entry) for entry in space(path)}) == len(space(path)), "no configuration twice"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_space_holds_one_method_and_says_its_size(path: Path) -> None:
    assert {name for name, _ in space(path)} == {path.stem}
    head = " ".join(line.strip(" #") for line in path.read_text(encoding="utf-8").splitlines() if "#" in line)
    numbers = [int(word) for word in head.replace(",", " ").replace(".", " ").split() if word.isdigit()]
    assert len(space(path)) in {*numbers, sum(numbers[-2:])}


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in PAPER], ids=lambda path: path.stem)
def test_spaces_of_the_paper_have_its_size(path: Path) -> None:
    assert len(space(path)) == PAPER[path.stem]


def test_mwem_is_the_grid_of_the_paper_without_small_pools() -> None:
    grid = product((128, 512, 1024, 4096), (100, 500, 1000), (25, 100))
    wanted = {(pool, rounds, inner) for pool, rounds, inner in grid if pool >= rounds}
    names = ("num_query", "num_iterations", "num_inner_updates")
    assert {tuple(options[name] for name in names) for _, options in space(FOLDER / "mwem.yaml")} == wanted


def test_a_wrong_space_is_noticed() -> None:
    """A combination the paper excludes is left out by the method itself, so the first test would fail."""
    bad = [{"method": "mwem", "options": {"num_query": [128, 512], "num_iterations": 500}}]
    left_out = Spec.from_dict(specification(bad)).left_out
    assert len(left_out) == 1
    assert "num_query" in left_out[0][1]


def test_spaces_are_put_together_by_writing_them_one_after_the_other() -> None:
    """As the page says: a specification without synthesizers, the key, and any number of files."""
    base = small()
    base.pop("synthesizers")
    files = [FOLDER / "privbayes.yaml", FOLDER / "mwem.yaml", FOLDER / "aim.yaml"]
    text = (
        yaml.safe_dump(base) + "synthesizers:\n" + "".join(path.read_text(encoding="utf-8") for path in files)
    )
    spec = Spec.from_dict(yaml.safe_load(text))
    assert len(spec.configurations) == 60 + 18 + 8
