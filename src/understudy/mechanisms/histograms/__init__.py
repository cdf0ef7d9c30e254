"""Histograms and densities of one or a few columns (paper DIPS, sections 3.1.2 and 3.1.3)."""

from understudy.mechanisms.method import Method

METHODS: tuple[Method, ...] = (
    Method(
        "perturbed-histogram",
        "understudy.mechanisms.histograms.perturbed",
        "PerturbedHistogram",
        "tables with few bins in all",
    ),
    Method(
        "smoothed-histogram",
        "understudy.mechanisms.histograms.smoothed",
        "SmoothedHistogram",
        "tables with few bins in all",
    ),
    Method(
        "kde",
        "understudy.mechanisms.histograms.transforms.kde",
        "KernelDensity",
        "one to three ordered columns",
    ),
    Method(
        "ecdf",
        "understudy.mechanisms.histograms.ecdf",
        "EmpiricalDistribution",
        "one ordered column",
    ),
    Method(
        "sorted-histogram",
        "understudy.mechanisms.histograms.sorted",
        "SortedHistogram",
        "tables with few bins in all",
    ),
    Method(
        "universal-histogram",
        "understudy.mechanisms.histograms.universal",
        "UniversalHistogram",
        "ordered columns; tables with few bins in all",
    ),
    Method(
        "dpcube",
        "understudy.mechanisms.histograms.partitions.dpcube",
        "DPCube",
        "tables with few cells in all",
    ),
    Method(
        "noise-first",
        "understudy.mechanisms.histograms.partitions.noise_first",
        "NoiseFirst",
        "one ordered column",
    ),
    Method(
        "structure-first",
        "understudy.mechanisms.histograms.partitions.structure_first",
        "StructureFirst",
        "one ordered column",
    ),
    Method("efpa", "understudy.mechanisms.histograms.transforms.efpa", "EFPA", "one ordered column"),
    Method("p-hp", "understudy.mechanisms.histograms.partitions.php", "PHPartition", "one ordered column"),
    Method(
        "fourier",
        "understudy.mechanisms.histograms.transforms.fourier",
        "Fourier",
        "k-way tables with few cells; binary columns best",
    ),
)

__all__ = ["METHODS"]
