"""One entry of the registry: where a mechanism lives, without importing it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, fields

from understudy.errors import MissingExtra, UnknownMethod
from understudy.mechanisms.base import Synthesizer


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
    package
        The installed package it comes from, if that is not Understudy.
    """

    name: str
    module: str
    class_name: str
    data: str
    extra: str | None = None
    package: str | None = None

    @property
    def takes_workload(self) -> bool:
        """Whether it can be told which marginals matter: it then has an option ``workload``."""
        return any(field.name == "workload" for field in fields(self.load()))  # type: ignore[arg-type]

    def load(self) -> type[Synthesizer]:
        """Import the class; a missing optional dependency is an error that says what to install."""
        try:
            module = importlib.import_module(self.module)
        except ImportError as error:
            if self.package is not None:
                raise MissingExtra(
                    f"{self.name} of the package {self.package!r} cannot be imported: {error}."
                ) from error
            if self.extra is None:
                raise
            raise MissingExtra(
                f"{self.name} needs the optional extra: pip install 'understudy[{self.extra}]' ({error.name})."
            ) from error
        cls: object = getattr(module, self.class_name, None)
        if not (isinstance(cls, type) and issubclass(cls, Synthesizer) and cls.name == self.name):
            raise UnknownMethod(
                f"{self.name!r} is registered as {self.module}:{self.class_name}, which is not a Synthesizer with "
                f"name = {self.name!r}."
            )
        return cls
