"""Five empty steps on DBOS: a workflow whose steps are each a checkpoint in its database.

It is a queue worker as in its manual: the producer hands workflows to a queue with a client, and
`python -m bench.peers.dbos_steps` takes them from it.
"""

from __future__ import annotations

import os
import signal
import threading

import sqlalchemy
from dbos import DBOS, DBOSClient
from sqlalchemy import column, func, select

from bench.bodies import Bodies

URL, BODIES = os.environ["PEER_DATABASE"], Bodies()


@DBOS.step()
def empty(number: int) -> int:
    BODIES.body()
    return number


@DBOS.workflow()
def five() -> None:
    for number in range(5):
        empty(number)


class Producer:
    """Hands workflows in: into another queue, from which one statement moves them together."""

    def __init__(self) -> None:
        self.client = DBOSClient(system_database_url=URL)
        self.database = sqlalchemy.create_engine(URL, isolation_level="AUTOCOMMIT").connect()
        columns = [column(name) for name in ("queue_name", "status")]
        schema = None if URL.startswith("sqlite") else "dbos"
        self.rows = sqlalchemy.table("workflow_status", *columns, schema=schema)

    def hold(self, chains: int) -> None:
        for _ in range(chains):
            self.client.enqueue({"queue_name": "held", "workflow_name": "five"})

    def show(self) -> None:
        held = self.rows.update().where(self.rows.c.queue_name == "held")
        self.database.execute(held.values(queue_name="steps"))

    def done(self) -> int:
        ended = select(func.count()).where(self.rows.c.status == "SUCCESS")
        return int(self.database.execute(ended).scalar_one())


if __name__ == "__main__":
    DBOS(config={"name": "bench", "system_database_url": URL, "log_level": "WARNING"})
    DBOS.launch()
    # Its default is a second: the measured workflows would wait for the queue half of their time.
    DBOS.register_queue("steps", polling_interval_sec=0.1)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    BODIES.ready()
    ended.wait()
    BODIES.ended()
    os._exit(0)
