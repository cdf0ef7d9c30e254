"""What the first screen of a report says about numbers: chosen in advance, computed from what is published, with ranges that hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.errors import SchemaError
from understudy.release.bundle import readings
from understudy.release.bundle.bundle import write_bundle
from understudy.release.bundle.reporting import bundle_report, criterion_groups
from understudy.release.result import ReleaseResult
from understudy.release.run.run import run_release
from understudy.release.spec.spec import Spec
from understudy.report import ReportContent

MEANS = {"name": "mean stay", "kind": "conditional-means", "column": "days", "threshold": 5}
SHOW = [
    {"column": "ward", "values": ["day", "general"], "text": "Not in intensive care"},
    {"column": "days", "by": {"column": "ward", "groups": [["intensive"], ["day", "general"]]}},
    {"column": "smokes", "values": ["true"], "by": "ward"},
]


def spec(**changes: Any) -> Spec:
    plain: dict[str, Any] = {
        "name": "stays",
        "source": {"simulate": {"table": "toy", "rows": 4000}},
        "schema": {
            "columns": [
                {"name": "ward", "kind": "categorical", "values": ["day", "general", "intensive"]},
                {"name": "days", "kind": "integer", "minimum": 0, "maximum": 9, "unit": "days", "missing": True},
                {"name": "smokes", "kind": "boolean"},
            ]
        },
        "unit": "replace-one",
        "synthesizers": [{"method": "gaussian", "options": {"workload": "all-2way"}}],
        "acceptance": {
            "form": "pass-only",
            "epsilon": 4,
            "criteria": [
                {"name": "all pairs", "kind": "max-marginal-error", "threshold": 0.5},
                MEANS | {"by": ["everyone", {"column": "ward", "groups": [["day"], ["general", "intensive"]]}]},
            ],
        },
        "selection": {"rule": "single"},
        "budget": {"total": {"epsilon": 12}, "model": {"epsilon": 8}},
    }  # fmt: skip
    return Spec.from_dict(plain | changes)


def table(seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    ward = generator.choice(["day", "general", "intensive"], 4000, p=[0.5, 0.3, 0.2])
    days = generator.integers(0, 7, 4000) + 3 * (ward == "intensive")
    return pd.DataFrame(
        {"ward": ward, "days": np.where(generator.random(4000) < 0.1, np.nan, days), "smokes": days > 4}
    )


def report_of(given: Spec, frame: pd.DataFrame, place: Path) -> tuple[ReportContent, pd.DataFrame]:
    result = run_release(given, ledger=place / "t.ledger", source=frame)
    assert isinstance(result, ReleaseResult), result
    bundle = write_bundle(result, place / "bundle")
    return bundle_report(bundle), pd.read_csv(bundle / "data.csv")


def number(text: str) -> float:
    return float(text.split()[0].rstrip("%").replace(",", ""))


def test_the_owner_s_readings_come_in_his_words_with_ranges_that_hold_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarms: at most one in 1e8, the failure probability that the ranges are made for here."""
    monkeypatch.setattr(readings, "CONFIDENCE", 1 - 1e-8)
    real = table()
    report, rows = report_of(spec(show=SHOW), real, tmp_path)

    def facts(frame: pd.DataFrame) -> list[float]:
        light, smoker = frame["ward"] != "intensive", frame["smokes"].astype(str).str.lower() == "true"
        return [
            100 * float(light.mean()),
            float(frame["days"][~light].mean() - frame["days"][light].mean()),
            100 * float(smoker[frame["ward"] == "day"].mean() - smoker[~light].mean()),
        ]

    first, second, third = report.figures
    assert first.what == "Not in intensive care"
    assert second.what == "Mean of days: ward intensive less day, general"
    assert third.what == "Share of smokes: true: ward day less intensive"
    for figure, here, truth in zip(report.figures, facts(rows), facts(real), strict=True):
        step = 10.0 ** -len(figure.value.split()[0].rstrip("%").partition(".")[2])
        assert abs(number(figure.value) - here) <= 0.51 * step, figure
        assert number(figure.low) <= truth <= number(figure.high), figure
        assert number(figure.high) - number(figure.low) < 20, "a range that says something"
    assert second.low.startswith("+")
    assert second.value.endswith(" days")
    assert third.value.endswith(" points")


def test_without_the_owner_s_word_the_criteria_choose_a_share_a_mean_and_a_comparison(tmp_path: Path) -> None:
    """And nothing that came out does: two tables that have nothing in common show the same three."""
    turned = table(1)
    turned["ward"] = turned["ward"].map({"day": "intensive", "general": "general", "intensive": "day"})
    said = []
    for frame in (table(), turned):
        place = tmp_path / str(len(said))
        place.mkdir()
        said.append([figure.what for figure in report_of(spec(), frame, place)[0].figures])
    assert said[0] == said[1]
    assert said[0] == [
        "Share of ward: day",
        "Mean of days",
        "Mean of days: ward day less general, intensive",
    ]


