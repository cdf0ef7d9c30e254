"""Understudy in the clothes of other libraries: a scikit-learn-style estimator and SDGym functions."""

from understudy.adapters.estimator import TableSynthesizer, get_trained_synthesizer, sample_from_synthesizer

__all__ = ["TableSynthesizer", "get_trained_synthesizer", "sample_from_synthesizer"]
