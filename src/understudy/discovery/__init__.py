"""Learning a schema under a share of the budget: column names are public, everything else is measured and charged."""

from understudy.discovery.columns import Found
from understudy.discovery.discover import Discovery, NothingDiscovered, discover
from understudy.discovery.plan import (
    DiscoveryPlan,
    Shares,
    plan_discovery,
    rows_of_share,
    share_for,
    shares_of,
)

__all__ = [
    "Discovery",
    "DiscoveryPlan",
    "Found",
    "NothingDiscovered",
    "Shares",
    "discover",
    "plan_discovery",
    "rows_of_share",
    "share_for",
    "shares_of",
]
