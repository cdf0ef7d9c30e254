"""One entry of the registry: where a mechanism lives, without importing it."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import MISSING, dataclass, fields
from typing import Any

from understudy.errors import MissingExtra, UnknownMethod
from understudy.mechanisms.base import Synthesizer, plain


@dataclass(frozen=True)
class MethodOption:
    """One option of a mechanism: a field of its dataclass, with its default as a plain value and the first sentence of the docstring about it under *Parameters*."""

    name: str
    default: Any
    required: bool
    text: str


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

    def options(self) -> tuple[MethodOption, ...]:
        """Return the options that it takes, in the order of its fields."""
        cls = self.load()
        said: dict[str, str] = {}
        for kind in reversed(cls.__mro__):  # a subclass says it better
            said |= _described_parameters(kind.__doc__ or "")
        found = []
        for field in fields(cls):  # type: ignore[arg-type]
            if field.init and not field.name.startswith("_"):
                required = field.default is MISSING and field.default_factory is MISSING
                made = None if field.default_factory is MISSING else field.default_factory()
                default = made if field.default is MISSING else field.default
                found.append(MethodOption(field.name, plain(default), required, said.get(field.name, "")))
        return tuple(found)

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


def _described_parameters(doc: str) -> dict[str, str]:
    """Return the first sentence about each name under *Parameters* of a docstring; one entry may have several names.

    Examples
    --------
    >>> _described_parameters('''Count.
    ...
    ...     Parameters
    ...     ----------
    ...     most, least : int
    ...         How ``many`` (:class:`~a.B`). No more
    ...         than that.
    ...
    ...     Privacy
    ...     -------
    ...     None.
    ...     ''')
    {'most': 'How many (a.B).', 'least': 'How many (a.B).'}
    """
    lines = inspect.cleandoc(doc).splitlines()
    starts = [
        at for at, line in enumerate(lines[1:], start=1) if line.startswith("---") and line.strip("-") == ""
    ]
    begin = next((at for at in starts if lines[at - 1] == "Parameters"), None)
    if begin is None:
        return {}
    end = next((at - 1 for at in starts if at > begin), len(lines))
    found: dict[str, str] = {}
    names: list[str] = []
    for line in lines[begin + 1 : end]:
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.partition(" :")[0].split(",")]
        elif line:
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".lstrip()
    return {name: _unmarked(text).partition(". ")[0].rstrip(".") + "." for name, text in found.items()}


def _unmarked(text: str) -> str:
    """Return a text without the marks of docstrings: quoted code, and names with their roles."""
    return re.sub(r":\w+:`~?([^`]+)`", r"\1", text).replace("`", "")
