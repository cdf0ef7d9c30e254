"""Opening a sealed table by redrawing its cells: count distributions and Pólya's urn (papers Poisson and DIPS).

These looks are not "noise on a statistic": the output is a new count whose law depends on the old one. What they cost is proved
in :mod:`understudy.privacy.count_models`; here the cost is computed from the very law that is drawn from, charged, and only
then the cells are redrawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.curator import Curator, SealedCounts
from understudy.curator.sealed import require_seals
from understudy.errors import BudgetError, NoSuchGuarantee
from understudy.privacy import Unit
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.count_models.solving import draw_counts, largest_count, released_delta
from understudy.privacy.count_models.urn import UrnPrior, draw_urn
from understudy.privacy.events import ApproxEvent, Composed, PureEvent
from understudy.privacy.own import own

IntArray = npt.NDArray[np.int64]


def redraw_event(law: CountLaw, *, epsilon: float, unit: Unit) -> ApproxEvent:
    """Say what redrawing a whole table costs: ``epsilon`` and the true delta of the draws, rounded up.

    Examples
    --------
    >>> event = redraw_event(CountLaw("poisson", 0.1), epsilon=3.0, unit=Unit.add_remove())
    >>> round(event.delta, 3)
    0.207
    """
    delta = released_delta(law, epsilon, unit)
    if not delta < 1:
        raise NoSuchGuarantee(
            f"{law.describe()} promises nothing at epsilon={epsilon:g} for {unit.describe()}: raise alpha or epsilon."
        )
    largest_count(law)  # refuses laws too wide for exact draws, before anything is charged
    return ApproxEvent(epsilon, delta)


def redraw(
    curator: Curator, sealed: SealedCounts, *, law: CountLaw, epsilon: float, purpose: str
) -> IntArray:
    """Redraw every cell of a sealed table from a count distribution and charge first.

    Parameters
    ----------
    curator
        Pays.
    sealed
        A histogram of the rows over *all* cells of a public domain, empty ones included.
    law
        The count distribution. Public.
    epsilon
        Where on its privacy curve the release is charged.
    purpose
        Public words for the ledger.

    Returns
    -------
    array of int64
        New counts, not negative, of the shape of the table.

    Privacy
    -------
    In: private. Out: releasable. A unit changes the counts of at most ``unit.parts_touched`` cells, by at most ``max_rows``
    in all for each of leaving and entering; cells that hold equally many rows in both tables are redrawn from the same
    law. :func:`understudy.privacy.count_models.solving.released_delta` is the largest hockey-stick divergence over all such changes, with the
    error of the sampler. Empty cells are redrawn like all others, so which cells were occupied does not show.
    """
    law, epsilon = own(law, CountLaw), float(epsilon)
    require_seals([sealed], SealedCounts)
    event = redraw_event(law, epsilon=epsilon, unit=curator.unit)
    exact = np.asarray(sealed._exact, dtype=np.int64).reshape(sealed.shape)
    found: IntArray = curator._answer(
        event,
        purpose=purpose,
        about=[sealed.clique, sealed.shape, law.describe()],
        draw=lambda: draw_counts(law, exact, curator._randomness),
    )
    return found


def urn_event(priors: Sequence[UrnPrior], *, unit: Unit) -> PureEvent | Composed:
    """Say what synthetic counts from urns cost together."""
    if not priors:
        raise BudgetError("There is no urn to draw from.")
    events = tuple(PureEvent(prior.epsilon(unit)) for prior in priors)
    return events[0] if len(events) == 1 else Composed(events)


def draw_from_urns(
    curator: Curator,
    sealed: Sequence[SealedCounts],
    *,
    priors: Sequence[UrnPrior],
    purpose: str,
    possible: npt.NDArray[np.bool_] | None = None,
) -> list[IntArray]:
    """Draw synthetic counts from the posterior predictive law of each sealed table and charge for all of them first.

    Parameters
    ----------
    sealed
        Histograms of the rows over all cells of public domains.
    priors
        One per table: its pseudocount and the number of synthetic records, which must be public.
    possible
        Public mask of the cells that records may lie in, for every table; by default all. Rows elsewhere are left out.

    Privacy
    -------
    In: private. Out: releasable. ``m`` records from an urn with ``a_i + alpha`` balls of colour ``i`` are the counts ``b`` with a probability
    in which a row more in cell ``k`` brings the factor ``1 + b_k/(a_k + alpha)``, at most ``1 + m/alpha``, and one for the size of the
    urn between ``1/(1 + m/(K alpha))`` and 1. So each table costs ``max_rows ln(1 + m/alpha)`` under either relation (proof in
    :mod:`understudy.privacy.count_models.urn`). Several tables of the same rows compose. Leaving out rows by their cell turns a
    replaced row into an added or removed one at worst, which costs the same.
    """
    sealed, priors = list(sealed), [own(prior, UrnPrior) for prior in priors]
    require_seals(sealed, SealedCounts)
    possible = None if possible is None else np.asarray(possible, dtype=np.bool_)
    if len(sealed) != len(priors):
        raise BudgetError(f"Need one prior per table; got {len(priors)} for {len(sealed)}.")
    if possible is not None and (
        not possible.any() or any(possible.shape != tuple(item.shape) for item in sealed)
    ):
        raise BudgetError("The mask of possible cells must have the shape of the table and leave some cells.")

    def draw() -> list[IntArray]:
        drawn = []
        for prior, item in zip(priors, sealed, strict=True):
            exact = np.asarray(item._exact, dtype=np.int64).reshape(item.shape)
            if possible is None:
                drawn.append(draw_urn(prior, exact, curator._randomness))
                continue
            out = np.zeros(item.shape, dtype=np.int64)
            out[possible] = draw_urn(prior, exact[possible], curator._randomness)
            drawn.append(out)
        return drawn

    found: list[IntArray] = curator._answer(
        urn_event(priors, unit=curator.unit),
        purpose=purpose,
        about=[[item.clique, item.shape] for item in sealed],
        draw=draw,
    )
    return found
