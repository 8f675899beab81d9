"""The addresses beside those of records: machines, messages, `top`, metrics, and the store."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from interlock.kernel.errors import UnknownMachineError
from interlock.kernel.outline import outline_of
from interlock.workers.api.access import NewId, Reading, ReadingAll, Submitting
from interlock.workers.api.models import Fields
from interlock.workers.api.problems import PROBLEMS
from interlock.workers.engine.kept import Kept
from interlock.workers.ops.metrics import Exposition
from interlock.workers.ops.top.snapshot import SnapshotReader, snapshot_fields
from interlock.workers.producer_message import send_message as accept

router = APIRouter(tags=["surroundings"], responses=PROBLEMS)


@router.get("/v1/machines", operation_id="listMachines")
def machines(client: Reading) -> list[str]:
    """Return the names of all machines."""
    return list(client.machines)


@router.get("/v1/machines/{name}", operation_id="showMachine")
def machine(name: str, client: Reading) -> Fields:
    """Return the table of a machine: its states, and its rows with who may fire them."""
    if name not in client.machines:
        raise UnknownMachineError(name, sorted(client.machines))
    return outline_of(client.machines[name])


@router.post("/v1/messages/{kind}", operation_id="sendMessage")
def send_message(kind: str, fields: Fields, client: Submitting, key: NewId) -> Fields:
    """Do what a plain message of a kind asks for that has no address of its own, such as `send`.

    The fields are those of docs/producers.md; the Idempotency-Key is the id.
    """
    answer: Fields = accept(client, kind, fields, key)
    return answer


@router.get("/v1/top", operation_id="showTop")
def top(
    client: ReadingAll,
    backlog: Annotated[str, Query(max_length=200, description="Only this backlog.")] = "",
) -> Fields:
    """Return what `interlock top` shows at one moment: queues, what waits, what systems add."""
    return snapshot_fields(SnapshotReader(client, backlog=backlog).read())


@router.get("/metrics", operation_id="readMetrics", response_class=PlainTextResponse)
def metrics(request: Request, _: Reading) -> Response:
    """Return the metrics of the deployment, as text of Prometheus."""
    exposition: Exposition = request.app.state.exposition
    return Response(exposition.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/healthz", operation_id="checkHealth")
def health(request: Request) -> dict[str, int]:
    """Return the time of the store in ms; a store that does not answer is a problem, with 503.

    No token is needed here. However many ask, the store is asked once a second.
    """
    store_ms: Kept[int] = request.app.state.store_ms
    return {"store_ms": store_ms.value()}
