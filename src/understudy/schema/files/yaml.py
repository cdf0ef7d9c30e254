"""Schema files: YAML and JSON read safely, YAML written for people.

The YAML reader keeps to plain data: no tags, anchors or aliases, no repeated keys, bounded size and depth.
Only ``true`` and ``false`` are truth values (``no`` is a country); numbers with leading zeros and dates
stay text.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from understudy.errors import OutputError, SchemaError
from understudy.schema.problems import MAX_CODES, MAX_COLUMNS, MAX_FILE_BYTES, MAX_NESTING

if TYPE_CHECKING:
    from yaml.nodes import MappingNode

__all__ = ["parse_plain", "read_plain", "to_yaml", "write_plain"]

Format = Literal["yaml", "json"]

_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_NULL = re.compile(r"~|null|Null|NULL|")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(
    r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)|[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?"
)
_PUBLIC = "# Understudy schema: what is public about a table.\n"
_MEASURED = (
    "# Understudy schema: what is known about a table. Facts marked measured were learnt from private records with noise and paid\n"
    "# for from the ledger of the table; they are released data, and fitting accepts them on that ledger.\n"
)
_DRAFT = (
    "# Understudy schema, not public yet: facts marked from-data were read from private records. Check each one,\n"
    "# replace what is not public knowledge, then: understudy schema declare THIS --out schema.yaml\n"
    "# Do not publish this file before that.\n"
)


def read_plain(path: str | os.PathLike[str]) -> Any:
    """Read a YAML or JSON file into plain lists and mappings.

    Raises
    ------
    SchemaError
        If the file cannot be read, is too large, or is not well formed.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise SchemaError(f"There is no file {str(file)!r}.") from None
    except OSError as error:
        raise SchemaError(f"The file {str(file)!r} cannot be read: {error.strerror}.") from None
    except ValueError:  # a name that no file can have
        raise SchemaError(f"There can be no file {str(file)!r}.") from None
    if len(content) > MAX_FILE_BYTES:
        raise SchemaError(
            f"The file {str(file)!r} is larger than {MAX_FILE_BYTES >> 20} MB, too large for a schema."
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"The file {str(file)!r} is not UTF-8 text.") from None
    return parse_plain(text, format="json" if file.suffix.lower() == ".json" else "yaml", source=str(file))


def parse_plain(text: str, *, format: Format = "yaml", source: str = "") -> Any:
    """Read YAML or JSON text into plain lists and mappings.

    Examples
    --------
    >>> parse_plain("values: [no, 007, 2014-01-01, 1.5]")
    {'values': ['no', '007', '2014-01-01', 1.5]}
    """
    where = f" in {source!r}" if source else ""
    if format == "json":
        return _parse_json(text, where)
    return _parse_yaml(text, where)


def _parse_json(text: str, where: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(items)
        if len(mapping) != len(items):
            seen: set[str] = set()
            repeated = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise SchemaError(f"The key {repeated!r} occurs twice{where}.")
        return mapping

    def constant(name: str) -> Any:
        raise SchemaError(f"{name} is not a number a schema can hold{where}.")

    try:
        plain = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise SchemaError(f"Not well-formed JSON{where}: {error.msg} at line {error.lineno}.") from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(
            f"Not JSON that a schema can be read from{where}: too deep, or a number too long."
        ) from None
    _check_depth(plain, where)
    return plain


def _check_depth(plain: Any, where: str) -> None:
    level = [plain]
    for _ in range(MAX_NESTING + 1):
        following: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                following.extend(item.values())
            elif isinstance(item, list):
                following.extend(item)
        if not following:
            return
        level = following
    raise SchemaError(f"Lists and mappings are nested more than {MAX_NESTING} deep{where}.")


def _parse_yaml(text: str, where: str) -> Any:
    import yaml

    try:
        _check_events(text, where)
        plain = yaml.load(text, Loader=_loader())  # a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise SchemaError(f"Not well-formed YAML{where}: {error.problem or error.context}{line}.") from None
    except yaml.YAMLError:
        raise SchemaError(
            f"Not well-formed YAML{where}: it holds characters that YAML does not allow."
        ) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(
            f"Not YAML that a schema can be read from{where}: too deep, or a number too long."
        ) from None
    return plain


def _check_events(text: str, where: str) -> None:
    """Walk over the file once without building anything: no aliases, no tags, bounded depth and length, one document.

    A list that is too long is refused where it becomes too long, and the rest of the file is not read.
    """
    import yaml

    depth = documents = 0
    lists: list[
        list[int]
    ] = []  # of each open list or mapping: how many entries it has, and the most it may have
    key = ""
    for event in yaml.parse(text, Loader=_base()):
        line = "" if event.start_mark is None else f" (line {event.start_mark.line + 1})"
        if isinstance(event, yaml.NodeEvent) and lists:
            lists[-1][0] += 1
            if lists[-1][0] > lists[-1][1]:
                raise SchemaError(
                    f"A list{where} holds more than the {lists[-1][1]:,} entries allowed{line}."
                )
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise SchemaError(f"Anchors and aliases are not allowed{where}{line}.")
        if tag := getattr(event, "tag", None):
            raise SchemaError(f"Tags such as {tag!r} are not allowed{where}{line}.")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_NESTING:
                raise SchemaError(f"Lists and mappings are nested more than {MAX_NESTING} deep{where}.")
            columns = key == "columns" and isinstance(event, yaml.SequenceStartEvent)
            lists.append([0, MAX_COLUMNS if columns else MAX_CODES])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            lists.pop()
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise SchemaError(f"There is more than one YAML document{where}; a schema is one.")
        key = event.value if isinstance(event, yaml.ScalarEvent) else ""


def _base() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _loader() -> Any:
    """Return a safe loader with the few plain types of the module docstring."""

    class PlainLoader(_base()):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, str | int | float):
                    raise SchemaError(f"A key must be text (line {key_node.start_mark.line + 1}).")
                if key in seen:
                    raise SchemaError(f"The key {key!r} occurs twice (line {key_node.start_mark.line + 1}).")
                seen.add(key)
            return super().construct_mapping(node, deep=deep)  # type: ignore[no-any-return]

    def integer(loader: Any, node: Any) -> int:
        return int(loader.construct_scalar(node))

    def real(loader: Any, node: Any) -> float:
        return float(loader.construct_scalar(node))

    for tag, pattern, first in (
        ("bool", _BOOL, "tTfF"),
        ("null", _NULL, ["~", "n", "N", ""]),
        ("int", _INT, "-+0123456789"),
        ("float", _FLOAT, "-+0123456789."),
    ):
        full = re.compile(rf"(?:{pattern.pattern})\Z")
        PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", full, list(first))
    PlainLoader.add_constructor("tag:yaml.org,2002:int", integer)
    PlainLoader.add_constructor("tag:yaml.org,2002:float", real)
    return PlainLoader


