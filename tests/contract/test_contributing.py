"""The mechanism and the criterion that CONTRIBUTING.md shows, as packages of their own: known by name, and true to the contract."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from understudy.datasets import load

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def _block(heading: str, language: str) -> str:
    """The one block of a language in a section."""
    section = TEXT.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return str(found)


def _installed(folder: Path, heading: str) -> dict[str, str]:
    """The environment of a Python in which the example of a section is installed, as pip would have left it."""
    project = tomllib.loads(_block(heading, "toml"))["project"]
    ((group, points),) = project["entry-points"].items()
    ((_, value),) = points.items()
    (folder / f"{value.partition(':')[0]}.py").write_text(_block(heading, "python"), encoding="utf-8")
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines = [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return _installed(tmp_path_factory.mktemp("site"), "Add a mechanism")


@pytest.fixture(scope="module")
def chooses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return _installed(tmp_path_factory.mktemp("site"), "Add a mechanism that chooses")


@pytest.fixture(scope="module")
def distance(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return _installed(tmp_path_factory.mktemp("site"), "Add a criterion in one file")


def _run(*words: str, env: dict[str, str], cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, env=env, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("place", "name"), [("installed", "neighbour-chain"), ("chooses", "chosen-tree")])
def test_the_example_keeps_the_contract(place: str, name: str, request: pytest.FixtureRequest) -> None:
    out = _run(
        "pytest", "-n0", "-q", "-p", "no:cacheprovider", "tests/contract/test_synthesizers.py",
        "-k", name, env=request.getfixturevalue(place),
    )  # fmt: skip
    found = re.search(r"(\d+) passed", out)
    assert found is not None
    assert int(found[1]) > 30, out
    assert "failed" not in out


PEEKS = """
import helper
from understudy.curator import Curator
from chain import Chain as Honest


class Chain(Honest):
    def _fit(self, curator, *, progress):
        helper.counts(curator)
        return super()._fit(curator, progress=progress)
"""


@pytest.mark.parametrize(
    "helper",
    [
        "def counts(curator):\n    return curator._whole.count_many([curator.domain.names])",
        "from understudy.release.look import seal_numbers\ndef counts(curator):\n    seal_numbers(curator, print, sensitivities=[1.0])",
        "def counts(curator):\n    return getattr(curator, '_ta' + 'ble')",
    ],
    ids=["whole", "function", "by name"],
)
def test_a_mechanism_that_opens_records_in_another_file_of_its_package_breaks_the_contract(
    tmp_path: Path, helper: str
) -> None:
    env = _installed(tmp_path, "Add a mechanism")
    (tmp_path / "helper.py").write_text(helper, encoding="utf-8")
    (tmp_path / "peeks.py").write_text(PEEKS, encoding="utf-8")
    (info,) = tmp_path.glob("*.dist-info")
    (info / "entry_points.txt").write_text(
        "[understudy.methods]\nneighbour-chain = peeks:Chain\n", encoding="utf-8"
    )
    (info / "top_level.txt").write_text("chain\npeeks\nhelper\n", encoding="utf-8")
    words = "-n0 -q -p no:cacheprovider tests/contract/test_synthesizers.py -k neighbour-chain and outside_the_door"
    command = [sys.executable, "-m", "pytest", *words.split(" ", 6)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "helper.py:" in done.stdout


def test_a_choice_that_is_told_as_planned_breaks_the_contract(tmp_path: Path) -> None:
    env = _installed(tmp_path, "Add a mechanism that chooses")
    file = tmp_path / "tree.py"
    told = "history=History((len(first), len(second)) if second else (len(first),))"
    text = file.read_text(encoding="utf-8")
    assert told in text
    file.write_text(text.replace(told, "history=History.planned(len(first) + len(second))"), encoding="utf-8")
    words = "-n0 -q -p no:cacheprovider tests/contract/test_synthesizers.py -k chosen-tree and choice_in_its_middle"
    command = [sys.executable, "-m", "pytest", *words.split(" ", 6)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "some made before and some after a choice" in done.stdout


ONE_FAULT = """
from chain import Chain as Honest


class Chain(Honest):
    def _fit(self, curator, *, progress):
        made = super()._fit(curator, progress=progress)
        FAULT
        return made
