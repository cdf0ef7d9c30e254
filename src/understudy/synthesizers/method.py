"""One entry of the registry: where a mechanism lives, without importing it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from understudy.errors import MissingExtra
from understudy.synthesizers.base import Synthesizer


@dataclass(frozen=True)
class Method:
    """Where a mechanism lives and what it is for, without importing it.

    Attributes
    ----------
    name
        What users type.
    module, class_name
        Where the class is.
    data
        The kind of tables it takes, in a few words.
    extra
        The optional dependency it needs, if any.
    takes_workload
        Whether it can be told which marginals matter.
    """

    name: str
    module: str
    class_name: str
    data: str
    extra: str | None = None
    takes_workload: bool = False

    def load(self) -> type[Synthesizer]:
        """Import the class; a missing optional dependency is an error that says what to install."""
        try:
            module = importlib.import_module(self.module)
        except ImportError as error:
            if self.extra is None:
                raise
            raise MissingExtra(
                f"{self.name} needs the optional extra: pip install 'understudy[{self.extra}]' ({error.name})."
            ) from error
        cls: type[Synthesizer] = getattr(module, self.class_name)
        return cls
