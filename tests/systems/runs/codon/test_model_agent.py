"""The agent of a model's codon: its reports against the ledger of a provider that misbehaves."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest
from opentelemetry.trace import NoOpTracer

from examples.provider import CONTEXT_TOO_LONG, Counted, Provider, Step
from interlock.kernel.reason import TransitionReason
from interlock.systems.runs.codon import model_agent
from interlock.systems.runs.codon.conversation import (
    Conversation,
    ConversationMessage,
    read_conversation,
    write_conversation,
)
from interlock.systems.runs.codon.model_agent import FAILED, STOPPED
from interlock.systems.runs.failure import classify_failure
from interlock.systems.runs.machines.values import FailureType
from interlock.workers.config import Settings
from interlock.workers.engine.trace_context import Tracing
from interlock.workers.supervision.reports import (
    AgentFailed,
    MessageWritten,
    RejectedLine,
    Report,
    SessionOpened,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)
from interlock.workers.supervision.streams.interlock import InterlockStream, ReportKinds
from interlock.workers.supervision.work_command import Command
from tests.fakes.span_receiver import span_receiver

ReportType = TypeVar("ReportType")
# Variables that tell a codon's process about its work, and are no settings.
ABOUT_WORK = ("COSTS_LIMITED", "CODON_MODEL", "CONVERSATION", "PROMPT_FILE")
# The program, with as much time for its last spans as a slow computer needs.
PROGRAM = """
import runpy
from interlock.workers.engine import trace_context
trace_context.SEND_S = 60
name = "interlock.systems.runs.codon.model_agent"
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TOKENS = Counted(input=200, output=50, cache_read=80, cache_creation=40)


@dataclass(frozen=True)
class ProgramRun:
    """One run of the program: its exit code, reports, output and errors."""

    code: int
    reports: Sequence[Report | RejectedLine]
    output: str
    errors: str

    def all(self, kind: type[ReportType]) -> list[ReportType]:
        return [one for one in self.reports if isinstance(one, kind)]

    def one(self, kind: type[ReportType]) -> ReportType:
        (found,) = self.all(kind)
        return found


RunProgram = Callable[..., ProgramRun]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunProgram:
    """Run the program in this process, which spares starting an interpreter for each run."""
    for name in os.environ:
        if name.startswith("INTERLOCK_"):
            monkeypatch.delenv(name)
    file = tmp_path / "reports"

    def once(prompt: str | bytes, provider: Provider | None = None, **variables: str) -> ProgramRun:
        with file.open("wb") as reports, monkeypatch.context() as patch:
            for name, value in environment(provider, reports.fileno(), **variables).items():
                patch.setenv(name, value)
            raw = prompt if isinstance(prompt, bytes) else prompt.encode()
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
            code = model_agent.main()
        captured = capsys.readouterr()
        return ProgramRun(code, read_reports(file), captured.out, captured.err)

    return once


def environment(provider: Provider | None, descriptor: int, **variables: str) -> dict[str, str]:
    values = {
        "CODON_MODEL": "openai:gpt-4o-mini",
        "MODEL_BASE_URL": provider.url if provider else "http://127.0.0.1:9/v1",
        "MODEL_TIMEOUT_S": "60",
        "REPORT_FD": str(descriptor),
        "WORK_VARIABLES": ",".join(f"INTERLOCK_{name}" for name in ABOUT_WORK),
        **variables,
    }
    return {f"INTERLOCK_{name}": value for name, value in values.items()}


def read_reports(file: Path) -> list[Report | RejectedLine]:
    stream = InterlockStream(ReportKinds.SESSION)
    found = [one for line in file.read_bytes().splitlines() for one in stream.feed(line)]
    assert not [one for one in found if isinstance(one, RejectedLine)]
    return found


def added(ran: ProgramRun) -> tuple[int, UsedTokens]:
    """Return the sum of the costs that were reported one by one."""
    reports = ran.all(UsageAdded)
    total = reduce(UsedTokens.plus, (one.tokens for one in reports), UsedTokens())
    return sum(one.cost_micro for one in reports), total


def charged(provider: Provider) -> tuple[int, UsedTokens]:
    """Return the sum of the provider's own ledger."""
    kinds = [
        UsedTokens(
            one.tokens.input, one.tokens.output, one.tokens.cache_creation, one.tokens.cache_read
        )
        for one in provider.charges
    ]
    return provider.charged_micro, reduce(UsedTokens.plus, kinds, UsedTokens())