"""


@pytest.mark.parametrize(
    ("fault", "causes"),
    [
        (
            "{}['colour']",
            [("KeyError: 'colour'", "one_fault.py:8; the mechanism raised this: mend that line")],
        ),
        (
            "{}[budget_of] if (budget_of := type(curator.budget).__name__) == 'PureDP' else [][1]",
            [
                ("IndexError: list index", "one_fault.py:8; the mechanism raised this"),
                ("KeyError: 'PureDP'", "one_fault.py:8; the mechanism raised this"),
            ],
        ),
        (
            "curator.counts(curator.domain.names[:1]) < 3",
            [("SealedError: Sealed values cannot be compared", "one_fault.py:8; ")],
        ),
        (
            "made.measurements.pop()",
            [
                ("AssertionError: assert 3 == 2", "the mechanism breaks this promise"),
                ("ModelFileError: The history of the model", "the mechanism breaks this promise"),
            ],
        ),
    ],
    ids=["one line", "two ways", "seal", "promise"],
)
def test_many_failures_of_one_fault_end_in_a_line_for_each_cause(
    tmp_path: Path, fault: str, causes: list[tuple[str, str]]
) -> None:
    env = _installed(tmp_path, "Add a mechanism")
    (tmp_path / "one_fault.py").write_text(ONE_FAULT.replace("FAULT", fault), encoding="utf-8")
    (info,) = tmp_path.glob("*.dist-info")
    (info / "entry_points.txt").write_text(
        "[understudy.methods]\nneighbour-chain = one_fault:Chain\n", encoding="utf-8"
    )
    (info / "top_level.txt").write_text("chain\none_fault\n", encoding="utf-8")
    words = "-n0 -q -p no:cacheprovider --tb=short tests/contract/test_synthesizers.py -k neighbour-chain and (spends or tiny or no_record or choice_in)"
    command = [sys.executable, "-m", "pytest", *words.split(" ", 7)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
    _, heading, summary = done.stdout.partition(f"{len(causes)} cause{'s' if len(causes) > 1 else ''} of ")
    assert heading, done.stdout
    failed = re.search(r"(\d+) failed", done.stdout)
    assert failed is not None
    assert summary.startswith(f"{failed[1]} failures of the contract")
    counted = [int(number) for number in re.findall(r"^\d+\. (\d+) x ", summary, re.MULTILINE)]
    assert sum(counted) == int(failed[1])  # none is left out
    assert counted == sorted(counted, reverse=True)
    for said, advice in causes:
        assert said in summary
        assert advice in summary
    assert "alone: pytest -n0 -x --tb=short 'tests/contract/test_synthesizers.py::" in summary


FAULTY = """
import helper
from chain import Chain as Honest


class Chain(Honest):
    def _fit(self, curator, *, progress):
        made = super()._fit(curator, progress=progress)
        if "colour" not in curator.domain:  # not in the trial on made-up records
            FAULT
        return made
"""


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (
            "raise ValueError('Zyrphelia')",
            1,
            "ValueError at faulty:10. This is a fault of the package acme-chain: whoever wrote it can repair it.",
        ),
        (
            "helper.broken()",
            1,
            "KeyError at helper:2. This is a fault of the package acme-chain: whoever wrote it can repair it.",
        ),
        (
            "curator.counts(curator.domain.names[:1]) < 3",
            4,
            "Sealed values cannot be compared; ask the curator",
        ),
        ("curator.measure_many(None, noise=[])", 1, "It was called by the package acme-chain at faulty:10"),
    ],
    ids=["its own", "in another file", "seal", "called"],
)
def test_a_fault_of_another_package_after_the_charge_is_called_its_own(
    tmp_path: Path, fault: str, code: int, said: str
) -> None:
    """Before, it was called a fault of Understudy, and nothing was said of what was spent."""
    env = _installed(tmp_path, "Add a mechanism") | {"UNDERSTUDY_HOME": str(tmp_path / "home")}
    (tmp_path / "helper.py").write_text("def broken():\n    return {}['Zyrphelia']\n", encoding="utf-8")
    (tmp_path / "faulty.py").write_text(FAULTY.replace("FAULT", fault), encoding="utf-8")
    (info,) = tmp_path.glob("*.dist-info")
    (info / "entry_points.txt").write_text(
        "[understudy.methods]\nneighbour-chain = faulty:Chain\n", encoding="utf-8"
    )
    (info / "top_level.txt").write_text("chain\nfaulty\nhelper\n", encoding="utf-8")
    frame, schema = load("toy", 300, seed=1)
    frame.to_csv(tmp_path / "toy.csv", index=False)
    schema.write(tmp_path / "schema.yaml")
    words = "synth toy.csv --schema schema.yaml --method neighbour-chain --epsilon 1 --unit add-remove --out out.csv"
    done = subprocess.run(
        [sys.executable, "-m", "understudy.cli.main", *words.split()],
        capture_output=True, text=True, env=env, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Zyrphelia" not in done.stderr
    assert code == 4 or "What the ledger shows as spent is spent." in done.stderr


def test_the_command_line_takes_it_like_any_other(installed: dict[str, str], tmp_path: Path) -> None:
    listed = _run("understudy.cli.main", "methods", "--json", env=installed)
    assert '"neighbour-chain"' in listed
    assert "see the package acme-chain" in listed
    frame, schema = load("toy", 300, seed=1)
    frame.to_csv(tmp_path / "toy.csv", index=False)
    schema.write(tmp_path / "schema.yaml")
    words = "synth toy.csv --schema schema.yaml --method neighbour-chain --epsilon 1 --unit add-remove --out out.csv"
    _run("understudy.cli.main", *words.split(), env=installed, cwd=tmp_path)
    assert (tmp_path / "out.csv").stat().st_size > 0
    code = "from understudy.mechanisms import software; print(software(['aim', 'neighbour-chain']))"
    named = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=installed)
    assert named.stdout.strip().endswith(" with acme-chain 0.1")


# ---------------------------------------------------------------------- the criterion

SPEC = """
name: ages
source: {path: people.csv}
schema: schema.yaml
unit: replace-one
synthesizers: [{method: independent}]
ACCEPTANCE
selection: {rule: single}
budget: {total: {epsilon: 2.5}, model: {epsilon: 2.0}}
seed: 1
"""
PASS_ONLY = """
acceptance:
  form: pass-only
  epsilon: 0.5
  criteria:
    - {name: ages, kind: column-distance, column: age, threshold: 0.2}
