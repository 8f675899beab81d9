"""A codon that is a model: its reports against the ledger of a provider that misbehaves."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from examples.provider import CONTEXT_TOO_LONG, Counted, Provider, Step
from interlock.kernel.machines.runs.values import FailureType
from interlock.workers.runs.codon import model_agent
from interlock.workers.runs.codon.conversation import (
    Conversation,
    Turn,
    read_conversation,
    write_conversation,
)
from interlock.workers.runs.codon.model_agent import FAILED, STOPPED
from interlock.workers.runs.codon.model_reports import Teller
from interlock.workers.runs.failure import failure_of
from interlock.workers.supervision.reports import AgentFailed, RejectedLine
from interlock.workers.supervision.session_reports import (
    ContextExceeded,
    CostsAdded,
    CostsFinal,
    MessageWritten,
    ResultReached,
    SessionOpened,
    SessionReport,
    TokenCounts,
)
from interlock.workers.supervision.session_streams import InterlockSessionStream

Kind = TypeVar("Kind")
TOKENS = Counted(input=200, output=50, cache_read=80, cache_creation=40)


@dataclass(frozen=True)
class Ran:
    """What one run of the program said and left."""

    code: int
    said: Sequence[SessionReport | RejectedLine]
    output: str
    errors: str

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [one for one in self.said if isinstance(one, kind)]

    def one(self, kind: type[Kind]) -> Kind:
        (found,) = self.all(kind)
        return found


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program in this process, which spares starting an interpreter for each run."""
    for name in os.environ:
        if name.startswith("INTERLOCK_"):
            monkeypatch.delenv(name)
    file = tmp_path / "reports"

    def once(prompt: str | bytes, provider: Provider | None = None, **variables: str) -> Ran:
        with file.open("wb") as reports, monkeypatch.context() as told:
            for name, value in environment(provider, reports.fileno(), **variables).items():
                told.setenv(name, value)
            raw = prompt if isinstance(prompt, bytes) else prompt.encode()
            told.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
            code = model_agent.main()
        captured = capsys.readouterr()
        return Ran(code, heard(file), captured.out, captured.err)

    return once


def environment(provider: Provider | None, descriptor: int, **variables: str) -> dict[str, str]:
    told = {
        "CODON_MODEL": "openai:gpt-4o-mini",
        "MODEL_BASE_URL": provider.url if provider else "http://127.0.0.1:9/v1",
        "MODEL_TIMEOUT_S": "20",
        "REPORT_FD": str(descriptor),
        **variables,
    }
    return {f"INTERLOCK_{name}": value for name, value in told.items()}


def heard(file: Path) -> list[SessionReport | RejectedLine]:
    speech = InterlockSessionStream()
    found = [one for line in file.read_bytes().splitlines() for one in speech.feed(line)]
    assert not [one for one in found if isinstance(one, RejectedLine)]
    return found


def added(ran: Ran) -> tuple[int, TokenCounts]:
    """Return the sum of what was reported on the way."""
    reports = ran.all(CostsAdded)
    total = reduce(TokenCounts.plus, (one.tokens for one in reports), TokenCounts())
    return sum(one.cost_micro for one in reports), total


def charged(provider: Provider) -> tuple[int, TokenCounts]:
    """Return the sum of the provider's own ledger."""
    kinds = [
        TokenCounts(
            one.tokens.input, one.tokens.output, one.tokens.cache_creation, one.tokens.cache_read
        )
        for one in provider.charges
    ]
    return provider.charged_micro, reduce(TokenCounts.plus, kinds, TokenCounts())


def start(provider: Provider, reports: int, **variables: str) -> subprocess.Popen[str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-m", "interlock.workers.runs.codon.model_agent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[reports],
        env={**keep, **environment(provider, reports, **variables)},
        cwd=Path(__file__).parents[4],
    )


def test_a_process_reports_its_work_and_costs_what_its_provider_charged(
    tmp_path: Path, run: Run
) -> None:
    kept = tmp_path / "conversation.json"
    steps = [Step(says="Twelve rows.", tokens=TOKENS), Step(says="Twelve, I said.")]
    with Provider(steps) as provider, (tmp_path / "said").open("wb") as reports:
        process = start(provider, reports.fileno(), CONVERSATION=str(kept))
        output, errors = process.communicate("How many rows?")
        first = Ran(process.returncode, heard(tmp_path / "said"), output, errors)
        after_first = charged(provider)
        second = run("How many?", provider, CONVERSATION=str(kept))

    assert (first.code, first.output, first.errors) == (0, "Twelve rows.\n", "")
    session, *others = first.said
    assert isinstance(session, SessionOpened)
    assert UUID(session.id).version == 4
    assert others == [
        MessageWritten("Twelve rows."),
        CostsAdded(72, TokenCounts(200, 50, 40, 80)),
        CostsFinal(72, TokenCounts(200, 50, 40, 80)),
        ResultReached("Twelve rows."),
    ]
    assert after_first == (72, TokenCounts(200, 50, 40, 80))

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


