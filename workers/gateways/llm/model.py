"""Which model answers: opened by name, chosen by tier; it never answers itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as Client
from pydantic_ai.models import infer_model, parse_model_id
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from interlock.kernel.scales import Tier
from interlock.workers.gateways.llm.embedded import EmbeddedModel
from interlock.workers.gateways.llm.exchange import Exchange, Limits
from interlock.workers.gateways.llm.outcome import ConfigurationError, Outcome
from interlock.workers.gateways.llm.provider import ProviderModel
from interlock.workers.gateways.llm.question import Question
from interlock.workers.gateways.llm.retry import Sleep

DEFAULT = "embedded:wordllama"
EMBEDDED = "embedded"
VARIABLE = "INTERLOCK_MODEL"
_LIMITS = Limits()
# Without a key of ours the client would send whatever OpenAI key it finds to another's address.
_NO_KEY = "no-key"
_OPENAI = ("openai", "openai-chat")
_THE_LIBRARYS_STUB = "test"


class Model(Protocol):
    """Anything that answers questions."""

    name: str

    def estimate_micro(self, question: Question) -> int:
        """Return an upper bound of one answer's cost in micro-dollars, all attempts included."""

    async def answer(self, question: Question, *, timeout_s: float) -> Outcome:
        """Return an outcome within that time; raise nothing but the task's own cancellation."""

    async def close(self) -> None:
        """Give back what the model holds open."""


class TieredModel:
    """A model for every tier that has one of its own, and one for the rest."""

    def __init__(self, otherwise: Model, by_tier: Mapping[Tier, Model]) -> None:
        self.name = otherwise.name
        self._otherwise = otherwise
        self._by_tier = dict(by_tier)

    def estimate_micro(self, question: Question) -> int:
        """Return what the model of the question's tier estimates."""
        return self._chosen(question).estimate_micro(question)

    async def answer(self, question: Question, *, timeout_s: float) -> Outcome:
        """Return what the model of the question's tier answers."""
        return await self._chosen(question).answer(question, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close every model."""
        for model in (self._otherwise, *self._by_tier.values()):
            await model.close()

    def _chosen(self, question: Question) -> Model:
        return self._by_tier.get(question.tier, self._otherwise)


def open_model(
    spec: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    attempts_max: int = _LIMITS.attempts_max,
    wait_s_max: float = _LIMITS.wait_s_max,
    request_s_max: float = _LIMITS.request_s_max,
    tier_models: Mapping[Tier, str] | None = None,
    sleep: Sleep = _LIMITS.sleep,
) -> Model:
    """Open the model that INTERLOCK_MODEL names. Raises ConfigurationError.

    `spec` is "embedded:wordllama", a name pydantic-ai knows, as "openai:gpt-5.2", or, with
    `base_url`, any model of an OpenAI-compatible server. Address and key hold for all of
    `tier_models` too.
    """
    limits = Limits(attempts_max, wait_s_max, request_s_max, sleep)
    model = _open(spec, base_url, api_key, limits)
    if not tier_models:
        return model
    opened = {name: _open(name, base_url, api_key, limits) for name in set(tier_models.values())}
    return TieredModel(model, {tier: opened[name] for tier, name in tier_models.items()})


def open_exchange(
    spec: str, *, variable: str, base_url: str | None, api_key: str | None, limits: Limits
) -> Exchange:
    """Open the language model that a variable names. Raises ConfigurationError."""
    try:
        client = _client(spec, base_url, api_key)
    except ImportError as error:
        raise ConfigurationError(
            f"{variable}={spec} needs a package that is not installed: {error}"
        ) from error
    except (UserError, ValueError, TypeError) as error:
        other = f", or {DEFAULT!r}" if variable == VARIABLE else ""
        raise ConfigurationError(
            f"{variable}={spec} cannot be opened: {error}. Give 'provider:model', or any name"
            f" together with the address of an OpenAI-compatible server{other}"
        ) from error
    return Exchange(spec, client, limits)


def is_embedded(spec: str) -> bool:
    """Tell whether a name means the embedded model, which generates nothing."""
    provider, _ = parse_model_id(spec)
    return provider == EMBEDDED


def _open(spec: str, base_url: str | None, api_key: str | None, limits: Limits) -> Model:
    if is_embedded(spec):
        return EmbeddedModel(spec)
    return ProviderModel(
        open_exchange(spec, variable=VARIABLE, base_url=base_url, api_key=api_key, limits=limits)
    )


def _client(spec: str, base_url: str | None, api_key: str | None) -> Client:
    _, model = parse_model_id(spec)
    if not model:
        raise ValueError("it names no model")
    if base_url is None:
        return _known(spec, api_key)
    return _at(spec, base_url, api_key or _NO_KEY)


def _known(spec: str, api_key: str | None) -> Client:
    if spec == _THE_LIBRARYS_STUB:
        raise ValueError("it answers nothing")
    # Only with its own factory does the library say what an unknown name was meant to be.
    return infer_model(spec, infer_provider if api_key is None else _made_with(api_key=api_key))


def _at(spec: str, base_url: str, api_key: str) -> Client:
    if not base_url.startswith(("http://", "https://")):
        raise ValueError(f"the address {base_url!r} does not start with http:// or https://")
    provider, model = parse_model_id(spec)
    if provider in _OPENAI:
        # Its own prices hold: the address is taken for a proxy of OpenAI.
        own = OpenAIProvider(base_url=base_url, api_key=api_key)
        return OpenAIChatModel(model, provider=own)
    if provider is not None and _is_known(provider):
        return infer_model(spec, _made_with(base_url=base_url, api_key=api_key))
    # The colon, if there is one, belongs to the name, as in "llama3.2:3b".
    other = OpenAICompatibleProvider("openai-compatible", base_url=base_url, api_key=api_key)
    return OpenAIChatModel(spec, provider=other)


def _is_known(provider: str) -> bool:
    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    return True


def _made_with(**given: str) -> Callable[[str], Provider[Any]]:
    def make(name: str) -> Provider[Any]:
        kind: Callable[..., Provider[Any]] = infer_provider_class(name)
        return kind(**given)

    return make
