"""The pages people look at: self-contained, escaped, and saying what was computed."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from understudy.evaluation import Comparison, Options, evaluate
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from understudy.privacy.accounting.conversions import gdp_delta
from understudy.release.bundle.reporting import epsilon_delta, posterior_range, trade_off_curve
from understudy.release.selection.profiles import Bound, best_profile
from understudy.report import (
    ENGLISH,
    Figure,
    Page,
    ReportContent,
    Share,
    Table,
    Text,
    Whiskers,
    accounted_page,
    comparison_panels,
    evaluation_page,
    release_page,
    render,
)
from understudy.report.page import Folded, Html
from understudy.report.pictures import budget_bar, heat_table, trade_off
from understudy.schema import Boolean, Categorical, Integer, Schema

NASTY = '<script>alert("x")</script> & "quotes"'


class Tree(HTMLParser):
    """Checks that elements are closed in order, and collects what matters."""

    void = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.void:
            self.stack.append(tag)
        self.scripts += tag == "script"
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src"):
                self.links.append(value)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack.pop() == tag


def parsed(page: str) -> Tree:
    tree = Tree()
    tree.feed(page)
    assert not tree.stack
    return tree


def curve_of(budget: Budget, points: int = 101) -> list[tuple[float, float]]:
    return trade_off_curve(best_profile([Bound(0.0, budget)]), points)


def content(**changes: Any) -> ReportContent:
    given: dict[str, Any] = {
        "title": NASTY,
        "description": NASTY,
        "rows": 1000,
        "columns": 2,
        "guarantee": "epsilon=1",
        "unit": "replace one row",
        "right_guess": 0.731,
        "odds": [(0.5, 0.27, 0.73, 0.6)],
        "curve": curve_of(PureDP(1.0)),
        "public_facts": [NASTY],
        "shares": [Share(NASTY, 0.8)],
        "total": 1.0,
        "accounting": "pure",
        "symbol": "epsilon",
        "kind": NASTY,
        "protected": NASTY,
        "looks": 3,
        "table_total": NASTY,
        "series": NASTY,
        "figures": [Figure("5%", NASTY, low="4%", high=NASTY, note=NASTY), Figure(NASTY, "b")],
        "limits": [NASTY, "two", "three"],
        "recognised": 0.027,
        "criteria": [[NASTY, NASTY, "0.1", "met", "slack test, 7 records"]],
        "slack": ("5", "12", "5 %"),
        "panels": [Whiskers(NASTY, ["x", NASTY], [0.4, 0.6], [0.41, 0.59], [0.02, 0.02])],
        "pairs": [(NASTY, ["x", NASTY], ["u", "v"], [[0.5, -2], [9, 0]])],
        "bounds": [[NASTY, "supported", "0.5%", "0.01"]],
        "process": [["method", NASTY]],
        "dictionary": [[NASTY, "integer", "1, 2", "", ""]] * 12,
        "rare": [[NASTY, NASTY, "between 0 and 3 rows"]],
        "files": [["data.csv", NASTY]],
    }
    return ReportContent(**(given | changes))


def test_the_report_is_well_formed_self_contained_and_escaped() -> None:
    page = release_page(content())
    tree = parsed(page)
    assert tree.scripts == 1  # the page's own
    assert NASTY not in page
    assert all(link.startswith(("#", "data:")) for link in tree.links)
    assert {link[1:] for link in tree.links if link.startswith("#")} <= set(tree.ids)
    assert len(tree.ids) == len(set(tree.ids))
    assert "@import" not in page
    assert "url(" not in page
    for word in ("h_what", "h_you", "h_budget", "h_criteria", "h_bounds", "h_files"):
        assert ENGLISH[word].replace("'", "&#x27;") in page


def test_the_first_screen_comes_first_and_says_everything_once() -> None:
    page = release_page(content(condition="It holds among tables with 5 rows."))
    top, rest = page.split("<nav", 1)
    for word in ("h_what", "h_figures", "h_limits", "h_meaning", "h_promise", "h_label"):
        assert ENGLISH[word] in top, word
    assert "real records: 4% to" in top
    assert "2.7%" in top, "the share that can be recognised, from the curve"
    assert "73.1%" in top
    assert "1 of 1 criteria" in top
    for once in ("It holds among tables with 5 rows.", ENGLISH["what"]):
        assert page.count(once) == 1
    assert "1 of 1 criteria" not in rest


def test_a_long_description_leaves_room_for_the_rest_and_is_there_in_full() -> None:
    whole = "One row per birth. " + "It goes on and on. " * 40
    page = release_page(content(description=whole))
    top, rest = page.split("<nav", 1)
    assert whole.strip() not in top
    assert "One row per birth." in top
    assert whole.strip() in rest
    short = release_page(content(description="One row per birth."))
    assert ENGLISH["h_about"] not in short


LONG = ["a", "self-employed, with employees (agriculture)", "x" * 70]


@pytest.mark.parametrize("many", [1, 40])
def test_labels_are_never_cut(many: int) -> None:
    """0.1.0 ended them after eleven letters. However many values there are, what is written is written whole, inside the picture."""
    labels = [f"{label}{number}" for number in range(many) for label in LONG]
    panel = comparison_panels([Whiskers("t" * 90, labels, [1 / len(labels)] * len(labels))])
    heat = heat_table("t" * 90, labels, LONG, [[0.0] * len(LONG)] * len(labels))
    for picture in (panel, heat):
        assert "…" not in re.sub(r"<title>.*?</title>", "", picture)
        written = "".join(re.findall(r"<(?:tspan|text)[^>]*>([^<]+)<", picture)).replace(" ", "")
        assert "t" * 90 in written
        shown = labels if many == 1 else labels[:1]
        assert all(label.replace(" ", "") in written for label in shown)
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', heat)[1])  # type: ignore[index]
    assert width > 70 * 5


def test_tables_fit_a_narrow_screen_and_keep_their_headings() -> None:
    wide = Table("Things", ("a", "b", "c", NASTY), [["1", "2", "3", "4"]]).html()
    assert wide.count("data-label=") == 4
    assert NASTY not in wide
    assert "data-label" not in Table("Things", ("a", "b"), [["1", "2"]]).html()


def test_a_translation_needs_only_the_texts() -> None:
    arabic = {**ENGLISH, "language": "ar", "direction": "rtl", "h_what": "ما هذا"}
    page = release_page(content(), texts=arabic)
    assert '<html lang="ar" dir="rtl">' in page
    assert "ما هذا" in page


def test_every_text_is_used() -> None:
    """A sentence that no page shows would be translated for nothing."""

    used: set[str] = set()

    class Seen(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            used.add(key)
            return super().__getitem__(key)

    texts = Seen(ENGLISH)
    release_page(
        content(certainty="99.999997 %", allowed="epsilon=2", condition="It holds among tables with 5 rows."),
        texts=texts,
    )
    loop = release_page(content(by_record=True, attempts=True), texts=texts)
    assert "several in the real table" in loop
    assert "followed by others" in loop
    release_page(content(panels=[], bounds=[], slack=None, figures=[]), texts=texts)
    release_page(
        content(figures=[Figure("below 5", "Error of: a")], description="A word. " * 100), texts=texts
    )
    linked = release_page(content(tables={"patients": 1200, "stays": 5}, other_ledgers=True), texts=texts)
    assert "patients with 1,200 rows, stays with 5 rows" in linked
    events = release_page(content(entity="patient", panels=[], bounds=[]), texts=texts)
    checked = content(entity="patient", figures=[Figure("12 %", "Share: off by less than 5 points")])
    assert "on event records" in release_page(checked, texts=texts)
    assert "of which each patient has equally many" in events
    assert set(ENGLISH) == used


def test_empty_parts_are_said_not_drawn() -> None:
    page = release_page(content(panels=[], pairs=(), bounds=()))
    assert ENGLISH["bounds_none"] in page
    assert ENGLISH["measured_none"] in page
    parsed(page)


def test_the_evaluation_page_wears_its_warning() -> None:
    found = {
        "warning": "Private, all of it.",
        "rows": {"real": 3, "synthetic": 4},
        "sections": [
            {
                "title": "marginals",
                "about": NASTY,
                "results": [
                    {"measure": "k-marginal score", "better": "higher", "values": {"score": 900.0}},
                    {
                        "measure": "many",
                        "better": "lower",
                        "values": {f"{NASTY}{i}": i / 40 for i in range(40)},
                    },
                ],
            }
        ],
        "left_out": [NASTY],
    }
    page = evaluation_page(found, title=NASTY)
    tree = parsed(page)
    assert tree.scripts == 1
    assert 'class="banner"' in page
    assert "Private, all of it." in page
    assert "#8f2323" in page  # not the colour of a release
    assert "#0b5f85" not in page


def hostile() -> dict[str, Any]:
    """A whole evaluation of a table whose names and labels are markup."""
    labels = [f"{NASTY}{number}" for number in range(15)]
    columns = (
        Categorical(NASTY, values=tuple(labels)),
        Boolean(f"{NASTY} told"),
        Integer("n", minimum=0, maximum=30, missing=True),
    )
    schema = Schema(columns=columns)
    generator = np.random.default_rng(1)
    codes = np.stack([generator.integers(0, size, 300) for size in schema.domain.sizes], axis=1)
    codes[:, 1] = codes[:, 0] > 7  # one gives the other away
    options = Options(target=f"{NASTY} told", sections=["marginals", "learning", "other tools", "face"])
    return evaluate(Comparison(schema, codes, codes[::-1]), options).to_dict()


def test_nothing_of_an_evaluation_is_taken_for_markup() -> None:
    page = evaluation_page(hostile(), title="survey")
    tree = parsed(page)
    assert tree.scripts == 1
    assert NASTY not in page
    assert "gives the target away" in page
    assert "Not a fair test" in page
    assert len(tree.ids) == len(set(tree.ids))
    assert "style=" not in page  # the policy of the page would drop it


def test_the_page_under_a_budget_says_what_is_noise() -> None:
    found = {
        "guarantee": f"epsilon=1 {NASTY}",
        "measures": [{"measure": NASTY, "value": 0.25, "deviation": 0.01}],
        "spent": {"total": 2.0, "remaining": 0.5, "accounting": "pure"},
    }
    page = accounted_page(found, title=NASTY)
    parsed(page)
    assert NASTY not in page
    assert "measured with noise" in page
    assert "0.23 to 0.27" in page
    assert "1.5 of 2 " in page
    assert "#8f2323" not in page  # it may be published
    assert 'class="banner"' not in page


def test_folds_are_headings_in_plain_text() -> None:
    folded = Folded("More", [Text("Inside."), Table("Things", ("a",), [["x"]], searchable=True, folded=True)])
    assert folded.html().count("<details>") == 2
    assert folded.markdown().startswith("### More\n\nInside.")


def test_tables_fold_and_search() -> None:
    long = Table("Things", ("a", "n"), [["x", "1"]] * 50, numeric=(1,))
    assert "<details>" in long.html()
    assert '<input type="search"' in Table("Things", ("a",), [["x"]], searchable=True).html()
    page = render(Page("t", [("s", [Text("w", strong=True), Html("<i></i>", caption=NASTY), long])]))
    parsed(page)


def test_pictures_are_svg_with_a_name() -> None:
    for picture in (
        budget_bar([Share("a", 0.5), Share("b", 0.4)], total=1.0, symbol="epsilon"),
        trade_off([(0, 0), (1, 1)], label="curve"),
        heat_table("a × b", ["x"], ["y"], [[1.0]]),
        comparison_panels([Whiskers("a", ["x"], [1.0])]),
    ):
        parsed(picture)
        assert 'role="img" aria-label="' in picture
    assert budget_bar([], total=0.0, symbol="epsilon")  # nothing spent is a picture too
    assert "not used" in budget_bar([Share("a", 0.5)], total=1.0, symbol="epsilon")
    assert "not used" not in budget_bar([Share("a", 1 - 1e-7)], total=1.0, symbol="epsilon")  # of rounding


# ---------------------------------------------------------------------------------------- the guarantee in numbers


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_confidence_moves_by_the_odds(epsilon: float) -> None:
    for prior in (0.01, 0.5, 0.99):
        low, high = posterior_range(prior, epsilon)
        odds = prior / (1 - prior)
        assert high / (1 - high) == pytest.approx(odds * math.exp(epsilon), rel=1e-6)
        assert low / (1 - low) == pytest.approx(odds * math.exp(-epsilon), rel=1e-6)


def test_the_curve_of_randomised_response_touches_its_corner() -> None:
    epsilon = 1.3
    curve = dict(curve_of(PureDP(epsilon), points=100_001))
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    false = min(curve, key=lambda f: abs(f - (1 - truth)))
    assert curve[false] == pytest.approx(truth, abs=1e-4)
    assert curve[0.0] == 0.0
    assert curve[1.0] == 1.0


def test_the_gaussian_curve_is_the_gaussian_s() -> None:
    curve = np.array(curve_of(GDP(0.7)))
    np.testing.assert_allclose(curve[1:-1, 1], norm.cdf(norm.ppf(curve[1:-1, 0]) + 0.7), atol=1e-12)
    # every (epsilon, delta) of the same guarantee lies above the curve
    for epsilon in (0.1, 1.0):
        wider = np.array(curve_of(ApproxDP(epsilon, gdp_delta(0.7, epsilon))))
        assert (wider[:, 1] >= curve[:, 1] - 1e-9).all()


def test_a_concentrated_curve_lies_between() -> None:
    """rho = mu²/2 is what a mu-Gaussian guarantee implies, so its curve is never below the Gaussian one."""
    gaussian, concentrated = (np.array(curve_of(b)) for b in (GDP(0.5), ZCDP(0.125)))
    assert (concentrated[:, 1] >= gaussian[:, 1] - 1e-9).all()
    assert concentrated[:, 1].mean() < 0.9
    assert epsilon_delta(ZCDP(0.125))[1] == 1e-9


def test_numbers_in_the_report_are_readable() -> None:
    page = release_page(content())
    assert re.search(r"50%.*27\.0%.*73\.0%.*60\.0%", page, re.DOTALL)
