"""`interlock doctor` names what nobody does: the effects, a queue, the sweeps, the beat."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.engine import sweeper
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.attendance import (
    lacking_systems,
    problems_of,
    unknown_here,
)
from interlock.workers.ops.effect_problems import endangered, waits_of
from interlock.workers.systems import sweeps
from tests.systems.threads.threads import bring, client_of

DEPTHS = {"effects": 3, "timers": 0, "waits": 0}


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(sweeper, "LATE_S", 600.0)
    return client_of(server.url, prefix)


def end_sweeps(client: Client) -> None:
    for sweep in sweeps():
        client.dispatch.indexes.count_sweep(sweep.name, {})


def served(client: Client, *, without: str = "") -> dict[str, set[str]]:
    names = {name for machine in client.machines.values() for name in machine.effects}
    namespace = client.settings.namespace
    return {"w": {f"{namespace}.{name}" for name in names | {"sweeps", "intake"}} - {without}}


def test_nothing_is_wrong_where_every_queue_is_served_and_the_sweeps_end(client: Client) -> None:
    end_sweeps(client)

    assert problems_of(client.dispatch, served(client), DEPTHS) == []


def test_without_a_beat_the_sweeps_that_are_late_are_named(client: Client) -> None:
    [problem] = problems_of(client.dispatch, served(client), DEPTHS)

    assert "these sweeps are late: orphans, stalls" in problem
    assert "celery -A interlock.workers.main beat" in problem


def test_without_a_worker_of_the_sweeps_its_queue_is_named(client: Client) -> None:
    end_sweeps(client)
    queue = f"{client.settings.namespace}.sweeps"

    [problem] = problems_of(client.dispatch, served(client, without=queue), DEPTHS)

    assert f"no worker serves {queue}" in problem


def test_without_any_worker_all_that_waits_is_named_and_nothing_else(client: Client) -> None:
    idle = {"effects": 0, "timers": 0, "waits": 4}
    assert problems_of(client.dispatch, {}, idle) == []

    [problem] = problems_of(client.dispatch, {}, {"effects": 0, "timers": 2, "waits": 0})

    assert "work waits (2 timers) and no worker answers" in problem


def test_work_that_no_worker_begins_is_named_with_its_true_age(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(client, "one", "awaiting_inference")
    assert list(waits_of(client.dispatch, client.dispatch.owed.oldest())) == []
    now_ms = client.dispatch.views.now_ms()
    monkeypatch.setattr(client.dispatch.views, "now_ms", lambda: now_ms + 90_000)

    [problem] = waits_of(client.dispatch, client.dispatch.owed.oldest())

    assert problem.startswith(
        "no worker has begun thread.inference of 1 record, that of one for 90 s"
    )


def test_work_that_failed_more_than_once_is_named(client: Client) -> None:
    bring(client, "one", "awaiting_inference")
    effect, leases = client.dispatch.effect("thread", "inference"), client.dispatch.leases
    for nonce in ("a", "b"):
        assert list(waits_of(client.dispatch, client.dispatch.owed.oldest())) == []
        [entry] = client.show("one").entries
        lease = leases.claim(entry.key("one"), effect, nonce=nonce, holder="x", schema=9)
        assert isinstance(lease, Lease)
        leases.release(lease, counted=True)

    [problem] = waits_of(client.dispatch, client.dispatch.owed.oldest())

    assert problem.startswith("thread.inference of 1 record failed more than once")
    assert "it is tried again now; `interlock history one` says why" in problem


def test_an_effect_of_a_silent_worker_and_one_that_runs_for_the_third_time_are_named(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(client, "one", "awaiting_inference")
    effect, leases = client.dispatch.effect("thread", "inference"), client.dispatch.leases
    [entry] = client.show("one").entries
    for nonce in ("a", "b", "c"):
        assert list(endangered(client.dispatch, client.dispatch.owed.at_work())) == []
        lease = leases.claim(entry.key("one"), effect, nonce=nonce, holder="x", schema=9)
        assert isinstance(lease, Lease)
        if nonce != "c":
            leases.release(lease, counted=True)

    [again] = endangered(client.dispatch, client.dispatch.owed.at_work())
    now_ms = client.dispatch.views.now_ms() + effect.lease_ms * 2 // 3
    monkeypatch.setattr(client.dispatch.views, "now_ms", lambda: now_ms)
    [silent] = endangered(client.dispatch, client.dispatch.owed.at_work())

    assert again.startswith("thread.inference of one is at work for the third time, since ")
    assert re.match(
        r"the worker of thread\.inference of one has given no sign for \d+ s: if it gives none for"
        r" \d+ s more, another one begins attempt 4 of 4$",
        silent,
    )
    [one] = client.dispatch.owed.at_work()
    for last in (replace(one, losses=5), replace(one, attempts=1, attempts_max=1)):
        [silent] = endangered(client.dispatch, [last])
        assert silent.endswith("no attempt is left: it fails, or a person is asked")


def test_records_of_a_machine_that_is_not_known_here_are_named(client: Client) -> None:
    bring(client, "one", "awaiting_inference")
    bring(client, "asks", "awaiting_confirmation")
    assert [*unknown_here(client.dispatch)] == []
    settings, publisher = client.dispatch.settings, client.dispatch.publisher
    others = {name: one for name, one in client.machines.items() if name != "thread"}

    stranger = Dispatch(settings, others, publisher)
    [problem] = unknown_here(stranger)

    assert problem.startswith("2 records wait of the machine thread, such as asks, and it is not")
    assert list(waits_of(stranger, stranger.owed.oldest())) == []


def test_a_worker_that_lacks_a_system_that_others_have_is_named() -> None:
    own = {"refund": {"refund.check", "refund.pay"}}
    registered = {
        "whole@a": {"sweep.orphans", "thread.inference", "refund.check", "refund.pay"},
        "half@b": {"sweep.orphans", "thread.inference", "refund.check"},
        "intake@a": {"interlock.submit"},
    }

    [problem] = lacking_systems(registered, own)

    assert problem.startswith("half@b does not know refund, which INTERLOCK_SYSTEMS adds here")
    assert [*lacking_systems(registered, {})] == []
