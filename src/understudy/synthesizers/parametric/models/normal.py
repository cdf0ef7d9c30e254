"""The normal model: all columns are numbers with one mean and one covariance (paper DIPS, 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.errors import WorkloadError
from understudy.synthesizers.parametric.models.base import Ask, Setting
from understudy.synthesizers.parametric.models.glom import GeneralLocation


@dataclass(frozen=True)
class Normal(GeneralLocation):
    """A normal law for all columns, which must all be numbers or dates."""

    name: str = "normal"

    def ask(self, setting: Setting) -> tuple[Ask, ...]:
        """Return the number of rows where it is private, sums, and second moments."""
        others = [name for name in setting.domain.names if name not in setting.continuous]
        if others:
            raise WorkloadError(
                f"The model normal takes columns of numbers only; {', '.join(others)} {_are(others)} not. "
                "Use the models glom or slomag for mixed tables."
            )
        return super().ask(setting)


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
