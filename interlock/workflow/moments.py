"""Times that the data of a workflow name: what they mean, and when that is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone of a name such as `Europe/Berlin`. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise ValueError(f"{name!r} is no time zone: write one as Europe/Berlin") from None


def epoch_ms(moment: object, zone: ZoneInfo) -> int:
    """Return a time in ms since 1970. One without an offset is a local time of the zone.

    A local time that exists twice, because clocks are set back, is the first of the two. One that
    does not exist, because clocks are set ahead, is as long after the jump as it seems to be:
    02:30 is 03:30 where 02:00 becomes 03:00. Raises TypeError for what is no datetime.
    """
    if not isinstance(moment, datetime):
        raise TypeError(f"{moment!r} is no time: return a datetime")
    if moment.tzinfo is None:
        # Python decides so for `fold=0` (PEP 495), whatever the value had.
        moment = moment.replace(tzinfo=zone, fold=0)
    return (moment - EPOCH) // MS
