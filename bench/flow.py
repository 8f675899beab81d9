"""The workflow that is measured beside the machine by hand: five steps that do nothing."""

from __future__ import annotations

from typing import Literal

from bench.marks import MARKS
from interlock import Data, Workflow


class Nothing(Data):
    """Data without a field."""


flow = Workflow("flow", Nothing)


@flow.step
def first(_: Nothing) -> Literal["second"]:
    MARKS.body()
    return "second"


@flow.step
def second(_: Nothing) -> Literal["third"]:
    MARKS.body()
    return "third"


@flow.step
def third(_: Nothing) -> Literal["fourth"]:
    MARKS.body()
    return "fourth"


@flow.step
def fourth(_: Nothing) -> Literal["fifth"]:
    MARKS.body()
    return "fifth"


@flow.step
def fifth(_: Nothing) -> Literal["done"]:
    MARKS.body()
    return "done"


flow.ends(done=True)
