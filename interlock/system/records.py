"""What a system does to records, and how its effects and sweeps run.

A handler gets an `EffectWork`, a command and a page get a `Client`. Both have `records`, which are
the records as that actor reads and changes them. A `Handler` is a function, async or not, from an
`EffectWork` to an `Outcome`, or to None where the effect fires nothing. A sweep is given the
records:

    def due(records: Records) -> list[int]:  # the partitions, of 64, with something to do
        return records.views.partitions("translation", [State.WAITING])

    def run(records: Records, partition: int) -> Counter[str]:
        machine = records.machine("translation")
        late = records.views.ids(machine, partition=partition, states=[State.WAITING])
        return act_on_each({one: partial(expire, records, one) for one in late})

    def expire(records: Records, record_id: str) -> str:
        record = records.views.record(record_id)
        if records.now_ms() - record.since_ms < 86_400_000:
            return "waits"
        records.fire(record, Trigger.EXPIRE, version=record.entered)
        return "expired"

    SWEEPS = (Sweep("translations", due, run, periods=60),)  # every 60th period of the sweeps

A row that names the sweep, `il.by(sweep="translations")`, is fired by no other program. With
`version=record.entered` it is fired only in the state that `expire` has seen. The words that
`expire` returns are counted. An error is logged, and the other records are acted on.

`Records.views` reads:
- `record(id)`: a `Record`, or UnknownRecordError
- `records(ids)`: those that exist, by id; `each_record(ids)` yields them page by page
- `ids(machine, root=, partition=, states=, newest=)`: the ids of a `Machine`'s records
- `partitions(name, states)`: the partitions in which the machine of this name has such records
- `children(id)`, `below(ids)`: the ids of a record's children; of all records below, by id
- `history(id)`: the whole log, a list of `Event` and `Note`, the oldest first
- `latest(ids, limit)`: the end of each log, the newest first, by id
- `last_failures(records)`: why effects failed last, by id and by the suffix of the effect
"""

from __future__ import annotations

from interlock.kernel.restoration import LoggedRecord
from interlock.kernel.store.inboxes import Mail
from interlock.kernel.store.leases import Lease
from interlock.workers.engine.news import NewsFeed
from interlock.workers.engine.polling import polls
from interlock.workers.engine.records import Records
from interlock.workers.engine.submission import Request
from interlock.workers.engine.sweeper import Sweep, act_on_each
from interlock.workers.engine.work import Handler, NotYetError

__all__ = [
    "Handler",
    "Lease",
    "LoggedRecord",
    "Mail",
    "NewsFeed",
    "NotYetError",
    "Records",
    "Request",
    "Sweep",
    "act_on_each",
    "polls",
]