"""


@pytest.fixture
def people(tmp_path: Path) -> Path:
    (tmp_path / "schema.yaml").write_text(
        "columns: [{name: age, kind: integer, minimum: 0, maximum: 4}, {name: smokes, kind: boolean}]\n",
        encoding="utf-8",
    )
    rows = "".join(f"{number % 5},{'true' if number % 3 else 'false'}\n" for number in range(3000))
    (tmp_path / "people.csv").write_text("age,smokes\n" + rows, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("form", ["published", "pass-only"])
def test_a_release_is_planned_and_made_with_the_example(
    distance: dict[str, str], people: Path, form: str
) -> None:
    acceptance = (
        _block("Add a criterion in one file", "yaml").strip() if form == "published" else PASS_ONLY.strip()
    )
    (people / "spec.yaml").write_text(SPEC.replace("ACCEPTANCE", acceptance), encoding="utf-8")
    env = distance | {"UNDERSTUDY_HOME": str(people / "home")}  # where ledgers of tables are remembered
    (planned,) = json.loads(
        _run("understudy.cli.main", "plan", "spec.yaml", "--rows", "3000", "--json", env=env, cwd=people)
    )["criteria"]
    assert (planned["kind"], planned["form"]) == ("column-distance", form)
    assert planned["metric"] == "total variation of age"
    assert planned["sensitivity"] == pytest.approx(1 / 3000 if form == "published" else 1.0)
    assert not planned["noise_dominated"]
    made = json.loads(
        _run("understudy.cli.main", "release", "spec.yaml", "--out", "out", "--json", env=env, cwd=people)
    )
    (told,) = made["criteria"]
    assert told["passed"]
    assert (told["type"], told["unit"]) == ("Distance of a column", "share of rows")
    assert told["mechanism"] == ("laplace" if form == "published" else "slack test")
    certificate = json.loads((people / "out" / "certificate.json").read_text(encoding="utf-8"))
    assert certificate["software"].endswith(" with acme-distance 0.1")
    _run("understudy.cli.main", "verify", "out", env=env, cwd=people)


def test_a_file_without_the_package_is_told_which_kinds_there_are(people: Path) -> None:
    (people / "spec.yaml").write_text(SPEC.replace("ACCEPTANCE", PASS_ONLY.strip()), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "understudy.cli.main", "plan", "spec.yaml"],
        capture_output=True, text=True, cwd=people,
    )  # fmt: skip
    assert done.returncode != 0
    assert "no kind named 'column-distance'" in done.stdout + done.stderr


def test_a_kind_that_is_misspelt_is_suggested_from_installed_packages_too(
    people: Path, distance: dict[str, str]
) -> None:
    wrong = SPEC.replace("ACCEPTANCE", PASS_ONLY.strip()).replace("column-distance", "colum-distance")
    (people / "wrong.yaml").write_text(wrong, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "understudy.cli.main", "plan", "wrong.yaml"],
        capture_output=True, text=True, cwd=people, env=distance,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Did you mean 'column-distance'?" in done.stdout + done.stderr


def test_neighbours_do_not_move_the_example_further_than_it_says(distance: dict[str, str]) -> None:
    code = """
from distance import ColumnDistance
from understudy.privacy import Unit
from understudy.release import largest_moves
from understudy.schema import Domain
criterion = ColumnDistance(name="ages", threshold=0.2, column="age")
for unit in (Unit.add_remove(), Unit.replace_one(), Unit.replace_person("id", max_rows=3)):
    moves = largest_moves(criterion, Domain(("age", "sex"), (4, 2)), unit=unit, pairs=400)
    assert 0.9 < moves.value <= 1 and 0.4 < moves.slack <= 1, (unit, moves)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=distance)
    assert done.returncode == 0, done.stderr
