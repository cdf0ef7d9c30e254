"""Mechanisms that measure marginals and fit a graphical model to them."""
