"""Graphical models: triangulation, calibration, estimation, answers and sampling.

Everything here is post-processing: the engine sees a public domain and noisy measurements only.
"""

from understudy.engine.estimation import estimate
from understudy.engine.model import FitInfo, GraphicalModel
from understudy.engine.sampling import sample_chunks, sample_codes
from understudy.engine.support import Zeros
from understudy.engine.triangulation import candidate_sizes, model_cells, model_size

__all__ = [
    "FitInfo",
    "GraphicalModel",
    "Zeros",
    "candidate_sizes",
    "estimate",
    "model_cells",
    "model_size",
    "sample_chunks",
    "sample_codes",
]
