"""Raw tables without a schema: how the benchmark judges rows, what it gives the command, and the expert's schemas."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.accuracy import real_tables as bench
from benchmarks.accuracy._discovery_floor import NOT_FOUND, found_texts, text_counts, without_hidden
from benchmarks.accuracy._output_error import errors_of, numbers_of

from understudy.schema import Schema

SCHEMA = Schema.parse(
    "name: t\ncolumns:\n"
    "  - {name: age, kind: integer, minimum: 0, maximum: 99, bins: [0, 1, 20, 40, 99], out_of_domain: clamp, "
    "missing: true, missing_values: ['?']}\n"
    "  - {name: code, kind: categorical, values: [1, 2]}\n"
    "  - {name: seen, kind: date, minimum: 2020-01-01, maximum: 2020-12-31, resolution: month}\n"
)


@pytest.fixture
def table() -> pd.DataFrame:
    generator = np.random.default_rng(3)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 366, 400), unit="D")
    ages = pd.Series(generator.integers(0, 99, 400).astype(str))
    ages[:50] = "?"
    return pd.DataFrame(
        {
            "age": ages,
            "code": generator.integers(1, 3, 400).astype(str),
            "seen": [day.date().isoformat() for day in days],
        }
    )


def test_a_table_is_at_no_distance_from_itself_however_it_is_spelt(table: pd.DataFrame) -> None:
    other = pd.DataFrame(
        {
            "seen": table["seen"] + "T10:00:00Z",
            "age": [text if text == "?" else f" {text}.0" for text in table["age"]],
            "code": table["code"] + ".0",
        }
    ).replace({"age": {"?": ""}})
    found = errors_of(SCHEMA, table, other)
    assert (found.pairs, found.neutral, found.singles, found.kolmogorov) == (0.0, 0.0, 0.0, 0.0)
    assert found.absent == ()


def test_a_column_that_is_left_out_has_the_largest_error_in_every_marginal(table: pd.DataFrame) -> None:
    found = errors_of(SCHEMA, table, table.drop(columns="age"))
    assert found.absent == ("age",)
    assert found.columns == {"age": 1.0, "code": 0.0, "seen": 0.0}
    assert found.pairs == found.neutral == pytest.approx(2 / 3), "two of three pairs have the column"
    assert found.kolmogorov == pytest.approx(1 / 2), "one of two ordered columns"
    assert errors_of(SCHEMA, table, table.iloc[:0]).pairs == 1.0


def test_entries_that_are_no_value_have_a_cell_of_their_own(table: pd.DataFrame) -> None:
    wrong = table.assign(code="other")
    assert errors_of(SCHEMA, table, wrong).columns["code"] == pytest.approx(1.0)
    half = table.assign(age=["oops"] * 200 + list(table["age"][200:]))
    expected = 200 / 400  # none of them is missing or a number any more
    assert errors_of(SCHEMA, table, half).columns["age"] == pytest.approx(expected)


def test_numbers_beyond_the_bounds_count_at_the_bounds(table: pd.DataFrame) -> None:
    far = table.assign(age=[text if text == "?" or int(text) < 40 else "1000" for text in table["age"]])
    found = errors_of(SCHEMA, table, far)
    assert found.columns["age"] == 0.0, "the last bin ends at the bound"
    assert found.kolmogorov > 0.2, "the distance of numbers sees it"


def test_neutral_cells_see_what_the_bins_of_a_schema_hide(table: pd.DataFrame) -> None:
    coarse = Schema.parse(
        "name: t\ncolumns:\n"
        "  - {name: age, kind: integer, minimum: 0, maximum: 99, bins: [0, 99]}\n"
        "  - {name: code, kind: categorical, values: [1, 2]}\n"
    )
    middle = table.assign(age="49")
    known = table.assign(age=table["age"].replace("?", "0"))
    found = errors_of(coarse, known, middle)
    assert found.pairs == pytest.approx(0.0)
    assert found.neutral > 0.8


def test_frequent_values_are_neutral_cells_of_their_own() -> None:
    schema = Schema.parse(
        "name: t\ncolumns:\n"
        "  - {name: gain, kind: integer, minimum: 0, maximum: 1000, bins: 2}\n"
        "  - {name: code, kind: categorical, values: [1]}\n"
    )
    gain = np.concatenate([np.zeros(900, dtype=int), np.arange(1, 101)])
    real = pd.DataFrame({"gain": gain.astype(str), "code": "1"})
    near = real.assign(gain=np.where(gain == 0, 3, gain).astype(str))
    assert errors_of(schema, real, near).neutral == pytest.approx(0.9), "three is not zero"


def test_distances_of_numbers_are_those_of_scipy(table: pd.DataFrame) -> None:
    from scipy.stats import ks_2samp

    other = table.sample(frac=0.5, random_state=1).reset_index(drop=True)
    other["seen"] = table["seen"][:200].to_numpy()
    expected = [
        ks_2samp(sides[0][~np.isnan(sides[0])], sides[1][~np.isnan(sides[1])]).statistic
        for sides in (
            [numbers_of(SCHEMA.column(name), frame[name]) for frame in (table, other)]
            for name in ("age", "seen")
        )
    ]
    assert errors_of(SCHEMA, table, other).kolmogorov == pytest.approx(np.mean(expected))


def test_uniform_bins_are_equal_parts_of_the_wide_bounds() -> None:
    expert = bench.expert_schema(bench.TABLES["adult.data"])
    uniform = bench.uniform_schema(expert)
    sizes = {column.name: column.value_count for column in uniform.columns}
    assert sizes["capital-gain"] == sizes["age"] == bench.UNIFORM_BINS
    assert sizes["education-num"] == 16, "few whole numbers stay as they are"
    assert uniform.names == expert.names
    assert sizes["race"] == expert.column("race").value_count


def test_a_copy_holds_the_raw_lines_and_always_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = "|comment\n" + "".join(f"{row}, a{row % 3}, ?\n" for row in range(50)) + "\n"
    (tmp_path / "raw.gz").write_bytes(gzip.compress(raw.encode()))
    source = bench.Source("raw.gz", "adult", names=("x", "y", "z"), skip=1)
    monkeypatch.setitem(bench.TABLES, "t", source)
    whole = bench.working_copy("t", tmp_path, tmp_path / "a")
    assert whole.read_text().splitlines() == raw.splitlines()[1:-1]
    some = [
        bench.working_copy("t", tmp_path, tmp_path / name, rows=20).read_text().splitlines() for name in "bc"
    ]
    assert some[0] == some[1]
    assert len(set(some[0])) == 20
    assert set(some[0]) <= set(raw.splitlines())
    assert bench.read_texts(whole, source).iloc[4].tolist() == ["4", "a1", "?"]
    assert bench.reading(source) == ["--no-header", "--names", "x,y,z"]
    assert bench.reading(bench.TABLES["bank_marketing"]) == ["--separator", ";"]


def test_no_table_is_both_tuned_on_and_reported() -> None:
    assert not set(bench.DEVELOPMENT) & set(bench.REPORTED)
    paths = [source.path for source in (bench.DEVELOPMENT | bench.REPORTED).values()]
    assert len(paths) == len(set(paths))
    files = {path.stem for path in bench.SCHEMAS.glob("*.yaml")}
    assert files == {source.schema for source in bench.TABLES.values()}


def record(table: str, approach: str, seed: int, **more: object) -> dict[str, object]:
    good = {
        "status": "ok", "error": 0.1, "neutral": 0.2, "singles": 0.05, "kolmogorov": 0.01, "cpu_seconds": 2.0,
        "real_rows": 10, "judged": 3,
    }  # fmt: skip
    return {"table": table, "seed": seed, "options": {"schema": approach}} | good | more


def test_the_page_says_what_is_above_the_limit_and_what_failed() -> None:
    records = [
        record("hmeq", "expert", 0),
        record("hmeq", "discovered", 0, error=0.1),
        record("hmeq", "discovered", 1, error=0.14),
        record("flchain", "expert", 0, floor={"error": 0.108}),
        record("flchain", "discovered", 0, error=0.2),
        record("flchain", "drafted", 0, status="refused"),
    ]
    printed = bench.page(records)
    first = next(line for line in printed.splitlines() if line.startswith("| hmeq"))
    assert first == "| hmeq | 10 | 3 | 0.1000 | 0.1200 |  |  | 1.20 |  |"
    second = next(line for line in printed.splitlines() if line.startswith("| flchain"))
    assert second == "| flchain | 10 | 3 | 0.1000 | 0.2000 |  | refused | 2.00 | 1.08 |"
    assert "1 of 1 have a ratio of at most 1.25; the median is 1.20." in printed
    assert "0 of 1 have a ratio of at most 1.25; the median is 2.00. Above: flchain." in printed


def test_what_was_not_run_is_named() -> None:
    wanted = bench.cells(["hmeq", "flchain"], ["expert", "discovered"], 1)
    assert bench.not_run(wanted, wanted) == ""
    assert bench.not_run(wanted, wanted[:1]) == "Not run: expert flchain; discovered hmeq, flchain."


def test_results_of_an_approach_can_be_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    lines = [record("hmeq", way, 0) for way in ("expert", "discovered")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bench.forget(path, ["discovered"])
    kept = [json.loads(line)["options"]["schema"] for line in path.read_text().splitlines()]
    assert kept == ["expert"]


def test_unknown_tables_and_approaches_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["titanik"], ["--approaches", "guess"], ["--quick", "--write"]):
        with pytest.raises(SystemExit):
            bench.main([*words, "--out", str(tmp_path)])
    assert "titanik" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_quick_form_judges_a_simulated_table_and_goes_on_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--quick", "--approaches", "expert", "--out", str(tmp_path)]
    assert bench.main(words) == 0
    (line,) = (tmp_path / "results.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found["status"] == "ok", found
    assert found["absent"] == []
    assert found["real_rows"] == 2000
    assert 0.0 < found["singles"] < found["error"] < 0.5
    assert bench.main([*words, "--judge"]) == 0
    assert json.loads((tmp_path / "results.jsonl").read_text()) == found, (
        "nothing ran twice, the judge agrees"
    )
    assert "| messy | 2000 | 27 |" in capsys.readouterr().out


@pytest.mark.shared_data
@pytest.mark.parametrize("name", [*bench.DEVELOPMENT, *bench.REPORTED])
def test_the_experts_schema_fits_its_table(name: str, shared_data: Path, tmp_path: Path) -> None:
    source = bench.TABLES[name]
    schema = bench.expert_schema(source)
    copy = bench.working_copy(name, shared_data, tmp_path, rows=3_000)
    frame = bench.read_texts(copy, source)
    named = set(schema.names) | set(dict(schema.left_out))
    assert set(schema.names) <= set(frame.columns)
    if not name.startswith("pums"):  # pid is in some of its files only
        assert named == set(frame.columns), "what the expert leaves out is said"
    schema.encode_frame(frame)
    bench.uniform_schema(schema).encode_frame(frame)


def test_the_floor_hides_texts_that_are_too_rare_and_nothing_else() -> None:
    """A city of 20 rows is not found at a tenth of epsilon 1; numbers, missing entries, states and frequent cities stay."""
    cities = [*["Bern"] * 6_000, *["Basel"] * 3_000, *["Chur"] * 20, *["?"] * 80]
    real = pd.DataFrame(
        {"city": cities, "state": ["CA", "TX", "NY", "WY"] * 2_275, "code": ["1", "2"] * 4_550}
    )
    schema = Schema.parse(
        "columns: [{name: city, kind: categorical, values: [Bern, Basel, Chur], missing: true, missing_values: ['?']}, "
        "{name: state, kind: categorical, values: [CA, TX, NY, WY]}, {name: code, kind: categorical, values: ['1', '2']}]"
    )
    counts = text_counts(schema, real)
    assert counts == {"city": {"Bern": 6_000, "Basel": 3_000, "Chur": 20}}
    found = found_texts(counts, epsilon=1.0, delta=1e-6, share=0.1)
    assert found == {"city": {"Bern", "Basel"}}
    assert found_texts(counts, epsilon=20.0, delta=1e-6, share=0.1) == {"city": {"Bern", "Basel", "Chur"}}
    left = without_hidden(real, counts, found, schema)
    assert (left["city"] == NOT_FOUND).sum() == 20
    assert ((left == real) | (left == NOT_FOUND)).all(axis=None)
    assert errors_of(schema, real, left).columns["city"] == pytest.approx(20 / 9_100)
