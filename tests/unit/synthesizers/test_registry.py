"""The registry: own mechanisms and those of other packages, which can be wrong in their own ways."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from understudy.errors import MissingExtra, UnknownMethod
from understudy.synthesizers import create, method, methods, registry


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
    "value", ["understudy.synthesizers.aim:AIM", "understudy.schema:Schema", "json:dumps", "json:no"]
)
def test_a_line_that_leads_elsewhere_is_told(outside, value: str) -> None:
    outside(wrong=value)
    with pytest.raises(UnknownMethod, match="not a Synthesizer with name = 'wrong'"):
        create("wrong")


def test_unknown_names_are_answered_with_what_is_known(outside) -> None:
    outside(elsewhere="nowhere:Elsewhere")
    with pytest.raises(UnknownMethod, match="Did you mean 'elsewhere'"):
        method("elsewere")
