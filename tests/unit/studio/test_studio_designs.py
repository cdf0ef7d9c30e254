"""Designs: controls that hang together, what follows from them, rehearsals in the background."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from studio_forms import fields_of

from understudy.release.spec.spec import Spec
from understudy.studio.background.rehearsals import Table
from understudy.studio.background.worker import limited, made_up, work
from understudy.studio.designs import specification
from understudy.studio.designs.consequences import REGISTRY_MEDIAN, Acceptance, _rejection, frontier
from understudy.studio.designs.controls import Controls, apply, kind_names, skeleton
from understudy.studio.designs.pages import Saved, follow
from understudy.studio.designs.specification import fit_key, new_design, settled, with_total
from understudy.studio.desk import Desk
from understudy.studio.export import export_design

ROOT = Path(__file__).parents[3]
BIRTHS = ROOT / "examples" / "births"
SCRIPT = "<script>alert('x')</script>"


def form_of(plain: dict[str, Any]) -> dict[str, str]:
    controls = Controls.of(plain)
    rows = {
        f"criterion-{i}-{key}": text for i, row in enumerate(controls.criteria) for key, text in row.items()
    }
    return {**controls.values, **rows}


@pytest.fixture(scope="module")
def births() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((BIRTHS / "spec.yaml").read_text())
    return found


def test_controls_change_nothing_by_themselves(births: dict[str, Any]) -> None:
    made, complaints, _ = apply(births, form_of(births), where=BIRTHS)
    assert not complaints
    assert (
        Spec.from_dict(made, where=BIRTHS).fingerprint() == Spec.from_dict(births, where=BIRTHS).fingerprint()
    )


def test_the_model_gets_what_the_other_parts_leave(births: dict[str, Any]) -> None:
    form = form_of(births) | {"total_epsilon": "2"}
    made, complaints, _ = apply(births, form, where=BIRTHS)
    assert not complaints
    assert made["budget"] == {"total": {"epsilon": 2}, "model": {"epsilon": 1.8}}
    form |= {"acceptance_epsilon": "0.5"}
    assert apply(births, form, where=BIRTHS)[0]["budget"]["model"]["epsilon"] == pytest.approx(1.48)


def test_the_paper_keeps_its_split() -> None:
    paper = yaml.safe_load((BIRTHS / "paper.yaml").read_text())
    assert settled(paper, where=BIRTHS)["budget"] == {"total": {"epsilon": 9.98}, "model": {"epsilon": 4.0}}


def test_another_total_keeps_proportions(births: dict[str, Any]) -> None:
    made = with_total(births, 2.4, where=BIRTHS)
    assert made["budget"]["model"] == {"epsilon": 2.0}
    assert made["acceptance"]["epsilon"] == pytest.approx(0.36)
    assert made["public"]["row_count"] == {"epsilon": 0.04}
    assert births["budget"]["total"] == {"epsilon": 1.2}


def test_a_delta_and_several_attempts_are_settled_too(births: dict[str, Any]) -> None:
    form = form_of(births) | {"total_delta": "1e-9"}
    made, complaints, _ = apply(births, form, where=BIRTHS)
    assert not complaints
    spec = Spec.from_dict(made, where=BIRTHS)
    assert spec.shares.fits
    more = json.loads(json.dumps(made))
    more["budget"]["model"]["epsilon"] *= 1.01
    with pytest.raises(ValueError, match="the parts need"):
        Spec.from_dict(more, where=BIRTHS)
    form = form_of(births) | {"selection": "until-accepted", "gamma": "0", "total_epsilon": "3"}
    made, complaints, _ = apply(births, form, where=BIRTHS)
    assert not complaints
    assert made["budget"]["model"]["epsilon"] == pytest.approx((3 - 0.02) / 2 - 0.18, abs=1e-4)


def test_several_attempts_with_a_delta_are_priced_few_times(
    births: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each price takes a tenth of a second: the page may not wait for thirty of them, nor for one where only a threshold changes."""
    asked: list[float] = []
    used = specification._Parts.used

    def counted(parts: Any, size: float, delta: float | None) -> float:
        asked.append(size)
        return used(parts, size, delta)

    monkeypatch.setattr(specification._Parts, "used", counted)
    form = form_of(births) | {
        "selection": "until-accepted", "gamma": "0.01", "total_delta": "1e-9", "total_epsilon": "2.7"
    }  # fmt: skip
    made, complaints, _ = apply(births, form, where=BIRTHS)
    assert not complaints
    assert 1 <= len(asked) <= 5
    size = made["budget"]["model"]["epsilon"]
    more = json.loads(json.dumps(made))
    more["budget"]["model"]["epsilon"] = size + 2e-5 * 2.7
    with pytest.raises(ValueError, match="the parts need"):
        Spec.from_dict(more, where=BIRTHS)
    asked.clear()
    again, _, _ = apply(births, form | {"criterion-0-threshold": "0.03"}, where=BIRTHS)
    assert again["budget"] == made["budget"]
    assert asked == []


