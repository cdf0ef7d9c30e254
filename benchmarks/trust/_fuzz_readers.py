"""The readers that take files from strangers, each with good files to start from and its own ways to spoil them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pandas as pd
import yaml

from benchmarks.trust._fuzz_mutate import dump, make_zip, spoil_bytes, spoil_tree, unzip
from understudy.errors import UnderstudyError

CANARY, NUMBER = "zzcanary", 918273645
"""Words and numbers that stand in private cells; neither may appear in any message."""

Case = dict[str, bytes]
"""A case: files by name."""

SCHEMA = """
name: staff
columns:
  - {name: grade, kind: ordinal, values: [a, b, c], missing: true}
  - {name: sex, kind: categorical, values: [f, m], out_of_domain: to-other}
  - {name: age, kind: integer, minimum: 0, maximum: 120, bins: ["<30", 30-44, "44<"], unit: years}
  - {name: pay, kind: real, minimum: 0, maximum: 1000, bins: 5, out_of_domain: clamp}
  - {name: since, kind: date, bins: [2000-01-01, 2010-01-01, 2021-01-01]}
  - {name: part, kind: boolean}
constraints: ["age >= 18 or part", "grade == 'a' implies age < 45"]
"""
NEWER = """
name: visits
lists: {wards: [day, night, icu]}
columns:
  - {name: ward, kind: categorical, values: {list: wards}, missing: true}
  - {name: part, kind: categorical, values: [A1, A2, A3, B1], levels: {groups: {surgery: {general: [A1, A2], heart: [A3]}, medicine: [B1]}}}
  - {name: zip, kind: categorical, values: ["1010", "1020", "2010"], levels: {prefix: [1, 2], share: 0.2, most: 4}}
  - {name: born, kind: integer, minimum: 1900, maximum: 2020, bins: 4, decode_by: smooth}
  - {name: came, kind: date, minimum: 2020-01-01, maximum: 2021-12-31, resolution: month}
  - {name: left, kind: date, minimum: 2020-01-01, maximum: 2021-12-31, resolution: month}
  - {name: cost, kind: real, minimum: 0, maximum: 10, bins: 2, decimals: 1, missing: true}
rules: ["left >= came"]
weight: {column: weighs, cap: 20, lowest: 0.5, bins: 4}
"""
PEOPLE = """
columns:
  - {name: sex, kind: boolean}
  - {name: ward, kind: categorical, values: [day, night]}
  - {name: came, kind: date, minimum: 2020-01-01, maximum: 2021-12-31, resolution: month}
entity: {id: who, fixed: [sex], order: came, max_events: 12, link: [ward], gaps: true}
"""
"""Parts of schemas that version 0.1 did not have."""
SPEC = """
name: staff
title: Staff
source: {path: staff.csv, table: staff}
schema:
  columns:
    - {name: grade, kind: ordinal, values: [a, b, c]}
    - {name: sex, kind: categorical, values: [f, m]}
    - {name: age, kind: integer, unit: years, bins: ["<30", 30-44, "44<"], decode_by: label}
unit: {relation: replace-one}
cleaning: [age >= 18]
public: {row_count: {epsilon: 1}, expected_rows: 900}
synthesizers:
  - {method: gaussian, options: {workload: all-2way}}
projections: [{kind: minimal-occurrence, min_count: 2}]
acceptance:
  form: pass-only
  epsilon: 5
  criteria:
    - {name: cells, kind: max-marginal-error, threshold: 0.1}
    - {name: mean age, kind: conditional-means, column: age, threshold: 5, by: [everyone, sex]}
selection: {rule: single}
budget: {total: {epsilon: 10}, model: {epsilon: 4}}
output: {formats: [csv, parquet]}
seed: 1
"""


_MORE = {
    "unit": {"relation": "add-remove", "id_column": "person", "max_rows": 3},
    "approvals": {"required": ["owner", "lawyer"], "signed": True, "keys": {"lawyer": "0" * 32}},
    "previous": {
        "manifest": "ab" * 32,
        "prior": False,
        "releases": [
            {
                "name": "staff",
                "manifest": "ab" * 32,
                "bounds": [{"epsilon": 0.5, "beside": {"kind": "gdp", "mu": 0.3}}],
            }
        ],
    },
    "publisher": {"name": "Office", "sector": "Government"},
    "show": [{"column": "sex", "values": ["f"], "by": "grade"}],
}
"""Parts of a specification that version 0.1 did not have."""

LINKED = """
name: register
tables:
  - name: people
    key: person
    source: people.csv
    count: visits
    columns: [{name: sex, kind: categorical, values: [f, m]}, {name: born, kind: integer, minimum: 1900, maximum: 2020, bins: 4}]
  - name: visits
    belongs_to: people
    reference: who
    source: visits.csv
    order: day
    max_events: 6
    orphans: drop
    link: [urgent]
    columns: [{name: day, kind: date, minimum: 2020-01-01, maximum: 2021-12-31, resolution: month}, {name: urgent, kind: boolean, missing: true}]
constraints: ["born < 2010 or urgent"]
"""
VIRTUAL = """
tables:
  - {name: people, key: who}
  - {name: visits, belongs_to: people, source: visits.csv, fixed: [sex], max_events: 3, columns: [{name: sex, kind: boolean}, {name: urgent, kind: boolean, missing: true}]}
"""
SEVERAL = """
tables:
  - {name: people, key: person, source: people.csv, columns: [{name: sex, kind: categorical, values: [f, m]}]}
  - {name: visits, belongs_to: people, reference: who, source: visits.csv, orphans: drop, max_events: 6, count: visited, columns: [{name: urgent, kind: boolean, missing: true}]}
  - {name: bills, belongs_to: people, source: bills.csv, orphans: drop, max_events: 3, columns: [{name: paid, kind: boolean}]}
