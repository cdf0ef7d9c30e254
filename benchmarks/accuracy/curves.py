"""Numbers of the explanation pages that are computed and not measured: no table, no noise, the same everywhere.

Run ``python -m benchmarks.accuracy.curves``. Everything comes from the functions that the program itself spends, tests and
reports with; the rounding is that of the pages.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from statistics import NormalDist

import numpy as np

from understudy.inference import Evidence, History
from understudy.inference.intervals import query_interval
from understudy.marginals import Measurement
from understudy.privacy import GDP, ApproxDP, Gaussian, Laplace, PureDP, Unit
from understudy.privacy.accounting.accounting import GDP_ACCOUNTING, PURE
from understudy.privacy.accounting.conversions import (
    approx_to_gdp,
    approx_to_zcdp,
    bounded_range_to_gdp,
    bounded_range_to_zcdp,
)
from understudy.privacy.count_models.divergence import probabilistic_delta, probabilities, true_delta
from understudy.privacy.count_models.laws import CountLaw
from understudy.privacy.count_models.urn import UrnPrior
from understudy.release import selection_guarantee
from understudy.release.bundle.reporting import posterior_range
from understudy.release.selection.accounting import (
    Attempts,
    GeometricAttempts,
    NegativeBinomialAttempts,
    SingleAttempt,
    UnlimitedAttempts,
)
from understudy.schema import Domain

ROW, REPLACED = Unit.add_remove(), Unit.replace_one()


def show(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print one table; the first column is as wide as its longest entry."""
    lines = [[str(item) for item in row] for row in (header, *rows)]
    first = max(len(line[0]) for line in lines)
    print(f"\n{title}")
    for line in lines:
        print(
            "  "
            + line[0].ljust(first)
            + "".join(item.rjust(max(12, len(header[i + 1]) + 3)) for i, item in enumerate(line[1:]))
        )


def short(value: float, digits: int) -> str:
    """Write a number without the zero in front, as the pages do."""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


# ------------------------------------------------------------------ promise.md, choosing-epsilon.md


def promise() -> None:
    """How sure anybody can become of something that only one record tells."""
    show(
        "Sure afterwards, at most (percent)",
        ("epsilon", "before: 10 %", "before: 50 %"),
        (
            (f"{epsilon:g}", *(f"{100 * posterior_range(prior, epsilon)[1]:.1f} %" for prior in (0.1, 0.5)))
            for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0)
        ),
    )
    rows = []
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        mu = approx_to_gdp(epsilon, 1e-9)
        rows.append(
            (
                f"{epsilon:g}",
                f"{100 / (1 + math.exp(-epsilon)):.1f} %",
                f"{100 * NormalDist().cdf(mu / 2):.1f} %",
                f"{NormalDist().cdf(mu / 2 - epsilon / mu):.1e}".replace("e-0", "e-"),
            )
        )
    show(
        "Best chance of guessing right, and chance that Gaussian noise moves the odds by more than e^epsilon; delta 1e-9",
        ("epsilon", "pure noise", "Gaussian noise", "larger move"),
        rows,
    )


def sharing() -> None:
    """Noise of one count when marginals share a budget, beside the sampling error of a count."""
    rows = []
    total = GDP_ACCOUNTING.total(ApproxDP(1.0, 1e-9))
    for marginals in (1, 5, 15, 50, 500):
        scale = PURE.laplace_scale(1.0 / marginals, 1.0)
        sigma = GDP_ACCOUNTING.gaussian_sigma(total / marginals, 1.0)
        rows.append(
            (marginals, f"{Laplace(scale).variance ** 0.5:.1f}", f"{Gaussian(sigma).variance ** 0.5:.1f}")
        )
    show(
        "Standard deviation of the noise of a count, marginals measured alike, add or remove one row",
        ("marginals", "epsilon 1", "epsilon 1, delta 1e-9"),
        rows,
    )
    show(
        "Standard deviation of a count of a tenth of the rows, by sampling alone",
        ("rows", "deviation"),
        ((f"{n:,}", f"{math.sqrt(n * 0.1 * 0.9):.1f}") for n in (500, 5_000, 50_000, 160_000)),
    )


# ------------------------------------------------------------------ private-selection.md

RULES: dict[str, Attempts] = {
    "single": SingleAttempt(),
    "negative binomial, eta -1/2, gamma .01": NegativeBinomialAttempts(-0.5, 0.01),
    "negative binomial, eta 0, gamma .01": NegativeBinomialAttempts(0.0, 0.01),
    "geometric, gamma .1": GeometricAttempts(0.1),
    "geometric, gamma .01": GeometricAttempts(0.01),
    "unlimited": UnlimitedAttempts(),
}
"""Ways to try again, as private-selection.md names them."""


def selection() -> None:
    """Epsilon of a loop by its rule, and how often it ends without a release."""
    for attempt, delta in ((PureDP(1.0), 0.0), (GDP(0.25), 1e-6)):
        alone = selection_guarantee(attempt, SingleAttempt(), delta=delta).epsilon
        rows = []
        for name, rule in RULES.items():
            if delta and (name == "unlimited" or name.startswith("negative")):
                continue
            epsilon = selection_guarantee(attempt, rule, delta=delta).epsilon
            fails = 1 - rule.success(0.5)
            rows.append((name, f"{epsilon:.3f}", f"{epsilon / alone:.2f}", short(fails, 2)))
        show(
            f"Trying again, an attempt with {attempt.describe()}" + (f", delta {delta:g}" if delta else ""),
            ("rule", "epsilon", "factor", "fails at 1/2"),
            rows,
        )


# ------------------------------------------------------------------ accounting.md


