"""Lets calls to models make spans, by the conventions of OpenTelemetry for generative AI."""

from __future__ import annotations

from typing import Final

from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

VERSION: Final = 5  # of the conventions, as pydantic-ai numbers them


def trace_model_calls() -> None:
    """Make a span for each call, without what is said: that may hold what a trace should not."""
    Agent.instrument_all(InstrumentationSettings(include_content=False, version=VERSION))
