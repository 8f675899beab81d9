"""Five empty steps on PgQueuer: a job for each, which saves the chain's state and the next job.

As its manual advises, both are one transaction, so a chain is never in a state without its job.
`python -m bench.peers.pgqueuer_steps` is the worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal

import asyncpg
import uvloop
from pgqueuer import Job, PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.bodies import Bodies

URL, BODIES = os.environ["PEER_DATABASE"], Bodies()
HOLD = "insert into chain (step) select 0 from generate_series(1, $1) returning id"
MOVE = "update chain set step = $2 where id = $1 and step = $2 - 1"


async def work() -> None:
    pool = await asyncpg.create_pool(URL, min_size=20, max_size=20)
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @pgq.entrypoint("step")
    async def step(job: Job) -> None:
        chain, number = json.loads(job.payload)
        BODIES.body()
        async with pool.acquire() as connection, connection.transaction():
            if await connection.execute(MOVE, chain, number) == "UPDATE 1" and number < 5:
                following = json.dumps([chain, number + 1]).encode()
                await Queries(AsyncpgDriver(connection)).enqueue("step", following)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, pgq.shutdown.set)
    BODIES.ready()
    await pgq.run(batch_size=25)  # as its manual advises for short jobs
    BODIES.ended()


class Producer:
    """Hands chains in: as rows without a job, and their first jobs in one statement."""

    def __init__(self) -> None:
        self.wait = asyncio.new_event_loop().run_until_complete
        self.database = self.wait(asyncpg.connect(URL))
        self.wait(self.database.execute("create table chain (id serial primary key, step int)"))

    def hold(self, chains: int) -> None:
        self.held = [row["id"] for row in self.wait(self.database.fetch(HOLD, chains))]

    def show(self) -> None:
        first, many = [json.dumps([chain, 1]).encode() for chain in self.held], len(self.held)
        jobs = Queries(AsyncpgDriver(self.database))
        self.wait(jobs.enqueue(["step"] * many, first, [0] * many))

    def done(self) -> int:
        return int(self.wait(self.database.fetchval("select count(*) from chain where step = 5")))


if __name__ == "__main__":
    uvloop.run(work())
