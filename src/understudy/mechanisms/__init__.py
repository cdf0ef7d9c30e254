"""Mechanisms that turn a budget into a model. They see the records only through a curator."""

from understudy.mechanisms.base import (
    Fitted,
    Plan,
    PlannedMeasurement,
    Progress,
    Synthesizer,
    no_progress,
    planned,
    support_of,
    total_deviation,
)
from understudy.mechanisms.chunks import ChunkedSample, DrawnChunk, usual_chunk_rows
from understudy.mechanisms.method import Method
from understudy.mechanisms.model import Model, Provenance
from understudy.mechanisms.model_file import load_model, save_model
from understudy.mechanisms.multiple import MultipleSynthesis, posterior_sets, synthesize_many
from understudy.mechanisms.registry import create, method, methods, software

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
