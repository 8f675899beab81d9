"""A refund: checked, approved by a person above 100 EUR, paid once, expired after 3 days."""

import os
from typing import Literal

import httpx2 as httpx

from interlock import Data, Work, Workflow, days


class Refund(Data):
    order: str
    cents: int
    payment: str = ""
    reason: str = ""


refund = Workflow("refund", Refund, expires=days(3))


@refund.step
def check(r: Refund) -> Literal["approval", "pay", "failed"]:
    if r.cents <= 0:
        r.reason = f"{r.cents} is not positive"
        return "failed"
    return "approval" if r.cents > 100_00 else "pay"


refund.ask("approval", "Refund {cents} cents of order {order}?", approve="pay", reject="failed")


@refund.step(once=True)
def pay(r: Refund, work: Work) -> Literal["done"]:
    answer = httpx.post(os.environ["PAYMENT_URL"], json={"refund": work.id, "cents": r.cents})
    r.payment = answer.raise_for_status().json()["payment"]
    return "done"


refund.ends(done=True, failed=False)
