from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from interlock.workers.gateways.llm.outcome import Answered, Unanswered
from tests.fakes.openai_server import Asked, OpenAIServer, Reply, says
from tests.fakes.sleeper import Sleeper
from tests.systems.threads.inference.questions import ACTION, ask, model_at, question

USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
WHERE: tuple[tuple[str | int, ...], ...] = (
    ("id",),
    ("object",),
    ("created",),
    ("model",),
    ("choices",),
    ("choices", 0),
    ("choices", 0, "index"),
    ("choices", 0, "finish_reason"),
    ("choices", 0, "message"),
    ("choices", 0, "message", "role"),
    ("choices", 0, "message", "content"),
    ("choices", 0, "message", "tool_calls"),
    ("choices", 0, "message", "tool_calls", 0),
    ("choices", 0, "message", "tool_calls", 0, "id"),
    ("choices", 0, "message", "tool_calls", 0, "type"),
    ("choices", 0, "message", "tool_calls", 0, "function"),
    ("choices", 0, "message", "tool_calls", 0, "function", "name"),
    ("choices", 0, "message", "tool_calls", 0, "function", "arguments"),
    ("usage",),
    ("usage", "prompt_tokens"),
    ("usage", "completion_tokens"),
    ("usage", "total_tokens"),
    ("usage", "prompt_tokens_details"),
    ("usage", "prompt_tokens_details", "cached_tokens"),
    ("usage", "completion_tokens_details", "reasoning_tokens"),
)
WEIRD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**20,
    "",
    "x",
    "\ud800",
    [],
    [None],
    {},
    {"a": None},
)


def test_however_malformed_an_answer_there_is_one_typed_outcome() -> None:
    change: list[tuple[tuple[str | int, ...], Any]] = []

    def reply(asked: Asked) -> Reply:
        script = says(ACTION, usage=USAGE)
        assert not isinstance(script, Reply)
        document = json.loads(script(asked).body)
        path, value = change[-1]
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        return Reply(json.dumps(document).encode())

    @given(path=st.sampled_from(WHERE), value=st.sampled_from(WEIRD))
    @example(path=("usage", "prompt_tokens"), value="x")
    def check(path: tuple[str | int, ...], value: object) -> None:
        change.append((path, value))
        outcome = ask(model, question())

        assert isinstance(outcome, Answered | Unanswered)
        assert 0 < outcome.cost_micro <= estimate
        assert outcome.usage.requests in {1, 2}

    with OpenAIServer(otherwise=reply) as server:
        model = model_at(server, sleep=Sleeper())
        estimate = model.estimate_micro(question())
        check()