@pytest.mark.parametrize(("gamma", "delta"), [("0.5", "1e-6"), ("0.001", "1e-6"), ("0.001", "")])
def test_the_model_gets_the_most_that_fits_however_it_is_priced(
    births: dict[str, Any], gamma: str, delta: str
) -> None:
    form = form_of(births) | {"selection": "until-accepted", "gamma": gamma}
    made, complaints, _ = apply(births, form | {"total_epsilon": "4", "total_delta": delta}, where=BIRTHS)
    assert not complaints, complaints.by_field
    more = json.loads(json.dumps(made))
    more["budget"]["model"]["epsilon"] += 2e-5 * 4
    with pytest.raises(ValueError, match="the parts need"):
        Spec.from_dict(more, where=BIRTHS)


BROKEN = [
    ("total_epsilon", {"total_epsilon": "much"}),
    ("total_epsilon", {"total_epsilon": ""}),
    ("total_epsilon", {"total_epsilon": "-1"}),
    ("total_epsilon", {"total_epsilon": "0.1"}),
    ("total_delta", {"total_delta": "2"}),
    ("acceptance_epsilon", {"acceptance_epsilon": ""}),
    ("acceptance_epsilon", {"acceptance_epsilon": "nan"}),
    ("false_accept", {"false_accept": "0.7"}),
    ("gamma", {"selection": "until-accepted", "gamma": "x"}),
    ("relation", {"relation": "some"}),
    ("id_column", {"max_rows": "4"}),
    ("max_rows", {"id_column": "p", "max_rows": "few"}),
    ("source_rows", {"source_rows": ""}),
    ("row_count", {"row_count": "perhaps"}),
    ("expected_rows", {"expected_rows": "1.5"}),
    ("criterion-0-threshold", {"criterion-0-threshold": "0"}),
    ("criterion-0-threshold", {"criterion-0-threshold": ""}),
    ("criterion-0-more", {"criterion-0-more": "orders: [9999"}),
    ("criterion-0-more", {"criterion-0-more": "- a"}),
    ("criterion-2-more", {"criterion-2-more": "column: nothing"}),
    ("criterion-0-kind", {"criterion-0-kind": "beauty"}),
    ("method", {"method": "magic"}),
    ("method", {"method": "gaussian", "workload": "all-99way-or-so"}),
    ("workload", {"method": "independent", "workload": "all-2way"}),
    ("min_count", {"min_count": "two"}),
    ("cleaning", {"cleaning": "foo > 3"}),
    ("constraints", {"constraints": "birth_weight >"}),
]


@pytest.mark.parametrize(("field", "change"), BROKEN)
def test_every_broken_control_is_complained_about_where_it_is(
    births: dict[str, Any], field: str, change: dict[str, str]
) -> None:
    _, complaints, _ = apply(births, form_of(births) | change, where=BIRTHS)
    assert complaints.of(field), complaints.by_field


