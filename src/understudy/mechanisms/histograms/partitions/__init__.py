"""Histograms that merge neighbouring bins before or after the noise."""
