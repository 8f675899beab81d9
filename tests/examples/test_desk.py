"""The example desk: what its capabilities write, twice and at once, and what they refuse."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from icalendar import Calendar

from interlock.kernel.scales import Level
from interlock.systems.threads.machines.autonomy import COMPOSITIONS, parse
from interlock.systems.threads.requests import read_request, request_files
from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.registry import Registry, load_registry
from interlock.workers.gateways.capabilities.result import Failed, Result, Succeeded
from interlock.workers.gateways.sources import CleanedUp, load_sources

ROOT = Path(__file__).parents[2]
INBOX = ROOT / "examples" / "inbox"
REQUESTS = {path.stem: read_request(path, host="here") for path in request_files(INBOX)}
TWICE = """
import asyncio, sys
from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.registry import load_registry
registry = load_registry("examples.capabilities")
async def main():
    for number in range(20):
        for name, given in (("append_note", {"text": "n"}), ("add_task", {"title": "t"})):
            bound = registry.bind(name, given, {"key": f"{sys.argv[1]}-{number}"})
            await call_capability(registry[name], bound, deadline_s=60)
            await call_capability(registry[name], bound, deadline_s=60)
asyncio.run(main())
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an empty desk where the example looks for one."""
    monkeypatch.setenv("EXAMPLE_DESK", str(tmp_path / "desk"))
    return tmp_path / "desk"


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Load the example's module."""
    return load_registry("examples.capabilities")


def act(registry: Registry, which: str, /, *, key: str = "k", **parameters: Any) -> Result:
    """Run a capability as the execution does."""
    bound = registry.bind(which, parameters, {"key": key})
    return asyncio.run(call_capability(registry[which], bound, deadline_s=60))


def test_the_desk_offers_what_the_readme_says(registry: Registry) -> None:
    catalog = {one.name: one for one in registry.catalog()}

    assert sorted(catalog) == [
        "add_appointment",
        "add_task",
        "append_note",
        "decompose",
        "file_document",
        "print_badge",
        "run_command",
    ]
    assert all(one.examples for one in catalog.values())
    assert [name for name, one in catalog.items() if not one.idempotent] == ["run_command"]
    assert catalog["run_command"].irreversibility is Level.HIGH


def test_each_parameter_that_text_can_fill_says_from_what(registry: Registry) -> None:
    hints = {
        f"{one.name}.{name}": schema.get("x-from")
        for one in registry.catalog()
        for name, schema in one.parameters["properties"].items()
    }

    assert hints == {
        "add_appointment.title": "title",
        "add_appointment.start": "datetime",
        "add_appointment.duration_min": "duration",
        "add_appointment.details": "details",
        "add_task.title": "title",
        "add_task.due": "date",
        "add_task.details": "details",
        "append_note.text": "matter",
        "decompose.children": "list",
        "decompose.relationship": None,
        "file_document.path": "path",
        "file_document.folder": "phrase",
        "print_badge.name": "name",
        "run_command.command": "command",
    }


def test_a_note_is_appended_once_per_key(desk: Path, registry: Registry) -> None:
    for key in ("a", "a", "b"):
        result = act(registry, "append_note", key=key, text="The code is\n4711 -->")

    assert isinstance(result, Succeeded)
    assert result.steps == ({"name": "note", "detail": "The code is 4711 -->"},)
    assert (desk / "notes.md").read_text().count("- The code is\n  4711 -->") == 2


def test_a_task_is_one_line_of_todo_txt_with_its_date(desk: Path, registry: Registry) -> None:
    for key in ("a", "a"):
        act(registry, "add_task", key=key, title="Buy\npaper", due="2026-03-06")
    act(registry, "add_task", key="b", title="Buy paper", due=None)
    act(registry, "add_task", key="c", title="Buy paper", details="Four boxes,\nthick.")

    first, second, third = (desk / "todo.txt").read_text().splitlines()
    assert third.startswith("Buy paper (Four boxes, thick.) key:")
    assert re.fullmatch(r"Buy paper due:2026-03-06 key:[0-9a-f]{16}", first)
    assert re.fullmatch(r"Buy paper key:[0-9a-f]{16}", second)


def test_an_appointment_is_in_the_calendar_once_with_its_offset_honoured(
    desk: Path, registry: Registry
) -> None:
    for key, start in (("a", "2026-03-10T10:30"), ("a", "2026-03-10T10:30")):
        act(registry, "add_appointment", key=key, title="Dentist", start=start, duration_min=30)
    more = {"start": "2026-03-10T10:30+02:00", "details": "In Mill Street."}
    act(registry, "add_appointment", key="b", title="Call", **more)

    calendar = Calendar.from_ical((desk / "calendar.ics").read_bytes())
    dentist, call = calendar.walk("VEVENT")
    assert str(dentist["summary"]) == "Dentist"
    assert dentist.decoded("dtstart").isoformat() == "2026-03-10T10:30:00"
    assert dentist.decoded("dtend").isoformat() == "2026-03-10T11:00:00"
    assert ("description" in dentist, str(call["description"])) == (False, "In Mill Street.")
    assert call.decoded("dtstart") == datetime(2026, 3, 10, 8, 30, tzinfo=UTC)