"""


class Reader(ABC):
    """One reader: good cases, how to spoil them, how to read them."""

    name: ClassVar[str]
    private: ClassVar[bool] = False
    """Whether the files are private, so that nothing of their content may be told."""

    def __init__(self) -> None:
        self.seeds = self.good()

    @abstractmethod
    def good(self) -> list[Case]:
        """Cases that are read without complaint."""

    @abstractmethod
    def read(self, folder: Path) -> None:
        """Read the case in a folder and use what was read, as a program would."""

    @abstractmethod
    def command(self, folder: Path) -> list[str]:
        """The command line that reads the case."""

    def spoil(self, case: Case, generator: random.Random, corpus: Sequence[Case]) -> Case:
        """Spoil one file of a case."""
        name = generator.choice(sorted(case))
        other = generator.choice(corpus).get(name, b"")
        return case | {name: self.spoil_file(name, case[name], other, generator)}

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        return spoil_bytes(data, generator, other=other)


def _spoil_plain(data: bytes, other: bytes, generator: random.Random) -> bytes:
    """Spoil YAML or JSON, mostly as a tree."""
    if generator.random() < 0.3:
        return spoil_bytes(data, generator, other=other)
    try:
        tree = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return spoil_bytes(data, generator, other=other)
    return dump(spoil_tree(_texts(tree), generator))


def _texts(tree: Any) -> Any:
    """Turn what JSON cannot hold into text."""
    return json.loads(json.dumps(tree, default=str, skipkeys=True))


class SchemaReader(Reader):
    name = "schema"

    def good(self) -> list[Case]:
        examples = [text.encode() for text in (SCHEMA, NEWER, PEOPLE, LINKED)]
        root = Path(__file__).resolve().parents[2]
        for path in (*root.glob("src/understudy/datasets/*.yaml"), *root.glob("examples/*/schema.yaml")):
            examples.append(path.read_bytes())
        return [{"schema.yaml": data} for data in examples] + [
            {"schema.json": dump(_texts(yaml.safe_load(SCHEMA)))}
        ]

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        return _spoil_plain(data, other, generator)

    def read(self, folder: Path) -> None:
        from understudy.schema import Schema
        from understudy.schema.linked import joined, parted

        schema = Schema.read(next(folder.iterdir()))
        schema.fingerprint()
        repr(schema)
        if sum(schema.domain.sizes) < 1000:
            Schema.from_dict(schema.to_dict())
            if schema.entity is not None and schema.entity.tables is not None:
                parts = joined(parted(schema.to_dict())).plain
                assert Schema.from_dict(parts).fingerprint() == schema.fingerprint()

    def command(self, folder: Path) -> list[str]:
        return ["schema", "check", str(next(folder.iterdir()))]


class SpecReader(Reader):
    name = "spec"

    def good(self) -> list[Case]:
        root = Path(__file__).resolve().parents[2]
        shipped = yaml.safe_load((root / "examples/births/spec.yaml").read_text("utf-8"))
        shipped["schema"] = yaml.safe_load((root / "examples/births/schema.yaml").read_text("utf-8"))
        newer = yaml.safe_load(SPEC) | _MORE
        newer["budget"] |= {"total": {"epsilon": 11}, "rows_lost": 0.5}
        linked = {**_LINKED_SPEC, "schema": yaml.safe_load(_REGISTER)}
        several = {**_SEVERAL_SPEC, "schema": yaml.safe_load(_SEVERAL_TABLES)}
        return [
            {"spec.yaml": data}
            for data in (SPEC.encode(), *(dump(_texts(item)) for item in (shipped, newer, linked, several)))
        ]

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        return _spoil_plain(data, other, generator)

    def read(self, folder: Path) -> None:
        from understudy.release.approvals import check_approvals
        from understudy.release.run.planning import usable_configurations
        from understudy.release.selection.profiles import Bound
        from understudy.release.series.previous import series_of
        from understudy.release.spec.spec import Spec
        from understudy.signatures import Keyring

        spec = Spec.read(folder / "spec.yaml")
        spec.fingerprint()
        usable_configurations(spec)
        check_approvals(spec, [], keyring=Keyring(folder / "keys"))
        series_of(spec, [Bound(0.0, spec.shares.promise)])

    def command(self, folder: Path) -> list[str]:
        return ["plan", str(folder / "spec.yaml")]


_CELLS: dict[str, tuple[str, ...]] = {
    "grade": ("a", "b", "c", ""),
    "sex": ("f", "m"),
    "age": ("18", "44", "99"),
    "pay": ("1.5", "999", "0"),
    "since": ("2001-02-03", "2020-12-31"),
    "part": ("true", "false"),
}
_BAD_CELLS = (
    CANARY, f"{CANARY}\u00e9", str(NUMBER), f"{NUMBER}.{NUMBER}", f"-{NUMBER}", f"{NUMBER}e300", f"2001-02-{NUMBER}",
    f"{CANARY},{CANARY}", f'"{CANARY}', f"{CANARY}\n{CANARY}", f"\x00{CANARY}", f" {CANARY} ", f"{NUMBER}" * 50,
)  # fmt: skip


def _schema() -> Any:
    from understudy.schema import Schema

    return Schema.parse(SCHEMA)


class CsvReader(Reader):
    name = "csv"
    private = True

    def good(self) -> list[Case]:
        made = []
        for separator in (",", ";", "\t"):
            lines = [separator.join((*_CELLS, "note"))]
            for row in range(12):
                cells = [options[row % len(options)] for options in _CELLS.values()]
                lines.append(separator.join((*cells, f"{CANARY}{row}")))
            made.append({"t.csv": "\n".join(lines).encode() + b"\n"})
        return made

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        if generator.random() < 0.4:
            return spoil_bytes(data, generator, other=other)
        lines = data.decode("utf-8", "replace").split("\n")
        separator = next((s for s in ",;\t" if s in lines[0]), ",")
        for _ in range(generator.choice((1, 1, 2, 5))):
            row = generator.randrange(1, max(2, len(lines)))
            if row >= len(lines):
                break
            cells = lines[row].split(separator)
            bad = generator.choice(_BAD_CELLS)
            cells[generator.randrange(len(cells))] = bad
            if generator.random() < 0.1:
                cells.append(bad)
            lines[row] = separator.join(cells)
        text = "\n".join(lines)
        return text.encode(generator.choice(("utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig")), "replace")

    def read(self, folder: Path) -> None:
        from understudy.data import read_table

        table = read_table(folder / "t.csv", _schema())
        table.count(("grade", "age"))

    def command(self, folder: Path) -> list[str]:
        (folder.parent / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
        return ["schema", "check", str(folder.parent / "schema.yaml"), str(folder / "t.csv")]


class ParquetReader(CsvReader):
    name = "parquet"

    def good(self) -> list[Case]:
        made = []
        for frame in self._frames():
            buffer = io.BytesIO()
            frame.to_parquet(buffer, index=False)
            made.append({"t.parquet": buffer.getvalue()})
        return made

    def _frames(self) -> list[pd.DataFrame]:
        rows = range(12)
        frame = pd.DataFrame(
            {name: [options[row % len(options)] for row in rows] for name, options in _CELLS.items()}
        )
        frame["note"] = [f"{CANARY}{row}" for row in rows]
        typed = frame.assign(
            age=frame["age"].astype(int),
            pay=frame["pay"].astype(float),
            since=pd.to_datetime(frame["since"]),
            part=frame["part"] == "true",
            grade=frame["grade"].replace("", None).astype("category"),
        )
        return [frame, typed]

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        if generator.random() < 0.5:
            return spoil_bytes(data, generator, other=other)
        frame = generator.choice(self._frames())
        column = generator.choice(list(frame.columns[:6]))
        rows = len(frame)
        odd: tuple[Any, ...] = (
            [CANARY] * rows,
            [NUMBER] * rows,
            [float(NUMBER)] * rows,
            [float("nan")] * rows,
            [None] * rows,
            [[CANARY]] * rows,
            [{"a": CANARY}] * rows,
            [CANARY.encode()] * rows,
            [True] * rows,
            [np.datetime64("2091-09-18")] * rows,
            [10**18 + NUMBER] * rows,
            [CANARY if row == 3 else None for row in range(rows)],
        )
        frame = frame.drop(columns=column) if generator.random() < 0.1 else frame
        frame[column] = pd.Series(generator.choice(odd))
        if generator.random() < 0.2:
            frame[column] = frame[column].astype("string").astype("category")
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return buffer.getvalue()

    def read(self, folder: Path) -> None:
        from understudy.data import read_table

        table = read_table(folder / "t.parquet", _schema())
        table.count(("grade", "age"))

    def command(self, folder: Path) -> list[str]:
        (folder.parent / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
        return ["schema", "check", str(folder.parent / "schema.yaml"), str(folder / "t.parquet")]


class LinkedReader(Reader):
    """A schema file that names two tables, and the tables."""

    name = "linked"
    private = True

    def good(self) -> list[Case]:
        people = "person,sex,born,note\n" + "".join(
            f"{CANARY}{k},{'fm'[k % 2]},{1950 + k},x\n" for k in range(6)
        )
        visits = "who,day,urgent,sex\n" + "".join(
            f"{CANARY}{k % 5},2020-0{1 + k}-1{k},{('true', 'false', '')[k % 3]},true\n" for k in range(8)
        )
        bills = "person,paid\n" + "".join(f"{CANARY}{k},true\n" for k in (0, 0, 3))
        tables = {"people.csv": people.encode(), "visits.csv": visits.encode()}
        return [
            tables | {"register.yaml": LINKED.encode()},
            {"visits.csv": visits.encode(), "register.yaml": VIRTUAL.encode()},
            tables | {"bills.csv": bills.encode(), "register.yaml": SEVERAL.encode()},
        ]

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        if name == "register.yaml":
            return _spoil_plain(data, other, generator)
        if generator.random() < 0.5:
            return spoil_bytes(data, generator, other=other)
        lines = [line.split(",") for line in data.decode("utf-8", "replace").split("\n")]
        for _ in range(generator.choice((1, 1, 3))):
            cells = generator.choice(lines)
            cells[generator.randrange(len(cells))] = generator.choice(
                (*_BAD_CELLS, "", " ", "NA", "1", "1.0")
            )
        return "\n".join(map(",".join, lines)).encode()

    def read(self, folder: Path) -> None:
        from understudy.data import read_table
        from understudy.data.linked import read_linked, read_register
        from understudy.schema import Schema
        from understudy.workflow.events import linked_source, register_source

        several = register_source(folder / "register.yaml", None)
        if several is not None:
            source, register, _ = several
            if self._stays_in(folder, source):
                schemas = [Schema.from_dict(pair.plain, folder=folder) for pair in register.pairs]
                for table in read_register(read_table, source, schemas, register.numbers).values():
                    self._counted(table)
            return
        found = linked_source(folder / "register.yaml", None)
        assert found is not None
        source, schema = found
        Schema.from_dict(schema.to_dict())
        if self._stays_in(folder, source):
            self._counted(read_linked(read_table, source, schema))

    @staticmethod
    def _stays_in(folder: Path, source: Any) -> bool:
        """Say whether all tables are files of the case, and not other files or databases that a spoilt schema names."""
        places = source.tables.values()
        return all(
            isinstance(item, Path) and item.resolve().is_relative_to(folder.resolve()) for item in places
        )

    @staticmethod
    def _counted(table: Any) -> None:
        key = table.schema.entity.id
        repr(table.truncated(key, 2, bytes(32)))

    def command(self, folder: Path) -> list[str]:
        return ["schema", "check", str(folder / "register.yaml")]


def _small_table(rows: int = 60) -> tuple[Any, pd.DataFrame]:
    from understudy.schema import Categorical, Integer, Ordinal, Schema

    generator = np.random.default_rng(0)
    schema = Schema(
        columns=(
            Ordinal("grade", values=("a", "b", "c")),
            Categorical("sex", values=("f", "m")),
            Integer("age", minimum=0, maximum=99, bins=3),
        )
    )
    frame = pd.DataFrame(
        {
            "grade": generator.choice(["a", "b", "c"], rows),
            "sex": generator.choice(["f", "m"], rows),
            "age": generator.integers(0, 99, rows),
        }
    )
    return schema, frame


class ModelReader(Reader):
    name = "model"
    methods: ClassVar[tuple[str, ...]] = ("mst", "independent", "laplace", "privbayes", "dpcopula", "sift")

    def good(self) -> list[Case]:
        return [{"m.understudy": self.made(method)} for method in self.methods]

    @staticmethod
    def made(method: str) -> bytes:
        """Return the file of a model of a small table."""
        from understudy.curator import Curator
        from understudy.data import read_table
        from understudy.mechanisms import create
        from understudy.privacy import ApproxDP, Ledger, Unit

        schema, frame = _small_table()
        budget = ApproxDP(5.0, 1e-6)
        book = Ledger.in_memory(budget=budget, unit=Unit.add_remove())
        curator = Curator(read_table(frame, schema), unit=Unit.add_remove(), ledger=book)
        model = create(method).fit(curator, budget)
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "m")
            return (Path(folder) / "m").read_bytes()

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        return self.spoil_model(data, other, generator)

    @staticmethod
    def spoil_model(data: bytes, other: bytes, generator: random.Random) -> bytes:
        """Spoil the archive, its description or its arrays."""
        if generator.random() < 0.25:
            return spoil_bytes(data, generator, other=other)
        try:
            members = unzip(data)
        except Exception:
            return spoil_bytes(data, generator, other=other)
        if not members:
            return data
        for _ in range(generator.choice((1, 1, 2))):
            member = "model.json" if generator.random() < 0.6 else generator.choice(sorted(members))
            if member == "model.json" and member in members:
                try:
                    tree = json.loads(members[member])
                except ValueError:
                    continue
                members[member] = dump(spoil_tree(tree, generator))
            elif generator.random() < 0.5 and member in members:
                members[member] = spoil_bytes(members[member], generator)
            else:
                buffer = io.BytesIO()
                shape = generator.choice(((), (0,), (1,), (3,), (3, 2), (6,), (3, 2, 3), (2, 2, 2, 2)))
                filler = generator.choice((0.0, -1.0, np.nan, np.inf, 1e308, 5))
                kind = generator.choice(("<f8", "<i8", "|u1", "|b1", "<f4"))
                with np.errstate(all="ignore"):
                    np.save(buffer, np.full(shape, filler).astype(kind))
                members[member] = buffer.getvalue()
        return make_zip(members)

    def read(self, folder: Path) -> None:
        from understudy.mechanisms import Model

        model = Model.load(folder / "m.understudy")
        repr(model)
        model.provenance.guarantee()
        model.sample(5, seed=0)

    def command(self, folder: Path) -> list[str]:
        return []


class LedgerReader(Reader):
    name = "ledger"

    def good(self) -> list[Case]:
        from understudy.privacy import ApproxDP, Ledger, PureDP, Unit
        from understudy.privacy.events import GaussianEvent, LaplaceEvent, PureEvent

        made = []
        for budget in (PureDP(5.0), ApproxDP(3.0, 1e-6)):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "a.ledger"
                with Ledger.create(path, budget=budget, unit=Unit.add_remove(), table="staff") as book:
                    book.note("begun", scope="fit")
                    for _ in range(6):
                        book.charge(LaplaceEvent(1.0, 8.0), purpose="measure", scope="fit")
                    book.charge(PureEvent(0.1), purpose="choose")
                    if isinstance(budget, ApproxDP):
                        book.charge(GaussianEvent(1.0, 30.0), purpose="measure")
                made.append({"a.ledger": path.read_bytes()})
        return made

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        if generator.random() < 0.5:
            return spoil_bytes(data, generator, other=other)
        lines = self._lines(data)
        if not lines:
            return spoil_bytes(data, generator, other=other)
        place = generator.randrange(len(lines))
        try:
            tree = json.loads(lines[place])
            text = json.dumps(spoil_tree(tree, generator), sort_keys=True, separators=(",", ":"))
        except (ValueError, RecursionError, TypeError):
            return spoil_bytes(data, generator, other=other)
        lines[place] = (
            text if generator.random() < 0.9 else spoil_bytes(text.encode(), generator).decode("latin-1")
        )
        return self._rebuilt(lines) or spoil_bytes(data, generator, other=other)

    def _lines(self, data: bytes) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a"
            path.write_bytes(data)
            connection = sqlite3.connect(path)
            try:
                found = connection.execute("SELECT body FROM line ORDER BY sequence").fetchall()
                return [str(row[0]) for row in found]
            except (sqlite3.Error, UnicodeDecodeError):
                return []
            finally:
                connection.close()

    def _rebuilt(self, lines: list[str]) -> bytes | None:
        """Write the lines into a new ledger whose chain of hashes is perfect."""
        from understudy.privacy.ledger import store

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a"
            connection = sqlite3.connect(path, isolation_level=None)
            try:
                store._fill(connection, lines[0])
                previous = connection.execute("SELECT hash FROM line").fetchone()[0]
                for number, text in enumerate(lines[1:], 1):
                    previous = store.append(connection, number, text, previous)
            except (sqlite3.Error, UnicodeError):
                return None
            finally:
                connection.close()
            return path.read_bytes()

    def read(self, folder: Path) -> None:
        from understudy.privacy import Ledger

        with Ledger.open(folder / "a.ledger", timeout=0.5) as book:
            book.entries()
            book.guarantee().describe()
            book.verify()

    def command(self, folder: Path) -> list[str]:
        return ["ledger", "verify", str(folder / "a.ledger")]


class BundleReader(Reader):
    name = "bundle"

    def good(self) -> list[Case]:
        from understudy.release.bundle.bundle import MANIFEST, bundle_files, write_bundle
        from understudy.release.run.run import run_release
        from understudy.release.spec.spec import Spec

        _, frame = _small_table(900)
        text = SPEC.replace("threshold: 0.1", "threshold: 0.9").replace("threshold: 5", "threshold: 15")
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            (here / "spec.yaml").write_text(text, encoding="utf-8")
            spec = Spec.read(here / "spec.yaml")
            for turn in range(10):
                result: Any = run_release(spec, ledger=here / f"{turn}.ledger", source=frame)
                if hasattr(result, "synthetic"):
                    break
            bundle = write_bundle(result, here / "bundle")
            return [{name: (bundle / name).read_bytes() for name in (MANIFEST, *bundle_files(bundle))}]

    def spoil(self, case: Case, generator: random.Random, corpus: Sequence[Case]) -> Case:
        spoilt = dict(case)
        names = sorted(spoilt)
        likely = [
            n
            for n in ("certificate.json", "MANIFEST.json", "schema.yaml", "data.csv", "spec.json")
            if n in spoilt
        ]
        name = generator.choice(likely if likely and generator.random() < 0.8 else names)
        if name.endswith((".json", ".yaml")):
            spoilt[name] = _spoil_plain(spoilt[name], b"", generator)
        else:
            spoilt[name] = spoil_bytes(spoilt[name], generator)
        if generator.random() < 0.05:
            spoilt[generator.choice(("x", "..\\x", "a b"))] = b"x"
        if name != "MANIFEST.json" and generator.random() < 0.85:
            spoilt["MANIFEST.json"] = self._manifest(spoilt)
        return spoilt

    def _manifest(self, case: Case) -> bytes:
        from understudy.release.bundle.bundle import manifest_text

        hashes = {n: hashlib.sha256(d).hexdigest() for n, d in case.items() if n != "MANIFEST.json"}
        return manifest_text(hashes).encode()

    def read(self, folder: Path) -> None:
        from understudy.release.bundle.reporting import bundle_report
        from understudy.release.bundle.verify import verify_bundle
        from understudy.report import release_page

        verify_bundle(folder)
        release_page(bundle_report(folder))

    def command(self, folder: Path) -> list[str]:
        return ["verify", str(folder)]


class LinkedBundleReader(BundleReader):
    """A bundle of linked tables whose specification was approved and agreed on; the record travels in the certificate."""

    name = "linked-bundle"

    def good(self) -> list[Case]:
        from understudy.release.bundle.bundle import MANIFEST, bundle_files
        from understudy.workflow import publish

        generator = np.random.default_rng(0)
        people = pd.DataFrame({"person": np.arange(300), "sex": generator.choice(["f", "m"], 300)})
        visits = pd.DataFrame(
            {"person": generator.integers(0, 300, 500), "urgent": generator.choice(["true", "false"], 500)}
        )
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            people.to_csv(here / "people.csv", index=False)
            visits.to_csv(here / "visits.csv", index=False)
            (here / "register.yaml").write_text(_REGISTER, encoding="utf-8")
            spec = _agreed_on(here, _LINKED_SPEC)
            with mock.patch.dict(
                os.environ, {"UNDERSTUDY_HOME": folder}
            ):  # a table that nobody else has seen
                publish(spec, out=here / "bundle", ledger=here / "register.ledger")
            bundle = here / "bundle"
            return [{name: (bundle / name).read_bytes() for name in (MANIFEST, *bundle_files(bundle))}]


class RegisterBundleReader(BundleReader):
    """A bundle of several tables of events: the tables with their keys, and a part for each table of events."""

    name = "register-bundle"

    def good(self) -> list[Case]:
        from understudy.release.bundle.bundle import MANIFEST
        from understudy.workflow import publish

        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            for name, table in _register_tables().items():
                table.to_csv(here / f"{name}.csv", index=False)
            (here / "register.yaml").write_text(_SEVERAL_TABLES, encoding="utf-8")
            (here / "spec.json").write_text(json.dumps(_SEVERAL_SPEC), encoding="utf-8")
            with mock.patch.dict(os.environ, {"UNDERSTUDY_HOME": folder}):
                publish(here / "spec.json", out=here / "bundle", ledger=here / "register.ledger")
            bundle = here / "bundle"
            files = [path for path in bundle.rglob("*") if path.is_file()]
            made = {path.relative_to(bundle).as_posix(): path.read_bytes() for path in files}
            assert {MANIFEST, f"parts/visits/{MANIFEST}"} <= set(made)
            return [made]

    def spoil(self, case: Case, generator: random.Random, corpus: Sequence[Case]) -> Case:
        """Spoil a file of the whole or of a part, mostly with manifests that are right again."""
        spoilt = dict(case)
        names = sorted(spoilt)
        likely = [name for name in names if name.endswith((".json", ".yaml")) or name.startswith("tables/")]
        name = generator.choice(likely if likely and generator.random() < 0.8 else names)
        plain = name.endswith((".json", ".yaml"))
        spoilt[name] = (
            _spoil_plain(spoilt[name], b"", generator) if plain else spoil_bytes(spoilt[name], generator)
        )
        if generator.random() < 0.05:
            del spoilt[generator.choice([item for item in names if item != name])]
        if generator.random() < 0.85:
            parts = {item.rpartition("/")[0] for item in spoilt if item.endswith("/MANIFEST.json")}
            for part in sorted(parts):
                if name != f"{part}/MANIFEST.json":
                    inside = {
                        item.removeprefix(f"{part}/"): data
                        for item, data in spoilt.items()
                        if item.startswith(f"{part}/")
                    }
                    spoilt[f"{part}/MANIFEST.json"] = self._manifest(inside)
            if name != "MANIFEST.json":
                spoilt["MANIFEST.json"] = self._manifest(spoilt)
        return spoilt

    def read(self, folder: Path) -> None:
        from understudy.release.bundle.reporting import bundle_report
        from understudy.release.bundle.verify import verify_bundle
        from understudy.report import release_page

        verify_bundle(folder)
        for part in sorted((folder / "parts").iterdir()):
            release_page(bundle_report(part))


class RegisterModelReader(Reader):
    """The models of several tables of events, kept in a folder with a list of them."""

    name = "register-model"

    def good(self) -> list[Case]:
        from understudy.privacy import Unit
        from understudy.workflow import synthesize

        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            (here / "register.yaml").write_text(
                _SEVERAL_TABLES.replace("source", "description"), encoding="utf-8"
            )
            made = synthesize(
                _register_tables(),
                schema=here / "register.yaml",
                unit=Unit.add_remove_person("person", max_rows=2),
                method="mst",
                epsilon=8.0,
                delta=1e-6,
                ledger="memory",
                seed=1,
            )
            assert made.register is not None
            made.register.save(here / "models")
            files = [path for path in (here / "models").rglob("*") if path.is_file()]
            return [{path.relative_to(here / "models").as_posix(): path.read_bytes() for path in files}]

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        if name.endswith(".understudy"):
            return ModelReader.spoil_model(data, other, generator)
        return _spoil_plain(data, other, generator)

    def spoil(self, case: Case, generator: random.Random, corpus: Sequence[Case]) -> Case:
        """Spoil a model or the list, mostly under a list whose hashes are right."""
        from understudy.mechanisms.events.register import LIST

        spoilt = super().spoil(case, generator, corpus)
        if spoilt[LIST] == case[LIST] and generator.random() < 0.85:
            try:
                document = json.loads(case[LIST])
                for item in document["tables"]:
                    item["sha256"] = hashlib.sha256(spoilt[f"{item['name']}.understudy"]).hexdigest()
            except (ValueError, RecursionError, LookupError, TypeError):
                return spoilt
            spoilt[LIST] = dump(document)
        return spoilt

    def read(self, folder: Path) -> None:
        from understudy.mechanisms.events.register import RegisterModel

        model = RegisterModel.load(folder)
        repr(model)
        model.sample_tables(3, seed=0)

    def command(self, folder: Path) -> list[str]:
        return ["sample", str(folder), "--rows", "5", "--seed", "1", "--out", str(folder.parent / "drawn")]


def _register_tables() -> dict[str, pd.DataFrame]:
    """Return people with two tables of events, made up."""
    generator = np.random.default_rng(0)
    return {
        "people": pd.DataFrame({"person": np.arange(300), "sex": generator.choice(["f", "m"], 300)}),
        "visits": pd.DataFrame(
            {"person": generator.integers(0, 300, 500), "urgent": generator.choice(["true", "false"], 500)}
        ),
        "bills": pd.DataFrame(
            {"person": generator.integers(0, 300, 400), "paid": generator.choice(["true", "false"], 400)}
        ),
    }


_SEVERAL_TABLES = """
tables:
  - {name: people, key: person, source: people.csv, columns: [{name: sex, kind: categorical, values: [f, m]}]}
  - {name: visits, belongs_to: people, source: visits.csv, max_events: 5, columns: [{name: urgent, kind: boolean}]}
  - {name: bills, belongs_to: people, source: bills.csv, max_events: 3, columns: [{name: paid, kind: boolean}]}
