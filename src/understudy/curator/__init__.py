"""The only code that sees both exact values and the noise."""

from understudy.curator._deniability_bounds import RecordGuarantee, SeedTest, affordable_records
from understudy.curator._deniability_first_test import plausibly_deniable
from understudy.curator._deniability_lazy import LazyCounts
from understudy.curator._deniability_network import (
    Conditional,
    NetworkSeedModel,
    SeedModel,
    omega_range,
    scan_plausible,
)
from understudy.curator.curator import Curator, Noise, noise_for
from understudy.curator.deniability import (
    Part,
    counts_event,
    entropy_event,
    moments_event,
    open_parts,
    records_event,
    rows_event,
)
from understudy.curator.density import spread_error
from understudy.curator.sealed import SealedCounts, SealedScalar

__all__ = [
    "Conditional",
    "Curator",
    "LazyCounts",
    "NetworkSeedModel",
    "Noise",
    "Part",
    "RecordGuarantee",
    "SealedCounts",
    "SealedScalar",
    "SeedModel",
    "SeedTest",
    "affordable_records",
    "counts_event",
    "entropy_event",
    "moments_event",
    "noise_for",
    "omega_range",
    "open_parts",
    "plausibly_deniable",
    "records_event",
    "rows_event",
    "scan_plausible",
    "spread_error",
]
