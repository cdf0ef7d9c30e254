"""Graphical models: triangulation, calibration, estimation, answers and sampling.

Everything here is post-processing: the engine sees a public domain and noisy measurements only.
"""

from understudy.engine.answers import try_answering
from understudy.engine.bayes import BayesianNetwork, Node
from understudy.engine.coarse import CoarseModel, Extended, Labels, Resolution, View
from understudy.engine.copula import GaussianCopula, Latent, orthant_tables
from understudy.engine.dense import DenseTable, project_to_simplex
from understudy.engine.distribution import Distribution, distribution_from_arrays
from understudy.engine.entropy import EntropyProjection
from understudy.engine.estimation import estimate
from understudy.engine.mixture import ProductMixture
from understudy.engine.model import FitInfo, GraphicalModel
from understudy.engine.parametric_parts import ProductModel
from understudy.engine.sampling import sample_chunks, sample_codes
from understudy.engine.sequential import (
    ClassStep,
    LineStep,
    SequentialModel,
    Step,
    TableStep,
    class_probabilities,
    draw_step,
    line_values,
)
from understudy.engine.support import Zeros
from understudy.engine.triangulation import candidate_sizes, model_cells, model_size

__all__ = [
    "BayesianNetwork",
    "ClassStep",
    "CoarseModel",
    "DenseTable",
    "Distribution",
    "EntropyProjection",
    "Extended",
    "FitInfo",
    "GaussianCopula",
    "GraphicalModel",
    "Labels",
    "Latent",
    "LineStep",
    "Node",
    "ProductMixture",
    "ProductModel",
    "Resolution",
    "SequentialModel",
    "Step",
    "TableStep",
    "View",
    "Zeros",
    "candidate_sizes",
    "class_probabilities",
    "distribution_from_arrays",
    "draw_step",
    "estimate",
    "line_values",
    "model_cells",
    "model_size",
    "orthant_tables",
    "project_to_simplex",
    "sample_chunks",
    "sample_codes",
    "try_answering",
]
