"""The base class of the answers of language models, and their type of confidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Strict: a confidence of true or "0.9" says that the model did not mean a probability.
Confidence = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]


class ClosedAnswer(BaseModel):
    """An answer, or a part of one, with no field beside those of its schema."""

    model_config = ConfigDict(extra="forbid")
