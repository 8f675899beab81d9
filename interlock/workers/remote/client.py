"""The client over HTTP: the verbs of `Client`, for who reaches the API and not the store."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Unpack
from uuid import uuid4

import httpx2

from interlock.kernel.decision import Explanation
from interlock.kernel.errors import InvalidPayloadError, KernelError
from interlock.kernel.event import START, Event, Note
from interlock.kernel.record import PRIORITY_DEFAULT, RETRY, Record, record_id
from interlock.kernel.store.counts import RecordCounts
from interlock.kernel.store.inboxes import Mail
from interlock.kernel.store.listings import ListedRecord, Page
from interlock.workers.engine.bulk import BulkPage, BulkVerb, check_bounded
from interlock.workers.engine.card import Card, CardPage
from interlock.workers.engine.event_feed import FollowedEvent
from interlock.workers.engine.open_cards import WantedCards, gather_cards
from interlock.workers.engine.polling import WaitTimeoutError, polls
from interlock.workers.engine.record_filter import Wanted
from interlock.workers.engine.submission import Submitted, check_submission, of_machine, submit_each
from interlock.workers.remote.batches import batches
from interlock.workers.remote.bodies import (
    bulk_page_of,
    card_of,
    card_page_of,
    counts_of,
    each_of,
    event_of,
    fields_of,
    known,
    lines_of,
    page_of,
    record_of,
    shown_of,
    submitted_of,
)
from interlock.workers.remote.connection import ApiConnection
from interlock.workers.remote.operator_calls import OperatorCalls
from interlock.workers.remote.output_calls import OutputCalls
from interlock.workers.remote.problems import TooLargeError

PAGE = 500
LINES = 1_000
AGAIN_S = 0.5  # between two streams


class HttpClient(OperatorCalls, OutputCalls):
    """A typed, synchronous client of the HTTP API. Each call is repeated until it is answered.

    It raises what `Client` raises; `StoreDownError` also where the API does not answer.
    """

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        actor: str = "producer",
        http: httpx2.Client | None = None,
    ) -> None:
        """Call nothing yet. `url` is by default that of `interlock up` here; `actor` is claimed."""
        self.api = ApiConnection(url, token, actor, http)
        self._call = self.api.call

    def submit(
        self,
        payload: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002 - as in `Client`
        machine: str,
        priority: int = PRIORITY_DEFAULT,
    ) -> Submitted:
        """Create a record, as `Client.submit` does. Raises IdTakenError for another payload."""
        body = _new_record(payload, id, machine, priority)
        key = body.pop("id")
        return self._call(partial(known, Submitted), "POST", "/v1/records", body, key=key)

    def submit_many(
        self, payloads: Sequence[Mapping[str, Any]], *, machine: str
    ) -> list[Submitted]:
        """Submit several payloads, as `Client.submit_many` does, many with each call."""
        new: list[Mapping[str, Any]] = []

        def draft(payload: Any, *, id: Any = None, priority: Any = 5) -> Submitted:  # noqa: A002
            new.append(_new_record(payload, id, machine, priority))
            return Submitted(new[-1]["id"], replayed=False)

        drafts = submit_each(payloads, draft)
        done = (result for batch in batches(new) for result in self._submit_batch(batch))
        return [one if one.error else next(done) for one in drafts]

    def _submit_batch(self, batch: Sequence[Mapping[str, Any]]) -> Sequence[Submitted]:
        try:
            if len(batch) == 1:
                return [self.submit(**batch[0])]
            read = partial(submitted_of, len(batch))
            return self._call(read, "POST", "/v1/records:batch", {"records": batch})
        except KernelError as refusal:
            if isinstance(refusal, TooLargeError) and len(batch) > 1:
                # A caller who may make few calls at once may send few records with one.
                half = len(batch) // 2
                return [*self._submit_batch(batch[:half]), *self._submit_batch(batch[half:])]
            return [Submitted(one["id"], replayed=False, error=refusal) for one in batch]

    def fire(
        self,
        record_id: str,
        trigger: str,
        payload: Mapping[str, Any] | None = None,
        *,
        op_id: str | None = None,
        reason: str = "",
        version: int | None = None,
    ) -> Record:
        """Fire a trigger, as `Client.fire_by_hand` does: a field `by` is always who calls."""
        body = {"trigger": trigger, "payload": payload or {}, "reason": reason, "entered": version}
        return self._change(record_id, "fire", body, op_id)

    fire_by_hand = fire

    def decide(
        self,
        record_id: str,
        choice: str,
        answer: Mapping[str, Any] | None = None,
        *,
        proposal: str,
        op_id: str | None = None,
    ) -> Record:
        """Answer a card, as `Client.decide` does."""
        body = {"choice": choice, "answer": answer or {}, "proposal": proposal}
        # The proposal says what was seen; the record may have got a new version since.
        return self._change(record_id, "decide", body, op_id, {"If-Match": "*"})

    def cancel(self, record_id: str, *, reason: str = "", op_id: str | None = None) -> Record:
        """End a record, or ask its running action to stop. The returned state says which it was."""
        return self._change(record_id, "cancel", {"reason": reason}, op_id)

    def pause(self, record_id: str, *, reason: str = "") -> str:
        """Start no new effect on a record until it is resumed. Running effects finish."""
        return self._flag(record_id, "pause", reason)

    def resume(self, record_id: str, *, reason: str = "") -> str:
        """Resume a paused record."""
        return self._flag(record_id, "resume", reason)

    def retry(self, record_id: str, *, reason: str = "") -> str:
        """Let the effects of a record that failed, or were given up, try again now."""
        return self._flag(record_id, "retry", reason)

    def change_many(
        self,
        verb: BulkVerb,
        *,
        limit: int = 100,
        cursor: str = "",
        reason: str = "",
        dry_run: bool = False,
        **wanted: Unpack[Wanted],
    ) -> BulkPage:
        """Do what a verb names to the records of one page of a list, as `Client.change_many` does.

        If an answer is lost, the call is made again, and says what it then left as it was.
        """
        check_bounded(wanted)
        body = {"verb": verb, "limit": limit, "cursor": cursor, "reason": reason}
        body |= {"dry_run": dry_run, **_conditions(wanted)}
        return self._call(bulk_page_of, "POST", "/v1/records:bulk", body)

    def send(self, kind: str, fields: Mapping[str, Any], *, op_id: str | None = None) -> Any:
        """Send a plain message of a kind that a system adds, such as `send`: docs/producers.md."""
        return self._call(fields_of, "POST", f"/v1/messages/{kind}", fields, op_id or uuid4().hex)

    def explain(
        self, record_id: str, trigger: str, payload: Mapping[str, Any] | None = None
    ) -> Explanation:
        """Return what an answer or a trigger would do now, or why it is refused. Fires nothing."""
        body = {"trigger": trigger, "payload": payload or {}}
        path = self._path(record_id, "explain")
        return self._call(partial(known, Explanation), "POST", path, body)

    def explain_all(self, record_id: str) -> list[Explanation]:
        """Return for each trigger what it would do now, or why it would not."""
        path = self._path(record_id, "why-not")
        return self._call(each_of(partial(known, Explanation)), "GET", path)

    def check_choice(self, record_id: str, choice: str) -> None:
        """Raise CallError, with the choices that there are, if no open card takes this one."""
        names = [offer.name for card in self.cards_of(record_id) for offer in card.affordances]
        if choice not in names:
            with suppress(InvalidPayloadError):
                self.explain(record_id, choice)

    def show(self, record_id: str, *, machine: str = "") -> Record:
        """Return a record as it is now, as `Client.show` does. Its leases have no tokens."""
        return of_machine(self._call(record_of, "GET", self._path(record_id)), machine)

    def describe(self, record_id: str) -> dict[str, Any]:
        """Return everything that `interlock show` prints of a record."""
        return self._call(fields_of, "GET", self._path(record_id, "description"))

    def outlook(self, record: Record) -> str:
        """Say what follows by itself in the present state of a record, or ''."""
        return str(self._call(itemgetter("outlook"), "GET", self._path(record.id)))

    def history(self, record_id: str) -> list[Event | Note]:
        """Return a record's whole log, oldest first."""
        return list(self._lines(record_id, START))

    def mail(self, record_id: str, *, limit: int = 100) -> list[Mail]:
        """Return the newest mail of a long-lived agent, read or not, the newest first."""
        path = self._path(record_id, "mail")
        return self._call(each_of(partial(known, Mail)), "GET", path, limit=limit)

    def card(self, record_id: str) -> Card | None:
        """Return the card that a record shows a person now, if it has one."""
        of_state = (one for one in self.cards_of(record_id) if RETRY not in one.proposal)
        return next(of_state, None)

    def cards(self, *, limit: int = 100, **wanted: Unpack[WantedCards]) -> list[Card]:
        """Return the open cards of at most so many records, the longest waiting first."""
        return gather_cards(self.cards_page, limit, wanted)

    def cards_page(
        self, *, limit: int = 100, cursor: str = "", **wanted: Unpack[WantedCards]
    ) -> CardPage:
        """Return one page of the open cards; it is about PAGE records at most."""
        named: dict[str, Any] = {name: value for name, value in wanted.items() if value}
        query = {"limit": min(limit, PAGE), "cursor": cursor, **named}
        return self._call(card_page_of, "GET", "/v1/cards", **query)

    def cards_of(self, record_id: str) -> list[Card]:
        """Return the open cards of one record: that of its state, and those of its effects."""
        return self._call(each_of(card_of), "GET", self._path(record_id, "cards"))

    def claim_card(
        self, record_id: str, *, proposal: str, holder: str = "", op_id: str | None = None
    ) -> list[Card]:
        """Note that the caller is on a card, or the `holder` to whom it is handed over."""
        body = {"proposal": proposal, "holder": holder}
        return self._claim(record_id, "claim-card", body, op_id)

    def release_card(self, record_id: str, *, proposal: str) -> list[Card]:
        """Note that nobody is on a card any more."""
        return self._claim(record_id, "release-card", {"proposal": proposal}, None)

    def _claim(
        self, record_id: str, verb: str, body: Mapping[str, Any], op_id: str | None
    ) -> list[Card]:
        path, key = self._path(record_id, verb), op_id or uuid4().hex
        return self._call(each_of(card_of), "POST", path, body, key)

    def list(self, *, limit: int = 100, **wanted: Unpack[Wanted]) -> list[ListedRecord]:
        """Return the records for which all holds that is given, the longest in their state first.

        With `parent`, `id_prefix` or `text` they come by name.
        """
        return list(islice(self._listed(limit, wanted), limit))

    def _listed(self, limit: int, wanted: Wanted) -> Iterator[ListedRecord]:
        cursor, is_first = "", True
        while cursor or is_first:
            page = self.page(
                limit=min(limit, PAGE), cursor=cursor, newest=False, by_state=True, **wanted
            )
            yield from page.rows
            cursor, is_first = page.cursor, False

    def page(
        self,
        *,
        limit: int = 100,
        cursor: str = "",
        newest: bool = True,
        by_state: bool = False,
        **wanted: Unpack[Wanted],
    ) -> Page:
        """Return one page of a list, as `Client.page` does."""
        by_creation, in_state = ("oldest", "newest"), ("longest", "latest")
        order = (in_state if by_state else by_creation)[newest]
        query = {"limit": limit, "cursor": cursor, "order": order, **_conditions(wanted)}
        return self._call(page_of, "GET", "/v1/records", **query)

    def counts(self, **wanted: Unpack[Wanted]) -> RecordCounts:
        """Count the records that `list` would show, as `Client.counts` does."""
        return self._call(counts_of, "GET", "/v1/counts", **_conditions(wanted))

    def now_ms(self) -> int:
        """Return the time of the store."""
        return self._call(lambda body: int(body["store_ms"]), "GET", "/healthz")

    def me(self) -> dict[str, Any]:
        """Return who the API takes this client for, and what that may do."""
        return self._call(fields_of, "GET", "/v1/me")

    def wait(self, record_id: str, *, timeout_s: float, for_person: bool = True) -> Record:
        """Wait until a record has ended or (with `for_person`) asks a person.

        Raises WaitTimeoutError.
        """
        for _ in polls(timeout_s):
            shown = self._call(shown_of, "GET", self._path(record_id))
            if shown.ended or (for_person and shown.asks_person):
                return shown.record
        state = shown.record.state
        raise WaitTimeoutError(f"{record_id} is still {state} after {timeout_s:g} s")

    def watch(self, record_id: str, *, timeout_s: float) -> Iterator[Event | Note]:
        """Yield the lines of a record's log as they come, until it has ended or the time is up."""
        position = START
        for _ in polls(timeout_s):
            shown = self._call(shown_of, "GET", self._path(record_id))
            for line in self._lines(record_id, position):
                yield line
                position = line.position
            if shown.ended and not shown.record.entries:
                return

    def events(self, *, after: str = "", machines: Collection[str] = ()) -> Iterator[FollowedEvent]:
        """Yield the events of all records, as `Client.events` does: over one stream after another.

        StoreDownError ends it where the API stays away: go on after the last position.
        """
        position = after or self.events_position()
        return self._events(position, list(machines), self._stream(position, list(machines)))

    def events_position(self) -> str:
        """Return the position after all events until now, from which `events` goes on later."""
        return str(self._call(itemgetter("position"), "GET", "/v1/events:position"))

    def _events(
        self, position: str, machines: Sequence[str], answer: httpx2.Response
    ) -> Iterator[FollowedEvent]:
        while True:
            # A stream that breaks off goes on as one that has ended: after the last position.
            with closing(answer), suppress(httpx2.TransportError):
                for sent in httpx2.EventSource(answer):
                    position = sent.id
                    if sent.data:
                        event = self.api.parsed(lambda text: event_of(json.loads(text)), sent.data)
                        yield FollowedEvent(event, position)
            time.sleep(AGAIN_S)
            answer = self._stream(position, machines)

    def _stream(self, position: str, machines: Sequence[str]) -> httpx2.Response:
        return self.api.stream("/v1/events", {"Last-Event-ID": position}, {"machine": machines})

    def _lines(self, record_id: str, after: str) -> Iterator[Event | Note]:
        while after:
            path = self._path(record_id, "history")
            lines, after = self._call(lines_of, "GET", path, after=after, limit=LINES)
            yield from lines

    def _flag(self, record_id: str, verb: str, reason: str) -> str:
        path = self._path(record_id, verb)
        return str(self._call(itemgetter("answer"), "POST", path, {"reason": reason}))

    def _change(
        self,
        record_id: str,
        verb: str,
        body: Mapping[str, Any],
        op_id: str | None,
        headers: Mapping[str, str] | None = None,
    ) -> Record:
        # A call without an op-id gets one: so it can be repeated when an answer is lost.
        key = op_id or uuid4().hex
        return self._call(record_of, "POST", self._path(record_id, verb), body, key, headers)

    def _path(self, one: str, verb: str = "") -> str:
        return f"/v1/records/{record_id(one)}" + (f":{verb}" if verb else "")


def _new_record(payload: Any, given_id: Any, machine: str, priority: Any) -> dict[str, Any]:
    """Return a new record as the API takes it. Refuses what makes no sense before it is sent."""
    new_id = f"{machine[:2]}-{uuid4().hex[:10]}" if given_id is None else given_id
    check_submission(payload, new_id, priority)
    record_id(new_id)
    return {"id": new_id, "machine": machine, "payload": payload, "priority": priority}


def _conditions(wanted: Wanted) -> dict[str, Any]:
    """Return the conditions of a list as the API names them."""
    asked: dict[str, Any] = dict(wanted)
    times = {name: asked.pop(f"{name}_ms", None) for name in ("created", "since")}
    for name, within in times.items():
        if within:
            asked[f"{name}_from_ms"], asked[f"{name}_to_ms"] = within
    asked["id"] = asked.pop("id_prefix", "")
    return {name: value for name, value in asked.items() if value not in (None, "")}
