"""The constraint language: what it reads, what it refuses and where it points, and its three readings."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.errors import ConstraintError, DataError, DomainTooLarge
from understudy.schema import Boolean, Categorical, Constraint, Date, Domain, Integer, Ordinal, Real, Schema

SCHEMA = Schema(
    [
        Integer("mother_age", bins=["<18", "18-19", "20-24", "25-29", "29<"]),
        Integer("parity", bins=["1", "2-3", "4-6", "7-10", "10<"], missing=True),
        Real("weight", minimum=0, maximum=6, bins=6),
        Categorical("sex", values=["M", "F"], missing=True),
        Categorical("region", values=["n", "s", "M"], out_of_domain="to-other"),
        Ordinal("grade", values=["low", "mid", "high"], out_of_domain="to-other"),
        Ordinal("before", values=["low", "mid", "high"]),
        Boolean("smokes", missing=True),
        Boolean("drinks", out_of_domain="to-other"),
        Date("born", minimum="2014-01-01", maximum="2014-12-31", resolution="month", missing=True),
        Date("left", minimum="2014-01-01", maximum="2014-12-31", resolution="month"),
        Integer("birth order", minimum=1, maximum=3),
    ]
)
FRAME = pd.DataFrame(
    {
        "mother_age": [17, 22, 23, 40],
        "parity": [7, 7, None, 2],
        "weight": [0.5, 3.0, 5.5, 1.0],
        "sex": ["M", "F", None, "M"],
        "region": ["n", "s", "zzz", "M"],
        "grade": ["low", "high", "mid", "mid"],
        "before": ["low", "mid", "high", "mid"],
        "smokes": [True, False, None, True],
        "drinks": [True, False, True, False],
        "born": ["2014-01-31", "2014-06-01", None, "2014-12-31"],
        "left": ["2014-02-01", "2014-06-01", "2014-07-01", "2014-01-01"],
        "birth order": [1, 2, 3, 1],
    }
)


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("mother_age < 23", "1100"),
        ("mother_age <= 22.5", "1100"),
        ("not (mother_age < 23 and parity > 6)", "0011"),
        ("NOT (mother_age < 23 AND parity > 6)", "0011"),
        ("18 <= mother_age < 30", "0110"),
        ("30 > mother_age >= 18", "0110"),
        ("parity == 7", "1110"),  # a missing entry is neither true nor false, and passes
        ("parity != 7", "0011"),
        ("not parity == 7", "0011"),
        ("parity is missing", "0010"),
        ("parity is not missing", "1101"),
        ("parity is missing or parity > 6", "1110"),
        ("parity is not missing and parity > 6", "1100"),
        ("parity in (7, 8)", "1110"),
        ("parity not in [7, 8]", "0011"),
        ("parity in (-1)", "0010"),
        ("sex == 'M'", "1011"),
        ('sex != "M"', "0110"),
        ("sex in ('M', 'F')", "1111"),
        ("region == 'n'", "1000"),
        ("region != 'n'", "0111"),
        ("region in ('n', 's')", "1100"),
        ("region not in ('n', 's')", "0011"),
        ("sex == region", "0011"),
        ("grade >= 'mid'", "0111"),
        ("'mid' < grade", "0100"),
        ("grade > before", "0100"),
        ("grade == before", "1001"),
        ("grade in ('low')", "1000"),
        ("smokes", "1011"),
        ("not smokes", "0110"),
        ("smokes == true", "1011"),
        ("smokes != true", "0110"),
        ("drinks == false", "0101"),
        ("smokes implies parity > 6", "1110"),
        ("smokes == drinks", "1110"),
        ("born < '2014-06-01'", "1010"),
        ("born <= '2014-06-01'", "1110"),
        ("born in ('2014-06-01')", "0110"),
        ("left >= born", "1110"),
        ("left - born <= 10", "1111"),
        ("left - born > 0", "1010"),
        ("born + 1 == left", "1010"),
        ("'2014-06-15' > born", "1110"),
        ("left - 30 < born", "1111"),
        ("weight * 2 <= 6", "1101"),
        ("weight + mother_age < 26", "1100"),
        ("-weight < -2", "0110"),
        ("2 * (weight - 1) > mother_age - 20", "1110"),
        ("weight * weight > 8", "0110"),
        ("mother_age - mother_age + parity > 6", "1110"),
        ("`birth order` == 1 or `birth order` == 3", "1011"),
        ("mother_age < 23\n  and parity > 6", "1100"),
        ("true == smokes", "1011"),
        ("1e1 < mother_age", "1111"),
        ("mother_age < .5", "0000"),
    ],
)
def test_rules_on_raw_values(rule: str, holds: str) -> None:
    found = Constraint.parse(rule, SCHEMA).holds_raw(FRAME)
    assert "".join(str(int(value)) for value in found) == holds


@pytest.mark.parametrize(
    ("rule", "complaint", "pointed"),
    [
        ("", "empty", None),
        ("   ", "empty", None),
        ("mothr_age < 3", "No column named 'mothr_age'. Did you mean 'mother_age'?", "mothr_age"),
        ("mother_age < 3 andd parity > 1", "Did you mean 'and'", "andd"),
        ("mother_age < 3 parity > 1", "Expected 'and', 'or', 'implies' or the end", "parity"),
        ("mother_age <", "not the end of the rule", None),
        ("< 3", "not '<'", "<"),
        ("(mother_age < 3", r"Expected '\)'", None),
        ("mother_age < 3)", "Expected 'and'", ")"),
        ("mother_age = 3", "write == for", "="),
        ("mother_age <> 3", "write !=", "<>"),
        ("smokes && drinks", "write 'and'", "&&"),
        ("smokes || drinks", "write 'or'", "||"),
        ("!smokes", "write 'not'", "!"),
        ("mother_age / 2 > 3", "division", "/"),
        ("mother_age ≤ 3", "write <=", "≤"),
        ("mother_age < $", "no meaning", "$"),
        ("mother_age < 3; import os", "no meaning", ";"),
        ("__import__('os')", "No function|No column|Expected", None),
        ("mother_age.real < 3", "no meaning", "."),
        ("3x < 4", "neither a number nor a name", "3x"),
        ("1.2.3 < weight", "neither a number nor a name", None),
        ("sex == 'M", "does not end", "'"),
        ("`birth order == 1", "does not end", "`"),
        ("sex == 'X'", "'X' is not one of the values", "'X'"),
        ("sex == 'm'", "Did you mean 'M'", "'m'"),
        ("sex == 3", "'3' is not one of the values", "3"),
        ("sex == true", "holds named values", "true"),
        ("sex < 'M'", "has no order", "sex"),
        ("smokes < true", "has no order", "smokes"),
        ("smokes == 'yes'", "compare it with true or false", "'yes'"),
        ("smokes == 1", "compare it with true or false", "1"),
        ("mother_age < 'x'", "Text cannot be compared with a number", "'x'"),
        ("mother_age == true", "cannot be compared", "true"),
        ("true == mother_age", "cannot be compared", "mother_age"),
        ("born < 3", "cannot be compared", "3"),
        ("born < 'May'", "YYYY-MM-DD", "'May'"),
        ("born == left + born", "Dates can be", "left + born"),
        ("born * 2 > 3", "Arithmetic needs numbers", "born"),
        ("-born > 3", "Arithmetic needs numbers", "born"),
        ("sex + 1 > 3", "Arithmetic needs numbers or dates", "sex"),
        ("3 < 4", "two constants", "4"),
        ("'a' == 'b'", "two constants", "'b'"),
        ("mother_age", "not a truth value", "mother_age"),
        ("mother_age and smokes", "not a truth value", "mother_age"),
        ("3", "Expected a condition", "3"),
        ("mother_age + 3", "Expected a condition", "mother_age + 3"),
        ("(smokes) > 3", "boolean", "3"),
        ("(mother_age < 3) > 3", "not a condition", "mother_age < 3"),
        ("mother_age in 3", "Expected a list", "3"),
        ("mother_age in (3", "Expected ','", None),
        ("mother_age in (3]", "Expected ','", "]"),
        ("mother_age in ()", "A list may hold", ")"),
        ("mother_age in (parity)", "A list may hold", "parity"),
        ("sex in (-'M')", "A list may hold", "'M'"),
        ("mother_age is 3", "Expected 'missing'", "3"),
        ("(mother_age + 1) is missing", "Only a column", "mother_age + 1"),
        ("mother_age < mother_age", "same here", "mother_age"),
        ("sex == sex", "with itself", "sex"),
        ("sex < grade", "ordered only if both", "grade"),
        ("sex == smokes", "cannot be compared", "smokes"),
        ("mother_age > 1e400", "too large", "1e400"),
        ("mother_age > " + "9" * 350, "too large", None),
        ("mother_age * 1e200 * 1e200 > 1", "too large", None),
        ("weight * weight * weight * weight * weight > 1", "too long", None),
        ("(" * 100 + "smokes" + ")" * 100, "nested more than", None),
        ("not " * 200 + "smokes", "nested more than", None),
        ("smokes and " * 2000 + "smokes", "10,000 characters", None),
    ],
)
def test_a_wrong_rule_is_refused_at_its_place(rule: str, complaint: str, pointed: str | None) -> None:
    with pytest.raises(ConstraintError, match=complaint) as caught:
        Constraint.parse(rule, SCHEMA)
    lines = str(caught.value).splitlines()
    if pointed is not None:
        under = "".join(
            letter for letter, mark in zip(lines[-2].ljust(200), lines[-1], strict=False) if mark == "^"
        )
        assert under == pointed


def test_the_place_is_shown_in_long_and_in_broken_rules() -> None:
    rule = "smokes\nand mothr_age < 3"
    with pytest.raises(ConstraintError) as caught:
        Constraint.parse(rule, SCHEMA)
    assert str(caught.value).endswith("\n    and mothr_age < 3\n        ^^^^^^^^^")
    with pytest.raises(ConstraintError) as caught:
        Constraint.parse("smokes or " * 40 + "mothr_age < 3 or " + "smokes or " * 40 + "smokes", SCHEMA)
    shown, carets = str(caught.value).splitlines()[-2:]
    assert len(shown) <= 110
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "mothr_age"


@pytest.mark.parametrize(("rule", "straddle"), [(5, "allow"), ("smokes", "maybe")])
def test_other_mistakes(rule: Any, straddle: Any) -> None:
    with pytest.raises(ConstraintError):
        Constraint.parse(rule, SCHEMA, straddle=straddle)
    with pytest.raises(ConstraintError, match="description"):
        Constraint.parse("smokes", SCHEMA, description=3)  # type: ignore[arg-type]


def test_constraints_are_values() -> None:
    rule = Constraint.parse("  smokes\n implies drinks ", SCHEMA, straddle="forbid", description="why")
    assert (rule.text, str(rule)) == ("smokes implies drinks", "smokes implies drinks")
    assert rule.columns == ("smokes", "drinks")
    rule.allowed(SCHEMA.domain)
    again = pickle.loads(pickle.dumps(rule))
    assert again == rule
    assert (again.allowed(SCHEMA.domain) == rule.allowed(SCHEMA.domain)).all()
    assert rule.to_plain() == {"rule": "smokes implies drinks", "straddle": "forbid", "description": "why"}
    assert Constraint.parse("smokes", SCHEMA.columns).to_plain() == "smokes"


# -- bins that straddle a bound --------------------------------------------------------------------


def test_the_three_rules_for_a_bin_that_straddles() -> None:
    """mother_age < 23 and the bin 20-24; the other bins are certain."""
    rule = "not (mother_age < 23 and parity > 6)"
    expected = {
        # rows: <18, 18-19, 20-24, 25-29, 29<; columns: 1, 2-3, 4-6, 7-10, 10<, missing
        "allow": ["111001", "111001", "111111", "111111", "111111"],
        "forbid": ["111001", "111001", "111001", "111111", "111111"],
        "edges": ["111001", "111001", "111001", "111111", "111111"],
    }
    for straddle, rows in expected.items():
        table = Constraint.parse(rule, SCHEMA, straddle=straddle).allowed(SCHEMA.domain)  # type: ignore[arg-type]
        assert ["".join(str(int(cell)) for cell in row) for row in table] == rows


def test_edges_differ_from_both_when_the_lower_edge_obeys() -> None:
    schema = Schema([Integer("x", bins=["0-4", "5-9"])])
    rule = "x > 6"
    tables = {
        straddle: Constraint.parse(rule, schema, straddle=straddle).allowed(schema.domain).tolist()  # type: ignore[arg-type]
        for straddle in ("allow", "forbid", "edges")
    }
    assert tables == {"allow": [False, True], "forbid": [False, False], "edges": [False, False]}
    flipped = {
        straddle: Constraint.parse("x < 6", schema, straddle=straddle).allowed(schema.domain).tolist()  # type: ignore[arg-type]
        for straddle in ("allow", "forbid", "edges")
    }
    assert flipped == {"allow": [True, True], "forbid": [True, False], "edges": [True, True]}


def test_edges_agree_with_the_published_comparison_on_table_1() -> None:
    """The published code compares intervals by their left ends (open bins written one unit wide)."""
    edges = {"mother_age": [17, 18, 20, 25, 30, 35, 37, 40, 43, 45], "parity": [1, 2, 4, 7, 11]}
    schema = Schema(
        [
            Integer(
                "mother_age",
                bins=["<18", "18-19", "20-24", "25-29", "30-34", "35-36", "37-39", "40-42", "43-44", "44<"],
            ),
            Integer("parity", bins=["1", "2-3", "4-6", "7-10", "10<"]),
        ]
    )
    for age, parity in ((23, 6), (20, 3)):
        rule = Constraint.parse(f"not (mother_age < {age} and parity > {parity})", schema, straddle="edges")
        published = ~(
            (np.array(edges["mother_age"]) < age)[:, None] & (np.array(edges["parity"]) > parity)[None, :]
        )
        assert (rule.allowed(schema.domain) == published).all()


def test_repeated_columns_are_exact() -> None:
    """Kleene logic alone would call both of these unknown on every bin."""
    schema = Schema([Integer("x", bins=["0-4", "5-9"])])
    always = Constraint.parse("x < 3 or x >= 3", schema, straddle="forbid")
    assert always.allowed(schema.domain).all()
    never = Constraint.parse("x < 3 and x > 6", schema, straddle="allow")
    assert not never.allowed(schema.domain).any()
    point = Constraint.parse("x != 3", schema, straddle="forbid")
    assert point.allowed(schema.domain).tolist() == [False, True]


def test_published_bins_are_read_as_codes() -> None:
    rule = Constraint.parse("not (mother_age < 20 and parity > 3)", SCHEMA)
    frame = pd.DataFrame({"mother_age": ["<18", "18-19", "20-24"], "parity": ["4-6", "2-3", "10<"]})
    assert rule.holds_binned(frame).tolist() == [False, True, True]


def test_other_and_missing_on_codes() -> None:
    def allowed(rule: str, straddle: Any = "allow") -> list[bool]:
        return Constraint.parse(rule, SCHEMA, straddle=straddle).allowed(SCHEMA.domain).tolist()  # type: ignore[no-any-return]

    assert allowed("region == 'n'") == [True, False, False, False]  # other is certainly not n
    assert allowed("region != 'n'") == [False, True, True, True]
    assert allowed("grade > 'low'") == [False, True, True, True]  # other may be anything
    assert allowed("grade > 'low'", "forbid") == [False, True, True, False]
    assert allowed("drinks") == [False, True, True]
    assert allowed("drinks", "forbid") == [False, True, False]
    assert allowed("smokes") == [False, True, True]  # missing passes under every rule
    assert allowed("smokes", "forbid") == [False, True, True]
    assert allowed("smokes is not missing", "forbid") == [True, True, False]


# -- against brute force ---------------------------------------------------------------------------

TINY = Schema(
    [
        Integer("a", bins=["0-2", "3-5", "6-9"], missing=True),
        Integer("b", values=[0, 4, 9]),
        Integer("c", bins=[0, 4, 9]),
        Ordinal("o", values=["p", "q", "r"]),
        Boolean("t", missing=True),
    ]
)
RAW: dict[str, list[Any]] = {
    "a": [*range(10), None],
    "b": [0, 4, 9],
    "c": list(range(10)),
    "o": ["p", "q", "r"],
    "t": [True, False, None],
}


@st.composite
def rules(draw: st.DrawFn, depth: int = 3, arithmetic: bool = False) -> str:
    if depth and draw(st.booleans()):
        kind = draw(st.sampled_from(["not", "and", "or", "implies"]))
        left = draw(rules(depth=depth - 1, arithmetic=arithmetic))
        if kind == "not":
            return f"not ({left})"
        return f"({left}) {kind} ({draw(rules(depth=depth - 1, arithmetic=arithmetic))})"
    sign = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
    constant = draw(st.one_of(st.integers(-1, 11), st.sampled_from([2.5, 5.5, 3.0])))
    column = draw(st.sampled_from(["a", "b", "c"]))
    atoms = [
        f"{column} {sign} {constant}",
        f"{constant} {sign} {column}",
        f"{column} in ({constant}, 4)",
        "a is missing",
        "t is not missing",
        "t",
        f"o {sign} 'q'",
        "o not in ('p', 'r')",
    ]
    if arithmetic:
        atoms = [
            f"a + c {sign} {constant}",
            f"a - 2 * b {sign} {constant}",
            f"a {sign} c",
            f"a * c {sign} {constant}",
        ]
    return draw(st.sampled_from(atoms))


def brute_force(rule: Constraint, straddle: str) -> np.ndarray[Any, Any]:
    """Ask the raw reading about every raw record, and gather the answers per combination of codes."""
    names = rule.columns
    raw = pd.DataFrame(
        list(itertools.product(*(RAW[name] for name in names))), columns=list(names), dtype=object
    )
    holds = rule.holds_raw(raw)
    codes = tuple(TINY.column(name).encode(raw[name]).astype(int) for name in names)
    table = np.full(TINY.domain.shape(names), straddle == "forbid")
    for place, held in zip(zip(*codes, strict=True), holds, strict=True):
        table[place] = table[place] and held if straddle == "forbid" else table[place] or held
    return table


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(rules(), st.sampled_from(["allow", "forbid"]))
def test_codes_agree_with_every_raw_record_behind_them(text: str, straddle: Any) -> None:
    rule = Constraint.parse(text, TINY, straddle=straddle)
    allowed = rule.allowed(TINY.domain)
    assert (allowed == brute_force(rule, straddle)).all()


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(rules(depth=0, arithmetic=True), st.sampled_from(["allow", "forbid"]))
def test_one_arithmetic_comparison_is_exact_too(text: str, straddle: Any) -> None:
    """Sums and differences of different columns; a product can skip values, so it only errs safely."""
    rule = Constraint.parse(text, TINY, straddle=straddle)
    allowed, truth = rule.allowed(TINY.domain), brute_force(rule, straddle)
    inexact = "*" in text or "==" in text or "!=" in text
    if straddle == "allow":
        assert (allowed >= truth).all()
    else:
        assert (allowed <= truth).all()
    assert inexact or (allowed == truth).all()


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(rules(arithmetic=True), st.sampled_from(["allow", "forbid"]))
def test_arithmetic_errs_on_the_safe_side(text: str, straddle: Any) -> None:
    rule = Constraint.parse(text, TINY, straddle=straddle)
    allowed, truth = rule.allowed(TINY.domain), brute_force(rule, straddle)
    assert (allowed >= truth).all() if straddle == "allow" else (allowed <= truth).all()


@settings(deadline=None, max_examples=100)
@given(
    st.one_of(rules(), rules(arithmetic=True)),
    st.sampled_from(["allow", "forbid", "edges"]),
    st.integers(0, 999),
)
def test_checking_rows_agrees_with_the_table(text: str, straddle: Any, seed: int) -> None:
    rule = Constraint.parse(text, TINY, straddle=straddle)
    generator = np.random.default_rng(seed)
    codes = {name: generator.integers(0, TINY.domain.size(name), 40) for name in rule.columns}
    expected = rule.allowed(TINY.domain)[tuple(codes[name] for name in rule.columns)]
    assert (rule.holds_codes(codes) == expected).all()
    index = {name: codes[name].astype(np.intp) for name in rule.columns}
    assert (rule._by_row(index) == expected).all()


def test_a_record_that_obeys_is_never_excluded(seed: int) -> None:
    """The promise of the default rule, for a real schema and random records."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"mother_age": generator.integers(12, 50, 5000), "parity": generator.integers(1, 15, 5000)}
    )
    schema = SCHEMA.select(["mother_age", "parity"])
    rule = Constraint.parse("not (mother_age < 23 and parity > 6)", schema)
    held = rule.holds_codes(schema.encode_frame(frame))
    assert (held | ~rule.holds_raw(frame)).all()
    strict = Constraint.parse(rule.text, schema, straddle="forbid")
    assert (~strict.holds_codes(schema.encode_frame(frame)) | rule.holds_raw(frame)).all()


