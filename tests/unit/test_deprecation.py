"""Names on their way out keep working, warn at the line that uses them, and say what to use."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import understudy
from understudy import datasets, mechanisms
from understudy._deprecation import deprecated
from understudy.curator import Curator
from understudy.data import read_table
from understudy.privacy import Ledger, PureDP, Unit

SOURCE = Path(__file__).parents[2] / "src" / "understudy"


def test_the_version_is_that_of_the_installed_package() -> None:
    assert understudy.__version__ == version("understudy")
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?(dev|a|b|rc)\d+)?", understudy.__version__)


def test_the_version_is_not_looked_up_by_the_import() -> None:
    code = (
        "import json, sys, understudy\nbefore = 'importlib.metadata' in sys.modules\n"
        "print(json.dumps([before, understudy.__version__]))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"], capture_output=True, text=True, check=True)  # fmt: skip
    assert json.loads(run.stdout) == [False, version("understudy")]


def test_every_public_name_of_0_1_is_found_under_the_old_package_name() -> None:
    """These are what ``understudy.synthesizers`` listed in 0.1.0."""
    old = importlib.import_module("understudy.synthesizers")
    names = (
        "ChunkedSample", "DrawnChunk", "Fitted", "Method", "Model", "MultipleSynthesis", "Plan", "PlannedMeasurement", "Progress",
        "Provenance", "Synthesizer", "create", "load_model", "method", "methods", "no_progress", "planned",
        "posterior_sets", "save_model", "software", "support_of", "synthesize_many", "total_deviation", "usual_chunk_rows",
    )  # fmt: skip
    for name in names:
        with pytest.warns(
            DeprecationWarning,
            match=rf"understudy\.synthesizers\.{name} .* 0\.4\. Use understudy\.mechanisms",
        ):
            found = getattr(old, name)
        assert found is getattr(mechanisms, name)


def test_a_mechanism_written_for_0_1_still_works() -> None:
    """The example of the contributor's guide of 0.1.0, as it was."""
    text = (Path(__file__).parents[1] / "golden" / "0.1.0" / "chain.py").read_text("utf-8")
    module = ModuleType("chain_of_0_1")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    with pytest.warns(DeprecationWarning) as seen:  # noqa: PT030
        exec(compile(text, "chain.py", "exec"), module.__dict__)
    old = {str(warning.message).split()[0].removeprefix("understudy.") for warning in seen}
    assert {"curator.Noise", "curator.noise_for", "synthesizers.Synthesizer"} <= old
    frame, schema = datasets.load("toy", 300, seed=1)
    budget, unit = PureDP(epsilon=1.0), Unit.replace_one()
    ledger = Ledger.in_memory(budget=budget, unit=unit, table="toy")
    with pytest.warns(DeprecationWarning, match=r"fixed_total .* Use curator\.rows\.total\."):
        model = module.Chain().fit(Curator(read_table(frame, schema), unit=unit, ledger=ledger), budget)
    assert model.default_rows() == 300
    assert ledger.remaining == pytest.approx(0.0, abs=1e-6)


def test_an_import_from_the_old_name_warns_where_it_stands() -> None:
    with pytest.warns(DeprecationWarning, match="Fitted") as seen:
        from understudy.synthesizers import Fitted
    assert Fitted is mechanisms.Fitted
    assert {warning.filename for warning in seen} == {__file__}


def test_a_star_import_gets_the_public_names_and_nothing_else() -> None:
    names: dict[str, object] = {}
    with pytest.warns(DeprecationWarning, match="mechanisms"):
        exec("from understudy.synthesizers import *", names)
    assert {name for name in names if name[:2] != "__"} == set(mechanisms.__all__)


def test_what_was_never_public_is_no_attribute_of_the_old_name() -> None:
    old = importlib.import_module("understudy.synthesizers")
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        old.nothing_of_the_kind  # noqa: B018


def test_nothing_inside_uses_the_old_name() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.name not in ("synthesizers.py", "_deprecation.py"):
            assert "understudy.synthesizers" not in path.read_text("utf-8"), path


def test_a_deprecated_function_warns_and_works() -> None:
    @deprecated(use="better", since="0.2", until="0.4")
    def worse(number: int, *, more: int = 0) -> int:
        """Add."""
        return number + more

    with pytest.warns(
        DeprecationWarning,
        match=r"worse is deprecated since Understudy 0\.2 and goes away in 0\.4\. Use better\.",
    ) as seen:
        assert worse(1, more=2) == 3
    assert seen[0].filename == __file__
    assert worse.__doc__ == "Add."


def _limits() -> list[tuple[str, str, str]]:
    """Every place that deprecates something, with the two versions it names."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if path.name != "_deprecation.py":
            found += [(path.name, *pair) for pair in re.findall(r'since="([\d.]+)", until="([\d.]+)"', text)]
    return found


def test_what_is_deprecated_stays_for_two_minor_versions_and_then_goes() -> None:
    assert _limits()
    now = tuple(map(int, understudy.__version__.split(".")[:2]))
    for place, since, until in _limits():
        (major, begun), (last, ended) = (tuple(map(int, word.split("."))) for word in (since, until))
        assert last > major or ended - begun >= 2, f"{place}: two minor versions lie between since and until"
        assert now < (last, ended), f"{place}: its time has come, remove it"
