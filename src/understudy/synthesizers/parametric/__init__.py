"""Parametric mechanisms: noisy statistics of a model, then records from it (paper DIPS, section 3.2)."""

from understudy.synthesizers.method import Method

METHODS: tuple[Method, ...] = (
    Method("modips", "understudy.synthesizers.parametric.modips", "Modips", "mixed and continuous tables"),
    Method(
        "sequential-regression",
        "understudy.synthesizers.parametric.sequential",
        "SequentialRegression",
        "mixed and continuous tables",
    ),
    Method(
        "dpcopula", "understudy.synthesizers.parametric.copula", "DPCopula", "mixed and continuous tables"
    ),
    Method("steps", "understudy.synthesizers.parametric.steps", "STEPS", "mixed and continuous tables"),
)

__all__ = ["METHODS"]
