"""The configuration space of a specification: transformations, methods with their options, projections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from os.path import isfile
from pathlib import Path
from typing import Any, Literal

import numpy as np

from understudy.errors import DomainTooLarge, NoSuchGuarantee, SchemaError, UnderstudyError, WorkloadError
from understudy.marginals import Workload, parse_workload
from understudy.mechanisms import Synthesizer
from understudy.mechanisms import method as method_named
from understudy.mechanisms.events import event_mechanism
from understudy.privacy import ApproxDP, Budget, Unit
from understudy.release.criteria.groups import possible_codes
from understudy.release.projection import require_room
from understudy.release.result import Configuration
from understudy.release.spec.errors import read_shape
from understudy.release.spec.model import ProjectionModel
from understudy.schema import Column, Constraint, Schema
from understudy.schema.entities import event_schema
from understudy.schema.files.schema_file import column_from_plain
from understudy.schema.problems import did_you_mean, problems_of

# ----------------------------------------------------------------------------------------
# Words of a specification that stand for workloads, projections and combinations of options.


WORKLOADS = frozenset({"workload", "measured"})
"""Options of methods that are workloads."""


def workload_of(given: Any, schema: Schema, where: Path = Path()) -> Workload:
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
    if isinstance(given, str):
        beside = where / given
        return parse_workload(domain, str(beside) if isfile(beside) else given)
    if not isinstance(given, Mapping) or not given:
        raise WorkloadError(
            "a workload is a word such as all-2way, a file, or a mapping from marginals to weights"
        )
    weights: dict[tuple[str, ...], float] = {}
    for name, weight in given.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not abs(weight) < 1e300:
            raise WorkloadError(f"the weight of {name!r} in a workload must be a number below 1e300")
        for clique, share in _marginals(str(name), schema):
            weights[clique] = weights.get(clique, 0.0) + share * float(weight)
    return Workload(domain, tuple(weights), tuple(weights.values()))


def _marginals(given: str, schema: Schema) -> list[tuple[tuple[str, ...], float]]:
    """Return the marginals that the words of one entry of a workload stand for, with their weights."""
    domain = schema.domain
    kind, among, rest = given.partition(" among ")
    columns = [part.strip() for part in (rest if among else given).split(",")]
    if among:
        part = domain.project(domain.canonical(columns))
        return list(parse_workload(part, kind.strip()))
    if all(column in domain for column in columns):
        return [(domain.canonical(columns), 1.0)]
    return list(parse_workload(domain, given))


def counted_schema(schema: Schema, unit: Unit | None) -> Schema:
    """Return the schema of what a release counts: the rows of a table, or the event records of one whose rows belong to entities that the unit protects.

    Examples
    --------
    >>> stays = Schema.parse("columns: [{name: died, kind: boolean}]\\nentity: {id: patient}")
    >>> counted_schema(stays, Unit.add_remove_person("patient", max_rows=2)).names
    ('died', 'number_of_events', 'place_of_event', 'died_before')
    """
    two = unit is not None and schema.entity is not None and unit.id_column == schema.entity.id
    return event_schema(schema) if two else schema


def synthesizer_of(method: str, options: Mapping[str, Any], schema: Schema, where: Path) -> Synthesizer:
    """Return a method with options as a specification writes them, for a schema of what is counted.

    A workload for event records is one of the table that they are made of; the marginals that tie events to their entity and to the one before go with it.
    """
    made, table = dict(options), schema.events_of
    for key in WORKLOADS & set(made):
        rows = table if key == "workload" and table is not None else schema
        made[key] = workload_of(made[key], rows, where)
    if table is not None:
        return event_mechanism(method, schema, made.pop("workload", None), made)
    return method_named(method).load()(**made)


def all_options(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of options, a list standing for alternatives.

    Examples
    --------
    >>> all_options({"norm": ["l1", "l2"], "max_model_mb": 20})
    [{'norm': 'l1', 'max_model_mb': 20}, {'norm': 'l2', 'max_model_mb': 20}]
    """
    choices = [value if isinstance(value, list) else [value] for value in options.values()]
    return [dict(zip(options, chosen, strict=True)) for chosen in product(*choices)]


MAX_CONFIGURATIONS = 20_000
_DOMAIN_FACTS = ("bins", "values", "resolution")


