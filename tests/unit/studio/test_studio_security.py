"""Nobody but the one browser that was given the address gets an answer, and nothing leads out of the folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from understudy.errors import MissingExtra, UsageError
from understudy.studio.app import create_app, serve
from understudy.studio.desk import Desk
from understudy.studio.folder import Folder
from understudy.studio.security import MAX_BODY, Gate

ORIGIN = "http://127.0.0.1:8123"


def routes(desk: Desk) -> list[tuple[str, str]]:
    """Every address of the application, with its method."""
    app: Any = create_app(desk)._app  # type: ignore[attr-defined]
    return [
        (route.path.replace("{index}", "0").replace("{name}", "a"), method)
        for route in app.routes
        for method in route.methods
        if method != "HEAD"
    ]


def test_without_the_token_nothing_is_answered(stranger: Any, desk: Desk) -> None:
    assert len(routes(desk)) > 15
    for path, method in routes(desk):
        answer = stranger.client.request(method, path, headers={"origin": ORIGIN})
        assert answer.status_code == 403, path
        assert "studio lets in" in answer.text


def test_the_token_works_once_and_gives_a_strict_cookie(stranger: Any, desk: Desk) -> None:
    assert stranger.get("/enter?token=wrong").status_code == 403
    assert stranger.get("/enter").status_code == 403
    first = stranger.get(f"/enter?token={desk.gate.token}")
    cookie = first.headers["set-cookie"].lower()
    assert first.status_code == 200
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert desk.gate.token not in cookie.lower()
    assert stranger.get("/").status_code == 200
    stranger.client.cookies.clear()
    assert stranger.get(f"/enter?token={desk.gate.token}").status_code == 403
    assert stranger.get("/").status_code == 403


def test_a_used_address_leads_back_in_while_the_cookie_is_there(browser: Any, desk: Desk) -> None:
    assert browser.get(f"/enter?token={desk.gate.token}").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost:8123.evil.example", ""]
)
def test_a_foreign_host_is_refused(browser: Any, host: str) -> None:
    assert browser.get("/", headers={"host": host}).status_code == 400
    assert browser.get("/", headers={"host": "localhost:8123"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9", "https://127.0.0.1:8123", None]
)
def test_a_foreign_origin_changes_nothing(browser: Any, desk: Desk, origin: str | None) -> None:
    headers = {} if origin is None else {"origin": origin}
    fields = {"token": desk.gate.form_token, "version": browser.version("/schema"), "table": "toy"}
    answer = browser.client.post("/schema/start", data=fields, headers=headers)
    assert answer.status_code == 403
    assert not desk.folder.schema.exists()


def test_another_site_gets_nothing_even_with_the_cookie(browser: Any) -> None:
    for site in ("cross-site", "same-site"):
        assert browser.get("/", headers={"sec-fetch-site": site}).status_code == 403
    assert browser.get("/", headers={"sec-fetch-site": "none"}).status_code == 200


def test_every_form_needs_its_token(browser: Any, desk: Desk) -> None:
    for path, method in routes(desk):
        if method != "POST":
            continue
        for token in ("", "0" * 64, "ü"):
            answer = browser.client.post(path, data={"token": token}, headers={"origin": ORIGIN})
            assert answer.status_code == 400, path
            assert "token" in answer.text
    assert list(desk.folder.root.iterdir()) == []


def test_other_methods_are_refused(browser: Any) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert browser.client.request(method, "/").status_code == 405


def test_every_answer_carries_the_policy(browser: Any, stranger: Any, shelf: Path) -> None:
    for path in ("/", "/schema", "/designs", "/agree", "/shelf", "/static/studio.css", "/nowhere", "/enter"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    stranger.client.cookies.clear()
    assert "default-src 'none'" in stranger.get("/").headers["content-security-policy"]
    report = browser.get("/shelf/file?path=releases/2024&file=report.html")
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    assert "allow-same-origin" not in report.headers["content-security-policy"]


def test_too_much_is_refused_before_it_is_read(browser: Any, desk: Desk) -> None:
    headers = {"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
    answer = browser.client.post("/schema/file", content=b"a" * (MAX_BODY + 1), headers=headers)
    assert answer.status_code == 413
    answer = browser.client.post("/schema/file", content=iter([b"token=1"]), headers=headers)  # no length
    assert answer.status_code == 411


OUTSIDE = [
    "../secret.ledger",
    "/etc/passwd",
    "a/../../secret.ledger",
    "..%2fsecret.ledger",
    ".studio/lock",
    "",
    ".",
    "link/secret.ledger",
    "a\\..\\b",
    "nul\0byte",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_do_not_lead_out(
    browser: Any, desk: Desk, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "secret.ledger").write_text("secret")
    (elsewhere / "certificate.json").write_text("{}")
    (desk.folder.root / "link").symlink_to(elsewhere)
    for page in ("/shelf/ledger", "/shelf/release", "/shelf/file", "/shelf/compare"):
        answer = browser.get(page, params={"path": path, "left": path, "right": path})
        assert answer.status_code == 404, page
        assert "secret" not in answer.text
    assert browser.post("/shelf/verify", {"path": path}).status_code == 404
    with pytest.raises(UsageError):
        desk.folder.inside(path)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a.b", "x" * 61, "é", "a\n"])
def test_names_of_designs_cannot_be_paths(desk: Desk, name: str) -> None:
    with pytest.raises(UsageError):
        desk.folder.design(name)


def test_the_files_of_a_bundle_are_not_all_served(browser: Any, shelf: Path) -> None:
    assert browser.get("/shelf/file?path=releases/2024&file=data.csv").status_code == 404
    assert browser.get("/shelf/file?path=releases/2024&file=../toy-2024.ledger").status_code == 404
    (shelf / "2024" / "report.html").unlink()
    (shelf / "2024" / "report.html").symlink_to("/etc/passwd")
    assert browser.get("/shelf/file?path=releases/2024&file=report.html").status_code == 404


def test_two_studios_do_not_share_a_folder(tmp_path: Path) -> None:
    first, second = Folder(tmp_path), Folder(tmp_path)
    first.lock("http://127.0.0.1:1")
    with pytest.raises(UsageError, match=r"Another studio is open .* at http://127\.0\.0\.1:1\. "):
        second.lock("http://127.0.0.1:2")
    first.unlock()
    second.lock("http://127.0.0.1:2")
    second.unlock()


def test_the_token_is_in_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a browser is started with can be read by every user of the machine."""
    import uvicorn

    opened: list[str] = []
    told: list[str] = []

    def started(self: Any, sockets: Any) -> None:
        page = Path(unquote(urlsplit(opened[0]).path))
        assert page.stat().st_mode & 0o777 == 0o600
        assert f'url={told[0]}"' in page.read_text()

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(uvicorn.Server, "run", started)
    serve(tmp_path, announce=told.append)
    token = told[0].partition("token=")[2]
    assert len(token) > 30
    assert opened[0].startswith("file:///")
    assert token not in opened[0]
    assert list((tmp_path / ".studio").glob("enter-*")) == []


