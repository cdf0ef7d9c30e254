"""The registry: own mechanisms and those of other packages, which can be wrong in their own ways."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import pytest

from understudy.errors import BudgetError, MissingExtra, UnknownMethod
from understudy.mechanisms import create, method, methods, registry
from understudy.mechanisms.marginal.independent import Independent


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch):
    """Pretend that packages with these entry points are installed."""

    def install(**points: str) -> None:
        found = [
            EntryPoint(name.replace("_", "-"), value, "understudy.methods") for name, value in points.items()
        ]
        monkeypatch.setattr(registry, "entry_points", lambda group: found)
        registry._outside.cache_clear()

    yield install
    registry._outside.cache_clear()


def test_every_own_method_is_what_its_line_says() -> None:
    own = [item for item in methods() if item.package is None]
    assert len({item.name for item in own}) == len(own)
    for item in own:
        assert item.load().name == item.name


def _named(source: str) -> set[str]:
    """Names of the classes in a file that have the two words every mechanism needs, a name and a summary."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            words = {
                item.target.id: item.value
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            }
            name = words.get("name")
            if "summary" in words and isinstance(name, ast.Constant):
                found.add(str(name.value))
    return found


def test_every_mechanism_in_the_folder_has_its_line() -> None:
    folder = Path(registry.__file__).parent
    written = {name for path in folder.rglob("*.py") for name in _named(path.read_text(encoding="utf-8"))}
    missing = written - {item.name for item in methods()}
    assert not missing, (
        f"{sorted(missing)}: add a line to _METHODS in registry.py, or to METHODS of the family"
    )
    assert _named('class Mine(Synthesizer):\n    name: str = "mine"\n    summary: str = "x"\n') == {"mine"}


def test_a_workload_is_an_option() -> None:
    assert method("aim").takes_workload
    assert not method("independent").takes_workload


def test_other_packages_are_listed_after_our_own_and_loaded_late(outside) -> None:
    outside(elsewhere="package_that_is_not_there:Elsewhere")
    assert methods()[-1].name == "elsewhere"
    with pytest.raises(MissingExtra, match="cannot be imported"):
        create("elsewhere")


def test_nobody_takes_the_name_of_an_own_method(outside) -> None:
    outside(laplace="package_that_is_not_there:Laplace")
    assert create("laplace").name == "laplace"
    assert sum(item.name == "laplace" for item in methods()) == 1


@pytest.mark.parametrize(
    "value", ["understudy.mechanisms.marginal.aim:AIM", "understudy.schema:Schema", "json:dumps", "json:no"]
)
def test_a_line_that_leads_elsewhere_is_told(outside, value: str) -> None:
    outside(wrong=value)
    with pytest.raises(UnknownMethod, match="not a Synthesizer with name = 'wrong'"):
        create("wrong")


def test_unknown_names_are_answered_with_what_is_known(outside) -> None:
    outside(elsewhere="nowhere:Elsewhere")
    with pytest.raises(UnknownMethod, match="Did you mean 'elsewhere'"):
        method("elsewere")


def test_a_name_in_capitals_is_guessed() -> None:
    with pytest.raises(UnknownMethod, match=r"Did you mean 'mst'\?"):
        method("MST")


@dataclass(frozen=True, kw_only=True)
class Elsewhere(Independent):
    """Has options of every plain kind, as a mechanism of another package may.

    Parameters
    ----------
    k
        How many. More of
        them take longer.
    share, flavour, thorough
        What else there is.
    columns
        Of the table.
    """

    name = "elsewhere"
    k: int = 3
    share: float | None = None
    flavour: str = "plain"
    thorough: bool = False
    columns: tuple[str, ...] = ()
    form: Literal["one", "two"] = "one"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"k": "abc"}, "k ('abc') must be a whole number."),
        ({"k": True}, "k (True) must be a whole number."),
        ({"k": 2.5}, "k (2.5) must be a whole number."),
        ({"k": None}, "k (None) must be a whole number."),
        ({"share": "half"}, "share ('half') must be a number or none."),
        ({"flavour": 3}, "flavour (3) must be a word."),
        ({"thorough": 1}, "thorough (1) must be true or false."),
        ({"columns": "age"}, "columns ('age') must be a list."),
        (
            {"k": "x", "thorough": "y"},
            "k ('x') must be a whole number. thorough ('y') must be true or false.",
        ),
    ],
)
def test_options_of_other_packages_are_of_the_kind_that_their_fields_declare(
    outside, given: dict[str, object], said: str
) -> None:
    """Before, the first use of such an option ended in a fault of Understudy."""
    outside(elsewhere=f"{__name__}:Elsewhere")
    with pytest.raises(BudgetError) as error:
        create("elsewhere", **given)
    assert str(error.value) == said


def test_options_of_other_packages_that_fit_are_taken(outside) -> None:
    outside(elsewhere=f"{__name__}:Elsewhere")
    made = create("elsewhere", k=4, share=1, thorough=True, columns=["age"], form="neither is compared")
    assert made.options() == {
        "k": 4, "share": 1, "flavour": "plain", "thorough": True, "columns": ["age"], "form": "neither is compared",
    } | Independent().options()  # fmt: skip


def test_options_of_other_packages_are_described_as_their_docstring_does(outside) -> None:
    outside(elsewhere=f"{__name__}:Elsewhere")
    said = {item.name: (item.default, item.required, item.text) for item in method("elsewhere").options()}
    assert said["k"] == (3, False, "How many.")
    assert said["share"] == (None, False, "What else there is.")
    assert said["form"] == ("one", False, "")
