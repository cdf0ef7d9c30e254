"""Mechanisms that learn a graph of dependent columns first: dense pairs, Markov random fields."""

from understudy.mechanisms.method import Method

_ROOM = "understudy.mechanisms.graphs"

METHODS: tuple[Method, ...] = (
    Method("privsyn", f"{_ROOM}.privsyn", "PrivSyn", "any encoded table"),
    Method("privmrf", f"{_ROOM}.privmrf", "PrivMRF", "any encoded table"),
)

__all__ = ["METHODS"]
