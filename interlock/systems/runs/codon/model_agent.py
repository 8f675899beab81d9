"""The agent process of a codon with a model and a prompt: asks the model once, and reports.

Its environment names the model, the file of the conversation and the descriptor for reports. It
writes the same reports as any other agent, so the supervisor treats it like one.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock import CallError, Settings, read_settings
from interlock.system.agents import ReportWriter
from interlock.system.models import LanguageModel, Unanswered, open_model
from interlock.system.settings import SettingsError
from interlock.systems.runs.codon.conversation import (
    Conversation,
    read_conversation,
    write_conversation,
)
from interlock.systems.runs.codon.model_reports import BookingReports
from interlock.systems.runs.failure import is_context_exceeded
from interlock.systems.runs.paths import (
    CONVERSATION_VARIABLE,
    COSTS_LIMITED_VARIABLE,
    MODEL_VARIABLE,
)

PROMPT_FILE = "INTERLOCK_PROMPT_FILE"
ANSWER_TOKENS_MAX = 8_192
FAILED = 1
STOPPED = 128 + signal.SIGTERM


class ModelCodonError(CallError):
    """The environment of the codon's process lacks something. Correct the step of the plan."""


@dataclass(frozen=True, slots=True)
class CodonPrompt:
    """A model, its prompt, and the file of the conversation; without a file none is kept.

    `capped`: a budget limits the costs, so a model without a known price is not asked.
    """

    model: str
    prompt: str
    conversation: Path | None
    capped: bool


def main() -> int:
    """Ask the model that the environment names, and return the exit code."""
    reports = ReportWriter()
    try:
        settings = read_settings()
        prompt = read_prompt(os.environ)
        with reports.traced(settings, "codon"):
            return asyncio.run(ask_model(prompt, settings, reports))
    except (CallError, SettingsError) as refusal:
        print_error(str(refusal))
        reports.failed(str(refusal))
        return FAILED
    except BrokenPipeError as error:
        print_error(f"the reader of this codon's reports is gone: {error}")
        return FAILED
    except asyncio.CancelledError:
        return STOPPED


def read_prompt(variables: Mapping[str, str]) -> CodonPrompt:
    """Read the model and the conversation from variables, the prompt from its file or stdin."""
    model = variables.get(MODEL_VARIABLE, "")
    file, conversation = variables.get(PROMPT_FILE), variables.get(CONVERSATION_VARIABLE)
    try:
        raw = Path(file).read_bytes() if file else sys.stdin.buffer.read()
        prompt = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelCodonError(f"the prompt cannot be read: {error}") from error
    if not prompt.strip():
        raise ModelCodonError("the prompt is empty; give the step of the plan one")
    capped = bool(variables.get(COSTS_LIMITED_VARIABLE))
    return CodonPrompt(model, prompt, Path(conversation) if conversation else None, capped)


async def ask_model(prompt: CodonPrompt, settings: Settings, reports: ReportWriter) -> int:
    """Ask the model, report its answer and its costs, and return the exit code.

    Raises SettingsError where a budget limits the costs and the price of the model is not known.
    """
    task = asyncio.current_task()
    assert task is not None
    # A cancelled request may be billed, so its cost is booked before the process ends.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    conversation = read_conversation(prompt.conversation)
    timeout_s = settings.model_timeout_s
    model = prompt.model and open_model(
        settings, prompt.model, variable=MODEL_VARIABLE, request_s_max=timeout_s
    )
    if not model:
        raise ModelCodonError(
            f"{MODEL_VARIABLE}={prompt.model} generates no text; name a language model"
        )
    reports.write("session", id=conversation.session)
    try:
        return await _ask(prompt, conversation, model, timeout_s, reports)
    finally:
        await model.close()


async def _ask(
    prompt: CodonPrompt,
    conversation: Conversation,
    model: LanguageModel,
    timeout_s: float,
    reports: ReportWriter,
) -> int:
    bookings = BookingReports(reports)
    question = model.question(
        "codon",
        "",
        prompt.prompt,
        answer=str,
        tokens_max=ANSWER_TOKENS_MAX,
        history=[(turn.role, turn.text) for turn in conversation.turns],
        booked=bookings.report,
    )
    if prompt.capped:
        question.bound_micro()
    found = await question.ask(timeout_s=timeout_s)
    if not found.usage.priced:
        print_error(f"the price of {model.name} is not known: its cost counts as 0")
    bookings.report_total()
    if isinstance(found, Unanswered):
        print_error(found.detail)
        if is_context_exceeded(found.detail):
            reports.write("context_exceeded", detail=found.detail)
        else:
            reports.failed(found.detail, retry_after_s=found.retry_after_s)
        return FAILED
    answer = found.answer
    if prompt.conversation is not None:
        try:
            write_conversation(prompt.conversation, conversation.after(prompt.prompt, answer))
        except OSError as error:
            raise ModelCodonError(f"the conversation cannot be kept: {error}") from error
    sys.stdout.write(answer.encode(errors="replace").decode() + "\n")
    sys.stdout.flush()
    reports.write("result", text=answer)
    return 0


def print_error(problem: str) -> None:
    """Write a problem to stderr."""
    sys.stderr.write(problem + "\n")


if __name__ == "__main__":
    # The interpreter would search all objects for garbage at its end.
    atexit.register(gc.freeze)
    sys.exit(main())
