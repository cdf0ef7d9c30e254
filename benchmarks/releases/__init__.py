"""Releases: acceptance criteria, budgets against acceptance, neighbouring tables."""