@pytest.mark.parametrize(("method", "planned"), [("gaussian", True), ("mst", False)])
def test_the_failure_probability_is_shared_by_all_that_might_have_been_shown(
    method: str, planned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which three are shown is public where all was measured at once. Otherwise every candidate has its part, shown or not."""
    spent: list[float] = []
    plain = readings._figure

    def seen(*args: Any, beta: float, **others: Any) -> Any:
        spent.append(beta)
        return plain(*args, beta=beta, **others)

    budget = {"total": {"epsilon": 30, "delta": 1e-6}, "model": {"mu": 3}}
    report_of(spec(synthesizers=[{"method": method}], budget=budget), table(), tmp_path)
    monkeypatch.setattr(readings, "_figure", seen)
    bundle_report(tmp_path / "bundle")
    assert len(spent) >= 3
    assert sum(spent[:3]) <= 0.05 + 1e-12
    assert (len(set(spent)) == 1) == planned
    if not planned:
        assert sum(0.05 * 6 / (np.pi * place) ** 2 for place in range(1, 10_000)) < 0.05
        assert spent == [pytest.approx(0.05 * 6 / (np.pi * place) ** 2) for place in range(1, len(spent) + 1)]


def test_what_nothing_is_known_about_is_not_shown_unless_asked_for(tmp_path: Path) -> None:
    alone = {"synthesizers": [{"method": "independent"}]}
    report, _ = report_of(spec(**alone), table(), tmp_path)
    assert all(" less " not in figure.what for figure in report.figures)
    assert len(report.figures) == 3
    (tmp_path / "asked").mkdir()
    asked, _ = report_of(spec(**alone, show=SHOW[1:2]), table(), tmp_path / "asked")
    assert asked.figures[0].what == "Mean of days: ward intensive less day, general"
    assert number(asked.figures[0].high) - number(asked.figures[0].low) > 9, "it says that nothing is known"
    assert any("two or more columns go together" in limit for limit in report.limits)


def test_criteria_stand_in_where_a_method_gives_no_ranges(tmp_path: Path) -> None:
    report, _ = report_of(spec(), table(), tmp_path)
    bundle = tmp_path / "bundle"
    (bundle / "model.understudy").unlink()
    bare = bundle_report(bundle)
    assert [(figure.value, figure.what) for figure in bare.figures] == [
        ("within 50 points", "Every share of rows, by any number of columns together"),
        ("within 5 days", "Mean of days, in every group (everyone; ward: day, general or intensive)"),
    ]
    assert len(bare.limits) >= 2
    assert len(report.limits) == 3
    assert report.bounds == sorted(report.bounds, key=lambda row: -float(row[3]))


def test_criteria_and_groups_appear_as_their_author_wrote_them(tmp_path: Path) -> None:
    report, _ = report_of(spec(), table(), tmp_path)
    names = [row[0] for row in report.criteria]
    assert names == ["all pairs", "mean stay"]
    assert "everyone; ward: day, general or intensive" in report.criteria[1][1]
    assert report.criteria[1][2] == "5 days"
    assert report.criteria[1][4].endswith(" records"), "noise has a unit"
    published = json.loads((tmp_path / "bundle" / "spec.json").read_text())
    assert criterion_groups(published, "all pairs") == ""


@pytest.mark.parametrize(
    ("show", "words"),
    [
        ({"column": "wards"}, "no column named 'wards'"),
        ({"column": "ward"}, "more than two values"),
        ({"column": "smokes"}, "holds no numbers"),
        ({"column": "ward", "values": ["night"]}, "no value labelled 'night'"),
        ({"column": "days", "by": "days"}, "cannot be made of the column itself"),
        ({"column": "days", "by": {"column": "ward", "groups": [["day"]]}}, "needs two groups"),
        ({"column": "ward", "values": []}, "at least one entry"),
    ],
)
def test_a_reading_that_does_not_fit_is_named_before_anything_is_spent(show: Any, words: str) -> None:
    with pytest.raises(SchemaError, match="show") as found:
        spec(show=[show])
    assert words in str(found.value)


def test_what_a_report_shows_and_who_publishes_decide_nothing() -> None:
    told = spec(show=SHOW, publisher={"name": "Office", "sector": "Healthcare"})
    assert told.fingerprint() == spec().fingerprint()
    assert told.choices_fingerprint() == spec().choices_fingerprint()
    assert told.to_dict()["show"] == SHOW
