"""No more calls of a tenant are at work than its step allows, also where a worker is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from interlock.workers.engine.slot_waits import busy_slots
from interlock.workers.ops.verify import verify_all
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, Process
from tests.end_to_end.workflow import letters
from tests.end_to_end.workflow.letters import CONCURRENCY, Letter, letter
from tests.fakes.provider import Provider, open_provider
from tests.known_systems import know_only_ours

pytestmark = pytest.mark.slow(minutes=0.5)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with open_provider(takes_s=0.1) as provider:
        yield provider


def working(deployment: Deployment) -> Counter[str]:
    """Return how many effects each process has at work."""
    records = [deployment.client.show(f"l-{n}") for n in range(20)]
    entries = [entry for record in records for entry in record.entries]
    return Counter(entry.holder for entry in entries if entry.state == "leased")


def holder_of(deployment: Deployment, workers: list[Process]) -> Process:
    """Return the worker with most effects at work."""
    found = working(deployment)
    return max(
        workers, key=lambda one: sum(n for name, n in found.items() if f":{one.id}:" in name)
    )


def test_no_more_are_at_work_than_the_step_allows_though_a_worker_is_killed(
    new_deployment: NewDeployment, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_only_ours(monkeypatch)
    deployment = new_deployment(INTERLOCK_SYSTEMS=letters.__name__, PROVIDER_URL=provider.url).full(
        workers=2
    )
    client = deployment.client
    tenants = ["acme" if n % 4 else "other" for n in range(20)]
    for n, tenant in enumerate(tenants):
        client.submit(letter, Letter(tenant=tenant), id=f"l-{n}")
    all_at_work = {"acme": CONCURRENCY, "other": CONCURRENCY}
    deployment.sees(lambda: provider.at_work == all_at_work, what="all places are taken")
    said = "letter.post: 3 of 3 for acme are at work, and 12 wait"
    deployment.sees(lambda: said in busy_slots(client.dispatch), what="the others wait")

    workers = [one for one in deployment.processes if one.name.startswith("w")]
    holder_of(deployment, workers).kill()
    provider.opens.set()
    deployment.worker()
    records = deployment.ends(*(f"l-{n}" for n in range(20)))

    assert {record.state for record in records} == {"done"}
    assert dict(provider.most) == all_at_work
    assert provider.answered == Counter(tenants), "who was killed has got no answer"
    slots = client.dispatch.leases.slots
    deployment.sees(
        lambda: not any(use.held for use in slots.use(slots.names()).values()),
        what="all places are free",
    )
    assert verify_all(client.dispatch, None)["faults"] == []
