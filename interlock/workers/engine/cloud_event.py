"""The envelope of CloudEvents 1.0, in which messages and events may be sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def cloud_event(
    *,
    id: str,  # noqa: A002 - as the attribute is called
    kind: str,
    namespace: str,
    subject: str,
    at_ms: int,
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """Return data in the envelope. `id` is the same whenever it is sent again."""
    return {
        "specversion": "1.0",
        "id": id,
        "source": f"/interlock/{namespace}",
        "type": f"interlock.{kind}",
        "subject": subject,
        "time": iso_time(at_ms),
        "datacontenttype": "application/json",
        "data": data,
    }


def iso_time(ms: int) -> str:
    """Return a time in ms as RFC 3339 has it, in UTC."""
    text = datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
