"""A workflow changes while 10,000 refunds are open, forward, back, and forward again.

Workers and callers of both versions are at work at once, and `interlock apply` is killed in its
first, second and sixth batch. Every refund is paid once, and every log proves its record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.keys import Keys
from interlock.workers.gateways.server import EmbeddedServer
from tests.fresh_worker import fresh_worker
from tests.waiting import until

RECORDS = 10_000
INTERLOCK = str(Path(sys.executable).parent / "interlock")
FORWARD, BACK = ("approval", "payment"), ("asking", "pay")
OLD = """
import os
from pathlib import Path
from typing import Literal

from interlock import Data, Work, Workflow, days


class Refund(Data):
    order: str


refund = Workflow("refund", Refund, expires=days(30))
refund.ask("asking", "Refund {order}?", approve="pay", stop="done")


@refund.step(once=True)
def pay(r: Refund, work: Work) -> Literal["done"]:
    with Path(os.environ["PAID"]).open("a") as file:
        file.write(f"{work.id} old\\n")
    return "done"


refund.ends(done=True)
"""
NEW = """
import os
from pathlib import Path
from typing import Literal

from interlock import Data, Work, Workflow, days


class Order(Data):
    number: str
    currency: str


def with_currency(old: dict) -> dict:
    return {"number": old["order"], "currency": "EUR"}


refund = Workflow(
    "refund",
    Order,
    expires=days(30),
    renamed={"asking": "approval", "pay": "payment"},
    schema=2,
    migrate=with_currency,
)
refund.ask("approval", "Pay {number} in {currency}?", approve="payment", stop="done")


@refund.step(once=True)
def payment(r: Order, work: Work) -> Literal["done"]:
    with Path(os.environ["PAID"]).open("a") as file:
        file.write(f"{work.id} {r.currency}\\n")
    return "done"


refund.ends(done=True)
"""
CREATE = """
from interlock import Client

client = Client(actor="shop")
for n in range({records}):
    client.submit({{"order": f"o-{{n}}"}}, machine="refund", id=f"r-{{n}}")
"""
ANSWER = """
from collections import Counter
from interlock import Client
from interlock.kernel.errors import KernelError

client, seen = Client(actor="ann"), Counter()
for n in range({first}, {last}):
    try:
        client.decide(f"r-{{n}}", "approve", proposal=f"r-{{n}}:1")
        seen["taken"] += 1
    except KernelError as refusal:
        seen[type(refusal).__name__] += 1
