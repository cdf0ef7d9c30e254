"""Canaries in every private cell, searched for in everything that leaves: words, tables, models, ledgers, states, bundles.

Text columns hold words outside the public values (``to-other``) or are not declared at all, ids are words, and
numbers lie within the public bounds but are one exact number that a bin of a billion would give away only by
chance (once in a hundred million rows), or beyond them (``clamp``).
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.trust._fuzz_readers import CANARY, NUMBER
from benchmarks.trust.fuzz import import_commands, try_command

from understudy.data import read_frame
from understudy.mechanisms import create

ROWS = 300
SCHEMA = """
columns:
  - {name: town, kind: categorical, values: [north, south], out_of_domain: to-other}
  - {name: fee, kind: integer, minimum: 0, maximum: 1000000000, bins: 4}
  - {name: dose, kind: real, minimum: 0, maximum: 10, bins: 3, out_of_domain: clamp}
  - {name: smokes, kind: boolean}
"""
SPEC = """
name: canaries
source: {path: t.csv, table: canaries}
schema: schema.yaml
unit: replace-one
public: {row_count: {epsilon: 1}, expected_rows: 300}
synthesizers: [{method: gaussian, options: {workload: all-2way}}]
acceptance:
  form: pass-only
  epsilon: 5
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.9}]
selection: {rule: single}
budget: {total: {epsilon: 10}, model: {epsilon: 4}}
output: {formats: [csv, parquet]}
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Import once what the forked commands need."""
    import_commands()
    for method in ("mst", "independent", "aim", "gaussian"):
        create(method)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "person": [f"{CANARY}-id-{row // 2}" for row in range(ROWS)],
            "town": [f"{CANARY}-town-{row}" for row in range(ROWS)],
            "fee": NUMBER,
            "dose": float(NUMBER),
            "smokes": generator.choice(["true", "false"], ROWS),
            "note": [f"{CANARY}-note-{row}" for row in range(ROWS)],
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "case").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def leaks(folder: Path) -> list[str]:
    """Files with a canary in them, as text or as a number in binary, packed or not."""
    patterns = (CANARY.encode(), str(NUMBER).encode(), struct.pack("<q", NUMBER), struct.pack("<d", NUMBER))
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name in ("t.csv", "t.parquet"):
            continue
        texts = [path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                texts += [archive.read(name) for name in archive.namelist()]
        if path.suffix == ".parquet":
            texts.append(read_frame(path).to_csv().encode())
        if any(pattern in text for text in texts for pattern in patterns):
            found.append(path.name)
    return found


@pytest.mark.parametrize("source", ["t.csv", "t.parquet"])
@pytest.mark.parametrize(
    "words",
    [
        "--method mst --epsilon 1 --delta 1e-6 --unit add-remove",
        "--method independent --epsilon 1 --unit replace-one",
        "--method aim --epsilon 1 --delta 1e-6 --unit add-remove --id-column person --max-rows-per-person 2",
    ],
)
def test_nothing_private_leaves_a_fit(folder: Path, source: str, words: str) -> None:
    command = f"synth {source} --schema schema.yaml {words} --out out.parquet --model m.understudy --ledger a.ledger"
    assert try_command(command.split(), folder / "case") is None
    assert {"out.parquet", "m.understudy", "a.ledger"} <= {path.name for path in folder.iterdir()}
    assert leaks(folder) == []


def test_nothing_private_leaves_a_release(folder: Path) -> None:
    command = "release spec.yaml --out bundle --ledger a.ledger --yes"
    assert try_command(command.split(), folder / "case") is None
    assert (folder / "bundle" / "data.parquet").exists()
    assert list(folder.glob("a.ledger.*.state"))
    assert leaks(folder) == []
    assert try_command(["report", "bundle", "--out", "page.html"], folder / "case") is None
    assert leaks(folder) == []


@pytest.mark.parametrize(
    "command",
    [
        "synth t.csv --schema refuse.yaml --method mst --epsilon 1 --delta 1e-6 --unit add-remove --out o.csv",
        "synth t.parquet --schema refuse.yaml --method mst --epsilon 1 --delta 1e-6 --unit add-remove --out o.csv",
        "schema check refuse.yaml t.csv",
        "schema check refuse.yaml t.parquet",
        "evaluate t.csv t.csv --schema refuse.yaml",
        "release refuse-spec.yaml --yes --out bundle",
    ],
)
def test_a_refusal_tells_nothing_private(folder: Path, command: str) -> None:
    strict = SCHEMA.replace(", out_of_domain: to-other", "").replace(", out_of_domain: clamp", "")
    (folder / "refuse.yaml").write_text(strict.replace("maximum: 1000000000", "maximum: 1000"))
    (folder / "refuse-spec.yaml").write_text(SPEC.replace("schema.yaml", "refuse.yaml"))
    assert try_command(command.split(), folder / "case") is None
    assert "outside the declared" in (folder / "err").read_text()
    assert leaks(folder) == []
    assert not (folder / "o.csv").exists()


def test_a_leak_would_be_found(folder: Path) -> None:
    (folder / "a.txt").write_text(f"the value {CANARY}-town-3")
    (folder / "b.bin").write_bytes(b"xx" + struct.pack("<d", NUMBER))
    with zipfile.ZipFile(folder / "c.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", f"{NUMBER} " * 9)
    pd.DataFrame({"a": [NUMBER] * 3}).to_parquet(folder / "d.parquet")
    assert leaks(folder) == ["a.txt", "b.bin", "c.zip", "d.parquet"]


# ---------------------------------------------------------------------- linked tables

PEOPLE, VISITS = 1_237, 2_683
"""Numbers that nothing else has: a refusal may not tell how many entities or events there are either."""
REGISTER = """
name: register
tables:
  - name: people
    key: person
    source: t.people.csv
    columns:
      - {name: town, kind: categorical, values: [north, south], out_of_domain: to-other}
  - name: visits
    belongs_to: people
    source: t.visits.csv
    order: day
    max_events: 9
    ORPHANS
    columns:
      - {name: day, kind: date, minimum: 2020-01-01, maximum: 2021-12-31, resolution: month}
      - {name: fee, kind: integer, minimum: 0, maximum: 1000000000, bins: 4}
