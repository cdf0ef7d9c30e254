"""Comments and approvals by role, the signed specification, and the page to send around."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from studio_forms import fields_of

from understudy.errors import SignatureError
from understudy.release.agreement import agreement_of
from understudy.release.approvals import approvals_beside, approve, check_approvals, specification_hash
from understudy.release.spec.spec import Spec
from understudy.signatures import open_keyring, write_statement
from understudy.studio import agreement
from understudy.studio.designs.notes import Notes
from understudy.studio.designs.pages import Saved
from understudy.studio.desk import Desk
from understudy.studio.export import export_design
from understudy.studio.folder import Folder
from understudy.workflow import publish

SCRIPT = "<script>alert('x')</script>"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path_factory.mktemp("home")))


def approved(browser: Any, role: str = "owner", name: str = "Ada Berg") -> Any:
    fields = {"version": browser.version("/designs/small/agree"), "approve_role": role, "approve_name": name}
    return browser.post("/designs/small/approve", fields | {"approve_sure": "yes"})


def commented(browser: Any, name: str, text: str) -> Any:
    version = {"version": browser.version("/designs/small/agree")}
    return browser.post("/designs/small/comments", version | {"comment_name": name, "comment": text})


def signed(browser: Any) -> Any:
    return browser.post("/designs/small/sign", {"version": browser.version("/designs/small/agree")})


def test_comments_are_kept_with_the_version_they_are_about(browser: Any, desk: Desk, small: str) -> None:
    version = {"version": browser.version("/designs/small/agree")}
    assert browser.post("/designs/small/comments", version | {"comment": "x"}).status_code == 422
    blank = {"comment_name": "x", "comment": " "}
    assert browser.post("/designs/small/comments", version | blank).status_code == 422
    words = version | {"comment_name": "Ada", "comment_role": "lawyer", "comment": f"Why 4? {SCRIPT}"}
    assert browser.post("/designs/small/comments", words).status_code == 303
    page = browser.get("/designs/small/agree").text
    assert "Why 4?" in page
    assert SCRIPT not in page
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    browser.post("/designs/small", fields | {"title": "Another"})
    assert "about an earlier version" in browser.get("/designs/small/agree").text


def test_an_approval_is_of_one_version(browser: Any, desk: Desk, small: str) -> None:
    assert "nobody yet" in browser.get("/designs/small/agree").text
    assert approved(browser, name="").status_code == 422
    assert approved(browser, role="king").status_code == 422
    assert approved(browser).status_code == 303
    page = browser.get("/designs/small/agree").text
    assert "Ada Berg" in page
    assert "owner" in browser.get("/agree").text
    spec = Spec.read(desk.folder.design("small"))
    assert check_approvals(spec, approvals_beside(desk.folder.design("small"))).given[0].role == "owner"
    stale = browser.version("/designs/small/agree")
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    browser.post("/designs/small", fields | {"title": "Another"})
    page = browser.get("/designs/small/agree").text
    assert "approved an earlier version" in page
    late = {"version": stale, "approve_role": "owner", "approve_name": "Ada", "approve_sure": "yes"}
    assert browser.post("/designs/small/approve", late).status_code == 409


@pytest.mark.parametrize("page", ["approve", "comments", "require", "sign"])
def test_what_is_approved_is_what_the_page_showed_schema_included(
    browser: Any, desk: Desk, small: str, page: str
) -> None:
    approved(browser)
    before = specification_hash(Spec.read(desk.folder.design("small")))
    kept = {path.name: path.read_bytes() for path in desk.folder.designs.iterdir()}
    shown = {"version": browser.version("/designs/small/agree")}
    # the design stays as it is, byte for byte: another tab changes the schema that it names
    text = desk.folder.schema.read_text()
    desk.folder.schema.write_text(text.replace("day, general, intensive", "day, general, intensive, hospice"))
    assert specification_hash(Spec.read(desk.folder.design("small"))) != before
    fields = {
        "approve": {"approve_role": "lawyer", "approve_name": "Bo", "approve_sure": "yes"},
        "comments": {"comment_name": "Bo", "comment": "Fine."},
        "require": {"required": "owner"},
        "sign": {},
    }[page]
    answer = browser.post(f"/designs/small/{page}", shown | fields)
    assert answer.status_code == 409
    assert "schema" in answer.text
    assert {path.name: path.read_bytes() for path in desk.folder.designs.iterdir()} == kept
    assert not desk.folder.signed.exists()


def test_a_version_that_nobody_read_is_not_approved(desk: Desk, small: str) -> None:
    path = desk.folder.design("small")
    read = specification_hash(Spec.read(path))
    path.write_text(path.read_text().replace("epsilon: 4.0", "epsilon: 5.0"))
    with pytest.raises(SignatureError, match="changed meanwhile"):
        approve(path, role="owner", name="Ada", version=read)
    assert approvals_beside(path) == ()


def test_comments_of_several_tabs_are_all_kept(browser: Any, desk: Desk, small: str) -> None:
    version = {"version": browser.version("/designs/small/agree")}

    def say(number: int) -> int:
        said = version | {"comment_name": "Ada", "comment": f"comment {number}"}
        return int(browser.post("/designs/small/comments", said).status_code)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(say, range(24))) == {303}
    found = Notes.read(desk.folder, "small").comments
    assert sorted(item.text for item in found) == sorted(f"comment {number}" for number in range(24))


def test_nothing_is_signed_without_the_owner(browser: Any, desk: Desk, small: str) -> None:
    answer = signed(browser)
    assert answer.status_code == 422
    assert "owner: nobody approved it" in answer.text
    assert not desk.folder.signed.exists()


def test_a_signed_specification_is_the_design_and_releases_with_its_approvals(
    browser: Any, desk: Desk, small: str
) -> None:
    approved(browser)
    approved(browser, role="domain expert", name="Bo <b>")
    assert signed(browser).status_code == 303
    design = Spec.read(desk.folder.design("small"))
    place = desk.folder.signed / f"small-{specification_hash(design)[:8]}"
    assert {"spec.yaml", "facts.yaml", "schema.yaml", "agreement.json"} <= {
        item.name for item in place.iterdir()
    }
    made = Spec.read(place / "spec.yaml")
    assert specification_hash(made) == specification_hash(design)
    assert made.facts_fingerprint() == design.facts_fingerprint()
    page = browser.get("/designs/small/agree").text
    assert (
        f"understudy release signed/{place.name}/spec.yaml --ledger small.ledger --out releases/{place.name}"
        in page
    )
    done = publish(
        made,
        out=desk.folder.root / "releases" / "small",
        ledger=desk.folder.root / "small.ledger",
        approvals=approvals_beside(place / "spec.yaml"),
    )
    assert done.accepted
    released = browser.get("/shelf/release?path=releases/small").text
    assert "approved by Ada Berg as owner" in released
    assert "Bo &lt;b&gt;" in released
    verified = browser.post("/shelf/verify", {"path": "releases/small"}).text
    assert "the bundle is what was published" in verified
    # a design that changed has a folder of its own; what was signed stays
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    browser.post("/designs/small", fields | {"title": "Another"})
    assert signed(browser).status_code == 422
    assert specification_hash(Spec.read(place / "spec.yaml")) == specification_hash(design)


class Struck(BaseException):
    """The power is cut."""


@pytest.mark.parametrize("before", [False, True], ids=["first", "again"])
def test_a_signing_that_is_cut_off_leaves_nothing_that_looks_signed_and_is_not(
    browser: Any, desk: Desk, small: str, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """Struck before each file it writes: what lies there is unsigned, whole, or refused with a reason; signing again puts it right."""
    approved(browser)
    if before:
        assert signed(browser).status_code == 303
        commented(browser, "Ada", "One more word.")
    step, write, state = 0, Folder.write, write_statement

    def strike() -> None:
        nonlocal step
        if step == 0:
            raise Struck
        step -= 1

    def cut_write(self: Folder, path: Path, text: str) -> None:
        strike()
        write(self, path, text)

    def cut_state(*given: Any) -> Any:
        strike()
        return state(*given)

    saved = Saved(desk, "small")
    spec = saved.require_spec()
    found = check_approvals(spec, approvals_beside(saved.path))
    endings = []
    for number in range(20):
        step = number
        with monkeypatch.context() as patched:
            patched.setattr(Folder, "write", cut_write)
            patched.setattr(agreement, "write_statement", cut_state)
            try:
                agreement.write_signed(desk, saved, spec, found, publish=False)
            except Struck:
                pass
            else:
                break
        (place,) = desk.folder.signed.iterdir() if desk.folder.signed.exists() else (None,)
        page = browser.get("/designs/small/agree")
        assert page.status_code == 200
        if place is None or not (place / "spec.yaml").exists():
            assert "This version is signed" not in page.text
            endings.append("unsigned")
            continue
        problem = ""
        try:
            agreement_of(Spec.read(place / "spec.yaml"))
        except SignatureError as error:
            problem = str(error)
        assert problem in unescape(page.text)
        endings.append("refused" if problem else "whole")
    assert number > 4
    assert set(endings) == ({"whole", "refused"} if before else {"unsigned"})
    (place,) = desk.folder.signed.iterdir()
    record = agreement_of(Spec.read(place / "spec.yaml"))
    assert record is not None
    assert record.number == before


def test_comments_and_approvals_are_hashed_into_the_specification_and_into_the_certificate(
    browser: Any, desk: Desk, small: str
) -> None:
    commented(browser, "Ada", f"Why 4? {SCRIPT}")
    approved(browser)
    version = {"version": browser.version("/designs/small/agree")}
    assert browser.post("/designs/small/sign", version | {"publish_comments": "yes"}).status_code == 303
    place = next(desk.folder.signed.iterdir())
    spec = Spec.read(place / "spec.yaml")
    record = agreement_of(spec)
    assert record is not None
    assert spec.plain["agreement"]["sha256"] == record.hash
    page = browser.get("/designs/small/agree").text
    assert "holds 1 approval and 1 comment, which are published" in page
    assert record.hash[:12] in page
    commented(browser, "Bo", "Fine.")
    assert "1 came since" in browser.get("/designs/small/agree").text
    file = place / "agreement.json"
    whole = file.read_text()
    file.write_text(whole.replace("Why 4?", "Why 5?"))
    assert "cannot be used" in browser.get("/designs/small/agree").text
    root = desk.folder.root
    with pytest.raises(SignatureError, match="Nothing was spent"):
        publish(place / "spec.yaml", out=root / "releases" / "small", ledger=root / "small.ledger")
    file.write_text(whole)
    assert publish(
        place / "spec.yaml", out=root / "releases" / "small", ledger=root / "small.ledger"
    ).accepted
    released = browser.get("/shelf/release?path=releases/small").text
    assert "Why 4?" in released
    assert SCRIPT not in released
    assert record.hash[:12] in released
    assert (
        "the bundle is what was published" in browser.post("/shelf/verify", {"path": "releases/small"}).text
    )


def test_a_folder_that_was_signed_before_there_were_records_stays_signed(
    browser: Any, desk: Desk, small: str
) -> None:
    approved(browser)
    signed(browser)
    place = next(desk.folder.signed.iterdir())
    lines = (place / "spec.yaml").read_text().splitlines(keepends=True)
    begin = next(i for i, line in enumerate(lines) if line.startswith("agreement:"))
    (place / "spec.yaml").write_text("".join(lines[:begin] + lines[begin + 3 :]))
    (place / "agreement.json").unlink()
    assert agreement_of(Spec.read(place / "spec.yaml")) is None
    page = browser.get("/designs/small/agree")
    assert page.status_code == 200
    assert "This version is signed" in page.text


def test_script_in_every_text_field_stays_text_in_report_and_documents(browser: Any, desk: Desk) -> None:
    """Through all forms into a release: no page of the bundle, and none of the studio about it, holds it as markup."""
    names = {"name": f"ward {SCRIPT}", "description": f"d {SCRIPT}", "unit": f"u {SCRIPT}"}
    names |= {"values": f"day\n{SCRIPT}", "missing": "yes", "missing_text": f"m {SCRIPT}"}
    for fields in ({"kind": "categorical"} | names, {"kind": "boolean", "name": "smokes"}):
        fields["version"] = browser.version("/schema")
        assert browser.post("/schema/columns/new", fields).status_code == 303
    rules = {"version": browser.version("/schema/rules"), "name": f"n {SCRIPT}", "description": f"r {SCRIPT}"}
    assert browser.post("/schema/rules", rules).status_code == 303
    assert browser.post("/designs", {"name": "small"}).status_code == 303
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    fields |= {name: f"{name} {SCRIPT}" for name in ("title", "description", "license", "citation")}
    fields |= {"criterion-0-name": f"c {SCRIPT}", "criterion-0-threshold": "0.9", "total_epsilon": "9"}
    fields |= {
        "acceptance_epsilon": "4",
        "method": "independent",
        "workload": "",
        "source_path": "../records.csv",
    }
    fields |= {
        "cleaning": f"{{rule: smokes == True or smokes == False, description: 'x {SCRIPT.replace(chr(39), '')}'}}"
    }
    answer = browser.post("/designs/small", fields)
    assert answer.status_code == 303, answer.text
    commented(browser, f"C {SCRIPT}", f"said {SCRIPT}")
    assert approved(browser, name=f"Ada {SCRIPT}").status_code == 303
    version = {"version": browser.version("/designs/small/agree")}
    assert browser.post("/designs/small/sign", version | {"publish_comments": "yes"}).status_code == 303
    lines = [
        f"ward {SCRIPT},smokes",
        *(f"{ward},{smokes}" for ward in ("day", SCRIPT) for smokes in (True, False)),
    ]
    (desk.folder.root / "records.csv").write_text("\n".join([lines[0], *lines[1:] * 100]) + "\n")
    out = desk.folder.root / "releases" / "small"
    place = next(desk.folder.signed.iterdir())
    assert publish(place / "spec.yaml", out=out, ledger=desk.folder.root / "small.ledger").accepted
    pages = [*out.rglob("*.html"), *out.rglob("*.svg")]
    assert len(pages) >= 8
    for file in pages:
        text = file.read_text()
        assert "<script>alert" not in text, file.name
        assert "alert(" in text or file.parent.name == "documents", file.name
    answers = [browser.get("/shelf"), browser.get("/shelf/release?path=releases/small")]
    answers += [
        browser.get("/designs/small/agree"),
        browser.get("/designs/small/export"),
        browser.get("/agree"),
    ]
    answers += [
        browser.get("/shelf/ledger?path=small.ledger"),
        browser.get("/designs/small"),
        browser.get("/"),
    ]
    answers += [browser.get("/shelf/compare?left=releases/small&right=releases/small")]
    for answer in answers:
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text, answer.request.url


def test_a_source_file_is_found_from_the_signed_folder(browser: Any, desk: Desk, small: str) -> None:
    text = desk.folder.design("small").read_text()
    desk.folder.design("small").write_text(
        text.replace("{simulate: {table: toy, rows: 800, seed: 1}}", "{path: ../records.csv}")
    )
    approved(browser)
    assert signed(browser).status_code == 303
    place = next(desk.folder.signed.iterdir())
    made = Spec.read(place / "spec.yaml").source.path
    assert made is not None
    assert made.resolve() == desk.folder.root / "records.csv"


def test_required_approvals_become_part_of_the_specification(browser: Any, desk: Desk, small: str) -> None:
    fields = {
        "version": browser.version("/designs/small/agree"),
        "required": ["owner", "lawyer"],
        "signed_only": "yes",
    }
    assert browser.post("/designs/small/require", fields).status_code == 303
    spec = Spec.read(desk.folder.design("small"))
    assert spec.file.approvals.required == ["owner", "lawyer"]
    assert spec.file.approvals.signed
    approved(browser)
    answer = signed(browser)
    assert answer.status_code == 422
    assert "a signed one is required" in answer.text
    none = {"version": browser.version("/designs/small/agree")}
    assert browser.post("/designs/small/require", none).status_code == 303
    assert not Spec.read(desk.folder.design("small")).file.approvals.required


def test_a_signature_that_came_by_mail_is_taken_and_a_wrong_one_is_not(
    browser: Any, desk: Desk, small: str, tmp_path: Path
) -> None:
    open_keyring().new("ada", name="Ada Berg")
    elsewhere = tmp_path / "elsewhere.yaml"
    text = desk.folder.design("small").read_text().replace("../schema.yaml", "schema.yaml")
    elsewhere.write_text(text)
    file, said = approve(elsewhere, role="lawyer", name="Ada Berg", sign=True)
    elsewhere.unlink()
    sent = file.read_bytes()
    file.unlink()
    forged = sent.replace(b"Ada Berg", b"Eve Berg")
    for content, why in ((forged, "does not hold"), (b"{}", ""), (b"\xff", ""), (b"", "")):
        answer = browser.post(
            "/designs/small/statement", files={"statement_file": ("a.json", content, "application/json")}
        )
        assert answer.status_code == 422
        assert "statement-complaints" in answer.text
        assert why in answer.text
    taken = browser.post(
        "/designs/small/statement", files={"statement_file": ("a.json", sent, "application/json")}
    )
    assert taken.status_code == 303
    assert "Ada Berg" in browser.get("/designs/small/agree").text
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    browser.post("/designs/small", fields | {"title": "Another"})
    other = browser.post("/designs/small/statement", {"statement": sent.decode()})
    assert other.status_code == 422
    assert "another version" in other.text
    assert said.role == "lawyer"


def test_a_damaged_approval_is_not_passed_over(browser: Any, desk: Desk, small: str) -> None:
    approved(browser)
    file = next(desk.folder.designs.glob("*.approval-owner.json"))
    file.write_text(file.read_text()[:-20])
    page = browser.get("/designs/small/agree")
    assert page.status_code == 200
    assert 'role="alert"' in page.text
    assert signed(browser).status_code == 422


def test_the_page_to_send_around_is_one_file_that_asks_for_nothing(
    browser: Any, desk: Desk, small: str
) -> None:
    approved(browser)
    commented(browser, "Ada", f"Fine. {SCRIPT}")
    answer = browser.get("/designs/small/export")
    assert answer.headers["content-disposition"] == 'attachment; filename="small.html"'
    text = export_design(desk.folder.root, "small")
    assert answer.text == text
    assert text.startswith("<!doctype html>")
    assert "src=" not in text.replace("data:", "")
    assert "default-src 'none'" in text
    assert SCRIPT not in text
    for words in (
        "For a person in the data",
        "approved by Ada Berg as owner",
        "What a rejection costs",
        "Fine.",
    ):
        assert words in text
    assert browser.get("/designs/nothing/export").status_code == 404
