"""Rows moved until their marginals are those of the model."""
