"""The process of a codon that names a model and a prompt: asks once, and reports as agents do.

It runs in the codon's process, told by the environment; it decides nothing about the codon.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage

from interlock.kernel.errors import CallError
from interlock.workers.config import PREFIX, Settings, SettingsError, read_settings
from interlock.workers.gateways.llm.exchange import Exchange, ExchangeLimits
from interlock.workers.gateways.llm.model import is_embedded, open_exchange
from interlock.workers.gateways.llm.outcome import ConfigurationError, Unanswered
from interlock.workers.processes.agent.process import REPORT_FD
from interlock.workers.runs.codon.conversation import (
    Conversation,
    read_conversation,
    write_conversation,
)
from interlock.workers.runs.codon.model_reports import Teller, TellingLedger
from interlock.workers.runs.paths import CONVERSATION, MODEL
from interlock.workers.supervision.session_reports import is_context_exceeded

PROMPT_FILE = f"{PREFIX}PROMPT_FILE"
ANSWER_TOKENS_MAX = 8_192
FAILED = 1
STOPPED = 128 + signal.SIGTERM


class OrderError(CallError):
    """The codon's process is not told what it needs. Correct the step of the plan."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked of which model, and where the conversation is kept; None is nowhere."""

    model: str
    prompt: str
    conversation: Path | None


def main() -> int:
    """Do what the environment tells, and return the exit code."""
    descriptor = os.environ.get(REPORT_FD, "")
    teller = Teller(int(descriptor) if descriptor.isdigit() else None)
    try:
        settings = read_settings()
        order = read_order(os.environ)
        return asyncio.run(fulfil(order, settings, teller))
    except (CallError, ConfigurationError, SettingsError) as refusal:
        complain(str(refusal))
        teller.tell_failed(str(refusal), retry_after_s=None)
        return FAILED
    except BrokenPipeError as error:
        complain(f"nobody reads what this codon says: {error}")
        return FAILED
    except asyncio.CancelledError:
        return STOPPED


def read_order(variables: Mapping[str, str]) -> Order:
    """Read what this process is told; the prompt from its file, or else from stdin."""
    model = variables.get(MODEL, "")
    if not model or is_embedded(model):
        raise OrderError(f"{MODEL}={model} generates no text; name a language model")
    file, conversation = variables.get(PROMPT_FILE), variables.get(CONVERSATION)
    try:
        raw = Path(file).read_bytes() if file else sys.stdin.buffer.read()
        prompt = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise OrderError(f"the prompt cannot be read: {error}") from error
    if not prompt.strip():
        raise OrderError("the prompt is empty; give the step of the plan one")
    return Order(model, prompt, Path(conversation) if conversation else None)


async def fulfil(order: Order, settings: Settings, teller: Teller) -> int:
    """Ask the model, report all of it, and return the exit code."""
    task = asyncio.current_task()
    assert task is not None
    # A request that is given up may be billed: it has to be booked before the process is over.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    before = read_conversation(order.conversation)
    exchange = open_exchange(
        order.model,
        variable=MODEL,
        base_url=settings.model_base_url,
        api_key=settings.model_api_key,
        limits=ExchangeLimits(
            attempts_max=settings.model_attempts_max, request_s_max=settings.model_timeout_s
        ),
    )
    teller.tell("session", id=before.session)
    try:
        return await _asked(order, before, exchange, settings.model_timeout_s, teller)
    finally:
        await exchange.close()


async def _asked(
    order: Order, before: Conversation, exchange: Exchange, timeout_s: float, teller: Teller
) -> int:
    size = before.size_bytes + len(order.prompt.encode())
    ledger = TellingLedger(exchange.bound(size, ANSWER_TOKENS_MAX), teller)
    said = await exchange.ask(_agent(), order.prompt, before, ledger, timeout_s=timeout_s)
    if not ledger.usage.priced:
        complain(f"the price of {exchange.name} is on no list: its cost counts as 0")
    ledger.tell_final()
    if isinstance(said, Unanswered):
        complain(said.detail)
        if is_context_exceeded(said.detail):
            teller.tell_text("context_exceeded", "detail", said.detail)
        else:
            teller.tell_failed(said.detail, retry_after_s=said.retry_after_s)
        return FAILED
    if order.conversation is not None:
        try:
            write_conversation(order.conversation, before.after(order.prompt, said))
        except OSError as error:
            raise OrderError(f"the conversation cannot be kept: {error}") from error
    sys.stdout.write(said.encode(errors="replace").decode() + "\n")
    sys.stdout.flush()
    teller.tell_text("result", "text", said)
    return 0


def complain(problem: str) -> None:
    """Say on stderr what is wrong."""
    sys.stderr.write(problem + "\n")


def _agent() -> Agent[Conversation, str]:
    return Agent(
        output_type=str,
        deps_type=Conversation,
        name="codon",
        capabilities=[ProcessHistory(_with_history)],
    )


def _with_history(
    context: RunContext[Conversation], messages: list[ModelMessage]
) -> list[ModelMessage]:
    """Put the conversation so far before the prompt; what corrects an answer has it already."""
    return [*context.deps.messages(), *messages] if len(messages) == 1 else messages


if __name__ == "__main__":
    sys.exit(main())