"""
_SEVERAL_SPEC = {
    "name": "register",
    "source": {},
    "schema": "register.yaml",
    "unit": {"relation": "add-remove", "id_column": "person", "max_rows": 2},
    "synthesizers": [{"method": "mst"}],
    "acceptance": {
        "form": "pass-only",
        "epsilon": 4.0,
        "criteria": [
            {"name": "urgent", "table": "visits", "kind": "event-rates", "column": "urgent", "values": ["true"], "threshold": 0.9},
            {"name": "paid", "table": "bills", "kind": "event-rates", "column": "paid", "values": ["true"], "threshold": 0.9},
        ],
    },
    "selection": {"rule": "single"},
    "budget": {"total": {"epsilon": 14.0}, "model": {"epsilon": 9.0}},
    "seed": 1,
}  # fmt: skip

_REGISTER = """
tables:
  - {name: people, key: person, source: people.csv, columns: [{name: sex, kind: categorical, values: [f, m]}]}
  - {name: visits, belongs_to: people, source: visits.csv, max_events: 5, columns: [{name: urgent, kind: boolean}]}
"""
_LINKED_SPEC = {
    "name": "register",
    "source": {},
    "schema": "register.yaml",
    "unit": {"relation": "add-remove", "id_column": "person", "max_rows": 2},
    "synthesizers": [{"method": "mst"}],
    "approvals": {"required": ["owner"]},
    "acceptance": {
        "form": "pass-only",
        "epsilon": 2.0,
        "criteria": [{"name": "rate", "kind": "event-rates", "column": "urgent", "values": ["true"], "threshold": 0.9}],
    },
    "selection": {"rule": "single"},
    "budget": {"total": {"epsilon": 12.0}, "model": {"epsilon": 8.0}},
    "seed": 1,
}  # fmt: skip


def _agreed_on(folder: Path, plain: dict[str, Any]) -> Path:
    """Write a specification with an approval and the record of an agreement, as the studio does."""
    from understudy.release.agreement import Agreement, Comment
    from understudy.release.approvals import approve, specification_hash
    from understudy.release.spec.spec import Spec

    path = folder / "spec.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    file, said = approve(path, role="owner", name="Ada Berg")
    file.unlink()
    wanted = specification_hash(Spec.read(path))
    comments = [Comment("lawyer", "Bo", "Why 2?", "2026-11-16 10:00 UTC", wanted[:12])]
    record = Agreement.make(wanted, [said], comments, published=True)
    (folder / "agreement.json").write_text(json.dumps(record.to_dict(), indent=2), encoding="utf-8")
    path.write_text(
        json.dumps(plain | {"agreement": {"file": "agreement.json", "sha256": record.hash}}), encoding="utf-8"
    )
    return path


class AgreementReader(Reader):
    """A specification and the record of its agreement."""

    name = "agreement"

    def good(self) -> list[Case]:
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            plain = yaml.safe_load(SPEC) | {"approvals": {"required": ["owner"]}}
            _agreed_on(here, plain)
            return [{name: (here / name).read_bytes() for name in ("spec.json", "agreement.json")}]

    def spoil(self, case: Case, generator: random.Random, corpus: Sequence[Case]) -> Case:
        """Spoil the record, mostly with a specification that names the spoilt one."""
        if generator.random() < 0.1:
            return super().spoil(case, generator, corpus)
        other = generator.choice(corpus).get("agreement.json", b"")
        record = self.spoil_file("agreement.json", case["agreement.json"], other, generator)
        return case | {"agreement.json": record}

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        return _spoil_plain(data, other, generator)

    def read(self, folder: Path) -> None:
        from understudy.release.agreement import agreed, agreement_problems
        from understudy.release.spec.spec import Spec

        spec = Spec.read(folder / "spec.json")
        try:
            record = json.loads((folder / "agreement.json").read_bytes())
        except (ValueError, RecursionError):
            record = None
        agreement_problems(spec.to_dict(), {"agreement": record, "approvals": []})  # as a certificate has it
        agreed(spec, ())

    def command(self, folder: Path) -> list[str]:
        return ["plan", str(folder / "spec.json")]


class HoldOutReader(Reader):
    """The private file that says which rows a fit did not read."""

    name = "hold-out"
    private = True

    def good(self) -> list[Case]:
        from understudy.data.holdout import HoldOut

        frame = pd.DataFrame({"person": [f"{CANARY}{k}" for k in range(6)]})
        made = []
        with tempfile.TemporaryDirectory() as folder:
            for by in (None, "person"):
                path = Path(folder) / "key"
                HoldOut.of(frame, 0.3, id_column=by).write(path)
                made.append({"hold-out.json": path.read_bytes()})
                path.unlink()
        return made

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        return _spoil_plain(data, other, generator)

    def read(self, folder: Path) -> None:
        from understudy.data.holdout import HoldOut

        path = folder / "hold-out.json"
        path.chmod(0o600)
        found = HoldOut.read(path)
        repr(found)
        found.fingerprint()
        frame = pd.DataFrame({"person": [f"{CANARY}{k}" for k in range(6)]})
        found.frame(frame)
        found.require(frame)

    def command(self, folder: Path) -> list[str]:
        return []


class PriorReader(Reader):
    """Public data that a fit leans on: a table or a model."""

    name = "prior"

    def good(self) -> list[Case]:
        model = ModelReader.made("mst")
        return [{"prior.csv": _small_table()[1].to_csv(index=False).encode()}, {"prior.understudy": model}]

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        if name == "prior.understudy":
            return ModelReader.spoil_model(data, other, generator)
        return spoil_bytes(data, generator, other=other)

    def read(self, folder: Path) -> None:
        from understudy.mechanisms.marginal.public import as_public
        from understudy.workflow.public_data import read_prior

        schema, _ = _small_table()
        found = read_prior(next(folder.iterdir()), schema)
        columns = {
            name: np.full(size, 1.0)
            for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True)
        }
        as_public(found, [("grade", "sex"), ("grade", "age")], columns)

    def command(self, folder: Path) -> list[str]:
        from understudy.schema.files.yaml import write_plain

        write_plain(_small_table()[0].to_dict(), folder.parent / "schema.yaml")
        return [
            "plan", "--schema", str(folder.parent / "schema.yaml"), "--epsilon", "1", "--delta", "1e-6", "--unit", "add-remove",
            "--method", "sift", "--prior", str(next(folder.iterdir())),
        ]  # fmt: skip


class JournalReader(Reader):
    """The paid answers of a fit that was interrupted, with their ledger."""

    name = "journal"
    _WORK: ClassVar[dict[str, Any]] = {"method": "fuzz"}

    def good(self) -> list[Case]:
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            self._asked(here)
            return [{name: (here / name).read_bytes() for name in ("a.ledger", "journal")}]

    def _asked(self, folder: Path) -> None:
        from understudy.curator import Curator, Journal, SealedScalar
        from understudy.data import read_table
        from understudy.privacy import Laplace, Ledger, PureDP, Unit

        schema, frame = _small_table()
        path, terms = folder / "a.ledger", {"budget": PureDP(50.0), "unit": Unit.add_remove()}
        book = Ledger.open(path, timeout=0.5) if path.exists() else Ledger.create(path, **terms, table="t")
        with book:
            journal = Journal(folder / "journal", ledger=book, work=self._WORK)
            curator = Curator(read_table(frame, schema), unit=Unit.add_remove(), ledger=book, journal=journal)
            for clique in (("sex",), ("grade", "age"), ()):
                curator.measure(curator.counts(clique), noise=Laplace(1.0))
            curator.measure_scalar(SealedScalar(3, sensitivity=1.0), noise=Laplace(1.0), purpose="a number")

    def spoil(self, case: Case, generator: random.Random, corpus: Sequence[Case]) -> Case:
        return case | {"journal": self.spoil_file("journal", case["journal"], b"", generator)}

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        """Spoil bytes, or the text of a line under a hash that is right."""
        lines, place = [], 0
        while place + 48 <= len(data):
            size = int.from_bytes(data[place : place + 8], "big")
            lines.append(data[place + 40 : place + 40 + size])
            place += 40 + size
        if place != len(data) or generator.random() < 0.3:
            return spoil_bytes(data, generator, other=other)
        which = generator.randrange(len(lines))
        long = int.from_bytes(lines[which][:8], "big")
        try:
            head = json.loads(lines[which][8 : 8 + long])
            spoilt = spoil_tree(head, generator)
            if isinstance(spoilt, dict) and isinstance(head, dict) and "value" in head:
                spoilt["value"] = self._value(head["value"], generator)
            text = dump(spoilt)
        except (ValueError, RecursionError):
            return spoil_bytes(data, generator, other=other)
        told = len(text) if generator.random() < 0.9 else generator.choice((0, 1, 2**40, 2**63))
        lines[which] = told.to_bytes(8, "big") + text + lines[which][8 + long :]
        return b"".join(len(line).to_bytes(8, "big") + hashlib.sha256(line).digest() + line for line in lines)

    @staticmethod
    def _value(value: Any, generator: random.Random) -> Any:
        """Return an answer with what is said of its arrays spoilt; another number is the owner's own doing."""
        if isinstance(value, list):
            return [JournalReader._value(item, generator) for item in value]
        spoilt = (
            spoil_tree(value, generator) if isinstance(value, dict) and generator.random() < 0.3 else value
        )
        return spoilt if isinstance(spoilt, type(value)) else value

    def read(self, folder: Path) -> None:
        self._asked(folder)

    def command(self, folder: Path) -> list[str]:
        return []


