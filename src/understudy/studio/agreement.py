"""Agree: comments and approvals by role; "sign" writes the specification, the owner's facts and the approvals where they are run from."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from understudy.errors import SchemaError, SignatureError, UnderstudyError
from understudy.release.agreement import Agreement, agreement_of
from understudy.release.approvals import (
    Approvals,
    approvals_beside,
    approve,
    check_approvals,
    specification_hash,
)
from understudy.release.spec.read import FACTS
from understudy.release.spec.spec import Spec
from understudy.schema.files.yaml import to_yaml
from understudy.signatures import ROLES, Statement, parse_statement, write_statement
from understudy.studio.complaints import Complaints
from understudy.studio.designs.pages import Saved, places, same_table
from understudy.studio.designs.specification import spec_text
from understudy.studio.desk import Desk, Form, Stale

__all__ = ["agree", "comment", "overview", "record", "require", "sign", "take_statement"]

_NEEDED = "owner"
"""Nobody but the owner of the records can decide that they are released."""


_RECORD = "agreement.json"


def _shown(saved: Saved, spec: Spec) -> str:
    """Return what a form of the page was made from: the file of the design, and the specification that it stands for, which its schema is part of."""
    return f"{saved.version}-{specification_hash(spec)}"


def _require_shown(saved: Saved, form: Form) -> Spec:
    """Return the specification of a design; refuse a form that was made from another one, even if the schema alone has changed."""
    saved.require(form.text("version").partition("-")[0])
    spec = saved.require_spec()
    if form.text("version") != _shown(saved, spec):
        raise Stale(
            f"The design {saved.name!r} means something else than it did when this page was made: the schema, or another file that it names, was changed meanwhile. "
            "Open it again and read what has changed; go back with your browser to copy what you typed."
        )
    return spec


def _approvals(saved: Saved, spec: Spec) -> tuple[Approvals | None, str]:
    """Return the approvals that lie beside a design, or why they cannot be used."""
    try:
        return check_approvals(spec, approvals_beside(saved.path)), ""
    except SignatureError as error:
        return None, str(error)


def _signed(desk: Desk, saved: Saved, spec: Spec) -> Path | None:
    """Return the folder in which this very version was signed, if it was."""
    place = desk.folder.signed / f"{saved.name}-{specification_hash(spec)[:8]}"
    return place if (place / "spec.yaml").is_file() else None


def overview(desk: Desk, request: Request) -> Response:
    """Show for every design who approved it and whether it was signed."""
    rows = []
    for name in desk.folder.design_names():
        saved = Saved(desk, name)
        if saved.spec is None:
            rows.append({"name": name, "approved": "it cannot be used as it is", "signed": ""})
            continue
        found, problem = _approvals(saved, saved.spec)
        roles = [] if found is None else [said.role for said in found.given]
        place = _signed(desk, saved, saved.spec)
        rows.append(
            {
                "name": name,
                "approved": problem or ", ".join(dict.fromkeys(roles)) or "nobody yet",
                "signed": "" if place is None else desk.folder.relative(place),
            }
        )
    return desk.render("agree_all.html", here="agree", rows=rows)


def agree(desk: Desk, request: Request) -> Response:
    """Show what is to be agreed on, what was said and who approved it."""
    return _page(desk, Saved(desk, request.path_params["name"]), Complaints(), {})


def _page(
    desk: Desk, saved: Saved, complaints: Complaints, values: Mapping[str, str], status: int = 200
) -> Response:
    spec = saved.require_spec()
    found, problem = _approvals(saved, spec)
    place = _signed(desk, saved, spec)
    required = spec.file.approvals
    return desk.render(
        "agree.html",
        status=status,
        here="agree",
        name=saved.name,
        version=_shown(saved, spec),
        spec=spec,
        hash=specification_hash(spec),
        table_name=spec.source.table,
        places=places(saved),
        others=same_table(desk, saved),
        guarantee=f"{spec.shares.promise.describe()} for {spec.protects}",
        facts=spec.facts_fingerprint()[:16],
        choices=spec.choices_fingerprint()[:16],
        comments=saved.notes.comments,
        given=() if found is None else found.given,
        outdated=() if found is None else found.outdated,
        missing=_missing(found),
        problem=problem,
        roles=ROLES,
        required=required.required,
        signed_only=required.signed,
        found=complaints,
        values={
            "comment_name": "",
            "comment": "",
            "comment_role": "",
            "approve_name": "",
            "approve_role": "",
            "statement": "",
            **values,
        },
        place="" if place is None else desk.folder.relative(place),
        **_since(place, saved, () if found is None else found.given),
        command="" if place is None else _command(desk, saved, spec, place),
        sign_command=f"understudy sign {shlex.quote(desk.folder.relative(saved.path))} --as ROLE",
    )


def _since(place: Path | None, saved: Saved, given: Sequence[Statement]) -> dict[str, Any]:
    """Return what the signed record holds, and how many comments and approvals came after it was signed."""
    if place is None:
        return {"agreement": None, "agreement_problem": "", "later": 0}
    try:
        signed = agreement_of(Spec.read(place / "spec.yaml"))
    except UnderstudyError as error:
        return {"agreement": None, "agreement_problem": str(error), "later": 0}
    later = 0
    if signed is not None:
        later = sum(item not in (signed.comments or ()) for item in saved.notes.comments)
        later += sum(item not in signed.approvals for item in given)
    return {"agreement": signed, "agreement_problem": "", "later": later}


def _missing(found: Approvals | None) -> list[str]:
    """Say what is missing before the design can be signed."""
    if found is None:
        return ["the approvals cannot be read"]
    missing = list(found.missing)
    if not any(said.role == _NEEDED for said in found.given) and not any(
        item.startswith(_NEEDED) for item in missing
    ):
        missing.insert(0, f"{_NEEDED}: nobody approved it")
    return missing


def _command(desk: Desk, saved: Saved, spec: Spec, place: Path) -> str:
    """Return the one command to run where the records are."""
    words = ["understudy", "release", f"{desk.folder.relative(place)}/spec.yaml"]
    if spec.source.private is None and spec.source.simulated is None:
        words += ["--source", "FOLDER_OR_DATABASE" if spec.table_names else "FILE"]
    words += ["--ledger", spec.source.ledger_file(saved.name), "--out", f"releases/{place.name}"]
    return " ".join(map(shlex.quote, words))


def comment(desk: Desk, request: Request, form: Form) -> Response:
    """Add a comment about the version that the page showed."""
    saved = Saved(desk, request.path_params["name"])
    spec, complaints = _require_shown(saved, form), Complaints()
    if not form.text("comment_name").strip():
        complaints.add("comment_name", "is needed.")
    if not form.text("comment").strip():
        complaints.add("comment", "is needed.")
    if complaints:
        return _page(desk, saved, complaints, _typed(form), status=422)
    role = form.text("comment_role")
    saved.notes.add(
        role=role if role in ROLES else "",
        name=form.text("comment_name"),
        text=form.text("comment"),
        version=specification_hash(spec)[:12],
    )
    saved.notes.write(desk.folder, saved.name)
    return desk.go(f"/designs/{saved.name}/agree#comments")


def _typed(form: Form) -> dict[str, str]:
    names = ("comment_name", "comment", "comment_role", "approve_name", "approve_role", "statement")
    return {name: form.text(name) for name in names}


def record(desk: Desk, request: Request, form: Form) -> Response:
    """Record a typed approval of the version that the page showed."""
    saved = Saved(desk, request.path_params["name"])
    spec, complaints = _require_shown(saved, form), Complaints()
    if not form.text("approve_name").strip():
        complaints.add("approve_name", "is needed.")
    if form.text("approve_role") not in ROLES:
        complaints.add("approve_role", "is needed.")
    if not form.text("approve_sure"):
        complaints.add("approve_sure", "Say that you approve this version.")
    if not complaints:
        try:
            approve(
                saved.path,
                role=form.text("approve_role"),
                name=form.text("approve_name").strip(),
                version=specification_hash(spec),
            )
            return desk.go(f"/designs/{saved.name}/agree#approvals")
        except SignatureError as error:
            complaints.add("approve_name", str(error))
    return _page(desk, saved, complaints, _typed(form), status=422)


def take_statement(desk: Desk, request: Request, form: Form) -> Response:
    """Take an approval that was signed elsewhere (``understudy sign``) and came as a file."""
    saved = Saved(desk, request.path_params["name"])
    spec = saved.require_spec()
    _, content = form.files.get("statement_file", ("", form.text("statement").encode("utf-8")))
    complaints = Complaints()
    try:
        said = parse_statement(content)
        found = check_approvals(spec, [said])
        if not found.given:
            raise SignatureError(
                f"It is about another version (hash {said.hash[:12]}) than this one (hash {specification_hash(spec)[:12]})."
                if found.outdated
                else "It is no approval of a specification."
            )
        write_statement(said, saved.path)
        return desk.go(f"/designs/{saved.name}/agree#approvals")
    except UnderstudyError as error:
        complaints.add("statement", str(error))
    return _page(desk, saved, complaints, _typed(form), status=422)


def require(desk: Desk, request: Request, form: Form) -> Response:
    """Write into the specification whose approval a release requires."""
    saved = Saved(desk, request.path_params["name"])
    _require_shown(saved, form)
    plain = dict(saved.plain)
    before = plain.pop("approvals", None)
    kept = {
        key: value for key, value in (before if isinstance(before, dict) else {}).items() if key == "keys"
    }
    roles = [role for role in ROLES if role in form.all("required")]
    if roles:
        plain["approvals"] = {"required": roles, "signed": bool(form.text("signed_only"))} | kept
    Spec.from_dict(plain, where=saved.where)
    desk.folder.write(
        saved.path,
        spec_text(plain, "# A design of the studio: a specification that is still being discussed.\n"),
    )
    return desk.go(f"/designs/{saved.name}/agree")


def sign(desk: Desk, request: Request, form: Form) -> Response:
    """Write the specification with the owner's facts, its schema and its approvals to a folder of its own."""
    saved = Saved(desk, request.path_params["name"])
    spec = _require_shown(saved, form)
    saved.notes.require(saved.name)
    found, problem = _approvals(saved, spec)
    missing = _missing(found)
    if found is None or missing:
        complaints = Complaints()
        complaints.add("sign", f"It cannot be signed yet: {problem or '; '.join(missing)}.")
        return _page(desk, saved, complaints, {}, status=422)
    write_signed(desk, saved, spec, found, publish=bool(form.text("publish_comments")))
    return desk.go(f"/designs/{saved.name}/agree#run")


