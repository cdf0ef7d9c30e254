"""Specifications of several tables of events: the whole with its budget, and a part for each table of events.

A part is the specification of the entities with one table of events, as it would be if there were no other: its schema, its criteria, and its share of the budget. The whole says what is
read, who is protected and what all of it costs.

Privacy
-------
The shares are fixed here, before any record is read. The models of the parts get equal shares of ``budget.model`` that add up to it in the accounting of the model (`share_of`), or parts of its epsilon and of its delta where these are added up plainly; the tests of
the pass-only form get equal shares of ``acceptance.epsilon``; published errors have an epsilon each. The number of event records is the same in all parts, as many as the unit allows of
each entity (:mod:`understudy.data.linked`), so it is measured once. So what all parts spend together is what `Shares` of the whole adds up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.data.linked import LinkedTables
from understudy.errors import BudgetError, SchemaError, UnderstudyError
from understudy.mechanisms.multiple import share_of
from understudy.privacy import ApproxDP, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.facts import Facts
from understudy.release.result import Configuration
from understudy.release.spec.budget import Shares
from understudy.release.spec.facts import register_facts
from understudy.release.spec.read import HEADING, Reader
from understudy.release.spec.space import counted_schema, synthesizer_of
from understudy.release.spec.spec import RowCount, Source, Spec
from understudy.schema import Schema
from understudy.schema.linked import Register
from understudy.schema.problems import did_you_mean, problems_of, raise_problems

__all__ = ["RegisterReader"]


class RegisterReader(Reader):
    """Reads a specification of several tables of events.

    Parameters
    ----------
    plain, where
        As for `Reader`.
    register, folder, file
        The tables; the folder that files in their description start from; and the file of the description, if there is one.
    """

    def __init__(
        self,
        plain: Mapping[str, Any],
        where: Path,
        register: Register,
        folder: Path,
        file: Path | None,
    ) -> None:
        super().__init__(plain, where)
        self.register, self.folder, self.described_by = register, folder, file
        self.pairs: tuple[Schema, ...] = ()

    def read(self) -> Spec:
        """Return the whole with its parts, or raise `SchemaError` with everything that is wrong."""
        schema, unit, attempts = self._schema(), self._unit(), self._attempts()
        source = self._source(schema)
        if schema is not None and self.pairs:
            self._of_register(schema, unit, source)
        first = self.pairs[0] if self.pairs else None
        rows = self._row_count(first, unit)
        configurations, left_out = self._configurations(first, {}, unit)
        self._criteria((), ())
        shares = self._shares(unit, attempts, rows, {})
        self._approvals()
        raise_problems(HEADING, list(dict.fromkeys(self.problems)))
        if schema is None or unit is None or attempts is None or rows is None or shares is None:
            raise SchemaError("The specification cannot be used.")  # a part was refused without saying why
        parts = self._parts(unit, rows, shares, configurations)
        usable = tuple(
            item for item in configurations if all(item in part.configurations for part in parts.values())
        )
        if not usable:
            self.note("synthesizers", "no method can be used for every table of events")
        raise_problems(HEADING, list(dict.fromkeys(self.problems)))
        return Spec(
            file=self.file,
            source=source,
            schema=schema,
            unit=unit,
            row_count=rows,
            configurations=usable,
            left_out=tuple(dict.fromkeys((*left_out, *(item for part in parts.values() for item in part.left_out)))),
            attempts=attempts,
            shares=shares,
            plain=dict(self.plain),
            where=self.where,
            register=self.register,
            parts=parts,
        )  # fmt: skip

    def facts(self) -> Facts:
        """Return the owner's facts alone; what is wrong with the choices does not matter."""
        self.problems = [
            item for item in self.problems if item.startswith(("source", "schema", "unit", "public"))
        ]
        schema, unit = self._schema(), self._unit()
        source = self._source(schema)
        if schema is not None and self.pairs:
            self._of_register(schema, unit, source, choices=False)
        self.problems += ["the file: the key 'unit' is missing"] if "unit" not in self.plain else []
        raise_problems(HEADING, list(dict.fromkeys(self.problems)))
        if schema is None or unit is None:
            raise SchemaError("The facts cannot be used.")
        return register_facts(
            schema,
            self.pairs,
            self.register.numbers,
            unit=unit,
            separator=source.separator,
            encoding=source.encoding,
        )

    # ------------------------------------------------------------------ the tables

    def _schema(self) -> Schema | None:
        if not self.sound("schema"):
            return None
        try:
            self.pairs = self.register.schemas(self.folder)
            whole = Schema.from_dict(self.register.whole.plain, folder=self.folder)
        except UnderstudyError as error:
            self.note("schema", error)
            return None
        named = self.described_by or self.folder / "schema"
        self.sources = LinkedTables.of_file(self.register.whole, named).tables
        private = whole.facts_from_data()
        if private:
            self.note(
                "schema", f"holds facts that were read from the data and are not public: {', '.join(private)}"
            )
        return whole

    def _linked(self, schema: Schema | None) -> LinkedTables | None:
        single = (self.file.source.path, self.file.source.database, self.file.source.simulate)
        if any(item is not None for item in single):
            self.note("source", "the schema describes linked tables; name each of them under source.tables")
            return None
        wanted = (self.register.entities, *self.register.events)
        try:
            found = self._located()
            for name in found:
                if name not in wanted:
                    self.note(
                        f"source.tables.{name}", f"the schema has no such table.{did_you_mean(name, wanted)}"
                    )
            for name in wanted if found else ():
                if name not in found:
                    self.note("source.tables", f"the table {name!r} has no source")
            for pair in self.pairs if len(found) == len(wanted) and set(found) == set(wanted) else ():
                assert pair.entity is not None
                assert pair.entity.tables is not None
                LinkedTables(tables={name: found[name] for name in pair.entity.tables}).check(pair)
        except UnderstudyError as error:
            self.note("source.tables", error)
            return None
        name = self.register.whole.plain.get("name") or "tables"
        if self.described_by is not None:
            name = self.described_by.stem
        return LinkedTables(tables=found, name=name, file=self.described_by) if found else None

    def _of_register(
        self, schema: Schema, unit: Unit | None, source: Source, *, choices: bool = True
    ) -> None:
        """Refuse what a release of several tables of events cannot do."""
        entity = self.pairs[0].entity
        assert entity is not None
        if unit is not None and unit.id_column != entity.id:
            self.note(
                "unit",
                f"linked tables protect entities with all their rows; name their key (id_column: {entity.id}) and how many rows of each table one counts for (max_rows)",
            )
        if source.names is not None:
            self.note("source.names", "linked tables have headers; leave it out")
        if self.file.transformations:
            self.note("transformations", "does not go with several tables of events; leave it out")
        if choices and self.file.constraints:
            self.note(
                "constraints", "with several tables of events rules belong to the schema, each to its table"
            )
        if any(getattr(column, "levels", None) is not None for column in schema.columns):
            self.note(
                "schema",
                "columns whose groups a fit chooses (levels) do not go with several tables of events; declare their values",
            )
        self._refuse_for_entities(schema, source)

    # ------------------------------------------------------------------ the parts

    def _tables_of_criteria(self, schemas: Sequence[Schema]) -> None:
        """Refuse criteria that name no table of events, and tables that no criterion is about."""
        events, asked = self.register.events, self.file.acceptance.criteria
        for index, item in enumerate(asked):
            place = f"acceptance.criteria[{index}] {item.name!r}.table"
            if item.table is None:
                self.note(place, f"name the table of events that it is about: {', '.join(events)}")
            elif item.table not in events:
                hint = did_you_mean(item.table, events)
                self.note(place, f"{item.table!r} is no table of events.{hint} There are {', '.join(events)}")
            if item.fits_regression:
                self.note(place, f"{item.kind} does not go with several tables of events")
        for table in events:
            if not any(item.table == table for item in asked):
                self.note("acceptance.criteria", f"none is about {table!r}; every table of events needs one")

    def _parts(
        self, unit: Unit, rows: RowCount, shares: Shares, configurations: Sequence[Configuration]
    ) -> dict[str, Spec]:
        """Return the specification of each table of events with the entities."""
        number = len(self.register.events)
        acceptance = json.loads(json.dumps(self.plain["acceptance"]))
        tested = [
            table
            for table in self.register.events
            if any(item.table == table and item.reads_real for item in self.file.acceptance.criteria)
        ]
        found: dict[str, Spec] = {}
        for table, pair in zip(self.register.events, self.pairs, strict=True):
            mine: dict[str, Any] = {
                **acceptance,
                "criteria": [
                    {key: value for key, value in item.items() if key != "table"}
                    for item in acceptance["criteria"]
                    if item["table"] == table
                ],
            }
            if acceptance["form"] == "pass-only":
                mine.pop("epsilon", None)
                if table in tested:
                    mine["epsilon"] = PURE.split(shares.acceptance, [1.0] * len(tested))[0]
            share = self._share(configurations, counted_schema(pair, unit), unit, shares, number)
            if share is None:
                return {}
            plain = {
                "name": self.file.name,
                "source": {"table": self.file.source.table or self.file.name},
                "schema": pair.to_dict(),
                "unit": unit.to_dict(),
                "synthesizers": self.plain["synthesizers"],
                "acceptance": mine,
                "selection": {"rule": "single"},
                "budget": {"total": _amounts(shares.total.to_dict()), "model": share},
                **({"public": {"row_count": {"epsilon": rows.epsilon}}} if rows.kind == "measured" else {}),
                **({"seed": self.file.seed} if self.file.seed is not None else {}),
            }
            try:
                found[table] = Spec.from_dict(plain, where=self.where)
            except UnderstudyError as error:
                self.problems += [f"{table}: {item}" for item in problems_of(error)]
        return found if len(found) == number else {}

    def _share(
        self,
        configurations: Sequence[Configuration],
        counted: Schema,
        unit: Unit,
        shares: Shares,
        number: int,
    ) -> dict[str, Any] | None:
        """Return the model's share of one part, which has to be the same for every method that may be drawn."""
        made = []
        # the attempts of a loop have ledgers of their own, which add up in the accounting of the model
        plainly = shares.single and isinstance(shares.total, ApproxDP) and shares.accounting == PURE.name
        for item in configurations:
            try:
                method = synthesizer_of(item.method, item.options, counted, self.where)
            except UnderstudyError as error:
                self.note("synthesizers", error)
                return None
            try:
                share = share_of(
                    shares.model, number, method, schema=counted, unit=unit, alone=False, plainly=plainly
                )
            except BudgetError as error:
                self.note("budget.model", error)
                return None
            if _amounts(share.to_dict()) not in made:
                made.append(_amounts(share.to_dict()))
        if len(made) != 1:
            self.note(
                "synthesizers",
                "the methods divide budget.model among the tables in different accountings; name methods of one kind, or give budget.model a rho or an epsilon alone",
            )
            return None
        return made[0]


def _amounts(budget: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a budget, as a specification writes them."""
    return {key: value for key, value in budget.items() if isinstance(value, int | float)}
