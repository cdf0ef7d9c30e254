"""A model of a table of entities with several tables of their events: a model for each table of events, drawn and kept together.

It is kept as a folder::

    register.json         format, the tables in their order, what each knows of those before, and the digest of its model
    TABLE.understudy      the model of the entities with one table of events

The list is written last, so that a folder without it is no model, and models of two fits in one folder are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import ModelFileError, OutputError, UnderstudyError, WorkloadError
from understudy.mechanisms.drawing import Codes
from understudy.mechanisms.events.drawing import EventDrawer, Ints, drawn_events
from understudy.schema import Schema
from understudy.schema.linked import is_file_name

if TYPE_CHECKING:
    import pandas as pd

    from understudy.mechanisms.model import Model

FORMAT = "understudy-register"
VERSION = 1
LIST = "register.json"
ENDING = ".understudy"
_MOST_BYTES, _MOST_TABLES = 1 << 20, 1_000


@dataclass(frozen=True, eq=False)
class RegisterModel:
    """Models of the entities with each of several tables of their events.

    Attributes
    ----------
    models
        By the names of the tables of events, in the order in which they were fitted.
    numbers
        For each, which fixed column holds the number of events in which of the tables before.

    Privacy
    -------
    Released models. Everything here is post-processing.
    """

    models: Mapping[str, Model]
    numbers: tuple[Mapping[str, str], ...]

    def __post_init__(self) -> None:
        if len(self.models) < 2 or len(self.models) != len(self.numbers):
            raise WorkloadError(
                "A model of several tables of events needs a model and the numbers that it knows for each of two or more."
            )
        before: list[str] = []
        key: tuple[str, str] | None = None
        for (table, model), known in zip(self.models.items(), self.numbers, strict=True):
            linked = None if model.events is None else model.events.linked
            entity = model.table_schema.entity
            if linked is None or entity is None or entity.min_events or linked[1] != table:
                raise WorkloadError(
                    f"The model of {table!r} is not one of linked tables with that table of events."
                )
            if key not in (None, (linked[0], entity.id)):
                raise WorkloadError(f"The model of {table!r} is about other entities than those before it.")
            key = linked[0], entity.id
            if set(known) != set(before) or not set(known.values()) <= set(entity.fixed):
                raise WorkloadError(
                    f"The model of {table!r} does not know the numbers of events in the tables before it."
                )
            before.append(table)

    @property
    def entities(self) -> str:
        """The name of the table of entities."""
        linked = self._drawers[0].linked
        assert linked is not None
        return linked[0]

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """The schemas of the entities with each table of events, as one."""
        return tuple(model.table_schema for model in self.models.values())

    @property
    def _drawers(self) -> tuple[EventDrawer, ...]:
        return tuple(EventDrawer(model) for model in self.models.values())

    def sample_tables(
        self, rows: int | None = None, *, entities: int | None = None, seed: int | None = None
    ) -> dict[str, pd.DataFrame]:
        """Draw all tables, by name: the entities with fresh keys, and their events, each with the key of its entity.

        The first model says who the entities are and how many events they have in its table. Every later one knows these numbers as fixed about an entity, so that how many events
        there are in its table is drawn given them.

        Parameters
        ----------
        rows
            So many events at most in all tables together, less than one entity away from it; by default those of as many entities as the first model stands for.
        entities
            Instead of ``rows``: so many entities.
        seed
            Makes the draw repeatable. Safe: the models are already public.
        """
        generator = np.random.default_rng(seed)
        drawers = self._drawers
        people, counts = self._people(drawers, rows, entities, generator)
        made: dict[str, pd.DataFrame] = {}
        tied = any(drawer.exact is not None for drawer in drawers)
        known = drawers[0]._settled(people[0], generator) if tied else None
        events, known = drawn_events(drawers, people, counts, known, generator)
        for table, drawer, who, many, codes in zip(self.models, drawers, people, counts, events, strict=True):
            owner = np.repeat(np.arange(len(many)), many)
            frames = drawer._frames(who, many, codes, owner, generator, known)
            made[table] = frames[table]
            entity = drawer.schema.entity
            assert entity is not None
            if self.entities not in made:
                made = {self.entities: frames[self.entities], **made}
            else:
                wanted = [entity.count] if entity.count is not None else []
                for name in (*wanted, *drawer.parts.summaries):
                    made[self.entities][name] = frames[self.entities][name]
        return made

    def _people(
        self,
        drawers: tuple[EventDrawer, ...],
        rows: int | None,
        entities: int | None,
        generator: np.random.Generator,
    ) -> tuple[list[Codes], list[Ints]]:
        """Draw entities with their numbers of events in every table: for each table their codes, as its event records, and the numbers."""
        if rows is None:
            return self._entities(drawers, drawers[0].entities if entities is None else entities, generator)
        if rows < 0:
            raise WorkloadError(f"Cannot draw {rows} rows; ask for zero or more.")
        expected = sum(drawer.mean_events for drawer in drawers)
        if rows and not expected > 0:
            raise WorkloadError("The models expect no events at all, so that no number of them can be drawn.")
        wanted = int(rows / expected * 1.1) + 64 if rows else 0
        people, counts = self._entities(drawers, wanted, generator)
        while sum(many.sum() for many in counts) < rows:
            more, again = self._entities(drawers, wanted, generator)
            people = [np.concatenate(both) for both in zip(people, more, strict=True)]
            counts = [np.concatenate(both) for both in zip(counts, again, strict=True)]
        kept = int(np.searchsorted(np.cumsum(np.sum(counts, axis=0)), rows, side="right"))
        return [who[:kept] for who in people], [many[:kept] for many in counts]

    def _entities(
        self, drawers: tuple[EventDrawer, ...], n: int, generator: np.random.Generator
    ) -> tuple[list[Codes], list[Ints]]:
        people: list[Codes] = []
        counts: list[Ints] = []
        fixed: dict[str, npt.NDArray[Any]] = {}
        counted: dict[str, npt.NDArray[Any]] = {}
        for table, drawer, known in zip(self.models, drawers, self.numbers, strict=True):
            if not people:
                who = drawer._people(n, generator)
                own = [name for name in drawer.parts.fixed if name not in drawer.parts.summaries]
                fixed = {name: who[:, drawer._place(name)] for name in own}
            else:
                beside = {column: counted[other] for other, column in known.items()}
                who = drawer._given({**fixed, **beside}, n, generator)
            people.append(who)
            counts.append(drawer._numbers(who, generator))
            counted[table] = who[:, drawer._place(drawer.parts.number)]
        return people, counts

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the models to a folder, which may hold an older model of several tables; its list is written last."""
        place = Path(folder)
        try:
            place.mkdir(exist_ok=True)
            (place / LIST).unlink(missing_ok=True)
            listed = []
            for (table, model), known in zip(self.models.items(), self.numbers, strict=True):
                path = place / f"{table}{ENDING}"
                model.save(path)
                listed.append({"name": table, "numbers": dict(known), "sha256": _digest(path)})
            text = json.dumps({"format": FORMAT, "version": VERSION, "tables": listed}, indent=1) + "\n"
            part = place / f".{LIST}.part"
            part.write_text(text, encoding="utf-8")
            part.replace(place / LIST)
        except OSError as error:
            raise OutputError(
                f"The models cannot be written to {str(place)!r}: {error.strerror or error}."
            ) from None
        return place

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> RegisterModel:
        """Read the models of a folder, refusing anything that is not one."""
        from understudy.mechanisms.model_file import load_model

        place = Path(folder)
        if not is_register_model(place):
            raise ModelFileError(
                f"{str(place)!r} is no folder with the models of several tables of events ({LIST} is missing)."
            )
        try:
            if (place / LIST).stat().st_size > _MOST_BYTES:
                raise ModelFileError(f"{LIST} is larger than any list of tables.")
            document = json.loads((place / LIST).read_text(encoding="utf-8"))
            if document["format"] != FORMAT or document["version"] != VERSION:
                raise ModelFileError(
                    f"{LIST} was written by another version or program; this one reads {FORMAT} {VERSION}."
                )
            listed = document["tables"]
            names = [item["name"] for item in listed]
            numbers = tuple(
                {str(table): str(column) for table, column in item["numbers"].items()} for item in listed
            )
            digests = [str(item["sha256"]) for item in listed]
            if len(names) > _MOST_TABLES or not all(
                isinstance(name, str) and is_file_name(name) for name in names
            ):
                raise ModelFileError(f"{LIST} names tables that cannot be files.")
        except ModelFileError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OSError) as error:
            raise ModelFileError(f"{LIST} is not a usable list of tables ({type(error).__name__}).") from None
        models: dict[str, Model] = {}
        for name, digest in zip(names, digests, strict=True):
            path = place / f"{name}{ENDING}"
            if not path.is_file() or _digest(path) != digest:
                raise ModelFileError(
                    f"{path.name} is missing or not the model that was written with the others."
                )
            models[name] = load_model(path)
        try:
            return cls(models, numbers)
        except UnderstudyError as error:
            raise ModelFileError(f"The models in {str(place)!r} do not belong together: {error}") from None


def is_register_model(path: str | os.PathLike[str]) -> bool:
    """Say whether a path is a folder with the models of several tables of events."""
    return (Path(path) / LIST).is_file()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
