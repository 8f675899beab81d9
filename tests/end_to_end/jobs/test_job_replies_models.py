"""Models and capabilities as workers and reviewers of jobs: their replies and costs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.record import Record
from interlock.systems.jobs.manifest import manifest_now
from interlock.systems.jobs.model import question_of
from interlock.workers.config import Settings
from interlock.workers.gateways.llm.language_model import open_model
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.jobs.bench import ASKS_A_PERSON, Bench, answers, last, triggers
from tests.end_to_end.threads import capabilities
from tests.fakes.openai_server import Asked, OpenAIServer, Reply, Script, hangs, refuses, says

PRICED = "openai:gpt-4o-mini"
ORDER = re.compile(r"BEGIN \w+ order\n(.*?)\nEND \w+ order", re.DOTALL)
POEM = "Roses are red"
ONE_ANSWER = 36  # micro-dollars for the tokens that the scripted server reports


def polite(*, text: str) -> dict[str, Any]:
    """Return a valid reply of a worker."""
    return {"action": "STUCK", "summary": text, "cost": 0.25}


def dear(*, record_id: str, key: str, go: str) -> dict[str, Any]:
    """Wait for the file `go` in a thread, which cannot be stopped, then report the cost."""
    capabilities.record_call("start", record_id, key)
    while not Path(go).exists():
        time.sleep(0.02)
    return {"action": "COMPLETED", "cost": 0.25}


def rude() -> dict[str, Any]:
    """Return an invalid reply of a worker."""
    return {"action": "STUCK", "why": "it is a secret"}


# The workers of this deployment load these capabilities from this module.
CAPABILITIES = tuple(
    capabilities.declared(one.__name__, one, idempotent=True) for one in (polite, dear, rude)
)


class Provider:
    """A model whose behaviour is chosen by the first word of its order."""

    scripts: Mapping[str, Script] = {
        "write": says({"action": "COMPLETED", "summary": "a poem", "result": POEM}),
        "give-up": says({"action": "STUCK", "summary": "which language?"}),
        "rubbish": says({"nonsense": True}),
        "hang": hangs(),
        "fail": refuses(500),
        "object": says({"verdict": "INTERVENTION_REQUIRED", "reasons": ["it does not rhyme"]}),
        "mumble": says({"verdict": "INTERVENTION_REQUIRED"}),
        "praise": says({"verdict": "APPROVAL_REQUIRED", "summary": "it rhymes"}),
    }

    def __init__(self) -> None:
        self.asked: dict[str, list[tuple[float, Asked]]] = {}

    def __call__(self, asked: Asked) -> Reply:
        found = ORDER.search(asked.prompt)
        assert found, "the prompt has an order"
        order = found.group(1)
        before = self.asked.setdefault(order, [])
        before.append((time.monotonic(), asked))
        word, _, after = order.partition(" ")
        if word == "later":
            again = self.scripts["write"]
            script = again if len(before) > 1 else refuses(429, retry_after=after)
        else:
            script = self.scripts[word]
        return script if isinstance(script, Reply) else script(asked)

    def prompts(self, order: str) -> list[str]:
        """Return every prompt with this order."""
        return [asked.prompt for _, asked in self.asked.get(order, [])]


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def shared_variables(provider: Provider) -> Iterator[dict[str, str]]:
    with OpenAIServer(otherwise=provider) as model:
        yield {
            "INTERLOCK_CAPABILITIES": f"tests.end_to_end.threads.capabilities,{__name__}",
            "INTERLOCK_MODEL": PRICED,
            "INTERLOCK_MODEL_BASE_URL": model.url,
            "INTERLOCK_MODEL_API_KEY": "no-secret",
            "INTERLOCK_MODEL_ATTEMPTS_MAX": "1",
        }


class Desk(Bench):
    """A graph of one test whose jobs are run by a model or by capabilities."""

    def asks(self, name: str, order: str, **more: Any) -> str:
        """Create a job whose worker is a model."""
        return self.new(name, phases=[{"worker": {"model": order}}], **more)

    def calls(self, name: str, capability: str, **parameters: Any) -> str:
        """Create a job whose worker is a capability; it is never retried."""
        executor = {"capability": capability, "parameters": parameters}
        return self.new(name, phases=[{"worker": executor}], retries_max=0)

    def spent(self, job_id: str) -> int:
        """Return the cost of a job in micro-dollars; no money may be reserved any more."""
        self.deployment.comes_to_rest(job_id)
        counters = self.deployment.client.show(job_id).counters
        assert counters.get("reserved.spent", 0) == 0
        return counters.get("tree.spent", 0) + counters.get("residue.spent", 0)


@pytest.fixture
def desk(joint_deployment: Deployment, tmp_path: Path) -> Desk:
    return Desk(joint_deployment, tmp_path)


def bound_micro(order: str) -> int:
    """Return the highest possible cost of this order without material, which is two requests."""
    address = "http://127.0.0.1:9/v1"
    model = open_model(Settings(model=PRICED, model_base_url=address, model_api_key="none"))
    assert model is not None
    return question_of(model, order, {}, reviews=False).bound_micro()


def summary(record: Record) -> str:
    return str(record.data["summary"])


def test_the_answer_of_a_model_is_kept_as_evidence_and_its_cost_is_booked(
    desk: Desk, provider: Provider
) -> None:
    commits = answers(action="COMPLETED", summary="two commits", evidence_files=["log"])
    before = desk.new("log", f'echo "ab12 fix it" > "$INTERLOCK_JOB_DIR"/log; {commits}')
    job_id = desk.asks("poem", "write a poem", objective="to please", depends_on=[before])

    record = desk.reaches(job_id, "success")

    assert summary(record) == "a poem"
    digest = sha256(POEM.encode()).hexdigest()
    assert record.data["evidence"] == [
        {"path": "result.md", "sha256": digest, "bytes": len(POEM), "phase": "default"}
    ]
    assert (desk.dir(job_id) / ".evidence" / digest).read_text() == POEM
    assert desk.spent(job_id) == ONE_ANSWER
    metrics = manifest_now(desk.deployment.client.records, job_id)["metrics"]
    assert metrics["cumulative_cost"] == ONE_ANSWER / 10_000
    [prompt] = provider.prompts("write a poem")
    assert all(word in prompt for word in ("to please", "two commits", "ab12 fix it"))


def test_the_reasons_of_a_reviewing_model_reach_the_worker(desk: Desk, provider: Provider) -> None:
    good = desk.asks("good", "write well", review={"model": "praise it"})
    bad = desk.asks("bad", "write badly", review={"model": "object to it"})

    assert desk.reaches(good, "success").data["review_result"]["summary"] == "it rhymes"
    assert desk.spent(good) == 2 * ONE_ANSWER
    assert POEM in provider.prompts("praise it")[0]
    assert desk.stops(bad) == ("review", "it does not rhyme")

    desk.graphs.command(bad, "resubmit")

    detail = "the second run"
    desk.deployment.sees(lambda: len(provider.prompts("write badly")) == 2, what=detail)
    assert "it does not rhyme" in provider.prompts("write badly")[1]


def test_a_model_that_objects_without_a_reason_is_no_lost_worker(desk: Desk) -> None:
    job_id = desk.asks("a", "write", review={"model": "mumble"})

    assert "say why an intervention is required" in desk.stops(job_id)[1]

    assert "recovered" not in triggers(desk.deployment, job_id)
    assert desk.spent(job_id) == 2 * ONE_ANSWER


def test_a_model_that_is_stuck_or_answers_rubbish_asks_a_person(
    desk: Desk, provider: Provider
) -> None:
    stuck = desk.asks("stuck", "give-up on it")
    rubbish = desk.asks("rubbish", "rubbish please", retries_max=0)
    failing = desk.asks("failing", "fail always", retries_max=1, retry_delay_s=1)

    assert desk.stops(stuck) == ("stuck", "which language?")
    code, detail = desk.stops(rubbish)
    assert (code, f"{PRICED} gave no valid answer" in detail) == ("stuck", True), detail
    # The model was asked a second time to correct its answer, and both answers cost money.
    assert len(provider.prompts("rubbish please")) == 2
    assert desk.spent(rubbish) == 2 * ONE_ANSWER
    assert "refused with status 500" in desk.stops(failing)[1]
    assert len(provider.prompts("fail always")) == 2
    assert desk.spent(failing) == 0


def test_a_provider_that_names_a_time_is_left_alone_until_then(
    desk: Desk, provider: Provider
) -> None:
    job_id = desk.asks("a", "later 2")
    paused = desk.goes_on(job_id, "pause")

    assert summary(desk.reaches(job_id, "success")) == "a poem"

    assert (paused.payload["code"], "429" in paused.payload["reason"]) == ("rate_limit", True)
    waited_ms = last(desk.deployment, job_id, "unpause").at_ms - paused.at_ms
    assert waited_ms >= 2_000
    first, second = (at for at, _ in provider.asked["later 2"])
    assert second - first >= 2


def test_a_provider_that_names_a_time_far_away_pauses_a_job_for_a_day_at_most(desk: Desk) -> None:
    job_id = desk.asks("a", "later 900000")

    record = desk.reaches(job_id, "paused", ASKS_A_PERSON)

    assert (record.state, record.data["paused_s"]) == ("paused", 86_400)


def test_no_call_is_made_that_the_limits_do_not_allow(desk: Desk, provider: Provider) -> None:
    desk.graphs.open(desk.graph, {"limits": {"cost_micro": 10**9}})
    own = desk.asks("own", "write for nothing", limits={"cost_micro": 1_000})
    review = {"model": "praise for nothing"}
    reviewed = desk.new("reviewed", review=review, limits={"cost_micro": 1_000})

    for job_id in (own, reviewed):
        code, detail = desk.stops(job_id)
        assert (code, "the job's limit of cost is reached" in detail) == ("limit_reached", True)
    desk.graphs.configure_graph(desk.graph, {"limits": {"cost_micro": 1_000}})
    shared = desk.asks("shared", "write for us", limits={"cost_micro": 10**9}, retry_delay_s=1)
    halted = desk.deployment.reaches(desk.graph, "halted")
    assert "the graph's limit of cost is reached" in halted.data["failure"]["detail"]

    asked = ("write for nothing", "praise for nothing", "write for us")
    assert not any(provider.prompts(order) for order in asked)
    assert [desk.spent(job_id) for job_id in (own, reviewed, shared)] == [0, 0, 0]

    desk.graphs.command(own, "resubmit", {"limits": {"cost_micro": 10**8}})
    desk.graphs.configure_graph(desk.graph, {"limits": {"cost_micro": 10**9}})
    for job_id in (own, shared):
        desk.reaches(job_id, "success")
        assert desk.spent(job_id) == ONE_ANSWER


def test_a_call_that_is_stopped_half_way_counts_with_its_estimate(
    desk: Desk, provider: Provider
) -> None:
    job_id = desk.asks("a", "hang for ever")
    desk.deployment.sees(lambda: provider.prompts("hang for ever"), what="it is asked")

    desk.graphs.command(job_id, "suspend")

    # One of the two requests that an order can take was sent.
    estimate = bound_micro("hang for ever")
    assert estimate / 3 < desk.spent(job_id) < estimate


def test_the_value_of_a_capability_is_its_reply_or_its_summary(desk: Desk) -> None:
    done = desk.calls("done", "jot", text="ten lines")
    asked = desk.calls("asked", "polite", text="which ten?")
    rude = desk.calls("rude", "rude")

    assert summary(desk.reaches(done, "success")) == '"ten lines"'
    [run] = desk.deployment.saw(done, "end")
    assert run["key"].startswith(f"{done}:")
    assert desk.stops(asked) == ("stuck", "which ten?")
    assert desk.spent(asked) == 250_000
    assert desk.stops(rude)[0] == "invalid_reply"
    assert "'why' is not a field here" in desk.stops(rude)[1]


def test_a_capability_that_fails_asks_a_person_and_says_why(desk: Desk) -> None:
    broken = desk.calls("broken", "broken", why="no ink")
    unknown = desk.calls("unknown", "jott")
    invalid = desk.calls("unfit", "jot", texts="x")
    late = desk.calls("late", "endless")
    part = {"title": "a", "text": ""}
    split = desk.calls("split", "decompose", children=[part, part])

    assert desk.stops(broken) == ("stuck", "no ink")
    assert desk.stops(unknown)[1] == "no capability 'jott' is loaded; did you mean jot?"
    assert "texts" in desk.stops(invalid)[1]
    assert "did not end within 1 s" in desk.stops(late)[1]
    assert last(desk.deployment, late, "retry").target == ASKS_A_PERSON
    assert desk.stops(split)[0] == "invalid_reply"
    assert "decompose splits its work, which a job does not" in desk.stops(split)[1]


def test_a_capability_that_reviews_approves_unless_it_objects(desk: Desk) -> None:
    job_id = desk.new("a", review={"capability": "jot", "parameters": {"text": "fine"}})
    bad = desk.new("b", review={"capability": "broken", "parameters": {"why": "no ink"}})

    result = desk.reaches(job_id, "success").data["review_result"]

    assert (result["verdict"], result["summary"]) == ("approval_required", '"fine"')
    assert desk.stops(bad)[1] == "the reviewer is stuck: no ink"


def test_a_suspended_capability_is_stopped_or_awaited_before_another_begins(desk: Desk) -> None:
    go = desk.folder / "go"
    awaited = desk.calls("awaited", "stubborn", go=str(go))
    stopped = desk.calls("stopped", "slow", seconds=600)
    both = (awaited, stopped)
    desk.deployment.sees(
        lambda: all(desk.deployment.saw(job_id, "start") for job_id in both), what="both begin"
    )
    for job_id in both:
        desk.graphs.command(job_id, "suspend")

    # One call asks for the orders to both, so the worker has read that to "awaited" too.
    desk.deployment.sees(lambda: desk.deployment.saw(stopped, "stopped"), what="it was stopped")
    desk.graphs.command(awaited, "resume")
    go.touch()
    desk.reaches(awaited, "success")

    [late] = desk.deployment.notes(awaited, "late_reply")
    assert (late.detail["role"], late.detail["reply"]) == ("worker", '"slept"')
    first, second = desk.deployment.saw(awaited, "start")
    assert second["at"] >= desk.deployment.saw(awaited, "end")[0]["at"]
    assert first["key"] != second["key"]


def test_the_cost_of_a_suspended_capability_is_booked_when_it_is_reported(desk: Desk) -> None:
    go = desk.folder / "go"
    job_id = desk.calls("a", "dear", go=str(go))
    desk.deployment.sees(lambda: desk.deployment.saw(job_id, "start"), what="it has begun")

    desk.graphs.command(job_id, "suspend")
    go.touch()

    assert desk.spent(job_id) == 250_000
    assert desk.graphs.job(job_id).state == "suspended"
