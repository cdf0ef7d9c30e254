"""CSV files without a header, and with blanks after their commas."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from understudy.cli.main import app, prepare
from understudy.cli.options import parse_header
from understudy.curator import table_facts
from understudy.data import read_frame, read_table
from understudy.datasets import messy_table, write_messy
from understudy.errors import DataError, UsageError
from understudy.privacy import Unit
from understudy.release.spec.spec import Spec
from understudy.schema import Schema

ADULT = "39, State-gov, 77516, ?\n50, Private, 83311, Husband\n38, Private, 215646, Wife\n\n"
NAMES = ("age", "sector", "weight", "role")
SCHEMA = Schema.parse(
    """
    columns:
    - {name: age, kind: integer, minimum: 0, maximum: 99}
    - {name: sector, kind: categorical, values: [State-gov, Private]}
    - {name: role, kind: categorical, values: [Husband, Wife], missing: true, missing_values: ["?"]}
    """
)


@pytest.fixture
def adult(tmp_path: Path) -> Path:
    path = tmp_path / "adult.data"
    path.write_text(ADULT, encoding="utf-8")
    return path


def test_names_are_given_and_blanks_after_commas_do_not_count(adult: Path) -> None:
    table = read_table(adult, SCHEMA, names=NAMES)
    assert table.exact_row_count() == 3
    assert table.count(("sector",)).tolist() == [1, 2]
    assert table.count(("role",)).tolist() == [1, 1, 1]
    frame = read_frame(adult, names=NAMES)
    assert frame["sector"].tolist() == ["State-gov", "Private", "Private"]


def test_columns_without_names_are_numbered(adult: Path) -> None:
    frame = read_frame(adult, names=())
    assert list(frame.columns) == ["column_1", "column_2", "column_3", "column_4"]
    assert len(frame) == 3


def test_one_line_is_one_record(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("39,State-gov,1,Wife", encoding="utf-8")
    assert read_table(path, SCHEMA, names=NAMES).exact_row_count() == 1
    assert len(read_frame(path, names=())) == 1


def test_a_compressed_file_with_the_ending_data(tmp_path: Path) -> None:
    path = tmp_path / "adult.data.gz"
    path.write_bytes(gzip.compress(ADULT.encode()))
    assert read_table(path, SCHEMA, names=NAMES).exact_row_count() == 3


@pytest.mark.parametrize("first", ["7,8;9", "7;8", "7|8,9"])
def test_the_first_record_does_not_decide_how_others_are_read(tmp_path: Path, first: str) -> None:
    """A property of neighbouring files: they are read with the same separator, or one of them is refused."""
    path = tmp_path / "t.csv"
    rest = "1,2;3\n4,5;6\n"
    path.write_text("0,1;2\n" + rest, encoding="utf-8")
    before = read_frame(path, names=("a", "b"))
    path.write_text(f"{first}\n{rest}", encoding="utf-8")
    try:
        after = read_frame(path, names=("a", "b"))
    except DataError as error:
        assert "--separator" in str(error)  # noqa: PT017
        return
    assert after["b"].tolist()[1:] == before["b"].tolist()[1:] == ["2;3", "5;6"]


def test_other_separators_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,5;2,5\n3,5;4,5\n", encoding="utf-8")
    with pytest.raises(DataError, match="--separator"):
        read_frame(path, names=("a", "b"))
    assert read_frame(path, names=("a", "b"), separator=";")["a"].tolist() == ["1,5", "3,5"]
    path.write_text("1;2\n3;4\n", encoding="utf-8")
    with pytest.raises(DataError, match="--separator"):
        read_frame(path, names=())
    tabs = tmp_path / "t.tsv"
    tabs.write_text("1\t2\n", encoding="utf-8")
    assert read_frame(tabs, names=()).shape == (1, 2)


@pytest.mark.parametrize("content", ["", "\n", " \n"])
def test_an_empty_file_with_names_is_an_empty_table(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content, encoding="utf-8")
    assert read_table(path, SCHEMA, names=NAMES).exact_row_count() == 0
    assert read_frame(path, names=NAMES).shape == (0, 4)
    with pytest.raises(DataError, match="is empty"):
        read_frame(path, names=())


def test_a_field_of_blanks_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,  , x\n2, y ,z\n", encoding="utf-8")
    frame = read_frame(path, names=("a", "b", "c"))
    assert frame["b"].isna().tolist() == [True, False]
    assert frame["b"][1] == "y"


def test_blanks_after_the_commas_of_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age, sector, role\n39, Private, Wife\n38, State-gov, ?\n", encoding="utf-8")
    table = read_table(path, SCHEMA)
    assert table.exact_row_count() == 2
    assert table.count(("sector",)).tolist() == [1, 1]
    assert list(read_frame(path).columns) == ["age", "sector", "role"]


def test_blanks_count_where_the_header_has_none_or_the_schema_has_them(tmp_path: Path) -> None:
    """Files that 0.1.0 read are read as it did."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1, x\n", encoding="utf-8")
    assert read_frame(path)["b"].tolist() == [" x"]
    path.write_text("a, b\n1, x\n", encoding="utf-8")
    spaced = Schema.parse('columns: [{name: " b", kind: categorical, values: [" x"]}]')
    assert read_table(path, spaced).count((" b",)).tolist() == [1]


