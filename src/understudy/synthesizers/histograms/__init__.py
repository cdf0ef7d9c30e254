"""Histograms and densities of one or a few columns (paper DIPS, sections 3.1.2 and 3.1.3)."""

from understudy.synthesizers.method import Method

METHODS: tuple[Method, ...] = (
    Method(
        "perturbed-histogram",
        "understudy.synthesizers.histograms.perturbed",
        "PerturbedHistogram",
        "tables with few bins in all",
    ),
    Method(
        "smoothed-histogram",
        "understudy.synthesizers.histograms.smoothed",
        "SmoothedHistogram",
        "tables with few bins in all",
    ),
    Method(
        "kde",
        "understudy.synthesizers.histograms.kde",
        "KernelDensity",
        "one to three ordered columns",
    ),
    Method(
        "ecdf",
        "understudy.synthesizers.histograms.ecdf",
        "EmpiricalDistribution",
        "one ordered column",
    ),
    Method(
        "sorted-histogram",
        "understudy.synthesizers.histograms.sorted",
        "SortedHistogram",
        "tables with few bins in all",
    ),
    Method(
        "universal-histogram",
        "understudy.synthesizers.histograms.universal",
        "UniversalHistogram",
        "ordered columns; tables with few bins in all",
    ),
)

__all__ = ["METHODS"]
