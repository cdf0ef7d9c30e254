"""Next year's release from this year's bundle: a specification that puts to use what is public already.

What a bundle gives to the release after it, without costing anything:

- *the specification*: schema, unit, rules, criteria, budget and the configuration that was accepted;
- *the structure*: which marginals were worth measuring. A method that pays for choosing them (AIM, MST and others) is replaced by the one that measures
  a given list, with the whole budget;
- *the prior*: the model. Noisy marginals are moved towards it as far as noise explains the difference, and what is not measured keeps the relations it has there;
- *a table to rehearse on*: its rows.

Privacy
-------
All of it is a function of what was published, so it is a constant to the mechanism that reads the new table; the composed guarantee of the series is in
:mod:`understudy.release.series.cost`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from understudy.data import Database, read_frame
from understudy.engine import GraphicalModel
from understudy.errors import BundleError, DataError, OutputError, SchemaError, UnderstudyError
from understudy.mechanisms import Model
from understudy.privacy import Budget
from understudy.release.bundle.verify import verify_bundle
from understudy.release.selection.profiles import Bound
from understudy.release.series.compare import schema_differences
from understudy.release.series.cost import CONDITION, composed
from understudy.release.series.previous import bounds_of, manifest_hash
from understudy.release.spec.spec import PRIOR_METHODS, Spec
from understudy.schema import Clique, Schema
from understudy.schema.files.yaml import to_yaml

__all__ = ["Refresh", "Use", "plan_refresh", "require_previous"]

Use = Literal["all", "prior", "nothing"]
"""How much of the old bundle is put to use: structure and prior; the prior alone, with the method as it was; nothing but the specification."""

_MEASURING = "gaussian"
_HEAD = "# Specification of a release that follows another one; understudy refresh made it from the other one's bundle.\n"


@dataclass(frozen=True, kw_only=True, eq=False)
class Refresh:
    """A specification for the release after a bundle, and what it means.

    Attributes
    ----------
    spec
        The new specification; write it with `write`.
    certificate
        Of the old bundle, verified.
    number
        Which release of the series it will be.
    year
        The guarantee of the new release alone.
    series
        The guarantee of the series by its length, from the releases so far and this one on; later ones are thought to have the same parts.
    notes
        What is put to use, and what a person should know.
    """

    spec: Spec
    certificate: Mapping[str, Any]
    number: int
    year: Budget
    series: tuple[tuple[int, Budget], ...]
    notes: tuple[str, ...]

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the specification to a new file, with paths relative to it."""
        file = Path(path)
        plain = json.loads(json.dumps(self.spec.plain))
        here = file.absolute().parent
        plain["previous"]["bundle"] = os.path.relpath(plain["previous"]["bundle"], here)
        if plain["source"].get("path"):
            plain["source"]["path"] = os.path.relpath(plain["source"]["path"], here)
        text = json.dumps(plain, indent=2) + "\n"
        if file.suffix != ".json":
            lines = to_yaml(plain).splitlines(keepends=True)
            text = _HEAD + "".join(line for line in lines if not line.startswith("#"))
        try:
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            raise OutputError(
                f"The specification cannot be written to {str(file)!r}: {error.strerror or error}."
            ) from None
        return file

    def rehearsal_spec(self) -> Spec:
        """Return the specification without its prior: rows of the old model would flatter a fit that starts from it."""
        plain = json.loads(json.dumps(self.spec.plain))
        plain["previous"]["prior"] = False
        return Spec.from_dict(plain, where=self.spec.where)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.spec.name,
            "number": self.number,
            "release": self.year.to_dict(),
            "series": [{"releases": count, "guarantee": total.to_dict()} for count, total in self.series],
            "condition": CONDITION,
            "notes": list(self.notes),
        }


