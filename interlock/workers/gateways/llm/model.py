"""Opens a language model behind an API by its name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.metadata import metadata
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as Client
from pydantic_ai.models import infer_model, parse_model_id
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from interlock.workers.config import SettingsError
from interlock.workers.gateways.llm.exchange import Exchange
from interlock.workers.gateways.llm.options import (
    DEFAULT_MODEL,
    MODEL_VARIABLE,
    NO_PRICES,
    ExchangeLimits,
    ModelPrices,
)
from interlock.workers.redaction import without_secrets

# Without a key in the call, the client would send an OpenAI key that it finds in the environment
# to another company's address.
_NO_KEY = "no-key"
_OPENAI = ("openai", "openai-chat")
_LIBRARY_STUB = "test"
_LIBRARY = "pydantic-ai-slim"


def open_exchange(
    spec: str,
    *,
    variable: str,
    base_url: str | None,
    api_key: str | None,
    limits: ExchangeLimits,
    prices: ModelPrices = NO_PRICES,
) -> Exchange:
    """Open a language model; `variable` is the setting that names it. Raises SettingsError.

    `spec` is a name that pydantic-ai knows, as "openai:gpt-5.2", or, with `base_url`, any model of
    an OpenAI-compatible server. `prices` replace those of public lists.
    """
    try:
        client = _client(spec, base_url, api_key)
    except ImportError as error:
        missing = f"{variable}={spec} needs a package that is not installed"
        raise SettingsError(f"{missing}: {_remedy(spec, error)}") from error
    except (UserError, ValueError, TypeError) as error:
        other = f", or {DEFAULT_MODEL!r}" if variable == MODEL_VARIABLE else ""
        cause = without_secrets(str(error), api_key or "")
        raise SettingsError(
            f"{variable}={spec} cannot be opened: {cause}. Give 'provider:model', or any name"
            f" together with the address of an OpenAI-compatible server{other}"
        ) from error
    return Exchange(spec, client, limits, prices.get(spec), api_key or "")


def _remedy(spec: str, error: ImportError) -> str:
    """Return the command that installs what a provider's client needs, or the error."""
    library = metadata(_LIBRARY)
    named = re.search(rf"{_LIBRARY}\[([\w-]+)\]", str(error))
    extra = named[1] if named else parse_model_id(spec)[0]
    if extra not in (library.get_all("Provides-Extra") or ()):
        return str(error)
    # With the version that is installed, so that nothing else is changed.
    return f"{sys.executable} -m pip install '{_LIBRARY}[{extra}]=={library['Version']}'"


def _client(spec: str, base_url: str | None, api_key: str | None) -> Client:
    _, model = parse_model_id(spec)
    if not model:
        raise ValueError("it names no model")
    if base_url is None:
        return _known_model(spec, api_key)
    return _model_at(spec, base_url, api_key or _NO_KEY)


def _known_model(spec: str, api_key: str | None) -> Client:
    if spec == _LIBRARY_STUB:
        raise ValueError("it answers nothing")
    # With its own factory the library suggests a known name in place of an unknown one.
    return infer_model(spec, infer_provider if api_key is None else _factory(api_key=api_key))


def _model_at(spec: str, base_url: str, api_key: str) -> Client:
    if not base_url.startswith(("http://", "https://")):
        raise ValueError(f"the address {base_url!r} does not start with http:// or https://")
    provider, model = parse_model_id(spec)
    if provider in _OPENAI:
        # OpenAI's prices hold: the address is taken for a proxy of OpenAI.
        proxy = OpenAIProvider(base_url=base_url, api_key=api_key)
        return OpenAIChatModel(model, provider=proxy)
    if provider is not None and _is_known(provider):
        return infer_model(spec, _factory(base_url=base_url, api_key=api_key))
    # The colon, if there is one, belongs to the name, as in "llama3.2:3b".
    other = OpenAICompatibleProvider("openai-compatible", base_url=base_url, api_key=api_key)
    return OpenAIChatModel(spec, provider=other)


def _is_known(provider: str) -> bool:
    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    return True


def _factory(**options: str) -> Callable[[str], Provider[Any]]:
    def make(name: str) -> Provider[Any]:
        kind: Callable[..., Provider[Any]] = infer_provider_class(name)
        return kind(**options)

    return make