"""
LINKED_SPEC = """
name: canaries
source: {}
schema: register.yaml
unit: {relation: add-remove, id_column: person, max_rows: 2}
synthesizers: [{method: mst}]
acceptance:
  form: published
  criteria:
    - {name: fees, kind: event-rates, column: fee, values: [750000000-1000000000], threshold: 0.99, epsilon: 1}
    - {name: steps, kind: transition-shares, columns: [day], threshold: 0.9, epsilon: 1}
selection: {rule: single}
budget: {total: {epsilon: 30}, model: {epsilon: 20}}
"""


@pytest.fixture
def linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(0)
    people = pd.DataFrame(
        {"person": [f"{CANARY}-id-{k}" for k in range(PEOPLE)], "town": [f"{CANARY}-town-{k}" for k in range(PEOPLE)]}
    )  # fmt: skip
    visits = pd.DataFrame(
        {
            "person": [f"{CANARY}-id-{k}" for k in generator.integers(0, PEOPLE, VISITS)],
            "day": [f"2020-0{1 + k % 9}-11" for k in range(VISITS)],
            "fee": NUMBER,
            "note": [f"{CANARY}-note-{k}" for k in range(VISITS)],
        }
    )
    people.to_csv(tmp_path / "t.people.csv", index=False)
    visits.to_csv(tmp_path / "t.visits.csv", index=False)
    (tmp_path / "register.yaml").write_text(REGISTER.replace("ORPHANS", ""))
    (tmp_path / "spec.yaml").write_text(LINKED_SPEC)
    (tmp_path / "case").mkdir()
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


PRIVATE = ("t.people.csv", "t.visits.csv")


FIT = "synth register.yaml --method mst --epsilon 1 --delta 1e-6 --unit add-remove --id-column person --max-rows-per-person 2"


@pytest.mark.parametrize("more", ["", "--hold-out 0.3 --hold-out-file h.json", "--sets 2"])
def test_nothing_private_leaves_a_fit_of_linked_tables(linked: Path, more: str) -> None:
    command = f"--log-json log.jsonl {FIT} {more} --out made/ --model m.understudy --ledger a.ledger"
    finding = try_command(command.split(), linked / "case")
    if "--sets" in more:
        assert "sets" in (linked / "err").read_text()  # refused
    else:
        assert finding is None
        assert {"made", "m.understudy", "a.ledger", "log.jsonl"} <= {path.name for path in linked.iterdir()}
        assert len((linked / "log.jsonl").read_text().splitlines()) > 1
    assert [name for name in leaks(linked) if name not in PRIVATE] == []


def test_nothing_private_leaves_a_release_of_linked_tables(linked: Path) -> None:
    command = "--log-json log.jsonl release spec.yaml --out bundle --ledger a.ledger --yes"
    assert try_command(command.split(), linked / "case") is None
    assert (linked / "bundle" / "tables" / "visits.csv").exists()
    assert [name for name in leaks(linked) if name not in PRIVATE] == []
    assert try_command(["verify", "bundle"], linked / "case") is None
    assert [name for name in leaks(linked) if name not in PRIVATE] == []


def _orphans(folder: Path) -> None:
    people = pd.read_csv(folder / "t.people.csv")
    people.iloc[3:].to_csv(folder / "t.people.csv", index=False)


def _repeated(folder: Path) -> None:
    people = pd.read_csv(folder / "t.people.csv")
    pd.concat([people, people.iloc[:1]]).to_csv(folder / "t.people.csv", index=False)


def _nobody(folder: Path) -> None:
    visits = pd.read_csv(folder / "t.visits.csv")
    visits.loc[4, "person"] = None
    visits.to_csv(folder / "t.visits.csv", index=False)


def _outside(folder: Path) -> None:
    visits = pd.read_csv(folder / "t.visits.csv")
    visits.loc[4, "day"] = f"2033-{NUMBER}"
    visits.to_csv(folder / "t.visits.csv", index=False)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_orphans, "is no 'person' of 'people'"),
        (_repeated, "more than one row with the same 'person'"),
        (_nobody, "no value in the id column"),
        (_outside, "'day'"),
    ],
)
@pytest.mark.parametrize(
    "command", [f"{FIT} --out made/ --ledger a.ledger", "release spec.yaml --out bundle --yes"]
)
def test_a_refusal_of_linked_tables_tells_nothing_private(
    linked: Path, spoil: Callable[[Path], None], said: str, command: str
) -> None:
    spoil(linked)
    finding = try_command(["--log-json", "log.jsonl", *command.split()], linked / "case")
    assert finding is None
    assert said in " ".join((linked / "err").read_text().split())
    assert not (linked / "made").exists()
    assert not (linked / "bundle").exists()
    words = "".join((linked / name).read_text() for name in ("out", "err", "log.jsonl")).replace(",", "")
    assert not re.search(rf"{PEOPLE}|{PEOPLE - 3}|{PEOPLE + 1}|{VISITS}", words)
    assert [name for name in leaks(linked) if name not in PRIVATE] == []
