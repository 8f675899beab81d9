"""A workflow whose step may call a provider three times at once for each tenant."""

import os
from typing import Literal

import httpx2 as httpx

from interlock import Data, Workflow

CONCURRENCY = 3


class Letter(Data):
    tenant: str


letter = Workflow("letter", Letter)


@letter.step(concurrency=CONCURRENCY, key=lambda one: one.tenant)
def post(one: Letter) -> Literal["done"]:
    httpx.post(os.environ["PROVIDER_URL"], json={"tenant": one.tenant}, timeout=60)
    return "done"


letter.ends(done=True)