def to_yaml(plain: Any) -> str:
    """Return plain data as YAML: blocks for mappings, one line for short lists, quotes only where needed.

    Text that this or any other YAML reader could take for something else is quoted.
    """
    import yaml

    class PlainDumper(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

        def ignore_aliases(self, data: Any) -> bool:
            return True

    for pattern, first in ((_INT, "-+0123456789"), (_FLOAT, "-+0123456789.")):
        full = re.compile(rf"(?:{pattern.pattern})\Z")
        PlainDumper.add_implicit_resolver("tag:understudy,number", full, list(first))

    def sequence(dumper: yaml.SafeDumper, items: list[Any]) -> Any:
        flow = not any(isinstance(item, list | dict) for item in items) and not any(
            isinstance(item, str) and len(item) > 40 for item in items
        )
        return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flow)

    def words(dumper: yaml.SafeDumper, text: str) -> Any:
        style = (
            '"' if any(mark in text for mark in "\x85\u2028\u2029\ufeff") else None
        )  # read as line ends otherwise
        if style is None and text.isascii() and text.isdigit():
            style = "'"  # 01084 and '01085' in one list look like two kinds
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    PlainDumper.add_representer(list, sequence)
    PlainDumper.add_representer(str, words)
    body = yaml.dump(
        said_once(plain),
        Dumper=PlainDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=110,
    )
    head = (
        _DRAFT
        if _has_origin(plain, "from-data")
        else _MEASURED
        if _has_origin(plain, "measured")
        else _PUBLIC
    )
    return head + body


def said_once(plain: Any) -> Any:
    """Return a schema without the spellings of missing entries that reading it adds again: ``-99`` written as text behind the number -99.

    Examples
    --------
    >>> said_once({"columns": [{"name": "a", "missing_values": [-99, "-99"], "missing_text": "-99"}]})
    {'columns': [{'name': 'a', 'missing_values': [-99], 'missing_text': '-99'}]}
    """
    if not isinstance(plain, dict):
        return plain
    found = dict(plain)
    for key, part in (("columns", _once), ("tables", said_once)):
        if isinstance(plain.get(key), list):
            found[key] = [part(item) for item in plain[key]]
    return found


def _once(column: Any) -> Any:
    listed = column.get("missing_values") if isinstance(column, dict) else None
    if not isinstance(listed, list) or not listed or listed[-1] != column.get("missing_text"):
        return column
    numbers = [str(value) for value in listed[:-1] if isinstance(value, int | float)]
    return column | {"missing_values": listed[:-1]} if listed[-1] in numbers else column


def _has_origin(plain: Any, origin: str) -> bool:
    """Whether any fact of a schema is marked with an origin."""
    if not isinstance(plain, dict):
        return False
    tables = [part for part in plain.get("tables") or () if isinstance(part, dict)]
    columns = [part for table in (plain, *tables) for part in table.get("columns") or ()]
    return any(origin in str(part.get("origin", "")) for part in (plain, *columns) if isinstance(part, dict))


def write_plain(plain: Any, path: str | os.PathLike[str]) -> None:
    """Write plain data to a YAML or JSON file, whole or not at all.

    Raises
    ------
    OutputError
        If the file cannot be written; an existing file is left as it was.
    """
    file = Path(path)
    if file.suffix.lower() == ".json":
        text = json.dumps(said_once(plain), indent=2, ensure_ascii=False) + "\n"
    else:
        text = to_yaml(plain)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=file.parent, prefix=f".{file.name}.", delete=False
        ) as stream:
            temporary = stream.name
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, file.stat().st_mode & 0o777 if file.exists() else 0o644)
        os.replace(temporary, file)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"The file {str(file)!r} cannot be written: {error.strerror}.") from None
