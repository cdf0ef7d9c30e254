"""Mechanisms that turn a budget into a model. They see the records only through a curator."""

from understudy.synthesizers.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    fixed_total,
    no_progress,
    planned,
    support_of,
    total_deviation,
)
from understudy.synthesizers.chunks import ChunkedSample, DrawnChunk, usual_chunk_rows
from understudy.synthesizers.method import Method
from understudy.synthesizers.model import Model, Provenance
from understudy.synthesizers.modelfile import load_model, save_model
from understudy.synthesizers.multiple import MultipleSynthesis, posterior_sets, synthesize_many
from understudy.synthesizers.registry import create, method, methods, software

__all__ = [
    "ChunkedSample",
    "DrawnChunk",
    "Fitted",
    "Method",
    "Model",
    "MultipleSynthesis",
    "Plan",
    "PlannedMeasurement",
    "Progress",
    "Provenance",
    "Synthesizer",
    "create",
    "fixed_total",
    "load_model",
    "method",
    "methods",
    "no_progress",
    "planned",
    "posterior_sets",
    "save_model",
    "software",
    "support_of",
    "synthesize_many",
    "total_deviation",
    "usual_chunk_rows",
]
