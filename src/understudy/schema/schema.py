"""The schema: everything public about a table."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from understudy._html import html_table
from understudy.errors import DataError, DomainNotPublic, DomainTooLarge, SchemaError
from understudy.schema.columns.categorical import Categorical
from understudy.schema.columns.column import Codes, Column, check_text
from understudy.schema.columns.date import Date
from understudy.schema.constraints.constraint import Constraint
from understudy.schema.constraints.dependency import (
    Dependency,
    check_dependencies,
    dependencies_to_plain,
    rules_of_dependencies,
)
from understudy.schema.constraints.derived import (
    DerivedColumn,
    check_derived,
    derived_to_plain,
    output_names,
)
from understudy.schema.constraints.joint import JointValues, joint_values
from understudy.schema.domain import Domain
from understudy.schema.entities import Entity
from understudy.schema.files.assembly import HEADING, check_columns, parse_rules
from understudy.schema.files.lists import Lists, with_lists
from understudy.schema.origin import (
    OriginOfFacts,
    facts_from_data,
    measured_facts,
    normal_origin,
    origin_to_plain,
)
from understudy.schema.problems import did_you_mean, listing, raise_problems
from understudy.schema.weights import Weight, with_weight

if TYPE_CHECKING:
    import pandas as pd

# ----------------------------------------------------------------------------------------
# Schemas shown to people: a table for notebooks, and what a careful reader would question.


def remarks(schema: Schema) -> list[str]:
    """Return what a careful reader would question about a valid schema; public facts only."""
    found = []
    for rule in schema.constraints:
        try:
            allowed = rule.allowed(schema.domain)
        except DomainTooLarge:  # nobody can look at all of its cells
            continue
        if not allowed.any():
            found.append(f"No record can obey the constraint {rule.text!r}.")
        elif allowed.all():
            found.append(f"Every record obeys the constraint {rule.text!r}; it has no effect on codes.")
    compared = {name for rule in schema.rules for name in rule.columns}
    for column in schema.columns:
        if column.size == 1:
            found.append(f"Column {column.name!r} has one possible code.")
        if isinstance(column, Date) and column.decode_by == "midpoint" and column.name in compared:
            cells = column.cells
            if (np.asarray(cells.high, dtype=float) - np.asarray(cells.low, dtype=float) > 1).any():
                found.append(
                    f"Column {column.name!r} is published as one day for each bin, the middle, and a rule compares it: dates of one bin come out equal. "
                    "Write decode_by: uniform to have days drawn inside the bins."
                )
    return found


def schema_html(schema: Schema) -> str:
    """Return a schema as a table, one row per column."""
    rules = "; ".join(map(str, schema.constraints))
    return html_table(
        repr(schema),
        ("column", "kind", "codes", "values", "unit", "description"),
        [
            (
                column.name,
                column.kind,
                column.size,
                _some_labels(column.labels),
                column.unit,
                column.description,
            )
            for column in schema.columns
        ],
        note=f"Rules: {rules}" if rules else "",
    )


def _some_labels(labels: Sequence[str]) -> str:
    """Show the first and last of many labels."""
    if len(labels) <= 8:
        return ", ".join(labels)
    return f"{', '.join(labels[:4])}, ..., {', '.join(labels[-2:])}"


# ----------------------------------------------------------------------------------------
# Whole tables: every column encoded, every problem reported at once.


def encode_frame(schema: Schema, frame: pd.DataFrame) -> dict[str, Codes]:
    """Encode every declared column of a table; other columns are ignored.

    Parameters
    ----------
    schema
        The public schema.
    frame
        A pandas frame (or the next chunk of one).

    Returns
    -------
    dict
        Codes of each column in the smallest unsigned type.

    Raises
    ------
    DataError
        If columns are absent or repeated, or entries have no code: all such problems in one message, without
        any entry or count.

    Privacy
    -------
    In and out: private.
    """
    places = _places(frame)
    problems: list[str] = []
    codes: dict[str, Codes] = {}
    for column in schema.columns:
        found = places.get(column.name, [])
        if not found:
            hint = did_you_mean(column.name, places)
            problems.append(f"Column {column.name!r} is absent from the table.{hint}")
        elif len(found) > 1:
            problems.append(f"The table has more than one column named {column.name!r}.")
        else:
            codes[column.name], wrong = column.try_encode(frame.iloc[:, found[0]])
            problems += wrong
    raise_problems("The table does not fit the schema", problems, DataError)
    return codes


def _places(frame: pd.DataFrame) -> dict[str, list[int]]:
    if not hasattr(frame, "columns") or not hasattr(frame, "iloc"):
        raise DataError("Expected a pandas table with named columns.")
    places: dict[str, list[int]] = {}
    for place, name in enumerate(frame.columns):
        places.setdefault(str(name), []).append(place)
    return places


def decode_frame(
    schema: Schema,
    codes: Mapping[str, npt.ArrayLike],
    *,
    seed: int | None,
    counts: Mapping[str, npt.ArrayLike] | None = None,
) -> pd.DataFrame:
    """Decode every column; see `Schema.decode`. Each column draws from its own stream of randomness.

    Raises
    ------
    DataError
        If a column is absent, the lengths differ, or a code is not one of its column's.
    """
    import pandas as pd

    problems = [f"Column {name!r} is absent from the codes." for name in schema.names if name not in codes]
    lengths = {len(np.atleast_1d(np.asarray(codes[name]))) for name in schema.names if name in codes}
    if len(lengths) > 1:
        problems.append("The columns of codes have different lengths.")
    raise_problems("The codes do not fit the schema", problems, DataError)
    *streams, stream_of_rules = np.random.default_rng(seed).spawn(len(schema.columns) + 1)
    decoded: dict[str, Any] = {
        column.name: column.decode(codes[column.name], stream, counts=(counts or {}).get(column.name))
        for column, stream in zip(schema.columns, streams, strict=True)
    }

    def redraw(column: Column, some: npt.NDArray[np.intp], generator: np.random.Generator) -> Any:
        known = (counts or {}).get(column.name)
        if column.decodes_by_counts and known is None:  # all the codes, not only those that are drawn again
            known = np.bincount(np.asarray(codes[column.name]), minlength=column.size)
        return column.decode(some, generator, counts=known)

    for group in schema.joint_values:
        group.settle(codes, decoded, stream_of_rules, redraw)
    for item in schema.derived:
        decoded[item.name] = item.compute(decoded, schema._by_name)
    return pd.DataFrame(decoded, columns=list(schema.output_names))


FORMAT_VERSION = 1
_OF_A_DRAFT = "Drafted from a table: "
_RARE_SHOWN = 8
"""Columns with rare values that an error names before it counts them."""
_FACTS_SHOWN = 3
"""How many facts that are not public an error names before it counts them."""


@dataclass(frozen=True, repr=False, init=False)
class Schema:
    """What is public about a table: its columns and their possible values, and rules every record obeys.

    Parameters
    ----------
    columns
        The columns, in order; their names differ.
    constraints
        Record constraints: text, mappings with ``rule`` and ``straddle``, or `Constraint` objects.
    row_count
        The number of rows if it is public knowledge. Leave it out to keep it private.
    name, description
        For people.
    origin
        Origin of the facts of the schema itself (``row_count``, ``left_out``).
    left_out
        Columns of the table that were left out on purpose, with the reason; for people.
    rules
        Constraints that the *values* of every synthetic record obey (``straddle: values``), as ``constraints`` takes them.
    determines
        Columns that follow from another one, as in ``{"city": ["region"]}`` (learnt from the released model) or
        ``{"city": {"region": {"Lyon": "south", "Lille": "north"}}}`` (declared).
    derived
        Columns computed from others in the published table, as in ``{"nights": "check_out - check_in"}``.
    lists
        Lists of values by name. A column whose values are one of them is written with its name; it is the same
        column, and the schema has the same fingerprint, as with the values written out.
    entity
        Who the rows belong to, where a person, household or firm has several: an `Entity`, or its fields by name, as in ``{"id": "patient", "fixed": ["sex"],
        "order": "admitted", "max_events": 40}``.
    weight
        The survey weight of the rows: a `Weight`, or its fields by name, as in ``{"column": "w", "cap": 25}``. Its column is added to ``columns``, which do not
        name it.
    events_of
        Of the schema of event records (`understudy.schema.entities.event_schema`): the schema of the table that they are records of.

    Examples
    --------
    >>> from understudy.schema import Categorical, Integer
    >>> schema = Schema(
    ...     [Integer("age", bins=["<18", "18-64", "64<"]), Categorical("sex", values=["M", "F"])],
    ...     name="people",
    ... )
    >>> schema
    Schema('people': 2 columns, 6 cells)
    >>> schema.domain.shape(("age", "sex"))
    (3, 2)
    """

    columns: tuple[Column, ...]
    constraints: tuple[Constraint, ...]
    row_count: int | None
    name: str
    description: str
    origin: OriginOfFacts
    left_out: tuple[tuple[str, str], ...]
    determines: tuple[Dependency, ...]
    derived: tuple[DerivedColumn, ...]
    entity: Entity | None = None
    weight: Weight | None = None
    events_of: Schema | None = None
    lists: Lists = field(default=(), compare=False)

    own_facts: ClassVar[tuple[str, ...]] = ("row_count", "left_out", "rules", "determines", "derived")

    def __init__(
        self,
        columns: Iterable[Column],
        constraints: Sequence[Constraint | str | Mapping[str, Any]] = (),
        *,
        row_count: int | None = None,
        name: str = "",
        description: str = "",
        origin: OriginOfFacts = "public",
        left_out: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        rules: Sequence[Constraint | str | Mapping[str, Any]] = (),
        determines: Mapping[str, Any] | tuple[Dependency, ...] = (),
        derived: Mapping[str, Any] | tuple[DerivedColumn, ...] = (),
        entity: Entity | Mapping[str, Any] | None = None,
        weight: Weight | Mapping[str, Any] | None = None,
        events_of: Schema | Mapping[str, Any] | None = None,
        lists: Mapping[str, Sequence[Any]] | Lists = (),
    ) -> None:
        weighing, amiss = Weight.from_plain(weight)
        raise_problems(HEADING, amiss)
        self._set("weight", weighing)
        self._set("columns", check_columns(with_weight(check_columns(columns), weighing)))
        for key, value in (
            ("row_count", row_count),
            ("name", name),
            ("description", description),
            ("origin", origin),
            ("left_out", left_out),
            ("lists", lists),
        ):
            self._set(key, value)
        raise_problems(HEADING, self._check_rest())
        stated = (
            *parse_rules(constraints, self.columns),
            *parse_rules(rules, self.columns, key="rules", straddle="values"),
        )
        dependencies, problems = check_dependencies(determines, self._by_name)
        made, wrong = check_derived(derived, self._by_name)
        who, unclear = Entity.from_plain(entity)
        unclear += [] if who is None else who.problems(self._by_name)
        raise_problems(HEADING, problems + wrong + unclear)
        self._set("entity", who)
        self._set("events_of", Schema.from_dict(events_of) if isinstance(events_of, Mapping) else events_of)
        self._set("determines", dependencies)
        self._set("derived", made)
        self._set("constraints", (*stated, *rules_of_dependencies(dependencies, self._by_name)))
        raise_problems(HEADING, self._check_origin())

    # -- columns -------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column:
        """Return one column."""
        found = self._by_name.get(name)
        if found is None:
            hint = did_you_mean(name, self.names)
            raise SchemaError(f"No column named {name!r}.{hint} Columns: {listing(self.names)}.")
        return found

    @cached_property
    def domain(self) -> Domain:
        """Column names with their numbers of codes."""
        return Domain(self.names, tuple(column.size for column in self.columns))

    def select(self, names: Iterable[str]) -> Schema:
        """Return the schema of some columns, in the order of this one, with the constraints among them."""
        wanted = {self.column(name).name for name in names}
        kept = tuple(column for column in self.columns if column.name in wanted)
        rules = tuple(rule for rule in self.constraints if wanted.issuperset(rule.columns))
        dependencies = tuple(item for item in self.determines if {item.source, item.target} <= wanted)
        made = [item for item in self.derived if item.columns <= wanted]
        beside = wanted.union(item.name for item in made)
        placed = tuple(
            replace(
                item,
                after=item.after if item.after in beside else None,
                before=item.before if item.before in beside else None,
            )
            for item in made
        )
        who = None if self.entity is None else self.entity.within(wanted)
        if who is not None and len(who.fixed) == len(kept):
            who = None
        weight = self.weight if self.weight is not None and self.weight.column in wanted else None
        return replace(
            self,
            columns=kept,
            constraints=rules,
            determines=dependencies,
            derived=placed,
            entity=who,
            weight=weight,
        )

    @property
    def rules(self) -> tuple[Constraint, ...]:
        """The constraints that the values of every synthetic record obey."""
        return tuple(rule for rule in self.constraints if rule.straddle == "values")

    @cached_property
    def joint_values(self) -> tuple[JointValues, ...]:
        """Groups of columns whose values rules tie together, where bins hold several values."""
        return joint_values(self.constraints, self.columns)

    @cached_property
    def tied_values(self) -> tuple[JointValues, ...]:
        """Groups of columns whose values rules tie together, also where every code stands for one value."""
        return joint_values(self.constraints, self.columns, all_groups=True)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the columns of a published table, in order: those of the schema and the derived ones."""
        return output_names(self.names, self.derived)

    def with_columns(self, columns: Iterable[Column]) -> Schema:
        """Return the schema with some columns replaced by others of the same names; its rules stay."""
        given = {column.name: column for column in columns}
        return replace(self, columns=tuple(given.get(column.name, column) for column in self.columns))

    def as_read(self) -> Schema:
        """Return the schema as tables are read, before a fit chose groups of values of columns with levels."""
        cut = [column for column in self.columns if column.uncut is not column]
        return self.with_columns(column.uncut for column in cut) if cut else self

    def codes_as_read(self, codes: Mapping[str, Codes], *, seed: int | None) -> dict[str, Codes]:
        """Return codes of :meth:`as_read` for codes of this schema: where a fit chose groups, a value is drawn within each."""
        cut = [
            column
            for column in self.columns
            if isinstance(column, Categorical) and column.uncut is not column
        ]
        streams = np.random.default_rng(seed).spawn(len(cut))
        drawn = {
            column.name: column.values_within(codes[column.name], stream)
            for column, stream in zip(cut, streams, strict=True)
        }
        return {**codes, **drawn}

    # -- public facts --------------------------------------------------------------------------

    def facts_from_data(self) -> tuple[str, ...]:
        """Return every fact that was read from the records and is not declared public, the mark of a column's rare values among them.

        Examples
        --------
        >>> from understudy.schema import Boolean
        >>> Schema([Boolean("smokes", origin="from-data")]).facts_from_data()
        ("column 'smokes': kind", "column 'smokes': missing")
        """
        found = [
            f"column {column.name!r}: {fact}" for column in self.columns for fact in column.facts_from_data
        ]
        return (*found, *self._marks, *facts_from_data(self.origin, self._facts))

    @property
    def _marks(self) -> tuple[str, ...]:
        """The marks of rare values in columns that are declared public otherwise."""
        return tuple(
            f"column {column.name!r}: the mark of its rare values in the description"
            for column in self.columns
            if not column.facts_from_data and column.is_marked_rare
        )

    @property
    def _facts(self) -> tuple[str, ...]:
        return tuple(fact for fact in self.own_facts if getattr(self, fact) not in (None, ()))

    def require_public(self) -> None:
        """Refuse a schema that holds facts read from the records.

        Raises
        ------
        DomainNotPublic
            Listing the facts.

        Privacy
        -------
        A domain read from the records is not private: one record can add a category or move a bound. Fitting
        calls this first.
        """
        columns = [column for column in self.columns if column.facts_from_data]
        facts = [f"column {column.name!r}: {', '.join(column.facts_from_data)}" for column in columns]
        facts += self._marks
        facts += facts_from_data(self.origin, self._facts)
        if not facts:
            return
        more = f"\n  - and {len(facts) - _FACTS_SHOWN} more" if len(facts) > _FACTS_SHOWN else ""
        error = DomainNotPublic(
            "The schema holds facts that were read from the data:\n"
            + "\n".join(f"  - {fact}" for fact in facts[:_FACTS_SHOWN])
            + more
            + "\nReplace each one that is not public knowledge, then declare them: understudy schema declare, or Schema.declare_public."
        )
        vars(error)["problems"] = tuple(facts)
        raise error

    def declare_public(self, *, rare_are_public: bool = False) -> Schema:
        """Return the same schema with every fact declared public.

        The sentence by which a draft describes itself is taken away; descriptions of your own stay.

        Parameters
        ----------
        rare_are_public
            Say that values which hardly any record has, and which a draft marks, are public knowledge too.

        Raises
        ------
        SchemaError
            If the schema holds such values and nobody said so.

        Privacy
        -------
        This is a promise by the owner of the data: that the domain is public knowledge, or may be published
        as it is. The guarantee of everything fitted afterwards holds relative to it.
        """
        if not rare_are_public and (told := self.told_of_rare()):
            raise SchemaError(
                f"{told} Take out what is not public knowledge (out_of_domain: to-other keeps the rows), then declare the rest with "
                "declare_public(rare_are_public=True). Nothing was declared."
            )
        return replace(
            self,
            columns=tuple(column.declare_public() for column in self.columns),
            origin="public",
            description="" if self.description.startswith(_OF_A_DRAFT) else self.description,
        )

    def told_of_rare(self) -> str:
        """Say which columns of a draft hold values that hardly any record has, and how many; nothing if none does."""
        rare = [(column.name, len(column.rare_values)) for column in self.columns if column.rare_values]
        if not rare:
            return ""
        counts = ", ".join(f"{name!r} ({many:,})" for name, many in rare[:_RARE_SHOWN])
        more = f" and {len(rare) - _RARE_SHOWN} more" if len(rare) > _RARE_SHOWN else ""
        return (
            f"Values that hardly any record has stand in {counts}{more}; the draft lists them in the descriptions of these columns. "
            "Free text and names may be among them."
        )

    def fingerprint(self) -> str:
        """Return a SHA-256 of everything that gives codes their meaning.

        Names, domains, policies, constraints and the row count count; descriptions, units and origins do not.

        Examples
        --------
        >>> from understudy.schema import Boolean
        >>> a, b = Boolean("smokes"), Boolean("smokes", description="every day")
        >>> Schema([a]).fingerprint() == Schema([b]).fingerprint()
        True
        """
        content = self._to_dict(())  # values of a list count as written out
        for key in ("name", "description", "origin", "left_out"):
            content.pop(key, None)
        for item in content.get("derived", {}).values():
            if isinstance(item, dict):
                item.pop("description", None)
        for column in content["columns"]:
            for key in ("description", "unit", "origin"):
                column.pop(key, None)
        content.pop("rules", None)
        content["constraints"] = [
            [rule.text, rule.straddle] for rule in self.constraints if not rule.dependency
        ]
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(b"understudy schema\n" + canonical.encode("ascii")).hexdigest()

    # -- records -------------------------------------------------------------------------------

    def encode_frame(self, frame: pd.DataFrame) -> dict[str, Codes]:
        """Encode a table; see `understudy.schema.schema.encode_frame`.

        Raises
        ------
        DataError
            With every problem of every column at once, and no value or count.

        Privacy
        -------
        In and out: private.

        Examples
        --------
        >>> import pandas as pd
        >>> from understudy.schema import Boolean
        >>> Schema([Boolean("smokes")]).encode_frame(pd.DataFrame({"smokes": ["yes", "no"]}))
        {'smokes': array([1, 0], dtype=uint8)}
        """

        return encode_frame(self, frame)

    def decode(
        self,
        codes: Mapping[str, npt.ArrayLike],
        *,
        seed: int | None,
        counts: Mapping[str, npt.ArrayLike] | None = None,
    ) -> pd.DataFrame:
        """Turn codes into a table of values, each inside its bin by the column's rule.

        Parameters
        ----------
        codes
            One array per column.
        seed
            For the rules that draw values; ``None`` draws anew each time.
        counts
            For columns with ``decode_by: smooth``: how many records each code has, as a model expects them
            (`Model.decode` passes its own). Without them the given codes are counted.

        Examples
        --------
        >>> from understudy.schema import Boolean
        >>> Schema([Boolean("smokes")]).decode({"smokes": [1, 0]}, seed=0)
           smokes
        0    True
        1   False
        """

        return decode_frame(self, codes, seed=seed, counts=counts)

    def holds_raw(self, frame: pd.DataFrame | Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        """Tell which raw records obey every constraint. In and out: private."""
        if not self.constraints:
            return np.ones(len(frame[self.names[0]]), dtype=bool)
        return np.asarray(np.logical_and.reduce([rule.holds_raw(frame) for rule in self.constraints]))

    def holds_codes(self, codes: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.bool_]:
        """Tell which encoded records obey every constraint, and have values that obey every rule together."""
        if not self.constraints:
            return np.ones(len(np.asarray(codes[self.names[0]])), dtype=bool)
        holds = np.asarray(np.logical_and.reduce([rule.holds_codes(codes) for rule in self.constraints]))
        for group in self.joint_values:
            kept = np.flatnonzero(holds)
            some = {column.name: np.asarray(codes[column.name])[kept] for column in group.columns}
            holds[kept] = group.possible(some)
        return holds

    # -- files ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain lists and mappings, leaving out defaults; `from_dict` reads it back."""
        return self._to_dict(self.lists)

    def _to_dict(self, named: Lists) -> dict[str, Any]:
        plain: dict[str, Any] = {"version": FORMAT_VERSION}
        for key in ("name", "description"):
            if getattr(self, key):
                plain[key] = getattr(self, key)
        if self.row_count is not None:
            plain["row_count"] = self.row_count
        if self.origin != "public":
            plain["origin"] = origin_to_plain(self.origin)
        if self.left_out:
            plain["left_out"] = dict(self.left_out)
        # a weight column stands in its section, unless its place says more
        last = self.columns[-1].name if len(self.columns) > 1 else None
        added = last if self.weight is not None and self.weight.column == last else None
        columns = [column.to_dict() for column in self.columns if column.name != added]
        if lists := with_lists(columns, named):
            plain["lists"] = lists
        plain["columns"] = columns
        stated = [rule for rule in self.constraints if not rule.dependency]
        for key, usual, listed in (
            ("constraints", "allow", [rule for rule in stated if rule.straddle != "values"]),
            ("rules", "values", [rule for rule in stated if rule.straddle == "values"]),
        ):
            if listed:
                plain[key] = [rule.to_plain(usual=usual) for rule in listed]  # type: ignore[arg-type]
        if self.determines:
            plain["determines"] = dependencies_to_plain(self.determines)
        if self.derived:
            plain["derived"] = derived_to_plain(self.derived)
        if self.entity is not None:
            plain["entity"] = self.entity.to_plain()
        if self.weight is not None:
            plain["weight"] = self.weight.to_plain()
        if self.events_of is not None:
            plain["events_of"] = self.events_of._to_dict(named)
        return plain

    @classmethod
    def from_dict(cls, plain: object, *, folder: str | os.PathLike[str] | None = None) -> Self:
        """Build a schema from plain lists and mappings, reporting everything wrong with them at once.

        Names of files in it (lists of values) start from ``folder``; without one they are refused.
        """
        from understudy.schema.files.schema_file import schema_from_plain

        return schema_from_plain(cls, plain, folder)

    @classmethod
    def parse(cls, text: str, *, format: Literal["yaml", "json"] = "yaml") -> Self:
        """Read a schema from text.

        Examples
        --------
        >>> Schema.parse("columns: [{name: smokes, kind: boolean}]").names
        ('smokes',)
        """
        from understudy.schema.files.yaml import parse_plain

        return cls.from_dict(parse_plain(text, format=format))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a schema from a YAML or JSON file (by its ending; anything but ``.json`` is YAML)."""
        from understudy.schema.files.yaml import read_plain

        return cls.from_dict(read_plain(path), folder=os.path.dirname(os.fspath(path)) or ".")

    @classmethod
    def of(cls, given: Schema | str | os.PathLike[str]) -> Schema:
        """Return a schema as it is, or read the file that a path names: what every function with a parameter ``schema`` takes.

        Examples
        --------
        >>> Schema.of({"columns": []})
        Traceback (most recent call last):
        understudy.errors.SchemaError: schema must be a Schema or the path of a schema file, not dict. Schema.from_dict and Schema.parse make one.
        """
        if isinstance(given, Schema):
            return given
        if isinstance(given, str | os.PathLike):
            return cls.read(given)
        raise SchemaError(
            f"schema must be a Schema or the path of a schema file, not {type(given).__name__}. Schema.from_dict and Schema.parse make one."
        )

    def to_yaml(self) -> str:
        """Return the schema as YAML for people to read and edit."""
        from understudy.schema.files.yaml import to_yaml

        return to_yaml(self.to_dict())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a YAML or JSON file; an existing one is replaced only when all is written."""
        from understudy.schema.files.yaml import write_plain

        write_plain(self.to_dict(), path)

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """Return the JSON Schema of schema files, for editors."""
        from understudy.schema.files.schema_file import json_schema

        return json_schema()

    # -- display -------------------------------------------------------------------------------

    def describe(self) -> list[dict[str, Any]]:
        """Return one row per column: name, kind, size, missing, unit, description."""
        return [column.describe() for column in self.columns]

    def remarks(self) -> list[str]:
        """Return what a careful reader would question about a valid schema; public facts only."""

        return remarks(self)

    def _repr_html_(self) -> str:

        return schema_html(self)

    def __repr__(self) -> str:
        name = f"{self.name!r}: " if self.name else ""
        rules = f", {len(self.constraints)} constraints" if self.constraints else ""
        rows = f", {self.row_count:,} rows" if self.row_count is not None else ""
        cells = self.domain.cells()
        shown = f"{cells:,}" if cells < 10**15 else f"about 10^{len(str(cells)) - 1}"
        return f"Schema({name}{len(self.columns)} columns, {shown} cells{rules}{rows})"

    def _check_rest(self) -> list[str]:
        problems = check_text(self.name, "name", one_line=True) + check_text(self.description, "description")
        count = self.row_count
        whole = isinstance(count, int) and not isinstance(count, bool)
        if count is not None and not (whole and 1 <= count <= 10**15):
            problems.append("row_count: must be a positive whole number, or left out to keep it private")
            self._set("row_count", None)
        pairs = self.left_out.items() if isinstance(self.left_out, Mapping) else self.left_out
        try:
            self._set("left_out", tuple((str(name), str(reason)) for name, reason in pairs))
        except (TypeError, ValueError):
            problems.append("left_out: write the reason for each column that was left out")
            self._set("left_out", ())
        lists = self.lists.items() if isinstance(self.lists, Mapping) else self.lists
        try:
            self._set("lists", tuple((str(name), tuple(values)) for name, values in lists))
        except (TypeError, ValueError):
            problems.append("lists: write a name and its values for each list")
            self._set("lists", ())
        return problems

    def _check_origin(self) -> list[str]:
        origin, wrong = normal_origin(self.origin, self._facts if self._facts else self.own_facts)
        if measured_facts(origin, self.own_facts):
            wrong.append("origin: only facts of columns are ever measured; write 'public' or 'from-data'")
            origin = "from-data"
        self._set("origin", origin if self._facts else "public")
        return wrong

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)
