"""Schema: what is public about the table, column by column, with every complaint beside its field."""

from __future__ import annotations

import copy
import re
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import Response

from understudy.datasets import load, names
from understudy.errors import SchemaError, UnderstudyError, UsageError
from understudy.privacy import PureDP, Unit
from understudy.schema import Schema, import_schema
from understudy.schema.files.schema_file import COLUMN_PARTS
from understudy.schema.files.yaml import parse_plain, to_yaml
from understudy.schema.problems import problems_of
from understudy.studio.complaints import Complaints
from understudy.studio.desk import Desk, Form, Stale
from understudy.studio.folder import text_version
from understudy.workflow.choice import Facts

__all__ = [
    "column",
    "declare",
    "file",
    "overview",
    "rules",
    "save_column",
    "save_file",
    "save_rules",
    "start",
    "take",
]

_KINDS = [(kind, kind) for kind in COLUMN_PARTS]
_LISTS = ("values", "bins", "missing_values", "spelling")
_SCALARS = ("minimum", "maximum", "decimals")
_TEXTS = ("name", "description", "unit", "missing_text", "resolution", "format", "decode_by", "out_of_domain")
_FIELDS = ("kind", "missing", *_LISTS, *_SCALARS, *_TEXTS)
_POLICIES = [
    ("", "refuse the table"),
    ("clamp", "clamp"),
    ("to-missing", "to missing"),
    ("to-other", "to other"),
]
_DECODE = ["midpoint", "uniform", "integer-uniform", "smooth", "edge", "label"]
_OF_COLUMN = re.compile(
    r"""columns\[(\d+)\](?: (?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))?(?:\.(\w+))?: (.*)""", flags=re.DOTALL
)
_RESOLUTIONS = ["day", "week", "month", "quarter", "year"]


# ---------------------------------------------------------------------- between forms and files


