"""The clock of the store is set ahead or back while work is owed and a person is asked."""

from __future__ import annotations

import pytest

from interlock.kernel.record import partition_of
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.doctor import clock_facts
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.systems.threads.threads import bring, client_of

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("ms", "word", "shown"), [(HOUR_MS, "ahead", "59 min"), (-HOUR_MS, "back", "60 min")]
)
def test_lost_work_and_timers_keep_their_time_and_doctor_says_what_was_seen(
    server: EmbeddedServer, prefix: str, text: Text, ms: int, word: str, shown: str
) -> None:
    text.now_us = START_US
    client: Client = client_of(server.url, prefix)
    bring(client, "asked", "awaiting_confirmation")
    bring(client, "owed", "awaiting_inference")
    dispatch = client.dispatch
    dispatch.passes.note()
    left_ms = {one.name: one.due_at - START_US // 1_000 for one in client.show("asked").timers}
    assert clock_facts(dispatch) == {}

    text.now_us += ms * 1_000
    dispatch.passes.note()

    now_ms = START_US // 1_000 + ms
    moved = {one.name: one.due_at - now_ms for one in client.show("asked").timers}
    assert {name: round(at / 1_000) for name, at in moved.items()} == {
        name: round(at / 1_000) for name, at in left_ms.items()
    }
    text.now_us += 10_000_000
    partition = partition_of("owed")
    assert dispatch.indexes.due_effects(partition, 9), (
        "a sweep finds it although its message is lost"
    )
    assert clock_facts(dispatch)["clock"].startswith(f"was set {word} by {shown}")
