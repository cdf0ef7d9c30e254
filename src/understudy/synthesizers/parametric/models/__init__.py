"""The models behind `modips`: one file per family."""

from understudy.synthesizers.parametric.models.averaging import Averaging
from understudy.synthesizers.parametric.models.base import (
    Ask,
    AskCounts,
    AskMoments,
    ParametricModel,
    Priors,
    Setting,
    can_be_number,
)
from understudy.synthesizers.parametric.models.conjugate import Conjugate, ConjugateModel, GammaPoisson
from understudy.synthesizers.parametric.models.glom import GeneralLocation
from understudy.synthesizers.parametric.models.loglinear import Loglinear
from understudy.synthesizers.parametric.models.multinomial import Multinomial
from understudy.synthesizers.parametric.models.normal import Normal
from understudy.synthesizers.parametric.models.saturated import Saturated
from understudy.synthesizers.parametric.models.slomag import SequentialLogistic

__all__ = [
    "Ask",
    "AskCounts",
    "AskMoments",
    "Averaging",
    "Conjugate",
    "ConjugateModel",
    "GammaPoisson",
    "GeneralLocation",
    "Loglinear",
    "Multinomial",
    "Normal",
    "ParametricModel",
    "Priors",
    "Saturated",
    "SequentialLogistic",
    "Setting",
    "can_be_number",
]
