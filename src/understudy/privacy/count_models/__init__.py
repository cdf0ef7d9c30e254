"""Count distributions as mechanisms: their laws, what they reveal, how to choose parameters, exact draws."""

from understudy.privacy.count_models.divergence import (
    Probabilities,
    probabilistic_delta,
    probabilities,
    true_delta,
)
from understudy.privacy.count_models.laws import FAMILIES, PARAMETERS, CountLaw, Family
from understudy.privacy.count_models.solving import (
    draw_counts,
    largest_count,
    released_delta,
    solve_alpha,
    solve_epsilon,
    solve_law,
    solve_parameter,
    solve_probabilistic_alpha,
)
from understudy.privacy.count_models.urn import UrnPrior, draw_urn

__all__ = [
    "FAMILIES",
    "PARAMETERS",
    "CountLaw",
    "Family",
    "Probabilities",
    "UrnPrior",
    "draw_counts",
    "draw_urn",
    "largest_count",
    "probabilistic_delta",
    "probabilities",
    "released_delta",
    "solve_alpha",
    "solve_epsilon",
    "solve_law",
    "solve_parameter",
    "solve_probabilistic_alpha",
    "true_delta",
]
