"""Graphical models: triangulation, calibration, estimation, answers and sampling.

Everything here is post-processing: the engine sees a public domain and noisy measurements only.
"""

from understudy.engine.distributions.bayes import BayesianNetwork, Node
from understudy.engine.distributions.coarse import CoarseModel, Extended, Labels, Resolution, View
from understudy.engine.distributions.dense import DenseTable, project_to_simplex
from understudy.engine.distributions.distribution import Conditional, Distribution, distribution_from_arrays
from understudy.engine.distributions.mixture import ProductMixture
from understudy.engine.distributions.product import ProductModel
from understudy.engine.graphical.answers import try_answering
from understudy.engine.graphical.entropy import EntropyProjection
from understudy.engine.graphical.estimation import estimate
from understudy.engine.graphical.junction import candidate_sizes, model_cells, model_size
from understudy.engine.graphical.model import FitInfo, GraphicalModel, sample_chunks, sample_codes
from understudy.engine.graphical.targets import Zeros

__all__ = [
    "BayesianNetwork",
    "CoarseModel",
    "Conditional",
    "DenseTable",
    "Distribution",
    "EntropyProjection",
    "Extended",
    "FitInfo",
    "GraphicalModel",
    "Labels",
    "Node",
    "ProductMixture",
    "ProductModel",
    "Resolution",
    "View",
    "Zeros",
    "candidate_sizes",
    "distribution_from_arrays",
    "estimate",
    "model_cells",
    "model_size",
    "project_to_simplex",
    "sample_chunks",
    "sample_codes",
    "try_answering",
]
