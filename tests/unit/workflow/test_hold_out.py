"""A fit with rows set aside: what it reads, what it writes, what it refuses, and what its ledger says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.data import read_table
from understudy.data.holdout import HoldOut
from understudy.errors import DataError, UnderstudyError, UsageError
from understudy.privacy import Budget, Ledger, Unit
from understudy.schema import Schema
from understudy.workflow import Fit, synthesize

SCHEMA = Schema.parse("columns: [{name: a, kind: categorical, values: [x, y, z]}, {name: b, kind: boolean}]")


def table(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    return pd.DataFrame({"a": generator.choice(["x", "y", "z"], rows), "b": generator.random(rows) < 0.5})


def made(source: Any, **more: Any) -> Any:
    words = {"unit": "add-remove", "epsilon": 2.0, "method": "independent", "hold_out": 0.25, "seed": 1}
    return synthesize(source, **{"schema": SCHEMA, **words, **more})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    table().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_only_a_key_is_written_and_the_same_one_is_used_again(file: Path) -> None:
    first = made(file, out=file.parent / "out.csv")
    kept = first.hold_out_file
    assert kept == first.ledger.with_suffix(".hold-out")
    assert {path.name for path in file.parent.iterdir()} == {"t.csv", "out.csv", kept.name, first.ledger.name}
    assert HoldOut.read(kept) == first.hold_out
    second = made(file, ledger="memory", hold_out=HoldOut.read(kept))
    assert second.hold_out == first.hold_out
    assert second.hold_out_file is None
    with pytest.raises(UsageError, match="was asked for"):
        made(file, hold_out=0.5)


def test_the_fit_counts_the_other_rows_alone(file: Path) -> None:
    """At epsilon 2000 the noise is far below one row, so the model shows what was counted."""
    found = made(file, epsilon=2000.0, ledger="memory")
    read = read_table(file, SCHEMA, hold_out=found.hold_out)
    assert read.exact_row_count() < 400
    assert found.model.marginal(("a",)) == pytest.approx(read.count(("a",)), abs=0.6)


def test_discovery_does_not_see_them_either(file: Path) -> None:
    """A value that stands in held-out rows alone is not discovered."""
    division = HoldOut(0.5, b"k" * 32)
    frame = pd.DataFrame({"a": np.where(division.chosen(4000), "here", "aside")})
    division = replace(division, table=division._digest(frame))
    found = synthesize(
        frame, unit="add-remove", epsilon=50.0, delta=1e-6, discover=0.5, method="independent",
        ledger=file.parent / "d.ledger", hold_out=division, rows=10,
    )  # fmt: skip
    assert found.discovery is not None
    assert "here" in found.discovery.schema.column("a").labels
    assert "aside" not in found.discovery.schema.column("a").labels


@pytest.mark.parametrize("unit", ["add-remove", "replace-one"])
def test_no_exact_number_reaches_the_ledger(unit: str) -> None:
    protected = Unit.of(unit)
    ledger = Ledger.in_memory(budget=Budget.of(epsilon=4.0), unit=protected, table="t")
    made(table(), unit=unit, ledger=ledger)
    assert not ledger.invariants()
    made(table(), unit=unit, ledger=ledger, hold_out=None)  # all rows, later, on the same ledger
    assert [item.value for item in ledger.invariants()] == ([400] if unit == "replace-one" else [])


def test_people_stay_together() -> None:
    frame = table().assign(who=np.arange(400) // 4)
    unit = Unit.add_remove_person("who", max_rows=4)
    found = made(frame, unit=unit, ledger="memory")
    assert found.hold_out.id_column == "who"
    read, aside = found.hold_out.frame(frame), found.hold_out.set_aside.frame(frame)
    assert len(read) + len(aside) == 400
    assert not set(read["who"]) & set(aside["who"])
    assert (read.groupby("who").size() == 4).all()


def test_what_cannot_be_divided_is_refused_before_anything_is_made(file: Path) -> None:
    counted = replace(SCHEMA, row_count=400)
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"schema": counted}, "row_count"),
        ({"hold_out": 1.5}, "between 0 and 1"),
        ({"hold_out": HoldOut(0.2, bytes(32), id_column="who")}, "people"),
        ({"hold_out": HoldOut.of(table(seed=9), 0.2)}, "another table"),
    )
    for words, said in refused:
        with pytest.raises(UnderstudyError, match=said):
            synthesize(
                file, **{"schema": SCHEMA, "unit": "add-remove", "epsilon": 1.0, "hold_out": 0.2, **words}
            )
        assert [path.name for path in file.parent.iterdir()] == ["t.csv"]


def test_a_file_without_a_share_is_refused(file: Path) -> None:
    from understudy.privacy import Budget
    from understudy.workflow import mechanism_for, plan_synthesis

    fit = Fit(
        table=file, schema=SCHEMA, synthesizer=mechanism_for("independent", SCHEMA), unit=Unit.add_remove(),
        budget=Budget.of(epsilon=1.0), hold_out_file=file.parent / "k",
    )  # fmt: skip
    with pytest.raises(UsageError, match="goes with"):
        plan_synthesis(fit)
    with pytest.raises(DataError, match="not a file that"):
        plan_synthesis(replace(fit, hold_out=0.2, hold_out_file=file))


def test_a_ledger_that_is_handed_over_keeps_the_division_beside_it(file: Path) -> None:
    with Ledger.create(
        file.parent / "own.ledger", budget=Budget.of(epsilon=8.0), unit=Unit.add_remove(), table="t"
    ) as ledger:
        first, second = made(file, ledger=ledger), made(file, ledger=ledger)
    assert first.hold_out_file == file.parent / "own.hold-out"
    assert first.hold_out == second.hold_out


def test_of_two_fits_that_begin_at_once_the_second_spends_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found no file; the other one writes its key after this one has drawn its own."""
    other = HoldOut.of(file, 0.25)
    write = HoldOut.write

    def late(self: HoldOut, path: Path) -> None:
        write(other, path)

    monkeypatch.setattr(HoldOut, "write", late)
    with pytest.raises(UsageError, match="Nothing was spent"):
        made(file, ledger=file.parent / "t.ledger")
    ledger = file.parent / "t.ledger"
    if ledger.exists():
        with Ledger.open(ledger) as book:
            assert book.spent == 0


def test_discovery_of_a_part_writes_no_exact_number(file: Path) -> None:
    """Under replace-one the number of rows of a whole table is public, and would be an entry of the ledger."""
    found = made(file, unit="replace-one", epsilon=4.0, delta=1e-6, schema=None, discover=0.5)
    with Ledger.open(found.ledger) as ledger:
        assert list(ledger.entries())
        assert not ledger.invariants()
