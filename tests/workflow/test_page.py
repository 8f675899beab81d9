"""The programs of docs/workflows.md: each is imported as `interlock up` does, and is run."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.engine import own_systems
from interlock.workers.engine.system import Definition
from interlock.workers.gateways.server import EmbeddedServer
from tests.known_systems import know_only_ours
from tests.workflow.at_work import AtWork

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "workflows.md").read_text("utf-8")
PROGRAMS = {
    re.findall(r'Workflow\(\s*"(\w+)"', text)[0]: text
    for text in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}


@dataclass(frozen=True)
class Story:
    """What is handed in, what is called or answered one after another, and how it ends."""

    payload: dict[str, Any]
    end: str
    answers: tuple[tuple[str, dict[str, Any]], ...] = ()
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    other: tuple[str, dict[str, Any]] = ("", {})  # a record beside it: id and payload


STORIES = {
    "refund": Story({"order": "o-1", "cents": 0}, "failed", data={"reason": "0 is not positive"}),
    "card_charge": Story(
        {"cents": 5, "key": "env:STRIPE_KEY"},
        "done",
        data={"key": "env:STRIPE_KEY", "charge": "charge of 5 with a key of 14 letters"},
    ),
    "leave": Story(
        {"who": "Ann", "from_day": "Monday"},
        "refused",
        answers=(("later", {}), ("refuse", {"reason": "too many are away"})),
        data={"reason": "too many are away"},
    ),
    "delivery_round": Story(
        {"due": "2036-03-10T09:00:00"},
        "done",
        calls=(("tell", {"text": "ring twice"}), ("leaves", {}), ("arrived", {})),
    ),
    "gift": Story(
        {"wish": "tea", "parcel": "two"}, "failed", other=("two", {"wish": "tea", "parcel": "?"})
    ),
    "document": Story(
        {"text": "one two\n\nthree"}, "done", data={"summary": "one two three", "skipped": 0}
    ),
    "claim": Story(
        {"cents": 10_00},
        "paid",
        calls=(("add_note", {"text": "wet"}), ("waive", {})),
        data={"note": "wet"},
    ),
    "purchase": Story(
        {"item": "tea"},
        "withdrawn",
        calls=(("withdraw", {"reason": "too late"}), ("packed", {})),
        data={"withdrawn": "too late", "payment": ""},
    ),
    "machine_lease": Story({"machine": "crane"}, "done", calls=(("given_back", {}),)),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder for programs; what is imported from it is forgotten after the test."""
    shutil.copy(ROOT / "examples" / "own" / "model.py", tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("STRIPE_KEY", "sk_live_abcdef")
    know_only_ours(monkeypatch)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", "") and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def test_every_program_of_the_page_has_a_story() -> None:
    assert set(PROGRAMS) == set(STORIES)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_no_page_kills_processes_by_their_name(page: Path) -> None:
    words = set(re.findall(r"[a-z]+", page.read_text("utf-8")))
    assert not words & {"pkill", "killall"}, "those of other people have the same name"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_page_runs(
    name: str, folder: Path, server: EmbeddedServer, prefix: str
) -> None:
    (folder / f"own_{name}.py").write_text(PROGRAMS[name], "utf-8")
    own_systems.add_systems([f"own_{name}.py"], folder)
    module, story = sys.modules[f"own_{name}"], STORIES[name]
    found = [value for value in vars(module).values() if isinstance(value, Definition)]
    flows = [*found, *(child for one in found for child in vars(one.children).values())]
    worker = AtWork(server.url, prefix, *flows)

    worker.client.submit(story.payload, machine=name, id="one")
    worker.work("one")
    other, payload = story.other
    if other:
        worker.client.submit(payload, machine=name, id=other)
        worker.work(other)
    for choice, fields in story.answers:
        worker.answer("one", choice, **fields)
    for call, fields in story.calls:
        worker.client.fire("one", call, fields)
    ended = worker.reach("one", story.end)

    assert ended.data.items() >= story.data.items()
