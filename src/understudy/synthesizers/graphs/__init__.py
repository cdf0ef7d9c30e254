"""Mechanisms that learn a graph of dependent columns first: dense pairs, Markov random fields."""

from understudy.synthesizers.method import Method

METHODS: tuple[Method, ...] = (
    Method(
        "privsyn",
        "understudy.synthesizers.graphs.privsyn",
        "PrivSyn",
        "any encoded table",
        takes_workload=True,
    ),
)

__all__ = ["METHODS"]
