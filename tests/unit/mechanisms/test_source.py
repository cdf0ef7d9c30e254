"""Where a mechanism was published: what a source must say."""

from __future__ import annotations

import pytest

from understudy.mechanisms.source import Paper, Source


def test_a_source_names_a_law_and_a_place() -> None:
    for lacking in (
        {"law": "", "origin": "X 2020"},
        {"law": "Laplace"},
        {"law": "Laplace", "papers": {Paper.AIM: ""}},
    ):
        with pytest.raises(ValueError, match="names the law"):
            Source(**lacking)  # type: ignore[arg-type]


def test_a_source_without_one_of_the_five_papers_shows_its_origin() -> None:
    source = Source(law="Laplace on pairs", origin="somebody 2020")
    assert source.places == "somebody 2020"
    assert source.citation == "Somebody 2020"


def test_a_source_cannot_be_changed_afterwards() -> None:
    papers = {Paper.AIM: "Table 2"}
    source = Source(law="Laplace on pairs", papers=papers)
    papers[Paper.DIPS] = "Table 1"
    assert source.places == "AIM, Table 2"
    with pytest.raises(TypeError):
        source.papers[Paper.DIPS] = "Table 1"  # type: ignore[index]
