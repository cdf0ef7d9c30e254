"""The controls of a design: what its form shows, what comes back, and which control each problem stands beside."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import PydanticUndefined

from understudy.errors import SchemaError, UnderstudyError
from understudy.mechanisms import methods
from understudy.mechanisms.events.workload import CONDITIONAL
from understudy.release.criteria.registry import criterion_kind, criterion_kinds
from understudy.schema.files.yaml import parse_plain
from understudy.schema.problems import problems_of
from understudy.studio.complaints import Complaints
from understudy.studio.designs.specification import built, settled, total_of, with_method
from understudy.workflow.choice import AUTO

__all__ = ["Controls", "apply", "complain", "field_of", "kind_names", "method_names", "skeleton"]

_PLACES = {
    "name": "",
    "title": "title",
    "description": "description",
    "license": "license",
    "citation": "citation",
    "source": "source_kind",
    "source.simulate": "source_table",
    "source.simulate.rows": "source_rows",
    "source.path": "source_path",
    "source.derive": "derive",
    "unit": "relation",
    "public.row_count": "row_count",
    "public.expected_rows": "expected_rows",
    "cleaning": "cleaning",
    "constraints": "constraints",
    "synthesizers": "method",
    "projections": "min_count",
    "acceptance.form": "form",
    "acceptance.epsilon": "acceptance_epsilon",
    "acceptance.false_accept": "false_accept",
    "selection": "selection",
    "selection.gamma": "gamma",
    "budget.total": "total_epsilon",
    "budget.total.delta": "total_delta",
    "budget.model": "total_epsilon",
    "output.formats": "formats",
}
"""Which control a problem of a specification stands beside, by its place in the file; the longest beginning decides."""


def field_of(problem: str) -> tuple[str, str]:
    """Return the control that a problem belongs to, and the problem without its place.

    Examples
    --------
    >>> field_of("acceptance.criteria[2].threshold: must be above 0.0")
    ('criterion-2-threshold', 'must be above 0.0')
    >>> field_of("acceptance.criteria[1] 'mean': no column named 'x'")
    ('criterion-1-more', "no column named 'x'")
    >>> field_of("acceptance.criteria[1].values: must be a list")
    ('criterion-1-more', 'values: must be a list')
    >>> field_of("cleaning[3]: No column named 'foo'.")
    ('cleaning', "line 4: No column named 'foo'.")
    >>> field_of("synthesizers[0].options: independent has no option 'workload'. Known:")
    ('workload', 'independent takes none: leave it empty.')
    >>> field_of("something else")
    ('', 'something else')
    """
    place, separator, text = problem.partition(": ")
    if not separator:
        return "", problem
    found = re.match(r"acceptance\.criteria\[(\d+)\](?:\.(\w+))?", place)
    if found is not None:
        name = found.group(2) if found.group(2) in ("threshold", "name", "kind", "epsilon") else "more"
        if name == "more" and ("threshold" in text.split() or "'threshold'" in text):
            name = "threshold"
        if name == "more" and text.startswith("no kind"):
            name = "kind"
        part = found.group(2)
        return f"criterion-{found.group(1)}-{name}", f"{part}: {text}" if name == "more" and part else text
    if place.startswith("synthesizers") and "has no option 'workload'" in text:
        return "workload", f"{text.split()[0]} takes none: leave it empty."
    line = re.match(r"(cleaning|constraints)\[(\d+)\]", place)
    if line is not None:
        return line.group(1), f"line {int(line.group(2)) + 1}: {text}"
    bare = re.sub(r"\[\d+\].*", "", place.split(" ")[0])
    while bare:
        if bare in _PLACES:
            return _PLACES[bare], text
        bare = bare.rpartition(".")[0]
    return "", problem


def complain(error: UnderstudyError, complaints: Complaints) -> None:
    """Put every problem of an error beside its control."""
    for problem in problems_of(error):
        complaints.add(*field_of(problem))


@dataclass
class Controls:
    """What the form of a design shows, as text; what it cannot show stays as the file has it."""

    values: dict[str, str]
    criteria: list[dict[str, str]]
    several: int = 0

    @classmethod
    def of(cls, plain: Mapping[str, Any], *, auto: bool = False) -> Controls:
        """Read the controls from a specification."""

        def mapping(key: str, holder: Mapping[str, Any] = plain) -> Mapping[str, Any]:
            found = holder.get(key)
            return found if isinstance(found, Mapping) else {}

        source, unit, public = mapping("source"), plain.get("unit"), mapping("public")
        acceptance, total = mapping("acceptance"), mapping("total", mapping("budget"))
        simulated, selection = mapping("simulate", source), mapping("selection")
        synthesizers = plain.get("synthesizers") or [{}]
        first = (
            synthesizers[0] if isinstance(synthesizers, list) and isinstance(synthesizers[0], Mapping) else {}
        )
        options = mapping("options", first)
        workload = options.get("workload", "")
        plain_method = len(synthesizers) == 1 and set(options) <= {"workload"} and isinstance(workload, str)
        projections = plain.get("projections") or []
        occurrence = next(
            (
                str(item.get("min_count", ""))
                for item in projections
                if isinstance(item, Mapping) and "min_count" in item
            ),
            "",
        )
        row_count = public.get("row_count", "")
        values = {
            "title": plain.get("title", ""),
            "description": plain.get("description", ""),
            "license": plain.get("license", ""),
            "citation": plain.get("citation", ""),
            "source_kind": "simulate" if simulated else "database" if "database" in source else "file",
            "source_table": simulated.get("table", "births"),
            "source_rows": simulated.get("rows", ""),
            "source_path": source.get("path", ""),
            "derive": _block(mapping("derive", source)),
            "relation": unit if isinstance(unit, str) else mapping("unit").get("relation", ""),
            "id_column": mapping("unit").get("id_column", ""),
            "max_rows": mapping("unit").get("max_rows", ""),
            "row_count": row_count
            if isinstance(row_count, str | int)
            else f"epsilon {row_count.get('epsilon')}"
            if isinstance(row_count, Mapping)
            else "",
            "expected_rows": public.get("expected_rows", ""),
            "cleaning": _lines(plain.get("cleaning")),
            "constraints": _lines(plain.get("constraints")),
            "method": AUTO if auto else first.get("method", "") if plain_method else "as-in-file",
            "workload": workload if plain_method and not auto else "",
            "min_count": occurrence,
            "form": acceptance.get("form", "pass-only"),
            "acceptance_epsilon": acceptance.get("epsilon", ""),
            "false_accept": acceptance.get("false_accept", ""),
            "selection": selection.get("rule", "single"),
            "gamma": selection.get("gamma", ""),
            "total_epsilon": total.get("epsilon", ""),
            "total_delta": total.get("delta", ""),
            "parquet": "yes" if "parquet" in mapping("output").get("formats", ()) else "",
        }
        texts = {name: "" if value is None else str(value) for name, value in values.items()}
        criteria = [
            _criterion(item) for item in acceptance.get("criteria") or () if isinstance(item, Mapping)
        ]
        return cls(
            texts,
            criteria,
            several=0 if plain_method else max(1, len(synthesizers)),
        )


def _criterion(item: Mapping[str, Any]) -> dict[str, str]:
    shown = ("name", "kind", "threshold", "epsilon")
    rest = {key: value for key, value in item.items() if key not in shown}
    more = _block(rest)
    return {key: str(item.get(key, "")) for key in shown} | {"more": more}


def _block(plain: Mapping[str, Any]) -> str:
    """Return a mapping one key to a line, what is inside in braces; empty if there is nothing."""
    if not plain:
        return ""
    text: str = yaml.safe_dump(
        dict(plain), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )
    return text


def _lines(rules: Any) -> str:
    """Return rules one to a line; those with a description as a mapping."""
    lines = []
    for rule in rules or ():
        if isinstance(rule, str):
            lines.append(" ".join(rule.split()))
        else:
            lines.append(
                yaml.safe_dump(
                    rule, default_flow_style=True, allow_unicode=True, width=math.inf, sort_keys=False
                ).strip()
            )
    return "\n".join(lines)


def skeleton(kind: str) -> str:
    """Return what a criterion of a kind needs beside its name and threshold, to be filled in."""
    config = criterion_kind(kind)
    needed = [
        f"{name}: "
        for name, item in config.model_fields.items()
        if name not in ("name", "kind", "threshold", "epsilon", "description")
        and item.default is PydanticUndefined
        and item.default_factory is None
    ]
    return "\n".join(needed)


class _Texts:
    """Reads texts of a form and complains beside the field where one cannot be read."""

    def __init__(self, given: Mapping[str, str], complaints: Complaints) -> None:
        self._given, self._complaints = given, complaints

    def text(self, name: str) -> str:
        return self._given.get(name, "").strip()

    def number(self, name: str, *, above: float | None = None, below: float | None = None) -> float | None:
        """Return a number, or None if the field is empty or holds none, with a complaint in the latter case."""
        text = self.text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self._complaints.add(name, f"{text[:40]!r} is not a number.")
            return None
        if above is not None and value <= above:
            self._complaints.add(name, f"must be above {above:g}.")
            return None
        if below is not None and value >= below:
            self._complaints.add(name, f"must be below {below:g}.")
            return None
        return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else value

    def whole(self, name: str, *, least: int = 1) -> int | None:
        text = self.text(name).replace(",", "").replace("_", "")
        if not text:
            return None
        if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) < least:
            self._complaints.add(name, f"must be a whole number of at least {least}.")
            return None
        return int(text)

    def rules(self, name: str) -> list[Any]:
        """Return rules, one to a line; a line in braces is a mapping with rule and description."""
        found: list[Any] = []
        for number, line in enumerate(self.text(name).split("\n"), start=1):
            if not line.strip():
                continue
            if line.strip().startswith("{"):
                try:
                    found.append(parse_plain(line.strip()))
                except SchemaError as error:
                    self._complaints.add(name, f"line {number}: {error}")
            else:
                found.append(line.strip())
        return found


def apply(
    plain: Mapping[str, Any], given: Mapping[str, str], *, where: Path
) -> tuple[dict[str, Any], Complaints, str]:
    """Return a specification with what a form says, everything wrong with it, and why a method was chosen by itself.

    Parameters
    ----------
    plain
        The specification before.
    given
        The fields of the form; criteria are ``criterion-0-name`` and so on.
    where
        Folder of the file.
    """
    complaints = Complaints()
    made: dict[str, Any] = copy.deepcopy(dict(plain))
    read = _Texts(given, complaints)
    for key in ("title", "description", "license", "citation"):
        made[key] = read.text(key)
        if key in ("license", "citation") and not made[key]:
            made.pop(key)
    _apply_table(made, read, complaints)
    _apply_rules(made, read)
    _apply_acceptance(made, given, read, complaints)
    _apply_selection(made, read, complaints)
    epsilon = read.number("total_epsilon", above=0.0)
    delta = read.number("total_delta", above=0.0, below=1.0)
    old = total_of(plain)
    if epsilon is None and old is not None and not complaints.of("total_epsilon"):
        complaints.add("total_epsilon", "is needed: how much the whole release may cost.")
    if epsilon is not None:
        made["budget"] = {
            "total": {"epsilon": epsilon} | ({} if delta is None else {"delta": delta}),
            "model": {"epsilon": epsilon / 2} | ({} if delta is None else {"delta": delta}),
        }
    why = ""
    if not complaints:
        try:
            method = read.text("method") or AUTO
            if method != "as-in-file":
                made, why = with_method(made, method, read.text("workload"), where=where)
            made = settled(made, where=where)
            if made["budget"] == plain.get("budget"):
                made["budget"] = copy.deepcopy(plain["budget"])  # 1 and 1.0 are one number, and two texts
            built(made, where=where)
        except UnderstudyError as error:
            complain(error, complaints)
    return made, complaints, why


def _apply_table(made: dict[str, Any], read: _Texts, complaints: Complaints) -> None:
    source = {
        key: value
        for key, value in (made.get("source") or {}).items()
        if key not in ("path", "simulate", "database")
    }
    kind = read.text("source_kind")
    if kind == "simulate":
        rows = read.whole("source_rows")
        if rows is None and not complaints.of("source_rows"):
            complaints.add("source_rows", "is needed for a simulated table.")
        seed = ((made.get("source") or {}).get("simulate") or {}).get("seed", 1)
        source["simulate"] = {"table": read.text("source_table"), "rows": rows or 1, "seed": seed}
    elif kind == "database":
        source["database"] = (made.get("source") or {}).get("database", {})
    elif read.text("source_path"):
        source["path"] = read.text("source_path")
    try:
        derive = parse_plain(read.text("derive") or "{}")
        source.pop("derive", None)
        if not isinstance(derive, Mapping):
            complaints.add("derive", "write one column to a line, such as month: {from: day, part: month}")
        elif derive:
            source["derive"] = dict(derive)
    except SchemaError as error:
        complaints.add("derive", str(error))
    if not {"simulate", "database", "path"} & set(source):
        source.setdefault("table", made.get("name", ""))
    made["source"] = source
    relation, person = read.text("relation"), read.text("id_column")
    most = "auto" if read.text("max_rows") == "auto" else read.whole("max_rows")
    made["unit"] = relation
    if person:
        made["unit"] = {"relation": relation, "id_column": person} | (
            {} if most is None else {"max_rows": most}
        )
    elif most is not None and most != 1:
        complaints.add("id_column", "is needed where a person may have several rows.")
    public: dict[str, Any] = {}
    text = read.text("row_count")
    found = re.fullmatch(r"epsilon\s*=?\s*([0-9.eE+-]+)", text)
    if found is not None:
        try:
            public["row_count"] = {"epsilon": float(found.group(1))}
        except ValueError:
            complaints.add("row_count", "write measured, declared, a number, or epsilon 0.02.")
    elif text in ("measured", "declared"):
        public["row_count"] = text
    elif text:
        number = read.whole("row_count")
        if number is not None:
            public["row_count"] = number
        elif complaints.of("row_count"):
            complaints.by_field["row_count"] = ["write measured, declared, a number, or epsilon 0.02."]
    expected = read.whole("expected_rows")
    if expected is not None:
        public["expected_rows"] = expected
    made["public"] = public


def _apply_rules(made: dict[str, Any], read: _Texts) -> None:
    for key in ("cleaning", "constraints"):
        made[key] = read.rules(key)
    others = [
        item
        for item in made.get("projections") or ()
        if item.get("kind") not in ("minimal-occurrence", "none")
    ]
    before: Mapping[str, Any] = next(
        (item for item in made.get("projections") or () if item.get("kind") == "minimal-occurrence"), {}
    )
    count = read.whole("min_count")
    if count is not None and count > 1:
        others.append({"algorithm": "balanced", **before, "kind": "minimal-occurrence", "min_count": count})
    made.pop("projections", None)
    if others:
        made["projections"] = others
    formats = ["csv", "parquet"] if read.text("parquet") else ["csv"]
    made["output"] = {**(made.get("output") or {}), "formats": formats}


def _apply_acceptance(
    made: dict[str, Any], given: Mapping[str, str], read: _Texts, complaints: Complaints
) -> None:
    form = read.text("form") or "pass-only"
    acceptance = {key: value for key, value in (made.get("acceptance") or {}).items() if key == "open_bins"}
    acceptance = {"form": form} | acceptance
    if form == "pass-only":
        epsilon = read.number("acceptance_epsilon", above=0.0)
        if epsilon is not None:
            acceptance["epsilon"] = epsilon
        false_accept = read.number("false_accept", above=0.0, below=0.5)
        if false_accept is not None:
            acceptance["false_accept"] = false_accept
    criteria: list[dict[str, Any]] = []
    places: list[int] = []
    for index in _places(given):
        begin = f"criterion-{index}-"
        if given.get(f"{begin}remove"):
            continue
        item: dict[str, Any] = {"name": read.text(f"{begin}name"), "kind": read.text(f"{begin}kind")}
        threshold = read.number(f"{begin}threshold", above=0.0)
        if threshold is not None:
            item["threshold"] = threshold
        epsilon = read.number(f"{begin}epsilon", above=0.0)
        if epsilon is not None and form == "published":
            item["epsilon"] = epsilon
        try:
            more = parse_plain(read.text(f"{begin}more") or "{}")
            if not isinstance(more, Mapping):
                complaints.add(f"{begin}more", "write one key to a line, such as column: age")
            else:
                item |= {key: value for key, value in more.items() if key not in item and value is not None}
        except SchemaError as error:
            complaints.add(f"{begin}more", str(error))
        criteria.append(item)
        places.append(index)
    if not criteria:
        complaints.add("", "A release needs at least one criterion.")
    acceptance["criteria"] = criteria
    made["acceptance"] = acceptance


def _places(given: Iterable[str]) -> list[int]:
    found = (re.fullmatch(r"criterion-(\d{1,4})-name", name) for name in given)
    return sorted({int(item.group(1)) for item in found if item is not None})


def _apply_selection(made: dict[str, Any], read: _Texts, complaints: Complaints) -> None:
    rule = read.text("selection") or "single"
    if rule == "single":
        made["selection"] = {"rule": "single"}
    elif rule == "until-accepted":
        gamma = read.number("gamma")
        before = made.get("selection") or {}
        kept = dict(before) if before.get("rule") == rule else {}
        made["selection"] = kept | {"rule": rule, "gamma": 0 if gamma is None else gamma}


def method_names(*, of_entities: bool = False) -> list[str]:
    """Return the methods that can be asked for, the automatic choice first; of entities with their events those that can fit them."""
    return [AUTO, *(CONDITIONAL if of_entities else (item.name for item in methods()))]


def kind_names() -> list[str]:
    """Return the kinds of criteria."""
    return list(criterion_kinds())
