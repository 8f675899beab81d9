"""The refund of docs/workflows.md on DBOS 3.4, over SQLite: `python refund_dbos.py` works."""

import os
import sys
import time

import httpx2
from dbos import DBOS, SetWorkflowID

DBOS(
    config={
        "name": "refunds",
        "system_database_url": f"sqlite:///{os.environ['REFUNDS']}",
        "executor_id": "one",
        "application_version": "1",
    }
)
THREE_DAYS_S = 3 * 86_400


@DBOS.step(retries_allowed=True, max_attempts=3)
def pay(refund: str, cents: int) -> str:
    answer = httpx2.post(
        os.environ["PAYMENT_URL"], json={"refund": refund, "cents": cents}, timeout=20
    )
    return str(answer.raise_for_status().json()["payment"])


@DBOS.workflow()
def refund(name: str, cents: int) -> str:
    if cents <= 0:
        return f"failed: {cents} is not positive"
    if cents > 100_00:
        DBOS.set_event("question", f"Refund {cents} cents?")
        answer = DBOS.recv("decision", timeout_seconds=THREE_DAYS_S)
        if answer is None:
            return "expired"
        if answer != "approve":
            return "failed"
    return str(pay(name, cents))


if __name__ == "__main__":
    DBOS.launch()
    for name in sys.argv[1:]:
        with SetWorkflowID(name):
            DBOS.start_workflow(refund, name, 50)
    while True:
        time.sleep(1)
