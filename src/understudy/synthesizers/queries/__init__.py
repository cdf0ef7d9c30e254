"""Query-driven mechanisms: a distribution corrected, query by query, where it is most wrong."""

from understudy.synthesizers.method import Method

METHODS: tuple[Method, ...] = (
    Method("mwem", "understudy.synthesizers.queries.mwem", "MWEM", "tables whose parts have few cells"),
)

__all__ = ["METHODS"]
