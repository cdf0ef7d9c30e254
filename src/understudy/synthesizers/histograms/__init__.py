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
    Method(
        "dpcube",
        "understudy.synthesizers.histograms.dpcube",
        "DPCube",
        "tables with few cells in all",
    ),
    Method(
        "noise-first",
        "understudy.synthesizers.histograms.noise_first",
        "NoiseFirst",
        "one ordered column",
    ),
    Method(
        "structure-first",
        "understudy.synthesizers.histograms.structure_first",
        "StructureFirst",
        "one ordered column",
    ),
    Method("efpa", "understudy.synthesizers.histograms.efpa", "EFPA", "one ordered column"),
    Method("p-hp", "understudy.synthesizers.histograms.php", "PHPartition", "one ordered column"),
    Method(
        "fourier",
        "understudy.synthesizers.histograms.fourier",
        "Fourier",
        "k-way tables with few cells; binary columns best",
    ),
)

__all__ = ["METHODS"]