def test_the_cookies_of_two_studios_have_two_names() -> None:
    assert Gate(1).cookie != Gate(2).cookie
    assert Gate(1).token != Gate(1).token


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        Folder(tmp_path / "nowhere")


def test_nothing_is_written_outside_the_folder(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (desk.folder.root / "designs").symlink_to(elsewhere)
    with pytest.raises(OSError, match="outside"):
        desk.folder.write(desk.folder.design("a"), "text")
    assert list(elsewhere.iterdir()) == []


CANARY = "zzcanary"


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the studio's, with files whose content must not come in."""
    place = tmp_path_factory.mktemp("elsewhere")
    (place / "ids.csv").write_text(f"{CANARY}1\n{CANARY}2\n")
    (place / "schema.yaml").write_text(f"columns: [{{name: a, kind: categorical, values: [{CANARY}, b]}}]\n")
    (place / "facts.yaml").write_text("schema: schema.yaml\nunit: add-remove\nsource: {table: t}\n")
    return place


def holds(folder: Path) -> bool:
    return any(CANARY in path.read_text() for path in folder.rglob("*.yaml") if not path.is_symlink())


@pytest.mark.parametrize("page", ["file", "import"])
@pytest.mark.parametrize(
    "text",
    [
        "lists: {x: PLACE/ids.csv}\ncolumns: [{name: a, kind: categorical, values: {list: x}}]\n",
        "columns: [{name: a, kind: categorical, values: [b, c], levels: {file: PLACE/ids.csv}}]\n",
        "lists: {x: link.csv}\ncolumns: [{name: a, kind: categorical, values: {list: x}}]\n",
        "tables:\n- {name: p, key: k}\n- {name: v, belongs_to: p, columns: [{name: a, kind: categorical, values: [b, c], levels: {file: PLACE/ids.csv}}]}\n",
    ],
)
def test_a_schema_brings_no_file_from_elsewhere(
    browser: Any, desk: Desk, elsewhere: Path, text: str, page: str
) -> None:
    (desk.folder.root / "link.csv").symlink_to(elsewhere / "ids.csv")
    text = text.replace("PLACE", str(elsewhere))
    fields = {"version": browser.version("/schema"), "text": text, "pasted": text}
    answer = browser.post(f"/schema/{page}", fields)
    assert answer.status_code == 422
    assert "outside the folder" in answer.text
    assert f"{CANARY}1" not in answer.text
    assert not holds(desk.folder.root)
    desk.folder.schema.write_text(text)  # by another program, or as it came from somebody else
    shown = browser.get("/schema").text
    assert "outside the folder" in shown
    assert f"{CANARY}1" not in shown


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schema: ../schema.yaml", "schema: PLACE/schema.yaml"),
        ("schema: ../schema.yaml", "schema: ../../{outside}/schema.yaml"),
        ("schema: ../schema.yaml", "facts: PLACE/facts.yaml"),
        ("schema: ../schema.yaml", "facts: inside.yaml"),
        ("{method: independent}", "{method: gaussian, options: {workload: PLACE/ids.csv}}"),
    ],
)
def test_a_design_brings_no_file_from_elsewhere(
    browser: Any, desk: Desk, small: str, elsewhere: Path, old: str, new: str
) -> None:
    (desk.folder.designs / "inside.yaml").write_text(f"schema: {elsewhere}/schema.yaml\nunit: add-remove\n")
    path = desk.folder.design(small)
    outside = os.path.relpath(elsewhere, desk.folder.root.parent)
    text = path.read_text().replace(old, new.replace("PLACE", str(elsewhere)).replace("{outside}", outside))
    version = browser.version(f"/designs/{small}/file")
    answer = browser.post(f"/designs/{small}/file", {"version": version, "text": text})
    assert answer.status_code == 422
    assert "outside the folder" in answer.text
    path.write_text(text)
    for page in ("", "/agree", "/export"):
        answer = browser.get(f"/designs/{small}{page}")
        assert "outside the folder" in answer.text
        assert CANARY not in answer.text


