"""Exact noise: discrete laws, selections and the source of randomness."""
