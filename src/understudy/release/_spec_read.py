"""From plain data to a specification, with everything wrong reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data import Derived
from understudy.errors import DomainTooLarge, SchemaError, UnderstudyError
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP, Unit
from understudy.release._spec_budget import Shares, divide
from understudy.release._spec_criteria import criterion_problems
from understudy.release._spec_errors import shape_problems
from understudy.release.result import Configuration
from understudy.release.selection_accounting import (
    Attempts,
    GeometricAttempts,
    NegativeBinomialAttempts,
    SingleAttempt,
    UnlimitedAttempts,
    attempts_needed,
)
from understudy.release.spec import (
    RowCount,
    Simulated,
    Source,
    Spec,
    all_options,
    projection_of,
    workload_of,
)
from understudy.schema import Column, Constraint, Schema
from understudy.schema.assembly import parse_rules
from understudy.schema.fileread import column_from_plain
from understudy.schema.problems import did_you_mean, problems_of, raise_problems
from understudy.synthesizers import method as method_named

__all__ = ["build"]

HEADING = "The specification has problems"
MAX_CONFIGURATIONS = 20_000
_DOMAIN_FACTS = ("bins", "values", "resolution")
_PUBLIC_KINDS = ("rare-records", "k-anonymity")


def build(plain: object, where: Path) -> Spec:
    """Build a specification from plain lists and mappings, or raise `SchemaError` with all its problems."""
    if not isinstance(plain, Mapping):
        raise SchemaError(
            "A specification must hold a mapping with keys such as name, source, schema and budget."
        )
    return _Reader(plain, where).read()


class _Reader:
    """Reads one part after the other; a part whose shape is wrong is skipped, the others are still checked."""

    def __init__(self, plain: Mapping[str, Any], where: Path) -> None:
        self.plain = plain
        self.where = where
        self.problems = shape_problems(plain)
        self.broken = {
            problem.split(":", 1)[0].split(".", 1)[0].split("[", 1)[0] for problem in self.problems
        }

    def note(self, place: str, error: UnderstudyError | str) -> None:
        """Add one problem, or all that an error lists."""
        items = [error] if isinstance(error, str) else problems_of(error)
        self.problems += [f"{place}: {' '.join(item.split())}" for item in items]

    def sound(self, *sections: str) -> bool:
        """Whether the shape of some parts is right and they are there."""
        return all(section in self.plain and section not in self.broken for section in sections)

    def part(self, section: str, default: Any) -> Any:
        """Return a part, or its default if it is absent or of the wrong shape."""
        return self.plain.get(section, default) if section not in self.broken else default

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
        spec_schemas = self._schemas(schema, transformations)
        self._criteria(spec_schemas, cleaning)
        self._projections(spec_schemas)
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
            schema.require_public()
        except UnderstudyError as error:
            self.note("schema", error)
            return None
        return schema

    def _unit(self) -> Unit | None:
        if not self.sound("unit"):
            return None
        given = self.plain["unit"]
        values = {"relation": given} if isinstance(given, str) else dict(given)
        try:
            return Unit.from_dict(values)
        except UnderstudyError as error:
            self.note("unit", error)
            return None

    def _source(self, schema: Schema | None) -> Source:
        given = self.part("source", {})
        path, simulate = given.get("path"), given.get("simulate")
        if path is not None and simulate is not None:
            self.note("source", "give a path or simulate, not both")
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
        return Source(
            path=file,
            simulated=simulated,
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
        fixed = unit.relation == "replace-one" and unit.max_rows == 1
        if fixed and not self.plain.get("cleaning"):
            return RowCount(kind="invariant")
        why = (
            "cleaning makes the number of rows depend on the values of a record"
            if fixed
            else f"the number of rows is private ({unit.describe()})"
        )
        self.note(
            "public.row_count",
            f"{why}. Declare it public (a number, or declared), measure it and pay for it ({{epsilon: ...}}), "
            "or choose a number of synthetic rows (output.rows)",
        )
        return None

    # ------------------------------------------------------------------ the configuration space

    def _transformations(self, schema: Schema | None) -> dict[str, dict[str, Column]]:
        if schema is None:
            return {}
        found: dict[str, dict[str, Column]] = {}
        for name, alternatives in (self.part("transformations", {}) or {}).items():
            place = f"transformations.{name}"
            if name not in schema.names:
                self.note(place, f"no column of that name.{did_you_mean(name, schema.names)}")
                continue
            if not alternatives:
                self.note(place, "no alternative is listed")
            for label, facts in alternatives.items():
                try:
                    found.setdefault(name, {})[label] = _alternative(schema.column(name), facts or {})
                except (UnderstudyError, TypeError) as error:
                    told = (
                        error if isinstance(error, UnderstudyError) else "names facts this kind does not have"
                    )
                    self.note(f"{place}.{label}", told)
        return found

    def _schemas(
        self, schema: Schema | None, transformations: Mapping[str, Mapping[str, Column]]
    ) -> list[Schema]:
        """Return one schema per alternative (not per combination): enough to check every column in use."""
        if schema is None:
            return []
        own = tuple(self.part("constraints", ()) or ())
        rules = (*(rule.to_plain() for rule in schema.constraints), *own)
        depth = max((len(alternatives) for alternatives in transformations.values()), default=1)
        found: list[Schema] = []
        for index in range(depth):
            columns = tuple(
                list(transformations[column.name].values())[index % len(transformations[column.name])]
                if transformations.get(column.name)
                else column
                for column in schema.columns
            )
            try:
                found.append(replace(schema, columns=columns, constraints=rules, row_count=None))
            except UnderstudyError as error:
                self.problems += list(problems_of(error))
                continue
            self._possible(found[-1])
        return found

    def _possible(self, schema: Schema) -> None:
        """Refuse constraints that no record can obey, alone or together."""
        try:
            tables = [(rule, rule.allowed(schema.domain)) for rule in schema.constraints]
        except DomainTooLarge:
            return
        for rule, allowed in tables:
            if not allowed.any():
                self.note("constraints", f"no record can obey {rule.text!r}")
                return
        names = schema.domain.canonical({name for rule, _ in tables for name in rule.columns})
        if not tables or schema.domain.cells(names) > 20_000_000:
            return
        together = np.ones(schema.domain.shape(names), dtype=bool)
        for rule, allowed in tables:
            together &= allowed.reshape([schema.domain.size(n) if n in rule.columns else 1 for n in names])
        if not together.any():
            self.note("constraints", "no record can obey all of them together")

    def _configurations(
        self, schema: Schema | None, transformations: Mapping[str, Mapping[str, Column]]
    ) -> tuple[tuple[Configuration, ...], tuple[tuple[str, str], ...]]:
        if schema is None or not self.sound("synthesizers"):
            return (), ()
        methods, left_out = self._methods(schema)
        projections = self.part("projections", None) or [{"kind": "none"}]
        changes = [
            dict(zip(transformations, labels, strict=True))
            for labels in product(*(alternatives for alternatives in transformations.values()))
        ]
        size = len(changes) * len(methods) * len(projections)
        if size > MAX_CONFIGURATIONS:
            self.note("the file", f"{size:,} configurations are more than the {MAX_CONFIGURATIONS:,} allowed")
            return (), ()
        if not methods:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out[:3])
            self.note("synthesizers", f"the configuration space is empty{f' ({reasons})' if reasons else ''}")
        words = [_projection_words(item, schema) for item in projections]
        return tuple(
            Configuration(
                transformations=change,
                method=name,
                options=options,
                projection=projection,
                projection_words=told,
            )
            for change, (name, options), (projection, told) in product(
                changes, methods, list(zip(projections, words, strict=True))
            )
        ), tuple(left_out)

    def _methods(self, schema: Schema) -> tuple[list[tuple[str, dict[str, Any]]], list[tuple[str, str]]]:
        """Return every valid method with options, and those that were left out with the reason."""
        found: list[tuple[str, dict[str, Any]]] = []
        left_out: list[tuple[str, str]] = []
        budget = self._budget("model")
        for index, item in enumerate(self.plain["synthesizers"]):
            place, name = f"synthesizers[{index}]", item["method"]
            given = dict(item.get("options") or {})
            try:
                described = method_named(name)
                known = {field.name for field in fields(described.load())}  # type: ignore[arg-type]
            except UnderstudyError as error:
                self.note(f"{place}.method", error)
                continue
            for option, value in given.items():
                if option not in known:
                    hint = did_you_mean(option, known)
                    self.note(
                        f"{place}.options",
                        f"{name} has no option {option!r}.{hint} Known: {', '.join(known)}",
                    )
                elif isinstance(value, list) and not value:
                    self.note(f"{place}.options.{option}", "an empty list of alternatives")
            for options in all_options({key: value for key, value in given.items() if key in known}):
                label = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
                try:
                    made = dict(options)
                    if "workload" in made:
                        made["workload"] = workload_of(made["workload"], schema, self.where)
                    synthesizer = described.load()(**made)
                    if budget is not None:
                        synthesizer.require(budget)
                except UnderstudyError as error:
                    left_out.append((label, str(error)))
                    continue
                except (TypeError, ValueError, AttributeError):
                    left_out.append((label, "an option has a value of the wrong type"))
                    continue
                found.append((name, options))
        return found, left_out

    def _projections(self, schemas: Sequence[Schema]) -> None:
        for index, item in enumerate(self.part("projections", ()) or ()):
            for schema in schemas:
                try:
                    projection_of(item, schema)
                except UnderstudyError as error:
                    self.note(f"projections[{index}]", error)

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

    def _budget(self, name: str) -> Budget | None:
        if not self.sound("budget"):
            return None
        given = {key: value for key, value in self.plain["budget"][name].items() if value is not None}
        keys = set(given)
        try:
            if keys == {"epsilon"}:
                return PureDP(float(given["epsilon"]))
            if keys == {"epsilon", "delta"}:
                return ApproxDP(float(given["epsilon"]), float(given["delta"]))
            if keys == {"rho"}:
                return ZCDP(float(given["rho"]))
            if keys == {"mu"}:
                return GDP(float(given["mu"]))
        except UnderstudyError as error:
            self.note(f"budget.{name}", error)
            return None
        self.note(f"budget.{name}", "give epsilon, epsilon with delta, rho, or mu")
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
        )
        self.problems += problems
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


def _alternative(column: Column, facts: Mapping[str, Any]) -> Column:
    """Return a column with some of its facts replaced; new bins, values or resolutions drop the old ones."""
    plain = column.to_dict()
    for key in ("name", "kind"):
        if key in facts:
            raise SchemaError(f"an alternative keeps the {key} of its column")
    if any(key in facts for key in _DOMAIN_FACTS):
        for key in _DOMAIN_FACTS:
            plain.pop(key, None)
    return column_from_plain({**plain, **facts})


def _projection_words(plain: Mapping[str, Any], schema: Schema) -> str:
    try:
        return projection_of(plain, schema).describe()
    except UnderstudyError:
        return ""