def test_a_process_that_is_stopped_books_the_request_that_may_be_billed(tmp_path: Path) -> None:
    with Provider([Step(hangs=True)]) as provider, (tmp_path / "said").open("wb") as reports:
        process = start(provider, reports.fileno())
        assert process.stdin is not None
        process.stdin.write("wait")
        process.stdin.close()
        process.stdin = None
        assert provider.was_asked.wait(30)
        process.send_signal(signal.SIGTERM)
        process.communicate()

    ran = Ran(process.returncode, heard(tmp_path / "said"), "", "")
    assert ran.code == STOPPED
    assert [type(one) for one in ran.said] == [SessionOpened, CostsAdded]
    # No more than the answer it asked for can cost, and no less than anything.
    assert 0 < ran.one(CostsAdded).cost_micro < 10_000


def test_the_prompt_may_come_from_a_file(tmp_path: Path, run: Run) -> None:
    (tmp_path / "prompt.md").write_text("From the file", "utf-8")
    with Provider() as provider:
        ran = run("from stdin", provider, PROMPT_FILE=str(tmp_path / "prompt.md"))

    assert ran.output == "You said: From the file\n"


def test_costs_equal_the_ledger_for_any_numbers_of_tokens(run: Run) -> None:
    draw = random.Random(6)
    for _ in range(5):
        counted = Counted(*(draw.randrange(1, 40_000) for _ in range(4)))
        with Provider([Step(says="x", tokens=counted)]) as provider:
            ran = run("count", provider)

        final = ran.one(CostsFinal)
        assert added(ran) == charged(provider) == (final.cost_micro, final.tokens)


def test_a_provider_that_is_busy_for_a_moment_is_asked_again(run: Run) -> None:
    busy = Step(status=429, retry_after="0", message="rate limit")
    with Provider([busy, Step(says="now", tokens=TOKENS, delay_s=0.01)]) as provider:
        ran = run("go", provider)

    assert (ran.code, len(provider.asked)) == (0, 2)
    assert added(ran) == charged(provider)
    assert ran.one(ResultReached).text == "now"


def test_an_empty_answer_is_asked_again_and_both_are_paid(tmp_path: Path, run: Run) -> None:
    kept = tmp_path / "conversation.json"
    write_conversation(kept, Conversation(session="s", turns=(Turn(role="user", text="before"),)))
    with Provider([Step(tokens=TOKENS), Step(says="now", tokens=TOKENS)]) as provider:
        ran = run("go", provider, CONVERSATION=str(kept))

    assert [len(ran.all(kind)) for kind in (CostsAdded, MessageWritten)] == [2, 1]
    assert added(ran) == charged(provider) == (144, TokenCounts(400, 100, 80, 160))
    # The history stands before the prompt once, also when the answer is corrected.
    texts = [str(one.get("content")) for one in provider.asked[1]["messages"]]
    assert texts.count("before") == 1
    assert texts.index("before") < texts.index("go")


@pytest.mark.parametrize(
    ("step", "kind", "retriable", "wish"),
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
    run: Run, step: Step, kind: FailureType, *, retriable: bool, wish: int | None
) -> None:
    with Provider([step]) as provider:
        ran = run("go", provider, MODEL_ATTEMPTS_MAX="1")

    failed = ran.one(AgentFailed)
    assert (ran.code, failed.retry_after_s) == (FAILED, wish)
    assert f"status {step.status} ({step.message})" in failed.error
    assert failed.error in ran.errors
    assert added(ran) == charged(provider) == (0, TokenCounts())
    reason = failure_of(failed.error, session_opened=True)
    assert (reason.type, reason.retriable) == (kind, retriable)


def test_a_conversation_that_is_too_long_says_so(tmp_path: Path, run: Run) -> None:
    kept = tmp_path / "conversation.json"
    write_conversation(kept, Conversation(session="s"))
    before = kept.read_bytes()
    with Provider([Step(status=400, message=CONTEXT_TOO_LONG)]) as provider:
        ran = run("go", provider, CONVERSATION=str(kept))

    assert ran.code == FAILED
    assert "maximum context length" in ran.one(ContextExceeded).detail
    assert b'{"type": "context_exceeded"' in (tmp_path / "reports").read_bytes()
    assert kept.read_bytes() == before


def test_a_line_that_goes_dead_costs_at_least_what_was_charged(run: Run) -> None:
    with Provider([Step(says="much", tokens=TOKENS, cuts=True)]) as provider:
        ran = run("go", provider, MODEL_ATTEMPTS_MAX="1")

    assert ran.one(AgentFailed)
    assert added(ran)[0] >= charged(provider)[0] > 0


