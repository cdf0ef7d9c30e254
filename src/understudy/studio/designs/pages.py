"""Design: the controls of a specification beside what follows from them, rehearsals, two designs side by side."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from understudy.datasets import names
from understudy.errors import SchemaError, UnderstudyError, UsageError
from understudy.release.spec.spec import Spec
from understudy.schema.files.yaml import parse_plain
from understudy.schema.problems import problems_of, raise_problems
from understudy.studio.background.rehearsals import REGISTER
from understudy.studio.complaints import Complaints
from understudy.studio.designs.consequences import (
    Consequences,
    consequences_of,
    method_in_words,
    table_for,
)
from understudy.studio.designs.controls import Controls, apply, complain, kind_names, method_names, skeleton
from understudy.studio.designs.notes import Notes
from understudy.studio.designs.specification import built, new_design, settled, spec_text, with_total
from understudy.studio.desk import Desk, Form, Stale
from understudy.studio.folder import require_inside, text_version
from understudy.studio.schemas import Current

__all__ = [
    "Saved",
    "cancel",
    "compare",
    "create",
    "design",
    "file",
    "follow",
    "overview",
    "places",
    "preview",
    "rehearsal",
    "same_table",
    "save",
    "save_file",
]

_MOST_TRIALS = 100
_OF_REGISTER = ("patients", "stays")
"""The tables of the simulated register."""
_HEAD = "# A design of the studio: a specification that is still being discussed.\n"


def _beside_it(desk: Desk, text: str) -> str | float:
    """Return what else decides what a design means: the schema; a number that never comes again where other files do."""
    if "\nfacts:" in text or "\nschema: ../schema.yaml\n" not in text:
        return time.monotonic()
    return text_version(desk.folder.read(desk.folder.schema))


@lru_cache(maxsize=64)
def _read(
    text: str, where: Path, beside: str | float
) -> tuple[dict[str, Any], Spec | None, UnderstudyError | None]:
    """Return the content of the file of a design, the specification, and what is wrong with it."""
    plain: dict[str, Any] = {}
    try:
        found = parse_plain(text)
        if not isinstance(found, dict):
            raise SchemaError("The file does not hold a specification.")
        plain = found
        require_inside(where.parent, found, where)
        return plain, Spec.from_dict(found, where=where), None
    except UnderstudyError as error:
        return plain, None, error


class Saved:
    """A design as its file has it."""

    def __init__(self, desk: Desk, name: str) -> None:
        self.name = desk.folder.checked(name)
        self.path = desk.folder.design(name)
        self.text = desk.folder.read(self.path)
        if not self.text:
            raise UsageError(f"There is no design named {name!r}.")
        self.version = text_version(self.text)
        self.notes = Notes.read(desk.folder, name)
        self.where = desk.folder.designs
        self.plain: dict[str, Any]
        self.plain, self.spec, self.problems = _read(self.text, self.where, _beside_it(desk, self.text))

    def require(self, version: str) -> None:
        """Refuse a form that was made from another version of the file."""
        if version != self.version:
            raise Stale(
                f"The design {self.name!r} was changed meanwhile, in another tab or by another program. Open it again; go back with your browser to copy what "
                "you typed."
            )

    def require_spec(self) -> Spec:
        """Return the specification, or say what is wrong with it."""
        if self.spec is None:
            raise SchemaError(str(self.problems))
        return self.spec


def follow(desk: Desk, name: str, spec: Spec, notes: Notes, *, links: bool = True) -> Consequences:
    """Return what follows from a specification of a design."""
    table = table_for(spec, notes.table, notes.rows, desk.rehearsals)
    link = f"/designs/{name}?epsilon={{epsilon}}" if links else None
    return consequences_of(spec, desk.rehearsals, desk.plans, design=name, table=table, link=link)


def places(saved: Saved) -> list[tuple[str, str, bool]]:
    """Return the tables in force, where each is, and whether the design says so itself (rather than the schema); none if it is said when it is run."""
    if saved.spec is None:
        return []
    named = saved.plain.get("source")
    own = (named.get("tables") if isinstance(named, dict) else None) or {}
    linked = saved.spec.source.linked is not None
    return [
        (name, place, not linked or name in own)
        for name, place in saved.spec.source.places(saved.where.parent).items()
    ]


def same_table(desk: Desk, saved: Saved) -> list[str]:
    """Return the other designs of the folder that are about the same table, by its name or by where it is."""
    if saved.spec is None or saved.spec.source.simulated is not None:
        return []
    found = []
    own = {place for _, place, _ in places(saved)}
    for name in desk.folder.design_names():
        if name == saved.name:
            continue
        other = Saved(desk, name)
        if other.spec is None or other.spec.source.simulated is not None:
            continue
        shared = own & {place for _, place, _ in places(other)}
        if shared or (saved.spec.source.table and other.spec.source.table == saved.spec.source.table):
            found.append(name)
    return found


# ---------------------------------------------------------------------- pages


def overview(desk: Desk, request: Request) -> Response:
    """List designs, and offer a new one."""
    return _overview(desk, Complaints(), {})


def _overview(desk: Desk, complaints: Complaints, values: Mapping[str, str], status: int = 200) -> Response:
    found = []
    for name in desk.folder.design_names():
        saved = Saved(desk, name)
        about = "" if saved.spec is None else f"{saved.spec.total.describe()}, for {saved.spec.protects}"
        found.append({"name": name, "title": saved.plain.get("title") or "", "about": about})
    return desk.render(
        "designs.html",
        status=status,
        here="design",
        designs=found,
        has_schema=desk.folder.schema.is_file(),
        simulated=names(),
        linked=_linked(desk),
        found=complaints,
        values={"name": "", "start": "", **values},
    )


def create(desk: Desk, request: Request, form: Form) -> Response:
    """Make a design: a first one, or a copy of another."""
    name, begin = form.text("name").strip(), form.text("start")
    complaints = Complaints()
    try:
        if desk.folder.design(name).exists():
            complaints.add("name", "There is a design of that name.")
    except UsageError as error:
        complaints.add("name", str(error))
    if not desk.folder.schema.is_file():
        complaints.add("", "Write the schema first: a design is about its columns.")
    if complaints:
        return _overview(desk, complaints, {"name": name, "start": begin}, status=422)
    kind, _, other = begin.partition(":")
    notes = Notes()
    desk.folder.make(desk.folder.designs)
    if kind == "copy":
        saved = Saved(desk, other)
        plain = {**saved.plain, "name": name}
        notes = Notes.read(desk.folder, other)
        notes.comments, notes.spoilt = [], False
    else:
        notes.auto = False
        try:
            now = Current(desk)
            raise_problems("The schema has problems", now.problems)
            schema = now.schema
            assert schema is not None
            simulated = other if kind == "simulate" and other in names() else ""
            plain = settled(
                new_design(name, columns=len(schema.names), simulated=simulated, entity=schema.entity),
                where=desk.folder.designs,
            )
        except UnderstudyError as error:
            for problem in problems_of(error):
                complaints.add("", problem)
            return _overview(desk, complaints, {"name": name, "start": begin}, status=422)
    desk.folder.write(desk.folder.design(name), spec_text(plain, _HEAD))
    notes.write(desk.folder, name)
    return desk.go(f"/designs/{name}")


def design(desk: Desk, request: Request) -> Response:
    """Show the controls of a design and what follows from them; ``?epsilon=`` shows another total without saving it."""
    saved = Saved(desk, request.path_params["name"])
    complaints, plain, unsaved = Complaints(), saved.plain, False
    if saved.problems is not None:
        complain(saved.problems, complaints)
    wanted = request.query_params.get("epsilon", "")
    if wanted:
        try:
            epsilon = float(wanted)
            if not (math.isfinite(epsilon) and epsilon > 0):
                raise ValueError
            plain, unsaved = with_total(saved.plain, epsilon, where=saved.where), True
        except ValueError:
            raise UsageError("There is no such total: epsilon has to be a number above 0.") from None
        except UnderstudyError as error:
            complain(error, complaints)
    return _page(
        desk, saved, Controls.of(plain, auto=saved.notes.auto), complaints, plain=plain, unsaved=unsaved
    )


def _page(
    desk: Desk,
    saved: Saved,
    controls: Controls,
    complaints: Complaints,
    *,
    plain: Mapping[str, Any],
    unsaved: bool = False,
    notes: Notes | None = None,
    status: int = 200,
) -> Response:
    notes = notes or saved.notes
    linked, follows = _linked(desk), None
    if not complaints:
        try:
            follows = follow(desk, saved.name, built(plain, where=saved.where), notes)
        except UnderstudyError as error:
            complain(error, complaints)
    return desk.render(
        "design.html",
        status=status,
        here="design",
        name=saved.name,
        version=saved.version,
        values=controls.values,
        criteria=controls.criteria,
        several=controls.several,
        found=complaints,
        unsaved=unsaved,
        notes=notes,
        linked=linked,
        places=places(saved),
        own_places=isinstance(saved.plain.get("source"), dict) and bool(saved.plain["source"].get("tables")),
        table_name="" if saved.spec is None else saved.spec.source.table,
        others=same_table(desk, saved),
        tables=_tables(desk),
        chosen=follows.table.text if follows is not None else notes.table,
        methods=method_names(of_entities=bool(linked)),
        kinds=kind_names(),
        simulated=names(),
        follows=follows,
        saved_spec=saved.spec,
    )


def _linked(desk: Desk) -> tuple[str, ...]:
    """Return the names of the linked tables that the schema describes; none where it describes one table."""
    try:
        schema = Current(desk).schema
    except UnderstudyError:
        return ()
    entity = None if schema is None else schema.entity
    return () if entity is None or entity.tables is None else entity.tables


def _tables(desk: Desk) -> list[tuple[str, str]]:
    found = [("made-up", "made up from the schema")]
    linked = _linked(desk)
    if linked:
        found += [(f"simulated:{REGISTER}", f"simulated: {REGISTER}")] if linked == _OF_REGISTER else []
        found += [(f"public:{name}", f"public folder: {name}") for name in desk.folder.public_folders(linked)]
        return found
    found += [(f"simulated:{name}", f"simulated: {name}") for name in names()]
    found += [(f"public:{name}", f"public file: {name}") for name in desk.folder.public_tables()]
    return found


def _given(form: Form) -> dict[str, str]:
    return {name: form.text(name) for name in form.names if name not in ("token", "version", "action")}


def _typed(given: Mapping[str, str], plain: Mapping[str, Any]) -> Controls:
    """Return the controls as they were typed, whether or not they can be read."""
    before = Controls.of(plain)
    values = {key: given.get(key, "") for key in (*before.values, "rehearsal_rows", "rehearsal_trials")}
    rows = []
    places = sorted(
        {
            int(key.split("-")[1])
            for key in given
            if key.startswith("criterion-") and key.split("-")[1].isdecimal()
        }
    )
    for place in places:
        if not given.get(f"criterion-{place}-remove"):
            rows.append(
                {
                    part: given.get(f"criterion-{place}-{part}", "")
                    for part in ("name", "kind", "threshold", "epsilon", "more")
                }
            )
    return Controls(values, rows, several=before.several)


def _noted(desk: Desk, saved: Saved, given: Mapping[str, str], why: str, complaints: Complaints) -> Notes:
    """Return the notes with what the form says about rehearsals and the choice of the method."""
    notes = Notes.read(desk.folder, saved.name)
    notes.auto, notes.why = given.get("method") == "auto", why
    if given.get("table"):
        notes.table = given["table"]
    for field, most in (("rows", 200_000), ("trials", _MOST_TRIALS)):
        text = given.get(f"rehearsal_{field}", "").strip().replace(",", "")
        if not text and field == "rows":
            notes.rows = None
        elif text.isdecimal() and 1 <= int(text) <= most:
            setattr(notes, field, int(text))
        elif text:
            complaints.add(f"rehearsal_{field}", f"must be a whole number from 1 to {most:,}.")
    return notes


def save(desk: Desk, request: Request, form: Form) -> Response:
    """Save a design, show what would follow, add a criterion, or save and rehearse."""
    saved = Saved(desk, request.path_params["name"])
    given, action = _given(form), form.text("action", "save")
    plain, complaints, why = apply(saved.plain, given, where=saved.where)
    notes = _noted(desk, saved, given, why, complaints)
    if action == "add-criterion":
        controls = _typed(given, saved.plain)
        kind = form.text("new_kind")
        if kind not in kind_names():
            raise UsageError("There is no such kind of criterion.")
        controls.criteria.append(
            {"name": kind, "kind": kind, "threshold": "", "epsilon": "", "more": skeleton(kind)}
        )
        return _page(desk, saved, controls, Complaints(), plain=saved.plain, unsaved=True, notes=notes)
    if action == "preview" or complaints:
        status = 422 if complaints and action != "preview" else 200
        return _page(
            desk,
            saved,
            _typed(given, saved.plain),
            complaints,
            plain=plain,
            unsaved=True,
            notes=notes,
            status=status,
        )
    saved.require(form.text("version"))
    notes.require(saved.name)
    text = spec_text(plain, _HEAD)
    desk.folder.write(saved.path, text)
    notes.write(desk.folder, saved.name)
    if action == "rehearse":
        spec = built(plain, where=saved.where)
        table = table_for(spec, notes.table, notes.rows, desk.rehearsals)
        desk.rehearsals.start(spec, table, trials=notes.trials)
        return desk.go(f"/designs/{saved.name}#rehearsal")
    return desk.go(f"/designs/{saved.name}")


def preview(desk: Desk, request: Request, form: Form) -> Response:
    """Return what would follow from the controls as they are, for the page to show beside them."""
    saved = Saved(desk, request.path_params["name"])
    given = _given(form)
    plain, complaints, why = apply(saved.plain, given, where=saved.where)
    notes = _noted(desk, saved, given, why, complaints)
    follows = None
    if not complaints:
        try:
            follows = follow(desk, saved.name, built(plain, where=saved.where), notes)
        except UnderstudyError as error:
            complain(error, complaints)
    return desk.render("consequences.html", name=saved.name, follows=follows, found=complaints, notes=notes)


def rehearsal(desk: Desk, request: Request) -> Response:
    """Say how the rehearsal of a saved design stands; alone it refreshes itself."""
    saved = Saved(desk, request.path_params["name"])
    follows = follow(desk, saved.name, saved.require_spec(), saved.notes)
    template = "rehearsal.html" if request.query_params.get("part") else "rehearsal_page.html"
    return desk.render(template, here="design", name=saved.name, follows=follows)


def plan(desk: Desk, request: Request) -> Response:
    """Say how a plan in the background stands."""
    key = request.query_params.get("key", "")
    if not re.fullmatch(r"[0-9a-f]{40}", key):
        raise UsageError("There is no such plan.")
    return desk.render(
        "plan.html",
        name=desk.folder.checked(request.path_params["name"]),
        key=key,
        state=desk.plans.state(key),
    )


def cancel(desk: Desk, request: Request, form: Form) -> Response:
    """Cancel a rehearsal."""
    saved = Saved(desk, request.path_params["name"])
    spec = saved.require_spec()
    table = table_for(spec, saved.notes.table, saved.notes.rows, desk.rehearsals)
    desk.rehearsals.cancel(desk.rehearsals.key(spec, table))
    return desk.go(f"/designs/{saved.name}#rehearsal")


def file(desk: Desk, request: Request) -> Response:
    """Show a design as the text of its file."""
    saved = Saved(desk, request.path_params["name"])
    return _file_page(desk, saved, saved.text, [] if saved.problems is None else [str(saved.problems)])


def _file_page(desk: Desk, saved: Saved, text: str, problems: list[str], status: int = 200) -> Response:
    return desk.render(
        "file.html",
        status=status,
        here="design",
        name=f"designs/{saved.name}.yaml",
        action=f"/designs/{saved.name}/file",
        back=f"/designs/{saved.name}",
        text=text,
        version=saved.version,
        problems=problems,
    )


def save_file(desk: Desk, request: Request, form: Form) -> Response:
    """Change a design as text."""
    saved = Saved(desk, request.path_params["name"])
    saved.require(form.text("version"))
    text = form.text("text")
    try:
        plain = parse_plain(desk.folder.text(text.encode("utf-8"), saved.path.name))
        require_inside(desk.folder.root, plain, saved.where)
        Spec.from_dict(plain, where=saved.where)
    except UnderstudyError as error:
        return _file_page(desk, saved, text, [str(error)], status=422)
    notes = saved.notes
    notes.require(saved.name)
    desk.folder.write(saved.path, text)
    notes.auto, notes.why = False, ""
    notes.write(desk.folder, saved.name)
    return desk.go(f"/designs/{saved.name}")


def compare(desk: Desk, request: Request) -> Response:
    """Show two designs side by side."""
    sides = []
    for side in ("left", "right"):
        saved = Saved(desk, request.query_params.get(side, ""))
        sides.append((saved.name, follow(desk, saved.name, saved.require_spec(), saved.notes)))
    return desk.render(
        "compare_designs.html", here="design", sides=sides, rows=_beside(*(item for _, item in sides))
    )


def _beside(left: Consequences, right: Consequences) -> list[tuple[str, str, str, bool]]:
    def facts(item: Consequences) -> dict[str, str]:
        chance = item.acceptance
        found = {
            "guarantee": item.guarantee,
            "budget": item.split,
            "for data subjects": item.odds,
            "method": "; ".join(map(method_in_words, item.plan.models[:3])),
            "attempts": item.plan.selection,
            "number of rows": item.plan.row_count,
            "acceptance": "not rehearsed"
            if chance.kind == "none"
            else f"{chance.probability:.0%} ({chance.low:.0%} to {chance.high:.0%}, {chance.kind}, on {item.table_words})",
            "what a rejection costs": " ".join(item.rejection),
        }
        found |= {f"error of {kind}": text for kind, text, _ in item.errors}
        found |= {
            f"criterion {row['name']}": f"{row['threshold']}; noise {row['noise'] or 'none'}; {row['judged']}"
            for row in item.criteria
        }
        return found

    one, two = facts(left), facts(right)

    def shown(side: Mapping[str, str], name: str) -> str:
        return side.get(name, "not rehearsed" if name.startswith("error of") else "not asked")

    return [
        (name, shown(one, name), shown(two, name), one.get(name) != two.get(name))
        for name in dict.fromkeys([*one, *two])
    ]
