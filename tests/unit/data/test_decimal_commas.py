"""Decimal commas: each entry is read on its own, and a German export goes from draft to rows without a conversion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from understudy import synthesize
from understudy.data import read_table
from understudy.data.drafting.draft import draft_schema
from understudy.data.sources import read_described
from understudy.errors import SchemaError
from understudy.schema import Integer, Real, Schema


def test_an_entry_is_read_alike_whatever_the_others_are() -> None:
    column = Real("x", bins=[0, 1, 2, 3], decimal=",")
    entries = ["0,5", "1.5", "2", " 2,25 "]
    together = column.encode(pd.Series(entries)).tolist()
    assert together == [column.encode(pd.Series([entry])).tolist()[0] for entry in entries] == [0, 1, 2, 2]
    assert Integer("n", minimum=0, maximum=9, decimal=",").encode(["3,00", "4"]).tolist() == [3, 4]


def test_without_the_word_a_comma_is_no_point() -> None:
    assert Real("x", bins=[0, 1, 2], missing=True, out_of_domain="to-missing").encode(["0,5"]).tolist() == [2]
    with pytest.raises(SchemaError, match="decimal"):
        Real("x", bins=[0, 1], decimal=";")


def test_schemas_without_it_are_what_they_were(tmp_path: Path) -> None:
    plain = Schema([Real("x", bins=[0, 1])])
    assert "decimal" not in plain.to_dict()["columns"][0]
    comma = Schema([Real("x", bins=[0, 1], decimal=",")])
    assert comma.fingerprint() != plain.fingerprint()
    comma.write(tmp_path / "s.yaml")
    assert Schema.read(tmp_path / "s.yaml").column("x").decimal == ","


def test_a_german_export_goes_from_draft_to_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = 400
    frame = pd.DataFrame(
        {
            "Größe": rng.choice(["klein", "groß"], rows),
            "Ankunft": [f"{day:02d}.03.2022" for day in rng.integers(1, 29, rows)],
            "Preis": [f"{price:.2f}".replace(".", ",") for price in rng.uniform(20, 300, rows)],
        }
    )
    table = tmp_path / "hotel.csv"
    frame.to_csv(table, index=False, sep=";", encoding="cp1252")
    drafted = draft_schema(read_described(table, encoding="cp1252").frame)
    assert drafted.names == ("Größe", "Ankunft", "Preis")
    price = drafted.column("Preis")
    assert (price.kind, price.decimal, price.decimals) == ("real", ",", 2)
    schema = drafted.declare_public()
    assert read_table(table, schema, encoding="cp1252").count(("Preis",)).sum() == rows
    made = synthesize(
        table, schema=schema, unit="add-remove", epsilon=5.0, method="independent", encoding="cp1252", ledger="memory",
        rows=50, out=tmp_path / "rows.csv",
    )  # fmt: skip
    assert made.rows == 50
    written = pd.read_csv(tmp_path / "rows.csv", dtype=str)
    assert written["Preis"].str.fullmatch(r"\d+\.\d\d").all()
    assert read_table(tmp_path / "rows.csv", schema).count(("Preis",)).sum() == 50


def test_commas_that_may_separate_thousands_are_left_out() -> None:
    drafted = draft_schema(
        pd.DataFrame({"n": [f"{k},{k}00" for k in range(1, 10)] * 20, "s": ["a", "b"] * 90})
    )
    assert drafted.column("n").kind in ("categorical", "ordinal")
