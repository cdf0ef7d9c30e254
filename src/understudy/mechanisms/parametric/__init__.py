"""Parametric mechanisms: noisy statistics of a model, then records from it (paper DIPS, section 3.2)."""

from understudy.mechanisms.method import Method

METHODS: tuple[Method, ...] = (
    Method(
        "modips", "understudy.mechanisms.parametric.modips.modips", "Modips", "mixed and continuous tables"
    ),
    Method(
        "sequential-regression",
        "understudy.mechanisms.parametric.regression.sequential",
        "SequentialRegression",
        "mixed and continuous tables",
    ),
    Method(
        "dpcopula",
        "understudy.mechanisms.parametric.copula.copula",
        "DPCopula",
        "mixed and continuous tables",
    ),
    Method("steps", "understudy.mechanisms.parametric.steps.steps", "STEPS", "mixed and continuous tables"),
)

__all__ = ["METHODS"]