def shown(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return a column of a schema file as the texts of its form."""
    found = {name: _text(entry.get(name)) for name in (*_TEXTS, *_SCALARS)}
    found["kind"] = _text(entry.get("kind"))
    found["missing"] = "yes" if entry.get("missing") else ""
    for name in _LISTS:
        value = entry.get(name)
        if isinstance(value, list):
            found[name] = "\n".join(_line(item) for item in value)
        else:
            found[name] = "" if value is None else _flow(value)
    rest = {key: value for key, value in entry.items() if key not in _FIELDS}
    found["more"] = yaml.safe_dump(rest, sort_keys=False, allow_unicode=True) if rest else ""
    return found


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _line(value: Any) -> str:
    """Return a value as a line that is read back as itself: text that looks like a number keeps its quotes."""
    text = str(value)
    if isinstance(value, str) and _scalar(text) != value:
        return _flow(value)
    return text


def _flow(value: Any) -> str:
    found: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return found.removesuffix("\n").removesuffix("\n...")


def _scalar(text: str) -> Any:
    """Return a line as a number or as text, as a schema file would read it."""
    try:
        found = parse_plain(text)
    except SchemaError:
        return text
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else text


def entry_of(given: Mapping[str, str]) -> tuple[dict[str, Any], Complaints]:
    """Return the column that a form describes, as a schema file has it, and what cannot be read."""
    complaints = Complaints()
    kind = given.get("kind", "")
    entry: dict[str, Any] = {"name": given.get("name", "").strip(), "kind": kind}
    for name in _TEXTS[1:]:
        text = given.get(name, "").strip()
        if text:
            entry[name] = text
    for name in _SCALARS:
        text = given.get(name, "").strip()
        if text:
            entry[name] = text if kind == "date" else _scalar(text)
    for name in _LISTS:
        lines = [line.strip() for line in given.get(name, "").split("\n") if line.strip()]
        if lines:
            entry[name] = _listed(name, lines, complaints)
    if given.get("missing"):
        entry["missing"] = True
    try:
        more = parse_plain(given.get("more", "").strip() or "{}")
        if not isinstance(more, Mapping):
            complaints.add("more", "write one key to a line, such as levels: {prefix: [2]}")
        else:
            entry |= {key: value for key, value in more.items() if key not in entry}
    except SchemaError as error:
        complaints.add("more", str(error))
    return entry, complaints


def _listed(name: str, lines: list[str], complaints: Complaints) -> Any:
    if len(lines) == 1 and name in ("bins", "values"):
        if name == "bins" and re.fullmatch(r"[0-9]{1,7}", lines[0]):
            return int(lines[0])
        if lines[0].startswith(("{", "[")) and lines[0].endswith("}" if lines[0][0] == "{" else "]"):
            try:
                found = parse_plain(lines[0])
                if isinstance(found, Mapping) or name == "values":
                    return found
            except SchemaError as error:
                complaints.add(name, str(error))
    return [_scalar(line) for line in lines]


def placed(problem: str) -> tuple[int | None, str, str]:
    """Return the column, the field and the text of a problem of a schema.

    Examples
    --------
    >>> placed("columns[2] 'c': bins: 'z' is not a bin label")
    (2, 'bins', "'z' is not a bin label")
    >>> placed("columns[0] 'a': minimum (5) must not exceed maximum (1)")
    (0, 'minimum', 'minimum (5) must not exceed maximum (1)')
    >>> placed("constraints[1]: No column named 'q'.")
    (None, 'constraints', "line 2: No column named 'q'.")
    """
    found = _OF_COLUMN.match(problem)
    if found is None:
        rule = re.match(r"constraints\[(\d+)\][^:]*: (.*)", problem, flags=re.DOTALL)
        if rule is not None:
            return None, "constraints", f"line {int(rule.group(1)) + 1}: {rule.group(2)}"
        head = problem.partition(":")[0]
        return None, head if head in ("name", "description", "row_count", "constraints") else "", problem
    text = found.group(3)
    if found.group(2) in _FIELDS:
        return int(found.group(1)), found.group(2), text
    head, separator, rest = text.partition(": ")
    if separator and head in _FIELDS:
        return int(found.group(1)), head, rest
    first = re.match(r"\W*(\w+)", text)
    word = first.group(1) if first is not None else ""
    if "key" in text and (quoted := re.search(r"'(\w+)'", text)) and quoted.group(1) in _FIELDS:
        word = quoted.group(1)
    if text.startswith("no kind"):
        word = "kind"
    return int(found.group(1)), word if word in _FIELDS else "", text


@lru_cache(maxsize=4)
def _read(text: str, root: Path) -> tuple[dict[str, Any], Schema | None, tuple[str, ...]]:
    """Return the plain content of a schema file, the schema, and what is wrong with it; large files are not read anew for every page."""
    plain: dict[str, Any] = {"version": 1, "columns": []}
    try:
        found = parse_plain(text)
        if not isinstance(found, dict) or not isinstance(found.get("columns"), list):
            raise SchemaError("The file does not hold a schema: a mapping with a list of columns.")
        plain = found
        return plain, Schema.from_dict(found, folder=root), ()
    except UnderstudyError as error:
        return plain, None, problems_of(error)


class _Current:
    """The schema file as it is: its text, its version, its plain content and what is wrong with it."""

    def __init__(self, desk: Desk) -> None:
        self.text = desk.folder.read(desk.folder.schema)
        self.version = text_version(self.text)
        self.problems: list[str] = []
        self.schema: Schema | None = None
        self.plain: dict[str, Any] = {"version": 1, "columns": []}
        if self.text:
            plain, self.schema, problems = _read(self.text, desk.folder.root)
            self.plain, self.problems = copy.deepcopy(plain), list(problems)

    @property
    def columns(self) -> list[dict[str, Any]]:
        return [item if isinstance(item, dict) else {} for item in self.plain["columns"]]

    def require(self, version: str) -> None:
        """Refuse a form that was made from another version of the file."""
        if version != self.version:
            raise Stale(
                "The schema was changed meanwhile, in another tab or by another program. Open it again; go back with your browser to copy what you typed."
            )


def _write(desk: Desk, schema: Schema) -> None:
    desk.folder.write(desk.folder.schema, to_yaml(schema.to_dict()))


# ---------------------------------------------------------------------- pages


def overview(desk: Desk, request: Request) -> Response:
    """Show all columns with their sizes, the size of the domain and what it costs."""
    return _overview(desk)


def _overview(
    desk: Desk, complaints: Complaints | None = None, pasted: str = "", status: int = 200
) -> Response:
    now = _Current(desk)
    rows, cost, cells = [], "", ""
    if now.schema is not None:
        private = {fact.partition(".")[0] for fact in now.schema.facts_from_data()}
        for index, item in enumerate(now.schema.columns):
            rows.append(
                {
                    "index": index,
                    "name": item.name,
                    "kind": item.kind,
                    "size": item.size,
                    "unit": item.unit or "",
                    "description": item.description or "",
                    "from_data": item.name in private,
                }
            )
        cells = _large(now.schema.domain.cells())
        cost = Facts.of(now.schema, unit=Unit.add_remove(), budget=PureDP(1.0)).describe()
    return desk.render(
        "schema.html",
        status=status,
        here="schema",
        exists=bool(now.text),
        problems=now.problems,
        rows=rows,
        cells=cells,
        cost=cost,
        remarks=[] if now.schema is None else now.schema.remarks(),
        rules=[] if now.schema is None else [str(item) for item in now.schema.constraints],
        from_data=() if now.schema is None else now.schema.facts_from_data(),
        version=now.version,
        simulated=names(),
        found=complaints or Complaints(),
        pasted=pasted,
    )


def _large(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"about 10 to the power of {len(str(number)) - 1}"


def column(desk: Desk, request: Request) -> Response:
    """Show the form of one column, or of a new one."""
    now = _Current(desk)
    index = _index(request, now)
    entry = {"kind": "categorical"} if index is None else now.columns[index]
    return _column_page(desk, now, index, shown(entry), Complaints())


def _index(request: Request, now: _Current) -> int | None:
    text = request.path_params["index"]
    if text == "new":
        return None
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) >= len(now.columns):
        raise UsageError("There is no such column.")
    return int(text)


def _column_page(
    desk: Desk,
    now: _Current,
    index: int | None,
    values: Mapping[str, str],
    complaints: Complaints,
    status: int = 200,
) -> Response:
    return desk.render(
        "column.html",
        status=status,
        here="schema",
        index="new" if index is None else index,
        values=values,
        found=complaints,
        version=now.version,
        kinds=_KINDS,
        policies=_POLICIES,
        decode=[("", "as usual"), *((item, item) for item in _DECODE)],
        resolutions=[("", "none"), *((item, item) for item in _RESOLUTIONS)],
    )


def save_column(desk: Desk, request: Request, form: Form) -> Response:
    """Change, add, move or remove a column; complain beside the field and keep what was typed otherwise."""
    now = _Current(desk)
    now.require(form.text("version"))
    index = _index(request, now)
    action = form.text("action", "save")
    plain = copy.deepcopy(now.plain)
    columns = plain["columns"]
    values = {name: form.text(name) for name in (*_FIELDS, "more")}
    complaints = Complaints()
    place = len(columns) if index is None else index
    if index is not None and action == "remove":
        del columns[index]
    elif index is not None and action in ("up", "down"):
        other = index - 1 if action == "up" else index + 1
        if 0 <= other < len(columns):
            columns[index], columns[other] = columns[other], columns[index]
    else:
        entry, complaints = entry_of(values)
        columns[place : place + 1] = [entry]
    if not complaints:
        try:
            if columns:
                _write(desk, Schema.from_dict(plain, folder=desk.folder.root))
            else:
                raise SchemaError("A schema needs at least one column; change this one instead.")
            return desk.go("/schema")
        except UnderstudyError as error:
            for problem in problems_of(error):
                where, field, text = placed(problem)
                complaints.add(field if where == place else "", text if where in (place, None) else problem)
    return _column_page(desk, now, index, values, complaints, status=422)


def rules(desk: Desk, request: Request) -> Response:
    """Show name, description and rules of the schema."""
    now = _Current(desk)
    return _rules_page(desk, now, _rules_shown(now.plain), Complaints())


def _rules_shown(plain: Mapping[str, Any]) -> dict[str, str]:
    lines = [item if isinstance(item, str) else _flow(item) for item in plain.get("constraints") or ()]
    return {
        "name": _text(plain.get("name")),
        "description": _text(plain.get("description")),
        "row_count": _text(plain.get("row_count")),
        "constraints": "\n".join(" ".join(line.split()) for line in lines),
    }


def _rules_page(
    desk: Desk, now: _Current, values: Mapping[str, str], complaints: Complaints, status: int = 200
) -> Response:
    return desk.render(
        "rules.html",
        status=status,
        here="schema",
        values=values,
        found=complaints,
        version=now.version,
        columns=[_text(item.get("name")) for item in now.columns],
    )


def save_rules(desk: Desk, request: Request, form: Form) -> Response:
    """Change name, description, public number of rows and rules."""
    now = _Current(desk)
    now.require(form.text("version"))
    values = {name: form.text(name) for name in ("name", "description", "row_count", "constraints")}
    plain, complaints = copy.deepcopy(now.plain), Complaints()
    for name in ("name", "description"):
        plain.pop(name, None)
        if values[name].strip():
            plain[name] = values[name].strip()
    plain.pop("row_count", None)
    if values["row_count"].strip():
        plain["row_count"] = _scalar(values["row_count"].strip())
    lines = []
    for number, line in enumerate(values["constraints"].split("\n"), start=1):
        try:
            if line.strip():
                lines.append(parse_plain(line.strip()) if line.strip().startswith("{") else line.strip())
        except SchemaError as error:
            complaints.add("constraints", f"line {number}: {error}")
    plain.pop("constraints", None)
    if lines:
        plain["constraints"] = lines
    if not complaints:
        try:
            _write(desk, Schema.from_dict(_in_order(plain), folder=desk.folder.root))
            return desk.go("/schema")
        except UnderstudyError as error:
            for problem in problems_of(error):
                _, field, text = placed(problem)
                complaints.add(field if field in values else "", text)
    return _rules_page(desk, now, values, complaints, status=422)


def _in_order(plain: Mapping[str, Any]) -> dict[str, Any]:
    first = [key for key in ("version", "name", "description") if key in plain]
    return {key: plain[key] for key in (*first, *(key for key in plain if key not in first))}


def file(desk: Desk, request: Request) -> Response:
    """Show the schema as the text of its file."""
    now = _Current(desk)
    return desk.render(
        "file.html", here="schema", name="schema.yaml", action="/schema/file", back="/schema",
        text=now.text, version=now.version, problems=now.problems,
    )  # fmt: skip


def save_file(desk: Desk, request: Request, form: Form) -> Response:
    """Change the schema as text."""
    now = _Current(desk)
    now.require(form.text("version"))
    text = form.text("text")
    try:
        _write(desk, _parsed(desk, desk.folder.text(text.encode("utf-8"), "schema.yaml")))
        return desk.go("/schema")
    except UnderstudyError as error:
        return desk.render(
            "file.html", status=422, here="schema", name="schema.yaml", action="/schema/file", back="/schema",
            text=text, version=now.version, problems=problems_of(error),
        )  # fmt: skip


def _parsed(desk: Desk, text: str) -> Schema:
    plain = parse_plain(text)
    return Schema.from_dict(plain, folder=desk.folder.root)


def start(desk: Desk, request: Request, form: Form) -> Response:
    """Begin with the schema of a simulated table."""
    now = _Current(desk)
    now.require(form.text("version"))
    if now.text and not form.text("replace"):
        return _overview(
            desk,
            _complaint("replace", "There is a schema already. Say that it is to be replaced."),
            status=422,
        )
    if form.text("table") not in names():
        raise UsageError("There is no such simulated table.")
    _write(desk, load(form.text("table"), 0)[1])
    return desk.go("/schema")


def take(desk: Desk, request: Request, form: Form) -> Response:
    """Take a schema, a draft or another tool's domain file, sent as a file or pasted."""
    now = _Current(desk)
    now.require(form.text("version"))
    pasted = form.text("pasted")
    if now.text and not form.text("replace"):
        return _overview(
            desk,
            _complaint("replace", "There is a schema already. Say that it is to be replaced."),
            pasted,
            422,
        )
    name, content = form.files.get("file", ("pasted.yaml", pasted.encode("utf-8")))
    try:
        if not content.strip():
            raise SchemaError("Choose a file, or paste its text.")
        _write(desk, _imported(desk, name, content))
        return desk.go("/schema")
    except UnderstudyError as error:
        found = Complaints()
        for problem in problems_of(error):
            found.add("file" if "file" in form.files else "pasted", problem)
        return _overview(desk, found, pasted, 422)


def _complaint(field: str, text: str) -> Complaints:
    made = Complaints()
    made.add(field, text)
    return made


def _imported(desk: Desk, name: str, content: bytes) -> Schema:
    """Read a schema file of Understudy, or else the domain file of another tool."""
    text = desk.folder.text(content, name)
    suffix = Path(name).suffix.lower()
    if suffix not in (".json", ".xml", ".yaml", ".yml"):
        suffix = (
            ".xml" if text.lstrip().startswith("<") else ".json" if text.lstrip().startswith("{") else ".yaml"
        )
    if suffix != ".xml":
        plain = parse_plain(text, format="json" if suffix == ".json" else "yaml")
        if isinstance(plain, dict) and isinstance(plain.get("columns"), list):
            return Schema.from_dict(plain, folder=desk.folder.root)
    desk.folder.hidden.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=desk.folder.hidden) as place:
        path = Path(place) / f"{Path(name).stem[:60] or 'schema'}{suffix}"
        path.write_text(text, encoding="utf-8")
        return import_schema(path)


def declare(desk: Desk, request: Request, form: Form) -> Response:
    """Declare the facts of a draft public: the promise of the owner of the table."""
    now = _Current(desk)
    now.require(form.text("version"))
    if now.schema is None:
        raise UsageError("There is no schema whose facts could be declared.")
    if not form.text("promise"):
        return _overview(
            desk, _complaint("promise", "Say that you own the table and have read every fact."), status=422
        )
    _write(desk, now.schema.declare_public())
    return desk.go("/schema")
