"""Schema: what is public about the table, column by column, with every complaint beside its field.

Linked tables are shown as one list of columns, those of the entities first; the file keeps a section for each table, and where the tables are.
"""

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

from understudy.datasets import load, names, patient_register_schema
from understudy.errors import SchemaError, UnderstudyError, UsageError
from understudy.privacy import PureDP, Unit
from understudy.schema import Schema, import_schema
from understudy.schema.files.schema_file import COLUMN_PARTS
from understudy.schema.files.yaml import parse_plain, to_yaml
from understudy.schema.linked import joined, parted, register_of
from understudy.schema.problems import problems_of
from understudy.studio.background.rehearsals import REGISTER
from understudy.studio.complaints import Complaints
from understudy.studio.desk import Desk, Form, Stale
from understudy.studio.folder import require_inside, text_version
from understudy.workflow.choice import Facts

__all__ = [
    "Current",
    "column",
    "complaint",
    "declare",
    "file",
    "overview",
    "rules",
    "save_column",
    "save_file",
    "save_rules",
    "start",
    "take",
    "write",
]

_SEVERAL = (
    "The studio describes one table, or a table of entities with one table of events. Keep a file with several tables of events as it is: understudy plan, rehearse, release and "
    "synth take it from the command line."
)
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
    ("to-nearest", "to the nearest"),
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
def _read(text: str, root: Path) -> tuple[dict[str, Any], Mapping[str, Any], Schema | None, tuple[str, ...]]:
    """Return the plain content of a schema file as that of one table, where linked tables are, the schema, and what is wrong with it.

    Large files are not read anew for every page.
    """
    plain: dict[str, Any] = {"version": 1, "columns": []}
    sources: Mapping[str, Any] = {}
    try:
        found = parse_plain(text)
        if _is_linked(found):
            plain, sources = _as_one(found)
        elif not isinstance(found, dict) or not isinstance(found.get("columns"), list):
            raise SchemaError(
                "The file does not hold a schema: a mapping with a list of columns, or of tables."
            )
        else:
            plain = found
        require_inside(root, plain, root)
        return plain, sources, Schema.from_dict(plain, folder=root), ()
    except UnderstudyError as error:
        return plain, sources, None, problems_of(error)


def _is_linked(plain: object) -> bool:
    return isinstance(plain, dict) and isinstance(plain.get("tables"), list)


