"""Serves the difference of a record, and the checkpoints of a run's folder."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from interlock.workers.api.access import Reading
from interlock.workers.api.followers import Followers, Found, Listener
from interlock.workers.api.models import DiffBody, diff_body
from interlock.workers.api.problems import PROBLEMS
from interlock.workers.client import Client
from interlock.workers.engine.diff_calls import (
    BETWEEN_LENGTH_MAX,
    ask_for_diff,
    diff_source,
    find_diff_source,
    is_final,
    look_at_diff,
)
from interlock.workers.engine.record_diff import RecordDiff

router = APIRouter(prefix="/v1", tags=["records"], responses=PROBLEMS)

Id = Annotated[str, Path(description="The id of a record, with its slashes as they are.")]
Between = Annotated[
    str,
    Query(
        max_length=BETWEEN_LENGTH_MAX,
        description="Of a run: the whole ids of two checkpoints, BEFORE..AFTER.",
    ),
]


@router.get("/records/{record_id:path}:diff", operation_id="readDiff")
def diff(record_id: Id, client: Reading, between: Between = "") -> DiffBody:
    """Return the difference of a record's work, or between two checkpoints of a run's folder.

    If another computer has to compare, `state` is `asked` in the first answer. That computer
    answers within about a second; a call within five seconds after that gets its answer.
    """
    record = client.show(record_id)
    found = look_at_diff(client.dispatch, record, diff_source(client.machines, record), between)
    return diff_body(record_id, found)


@router.get("/records/{record_id:path}:checkpoints", operation_id="listCheckpoints")
def checkpoints(record_id: Id, client: Reading) -> list[dict[str, str]]:
    """Return the checkpoints of a run's folder, the oldest first. Other records have none."""
    record = client.show(record_id)
    if find_diff_source(record) is None:
        return []
    return diff_source(client.machines, record).checkpoints(client.records, record)


def listen(request: Request, client: Client, record_id: str, between: str, seen: str) -> Listener:
    """Return a listener for the difference of a record, who has `seen` what has this stamp.

    Raises KernelError if there is no such record, or if the caller may not see its difference.
    """
    diff_source(client.machines, client.show(record_id))
    followers: Followers = request.app.state.followers
    place = (record_id, between, seen)
    return followers.listener(request.app.state.read_diffs, place, request.state.caller)


def read_diffs(client: Client, places: Collection[tuple[str, str, str]]) -> dict[Any, Found | None]:
    """Look at the differences of records for their listeners: each has seen what has a stamp.

    A listener ends with the answer of the computer, so that nothing is compared again for a page
    that is left open. What can be compared here needs no listener.
    """
    ids = dict.fromkeys(record_id for record_id, *_ in places)
    # One damaged record must not end the following of the others.
    records = client.dispatch.views.records(ids, readable_by=client.machines)
    dispatch, looks = client.dispatch, dict[tuple[str, str], RecordDiff | None]()
    for record_id, between in {place[:2] for place in places}:
        record = records.get(record_id)
        source = find_diff_source(record) if record else None
        host = source.host(client.records, record) if record and source else ""
        is_elsewhere = host not in ("", dispatch.settings.host)
        asked = ask_for_diff(dispatch, host, record_id, between) if is_elsewhere else None
        looks[record_id, between] = asked
    return {place: _found(looks[place[:2]], place) for place in places}


def _found(now: RecordDiff | None, place: tuple[str, str, str]) -> Found | None:
    record_id, between, seen = place
    if now is not None and now.stamp != seen:
        return Found([now], (record_id, between, now.stamp), more=False)
    return None if now is None or is_final(now) else Found([], place, more=False)