def test_the_automatic_choice_names_a_method_and_says_why(births: dict[str, Any]) -> None:
    made, complaints, why = apply(births, form_of(births) | {"method": "auto"}, where=BIRTHS)
    assert not complaints
    assert made["synthesizers"][0]["method"] != "auto"
    assert why.startswith("Chosen by auto")
    assert "158,000 rows (expected)" in why


@pytest.mark.parametrize("kind", kind_names())
def test_every_kind_of_criterion_begins_with_what_it_needs(kind: str) -> None:
    assert isinstance(yaml.safe_load(skeleton(kind) or "{}"), dict)


def test_thresholds_do_not_change_the_fit(births: dict[str, Any]) -> None:
    other = json.loads(json.dumps(births))
    other["acceptance"]["criteria"][0]["threshold"] = 0.5
    specs = [
        Spec.from_dict(plain, where=BIRTHS)
        for plain in (births, other, with_total(births, 2.4, where=BIRTHS))
    ]
    assert fit_key(specs[0]) == fit_key(specs[1]) != fit_key(specs[2])
    table = Table("made-up", "", 100)
    from understudy.studio.background.rehearsals import Rehearsals

    assert Rehearsals.key(specs[0], table) != Rehearsals.key(specs[1], table)


def test_a_made_up_table_fits_the_specification(births: dict[str, Any]) -> None:
    spec = Spec.from_dict(births, where=BIRTHS)
    frame = made_up(spec.schema, 500)
    assert list(frame.columns) == list(spec.schema.names)
    assert (
        frame["birth_weight"].dtype.kind == "i"
    )  # single values, so that rules about raw records can be asked
    assert len(frame) == 500


# ---------------------------------------------------------------------- pages


def test_a_design_from_nothing_is_a_specification(browser: Any, desk: Desk) -> None:
    assert "Write the schema first" in browser.get("/designs").text
    assert browser.post("/designs", {"name": "first"}).status_code == 422
    desk.folder.schema.write_text(
        "columns: [{name: smokes, kind: boolean}, {name: age, kind: integer, minimum: 0, maximum: 9}]"
    )
    for name in ("", "a/b", "../x", SCRIPT):
        answer = browser.post("/designs", {"name": name})
        assert answer.status_code == 422
        assert SCRIPT not in answer.text
    assert browser.post("/designs", {"name": "first"}).status_code == 303
    assert Spec.read(desk.folder.design("first")).total.epsilon == 1.0  # type: ignore[attr-defined]
    page = browser.get("/designs/first").text
    assert "For a person in the data" in page
    for words in (
        f"median of {REGISTRY_MEDIAN}",
        "27 of 41",
        "registry.opendp.org",
        "15 July 2026",
        "as stated",
        "not checked",
    ):
        assert words in page.replace("\n", " "), words
    assert "A rejection publishes nothing and costs the same" in page
    assert browser.post("/designs", {"name": "first"}).status_code == 422
    assert browser.post("/designs", {"name": "second", "start": "copy:first"}).status_code == 303
    assert browser.get("/designs/nothing").status_code == 404