def test_a_document_is_filed_once_and_none_is_overwritten(desk: Path, registry: Registry) -> None:
    first = act(registry, "file_document", key="a", path="tray/invoice-2041.txt")
    again = act(registry, "file_document", key="a", path="tray/invoice-2041.txt")
    (desk / "tray" / "invoice-2041.txt").write_text("another")
    other = act(registry, "file_document", key="b", path="tray/invoice-2041.txt")
    other_again = act(registry, "file_document", key="b", path="tray/invoice-2041.txt")

    assert first == again
    assert other == other_again
    assert isinstance(first, Succeeded)
    assert isinstance(other, Succeeded)
    assert first.value == {"file": "archive/filed/invoice-2041.txt"}
    assert (desk / other.value["file"]).read_text() == "another"
    assert "62.90" in (desk / first.value["file"]).read_text()


@pytest.mark.parametrize("path", ["tray/none.txt", "../../etc/passwd", "/etc/passwd", ".", "tray"])
def test_what_is_no_document_on_the_desk_is_not_filed(
    desk: Path, registry: Registry, path: str
) -> None:
    result = act(registry, "file_document", path=path)

    assert isinstance(result, Failed)
    assert result.code == "error"
    assert "on the desk" in result.detail
    assert Path("/etc/passwd").exists()
    assert desk.exists()


def test_a_command_runs_in_the_desk_and_tells_all_it_said(desk: Path, registry: Registry) -> None:
    result = act(registry, "run_command", command="pwd; echo careful >&2")

    assert isinstance(result, Succeeded)
    assert result.value == {"exit_code": 0, "output": f"{desk}\n", "errors": "careful\n"}
    assert [step["name"] for step in result.steps] == ["command", "output", "errors"]


@pytest.mark.usefixtures("desk")
def test_a_command_that_fails_gives_exit_code_and_last_words(registry: Registry) -> None:
    result = act(registry, "run_command", command="echo first >&2; echo last >&2; exit 3")

    assert isinstance(result, Failed)
    assert (result.code, result.exit_code) == ("exit", 3)
    assert result.detail == "the command ended with exit code 3: last"


@pytest.mark.usefixtures("desk")
def test_the_badge_printer_is_offline(registry: Registry) -> None:
    result = act(registry, "print_badge", name="Mr Okafor")

    assert isinstance(result, Failed)
    assert result.code == "error"
    assert "offline" in result.detail


def test_two_workers_at_once_lose_and_double_nothing(desk: Path) -> None:
    environment = {**os.environ, "EXAMPLE_DESK": str(desk)}
    workers = [
        subprocess.Popen([sys.executable, "-c", TWICE, name], cwd=ROOT, env=environment)
        for name in ("one", "two")
    ]

    assert [worker.wait() for worker in workers] == [0, 0]
    assert (desk / "notes.md").read_text().count("- n <!--") == 40
    assert len((desk / "todo.txt").read_text().splitlines()) == 40
    assert sorted(path.name for path in (desk / "tray").iterdir()) == [
        "invoice-2041.txt",
        "lease-signed.txt",
    ]


def test_every_request_of_the_inbox_can_be_read_and_its_policy_parsed() -> None:
    assert len(REQUESTS) >= 14
    for request in REQUESTS.values():
        parse(request["policy"])


def test_the_inbox_holds_the_cases_that_the_readme_promises() -> None:
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    promised = re.findall(r"^\| `(\d\d-[\w-]+)` \|", readme, re.MULTILINE)

    assert promised == list(REQUESTS)
    empty = REQUESTS["07-nothing"]["inciting"]
    assert (empty["title"], empty["text"]) == ("", "")
    assert len(REQUESTS["09-moving-office"]["children"]) == 3
    assert REQUESTS["09-moving-office"]["relationship"] == "decompose"
    assert REQUESTS["10-server-room"]["priority"] == 0
    assert parse(REQUESTS["03-wifi-password"]["policy"]) == COMPOSITIONS["end_to_end"]


def test_no_request_says_which_capability_to_use(registry: Registry) -> None:
    for path in request_files(INBOX):
        assert not any(
            name in path.read_text() for name in (*registry_names(registry), "word_count")
        )


def registry_names(registry: Registry) -> list[str]:
    """Return the names that would give the answer away; `decompose` is also a relationship."""
    return [one.name for one in registry.catalog() if one.name != "decompose"]


def test_the_journal_line_of_the_example_can_be_cleaned_up(tmp_path: Path) -> None:
    for name in ("15-lunch-with-carla.md", "journal.txt"):
        (tmp_path / name).write_bytes((INBOX / name).read_bytes())
    inciting = read_request(tmp_path / "15-lunch-with-carla.md", host="here")["inciting"]

    outcome = asyncio.run(load_sources(root=tmp_path).clean_up(inciting, key="k"))

    assert isinstance(outcome, CleanedUp)
    assert not outcome.already_gone
    assert "Carla" not in (tmp_path / "journal.txt").read_text()