CODEBOOK = """<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
  <var name="sex"><labl>Sex</labl><catgry><catValu>1</catValu><labl>male</labl></catgry><catgry missing="Y"><catValu>9</catValu></catgry></var>
  <var name="age" intrvl="discrete"><valrng><range min="0" max="90"/></valrng><varFormat type="numeric"/></var>
  <var name="pay" intrvl="contin"><valrng><range min="0" max="1000"/></valrng><varFormat type="numeric"/></var>
</dataDscr></codeBook>
"""
_FIELDS = [
    {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}, "missingValues": ["", "?"]},
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 90}},
    {"name": "came", "type": "date", "constraints": {"minimum": "2020-01-01", "maximum": "2021-12-31"}},
    {"name": "ill", "type": "boolean", "trueValues": ["y"], "falseValues": ["n"]},
]
OTHER_TOOLS: dict[str, Any] = {
    "mbi-domain.json": {"age": 85, "sex": 2},
    "lists.json": {"attributes": ["a", "b"], "shape": [2, 3]},
    "domain.yaml": {
        "age": {"min_value": 10.0, "max_value": 50.0, "dtype": "int", "clip_to_range": True},
        "cut": {"min_value": 0, "max_value": 3, "bin_edges": [0, 1, 3], "interval_handling": "interval"},
        "sex": {"possible_values": ["M", "F", None], "out_of_domain_index": 0},
    },
    "metadata.json": {
        "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
        "primary_key": "key",
        "columns": {"ill": {"sdtype": "boolean"}, "key": {"sdtype": "id", "regex_format": "G[0-9]+"}},
    },
    "datapackage.json": {"name": "staff", "resources": [{"name": "t", "path": "t.csv", "schema": {"fields": _FIELDS, "missingValues": [""]}}]},
    "tableschema.json": {"fields": _FIELDS},
    "croissant.json": {
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "recordSet": [
            {"@type": "cr:RecordSet", "@id": "sexes", "dataType": "sc:Enumeration", "field": [{"@type": "cr:Field", "@id": "sexes/name", "dataType": "sc:Text"}], "data": [{"name": "f"}, {"name": "m"}]},
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "field": [
                    {"@type": "cr:Field", "@id": "rows/ill", "name": "ill", "dataType": "sc:Boolean"},
                    {"@type": "cr:Field", "@id": "rows/sex", "name": "sex", "dataType": "sc:Text", "references": {"field": {"@id": "sexes/name"}}},
                ],
            },
        ],
    },
}  # fmt: skip
"""Descriptions of tables as other tools write them."""


