"""Plausible deniability: records made from seeds and tested before they leave (paper of Bindschaedler, Shokri and Gunter)."""