def write_signed(desk: Desk, saved: Saved, spec: Spec, found: Approvals, *, publish: bool) -> Path:
    """Write a signed specification with the record of who approved and said what.

    The hash that approvals name is that of the design, so they are about it too; the hash of the record stands in the specification.
    """
    wanted = specification_hash(spec)
    place = desk.folder.signed / f"{saved.name}-{wanted[:8]}"
    facts, choices = _parted(spec, place)
    record = Agreement.make(wanted, found.given, saved.notes.comments, published=publish)
    choices["agreement"] = {"file": _RECORD, "sha256": record.hash}
    texts = {
        "schema.yaml": to_yaml(spec.schema.to_dict()),
        "facts.yaml": spec_text(
            facts, "# The owner's facts: how the table is read, who is protected, and what is public.\n"
        ),
        _RECORD: json.dumps(record.to_dict(), indent=2, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        desk.folder.write(place / name, text)
    head = f"# Signed in the studio. Hash of the specification: {wanted}\n"
    body = spec_text(
        {"version": choices.pop("version", 1), "name": choices.pop("name"), "facts": "facts.yaml", **choices},
        head,
    )
    made = Spec.parse(body, where=place)
    if specification_hash(made) != wanted or agreement_of(made) != record:
        raise SchemaError(
            "The signed specification would differ from the design. This is a fault of Understudy; nothing was signed."
        )
    for said in found.given:
        write_statement(said, place / "spec.yaml")
    desk.folder.write(place / "spec.yaml", body)
    return place


def _parted(spec: Spec, place: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the owner's facts and the analyst's choices, with paths as seen from another folder."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(spec.plain)))
    facts = {key: plain[key] for key in FACTS if key in plain}
    facts["schema"] = "schema.yaml"

    def moved(path: str) -> str:
        return path if Path(path).is_absolute() else os.path.relpath((spec.where / path).absolute(), place)

    if isinstance(facts["source"].get("path"), str):
        facts["source"]["path"] = moved(facts["source"]["path"])
    if spec.source.linked is not None:
        facts["source"]["tables"] = {
            name: _place(item, place) for name, item in spec.source.linked.tables.items()
        }
    choices = {key: value for key, value in plain.items() if key not in (*FACTS, "facts")}
    if isinstance(choices.get("ledger"), str):
        choices["ledger"] = moved(choices["ledger"])
    if isinstance((choices.get("output") or {}).get("folder"), str):
        choices["output"]["folder"] = moved(choices["output"]["folder"])
    return facts, choices


def _place(item: Any, place: Path) -> Any:
    """Return where a linked table is as a file of facts in a folder says it."""
    if isinstance(item, str | os.PathLike):
        return os.path.relpath(Path(item).absolute(), place)
    return {"url": item.url, "table": item.table} | ({"immutable": True} if item.immutable else {})
