"""Types: a checker finds what is wrong in a program that writes and uses a workflow."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A comment at the end of a line has the codes of mypy's errors there. Pyright finds every one too.
PROGRAM = """\
from typing import Literal

from interlock import Client, Data, Inbox, Log, Sum, Work, Workflow, days


class Refund(Data):
    order: str
    cents: int
    payment: str = ""


class Parcel(Data):
    weight: float


class Mail(Data):
    text: str


refund = Workflow("refund", Refund, expires=days(3))
parcel = Workflow("parcel", Parcel)


def bank(refund: str, cents: int) -> str:
    return refund


@refund.step
def wrong_field(r: Refund) -> Literal["done"]:
    r.paymnt = "p"  # attr-defined
    return "done"


@refund.step(concurrency=5, key=lambda r: r.tenant)  # attr-defined
def wrong_key(r: Refund) -> Literal["done"]:
    return "done"


@refund.step(concurrency=5, key=lambda r: r.order)
def right_key(r: Refund) -> Literal["done"]:
    return "done"


@refund.step
def wrong_value(r: Refund) -> Literal["done"]:
    r.cents = "many"  # assignment
    return "done"


@refund.step
def wrong_return(r: Refund) -> Literal["done"]:
    return "dne"  # return-value


@refund.step  # arg-type
def wrong_model(p: Parcel) -> Literal["done"]:
    return "done"


@refund.step(once=True)  # arg-type
def wrong_model_with_options(p: Parcel) -> Literal["done"]:
    return "done"


@refund.step
def wrong_call(r: Refund, work: Work) -> Literal["done"]:
    r.payment = work.once("pay", bank, r.cents, r.order)  # arg-type, arg-type
    work.once("pay", bank, r.order)  # call-arg
    r.cents = work.once("pay", bank, r.order, r.cents)  # assignment
    work.reserv()  # attr-defined
    work.key = "x"  # misc
    return "done"


@refund.step  # type-var
def returns_nothing(r: Refund) -> None:
    return


@refund.step  # arg-type
def takes_too_much(r: Refund, work: Work, bank: str) -> Literal["done"]:
    return "done"


@refund.step  # type-var
def returns_a_number(r: Refund) -> int:
    return 3


refund.step(timeout=30)  # call-overload
refund.step(concurrency="five")  # call-overload
refund.step(max_attemps=3)  # call-overload
refund.ask("a", "b", approve=3)  # arg-type
refund.ask("a", "b", approve="pay", offered={"approve": lambda r: r.centz > 3})  # attr-defined


def is_small(p: Parcel) -> bool:
    return p.weight < 1


refund.ask("a", "b", approve="pay", offered={"approve": is_small})  # dict-item
refund.wait("w", until=lambda r: r.cents, then="done")  # arg-type, return-value
refund.wait("w", timeout=3, on_timeout="done")  # arg-type
refund.ask("a", "b", approve=("done", str))  # arg-type


@refund.on("tell")  # arg-type
def tell(r: Parcel, mail: Mail) -> None:
    pass


@refund.on("say")  # type-var
def say(r: Refund, mail: str) -> None:
    pass


@refund.at_end("done")  # arg-type
def clean(p: Parcel) -> None:
    pass


refund.ends(done="yes")  # arg-type
Workflow("x", dict)  # type-var
Workflow("x", Refund, expires=3)  # arg-type
Workflow("x", Refund, renamed=["a"])  # arg-type
Workflow("x", Refund, schema=2, migrate=lambda old: Parcel(weight=1))  # arg-type, return-value
client = Client(actor="shop")
client.submit(refund, Parcel(weight=1))  # misc
client.submit(refund, Refund(order="o"))  # call-arg
client.get(refund, "r-1").wrong_field  # attr-defined
client.result(refund, "r-1", timeout_s=3).cents.lower()  # attr-defined
client.submit(refund, Refund(order="o", cents="1"))  # arg-type


class Agent(Data):
    log: Log[str] = []
    mail: Inbox[Mail] = []
    count: Sum[int] = 0


class Box(Data):
    grams: int = 0
    boxes: list[Parcel] = []


box = Workflow("box", Box, budget={"tokens": 3})  # arg-type


@box.each("boxes", then="join", on_failur="skip")  # call-overload, call-overload, untyped-decorator
def weigh(p: Parcel) -> None: ...


@box.each("boxes", then="join")  # type-var
def weigh_all(p: Parcel) -> str:
    return ""


@box.each("boxes", then="join", on_failure="skip")
def lift(p: Parcel, work: Work) -> None:
    work.reserve(tokens="many")  # arg-type
    work.spend(3)  # call-arg


@box.step
def join(b: Box, work: Work) -> Literal["done"]:
    b.grams = work.results(lift)[0].weight  # union-attr, assignment
    b.grams = work.saved("model", bank, "r", "c")  # arg-type, assignment
    return "finished"  # return-value


agent = Workflow("agent", Agent)


@agent.step
def think(a: Agent) -> Literal["done"]:
    a.log.append(3)  # arg-type
    a.mail[0].txt  # attr-defined
    a.count += "x"  # operator
    return "done"
"""


@pytest.mark.slow
def test_mypy_finds_each_planted_fault_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text(PROGRAM, "utf-8")
    mypy = [sys.executable, "-m", "mypy", "--strict", str(program)]

    run = subprocess.run(mypy, cwd=ROOT, check=False, capture_output=True, text=True)

    found: dict[int, list[str]] = defaultdict(list)
    for line, code in re.findall(r"shop.py:(\d+): error: .*\[([a-z-]+)\]", run.stdout):
        found[int(line)].append(code)
    planted = {
        number: text.rpartition("  # ")[2].split(", ")
        for number, text in enumerate(PROGRAM.splitlines(), 1)
        if "  # " in text
    }
    assert {line: sorted(codes) for line, codes in found.items()} == {
        line: sorted(codes) for line, codes in planted.items()
    }, run.stdout + run.stderr
