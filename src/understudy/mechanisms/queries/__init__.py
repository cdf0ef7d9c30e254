"""Query-driven mechanisms: a distribution corrected, query by query, where it is most wrong."""

from understudy.mechanisms.method import Method

_HERE = "understudy.mechanisms.queries"

METHODS: tuple[Method, ...] = (
    Method("mwem", f"{_HERE}.mwem", "MWEM", "tables whose parts have few cells"),
    Method("pep", f"{_HERE}.pep", "PEP", "any encoded table"),
    Method("dualquery", f"{_HERE}.dualquery", "DualQuery", "any encoded table"),
    Method("rap", f"{_HERE}.rap", "RAP", "any encoded table"),
    Method("gem", f"{_HERE}.gem", "GEM", "any encoded table"),
)

__all__ = ["METHODS"]
