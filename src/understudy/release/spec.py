"""The specification of a release: everything that is decided before any record is read.

A specification is a file (YAML or JSON) whose keys :mod:`understudy.release._spec_model` describes. Reading one
checks all of it against the schema and against itself, and reports everything wrong at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

from understudy.data import Database, Derived, Preparation
from understudy.errors import WorkloadError
from understudy.marginals import Workload, parse_workload
from understudy.privacy import Budget, Unit
from understudy.release._spec_budget import Shares
from understudy.release._spec_criteria import (
    CriterionWords,
    build_criterion,
    column_sets,
    words_of,
)
from understudy.release._spec_model import json_schema
from understudy.release.criteria import Criterion
from understudy.release.projection import KAnonymity, MinimalOccurrence, NoProjection, Projection
from understudy.release.result import Configuration
from understudy.release.selection_accounting import Attempts
from understudy.schema import Column, Constraint, Schema
from understudy.schema.files import parse_plain, read_plain
from understudy.synthesizers import Synthesizer, create

__all__ = ["RowCount", "Simulated", "Source", "Spec"]


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A simulated table instead of a private one."""

    table: str
    rows: int
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the private table is and how it is read.

    Attributes
    ----------
    path, simulated, database
        A file or folder, a simulated table, or a table of a database; none if the table is given when the release
        is run.
    table
        Public name of the table, for the ledger.
    separator, encoding
        For CSV files.
    derived
        Columns computed while reading.
    """

    path: Path | None = None
    simulated: Simulated | None = None
    database: Database | None = None
    table: str = ""
    separator: str | None = None
    encoding: str | None = None
    derived: tuple[Derived, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RowCount:
    """How the number of rows to release is known.

    ``given``: declared public, with its value. ``declared``: declared public whatever it is, read from the
    table. ``measured``: private, measured with Laplace noise for ``epsilon``. ``invariant``: equal in all
    neighbouring tables. ``chosen``: private; the number of synthetic rows was chosen freely.
    """

    kind: Literal["given", "declared", "measured", "invariant", "chosen"]
    value: int | None = None
    epsilon: float = 0.0

    def condition(self, unit: Unit) -> str:
        """Say what the promise presumes because the number of rows was declared public, if it was."""
        if self.kind not in ("given", "declared"):
            return ""
        if unit.relation == "replace-one" and unit.max_rows == 1:
            return (
                "The number of rows is declared public: the promise compares tables with equally many rows."
            )
        return (
            "The number of rows is declared public, and neighbouring tables differ in it: the promise is about "
            "everything else that is released. Two tables with equally many rows that differ in the records of "
            "one unit are two steps apart, which doubles every epsilon (and more than doubles a delta)."
        )

    def words(self) -> str:
        """Say it in one sentence."""
        return {
            "given": f"The number of rows, {self.value or 0:,}, is public; the promise compares tables with equally many.",
            "declared": "The number of rows (after cleaning) is declared to be public, whatever it is; the promise "
            "compares tables with equally many.",
            "measured": f"The number of rows is private and measured with epsilon={self.epsilon:g}.",
            "invariant": "The number of rows is the same in all neighbouring tables.",
            "chosen": f"The number of rows is private; {self.value or 0:,} synthetic rows were asked for.",
        }[self.kind]


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """A complete and checked specification.

    Use `Spec.read` or `Spec.from_dict`; the fields are what they make of the file.

    Privacy
    -------
    A specification is public and is published with the release: it must not hold anything learnt from the
    records.

    Examples
    --------
    >>> spec = Spec.parse('''
    ... name: tiny
    ... source: {simulate: {table: toy, rows: 500}}
    ... schema: {columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]}
    ... unit: replace-one
    ... synthesizers: [{method: independent}]
    ... acceptance:
    ...   form: pass-only
    ...   epsilon: 0.1
    ...   criteria: [{name: cells, kind: max-marginal-error, threshold: 0.1}]
    ... selection: {rule: single}
    ... budget: {total: {epsilon: 1.1}, model: {epsilon: 1}}
    ... ''')
    >>> spec
    Spec('tiny': 1 configuration, 1 criterion, epsilon=1.1 (pure differential privacy))
    >>> spec.configurations[0].name
    'independent; no projection'
    """

    name: str
    title: str = ""
    description: str = ""
    license: str = ""
    citation: str = ""
    source: Source
    schema: Schema
    unit: Unit
    row_count: RowCount
    expected_rows: int | None = None
    cleaning: tuple[Constraint, ...] = ()
    transformations: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)
    configurations: tuple[Configuration, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    form: Literal["pass-only", "published"]
    false_accept: float = 0.05
    criteria: tuple[Mapping[str, Any], ...]
    attempts: Attempts
    shares: Shares
    formats: tuple[str, ...] = ("csv",)
    folder: Path | None = None
    seed: int | None = None
    ledger: Path | None = None
    plain: Mapping[str, Any] = field(repr=False)
    where: Path = field(default=Path(), repr=False)

    # ------------------------------------------------------------------ files

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Spec:
        """Read a specification from a YAML or JSON file; paths inside are relative to the file."""
        file = Path(path)
        return cls.from_dict(read_plain(file), where=file.parent)

    @classmethod
    def parse(cls, text: str, *, where: str | os.PathLike[str] = ".") -> Spec:
        """Read a specification from YAML text."""
        return cls.from_dict(parse_plain(text), where=where)

    @classmethod
    def from_dict(cls, plain: object, *, where: str | os.PathLike[str] = ".") -> Spec:
        """Build a specification from plain lists and mappings.

        Raises
        ------
        SchemaError
            Listing everything wrong at once, each with its place in the file.
        """
        from understudy.release._spec_read import build

        return build(plain, Path(where))

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """Return the JSON Schema of specification files, for editors."""
        return json_schema()

    def to_dict(self) -> dict[str, Any]:
        """Return the specification as it may be published: complete with its schema, without local paths."""
        plain = json.loads(json.dumps(self.plain))
        plain["schema"] = self.schema.to_dict()
        plain["source"] = {
            key: value for key, value in plain["source"].items() if key not in ("path", "database")
        }
        plain["source"]["table"] = self.source.table
        plain.pop("ledger", None)
        if isinstance(plain.get("output"), dict):
            plain["output"].pop("folder", None)
        return dict(plain)

    def fingerprint(self) -> str:
        """Return a SHA-256 of everything that decides what the release does."""
        content = self.to_dict() | {
            "row_count": [self.row_count.kind, self.row_count.value, self.row_count.epsilon]
        }
        for key in ("title", "description", "license", "citation"):
            content.pop(key, None)
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(b"understudy release\n" + text.encode("ascii")).hexdigest()

    # ------------------------------------------------------------------ public parts

    @property
    def total(self) -> Budget:
        """The promise about everything the release does."""
        return self.shares.total

    @property
    def preparation(self) -> Preparation:
        """What happens to each raw record before it is encoded."""
        return Preparation(derived=self.source.derived, rules=self.cleaning)

    @cached_property
    def synthetic_rules(self) -> tuple[Any, ...]:
        """Rules that synthetic records obey, as a schema takes them."""
        own = self.plain.get("constraints") or ()
        return (*(rule.to_plain() for rule in self.schema.constraints), *own)

    def schema_for(self, configuration: Configuration) -> Schema:
        """Return the schema of a transformation: its columns, and the rules synthetic records obey."""
        chosen = {
            column: self.transformations[column][label]
            for column, label in configuration.transformations.items()
        }
        columns = tuple(chosen.get(column.name, column) for column in self.schema.columns)
        return replace(self.schema, columns=columns, constraints=self.synthetic_rules, row_count=None)

    def schemas(self) -> dict[tuple[str, ...], Schema]:
        """Return the schema of every distinct transformation in use, by the names of the alternatives."""
        found: dict[tuple[str, ...], Schema] = {}
        for configuration in self.configurations:
            key = tuple(configuration.transformations.values())
            if key not in found:
                found[key] = self.schema_for(configuration)
        return found

    def synthesizer_for(self, configuration: Configuration, schema: Schema) -> Synthesizer:
        """Return the synthesizer of a configuration."""
        options = dict(configuration.options)
        if "workload" in options:
            options["workload"] = workload_of(options["workload"], schema, self.where)
        return create(configuration.method, **options)

    def projection_for(self, configuration: Configuration, schema: Schema) -> Projection:
        """Return the projection of a configuration."""
        return projection_of(configuration.projection, schema)

    def least_rows(self, configurations: Iterable[Configuration] | None = None) -> int:
        """Return how many rows the projections of some configurations (by default all) need at least."""
        chosen = self.configurations if configurations is None else configurations
        return max(
            (self.projection_for(item, self.schema_for(item)).least_rows for item in chosen), default=1
        )

    def criteria_for(self, schema: Schema) -> tuple[Criterion, ...]:
        """Return the acceptance criteria over the codes of a transformation."""
        return tuple(build_criterion(plain, schema, cleaning=self.cleaning) for plain in self.criteria)

    def words_for(self, schema: Schema) -> tuple[CriterionWords, ...]:
        """Return type, metric and unit of each criterion in words."""
        return tuple(words_of(plain, schema) for plain in self.criteria)

    def epsilons(self) -> tuple[float | None, ...]:
        """Return what releasing the error of each criterion costs in the published form."""
        return tuple(plain.get("epsilon") for plain in self.criteria)

    def public_facts(self) -> dict[str, Any]:
        """Return what is treated as public knowledge, in words."""
        return {
            "number of rows": self.row_count.words(),
            "domain": f"the {len(self.schema.names)} columns, their possible values and bins (the schema)",
            "cleaning rules": [rule.text for rule in self.cleaning],
            "synthetic rules": [
                rule if isinstance(rule, str) else str(rule.get("rule")) for rule in self.synthetic_rules
            ],
            "derived columns": [f"{item.name} from {item.source}" for item in self.source.derived],
        }

    def with_row_count(self, value: int) -> Spec:
        """Return the specification with the number of rows declared public as ``value``."""
        plain = json.loads(json.dumps(self.plain))
        plain["public"] = {**(plain.get("public") or {}), "row_count": value}
        return Spec.from_dict(plain, where=self.where)

    def with_source(self, path: str | os.PathLike[str] | Database) -> Spec:
        """Return the specification with another source: a file, relative to the working directory, or a `Database`."""
        plain = json.loads(json.dumps(self.plain))
        others = ("simulate", "path", "database")
        plain["source"] = {key: value for key, value in plain["source"].items() if key not in others}
        if isinstance(path, Database):
            plain["source"]["database"] = {"url": path.url, "table": path.table, "immutable": path.immutable}
        else:
            plain["source"]["path"] = str(Path(path).absolute())
        return Spec.from_dict(plain, where=self.where)

    def __repr__(self) -> str:
        def number(count: int, word: str, words: str) -> str:
            return f"{count} {word if count == 1 else words}"

        return (
            f"Spec({self.name!r}: {number(len(self.configurations), 'configuration', 'configurations')}, "
            f"{number(len(self.criteria), 'criterion', 'criteria')}, {self.total.describe()})"
        )


def workload_of(words: Any, schema: Schema, where: Path = Path()) -> Workload:
    """Return a workload from the words of a specification.

    A word or file name as on the command line (``all-2way``), or a mapping to weights, which add up, from such
    words, from columns or combinations of columns (``age, sex``), and from all combinations within some columns
    (``all-2way among age, sex, size``).

    Examples
    --------
    >>> from understudy.schema import Boolean
    >>> schema = Schema([Boolean("a"), Boolean("b")])
    >>> dict(workload_of({"all-1way": 1, "a, b": 2, "b": 0.5}, schema))
    {('a',): 1.0, ('b',): 1.5, ('a', 'b'): 2.0}
    """
    domain = schema.domain
    if isinstance(words, str):
        beside = where / words
        return parse_workload(domain, str(beside) if beside.is_file() else words)
    if not isinstance(words, Mapping) or not words:
        raise WorkloadError(
            "a workload is a word such as all-2way, a file, or a mapping from marginals to weights"
        )
    weights: dict[tuple[str, ...], float] = {}
    for name, weight in words.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not abs(weight) < 1e300:
            raise WorkloadError(f"the weight of {name!r} in a workload must be a number below 1e300")
        for clique, share in _marginals(str(name), schema):
            weights[clique] = weights.get(clique, 0.0) + share * float(weight)
    return Workload(domain, tuple(weights), tuple(weights.values()))


def _marginals(words: str, schema: Schema) -> list[tuple[tuple[str, ...], float]]:
    """Return the marginals that the words of one entry of a workload stand for, with their weights."""
    domain = schema.domain
    kind, among, rest = words.partition(" among ")
    columns = [part.strip() for part in (rest if among else words).split(",")]
    if among:
        part = domain.project(domain.canonical(columns))
        return list(parse_workload(part, kind.strip()))
    if all(column in domain for column in columns):
        return [(domain.canonical(columns), 1.0)]
    return list(parse_workload(domain, words))


def projection_of(plain: Mapping[str, Any], schema: Schema) -> Projection:
    """Return a projection from its words in a specification."""
    kind = plain.get("kind", "none")
    if kind == "minimal-occurrence":
        return MinimalOccurrence(min_count=plain["min_count"], algorithm=plain.get("algorithm", "direct"))
    if kind == "k-anonymity":
        return KAnonymity(k=plain["k"], column_sets=column_sets(plain, schema))
    return NoProjection()


def all_options(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of options, a list standing for alternatives.

    Examples
    --------
    >>> all_options({"norm": ["l1", "l2"], "max_model_mb": 20})
    [{'norm': 'l1', 'max_model_mb': 20}, {'norm': 'l2', 'max_model_mb': 20}]
    """
    choices = [value if isinstance(value, list) else [value] for value in options.values()]
    return [dict(zip(options, chosen, strict=True)) for chosen in product(*choices)]