def plan_refresh(
    bundle: str | PathLike[str],
    *,
    source: str | PathLike[str] | Database,
    name: str | None = None,
    spec: Spec | None = None,
    use: Use = "all",
    row_count: int | None = None,
    years: int = 5,
) -> Refresh:
    """Make the specification of the release after a bundle, and say what the series will cost. No record is read and nothing is spent.

    Parameters
    ----------
    bundle
        Folder of the earlier release; it is verified.
    source
        The new private table: a file, or a `Database`. Of a file the names of its columns are compared with the schema.
    name
        Name of the new release; by default that of the file.
    spec
        A specification for it; by default that of the bundle. It must have the bundle's schema and unit.
    use
        What to put to use (`Use`).
    row_count
        The new number of rows, where the old specification declared one public.
    years
        Length of the series to show the cost of.

    Raises
    ------
    BundleError
        If the bundle does not verify, or does not fit: other columns, values or bins, another unit.
    DataError
        If the new table lacks columns of the schema.
    """
    folder = Path(bundle).absolute()
    certificate = verify_bundle(folder)
    old = _old_spec(folder)
    wanted = spec or old
    _require_rows(old)
    _require_fit(old, wanted)
    if not isinstance(source, Database):
        _require_columns(Path(source), wanted)
    plain = json.loads(json.dumps(wanted.plain))
    notes: list[str] = []
    if spec is None:
        _take_over(plain, old, folder, row_count, notes)
    elif row_count is not None:
        plain["public"] = {**(plain.get("public") or {}), "row_count": row_count}
    file = None if isinstance(source, Database) else Path(source).absolute()
    plain["name"] = name or (plain["name"] if spec is not None else _name_for(plain["name"], file))
    plain["source"] = {
        key: value
        for key, value in plain["source"].items()
        if key not in ("path", "database", "simulate", "table")
    }
    if file is not None:
        plain["source"]["path"] = str(file)
    elif isinstance(source, Database):
        plain["source"]["database"] = {
            "url": source.url, "table": source.table, "immutable": source.immutable
        }  # fmt: skip
    for part in ("ledger", "facts", "agreement"):
        plain.pop(part, None)
    releases = _releases(old, certificate, folder)
    prior = use != "nothing" and _usable_prior(folder, wanted, plain, use, notes)
    plain["previous"] = {
        "bundle": str(folder),
        "manifest": releases[-1]["manifest"],
        "prior": prior,
        "releases": releases,
    }
    made = Spec.from_dict(plain, where=wanted.where)
    shares = made.shares
    known = [*shares.trade_off]
    past = [[Bound.from_dict(item) for item in release["bounds"]] for release in releases]
    series = tuple(
        (count, composed([*past, *([known] * (count - len(past)))]))
        for count in range(len(past) + 1, max(years, len(past) + 1) + 1)
    )
    if made.shares.promise != _promise_of(certificate):
        notes.append(
            "The new release promises something else than the old one. If that was decided in the light of what was published, the guarantee of the "
            "series holds only for a total that was fixed before."
        )
    return Refresh(
        spec=made,
        certificate=certificate,
        number=len(past) + 1,
        year=shares.promise,
        series=series,
        notes=tuple(notes),
    )


# ---------------------------------------------------------------- does it fit?


def _require_rows(old: Spec) -> None:
    """Refuse a release of entities with their events, whose models are no prior of one another yet, and say how the next one is made."""
    if old.two_levels or old.parts:
        raise BundleError(
            f"The bundle holds entities with their events ({old.name!r}), and a series has one row for each of its records so far. The next release is one of its own: "
            "in the studio begin a design with a copy of this one, or copy its specification and change the name, and, in the schema or under source.tables, where "
            "the tables are; leave 'agreement' and 'facts' out, have the new one approved, and give it the ledger of its own tables. What somebody in both releases is "
            "promised is the two guarantees added up."
        )


