"""From plain data to a specification, with everything wrong reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from understudy.curator import table_facts
from understudy.data import Database, Preparation
from understudy.data.linked import LinkedTables
from understudy.errors import BudgetError, SchemaError, UnderstudyError
from understudy.privacy import Unit
from understudy.privacy.facts import Facts
from understudy.release.criteria.base import CriterionConfig, CriterionContext
from understudy.release.run.judgement import private_regressions
from understudy.release.selection.accounting import Attempts
from understudy.release.selection.profiles import Bound
from understudy.release.spec.budget import Shares, divide
from understudy.release.spec.model import EpsilonPart
from understudy.release.spec.source import rows_share
from understudy.release.spec.space import SpaceReader
from understudy.release.spec.spec import RowCount, Source, Spec
from understudy.schema import Column, Constraint, Schema
from understudy.schema.addresses import is_address, secret_in
from understudy.schema.entities import level_problems
from understudy.schema.files.assembly import parse_rules
from understudy.schema.files.yaml import read_plain
from understudy.schema.linked import joined, read_linked_file, read_register, register_of
from understudy.schema.problems import did_you_mean, problems_of, raise_problems

__all__ = ["HEADING", "Reader", "build", "facts_of"]

HEADING = "The specification has problems"
FACTS = ("source", "schema", "unit", "public", "cleaning", "transformations")
"""The keys that are the owner's facts; all others are the analyst's choices."""


def build(plain: object, where: Path) -> Spec:
    """Build a specification from plain lists and mappings, or raise `SchemaError` with all its problems."""
    if not isinstance(plain, Mapping):
        raise SchemaError(
            "A specification must hold a mapping with keys such as name, source, schema and budget."
        )
    if "discover" in plain:
        raise SchemaError(
            f"{HEADING}:\n  - discover: a specification names its columns in criteria, rules and transformations, so they must be known when it is "
            "read. Learn the schema first (understudy discover TABLE --share 0.1 ... --out schema.yaml) and name that file under schema; the release is "
            "then paid for from the rest on the same ledger"
        )
    return _reader(plain, where).read()


def _reader(plain: Mapping[str, Any], where: Path) -> Reader:
    """Return the reader of a specification: of one table, of linked tables, or of several tables of events."""
    from understudy.release.spec.register import RegisterReader

    whole = _joined(plain, where) if plain.get("facts") is not None else plain
    given, folder, file = whole.get("schema"), where, None
    register = None
    try:
        if isinstance(given, str) and Path(given).suffix.lower() in (".yaml", ".yml", ".json"):
            file = where / given
            folder, register = file.parent, read_register(file) if file.is_file() else None
        elif isinstance(given, Mapping):
            register = register_of(given)
    except UnderstudyError as error:
        raise_problems(HEADING, [f"schema: {' '.join(item.split())}" for item in problems_of(error)])
    if register is None:
        return Reader(whole, where)
    return RegisterReader(whole, where, register, folder, file)


def _joined(plain: Mapping[str, Any], where: Path) -> Mapping[str, Any]:
    """Put the owner's facts, which a file of their own holds, and the analyst's choices together.

    Paths among the facts are relative to the file of facts; in the result they are relative to the file of choices.
    """
    if not isinstance(plain["facts"], str):
        raise SchemaError(f"{HEADING}:\n  - facts: must be the path of the file that holds the facts")
    given = read_plain(where / plain["facts"])
    if not isinstance(given, Mapping):
        raise SchemaError(
            f"{HEADING}:\n  - facts: the file must hold a mapping with keys such as source, schema and unit"
        )
    problems = [
        f"facts: {key!r} is a choice and no fact; facts are {', '.join(FACTS)}"
        for key in given
        if key not in (*FACTS, "version")
    ]
    problems += [
        f"{key}: the file of facts ({plain['facts']}) says it already"
        for key in FACTS
        if {key} <= {*given} & {*plain}
    ]
    raise_problems(HEADING, problems)
    folder, facts = Path(plain["facts"]).parent, dict(given)
    if isinstance(facts.get("schema"), str):
        facts["schema"] = str(folder / facts["schema"])
    source = dict(facts["source"]) if isinstance(facts.get("source"), Mapping) else None
    if source is not None:
        if isinstance(source.get("path"), str):
            source["path"] = str(folder / source["path"])
        if isinstance(source.get("tables"), Mapping):
            source["tables"] = {
                name: str(folder / place) if isinstance(place, str) else place
                for name, place in source["tables"].items()
            }
        database = source.get("database")
        if isinstance(database, Mapping) and "://" not in str(database.get("url", "://")):
            source["database"] = {**database, "url": str(folder / str(database["url"]))}
        facts["source"] = source
    return facts | {key: value for key, value in plain.items() if key != "facts"}


def facts_of(plain: object, where: Path) -> Facts:
    """Return the facts of a specification, or of a file that holds facts alone."""
    if not isinstance(plain, Mapping):
        raise SchemaError("A file of facts must hold a mapping with keys such as source, schema and unit.")
    if "discover" in plain:
        raise SchemaError(
            f"{HEADING}:\n  - discover: a specification names its columns in criteria, rules and transformations, so they must be known when it is "
            "read. Learn the schema first (understudy discover TABLE --share 0.1 ... --out schema.yaml) and name that file under schema; the release is "
            "then paid for from the rest on the same ledger"
        )
    return _reader(plain, where).facts()


class Reader(SpaceReader):
    """Reads the whole; the configuration space is read by its base."""

    # ------------------------------------------------------------------ the whole

    def read(self) -> Spec:
        """Return the specification, or raise `SchemaError` with everything that is wrong."""
        schema = self._schema()
        unit = self._unit()
        source = self._source(schema)
        self._levels(schema, unit, source)
        attempts = self._attempts()
        cleaning = self._cleaning(schema)
        rows = self._row_count(schema, unit)
        transformations = self._transformations(schema)
        configurations, left_out = self._configurations(schema, transformations, unit)
        spec_schemas = self._schemas(schema, transformations, cleaning, unit)
        self._criteria(spec_schemas, cleaning)
        self._readings(spec_schemas)
        self._projections(spec_schemas, None if rows is None else rows.value)
        shares = self._shares(unit, attempts, rows, transformations)
        self._approvals()
        self._previous()
        raise_problems(HEADING, list(dict.fromkeys(self.problems)))
        if schema is None or unit is None or attempts is None or rows is None or shares is None:
            raise SchemaError("The specification cannot be used.")  # a part was refused without saying why
        return Spec(
            file=self.file,
            source=source,
            schema=schema,
            unit=unit,
            row_count=rows,
            cleaning=cleaning,
            transformations=transformations,
            configurations=configurations,
            left_out=left_out,
            attempts=attempts,
            shares=shares,
            made=self.made,
            plain=dict(self.plain),
            where=self.where,
        )

    def facts(self) -> Facts:
        """Return the owner's facts alone; what is wrong with the choices, or missing of them, does not matter."""
        self.problems = [item for item in self.problems if item.startswith(FACTS)]
        schema, unit = self._schema(), self._unit()
        source, cleaning = self._source(schema), self._cleaning(schema)
        transformations = self._transformations(schema)
        self.problems += [
            f"the file: the key {key!r} is missing" for key in ("schema", "unit") if key not in self.plain
        ]
        raise_problems(HEADING, list(dict.fromkeys(self.problems)))
        if schema is None or unit is None:
            raise SchemaError("The facts cannot be used.")
        given = self.file.public.row_count
        if given is None:
            given = schema.row_count
        return table_facts(
            replace(schema, row_count=None),
            unit=unit,
            prepare=Preparation(derived=source.derived, rules=cleaning),
            alternatives=transformations,
            separator=source.separator,
            encoding=source.encoding,
            names=source.names,
            rows=given if isinstance(given, int) or given == "declared" else None,
        )

    # ------------------------------------------------------------------ the table

    def _schema(self) -> Schema | None:
        if not self.sound("schema"):
            return None
        given = self.file.schema_
        try:
            if isinstance(given, str):
                schema = Schema.read(self.where / given)
                self.sources = _sources_of(self.where / given)
            elif isinstance(given, Mapping):
                schema = Schema.from_dict(given, folder=self.where)
                if "tables" in given:
                    self.sources = LinkedTables.of_file(joined(given), self.where / "schema").tables
            else:
                self.note("schema", "write a path, or the schema itself")
                return None
        except UnderstudyError as error:
            self.note("schema", error)
            return None
        private = schema.facts_from_data()
        if private:
            self.note(
                "schema", f"holds facts that were read from the data and are not public: {', '.join(private)}"
            )
        return schema

    sources: Mapping[str, Any] = MappingProxyType({})
    """Where linked tables are, where the schema says it."""

    def _levels(self, schema: Schema | None, unit: Unit | None, source: Source) -> None:
        """Refuse what a release of two levels cannot do, and a unit that does not protect the entities of linked tables."""
        if schema is None or unit is None:
            return
        chosen = not isinstance(self.file.unit, str) and self.file.unit.max_rows == "auto"
        if chosen and (schema.entity is None or schema.entity.id != unit.id_column):
            self.note(
                "unit.max_rows",
                "auto is for entities with their events (a section entity, or tables, in the schema); a release that cuts rows needs a number",
            )
        if schema.entity is None:
            return
        entity = schema.entity
        if entity.tables is not None and (unit.id_column != entity.id):
            self.note(
                "unit",
                f"linked tables protect entities with all their rows; name their key (id_column: {entity.id}) and how many rows one counts for (max_rows)",
            )
        elif unit.id_column is None:
            self.note(
                "unit",
                f"the schema says that rows belong to {entity.id!r} (entity.id), and this unit protects single rows; name the entity (id_column: {entity.id}, with max_rows), or leave entity out of the schema if single rows are meant",
            )
        elif unit.id_column != entity.id:
            self.note(
                "unit.id_column",
                f"the schema says that rows belong to {entity.id!r} (entity.id); name the same column",
            )
        if unit.id_column != entity.id:
            return
        for problem in level_problems(schema):
            self.note("schema", problem)
        self._refuse_for_entities(schema, source)

    def _refuse_for_entities(self, schema: Schema, source: Source) -> None:
        """Refuse what does not go with entities and their events."""
        refused = {
            "cleaning": bool(self.file.cleaning),
            "source.derive": bool(source.derived),
            "projections": any(item.kind != "none" for item in self.file.projections),
            "public.row_count": isinstance(self.file.public.row_count, int)
            or self.file.public.row_count == "declared"
            or schema.row_count is not None,
            "output.rows": self.file.output.rows is not None,
            "budget.rows_lost": self.sound("budget") and bool(self.file.budget.rows_lost),
            "previous": self.file.previous is not None,
            "show": bool(self.file.show),
        }
        for place in (place for place, asked in refused.items() if asked):
            self.note(
                place,
                "does not go with entities and their events (the section entity of the schema, or tables); leave it out",
            )

    def _unit(self) -> Unit | None:
        if not self.sound("unit"):
            return None
        given = self.file.unit
        try:
            return Unit.of(given) if isinstance(given, str) else given.unit()
        except UnderstudyError as error:
            self.note("unit", error)
            return None

    def _source(self, schema: Schema | None) -> Source:
        if not self.sound("source"):
            return Source()
        given = self.file.source
        if sum(item is not None for item in (given.path, given.simulate, given.database, given.tables)) > 1:
            self.note("source", "give a path, simulate, database or tables, not both")
        files = {"path": given.path, "table": given.table} | {
            f"tables.{name}": place for name, place in (given.tables or {}).items() if isinstance(place, str)
        }
        for where, text in files.items():  # an address where a file was wanted must not be kept either
            problem = secret_in(text) if text and is_address(text) else ""
            if problem:
                self.note(f"source.{where}", problem)
        linked = self._linked(schema)
        database = None
        try:
            if given.database is not None:
                database = Database(**given.database.model_dump())
                if "://" not in database.url and database.kind == "duckdb":
                    database = replace(database, url=str(self.where / database.url))
        except UnderstudyError as error:
            self.note("source.database", error)
        derived = []
        for name, recipe in given.derive.items():
            try:
                derived.append(recipe.derived(name))
            except UnderstudyError as error:
                self.note(f"source.derive.{name}", error)
            if schema is not None and name not in schema.names:
                hint = did_you_mean(name, schema.names)
                self.note(f"source.derive.{name}", f"the schema has no column of that name.{hint}")
        file = None if given.path is None else self.where / given.path
        label = given.table
        if label is None and file is not None:
            label = file.name
        elif label is None and given.simulate is not None:
            label = f"{given.simulate.table} (simulated)"
        elif label is None and database is not None:
            label = database.label
        elif label is None and linked is not None:
            label = linked.name
        return Source(
            path=file,
            simulated=given.simulate,
            database=database,
            table=label or "",
            separator=given.separator,
            encoding=given.encoding,
            names=None if given.names is None else tuple(given.names),
            derived=tuple(derived),
            linked=linked,
        )

    def _linked(self, schema: Schema | None) -> LinkedTables | None:
        """Return the linked tables that the file or its schema names."""
        named = schema is not None and schema.entity is not None and schema.entity.tables is not None
        given = self.file.source.tables
        if not named and given is not None and schema is not None:
            self.note(
                "source.tables",
                "the schema describes one table; linked tables are described under its key tables",
            )
        if schema is None or not named:
            return None
        single = (self.file.source.path, self.file.source.database, self.file.source.simulate)
        if any(item is not None for item in single):
            self.note("source", "the schema describes linked tables; name each of them under source.tables")
            return None
        try:
            found = self._located()
            file = self.file.schema_ if isinstance(self.file.schema_, str) else None
            made = LinkedTables(
                tables=found,
                name=(schema.name or "tables") if file is None else Path(file).stem,
                file=None if file is None else self.where / file,
            )
            if found:
                made.check(schema)
        except UnderstudyError as error:
            self.note("source.tables", error)
            return None
        return made if found else None

    def _located(self) -> dict[str, Any]:
        """Return where linked tables are, as the file or else its schema says."""
        found: dict[str, Any] = dict(self.sources)
        for name, place in (self.file.source.tables or {}).items():
            if isinstance(place, str):
                found[name] = self.where / place
            else:
                found[name] = Database(**place.model_dump())
                if "://" not in found[name].url and found[name].kind == "duckdb":
                    found[name] = replace(found[name], url=str(self.where / found[name].url))
        return found

    def _cleaning(self, schema: Schema | None) -> tuple[Constraint, ...]:
        try:
            return () if schema is None else parse_rules(tuple(self.file.cleaning), schema.columns)
        except UnderstudyError as error:
            self.problems += [problem.replace("constraints", "cleaning", 1) for problem in problems_of(error)]
            return ()

    def _row_count(self, schema: Schema | None, unit: Unit | None) -> RowCount | None:
        broken = {"public", "output", "cleaning"} & (set(self.plain) - self.given)
        if schema is None or unit is None or broken:
            return None
        public, chosen = self.file.public, self.file.output.rows
        given = public.row_count if "row_count" in public.model_fields_set else schema.row_count
        if schema.row_count is not None and isinstance(given, int) and given != schema.row_count:
            self.note("public.row_count", "differs from the row count of the schema")
        if given is not None and chosen is not None:
            self.note("output.rows", "the synthetic table has public.row_count rows; leave this out")
        if isinstance(given, EpsilonPart):
            return RowCount(kind="measured", epsilon=given.epsilon)
        if given == "measured":
            return self._measured()
        if given is not None and unit.id_column is not None:
            self.note(
                "public.row_count",
                "each person keeps a random choice of rows, so their number cannot be declared; measure it "
                "({epsilon: ...}) or choose output.rows",
            )
        if given == "declared":
            return RowCount(kind="declared")
        if given is not None:
            return RowCount(kind="given", value=given)
        if chosen is not None:
            return RowCount(kind="chosen", value=chosen)
        loses = schema.entity is not None and schema.entity.leaves_out
        if unit.keeps_rows and not self.file.cleaning and not loses:
            return RowCount(kind="invariant")
        return self._measured()

    def _measured(self) -> RowCount | None:
        """The default way to a private number of rows: measured, for a small share of the total."""
        total = self._budget("total")
        return None if total is None else RowCount(kind="measured", epsilon=rows_share(total))

    # ------------------------------------------------------------------ acceptance and budget

    def _criteria(self, schemas: Sequence[Schema], cleaning: Sequence[Constraint]) -> None:
        if not self.sound("acceptance"):
            return
        self._tables_of_criteria(schemas)
        acceptance = self.file.acceptance
        published, criteria = acceptance.published, acceptance.criteria
        names = [item.name for item in criteria]
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            self.note("acceptance.criteria", f"two criteria are named {name!r}")
        if published and acceptance.epsilon is not None:
            self.note(
                "acceptance.epsilon", "goes with the pass-only form; give each criterion its own epsilon"
            )
        if not published and acceptance.epsilon is None and not acceptance.free:
            self.note("acceptance.epsilon", "the pass-only form needs the epsilon of its one test")
        for index, item in enumerate(criteria):
            place = f"acceptance.criteria[{index}] {item.name!r}"
            for problem in _problems(item, criteria, published=published):
                self.note(place, problem)
            for schema in schemas:
                context = CriterionContext(
                    schema=schema, cleaning=tuple(cleaning), open_bins=acceptance.open_bins
                )
                for problem in item.problems(context):
                    self.note(place, problem)

    def _tables_of_criteria(self, schemas: Sequence[Schema]) -> None:
        """Refuse criteria about another table than the one table, or table of events, that there is."""
        for index, item in enumerate(self.file.acceptance.criteria):
            for schema in schemas[:1] if item.table is not None else ():
                entity = (schema.events_of or schema).entity
                events = None if entity is None or entity.tables is None else entity.tables[1]
                if item.table != events:
                    self.note(
                        f"acceptance.criteria[{index}] {item.name!r}.table",
                        "is for several tables of events, and there is one table here; leave it out"
                        if events is None
                        else f"the one table of events is {events!r}; name it, or leave this out",
                    )

    def _readings(self, schemas: Sequence[Schema]) -> None:
        if not self.sound("show"):
            return
        for index, item in enumerate(self.file.show):
            for problem in filter(None, (item.problem(schema) for schema in schemas)):
                self.note(f"show[{index}] {item.column!r}", problem)

    def _previous(self) -> None:
        """Check what is said of the cost of earlier releases."""
        if not self.sound("previous") or self.file.previous is None:
            return
        for place, release in enumerate(self.file.previous.releases):
            for bound in release.bounds:
                try:
                    Bound.from_dict(bound)
                except BudgetError as error:
                    self.note(f"previous.releases[{place}].bounds", error)

    def _approvals(self) -> None:
        if not self.sound("approvals"):
            return
        given = self.file.approvals
        for role in given.keys:
            if role not in given.required:
                self.note(
                    f"approvals.keys.{role}", "names a key for a role that is not among approvals.required"
                )

    def _attempts(self) -> Attempts | None:
        if not self.sound("selection"):
            return None
        given = self.file.selection
        try:
            problems = given.problems()
            for place, problem in problems:
                self.note(place, problem)
            return None if problems else given.attempts()
        except UnderstudyError as error:
            self.note("selection", error)
            return None

    def _shares(
        self,
        unit: Unit | None,
        attempts: Attempts | None,
        rows: RowCount | None,
        transformations: Mapping[str, Mapping[str, Column]],
    ) -> Shares | None:
        total, model = self._budget("total"), self._budget("model")
        if total is None or model is None or unit is None or attempts is None or rows is None:
            return None
        if not self.sound("acceptance"):
            return None
        if self.file.budget.rows_lost and unit.id_column is None:
            self.note(
                "budget.rows_lost", "rows are lost where the unit is a person (unit.id_column); leave it out"
            )
        acceptance = self.file.acceptance
        regressions = (
            private_regressions(acceptance.criteria, transformations) if acceptance.published else ()
        )
        shares, problems = divide(
            total=total,
            unit=unit,
            model=model,
            acceptance=acceptance.cost,
            attempts=attempts,
            rows=rows.epsilon,
            people=self.file.budget.rows_lost or 0.0,
            regressions=[(item.epsilon, item.versions) for item in regressions],
            kinds=tuple(sorted(self.kinds)),
        )
        self.problems += problems
        if problems and rows.kind == "measured" and not isinstance(self.file.public.row_count, EpsilonPart):
            self.note(
                "public.row_count",
                f"the number of rows is private, so it is measured, for epsilon={rows.epsilon:g} where nothing else is said. "
                "Leave room for it in the total, give it another epsilon ({epsilon: ...}), choose a number of synthetic rows "
                "(output.rows), or, as the owner of the table, declare it public (a number, or declared)",
            )
        return shares


def _problems(item: CriterionConfig, beside: Sequence[CriterionConfig], *, published: bool) -> list[str]:
    """Return what is wrong with a criterion in the form of a specification and among its other criteria."""
    found = []
    if item.epsilon is not None and not (published and item.reads_real):
        why = "the pass-only form pays once for all" if item.reads_real else "it is public and costs nothing"
        found.append(f"takes no epsilon: {why}")
    if published and item.reads_real and item.epsilon is None:
        found.append("needs an epsilon in the published form")
    return found + item.problems_beside(beside, published=published)


def _sources_of(file: Path) -> Mapping[str, Any]:
    """Return where the linked tables of a schema file are, if it describes such and says it."""
    found = read_linked_file(file) if file.suffix.lower() in (".yaml", ".yml", ".json") else None
    return {} if found is None else LinkedTables.of_file(found, file).tables