print(json.dumps(seen))
"""
pytestmark = pytest.mark.proof


class Trial:
    """Two folders with a version of the workflow each, over one store."""

    def __init__(self, folder: Path, url: str, prefix: str) -> None:
        self.folder, self.url, self.prefix = folder, url, prefix
        self.keys, self.store = Keys(prefix), redis.Redis.from_url(url)
        self.killed: list[int] = []  # how many records each run that was killed had moved
        self.paid = folder / "paid"
        self.paid.touch()
        for version, program in (("old", OLD), ("new", NEW)):
            (folder / version).mkdir()
            (folder / version / "refund.py").write_text(program)

    def environment(self, version: str) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
        return {
            **own,
            "INTERLOCK_STORE_URL": self.url,
            "INTERLOCK_PREFIX": self.prefix,
            "INTERLOCK_SYSTEMS": str(self.folder / version / "refund.py"),
            "INTERLOCK_HOME": str(self.folder / version / "home"),
            "INTERLOCK_SANDBOX": "off",
            "INTERLOCK_TASK_EVENTS": "0",
            "PAID": str(self.paid),
        }

    def worker(self, version: str, stack: ExitStack) -> Path:
        return stack.enter_context(
            fresh_worker(
                Path(sys.executable),
                self.folder / version,
                self.environment(version),
                self.folder / f"{version}.log",
            )
        )

    def start(self, version: str, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.folder / version,
            env=self.environment(version),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def code(self, version: str, code: str, **numbers: int) -> subprocess.Popen[str]:
        return self.start(version, sys.executable, "-c", f"import json\n{code.format(**numbers)}")

    def apply(self, *options: str) -> subprocess.Popen[str]:
        return self.start("new", INTERLOCK, "apply", "--json", *options)

    def in_state(self, *states: str) -> int:
        """Return how many records the store has in these states, whoever calls them so."""
        indexes = [
            self.keys.state_index_of(partition, "refund", state)
            for partition in range(PARTITIONS)
            for state in states
        ]
        pipeline = self.store.pipeline(transaction=False)
        for index in indexes:
            pipeline.zcard(index)
        return sum(pipeline.execute())

    def ms_until_paid(self, record_id: str) -> int:
        """Return how long after its answer a record was paid, in ms."""
        lines: Any = self.store.xrange(self.keys.log(record_id))
        found = [(json.loads(f[b"event"]), int(f[b"at"])) for _, f in lines if b"event" in f]
        at = {event["trigger"]: at_ms for event, at_ms in found}
        return at["to_done"] - at["approve"]

    def killed_at(self, count: int, *options: str, states: Sequence[str]) -> None:
        """Kill a run of the command as soon as so many records more are in these states."""
        before, process = self.in_state(*states), self.apply(*options)
        until(
            lambda: self.in_state(*states) >= before + count or process.poll() is not None,
            what="it moves records",
            within_s=300,
        )
        process.kill()
        output, errors = process.communicate()
        assert process.returncode < 0, output + errors
        self.killed.append(self.in_state(*states) - before)
        # A run that was killed keeps the lock for some seconds.
        until(lambda: not self.store.exists(self.keys.moves_lock()), what="it is free", within_s=30)

    def applied(self, *options: str) -> dict[str, float]:
        """Run the command to its end; return what it counts, and its seconds."""
        begun = time.monotonic()
        found = json.loads(ended(self.apply(*options)))["machines"].get("refund", {})
        return {**found, "s": round(time.monotonic() - begun, 1)}


def ended(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors[-3_000:] or output
    return output


def answered(process: subprocess.Popen[str]) -> Mapping[str, int]:
    return dict(json.loads(ended(process)))


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "store") as store:
        yield store


def test_a_workflow_changes_under_load(own_store: EmbeddedServer, tmp_path: Path) -> None:
    trial, figures = Trial(tmp_path, own_store.url, "t"), dict[str, object]()
    part = RECORDS // 5
    with ExitStack() as stack, ExitStack() as old, ExitStack() as new, ExitStack() as again:
        trial.worker("old", old)
        celery = (sys.executable, "-m", "celery", "-A", "interlock.workers.main")
        beat = stack.enter_context(trial.start("old", *celery, "beat", "--pidfile=", "-s", "beat"))
        stack.callback(beat.kill)
        ended(trial.code("old", CREATE, records=RECORDS))
        assert trial.in_state("asking") == RECORDS

        # Forward, with workers and callers of both versions at work.
        old_callers = trial.code("old", ANSWER, first=0, last=part)
        until(lambda: trial.in_state("done") > part // 50, what="the old one pays", within_s=120)
        trial.killed_at(1, states=FORWARD)
        new_callers = trial.code("new", ANSWER, first=part, last=2 * part)
        trial.killed_at(600, states=FORWARD)
        trial.killed_at(2_600, states=FORWARD)
        trial.worker("new", new)  # whose sweep moves records too
        figures["forward"] = trial.applied()
        figures["old callers"] = answered(old_callers)
        figures["new callers"] = answered(new_callers)
        old.close()
        until(lambda: not trial.in_state("pay", "payment"), what="all is paid", within_s=600)
        late = sorted(trial.ms_until_paid(f"r-{n}") for n in range(part, 2 * part))
        figures["ms until paid"] = {
            "half": late[part // 2],
            "99%": late[-part // 100],
            "all": late[-1],
        }
        assert not trial.in_state(*BACK)

        # Back, killed as well, and the old version goes on.
        new.close()
        trial.killed_at(1, "--back", states=BACK)
        figures["back"] = trial.applied("--back")
        assert not trial.in_state(*FORWARD)
        trial.worker("old", old)
        old_callers = trial.code("old", ANSWER, first=2 * part, last=3 * part)
        figures["old callers, back"] = answered(old_callers)

        # Forward again, to the end.
        old.close()
        trial.worker("new", again)
        figures["forward again"] = trial.applied()
        figures["all"] = answered(trial.code("new", ANSWER, first=0, last=RECORDS))
        until(lambda: trial.in_state("done") == RECORDS, what="all are done", within_s=900)

    verified = trial.start("new", INTERLOCK, "verify", "--json")
    report = json.loads(verified.communicate(timeout=900)[0])
    paid = Counter(line.split()[0] for line in trial.paid.read_text().splitlines())
    figures["moved by runs that were killed"] = trial.killed
    figures["paid"] = {"records": len(paid), "most for one": max(paid.values())}
    figures["verify"] = {**report, "faults": len(report["faults"])}
    sys.stdout.write(json.dumps(figures, indent=1))
    assert report["faults"] == []
    assert (len(paid), set(paid.values())) == (RECORDS, {1})