def _as_one(plain: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return linked tables as one, and where they are."""
    if register_of(plain) is not None:
        raise SchemaError(_SEVERAL)
    file = joined(plain)
    return file.plain, file.sources


class Current:
    """The schema file as it is: its text, its version, its plain content and what is wrong with it."""

    def __init__(self, desk: Desk) -> None:
        self.text = desk.folder.read(desk.folder.schema)
        self.version = text_version(self.text)
        self.problems: list[str] = []
        self.schema: Schema | None = None
        self.plain: dict[str, Any] = {"version": 1, "columns": []}
        self.sources: dict[str, Any] = {}
        if self.text:
            plain, sources, self.schema, problems = _read(self.text, desk.folder.root)
            self.plain, self.problems = copy.deepcopy(plain), list(problems)
            self.sources = copy.deepcopy(dict(sources))

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns of the file, those of the entities first."""
        return [item if isinstance(item, dict) else {} for item in self.plain["columns"]]

    @property
    def entity(self) -> dict[str, Any]:
        """What is said of linked tables; empty where there is one table."""
        found = self.plain.get("entity")
        return found if isinstance(found, dict) and found.get("tables") else {}

    def table_of(self, column: object) -> str:
        """Return which of the linked tables a column belongs to; empty where there is one table."""
        if not self.entity:
            return ""
        above, below = self.entity["tables"]
        owned = not self.entity.get("min_events", 1) and column in (self.entity.get("fixed") or ())
        return str(above if owned else below)

    def require(self, version: str) -> None:
        """Refuse a form that was made from another version of the file."""
        if version != self.version:
            raise Stale(
                "The schema was changed meanwhile, in another tab or by another program. Open it again; go back with your browser to copy what you typed."
            )


def write(desk: Desk, schema: Schema, sources: Mapping[str, Any] | None = None) -> None:
    """Write the schema file: of linked tables a section for each, with where they are."""
    plain = schema.to_dict()
    linked = schema.entity is not None and schema.entity.tables is not None
    desk.folder.write(desk.folder.schema, to_yaml(parted(plain, sources) if linked else plain))


# ---------------------------------------------------------------------- pages


def overview(desk: Desk, request: Request) -> Response:
    """Show all columns with their sizes, the size of the domain and what it costs."""
    return _overview(desk)


def _overview(
    desk: Desk, complaints: Complaints | None = None, pasted: str = "", status: int = 200
) -> Response:
    now = Current(desk)
    rows, cost, cells = [], "", ""
    if now.schema is not None:
        for index, item in enumerate(now.schema.columns):
            rows.append(
                {
                    "index": index,
                    "name": item.name,
                    "table": now.table_of(item.name),
                    "kind": item.kind,
                    "size": item.size,
                    "unit": item.unit or "",
                    "description": item.description or "",
                    "from_data": bool(item.facts_from_data) or item.is_marked_rare,
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
        linked=_joins(now),
        simulated=(*names(), REGISTER),
        found=complaints or Complaints(),
        pasted=pasted,
    )


def _joins(now: Current) -> list[dict[str, str]]:
    """Return what a page says of each linked table; nothing where there is one table."""
    entity = now.entity
    if not entity:
        return []
    above, below = entity["tables"]
    about = {
        above: f"one row for each {entity['id']}",
        below: f"belongs to {above} by {entity.get('reference') or entity['id']}"
        + (f", in the order of {entity['order']}" if entity.get("order") else "")
        + (f", at most {entity['max_events']:,} each" if entity.get("max_events") else ""),
    }
    if entity.get("min_events", 1):
        about[above] = f"known by the {entity['id']} of its rows in {below} alone"
    return [
        {"name": name, "about": text, "place": _place_of(now.sources.get(name))}
        for name, text in about.items()
    ]


def _place_of(source: Any) -> str:
    """Say where a table is; of an address nothing is shown but the name of the table."""
    if source is None:
        return "named when it is run"
    return str(source) if isinstance(source, str) else f"table {source['table']} of a database"


def _large(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"about 10 to the power of {len(str(number)) - 1}"


def column(desk: Desk, request: Request) -> Response:
    """Show the form of one column, or of a new one."""
    now = Current(desk)
    index = _index(request, now)
    entry = {"kind": "categorical"} if index is None else now.columns[index]
    values = shown(entry) | {"table": now.table_of(entry.get("name"))}
    return _column_page(desk, now, index, values, Complaints())


def _owning(now: Current) -> bool:
    """Whether the table of entities has columns of its own, so that a column may belong to either."""
    return bool(now.entity) and not now.entity.get("min_events", 1)


def _index(request: Request, now: Current) -> int | None:
    text = request.path_params["index"]
    if text == "new":
        return None
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) >= len(now.columns):
        raise UsageError("There is no such column.")
    return int(text)


def _column_page(
    desk: Desk,
    now: Current,
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
        tables=[(name, name) for name in now.entity.get("tables", ())] if _owning(now) else [],
        kinds=_KINDS,
        policies=_POLICIES,
        decode=[("", "as usual"), *((item, item) for item in _DECODE)],
        resolutions=[("", "none"), *((item, item) for item in _RESOLUTIONS)],
    )


def save_column(desk: Desk, request: Request, form: Form) -> Response:
    """Change, add, move or remove a column; complain beside the field and keep what was typed otherwise."""
    now = Current(desk)
    now.require(form.text("version"))
    index = _index(request, now)
    action = form.text("action", "save")
    plain = copy.deepcopy(now.plain)
    columns = plain["columns"]
    values = {name: form.text(name) for name in (*_FIELDS, "more", "table")}
    complaints = Complaints()
    place = len(columns) if index is None else index
    before = None if index is None else columns[index].get("name")
    if index is not None and action == "remove":
        del columns[index]
        _belong(plain, before, None, False)
    elif index is not None and action in ("up", "down"):
        other = index - 1 if action == "up" else index + 1
        if 0 <= other < len(columns):
            columns[index], columns[other] = columns[other], columns[index]
    else:
        entry, complaints = entry_of(values)
        columns[place : place + 1] = [entry]
        if now.entity:
            table = values["table"] or now.table_of(before)
            _belong(plain, before, entry["name"], table == now.entity["tables"][0])
    if not complaints:
        try:
            require_inside(desk.folder.root, plain, desk.folder.root)
            if columns:
                write(desk, Schema.from_dict(plain, folder=desk.folder.root), now.sources)
            else:
                raise SchemaError("A schema needs at least one column; change this one instead.")
            return desk.go("/schema")
        except UnderstudyError as error:
            for problem in problems_of(error):
                where, field, text = placed(problem)
                complaints.add(field if where == place else "", text if where in (place, None) else problem)
    return _column_page(desk, now, index, values, complaints, status=422)


def _belong(plain: dict[str, Any], before: object, name: object, owned: bool) -> None:
    """Say of a column that was added, renamed, moved to the other table or removed (no name) which linked table it belongs to."""
    entity = plain.get("entity")
    if not isinstance(entity, dict) or not entity.get("tables"):
        return
    fixed = list(entity.get("fixed") or ())
    place = fixed.index(before) if before in fixed else len(fixed)
    fixed[place : place + 1] = [name] if owned else []
    entity["fixed"] = fixed
    for key in ("order", "link"):
        if entity.get(key) == before and name is not None:
            entity[key] = name
        elif isinstance(entity.get(key), list) and before in entity[key]:
            entity[key] = [name if item == before else item for item in entity[key] if item != before or name]
    if not fixed:
        entity.pop("fixed")


def rules(desk: Desk, request: Request) -> Response:
    """Show name, description and rules of the schema."""
    now = Current(desk)
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
    desk: Desk, now: Current, values: Mapping[str, str], complaints: Complaints, status: int = 200
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
    now = Current(desk)
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
            write(desk, Schema.from_dict(_in_order(plain), folder=desk.folder.root), now.sources)
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
    now = Current(desk)
    return desk.render(
        "file.html", here="schema", name="schema.yaml", action="/schema/file", back="/schema",
        text=now.text, version=now.version, problems=now.problems,
    )  # fmt: skip


def save_file(desk: Desk, request: Request, form: Form) -> Response:
    """Change the schema as text."""
    now = Current(desk)
    now.require(form.text("version"))
    text = form.text("text")
    try:
        write(desk, *_parsed(desk, desk.folder.text(text.encode("utf-8"), "schema.yaml")))
        return desk.go("/schema")
    except UnderstudyError as error:
        return desk.render(
            "file.html", status=422, here="schema", name="schema.yaml", action="/schema/file", back="/schema",
            text=text, version=now.version, problems=problems_of(error),
        )  # fmt: skip


def _parsed(desk: Desk, text: str) -> tuple[Schema, Mapping[str, Any]]:
    return _described(desk, parse_plain(text))


def _described(desk: Desk, plain: Any) -> tuple[Schema, Mapping[str, Any]]:
    """Return a schema, and where its linked tables are."""
    sources: Mapping[str, Any] = {}
    if _is_linked(plain):
        plain, sources = _as_one(plain)
    require_inside(desk.folder.root, plain, desk.folder.root)
    return Schema.from_dict(plain, folder=desk.folder.root), sources


def start(desk: Desk, request: Request, form: Form) -> Response:
    """Begin with the schema of a simulated table."""
    now = Current(desk)
    now.require(form.text("version"))
    if now.text and not form.text("replace"):
        return _overview(
            desk,
            complaint("replace", "There is a schema already. Say that it is to be replaced."),
            status=422,
        )
    name = form.text("table")
    if name not in (*names(), REGISTER):
        raise UsageError("There is no such simulated table.")
    write(desk, patient_register_schema() if name == REGISTER else load(name, 0)[1])
    return desk.go("/schema")


def take(desk: Desk, request: Request, form: Form) -> Response:
    """Take a schema, a draft or another tool's domain file, sent as a file or pasted."""
    now = Current(desk)
    now.require(form.text("version"))
    pasted = form.text("pasted")
    if now.text and not form.text("replace"):
        return _overview(
            desk,
            complaint("replace", "There is a schema already. Say that it is to be replaced."),
            pasted,
            422,
        )
    name, content = form.files.get("file", ("pasted.yaml", pasted.encode("utf-8")))
    try:
        if not content.strip():
            raise SchemaError("Choose a file, or paste its text.")
        write(desk, *_imported(desk, name, content))
        return desk.go("/schema")
    except UnderstudyError as error:
        found = Complaints()
        for problem in problems_of(error):
            found.add("file" if "file" in form.files else "pasted", problem)
        return _overview(desk, found, pasted, 422)


def complaint(field: str, text: str) -> Complaints:
    """Return one complaint beside a field."""
    made = Complaints()
    made.add(field, text)
    return made


def _imported(desk: Desk, name: str, content: bytes) -> tuple[Schema, Mapping[str, Any]]:
    """Read a schema file of Understudy, or else the domain file of another tool."""
    text = desk.folder.text(content, name)
    suffix = Path(name).suffix.lower()
    if suffix not in (".json", ".xml", ".yaml", ".yml"):
        suffix = (
            ".xml" if text.lstrip().startswith("<") else ".json" if text.lstrip().startswith("{") else ".yaml"
        )
    if suffix != ".xml":
        plain = parse_plain(text, format="json" if suffix == ".json" else "yaml")
        if _is_linked(plain) or (isinstance(plain, dict) and isinstance(plain.get("columns"), list)):
            return _described(desk, plain)
    desk.folder.hidden.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=desk.folder.hidden) as place:
        path = Path(place) / f"{Path(name).stem[:60] or 'schema'}{suffix}"
        path.write_text(text, encoding="utf-8")
        return import_schema(path), {}


def declare(desk: Desk, request: Request, form: Form) -> Response:
    """Declare the facts of a draft public: the promise of the owner of the table."""
    now = Current(desk)
    now.require(form.text("version"))
    if now.schema is None:
        raise UsageError("There is no schema whose facts could be declared.")
    if not form.text("promise"):
        return _overview(
            desk, complaint("promise", "Say that you own the table and have read every fact."), status=422
        )
    write(desk, now.schema.declare_public(rare_are_public=True), now.sources)
    return desk.go("/schema")
