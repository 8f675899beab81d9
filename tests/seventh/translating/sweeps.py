"""Ends translations about which nobody has answered in time."""

from collections import Counter
from functools import partial

from interlock.system.records import Records, Sweep, act_on_each
from interlock.system.tables import Record
from translating.table import State, TranslationData, Trigger

WAITING = (State.TRANSLATED, State.STUCK)


def due(records: Records) -> list[int]:
    return records.views.partitions("translation", WAITING)


def run(records: Records, partition: int) -> Counter[str]:
    machine = records.machine("translation")
    waiting = records.views.ids(machine, partition=partition, states=WAITING)
    return act_on_each({one: partial(expire, records, one) for one in waiting})


def expire(records: Records, record_id: str) -> str:
    record: Record[TranslationData] = records.views.record(record_id)
    if records.now_ms() - record.since_ms < 1_000 * record.data["answer_within_s"]:
        return "waits"
    records.fire(record, Trigger.EXPIRE, version=record.entered)
    return "expired"


SWEEPS = (Sweep("translations", due, run),)
