"""Mistakes in a definition: at import its author reads what is wrong, in which line, and a cure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from interlock.kernel.machines import MACHINES
from interlock.workers.engine import own_systems
from interlock.workers.engine.system import SystemsError
from interlock.workers.systems import handlers
from tests.known_systems import know_only_ours

PAGE = Path(__file__).with_name("mistakes.md").read_text("utf-8")
HEAD: str = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
ROW = re.compile(r"^## ([^\n]*)\n\n> ([^\n]*)\n\n```python\n(.*?)```", re.DOTALL | re.MULTILINE)


class Mistake(NamedTuple):
    """A mistake as the page has it."""

    title: str
    words: str
    code: str

    @property
    def module(self) -> str:
        """The whole text of its module."""
        if self.code.startswith(("from ", "import ")):
            return self.code
        head = HEAD.rpartition("refund = ")[0] if " = Workflow(" in self.code else HEAD
        return head + self.code


MISTAKES = [Mistake(*row) for row in ROW.findall(PAGE)]


@pytest.fixture(autouse=True)
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget after a test which systems and modules there are."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    know_only_ours(monkeypatch)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def added(folder: Path, **modules: str) -> list[str]:
    """Write modules as files, and add them as `interlock up` does."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    files = [f"{name}.py" for name in modules]
    own_systems.add_systems(files, folder)
    return files


@pytest.mark.parametrize("mistake", MISTAKES, ids=[each.title for each in MISTAKES])
def test_a_mistake_is_named_at_import_with_its_line(mistake: Mistake, tmp_path: Path) -> None:
    with pytest.raises(SystemsError) as refusal:
        added(tmp_path, shop=mistake.module)

    sentence = str(refusal.value)
    assert mistake.words in sentence
    lines = mistake.module.splitlines()
    for number in (n for n, line in enumerate(lines, 1) if line.endswith("# here")):
        assert f"({tmp_path}/shop.py, line {number})" in sentence
    assert "interlock/workflow" not in sentence
    assert "\n" not in sentence
    assert all(entry.is_ours for entry in MACHINES.entries.values())


FILES = [
    ("absent.py", {}, "/absent.py on this computer; name one that is there, or install"),
    ("queue.py", {"queue": ""}, "the file queue.py is called as a module of Python is; rename"),
    ("celery.py", {"celery": ""}, "the file celery.py is called as a module that was imported"),
    ("my-shop.py", {"my-shop": ""}, "the file my-shop.py is not the name of a module; rename it"),
    ("my shop", {}, "`up`, is not the name of a module; a file ends with .py"),
    ("absent", {}, "the module 'absent', a word of INTERLOCK_SYSTEMS or `up`, cannot be imported"),
    ("absent", {}, "there is no 'absent' to import on this computer; install it"),
    ("shop.py", {"shop": "import absent"}, "the file shop.py cannot be imported: ModuleNotFound"),
    ("shop.py", {"shop": ""}, "the file shop.py has neither a Workflow"),
]


@pytest.mark.parametrize(("name", "files", "words"), FILES)
def test_a_file_that_cannot_be_a_module_is_named(
    name: str, files: dict[str, str], words: str, tmp_path: Path
) -> None:
    for stem, text in files.items():
        (tmp_path / f"{stem}.py").write_text(text)

    with pytest.raises(SystemsError, match=re.escape(words)):
        own_systems.add_systems([name], tmp_path)


PAY = """
@refund.step
def pay(r: Refund) -> Literal["done"]: ...
refund.ends(done=True)
"""


def test_two_files_with_a_workflow_of_one_name_are_named(tmp_path: Path) -> None:
    text = f"{HEAD}{PAY}"
    with pytest.raises(SystemsError) as refusal:
        added(tmp_path, first=text, second=text)

    line = text[: text.index("refund = ")].count("\n") + 1
    sentence = "cannot add the machine refund: there is a machine called refund already; rename it"
    assert f"{sentence} ({tmp_path}/second.py, line {line})" in str(refusal.value)


def test_a_workflow_that_two_files_have_is_added_once(tmp_path: Path) -> None:
    added(tmp_path, tasks=f"{HEAD}{PAY}", use="from tasks import refund\nsame = refund\n")

    assert [name for name in MACHINES if not MACHINES.is_ours(name)] == ["refund"]
    assert "refund.pay" in handlers()


