"""The documents of a bundle: every number is the certificate's or follows from it, and what only people can say is asked."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.privacy import Ledger, PureDP, Unit
from understudy.release.bundle.bundle import write_bundle
from understudy.release.bundle.office import CITATIONS, DOCUMENTS, OfficeFacts, office_documents
from understudy.release.bundle.reporting import bundle_report
from understudy.release.bundle.verify import verify_bundle
from understudy.release.result import ReleaseResult
from understudy.release.run.run import run_release
from understudy.release.spec.spec import Spec
from understudy.report import render
from understudy.schema import Schema
from understudy.workflow.learning import discover_schema

EPSILON = 1.7
SPEC: dict[str, Any] = {
    "name": "stays",
    "title": "Hospital stays",
    "description": "One row per stay.",
    "publisher": {"name": "Health Office", "contact": "ask@office.example", "region": "Example Land"},
    "source": {"simulate": {"table": "toy", "rows": 1200}},
    "schema": {
        "columns": [
            {"name": "ward", "kind": "categorical", "values": ["day", "night"]},
            {"name": "days", "kind": "integer", "minimum": 0, "maximum": 5, "unit": "days"},
        ]
    },
    "unit": "replace-one",
    "cleaning": ["days >= 0"],
    "public": {"row_count": {"epsilon": 0.1}, "expected_rows": 1200},
    "synthesizers": [{"method": "laplace"}],
    "acceptance": {
        "form": "pass-only",
        "epsilon": 0.6,
        "criteria": [
            {"name": "tables", "kind": "max-marginal-error", "threshold": 0.45},
            {"name": "mean", "kind": "conditional-means", "column": "days", "threshold": 4.5, "by": ["ward"]},
        ],
    },
    "selection": {"rule": "single"},
    "budget": {"total": {"epsilon": EPSILON}, "model": {"epsilon": 1}},
}
PERSONS = {
    "unit": {"relation": "add-remove", "id_column": "person", "max_rows": 2},
    "cleaning": [],
    "public": {},
    "output": {"rows": 900},
    "budget": {"total": {"epsilon": 6, "delta": 1e-6}, "model": {"mu": 0.6}},
    "synthesizers": [{"method": "gaussian"}],
    "acceptance": SPEC["acceptance"] | {"epsilon": 1.0},
}


def bundle_of(place: Path, **changes: Any) -> Path:
    generator = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "person": np.arange(1200) // 2,
            "ward": generator.choice(["day", "night"], 1200),
            "days": generator.integers(0, 6, 1200),
        }
    )
    if "unit" not in changes:
        frame = frame.drop(columns="person")
    result = run_release(Spec.from_dict(SPEC | changes), ledger=place / "t.ledger", source=frame)
    assert isinstance(result, ReleaseResult), result
    return write_bundle(result, place / "bundle")


@pytest.fixture(scope="module", params=["pure", "persons"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = PERSONS if request.param == "persons" else {}
    return bundle_of(tmp_path_factory.mktemp(request.param), **changes)


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(tmp_path_factory.mktemp("traced"))


def facts_of(folder: Path, **changes: Any) -> OfficeFacts:
    certificate = json.loads((folder / "certificate.json").read_text())
    certificate["guarantee"] |= changes
    spec = json.loads((folder / "spec.json").read_text())
    return OfficeFacts(certificate, spec, Schema.read(folder / "schema.yaml"))


def visible(text: str) -> str:
    """The words of a page that a reader sees."""
    body = re.sub(r"<(style|script|head)[^>]*>.*?</\1>", " ", text, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", " ", body))


def test_documents_follow_from_the_published_files_alone(bundle: Path) -> None:
    """Made again from certificate, specification, schema and what the report lists they are the same, byte for byte."""
    verify_bundle(bundle)
    report = bundle_report(bundle)
    again = office_documents(replace(facts_of(bundle), bounded=bool(report.bounds), rare=bool(report.rare)))
    assert set(again) == set(DOCUMENTS)
    for name, page in again.items():
        assert (bundle / name).read_text("utf-8") == render(page)


# ---------------------------------------------------------------------- every number


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)*(?:e[-+]?\d+)?%?")
STATIC = {
    *("1", "2", "10", "100", "1,000", "1,000,000"),  # "1 in 100", and how many people are looked at
    *("50%", "0.1%"),  # a coin; one in a thousand
    *("26", "800", "226", "27559"),  # Recital 26, and the names of standards
}
CLAUSES = {
    *("6.2.2", "6.2.3", "6.3.2", "6.3.3", "7.2.2", "7.2.3", "7.2.4", "7.2.5", "7.3.2", "7.3.3", "7.3.4"),
    *("8.2.2", "8.2.3", "8.3.2", "8.3.3", "8.3.4", "9.2.2", "9.2.3", "9.3"),
}  # fmt: skip


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in (key, *leaves(item))]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def written(number: float) -> set[str]:
    return {f"{number:g}", f"{number:,}", str(number), f"{number:.4g}", f"{number:,.6g}"}


def percent(share: float) -> str:
    exact = 100 * Decimal(repr(share))
    return f"{exact.quantize(Decimal('0.1'), rounding=ROUND_CEILING)}%"


def three(number: float) -> str:
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(number)):,.6g}"


def traced(folder: Path) -> set[str]:
    """Every number that a document may hold: of the certificate and specification, how many there are of something, and what follows from epsilon."""
    certificate, spec = (
        json.loads((folder / name).read_text()) for name in ("certificate.json", "spec.json")
    )
    allowed: set[str] = set()
    for leaf in leaves([certificate, spec]):
        if isinstance(leaf, bool) or leaf is None:
            continue
        allowed |= set(NUMBER.findall(leaf)) if isinstance(leaf, str) else written(leaf)
    schema = Schema.read(folder / "schema.yaml")
    charges = [entry for entry in certificate["ledger"]["entries"] if entry["event"] is not None]
    counts = (len(schema.names), len(charges), len(certificate["criteria"]), len(spec.get("cleaning", ())))
    allowed |= {str(count) for count in counts}
    allowed |= {token for column in schema.columns for token in column.finest.labels}
    e, rows = math.exp(certificate["guarantee"]["budget"]["epsilon"]), certificate["rows"]
    allowed |= {three(e)}

    def most(p: float) -> float:  # of a pure guarantee
        return min(1.0, e * p, 1 - (1 - p) / e)

    for before in (1e-6, 1e-3, 1e-2, 0.1, 0.5):
        among = round(1 / before)
        allowed.add(percent(most(before)) if among < 1000 else three(most(before) * among))
    for people in (2, 10, 100, 1000, 1_000_000):
        pick = e / (e + people - 1)
        allowed.add(percent(pick) if people < 1000 else three(pick * people))
    allowed |= {
        percent(e / (1 + e)),
        percent((e - 1) / (e + 1)),
        percent(min(1.0, rows * most(1 / (1000 * rows)))),
    }
    return allowed  # fmt: skip


@pytest.mark.parametrize("name", list(DOCUMENTS))
def test_every_number_in_a_document_is_traced_to_the_certificate(name: str, pure: Path) -> None:
    """The bounds are computed here by the formulas of a pure guarantee, not by the program."""
    text = visible((pure / name).read_text("utf-8"))
    for cited in CITATIONS.values():
        text = text.replace(cited, " ")
    certificate = (pure / "certificate.json").read_text()
    for digest in re.findall(r"\b[0-9a-f]{16,}\b", text):
        assert digest in certificate
        text = text.replace(digest, " ")
    known = traced(pure) | STATIC | (CLAUSES if "iso" in name else set())
    found = NUMBER.findall(text)
    assert len(found) > 10
    assert {number for number in found if number.rstrip(",") not in known} == set()


def test_another_guarantee_changes_every_bound(pure: Path) -> None:
    """A number that was written into a page by hand would stay."""
    pages = []
    for epsilon in (EPSILON, 0.03):
        budget = {"kind": "pure", "epsilon": epsilon}
        facts = facts_of(pure, budget=budget, trade_off=[], total=budget, table_total=budget)
        pages.append({name: visible(render(page)) for name, page in office_documents(facts).items()})
    old, new = pages
    for name in DOCUMENTS:
        kept = set(NUMBER.findall(old[name])) & set(NUMBER.findall(new[name]))
        bounds = {number for number in kept if number.endswith("%")}
        assert bounds <= {"50%", "0.1%"}, name
        assert f"epsilon={EPSILON}" not in new[name]


# ---------------------------------------------------------------------- what is asked, and what is not claimed


def test_documents_ask_what_only_people_can_say_and_claim_no_compliance(bundle: Path) -> None:
    for name in DOCUMENTS:
        text = " ".join(visible((bundle / name).read_text("utf-8")).split())
        assert "claims no compliance" in text
        assert not re.search(r"\b(complies|compliant|conforms|GDPR-proof|certified)\b", text)
        assert text.count("?") >= 3
        assert "________" in text
    statement = visible((bundle / "documents/anonymisation.html").read_text("utf-8"))
    for heading in ("Singling out", "Linking", "Inferring", "Attacks"):
        assert heading in statement
    assert "adopted on 10 April 2014" in statement
    for name, cited in (("dpia-annex", "wp248"), ("nist-sp-800-226", "nist"), ("iso-27559", "iso")):
        assert CITATIONS[cited] in visible((bundle / f"documents/{name}.html").read_text("utf-8"))


def test_what_the_office_says_about_itself_is_filled_in(pure: Path) -> None:
    assert "Health Office; contact: ask@office.example" in visible(
        (pure / "documents/dpia-annex.html").read_text()
    )
    assert "Example Land" in visible((pure / "documents/datasheet.html").read_text())
    entry = (pure / "documents" / "deployment.yaml").read_text()
    assert "- Health Office\n" in entry
    assert "data_product_region: Example Land\n" in entry


def test_people_with_several_rows_are_told_what_was_cut(bundle: Path) -> None:
    person = (
        json.loads((bundle / "certificate.json").read_text())["guarantee"]["unit"]["id_column"] is not None
    )
    for name in DOCUMENTS:
        text = visible((bundle / name).read_text("utf-8"))
        assert ("each person with all records that are kept" in text) == person
        assert ("Rows are cut" in text) == (person and "nist" in name)


def test_documents_of_a_measured_schema_do_not_say_that_nothing_was_learnt(
    tmp_path: Path, pure: Path
) -> None:
    frame = pd.DataFrame({"ward": ["day", "night"] * 1000, "days": np.arange(2000) % 6})
    terms = {"unit": Unit.replace_one(), "table": "toy"}
    with Ledger.create(tmp_path / "t.ledger", budget=PureDP(90.0), **terms) as ledger:
        declared = Schema.from_dict({"columns": SPEC["schema"]["columns"][:1]})
        learnt = discover_schema(
            frame,
            unit="replace-one",
            share=0.5,
            schema=declared,
            epsilon=80.0,
            ledger=ledger,
            numbers_only=True,
        )
    assert [column.name for column in learnt.schema.columns if column.measured_facts] == ["days"]
    spec = SPEC | {
        "schema": learnt.schema.to_dict(),
        "source": {"table": "toy"},
        "cleaning": [],
        "public": {},
    }
    result = run_release(Spec.from_dict(spec), ledger=tmp_path / "t.ledger", source=frame)
    assert isinstance(result, ReleaseResult), result
    folder = write_bundle(result, tmp_path / "bundle")
    page, other = ((place / "dictionary.md").read_text() for place in (folder, pure))
    assert "Nothing here was learnt" in other
    assert "Nothing here was learnt" not in page
    assert "What is said of days was measured from the real records before" in page
    assert "but for what was measured of days" in (folder / "README.md").read_text()
    for name in ("deployment.yaml", "nist-sp-800-226.html"):
        told = (folder / "documents" / name).read_text()
        assert "but for facts of the schema that were measured before" in unescape(told), name


def test_approvals_and_the_series_of_a_certificate_are_shown(pure: Path) -> None:
    facts = facts_of(pure)
    said = {
        "meaning": "approved",
        "name": "A. <b>",
        "role": "lawyer",
        "date": "2026-01-02",
        "hash": "ab" * 32,
    }
    told = OfficeFacts(
        {
            **facts.certificate,
            "approvals": [{"statement": said}],
            "series": {"words": "3 releases together: epsilon=5.1."},
        },
        facts.spec,
        facts.schema,
    )
    for page in office_documents(told).values():
        assert "A. &lt;b&gt;, lawyer, 2026-01-02: approved " + "ab" * 32 in render(page)
        assert "3 releases together: epsilon=5.1." in render(page)
