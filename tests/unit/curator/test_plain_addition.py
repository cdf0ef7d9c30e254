"""Allowances from a ledger that adds up epsilons and deltas: what is not pure is paid for when it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.curator import Journal
from understudy.curator.allowance import Allowance
from understudy.curator.journal import Question
from understudy.errors import BudgetExceeded, NoSuchGuarantee
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
from understudy.privacy.events import AllowanceEvent, ApproxEvent, GaussianEvent, InsideEvent, LaplaceEvent


def plain(epsilon: float = 2.0, delta: float = 1e-6) -> Ledger:
    return Ledger.in_memory(budget=ApproxDP(epsilon, delta), unit=Unit.add_remove(), accounting="pure")


def events(ledger: Ledger) -> list[object]:
    return [entry.event for entry in ledger.entries() if entry.event is not None]


@pytest.mark.parametrize("budget", [ApproxDP(1.5, 1e-6), GDP(0.2), ZCDP(0.02)])
def test_a_part_that_is_not_pure_is_paid_for_as_a_whole_and_spent_to_the_end(budget: Budget) -> None:
    ledger = plain()
    part = Allowance(ledger, scope="work").within(budget, scope="model")
    before = ledger.spent
    assert 0 < before <= 1.5
    sigma = part.accounting.gaussian_sigma(part.remaining / 4, 1.0)
    for _ in range(4):
        part.charge(GaussianEvent(1.0, sigma), purpose="measure")
    assert ledger.spent == before
    with pytest.raises(BudgetExceeded):
        part.charge(GaussianEvent(1.0, sigma), purpose="measure")
    kinds = [type(event) for event in events(ledger)]
    assert kinds == [AllowanceEvent, *[InsideEvent] * 4]
    ledger.verify()


def test_pure_parts_are_charged_as_they_come() -> None:
    ledger = plain()
    whole = Allowance(ledger, scope="work")
    whole.within(PureDP(0.5), scope="rows").charge(LaplaceEvent(1.0, 4.0), purpose="count")
    whole.within(ApproxDP(0.5, 1e-6), scope="noise", accounting=PURE).charge(
        LaplaceEvent(1.0, 4.0), purpose="count"
    )
    assert ledger.spent == 0.5
    assert all(isinstance(event, LaplaceEvent) for event in events(ledger))


def test_smaller_parts_belong_to_the_allowance_they_are_taken_from() -> None:
    ledger = plain()
    part = Allowance(ledger, scope="work").within(ApproxDP(1.5, 1e-6), scope="model")
    inner = part.within(GDP(0.1), scope="step")
    inner.charge(GaussianEvent(1.0, 20.0), purpose="measure")
    assert [type(event) for event in events(ledger)] == [AllowanceEvent, InsideEvent]
    assert part.spent == inner.spent == 0.0025


def test_a_reserve_is_part_of_the_allowance() -> None:
    ledger = plain()
    part = Allowance(ledger, scope="work").within(
        ApproxDP(1.0, 1e-6), scope="model", accounting=PURE, reserve=1e-6
    )
    part.charge(ApproxEvent(1.0, 1e-6), purpose="draw")
    assert ledger.spent == 1.0
    with pytest.raises(BudgetExceeded):
        part.charge(ApproxEvent(0.1, 1e-7), purpose="draw")


def test_what_does_not_fit_is_refused_before_it_is_opened() -> None:
    ledger = plain()
    whole = Allowance(ledger, scope="work")
    with pytest.raises(BudgetExceeded, match="Nothing was spent"):
        whole.within(ApproxDP(2.1, 1e-6), scope="model")
    with pytest.raises(BudgetExceeded, match="Nothing was spent"):
        whole.within(ApproxDP(1.0, 1.1e-6), scope="model")
    whole.within(ApproxDP(1.0, 1e-6), scope="model")
    with pytest.raises(BudgetExceeded, match="no delta left"):
        whole.within(GDP(0.1), scope="more")
    with pytest.raises(NoSuchGuarantee):
        whole.within(PureDP(0.5), scope="pure").within(GDP(0.1), scope="inside")
    assert ledger.spent == 1.0


def test_an_untouched_allowance_is_used_again_by_the_same_work_only() -> None:
    ledger = plain(4.0)
    first = Allowance(ledger, scope="work").within(ApproxDP(1.0, 1e-7), scope="model")
    again = Allowance(ledger, scope="work").within(ApproxDP(1.0, 1e-7), scope="model")
    assert ledger.spent == 1.0
    again.charge(GaussianEvent(1.0, GDP_ACCOUNTING.gaussian_sigma(again.remaining, 1.0)), purpose="measure")
    Allowance(ledger, scope="work").within(ApproxDP(1.0, 1e-7), scope="model")
    Allowance(ledger, scope="other").within(ApproxDP(1.0, 1e-7), scope="model")
    assert ledger.spent == 3.0
    first.charge(GaussianEvent(1.0, 100.0), purpose="measure")  # the one that both found is taken
    assert ledger.spent == 4.0
    with pytest.raises(BudgetExceeded):
        again.charge(GaussianEvent(1.0, 100.0), purpose="measure")
    ledger.verify()


def test_two_fits_without_a_scope_do_not_share_an_allowance() -> None:
    ledger = plain(4.0)
    for _ in range(2):
        Allowance(ledger, scope="").within(ApproxDP(1.0, 1e-7), scope="aim")
    assert ledger.spent == 2.0


def test_two_processes_with_the_same_work_each_pay_for_an_allowance_of_their_own(tmp_path: Path) -> None:
    """Both found the same one untouched; before, they used it up together and neither could be finished."""
    place, budget = tmp_path / "x.ledger", ApproxDP(1.0, 1e-7)
    total = ApproxDP(4.0, 1e-6)
    Ledger.create(place, budget=total, unit=Unit.add_remove(), table="x", accounting="pure").close()
    fits = []
    for number in range(2):
        book = Ledger.open(place)
        journal = Journal(tmp_path / f"{number}.journal", ledger=book, work={})
        fits.append(Allowance(book, scope="", journal=journal).within(budget, scope="aim"))
    sigma = GDP_ACCOUNTING.gaussian_sigma(fits[0].remaining / 4, 1.0)
    for _ in range(4):
        for fit in fits:
            fit.charge(GaussianEvent(1.0, sigma), purpose="measure")
    with Ledger.open(place) as book:
        book.verify()
        assert book.spent == 2.0


@pytest.mark.parametrize("lost", [2, 3, 4])
@pytest.mark.parametrize("budget", [ApproxDP(1.5, 1e-6), GDP(0.2), ZCDP(0.02)], ids=["approx", "gdp", "zcdp"])
def test_an_answer_lost_inside_an_allowance_is_paid_for_beside_it(
    tmp_path: Path, budget: Budget, lost: int
) -> None:
    """The charge of a lost answer stays in its allowance; before, the work could never be finished, whatever the ledger had left."""
    book = Ledger.create(
        tmp_path / "x.ledger",
        budget=ApproxDP(9.0, 3e-6),
        unit=Unit.add_remove(),
        table="x",
        accounting="pure",
    )
    delta = 1e-6 if isinstance(budget, ApproxDP) else 3e-6

    def work(stop: int) -> int:
        journal = Journal(tmp_path / "journal", ledger=book, work={})
        fit = Allowance(book, scope="", journal=journal).within(budget, scope="aim")
        event = GaussianEvent(1.0, fit.accounting.gaussian_sigma(fit.remaining / 4, 1.0))
        for number in range(1, 5):
            question = Question("aim", f"measure {number}", event)
            if journal.repeat(question) is not None:
                fit.repeat(event, purpose=question.purpose)
                continue
            entry = fit.charge(event, purpose=question.purpose)
            if number == stop:
                return number
            journal.keep(question, entry, 1.0)
        with pytest.raises(BudgetExceeded):  # what the work may spend is what it was
            fit.charge(event, purpose="measure 5")
        return 0

    assert work(lost) == lost
    if not isinstance(budget, ApproxDP):  # such an allowance takes all of the delta
        with pytest.raises(BudgetExceeded, match="larger delta"):
            work(0)
        book.change_total(ApproxDP(9.0, 6e-6), who="the owner", why="an interruption")
    whole = book.spent
    assert work(0) == 0
    book.verify()
    opened = [event for event in events(book) if isinstance(event, AllowanceEvent)]
    assert len(opened) == 2
    assert whole < book.spent < 2 * whole
    assert opened[1].delta == delta
    journal = Journal(tmp_path / "journal", ledger=book, work={})
    (number,) = journal.lost(book)
    assert book.entries()[number - 1].purpose == f"measure {lost}"


def test_repeated_work_goes_on_in_the_allowance_that_its_answers_were_charged_to(tmp_path: Path) -> None:
    """Two fits of one name were interrupted; before, the first went on in the allowance of the second."""
    book = Ledger.create(
        tmp_path / "x.ledger",
        budget=ApproxDP(9.0, 1e-5),
        unit=Unit.add_remove(),
        table="x",
        accounting="pure",
    )
    names = []
    for number in (0, 1, 0, 1):
        journal = Journal(tmp_path / f"{number}.journal", ledger=book, work={})
        fit = Allowance(book, scope="", journal=journal).within(ApproxDP(1.0, 1e-6), scope="aim")
        event = GaussianEvent(1.0, fit.accounting.gaussian_sigma(fit.remaining / 2, 1.0))
        question = Question("aim", "measure", event)
        if journal.repeat(question) is not None:
            fit.repeat(event, purpose="measure")
        entry = fit.charge(event, purpose="measure")
        journal.keep(question, entry, 1.0)
        assert isinstance(entry.event, InsideEvent)
        names.append(entry.event.allowance)
    assert names[:2] == names[2:]
    assert names[0] != names[1]
    assert book.spent == 2.0


def test_the_first_answer_of_a_named_work_may_be_lost_too(tmp_path: Path) -> None:
    """Its allowance is used again, since nobody else has this scope; a second fit of the same work opens its own."""
    book = Ledger.create(
        tmp_path / "x.ledger",
        budget=ApproxDP(9.0, 1e-5),
        unit=Unit.add_remove(),
        table="x",
        accounting="pure",
    )

    def fit(journal: Journal) -> Allowance:
        return Allowance(book, scope="release 1", journal=journal).within(ApproxDP(1.0, 1e-6), scope="aim")

    first = fit(Journal(tmp_path / "journal", ledger=book, work={}))
    event = GaussianEvent(1.0, first.accounting.gaussian_sigma(first.remaining / 4, 1.0))
    first.charge(event, purpose="measure")
    journal = Journal(tmp_path / "journal", ledger=book, work={})
    again = fit(journal)
    for number in range(4):
        entry = again.charge(event, purpose="measure")
        journal.keep(Question("aim", f"measure {number}", event), entry, 1.0)
    assert 1.0 < book.spent < 2.0
    before = book.spent
    fit(journal)
    assert book.spent == before + 1.0
    book.verify()
