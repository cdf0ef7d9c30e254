"""Recognising another tool's domain file and reading it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from understudy.errors import SchemaError
from understudy.schema.files import read_plain
from understudy.schema.importers.dpsynth import from_dpsynth, looks_like_dpsynth
from understudy.schema.importers.mbi import from_mbi, looks_like_mbi
from understudy.schema.importers.parts import Facts
from understudy.schema.importers.sdv import from_sdv, looks_like_sdv
from understudy.schema.schema import Schema

__all__ = ["FORMATS", "ImportFormat", "import_schema"]

ImportFormat: TypeAlias = Literal["mbi", "dpsynth", "sdv"]
FORMATS: tuple[str, ...] = get_args(ImportFormat)


def import_schema(
    path: str | os.PathLike[str],
    *,
    format: ImportFormat | None = None,
    facts: Facts | None = None,
    bins: int = 32,
) -> Schema:
    """Read the domain file of another tool as a schema.

    Parameters
    ----------
    path
        An mbi ``{column: size}`` JSON file, a google/dpsynth ``domain.yaml``, or SDV metadata JSON.
    format
        Which of them it is; recognised by its content if left out.
    facts
        Public facts that the file lacks, or that replace its own: for each column a mapping as in a schema
        file, such as ``{"age": {"minimum": 0, "maximum": 110}}``.
    bins
        Number of equal-width bins for numeric columns with bounds but without bins.

    Returns
    -------
    Schema
        Every fact in it was stated by the owner of the file, so all are public.

    Raises
    ------
    SchemaError
        If the file is none of the three, or does not say what values a column can take. The message lists
        each missing fact.

    Privacy
    -------
    Only the file is read, never a table. A domain file that was itself computed from records is not public;
    who imports it declares that it is.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "toy-domain.json")
    ...     _ = file.write_text(json.dumps({"age": 85, "sex": 2}))
    ...     import_schema(file)
    Schema('toy': 2 columns, 170 cells)
    """
    plain = read_plain(path)
    kind = format or _recognise(plain)
    if kind not in FORMATS:
        raise SchemaError(f"No import format named {kind!r}. Known: {', '.join(FORMATS)}.")
    if not isinstance(plain, Mapping):
        raise SchemaError("The domain file must hold a mapping.")
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise SchemaError(f"bins ({bins}) must be a positive whole number.")
    name = _name(path)
    given: dict[str, dict[str, Any]] = {str(key): dict(value) for key, value in (facts or {}).items()}
    if kind == "mbi":
        return from_mbi(plain, name=name, facts=given)
    if kind == "dpsynth":
        return from_dpsynth(plain, name=name, facts=given, bins=bins)
    return from_sdv(plain, name=name, facts=given, bins=bins)


def _recognise(plain: object) -> str:
    if looks_like_sdv(plain):
        return "sdv"
    if looks_like_mbi(plain):
        return "mbi"
    if looks_like_dpsynth(plain):
        return "dpsynth"
    if isinstance(plain, Mapping) and isinstance(plain.get("columns"), list):
        raise SchemaError("This is an Understudy schema already; read it with Schema.read.")
    raise SchemaError(
        "The file is not recognised. Known are an mbi domain ({column: size}), a google/dpsynth domain.yaml "
        "(possible_values, or min_value and max_value, for each column) and SDV metadata (sdtype for each "
        "column)."
    )


def _name(path: str | os.PathLike[str]) -> str:
    stem = Path(path).name.split(".")[0]
    for ending in ("-domain", "_domain", "-metadata", "_metadata"):
        stem = stem.removesuffix(ending)
    return stem