class SpaceReader:
    """Reads one part after the other; a part whose shape is wrong is skipped, the others are still checked."""

    def __init__(self, plain: Mapping[str, Any], where: Path) -> None:
        self.plain = plain
        self.where = where
        shape = read_shape(plain)
        self.file, self.given = shape.file, shape.sound
        self.problems = list(shape.problems)
        self.kinds: set[tuple[str, float]] = set()
        self.made: dict[tuple[str, ...], Schema] = {}

    def note(self, place: str, error: UnderstudyError | str) -> None:
        """Add one problem, or all that an error lists."""
        items = [error] if isinstance(error, str) else problems_of(error)
        self.problems += [f"{place}: {' '.join(item.split())}" for item in items]

    def sound(self, *sections: str) -> bool:
        """Whether the shape of some parts is right and they are there."""
        return self.given.issuperset(sections)

    # ------------------------------------------------------------------ the configuration space

    def _transformations(self, schema: Schema | None) -> dict[str, dict[str, Column]]:
        if schema is None:
            return {}
        found: dict[str, dict[str, Column]] = {}
        for name, alternatives in self.file.transformations.items():
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
                    problem_text = (
                        error if isinstance(error, UnderstudyError) else "names facts this kind does not have"
                    )
                    self.note(f"{place}.{label}", problem_text)
        return found

    def _schemas(
        self,
        schema: Schema | None,
        transformations: Mapping[str, Mapping[str, Column]],
        cleaning: Sequence[Constraint] = (),
        unit: Unit | None = None,
    ) -> list[Schema]:
        """Return one schema of what is counted per alternative (not per combination): enough to check every column in use."""
        if schema is None:
            return []
        rules = (*(rule.to_plain() for rule in schema.constraints), *self.file.constraints)
        depth = max((len(alternatives) for alternatives in transformations.values()), default=1)
        found: list[Schema] = []
        for index in range(depth):
            labels = tuple(list(names)[index % len(names)] for names in transformations.values() if names)
            columns = tuple(
                list(transformations[column.name].values())[index % len(transformations[column.name])]
                if transformations.get(column.name)
                else column
                for column in schema.columns
            )
            try:
                made = schema
                if labels or self.file.constraints or schema.row_count is not None:
                    made = replace(schema, columns=columns, constraints=rules, row_count=None)
                found.append(counted_schema(made, unit))
            except UnderstudyError as error:
                self.problems += list(problems_of(error))
                continue
            self._possible(made, cleaning)
            self.made[labels] = found[-1]
        return found

    def _possible(self, schema: Schema, cleaning: Sequence[Constraint]) -> None:
        """Refuse rules that no record can obey, alone or together, and constraints that contradict the cleaning."""
        try:
            tables = [(rule, rule.allowed(schema.domain)) for rule in schema.constraints]
        except DomainTooLarge:
            return
        for rule in cleaning:
            if (left := possible_codes(rule.columns, schema, [rule])) is not None and not left.any():
                self.note("cleaning", f"no record can obey {rule.text!r}")
                return
        for rule, allowed in tables:
            if not allowed.any():
                self.note("constraints", f"no record can obey {rule.text!r}")
                return
        names = schema.domain.canonical(
            {name for rule in (*schema.constraints, *cleaning) for name in rule.columns}
        )
        if not names or schema.domain.cells(names) > 20_000_000:
            return
        kept = possible_codes(names, schema, cleaning)
        if kept is not None and not kept.any():
            self.note("cleaning", "no record can obey all of the rules together")
            return
        together = np.ones(schema.domain.shape(names), dtype=bool)
        for rule, allowed in tables:
            together &= allowed.reshape([schema.domain.size(n) if n in rule.columns else 1 for n in names])
        if not together.any():
            self.note("constraints", "no record can obey all of them together")
        elif kept is not None and not (kept & together).any():
            self.note("constraints", "no record that the cleaning leaves obeys them")

    def _configurations(
        self,
        schema: Schema | None,
        transformations: Mapping[str, Mapping[str, Column]],
        unit: Unit | None = None,
    ) -> tuple[tuple[Configuration, ...], tuple[tuple[str, str], ...]]:
        if schema is None or not self.sound("synthesizers"):
            return (), ()
        try:
            methods, left_out = self._methods(counted_schema(schema, unit))
        except SchemaError as error:
            self.note("schema", error)
            return (), ()
        projections = [item.model_dump(exclude_unset=True) for item in self.file.projections]
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
        given = [_describe_projection(item, schema) for item in self.file.projections]
        return tuple(
            Configuration(
                transformations=change,
                method=name,
                options=options,
                projection=projection,
                projection_words=problem_text,
            )
            for change, (name, options), (projection, problem_text) in product(
                changes, methods, list(zip(projections, given, strict=True))
            )
        ), tuple(left_out)

    def _methods(self, schema: Schema) -> tuple[list[tuple[str, dict[str, Any]]], list[tuple[str, str]]]:
        """Return every valid method with options, and those that were left out with the reason."""
        found: list[tuple[str, dict[str, Any]]] = []
        left_out: list[tuple[str, str]] = []
        budget = self._budget("model")
        for index, item in enumerate(self.file.synthesizers):
            place, name, given = f"synthesizers[{index}]", item.method, item.options
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
                    synthesizer = synthesizer_of(name, options, schema, self.where)
                    if budget is not None:
                        synthesizer.require(budget)
                        self._affordable(synthesizer, budget, schema)
                        self.kinds.add(
                            (synthesizer.accounting(budget).name, synthesizer.reserve(schema, budget))
                        )
                except UnderstudyError as error:
                    left_out.append((label, str(error)))
                    continue
                except (TypeError, ValueError, AttributeError):
                    left_out.append((label, "an option has a value of the wrong type"))
                    continue
                found.append((name, options))
        return found, left_out

    def _affordable(self, synthesizer: Synthesizer, budget: Budget, schema: Schema) -> None:
        """Refuse a method that could never pay for a fit inside a loop.

        An attempt with an approximate model is accounted for in GDP. A method that spends such a budget as a
        pure one, or by events that are known to be zCDP only or have a delta of their own, would be refused by the
        ledger at every attempt, which looks like a rejection.
        """
        if not self.sound("selection") or self.file.selection.rule == "single":
            return
        if not isinstance(budget, ApproxDP):
            return
        if synthesizer.reserve(schema, budget) > 0:
            raise NoSuchGuarantee(
                f"{synthesizer.name} releases something with a delta of its own, which a loop of attempts cannot "
                "account for; use selection: {rule: single}."
            )
        way = synthesizer.accountings(budget)[0].name
        if way == "zcdp":
            raise NoSuchGuarantee(
                f"{synthesizer.name} with these options is accounted for by rho; in a loop of attempts give "
                "budget.model a rho."
            )
        if way == "pure":
            raise NoSuchGuarantee(
                f"{synthesizer.name} spends its epsilon as a pure one and leaves delta unused; in a loop of attempts "
                "give budget.model an epsilon alone, or use selection: {rule: single}."
            )

    def _projections(self, schemas: Sequence[Schema], rows: int | None) -> None:
        """Refuse projections that do not fit the columns, or a number of rows that is known beforehand."""
        for index, item in enumerate(self.file.projections):
            for schema in schemas:
                try:
                    made = item.build(schema)
                    if rows is not None:
                        require_room(rows, made.least_rows)
                except UnderstudyError as error:
                    self.note(f"projections[{index}]", error)

    def _budget(self, name: Literal["total", "model"]) -> Budget | None:
        if not self.sound("budget"):
            return None
        given = self.file.budget
        try:
            return (given.total if name == "total" else given.model).budget()
        except UnderstudyError as error:
            message = str(error)
            self.note(f"budget.{name}", message[:1].lower() + message[1:])
            return None


def _alternative(column: Column, facts: Mapping[str, Any]) -> Column:
    """Return a column with some of its facts replaced; new bins, values or resolutions drop the old ones."""
    plain = column.to_dict()
    for key in ("name", "kind"):
        if key in facts:
            raise SchemaError(f"an alternative keeps the {key} of its column")
    if any(key in facts for key in _DOMAIN_FACTS):
        for key in (*_DOMAIN_FACTS, *(("minimum", "maximum") if "values" in facts else ())):
            plain.pop(key, None)
    return column_from_plain({**plain, **facts})


def _describe_projection(part: ProjectionModel, schema: Schema) -> str:
    try:
        return part.build(schema).describe()
    except UnderstudyError:
        return ""
