"""Histograms measured in another basis: Fourier coefficients and kernel sums."""
