"""The contract of ``understudy studio``: one line with the address, served until interrupted; a design as one page."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from command import understudy

pytest.importorskip("starlette", reason="the studio is an extra")
SCHEMA = "columns: [{name: smokes, kind: boolean}, {name: sex, kind: categorical, values: [f, m]}]\n"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", "studio", str(tmp_path), "--port", "0", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    yield process, line
    if process.poll() is None:
        process.kill()
    process.communicate()


def ask(address: str, path: str, cookie: str = "", host: str = "") -> tuple[int, str, str]:
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    headers = {"Host": host or place.netloc} | ({"Cookie": cookie} if cookie else {})
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.getheader("set-cookie") or "", answer.read().decode("utf-8")
    connection.close()
    return found


def test_one_line_then_it_serves_until_interrupted(
    started: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    process, line = started
    assert line.startswith("http://127.0.0.1:")
    assert "/enter?token=" in line
    status, cookie, _ = ask(line, line.partition("/enter")[1] + line.partition("/enter")[2])
    assert status == 200
    cookie = cookie.partition(";")[0]
    status, _, text = ask(line, "/", cookie)
    assert status == 200
    assert "Understudy studio" in text
    assert ask(line, "/")[0] == 403
    assert ask(line, "/", cookie, host="evil.example")[0] == 400
    assert ask(line, "/static/../../security.py", cookie)[0] == 404
    second = understudy("studio", tmp_path, "--no-browser")
    assert second.code == 2
    assert "Another studio is open" in second.err
    assert "token" not in second.err
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert rest == ""
    assert errors == ""
    third = understudy("studio", "export", tmp_path, "nothing", "--out", tmp_path / "a.html")
    assert third.code == 2  # the folder is free again, and the design is not there


def test_it_listens_on_loopback_alone(started: tuple[subprocess.Popen[str], str]) -> None:
    process, line = started
    port = urlsplit(line).port
    assert port is not None
    listening = Path(f"/proc/{process.pid}/net/tcp")
    if not listening.exists():
        pytest.skip("no /proc here")
    rows = [row.split() for row in listening.read_text().splitlines()[1:]]
    mine = [row[1] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"]
    assert mine == [f"0100007F:{port:04X}"]
    six = Path(f"/proc/{process.pid}/net/tcp6")
    assert not six.exists() or f":{port:04X} 0000" not in six.read_text()


def test_the_address_as_json(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", "studio", str(tmp_path), "--no-browser", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert json.loads("".join(lines))["address"].startswith("http://127.0.0.1:")


def test_a_design_as_one_page_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "designs").mkdir()
    from understudy.studio.designs.specification import new_design, spec_text

    (tmp_path / "designs" / "first.yaml").write_text(spec_text(new_design("first")))
    done = understudy("studio", "export", tmp_path, "first", "--out", tmp_path / "first.html")
    assert done.code == 0, done.err
    text = (tmp_path / "first.html").read_text()
    assert "For a person in the data" in text
    assert (
        understudy("studio", "export", tmp_path, "first", "--out", tmp_path / "missing" / "x.html").code == 6
    )
    assert understudy("studio", "export", tmp_path, "../first", "--out", tmp_path / "x.html").code == 2


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = understudy("studio", tmp_path / "nowhere", "--no-browser")
    assert done.code == 2
    assert "There is no folder" in done.err


def test_a_rehearsal_ends_with_its_studio(tmp_path: Path) -> None:
    """A process that watches one that is gone ends by itself."""
    place = tmp_path / "place"
    place.mkdir()
    code = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import os, time\\nfrom understudy.studio.background.jobs import watch\\n"
        "watch(os.getppid())\\nprint(os.getpid(), flush=True)\\ntime.sleep(60)'], stdout=subprocess.PIPE, start_new_session=True)\n"
        "sys.stdout.write(child.stdout.readline().decode())\nsys.stdout.flush()\nos._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    child = int(done.stdout)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the rehearsal outlived its studio")
