"""The schema as a whole: names, facts, fingerprints, tables in and out."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import understudy.schema
from understudy.errors import ConstraintError, DataError, DomainNotPublic, SchemaError
from understudy.schema import Boolean, Categorical, Constraint, Date, Domain, Integer, Ordinal, Real, Schema

PEOPLE = Schema(
    [
        Integer("age", bins=["<18", "18-64", "64<"], unit="years", description="in full years"),
        Categorical("sex", values=["M", "F"], missing=True),
        Real("weight", minimum=0, maximum=200, bins=4, out_of_domain="clamp"),
        Date("born", minimum="1900-01-01", maximum="2020-12-31", resolution="year"),
        Boolean("smokes", out_of_domain="to-other"),
        Ordinal("grade", values=["low", "high"]),
    ],
    [
        "not (age < 18 and smokes)",
        {"rule": "weight > 20 or age < 18", "straddle": "forbid", "description": "d"},
    ],
    name="people",
    description="made up",
    row_count=1000,
)
FRAME = pd.DataFrame(
    {
        "age": [3, 40, 99],
        "sex": ["M", None, "F"],
        "weight": [12.5, 300.0, 80.0],
        "born": ["2010-05-05", "1975-01-01", "1920-12-31"],
        "smokes": [False, True, "sometimes"],
        "grade": ["low", "high", "low"],
        "unused": [object(), object(), object()],
    }
)


def test_the_public_names_are_those_documented() -> None:
    for name in understudy.schema.__all__:
        assert hasattr(understudy.schema, name)
    assert understudy.schema.__all__ == sorted(
        understudy.schema.__all__, key=lambda name: (name[0].islower(), name)
    )


def test_importing_is_light() -> None:
    code = "import sys, understudy.schema; print([m for m in ('pandas', 'pydantic', 'yaml', 'pyarrow', 'scipy', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_a_schema_knows() -> None:
    assert PEOPLE.names == ("age", "sex", "weight", "born", "smokes", "grade")
    assert PEOPLE.domain == Domain(PEOPLE.names, (3, 3, 4, 121, 3, 2))
    assert PEOPLE.column("sex").kind == "categorical"
    assert repr(PEOPLE) == "Schema('people': 6 columns, 26,136 cells, 2 constraints, 1,000 rows)"
    assert [rule.columns for rule in PEOPLE.constraints] == [("age", "smokes"), ("age", "weight")]
    assert PEOPLE.describe()[0] == {
        "name": "age",
        "kind": "integer",
        "size": 3,
        "missing": False,
        "unit": "years",
        "description": "in full years",
    }
    with pytest.raises(SchemaError, match="Did you mean 'smokes'"):
        PEOPLE.column("smoke")
    assert pickle.loads(pickle.dumps(PEOPLE)) == PEOPLE
    assert hash(PEOPLE) == hash(pickle.loads(pickle.dumps(PEOPLE)))


def test_selecting_columns_keeps_the_constraints_among_them() -> None:
    part = PEOPLE.select(["smokes", "age"])
    assert part.names == ("age", "smokes")
    assert [rule.text for rule in part.constraints] == ["not (age < 18 and smokes)"]
    with pytest.raises(SchemaError, match="No column"):
        PEOPLE.select(["x"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"columns": []}, "at least one column"),
        ({"columns": "age"}, "list of columns"),
        ({"columns": 5}, "list of columns"),
        ({"columns": {"a": 1}}, "list of columns"),
        ({"columns": ["age"]}, "each must be"),
        ({"columns": [Boolean("x"), Boolean("x")]}, r"columns\[1\] 'x': another column"),
        ({"columns": [Boolean(f"x{i}") for i in range(5001)]}, "more than the 5,000"),
        ({"row_count": -1}, "row_count"),
        ({"row_count": 0}, "row_count"),
        ({"row_count": 1.5}, "row_count"),
        ({"row_count": True}, "row_count"),
        ({"row_count": math.inf}, "row_count"),
        ({"name": 5}, "name: must be text"),
        ({"description": 5}, "description: must be text"),
        ({"origin": {"rows": "from-data"}}, "no fact named 'rows'"),
        ({"left_out": 5}, "left_out"),
        ({"left_out": ["x"]}, "left_out"),
        ({"constraints": "x"}, "list of rules"),
        ({"constraints": {"rule": "x"}}, "list of rules"),
        ({"constraints": [5]}, r"constraints\[0\]: Write a rule as text"),
        ({"constraints": [{"text": "x"}]}, "Unknown key 'text'"),
        ({"constraints": [{}]}, "key 'rule' is missing"),
        ({"constraints": [{"rule": "x", "straddle": "no"}]}, "straddle must be"),
        ({"constraints": ["x", "y", "z > 3"]}, r"(?s)constraints\[1\].*'y'.*constraints\[2\].*'z'"),
        ({"constraints": ["x"] * 1001}, "more than the 1,000"),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        Schema(**{"columns": [Boolean("x")], **arguments})


def test_a_constraint_is_read_again_for_its_new_schema() -> None:
    rule = Constraint.parse("x > 3", [Integer("x", minimum=0, maximum=9)])
    schema = Schema([Integer("x", bins=[0, 4, 9]), Boolean("y")], [rule])
    assert schema.constraints[0].allowed(schema.domain).tolist() == [False, True]
    with pytest.raises(ConstraintError):
        Schema([Boolean("x")], [rule])


# -- facts -----------------------------------------------------------------------------------------


def test_facts_read_from_data_are_refused_until_declared_public() -> None:
    schema = Schema(
        [
            Integer("age", minimum=0, maximum=9, origin={"minimum": "from-data", "maximum": "public"}),
            Categorical("sex", values=["M", "F"], origin="from-data"),
            Boolean("smokes"),
        ],
        row_count=5,
        left_out={"id": "an identifier"},
        origin={"row_count": "from-data"},
    )
    assert schema.facts_from_data() == (
        "column 'age': minimum",
        "column 'sex': kind",
        "column 'sex': values",
        "column 'sex': missing",
        "row_count",
    )
    with pytest.raises(DomainNotPublic, match=r"(?s)column 'age': minimum.*row_count"):
        schema.require_public()
    public = schema.declare_public()
    public.require_public()
    assert public.facts_from_data() == ()
    assert public.fingerprint() == schema.fingerprint()
    assert "minimum" in schema.column("age").facts_from_data
    assert "maximum" not in schema.column("age").facts_from_data
    again = Schema.parse(schema.to_yaml())
    assert again == schema
    PEOPLE.require_public()


def test_one_fact_at_a_time_can_become_public() -> None:
    column = Categorical(
        "sex", values=["M", "F"], origin={"values": "from-data", "kind": "from-data", "missing": "from-data"}
    )
    assert column.origin == "from-data"
    partly = Categorical("sex", values=["M", "F"], origin={"values": "public", "kind": "from-data"})
    assert partly.facts_from_data == ("kind",)
    assert Categorical("sex", values=["M", "F"], origin={"values": "public"}).origin == "public"


def test_the_fingerprint_is_stable_and_means_the_codes() -> None:
    """A changed digest would orphan every ledger and model file, so it is written down here."""
    schema = Schema(
        [Integer("age", bins=["<18", "18<="]), Categorical("sex", values=["M", "F"])],
        ["age < 18 or sex == 'M'"],
    )
    assert schema.fingerprint() == "35b1f5d5a4c1f20f074b362b181691d9f5dc7fdae69daedfdd9d1c26ae7ffb96"
    prints = {
        schema.fingerprint(),
        Schema(schema.columns).fingerprint(),
        Schema(schema.columns, schema.constraints, row_count=5).fingerprint(),
        Schema(schema.columns[::-1], schema.constraints).fingerprint(),
        Schema(schema.columns, [{"rule": "age < 18 or sex == 'M'", "straddle": "forbid"}]).fingerprint(),
        Schema(
            [Integer("age", bins=["<18", "18<="], missing=True), schema.columns[1]], schema.constraints
        ).fingerprint(),
        Schema(
            [Integer("age", bins=["<18", "18<="], out_of_domain="clamp"), schema.columns[1]],
            schema.constraints,
        ).fingerprint(),
    }
    assert len(prints) == 7
    prose = Schema(
        [
            Integer("age", bins=["<18", "18<="], unit="years", description="x", origin="from-data"),
            schema.columns[1],
        ],
        [{"rule": "age < 18 or sex == 'M'", "description": "because"}],
        name="n",
        description="d",
        left_out={"id": "an identifier"},
    )
    assert prose.fingerprint() == schema.fingerprint()
    assert Schema.parse(schema.to_yaml()).fingerprint() == schema.fingerprint()


# -- tables ----------------------------------------------------------------------------------------


def test_a_table_becomes_codes_and_back() -> None:
    codes = PEOPLE.encode_frame(FRAME)
    assert {name: part.tolist() for name, part in codes.items()} == {
        "age": [0, 1, 2],
        "sex": [0, 2, 1],
        "weight": [0, 3, 1],
        "born": [110, 75, 20],
        "smokes": [0, 1, 2],
        "grade": [0, 1, 0],
    }
    assert all(part.dtype == np.uint8 for part in codes.values())
    back = PEOPLE.decode(codes, seed=0)
    assert list(back.columns) == list(PEOPLE.names)
    again = PEOPLE.encode_frame(back)
    assert all((again[name] == codes[name]).all() for name in codes)
    assert PEOPLE.holds_codes(codes).tolist() == [True, True, True]
    assert PEOPLE.holds_raw(FRAME).tolist() == [True, True, True]


def test_extra_columns_are_ignored() -> None:
    assert set(FRAME.columns) - set(PEOPLE.names) == {"unused"}
    without = PEOPLE.encode_frame(FRAME[list(PEOPLE.names)])
    assert all((codes == without[name]).all() for name, codes in PEOPLE.encode_frame(FRAME).items())


def test_every_problem_of_a_table_is_reported_at_once() -> None:
    frame = pd.DataFrame({"Age": [1], "sex": ["X"], "weight": ["heavy"], "born": [None], "smokes": [2]})
    frame.insert(0, "smokes", [1], allow_duplicates=True)
    with pytest.raises(DataError) as caught:
        PEOPLE.encode_frame(frame)
    message = str(caught.value)
    for part in (
        "Column 'age' is absent from the table. Did you mean 'Age'?",
        "Column 'sex' has values outside the declared domain",
        "Column 'weight' has entries that are not numbers",
        "Column 'born' has missing entries and its schema declares none",
        "more than one column named 'smokes'",
        "Column 'grade' is absent from the table.",
    ):
        assert part in message


def test_column_labels_that_are_not_text() -> None:
    schema = Schema([Integer("0", minimum=0, maximum=1), Integer("1", minimum=0, maximum=1)])
    codes = schema.encode_frame(pd.DataFrame(np.array([[0, 1], [1, 1]])))
    assert codes["1"].tolist() == [1, 1]


def test_empty_tables_and_single_rows() -> None:
    empty = PEOPLE.encode_frame(FRAME.iloc[:0])
    assert all(part.size == 0 for part in empty.values())
    assert len(PEOPLE.decode(empty, seed=None)) == 0
    assert PEOPLE.encode_frame(FRAME.iloc[:1])["age"].tolist() == [0]
    assert PEOPLE.holds_codes(empty).tolist() == []
    assert Schema([Boolean("x")]).holds_codes({"x": [0, 1]}).tolist() == [True, True]
    assert Schema([Boolean("x")]).holds_raw(pd.DataFrame({"x": [0, 1]})).tolist() == [True, True]


def test_codes_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="'sex' is absent"):
        PEOPLE.decode({"age": [0]}, seed=0)
    good = {name: [0] for name in PEOPLE.names}
    with pytest.raises(DataError, match="different lengths"):
        PEOPLE.decode({**good, "age": [0, 0]}, seed=0)
    with pytest.raises(DataError, match="from 0 to 2"):
        PEOPLE.decode({**good, "age": [3]}, seed=0)
    with pytest.raises(DataError, match="pandas table"):
        PEOPLE.encode_frame([1, 2])  # type: ignore[arg-type]


def test_decoding_is_repeatable_and_columns_do_not_disturb_each_other() -> None:
    wide = Schema([Integer(name, minimum=0, maximum=999, bins=2, decode_by="uniform") for name in "ab"])
    codes = {"a": np.zeros(50, dtype=int), "b": np.ones(50, dtype=int)}
    first, second = wide.decode(codes, seed=3), wide.decode(codes, seed=3)
    assert first.equals(second)
    assert not first.equals(wide.decode(codes, seed=4))
    assert wide.decode({**codes, "b": codes["a"]}, seed=3)["a"].equals(first["a"])


def test_three_hundred_columns() -> None:
    schema = Schema([Integer(f"c{i}", minimum=0, maximum=9) for i in range(300)], ["c0 < c299 or c1 == 3"])
    frame = pd.DataFrame({f"c{i}": np.arange(10) for i in range(300)})
    codes = schema.encode_frame(frame)
    assert len(codes) == 300
    assert repr(schema) == "Schema(300 columns, about 10^300 cells, 1 constraints)"
    assert Schema.parse(schema.to_yaml()) == schema
    assert schema.decode(codes, seed=0).shape == (10, 300)


def test_remarks_of_a_careful_reader() -> None:
    schema = Schema(
        [Integer("x", minimum=0, maximum=9), Integer("one", minimum=1, maximum=1)]
        + [Integer(name, minimum=0, maximum=9999) for name in "yz"],
        ["x > 50", "x < 50", "x < 5", "y < 5 or z < 5"],
    )
    assert schema.remarks() == [
        "No record can obey the constraint 'x > 50'.",
        "Every record obeys the constraint 'x < 50'; it has no effect on codes.",
        "Column 'one' has one possible code.",
    ]


def test_a_rule_over_dates_that_are_published_as_the_middle_of_a_bin_is_questioned() -> None:
    def days(**more: Any) -> list[Date]:
        given: dict[str, Any] = {"resolution": "month"} | more
        return [Date(name, minimum="2020-01-01", maximum="2020-12-31", **given) for name in ("a", "b")]

    questions = Schema(days(), rules=["b >= a"]).remarks()
    assert [question.partition(" is published")[0] for question in questions] == ["Column 'a'", "Column 'b'"]
    assert Schema(days(decode_by="uniform"), rules=["b >= a"]).remarks() == []
    assert Schema(days(resolution="day"), rules=["b >= a"]).remarks() == []
    assert Schema(days()).remarks() == []


def test_a_schema_or_its_file_is_taken_and_nothing_else(tmp_path: Path) -> None:
    PEOPLE.write(tmp_path / "people.yaml")
    assert Schema.of(PEOPLE) is PEOPLE
    assert Schema.of(tmp_path / "people.yaml") == Schema.of(str(tmp_path / "people.yaml")) == PEOPLE
    with pytest.raises(SchemaError, match=r"path of a schema file, not dict\. Schema\.from_dict"):
        Schema.of(PEOPLE.to_dict())  # type: ignore[arg-type]
