"""What all parts of a specification file have in common: strict pydantic models, and the types of their entries."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

__all__ = ["AnyValue", "Part", "Positive", "Whole"]

AnyValue = Annotated[Any, WithJsonSchema({})]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """A part of a specification: other keys than those named are refused, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
