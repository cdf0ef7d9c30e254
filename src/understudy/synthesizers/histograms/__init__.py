"""Histograms and densities of one or a few columns (paper DIPS, sections 3.1.2 and 3.1.3)."""

from understudy.synthesizers.method import Method

METHODS: tuple[Method, ...] = ()

__all__ = ["METHODS"]