class DictionaryReader(Reader):
    """Domain files, metadata and codebooks of other tools."""

    name = "dictionary"

    def good(self) -> list[Case]:
        made: list[Case] = [{"codebook.xml": CODEBOOK.encode()}]
        for name, plain in OTHER_TOOLS.items():
            text = json.dumps(plain) if name.endswith("json") else yaml.safe_dump(plain, sort_keys=False)
            made.append({name: text.encode()})
        return made

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        return (
            self._spoil_codebook(data, other, generator)
            if name.endswith("xml")
            else _spoil_plain(data, other, generator)
        )

    @staticmethod
    def _spoil_codebook(data: bytes, other: bytes, generator: random.Random) -> bytes:
        """Spoil bytes, or put, move or take away whole tags, values and the words of the declaration."""
        if generator.random() < 0.4:
            return spoil_bytes(data, generator, other=other)
        pieces = re.findall(rb"<[^<>]*>|[^<>]+", data) or [data]
        place = generator.randrange(len(pieces))
        what = generator.randrange(5)
        if what == 0:
            del pieces[place]
        elif what == 1:
            pieces.insert(place, generator.choice(pieces))
        elif what == 2:
            pieces[place] = re.sub(rb'"[^"]*"', lambda _: b'"%s"' % generator.choice(_WORDS), pieces[place])
        elif what == 3:
            pieces[place] = generator.choice(_WORDS)
        else:
            pieces.insert(0, generator.choice(_WORDS))
        return b"".join(pieces)

    def read(self, folder: Path) -> None:
        from understudy.schema import Schema, import_schema

        found = import_schema(next(folder.iterdir()))
        Schema.parse(found.to_yaml()).describe()

    def command(self, folder: Path) -> list[str]:
        return [
            "schema",
            "import",
            str(next(folder.iterdir())),
            "--out",
            str(folder.parent / "imported.yaml"),
        ]


