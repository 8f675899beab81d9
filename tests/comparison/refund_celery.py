"""The refund of docs/workflows.md on plain Celery, with a table of its own for states and answers.

A message of a worker that was killed is delivered again (`acks_late`), after ten seconds; the
default is an hour. What a person decides is a call of `decide`.
"""

import os
import sqlite3

import httpx2
from celery import Celery

app = Celery("refunds", broker=os.environ["BROKER_URL"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_transport_options={"visibility_timeout": 10},
)


def table() -> sqlite3.Connection:
    found = sqlite3.connect(os.environ["REFUNDS"], timeout=30, isolation_level=None)
    found.execute(
        "create table if not exists refund"
        " (id text primary key, cents int, state text, payment text, reason text)"
    )
    return found


def submit(refund: str, cents: int) -> None:
    table().execute("insert or ignore into refund values (?, ?, 'check', '', '')", (refund, cents))
    check.delay(refund)


def decide(refund: str, *, approve: bool) -> None:
    changed = table().execute(
        "update refund set state = ? where id = ? and state = 'approval'",
        ("pay" if approve else "failed", refund),
    )
    if changed.rowcount and approve:
        pay.delay(refund)


@app.task
def check(refund: str) -> None:
    rows = table()
    (cents,) = rows.execute("select cents from refund where id = ?", (refund,)).fetchone()
    state = "failed" if cents <= 0 else "approval" if cents > 100_00 else "pay"
    rows.execute("update refund set state = ? where id = ? and state = 'check'", (state, refund))
    if state == "pay":
        pay.delay(refund)


@app.task(autoretry_for=(httpx2.HTTPError,), retry_backoff=True, max_retries=3)
def pay(refund: str) -> None:
    rows = table()
    cents, state = rows.execute(
        "select cents, state from refund where id = ?", (refund,)
    ).fetchone()
    if state != "pay":
        return
    answer = httpx2.post(
        os.environ["PAYMENT_URL"], json={"refund": refund, "cents": cents}, timeout=20
    )
    payment = answer.raise_for_status().json()["payment"]
    rows.execute("update refund set state = 'done', payment = ? where id = ?", (payment, refund))
