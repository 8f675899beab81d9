"""The happy path of each effect; each path fails without its effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from interlock.kernel.machines import MACHINES
from interlock.workers.threads.client import Threads
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread

SHORT_S = 6.0


def is_executed(deployment: Deployment, within_s: float) -> None:
    """Check that a thread which asks no person is inferred and executed."""
    deployment.client.submit(thread("jot", text="hello"), machine="thread", id="one")
    record = deployment.ends("one", within_s=within_s)[0]
    assert (record.state, record.data["result"]) == ("done", "hello")
    assert [line["what"] for line in deployment.recorded] == ["start", "end"]


def is_cleaned_up(deployment: Deployment, within_s: float) -> None:
    """Check that a thread which was done elsewhere is cleaned up at its source."""
    payload = thread("jot", policy="plan_then_review", source="witnessed")
    deployment.client.submit(payload, machine="thread", id="one")
    deployment.reaches("one", "awaiting_confirmation", within_s=within_s)
    deployment.client.fire("one", "cleanup_requested")
    assert deployment.ends("one", within_s=within_s)[0].data["cleaned"]["detail"] == "swept"


def is_shown_and_answered(deployment: Deployment, within_s: float) -> None:
    """Check that the card of a thread is shown until a person answers it."""
    card = deployment.folder / "cards" / "one.json"
    deployment.client.submit(thread("jot", policy="plan_then_review"), machine="thread", id="one")
    deployment.sees(card.exists, what="the card is shown", within_s=within_s)
    deployment.client.decide("one", "approve", proposal=deployment.client.show("one").proposal)
    assert deployment.ends("one", within_s=within_s)[0].state == "done"
    deployment.sees(lambda: not card.exists(), what="the card is withdrawn", within_s=within_s)


def is_split_and_joined(deployment: Deployment, within_s: float) -> None:
    """Check that a thread which is split ends after its parts."""
    payload = thread("jot")
    payload["given"]["action"]["kind"] = "suggestion"
    deployment.client.submit(payload, machine="thread", id="one")
    asked = deployment.reaches("one", "awaiting_confirmation", within_s=within_s)
    parts = [{"title": "part", "given": thread("jot")["given"]} for _ in range(2)]
    Threads(deployment.client).decompose("one", parts, proposal=asked.proposal)
    assert deployment.ends("one", within_s=within_s)[0].data["tally"] == {"done": 2}


Scenario = Callable[[Deployment, float], None]
SCENARIOS: Mapping[str, Scenario] = {
    "inference": is_executed,
    "execution": is_executed,
    "cleanup": is_cleaned_up,
    "resolution": is_shown_and_answered,
    "spawn": is_split_and_joined,
    "cascade": is_split_and_joined,
}


def deployment_with_cards(new_deployment: NewDeployment, **more: str) -> Deployment:
    deployment = new_deployment(**more)
    deployment.variables["INTERLOCK_CARDS"] = str(deployment.folder / "cards")
    return deployment.full()


@pytest.mark.parametrize("scenario", dict.fromkeys(SCENARIOS.values()))
def test_a_thread_runs_from_its_producer_to_its_end(
    new_deployment: NewDeployment, scenario: Scenario
) -> None:
    scenario(deployment_with_cards(new_deployment), 30)


@pytest.mark.proof
@pytest.mark.parametrize("effect", sorted(SCENARIOS))
def test_without_the_body_of_an_effect_its_happy_path_fails(
    new_deployment: NewDeployment, effect: str
) -> None:
    deployment = deployment_with_cards(new_deployment, DEPLOYMENT_WITHOUT=effect)

    with pytest.raises(AssertionError):
        SCENARIOS[effect](deployment, SHORT_S)


def test_each_effect_has_its_happy_path() -> None:
    assert set(SCENARIOS) == set(MACHINES["thread"].effects)