_WORDS = (
    b"", b"0", b"-1", b"1e400", b"NaN", b"UTF-16", b"UTF-7", b"shift_jis", b"no such encoding", b"Y" * 300, b"\xef\xbb\xbf", b"\x00", b"]]>",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"<?xml version='1.0' encoding='cp037'?>", b"&b;", b"&#0;", b"&#55296;", b"2020-02-30", b"numeric",
)  # fmt: skip


class StatementReader(Reader):
    """What a stranger sends beside a bundle: a signed statement, a public key, the anchor of a ledger."""

    name = "statement"

    def good(self) -> list[Case]:
        from understudy.privacy import Ledger, PureDP, Unit
        from understudy.signatures import Keyring, Statement

        with tempfile.TemporaryDirectory() as folder:
            ring = Keyring(Path(folder))
            key = ring.new("ada", name="Ada Berg").public
            said = Statement(
                meaning="approved",
                kind="specification",
                hash="ab" * 32,
                subject="births",
                role="lawyer",
                name="Ada Berg",
                date="2026-11-16",
            )
            texts = [said.to_text(), ring.sign(said).to_text(), key.to_text()]
            book = Ledger.in_memory(budget=PureDP(1.0), unit=Unit.add_remove(), table="t")
            texts.append(json.dumps(book.anchor().to_dict()))
        return [{"file": text.encode()} for text in texts]

    def spoil_file(self, name: str, data: bytes, other: bytes, generator: random.Random) -> bytes:
        return _spoil_plain(data, other, generator)

    def read(self, folder: Path) -> None:
        from understudy.errors import LedgerError, SignatureError
        from understudy.privacy.ledger.anchors import anchor_in, anchors_near
        from understudy.signatures import PublicKey, parse_statement

        path = folder / "file"
        content = path.read_bytes()
        path.rename(folder / "file.anchor")
        list(anchors_near([folder]))  # passes over what is none
        readings: tuple[Callable[[], Any], ...] = (
            lambda: (parse_statement(content).holds(), parse_statement(content).describe()),
            lambda: PublicKey.parse(content).fingerprint,
            lambda: anchor_in(folder / "file.anchor").describe(),
        )
        refused: UnderstudyError = SignatureError("It is nothing of all that.")
        for reading in readings:
            try:
                reading()
            except (SignatureError, LedgerError) as error:
                refused = error
            else:
                return
        raise refused

    def command(self, folder: Path) -> list[str]:
        return []  # to trust a key is to write into the user's own folder


READERS: dict[str, type[Reader]] = {
    kind.name: kind
    for kind in (
        SchemaReader,
        SpecReader,
        CsvReader,
        ParquetReader,
        LinkedReader,
        ModelReader,
        LedgerReader,
        BundleReader,
        LinkedBundleReader,
        RegisterBundleReader,
        RegisterModelReader,
        AgreementReader,
        HoldOutReader,
        PriorReader,
        JournalReader,
        DictionaryReader,
        StatementReader,
    )
}