def best_selection_rho(epsilon: float) -> float:
    """Smallest rho of every act of bounded range: the worst biased bit at the worst order, on a grid."""
    t = np.linspace(0, epsilon, 401)[1:-1, None]
    order = 1 + np.geomspace(1e-3, 200, 400)[None, :]
    q = -np.expm1(t - epsilon) / (
        np.exp(t) - np.exp(t - epsilon)
    )  # probability of the likelier bit on the neighbour
    moment = np.logaddexp(np.log(q) + order * t, np.log1p(-q) + order * (t - epsilon))
    return float((moment / (order - 1) / order).max())


def prices() -> None:
    """What a selection costs, and how much noise a budget asks for by either route."""
    rows = []
    for epsilon in (0.01, 0.1, 0.5, 1.0, 2.0):
        rho, best = bounded_range_to_zcdp(epsilon), best_selection_rho(epsilon)
        mu = bounded_range_to_gdp(epsilon)
        rows.append(
            (
                f"{epsilon:g}",
                f"{rho:.4g}",
                f"{100 * (rho / best - 1):.1f} %",
                f"{mu:.4g}",
                short(mu / epsilon, 3),
            )
        )
    show("Price of a selection", ("epsilon", "rho", "above the best", "mu", "mu/epsilon"), rows)
    rows = []
    for delta in (1e-6, 1e-9):
        exact, concentrated = 1 / approx_to_gdp(1.0, delta), 1 / math.sqrt(2 * approx_to_zcdp(1.0, delta))
        rows.append(
            (f"{delta:g}", f"{exact:.3f}", f"{concentrated:.3f}", f"{100 * (1 - exact / concentrated):.1f} %")
        )
    show("Sigma of one count at epsilon 1", ("delta", "exact curve", "through zCDP", "less noise"), rows)


# ------------------------------------------------------------------ noise.md, uncertainty.md


def noise() -> None:
    """Quantiles and variances that the pages name."""
    show(
        "Noise",
        ("law", "deviation", "variance", "97.5 %"),
        (
            (name, f"{law.variance**0.5:.2f}", f"{law.variance:.2f}", law.quantile(0.975))
            for name, law in (
                ("Gaussian, sigma 3", Gaussian(3.0)),
                ("Laplace, scale 1/3", Laplace(1 / 3)),
                ("Laplace, scale 1", Laplace(1.0)),
                ("Laplace, scale 10", Laplace(10.0)),
            )
        ),
    )


def adaptive() -> None:
    """Interval of what was measured once, in a planned design and in an adaptive one."""
    domain = Domain(("a", "b"), (2, 2))
    rows = []
    for kind in ("gaussian", "laplace"):
        items = tuple(Measurement((name,), np.array([50.0, 50.0]), kind, 5.0) for name in domain.names)
        widths = []
        for batches in ((2,), (1, 1)):
            evidence = Evidence(domain, items, History(batches=batches), 100.0)
            ends = query_interval(evidence, ("a",), np.array([1.0, 0.0]), beta=0.05)
            assert ends is not None
            widths.append((ends[1] - ends[0]) / 2)
        planned, alone = widths
        rows.append((kind, f"{planned:.2f}", f"{alone:.2f}", f"{100 * (alone / planned - 1):.0f} %"))
    show("Half width at 95 %, noise of scale 5", ("noise", "planned", "adaptive", "wider"), rows)


# ------------------------------------------------------------------ count-mechanisms.md


def counts() -> None:
    """Deltas of redrawn counts, in the paper's notion and true."""
    rows = []
    for alpha, epsilon in ((0.1, 3.0), (0.1, 1.5), (1.0, 2.0), (0.9, 2.0)):
        law = CountLaw("poisson", alpha)
        values = (
            probabilistic_delta(law, epsilon),
            true_delta(law, epsilon, ROW),
            true_delta(law, epsilon, REPLACED),
        )
        digits = 3 if alpha < 0.5 else 4
        rows.append((short(alpha, 1), f"{epsilon:g}", *(short(value, digits) for value in values)))
    show(
        "Redrawn counts, Poisson",
        ("alpha", "epsilon", "probabilistic", "true, add or remove", "true, replace one"),
        rows,
    )
    law = CountLaw("poisson", 0.1)
    grid = np.arange(20, 241) / 20
    reached = next(float(epsilon) for epsilon in grid if probabilistic_delta(law, float(epsilon)) <= 0.05)
    print(f"\nalpha .1 has a probabilistic delta of .05 or less from epsilon {reached:g} on")
    law = CountLaw("poisson", 5.0)
    print("epsilon .5, alpha 5: probabilistic delta of a against a - 1:", end=" ")
    print(", ".join(f"a = {count}: {short(_leaving(law, 0.5, count), 4)}" for count in range(1, 6)))
    prior = UrnPrior.for_epsilon(1.0, rows=1_000, unit=ROW)
    print(
        f"Dirichlet prior at epsilon 1: {short(prior.alpha / prior.rows, 2)} rows per cell for every row drawn"
    )


def _leaving(law: CountLaw, epsilon: float, count: int) -> float:
    """Probability that the likelihood ratio of a count and the one below leaves the band, the worse direction."""
    fewer, more = probabilities(law, np.array([count - 1.0, count]) + law.alpha).values
    usable = (fewer > 1e-280) & (more > 1e-280)
    outside = np.abs(np.log(more[usable]) - np.log(fewer[usable])) > epsilon
    return max(float(fewer[usable][outside].sum()), float(more[usable][outside].sum()))


def main() -> int:
    """Print every table."""
    for part in (promise, sharing, selection, prices, noise, adaptive, counts):
        part()
    return 0


if __name__ == "__main__":
    sys.exit(main())
