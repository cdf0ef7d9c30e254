"""RAP: relaxed adaptive projection (Aydore et al. 2021), with rows that are distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from understudy.engine import ProductMixture
from understudy.engine.graphical.targets import estimate_total
from understudy.marginals import Measurement
from understudy.mechanisms.options import one_of, positive, refuse
from understudy.mechanisms.queries.product import (
    Adam,
    CellTarget,
    Layout,
    Singles,
    Target,
    calm_gradient,
    softmax,
    softmax_back,
    sparsemax,
    sparsemax_back,
)
from understudy.mechanisms.queries.relaxed import (
    LAST_STEPS,
    Learner,
    RelaxedProjection,
    column_shares,
    mixture_of,
    target_of,
)
from understudy.mechanisms.source import Paper, Source
from understudy.schema import Domain

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RAP(RelaxedProjection):
    """Choose what relaxed rows get most wrong, measure it, and move the rows by gradient steps; repeat.

    A relaxed row is a probability for every code of every column, so that the rows together are a mixture of products:
    no table over the whole domain is ever built. All columns are measured first. Each round chooses ``per_round``
    marginals (or queries) without putting back, measures them, and fits all rows to everything measured so far, by Adam
    with gradients written by hand.

    Parameters
    ----------
    workload
        The marginals that matter; all 3-way marginals by default. They and their parts may be measured.
    queries
        Linear queries of your own instead of marginals (see :func:`~understudy.marginals.query.read_queries`).
    rounds
        Number of adaptive rounds (``T`` in the paper); by default by the budget and the number of rows.
    per_round
        How many are chosen and measured in each round (``K`` in the paper).
    one_way_share
        Share of the budget that measures all columns first.
    measure_share
        Share of each round's cost that measures; the rest chooses.
    calm
        How strongly rows are kept from saying what was not measured, see :func:`information_gradient
        <understudy.mechanisms.queries.product.information_gradient>`; zero is the paper's loss.
    max_cells
        Largest marginal that may be measured.
    steps
        Gradient steps per round; the final fit makes four times as many.
    relaxed_rows
        How many relaxed rows there are (``n'`` in the paper).
    relax
        How scores become probabilities: ``softmax``, or ``sparsemax``, which gives exact zeros.
    rate
        Step size of Adam.
    public_seed
        Seed of the rows to start from; privacy noise takes no seed.
    form
        ``improved``, or ``published``, the mechanism of Aydore et al. to the letter: single cells of the workload's marginals are chosen and
        measured, half of each round's cost for either; nothing is measured first; ``sparsemax``, and squared misfits alone. Its
        program has 10 ``rounds`` of 50 ``per_round`` and 1,000 ``relaxed_rows``.

    Privacy
    -------
    Looks: (1) every one-way marginal, once; (2) ``rounds * per_round`` choices by the exponential mechanism. The score of
    a marginal is ``w_r (|M_r(D) - M_r(rows)|_1 - penalty)``, which moves by at most ``w_r l1`` between neighbours since the
    rows, the penalty and the weight are public; that of a query is ``|q(D) - q(rows)|`` with the sensitivity of an answer.
    What was chosen before in a round is left out of the next choice, which only depends on what was released: choosing
    ``K`` one after another composes like any adaptive sequence, and has the law of the paper's one-shot noisy top ``K``.
    (3) every chosen marginal or batch of queries is measured. Prices are fixed before the first round and add up to the
    budget. Marginals whose noise alone would exceed every possible error are left out by released values.
    The published form has other looks: the number of rows where it is private; cells chosen one after another
    (:func:`~understudy.mechanisms.queries.look.choose_cells`), whose score one unit moves by at most its rows; and the chosen cells of a round measured
    together, with noise that pays for each as if it were measured alone. The rest is post-processing.

    Examples
    --------
    >>> RAP(rounds=10, per_round=2).name
    'rap'
    """

    name: ClassVar[str] = "rap"
    summary: ClassVar[str] = "relaxed rows fitted to the worst-answered marginals or queries"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on marginals; exponential mechanism for choices",
        papers={Paper.AIM: "Table 2 and section 6"},
        origin="Aydore et al. 2021; Liu, Vietri and Wu 2021 for the relaxation",
    )

    improvements: ClassVar[tuple[str, ...]] = (*RelaxedProjection.improvements, "relax")
    _single_cells: ClassVar[bool] = True

    relaxed_rows: int = 500
    relax: Literal["softmax", "sparsemax"] = "softmax"
    rate: float = 0.1

    def trial(self) -> RAP:
        """Return a small one that is trained for a few steps."""
        return RAP(rounds=2, steps=4, relaxed_rows=16)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(one_of(self, "relax", ("softmax", "sparsemax")), positive(self, "rate"))

    def _counted(self) -> tuple[str, ...]:
        return (*super()._counted(), "relaxed_rows")

    def _parts(self) -> int:
        return self.relaxed_rows

    def _learner(self, layout: Layout, start: dict[str, Floats]) -> Learner:
        relax = "sparsemax" if self._published else self.relax
        return RelaxedRows(
            layout, start, rows=self.relaxed_rows, relax=relax, rate=self.rate, seed=self.public_seed
        )


class RelaxedRows:
    """Rows of scores, one per code, and the probabilities they stand for.

    Parameters
    ----------
    layout
        The columns.
    start
        Margins that every row starts near; random differences let rows move apart.
    rows
        How many rows.
    relax, rate, seed
        As options of :class:`RAP`.
    """

    def __init__(
        self,
        layout: Layout,
        start: dict[str, Floats],
        *,
        rows: int,
        relax: Literal["softmax", "sparsemax"],
        rate: float,
        seed: int,
    ) -> None:
        self.layout = layout
        self._soft = relax == "softmax"
        wide = np.concatenate([start[name] for name in layout.domain.names])
        self._usual: Singles = wide.astype(np.float32)
        noise = np.random.default_rng(seed).normal(size=(rows, layout.width))
        scores = np.log(wide) + 0.3 * noise if self._soft else wide + 0.1 * noise
        self._scores: Singles = scores.astype(np.float32)
        self._adam = Adam([self._scores], rate=rate if self._soft else rate / 5)

    def margins(self) -> Singles:
        """Return the probabilities of all rows, the columns side by side."""
        return softmax(self.layout, self._scores) if self._soft else sparsemax(self.layout, self._scores)

    def fit(self, targets: Sequence[Target | CellTarget], rows: float, *, calm: float, steps: int) -> None:
        """Take some steps towards the released answers; the step size falls in the second half."""
        back = softmax_back if self._soft else sparsemax_back
        for step in range(steps):
            margins = self.margins()
            _, gradient = calm_gradient(self.layout, margins, targets, rows, calm=calm, usual=self._usual)
            self._adam.step([back(self.layout, margins, gradient)], done=step / steps)


class RelaxedEstimate:
    """A distribution fitted to measurements by moving relaxed rows, as :class:`RAP` does with the loss of its paper.

    What :func:`~understudy.engine.estimate` does by a graphical model, this does by a mixture of products; fits go on from
    the one before. Constraints play no part in the fit. Post-processing of released measurements.

    Parameters
    ----------
    domain
        The columns.

    Examples
    --------
    >>> from understudy.schema import Domain
    >>> domain = Domain(("a", "b"), (2, 2))
    >>> both = Measurement(("a", "b"), np.array([[50.0, 0.0], [0.0, 50.0]]), "gaussian", 1.0)
    >>> bool(RelaxedEstimate(domain).fit([both], total=100.0, thorough=True).marginals([("a", "b")])[0][0, 0] > 45)
    True
    """

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._layout = Layout(domain)
        self._learner: RelaxedRows | None = None

    def fit(
        self, measurements: Sequence[Measurement], *, total: float | None, thorough: bool = False
    ) -> ProductMixture:
        """Take the steps of a round, four times as many if ``thorough``, towards all measurements.

        ``total`` is the number of rows where it is known; it is estimated otherwise.
        """
        usual = RAP()
        rows = estimate_total(measurements) if total is None else total
        if self._learner is None:
            self._learner = RelaxedRows(
                self._layout,
                column_shares(self._domain, measurements),
                rows=usual.relaxed_rows,
                relax=usual.relax,
                rate=usual.rate,
                seed=usual.public_seed,
            )
        targets = [target_of(item) for item in measurements if item.clique]
        with threadpool_limits(1):  # the matrices are small
            steps = usual.steps * (LAST_STEPS if thorough else 1)
            self._learner.fit(targets, rows, calm=0.0, steps=steps if targets else 0)
        return mixture_of(self._domain, self._layout.split(self._learner.margins()), rows)
