"""A language model as systems ask it, at a price that is known before. It imports no library.

The libraries of models are imported when the first of them is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic

from interlock.extras import needed
from interlock.workers.config import Settings, SettingsError
from interlock.workers.gateways.llm.options import (
    MODEL_VARIABLE,
    REQUEST_S_MAX,
    ExchangeLimits,
    is_embedded,
)
from interlock.workers.gateways.llm.outcome import Answered, Unanswered
from interlock.workers.gateways.llm.prompt import AnswerT, Prompt, Speaker

if TYPE_CHECKING:
    from interlock.workers.gateways.llm.cost import Booked, Ledger
    from interlock.workers.gateways.llm.exchange import Exchange


class PricedQuestion(Generic[AnswerT]):
    """A question to a language model, and the most that it can cost.

    A handler gives it to `work.ask`. A process without an effect calls `ask` itself.
    """

    def __init__(self, exchange: Exchange, prompt: Prompt[AnswerT], ledger: Ledger) -> None:
        self.model = exchange.name
        self._exchange, self._prompt, self._ledger = exchange, prompt, ledger

    def bound_micro(self) -> int:
        """Return the most that it can cost, in micro-dollars, all attempts included.

        Raises SettingsError where the price of the model is not known.
        """
        return self._ledger.bound.micro()

    async def ask(self, *, timeout_s: float) -> Answered[AnswerT] | Unanswered:
        """Ask until there is a valid answer, a failure that lasts, or no time left.

        Raises nothing but the task's own cancellation.
        """
        return await self._exchange.ask(self._prompt, self._ledger, timeout_s=timeout_s)

    @property
    def deltas(self) -> dict[str, int]:
        """What it has cost by now, also where nobody waits for its answer: see `Answered`."""
        return self._ledger.usage.deltas(self._ledger.cost_micro)


class LanguageModel:
    """A language model behind an API, which `open_model` opens. `name` is as in the settings."""

    def __init__(self, exchange: Exchange) -> None:
        self.name = exchange.name
        self._exchange = exchange

    def question(
        self,
        name: str,
        instructions: str,
        message: str | Mapping[str, str],
        *,
        answer: type[AnswerT],
        tokens_max: int,
        check: Callable[[AnswerT], str | None] | None = None,
        history: Iterable[tuple[Speaker, str]] = (),
        booked: Booked | None = None,
    ) -> PricedQuestion[AnswerT]:
        """Return a question, which is not asked yet. Traces have it by its `name`.

        The `message` is a text, or texts of others by name. Those are sent as blocks that their
        authors cannot end, and the model is told so: say in the `instructions` which blocks are
        material. The `answer` is `str`, or a model of pydantic whose fields the provider is told;
        at most `tokens_max` tokens of it are paid. `check` returns what is wrong with an answer, or
        None: a wrong one may be corrected once. `history` is what "user" and "assistant" said
        before. `booked` is called with each request's micro-dollars, usage and text, as it is paid.
        """
        prompt = Prompt.of(name, instructions, message, answer=answer, check=check, history=history)
        ledger = self._exchange.ledger(prompt.size_bytes, tokens_max, booked)
        return PricedQuestion(self._exchange, prompt, ledger)

    async def close(self) -> None:
        """Close the connections of this model."""
        await self._exchange.close()


def open_model(
    settings: Settings,
    name: str = "",
    *,
    variable: str = MODEL_VARIABLE,
    request_s_max: float = REQUEST_S_MAX,
) -> LanguageModel | None:
    """Open a language model with the address, key, prices and limits of the settings.

    `name` is the model, by default that of INTERLOCK_MODEL: "openai:gpt-5.2", or, with an address,
    any model of an OpenAI-compatible server. `variable` is the setting that errors name. None for
    the embedded model, which generates no text. No request may take longer than `request_s_max`.
    Raises SettingsError.
    """
    spec = name or settings.model
    if is_embedded(spec):
        return None
    try:
        # Most processes ask no model, and the libraries take a second to import.
        from interlock.workers.gateways.llm.model import open_exchange  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise SettingsError(needed("A language model", missing)) from missing
    limits = ExchangeLimits(attempts_max=settings.model_attempts_max, request_s_max=request_s_max)
    return LanguageModel(
        open_exchange(
            spec,
            variable=variable,
            base_url=settings.model_base_url,
            api_key=settings.model_api_key,
            limits=limits,
            prices=settings.model_prices,
        )
    )
