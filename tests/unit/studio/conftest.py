"""A studio on a folder of its own, and a browser of one machine that talks to it without a network."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the studio is an extra")
with warnings.catch_warnings():  # starlette asks for another client than the one it asked for a version ago
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from understudy.release.spec.spec import Spec
from understudy.studio.app import create_app
from understudy.studio.desk import Desk
from understudy.studio.folder import Folder
from understudy.studio.security import Gate
from understudy.workflow import publish

PORT = 8123
ORIGIN = f"http://127.0.0.1:{PORT}"
ROOT = Path(__file__).parents[3]

TINY = """
name: NAME
title: TITLE
source: {simulate: {table: toy, rows: 800, seed: 1}}
schema: {columns: [{name: ward, kind: categorical, values: [day, general, intensive], missing: true}, {name: stay_days, kind: integer, minimum: 0, maximum: 14}]}
unit: replace-one
synthesizers: [{method: independent}]
acceptance:
  form: pass-only
  epsilon: 1
  criteria: [{name: cells, kind: max-marginal-error, orders: [1], threshold: THRESHOLD}]
selection: {rule: single}
budget: {total: {epsilon: 4}, model: {epsilon: 3}}
"""


class Browser:
    """Keeps the cookie, sends the origin and the token of forms, as a browser and the studio's pages do."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.client = TestClient(create_app(desk), base_url=ORIGIN, follow_redirects=False)

    def enter(self) -> Browser:
        answer = self.client.get(self.desk.gate.address.removeprefix(ORIGIN))
        assert answer.status_code == 200
        return self

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(path, **more)

    def post(self, path: str, fields: Mapping[str, Any] | None = None, **more: Any) -> Any:
        data = {"token": self.desk.gate.form_token, **(fields or {})}
        return self.client.post(path, data=data, headers={"origin": ORIGIN}, **more)

    def version(self, path: str) -> str:
        found = re.search(r'name="version" value="([^"]*)"', self.get(path).text)
        assert found is not None
        return found.group(1)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(Folder(tmp_path), Gate(PORT))
    yield made
    made.close()


@pytest.fixture
def stranger(desk: Desk) -> Browser:
    return Browser(desk)


@pytest.fixture
def browser(desk: Desk) -> Browser:
    return Browser(desk).enter()


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases of a simulated table and their ledgers."""
    place = tmp_path_factory.mktemp("published")
    for year, threshold in (("2024", "0.4"), ("2025", "0.5")):
        text = TINY.replace("NAME", f"toy-{year}").replace("TITLE", f"Toy <script>alert({year})</script>")
        done = publish(
            Spec.parse(text.replace("THRESHOLD", threshold)),
            out=place / year,
            ledger=place / f"toy-{year}.ledger",
        )
        assert done.accepted
    return place


@pytest.fixture
def shelf(published: Path, desk: Desk) -> Path:
    shutil.copytree(published, desk.folder.root / "releases")
    return desk.folder.root / "releases"


DESIGN = """
version: 1
name: small
title: A small table
description: ''
source: {simulate: {table: toy, rows: 800, seed: 1}}
schema: ../schema.yaml
unit: replace-one
public: {expected_rows: 800}
cleaning: []
constraints: []
synthesizers: [{method: independent}]
acceptance:
  form: pass-only
  epsilon: 1
  false_accept: 0.05
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.2, orders: [1]}]
selection: {rule: single}
budget: {total: {epsilon: 4.0}, model: {epsilon: 3.0}}
output: {formats: [csv]}
"""
SMALL_SCHEMA = """
columns:
- {name: ward, kind: categorical, values: [day, general, intensive], missing: true}
- {name: stay_days, kind: integer, minimum: 0, maximum: 14}
"""


@pytest.fixture
def small(desk: Desk, browser: Browser) -> str:
    """A design that is fitted and judged in a moment."""
    desk.folder.schema.write_text(SMALL_SCHEMA)
    desk.folder.designs.mkdir()
    desk.folder.design("small").write_text(DESIGN)
    return "small"
