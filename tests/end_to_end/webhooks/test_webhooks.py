"""Real workers tell a receiver of a card; one that is killed after sending loses no message."""

from __future__ import annotations

from tests.end_to_end.conftest import NewDeployment
from tests.fakes.webhook_receiver import receiver
from tests.systems.webhooks.test_endpoints import SECRET


def test_a_worker_killed_between_sending_and_reporting_leaves_the_message_to_be_sent_again(
    new_deployment: NewDeployment,
) -> None:
    deployment = new_deployment()
    file = deployment.folder / "webhooks.yaml"
    deployment.variables["INTERLOCK_WEBHOOKS"] = str(file)
    kill = "kill-before_commit-webhook"
    payload = {"inciting": {"title": "Call"}, "hold": True}
    with receiver() as there:
        row = f"{{name: chat, url: '{there.address}', secrets: [{SECRET}], allow_private: true}}"
        file.write_text(f"endpoints: [{row}]")
        deployment.tend(1)
        deployment.client.submit(payload, machine="thread", id="one")
        deployment.sees(lambda: there.requests, what="the receiver is told of the card")
        fields = {"endpoint": "chat", "kind": "card.withdrawn", "record": "x", "machine": "thread"}
        deployment.client.submit({**fields, "at_ms": 1}, machine="delivery", id=kill)
        (delivery,) = deployment.ends(kill)

    card, *again = there.requests
    assert card.message["data"]["cards"][0]["proposal"] == "one:1"
    assert deployment.killed(kill)
    assert delivery.state == "delivered"
    logs = "".join(process.output for process in deployment.processes)
    assert SECRET[6:] not in logs
    assert "private-path" not in logs
    assert [request.headers["webhook-id"] for request in again] == [kill, kill]
