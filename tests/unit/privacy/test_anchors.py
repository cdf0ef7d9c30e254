"""Anchors: a rollback is found by a head that was kept elsewhere."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from understudy.curator import Curator
from understudy.data import read_table
from understudy.errors import LedgerCorrupted, LedgerError, LedgerMismatch
from understudy.mechanisms import Model, create
from understudy.privacy import Ledger, PureDP, Unit
from understudy.privacy.events import PureEvent
from understudy.privacy.ledger.anchors import Anchor, anchor_in, anchors_near
from understudy.schema import Categorical, Schema

ROW = Unit.add_remove()


def make(path: Path, charges: int = 3) -> Ledger:
    book = Ledger.create(path, budget=PureDP(10.0), unit=ROW, table="births")
    for number in range(charges):
        book.charge(PureEvent(1.0), purpose=f"look {number}")
    return book


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_an_older_copy_is_found_by_an_anchor(tmp_path):
    book = make(tmp_path / "a.ledger")
    early = book.anchor()
    shutil.copy(book.path, tmp_path / "copy")
    book.charge(PureEvent(1.0), purpose="one more")
    late = book.anchor()
    assert (early.length, late.length, book.length) == (3, 4, 4)
    for anchor in (early, late, Anchor(late.ledger_id, late.head)):
        book.check_anchor(anchor)
    shutil.copy(tmp_path / "copy", book.path)
    rolled = Ledger.open(book.path)
    rolled.verify()  # the older copy is a perfect chain
    rolled.check_anchor(early)
    with pytest.raises(LedgerCorrupted, match=r"rolled back: it holds 3 entries, and bundle .* held 4"):
        rolled.check_anchor(late, source="bundle")
    with pytest.raises(LedgerCorrupted, match="which is not in it"):
        rolled.check_anchor(Anchor(late.ledger_id, late.head))  # as bundles of version 0.1.0 carry it
    rolled.charge(PureEvent(1.0), purpose="another history")
    with pytest.raises(LedgerCorrupted, match="which is not in it"):
        rolled.check_anchor(late)  # as long as it was, but not the same


def test_the_anchor_of_another_ledger_says_so(tmp_path):
    first, second = make(tmp_path / "a.ledger"), make(tmp_path / "b.ledger")
    with pytest.raises(LedgerMismatch, match="another ledger"):
        first.check_anchor(second.anchor())


@pytest.mark.parametrize(
    "values", [("", "00" * 32, 1), ("x", "00", 1), ("x", "AB" * 32, 1), ("x", "00" * 32, -1), ("x", 3, 1)]
)
def test_anchors_that_make_no_sense_are_refused(values):
    with pytest.raises(LedgerError):
        Anchor(*values)


def test_anchors_are_read_from_everything_that_carries_one(tmp_path):
    anchor = Anchor("ab" * 16, "cd" * 32, 7)
    certificate = {"release": "x", "ledger": {"id": anchor.ledger_id, "head": anchor.head, "length": 7}}
    old = {"release": "x", "ledger": {"id": anchor.ledger_id, "head": anchor.head}}
    (tmp_path / "bundle").mkdir()
    write(tmp_path / "bundle" / "certificate.json", certificate)
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.write(tmp_path / "bundle" / "certificate.json", "bundle/certificate.json")
    places = {
        write(tmp_path / "a.anchor", anchor.to_dict()): anchor,
        tmp_path / "bundle": anchor,
        tmp_path / "bundle" / "certificate.json": anchor,
        tmp_path / "b.zip": anchor,
        write(tmp_path / "old.anchor", old): Anchor(anchor.ledger_id, anchor.head),
    }
    for path, expected in places.items():
        assert anchor_in(path) == expected, path
    assert dict(anchors_near([tmp_path])) == {
        path: expected for path, expected in places.items() if path.parent == tmp_path
    }
    (tmp_path / "noise.anchor").write_bytes(b"\xff\x00")
    (tmp_path / "list.anchor").write_text("[1]")
    (tmp_path / "half.zip").write_bytes((tmp_path / "b.zip").read_bytes()[:40])
    assert len(list(anchors_near([tmp_path, tmp_path / "absent"]))) == 4  # what cannot be read is passed over
    for name in ("noise.anchor", "list.anchor", "half.zip", "absent"):
        with pytest.raises(LedgerError):
            anchor_in(tmp_path / name)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_model_carries_the_anchor_of_a_ledger_file_and_none_of_one_in_memory(tmp_path, kind):
    """The head of a ledger in memory covers the times of an attempt, which nobody paid for."""
    schema = Schema(columns=(Categorical(name="sex", values=("f", "m")),))
    table = read_table(pd.DataFrame({"sex": ["f", "m", "f"]}), schema)
    terms = {"budget": PureDP(1.0), "unit": ROW, "table": "t"}
    book = Ledger.create(tmp_path / "t.ledger", **terms) if kind == "file" else Ledger.in_memory(**terms)
    model = create("independent").fit(Curator(table, unit=ROW, ledger=book), PureDP(1.0))
    model.save(tmp_path / "m.understudy")
    again = Model.load(tmp_path / "m.understudy").provenance
    if kind == "memory":
        assert (again.ledger_head, again.ledger_length) == ("", None)
        with pytest.raises(LedgerError, match="carries no head"):
            anchor_in(tmp_path / "m.understudy")
    else:
        assert anchor_in(tmp_path / "m.understudy") == book.anchor()
        assert again.ledger_length == book.length


def test_spoilt_files_are_refused_or_read_and_nothing_else(tmp_path, seed):
    draw = random.Random(seed)
    anchor = Anchor("ab" * 16, "cd" * 32, 7)
    write(tmp_path / "a.anchor", anchor.to_dict())
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "certificate.json", json.dumps({"ledger": {"id": "x", "head": anchor.head, "length": 7}})
        )
    for name in ("a.anchor", "a.zip"):
        good = (tmp_path / name).read_bytes()
        spoilt = tmp_path / f"spoilt{Path(name).suffix}"
        for _ in range(400):
            content = bytearray(good)
            for _ in range(draw.randint(1, 4)):
                content[draw.randrange(len(content))] = draw.randrange(256)
            spoilt.write_bytes(content[: draw.choice((len(content), draw.randrange(len(content))))])
            try:
                found = anchor_in(spoilt)
            except LedgerError:
                continue
            assert isinstance(found, Anchor)
            assert list(anchors_near([spoilt])) == [(spoilt, found)]
    for document in (
        {"ledger": 3},
        {"ledger": {"id": 1}},
        {"provenance": []},
        {"format": "understudy-anchor-1"},
        {},
    ):
        with pytest.raises(LedgerError):
            anchor_in(write(tmp_path / "x.anchor", document))
