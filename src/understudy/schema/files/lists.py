"""Lists of values that a schema file names once and columns refer to: ``values: {list: NAME}``."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.errors import SchemaError
from understudy.schema.columns.levels import nested_of_rows
from understudy.schema.hierarchies.shipped import shipped_list
from understudy.schema.problems import MAX_CODES, MAX_FILE_BYTES, did_you_mean

__all__ = ["Lists", "read_rows", "with_lists", "without_lists"]

Lists = tuple[tuple[str, tuple[Any, ...]], ...]
"""Names with their values, in the order of the file."""


def without_lists(
    plain: Mapping[str, Any], folder: str | os.PathLike[str] | None
) -> tuple[dict[str, Any], dict[str, list[Any]], list[str]]:
    """Return a schema with every ``{list: NAME}`` written out, the lists, and what is wrong with them.

    Parameters
    ----------
    plain
        The content of a schema file.
    folder
        Where the names of files start; None if they cannot be used, because the schema is not read from a file.
    """
    problems: list[str] = []
    lists = _read_lists(plain.get("lists"), folder, problems)
    written = {key: item for key, item in plain.items() if key != "lists"}
    listed = plain.get("columns")
    if isinstance(listed, list):
        written["columns"] = [
            _column(item, index, lists, folder, problems) if isinstance(item, Mapping) else item
            for index, item in enumerate(listed)
        ]
    return written, {name: values for name, values in lists.items() if values is not None}, problems


def with_lists(columns: list[dict[str, Any]], lists: Lists) -> dict[str, Any]:
    """Replace the values of columns that are one of the lists by its name; return the lists that are used."""
    names = {_key(values): name for name, values in reversed(lists)}
    used = set()
    for column in columns:
        if isinstance(column.get("values"), list) and (name := names.get(_key(column["values"]))) is not None:
            column["values"] = {"list": name}
            used.add(name)
    return {name: list(values) for name, values in lists if name in used}


def _key(values: Any) -> tuple[tuple[type, Any], ...]:
    """Tell ``1`` from ``1.0``: they are equal, and a file shows them differently."""
    return tuple((type(value), value) for value in values)


def _read_lists(
    given: Any, folder: str | os.PathLike[str] | None, problems: list[str]
) -> dict[str, list[Any] | None]:
    """Return the values of each list; None for one that is wrong, so that its columns are not blamed."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        problems.append("lists: write a name and its values for each list")
        return {}
    lists: dict[str, list[Any] | None] = {}
    for key, item in given.items():
        name = str(key)
        lists[name] = None
        try:
            if isinstance(item, str):
                lists[name] = _values_of_file(item, folder)
            elif isinstance(item, list) and item:
                lists[name] = item
            elif isinstance(item, Mapping) and set(item) == {"shipped"}:
                lists[name] = list(shipped_list(item["shipped"]))
            else:
                problems.append(
                    f"lists.{name}: write the values, or the name of a file with one value per line"
                )
        except SchemaError as error:
            problems.append(f"lists.{name}: {error}")
    return lists


def _column(
    item: Mapping[str, Any],
    index: int,
    lists: Mapping[str, list[Any] | None],
    folder: str | os.PathLike[str] | None,
    problems: list[str],
) -> dict[str, Any]:
    where = f"columns[{index}] {item['name']!r}" if "name" in item else f"columns[{index}]"
    item = _with_groups_of_file(item, where, folder, problems)
    values = item.get("values")
    if not isinstance(values, Mapping):
        return dict(item)
    place, name = f"{where}.values", values.get("list")
    if set(values) != {"list"} or not isinstance(name, str):
        problems.append(f"{place}: write a list of values, or {{list: NAME}}")
    elif name not in lists:
        known = f" Lists: {', '.join(lists)}" if lists else " The schema has no lists: write them under lists"
        problems.append(f"{place}: no list named {name!r}.{did_you_mean(name, lists)}{known}")
    elif lists[name] is not None:
        return {**item, "values": lists[name]}
    return {**item, "values": [""]}  # reported already


def _with_groups_of_file(
    item: Mapping[str, Any], where: str, folder: str | os.PathLike[str] | None, problems: list[str]
) -> Mapping[str, Any]:
    """Return a column whose levels hold nested groups in place of the name of their file."""
    levels = item.get("levels")
    if not isinstance(levels, Mapping) or "file" not in levels:
        return item
    rest = {key: value for key, value in levels.items() if key != "file"}
    try:
        rows = read_rows(str(levels["file"]), folder)
        return {**item, "levels": {**rest, "groups": nested_of_rows(rows)}}
    except SchemaError as error:
        problems.append(f"{where}.levels.file: {error}")
        return {key: value for key, value in item.items() if key != "levels"}


def _values_of_file(name: str, folder: str | os.PathLike[str] | None) -> list[str]:
    rows = read_rows(name, folder)
    if any(len(row) != 1 for row in rows):
        raise SchemaError(f"the file {name!r} must have one column: one value per line, without a heading")
    return [row[0] for row in rows]


def read_rows(name: str, folder: str | os.PathLike[str] | None) -> list[list[str]]:
    """Read a small public CSV file beside a schema file: text, in UTF-8, blank lines left out.

    Raises
    ------
    SchemaError
        If there is no such file, or it is too large, empty or not such a text.
    """
    if folder is None:
        raise SchemaError(f"the file {name!r} can be named in a schema file only; write the values here")
    path = Path(folder) / name
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SchemaError(f"the file {str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SchemaError(f"there can be no file {str(path)!r}") from None
    if len(content) > MAX_FILE_BYTES:
        raise SchemaError(f"the file {str(path)!r} is larger than {MAX_FILE_BYTES >> 20} MB")
    try:
        rows = [row for row in csv.reader(content.decode("utf-8-sig").splitlines()) if row]
    except UnicodeDecodeError:
        raise SchemaError(f"the file {str(path)!r} is not UTF-8 text") from None
    except csv.Error as error:
        raise SchemaError(f"the file {str(path)!r} is not a CSV file: {error}") from None
    if not rows or len(rows) > MAX_CODES:
        raise SchemaError(f"the file {str(path)!r} must have from 1 to {MAX_CODES:,} lines")
    return rows
