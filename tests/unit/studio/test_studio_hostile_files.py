"""Files of a studio's folder that somebody spoilt: every page says what is wrong, and none falls over."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from benchmarks.trust._fuzz_mutate import spoil_bytes
from studio_forms import fields_of

from understudy.studio.designs.notes import Notes
from understudy.studio.desk import Desk

PAGES = (
    "/schema", "/schema/columns/0", "/schema/rules", "/designs", "/designs/small", "/designs/small/file", "/agree", "/designs/small/agree",
    "/designs/small/export", "/compare?design=small",
)  # fmt: skip
NOTES = {
    "auto": True,
    "rows": 100,
    "comments": [{"role": "owner", "name": "A", "text": "t", "time": "", "version": "x"}],
}
SAID = {
    "meaning": "approved", "kind": "specification", "hash": "00" * 32, "subject": "small", "role": "lawyer", "name": "A", "date": "2026-11-16",
}  # fmt: skip
CASES = 40


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"rows": Infinity}', '{"trials": NaN}', '{"comments": 5}', "[]", "\0"]
)
def test_notes_that_are_none_count_as_empty_and_are_not_written_over(
    desk: Desk, browser: Any, small: str, content: str
) -> None:
    path = desk.folder.designs / "small.notes.json"
    path.write_text(content)
    assert Notes.read(desk.folder, "small") == Notes(auto=False, spoilt=True)
    version = {"version": browser.version("/designs/small/agree")}
    said = {"comment_name": "Ada", "comment": "Why 4?"}
    form = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    for page, fields in (
        ("comments", version | said),
        ("sign", version),
        ("", form | {"title": "Another"}),
    ):
        answer = browser.post(f"/designs/small{'/' if page else ''}{page}", fields)
        assert answer.status_code == 400, page
        assert "small.notes.json" in answer.text
    assert path.read_text() == content
    assert "Another" not in desk.folder.design("small").read_text()


def test_spoilt_files_are_said_to_be_spoilt(desk: Desk, browser: Any, small: str, seed: int) -> None:
    folder, draw = desk.folder, random.Random(seed)
    statement = {"format": "understudy-statement-1", "statement": SAID, "signature": None}
    files = {
        folder.schema: folder.schema.read_bytes(),
        folder.design("small"): folder.design("small").read_bytes(),
        folder.designs / "small.notes.json": json.dumps(NOTES).encode(),
        folder.designs / "small.yaml.approval-lawyer.json": json.dumps(statement).encode(),
    }
    for _ in range(CASES):
        for path, content in files.items():
            path.write_bytes(content)
        spoilt = draw.choice(list(files))
        spoilt.write_bytes(spoil_bytes(files[spoilt], draw, other=files[spoilt]))
        for page in draw.sample(PAGES, 3):
            assert browser.get(page).status_code < 500, (spoilt.name, page)
