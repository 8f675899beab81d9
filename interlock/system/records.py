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
        return act_on_each({one: partial(remind, records, one) for one in late})

    SWEEPS = (Sweep("translations", due, run, periods=60),)  # every 60th period of the sweeps

A row that names the sweep, `il.by(sweep="translations")`, is fired by no other program. `remind`
fires it by `records.fire(record, trigger, version=record.entered)`, and so only in the state that
it has seen. It returns a word, which is counted. An error is logged, and the other records are
acted on.
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
from interlock.workers.engine.trace_context import brief_traces
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
    "brief_traces",
    "polls",
]
