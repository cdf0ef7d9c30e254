"""The specification of a release: everything that is decided before any record is read.

A specification is a file (YAML or JSON) whose keys :mod:`understudy.release.spec.model` describes. Reading one
checks all of it against the schema and against itself, and reports everything wrong at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from understudy.curator import table_facts
from understudy.data import Database, Preparation
from understudy.data.linked import linked_in
from understudy.data.prepare import rule_meaning
from understudy.data.sql.source import is_database
from understudy.engine import GraphicalModel
from understudy.errors import DataError, SchemaError, UnderstudyError
from understudy.mechanisms import Plan, Synthesizer
from understudy.privacy import Budget, Unit
from understudy.privacy.facts import Facts, fingerprint_of
from understudy.privacy.guarantee import ALSO_MEASURED, Condition, condition_of
from understudy.privacy.ledger.ledger import Invariant
from understudy.release.criteria.base import Criterion, CriterionConfig, CriterionContext
from understudy.release.projection import Projection
from understudy.release.result import Configuration
from understudy.release.selection.accounting import Attempts
from understudy.release.spec.budget import Shares
from understudy.release.spec.facts import register_facts
from understudy.release.spec.model import SpecPart, json_schema, projection_part
from understudy.release.spec.reading import PublisherPart
from understudy.release.spec.source import RowCount, Source
from understudy.release.spec.space import counted_schema, synthesizer_of
from understudy.schema import Column, Constraint, Schema
from understudy.schema.files.assembly import parse_rules
from understudy.schema.files.yaml import parse_plain, read_plain
from understudy.schema.linked import Register

__all__ = ["PRIOR_METHODS", "RowCount", "Source", "Spec", "read_facts"]

PRIOR_METHODS = ("aim", "gaussian")
"""Methods that can start from a model of public data."""


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

    file: SpecPart = field(repr=False)
    source: Source
    schema: Schema
    unit: Unit
    row_count: RowCount
    cleaning: tuple[Constraint, ...] = ()
    transformations: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)
    configurations: tuple[Configuration, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    attempts: Attempts
    shares: Shares
    made: dict[tuple[str, ...], Schema] = field(default_factory=dict, repr=False)
    plain: Mapping[str, Any] = field(repr=False)
    where: Path = field(default=Path(), repr=False)
    register: Register | None = field(default=None, repr=False)
    """Of several tables of events: the tables."""
    parts: Mapping[str, Spec] = field(default_factory=dict, repr=False)
    """Of several tables of events: by table, the specification of the entities with that table alone (:mod:`understudy.release.spec.register`)."""

    # ------------------------------------------------------------------ files

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Spec:
        """Read a specification from a YAML or JSON file; paths inside are relative to the file that holds them."""
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
        from understudy.release.spec.read import build

        return build(plain, Path(where))

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """Return the JSON Schema of specification files, for editors."""
        return json_schema()

    def to_dict(self) -> dict[str, Any]:
        """Return the specification as it may be published: complete with its schema, without local paths."""
        plain = json.loads(json.dumps(self.plain))
        plain["schema"] = (
            self.schema.to_dict() if self.register is None else self.register.described(self.schema)
        )
        plain["source"] = {
            key: value for key, value in plain["source"].items() if key not in ("path", "database", "tables")
        }
        plain["source"]["table"] = self.source.table
        plain.pop("ledger", None)
        if isinstance(plain.get("output"), dict):
            plain["output"].pop("folder", None)
        if isinstance(plain.get("previous"), dict):
            plain["previous"].pop("bundle", None)
        if isinstance(plain.get("agreement"), dict):
            plain["agreement"].pop("file", None)
        return dict(plain)

    def fingerprint(self) -> str:
        """Return a SHA-256 of everything that decides what the release does."""
        content = self.to_dict() | {
            "row_count": [self.row_count.kind, self.row_count.value, self.row_count.epsilon]
        }
        for key in ("title", "description", "license", "citation", "publisher", "show", "agreement"):
            content.pop(key, None)
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(b"understudy release\n" + text.encode("ascii")).hexdigest()

    @cached_property
    def facts(self) -> Facts:
        """What the owner of the table answers for: how it is read, who is protected, and its public numbers."""
        declared = self.row_count.kind in ("given", "declared")
        if self.register is not None:
            return register_facts(
                self.schema,
                [part.schema for part in self.parts.values()],
                self.register.numbers,
                unit=self.unit,
                separator=self.source.separator,
                encoding=self.source.encoding,
            )
        return table_facts(
            self.schema if self.schema.row_count is None else replace(self.schema, row_count=None),
            unit=self.unit,
            prepare=self.preparation,
            alternatives=self.transformations,
            separator=self.source.separator,
            encoding=self.source.encoding,
            names=self.source.names,
            rows=(self.row_count.value or "declared") if declared else None,
        )

    def condition(self, invariants: Iterable[Invariant] = ()) -> Condition:
        """Return what the promise presumes: the exact numbers a ledger holds, and the one that is public here."""
        known = list(invariants)
        rows = self.row_count
        if rows.kind in ("given", "declared", "invariant") and all(
            item.rule != self.facts.rule for item in known
        ):
            known.append(Invariant("number of rows", self.facts.rule, rows.value, "", 0))
        condition = condition_of(self.unit, known)
        if any(column.measured_facts for column in self.every_column):
            return replace(condition, text=f"{condition.text} {ALSO_MEASURED}".strip())
        return condition

    @property
    def every_column(self) -> tuple[Column, ...]:
        """The columns of the schema and their alternatives."""
        others = (column for forms in self.transformations.values() for column in forms.values())
        return (*self.schema.columns, *others)

    def facts_fingerprint(self) -> str:
        """Return a SHA-256 of the owner's facts: of what they mean, not of how they are written."""
        return self.facts.fingerprint()

    def choices_fingerprint(self) -> str:
        """Return a SHA-256 of the analyst's choices: methods, rules of synthetic records, criteria, selection, budget, output, seed.

        Like :meth:`facts_fingerprint` it is taken of what they mean. Everything that is no fact is a choice.
        """
        chosen = [
            [item.method, _plain(item.options), _plain(item.projection)] for item in self.configurations
        ]
        own = parse_rules(tuple(self.file.constraints), self.schema.columns)
        return fingerprint_of(
            {
                "configurations": sorted({json.dumps(item, sort_keys=True) for item in chosen}),
                "constraints": sorted([rule_meaning(rule), rule.straddle] for rule in own),
                "form": self.form,
                "false_accept": float(self.false_accept),
                "criteria": _plain(self.plain["acceptance"]["criteria"]),
                "selection": repr(self.attempts),
                "total": self.shares.total.to_dict(),
                "model": self.shares.model.to_dict(),
                "acceptance": float(self.shares.acceptance),
                "rows": [
                    float(self.row_count.epsilon),
                    self.row_count.value if self.row_count.kind == "chosen" else None,
                ],
                "formats": list(self.formats),
                "seed": self.seed,
            }
            | (
                {}
                if self.file.acceptance.open_bins == "nearest"
                else {"open_bins": self.file.acceptance.open_bins}
            )
            | ({} if "approvals" not in self.plain else {"approvals": self.file.approvals.model_dump()})
            | (
                {}
                if self.file.previous is None
                else {"previous": [self.file.previous.manifest, self.file.previous.prior]}
            )
            | ({"rows_lost": float(self.shares.people)} if self.shares.people else {})
        )

    # ------------------------------------------------------------------ as the file has it

    @property
    def name(self) -> str:
        """Short name of the release."""
        return self.file.name

    @property
    def title(self) -> str:
        """Title of the published table."""
        return self.file.title

    @property
    def description(self) -> str:
        """What the published table holds, for people."""
        return self.file.description

    @property
    def license(self) -> str:
        """Licence of the published table."""
        return self.file.license

    @property
    def citation(self) -> str:
        """How users should cite the published table."""
        return self.file.citation

    @property
    def publisher(self) -> PublisherPart:
        """Who publishes the table."""
        return self.file.publisher

    @property
    def expected_rows(self) -> int | None:
        """A public guess of the number of rows."""
        return self.file.public.expected_rows

    @property
    def form(self) -> Literal["pass-only", "published"]:
        """How it is found out whether a candidate is good enough."""
        return self.file.acceptance.form

    @property
    def false_accept(self) -> float:
        """Pass-only: largest probability that a candidate violating a criterion is accepted."""
        return self.file.acceptance.false_accept

    @property
    def criteria(self) -> tuple[CriterionConfig, ...]:
        """The acceptance criteria."""
        return tuple(self.file.acceptance.criteria)

    @property
    def formats(self) -> tuple[str, ...]:
        """File formats of the published table."""
        return tuple(self.file.output.formats)

    @property
    def folder(self) -> Path | None:
        """Folder of the bundle."""
        return None if self.file.output.folder is None else self.where / self.file.output.folder

    @property
    def seed(self) -> int | None:
        """Seed of the public side."""
        return self.file.seed

    @property
    def ledger(self) -> Path | None:
        """Ledger of the table."""
        return None if self.file.ledger is None else self.where / self.file.ledger

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
        if self.parts:
            found = (rule for part in self.parts.values() for rule in part.synthetic_rules)
            return tuple({json.dumps(rule, sort_keys=True): rule for rule in found}.values())
        own = (rule.to_plain() for rule in self.schema.constraints if not rule.dependency)
        return (*own, *self.file.constraints)

    def schema_for(self, configuration: Configuration) -> Schema:
        """Return the schema of what is counted of a transformation: its columns, and the rules synthetic records obey.

        Of a release of two levels these are event records; their schema remembers that of the table (`table_schema_for`).
        """
        key = tuple(configuration.transformations.values())
        if key not in self.made:
            chosen = {
                column: self.transformations[column][label]
                for column, label in configuration.transformations.items()
            }
            columns = tuple(chosen.get(column.name, column) for column in self.schema.columns)
            table = replace(self.schema, columns=columns, constraints=self.synthetic_rules, row_count=None)
            self.made[key] = counted_schema(table, self.unit)
        return self.made[key]

    @property
    def two_levels(self) -> bool:
        """Whether entities with their events are released, not rows: the schema says whose the rows are, and the unit is that entity."""
        return self.schema.entity is not None and self.unit.id_column == self.schema.entity.id

    @property
    def protects(self) -> str:
        """Who is protected, in words: the unit, or an entity with all its rows, of which so many records are counted."""
        return self.unit.describe_entity() if self.two_levels or self.parts else self.unit.describe()

    @property
    def counted(self) -> str:
        """What numbers such as the expected one are of: rows, or entities where a release is of entities with their events."""
        return "entities" if self.two_levels or self.parts else "rows"

    @property
    def table_names(self) -> tuple[str, ...]:
        """Of linked tables: the names of those that are read."""
        if self.register is not None:
            return (self.register.entities, *self.register.events)
        entity = self.schema.entity
        if entity is None or entity.tables is None:
            return ()
        return entity.tables[1:] if entity.min_events else entity.tables

    def table_schema_for(self, configuration: Configuration) -> Schema:
        """Return the schema of the table as a configuration reads and publishes it."""
        counted = self.schema_for(configuration)
        return counted.events_of or counted

    def schemas(self) -> dict[tuple[str, ...], Schema]:
        """Return the schema of every distinct transformation in use, by the names of the alternatives."""
        return {
            tuple(configuration.transformations.values()): self.schema_for(configuration)
            for configuration in self.configurations
        }

    def synthesizer_for(self, configuration: Configuration, schema: Schema) -> Synthesizer:
        """Return the synthesizer of a configuration, paid for in the accounting that the parts of a release add up in."""
        options = dict(configuration.options)
        if self.prior is not None and configuration.method in PRIOR_METHODS:
            options["prior"] = self.prior
        return synthesizer_of(configuration.method, options, schema, self.where).with_fixed_accounting()

    @cached_property
    def prior(self) -> GraphicalModel | None:
        """The public model that fits start from: that of the release before this one in a series."""
        previous = self.file.previous
        if previous is None or not previous.prior:
            return None
        if previous.bundle is None:
            raise SchemaError(
                "previous.bundle: name the folder of the bundle before this one; its model is the prior of this release."
            )
        from understudy.release.series.previous import prior_of

        return prior_of(self.where / previous.bundle, previous.manifest)

    @cached_property
    def _plans(self) -> dict[str, Plan | str]:
        """By `Configuration.model_key`: the plan of a method, or why it refuses."""
        return {}

    def plan_for(self, configuration: Configuration) -> Plan | str:
        """Return what the method of a configuration would measure, or why it refuses; planned once."""
        key = configuration.model_key
        if self.parts:
            plans = [part.plan_for(configuration) for part in self.parts.values()]
            return next((plan for plan in plans if isinstance(plan, str)), plans[0])
        if key not in self._plans:
            schema = self.schema_for(configuration)
            synthesizer = self.synthesizer_for(configuration, schema)
            try:
                synthesizer.require(self.shares.model)
                self._plans[key] = synthesizer.plan(schema, unit=self.unit, budget=self.shares.model)
            except UnderstudyError as error:
                self._plans[key] = str(error)
        return self._plans[key]

    def projection_for(self, configuration: Configuration, schema: Schema) -> Projection:
        """Return the projection of a configuration."""
        return projection_part(configuration.projection).build(schema)

    def least_rows(self, configurations: Iterable[Configuration] | None = None) -> int:
        """Return how many rows the projections of some configurations (by default all) need at least."""
        chosen = self.configurations if configurations is None else configurations
        if self.parts:
            return 1  # no projections
        return max(
            (self.projection_for(item, self.schema_for(item)).least_rows for item in chosen), default=1
        )

    def criteria_for(self, schema: Schema) -> tuple[Criterion, ...]:
        """Return the acceptance criteria over the codes of a transformation."""
        context = CriterionContext(
            schema=schema, cleaning=self.cleaning, open_bins=self.file.acceptance.open_bins
        )
        return tuple(item.build(context) for item in self.criteria)

    def public_facts(self) -> dict[str, Any]:
        """Return what is treated as public knowledge, in words."""
        domain = f"the {len(self.schema.names)} columns, their possible values and bins (the schema)"
        measured = [column.name for column in self.every_column if column.measured_facts]
        if measured:
            domain += f", but for what was measured of {', '.join(dict.fromkeys(measured))} before, with noise, at the cost of the same ledger"
        return {
            "number of rows": self.row_count.words(),
            "domain": domain,
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
        """Return the specification with another source: a file, relative to the working directory, or a `Database`.

        Of linked tables: a folder with a file for each, or the address of a database that holds them under their names.
        """
        if not self.table_names and not isinstance(path, Database) and is_database(path):
            raise DataError("A database needs the name of a table too: pass Database(url=..., table=...).")
        plain = json.loads(json.dumps(self.plain))
        others = ("simulate", "path", "database", "tables")
        plain["source"] = {key: value for key, value in plain["source"].items() if key not in others}
        named = self.table_names
        if named and not isinstance(path, Database):
            plain["source"]["tables"] = (
                {
                    name: {
                        "url": str(path) if "://" in str(path) else str(Path(path).absolute()),
                        "table": name,
                    }
                    for name in named
                }
                if is_database(path)
                else {
                    name: str(Path(place).absolute()) for name, place in linked_in(path, named).tables.items()
                }
            )
        elif isinstance(path, Database):
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


def read_facts(path: str | os.PathLike[str]) -> Facts:
    """Read the owner's facts from a specification, or from a file that holds nothing else.

    Such a file has the keys ``source``, ``schema``, ``unit``, ``public``, ``cleaning`` and ``transformations`` of a specification; a
    specification refers to it by ``facts: FILE``.
    """
    from understudy.release.spec.read import facts_of

    file = Path(path)
    return facts_of(read_plain(file), file.parent)


def _plain(value: Any) -> Any:
    """Return plain values in which equal numbers are equal: 1 and 1.0 are one number in a file."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
