"""How long a delivery waits, and when it is given up."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.record import Record, RecordId, Version
from interlock.systems.webhooks.machines.delivery.limits import WAITS_S
from interlock.systems.webhooks.machines.delivery.table import DELIVERY


def after(failures: int, **failure: Any) -> Record:
    """Return a delivery that had failed so often, after another failure."""
    fields = {"endpoint": "chat", "kind": "record.ended", "record": "one", "machine": "thread"}
    data = {**DELIVERY.initial_data({**fields, "at_ms": 1}), "failures": failures}
    record = Record(RecordId("d"), DELIVERY.name, "sending", Version(1), data)
    payload = DELIVERY.admit("failed", {"detail": "it answered 500", **failure})
    return DELIVERY.decide(record, "failed", payload).after


@pytest.mark.parametrize(("jitter", "share"), [(0, 0.9), (0.5, 1), (1, 1.1)])
def test_each_wait_is_that_of_the_schedule_within_a_tenth(jitter: float, share: float) -> None:
    waits = [after(number, jitter=jitter).data["wait_ms"] for number in range(len(WAITS_S))]

    assert waits == [round(wait_s * 1_000 * share) for wait_s in WAITS_S]


def test_the_endpoint_makes_a_wait_longer_and_never_shorter() -> None:
    assert after(0, retry_after_s=60).data["wait_ms"] == 60_000
    assert after(8, retry_after_s=60).data["wait_ms"] == 86_400_000


@pytest.mark.parametrize(("failures", "gone"), [(len(WAITS_S), False), (0, True)])
def test_no_attempt_follows_the_last_one_or_an_endpoint_that_is_gone(
    failures: int,
    gone: bool,  # noqa: FBT001 - it is a parameter
) -> None:
    delivery = after(failures, gone=gone)

    assert (delivery.state, delivery.data["failures"]) == ("dead", failures + 1)