def test_the_wrong_number_of_names(adult: Path) -> None:
    with pytest.raises(DataError, match=r"3 names were given for .* and its first line has 4 fields"):
        read_table(adult, SCHEMA, names=NAMES[:3])


def test_names_that_the_first_line_holds_already(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,sector,weight,role\n39,Private,1,Wife\n", encoding="utf-8")
    with pytest.raises(DataError, match="holds the names themselves"):
        read_table(path, SCHEMA, names=NAMES)


def test_a_missing_header_is_suspected_in_the_error(adult: Path) -> None:
    with pytest.raises(DataError, match="--names") as error:
        read_table(adult, SCHEMA)
    assert "State-gov" not in str(error.value)


def test_drafting_refuses_a_first_line_that_looks_like_a_record(adult: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="looks like a record") as error:
        read_frame(adult, check_header=True)
    assert "39" not in str(error.value)
    wide = tmp_path / "wide.csv"
    wide.write_text("country,1990,1991\nDE,5,6\n", encoding="utf-8")
    assert list(read_frame(wide).columns) == ["country", "1990", "1991"]
    plain = tmp_path / "plain.csv"
    plain.write_text("a,b\n1,x\n", encoding="utf-8")
    assert len(read_frame(plain, check_header=True)) == 1


def test_names_are_for_csv_files(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    messy_table(5)[["age"]].to_parquet(path)
    with pytest.raises(DataError, match="apply to CSV files only"):
        read_frame(path, names=("a",))


def test_the_names_belong_to_the_facts_of_the_table() -> None:
    before = table_facts(SCHEMA, unit=Unit.add_remove())
    assert before.parts["reading"] == [None, "utf-8"]  # as 0.1.0 wrote it into ledgers
    named = table_facts(SCHEMA, unit=Unit.add_remove(), names=NAMES)
    assert named.parts["reading"] == [None, "utf-8", list(NAMES)]


def test_the_words_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("age\nsector\n", encoding="utf-8")
    assert parse_header(None, str(file)) == ("age", "sector")
    assert parse_header(True, None) is None
    for header, names in ((True, "a,b"), (None, "a,a"), (None, ",")):
        with pytest.raises(UsageError, match="--names"):
            parse_header(header, names)


SPEC = """
name: headerless
source: {path: adult.data, names: [age, sector, weight, role]}
schema: schema.yaml
unit: replace-one
synthesizers: [{method: laplace}]
acceptance:
  form: pass-only
  epsilon: 0.1
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.001}]
selection: {rule: single}
budget: {total: {epsilon: 0.2}, model: {epsilon: 0.1}}
"""


def test_a_specification_gives_the_names(adult: Path) -> None:
    SCHEMA.write(adult.parent / "schema.yaml")
    path = adult.parent / "spec.yaml"
    path.write_text(SPEC, encoding="utf-8")
    spec = Spec.read(path)
    assert spec.source.reading == {"separator": None, "encoding": None, "names": NAMES}
    assert spec.facts.parts["reading"] == [None, "utf-8", list(NAMES)]
    assert read_table(spec.source.path, spec.schema, **spec.source.reading).exact_row_count() == 3
    path.write_text(SPEC.replace(", names: [age, sector, weight, role]", ""), encoding="utf-8")
    assert Spec.read(path).facts.parts["reading"] == [None, "utf-8"]
    assert Spec.read(path).fingerprint() != spec.fingerprint()


def run(*words: object) -> None:
    prepare()
    app([str(word) for word in words], standalone_mode=False)


def test_commands_take_headerless_files(tmp_path: Path) -> None:
    table, schema, out = tmp_path / "messy.csv", tmp_path / "schema.yaml", tmp_path / "out.csv"
    frame = messy_table(300, seed=1)[["smoker", "readmitted", "clinic"]]
    write_messy(table, frame, header=False, blanks=True)
    given = ["--names", "smoker,readmitted,clinic"]
    run("schema", "draft", table, "--out", schema, "--declare-public", *given)
    assert Schema.read(schema).names == ("smoker", "readmitted", "clinic")
    run("schema", "check", schema, table, *given)
    fit = ("--method", "independent", "--unit", "add-remove", "--epsilon", "1")
    run("synth", table, "--schema", schema, "--out", out, *fit, *given)
    run("evaluate", table, out, "--schema", schema, "--json", *given)
    with pytest.raises(DataError, match="--names"):
        run("schema", "check", schema, table)
