"""Record constraints: rules such as ``not (mother_age < 23 and parity > 6)`` that every record obeys."""

from understudy.schema.constraints.constraint import Constraint, Straddle
from understudy.schema.constraints.selection import Selection

__all__ = ["Constraint", "Selection", "Straddle"]
