"""Cards and ends become deliveries, each once; a delivery is sent until its endpoint has it."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
import redis

from interlock.kernel.errors import CallError
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import PARTITIONS, Record, partition_of
from interlock.systems.webhooks import post
from interlock.systems.webhooks.client import Webhooks
from interlock.systems.webhooks.machines.delivery.limits import WAITS_S
from interlock.systems.webhooks.post import signed_headers
from interlock.systems.webhooks.sweeps.deliveries import SWEEP
from interlock.workers.engine.answer_links import LIFETIME_S, link_of
from interlock.workers.engine.sweeper import sweep_all
from interlock.workers.engine.sweeps import orphans, stalls
from interlock.workers.engine.work import EffectWork, NotYetError, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.end_to_end.deployment import thread
from tests.end_to_end.engine.test_stranding import due
from tests.fakes.webhook_receiver import CLOSE, HANG, Answer, Receiver, receiver
from tests.round_trips import round_trips
from tests.sweeping import sweeping
from tests.systems.threads.threads import bring, hold_canary
from tests.systems.webhooks.test_endpoints import SECRET
from tests.workers.engine.running import Running, perform, settings_for

OTHER_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
PUBLIC_URL = "https://interlock.example"
DELIVERY = MACHINES["delivery"]
POST = post._post_to
ROW = "{{name: chat, url: '{url}', secrets: [{secrets}], allow_private: true{more}}}"


# Where these are in the line of an effect: lua/part/entry.lua.
ATTEMPTS, ATTEMPTS_MAX, FIRES_EXHAUSTED = 7, 8, 20


class Webhook:
    """The webhooks of a worker in this process."""

    def __init__(self, running: Running, there: Receiver) -> None:
        self.running, self.there = running, there
        self.client, self.dispatch = running.client, running.dispatch
        self.store = cast(redis.Redis, running.dispatch.client)
        self.sweep()

    def sweep(self) -> None:
        sweep_all(self.dispatch, SWEEP)

    def settle(self, machine: str) -> None:
        """Let the ends of a machine become readable, as if some seconds had passed."""
        keys, client = self.dispatch.keys, self.dispatch.client
        for one in [*self.dispatch.views.ids(MACHINES[machine])]:
            index = keys.state_index(one, machine, self.client.show(one).state)
            client.zincrby(index, -5_000, one)
        for partition in range(PARTITIONS):
            client.set(keys.reported_ends(partition), f"{self.dispatch.views.now_ms() - 60_000} ")

    def deliveries(self, kind: str = "") -> list[Record]:
        rows = self.client.list(machine="delivery")
        found = sorted((self.client.show(row.id) for row in rows), key=lambda one: one.created_ms)
        return [record for record in found if kind in ("", record.data["kind"])]

    def send(self) -> Record:
        """Perform the effect of the only delivery that is to be sent, and return the delivery."""
        (delivery,) = [one for one in self.deliveries() if one.state == "sending"]
        (entry,) = delivery.entries
        handler = handlers()["delivery.webhook"]
        perform(self.running.runner, DELIVERY, "webhook", handler, entry.key(delivery.id))
        return self.client.show(delivery.id)

    def next_try(self, delivery: Record) -> Record:
        """Let the wait of a delivery be over, and send it again."""
        due(self.dispatch, self.store, delivery.id, "backoff")
        sweep_all(self.dispatch, stalls.SWEEP)
        return self.send()


NewWebhook = Callable[..., Webhook]


@pytest.fixture
def new_webhook(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> Iterator[Callable[..., Webhook]]:
    with receiver() as there:

        def build(
            *script: Answer, secrets: str = SECRET, more: str = "", **variables: str
        ) -> Webhook:
            there.script += script
            file = tmp_path / "webhooks.yaml"
            row = ROW.format(url=there.address, secrets=secrets, more=more)
            file.write_text(f"endpoints: [{row}]")
            more_settings = {"WEBHOOKS": str(file), "PUBLIC_URL": f"{PUBLIC_URL}/", **variables}
            named = {f"INTERLOCK_{name}": value for name, value in more_settings.items()}
            settings = settings_for(server.url, prefix, **named)
            return Webhook(Running(settings), there)

        yield build


def failing(**more: Any) -> Callable[[EffectWork], Outcome]:
    """Return a handler whose attempt fails."""
    return lambda _: Outcome("failed", {"detail": "no", **more})


def asking(webhook: Webhook, record: str = "one") -> Record:
    """Return a record that asks a person, with a delivery of its card."""
    payload = {"inciting": {"title": "Call"}, "hold": True}
    webhook.client.submit(payload, machine="thread", id=record)
    webhook.sweep()
    return webhook.client.show(record)


# --- what is told ------------------------------------------------------------------------------


def test_a_card_is_sent_once_and_signed_and_its_withdrawal_after_it(
    new_webhook: NewWebhook,
) -> None:
    webhook = new_webhook()
    hold_canary(webhook.dispatch, "nobody-is-notified")
    record = asking(webhook)
    webhook.sweep()
    sent = webhook.send()
    webhook.client.decide("one", "drop", {"reason": "no"}, proposal=record.proposal)
    webhook.sweep()
    webhook.send()
    webhook.sweep()

    card, withdrawn = webhook.there.requests
    assert (sent.state, len(webhook.deliveries())) == ("delivered", 2)
    assert card.message["type"] == "card.opened"
    assert card.message["data"]["cards"][0]["proposal"] == record.proposal
    assert withdrawn.message["type"] == "card.withdrawn"
    assert withdrawn.message["data"] == {"record_id": "one", "machine": "thread"}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    seen = {name: card.headers[name] for name in names}
    key, at_s = b64decode(SECRET[6:]), int(seen["webhook-timestamp"])
    assert seen == signed_headers([key], sent.id, at_s, card.body)


def test_an_endpoint_is_not_told_who_is_on_a_card(new_webhook: NewWebhook) -> None:
    webhook = new_webhook()
    record = asking(webhook)
    webhook.client.claim_card("one", proposal=record.proposal, holder="ann")
    webhook.send()

    (request,) = webhook.there.requests
    assert [card["claim"] for card in request.message["data"]["cards"]] == [None]
    assert webhook.client.cards_of("one")[0].claim is not None


def test_a_card_that_nobody_answers_is_escalated_once(new_webhook: NewWebhook) -> None:
    webhook = new_webhook(
        more=", kinds: [escalations]", ESCALATIONS="proposal=600/operator,*=60/ann"
    )
    hold_canary(webhook.dispatch, "nobody-is-notified")
    canaries = webhook.dispatch.keys.waits(partition_of("nobody-is-notified"))
    webhook.store.zincrby(canaries, -900_000, "nobody-is-notified")
    record = asking(webhook)
    assert webhook.deliveries() == []
    key = webhook.dispatch.keys.waits(partition_of("one"))
    webhook.store.zincrby(key, -300_000, "one")  # `*` is for kinds that have no row
    webhook.sweep()
    assert webhook.deliveries() == []
    webhook.store.zincrby(key, -300_000, "one")
    webhook.sweep()
    assert partition_of("one") not in SWEEP.due(sweeping(webhook.dispatch)), "it is noted"
    webhook.sweep()
    webhook.send()

    (request,) = webhook.there.requests
    (card,) = request.message["data"]["cards"]
    assert len(webhook.deliveries()) == 1
    assert request.message["type"] == "card.escalated"
    escalation = {"due_ms": record.since_ms, "to": "operator"}
    assert (card["proposal"], card["escalation"]) == (record.proposal, escalation)


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", "x"), ("state", "of another table"), ("machine", "of another deployment")],
)
def test_a_damaged_record_keeps_no_other_card_back(
    new_webhook: NewWebhook, field: str, value: str
) -> None:
    webhook = new_webhook(ESCALATIONS="*=60/ann")
    for record in ("r0", "r21"):  # they share a partition
        bring(webhook.client, record, "awaiting_confirmation")
        webhook.store.zincrby(webhook.dispatch.keys.waits(partition_of(record)), -90_000, record)
    webhook.store.hset(webhook.dispatch.keys.record("r0"), field, value)
    webhook.sweep()

    sent = [(one.data["record"], one.data["kind"]) for one in webhook.deliveries()]
    assert sorted(sent) == [("r21", "card.escalated"), ("r21", "card.opened")]


@pytest.mark.parametrize("kind", ["cards", "escalations", "ends"])
@pytest.mark.parametrize("machine", ["thread", "job"])
def test_an_endpoint_is_sent_the_kinds_and_machines_that_it_names_alone(
    new_webhook: NewWebhook, kind: str, machine: str
) -> None:
    webhook = new_webhook(more=f", kinds: [{kind}], machines: [{machine}]", ESCALATIONS="*=60/ann")
    asking(webhook)
    webhook.store.zincrby(webhook.dispatch.keys.waits(partition_of("one")), -90_000, "one")
    webhook.sweep()
    webhook.client.cancel("one")
    webhook.settle("thread")
    webhook.sweep()

    sent = {
        "cards": ["card.opened", "card.withdrawn"],
        "escalations": ["card.escalated"],
        "ends": ["record.ended"],
    }
    wanted = set(sent[kind]) if machine == "thread" else set()
    assert {str(one.data["kind"]) for one in webhook.deliveries()} == wanted


def test_while_the_secret_is_changed_both_sign(new_webhook: NewWebhook) -> None:
    webhook = new_webhook(secrets=f"{OTHER_SECRET}, {SECRET}")
    asking(webhook)
    webhook.send()

    (request,) = webhook.there.requests
    assert len(request.headers["webhook-signature"].split()) == 2


def test_an_end_is_sent_once_as_events_are_exported_and_no_delivery_is_told_of(
    new_webhook: NewWebhook,
) -> None:
    webhook = new_webhook(more=", kinds: [ends]")
    asking(webhook)
    hold_canary(webhook.dispatch, "nobody-is-notified")
    webhook.settle("thread")
    webhook.sweep()
    assert webhook.deliveries() == [], "it has not ended"
    for record, machine in (("one", "thread"), ("nobody-is-notified", "canary")):
        webhook.client.cancel(record, reason="enough")
        webhook.settle(machine)
    webhook.sweep()
    webhook.sweep()
    sent = webhook.send()
    webhook.settle("delivery")
    webhook.sweep()

    (request,) = webhook.there.requests
    data = request.message["data"]
    assert (sent.state, len(webhook.deliveries())) == ("delivered", 1)
    assert request.message["type"] == "record.ended"
    assert (data["record_id"], data["title"], data["is_success"]) == ("one", "Call", False)
    assert (data["event"]["to_status"], data["event"]["actor"]) == ("dismissed", "person")


def test_choices_that_need_no_answer_have_links_that_the_api_takes(
    new_webhook: NewWebhook,
) -> None:
    webhook = new_webhook(more=", answers_as: ann")
    bring(webhook.client, "one", "awaiting_confirmation")
    webhook.sweep()
    webhook.send()

    (request,) = webhook.there.requests
    offers = request.message["data"]["cards"][0]["affordances"]
    links = {offer["name"]: offer.get("link", "") for offer in offers}
    assert {name for name, link in links.items() if not link} == {"edit"}
    assert links["approve"].startswith(f"{PUBLIC_URL}/answers/")
    link = link_of(links["approve"].rpartition("/")[2], webhook.dispatch.link_key, time.time())
    assert (link.record_id, link.choice, link.person) == ("one", "approve", "ann")
    day_s = link.expires_s - webhook.dispatch.views.now_ms() / 1_000
    assert LIFETIME_S - 60 < day_s <= LIFETIME_S


def test_cloudevents_have_their_attributes(new_webhook: NewWebhook) -> None:
    webhook = new_webhook(more=", format: cloudevents")
    asking(webhook)
    sent = webhook.send()

    (request,) = webhook.there.requests
    message = request.message
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert {name: message[name] for name in ("specversion", "id", "type", "subject")} == {
        "specversion": "1.0",
        "id": sent.id,
        "type": "interlock.card.opened",
        "subject": "one",
    }
    assert message["time"].endswith("Z")
    assert message["source"].startswith("/interlock/")


@pytest.mark.parametrize(("kind", "failure"), [("quarantine", ""), ("obstacle", "tidy up")])
def test_a_card_of_an_effect_is_sent_as_that_of_a_state_is(
    new_webhook: NewWebhook, kind: str, failure: str
) -> None:
    webhook = new_webhook()

    def fail(_: EffectWork) -> Any:
        raise NotYetError(failure, asks_person=True)

    webhook.client.submit(thread("jot"), machine="thread", id="one")
    if failure:
        webhook.running.perform("one", fail, name="inference")
    else:
        quarantine(webhook, "one")
    webhook.sweep()
    webhook.send()

    (request,) = webhook.there.requests
    assert [card["kind"] for card in request.message["data"]["cards"]] == [kind]


def test_a_card_that_a_pause_hides_is_sent_when_the_record_is_resumed(
    new_webhook: NewWebhook,
) -> None:
    webhook = new_webhook()

    def fail(_: EffectWork) -> Any:
        raise NotYetError("tidy up", asks_person=True)

    webhook.client.submit(thread("jot"), machine="thread", id="one")
    webhook.running.perform("one", fail, name="inference")
    webhook.client.pause("one")
    webhook.sweep()
    assert not webhook.deliveries()

    webhook.client.resume("one")
    webhook.sweep()

    assert webhook.send().state == "delivered"


def quarantine(webhook: Webhook, record: str) -> None:
    """Let a person be asked about an effect, as the sweep does when its attempts are used up."""
    (entry,) = webhook.client.show(record).entries
    keys, client = webhook.dispatch.keys, webhook.store
    field = f"e:{entry.suffix}"
    line = client.hget(keys.record(record), field)
    assert isinstance(line, bytes)
    words = line.decode().split()
    words[ATTEMPTS], words[FIRES_EXHAUSTED] = words[ATTEMPTS_MAX], "0"
    client.hset(keys.record(record), field, " ".join(words))
    client.zadd(keys.effects(partition_of(record)), {entry.key(record): 0})
    sweep_all(webhook.dispatch, orphans.SWEEP)


# --- what is not lost, and not repeated --------------------------------------------------------


def test_a_worker_lost_before_it_has_noted_what_it_created_creates_nothing_twice(
    new_webhook: NewWebhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = new_webhook()
    with monkeypatch.context() as patch:
        patch.setattr(webhook.dispatch.news, "note", lambda _: None)
        asking(webhook)
    webhook.sweep()

    assert len(webhook.deliveries()) == 1


def test_a_card_that_was_answered_is_not_sent_any_more(new_webhook: NewWebhook) -> None:
    webhook = new_webhook()
    record = asking(webhook)
    webhook.client.decide("one", "begin", {}, proposal=record.proposal)

    assert webhook.send().state == "dropped"
    webhook.sweep()
    assert not webhook.there.requests
    assert len(webhook.deliveries()) == 1, "nor is its withdrawal"


def test_without_endpoints_the_sweep_asks_the_store_nothing(
    server: EmbeddedServer, prefix: str
) -> None:
    running = Running(settings_for(server.url, prefix))

    with round_trips() as sent:
        sweep_all(running.dispatch, SWEEP)

    assert sent() == 0
    assert not SWEEP.is_needed(running.dispatch.settings)


def test_a_sweep_without_news_takes_two_round_trips(new_webhook: NewWebhook) -> None:
    webhook = new_webhook()
    assert SWEEP.is_needed(webhook.dispatch.settings)
    asking(webhook)

    with round_trips() as sent:
        webhook.sweep()

    assert sent() == 2


# --- an endpoint that misbehaves ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (500, "it answered 500"),
        (CLOSE, "RemoteProtocolError"),
        (HANG, "it has not answered in"),
        ((302, {"location": "http://10.0.0.1/"}), "it answered 302, and redirects"),
    ],
)
def test_a_failed_attempt_is_followed_by_another_under_the_same_id(
    new_webhook: NewWebhook, monkeypatch: pytest.MonkeyPatch, answer: Answer, why: str
) -> None:
    there = new_webhook(answer)
    asking(there)

    with monkeypatch.context() as patch:
        if answer == HANG:
            patch.setattr(post, "_post_to", partial(time_out, there.there))
        failed = there.send()
    taken = there.next_try(failed)

    first, second = there.there.requests
    assert (failed.state, taken.state) == ("waiting", "delivered")
    assert failed.data["failure"]["detail"].startswith(why)
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == taken.id
    assert first.body == second.body


async def time_out(there: Receiver, *request: Any) -> NoReturn:
    """Post to a receiver that does not answer; the time is over as soon as it has the request."""
    posting = asyncio.create_task(POST(*request))
    while not there.requests:  # noqa: ASYNC110 - the receiver is in another thread
        await asyncio.sleep(0.01)
    posting.cancel()
    raise TimeoutError


def test_the_waits_grow_until_no_attempt_is_left_and_a_person_sends_it_again(
    new_webhook: NewWebhook,
) -> None:
    webhook = new_webhook(*[503] * (len(WAITS_S) + 1))
    asking(webhook)
    delivery = webhook.send()
    waits = [delivery.data["wait_ms"]]
    while (delivery := webhook.next_try(delivery)).state == "waiting":
        waits.append(delivery.data["wait_ms"])

    assert delivery.state == "dead"
    assert all(
        0.9 * wait_s <= wait / 1_000 <= 1.1 * wait_s
        for wait, wait_s in zip(waits, WAITS_S, strict=True)
    )
    client = Webhooks(webhook.client)
    (row,) = client.dead("chat")
    assert (row["id"], row["why"]) == (delivery.id, "it answered 503")
    with pytest.raises(CallError, match="there is no endpoint 'other'; there are: chat"):
        client.dead("other")
    assert [each.replayed for each in client.replay_all("chat")] == [True]
    assert webhook.send().state == "delivered"
    assert [each.replayed for each in client.replay([delivery.id])] == [False]
    assert {request.headers["webhook-id"] for request in webhook.there.requests} == {delivery.id}


def test_an_endpoint_that_is_gone_is_asked_no_more(new_webhook: NewWebhook) -> None:
    webhook = new_webhook(410)
    asking(webhook)

    assert webhook.send().state == "dead"


def test_an_endpoint_may_ask_for_a_longer_wait(new_webhook: NewWebhook) -> None:
    webhook = new_webhook((429, {"retry-after": "3600"}))
    asking(webhook)

    assert webhook.send().data["wait_ms"] == 3_600_000


def test_a_delivery_and_its_log_have_neither_secret_nor_address(new_webhook: NewWebhook) -> None:
    webhook = new_webhook(500, CLOSE)
    asking(webhook)
    delivery = webhook.next_try(webhook.send())

    shown = f"{delivery} {webhook.client.history(delivery.id)}"
    assert SECRET[6:] not in shown
    assert "private-path" not in shown