def test_links_that_lead_out_are_not_followed(browser: Any, desk: Desk, small: str, elsewhere: Path) -> None:
    desk.folder.schema.unlink()
    desk.folder.schema.symlink_to(elsewhere / "schema.yaml")
    (desk.folder.designs / "other.yaml").symlink_to(elsewhere / "ids.csv")
    for page in ("/schema", "/schema/file", "/designs/other/file", f"/designs/{small}", "/designs/other"):
        answer = browser.get(page)
        assert answer.status_code == 422, page
        assert "link that leads out" in answer.text
        assert CANARY not in answer.text


def test_a_linked_table_under_public_is_not_offered(desk: Desk, elsewhere: Path) -> None:
    place = desk.folder.public / "register"
    place.mkdir(parents=True)
    (place / "people.csv").write_text("a\n1\n")
    (place / "visits.csv").symlink_to(elsewhere / "ids.csv")
    assert desk.folder.public_folders(("people",)) == ["register"]
    assert desk.folder.public_folders(("people", "visits")) == []


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from understudy.cli.commands.studio import export, open_

    for name in [name for name in sys.modules if name.startswith(("starlette", "understudy.studio"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(MissingExtra, match=r"understudy\[studio\]"):
        open_(tmp_path, port=0, browser=False)
    with pytest.raises(MissingExtra, match=r"understudy\[studio\]"):
        export(tmp_path, "a", tmp_path / "a.html")
