"""A Gaussian copula with noisy margins and rank correlations."""