def test_a_provider_that_hangs_is_given_up_and_booked(run: Run) -> None:
    with Provider([Step(hangs=True)]) as provider:
        ran = run("go", provider, MODEL_TIMEOUT_S="0.2")

    reason = failure_of(ran.one(AgentFailed).error, session_opened=True)
    assert reason.type is FailureType.TIMEOUT
    assert added(ran)[0] > 0


def test_what_may_be_billed_is_booked_with_the_conversation_that_was_sent(
    tmp_path: Path, run: Run
) -> None:
    kept = tmp_path / "conversation.json"
    long = Turn(role="user", text="x" * 1_000_000)
    write_conversation(kept, Conversation(session="s", turns=(long,)))
    with Provider([Step(hangs=True)]) as provider:
        ran = run("go", provider, CONVERSATION=str(kept), MODEL_TIMEOUT_S="0.2")

    # No token is shorter than a byte: a million of them at 0.15 dollars.
    assert added(ran)[0] > 150_000


def test_an_answer_without_its_usage_is_booked_once_at_the_most_it_can_cost(run: Run) -> None:
    with Provider([Step(says="free?", tokens=Counted())]) as provider:
        ran = run("go", provider)

    assert ran.one(CostsAdded).tokens == TokenCounts()
    assert ran.one(CostsAdded).cost_micro > 1_000


def test_a_model_on_no_price_list_costs_nothing_and_says_so(run: Run) -> None:
    with Provider([Step(says="ok", tokens=TOKENS)]) as provider:
        ran = run("go", provider, CODON_MODEL="deployment-model")

    assert ran.code == 0
    assert added(ran) == (0, TokenCounts(200, 50, 40, 80))
    assert ran.errors == "the price of deployment-model is on no list: its cost counts as 0\n"


def test_an_answer_of_any_length_and_characters_is_reported_in_one_line(run: Run) -> None:
    answer = "\x01" * 30_000
    with Provider([Step(says=answer, tokens=TOKENS)]) as provider:
        ran = run("go", provider)

    assert ran.output == answer + "\n"
    assert ran.one(ResultReached).text == ran.one(MessageWritten).text
    assert ran.one(ResultReached).text.endswith("\x01...")


def test_who_is_left_by_its_reader_ends_and_asks_nothing(run: Run) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with Provider() as provider:
        ran = run("go", provider, REPORT_FD=str(writer))
    os.close(writer)

    assert (ran.code, ran.output, provider.asked) == (FAILED, "", [])
    assert "nobody reads what this codon says" in ran.errors


def test_who_reports_to_nobody_still_answers(run: Run) -> None:
    with Provider() as provider:
        ran = run("go", provider, REPORT_FD="")

    assert (ran.code, ran.output, ran.said) == (0, "You said: go\n", [])


@pytest.mark.parametrize(
    ("wish_s", "told"),
    [(None, None), (0.2, 1), (7.0, 7), (86_400.0, 86_400), (1e9, None), (-1, None)],
)
def test_a_wish_is_told_in_whole_seconds_and_never_shorter(
    tmp_path: Path, wish_s: float | None, told: int | None
) -> None:
    with (tmp_path / "said").open("wb") as reports:
        Teller(reports.fileno()).tell_failed("busy", retry_after_s=wish_s)

    assert heard(tmp_path / "said") == [AgentFailed("busy", retry_after_s=told)]


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
def test_what_is_wrong_with_the_order_is_a_failure_before_anything_is_asked(
    run: Run, prompt: str | bytes, variables: dict[str, str], problem: str
) -> None:
    with Provider() as provider:
        ran = run(prompt, **{"MODEL_BASE_URL": provider.url, **variables})

    assert (ran.code, provider.asked, ran.output) == (FAILED, [], "")
    assert problem in ran.one(AgentFailed).error
    assert problem in ran.errors
    assert len(ran.said) == 1


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
    tmp_path: Path, run: Run, content: str
) -> None:
    kept = tmp_path / "conversation.json"
    kept.write_text(content)
    with Provider() as provider:
        ran = run("go", provider, CONVERSATION=str(kept))

    assert (ran.code, provider.asked, kept.read_text()) == (FAILED, [], content)
    assert "holds no conversation that can go on" in ran.one(AgentFailed).error


def test_a_conversation_that_cannot_be_kept_is_a_failure_with_its_costs(
    tmp_path: Path, run: Run
) -> None:
    with Provider([Step(says="x", tokens=TOKENS)]) as provider:
        ran = run("go", provider, CONVERSATION=str(tmp_path / "no" / "folder.json"))

    assert ran.code == FAILED
    assert "the conversation cannot be kept" in ran.one(AgentFailed).error
    assert added(ran) == charged(provider)
    assert not ran.all(ResultReached)
