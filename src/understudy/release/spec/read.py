"""From plain data to a specification, with everything wrong reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from understudy.curator import table_facts
from understudy.data import Database, Derived, Preparation
from understudy.errors import SchemaError, UnderstudyError
from understudy.privacy import Unit
from understudy.privacy.facts import Facts
from understudy.release.selection.accounting import (
    Attempts,
    GeometricAttempts,
    NegativeBinomialAttempts,
    SingleAttempt,
    UnlimitedAttempts,
    attempts_needed,
)
from understudy.release.spec.budget import Shares, divide
from understudy.release.spec.criteria import criterion_problems
from understudy.release.spec.source import rows_share
from understudy.release.spec.space import SpaceReader
from understudy.release.spec.spec import RowCount, Simulated, Source, Spec
from understudy.schema import Column, Constraint, Schema
from understudy.schema.files.assembly import parse_rules
from understudy.schema.files.yaml import read_plain
from understudy.schema.problems import did_you_mean, problems_of, raise_problems

__all__ = ["build", "facts_of"]

HEADING = "The specification has problems"
FACTS = ("source", "schema", "unit", "public", "cleaning", "transformations")
"""The keys that are the owner's facts; all others are the analyst's choices."""
_PUBLIC_KINDS = ("rare-records", "k-anonymity")


def build(plain: object, where: Path) -> Spec:
    """Build a specification from plain lists and mappings, or raise `SchemaError` with all its problems."""
    if not isinstance(plain, Mapping):
        raise SchemaError(
            "A specification must hold a mapping with keys such as name, source, schema and budget."
        )
    return _Reader(_joined(plain, where) if plain.get("facts") is not None else plain, where).read()


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
        database = source.get("database")
        if isinstance(database, Mapping) and "://" not in str(database.get("url", "://")):
            source["database"] = {**database, "url": str(folder / str(database["url"]))}
        facts["source"] = source
    return facts | {key: value for key, value in plain.items() if key != "facts"}


def facts_of(plain: object, where: Path) -> Facts:
    """Return the facts of a specification, or of a file that holds facts alone."""
    if not isinstance(plain, Mapping):
        raise SchemaError("A file of facts must hold a mapping with keys such as source, schema and unit.")
    return _Reader(_joined(plain, where) if plain.get("facts") is not None else plain, where).facts()


class _Reader(SpaceReader):
    """Reads the whole; the configuration space is read by its base."""

    # ------------------------------------------------------------------ the whole

    def read(self) -> Spec:
        schema = self._schema()
        unit = self._unit()
        source = self._source(schema)
        attempts = self._attempts()
        cleaning = self._cleaning(schema)
        rows = self._row_count(schema, unit)
        transformations = self._transformations(schema)
        configurations, left_out = self._configurations(schema, transformations)
        spec_schemas = self._schemas(schema, transformations, cleaning)
        self._criteria(spec_schemas, cleaning)
        self._projections(spec_schemas, None if rows is None else rows.value)
        shares = self._shares(unit, attempts, rows, transformations)
        raise_problems(HEADING, list(dict.fromkeys(self.problems)))
        if schema is None or unit is None or attempts is None or rows is None or shares is None:
            raise SchemaError("The specification cannot be used.")  # a part was refused without saying why
        acceptance, output = self.plain["acceptance"], self.plain.get("output") or {}
        folder, ledger = output.get("folder"), self.plain.get("ledger")
        return Spec(
            name=self.plain["name"],
            title=self.plain.get("title", ""),
            description=self.plain.get("description", ""),
            license=self.plain.get("license", ""),
            citation=self.plain.get("citation", ""),
            source=source,
            schema=schema,
            unit=unit,
            row_count=rows,
            expected_rows=(self.plain.get("public") or {}).get("expected_rows"),
            cleaning=cleaning,
            transformations=transformations,
            configurations=configurations,
            left_out=left_out,
            form=acceptance["form"],
            false_accept=acceptance.get("false_accept", 0.05),
            criteria=tuple(acceptance["criteria"]),
            attempts=attempts,
            shares=shares,
            formats=tuple(output.get("formats", ("csv",))),
            folder=None if folder is None else self.where / folder,
            seed=self.plain.get("seed"),
            ledger=None if ledger is None else self.where / ledger,
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
        given = self._given_rows() if self._given_rows() is not None else schema.row_count
        return table_facts(
            replace(schema, row_count=None),
            unit=unit,
            prepare=Preparation(derived=source.derived, rules=cleaning),
            alternatives=transformations,
            separator=source.separator,
            encoding=source.encoding,
            rows=given if isinstance(given, int) or given == "declared" else None,
        )

    # ------------------------------------------------------------------ the table

    def _schema(self) -> Schema | None:
        if not self.sound("schema"):
            return None
        given = self.plain["schema"]
        try:
            if isinstance(given, str):
                schema = Schema.read(self.where / given)
            elif isinstance(given, Mapping):
                schema = Schema.from_dict(given)
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

    def _unit(self) -> Unit | None:
        if not self.sound("unit"):
            return None
        try:
            return Unit.of(self.plain["unit"])
        except UnderstudyError as error:
            self.note("unit", error)
            return None

    def _source(self, schema: Schema | None) -> Source:
        given = self.part("source", {})
        path, simulate, database = given.get("path"), given.get("simulate"), None
        if sum(given.get(key) is not None for key in ("path", "simulate", "database")) > 1:
            self.note("source", "give a path, simulate or database, not both")
        try:
            if given.get("database") is not None:
                database = Database(**given["database"])
                if "://" not in database.url and database.kind == "duckdb":
                    database = replace(database, url=str(self.where / database.url))
        except UnderstudyError as error:
            self.note("source.database", error)
        derived = []
        for name, recipe in (given.get("derive") or {}).items():
            try:
                values = tuple((recipe.get("values") or {}).items())
                derived.append(
                    Derived(name=name, source=recipe["from"], part=recipe.get("part"), values=values)
                )
            except UnderstudyError as error:
                self.note(f"source.derive.{name}", error)
            if schema is not None and name not in schema.names:
                hint = did_you_mean(name, schema.names)
                self.note(f"source.derive.{name}", f"the schema has no column of that name.{hint}")
        simulated = None if simulate is None else Simulated(**simulate)
        file = None if path is None else self.where / path
        label = given.get("table")
        if label is None and file is not None:
            label = file.name
        elif label is None and simulated is not None:
            label = f"{simulated.table} (simulated)"
        elif label is None and database is not None:
            label = database.label
        return Source(
            path=file,
            simulated=simulated,
            database=database,
            table=label or "",
            separator=given.get("separator"),
            encoding=given.get("encoding"),
            derived=tuple(derived),
        )

    def _rules(self, section: str, columns: Sequence[Column]) -> tuple[Constraint, ...]:
        try:
            return parse_rules(tuple(self.part(section, ()) or ()), columns)
        except UnderstudyError as error:
            self.problems += [problem.replace("constraints", section, 1) for problem in problems_of(error)]
            return ()

    def _cleaning(self, schema: Schema | None) -> tuple[Constraint, ...]:
        return () if schema is None else self._rules("cleaning", schema.columns)

    def _row_count(self, schema: Schema | None, unit: Unit | None) -> RowCount | None:
        if schema is None or unit is None or not ({"public", "output", "cleaning"}.isdisjoint(self.broken)):
            return None
        given = (self.plain.get("public") or {}).get("row_count", schema.row_count)
        chosen = (self.plain.get("output") or {}).get("rows")
        if schema.row_count is not None and isinstance(given, int) and given != schema.row_count:
            self.note("public.row_count", "differs from the row count of the schema")
        if given is not None and chosen is not None:
            self.note("output.rows", "the synthetic table has public.row_count rows; leave this out")
        if isinstance(given, Mapping):
            return RowCount(kind="measured", epsilon=float(given["epsilon"]))
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
            return RowCount(kind="given", value=int(given))
        if chosen is not None:
            return RowCount(kind="chosen", value=int(chosen))
        if unit.keeps_rows and not self.plain.get("cleaning"):
            return RowCount(kind="invariant")
        return self._measured()

    def _given_rows(self) -> Any:
        return (self.plain.get("public") or {}).get("row_count")

    def _measured(self) -> RowCount | None:
        """The default way to a private number of rows: measured, for a small share of the total."""
        total = self._budget("total")
        return None if total is None else RowCount(kind="measured", epsilon=rows_share(total))

    # ------------------------------------------------------------------ acceptance and budget

    def _criteria(self, schemas: Sequence[Schema], cleaning: Sequence[Constraint]) -> None:
        if not self.sound("acceptance"):
            return
        acceptance = self.plain["acceptance"]
        published = acceptance["form"] == "published"
        criteria = acceptance["criteria"]
        names = [item["name"] for item in criteria]
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            self.note("acceptance.criteria", f"two criteria are named {name!r}")
        if published and acceptance.get("epsilon") is not None:
            self.note(
                "acceptance.epsilon", "goes with the pass-only form; give each criterion its own epsilon"
            )
        if not published and acceptance.get("epsilon") is None and not _all_public(criteria):
            self.note("acceptance.epsilon", "the pass-only form needs the epsilon of its one test")
        for index, item in enumerate(criteria):
            place = f"acceptance.criteria[{index}] {item['name']!r}"
            public = item["kind"] in _PUBLIC_KINDS
            if item.get("epsilon") is not None and (public or not published):
                why = "it is public and costs nothing" if public else "the pass-only form pays once for all"
                self.note(place, f"takes no epsilon: {why}")
            if published and not public and item.get("epsilon") is None:
                self.note(place, "needs an epsilon in the published form")
            if published and item["kind"] == "prediction-error" and not _has_baseline(item, criteria):
                self.note(
                    place,
                    "the published form compares with a private regression: add a regression-coefficients "
                    "criterion with the same target and features",
                )
            for schema in schemas:
                for problem in criterion_problems(item, schema, cleaning=cleaning):
                    self.note(place, problem)

    def _attempts(self) -> Attempts | None:
        if not self.sound("selection"):
            return None
        given = self.plain["selection"]
        try:
            if given["rule"] == "single":
                return SingleAttempt()
            if given["rule"] == "negative-binomial":
                return NegativeBinomialAttempts(float(given["eta"]), float(given["gamma"]))
            gamma, most, epsilon0 = given["gamma"], given.get("max_attempts"), given.get("epsilon0")
            if gamma == 0 and (most is not None or epsilon0 is not None):
                self.note("selection", "a limit on the attempts needs a gamma above 0")
                return None
            if most is not None and epsilon0 is not None and most < attempts_needed(gamma, epsilon0):
                needed = attempts_needed(gamma, epsilon0)
                self.note(
                    "selection.max_attempts", f"Theorem 3 needs at least {needed} for this gamma and epsilon0"
                )
            if gamma == 0:
                return UnlimitedAttempts()
            if most is None and epsilon0 is not None:
                most = attempts_needed(gamma, epsilon0)
            return GeometricAttempts(float(gamma), most)
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
        acceptance = self.plain["acceptance"]
        criteria = acceptance["criteria"]
        baselines: list[float] = []
        if acceptance["form"] == "published":
            inside = 0.0
            for item in criteria:
                epsilon = float(item.get("epsilon") or 0.0)
                if item["kind"] == "regression-coefficients":
                    single = isinstance(attempts, SingleAttempt)  # only the transformation drawn is fitted
                    baselines += [epsilon] * (1 if single else baseline_count(item, transformations))
                else:
                    inside += epsilon
        else:
            inside = 0.0 if _all_public(criteria) else float(acceptance.get("epsilon") or 0.0)
        shares, problems = divide(
            total=total,
            unit=unit,
            model=model,
            acceptance=inside,
            attempts=attempts,
            rows=rows.epsilon,
            baselines=tuple(epsilon for epsilon in baselines if epsilon > 0),
            kinds=tuple(sorted(self.kinds)),
        )
        self.problems += problems
        if problems and rows.kind == "measured" and not isinstance(self._given_rows(), Mapping):
            self.note(
                "public.row_count",
                f"the number of rows is private, so it is measured, for epsilon={rows.epsilon:g} where nothing else is said. "
                "Leave room for it in the total, give it another epsilon ({epsilon: ...}), choose a number of synthetic rows "
                "(output.rows), or, as the owner of the table, declare it public (a number, or declared)",
            )
        return shares


def baseline_count(item: Mapping[str, Any], transformations: Mapping[str, Mapping[str, Column]]) -> int:
    """Return how many private regressions a criterion needs: one per transformation of its columns."""
    count = 1
    for name in (item["target"], *item["features"]):
        count *= max(1, len(transformations.get(name, ())))
    return count


def _has_baseline(item: Mapping[str, Any], criteria: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        other["kind"] == "regression-coefficients"
        and other["target"] == item["target"]
        and list(other["features"]) == list(item["features"])
        for other in criteria
    )


def _all_public(criteria: Sequence[Mapping[str, Any]]) -> bool:
    return all(item["kind"] in _PUBLIC_KINDS for item in criteria)
