"""Bayesian networks: PrivBayes, and its network fitted by the graphical engine."""
