"""MODIPS: Bayesian models fitted to noisy sufficient statistics."""
