"""The same refund on Interlock, DBOS and Celery, whose worker is killed while a bank pays."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

from bench.peers.environment import peers_python, version_of
from interlock.workers.gateways.server import EmbeddedServer
from tests.comparison.rounds import HERE, Round, as_user, counted, kill_workers, running
from tests.fakes.bank import Bank, open_bank
from tests.waiting import until

PROGRAM = "refund.py"
REFUNDS = [f"r-{number}" for number in range(12)]
KILL_AT, PAYS_S, SETTLED_S = 6, 1.0, 240.0


def interlock() -> Round:
    """Hand refunds in, and kill the worker when the bank pays the sixth."""
    refund = {"order": "o", "cents": 50}
    with (
        open_bank(pays_s=PAYS_S) as bank,
        running(PROGRAM, PAYMENT_URL=bank.url) as up,
    ):
        calls = [["submit", "refund", "refund", "Refund", refund, one] for one in REFUNDS]
        assert not any(as_user(up, "shop", *calls))
        until(lambda: bank.paid.total() >= KILL_AT, what="the bank pays")
        kill_workers(up)

        def states() -> Counter[str]:
            listed = json.loads(up.command("list", "--machine", "refund", "--json"))
            return Counter(row["state"] for row in listed["records"])

        def ended() -> bool:
            return states()["done"] + states()["pay_unclear"] == len(REFUNDS)

        until(ended, what="each is paid, or asks a person", within_s=SETTLED_S)
        done, asked = states()["done"], states()["pay_unclear"]
        ends = f"{done} done, {asked} ask a person whether it was paid"
        return Round("Interlock", PROGRAM, f"{shown(bank)}; {ends}", broken(bank, done))


def broken(bank: Bank, done: int) -> list[str]:
    """Return which promises about payments were broken."""
    promises = {
        "a refund was paid twice": max(bank.paid.values()) == 1,
        "a refund is called done that was not paid": done <= bank.paid.total(),
    }
    return [what for what, kept in promises.items() if not kept]


def celery() -> Round:
    """Do the same with plain Celery."""
    with _bank_and_folder() as (bank, folder), EmbeddedServer(folder / "store") as store:
        environment = _environment(bank, folder, BROKER_URL=store.url)
        command = [sys.executable, "-m", "celery", "-A", "refund_celery", "worker"]
        code = "import refund_celery as r, sys; [r.submit(one, 50) for one in sys.argv[1:]]"

        def hand_in() -> None:
            submit = [sys.executable, "-c", code, *REFUNDS]
            subprocess.run(submit, cwd=HERE, env=environment, check=True)

        def done() -> int:
            return _count(folder, "select count(*) from refund where state = 'done'")

        worker = [*command, "-P", "threads", "-c", "8", "--loglevel=WARNING"]
        return _killed(
            f"Celery {version('celery')}", bank, environment, [worker, worker], done, hand_in
        )


def dbos() -> Round:
    """Do the same with DBOS on SQLite."""
    python = str(peers_python())
    with _bank_and_folder() as (bank, folder):
        first = [python, "refund_dbos.py", *REFUNDS]

        def done() -> int:
            return _count(folder, "select count(*) from workflow_status where status = 'SUCCESS'")

        name = f"DBOS {version_of('dbos')}"
        return _killed(name, bank, _environment(bank, folder), [first, first[:2]], done)


def _killed(
    name: str,
    bank: Bank,
    environment: dict[str, str],
    workers: Sequence[Sequence[str]],
    done: Callable[[], int],
    hand_in: Callable[[], None] = lambda: None,
) -> Round:
    """Start a worker, kill it when the bank pays the sixth, start another, and wait for the end."""
    first, second = workers
    with _worker(first, environment):
        hand_in()
        until(lambda: bank.paid.total() >= KILL_AT, what="the bank pays")
    with _worker(second, environment):
        until(lambda: done() == len(REFUNDS), what="all are done", within_s=SETTLED_S)
        ends = f"{done()} done, nobody is asked"
    return Round(name, PROGRAM, f"{shown(bank)}; {ends}")


@contextmanager
def _worker(command: Sequence[str], environment: dict[str, str]) -> Iterator[None]:
    """Run a worker, and kill it at the end of the block."""
    with (Path(environment["FOLDER"]) / "worker.log").open("ab") as log:
        worker = subprocess.Popen(command, cwd=HERE, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            worker.kill()
            worker.wait()


@contextmanager
def _bank_and_folder() -> Iterator[tuple[Bank, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="own-"))
    with open_bank(pays_s=PAYS_S) as bank:
        yield bank, folder
    shutil.rmtree(folder)


def _environment(bank: Bank, folder: Path, **more: str) -> dict[str, str]:
    refunds = str(folder / "refunds.db")
    return {
        **os.environ,
        "FOLDER": str(folder),
        "REFUNDS": refunds,
        "PAYMENT_URL": bank.url,
        **more,
    }


def _count(folder: Path, statement: str) -> int:
    with closing(sqlite3.connect(folder / "refunds.db", timeout=30)) as table:
        try:
            return int(table.execute(statement).fetchone()[0])
        except sqlite3.OperationalError:  # there is no such table yet
            return 0


def shown(bank: Bank) -> str:
    """Return what the bank has counted, in a line."""
    return (
        f"of {len(REFUNDS)} refunds {counted(Counter(bank.paid[one] for one in REFUNDS), 'paid')}"
    )
