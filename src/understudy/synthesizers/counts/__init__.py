"""Count mechanisms: a contingency table whose cells are redrawn or perturbed one by one (papers Poisson and DIPS)."""

from understudy.synthesizers.method import Method

METHODS: tuple[Method, ...] = ()

__all__ = ["METHODS"]
