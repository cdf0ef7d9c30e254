"""Mechanisms that turn a budget into a model. They see the records only through a curator."""

from understudy.synthesizers.base import Plan, PlannedMeasurement, Progress, Synthesizer, no_progress
from understudy.synthesizers.chunks import ChunkedSample, DrawnChunk, usual_chunk_rows
from understudy.synthesizers.method import Method
from understudy.synthesizers.model import Model, Provenance
from understudy.synthesizers.modelfile import load_model, save_model
from understudy.synthesizers.multiple import MultipleSynthesis, posterior_sets, synthesize_many
from understudy.synthesizers.registry import create, method, methods

__all__ = [
    "ChunkedSample",
    "DrawnChunk",
    "Method",
    "Model",
    "MultipleSynthesis",
    "Plan",
    "PlannedMeasurement",
    "Progress",
    "Provenance",
    "Synthesizer",
    "create",
    "load_model",
    "method",
    "methods",
    "no_progress",
    "posterior_sets",
    "save_model",
    "synthesize_many",
    "usual_chunk_rows",
]
