"""Times of the data, in every zone that this computer knows."""

# ruff: noqa: DTZ001 - local times are what is tested

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

import pytest

from interlock.workflow.moments import EPOCH, epoch_ms, zone_named

BERLIN = ZoneInfo("Europe/Berlin")


def utc(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


@pytest.mark.parametrize(
    ("local", "found"),
    [
        (datetime(2026, 7, 1, 9, 0), datetime(2026, 7, 1, 7, 0, tzinfo=UTC)),
        # Clocks are set ahead at 02:00: 02:30 does not exist.
        (datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        # Clocks are set back at 03:00: 02:30 exists twice.
        (datetime(2026, 10, 25, 2, 30), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        (datetime(2026, 10, 25, 2, 30, fold=1), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_local_and_one_that_is_twice_is_the_first(
    local: datetime, found: datetime
) -> None:
    assert utc(epoch_ms(local, BERLIN)) == found


def test_a_time_with_an_offset_needs_no_zone() -> None:
    moment = datetime(2026, 7, 1, 9, 0, tzinfo=timezone(timedelta(hours=-5)))

    assert utc(epoch_ms(moment, BERLIN)) == moment


@pytest.mark.parametrize("wrong", ["2026-07-01", None, 5, datetime(2026, 1, 1).date()])
def test_what_is_no_time_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="is no time: return a datetime"):
        epoch_ms(wrong, BERLIN)


def test_a_zone_that_is_none_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="'Europe/Atlantis' is no time zone"):
        zone_named("Europe/Atlantis")


def test_every_zone_gives_each_local_hour_of_a_year_one_moment() -> None:
    """A moment that a local time means is that time again, or the one after a jump."""
    hours = [datetime(2026, 1, 1) + timedelta(minutes=30 * n) for n in range(0, 17_520, 7)]
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        moments = [utc(epoch_ms(local, zone)) for local in hours]
        for local, moment in zip(hours, moments, strict=True):
            back = moment.astimezone(zone).replace(tzinfo=None)
            jump = back - local
            assert timedelta(0) <= jump <= timedelta(hours=24), (name, local, back)
            if jump:  # it does not exist: the moment lies behind the jump, and as far
                before = (moment - jump).astimezone(zone)
                assert before.utcoffset() != moment.astimezone(zone).utcoffset(), (name, local)
