"""Spoilt files for every reader: the quick form of ``python -m benchmarks.trust.fuzz``, and arbitrary bytes.

A reader may refuse with one of Understudy's errors or read the file; it may not raise anything else, hang, die, or tell a
private value. `test_the_fuzzer_finds_what_is_wrong` shows that each of these is noticed.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.trust._fuzz_readers import CANARY, READERS, Case, CsvReader, Reader, SchemaReader
from benchmarks.trust.fuzz import fuzz, fuzz_apart, lay_out, try_case, try_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.errors import DataError

CASES = 150

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or not Path("/proc/self/statm").exists(), reason="needs fork and Linux"
)
QUIET = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("name", list(READERS))
def test_spoilt_files_end_in_a_refusal(name: str, seed: int, tmp_path: Path) -> None:
    report = fuzz_apart(name, CASES, seed=seed, keep=tmp_path)
    assert report.findings == []
    assert report.cases == CASES
    assert report.refused >= CASES // 3  # the files are really spoilt
    assert report.corpus > len(READERS[name]().seeds) if name in ("schema", "csv") else True


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("schema", "schema.yaml"),
        ("schema", "schema.json"),
        ("spec", "spec.yaml"),
        ("csv", "t.csv"),
        ("parquet", "t.parquet"),
        ("model", "m.understudy"),
        ("ledger", "a.ledger"),
    ],
)
def test_arbitrary_bytes_end_in_a_refusal(name: str, file: str, tmp_path: Path) -> None:
    kind = READERS[name]
    reader = kind.__new__(kind)  # no good files are needed

    @QUIET
    @given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
    def check(content: bytes) -> None:
        lay_out({file: content}, tmp_path / "case")
        ending, finding = try_case(reader, tmp_path / "case")
        assert finding is None, (ending, finding)
        assert ending != "read"

    check()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_KINDS = st.sampled_from(["categorical", "ordinal", "boolean", "integer", "real", "date", "x"])
_COLUMN = st.fixed_dictionaries(
    {"name": st.text(max_size=5) | _VALUES, "kind": _KINDS},
    optional={
        key: _VALUES | st.integers(-3, 9) | st.lists(st.integers(-9, 9) | st.sampled_from("ab"), max_size=4)
        for key in ("values", "bins", "minimum", "maximum", "missing", "out_of_domain", "unit", "decode_by")
    },
)


@QUIET
@given(st.fixed_dictionaries({"columns": st.lists(_COLUMN, max_size=4)}, optional={"constraints": _VALUES}))
def test_any_plain_data_is_a_schema_or_is_refused(plain: Any) -> None:
    from understudy.errors import SchemaError
    from understudy.schema import Schema

    try:
        schema = Schema.from_dict(plain)
    except SchemaError:
        return
    assert Schema.from_dict(schema.to_dict()).fingerprint() == schema.fingerprint()


@pytest.mark.parametrize(
    "name", [name for name in READERS if name not in ("model", "journal", "hold-out", "statement")]
)  # no command reads these alone
def test_good_files_pass_through_the_command_line(name: str, tmp_path: Path) -> None:
    reader = READERS[name]()
    for case in reader.seeds[:1]:
        lay_out(case, tmp_path / "case")
        assert try_command(reader.command(tmp_path / "case"), tmp_path / "case") is None


# ---------------------------------------------------------------------- the fuzzer can fail


class _Telling(CsvReader):
    """Quotes what it read."""

    def read(self, folder: Path) -> None:
        raise DataError(f"The value {CANARY}3 is not allowed.")


class _Escaping(SchemaReader):
    """Lets another error through."""

    def read(self, folder: Path) -> None:
        raise KeyError("x")


class _Endless(SchemaReader):
    """Never ends."""

    def read(self, folder: Path) -> None:
        while True:
            pass


@pytest.mark.parametrize(
    ("kind", "told"),
    [(_Telling, "private value"), (_Escaping, "KeyError"), (_Endless, "longer than")],
)
def test_the_fuzzer_finds_what_is_wrong(kind: type[Reader], told: str, tmp_path: Path) -> None:
    reader = kind()
    case: Case = reader.seeds[0]
    lay_out(case, tmp_path / "case")
    _, finding = try_case(reader, tmp_path / "case", seconds=0.2)
    assert finding is not None
    assert told in finding


def test_cases_that_reach_new_lines_are_kept(tmp_path: Path) -> None:
    report = fuzz(SchemaReader(), 80, seed=1, place=tmp_path, command_every=0)
    assert report.corpus > len(SchemaReader().seeds)
    assert report.lines > 500
    shutil.rmtree(tmp_path, ignore_errors=True)


class _Deaf(SchemaReader):
    """Waits for ever, without using the processor, so that its timer never ends it."""

    def read(self, folder: Path) -> None:
        time.sleep(1e6)


def test_a_case_that_no_timer_ends_is_killed_kept_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READERS, "deaf", _Deaf)
    monkeypatch.setattr("benchmarks.trust.fuzz.STUCK", 0.5)
    monkeypatch.setattr("benchmarks.trust.fuzz._MOST_TURNS", 2)
    report = fuzz_apart("deaf", 3, seed=0, keep=tmp_path)
    assert len(report.findings) == 2
    assert all("hung for" in finding for finding in report.findings)
    assert (tmp_path / "schema-0-died").exists()
