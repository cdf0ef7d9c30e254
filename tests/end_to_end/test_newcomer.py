"""A newcomer's path: from a wide, messy CSV file to rows in at most four commands, none of which needs an editor."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from command import Result, understudy

from understudy.datasets.messy import messy_table, write_messy
from understudy.privacy import Ledger
from understudy.schema import Schema

ROWS = 20_000
"""Enough for the noise of discovery (below 400 rows a cell) to leave every column that has frequent values or ranges in the schema."""
BUDGET = ("--epsilon", 1, "--delta", "1e-6", "--unit", "add-remove")


def walk(*commands: tuple[object, ...]) -> list[Result]:
    """Run commands in their order; each has to succeed."""
    found = []
    for words in commands:
        result = understudy(*words)
        assert result.code == 0, (words, result.out, result.err)
        found.append(result)
    return found


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tmp_path_factory.mktemp("newcomer") / "stays.csv"
    write_messy(table, messy_table(ROWS, seed=5))
    return table


def test_a_wide_file_becomes_rows_in_one_command_and_is_looked_at_in_two_more(
    stays: Path, tmp_path: Path
) -> None:
    rows, schema, ledger = tmp_path / "rows.csv", tmp_path / "measured.yaml", tmp_path / "stays.ledger"
    path: list[tuple[object, ...]] = [
        ("synth", stays, "--discover", 0.1, "--schema-out", schema, "--method", "mst", *BUDGET, "--out", rows,
         "--ledger", ledger, "--quiet"),
        ("ledger", "show", ledger),
        ("evaluate", stays, rows, "--schema", schema, "--sections", "marginals"),
    ]  # fmt: skip
    assert len(path) <= 4
    walk(*path)
    header = pd.read_csv(stays, nrows=0).columns
    made = pd.read_csv(rows, dtype=str, keep_default_na=False)
    assert len(header) >= 30
    assert set(made.columns) <= set(header)
    assert len(made.columns) >= 25, "the table is wide, and so is its stand-in"
    assert 0.9 * ROWS < len(made) < 1.1 * ROWS
    measured = Schema.read(schema)
    assert measured.names == tuple(made.columns)
    assert all("measured" in str(column.to_dict()["origin"]) for column in measured.columns)
    with Ledger.open(ledger) as book:
        assert book.spent <= book.total


def test_people_with_several_rows_are_protected_by_one_option_more(stays: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    walk(
        ("synth", stays, "--discover", 0.2, "--method", "independent", *BUDGET, "--id-column", "patient_nbr",
         "--max-rows-per-person", 3, "--out", rows, "--ledger", tmp_path / "l.ledger", "--quiet"),
    )  # fmt: skip
    made = pd.read_csv(rows, dtype=str)
    ids = made["patient_nbr"].astype(int)
    assert set(ids) == set(range(1, ids.max() + 1))  # fresh ones
    assert (
        0.5 * ROWS < len(made) < 2 * ROWS
    )  # cut to three a person it would be a matter of people, not of rows
