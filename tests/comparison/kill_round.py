"""Counts payments of the same refund on Interlock, DBOS and Celery, when its worker is killed.

Run it from the project: `python -m tests.comparison.kill_round celery interlock`, and with a Python
that has DBOS: `DBOS_PYTHON=/path/to/python python -m tests.comparison.kill_round dbos`. Twelve
refunds are handed in; the bank takes a second for each payment, and pays for each request that it
gets. The worker is killed (SIGKILL) when the bank has begun the sixth, and started again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.up import running_up
from tests.fakes.bank import Bank, open_bank

HERE = Path(__file__).parent
REFUNDS = [f"r-{number}" for number in range(12)]
KILL_AT, SETTLED_S = 6, 240.0
PAYS_S = 1.0


def wait(what: Callable[[], bool], within_s: float = SETTLED_S) -> bool:
    """Return whether something has happened in time."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.1)
    return False


def shown(bank: Bank, started_s: float, ended: str) -> str:
    """Return what the bank has counted, in a line."""
    times = Counter(bank.paid[refund] for refund in REFUNDS)
    paid = ", ".join(f"{count} paid {number}x" for number, count in sorted(times.items()))
    return f"{paid}; {ended}; {time.monotonic() - started_s:.0f} s"


def celery(bank: Bank, folder: Path) -> str:
    with EmbeddedServer(folder / "store") as store:
        environment = {
            **os.environ,
            "BROKER_URL": store.url,
            "REFUNDS": str(folder / "refunds.db"),
            "PAYMENT_URL": bank.url,
        }
        command = [sys.executable, "-m", "celery", "-A", "refund_celery", "worker", "-P", "threads"]

        def start() -> subprocess.Popen[bytes]:
            log = (folder / "worker.log").open("ab")
            return subprocess.Popen(
                [*command, "-c", "8"], cwd=HERE, env=environment, stdout=log, stderr=log
            )

        code = "import refund_celery as r, sys; [r.submit(one, 50) for one in sys.argv[1:]]"
        worker, started_s = start(), time.monotonic()
        subprocess.run(
            [sys.executable, "-c", code, *REFUNDS], cwd=HERE, env=environment, check=True
        )
        wait(lambda: bank.paid.total() >= KILL_AT)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker = start()
        count = (
            "import refund_celery as r; "
            "print(r.table().execute(\"select count(*) from refund where state='done'\")"
            ".fetchone()[0])"
        )

        def done() -> int:
            found = subprocess.run(
                [sys.executable, "-c", count],
                cwd=HERE,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            return int(found.stdout)

        wait(lambda: done() == len(REFUNDS))
        line = shown(bank, started_s, f"{done()} of {len(REFUNDS)} done, nobody asked")
        worker.kill()
        worker.wait()
        return line


def dbos(bank: Bank, folder: Path) -> str:
    python = os.environ["DBOS_PYTHON"]
    environment = {**os.environ, "REFUNDS": str(folder / "refunds.db"), "PAYMENT_URL": bank.url}

    def start(*refunds: str) -> subprocess.Popen[bytes]:
        log = (folder / "worker.log").open("ab")
        return subprocess.Popen(
            [python, "refund_dbos.py", *refunds],
            cwd=HERE,
            env=environment,
            stdout=log,
            stderr=log,
        )

    worker, started_s = start(*REFUNDS), time.monotonic()
    wait(lambda: bank.paid.total() >= KILL_AT)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker = start()
    count = f"import sqlite3; print(sqlite3.connect({str(folder / 'refunds.db')!r}).execute("
    count += "\"select count(*) from workflow_status where status='SUCCESS'\").fetchone()[0])"

    def done() -> int:
        found = subprocess.run([python, "-c", count], capture_output=True, text=True, check=False)
        return int(found.stdout or 0)

    wait(lambda: done() == len(REFUNDS))
    line = shown(bank, started_s, f"{done()} of {len(REFUNDS)} done, nobody asked")
    worker.kill()
    worker.wait()
    return line


def interlock(bank: Bank, folder: Path) -> str:
    shutil.copy(HERE.parents[1] / "examples" / "own" / "refund.py", folder)
    submit = (
        "import sys; from interlock import Client; from refund import Refund, refund; "
        "c = Client(actor='shop'); "
        "[c.submit(refund, Refund(order='o', cents=50), id=one) for one in sys.argv[1:]]"
    )
    with running_up(folder, "refund.py", PAYMENT_URL=bank.url) as up:
        started_s = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", submit, *REFUNDS], cwd=folder, env=up.environment, check=True
        )
        wait(lambda: bank.paid.total() >= KILL_AT)
        for process in up.processes():
            words = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
            if any(word.startswith("worker@") for word in words):
                os.kill(process, signal.SIGKILL)

        def states() -> Counter[str]:
            listed = json.loads(up.command("list", "--machine", "refund", "--json"))
            return Counter(row["state"] for row in listed["records"])

        wait(lambda: states()["done"] + states()["pay_unclear"] == len(REFUNDS))
        done, asked = states()["done"], states()["pay_unclear"]
        return shown(bank, started_s, f"{done} of {len(REFUNDS)} done, {asked} ask a person")


def main() -> None:
    """Run the sides that are named."""
    for name in sys.argv[1:]:
        side = {"celery": celery, "dbos": dbos, "interlock": interlock}[name]
        with open_bank(pays_s=PAYS_S) as bank:
            folder = Path(tempfile.mkdtemp(prefix="own-"))
            print(f"{name}: {side(bank, folder)}", flush=True)


if __name__ == "__main__":
    main()
