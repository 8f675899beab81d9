"""The base class of the answers of language models, and their type of confidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Strict: a confidence of true or "0.9" says that the model did not mean a probability.
Confidence = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]


class OpenAnswer(BaseModel):
    """An answer of which only the fields of its schema count.

    Many models add a field that says why. An answer that may have none would be refused
    for it, after the call was paid.
    """

    # Providers that hold a model to the schema are still told that it has no other fields.
    model_config = ConfigDict(extra="ignore", json_schema_extra={"additionalProperties": False})
