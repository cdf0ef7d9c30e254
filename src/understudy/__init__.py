"""Differentially private stand-ins for sensitive tables."""
