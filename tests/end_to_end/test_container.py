"""The image: a user without rights, a read-only root, no home. The recipe is read; what it promises is run, in a mount namespace if there is no Docker."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy
from understudy.privacy import Ledger

ROOT = Path(__file__).parents[2]
USER = 10001


def test_the_recipe_keeps_its_promises() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    build, _, image = text.rpartition("\nFROM ")
    assert re.search(rf"^USER {USER}:{USER}$", image, re.MULTILINE), "no root"
    assert "HOME=/nonexistent" in image
    assert 'ENTRYPOINT ["understudy"]' in image
    assert "understudy warm" in build
    for name in (
        "NUMBA_CACHE_DIR",
        "NUMBA_CPU_NAME",
    ):  # the kernels are kept and looked for under the same conditions
        assert len(set(re.findall(rf"{name}=(\S+)", text))) == 1, name
        assert len(re.findall(rf"{name}=(\S+)", text)) == 2, name
    assert "--read-only" in text
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert name in kept
            assert (ROOT / name).exists()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user may enter: those of pytest are for their owner alone."""
    with tempfile.TemporaryDirectory(prefix="understudy-container-") as name:
        place = Path(name)
        place.chmod(0o777)
        yield place


def read_only(folder: Path, command: list[str]) -> list[str]:
    """The command, run by a user without rights where everything but one folder is read-only; skips where that cannot be had."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("needs root, unshare and setpriv to make a root that is really read-only")
    steps = ["mount --make-rprivate /", f"mount --bind {folder} {folder}"]
    places: dict[Path, list[Path]] = {}  # what is needed, by the folder closed to others that it lies in
    for base in dict.fromkeys(
        (Path(sys.base_prefix), Path(sys.prefix), Path(understudy.__file__).parents[1])
    ):
        for part in [*reversed(base.parents), base]:
            if not part.stat().st_mode & stat.S_IXOTH:
                places.setdefault(part, []).append(base)
                break
    for hidden, needed in places.items():  # as in somebody's home: show nothing else of it
        asides = [folder / f"needed-{hidden.name}-{number}" for number in range(len(needed))]
        for base, aside in zip(needed, asides, strict=True):
            aside.mkdir(exist_ok=True)
            steps.append(f"mount --bind {base} {aside}")
        steps.append(f"mount -t tmpfs -o mode=755 tmpfs {hidden}")
        for base, aside in zip(needed, asides, strict=True):
            steps += [f"mkdir -p {base}", f"mount --bind {aside} {base}"]
    steps += ["mount -o remount,bind,ro /", f"cd {folder}"]
    user = f"setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs --bounding-set=-all"
    steps.append(f"exec {user} {shlex.join(command)}")
    wrapped = ["unshare", "--mount", "sh", "-c", " && ".join(steps)]
    probe = ["unshare", "--mount", "sh", "-c", "mount --make-rprivate /"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this system allows no mount namespaces")
    return wrapped


COUNTED = """
import sys
from numba.core import event
from understudy.cli.main import run

compiled = []

class Watch(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event):
        pass

event.register("numba:compile", Watch())
try:
    run()
finally:
    print("compiled:", *compiled, file=sys.stderr)
"""


@pytest.mark.slow
def test_kernels_of_the_build_serve_a_user_who_can_write_nothing_beside_the_table(folder: Path) -> None:
    """The two steps of the recipe with its own settings: `warm` while the image is built, then `synth` where the kernels are read-only.

    Caught: kernels that are looked for elsewhere than they were kept, or kept for another processor, so that every run compiles anew.
    """
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (processor,) = set(re.findall(r"NUMBA_CPU_NAME=(\S+)", text))
    kernels = folder / "kernels"
    environment = {
        "PYTHONPATH": str(Path(understudy.__file__).parents[1]),
        "NUMBA_CACHE_DIR": str(kernels),
        "NUMBA_CPU_NAME": processor,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": "/usr/bin:/bin",
    }
    build = [sys.executable, "-m", "understudy", "warm", "independent", "--quiet"]
    words = "synth table.csv --schema schema.yaml --unit add-remove --epsilon 1 --delta 1e-6 --method independent --out out.csv"
    by_person = words.replace("table.csv", "persons.csv").replace("out.csv", "persons.parquet/")
    by_person += " --id-column who --max-rows-per-person 2 --flat"
    run = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
    run += ["HOME=/nonexistent", f"TMPDIR={folder}", sys.executable, "-c", COUNTED]
    wrapped = [
        read_only(folder, [*run, *some.split()]) for some in (words, by_person)
    ]  # or skip, before anything is compiled
    subprocess.run(build, env=environment | {"HOME": str(folder)}, check=True, timeout=600)
    kernels.chmod(0o755)
    before = sorted(path.relative_to(folder) for path in kernels.rglob("*"))
    (folder / "table.csv").write_text("a,b,c\n" + "x,1,u\ny,0,v\nx,0,v\n" * 60)
    (folder / "persons.csv").write_text("a,b,c,who\n" + "x,1,u,ann\ny,0,v,bob\nx,0,v,ann\n" * 60)
    (folder / "schema.yaml").write_text(
        "columns: [{name: a, kind: categorical, values: [x, y]}, {name: b, kind: integer, minimum: 0, maximum: 1},"
        " {name: c, kind: categorical, values: [u, v]}]\n"
    )
    for command in wrapped:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines()[-1].split() == ["compiled:"], "what was kept was not found"
    assert (folder / "out.csv").stat().st_uid == (folder / "persons.parquet").stat().st_uid == USER
    assert before == sorted(path.relative_to(folder) for path in kernels.rglob("*"))


def test_synth_runs_as_a_user_without_rights_on_a_read_only_root(folder: Path) -> None:
    """Caught: anything that is written elsewhere than beside the table, looked up in a home, or needs rights."""
    (folder / "table.csv").write_text("a,b\n" + "x,1\ny,0\n" * 60)
    (folder / "schema.yaml").write_text(
        "columns: [{name: a, kind: categorical, values: [x, y]}, {name: b, kind: integer, minimum: 0, maximum: 1}]\n"
    )
    source = Path(understudy.__file__).parents[1]
    environment = [
        f"PYTHONPATH={source}",
        "HOME=/nonexistent",
        f"TMPDIR={folder}",
        "PYTHONDONTWRITEBYTECODE=1",
        "PATH=/usr/bin:/bin",
    ]
    words = [
        "synth",
        "table.csv",
        "--schema",
        "schema.yaml",
        "--unit",
        "add-remove",
        "--epsilon",
        "1",
        "--method",
        "independent",
        "--out",
        "out.csv",
    ]
    shown = "import os; print(os.getuid(), os.access('/', os.W_OK), os.path.exists('/nonexistent'))"
    for command, code in (
        (["-c", shown], 0),
        (["-m", "understudy", *words], 0),
        (["-m", "understudy", *words[:-1], "/out.csv"], 6),
    ):
        done = subprocess.run(
            read_only(folder, ["env", "-i", *environment, sys.executable, *command]),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == code, done.stderr
        if command[0] == "-c":
            assert done.stdout.split() == [str(USER), "False", "False"]
    assert (folder / "out.csv").stat().st_uid == USER
    with Ledger.open(folder / "table.ledger") as ledger:
        assert sum(entry.event is not None for entry in ledger.entries()) == 1, (
            "the output that cannot be written cost nothing"
        )
