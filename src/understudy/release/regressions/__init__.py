"""Linear regressions on record types: fits, certificates that two of them are close, and private ones from noisy moments."""