WORKS = {
    "a union of Literals": """
        @refund.step
        def pay(r: Refund) -> Literal["done"] | Literal["late", "failed"]: ...
    """,
    "an alias": """
        Ways = Literal["done", "late"]
        @refund.step
        def pay(r: Refund) -> Ways | Annotated[Literal["failed"], "no money"]: ...
    """,
    "enums": """
        class Way(StrEnum):
            DONE = "done"
            LATE = "late"
        class Other(Enum):
            FAILED = "failed"
            NEVER = "never"
        @refund.step
        def pay(r: Refund) -> Way | Literal[Other.FAILED]: ...
    """,
    "a return type in quotes, beside one for type checkers alone": """
        if TYPE_CHECKING:
            from interlock import Work
        @refund.step
        def pay(r: "Refund", work: "Work") -> "Literal['done', 'late', 'failed']": ...
    """,
    "a type in a function, which makes the workflow": """
        def make():
            class Order(Data):
                order: str
            Ways = Literal["done", "late", "failed"]
            made = Workflow("refund", Order)
            @made.step
            def pay(o: "Order") -> "Ways": ...
            return made
        refund = make()
    """,
    "a decorator with functools.wraps": """
        def loud(function):
            @wraps(function)
            def inner(*arguments, **options):
                return function(*arguments, **options)
            return inner
        @refund.step
        @loud
        def pay(r: Refund) -> Literal["done", "late", "failed"]: ...
    """,
    "an async step with a parameter that has a default": """
        @refund.step
        async def pay(r: Refund, url="") -> Literal["done", "late", "failed"]: ...
    """,
    "a function of a class without an object": """
        class Steps:
            @staticmethod
            def pay(r: Refund) -> Literal["done", "late", "failed"]: ...
        refund.step(Steps.pay, name="pay")
    """,
    "methods and properties of the model, and a name that is given another value": """
        class Order(Data):
            order: str = ""
            @property
            def short(self):
                return self.order[:3]
            @short.setter
            def short(self, value):
                self.order = value
        refund = Workflow("refund", Order)
        @refund.step
        def pay(r: Order) -> Literal["done", "late", "failed"]:
            r.short = r.short + r.model_copy().order
            return "done"
        @refund.at_end("done")
        def clean(r: Order) -> None:
            r = r.order
            r.strip()
    """,
    "any type": """
        @refund.step
        def pay(r: Any) -> Literal["done", "late", "failed"]: ...
    """,
    "the base of the data": """
        @refund.step
        def pay(r: Data) -> Literal["done", "late", "failed"]: ...
    """,
    "what a step sets before it is used": """
        class Quote(Data):
            price: float | None = None
            due: datetime | None = None
        refund = Workflow("refund", Quote, start="pay")
        @refund.step
        def pay(q: Quote) -> Literal["done", "late", "failed", "asking", "waiting"]: ...
        refund.ask("asking", "Pay {price:.2f}?", yes="pay", offered={"yes": lambda q: q.price > 1})
        refund.wait("waiting", until=lambda q: q.due, then="pay")
    """,
    "types of many kinds": """
        class Part(BaseModel):
            count: int
        class Parcel(Data):
            code: Annotated[str, Field(min_length=8)]
            weight: Annotated[float, Field(gt=5, lt=11)]
            price: Decimal | None = None
            parts: list[Part] = []
            sizes: dict[str, tuple[int, int]] = {}
            tags: list[str] = []
            sent: datetime | None = None
            url: AnyHttpUrl = "https://example.com"
            loose: Any = None
            raw: bytes = b""
        refund = Workflow("refund", Parcel, title="{code}: {weight:.1f} kg")
        @refund.step
        def pay(p: Parcel) -> Literal["done", "late", "failed"]: ...
    """,
    "async": """
        import asyncio
        import time
        from interlock import Work
        async def send(order: str) -> str:
            return order
        @refund.step
        async def pay(r: Refund, work: Work) -> Literal["done", "late", "failed"]:
            await asyncio.to_thread(time.sleep, 0.1)
            await work.once_async("send", send, r.order)
            await asyncio.gather(*(work.saved_async(each, send, each) for each in r.order))
            later = work.saved_async("later", send, r.order)
            return "done" if await later else "late"
    """,
}
IMPORTS = """
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal
from pydantic import AnyHttpUrl, BaseModel, Field
from interlock import Data, Workflow
class Refund(Data):
    order: str
"""
REFUND = 'refund = Workflow("refund", Refund)\n'
ENDS = "refund.ends(done=True, late=False, failed=False)\n"


@pytest.mark.parametrize("future", [True, False], ids=["strings", "objects"])
@pytest.mark.parametrize("name", WORKS)
def test_what_is_no_mistake_works(name: str, future: bool, tmp_path: Path) -> None:  # noqa: FBT001
    body = dedent(WORKS[name])
    head = IMPORTS if "Workflow(" in body else IMPORTS + REFUND
    annotations = "from __future__ import annotations\n" if future else ""

    added(tmp_path, shop=annotations + head + body + ENDS)

    ways = {str(row.target) for row in MACHINES["refund"].transitions if row.source == "pay"}
    assert {"done", "late", "failed", "cancelled"} <= ways
