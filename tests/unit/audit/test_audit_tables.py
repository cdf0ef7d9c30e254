"""What an audit found, as text: the same numbers on the screen and in Markdown, whatever names hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from understudy.audit import (
    PRIMITIVES,
    Audit,
    AuditReport,
    Claim,
    Effort,
    Tally,
    audit_cells,
    audit_lines,
    audit_markdown,
    audit_parts,
    audit_summary,
)
from understudy.audit.releases import LOOP, _player, neighbour_frames
from understudy.privacy import Unit
from understudy.release.spec.spec import Spec

PURE, APPROXIMATE = Claim("epsilon", 2.0, 0.0, ""), Claim("epsilon", 2.5191, 0.05, "")
KEPT, BROKEN = Tally(1_200, 1_200, 1_030, 600, 515, 85), Tally(1_200, 1_200, 1_199, 600, 600, 1)


def found(name: str, tally: Tally = KEPT, claim: Claim = PURE, *, focus: bool = True, **more: Any) -> Audit:
    unit = Unit.add_remove_person("p", max_rows=2).describe()
    return Audit(name, "a pair", unit, claim, "an attacker", tally, focus, 0.1, **more)


def document(*audits: Audit) -> dict[str, Any]:
    return AuditReport(audits, 3, Effort.quick(), 12.3).to_dict()


def test_cells_are_formatted_once() -> None:
    cells = audit_cells(document(found("laplace", claim=APPROXIMATE))["audits"][0])
    bound = KEPT.bound(APPROXIMATE, confidence=0.95)
    assert cells["whole claim"] == "epsilon 2.5191 at delta 0.05"
    assert (cells["claim"], cells["claimed"]) == ("epsilon at delta 0.05", "2.5191")
    assert (cells["shown"], cells["share"]) == (f"{bound:.2f}", f"{bound / 2.5191:.0%}")
    assert (cells["runs"], cells["unit"]) == ("1,200", "add or remove one person")


def test_each_audit_stands_in_its_table() -> None:
    tables = audit_parts(
        document(
            found("exponential mechanism", Tally(0, 0, 0, 0, 0, 0), exact=1.9996),
            found("exponential mechanism"),
            found("release 'mine'"),
            found("aim", focus=False),
            found("aim"),
        )
    )
    assert tables.pop("summary").endswith("\n\nNo violation.")
    assert list(tables) == ["primitives", "laws", "releases", "methods"]
    assert [len(table.splitlines()) for table in tables.values()] == [3, 3, 3, 3]
    assert tables["laws"].splitlines()[-1] == (
        "| exponential mechanism | add or remove one person | epsilon 2 | 2.00 | 100% |"
    )
    assert tables["releases"].splitlines()[0] == (
        "| release | worst pair | claim | demonstrated | share | runs | best attacker |"
    )
    assert tables["methods"].count("| aim |") == 1


def test_parts_that_were_not_audited_are_left_out() -> None:
    page = audit_markdown(document(found(PRIMITIVES[0].name)))
    assert "## Primitives" in page
    assert not any(f"## {title}" in page for title in ("Laws", "Whole releases", "Methods"))
    assert list(audit_parts(document())) == ["summary"]


def test_a_violation_is_shown_even_where_another_pair_seemed_worse() -> None:
    told = document(found("aim", BROKEN, focus=False), found("aim"))
    assert [line["violated"] for line in audit_lines(told)] == [True, False]
    rows = audit_parts(told)["methods"].splitlines()[2:]
    assert ["VIOLATED" in row for row in rows] == [True, False]
    assert audit_summary(told)[-1] == "1 VIOLATIONS: more was demonstrated than claimed."
    assert "1 of 2 bounds lie above their claim" in audit_summary(told)[1]
    assert "1 VIOLATIONS" in audit_markdown(told)


def test_the_summary_counts() -> None:
    told = audit_summary(document(found("aim", timing=KEPT), found("mst", timing=Tally(9, 9, 1, 5, 1, 4))))
    assert told[0].startswith("2 audits in 12 s, 2 attackers judged, seed 3.")
    assert f"at most {KEPT.bound(PURE, confidence=0.95):.2f} by" in told[1]
    assert told[1].endswith("nothing in 1 of 2 audits.")
    assert told[2:] == ["No violation."]
    assert not any("Wall time" in words for words in audit_summary(document(found("aim"))))


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("release 'a|b'", r"release 'a\|b'"),
        ("release 'a\\|b'", r"release 'a\\\|b'"),
        ("release '<script>&'", "release '&lt;script>&'"),
        ("release 'a\n\n| b'", r"release 'a \| b'"),
        ("release '[x](y)'", r"release '[x\](y)'"),
        ("release '<!-- end -->'", "release '&lt;!-- end -->'"),
    ],
)
def test_names_are_not_markup(name: str, cell: str) -> None:
    told = document(found(name, BROKEN))
    rows = audit_parts(told)["releases"].splitlines()
    assert len(rows) == 3
    assert rows[2].startswith(f"| {cell} | a pair | epsilon 2 |")
    page = audit_markdown(told)  # which names the audit that shows most
    assert "<" not in page
    assert len(page.splitlines()) == len(audit_markdown(document(found("release 'a'", BROKEN))).splitlines())


def test_a_specification_that_requires_approvals_is_audited_like_any_other() -> None:
    """Refused for want of approvals, both tables would look alike, and the audit would say that all is well."""
    spec = Spec.from_dict(dict(Spec.parse(LOOP).plain) | {"approvals": {"required": ["owner"]}})
    first, second = neighbour_frames(spec, rows=3, generator=np.random.default_rng(0))
    play = _player(spec, first, second)
    seen = play(True, 0, ())
    assert "ApprovalMissing" not in str(seen)
    assert "requires approvals" not in str(seen.key)
