"""The capability that every deployment has: it splits a request into parts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from interlock.kernel.scales import Level
from interlock.kernel.traits import Children
from interlock.workers.gateways.capabilities.capability import capability
from interlock.workers.gateways.capabilities.result import Relationship, SplitWork

Line = Annotated[str, Field(max_length=2_000)]


class _StrictShape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PartItem(_StrictShape):
    """Something known that may belong to the matter. Its id is stable in its source."""

    id: Line
    source: Line = ""
    type: Line = ""
    label: Line = ""
    payload: dict[str, Any] = {}


class WorkPart(_StrictShape):
    """One part of the work."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(max_length=20_000)]
    fields: dict[str, Any] = {}
    items: list[PartItem] = []
    policy: dict[str, Any] | str | None = None


@capability(
    idempotent=True,
    irreversibility=Level.LOW,
    deadline_s=5,
    examples=("Do these three things: ...", "Split this into separate pieces of work"),
)
def decompose(
    *,
    children: Annotated[
        list[WorkPart],
        Field(
            min_length=1,
            max_length=Children.NUMBER_MAX,
            description="The parts; each becomes a thread of its own.",
            json_schema_extra={"x-from": "list"},
        ),
    ],
    relationship: Annotated[
        Relationship,
        Field(
            description="decompose: all parts together are the work; group: they only belong "
            "together; singular: one of them will do."
        ),
    ] = "decompose",
) -> SplitWork:
    """Split a request that asks for several separate things into one thread for each of them."""
    return SplitWork(
        tuple(child.model_dump(mode="json", exclude_unset=True) for child in children), relationship
    )