# -- raw entries -----------------------------------------------------------------------------------


def test_raw_values_count_as_they_are() -> None:
    schema = Schema(
        [
            Integer("x", minimum=0, maximum=9, out_of_domain="clamp", missing=True, missing_values=["?", -9]),
            Date(
                "d",
                minimum="2014-01-01",
                maximum="2014-12-31",
                format="%d/%m/%Y",
                missing=True,
                missing_values=["?"],
            ),
        ]
    )
    below = Constraint.parse("x <= 9", schema)
    entries = pd.Series([12, "12", 3, "?", -9, "-9", None, "junk", 9.5, np.inf], dtype=object)
    assert below.holds_raw({"x": entries}).tolist() == [
        False,
        False,
        True,
        True,
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    assert below.holds_raw({"x": pd.Series([12, -9])}).tolist() == [False, True]
    assert below.holds_raw({"x": [10**30, -(10**30)]}).tolist() == [False, True]
    early = Constraint.parse("d < '2014-02-01'", schema)
    assert early.holds_raw({"d": ["31/01/2014", "01/02/2014", "?", "soon"]}).tolist() == [
        True,
        False,
        True,
        True,
    ]
    infinite = Constraint.parse("x + x * x > 3", schema)
    assert infinite.holds_raw({"x": [np.inf, -np.inf, 1.0]}).tolist() == [True, True, False]


def test_columns_that_are_absent_or_of_different_length() -> None:
    rule = Constraint.parse("mother_age < 3 or parity > 3", SCHEMA)
    with pytest.raises(DataError, match="'parity' is absent"):
        rule.holds_raw(FRAME.drop(columns="parity"))
    with pytest.raises(DataError, match="'parity' is absent"):
        rule.holds_codes({"mother_age": [0]})
    with pytest.raises(DataError, match="different lengths"):
        rule.holds_codes({"mother_age": [0, 1], "parity": [0]})
    with pytest.raises(DataError, match="from 0 to"):
        rule.holds_codes({"mother_age": [99], "parity": [0]})


# -- size ------------------------------------------------------------------------------------------


def test_a_large_table_of_combinations_is_refused_but_rows_are_checked() -> None:
    schema = Schema([Integer(name, minimum=0, maximum=99_999, bins=5000) for name in "xyz"])
    rule = Constraint.parse("x < 30 or y > 50001 or z == 7", schema)
    with pytest.raises(DomainTooLarge, match="combinations of its columns") as caught:
        rule.allowed(schema.domain)
    assert caught.value.cells > caught.value.allowed == 10_000_000
    codes = {"x": [0, 1, 2, 4999], "y": [0, 2499, 2501, 0], "z": [0, 1, 0, 4999]}
    assert rule.holds_codes(codes).tolist() == [True, True, True, False]
    strict = Constraint.parse(rule.text, schema, straddle="forbid")
    assert strict.holds_codes(codes).tolist() == [True, False, True, False]
    with pytest.raises(DomainTooLarge):
        Constraint.parse("x < 3", schema).allowed(schema.domain, max_cells=10)


def test_too_many_pieces_per_row_are_refused() -> None:
    schema = Schema([Integer(name, minimum=0, maximum=99_999, bins=200) for name in "xyz"])
    parts = " or ".join(f"{name} == {value}" for name in "xyz" for value in range(0, 40, 2))
    with pytest.raises(DomainTooLarge, match="pieces"):
        Constraint.parse(parts, schema).holds_codes({"x": [0], "y": [0], "z": [0]})


def test_a_domain_that_does_not_agree_is_refused() -> None:
    rule = Constraint.parse("smokes", SCHEMA)
    with pytest.raises(ConstraintError, match="does not agree"):
        rule.allowed(Domain(("smokes",), (2,)))
    with pytest.raises(ConstraintError, match="does not agree"):
        rule.allowed(Domain(("x",), (3,)))