def require_previous(spec: Spec) -> None:
    """Check, before anything is spent, the bundle that a specification says was published before it in its series.

    Raises
    ------
    BundleError
        If it is not named or not there, does not verify, is another one, or has another schema or unit.

    Privacy
    -------
    What a series adds up to is computed from what the specification says of earlier releases. Only their bundles show that it is true.
    """
    previous = spec.file.previous
    if previous is None:
        return
    if previous.bundle is None:
        raise BundleError(
            "The specification says what earlier releases of the series cost, and not where the bundle of the last one is, which proves it (previous.bundle). "
            "Name the folder; or leave previous out, and say nothing of a series."
        )
    folder = spec.where / previous.bundle
    certificate = verify_bundle(folder)
    again = "Make the specification anew: understudy refresh."
    if manifest_hash(folder) != previous.manifest:
        raise BundleError(
            f"{str(folder)!r} is not the bundle that the specification names (previous.manifest). {again}"
        )
    old = _old_spec(folder)
    _require_fit(old, spec)
    if [item.model_dump() for item in previous.releases] != _releases(old, certificate, folder):
        raise BundleError(
            f"The earlier releases of the series (previous.releases) are not those that the bundle {str(folder)!r} gives. {again}"
        )


def _releases(old: Spec, certificate: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return the releases of a series up to a bundle, as the specification of the next one lists them."""
    before = old.file.previous
    own = {
        "name": str(certificate["name"]),
        "manifest": manifest_hash(folder),
        "bounds": [bound.to_dict() for bound in bounds_of(certificate)],
    }
    return [*([] if before is None else [item.model_dump() for item in before.releases]), own]


def _old_spec(folder: Path) -> Spec:
    try:
        return Spec.read(folder / "spec.json")
    except UnderstudyError as error:
        raise BundleError(
            f"The specification of the bundle {str(folder)!r} cannot be used again: {error} Give one of your own (--spec)."
        ) from None


def _require_fit(old: Spec, new: Spec) -> None:
    """Refuse a bundle of another unit, or of other columns, values or bins."""
    problems = []
    if old.unit != new.unit:
        problems.append(f"it protects {old.unit.describe()!r}, and the new release {new.unit.describe()!r}")
    problems += schema_differences(old.schema, new.schema)
    if problems:
        lines = "\n".join(f"  - {item}" for item in problems)
        raise BundleError(f"The old bundle does not fit the new release; nothing was read or spent:\n{lines}")


def _require_columns(file: Path, spec: Spec) -> None:
    """Refuse a table that lacks columns of the schema. Only names are looked at, which are public."""
    if not file.exists():
        raise DataError(f"There is no table {str(file)!r}.")
    found = set(map(str, read_frame(file, **spec.source.reading, first_rows=1).columns))
    made = {item.name for item in spec.source.derived} | {item.name for item in spec.schema.derived}
    wanted = [name for name in spec.schema.names if name not in made]
    if spec.unit.id_column is not None:
        wanted.append(spec.unit.id_column)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise DataError(
            f"The old bundle does not fit the table {str(file)!r}: it lacks the columns {', '.join(missing)}. Nothing was spent. Write a specification "
            "for the new table and begin a new series."
        )


def _promise_of(certificate: Mapping[str, Any]) -> Budget:
    return bounds_of(certificate)[0].budget


# ---------------------------------------------------------------- what is taken over


def _take_over(
    plain: dict[str, Any], old: Spec, folder: Path, row_count: int | None, notes: list[str]
) -> None:
    """Keep of the old specification the configuration that was accepted, and nothing that was about the old table alone."""
    chosen = json.loads((folder / "configuration.json").read_text(encoding="utf-8"))
    if old.transformations:
        plain["transformations"] = {
            column: {label: plain["transformations"][column][label]}
            for column, label in chosen["transformations"].items()
        }
    plain["synthesizers"] = [{"method": chosen["method"], "options": chosen["options"]}]
    if plain.get("projections"):
        plain["projections"] = [chosen["projection"]]
    given = old.row_count.kind == "given"
    schema = plain.get("schema")
    if isinstance(schema, dict) and schema.pop("row_count", None) is not None:
        given = True
    if row_count is not None:
        plain["public"] = {**(plain.get("public") or {}), "row_count": row_count}
    elif given:
        raise SchemaError(
            "The old release declared its number of rows public, and the new table has another one. Give it (--row-count N), if its owner declares "
            "that public too."
        )
    notes.append(f"Specification of {old.name!r}: the configuration that was accepted, {chosen['name']}.")


def _name_for(old: str, file: Path | None) -> str:
    """Return a name for the new release: that of its file, unless it is the old one."""
    stem = (
        ""
        if file is None
        else "".join(
            c if (c.isascii() and c.isalnum()) or c in " ._-" else "-" for c in file.name.split(".")[0]
        )
    )
    stem = stem.strip(" ._-")[:60]
    return stem if stem and stem != old else f"{old[:50]}-next"


def _usable_prior(folder: Path, spec: Spec, plain: dict[str, Any], use: Use, notes: list[str]) -> bool:
    """Put structure and prior of a bundle into a specification as far as they can be used; say whether the prior can."""
    file = folder / "model.understudy"
    model = Model.load(file) if file.exists() else None
    methods = [item["method"] for item in plain["synthesizers"]]
    if use == "all" and any(method != _MEASURING for method in methods):
        cliques = _structure(folder, spec.schema, model)
        # rows are fitted to what they were fitted to before, beyond what is measured
        options = {
            key: value
            for key, value in plain["synthesizers"][0].get("options", {}).items()
            if key == "workload"
        }
        options["measured"] = {", ".join(clique): 1 for clique in cliques}
        plain["synthesizers"] = [{"method": _MEASURING, "options": options}]
        notes.append(
            f"Structure: the {len(cliques)} marginals that the old release found worth measuring, measured with the whole budget of the model "
            f"({_MEASURING}); nothing is spent on choosing them."
        )
        methods = [_MEASURING]
    domain = None if model is None else model.schema.domain
    if model is None or not isinstance(model.distribution, GraphicalModel) or plain.get("transformations"):
        notes.append(
            "Prior: none; the old bundle holds no model over the columns of the new release that could be one."
        )
        return False
    if domain != spec.schema.domain or not any(method in PRIOR_METHODS for method in methods):
        notes.append(
            f"Prior: none; it needs the columns as the old model has them, and one of the methods {', '.join(PRIOR_METHODS)}."
        )
        return False
    notes.append(
        "Prior: the model of the old bundle. Marginals that have not changed by more than noise explains stay close to it."
    )
    return True


def _structure(folder: Path, schema: Schema, model: Model | None) -> list[Clique]:
    """Return the largest marginals that an old model was made from; a tree of pairs of its rows if it measured none of several columns."""
    domain = schema.domain
    found = [] if model is None else [item.clique for item in model.measurements if item.clique]
    cliques = [
        domain.canonical(clique) for clique in dict.fromkeys(found) if set(clique) <= set(domain.names)
    ]
    if not any(len(clique) > 1 for clique in cliques):
        cliques = _tree(schema, schema.encode_frame(read_frame(folder / "data.csv")))
    cliques += [(name,) for name in domain.names]
    sets = [set(clique) for clique in cliques]
    return [
        clique
        for index, clique in enumerate(cliques)
        if not any(sets[index] < other for other in sets) and clique not in cliques[:index]
    ]


def _tree(schema: Schema, codes: Mapping[str, npt.NDArray[Any]]) -> list[Clique]:
    """Return the tree of pairs with the largest mutual information in a public table (Chow and Liu 1968)."""
    names = schema.domain.names
    gains = sorted(
        (
            (_information(codes[a], codes[b], schema.column(a).size, schema.column(b).size), a, b)
            for a, b in combinations(names, 2)
        ),
        reverse=True,
    )
    part = {name: name for name in names}
    chosen: list[Clique] = []
    for _, a, b in gains:
        if part[a] != part[b]:
            gone, kept = part[b], part[a]
            part = {name: kept if label == gone else label for name, label in part.items()}
            chosen.append((a, b))
    return chosen


def _information(a: npt.NDArray[Any], b: npt.NDArray[Any], rows: int, columns: int) -> float:
    table = np.bincount(a.astype(np.int64) * columns + b, minlength=rows * columns).reshape(
        rows, columns
    ) / max(len(a), 1)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    held = table > 0
    return float((table[held] * np.log(table[held] / expected[held])).sum())
