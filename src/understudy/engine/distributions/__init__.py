"""Distributions that a model file can hold: what a fit returns and rows are drawn from."""
