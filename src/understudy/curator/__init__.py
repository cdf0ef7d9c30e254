"""The only code that sees both exact values and the noise."""

from understudy.curator.curator import Curator, Noise, noise_for
from understudy.curator.sealed import SealedCounts, SealedScalar

__all__ = ["Curator", "Noise", "SealedCounts", "SealedScalar", "noise_for"]