def start(
    provider: Provider, reports: int, others: Mapping[str, str] | None = None, **variables: str
) -> subprocess.Popen[str]:
    """Start the program, with these variables INTERLOCK_* and the others as they are."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[reports],
        env={**keep, **environment(provider, reports, **variables), **(others or {})},
        cwd=Path(__file__).parents[4],
    )


def test_a_process_reports_its_work_its_costs_and_its_spans(
    tmp_path: Path, run: RunProgram
) -> None:
    kept = tmp_path / "conversation.json"
    steps = [Step(says="Twelve rows.", tokens=TOKENS), Step(says="Twelve, I said.")]
    with (
        span_receiver() as receiver,
        Provider(steps) as provider,
        (tmp_path / "reports").open("wb") as reports,
    ):
        exporter = {"ENDPOINT": receiver.url, "TIMEOUT": "60"}
        traced = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in exporter.items()}
        traced["TRACEPARENT"] = PARENT
        process = start(provider, reports.fileno(), traced, TRACES="otlp", CONVERSATION=str(kept))
        output, errors = process.communicate("How many rows?")
        first = ProgramRun(process.returncode, read_reports(tmp_path / "reports"), output, errors)
        after_first = charged(provider)
        second = run("How many?", provider, CONVERSATION=str(kept))

    assert (first.code, first.output, first.errors) == (0, "Twelve rows.\n", "")
    session, *others = first.reports
    assert isinstance(session, SessionOpened)
    assert UUID(session.id).version == 4
    assert others == [
        MessageWritten("Twelve rows."),
        UsageAdded(72, UsedTokens(200, 50, 40, 80)),
        UsageTotal(72, UsedTokens(200, 50, 40, 80), final=True),
        WorkFinished("Twelve rows."),
    ]
    assert after_first == (72, UsedTokens(200, 50, 40, 80))
    call, agent = receiver.spans
    assert (call.name, agent.name) == ("chat gpt-4o-mini", "invoke_agent codon")
    assert [f"{one.trace_id.hex()}-{one.parent_span_id.hex()}" for one in receiver.spans] == [
        f"{call.trace_id.hex()}-{agent.span_id.hex()}",
        PARENT[3:-3],
    ]
    assert "rows" not in str(call.attributes), "a trace holds nothing of what was said"

    assert second.one(SessionOpened) == session
    assert [(one["role"], one["content"]) for one in provider.asked[1]["messages"]] == [
        ("user", "How many rows?"),
        ("assistant", "Twelve rows."),
        ("user", "How many?"),
    ]
    assert [turn.text for turn in read_conversation(kept).turns] == [
        "How many rows?",
        "Twelve rows.",
        "How many?",
        "Twelve, I said.",
    ]


def test_a_codon_that_is_stopped_books_the_request_that_may_be_billed(run: RunProgram) -> None:
    with Provider([Step(hangs=True)]) as provider:

        def stop() -> None:
            # Only the program that asks the provider catches the signal.
            if provider.was_asked.wait(180):
                os.kill(os.getpid(), signal.SIGTERM)

        stopping = threading.Thread(target=stop)
        stopping.start()
        ran = run("wait", provider)
        stopping.join()

    assert ran.code == STOPPED
    assert [type(one) for one in ran.reports] == [SessionOpened, UsageAdded]
    # More than nothing, and no more than the longest answer can cost.
    assert 0 < ran.one(UsageAdded).cost_micro < 10_000


def test_the_prompt_may_come_from_a_file(tmp_path: Path, run: RunProgram) -> None:
    (tmp_path / "prompt.md").write_text("From the file", "utf-8")
    with Provider() as provider:
        ran = run("from stdin", provider, PROMPT_FILE=str(tmp_path / "prompt.md"))

    assert ran.output == "You said: From the file\n"


def test_costs_equal_the_ledger_for_any_numbers_of_tokens(run: RunProgram) -> None:
    draw = random.Random(6)
    for _ in range(5):
        counted = Counted(*(draw.randrange(1, 40_000) for _ in range(4)))
        with Provider([Step(says="x", tokens=counted)]) as provider:
            ran = run("count", provider)

        final = ran.one(UsageTotal)
        assert added(ran) == charged(provider) == (final.cost_micro, final.tokens)


def test_a_provider_that_is_busy_for_a_moment_is_asked_again(run: RunProgram) -> None:
    busy = Step(status=429, retry_after="0", message="rate limit")
    with Provider([busy, Step(says="now", tokens=TOKENS, delay_s=0.01)]) as provider:
        ran = run("go", provider)

    assert (ran.code, len(provider.asked)) == (0, 2)
    assert added(ran) == charged(provider)
    assert ran.one(WorkFinished).summary == "now"


def test_an_empty_answer_is_asked_again_and_both_are_paid(tmp_path: Path, run: RunProgram) -> None:
    kept = tmp_path / "conversation.json"
    write_conversation(
        kept, Conversation(session="s", turns=(ConversationMessage(role="user", text="before"),))
    )
    with Provider([Step(tokens=TOKENS), Step(says="now", tokens=TOKENS)]) as provider:
        ran = run("go", provider, CONVERSATION=str(kept))

    assert [len(ran.all(kind)) for kind in (UsageAdded, MessageWritten)] == [2, 1]
    assert added(ran) == charged(provider) == (144, UsedTokens(400, 100, 80, 160))
    # The history comes before the prompt once, also where the answer is corrected.
    texts = [str(one.get("content")) for one in provider.asked[1]["messages"]]
    assert texts.count("before") == 1
    assert texts.index("before") < texts.index("go")


@pytest.mark.parametrize(
    ("step", "failure_type", "retriable", "delay_s"),
    [
        (
            Step(status=429, retry_after="7", message="rate limit"),
            FailureType.RATE_LIMIT,
            True,
            7,
        ),
        (Step(status=429, message="insufficient_quota"), FailureType.API_ERROR, False, None),
        (Step(status=500), FailureType.API_ERROR, True, None),
        (Step(status=401, message="no such key"), FailureType.API_ERROR, False, None),
    ],
)
def test_a_refusal_is_a_failure_that_costs_nothing(
    run: RunProgram,
    step: Step,
    failure_type: FailureType,
    *,
    retriable: bool,
    delay_s: int | None,
) -> None:
    with Provider([step]) as provider:
        ran = run("go", provider, MODEL_ATTEMPTS_MAX="1")

    failed = ran.one(AgentFailed)
    assert (ran.code, failed.retry_after_s) == (FAILED, delay_s)
    assert f"status {step.status} ({step.message})" in failed.error
    assert failed.error in ran.errors
    assert added(ran) == charged(provider) == (0, UsedTokens())
    reason = classify_failure(failed.error, session_opened=True)
    assert (reason.type, reason.retriable) == (failure_type, retriable)


def test_a_conversation_that_is_too_long_says_so(tmp_path: Path, run: RunProgram) -> None:
    kept = tmp_path / "conversation.json"
    write_conversation(kept, Conversation(session="s"))
    before = kept.read_bytes()
    with Provider([Step(status=400, message=CONTEXT_TOO_LONG)]) as provider:
        ran = run("go", provider, CONVERSATION=str(kept))

    assert ran.code == FAILED
    failed = ran.one(AgentFailed)
    assert "maximum context length" in failed.error
    assert failed.reason is TransitionReason.PROMPT_TOO_LONG
    assert b'{"type": "context_exceeded"' in (tmp_path / "reports").read_bytes()
    assert kept.read_bytes() == before


def test_a_line_that_goes_dead_costs_at_least_what_was_charged(run: RunProgram) -> None:
    with Provider([Step(says="much", tokens=TOKENS, cuts=True)]) as provider:
        ran = run("go", provider, MODEL_ATTEMPTS_MAX="1")

    assert ran.one(AgentFailed)
    assert added(ran)[0] >= charged(provider)[0] > 0


def given_up(run: RunProgram, **variables: str) -> ProgramRun:
    """Ask a provider that hangs, for as long as this computer needs to begin with a request."""
    for timeout_s in ("0.2", "2", "60"):
        with Provider([Step(hangs=True)]) as provider:
            ran = run("go", provider, MODEL_TIMEOUT_S=timeout_s, **variables)
        if added(ran)[0]:
            break
    return ran


def test_a_provider_that_hangs_is_given_up_and_booked(run: RunProgram) -> None:
    ran = given_up(run)

    reason = classify_failure(ran.one(AgentFailed).error, session_opened=True)
    assert reason.type is FailureType.TIMEOUT
    assert added(ran)[0] > 0


def test_what_may_be_billed_is_booked_with_the_conversation_that_was_sent(
    tmp_path: Path, run: RunProgram
) -> None:
    kept = tmp_path / "conversation.json"
    long = ConversationMessage(role="user", text="x" * 1_000_000)
    write_conversation(kept, Conversation(session="s", turns=(long,)))
    ran = given_up(run, CONVERSATION=str(kept))

    # A token has at least one byte: at most a million of them, at 0.15 dollars.
    assert added(ran)[0] > 150_000


def test_an_answer_without_its_usage_is_booked_once_at_the_most_it_can_cost(
    run: RunProgram,
) -> None:
    with Provider([Step(says="free?", tokens=Counted())]) as provider:
        ran = run("go", provider)

    assert ran.one(UsageAdded).tokens == UsedTokens()
    assert ran.one(UsageAdded).cost_micro > 1_000


def test_a_model_on_no_price_list_costs_nothing_and_says_so(run: RunProgram) -> None:
    with Provider([Step(says="ok", tokens=TOKENS)]) as provider:
        ran = run("go", provider, CODON_MODEL="deployment-model")

    assert ran.code == 0
    assert added(ran) == (0, UsedTokens(200, 50, 40, 80))
    assert ran.errors == "the price of deployment-model is not known: its cost counts as 0\n"


def test_under_a_budget_a_model_without_a_price_is_not_asked(run: RunProgram) -> None:
    with Provider([Step(says="ok", tokens=TOKENS)]) as provider:
        limited = {"CODON_MODEL": "deployment-model", "COSTS_LIMITED": "1"}
        refused = run("go", provider, **limited)
        priced = run("go", provider, **limited, MODEL_PRICES="deployment-model=1/2")

    assert (refused.code, len(provider.asked)) == (1, 1)
    assert "set INTERLOCK_MODEL_PRICES=deployment-model=INPUT/OUTPUT" in refused.errors
    assert (priced.code, priced.errors, added(priced)[0]) == (0, "", 420)


def test_an_answer_of_any_length_and_characters_is_reported_in_one_line(run: RunProgram) -> None:
    answer = "\x01" * 30_000
    with Provider([Step(says=answer, tokens=TOKENS)]) as provider:
        ran = run("go", provider)

    assert ran.output == answer + "\n"
    assert ran.one(WorkFinished).summary == ran.one(MessageWritten).text
    assert ran.one(WorkFinished).summary.endswith("\x01...")


def test_an_agent_whose_reader_is_gone_ends_and_asks_nothing(run: RunProgram) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with Provider() as provider:
        ran = run("go", provider, REPORT_FD=str(writer))
    os.close(writer)

    assert (ran.code, ran.output, provider.asked) == (FAILED, "", [])
    assert "the reader of this codon's reports is gone" in ran.errors


def test_an_agent_without_a_descriptor_still_answers(run: RunProgram) -> None:
    with Provider() as provider:
        ran = run("go", provider, REPORT_FD="")

    assert (ran.code, ran.output, ran.reports) == (0, "You said: go\n", [])


@pytest.mark.parametrize(
    ("prompt", "variables", "problem"),
    [
        ("go", {"CODON_MODEL": ""}, "INTERLOCK_CODON_MODEL= generates no text; name a language"),
        ("go", {"CODON_MODEL": "embedded:wordllama"}, "generates no text"),
        ("go", {"MODEL_BASE_URL": "localhost"}, "does not start with http://"),
        ("go", {"MODEL_TIMEOUT_S": "soon"}, "INTERLOCK_MODEL_TIMEOUT_S='soon'"),
        ("go", {"CODON_MODLE": "x"}, "INTERLOCK_CODON_MODLE is no setting"),
        (" \n", {}, "the prompt is empty"),
        (b"\xff", {}, "the prompt cannot be read"),
        ("go", {"PROMPT_FILE": "nowhere.md"}, "the prompt cannot be read"),
    ],
)
def test_a_wrong_variable_or_prompt_is_a_failure_before_the_model_is_asked(
    run: RunProgram, prompt: str | bytes, variables: dict[str, str], problem: str
) -> None:
    with Provider() as provider:
        ran = run(prompt, **{"MODEL_BASE_URL": provider.url, **variables})

    assert (ran.code, provider.asked, ran.output) == (FAILED, [], "")
    assert problem in ran.one(AgentFailed).error
    assert problem in ran.errors
    assert len(ran.reports) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"session": ""}',
        '{"session": "s", "turns": [{"role": "system", "text": "x"}]}',
        json.dumps({"session": "s", "turns": [], "model": "x"}),
    ],
)
def test_a_file_that_is_no_conversation_is_refused_and_kept(
    tmp_path: Path, run: RunProgram, content: str
) -> None:
    kept = tmp_path / "conversation.json"
    kept.write_text(content)
    with Provider() as provider:
        ran = run("go", provider, CONVERSATION=str(kept))

    assert (ran.code, provider.asked, kept.read_text()) == (FAILED, [], content)
    assert "holds no conversation that can be continued" in ran.one(AgentFailed).error


def test_a_conversation_that_cannot_be_kept_is_a_failure_with_its_costs(
    tmp_path: Path, run: RunProgram
) -> None:
    (tmp_path / "file").touch()
    with Provider([Step(says="x", tokens=TOKENS)]) as provider:
        ran = run("go", provider, CONVERSATION=str(tmp_path / "file" / "kept.json"))

    assert ran.code == FAILED
    assert "the conversation cannot be kept" in ran.one(AgentFailed).error
    assert added(ran) == charged(provider)
    assert not ran.all(WorkFinished)


def test_the_process_may_send_spans_where_its_supervisor_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = Command(arguments=(), folder=Path(), sandbox=None, variables={})
    assert "INTERLOCK_TRACES" not in command.trusted("agent", Settings()).environment

    monkeypatch.setattr(Tracing, "tracer", NoOpTracer())

    assert command.trusted("agent", Settings()).environment["INTERLOCK_TRACES"] == "otlp"
