"""Deep mechanisms: generators trained against private discriminators. They need the extra ``understudy[deep]`` to fit, not to load."""

from understudy.mechanisms.method import Method

METHODS: tuple[Method, ...] = (
    Method(
        "dpctgan",
        "understudy.mechanisms.deep.dpctgan",
        "DPCTGAN",
        "any encoded table of some thousand rows or more",
        extra="deep",
    ),
    Method(
        "patectgan",
        "understudy.mechanisms.deep.patectgan",
        "PATECTGAN",
        "any encoded table of some thousand rows or more",
        extra="deep",
    ),
)

__all__ = ["METHODS"]
