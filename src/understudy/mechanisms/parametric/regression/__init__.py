"""Sequential regressions: each column drawn given those before it."""
