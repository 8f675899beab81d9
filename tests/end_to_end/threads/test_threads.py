"""The happy path of each effect; each path fails without its effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from interlock.kernel.machines import MACHINES
from interlock.systems.threads.client import Threads
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread

SHORT_S = 6.0


def is_executed(deployment: Deployment, within_s: float) -> None:
    """Check that a thread which asks no person is inferred and executed."""
    deployment.client.submit(thread("jot", text="hello"), machine="thread", id=deployment.scope)
    record = deployment.ends(deployment.scope, within_s=within_s)[0]
    assert (record.state, record.data["result"]) == ("done", "hello")
    assert [line["what"] for line in deployment.recorded if line["record"] == record.id] == [
        "start",
        "end",
    ]


def is_cleaned_up(deployment: Deployment, within_s: float) -> None:
    """Check that a thread which was done elsewhere is cleaned up at its source."""
    payload = thread("jot", policy="plan_then_review", source="witnessed")
    deployment.client.submit(payload, machine="thread", id=deployment.scope)
    deployment.reaches(deployment.scope, "awaiting_confirmation", within_s=within_s)
    deployment.client.fire(deployment.scope, "cleanup_requested")
    assert (
        deployment.ends(deployment.scope, within_s=within_s)[0].data["cleaned"]["detail"] == "swept"
    )


def is_shown_and_answered(deployment: Deployment, within_s: float) -> None:
    """Check that the card of a thread is shown until a person answers it."""
    card = deployment.folder / "cards" / f"{deployment.scope}.json"
    deployment.client.submit(
        thread("jot", policy="plan_then_review"), machine="thread", id=deployment.scope
    )
    deployment.sees(card.exists, what="the card is shown", within_s=within_s)
    deployment.client.decide(
        deployment.scope, "approve", proposal=deployment.client.show(deployment.scope).proposal
    )
    assert deployment.ends(deployment.scope, within_s=within_s)[0].state == "done"
    deployment.sees(lambda: not card.exists(), what="the card is withdrawn", within_s=within_s)


def is_split_and_joined(deployment: Deployment, within_s: float) -> None:
    """Check that a thread which is split ends after its parts."""
    payload = thread("jot")
    payload["given"]["action"]["kind"] = "suggestion"
    deployment.client.submit(payload, machine="thread", id=deployment.scope)
    asked = deployment.reaches(deployment.scope, "awaiting_confirmation", within_s=within_s)
    parts = [{"title": "part", "given": thread("jot")["given"]} for _ in range(2)]
    Threads(deployment.client).decompose(deployment.scope, parts, proposal=asked.proposal)
    assert deployment.ends(deployment.scope, within_s=within_s)[0].data["tally"] == {"done": 2}


Scenario = Callable[[Deployment, float], None]
SCENARIOS: Mapping[str, Scenario] = {
    "inference": is_executed,
    "execution": is_executed,
    "cleanup": is_cleaned_up,
    "resolution": is_shown_and_answered,
    "spawn": is_split_and_joined,
    "cascade": is_split_and_joined,
}


@pytest.fixture(scope="module")
def shared_variables(shared_folder: Path) -> dict[str, str]:
    return {"INTERLOCK_CARDS": str(shared_folder / "cards")}


@pytest.mark.parametrize("scenario", dict.fromkeys(SCENARIOS.values()))
def test_a_thread_runs_from_its_producer_to_its_end(
    joint_deployment: Deployment, scenario: Scenario
) -> None:
    scenario(joint_deployment, 90)


@pytest.mark.proof
@pytest.mark.parametrize("effect", sorted(SCENARIOS))
def test_without_the_body_of_an_effect_its_happy_path_fails(
    new_deployment: NewDeployment, effect: str
) -> None:
    deployment = new_deployment(DEPLOYMENT_WITHOUT=effect)
    deployment.variables["INTERLOCK_CARDS"] = str(deployment.folder / "cards")

    with pytest.raises(AssertionError):
        SCENARIOS[effect](deployment.full(), SHORT_S)


def test_each_effect_has_its_happy_path() -> None:
    # Every machine owes the notification, where others have subscribed to an end.
    assert set(SCENARIOS) == set(MACHINES["thread"].effects) - {"notification"}
