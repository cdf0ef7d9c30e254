"""One small table and one criterion of every kind, shared by the tests of criteria."""

from __future__ import annotations

import math

import numpy as np

from understudy.release import (
    AverageMarginalError,
    AverageScore,
    ConditionalMeans,
    ConditionalMedians,
    Criterion,
    Faithfulness,
    Grouping,
    MaxMarginalError,
    PredictionError,
    RegressionCoefficients,
    RelativeMarginalError,
    Similarity,
    TailMarginalError,
)
from understudy.release.regressions.fits import Feature, LinearFit, Regression
from understudy.schema import Domain

DOMAIN = Domain(("sex", "age", "size"), (2, 4, 5))
AGES = (15.0, 20.0, 30.0, 50.0)
SIZES = (1.0, 2.5, 4.0, 8.0, math.nan)
GROUPS = (Grouping.each("sex", 2), Grouping("age", (0, 0, 1, -1)), Grouping.everyone())
LINE = Regression(
    Feature("size", (1.0, 2.5, 4.0, 8.0, 9.0)), (Feature("sex", (0.0, 1.0)), Feature("age", AGES))
)
GAPPY = Regression(Feature("size", SIZES), (Feature("age", AGES),))
SCORES = np.array([[0.0, 1.0, -2.0, 0.5, 3.0], [1.0, 0.0, 0.0, 2.0, -1.0]])

CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        MaxMarginalError(name="max", threshold=0.2),
        MaxMarginalError(name="max of pairs", threshold=0.2, orders=(2,)),
        RelativeMarginalError(name="relative", threshold=1.5, clip=2.0),
        AverageMarginalError(name="average", threshold=0.2, orders=(1, 2)),
        TailMarginalError(name="tail", threshold=0.1, share=0.1),
        ConditionalMeans(
            name="means", threshold=1.0, column="size", values=SIZES, groups=GROUPS, marginal_threshold=0.1
        ),
        ConditionalMeans(name="own group", threshold=4.0, column="age", values=AGES, groups=GROUPS),
        ConditionalMedians(name="medians", threshold=2.0, column="size", values=SIZES, groups=GROUPS),
        Faithfulness(
            name="faithfulness",
            threshold=0.3,
            similarity=Similarity(exact=("sex",), near={"age": 1, "size": 1}),
        ),
        AverageScore(name="score", threshold=0.5, columns=("sex", "size"), scores=SCORES),
    )
}
REGRESSIONS: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        RegressionCoefficients(name="coefficients", threshold=2.0, regression=LINE),
        RegressionCoefficients(name="gappy coefficients", threshold=2.0, regression=GAPPY),
        PredictionError(name="prediction", threshold=1.0, regression=LINE),
        PredictionError(name="gappy prediction", threshold=1.0, regression=GAPPY),
    )
}
BASELINE = LinearFit(2.0, (0.5, 0.08))
WITH_BASELINE: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        PredictionError(name="baseline prediction", threshold=1.0, regression=LINE, baseline=BASELINE),
        PredictionError(
            name="gappy baseline prediction", threshold=1.0, regression=GAPPY, baseline=LinearFit(0.0, (0.2,))
        ),
    )
}
EVERY = CRITERIA | REGRESSIONS | WITH_BASELINE