def until(found: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for work in the background; the limit is for machines that hang."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not end"
        time.sleep(0.1)


def wide(desk: Desk, columns: int) -> None:
    names = "".join(f"- {{name: c{i}, kind: integer, minimum: 0, maximum: 9}}\n" for i in range(columns))
    desk.folder.schema.write_text(f"columns:\n{names}")


def test_a_design_of_500_columns_is_planned_in_the_background(browser: Any, desk: Desk) -> None:
    wide(desk, 500)
    assert browser.post("/designs", {"name": "wide"}).status_code == 303
    page = browser.get("/designs/wide").text
    assert "For a person in the data" in page
    assert "being planned in the background" in page
    found = re.search(r'data-poll="(/designs/wide/plan\?key=[0-9a-f]{40})"', page)
    assert found is not None
    assert "records away from violating any of them" in page
    for kind in ("columns", "pairs", "triples"):  # from public facts, at once
        assert re.search(rf'<th scope="row">{kind}</th><td>[^<]* of 20,000 rows', page), kind
    fields = fields_of(page) | {"version": browser.version("/designs/wide")}
    assert "name a method" in browser.post("/designs/wide/preview", fields | {"method": "auto"}).text
    until(lambda: "data-poll" not in browser.get(found.group(1)).text)
    page = browser.get("/designs/wide").text
    assert "mst: 500 marginals with 5,000 cells" in page
    assert "each count carries noise" in page
    assert "being planned" not in page
    assert "mst: 500 marginals" in browser.get("/designs/wide/export").text
    other = browser.post("/designs/wide/preview", fields | {"total_epsilon": "2"}).text
    assert "epsilon=2 (pure" in other
    assert "being planned in the background" in other
    assert browser.get("/designs/wide/plan?key=../x").status_code == 404


def test_a_plan_of_an_earlier_version_is_given_up(browser: Any, desk: Desk) -> None:
    wide(desk, 150)
    browser.post("/designs", {"name": "wide"})
    fields = fields_of(browser.get("/designs/wide").text) | {"version": browser.version("/designs/wide")}
    for epsilon in ("2", "3", "4", "5"):
        browser.post("/designs/wide/preview", fields | {"total_epsilon": epsilon})
        assert desk.plans.running() <= 1
    standing = export_design(desk.folder.root, "wide")  # a page that stands alone begins nothing
    assert "not planned yet" in standing or "mst: 150 marginals" in standing


def test_a_plan_that_is_too_large_says_so_and_what_to_do(
    browser: Any, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(TimeoutError, match=r"4 GB of memory.*Name fewer marginals"),
        limited(seconds=60, memory=4 << 30),
    ):
        np.empty(8 << 30, dtype=np.int8)
    with pytest.raises(TimeoutError, match="minutes"), limited(seconds=1, memory=4 << 30):
        time.sleep(30)
    wide(desk, 70)
    browser.post("/designs", {"name": "wide"})
    spec = Spec.read(desk.folder.design("wide"))
    place = desk.folder.hidden / "plans" / desk.plans.key(spec)
    desk.plans.cancel(desk.plans.key(spec))
    place.mkdir(parents=True, exist_ok=True)
    (place / "job.json").write_text(
        json.dumps({"task": "plans", "spec": spec.to_dict(), "where": str(desk.folder.designs)})
    )

    def too_large(spec: Spec) -> dict[str, Any]:
        raise MemoryError

    monkeypatch.setattr("understudy.studio.background.worker.plan", too_large)
    work(place)
    page = browser.get("/designs/wide").text
    assert "The model cannot be planned. It needs more than 4 GB of memory" in page
    assert desk.plans.running() == 0


def test_saving_showing_and_breaking(browser: Any, desk: Desk, small: str) -> None:
    fields = fields_of(browser.get("/designs/small").text)
    fields["version"] = browser.version("/designs/small")
    before = desk.folder.design("small").read_text()
    shown = browser.post("/designs/small", fields | {"action": "preview", "total_epsilon": "2"})
    assert shown.status_code == 200
    assert "not saved yet" in shown.text
    assert "epsilon=2 (pure differential privacy)" in shown.text
    part = browser.post("/designs/small/preview", fields | {"total_epsilon": "2"}).text
    assert "epsilon=2 (pure differential privacy)" in part
    assert "<html" not in part
    broken = browser.post("/designs/small", fields | {"total_epsilon": "much"})
    assert broken.status_code == 422
    assert 'id="total_epsilon-complaints"' in broken.text
    assert 'value="much"' in broken.text
    assert desk.folder.design("small").read_text() == before
    assert browser.post("/designs/small", fields | {"total_epsilon": "2"}).status_code == 303
    assert Spec.read(desk.folder.design("small")).shares.model.epsilon == 1.0  # type: ignore[attr-defined]


def test_two_tabs_do_not_overwrite_each_other(browser: Any, small: str) -> None:
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    assert browser.post("/designs/small", fields | {"title": "one"}).status_code == 303
    late = browser.post("/designs/small", fields | {"title": "two"})
    assert late.status_code == 409
    assert "changed meanwhile" in late.text
    assert 'value="one"' in browser.get("/designs/small").text


def test_criteria_are_added_and_removed(browser: Any, desk: Desk, small: str) -> None:
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    page = browser.post(
        "/designs/small", fields | {"action": "add-criterion", "new_kind": "conditional-means"}
    ).text
    more = fields_of(page) | {"version": fields["version"]}
    assert more["criterion-1-kind"] == "conditional-means"
    assert more["criterion-1-more"].strip() == "column:"
    more |= {"criterion-1-threshold": "3", "criterion-1-more": "column: stay_days", "action": "save"}
    assert browser.post("/designs/small", more).status_code == 303
    assert len(Spec.read(desk.folder.design("small")).criteria) == 2
    fewer = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    assert browser.post("/designs/small", fewer | {"criterion-0-remove": "yes"}).status_code == 303
    assert [item.kind for item in Spec.read(desk.folder.design("small")).criteria] == ["conditional-means"]
    last = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    assert browser.post("/designs/small", last | {"criterion-0-remove": "yes"}).status_code == 422
    assert (
        browser.post("/designs/small", last | {"action": "add-criterion", "new_kind": "x"}).status_code == 404
    )


def test_script_in_every_text_field_stays_text(browser: Any, desk: Desk, small: str) -> None:
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    words = dict.fromkeys(("title", "description", "license", "citation", "criterion-0-name"), SCRIPT)
    assert browser.post("/designs/small", fields | words).status_code == 303
    everything = {key: SCRIPT for key in fields if key != "version"}
    answers = [
        browser.get("/designs/small"),
        browser.get("/designs"),
        browser.get("/designs/small/file"),
        browser.get("/designs/small/export"),
        browser.get("/designs/small/agree"),
        browser.post("/designs/small", fields | everything | {"action": "save"}),
        browser.post("/designs/small/preview", fields | everything),
    ]
    for answer in answers:
        assert SCRIPT not in answer.text, answer.request.url
    assert "&lt;script&gt;" in answers[0].text


def test_a_design_as_a_file(browser: Any, desk: Desk, small: str) -> None:
    text = desk.folder.design("small").read_text()
    fields = {"version": browser.version("/designs/small/file")}
    assert browser.post("/designs/small/file", fields | {"text": text + "nonsense: 1"}).status_code == 422
    assert browser.post("/designs/small/file", fields | {"text": "- 1"}).status_code == 422
    assert (
        browser.post("/designs/small/file", fields | {"text": text.replace("4.0", "5.0")}).status_code == 303
    )
    assert browser.post("/designs/small/file", fields | {"text": text}).status_code == 409
    desk.folder.design("small").write_text("budget: [")
    page = browser.get("/designs/small")
    assert page.status_code == 200
    assert "needs attention" in page.text
    assert browser.get("/designs").status_code == 200
    assert browser.get("/designs/small/agree").status_code == 422


def test_a_point_of_the_frontier_shows_that_total(browser: Any, desk: Desk, small: str) -> None:
    page = browser.get("/designs/small?epsilon=8").text
    assert fields_of(page)["total_epsilon"] == "8.0"
    assert "not saved yet" in page
    assert Spec.read(desk.folder.design("small")).total.epsilon == 4.0  # type: ignore[attr-defined]
    for wrong in ("x", "-1", "nan", "inf", SCRIPT):
        answer = browser.get("/designs/small", params={"epsilon": wrong})
        assert answer.status_code == 404
        assert SCRIPT not in answer.text


def test_two_designs_side_by_side(browser: Any, desk: Desk, small: str) -> None:
    desk.folder.design("other").write_text(
        desk.folder.design("small").read_text().replace("4.0", "5.0").replace("3.0", "4.0")
    )
    page = browser.get("/compare?left=small&right=other").text
    assert "epsilon=4 (pure" in page
    assert "epsilon=5 (pure" in page
    assert page.count('class="differs"') >= 3
    assert browser.get("/compare?left=small&right=nothing").status_code == 404


def test_consequences_are_said_in_words_a_lawyer_reads(
    births: dict[str, Any], browser: Any, desk: Desk
) -> None:
    """No options of the program, no powers of ten where nothing is accepted."""
    spec = Spec.from_dict(births, where=BIRTHS)
    for chance in (0.0, 1e-129):
        said = " ".join(_rejection(spec, Acceptance("exact", chance, 0.0, 0.7, 3)))
        assert "nothing published" in said
        assert "e+" not in said
    assert "1.2 times the budget" in " ".join(_rejection(spec, Acceptance("exact", 0.8, 0.0, 0.7, 3)))
    desk.folder.schema.write_text((BIRTHS / "schema.yaml").read_text())
    desk.folder.designs.mkdir()
    text = (BIRTHS / "spec.yaml").read_text().replace("schema: schema.yaml", "schema: ../schema.yaml")
    desk.folder.design("births").write_text(text)
    page = browser.get("/designs/births").text
    assert "gaussian, with the options that the file has: 15 marginals" in page
    assert ">needs depends" not in page
    assert "depends on the table: rehearse it" in page


def test_the_picture_of_the_frontier_says_what_it_shows() -> None:
    points = [{"epsilon": e, "acceptance": 0.5, "low": 0.1, "high": 0.9} for e in (1.0, 2.0, 4.0)]
    picture = frontier(points, own=2.0, link="/designs/a?epsilon={epsilon}&x=<")
    assert picture.count("<a href=") == 3
    assert "&amp;x=&lt;" in picture
    assert "epsilon 2: accepted with 50% (10% to 90%)" in picture
    assert "<a " not in frontier(points, own=None, link=None)


# ---------------------------------------------------------------------- rehearsals


def wait(desk: Desk, kind: str, seconds: float = 60.0) -> Any:
    """Wait until the rehearsal of the small design stands otherwise than running."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        saved = Saved(desk, "small")
        found = follow(desk, "small", saved.require_spec(), saved.notes)
        if found.state.kind == kind:
            return found
        time.sleep(0.1)
    raise AssertionError(f"the rehearsal is {found.state}")


def rehearse(browser: Any, **change: str) -> None:
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    fields |= {"action": "rehearse", "table": "simulated:toy", "rehearsal_trials": "4", **change}
    answer = browser.post("/designs/small", fields)
    assert answer.status_code == 303, answer.text


def test_a_rehearsal_in_the_background_and_thresholds_that_move_it(
    browser: Any, desk: Desk, small: str
) -> None:
    rehearse(browser)
    assert 'data-poll="/designs/small/rehearsal?part=1"' in browser.get("/designs/small").text
    assert '<meta http-equiv="refresh"' in browser.get("/designs/small/rehearsal").text
    found = wait(desk, "done")
    assert found.acceptance.kind == "exact"
    assert found.acceptance.trials == 4
    assert found.acceptance.low <= found.acceptance.probability <= found.acceptance.high
    assert [item["epsilon"] for item in found.points] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert {kind for kind, _, _ in found.errors} == {"columns", "pairs"}
    page = browser.get("/designs/small").text
    assert page.count('<a href="/designs/small?epsilon=') == 5
    assert "data-poll" not in page
    # a threshold that no candidate meets, at once and without another rehearsal
    fields = fields_of(page) | {"version": browser.version("/designs/small")}
    strict = browser.post("/designs/small/preview", fields | {"criterion-0-threshold": "0.00001"}).text
    assert '<b id="acceptance">0 %</b>' in strict
    assert "Estimated at once" in strict
    loose = browser.post("/designs/small/preview", fields | {"criterion-0-threshold": "0.9"}).text
    assert '<b id="acceptance">100 %</b>' in loose
    # another epsilon was not rehearsed: nothing is claimed about it
    other = browser.post("/designs/small/preview", fields | {"total_epsilon": "5"}).text
    assert '<b id="acceptance">?</b>' in other
    # rehearsing the same again is a matter of reading
    started = time.monotonic()
    assert (
        follow(desk, "small", Saved(desk, "small").require_spec(), Saved(desk, "small").notes).acceptance
        == found.acceptance
    )
    assert time.monotonic() - started < 5


def test_a_rehearsal_is_cancelled_and_its_process_ends(browser: Any, desk: Desk, small: str) -> None:
    rehearse(browser, rehearsal_trials="100", rehearsal_rows="200000")
    process = next(iter(desk.rehearsals._running.values()))
    assert browser.post("/designs/small/cancel").status_code == 303
    assert process.poll() is not None
    assert desk.rehearsals.running() == 0
    assert "what it has done so far is kept" in browser.get("/designs/small").text
    assert browser.post("/designs/small/cancel").status_code == 303  # again: nothing happens


def test_only_so_many_rehearsals_run_at_once(desk: Desk, small: str) -> None:
    plain = yaml.safe_load(desk.folder.design("small").read_text())
    specs = [Spec.from_dict(plain | {"seed": seed}, where=desk.folder.designs) for seed in (1, 2, 3)]
    table = Table("simulated", "toy", 200_000)
    for spec in specs[:2]:
        desk.rehearsals.start(spec, table, trials=100)
    assert desk.rehearsals.start(specs[0], table, trials=100) == desk.rehearsals.key(specs[0], table)
    with pytest.raises(ValueError, match="are running already"):
        desk.rehearsals.start(specs[2], table, trials=100)
    desk.rehearsals.close()
    assert desk.rehearsals.running() == 0


def test_a_rehearsal_that_cannot_work_says_why(desk: Desk, small: str) -> None:
    (desk.folder.public).mkdir()
    (desk.folder.public / "other.csv").write_text("a,b\n1,2\n")
    spec = Spec.read(desk.folder.design("small"))
    table = Table.parse("public:other.csv", None, desk.folder)
    place = desk.folder.hidden / "rehearsals" / desk.rehearsals.key(spec, table)
    job = {
        "task": "rehearsals", "spec": spec.to_dict(), "table": {"kind": "public", "name": "other.csv", "rows": None}, "trials": 1, "factors": [],
        "where": str(desk.folder.designs), "public": str(desk.folder.public),
    }  # fmt: skip
    desk.folder.write(place / "job.json", json.dumps(job))
    work(place)
    state = desk.rehearsals.state(place.name)
    assert state.kind == "failed"
    assert "does not have the schema of the specification" in state.text


def test_tables_outside_the_public_folder_cannot_be_named(desk: Desk) -> None:
    for text in (
        "public:../schema.yaml",
        "public:/etc/passwd",
        "public:.hidden.csv",
        "simulated:x",
        "file:a.csv",
        "",
    ):
        with pytest.raises(ValueError, match="no such table"):
            Table.parse(text, 10, desk.folder)


def test_the_private_table_of_a_design_is_not_rehearsed_on(browser: Any, desk: Desk, small: str) -> None:
    desk.folder.public.mkdir()
    (desk.folder.public / "toy.csv").write_text("ward,stay_days\nday,3\n")
    path = desk.folder.design(small)
    simulated = "{simulate: {table: toy, rows: 800, seed: 1}}"
    path.write_text(path.read_text().replace(simulated, "{path: ../public/toy.csv}"))
    fields = fields_of(browser.get("/designs/small").text) | {"version": browser.version("/designs/small")}
    answer = browser.post("/designs/small", fields | {"table": "public:toy.csv", "action": "rehearse"})
    assert answer.status_code == 422
    assert "private table" in answer.text
    assert desk.rehearsals.running() == 0
    assert not (desk.folder.hidden / "rehearsals").exists()


def test_a_new_design_can_be_used_as_it_is(desk: Desk) -> None:
    desk.folder.designs.mkdir()
    for columns in (1, 2):
        text = "".join(f"- {{name: c{i}, kind: boolean}}\n" for i in range(columns))
        desk.folder.schema.write_text(f"columns:\n{text}")
        assert Spec.from_dict(new_design("x", columns=columns), where=desk.folder.designs).shares.fits
