"""Graphical models: junction trees, calibration, estimation, answers and sampling."""
