"""The only code that sees both exact values and the noise."""

from understudy.curator._deniability_bounds import RecordGuarantee, SeedTest, affordable_records
from understudy.curator._deniability_first_test import plausibly_deniable
from understudy.curator._deniability_lazy import LazyCounts
from understudy.curator._deniability_network import (
    Conditional,
    NetworkSeedModel,
    SeedModel,
    omega_range,
    scan_plausible,
)
from understudy.curator._exact_network import Critic
from understudy.curator.coefficients import (
    contrasts,
    fourier_coefficients,
    fourier_reach,
    grid_step,
    interaction_basis,
    linear_coefficients,
    linear_reach,
    tail_norms,
)
from understudy.curator.count_mechanisms import draw_from_urns, redraw, redraw_event, urn_event
from understudy.curator.cumulative import PathDesign, choose_path
from understudy.curator.curator import Curator
from understudy.curator.deniability import (
    Part,
    counts_event,
    entropy_event,
    moments_event,
    open_parts,
    records_event,
    rows_event,
)
from understudy.curator.density import Smoothing, smoothed_records, sorted_counts, spread_error
from understudy.curator.encoding import Layout
from understudy.curator.exact import PublicNumbers, to_float
from understudy.curator.facts import table_facts
from understudy.curator.features import ONE, Feature, Standard, indicator, standardised
from understudy.curator.gradients import Training, TrainingPlan, open_training
from understudy.curator.histograms import SealedBuckets, bisect_ranges, merged_cells
from understudy.curator.independence import gap_sensitivity, independence_gap
from understudy.curator.journal import Journal
from understudy.curator.kernels import factor_steps, kernel_reach, kernel_sums, smoothing_error
from understudy.curator.learning import Objective, Softmax, fit_softmax, objective_for
from understudy.curator.moments import (
    MomentBlock,
    moment_noise,
    rows_are_fixed,
    seal_moments,
)
from understudy.curator.numbers import Reach, SealedNumbers, measure_numbers
from understudy.curator.practice import practice_curator
from understudy.curator.predicates import (
    SealedAnswers,
    draw_queries,
    joint_reach,
    measure_answer,
    measure_answers,
    seal_answers,
)
from understudy.curator.rank_correlation import STEPS as CONCORDANCE_STEPS
from understudy.curator.rank_correlation import (
    Ranks,
    concordance_bounds,
    concordance_noise,
    seal_concordance,
)
from understudy.curator.rare import RareCounts, count_rare, rare_epsilon
from understudy.curator.rounding import GRID_WIDENING, scalar_noise
from understudy.curator.seal import Sealed
from understudy.curator.sealed import SealedCounts, SealedScalar
from understudy.curator.subsets import Subsets, elect, election_epsilon, seal_subset_counts
from understudy.curator.votes import Panel, PanelPlan, dense_inputs, open_panel, votes_l2
from understudy.privacy import Noise, noise_for, noise_within

__all__ = [
    "CONCORDANCE_STEPS",
    "GRID_WIDENING",
    "ONE",
    "Conditional",
    "Critic",
    "Curator",
    "Feature",
    "Journal",
    "Layout",
    "LazyCounts",
    "MomentBlock",
    "NetworkSeedModel",
    "Noise",
    "Objective",
    "Panel",
    "PanelPlan",
    "Part",
    "PathDesign",
    "PublicNumbers",
    "Ranks",
    "RareCounts",
    "Reach",
    "RecordGuarantee",
    "Sealed",
    "SealedAnswers",
    "SealedBuckets",
    "SealedCounts",
    "SealedNumbers",
    "SealedScalar",
    "SeedModel",
    "SeedTest",
    "Smoothing",
    "Softmax",
    "Standard",
    "Subsets",
    "Training",
    "TrainingPlan",
    "affordable_records",
    "bisect_ranges",
    "choose_path",
    "concordance_bounds",
    "concordance_noise",
    "contrasts",
    "count_rare",
    "counts_event",
    "dense_inputs",
    "draw_from_urns",
    "draw_queries",
    "elect",
    "election_epsilon",
    "entropy_event",
    "factor_steps",
    "fit_softmax",
    "fourier_coefficients",
    "fourier_reach",
    "gap_sensitivity",
    "grid_step",
    "independence_gap",
    "indicator",
    "interaction_basis",
    "joint_reach",
    "kernel_reach",
    "kernel_sums",
    "linear_coefficients",
    "linear_reach",
    "measure_answer",
    "measure_answers",
    "measure_numbers",
    "merged_cells",
    "moment_noise",
    "moments_event",
    "noise_for",
    "noise_within",
    "objective_for",
    "omega_range",
    "open_panel",
    "open_parts",
    "open_training",
    "plausibly_deniable",
    "practice_curator",
    "rare_epsilon",
    "records_event",
    "redraw",
    "redraw_event",
    "rows_are_fixed",
    "rows_event",
    "scalar_noise",
    "scan_plausible",
    "seal_answers",
    "seal_concordance",
    "seal_moments",
    "seal_subset_counts",
    "smoothed_records",
    "smoothing_error",
    "sorted_counts",
    "spread_error",
    "standardised",
    "table_facts",
    "tail_norms",
    "to_float",
    "urn_event",
    "votes_l2",
]
